"""What find-and-project is compared with, and the coherence of a matrix. Not private."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.numbers import check_budget, check_integer
from privgram._core import orthonormal
from privgram._core.draws import ChaCha20
from privgram.papers._blocks import MatrixBlocks
from privgram.papers.hardt_roth.calibration import check_ranks, check_row_change
from privgram.papers.hardt_roth.factors import LowRank
from privgram.papers.hardt_roth.theorems import theorem_6_2, theorem_6_3
from privgram.privacy import GaussianProfile
from privgram.privacy.calibration import gaussian_ratio
from privgram.secret import generators

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector


#: Up to this many entries all singular vectors are computed.
_DENSE = 1 << 22


def halko_martinsson_tropp(
    A: Any,
    rank: int,
    oversample: int | None = None,
    rng: np.random.Generator | None = None,
    *,
    iterations: int = 0,
) -> LowRank:
    """Approximate a matrix without any privacy: the base algorithm, for comparison.

    Parameters
    ----------
    iterations : int
        Power iterations, two passes each. The paper's has none.

    Returns
    -------
    LowRank
        NOT private.

    References
    ----------
    N. Halko, P.-G. Martinsson and J. A. Tropp, "Finding Structure with Randomness", SIAM Review 53,
    2011; Hardt and Roth, STOC 2012, Figure 1.
    """
    generator, _ = generators.resolve(rng)
    blocks = MatrixBlocks(A)
    k = sum(check_ranks(blocks.shape, rank, oversample))
    iterations = check_integer(iterations, "iterations", 0)
    return LowRank(*subspace(blocks, k, iterations, generator))


def randomised_response(
    A: Any,
    rank: int,
    epsilon: float,
    delta: float,
    rng: np.random.Generator | None = None,
    *,
    row_change: float = 1.0,
    iterations: int = 4,
) -> LowRank:
    """Add noise to every entry and approximate what comes out: the baseline of the paper.

    Parameters
    ----------
    rank : int
        r, from 1 to min(m, n).
    iterations : int
        Power iterations by which the best approximation of the noisy matrix is found.

    Returns
    -------
    LowRank
        Of rank r.

    Notes
    -----
    The m n normals are drawn anew, and the same, at each of the 2 + 2 `iterations` passes,
    so that memory is bounded by a few dense blocks. The noise meets A in floats: this is a
    baseline for experiments.
    """
    generator, reproducible = generators.resolve(rng)
    epsilon, delta = check_budget(epsilon, delta)
    c = check_row_change(row_change)
    ratio = gaussian_ratio(epsilon, delta)
    noisy = Perturbed(A, c / ratio, generator)
    rank = check_integer(rank, "rank", 1, min(noisy.shape))
    iterations = check_integer(iterations, "iterations", 0)
    k = min(2 * rank + 1, *noisy.shape)
    found = LowRank(*subspace(noisy, k, iterations, generator))
    u, s, vt = found.svd(rank)
    return LowRank(u * s, vt, epsilon, delta, c, GaussianProfile(ratio), reproducible)


def frobenius_error(A: Any, low: LowRank) -> float:
    """||A - low||_F, in one pass and without anything of A's size. NOT private.

    Parameters
    ----------
    A : array-like of shape (m, n)
        The secret matrix.
    low : LowRank
        Its approximation.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    blocks = MatrixBlocks(A)
    if blocks.shape != low.shape:
        raise ValueError(f"shapes differ: {blocks.shape} and {low.shape}")
    total = float(blocks.squared_row_norms().sum())
    cross = float(np.sum(low.left * blocks.times(low.right.T)))
    square = float(np.sum((low.left.T @ low.left) * (low.right @ low.right.T)))
    return math.sqrt(max(0.0, total - 2 * cross + square))


