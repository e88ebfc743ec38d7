"""Formulas in the manner of R, read by formulaic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from privgram._base.optional import extra

__all__ = ["Parsed", "parse", "parse_one"]

_LOG = re.compile(r"(?:np\.)?log\(\s*(\w[\w.]*)\s*\)")


@dataclass(frozen=True)
class Parsed:
    """A formula as terms of `privgram.columns.terms`."""

    targets: tuple[str, ...]
    features: tuple[str, ...]
    intercept: bool
    logs: frozenset[str]  # variables whose logarithm is taken


def parse(formula: str) -> Parsed:
    """Read a formula with or without a left-hand side.

    Raises
    ------
    ValueError
        If it is not a formula, or has more than one part on a side.
    ImportError
        Without formulaic.
    """
    if not isinstance(formula, str):
        raise TypeError("a formula is text, such as 'wage ~ age + sex*region'")
    if not formula.strip():
        raise ValueError("the formula is empty; write one such as 'wage ~ age + sex*region'")
    with extra("formula", "formulas need"):
        from formulaic.errors import FormulaicError
        from formulaic.parser import DefaultFormulaParser
    try:
        found = DefaultFormulaParser(include_intercept=True).get_terms(formula)
    except (FormulaicError, SyntaxError) as error:
        reason = str(error).splitlines()[0].partition(". ")[0]
        raise ValueError(f"{formula!r} cannot be read as a formula: {reason}") from None
    left = _terms(getattr(found, "lhs", ()), formula)
    right = _terms(getattr(found, "rhs", getattr(found, "root", found)), formula)
    features = tuple(text for text in right if text not in ("1", "0"))
    if "~" in formula and not left:
        raise ValueError(f"{formula!r} has nothing before the ~")
    return Parsed(
        targets=tuple(left),
        features=features,
        intercept="1" in right,
        logs=frozenset(_LOG.findall(formula)),
    )


def parse_one(formula: str) -> tuple[str, list[str], bool]:
    """Target, features and whether there is an intercept, of a formula with one target.

    Raises
    ------
    ValueError, ImportError
        As `parse`, or if it has several targets.
    """
    parsed = parse(formula)
    if len(parsed.targets) != 1:
        raise ValueError(f"{formula!r} explains {len(parsed.targets)} columns, and a fit one")
    return parsed.targets[0], list(parsed.features), parsed.intercept


def _terms(found: Any, formula: str) -> list[str]:
    try:
        return [":".join(factor.expr for factor in term.factors) for term in found]
    except AttributeError:
        raise ValueError(
            f"{formula!r} has several parts on one side; write one formula for each"
        ) from None
