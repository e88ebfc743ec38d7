"""Terms: what enters the second moment, which columns are stored for it, and formulas of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from keyword import kwlist
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privgram._base.installed import extra
from privgram._core.scale import DefaultRounding
from privgram.columns.features import CALL, Feature, RandomFeatures
from privgram.columns.variables import MAX_LEVELS, Boolean, Factor, Log, Numeric, Variable

if TYPE_CHECKING:
    from formulaic.parser.types import ASTNode, Token
    from formulaic.parser.types import Term as FormulaicTerm

# A term is a product of polynomials and factors, or has random features. Its columns are the
# products of Legendre polynomials with the indicators of every level, none left out: leaving out
# a reference is up to each regression. Each feature is a variable of its own here.

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
    """A product of variables, with the degrees up to which polynomials of them go; or features."""

    degrees: tuple[tuple[str, int], ...]
    factors: tuple[str, ...]
    features: RandomFeatures | None = None
    inputs: tuple[str, ...] = ()  # the variables that features are made of

    @property
    def names(self) -> tuple[str, ...]:
        """The variables in it."""
        return (*(name for name, _ in self.degrees), *self.inputs, *self.factors)

    @cached_property
    def feature_variables(self) -> dict[str, Feature]:
        """The features of the term as variables."""
        if self.features is None:
            return {}
        return dict.fromkeys(self.features.names, Feature(self.features, self.inputs))

    def pieces(self) -> Iterator[Piece]:
        """The columns of the term, by polynomial or feature."""
        if self.features is not None:
            yield from (Piece(((name, 1),)) for name in self.feature_variables)
            return
        names = [name for name, _ in self.degrees]
        for powers in product(*(range(1, top + 1) for _, top in self.degrees)):
            yield Piece(tuple(zip(names, powers, strict=True)), self.factors)

    def label(self, variables: Mapping[str, Variable]) -> str:
        """The term as it is written: 'poly(age, 2):sex'."""
        if self.features is not None:
            return str(self.features)
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


def parse_terms(
    texts: Iterable[str | RandomFeatures], variables: Mapping[str, Variable]
) -> tuple[Term, ...]:
    """Read terms as they are written: 'poly(age, 2)', 'sex', 'age:sex', 'sex*region', 'rf(age)'."""
    if isinstance(texts, (str, RandomFeatures)):
        texts = [texts]
    terms: dict[Term, None] = {}  # in their order
    for text in texts:
        if isinstance(text, RandomFeatures):
            text = str(text)
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
    random: list[tuple[RandomFeatures, tuple[str, ...]]] = []
    for part in parts:
        if part not in variables and (match := CALL.fullmatch(part)):
            random.append(_random_features(match[1], variables))
            continue
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
    if random and len(random) + len(degrees) + len(factors) > 1:
        raise ValueError(
            f"{random[0][0]} is multiplied by nothing: name a number among its own, as in "
            "rf(x, z), and for a function in each level of a factor release groups, "
            "by=pg.Groups(...)"
        )
    # In the order of the description, so that a:b and b:a are one term.
    place = list(variables).index
    return Term(
        tuple(sorted(degrees.items(), key=lambda power: place(power[0]))),
        tuple(sorted(factors, key=place)),
        *(random[0] if random else ()),
    )


def _random_features(
    text: str, variables: Mapping[str, Variable]
) -> tuple[RandomFeatures, tuple[str, ...]]:
    """Random features as they are written, of labels, and the variables that they are made of."""
    features = RandomFeatures.parse(text)
    inputs = []
    for part in features.columns or ():
        name, degree = _function(part, variables)
        if degree != 1:
            raise ValueError(
                f"rf({text}) is made of numbers and their logarithms, and {part!r} is neither: "
                "make it a term beside"
            )
        inputs.append(name)
    labels = [as_numeric(name, variables).label(name) for name in inputs]
    return replace(features, columns=labels), tuple(inputs)


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
        raise ValueError(
            f"the function {match.group(1)!r} is not known here: a term has poly(x, k), log(x), "
            "C(x) and rf(x, z), whose values public bounds can bound. Make a column of the others "
            "yourself"
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
    part: float = 1.0  # of its squared weight that counts in a row's square: 1/n of n features

    @property
    def size(self) -> int:
        """Number of columns."""
        return math.prod(self.shape)

    @property
    def square(self) -> float:
        """What these columns add to a row's square, at most, all features of a term together."""
        return self.weight**2 * self.part

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
        features = {name: one for term in terms for name, one in term.feature_variables.items()}
        #: Those of the table, and features made of them.
        self.variables = {**variables, **features}
        weight_of: dict[Piece, float] = {}
        for term in terms:
            n_features = len(term.feature_variables)
            _check_size(math.prod(top for _, top in term.degrees) * max(n_features, 1))
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
            parts = (features[name].features.n for name, _ in piece.powers if name in features)
            part = 1 / next(parts, 1)
            self.stored.append(Stored(piece, start, shape, weight_of[piece], part))
            start += math.prod(shape)
        _check_size(start)
        self.size = start

    def reads(self, piece: Piece) -> tuple[str, ...]:
        """The variables of the table that a piece is made of."""
        names: list[str] = []
        for name, _ in piece.powers:
            described = self.variables[name]
            names += described.inputs if isinstance(described, Feature) else [name]
        return (*names, *piece.factors)

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
        sizes = np.abs(matrix)
        parts = [stored.weight * sizes[:, stored.columns].max(axis=1) for stored in self.stored]
        return np.asarray(np.sum(parts, axis=0))

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


