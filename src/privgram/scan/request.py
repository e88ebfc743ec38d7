"""A scan of a table as it is asked for: checked once, and handed on whole."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from privgram._base.machine import cores
from privgram._base.numbers import check_integer
from privgram.columns import Columns
from privgram.columns.groups import Groups
from privgram.columns.unit import PrivateBound, Unit
from privgram.mechanisms import one_round
from privgram.moment.second_moment import SecondMoment
from privgram.scan.progress import Progress

if TYPE_CHECKING:
    from privgram.sources.table import Selection, TableSource

#: Columns as a user has them: described, by what describes them, or by their names alone.
ColumnsLike: TypeAlias = Columns | Mapping[str, Any] | Sequence[str]

IS_A_SUM = "a SecondMoment is the sum of all rows and cannot be taken apart: pass the table itself"

#: Below this many values one thread has finished before a second has started.
SMALL = 1 << 18


def scale_out(source: TableSource) -> Literal["dask", "spark", "warehouse"] | None:
    """Say what scans a table on a cluster or in a warehouse; None for all others.

    Neither Dask nor Spark is imported to tell: who holds such a table has done so.
    """
    # Half-way through its import in another thread, Dask may lack the function.
    is_dask_collection = getattr(sys.modules.get("dask"), "is_dask_collection", None)
    if is_dask_collection is not None and is_dask_collection(source):
        return "dask"
    if one_round(source):
        return "warehouse"
    return "spark" if type(source).__module__.partition(".")[0] == "pyspark" else None


def check_rereadable(source: TableSource, what: str, instead: str = "") -> None:
    """Refuse a table that is read once by what reads it several times: "AdaptiveGaussian() reads".

    `instead` says what to do other than to pass a table of another form.
    """
    if why := one_round(source):
        raise ValueError(
            f"{what} the table several times, and {why}: pass the rows themselves{instead}"
        )
    if isinstance(source, Iterator):
        raise ValueError(
            f"{what} the table several times, and an iterator or a stream is read once: pass a "
            f"path, a data frame or a list of blocks{instead}"
        )


def check_here(source: TableSource, what: str) -> None:
    """Refuse what has no rows that one machine can read again; `what` as in `check_rereadable`."""
    if isinstance(source, SecondMoment):
        raise TypeError(
            f"{what} the rows of the table, and a SecondMoment has none: pass the table itself"
        )
    if why := one_round(source):
        raise ValueError(f"{what} rows, and {why}: pass the rows themselves")
    if scale_out(source) is not None:
        raise ValueError(
            f"{what} tables by one machine, and this one is on a cluster: pass its files"
        )
    check_rereadable(source, what)


@dataclass(frozen=True)
class ScanRequest:
    """What is asked of one reading of a table; see `privgram.second_moment`."""

    source: TableSource  # SECRET
    # Bounds by which values are scaled, or names of columns to take as they are.
    columns: Columns | Sequence[str] | None = None
    # L2 bound of a row; None where it is that of the columns
    bound: float | PrivateBound | None = None
    unit: Unit | None = None  # whose rows are bounded together
    groups: Groups | None = None  # which get a moment each
    threads: int | None = None
    progress: Progress = False

    def __post_init__(self) -> None:
        if isinstance(self.bound, str):
            raise TypeError("bound must be a number, or PrivateBound(epsilon=...), not str")
        if self.groups is not None and isinstance(self.source, SecondMoment):
            raise TypeError(IS_A_SUM)
        if self.threads is not None:
            object.__setattr__(self, "threads", check_integer(self.threads, "threads", 1))
            if scale_out(self.source) is not None:
                raise ValueError("threads is for one machine; a cluster's scheduler has its own")
        if not (isinstance(self.progress, bool) or callable(self.progress)):
            raise TypeError("progress is True, False or a function of (rows, total)")
        if self.unit is not None:
            self._check_unit(self.unit)

    def _check_unit(self, unit: Unit) -> None:
        """Refuse a bound of single rows, and what groups that share the unit's cannot have."""
        if isinstance(self.bound, PrivateBound):
            raise ValueError(
                "bound=PrivateBound(...) looks at single rows, not at units: take "
                f"Unit({unit.name!r}, bound=PrivateBound(...))"
            )
        if self.groups is None:
            return
        what = ""
        if unit.clip != "frobenius":
            what = "clip='frobenius', by which they share it"
        elif isinstance(unit.bound, PrivateBound):
            what = "a bound that is known, or max_rows=k: none is chosen over groups"
        elif one_round(self.source):
            what = "rows: make a Query of each group, and a release of each"
        elif scale_out(self.source) is not None:
            what = "one machine: pass the files of this table, which is on a cluster"
        if what:
            raise ValueError(f"groups that share the bound of a unit take {what}")

    @classmethod
    def of(
        cls,
        source: TableSource,
        columns: ColumnsLike | None,
        bound: float | PrivateBound | None,
        unit: Unit | str | None,
        by: Groups | str | None,
        threads: int | None,
        progress: Progress,
        adjacency: str | None = None,
    ) -> ScanRequest:
        """What a user asks, in whatever short form, of neighbours by a notion that may be known."""
        if columns is None or isinstance(columns, Columns):
            pass
        elif isinstance(columns, Mapping):
            columns = Columns(columns, intercept=True)
        else:
            columns = _check_names(columns)
        groups, described = Groups.of(by, columns)
        if isinstance(described, Columns):
            described = described.settled(adjacency)
        if (whose := Unit.of(unit)) is not None:
            whose = whose.settled(adjacency)
        return cls(source, described, bound, whose, groups, threads, progress)

    @property
    def total_elsewhere(self) -> Any:
        """A function that scans the table where it is, on a cluster or in a warehouse, or None."""
        where = scale_out(self.source)
        if where is None:
            return None
        # It imports what is here, and Dask or Spark themselves.
        return partial(import_module(f"privgram.scan.{where}").total, self)

    @property
    def auto(self) -> PrivateBound | None:
        """The choice of a bound that is asked for, of rows or of units."""
        bound = self.bound if self.unit is None else self.unit.bound
        return bound if isinstance(bound, PrivateBound) else None

    @property
    def scaling(self) -> Columns | None:
        """Bounds to scale by."""
        return self.columns if isinstance(self.columns, Columns) else None

    @property
    def row_bound(self) -> Any:
        """The bound of a row, if it is known."""
        if self.bound is None and self.scaling is not None:
            return self.scaling.bound
        return self.bound

    @property
    def selection(self) -> Selection:
        """What to read: columns by name, perhaps with what each is, and the group; None for all."""
        columns = self.columns.reads if isinstance(self.columns, Columns) else self.columns
        return columns if self.groups is None else self.groups.selection(self.scaling, columns)

    def threads_for(self, n_rows: int | None, n_columns: int) -> int:
        """How many threads of one machine scan a table: one, unless told otherwise, a small one."""
        if self.threads is not None:
            return self.threads
        return 1 if n_rows is not None and n_rows * n_columns < SMALL else cores()


def _check_names(columns: Sequence[str]) -> tuple[str, ...]:
    listed = isinstance(columns, Iterable) and not isinstance(columns, (str, Mapping))
    names = tuple(columns) if listed else ()
    if not (listed and all(isinstance(name, str) for name in names)):
        raise TypeError("columns is a list of names or a Columns, which holds public bounds")
    if not names:
        raise ValueError("columns names no columns")
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"column {repeated[0]!r} is selected twice")
    return names
