"""Laws of noise that is Wishart, or the difference of two Wishart matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privgram.noise._law import NoiseLaw, isotropic, pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
