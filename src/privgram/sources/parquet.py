"""Parquet: row groups decoded by the workers, a batch at a time.

Decoded from a memory map where that is safe: reading would copy the file once more.
"""

from __future__ import annotations

import mmap
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from privgram.columns.variables import Factor
from privgram.sources.arrow import BATCH, Wanted, columns_of, require, resolve
from privgram.sources.mapped import Stamp, opened, stamp
from privgram.sources.table import Block, Chunk, Selection, Table, described

#: Batches of a map that stay resident: a row group may be as large as the file.
RESIDENT = 4


def open_parquet(path: Path, select: Selection = None) -> Table:
    """Read columns of a Parquet file."""
    parquet = require("pyarrow.parquet", "Parquet")
    with path.open("rb", buffering=0) as raw:
        found = stamp(raw)
    if found[0] == 0:
        raise OSError(f"{path} is empty")
    try:
        with parquet.ParquetFile(path) as file:
            metadata, schema = file.metadata, file.schema_arrow
    except _arrow_errors():
        raise _damaged(path) from None
    available = schema.names
    names = [available[i] for i in resolve(schema, select)]
    wanted = [described(select, name) for name in names]
    chunks = _chunks(path, found, metadata, names, wanted)
    return Table(tuple(names), len(names), metadata.num_rows, chunks, decoded=True)


def _chunks(
    path: Path, found: Stamp, metadata: Any, names: list[str], wanted: Wanted
) -> Generator[Chunk]:
    for group in range(metadata.num_row_groups):
        read = partial(_read, path, found, metadata, names, wanted, group)
        yield Chunk(read, f"{path}, row group {group}")


def _read(
    path: Path, found: Stamp, metadata: Any, names: list[str], wanted: Wanted, group: int
) -> Iterator[Block]:
    import pyarrow as pa
    from pyarrow import parquet

    size = max(256, BATCH // max(len(names), 1))
    with opened(path, found) as (raw, leased):
        mapped = mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) if leased else None
        source = path if mapped is None else pa.BufferReader(pa.py_buffer(mapped))
        # Not read ahead, and through a buffer, for the same reason.
        options: dict[str, Any] = {
            "pre_buffer": False,
            "buffer_size": 1 << 16 if mapped is None else 0,
        }
        # Levels as the file has them, by number: no text is made of them row by row.
        options["read_dictionary"] = [
            name for name, want in zip(names, wanted, strict=True) if isinstance(want, Factor)
        ]
        try:
            with parquet.ParquetFile(source, metadata=metadata, **options) as file:
                order: list[int] = []  # batches keep the file's
                batches = file.iter_batches(
                    size, row_groups=[group], columns=names, use_threads=False
                )
                for count, batch in enumerate(batches, 1):
                    given = batch.schema.names
                    order = order or [given.index(name) for name in names]
                    yield columns_of(batch, wanted, order)
                    if mapped is not None and count % RESIDENT == 0:
                        mapped.madvise(mmap.MADV_DONTNEED)
        except _arrow_errors():
            raise _damaged(f"{path}, row group {group}") from None


def _arrow_errors() -> tuple[type[BaseException], ...]:
    from pyarrow import ArrowException

    return (ArrowException, OSError)


def _damaged(place: object) -> OSError:
    # The reader's own text may quote the file.
    return OSError(f"{place} cannot be decoded: the file is not Parquet, truncated or damaged")
