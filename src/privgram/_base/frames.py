"""Numbers with names: as text, and as data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privgram._base.optional import extra
from privgram._base.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike


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
