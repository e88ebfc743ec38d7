"""Tables of a plan as text."""

from __future__ import annotations


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


def number(value: float | None) -> str:
    """Four digits, or a dash for what is not there."""
    return "-" if value is None else f"{value:.4g}"
