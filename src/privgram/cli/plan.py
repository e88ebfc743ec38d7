"""``privgram plan``: noise, sample sizes and standard errors, before any data is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from privgram._base.checks import is_number
from privgram._base.files import check_distinct

from ._options import columns_file, example, guarantee, read_columns, read_release
from ._output import console, json_option, print_json, table


@click.command(
    "plan",
    epilog=example(
        "privgram plan --columns 22 --bound 4.7 --epsilon 0.5 --delta 1e-6",
        "privgram plan --columns columns.toml --target cost --epsilon 0.5 --delta 1e-6",
    ),
)
@click.option(
    "--columns",
    required=True,
    metavar="NUMBER|FILE|NAMES",
    help="Number of columns, or a TOML or JSON file of bounds, or names separated by commas.",
)
@click.option("--bound", type=float, help="L2 bound of a row. A file of bounds implies one.")
@guarantee
@click.option("--rows", "n_rows", type=click.IntRange(min=1), help="Number of rows, if public.")
@click.option(
    "--error",
    type=float,
    default=0.01,
    show_default=True,
    help="Accuracy wanted of a regression's coefficients on unit-scale data.",
)
@click.option(
    "--target",
    "targets",
    metavar="TERM",
    multiple=True,
    help="A term that regressions on the others explain: proposes weights for them. May be"
    " repeated, and needs a FILE.",
)
@click.option(
    "--design",
    type=click.Path(path_type=Path),
    help="An earlier RELEASE of such a table: adds the standard error of each coefficient. Needs a"
    " FILE.",
)
@click.option("--plot", type=click.Path(path_type=Path), help="Save a picture of the noise here.")
@json_option
def command(
    columns: str,
    bound: float | None,
    targets: tuple[str, ...],
    design: Path | None,
    plot: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare the mechanisms' noise and say which to take. Reads no data."""
    import privgram as pg

    asked: int | pg.Columns
    if columns.isdecimal():
        asked = int(columns)
    elif is_number(columns):
        raise click.UsageError(f"--columns {columns}: the number of columns is not a whole number")
    else:
        bounds = read_columns(columns)
        asked = bounds if isinstance(bounds, pg.Columns) else len(columns.split(","))
    if bound is None and isinstance(asked, int):
        raise click.UsageError("--bound is needed, unless --columns is a file of bounds")

    check_distinct(
        {"--columns": columns_file(columns), "--design": [design] if design else []},
        {"--plot": plot},
    )
    if targets and isinstance(asked, int):
        raise click.UsageError("--target needs --columns to be a file of bounds")
    if design is not None and isinstance(asked, int):
        raise click.UsageError("--design needs --columns to be a file of bounds")
    plan = pg.plan(
        asked,
        bound,
        targets=targets or None,
        design=None if design is None else read_release(design),
        **given,
    )
    if plot is not None:
        plan.plot(plot)
    if as_json:
        print_json(plan.to_dict())
        return
    out = console()
    out.print(plan.heading)
    if plan.outlook is not None:
        for target in plan.outlook.targets:
            out.print(table(*plan.outlook.table(target)))
        for note in plan.outlook.notes:
            out.print(note, soft_wrap=not out.is_terminal)
    out.print(table(*plan.table()))
    for note in plan.notes:
        out.print(note, soft_wrap=not out.is_terminal)
    if plan.terms:
        out.print(table(*plan.terms_table()))
    for note in plan.terms_notes:
        out.print(note, soft_wrap=not out.is_terminal)
