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
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from privgram.exact import discrete, int128
from privgram.exact.lattice import lattice_shift, panels, rounded_matrix, rounded_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector

#: Part by which deviations are larger than calibrated.
SURPLUS = 2.0**-29


def noisy_sums(
    total: NDArray[np.int64] | int128.Int128,
    std: float,
    rng: np.random.Generator,
    more: NDArray[np.bool_] | None = None,
    std_more: float = 0.0,
) -> Vector:
    """Sums of whole units with noise, in units, on the public grid of the noise.

    `std` is the deviation that the noise is calibrated to, in units; that of some may be another.
    """
    whole = total if isinstance(total, tuple) else int128.from_int64(total.reshape(-1))
    size = len(whole[0])
    shift = lattice_shift(std, size)
    other = np.zeros(size, np.bool_) if more is None else more
    noise = np.empty(size, np.int64), np.empty(size, np.uint64)
    for deviation, at in ((std, ~other), (std_more, other)):
        if n := int(at.sum()):
            noise[0][at], noise[1][at] = discrete.gaussian(_variance(deviation, shift), n, rng)
    noisy = rounded_sum(whole, noise, std, shift)
    return noisy if isinstance(total, tuple) else noisy.reshape(total.shape)


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
    sizes = [sum(d - 1 - row for row in rows) for rows in panels(d)]
    drawn = (discrete.gaussian(*law, rng) for law in [*((off, n) for n in sizes), (along, d)])
    return rounded_matrix(total, drawn, std, shift)


@lru_cache(maxsize=16)
def _variance(std: float, shift: int) -> Fraction:
    deviation = Fraction(std * (1 + SURPLUS))
    return deviation * deviation * (1 << 2 * shift)
