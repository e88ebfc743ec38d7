"""``privgram plan`` and ``privgram ledger``: what a budget gives, and what was spent of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import privgram as pg
from privgram._base.files import check_distinct
from privgram._base.numbers import is_number
from privgram.cli._shared import (
    PATH,
    POSITIVE,
    command,
    console,
    example,
    facts,
    file_in,
    guarantee,
    json_option,
    open_release,
    print_json,
    read_columns,
    table,
)


@command(
    "privgram plan --columns 22 --bound 4.7 --epsilon 0.5 --delta 1e-6",
    "privgram plan --columns columns.toml --target cost --epsilon 0.5 --delta 1e-6",
)
@click.option(
    "--columns",
    required=True,
    metavar="NUMBER|FILE|NAMES",
    help="Number of columns, or a TOML or JSON file of bounds, or names separated by commas.",
)
@click.option("--bound", type=float, help="L2 bound of a row. A file of bounds implies one.")
@guarantee
@click.option("--rows", "n_rows", type=POSITIVE, help="Number of rows, if public.")
@click.option(
    "--error",
    type=float,
    default=0.01,
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
    type=PATH,
    help="An earlier RELEASE of such a table: adds the standard error of each coefficient. Needs a"
    " FILE.",
)
@click.option("--plot", type=PATH, help="Save a picture of the noise here.")
@json_option
def plan(
    columns: str,
    bound: float | None,
    targets: tuple[str, ...],
    design: Path | None,
    plot: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare the mechanisms' noise and say which to take. Reads no data.

    What a regression of a study takes: privgram plan study.toml --help
    """
    asked: int | pg.Columns
    if columns.isdecimal():
        asked = int(columns)
    elif is_number(columns):
        raise click.UsageError(f"--columns {columns}: the number of columns is not a whole number")
    else:
        bounds = read_columns(columns)
        asked = bounds if isinstance(bounds, pg.Columns) else len(bounds or ())
    if isinstance(asked, int):
        if bound is None:
            raise click.UsageError("--bound is needed, unless --columns is a file of bounds")
        if targets or design:
            needing = "--target" if targets else "--design"
            raise click.UsageError(f"{needing} needs --columns to be a file of bounds")
    check_distinct(
        {
            "--columns": file_in(columns, ".toml", ".json"),
            "--design": [design] if design else [],
        },
        {"--plot": plot},
    )
    plan = pg.plan(
        asked,
        bound,
        targets=targets or None,
        design=None if design is None else open_release(design),
        **given,
    )
    if plot is not None:
        plan.plot(plot)
    if as_json:
        print_json(plan.to_dict())
        return
    out = console()
    parts: list[object] = [plan.heading]
    if plan.power is not None:
        parts += [table(*plan.power.table(target)) for target in plan.power.targets]
        parts += plan.power.notes
    parts += [table(*plan.table()), *plan.notes]
    if plan.terms:
        parts.append(table(*plan.terms_table()))
    for part in [*parts, *plan.terms_notes]:
        out.print(part, soft_wrap=isinstance(part, str) and not out.is_terminal)


@click.group(
    "ledger",
    epilog=example(
        "privgram ledger create study.ledger --epsilon 1 --delta 1e-6",
        "privgram release flights.parquet --columns columns.toml \\",
        "    --epsilon 0.5 --delta 1e-7 --out flights.json --ledger study.ledger",
        "privgram ledger show study.ledger",
    ),
)
def ledger() -> None:
    """Make a privacy budget for a table, and show what was spent."""


@ledger.command(
    "create", epilog=example("privgram ledger create study.ledger --epsilon 1 --delta 1e-6")
)
@click.argument("path", type=PATH)
@guarantee
@click.option(
    "--unit",
    help="Whom it protects: the column that tells whose row a row is, '' for single rows. By"
    " default the first release says it.",
)
@click.option(
    "--composition",
    type=click.Choice(["gaussian", "pld", "basic"]),
    show_default="gaussian; basic at delta 0",
    help="How spends add up. gaussian: as Gaussian noise, whatever is decided by earlier releases."
    " pld composes exact privacy losses of any mechanisms, for releases planned without a look at"
    " earlier ones. basic adds epsilons and deltas, for any releases.",
)
def create(path: Path, **asked: Any) -> None:
    """Make a ledger at PATH with a total budget. The budget cannot be changed."""
    if path.exists():
        raise click.UsageError(f"{path} exists already")
    pg.Ledger(path, **asked)


@ledger.command("show", epilog=example("privgram ledger show study.ledger --delta 1e-7"))
@click.argument("path", type=PATH)
@click.option(
    "--delta",
    type=click.FloatRange(0, 1, max_open=True),
    help="Also show what is left: the largest epsilon at this delta that one more release by"
    " Gaussian noise may have.",
)
@json_option
def show(path: Path, delta: float | None, as_json: bool) -> None:
    """Show the budget of the ledger at PATH, or of the study there, and every spend."""
    ledger = pg.Study.load(path).ledger if path.suffix == ".toml" else pg.Ledger(path)
    entries = ledger.entries
    spent_epsilon, spent_delta = ledger.spent
    budget = {
        "ledger": str(ledger.path),
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "adjacency": ledger.adjacency,
        "composition": ledger.composition,
        "unit": {None: "not said yet", "": "single rows"}.get(ledger.unit, ledger.unit),
        "spends": len(entries),
        "spent_epsilon": spent_epsilon,
        "spent_delta": spent_delta,
    }
    if delta is not None:
        budget |= {"left_epsilon": ledger.remaining(delta), "left_delta": delta}
    cost = ("epsilon", "delta", "spent")
    columns = ("number", "when", "label", "what", *cost, "proof_status", "condition")
    rows = [[getattr(entry, name) for name in columns] for entry in entries]
    if as_json:
        print_json(budget | {"entries": [dict(zip(columns, row, strict=True)) for row in rows]})
        return
    console().print(facts(budget))
    if rows:
        shown = columns[:-1]  # conditions are sentences, below
        words = ("when", "label", "what", "proof_status")
        console().print(table(shown, [row[:-1] for row in rows], words=words))
    for entry in entries:
        if entry.condition is not None:
            console().print(
                f"{entry.number} holds only if {entry.condition}; nothing enforces that."
            )
