"""``python -m bench.audit``: measured privacy loss beside the claimed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from bench import audit
from privgram.cli._shared import console, example, json_option, print_json, table

if TYPE_CHECKING:
    from rich.table import Table

    from bench.audit import Case, Estimate

#: What can be measured alone: mechanisms, and the steps of low-rank approximation.
MECHANISMS = sorted({type(x).__name__ for case in audit.CASES for x in case.mechanisms})


@click.command(
    "audit",
    epilog=example(
        "python -m bench.audit --draws 20000 --mechanism AdditiveWishart",
        "python -m bench.audit --draws 1000000 --processes 8 --json > audit.json",
    ),
)
@click.option(
    "--draws",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Releases of each table.",
)
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    multiple=True,
    help="Measure only this one. May be repeated.",
)
@click.option(
    "--adaptive/--no-adaptive", default=None, help="Only the adaptive variants, or only the others."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--processes", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.999,
    show_default=True,
    help="Confidence that no limit of the whole run is wrong.",
)
@json_option
def command(
    draws: int,
    mechanisms: tuple[str, ...],
    adaptive: bool | None,
    seed: int,
    processes: int,
    confidence: float,
    as_json: bool,
) -> None:
    """Measure what the mechanisms leak, on the tables where they leak most.

    Releases made-up tables by the real code and lets the best possible test tell
    them apart. The delta that it reaches is set beside the profile's. Exits with
    status 1 if more leaks than is claimed. RangeFinder, Projection and FindAndProject are
    the two steps of low-rank approximation and the whole. Two mechanisms joined by a plus
    are two releases of one table, compared with the composition of their profiles.
    """
    cases = [
        case
        for case in audit.CASES
        if (not mechanisms or {type(x).__name__ for x in case.mechanisms} <= set(mechanisms))
        and adaptive in (None, any(getattr(x, "adaptive", False) for x in case.mechanisms))
    ]
    if not cases:
        raise click.UsageError("no case is left: these mechanisms have no adaptive variant")
    total = draws * sum(len(audit.worst_pairs(case)) for case in cases)
    results = []
    with _progress(total) as progress:
        for case in cases:
            rows = audit.measure(
                case,
                draws,
                confidence=1 - (1 - confidence) / len(cases),
                seed=seed,
                processes=processes,
                progress=progress,
            )
            results.append((case, rows))
    if as_json:
        print_json(
            {
                "draws": draws,
                "seed": seed,
                "confidence": confidence,
                "cases": [
                    {
                        "mechanism": case.name,
                        "adjacency": case.adjacency,
                        "epsilon": case.epsilon,
                        "delta": case.delta,
                        "estimates": [asdict(row) | {"violated": row.violated} for row in rows],
                    }
                    for case, rows in results
                ],
            }
        )
    else:
        console().print(_table(results))
    violated = [case for case, rows in results if any(row.violated for row in rows)]
    if violated:
        names = "; ".join(f"{case.name}, {case.adjacency}" for case in violated)
        print(f"audit: more leaks than is claimed: {names}", file=sys.stderr)
        sys.exit(1)


def _table(results: Sequence[tuple[Case, Sequence[Estimate]]]) -> Table:
    """For each epsilon the pair that leaks most."""
    columns = ["mechanism", "adjacency", "P / Q", "epsilon", "claimed", "measured", "limits"]
    return table(
        [*columns, "ratio", "by its law", "ratio"],
        [
            [
                case.name,
                case.adjacency,
                row.pair,
                row.epsilon,
                row.claimed,
                row.measured,
                f"{row.lower:.4f} to {row.upper:.4f}",
                f"{row.measured / row.claimed:.3f}",
                f"{row.by_law:.5f} ± {row.by_law_error:.5f}",
                f"{row.by_law / row.claimed:.3f}",
            ]
            for case, rows in results
            for row in audit.leading(rows)
        ],
    )


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], object]]:
    """Give a function that advances a bar on stderr, where that is a terminal."""
    bar = Progress(
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} draws"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task("", total=total)
        yield lambda draws: bar.advance(task, draws)


if __name__ == "__main__":
    command()
