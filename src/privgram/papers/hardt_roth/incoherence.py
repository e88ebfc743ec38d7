"""Coherence of a matrix: how evenly it is spread over its rows. Not private.

References
----------
.. [1] M. Hardt and A. Roth, "Beating Randomized Response on Incoherent Matrices",
   STOC 2012, arXiv:1111.0623.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.checks import check_integer
from privgram.papers.hardt_roth.baselines import subspace
from privgram.papers.hardt_roth.factors import LowRank
from privgram.papers.hardt_roth.theorems import theorem_6_2, theorem_6_3
from privgram.sources.blocks import Blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Coherence", "coherence"]

_DENSE = 1 << 22
"""Up to this many entries all singular vectors are computed."""


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
    singular_values: NDArray[np.float64]

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
    A : array_like, CSR or CSC matrix, or re-iterable of row blocks, of shape (m, n)
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
    TypeError
        If A is not such a matrix.

    References
    ----------
    Hardt and Roth [1]_, Definitions 5.1 and 5.5.
    """
    blocks = Blocks(A)
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


def _left_vectors(
    blocks: Blocks, rank: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
