"""``privgram release``: from the table of a study to a released matrix."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import privgram as pg
from privgram._base.text import listed
from privgram.cli._shared import (
    STUDY,
    command,
    console,
    contents,
    delta_option,
    facts,
    json_option,
    print_json,
    print_lines,
    read_names,
    spending,
)
from privgram.cli.study import load_study
from privgram.mechanisms._base import NAMES, by_name, hyphenated

if TYPE_CHECKING:
    from privgram.columns.groups import HandleUnknown
    from privgram.mechanisms import Mechanism


@command(
    "privgram release study.toml --epsilon 1 --out wages.json",
    "privgram release study.toml --epsilon 1 --out states.json --by state --groups NY,NJ",
)
@STUDY
@spending
@delta_option
@click.option(
    "--mechanism",
    metavar=f"[{'|'.join(NAMES.values())}]",
    help="Default: the one with the least noise, in adaptive rounds where they pay.",
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A parameter of the --mechanism. May be repeated.",
)
@click.option(
    "--by",
    metavar="NAME",
    help="Column that says the group: a release for each. One of the factors of STUDY, or another"
    " column with --groups.",
)
@click.option(
    "--groups",
    metavar="VALUES|FILE",
    help="With --by: its public values, separated by commas, as a JSON list, or in a .txt file, one"
    " a line. Digits are whole numbers, in a JSON list only without quotes.",
)
@click.option(
    "--unknown",
    type=click.Choice(["drop", "other", "error"]),
    default="drop",
    help="With --groups: what becomes of rows with another value, or with none.",
)
@json_option
def release(
    study: Path,
    epsilon: float | None,
    delta: float | None,
    label: str,
    out: Path | None,
    force: bool,
    mechanism: str | None,
    settings: tuple[str, ...],
    by: str | None,
    groups: str | None,
    unknown: HandleUnknown,
    as_json: bool,
) -> None:
    """Release the second-moment matrix of STUDY's table: any number of regressions, at one price.

    Its columns, their bounds, the unit and the budget are what the file says. The result does not
    depend on the order of rows or on the number of threads. With --by, one file has a release for
    every group, and the guarantee is of all of them together.
    """
    if out is None:
        raise click.UsageError("--out is needed: a release that nobody has is paid for in vain")
    if groups is not None and by is None:
        raise click.UsageError("--groups goes with --by, the column that has these values")
    if mechanism is None and settings:
        raise click.UsageError(f"--set {settings[0]}: say of which --mechanism")
    file = [Path(groups)] if groups is not None and groups.endswith(".txt") else []
    taken = None if mechanism is None else make(mechanism, settings)
    table = load_study(study, out, force, {"--groups": file})
    release: Any = table.release(
        epsilon,
        delta=delta,
        label=label,
        out=out,
        mechanism=taken,
        by=by if by is None or groups is None else pg.Groups(by, _read_groups(groups), unknown),
    )
    report: dict[str, object] = {"release": str(out)}
    if by is not None:
        report |= {"by": by, "groups": len(release)}
        release = release.shared
    unit = release.privacy_unit
    size = {"rows": release.n_rows} if unit is None else {"units": release.n_units}
    whose = {} if unit is None else {"unit": unit.name}
    report |= {"columns": list(release.names)} | whose | size | contents(release)
    left = table.remaining()
    if as_json:
        print_json(report | {"remaining": left})
        return
    lines = report | {"columns": listed(release.names)}
    lines |= {f"  {name}": value for name, value in release.parameters.items()}
    del lines["parameters"]
    console().print(facts(lines))
    print_lines(f"epsilon={release.epsilon:g}; {left:.4g} are left")


def _read_groups(text: str) -> list[str] | list[int]:
    if text.lstrip().startswith("["):
        try:
            levels: list[Any] = json.loads(text)
        except ValueError:
            raise click.UsageError("--groups: this is not a JSON list") from None
        return levels
    if text.endswith(".txt"):
        names = Path(text).read_text(encoding="utf-8").splitlines()
    else:
        names = read_names("--groups", text)
    if all(re.fullmatch(r"0|-?[1-9]\d*", name) for name in names):
        return [int(name) for name in names]
    return names


def make(name: str, settings: tuple[str, ...]) -> Mechanism:
    """Make a mechanism from its name and ``name=value`` settings."""
    values: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--set {setting}: write NAME=VALUE")
        values[key.strip().replace("-", "_")] = _value(value.strip())
    try:
        return by_name(name, values)
    except TypeError:
        raise click.UsageError(
            f"--set {' '.join(settings)}: not a value for {hyphenated(name)}"
        ) from None


def _value(text: str) -> object:
    # Numbers, true/false and none as such; anything else is a word.
    try:
        return ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(text, text))
    except (ValueError, SyntaxError):
        return text
