"""Normal and chi variates with exactly their laws, of which ever more bits can be seen.

A variate is drawn by rejection: of it and of the uniform number that decides, as many bits are
drawn as the decision takes (Karney [1]_). It holds for all that may follow, so that the bits not
yet seen are still independent and uniform.

A normal is the limit of a discrete Gaussian: `privgram._core.draws` draws its first bits by the
sampler of those. A chi variate with m degrees of freedom is c + y > 0, c near the mode sqrt(m - 1),
y a normal that is accepted with probability exp(-T(y)),

    T(y) = MODE_FLOOR + c y - (m - 1) ln(1 + y/c) >= 0.

Float64 decides that, by operations whose rounding is bounded; where it is too close, decimal
arithmetic does, which rounds logarithms correctly to as many digits as are asked for. The proof is
in docs/theory/finite-precision.md.

References
----------
.. [1] C. Karney, "Sampling exactly from the normal distribution", ACM Trans. Math. Softw. 42
   (2016).
"""

from __future__ import annotations

import math
import struct
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from privgram._core.draws import ChaCha20
from privgram.exact import discrete
from privgram.exact.discrete import NORMAL_PLACES
from privgram.exact.int128 import to_float

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from privgram.exact.int128 import Int128

    Floats = NDArray[np.float64]
    Places = NDArray[np.intp]

#: Bits of a word of a generator.
WORD = 64

#: Bound of the relative rounding errors of one decision in float64, which has some 2^7 of 2^-53.
DECISION_ROUNDING = 2.0**-44

#: What keeps T >= 0 though c is not quite the mode.
MODE_FLOOR = 2.0**-38

#: Centres are multiples of this, so that adding them up loses nothing.
CENTRES = 2.0**-20

#: Words of a block of ChaCha20.
_OF_BLOCK = 8

#: Bounds of the error of `Variates.to_float`: relative, and besides.
RELATIVE_ERROR, ABSOLUTE_ERROR = 2.0**-51, 2.0**-57

VariateNumber = TypeVar("VariateNumber", "NDArray[np.float64]", Decimal)


