"""Which columns a regression is of: terms as linear images of what was released.

The second moment has Legendre polynomials and the indicators of all levels. A regression takes
polynomials in own units and leaves out reference levels: both are linear images, of the
matrix before the fit and of the coefficients after it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privgram._base.numbers import set_fields
from privgram._base.text import did_you_mean, shown
from privgram.columns.encoding import parts_of
from privgram.columns.terms import (
    INTERCEPT,
    LOG_CALL,
    ONES,
    Piece,
    Term,
    as_numeric,
    parse_terms,
)
from privgram.columns.variables import Factor, Numeric, Variable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from pandas import DataFrame

    from privgram._base.numbers import Matrix, Vector
    from privgram._base.saved import JsonObject
    from privgram.columns import Columns
    from privgram.columns.terms import Parsed
    from privgram.noise import NoiseLaw
    from privgram.releases.record import ReleaseRecord


#: Powers of variables, or levels of factors, in the order of the description.
Pairs: TypeAlias = tuple[tuple[str, int], ...]

#: New rows: an array of the features, or a table of the variables.
Features: TypeAlias = "ArrayLike | Mapping[str, ArrayLike] | DataFrame"

#: A product of powers in own units and of indicators of levels; and a sum of such, by coefficients.
Key: TypeAlias = tuple[Pairs, Pairs]
Function: TypeAlias = dict[Key, float]

_ONE: Function = {((), ()): 1.0}


#: Functions are equal that differ by rounding.
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Design:
    """The columns of a regression: p features in own units, made of q columns of the design."""

    target: str
    names: tuple[str, ...]  # of the features in own units, without the intercept
    # (q + 1, d), the design's columns, the intercept last if there is one and then the target, as
    # images of the released columns
    images: Matrix
    positions: tuple[int, ...] | None  # the released columns that they are, where each is one
    intercept: bool  # whether a column of ones is among them
    transform: Matrix  # (p + 1, q), from their coefficients to those in own units, intercept last
    offset: Vector  # (p + 1,), added to these
    terms: dict[str, slice]  # where the names of each term are
    spread: Vector  # (p + 1,), half-widths of `names` and the target; 1 for products and powers
    ends: tuple[float, float]  # the target in own units where its column is -1 and 1
    # the levels that were left out, by factor
    references: dict[str, str] = field(default_factory=dict)
    # factors whose coefficients are differences from these levels, by term
    compared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # (q,), coefficients whose sum is 1 in every row, as of all levels of a factor
    constant: Vector | None = None
    functions: tuple[Key, ...] = ()  # what each name is; none where features are released columns
    # effects that are taken along and not among `names`, by term: the design's columns after them
    hidden: dict[str, tuple[str, ...]] = field(default_factory=dict)
    constant_at: str = ""  # where the constant is with effects that are hidden

    @property
    def has_level(self) -> bool:
        """Whether own units have a constant: of the ones, or where bounds are not about 0."""
        return bool(self.transform[-1].any() or self.offset[-1])

    @property
    def left_out_levels(self) -> list[tuple[list[str], list[str]]]:
        """Terms, none for all, and the levels that their coefficients are differences from."""
        terms: dict[tuple[str, ...], list[str]] = {}
        for label, factors in self.compared.items():
            terms.setdefault(factors, []).append(label)
        of_levels = {
            label for label, at in self.terms.items() if any(cell for _, cell in self.functions[at])
        }
        if set(self.compared) == of_levels:
            together = tuple(dict.fromkeys(name for some in terms for name in some))
            terms = {together: []} if together else {}
        return [
            (list(map(shown, labels)), [f"{shown(x)} {shown(self.references[x])}" for x in factors])
            for factors, labels in terms.items()
        ]

    def block(self, release: ReleaseRecord) -> tuple[NoiseLaw, Matrix]:
        """The second moment of the design's columns, as released, and the law of its noise."""
        if self.positions is not None:
            law = release.noise.marginal(release.n_columns, self.positions)
        else:
            law = release.noise.image(self.images)
        return law, self.moment(release)

    def moment(self, release: ReleaseRecord) -> Matrix:
        """The second moment of the design's columns, as released (a copy)."""
        if self.positions is not None:
            at = np.array(self.positions)
            return np.asarray(release.matrix[at[:, None], at], dtype=np.float64)
        return np.asarray(self.images @ release.matrix @ self.images.T)

    def hiding(self, labels: Iterable[str], release: ReleaseRecord | None = None) -> Design:
        """The same without the last terms among what is shown.

        The constant is at their means, which a release tells, or else at their reference levels.
        """
        hidden = {label: self.names[self.terms[label]] for label in labels}
        if not hidden:
            return self
        p, size = len(self.names), len(self.names) - sum(map(len, hidden.values()))
        at_means = np.zeros((size + 1, p + 1))
        at_means[:size, :size] = np.eye(size)
        at_means[size, p] = 1.0
        if self.intercept and release is not None:
            at_means[size, size:p] = self._means(release, size)
        means, references = "at their means over rows", "of their reference levels"
        return replace(
            self,
            names=self.names[:size],
            transform=at_means @ self.transform,
            offset=at_means @ self.offset,
            terms={label: at for label, at in self.terms.items() if label not in hidden},
            spread=np.append(self.spread[:size], self.spread[-1]),
            compared={label: x for label, x in self.compared.items() if label not in hidden},
            functions=self.functions[:size],
            hidden=hidden,
            constant_at=references if release is None else means,
        )

    def _means(self, release: ReleaseRecord, start: int) -> Vector:
        """Means over rows of the indicators from one on, as the release counts them."""
        ones = intercept_of(release)
        assert ones is not None
        sums = release.unbiased @ ones
        if self.functions:
            origin = Origin(release)
            own = [origin.power(*function) for function in self.functions[start:]]
            means = [unit * (image @ sums) for image, unit in own]
        else:  # released columns of truth values, which are -1 and 1
            means = [(image + ones) @ sums / 2 for image in self.images[start : len(self.names)]]
        return np.clip(np.array(means) / max(float(ones @ sums), 1.0), 0.0, 1.0)

    def places(self, hypothesis: Iterable[str]) -> list[int]:
        """Where the coefficients of terms, or of their own names, are among `names`."""
        wanted = list(hypothesis)
        if not wanted:
            raise ValueError("name the terms to test")
        place = {name: slice(i, i + 1) for i, name in enumerate(self.names)} | self.terms
        for name in wanted:
            if name not in place:
                raise ValueError(
                    f"no term {name!r} in this regression; it has {', '.join(self.terms)}"
                )
        each = np.arange(len(self.names))
        return sorted({i for name in wanted for i in each[place[name]].tolist()})

    def reads(self, columns: Columns) -> dict[str, Variable]:
        """The variables of a table that the features are computed from."""
        used: set[str] = set()
        for powers, cells in self.functions:
            used |= set(columns.layout.reads(Piece(powers, tuple(name for name, _ in cells))))
        return {name: one for name, one in columns.variables.items() if name in used}

    def rows(self, table: Any, columns: Columns) -> Matrix:
        """The features (m, p) in own units of a raw table, clamped as for the release."""
        reads = self.reads(columns)
        parts = dict(zip(reads, parts_of(table, reads), strict=True))
        size = max((len(part) for part in parts.values()), default=len(table))
        features = np.ones((size, len(self.names)))
        values: dict[str, NDArray[Any]] = {}
        for name, described in reads.items():
            part = parts[name]
            if isinstance(described, Numeric):
                values[name] = described.clamp(part)  # type: ignore[arg-type]
            else:
                values[name] = part.plain()  # type: ignore[union-attr]
        for column, (powers, cells) in zip(features.T, self.functions, strict=True):
            for name, power in powers:
                column *= values[name] ** power
            for name, level in cells:
                column *= np.where(values[name] < 0, np.nan, values[name] == level)
        return features


