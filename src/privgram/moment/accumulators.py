"""Rows on their way into the kernel: converted if it cannot read them, mapped, scaled, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privgram._core import rowmap, rows
from privgram._core.rows import Accumulator as Kernel
from privgram.columns.encoding import Codes
from privgram.columns.terms import ONES
from privgram.moment.device import add_device_rows
from privgram.sources.arrays import DeviceRows
from privgram.sources.table import NOT_FINITE, UNLISTED, InvalidRow, RawBlock, n_rows_of, some_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privgram._core.rows import Scaling
    from privgram.columns import Columns
    from privgram.columns.encoding import Encoder, Raw
    from privgram.exact.int128 import Int128

    Indices = tuple[NDArray[Any], NDArray[np.int32] | None]
    CodedBlock = tuple[NDArray[Any], NDArray[np.int32] | None, int, NDArray[Any] | None, float]

#: Doubles of mapped rows at a time: 512 KiB, which stay in the cache.
SCRATCH = 1 << 16

#: More than rounding adds to the squared norm of an image that was clipped: of each of at most 2^15
#: products and sums 2^-53, and twice that of the clipping.
FACTOR_ROUNDING = 2.0**-36


def squares(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared norms of rows."""
    norms = np.empty(len(rows))
    rowmap.squared_norms(rows, norms)
    return norms


class Mergeable(Protocol):
    """What a scan adds up, a kernel's or an `Accumulator`: one a thread, merged at the end."""

    def merge(self, other: Self, /) -> None:
        """Add the rows of another."""


class Accumulator:
    """What this package adds up of rows beside the kernels' totals; on a cluster it pickles."""

    #: Names of its numbers and arrays, which add up, and of the accumulators in it, which merge.
    sums: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[tuple[str, ...]] = ()

    #: What a `MappedAccumulator` feeds it: the `Images` themselves, from which it takes numbers as
    #: it needs them, or rows of these; beside them perhaps the codes of levels.
    takes_images = False
    takes_levels = False

    def merge(self, other: Self) -> None:
        """Add the rows of another."""
        mine, others = vars(self), vars(other)
        mine |= {name: mine[name] + others[name] for name in self.sums}
        for name in self.parts:
            mine[name].merge(others[name])


class BlockAccumulator(Accumulator):
    """One that a `BlockReader` feeds."""

    n_columns: int

    def add_block(self, reader: BlockReader, block: RawBlock) -> int:
        """Accumulate the rows of a block; the position of the first that may not be used, or -1.

        By default `update` takes them written out.
        """
        rows = reader.prepared(block, written=True)
        return self.update(rows.dense, reader.drop, rows.scaling)

    def update(self, block: Any, drop: bool = False, scaling: Scaling | None = None) -> int:
        """Accumulate rows of numbers, as `privgram._core.rows.Accumulator.update`."""
        raise NotImplementedError


class TransformAccumulator(Accumulator):
    """What makes others of rows and hands those on to `inner`, which counts them."""

    parts: ClassVar[tuple[str, ...]] = ("inner",)
    inner: Any  # a kernel's, or one of these

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return int(self.inner.n_rows)

    @property
    def n_dropped(self) -> int:
        """Rows left out; an accumulator may count them among the others."""
        return int(self.inner.n_dropped)


