"""Formulas in the manner of R, read by formulaic, with the parts that pyfixest adds.

``y ~ x | firm`` takes a factor along that is not shown, ``y ~ x | d ~ z`` and
``y ~ x + [d ~ z]`` have d explained by z.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from privgram._base.optional import extra

_LOG = re.compile(r"(?:np\.)?log\(\s*(\w[\w.]*)\s*\)")

#: A factor whose reference the formula says: as formulaic, patsy and pyfixest write it.
_REFERENCE = re.compile(
    r"""(?:C\(\s*([\w.]+)\s*,\s*(?:contr\.)?[Tt]reatment\(\s*(?:(?:reference|base)\s*=\s*)?"""
    r"""(?:"([^"]*)"|'([^']*)'|(-?\w+))\s*\)\s*\)"""
    r"""|i\(\s*([\w.]+)\s*(?:,\s*ref\s*=\s*(?:"([^"]*)"|'([^']*)'|(-?\w+))\s*)?\))"""
)

#: Instruments within the right-hand side.
_STAGE = re.compile(r"\[([^\[\]~]+)~([^\[\]~]+)\]")


@dataclass(frozen=True)
class Parsed:
    """A formula as terms of `privgram.columns.terms`."""

    targets: tuple[str, ...]
    features: tuple[str, ...]
    intercept: bool
    logs: frozenset[str]  # variables whose logarithm is taken
    absorbed: tuple[str, ...] = ()  # factors that are taken along and not shown
    endogenous: tuple[str, ...] = ()  # what may depend on the error
    instruments: tuple[str, ...] = ()  # what stands in for it
    # levels that are left out, by factor, where the formula says it
    references: Mapping[str, str] = field(default_factory=dict)

    @property
    def terms(self) -> tuple[str, ...]:
        """All terms of either side."""
        return tuple(
            dict.fromkeys(
                (
                    *self.targets,
                    *self.features,
                    *self.absorbed,
                    *self.endogenous,
                    *self.instruments,
                )
            )
        )


def parse(formula: str) -> Parsed:
    """Read a formula with or without a left-hand side."""
    if not isinstance(formula, str):
        raise TypeError("a formula is text, such as 'wage ~ age + sex*region'")
    if not formula.strip():
        raise ValueError("the formula is empty; write one such as 'wage ~ age + sex*region'")
    references: dict[str, str] = {}

    def plain(found: re.Match[str]) -> str:
        name, level = found[1] or found[5], next(filter(None, found.group(2, 3, 4, 6, 7, 8)), None)
        if level is not None:
            references[name] = level
        return f"C({name})"

    main, *parts = (part.strip() for part in _REFERENCE.sub(plain, formula).split("|"))
    stages = [(own, outside) for own, outside in _STAGE.findall(main)]
    main = re.sub(r"\+\s*$|(?<=~)\s*\+", "", re.sub(r"\+?\s*" + _STAGE.pattern, "", main)).strip()
    main += " 1" if main.endswith("~") else ""
    absorbed: list[str] = []
    for part in parts:
        own, tilde, outside = part.partition("~")
        if tilde:
            stages.append((own, outside))
        else:
            absorbed += [text for text in _right(own, formula)[0] if text != "0"]
    endogenous = [text for own, _ in stages for text in _right(own, formula)[0]]
    instruments = [text for _, outside in stages for text in _right(outside, formula)[0]]
    left, right = _sides(main, formula)
    features = [text for text in right if text not in ("1", "0")]
    if "~" in formula and not left:
        raise ValueError(f"{formula!r} has nothing before the ~")
    # As pyfixest has it, what is instrumented may be written among the features too.
    return Parsed(
        targets=tuple(left),
        features=tuple(text for text in features if text not in (*absorbed, *endogenous)),
        intercept="1" in right,
        logs=frozenset(_LOG.findall(formula)),
        absorbed=tuple(dict.fromkeys(absorbed)),
        endogenous=tuple(dict.fromkeys(endogenous)),
        instruments=tuple(dict.fromkeys(instruments)),
        references=references,
    )


def parse_one(formula: str) -> Parsed:
    """Read a formula with one target."""
    parsed = parse(formula)
    if len(parsed.targets) != 1:
        raise ValueError(f"{formula!r} explains {len(parsed.targets)} columns, and a fit one")
    return parsed


def _right(text: str, formula: str) -> tuple[list[str], bool]:
    """Terms of one side, and whether there is an intercept."""
    _, right = _sides(text, formula)
    return [term for term in right if term not in ("1", "0")], "1" in right


def _sides(text: str, formula: str) -> tuple[list[str], list[str]]:
    """Terms on the left and on the right."""
    with extra("formula", "formulas need"):
        from formulaic.errors import FormulaicError
        from formulaic.parser import DefaultFormulaParser
    try:
        found = DefaultFormulaParser(include_intercept=True).get_terms(text)
    except (FormulaicError, SyntaxError) as error:
        reason = str(error).splitlines()[0].partition(". ")[0]
        raise ValueError(f"{formula!r} cannot be read as a formula: {reason}") from None
    left = _terms(getattr(found, "lhs", ()), formula)
    right = _terms(getattr(found, "rhs", getattr(found, "root", found)), formula)
    return left, right


def _terms(found: Any, formula: str) -> list[str]:
    try:
        return [":".join(factor.expr for factor in term.factors) for term in found]
    except AttributeError:
        raise ValueError(
            f"{formula!r} has several parts on one side; write one formula for each"
        ) from None