def features_of(design: Design, columns: Columns | None, X: Any) -> Matrix:
    """New rows as the features of a design in own units, shape (m, p)."""
    if design.functions and columns is not None:
        return design.rows(X, columns)
    names = design.names
    known = X if isinstance(X, Mapping) else getattr(X, "columns", None)
    if known is not None and hasattr(X, "__getitem__"):
        for name in names:
            if name not in known:
                raise ValueError(f"X has no column {name!r}, a feature of this fit")
        parts = [np.asarray(X[name], float) for name in names]
        size = len(next((X[name] for name in known), ()))
        X = np.column_stack(parts) if parts else np.empty((size, 0))
    values = np.asarray(X, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise ValueError(
            f"X must have shape (m, {len(names)}), one column a feature, not {values.shape}"
        )
    return values


#: Fields of `RegressionTerms` that are terms, besides the features.
_TUPLES = ("absorbed", "endogenous", "instruments")


@dataclass(frozen=True)
class RegressionTerms:
    """What a regression is asked of: terms that explain a target, named or read off a formula."""

    target: str | int
    features: tuple[str | int, ...] | None  # by default all but the target
    intercept: bool = True
    references: Mapping[str, Any] = field(default_factory=dict)  # levels to leave out, by factor
    absorbed: tuple[str, ...] = ()  # taken along, after the features, and not shown
    endogenous: tuple[str, ...] = ()  # explained by instruments, before the features
    instruments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.intercept, (bool, np.bool_)):
            raise TypeError("intercept is True or False")
        set_fields(self, intercept=bool(self.intercept))

    @classmethod
    def of(
        cls, parsed: Parsed, intercept: bool = True, reference: Mapping[str, Any] | None = None
    ) -> RegressionTerms:
        """A formula with one target; what is asked beside it holds too."""
        if parsed.survival:
            raise ValueError(
                "Surv(time, event) is of Study.regress, with cuts=: a release holds no pieces of "
                "time"
            )
        return cls(
            parsed.targets[0],
            parsed.features,
            intercept and parsed.intercept,
            left_out(parsed.references, reference),
            parsed.absorbed,
            parsed.endogenous,
            parsed.instruments,
        )

    def to_dict(self, names: Sequence[str]) -> JsonObject:
        """What was asked, as plain values for a file; positions are those of `names`."""

        def text(name: str | int) -> str:
            return name if isinstance(name, str) else names[name]

        features = None if self.features is None else list(map(text, self.features))
        plain = {name: list(getattr(self, name)) for name in _TUPLES}
        return {
            "target": text(self.target),
            "features": features,
            "intercept": self.intercept,
            "references": left_out(self.references),
            **plain,
        }

    @classmethod
    def from_dict(cls, values: JsonObject) -> RegressionTerms:
        """Rebuild what `to_dict` gave."""
        tuples = {name: tuple(values[name]) for name in _TUPLES}
        features = None if values["features"] is None else tuple(values["features"])
        return cls(**values | tuples | {"features": features})

    @property
    def target_text(self) -> str:
        """The target as a term."""
        return _text(self.target)

    @property
    def texts(self) -> tuple[str, ...] | None:
        """The features as terms."""
        return None if self.features is None else tuple(map(_text, self.features))


