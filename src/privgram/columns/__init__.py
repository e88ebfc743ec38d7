"""Public descriptions of the columns of a table: what is known before looking at it.

Nothing here learns from rows: they are encoded by what was stated before.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgram._base.files import write_atomically
from privgram._base.numbers import check_positive
from privgram._base.saved import JsonObject, parse_json
from privgram._base.text import excerpt, shown
from privgram._core.rowmap import DefaultRounding
from privgram.columns.encoding import ColumnTable, Encoder, parts_of
from privgram.columns.terms import (
    INTERCEPT,
    ONES,
    Layout,
    Parsed,
    Piece,
    Term,
    as_numeric,
    parse,
    parse_terms,
)
from privgram.columns.unit import Missing, PrivateBound, Unit, check_missing, settled
from privgram.columns.variables import (
    FROM_DATA,
    Dates,
    Factor,
    Log,
    Number,
    Numeric,
    Variable,
    from_plain,
    variable,
)

if TYPE_CHECKING:
    from privgram.columns.sql import MomentQuery

__all__ = ["INTERCEPT", "Columns", "Dates", "Factor", "Log", "PrivateBound"]


class Columns:
    """Public description of the columns of a table.

    A number ``x`` with bounds ``(lower, upper)`` is mapped to
    ``(x - center) / half_width``, clamped to [-1, 1]; an infinity is clamped like any other
    value out of bounds. A factor becomes an indicator of 0 and 1 for each of its levels.
    Nothing here is learnt from data, so a `Columns` is public.

    Parameters
    ----------
    bounds : mapping of str to (float, float), sequence of str, bool, or description
        The variables to take, in this order. A pair of numbers has the lower and upper bound of a
        number; a list of texts the levels of a factor; `bool` stands for true and false.
        `Factor`, `Log` and `Dates` describe the rest.
    intercept : bool, default False
        Whether there is a column of ones named ``intercept``. It is not stored beside a factor,
        whose indicators sum to it.
    missing : {"error", "drop"}, optional
        What a row does with a null or NaN, or a level that is not listed, in any of
        these columns: raise, or contribute nothing. By default "drop" where a release's neighbours
        are by "add-remove", and "error" under "replace" and where they are not known yet, as in
        `second_moment`. An error tells whoever sees it that a row holds such a value, and which:
        keep it from the public. Dropped rows still count in the public number of rows of
        "replace", and the number of the others is then private: means have up to a third more
        noise, coefficients and slopes no more.
    terms : sequence of str, optional
        What is stored: variables, ``poly(x, k)`` (Legendre polynomials up to degree k),
        products such as ``"age:sex"`` or ``"sex:region"``, and ``"sex*region"`` for ``sex``,
        ``region`` and ``sex:region``. By default each variable. Terms that follow from others, as
        ``sex`` does from ``sex:region``, are not stored but can be used.
    weights : mapping of str to float, optional
        Positive factors by which the columns of some terms are multiplied, 1 by default: a term
        of weight w takes w^2 of the squared bound and has 1/w of the noise.
    row_weights : str, optional
        The variable that weights rows, a number with bounds (lower, upper), 0 <= lower. Each row,
        the intercept too, is multiplied by the square root of its weight over the upper bound:
        regressions are weighted least squares. It is stored only if `terms` names it.

    Attributes
    ----------
    names : tuple of str
        The stored columns in order, the intercept last.
    lower, upper, center, half_width : ndarray of shape (len(names),)
        Per stored column, in its own units: a stored value v stands for
        ``center + half_width * v``. The intercept has center 0 and half-width 1; so have
        columns that are products or polynomials. The weight of a term divides its half-widths.
    bound : float
        The largest L2 norm that a row can have, rounded up.

    Raises
    ------
    ValueError
        If a bound is missing, not finite, or not below its upper neighbour, if there are no
        columns, if a term names an unknown variable or function, or if the bounds or levels
        are asked to be taken from the data.

    Examples
    --------
    >>> import privgram as pg
    >>> cols = pg.Columns({"distance": (0, 5000), "delay": (-60, 300)}, intercept=True)
    >>> cols.names
    ('distance', 'delay', 'intercept')
    >>> cols.encode({"distance": [2500.0], "delay": [400.0]})
    array([[0., 1., 1.]])
    >>> pg.Columns({"age": (18, 90), "sex": ["f", "m"]}, terms=["poly(age, 2)", "sex"]).names
    ('age', 'P2(age)', 'sex[f]', 'sex[m]')
    """

    def __init__(
        self,
        bounds: Mapping[str, Any],
        intercept: bool = False,
        missing: Missing | None = None,
        *,
        terms: Sequence[str] | None = None,
        weights: Mapping[str, float] | None = None,
        row_weights: str | None = None,
    ) -> None:
        _check_mapping(bounds)
        if not isinstance(intercept, (bool, np.bool_)):
            raise TypeError("intercept is True or False")
        if intercept and INTERCEPT in bounds:
            raise ValueError("there is a column named 'intercept' already; use intercept=False")
        self._variables = {name: variable(name, described) for name, described in bounds.items()}
        self._intercept = bool(intercept)
        self._missing = check_missing(missing)
        for name, described in self._variables.items():
            if isinstance(described, Numeric):
                _check_width(name, described)
        self._row_weights = self._check_row_weights(row_weights)
        everything = [name for name in self._variables if name != row_weights]
        chosen = everything if terms is None else terms
        self._terms = parse_terms(chosen, self._variables)
        if not self._terms:
            raise ValueError("terms names no columns")
        self._written = None if terms is None else self.terms
        #: Which columns are stored, and what follows from them.
        self.layout = Layout(self._variables, self._terms, self._intercept, {})
        stored = {column.piece for column in self.layout.stored}
        self._weights = self._check_weights({} if weights is None else weights, stored)
        if self._weights:
            self.layout = Layout(self._variables, self._terms, self._intercept, self._weights)
        self._settled: dict[Missing, Columns] = {}

    @classmethod
    def from_formula(
        cls,
        formula: str | Parsed,
        bounds: Mapping[str, Any],
        missing: Missing | None = None,
        weights: Mapping[str, float] | None = None,
        row_weights: str | None = None,
    ) -> Columns:
        """Describe what a formula in the manner of R needs.

        Parameters
        ----------
        formula : str
            Such as ``"log(wage) ~ poly(age, 2) + sex*region"``. Both sides are stored, and so are
            the effects and instruments of ``"y ~ x | firm | d ~ z"``. ``- 1`` leaves out the
            intercept.
        bounds, missing, weights, row_weights
            As for `Columns`; what `bounds` describes and the formula does not use is left out.

        Raises
        ------
        ValueError
            If the formula has an unknown variable, or a function that public bounds cannot
            bound.
        """
        _check_mapping(bounds)
        parsed = formula if isinstance(formula, Parsed) else parse(formula)
        chosen = {
            name: {"log": described} if name in parsed.logs and _is_pair(described) else described
            for name, described in bounds.items()
        }
        variables = {name: variable(name, described) for name, described in chosen.items()}
        parsed.check_absorbed(variables)
        # The target may be one level of a factor: 'region[n]'.
        needed = (text if text in variables else text.partition("[")[0] for text in parsed.terms)
        terms = parse_terms(needed, variables)
        used = {name for term in terms for name in term.names} | {row_weights}
        return cls(
            {name: described for name, described in variables.items() if name in used},
            intercept=parsed.intercept,
            missing=missing,
            terms=_labels(terms, variables),
            weights=weights,
            row_weights=row_weights,
        )

    def without(self, name: str) -> Columns:
        """These columns without one variable, and without the terms that have it."""
        terms = [term for term in self._terms if name not in term.names]
        return self.replace(
            bounds={key: described for key, described in self._variables.items() if key != name},
            terms=None if self._written is None else _labels(terms, self._variables),
            weights={
                term.label(self._variables): self._weights[term]
                for term in terms
                if term in self._weights
            },
        )

    def _check_row_weights(self, name: str | None) -> str | None:
        if name is None:
            return None
        described = self._variables.get(name)
        if type(described) is not Number or described.lower < 0:
            raise ValueError(
                f"row_weights names a number among the bounds, which are not negative; {name!r} "
                "is none"
            )
        return name

    def _check_weights(self, weights: Mapping[str, float], stored: set[Piece]) -> dict[Term, float]:
        if not isinstance(weights, Mapping):
            raise TypeError("weights is a mapping of terms to positive numbers")
        weight_of: dict[Term, float] = {}
        for text, weight in weights.items():
            named = parse_terms([text], self._variables)
            storing = [term for term in named if not stored.isdisjoint(term.pieces())]
            if not storing and set(named) <= set(self._terms):
                raise ValueError(
                    f"the weight of {text!r} would do nothing: its columns follow from another "
                    "term's, which are stored; give the weight to that term"
                )
            for term in storing or named:
                if term not in self._terms:
                    raise ValueError(
                        f"there is a weight for {text!r}, which is not among the terms"
                    )
                value = check_positive(weight, f"the weight of {text!r}")
                if not 2.0**-20 <= value <= 2.0**20:
                    raise ValueError(f"the weight of {text!r} must be in [2**-20, 2**20]")
                weight_of[term] = value
        return weight_of

    @property
    def variables(self) -> Mapping[str, Variable]:
        """What each variable is, by name."""
        return MappingProxyType(self._variables)

    @property
    def bounds(self) -> dict[str, Any]:
        """The bounds by name, without the intercept (a copy); descriptions of what has none."""
        return {
            name: (described.lower, described.upper) if type(described) is Number else described
            for name, described in self._variables.items()
        }

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms, as they are written."""
        return _labels(self._terms, self._variables)

    @property
    def weights(self) -> dict[str, float]:
        """Weights by term, of those that have one (a copy)."""
        return {term.label(self._variables): weight for term, weight in self._weights.items()}

    @property
    def row_weights(self) -> str | None:
        """The variable that weights rows, or None."""
        return self._row_weights

    @property
    def largest_weight(self) -> float:
        """What a row's weight is relative to: its upper bound, or 1 without weights."""
        if self._row_weights is None:
            return 1.0
        return float(as_numeric(self._row_weights, self._variables).interval[1])

    @property
    def intercept(self) -> bool:
        """Whether there is a column of ones, stored or the sum of a factor's indicators."""
        return self._intercept

    @property
    def missing(self) -> Missing | None:
        """What a row with a missing value does; None where that is not settled yet."""
        return self._missing

    def settled(self, adjacency: str | None) -> Columns:
        """These columns with `missing` as it is under a notion of neighbours, None if unknown."""
        if self._missing is not None:
            return self
        missing = settled(None, adjacency)
        if missing not in self._settled:
            columns = self._settled[missing] = object.__new__(Columns)
            vars(columns).update(vars(self) | {"_missing": missing, "_settled": {}})
        return self._settled[missing]

    def replace(self, **changes: Any) -> Columns:
        """These columns with some parameters of `Columns` changed.

        Parameters
        ----------
        **changes
            Parameters of `Columns` by name, as `to_dict` writes them.

        Returns
        -------
        Columns

        Raises
        ------
        ValueError, TypeError
            As of `Columns`.
        """
        parameters = {"bounds": self._variables, "intercept": self._intercept, **self._options()}
        return Columns.from_dict(parameters | changes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the stored columns, the intercept last."""
        return self.layout.names

    @cached_property
    def selected(self) -> tuple[str, ...]:
        """The names of the columns read from the table: the variables of the terms."""
        used = {name for term in self._terms for name in term.names} | {self._row_weights}
        return tuple(name for name in self._variables if name in used)

    @cached_property
    def reads(self) -> dict[str, Variable]:
        """What is read from the table: the selected names, each with its description."""
        return {name: self._variables[name] for name in self.selected}

    @cached_property
    def plain(self) -> bool:
        """Whether the stored columns are numbers of the table in its order, then the intercept."""
        numbers = self.names[: len(self) - self._intercept]
        return (
            self._row_weights is None
            and numbers == self.selected
            and all(
                not stored.piece.factors
                and stored.weight == 1
                and (stored.piece == ONES or stored.piece.linear)
                for stored in self.layout.stored
            )
            and all(type(self._variables[name]) is Number for name in self.selected)
        )

    @cached_property
    def encoder(self) -> Encoder:
        """What turns raw columns into stored ones."""
        return Encoder(self.layout, self.selected, self._row_weights)

    @cached_property
    def _numbers(self) -> list[NDArray[np.float64]]:
        """Center, half-width, lower and upper bound of each stored column."""
        numbers = np.tile([[0.0], [1.0], [-1.0], [1.0]], len(self))
        for stored in self.layout.stored:
            of_stored = numbers[:, stored.columns]
            if not stored.piece.factors and stored.piece.linear:
                described = as_numeric(stored.piece.powers[0][0], self.layout.variables)
                of_stored.T[:] = described.center, described.half_width, *described.interval
            elif not stored.piece.powers:
                of_stored[2] = stored.piece == ONES
            with DefaultRounding():
                of_stored[1] /= stored.weight
        numbers.flags.writeable = False
        return list(numbers)

    @property
    def lower(self) -> NDArray[np.float64]:
        """Lower bounds in own units; 1 for the intercept, 0 for indicators."""
        return self._numbers[2]

    @property
    def upper(self) -> NDArray[np.float64]:
        """Upper bounds in own units; 1 for the intercept and indicators."""
        return self._numbers[3]

    @property
    def center(self) -> NDArray[np.float64]:
        """Middles of the bounds; 0 for the intercept."""
        return self._numbers[0]

    @property
    def half_width(self) -> NDArray[np.float64]:
        """Half the distances between the bounds, over the term's weight; 1 for the intercept."""
        return self._numbers[1]

    @cached_property
    def bound(self) -> float:
        """The largest possible L2 norm of a stored row, attained at the upper bounds."""
        squared = self.layout.squared_bound()
        with DefaultRounding():
            bound = math.sqrt(squared)
            # Above it, so that no row is clipped; tables of plain numbers keep the bound they had.
            while not self.plain and bound * bound < squared:
                bound = math.nextafter(bound, math.inf)
            # The kernel needs no norms where it can tell so from sums that are not exact.
            if any(one.square * 2**20 % 1 for one in self.layout.stored):
                bound *= 1 + 2.0**-39
        return bound

    def __len__(self) -> int:
        return self.layout.size

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __eq__(self, other: object) -> bool:
        # As lists: the order of the columns is the order of the matrix.
        return isinstance(other, Columns) and _key(self) == _key(other)

    def __hash__(self) -> int:
        return hash(_key(self))

    def __repr__(self) -> str:
        options = {"intercept": True} | self._options() if self._intercept else self._options()
        written = (f"{name}={value!r}" for name, value in options.items())
        return f"Columns({', '.join([repr(self.bounds), *written])})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Columns.from_dict, (self.to_dict(),))

    def encode(self, table: ColumnTable) -> NDArray[np.float64]:
        """Write out the stored columns of a table in memory: its dummy table.

        Parameters
        ----------
        table : DataFrame or mapping of str to array_like
            With the variables in `selected`, in their own units.

        Returns
        -------
        ndarray of shape (n, len(names))
            What a second moment is taken of. A missing value is NaN, as are all indicators of a
            factor where its level is missing or not listed. SECRET, if the table is.
        """
        return self.encoder.table(parts_of(table, self.reads))

    def query(self, unit: Unit | str | None = None) -> MomentQuery:
        """The query of a table's exact second moment, before it is written in a dialect."""
        from privgram.columns.sql import MomentQuery

        return MomentQuery(self.encoder, self.bound, self.to_dict(), Unit.of(unit))

    def sql(
        self, table: str | Sequence[str], dialect: str, *, unit: Unit | str | None = None
    ) -> str:
        """Write the query whose answer is the exact second moment of a table in a warehouse.

        Parameters
        ----------
        table : str or sequence of str
            Its name, as the engine has it; with several parts, ``("sales", "people")``.
        dialect : {"duckdb", "postgres", "bigquery", "snowflake", "spark"}
            How the engine writes SQL.
        unit : Unit or str, optional
            Whose rows are bounded together, as in `second_moment`: a column of the table, with
            ``max_rows`` or a ``bound``, and no fixed effects.

        Returns
        -------
        str
            One SELECT. Its answer is for `SecondMoment.from_sql`, and as SECRET as the table.

        Raises
        ------
        ValueError
            If there is no such dialect, or it cannot keep the integers that `second_moment` has.
        TypeError
            If the table is not named by text.

        Examples
        --------
        >>> import privgram as pg
        >>> query = pg.Columns({"age": (18, 90)}, intercept=True).sql("people", "duckdb")
        >>> query.splitlines()[-6:-4]
        ['SELECT "age" AS x0', 'FROM "people"']
        """
        from privgram.columns.sql import dialect_of, quoted_table

        engine = dialect_of(dialect)
        return self.query(unit).text(quoted_table(table, engine), engine) + "\n"

    def to_dict(self) -> JsonObject:
        """Give a plain form for JSON, from which `from_dict` makes an equal object."""
        plain = {name: described.to_plain() for name, described in self._variables.items()}
        return {"bounds": plain, "intercept": self._intercept, **self._options()}

    def _options(self) -> JsonObject:
        """Further parameters, as values of JSON, where they are not the default."""
        options = {
            "missing": self._missing,
            "terms": self._written and list(self._written),
            "weights": self.weights,
            "row_weights": self._row_weights,
        }
        return {name: value for name, value in options.items() if value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Columns:
        """Make columns from the form `to_dict` gives; unknown keys are refused."""
        if not isinstance(data, Mapping) or not isinstance(data.get("bounds"), Mapping):
            raise ValueError("a description of columns has a table named 'bounds'")
        unknown = sorted(set(data) - set(_KEYS))
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}; known: {', '.join(_KEYS)}")
        bounds = {name: from_plain(plain) for name, plain in data["bounds"].items()}
        return cls(**{**data, "bounds": bounds})

    def save(self, path: str | Path) -> None:
        """Write to a ``.toml`` or ``.json`` file, whole or not at all."""
        path = Path(path)
        write, _ = _form(path)
        write_atomically(path, write(self.to_dict()).encode())

    @classmethod
    def load(cls, path: str | Path) -> Columns:
        """Read from a ``.toml`` or ``.json`` file, as `save` writes it.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If it is not valid TOML or JSON, or does not describe columns.

        Examples
        --------
        A file by hand::

            intercept = true
            missing = "drop"
            terms = ["poly(distance, 2)", "dep_delay", "origin"]

            [bounds]
            distance = [0, 5000]
            dep_delay = [-60, 300]
            origin = ["EWR", "JFK", "LGA"]
            carrier = {levels = ["AA", "UA"], other = true}
            fare = {log = [20, 5000]}
            booked = {dates = ["2013-01-01", "2014-01-01"], unit = "weeks"}
            direct = "bool"
        """
        path = Path(path)
        _, read = _form(path)
        try:
            return cls.from_dict(read(path.read_text(encoding="utf-8-sig")))
        except (ValueError, TypeError) as error:  # both parsers raise subclasses of ValueError
            raise ValueError(f"{shown(path)}: {excerpt(error)}") from error
        except RecursionError:
            raise ValueError(f"{shown(path)}: nested too deeply to describe columns") from None


#: How far from -1 and 1 the ends of scaled bounds may be.
CLOSE_ENDS = 1e-5


def _check_mapping(bounds: object) -> None:
    if bounds is None or isinstance(bounds, str):  # such as "auto"
        raise ValueError(FROM_DATA)
    if not isinstance(bounds, Mapping):
        raise TypeError("bounds is a mapping of column names to (lower, upper)")
    if not bounds:
        raise ValueError("bounds names no columns")
    if not all(isinstance(name, str) and name for name in bounds):
        raise TypeError("the keys of bounds are column names")


def _check_width(name: str, described: Numeric) -> None:
    """Refuse bounds between which no two numbers are told apart."""
    (lower, upper), center = described.interval, described.center
    with DefaultRounding():
        inverse = 1.0 / half_width if (half_width := described.half_width) else math.inf
        ends = (lower - center) * inverse, (upper - center) * inverse
    if not (abs(ends[0] + 1.0) < CLOSE_ENDS and abs(ends[1] - 1.0) < CLOSE_ENDS):
        raise ValueError(f"the bounds of column {name!r} are too close to tell apart")


def _is_pair(described: object) -> bool:
    if not isinstance(described, (tuple, list)) or len(described) != 2:
        return False
    return not any(isinstance(end, str) for end in described)


def _labels(terms: Iterable[Term], variables: Mapping[str, Variable]) -> tuple[str, ...]:
    return tuple(term.label(variables) for term in terms)


def _key(columns: Columns) -> tuple[Any, ...]:
    return (
        tuple(columns.variables.items()),
        columns.intercept,
        columns.missing,
        columns.terms,
        tuple(columns.weights.items()),
        columns.row_weights,
    )


_KEYS = ("bounds", "intercept", "missing", "terms", "weights", "row_weights")


def _form(path: Path) -> tuple[Callable[[JsonObject], str], Callable[[str], Any]]:
    """What writes and what reads a file, by its suffix."""
    if path.suffix == ".toml":
        return _to_toml, tomllib.loads
    if path.suffix == ".json":
        return (lambda data: json.dumps(data, indent=2) + "\n"), parse_json
    raise ValueError(f"{shown(path)}: columns are kept in .toml or .json files")


def _to_toml(data: JsonObject) -> str:
    lines = [f"{key} = {toml_value(data[key])}" for key in _KEYS[1:] if key in data]
    lines += ["", "[bounds]"]
    lines += [f"{toml_value(name)} = {toml_value(plain)}" for name, plain in data["bounds"].items()]
    return "\n".join(lines) + "\n"


def toml_value(value: object) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{toml_value(key)} = {toml_value(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    # TOML's strings, numbers and booleans are JSON's, but for surrogates and DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
