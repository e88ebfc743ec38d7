"""Dask arrays and DataFrames: a task a partition, on whatever scheduler is active.

The task that accumulates a partition is fused with those that make it, so that rows are
neither kept nor moved: what leaves a worker is a state of 8 bytes for each pair of columns, 16
beyond 64 bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.delayed import Delayed, delayed

from privgram.scan.partitions import (
    FAN_IN,
    Failure,
    New,
    PartitionPlan,
    PartitionState,
    computed,
    merged,
)
from privgram.scan.request import ScanRequest
from privgram.sources.files import check_once, find_files
from privgram.sources.table import TableSource, is_a

if TYPE_CHECKING:
    import pandas as pd
    from dask.dataframe import DataFrame


def total(request: ScanRequest, new: New | None = None) -> Any:
    """Compute the second moment of a Dask collection, or feed its rows to accumulators.

    As `privgram.second_moment` and `privgram.scan.executor.accumulate`; with `new`, accumulators
    pickle.
    """

    def plan(empty: TableSource) -> PartitionPlan:
        return PartitionPlan.check(empty, request, new)

    source = request.source
    if is_a(source, "dask.array", "Array"):
        if request.unit is not None:
            raise ValueError(
                "the rows of a unit are brought together by a shuffle, which Dask has for "
                "DataFrames alone: pass a dask.dataframe with the unit as a column"
            )
        n_rows, states = _of_array(source, plan)
    elif is_a(source, "dask.dataframe", "DataFrame"):
        _check_files(source)
        n_rows, states = None, _of_frame(source, plan)
    else:
        raise TypeError(
            f"a Dask {type(source).__name__} is not a table; pass a dask.array of two dimensions "
            "or a dask.dataframe"
        )
    tree = _tree([_without_alias(state) for state in states])
    return computed("Dask", request, n_rows, tree.compute)


def _check_files(frame: DataFrame) -> None:
    """Refuse Parquet files that one reading has twice, as far as they are on this machine."""
    for reading in frame.expr.walk():
        if type(reading).__name__.startswith("ReadParquet"):
            paths = reading.operand("path")
            names = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
            with suppress(FileNotFoundError):  # on another machine
                check_once(file for name in names for file in find_files(Path(name)))


def _of_array(array: Any, check: Callable[[Any], PartitionPlan]) -> tuple[int | None, list[Any]]:
    if array.ndim != 2:
        raise ValueError(f"a table has two dimensions, rows and columns, not {array.ndim}")
    if np.isnan(array.shape[1]):
        raise ValueError("the number of columns is unknown; call .compute_chunk_sizes() first")
    if array.numblocks[1] != 1:
        raise ValueError(
            f"the columns are split over {array.numblocks[1]} chunks and a row must be whole; "
            "use .rechunk({1: -1}), which moves the data between workers"
        )
    plan = check(np.empty((0, array.shape[1]), array.dtype))
    states = array.map_blocks(
        _state_of,
        plan,
        dtype=object,
        chunks=((1,) * array.numblocks[0], (1,)),
        meta=np.empty((0, 0), object),
    )
    n_rows = array.shape[0]
    return None if np.isnan(n_rows) else n_rows, states.to_delayed().ravel().tolist()


def _of_frame(frame: DataFrame, check: Callable[[Any], PartitionPlan]) -> list[Delayed]:
    plan = check(_without_categories(frame._meta))
    if plan.selected and all(isinstance(name, str) for name in frame.columns):
        frame = frame[list(plan.selected)]  # readers then leave out what is not wanted
    if plan.request.unit is not None:
        frame = frame.shuffle(on=plan.request.unit.name)
    states = frame.map_partitions(
        _state_of, plan, meta=frame._meta.iloc[:, 0], enforce_metadata=False
    )
    return states.to_delayed()  # type: ignore[no-any-return]


def _without_categories(meta: pd.DataFrame) -> pd.DataFrame:
    """Have columns whose categories are not known yet hold anything: partitions are checked."""
    from dask.dataframe.utils import has_known_categories

    unknown = [
        name
        for name, column in meta.items()
        if hasattr(column.dtype, "categories") and not has_known_categories(column)
    ]
    return meta.astype(dict.fromkeys(unknown, object))


def _state_of(
    part: TableSource,
    plan: PartitionPlan,
    block_id: tuple[int, int] = (0, 0),  # which Dask tells of an array,
    partition_info: Mapping[str, Any] | None = None,  # and of a DataFrame
) -> PartitionState:
    """Accumulate a partition."""
    partition = block_id[0] if partition_info is None else partition_info["number"]
    return plan.state((part,), partition)


def _tree(states: list[Delayed]) -> Delayed:
    merge = delayed(_merge, pure=True)
    while True:
        states = [merge(states[i : i + FAN_IN]) for i in range(0, len(states), FAN_IN)]
        if len(states) == 1:
            return states[0]


def _without_alias(state: Delayed) -> Delayed:
    """Skip the alias that Dask's fusion leaves behind: a cluster would run it as a task."""
    target = getattr(state.dask[state.key], "target", None)
    return (
        state if target is None else Delayed(target, state.dask, layer=state.__dask_layers__()[0])
    )


def _merge(states: list[PartitionState]) -> PartitionState:
    """Merge, or end the scan: a task that may fail, since it was given no data to log."""
    result = merged(states)
    if isinstance(result, Failure):
        raise result
    return result
