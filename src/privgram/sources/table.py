"""What every source becomes: a table read in chunks; here also keys of units, and arrays.

A chunk is a piece of work for one thread: opening it decodes, and its blocks come one at a time,
so that memory is bounded by a few blocks whatever the length of the table.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privgram._base.machine import cores, memory
from privgram._base.text import did_you_mean
from privgram.columns.encoding import LEVELS, Codes, LevelCoder, Raw, as_column
from privgram.columns.variables import Factor, Log, Number, Variable

#: A user's table, in any form that `privgram.sources.open_source` reads: an array of any library, a
#: data frame, an Arrow stream, a query, a mapping of names to columns, a path or several, or an
#: iterable of blocks of these. SECRET. The libraries have no type in common, so that a type checker
#: takes anything here; what is no table is refused when it is opened, by a sentence that says why.
TableSource: TypeAlias = Any

#: A two-dimensional array of real numbers, or one column after another, equally long: of real
#: numbers, dates, levels or codes; last, where it is asked for, the `Keys` of units. It may be
#: overwritten as soon as the next block is asked for.
RawBlock: TypeAlias = NDArray[Any] | list[Raw]

#: Chunks of arrays and files of raw numbers: long enough to hide what a hand-over
#: between threads costs, short enough to share a table evenly.
CHUNK_BYTES = 1 << 22

#: Of a batch that is decoded: smaller ones cost more in calls than in cache.
BATCH_BYTES = 1 << 23

#: Rows that are no work for a second thread, however they are read; and the fewest of any chunk.
CHUNK_ROWS, LEAST_ROWS = 1 << 13, 1 << 8

#: Of what needs no memory of its own: an interruption waits for a chunk, tens of milliseconds.
LARGEST_BYTES = 1 << 27

_LEAVE_OUT = (
    "leave out such rows: missing='drop', of the Study or the Columns, or missing = \"drop\" in "
    "their file"
)

#: What else a row of a table with factors may hold.
UNLISTED = (
    "holds a missing value, NaN or a level that is not listed; list the level, take the others "
    f"together by pg.Factor(levels, other=True), or {_LEAVE_OUT}"
)

#: What a row of numbers may hold that cannot be used.
NOT_FINITE = (
    f"holds a missing value, NaN or infinity, or what is no number; clean the data, or {_LEAVE_OUT}"
)

_TELLS = ". This error tells what one row holds, at no cost: it must not reach the public"


class InvalidRow(ValueError):
    """A row that may not be used; ``row`` counts from the start of the block or chunk."""

    def __init__(self, row: int, problem: str = NOT_FINITE) -> None:
        super().__init__(row, problem)
        self.row = row
        self.problem = problem

    def explain(self, before: int, place: str = "") -> ValueError:
        """Say so to the user, with the row's position in the stream and never its values."""
        where = f" (in {place})" if place else ""
        return ValueError(f"row {before + self.row}{where} {self.problem}{_TELLS}")


