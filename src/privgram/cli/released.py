"""Commands on a release or a fit: ``privgram info``, ``verify`` and ``page``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

import privgram as pg
from privgram._base.files import check_distinct
from privgram._base.text import shown
from privgram.cli._shared import (
    PATH,
    command,
    contents,
    count,
    json_option,
    open_release,
    print_facts,
    print_json,
    print_lines,
)
from privgram.cli._status import Status
from privgram.multivariate.distribution import DistributionResults
from privgram.releases.groups import Releases

if TYPE_CHECKING:
    from privgram.regression import RegressionResults


@command("privgram info flights.json")
@click.argument("file", metavar="RELEASE|FIT", type=PATH)
@json_option
def info(file: Path, as_json: bool) -> None:
    """Show what a RELEASE, or a saved FIT or summary, holds."""
    loaded = open_release(file, fits=True)
    tell = _of_release if isinstance(loaded, pg.Release) else _of_fit
    report = (
        _of_summary(loaded, file) if isinstance(loaded, DistributionResults) else tell(loaded, file)
    )
    if as_json:
        print_json(report)
    else:
        print_facts(report)


def _of_release(release: pg.Release, file: Path) -> dict[str, object]:
    columns, unit = release.columns, release.privacy_unit
    report: dict[str, object] = {
        "release": str(file),
        "columns": list(release.names),
        "variables": {name: variable.describe() for name, variable in release.variables.items()},
        "terms": [] if columns is None else list(columns.terms),
        "weights": {} if columns is None else columns.weights,
    }
    if unit is None:
        report |= {"rows": count(release)}
    else:
        report |= {"unit": unit.to_dict(), "units": release.n_units}
    return report | contents(release)


def _of_fit(fit: RegressionResults, file: Path) -> dict[str, object]:
    """What a fit holds; `privgram regress` prints its numbers."""
    report: dict[str, object] = {"fit": str(file), "target": fit.target}
    report |= {"names": list(fit.param_names), "references": dict(fit.design.references)}
    names = ("family", "unit", "refusal", "epsilon", "delta", "adjacency", "reproducible")
    report |= {name: getattr(fit, name) for name in names if hasattr(fit, name)}
    return report | {"rows": count(fit), "parameters": getattr(fit, "parameters", {})}


def _of_summary(found: DistributionResults, file: Path) -> dict[str, object]:
    """What a summary holds; `privgram summarize` prints its numbers."""
    described = {name: one.describe() for name, one in found.columns.variables.items()}
    report: dict[str, object] = {"summary": str(file), "column": found.column, "by": list(found.by)}
    names = ("epsilon", "delta", "adjacency", "reproducible")
    report |= {"variables": described} | {name: getattr(found, name) for name in names}
    return report | {"rows": count(found), "steps": found.grid.size}


#: At which epsilons `verify` says delta, as parts of that of the file.
VERIFIED_AT = (0.5, 1.0, 2.0)


@command("privgram verify flights.json")
@click.argument("file", metavar="FILE", type=PATH)
@json_option
def verify(file: Path, as_json: bool) -> Status:
    """Check a release or a fit that somebody sent, without the table.

    A FILE that was cut off or damaged is refused: it has a checksum, and no signature. Ask for the
    ledger too, which has all else that was published of the table.
    """
    loaded = open_release(file, groups=True, fits=True)
    one = loaded.shared if isinstance(loaded, Releases) else getattr(loaded, "release", loaded)
    unit, columns = getattr(one, "privacy_unit", None), one.columns
    whose = getattr(one, "unit", None) if unit is None else unit.name
    report: dict[str, object] = {
        "file": str(file),
        "epsilon": one.epsilon,
        "delta": one.delta,
        "other deltas": {
            f"at epsilon {part * one.epsilon:.3g}": one.privacy.delta(part * one.epsilon)
            for part in VERIFIED_AT
        },
        "neighbours differ in": f"one {whose or 'row'}, by {one.adjacency}",
        "proof_status": str(one.proof_status),
        "condition": getattr(one, "condition", None),
        "reproducible": one.reproducible,
        "public bounds": {}
        if columns is None
        else {name: variable.describe() for name, variable in columns.variables.items()},
    }
    if as_json:
        print_json(report)
    else:
        print_facts(report)
    doubts = [
        *(["it was drawn with a seed, and so is NOT PRIVATE"] if one.reproducible else []),
        *(["no proof is known of its guarantee"] if report["proof_status"] == "none" else []),
        *([f"its guarantee holds only if {report['condition']}"] if report["condition"] else []),
    ]
    for doubt in doubts:
        print(f"privgram: {shown(str(file))}: {shown(doubt)}", file=sys.stderr)
    return Status.REFUSED if doubts else Status.ANSWERED


@command("privgram page wages.json -o wages.html")
@click.argument("result", type=PATH)
@click.option(
    "-o",
    "--out",
    type=PATH,
    required=True,
    help="File for the page, .html. An existing one is replaced.",
)
@click.option("--target", metavar="NAME", help="What the page of a release explains at first.")
@click.option("--title", help="Heading of the page.")
def page(result: Path, out: Path, target: str | None, title: str | None) -> None:
    """Make one page of HTML of a RESULT, a release or a regression that was saved.

    Whoever opens the page of a release asks it regressions: no server, and nothing to install.
    """
    if not out.parent.is_dir():
        raise click.UsageError(f"--out {out}: there is no folder {out.parent}")
    check_distinct({"RESULT": [result]}, {"--out": out})
    loaded = pg.load(result)
    if not hasattr(loaded, "to_html"):
        raise click.UsageError(f"{shown(str(result))} holds neither a release nor a regression")
    if isinstance(loaded, pg.Release):
        loaded.to_html(out, target=target, title=title, file=result)
    elif target is not None:
        raise click.UsageError(f"--target {target}: a regression has its own, leave it out")
    else:
        loaded.to_html(out, title=title, file=result)
    print_lines(shown(str(out)))
