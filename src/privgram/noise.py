"""The laws of the noise in a release: public knowledge, used by post-processing.

Each law says what a released matrix M is, given the second moment G, and offers
what statistics needs of it: the shift that remains in expectation and the
second moments of the noise N = M - E[M], as E[N A N] for a fixed matrix A.

What post-processing makes of a release has a law again: a linear image L M L^T (`ImageLaw`),
noise with entries set to their known zeros (`MaskedLaw`) or projected on linear equations that
the second moment solves (`TiedLaw`), independent releases of one second moment combined entry by
entry (`combine`), and of several added up (`added_up`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from privgram._base.numbers import Matrix, check_not_negative, check_positive
from privgram._base.saved import Registry
from privgram._core import blas

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

#: Parameters that say how large noise is.
_SIZES = ("std", "std_diagonal", "scale", "dof", "rows")


@dataclass(frozen=True)
class NoiseLaw(Registry, ABC, key="law", what="law of noise"):
    """What a released matrix M is, given the second moment G."""

    #: Whether the law of M - E[M] depends on E[M].
    depends: ClassVar[bool] = False

    #: Parameters that add up with those of others of the same `scale`, in the law of a sum.
    adding: ClassVar[tuple[str, ...]] = ()

    @property
    def shift(self) -> float:
        """E[M] = G + shift * I; ValueError where it is not of that form, see `shift_matrix`."""
        return 0.0

    def shift_matrix(self, n_columns: int) -> Matrix:
        """E[M] - G for a matrix of `n_columns` columns, shape (d, d)."""
        return self.shift * np.eye(n_columns)

    @property
    def known_zeros(self) -> tuple[tuple[int, ...], ...]:
        """Blocks of columns between which M has zeros off the diagonal, without noise."""
        return ()

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

    def marginal(self, n_columns: int, index: Sequence[int]) -> NoiseLaw:
        """The law of the sub-matrix of the columns at `index`, in this order."""
        return self

    def expected(self, release: Any) -> Mapping[str, tuple[float, ...]]:
        """What its parameters may be in a release, by its privacy profile; none where not known."""
        return {}

    def check(self, n_columns: int) -> None:
        """Raise ValueError unless the parameters are sound, for matrices of so many columns."""
        for field in fields(self):
            # Without noise there is no privacy: such a release was not made by a mechanism.
            check = check_positive if field.name in _SIZES else check_not_negative
            check(getattr(self, field.name), f"{field.name} of the noise")


def isotropic_sandwich(variance: float, inner: Matrix) -> Matrix:
    """E[N inner N] where E[N_ij N_kl] = variance (d_ik d_jl + d_il d_jk)."""
    result: Matrix = variance * (np.trace(inner) * np.eye(len(inner)) + inner)
    return result


def pair_covariance(metric: Matrix, outer: float, square: float) -> Matrix:
    """Var(f^T N g) where E[N_ij N_kl] = a M_ij M_kl + b (M_ik M_jl + M_il M_jk).

    With metric = F M F^T, outer = b and square = a + b.
    """
    size = metric.diagonal(axis1=-2, axis2=-1)
    return outer * (size[..., :, None] * size[..., None, :]) + square * metric**2


def symmetric_gaussian(
    n_columns: int, std: float, std_diagonal: float, rng: np.random.Generator
) -> Matrix:
    """Symmetric matrix of independent centred Gaussians, shape (d, d) float64."""
    noise = np.zeros((n_columns, n_columns))
    above = ~np.tri(n_columns, dtype=bool)
    noise[above] = rng.normal(scale=std, size=n_columns * (n_columns - 1) // 2)
    noise += noise.T
    np.fill_diagonal(noise, rng.normal(scale=std_diagonal, size=n_columns))
    return noise


@dataclass(frozen=True)
class GaussianLaw(NoiseLaw):
    """M = G + N + added I, N symmetric with independent Gaussian entries."""

    std: float  # off the diagonal
    std_diagonal: float
    added: float = 0.0

    @classmethod
    def isotropic(cls, std: float) -> Self:
        """Noise that has one variance in all directions of the symmetric matrices."""
        return cls(std, math.sqrt(2.0) * std)

    @property
    def is_isotropic(self) -> bool:
        """Whether it has, to nine digits."""
        return math.isclose(self.std_diagonal, math.sqrt(2.0) * self.std, rel_tol=1e-9)

    @property
    def shift(self) -> float:
        return self.added

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        result: Matrix = self.std**2 * inner
        diagonal = inner.diagonal()
        others = diagonal.sum() - diagonal
        np.fill_diagonal(result, self.std**2 * others + self.std_diagonal**2 * diagonal)
        return result

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        excess = self.std_diagonal**2 - 2 * self.std**2
        squares = frame**2
        alike = pair_covariance(frame @ frame.mT, self.std**2, self.std**2)
        return alike + excess * (squares @ squares.mT)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        return matrix + symmetric_gaussian(len(matrix), self.std, self.std_diagonal, rng)

    def independent(self, n_columns: int) -> Matrix:
        variances = np.full((n_columns, n_columns), self.std**2)
        np.fill_diagonal(variances, self.std_diagonal**2)
        return variances


def _check_places(places: Sequence[int], n_columns: int) -> None:
    """Raise ValueError unless these are positions of columns."""
    if not all(type(place) is int and 0 <= place < n_columns for place in places):
        raise ValueError(f"the noise names columns that are not among the {n_columns}")


@dataclass(frozen=True)
class MaskedLaw(NoiseLaw):
    """Gaussian noise whose entries are zero off the diagonal within some blocks of columns.

    The second moment has zeros there, as that of the levels of a factor has: one and only one of
    them is 1 in a row. A release with these entries set to zero has this law. No column is in two
    blocks.
    """

    nested = ("base",)

    base: GaussianLaw
    blocks: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.base, GaussianLaw):
            raise TypeError("known zeros are of Gaussian noise")
        object.__setattr__(self, "blocks", tuple(map(tuple, self.blocks)))

    @property
    def shift(self) -> float:
        return self.base.shift

    @property
    def known_zeros(self) -> tuple[tuple[int, ...], ...]:
        return self.blocks

    @property
    def _left_out(self) -> GaussianLaw:
        """What the noise of a block was."""
        return GaussianLaw(self.base.std, 0.0)

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        result = self.base.sandwich(matrix, inner)
        for block in self.blocks:
            at = np.ix_(block, block)
            result[at] -= self._left_out.sandwich(matrix[at], inner[at])
        return result

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        result = self.base.entry_variance(matrix, frame)
        for block in self.blocks:
            at = np.ix_(block, block)
            result -= self._left_out.entry_variance(matrix[at], frame[..., list(block)])
        return result

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        return matrix + self.project(self.base.draw(np.zeros_like(matrix), rng))

    def project(self, matrix: Matrix) -> Matrix:
        """The matrix with its known zeros set."""
        result, others = np.zeros(matrix.shape), np.ones(len(matrix), bool)
        for block in self.blocks:
            at, first, last = np.array(block), block[0], block[-1]
            others[at] = False
            if (np.diff(at) == 1).all():  # most entries, which are never written
                result[first : last + 1, :first] = matrix[first : last + 1, :first]
                result[first : last + 1, last + 1 :] = matrix[first : last + 1, last + 1 :]
            else:
                result[at] = matrix[at]
                result[np.ix_(at, at)] = 0.0
            result[at, at] = matrix[at, at]
        result[others] = matrix[others]
        return result

    def independent(self, n_columns: int) -> Matrix:
        return self.project(self.base.independent(n_columns))

    def marginal(self, n_columns: int, index: Sequence[int]) -> NoiseLaw:
        new = {old: i for i, old in enumerate(index)}
        blocks = (tuple(new[i] for i in block if i in new) for block in self.blocks)
        return MaskedLaw(self.base, tuple(block for block in blocks if len(block) > 1))

    def check(self, n_columns: int) -> None:
        self.base.check(n_columns)
        places = [place for block in self.blocks for place in block]
        _check_places(places, n_columns)
        if len(set(places)) < len(places):
            raise ValueError("a column is in two blocks of the noise")


#: Numbers of the forms of ties that are held at once, 64 MiB.
_FORMS = 1 << 23


@dataclass(frozen=True)
class TiedLaw(NoiseLaw):
    """Isotropic Gaussian noise, projected on the solutions of linear equations of its entries.

    The second moment solves them: "the counts of the levels add up to the number of rows". The
    Frobenius projection of a release on the solutions has this law, exactly. A tie is a tuple of
    (i, j, c), with i <= j: it says that the sum of c N_ij is zero. The known zeros of the base,
    whose std_diagonal is sqrt(2) std, are equations too, without being named.

    In orthonormal coordinates of the symmetric matrices, N_ii and sqrt(2) N_ij, the noise is
    N(0, 2 std^2 I). With C the ties in these coordinates the projection takes off the
    component C^T (C C^T)^{-1} C N, which is independent of the rest; so its moments are taken off.
    The cost of `entry_variance` is k^2 (nnz(C) + t^2) for t ties, of `sandwich` d (d + t) t.
    """

    nested = ("base",)

    base: GaussianLaw | MaskedLaw
    ties: tuple[tuple[tuple[int, int, float], ...], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.base, (GaussianLaw, MaskedLaw)):
            raise TypeError("ties are of Gaussian noise")
        ties = tuple(tuple((i, j, float(c)) for i, j, c in tie) for tie in self.ties)
        object.__setattr__(self, "ties", ties)
        if not self._gaussian.is_isotropic:
            raise ValueError("a projection on ties has a law here if the noise is isotropic")

    @property
    def _gaussian(self) -> GaussianLaw:
        return self.base.base if isinstance(self.base, MaskedLaw) else self.base

    @property
    def known_zeros(self) -> tuple[tuple[int, ...], ...]:
        return self.base.known_zeros

    @property
    def shift(self) -> float:
        return self.base.shift

    @cached_property
    def _components(self) -> tuple[csr_array, NDArray[np.intp], Matrix, Matrix]:
        """C, sparse over the tied entries: with those, their scale and a root of (C C^T)^{-1}."""
        from scipy.sparse import csr_array

        block = {i: number for number, block in enumerate(self.known_zeros) for i in block}
        tied = [
            (row, i, j, c)
            for row, tie in enumerate(self.ties)
            for i, j, c in tie
            if i == j or i not in block or block[i] != block.get(j)
        ]
        places = np.array(sorted({(i, j) for _, i, j, _ in tied}), np.intp).reshape(-1, 2).T
        scale = np.where(places[0] == places[1], 1.0, math.sqrt(2.0))
        at = {tuple(place): k for k, place in enumerate(places.T.tolist())}
        rows, columns = [row for row, *_ in tied], [at[i, j] for _, i, j, _ in tied]
        values = np.array([c for *_, c in tied]) / scale[columns]
        ties = csr_array((values, (rows, columns)), shape=(len(self.ties), len(scale)))
        sizes, vectors = np.linalg.eigh((ties @ ties.T).toarray())
        # Some ties may follow from others.
        independent = sizes > 1e-12 * np.max(sizes, initial=0.0)
        return ties, places, scale, (vectors[:, independent] / np.sqrt(sizes[independent])).T

    def _stars(self, frame: Matrix) -> list[tuple[Matrix, Matrix]]:
        """Of each tie, as a symmetric matrix C: factors x, y of frame C frame^T = sym(x y^T)."""
        ties, (i, j), scale, _ = self._components
        parts = []
        for row in range(len(self.ties)):
            at = slice(ties.indptr[row], ties.indptr[row + 1])
            entries = ties.indices[at]
            parts.append(_star(i[entries], j[entries], ties.data[at] * scale[entries], frame))
        return parts

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        result = self.base.sandwich(matrix, inner)
        parts, root = self._stars(np.eye(len(inner))), self._components[-1]
        if not parts:
            return result
        x, y = (np.hstack(side) for side in zip(*parts, strict=True))
        of = np.repeat(np.arange(len(parts)), [part.shape[1] for part, _ in parts])
        weights = (root.T @ root)[np.ix_(of, of)]
        # The sum of weights C_t inner C_u, both written as x y^T + y x^T over 2.
        mixed = x @ (weights * (y.T @ inner @ x)) @ y.T
        alike = x @ (weights * (y.T @ inner @ y)) @ x.T + y @ (weights * (x.T @ inner @ x)) @ y.T
        left: Matrix = result - self._gaussian.std**2 / 2 * (mixed + mixed.T + alike)
        return left

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        result = self.base.entry_variance(matrix, frame)
        parts, root = self._stars(frame), self._components[-1]
        step = max(1, _FORMS // max(math.prod(frame.shape[:-1]) * len(parts), 1))
        for start in range(0, frame.shape[-2], step):
            at = (..., slice(start, start + step), slice(None))
            forms = np.array([x[at] @ y.mT + y[at] @ x.mT for x, y in parts])
            taken = np.tensordot(root, forms / 2, axes=1) if parts else np.zeros((0, 1, 1))
            result[at] -= 2 * self._gaussian.std**2 * (taken**2).sum(axis=0)
        return result

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        return matrix + self.project(self.base.draw(np.zeros_like(matrix), rng))

    def project(self, matrix: Matrix) -> Matrix:
        """The nearest symmetric matrix, in Frobenius norm, that solves the equations."""
        result = self.base.project(matrix) if isinstance(self.base, MaskedLaw) else matrix.copy()
        ties, (i, j), scale, root = self._components
        result[i, j] -= ties.T @ (root.T @ (root @ (ties @ (scale * result[i, j])))) / scale
        result[j, i] = result[i, j]
        return result

    def marginal(self, n_columns: int, index: Sequence[int]) -> NoiseLaw:
        return self.image(np.eye(n_columns)[list(index)])

    def check(self, n_columns: int) -> None:
        self.base.check(n_columns)
        _check_places(
            [place for tie in self.ties for i, j, _ in tie for place in (i, j)], n_columns
        )
        if not all(i <= j and math.isfinite(c) for tie in self.ties for i, j, c in tie):
            raise ValueError("a tie of the noise is (i, j, c) with i <= j and finite c")


def _star(
    i: NDArray[np.intp], j: NDArray[np.intp], c: NDArray[np.float64], frame: Matrix
) -> tuple[Matrix, Matrix]:
    """Factors x, y of shape (..., k, r): the form of sum c N_ij at frame rows is sym(x y^T).

    One column each where all entries share a column, as sums over the levels of a factor do.
    """
    for hub in {int(i[0]), int(j[0])} if len(i) else ():
        if ((i == hub) | (j == hub)).all():
            other = np.where(i == hub, j, i)
            return frame[..., [hub]], (frame[..., other] @ c)[..., None]
    return frame[..., i], frame[..., j] * c


def imposed(
    law: GaussianLaw,
    blocks: tuple[tuple[int, ...], ...],
    ties: tuple[tuple[tuple[int, int, float], ...], ...],
) -> GaussianLaw | MaskedLaw | TiedLaw:
    """The law of a release that is projected on what is known of the second moment.

    By `privgram.columns.structure`. Ties are left out if the noise is not isotropic.
    """
    if not blocks:
        return law
    masked = MaskedLaw(law, blocks)
    return TiedLaw(masked, ties) if ties and law.is_isotropic else masked


class _WithArray:
    """A law whose last parameter is an array: it keeps a copy, and is compared by the numbers."""

    def __post_init__(self) -> None:
        name = fields(self)[-1].name  # type: ignore[arg-type]
        array = np.array(getattr(self, name), dtype=np.float64)
        array.flags.writeable = False
        object.__setattr__(self, name, array)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.to_dict() == self.to_dict()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(type(self))


@dataclass(frozen=True, eq=False)
class EntryLaw(_WithArray, NoiseLaw):
    """M = G + N, N symmetric with independent Gaussian entries of any variances (d, d).

    They are zero where the entry is exact.
    """

    variances: Matrix

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        result: Matrix = self.variances * inner
        np.fill_diagonal(result, self.variances @ np.diag(inner))
        return result

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        squares = frame**2
        ordered = self.variances - np.diag(np.diag(self.variances))
        result = np.asarray(squares @ self.variances @ squares.mT)
        for i in range(frame.shape[-2]):
            products = frame[..., [i], :] * frame
            result[..., i, :] += ((products @ ordered) * products).sum(axis=-1)
        return result

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        return matrix + np.sqrt(self.variances) * symmetric_gaussian(len(matrix), 1.0, 1.0, rng)

    def independent(self, n_columns: int) -> Matrix:
        return self.variances

    def marginal(self, n_columns: int, index: Sequence[int]) -> NoiseLaw:
        return EntryLaw(self.variances[np.ix_(index, index)])

    def check(self, n_columns: int) -> None:
        if self.variances.shape != (n_columns, n_columns):
            raise ValueError(f"variances of the noise must be {n_columns} x {n_columns}")
        sound = np.isfinite(self.variances) & (self.variances >= 0)
        if not (sound.all() and (self.variances == self.variances.T).all()):
            raise ValueError("variances of the noise must be symmetric, finite and not negative")
        if not self.variances.any():
            raise ValueError("a release without noise is none")


def combine(laws: Iterable[NoiseLaw], n_columns: int) -> tuple[Matrix, EntryLaw]:
    """Weights by which independent releases of one second moment average to the least noise.

    With the law of the average. The weights (r, d, d) of the r releases, in one frame, go by the
    inverse variances of the entries, which are independent Gaussian, and add up to 1. An entry that
    is exact in some releases is taken from these.
    """
    variances = []
    for law in laws:
        entries = law.independent(n_columns)
        if entries is None or law.shift_matrix(n_columns).any():
            raise ValueError("only noise of independent entries, without a shift, is combined")
        variances.append(entries)
    stacked = np.array(variances)
    exact = (stacked == 0).any(axis=0)
    weights = np.where(exact, stacked == 0, 1 / np.where(exact, 1.0, stacked))
    total = weights.sum(axis=0)
    return weights / total, EntryLaw(np.where(exact, 0.0, 1 / total))


@dataclass(frozen=True)
class MatrixLaplaceLaw(NoiseLaw):
    """M = G + scale (W1 - W2), W1 and W2 independent W_d(I, dof)."""

    adding = ("dof",)

    scale: float
    dof: float

    def sandwich(self, matrix: Matrix, inner: Matrix) -> Matrix:
        return isotropic_sandwich(2 * self.dof * self.scale**2, inner)

    def entry_variance(self, matrix: Matrix, frame: Matrix) -> Matrix:
        variance = 2 * self.dof * self.scale**2
        return pair_covariance(frame @ frame.mT, variance, variance)

    def draw(self, matrix: Matrix, rng: np.random.Generator) -> Matrix:
        return matrix + self.scale * matrix_laplace(len(matrix), self.dof, rng)


def matrix_laplace(n_columns: int, dof: float, rng: np.random.Generator) -> Matrix:
    """Difference of two draws of W_d(I, dof), shape (d, d) float64."""
    noise = standard_wishart(n_columns, dof, rng)
    noise -= standard_wishart(n_columns, dof, rng)
    return noise


def standard_wishart(n_columns: int, dof: float, rng: np.random.Generator) -> Matrix:
    """One draw of W_d(I, dof), shape (d, d) float64, for real dof > d - 1 or integer dof."""
    if dof > n_columns - 1:
        out = np.empty((n_columns, n_columns))
        blas.wishart(rng.bit_generator, dof, None, out)
        return out
    if not math.isclose(dof, round(dof)):
        raise ValueError(f"a singular Wishart needs integer degrees of freedom, not {dof}")
    rows = rng.standard_normal((round(dof), n_columns))
    return rows.T @ rows


@dataclass(frozen=True, eq=False)
class ImageLaw(_WithArray, NoiseLaw):
    """M = L M_0 L^T, L the frame (d, m), where M_0 has the law `base`; then G = L G_0 L^T.

    Exact, for a sketch or an inverse Wishart too if L has full rank: E[M_0] is then not known
    beyond what L shows of it, and nothing turns on the rest.
    """

    depends: ClassVar[bool] = True
    nested = ("base",)

    base: NoiseLaw
    frame: Matrix

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
        if entries is None or not apart.all():
            return None
        isotropic = entries[0, 0] / 2 * (1 + np.eye(len(entries)))
        if not np.allclose(entries, isotropic, rtol=1e-12, atol=0.0):
            return None
        variances: Matrix = entries[0, 0] / 2 * np.outer(size, size) * (1 + np.eye(len(size)))
        return variances

    def image(self, frame: ArrayLike) -> NoiseLaw:
        return self.base.image(np.asarray(frame) @ self.frame)

    def marginal(self, n_columns: int, index: Sequence[int]) -> NoiseLaw:
        return self.base.image(self.frame[list(index)])

    def check(self, n_columns: int) -> None:
        if self.frame.ndim != 2 or len(self.frame) != n_columns or not self.frame.shape[1]:
            raise ValueError(f"the frame of the noise must have {n_columns} rows")
        if not np.isfinite(self.frame).all():
            raise ValueError("the frame of the noise must be finite")
        if not self.frame.any():
            raise ValueError("the frame of the noise must not be zero: a release has noise")
        self.base.check(self.frame.shape[1])


def added_up(laws: Sequence[NoiseLaw]) -> NoiseLaw:
    """Law of the sum of independent matrices: of the sum of their second moments, with noise.

    Gaussian variances add up, and so do the degrees of freedom of Wishart matrices of one scale. A
    projection on known equations is linear: the sum of the projections is that of the sum. Laws of
    different kinds, zeros, ties or scales are refused.
    """
    if not laws:
        raise ValueError("there is nothing to add up")
    first = laws[0]
    of_kind = all(type(law) is type(first) for law in laws)
    alike = of_kind and all(_fixed(law) == _fixed(first) for law in laws)

    def each(name: str) -> list[Any]:
        return [getattr(law, name) for law in laws]

    if alike and isinstance(first, GaussianLaw):
        std, diagonal = (float(np.linalg.norm(each(name))) for name in ("std", "std_diagonal"))
        return GaussianLaw(std, diagonal, sum(each("added")))
    if alike and isinstance(first, (MaskedLaw, TiedLaw)):
        return replace(first, base=added_up(each("base")))  # type: ignore[arg-type]
    if alike and first.adding:
        return replace(first, **{name: sum(each(name)) for name in first.adding})
    if of_kind and first.adding:
        raise ValueError(
            "the noise of the releases has several scales, and only Gaussian noise adds up then: "
            "release all tables at one epsilon, delta and bound, or with "
            "mechanism=pg.AnalyzeGauss()"
        )
    raise ValueError(
        "releases add up if the noise of each is added to its second moment, by one mechanism: "
        "AnalyzeGauss or MatrixLaplace. The default takes several rounds: release each "
        "table with mechanism=pg.AnalyzeGauss()"
    )


def _fixed(law: NoiseLaw) -> Any:
    """What laws that add up have in common beside their kind: a scale, or the known equations."""
    names = {MaskedLaw: "blocks", TiedLaw: "ties"}
    name = "scale" if law.adding else names.get(type(law))
    return None if name is None else getattr(law, name)
