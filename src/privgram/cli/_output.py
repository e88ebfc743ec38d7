"""Results on standard output: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from privgram._base.text import shown

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
