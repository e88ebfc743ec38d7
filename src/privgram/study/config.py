"""What a study is made of, from its arguments or its file: columns, unit, ledger, identity."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privgram._base.installed import extra
from privgram._base.options import options_of
from privgram._base.text import listed, shown
from privgram.columns import Columns, toml_value
from privgram.columns.unit import PrivateBound, Unit
from privgram.columns.variables import from_plain
from privgram.ledger import Ledger
from privgram.sources.files import find_files
from privgram.study.options import StudyColumns, StudyRequest

if TYPE_CHECKING:
    from privgram.columns.unit import Missing
    from privgram.ledger import Composition
    from privgram.privacy import Adjacency
    from privgram.sources.table import TableSource


#: What a table in memory is called.
UNNAMED = "table"


def table_name(table: TableSource) -> str:
    """What a table is called by default: the name of its file or folder, or "table"."""
    if isinstance(table, (list, tuple)) and table and isinstance(table[0], (str, os.PathLike)):
        table = Path(table[0]).absolute().parent
    if not isinstance(table, (str, os.PathLike)):
        return UNNAMED
    path = Path(table).absolute()
    while any(sign in path.name for sign in "*?["):  # of a pattern, its folder
        path = path.parent
    return path.name.partition(".")[0] or UNNAMED


def identity(name: str, columns: Iterable[str], unit: str | None) -> str:
    """Tell one study from another by what is public: names, and never what is in the table.

    Bounds and levels are left out: they may be mended, and the rows that are protected stay.
    """
    names = json.dumps([name, sorted(columns), unit])
    return f"{name} {hashlib.sha256(names.encode()).hexdigest()[:32]}"


#: Linux's folder of files that are in memory alone.
MEMORY = "/dev/shm"


def open_ledger(
    ledger: Ledger | str | os.PathLike[str] | None,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    table: str,
    composition: Composition | None = None,
) -> tuple[Ledger, bool]:
    """The ledger that a study spends from, and whether it outlives this process.

    One that is there must have the same budget, and the table's name by `identity`.
    """
    if isinstance(ledger, Ledger):
        _ = ledger.entries  # the file is there, and lost none: one that is gone is not made anew
        ledger = ledger.path
    elif ledger is not None and not isinstance(ledger, (str, os.PathLike)):
        raise TypeError(f"ledger is a path or a pg.Ledger, not {type(ledger).__name__}")
    if ledger is not None:
        return Ledger(ledger, epsilon, delta, adjacency, composition, table=table), True
    # In memory where the system has such a folder: to wait for a disk is for what outlives this.
    in_memory = "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK | os.X_OK)
    folder = tempfile.mkdtemp(prefix="privgram-", dir=MEMORY if in_memory else None)
    atexit.register(forget, folder, os.getpid())
    # A file all the same: forked children and pickled copies then spend the same budget.
    path = Path(folder) / "this study"  # as messages name it
    return Ledger(path, epsilon, delta, adjacency, composition, table=table), False


def forget(folder: str, owner: int) -> None:
    """Remove a budget at the end of the process that made it, and not of its children."""
    if os.getpid() == owner:
        with suppress(OSError):
            shutil.rmtree(folder)


#: What is said of a table without columns.
DESCRIBE = (
    "describe the columns: what is publicly known of each, such as {'wage': pg.Log(50, 10_000), "
    "'age': (18, 90), 'region': ['north', 'south']}, pg.Columns, or a TOML file that it loads. "
    "`privgram init TABLE` writes such a file from the types, with the bounds left to fill in"
)


def described(
    columns: StudyColumns, weights: str | None = None, missing: Missing | None = None
) -> Columns:
    """The description of a table's columns, or what to make one of, with a column of ones."""
    if columns is None:
        raise ValueError(DESCRIBE)
    if isinstance(columns, (str, os.PathLike)):
        columns = Columns.load(Path(columns))
    if not isinstance(columns, Columns):
        if not isinstance(columns, Mapping):
            raise TypeError(DESCRIBE)
        return Columns(columns, intercept=True, missing=missing, row_weights=weights)
    more = {"missing": missing, "row_weights": weights}
    chosen = {name: value for name, value in more.items() if value is not None}
    return columns.replace(intercept=True, **chosen)


@dataclass(frozen=True, eq=False)
class StudyConfig(StudyRequest):
    """What a file says of a study."""

    table: str | list[str]
    columns: Path | Mapping[str, Any]
    _: KW_ONLY
    ledger: Path
    unit: Unit | None = None


#: What a file may have besides columns, in the order in which an error lists it.
KEYS = (
    *(name for name in options_of(StudyRequest) if name not in ("columns", "progress")),
    "max_rows",
)


