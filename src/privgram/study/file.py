"""A study in a file: the table, its columns, the unit, the budget and the ledger, in TOML."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from privgram._base.text import listed
from privgram.columns.unit import Unit

__all__ = ["read_study", "template"]

#: What a file may have besides its columns, and what `Study` calls it.
KEYS = ("table", "epsilon", "delta", "adjacency", "unit", "rows_per_unit", "ledger")
MORE = ("weights", "missing", "name", "threads", "composition")

HEAD = """\
# A study: one table, whom it protects, and one budget. Fill in what is publicly known of each
# column, and delete the lines of those that are not to be released. Bounds come from the form, the
# instrument or the law, and never from the data: a minimum is one person's value.

table = {table}
ledger = {ledger}        # keeps the budget; made by the first command that spends
epsilon = 1.0            # the budget of all that is ever released of this table
delta = {delta}          # far below 1 / rows
adjacency = "replace"    # or "add-remove": the number of rows is private too
# unit = "person"        # whose rows are protected together; by default each row is a person
# rows_per_unit = 8      # so many rows of one count in full

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
        raise ValueError(f"{path.name} is not TOML: {error}") from None
    columns = data.pop("columns", None)
    if not isinstance(columns, dict) or not columns:
        raise ValueError(
            f"{path.name} describes no [columns]; `privgram init TABLE` writes a file to fill in"
        )
    unknown = sorted(set(data) - {*KEYS, *MORE})
    if unknown:
        raise ValueError(
            f"{path.name}: unknown key {unknown[0]!r}; known: {listed([*KEYS, *MORE])}"
        )
    missing = [key for key in ("table", "epsilon", "delta", "ledger") if key not in data]
    if missing:
        raise ValueError(f"{path.name}: {missing[0]} is missing")
    empty = [name for name, given in columns.items() if given in ([], "")]
    if empty:
        raise ValueError(
            f"{path.name}: fill in what is publicly known of {listed(empty)}, or delete the line"
        )
    table = data.pop("table")
    paths = [str(path.parent / one) for one in ([table] if isinstance(table, str) else table)]
    data["ledger"] = path.parent / data["ledger"]
    rows = data.pop("rows_per_unit", None)
    if "unit" in data:
        data["unit"] = Unit(data["unit"], rows=rows)
    elif rows is not None:
        raise ValueError(f"{path.name}: rows_per_unit is of a unit: name its column by unit")
    return paths[0] if isinstance(table, str) else paths, {"columns": columns} | data


def template(table: str) -> str:
    """A file to fill in, from the types of a table's columns and nothing else of it."""
    kinds = _kinds(Path(table))
    text = HEAD.format(
        table=json.dumps(table), ledger=json.dumps(Path(table).stem + ".ledger"), delta="1e-6"
    )
    lines = [(f"{_key(name)} = {KINDS[kind][0]}", KINDS[kind][1]) for name, kind in kinds.items()]
    width = max(len(line) for line, _ in lines)
    return text + "".join(f"{line:<{width}}  # {comment}\n" for line, comment in lines)


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else json.dumps(name)


def _kinds(path: Path) -> dict[str, str]:
    """What columns hold, by their types."""
    from privgram._base.optional import extra
    from privgram.sources.files import find

    first = find(path)[0]
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
        raise ValueError(f"{path.name} has no names of columns: write the file by hand")

    def kind(of: Any) -> str:
        of = of.value_type if types.is_dictionary(of) else of
        if types.is_boolean(of):
            return "bool"
        if types.is_date(of) or types.is_timestamp(of):
            return "dates"
        number = types.is_integer(of) or types.is_floating(of) or types.is_decimal(of)
        return "number" if number else "text"

    return {field.name: kind(field.type) for field in schema}
