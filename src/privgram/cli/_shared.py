"""What commands share: results on standard output, and options and how they are read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import reduce
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import numpy as np
from click.core import ParameterSource
from rich import box
from rich.console import Console
from rich.table import Table

import privgram as pg
from privgram._base.options import Option, options_of
from privgram._base.text import listed, shown, warn
from privgram.cli._status import Status
from privgram.regression.inference import rows_behind
from privgram.releases.groups import Releases
from privgram.study.options import RegressRequest

if TYPE_CHECKING:
    from privgram.regression import RegressionResults
    from privgram.study import Study

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

PATH = click.Path(path_type=Path)
POSITIVE = click.IntRange(min=1)

# Rich takes 80 columns when it cannot ask a terminal; cut numbers help no one.
PIPED_WIDTH = 160


def grouped(*several: Decorator) -> Decorator:
    """Arguments and options as one decorator, in this order."""
    return lambda command: reduce(lambda so_far, option: option(so_far), reversed(several), command)


STUDY = click.argument("study", type=PATH)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")

alpha_option = click.option(
    "--alpha", type=float, default=0.05, help="One less the level of the confidence intervals."
)


def _references(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Read each ``--reference`` as FACTOR=LEVEL."""
    levels = {}
    for text in texts:
        name, equals, level = text.partition("=")
        if not (equals and name and level):
            raise click.UsageError(f"--reference {text}: write FACTOR=LEVEL")
        levels[name] = level
    return levels


def _cuts(_: object, __: object, text: str | None) -> list[float] | int | None:
    """Cuts between commas, or the number of pieces."""
    if text is None:
        return None
    try:
        return int(text) if text.strip().isdecimal() else [float(cut) for cut in text.split(",")]
    except ValueError:
        raise click.BadParameter("ends of pieces between commas, such as 0,90,365") from None


cuts_option = click.option(
    "--cuts",
    metavar="TIMES",
    callback=_cuts,
    help="Of Surv(time, event): ends of pieces of time between commas, or how many there are.",
)

reference_option = click.option(
    "--reference",
    metavar="FACTOR=LEVEL",
    multiple=True,
    callback=_references,
    help="The level of a factor that is left out, its first by default. May be repeated.",
)


def options_from(request: type, *names: str) -> Decorator:
    """Options of the command line for some of what a call takes."""
    known = options_of(request)
    return grouped(*(_option(known[name]) for name in names))


def _option(one: Option) -> Decorator:
    kinds = {"float": float, "int": POSITIVE, "path-like": PATH}
    kind: Any = kinds.get(one.kind.partition(",")[0])
    default = None if one.default is Parameter.empty else one.default
    return click.option(
        *["-o"] * (one.name == "out"),
        f"--{one.name.replace('_', '-')}",
        type=click.Choice(one.choices) if one.choices else kind,
        default=default,
        show_default=bool(default),
        help=one.summary,
    )


delta_option = options_from(RegressRequest, "delta")

#: What every answer of a study has.
spending = grouped(
    options_from(RegressRequest, "epsilon", "label", "out"),
    click.option("--force", is_flag=True, help="Replace an existing --out."),
)

#: What changes the answer of a regression, and its plan.
answering = grouped(
    delta_option,
    options_from(RegressRequest, "family", "loss", "cov_type", "weights", "mechanism"),
    cuts_option,
    reference_option,
)


def console() -> Console:
    """Return a console on standard output. Brackets in a column's name are brackets."""
    out = Console(highlight=False, markup=False)
    return out if out.is_terminal else Console(highlight=False, markup=False, width=PIPED_WIDTH)


def table(
    columns: Iterable[str],
    rows: Iterable[Iterable[object]],
    title: str = "",
    words: Collection[str] = (),
) -> Table:
    """Lay rows out: words and the first column to the left, numbers to the right."""
    result = Table(
        box=box.SIMPLE_HEAD, title=shown(title) or None, title_justify="left", pad_edge=False
    )
    for j, name in enumerate(columns):
        result.add_column(shown(name), justify="right" if j and name not in words else "left")
    for row in rows:
        result.add_row(*map(text, row))
    return result


def facts(pairs: Mapping[str, object], title: str = "") -> Table:
    """Lay out names with their values, one a line."""
    result = Table(box=None, show_header=False, title=shown(title) or None, title_justify="left")
    result.add_column(style="bold")
    result.add_column()
    for name, value in pairs.items():
        result.add_row(shown(name), text(value))
    return result


def text(value: object) -> str:
    """Show a value: integers in full with separators, floats to four digits."""
    if value is None:
        return "-"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    if isinstance(value, float | np.floating):
        return f"{float(value):.4g}"
    if isinstance(value, list):
        return ", ".join(map(text, value)) or "-"
    return shown(str(value))


def print_lines(text: str) -> None:
    """Print text of several lines."""
    click.echo("\n".join(map(shown, text.split("\n"))))


def print_json(value: object) -> None:
    """Print strict JSON in ASCII: arrays as lists, what is not finite as null."""
    # DEL alone is ASCII, and left as it is by JSON.
    click.echo(json.dumps(_plain(value), indent=2, allow_nan=False).replace("\x7f", "\\u007f"))


