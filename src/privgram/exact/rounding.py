"""Products of draws, rounded to a public grid exactly: by float64 if that decides, else by digits.

Float64 computes nearly all entries with an error, bounded here, that cannot move them across a
boundary between two grid points. The rows and columns of the others are computed in digits, from
as many bits of the same draws as it takes. So what is returned is the rounding of real numbers, and
the same whatever of it BLAS has computed. The proof is in docs/theory/finite-precision.md.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from privgram.exact import int128
from privgram.exact.exact_matmul import (
    DECIDING_BITS,
    SLACK,
    DigitDraws,
    DigitMatrix,
    block_slices,
    digit_bits,
    each,
    gram,
    integer_matrix,
    place,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix
    from privgram.exact.int128 import Int128
    from privgram.exact.variates import Variates

#: Rows and columns that are computed together: within a cache, with all that is made of them.
ROUNDED_BLOCK = 128

#: Added to norms of draws: 2^-52 of it is more than what float64 has their diagonal off besides.
NORM_PAD = 2.0**-4

#: Binary digits of the scale of additive noise: its square root has these.
ROOT_BITS = 24


def add_wisharts(
    total: Int128, scale: float, plus: Variates, minus: Variates | None, exponent: int
) -> Matrix:
    """Round ``G + scale (A A^T - B B^T)`` to multiples of ``2^exponent`` units: exactly.

    Counts of the grid, symmetric (d, d). A and B are Bartlett's factors; without the second one
    ``G + scale A A^T``. The scale, in units, is raised by a part in 2^20 at most, to a square of
    few digits.
    """
    root = _root(scale)
    draws = [plus] if minus is None else [plus, minus]
    counts, unsure = _wisharts_in_floats(total, root, draws, exponent)
    return settled_counts(
        counts, unsure, partial(_wisharts_in_digits, total, root, draws, exponent)
    )


def _wisharts_in_floats(
    total: Int128, root: float, draws: list[Variates], exponent: int
) -> tuple[Matrix, NDArray[np.bool_]]:
    """As `add_wisharts`, and where float64 does not decide."""
    high, low = total
    d = len(high)
    scale = root * math.ldexp(root, -exponent)  # exact, as the root has few digits
    factors = [one.to_float() for one in draws]
    # Norms of rows, and of what rounding left of them.
    norms = [np.linalg.norm(factor, axis=1) * SLACK + NORM_PAD for factor in factors]
    blocks = block_slices(d, ROUNDED_BLOCK)

    def fill(at: tuple[slice, slice]) -> None:
        p, q = at  # the factors are zero right of the diagonal
        whole, value = int128.split((high[p, q], low[p, q]), exponent)
        error = 0.0
        for sign, factor, norm in zip((scale, -scale), factors, norms, strict=False):
            value += sign * (factor[p, : q.stop] @ factor[q, : q.stop].T)
            error += product_error(d) * scale * float(norm[p].max() * norm[q].max())
        steps, unsure[p, q] = nearest(value, error)
        steps[unsure[p, q]] = 0.0  # they may be too large
        noisy = int128.add(whole, int128.from_int64(steps.astype(np.int64)))
        counts[p, q] = int128.to_float(*noisy)
        counts[q, p], unsure[q, p] = counts[p, q].T, unsure[p, q].T

    counts, unsure = np.empty((d, d)), np.empty((d, d), bool)
    each(fill, [(p, q) for p in blocks for q in blocks if q.start <= p.start], d)
    return counts, unsure


def _wisharts_in_digits(
    total: Int128, root: float, draws: list[Variates], exponent: int, rows: NDArray[np.intp]
) -> Matrix:
    high, low = total
    d = len(high)
    square = np.ix_(rows, rows)
    g = integer_matrix((high[square], low[square]), 0, digit_bits(d))
    left = DigitMatrix.of([root * np.eye(len(rows))], place(root * 2.0**-ROOT_BITS, g.bits), g.bits)
    drawn = [DigitDraws(one.part(rows), g.bits) for one in draws]

    def near(target: float) -> tuple[DigitMatrix, float]:
        parts = [gram(left, one, target / 4) for one in drawn]
        x = g + parts[0][0]
        x = x if len(parts) == 1 else x - parts[1][0]
        return x, sum(error for _, error in parts)

    return in_digits(near, exponent)


def in_digits(matrix: Callable[[float], tuple[DigitMatrix, float]], exponent: int) -> Matrix:
    """Round a matrix, given to any error asked for and the error it has, to ``2^exponent``.

    From its leading digits, where their error cannot move any entry across a boundary; else, with a
    probability of some d^2 2^-DECIDING_BITS, from more of them.
    """
    bits = DECIDING_BITS
    while True:
        x, error = matrix(math.ldexp(1.0, exponent - bits))
        counts = x.round_within(error, exponent)
        if counts is not None:
            return counts
        bits *= 2


def nearest(value: Matrix, error: Matrix | float) -> tuple[Matrix, NDArray[np.bool_]]:
    """Give ``floor(x + 1/2)``, x within `error` of `value`, and where that is not sure.

    The error is at least 2^-47 of the value's magnitude, so that what it is doubled by pays for a
    few roundings of the value.
    """
    counts = np.rint(value)
    off = value - counts
    np.abs(off, out=off)
    return counts, ~(off < 0.5 - 2.0**-48 - 2 * error)


def settled_counts(
    counts: Matrix, unsure: NDArray[np.bool_], digits: Callable[[NDArray[np.intp]], Matrix]
) -> Matrix:
    """Symmetric counts, with those of all rows that have unsure ones from digits."""
    rows = np.flatnonzero(unsure.any(axis=0) | unsure.any(axis=1))
    if rows.size:
        counts[np.ix_(rows, rows)] = digits(rows)
    return counts


def product_error(terms: int) -> float:
    """Bound of the error of a product of so many terms, over the product of the factors' norms.

    Of its rounding, less than 1.01 terms 2^-53 in any order of summation, and of the factors' own,
    2^-51 and 2^-52 for each entry. Both are in it twice.
    """
    return (terms + 32) * 2.0**-52


def _root(x: float) -> float:
    """Give a square root of few binary digits, rounded up."""
    mantissa, shift = math.frexp(math.sqrt(x))
    return math.ldexp(math.floor(math.ldexp(mantissa, ROOT_BITS)) + 1, shift - ROOT_BITS)
