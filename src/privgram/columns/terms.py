"""Terms: what enters the second moment of the variables of a table.

A term is a product of polynomials and factors. Its columns are the products of Legendre
polynomials with the indicators of every level, none left out: leaving out a reference is up
to each regression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from privgram.columns.variables import Factor, Log, Numeric, Variable

INTERCEPT = "intercept"

#: Beyond this degree neighbouring columns are alike on any real table.
MAX_DEGREE = 12

_NAME = re.compile(r"[^\W\d][\w.]*")
_POLY = re.compile(r"poly\(\s*(.+?)\s*,\s*(?:degree\s*=\s*)?(-?\w+)\s*\)")
_POWER = re.compile(
    r"(?:I\(\s*(.+?)\s*\*\*\s*(\d+)\s*\)|\{\s*(.+?)\s*\*\*\s*(\d+)\s*\}|(.+?)\s*\*\*\s*(\d+))"
)
_LOG = re.compile(r"(?:np\.)?log\(\s*(.+?)\s*\)")
_CATEGORY = re.compile(r"C\(\s*(.+?)\s*\)")
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(.*\)")


@dataclass(frozen=True)
class Piece:
    """Columns of a term that differ in their levels alone."""

    # variables and their Legendre polynomials' degrees, whose product multiplies
    powers: tuple[tuple[str, int], ...] = ()
    factors: tuple[str, ...] = ()  # the indicators of the levels of these

    def implies(self, other: Piece) -> bool:
        """Whether sums over this piece's levels are the other piece's columns."""
        return self.powers == other.powers and set(self.factors) >= set(other.factors)


#: The column of ones.
ONES = Piece()


@dataclass(frozen=True)
class Term:
    """A product of variables, with the degrees up to which polynomials of them go."""

    degrees: tuple[tuple[str, int], ...]
    factors: tuple[str, ...]

    def pieces(self) -> Iterator[Piece]:
        """The columns of the term, by polynomial."""
        names = [name for name, _ in self.degrees]
        for powers in product(*(range(1, top + 1) for _, top in self.degrees)):
            yield Piece(tuple(zip(names, powers, strict=True)), self.factors)

    def label(self, variables: Mapping[str, Variable]) -> str:
        """The term as it is written: 'poly(age, 2):sex'."""
        return ":".join(
            [_polynomial(name, top, variables) for name, top in self.degrees] + list(self.factors)
        )


def _polynomial(name: str, top: int, variables: Mapping[str, Variable]) -> str:
    described = variables[name]
    assert isinstance(described, Numeric)
    label = described.label(name)
    return label if top == 1 else f"poly({label}, {top})"


def parse_terms(texts: Iterable[str], variables: Mapping[str, Variable]) -> tuple[Term, ...]:
    """Read terms as they are written: 'poly(age, 2)', 'sex', 'age:sex', 'sex*region'."""
    if isinstance(texts, str):
        texts = [texts]
    found: dict[Term, None] = {}  # in their order
    for text in texts:
        if not isinstance(text, str):
            raise TypeError("a term is text, such as 'poly(age, 2)' or 'age:sex'")
        found |= dict.fromkeys(_expand(text, variables))
    return tuple(found)


def _expand(text: str, variables: Mapping[str, Variable]) -> list[Term]:
    """'a*b' is 'a', 'b' and 'a:b', the shorter ones first."""
    # A whole text that is a variable's own name needs no reading.
    if text in variables:
        return [product_of([text], variables)]
    parts = _split(text, "*")
    chosen: list[list[str]] = [[]]
    for part in parts:
        chosen += [[*some, *_split(part, ":")] for some in chosen]
    ordered = sorted(chosen[1:], key=len)
    return [product_of(some, variables) for some in ordered]


def _split(text: str, sign: str) -> list[str]:
    """Split at a sign that is neither in brackets nor doubled."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        double = sign == "*" and "*" in (text[i + 1 : i + 2], text[max(i - 1, 0) : i])
        if character == sign and depth == 0 and not double:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    if not all(parts):
        raise ValueError(f"the term {text!r} has an empty part")
    return parts


def product_of(parts: Iterable[str], variables: Mapping[str, Variable]) -> Term:
    """The term that is the product of variables and functions of them."""
    degrees: dict[str, int] = {}
    factors: list[str] = []
    for part in parts:
        name, degree = _function(part, variables)
        if degree == 0:
            if name not in factors:  # an indicator's square is itself
                factors.append(name)
        elif name in degrees:
            raise ValueError(
                f"a term multiplies {name!r} by itself; write poly({name}, {degrees[name] + 1})"
            )
        else:
            degrees[name] = degree
    # In the order of the description, so that a:b and b:a are one term.
    place = list(variables).index
    return Term(
        tuple(sorted(degrees.items(), key=lambda power: place(power[0]))),
        tuple(sorted(factors, key=place)),
    )


def _function(part: str, variables: Mapping[str, Variable]) -> tuple[str, int]:
    """The variable of a part of a term, and its degree: 0 for a factor."""
    degree = 1
    if part in variables:
        return part, _degree(part, 1, variables)
    if found := _POLY.fullmatch(part):
        inner, top = found.groups()
        if not top.isdecimal() or not 1 <= int(top) <= MAX_DEGREE:
            raise ValueError(f"poly({inner}, k) has a degree k of 1 to {MAX_DEGREE}, not {top}")
        part, degree = inner, int(top)
    elif found := _POWER.fullmatch(part):
        inner = next(filter(None, found.groups()))
        raise ValueError(
            f"write poly({inner}, k) for powers of {inner!r}: it has the powers up to the k-th, in "
            "a form that costs less noise, and results are given for the powers themselves"
        )
    elif found := _CATEGORY.fullmatch(part):
        name = found.group(1)
        if isinstance(variables.get(name), Factor):
            return name, 0
        raise ValueError(f"C({name}) needs the levels of {name!r}: describe it by a list of them")
    name = part
    if found := _LOG.fullmatch(part):
        name = found.group(1)
        if name in variables and not isinstance(variables[name], Log):
            raise ValueError(
                f"log({name}) needs positive bounds of {name!r}: describe it as "
                "pg.Log(lower, upper)"
            )
    elif name not in variables and (found := _CALL.fullmatch(part)):
        raise ValueError(
            f"the function {found.group(1)!r} is not known here: a term has poly(x, k), log(x) and "
            "C(x), whose values public bounds can bound. Make a column of the others yourself"
        )
    if name not in variables:
        raise ValueError(
            f"no variable {name!r} is described; there are {', '.join(map(repr, variables))}"
        )
    return name, _degree(name, degree, variables)


def _degree(name: str, degree: int, variables: Mapping[str, Variable]) -> int:
    if isinstance(variables[name], Numeric):
        return degree
    if degree > 1:
        raise ValueError(f"{name!r} is a factor and has no powers")
    return 0
