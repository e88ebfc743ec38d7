"""Which mechanism to take where nothing else decides: by the plan, the command line, `release`."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

from privgram.mechanisms.additive_wishart import AdditiveWishart
from privgram.mechanisms.analyze_gauss import AnalyzeGauss
from privgram.mechanisms.matrix_laplace import MatrixLaplace

if TYPE_CHECKING:
    from privgram.mechanisms._base import Mechanism
    from privgram.privacy import Adjacency

__all__ = ["default", "noise_edge"]


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
