"""What is publicly known of one variable of a table, before anyone looks at it."""

from __future__ import annotations

import datetime
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privgram._base.numbers import check_one_of, set_fields
from privgram._base.text import listed
from privgram._core.rowmap import DefaultRounding, log

#: More levels than a second moment has columns.
MAX_LEVELS = 1 << 15

FROM_DATA = (
    "bounds are never taken from the data: a minimum or maximum is one person's value, and "
    "publishing anything scaled by it gives that value away. Use what is public: the range "
    "of the instrument, the form, the law; values beyond are clamped"
)

LEVELS_FROM_DATA = (
    "levels are never taken from the data: a level that only one person has would give that "
    "person away. List those that the form or the code book has"
)

NUMBERED = (
    "a factor of numbered levels is described by pg.Factor([1, 2, 3]), in a file by "
    "{levels = [1, 2, 3]}"
)

Level: TypeAlias = str | int

#: What a cell of objects may be to count as a number.
NUMBERS = (Real, Decimal, np.bool_)


class Variable(ABC):
    """One variable of a table, as it is publicly described."""

    @property
    @abstractmethod
    def holds(self) -> str:
        """How to say what the column must hold."""

    @abstractmethod
    def to_plain(self) -> Any:
        """Give what JSON and TOML can hold, from which `variable` makes an equal object."""

    @abstractmethod
    def describe(self) -> str:
        """Say in a few words what is known of it."""