def is_a(what: object, module: str, name: str) -> bool:
    """Tell whether this is an instance of a class, whose module need not have been imported."""
    # Half-way through its import in another thread, a module may lack the class.
    return isinstance(what, getattr(sys.modules.get(module), name, ()))


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a table; ``place`` says where they came from.

    What is on a device is read as copies; who sums there takes it as it is, ``on_device``. Of a
    file ``again`` decodes it in later passes, which refuses one that has changed. ``line_of`` tells
    the line of a file at which a row begins.
    """

    read: Callable[[], Iterator[RawBlock]]
    place: str = ""
    on_device: Any = None
    again: Callable[[], Iterator[RawBlock]] | None = None
    line_of: Callable[[int], int] | None = None

    def place_of(self, row: int) -> str:
        """Where a row of the chunk came from."""
        return self.place if self.line_of is None else f"{self.place}, line {self.line_of(row)}"

    def blocks(self, sums_on_device: bool) -> Iterator[Any]:
        """Blocks for who reads them, or the rows on the device for who sums there."""
        there = sums_on_device and self.on_device is not None
        return iter((self.on_device,)) if there else self.read()


#: Chunks are `ranges` of what is in memory, all of which may be asked for at once; each block is
#: `decoded` at a cost, into memory of its own that nobody overwrites; or blocks are `handed` over
#: one after another.
TableKind: TypeAlias = Literal["ranges", "decoded", "handed"]


@dataclass(frozen=True)
class Table:
    """An opened source, good for one pass.

    ``chunks`` is advanced by one thread; the chunks it yields may be read by any. It opens
    the files as it starts and closes them as it ends, or is closed.
    """

    names: tuple[str, ...] | None
    n_columns: int
    n_rows: int | None
    chunks: Generator[Chunk]
    kind: TableKind = "handed"


def n_rows_of(block: RawBlock) -> int:
    """Count the rows of a block."""
    if isinstance(block, list):
        return len(block[0]) if block else 0
    return int(block.shape[0])


def some_rows(block: RawBlock, rows: slice | NDArray[np.intp]) -> RawBlock:
    """Some rows of a block."""
    return [part[rows] for part in block] if isinstance(block, list) else block[rows]


def chunked(
    n_rows: int, step: int, read: Callable[[slice], Iterator[RawBlock]]
) -> Generator[Chunk]:
    """Chunks of so many rows, each read by its range."""
    ranges = (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))
    return (Chunk(partial(read, rows)) for rows in ranges)


def shared_out(
    n_rows: int, row_bytes: int, read: Callable[[slice], Iterator[RawBlock]]
) -> Generator[Chunk]:
    """Chunks of a table that is read where it lies: large ones first, so that hand-overs are few.

    Each takes a part of what is left, for all cores to end together.
    """
    step = rows_per_chunk(row_bytes, n_rows)
    if n_rows <= step:
        most, parts = step, 1
    else:
        most, parts = max(step, LARGEST_BYTES // max(row_bytes, 1)), 2 * cores()
    start = 0
    while start < n_rows:
        size = max(step, min(most, (n_rows - start) // parts))
        yield Chunk(partial(read, slice(start, min(start + size, n_rows))))
        start += size


def check_names(source: TableSource, names: Iterable[str]) -> None:
    """Refuse names that a table in memory lacks whose columns have names; ask no other table."""
    available: Any = None
    if isinstance(source, Mapping):
        available = source
    elif is_a(source, "pandas", "DataFrame") or is_a(source, "polars", "DataFrame"):
        available = source.columns
    elif is_a(source, "pyarrow", "Table") or is_a(source, "pyarrow", "RecordBatch"):
        available = source.schema.names
    if available is not None and all(isinstance(name, str) for name in available):
        positions(list(available), names)


def rows_per_chunk(row_bytes: int, n_rows: int | None = None, decoded: bool = False) -> int:
    """Choose a chunk, or a batch: less if a table of so many rows would not fill 16 of them."""
    most = (BATCH_BYTES if decoded else CHUNK_BYTES) // max(row_bytes, 1)
    if n_rows is not None:
        most = min(most, max(-(-n_rows // 16), CHUNK_ROWS))
    return max(LEAST_ROWS, most)


def positions(available: Sequence[str], select: Iterable[str] | None) -> list[int]:
    """Find the selected columns, all of them by default, among the available ones."""
    places: dict[str, list[int]] = {}
    for i, name in enumerate(available):
        places.setdefault(name, []).append(i)
    wanted = list(places if select is None else select)
    for name in wanted:
        if name not in places:
            hint = did_you_mean(name, available, f"it has {_listed(available)}")
            raise ValueError(f"the table has no column named {name!r}; {hint}")
    if repeated := sorted({name for name in wanted if len(places[name]) > 1}):
        raise ValueError(f"the table has several columns named {_listed(repeated)}")
    return [places[name][0] for name in wanted]


def unnamed(n_columns: int, select: Selection, by_position: bool) -> tuple[str, ...] | None:
    """Names that a table without any takes from a selection, which is checked against it."""
    if select is None:
        return None
    if not by_position:
        raise ValueError(
            "columns are selected by name, but this table's columns have no names; pass a mapping "
            "of names to its columns, or columns=None for the columns of the array itself"
        )
    if n_columns != len(select):
        raise ValueError(
            f"Columns has bounds for {len(select)} columns and the table has {n_columns}; "
            "columns without names are taken in the order of the bounds: give them names, as a "
            "data frame or a mapping has them"
        )
    return tuple(select)


#: Columns to take: their names, or what each is publicly known to be.
Selection: TypeAlias = Mapping[str, Variable | None] | Sequence[str] | None


def described_kind(select: Selection, name: str) -> Variable | None:
    """Tell what a selected column is known to be; None for a number."""
    described = select.get(name) if isinstance(select, (dict, Mapping)) else None
    return None if type(described) in (Number, Log) else described


def _listed(names: Sequence[str], limit: int = 8) -> str:
    first = ", ".join(repr(name) for name in names[:limit])
    return first + (f" and {len(names) - limit} more" if len(names) > limit else "")


#: Bytes of a text's key: up to 15 of them as they are and their number, or a hash.
KEY_BYTES = 16

#: Of this process: nobody can choose texts whose hashes are equal.
_SECRET = os.urandom(32)

_MISTAKEN = "it holds values that are neither whole numbers nor texts, as a unit's must be"

#: Texts that are whole numbers of 64 bits in every way of writing them.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


@dataclass(frozen=True, eq=False)
class Keys:
    """Keys of rows, int64 or S16; where `missing` says so, there is none.

    A whole number from 2^63 on is 2^64 less here, and `high` says where: it is not the negative
    number of that key. Where a column holds whole numbers and texts, those of the texts are in
    `texts`, which is empty elsewhere.
    """

    values: NDArray[Any]
    missing: NDArray[np.bool_] | None = None
    high: NDArray[np.bool_] | None = None
    texts: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes they take."""
        return sum(0 if part is None else part.nbytes for part in vars(self).values())

    def __getitem__(self, rows: slice | NDArray[Any]) -> Keys:
        parts = (None if x is None else x[rows] for x in (self.missing, self.high, self.texts))
        return Keys(self.values[rows], *parts)

    def by_kind(self) -> Iterator[tuple[NDArray[np.intp], Keys]]:
        """Rows whose keys are whole numbers, and those whose keys are texts."""
        are_texts = np.zeros(len(self), bool) if self.texts is None else self.texts != b""
        if not are_texts.all():
            rows = np.flatnonzero(~are_texts)
            yield rows, replace(self[rows], texts=None)
        if self.texts is not None and are_texts.any():
            rows = np.flatnonzero(are_texts)
            yield rows, Keys(self.texts[rows])


