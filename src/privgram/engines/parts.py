"""Partitions of a table on the workers of a cluster: a small state each, merged as a tree.

What is wrong with a partition comes back as a value and not as an exception: a scheduler
tries a task that raises again, and writes to its logs what the task was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from privgram.columns import Columns
from privgram.columns.groups import Groups
from privgram.engines.threads import accumulate, grouped, pooled
from privgram.moment import SecondMoment
from privgram.moment.groups import SecondMoments
from privgram.moment.units import UnitPlan

#: States merged at once: as many are in memory together.
FAN_IN = 16

Moments: TypeAlias = SecondMoment | SecondMoments
#: Of a partition: its second moments, or another sum over its rows, that merges as one.
State: TypeAlias = "Moments | Any | Failure"
Selection: TypeAlias = Columns | Sequence[str] | None


@dataclass(frozen=True)
class Failure:
    """Why a partition cannot be used: its number, and an error that shows no data."""

    partition: int
    kind: type[Exception]
    problem: str

    def error(self) -> Exception:
        """Make the exception for the user."""
        return self.kind(f"partition {self.partition}: {self.problem}")


@dataclass(frozen=True)
class Plan:
    """What a worker has to know of a pass. Public."""

    n_columns: int
    bound: float | None  # of a row
    names: tuple[str, ...] | None
    columns: Columns | None
    by: UnitPlan | None = None
    groups: Groups | None = None
    empty: Moments | None = None  # by unit, or by group
    new: Callable[[int], Any] | None = None

    @classmethod
    def check(
        cls,
        empty: Any,
        bound: float | None,
        columns: Selection,
        by: UnitPlan | None = None,
        groups: Groups | None = None,
        new: Callable[[int], Any] | None = None,
    ) -> Plan:
        """Check the arguments of a pass as one machine would, on a table without rows.

        With `new`, its accumulators are what partitions become: they must pickle.
        """
        moment = _pass(empty, 1.0 if new else bound, columns, by, groups)
        known = moment.n_columns, bound if by else moment.bound, moment.names, moment.columns
        return cls(*known, by, groups, moment if by or groups else None, new)

    @property
    def selected(self) -> tuple[str, ...] | None:
        """Names of the columns to read, if the table has names."""
        names = self.names if self.columns is None else self.columns.selected
        extra = ([self.by.unit.name] if self.by else []) + ([self.groups.by] if self.groups else [])
        return names if names is None else (*names, *extra)

    @property
    def reads(self) -> Any:
        """The columns to read: their names, or what each is known to be; None for all."""
        reads: Any = self.names if self.columns is None else self.columns.reads
        return reads if self.groups is None else self.groups.selection(self.columns, reads)

    def state(self, blocks: Iterable[Any], partition: int) -> State:
        """Accumulate the blocks of a partition, of which there may be none, in this thread.

        Where columns are selected by name, the blocks hold no others.
        """
        blocks = iter(blocks)
        for first in blocks:
            return self._state_of(chain((first,), blocks), partition)
        if self.new is not None:
            return self.new(self.n_columns)
        if self.empty is not None:
            return self.empty
        assert self.bound is not None
        return SecondMoment(self.n_columns, self.bound, self.names, columns=self.columns)

    def _state_of(self, source: Iterable[Any], partition: int) -> State:
        try:
            if self.new is not None:
                return accumulate(source, self.columns, 1, False, self.new)[0]
            apart = self.by is not None or self.groups is not None
            columns = self.names if apart and self.columns is None else self.columns
            moment = _pass(source, self.bound, columns, self.by, self.groups)
        except (TypeError, ValueError) as error:
            return Failure(partition, type(error), str(error))
        if (moment.n_columns, moment.names) != (self.n_columns, self.names):
            return Failure(partition, ValueError, "its columns are not those of the table")
        return moment


def _pass(
    source: Any,
    bound: float | None,
    columns: Selection,
    by: UnitPlan | None,
    groups: Groups | None,
) -> Moments:
    if groups is not None:
        return grouped(source, bound, columns, 1, False, groups)
    return pooled(source, bound, columns, 1, False, by)


class BadPartition(Exception):
    """Ends a pass with a failure that shows no data."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure

    def __str__(self) -> str:
        return str(self.failure.error())

    __repr__ = __str__  # as a worker's log has it


def redacted(engine: str, error: Exception) -> OSError:
    """Say that a cluster failed, and not how: a failed cast quotes the value."""
    return OSError(
        f"{engine} failed while it computed the table ({type(error).__name__}); compute the table "
        f"alone to see why, where its values may be seen"
    )


def merged(states: Iterable[State]) -> State:
    """Merge states into a new one; of failures, keep the first partition's."""
    states = list(states)
    failures = [state for state in states if isinstance(state, Failure)]
    if failures:
        return min(failures, key=lambda failure: failure.partition)
    first, *others = states  # to be left as it is: a scheduler may need it again
    total: Any = first.copy() if isinstance(first, Moments) else deepcopy(first)
    for other in others:
        if isinstance(total, SecondMoment):
            total.merge_disjoint(other)  # type: ignore[arg-type]  # of one kind
        else:
            total.merge(other)
    return total


def rows_of(state: Any) -> int:
    """Rows that a state is of, those left out counted too."""
    return int(state.n_rows) + getattr(state, "n_dropped", 0)
