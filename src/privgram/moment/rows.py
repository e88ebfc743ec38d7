"""Rows on their way into the kernel: converted where it cannot read them, scaled, checked.

The kernel scales by public bounds as it reads, and takes native float32, float64, int32 and
int64 where they lie. Anything else becomes float64 a few thousand rows at a time, so that no
input is ever copied whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privgram._core import rows, scale
from privgram.columns.encoding import Codes
from privgram.sources.table import UNLISTED, Block, InvalidRow, n_rows_of

if TYPE_CHECKING:
    from privgram._core.rows import Accumulator
    from privgram.columns.encoding import Encoder
    from privgram.columns import Columns

#: Values converted at a time, 2 MiB. Fewer cost more in calls than they save in cache.
PIECE = 1 << 18


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
        self._drop = columns is not None and columns.missing == "drop"
        self._scaling = None
        if columns is not None:
            limit = np.ones(len(columns))
            self._scaling = columns.center, columns.inverse, limit
        self._encoder = None if columns is None or columns.plain else columns.encoder

    def feed(self, block: Block) -> int:
        """Accumulate every row of a block and return how many there were.

        Raises
        ------
        InvalidRow
            At the first row that may not be used. The accumulator is then undefined.
        """
        n_rows = n_rows_of(block)
        if self._encoder is not None:
            self._feed_encoded(self._encoder, block, n_rows)
        elif rows.readable(block):
            self._accumulate(block, 0)
        else:
            step = max(8, PIECE // self.accumulator.n_columns)
            for start in range(0, n_rows, step):
                self._accumulate(_converted(block, slice(start, start + step)), start)
        return n_rows

    def _feed_encoded(self, encoder: Encoder, block: Block, n_rows: int) -> None:
        parts = block if isinstance(block, list) else list(block.T)
        step = max(8, PIECE // self.accumulator.n_columns)
        for start in range(0, n_rows, step):
            rows = slice(start, start + step)
            some = [part.part(rows) if isinstance(part, Codes) else part[rows] for part in parts]
            bad = self.accumulator.update(encoder.table(some), self._drop)
            if bad >= 0:
                raise InvalidRow(start + bad, UNLISTED) if encoder.blocks else InvalidRow(start + bad)

    def _accumulate(self, block: Block, start: int) -> None:
        bad = self.accumulator.update(block, self._drop, self._scaling)
        if bad >= 0:
            raise InvalidRow(start + bad)


def _converted(block: Block, part: slice) -> Block:
    """Rows of a block that the kernel takes as they are."""
    # A long double beyond float64 becomes infinite, and is clamped like any other value.
    with scale.DefaultRounding(), np.errstate(over="ignore"):
        if not isinstance(block, list):
            return block[part].astype(np.float64)
        pieces = [column[part] for column in block]
        return [x if rows.is_column(x) else x.astype(np.float64, order="C") for x in pieces]
