"""Where Gaussian noise meets sums: as integers of exactly its discrete law, added to integers.

Sums are whole numbers of a public unit. They are refined to a lattice that is fine beside the
noise, so that its discrete law is as good as the continuous one, added to a draw, and rounded to a
public grid. No number of the table's is a float before that. The noise is larger than it was
calibrated to be by `SURPLUS`, which pays for the difference of the two laws and for rounded
deviations: docs/theory/analyze-gauss.md, "Discrete noise".
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from privgram._core import draws
from privgram.exact import discrete, int128

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector

#: Part by which deviations are larger than calibrated.
SURPLUS = 2.0**-29

#: A lattice of 2^-k units has 4^k std >= 2^LATTICE_BITS n, for n sums with noise.
LATTICE_BITS = 60

#: Draws of a matrix's noise that are in memory at once: within a cache.
DRAWN_TOGETHER = 2**14


def noisy_sums(total: NDArray[np.int64], std: float, rng: np.random.Generator) -> Vector:
    """Sums of whole units with noise, in units, on the public grid of the noise.

    `std` is the deviation that the noise is calibrated to, in units.
    """
    shift = lattice_shift(std, total.size)
    noise = discrete.gaussian(_variance(std, shift), total.size, rng)
    shape = total.shape
    noisy = rounded_sum(int128.from_int64(total.reshape(-1)), noise, std, shift)
    return noisy.reshape(shape)


def noisy_matrix(
    total: int128.Int128, std: float, std_diagonal: float, rng: np.random.Generator
) -> Matrix:
    """Symmetric matrix (d, d) of whole units with independent noise, as `noisy_sums`.

    `total` is its lower triangle, row by row; `std` is the deviation off the diagonal, and of the
    grid.
    """
    size = len(total[0])
    d = (math.isqrt(8 * size + 1) - 1) // 2
    shift = lattice_shift(std, size)
    off, along = (_variance(deviation, shift) for deviation in (std, std_diagonal))
    sizes = [sum(d - 1 - row for row in rows) for rows in _panels(d)]
    drawn = (discrete.gaussian(*law, rng) for law in [*((off, n) for n in sizes), (along, d)])
    return rounded_matrix(total, drawn, std, shift)


def noisy_entries(
    total: int128.Int128,
    on_diagonal: NDArray[np.bool_],
    std: float,
    std_diagonal: float,
    rng: np.random.Generator,
) -> Vector:
    """Some entries of a symmetric matrix of whole units with noise, as `noisy_matrix`."""
    size, d = len(on_diagonal), int(on_diagonal.sum())
    shift = lattice_shift(std, size)
    noise = np.empty(size, np.int64), np.empty(size, np.uint64)
    for deviation, at, n in ((std, ~on_diagonal, size - d), (std_diagonal, on_diagonal, d)):
        noise[0][at], noise[1][at] = discrete.gaussian(_variance(deviation, shift), n, rng)
    return rounded_sum(total, noise, std, shift)


def lattice_shift(std: float, size: int) -> int:
    """The k of a lattice of 2^-k units for so many sums with noise."""
    return max(0, math.ceil((LATTICE_BITS + math.log2(max(size, 1)) - math.log2(std)) / 2))


def _variance(std: float, shift: int) -> Fraction:
    deviation = Fraction(std * (1 + SURPLUS))
    return deviation * deviation * (1 << 2 * shift)


def rounded_sum(total: int128.Int128, noise: int128.Int128, std: float, shift: int) -> Matrix:
    """Whole units plus noise in steps of the lattice, in units, on the public grid."""
    exponent = int128.grid_exponent(math.ldexp(std, shift))
    steps = int128.round_to_grid(int128.add(int128.shifted(total, shift), noise), exponent)
    return steps * 2.0 ** (exponent - shift)


def rounded_matrix(
    total: int128.Int128, noise: Iterator[int128.Int128], std: float, shift: int
) -> Matrix:
    """Symmetric matrix of `rounded_sum`: noise right of the diagonal, by `_panels`, and on it.

    One panel's noise is in memory at once.
    """
    d = (math.isqrt(8 * len(total[0]) + 1) - 1) // 2
    exponent = int128.grid_exponent(math.ldexp(std, shift))
    to = shift, exponent, 2.0 ** (exponent - shift)
    out = np.empty((d, d))
    for rows in _panels(d):
        draws.noisy_rows(total, next(noise), rows.start, rows.stop, *to, out)
    draws.noisy_diagonal(total, next(noise), *to, out)
    return out


def _panels(d: int) -> list[range]:
    """Rows of a matrix of d columns with some `DRAWN_TOGETHER` entries right of the diagonal."""
    rows = []
    first = size = 0
    for row in range(d - 1):
        size += d - 1 - row
        if size >= DRAWN_TOGETHER or row == d - 2:
            rows.append(range(first, row + 1))
            first, size = row + 1, 0
    return rows
