"""``privgram info``: what a release holds."""

from __future__ import annotations

from pathlib import Path

import click

from ._options import example
from ._output import console, facts, json_option, print_json


@click.command(
    "info",
    epilog=example(
        "privgram info flights.json",
    ),
)
@click.argument("release", type=click.Path(path_type=Path))
@json_option
def command(release: Path, as_json: bool) -> None:
    """Show what a RELEASE holds."""
    report = _contents(release)
    if as_json:
        print_json(report)
    else:
        console().print(facts(_flat(report)))


def _contents(path: Path) -> dict[str, object]:
    import privgram as pg

    release = pg.load_release(path)
    return {
        "release": str(path),
        "columns": list(release.names),
        "rows": release.n_rows,
        "bound": release.bound,
        "mechanism": str(release.mechanism),
        "epsilon": release.epsilon,
        "delta": release.delta,
        "adjacency": release.adjacency,
        "calibration": release.calibration,
        "guarantee": release.guarantee,
        "condition": release.condition,
        "reproducible": release.reproducible,
        "parameters": release.parameters,
    }


def _flat(report: dict[str, object]) -> dict[str, object]:
    result: dict[str, object] = {}
    for name, value in report.items():
        if isinstance(value, dict):
            result.update({f"  {key}": item for key, item in value.items()})
        elif isinstance(value, list):
            result[name] = ", ".join(map(str, value))
        else:
            result[name] = value
    return result
