"""``python -m bench.paper``: the experiments of papers, run again."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from privgram._base.files import write_atomically
from privgram.cli import run
from privgram.cli._program import OneLine
from privgram.cli._shared import console, example, json_option, print_json, table

FIGURES = tuple(f"fig{i}" for i in range(1, 7))
SWEEPS = ("low-rank", "compression")


@click.command(
    "bench.paper",
    cls=OneLine,
    epilog=example(
        "python -m bench.paper all --scale small",
        "python -m bench.paper fig5 fig6 --scale paper --out runs",
        "python -m bench.paper low-rank",
        "python -m bench.paper uci FOLDER",
    ),
)
@click.argument("what", nargs=-1, required=True, metavar="WHAT... [FOLDER]")
@click.option(
    "--scale",
    type=click.Choice(["small", "paper"]),
    default="small",
    show_default=True,
    help="Of the figures: the paper's own grid, some ten minutes on two cores for all; or a small"
    " one, seconds.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reproduce-out"),
    show_default=True,
    help="Folder for the results. A run that was interrupted continues from it.",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True)
@click.option(
    "--noise-std",
    type=float,
    default=0.5,
    show_default=True,
    help="Standard deviation of the labels' noise: the paper prints N(0, 0.5).",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes; by default one a core.")
@json_option
def command(
    what: tuple[str, ...],
    scale: str,
    out: Path,
    seed: int,
    noise_std: float,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Run the experiments of the second-moment paper, or those on real regression tasks.

    fig1 to fig6, one or more, or all: every run as CSV, a picture, parameters and versions as
    JSON, with the paper's constants and with exact ones; and the paper's statements, checked.
    low-rank and compression: errors of the methods of the other two papers, as CSV, in a minute
    or two. uci: the regression tasks in FOLDER.
    """
    first, *rest = what
    if first == "uci":
        if len(rest) != 1 or not Path(rest[0]).is_dir():
            raise click.UsageError("uci takes one folder: python -m bench.paper uci FOLDER")
        _uci(Path(rest[0]), out, seed, as_json)
        return
    if first in SWEEPS:
        if rest:
            raise click.UsageError(f"{first} is run by itself: python -m bench.paper {first}")
        _sweep(first, out, seed, as_json)
        return
    names = FIGURES if what == ("all",) else what
    for name in names:
        if name not in FIGURES:
            raise click.UsageError(
                f"cannot reproduce {name!r}: name some of {', '.join(FIGURES)}, or one of all, "
                f"{', '.join(SWEEPS)}, uci FOLDER"
            )

    from bench.paper.sheffet import reproduce

    with _progress() as progress:
        report = reproduce(names, out, scale, seed, noise_std, jobs, progress)
    if as_json:
        print_json(
            {
                "files": [str(path) for path in report.files],
                "statements": [
                    {
                        "where": statement.where,
                        "statement": statement.text,
                        "measured": finding and finding.measured,
                        "holds": finding and finding.holds,
                    }
                    for statement, finding in report.statements
                ],
                "seconds": report.seconds,
            }
        )
        return
    rows = []
    for statement, finding in report.statements:
        measured = "needs --scale paper" if finding is None else finding.measured
        holds = None if finding is None else finding.holds
        rows.append([statement.where, statement.text, measured, holds])
    out_ = console()
    heads = ["", "statement", "measured", "holds?"]
    out_.print(table(heads, rows, title="What the paper states", words=heads))
    out_.print(f"{len(report.files)} files in {out}, after {report.seconds:.1f} s.")


def _sweep(what: str, out: Path, seed: int, as_json: bool) -> None:
    from bench.paper import compression, low_rank

    parts: dict[str, Iterable[Any]]
    if what == "low-rank":
        parts = {"low-rank": low_rank.sweep(seed=seed)}
    else:
        parts = {
            "compression": compression.pca_error(seed=seed),
            "compression-signs": compression.signs(seed=seed),
        }
    out.mkdir(parents=True, exist_ok=True)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in parts}
    for name, rows in parts.items():
        for row in rows:
            results[name].append(asdict(row))
            click.echo(f"{name}: {len(results[name])} settings done", err=True)
    for name, found in results.items():
        lines = io.StringIO(newline="")
        writer = csv.DictWriter(lines, found[0].keys())
        writer.writeheader()
        writer.writerows(found)
        write_atomically(out / f"{name}.csv", lines.getvalue().encode())
        if not as_json:
            console().print(table(found[0].keys(), [row.values() for row in found], title=name))
    if as_json:
        print_json(results)


def _uci(folder: Path, out: Path, seed: int, as_json: bool) -> None:
    from bench.paper import uci

    cells = []
    for cell in uci.run(uci.load_folder(folder), seed=seed):
        cells.append(cell)
        click.echo(f"{cell.task}, epsilon = {cell.epsilon:g}", err=True)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "uci.csv", uci.to_csv(cells).encode())
    write_atomically(out / "uci.md", (uci.to_markdown(cells) + "\n").encode())
    if as_json:
        print_json([asdict(cell) for cell in cells])
        return
    click.echo(uci.to_markdown(cells))
    click.echo(uci.summary(cells))


@contextmanager
def _progress() -> Iterator[Callable[[float, float], object]]:
    """Show a bar and the time left on stderr."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=Console(file=sys.stderr),
    )
    task = bar.add_task("")

    with ExitStack() as stack:

        def show(done: float, total: float) -> None:
            if not bar.live.is_started:  # only now: what is refused before has one line alone
                stack.enter_context(bar)
            bar.update(task, completed=done, total=total)

        yield show


if __name__ == "__main__":
    run(command, "python -m bench.paper")
