"""CSV with a header line, split at newlines and parsed by the workers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from privgram._checks import is_number
from privgram.sources.arrow import columns_of, require
from privgram.sources.table import Block, Chunk, InvalidRow, Table, positions

#: Bytes of text a worker parses at once.
CHUNK_BYTES = 1 << 22
_LONGEST_LINE = 1 << 26


def open_csv(path: Path, select: Sequence[str] | None = None) -> Table:
    """Read columns of a CSV file whose first line names them.

    The separator is a comma, the text UTF-8. Quoted cells may not contain newlines. Empty
    cells, ``NA``, ``null`` and their like are missing values.
    """
    require("pyarrow.csv", "CSV")
    with path.open("rb") as file:
        header = file.readline(_LONGEST_LINE)
    names = _parse_header(path, header)
    # Whatever follows may name columns, and without a header their names would be data.
    unknown = select is None or not set(select) <= set(names)
    if unknown and any(map(is_number, names)):
        raise ValueError(
            f"{path} has no header: its first line must name the columns"
            + ("" if select else "; if names are numbers, name the columns to take")
        )
    taken = [names[i] for i in positions(names, select)]
    table = _Csv(path, names, taken)
    return Table(tuple(taken), len(taken), None, table.chunks(len(header)))


def _parse_header(path: Path, header: bytes) -> list[str]:
    if not header:
        raise OSError(f"{path} is empty")
    try:
        text = header.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OSError(f"{path} is not a CSV file in UTF-8") from None
    return next(csv.reader(io.StringIO(text)), [])


@dataclass(frozen=True)
class _Csv:
    path: Path
    names: list[str]
    taken: list[str]

    def chunks(self, start: int) -> Generator[Chunk]:
        size = self.path.stat().st_size
        for first in range(start, size, CHUNK_BYTES):
            stop = min(first + CHUNK_BYTES, size)
            yield Chunk(partial(self.read, start, first, stop), f"{self.path}")

    def read(self, start: int, first: int, stop: int) -> Iterator[Block]:
        """Parse the lines that begin in a range of bytes; all lines begin at `start` or later."""
        import pyarrow as pa

        text = self._lines(start, first, stop)
        if not text:
            return
        malformed: list[int] = []
        try:
            table = self._parse(text, malformed)
        except pa.ArrowInvalid as error:
            raise _explain(str(error), malformed, self.names) from None
        for batch in table.to_batches():
            yield columns_of(batch)

    def _lines(self, start: int, first: int, stop: int) -> bytes:
        with self.path.open("rb") as file:
            # A line begins after a newline, maybe the one just before.
            file.seek(first - (first > start))
            text = file.read(stop - file.tell())
            if first > start:
                text = text[text.find(b"\n") + 1 or len(text) :]
            while text and not text.endswith(b"\n"):
                if len(text) - text.rfind(b"\n") > _LONGEST_LINE:
                    raise ValueError(f"{self.path} has a line longer than 64 MiB")
                text += (more := file.readline(_LONGEST_LINE))
                if not more:
                    break
        return text

    def _parse(self, text: bytes, malformed: list[int]) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        def note(row: Any) -> str:
            malformed.append(row.number)
            return "error"

        return arrow_csv.read_csv(
            pa.BufferReader(text),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=max(len(text), 1), column_names=self.names
            ),
            parse_options=arrow_csv.ParseOptions(invalid_row_handler=note),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=self.taken,
                column_types=dict.fromkeys(self.taken, pa.float64()),
            ),
        )


def _explain(message: str, malformed: list[int], names: list[str]) -> InvalidRow:
    """Say where without saying what: Arrow's message quotes the cell or the line."""
    if malformed:
        return InvalidRow(malformed[0] - 1, f"does not have {len(names)} cells, one a column")
    found = re.match(r"In CSV column #(\d+): Row #(\d+): ", message)
    if found:
        column, row = map(int, found.groups())
        return InvalidRow(row - 1, f"has no number in column {names[column]!r}")
    return InvalidRow(0, "or a later one cannot be parsed")
