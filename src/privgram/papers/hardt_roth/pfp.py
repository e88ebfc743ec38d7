"""Find, prune, project: Hardt and Roth's algorithm and its steps, exact until noise is added."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.numbers import check_budget
from privgram._core import orthonormal
from privgram.papers._blocks import MatrixBlock, MatrixBlocks, in_order
from privgram.papers.hardt_roth.calibration import (
    TEST_MARGIN,
    CalibrationKind,
    calibrate,
    check_ranks,
    check_row_change,
    check_share,
    finder_std,
    is_published,
)
from privgram.papers.hardt_roth.factors import LowRank
from privgram.papers.hardt_roth.products import (
    Integers,
    LargeTotal,
    Product,
    products,
    with_entries,
)
from privgram.papers.hardt_roth.theorems import figure_3
from privgram.privacy.calibration import gaussian_ratio
from privgram.secret import generators

if TYPE_CHECKING:
    from collections.abc import Iterable

    from privgram._base.numbers import Matrix


#: Bits of W in the projection, relative to its largest column norm.
BASIS_BITS = 20

#: The rounding of A adds at most 2**-MARGIN_BITS of `row_change` to the change of a row.
MARGIN_BITS = 10


def entry_unit(n: int, row_change: float) -> float:
    """Power of two that entries are rounded to multiples of; n of them move a row by little."""
    return 2.0 ** (math.floor(math.log2(row_change / math.sqrt(n))) - MARGIN_BITS)


def entry_limit(shape: tuple[int, int], row_change: float = 1.0) -> float:
    r"""Largest magnitude an entry is taken at; larger ones are clamped to it.

    It is between :math:`2^{30}` and :math:`2^{31}` row changes over :math:`\sqrt{mn}`, and knows no
    data. Clamping moves no two entries apart, so neighbours stay neighbours. With it no integer of
    either step overflows. An error instead would tell that there is such an entry.
    """
    m, n = shape
    # Sums of m products with a column of W, of norm 2**BASIS_BITS, stay below 2**62.
    steps = math.floor(2.0 ** (61 - BASIS_BITS) / math.sqrt(m))
    return steps * entry_unit(n, check_row_change(row_change))


class Rounded:
    """A matrix (m, n) with its entries clamped to `entry_limit` and rounded to multiples of a unit.

    All that is ever computed of it are exact products with matrices of integers, in its units:
    the same to the last bit for every storage, every cutting into blocks and every thread.
    The largest change of a row, `row_change` in L2, grows by a factor `growth` once it is rounded.
    """

    def __init__(self, matrix: Any, row_change: float) -> None:
        row_change = check_row_change(row_change)
        self._blocks = MatrixBlocks(matrix)
        self.shape = self._blocks.shape
        n = self.shape[1]
        self.row_change = row_change
        self.unit = entry_unit(n, row_change)
        self.growth = 1 + self.unit * math.sqrt(n) / row_change
        self._limit = entry_limit(self.shape, row_change)

    def times(self, right: Integers) -> LargeTotal:
        """Product with a dense matrix of shape (n, k), of shape (m, k)."""
        return self._product(self._blocks, right, self.shape[0])

    def trans_times(self, left: Integers) -> LargeTotal:
        """Product of the transpose with a dense matrix of shape (m, k), of shape (n, k)."""
        turned = (MatrixBlock(b.columns, b.rows, b.values.T) for b in self._blocks)
        return self._product(turned, left, self.shape[1])

    def _product(self, blocks: Iterable[MatrixBlock], right: Integers, rows: int) -> LargeTotal:
        total = LargeTotal((rows, right.matrix.shape[1]))

        def job(block: MatrixBlock) -> list[Product]:
            return list(products(self._integers(block.values), right, block.columns))

        for block, parts in in_order(job, blocks):
            for part in parts:
                total.add(block.rows, part)
        return total

    def _integers(self, values: Any) -> Integers:
        """The entries in units."""
        entries = values if isinstance(values, np.ndarray) else values.data
        entries = np.clip(entries, -self._limit, self._limit)
        entries /= self.unit
        np.rint(entries, out=entries)
        return Integers(with_entries(values, entries))


def range_finder(
    A: Any,
    rank: int,
    oversample: int | None,
    epsilon: float,
    delta: float,
    rng: np.random.Generator | None = None,
    *,
    row_change: float = 1.0,
    calibration: CalibrationKind = "exact",
    allow_published_erratum: bool = False,
) -> Matrix:
    """Find an orthonormal basis that holds most of a matrix, privately.

    Parameters
    ----------
    epsilon, delta : float
        Budget of this step.

    Returns
    -------
    ndarray of shape (m, r + p), float64
        W, with orthonormal columns; the last may be zero where A outweighs the noise by 10^11.

    Notes
    -----
    The product is computed exactly, of A and the random matrix rounded to public grids, and
    meets the noise in integers; what that adds to the change of a row is in the noise. See
    docs/theory/range-finder-projection.md.

    This is Figure 2 of Hardt and Roth.
    """
    generator, _ = generators.resolve(rng)
    epsilon, delta = check_budget(epsilon, delta)
    blocks = Rounded(A, row_change)
    k = sum(check_ranks(blocks.shape, rank, oversample))
    std = finder_std(k, blocks.row_change, epsilon, delta, calibration, allow_published_erratum)
    return find_factors(blocks, k, std, generator)


def find_factors(blocks: Rounded, k: int, std: float, rng: np.random.Generator) -> Matrix:
    """Steps 1 to 5 of Figure 2, with noise of `std` but for what rounding adds."""
    Omega, step = rounded_normals(blocks.shape[1], k, rng)
    # The last factor is for the rounding of these very numbers.
    grown = std * blocks.growth * math.sqrt(1 + TEST_MARGIN) * (1 + 1e-12)
    Y = blocks.times(Omega).noisy(grown / blocks.unit / step, rng)
    W, found = orthonormal.noisy_orthonormalise(None, Y, 0.0)
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


def project(
    A: Any,
    W: Any,
    epsilon: float,
    delta: float,
    rng: np.random.Generator | None = None,
    *,
    row_change: float = 1.0,
    calibration: CalibrationKind = "exact",
) -> Matrix:
    """Show W^T A with noise.

    Parameters
    ----------
    W : array_like of shape (m, k)
        PUBLIC: it must not have been computed from A but by a private step such as
        `range_finder`.
    epsilon, delta : float
        Budget of this step.

    Returns
    -------
    ndarray of shape (k, n), float64
        C. The approximation is W C.

    Notes
    -----
    W^T A is computed exactly, of A and W rounded to public grids, and meets the noise in
    integers: Theorem 2 and "On a machine" of docs/theory/range-finder-projection.md. This is
    Figure 3 of Hardt and Roth.
    """
    generator, _ = generators.resolve(rng)
    epsilon, delta = check_budget(epsilon, delta)
    blocks = Rounded(A, row_change)
    basis = np.asarray(W, dtype=np.float64)
    if basis.ndim != 2 or basis.shape[0] != blocks.shape[0] or basis.shape[1] < 1:
        raise ValueError(
            f"W must have shape ({blocks.shape[0]}, k), one row for each of A, not {basis.shape}"
        )
    if not np.isfinite(basis).all():
        raise ValueError("W must be finite")
    if is_published(calibration):
        std = published_std(basis, blocks.row_change, epsilon, delta)
    else:
        std = exact_std(basis, blocks.row_change, gaussian_ratio(epsilon, delta))
    return noisy_projection(blocks, basis, std, generator)


def on_grid(W: Matrix) -> tuple[Matrix, float]:
    """W as integers times a power of two, their column norms about 2**BASIS_BITS at most."""
    norm = math.sqrt(float(np.einsum("ij,ij->j", W, W).max()))
    # A hair less: lengths of 1 are so but for rounding.
    step = 2.0 ** (math.ceil(math.log2(norm or 1.0) - 1e-12) - BASIS_BITS)
    return np.rint(W / step), step


def exact_std(W: Matrix, row_change: float, ratio: float) -> Matrix:
    """Standard deviations of the k rows of noise, all the same, for a sensitivity ratio."""
    basis, step = on_grid(W)
    largest = math.sqrt(float(np.einsum("ij,ij->i", basis, basis).max()))
    # Where all is pruned there is nothing to hide.
    return np.full(W.shape[1], row_change / ratio * step * (largest or 1.0))


def published_std(W: Matrix, row_change: float, epsilon: float, delta: float) -> Matrix:
    """Standard deviations of the k rows of the noise of Figure 3."""
    rho = row_change * figure_3(W.shape[1], epsilon, delta)
    basis, step = on_grid(W)
    largest = np.abs(basis).max(axis=0)
    return rho * step * np.where(largest > 0, largest, 1.0)


def noisy_projection(blocks: Rounded, W: Matrix, std: Matrix, rng: np.random.Generator) -> Matrix:
    """W^T A + noise, exact of A and W on their grids, with noise of `std` but for A's rounding."""
    basis, step = on_grid(W)
    # The last factor is for the rounding of these very numbers.
    scale = std * blocks.growth * (1 + 1e-12) / (blocks.unit * step)
    C = blocks.trans_times(Integers(basis)).noisy(scale, rng)
    C *= blocks.unit * step
    return C.T


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
        "published" is the paper's: half of epsilon and of delta for each step.
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
    generator, reproducible = generators.resolve(rng)
    epsilon, delta = check_budget(epsilon, delta)
    level = None if prune is None else check_share(prune, "prune")
    blocks = Rounded(A, row_change)
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
    W = find_factors(blocks, noise.k, noise.finder_std, generator)
    if level is not None:
        W = np.where(np.abs(W) > level, 0.0, W)
    if is_published(calibration):
        std = published_std(W, noise.row_change, epsilon / 2, delta / 2)
    else:
        std = exact_std(W, noise.row_change, noise.projection_ratio)
    C = noisy_projection(blocks, W, std, generator)
    if allow_published_erratum:  # which is what it has in truth
        delta = max(delta, noise.privacy.delta(epsilon))
    return LowRank(W, C, epsilon, delta, noise.row_change, noise.privacy, reproducible)


def prune(W: Any, level: float) -> Matrix:
    """Set to zero what exceeds a level in magnitude: step 2 of PFP (Figure 4), on public data.

    Parameters
    ----------
    W : array_like of shape (m, k)
    level : float
        alpha, in (0, 1], or ValueError.

    Returns
    -------
    ndarray of shape (m, k), float64
    """
    basis = np.asarray(W, dtype=np.float64)
    return np.where(np.abs(basis) > check_share(level, "level"), 0.0, basis)