def _key(text: str | bytes) -> bytes:
    """A text's key: itself and its length, or beyond 15 bytes a secret hash of 120 bits."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(raw) < KEY_BYTES:
        return raw.ljust(KEY_BYTES - 1, b"\0") + bytes([len(raw) + 1])
    return blake2b(raw, digest_size=KEY_BYTES - 1, key=_SECRET).digest() + b"\xff"


def keys_of(values: NDArray[Any]) -> Keys:
    """Keys of a column in memory: of whole numbers and texts, one by one.

    What else there is among objects is missing. A text that is a whole number is this number.
    """
    kind = values.dtype.kind
    if kind in "iu":
        numbers = values.astype(np.int64, copy=False)
        unsigned = kind == "u" and values.itemsize == 8
        return Keys(numbers, None, numbers < 0 if unsigned else None)
    if kind not in "OUST":
        raise TypeError(_MISTAKEN)
    known: dict[Any, int | bytes] = {}
    keys = [_key_of(value, known) for value in values.tolist()]
    missing = np.array([key is None for key in keys], bool)
    texts = np.array([key if type(key) is bytes else b"" for key in keys], f"S{KEY_BYTES}")
    whole = [key if type(key) is int else 0 for key in keys]
    high = np.array([key >= 2**63 for key in whole], bool)
    numbers = np.array([key - 2**64 if key >= 2**63 else key for key in whole], np.int64)
    return Keys(numbers, missing, high, texts if (texts != b"").any() else None)


def _key_of(value: object, known: dict[Any, int | bytes]) -> int | bytes | None:
    """The key of a cell, None where it is nobody's; `known` are those of texts."""
    if isinstance(value, (str, bytes)):
        key = known.get(value)
        if key is None:
            text = value if isinstance(value, str) else value.decode(errors="replace")
            key = known[value] = int(text) if _WHOLE.fullmatch(text) else _key(value)
        return key
    if not isinstance(value, (int, np.integer)) or isinstance(value, (bool, np.timedelta64)):
        return None
    whole = int(value)
    return whole if -(2**63) <= whole < 2**64 else _key(str(whole))


