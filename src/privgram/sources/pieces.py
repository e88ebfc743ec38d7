"""Rows with a time to an event, as they are read in pieces of it: no table of these is made."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._core.rowmap import DefaultRounding
from privgram.columns.encoding import Codes, naming_column
from privgram.columns.survival import EVENT_TIME, EXPOSURE, PIECE, Survival
from privgram.columns.variables import Boolean
from privgram.sources.table import (
    CachedSource,
    Chunk,
    InvalidRow,
    RawBlock,
    Selection,
    Table,
    TableSource,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_SURVIVAL = (
    "has an event that is neither 0 nor 1, or a time that is missing, negative, not finite or not "
    "after its start; clean the data, or leave out such rows: missing='drop', of the Study or the "
    "Columns"
)


class PieceBlock(list[Any]):
    """Columns of pieces, one after another, and of which of `n_rows` rows each is, ascending."""

    def __init__(self, columns: list[Any], rows: NDArray[np.int64], n_rows: int) -> None:
        super().__init__(columns)
        self.rows, self.n_rows = rows, n_rows

    def blames(self, error: InvalidRow) -> InvalidRow:
        """An error of a piece as one of its row."""
        return InvalidRow(int(self.rows[error.row]), error.problem)


class PieceSource:
    """A source whose rows come as their pieces of time. SECRET, and gone with this object.

    A row's pieces are made of that row and of public cuts alone, and there is one at least. They
    have the columns that `Survival.made` describes, beside those of the row. Where `event_times` is
    set, a row is one piece with this column, its time if it has the event and 0 if not.
    """

    def __init__(
        self, source: TableSource, survival: Survival, drop: bool, cache_bytes: int | None = None
    ) -> None:
        self.source = CachedSource(source, cache_bytes)
        self.survival, self.drop = survival, drop
        self._of_times = False

    def event_times(self) -> PieceSource:
        """The same where a row is one piece: its time if it has the event, and 0 if not."""
        times = copy(self)
        times._of_times = True
        return times

    def open(
        self, opener: Callable[..., Table], select: Selection = None, by_position: bool = True
    ) -> Table:
        """Open the source for columns of its own, and for those that are made."""
        assert isinstance(select, dict)
        survival = self.survival
        own = {name: x for name, x in select.items() if name not in self._made}
        reads = {**survival.described, **own}
        table = self.source.open(opener, reads, by_position)
        place = {name: i for i, name in enumerate(reads)}

        def block_of(parts: RawBlock) -> PieceBlock:
            times = [
                _numbers(parts[place[name]], name, described)
                for name, described in survival.described.items()
            ]
            with np.errstate(all="ignore"), DefaultRounding():
                rows, made = self._pieces(*times)
            columns = [made[name] if name in made else parts[place[name]][rows] for name in select]
            return PieceBlock(columns, rows, len(times[0]))

        def read(chunk: Chunk) -> Iterator[RawBlock]:
            return map(block_of, chunk.read())

        def chunks() -> Generator[Chunk]:
            try:
                for chunk in table.chunks:
                    # Decoded blocks are kept below.
                    yield replace(chunk, read=partial(read, chunk), again=None, on_device=None)
            finally:
                table.chunks.close()

        return Table(tuple(select), len(select), table.n_rows, chunks())

    @property
    def _made(self) -> set[str]:
        return {EVENT_TIME} if self._of_times else set(self.survival.made)

    def _pieces(self, *times: NDArray[np.float64]) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Of which row each piece is, and the columns that are made."""
        *starts, stop, event = times
        start = starts[0] if starts else np.zeros(len(stop))
        good = ((event == 0) | (event == 1)) & np.isfinite(start) & np.isfinite(stop)
        good &= (start >= 0) & ((start < stop) if starts else (stop >= 0))
        if not (good.all() or self.drop):
            raise InvalidRow(int((~good).argmax()), NO_SURVIVAL)
        if self._of_times:
            at = np.where(good, np.where(event == 1, stop, 0.0), np.nan)
            return np.arange(len(stop)), {EVENT_TIME: at}
        survival = self.survival
        cuts = np.asarray(survival.cuts, np.float64)
        # From a cut on, and up to one with it.
        first = np.searchsorted(cuts[1:-1], np.where(good, start, 0.0), "right")
        last = np.searchsorted(cuts[1:-1], np.where(good, stop, 0.0), "left")
        last = np.maximum(first, last)
        number = last - first + 1
        rows = np.repeat(np.arange(len(stop)), number)
        piece = np.arange(len(rows)) + np.repeat(first - np.cumsum(number) + number, number)
        time = np.minimum(stop[rows], cuts[piece + 1]) - np.maximum(start[rows], cuts[piece])
        time = np.maximum(time, survival.shortest)
        counts = (event == 1) & (stop <= cuts[-1]) & ((stop > cuts[0]) | (cuts[0] == 0))
        died = (counts[rows] & (piece == last[rows])).astype(np.float64)
        died[~good[rows]] = np.nan
        time[~good[rows]] = np.nan
        made = survival.target, EXPOSURE, PIECE
        return rows, dict(zip(made, (died, time, Codes(piece)), strict=True))


def _numbers(part: Any, name: str, described: Any) -> NDArray[np.float64]:
    """A time or an event as numbers, NaN where there is none."""
    if isinstance(described, Boolean):
        part = naming_column(described.raw, name)(part)
    with np.errstate(all="ignore"):
        return np.asarray(part, np.float64)
