"""Spark DataFrames: each partition a state by Arrow, the states merged as a tree."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgram.columns import Columns
from privgram.columns.kinds import DATES, LEVELS
from privgram.columns.variables import Dates, Factor, Variable
from privgram.engines.parts import Failure, Plan, Selection, State, merged, redacted
from privgram.engines.progress import reporter
from privgram.moment import SecondMoment
from privgram.sources.arrow import require
from privgram.sources.table import positions


def second_moment(
    source: Any,
    bound: float | None,
    columns: Selection,
    progress: bool | Callable[[int, int | None], object],
) -> SecondMoment:
    """Compute the second moment of a Spark DataFrame; see `privgram.second_moment`."""
    if not hasattr(source, "mapInArrow"):
        raise TypeError(
            f"a {type(source).__name__} of {type(source).__module__} is not read; pass a Spark "
            "SQL DataFrame (RDD.toDF() or .to_spark() makes one)"
        )
    require("pyarrow", "a Spark DataFrame")
    reads = columns.reads if isinstance(columns, Columns) else {}
    empty = {name: _empty(reads.get(name)) for name in source.columns}
    plan = Plan.check(empty, bound, columns)
    names = list(plan.selected or ())
    positions(source.columns, names)  # or Spark may find two of one name, in its own words
    _check_types(source.schema, names, reads)
    # Spark would read a dot in a name as a path into a structure.
    aliases = [source[_quoted(name)].alias(f"c{i}") for i, name in enumerate(names)]
    states = source.select(*aliases).mapInArrow(partial(_states, plan, names), "state binary")
    with reporter(progress, None) as report:  # Spark's own console shows its stages
        try:
            result = _merge(states) or plan.state((), 0)
        except Exception as error:
            raise redacted("Spark", error) from None
        if isinstance(result, Failure):
            raise result.error()
        report(result.n_rows + result.n_dropped)
    return result


def _empty(wanted: Variable | None) -> NDArray[Any]:
    """A column without rows of what is wanted."""
    kinds: dict[type, str] = {Factor: "O", Dates: "M8[us]"}
    return np.empty(0, kinds.get(type(wanted), "f8"))


def _check_types(schema: Any, names: list[str], reads: Mapping[str, Variable]) -> None:
    from pyspark.sql.types import (
        BooleanType,
        DateType,
        IntegralType,
        NullType,
        NumericType,
        StringType,
        TimestampNTZType,
        TimestampType,
    )

    text: dict[type, tuple[type, ...]] = {
        Factor: (StringType, IntegralType, NullType),
        Dates: (DateType, TimestampType, TimestampNTZType, StringType, NullType),
    }
    for name in names:
        kind = schema[name].dataType
        wanted = reads.get(name)
        if type(wanted) in text:
            if not isinstance(kind, text[type(wanted)]):
                raise TypeError(
                    f"column {name!r} holds values of type {kind.simpleString()}, not "
                    f"{wanted.holds}"  # type: ignore[union-attr]
                )
        elif not isinstance(kind, (BooleanType, NullType, NumericType)):
            raise TypeError(
                f"column {name!r} holds values of type {kind.simpleString()}; only real numbers "
                f"can be used: {DATES if isinstance(kind, (DateType, TimestampType)) else LEVELS}, "
                "or name the columns to take"
            )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _states(plan: Plan, names: list[str], batches: Iterator[Any]) -> Iterator[Any]:
    """Turn the record batches of a partition into one row; runs on a worker."""
    import pyarrow as pa
    from pyspark import TaskContext

    named = (pa.RecordBatch.from_arrays(batch.columns, names) for batch in batches)
    partition = TaskContext.get().partitionId()  # type: ignore[union-attr]
    state = plan.state(named, partition)
    yield pa.RecordBatch.from_pydict({"state": pa.array([pickle.dumps(state)], pa.binary())})


def _merge(rows: Any) -> State | None:
    """Merge the states of all partitions, of which there may be none."""
    if type(rows).__module__.startswith("pyspark.sql.connect"):  # has no RDD
        return _both(None, *map(_state, rows.collect()))
    state: State | None = rows.rdd.map(_state).treeAggregate(None, _both, _both)
    return state


def _both(*states: State | None) -> State | None:
    some = [state for state in states if state is not None]
    return merged(some) if some else None


def _state(row: Any) -> State:
    state: State = pickle.loads(row.state)
    return state
