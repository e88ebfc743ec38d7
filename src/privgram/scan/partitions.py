"""Partitions of a table on the workers of a cluster: a small state each, merged as a tree.

What is wrong with a partition comes back as a value and not as an exception: a scheduler
tries a task that raises again, and writes to its logs what the task was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias

from privgram.moment import SecondMoment
from privgram.moment.grouped import SecondMoments
from privgram.scan.executor import accumulate, total_of
from privgram.scan.progress import reporter
from privgram.scan.request import ScanRequest
from privgram.sources.table import TableSource

#: States merged at once: as many are in memory together.
FAN_IN = 16

Moments: TypeAlias = SecondMoment | SecondMoments


#: Makes an empty accumulator of rows of so many columns, which merges and counts them.
New: TypeAlias = Callable[[int], Any]


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


#: Of a partition, or of the table: its second moments, or another sum over its rows.
Summed: TypeAlias = Moments | Any
PartitionState: TypeAlias = Summed | Failure


@dataclass(frozen=True)
class PartitionPlan:
    """What a worker has to know of a scan. Public."""

    n_columns: int
    names: tuple[str, ...] | None
    request: ScanRequest  # of a partition, its source left out
    empty: Moments | None = None  # by unit, or by group
    new: New | None = None

    @classmethod
    def check(
        cls, empty: TableSource, request: ScanRequest, new: New | None = None
    ) -> PartitionPlan:
        """Check a request as one machine would, on a table without rows.

        With `new`, its accumulators are what partitions become: they must pickle.
        """
        bound = 1.0 if new else request.bound
        request = replace(request, source=empty, bound=bound, threads=1, progress=False)
        moment = total_of(request)
        apart = request.unit is not None or request.groups is not None
        columns = request.scaling or (moment.names if apart else None)
        request = replace(request, source=None, columns=columns)
        return cls(moment.n_columns, moment.names, request, moment if apart else None, new)

    @property
    def selected(self) -> tuple[str, ...] | None:
        """Names of the columns to read, if the table has names."""
        scaling, unit, groups = self.request.scaling, self.request.unit, self.request.groups
        names = self.names if scaling is None else scaling.selected
        extra = ([unit.name] if unit else []) + ([groups.by] if groups else [])
        return names if names is None else (*names, *extra)

    def state(self, blocks: Iterable[TableSource], partition: int) -> PartitionState:
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
        bound, scaling = self.request.row_bound, self.request.scaling
        return SecondMoment(self.n_columns, bound, self.names, columns=scaling)

    def _state_of(self, source: TableSource, partition: int) -> PartitionState:
        request = replace(self.request, source=source)
        try:
            if self.new is not None:
                return accumulate(request, self.new)[0]
            moment = total_of(request)
        except (TypeError, ValueError) as error:
            return Failure(partition, type(error), str(error))
        if (moment.n_columns, moment.names) != (self.n_columns, self.names):
            return Failure(partition, ValueError, "its columns are not those of the table")
        return moment


def computed(
    engine: str,
    request: ScanRequest,
    n_rows: int | None,
    compute: Callable[[], PartitionState],
    known: Mapping[str, str] | None = None,
) -> Summed:
    """What a cluster computes of a table, whose number of rows may be known.

    That it failed is told, and not how: a failed cast quotes the value. What to do is told where
    the engine's error has one of the words that are `known`.
    """
    problem: Exception
    try:
        state = compute()
    except Failure as failure:
        problem = failure.error()
    except Exception as error:
        advice = "compute the table alone to see why, where its values may be seen"
        for word, told in (known or {}).items():
            advice = told if word in str(error) else advice
        problem = OSError(
            f"{engine} failed while it computed the table ({type(error).__name__}): {advice}"
        )
    else:
        if not isinstance(state, Failure):
            with reporter(request.progress, n_rows) as report:
                report(rows_in_state(state))
            return state
        problem = state.error()
    raise problem  # outside the handler, or the engine's error would stay behind it


def merged(states: Iterable[PartitionState]) -> PartitionState:
    """Merge states into a new one; of failures, keep the first partition's."""
    states = list(states)
    failures = [state for state in states if isinstance(state, Failure)]
    if failures:
        return min(failures, key=lambda failure: failure.partition)
    first, *others = states  # to be left as it is: a scheduler may need it again
    total: Any = first.copy() if isinstance(first, Moments) else deepcopy(first)
    merge = total.merge_disjoint if isinstance(first, Moments) else total.merge
    for other in others:
        merge(other)
    return total


def rows_in_state(state: Summed) -> int:
    """Rows that a state is of, those left out counted too."""
    return int(state.n_rows) + int(state.n_dropped)
