"""One scan of a table by the threads of one machine.

The caller's thread advances the source, so that a generator, a database cursor or Ctrl-C
find the thread they expect, and hands chunks to workers, which decode and accumulate them
with the GIL released. Each worker has an accumulator of its own; they are merged at the
end, exactly, so that who did what leaves no trace. Of many columns their sums are the same memory.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from privgram._base.files import check_process
from privgram._core.rowmap import DefaultRounding
from privgram._core.rows import MOST_SHARERS, Accumulator
from privgram.columns.groups import Groups
from privgram.moment import SecondMoment
from privgram.moment.accumulators import BlockReader, Mergeable, TotalLayout
from privgram.moment.grouped import GroupBlockReader, SecondMoments, columns_apart, new_totals
from privgram.moment.second_moment import check_bound, check_n_columns, check_width
from privgram.moment.units import accumulator_of, bounds_of, moment_of, names_of_unit
from privgram.scan.progress import INTERVAL, Progress, Report, reporter
from privgram.scan.request import SMALL, ColumnsLike, ScanRequest
from privgram.scan.units import (
    Gatherer,
    RowBlockReader,
    Store,
    UnitBlockReader,
    UnitLayout,
    UnitsT,
)
from privgram.sources import open_source
from privgram.sources.table import (
    CachedSource,
    Chunk,
    InvalidRow,
    Table,
    TableSource,
    n_rows_of,
)

if TYPE_CHECKING:
    from privgram.columns import Columns
    from privgram.columns.unit import Unit

AccumulatorT = TypeVar("AccumulatorT", bound=Mergeable)
AddedT = TypeVar("AddedT", covariant=True)

#: From here on sums of a thread's own would not stay in its cache: all threads add to the same.
SHARED_COLUMNS = 1000


@overload
def second_moment(
    source: TableSource,
    bound: float | None = None,
    *,
    columns: ColumnsLike | None = None,
    unit: Unit | str | None = None,
    by: None = None,
    threads: int | None = None,
    progress: Progress = False,
) -> SecondMoment: ...
@overload
def second_moment(
    source: TableSource,
    bound: float | None = None,
    *,
    columns: ColumnsLike | None = None,
    unit: Unit | str | None = None,
    by: Groups | str,
    threads: int | None = None,
    progress: Progress = False,
) -> SecondMoments: ...
def second_moment(
    source: TableSource,
    bound: float | None = None,
    *,
    columns: ColumnsLike | None = None,
    unit: Unit | str | None = None,
    by: Groups | str | None = None,
    threads: int | None = None,
    progress: Progress = False,
) -> SecondMoment | SecondMoments:
    """Compute the exact second moment of a table, or of each of its groups, in one pass.

    Parameters
    ----------
    source : array_like, path, DataFrame, Arrow stream, mapping, or iterable of blocks
        A two-dimensional array (C or Fortran order, any strides and real type), or one of torch,
        CuPy, JAX or another library of the array API (on a GPU it is summed there), a path
        (``.npy``, ``.csv``, ``.parquet``, or a folder or glob of them), an object with
        ``__arrow_c_stream__`` (pyarrow, polars, pandas, duckdb), a query (pyarrow Dataset or
        Scanner, polars LazyFrame, DuckDB relation; run for the selected columns alone), a
        pandas DataFrame, a mapping of names to columns, or an iterable of any of these (of
        paths, a list). A Dask array or DataFrame, or a Spark DataFrame, is read by the workers
        of its cluster; the rows of a `Query` are added up by its engine.
    bound : float, optional
        L2 bound of a row. It may be left out with `Columns`, whose own bound is then used;
        a smaller one clips the scaled rows further.
    columns : Columns, mapping or sequence of str, optional
        Public bounds by which values are scaled, or names of the columns to take as they
        are. A mapping is what `Columns` takes, with a column of ones beside it. By default all
        columns are taken as they are. A table without names, such as an array, has its columns in
        the order of the bounds.
    threads : int, optional
        Number of threads; by default as many as cores this process may use, or one where
        the table is small. The result does not depend on it. Not for Dask and Spark.
    progress : bool or callable, default False
        True shows progress on stderr. A callable is called from this thread, now and
        then and at the end, with the number of rows read and the total if it is known.
    unit : Unit or str, optional
        Whose rows are bounded together: neighbouring tables then differ in all rows of one unit.
        The column alone, ``unit="patient"``, stands for ``Unit("patient")``.
    by : Groups or str, optional
        Which rows are of which group: the result is then a second moment for each. The column
        alone, ``by="state"``, is enough where `columns` describes it as a `Factor`; it is then no
        longer one of the columns. A unit that has rows in several groups is in each of them, and
        they share its bound.

    Returns
    -------
    SecondMoment, or SecondMoments with `by`
        SECRET: not differentially private.

    Raises
    ------
    ValueError
        If the bound is missing or unusable, a column is unknown, blocks differ in
        width, or a row holds NaN or infinity. The message gives the row's position, of the first
        such row in the order of the source, and no value of the data.
    TypeError
        If a column does not hold real numbers or the source is of no known kind.
    OSError
        If a file is missing, damaged, or changes while it is read, or a stream ends early.
    ImportError
        If a CSV or Parquet file is read without pyarrow.

    Notes
    -----
    Memory is bounded by a few blocks a thread, besides two d x d integer matrices of 16
    bytes an entry a thread; from 1,000 columns on, all threads have the same two.

    On a cluster each partition becomes a small state, and states are merged as a tree: the
    result is one machine's, bit for bit. A bad row is named by its partition and its
    position there; if there are several, any of them.

    With `Columns` infinities are clamped to the bounds like other values out of bounds;
    without, they raise.

    With `unit` rows may come in any order. They are kept until all are read, beyond a gigabyte in
    a temporary file (`TMPDIR` says where), which is as secret as the table.
    """
    request = ScanRequest.of(source, columns, bound, unit, by, threads, progress)
    if request.auto is not None:
        raise ValueError(
            "PrivateBound(...) spends privacy, and a sum is no release: pass it to pg.release"
        )
    return total_of(request)


def total_of(request: ScanRequest) -> SecondMoment | SecondMoments:
    """Do the scan of `second_moment`."""
    if (total_elsewhere := request.total_elsewhere) is not None:
        moment: SecondMoment | SecondMoments = total_elsewhere()
        return moment
    scaling, groups, unit = request.scaling, request.groups, request.unit
    if unit is not None:
        row_bound, bound = bounds_of(unit, request.row_bound)
        n = 0 if groups is None else len(groups)
        units, names = accumulate_units(
            request, lambda d: accumulator_of(unit, d, bound, row_bound, scaling, groups=n)
        )
        return moment_of(unit, units, names, scaling, bound, groups)
    bound = check_bound(request.row_bound)
    if groups is not None:
        totals, named = _accumulate_here(request, lambda d: new_totals(scaling, d, bound, groups))
        return SecondMoments(totals, groups, named, scaling, bound)
    total, named = _accumulate_here(request, lambda d: TotalLayout(scaling, d, bound).new())
    return SecondMoment.from_accumulator(total, named, scaling, bound)


def accumulate(
    request: ScanRequest, new: Callable[[int], AccumulatorT]
) -> tuple[AccumulatorT, tuple[str, ...] | None]:
    """Feed every row of a source to accumulators and merge them; with the names, if there are any.

    `new` makes an empty accumulator of rows of so many columns, or of rows by group: one that a
    `BlockReader` feeds. On a cluster both pickle, and there are no names.
    """
    if request.total_elsewhere is not None:
        if request.groups is not None:
            raise ValueError(
                "the norms of rows by group are counted by one machine, and this table is on a "
                "cluster: pass its files, or a bound that is known"
            )
        return request.total_elsewhere(new), None
    return _accumulate_here(request, new)


def _accumulate_here(
    request: ScanRequest, new: Callable[[int], AccumulatorT]
) -> tuple[AccumulatorT, tuple[str, ...] | None]:
    groups, scaling = request.groups, request.scaling
    block = None if groups is not None or scaling is None else _whole(request.source, scaling)
    if block is not None:
        assert scaling is not None
        with reporter(request.progress, n_rows_of(block)) as report:
            total = new(check_n_columns(len(scaling)))
            try:
                report(BlockReader(total, scaling).feed(block))
            except InvalidRow as error:
                raise error.explain(0) from None
        return total, scaling.names
    table = open_source(request.source, request.selection, by_position=scaling is not None)
    reader: Callable[[Any], BlockReader] = partial(BlockReader, columns=scaling)
    names, width = table.names, table.n_columns
    try:
        if groups is not None:
            names, place = columns_apart(table, groups)
            reader = partial(GroupBlockReader, columns=scaling, groups=groups, place=place)
            width -= 1
        d = width if scaling is None else len(scaling)
        check_width(width, check_n_columns(d), scaling)
        with reporter(request.progress, table.n_rows) as report:
            n_threads = request.threads_for(table.n_rows, d)
            make = _maker(new, d, n_threads)
            total = ScanExecutor(table, lambda: reader(make()), report).run(n_threads)
    finally:
        table.chunks.close()
    return total, names if scaling is None else scaling.names


def _whole(source: TableSource, columns: Columns) -> Any:
    """A small table of NumPy's numbers as the one block that it is; None for any other."""
    names = columns.selected if columns.plain else ()
    block: Any = source
    if type(source) is np.ndarray:
        parts, shape = [source], (*source.shape[:1], len(names))
    elif names and type(source) is dict and set(map(type, source)) == {str}:
        parts = block = [source.get(name) for name in names]
        shape = (getattr(parts[0], "size", -1),)
    else:
        return None
    for part in parts:
        if type(part) is not np.ndarray or part.shape != shape or part.dtype.kind not in "if":
            return None
    return block if names and len(parts) * parts[0].size < SMALL else None


