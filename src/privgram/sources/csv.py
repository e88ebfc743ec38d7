"""CSV with a header line, cut between records by the caller's thread and parsed by the workers.

A record ends at the end of a line outside quoted cells, which only whoever has read all before it
can tell: from the middle of a file, a cell of many lines looks like many records.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from privgram._base.checks import is_number
from privgram._core.records import scan
from privgram.columns.unit import Identifier
from privgram.columns.variables import Boolean, Dates, Factor, Variable
from privgram.sources.arrow import Wanted, columns_of, require
from privgram.sources.mapped import Stamp, stamp, unchanged
from privgram.sources.table import Block, Chunk, InvalidRow, Selection, Table, described, positions

#: One of what a column holds.
_HELD: dict[type, str] = {Boolean: "true or false", Dates: "date", Factor: "number"}

#: Bytes of text a worker parses at once, or one record.
CHUNK_BYTES = 1 << 22
_LONGEST_RECORD = 1 << 26
_BOM = b"\xef\xbb\xbf"


def open_csv(path: Path, select: Selection = None) -> Table:
    """Read columns of a CSV file whose first record names them.

    The separator is a comma, the text UTF-8. A cell in double quotes may hold commas, ends of
    lines and doubled quotes. Lines end in any of the usual ways. Empty cells, ``NA``,
    ``null`` and their like are missing values; so is an empty line where there is one column,
    and elsewhere it is skipped.
    """
    require("pyarrow.csv", "CSV")
    with path.open("rb") as file:
        found = stamp(file)
        header, start = _header(path, file)
    names = _parse_header(path, header)
    # Whatever follows may name columns, and without a header their names would be data.
    unknown = select is None or not set(select) <= set(names)
    if unknown and any(map(is_number, names)):
        raise ValueError(
            f"{path} has no header: its first line must name the columns"
            + ("" if select else "; if names are numbers, name the columns to take")
        )
    taken = [names[i] for i in positions(names, select)]
    known = {name: described(select, name) for name in taken}
    table = _Csv(path, found, names, known, isinstance(select, Mapping))
    return Table(tuple(taken), len(taken), None, table.chunks(start), decoded=True)


def _header(path: Path, file: IO[bytes]) -> tuple[bytes, int]:
    """Read the first record that is not an empty line, and tell where the next one begins."""
    text, size = b"", 1 << 16
    while True:
        more = file.read(size)
        text += more
        body = text.removeprefix(_BOM).lstrip(b"\r\n")
        if not more and not body:
            raise OSError(f"{path} is empty")
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
    from pyarrow import csv as arrow_csv

    line = header + b"\n"
    try:
        header.decode("utf-8")
        # By the parser of the rows: Python's takes no cell beyond 128 KiB.
        table = arrow_csv.read_csv(
            pa.BufferReader(line),
            arrow_csv.ReadOptions(use_threads=False, block_size=len(line)),
            arrow_csv.ParseOptions(newlines_in_values=True),
        )
    except (UnicodeDecodeError, pa.ArrowInvalid):
        raise OSError(f"{path} is not a CSV file in UTF-8") from None
    names: list[str] = table.column_names
    return names


def _too_long(path: Path) -> ValueError:
    return ValueError(
        f"{path} has a line longer than {_LONGEST_RECORD >> 20} MiB, or a cell whose quotes are "
        "not closed"
    )


def _unended(path: Path) -> ValueError:
    return ValueError(f"{path} ends inside a quoted cell: its quotes are not closed")


@dataclass(frozen=True)
class _Csv:
    path: Path
    found: Stamp
    names: list[str]
    taken: dict[str, Variable | None]
    lenient: bool  # what cannot be read is missing: `Columns` says what becomes of it

    def chunks(self, start: int) -> Generator[Chunk]:
        with self.path.open("rb") as file, unchanged(self.path, file, self.found):
            file.seek(start)
            text, scanned, quoted = b"", 0, False
            # Not beyond its size as it was, or a file that grows would have no end.
            while more := file.read(max(0, min(CHUNK_BYTES, self.found[0] - file.tell()))):
                text += more
                end, scanned, quoted = scan(text, scanned, quoted, final=False)
                if end > 0:
                    yield Chunk(partial(self.read, text[:end]), f"{self.path}")
                    text, scanned = text[end:], scanned - end
                elif len(text) > _LONGEST_RECORD:
                    raise _too_long(self.path)
            if scan(text, scanned, quoted, final=True)[2]:
                raise _unended(self.path)
            if text:
                yield Chunk(partial(self.read, text), f"{self.path}")

    def read(self, text: bytes) -> Iterator[Block]:
        """Parse whole records."""
        import pyarrow as pa

        # Raised outside the handler: Arrow's error quotes cells, and would stay behind ours.
        problem = None
        try:
            try:
                table = self._parse(text, self._types())
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
            yield columns_of(_with_nulls(batch, wanted), wanted)

    def _types(self) -> dict[str, Any]:
        return {name: _type(want) for name, want in self.taken.items()}

    def _leniently(self, text: bytes) -> Any:
        """Parse every record: of one with another number of cells, all are missing."""
        import pyarrow as pa

        malformed: list[int] = []

        def note(row: Any) -> str:
            malformed.append(row.number - 1)
            return "skip"

        # As Latin-1, where every byte is a character: the handler's row is a text.
        table = self._parse(text, dict.fromkeys(self.taken, pa.binary()), note, "latin-1")
        cells = zip(table.columns, self._types().values(), strict=True)
        table = pa.table([_readable(*each) for each in cells], list(self.taken))
        missing = np.zeros(len(table) + len(malformed), bool)
        missing[malformed] = True
        return table.take(pa.array(np.cumsum(~missing) - 1, pa.int64(), mask=missing))

    def _parse(
        self, text: bytes, types: dict[str, Any], note: Any = None, encoding: str = "utf8"
    ) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        return arrow_csv.read_csv(
            pa.BufferReader(text),
            read_options=arrow_csv.ReadOptions(
                use_threads=False,
                block_size=2 * len(text) + 1,  # of UTF-8, for any encoding
                column_names=self.names,
                encoding=encoding,
            ),
            parse_options=arrow_csv.ParseOptions(
                invalid_row_handler=note,
                newlines_in_values=True,
                ignore_empty_lines=len(self.names) > 1,
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(self.taken),
                column_types=types,
            ),
        )


def _readable(column: Any, kind: Any) -> Any:
    """Read cells that were taken for Latin-1, each alone: those that cannot be are missing."""
    import pyarrow as pa

    cells = column.combine_chunks().dictionary_encode()
    texts = [cell.decode().encode("latin-1") for cell in cells.dictionary.to_pylist()]
    found = pa.chunked_array(_converted(texts, kind), kind)
    return found.combine_chunks().take(cells.indices)


def _converted(cells: list[bytes], kind: Any) -> list[Any]:
    """Values of cells in pieces; a cell that cannot be read is a piece of its own."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    text = b"".join(b'"' + cell.replace(b'"', b'""') + b'"\n' for cell in cells)
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(text),
            arrow_csv.ReadOptions(
                use_threads=False, block_size=max(len(text), 1), column_names=["cell"]
            ),
            arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(column_types={"cell": kind}),
        )
    except pa.ArrowInvalid:
        if len(cells) < 2:
            return [pa.nulls(len(cells), kind)]
        half = len(cells) // 2
        return [*_converted(cells[:half], kind), *_converted(cells[half:], kind)]
    pieces: list[Any] = table.column(0).chunks
    return pieces


