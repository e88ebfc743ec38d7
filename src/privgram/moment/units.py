"""Second moments of tables in which a unit has many rows: what is asked, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privgram._core.units import UnitAccumulator
from privgram.columns.terms import INTERCEPT
from privgram.columns.unit import Clip, PrivacyUnit, bits_for, bound_of_rows
from privgram.mechanisms.norm_bound import NormBound
from privgram.moment import SecondMoment, check_bound
from privgram.moment.rows import new_total, restored

if TYPE_CHECKING:
    from privgram.columns import Columns

__all__ = ["UnitPlan", "by_unit"]

#: What the units of an array's rows are called.
UNIT = "unit"


@dataclass(frozen=True)
class UnitPlan:
    """What is asked of a pass by unit.

    Attributes
    ----------
    unit : PrivacyUnit
    missing : {"error", "drop"}
        What becomes of a row without a unit.
    bound : float or None
        Of a unit.
    rows : int or None
        Rows of a unit, by which its bound is the row bound times their square root.
    keys : object
        The units of an array's rows, where they are not a column.
    """

    unit: PrivacyUnit
    missing: Literal["error", "drop"]
    bound: float | None
    rows: int | None
    keys: Any = None

    @staticmethod
    def check_rows(row_bound: object) -> None:
        """Refuse a bound that was chosen by single rows."""
        if isinstance(row_bound, NormBound):
            raise ValueError(
                "a bound chosen by single rows is not private for units: choose a unit's bound by "
                "private_norm_bound(..., unit=...)"
            )

    def bounds(self, row_bound: float | None) -> tuple[float, float]:
        """Bounds of a row and of a unit: no row is longer than its unit may be."""
        self.check_rows(row_bound)
        if self.bound is not None:
            unit_bound = check_bound(self.bound, "unit_bound")
            given = unit_bound if row_bound is None else check_bound(row_bound)
            return min(float(given), float(unit_bound)), unit_bound
        if self.rows is None:
            raise ValueError(
                "a unit needs a bound: rows_per_unit=k for units of about k rows, or unit_bound"
            )
        row_bound = check_bound(row_bound)
        return float(row_bound), check_bound(bound_of_rows(self.rows, float(row_bound)))

    def with_keys(
        self, source: Any, columns: Columns | Sequence[str] | None
    ) -> tuple[Any, tuple[str, ...]]:
        """The source with its units as a column, and the names of the columns to take."""
        if self.keys is None:
            if columns is None:
                raise ValueError(
                    f"columns is missing: the unit {self.unit.name!r} is no number to add up, so "
                    "name those that are, or pass a Columns"
                )
            return source, _names(columns)
        table = np.asarray(source)
        if isinstance(source, Mapping) or table.ndim != 2 or self.keys.shape != table.shape[:1]:
            raise ValueError(
                "unit is the name of a column, or, for an array of shape (n, d), an array of the n "
                "units of its rows"
            )
        wanted = getattr(columns, "selected", columns)
        names = tuple(f"x{i}" for i in range(table.shape[1])) if wanted is None else tuple(wanted)
        if len(names) != table.shape[1]:
            raise ValueError(f"there are {len(names)} columns and the array has {table.shape[1]}")
        rows: dict[str, Any] = {name: table[:, i] for i, name in enumerate(names)}
        return {**rows, self.unit.name: self.keys}, names

    def new_total(
        self,
        n_columns: int,
        bound: float,
        row_bound: float,
        columns: Columns | None,
        bits: int | None = None,
    ) -> UnitAccumulator:
        """Make an empty accumulator of units."""
        centred: Sequence[int] = ()
        if self.unit.within:
            if columns is not None and columns.encoder.blocks:
                raise ValueError(
                    "within=True takes no factors, whose levels would no longer sum to one: "
                    "describe the levels that matter as columns of their own, by bool"
                )
            names = () if columns is None else columns.names
            ones = names.index(INTERCEPT) if INTERCEPT in names else -1
            centred = [j for j in range(n_columns) if j != ones]
        bits = bits_for(bound, row_bound) if bits is None else bits
        trace = self.unit.clip == "trace"
        return UnitAccumulator(n_columns, bound, row_bound, bits, trace, centred)

    def moment(
        self,
        total: UnitAccumulator,
        names: tuple[str, ...],
        columns: Columns | None,
        bound: float,
    ) -> SecondMoment:
        """The second moment of the units that were accumulated."""
        empty = new_total(columns, total.n_columns, total.bound, total.bits)
        hi, lo = total.limbs()
        at = empty.stored() if hasattr(empty, "stored") else np.triu_indices(total.n_columns)
        summed = restored(empty, (hi[at], lo[at]), total.n_units, 0)
        named = names if columns is not None or self.keys is None else None
        unit = replace(self.unit, row_bound=float(total.row_bound))
        return SecondMoment.from_accumulator(summed, named, columns, bound, unit)


def by_unit(
    unit: Any,
    bound: Any,
    rows: int | None,
    clip: Clip,
    within: bool,
    missing: Literal["error", "drop"],
) -> UnitPlan | None:
    """What is asked of a pass by the arguments of `privgram.second_moment`; None: rows."""
    if unit is None:
        if bound is not None or rows is not None or within:
            raise ValueError(
                "unit_bound, rows_per_unit and within are of a unit: say by unit which column "
                "tells whose row a row is"
            )
        return None
    if isinstance(bound, str) and bound == "auto":
        raise ValueError(
            'unit_bound="auto" spends privacy: pass it to pg.release with bound_epsilon, or pass '
            "here what private_norm_bound(..., unit=...) chose"
        )
    if missing not in ("error", "drop"):
        raise ValueError(f"unit_missing is 'error' or 'drop', not {missing!r}")
    if bound is not None and rows is not None:
        raise ValueError("unit_bound and rows_per_unit both bound a unit: give one of them")
    keys = None if isinstance(unit, str) else np.asarray(unit)
    name = unit if keys is None else UNIT
    return UnitPlan(PrivacyUnit(name, clip, within), missing, bound, rows, keys)


def _names(columns: Columns | Sequence[str]) -> tuple[str, ...]:
    return tuple(getattr(columns, "selected", columns))