def read_study(path: Path) -> StudyConfig:
    """Read a study's file; its paths are relative to its folder."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{shown(path.name)} is not TOML: {error}") from None
    columns = data.pop("columns", None)
    if isinstance(columns, str):
        columns = path.parent / columns
    elif not isinstance(columns, dict) or not columns:
        raise ValueError(
            f"{shown(path.name)} describes no [columns]; `privgram init TABLE` writes a file "
            "to fill in"
        )
    unknown = sorted(set(data) - set(KEYS))
    if unknown:
        raise ValueError(f"{shown(path.name)}: unknown key {unknown[0]!r}; known: {listed(KEYS)}")
    missing = [key for key in ("table", "epsilon", "delta", "ledger") if key not in data]
    if missing:
        raise ValueError(f"{shown(path.name)}: {missing[0]} is missing")
    if isinstance(columns, dict):
        empty = [name for name, description in columns.items() if description in ([], "")]
        if empty:
            raise ValueError(
                f"{shown(path.name)}: fill in what is publicly known of {listed(empty)}, or delete "
                "the line"
            )
        columns = {name: from_plain(description) for name, description in columns.items()}
    table = data.pop("table")
    files = table if isinstance(table, list) else [table]
    if not files or not all(isinstance(one, str) for one in (*files, data["ledger"])):
        raise ValueError(f"{shown(path.name)}: table and ledger are paths, or table a list of some")
    paths = [str(path.parent / one) for one in files]
    unit = _read_unit(path, data.pop("unit", None), data.pop("max_rows", None))
    ledger = path.parent / data.pop("ledger")
    return StudyConfig(
        paths[0] if isinstance(table, str) else paths, columns, ledger=ledger, unit=unit, **data
    )


def _read_unit(path: Path, unit: Any, max_rows: int | None) -> Unit | None:
    """A unit by its column, or by a table of what `Unit` takes, its column as `name`."""
    if unit is None:
        if max_rows is not None:
            raise ValueError(f"{shown(path.name)}: max_rows is of a unit: name its column by unit")
        return None
    if not isinstance(unit, dict):
        return Unit(unit, max_rows)
    try:
        if isinstance(unit.get("bound"), dict):
            unit = unit | {"bound": PrivateBound(**unit["bound"])}
        return Unit(**{"max_rows": max_rows} | unit)
    except TypeError as error:
        raise ValueError(f"{shown(path.name)}: unit: {error}") from None


HEAD = """\
# A study: one table, whom it protects, and one budget. Fill in what is publicly known of each
# column, and delete the lines of those that are not to be released. Bounds come from the form, the
# instrument or the law, and never from the data: a minimum is one person's value.

"""

#: Keys that `template` writes, as they are by default, with a remark; without a value as a comment.
HEAD_KEYS = {
    "table": (None, ""),
    "ledger": (None, "keeps the budget; made by the first command that spends"),
    "epsilon": (1.0, "the budget of all that is ever released of this table"),
    "delta": (1e-6, "far below 1 / rows"),
    "adjacency": ("replace", 'or "add-remove": the number of rows is private too'),
    "unit": (None, "whose rows are protected together; by default each row is a person"),
    "max_rows": (None, "so many rows of one count in full"),
    "missing": (None, 'leave out rows with a missing value, which "replace" takes for errors'),
}
EXAMPLES = {"unit": "person", "max_rows": 8, "missing": "drop"}

#: Longer lines have their remark behind them, wherever that is.
MOST_WIDTH = 40

#: By what a column holds: what is written of it, and what is to be filled in.
KINDS = {
    "number": ("[]", "number: [lower, upper]; {log = [lower, upper]} where it is positive"),
    "bool": ('"bool"', "true and false"),
    "dates": ("[]", 'dates: {dates = ["2000-01-01", "2030-01-01"], unit = "days"}'),
    "text": ("[]", 'text: its levels ["a", "b"], or {levels = ["a", "b"], other = true}'),
}


def template(table: str | list[str], settings: Mapping[str, Any]) -> str:
    """A file to fill in, from settings and the types of a table's columns, nothing else of it.

    The file of columns that `settings` may name takes the place of the types.
    """
    first = Path(table if isinstance(table, str) else table[0])
    values = {"table": table, "ledger": f"{first.stem}.ledger", **settings}
    columns = values.pop("columns", None)
    lines = []
    for key in dict.fromkeys([*HEAD_KEYS, *values]):
        value, remark = HEAD_KEYS.get(key, (None, ""))
        value = values.get(key, value)
        if value is not None:
            lines.append((f"{key} = {toml_value(value)}", remark))
        elif not (key == "missing" and columns) and not (key == "max_rows" and "unit" in values):
            lines.append((f"# {key} = {toml_value(EXAMPLES[key])}", remark))
    if columns is not None:
        return HEAD + _aligned([*lines, (f"columns = {toml_value(columns)}", "describes them")])
    kinds = _kinds(first)
    described = [
        (f"{_key(name)} = {KINDS[kind][0]}", KINDS[kind][1])
        for name, kind in kinds.items()
        if name != settings.get("unit")
    ]
    return f"{HEAD}{_aligned(lines)}\n[columns]\n{_aligned(described)}"


def _aligned(lines: Iterable[tuple[str, str]]) -> str:
    """Lines with their remarks below each other."""
    lines = list(lines)
    width = max(len(line) for line, remark in lines if remark and len(line) < MOST_WIDTH)
    return "".join(f"{line:<{width}}  # {remark}".rstrip(" #") + "\n" for line, remark in lines)


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else toml_value(name)


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

    def kind(dtype: Any) -> str:
        dtype = dtype.value_type if types.is_dictionary(dtype) else dtype
        if types.is_boolean(dtype):
            return "bool"
        if types.is_date(dtype) or types.is_timestamp(dtype):
            return "dates"
        number = types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype)
        return "number" if number else "text"

    return {field.name: kind(field.type) for field in schema}
