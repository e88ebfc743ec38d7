"""Second moments of the groups of a table, and of tables in which a unit has many rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from privgram._base.saved import BinaryFormat
from privgram._core import rows
from privgram._core.units import UnitAccumulator
from privgram.columns.encoding import Codes, codes_by_value, codes_of, naming_column
from privgram.columns.groups import Groups
from privgram.columns.terms import INTERCEPT
from privgram.columns.unit import PrivacyUnit, PrivateBound, Unit, bits_for, bound_of_rows
from privgram.exact import int128
from privgram.mechanisms.norm_bound import NormBound
from privgram.moment import SecondMoment
from privgram.moment.accumulators import BlockReader, entries, new_total, restored
from privgram.moment.second_moment import MomentBase, check_bound, read_public
from privgram.sources.arrays import is_array, to_numpy
from privgram.sources.table import RawBlock, Table, n_rows_of, some_rows

if TYPE_CHECKING:
    from privgram._core.rows import TableAccumulator
    from privgram.columns import Columns
    from privgram.columns.variables import Level

#: Bytes that the sums of all groups may take: more is rather a mistake.
MOST_BYTES = 1 << 34

NO_GROUP = (
    "is of a group that is not listed, or of none: list its value in Groups, put such rows "
    "together by Groups(..., unknown='other'), or leave them out by unknown='drop'"
)


class SecondMoments(MomentBase, Mapping[Any, SecondMoment]):
    """Exact second moments of the groups of a table, by group. SECRET: not differentially private.

    A mapping of each group to its `SecondMoment`, which is that of the group's rows alone, bit for
    bit. `second_moment` makes it, given ``by``; `release` releases all of it at one epsilon.

    Notes
    -----
    One row is in one group. So adding or removing a row moves one of the matrices, by at most
    ``bound ** 2`` in Frobenius norm; replacing one can move two of them by as much each, and all
    together by at most ``sqrt(2) * bound ** 2`` (docs/theory/composition.md). A unit of many rows
    may be in several groups, which share its bound: its matrices together move them by no more.
    """

    _frame = BinaryFormat(b"privgram.moments\n", 1, "a SecondMoments")
    _alike = ("groups", *MomentBase._alike)
    _total: TableAccumulator

    def __init__(
        self,
        total: TableAccumulator,
        groups: Groups,
        names: tuple[str, ...] | None,
        columns: Columns | None,
        bound: float,
        unit: PrivacyUnit | None = None,
    ) -> None:
        self._adopt(total, names, columns, bound, unit)
        self._groups = groups
        self._place = {label: i for i, label in enumerate(groups.labels)}

    @property
    def by(self) -> str:
        """The column that says the group."""
        return self._groups.by

    @property
    def groups(self) -> Groups:
        """The groups, and what becomes of other rows. Public."""
        return self._groups

    def __len__(self) -> int:
        return len(self._place)

    def __iter__(self) -> Iterator[Level]:
        return iter(self._place)

    def __getitem__(self, group: Level) -> SecondMoment:
        place = self._place[group]
        hi, lo, counts = self._state()
        return self._moment((hi[place], lo[place]), *counts[:, place].tolist())

    def _state(self) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
        """Totals and counts of rows, by group."""
        with self._guard.lock:
            return (*self._total.totals(), self._total.counts())

    def values(self) -> Any:
        """All second moments, in the order of the groups."""
        return [moment for _, moment in self.items()]

    def items(self) -> Any:
        """All groups with their second moments; the totals are gone through once."""
        hi, lo, counts = self._state()
        return [
            (group, self._moment((hi[i], lo[i]), *counts[:, i].tolist()))
            for group, i in self._place.items()
        ]

    def _moment(
        self, state: int128.Int128, n_rows: int, n_dropped: int, of_group: bool = True
    ) -> SecondMoment:
        empty = new_total(self._columns, self.n_columns, self._bound, self._total.bits)
        total = restored(empty, state, n_rows, n_dropped)
        public = self._names, self._columns, self._bound, self._unit
        return SecondMoment.from_accumulator(total, *public, of_group)

    def total(self) -> SecondMoment:
        """The second moment of all groups together: that of the table, bit for bit."""
        hi, lo, _ = self._state()
        sums = hi[0], lo[0]
        for i in range(1, len(hi)):
            sums = int128.add(sums, (hi[i], lo[i]))
        return self._moment(sums, self.n_rows, self.n_dropped, of_group=False)

    def to_bytes(self) -> bytes:
        """Serialise: versioned, checksummed, little-endian. SECRET."""
        hi, lo, counts = self._state()
        header = self._header({}, {"groups": self._groups.to_dict()})
        parts = (hi.astype("<i8"), lo.astype("<u8"), counts.astype("<i8"))
        return self._frame.seal(header, *(part.tobytes() for part in parts))

    @classmethod
    def _from_parts(cls, header: dict[str, Any], body: bytes) -> Self:
        d, bits, public = read_public(header)
        _, columns, bound, unit = public
        groups = Groups.from_dict(header["groups"])
        empty = new_totals(columns, d, bound, groups, bits)
        n, size = len(groups), len(empty.stored()[0])
        if len(body) != 16 * (n * size + n + 1):
            raise ValueError("the length is not that of the matrices")
        hi = np.frombuffer(body, "<i8", n * size).reshape(n, size)
        lo = np.frombuffer(body, "<u8", n * size, 8 * n * size).reshape(n, size)
        counts = np.frombuffer(body, "<i8", 2 * (n + 1), 16 * n * size).reshape(2, n + 1)
        if counts.min() < 0 or sum(counts.ravel().tolist()) >= 2**63:
            raise ValueError("the numbers of rows are wrong")
        i, j = empty.stored()
        most = 1 if unit is None else math.isqrt(d) + 1  # the trace of a matrix of norm 1
        for k in range(n):
            diagonal = hi[k][i == j], lo[k][i == j]
            int128.check_gram((hi[k], lo[k]), diagonal, most * int(counts[0, k]) << 2 * empty.bits)
        total = filled(empty, hi, lo, counts)
        return cls(total, groups, *public)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        # No counts: they are private.
        return (
            f"SecondMoments(by={self.by!r}, groups={len(self)}, n_columns={self.n_columns}, "
            f"bound={self.bound!r})"
        )


def new_totals(
    columns: Columns | None, n_columns: int, bound: float, groups: Groups, bits: int = 20
) -> TableAccumulator:
    """Make an empty accumulator of rows by group; ValueError if it takes too much memory."""
    shape: tuple[Any, Any, Any] = tuple(range(n_columns)), (), ()
    if columns is not None and columns.encoder.by_codes:
        encoder = columns.encoder
        shape = encoder.positions, encoder.levels, encoder.coded
    entries = len(rows.stored(*shape)[0])
    if 40 * entries * (len(groups) + 1) > MOST_BYTES:
        raise ValueError(
            f"{len(groups):,} groups of {n_columns:,} columns take more than "
            f"{MOST_BYTES >> 30} GiB: take fewer columns, or some of the groups at a time"
        )
    return rows.TableAccumulator(
        *shape, bound, bits, len(groups.factor.levels), groups.unknown == "other"
    )


def filled(
    empty: TableAccumulator, hi: NDArray[Any], lo: NDArray[Any], counts: NDArray[np.int64]
) -> TableAccumulator:
    """An accumulator of the shape of an empty one, with these totals and counts."""
    layout = empty.positions_dense, empty.factors, empty.blocks, empty.bound, empty.bits
    return rows.TableAccumulator.from_groups(*layout, empty.groups, empty.other, hi, lo, counts)


def columns_apart(table: Table, groups: Groups) -> tuple[tuple[str, ...] | None, int]:
    """Names of the other columns of an opened table, and which column says the group."""
    names = table.names
    if names is None:
        return None, table.n_columns - 1
    if groups.by not in names:
        raise ValueError(f"the table has no column named {groups.by!r}")
    place = names.index(groups.by)
    return (*names[:place], *names[place + 1 :]), place


class GroupBlockReader(BlockReader):
    """Feed blocks, whose column at `place` says the group, to an accumulator; one feeder a thread.

    An accumulator that is not of groups is given the rows of all of them.
    """

    sums_on_device = False

    def __init__(
        self, accumulator: Any, columns: Columns | None, groups: Groups, place: int
    ) -> None:
        super().__init__(accumulator, columns)
        self._groups = groups
        self._place = place
        self._leave_out = groups.unknown == "drop"
        self._lut = codes_by_value(groups.factor)

    def feed(self, block: RawBlock) -> int:
        """Accumulate every row of a block and return how many there were."""
        place, n_rows = self._place, n_rows_of(block)
        if isinstance(block, list):
            column: Any = block[place]
            rest: Any = [*block[:place], *block[place + 1 :]]
        else:
            column = block[:, place]
            last = place == block.shape[1] - 1
            rest = block[:, :place] if last else np.delete(block, place, axis=1)
        self._feed(rest, n_rows, self._codes(column))
        return n_rows

    def _problem(self, bad: int, group: Codes | None) -> str:
        assert group is not None
        lost = group.plain()[bad] not in range(len(self._groups.factor))
        return (
            NO_GROUP if lost and self._groups.unknown == "error" else super()._problem(bad, group)
        )

    def _codes(self, column: NDArray[Any] | Codes) -> Codes:
        if isinstance(column, Codes):
            found = column
        elif self._lut is not None and column.dtype.kind in "iu":
            found = Codes(column, self._lut)
        else:
            found = Codes(naming_column(codes_of, self._groups.by)(column, self._groups.factor))
        return Codes(np.ascontiguousarray(found.indices), found.lut)

    def _add(self, block: RawBlock, group: Codes | None) -> int:
        assert group is not None
        total = self.accumulator
        if isinstance(total, rows.TableAccumulator):
            some = self.prepared(block)
            more = (group.indices, group.lut), self._leave_out
            return total.update(
                some.dense, some.codes, some.values, self._drop, some.scaling, *more
            )
        # Another one is given those of any group, written out.
        place = group.plain()
        kept = np.arange(len(place))
        if self._groups.unknown != "other":
            listed = (place >= 0) & (place < len(self._groups.factor))
            if not (self._leave_out or listed.all()):
                return int(listed.argmin())
            kept = np.flatnonzero(listed)
        listed_rows = some_rows(block if isinstance(block, list) else list(block.T), kept)
        some = self.prepared(listed_rows, written=True)
        bad = int(total.update(some.dense, self._drop, some.scaling))
        # How many others there are it must not tell either: they have no values.
        total.update(np.full((len(place) - len(kept), total.n_columns), np.nan), True)
        return bad if bad < 0 else int(kept[bad])


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
        assert not isinstance(unit.bound, PrivateBound)  # it has been chosen
        unit_bound = check_bound(unit.bound, "the bound of a unit")
        given = unit_bound if row_bound is None else check_bound(row_bound)
        return min(float(given), float(unit_bound)), unit_bound
    if unit.max_rows is None:
        raise ValueError(
            f"a unit needs a bound: Unit({unit.name!r}, max_rows=k) for units of about k rows, or "
            f"Unit({unit.name!r}, bound=C)"
        )
    row_bound = check_bound(row_bound)
    return float(row_bound), check_bound(bound_of_rows(unit.max_rows, float(row_bound)))


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
        return source, tuple(getattr(columns, "selected", columns))
    table = to_numpy(source) if is_array(source) else np.asarray(source)
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
    made = moment_of(unit, empty, columns.names, columns, bound)
    assert isinstance(made, SecondMoment)
    return made


def moment_of(
    unit: Unit,
    total: UnitAccumulator,
    names: tuple[str, ...],
    columns: Columns | None,
    bound: float,
    groups: Groups | None = None,
) -> SecondMoment | SecondMoments:
    """The second moment of the units that were accumulated, or those of their groups."""
    protected = replace(unit.protected, row_bound=float(total.row_bound))
    hi, lo = total.int128()
    if groups is None:
        empty = new_total(columns, total.n_columns, total.bound, total.bits)
        at = entries(empty)
        summed = restored(empty, (hi[at], lo[at]), total.n_units, 0)
        naming_column = names if columns is not None or unit.values is None else None
        return SecondMoment.from_accumulator(summed, naming_column, columns, bound, protected)
    grouped = new_totals(columns, total.n_columns, bound, groups, total.bits)
    i, j = grouped.stored()
    found = total.counts()
    counts = np.zeros((2, len(found)), np.int64)
    counts[0, :-1], counts[1, -1] = found[:-1], found[-1]
    of_groups = filled(grouped, hi[:, i, j], lo[:, i, j], counts)
    return SecondMoments(of_groups, groups, names, columns, bound, protected)
