"""Commands on a study's file, which says the table, its columns, the unit and the budget."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

import privgram as pg
from privgram._base.files import check_distinct, write_atomically
from privgram.cli._shared import (
    PATH,
    POSITIVE,
    STUDY,
    answering,
    command,
    json_option,
    open_release,
    options_from,
    print_json,
    print_lines,
    read_number,
)
from privgram.columns.sql import DIALECTS
from privgram.sources.files import find_files
from privgram.study.config import described, read_study, table_name
from privgram.study.options import StudyRequest


def load_study(
    study: Path,
    out: Path | None = None,
    force: bool = False,
) -> pg.Study:
    """Read the file of a study, whose answer is saved to `out`.

    How far its passes are is shown on a terminal.
    """
    if out is not None:
        _check_out(out, force)
    if study.suffix != ".toml":
        raise click.UsageError(
            f"{study} is no study, which is a .toml file: `privgram init TABLE` writes one"
        )
    config = read_study(study)
    tables = [config.table] if isinstance(config.table, str) else config.table
    columns = [config.columns] if isinstance(config.columns, Path) else []
    check_distinct(
        {"STUDY": [study], "its table": _files_of(tables), "its columns": columns},
        {"its ledger": config.ledger, "--out": out},
    )
    return pg.Study(**vars(config) | {"progress": sys.stderr.isatty()})


def _files_of(tables: list[str]) -> Iterator[Path]:
    for path in map(Path, tables):
        with suppress(FileNotFoundError, ValueError):  # the reader says so
            yield from find_files(path)


def _check_out(out: Path, force: bool) -> None:
    """Refuse a bad destination before the table is read, not after."""
    if out.suffix not in (".json", ".npz"):
        raise click.UsageError(f"--out {out}: it is saved to .json or .npz")
    if not out.parent.is_dir():
        raise click.UsageError(f"--out {out}: there is no folder {out.parent}")
    if out.is_dir():
        raise click.UsageError(f"--out {out} is a folder")
    if out.exists() and not force:
        raise click.UsageError(
            f"--out {out} exists; doing it again spends privacy again, --force replaces it"
        )


@command(
    'privgram plan study.toml "log(wage) ~ education" --target-se education=0.002',
)
@STUDY
@click.argument("formula")
@click.option(
    "--target-se",
    "wanted",
    multiple=True,
    metavar="NAME=ERROR",
    help="A standard error that is wanted. May be repeated.",
)
@click.option("--epsilon", type=float, help="Say what this gives. Default: all that is left.")
@click.option("--rows", "n_rows", type=POSITIVE, help="About how many there are.")
@click.option(
    "--design",
    type=PATH,
    help="An earlier RELEASE of such a table, to plan standard errors by.",
)
@click.option("--by", help="A factor, the regression in each of its levels.")
@answering
@json_option
def plan(
    study: Path,
    formula: str,
    epsilon: float | None,
    delta: float | None,
    n_rows: int | None,
    design: Path | None,
    wanted: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Say what epsilon a precision takes, or what precision an epsilon gives. Spends nothing.

    It is planned by fits of simulated rows.
    """
    earlier = None if design is None else open_release(design)
    known = load_study(study)
    target_se: dict[str, float] = {}
    for text in wanted:
        name, equals, value = text.rpartition("=")
        if not (equals and name):
            raise click.UsageError(f"--target-se {text}: write NAME=ERROR")
        target_se[name] = read_number(f"--target-se {name}", value)
    options |= {"epsilon": epsilon, "delta": delta, "n_rows": n_rows, "design": earlier}
    found = known.plan(formula, target_se or None, **options)
    if as_json:
        print_json(found.to_dict())
    else:
        print_lines(str(found))


@command("privgram sql study.toml --dialect postgres --table people > moment.sql")
@STUDY
@click.option("--dialect", type=click.Choice(list(DIALECTS)), required=True)
@click.option(
    "--table", multiple=True, help="Its name in the warehouse; a schema before it, by repeating."
)
def sql(study: Path, dialect: str, table: tuple[str, ...]) -> None:
    """Write the query of the exact sums of STUDY's table, for an engine where its rows are.

    Its answer is as secret as the table: SecondMoment.from_sql takes it, to be released.
    """
    config = read_study(study)
    columns = described(config.columns, config.weights, config.missing)
    text = columns.sql(table or table_name(config.table), dialect, unit=config.unit)
    click.echo(text.rstrip() + ";")


