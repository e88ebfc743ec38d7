"""Partitions of a table on the workers of a cluster: a small state each, merged as a tree.

What is wrong with a partition comes back as a value and not as an exception: a scheduler
tries a task that raises again, and writes to its logs what the task was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias

from privgram.moment import SecondMoment
from privgram.moment.grouped import SecondMoments
from privgram.scan.executor import accumulate, total_of
from privgram.scan.request import ScanRequest

#: States merged at once: as many are in memory together.
FAN_IN = 16

Moments: TypeAlias = SecondMoment | SecondMoments
#: Of a partition: its second moments, or another sum over its rows, that merges as one.
PartitionState: TypeAlias = "Moments | Any | Failure"


class Failure(Exception):
    """Why a partition cannot be used: its number, and an error that shows no data."""

    def __init__(self, partition: int, kind: type[Exception], problem: str) -> None:
        super().__init__(partition, kind, problem)
        self.partition, self.kind, self.problem = partition, kind, problem

    def error(self) -> Exception:
        """Make the exception for the user."""
        return self.kind(f"partition {self.partition}: {self.problem}")

    def __repr__(self) -> str:  # as a worker's log has it
        return str(self.error())

    __str__ = __repr__


@dataclass(frozen=True)
class PartitionPlan:
    """What a worker has to know of a pass. Public."""

    n_columns: int
    names: tuple[str, ...] | None
    asked: ScanRequest  # of a partition, its source left out
    empty: Moments | None = None  # by unit, or by group
    new: Callable[[int], Any] | None = None

    @classmethod
    def check(
        cls, empty: Any, asked: ScanRequest, new: Callable[[int], Any] | None = None
    ) -> PartitionPlan:
        """Check what is asked of a pass as one machine would, on a table without rows.

        With `new`, its accumulators are what partitions become: they must pickle.
        """
        bound = 1.0 if new else asked.bound
        own = replace(asked, source=empty, bound=bound, threads=1, progress=False)
        moment = total_of(own)
        apart = asked.unit is not None or asked.groups is not None
        own = replace(own, source=None, columns=asked.scaling or (moment.names if apart else None))
        return cls(moment.n_columns, moment.names, own, moment if apart else None, new)

    @property
    def selected(self) -> tuple[str, ...] | None:
        """Names of the columns to read, if the table has names."""
        scaling, unit, groups = self.asked.scaling, self.asked.unit, self.asked.groups
        names = self.names if scaling is None else scaling.selected
        extra = ([unit.name] if unit else []) + ([groups.by] if groups else [])
        return names if names is None else (*names, *extra)

    def state(self, blocks: Iterable[Any], partition: int) -> PartitionState:
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
        asked = self.asked
        return SecondMoment(self.n_columns, asked.row_bound, self.names, columns=asked.scaling)

    def _state_of(self, source: Iterable[Any], partition: int) -> PartitionState:
        asked = replace(self.asked, source=source)
        try:
            if self.new is not None:
                return accumulate(asked, self.new)[0]
            moment = total_of(asked)
        except (TypeError, ValueError) as error:
            return Failure(partition, type(error), str(error))
        if (moment.n_columns, moment.names) != (self.n_columns, self.names):
            return Failure(partition, ValueError, "its columns are not those of the table")
        return moment


def redacted(engine: str, error: Exception) -> OSError:
    """Say that a cluster failed, and not how: a failed cast quotes the value."""
    return OSError(
        f"{engine} failed while it computed the table ({type(error).__name__}); compute the table "
        f"alone to see why, where its values may be seen"
    )


def merged(states: Iterable[PartitionState]) -> PartitionState:
    """Merge states into a new one; of failures, keep the first partition's."""
    states = list(states)
    failures = [state for state in states if isinstance(state, Failure)]
    if failures:
        return min(failures, key=lambda failure: failure.partition)
    first, *others = states  # to be left as it is: a scheduler may need it again
    total: Any = first.copy() if isinstance(first, Moments) else deepcopy(first)
    for other in others:
        getattr(total, "merge_disjoint", total.merge)(other)
    return total


def rows_in_state(state: Any) -> int:
    """Rows that a state is of, those left out counted too."""
    return int(state.n_rows) + getattr(state, "n_dropped", 0)
