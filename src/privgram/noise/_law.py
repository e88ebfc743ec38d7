"""What every law of noise offers, and the laws of linear images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from privgram._base.checks import check_not_negative, check_positive
from privgram._base.kinds import Kinds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from privgram._base.arrays import Matrix


#: Parameters that say how large noise is.
SIZES = ("std", "std_diagonal", "scale", "dof", "rows")


@dataclass(frozen=True)
class NoiseLaw(Kinds, ABC, key="law", what="law of noise"):
    """What a released matrix M is, given the second moment G."""

    #: Whether the law of M - E[M] depends on E[M].
    depends: ClassVar[bool] = False

    @property
    @abstractmethod
    def shift(self) -> float:
        """E[M] = G + shift * I; ValueError where it is not of that form, see `shift_matrix`."""

    def shift_matrix(self, n_columns: int) -> Matrix:
        """E[M] - G for a matrix of `n_columns` columns, shape (d, d)."""
        return self.shift * np.eye(n_columns)

    @abstractmethod
    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        """E[N inner N] with N = M - E[M] and symmetric `inner`; `matrix` estimates E[M].

        With inner = v v^T this is the covariance of N v.
        """

    @abstractmethod
    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        """Variances of the entries of frame N frame^T, for `frame` of shape (..., k, d)."""

    @abstractmethod
    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        """One draw of M with E[M] = `matrix`, for a parametric bootstrap."""

    def sketch_rows(self, n_columns: int) -> float | None:
        """Rows of the sketch of G + shift * I that M is or inverts, if it is one of d columns."""
        return None

    def independent(self, n_columns: int) -> Matrix | None:
        """Variances of the entries, shape (d, d), if M is G plus independent Gaussian entries."""
        return None

    def image(self, frame: ArrayLike) -> NoiseLaw:
        """The law of L M L^T, for `frame` L of shape (k, d)."""
        return ImageLaw(self, np.asarray(frame))

    def marginal(self, n_columns: int, kept: Sequence[int]) -> NoiseLaw:
        """The law of the sub-matrix of the columns at `kept`, in this order, out of `n_columns`."""
        return self

    def expected(self, release: Any) -> Mapping[str, tuple[float, ...]]:
        """What its parameters may be in a release, by its privacy profile; none where not known."""
        return {}

    def check(self, n_columns: int) -> None:
        """Raise ValueError unless the parameters are sound, for matrices of so many columns."""
        for field in fields(self):
            # Without noise there is no privacy: such a release was not made by a mechanism.
            check = check_positive if field.name in SIZES else check_not_negative
            check(getattr(self, field.name), f"{field.name} of the noise")


@dataclass(frozen=True, eq=False)
class ImageLaw(NoiseLaw):
    """M = L M_0 L^T, L the frame (d, m), where M_0 has the law `base`; then G = L G_0 L^T.

    Exact, for a sketch or an inverse Wishart too if L has full rank: E[M_0] is then not known
    beyond what L shows of it, and nothing turns on the rest.
    """

    depends: ClassVar[bool] = True

    base: NoiseLaw
    frame: Matrix

    def __post_init__(self) -> None:
        frame = np.array(self.frame, dtype=np.float64)
        frame.flags.writeable = False
        object.__setattr__(self, "frame", frame)

    def __eq__(self, other: object) -> bool:
        return same(self, other)

    def __hash__(self) -> int:
        return hash((self.base, self.frame.shape))

    @property
    def shift(self) -> float:
        if self.base.shift_matrix(self.frame.shape[1]).any():
            raise ValueError("the shift of an image is no multiple of I: see shift_matrix")
        return 0.0

    def shift_matrix(self, n_columns: int) -> Matrix:
        return self.frame @ self.base.shift_matrix(self.frame.shape[1]) @ self.frame.T

    @cached_property
    def _inverse(self) -> Matrix:
        return np.asarray(np.linalg.pinv(self.frame), dtype=np.float64)

    def _source(self, matrix: Matrix) -> Matrix:
        if not self.base.depends:
            return np.zeros((self.frame.shape[1],) * 2)
        return self._inverse @ matrix @ self._inverse.T

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        pulled = self.frame.T @ inner @ self.frame
        return self.frame @ self.base.sandwich(self._source(matrix), pulled) @ self.frame.T

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        return self.base.entry_variance(self._source(matrix), frame @ self.frame)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        source = self._source(matrix)
        return matrix + self.frame @ (self.base.draw(source, rng) - source) @ self.frame.T

    def independent(self, n_columns: int) -> Matrix | None:
        entries = self.base.independent(self.frame.shape[1])
        metric = self.frame @ self.frame.T
        size = np.diag(metric)
        apart = np.abs(metric) <= 1e-12 * np.sqrt(np.outer(size, size))
        np.fill_diagonal(apart, True)
        # Isotropic noise along orthogonal directions.
        if entries is None or not apart.all() or not _is_isotropic(entries):
            return None
        variances: Matrix = entries[0, 0] / 2 * np.outer(size, size) * (1 + np.eye(len(size)))
        return variances

    def image(self, frame: ArrayLike) -> NoiseLaw:
        return self.base.image(np.asarray(frame) @ self.frame)

    def marginal(self, n_columns: int, kept: Sequence[int]) -> NoiseLaw:
        return self.base.image(self.frame[list(kept)])

    def check(self, n_columns: int) -> None:
        if self.frame.ndim != 2 or len(self.frame) != n_columns or not self.frame.shape[1]:
            raise ValueError(f"the frame of the noise must have {n_columns} rows")
        if not np.isfinite(self.frame).all():
            raise ValueError("the frame of the noise must be finite")
        if not self.frame.any():
            raise ValueError("the frame of the noise must not be zero: a release has noise")
        self.base.check(self.frame.shape[1])

    @classmethod
    def _rebuild(cls, parameters: dict[str, Any]) -> Self:
        return cls(NoiseLaw.from_dict(parameters.pop("base")), **parameters)


def same(law: NoiseLaw, other: object) -> bool:
    """Whether two laws of one kind, which may hold arrays, have the same parameters."""
    return type(other) is type(law) and other.to_dict() == law.to_dict()


def _is_isotropic(variances: Matrix) -> bool:
    expected = variances[0, 0] / 2 * (1 + np.eye(len(variances)))
    return bool(np.allclose(variances, expected, rtol=1e-12, atol=0.0))


def isotropic(variance: float, inner: Matrix) -> Matrix:
    """E[N inner N] where E[N_ij N_kl] = variance (d_ik d_jl + d_il d_jk)."""
    result: Matrix = variance * (np.trace(inner) * np.eye(len(inner)) + inner)
    return result


def pairs(metric: Matrix, outer: float, square: float) -> Matrix:
    """Var(f^T N g) where E[N_ij N_kl] = a M_ij M_kl + b (M_ik M_jl + M_il M_jk).

    With metric = F M F^T, outer = b and square = a + b.
    """
    size = metric.diagonal(axis1=-2, axis2=-1)
    return outer * (size[..., :, None] * size[..., None, :]) + square * metric**2
