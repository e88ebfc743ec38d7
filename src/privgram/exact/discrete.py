"""Exact draws: discrete Gaussian noise of any rational variance, and normal variates.

`privgram._core.draws` draws them in integer arithmetic alone. It leaves out what its 64 bits do
not decide, once in some 2^50 draws, and proposals beyond its table, and decimal arithmetic, whose
exponentials are rounded correctly to as many digits as are asked for, settles that here. The law
is that of Canonne, Kamath and Steinke [1]_, the sampler and its proof those of
docs/theory/finite-precision.md. Time depends on what is drawn and not on any data.

References
----------
.. [1] C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy",
   NeurIPS 2020.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from privgram._core import draws

if TYPE_CHECKING:
    from collections.abc import Callable

    from privgram.exact.int128 import Int128

#: A standard deviation has 2^4 to 2^5 blocks.
BLOCK_BITS = 4

#: Largest standard deviation: 128 bits have room for 2^37 of it.
LARGEST = 2**90

#: Binary places of a normal that are drawn at first: its standard deviation has 2^4 blocks.
NORMAL_PLACES = 64 + BLOCK_BITS

#: What is closer to a threshold, in 2^-64, is settled here.
MARGIN = draws.MARGIN

_WORD = 64


def gaussian(variance: Fraction, size: int, rng: np.random.Generator) -> Int128:
    """Draw integers with P(y) in proportion to exp(-y^2 / (2 variance)), 0 < variance <= 2^180.

    Their variance is at most `variance`, and as good as it from 1 on.
    """
    return _draw(_table(variance), size, rng)


def normal(size: int, rng: np.random.Generator) -> tuple[Int128, dict[int, list[int]]]:
    """Draw standard normals y: the whole parts of 2^NORMAL_PLACES y, rounded down.

    What is left of each is uniform on [0, 1), and independent of all else, but for those of which
    further words were seen: these, in order, by number of the draw.
    """
    seen: dict[int, list[int]] = {}

    def settle(at: int, negative: bool, share: Fraction, size: int, first: int) -> int | None:
        beyond: list[int] = []
        if not accepts_real(share, size, beyond, first, word):
            return None
        if beyond:
            seen[at] = [2**_WORD - 1 - w if negative else w for w in beyond]
        return ~size if negative else size

    word = draws.Words(rng.bit_generator)
    table = law(Fraction(1, 2 * 4**BLOCK_BITS), _WORD, MARGIN, whole=False)
    return _filled(table, _WORD, size, word, settle), seen


@lru_cache(maxsize=8)
def law(rate: Fraction, shift: int, margin: int, *, whole: bool = True) -> draws.Law:
    """The table of a law whose rate is that of blocks; all of this is public."""
    rate67 = math.floor(rate * 2**67) if shift else 0
    return draws.Law(shift, rate67, floor_of_exp(rate, Fraction(1), 127), margin, whole=whole)


@lru_cache(maxsize=16)  # many sums have noise of one law
def _table(variance: Fraction) -> tuple[Fraction, int, draws.Law]:
    """The law of a variance: its rate and shift, and its table."""
    variance, most = Fraction(variance), LARGEST**2
    if not 0 < variance <= most:
        raise ValueError(f"the variance of discrete noise must be positive and at most {most:.4g}")
    rate, shift = 1 / (2 * variance), max(0, _log2(variance) // 2 - BLOCK_BITS)
    return rate, shift, law(rate * 4**shift, shift, MARGIN)


def _log2(value: Fraction) -> int:
    """The whole part of a positive number's binary logarithm."""
    places = value.numerator.bit_length() - value.denominator.bit_length()
    return places if value >= Fraction(2) ** places else places - 1


def _draw(of: tuple[Fraction, int, draws.Law], size: int, rng: np.random.Generator) -> Int128:
    rate, shift, table = of
    word = draws.Words(rng.bit_generator)

    def settle(_: int, negative: bool, share: Fraction, size: int, first: int) -> int | None:
        if not accepts(share, rate * size**2, first, word):
            return None
        return -size if negative else size

    return _filled(table, shift, size, word, settle)


