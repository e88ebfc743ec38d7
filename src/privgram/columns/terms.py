"""Terms: what enters the second moment, which columns are stored for it, and formulas of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privgram._base.text import did_you_mean
from privgram._core.rowmap import DefaultRounding
from privgram.columns.variables import MAX_LEVELS, Boolean, Factor, Log, Numeric, Variable

# A term is a product of polynomials and factors. Its columns are the products of Legendre
# polynomials with the indicators of every level, none left out: leaving out a reference is up to
# each regression.

INTERCEPT = "intercept"

#: Beyond this degree neighbouring columns are alike on any real table.
MAX_DEGREE = 12

_POLY = re.compile(r"poly\(\s*(.+?)\s*,\s*(?:degree\s*=\s*)?(-?\w+)\s*\)")
_POWER = re.compile(
    r"(?:I\(\s*(.+?)\s*\*\*\s*(\d+)\s*\)|\{\s*(.+?)\s*\*\*\s*(\d+)\s*\}|(.+?)\s*\*\*\s*(\d+))"
)
LOG_CALL = re.compile(r"(?:np\.)?log\(\s*(.+?)\s*\)")
_CATEGORY = re.compile(r"C\(\s*(.+?)\s*\)")
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(.*\)")
_OFFSET = re.compile(r"offset\(\s*(.+?)\s*\)")
_SURV = re.compile(r"Surv\((.+)\)")
_STRATA = re.compile(r"strata\((.+)\)")
_LEVEL = re.compile(r"[\w.]+\[.*\]")


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

    @property
    def names(self) -> tuple[str, ...]:
        """The variables in it."""
        return (*(name for name, _ in self.degrees), *self.factors)

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
    terms: dict[Term, None] = {}  # in their order
    for text in texts:
        if not isinstance(text, str):
            raise TypeError("a term is text, such as 'poly(age, 2)' or 'age:sex'")
        terms |= dict.fromkeys(_expand(text, variables))
    return tuple(terms)


def _expand(text: str, variables: Mapping[str, Variable]) -> list[Term]:
    """'a*b' is 'a', 'b' and 'a:b', the shorter ones first."""
    # A whole text that is a variable's own name needs no reading.
    if text in variables:
        return [product_of([text], variables)]
    parts = _split(text, "*")
    _check_many(2 ** len(parts), text)
    chosen: list[list[str]] = [[]]
    for part in parts:
        chosen += [[*some, *_split(part, ":")] for some in chosen]
    ordered = sorted(chosen[1:], key=len)
    return [product_of(some, variables) for some in ordered]


def _split(text: str, sign: str) -> list[str]:
    """Split at a sign that is neither in brackets or backticks nor doubled."""
    parts, depth, start, quoted = [], 0, 0, False
    for i, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        quoted ^= character == "`"
        double = sign == "*" and "*" in (text[i + 1 : i + 2], text[max(i - 1, 0) : i])
        if character == sign and depth == 0 and not (double or quoted):
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    if not all(parts):
        raise ValueError(f"{text!r} has an empty part")
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
    if match := _POLY.fullmatch(part):
        inner, top = match.groups()
        if not top.isdecimal() or not 1 <= int(top) <= MAX_DEGREE:
            raise ValueError(f"poly({inner}, k) has a degree k of 1 to {MAX_DEGREE}, not {top}")
        part, degree = inner, int(top)
    elif match := _POWER.fullmatch(part):
        inner = next(filter(None, match.groups()))
        raise ValueError(
            f"write poly({inner}, k) for powers of {inner!r}: it has the powers up to the k-th, in "
            "a form that costs less noise, and results are given for the powers themselves"
        )
    elif match := _CATEGORY.fullmatch(part):
        name, _, contrasts = (text.strip() for text in match.group(1).partition(","))
        if contrasts:
            raise ValueError(
                f"C({name}, ...) has no contrasts but those with one level: write C({name}, "
                f"Treatment('level')), or C({name})"
            )
        if isinstance(variables.get(name), Factor):
            return name, 0
        raise ValueError(f"C({name}) needs the levels of {name!r}: describe it by a list of them")
    name = part
    if match := LOG_CALL.fullmatch(part):
        name = match.group(1)
        if name in variables and not isinstance(variables[name], Log):
            raise ValueError(
                f"log({name}) needs positive bounds of {name!r}: describe it as "
                "pg.Log(lower, upper)"
            )
    elif name not in variables and (match := _CALL.fullmatch(part)):
        if match.group(1) == "poly":
            raise ValueError("a polynomial is written poly(x, k), with a degree k and no more")
        if match.group(1) == "rf":
            raise ValueError(
                "random features are learnt by score steps, which predict better than a release "
                "of them: PrivateRidge(features=pg.RandomFeatures(...)) of privgram.estimators"
            )
        raise ValueError(
            f"the function {match.group(1)!r} is not known here: a term has poly(x, k), log(x) and "
            "C(x), whose values public bounds can bound. Make a column of the others yourself"
        )
    if name not in variables:
        known = f"there are {', '.join(map(repr, variables))}"
        raise ValueError(
            f"no variable {name!r} is described; {did_you_mean(name, variables, known)}"
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
    def square(self) -> float:
        """What these columns add to a row's square, at most."""
        return self.weight**2

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
        weight_of: dict[Piece, float] = {}
        for term in terms:
            _check_size(math.prod(top for _, top in term.degrees))
            for piece in term.pieces():
                # What is in two terms takes the larger weight.
                weight_of[piece] = max(weights.get(term, 1.0), weight_of.get(piece, 0.0))
        if intercept:
            weight_of.setdefault(ONES, 1.0)
        pieces = _maximal(weight_of)
        self.stored: list[Stored] = []
        start = 0
        for piece in pieces:
            shape = self._shape(piece)
            if math.prod(shape) > MAX_LEVELS:
                raise ValueError(
                    f"{':'.join(piece.factors)} has {math.prod(shape):,} combinations of levels "
                    f"and a second moment at most {MAX_LEVELS:,} columns: leave the product out, "
                    "or merge levels"
                )
            self.stored.append(Stored(piece, start, shape, weight_of[piece]))
            start += math.prod(shape)
        _check_size(start)
        self.size = start

    def reads(self, piece: Piece) -> tuple[str, ...]:
        """The variables of the table that a piece is made of."""
        return (*(name for name, _ in piece.powers), *piece.factors)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the columns are called."""
        return tuple(name for stored in self.stored for name in self._names(stored.piece))

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
        all do where every number is at its upper bound. Features of a term have the length 1
        together.
        """
        with DefaultRounding():
            return math.fsum(stored.square for stored in self.stored)

    def farthest(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """The largest size that each linear image of a row can have, at most, shape (m,).

        The images are by the rows of the matrix, (m, size). Of a piece's columns one counts, as
        large as its weight.
        """
        starts = [stored.start for stored in self.stored]  # each ends where the next begins
        weights = np.array([stored.weight for stored in self.stored])
        largest = np.maximum.reduceat(np.abs(matrix), starts, axis=1)
        return np.asarray(np.sum((largest * weights).T, axis=0))

    @cached_property
    def _by_powers(self) -> dict[tuple[tuple[str, int], ...], list[Stored]]:
        stored_by_powers: dict[tuple[tuple[str, int], ...], list[Stored]] = {}
        for stored in self.stored:
            stored_by_powers.setdefault(stored.piece.powers, []).append(stored)
        return stored_by_powers

    def find(self, piece: Piece) -> Stored | None:
        """The stored piece of which a piece's columns are sums: the one of the fewest columns."""
        alike = self._by_powers.get(piece.powers, ())
        implying = [stored for stored in alike if stored.piece.implies(piece)]
        return min(implying, key=lambda stored: stored.size, default=None)

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


def _check_size(columns: int) -> None:
    if columns > MAX_LEVELS:
        raise ValueError(
            f"the terms make {columns:,} columns and a second moment has at most {MAX_LEVELS:,}"
        )


def _maximal(wanted: Mapping[Piece, float]) -> list[Piece]:
    """The pieces that follow from no other; the column of ones last."""
    # By each of its factors, and by none.
    having: dict[tuple[Any, str | None], list[Piece]] = {}
    for piece in wanted:
        for factor in (None, *piece.factors):
            having.setdefault((piece.powers, factor), []).append(piece)

    def follows(piece: Piece) -> bool:
        others = min((having[piece.powers, x] for x in (None, *piece.factors)), key=len)
        return any(other != piece and other.implies(piece) for other in others)

    maximal = [piece for piece in wanted if not follows(piece)]
    return sorted(maximal, key=lambda piece: piece == ONES)


# Formulas in the manner of R, with the parts that pyfixest adds.
#
# `y ~ x | firm` takes a factor along that is not shown, `y ~ x | d ~ z` and
# `y ~ x + [d ~ z]` have d explained by z. What other packages mean by the same signs is refused.

#: A formula may multiply out to so many terms in one place.
MOST_PRODUCTS = 10_000

_LOGGED = re.compile(r"(?:np\.)?log\(\s*(\w[\w.]*)\s*\)")

#: A factor whose reference the formula says: as formulaic, patsy and pyfixest write it.
_REFERENCE = re.compile(
    r"""C\((?P<name>[\w.]+), (?:contr\.)?[Tt]reatment\((?:(?:reference|base)=)?(?P<level>.+)\)\)"""
    r"""|i\((?P<other>[\w.]+)(?:, ref=(?P<ref>.+))?\)"""
)

#: The least parts of a formula: signs, quoted names and texts, words, and brackets.
_LEXEME = re.compile(r"""\*\*|%in%|`[^`]+`|"[^"]*"|'[^']*'|[\w.]+|\S""")

#: How tightly signs bind.
_BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "in": 2, "%in%": 2, ":": 3, "**": 4, "^": 4}

