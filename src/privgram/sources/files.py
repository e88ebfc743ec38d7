"""Files: .npy, CSV and Parquet, one, a folder or a glob of them, read by several threads."""

from __future__ import annotations

import glob
import mmap
import os
import re
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import FileIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from privgram._base.numbers import is_number
from privgram._base.text import shown
from privgram._core.arrow import array_of, scan
from privgram.columns.unit import Identifier
from privgram.columns.variables import Boolean, Dates, Factor, Variable
from privgram.sources.arrow import ColumnReader, Wanted, batch_columns, numpy_columns
from privgram.sources.frames import fields_of, require, resolve_columns
from privgram.sources.table import (
    Chunk,
    InvalidRow,
    RawBlock,
    Selection,
    Table,
    chunked,
    described_kind,
    positions,
    rows_per_chunk,
    unnamed,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow.parquet import FileMetaData, RowGroupMetaData

# A mapped file that another process truncates ends this one by SIGBUS. Linux can promise that
# nobody does: while a lease is held on a file, whoever would write to it waits. So each chunk
# takes a lease, maps, and lets go. Where no lease is to be had (another system, a file of
# somebody else's, a file open for writing) the file is read.

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: Size, time and place of a file.
Stamp: TypeAlias = tuple[int, ...]


def stamp_of(file: IO[bytes]) -> Stamp:
    """Say how an open file is."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino


@contextmanager
def open_checked(path: Path, stamp: Stamp) -> Iterator[tuple[FileIO, bool]]:
    """Open a file, tell whether it may be mapped, and check that it is the one that was found.

    OSError if it has changed, at the beginning or at the end.
    """
    with (
        path.open("rb", buffering=0) as file,
        lease(file) as leased,
        unchanged(path, file, stamp),
    ):
        yield file, leased


@contextmanager
def unchanged(path: Path, file: IO[bytes], stamp: Stamp) -> Iterator[None]:
    """Check at the beginning and at the end that an open file is the one that was found."""
    _check(path, file, stamp)
    yield
    _check(path, file, stamp)


def _check(path: Path, file: IO[bytes], stamp: Stamp) -> None:
    if stamp_of(file) != stamp:
        raise OSError(f"{shown(path)} changed while it was read")


@contextmanager
def lease(file: FileIO) -> Iterator[bool]:
    """Make whoever would change the file wait, if that can be had."""
    if not hasattr(fcntl, "F_SETLEASE"):
        yield False
        return
    try:
        # Linux announces the one who waits by a signal. SIGIO would end the process;
        # SIGURG is ignored. It waits for a chunk, at most for the kernel's 45 seconds.
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)


#: Of a .npy file, bytes a thread takes at once, and bytes it copies at once: few, to stay in the
#: cache, or more where each column is a read of its own.
PIECE_BYTES = 1 << 24
COPY_BYTES = {"C": 1 << 18, "F": 1 << 22}

_HEADERS = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
}


def open_npy(path: Path, select: Selection = None, by_position: bool = True) -> Table:
    """Read a two-dimensional array of real numbers, in C or Fortran order.

    Mapped where that is safe, and elsewhere through a buffer, at 60 to 80 % of the speed.
    """
    array = _Array.find(path)
    names = unnamed(array.n_columns, select, by_position)
    step = max(1, PIECE_BYTES // max(array.n_columns * array.dtype.itemsize, 1))
    return Table(names, array.n_columns, array.n_rows, chunked(array.n_rows, step, array.read))


@dataclass(frozen=True)
class _Array:
    """Where the array is in its file, and how the file was when it was found."""

    path: Path
    n_rows: int
    n_columns: int
    order: Literal["C", "F"]
    dtype: np.dtype[Any]
    offset: int
    stamp: Stamp

    @classmethod
    def find(cls, path: Path) -> _Array:
        with path.open("rb", buffering=0) as file:
            stamp = stamp_of(file)
            if stamp[0] == 0:
                raise OSError(f"{shown(path)} is empty")
            try:
                read_header = _HEADERS[npy_format.read_magic(file)]
                shape, fortran, dtype = read_header(file)
            except (ValueError, KeyError):
                raise OSError(
                    f"{shown(path)} is not a .npy file of numbers, or is damaged"
                ) from None
            offset = file.tell()
        if dtype.names is not None or dtype.kind not in "buif":
            raise TypeError(
                f"{shown(path)} holds values of type {dtype}; only real numbers can be used"
            )
        if len(shape) != 2 or min(shape) < 0:
            raise ValueError(
                f"{shown(path)} holds an array of shape {shape}; it must have two dimensions"
            )
        n_rows, n_columns = shape
        promised, present = n_rows * n_columns * dtype.itemsize, stamp[0] - offset
        if promised > present:
            raise OSError(
                f"{shown(path)} is truncated: its header promises {promised} bytes, and it has "
                f"{present}"
            )
        return cls(path, n_rows, n_columns, "F" if fortran else "C", dtype, offset, stamp)

    def read(self, rows: slice) -> Iterator[RawBlock]:
        """Read a range of rows, and check that the file is the one that was found."""
        with open_checked(self.path, self.stamp) as (file, leased):
            if leased:
                yield self._map(file)[rows]
            else:
                yield from self._copy(file, rows.start, rows.stop)

    def _map(self, file: FileIO) -> NDArray[Any]:
        # All of it: what is not touched costs nothing. The map goes with the last array
        # that refers to it.
        return np.ndarray(
            (self.n_rows, self.n_columns),
            self.dtype,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ),
            self.offset,
            order=self.order,
        )

    def _copy(self, file: FileIO, start: int, stop: int) -> Iterator[RawBlock]:
        step = max(8, COPY_BYTES[self.order] // (self.n_columns * self.dtype.itemsize))
        buffer = np.empty((step, self.n_columns), self.dtype, self.order)
        for first in range(start, stop, step):
            block = buffer[: min(step, stop - first)]
            if self.order == "F":
                for j in range(self.n_columns):
                    self._fill(file, j * self.n_rows + first, block[:, j])
            else:
                self._fill(file, first * self.n_columns, block.reshape(-1))
            yield block

    def _fill(self, file: FileIO, index: int, out: NDArray[Any]) -> None:
        file.seek(self.offset + index * self.dtype.itemsize)
        view = out.view(np.uint8).data
        while view:
            read = file.readinto(view)
            if not read:
                raise OSError(f"{shown(self.path)} became shorter while it was read")
            view = view[read:]


#: One of what a column holds.
_HELD: dict[type, str] = {Boolean: "true or false", Dates: "date", Factor: "number"}

#: Bytes of text a worker parses at once, or one record.
PARSE_BYTES = 1 << 22
_LONGEST_RECORD = 1 << 26
_BOM = b"\xef\xbb\xbf"


def open_csv(path: Path, select: Selection = None) -> Table:
    """Read columns of a CSV file whose first record names them.

    The separator is a comma, the text UTF-8. A cell in double quotes may hold commas, ends of
    lines and doubled quotes. Lines end in any of the usual ways. Empty cells, ``NA``,
    ``null`` and their like are missing values; so is an empty line where there is one column,
    and elsewhere it is skipped.

    The caller's thread cuts it between records, and workers parse them: a record ends at the end of
    a line outside quoted cells, which only whoever has read all before it can tell.
    """
    require("pyarrow.csv", "CSV")
    with path.open("rb") as file:
        stamp = stamp_of(file)
        header, start = _header(path, file)
    names = _parse_header(path, header)
    # Whatever follows may name columns, and without a header their names would be data.
    unknown = select is None or not set(select) <= set(names)
    if unknown and any(map(is_number, names)):
        raise ValueError(
            f"{shown(path)} has no header: its first line must name the columns"
            + ("" if select else "; if names are numbers, name the columns to take")
        )
    taken = [names[i] for i in positions(names, select)]
    known = {name: described_kind(select, name) for name in taken}
    table = _Csv(path, stamp, names, known, isinstance(select, Mapping))
    return Table(tuple(taken), len(taken), None, table.chunks(start), "decoded")


def _header(path: Path, file: IO[bytes]) -> tuple[bytes, int]:
    """Read the first record that is not an empty line, and tell where the next one begins."""
    text, size = b"", 1 << 16
    while True:
        more = file.read(size)
        text += more
        body = text.removeprefix(_BOM).lstrip(b"\r\n")
        if not more and not body:
            raise OSError(f"{shown(path)} is empty")
        end, _, quoted = scan(body, 0, False, not more, first=True)
        if end < 0 and not more:
            if quoted:
                raise _unended(path)
            end = len(body)
        if end >= 0:
            return body[:end], len(text) - len(body) + end
        if len(text) > _LONGEST_RECORD:
            raise _too_long(path)
        size = len(text)


def _parse_header(path: Path, header: bytes) -> list[str]:
    import pyarrow as pa

    try:
        header.decode("utf-8")
        # By the parser of the rows: Python's takes no cell beyond 128 KiB.
        names: list[str] = _parsed(header + b"\n", None, {}).column_names
    except (UnicodeDecodeError, pa.ArrowInvalid):
        raise OSError(f"{shown(path)} is not a CSV file in UTF-8") from None
    return names


def _parsed(
    text: bytes,
    names: list[str] | None,
    types: Mapping[str, pa.DataType],
    note: Callable[[csv.InvalidRow], str] | None = None,
    encoding: str = "utf8",
) -> pa.Table:
    """Columns of whole records, by name; the first record names them where `names` does not."""
    import pyarrow as pa
    from pyarrow import csv

    return csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(
            use_threads=False,
            block_size=2 * len(text) + 1,  # of UTF-8, for any encoding
            column_names=names,
            encoding=encoding,
        ),
        csv.ParseOptions(
            invalid_row_handler=note,
            newlines_in_values=True,
            ignore_empty_lines=names is None or len(names) > 1,
        ),
        csv.ConvertOptions(include_columns=list(types), column_types=types),
    )


def _too_long(path: Path) -> ValueError:
    return ValueError(
        f"{shown(path)} has a line longer than {_LONGEST_RECORD >> 20} MiB, or a cell whose quotes "
        "are not closed"
    )


def _unended(path: Path) -> ValueError:
    return ValueError(f"{shown(path)} ends inside a quoted cell: its quotes are not closed")


@dataclass(frozen=True)
class _Csv:
    path: Path
    stamp: Stamp
    names: list[str]
    taken: dict[str, Variable | None]
    lenient: bool  # what cannot be read is missing: `Columns` says what becomes of it

    def chunks(self, start: int) -> Generator[Chunk]:
        with self.path.open("rb") as file, unchanged(self.path, file, self.stamp):
            file.seek(start)
            text, scanned, quoted = b"", 0, False
            # Not beyond its size as it was, or a file that grows would have no end.
            while more := file.read(max(0, min(PARSE_BYTES, self.stamp[0] - file.tell()))):
                text += more
                end, scanned, quoted = scan(text, scanned, quoted, final=False)
                if end > 0:
                    yield self._chunk(start, text[:end])
                    text, scanned, start = text[end:], scanned - end, start + end
                elif len(text) > _LONGEST_RECORD:
                    raise _too_long(self.path)
            if scan(text, scanned, quoted, final=True)[2]:
                raise _unended(self.path)
            if text:
                yield self._chunk(start, text)

    def _chunk(self, start: int, text: bytes) -> Chunk:
        again = partial(self._again, start, len(text))
        line_of = partial(self._line_of, start, text)
        return Chunk(partial(self.read, text), f"{shown(self.path)}", again=again, line_of=line_of)

    def _line_of(self, start: int, text: bytes, row: int) -> int:
        """The line of the file at which a row of the records from `start` on begins."""
        with self.path.open("rb") as file:
            line, at = 1 + _line_ends(file.read(start)), 0
        while at >= 0:
            end = scan(text, at, False, True, first=True)[0]
            record = text[at:end] if end >= 0 else text[at:]
            if record.strip(b"\r\n") or len(self.names) == 1:  # empty lines are skipped
                row -= 1
            if row < 0:
                break
            line, at = line + _line_ends(record), end
        return line

    def _again(self, start: int, size: int) -> Iterator[RawBlock]:
        with self.path.open("rb") as file, unchanged(self.path, file, self.stamp):
            file.seek(start)
            text = file.read(size)
        yield from self.read(text)

    def read(self, text: bytes) -> Iterator[RawBlock]:
        """Parse whole records."""
        import pyarrow as pa

        # Raised outside the handler: Arrow's error quotes cells, and would stay behind ours.
        problem = None
        try:
            try:
                table = _parsed(text, self.names, self._types())
            except pa.ArrowInvalid:
                if not self.lenient:
                    raise
                table = self._leniently(text)
        except pa.ArrowInvalid as error:
            problem = _explain(str(error), self.names, self.taken)
        if problem is not None:
            raise problem
        wanted = list(self.taken.values())
        for batch in table.to_batches():
            columns = batch_columns(array_of(_with_nulls(batch, wanted)))
            yield numpy_columns(columns, list(map(ColumnReader, wanted)))

    def _types(self) -> dict[str, pa.DataType]:
        return {name: _type(want) for name, want in self.taken.items()}

    def _leniently(self, text: bytes) -> pa.Table:
        """Parse every record: of one with another number of cells, all are missing."""
        import pyarrow as pa

        malformed: list[int] = []

        def note(row: csv.InvalidRow) -> str:
            malformed.append(row.number - 1)
            return "skip"

        # As Latin-1, where every byte is a character: the handler's row is a text.
        types = dict.fromkeys(self.taken, pa.binary())
        table = _parsed(text, self.names, types, note, "latin-1")
        cells = zip(table.columns, self._types().values(), strict=True)
        table = pa.table([_readable(*each) for each in cells], list(self.taken))
        missing = np.zeros(len(table) + len(malformed), bool)
        missing[malformed] = True
        return table.take(pa.array(np.cumsum(~missing) - 1, pa.int64(), mask=missing))


def _line_ends(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def _readable(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Read cells that were taken for Latin-1, each alone: those that cannot be are missing."""
    import pyarrow as pa

    cells = column.combine_chunks().dictionary_encode()
    texts = [cell.decode().encode("latin-1") for cell in cells.dictionary.to_pylist()]
    values = pa.chunked_array(_converted(texts, kind), kind)
    return values.combine_chunks().take(cells.indices)


def _converted(cells: list[bytes], kind: pa.DataType) -> list[pa.Array]:
    """Values of cells in pieces; a cell that cannot be read is a piece of its own."""
    import pyarrow as pa

    text = b"".join(b'"' + cell.replace(b'"', b'""') + b'"\n' for cell in cells)
    try:
        table = _parsed(text, ["cell"], {"cell": kind})
    except pa.ArrowInvalid:
        if len(cells) < 2:
            return [pa.nulls(len(cells), kind)]
        half = len(cells) // 2
        return [*_converted(cells[:half], kind), *_converted(cells[half:], kind)]
    pieces: list[pa.Array] = table.column(0).chunks
    return pieces


def _with_nulls(batch: pa.RecordBatch, wanted: Wanted) -> pa.RecordBatch:
    """Take an empty cell, NA and their like for missing, unless they are a factor's levels."""
    import pyarrow as pa
    from pyarrow import csv

    columns = list(batch.columns)
    nulls = set(csv.ConvertOptions().null_values)
    for i, (column, want) in enumerate(zip(columns, wanted, strict=True)):
        if pa.types.is_dictionary(column.type):
            unknown = nulls - set(getattr(want, "levels", ()))
            words = [None if w in unknown else w for w in column.dictionary.to_pylist()]
            columns[i] = pa.DictionaryArray.from_arrays(
                column.indices, pa.array(words, pa.string())
            )
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _type(wanted: Variable | None) -> pa.DataType:
    import pyarrow as pa

    if isinstance(wanted, Identifier):
        return pa.dictionary(pa.int32(), pa.string())
    if isinstance(wanted, Factor):
        if wanted.text:
            return pa.dictionary(pa.int32(), pa.string())
        exact = all(abs(level) < 2**53 for level in wanted.levels)  # type: ignore[arg-type]
        return pa.float64() if exact else pa.int64()
    if isinstance(wanted, Dates):
        return pa.timestamp("us")
    return pa.bool_() if isinstance(wanted, Boolean) else pa.float64()


def _explain(message: str, names: list[str], taken: dict[str, Variable | None]) -> InvalidRow:
    """Say where without saying what: Arrow's message quotes the cell or the line."""
    match = re.match(r"CSV parse error: Row #(\d+): Expected ", message)
    if match:
        row = int(match[1]) - 1
        return InvalidRow(row, f"does not have {len(names)} cells, one a column")
    match = re.match(r"In CSV column #(\d+): Row #(\d+): ", message)
    if match:
        column, row = map(int, match.groups())
        held = _HELD.get(type(taken.get(names[column])), "number")
        return InvalidRow(row - 1, f"has no {held} in column {names[column]!r}")
    return InvalidRow(0, "or a later one cannot be parsed")


#: Batches of a map that stay resident: a row group may be as large as the file.
RESIDENT = 4


def open_parquet(path: Path, select: Selection = None) -> Table:
    """Read columns of a Parquet file: row groups, decoded by the workers, a batch at a time.

    From a memory map where that is safe: reading would copy the file once more.
    """
    parquet = require("pyarrow.parquet", "Parquet")
    with path.open("rb", buffering=0) as raw:
        stamp = stamp_of(raw)
    if stamp[0] == 0:
        raise OSError(f"{shown(path)} is empty")
    try:
        with parquet.ParquetFile(path) as file:
            metadata, schema = file.metadata, file.schema_arrow
    except _arrow_errors():
        raise _damaged(path) from None
    available = schema.names
    names = [available[i] for i in resolve_columns(fields_of(schema), select)]
    wanted = [described_kind(select, name) for name in names]
    read = partial(_read, path, stamp, metadata, names, wanted)
    chunks = (
        Chunk(partial(read, i), f"{shown(path)}, row group {i}", again=partial(read, i))
        for i in range(metadata.num_row_groups)
    )
    return Table(tuple(names), len(names), metadata.num_rows, chunks, "decoded")


def _read(
    path: Path, stamp: Stamp, metadata: FileMetaData, names: list[str], wanted: Wanted, group: int
) -> Iterator[RawBlock]:
    import pyarrow as pa
    from pyarrow import parquet

    size = rows_per_chunk(8 * len(names), decoded=True)
    with open_checked(path, stamp) as (raw, leased):
        mapped = mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) if leased else None
        source = path if mapped is None else pa.BufferReader(pa.py_buffer(mapped))
        readers = list(map(ColumnReader, wanted))
        dictionaries = _encoded(metadata.row_group(group), names, wanted)
        try:
            with parquet.ParquetFile(
                source,
                metadata=metadata,
                pre_buffer=False,  # not read ahead, and through a buffer, for the same reason
                buffer_size=1 << 16 if mapped is None else 0,
                # Levels as the file has them, by number: no text is made of them row by row.
                read_dictionary=dictionaries,
            ) as file:
                order: list[int] = []  # batches keep the file's
                batches = file.iter_batches(
                    size, row_groups=[group], columns=names, use_threads=False
                )
                for count, batch in enumerate(batches, 1):
                    names_there = batch.schema.names
                    order = order or [names_there.index(name) for name in names]
                    yield numpy_columns(batch_columns(array_of(batch), order), readers)
                    if mapped is not None and count % RESIDENT == 0:
                        mapped.madvise(mmap.MADV_DONTNEED)
        except _arrow_errors():
            raise _damaged(f"{shown(path)}, row group {group}") from None