@dataclass(frozen=True)
class AllColumns:
    """All columns of a description."""

    columns: Columns

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return self.columns.names

    @property
    def n_columns(self) -> int:
        """Their number."""
        return len(self.columns)


#: Columns that a design is of: a release's, or all that a description has.
Described: TypeAlias = "ReleaseRecord | AllColumns"


class Origin:
    """Columns of a regression through the origin of own units, as images of the released ones.

    Each is divided by its largest size within the public bounds.
    """

    def __init__(self, release: Described) -> None:
        self.release = release
        unit = getattr(release, "privacy_unit", None)
        # Columns less the means of units have no constant.
        self.constants = unit is None or not unit.fixed_effects
        self._images: dict[Piece, Matrix | None] = {}

    def line(self, image: Vector, center: float, half_width: float) -> tuple[Vector, float]:
        """A column in own units, of its image in [-1, 1]; and its unit."""
        unit = abs(center) + half_width
        column = image * (half_width / unit)
        if center and self.constants:
            column = column + self._ones() * (center / unit)
        return column, unit

    def _image(self, piece: Piece) -> Matrix | None:
        """The columns of a piece as images, which each of its levels asks for."""
        if piece not in self._images:
            self._images[piece] = _image(self.release, piece)
        return self._images[piece]

    def power(self, powers: Pairs, cell: Pairs) -> tuple[Vector, float]:
        """A product of powers and of an indicator, in own units; and its unit."""
        columns = self.release.columns
        assert columns is not None
        parts, unit = [], 1.0
        for name, power in powers:
            described = as_numeric(name, columns.layout.variables)
            largest = abs(described.center) + described.half_width
            unit *= largest**power
            line = np.array([described.center, described.half_width]) / largest
            series = np.polynomial.Polynomial(line) ** power
            parts.append(np.polynomial.legendre.poly2leg(series.coef))
        factors = tuple(name for name, _ in cell)
        sizes = [len(columns.variables[name]) for name in factors]  # type: ignore[arg-type]
        number = int(np.ravel_multi_index([x for _, x in cell], sizes)) if cell else 0
        total = np.zeros(self.release.n_columns)
        for degrees in product(*(range(len(part)) for part in parts)):
            size = float(np.prod([part[k] for part, k in zip(parts, degrees, strict=True)]))
            left = tuple((name, k) for (name, _), k in zip(powers, degrees, strict=True) if k)
            if size == 0 or not (self.constants or left or factors):
                continue
            image = self._image(Piece(left, factors)) if left or factors else None
            if image is not None:
                total += size * image[number]
            elif left or factors:
                raise ValueError(
                    "powers and products go through the origin where what they are made of was "
                    "released: keep the intercept, or name 'a' and 'b' with 'a:b' among the terms "
                    "of a new release, which costs a budget of its own"
                )
            else:
                total += size * self._ones()
        return total, unit

    def _ones(self) -> Vector:
        ones = next(ones_of(self.release), None)
        if ones is None:
            raise ValueError(
                "without an intercept column a regression would go through the middle of the "
                "public bounds, not through the origin: release with Columns(..., intercept=True), "
                "which serves regressions with and without an intercept, or with bounds about 0"
            )
        return ones

    @staticmethod
    def design(
        columns: list[tuple[Vector, float]], ends: tuple[float, float] | None = None, **known: Any
    ) -> Design:
        """The design of such columns, of which the target is the last."""
        images, units = zip(*columns, strict=True)
        spread = np.array(units)
        p = len(spread) - 1
        transform = np.zeros((p + 1, p))
        transform[:p] = np.diag(spread[-1] / spread[:-1])
        return Design(
            images=np.array(images),
            positions=None,
            intercept=False,
            transform=transform,
            offset=np.zeros(p + 1),
            spread=spread,
            ends=ends or (-float(spread[-1]), float(spread[-1])),
            **known,
        )


