"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from privgram.columns import Columns

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