def subspace(
    blocks: MatrixBlocks, k: int, iterations: int, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """Figure 1, with power iterations: Q (m, k) and Q^T A (k, n)."""
    Y = blocks.times(rng.standard_normal((blocks.shape[1], k)))
    Q, _ = orthonormal.noisy_orthonormalise(None, Y, 0.0)
    for _ in range(iterations):
        Z, _ = orthonormal.noisy_orthonormalise(None, blocks.trans_times(Q), 0.0)
        Q, _ = orthonormal.noisy_orthonormalise(None, blocks.times(Z), 0.0)
    return Q, blocks.trans_times(Q).T


class Perturbed(MatrixBlocks):
    """A matrix with independent noise on every entry, the same at every pass."""

    def __init__(self, matrix: Any, std: float, rng: np.random.Generator) -> None:
        super().__init__(matrix)
        self._std = std
        self._key = rng.bytes(32)

    def __iter__(self) -> Any:
        rng = np.random.Generator(ChaCha20(self._key))
        for block in super().__iter__():
            sparse = not isinstance(block.values, np.ndarray)
            values = block.values.toarray() if sparse else block.values
            yield block._replace(values=values + self._std * rng.standard_normal(values.shape))


@dataclass(frozen=True)
class Coherence:
    """How evenly a matrix is spread over its rows. NOT private: computed from the data.

    Attributes
    ----------
    shape : tuple of int
        (m, n).
    C : float
        Largest row norm times sqrt(m) / ||A||_F, from 1 to sqrt(m).
    mu0 : float
        (m / rank) times the largest squared row norm of the left singular vectors, from 1
        to m / rank; of the leading `rank` ones if a rank was given, NaN if none was computed.
    rank : int
        Of the matrix, or as given; 0 if none was computed.
    frobenius : float
        ||A||_F.
    largest_row : float
        Largest row norm.
    singular_values : ndarray of shape (rank,)
        Falling; approximate if a rank was given.
    """

    shape: tuple[int, int]
    C: float
    mu0: float
    rank: int
    frobenius: float
    largest_row: float
    singular_values: Vector

    def tail(self, rank: int) -> float:
        """||A - A_r||_F, for r up to the rank computed."""
        kept = float(np.sum(self.singular_values[: check_integer(rank, "rank", 0)] ** 2))
        return math.sqrt(max(0.0, self.frobenius**2 - kept))

    def promise_6_2(self, rank: int, oversample: int, epsilon: float, delta: float) -> float:
        """`theorem_6_2` for this matrix."""
        return theorem_6_2(
            self.shape, rank, oversample, self.C, self.frobenius, self.tail(rank), epsilon, delta
        )

    def promise_6_3(self, rank: int, oversample: int, epsilon: float, delta: float) -> float:
        """`theorem_6_3` for this matrix, its rank taken for the one computed."""
        return theorem_6_3(
            self.shape, rank, oversample, self.mu0, self.rank, self.tail(rank), epsilon, delta
        )

    def __repr__(self) -> str:
        m, n = self.shape
        return (
            f"<Coherence of {m} x {n}: C = {self.C:.3g}, mu0 = {self.mu0:.3g} at rank"
            f" {self.rank}; computed from the data, NOT private>"
        )


def coherence(A: Any, rank: int | None = None) -> Coherence:
    """Measure the coherence of a matrix. NOT private.

    Parameters
    ----------
    rank : int, optional
        Take mu0 of this many leading left singular vectors, found by subspace iteration. By
        default of all that belong to the numerical rank, for up to 2^22 entries, and of
        none for larger matrices.

    Returns
    -------
    Coherence

    Raises
    ------
    ValueError
        If A is zero, has an entry whose square is not finite, or `rank` is outside its range.

    References
    ----------
    Hardt and Roth, STOC 2012, Definitions 5.1 and 5.5.
    """
    blocks = MatrixBlocks(A)
    m, n = blocks.shape
    squares = blocks.squared_row_norms()
    frobenius, largest = math.sqrt(squares.sum()), math.sqrt(squares.max())
    if frobenius == 0:
        raise ValueError("a zero matrix has no coherence")
    if not math.isfinite(frobenius):
        raise ValueError("the squares of the entries are beyond float64; take another unit")
    U, s = _left_vectors(blocks, rank)
    found = len(s)
    mu0 = m / found * float(np.einsum("ij,ij->i", U, U).max()) if found else math.nan
    return Coherence((m, n), largest * math.sqrt(m) / frobenius, mu0, found, frobenius, largest, s)


def _left_vectors(blocks: MatrixBlocks, rank: int | None) -> tuple[Matrix, Vector]:
    m, n = blocks.shape
    if rank is not None:
        rank = check_integer(rank, "rank", 1, min(m, n))
        k = min(2 * rank + 8, m, n)
        # Any generator will do: nothing is hidden by it.
        u, s, _ = LowRank(*subspace(blocks, k, 4, np.random.default_rng(0))).svd(rank)
        return u, s
    if m * n > _DENSE:
        return np.empty((m, 0)), np.empty(0)
    dense = np.zeros((m, n))
    for block in blocks:
        values = block.values
        dense[block.rows, block.columns] = (
            values if isinstance(values, np.ndarray) else values.toarray()
        )
    u, s, _ = np.linalg.svd(dense, full_matrices=False)
    found = int(np.sum(s > s[0] * max(m, n) * np.finfo(np.float64).eps))
    return u[:, :found], s[:found]