#: Products of parts by what they are of: a:b and b:a are one.
_Products: TypeAlias = dict[frozenset[str], tuple[str, ...]]


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
    offset: str | None = None  # a column, or its logarithm, that is added to what is explained by
    survival: tuple[str, ...] = ()  # the columns that Surv() has: perhaps a start, a time, an event
    strata: tuple[str, ...] = ()  # factors whose levels have baseline hazards of their own

    @property
    def explaining(self) -> tuple[str, ...]:
        """All terms of the right-hand side."""
        return (*self.features, *self.absorbed, *self.endogenous, *self.instruments)

    @property
    def terms(self) -> tuple[str, ...]:
        """All terms of either side."""
        offset = () if self.offset is None else (self.offset,)
        targets = (*self.survival, *self.strata) or self.targets
        return tuple(dict.fromkeys((*targets, *self.explaining, *offset)))

    def check_no_offset(self) -> None:
        """Raise if least squares are asked for with an offset."""
        if self.offset is not None:
            target = self.targets[0] if self.targets else "the target"
            raise ValueError(
                f"offset({self.offset}) is of family='binomial' and 'poisson': of least squares "
                f"subtract it from {target} yourself"
            )

    def check_absorbed(self, variables: Mapping[str, Variable]) -> None:
        """Raise if what is absorbed has a number in it: a feature, or an instrument of one."""
        target = self.targets[0] if self.targets else "y"
        for text in self.absorbed:
            for part in _split(text, ":"):
                name = part if part in variables else _CATEGORY.sub(r"\1", part)
                unknown = name not in variables and variables  # is said elsewhere
                if not (unknown or isinstance(variables.get(name), (Factor, Boolean))):
                    some = self.features[0] if self.features else "x"
                    raise ValueError(
                        f"after | stand factors whose effects are taken along, and {text!r} is "
                        f"none. As a feature write '{target} ~ {some} + {text}'; as an instrument "
                        f"of {some!r}, '{target} ~ 1 | {some} ~ {text}'"
                    )


