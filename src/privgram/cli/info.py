"""``privgram info``: what a release holds."""

from __future__ import annotations

from pathlib import Path

import click

from privgram._base.text import listed

from ._options import example, read_release
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
    release = read_release(path)
    columns = release.columns
    return {
        "release": str(path),
        "columns": list(release.names),
        "variables": {}
        if columns is None
        else {name: given.describe() for name, given in columns.variables.items()},
        "terms": [] if columns is None else list(columns.terms),
        "weights": {} if columns is None else columns.weights,
        "rows": release.n_rows,
        **(
            {}
            if release.privacy_unit is None
            else {"unit": release.privacy_unit.to_dict(), "units": release.n_units}
        ),
        "bound": release.bound,
        "mechanism": str(release.mechanism),
        "epsilon": release.epsilon,
        "delta": release.delta,
        "adjacency": release.adjacency,
        "guarantee": release.guarantee,
        "condition": release.condition,
        "reproducible": release.reproducible,
        "parameters": release.parameters,
    }


def _flat(report: dict[str, object]) -> dict[str, object]:
    result: dict[str, object] = {}
    for name, value in report.items():
        if isinstance(value, dict):
            result.update({name: ""} if value and name != "parameters" else {})
            result.update({f"  {key}": item for key, item in value.items()})
        elif isinstance(value, list):
            result.update({name: listed(value)} if value else {})
        else:
            result[name] = value
    return result
