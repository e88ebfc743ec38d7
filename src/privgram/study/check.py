"""A table beside its description: what its holder may see before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np

from privgram._base.text import Printed, aligned, listed, shown
from privgram.columns.encoding import Codes, codes_of, naming_column
from privgram.columns.unit import Identifier, Unit
from privgram.columns.variables import Boolean, Dates, Factor, Numeric, Variable
from privgram.scan.request import check_here, scale_out
from privgram.sources import open_source
from privgram.sources.table import Keys, TableSource, keys_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.columns import Columns

__all__ = ["Check", "CheckRow", "check_table", "count_rows"]

# Nothing here is private. It is for the eyes of those who may see the table, so it prints, and can
# neither be saved nor pickled.

MARK = "NOT PRIVATE: for the eyes of the table's holder alone. Do not publish, save or send it."

#: More than this part of the values beyond their bounds is worth a word.
MANY = 0.05

#: Of how many rows units have, these quantiles are told.
QUANTILES = (0.5, 0.95, 1.0)


@dataclass(frozen=True, eq=False)
class CheckRow:
    """One column."""

    name: str
    described: str  # what is publicly known of it
    below: int  # values that are clamped to the lower bound
    above: int  # and to the upper one
    missing: int  # null or NaN
    unknown: int  # values that are not among the levels
    empty: tuple[str, ...]  # levels without a row: misspelt, perhaps

    @property
    def clamped(self) -> int:
        """Values that are clamped to a bound."""
        return self.below + self.above


class Check(Printed):
    """What `Study.check` saw: NOT PRIVATE.

    Attributes
    ----------
    table : str
        What it is called.
    n_rows : int
    rows : tuple of CheckRow
        One a column.
    rows_per_unit : dict of str to int, or None
        Median, 95 % quantile and most of the rows of one protected unit; None where rows are
        protected.
    n_units : int or None
        Protected units of the table.
    problems : tuple of str
        What to look at before anything is spent.
    """

    def __init__(
        self,
        table: str,
        n_rows: int,
        rows: tuple[CheckRow, ...],
        counts: NDArray[np.int64] | None,
        unit: Unit | None,
        drop: bool,
    ) -> None:
        self.table, self.n_rows, self.rows = table, n_rows, rows
        self.n_units = None if counts is None else len(counts)
        self.rows_per_unit = None
        if counts is not None and len(counts):
            sizes = np.quantile(counts, QUANTILES, method="higher").tolist()
            self.rows_per_unit = dict(zip(("median", "95 %", "most"), map(int, sizes), strict=True))
        self.problems = tuple(_problems(self, counts, unit, drop))

    def __getitem__(self, name: str) -> CheckRow:
        """What was seen of a column."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def __str__(self) -> str:
        head = ["column", "described", "clamped", "missing", "unknown", "empty levels"]
        cells = [
            [
                shown(row.name),
                row.described,
                f"{row.clamped:,}",
                f"{row.missing:,}",
                f"{row.unknown:,}",
                listed(row.empty) if row.empty else "-",
            ]
            for row in self.rows
        ]
        lines = [MARK, f"{shown(self.table)}: {self.n_rows:,} rows", "", *aligned(head, cells)]
        if self.rows_per_unit is not None:
            sizes = ", ".join(f"{value:,} {what}" for what, value in self.rows_per_unit.items())
            lines += ["", f"{self.n_units:,} units; rows of one: {sizes}"]
        lines += ["", *(self.problems or ("No problems were found.",))]
        return "\n".join(lines)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a check is NOT PRIVATE and cannot be saved, copied or sent: print it")


def check_table(table: TableSource, columns: Columns, unit: Unit | None, title: str) -> Check:
    """Read a table once and count what its description does not say; see `Study.check`."""
    check_here(table, "check reads")
    reads = {name: _open(variable) for name, variable in columns.reads.items()}
    counts = {name: _ColumnCounts(columns.reads[name], reads[name]) for name in reads}
    whose = {} if unit is None else {unit.name: Identifier()}
    selection: Mapping[str, Variable] = reads | whose
    units: list[NDArray[Any]] = []
    n_rows = 0
    for block in blocks_of(table, selection):
        for (name, column), part in zip(counts.items(), block, strict=False):
            column.take(name, part)
        n_rows += len(block[0])
        units += [_ids(block[len(reads)], name) for name in whose]
    sizes = None
    if units:
        sizes = np.unique(np.concatenate(units), return_counts=True)[1].astype(np.int64)
    rows = tuple(column.row(name) for name, column in counts.items())
    return Check(title, n_rows, rows, sizes, unit, columns.missing == "drop")


