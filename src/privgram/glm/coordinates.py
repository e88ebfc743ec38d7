"""Rows in released coordinates, as whole numbers, and sums of their scores by class.

Secret side. Matrix products are of whole numbers that stay below 2^53, so that they are exact in
whatever order a BLAS adds them. All else is one rounded operation after the other on single
numbers. So what a row becomes depends on the row alone, and not on its place or the machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from privgram._core.rows import RowAccumulator
from privgram.moment.accumulators import Accumulator, BlockAccumulator
from privgram.regression.families import exponential

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector


#: Lengths of rows as whole numbers: of a row, of an axis, of an image, and of the coefficients of a
#: class. A row times an axis, and an image times coefficients, are below 2^53.
ROW_BITS, AXIS_BITS, IMAGE_BITS, COEF_BITS = 24, 28, 15, 37

#: A residual of size 1 is so many units.
RESIDUAL_UNITS = 2.0**15

#: Images that are taken at a time.
IMAGES_AT_ONCE = 1 << 10

#: Bits to which numbers are rounded for lengths: squares of so many of them add up exactly. Of
#: rows of more numbers, which have 2^15 at most, there is a bit less.
LENGTH_BITS, MOST_NUMBERS = 20, 1 << 13

#: A squared error at its limit is 2 to this.
SQUARE_BITS = 20

#: A number beyond it counts as this.
LARGEST_NUMBER = 2.0**900


def row_lengths(x: Matrix) -> Vector:
    """Euclidean lengths of finite rows, to a relative 2^-19 sqrt(columns)."""
    _, exponent = np.frexp(np.abs(x).max(axis=1, initial=0.0))
    bits = LENGTH_BITS - (x.shape[1] > MOST_NUMBERS)
    whole = np.rint(np.ldexp(x, (bits - exponent)[:, None]))
    return np.asarray(np.ldexp(np.sqrt(squared_lengths(whole)), exponent - bits))


def squared_lengths(whole: Matrix) -> Vector:
    """Squared lengths of rows of whole numbers, exactly where they are below 2^53."""
    return np.asarray(np.einsum("ij,ij->i", whole, whole))


def target_length(bits: int, columns: int) -> float:
    """What rows are scaled to so that rounding makes none longer than 2^bits."""
    root = math.sqrt(columns)
    return 2.0**bits * (1 - root * 2.0**-19) - root / 2 - 1


def whole_rows(x: Matrix, most: float, bits: int) -> tuple[Matrix, Vector]:
    """Rows shortened to `most`, of which 2^bits is about the length; with their squared lengths.

    No row is longer than 2^bits: one that arithmetic made so counts as zeros.
    """
    x = np.clip(x, -LARGEST_NUMBER, LARGEST_NUMBER)  # of which no length overflows
    factor = target_length(bits, x.shape[1]) / np.maximum(row_lengths(x), most)
    whole = np.rint(x * factor[:, None])
    square = squared_lengths(whole)
    beyond = ~(square <= 4.0**bits)
    if beyond.any():
        whole[beyond], square[beyond] = 0.0, 0.0
    return whole, square


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A map of rows to z, clipped to a radius: public numbers, made of a released moment."""

    axes: Matrix  # (d, r), whole numbers
    scales: Vector  # (r,), from whole rows along whole axes to z
    bound: float  # of a row
    radius: float  # of z

    @classmethod
    def of(cls, directions: Matrix, deviations: Vector, bound: float, radius: float) -> Coordinates:
        """Those along orthonormal `directions` (d, r), over `deviations` (r,)."""
        d = len(directions)
        axes = np.rint(directions * (2.0**AXIS_BITS - d))
        row_unit = bound / target_length(ROW_BITS, d)
        return cls(axes, row_unit / (2.0**AXIS_BITS - d) / deviations, bound, radius)

    @property
    def unit(self) -> float:
        """The size of z that a unit of an image stands for."""
        return self.radius / target_length(IMAGE_BITS, self.axes.shape[1])

    def images(self, rows: Matrix) -> Matrix:
        """Whole images of rows (m, d), of a length of at most 2^IMAGE_BITS, shape (m, r)."""
        whole, _ = whole_rows(np.asarray(rows, np.float64), self.bound, ROW_BITS)
        return whole_rows((whole @ self.axes) * self.scales, self.radius, IMAGE_BITS)[0]


