"""Spark DataFrames: each partition a state by Arrow, the states merged as a tree."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgram.columns.unit import Identifier
from privgram.columns.variables import Dates, Factor, Variable
from privgram.scan.partitions import FAN_IN, New, PartitionPlan, PartitionState, computed, merged
from privgram.scan.request import ScanRequest
from privgram.sources.arrow import check_letter
from privgram.sources.frames import require
from privgram.sources.table import positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType


#: What to do, by what Spark's error has.
KNOWN = {
    "PYTHON_VERSION_MISMATCH": (
        "its workers run another Python than this process, {}.{}: set the environment variable "
        "PYSPARK_PYTHON to one of this version, with privgram in it, before the session is made"
    ).format(*sys.version_info),
    "No module named 'privgram'": (
        "its workers have no privgram: install it there, or set the environment variable "
        "PYSPARK_PYTHON to a Python that has it, before the session is made"
    ),
}


def total(request: ScanRequest, new: New | None = None) -> Any:
    """Compute the second moment of a Spark DataFrame, or feed its rows to accumulators.

    As `privgram.second_moment` and `privgram.scan.executor.accumulate`; with `new`, accumulators
    pickle.
    """
    source, scaling, unit, groups = request.source, request.scaling, request.unit, request.groups
    if not hasattr(source, "mapInArrow"):
        raise TypeError(
            f"a {type(source).__name__} of {type(source).__module__} is not read; pass a Spark "
            "SQL DataFrame (RDD.toDF() or .to_spark() makes one)"
        )
    require("pyarrow", "a Spark DataFrame")
    reads: dict[str, Variable] = dict(scaling.reads) if scaling else {}
    if unit is not None:
        reads[unit.name] = Identifier()
    if groups is not None:
        reads[groups.by] = groups.factor
    empty = {name: _empty(reads.get(name)) for name in source.columns}
    plan = PartitionPlan.check(empty, request, new)
    names = list(plan.selected or ())
    positions(source.columns, names)  # or Spark may find two of one name, in its own words
    _check_types(source.schema, names, reads)
    # Spark would read a dot in a name as a path into a structure.
    selected = source.select(*(source[_quoted(name)] for name in names))

    def compute() -> PartitionState:
        by_unit = selected
        if unit is not None:
            by_unit = selected.repartition(selected[_quoted(unit.name)])
        return _of_rows(by_unit, plan)

    return computed("Spark", request, None, compute, KNOWN)


def _of_rows(frame: DataFrame, plan: PartitionPlan) -> PartitionState:
    names = frame.columns
    numbered = frame.toDF(*(f"c{i}" for i in range(len(names))))
    rows = numbered.mapInArrow(partial(_states, plan, names), "state binary")
    if type(rows).__module__.startswith("pyspark.sql.connect"):  # has no RDD
        return _both(None, *map(_state, rows.collect())) or plan.state((), 0)
    return _merged(rows.rdd.map(_state)) or plan.state((), 0)


def _empty(described: Variable | None) -> NDArray[Any]:
    kinds: dict[type, str] = {Factor: "O", Dates: "M8[us]", Identifier: "i8"}
    return np.empty(0, kinds.get(type(described), "f8"))


def _check_types(schema: StructType, names: list[str], reads: Mapping[str, Variable]) -> None:
    """Refuse columns that do not hold real numbers, or what is described; say what to do."""
    from pyspark.sql import types

    letters: tuple[tuple[str, Any], ...] = (  # as of `privgram.columns.encoding.kinds_of`
        ("", types.NullType),
        ("b", types.BooleanType),
        ("i", types.IntegralType),
        ("d", types.DecimalType),
        ("f", types.NumericType),
        ("M", (types.DateType, types.TimestampType, types.TimestampNTZType)),
        ("U", types.StringType),
    )
    for name in names:
        of_column, described = schema[name].dataType, reads.get(name)
        kind = next((letter for letter, known in letters if isinstance(of_column, known)), "V")
        check_letter(kind, of_column.simpleString(), name, False, described)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _states(plan: PartitionPlan, names: list[str], batches: Iterator[Any]) -> Iterator[Any]:
    """Turn the record batches of a partition into one row; runs on a worker."""
    import pyarrow as pa
    from pyspark import TaskContext

    named = (pa.RecordBatch.from_arrays(batch.columns, names) for batch in batches)
    partition = TaskContext.get().partitionId()  # type: ignore[union-attr]
    state = plan.state(named, partition)
    yield pa.RecordBatch.from_pydict({"state": pa.array([pickle.dumps(state)], pa.binary())})


def _merged(states: Any) -> PartitionState | None:
    """Merge an RDD of states, of which there may be none: a few by the driver, more as a tree."""
    if states.getNumPartitions() <= FAN_IN:
        return _both(*states.collect())
    total: PartitionState | None = states.treeAggregate(None, _both, _both)
    return total


def _both(*states: PartitionState | None) -> PartitionState | None:
    some = [state for state in states if state is not None]
    return merged(some) if some else None


def _state(row: Row) -> PartitionState:
    state: PartitionState = pickle.loads(row.state)
    return state