def _plain(value: Any) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "to_numpy"):  # of pandas
        return _plain(value.to_numpy())
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_fit(
    fit: RegressionResults, alpha: float, as_json: bool, *, penalised: bool = False, **more: object
) -> Status:
    """Print a regression, in JSON with `more`; say whether it was refused.

    Of one that is penalised on request standard errors are not expected.
    """
    if as_json:
        print_json(
            {
                "target": fit.target,
                "names": fit.param_names,
                "terms": {term: fit.param_names[at] for term, at in fit.design.terms.items()},
                "references": fit.design.references,
                "params": fit.params,
                "bse": fit.bse,
                "ridge": getattr(fit, "ridge", 0.0),
                "alpha": alpha,
                "conf_int": fit.conf_int(alpha),
                "pvalues": fit.pvalues,
                "refusal": fit.refusal,
                "epsilon": fit.epsilon,
                "delta": fit.delta,
            }
            | more
        )
    else:
        print_lines(str(fit.summary(alpha=alpha)))
        if (advice := fit.advice()) is not None:
            print_lines(advice)
    finite = np.isfinite
    expected = penalised and finite(np.asarray(fit.params)).all()
    return Status.REFUSED if fit.refusal is not None and not expected else Status.ANSWERED


def left_of(study: Study) -> tuple[float | None, str]:
    """What is left of the budget once an answer is paid for: the number, and in words.

    A ledger that cannot be read just then is warned of, for the answer is to be printed all the
    same.
    """
    try:
        left = study.remaining()
    except Exception as error:
        warn(f"what is left of the budget cannot be told: {error}", paid=True)
        return None, "what is left is not known"
    return left, f"{left:.4g} are left"


#: A comma after which no bracket closes before another opens.
_COMMA = re.compile(r",(?![^(\[{]*[)\]}])")


def on_command_line(options: Iterable[str]) -> list[str]:
    """Those of some options that the command line names."""
    source = click.get_current_context().get_parameter_source
    return [name for name in options if source(name) is ParameterSource.COMMANDLINE]


def example(*lines: str) -> str:
    """Write the end of a help text, its lines marked to be left as they are."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def command(*lines: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of the function's name, whose help text ends with an example."""
    return click.command(epilog=example(*lines))


def open_release(path: Path, groups: bool = False, fits: bool = False) -> Any:
    """Read a release, or the releases of groups or a fit, where a command takes them."""
    kind = {".csv": "table", ".npy": "table", ".parquet": "table", ".toml": "study"}
    if (other := kind.get(path.suffix.lower())) and path.exists():
        raise click.UsageError(
            f"{path} is a {other}, and a release is needed here: `privgram release` makes one"
        )
    release = pg.load(path)
    if isinstance(release, Releases):
        if not groups:
            raise click.UsageError(
                f"{path} holds releases of groups, which only `privgram regress` takes; in Python, "
                "privgram.load"
            )
    elif not (fits or isinstance(release, pg.Release)):
        raise click.UsageError(f"{path} holds a fit, and a release is needed here")
    return release


def read_names(option: str, text: str) -> list[str]:
    """Read names or terms with commas between them; those in brackets are theirs: poly(x, 2)."""
    names = [name.strip() for name in _COMMA.split(text)]
    if not all(names):
        raise click.UsageError(f"{option} {text}: a name is missing between two commas")
    return names


def read_number(option: str, text: str, *words: str) -> float:
    """Read a number, where one of some words might have been given instead."""
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(
            f"{option} {text}: must be {' or '.join(['a number', *words])}"
        ) from None


def read_penalty(text: str) -> float | Literal["auto"]:
    """Read ``--ridge``."""
    return "auto" if text == "auto" else read_number("--ridge", text, "auto")


def count(released: Any) -> int | None:
    """How many rows are behind a release or a fit: public, or as it estimates them."""
    rows = rows_behind(released) if isinstance(released, pg.Release) else released.n_rows
    return None if rows is None else round(rows)


def contents(release: pg.Release) -> dict[str, object]:
    """What commands tell of a release, from its bound on."""
    names = (
        "bound", "mechanism", "epsilon", "delta", "adjacency", "proof_status", "condition",
        "reproducible", "parameters",
    )  # fmt: skip
    told = {name: getattr(release, name) for name in names} | {"mechanism": str(release.mechanism)}
    parameters = {name: x for name, x in release.parameters.items() if name != "rows"}  # `count`
    return told | {"parameters": parameters}


def print_facts(report: Mapping[str, object]) -> None:
    """Print facts, those within one indented below it, and leave out empty lists."""
    lines: dict[str, object] = {}
    for name, value in report.items():
        if isinstance(value, dict):
            lines |= {name: ""} if value and name != "parameters" else {}
            lines |= {f"  {key}": item for key, item in value.items()}
        elif value != []:
            lines[name] = listed(value) if isinstance(value, list) else value
    console().print(facts(lines))
