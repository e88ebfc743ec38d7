"""``privgram release``: from a table to a released matrix."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

import privgram as pg
from privgram._base.files import check_distinct
from privgram._base.text import listed
from privgram.cli._shared import (
    PATH,
    POSITIVE,
    Name,
    command,
    console,
    contents,
    facts,
    file_in,
    guarantee,
    json_option,
    print_json,
    read_columns,
    read_names,
    read_number,
)
from privgram.columns.unit import PrivateBound
from privgram.mechanisms._base import by_name, hyphenated, parameters
from privgram.sources.files import find_files

if TYPE_CHECKING:
    from privgram.columns.groups import HandleUnknown
    from privgram.columns.unit import UnitNorm
    from privgram.mechanisms import Mechanism


@command(
    "privgram release flights.parquet --columns columns.toml \\",
    "    --epsilon 1 --delta 1e-6 --out flights.json",
    "privgram release table.npy --bound auto --bound-epsilon 0.1 \\",
    "    --epsilon 1 --delta 1e-6 --out gram.json",
    "privgram release visits.parquet --columns columns.toml --unit patient \\",
    "    --max-rows 15 --epsilon 1 --delta 1e-6 --out gram.json",
    "",
    "with the public bounds in columns.toml:",
    "",
    "intercept = true",
    'missing = "drop"',
    'terms = ["poly(distance, 2)", "origin", "dep_delay", "arr_delay"]  # all by default',
    "[bounds]",
    "distance = [0, 2800]",
    'origin = ["EWR", "JFK", "LGA"]',
    "dep_delay = [-60, 300]",
    "arr_delay = [-60, 300]",
)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--columns",
    metavar="FILE|NAMES",
    help="TOML or JSON file of public bounds or levels for each column, or column names separated"
    " by commas, which need --bound.",
)
@click.option(
    "--bound",
    metavar="NUMBER|auto",
    help="L2 bound of a row. Longer rows are clipped to it. auto chooses it by the table and"
    " costs --bound-epsilon.",
)
@click.option(
    "--bound-epsilon",
    type=float,
    metavar="FLOAT",
    help="With --bound auto: privacy parameter of the choice, spent in addition to --epsilon.",
)
@click.option(
    "--bound-quantile",
    type=float,
    help="With auto: leave about this part of the rows, or units, as it is. Default: 0.95 of the"
    " rows, half of the units.",
)
@click.option(
    "--unit",
    metavar="COLUMN",
    help="Column that tells whose row a row is. All rows of one unit are then protected"
    " together, and the number of units is public instead of that of rows.",
)
@click.option(
    "--unit-bound",
    metavar="NUMBER|auto",
    help="Bound of a unit. Longer units are scaled down to it. auto chooses it by the table"
    " and costs --bound-epsilon.",
)
@click.option(
    "--max-rows",
    type=POSITIVE,
    help="Instead of --unit-bound: no unit of up to so many rows is scaled down.",
)
@click.option(
    "--clip",
    type=click.Choice(["frobenius", "trace"]),
    default="frobenius",
    help="Norm of a unit's matrix. trace also serves matrix-laplace.",
)
@click.option(
    "--fixed-effects", is_flag=True, help="Subtract each unit's means: an effect for each unit."
)
@click.option(
    "--unit-missing",
    type=click.Choice(["error", "drop"]),
    help="What to do about a row without a unit. Default: error, or drop if neighbours are "
    "by add-remove.",
)
@guarantee
@click.option(
    "--mechanism", type=Name(), help="Default: the one that `privgram plan` says to take."
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A parameter of the --mechanism. May be repeated.",
)
@click.option("--threads", type=POSITIVE, help="Default: one for each core.")
@click.option("--out", type=PATH, required=True, help="File for the release, .json or .npz.")
@click.option("--force", is_flag=True, help="Replace an existing release.")
@click.option(
    "--ledger",
    metavar="PATH",
    type=PATH,
    help="Budget to enter the release in. `privgram ledger create` makes one.",
)
@click.option("--by", metavar="NAME", help="Column that says the group: a release for each.")
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
    help="With --by: what becomes of rows with another value, or with none.",
)
@json_option
def release(
    sources: tuple[str, ...],
    columns: str | None,
    bound: str | None,
    bound_epsilon: float | None,
    bound_quantile: float | None,
    unit: str | None,
    unit_bound: str | None,
    max_rows: int | None,
    clip: UnitNorm,
    fixed_effects: bool,
    unit_missing: Literal["error", "drop"] | None,
    mechanism: str | None,
    settings: tuple[str, ...],
    out: Path,
    force: bool,
    ledger: Path | None,
    by: str | None,
    groups: str | None,
    unknown: HandleUnknown,
    as_json: bool,
    **given: Any,
) -> None:
    """Release the second-moment matrix of a table.

    Of a study its file says most of this: privgram release study.toml --help

    SOURCE is a .npy, .csv or .parquet file, or a folder or quoted pattern of
    them. Several are taken as one table. Rows are read once (with --bound auto
    twice, with --mechanism adaptive-gaussian up to six times), and the result does not
    depend on their order or on the number of threads. With --by, one file has a
    release for every group, and the guarantee is of all of them together.
    """
    if (by is None) != (groups is None):
        raise click.UsageError("--by and --groups go together: a column, and its public values")
    check_out(out, force)
    check_distinct(
        {
            "SOURCE": files_of(sources),
            "--columns": file_in(columns, ".toml", ".json"),
            "--groups": file_in(groups, ".txt"),
        },
        {"--ledger": ledger, "--out": out},
    )
    described = read_columns(columns)
    if bound is None and (described is None or isinstance(described, list)) and unit_bound is None:
        raise click.UsageError(
            "--bound is needed, or --columns with a file of public bounds: the largest L2 norm of "
            "a row, known without looking at the data, or auto"
        )
    if unit is not None and unit_bound is None and max_rows is None:
        raise click.UsageError("--unit needs a bound: --max-rows, or --unit-bound")
    if mechanism is None and settings:
        raise click.UsageError(f"--set {settings[0]}: say of which --mechanism")
    auto = None if bound_epsilon is None else PrivateBound(bound_epsilon, bound_quantile)
    if auto is not None and "auto" not in (bound, unit_bound):
        raise click.UsageError("--bound-epsilon needs --bound auto, which spends it")
    row_bound = _read_bound("--bound", bound, auto)
    whole_bound = _read_bound("--unit-bound", unit_bound, auto)
    whose: pg.Unit | None = None
    if unit is not None:
        whose = pg.Unit(unit, max_rows, whole_bound, clip, fixed_effects, unit_missing)
    elif whole_bound is not None or max_rows is not None or fixed_effects:
        raise click.UsageError(
            "--unit-bound, --max-rows and --fixed-effects are of a unit: say by --unit which "
            "column tells whose row a row is"
        )
    groups_of: Any = None
    if by is not None and groups is not None:
        groups_of = pg.Groups(by, _read_groups(groups), unknown)
    release: Any = pg.release(
        list(sources) if len(sources) > 1 else sources[0],
        described,
        mechanism=None if mechanism is None else make(mechanism, settings),
        bound=row_bound,
        unit=whose,
        by=groups_of,
        ledger=None if ledger is None else pg.Ledger(ledger),
        out=out,
        progress=sys.stderr.isatty(),
        **given,
    )

    report: dict[str, Any] = {"release": str(out)}
    if by is not None:
        report |= {"by": by, "groups": len(release)}
        release = release.shared
    report |= {
        "columns": list(release.names),
        **({"rows": release.n_rows} if unit is None else {"unit": unit, "units": release.n_units}),
        **contents(release),
    }
    if as_json:
        print_json(report)
    else:
        shown = dict(report, columns=listed(release.names))
        if bound_epsilon is not None:
            shown["epsilon"] = (
                f"{release.epsilon:g}, of which {bound_epsilon:g} for choosing the bound"
            )
        shown.update({f"  {name}": value for name, value in release.parameters.items()})
        del shown["parameters"]
        console().print(facts(shown))


def _read_bound(
    option: str, text: str | None, auto: PrivateBound | None
) -> float | PrivateBound | None:
    """Read ``--bound`` or ``--unit-bound``; None where it is not given."""
    if text == "auto" and auto is None:
        raise click.UsageError(f"{option} auto spends privacy: say how much by --bound-epsilon")
    return None if text is None else auto if text == "auto" else read_number(option, text, "auto")


def _read_groups(text: str) -> list[str] | list[int]:
    """Read ``--groups``."""
    if text.lstrip().startswith("["):
        try:
            found: list[Any] = json.loads(text)
        except ValueError:
            raise click.UsageError("--groups: this is not a JSON list") from None
        return found
    if files := file_in(text, ".txt"):
        names = files[0].read_text(encoding="utf-8").splitlines()
    else:
        names = read_names("--groups", text)
    if all(re.fullmatch(r"0|-?[1-9]\d*", name) for name in names):
        return [int(name) for name in names]
    return names


def files_of(sources: tuple[str, ...]) -> Iterator[Path]:
    """List what is read, as far as it is there."""
    for source in sources:
        with suppress(FileNotFoundError, ValueError):  # the reader says so
            yield from find_files(Path(source))


def check_out(out: Path, force: bool) -> None:
    """Refuse a bad destination before the table is read, not after."""
    if out.suffix not in (".json", ".npz"):
        raise click.UsageError(f"--out {out}: it is saved to .json or .npz")
    if not out.parent.is_dir():
        raise click.UsageError(f"--out {out}: there is no folder {out.parent}")
    if out.is_dir():
        raise click.UsageError(f"--out {out} is a folder")
    if out.exists() and not force:
        raise click.UsageError(
            f"--out {out} exists; doing it again spends privacy again, --force replaces it"
        )


def make(name: str, settings: tuple[str, ...]) -> Mechanism:
    """Make a mechanism from its name and ``name=value`` settings, or raise UsageError."""
    known, needed = parameters(name)
    values: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or key not in known:
            raise click.UsageError(
                f"--set {setting}: {hyphenated(name)} takes name=value with names "
                f"{', '.join(known) or 'none'}"
            )
        values[key] = _value(value.strip())
    missing = [key for key in needed if key not in values]
    if missing:
        raise click.UsageError(
            f"{hyphenated(name)} needs " + " ".join(f"--set {key}=..." for key in missing)
        )
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
