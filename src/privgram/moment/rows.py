"""Rows on their way into the kernel: scaled by their public bounds, laid out, checked.

The kernel takes native float32 and float64 in any layout. Everything else goes through a
scratch small enough to stay in the cache, a few thousand rows at a time, so that no input
is ever copied whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privgram._core import rows, scale
from privgram.columns.encoding import Codes
from privgram.sources.table import UNLISTED, Block, InvalidRow, n_rows_of

if TYPE_CHECKING:
    from privgram._core.rows import Accumulator
    from privgram.columns.encoding import Encoder
    from privgram.columns import Columns

Order: TypeAlias = Literal["C", "F"]

#: Doubles in the scratch: 2 MiB. Smaller ones cost more in calls than they save in cache.
SCRATCH = 1 << 18


class Feeder:
    """Feed blocks to one accumulator; one feeder a thread.

    Parameters
    ----------
    accumulator : Accumulator
        Where the rows go.
    columns : Columns, optional
        Public bounds to scale by.
    """

    def __init__(self, accumulator: Accumulator, columns: Columns | None = None) -> None:
        self.accumulator = accumulator
        d = accumulator.n_columns
        self._scaled = columns is not None
        self._encoder = None if columns is None or columns.plain else columns.encoder
        if columns is None:
            self._drop = False
            self._center, self._inverse, self._limit = np.zeros(d), np.ones(d), np.inf
        else:
            self._drop = columns.missing == "drop"
            self._center, self._inverse, self._limit = columns.center, columns.inverse, 1.0
        self._scratch: dict[Order, NDArray[np.float64]] = {}

    def feed(self, block: Block) -> int:
        """Accumulate every row of a block and return how many there were.

        Raises
        ------
        InvalidRow
            At the first row that may not be used. The accumulator is then undefined.
        """
        with scale.DefaultRounding():
            return self._feed(block)

    def _feed(self, block: Block) -> int:
        n_rows = n_rows_of(block)
        if self._encoder is not None:
            self._feed_encoded(self._encoder, block, n_rows)
        elif not self._scaled and isinstance(block, list) and rows.in_place(block):
            self._accumulate(block, 0)
        elif isinstance(block, list):
            self._feed_scaled(scale.columns, block, n_rows, "F")
        elif not self._scaled and block.dtype in (np.float64, np.float32):
            self._accumulate(block, 0)
        elif block.strides[1] == block.dtype.itemsize:
            self._feed_scaled(scale.rows, block, n_rows, "C")
        else:
            self._feed_scaled(scale.columns, list(block.T), n_rows, "F")
        return n_rows

    def _feed_scaled(self, scaler: Any, block: Block, n_rows: int, order: Order) -> None:
        scratch = self._scratch.get(order)
        if scratch is None:
            d = self.accumulator.n_columns
            # Scaling leaves the last column alone where that is the intercept.
            self._scratch[order] = scratch = np.ones((max(8, SCRATCH // d), d), order=order)
        step = len(scratch)
        for start in range(0, n_rows, step):
            out = scratch[: min(step, n_rows - start)]
            with np.errstate(over="ignore"):  # of a long double beyond float64
                scaler(block, start, self._center, self._inverse, self._limit, out)
            self._accumulate(out, start)

    def _feed_encoded(self, encoder: Encoder, block: Block, n_rows: int) -> None:
        parts = block if isinstance(block, list) else list(block.T)
        step = max(8, SCRATCH // self.accumulator.n_columns)
        for start in range(0, n_rows, step):
            rows = slice(start, start + step)
            some = [part.part(rows) if isinstance(part, Codes) else part[rows] for part in parts]
            bad = self.accumulator.update(encoder.table(some), self._drop)
            if bad >= 0:
                raise InvalidRow(start + bad, UNLISTED) if encoder.blocks else InvalidRow(start + bad)

    def _accumulate(self, block: Block, start: int) -> None:
        bad = self.accumulator.update(block, self._drop)
        if bad >= 0:
            raise InvalidRow(start + bad)
