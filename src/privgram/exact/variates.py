"""Normal and chi variates with exactly their laws, of which ever more bits can be seen.

A variate is ``centre + sign (whole + u)``, u uniform on [0, 1), and is drawn by rejection: of u
and of the uniform number that decides, as many bits are drawn as the decision takes (Karney [1]_).
It holds for all that may follow, so that the bits not yet seen are still independent and
uniform. Float64 decides, by additions, multiplications and divisions whose rounding is bounded;
where that is too close, decimal arithmetic does, which rounds logarithms correctly to as many
digits as are asked for. The proof is in docs/theory/finite-precision.md.

A proposal has whole = k with probability 2^-(k+1), and y = sign (whole + u) is accepted with
probability exp(-T(y)), T >= 0:

    normal              T = y^2/2 + (1 - whole) ln 2 - 1/2
    chi, m degrees      T + FLOOR + c y - (m - 1) ln(1 + y/c),   y > -c

of freedom, where x = c + y is accepted, c near the mode sqrt(m - 1).

References
----------
.. [1] C. Karney, "Sampling exactly from the normal distribution", ACM Trans. Math. Softw. 42
   (2016).
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Bits of a uniform float64 of NumPy's generators.
WORD = 53

#: Bound of the relative rounding errors of one decision in float64, which has some 2^7 of 2^-53.
DECISION_ROUNDING = 2.0**-44

#: What keeps T >= 0 though c is not quite the mode.
MODE_FLOOR = 2.0**-38

#: Centres are multiples of this, so that adding them up loses nothing.
CENTRES = 2.0**-20

#: Variates drawn at a time: many, and within a cache.
VARIATES_AT_ONCE = 1 << 15

#: Proposals made for the last few variates together.
TRIALS = 128

VariateNumber = TypeVar("VariateNumber", "NDArray[np.float64]", Decimal)


class Variates:
    """A matrix of independent variates at some entries, zero elsewhere. SECRET.

    `drawn` has the centres, signed wholes, and the first word of u, with the same sign; `seen` the
    words of u that some decisions have seen already, by number of the variate, in order. The
    generator gives the words to come.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        entries: Any,
        drawn: list[Floats],
        seen: dict[int, list[float]],
        rng: np.random.Generator,
    ) -> None:
        self.shape = shape
        self._entries = entries
        self._parts = drawn
        self._seen = seen
        self._rng = rng

    def parts(self, error: float) -> list[Floats]:
        """Float64 matrices whose sum is within `error` of the variates, without rounding.

        What has been seen stays: more digits of the same numbers follow.
        """
        words = 1
        while math.ldexp(1.0, -WORD * words) > error:
            words += 1
            if len(self._parts) < words + 2:
                self._refine(words)
        return [self._placed(part) for part in self._parts[: words + 2]]

    def to_float(self) -> Floats:
        """The variates to the digits of float64."""
        centre, whole, word = self._parts[:3]
        return self._placed(centre + (whole + word))

    def _refine(self, words: int) -> None:
        word = self._rng.random(self._parts[2].shape)
        for i, seen in self._seen.items():
            if len(seen) >= words:
                word.flat[i] = seen[words - 1]
        self._parts.append(np.copysign(np.ldexp(word, -WORD * (words - 1)), self._parts[2]))

    def _placed(self, part: Floats) -> Floats:
        matrix = np.zeros(self.shape)
        matrix[self._entries] = part
        return matrix


def normals(rng: np.random.Generator, rows: int, columns: int) -> Variates:
    """Draw a matrix of standard normals."""
    drawn, seen = _draw(rng, rows * columns)
    shape = rows, columns
    return Variates(shape, np.s_[:, :], [part.reshape(shape) for part in drawn], seen, rng)


def bartlett(rng: np.random.Generator, dof: float, n_columns: int) -> Variates:
    """Draw Bartlett's factor A of a Wishart matrix: A A^T ~ W_d(I, dof), dof >= d.

    Lower triangular: standard normals below a diagonal of chi variates, ``dof - i`` degrees of
    freedom in row i.
    """
    d = n_columns
    below, diagonal = np.tril_indices(d, -1), np.arange(d)
    drawn, seen = _draw(rng, len(below[0]))
    chis, seen_of_chis = _draw(rng, d, dof - diagonal.astype(np.float64))
    seen |= {len(below[0]) + i: words for i, words in seen_of_chis.items()}
    entries = tuple(np.concatenate([side, diagonal]) for side in below)
    parts = [np.concatenate(pair) for pair in zip(drawn, chis, strict=True)]
    return Variates((d, d), entries, parts, seen, rng)


def laplace_step(rng: np.random.Generator, location: float, scale: float, step: float) -> int:
    """Draw a Laplace variate and round it to multiples of `step`: which one."""
    sign = 1 if rng.random() < 0.5 else -1
    place, spread = (Fraction(x) / Fraction(step) for x in (location, scale))
    words: list[float] = []
    while True:
        words.append(rng.random())
        least, most = _exponential(words)
        if most.is_finite():
            ends = (place + sign * spread * Fraction(x) for x in (least, most))
            count, same = (math.floor(x + Fraction(1, 2)) for x in ends)
            if count == same:
                return count


