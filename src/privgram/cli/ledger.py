"""``privgram ledger``: make a privacy budget, and show what was spent of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ._options import example, guarantee
from ._output import console, facts, json_option, print_json, table


@click.group(
    "ledger",
    epilog=example(
        "privgram ledger create study.ledger --epsilon 1 --delta 1e-6",
        "privgram release flights.parquet --columns columns.toml \\",
        "    --epsilon 0.5 --delta 1e-7 --out flights.json --ledger study.ledger",
        "privgram ledger show study.ledger",
    ),
)
def command() -> None:
    """Make a privacy budget for a table, and show what was spent of it."""


@command.command(
    "create", epilog=example("privgram ledger create study.ledger --epsilon 1 --delta 1e-6")
)
@click.argument("path", type=click.Path(path_type=Path))
@guarantee
@click.option(
    "--unit",
    help="Whom it protects: the column that tells whose row a row is, '' for single rows. By"
    " default the first release says it.",
)
@click.option(
    "--composition",
    type=click.Choice(["pld", "basic"]),
    default="pld",
    show_default=True,
    help="How spends add up. pld composes exact privacy losses, for releases planned without a look"
    " at earlier ones. basic adds epsilons and deltas, for any releases.",
)
def create(path: Path, **asked: Any) -> None:
    """Make a ledger at PATH with a total budget. The budget cannot be changed."""
    import privgram as pg

    if path.exists():
        raise click.UsageError(f"{path} exists already")
    pg.Ledger(path, **asked)


@command.command("show", epilog=example("privgram ledger show study.ledger --delta 1e-7"))
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--delta",
    type=click.FloatRange(0, 1, max_open=True),
    help="Also show what is left: the largest epsilon at this delta that one more release of any"
    " mechanism may have. Most mechanisms may have more.",
)
@json_option
def show(path: Path, delta: float | None, as_json: bool) -> None:
    """Show the budget of the ledger at PATH, or of the study there, and every spend."""
    import privgram as pg

    ledger = pg.Study.load(path).ledger if path.suffix == ".toml" else pg.Ledger(path)
    entries = ledger.entries
    spent_epsilon, spent_delta = ledger.spent
    budget = {
        "ledger": str(path),
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
    columns = ("number", "when", "label", "what", "epsilon", "delta", "guarantee", "condition")
    rows = [[getattr(entry, name) for name in columns] for entry in entries]
    if as_json:
        print_json(budget | {"entries": [dict(zip(columns, row, strict=True)) for row in rows]})
        return
    console().print(facts(budget))
    if rows:
        shown = columns[:-1]  # conditions are sentences, below
        words = ("when", "label", "what", "guarantee")
        console().print(table(shown, [row[:-1] for row in rows], words=words))
    for entry in entries:
        if entry.condition is not None:
            console().print(
                f"{entry.number} holds only if {entry.condition}; nothing enforces that."
            )