def _ids(column: NDArray[Any] | Keys, name: str) -> NDArray[Any]:
    """Ids of units, without missing ones: SECRET."""
    keys = column if isinstance(column, Keys) else naming_column(keys_of, name)(column)
    keys = keys if keys.missing is None else keys[~keys.missing]
    kinds = [some.values.astype("S21") for _, some in keys.by_kind()]
    return np.concatenate(kinds) if kinds else np.zeros(0, "S21")


def count_rows(table: TableSource, columns: Columns) -> int:
    """Count the rows of a table without reading them, where their number is public."""
    n_rows = None
    if scale_out(table) is None and not isinstance(table, Iterator):
        opened = open_source(table, columns.reads)
        opened.chunks.close()
        n_rows = opened.n_rows
    if n_rows is None:
        raise ValueError(
            "a plan reads no rows, and this table does not say how many it has: say about how many "
            "there are, n_rows=... (on the command line, --rows)"
        )
    return n_rows


def _open(variable: Variable) -> Variable:
    """A factor that tells a level that is not listed from a missing one."""
    if not isinstance(variable, Factor) or variable.other or "other" in variable.levels:
        return variable
    return Factor(variable.levels, other=True)


def blocks_of(table: TableSource, selection: Mapping[str, Variable]) -> Iterator[list[Any]]:
    """Blocks of a table, as the columns of its rows: SECRET."""
    opened = open_source(table, selection)
    try:
        for chunk in opened.chunks:
            for block in chunk.read():
                # Of an array without names, its columns.
                yield block if isinstance(block, list) else list(np.asarray(block).T)
    finally:
        opened.chunks.close()


class _ColumnCounts:
    """Counts of one column, as it is described and as it is read: SECRET."""

    def __init__(self, described: Variable, read: Variable) -> None:
        self.described, self.read = described, read
        self.below = self.above = self.missing = self.unknown = 0
        self.levels = np.zeros(len(read) if isinstance(read, Factor) else 0, np.int64)

    def take(self, name: str, part: NDArray[Any] | Codes) -> None:
        if isinstance(self.read, Factor):
            codes = (
                part.plain()
                if isinstance(part, Codes)
                else naming_column(codes_of, name)(part, self.read)
            )
            self.missing += int((codes < 0).sum())
            self.levels += np.bincount(codes[codes >= 0], minlength=len(self.levels))
            return
        assert isinstance(self.described, Numeric)
        values = np.asarray(part)
        if isinstance(self.described, (Boolean, Dates)):
            values = naming_column(self.described.raw, name)(values)
            center, half_width = self.described.scaling
            lower, upper = center - half_width, center + half_width
        else:
            lower, upper = self.described.lower, self.described.upper  # type: ignore[attr-defined]
        values = values.astype(np.float64)
        self.missing += int(np.isnan(values).sum())
        self.below += int((values < lower).sum())
        self.above += int((values > upper).sum())

    def row(self, name: str) -> CheckRow:
        empty: tuple[str, ...] = ()
        if isinstance(self.described, Factor):
            size = len(self.described)
            self.unknown = int(self.levels[size:].sum())
            empty = tuple(np.array(self.described.names, object)[self.levels[:size] == 0].tolist())
        counts = self.below, self.above, self.missing, self.unknown
        return CheckRow(name, self.described.describe(), *counts, empty)


def _problems(
    check: Check, counts: NDArray[np.int64] | None, unit: Unit | None, drop: bool
) -> Iterator[str]:
    """Name what to look at, in a sentence or two each."""
    if not check.n_rows:
        yield "The table has no rows."
        return
    for row in check.rows:
        name = shown(row.name)
        if row.empty and row.unknown:
            yield (
                f"{name}: no row has {listed(row.empty)}, and {row.unknown:,} rows have a value "
                "that is not listed. Is a level misspelt?"
            )
        elif row.empty:
            yield f"{name}: no row has {listed(row.empty)}. Is it misspelt, or to be left out?"
        elif row.unknown:
            yield (
                f"{name}: {row.unknown:,} rows have a value that is not listed. They are "
                f"{'left out' if drop else 'refused'}; pg.Factor(levels, other=True) takes them "
                "together."
            )
        if row.clamped > MANY * check.n_rows:
            yield (
                f"{name}: {row.below:,} values below and {row.above:,} above the bounds are "
                "clamped. Are the bounds in another unit? Set them by what is public, not by this."
            )
        if row.missing == check.n_rows:
            yield f"{name}: every value is missing."
        elif row.missing and not drop:
            yield (
                f"{name}: no value in {row.missing:,} of {check.n_rows:,} rows, and an answer that "
                'needs one refuses the table. missing="drop" leaves such rows out.'
            )
    if counts is not None and unit is not None and unit.max_rows is not None:
        over = int((counts > unit.max_rows).sum())
        if over:
            yield (
                f"{over:,} of {len(counts):,} {shown(unit.name)} have more than the "
                f"{unit.max_rows} rows that one counts for in full: they count for less."
            )
