"""What can be read: everything here becomes a `Table`, read in chunks.

They hand rows on as they are: nothing is summed, clipped or released here.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from privgram.sources.arrays import is_array, open_columns, open_device_array
from privgram.sources.files import open_paths
from privgram.sources.frames import is_frame, open_frame, open_stream
from privgram.sources.pieces import PieceSource
from privgram.sources.queries import is_query, open_query
from privgram.sources.table import CachedSource, Chunk, Selection, Table, TableSource, open_array

__all__ = ["Table", "TableSource", "open_block", "open_source"]


def open_source(source: TableSource, select: Selection = None, by_position: bool = True) -> Table:
    """Open anything that `privgram.second_moment` can read, with the named columns in this order.

    If `by_position`, the columns of a table without names may stand for the selected ones.
    """
    if isinstance(source, np.ndarray):  # what most small tables are
        return open_array(source, select, by_position)
    if isinstance(source, Mapping):
        return open_columns(source, select)
    if isinstance(source, Table):  # opened before
        return source
    if isinstance(source, CachedSource | PieceSource):
        return source.open(open_source, select, by_position)
    if isinstance(source, (list, tuple)) and not source and select is not None:
        return _without_rows(select)
    if isinstance(source, (str, os.PathLike)):
        return open_paths([Path(source)], select, by_position)
    if isinstance(source, (list, tuple)) and source and isinstance(source[0], (str, os.PathLike)):
        return open_paths([Path(path) for path in source], select, by_position)
    if _is_iterable_of_blocks(source):
        if isinstance(source, (list, tuple)) and len(set(map(id, source))) < len(source):
            raise ValueError(
                "the list holds one table twice: its rows would be counted twice; name each once"
            )
        return _open_blocks(iter(source), select, by_position)
    return open_block(source, select, by_position)


def open_block(source: TableSource, select: Selection = None, by_position: bool = True) -> Table:
    """Open a table that is in memory."""
    if is_frame(source):
        return open_frame(source, select, by_position)
    if is_query(source):
        return open_query(source, select)
    if hasattr(source, "__arrow_c_stream__"):
        return open_stream(source, select)
    if isinstance(source, Mapping):
        return open_columns(source, select)
    if is_array(source):
        return open_device_array(source, select, by_position)
    return open_array(source, select, by_position)


def _is_iterable_of_blocks(source: TableSource) -> bool:
    if isinstance(source, (list, tuple)):  # of tables, or of rows?
        return bool(source) and (_is_table(source[0]) or _is_listed_table(source[0]))
    return isinstance(source, Iterable) and not _is_table(source)


def _is_listed_table(rows: object) -> bool:
    return (
        isinstance(rows, (list, tuple))
        and len(rows) > 0
        and all(isinstance(row, (list, tuple)) for row in rows)
    )


def _is_table(source: TableSource) -> bool:
    return (
        isinstance(source, (Mapping, memoryview))
        or is_query(source)
        or is_array(source)
        or any(hasattr(source, name) for name in ("__array__", "__arrow_c_stream__", "__buffer__"))
    )


def _without_rows(select: Selection) -> Table:
    """A table of the selected columns that has no rows: one of one row is read as well."""
    assert select is not None
    chunks: list[Chunk] = []
    return Table(tuple(select), len(select), 0, (chunk for chunk in chunks))


def _open_blocks(blocks: Iterator[Any], select: Selection, by_position: bool) -> Table:
    """Read blocks one after another; the first says what the others must look like."""
    try:
        first = open_block(next(blocks), select, by_position)
    except StopIteration:
        if select is not None:
            return _without_rows(select)
        raise ValueError(
            "the source yields no blocks, so its width is unknown: name its columns, or have it "
            "yield a block without rows"
        ) from None

    def chunks() -> Generator[Chunk]:
        others = (open_block(block, select, by_position) for block in blocks)
        for number, table in enumerate(chain((first,), others)):
            if table.n_columns != first.n_columns:
                raise ValueError(
                    f"block {number} has {table.n_columns} columns and block 0 {first.n_columns}"
                )
            if table.names != first.names:
                raise ValueError(f"the columns of block {number} and block 0 differ in name")
            yield from table.chunks

    return Table(first.names, first.n_columns, None, chunks())
