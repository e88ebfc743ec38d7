r"""The steps of find-and-project: worst pairs of matrices, and log-likelihood ratios.

The range finder shows an orthonormal basis W, made by Gram-Schmidt from the columns of
:math:`Y = A\Omega + N`, which are independent draws of N(0, Sigma),
:math:`\Sigma = A A^T + \rho^2 I`. With Y = W R, dY is the product of :math:`r_{ii}^{m-i}` with
dR dW. Integrating R out leaves, up to what no A changes,

.. math:: \ln p(W) = -\frac k2 \ln|\Sigma| - \sum_{i=1}^k (m + k + 1 - 2i) \ln u_{ii}, \qquad
          U^T U = W^T \Sigma^{-1} W

with U triangular: put T = U R, whose k columns have Jacobian :math:`\prod u_{ii}^{k-i+1}`. So
the best test of the basis that is released is known, and not only that of Y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from privgram.papers import hardt_roth as low_rank
from privgram.papers.hardt_roth.calibration import finder_profile, finder_ratio
from privgram.privacy import GaussianProfile, Profile
from privgram.privacy.calibration import gaussian_ratio

from .cases import Case, Pair

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["CASES", "FindAndProject", "Projection", "RangeFinder", "Step", "scores", "worst_pairs"]

#: A row that tells what the change of another is multiplied by.
LOUD = 1e4


@dataclass(frozen=True)
class Step:
    """A step of find-and-project, as `privgram audit` runs it: rows change by at most 1."""

    def stored(self, A: Array) -> Any:
        """A as it is handed over to be released."""
        return A


@dataclass(frozen=True)
class RangeFinder(Step):
    """`low_rank.range_finder`.

    Attributes
    ----------
    rank, oversample : int
    n_rows : int
        m. Most of the rows are zero: from them the test learns the scale of the noise, which
        the orthonormal basis does not show otherwise.
    """

    rank: int = 2
    oversample: int = 2
    n_rows: int = 1000

    def release(self, A: Array, epsilon: float, delta: float, rng: np.random.Generator) -> Array:
        """W."""
        return low_rank.range_finder(A, self.rank, self.oversample, epsilon, delta, rng)

    def pairs(self) -> list[Pair]:
        """A row of zeros against e1, with e1 many times over in another row."""
        k = self.rank + self.oversample
        without = np.zeros((self.n_rows, k))
        without[1, 0] = LOUD
        row = without.copy()
        row[0, 0] = 1.0
        return [Pair(("e1", "0"), row, without)]

    def claimed(self, epsilon: float, delta: float, shape: tuple[int, int]) -> Profile:
        """Its exact profile."""
        k = self.rank + self.oversample
        return finder_profile(k, finder_ratio(k, epsilon, delta))

    def log_density(self, released: list[Array], A: Array, epsilon: float, delta: float) -> Array:
        """Log-densities of the bases, given A."""
        std = 1 / finder_ratio(self.rank + self.oversample, epsilon, delta)
        return _basis(np.stack(released), A, std)


@dataclass(frozen=True)
class Projection(Step):
    """`low_rank.project`, on a basis of four rows and two columns."""

    def release(self, A: Array, epsilon: float, delta: float, rng: np.random.Generator) -> Array:
        """C."""
        return low_rank.project(A, self.basis, epsilon, delta, rng)

    @property
    def basis(self) -> Array:
        """Orthonormal columns; no row is longer than the first."""
        return np.array([[0.48, 0.64], [0.6, 0.0], [0.0, 0.6], [0.64, -0.48]])

    def pairs(self) -> list[Pair]:
        """Pairs that differ where W has its longest row: zero against e1 and against (e1 + e2)."""
        none = np.zeros((4, 3))
        axis, between = none.copy(), none.copy()
        axis[0, 0] = 1.0
        between[0] = 1 / math.sqrt(3)
        return [Pair(("e1", "0"), axis, none), Pair(("e1+e2+e3", "0"), between, none)]

    def claimed(self, epsilon: float, delta: float, shape: tuple[int, int]) -> Profile:
        """Its exact profile."""
        return GaussianProfile(gaussian_ratio(epsilon, delta))

    def log_density(self, released: list[Array], A: Array, epsilon: float, delta: float) -> Array:
        """Log-densities of the projections, given A."""
        W = self.basis
        std = np.linalg.norm(W, axis=1).max() / gaussian_ratio(epsilon, delta)
        result: Array = -np.sum((np.stack(released) - W.T @ A) ** 2, axis=(1, 2)) / (2 * std**2)
        return result


@dataclass(frozen=True)
class FindAndProject(Step):
    """`low_rank.approximate`: both steps, W and C released together.

    Attributes
    ----------
    rank, oversample, n_rows : int
        As of `RangeFinder`.
    n_columns : int
        n. With so many columns, and the guess that W may be of any coherence, each step is
        given about half of the budget.
    copies : int
        Rows alike. The more there are, the nearer the noise comes to its bound in the row that
        changes; but W spreads over them, and the changed row must keep the longest row of W.
    """

    rank: int = 2
    oversample: int = 2
    n_rows: int = 1000
    n_columns: int = 300
    copies: int = 20

    def release(
        self, A: Array, epsilon: float, delta: float, rng: np.random.Generator
    ) -> low_rank.LowRank:
        """Factors W and C."""
        k = self.rank, self.oversample
        return low_rank.approximate(A, *k, epsilon=epsilon, delta=delta, rng=rng, leverage=1.0)

    def stored(self, A: Array) -> Any:
        """A, nearly all zeros, in CSR."""
        return csr_array(A)

    def pairs(self) -> list[Pair]:
        """Copies of a large e2, one of them with e1 added; and as many of a large e1.

        The row that changes is among the largest of A, hence among the longest of W, and both
        what hides its change and what multiplies it are known from the others.
        """
        without = np.zeros((self.n_rows, self.n_columns))
        without[: self.copies, 1] = LOUD
        without[self.copies : 2 * self.copies, 0] = LOUD
        row = without.copy()
        row[0, 0] = 1.0
        return [Pair(("a+e1", "a"), row, without)]

    def claimed(self, epsilon: float, delta: float, shape: tuple[int, int]) -> Profile:
        """Its exact profile."""
        return self._noise(shape, epsilon, delta).privacy

    def log_density(
        self, released: list[low_rank.LowRank], A: Array, epsilon: float, delta: float
    ) -> Array:
        """Log-densities of the pairs of factors, given A."""
        W, C = (np.stack([getattr(x, side) for x in released]) for side in ("left", "right"))
        noise = self._noise((A.shape[0], A.shape[1]), epsilon, delta)
        std = np.linalg.norm(W, axis=2).max(axis=1) / noise.projection_ratio
        # Without |C|^2, which is the same for every A; so columns of zeros do not matter.
        used = A.any(axis=0)
        mean = np.swapaxes(W, 1, 2) @ A[:, used]
        cross = np.sum(mean * (C[:, :, used] - mean / 2), axis=(1, 2))
        result: Array = _basis(W, A[:, used], noise.finder_std) + cross / std**2
        return result

    def _noise(
        self, shape: tuple[int, int], epsilon: float, delta: float
    ) -> low_rank.LowRankCalibration:
        return low_rank.calibrate(
            shape, self.rank, self.oversample, epsilon=epsilon, delta=delta, leverage=1.0
        )


#: Both steps and the whole.
CASES: tuple[Case, ...] = tuple(
    Case(step, "row change") for step in (RangeFinder(), Projection(), FindAndProject())
)


def worst_pairs(case: Case) -> list[Pair]:
    """Matrices on which a step attains its profile, or comes near (docs/theory/audit.md)."""
    pairs: list[Pair] = case.mechanism.pairs()
    return pairs


def claimed(case: Case, pair: Pair) -> Profile:
    """The profile that a step is calibrated to."""
    m, n = pair.first.shape
    profile: Profile = case.mechanism.claimed(case.epsilon, case.delta, (m, n))
    return profile


def scores(
    case: Case, released: Any, pair: Pair, draws: int, seed: np.random.SeedSequence
) -> Array:
    """Log-likelihood ratios, first matrix against second, of releases of the first and second."""
    rng = np.random.default_rng(seed)
    budget = case.epsilon, case.delta
    result = np.empty((2, draws))
    for out, A in zip(result, (pair.first, pair.second), strict=True):
        stored = case.mechanism.stored(A)
        releases = [released.release(stored, *budget, rng) for _ in range(draws)]
        a, b = (case.mechanism.log_density(releases, X, *budget) for X in (pair.first, pair.second))
        out[:] = a - b
    return result


def _basis(W: Array, A: Array, std: float) -> Array:
    """Log-density of orthonormal bases, of shape (draws, m, k), up to a term without A."""
    (_, m, k), n = W.shape, A.shape[1]
    # Sigma^-1 by Woodbury's identity: all that depends on m is W^T A.
    inner = A.T @ A + std**2 * np.eye(n)
    seen = np.einsum("ij,dik->djk", A, W, optimize=True)
    H = (np.eye(k) - np.swapaxes(seen, 1, 2) @ np.linalg.solve(inner, seen)) / std**2
    logs = np.log(np.diagonal(np.linalg.cholesky(H), axis1=1, axis2=2))
    result: Array = -logs @ (m + k + 1 - 2.0 * np.arange(1, k + 1))
    result -= k / 2 * np.linalg.slogdet(inner / std**2)[1]
    return result
