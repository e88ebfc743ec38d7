"""Which mechanism to take where nothing else decides: by the plan, the command line, `release`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, get_args

from privgram.mechanisms.additive_wishart import AdditiveWishart
from privgram.mechanisms.analyze_gauss import AnalyzeGauss
from privgram.mechanisms.matrix_laplace import MatrixLaplace
from privgram.mechanisms.refined import Refined

if TYPE_CHECKING:
    from privgram.mechanisms._base import Mechanism
    from privgram.privacy import Adjacency

__all__ = ["Purpose", "best", "default", "noise_edge"]

#: What a release is for.
Purpose = Literal["regression", "components", "means"]


def noise_edge(noise_std: float, n_columns: int) -> float:
    """What the eigenvalues of symmetric noise stay within: 2 s sqrt(d) for a deviation s."""
    return 2 * noise_std * math.sqrt(n_columns)


def default(
    n_columns: int,
    bound: float,
    epsilon: float,
    delta: float,
    n_rows: int | None = None,
    adjacency: Adjacency = "replace",
) -> Mechanism:
    """The mechanism to take: `AnalyzeGauss`, `AdditiveWishart`, or at delta = 0 `MatrixLaplace`.

    `AdditiveWishart` where publicly few rows, below twice the noise's edge, may leave a release of
    `AnalyzeGauss` without a positive definite matrix.

    Parameters
    ----------
    n_columns, bound, epsilon, delta, n_rows, adjacency
        As in `Mechanism.calibrate`.

    Raises
    ------
    ValueError
        If the guarantee cannot be met.
    """
    setting = n_columns, bound, epsilon, delta, adjacency
    if delta == 0:
        MatrixLaplace().calibrate(*setting)
        return MatrixLaplace()
    gauss = AnalyzeGauss().calibrate(*setting)
    if n_rows is not None and n_rows < 2 * noise_edge(gauss.noise_std, n_columns):
        with suppress(ValueError):
            AdditiveWishart().calibrate(*setting)
            return AdditiveWishart()
    return AnalyzeGauss()


def best(
    table: Any,
    delta: float,
    purpose: Purpose = "regression",
    *,
    grouped: bool = False,
    of_units: bool = False,
) -> Mechanism | None:
    """The mechanism that serves a purpose best on a table, by what is public.

    Parameters
    ----------
    table : table
        Only whether it can be read again matters.
    delta : float
    purpose : {"regression", "components", "means"}
    grouped, of_units : bool
        Whether there are releases of groups, and whether all rows of a unit are protected.

    Returns
    -------
    Mechanism or None
        `Refined` for regressions on rows that can be read again; it ends in one look where its
        first one says that others gain nothing. Else None, for one look by `default`.
    """
    if purpose not in get_args(Purpose):
        raise ValueError(f"purpose is one of {', '.join(get_args(Purpose))}, not {purpose!r}")
    once = isinstance(table, Iterator) or purpose != "regression"
    return None if once or grouped or of_units or delta == 0 else Refined()
