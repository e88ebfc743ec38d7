"""What is guaranteed to whom: the unit of privacy; and what a row with a missing value does."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar, Literal, Self, TypeAlias, get_args

from privgram._base.numbers import (
    check_integer,
    check_one_of,
    check_positive,
    check_within,
    set_fields,
)
from privgram._base.saved import JsonObject
from privgram.columns.variables import Variable

Missing: TypeAlias = Literal["error", "drop"]


def check_missing(missing: Missing | None) -> Missing | None:
    """Check what was asked; None is settled where the notion of neighbours is known."""
    if missing is not None:
        check_one_of(missing, "missing", get_args(Missing))
    return missing


def settled(missing: Missing | None, adjacency: str | None) -> Missing:
    """What is done where nothing was said: nothing is left out if the number of rows is public.

    Under "add-remove" it is private in any case, so that leaving rows out costs nothing; under
    "replace" it would become private.
    """
    if missing is not None:
        return missing
    return "drop" if adjacency == "add-remove" else "error"


UnitNorm = Literal["frobenius", "trace"]

#: Rows of a unit of more, each within the row bound, would be too coarse beside it.
MOST_UNIT_ROWS = 1 << 20

#: Bits by which rows of a unit may be finer than those of a table of rows.
FINER = 4


@dataclass(frozen=True)
class PrivateBound:
    """A bound to be chosen by the table, near a quantile of its norms, which costs privacy.

    One pass counts norms between the points of a public grid, 16 an octave: from 1e-9 to 1e9, or
    with `Columns` from 1/1024 of their own bound to that; of units, that of `Unit.max_rows` rows,
    or of 1024. The exponential mechanism draws a point. With M points it misses the quantile by
    more than ``(2 / epsilon) (log(M) + t)`` rows with a probability below exp(-t)
    (docs/theory/norm-bound.md). Rows beyond the bound are clipped to it.

    Parameters
    ----------
    epsilon : float
        Privacy parameter of the choice, > 0, spent besides that of the release, which states both
        together.
    quantile : float, optional
        Part of the rows, or units, not to be clipped, in (0, 1). By default 0.95 of the rows,
        and half of the units: the factors of units leave slopes as they are where units are alike,
        and the noise is smaller.
    """

    epsilon: float
    quantile: float | None = None

    def __post_init__(self) -> None:
        set_fields(self, epsilon=check_positive(self.epsilon, "epsilon"))
        if self.quantile is not None:
            set_fields(self, quantile=check_within(self.quantile, "quantile", 0, 1))


@dataclass(frozen=True)
class Identifier(Variable):
    """A column that tells whose row a row is: nothing is computed from it but equality."""

    holds: ClassVar[str] = (
        "whole numbers or texts, as a unit's must be: cast it to one of these, floats too, in "
        "pandas to Int64 where values are missing"
    )

    def to_plain(self) -> str:
        """An identifier is not described in a file."""
        raise NotImplementedError

    def describe(self) -> str:
        """Say in a few words what is known of it."""
        return "an identifier"


@dataclass(frozen=True)
class PrivacyUnit:
    """Whose rows are protected together. Public.

    Neighbouring tables differ in all rows of one unit. The rows of a unit contribute
    M = sum x x^T to the second moment, or c M where the norm of M would exceed the square of the
    unit's bound C.

    Attributes
    ----------
    name : str
        The column by which rows of one unit are told.
    clip : {"frobenius", "trace"}
        Whether the Frobenius norm of M is at most C^2, or its trace, the sum of squared row norms.
    fixed_effects : bool
        Whether a unit's own means were subtracted from its rows, in all columns but the intercept.
    row_bound : float or None
        L2 bound to which single rows were clipped before that; None where no rows were read yet. It
        does not tell one unit from another.
    missing : {"error", "drop"}
        Whether rows without a unit were refused, or left out. Then the number of units differs
        between neighbouring tables, and is private.
    """

    name: str
    clip: UnitNorm = "frobenius"
    fixed_effects: bool = False
    row_bound: float | None = field(default=None, compare=False)
    missing: Missing = "error"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(
                "unit is the name of a column: of an array make a mapping of its columns, with the "
                "units beside them, {'x': X[:, 0], 'person': ids}"
            )
        check_one_of(self.missing, "missing", get_args(Missing))
        check_one_of(self.clip, "clip", get_args(UnitNorm))
        if not isinstance(self.fixed_effects, bool):
            raise TypeError("fixed_effects is True or False")
        if self.row_bound is not None:
            check_positive(self.row_bound, "row_bound")

    def to_dict(self) -> JsonObject:
        """The attributes, as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: JsonObject) -> Self:
        """A unit from what `to_dict` gave."""
        return cls(**values)