def _encoded(group: RowGroupMetaData, names: list[str], wanted: Wanted) -> list[str]:
    """Which columns of texts a row group has by their numbers in a dictionary.

    Where one was given up, as of too many texts, Arrow would make it anew and longer with every
    batch. Texts take 4 bytes each for their length alone, and numbers of texts less.
    """
    columns = [group.column(i) for i in range(group.num_columns)]
    small = {x.path_in_schema for x in columns if x.total_uncompressed_size < 4 * x.num_values}
    return [
        name
        for name, want in zip(names, wanted, strict=True)
        if isinstance(want, (Factor, Identifier)) and name in small
    ]


def _arrow_errors() -> tuple[type[BaseException], ...]:
    from pyarrow import ArrowException

    return (ArrowException, OSError)


def _damaged(place: object) -> OSError:
    # The reader's own text may quote the file.
    return OSError(f"{shown(place)} cannot be decoded: it is not Parquet, truncated or damaged")


_SUFFIXES = (".npy", ".csv", ".parquet")


def open_paths(paths: Sequence[Path], select: Selection = None, by_position: bool = True) -> Table:
    """Read files by their suffix, and all files of folders or globs, in the order of their names.

    A folder is read with its sub-folders; files whose name starts with a dot or an
    underscore are left out, as are those of other suffixes. What one path
    stands for must be of one kind.
    """
    files = [file for path in paths for file in find_files(path)]
    check_once(files)
    first = _open_file(files[0], select, by_position)
    if len(files) == 1:
        return first

    def chunks() -> Generator[Chunk]:
        for file in files:
            table = first if file is files[0] else _open_file(file, select, by_position)
            if (table.n_columns, table.names) != (first.n_columns, first.names):
                hint = "; name the columns to take" if first.names else ""
                names = f"{shown(file)} differ from those of {shown(files[0])}"
                raise ValueError(f"the columns of {names}{hint}")
            for chunk in table.chunks:
                yield replace(chunk, place=chunk.place or f"{shown(file)}")

    return Table(first.names, first.n_columns, None, chunks(), first.kind)