def keys_by_code(values: Iterable[Any], codes: NDArray[Any]) -> Keys:
    """Keys of rows by the positions of their values; at -1 there is none."""
    return keys_of(np.array([*values, None], object))[codes]


#: Bytes that rows may take by default, and at most this part of the memory.
CACHE_BYTES, SHARE = 1 << 30, 0.25


READ_ONCE = (
    "the table had no rows when it was opened again: it is read several times, and what is read "
    "once is passed as an iterator, or as a path, a data frame or a list of blocks"
)


def _lasting(source: TableSource) -> bool:
    """Whether a source has its rows as long as nobody takes them away."""
    if isinstance(source, (list, tuple)):
        return all(map(_lasting, source))
    return isinstance(source, (str, os.PathLike, Mapping, np.ndarray))


class CachedSource:
    """A source whose rows are decoded once, as far as they fit. SECRET, and gone with this object.

    The first pass that reads every row to its end leaves the decoded blocks here; passes after it
    are given these, and decode again the chunks of files that did not fit. Of a query all fits, or
    it is run again. Of a table in memory codes of texts are kept alone: its numbers are not copied.
    Rows of units are kept as they were brought together, if all fit. At most `cache_bytes` are
    kept, by default a gigabyte, or a quarter of the memory if that is less.
    """

    def __init__(self, source: TableSource, cache_bytes: int | None = None) -> None:
        self.source = source
        self._room = min(CACHE_BYTES, int(SHARE * memory())) if cache_bytes is None else cache_bytes
        self._asked: Any = None  # for what, in its order
        self._record: Record | None = None
        self._open_again: Callable[[], Table] | None = None
        self._of_units: tuple[Any, Record] | None = None

    def of_units(self, key: Any) -> Table | None:
        """What was kept of rows by unit, as a layout with such a key has them."""
        kept = self._of_units
        return kept[1].replay() if kept is not None and kept[1].whole and kept[0] == key else None

    def keep_units(self, key: Any, table: Table) -> Table:
        """Keep rows by unit, as they are read, where they fit beside what is kept."""
        record = Record(table, self._room if self._record is None else self._record.room)
        self._of_units = key, record
        return replace(table, chunks=record.chunks())

    def check_again(self, n_read: int) -> None:
        """Refuse a source that gave so many rows, and gives none when it is opened again.

        That costs a block of it. What is certain to have its rows still is not opened, and that a
        table had none from the start may be private.
        """
        certain = not n_read or (self._record is not None and self._record.whole)
        if certain or self._open_again is None or _lasting(self.source):
            return
        try:
            table = self._open_again()
        except ValueError:  # it yields no block
            raise ValueError(READ_ONCE) from None
        with closing(table.chunks):
            if not any(n_rows_of(block) for chunk in table.chunks for block in chunk.read()):
                raise ValueError(READ_ONCE)

    def open(
        self, opener: Callable[..., Table], select: Selection = None, by_position: bool = True
    ) -> Table:
        """Open the source, or what was kept of it."""
        self._open_again = partial(self.open, opener, select, by_position)
        asked = list(select.items()) if isinstance(select, Mapping) else select
        record = self._record
        if record is not None and self._asked == asked and record.whole:
            return record.replay()
        table = opener(self.source, select, by_position)
        coders = (
            [
                (place, LevelCoder(name, wanted))
                for place, (name, wanted) in enumerate(select.items())
                if isinstance(wanted, Factor) and wanted.text
            ]
            if isinstance(select, Mapping) and table.kind == "ranges"
            else []
        )
        if coders:
            chunks = (replace(one, read=partial(_coded, coders, one)) for one in table.chunks)
            table = replace(table, chunks=chunks)
        elif table.kind != "decoded":
            return table
        if record is not None and record.too_large:
            return table
        self._asked, self._record = asked, Record(table, self._room)
        return replace(table, chunks=self._record.chunks())


