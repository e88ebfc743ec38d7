"""The entries of a private matrix, clamped to a public range.

References
----------
.. [1] M. Hardt and A. Roth, "Beating Randomized Response on Incoherent Matrices",
   STOC 2012, arXiv:1111.0623.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from privgram._blocks import Block, Blocks
from privgram.low_rank._checks import check_row_change

__all__ = ["Clamped", "entry_limit", "entry_unit"]

#: Bits of W in the projection, relative to its largest column norm.
BASIS_BITS = 20
#: The rounding of A in the projection adds at most 2**-MARGIN_BITS of `row_change`.
MARGIN_BITS = 10


def entry_unit(n: int, row_change: float) -> float:
    """Power of two that the projection rounds entries to; n of them move a row by little."""
    return 2.0 ** (math.floor(math.log2(row_change / math.sqrt(n))) - MARGIN_BITS)


def entry_limit(shape: tuple[int, int], row_change: float = 1.0) -> float:
    r"""Largest magnitude an entry is taken at; larger ones are clamped to it.

    Parameters
    ----------
    shape : tuple of int
        (m, n).
    row_change : float
        Largest change of a row, in L2.

    Returns
    -------
    float
        Between :math:`2^{30}` and :math:`2^{31}` row changes over :math:`\sqrt{mn}`.

    Raises
    ------
    ValueError
        If `row_change` is outside its range.

    Notes
    -----
    The limit knows no data, and clamping moves no two entries apart, so neighbours stay
    neighbours. With it the projection's integers never overflow, and no matrix is so large
    that the range finder's noise is lost in rounding. An error instead would tell that there
    is such an entry.
    """
    m, n = shape
    # Sums of m products with a column of W, of norm 2**BASIS_BITS, stay below 2**62.
    steps = math.floor(2.0 ** (61 - BASIS_BITS) / math.sqrt(m))
    return steps * entry_unit(n, check_row_change(row_change))


class Clamped(Blocks):
    """The blocks of a matrix, every entry clamped to `entry_limit`."""

    def __init__(self, matrix: Any, row_change: float) -> None:
        super().__init__(matrix)
        self._limit = entry_limit(self.shape, row_change)

    def __iter__(self) -> Iterator[Block]:
        for block in super().__iter__():
            values = block.values
            if isinstance(values, np.ndarray):
                values = np.clip(values, -self._limit, self._limit)
            else:
                data = np.clip(values.data, -self._limit, self._limit)
                values = type(values)((data, values.indices, values.indptr), shape=values.shape)
            yield block._replace(values=values)
