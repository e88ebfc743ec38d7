"""Text made fit to be shown, warnings, and numbers with names: as text and as data frames."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Context
from html import escape
from typing import TYPE_CHECKING, Any

from privgram._base.installed import extra

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

#: The package, whose frames are no place to show somebody a warning at.
_ROOT = __name__.partition(".")[0]

#: Not "printable", and part of how words of some scripts are written: (non-)joiners.
_JOINERS = "\u200c\u200d"


def shown(text: object) -> str:
    r"""Write characters that would act rather than be seen as escapes, ``\x1b`` for one.

    Terminals obey control characters, some of them of what a file says; line breaks end a cell of
    a table; overrides of direction show a name as another one; SVG forbids most of them. A name
    keeps such characters, and is found by them: they are escaped where it is shown.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in _JOINERS else c.encode("unicode_escape").decode() for c in text
    )


def excerpt(error: object, longest: int = 500) -> str:
    """What an error says of a file, on one line: a file's words may be of any length."""
    text = shown(str(error).replace("\n", " "))
    if len(text) <= longest:
        return text
    return f"{text[: longest * 2 // 3]} ... {text[-longest // 3 :]}"


#: Names in tables are cut to this length, if they differ within it.
LONGEST_NAME = 32


def short_names(names: Sequence[str], longest: int = LONGEST_NAME) -> list[str]:
    """Names as tables of numbers show them: long ones are cut where they still differ."""
    names = list(map(shown, names))
    cut = [name if len(name) <= longest else name[: longest - 1] + "…" for name in names]
    return cut if len({*cut}) == len({*names}) else short_names(names, 2 * longest)


class Printed:
    """What prints as lines of one width: so consoles and notebooks show it."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str | None:
        return f"<pre>{escape(str(self))}</pre>"


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """A table of facts for notebooks."""
    rows = (
        f"<tr><th>{escape(shown(name))}</th><td>{escape(shown(fact))}</td></tr>"
        for name, fact in facts.items()
    )
    return f"<table><caption>{escape(shown(title))}</caption>{''.join(rows)}</table>"


#: More names than this are counted instead of listed.
MOST_LISTED = 12


def listed(names: Sequence[str]) -> str:
    """Names with commas between them, the first ones if there are many."""
    more = len(names) - MOST_LISTED
    if more <= 1:  # to say "and 1 more" takes the room of its name
        return ", ".join(map(shown, names))
    return f"{', '.join(map(shown, names[:MOST_LISTED]))} and {more:,} more"


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Which known names are near to one that is not known, or else what there is."""
    near = [repr(one) for one in difflib.get_close_matches(name, list(known), n=3)]
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def warn(message: str, category: type[Warning] = UserWarning, *, paid: bool = False) -> None:
    """Warn at the line outside of privgram that led here, from however deep within.

    After a spend (`paid`) it is no error where warnings are: what was paid for would be lost.
    """
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(f"{_ROOT}."):
        depth, frame = depth + 1, frame.f_back
    try:
        warnings.warn(message, category, stacklevel=depth)
    except Warning:
        if not paid:
            raise
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(message, category, stacklevel=depth)


def as_frame(
    values: Mapping[str, ArrayLike] | ArrayLike,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> Any:
    """A data frame (needs pandas) of columns by name, or of an array."""
    with extra("pandas", "a data frame needs"):
        import pandas
    index, heads = (None if names is None else list(names) for names in (rows, columns))
    return pandas.DataFrame(values, index, heads, copy=True)


def framed(values: ArrayLike, rows: Sequence[str], columns: Sequence[str]) -> Any:
    """`as_frame` where pandas is installed; the array itself where it is not."""
    try:
        return as_frame(values, rows, columns)
    except ImportError:
        return values


def as_text(
    rows: Sequence[str], columns: Mapping[str, ArrayLike], *below: str, digits: int = 4
) -> str:
    """Numbers under their heads, and sentences below."""
    first = max(map(len, map(shown, rows)), default=0) + 1
    widths = [max(len(shown(head)) + 2, digits + 8) for head in columns]
    heads = zip(columns, widths, strict=True)
    lines = [" " * first + "".join(f"{shown(head):>{width}}" for head, width in heads)]
    for name, numbers in zip(rows, zip(*columns.values(), strict=True), strict=True):
        cells = zip(numbers, widths, strict=True)
        lines.append(f"{shown(name):<{first}}" + "".join(f"{x:>{w}.{digits}g}" for x, w in cells))
    return "\n".join([*lines, *below])


def aligned(heads: list[str], cells: list[list[str]]) -> list[str]:
    """Write a table as lines of text, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in [heads, *cells]
    ]


def level_text(alpha: float) -> str:
    """The level of an interval: 95%, or 97.5%, which is not 98%."""
    return f"{100 * (1 - alpha):.12g}%"


def no_less(value: float, digits: int) -> str:
    """A number that something is at most, rounded up."""
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value)))
    return f"{float(rounded):.{digits}g}"


def number(value: float | None) -> str:
    """Four digits, or a dash for what is not there."""
    return "-" if value is None else f"{value:.4g}"
