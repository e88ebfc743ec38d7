"""Draws times public or secret matrices, rounded to a public grid exactly.

The draws are real numbers of which as many bits are seen as that takes
(`privgram.exact.variates`). Integers are in units of the second moment: its matrix is ``unit * G``.
Grids are powers of two in these units, and what is returned counts them. No claim is made or needed
about entries near a boundary between two grid points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from privgram.exact.digits import DigitMatrix, digit_bits, place

if TYPE_CHECKING:
    from privgram.exact.limbs import Limbs

__all__ = ["Drawn", "Draws", "add_wisharts", "gram", "integer_matrix", "multiplied"]

#: Binary digits after the point by which rounding to a grid is decided, or as many more as needed.
DECIDING_BITS = 44

#: Binary digits of the scale of additive noise: its square root has these.
ROOT_BITS = 24

#: Relative slack on norms computed in float64, d up to 2^15.
SLACK = 1 + 2.0**-20


class Draws(Protocol):
    """A matrix of real numbers, as `privgram.exact.variates.Variates` is one."""

    def parts(self, error: float) -> list[NDArray[np.float64]]:
        """Matrices whose sum is within `error` in every entry; a smaller one shows more digits."""
        ...

    def to_float(self) -> NDArray[np.float64]:
        """The numbers to about the digits of float64."""
        ...


@dataclass(frozen=True, repr=False, eq=False)
class Drawn:
    """Draws in digits."""

    draws: Draws
    bits: int

    @cached_property
    def start(self) -> NDArray[np.float64]:
        """The draws to about the digits of float64."""
        return self.draws.to_float()

    def within(self, error: float) -> DigitMatrix:
        """Digits such that no entry of the matrix is further off than `error`."""
        parts = self.draws.parts(error / 2)
        return DigitMatrix.of(parts, place(error / len(parts), self.bits), self.bits)


def integer_matrix(limbs: Limbs, regulariser: int) -> DigitMatrix:
    """``G + regulariser I``, of which the regulariser may be negative."""
    high, low = limbs
    d = len(high)
    mask = 0xFFFFFFFF
    parts = [
        (low & np.uint64(mask)).astype(np.float64),
        (low >> np.uint64(32)).astype(np.float64) * 2.0**32,
        (high & mask).astype(np.float64) * 2.0**64,
        (high >> 32).astype(np.float64) * 2.0**96,
    ]
    sign, rest = (-1.0 if regulariser < 0 else 1.0), abs(regulariser)
    for k in range(0, rest.bit_length(), 32):
        parts.append(np.eye(d) * math.ldexp(sign * (rest >> k & mask), k))
    return DigitMatrix.of(parts, 0, digit_bits(d))


def multiplied(left: DigitMatrix, right: Drawn, error: float) -> DigitMatrix:
    """Multiply, with an error of at most `error` in every entry."""
    reach = SLACK * float(np.abs(left.to_float()).sum(axis=1).max())
    return left.multiply(right.within(error / (2 * reach)), place(error / 2, left.bits))


def gram(left: DigitMatrix, right: Drawn, target: float) -> tuple[DigitMatrix, float]:
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


def add_wisharts(
    limbs: Limbs, scale: float, plus: Draws, minus: Draws, exponent: int
) -> NDArray[np.float64]:
    """Round ``G + scale (A A^T - B B^T)`` to multiples of ``2^exponent`` units: exactly.

    Counts of the grid, symmetric (d, d). A and B are Bartlett's factors. The scale, in units, is
    raised by a part in 2^20 at most, to a square of few digits.
    """
    g = integer_matrix(limbs, 0)
    root = _root(scale)
    low = place(root * 2.0**-ROOT_BITS, g.bits)
    left = DigitMatrix.of([root * np.eye(g.shape[0])], low, g.bits)
    drawn = [Drawn(draws, g.bits) for draws in (plus, minus)]
    bits = DECIDING_BITS
    while True:
        target = math.ldexp(1.0, exponent - bits - 2)
        (x, error), (y, more) = (gram(left, one, target) for one in drawn)
        counts = (g + x - y).round_within(error + more, exponent)
        if counts is not None:
            return counts
        bits *= 2


def _root(x: float) -> float:
    """Give a square root of few binary digits, rounded up."""
    mantissa, shift = math.frexp(math.sqrt(x))
    return math.ldexp(math.floor(math.ldexp(mantissa, ROOT_BITS)) + 1, shift - ROOT_BITS)
