"""What is publicly known of one variable of a table, before anyone looks at it."""

from __future__ import annotations

import datetime
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privgram._base.text import listed
from privgram._core.scale import DefaultRounding, log

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

#: What else than a bool stands for true or false: 1 and 0.
_TRUTH_TYPES = (bool, int, float, np.bool_, np.integer, np.floating)


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
        if not all(isinstance(value, _TRUTH_TYPES) or is_missing(value) for value in values):
            raise TypeError("it holds values that are not true and false")
        return np.array(
            [float(v) if not is_missing(v) and v in (0, 1) else math.nan for v in values]
        )

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
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def interval(self) -> tuple[float, float]:
        return math.log(self.lower), math.log(self.upper)

    def label(self, name: str) -> str:
        return f"log({name})"

    def raw(self, values: NDArray[Any]) -> NDArray[Any]:
        return self.clamp(values)

    def clamp(self, values: NDArray[Any]) -> NDArray[np.float64]:
        return log(values, self.lower, self.upper)

    def to_plain(self) -> Any:
        return {"log": [self.lower, self.upper]}

    def describe(self) -> str:
        return f"logarithm of {self.lower:g} to {self.upper:g}"


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
        if self.unit not in DAYS:
            raise ValueError(f"the unit of dates is one of {', '.join(DAYS)}, not {self.unit!r}")
        for end in ("lower", "upper"):
            object.__setattr__(self, end, _iso(getattr(self, end)))
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
        known = tuple(_level(level) for level in levels)
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
        object.__setattr__(self, "levels", known)
        object.__setattr__(self, "other", other)

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
    except TypeError:  # of pandas' NA nothing is true
        return True
    except ValueError:  # an array
        return False


def _iso(date: object) -> str:
    """A date as ISO 8601 text, in UTC and of microseconds at most."""
    if isinstance(date, datetime.datetime) and date.tzinfo is not None:
        date = date.astimezone(datetime.UTC).replace(tzinfo=None)
    try:
        if isinstance(date, (str, datetime.date, np.datetime64)) and not np.isnat(
            parsed := np.datetime64(date)
        ):
            return str(parsed)
    except ValueError:
        pass
    raise ValueError("a bound of dates is ISO 8601 text, such as '2026-01-31', or a date")


def days(values: NDArray[Any]) -> NDArray[np.float64]:
    """Days from 1970 of datetimes, NaN where there is none; other numbers are days already.

    A text that is no date in ISO 8601 is a missing value: one person's must not be an error. The
    whole number of microseconds is divided, and rounded once: the same on every machine.
    """
    values = np.asarray(values)
    if values.dtype.kind == "f":
        return values.astype(np.float64, copy=False)
    dates = list(map(_in_utc, values)) if values.dtype.kind == "O" else values
    are_counts = values.dtype.kind in "biu"  # of what, from when?
    if are_counts or (
        values.dtype.kind == "O" and any(isinstance(each, _TRUTH_TYPES) for each in dates)
    ):
        raise TypeError("it holds numbers, not dates: make dates of them, by their unit and origin")
    micros: NDArray[np.datetime64] | None = None
    with suppress(TypeError, ValueError):  # which quote the value, also as a context
        micros = np.array(dates, "datetime64[us]")
    if micros is None:
        micros = np.array([_micros(each) for each in dates], "datetime64[us]")
    days_from_1970: NDArray[np.float64] = micros.astype(np.int64) / 86_400e6
    days_from_1970[np.isnat(micros)] = np.nan
    return days_from_1970


def _micros(value: Any) -> np.datetime64:
    """One date, or NaT for a text that is none."""
    date = value.decode(errors="replace") if isinstance(value, bytes) else value
    with suppress(TypeError, ValueError):  # which quote the value, also as a context
        return np.datetime64(date, "us")
    if isinstance(date, str):
        return np.datetime64("NaT", "us")
    raise TypeError("it holds values that are no dates in ISO 8601")


def _in_utc(value: Any) -> Any:
    """A date as NumPy takes it: missing ones in one way, and without a time zone."""
    if is_missing(value):
        return None
    zone = getattr(value, "tzinfo", None)
    return value if zone is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