def _filled(
    table: draws.Law,
    shift: int,
    size: int,
    word: draws.Words,
    settle: Callable[[int, bool, Fraction, int, int], int | None],
) -> Int128:
    """Draw by a law; `settle` gives the number for a proposal, or None, where C has not decided.

    It takes the draw's number, whether that is negative, the proposal's share, its magnitude and
    the first word of the uniform number.
    """
    high, low = np.empty(size, np.int64), np.empty(size, np.uint64)
    at = 0
    while (left := table.fill(word, high, low, at)) is not None:
        at, negative, block, offset, first = left
        share = Fraction(table.scale, int(table.weights[block]))
        if block == draws.BLOCKS:
            beyond, scarcity = _tail(word)
            block, share = block + beyond, share * scarcity
            offset = _uniform(shift, word)
            first = word()
        y = settle(at, negative, share, (block << shift) + offset, first)
        if y is not None:
            high[at], low[at] = y >> _WORD, y & (2**_WORD - 1)
            at += 1
    return high, low


def _tail(word: Callable[[], int]) -> tuple[int, int]:
    """A block beyond the table, counted from there, and one over its probability."""
    drawn = word()
    within, drawn, bits = drawn & 31, drawn >> 5, _WORD - 5
    groups = 0
    while not drawn:
        groups += bits
        drawn, bits = word(), _WORD
    groups += (drawn & -drawn).bit_length() - 1
    return 32 * groups + within, 2 ** (groups + 6)


def _uniform(shift: int, word: Callable[[], int]) -> int:
    """The upper bits of one word, or of two."""
    if not shift:
        return 0
    if shift <= _WORD:
        return word() >> (_WORD - shift)
    upper = word()
    return (upper << _WORD | word()) >> (2 * _WORD - shift)


def accepts(share: Fraction, exponent: Fraction, first: int, word: Callable[[], int]) -> bool:
    """Tell whether a uniform number, of which `first` is drawn, is below share e^-exponent.

    Further words are drawn as long as the answer depends on them.
    """
    drawn, bits = first, _WORD
    while drawn == (threshold := floor_of_exp(exponent, share, bits)):
        if share * 2**bits == threshold and not exponent:  # exponentials are never equal to it
            return False
        drawn, bits = drawn << _WORD | word(), bits + _WORD
    return drawn < threshold


def accepts_real(
    share: Fraction, size: int, beyond: list[int], first: int, word: Callable[[], int]
) -> bool:
    """Tell whether a uniform number is below share e^(-y^2/2), 2^NORMAL_PLACES y >= 0 of `size`.

    Further words of both are drawn, those of y appended to `beyond`, as long as the answer depends
    on them.
    """
    drawn, bits = first, _WORD
    while True:
        place = 2 * (NORMAL_PLACES + bits - _WORD) + 1
        ends = (Fraction(m * m, 2**place) for m in (size + 1, size))
        least, most = (floor_of_exp(end, share, bits) for end in ends)
        if drawn < least:
            return True
        if drawn > most:
            return False
        beyond.append(word())
        size = size << _WORD | beyond[-1]
        drawn, bits = drawn << _WORD | word(), bits + _WORD


def floor_of_exp(exponent: Fraction, factor: Fraction, bits: int) -> int:
    """floor(2^bits factor e^-exponent), exactly, of exponent >= 0 and 0 < factor."""
    if not exponent:
        return (factor.numerator << bits) // factor.denominator
    digits = 40 + bits // 3 + len(str(math.ceil(exponent)))
    while True:
        with localcontext(Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])):
            x = Decimal(exponent.numerator) / exponent.denominator
            value = (-x).exp() * 2**bits * factor.numerator / factor.denominator
            doubt = value * (x + 10) * Decimal(10) ** (1 - digits)
            least, most = (math.floor(end) for end in (value - doubt, value + doubt))
        if least == most:
            return int(least)
        digits *= 2
