"""The two notions of neighbouring data sets, named in one place."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["Adjacency", "check_adjacency", "check_known_adjacency"]

Adjacency = Literal["replace", "add-remove"]
"""``"replace"``: one row is replaced, n is public. ``"add-remove"``: one row comes or goes."""


def check_adjacency(adjacency: str) -> Adjacency:
    """Return `adjacency` if it is one of the two notions, else raise ValueError."""
    if adjacency not in get_args(Adjacency):
        raise ValueError(f'adjacency must be "replace" or "add-remove", not {adjacency!r}')
    return adjacency  # type: ignore[return-value]


def check_known_adjacency(adjacency: str | None) -> None:
    """Raise ValueError unless `adjacency` is one of the two notions, or None: not said."""
    if adjacency is not None:
        check_adjacency(adjacency)