def held_out(classes: NDArray[np.intp]) -> NDArray[np.intp]:
    """The code of a class in a row that is held out, and back."""
    return -1 - classes


def probabilities(eta: Matrix) -> Matrix:
    """Softmax of rows (m, K), one operation after the other."""
    e = exponential(np.maximum(eta - eta.max(axis=1, keepdims=True), -700.0))
    total = e[:, 0].copy()
    for k in range(1, e.shape[1]):
        total += e[:, k]
    return np.asarray(e / total[:, None])


class ImageTaker(Protocol):
    """What takes images of rows, with their codes."""

    def take(self, images: Matrix, codes: NDArray[np.intp], /) -> None:
        """Take the images of some rows."""


class FeatureMoment(BlockAccumulator):
    """The second moment of rows of features, whose last column, the class, is left out."""

    parts: ClassVar[tuple[str, ...]] = ("inner",)

    def __init__(self, n_columns: int, bound: float) -> None:
        self.n_columns = n_columns
        self.inner = RowAccumulator(n_columns, bound)

    def update(self, block: Matrix, drop: bool = False, scaling: object = None) -> int:
        """Accumulate rows."""
        return self.inner.update(block[:, :-1], drop)


class Predicting:
    """Scores of classes at coefficients (r, K) of z, of whole images."""

    def __init__(self, coef: Matrix, unit: float) -> None:
        longest = max(float(np.linalg.norm(coef, axis=0).max()), 2.0**-500)
        shift = COEF_BITS - 1 - math.frexp(longest)[1]
        self.coef = np.rint(np.ldexp(coef, shift))
        self.back = unit * 2.0**-shift
        self.n_classes = coef.shape[1]

    def linear(self, images: Matrix) -> Matrix:
        """Linear predictors, shape (m, K)."""
        return np.asarray((images @ self.coef) * self.back)

    def probabilities(self, images: Matrix) -> Matrix:
        """What is expected of the classes, shape (m, K)."""
        return probabilities(self.linear(images))


class ClassScores(Accumulator):
    """The sum of z (y - p)^T, clipped as a whole: `total` (r, K), int64, SECRET.

    In units of `unit`. A row adds z r^T with whole z and r, and |z| |r| <= `most` of these.
    """

    sums: ClassVar[tuple[str, ...]] = ("total",)

    def __init__(self, coordinates: Coordinates, coef: Matrix, clip: float) -> None:
        self.unit = coordinates.unit / RESIDUAL_UNITS
        self.most = clip / self.unit
        self.predicting = Predicting(coef, coordinates.unit)
        self.total = np.zeros(coef.shape, np.int64)

    @property
    def sensitivity(self) -> float:
        """No row adds a matrix of a larger Frobenius norm, in units."""
        return self.most * (1 + 2.0**-30)  # squares are compared after one rounding

    def take(self, images: Matrix, classes: NDArray[np.intp]) -> None:
        """Add the scores of rows."""
        square = squared_lengths(images)
        whole = self.whole_residuals(self.residuals(images, classes), square)
        self.total += (images.T @ whole).astype(np.int64)

    def residuals(self, images: Matrix, codes: NDArray[np.intp]) -> Matrix:
        """What is left of y after p, and zeros for rows that are held out, shape (m, K)."""
        left = -self.predicting.probabilities(images)
        taken = np.flatnonzero(codes >= 0)
        left[taken, codes[taken]] += 1.0
        left[codes < 0] = 0.0
        return left

    def whole_residuals(self, residuals: Matrix, square: Vector) -> Matrix:
        """Residuals in units, shortened so that none is longer than `most` over its image."""
        size = residuals[:, 0] ** 2
        for k in range(1, residuals.shape[1]):
            size += residuals[:, k] ** 2
        room = self.most / np.sqrt(np.maximum(square, 1.0)) - math.sqrt(residuals.shape[1]) / 2 - 1
        factor = np.maximum(room, 0.0) / np.maximum(np.sqrt(size), 2.0**-500)
        whole = np.rint(residuals * np.minimum(factor, RESIDUAL_UNITS)[:, None])
        whole[~(square * squared_lengths(whole) <= self.most**2)] = 0.0
        return whole


