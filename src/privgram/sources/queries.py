"""Queries yet to be run: Arrow datasets and scanners, polars' frames, DuckDB's relations.

A query is asked for its schema first, and then for the selected columns alone: what was not
selected is not read, a filter stays where it is, and the result is never whole in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from privgram._core.arrow import Array, Field, Stream, array_of
from privgram.sources.arrow import batch_columns, side_by_side
from privgram.sources.files import check_once
from privgram.sources.frames import chunks_of, fields_of, resolve_columns
from privgram.sources.table import (
    Selection,
    Table,
    TableSource,
    described_kind,
    is_a,
    rows_per_chunk,
)

if TYPE_CHECKING:
    import polars as pl
    from duckdb import DuckDBPyRelation
    from pyarrow.dataset import Dataset, Scanner

#: Rows of a frame's pieces below which to copy them together costs less than to read each.
SMALL_FRAME = 1 << 13

#: The columns, and what runs the query for some of them, in batches.
FrameQuery: TypeAlias = tuple[Sequence[Field], Callable[[Sequence[str]], Iterator[list[Array]]]]


def is_query(source: TableSource) -> bool:
    """Tell whether this is a query, importing nothing."""
    return _opener(source) is not None


def open_query(source: TableSource, select: Selection = None) -> Table:
    """Run a query for the selected columns, as its chunks are asked for."""
    opener = _opener(source)
    assert opener is not None
    fields, run = opener(source)
    names = tuple(fields[i].name for i in resolve_columns(fields, select))
    wanted = [described_kind(select, name) for name in names]
    n_rows = getattr(source, "height", None)  # a frame's
    chunks = chunks_of(lambda: run(names), wanted, n_rows)
    return Table(names, len(names), n_rows, chunks, "decoded" if n_rows is None else "handed")


def _of_dataset(dataset: Dataset) -> FrameQuery:
    _check_records(dataset)
    check_once(file for file in map(Path, _files(dataset)) if file.exists())

    def run(names: Sequence[str]) -> Iterator[list[Array]]:
        from pyarrow.compute import field

        # Arrow reads ahead 16 batches of 4 files by default: gigabytes, if rows are wide.
        scanner = dataset.scanner(
            columns={name: field(name) for name in names},
            batch_size=rows_per_chunk(8 * len(names), decoded=True),
            batch_readahead=4,
            fragment_readahead=2,
        )
        with closing(scanner.to_reader()) as reader:
            for batch in reader:
                yield batch_columns(array_of(batch))

    return fields_of(dataset.schema), run


def _files(dataset: Dataset) -> Iterator[str]:
    """Names of the files of a dataset that are on this machine."""
    for part in getattr(dataset, "children", ()):  # of a union
        yield from _files(part)
    if getattr(getattr(dataset, "filesystem", None), "type_name", "") == "local":
        yield from dataset.files


def _check_records(dataset: Dataset) -> None:
    """Refuse CSV cut at any newline: one record's quoted cell would become many rows."""
    for part in getattr(dataset, "children", ()):  # of a union
        _check_records(part)
    options = getattr(getattr(dataset, "format", None), "parse_options", None)
    if not getattr(options, "newlines_in_values", True):
        raise ValueError(
            "this dataset's CSV files are cut at newlines inside quoted cells, too, so that one "
            "record may become many rows; pass the path itself, or make the dataset with "
            "format=CsvFileFormat(parse_options=ParseOptions(newlines_in_values=True))"
        )


def _of_scanner(scanner: Scanner) -> FrameQuery:
    def run(names: Sequence[str]) -> Iterator[list[Array]]:
        with closing(scanner.to_reader()) as reader:  # what it reads is settled
            for batch in reader:
                yield batch_columns(array_of(batch.select(list(names))))

    return fields_of(scanner.projected_schema), run


def _of_lazy_frame(frame: pl.LazyFrame) -> FrameQuery:
    if not hasattr(frame, "collect_batches"):
        raise ImportError(
            "reading a LazyFrame in batches needs polars 1.34 or later; pass "
            "frame.collect() where the result fits into memory"
        )

    def run(names: Sequence[str]) -> Iterator[list[Array]]:
        from polars import selectors

        size = rows_per_chunk(8 * len(names), decoded=True)
        query = frame.select(selectors.by_name(*names))  # a bare name may be a pattern
        for batch in query.collect_batches(chunk_size=size, engine="streaming"):
            yield from _columns_of(batch)

    return _polars_fields(frame.collect_schema()), run


def _of_frame(frame: pl.DataFrame) -> FrameQuery:
    return _polars_fields(frame.schema), lambda names: _columns_of(frame[list(names)])


def _columns_of(frame: pl.DataFrame) -> Iterator[list[Array]]:
    """The columns of a frame by its pieces; small ones are copied together, a chunk of ours.

    By columns, since a frame makes one piece of all of them, a copy, before it gives a stream.
    """
    step = frame.height
    if frame.height < SMALL_FRAME * max(frame.n_chunks("all"), default=1):
        step = rows_per_chunk(8 * frame.width)
    for start in range(0, frame.height, max(step, 1)):
        some = frame if step == frame.height else frame.slice(start, step).rechunk()
        yield from side_by_side(some.get_columns())


def _of_relation(relation: DuckDBPyRelation) -> FrameQuery:
    def run(names: Sequence[str]) -> Iterator[list[Array]]:
        quoted = ('"' + name.replace('"', '""') + '"' for name in names)
        yield from map(batch_columns, Stream(relation.project(", ".join(quoted))))

    return Stream(relation.limit(0)).field.children, run


_OPENERS: tuple[tuple[str, str, Callable[[Any], FrameQuery]], ...] = (
    ("pyarrow.dataset", "Dataset", _of_dataset),
    ("pyarrow.dataset", "Scanner", _of_scanner),
    ("polars", "LazyFrame", _of_lazy_frame),
    ("polars", "DataFrame", _of_frame),
    ("duckdb", "DuckDBPyRelation", _of_relation),
)


def _opener(source: TableSource) -> Callable[[Any], FrameQuery] | None:
    openers = (opener for module, kind, opener in _OPENERS if is_a(source, module, kind))
    return next(openers, None)


def _polars_fields(schema: pl.Schema) -> list[Field]:
    import polars as pl

    frames = (pl.DataFrame(schema={name: kind}) for name, kind in schema.items())
    return [Stream(frame).field.children[0] for frame in frames]