def parse(formula: str) -> Parsed:
    """Read a formula with or without a left-hand side."""
    if not isinstance(formula, str):
        raise TypeError(
            "a formula is text, such as 'wage ~ age + sex*region', of columns by their names: "
            "arrays X and y are a table such as {'x': X[:, 0], 'y': y}, with the formula 'y ~ x'"
        )
    if not formula.strip():
        raise ValueError("the formula is empty; write one such as 'wage ~ age + sex*region'")
    reader = _Reader(formula)
    main, *parts = reader.split(reader.tokens(), "|")
    left, right = reader.sides(main)
    absorbed: _Products = {}
    for part in parts:
        if "~" in part:
            reader.stage(part)
        elif absorbed:
            raise ValueError(
                f"{formula!r} has two parts of factors: join them by +, and write instruments as "
                "'y ~ x | firm | d ~ z'"
            )
        else:
            absorbed = reader.products(part)
    offset = reader.take_offset(right, [left, absorbed, reader.endogenous, reader.instruments])
    survival, strata = reader.take_survival(left, right)
    features, effects, instruments = map(_labels_of, (right, absorbed, reader.instruments))
    _check_absorbed_once(_labels_of(left), features, effects)
    return Parsed(
        targets=_labels_of(left),
        # As pyfixest has it, what is instrumented may be written among the features too.
        features=tuple(text for text in features if text not in _labels_of(reader.endogenous)),
        intercept=frozenset() in right,
        logs=frozenset(_LOGGED.findall(formula)),
        absorbed=effects,
        endogenous=_labels_of(reader.endogenous),
        instruments=instruments,
        references=reader.references,
        offset=offset,
        survival=survival,
        strata=strata,
    )


