"""Find, prune, project: the whole of Hardt and Roth's algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.drawing import random
from privgram.papers.hardt_roth._checks import (
    CalibrationKind,
    check_budget,
    check_row_change,
    check_share,
)
from privgram.papers.hardt_roth.calibration import calibrate
from privgram.papers.hardt_roth.entries import Rounded
from privgram.papers.hardt_roth.factors import LowRank
from privgram.papers.hardt_roth.finder import find
from privgram.papers.hardt_roth.projection import add_noise, exact_std, published_std

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

__all__ = ["approximate", "prune"]


def approximate(
    A: Any,
    rank: int,
    oversample: int | None = None,
    prune: float | None = None,
    *,
    epsilon: float,
    delta: float,
    rng: np.random.Generator | None = None,
    row_change: float = 1.0,
    calibration: CalibrationKind = "exact",
    leverage: float | None = None,
    allow_published_erratum: bool = False,
) -> LowRank:
    """Approximate a matrix by one of rank k = rank + oversample, privately: PFP.

    Parameters
    ----------
    A : array_like, CSR or CSC matrix, or re-iterable of row blocks, of shape (m, n)
        SECRET. Two passes are made over it, and nothing of its size is formed.
    rank, oversample : int
        r >= 2 and p >= 2 with r + p <= min(m, n); the default of p is r + 1.
    prune : float, optional
        Level alpha, in (0, 1], above which entries of W become zero: a public number, such
        as `prune_level` of a public estimate. By default nothing is pruned.
    epsilon, delta : float
        Budget.
    rng : numpy.random.Generator, optional
        For experiments; by default a cryptographic generator.
    row_change : float
        Neighbours differ in one row by at most this, in L2. For a table of ratings from 1 to
        5, one rating is a row change of at most 5, a whole row of up to t of them 5 sqrt(t).
    calibration : {"exact", "published"}
    leverage : float, optional
        Public guess that the split of the budget uses, see `calibrate`.
    allow_published_erratum : bool
        As in `privgram.papers`. The result then has the true delta.

    Returns
    -------
    LowRank
        With left = W, pruned.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or an entry is not finite.
    TypeError
        If A is not such a matrix.

    References
    ----------
    Hardt and Roth, STOC 2012, Figure 4.
    """
    generator, reproducible = random.resolve(rng)
    epsilon, delta = check_budget(epsilon, delta)
    level = None if prune is None else check_share(prune, "prune")
    blocks = Rounded(A, check_row_change(row_change))
    noise = calibrate(
        blocks.shape,
        rank,
        oversample,
        epsilon=epsilon,
        delta=delta,
        row_change=row_change,
        calibration=calibration,
        leverage=leverage,
        allow_published_erratum=allow_published_erratum,
    )
    W = find(blocks, noise.k, noise.finder_std, generator)
    if level is not None:
        W = _prune(W, level)
    if calibration == "published":
        std = published_std(W, noise.row_change, epsilon / 2, delta / 2)
    else:
        std = exact_std(W, noise.row_change, noise.projection_ratio)
    C = add_noise(blocks, W, std, generator)
    if allow_published_erratum:  # which is what it has in truth
        delta = max(delta, noise.privacy.delta(epsilon))
    return LowRank(W, C, epsilon, delta, noise.row_change, noise.privacy, reproducible)


def prune(W: Any, level: float) -> Matrix:
    """Set to zero what exceeds a level in magnitude: step 2 of PFP, on public data.

    Parameters
    ----------
    W : array_like of shape (m, k)
    level : float
        alpha, in (0, 1].

    Returns
    -------
    ndarray of shape (m, k), float64

    Raises
    ------
    ValueError
        If `level` is outside its range.

    References
    ----------
    Hardt and Roth, STOC 2012, Figure 4.
    """
    return _prune(np.asarray(W, dtype=np.float64), check_share(level, "level"))


def _prune(W: Matrix, level: float) -> Matrix:
    return np.where(np.abs(W) > level, 0.0, W)
