"""What commands share: results on standard output, options, and mechanisms by name."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from privgram._base.text import shown
from privgram.columns.unit import Auto

if TYPE_CHECKING:
    from privgram.columns import Columns
    from privgram.mechanisms import Mechanism

    Kind = click.ParamType[str]
else:
    Kind = click.ParamType

# Rich takes 80 columns when it cannot ask a terminal; cut numbers help no one.
PIPED_WIDTH = 160


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json``, passed on as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(
        command
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
    return shown(str(value))


def print_lines(text: str) -> None:
    """Print text of several lines."""
    click.echo("\n".join(map(shown, text.split("\n"))))


def print_json(value: object) -> None:
    """Print strict JSON in ASCII: arrays as lists, what is not finite as null."""
    # DEL alone is ASCII, and left as it is by JSON.
    click.echo(json.dumps(_plain(value), indent=2, allow_nan=False).replace("\x7f", "\\u007f"))


def _plain(value: Any) -> Any:
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


#: A comma after which no bracket closes before another opens.
_COMMA = re.compile(r",(?![^(\[{]*[)\]}])")

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def example(*lines: str) -> str:
    """Write the end of a help text, its lines marked to be left as they are."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def guarantee(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--epsilon``, ``--delta`` and ``--adjacency``."""
    options: tuple[Decorator, ...] = (
        click.option("--epsilon", type=float, required=True, help="Privacy parameter, above 0."),
        click.option("--delta", type=float, required=True, help="Privacy parameter, in [0, 1)."),
        click.option(
            "--adjacency",
            type=click.Choice(["replace", "add-remove"]),
            default="replace",
            show_default=True,
            help="Which tables are neighbours: those with one row replaced (the number of rows is"
            " public), or with one row added or removed (it is private).",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_columns(text: str | None) -> Columns | list[str] | None:
    """Read ``--columns``: a TOML or JSON file that describes them, or names with commas."""
    from privgram import Columns

    if text is None:
        return None
    for file in columns_file(text):
        return Columns.load(file)
    if Path(text).is_file():
        raise click.UsageError(f"--columns {text}: columns are described in a .toml or .json file")
    return read_names("--columns", text)


def read_release(path: Path, groups: bool = False) -> Any:
    """Read a release, or the releases of groups, where a command takes them."""
    import privgram as pg
    from privgram._release.groups import Releases

    if path.suffix.lower() in (".csv", ".npy", ".parquet") and path.exists():
        raise click.UsageError(
            f"{path} is a table, and a release is needed here: `privgram release` makes one"
        )
    found = pg.load(path)
    if isinstance(found, Releases):
        if not groups:
            raise click.UsageError(
                f"{path} holds releases of groups, which only `privgram regress` takes; in Python, "
                "privgram.load"
            )
    elif not isinstance(found, pg.Release):
        raise click.UsageError(f"{path} holds a fit, and a release is needed here")
    return found


def read_names(option: str, text: str) -> list[str]:
    """Read names or terms with commas between them; those in brackets are theirs: poly(x, 2)."""
    names = [name.strip() for name in _COMMA.split(text)]
    if not all(names):
        raise click.UsageError(f"{option} {text}: a name is missing between two commas")
    return names


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``FORMULA``, ``--target``, ``--features`` and ``--reference``."""
    options: tuple[Decorator, ...] = (
        click.argument("formula", metavar="[FORMULA]", required=False),
        click.option(
            "--target", metavar="NAME", help="The column to explain, where there is no FORMULA."
        ),
        click.option(
            "--features",
            metavar="NAMES",
            help="Columns or terms, separated by commas. Default: all others.",
        ),
        click.option(
            "--reference",
            "references",
            metavar="FACTOR=LEVEL",
            multiple=True,
            help="The level of a factor that is left out, its first by default. May be repeated.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_model(
    formula: str | None, target: str | None, features: str | None, references: tuple[str, ...]
) -> tuple[str, dict[str, Any]]:
    """Read what `model_options` gave: the formula or target, and keyword arguments of a fit."""
    if (formula is None) == (target is None):
        raise click.UsageError("give either a FORMULA or --target")
    if formula is not None and "~" not in formula:
        raise click.UsageError(f"{formula!r} is no formula; for one column, use --target")
    if formula is not None and features is not None:
        raise click.UsageError("a FORMULA names the features: leave --features out")
    return formula or target or "", {
        "features": None if features is None else read_names("--features", features),
        "reference": read_references(references),
    }


def read_references(texts: tuple[str, ...]) -> dict[str, str]:
    """Read what ``--reference`` gave: FACTOR=LEVEL, each."""
    found = {}
    for text in texts:
        name, equals, level = text.partition("=")
        if not (equals and name and level):
            raise click.UsageError(f"--reference {text}: write FACTOR=LEVEL")
        found[name] = level
    return found


def columns_file(text: str | None) -> list[Path]:
    """Give the file that ``--columns`` names, if it names one."""
    file = Path(text or "")
    return [file] if file.suffix in (".toml", ".json") else []


def unit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--unit`` and what goes with it."""
    options = (
        click.option(
            "--unit",
            metavar="COLUMN",
            help="Column that tells whose row a row is. All rows of one unit are then protected"
            " together, and the number of units is public instead of that of rows.",
        ),
        click.option(
            "--unit-bound",
            metavar="NUMBER|auto",
            help="Bound of a unit. Longer units are scaled down to it. auto chooses it by the table"
            " and costs --bound-epsilon.",
        ),
        click.option(
            "--rows-per-unit",
            type=click.IntRange(min=1),
            help="Instead of --unit-bound: no unit of up to so many rows is scaled down.",
        ),
        click.option(
            "--clip",
            type=click.Choice(["frobenius", "trace"]),
            default="frobenius",
            show_default=True,
            help="Norm of a unit's matrix. trace also serves matrix-laplace.",
        ),
        click.option(
            "--within", is_flag=True, help="Subtract each unit's means: an effect for each unit."
        ),
        click.option(
            "--unit-missing",
            type=click.Choice(["error", "drop"]),
            help="What to do about a row without a unit. Default: error, or drop if neighbours are "
            "by add-remove.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_unit_bound(text: str | None, auto: Auto | None) -> float | Auto | None:
    """Read ``--unit-bound``."""
    if text == "auto" and auto is None:
        raise click.UsageError("--unit-bound auto spends privacy: say how much by --bound-epsilon")
    if text is None or text == "auto":
        return None if text is None else auto
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"--unit-bound {text}: must be a number or auto") from None


class Name(Kind):
    """The name of a mechanism, or one of some other classes, in any form; the class's comes out."""

    name = "mechanism"

    def __init__(self, others: tuple[str, ...] = ()) -> None:
        self.others = others

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """For the help text."""
        from privgram.mechanisms._base import NAMES, hyphenated

        return f"[{'|'.join([*NAMES.values(), *map(hyphenated, self.others)])}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Give the class's name."""
        from privgram.mechanisms._base import class_name

        try:
            return class_name(value, self.others)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def make(name: str, settings: tuple[str, ...]) -> Mechanism:
    """Make a mechanism from its name and ``name=value`` settings, or raise UsageError."""
    from privgram.mechanisms._base import by_name, hyphenated, parameters

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
