"""Queries yet to be run: Arrow datasets and scanners, polars' frames, DuckDB's relations.

A query is asked for its schema first, and then for the selected columns alone: what was not
selected is not read, a filter stays where it is, and the result is never whole in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

from privgram.sources.files import check_once
from privgram.sources.frames import BATCH, chunks_of, require, resolve_columns
from privgram.sources.table import Selection, Table, described_kind

#: The schema, and what runs the query for some of its columns.
Query: TypeAlias = tuple[Any, Callable[[Sequence[str]], Iterator[Any]]]


def is_query(source: Any) -> bool:
    """Tell whether this is a query, importing nothing."""
    return _opener(source) is not None


def open_query(source: Any, select: Selection = None) -> Table:
    """Run a query for the selected columns, as its chunks are asked for."""
    require("pyarrow", "an Arrow stream")
    opener = _opener(source)
    assert opener is not None
    schema, run = opener(source)
    names = tuple(schema.names[i] for i in resolve_columns(schema, select))
    wanted = [described_kind(select, name) for name in names]
    n_rows = getattr(source, "height", None)  # a frame's
    return Table(names, len(names), n_rows, chunks_of(lambda: run(names), wanted))


def _of_dataset(dataset: Any) -> Query:
    _check_records(dataset)
    check_once(file for file in map(Path, _files(dataset)) if file.exists())

    def run(names: Sequence[str]) -> Iterator[Any]:
        from pyarrow.compute import field

        # Arrow reads ahead 16 batches of 4 files by default: gigabytes, if rows are wide.
        reader: Iterator[Any] = dataset.scanner(
            columns={name: field(name) for name in names},
            batch_size=max(256, BATCH // max(len(names), 1)),
            batch_readahead=4,
            fragment_readahead=2,
        ).to_reader()
        return reader

    return dataset.schema, run


def _files(dataset: Any) -> Iterator[str]:
    """Names of the files of a dataset that are on this machine."""
    for part in getattr(dataset, "children", ()):  # of a union
        yield from _files(part)
    if getattr(getattr(dataset, "filesystem", None), "type_name", "") == "local":
        yield from dataset.files


def _check_records(dataset: Any) -> None:
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


def _of_scanner(scanner: Any) -> Query:
    def run(names: Sequence[str]) -> Iterator[Any]:
        with closing(scanner.to_reader()) as reader:  # what it reads is settled
            for batch in reader:
                yield batch.select(list(names))

    return scanner.projected_schema, run


def _of_lazy_frame(frame: Any) -> Query:
    if not hasattr(frame, "collect_batches"):
        raise ImportError(
            "reading a LazyFrame in batches needs polars 1.34 or later; pass "
            "frame.collect() where the result fits into memory"
        )

    def run(names: Sequence[str]) -> Iterator[Any]:
        from polars import selectors

        size = max(256, BATCH // max(len(names), 1))
        query = frame.select(selectors.by_name(*names))  # a bare name may be a pattern
        for batch in query.collect_batches(chunk_size=size, engine="streaming"):
            yield from _stream(batch)

    return _polars_schema(frame.collect_schema()), run


def _of_frame(frame: Any) -> Query:
    def run(names: Sequence[str]) -> Iterator[Any]:
        yield from _stream(frame[list(names)])

    return _polars_schema(frame.schema), run


def _of_relation(relation: Any) -> Query:
    def run(names: Sequence[str]) -> Iterator[Any]:
        quoted = ('"' + name.replace('"', '""') + '"' for name in names)
        yield from _stream(relation.project(", ".join(quoted)))

    return _stream(relation.limit(0)).schema, run


_OPENERS: tuple[tuple[str, str, Callable[[Any], Query]], ...] = (
    ("pyarrow.dataset", "Dataset", _of_dataset),
    ("pyarrow.dataset", "Scanner", _of_scanner),
    ("polars", "LazyFrame", _of_lazy_frame),
    ("polars", "DataFrame", _of_frame),
    ("duckdb", "DuckDBPyRelation", _of_relation),
)


def _opener(source: Any) -> Callable[[Any], Query] | None:
    for module, kind, opener in _OPENERS:
        # Half-way through its import in another thread, a module may lack the class.
        if isinstance(source, getattr(sys.modules.get(module), kind, ())):
            return opener
    return None


def _stream(source: Any) -> Any:
    import pyarrow as pa

    return pa.RecordBatchReader.from_stream(source)


def _polars_schema(schema: Any) -> Any:
    """Translate a schema column by column: 128-bit integers have no type in Arrow's."""
    import polars as pl
    import pyarrow as pa

    fields = []
    for name, kind in schema.items():
        try:
            fields.append(_stream(pl.DataFrame(schema={name: kind})).schema.field(0))
        except pa.ArrowInvalid:
            # Refused if it is selected, under the name polars has for it.
            metadata = {"ARROW:extension:name": str(kind)}
            fields.append(pa.field(name, pa.binary(16), metadata=metadata))
    return pa.schema(fields)