def intercept_of(release: Described) -> Vector | None:
    """The column of ones as an image of the released ones, or None: shape (d,)."""
    return next(ones_of(release), None)


def ones_of(release: Described) -> Iterator[Vector]:
    """The column of ones as images of the released ones: by itself, and by each factor's levels."""
    if INTERCEPT in release.names:
        yield np.eye(release.n_columns)[release.names.index(INTERCEPT)]
    elif release.columns is not None and (image := _image(release, ONES)) is not None:
        yield image[0]
    variables = {} if release.columns is None else release.columns.variables
    for name, described in variables.items():
        if isinstance(described, Factor):
            levels = _image(release, Piece((), (name,)))
            if levels is not None:
                yield levels.sum(axis=0)


def _image(release: Described, piece: Piece, number: int | None = None) -> Matrix | None:
    """The columns of a piece, or one of them, as images of the released ones; None if not of these.

    Of the released columns some may be gone.
    """
    assert release.columns is not None
    stored = release.columns.layout.image(piece)
    if stored is None:
        return None
    stored = stored if number is None else stored[[number]]
    if release.names == release.columns.names:  # of thousands, the same objects
        return stored
    place = {name: i for i, name in enumerate(release.columns.names)}
    places = np.array([place[name] for name in release.names])
    lost = np.ones(len(place), bool)
    lost[places] = False
    return None if stored[:, lost].any() else stored[:, places]