@dataclass(frozen=True)
class Numeric(Variable, ABC):
    """A variable that is mapped to [-1, 1] by two public bounds."""

    #: Whether `raw` computes something of every value.
    derived: ClassVar[bool] = False

    @property
    @abstractmethod
    def interval(self) -> tuple[float, float]:
        """Lower and upper bound in own units, the units in which results are given."""

    def label(self, name: str) -> str:
        """What results call the variable."""
        return name

    @property
    def scaling(self) -> tuple[float, float]:
        """Middle and half-width by which `raw` values are scaled."""
        return self.center, self.half_width

    def raw(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values as they are scaled: as they come, unless there is something to do first."""
        return values

    @property
    def center(self) -> float:
        """Middle of the interval."""
        lower, upper = self.interval
        with DefaultRounding():
            return upper / 2 + lower / 2  # halves first: a difference can overflow

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        lower, upper = self.interval
        with DefaultRounding():
            return upper / 2 - lower / 2

    def clamp(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Values in own units, clamped; missing ones are NaN."""
        lower, upper = self.interval
        return np.clip(np.asarray(values, dtype=np.float64), lower, upper)


@dataclass(frozen=True)
class Number(Numeric):
    """A number between two public bounds; values beyond them are clamped."""

    lower: float
    upper: float
    holds: ClassVar[str] = "numbers"

    @property
    def interval(self) -> tuple[float, float]:
        return self.lower, self.upper

    def to_plain(self) -> Any:
        return [self.lower, self.upper]

    def describe(self) -> str:
        return f"{self.lower:g} to {self.upper:g}"


@dataclass(frozen=True)
class Boolean(Number):
    """True or false, taken as 1 and 0; any other value is a missing one."""

    lower: float = 0.0
    upper: float = 1.0
    holds: ClassVar[str] = "true and false"

    def raw(self, values: NDArray[Any]) -> NDArray[Any]:
        if values.dtype.kind == "b":
            return values
        if values.dtype.kind != "O":
            return np.where((values == 0) | (values == 1), values, np.nan)
        numbers = np.array(list(map(as_float, values.tolist())), np.float64)
        return np.where((numbers == 0) | (numbers == 1), numbers, np.nan)

    def to_plain(self) -> Any:
        return "bool"

    def describe(self) -> str:
        return self.holds


@dataclass(frozen=True)
class Log(Numeric):
    """The natural logarithm of a positive variable, whose values are clamped first.

    Parameters
    ----------
    lower, upper : float
        Public bounds of the variable itself, in its own units, 0 < lower < upper.

    Examples
    --------
    >>> import privgram as pg
    >>> pg.Columns({"wage": pg.Log(2, 500)}).names
    ('log(wage)',)
    """

    lower: float
    upper: float
    holds: ClassVar[str] = "numbers"
    derived: ClassVar[bool] = True

    def __post_init__(self) -> None:
        lower, upper = _pair((self.lower, self.upper), "a logarithm")
        if not lower >= np.finfo(np.float64).tiny:
            raise ValueError(f"the lower bound of a logarithm must be positive, not {lower:g}")
        set_fields(self, lower=lower, upper=upper)

    @property
    def interval(self) -> tuple[float, float]:
        return math.log(self.lower), math.log(self.upper)

    def label(self, name: str) -> str:
        return f"log({name})"

    def raw(self, values: NDArray[Any]) -> NDArray[Any]:
        return self.clamp(values)

    def clamp(self, values: NDArray[Any]) -> NDArray[np.float64]:
        with np.errstate(over="ignore"):  # of long doubles
            return log(values, self.lower, self.upper)

    def to_plain(self) -> Any:
        return {"log": [self.lower, self.upper]}

    def describe(self) -> str:
        return f"logarithm of {self.lower:g} to {self.upper:g}"


#: How far from 1970 public dates may be: 64 bits of microseconds hold a little more.
MOST_YEARS = 290_000

#: Days in a unit of time; a year is the Gregorian calendar's mean.
DAYS = {
    "seconds": 1 / 86_400,
    "minutes": 1 / 1440,
    "hours": 1 / 24,
    "days": 1.0,
    "weeks": 7.0,
    "years": 365.2425,
}


@dataclass(frozen=True)
class Dates(Numeric):
    """Dates or times between two public ones, measured from the first.

    Parameters
    ----------
    lower, upper : str or date
        ISO 8601, such as "1980-01-01" or "2026-01-01T12:00"; times are UTC.
    unit : {"years", "weeks", "days", "hours", "minutes", "seconds"}, default "days"
        In which results are given: a coefficient is per unit, and 0 is `lower`. A year has
        365.2425 days.
    """

    lower: str
    upper: str
    unit: str = "days"
    holds: ClassVar[str] = "dates"

    def __post_init__(self) -> None:
        check_one_of(self.unit, "the unit of dates", DAYS)
        set_fields(self, lower=_iso(self.lower), upper=_iso(self.upper))
        if not self._days(self.lower) < self._days(self.upper):
            raise ValueError(
                f"the first of two dates must be before the second, not {self.lower} and "
                f"{self.upper}"
            )

    @staticmethod
    def _days(date: str) -> float:
        micros = np.datetime64(date, "us").astype(np.int64)
        return float(micros / 86_400e6)

    @property
    def origin(self) -> float:
        """Days from 1970 to the lower bound."""
        return self._days(self.lower)

    @property
    def interval(self) -> tuple[float, float]:
        return 0.0, (self._days(self.upper) - self.origin) / DAYS[self.unit]

    @property
    def scaling(self) -> tuple[float, float]:
        lower, upper = self.origin, self._days(self.upper)
        return upper / 2 + lower / 2, upper / 2 - lower / 2

    def raw(self, values: NDArray[Any]) -> NDArray[Any]:
        return days(values)

    def clamp(self, values: NDArray[Any]) -> NDArray[np.float64]:
        lower, upper = self.interval
        return np.clip((days(values) - self.origin) / DAYS[self.unit], lower, upper)

    def to_plain(self) -> Any:
        return {"dates": [self.lower, self.upper], "unit": self.unit}

    def describe(self) -> str:
        return f"{self.lower} to {self.upper}, in {self.unit} from the first"


@dataclass(frozen=True)
class Factor(Variable):
    """A variable with public levels, each an indicator of 0 and 1.

    Parameters
    ----------
    levels : sequence of str or of int
        All different. They are public: from the form or the code book, not from the data.
    other : bool, default False
        Whether a value that is not listed is of a further level "other". By default it is
        a missing value.

    Examples
    --------
    >>> import privgram as pg
    >>> pg.Columns({"region": pg.Factor(["n", "s"], other=True)}).names
    ('region[n]', 'region[s]', 'region[other]')
    """

    levels: tuple[Level, ...]
    other: bool = False

    def __init__(self, levels: Sequence[Level], other: bool = False) -> None:
        if levels is None or isinstance(levels, str) or not isinstance(levels, Collection):
            raise ValueError(f"a factor has a list of levels; {LEVELS_FROM_DATA}")
        if isinstance(levels, (set, frozenset)):
            raise TypeError("the levels of a factor are a list: their order is the matrix's")
        texts = {*map(type, levels)} == {str}
        known = tuple(levels) if texts else tuple(map(_level, levels))
        if not known:
            raise ValueError("a factor needs at least one level")
        if len({type(level) for level in known}) > 1:
            raise TypeError("the levels of a factor are all text or all whole numbers")
        if len(set(known)) < len(known):
            twice = Counter(known).most_common(1)[0][0]
            raise ValueError(f"the level {twice!r} is listed twice")
        if not isinstance(other, bool):
            raise TypeError("other is True or False")
        if other and "other" in known:
            raise ValueError('there is a level "other" already; use other=False')
        if len(known) + other > MAX_LEVELS:
            raise ValueError(f"a factor has at most {MAX_LEVELS:,} levels, not {len(known):,}")
        set_fields(self, levels=known, other=other)

    @property
    def text(self) -> bool:
        """Whether the levels are text, and not whole numbers."""
        return isinstance(self.levels[0], str)

    @property
    def holds(self) -> str:
        return f"{'text' if self.text else 'whole numbers'}, as its levels are"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Levels as text, "other" last if there is one."""
        return (*map(str, self.levels), *(("other",) if self.other else ()))

    @cached_property
    def codes(self) -> dict[Level, int]:
        """The position of each level."""
        return {level: code for code, level in enumerate(self.levels)}

    def __len__(self) -> int:
        return len(self.levels) + self.other

    def to_plain(self) -> Any:
        # A short list of numbers would be read as bounds.
        if self.other or not self.text:
            return {"levels": list(self.levels), "other": self.other}
        return list(self.levels)

    def describe(self) -> str:
        several = len(self) > 1
        return f"{len(self)} level{'s' * several}: {listed(self.names)}"


def variable(name: str, described: object) -> Variable:
    """Make a variable of what a user says of it, or a file, whose form is a mapping."""
    if isinstance(described, Variable):
        return described
    if described is bool or (isinstance(described, str) and described == "bool"):
        return Boolean()
    if described is None or isinstance(described, str):
        raise ValueError(f"column {name!r} has no bounds; {FROM_DATA}")
    try:
        if isinstance(described, Mapping):
            return _of_mapping(described)
        if isinstance(described, Collection) and any(isinstance(v, str) for v in described):
            return Factor(described)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise type(error)(f"column {name!r}: {error}") from None
    bounds = _pair(described, f"column {name!r}")
    whole = isinstance(described, Collection) and all(map(_is_whole, described))
    if whole and not isinstance(described, tuple):
        low, high = map(int, bounds)
        raise ValueError(
            f"column {name!r}: [{low}, {high}] may be bounds or levels. Write ({low}, {high}) for "
            f"a number between them, pg.Factor([{low}, {high}]) for these two levels"
        )
    return Number(*bounds)


def from_plain(described: object) -> object:
    """What a user would say of a variable, of what a file says: there a pair of numbers is bounds.

    Levels that are numbers have a table of their own in it.
    """
    if isinstance(described, list) and len(described) == 2 and not isinstance(described[0], str):
        return tuple(described)
    return described


def _is_whole(end: object) -> bool:
    return isinstance(end, (int, np.integer)) and not isinstance(end, (bool, np.bool_))


def _of_mapping(described: Mapping[str, Any]) -> Variable:
    keys = set(described)
    if keys == {"log"}:
        return Log(*_two(described["log"], "log"))
    if "dates" in keys and keys <= {"dates", "unit"}:
        return Dates(*_two(described["dates"], "dates"), described.get("unit", "days"))
    if "levels" in keys and keys <= {"levels", "other"}:
        return Factor(described["levels"], described.get("other", False))
    raise ValueError(
        "a table describes a factor by levels (and other), a logarithm by log, or dates by dates "
        f"(and unit), not by {', '.join(sorted(map(repr, keys))) or 'nothing'}"
    )


def _two(pair: object, what: str) -> tuple[Any, Any]:
    if isinstance(pair, (str, Mapping)) or not isinstance(pair, Collection) or len(pair) != 2:
        raise ValueError(f"{what} has two bounds, [lower, upper]")
    lower, upper = pair
    return lower, upper


def _pair(pair: Any, whose: str) -> tuple[float, float]:
    try:
        lower, upper = map(float, pair)
    except (TypeError, ValueError, OverflowError):
        coded = isinstance(pair, Collection) and len(pair) > 2
        raise ValueError(
            f"the bounds of {whose} are two numbers, (lower, upper); "
            + (NUMBERED if coded else FROM_DATA)
        ) from None
    if not (math.isfinite(lower) and math.isfinite(upper)):
        raise ValueError(f"the bounds of {whose} must be finite, not ({lower}, {upper})")
    if not lower < upper:
        raise ValueError(
            f"the lower bound of {whose} must be below the upper, not ({lower}, {upper})"
        )
    return lower, upper


def _level(level: object) -> Level:
    if isinstance(level, (bool, np.bool_)):
        raise TypeError("the levels of a factor are text or whole numbers; describe it by bool")
    if isinstance(level, str):
        return str(level)
    if isinstance(level, (int, np.integer)) and -(2**63) <= level < 2**63:
        return int(level)
    raise TypeError("the levels of a factor are text or whole numbers")


def is_missing(value: object) -> bool:
    """Tell None, NaN, NaT and pandas' NA, which are not equal to themselves."""
    try:
        return value is None or bool(value != value)
    except Exception:  # of pandas' NA nothing is true, nor of a tensor; a signaling NaN
        return True


def as_float(value: Any) -> float:
    """A cell as a number: NaN where it is none, and infinite beyond the range of doubles."""
    if type(value) is float:
        return value
    if isinstance(value, np.longdouble):
        with np.errstate(over="ignore"):
            return float(value)
    if isinstance(value, np.timedelta64) or not isinstance(value, NUMBERS):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except ValueError:  # a signaling NaN
        return math.nan


def _iso(date: object) -> str:
    """A date as ISO 8601 text, in UTC."""
    with suppress(ValueError):
        parsed = np.datetime64(_date(date))
        # Microseconds of farther dates would wrap around.
        years = parsed.astype("datetime64[Y]") - np.datetime64(0, "Y")
        if abs(years) <= np.timedelta64(MOST_YEARS, "Y"):
            return str(parsed)
    raise ValueError(
        "a bound of dates is ISO 8601 text, such as '2026-01-31', or a date, within "
        f"{MOST_YEARS:,} years of 1970"
    )


def days(values: NDArray[Any]) -> NDArray[np.float64]:
    """Days from 1970 of datetimes, NaN where there is none; other numbers are days already.

    A text that is no date in ISO 8601, or an object that is none, is a missing value: one person's
    must not be an error. The whole number of microseconds is divided, and rounded once: the same on
    every machine.
    """
    values = np.asarray(values)
    if values.dtype.kind == "f":
        return values.astype(np.float64, copy=False)
    if values.dtype.kind in "biu":  # of what, from when?
        raise TypeError("it holds numbers, not dates: make dates of them, by their unit and origin")
    if values.dtype.kind == "M":
        return _days_of_dates(values)
    dates = list(map(_date, values.tolist() if values.dtype.kind != "O" else values))
    micros: NDArray[np.datetime64] | None = None
    with suppress(TypeError, ValueError, OverflowError):  # which quote the value, as a context too
        micros = np.array(dates, "datetime64[us]")
    if micros is None:
        micros = np.array(list(map(_micros, dates)), "datetime64[us]")
    return _days_of_dates(micros)


#: ISO 8601 with a time zone.
_ZONED = re.compile(r".+[Tt ].*[Zz+-].*", re.DOTALL)

#: Microseconds, and days, beyond which 64 bits hold no date.
_FARTHEST = {"D": 106_751_991, "s": 9_223_372_036_854, "ms": 9_223_372_036_854_775}


def _days_of_dates(dates: NDArray[Any]) -> NDArray[np.float64]:
    """Days of dates of any unit; those too far for microseconds are as far as these go."""
    unit, count = np.datetime_data(dates.dtype)
    missing = np.isnat(dates)
    if unit != "us" and count == 1 and unit in _FARTHEST:
        farthest = _FARTHEST[unit]
        whole = np.clip(dates.astype(np.int64), -farthest, farthest)
        dates = np.where(missing, 0, whole).astype(dates.dtype)
    elif unit == "ns" and count == 1:  # NumPy's own floor overflows at the first of them
        dates = (dates.astype(np.int64) // 1000).astype("datetime64[us]")
    micros = dates.astype("datetime64[us]")
    days_from_1970: NDArray[np.float64] = micros.astype(np.int64) / 86_400e6
    days_from_1970[missing] = np.nan
    return days_from_1970


def _micros(date: Any) -> np.datetime64:
    """One date, or NaT for what is none."""
    with suppress(TypeError, ValueError, OverflowError):  # which quote the value, as a context too
        return np.datetime64(date, "us")
    return np.datetime64("NaT", "us")


def _date(value: Any) -> Any:
    """A date as NumPy takes it: without a time zone, and None for what is none."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        if not _ZONED.fullmatch(value):
            return value
        try:  # NumPy warns of what has a time zone
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return None
    if is_missing(value) or not isinstance(value, (datetime.date, np.datetime64)):
        return None
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return value
    with suppress(OverflowError):
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return None
