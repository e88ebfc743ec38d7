"""Matrices of long numbers in digits that BLAS multiplies exactly, and draws rounded to a grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from privgram._base.machine import cores
from privgram.exact.int128 import to_integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix
    from privgram.exact.int128 import Int128
    from privgram.exact.variates import Part, Variates

# A matrix is `sum_k D_k b^(low + k)`, `b = 2^bits`, with matrices `D_k` of integers in
# [-b/2, b/2] held in float64. The digits of a product are the convolution of the digits of its
# factors (Ozaki et al. [1]), and `digit_bits` makes `b` so small that no partial sum of it,
# in whatever order, reaches 2^53: any BLAS that adds products, blocked, threaded, fused or not,
# computes it exactly. The rest is carries: powers of two, `rint` and differences of integers.
#
# [1] K. Ozaki, T. Ogita, S. Oishi and S. M. Rump, "Error-free transformations of matrix
#    multiplication by using fast routines of matrix multiplication and its applications",
#    Numerical Algorithms 59, 2012.

#: Most digits in the shorter factor of a product; a longer one is cut into such.
MAX_DIGITS = 16

#: Digits that the carry of a place below 2^52 may fill above it, from 17 bits on.
CARRIED_DIGITS = 3

#: Rows and columns of a block of a product: enough for BLAS, few enough for the cache and to leave
#: out most of a triangle's zeros.
BLOCK = 128

#: Rows that are carried together.
STRIP = 32

#: Bits from which two digits below the last one of a truncated product suffice, and else three,
#: see `DigitMatrix.multiply`.
TWO_GUARD_BITS = 18


def digit_bits(terms: int) -> int:
    """Bits of a digit for products with inner dimension at most `terms`.

    The largest with ``MAX_DIGITS terms (b/2)^2 <= 2^52``, a factor of 2 below 2^53 for carries.
    """
    return (52 - (MAX_DIGITS * terms - 1).bit_length()) // 2 + 1


def place(x: float, bits: int) -> int:
    """Return the largest place with ``2^(bits place) <= x``."""
    return (math.frexp(x)[1] - 1) // bits


@dataclass(frozen=True, repr=False, eq=False)
class DigitMatrix:
    """A matrix of dyadic rationals; sums, products and `round` are exact.

    Its digits (n_digits, rows, columns) are integers in [-2^(bits-1), 2^(bits-1)], the least
    significant first, which counts ``2^(bits low)``. Operands of one expression have the same
    `bits`.
    """

    digits: Matrix
    low: int
    bits: int

    @classmethod
    def of(cls, parts: Iterable[Matrix], low: int, bits: int) -> DigitMatrix:
        """Add up float64 matrices, each rounded to multiples of ``2^(bits low)``."""
        parts = list(parts)
        shift = -bits * low
        largest = math.fsum(float(np.abs(part).max(initial=0.0)) for part in parts)
        count = max(math.frexp(largest)[1] + shift, 0) // bits + 2
        rows, columns = parts[0].shape
        digits = np.zeros((count, rows, columns))

        def add(p: slice) -> None:
            places = np.zeros_like(digits[:, p])
            for part in parts:
                _add_units(places, np.ldexp(part[p], shift), bits)
            for i, digit in enumerate(_carried(places, bits) if len(parts) > 1 else places):
                digits[i, p] = digit

        each(add, block_slices(rows, STRIP), rows)
        return cls._trimmed(digits, low, bits)

    @classmethod
    def _trimmed(cls, digits: Matrix, low: int, bits: int) -> DigitMatrix:
        used = np.flatnonzero(digits.any(axis=(1, 2)))
        first, last = (int(used[0]), int(used[-1])) if used.size else (0, 0)
        if digits.base is None:  # zeros above are given back
            digits.resize((last + 1, *digits.shape[1:]), refcheck=False)
        return cls(digits[first : last + 1], low + first, bits)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        _, rows, columns = self.digits.shape
        return rows, columns

    @property
    def T(self) -> DigitMatrix:
        """The transpose."""
        return DigitMatrix(self.digits.transpose(0, 2, 1), self.low, self.bits)

    def rows(self, chosen: NDArray[np.intp]) -> DigitMatrix:
        """Some rows of the matrix."""
        return DigitMatrix(self.digits[:, chosen], self.low, self.bits)

    def __add__(self, other: DigitMatrix) -> DigitMatrix:
        return self._plus(other, 1.0)

    def __sub__(self, other: DigitMatrix) -> DigitMatrix:
        return self._plus(other, -1.0)

    def _plus(self, other: DigitMatrix, sign: float) -> DigitMatrix:
        low = min(self.low, other.low)
        high = max(x.low + len(x.digits) for x in (self, other))
        digits = np.zeros((high - low + 1, *self.shape))

        def add(p: slice) -> None:
            places = np.zeros_like(digits[:, p])
            for x, of_x in ((self, 1.0), (other, sign)):
                places[x.low - low :][: len(x.digits)] += of_x * x.digits[:, p]
            for i, digit in enumerate(_carried(places, self.bits)):
                digits[i, p] = digit

        each(add, block_slices(self.shape[0], STRIP), self.shape[0])
        return self._trimmed(digits, low, self.bits)

    def __matmul__(self, other: DigitMatrix) -> DigitMatrix:
        return self.multiply(other)

    def multiply(
        self, other: DigitMatrix, low: int | None = None, *, symmetric: bool = False
    ) -> DigitMatrix:
        """Multiply exactly or, given `low`, with an error below ``b^low`` in every entry.

        In threads, without what is 0 of a triangular factor. A symmetric product, but for what was
        dropped from the factors, is computed below the diagonal only. Places below ``low - g``, g
        of 2 or 3, are not computed, and places below `low` are dropped after the carry. A place is
        at most 2^52, so the first loses at most ``2^52/(b - 1) b^(low - g)``, about ``b^low / 4``
        or less; the second ``b/2/(b - 1) b^low``.
        """
        n, m = len(self.digits), len(other.digits)
        rows, inner = self.shape
        columns = other.shape[1]
        if self.bits > digit_bits(inner):
            raise ArithmeticError("a product of matrices has too many terms to be exact")
        if min(n, m) > MAX_DIGITS:
            lower = DigitMatrix(self.digits[:MAX_DIGITS], self.low, self.bits)
            upper = DigitMatrix(self.digits[MAX_DIGITS:], self.low + MAX_DIGITS, self.bits)
            below = None if low is None else low - 1  # for two errors
            return lower.multiply(other, below, symmetric=symmetric) + upper.multiply(
                other, below, symmetric=symmetric
            )
        first = self.low + other.low
        # Of nothing but places below, the highest.
        guard = 2 if self.bits >= TWO_GUARD_BITS else 3
        start = 0 if low is None else min(max(0, low - guard - first), n + m - 2)
        dropped = 0 if low is None else max(0, low - first - start)
        n_digits = max(n + m - 1 - start + CARRIED_DIGITS - dropped, 1)
        digits = np.zeros((n_digits, rows, columns))
        down = each(lambda p: Strip.of(self.digits[:, p], p), block_slices(rows, BLOCK), rows)
        across = each(
            lambda q: Strip.of(other.digits[:, :, q].transpose(0, 2, 1), q),
            block_slices(columns, BLOCK),
            columns,
        )

        def fill(block: tuple[Strip, Strip]) -> None:
            left, right = block
            p, q = left.panel, right.panel
            places = [left.convolved(right, k) for k in range(start, n + m - 1)]
            for i, digit in enumerate(_carried(places, self.bits)):
                if i >= dropped:
                    digits[i - dropped, p, q] = digit
                    if symmetric and p != q:
                        digits[i - dropped, q, p] = digit.T

        blocks = [(left, right) for left in down for right in across]
        if symmetric:
            blocks = [(x, y) for x, y in blocks if y.panel.start <= x.panel.start]
        each(fill, blocks, rows)
        return self._trimmed(digits, first + start + dropped, self.bits)

    def gram(self, low: int | None = None) -> DigitMatrix:
        """Multiply by the transpose: ``X X^T``, at half the cost; `low` as in `multiply`."""
        return self.multiply(self.T, low, symmetric=True)

    def to_float(self) -> Matrix:
        """Convert to float64, within a few units in the last place of every entry."""
        return np.ldexp(_evaluate(self.digits, self.bits), self.bits * self.low)

    def round(self, exponent: int) -> Matrix:
        """Round to multiples of ``2^exponent``: integers ``floor(x / 2^exponent + 1/2)``.

        Exact to 2^53; beyond, within a few units in the last place, and still a function of the
        integer alone.
        """
        return _evaluate(self._rounded(exponent), self.bits)

    def round_within(self, error: float, exponent: int) -> Matrix | None:
        """Round as `round` does all matrices within `error` in every entry; None if they differ."""
        counts = np.empty(self.shape)
        margin = math.ldexp(1.0, math.frexp(error)[1])

        def settle(p: slice) -> bool:
            x = DigitMatrix(self.digits[:, p], self.low, self.bits)
            least, most = (x._rounded(exponent, add) for add in (-margin, margin))
            counts[p] = _evaluate(least, self.bits)
            return np.array_equal(least, most)

        rows = self.shape[0]
        return counts if all(each(settle, block_slices(rows, STRIP), rows)) else None

    def _rounded(self, exponent: int, add: float = 0.0) -> Matrix:
        """Digits of the counts, of this matrix with a power of two, or its negative, added.

        All but the last are in [0, b), where they are unique: they depend on the counts alone.
        """
        base = math.ldexp(1.0, self.bits)
        at = place(abs(add), self.bits) if add else self.low
        low, high = min(self.low, at), max(self.low + len(self.digits), at + 1)
        # Shift the binary point so that the grid is b^below in units of the first digit.
        shift = (self.bits * low - exponent) % self.bits
        below = (exponent - self.bits * low + shift) // self.bits
        padding = max(0, 1 - below)
        below += padding
        places = np.zeros((max(padding + high - low, below) + 1, *self.shape))
        places[padding + self.low - low :][: len(self.digits)] = np.ldexp(self.digits, shift)
        places[padding + at - low] += np.ldexp(add, shift - self.bits * at)
        places[below - 1] += base / 2
        carry = np.zeros(self.shape)
        for digit in places[:-1]:
            digit += carry
            carry = np.floor(digit / base)
            digit -= carry * base
        places[-1] = carry
        return places[below:]


Item = TypeVar("Item")
Result = TypeVar("Result")


def each(work: Callable[[Item], Result], items: Sequence[Item], rows: int) -> list[Result]:
    """Do the work of every item, in threads if it is that of a matrix with many rows."""
    if rows <= BLOCK:
        return [work(item) for item in items]
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(work, items))


def block_slices(size: int, block: int) -> list[slice]:
    """Slices of so many, the last one shorter."""
    return [slice(i, min(i + block, size)) for i in range(0, size, block)]


@dataclass(frozen=True, repr=False, eq=False)
class Strip:
    """Some rows of a factor, or columns of the other one, transposed."""

    digits: Matrix  # (n_digits, rows, inner)
    panel: slice  # which rows
    support: list[tuple[int, int]]  # of each digit, where it is not 0: first, and one past the last

    @classmethod
    def of(cls, digits: Matrix, panel: slice) -> Strip:
        """Find where the digits are not 0."""
        used = [np.flatnonzero(digit.any(axis=0)) for digit in digits]
        return cls(digits, panel, [(int(u[0]), int(u[-1]) + 1) if u.size else (0, 0) for u in used])

    def convolved(self, other: Strip, k: int) -> Matrix:
        """Place k of the product."""
        total = np.zeros((self.digits.shape[1], other.digits.shape[1]))
        for i in range(max(0, k - len(other.digits) + 1), min(k, len(self.digits) - 1) + 1):
            (first, last), (start, stop) = self.support[i], other.support[k - i]
            both = slice(max(first, start), min(last, stop))
            if both.start < both.stop:
                total += self.digits[i, :, both] @ other.digits[k - i, :, both].T
        return total


def _add_units(places: Matrix, part: Matrix, bits: int) -> None:
    # Multiples of one unit: `rint` and the carries are exact however large they are.
    for place, digit in zip(places, _carried([np.rint(part)], bits), strict=False):
        place += digit


def _carried(places: Sequence[Matrix] | Matrix, bits: int) -> Iterator[Matrix]:
    base = math.ldexp(1.0, bits)
    carry = np.zeros_like(places[0])
    for place in places:
        carry += place
        digit, carry = carry, np.rint(carry / base)
        digit -= carry * base
        yield digit
    while carry.any():
        digit, carry = carry, np.rint(carry / base)
        digit -= carry * base
        yield digit


def _evaluate(digits: Sequence[Matrix] | Matrix, bits: int) -> Matrix:
    value = np.zeros_like(digits[0])
    for digit in digits[::-1]:
        value *= math.ldexp(1.0, bits)  # as np.ldexp, and ten times as fast
        value += digit
    return value


# Draws times public or secret matrices, rounded to a public grid exactly. The draws are real
# numbers of which as many bits are seen as that takes (`privgram.exact.variates`). Integers are in
# units of the second moment: its matrix is `unit * G`.
# Grids are powers of two in these units, and what is returned counts them. No claim is made or
# needed about entries near a boundary between two grid points.

#: Binary digits after the point by which rounding to a grid is decided, or as many more as needed.
DECIDING_BITS = 44

#: Relative slack on norms computed in float64, d up to 2^15.
SLACK = 1 + 2.0**-20


@dataclass(frozen=True, repr=False, eq=False)
class DigitDraws:
    """Draws in digits."""

    draws: Variates | Part
    bits: int

    @cached_property
    def start(self) -> Matrix:
        """The draws to about the digits of float64."""
        return self.draws.to_float()

    def within(self, error: float) -> DigitMatrix:
        """Digits such that no entry of the matrix is further off than `error`."""
        parts = self.draws.parts(error / 2)
        return DigitMatrix.of(parts, place(error / len(parts), self.bits), self.bits)


def integer_matrix(integers: Int128, regulariser: int, bits: int = 0) -> DigitMatrix:
    """``G + regulariser I``, of which the regulariser may be negative."""
    high, low = integers
    d = len(high)
    bits = bits or digit_bits(d)
    half, mask = 1 << (bits - 1), (1 << bits) - 1
    diagonal = to_integers((np.diagonal(high), np.diagonal(low))) + regulariser
    ends = (int(high.min()) << 64, (int(high.max()) + 1) << 64, min(diagonal), max(diagonal))
    digits = np.empty((max(abs(end) for end in ends).bit_length() // bits + 2, d, d))

    def split(p: slice) -> None:
        upper, lower = high[p], low[p]
        for digit in digits[:, p]:
            digit[:] = lower & np.uint64(mask)
            carry = digit > half
            digit -= carry * float(mask + 1)
            lower = lower >> np.uint64(bits) | upper.view(np.uint64) << np.uint64(64 - bits)
            lower += carry
            upper = (upper >> np.int64(bits)) + (carry & (lower == 0))

    each(split, block_slices(d, STRIP), d)
    for digit in digits:
        rest = (diagonal + half & mask) - half
        np.einsum("ii->i", digit)[:] = rest
        diagonal = (diagonal - rest) >> bits
    return DigitMatrix._trimmed(digits, 0, bits)


def multiplied(left: DigitMatrix, right: DigitDraws, error: float) -> DigitMatrix:
    """Multiply, with an error of at most `error` in every entry."""
    reach = SLACK * float(np.abs(left.to_float()).sum(axis=1).max())
    return left.multiply(right.within(error / (2 * reach)), place(error / 2, left.bits))


def gram(left: DigitMatrix, right: DigitDraws, target: float) -> tuple[DigitMatrix, float]:
    """``M M^T``, M = left right, and a bound of the error of every entry, near the target."""
    columns = right.start.shape[1]
    reach = 2 * math.sqrt(columns)
    guess = float(np.linalg.norm(left.to_float() @ right.start, axis=1).max())
    # M = m + E, entries of E at most e: |m E^T + E m^T + E E^T| <= 2 |m_i| sqrt(c) e + c e^2.
    e = target / (reach * guess)
    m = multiplied(left, right, e)
    norm = SLACK * float(np.linalg.norm(m.to_float(), axis=1).max())
    low = place(target, left.bits)
    error = reach * norm * e + columns * e**2 + math.ldexp(1.0, left.bits * low)
    return m.gram(low), SLACK * error