def image_of_label(release: Described, name: str) -> tuple[Vector, float, float] | None:
    """A number by its label, or an indicator such as "sex[f]", as an image (d,) of the columns.

    With its own units: center + half_width * image. None if it does not follow from these columns.
    """
    assert release.columns is not None
    for variable, described in release.columns.variables.items():
        if isinstance(described, Numeric) and name == described.label(variable):
            image = _image(release, Piece(((variable, 1),)))
            return None if image is None else (image[0], described.center, described.half_width)
        if isinstance(described, Factor) and name.startswith(f"{variable}["):
            level = name[len(variable) + 1 : -1]
            if level in described.names:
                image = _image(release, Piece((), (variable,)), described.names.index(level))
                return None if image is None else (image[0], 0.0, 1.0)
    return None


def left_out(*references: Mapping[str, Any] | None) -> dict[str, str]:
    """The levels of factors that are left out; what is said last holds."""
    levels: dict[str, str] = {}
    for reference in references:
        if not isinstance(reference, Mapping | None):
            raise TypeError(
                "reference is a mapping of factors to levels, such as {'region': 'north'}, not "
                f"{type(reference).__name__}"
            )
        levels |= {name: str(level) for name, level in (reference or {}).items()}
    return levels


def design(release: Described, terms: RegressionTerms, *, alone: bool = False) -> Design:
    """Take terms of a release whose columns are described.

    The target is a number, its logarithm, or an indicator such as "sex[f]". Of a factor the first
    level is left out where no reference is named. The target may stand `alone` where levels
    explain it of which no columns are made.
    """
    columns = release.columns
    assert columns is not None
    built = _Builder(release, columns, terms.references).build(terms)
    if not (built.names or alone):
        raise ValueError("there is no feature to regress on: name one beside the target")
    return built


def _text(name: str | int) -> str:
    if not isinstance(name, str):
        raise TypeError("terms are named by their text: a position is of one released column")
    return name


@lru_cache(maxsize=1024)
def _legendre(degree: int, center: float, half_width: float) -> tuple[float, ...]:
    """Coefficients of a Legendre polynomial of (x - center) / half_width, of x^0 first."""
    unit = np.polynomial.Polynomial([-center / half_width, 1 / half_width])
    legendre = np.polynomial.Legendre.basis(degree).convert(kind=np.polynomial.Polynomial)
    return tuple(legendre(unit).coef.tolist())


