"""Second moments of tables in which a unit has many rows: its bound, and what adds up its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privgram._core.rows import UnitAccumulator
from privgram.columns import Columns
from privgram.columns.terms import INTERCEPT
from privgram.columns.unit import PrivateBound, Unit, bits_for, bound_of_rows
from privgram.moment.accumulators import TotalLayout
from privgram.moment.grouped import SecondMoments, new_totals
from privgram.moment.second_moment import SecondMoment, check_bound

if TYPE_CHECKING:
    from privgram.columns.groups import Groups


def bounds_of(unit: Unit, row_bound: float | None) -> tuple[float, float]:
    """Bounds of a row and of a unit: no row is longer than its unit may be."""
    if unit.bound is not None:
        assert not isinstance(unit.bound, PrivateBound)  # it has been chosen
        unit_bound = check_bound(unit.bound, "the bound of a unit")
        row_bound = unit_bound if row_bound is None else check_bound(row_bound)
        return min(float(row_bound), float(unit_bound)), unit_bound
    if unit.max_rows is None:
        raise ValueError(
            f"a unit needs a bound: Unit({unit.name!r}, max_rows=k) for units of about k rows, or "
            f"Unit({unit.name!r}, bound=C)"
        )
    row_bound = check_bound(row_bound)
    return float(row_bound), check_bound(bound_of_rows(unit.max_rows, float(row_bound)))


def names_of_unit(unit: Unit, columns: Columns | Sequence[str] | None) -> tuple[str, ...]:
    """The names of the columns to take beside the unit's."""
    if columns is None:
        raise ValueError(
            f"columns is missing: the unit {unit.name!r} is no number to add up, so name those "
            "that are, or pass a Columns"
        )
    return columns.selected if isinstance(columns, Columns) else tuple(columns)


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
    if unit.fixed_effects:
        if columns is not None and columns.encoder.blocks:
            raise ValueError(
                "fixed_effects=True takes no factors, whose levels would no longer sum to one: "
                "describe the levels that matter as columns of their own, by bool"
            )
        names = () if columns is None else columns.names
        ones = names.index(INTERCEPT) if INTERCEPT in names else -1
        centred = [j for j in range(n_columns) if j != ones]
    bits = bits_for(bound, row_bound) if bits is None else bits
    trace = unit.clip == "trace"
    return UnitAccumulator(n_columns, bound, row_bound, bits, trace, centred, groups)


def no_rows(columns: Columns, unit: Unit | None) -> SecondMoment:
    """The second moment of a table without rows: what those of such tables have in common."""
    if unit is None:
        return SecondMoment(len(columns), columns.bound, columns=columns)
    row_bound, bound = bounds_of(unit, columns.bound)
    empty = accumulator_of(unit, len(columns), bound, row_bound, columns)
    moment = moment_of(unit, empty, columns.names, columns, bound)
    assert isinstance(moment, SecondMoment)
    return moment


def moment_of(
    unit: Unit,
    total: UnitAccumulator,
    names: tuple[str, ...],
    columns: Columns | None,
    bound: float,
    groups: Groups | None = None,
) -> SecondMoment | SecondMoments:
    """The second moment of the units that were accumulated, or those of their groups."""
    # Of rows that are protected by themselves there is no unit to speak of.
    protected = replace(unit.protected, row_bound=float(total.row_bound)) if unit.name else None
    hi, lo = total.int128()
    if groups is None:
        layout = TotalLayout(columns, total.n_columns, total.bound, total.bits)
        at = layout.entries()
        summed = layout.restored((hi[at], lo[at]), total.n_units, 0)
        return SecondMoment.from_accumulator(summed, names, columns, bound, protected)
    grouped = new_totals(columns, total.n_columns, bound, groups, total.bits)
    i, j = grouped.stored()
    n_units = total.counts()
    counts = np.zeros((2, len(n_units)), np.int64)
    counts[0, :-1], counts[1, -1] = n_units[:-1], n_units[-1]
    of_groups = grouped.from_totals(grouped.layout, hi[:, i, j], lo[:, i, j], counts)
    return SecondMoments(of_groups, groups, names, columns, bound, protected)
