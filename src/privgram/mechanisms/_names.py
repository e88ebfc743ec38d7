"""One name for one thing: what a mechanism is called in Python, on the command line, in files."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from privgram.mechanisms._base import Mechanism, check_mechanism

__all__ = ["NAMES", "by_name", "class_name", "hyphenated", "named", "parameters"]


def hyphenated(name: str) -> str:
    """The name of a class as words are joined on a command line."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


#: The classes and their names on the command line, in the order of use.
NAMES = {
    name: hyphenated(name)
    for name in (
        "AnalyzeGauss",
        "AdditiveWishart",
        "MatrixLaplace",
        "Refined",
    )
}


def class_name(name: str, others: tuple[str, ...] = ()) -> str:
    """The class's name for any of the names of one thing, a mechanism or one of `others`.

    That is itself, or with hyphens between the words; capitals do not matter.
    """
    bare = name.replace("-", "").replace("_", "").lower()
    names = {kind.lower(): kind for kind in (*NAMES, *others)}
    if bare not in names:
        names |= {kind.lower(): kind for kind in Mechanism.all_kinds()}
    if bare not in names:
        there_are = ", ".join(map(hyphenated, (*NAMES, *others)))
        raise ValueError(f"there is no mechanism {name!r}; there are {there_are}")
    return names[bare]


def parameters(name: str) -> tuple[list[str], list[str]]:
    """Names of the parameters of a mechanism, and of those without a default."""
    fields = dataclasses.fields(Mechanism.kinds[class_name(name)])
    return (
        [field.name for field in fields],
        [field.name for field in fields if field.default is dataclasses.MISSING],
    )


def by_name(name: str, values: dict[str, Any]) -> Mechanism:
    """Make a mechanism from any of its names and its parameters.

    Raises
    ------
    ValueError
        If there is no such mechanism, or it lacks a parameter, or has no parameter of that name.
    """
    kind = class_name(name)
    known, needed = parameters(kind)
    for given in values:
        if given not in known:
            raise ValueError(f"{hyphenated(kind)} takes {', '.join(known)}, not {given}")
    for key in needed:
        if key not in values:
            raise ValueError(f"{hyphenated(kind)} needs a parameter: {kind}({key}=...)")
    mechanism: Mechanism = Mechanism.kinds[kind](**values)
    return mechanism


def named(mechanism: Any) -> Mechanism | None:
    """A mechanism as it was given: itself, any of its names, or None.

    Raises
    ------
    TypeError
        If it is something else.
    ValueError
        As `by_name`.
    """
    if mechanism is None:
        return None
    if isinstance(mechanism, str):
        return by_name(mechanism, {})
    return check_mechanism(mechanism)
