"""Exact arithmetic on matrices of long numbers, in digits that BLAS multiplies without rounding.

A matrix is ``sum_k D_k b^(low + k)``, ``b = 2^bits``, with matrices ``D_k`` of integers in
[-b/2, b/2] held in float64. The digits of a product are the convolution of the digits of its
factors (Ozaki et al. [1]_), and `digit_bits` makes ``b`` so small that no partial sum of it,
in whatever order, reaches 2^53: any BLAS that adds products, blocked, threaded, fused or not,
computes it exactly. The rest is carries: powers of two, `rint` and differences of integers.

References
----------
.. [1] K. Ozaki, T. Ogita, S. Oishi and S. M. Rump, "Error-free transformations of matrix
   multiplication by using fast routines of matrix multiplication and its applications",
   Numerical Algorithms 59, 2012.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["DigitMatrix", "digit_bits"]

#: Most digits in the shorter factor of a product.
MAX_DIGITS = 16

#: Digits kept below the last one of a truncated product, see `DigitMatrix.multiply`.
GUARD_DIGITS = 3


def digit_bits(terms: int) -> int:
    """Bits of a digit for products with inner dimension at most `terms`.

    The largest with ``MAX_DIGITS terms (b/2)^2 <= 2^52``, a factor of 2 below 2^53 for carries.
    """
    return (52 - (MAX_DIGITS * terms - 1).bit_length()) // 2 + 1


@dataclass(frozen=True, repr=False, eq=False)
class DigitMatrix:
    """A matrix of dyadic rationals; sums, products and `round` are exact.

    Parameters
    ----------
    digits : ndarray of shape (n_digits, rows, columns)
        Integers in [-2^(bits-1), 2^(bits-1)], the least significant first.
    low : int
        Place of the first of them: it counts ``2^(bits low)``.
    bits : int
        Operands of one expression have the same.
    """

    digits: NDArray[np.float64]
    low: int
    bits: int

    @classmethod
    def of(cls, parts: Iterable[NDArray[np.float64]], low: int, bits: int) -> DigitMatrix:
        """Add up float64 matrices, each rounded to multiples of ``2^(bits low)``."""
        total: DigitMatrix | None = None
        for part in parts:
            # Multiples of one unit: `rint` and the carries are exact however large they are.
            units = np.rint(np.ldexp(part, -bits * low))
            term = cls._from_places([units], low, bits)
            total = term if total is None else total + term
        assert total is not None
        return total

    @classmethod
    def _from_places(
        cls, places: Sequence[NDArray[np.float64]], low: int, bits: int
    ) -> DigitMatrix:
        """Carry integers below 2^52 in magnitude into digits; drop zeros at both ends."""
        digits = np.array(list(_carried(places, bits)))
        used = np.flatnonzero(digits.any(axis=(1, 2)))
        first, last = (int(used[0]), int(used[-1])) if used.size else (0, 0)
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

    def __add__(self, other: DigitMatrix) -> DigitMatrix:
        low = min(self.low, other.low)
        high = max(x.low + len(x.digits) for x in (self, other))
        places = np.zeros((high - low, *self.shape))
        for x in (self, other):
            places[x.low - low :][: len(x.digits)] += x.digits
        return self._from_places(list(places), low, self.bits)

    def __sub__(self, other: DigitMatrix) -> DigitMatrix:
        return self + DigitMatrix(-other.digits, other.low, other.bits)

    def __matmul__(self, other: DigitMatrix) -> DigitMatrix:
        return self.multiply(other)

    def multiply(self, other: DigitMatrix, low: int | None = None) -> DigitMatrix:
        """Multiply exactly or, given `low`, with an error below ``b^low`` in every entry.

        Notes
        -----
        Places below ``low - 3`` are not computed, and places below `low` are dropped after the
        carry. A place is at most 2^52, so the first loses at most ``2^52/(b - 1) b^(low - 3)``,
        less than ``b^low / 100`` from 17 bits on; the second ``b/2/(b - 1) b^low``.
        """
        n, m = len(self.digits), len(other.digits)
        inner = self.shape[1]
        if min(n, m) > MAX_DIGITS or self.bits > digit_bits(inner):
            raise ArithmeticError("a product of matrices has too many digits to be exact")
        first = self.low + other.low
        start = 0 if low is None else max(0, low - GUARD_DIGITS - first)
        # One product a place: [A_i ... A_j] times [B_(k-i) ; ... ; B_(k-j)].
        left = self.digits.transpose(1, 0, 2).reshape(self.shape[0], n * inner)
        right = other.digits[::-1].reshape(m * inner, other.shape[1])
        places = []
        for k in range(start, n + m - 1):
            i, j = max(0, k - m + 1), min(k, n - 1)
            offset = m - 1 - k
            places.append(
                left[:, i * inner : (j + 1) * inner]
                @ right[(offset + i) * inner : (offset + j + 1) * inner]
            )
        if not places:
            places = [np.zeros((self.shape[0], other.shape[1]))]
        product = self._from_places(places, first + start, self.bits)
        return product if low is None else product._truncated(low)

    def _truncated(self, low: int) -> DigitMatrix:
        if low <= self.low:
            return self
        kept = self.digits[low - self.low :]
        return DigitMatrix(kept if len(kept) else 0 * self.digits[:1], low, self.bits)

    def gram(self) -> DigitMatrix:
        """Multiply by the transpose: ``X X^T``, at half the cost."""
        n, rows, inner = self.digits.shape
        if n > MAX_DIGITS or self.bits > digit_bits(inner):
            raise ArithmeticError("a product of matrices has too many digits to be exact")
        left = self.digits.transpose(1, 0, 2).reshape(rows, n * inner)
        right = self.digits[::-1].transpose(1, 0, 2).reshape(rows, n * inner)
        places = []
        for k in range(2 * n - 1):
            # Digits i < k - i; their mirror images are the transpose.
            i, half = max(0, k - n + 1), (k + 1) // 2
            offset = n - 1 - k
            place = (
                left[:, i * inner : half * inner]
                @ right[:, (offset + i) * inner : (offset + half) * inner].T
            )
            place = place + place.T
            if k % 2 == 0:
                middle = self.digits[k // 2]
                place += middle @ middle.T
            places.append(place)
        return self._from_places(places, 2 * self.low, self.bits)

    def to_float(self) -> NDArray[np.float64]:
        """Convert to float64, within a few units in the last place of every entry."""
        return np.ldexp(_evaluate(self.digits, self.bits), self.bits * self.low)

    def round(self, exponent: int) -> NDArray[np.float64]:
        """Round to multiples of ``2^exponent``: ``floor(x / 2^exponent + 1/2)``.

        Returns
        -------
        ndarray of shape (rows, columns)
            Integers. Exact to 2^53; beyond, within a few units in the last place, and still a
            function of the integer alone.
        """
        base = math.ldexp(1.0, self.bits)
        # Shift the binary point so that the grid is b^below in units of the first digit.
        shift = (self.bits * self.low - exponent) % self.bits
        below = (exponent - self.bits * self.low + shift) // self.bits
        padding = max(0, 1 - below)
        below += padding
        places = np.zeros((max(padding + len(self.digits), below), *self.shape))
        places[padding:][: len(self.digits)] = np.ldexp(self.digits, shift)
        places[below - 1] += base / 2
        # Digits in [0, b) are unique: what is left of them depends on the rounded value alone.
        carry = np.zeros(self.shape)
        for place in places:
            place += carry
            carry = np.floor(place / base)
            place -= carry * base
        return _evaluate([*places[below:], carry], self.bits)


def _carried(places: Sequence[NDArray[np.float64]], bits: int) -> Iterator[NDArray[np.float64]]:
    base = math.ldexp(1.0, bits)
    carry = np.zeros_like(places[0])
    for place in places:
        total = place + carry
        carry = np.rint(total / base)
        yield total - carry * base
    while carry.any():
        total = carry
        carry = np.rint(total / base)
        yield total - carry * base


def _evaluate(
    digits: Sequence[NDArray[np.float64]] | NDArray[np.float64], bits: int
) -> NDArray[np.float64]:
    value = np.zeros_like(digits[0])
    for digit in digits[::-1]:
        value = np.ldexp(value, bits) + digit
    return value