def _with_nulls(batch: Any, wanted: Wanted) -> Any:
    """Take an empty cell, NA and their like for missing, unless they are a factor's levels."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    columns = list(batch.columns)
    nulls = set(arrow_csv.ConvertOptions().null_values)
    for i, want in enumerate(wanted):
        levels: tuple[Any, ...] = getattr(want, "levels", ())
        if pa.types.is_dictionary(columns[i].type):
            unlisted = nulls - set(levels)
            words = [None if w in unlisted else w for w in columns[i].dictionary.to_pylist()]
            columns[i] = pa.DictionaryArray.from_arrays(
                columns[i].indices, pa.array(words, pa.string())
            )
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _type(wanted: Variable | None) -> Any:
    """Tell what to read a cell as."""
    import pyarrow as pa

    if isinstance(wanted, Identifier):
        return pa.dictionary(pa.int32(), pa.string())
    if isinstance(wanted, Factor):
        return pa.dictionary(pa.int32(), pa.string()) if wanted.text else pa.float64()
    if isinstance(wanted, Dates):
        return pa.timestamp("us")
    return pa.bool_() if isinstance(wanted, Boolean) else pa.float64()


def _explain(message: str, names: list[str], taken: dict[str, Variable | None]) -> InvalidRow:
    """Say where without saying what: Arrow's message quotes the cell or the line."""
    found = re.match(r"CSV parse error: Row #(\d+): Expected ", message)
    if found:
        row = int(found[1]) - 1
        return InvalidRow(row, f"does not have {len(names)} cells, one a column")
    found = re.match(r"In CSV column #(\d+): Row #(\d+): ", message)
    if found:
        column, row = map(int, found.groups())
        held = _HELD.get(type(taken.get(names[column])), "number")
        return InvalidRow(row - 1, f"has no {held} in column {names[column]!r}")
    return InvalidRow(0, "or a later one cannot be parsed")
