"""A source that is read several times, with its decoded rows kept in memory where they fit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from privgram._base.system import memory
from privgram.columns.encoding import Codes
from privgram.sources.table import Block, Chunk, Selection, Table

#: Part of the memory that rows may take by default.
SHARE = 0.25


class Kept:
    """A source whose rows are decoded once. SECRET, and gone with this object.

    The first pass that reads every row to its end leaves the blocks here, if they were made by
    decoding and fit; passes after it are given these. A table in memory is never copied. At most
    `room` bytes are kept, by default a quarter of the memory.
    """

    def __init__(self, source: Any, room: int | None = None) -> None:
        self.source = source
        self._room = int(SHARE * memory()) if room is None else room
        self._select: Selection = None
        self._record: _Record | None = None

    def open(
        self, opener: Callable[..., Table], select: Selection = None, by_position: bool = True
    ) -> Table:
        """Open the source, or what was kept of it."""
        record = self._record
        if record is not None and self._select == select and record.whole:
            return record.replay()
        table = opener(self.source, select, by_position)
        if not table.decoded or (record is not None and record.left < 0):
            return table
        self._select, self._record = select, _Record(table, self._room)
        return replace(table, chunks=self._record.chunks())


class _Record:
    """The blocks of one pass."""

    def __init__(self, table: Table, room: int) -> None:
        self.table = table
        self.left = room
        self._number: int | None = None  # of chunks, once all were handed out
        self._kept: dict[int, list[Block]] = {}
        self._lock = threading.Lock()

    @property
    def whole(self) -> bool:
        """Whether every chunk was read to its end, and all fit."""
        return self._number == len(self._kept) and self.left >= 0

    def chunks(self) -> Generator[Chunk]:
        number = 0
        try:
            for number, chunk in enumerate(self.table.chunks, 1):
                yield Chunk(partial(self._read, chunk, number), chunk.place)
            self._number = number
        finally:
            self.table.chunks.close()

    def replay(self) -> Table:
        """The table, from memory."""
        kept = (Chunk(partial(iter, blocks)) for _, blocks in sorted(self._kept.items()))
        return replace(self.table, chunks=kept)

    def _read(self, chunk: Chunk, number: int) -> Iterator[Block]:
        blocks: list[Block] = []
        for block in chunk.read():
            self._take(block, blocks)
            yield block
        with self._lock:
            if self.left >= 0:
                self._kept[number] = blocks

    def _take(self, block: Block, blocks: list[Block]) -> None:
        if self.left < 0:
            return
        with self._lock:
            self.left -= _size(block)
            if self.left >= 0:
                blocks.append(block)
                return
            self._kept.clear()
        blocks.clear()


def _size(block: Block) -> int:
    parts = block if isinstance(block, list) else [block]
    return sum((part.indices if isinstance(part, Codes) else part).nbytes for part in parts)
