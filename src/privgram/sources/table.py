"""What every source becomes: a table read in chunks.

A chunk is a piece of work for one thread: opening it decodes, and its blocks come one
at a time, so that memory is bounded by a few blocks whatever the length of the table.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import NDArray

from privgram.columns.encoding import Raw
from privgram.columns.unit import Identifier
from privgram.columns.variables import Boolean, Dates, Factor, Variable

#: A two-dimensional array of real numbers, or one column after another, equally long: of real
#: numbers, dates, levels or codes; last, where it is asked for, the `Keys` of units. It may be
#: overwritten as soon as the next block is asked for.
Block: TypeAlias = NDArray[Any] | list[Raw]

#: Chunks of arrays and files of raw numbers: long enough to hide what a hand-over
#: between threads costs, short enough to share a table evenly.
CHUNK_BYTES = 1 << 22

#: What else a row of a table with factors may hold.
UNLISTED = (
    "holds a missing value, NaN or a level that is not listed; list the level, take the others "
    "together by pg.Factor(levels, other=True), or leave out such rows by "
    "Columns(..., missing='drop'), in a file of bounds by missing = \"drop\""
)

#: What a row of numbers may hold that cannot be used.
NOT_FINITE = (
    "holds a missing value, NaN or infinity; clean the data, or leave out rows with missing "
    "values by Columns(..., missing='drop'), in a file of bounds by missing = \"drop\""
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


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a table; ``place`` says where they came from."""

    read: Callable[[], Iterator[Block]]
    place: str = ""


@dataclass(frozen=True)
class Table:
    """An opened source, good for one pass.

    ``chunks`` is advanced by one thread; the chunks it yields may be read by any. It opens
    the files as it starts and closes them as it ends, or is closed. ``decoded`` says that blocks
    cost a decoding, and that each is in memory of its own, which nobody overwrites.
    """

    names: tuple[str, ...] | None
    n_columns: int
    n_rows: int | None
    chunks: Generator[Chunk]
    decoded: bool = False


def n_rows_of(block: Block) -> int:
    """Count the rows of a block."""
    if isinstance(block, list):
        return len(block[0]) if block else 0
    return int(block.shape[0])


def rows_per_chunk(n_rows: int, row_bytes: int) -> int:
    """Choose a chunk: about `CHUNK_BYTES`, less if the table would not fill 16 of them."""
    even = -(-n_rows // 16)
    return max(256, min(CHUNK_BYTES // max(row_bytes, 1), even))


def positions(available: Sequence[str], select: Iterable[str] | None) -> list[int]:
    """Find the selected columns, all of them by default, among the available ones."""
    if select is None:
        repeated = sorted({name for name in available if list(available).count(name) > 1})
        if repeated:
            raise ValueError(f"the table has several columns named {_listed(repeated)}")
        return list(range(len(available)))
    found = []
    for name in select:
        at = [i for i, other in enumerate(available) if other == name]
        if len(at) > 1:
            raise ValueError(f"the table has several columns named {name!r}")
        if not at:
            near = difflib.get_close_matches(name, available, n=3)
            hint = f"did you mean {_listed(near)}?" if near else f"it has {_listed(available)}"
            raise ValueError(f"the table has no column named {name!r}; {hint}")
        found += at
    return found


def unnamed(n_columns: int, select: Selection, by_position: bool) -> None:
    """Check a selection against a table whose columns have no names."""
    if select is None:
        return
    if not by_position:
        raise ValueError(
            "columns are selected by name, but this table's columns have no names; "
            "pass columns=None and take the columns of the array itself"
        )
    if n_columns != len(select):
        raise ValueError(
            f"Columns has bounds for {len(select)} columns and the table has {n_columns}; "
            "columns without names are taken in the order of the bounds"
        )


#: Columns to take: their names, or what each is publicly known to be.
Selection: TypeAlias = Mapping[str, Variable] | Sequence[str] | None


def described(select: Selection, name: str) -> Variable | None:
    """Tell what a selected column is known to be; None for a number."""
    found = select.get(name) if isinstance(select, Mapping) else None
    return found if isinstance(found, (Boolean, Factor, Dates, Identifier)) else None


def _listed(names: Sequence[str], limit: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")