# Formulas in the manner of R, read by formulaic, with the parts that pyfixest adds.
#
# `y ~ x | firm` takes a factor along that is not shown, `y ~ x | d ~ z` and
# `y ~ x + [d ~ z]` have d explained by z. What other packages mean by the same signs is refused.

#: A formula may multiply out to so many terms in one place.
MOST_PRODUCTS = 10_000

_LOGGED = re.compile(r"(?:np\.)?log\(\s*(\w[\w.]*)\s*\)")

#: A factor whose reference the formula says: as formulaic, patsy and pyfixest write it.
_REFERENCE = re.compile(
    r"""(?:C\(\s*([\w.]+)\s*,\s*(?:contr\.)?[Tt]reatment\(\s*(?:(?:reference|base)\s*=\s*)?"""
    r"""(?:"([^"]*)"|'([^']*)'|(-?\w+))\s*\)\s*\)"""
    r"""|i\(\s*([\w.]+)\s*(?:,\s*ref\s*=\s*(?:"([^"]*)"|'([^']*)'|(-?\w+))\s*)?\))"""
)

#: Where R's lme4 has groups with random effects.
_IN_BRACKETS = re.compile(r"\([^()]*\|")

#: A sign at the end of a side, or of brackets.
_DANGLING = re.compile(r"(\*\*|[-+*/:^~])\s*(?=$|[~)])")

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
    def explaining(self) -> tuple[str, ...]:
        """All terms of the right-hand side."""
        return (*self.features, *self.absorbed, *self.endogenous, *self.instruments)

    @property
    def terms(self) -> tuple[str, ...]:
        """All terms of either side."""
        return tuple(dict.fromkeys((*self.targets, *self.explaining)))

    def check_absorbed(self, variables: Mapping[str, Variable]) -> None:
        """Raise if what is absorbed has a number in it: a feature, or an instrument of one."""
        target = self.targets[0] if self.targets else "y"
        for text in self.absorbed:
            for part in _split(text, ":"):
                name = part if part in variables else _CATEGORY.sub(r"\1", part)
                is_random = CALL.fullmatch(part)
                unknown = name not in variables and variables and not is_random  # is said elsewhere
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
        raise TypeError("a formula is text, such as 'wage ~ age + sex*region'")
    if not formula.strip():
        raise ValueError("the formula is empty; write one such as 'wage ~ age + sex*region'")
    references: dict[str, str] = {}

    def plain(match: re.Match[str]) -> str:
        name, level = match[1] or match[5], next(filter(None, match.group(2, 3, 4, 6, 7, 8)), None)
        if level is not None:
            references[name] = level
        return f"C({name})"

    main, *parts = _split(_REFERENCE.sub(plain, formula), "|")
    if _IN_BRACKETS.search(main):
        raise ValueError(
            f"{formula!r} has a | in brackets: effects of groups are fixed, and written after the "
            "features, as in 'y ~ x | group'"
        )
    _check_complete(_STAGE.sub("1", main), formula)
    stages: list[list[str]] = [list(sides) for sides in _STAGE.findall(main)]
    if stages:
        main = re.sub(r"(?:\+|(?<!\s))\s*" + _STAGE.pattern, "", main)
        main = re.sub(r"\+\s*$|(?<=~)\s*\+", "", main).strip()
        main += " 1" if main.endswith("~") else ""
    absorbed: list[str] = []
    for part in parts:
        sides = _split(part, "~")
        if len(sides) > 2:
            raise ValueError(f"{formula!r} has two ~ in one part: write one | for each")
        if len(sides) == 2:
            stages.append(sides)
        elif absorbed:
            raise ValueError(
                f"{formula!r} has two parts of factors: join them by +, and write instruments as "
                "'y ~ x | firm | d ~ z'"
            )
        else:
            absorbed += _right(part, formula)
    endogenous = [text for explained, _ in stages for text in _right(explained, formula)]
    instruments = [text for _, outside in stages for text in _right(outside, formula)]
    left, right = _sides(main, formula)
    features = [text for text in right if text not in ("1", "0")]
    if "~" in formula and not left:
        raise ValueError(f"{formula!r} has nothing before the ~")
    _check_absorbed_once(left, features, absorbed)
    # As pyfixest has it, what is instrumented may be written among the features too.
    return Parsed(
        targets=tuple(left),
        features=tuple(text for text in features if text not in endogenous),
        intercept="1" in right,
        logs=frozenset(_LOGGED.findall(formula)),
        absorbed=tuple(dict.fromkeys(absorbed)),
        endogenous=tuple(dict.fromkeys(endogenous)),
        instruments=tuple(dict.fromkeys(instruments)),
        references=references,
    )