class Record:
    """The chunks of one pass, as the next is to read them."""

    def __init__(self, table: Table, room: int) -> None:
        self.table = table
        #: Whether something did not fit that cannot be decoded alone.
        self.too_large = False
        self.room = room
        self._number: int | None = None  # of chunks, once all were handed out
        self._chunks: dict[int, Chunk] = {}
        self._lock = threading.Lock()

    @property
    def whole(self) -> bool:
        """Whether every chunk was read to its end."""
        return self._number == len(self._chunks) and not self.too_large

    def chunks(self) -> Generator[Chunk]:
        """Chunks of the pass, whose blocks are kept as they are read."""
        number = 0
        try:
            for number, chunk in enumerate(self.table.chunks, 1):
                yield replace(chunk, read=partial(self._read, chunk, number))
            self._number = number
        finally:
            self.table.chunks.close()

    def replay(self) -> Table:
        """The table, from memory as far as it fits."""
        return replace(self.table, chunks=(chunk for _, chunk in sorted(self._chunks.items())))

    def _read(self, chunk: Chunk, number: int) -> Iterator[RawBlock]:
        blocks: list[RawBlock] = []
        fits, taken = not self.too_large, 0
        for block in chunk.read():
            size = _size(block, self.table.kind == "ranges")
            if fits and (fits := self._take(size)):
                taken += size
                blocks.append(block)
            elif blocks:
                self._take(-taken)
                blocks.clear()
            yield block
        with self._lock:
            self.too_large |= not fits and chunk.again is None
            if self.too_large:
                self._chunks.clear()
            elif fits:
                self._chunks[number] = Chunk(partial(iter, blocks))
            else:
                assert chunk.again is not None
                self._chunks[number] = replace(chunk, read=chunk.again)

    def _take(self, size: int) -> bool:
        """Take so many bytes of the room, if there are as many, or give them back."""
        with self._lock:
            if size > self.room:
                return False
            self.room -= size
            return True


def _coded(coders: list[tuple[int, LevelCoder]], chunk: Chunk) -> Iterator[RawBlock]:
    """A chunk whose texts are codes."""
    for block in chunk.read():
        parts = list(block)
        for place, code in coders:
            parts[place] = code(parts[place])
        yield parts


def _size(block: RawBlock, in_memory: bool) -> int:
    """Bytes of a block, with what its codes stand for, and without what is in memory anyway."""
    parts: list[Any] = [block] if isinstance(block, np.ndarray) else list(block)
    if in_memory:
        parts = [part for part in parts if getattr(part, "base", None) is None]
    tables = [part.lut for part in parts if isinstance(part, Codes) and part.lut is not None]
    parts = [part.indices if isinstance(part, Codes) else part for part in parts]
    return sum(part.nbytes for part in parts + tables)


_USUAL = "pass an array of two dimensions or a data frame"


