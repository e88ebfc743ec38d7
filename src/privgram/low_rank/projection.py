"""Projection on a public basis, exact until the noise is added.

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
from privgram._blocks import Block, Blocks, in_order
from privgram.low_rank._checks import (
    CalibrationKind,
    check_budget,
    check_calibration,
    check_row_change,
)
from privgram.low_rank.calibration import projection_ratio
from privgram.low_rank.entries import BASIS_BITS, Clamped, entry_unit
from privgram.low_rank.finder import CHUNK, GRID_BITS

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
    A : array_like, CSR or CSC matrix, or re-iterable of row blocks, of shape (m, n)
        SECRET.
    W : array_like of shape (m, k)
        PUBLIC: it must not have been computed from A but by a private step such as
        `range_finder`.
    epsilon, delta : float
        Budget of this step.
    rng, row_change, calibration
        As in `approximate`.

    Returns
    -------
    ndarray of shape (k, n), float64
        C. The approximation is W C.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or an entry is not finite.
    TypeError
        If A is no such matrix.

    Notes
    -----
    W^T A is computed exactly, of A and W rounded to public grids, and meets the noise in
    integers; see docs/guide/low-rank.md.

    References
    ----------
    Hardt and Roth [1]_, Figure 3.
    """
    generator, _ = random.resolve(rng)
    epsilon, delta = check_budget(epsilon, delta)
    c = check_row_change(row_change)
    blocks = Clamped(A, c)
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
    return add_noise(blocks, basis, std, c, generator)


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
    from privgram.privacy import published

    rho = row_change * published.hardt_roth_figure_3(W.shape[1], epsilon, delta)
    basis, step = on_grid(W)
    largest = np.abs(basis).max(axis=0)
    return rho * step * np.where(largest > 0, largest, 1.0)


def add_noise(
    blocks: Blocks, W: Matrix, std: Matrix, row_change: float, rng: np.random.Generator
) -> Matrix:
    """W^T A + noise, met in integers.

    A is rounded to multiples of `unit`, so that a row's change grows by at most unit sqrt(n),
    and W to multiples of `step`. Their product is an exact integer matrix in unit x step; the
    noise is drawn in floats with no data in sight, rounded to integers, added without error,
    and the sum rounded to a public grid below the noise.
    """
    n = blocks.shape[1]
    basis, step = on_grid(W)
    unit = entry_unit(n, row_change)
    # The change of a row, rounded; the last factor is for the rounding of these very numbers.
    scale = std * (1 + unit * math.sqrt(n) / row_change) * (1 + 1e-12) / (unit * step)
    if scale.max() > 2.0**55:
        raise ValueError("the privacy parameters are too small for any useful projection")
    total = integer_product(blocks, basis, unit)
    exponent = max(0, math.floor(math.log2(scale.min())) - GRID_BITS)
    out = np.empty(total.shape)
    for start in range(0, n, CHUNK):
        part = total[start : start + CHUNK]
        noise = rng.standard_normal(part.shape)
        noise *= scale
        part += np.rint(noise).astype(np.int64)
        part += (1 << exponent) >> 1
        part >>= exponent
        out[start : start + CHUNK] = part
    out *= 2.0**exponent * unit * step
    return out.T


def integer_product(blocks: Blocks, basis: Matrix, unit: float) -> NDArray[np.int64]:
    """A^T basis, exact, A in multiples of `unit`.

    Entries of A are at most `entry_limit`, and the integers of `basis` have column norms of
    about 2**BASIS_BITS at most: any sum stays below 2**62.
    """
    total = np.zeros((blocks.shape[1], basis.shape[1]), np.int64)

    def products(block: Block) -> list[tuple[Matrix, int]]:
        values = block.values / unit
        data = values if isinstance(values, np.ndarray) else values.data
        np.rint(data, out=data)
        largest = float(np.abs(data).max(initial=0.0))
        if largest <= 2.0 ** (52 - BASIS_BITS):
            return exact(values, largest, basis[block.rows], 0)
        high = values.copy()
        data = high if isinstance(values, np.ndarray) else high.data
        np.rint(data / 2.0**BASIS_BITS, out=data)
        low = values - high * 2.0**BASIS_BITS
        rows = basis[block.rows]
        most = 2.0**BASIS_BITS
        return exact(high, largest / most + 1, rows, BASIS_BITS) + exact(low, most, rows, 0)

    def exact(values: Any, largest: float, rows: Matrix, shift: int) -> list[tuple[Matrix, int]]:
        # A sum of t products is at most sqrt(t) |column of the basis| |largest entry| < 2^53.
        norm = math.sqrt(float(np.einsum("ij,ij->j", rows, rows).max()))
        t = max(1, min(len(rows), int((2.0**52 / max(1.0, norm * largest)) ** 2)))
        return [(values[i : i + t].T @ rows[i : i + t], shift) for i in range(0, len(rows), t)]

    for block, parts in in_order(products, blocks):
        within = total[block.columns]
        for part, shift in parts:
            for start in range(0, len(part), CHUNK):
                piece = part[start : start + CHUNK].astype(np.int64)
                within[start : start + CHUNK] += piece << shift
    return total
