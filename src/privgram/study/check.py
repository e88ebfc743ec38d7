"""A study in a file, and its table beside its description: what to see before anything is spent."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from privgram._base.installed import extra
from privgram._base.text import Printed, aligned, listed, shown
from privgram.columns.encoding import Codes, codes_of, naming_column
from privgram.columns.unit import Identifier, Unit
from privgram.columns.variables import Boolean, Dates, Factor, Numeric, Variable, from_plain
from privgram.scan.request import check_here, scale_out
from privgram.sources import open_source
from privgram.sources.files import find_files
from privgram.sources.table import Keys, keys_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.columns import Columns

__all__ = ["Check", "CheckRow", "check_table", "count_rows", "read_study", "template"]

#: What a file may have besides its columns, and what `Study` calls it.
KEYS = ("table", "epsilon", "delta", "adjacency", "unit", "max_rows", "ledger")
MORE = ("weights", "missing", "name", "threads", "cache_bytes", "composition")

HEAD = """\
# A study: one table, whom it protects, and one budget. Fill in what is publicly known of each
# column, and delete the lines of those that are not to be released. Bounds come from the form, the
# instrument or the law, and never from the data: a minimum is one person's value.

table = {table}
ledger = {ledger}        # keeps the budget; made by the first command that spends
epsilon = 1.0            # the budget of all that is ever released of this table
delta = 1e-6             # far below 1 / rows
adjacency = "replace"    # or "add-remove": the number of rows is private too
# unit = "person"        # whose rows are protected together; by default each row is a person
# max_rows = 8      # so many rows of one count in full
# missing = "drop"       # leave out rows with a missing value, which "replace" takes for errors

[columns]
"""

#: By what a column holds: what is written of it, and what is to be filled in.
KINDS = {
    "number": ("[]", "number: [lower, upper]; {log = [lower, upper]} where it is positive"),
    "bool": ('"bool"', "true and false"),
    "dates": ("[]", 'dates: {dates = ["2000-01-01", "2030-01-01"], unit = "days"}'),
    "text": ("[]", 'text: its levels ["a", "b"], or {levels = ["a", "b"], other = true}'),
}


def read_study(path: Path) -> tuple[Any, dict[str, Any]]:
    """Read a study's file: the table's paths, relative to its folder, and what `Study` takes."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{shown(path.name)} is not TOML: {error}") from None
    columns = data.pop("columns", None)
    if not isinstance(columns, dict) or not columns:
        raise ValueError(
            f"{shown(path.name)} describes no [columns]; `privgram init TABLE` writes a file "
            "to fill in"
        )
    unknown = sorted(set(data) - {*KEYS, *MORE})
    if unknown:
        raise ValueError(
            f"{shown(path.name)}: unknown key {unknown[0]!r}; known: {listed([*KEYS, *MORE])}"
        )
    missing = [key for key in ("table", "epsilon", "delta", "ledger") if key not in data]
    if missing:
        raise ValueError(f"{shown(path.name)}: {missing[0]} is missing")
    empty = [name for name, given in columns.items() if given in ([], "")]
    if empty:
        raise ValueError(
            f"{shown(path.name)}: fill in what is publicly known of {listed(empty)}, or delete the "
            "line"
        )
    columns = {name: from_plain(given) for name, given in columns.items()}
    table = data.pop("table")
    paths = [str(path.parent / one) for one in ([table] if isinstance(table, str) else table)]
    data["ledger"] = path.parent / data["ledger"]
    rows = data.pop("max_rows", None)
    if "unit" in data:
        data["unit"] = Unit(data["unit"], max_rows=rows)
    elif rows is not None:
        raise ValueError(f"{shown(path.name)}: max_rows is of a unit: name its column by unit")
    return paths[0] if isinstance(table, str) else paths, {"columns": columns} | data


def template(table: str) -> str:
    """A file to fill in, from the types of a table's columns and nothing else of it."""
    kinds = _kinds(Path(table))
    text = HEAD.format(table=json.dumps(table), ledger=json.dumps(Path(table).stem + ".ledger"))
    lines = [(f"{_key(name)} = {KINDS[kind][0]}", KINDS[kind][1]) for name, kind in kinds.items()]
    width = max(len(line) for line, _ in lines)
    return text + "".join(f"{line:<{width}}  # {comment}\n" for line, comment in lines)


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else json.dumps(name)


def _kinds(path: Path) -> dict[str, str]:
    """What columns hold, by their types."""
    first = find_files(path)[0]
    with extra("arrow", "the types of a file's columns need"):
        import pyarrow.csv
        import pyarrow.parquet
        from pyarrow import types
    if first.suffix.lower() == ".parquet":
        schema = pyarrow.parquet.read_schema(first)
    elif first.suffix.lower() == ".csv":
        with pyarrow.csv.open_csv(first) as reader:
            schema = reader.schema
    else:
        raise ValueError(f"{shown(path.name)} has no names of columns: write the file by hand")

    def kind(of: Any) -> str:
        of = of.value_type if types.is_dictionary(of) else of
        if types.is_boolean(of):
            return "bool"
        if types.is_date(of) or types.is_timestamp(of):
            return "dates"
        number = types.is_integer(of) or types.is_floating(of) or types.is_decimal(of)
        return "number" if number else "text"

    return {field.name: kind(field.type) for field in schema}


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
            found = np.quantile(counts, QUANTILES, method="higher").tolist()
            self.rows_per_unit = dict(zip(("median", "95 %", "most"), map(int, found), strict=True))
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
            told = ", ".join(f"{value:,} {what}" for what, value in self.rows_per_unit.items())
            lines += ["", f"{self.n_units:,} units; rows of one: {told}"]
        lines += ["", *(self.problems or ("No problems were found.",))]
        return "\n".join(lines)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a check is NOT PRIVATE and cannot be saved, copied or sent: print it")