def _check_complete(text: str, formula: str) -> None:
    """Raise if a sign has nothing after it."""
    if dangling := _DANGLING.search(text):
        sign = dangling[1]
        missing = "the features, or 1 for none" if sign == "~" else "the term that is missing"
        raise ValueError(f"{formula!r} has nothing after a {sign}: write {missing}")


def _check_absorbed_once(targets: Sequence[str], features: list[str], absorbed: list[str]) -> None:
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


def _right(text: str, formula: str) -> list[str]:
    """Terms of one side, without the intercept."""
    _check_complete(text, formula)
    return [term for term in _sides(text, formula)[1] if term not in ("1", "0")]


@lru_cache(maxsize=64)  # one answer asks several times
def _sides(text: str, formula: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Terms on the left and on the right."""
    if (sums := _sums(text)) is not None:
        return sums
    with extra("formula", "formulas need"):
        from formulaic.errors import FormulaicError
        from formulaic.parser import DefaultFormulaParser
    parser = DefaultFormulaParser(include_intercept=True)
    text = _KEYWORD.sub(rf"\g<0>{_ESCAPE}", text)
    try:
        _check_tree(parser.get_ast(text), formula)
        terms = parser.get_terms(text)
    except (FormulaicError, SyntaxError, RecursionError) as error:
        reason = str(error).splitlines()[0].partition(". ")[0]
        if "`.`" in reason:
            reason = "name the features instead of ."
        raise ValueError(f"{formula!r} cannot be read as a formula: {reason}") from None
    left = _terms(getattr(terms, "lhs", ()), formula)
    right = _terms(getattr(terms, "rhs", getattr(terms, "root", terms)), formula)
    return tuple(x.replace(_ESCAPE, "") for x in left), tuple(x.replace(_ESCAPE, "") for x in right)


# Sums of columns, of their logarithms, levels and polynomials, are read here: importing formulaic
# brings pandas, which takes ten times as long as all the rest of a first regression.
_NAME = r"(?!(?:{})\b)[A-Za-z_]\w*".format("|".join(kwlist))
_SUMMAND = re.compile(
    rf" *(?:(1)|({_NAME})|(log|C)\( *({_NAME}) *\)|poly\( *({_NAME}) *, *([1-9]\d?) *\)"
    r"|(rf\((?:[^()+]|log\(\w+\))*\))) *",
    re.ASCII,
)


def _sums(text: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Terms on the left and on the right of a formula of sums alone; None for any other."""
    left: dict[str, None] = {}
    right: dict[str, None] = {"1": None}
    *before, after = text.split("~")
    for side, among in ((before, left), ([after], right)):
        for summand in "+".join(side).split("+") if side else ():
            match = _SUMMAND.fullmatch(summand)
            if match is None or len(side) > 1:
                return None
            one, name, function, inner, base, degree, random = match.groups()
            if among is left and (one or function == "C" or base or random):
                return None
            term = one or name or random or f"poly({base}, {degree})"
            if function:
                term = f"{function}({inner})"
            among[term] = None
    return tuple(left), tuple(right)


#: Columns may have names that are Python's own words, which formulaic does not read in functions.
_KEYWORD = re.compile(rf"\b(?:{'|'.join(sorted(set(kwlist) - {'in', 'None', 'True', 'False'}))})\b")
_ESCAPE = "__word"

#: The terms of a part of a formula, each by its variables.
_Products: TypeAlias = set[frozenset[str]]


def _check_tree(tree: Any, formula: str) -> None:
    """Raise where formulaic would read less than is written, or without an end.

    It takes x**2 for x and y - z for y, and multiplies out whatever power of a sum.
    """
    nodes = [tree] if hasattr(tree, "args") else []
    for node in nodes:  # each before what it is made of
        nodes += [one for one in node.args if hasattr(one, "args")]
    values: dict[int, _Products] = {}
    for node in nodes[:1]:
        if node.operator.symbol == "~" and len(node.args) == 2:
            _check_target(node.args[0], formula)
    for node in reversed(nodes):
        parts = [
            values.pop(id(one))
            if hasattr(one, "args")
            else {frozenset({str(one.token)})} - {frozenset({"1"})}
            for one in node.args
        ]
        symbol = node.operator.symbol
        power = _power(node, formula) if symbol in ("**", "^") else 1
        values[id(node)] = _value(symbol, power, parts, formula)


def _check_target(node: ASTNode | Token, formula: str) -> None:
    """Raise unless the left-hand side has columns as they are, their logarithms or levels."""
    sides = [node]
    for one in sides:
        sum_of = hasattr(one, "args") and one.operator.symbol == "+"
        sides += one.args if sum_of else ()
        computed = hasattr(one, "args") and not sum_of
        if not hasattr(one, "args") and one.kind.value == "python":
            computed = not (LOG_CALL.fullmatch(one.token) or _LEVEL.fullmatch(one.token))
        if computed:
            raise ValueError(
                f"{formula!r} computes its target: before the ~ stands a column, its logarithm, "
                "log(y), or a level of a factor, g[a]. Make a column of anything else yourself"
            )


def _power(node: ASTNode, formula: str) -> int:
    """The exponent of a node."""
    text = str(getattr(node.args[1], "token", ""))
    if not text.isdecimal() or not 1 <= int(text[:9]) <= MAX_DEGREE:
        raise ValueError(
            f"{formula!r} has a power that is no number from 1 to {MAX_DEGREE}: (a + b)**2 are two "
            "terms and their product, and effects of pairs of levels are 'f:g'"
        )
    return int(text)


def _value(symbol: str, power: int, parts: list[_Products], formula: str) -> _Products:
    """The terms of a node, of those of its arguments."""
    left, right = (parts[0], parts[-1]) if parts else (set(), set())
    if symbol == "-":
        return left - right if len(parts) == 2 else set()
    if symbol in ("**", "^"):
        if len(left) < 2:
            some = ":".join(sorted(*left)) if left else "1"
            raise ValueError(
                f"{formula!r} has a power of {some!r}, which formulas take for the term itself: "
                f"powers of a number x up to the k-th are written poly(x, k)"
            )
        _check_many(len(left) ** power, formula)
        powers = left
        for _ in range(power - 1):
            powers = {a | b for a in powers for b in left}
        return powers
    if symbol in ("*", ":") and left == right and len(left) == 1:
        some = ":".join(sorted(*left))
        raise ValueError(
            f"{formula!r} multiplies {some!r} by itself, which formulas take for the term itself: "
            "a number x and its square are written poly(x, 2)"
        )
    if symbol == "in":
        left, right = right, left
    if symbol in ("/", "in"):
        return left | {frozenset().union(*left) | one for one in right}
    products: _Products = set()
    if symbol in ("*", ":"):
        _check_many(len(left) * len(right), formula)
        products = {a | b for a in left for b in right}
    if symbol != ":":
        left |= right  # in place: there may be thousands of features
    return products if symbol == ":" else left | products if products else left


def _check_many(products: int, formula: str) -> None:
    if products > MOST_PRODUCTS:
        raise ValueError(
            f"{formula[:80]!r} multiplies out to more than {MOST_PRODUCTS:,} terms: write those "
            "that you want"
        )


def _terms(terms: Iterable[FormulaicTerm], formula: str) -> tuple[str, ...]:
    try:
        return tuple(":".join(factor.expr for factor in term.factors) for term in terms)
    except AttributeError:
        raise ValueError(
            f"{formula!r} has several parts on one side; write one formula for each"
        ) from None
