"""Families of classes whose objects a file holds by name and parameters."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

Kind = TypeVar("Kind", bound="Kinds")


class Kinds:
    """Base of a family of dataclasses that are saved as plain values.

    The head of a family is ``class Head(Kinds, key=..., what=...)``; each class under it
    registers itself under its name.
    """

    kinds: ClassVar[dict[str, type[Any]]]
    """Every class of the family, by name."""

    rooms: ClassVar[list[str]] = []
    """Packages with further classes, imported when a name is not known."""

    _key: ClassVar[str]
    """What a file has the name under."""

    _what: ClassVar[str]
    """In messages."""

    def __init_subclass__(cls, key: str = "", what: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if key:
            cls.kinds, cls._key, cls._what = {}, key, what
        else:
            cls.kinds[cls.__name__] = cls

    @classmethod
    def all_kinds(cls) -> dict[str, type[Any]]:
        """Every class of the family, those of `rooms` imported."""
        for room in cls.rooms:
            import_module(room)
        return cls.kinds

    def to_dict(self) -> dict[str, Any]:
        """The kind's name and the parameters, as plain values for a file."""
        parameters = {
            field.name: _plain(getattr(self, field.name))
            for field in fields(self)  # type: ignore[arg-type]
        }
        return {self._key: type(self).__name__, **parameters}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Rebuild an object of the family from what `to_dict` gave, or raise ValueError."""
        try:
            parameters = dict(values)
            name = parameters.pop(cls._key)
            kind: type[Self] = (cls.kinds if name in cls.kinds else cls.all_kinds())[name]
            return kind._rebuild(parameters)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"unknown {cls._what}, or not its parameters") from error

    @classmethod
    def _rebuild(cls, parameters: dict[str, Any]) -> Self:
        return cls(**parameters)


def _plain(value: Any) -> Any:
    """A parameter as JSON has it: those of a kind, or the lists of an array."""
    if isinstance(value, Kinds):
        return value.to_dict()
    return value.tolist() if isinstance(value, np.ndarray) else value