class _Builder:
    """The steps of `design`, and what they share."""

    def __init__(self, release: Described, columns: Columns, reference: Mapping[str, Any]) -> None:
        self.release = release
        self.columns = columns
        variables = columns.layout.variables.items()
        self.numbers = {
            name: described for name, described in variables if isinstance(described, Numeric)
        }
        self.factors = {
            name: described for name, described in variables if isinstance(described, Factor)
        }
        self.left_out = {}
        for name, described in self.factors.items():
            wanted = str(reference.get(name, described.names[0]))
            if wanted not in described.names:
                raise ValueError(f"reference: {wanted!r} is not a level of {name!r}")
            self.left_out[name] = described.names.index(wanted)
        unknown = [name for name in reference if name not in self.left_out]
        if unknown:
            raise ValueError(f"reference: {unknown[0]!r} is not a factor of this release")

    def build(self, request: RegressionTerms) -> Design:
        target, goal, center, half_width = self._target(request.target_text)
        terms = self._terms(target, request.texts)
        with_ones = request.intercept and self.columns.intercept
        ones = intercept_of(self.release) if with_ones else None
        pieces = [piece for term in terms.values() for piece in term.pieces()]
        before = _spanned(pieces, ones is not None)
        images: list[Vector] = []
        scaled: list[Function] = []
        unscaled: list[Function] = []
        names: list[str] = []
        functions: list[Key] = []
        spans: dict[str, slice] = {}
        compared: dict[str, tuple[str, ...]] = {}
        for label, term in terms.items():
            start = len(names)
            for piece in term.pieces():
                image = _image(self.release, piece)
                if image is None:
                    raise ValueError(
                        f"{label!r} does not follow from what was released: name it among the "
                        "terms of a new release, which costs a budget of its own"
                    )
                for number, cell in self._cells(piece, before[piece]):
                    images.append(image[number])
                    scaled.append(self._scaled(piece, cell))
                    unscaled.append(_times({(piece.powers, ()): 1.0}, self._indicator(cell)))
                    names.append(self._name(piece, cell))
                    functions.append((piece.powers, cell))
            spans[label] = slice(start, len(names))
            if left_out := self._compared(term.factors, functions[start:]):
                compared[label] = left_out
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{twice!r} is in two terms: leave it out of one")
        references = {
            name: described.names[self.left_out[name]]
            for name, described in self.factors.items()
            if any(name in some for some in compared.values())
        }
        spread = np.array([*(self._spread(*function) for function in functions), half_width])
        if ones is None:
            origin = Origin(self.release)
            units = [origin.power(powers, cell) for powers, cell in functions]
            # A logistic regression explains the log odds of its target, which has no origin.
            links = isinstance(self.release, AllColumns)
            explained = (goal, half_width) if links else origin.line(goal, center, half_width)
            return origin.design(
                [*units, explained],
                ends=(center - half_width, center + half_width) if links else None,
                target=target,
                names=tuple(names),
                terms=spans,
                references=references,
                compared=compared,
                functions=tuple(functions),
                constant=_held(functions, before),
            )
        images.append(ones)
        scaled.append(_ONE)
        transform, offset = self._in_own_units(scaled, unscaled, center, half_width)
        return Design(
            target=target,
            names=tuple(names),
            images=np.array([*images, goal]),
            positions=None,
            intercept=True,
            transform=transform,
            offset=offset,
            terms=spans,
            spread=spread,
            ends=(center - half_width, center + half_width),
            references=references,
            compared=compared,
            constant=np.eye(len(images))[-1],
            functions=tuple(functions),
        )

    def _target(self, target: str) -> tuple[str, Vector, float, float]:
        """The target's name, and it as an image, with its center and half-width in own units."""
        written = LOG_CALL.sub(r"log(\1)", target.strip())
        for text in (written, target):
            if (located := image_of_label(self.release, text)) is not None:
                return text, *located
        if target in self.factors:
            raise ValueError(
                f"the target {target!r} is a factor: regress one of its indicators, such as "
                f"'{target}[{self.factors[target].names[0]}]', or ask a study for "
                'family="binomial"'
            )
        described = self.numbers.get(target)
        if described is not None and described.label(target) != target:
            raise ValueError(_only_log(target, described))
        names = ", ".join(map(shown, self.columns.layout.names))
        hint = did_you_mean(target, self.columns.layout.names, f"there are {names}")
        raise ValueError(f"no column {target!r} to explain; {hint}")

    def _terms(self, target: str, texts: tuple[str, ...] | None) -> dict[str, Term]:
        variables = self.columns.variables
        if texts is None:
            # Of a marginal, what is left.
            wanted = tuple(
                term
                for term in parse_terms(self.columns.terms, variables)
                if all(_image(self.release, piece) is not None for piece in term.pieces())
            )
        else:
            self._check_logs(texts)
            wanted = parse_terms(texts, variables)
        by_label = {term.label(variables): term for term in wanted}
        of_target = {
            label
            for label, term in by_label.items()
            for name in term.names
            if target == label
            or target.startswith(f"{name}[")
            or (name in self.numbers and target == self.numbers[name].label(name))
        }
        if texts is not None and of_target:
            raise ValueError(f"the target {target!r} is among the features: leave it out there")
        return {label: term for label, term in by_label.items() if label not in of_target}

    def _check_logs(self, texts: tuple[str, ...]) -> None:
        """Refuse a variable by itself of which only the logarithm was released."""
        for name, described in self.numbers.items():
            if described.label(name) == name:
                continue
            alone = re.compile(rf"(?<![\w.]){re.escape(name)}(?![\w.])")
            for text in texts:
                if alone.search(LOG_CALL.sub("", text)):
                    raise ValueError(_only_log(name, described))

    def _spread(self, powers: Pairs, cell: Pairs) -> float:
        """The half-width of a variable by itself."""
        simple = len(powers) == 1 and powers[0][1] == 1 and not cell
        return self.numbers[powers[0][0]].half_width if simple else 1.0

    def _cells(self, piece: Piece, before: set[frozenset[str]]) -> Iterator[tuple[int, Pairs]]:
        """Combinations of levels that are used, with their numbers among all.

        Those are left out whose factors, but for the ones at their references, are in the model
        already: as in R, and what is left depends on nothing (docs/theory/tables.md).
        """
        full = [range(len(self.factors[name])) for name in piece.factors]
        for number, levels in enumerate(product(*full)):
            cell = tuple(zip(piece.factors, levels, strict=True))
            if frozenset(f for f, level in cell if level != self.left_out[f]) not in before:
                yield number, cell

    def _compared(self, factors: tuple[str, ...], functions: list[Key]) -> tuple[str, ...]:
        """Factors whose level at the reference a term does not have: all, if only together."""
        levels = {pair for _, cell in functions for pair in cell}
        absent = tuple(name for name in factors if (name, self.left_out[name]) not in levels)
        together = tuple((name, self.left_out[name]) for name in factors)
        whole = not factors or any(cell == together for _, cell in functions)
        return absent if absent or whole else factors

    def _name(self, piece: Piece, cell: Pairs) -> str:
        powers = (
            self.numbers[name].label(name) + (f"^{power}" if power > 1 else "")
            for name, power in piece.powers
        )
        levels = (f"{name}[{self.factors[name].names[level]}]" for name, level in cell)
        return ":".join([*powers, *levels])

    def _scaled(self, piece: Piece, cell: Pairs) -> Function:
        function = self._indicator(cell)
        for name, degree in piece.powers:
            described = self.numbers[name]
            coefficients = _legendre(degree, described.center, described.half_width)
            polynomial: Function = {
                (((name, k),) if k else (), ()): c for k, c in enumerate(coefficients)
            }
            function = _times(polynomial, function)
        return function

    def _indicator(self, cell: Pairs) -> Function:
        """A product of indicators, a reference's written as 1 less all others."""
        function = _ONE
        for name, level in cell:
            if level != self.left_out[name]:
                indicator: Function = {((), ((name, level),)): 1.0}
            else:
                others = (i for i in range(len(self.factors[name])) if i != level)
                indicator = _ONE | {((), ((name, other),)): -1.0 for other in others}
            function = _times(function, indicator)
        return function

    def _in_own_units(
        self, scaled: list[Function], unscaled: list[Function], center: float, half_width: float
    ) -> tuple[Matrix, Vector]:
        """The affine map of coefficients: y = center + half_width sum theta_j scaled_j."""
        n = len(unscaled)
        # An indicator that is part of no other function stands for itself.
        uses = Counter(key for function in (*scaled, *unscaled, _ONE) for key in function)
        alone = [
            len(a) == 1 and a == b and uses[next(iter(a))] == 2
            for a, b in zip(scaled, [*unscaled, None], strict=True)
        ]
        rest = [j for j in range(n) if not alone[j]]
        full = np.zeros((n + 1, n + 2))
        full[np.flatnonzero(alone), np.flatnonzero(alone)] = 1.0
        full[np.ix_([*rest, n], [*rest, n, n + 1])] = self._solved(
            [*(scaled[j] for j in rest), scaled[n]], [unscaled[j] for j in rest]
        )
        return half_width * full[:, :-1], center * full[:, -1]

    def _solved(self, scaled: list[Function], unscaled: list[Function]) -> Matrix:
        """Scaled functions and 1 as sums of own ones and 1, the coefficients by columns."""
        keys: dict[Key, int] = {}
        for function in (*scaled, *unscaled, _ONE):
            for key in function:
                keys.setdefault(key, len(keys))

        def matrix(functions: list[Function]) -> Matrix:
            coefficients = np.zeros((len(keys), len(functions)))
            for column, function in enumerate(functions):
                for key, value in function.items():
                    coefficients[keys[key], column] = value
            return coefficients

        # Units may differ by many orders of magnitude.
        units = np.ones(len(keys))
        for (powers, _), row in keys.items():
            for name, power in powers:
                low, high = self.numbers[name].interval
                units[row] /= max(abs(low), abs(high)) ** power
        unit = 1 / units[:, None]
        basis, goal = matrix(unscaled) * unit, matrix([*scaled, _ONE]) * unit
        one = basis.shape[1]
        with_ones = np.column_stack([basis, matrix([_ONE]) * unit])
        sizes = np.maximum(np.abs(with_ones).max(axis=0), np.finfo(float).tiny)
        with_ones /= sizes
        # Where the indicators of all levels are there, they hold the intercept.
        rank = np.linalg.matrix_rank
        spanned = one and rank(with_ones[:, :one]) == rank(with_ones)
        basis = with_ones[:, :one] if spanned else with_ones
        solved, *_ = np.linalg.lstsq(basis, goal, rcond=None)
        left = np.abs(basis @ solved - goal).max(axis=0)
        if not (left <= _SAME * np.maximum(np.abs(goal).max(axis=0), 1.0)).all():
            raise ValueError(
                "powers and products of numbers are regressed on together with what they are made "
                "of, or their coefficients would depend on the bounds: with 'a:b' also take 'a' "
                "and 'b'"
            )
        full = np.zeros((one + 1, goal.shape[1]))
        full[: len(solved)] = solved / sizes[: len(solved), None]
        return full


