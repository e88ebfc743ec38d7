"""Functions of rooms above as methods, each with the one docstring that it has there."""

from __future__ import annotations

from importlib import import_module
from types import MethodType
from typing import Any


class Room:
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
