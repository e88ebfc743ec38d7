"""Products of integer matrices without a rounding, and their sums, to which noise is added.

Matrices of integers are float64 here. Integers below 2**53 are floats, and a matrix product of them
is exact if no sum of magnitudes exceeds that, in any order of summation. Where one could, a factor
is cut into two with half of its bits each [1]_.

References
----------
.. [1] K. Ozaki, T. Ogita, S. Oishi and S. M. Rump, "Error-free transformations of matrix
   multiplication by using fast routines of matrix multiplication and its applications", Numer.
   Algorithms 59, 2012.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from privgram.exact.int128 import add, from_int64, grid_exponent, round_to_grid
from privgram.papers._shared import from_float

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix
    from privgram.exact.int128 import Int128

#: Rows that are converted at a time: little beside the matrix, and within a cache.
ROWS_AT_ONCE = 1 << 11


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


class LargeTotal:
    """A dense matrix of integers below 2**126, all zero at first.

    It is the sum of 64-bit integers and, once those may not suffice, 128-bit ones.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._small = np.zeros(shape, np.int64)
        self._bound = 0.0
        self._large: Int128 | None = None

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
                self._add_large(chunk, from_float(piece * 2.0**product.shift))
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
            noise = from_float(std * rng.standard_normal(out[chunk].shape))
            out[chunk] = round_to_grid(add(self._limbs(chunk), noise), exponent)
        out *= 2.0**exponent
        return out

    def _limbs(self, rows: slice) -> Int128:
        integers = from_int64(self._small[rows])
        if self._large is None:
            return integers
        return add((self._large[0][rows], self._large[1][rows]), integers)

    def _add_large(self, rows: slice, integers: Int128) -> None:
        assert self._large is not None
        high, low = self._large
        high[rows], low[rows] = add((high[rows], low[rows]), integers)

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
    for start in range(rows.start, rows.stop, ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, rows.stop))
