"""``privgram release``: from the table of a study to a released matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from privgram._base.text import listed
from privgram.cli._shared import (
    STUDY,
    command,
    console,
    contents,
    delta_option,
    facts,
    json_option,
    left_of,
    print_json,
    print_lines,
    spending,
)
from privgram.cli.study import load_study
from privgram.mechanisms._base import NAMES


@command(
    "privgram release study.toml --epsilon 1 --out wages.json",
    "privgram release study.toml --epsilon 1 --out states.json --by state",
)
@STUDY
@spending
@delta_option
@click.option(
    "--mechanism",
    metavar=f"[{'|'.join(NAMES.values())}]",
    help="Default: the one with the least noise, in adaptive rounds where they pay.",
)
@click.option("--by", metavar="NAME", help="A factor of STUDY: a release for each of its levels.")
@json_option
def release(
    study: Path,
    epsilon: float | None,
    delta: float | None,
    label: str,
    out: Path | None,
    force: bool,
    mechanism: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    """Release the second-moment matrix of STUDY's table: any number of regressions, at one price.

    Its columns, their bounds, the unit and the budget are what the file says. The result does not
    depend on the order of rows or on the number of threads. With --by, one file has a release for
    every group, and the guarantee is of all of them together.
    """
    if out is None:
        raise click.UsageError("--out is needed: a release that nobody has is paid for in vain")
    table = load_study(study, out, force)
    release: Any = table.release(
        epsilon, delta=delta, label=label, out=out, mechanism=mechanism, by=by
    )
    report: dict[str, object] = {"release": str(out)}
    if by is not None:
        report |= {"by": by, "groups": len(release)}
        release = release.shared
    unit = release.privacy_unit
    size = {"rows": release.n_rows} if unit is None else {"units": release.n_units}
    whose = {} if unit is None else {"unit": unit.name}
    report |= {"columns": list(release.names)} | whose | size | contents(release)
    left, said = left_of(table)
    if as_json:
        print_json(report | {"remaining": left})
        return
    lines = report | {"columns": listed(release.names)}
    lines |= {f"  {name}": value for name, value in release.parameters.items()}
    del lines["parameters"]
    console().print(facts(lines))
    print_lines(f"epsilon={release.epsilon:g}; {said}")
