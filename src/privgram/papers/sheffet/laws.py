"""Laws of the noise of sketches, of their inverses, of noise on the inverse, and Wishart noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privgram.noise import (
    GaussianLaw,
    ImageLaw,
    NoiseLaw,
    isotropic_sandwich,
    pair_covariance,
    standard_wishart,
    symmetric_gaussian,
)
from privgram.papers.sheffet.profiles import SketchProfile
from privgram.papers.sheffet.wishart import WishartProfile
from privgram.privacy import GaussianProfile
from privgram.releases.checks import number_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from privgram._base.numbers import Matrix


@dataclass(frozen=True)
class WishartLaw(NoiseLaw):
    """M = G + W_d(scale I, dof) - subtracted I."""

    adding = ("dof", "subtracted")

    scale: float
    dof: float
    subtracted: float = 0.0

    @property
    def shift(self) -> float:
        return self.scale * self.dof - self.subtracted

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        return isotropic_sandwich(self.dof * self.scale**2, inner)

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        variance = self.dof * self.scale**2
        return pair_covariance(frame @ frame.mT, variance, variance)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        noise = standard_wishart(len(matrix), self.dof, rng)
        return matrix + self.scale * (noise - self.dof * np.eye(len(matrix)))

    def expected(self, release: Any) -> Mapping[str, tuple[float, ...]]:
        profile = release.privacy
        if not isinstance(profile, WishartProfile):
            return {}
        return {
            "scale": (release.bound**2 / profile.ratio,),
            "dof": (profile.dof,),
            "subtracted": (number_of(release.parameters, "subtracted"),),
        }


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
        return pair_covariance(frame @ matrix @ frame.mT, 1 / self.rows, 1 / self.rows)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        # By eigenvalues: with fewer rows than columns the matrix is singular.
        values, vectors = np.linalg.eigh(matrix)
        factor: Matrix = vectors * np.sqrt(np.maximum(values, 0.0))
        noise = standard_wishart(len(matrix), self.rows, rng)
        return factor @ noise @ factor.T / self.rows

    def sketch_rows(self, n_columns: int) -> float:
        return self.rows

    def expected(self, release: Any) -> Mapping[str, tuple[float, ...]]:
        rows, regulariser = _drawn(release)
        return {"rows": rows, "regulariser": regulariser}


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
        return pair_covariance(frame @ matrix @ frame.mT, *weights)

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

    def marginal(self, n_columns: int, index: Sequence[int]) -> NoiseLaw:
        return replace(self, dof=self.dof - (n_columns - len(index)))

    def expected(self, release: Any) -> Mapping[str, tuple[float, ...]]:
        dof, regulariser = _drawn(release)
        # A column that is left out takes one degree of freedom with it.
        whole = release.n_columns if release.columns is None else len(release.columns)
        dof += tuple(one - (whole - release.n_columns) for one in dof)
        return {"dof": dof, "regulariser": regulariser}


@dataclass(frozen=True)
class InverseGaussianLaw(NoiseLaw):
    """M = (G^{-1} + N)^{-1}, N symmetric with independent Gaussian entries.

    Attributes
    ----------
    std, std_diagonal : float
        Standard deviations of N off the diagonal and on it, in units of G^{-1}.
    """

    depends: ClassVar[bool] = True

    std: float
    std_diagonal: float

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        # First order: M - G = -G N G.
        noise = GaussianLaw(self.std, self.std_diagonal)
        return matrix @ noise.sandwich(matrix, matrix @ inner @ matrix) @ matrix

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        return GaussianLaw(self.std, self.std_diagonal).entry_variance(matrix, frame @ matrix)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        noise = symmetric_gaussian(len(matrix), self.std, self.std_diagonal, rng)
        return np.asarray(np.linalg.inv(np.linalg.inv(matrix) + noise), dtype=np.float64)

    def marginal(self, n_columns: int, index: Sequence[int]) -> NoiseLaw:
        if len(index) < n_columns:
            raise ValueError("noise on the inverse has no marginal law: keep all columns")
        return self

    def image(self, frame: ArrayLike) -> NoiseLaw:
        frame = np.asarray(frame)
        if np.linalg.matrix_rank(frame) < frame.shape[1]:
            raise ValueError("noise on the inverse has an image if no column is lost")
        return super().image(frame)

    def expected(self, release: Any) -> Mapping[str, tuple[float, ...]]:
        profile, mechanism = release.privacy, release.mechanism
        if not (isinstance(profile, GaussianProfile) and hasattr(mechanism, "eigenvalue_floor")):
            return {}
        moved = mechanism.sensitivity(release.n_columns, release.bound, release.adjacency)
        sigma = moved / profile.sensitivity_ratio
        return {"std": (sigma / math.sqrt(2.0),), "std_diagonal": (sigma,)}


def _drawn(release: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Rows or degrees of freedom of a release, and its regulariser; empty where not known."""
    parameters, profile = release.parameters, release.privacy
    if "adjusted_dof" in parameters:
        rows = number_of(parameters, "adjusted_dof")
        return (rows,), (number_of(parameters, "adjusted_regulariser"),)
    if isinstance(profile, SketchProfile):
        return (profile.rows,), (release.bound**2 / profile.ratio,)
    return (), ()
