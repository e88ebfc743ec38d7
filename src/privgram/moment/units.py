"""Second moments of tables in which a unit has many rows: how a pass by unit begins and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._core.units import UnitAccumulator
from privgram.columns.terms import INTERCEPT
from privgram.columns.unit import Auto, Unit, bits_for, bound_of_rows
from privgram.mechanisms.norm_bound import NormBound
from privgram.moment import SecondMoment, check_bound
from privgram.moment.groups import SecondMoments, filled, new_totals
from privgram.moment.rows import new_total, restored

if TYPE_CHECKING:
    from privgram.columns import Columns
    from privgram.columns.groups import Groups

__all__ = ["accumulator_of", "bounds_of", "check_rows", "keyed", "moment_of", "moments_of"]


def check_rows(row_bound: object) -> None:
    """Refuse a bound that was chosen by single rows."""
    if isinstance(row_bound, NormBound):
        raise ValueError(
            "a bound chosen by single rows is not private for units: choose a unit's bound by "
            "private_norm_bound(..., unit=...)"
        )


def bounds_of(unit: Unit, row_bound: float | None) -> tuple[float, float]:
    """Bounds of a row and of a unit: no row is longer than its unit may be."""
    check_rows(row_bound)
    if unit.bound is not None:
        assert not isinstance(unit.bound, Auto)  # it has been chosen
        unit_bound = check_bound(unit.bound, "the bound of a unit")
        given = unit_bound if row_bound is None else check_bound(row_bound)
        return min(float(given), float(unit_bound)), unit_bound
    if unit.rows is None:
        raise ValueError(
            f"a unit needs a bound: Unit({unit.name!r}, rows=k) for units of about k rows, or "
            f"Unit({unit.name!r}, bound=C)"
        )
    row_bound = check_bound(row_bound)
    return float(row_bound), check_bound(bound_of_rows(unit.rows, float(row_bound)))


def keyed(
    unit: Unit, source: Any, columns: Columns | Sequence[str] | None
) -> tuple[Any, tuple[str, ...]]:
    """The source with its units as a column, and the names of the columns to take."""
    if unit.values is None:
        if columns is None:
            raise ValueError(
                f"columns is missing: the unit {unit.name!r} is no number to add up, so "
                "name those that are, or pass a Columns"
            )
        return source, _names(columns)
    table = np.asarray(source)
    if isinstance(source, Mapping) or table.ndim != 2 or unit.values.shape != table.shape[:1]:
        raise ValueError(
            "the values of a Unit are for an array of shape (n, d), an array of the n units of "
            "its rows; a table has them as a column"
        )
    wanted = getattr(columns, "selected", columns)
    names = tuple(f"x{i}" for i in range(table.shape[1])) if wanted is None else tuple(wanted)
    if len(names) != table.shape[1]:
        raise ValueError(f"there are {len(names)} columns and the array has {table.shape[1]}")
    rows: dict[str, Any] = {name: table[:, i] for i, name in enumerate(names)}
    return {**rows, unit.name: unit.values}, names


def accumulator_of(
    unit: Unit,
    n_columns: int,
    bound: float,
    row_bound: float,
    columns: Columns | None,
    bits: int | None = None,
    groups: int = 0,
) -> UnitAccumulator:
    """Make an empty accumulator of units, of so many groups if there are any."""
    centred: Sequence[int] = ()
    if unit.within:
        if columns is not None and columns.encoder.blocks:
            raise ValueError(
                "within=True takes no factors, whose levels would no longer sum to one: "
                "describe the levels that matter as columns of their own, by bool"
            )
        names = () if columns is None else columns.names
        ones = names.index(INTERCEPT) if INTERCEPT in names else -1
        centred = [j for j in range(n_columns) if j != ones]
    bits = bits_for(bound, row_bound) if bits is None else bits
    trace = unit.clip == "trace"
    return UnitAccumulator(n_columns, bound, row_bound, bits, trace, centred, groups)


def moment_of(
    unit: Unit,
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
    named = names if columns is not None or unit.values is None else None
    protected = replace(unit.protected, row_bound=float(total.row_bound))
    return SecondMoment.from_accumulator(summed, named, columns, bound, protected)


def moments_of(
    unit: Unit,
    total: UnitAccumulator,
    names: tuple[str, ...],
    columns: Columns | None,
    bound: float,
    groups: Groups,
) -> SecondMoments:
    """The second moments of the groups of units that were accumulated."""
    empty = new_totals(columns, total.n_columns, bound, groups, total.bits)
    i, j = empty.stored()
    hi, lo = total.limbs()
    found = total.counts()
    counts = np.zeros((2, len(found)), np.int64)
    counts[0, :-1], counts[1, -1] = found[:-1], found[-1]
    summed = filled(empty, hi[:, i, j], lo[:, i, j], counts)
    protected = replace(unit.protected, row_bound=float(total.row_bound))
    return SecondMoments(summed, groups, names, columns, bound, protected)


def _names(columns: Columns | Sequence[str]) -> tuple[str, ...]:
    return tuple(getattr(columns, "selected", columns))
