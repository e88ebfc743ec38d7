"""The exact second moment as one query, for a table that stays where it is.

The query does to a row what the kernels do, operation by operation in doubles: it moves, scales
and clamps numbers, rounds to whole ones, and sums products of these without an error. By the
bounds of `Columns` no row is clipped, so that a row needs no norm.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from privgram._base.numbers import check_one_of
from privgram._core.rowmap import DefaultRounding
from privgram.columns.terms import as_factor, as_numeric
from privgram.columns.unit import PrivateBound, Unit, bits_for, bound_of_rows
from privgram.columns.variables import Boolean, Dates, Factor, Log

if TYPE_CHECKING:
    from privgram.columns.encoding import Encoder
    from privgram.columns.terms import Stored

#: Adding and taking this off rounds a double below 2^51 to the nearest integer, ties to even. It
#: takes nothing but IEEE additions; the functions for it differ: Snowflake's takes no doubles,
#: and Spark's goes by decimal digits.
ROUND = 1.5 * 2.0**52

#: What `Dialect.probe` is where doubles are IEEE's and rounded to even.
PROBE = 1 - 20 + 200 + 2_000

#: Bounds within which differences of two numbers do not overflow.
LARGEST_BOUND = 1e300

#: A part of a half-width so small that what is nearer to the center rounds as the center does.
NEAREST = 2.0**-40


@dataclass(frozen=True)
class Dialect:
    """How one engine writes what the others write too; `{0}` stands for what it is applied to."""

    name: str
    double: str = "({0})"  # a literal, of Python's digits
    to_double: str = "CAST({0} AS DOUBLE)"
    integer: str = "BIGINT"  # the type of a rounded number
    total: str = "COALESCE(sum({0}), 0)"  # exact: of BIGINT, HUGEINT or numeric
    is_nan: str = "isnan({0})"
    quote: str = '"'  # around names
    backslash: bool = False  # whether it escapes in texts
    # Integers of rows with a missing value are zeros, and nothing fails at them.
    where_complete: str = "{0} * complete"
    number: str = "{0}"  # refuses a column of texts, which some engines would convert
    text: str = "{0}"  # refuses what is no text, and compares byte by byte
    # Byte by byte too: two units that a collation takes for one would be bounded as one.
    unit: str = "CAST({0} AS VARCHAR)"
    fence: str = ""  # keeps an engine from computing a column again wherever it is used
    days: str | None = None  # days from 1970 of a date or time
    overflow_fails: bool = False  # a double beyond the largest is an error
    underflow_fails: bool = False
    most_fields: int = 1 << 30

    def quoted(self, name: str) -> str:
        """A name, whatever is in it."""
        if "\x00" in name:
            raise ValueError("the name of a column or table has a zero byte, which SQL does not")
        if self.name == "bigquery":  # whose names have the escapes of its texts
            return f"`{_escaped(name, '`')}`"
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def literal(self, text: str) -> str:
        """A text, whatever is in it."""
        if "\x00" in text:
            raise ValueError("a level has a zero byte, which texts of SQL do not")
        if self.backslash:
            return f"'{_escaped(text, chr(39))}'"
        doubled = text.replace("'", "''")
        if self.name == "postgres" and "\\" in text:  # whose plain texts depend on a setting
            return "E'" + doubled.replace("\\", "\\\\") + "'"
        return f"'{doubled}'"

    def of(self, value: float) -> str:
        """A double, to the last bit."""
        digits = repr(float(value))
        return self.double.format(digits if "e" in digits else digits + "e0")

    def nearest(self, value: str) -> str:
        """A double rounded to the nearest whole number, ties to even, as an integer."""
        rounded = f"({value} + {self.of(ROUND)}) - {self.of(ROUND)}"
        return f"CAST({rounded} AS {self.integer})"

    def as_double(self, value: str) -> str:
        """An integer as a double."""
        return self.to_double.format(value)

    @property
    def probe(self) -> str:
        """A whole number that tells whether arithmetic is what the query takes for granted."""
        product = f"({self.of(0.1)} * {self.of(3.0)} - {self.of(0.3)}) * {self.of(2.0**54)}"
        below = self.of(0.49999999999999994)
        digits = (product, self.of(-1.5), self.of(2.5), self.of(1.5), self.of(0.5), below)
        parts = (f"{10**i} * {self.nearest(value)}" for i, value in enumerate(digits))
        return " + ".join(parts)


_OF_TEXT = "CASE WHEN typeof({{0}}) {sign} 'string' THEN raise_error('{problem}') ELSE {{0}} END"

#: Engines by name. Of BigQuery and Snowflake the text alone is tested.
DIALECTS = {
    one.name: one
    for one in (
        Dialect(
            "duckdb",
            text='substring({0}, 1) COLLATE "C"',  # of an ENUM it makes text, and of no number
            unit='CAST({0} AS VARCHAR) COLLATE "C"',
            days=(  # infinite ones, and those that no microseconds tell, are as far as is clamped
                "CASE WHEN isinf({0}) THEN "
                "CASE WHEN {0} > CAST('2000-01-01' AS DATE) THEN 1e300 ELSE -1e300 END "
                "WHEN abs(year({0})) > 200000 THEN sign(year({0})) * 1e300 "
                "ELSE CAST(epoch_us({0}) AS DOUBLE) / 86400e6 END"
            ),
        ),
        Dialect(
            "postgres",
            double="CAST('{0}' AS double precision)",
            to_double="CAST({0} AS double precision)",
            integer="bigint",
            is_nan="{0} = CAST('NaN' AS double precision)",
            text='{0} COLLATE "C"',
            unit='CAST({0} AS text) COLLATE "C"',
            fence=" OFFSET 0",
            days=(
                "CAST(extract(epoch FROM {0}) * 1000000 AS double precision) "
                "/ CAST('86400e6' AS double precision)"
            ),
            overflow_fails=True,
            underflow_fails=True,
            most_fields=1_664,
        ),
        Dialect(
            "spark",
            double="({0}D)",
            total="COALESCE(sum(CAST({0} AS DECIMAL(18, 0))), 0)",
            quote="`",
            backslash=True,
            number=_OF_TEXT.format(sign="=", problem="a column of numbers holds text"),
            text=_OF_TEXT.format(sign="<>", problem="a factor with levels of text holds none"),
            unit="CAST({0} AS STRING)",
        ),
        Dialect(
            "bigquery",
            to_double="CAST({0} AS FLOAT64)",
            integer="INT64",
            total="COALESCE(SUM(CAST({0} AS BIGNUMERIC)), 0)",
            is_nan="IS_NAN({0})",
            quote="`",
            backslash=True,
            where_complete="CASE WHEN complete = 1 THEN {0} END",
            text="COLLATE({0}, '')",
            unit="COLLATE(CAST({0} AS STRING), '')",
            overflow_fails=True,
            most_fields=10_000,
        ),
        Dialect(
            "snowflake",
            double="CAST('{0}' AS DOUBLE)",
            integer="NUMBER(38, 0)",
            total="COALESCE(SUM({0}), 0)",
            is_nan="{0} = CAST('NaN' AS DOUBLE)",
            backslash=True,
            where_complete="CASE WHEN complete = 1 THEN {0} END",
            text="COLLATE({0}, 'utf8')",
            unit="COLLATE(CAST({0} AS VARCHAR), 'utf8')",
        ),
    )
}


def dialect_of(name: object) -> Dialect:
    """The dialect of a name."""
    check_one_of(name, "dialect", DIALECTS)
    return DIALECTS[str(name)]


def _escaped(text: str, quote: str) -> str:
    escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    return escaped.replace("\n", "\\n").replace("\r", "\\r")


@dataclass(frozen=True)
class Entries:
    """What a row has in the columns of a piece: an integer, at the level of a product of factors.

    `factor` counts the products of the encoder, and is None for the one column of a number.
    `constant` is the integer where it is the same in all rows, and else `variable` counts those
    that are not.
    """

    columns: range
    factor: int | None
    constant: int | None
    variable: int | None


@dataclass(frozen=True)
class UnitScale:
    """The numbers by which the matrix of a unit is bounded: `privgram._core.rows` has them too."""

    unit: Unit
    bits: int
    bound: float
    row_factor: float
    longest: float  # norms up to it are surely within the bound
    target: float

    @classmethod
    def of(cls, unit: Unit, row_bound: float, d: int) -> UnitScale:
        """Of rows of d numbers of a bound; ValueError where SQL has no such units."""
        if unit.fixed_effects:
            raise ValueError("a query takes no fixed_effects=True: pass the rows themselves")
        if isinstance(unit.bound, PrivateBound):
            raise ValueError(
                "a query takes a bound that is known: Unit(column, max_rows=k) or "
                "Unit(column, bound=C)"
            )
        if unit.bound is None and unit.max_rows is None:
            raise ValueError(f"a unit needs a bound: Unit({unit.name!r}, max_rows=k)")
        with DefaultRounding():
            bound = unit.bound
            if bound is None:
                assert unit.max_rows is not None
                bound = bound_of_rows(unit.max_rows, row_bound)
            if bound < row_bound:
                raise ValueError(
                    f"the unit's bound is below that of one row, {row_bound:g}, so that single "
                    "rows are clipped, which a query does not: take a larger one, or pass the rows"
                )
            bits = bits_for(bound, row_bound)
            target = norm_before_rounding(d, bits)
            whole, room = 4.0**bits, 3.0 * d * d
            if room > whole / 4:
                raise ValueError(f"{d} columns are too many for a unit's matrix; take fewer terms")
            row_target = target if row_bound == bound else target / bound * row_bound
            trace = unit.clip == "trace"
            longest = whole if trace else whole * (1 - (d + 32) * 2.0**-53)
            return cls(unit, bits, bound, row_target / row_bound, longest, whole - room)


def norm_before_rounding(d: int, bits: int) -> float:
    """The largest norm of a row of d numbers before it is rounded: `gram_target` in C."""
    return (2.0**bits - math.sqrt(d) / 2) * (1 - (d + 64) * 2.0**-53)


class MomentQuery:
    """One query of a table's integers; `text` is the SQL.

    A row of its answer has the `digest` of the description, `Dialect.probe`, and then

    - without a unit: for each product of factors the level, or NULL where rows of any level are
      counted; the number of rows, and of those without a missing value; the sums of the variable
      integers, and of their products by pairs;
    - with a unit: the numbers of units, of rows without one, of rows with a missing value, and of
      the rows of the largest unit; and the sums of products of each pair of columns.
    """

    def __init__(
        self,
        encoder: Encoder,
        bound: float,
        described: Mapping[str, Any],
        unit: Unit | None = None,
    ) -> None:
        self.encoder = encoder
        #: L2 bound of a row, or of a unit.
        self.bound = bound
        self.n_columns = encoder.layout.size
        self.unit = None if unit is None else UnitScale.of(unit, bound, self.n_columns)
        if self.unit is not None:
            self.bound = self.unit.bound
        if unit is not None and unit.name in encoder.place:
            raise ValueError(f"{unit.name!r} tells whose row a row is, and is no column too")
        for name in encoder.place:
            if isinstance(encoder.layout.variables[name], Log):
                raise ValueError(
                    f"no dialect has the last bit of a logarithm in common with this program: "
                    f"select ln({name}) as a column of its own, and describe it by its bounds"
                )
        with DefaultRounding():
            plain = norm_before_rounding(self.n_columns, 20) / bound
        self.factor = plain if self.unit is None else self.unit.row_factor
        self.entries = tuple(self._entries())
        self.n_variables = sum(one.variable is not None for one in self.entries)
        self.n_factors = 0 if self.unit is not None else len(encoder.factors)
        described = {key: value for key, value in described.items() if key != "missing"}
        whose = None if unit is None else [unit.name, unit.clip, unit.max_rows, unit.bound]
        identity = json.dumps([described, whose], sort_keys=True)
        #: Tells an answer to another query; below 2^48.
        self.digest = int(hashlib.sha256(identity.encode()).hexdigest()[:12], 16)

    def _entries(self) -> Iterator[Entries]:
        variables = 0
        for stored in self.encoder.layout.stored:
            factors = stored.piece.factors
            varies = bool(stored.piece.powers) or self.encoder.row_weights is not None
            with DefaultRounding():
                constant = round(stored.weight * self.factor)
            yield Entries(
                range(stored.start, stored.start + stored.size),
                self.encoder.factors.index(factors) if factors else None,
                None if varies else constant,
                variables if varies else None,
            )
            variables += varies

    @property
    def largest(self) -> dict[int, int]:
        """The largest size of each variable integer: that of a number at a bound."""
        with DefaultRounding():
            return {
                entry.variable: round(stored.weight * self.factor)
                for entry, stored in zip(self.entries, self.encoder.layout.stored, strict=True)
                if entry.variable is not None
            }

    @property
    def products(self) -> list[tuple[int, int]]:
        """Pairs of variable integers, or with a unit of columns, whose products are summed."""
        n = self.n_variables if self.unit is None else self.n_columns
        return [(i, j) for i in range(n) for j in range(i + 1)]

    @property
    def n_fields(self) -> int:
        """How many fields a row of the answer has."""
        if self.unit is not None:
            return 6 + len(self.products)
        return 4 + self.n_factors + self.n_variables + len(self.products)

    @property
    def sets(self) -> list[tuple[int, ...]]:
        """Products of factors by whose levels there are sums: none, each, and each pair."""
        one = range(self.n_factors)
        return [(), *((k,) for k in one), *combinations(one, 2)]

    def text(self, source: str, dialect: Dialect, kinds: Mapping[str, str] | None = None) -> str:
        """The query of what stands after FROM, of columns that may be known to hold these kinds.

        As in `privgram.columns.encoding.kinds_of`; without them the engine refuses what it can.
        """
        if self.n_fields > dialect.most_fields:
            raise ValueError(
                f"{dialect.name} has at most {dialect.most_fields:,} columns in an answer, and "
                f"these are {self.n_fields:,} sums: take fewer terms, or pass the rows themselves"
            )
        return _Writer(self, dialect, kinds or {}).text(source)

    def cells(
        self,
        column: str,
        by: tuple[str, ...],
        place: int | Sequence[float],
        each: int,
        source: str,
        dialect: Dialect,
        kinds: Mapping[str, str],
    ) -> str:
        """The query of the rows by cell, of which a group has `each`.

        That of the nearest of `place` values of a number; or of as many edges, from 0 to 1 of the
        range, as are below it. It is -1 for rows with a missing value.
        """
        return _Writer(self, dialect, kinds).cells(column, by, place, each, source)


class _Writer:
    """Writes the stages of a query, each a SELECT from the one before."""

    def __init__(self, query: MomentQuery, dialect: Dialect, kinds: Mapping[str, str]) -> None:
        self.query, self.dialect, self.kinds = query, dialect, kinds
        self.encoder = query.encoder
        self.variables = query.encoder.layout.variables
        self.place = query.encoder.place
        self._values: dict[tuple[str, float], str] = {}  # clamped numbers, by weight

    def text(self, source: str) -> str:
        entries = [self._value(stored) for stored in self.encoder.layout.stored]
        text = self._values_of(source)
        for stage in self._polynomials():
            text = self._around(text, stage)
        if self.query.unit is not None:
            return self._by_unit(self._around(text, self._written_out(entries)))
        return self._by_level(self._around(text, self._integers(entries)))

    def cells(
        self, column: str, by: tuple[str, ...], place: int | Sequence[float], each: int, source: str
    ) -> str:
        d = self.dialect
        above = f"({self._scaled(column, 1.0)} + {d.of(1.0)})"  # of the lower bound, in halves
        if isinstance(place, int):
            cell = d.nearest(f"{above} * {d.of((place - 1) / 2)}")
        else:
            edges = (f"WHEN {above} <= {d.of(2 * x)} THEN {i}" for i, x in enumerate(place))
            cell = f"CASE {' '.join(edges)} ELSE {len(place)} END"
        if by:
            cell = f"f{self.encoder.factors.index(by)} * {each} + {cell}"
        of_rows = {"cell": f"CASE WHEN complete = 1 THEN {cell} ELSE -1 END"}
        text = self._around(self._values_of(source), of_rows, more=False)
        counts = {"cell": "", "n": "count(*)", "probe": d.probe}
        return self._around(text, counts, more=False) + "\nGROUP BY cell"

    def _values_of(self, source: str) -> str:
        """Rows with their numbers, clamped, and the codes of their levels."""
        raw = {f"x{i}": self.dialect.quoted(name) for name, i in self.place.items()}
        if self.query.unit is not None:
            raw["unit_id"] = self.dialect.unit.format(
                self.dialect.quoted(self.query.unit.unit.name)
            )
        text = _select(raw, source)
        for stage in self._read():
            text = self._around(text, stage)
        return text

    def _around(self, text: str, columns: Mapping[str, str], more: bool = True) -> str:
        """A SELECT from another, of its columns and more of them, or of others."""
        inner = f"(\n{text}{self.dialect.fence}\n) AS t"
        return _select({"*": "", **columns} if more else columns, inner)

    def _read(self) -> tuple[dict[str, str], dict[str, str]]:
        """Numbers as doubles, codes of levels; whether a row is complete, and clamped numbers."""
        d = self.dialect
        doubles: dict[str, str] = {}
        present: list[str] = []
        for name, i in self.place.items():
            described = self.variables[name]
            if isinstance(described, Factor):
                doubles[f"k{i}"] = self._code(f"x{i}", described, self.kinds.get(name) == "U")
                present.append(f"k{i} IS NOT NULL")
            else:
                # Nothing is taken off but the type: a text, or a truth value, is refused.
                doubles[f"y{i}"] = f"({self._number(f'x{i}', name)}) - {d.of(0.0)}"
                present += [f"y{i} IS NOT NULL", f"NOT {d.is_nan.format(f'y{i}')}"]
        scaled = {"complete": f"CASE WHEN {' AND '.join(present) or '1 = 1'} THEN 1 ELSE 0 END"}
        for (name, weight), alias in self._values.items():
            _, half_width = as_numeric(name, self.variables).scaling
            with DefaultRounding():
                inverse = (1.0 / half_width) * weight
            scaled[alias] = self._clamped(f"{self._difference(name)} * {d.of(inverse)}", weight)
        for k, names in enumerate(self.encoder.factors):
            code = f"k{self.place[names[0]]}"
            for name in names[1:]:
                levels = len(as_factor(name, self.variables))
                code = f"({code}) * {levels} + k{self.place[name]}"
            scaled[f"f{k}"] = code
        if self.encoder.row_weights is not None:
            scaled["r"] = self._root_weight(self.encoder.row_weights)
        return doubles, scaled

    def _number(self, column: str, name: str) -> str:
        """A column of numbers as the engine has it; of truth values and dates, as doubles."""
        d, described = self.dialect, self.variables[name]
        if isinstance(described, Boolean) or self.kinds.get(name) == "b":
            zero, one = d.of(0.0), d.of(1.0)
            return f"CASE WHEN {column} = TRUE THEN {one} WHEN {column} = FALSE THEN {zero} END"
        if isinstance(described, Dates):
            if d.days is None:
                raise ValueError(
                    f"{d.name} has no days of dates that are known to be these: select the "
                    f"number of days as a column instead of {name!r}, and describe it by bounds"
                )
            return d.days.format(column)
        return d.number.format(column)

    def _difference(self, name: str) -> str:
        """A number less the center; farther ones as far as is clamped, where an overflow fails."""
        d = self.dialect
        number = f"y{self.place[name]}"
        center, half_width = as_numeric(name, self.variables).scaling
        if d.overflow_fails:
            if abs(center) + 2 * half_width > LARGEST_BOUND:
                raise ValueError(
                    f"{d.name} refuses numbers beyond its range, which the bounds of {name!r} "
                    "reach: use another unit"
                )
            low, high = d.of(center - 2 * half_width), d.of(center + 2 * half_width)
            number = f"least(greatest({number}, {low}), {high})"
        difference = f"({number} - {d.of(center)})"
        if d.underflow_fails:
            near = f"abs({difference}) < {d.of(half_width * NEAREST)}"
            return f"CASE WHEN {near} THEN {d.of(0.0)} ELSE {difference} END"
        return difference

    def _clamped(self, value: str, limit: float) -> str:
        low, high = self.dialect.of(-limit), self.dialect.of(limit)
        return f"greatest({low}, least({high}, {value}))"

    def _code(self, column: str, factor: Factor, texts: bool) -> str:
        """The place of a level in the list of them; NULL where it is missing."""
        d = self.dialect
        otherwise = f" ELSE {len(factor.levels)}" if factor.other else ""
        if factor.text:
            compared = (d.unit if texts else d.text).format(column)
            levels = [d.literal(str(level)) for level in factor.levels]
            missing = f"{column} IS NULL"
        else:
            compared = f"({d.number.format(column)}) + 0"  # of what is no number there is no sum
            levels = [f"({level})" for level in factor.levels]
            missing = f"{column} IS NULL OR {d.is_nan.format(d.to_double.format(compared))}"
        listed_levels = " ".join(f"WHEN {level} THEN {i}" for i, level in enumerate(levels))
        code = f"CASE {compared} {listed_levels}{otherwise} END"
        return f"CASE WHEN {missing} THEN NULL ELSE {code} END" if factor.other else code

    def _root_weight(self, name: str) -> str:
        d = self.dialect
        low, high = as_numeric(name, self.variables).interval
        weight = f"y{self.place[name]}"
        share = f"greatest({d.of(low)}, least({d.of(high)}, {weight})) / {d.of(high)}"
        least = high * NEAREST**3  # of which a row's numbers round to zeros
        if d.underflow_fails and low < least:
            return f"CASE WHEN {weight} < {d.of(least)} THEN {d.of(0.0)} ELSE sqrt({share}) END"
        return f"sqrt({share})"

    def _scaled(self, name: str, weight: float) -> str:
        return self._values.setdefault((name, weight), f"v{len(self._values)}")

    def _value(self, stored: Stored) -> str:
        """What a row has in a stored column, or in that of its level."""
        powers = stored.piece.powers
        if stored.piece.linear:
            value = self._scaled(powers[0][0], stored.weight)
        elif powers:
            parts = []
            for name, degree in powers:
                first = self._scaled(name, 1.0)
                parts.append(first if degree == 1 else f"p{self.place[name]}_{degree}")
            value = " * ".join(parts)
            if stored.weight != 1.0:
                weighted = f"({value}) * {self.dialect.of(stored.weight)}"
                value = self._clamped(weighted, stored.weight)
        else:
            value = self.dialect.of(stored.weight)
        return value if self.encoder.row_weights is None else f"({value}) * r"

    def _polynomials(self) -> Iterator[dict[str, str]]:
        """Legendre polynomials, a degree a stage: `encode_legendre` in C."""
        pieces = [stored.piece for stored in self.encoder.layout.stored]
        degrees: dict[str, int] = {}
        for piece in pieces:
            for name, degree in piece.powers:
                degrees[name] = max(degree, degrees.get(name, 1))
        for k in range(1, max(degrees.values(), default=1)):
            stage = {}
            with DefaultRounding():
                ratio = self.dialect.of(k / (k + 1))
            for name, top in degrees.items():
                if top > k:
                    i, v = self.place[name], self._values[name, 1.0]
                    last = v if k == 1 else f"p{i}_{k}"
                    before = {1: self.dialect.of(1.0), 2: v}.get(k, f"p{i}_{k - 1}")
                    next_one = f"{v} * {last} + {ratio} * ({v} * {last} - {before})"
                    stage[f"p{i}_{k + 1}"] = self._clamped(next_one, 1.0)
            yield stage

    def _whole(self, value: str) -> str:
        rounded = self.dialect.nearest(f"({value}) * {self.dialect.of(self.query.factor)}")
        return self.dialect.where_complete.format(rounded)

    def _integers(self, values: Sequence[str]) -> dict[str, str]:
        """The variable integers of a row, and its levels, -1 where one is missing."""
        integers = {
            f"q{entry.variable}": self._whole(value)
            for entry, value in zip(self.query.entries, values, strict=True)
            if entry.variable is not None
        }
        levels = range(self.query.n_factors)
        return integers | {f"c{k}": f"CASE WHEN complete = 1 THEN f{k} ELSE -1 END" for k in levels}

    def _written_out(self, values: Sequence[str]) -> dict[str, str]:
        """The integers of all columns of a row, zeros but for its levels."""
        integers = {}
        for entry, value in zip(self.query.entries, values, strict=True):
            ones = f"CAST({entry.constant} AS {self.dialect.integer}) * complete"
            whole = ones if entry.variable is None else self._whole(value)
            for level, column in enumerate(entry.columns):
                at = f"CASE WHEN f{entry.factor} = {level} THEN {whole} ELSE 0 END"
                integers[f"q{column}"] = whole if entry.factor is None else at
        return integers

    def _sums(self) -> dict[str, str]:
        total = self.dialect.total.format
        return {f"s{i}_{j}": total(f"q{i} * q{j}") for i, j in self.query.products}

    @property
    def _head(self) -> dict[str, str]:
        return {"digest": str(self.query.digest), "probe": self.dialect.probe}

    def _by_level(self, text: str) -> str:
        """Counts and sums, of all rows and by levels."""
        total = self.dialect.total.format
        levels = {f"level{k}": f"c{k}" for k in range(self.query.n_factors)}
        counts = {"n_rows": "count(*)", "n_complete": total("complete")}
        firsts = {f"s{i}": total(f"q{i}") for i in range(self.query.n_variables)}
        columns = self._head | levels | counts | firsts | self._sums()
        text = self._around(text, columns, more=False)
        if not levels:
            return text
        sets = ", ".join(f"({', '.join(f'c{k}' for k in one)})" for one in self.query.sets)
        return f"{text}\nGROUP BY GROUPING SETS ({sets})"

    def _by_unit(self, text: str) -> str:
        """Sums of each unit, its norm, and the sums of what is scaled into the unit's bound."""
        d, scale = self.dialect, self.query.unit
        assert scale is not None
        integer = f"CAST({{0}} AS {d.integer})".format
        of_unit = {"unit_id": "unit_id", "n": "count(*)"}
        of_unit["incomplete"] = integer(d.total.format("1 - complete"))
        of_unit |= {name: integer(total) for name, total in self._sums().items()}
        text = self._around(text, of_unit, more=False) + "\nGROUP BY unit_id"
        present = (f"CASE WHEN s{i}_{i} > 0 THEN 1 ELSE 0 END" for i in range(self.query.n_columns))
        text = self._around(text, {"norm": self._norm(), "seen": " + ".join(present)})
        target = d.of(scale.target)
        shrunk = f"CASE WHEN norm <= {target} THEN {d.of(1.0)} ELSE {target} / norm END"
        text = self._around(text, {"c": shrunk})
        columns = self._head
        for name, value, whose in (
            ("n_units", "sum", ("0", "1")),
            ("n_without", "sum", ("n", "0")),
            ("n_incomplete", "sum", ("0", "incomplete")),
            ("max_rows", "max", ("0", "n")),
        ):
            none, some = whose
            columns[name] = (
                f"COALESCE({value}(CASE WHEN unit_id IS NULL THEN {none} ELSE {some} END), 0)"
            )
        for i, j in self.query.products:
            name = f"s{i}_{j}"
            scaled = d.nearest(f"c * {d.as_double(name)}")
            if i == j:
                scaled += f" + CASE WHEN {name} > 0 THEN seen ELSE 0 END"
            whole = f"WHEN norm <= {d.of(scale.longest)} THEN {name} ELSE {scaled}"
            columns[name] = d.total.format(f"CASE WHEN unit_id IS NULL THEN 0 {whole} END")
        return self._around(text, columns, more=False)

    def _norm(self) -> str:
        """The norm of a unit's matrix, its terms one after another."""
        d, scale = self.dialect, self.query.unit
        assert scale is not None
        width = range(self.query.n_columns)
        if scale.unit.clip == "trace":
            return d.as_double(" + ".join(f"s{i}_{i}" for i in width))

        def square(i: int, j: int) -> str:
            entry = d.as_double(f"s{i}_{j}")
            return f"{entry} * {entry}"

        rows = []
        for i in width:
            off = " + ".join(square(i, j) for j in range(i))
            twice = f"{d.of(2.0)} * ({off}) + " if off else ""
            rows.append(f"({twice}{square(i, i)})")
        return f"sqrt({' + '.join(rows)})"


def _select(columns: Mapping[str, str], source: str) -> str:
    parts = (f"{value} AS {name}" if value else name for name, value in columns.items())
    return "SELECT " + ",\n  ".join(parts) + f"\nFROM {source}"


def quoted_table(table: object, dialect: Dialect) -> str:
    """A table's name, or the parts of one, quoted."""
    parts = (table,) if isinstance(table, str) else table
    if not isinstance(parts, (list, tuple)) or not all(isinstance(one, str) for one in parts):
        raise TypeError("a table is named by text, or by texts: ('schema', 'people')")
    if not parts or not all(parts):
        raise ValueError("the name of the table is empty")
    return ".".join(dialect.quoted(part) for part in parts)
