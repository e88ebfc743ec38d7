"""What does the pass: threads here; Dask and Spark where one machine is not enough.

No noise is drawn here, and no budget is spent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from privgram._base.machine import cores
from privgram._base.numbers import check_integer
from privgram.columns import Columns
from privgram.columns.groups import Groups
from privgram.columns.unit import PrivateBound, Unit
from privgram.mechanisms import one_round
from privgram.moment.grouped import check_rows
from privgram.moment.second_moment import SecondMoment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privgram.sources.table import Selection
from privgram.scan.progress import Progress


def scale_out(source: Any) -> ModuleType | None:
    """Find the engine of a table on a cluster or in a warehouse; None for all others.

    Neither Dask nor Spark is imported to tell: who holds such a table has done so.
    """
    # Half-way through its import in another thread, Dask may lack the function.
    is_dask_collection = getattr(sys.modules.get("dask"), "is_dask_collection", None)
    if is_dask_collection is not None and is_dask_collection(source):
        return import_module("privgram.scan.dask")
    if one_round(source):
        return import_module("privgram.scan.warehouse")
    if type(source).__module__.partition(".")[0] == "pyspark":
        return import_module("privgram.scan.spark")
    return None


def check_rereadable(source: Any, what: str, instead: str = "") -> None:
    """Refuse a table that is read once by what reads it several times: "AdaptiveGaussian() reads".

    `instead` says what to do other than to pass a table of another form.
    """
    if why := one_round(source):
        raise ValueError(f"{what} the table several times, and {why}{instead}")
    if isinstance(source, Iterator):
        raise ValueError(
            f"{what} the table several times, and an iterator or a stream is read once: pass a "
            f"path, a data frame or a list of blocks{instead}"
        )


def check_here(source: Any, what: str) -> None:
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

    source: Any  # SECRET
    # Bounds by which values are scaled, or names of columns to take as they are.
    columns: Columns | Sequence[str] | None = None
    bound: float | PrivateBound | None = (
        None  # L2 bound of a row; None where it is that of the columns
    )
    unit: Unit | None = None  # whose rows are bounded together
    groups: Groups | None = None  # which get a moment each
    threads: int | None = None
    progress: Progress = False

    def __post_init__(self) -> None:
        if isinstance(self.bound, str):
            raise TypeError("bound must be a number, or PrivateBound(epsilon=...), not str")
        if self.unit is None:
            return
        if isinstance(self.bound, PrivateBound):
            raise ValueError(
                "bound=PrivateBound(...) looks at single rows, not at units: take "
                f"Unit({self.unit.name!r}, bound=PrivateBound(...))"
            )
        if self.groups is not None:
            self._check_both(self.unit)
        check_rows(self.bound)

    def _check_both(self, unit: Unit) -> None:
        """Refuse what groups that share the bound of a unit cannot have."""
        what = ""
        if unit.clip != "frobenius":
            what = "clip='frobenius', by which they share it"
        elif isinstance(unit.bound, PrivateBound):
            what = "a bound that is known, or max_rows=k: none is chosen over groups"
        elif unit.values is not None:
            what = "a table with names, the unit and the group among its columns"
        elif scale_out(self.source) is not None:
            what = "one machine: pass the files of this table, which is on a cluster"
        if what:
            raise ValueError(f"groups that share the bound of a unit take {what}")

    @classmethod
    def of(
        cls,
        source: Any,
        columns: Any,
        bound: Any,
        unit: Any,
        by: Any,
        threads: int | None,
        progress: Progress,
        adjacency: str | None = None,
    ) -> ScanRequest:
        """What a user asks, in whatever short form, of neighbours by a notion that may be known."""
        if isinstance(columns, Mapping):
            columns = Columns(columns, intercept=True)
        groups, columns = Groups.of(by, columns)
        if isinstance(columns, Columns):
            columns = columns.settled(adjacency)
        if (whose := Unit.of(unit)) is not None:
            whose = whose.settled(adjacency)
        return cls(source, columns, bound, whose, groups, threads, progress)

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
    def select(self) -> Selection:
        """What to read: columns by name, perhaps with what each is; None for all."""
        if self.scaling is not None:
            return self.scaling.reads
        return None if self.columns is None else _check_selection(self.columns)

    @property
    def n_threads(self) -> int:
        """Threads of one machine, at most."""
        return cores() if self.threads is None else check_integer(self.threads, "threads", 1)

    def check_known(self) -> None:
        """Refuse a bound that costs privacy, where none is spent."""
        if self.auto is not None:
            raise ValueError(
                "PrivateBound(...) spends privacy: pass it to pg.release, or pass here what "
                "private_norm_bound(...) chose"
            )

    def check_cluster(self) -> None:
        """Refuse what a cluster has itself."""
        if self.threads is not None:
            raise ValueError("threads is for one machine; a cluster's scheduler has its own")


def _check_selection(columns: Any) -> tuple[str, ...]:
    listed = isinstance(columns, Iterable) and not isinstance(columns, (str, Mapping))
    names = tuple(columns) if listed else (None,)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("columns is a list of names or a Columns, which holds public bounds")
    if not names:
        raise ValueError("columns names no columns")
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"column {repeated[0]!r} is selected twice")
    return names