def _open_file(path: Path, select: Selection, by_position: bool) -> Table:
    if _kind(path) == ".npy":
        return open_npy(path, select, by_position)
    if _kind(path) == ".csv":
        return open_csv(path, select)
    return open_parquet(path, select)


def _kind(path: Path) -> str:
    return path.suffix.lower()  # some systems shout: TABLE.CSV


def check_once(files: Iterable[Path]) -> None:
    """Refuse a file that is there twice, by any names: its rows would count twice."""
    known: dict[tuple[int, ...], Path] = {}
    for file in files:
        status = file.stat()
        place = status.st_dev, status.st_ino
        other = known.get(place)
        known[place] = file
        if other is not None:
            same = f"{shown(other)} and {shown(file)} are one file"
            same = f"{shown(file)} is given twice" if file == other else same
            raise ValueError(f"{same}: its rows would be counted twice; name each file once")


def find_files(path: Path) -> list[Path]:
    """List the files of a path, a folder or a glob."""
    missing = f"{shown(path)} matches no {', '.join(_SUFFIXES)} file"
    if path.is_dir():
        files = [file for file in path.rglob("*") if not file.name.startswith((".", "_"))]
        files = sorted(file for file in files if _kind(file) in _SUFFIXES and file.is_file())
    elif path.exists():
        files = [path]
    elif glob.has_magic(str(path)):
        files = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    else:
        files, missing = [], f"there is no file {shown(path)}"
    if not files:
        if re.match(r"\s*(?:select|with|from)(?!\S)", str(path), re.IGNORECASE):
            raise ValueError(
                "this is a query and no file: pass what its connection makes of it, such as "
                "duckdb.connect(...).sql('SELECT ...'), which is run for the columns that are "
                "needed, or a data frame of it"
            )
        raise FileNotFoundError(missing)
    kinds = sorted({_kind(file) for file in files})
    if len(kinds) > 1:
        raise ValueError(f"{shown(path)} holds files of several kinds: {', '.join(kinds)}")
    if kinds[0] not in _SUFFIXES:
        raise ValueError(f"{shown(files[0])} is of no known kind: {', '.join(_SUFFIXES)}")
    return files
