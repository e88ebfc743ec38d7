"""What both steps see of a private matrix: its entries clamped and rounded, as integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privgram.exact.integers import Integers, Product, Total, products, with_entries
from privgram.papers.hardt_roth._checks import check_row_change
from privgram.sources.blocks import Block, Blocks, in_order

__all__ = ["Rounded", "entry_limit", "entry_unit"]

#: Bits of W in the projection, relative to its largest column norm.
BASIS_BITS = 20
#: The rounding of A adds at most 2**-MARGIN_BITS of `row_change` to the change of a row.
MARGIN_BITS = 10


def entry_unit(n: int, row_change: float) -> float:
    """Power of two that entries are rounded to multiples of; n of them move a row by little."""
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
    neighbours. With it no integer of either step overflows. An error instead would tell that
    there is such an entry.
    """
    m, n = shape
    # Sums of m products with a column of W, of norm 2**BASIS_BITS, stay below 2**62.
    steps = math.floor(2.0 ** (61 - BASIS_BITS) / math.sqrt(m))
    return steps * entry_unit(n, check_row_change(row_change))


class Rounded:
    """A matrix (m, n) with its entries clamped to `entry_limit` and rounded to multiples of a unit.

    All that is ever computed of it are exact products with matrices of integers, in its units:
    the same to the last bit for every storage, every cutting into blocks and every thread.
    The largest change of a row, `row_change` in L2, grows by a factor `growth` once it is rounded.
    """

    def __init__(self, matrix: Any, row_change: float) -> None:
        self._blocks = Blocks(matrix)
        self.shape = self._blocks.shape
        n = self.shape[1]
        self.unit = entry_unit(n, row_change)
        self.growth = 1 + self.unit * math.sqrt(n) / row_change
        self._limit = entry_limit(self.shape, row_change)

    def times(self, right: Integers) -> Total:
        """Product with a dense matrix of shape (n, k), of shape (m, k)."""
        total = Total((self.shape[0], right.matrix.shape[1]))

        def job(block: Block) -> list[Product]:
            return list(products(self._integers(block.values), right, block.columns))

        for block, parts in in_order(job, self._blocks):
            for part in parts:
                total.add(block.rows, part)
        return total

    def trans_times(self, left: Integers) -> Total:
        """Product of the transpose with a dense matrix of shape (m, k), of shape (n, k)."""
        total = Total((self.shape[1], left.matrix.shape[1]))

        def job(block: Block) -> list[Product]:
            return list(products(self._integers(block.values.T), left, block.rows))

        for block, parts in in_order(job, self._blocks):
            for part in parts:
                total.add(block.columns, part)
        return total

    def _integers(self, values: Any) -> Integers:
        """The entries in units."""
        entries = values if isinstance(values, np.ndarray) else values.data
        entries = np.clip(entries, -self._limit, self._limit)
        entries /= self.unit
        np.rint(entries, out=entries)
        return Integers(with_entries(values, entries))
