"""Who is protected: the unit of privacy, one row or all rows that share a value of a column."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, Self

from privgram._base.checks import check_integer, check_positive
from privgram.columns.variables import Variable

__all__ = ["Clip", "Identifier", "PrivacyUnit"]

Clip = Literal["frobenius", "trace"]

CLIPS = ("frobenius", "trace")

#: Rows of a unit of more, each within the row bound, would be too coarse beside it.
MOST_ROWS = 1 << 20

#: Bits by which rows of a unit may be finer than those of a table of rows.
FINER = 4


@dataclass(frozen=True)
class Identifier(Variable):
    """A column that tells whose row a row is: nothing is computed from it but equality."""

    holds: ClassVar[str] = (
        "whole numbers or texts, as a unit's must be: cast it to one of these, floats too"
    )

    def to_plain(self) -> Any:
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
    within : bool
        Whether a unit's own means were subtracted from its rows, in all columns but the intercept.
    row_bound : float or None
        L2 bound to which single rows were clipped before that; None where it was not recorded, as
        in older files. It does not tell one unit from another.
    """

    name: str
    clip: Clip = "frobenius"
    within: bool = False
    row_bound: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError("unit is the name of a column")
        if self.clip not in CLIPS:
            raise ValueError(f"clip is {' or '.join(map(repr, CLIPS))}, not {self.clip!r}")
        if not isinstance(self.within, bool):
            raise TypeError("within is True or False")
        if self.row_bound is not None:
            check_positive(self.row_bound, "row_bound")

    def to_dict(self) -> dict[str, Any]:
        """The attributes, as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """A unit from what `to_dict` gave."""
        return cls(**values)


def name_of(unit: PrivacyUnit | None) -> str:
    """The unit as a ledger has it: a column's name, or "" for single rows."""
    return "" if unit is None else unit.name


def bits_for(bound: float, row_bound: float) -> int:
    """Bits of a unit's bound, with which rows are about as fine as in a table of rows."""
    finer = math.ceil(math.log2(bound / row_bound)) if bound > row_bound else 0
    return 20 + min(FINER, finer)


def bound_of_rows(rows_per_unit: Any, row_bound: float) -> float:
    """The bound of a unit of so many rows, each within the row bound: sqrt(k) B."""
    return math.sqrt(check_integer(rows_per_unit, "rows_per_unit", 1, MOST_ROWS)) * row_bound
