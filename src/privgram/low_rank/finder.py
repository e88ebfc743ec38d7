"""Range finder: a noisy product with a random matrix, made orthonormal.

References
----------
.. [1] M. Hardt and A. Roth, "Beating Randomized Response on Incoherent Matrices",
   STOC 2012, arXiv:1111.0623.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram import random
from privgram._blocks import Blocks
from privgram.low_rank._checks import (
    CalibrationKind,
    check_budget,
    check_calibration,
    check_ranks,
    check_row_change,
)
from privgram.low_rank.calibration import finder_std
from privgram.low_rank.entries import Clamped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

__all__ = ["find", "range_finder"]

#: Released numbers are multiples of a power of two this much below the noise's scale.
GRID_BITS = 10
#: Rows that are given their noise at a time.
CHUNK = 1 << 16


def range_finder(
    A: Any,
    rank: int,
    oversample: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rng: np.random.Generator | None = None,
    *,
    row_change: float = 1.0,
    calibration: CalibrationKind = "exact",
    allow_published_erratum: bool = False,
) -> Matrix:
    """Find an orthonormal basis that holds most of a matrix, privately.

    Parameters
    ----------
    A : array_like, CSR or CSC matrix, or re-iterable of row blocks, of shape (m, n)
        SECRET.
    rank, oversample : int
        r >= 2 and p >= 2 with r + p <= min(m, n); the default of p is r + 1.
    epsilon, delta : float
        Budget of this step.
    rng, row_change, calibration, allow_published_erratum
        As in `approximate`.

    Returns
    -------
    ndarray of shape (m, r + p), float64
        W, with orthonormal columns; the last may be zero where A outweighs the noise by 10^11.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or an entry is not finite.
    TypeError
        If A is no such matrix.

    References
    ----------
    Hardt and Roth [1]_, Figure 2.
    """
    generator, _ = random.resolve(rng)
    epsilon, delta = check_budget(epsilon, delta)
    c = check_row_change(row_change)
    blocks = Clamped(A, c)
    k = sum(check_ranks(blocks.shape, rank, oversample))
    check_calibration(calibration)
    std = finder_std(k, c, epsilon, delta, calibration, allow_published_erratum)
    return find(blocks, k, std, generator)


def find(blocks: Blocks, k: int, std: float, rng: np.random.Generator) -> Matrix:
    """Steps 1 to 5 of Figure 2. Row i of Y comes from row i of A alone."""
    from privgram._core.orthonormal import noisy_orthonormalise

    Y = blocks.times(rng.standard_normal((blocks.shape[1], k)))
    # The low bits of a sum of floats can tell one summand from another: show none of them.
    grid = 2.0 ** (math.floor(math.log2(std)) - GRID_BITS)
    for start in range(0, len(Y), CHUNK):
        part = Y[start : start + CHUNK]
        part += std * rng.standard_normal(part.shape)
        part /= grid
        np.rint(part, out=part)
    # Scaling a column changes its direction by nothing; the grid's integers stay exact.
    W, found = noisy_orthonormalise(None, Y, 0.0)
    # Where the noise of an enormous epsilon is lost beside A, columns depend on each other. Y is
    # private, and so is to say which: they become zero.
    return np.pad(W, ((0, 0), (0, k - found)))
