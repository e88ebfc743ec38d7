"""Where noise meets data: 128-bit integers, and products of integer matrices without a rounding.

The second moment is an integer matrix in the unit u = 1/S^2, held as two limbs
(value = high * 2**64 + low). Noise is drawn in floating point with no data in sight, rounded to
integers, added without error, and the sum is rounded to a public power of two. Every step after the
draw is exact, so the release is a rounding of the ideal mechanism's output and inherits its
guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix

    Limbs = tuple[NDArray[np.int64], NDArray[np.uint64]]

#: The released grid is finer than the noise's standard deviation by 2**GRID_BITS.
GRID_BITS = 10

_WORD = 2.0**64


def to_limbs(values: NDArray[np.float64]) -> Limbs:
    """Round floats to the nearest integers, as 128-bit limbs.

    ValueError if one does not fit: the noise is larger than any data could need.
    """
    rounded = np.rint(values)
    magnitude = np.abs(rounded)
    if not np.all(magnitude < 2.0**126):
        raise ValueError(
            "the noise exceeds 2**126 units of the exact second moment; "
            "the privacy parameters are too small for any useful release"
        )
    # Split the magnitude, where every step is exact in float64, then negate.
    high = np.floor(magnitude / _WORD)
    low = (magnitude - high * _WORD).astype(np.uint64)
    high = high.astype(np.int64)
    negative = rounded < 0
    high = np.where(negative, ~high + (low == 0), high)
    low = np.where(negative, -low, low)
    return high, low


def from_int64(values: NDArray[np.int64]) -> Limbs:
    """64-bit integers as 128-bit limbs."""
    return values >> np.int64(63), values.view(np.uint64)


def add(a: Limbs, b: Limbs) -> Limbs:
    """Exact sum of two arrays of 128-bit integers."""
    low = a[1] + b[1]
    return a[0] + b[0] + (low < a[1]), low


def round_to_grid(value: Limbs, exponent: int) -> NDArray[np.float64]:
    """Multiples of 2**exponent nearest to 128-bit integers, counted in grid steps.

    Ties go up.  The count is exact below 2**53 and correctly rounded above.
    """
    high, low = value
    if not 0 <= exponent < 127:
        raise ValueError(f"grid exponent {exponent} outside [0, 127)")
    if exponent:
        half = 1 << (exponent - 1)
        rounding = np.array(half >> 64, np.int64), np.array(half & (2**64 - 1), np.uint64)
        high, low = add((high, low), rounding)
        if exponent >= 64:
            low = (high >> np.int64(exponent - 64)).astype(np.uint64)
            high = high >> np.int64(63)
        else:
            low = (low >> np.uint64(exponent)) | (
                high.astype(np.uint64) << np.uint64(64 - exponent)
            )
            high = high >> np.int64(exponent)
    return to_float(high, low)


def to_float(high: NDArray[np.int64], low: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Nearest float64 to 128-bit integers, up to one further rounding."""
    # Halves of 64 bits as signed numbers: |high| is then as small as it can be
    # and a value below 2**63 comes out of its low word alone, exactly.
    signed = low.view(np.int64)
    return ((high + (signed < 0)).astype(np.float64) * _WORD) + signed.astype(np.float64)


def to_integers(value: Limbs) -> NDArray[np.object_]:
    """Python's integers of 128-bit ones."""
    high, low = (part.astype(object) for part in value)
    integers: NDArray[np.object_] = (high << 64) + low
    return integers


def check_gram(value: Limbs, diagonal: Limbs, most: int) -> None:
    """Raise unless the trace is at most `most`, and no entry beyond it, as of q q^T summed."""
    high, _ = value
    squares = to_integers(diagonal)
    if min(squares) < 0 or sum(squares) > most:
        raise ValueError("the diagonal is not that of so many rows")
    if high.min() < (-most) >> 64 or high.max() > most >> 64:
        raise ValueError("the matrix is not that of so many rows")


def grid_exponent(noise_std: float) -> int:
    """Exponent of the public grid for noise of this standard deviation in units."""
    if not noise_std > 0:
        raise ValueError(f"noise standard deviation must be positive, not {noise_std}")
    return max(0, int(np.floor(np.log2(noise_std))) - GRID_BITS)


# Products of integer matrices, float64 here. Integers below 2**53 are floats, and a matrix product
# of them is exact if no sum of magnitudes exceeds that, in any order of summation. Where one could,
# a factor is cut into two with half of its bits each [1].
#
# [1] K. Ozaki, T. Ogita, S. Oishi and S. M. Rump, "Error-free transformations of matrix
#    multiplication by using fast routines of matrix multiplication and its applications",
#    Numer. Algorithms 59, 2012.

#: Rows that are converted at a time: little beside the matrix, and within a cache.
CHUNK = 1 << 11


