"""pandas DataFrames, read without pyarrow where their columns do without."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgram.sources.arrow import check_type, to_numpy
from privgram.sources.table import (
    Block,
    Chunk,
    Table,
    check_kind,
    positions,
    rows_per_chunk,
    unnamed,
)


def is_frame(source: Any) -> bool:
    """Tell whether this is a DataFrame, without importing pandas."""
    # Half-way through its import in another thread, pandas may lack the class.
    return isinstance(source, getattr(sys.modules.get("pandas"), "DataFrame", ()))


def open_frame(frame: Any, select: Sequence[str] | None = None, by_position: bool = True) -> Table:
    """Read a DataFrame column by column; the index is no column.

    Columns of NumPy's types are not copied; others (``Int64``, ``boolean``, Arrow's) are, a
    chunk at a time, with NaN for ``NA``.
    """
    names: tuple[str, ...] | None
    if all(isinstance(name, str) for name in frame.columns):
        taken = positions(list(frame.columns), select)
        names = tuple(frame.columns[i] for i in taken)
    else:
        unnamed(frame.shape[1], select, by_position)
        taken = list(range(frame.shape[1]))
        names = None if select is None else tuple(select)
    columns = [frame.iloc[:, i] for i in taken]
    for i, column in zip(taken, columns, strict=True):
        _check(column.dtype, frame.columns[i])
    return Table(names, len(taken), len(frame), _chunks(columns, len(frame)))


def _chunks(columns: list[Any], n_rows: int) -> Generator[Chunk]:
    step = rows_per_chunk(n_rows, 8 * len(columns))
    for start in range(0, n_rows, step):
        yield Chunk(partial(_read, columns, start, start + step))


def _read(columns: list[Any], start: int, stop: int) -> Iterator[Block]:
    yield [_to_numpy(column.iloc[start:stop]) for column in columns]


def _check(kind: Any, name: Any) -> None:
    """Refuse a column that does not hold real numbers."""
    if hasattr(kind, "pyarrow_dtype"):
        import pyarrow as pa

        check_type(pa.field(str(name), kind.pyarrow_dtype))
    else:
        categories = getattr(kind, "categories", None)
        check_kind(kind if categories is None else categories.dtype, name)


def _to_numpy(column: Any) -> NDArray[Any]:
    if isinstance(column.dtype, np.dtype):
        view: NDArray[Any] = column.to_numpy()
        return view
    if hasattr(column.dtype, "pyarrow_dtype"):
        import pyarrow as pa

        array = pa.array(column)
        return to_numpy(array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array)
    copy: NDArray[Any] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return copy
