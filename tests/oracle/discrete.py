"""Noise and variates in Python's whole numbers, written from docs/theory/finite-precision.md.

The same words give the same as `privgram.exact.discrete` and `privgram.exact.variates`, whose code
is not used: no table of thresholds, no 64-bit arithmetic, no floats, no decimals, and every
exponential and logarithm is an interval.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, isqrt

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
    """P(y) in proportion to exp(-rate y^2)."""

    def __init__(self, variance: Fraction) -> None:
        self.rate = 1 / (2 * variance)
        self.shift = 0
        while 4 ** (self.shift + 1 + 4) <= variance:
            self.shift += 1
        self.of_blocks = self.rate * 4**self.shift
        self.scale, self.weights = self._weights()

    def _weights(self) -> tuple[int, list[int]]:
        one = 2**127
        decay = ratio = rounded_down(self.of_blocks)
        decays = [one]
        for _ in range(BLOCKS):
            decays.append(decays[-1] * ratio // one)
            ratio = ratio * (decay * decay // one) // one
        above = [(x + 2**17) // 2**64 + 1 for x in decays]
        room = sum(above[:-1]) + 2 * TAIL_GROUP * above[-1]
        scale = (2**63 - 512) * 2**63 // room
        weights = [scale * h // 2**63 + 1 for h in above]
        weights[-1] *= 2 * TAIL_GROUP
        return scale, weights

    def exponent(self, size: int) -> Fraction:
        return self.rate * size**2

    def proposal(self, word: Callable[[], int]) -> tuple[int, int, Fraction]:
        """Whether it is negative, its magnitude, and K / c."""
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
            return negative, block * 2**self.shift + offset, share

    def draw(self, word: Callable[[], int]) -> int:
        while True:
            negative, size, share = self.proposal(word)
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


class Normal(Law):
    """Standard normals as the limit of the discrete Gaussian of deviation 2^68."""

    def __init__(self) -> None:
        super().__init__(Fraction(4) ** 68)

    def draw_real(self, word: Callable[[], int]) -> tuple[int, list[int]]:
        """floor(2^68 y), and what was seen of the words that follow."""
        while True:
            negative, size, share = self.proposal(word)
            uniform, beyond = word(), []
            while True:
                bits = 64 * (1 + len(beyond))
                ends = (self.exponent(size + k) / WORD ** (2 * len(beyond)) for k in (1, 0))
                least, most = (threshold(share, end, bits) for end in ends)
                if not least <= uniform <= most:
                    break
                beyond.append(word())
                size = size * WORD + beyond[-1]
                uniform = uniform * WORD + word()
            if uniform < least:
                whole = size // WORD ** len(beyond)
                if not negative:
                    return whole, beyond
                return -whole - 1, [WORD - 1 - w for w in beyond]


def log_interval(x: Fraction, bits: int) -> tuple[int, int]:
    """Whole numbers around 2^bits ln x, x > 0."""
    places = bits + 32 + abs(x.numerator.bit_length() - x.denominator.bit_length()).bit_length()

    def series(x: Fraction) -> tuple[int, int]:
        # 2 (s + s^3/3 + ...), s = (x - 1) / (x + 1) in [0, 1/3]
        s = floor((x - 1) / (x + 1) * 2**places)
        total, power, n = 0, s, 1
        while power:
            total += power // n
            power = power * s // 2**places * s // 2**places
            n += 2
        return 2 * total, 2 * total + 8 * n + 8

    doublings = x.numerator.bit_length() - x.denominator.bit_length()
    if x < Fraction(2) ** doublings:
        doublings -= 1
    (low, high), (less, more) = series(x / Fraction(2) ** doublings), series(Fraction(2))
    low += doublings * (less if doublings > 0 else more)
    high += doublings * (more if doublings > 0 else less)
    return low >> (places - bits), (high >> (places - bits)) + 1


class Chi:
    """Chi variates with m degrees of freedom, all of a round of which draw one after the other."""

    def __init__(self, m: Fraction) -> None:
        self.m = m
        square = (m - 1) * 2**42  # the centre to 21 places, to be rounded to 20
        self.centre = Fraction(max((isqrt(floor(square)) + 1) // 2, 1), 2**20)

    def exponent(self, y: Fraction, bits: int) -> tuple[Fraction, Fraction]:
        """Around T(y)."""
        c, m = self.centre, self.m
        ends = log_interval((c + y) / c, bits)
        low, high = (Fraction(1, 2**38) + c * y - (m - 1) * Fraction(x, 2**bits) for x in ends)
        return high, low

    def accepts(self, y: int, beyond: list[int], first: int, word: Callable[[], int]) -> bool:
        uniform, words = first, 1
        while True:
            bits = 64 * words
            numerator = y
            for w in beyond:
                numerator = numerator * WORD + w
            scale = 2**68 * WORD ** len(beyond)
            ends = [Fraction(numerator + k, scale) for k in (0, 1)]
            if self.centre + ends[1] <= 0:
                return False
            if self.centre + ends[0] > 0:
                around = [t for end in ends for t in self.exponent(end, 2 * bits + 128)]
                mode = (self.m - 1) / self.centre - self.centre  # where T is least
                most = max(around)
                least = min(around) if not ends[0] < mode < ends[1] else Fraction(0)
                low = exp_interval(most, bits)[0]
                high = exp_interval(max(least, Fraction(0)), bits)[1]
                if uniform + 1 <= low:
                    return True
                if uniform >= high:
                    return False
            if len(beyond) < words:
                beyond.append(word())
            uniform, words = uniform * WORD + word(), words + 1


def chis(dof: list[Fraction], word: Callable[[], int]) -> list[tuple[Fraction, int, list[int]]]:
    """Centres, whole parts, and words seen."""
    normal, laws = Normal(), [Chi(m) for m in dof]
    found: dict[int, tuple[Fraction, int, list[int]]] = {}
    while pending := [i for i in range(len(dof)) if i not in found]:
        tries = [normal.draw_real(word) for _ in pending]
        firsts = [word() for _ in pending]
        for i, (y, beyond), first in zip(pending, tries, firsts, strict=True):
            if laws[i].accepts(y, beyond, first, word):
                found[i] = laws[i].centre, y, beyond
    return [found[i] for i in range(len(dof))]


def draws(variance: Fraction, size: int, word: Callable[[], int]) -> list[int]:
    """So many integers from a generator's words."""
    law = Law(variance)
    return [law.draw(word) for _ in range(size)]