def _names_in(text: str, call: re.Pattern[str]) -> tuple[str, ...]:
    """The names between the brackets of a call, none where it is another."""
    match = call.fullmatch(text)
    return () if match is None else tuple(name.strip(" `") for name in match[1].split(","))


def _labels_of(products: _Products) -> tuple[str, ...]:
    """Terms as they are written, without the intercept."""
    return tuple(":".join(parts) for parts in products.values() if parts)


class _Reader:
    """Reads one formula: its tokens are signs, brackets around sums, and what is between these."""

    def __init__(self, formula: str) -> None:
        self.formula = formula
        self.references: dict[str, str] = {}
        self.endogenous: _Products = {}
        self.instruments: _Products = {}

    def refused(self, reason: str) -> ValueError:
        return ValueError(f"{self.formula!r} cannot be read as a formula: {reason}")

    def tokens(self) -> list[str]:
        """Signs, and names or calls of functions, each with all that is in its brackets."""
        tokens: list[str] = []
        depth, end, called = 0, 0, False
        for match in _LEXEME.finditer(self.formula):
            lexeme = match[0]
            if depth or lexeme == "{" or (called and match.start() == end and lexeme in "(["):
                tokens += [""] * (lexeme == "{" and not depth)
                depth += (lexeme in "([{") - (lexeme in ")]}")
                words = tokens[-1][-1:].isalnum() and lexeme[0].isalnum()
                tokens[-1] += " " * words + lexeme + " " * (lexeme == ",")
            else:
                tokens.append(lexeme)
                called = lexeme[0].isalpha() or lexeme[0] in "_"
            end = match.end()
        if depth:
            raise self.refused("its brackets do not match")
        return tokens

    def split(self, tokens: list[str], sign: str) -> list[list[str]]:
        """Tokens between signs, which do not stand in brackets."""
        parts: list[list[str]] = [[]]
        depth = 0
        for token in tokens:
            depth += (token in "([") - (token in ")]")
            if token == "|" and depth:
                raise ValueError(
                    f"{self.formula!r} has a | in brackets: effects of groups are fixed, and "
                    "written after the features, as in 'y ~ x | group'"
                )
            if token == sign and not depth:
                parts.append([])
            else:
                parts[-1].append(token)
        if sign == "|" and not all(parts):
            raise ValueError(f"{self.formula!r} has an empty part")
        return parts

    def sides(self, tokens: list[str]) -> tuple[_Products, _Products]:
        """Sums on the left and on the right, to which a one belongs unless it is taken off."""
        *before, right = self.split(tokens, "~")
        if len(before) > 1:
            raise self.refused("it has two ~")
        left = self._target(before[0]) if before else {}
        if not right:
            raise self._nothing_after("~")
        return left, self.products(["1", *([] if right[0] in ("+", "-") else ["+"]), *right])

    def stage(self, tokens: list[str]) -> None:
        """Take note of what is explained by instruments, and of these."""
        sides = self.split(tokens, "~")
        if len(sides) > 2:
            raise ValueError(f"{self.formula!r} has two ~ in one part: write one | for each")
        self.endogenous |= self.products(sides[0])
        self.instruments |= self.products(sides[-1])

    def take_offset(self, right: _Products, others: list[_Products]) -> str | None:
        """What offset() has among the features, which it is taken from."""
        found = [key for key in right if any(map(_OFFSET.fullmatch, key))]
        elsewhere = (part for products in others for key in products for part in key)
        alone = len(found) <= 1 and all(len(key) == 1 for key in found)
        if not alone or any(map(_OFFSET.fullmatch, elsewhere)):
            raise ValueError(
                f"{self.formula!r} has an offset in a product, twice, or in a part of its own: one "
                "stands by itself among the features, as in 'y ~ x + offset(log(years))'"
            )
        if not found:
            return None
        [text] = right.pop(found[0])
        match = _OFFSET.fullmatch(text)
        assert match is not None
        return match[1]

    def take_survival(
        self, left: _Products, right: _Products
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns of Surv() as a target, and those of strata(), taken from the features."""
        times = [_names_in(text, _SURV) for text in _labels_of(left)]
        survival = next(filter(None, times), ())
        if survival and (len(times) > 1 or len(survival) not in (2, 3)):
            raise ValueError(
                f"{self.formula!r} explains one Surv(time, event), or Surv(start, stop, event)"
            )
        strata: tuple[str, ...] = ()
        for key in [key for key in right if any(map(_STRATA.fullmatch, key))]:
            if len(key) > 1 or not survival:
                raise ValueError(
                    f"{self.formula!r} has strata() in a product, or without a Surv(time, event): "
                    "it stands by itself among the features of one, as in "
                    "'Surv(time, event) ~ age + strata(sex)'"
                )
            strata += _names_in(right.pop(key)[0], _STRATA)
        return survival, strata

    def products(self, tokens: list[str]) -> _Products:
        """What a sum of terms multiplies out to."""
        if tokens and tokens[-1] in _BINDS:
            raise self._nothing_after(tokens[-1])
        rest = tokens[::-1]
        try:
            products = self._sum(rest, 1, "~")
        except RecursionError:
            raise self.refused("its brackets are nested too deeply") from None
        if rest:
            raise self.refused(
                f"there is no sign before {rest[-1]!r}, or a name with spaces has no backquotes"
            )
        products.pop(frozenset("0"), None)
        return products

    def _target(self, tokens: list[str]) -> _Products:
        """The left-hand side: columns as they are, their logarithms or levels."""
        if not tokens:
            raise ValueError(f"{self.formula!r} has nothing before the ~")
        for token in tokens:
            plain = token[-1] not in ")]" or any(
                kind.fullmatch(token) for kind in (LOG_CALL, _LEVEL, _SURV)
            )
            if token != "+" and (not plain or token in _BINDS):
                raise ValueError(
                    f"{self.formula!r} computes its target: before the ~ stands a column, its "
                    "logarithm, log(y), or a level of a factor, g[a]. Make a column of anything "
                    "else yourself"
                )
        return self.products(tokens)

    def _nothing_after(self, sign: str) -> ValueError:
        missing = "the features, or 1 for none" if sign == "~" else "the term that is missing"
        return ValueError(f"{self.formula!r} has nothing after a {sign}: write {missing}")

    def _sum(self, rest: list[str], binds: int, after: str) -> _Products:
        """What comes before a sign that binds less tightly, read from the end of the list."""
        left = self._part(rest, after)
        while rest and (tightness := _BINDS.get(rest[-1], 0)) >= binds:
            sign = rest.pop()
            while sign in ("+", "-") and rest and rest[-1] in ("+", "-"):
                sign = "+" if sign == rest.pop() else "-"
            if sign in ("**", "^"):
                left = self._power(left, rest.pop() if rest else "", sign)
            else:
                left = self._combined(sign, left, self._sum(rest, tightness + 1, sign))
        return left

    def _part(self, rest: list[str], after: str) -> _Products:
        """A name, a call, or a sum in brackets."""
        token = rest.pop() if rest else ")"
        if token in ("+", "-"):
            part = self._sum(rest, 2, token)
            return part if token == "+" else {}
        if token == "(":
            products = self._sum(rest, 1, token)
            if not rest or rest.pop() != ")":
                raise self.refused("its brackets do not match")
            return products
        if token == "[":  # d ~ z
            close = rest.index("]") if "]" in rest else len(rest)
            self.stage(rest[:close:-1])
            del rest[close:]
            return {}
        if token in _BINDS or token in ")]~":
            raise self._nothing_after(after) if after != "(" else self.refused("there is no term")
        if token == ".":
            raise self.refused("name the features instead of .")
        if token == "1":
            return {frozenset(): ()}
        if not (token[0].isalnum() or token[0] in "_`{"):
            raise self.refused(f"there is a {token}")
        name = self._named(token)
        return {frozenset({name}): (name,)}

    def _named(self, token: str) -> str:
        """A part of a term as it is written, without the reference that a factor has."""
        match = _REFERENCE.fullmatch(token)
        if match is None:
            return token.strip("`") if token[0] == "`" else token
        name, level = match["name"] or match["other"], match["level"] or match["ref"]
        if level is not None:
            self.references[name] = level.strip("\"'")
        return f"C({name})"

    def _power(self, products: _Products, exponent: str, sign: str) -> _Products:
        if not exponent:
            raise self._nothing_after(sign)
        if not exponent.isdecimal() or not 1 <= int(exponent[:9]) <= MAX_DEGREE:
            raise ValueError(
                f"{self.formula!r} has a power that is no number from 1 to {MAX_DEGREE}: "
                "(a + b)**2 are two terms and their product, and effects of pairs of levels are "
                "'f:g'"
            )
        if len(products.keys() - {frozenset()}) < 2:
            raise ValueError(
                f"{self.formula!r} has a power of {':'.join(_labels_of(products)) or '1'!r}, which "
                "formulas take for the term itself: powers of a number x up to the k-th are "
                "written poly(x, k)"
            )
        _check_many(len(products) ** int(exponent), self.formula)
        powers = products
        for _ in range(int(exponent) - 1):
            powers = _times(powers, products)
        return powers

    def _combined(self, sign: str, left: _Products, right: _Products) -> _Products:
        if sign in ("+", "-"):
            zero = right.keys() == {frozenset("0")}  # + 0 takes the one off, - 0 gives it back
            if zero:
                sign, right = "-+"[sign == "-"], {frozenset(): ()}
            if sign == "-":
                return {key: parts for key, parts in left.items() if key not in right}
            for key in right:  # in place: there may be thousands of features
                left.setdefault(key, right[key])
            return left
        if frozenset("0") in left.keys() | right.keys():
            raise self.refused(f"0 takes off the intercept, and does not stand beside a {sign}")
        if sign in ("*", ":") and left == right and len(left) == 1:
            raise ValueError(
                f"{self.formula!r} multiplies {':'.join(*left.values()) or '1'!r} by itself, which "
                "formulas take for the term itself: write a number x and its square as poly(x, 2)"
            )
        if sign in ("in", "%in%"):
            left, right, sign = right, left, "/"
        _check_many(len(left) * len(right), self.formula)
        if sign == "/":
            every = tuple(dict.fromkeys(chain.from_iterable(left.values())))
            return left | _times({frozenset(every): every}, right)
        crossed = _times(left, right)
        return crossed if sign == ":" else left | right | crossed


def _times(left: _Products, right: _Products) -> _Products:
    products: _Products = {}
    for one, other in product(left.values(), right.values()):
        parts = tuple(dict.fromkeys((*one, *other)))
        products.setdefault(frozenset(parts), parts)
    return products


def _check_many(products: int, formula: str) -> None:
    if products > MOST_PRODUCTS:
        raise ValueError(
            f"{formula[:80]!r} multiplies out to more than {MOST_PRODUCTS:,} terms: write those "
            "that you want"
        )


def _check_absorbed_once(
    targets: Sequence[str], features: Sequence[str], absorbed: Sequence[str]
) -> None:
    """Raise if a term is a feature and absorbed: `y ~ x + w | z + w` has instruments in AER."""
    both = [text for text in features if text in absorbed]
    if not both:
        return
    target = targets[0] if targets else "y"
    exogenous = " + ".join(text for text in features if text not in both) or "x"
    instruments = " + ".join(text for text in absorbed if text not in both) or "z"
    raise ValueError(
        f"after | stand factors whose effects are taken along, and {both[0]!r} is among the "
        f"features too. Instruments are written '{target} ~ {' + '.join(both)} | {exogenous} ~ "
        f"{instruments}'"
    )


def parse_one(formula: str) -> Parsed:
    """Read a formula with one target."""
    parsed = parse(formula)
    if not parsed.targets:
        raise ValueError(f"{formula!r} has no target; write one before a ~, such as 'wage ~ age'")
    if len(parsed.targets) > 1:
        raise ValueError(
            f"{formula!r} has {len(parsed.targets)} targets, and a fit has one: ask for each apart"
        )
    return parsed
