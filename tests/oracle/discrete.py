"""Discrete noise in Python's whole numbers, written from docs/theory/finite-precision.md.

The same words give the same integers as `privgram.exact.discrete`, whose code is not used: no
table of thresholds, no 64-bit arithmetic, no decimals, and every exponential is an interval.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor

WORD = 2**64
BLOCKS = 256
TAIL_GROUP = 32


def exp_interval(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Whole numbers around 2^bits e^-exponent, exponent >= 0."""
    halvings = max(0, ceil(exponent).bit_length() + 1)
    places = bits + halvings + 16
    one, x = 1 << places, floor(exponent / 2**halvings * 2**places)  # at most half, 1 too little
    total, term, terms = one, one, 0
    while term:
        terms += 1
        term = term * x // (terms * one)
        total += -term if terms % 2 else term
    low, high = total - 2 * terms - 2, total + 2 * terms + 2
    for _ in range(halvings):
        low, high = low * low // one, high * high // one + 1
    return max(low, 0) >> (places - bits), (high >> (places - bits)) + 1


def threshold(share: Fraction, exponent: Fraction, bits: int) -> int:
    """floor(2^bits share e^-exponent)."""
    if exponent == 0:
        return floor(share * 2**bits)
    extra = 16 + share.numerator.bit_length()
    while True:
        ends = exp_interval(exponent, bits + extra)
        low, high = (floor(end * share / 2**extra) for end in ends)
        if low == high:
            return low
        extra *= 2


def rounded_down(exponent: Fraction) -> int:
    """floor(2^127 e^-exponent)."""
    return threshold(Fraction(1), exponent, 127)


class Law:
    """P(y) in proportion to exp(-rate |y|^power), of `scale`: sqrt(variance), or Laplace's."""

    def __init__(self, power: int, parameter: Fraction) -> None:
        self.power = power
        self.rate = 1 / parameter if power == 1 else 1 / (2 * parameter)
        self.shift = 0
        while 2 ** (power * (self.shift + 1 + 4)) <= parameter:
            self.shift += 1
        self.of_blocks = self.rate * 2 ** (power * self.shift)
        self.scale, self.weights = self._weights()

    def _weights(self) -> tuple[int, list[int]]:
        one = 2**127
        decay = ratio = rounded_down(self.of_blocks)
        decays = [one]
        for _ in range(BLOCKS):
            decays.append(decays[-1] * ratio // one)
            if self.power == 2:
                ratio = ratio * (decay * decay // one) // one
        above = [(x + 2**17) // 2**64 + 1 for x in decays]
        room = sum(above[:-1]) + 2 * TAIL_GROUP * above[-1]
        scale = (2**63 - 512) * 2**63 // room
        weights = [scale * h // 2**63 + 1 for h in above]
        weights[-1] *= 2 * TAIL_GROUP
        return scale, weights

    def exponent(self, size: int) -> Fraction:
        return self.rate * size**self.power

    def draw(self, word: Callable[[], int]) -> int:
        while True:
            u, negative = divmod(word(), 2)
            block = 0
            while block <= BLOCKS and u >= self.weights[block]:
                u -= self.weights[block]
                block += 1
            if block > BLOCKS:
                continue
            share = Fraction(self.scale, self.weights[block])
            if block == BLOCKS:
                w = word()
                block, digits = BLOCKS + w % TAIL_GROUP, bin(w // TAIL_GROUP + 2**59)[3:]
                while "1" not in digits:
                    digits = bin(word() + WORD)[3:] + digits
                group = len(digits) - len(digits.rstrip("0"))
                block += TAIL_GROUP * group
                share *= 2 * TAIL_GROUP * 2**group
            offset = 0
            if self.shift:
                words = 1 if self.shift <= 64 else 2
                for _ in range(words):
                    offset = offset * WORD + word()
                offset //= 2 ** (64 * words - self.shift)
            size = block * 2**self.shift + offset
            if size == 0 and negative:
                continue
            exponent = self.exponent(size)
            uniform, bits = word(), 64
            while uniform == (least := threshold(share, exponent, bits)):
                if exponent == 0 and share * 2**bits == least:
                    break
                uniform, bits = uniform * WORD + word(), bits + 64
            if uniform < least:
                return -size if negative else size


def draws(power: int, parameter: Fraction, size: int, word: Callable[[], int]) -> list[int]:
    """So many integers from a generator's words."""
    law = Law(power, parameter)
    return [law.draw(word) for _ in range(size)]
