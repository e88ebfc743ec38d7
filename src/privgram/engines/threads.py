"""One pass over a table by the threads of one machine.

The caller's thread advances the source, so that a generator, a database cursor or Ctrl-C
find the thread they expect, and hands chunks to workers, which decode and accumulate them
with the GIL released. Each worker has an accumulator of its own; they are merged at the
end, exactly, so that who did what leaves no trace.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from privgram._base.checks import check_integer
from privgram._base.system import cores
from privgram.columns.groups import Groups, Unlisted
from privgram.engines import scale_out
from privgram.engines.progress import Report, reporter
from privgram.engines.units import Gatherer, Store, UnitFeeder
from privgram.engines.units import Layout as UnitLayout
from privgram.engines.units import selection as selection_with
from privgram.moment import SecondMoment, check_bound, check_n_columns, check_width
from privgram.moment.groups import GroupFeeder, SecondMoments, apart, new_totals
from privgram.moment.rows import Feeder, new_total
from privgram.moment.units import UnitPlan, by_unit
from privgram.sources import open_source
from privgram.sources.table import Chunk, InvalidRow, Selection, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privgram.columns import Columns
    from privgram.columns.unit import Clip
    from privgram.columns.variables import Factor, Level

#: Below this many values one thread has finished before a second has started.
SMALL = 1 << 18


@overload
def second_moment(
    source: Any,
    bound: float | None = None,
    columns: Columns | Sequence[str] | None = None,
    threads: int | None = None,
    progress: bool | Callable[[int, int | None], object] = False,
    *,
    unit: str | Any = None,
    unit_bound: float | None = None,
    rows_per_unit: int | None = None,
    clip: Clip = "frobenius",
    within: bool = False,
    unit_missing: Literal["error", "drop"] = "error",
    by: None = None,
    groups: None = None,
) -> SecondMoment: ...
@overload
def second_moment(
    source: Any,
    bound: float | None = None,
    columns: Columns | Sequence[str] | None = None,
    threads: int | None = None,
    progress: bool | Callable[[int, int | None], object] = False,
    *,
    by: str,
    groups: Sequence[Level] | Factor | None = None,
    unlisted: Unlisted = "drop",
) -> SecondMoments: ...
def second_moment(
    source: Any,
    bound: float | None = None,
    columns: Columns | Sequence[str] | None = None,
    threads: int | None = None,
    progress: bool | Callable[[int, int | None], object] = False,
    *,
    unit: str | Any = None,
    unit_bound: float | None = None,
    rows_per_unit: int | None = None,
    clip: Clip = "frobenius",
    within: bool = False,
    unit_missing: Literal["error", "drop"] = "error",
    by: str | None = None,
    groups: Sequence[Level] | Factor | None = None,
    unlisted: Unlisted = "drop",
) -> SecondMoment | SecondMoments:
    """Compute the exact second moment of a table, or of each of its groups, in one pass.

    Parameters
    ----------
    source : array_like, path, DataFrame, Arrow stream, mapping, or iterable of blocks
        A two-dimensional array (C or Fortran order, any strides and real type), a path
        (``.npy``, ``.csv``, ``.parquet``, or a folder or glob of them), an object with
        ``__arrow_c_stream__`` (pyarrow, polars, pandas, duckdb), a query (pyarrow Dataset or
        Scanner, polars LazyFrame, DuckDB relation; run for the selected columns alone), a
        pandas DataFrame, a mapping of names to columns, or an iterable of any of these (of
        paths, a list). A Dask array or DataFrame, or a Spark DataFrame, is read by the workers
        of its cluster.
    bound : float, optional
        L2 bound of a row. It may be left out with `Columns`, whose own bound is then used;
        a smaller one clips the scaled rows further.
    columns : Columns or sequence of str, optional
        Public bounds by which values are scaled, or names of the columns to take as they
        are. By default all columns are taken as they are. A table without names, such as
        an array, has its columns in the order of the bounds.
    threads : int, optional
        Number of threads; by default as many as cores this process may use, or one where
        the table is small. The result does not depend on it. Not for Dask and Spark.
    progress : bool or callable, default False
        True shows progress on stderr. A callable is called from this thread, now and
        then and at the end, with the number of rows read and the total if it is known.
    unit : str, or array_like of shape (n,), optional
        Column that tells whose row a row is, by whole numbers or texts: all rows of a unit are
        then bounded together, and neighbouring tables differ in all rows of one unit. For an
        array without names, the units of its rows.
    unit_bound : float, optional
        C: the matrix that a unit contributes has at most norm C^2, and is scaled down to that
        if it must be. Public, as `bound` is, unless `private_norm_bound` chose it.
    rows_per_unit : int, optional
        k, with which C is by default sqrt(k) times `bound`: units of up to k rows are not scaled.
    clip : {"frobenius", "trace"}
        Norm of a unit's matrix: "frobenius" is the smaller one and serves `AnalyzeGauss`; "trace"
        serves `MatrixLaplace` too.
    within : bool, default False
        Whether to subtract from each row the means of its unit's rows, in all columns but the
        intercept: regressions are then those with an effect for each unit.
    unit_missing : {"error", "drop"}
        What to do about a row whose unit is missing: raise, which tells that there is one and
        where, or leave it out.
    by : str, optional
        Column that says the group of a row; text or whole numbers. The result is then a second
        moment for each group. It is not among `columns`; of a table without names, the last one.
        Not with `unit`, whose rows may be in several groups.
    groups : sequence of str or of int, or Factor, optional
        With `by`: the values that get a second moment each, all different. They are public.
    unlisted : {"drop", "other", "error"}, default "drop"
        With `by`: what becomes of a row with another value, or with none. It is left out, of one
        more group, "other", or an error, which tells that there is such a row and where.

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
        If a file is missing, damaged, or changes while it is read.
    ImportError
        If a CSV, Parquet or Arrow source is read without pyarrow.

    Notes
    -----
    Memory is bounded by a few blocks a thread, besides two d x d integer matrices of 16
    bytes an entry a thread.

    On a cluster each partition becomes a small state, and states are merged as a tree: the
    result is one machine's, bit for bit. A bad row is named by its partition and its
    position there; if there are several, any of them.

    With `Columns` infinities are clamped to the bounds like other values out of bounds;
    without, they raise.

    With `unit` rows may come in any order. They are kept until all are read, beyond a gigabyte in
    a temporary file (`TMPDIR` says where), which is as secret as the table.
    """
    plan = by_unit(unit, unit_bound, rows_per_unit, clip, within, unit_missing)
    described = asked_groups(by, groups, unlisted, plan)
    if described is not None:
        return grouped(source, bound, columns, threads, progress, described)
    return pooled(source, bound, columns, threads, progress, plan)


def asked_groups(
    by: str | None, groups: Any, unlisted: str, plan: UnitPlan | None
) -> Groups | None:
    """The groups that are asked for, if they are; what cannot be is refused."""
    if by is None:
        if groups is not None:
            raise ValueError("groups are the values of a column: name it by `by`")
        return None
    if plan is not None:
        raise ValueError(
            "unit and by do not go together: rows of one unit may be in several groups, and these "
            "are not bounded together. Release the groups of rows, or the units of one group"
        )
    return Groups.of(by, groups, unlisted)


def grouped(
    source: Any,
    bound: float | None,
    columns: Columns | Sequence[str] | None,
    threads: int | None,
    progress: bool | Callable[[int, int | None], object],
    groups: Groups,
) -> SecondMoments:
    """Do the pass of `second_moment` for groups."""
    if hasattr(source, "sensitivity_bound"):
        raise TypeError(
            "a SecondMoment is the sum of all rows and cannot be taken apart: pass the table itself"
        )
    if (engine := scale_out(source)) is not None:
        _check_cluster(threads)
        moments: SecondMoments = engine.total(source, bound, columns, progress, groups=groups)
        return moments
    scaling, _ = _selection(columns)
    if bound is None and scaling is not None:
        bound = scaling.bound
    bound = check_bound(bound)
    total, names = accumulate(
        source,
        columns,
        threads,
        progress,
        lambda d: new_totals(scaling, d, bound, groups),
        groups=groups,
    )
    return SecondMoments(total, groups, names, scaling, bound)


def pooled(
    source: Any,
    bound: float | None,
    columns: Columns | Sequence[str] | None,
    threads: int | None,
    progress: bool | Callable[[int, int | None], object],
    plan: UnitPlan | None = None,
) -> SecondMoment:
    """Do the pass of `second_moment` for all rows together."""
    if (engine := scale_out(source)) is not None:
        _check_cluster(threads)
        moment: SecondMoment = engine.total(source, bound, columns, progress, plan)
        return moment
    scaling, _ = _selection(columns)
    if bound is None and scaling is not None:
        bound = scaling.bound
    if plan is not None:
        return _of_units(source, bound, columns, threads, progress, plan)
    bound = check_bound(bound)
    total, names = accumulate(
        source, columns, threads, progress, lambda d: new_total(scaling, d, bound)
    )
    return SecondMoment.from_accumulator(total, names, scaling, bound)


def accumulate(
    source: Any,
    columns: Columns | Sequence[str] | None,
    threads: int | None,
    progress: bool | Callable[[int, int | None], object],
    new: Callable[[int], Any],
    groups: Groups | None = None,
) -> tuple[Any, tuple[str, ...] | None]:
    """Feed every row of a source to accumulators and merge them.

    Parameters
    ----------
    source, columns, threads, progress
        See `second_moment`.
    new : callable
        Makes an empty accumulator of rows of so many columns: with an ``update`` and a
        ``merge`` as `privgram._core.rows.Accumulator` has them. On a cluster both pickle.
    groups : Groups, optional
        The accumulators are then of rows by group.

    Returns
    -------
    total : accumulator
        Of all rows.
    names : tuple of str or None
        The names of the columns, if they have any; None on a cluster.
    """
    if (engine := scale_out(source)) is not None:
        _check_cluster(threads)
        if groups is not None:
            raise ValueError(
                "the norms of rows by group are counted by one machine, and this table is on a "
                "cluster: pass its files, or as bound what private_norm_bound chooses"
            )
        return engine.total(source, None, columns, progress, new=new), None
    scaling, select = _selection(columns)
    n_threads = _check_threads(threads)
    if groups is not None:
        select = groups.selection(scaling, select)
    table = open_source(source, select, by_position=scaling is not None)
    feeder: Callable[[Any], Feeder] = partial(Feeder, columns=scaling)
    names, width = table.names, table.n_columns
    try:
        if groups is not None:
            names, place = apart(table, groups)
            feeder = partial(GroupFeeder, columns=scaling, groups=groups, place=place)
            width -= 1
        d = width if scaling is None else len(scaling)
        check_width(width, check_n_columns(d), scaling)
        small = table.n_rows is not None and table.n_rows * d < SMALL
        if threads is None and small:
            n_threads = 1
        names = names if scaling is None else scaling.names
        with reporter(progress, table.n_rows) as report:
            run = _Pass(table, lambda: feeder(new(d)), report)
            total = run.inline() if n_threads == 1 else run.threaded(n_threads)
    finally:
        table.chunks.close()
    return total, names


def accumulate_units(
    source: Any,
    columns: Columns | Sequence[str] | None,
    threads: int | None,
    progress: bool | Callable[[int, int | None], object],
    plan: UnitPlan,
    new: Callable[[int], Any],
) -> tuple[Any, tuple[str, ...]]:
    """Feed all rows of every unit of a source to accumulators, together, and merge them.

    As `accumulate`, but that an accumulator's ``update`` takes whole units, as
    `privgram._core.units.UnitAccumulator` has it.
    """
    if scale_out(source) is not None:
        raise ValueError(
            "the norms of units are counted by one machine, and this table is on a cluster: pass "
            "its files, or a unit_bound or rows_per_unit"
        )
    scaling, _ = _selection(columns)
    source, named = plan.with_keys(source, columns)
    layout = UnitLayout(named if scaling is None else scaling.selected, scaling)
    d = check_n_columns(len(named) if scaling is None else len(scaling))
    select = selection_with(named, scaling, plan.unit.name)
    n_threads = _check_threads(threads)
    table = open_source(source, select, by_position=False)
    if threads is None and table.n_rows is not None and table.n_rows * d < SMALL:
        n_threads = 1
    with Store(layout, n_threads) as store:
        try:
            with reporter(progress, table.n_rows) as report:
                run = _Pass(table, lambda: Gatherer(store, plan.missing == "drop"), report)
                (run.inline() if n_threads == 1 else run.threaded(n_threads)).finish()
        finally:
            table.chunks.close()
        run = _Pass(store.table(), lambda: UnitFeeder(new(d), layout), lambda _: None)
        total = run.inline() if n_threads == 1 else run.threaded(n_threads)
    return total, named if scaling is None else scaling.names


def _of_units(
    source: Any,
    bound: float | None,
    columns: Columns | Sequence[str] | None,
    threads: int | None,
    progress: bool | Callable[[int, int | None], object],
    plan: UnitPlan,
) -> SecondMoment:
    scaling, _ = _selection(columns)
    row_bound, unit_bound = plan.bounds(bound)
    total, names = accumulate_units(
        source,
        columns,
        threads,
        progress,
        plan,
        lambda d: plan.new_total(d, unit_bound, row_bound, scaling),
    )
    return plan.moment(total, names, scaling, unit_bound)


class _Pass:
    """What the threads of one pass share."""

    def __init__(
        self,
        table: Table,
        new_feeder: Callable[[], Any],
        report: Report,
    ) -> None:
        self.table = table
        self.new_feeder = new_feeder
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

    def to_do(self) -> Iterator[tuple[int, Chunk]]:
        """Number the chunks."""
        for index, chunk in enumerate(self.table.chunks):
            if self.is_forked():
                raise RuntimeError(
                    "the process was forked by the source, and the child has no part in the pass: "
                    "it must end with os._exit, as multiprocessing does"
                )
            yield index, chunk

    def inline(self) -> Any:
        """Run in the caller's thread."""
        feeder = self.new_feeder()
        for index, chunk in self.to_do():
            self.process(feeder, index, chunk)
            if self.failure:
                break
            self.report(self.rows)
        self.raise_failure()
        return feeder.accumulator

    def threaded(self, n_threads: int) -> Any:
        """Run in worker threads, started as work arrives."""
        tasks: queue.Queue[tuple[int, Chunk] | None] = queue.Queue(n_threads)
        feeders: list[Any] = []
        workers: list[threading.Thread] = []
        try:
            for task in self.to_do():
                if len(workers) < n_threads:
                    feeders.append(self.new_feeder())
                    workers.append(
                        threading.Thread(target=self.work, args=(feeders[-1], tasks), daemon=True)
                    )
                    workers[-1].start()
                tasks.put(task)
                if self.failure:
                    break
                self.report(self.rows)
            for _ in workers:
                tasks.put(None)
            for worker in workers:
                worker.join()
        except BaseException:
            # Nothing before this call: a second Ctrl-C may come at any time.
            self.dismiss(workers, tasks)
            raise
        self.raise_failure()
        self.report(self.rows)
        total = feeders[0].accumulator if feeders else self.new_feeder().accumulator
        for feeder in feeders[1:]:
            total.merge(feeder.accumulator)
        return total

    def dismiss(
        self, workers: list[threading.Thread], tasks: queue.Queue[tuple[int, Chunk] | None]
    ) -> None:
        """End the workers, however often Ctrl-C is pressed meanwhile: it takes a block."""
        interrupted = None
        while True:
            try:
                if self.is_forked():  # without workers, and with locks they may have held
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

    def work(self, feeder: Any, tasks: queue.Queue[tuple[int, Chunk] | None]) -> None:
        """Process chunks until told to end."""
        while not self.aborted and (task := tasks.get()) is not None:
            self.process(feeder, *task)

    def process(self, feeder: Any, index: int, chunk: Chunk) -> None:
        """Accumulate a chunk; a failure is kept if no earlier chunk has failed."""
        rows = 0
        try:
            for block in chunk.read():
                if self.is_pointless(index):
                    return
                rows += feeder.feed(block)
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

    def is_forked(self) -> bool:
        """Tell whether this is a child process, forked in the middle of the pass."""
        return os.getpid() != self.pid

    def fail(self, index: int, chunk: Chunk, error: BaseException) -> None:
        """Keep a failure, the first in the order of the source."""
        with self.lock:
            if self.failure is None or index < self.failure[0]:
                self.failure = index, chunk, error

    def raise_failure(self) -> None:
        """Raise the kept failure, all chunks before it being done."""
        if self.failure is None:
            return
        _, chunk, error = self.failure
        self.failure = None  # its traceback refers to this object
        if isinstance(error, InvalidRow):
            raise error.explain(self.before, chunk.place)
        raise error


def _check_cluster(threads: int | None) -> None:
    if threads is not None:
        raise ValueError("threads is for one machine; a cluster's scheduler has its own")


def _check_threads(threads: int | None) -> int:
    return cores() if threads is None else check_integer(threads, "threads", 1)


def _selection(
    columns: Columns | Sequence[str] | None,
) -> tuple[Columns | None, Selection]:
    """Tell bounds to scale by from names to take."""
    from privgram.columns import Columns

    if isinstance(columns, Columns):
        return columns, columns.reads
    return None, None if columns is None else _check_selection(columns)


def _check_selection(columns: Any) -> tuple[str, ...]:
    if isinstance(columns, (str, Mapping)) or not isinstance(columns, Iterable):
        raise TypeError("columns is a list of names or a Columns, which holds public bounds")
    names = tuple(columns)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("columns is a list of names or a Columns, which holds public bounds")
    if not names:
        raise ValueError("columns names no columns")
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"column {repeated[0]!r} is selected twice")
    return names
