"""Lower triangular factors of running sums: what the noise of a stream of months is.

The running sums of T months are A X, with A the lower triangle of ones and X the months. With
A = B C, whose columns of C have length 1, C X + W is one Gaussian mechanism in which a person of
one month moves a vector of that person's length, and B (C X + W) = A X + B W is computed from it
[1]_. C is the square root of A, a Toeplitz matrix, with its columns brought to length 1 [2]_, [3]_.

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

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privgram._base.numbers import Matrix, Vector


#: Factors of more periods take longer to make than a release.
MOST_PERIODS = 4096

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
    def inverse_root(self) -> Vector:
        """Coefficients of its inverse, shape (T,): c_k = c_(k-1) (2k - 3) / (2k)."""
        k = np.arange(1, self.periods)
        return np.cumprod(np.append(1.0, (2 * k - 3) / (2 * k)))

    @cached_property
    def factor(self) -> Matrix:
        """C, shape (T, T); its columns have length 1."""
        from scipy.linalg import toeplitz

        return np.asarray(toeplitz(self.root, np.zeros(self.periods)) / self.lengths)

    @cached_property
    def lengths(self) -> Vector:
        """Lengths of the columns of the square root, shape (T,)."""
        return np.sqrt(np.cumsum(self.root**2))[::-1]

    def step(self, period: int) -> Vector:
        """Weights of the noises of periods 1 to t in the t-th summand of B W, shape (t,).

        B C = A says that row t of B less row t - 1 is row t of C^-1.
        """
        weights: Vector = self.lengths[period - 1] * self.inverse_root[:period][::-1]
        return weights

    def row(self, period: int) -> Vector:
        """Weights of the noises of periods 1 to t in the t-th running sum, shape (t,): of B."""
        # Entry s is the sum over j from s to t of lengths_j times inverse_root_(j - s).
        found = np.zeros(period)
        for j in range(1, period + 1):
            found[:j] += self.step(j)
        return found

    @cached_property
    def sensitivity(self) -> float:
        """Bound of how far C X moves by a person, whose matrices have norm 1 in each period.

        Exact for one period: 1. Inner products of positive semidefinite matrices are not negative,
        nor are the entries of C^T C: the square is at most the sum of (C^T C)_ij over the person's
        periods i, j. That is bounded by the best choice of periods j for every i, and of the i by
        these bounds (docs/theory/streams.md).
        """
        most = min(self.months, 1 + (self.periods - 1) // self.apart)
        if most == 1:
            return 1.0
        overlap = self.factor.T @ self.factor
        if self.apart == 1 and most == self.periods:
            return float(np.sqrt(overlap.sum()))
        each = _best(overlap, most, self.apart)
        return float(np.sqrt(_best(each[None], most, self.apart)[0]) * (1 + 1e-12))


def _best(weights: Matrix, most: int, apart: int) -> Vector:
    """Largest sums of up to `most` weights of a row, `apart` from each other; shape (k,).

    By dynamic programming over the columns, for `weights` of shape (k, T), not negative.
    """
    rows, periods = weights.shape
    found = np.empty(rows)
    for start in range(0, rows, 64):
        part = weights[start : start + 64]
        # best[j]: of the first j columns, by how many were taken.
        best = np.zeros((periods + 1, len(part), most + 1))
        for j in range(1, periods + 1):
            best[j] = best[j - 1]
            taken = best[max(j - apart, 0), :, :-1] + part[:, j - 1, None]
            np.maximum(best[j, :, 1:], taken, out=best[j, :, 1:])
        found[start : start + 64] = best[-1].max(axis=1)
    return found


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

    def step(self, period: int) -> Vector:
        """Weights of the noises of periods 1 to t in the t-th summand, shape (t,)."""
        *_, (epoch, own) = self._parts(period)
        return np.append(np.zeros(period - own), epoch.step(own))

    def between(self, start: int, stop: int) -> Vector:
        """Weights of all noises up to `stop` in the sum of the periods after `start`."""
        row = self._row(stop)
        row[:start] -= self._row(start)
        return row

    def _row(self, period: int) -> Vector:
        """Row of B: the last rows of the epochs that are over, and that of the period."""
        return np.concatenate([np.zeros(0), *(e.row(own) for e, own in self._parts(period))])
