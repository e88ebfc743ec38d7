"""Laws of noise that is Wishart, or of sketches and their inverses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from privgram.noise._law import ImageLaw, NoiseLaw, isotropic, pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Matrix = NDArray[np.float64]


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
        return isotropic(self.dof * self.scale**2, inner)

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        variance = self.dof * self.scale**2
        return pairs(frame @ frame.mT, variance, variance)

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
        return isotropic(2 * self.dof * self.scale**2, inner)

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        variance = 2 * self.dof * self.scale**2
        return pairs(frame @ frame.mT, variance, variance)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        return matrix + self.scale * matrix_laplace(len(matrix), self.dof, rng)


@dataclass(frozen=True)
class SketchLaw(NoiseLaw):
    """M = W_d(G + regulariser I, rows) / rows."""

    depends: ClassVar[bool] = True

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
        return pairs(frame @ matrix @ frame.mT, 1 / self.rows, 1 / self.rows)

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

    depends: ClassVar[bool] = True

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
        return pairs(frame @ matrix @ frame.mT, *weights)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        factor = np.linalg.cholesky(matrix)
        d = len(matrix)
        root = np.linalg.solve(np.linalg.cholesky(standard_wishart(d, self.dof, rng)), factor.T)
        return (self.dof - d - 1) * (root.T @ root)

    def sketch_rows(self, n_columns: int) -> float:
        return max(self.dof - n_columns - 1, 1.0)

    def image(self, frame: ArrayLike) -> NoiseLaw:
        # Fewer columns than before: through an orthonormal basis of the rows, where what
        # is left of the matrix is an inverse Wishart of its own.
        basis, factor = np.linalg.qr(np.asarray(frame, dtype=np.float64).T)
        return ImageLaw(self.marginal(len(basis), range(basis.shape[1])), factor.T)

    def marginal(self, n_columns: int, kept: Sequence[int]) -> NoiseLaw:
        return replace(self, dof=self.dof - (n_columns - len(kept)))


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