def _only_log(name: str, described: Numeric) -> str:
    """What to ask for in the place of a variable whose logarithm was released."""
    return (
        f"only the logarithm of {shown(name)} was released: write {shown(described.label(name))}, "
        "in whose units the result is"
    )


def _held(functions: list[Key], before: dict[Piece, set[frozenset[str]]]) -> Vector | None:
    """Coefficients of columns whose sum is 1: the levels of factors of which none is left out."""
    for piece, spanned in before.items():
        if piece.factors and not piece.powers and frozenset() not in spanned:
            wanted = piece.factors
            whole = (not p and tuple(name for name, _ in cell) == wanted for p, cell in functions)
            return np.array([*whole], float)
    return None


def _spanned(pieces: list[Piece], ones: bool) -> dict[Piece, set[frozenset[str]]]:
    """For each piece the products of factors that others span before it, the shorter ones first."""
    before: dict[Piece, set[frozenset[str]]] = {}
    spanned: dict[Pairs, set[frozenset[str]]] = {}
    if ones:
        spanned[ONES.powers] = {frozenset()}
    for piece in sorted(pieces, key=lambda piece: len(piece.factors)):
        known = spanned.setdefault(piece.powers, set())
        before.setdefault(piece, set(known))
        known |= {
            frozenset(some)
            for size in range(len(piece.factors) + 1)
            for some in combinations(piece.factors, size)
        }
    return before


def _times(a: Function, b: Function) -> Function:
    """The product of two functions; indicators of two levels of one factor multiply to 0."""
    if a == _ONE or b == _ONE:
        return b if a == _ONE else a
    terms: Function = {}
    for (powers, cells), x in a.items():
        for (more, other), y in b.items():
            levels = dict(cells)
            if any(levels.setdefault(name, level) != level for name, level in other):
                continue
            total = dict(powers)
            for name, power in more:
                total[name] = total.get(name, 0) + power
            key = (tuple(sorted(total.items())), tuple(sorted(levels.items())))
            terms[key] = terms.get(key, 0.0) + x * y
    return terms
