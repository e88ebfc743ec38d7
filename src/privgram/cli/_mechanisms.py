"""Mechanisms by name, with their own parameters as ``--set name=value``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from privgram.mechanisms import Mechanism

    Kind = click.ParamType[str]
else:  # generic from click 8.4 on
    Kind = click.ParamType


class Name(Kind):
    """The name of a mechanism, or one of some other classes, in any form; the class's comes out."""

    name = "mechanism"

    def __init__(self, others: tuple[str, ...] = ()) -> None:
        self.others = others

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """For the help text."""
        from privgram.mechanisms._names import NAMES, hyphenated

        return f"[{'|'.join([*NAMES.values(), *map(hyphenated, self.others)])}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Give the class's name."""
        from privgram.mechanisms._names import class_name

        try:
            return class_name(value, self.others)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def make(name: str, settings: tuple[str, ...]) -> Mechanism:
    """Make a mechanism from its name and ``name=value`` settings, or raise UsageError."""
    from privgram.mechanisms._names import by_name, hyphenated, parameters

    known, needed = parameters(name)
    values: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or key not in known:
            raise click.UsageError(
                f"--set {setting}: {hyphenated(name)} takes name=value with names "
                f"{', '.join(known) or 'none'}"
            )
        values[key] = _value(value.strip())
    missing = [key for key in needed if key not in values]
    if missing:
        raise click.UsageError(
            f"{hyphenated(name)} needs " + " ".join(f"--set {key}=..." for key in missing)
        )
    try:
        return by_name(name, values)
    except TypeError:
        raise click.UsageError(
            f"--set {' '.join(settings)}: not a value for {hyphenated(name)}"
        ) from None


def _value(text: str) -> object:
    # Numbers, true/false and none as such; anything else is a word.
    try:
        return ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(text, text))
    except (ValueError, SyntaxError):
        return text
