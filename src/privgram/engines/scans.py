"""Spark DataFrames that are nothing but Parquet files: the workers read these themselves.

Rows that go through the JVM cost ten times what it takes to read them. So a DataFrame whose plan is
a plain scan of local files is read by privgram's own reader. In any doubt it is not: here, before
anything is read, or by a worker that finds a file unlike what Spark says of it, when the pass
begins anew, through Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from privgram.engines.parts import Failure, Plan, State
from privgram.sources.parquet import open_parquet
from privgram.sources.table import Chunk, Table

#: What a plan may consist of, by the classes of `org.apache.spark.sql.execution`.
_SCAN = "FileSourceScanExec"
_PLAIN = {"WholeStageCodegenExec", "InputAdapter", "ColumnarToRowExec", "ProjectExec"}

_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
_INDEX = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"
_COLUMN = "org.apache.spark.sql.catalyst.expressions.AttributeReference"

#: Tasks for each core, so that no core waits long for another; most tasks, of many files.
_TASKS, _MOST_TASKS = 4, 64

#: Arrow's types for Spark's, where nothing but the name differs. Timestamps in INT96, unsigned
#: integers and texts without an encoding are Spark's business.
_TYPES: dict[str, tuple[str, ...]] = {
    "double": ("double",),
    "float": ("float",),
    "bigint": ("int64",),
    "int": ("int32",),
    "smallint": ("int16",),
    "tinyint": ("int8",),
    "boolean": ("bool",),
    "string": ("string", "large_string"),
    "date": ("date32[day]",),
    "timestamp": ("timestamp[us, tz=", "timestamp[ms, tz="),
    "timestamp_ntz": ("timestamp[us]", "timestamp[ms]"),
}


class Unfit(Exception):
    """Says why Spark has to read a table itself."""


class Piece(NamedTuple):
    """Row groups of a file, from `start` until before `stop`; all from there if that is None."""

    path: str
    start: int = 0
    stop: int | None = None


class Expected(NamedTuple):
    """What Spark says of the columns: their names and types, and whether dates are as written."""

    types: dict[str, str]
    rebases: bool


def states(frame: Any, plan: Plan) -> Any:
    """Make the RDD of states of a DataFrame that is a plain scan of Parquet files.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Of the columns that are read and no others.

    Raises
    ------
    Unfit
        If it is anything else, or might be.
    """
    if not hasattr(frame, "_jdf"):
        raise Unfit("Spark Connect does not show its plans")
    try:
        paths = _files(frame)
        mode = frame.sparkSession.conf.get(
            "spark.sql.parquet.datetimeRebaseModeInRead", "EXCEPTION"
        )
    except Unfit:
        raise
    except Exception:  # these classes are Spark's own, and another version's may differ
        raise Unfit("the plan cannot be looked at") from None
    types = {field.name: field.dataType.simpleString() for field in frame.schema}
    expected = Expected(types, rebases=mode != "CORRECTED")
    context = frame.sparkSession.sparkContext
    pieces = _cut(paths, _TASKS * context.defaultParallelism)
    slices = min(len(pieces), _MOST_TASKS * context.defaultParallelism)
    rdd = context.parallelize(pieces, slices).setName("privgram reads Parquet")
    return rdd.mapPartitionsWithIndex(partial(_states, plan, expected))


def _files(frame: Any) -> list[Path]:
    """Find the files of a plan that does nothing but scan them."""
    node = frame._jdf.queryExecution().executedPlan()
    while (kind := _class(node).rpartition(".")[2]) in _PLAIN:
        if kind == "ProjectExec" and not all(map(_is_column, _listed(node.projectList()))):
            raise Unfit("the plan computes columns")
        node = node.children().head()
    if kind != _SCAN:
        raise Unfit(f"the plan is more than a scan ({kind})")
    relation = node.relation()
    if (_class(relation.fileFormat()), _class(relation.location())) != (_FORMAT, _INDEX):
        raise Unfit("the plan scans something else than Parquet files")
    if node.partitionFilters().nonEmpty() or node.dataFilters().nonEmpty():
        raise Unfit("the plan filters rows")
    if node.tableIdentifier().isDefined() or relation.bucketSpec().isDefined():
        raise Unfit("the plan scans a table of the catalogue")
    if not set(_listed(relation.options().keys().toList())) <= {"path", "paths"}:
        raise Unfit("the reader has options")
    hidden = {field.name() for field in _listed(relation.partitionSchema())}
    if hidden.intersection(frame.columns):
        raise Unfit("a column is a part of the files' paths")
    if any(field.metadata for field in frame.schema):
        raise Unfit("a column has metadata")
    return [_local(uri) for uri in relation.location().inputFiles()]


def _class(thing: Any) -> str:
    name: str = thing.getClass().getName()
    return name


def _listed(sequence: Any) -> Iterator[Any]:
    """Go through a Scala sequence."""
    return (sequence.apply(i) for i in range(sequence.length()))


def _is_column(expression: Any) -> bool:
    return _class(expression) == _COLUMN


def _local(uri: str) -> Path:
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc or parts.query or parts.fragment:
        raise Unfit("the files are not local")
    return Path(unquote(parts.path))


def _cut(paths: Sequence[Path], tasks: int) -> list[Piece]:
    """Cut files into pieces, by row groups where there are fewer files than tasks."""
    if not paths:
        raise Unfit("there are no files")
    if len(paths) >= tasks:
        return [Piece(str(path)) for path in paths]
    found = []
    for path in paths:
        groups = _opened(path, lambda file: file.metadata.num_row_groups)
        step = max(1, -(-groups * len(paths) // tasks))
        found += [Piece(str(path), start, start + step) for start in range(0, groups, step)]
    return found or [Piece(str(paths[0]))]


def _opened(path: Path, look: Callable[[Any], Any]) -> Any:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            return look(file)
    except (OSError, ArrowException):
        raise Unfit("a file cannot be read without Spark") from None


def _states(
    plan: Plan, expected: Expected, partition: int, pieces: Iterable[Piece]
) -> Iterator[State]:
    """Turn pieces into one state; runs on a worker."""
    try:
        yield plan.state_of(_table(plan, expected, list(pieces)), partition)
    except Exception as error:  # a failure here is Spark's to find again, or to mend
        reason = str(error) if isinstance(error, Unfit) else type(error).__name__
        yield Failure(-1, Unfit, reason)  # before any other


def _table(plan: Plan, expected: Expected, pieces: list[Piece]) -> Table:
    """Pieces as one table."""
    names = tuple(expected.types)
    select = names if plan.columns is None and plan.groups is None else plan.reads

    def chunks() -> Generator[Chunk]:
        for piece in pieces:
            path = Path(piece.path)
            _opened(path, partial(_check, expected))
            yield from islice(open_parquet(path, select).chunks, piece.start, piece.stop)

    return Table(names, len(names), None, chunks())


def _check(expected: Expected, file: Any) -> None:
    """Refuse a file that Spark would read in another way than as it is."""
    from pyarrow import types

    schema = file.schema_arrow
    folded = [name.lower() for name in schema.names]
    for name, kind in expected.types.items():
        if folded.count(name.lower()) != 1 or name not in schema.names:
            raise Unfit("a file has not all the columns, or under other names")
        held = schema.field(name).type
        held = str(held.value_type if types.is_dictionary(held) else held)
        known = _TYPES.get(kind, (kind.replace("decimal(", "decimal128(").replace(",", ", "),))
        if not held.startswith(known) or (held not in known and "tz=" not in held):
            raise Unfit("a file has columns of other types")
    if expected.rebases and {"date", "timestamp"}.intersection(expected.types.values()):
        notes = file.schema_arrow.metadata or {}
        legacy = b"org.apache.spark.legacyDateTime" in notes
        if legacy or notes.get(b"org.apache.spark.version", b"") < b"3":
            raise Unfit("a file may have dates of the Julian calendar")
