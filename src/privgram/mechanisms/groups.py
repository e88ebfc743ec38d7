"""Noise for the groups of a table, each of which is released with noise of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privgram.mechanisms.additive_wishart import AdditiveWishart
from privgram.mechanisms.analyze_gauss import AnalyzeGauss
from privgram.mechanisms.matrix_laplace import MatrixLaplace
from privgram.mechanisms.refined import Refined

if TYPE_CHECKING:
    from privgram.mechanisms._base import Mechanism
    from privgram.privacy import Adjacency

__all__ = ["calibrate_groups", "check_groups"]


def check_groups(mechanism: Mechanism, adjacency: Adjacency, of_units: bool = False) -> None:
    """Raise ValueError if a mechanism has no proof for the groups of a table, or of units."""
    if isinstance(mechanism, Refined):
        raise ValueError(
            "Refined() looks at one table several times, and not at its groups: take AnalyzeGauss()"
        )
    gaussian = isinstance(mechanism, AnalyzeGauss) and mechanism.noise != "discrete"
    if of_units and not gaussian:
        raise ValueError(
            "groups of units, which may have rows in several, have a proof for Gaussian noise "
            "alone: take AnalyzeGauss(), and a positive delta"
        )
    additive = AnalyzeGauss, AdditiveWishart, MatrixLaplace
    if adjacency == "replace" and not isinstance(mechanism, additive):
        raise ValueError(
            f"{type(mechanism).__name__}() has no proof for groups under 'replace', where one row "
            "may leave a group and enter another: take adjacency='add-remove', or AnalyzeGauss()"
        )


def calibrate_groups(
    mechanism: Mechanism,
    n_columns: int,
    bound: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
) -> Any:
    """Calibration of each group that makes the releases of all groups together private.

    Under "add-remove" a row is in one group: parallel composition. Under "replace" it may change
    its group. Two of the matrices then are the diagonal blocks of the second moment of a table of
    twice as many columns, and the noise is that of this table (docs/theory/composition.md).
    """
    check_groups(mechanism, adjacency)
    width = 2 * n_columns if adjacency == "replace" else n_columns
    noise = mechanism.calibrate(width, bound, epsilon, delta, adjacency)
    return replace(noise, n_columns=n_columns)
