"""Range finder: a noisy product with a random matrix, exact until it is made orthonormal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.drawing import random
from privgram.exact.integers import Integers
from privgram.papers.hardt_roth._checks import (
    CalibrationKind,
    check_budget,
    check_calibration,
    check_ranks,
    check_row_change,
)
from privgram.papers.hardt_roth.calibration import TEST_MARGIN, finder_std
from privgram.papers.hardt_roth.entries import Rounded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

__all__ = ["find", "range_finder"]


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
    A, rank, oversample, rng, row_change, calibration, allow_published_erratum
        As in `approximate`.
    epsilon, delta : float
        Budget of this step.

    Returns
    -------
    ndarray of shape (m, r + p), float64
        W, with orthonormal columns; the last may be zero where A outweighs the noise by 10^11.

    Raises
    ------
    ValueError, TypeError
        As of `approximate`.

    Notes
    -----
    The product is computed exactly, of A and the random matrix rounded to public grids, and
    meets the noise in integers; what that adds to the change of a row is in the noise. See
    docs/theory/range-finder-projection.md.

    References
    ----------
    Hardt and Roth, STOC 2012, Figure 2.
    """
    generator, _ = random.resolve(rng)
    epsilon, delta = check_budget(epsilon, delta)
    c = check_row_change(row_change)
    blocks = Rounded(A, c)
    k = sum(check_ranks(blocks.shape, rank, oversample))
    check_calibration(calibration)
    std = finder_std(k, c, epsilon, delta, calibration, allow_published_erratum)
    return find(blocks, k, std, generator)


def find(blocks: Rounded, k: int, std: float, rng: np.random.Generator) -> Matrix:
    """Steps 1 to 5 of Figure 2, with noise of `std` but for what rounding adds."""
    from privgram._core.orthonormal import noisy_orthonormalise

    Omega, step = rounded_normals(blocks.shape[1], k, rng)
    # The last factor is for the rounding of these very numbers.
    grown = std * blocks.growth * math.sqrt(1 + TEST_MARGIN) * (1 + 1e-12)
    Y = blocks.times(Omega).noisy(grown / blocks.unit / step, rng)
    W, found = noisy_orthonormalise(None, Y, 0.0)
    # Where the noise of an enormous epsilon is lost beside A, columns depend on each other. Y is
    # private, so these may be told: they become zero.
    return np.pad(W, ((0, 0), (0, k - found)))


def rounded_normals(n: int, k: int, rng: np.random.Generator) -> tuple[Integers, float]:
    """Omega, rounded to multiples of a power of two: as integers, and the power.

    Half of a step times sqrt(n) is at most `TEST_MARGIN`.
    """
    step = 2.0 ** math.floor(math.log2(2 * TEST_MARGIN / math.sqrt(n)))
    values = rng.standard_normal((n, k))
    values /= step
    return Integers(np.rint(values, out=values)), step