class RowBuffer:
    """Memory for rows of k numbers by columns, which the next rows take again.

    To ask the system for as much each time may take longer than to fill it.
    """

    def __init__(self, k: int) -> None:
        self._size = k
        self._numbers = np.empty((k, 0))

    def __call__(self, n: int) -> NDArray[np.float64]:
        """Room for n rows, shape (n, k)."""
        if self._numbers.shape[1] < n:
            # Columns that do not all begin in one set of a cache.
            self._numbers = np.empty((self._size, n // 16 * 16 + 24))
        return self._numbers.T[:n]

    def __reduce__(self) -> tuple[Any, ...]:
        return RowBuffer, (self._size,)


@dataclass(frozen=True)
class Prepared:
    """Rows as the kernels read them: numbers, codes and values, and how these are scaled.

    Numbers that are written out have no scaling, and then nothing is beside them.
    """

    dense: Any
    codes: list[Indices] = field(default_factory=list)
    values: list[NDArray[Any]] = field(default_factory=list)
    scaling: Scaling | None = None
    encoder: Encoder | None = None

    @property
    def blocks(self) -> list[CodedBlock]:
        """Of each block of levels: codes, their number, and its values or weight."""
        if self.encoder is None or self.scaling is None:
            return []
        return [
            (
                *self.codes[factor],
                self.encoder.levels[factor],
                self.values[value] if value >= 0 else None,
                weight,
            )
            for factor, _, value, weight in self.encoder.coded
        ]


class RowMap:
    """The images z = A (c u) of rows u, with c = min(1, bound / |u|); `frame` is A, (k, d).

    A row's image depends on nothing but the row and the map.
    """

    def __init__(self, frame: NDArray[np.float64], bound: float) -> None:
        self._parameters = frame, bound
        self.bound = bound
        self.size = len(frame)
        #: Rows whose images are `SCRATCH` numbers.
        self.step = max(8, SCRATCH // max(len(frame), 1))
        self._frame = rowmap.transposed(frame)
        self._of_codes: NDArray[np.float64] | None = None
        self._room = RowBuffer(len(frame))

    def images(self, rows: Prepared) -> rowmap.Images:
        """Images of rows, (n, k), made where they are taken."""
        blocks, frame = rows.blocks, self._frame
        if blocks:
            assert rows.encoder is not None
            frame = self._by_codes(rows.encoder)
        return rowmap.Images(rows.dense, self.bound, frame, self.size, rows.scaling, blocks)

    def array(self, rows: Prepared) -> NDArray[np.float64]:
        """Images of rows by columns; the next ones take their place."""
        images = self.images(rows)
        return self._array(images, 0, len(images))

    def arrays(self, rows: Prepared) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Images of rows, some at a time; each as `array`."""
        images = self.images(rows)
        for start in range(0, len(images), self.step):
            stop = min(start + self.step, len(images))
            yield slice(start, stop), self._array(images, start, stop)

    def _array(self, images: rowmap.Images, start: int, stop: int) -> NDArray[np.float64]:
        room = self._room(stop - start)
        images.into(room, start)
        return room

    def _by_codes(self, encoder: Encoder) -> NDArray[np.float64]:
        """The frame with columns of numbers first, then those of each block's levels."""
        if self._of_codes is None:
            blocks = ((start, encoder.levels[factor]) for factor, start, *_ in encoder.coded)
            levels = (range(start, start + size) for start, size in blocks)
            order = [*encoder.positions, *chain.from_iterable(levels)]
            self._of_codes = rowmap.transposed(self._parameters[0][:, order])
        return self._of_codes

    def __reduce__(self) -> tuple[Any, ...]:
        return RowMap, self._parameters


class MappedAccumulator(TransformAccumulator, BlockAccumulator):
    """Feed an accumulator the images of rows.

    Whatever the accumulator promises of one row's influence, it promises of a row that is mapped.
    `frame` is of shape (k, d); `inner` takes rows of k columns, or the `Images` themselves where it
    says that it `takes_images`, and where it `takes_levels` the codes of the blocks that begin at
    `levels`.
    """

    def __init__(
        self, frame: NDArray[np.float64], bound: float, inner: Any, levels: Sequence[int] = ()
    ) -> None:
        self.n_columns = frame.shape[1]
        self.inner = inner
        ours = isinstance(inner, Accumulator)
        self._whole = ours and inner.takes_images
        self._levels = tuple(levels) if ours and inner.takes_levels else ()
        self._map = RowMap(frame, bound)

    def update(self, block: RawBlock, drop: bool = False, scaling: Scaling | None = None) -> int:
        """Accumulate rows; the position of the first that may not be used, or -1."""
        return self._update(Prepared(block, scaling=scaling), drop)

    def add_block(self, reader: BlockReader, block: RawBlock) -> int:
        """Accumulate the rows of a block, as they are prepared for a kernel."""
        return self._update(reader.prepared(block), reader.drop)

    def _update(self, rows: Prepared, drop: bool) -> int:
        if self._whole:
            bad: int = self.inner.update(self._map.images(rows), drop)
            return bad
        codes = [rows.blocks[i][:2] for i in self._places(rows)] if self._levels else []
        for some, images in self._map.arrays(rows):
            beside = [[(indices[some], lut) for indices, lut in codes]] if codes else []
            bad = self.inner.update(images, drop, *beside)
            if bad >= 0:
                return int(some.start) + int(bad)
        return -1

    def _places(self, rows: Prepared) -> Iterator[int]:
        """Which of the blocks of levels `inner` takes the codes of."""
        assert rows.encoder is not None
        starts = [start for _, start, *_ in rows.encoder.coded]
        return (starts.index(at) for at in self._levels)


class LevelAccumulator(BlockAccumulator):
    """Feed images of rows, with the levels that they are of, to what an inheritor makes of them.

    Read of the table are columns with the `factor`; a row's numbers are those of the `others`, and
    its image is z = A (c u), of a `matrix` A. With it comes u_1, its entry of the column of ones:
    1, or the root of its weight.
    """

    sums: ClassVar[tuple[str, ...]] = ("n_rows", "n_dropped")
    parts: ClassVar[tuple[str, ...]] = ("inner",)
    names_rows: ClassVar[bool] = False  # of those that may not be used, as long as nothing is spent
    inner: Any

    def __init__(
        self, read: Columns, others: Columns, factor: str, matrix: NDArray[np.float64]
    ) -> None:
        self.n_columns = len(others)
        self._read, self._factor = read, factor
        self._places = [read.selected.index(name) for name in others.selected]
        self._feeder = BlockReader(None, others)
        self._map = RowMap(matrix, others.bound)
        # One of them is not 0.
        self._ones = [at for at, x in enumerate(others.layout.image(ONES)[0]) if x]  # type: ignore[index]
        stored = [part for part in others.layout.stored if part.start <= self._ones[0]]
        self._one = stored[-1].weight
        self.n_rows = self.n_dropped = 0

    def feed(
        self, z: NDArray[np.float64], one: NDArray[np.float64], levels: NDArray[np.int32]
    ) -> None:
        """Take images, and for each u_1 and its level's position."""
        raise NotImplementedError

    def add_block(self, reader: BlockReader, block: RawBlock) -> int:
        """Accumulate the rows of a block, of columns as they come."""
        parts = raw_columns(block)
        with rowmap.DefaultRounding():
            levels = self._read.encoder.codes((self._factor,), parts).plain()
            rows = self._feeder.prepared([parts[i] for i in self._places])
        ones = np.full(len(levels), self._one)
        if rows.scaling is None:
            ones = np.ascontiguousarray(rows.dense[:, self._ones].sum(axis=1))
        for some, z in self._map.arrays(rows):
            one, level = ones[some], levels[some]
            missing = np.isnan(z[:, 0]) | (level < 0)
            n_missing = int(np.count_nonzero(missing))
            if n_missing:
                if self.names_rows and not reader.drop:
                    return int(some.start) + int(missing.argmax())
                z, one, level = np.asfortranarray(z[~missing]), one[~missing], level[~missing]
            self.feed(z, one, level)
            self.n_rows += len(z)
            self.n_dropped += n_missing
        return -1


class OtherColumnsAccumulator(LevelAccumulator):
    """The second moment of the other columns, of rows whose level is known."""

    names_rows = True

    def __init__(self, read: Columns, others: Columns, factor: str, _: int = 0) -> None:
        d = len(others)
        super().__init__(read, others, factor, np.eye(d))
        self.inner = rows.RowAccumulator(d, float(others.bound))

    def feed(
        self, z: NDArray[np.float64], one: NDArray[np.float64], levels: NDArray[np.int32]
    ) -> None:
        """Take images."""
        self.inner.update(z)


class FactorAccumulator(TransformAccumulator):
    """The second moment of images and, beside them, of the levels of factors.

    Images are clipped so that with the levels' entries, which stay, a row is within the bound. In
    it an image's numbers are at `positions`, and of each factor `levels` say where its first level
    is, how many there are, and a row's entry.
    """

    takes_levels = True
    inner: Kernel

    def __init__(
        self, positions: Sequence[int], levels: Sequence[tuple[int, int, float]], bound: float
    ) -> None:
        blocks = [(i, start, -1, weight) for i, (start, _, weight) in enumerate(levels)]
        self.inner = Kernel(positions, [size for _, size, _ in levels], blocks, bound)
        k = len(positions)
        square = (bound**2 - math.fsum(entry**2 for *_, entry in levels)) * (1 - FACTOR_ROUNDING)
        if not square > 0:
            raise ValueError("the levels' entries leave no room within the bound")
        self._radius = math.sqrt(square)
        self._scaling = np.zeros(k), np.ones(k), np.full(k, self._radius)

    def update(self, images: NDArray[np.float64], drop: bool, codes: list[Indices]) -> int:
        """Take the images of rows, which are clipped where they lie, and codes of their levels."""
        square = squares(images)
        far = np.flatnonzero(square > self._radius**2)
        images[far] *= (self._radius / np.sqrt(square[far]))[:, None]
        return self.inner.update(images, drop, self._scaling, codes, short=True)


#: Values converted at a time, 2 MiB. Fewer cost more in calls than they save in cache.
PIECE_VALUES = 1 << 18

#: Rows of which columns are computed at a time.
COMPUTED = 1 << 13


class TotalLayout(NamedTuple):
    """The kernel's accumulator of rows as they are described: by codes if there are factors."""

    columns: Columns | None
    n_columns: int
    bound: float
    bits: int = 20

    @property
    def shape(self) -> tuple[Any, Any, Any]:
        """Positions of numbers, levels of factors and blocks."""
        if self.columns is None or not self.columns.encoder.by_codes:
            return range(self.n_columns), (), ()
        encoder = self.columns.encoder
        return encoder.positions, encoder.levels, encoder.coded

    def new(self, groups: int = 0, other: bool = False) -> Kernel:
        """Make an empty accumulator, perhaps of groups."""
        return Kernel(*self.shape, self.bound, self.bits, groups, other)

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column of each of its totals."""
        return rows.stored(*self.shape)

    def n_totals(self) -> int:
        """How many totals there are, without making an accumulator of a file's say-so."""
        positions, sizes, coded = self.shape
        dense = len(positions)
        blocks = [(factor, sizes[factor]) for factor, *_ in coded]
        count: int = dense * (dense + 1) // 2 + sum((dense + 1) * levels for _, levels in blocks)
        for (one, levels), (other, others) in combinations(blocks, 2):
            count += levels if one == other else levels * others
        return count

    def restored(self, totals: Int128, n_rows: int, n_dropped: int) -> Kernel:
        """An accumulator with these totals and numbers of rows."""
        layout = *self.shape, self.bound, self.bits, 0, False
        counts = np.array([[n_rows], [n_dropped]])
        return Kernel.from_totals(layout, *totals, counts)


class BlockReader:
    """Feed blocks to one accumulator, scaled by public bounds; one feeder a thread.

    The kernel scales as it reads, and takes native float32, float64, int32 and int64 where they
    lie. Anything else becomes float64 a few thousand rows at a time, so that no input is ever
    copied whole.
    """

    def __init__(self, accumulator: Any, columns: Columns | None = None) -> None:
        self.accumulator = accumulator
        self.drop = columns is not None and columns.missing == "drop"
        self._of_kernel = not isinstance(accumulator, Accumulator)
        self._scaling = None if columns is None else columns.encoder.scaling
        self._encoder = None if columns is None or columns.plain else columns.encoder

    @property
    def sums_on_device(self) -> bool:
        """Whether `feed` takes rows that lie on a device, to sum them there."""
        return self._of_kernel and self._encoder is None

    def feed(self, block: Any) -> int:
        """Accumulate every row of a `RawBlock`, or of `DeviceRows`; return how many there were.

        InvalidRow at the first row that may not be used. The accumulator is then undefined.
        """
        if isinstance(block, DeviceRows):
            add_device_rows(self.accumulator, block, self._scaling, self.drop)
            return block.shape[0]
        n_rows = n_rows_of(block)
        self._feed(block, n_rows)
        return n_rows

    def _feed(self, block: RawBlock, n_rows: int, group: Codes | None = None) -> None:
        """Accumulate the rows of a block; `group` has the codes of their groups."""
        encoder = self._encoder
        step = n_rows  # what the kernel reads where it lies needs no cut
        if encoder is None and not rows.readable(block):  # type: ignore[arg-type]  # has no codes
            step = max(8, PIECE_VALUES // self.accumulator.n_columns)
        elif encoder is not None and encoder.derives:
            step = max(8, min(COMPUTED, 4 * PIECE_VALUES // max(len(encoder.dense), 1)))
        with rowmap.DefaultRounding():
            for start in range(0, n_rows, max(step, 1)):
                part = slice(start, start + step)
                of_part = None if group is None else group[part]
                bad = self._add(block if step >= n_rows else some_rows(block, part), of_part)
                if bad >= 0:
                    raise InvalidRow(start + bad, self._problem(bad, of_part))

    def _add(self, block: RawBlock, group: Codes | None) -> int:
        """Accumulate rows; the position of the first that may not be used, or -1."""
        if not self._of_kernel:
            return int(self.accumulator.add_block(self, block))
        if self._encoder is None:
            return int(self.accumulator.update(converted(block), self.drop, self._scaling))
        some = self.prepared(block)
        parts = some.dense, self.drop, some.scaling, some.codes, some.values
        return int(self.accumulator.update(*parts))

    def prepared(self, block: RawBlock, written: bool = False) -> Prepared:
        """Rows as the kernels read them; as numbers where they are weighted or to be `written`."""
        encoder = self._encoder
        if encoder is None:
            return Prepared(converted(block), scaling=self._scaling)
        parts = raw_columns(block)
        if written or encoder.row_weights is not None:
            return Prepared(encoder.table(parts))
        dense, codes, values = encoder.encode(parts)
        coded = [(code.indices, code.lut) for code in codes]
        dense, values = readable_columns(dense), readable_columns(values)
        return Prepared(dense, coded, values, encoder.scaling, encoder)

    def _problem(self, bad: int, group: Codes | None) -> str:
        return UNLISTED if self._encoder is not None and self._encoder.blocks else NOT_FINITE


def raw_columns(block: RawBlock) -> list[Raw]:
    """The columns of a block, one by one."""
    return block if isinstance(block, list) else list(block.T)


def converted(block: Any) -> Any:
    """A block as the kernel takes it."""
    if rows.readable(block):
        return block
    if isinstance(block, list):
        return readable_columns(block)
    with np.errstate(over="ignore"):
        return block.astype(np.float64)


def readable_columns(columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Columns as the kernel reads them: those that it cannot, as float64."""
    # A long double beyond float64 becomes infinite, and is clamped like any other value.
    with np.errstate(over="ignore"):
        return [x if rows.is_column(x) else x.astype(np.float64, order="C") for x in columns]
