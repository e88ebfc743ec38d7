"""What a pass has done so far, in a file from which it can go on. SECRET, like the moment in it.

A pass is a sum over chunks, and sums of integers are the same in any order. So a checkpoint
is the exact sum over some chunks with the list of which, and going on is adding the others: the
result is that of an uninterrupted pass, bit for bit. Worker threads hand in what they have summed,
between two chunks, a few times per checkpoint.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base import files as _files
from privgram._base.checks import check_integer
from privgram._base.saved import DamagedFile, Frame, understood
from privgram.moment import SecondMoment
from privgram.sources.files import find
from privgram.sources.kept import Kept
from privgram.sources.queries import is_query

if TYPE_CHECKING:
    from privgram.moment.rows import Total
    from privgram.sources.table import Table

#: Seconds between two checkpoints; threads hand in at a quarter of it.
INTERVAL = 10.0

_FRAME = Frame(b"privgram.checkpoint\n", 1, "a checkpoint")


@dataclass
class _Share:
    """Chunks that one thread has summed and not yet handed in."""

    since: float
    chunks: dict[int, int] = field(default_factory=dict)


class Checkpoint:
    """The sum over the finished chunks of a pass, and its file.

    Parameters
    ----------
    path : Path
        Read if it exists, and written at once, so that a bad place is found early.
    moment : SecondMoment
        Empty, of the shape of the pass.
    source : object
        What `identify` says of the source.

    Attributes
    ----------
    moment : SecondMoment
        Sum over the finished chunks.
    first, before : int
        The first so many chunks are finished; rows in them.
    beyond : dict of int to int
        Rows of finished chunks further on.

    Raises
    ------
    ValueError
        If the file is damaged (`DamagedFile`), or of another pass.
    OSError
        If it cannot be read or written.
    """

    def __init__(self, path: Path, moment: SecondMoment, source: object) -> None:
        self.path = path
        self.moment = moment
        self.source = source
        self.first, self.before = 0, 0
        self.beyond: dict[int, int] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._shares: dict[int, _Share] = {}
        if path.exists():
            self._resume(path.read_bytes())
        self.write()

    @property
    def rows(self) -> int:
        """Rows in all finished chunks."""
        return self.before + sum(self.beyond.values())

    def finish(self, accumulator: Total, chunk: int, rows: int) -> None:
        """Note that a thread's accumulator now has one more whole chunk; hand in at times.

        The accumulator is emptied when it is handed in.
        """
        now = time.monotonic()
        share = self._shares.setdefault(id(accumulator), _Share(now))
        share.chunks[chunk] = rows
        if now - share.since < INTERVAL / 4:
            return
        with self._lock:
            self.moment.absorb(accumulator)
            self.beyond.update(share.chunks)
            while self.first in self.beyond:
                self.before += self.beyond.pop(self.first)
                self.first += 1
        accumulator.reset()
        share.chunks.clear()
        if now - self._written >= INTERVAL and self._writing.acquire(blocking=False):
            try:
                self.write()
            finally:
                self._writing.release()
        share.since = time.monotonic()

    def write(self) -> None:
        """Replace the file, atomically and durably."""
        with self._lock:
            header = {
                "pass": self._identity(),
                "first": self.first,
                "before": self.before,
                "beyond": list(self.beyond.items()),
            }
            moment = self.moment.to_bytes()
        _files.write_atomically(self.path, _FRAME.seal(header, moment), _files.SECRET)
        self._written = time.monotonic()

    def discard(self) -> None:
        """Remove the file: the pass has succeeded. What took its place meanwhile stays."""
        with suppress(FileNotFoundError):
            with self.path.open("rb") as file:
                ours = file.read(len(_FRAME.magic)) == _FRAME.magic
            if ours:
                self.path.unlink()

    def _identity(self) -> dict[str, Any]:
        from privgram._base.version import __version__
        from privgram.sources import csv, npy, table

        columns, chosen = self.moment.columns, self.moment.norm_bound
        identity: dict[str, Any] = {
            "source": self.source,
            "bound": self.moment.bound.hex(),
            "norm_bound": None if chosen is None else chosen.to_dict(),
            "columns": None if columns is None else columns.to_dict(),
            "names": self.moment.names,
            "n_columns": self.moment.n_columns,
            # What else decides which rows are in which chunk.
            "privgram": [__version__, csv.CHUNK_BYTES, npy.CHUNK_BYTES, table.CHUNK_BYTES],
        }
        if _reads_csv(self.source):
            identity["privgram"].append("records")  # chunks were cut at any newline before
        plain: dict[str, Any] = json.loads(json.dumps(identity))
        return plain

    def _resume(self, data: bytes) -> None:
        name = self.path.name
        try:
            header, rest = _FRAME.open(data, name)
            with understood(name, _FRAME.what):
                found, expected = header["pass"], self._identity()
                other = [what for what in expected if found.get(what) != expected[what]]
                moment = SecondMoment.from_bytes(rest)
                first = check_integer(header["first"], "first", 0)
                before = check_integer(header["before"], "before", 0)
                beyond = dict(header["beyond"])
                for count in (*beyond, *beyond.values()):
                    check_integer(count, "a count", 0)
                if not other:
                    self._check(moment, first, before, beyond)
        except DamagedFile as error:
            raise DamagedFile(
                f"{error}. It was left as it is; delete it to start again, or give another path"
            ) from error
        if other:
            what = {"source": "files or table", "norm_bound": "privately chosen bounds"}.get(
                other[0], other[0]
            )
            raise ValueError(
                f"{name} is the checkpoint of another pass: its {what} differ. Delete it to "
                "start again, or give another path"
            )
        self.moment, self.first, self.before, self.beyond = moment, first, before, beyond

    def _check(self, moment: SecondMoment, first: int, before: int, beyond: dict[int, int]) -> None:
        """Raise ValueError unless the sum is this pass's, over the chunks that are listed."""
        for what in ("n_columns", "bound", "names", "columns"):
            if getattr(moment, what) != getattr(self.moment, what):
                raise ValueError("the sum is another pass's")
        if before + sum(beyond.values()) != moment.n_rows + moment.n_dropped:
            raise ValueError("the sum is over other rows than those of the chunks")
        if min(beyond, default=first + 1) <= first:
            raise ValueError("chunks are listed twice")