def _maker(new: Callable[[int], Any], d: int, n_threads: int) -> Callable[[], Any]:
    if 1 < n_threads < MOST_SHARERS and d >= SHARED_COLUMNS:
        whole = new(d)
        if isinstance(whole, Accumulator) and not (whole.blocks or whole.layout[5]):
            return whole.beside
    return lambda: new(d)


def accumulate_units(
    request: ScanRequest, new: Callable[[int], UnitsT]
) -> tuple[UnitsT, tuple[str, ...]]:
    """Feed all rows of every unit of a source to accumulators, together, and merge them.

    As `accumulate`, but that an accumulator's ``update`` takes whole units, as
    `privgram._core.rows.UnitAccumulator` has it.
    """
    if request.total_elsewhere is not None:
        raise ValueError(
            "the norms of units are counted by one machine, and this table is on a cluster: pass "
            "its files, or a Unit with a bound or rows"
        )
    unit, scaling = request.unit, request.scaling
    assert unit is not None
    names = names_of_unit(unit, request.columns)
    layout = UnitLayout(request, names)
    d = check_n_columns(len(names) if scaling is None else len(scaling))
    kept = request.source if isinstance(request.source, CachedSource) and unit.name else None
    before = None if kept is None else kept.of_units(layout.key)
    table = before or open_source(request.source, layout.selection, by_position=False)
    n_threads = request.threads_for(table.n_rows, d)
    public = names if scaling is None else scaling.names

    def reader(kind: type[UnitBlockReader[UnitsT]] = UnitBlockReader) -> UnitBlockReader[UnitsT]:
        with DefaultRounding():
            return kind(new(d), layout)

    if not unit.name:  # rows by themselves, whose pieces lie together
        with closing(table.chunks), reporter(request.progress, table.n_rows) as report:
            rows = ScanExecutor(table, partial(reader, RowBlockReader), report)
            return rows.run(n_threads), public
    with Store(layout, n_threads) as store, reporter(request.progress, table.n_rows) as report:
        if before is not None:
            return ScanExecutor(before, reader, report).run(n_threads), public
        with closing(table.chunks):
            ScanExecutor(table, lambda: Gatherer(store), report).run(n_threads).finish()
        by_unit = store.table(table.n_rows)
        by_unit = by_unit if kept is None else kept.keep_units(layout.key, by_unit)
        total = ScanExecutor(by_unit, reader, lambda _: None).run(n_threads)
    return total, public


