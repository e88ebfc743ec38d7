"""What a row with a missing value does: raise, or be left out."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

Missing: TypeAlias = Literal["error", "drop"]


def check_missing(missing: Any) -> Missing | None:
    """Check what was asked; None is settled where the notion of neighbours is known."""
    if missing not in (None, "error", "drop"):
        raise ValueError(f"missing is 'error' or 'drop', not {missing!r}")
    found: Missing | None = missing
    return found


def settled(missing: Missing | None, adjacency: str | None) -> Missing:
    """What is done where nothing was said: nothing is left out if the number of rows is public.

    Under "add-remove" it is private in any case, so that leaving rows out costs nothing; under
    "replace" it would become private.
    """
    if missing is not None:
        return missing
    return "drop" if adjacency == "add-remove" else "error"