@command(
    "privgram init wages.parquet",
    "privgram init visits.parquet --columns columns.toml --unit patient --max-rows 15 \\",
    "    --epsilon 1 --delta 1e-6",
    "",
    "with the public bounds in columns.toml:",
    "",
    "intercept = true",
    'missing = "drop"',
    'terms = ["poly(distance, 2)", "origin", "dep_delay", "arr_delay"]  # all by default',
    "[bounds]",
    "distance = [0, 2800]",
    'origin = ["EWR", "JFK", "LGA"]',
    "dep_delay = [-60, 300]",
    "arr_delay = [-60, 300]",
)
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True)
@click.option(
    "-o", "--out", type=PATH, default=Path("study.toml"), help="File of the study, .toml."
)
@options_from(
    StudyRequest, "columns", "ledger", "epsilon", "delta", "adjacency", "composition", "unit",
    "weights", "missing", "threads",
)  # fmt: skip
@click.option("--max-rows", type=POSITIVE, help="No unit of up to so many rows is scaled down.")
def init(
    tables: tuple[str, ...],
    out: Path,
    **settings: Any,
) -> None:
    """Write the file of a study of TABLE by its columns' types, and by what options say.

    TABLE is a .npy, .csv or .parquet file, or a folder or quoted pattern of them; several are one
    table. The bounds and levels are left to fill in: they are never taken from the data.
    """
    from privgram.study.config import template  # SciPy, which no --help waits for

    if out.suffix != ".toml":
        raise click.UsageError(f"--out {out}: a study is a .toml file")
    if out.exists():
        raise click.UsageError(f"{out} exists already")
    columns = settings["columns"]
    if columns is not None and Path(columns).suffix not in (".toml", ".json"):
        raise click.UsageError(
            f"--columns {columns}: columns are described in a .toml or .json file"
        )
    if settings["unit"] is None and settings["max_rows"] is not None:
        raise click.UsageError(
            "--max-rows is of a unit: say by --unit which column tells whose row a row is"
        )
    chosen = {name: value for name, value in settings.items() if value is not None}
    text = template(list(tables) if len(tables) > 1 else tables[0], chosen)
    write_atomically(out, text.encode())
    then = "" if "columns" in chosen else "fill in the bounds, then "
    print_lines(f"{out}: {then}privgram check {out}")


@command("privgram check study.toml")
@STUDY
def check(study: Path) -> None:
    """Show how the table of STUDY differs from its description.

    Counts values that are clamped, missing or unknown. NOT PRIVATE: for the eyes of the table's
    holder. It spends nothing.
    """
    print_lines(str(load_study(study).check()))


@command(
    "privgram stream study.toml january.parquet --path registry.stream \\",
    "    --periods 60 --epsilon 1 --out january.json",
    "privgram stream study.toml february.parquet --path registry.stream \\",
    "    --out february.json",
)
@STUDY
@click.argument("table", type=PATH)
@click.option("--path", type=PATH, required=True, help="The stream's file.")
@click.option("--key", type=PATH, help="Its key. Default: PATH.key.")
@click.option("--periods", type=POSITIVE, help="How many there will be.")
@click.option("--epsilon", type=float, help="Of all periods together; to begin a stream.")
@click.option("--delta", type=float, help="The same. Default: the budget's.")
@click.option("--months", type=POSITIVE, default=1, help="Periods that a person may have rows in.")
@click.option("--apart", type=POSITIVE, default=1, help="Least distance of two of them.")
@click.option("--period", type=POSITIVE, help="Its number. Default: the next.")
@click.option("-o", "--out", type=PATH, required=True, help="File to save to.")
@click.option("--force", is_flag=True, help="Replace an existing --out.")
def stream(
    study: Path, table: Path, period: int | None, out: Path, force: bool, **terms: Any
) -> None:
    """Publish TABLE, the next period of STUDY, with all before it.

    The first call begins the stream, and enters the price of all of it in the study's ledger. The
    release holds the sum of all periods so far.
    """
    it = load_study(study, out, force)
    if terms["epsilon"] is not None and terms["delta"] is None:
        terms["delta"] = it.ledger.delta
    stream = pg.Stream(it, **terms)
    stream.release(table, period, out=out)
    print_lines(f"{out}: all periods up to {stream.periods}; {stream!r}")
