"""``privgram ledger``: a budget, and what was spent of it."""

from __future__ import annotations

from pathlib import Path

import click

import privgram as pg
from privgram.cli._shared import (
    PATH,
    command,
    console,
    facts,
    json_option,
    print_json,
    print_lines,
    table,
)


@command("privgram ledger study.toml", "privgram ledger study.ledger --delta 1e-7")
@click.argument("path", type=PATH)
@click.option(
    "--delta",
    type=click.FloatRange(0, 1, max_open=True),
    help="That of what is left: the largest epsilon that one more answer may have. Default: the"
    " budget's.",
)
@json_option
def ledger(path: Path, delta: float | None, as_json: bool) -> None:
    """Show a budget, every spend, and what is left.

    PATH is of a ledger, or of a study.
    """
    opened = pg.Study.load(path).ledger if path.suffix == ".toml" else pg.Ledger(path)
    entries = opened.entries
    spent_epsilon, spent_delta = opened.spent
    budget = {
        "ledger": str(opened.path),
        "epsilon": opened.epsilon,
        "delta": opened.delta,
        "adjacency": opened.adjacency,
        "composition": opened.composition,
        "unit": {None: "not said yet", "": "single rows"}.get(opened.unit, opened.unit),
        "spends": len(entries),
        "spent_epsilon": spent_epsilon,
        "spent_delta": spent_delta,
        "left_epsilon": opened.remaining(delta),
        "left_delta": opened.delta if delta is None else delta,
    }
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
            print_lines(f"{entry.number} holds only if {entry.condition}; nothing enforces that.")
