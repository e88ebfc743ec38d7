"""Whole sums and whole noise on a lattice finer than either, rounded to a public grid: exactly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privgram._core import draws
from privgram.exact import int128

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privgram._base.numbers import Matrix

#: A lattice of 2^-k units has 4^k std >= 2^LATTICE_BITS n, for n sums with noise.
LATTICE_BITS = 60

#: Draws of a matrix's noise that are in memory at once: within a cache.
DRAWN_TOGETHER = 2**14


def lattice_shift(std: float, size: int) -> int:
    """The k of a lattice of 2^-k units for so many sums with noise."""
    return max(0, math.ceil((LATTICE_BITS + math.log2(max(size, 1)) - math.log2(std)) / 2))


def rounded_sum(total: int128.Int128, noise: int128.Int128, std: float, shift: int) -> Matrix:
    """Whole units plus noise in steps of the lattice, in units, on the public grid."""
    exponent = int128.grid_exponent(math.ldexp(std, shift))
    steps = int128.round_to_grid(int128.add(int128.shifted(total, shift), noise), exponent)
    return steps * 2.0 ** (exponent - shift)


def rounded_matrix(
    total: int128.Int128, noise: Iterator[int128.Int128], std: float, shift: int
) -> Matrix:
    """Symmetric matrix of `rounded_sum`: noise right of the diagonal, by `panels`, and on it.

    One panel's noise is in memory at once.
    """
    d = (math.isqrt(8 * len(total[0]) + 1) - 1) // 2
    exponent = int128.grid_exponent(math.ldexp(std, shift))
    to = shift, exponent, 2.0 ** (exponent - shift)
    out = np.empty((d, d))
    for rows in panels(d):
        draws.noisy_rows(total, next(noise), rows.start, rows.stop, *to, out)
    row = np.arange(d)
    high, low = (part[row * (row + 3) // 2] for part in total)
    out[row, row] = rounded_sum((high, low), next(noise), std, shift)
    return out


def panels(d: int) -> list[range]:
    """Rows of a matrix of d columns with some `DRAWN_TOGETHER` entries right of the diagonal."""
    rows = []
    first = size = 0
    for row in range(d - 1):
        size += d - 1 - row
        if size >= DRAWN_TOGETHER or row == d - 2:
            rows.append(range(first, row + 1))
            first, size = row + 1, 0
    return rows
