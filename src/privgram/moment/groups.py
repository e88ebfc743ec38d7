"""Second moments of the groups of a table: one pass, and a matrix for each public value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgram._base.forks import Guard
from privgram._base.saved import Frame, understood
from privgram._core import rows
from privgram._core.scale import DefaultRounding
from privgram.columns.encoding import DIRECT, Codes, codes_of, named
from privgram.columns.groups import Groups
from privgram.columns.unit import PrivacyUnit
from privgram.exact import limbs
from privgram.mechanisms.norm_bound import NormBound
from privgram.moment import SecondMoment, check_bound, check_n_columns
from privgram.moment.rows import (
    COMPUTED,
    PIECE,
    Feeder,
    converted,
    new_total,
    restored,
)
from privgram.sources.table import (
    NOT_FINITE,
    UNLISTED,
    Block,
    InvalidRow,
    Table,
    n_rows_of,
)

if TYPE_CHECKING:
    from privgram._core.rows import TableAccumulator
    from privgram.columns import Columns
    from privgram.columns.variables import Level

__all__ = ["NO_GROUP", "GroupFeeder", "SecondMoments", "apart", "filled", "new_totals"]

#: Bytes that the sums of all groups may take: more is rather a mistake.
MOST_BYTES = 1 << 34

_FRAME = Frame(b"privgram.moments\n", 1, "a SecondMoments")

NO_GROUP = (
    "is of a group that is not listed, or of none: list its value in Groups, put such rows "
    "together by Groups(..., unlisted='other'), or leave them out by unlisted='drop'"
)


class SecondMoments(Mapping[Any, SecondMoment]):
    """Exact second moments of the groups of a table, by group. SECRET: not differentially private.

    A mapping of each group to its `SecondMoment`, which is that of the group's rows alone, bit for
    bit. `second_moment` makes it, given ``by``; `release` releases all of it at one epsilon.

    Notes
    -----
    One row is in one group. So adding or removing a row moves one of the matrices, by at most
    ``bound ** 2`` in Frobenius norm; replacing one can move two of them by as much each, and all
    together by at most ``sqrt(2) * bound ** 2`` (docs/theory/groups.md). A unit of many rows may be
    in several groups, which share its bound: its matrices together move them by no more.
    """

    def __init__(
        self,
        total: TableAccumulator,
        groups: Groups,
        names: tuple[str, ...] | None,
        columns: Columns | None,
        bound: float,
        unit: PrivacyUnit | None = None,
    ) -> None:
        self._total = total
        self._unit = unit
        self._groups = groups
        self._names = names
        self._columns = columns
        self._bound = bound
        self._place = {label: i for i, label in enumerate(groups.labels)}
        self._guard = Guard()

    @property
    def by(self) -> str:
        """The column that says the group."""
        return self._groups.by

    @property
    def groups(self) -> Groups:
        """The groups, and what becomes of other rows. Public."""
        return self._groups

    @property
    def n_columns(self) -> int:
        """Number of columns of each, d."""
        return self._total.n_columns

    @property
    def bound(self) -> float:
        """L2 bound to which rows are clipped."""
        return self._bound

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns, if they have any."""
        return self._names

    @property
    def columns(self) -> Columns | None:
        """Public bounds the rows were scaled by, if any."""
        return self._columns

    @property
    def privacy_unit(self) -> PrivacyUnit | None:
        """Whose rows were bounded together; None where each row was bounded alone."""
        return self._unit

    @property
    def n_rows(self) -> int:
        """Number of rows that contribute, to all groups together; with a unit, of units in each."""
        return self._total.n_rows

    @property
    def n_dropped(self) -> int:
        """Number of rows that do not: for a missing value, or as of no group."""
        return self._total.n_dropped

    def __len__(self) -> int:
        return len(self._place)

    def __iter__(self) -> Iterator[Level]:
        return iter(self._place)

    def __getitem__(self, group: Level) -> SecondMoment:
        place = self._place[group]
        with self._guard.lock:
            hi, lo = self._total.totals()
            counts = self._total.counts()
        moment = self._moment((hi[place], lo[place]), *counts[:, place].tolist())
        moment.of_group = True
        return moment

    def values(self) -> Any:
        """All second moments, in the order of the groups."""
        return [moment for _, moment in self.items()]

    def items(self) -> Any:
        """All groups with their second moments; the totals are gone through once."""
        with self._guard.lock:
            hi, lo = self._total.totals()
            counts = self._total.counts().T.tolist()
        found = [
            (group, self._moment((hi[i], lo[i]), *counts[i])) for group, i in self._place.items()
        ]
        for _, moment in found:
            moment.of_group = True
        return found

    def _moment(self, state: limbs.Limbs, n_rows: int, n_dropped: int) -> SecondMoment:
        empty = new_total(self._columns, self.n_columns, self._bound, self._total.bits)
        if isinstance(empty, rows.Accumulator):  # whose triangle is the upper one
            d = self.n_columns
            upper = np.triu_indices(d)
            order = np.empty((d, d), np.intp)
            order[np.tril_indices(d)] = np.arange(d * (d + 1) // 2)
            state = state[0][order.T[upper]], state[1][order.T[upper]]
        total = restored(empty, state, n_rows, n_dropped)
        return SecondMoment.from_accumulator(
            total, self._names, self._columns, self._bound, self._unit
        )

    def total(self) -> SecondMoment:
        """The second moment of all groups together: that of the table, bit for bit."""
        with self._guard.lock:
            hi, lo = self._total.totals()
        sums = hi[0], lo[0]
        for i in range(1, len(hi)):
            sums = limbs.add(sums, (hi[i], lo[i]))
        return self._moment(sums, self.n_rows, self.n_dropped)

    def merge(self, other: SecondMoments) -> SecondMoments:
        """Add the rows of other second moments, of the same groups, shape, bound and columns.

        Not those of units, of which both may have rows.

        Returns
        -------
        SecondMoments
            This one.

        Raises
        ------
        ValueError
            If the two differ.
        """
        if not isinstance(other, SecondMoments):
            raise TypeError(f"only SecondMoments can be merged here, not {type(other).__name__}")
        if self._unit is not None or other._unit is not None:
            raise ValueError(
                "the two may have rows of the same units, which must be bounded together: pass all "
                "of the table to one second_moment(..., unit=..., by=...)"
            )
        for what in ("groups", "n_columns", "bound", "names", "columns"):
            if getattr(self, what) != getattr(other, what):
                raise ValueError(f"the second moments of the two differ in {what}")
        if _choice(self) != _choice(other):
            raise ValueError("the bounds of the two were not chosen together")
        addend = other.copy()._total  # never two locks, and others may be this one
        with self._guard.lock:
            self._total.merge(addend)
        return self

    def __add__(self, other: SecondMoments) -> SecondMoments:
        if not isinstance(other, SecondMoments):
            return NotImplemented
        return self.copy().merge(other)

    def copy(self) -> SecondMoments:
        """Return an independent copy."""
        return SecondMoments.from_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Serialise: versioned, checksummed, little-endian. SECRET."""
        with self._guard.lock:
            hi, lo = self._total.totals()
            counts = self._total.counts()
        header = {
            "n_columns": self.n_columns,
            "bound": self._bound.hex(),
            "norm_bound": self._bound.to_dict() if isinstance(self._bound, NormBound) else None,
            "bits": self._total.bits,
            "names": self._names,
            "columns": None if self._columns is None else self._columns.to_dict(),
            "groups": self._groups.to_dict(),
            "privacy_unit": None if self._unit is None else self._unit.to_dict(),
        }
        parts = (hi.astype("<i8"), lo.astype("<u8"), counts.astype("<i8"))
        return _FRAME.seal(header, *(part.tobytes() for part in parts))

    @classmethod
    def from_bytes(cls, data: bytes) -> SecondMoments:
        """Restore what `to_bytes` wrote.

        Raises
        ------
        DamagedFile
            A ValueError: if the data are something else, of a later version, or damaged.
        """
        header, body = _FRAME.open(bytes(data), "this")
        with understood("this", _FRAME.what):
            return cls._from_parts(header, body)

    @classmethod
    def _from_parts(cls, header: dict[str, Any], body: bytes) -> SecondMoments:
        from privgram.columns import Columns

        d = check_n_columns(header["n_columns"])
        columns = None if header["columns"] is None else Columns.from_dict(header["columns"])
        if columns is not None and len(columns) != d:
            raise ValueError("the columns are others than the header says")
        chosen = header["norm_bound"]
        bound = check_bound(float.fromhex(header["bound"]))
        if chosen is not None:
            bound = NormBound.from_dict(chosen)
        groups = Groups.from_dict(header["groups"])
        empty = new_totals(columns, d, bound, groups, header["bits"])
        n, size = len(groups), len(empty.stored()[0])
        if len(body) != 16 * (n * size + n + 1):
            raise ValueError("the length is not that of the matrices")
        hi = np.frombuffer(body, "<i8", n * size).reshape(n, size)
        lo = np.frombuffer(body, "<u8", n * size, 8 * n * size).reshape(n, size)
        counts = np.frombuffer(body, "<i8", 2 * (n + 1), 16 * n * size).reshape(2, n + 1)
        if counts.min() < 0 or sum(counts.ravel().tolist()) >= 2**63:
            raise ValueError("the numbers of rows are wrong")
        i, j = empty.stored()
        unit = header["privacy_unit"]
        unit = None if unit is None else PrivacyUnit.from_dict(unit)
        most = 1 if unit is None else math.isqrt(d) + 1  # the trace of a matrix of norm 1
        for k in range(n):
            diagonal = hi[k][i == j], lo[k][i == j]
            limbs.check_gram((hi[k], lo[k]), diagonal, most * int(counts[0, k]) << 2 * empty.bits)
        total = filled(empty, hi, lo, counts)
        names = header["names"]
        return cls(total, groups, None if names is None else tuple(names), columns, bound, unit)

    def __reduce__(self) -> tuple[Any, ...]:
        return (SecondMoments.from_bytes, (self.to_bytes(),))

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        # No counts: they are private.
        return (
            f"SecondMoments(by={self.by!r}, groups={len(self)}, n_columns={self.n_columns}, "
            f"bound={self.bound!r})"
        )


def _choice(moments: SecondMoments) -> str | None:
    return moments.bound.id if isinstance(moments.bound, NormBound) else None


def new_totals(
    columns: Columns | None, n_columns: int, bound: float, groups: Groups, bits: int = 20
) -> TableAccumulator:
    """Make an empty accumulator of rows by group.

    Raises
    ------
    ValueError
        If so many groups of so many columns take more memory than is sensible.
    """
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
        *shape, bound, bits, len(groups.factor.levels), groups.unlisted == "other"
    )


def filled(
    empty: TableAccumulator, hi: NDArray[Any], lo: NDArray[Any], counts: NDArray[np.int64]
) -> TableAccumulator:
    """An accumulator of the shape of an empty one, with these totals and counts."""
    layout = empty.positions_dense, empty.factors, empty.blocks, empty.bound, empty.bits
    return rows.TableAccumulator.from_groups(*layout, empty.groups, empty.other, hi, lo, counts)


def apart(table: Table, groups: Groups) -> tuple[tuple[str, ...] | None, int]:
    """Names of the other columns of an opened table, and which column says the group."""
    names = table.names
    if names is None:
        return None, table.n_columns - 1
    if groups.by not in names:
        raise ValueError(f"the table has no column named {groups.by!r}")
    place = names.index(groups.by)
    return (*names[:place], *names[place + 1 :]), place


class GroupFeeder(Feeder):
    """Feed blocks to one accumulator of groups; one feeder a thread.

    Parameters
    ----------
    accumulator : TableAccumulator, or another with an `update` as `Accumulator` has it
        Of groups; another is given the rows of all groups.
    columns : Columns, optional
        Public bounds to scale by.
    groups : Groups
    place : int
        Which column of a block says the group.
    """

    def __init__(
        self, accumulator: Any, columns: Columns | None, groups: Groups, place: int
    ) -> None:
        super().__init__(accumulator, columns)
        self._groups = groups
        self._place = place
        self._leave_out = groups.unlisted == "drop"
        self._lut = _lut(groups)

    def feed(self, block: Block) -> int:
        """Accumulate every row of a block and return how many there were."""
        n_rows = n_rows_of(block)
        place = self._place
        if isinstance(block, list):
            column: Any = block[place]
            rest: Any = [*block[:place], *block[place + 1 :]]
        else:
            column = block[:, place]
            last = place == block.shape[1] - 1
            rest = block[:, :place] if last else np.delete(block, place, axis=1)
        group = self._codes(column)
        of_groups = isinstance(self.accumulator, rows.TableAccumulator)
        add = self._add if of_groups else self._add_all
        step = max(n_rows, 1)
        if self._encoder is not None and self._encoder.derives:
            step = COMPUTED
        elif self._encoder is None and not rows.readable(rest):
            step = max(8, PIECE // self.accumulator.n_columns)
        for start in range(0, n_rows, step):
            part = slice(start, start + step)
            bad = add(rest, group.part(part), part)
            if bad >= 0:
                lost = group.part(part).plain()[bad] not in range(len(self._groups.factor))
                if lost and self._groups.unlisted == "error":
                    raise InvalidRow(start + bad, NO_GROUP)
                coded = self._encoder is not None and self._encoder.blocks
                raise InvalidRow(start + bad, UNLISTED if coded else NOT_FINITE)
        return n_rows

    def _codes(self, column: NDArray[Any] | Codes) -> Codes:
        if isinstance(column, Codes):
            found = column
        elif self._lut is not None and column.dtype.kind in "iu":
            found = Codes(column, self._lut)
        else:
            found = Codes(named(codes_of, self._groups.by)(column, self._groups.factor))
        return Codes(np.ascontiguousarray(found.indices), found.lut)

    def _add(self, rest: Any, group: Codes, part: slice) -> int:
        """Rows of a block and their groups into the accumulator."""
        total: TableAccumulator = self.accumulator
        more = (group.indices, group.lut), self._leave_out
        if self._encoder is None:
            if not rows.readable(rest):
                rest = converted(rest, part)
            elif isinstance(rest, list):
                rest = [x[part] for x in rest]
            else:
                rest = rest[part]
            return total.update(rest, [], [], self._drop, self._scaling, *more)
        parts = rest if isinstance(rest, list) else list(rest.T)
        some = [x.part(part) if isinstance(x, Codes) else x[part] for x in parts]
        if self._encoder.row_weights is not None:
            with DefaultRounding():
                written = self._encoder.table(some)
            return total.update(written, [], [], self._drop, None, *more)
        dense, codes, values = self._encoded(self._encoder, some)
        if not self._encoder.blocks:
            return total.update(dense, [], [], self._drop, self._encoder.scaling, *more)
        return total.update(dense, codes, values, self._drop, self._encoder.scaling, *more)

    def _add_all(self, rest: Any, group: Codes, part: slice) -> int:
        """Rows of a block into the accumulator: those of any group with their values."""
        codes = group.plain()
        kept = np.arange(len(codes))
        if self._groups.unlisted != "other":
            listed = (codes >= 0) & (codes < len(self._groups.factor))
            if not (self._leave_out or listed.all()):
                return int(listed.argmin())
            kept = np.flatnonzero(listed)
        some: list[Any] = [
            Codes(x.indices[part][kept], x.lut) if isinstance(x, Codes) else x[part][kept]
            for x in (rest if isinstance(rest, list) else rest.T)
        ]
        if self._encoder is None:
            given, scaling = converted(some, slice(None)), self._scaling
        else:
            with DefaultRounding():
                given, scaling = self._encoder.table(some), None
        total = self.accumulator
        bad = int(total.update(given, self._drop, scaling))
        # How many others there are it must not tell either: they have no values.
        total.update(np.full((len(codes) - len(kept), total.n_columns), np.nan), True)
        return bad if bad < 0 else int(kept[bad])


def _lut(groups: Groups) -> NDArray[np.int32] | None:
    """Codes of whole numbers by their value, where the numbers are small."""
    if groups.factor.text:
        return None
    levels = np.array(groups.factor.levels, np.int64)
    if not 0 <= levels.min() <= levels.max() < DIRECT:
        return None
    lut = np.full(int(levels.max()) + 1, -1, np.int32)
    lut[levels] = np.arange(len(levels))
    return lut
