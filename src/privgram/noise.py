"""The laws of the noise in a release: public knowledge, used by post-processing.

Each law says what a released matrix M is, given the second moment G, and offers
what statistics needs of it: the shift that remains in expectation and the
second moments of the noise N = M - E[M], as E[N A N] for a fixed matrix A.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.kinds import Kinds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class NoiseLaw(Kinds, ABC, key="law", what="law of noise"):
    """What a released matrix M is, given the second moment G."""

    @property
    @abstractmethod
    def shift(self) -> float:
        """E[M] = G + shift * I."""

    @abstractmethod
    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        """E[N inner N] with N = M - E[M] and symmetric `inner`; `matrix` estimates E[M].

        With inner = v v^T this is the covariance of N v.
        """

    @abstractmethod
    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        """Variances of the entries of frame N frame^T, for `frame` of shape (k, d)."""

    @abstractmethod
    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        """One draw of M with E[M] = `matrix`, for a parametric bootstrap."""

    def sketch_rows(self, n_columns: int) -> float | None:
        """Rows of the sketch of G + shift * I that M is or inverts, if it is one of d columns."""
        return None

    def marginal(self, n_columns: int, kept: int) -> NoiseLaw:
        """The law of the sub-matrix of `kept` out of `n_columns` columns."""
        return self


def _isotropic(variance: float, inner: Matrix) -> Matrix:
    # E[N_ij N_kl] = variance (d_ik d_jl + d_il d_jk)
    result: Matrix = variance * (np.trace(inner) * np.eye(len(inner)) + inner)
    return result


def _pairs(metric: Matrix, outer: float, square: float) -> Matrix:
    # Var(f^T N g) for E[N_ij N_kl] = a M_ij M_kl + b (M_ik M_jl + M_il M_jk), with
    # metric = F M F^T, outer = b and square = a + b.
    size = np.diag(metric)
    result: Matrix = outer * np.outer(size, size) + square * metric**2
    return result


@dataclass(frozen=True)
class GaussianLaw(NoiseLaw):
    """M = G + N + added I, N symmetric with independent Gaussian entries."""

    std: float  # off the diagonal
    std_diagonal: float
    added: float = 0.0

    @property
    def shift(self) -> float:
        return self.added

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        excess = self.std_diagonal**2 - 2 * self.std**2
        return _isotropic(self.std**2, inner) + excess * np.diag(np.diag(inner))

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        excess = self.std_diagonal**2 - 2 * self.std**2
        squares = frame**2
        isotropic = _pairs(frame @ frame.T, self.std**2, self.std**2)
        result: Matrix = isotropic + excess * (squares @ squares.T)
        return result

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        return matrix + symmetric_gaussian(len(matrix), self.std, self.std_diagonal, rng)


@dataclass(frozen=True)
class WishartLaw(NoiseLaw):
    """M = G + W_d(scale I, dof) - subtracted I."""

    scale: float
    dof: float
    subtracted: float = 0.0

    @property
    def shift(self) -> float:
        return self.scale * self.dof - self.subtracted

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        return _isotropic(self.dof * self.scale**2, inner)

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        variance = self.dof * self.scale**2
        return _pairs(frame @ frame.T, variance, variance)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        noise = standard_wishart(len(matrix), self.dof, rng)
        return matrix + self.scale * (noise - self.dof * np.eye(len(matrix)))


@dataclass(frozen=True)
class MatrixLaplaceLaw(NoiseLaw):
    """M = G + scale (W1 - W2), W1 and W2 independent W_d(I, dof)."""

    scale: float
    dof: float

    @property
    def shift(self) -> float:
        return 0.0

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        return _isotropic(2 * self.dof * self.scale**2, inner)

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        variance = 2 * self.dof * self.scale**2
        return _pairs(frame @ frame.T, variance, variance)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        return matrix + self.scale * matrix_laplace(len(matrix), self.dof, rng)


@dataclass(frozen=True)
class SketchLaw(NoiseLaw):
    """M = W_d(G + regulariser I, rows) / rows."""

    rows: float
    regulariser: float

    @property
    def shift(self) -> float:
        return self.regulariser

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        image = matrix @ inner
        result: Matrix = (matrix * np.trace(image) + image @ matrix) / self.rows
        return result

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        return _pairs(frame @ matrix @ frame.T, 1 / self.rows, 1 / self.rows)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        # By eigenvalues: with fewer rows than columns the matrix is singular.
        values, vectors = np.linalg.eigh(matrix)
        factor: Matrix = vectors * np.sqrt(np.maximum(values, 0.0))
        noise = standard_wishart(len(matrix), self.rows, rng)
        return factor @ noise @ factor.T / self.rows

    def sketch_rows(self, n_columns: int) -> float:
        return self.rows


@dataclass(frozen=True)
class InverseWishartLaw(NoiseLaw):
    """M = (dof - d - 1) W_d^{-1}(G + regulariser I, dof)."""

    dof: float
    regulariser: float

    @property
    def shift(self) -> float:
        return self.regulariser

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        # Covariances of the inverse Wishart (von Rosen 1988, Corollary 3.1), scaled to mean E[M].
        excess = self.dof - len(matrix)
        if excess <= 3:
            return np.full_like(matrix, np.inf)
        image = matrix @ inner
        numerator = (excess + 1) * (image @ matrix) + (excess - 1) * np.trace(image) * matrix
        result: Matrix = numerator / (excess * (excess - 3))
        return result

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        excess = self.dof - len(matrix)
        scale = excess * (excess - 3) if excess > 3 else 0.0
        with np.errstate(divide="ignore"):
            weights = np.divide([excess - 1, excess + 1], scale)
        return _pairs(frame @ matrix @ frame.T, *weights)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        factor = np.linalg.cholesky(matrix)
        d = len(matrix)
        root = np.linalg.solve(np.linalg.cholesky(standard_wishart(d, self.dof, rng)), factor.T)
        return (self.dof - d - 1) * (root.T @ root)

    def sketch_rows(self, n_columns: int) -> float:
        return max(self.dof - n_columns - 1, 1.0)

    def marginal(self, n_columns: int, kept: int) -> NoiseLaw:
        return replace(self, dof=self.dof - (n_columns - kept))


@dataclass(frozen=True)
class InverseGaussianLaw(NoiseLaw):
    """M = (G^{-1} + N)^{-1}, N symmetric with independent Gaussian entries."""

    std: float  # off the diagonal, in units of G^{-1}
    std_diagonal: float

    @property
    def shift(self) -> float:
        return 0.0

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        # First order: M - G = -G N G.
        noise = GaussianLaw(self.std, self.std_diagonal)
        return matrix @ noise.sandwich(matrix, matrix @ inner @ matrix) @ matrix

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        return GaussianLaw(self.std, self.std_diagonal).entry_variance(matrix, frame @ matrix)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        noise = symmetric_gaussian(len(matrix), self.std, self.std_diagonal, rng)
        return np.asarray(np.linalg.inv(np.linalg.inv(matrix) + noise), dtype=np.float64)

    def marginal(self, n_columns: int, kept: int) -> NoiseLaw:
        if kept < n_columns:
            raise ValueError("noise on the inverse has no marginal law: keep all columns")
        return self


def symmetric_gaussian(
    n_columns: int, std: float, std_diagonal: float, rng: np.random.Generator
) -> Matrix:
    """Symmetric matrix of independent centred Gaussians, shape (d, d) float64."""
    noise = np.zeros((n_columns, n_columns))
    above = np.triu_indices(n_columns, 1)
    noise[above] = rng.normal(scale=std, size=len(above[0]))
    noise += noise.T
    np.fill_diagonal(noise, rng.normal(scale=std_diagonal, size=n_columns))
    return noise


def matrix_laplace(n_columns: int, dof: float, rng: np.random.Generator) -> Matrix:
    """Difference of two draws of W_d(I, dof), shape (d, d) float64."""
    noise = standard_wishart(n_columns, dof, rng)
    noise -= standard_wishart(n_columns, dof, rng)
    return noise


def standard_wishart(n_columns: int, dof: float, rng: np.random.Generator) -> Matrix:
    """One draw of W_d(I, dof), shape (d, d) float64, for real dof > d - 1 or integer dof."""
    from privgram._core import wishart

    if dof > n_columns - 1:
        out = np.empty((n_columns, n_columns))
        wishart.wishart(rng.bit_generator, dof, None, out)
        return out
    if not math.isclose(dof, round(dof)):
        raise ValueError(f"a singular Wishart needs integer degrees of freedom, not {dof}")
    rows = rng.standard_normal((round(dof), n_columns))
    return rows.T @ rows