@dataclass(frozen=True)
class Unit:
    """Whose rows are protected together, and how far they may move a second moment.

    Parameters
    ----------
    name : str
        Column that tells whose row a row is, by whole numbers or texts.
    max_rows : int, optional
        k, with which the unit's bound is sqrt(k) times that of a row: units of up to k rows are
        not scaled. With a bound that is to be chosen, only the upper end of the choice.
    bound : float or PrivateBound, optional
        C: the matrix that a unit contributes has at most norm C^2, and is scaled down to that if
        it must be. It is public, or `PrivateBound` chooses it by the table.
    clip : {"frobenius", "trace"}
        Norm of a unit's matrix: "frobenius" is the smaller one and serves `AnalyzeGauss`; "trace"
        serves `MatrixLaplace` too.
    fixed_effects : bool, default False
        Whether to subtract from each row the means of its unit's rows, in all columns but the
        intercept: regressions are then those with an effect for each unit.
    missing : {"error", "drop"}, optional
        What to do about a row whose unit is missing: raise, which tells that there is one and
        where, or leave it out: the number of units is then private, also under "replace". By
        default as `Columns.missing`.

    Examples
    --------
    >>> import privgram as pg
    >>> pg.Unit("patient", max_rows=15).fixed_effects
    False
    """

    name: str
    max_rows: int | None = None
    bound: float | PrivateBound | None = None
    clip: UnitNorm = "frobenius"
    fixed_effects: bool = False
    missing: Missing | None = None

    def __post_init__(self) -> None:
        check_missing(self.missing)
        _ = self.protected  # which checks the others
        if not (self.bound is None or isinstance(self.bound, PrivateBound)):
            bound = check_positive(self.bound, "the bound of a unit")
            if not isinstance(self.bound, int):  # which the digest of a query has as it is
                set_fields(self, bound=bound)
            if self.max_rows is not None:
                raise ValueError("bound and max_rows both bound a unit: give one of them")
        if self.max_rows is not None:
            rows = check_integer(self.max_rows, "max_rows", 1, MOST_UNIT_ROWS)
            set_fields(self, max_rows=rows)

    @classmethod
    def of(cls, unit: Unit | str | None) -> Unit | None:
        """Return the unit that a user names: one itself, by its column, or none."""
        return unit if unit is None or isinstance(unit, Unit) else cls(unit)

    @classmethod
    def of_row(cls, most: int) -> Unit:
        """A row that is protected by itself, of which up to so many rows are made."""
        return cls("", max_rows=most)

    def bounded(self, bound: float) -> Unit:
        """The same unit, with a bound that was chosen."""
        return replace(self, bound=bound, max_rows=None)

    def settled(self, adjacency: str | None) -> Unit:
        """The same unit, with `missing` as it is under a notion of neighbours, None if unknown."""
        return replace(self, missing=settled(self.missing, adjacency))

    @property
    def protected(self) -> PrivacyUnit:
        """What a release records of it."""
        return PrivacyUnit(
            self.name, self.clip, self.fixed_effects, missing=self.missing or "error"
        )


def bits_for(bound: float, row_bound: float) -> int:
    """Bits of a unit's bound, with which rows are about as fine as in a table of rows."""
    finer = math.ceil(math.log2(bound / row_bound)) if bound > row_bound else 0
    return 20 + min(FINER, finer)


def bound_of_rows(rows: int, row_bound: float) -> float:
    """The bound of a unit of so many rows, each within the row bound: sqrt(k) B."""
    return math.sqrt(rows) * row_bound
