"""Matrices with names: as text, and as data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privgram._base.optional import extra
from privgram._base.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


def as_frame(rows: Sequence[str], columns: Mapping[str, NDArray[Any]]) -> Any:
    """A data frame (needs pandas)."""
    with extra("pandas", "a data frame needs"):
        import pandas
    return pandas.DataFrame(dict(columns), index=list(rows))


def as_text(rows: Sequence[str], columns: Mapping[str, NDArray[Any]], *below: str) -> str:
    """Numbers under their heads, and sentences below."""
    first = max(map(len, map(shown, rows)), default=0) + 1
    widths = [max(len(shown(head)) + 2, 12) for head in columns]
    heads = zip(columns, widths, strict=True)
    lines = [" " * first + "".join(f"{shown(head):>{width}}" for head, width in heads)]
    for name, numbers in zip(rows, zip(*columns.values(), strict=True), strict=True):
        cells = zip(numbers, widths, strict=True)
        lines.append(f"{shown(name):<{first}}" + "".join(f"{x:>{w}.4g}" for x, w in cells))
    return "\n".join([*lines, *below])