class Variates:
    """A matrix of independent variates, at all entries or on and below the diagonal. SECRET.

    A variate is the centre and (whole + u) 2^-68, u uniform on [0, 1). `seen` has the words of
    u that some decisions have seen already, by number of the variate, in order. The words to come
    are those of a generator that is keyed by `rng`: each has its place in the stream, so that they
    are the same whichever are asked for. Variates on and below the diagonal are numbered along the
    rows.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        centre: Floats | None,
        whole: Int128,
        seen: dict[int, list[int]],
        rng: np.random.Generator,
    ) -> None:
        self.shape = shape
        self._centre = centre
        self._whole = whole
        self._seen = seen
        self._key = rng.bit_generator.random_raw(4).astype("<u8").tobytes()

    @property
    def _is_full(self) -> bool:
        return self._whole[0].size == self.shape[0] * self.shape[1]

    def parts(self, error: float) -> list[Floats]:
        """Float64 matrices whose sum is within `error` of the variates, without rounding.

        What has been seen stays: more digits of the same numbers follow.
        """
        words = [self._word(k) for k in range(_words_for(error))]
        return [self._placed(part) for part in _floats(self._centre, self._whole, words)]

    def to_float(self) -> Floats:
        """Round the variates to float64, within `RELATIVE_ERROR` of each and `ABSOLUTE_ERROR`."""
        if self._centre is None:
            return self._placed(to_float(*self._whole) * 2.0**-NORMAL_PLACES)
        # Centres may cancel: what is added to them first are multiples of 1/16, without rounding.
        high, low = self._whole[0], self._whole[1].view(np.int64)
        value = self._centre + np.ldexp((high + (low < 0)).astype(np.float64), WORD - NORMAL_PLACES)
        return self._placed(value + np.ldexp(low.astype(np.float64), -NORMAL_PLACES))

    def part(self, rows: Places, columns: Places | None = None) -> Part:
        """Some rows and columns of the matrix."""
        return Part(self, rows, np.arange(self.shape[1]) if columns is None else columns)

    def _word(self, k: int, numbers: Places | None = None) -> NDArray[np.uint64]:
        """Word k of u, of all variates or of those of some numbers."""
        if numbers is None or 64 * numbers.size > self._whole[0].size:
            words: NDArray[np.uint64] = self._stream(k, 0).random_raw(self._whole[0].size)
            for i, seen in self._seen.items():
                if len(seen) > k:
                    words[i] = seen[k]
            return words if numbers is None else words[numbers]
        blocks, places = np.unique(numbers // _OF_BLOCK, return_inverse=True)
        words = np.array([self._stream(k, block).random_raw(_OF_BLOCK) for block in blocks])
        words = words.reshape(-1)[places.reshape(-1) * _OF_BLOCK + numbers % _OF_BLOCK]
        for i, seen in self._seen.items():
            if len(seen) > k:
                words[numbers == i] = seen[k]
        return words

    def _stream(self, k: int, block: int) -> ChaCha20:
        return ChaCha20(self._key, struct.pack("<QQ", block, k))

    def _placed(self, part: Floats) -> Floats:
        if self._is_full:
            return part.reshape(self.shape)
        matrix = np.zeros(self.shape)
        matrix[np.tri(*self.shape, dtype=bool)] = part
        return matrix


class Part:
    """Some rows and columns of a matrix of variates. SECRET."""

    def __init__(self, draws: Variates, rows: Places, columns: Places) -> None:
        self._draws = draws
        i, j = np.meshgrid(rows, columns, indexing="ij")
        full = draws._is_full
        self._there = np.ones(i.shape, bool) if full else i >= j
        number = i * draws.shape[1] + j if full else i * (i + 1) // 2 + j
        self._numbers = number[self._there]

    def parts(self, error: float) -> list[Floats]:
        """As those of the matrix."""
        draws, numbers = self._draws, self._numbers
        words = [draws._word(k, numbers) for k in range(_words_for(error))]
        high, low = (part[numbers] for part in draws._whole)
        centre = None if draws._centre is None else draws._centre[numbers]
        return [self._placed(part) for part in _floats(centre, (high, low), words)]

    def to_float(self) -> Floats:
        """As that of the matrix."""
        parts = self.parts(2.0**-NORMAL_PLACES)
        return np.asarray(sum(parts[::-1], np.zeros_like(parts[0])))

    def _placed(self, part: Floats) -> Floats:
        matrix = np.zeros(self._there.shape)
        matrix[self._there] = part
        return matrix


def _words_for(error: float) -> int:
    words = 0
    while math.ldexp(1.0, -NORMAL_PLACES - WORD * words) > error:
        words += 1
    return words


def _floats(centre: Floats | None, whole: Int128, words: list[NDArray[np.uint64]]) -> list[Floats]:
    """Centres, whole parts and words as numbers that add up to the variates, without rounding."""
    high, low = whole
    parts = [] if centre is None else [centre]
    parts.append(np.ldexp(high.astype(np.float64), WORD - NORMAL_PLACES))
    for place, word in enumerate((low, *words)):
        upper, lower = word >> np.uint64(32), word & np.uint64(0xFFFFFFFF)
        exponent = -NORMAL_PLACES - WORD * place
        parts.append(np.ldexp(upper.astype(np.float64), exponent + 32))
        parts.append(np.ldexp(lower.astype(np.float64), exponent))
    return parts


def normals(rng: np.random.Generator, rows: int, columns: int) -> Variates:
    """Draw a matrix of standard normals."""
    return Variates((rows, columns), None, *discrete.normal(rows * columns, rng), rng)


def bartlett(rng: np.random.Generator, dof: float, n_columns: int) -> Variates:
    """Draw Bartlett's factor A of a Wishart matrix: A A^T ~ W_d(I, dof), dof >= d.

    Lower triangular: standard normals below a diagonal of chi variates, ``dof - i`` degrees of
    freedom in row i.
    """
    d = n_columns
    row = np.arange(d)
    diagonal = row * (row + 3) // 2
    whole, seen = discrete.normal(d * (d + 1) // 2, rng)
    for number in diagonal.tolist():
        seen.pop(number, None)
    centre, chi, seen_of_chis = chis(rng, dof - row.astype(np.float64))
    seen |= {int(diagonal[i]): words for i, words in seen_of_chis.items()}
    centres = np.zeros(len(whole[0]))
    centres[diagonal] = centre
    for part, of_chis in zip(whole, chi, strict=True):
        part[diagonal] = of_chis
    return Variates((d, d), centres, whole, seen, rng)


def chis(rng: np.random.Generator, dof: Floats) -> tuple[Floats, Int128, dict[int, list[int]]]:
    """Draw chi variates, of these degrees of freedom: centres, whole parts, and words seen."""
    centre = np.maximum(np.rint(np.sqrt(dof - 1) / CENTRES), 1.0) * CENTRES
    high, low = np.empty(len(dof), np.int64), np.empty(len(dof), np.uint64)
    seen: dict[int, list[int]] = {}
    pending = np.arange(len(dof))
    while len(pending):
        whole, words = discrete.normal(len(pending), rng)
        first = rng.bit_generator.random_raw(len(pending))
        m, c = dof[pending], centre[pending]
        excess, doubt = _excess(whole, first, m, c)
        accepted = excess > doubt
        for i in np.flatnonzero(np.abs(excess) <= doubt):
            y = int(whole[0][i]) << WORD | int(whole[1][i])
            beyond = words.setdefault(int(i), [])
            chi = Decimal(float(m[i])), Decimal(float(c[i]))
            accepted[i] = _accepts(rng, y, beyond, int(first[i]), *chi)
        done = pending[accepted]
        high[done], low[done] = (part[accepted] for part in whole)
        seen |= {int(pending[i]): more for i, more in words.items() if more and accepted[i]}
        pending = pending[~accepted]
    return centre, (high, low), seen


def _word(rng: np.random.Generator) -> int:
    return int(rng.bit_generator.random_raw())


def _threshold(
    y: VariateNumber,
    m: VariateNumber,
    c: VariateNumber,
    log: Callable[[VariateNumber], VariateNumber],
) -> tuple[VariateNumber, VariateNumber]:
    """T(y), and what its error is by, at most, for one of y of 1 + |y| and such of rounding."""
    one = type(MODE_FLOOR) if isinstance(y, np.ndarray) else Decimal
    ratio = log((c + y) / c)
    t = one(MODE_FLOOR) + c * y - (m - 1) * ratio
    size = 2 + c * (1 + abs(y)) + (m - 1) * (1 + abs(ratio) + (1 + abs(y)) / (c + y))
    return t, size


def _excess(
    whole: Int128, first: NDArray[np.uint64], m: Floats, c: Floats
) -> tuple[Floats, Floats]:
    """``-ln V - T(y)``, and a bound of its error, from whole parts and the first words of V."""
    y, v = np.ldexp(to_float(*whole), -NORMAL_PLACES), np.ldexp(first.astype(np.float64), -WORD)
    x = c + y
    out = x < -CENTRES
    unclear = (first == 0) | (np.abs(x) <= CENTRES)
    t, size = _threshold(np.where(out | unclear, 0.0, y), m, c, _log)
    exponential = -_log(np.where(unclear, 1.0, v))
    # One word of V more or less, and its rounding, are less than 2^-52/V of its logarithm.
    doubt = DECISION_ROUNDING * (size + exponential + 1 / np.where(unclear, 1.0, v) * 2.0**-8)
    doubt[unclear], doubt[out] = math.inf, 0.0
    return np.where(out, -1.0, exponential - t), doubt


def _accepts(
    rng: np.random.Generator, whole: int, beyond: list[int], first: int, m: Decimal, c: Decimal
) -> bool:
    """Decide in decimal arithmetic; `beyond`, words of y, grows by what that takes."""
    deciding = [first]
    while True:
        least, most = exponential(deciding)
        with localcontext(_context(len(deciding))):
            width = Decimal(2) ** -(NORMAL_PLACES + WORD * len(beyond))
            y = (Decimal(whole) + _fraction(beyond)) * Decimal(2) ** -NORMAL_PLACES
            x = c + y
            if x < -2 * width:
                return False
            if x > 2 * width:
                t, size = _threshold(y, m, c, Decimal.ln)
                doubt = 4 * width * size
                if least > t + doubt:
                    return True
                if most < t - doubt:
                    return False
        if len(beyond) < len(deciding):
            beyond.append(_word(rng))
        deciding.append(_word(rng))


def exponential(words: list[int]) -> tuple[Decimal, Decimal]:
    """Bounds of ``-ln V``, V in [0, 1) of these words and any that follow."""
    with localcontext(_context(len(words))):
        width = Decimal(2) ** (-WORD * len(words))
        v = _fraction(words)
        rounding = 1 + width
        return -(v + width).ln() / rounding - width, -v.ln() * rounding + width


def _fraction(words: list[int]) -> Decimal:
    """The number in [0, 1) that begins with these words."""
    value = Decimal(0)
    for place, word in enumerate(words, 1):
        value += Decimal(word) * Decimal(2) ** (-WORD * place)
    return value


def _context(words: int) -> Context:
    return Context(prec=20 * words + 60, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def _log(x: Floats) -> Floats:
    """Natural logarithm of positive float64 numbers, within 2^-47 (1 + |log x|).

    By additions, multiplications and divisions alone, whose errors are known: NumPy's logarithm
    is as good and has no proof.
    """
    mantissa, exponent = np.frexp(x)
    low = mantissa < math.sqrt(0.5)
    mantissa = np.where(low, 2 * mantissa, mantissa)
    s = (mantissa - 1) / (mantissa + 1)  # at most 0.172: the series ends below 2^-60
    square = s * s
    series = np.full_like(s, 1 / 23)
    for j in range(21, 0, -2):
        series *= square
        series += 1 / j
    result: Floats = (exponent - low) * math.log(2) + 2 * s * series
    return result
