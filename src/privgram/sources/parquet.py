"""Parquet: row groups decoded by the workers, a batch at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from privgram.sources.arrow import BATCH, require, resolve, to_numpy
from privgram.sources.table import Block, Chunk, Table


def open_parquet(path: Path, select: Sequence[str] | None = None) -> Table:
    """Read columns of a Parquet file."""
    parquet = require("pyarrow.parquet", "Parquet")
    if path.stat().st_size == 0:
        raise OSError(f"{path} is empty")
    try:
        with parquet.ParquetFile(path) as file:
            metadata, schema = file.metadata, file.schema_arrow
    except _arrow_errors() as error:
        raise _damaged(path, error) from None
    names = [schema.names[i] for i in resolve(schema, select)]
    return Table(tuple(names), len(names), metadata.num_rows, _chunks(path, metadata, names))


def _chunks(path: Path, metadata: Any, names: list[str]) -> Generator[Chunk]:
    for group in range(metadata.num_row_groups):
        yield Chunk(partial(_read, path, metadata, names, group), f"{path}, row group {group}")


def _read(path: Path, metadata: Any, names: list[str], group: int) -> Iterator[Block]:
    from pyarrow import parquet

    size = max(256, BATCH // max(len(names), 1))
    try:
        # Buffered and not read ahead: a row group may be as large as the file.
        with parquet.ParquetFile(
            path, metadata=metadata, buffer_size=1 << 16, pre_buffer=False
        ) as file:
            for batch in file.iter_batches(
                size, row_groups=[group], columns=names, use_threads=False
            ):
                yield [to_numpy(batch.column(name)) for name in names]
    except _arrow_errors() as error:
        raise _damaged(f"{path}, row group {group}", error) from None


def _arrow_errors() -> tuple[type[BaseException], ...]:
    from pyarrow import ArrowException

    return (ArrowException, OSError)


def _damaged(place: object, error: BaseException) -> OSError:
    # The reader's own text may quote the file.
    if isinstance(error, FileNotFoundError):
        return error
    return OSError(f"{place} cannot be decoded: the file is not Parquet, truncated or damaged")
