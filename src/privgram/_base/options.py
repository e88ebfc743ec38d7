"""What a call takes, said once: a frozen dataclass whose docstring says what each field is.

Made of it are the call's signature and documentation, options of the command line, keys of files,
and tables of the guide.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Concatenate, ParamSpec, TypeVar

from privgram._base.text import did_you_mean, listed

P = ParamSpec("P")
RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")
OwnerT = TypeVar("OwnerT")

#: Names, what they may be, and the text below, as numpydoc has them.
_ENTRY = re.compile(r"^(\w+(?:, \w+)*) : (.+)\n((?:(?:    .*)?\n?)+)", re.MULTILINE)

_SECTION = re.compile(r"^[A-Z]\w+\n-+$", re.MULTILINE)


@dataclass(frozen=True)
class Option:
    """One thing that a call takes."""

    name: str
    kind: str  # what it may be, as documentation has it
    doc: str
    default: Any  # `inspect.Parameter.empty` where it must be given

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it may be, if it is one of some."""
        return tuple(re.findall(r'"([^"]*)"', self.kind)) if self.kind.startswith("{") else ()

    @property
    def summary(self) -> str:
        """The first sentence of what is said of it, without marks."""
        return re.split(r"(?<=\.) ", " ".join(self.doc.replace("`", "").split()))[0]


@functools.cache
def options_of(request: type) -> Mapping[str, Option]:
    """The fields of a dataclass, each with what its docstring, or that of a base, says of it."""
    said: dict[str, tuple[str, str]] = {}
    for kind in reversed(request.__mro__):
        text = inspect.cleandoc(vars(kind).get("__doc__") or "")
        _, _, entries = text.partition("Parameters\n----------\n")
        for names, what, doc in _ENTRY.findall(entries + "\n"):
            said |= dict.fromkeys(names.split(", "), (what, inspect.cleandoc(doc)))
    parameters = inspect.signature(request).parameters.values()
    if sys.flags.optimize > 1:  # which takes docstrings off
        said = {one.name: ("", "") for one in parameters}
    return {one.name: Option(one.name, *said[one.name], one.default) for one in parameters}


def takes(
    request: Callable[P, RequestT],
) -> Callable[[Callable[[OwnerT, RequestT], ResultT]], Callable[Concatenate[OwnerT, P], ResultT]]:
    """Let a method that has a request be called by the request's fields."""

    def decorate(
        method: Callable[[OwnerT, RequestT], ResultT],
    ) -> Callable[Concatenate[OwnerT, P], ResultT]:
        @functools.wraps(method)
        def call(self: OwnerT, /, *args: P.args, **options: P.kwargs) -> ResultT:
            return method(self, _made(method.__name__, request, args, options))

        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        _describe(call, request, [own])
        return call

    return decorate


def function_takes(
    request: Callable[P, RequestT],
) -> Callable[[Callable[[RequestT], ResultT]], Callable[P, ResultT]]:
    """Let a function that has a request be called by the request's fields."""

    def decorate(function: Callable[[RequestT], ResultT]) -> Callable[P, ResultT]:
        @functools.wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> ResultT:
            return function(_made(function.__name__, request, args, options))

        _describe(call, request, [])
        return call

    return decorate


#: Finding one takes a sixth of a small release.
_signature_of = functools.cache(inspect.signature)


def _made(name: str, request: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The request of a call, or one sentence on what it does not take."""
    known = options_of(request)
    for option in options:
        if option not in known:
            hint = getattr(request, "instead", {}).get(option)
            hint = hint or did_you_mean(option, known, f"it takes {listed(list(known))}")
            raise TypeError(f"{name}() has no option {option!r}: {hint}")
    try:
        bound = _signature_of(request).bind(*args, **options)
    except TypeError as error:
        raise TypeError(f"{name}() has {error}") from None
    return request(*bound.args, **bound.kwargs)


def _describe(call: Any, request: Any, before: list[inspect.Parameter]) -> None:
    """Give a call the signature and the documentation of its options."""
    returned = inspect.signature(call, follow_wrapped=True).return_annotation
    taken = inspect.signature(request)
    parameters = [*before, *taken.parameters.values()]
    call.__signature__ = taken.replace(parameters=parameters, return_annotation=returned)
    call.__annotations__ = {x.name: x.annotation for x in taken.parameters.values()}
    call.__doc__ = _documented(call.__doc__, request)


def described_by(request: type) -> Callable[[type[OwnerT]], type[OwnerT]]:
    """Let a class whose `__init__` takes a request have the request's documentation."""

    def decorate(owner: type[OwnerT]) -> type[OwnerT]:
        owner.__doc__ = _documented(owner.__doc__, request)
        return owner

    return decorate


def _documented(text: str | None, request: Any) -> str | None:
    """A docstring with what a request says of its fields before all other sections."""
    if text is None:  # as under python -OO
        return None
    text = inspect.cleandoc(text)
    section = _SECTION.search(text)
    place = len(text) if section is None else section.start()
    each = (f"{x.name} : {x.kind}\n{indent(x.doc, '    ')}" for x in options_of(request).values())
    options = "\n".join(["Parameters", "----------", *each])
    return f"{text[:place].rstrip()}\n\n{options}\n\n{text[place:]}"
