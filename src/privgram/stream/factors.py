"""Lower triangular factors of running sums: what the noise of a stream of months is.

The running sums of T months are A X, with A the lower triangle of ones and X the months. With
A = B C, whose columns of C have length 1, C X + W is one Gaussian mechanism in which a person of
one month moves a vector of that person's length, and B (C X + W) = A X + B W is computed from it
[1]_. C is the square root of A, a Toeplitz matrix, with its columns brought to length 1 [2]_, [3]_,
and rounded down to multiples of 2^-20, so that C X is whole and W can be too. B is A C^-1.

References
----------
.. [1] S. Denisov, H. B. McMahan, J. Rush, A. Smith, A. G. Thakurta, "Improved differential privacy
   for SGD via optimal private linear operators on adaptive streams", NeurIPS 2022, Theorem 2.1.
.. [2] H. Fichtenberger, M. Henzinger, J. Upadhyay, "Constant matters: fine-grained error bound on
   differentially private continual observation", ICML 2023.
.. [3] N. P. Kalinin, J. Upadhyay, C. H. Lampert, "Continual release moment estimation with
   differential privacy", 2025, arXiv 2502.06597.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector


#: Factors of more periods take longer to make than a release.
MOST_PERIODS = 4096

#: Binary places of the entries of C.
FACTOR_PLACES = 20

#: Periods of the first epoch where nobody says how many there will be.
FIRST_PERIODS = 12


@dataclass(frozen=True)
class Epoch:
    """The factors of the running sums of a known number of periods, in [1, 4096].

    One person may have rows in up to `months` of them, each `apart` from the last.
    """

    periods: int
    months: int = 1
    apart: int = 1

    @cached_property
    def root(self) -> Vector:
        """Coefficients of the square root of A, shape (T,): c_k = c_(k-1) (2k - 1) / (2k)."""
        k = np.arange(1, self.periods)
        return np.cumprod(np.append(1.0, (2 * k - 1) / (2 * k)))

    @cached_property
    def lengths(self) -> Vector:
        """Lengths of the columns of the square root, shape (T,)."""
        return np.sqrt(np.cumsum(self.root**2))[::-1]

    def factor(self, periods: int) -> Matrix:
        """C of the first periods, shape (t, t), times 2^FACTOR_PLACES: whole numbers.

        Its columns have at most length 1, whatever float64 has rounded.
        """
        from scipy.linalg import toeplitz

        ideal = toeplitz(self.root[:periods], np.zeros(periods)) / self.lengths[:periods]
        return np.asarray(np.floor(ideal * (2.0**FACTOR_PLACES * (1 - 2.0**-40))))

    def row(self, period: int) -> Vector:
        """Weights of what was published in the t-th running sum, shape (t,): of B."""
        from scipy.linalg import solve_triangular

        factor = self.factor(period) * 2.0**-FACTOR_PLACES
        weights: Vector = solve_triangular(factor, np.ones(period), trans="T", lower=True)
        return weights

    @cached_property
    def sensitivity(self) -> float:
        """Bound of how far C X moves by a person, whose matrices have norm 1 in each period.

        Exact for one period, but for the rounding of C: 1. Inner products of positive semidefinite
        matrices are not negative, nor are the entries of C: the square is at most the sum of
        (C^T C)_ij over the person's periods i, j. That is bounded by the best choice of periods j
        for every i, and of the i by these bounds (docs/theory/streams.md).
        """
        most = min(self.months, 1 + (self.periods - 1) // self.apart)
        if most == 1:
            return 1.0
        factor = self.factor(self.periods) * 2.0**-FACTOR_PLACES
        overlap = factor.T @ factor
        return math.sqrt(self.most_of(overlap)) * (1 + 1e-12)

    def most_of(self, overlap: Matrix) -> float:
        """The most that anybody's periods have of a matrix, by the two programmes."""
        most = min(self.months, 1 + (self.periods - 1) // self.apart)
        if self.apart == 1 and most >= len(overlap):
            return float(overlap.sum())
        each = _best(overlap, most, self.apart)
        return float(_best(each[None], most, self.apart)[0])


def _best(weights: Matrix, most: int, apart: int) -> Vector:
    """Largest sums of up to `most` weights of a row, `apart` from each other; shape (k,).

    By dynamic programming over the columns, for `weights` of shape (k, T), not negative.
    """
    rows, periods = weights.shape
    sums = np.empty(rows)
    for start in range(0, rows, 64):
        part = weights[start : start + 64]
        # best[j]: of the first j columns, by how many were taken.
        best = np.zeros((periods + 1, len(part), most + 1))
        for j in range(1, periods + 1):
            best[j] = best[j - 1]
            taken = best[max(j - apart, 0), :, :-1] + part[:, j - 1, None]
            np.maximum(best[j, :, 1:], taken, out=best[j, :, 1:])
        sums[start : start + 64] = best[-1].max(axis=1)
    return sums


@dataclass(frozen=True)
class RunningSums:
    """The factors of a stream: of one epoch, or of epochs that follow each other.

    C is block-diagonal, a block an epoch, so that an epoch can be added when the last is over. A
    person of one period is in one epoch, and the guarantee is that of each.
    """

    epochs: tuple[Epoch, ...]

    @property
    def periods(self) -> int:
        """Number of periods in all."""
        return sum(epoch.periods for epoch in self.epochs)

    def doubled(self) -> RunningSums:
        """With one more epoch, as long as all before it."""
        return RunningSums((*self.epochs, replace(self.epochs[-1], periods=self.periods)))

    def _parts(self, period: int) -> Iterator[tuple[Epoch, int]]:
        """The epochs up to a period, from 1, and how many periods of each are over."""
        for epoch in self.epochs:
            if period > 0:
                yield epoch, min(period, epoch.periods)
            period -= epoch.periods

    def factor(self, period: int) -> NDArray[np.int64]:
        """C of the periods up to one, times 2^FACTOR_PLACES, shape (t, t).

        Row t is what of each period is in what the t-th publishes.
        """
        from scipy.linalg import block_diag

        blocks = (epoch.factor(within) for epoch, within in self._parts(period))
        return np.asarray(block_diag(*blocks), np.int64)

    def between(self, start: int, stop: int) -> Vector:
        """Weights of what was published up to `stop` in the sum of the periods after `start`."""
        row = self._row(stop)
        row[:start] -= self._row(start)
        return row

    def _row(self, period: int) -> Vector:
        """Row of B: the last rows of the epochs that are over, and that of the period."""
        return np.concatenate([np.zeros(0), *(e.row(within) for e, within in self._parts(period))])