def check_table(table: Any, columns: Columns, unit: Unit | None, name: str) -> Check:
    """Read a table once and count what its description does not say; see `Study.check`."""
    check_here(table, "check reads")
    reads = {key: _open(given) for key, given in columns.reads.items()}
    seen = {key: _Seen(given, reads[key]) for key, given in columns.reads.items()}
    apart = None if unit is None else unit.values  # the units of an array are no column of it
    whose = {} if unit is None or apart is not None else {unit.name: Identifier()}
    selection: Mapping[str, Variable] = reads | whose
    units: list[NDArray[Any]] = []
    n_rows = 0
    for block in blocks_of(table, selection):
        for (key, one), part in zip(seen.items(), block, strict=False):
            one.take(key, part)
        n_rows += len(block[0])
        units += [_ids(block[len(seen)], name) for name in whose]
    if unit is not None and apart is not None:
        units.append(_ids(apart, unit.name))
    counts = None
    if units:
        counts = np.unique(np.concatenate(units), return_counts=True)[1].astype(np.int64)
    rows = tuple(one.row(key) for key, one in seen.items())
    return Check(name, n_rows, rows, counts, unit, columns.missing == "drop")


def _ids(column: Any, name: str) -> NDArray[Any]:
    """Ids of units, without missing ones: SECRET."""
    found = column if isinstance(column, Keys) else naming_column(keys_of, name)(column)
    return found.values if found.missing is None else found.values[~found.missing]


def count_rows(table: Any, columns: Columns) -> int:
    """Count the rows of a table, where their number is public."""
    if scale_out(table) is not None or isinstance(table, Iterator):
        raise ValueError("count the rows of this table yourself, and say n_rows=...")
    opened = open_source(table, columns.reads)
    opened.chunks.close()
    if opened.n_rows is not None:
        return opened.n_rows
    return sum(len(block[0]) for block in blocks_of(table, columns.reads))


def _open(given: Variable) -> Variable:
    """A factor that tells a level that is not listed from a missing one."""
    if not isinstance(given, Factor) or given.other or "other" in given.levels:
        return given
    return Factor(given.levels, other=True)


def blocks_of(table: Any, selection: Mapping[str, Variable]) -> Iterator[list[Any]]:
    """Blocks of a table, as the columns of its rows: SECRET."""
    opened = open_source(table, selection)
    try:
        for chunk in opened.chunks:
            for block in chunk.read():
                # Of an array without names, its columns.
                yield block if isinstance(block, list) else list(np.asarray(block).T)
    finally:
        opened.chunks.close()


class _Seen:
    """What was seen of one column: SECRET."""

    def __init__(self, given: Variable, read: Variable) -> None:
        self.given, self.read = given, read
        self.below = self.above = self.missing = self.unknown = 0
        self.levels = np.zeros(len(read) if isinstance(read, Factor) else 0, np.int64)

    def take(self, name: str, part: Any) -> None:
        if isinstance(self.read, Factor):
            codes = (
                part.plain()
                if isinstance(part, Codes)
                else naming_column(codes_of, name)(part, self.read)
            )
            self.missing += int((codes < 0).sum())
            self.levels += np.bincount(codes[codes >= 0], minlength=len(self.levels))
            return
        assert isinstance(self.given, Numeric)
        values = np.asarray(part)
        if isinstance(self.given, (Boolean, Dates)):
            values = naming_column(self.given.raw, name)(values)
            center, half_width = self.given.scaling
            lower, upper = center - half_width, center + half_width
        else:
            lower, upper = self.given.lower, self.given.upper  # type: ignore[attr-defined]
        values = values.astype(np.float64)
        self.missing += int(np.isnan(values).sum())
        self.below += int((values < lower).sum())
        self.above += int((values > upper).sum())

    def row(self, name: str) -> CheckRow:
        empty: tuple[str, ...] = ()
        if isinstance(self.given, Factor):
            own = len(self.given)
            self.unknown = int(self.levels[own:].sum())
            empty = tuple(np.array(self.given.names, object)[self.levels[:own] == 0].tolist())
        counts = self.below, self.above, self.missing, self.unknown
        return CheckRow(name, self.given.describe(), *counts, empty)


def _problems(
    check: Check, counts: NDArray[np.int64] | None, unit: Unit | None, drop: bool
) -> Iterator[str]:
    """What to look at, a sentence or two each."""
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