def open_array(source: TableSource, select: Selection = None, by_position: bool = True) -> Table:
    """Read a two-dimensional array, in ranges of rows and without a copy."""
    kind = getattr(source, "dtype", None)
    if (fields := getattr(kind, "names", None)) is not None:
        return open_mapping({name: source[name] for name in fields}, select)
    if isinstance(select, Mapping):
        if isinstance(source, (list, tuple)):
            return _open_rows(source, select, by_position)
        if isinstance(source, np.ndarray) and source.dtype.kind == "O" and source.ndim == 2:
            names = unnamed(source.shape[1], select, by_position)
            assert names is not None
            return open_mapping(dict(zip(names, source.T, strict=True)), select)
    array = as_matrix(source)
    n_rows, n_columns = array.shape
    names = unnamed(n_columns, select, by_position)
    row_bytes = n_columns * array.dtype.itemsize
    chunks = shared_out(n_rows, row_bytes, lambda rows: iter((array[rows],)))
    return Table(names, n_columns, n_rows, chunks, "ranges")


def _open_rows(rows: Sequence[Any], select: Mapping[str, Any], by_position: bool) -> Table:
    """Read a list of rows, cell by cell; of a row with another number of cells, all are missing."""
    names = unnamed(len(select), select, by_position)
    assert names is not None
    none = (None,) * len(names)
    whole = (
        row if isinstance(row, (list, tuple)) and len(row) == len(names) else none for row in rows
    )
    columns = list(zip(*whole, strict=True)) or [()] * len(names)
    return open_mapping(dict(zip(names, columns, strict=True)), select)


def open_mapping(source: Mapping[str, Any], select: Selection = None) -> Table:
    """Read a mapping of names to one-dimensional arrays, all of one length."""
    names = list(source)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("the keys of a mapping used as a table must be column names")
    taken = [names[i] for i in positions(names, select)]
    lenient = isinstance(select, Mapping)
    columns = [
        as_column(source[name], name, described_kind(select, name), lenient) for name in taken
    ]
    n_rows = columns[0].shape[0] if columns else 0
    for name, column in zip(taken, columns, strict=True):
        if column.shape[0] != n_rows:
            raise ValueError(
                f"columns {taken[0]!r} and {name!r} have {n_rows} and {column.shape[0]} rows"
            )

    return open_parts(taken, columns, n_rows)


def open_parts(names: Sequence[str] | None, columns: Sequence[Any], n_rows: int) -> Table:
    """Read columns in memory, equally long; those that are no arrays are converted by ranges."""

    def read(rows: slice) -> Iterator[RawBlock]:
        yield [column[rows] for column in columns]

    plain = all(isinstance(column, np.ndarray) and column.dtype.kind in "iuf" for column in columns)
    if plain:
        chunks = shared_out(n_rows, 8 * len(columns), read)
    else:
        chunks = chunked(n_rows, rows_per_chunk(8 * len(columns), n_rows), read)
    named = None if names is None else tuple(names)
    return Table(named, len(columns), n_rows, chunks, "ranges")


def as_matrix(source: TableSource) -> NDArray[Any]:
    """Check that an object is a two-dimensional array of real numbers; copy nothing."""
    if isinstance(source, np.ma.MaskedArray):
        raise TypeError("masked arrays are not read; use .filled(np.nan) and missing='drop'")
    try:
        array = np.asarray(source)
    except ValueError as error:  # a ragged list of lists
        raise ValueError("the rows of the block differ in length") from error
    if array.dtype.kind == "O" and array.ndim == 0:
        hint = "pass .toarray(), or blocks of its rows" if hasattr(source, "toarray") else _USUAL
        raise TypeError(f"an object of type {type(source).__name__} is no table; {hint}")
    if array.dtype.kind == "O":
        raise TypeError(
            f"the block holds objects or strings; only real numbers can be used: {LEVELS}"
        )
    if array.dtype.kind not in "buif":
        what = "complex numbers" if array.dtype.kind == "c" else f"values of type {array.dtype}"
        raise TypeError(f"the block holds {what}; only real numbers can be used")
    check_dimensions(array.ndim)
    return array


def check_dimensions(ndim: int) -> None:
    """Refuse an array that is not a table of rows and columns."""
    if ndim == 1:
        raise ValueError(
            "a block has two dimensions, rows and columns, and this array has one; "
            "use x[None, :] for one row or x[:, None] for one column"
        )
    if ndim != 2:
        raise ValueError(f"a block has two dimensions and this array has {ndim}")
