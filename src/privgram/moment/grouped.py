"""Second moments of the groups of a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from privgram._base.saved import BinaryFormat, JsonObject
from privgram.columns.encoding import Codes, LevelCoder
from privgram.columns.groups import Groups
from privgram.columns.unit import PrivacyUnit
from privgram.exact import int128
from privgram.moment import SecondMoment
from privgram.moment.accumulators import BlockReader, TotalLayout, raw_columns
from privgram.moment.second_moment import MomentBase, read_public
from privgram.sources.table import RawBlock, Table, n_rows_of, some_rows

if TYPE_CHECKING:
    from privgram._core.rows import Accumulator
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

    _format = BinaryFormat(b"privgram.moments\n", 1, "a SecondMoments")
    _alike = ("groups", *MomentBase._alike)
    _total: Accumulator

    def __init__(
        self,
        total: Accumulator,
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
        total = self._layout.restored(state, n_rows, n_dropped)
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
        return self._format.seal(header, *(part.tobytes() for part in parts))

    @classmethod
    def _from_parts(cls, header: JsonObject, body: bytes) -> Self:
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
        return cls(empty.from_totals(empty.layout, hi, lo, counts), groups, *public)

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
) -> Accumulator:
    """Make an empty accumulator of rows by group; ValueError if it takes too much memory."""
    layout = TotalLayout(columns, n_columns, bound, bits)
    if 40 * layout.n_totals() * (len(groups) + 1) > MOST_BYTES:
        raise ValueError(
            f"{len(groups):,} groups of {n_columns:,} columns take more than "
            f"{MOST_BYTES >> 30} GiB: take fewer columns, or some of the groups at a time"
        )
    return layout.new(len(groups.factor.levels), groups.unknown == "other")


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
        self._coder = LevelCoder(groups.by, groups.factor)

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
        self._feed(rest, n_rows, self._coder(column))
        return n_rows

    def _problem(self, bad: int, group: Codes | None) -> str:
        assert group is not None
        lost = group.plain()[bad] not in range(len(self._groups.factor))
        return (
            NO_GROUP if lost and self._groups.unknown == "error" else super()._problem(bad, group)
        )

    def _add(self, block: RawBlock, group: Codes | None) -> int:
        assert group is not None
        total = self.accumulator
        if self._of_kernel:
            some = self.prepared(block)
            parts = some.dense, self.drop, some.scaling, some.codes, some.values
            return int(total.update(*parts, (group.indices, group.lut), self._leave_out))
        # Another one is given those of any group, written out.
        place = group.plain()
        taken = np.arange(len(place))
        if self._groups.unknown != "other":
            listed = (place >= 0) & (place < len(self._groups.factor))
            if not (self._leave_out or listed.all()):
                return int(listed.argmin())
            taken = np.flatnonzero(listed)
        listed_rows = some_rows(raw_columns(block), taken)
        some = self.prepared(listed_rows, written=True)
        bad = int(total.update(some.dense, self.drop, some.scaling))
        # How many others there are it must not tell either: they have no values.
        total.update(np.full((len(place) - len(taken), total.n_columns), np.nan), True)
        return bad if bad < 0 else int(taken[bad])