class ChunkReader(Protocol[AddedT]):
    """What a thread of a scan hands blocks to, and what it adds them up in."""

    @property
    def accumulator(self) -> AddedT:
        """What the threads' are merged into."""

    @property
    def sums_on_device(self) -> bool:
        """Whether `feed` takes rows that lie on a device."""

    def feed(self, block: Any) -> int:
        """Add every row of a block, and return how many there are; or raise `InvalidRow`."""


#: Numbered chunks for workers, and None for each at the end.
_Tasks: TypeAlias = "queue.Queue[tuple[int, Chunk] | None]"


class ScanExecutor(Generic[AccumulatorT]):
    """What the threads of one scan share."""

    def __init__(
        self, table: Table, new_reader: Callable[[], ChunkReader[AccumulatorT]], report: Report
    ) -> None:
        self.table = table
        self.new_reader = new_reader
        self.report = report
        self.lock = threading.Lock()
        self.pid = os.getpid()
        self.aborted = False
        self.rows = 0
        # Where a bad row stands is known once all chunks before its own are counted:
        # `before` rows are in the first `first` chunks, `counted` are out of turn.
        self.first, self.before = 0, 0
        self.counted: dict[int, int] = {}
        self.failure: tuple[int, Chunk, BaseException] | None = None
        self.finished: list[AccumulatorT] = []  # at most one, with all that ended

    def to_do(self) -> Iterator[tuple[int, Chunk]]:
        """Number the chunks."""
        for index, chunk in enumerate(self.table.chunks):
            check_process(self.pid)
            yield index, chunk
        check_process(self.pid)

    def run(self, n_threads: int) -> AccumulatorT:
        """Feed all rows to one accumulator, by so many threads."""
        return self.inline() if n_threads == 1 else self.threaded(n_threads)

    def inline(self) -> AccumulatorT:
        """Run in the caller's thread."""
        reader = self.new_reader()
        for index, chunk in self.to_do():
            self.process(reader, index, chunk)
            if self.failure:
                break
            self.report(self.rows)
        self.raise_failure()
        return reader.accumulator

    def threaded(self, n_threads: int) -> AccumulatorT:
        """Run in worker threads, started as work arrives."""
        # Nobody waits to hand over, or be handed, what is there from the beginning.
        tasks: _Tasks = queue.Queue(0 if self.table.kind == "ranges" else n_threads)
        readers: list[ChunkReader[AccumulatorT]] = []
        workers: list[threading.Thread] = []
        try:
            for task in self.to_do():
                if len(workers) < n_threads:
                    readers.append(self.new_reader())
                    workers.append(
                        threading.Thread(target=self.work, args=(readers[-1], tasks), daemon=True)
                    )
                    workers[-1].start()
                tasks.put(task)
                if self.failure:
                    break
                self.report(self.rows)
            check_process(self.pid)
            for _ in workers:
                tasks.put(None)
            for worker in workers:
                while worker.is_alive():
                    worker.join(INTERVAL)
                    self.report(self.rows)
        except BaseException:
            # Nothing before this call: a second Ctrl-C may come at any time.
            self.dismiss(workers, tasks)
            raise
        self.raise_failure()
        self.report(self.rows)
        check_process(self.pid)
        return self.finished.pop() if readers else self.new_reader().accumulator

    def dismiss(self, workers: list[threading.Thread], tasks: _Tasks) -> None:
        """End the workers, however often Ctrl-C is pressed meanwhile: it takes a block."""
        interrupted = None
        while True:
            try:
                if os.getpid() != self.pid:  # without workers, and with locks they may have held
                    return
                self.aborted = True
                with suppress(queue.Empty):
                    while True:
                        tasks.get_nowait()
                for _ in workers:
                    with suppress(queue.Full):
                        tasks.put_nowait(None)
                # One interrupted while it was started may be late: it finds that all is over.
                while any(worker.is_alive() for worker in workers):
                    for worker in workers:
                        if worker.is_alive():
                            worker.join()
                break
            except KeyboardInterrupt as again:
                interrupted = again
        if interrupted is not None:
            raise interrupted

    def work(self, reader: ChunkReader[AccumulatorT], tasks: _Tasks) -> None:
        """Process chunks until there are no more."""
        while not self.aborted and (task := tasks.get()) is not None:
            self.process(reader, *task)
        try:
            self.finish(reader.accumulator)
        except BaseException as error:
            self.failure = self.failure or (sys.maxsize, Chunk(lambda: iter(())), error)

    def finish(self, total: AccumulatorT) -> None:
        """Merge a worker's accumulator with others: two by two, which many threads do at once."""
        if hasattr(total, "settle"):
            total.settle()
        while not (self.aborted or self.failure):
            with self.lock:
                if not self.finished:
                    self.finished.append(total)
                    return
                other = self.finished.pop()
            total.merge(other)

    def process(self, reader: ChunkReader[AccumulatorT], index: int, chunk: Chunk) -> None:
        """Accumulate a chunk; a failure stands if no earlier chunk has failed."""
        rows = 0
        try:
            for block in chunk.blocks(reader.sums_on_device):
                if self.is_pointless(index):
                    return
                rows += reader.feed(block)
        except InvalidRow as error:
            self.fail(index, chunk, InvalidRow(rows + error.row, error.problem))
        except BaseException as error:
            self.fail(index, chunk, error)
        else:
            with self.lock:
                self.rows += rows
                self.counted[index] = rows
                while self.first in self.counted:
                    self.before += self.counted.pop(self.first)
                    self.first += 1

    def is_pointless(self, index: int) -> bool:
        """Tell whether a chunk is no longer wanted: the pass is over, or failed before it."""
        failure = self.failure
        return self.aborted or (failure is not None and failure[0] < index)

    def fail(self, index: int, chunk: Chunk, error: BaseException) -> None:
        """Note a failure, the first in the order of the source."""
        with self.lock:
            if self.failure is None or index < self.failure[0]:
                self.failure = index, chunk, error

    def raise_failure(self) -> None:
        """Raise the failure, all chunks before it being done."""
        if self.failure is None:
            return
        _, chunk, error = self.failure
        self.failure = None  # its traceback refers to this object
        if isinstance(error, InvalidRow):
            raise error.explain(self.before, chunk.place_of(error.row))
        raise error