def identify(source: Any, table: Table) -> object:
    """Describe a source, to know it again: files by their sizes and times, tables by their shape.

    Raises
    ------
    ValueError
        If it can be read only once.
    """
    if isinstance(source, Kept):
        source = source.source
    paths = source if isinstance(source, (list, tuple)) else [source]
    if all(isinstance(path, (str, os.PathLike)) for path in paths):
        files = [file for path in paths for file in find(Path(path))]
        status = [file.stat() for file in files]
        return [
            [os.fspath(file.absolute()), s.st_size, s.st_mtime_ns]
            for file, s in zip(files, status, strict=True)
        ]
    once = isinstance(source, Iterable) and iter(source) is source
    unknown = is_query(source) or hasattr(source, "__arrow_c_stream__")
    if once or (table.n_rows is None and unknown):  # or it may come in another order
        raise ValueError(
            "a checkpoint needs a source that can be read again: files, arrays, tables or a "
            "list of these, and not an iterator or a stream"
        )
    return [type(source).__name__, table.n_rows, table.n_columns, _dtype(source)]


def _reads_csv(identified: Any) -> bool:
    """Tell whether what `identify` says is of CSV files."""
    files = identified if isinstance(identified, list) else []
    return any(isinstance(file, list) and file[0].lower().endswith(".csv") for file in files)


def _dtype(source: Any) -> str:
    return str(source.dtype) if isinstance(source, np.ndarray) else ""
