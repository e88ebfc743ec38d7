"""Terms: what enters the second moment, which columns are stored for it, and formulas of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgram._base.installed import extra
from privgram._core.scale import DefaultRounding
from privgram.columns.variables import MAX_LEVELS, Factor, Log, Numeric, Variable

# A term is a product of polynomials and factors. Its columns are the products of Legendre
# polynomials with the indicators of every level, none left out: leaving out a reference is up
# to each regression.

INTERCEPT = "intercept"

#: Beyond this degree neighbouring columns are alike on any real table.
MAX_DEGREE = 12

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

    @property
    def linear(self) -> bool:
        """Whether its columns are one variable, as it is, times indicators."""
        return len(self.powers) == 1 and self.powers[0][1] == 1

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
        labels = [(as_numeric(name, variables).label(name), top) for name, top in self.degrees]
        powers = (label if top == 1 else f"poly({label}, {top})" for label, top in labels)
        return ":".join([*powers, *self.factors])


def as_numeric(name: str, variables: Mapping[str, Variable]) -> Numeric:
    """The description of a variable that is known to be a number."""
    described = variables[name]
    assert isinstance(described, Numeric)
    return described


def as_factor(name: str, variables: Mapping[str, Variable]) -> Factor:
    """The description of a variable that is known to be a factor."""
    described = variables[name]
    assert isinstance(described, Factor)
    return described


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


# From terms to columns: which are stored, under which names, and what the others follow from.
#
# A row has the value 1 in exactly one level of a factor, so that the sum of a factor's indicators
# is the column of ones, and sums over a product of factors give the factors. What follows is
# not stored: it would lengthen every row, and so the noise, without telling anything new.


@dataclass(frozen=True)
class Stored:
    """A piece that is stored: its columns are adjacent, one for each combination of levels."""

    piece: Piece
    start: int
    shape: tuple[int, ...]  # levels of each factor; () for one column
    weight: float

    @property
    def size(self) -> int:
        """Number of columns."""
        return math.prod(self.shape)

    @property
    def columns(self) -> slice:
        """Where they are."""
        return slice(self.start, self.start + self.size)


class Layout:
    """The columns that are stored for some terms, each times the term's weight."""

    def __init__(
        self,
        variables: Mapping[str, Variable],
        terms: Sequence[Term],
        intercept: bool,
        weights: Mapping[Term, float],
    ) -> None:
        self.variables = variables
        wanted: dict[Piece, float] = {}
        for term in terms:
            for piece in term.pieces():
                # What is in two terms takes the larger weight.
                wanted[piece] = max(weights.get(term, 1.0), wanted.get(piece, 0.0))
        if intercept:
            wanted.setdefault(ONES, 1.0)
        kept = _maximal(wanted)
        self.stored: list[Stored] = []
        start = 0
        for piece in kept:
            shape = self._shape(piece)
            if math.prod(shape) > MAX_LEVELS:
                raise ValueError(
                    f"{':'.join(piece.factors)} has {math.prod(shape):,} combinations of levels "
                    f"and a second moment at most {MAX_LEVELS:,} columns: leave the product out, "
                    "or merge levels"
                )
            self.stored.append(Stored(piece, start, shape, wanted[piece]))
            start += math.prod(shape)
        if start > MAX_LEVELS:
            raise ValueError(
                f"the terms make {start:,} columns and a second moment has at most {MAX_LEVELS:,}"
            )
        self.size = start
        self.names = tuple(name for stored in self.stored for name in self._names(stored.piece))

    def _shape(self, piece: Piece) -> tuple[int, ...]:
        return tuple(len(as_factor(name, self.variables)) for name in piece.factors)

    def _names(self, piece: Piece) -> Iterator[str]:
        if piece == ONES:
            yield INTERCEPT
            return
        powers = [self.power(name, k) for name, k in piece.powers]
        levels = (
            [f"{name}[{level}]" for level in as_factor(name, self.variables).names]
            for name in piece.factors
        )
        for cell in product(*levels):
            yield ":".join([*powers, *cell])

    def power(self, name: str, degree: int) -> str:
        """What the column of a polynomial is called."""
        label = as_numeric(name, self.variables).label(name)
        return label if degree == 1 else f"P{degree}({label})"

    def squared_bound(self) -> float:
        """The largest squared norm that a row can have; it is attained.

        Legendre polynomials are at most 1 in size on [-1, 1] and all 1 at the end 1, and of an
        indicator's levels one is 1: so every piece contributes its squared weight at most, and
        all do where every number is at its upper bound.
        """
        with DefaultRounding():
            return math.fsum(stored.weight**2 for stored in self.stored)

    def farthest(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """The largest size that each linear image of a row can have, at most, shape (m,).

        The images are by the rows of the matrix, (m, size). Of a piece's columns one counts, as
        large as its weight.
        """
        sizes = np.abs(matrix)
        parts = [own.weight * sizes[:, own.columns].max(axis=1) for own in self.stored]
        return np.asarray(np.sum(parts, axis=0))

    def find(self, piece: Piece) -> Stored | None:
        """The stored piece of which a piece's columns are sums: the one of the fewest columns."""
        found = [stored for stored in self.stored if stored.piece.implies(piece)]
        return min(found, key=lambda stored: stored.size, default=None)

    def image(self, piece: Piece) -> NDArray[np.float64] | None:
        """The columns of a piece as linear images of the stored ones, shape (levels, size).

        Without weights: what multiplies the stored matrix from the left. None where the piece does
        not follow from what is stored.
        """
        stored = self.find(piece)
        if stored is None:
            return None
        size = math.prod(self._shape(piece))
        rows = np.zeros((size, self.size))
        # Factors are in one order everywhere; those that are summed over have one level here.
        wide = [
            levels if name in piece.factors else 1
            for name, levels in zip(stored.piece.factors, stored.shape, strict=True)
        ]
        cells = np.broadcast_to(np.arange(size).reshape(wide), stored.shape).ravel()
        rows[cells, np.arange(stored.start, stored.start + stored.size)] = 1 / stored.weight
        return rows


def _maximal(wanted: Mapping[Piece, float]) -> list[Piece]:
    """The pieces that follow from no other; the column of ones last."""
    alike: dict[tuple[tuple[str, int], ...], list[Piece]] = {}
    for piece in wanted:
        alike.setdefault(piece.powers, []).append(piece)
    kept = [
        piece
        for piece in wanted
        if not any(other != piece and other.implies(piece) for other in alike[piece.powers])
    ]
    return sorted(kept, key=lambda piece: piece == ONES)


# Formulas in the manner of R, read by formulaic, with the parts that pyfixest adds.
#
# `y ~ x | firm` takes a factor along that is not shown, `y ~ x | d ~ z` and
# `y ~ x + [d ~ z]` have d explained by z.

_LOGGED = re.compile(r"(?:np\.)?log\(\s*(\w[\w.]*)\s*\)")

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
    """A formula taken apart: its terms, as they are written, and what each is for."""

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
        explaining = (*self.features, *self.absorbed, *self.endogenous, *self.instruments)
        return tuple(dict.fromkeys((*self.targets, *explaining)))


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
            absorbed += _right(own, formula)
    endogenous = [text for own, _ in stages for text in _right(own, formula)]
    instruments = [text for _, outside in stages for text in _right(outside, formula)]
    left, right = _sides(main, formula)
    features = [text for text in right if text not in ("1", "0")]
    if "~" in formula and not left:
        raise ValueError(f"{formula!r} has nothing before the ~")
    # As pyfixest has it, what is instrumented may be written among the features too.
    return Parsed(
        targets=tuple(left),
        features=tuple(text for text in features if text not in (*absorbed, *endogenous)),
        intercept="1" in right,
        logs=frozenset(_LOGGED.findall(formula)),
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


def _right(text: str, formula: str) -> list[str]:
    """Terms of one side, without the intercept."""
    return [term for term in _sides(text, formula)[1] if term not in ("1", "0")]


@lru_cache(maxsize=64)  # one answer asks several times
def _sides(text: str, formula: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
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


def _terms(found: Any, formula: str) -> tuple[str, ...]:
    try:
        return tuple(":".join(factor.expr for factor in term.factors) for term in found)
    except AttributeError:
        raise ValueError(
            f"{formula!r} has several parts on one side; write one formula for each"
        ) from None
