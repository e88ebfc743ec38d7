"""Rows of a unit brought together: parts by a hash of the unit, each then sorted by it.

One pass over the source puts rows into parts, in memory and, beyond a budget, in a file without
a name, which is gone when the process is. A part holds all rows of its units and is small
enough to sort. So memory is bounded by the budget and by a part a thread, and any source
will do, read once, whatever the order of its rows.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from privgram._core.rowmap import DefaultRounding
from privgram.columns.encoding import Codes, LevelCoder, Raw, naming_column
from privgram.columns.unit import Identifier
from privgram.columns.variables import Boolean, Dates, Factor, Variable
from privgram.moment.accumulators import Prepared
from privgram.moment.grouped import NO_GROUP
from privgram.sources.pieces import PieceBlock
from privgram.sources.table import UNLISTED, Chunk, InvalidRow, Keys, Table, keys_of

if TYPE_CHECKING:
    from privgram.columns.groups import Groups
    from privgram.scan.request import ScanRequest

UnitsT = TypeVar("UnitsT", bound=Any)  # as `UnitAccumulator`

#: Bytes of rows that all threads together hold before they are written to a file.
MEMORY_BUDGET = 1 << 30

#: A table of 10^11 rows has parts of a gigabyte or two.
SPILL_PARTS = 256

#: Rows handed to the kernel at a time, or one unit's.
KERNEL_ROWS = 1 << 13

_NO_UNIT = (
    "has no unit, a whole number or a text: nobody's rows cannot be bounded; leave such rows "
    "out by Unit(..., missing='drop')"
)


class UnitLayout:
    """How rows lie in parts: the numbers of a row, the codes of its factors, its group and its key.

    The column of the groups comes after the others. `names` are those of the columns to read.
    """

    def __init__(self, request: ScanRequest, names: Sequence[str]) -> None:
        assert request.unit is not None
        self.columns = request.scaling
        self.groups = request.groups
        self.unit = request.unit
        known: Mapping[str, Variable] = {} if self.columns is None else self.columns.reads
        self.variables = {name: known.get(name) for name in names}
        self.coded = [name for name, x in self.variables.items() if isinstance(x, Factor)]
        self.numbers = [name for name in names if name not in self.coded]
        self.drop = self.columns is not None and self.columns.missing == "drop"

    @property
    def selection(self) -> dict[str, Variable | None]:
        """What to read: the columns, perhaps the group, and last who each row belongs to."""
        unit, selection = self.unit.name, dict(self.variables)
        if unit in selection:
            raise ValueError(
                f"{unit!r} tells whose row a row is, and cannot be one of the columns too"
            )
        if self.groups is not None:
            self.groups.selection(self.columns, list(selection))  # which refuses one of the columns
            selection[self.groups.by] = self.groups.factor
        if unit in selection:
            raise ValueError(f"{unit!r} tells whose row a row is, and cannot say the group too")
        return {**selection, unit: Identifier()} if unit else selection

    @property
    def key(self) -> object:
        """What rows by unit that are kept depend on."""
        missing = self.unit.missing, self.columns is None, self.drop
        return list(self.selection.items()), self.groups, missing  # and on the order of columns

    def pack(self, parts: Sequence[Any], key: NDArray[Any]) -> NDArray[Any]:
        """Rows as records; InvalidRow at the first that may not be used."""
        records = np.empty(
            len(key),
            [
                ("key", key.dtype),
                *([] if self.groups is None else [("group", "i4")]),
                ("numbers", "f8", (len(self.numbers),)),
                ("codes", "i4", (len(self.coded),)),
            ],
        )
        records["key"] = key
        bad = np.zeros(len(key), bool)
        if self.groups is not None:
            *parts, of_groups = parts
            records["group"] = self._group_codes(self.groups, of_groups)
        for (name, described), part in zip(self.variables.items(), parts, strict=True):
            if isinstance(described, Factor):
                codes = LevelCoder(name, described)(part).plain()
                records["codes"][:, self.coded.index(name)] = codes
                bad |= codes < 0
            else:
                if isinstance(described, (Boolean, Dates)):
                    part = naming_column(described.raw, name)(part)
                with np.errstate(over="ignore"):
                    records["numbers"][:, self.numbers.index(name)] = part
        numbers = records["numbers"]
        if self.columns is None:
            bad |= ~np.isfinite(numbers).all(axis=1)
        elif not self.drop:
            bad |= np.isnan(numbers).any(axis=1)
        if self.groups is not None:
            bad &= records["group"] >= 0
        if bad.any() and not self.drop:
            row = int(bad.argmax())
            raise InvalidRow(row, UNLISTED) if self.coded else InvalidRow(row)
        return records

    @staticmethod
    def _group_codes(groups: Groups, column: Raw) -> NDArray[Any]:
        codes = LevelCoder(groups.by, groups.factor)(column).plain()
        lost = (codes < 0) | (codes >= len(groups.factor))
        if groups.unknown == "error" and lost.any():
            raise InvalidRow(int(lost.argmax()), NO_GROUP)
        return np.where(lost, len(groups.factor) if groups.unknown == "other" else -1, codes)

    def unpack(self, records: NDArray[Any]) -> NDArray[np.float64]:
        """Rows of the second moment, missing values NaN."""
        if self.columns is None:
            return np.ascontiguousarray(records["numbers"])
        return self.columns.encoder.table(self._parts(records))

    def prepared(self, records: NDArray[Any]) -> Prepared:
        """The same for a row map, which scales numbers where they lie."""
        encoder = None if self.columns is None else self.columns.encoder
        if encoder is None or encoder.blocks or encoder.row_weights is not None:
            return Prepared(self.unpack(records))
        return Prepared(encoder.encode(self._parts(records))[0], scaling=encoder.scaling)

    def _parts(self, records: NDArray[Any]) -> list[Raw]:
        raw: dict[str, Raw] = {x: records["numbers"][:, i] for i, x in enumerate(self.numbers)}
        raw |= {name: Codes(records["codes"][:, i]) for i, name in enumerate(self.coded)}
        return [raw[name] for name in self.variables]


class Store:
    """Parts of rows, filled by several threads and then read."""

    def __init__(self, layout: UnitLayout, n_threads: int) -> None:
        self.layout = layout
        self.budget = MEMORY_BUDGET // n_threads
        self.parts: dict[int, list[NDArray[Any]]] = defaultdict(list)
        self.written: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.records: dict[bool, np.dtype[Any]] = {}  # of rows whose keys are texts, and of others
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        #: Odd and secret: nobody can choose units that all fall into one part.
        self._factor = np.uint64(int.from_bytes(os.urandom(8), "little") | 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def parts_of(self, key: NDArray[Any], high: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Which part each key belongs to; `high` ones (see `Keys`) and texts have their own."""
        words = key.view(np.uint64).reshape(len(key), -1)
        mixed = words[:, 0] * self._factor
        for j in range(1, words.shape[1]):
            mixed = ((mixed ^ (mixed >> np.uint64(32))) + words[:, j]) * self._factor
        mixed ^= mixed >> np.uint64(29)
        mixed *= self._factor
        part = (mixed >> np.uint64(56)).astype(np.uint16)  # of which the sort is by digits
        if key.dtype.kind == "S":
            return part + 2 * SPILL_PARTS
        return part if high is None else part + SPILL_PARTS * high

    def record_of(self, part: int) -> np.dtype[Any]:
        """How the rows of a part lie."""
        return self.records[part >= 2 * SPILL_PARTS]

    def write(self, pieces: Mapping[int, list[NDArray[Any]]]) -> None:
        """Write rows of each part to the file."""
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="privgram-")  # noqa: SIM115
        for part, some in pieces.items():
            whole = np.concatenate(some)
            raw: Any = whole.view(np.uint8)
            with self._lock:
                self.written[part].append((self._file.tell(), whole.nbytes))
                self._file.write(raw)

    def table(self, n_rows: int | None) -> Table:
        """The parts as the chunks of a table."""
        return Table(None, len(self.layout.variables), n_rows, self._chunks())

    def _chunks(self) -> Generator[Chunk]:
        """Parts, small ones several at a time; but never of keys of different kinds."""
        some: list[int] = []
        size = 0
        for part in sorted({*self.parts, *self.written}):
            if some and (size >= KERNEL_ROWS or some[0] // SPILL_PARTS != part // SPILL_PARTS):
                yield Chunk(partial(self._read, some))
                some, size = [], 0
            some.append(part)
            size += self._size(part)
        if some:
            yield Chunk(partial(self._read, some))

    def _size(self, part: int) -> int:
        """How many rows of a part are in memory; of one on disk, as many as are a part alone."""
        return KERNEL_ROWS if part in self.written else sum(map(len, self.parts[part]))

    def _read(self, parts: Sequence[int]) -> Iterator[Any]:
        """Rows of some parts, by unit, and where each unit begins."""
        some = [records for part in parts for records in self.parts.pop(part, ())]
        for part in parts:
            record = self.record_of(part)
            some += [self._from_file(record, at, size) for at, size in self.written.get(part, ())]
        # As bytes: of records NumPy compares the types of all pieces, longer than the copy takes.
        raw: NDArray[np.uint8] = np.concatenate([records.view(np.uint8) for records in some])
        del some
        records = raw.view(record)
        records = records.take(_order(records))  # which does not copy field by field
        key = records["key"]
        starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        yield records, starts

    def _from_file(self, record: np.dtype[Any], at: int, size: int) -> NDArray[Any]:
        records: NDArray[Any] = np.empty(size // record.itemsize, record)
        raw: NDArray[np.uint8] = records.view(np.uint8)
        with self._lock:
            assert self._file is not None
            self._file.seek(at)
            if self._file.readinto(raw) != size:  # type: ignore[attr-defined]
                raise OSError("the temporary file of rows by unit was cut short")
        return records


def _order(records: NDArray[Any]) -> NDArray[np.intp]:
    """By key, and rows of one key by group."""
    key, grouped = np.ascontiguousarray(records["key"]), "group" in (records.dtype.names or ())
    if key.dtype.kind == "i" and not grouped:
        return np.argsort(key)
    words = list(key.view(np.uint64).reshape(len(key), -1).T)
    return np.lexsort([records["group"], *words] if grouped else words)


class Gatherer:
    """Puts the rows of blocks into the parts of a store; one a thread."""

    sums_on_device: ClassVar[bool] = False

    def __init__(self, store: Store) -> None:
        self.store = store
        self.drop = store.layout.unit.missing == "drop"
        self.held: dict[int, list[NDArray[Any]]] = defaultdict(list)
        self.size = 0

    @property
    def accumulator(self) -> Gatherer:
        """What the scan merges: this."""
        return self

    def feed(self, block: list[Any]) -> int:
        """Take every row of a block, whose last column holds the units; return their number."""
        try:
            n_rows = self._feed(block)
        except InvalidRow as error:
            raise block.blames(error) if isinstance(block, PieceBlock) else error from None
        return block.n_rows if isinstance(block, PieceBlock) else n_rows

    def _feed(self, block: list[Any]) -> int:
        """Take rows, or pieces of rows."""
        *parts, units = block
        key = units if isinstance(units, Keys) else keys_of(units)
        n_rows, present = len(key), None
        if key.missing is not None and key.missing.any():
            if not self.drop:
                raise InvalidRow(int(key.missing.argmax()), _NO_UNIT)
            present = np.flatnonzero(~key.missing)
            key, parts = key[present], [part[present] for part in parts]
        bad: list[tuple[int, str]] = []
        for rows, some in key.by_kind():
            of_kind = parts if len(rows) == len(key) else [part[rows] for part in parts]
            try:
                self._take(self.store.layout.pack(of_kind, some.values), some.high)
            except InvalidRow as error:
                row = int(rows[error.row])
                bad.append((row if present is None else int(present[row]), error.problem))
        if bad:
            raise InvalidRow(*min(bad))
        return n_rows

    def _take(self, records: NDArray[Any], high: NDArray[np.bool_] | None) -> None:
        self.store.records[records["key"].dtype.kind == "S"] = records.dtype
        part = self.store.parts_of(np.ascontiguousarray(records["key"]), high)
        records = records.take(np.argsort(part, kind="stable"))
        ends = np.cumsum(np.bincount(part, minlength=3 * SPILL_PARTS))
        starts = np.concatenate([[0], ends[:-1]])
        for i in np.flatnonzero(ends > starts).tolist():
            self.held[i].append(records[starts[i] : ends[i]])
        self.size += records.nbytes
        if self.size > self.store.budget:
            self.store.write(self.held)
            self.held.clear()
            self.size = 0

    def finish(self) -> None:
        """Leave what is in memory to the store."""
        for part, some in self.held.items():
            self.store.parts[part].extend(some)
        self.held.clear()

    def merge(self, other: Gatherer) -> None:
        """Take what another thread's holds."""
        other.finish()


class UnitBlockReader(Generic[UnitsT]):
    """Feeds the parts of a store, whole units at a time, to an accumulator; one a thread."""

    sums_on_device: ClassVar[bool] = False

    def __init__(self, accumulator: UnitsT, layout: UnitLayout) -> None:
        self.accumulator = accumulator
        self._layout = layout

    def _add(self, records: NDArray[Any], starts: NDArray[np.intp]) -> int:
        if hasattr(self.accumulator, "add_units"):
            return int(self.accumulator.add_units(self._layout.prepared(records), starts))
        x = self._layout.unpack(records)
        if self._layout.groups is None:
            return int(self.accumulator.update(x, starts, self._layout.drop))
        codes = np.ascontiguousarray(records["group"])
        return int(self.accumulator.update(x, starts, self._layout.drop, None, codes))

    def feed(self, block: tuple[NDArray[Any], NDArray[np.intp]]) -> int:
        """Accumulate the units of a part and return the number of their rows."""
        records, starts = block
        at = np.searchsorted(starts, np.arange(0, len(records), KERNEL_ROWS))
        cuts = np.unique(np.append(at, len(starts)))
        ends = np.append(starts, len(records))
        for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            row = ends[first]
            with DefaultRounding():
                bad = self._add(records[row : ends[last]], ends[first:last] - row)
            if bad >= 0:  # looked for already
                raise ValueError("a row holds a value that cannot be used")
        return len(records)


class RowBlockReader(UnitBlockReader[UnitsT]):
    """Feeds rows that come as their pieces, each a unit by itself, to an accumulator."""

    def feed(self, block: PieceBlock) -> int:  # type: ignore[override]
        """Accumulate the rows of a block and return their number."""
        try:
            records = self._layout.pack(block, block.rows)
        except InvalidRow as error:
            raise block.blames(error) from None
        super().feed((records, np.flatnonzero(np.diff(block.rows, prepend=-1))))
        return block.n_rows
