"""Where noise meets data: 128-bit integers, added without an error and rounded to a public grid.

The second moment is an integer matrix in the unit u = 1/S^2, held as two 64-bit halves
(value = high * 2**64 + low). Noise is drawn as integers (`privgram.exact.discrete`) and added
without error, and the sum is rounded to a public power of two. Every step after the draw is exact,
so the release is a rounding of the ideal mechanism's output and inherits its guarantee.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int128 = tuple[NDArray[np.int64], NDArray[np.uint64]]

#: The released grid is finer than the noise's standard deviation by 2**GRID_BITS.
GRID_BITS = 10

_WORD_SIZE = 2.0**64


def from_int64(values: NDArray[np.int64]) -> Int128:
    """64-bit integers as 128-bit integers."""
    return values >> np.int64(63), values.view(np.uint64)


def add(a: Int128, b: Int128) -> Int128:
    """Exact sum of two arrays of 128-bit integers."""
    low = a[1] + b[1]
    return a[0] + b[0] + (low < a[1]), low


def shifted(value: Int128, bits: int) -> Int128:
    """Multiples by 2**bits, 0 <= bits < 64, which must fit."""
    high, low = value
    if not bits:
        return value
    carried = (low >> np.uint64(64 - bits)).view(np.int64)
    return high << np.int64(bits) | carried, low << np.uint64(bits)


def times(value: Int128, weight: int) -> Int128:
    """Multiples by a whole weight in [0, 2**32), which must fit."""
    high, low = value
    half, mask = np.uint64(32), np.uint64(2**32 - 1)
    below = (low & mask) * np.uint64(weight)
    above = (low >> half) * np.uint64(weight) + (below >> half)
    carried = (above >> half).view(np.int64)
    return high * np.int64(weight) + carried, above << half | below & mask


def round_to_grid(value: Int128, exponent: int) -> NDArray[np.float64]:
    """Multiples of 2**exponent nearest to 128-bit integers, counted in grid steps.

    Ties go up.  The count is exact below 2**53 and correctly rounded above.
    """
    if exponent > 0:
        half = 1 << (exponent - 1)
        rounding = np.array(half >> 64, np.int64), np.array(half & (2**64 - 1), np.uint64)
        value = add(value, rounding)
    return to_float(*_floor(value, exponent))


def split(value: Int128, exponent: int) -> tuple[Int128, NDArray[np.float64]]:
    """128-bit integers over 2**exponent: whole parts, rounded down, and the rest in [0, 1].

    The rest is rounded correctly to float64. Of exponents that no whole part is left of, the rest
    is all, in (-1, 1).
    """
    high, low = value
    if exponent >= 127:
        nothing = np.zeros_like(high), np.zeros_like(low)
        return nothing, np.ldexp(to_float(high, low), -exponent)
    mask = (1 << exponent) - 1
    rest = to_float(high & np.int64(mask >> 64), low & np.uint64(mask & (2**64 - 1)))
    return _floor(value, exponent), np.ldexp(rest, -exponent)


def _floor(value: Int128, exponent: int) -> Int128:
    """128-bit integers over 2**exponent, rounded down."""
    high, low = value
    if not 0 <= exponent < 127:
        raise ValueError(f"grid exponent {exponent} outside [0, 127)")
    if exponent >= 64:
        return high >> np.int64(63), (high >> np.int64(exponent - 64)).astype(np.uint64)
    if exponent:
        low = low >> np.uint64(exponent) | high.astype(np.uint64) << np.uint64(64 - exponent)
        high = high >> np.int64(exponent)
    return high, low


def to_float(high: NDArray[np.int64], low: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Nearest float64 to 128-bit integers, up to one further rounding."""
    # Halves of 64 bits as signed numbers: |high| is then as small as it can be
    # and a value below 2**63 comes out of its low word alone, exactly.
    signed = low.view(np.int64)
    value = (high + (signed < 0)).astype(np.float64)
    value *= _WORD_SIZE  # in place: pages are dear
    value += signed
    return value


def to_integers(value: Int128) -> NDArray[np.object_]:
    """Python's integers of 128-bit ones."""
    high, low = (part.astype(object) for part in value)
    integers: NDArray[np.object_] = (high << 64) + low
    return integers


def check_gram(value: Int128, diagonal: Int128, most: int) -> None:
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