def _draw(
    rng: np.random.Generator, size: int, dof: Floats | None = None
) -> tuple[list[Floats], dict[int, list[float]]]:
    """Draw normals, or chi variates: centres, signed wholes and words, and words seen beyond."""
    centre = np.zeros(size)
    if dof is not None:
        centre = np.maximum(np.rint(np.sqrt(dof - 1) / CENTRES), 1.0) * CENTRES
    whole, word = np.empty(size), np.empty(size)
    seen: dict[int, list[float]] = {}
    for start in range(0, size, VARIATES_AT_ONCE):
        pending = np.arange(start, min(start + VARIATES_AT_ONCE, size))
        while len(pending):
            trial = np.repeat(pending, 1 + TRIALS // len(pending))
            chi = None if dof is None else (dof[trial], centre[trial])
            k, u, accepted, looked_at = _propose(rng, len(trial), chi)
            done, first = np.unique(trial[accepted], return_index=True)
            chosen = np.flatnonzero(accepted)[first]
            whole[done], word[done] = k[chosen], u[chosen]
            seen |= {int(trial[i]): words for i, words in looked_at.items() if i in chosen}
            pending = np.setdiff1d(pending, done, assume_unique=True)
    return [centre, whole, word], seen


def _propose(
    rng: np.random.Generator, size: int, chi: tuple[Floats, Floats] | None
) -> tuple[Floats, Floats, NDArray[np.bool_], dict[int, list[float]]]:
    """Propose as many: signed wholes, signed words, which to accept, and words seen beyond."""
    k, u, v = _geometric(rng, size), rng.random(size), rng.random(size)
    sign = np.where(rng.random(size) < 0.5, -1.0, 1.0)
    excess, doubt = _float_excess(k, sign, u, v, chi)
    accepted = excess > doubt
    seen: dict[int, list[float]] = {}
    for i in np.flatnonzero(np.abs(excess) <= doubt):
        words = seen[int(i)] = [float(u[i])]
        one = None if chi is None else (Decimal(float(chi[0][i])), Decimal(float(chi[1][i])))
        accepted[i] = _decimal_accepts(rng, float(k[i]), float(sign[i]), words, float(v[i]), one)
    return sign * k, sign * u, accepted, seen


def _geometric(rng: np.random.Generator, size: int) -> Floats:
    """Zeros before the first one of a sequence of bits."""
    u = rng.random(size)
    zeros = -np.frexp(u)[1].astype(np.float64)
    for i in np.flatnonzero(u == 0):
        zeros[i] = WORD + _geometric(rng, 1)[0]
    return zeros


def _threshold(
    whole: VariateNumber,
    y: VariateNumber,
    ln2: Any,
    log: Callable[[VariateNumber], VariateNumber],
    chi: Any,
) -> tuple[VariateNumber, VariateNumber]:
    """T(y), and what its error is by, at most, for one of y of 1 + |y| and such of rounding."""
    half = type(ln2)(0.5)
    t = half * y * y + (1 - whole) * ln2 - half
    size = 2 + whole + y * y + abs(y)
    if chi is not None:
        m, c = chi
        ratio = log((c + y) / c)
        t = t + type(ln2)(MODE_FLOOR) + c * y - (m - 1) * ratio
        size = size + c * (1 + abs(y)) + (m - 1) * (1 + abs(ratio) + (1 + abs(y)) / (c + y))
    return t, size


def _float_excess(
    k: Floats, sign: Floats, u: Floats, v: Floats, chi: tuple[Floats, Floats] | None
) -> tuple[Floats, Floats]:
    """``-ln V - T(y)``, and a bound of its error, from the first words of u and V."""
    y = sign * (k + u)
    out = np.zeros(len(y), dtype=bool)
    unclear = v == 0
    if chi is not None:
        x = chi[1] + y
        out = x < -CENTRES
        unclear |= np.abs(x) <= CENTRES
        y = np.where(out | unclear, 0.0, y)
    t, size = _threshold(k, y, math.log(2), _log, chi)
    exponential = -_log(np.where(unclear, 1.0, v))
    # One word of V more or less is 2^-53/V of its logarithm.
    doubt = DECISION_ROUNDING * (size + exponential + 1 / np.where(unclear, 1.0, v) * 2.0**-8)
    doubt[unclear], doubt[out] = math.inf, 0.0
    return np.where(out, -1.0, exponential - t), doubt


def _decimal_accepts(
    rng: np.random.Generator,
    k: float,
    sign: float,
    words: list[float],
    v: float,
    chi: tuple[Decimal, Decimal] | None,
) -> bool:
    """Decide in decimal arithmetic; `words` of u grow by what that takes."""
    deciding = [v]
    while True:
        words.append(rng.random())
        deciding.append(rng.random())
        least, most = _exponential(deciding)
        with localcontext(_context(len(words))):
            width = Decimal(2) ** (-WORD * len(words))
            y = Decimal(sign) * (Decimal(k) + _decimal(words))
            if chi is not None:
                x = chi[1] + y
                if x < -2 * width:
                    return False
                if x <= 2 * width:
                    continue
            t, size = _threshold(Decimal(k), y, Decimal(2).ln(), Decimal.ln, chi)
            doubt = 4 * width * size
            if least > t + doubt:
                return True
            if most < t - doubt:
                return False


def _exponential(words: list[float]) -> tuple[Decimal, Decimal]:
    """Bounds of ``-ln V``, V in [0, 1) of these words and any that follow."""
    with localcontext(_context(len(words))):
        width = Decimal(2) ** (-WORD * len(words))
        v = _decimal(words)
        rounding = 1 + width
        return -(v + width).ln() / rounding - width, -v.ln() * rounding + width


def _decimal(words: list[float]) -> Decimal:
    value = Decimal(0)
    for place, word in enumerate(words):
        value += Decimal(word) * Decimal(2) ** (-WORD * place)
    return value


def _context(words: int) -> Context:
    """Decimal digits for so many words, and some 60 bits more."""
    return Context(prec=16 * words + 40, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


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