class Integers:
    """A matrix of integers, dense, CSR or CSC, that can be cut into smaller ones."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    @cached_property
    def largest(self) -> float:
        """Largest magnitude."""
        entries = self.matrix if isinstance(self.matrix, np.ndarray) else self.matrix.data
        return float(max(entries.max(initial=0.0), -entries.min(initial=0.0)))

    @cached_property
    def norm(self) -> float:
        """Largest norm of a column, of a dense matrix."""
        return math.sqrt(float(np.einsum("ij,ij->j", self.matrix, self.matrix).max()))

    @cached_property
    def halves(self) -> list[tuple[Integers, int]]:
        """Matrices, none of them zero, and shifts: the sum of matrix * 2**shift is this one."""
        entries = self.matrix if isinstance(self.matrix, np.ndarray) else self.matrix.data
        bits = int(self.largest).bit_length() // 2
        high = np.rint(entries * 2.0**-bits)
        low = entries - high * 2.0**bits
        both = (Integers(with_entries(self.matrix, half)) for half in (high, low))
        return [(x, s) for x, s in zip(both, (bits, 0), strict=True) if x.largest]


class Product(NamedTuple):
    """A product in units of 2**shift, entries and partial sums of at most `bound`."""

    matrix: Matrix
    shift: int
    bound: float


def products(left: Integers, right: Integers, part: slice, shift: int = 0) -> Iterator[Product]:
    """Exact products whose sum is left @ right[part], by Cauchy and Schwarz.

    How many depends on the entries; their sum does not.
    """
    bound = left.largest * math.sqrt(left.matrix.shape[1]) * right.norm
    if bound <= 2.0**52:  # a bit less than there is, for the rounding of the bound
        yield Product(left.matrix @ right.matrix[part], shift, bound)
    # The left one is smaller, and often of few digits, or many with zeros at the end.
    elif left.largest**2 >= right.largest:
        for half, bits in left.halves:
            yield from products(half, right, part, shift + bits)
    else:
        for half, bits in right.halves:
            yield from products(left, half, part, shift + bits)


class Total:
    """A dense matrix of integers below 2**126, all zero at first.

    It is the sum of 64-bit integers and, once those may not suffice, 128-bit ones.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._small = np.zeros(shape, np.int64)
        self._bound = 0.0
        self._large: Limbs | None = None

    def add(self, rows: slice, product: Product) -> None:
        """Add a product to some rows."""
        most = product.bound * 2.0**product.shift
        large = most > 2.0**61
        if large or self._bound + most > 2.0**62:
            self._spill()
        if not large:
            self._bound += most
        for chunk in _chunks(rows):
            within = slice(chunk.start - rows.start, chunk.stop - rows.start)
            piece = product.matrix[within]
            if large:
                self._add_large(chunk, to_limbs(piece * 2.0**product.shift))
            else:
                self._small[chunk] += piece.astype(np.int64) << product.shift

    def noisy(self, std: Matrix | float, rng: np.random.Generator) -> Matrix:
        """Return the sum with independent Gaussian noise, rounded to a public grid below the noise.

        Of deviations `std` (columns,), at most 2^100. The noise is drawn in floats with no data in
        sight, row by row, and rounded to integers. Those are added without error, and the sum is
        rounded to multiples of a power of two, about 2**-10 of the least `std` but at least 1.
        """
        if np.max(std) > 2.0**100:
            raise ValueError("the privacy parameters are too small for any useful result")
        exponent = grid_exponent(float(np.min(std)))
        out = np.empty(self.shape)
        for chunk in _chunks(slice(0, len(out))):
            noise = to_limbs(std * rng.standard_normal(out[chunk].shape))
            out[chunk] = round_to_grid(add(self._limbs(chunk), noise), exponent)
        out *= 2.0**exponent
        return out

    def _limbs(self, rows: slice) -> Limbs:
        limbs = from_int64(self._small[rows])
        if self._large is None:
            return limbs
        return add((self._large[0][rows], self._large[1][rows]), limbs)

    def _add_large(self, rows: slice, limbs: Limbs) -> None:
        assert self._large is not None
        high, low = self._large
        high[rows], low[rows] = add((high[rows], low[rows]), limbs)

    def _spill(self) -> None:
        """Move the 64-bit integers to the 128-bit ones."""
        if self._large is None:
            self._large = np.zeros(self.shape, np.int64), np.zeros(self.shape, np.uint64)
        for chunk in _chunks(slice(0, self.shape[0])):
            self._add_large(chunk, from_int64(self._small[chunk]))
        self._small[:] = 0
        self._bound = 0.0


def with_entries(matrix: Any, entries: Matrix) -> Any:
    """A matrix with other entries in the same places."""
    if isinstance(matrix, np.ndarray):
        return entries
    return type(matrix)((entries, matrix.indices, matrix.indptr), shape=matrix.shape)


def _chunks(rows: slice) -> Iterator[slice]:
    for start in range(rows.start, rows.stop, CHUNK):
        yield slice(start, min(start + CHUNK, rows.stop))