class TargetScores(ClassScores):
    """The sum of z e, clipped as a whole: `total` (r, 1), for targets that rows have as codes.

    A target of 1 is `RESIDUAL_UNITS`, and e what the linear predictor leaves of it.
    """

    def residuals(self, images: Matrix, codes: NDArray[np.intp]) -> Matrix:
        """What is left of the target, shape (m, 1)."""
        return codes[:, None] / RESIDUAL_UNITS - self.predicting.linear(images)


class SquaredErrors(Accumulator):
    """Sums of squares that each of m fits leaves of the targets: `total` (m,), int64, SECRET.

    Squares count up to `reach` squared, which is 2^`SQUARE_BITS` units.
    """

    sums: ClassVar[tuple[str, ...]] = ("total",)

    def __init__(self, unit: float, coefs: Sequence[Matrix], reach: float) -> None:
        self.unit = reach**2 * 2.0**-SQUARE_BITS
        self.reach = reach
        self.predicting = [Predicting(coef, unit) for coef in coefs]
        self.total = np.zeros(len(coefs), np.int64)

    def take(self, images: Matrix, codes: NDArray[np.intp]) -> None:
        """Add the squares of rows."""
        predicted = [one.linear(images)[:, 0] for one in self.predicting]
        self.add(codes / RESIDUAL_UNITS - np.stack(predicted))

    def add(self, residuals: Matrix) -> None:
        """Add the squares of residuals (m, n); one that is no number counts as the largest."""
        parts = np.abs(residuals) / self.reach
        parts = np.where(parts <= 1.0, parts, 1.0)
        self.total += np.floor(parts**2 * 2.0**SQUARE_BITS).astype(np.int64).sum(axis=1)


class HeldOutCounts(Accumulator):
    """Held-out rows by how sure the prediction is, and whether it is right: (bins, 2), int64."""

    sums: ClassVar[tuple[str, ...]] = ("counts",)

    def __init__(self, coordinates: Coordinates, coef: Matrix, bins: int) -> None:
        self.predicting = Predicting(coef, coordinates.unit)
        self.counts = np.zeros((bins, 2), np.int64)

    def take(self, images: Matrix, classes: NDArray[np.intp]) -> None:
        """Count rows."""
        held = classes < 0
        p = self.predicting.probabilities(images[held])
        right = (p.argmax(axis=1) == held_out(classes[held])).astype(np.intp)
        at = np.minimum((p.max(axis=1) * len(self.counts)).astype(np.intp), len(self.counts) - 1)
        np.add.at(self.counts, (at, right), 1)


class ImageStream(BlockAccumulator):
    """Feed images of rows, with their classes, to what takes them."""

    sums: ClassVar[tuple[str, ...]] = ("n_rows",)
    parts: ClassVar[tuple[str, ...]] = ("inner",)

    def __init__(self, coordinates: Coordinates, inner: ImageTaker) -> None:
        self.coordinates = coordinates
        self.inner = inner
        self.n_rows = 0

    def update(self, block: Matrix, drop: bool = False, scaling: object = None) -> int:
        """Take the rows of a block, whose last column is the class."""
        for start in range(0, len(block), IMAGES_AT_ONCE):
            rows = block[start : start + IMAGES_AT_ONCE]
            images = self.coordinates.images(rows[:, :-1])
            self.inner.take(images, rows[:, -1].astype(np.intp))
        self.n_rows += len(block)
        return -1


class ImageStore(Accumulator):
    """Images of all rows and their classes, in memory. SECRET, and gone with this object."""

    sums: ClassVar[tuple[str, ...]] = ("blocks",)

    def __init__(self) -> None:
        self.blocks: list[tuple[NDArray[np.int16], NDArray[np.int32]]] = []

    def take(self, images: Matrix, classes: NDArray[np.intp]) -> None:
        """Keep rows."""
        self.blocks.append((images.astype(np.int16), classes.astype(np.int32)))

    def __iter__(self) -> Iterator[tuple[Matrix, NDArray[np.intp]]]:
        for images, classes in self.blocks:
            yield images.astype(np.float64), classes.astype(np.intp)
