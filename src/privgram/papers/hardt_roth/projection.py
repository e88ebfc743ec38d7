"""Projection on a public basis, exact until the noise is added."""

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
    check_row_change,
)
from privgram.papers.hardt_roth.calibration import projection_ratio
from privgram.papers.hardt_roth.entries import BASIS_BITS, Rounded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

__all__ = ["add_noise", "exact_std", "project", "published_std"]


def project(
    A: Any,
    W: Any,
    epsilon: float | None = None,
    delta: float | None = None,
    rng: np.random.Generator | None = None,
    *,
    row_change: float = 1.0,
    calibration: CalibrationKind = "exact",
) -> Matrix:
    """Show W^T A with noise.

    Parameters
    ----------
    A, rng, row_change, calibration
        As in `approximate`.
    W : array_like of shape (m, k)
        PUBLIC: it must not have been computed from A but by a private step such as
        `range_finder`.
    epsilon, delta : float
        Budget of this step.

    Returns
    -------
    ndarray of shape (k, n), float64
        C. The approximation is W C.

    Raises
    ------
    ValueError, TypeError
        As of `approximate`.

    Notes
    -----
    W^T A is computed exactly, of A and W rounded to public grids, and meets the noise in
    integers; see docs/guide/low-rank.md.

    References
    ----------
    Hardt and Roth, STOC 2012, Figure 3.
    """
    generator, _ = random.resolve(rng)
    epsilon, delta = check_budget(epsilon, delta)
    c = check_row_change(row_change)
    blocks = Rounded(A, c)
    basis = np.asarray(W, dtype=np.float64)
    if basis.ndim != 2 or basis.shape[0] != blocks.shape[0] or basis.shape[1] < 1:
        raise ValueError(
            f"W must have shape ({blocks.shape[0]}, k), one row for each of A, not {basis.shape}"
        )
    if not np.isfinite(basis).all():
        raise ValueError("W must be finite")
    if check_calibration(calibration) == "published":
        std = published_std(basis, c, epsilon, delta)
    else:
        std = exact_std(basis, c, projection_ratio(epsilon, delta))
    return add_noise(blocks, basis, std, generator)


def on_grid(W: Matrix) -> tuple[Matrix, float]:
    """W as integers times a power of two, their column norms about 2**BASIS_BITS at most."""
    norm = math.sqrt(float(np.einsum("ij,ij->j", W, W).max()))
    step = 2.0 ** (math.ceil(math.log2(norm or 1.0)) - BASIS_BITS)
    return np.rint(W / step), step


def exact_std(W: Matrix, row_change: float, ratio: float) -> Matrix:
    """Standard deviations of the k rows of noise, all the same, for a sensitivity ratio."""
    basis, step = on_grid(W)
    largest = math.sqrt(float(np.einsum("ij,ij->i", basis, basis).max()))
    # Where all is pruned there is nothing to hide.
    return np.full(W.shape[1], row_change / ratio * step * (largest or 1.0))


def published_std(W: Matrix, row_change: float, epsilon: float, delta: float) -> Matrix:
    """Standard deviations of the k rows of the noise of Figure 3."""
    from privgram.papers.hardt_roth.theorems import figure_3

    rho = row_change * figure_3(W.shape[1], epsilon, delta)
    basis, step = on_grid(W)
    largest = np.abs(basis).max(axis=0)
    return rho * step * np.where(largest > 0, largest, 1.0)


def add_noise(blocks: Rounded, W: Matrix, std: Matrix, rng: np.random.Generator) -> Matrix:
    """W^T A + noise, exact of A and W on their grids, with noise of `std` but for A's rounding."""
    basis, step = on_grid(W)
    # The last factor is for the rounding of these very numbers.
    scale = std * blocks.growth * (1 + 1e-12) / (blocks.unit * step)
    C = blocks.trans_times(Integers(basis)).noisy(scale, rng)
    C *= blocks.unit * step
    return C.T
