"""pandas DataFrames, read without pyarrow where their columns do without."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgram.columns.encoding import Codes, codes_of, named
from privgram.columns.kinds import check_kind, numbers_of
from privgram.columns.unit import Identifier
from privgram.columns.variables import Dates, Factor, Variable
from privgram.sources.arrow import Wanted, check_type, to_numpy, to_raw
from privgram.sources.keys import keys_by_code, keys_of
from privgram.sources.table import (
    Block,
    Chunk,
    Selection,
    Table,
    described,
    positions,
    rows_per_chunk,
    unnamed,
)


def is_frame(source: Any) -> bool:
    """Tell whether this is a DataFrame, without importing pandas."""
    # Half-way through its import in another thread, pandas may lack the class.
    return isinstance(source, getattr(sys.modules.get("pandas"), "DataFrame", ()))


def open_frame(frame: Any, select: Selection = None, by_position: bool = True) -> Table:
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
    wanted = [None if names is None else described(select, str(name)) for name in names or taken]
    for i, column, want in zip(taken, columns, wanted, strict=True):
        _check(column.dtype, frame.columns[i], want)
    return Table(names, len(taken), len(frame), _chunks(columns, wanted, len(frame)))


def _chunks(columns: list[Any], wanted: Wanted, n_rows: int) -> Generator[Chunk]:
    step = rows_per_chunk(n_rows, 8 * len(columns))
    for start in range(0, n_rows, step):
        yield Chunk(partial(_read, columns, wanted, start, start + step))


def _read(columns: list[Any], wanted: Wanted, start: int, stop: int) -> Iterator[Block]:
    parts = []
    for column, want in zip(columns, wanted, strict=True):
        part = named(_to_raw, column.name)(column.iloc[start:stop], want)
        parts.append(numbers_of(part, column.name) if want is None else part)
    yield parts


def _check(kind: Any, name: Any, wanted: Variable | None) -> None:
    """Refuse a column that does not hold real numbers, or what is wanted."""
    if hasattr(kind, "pyarrow_dtype"):
        import pyarrow as pa

        check_type(pa.field(str(name), kind.pyarrow_dtype), wanted=wanted)
        return
    categories = getattr(kind, "categories", None)
    kind = kind if categories is None else categories.dtype
    if kind.kind == "O" and not isinstance(kind, np.dtype):  # pandas' own texts
        kind = np.dtype(np.str_)
    if wanted is not None and hasattr(kind, "tz"):
        kind = np.dtype("M8[ns]")
    check_kind(kind, name, wanted)


def _to_raw(column: Any, wanted: Variable | None) -> Any:
    """Levels as codes where pandas has them so, dates in UTC, numbers as NumPy's."""
    dtype = column.dtype
    arrow = hasattr(dtype, "pyarrow_dtype") or getattr(dtype, "storage", "") == "pyarrow"
    if isinstance(wanted, (Factor, Dates, Identifier)) and arrow:
        import pyarrow as pa

        array = pa.array(column)
        return to_raw(array.combine_chunks() if hasattr(array, "chunks") else array, wanted)
    if isinstance(wanted, Identifier):
        if hasattr(dtype, "categories"):
            return keys_by_code(column.cat.categories, column.cat.codes.to_numpy())
        plain = isinstance(dtype, np.dtype) and dtype.kind in "iu"
        return keys_of(column.to_numpy() if plain else column.to_numpy(object, na_value=None))
    if isinstance(wanted, Factor):
        if hasattr(column.dtype, "categories"):
            lut = codes_of(column.cat.categories.to_numpy(), wanted)
            return Codes(column.cat.codes.to_numpy(), lut)
        if isinstance(column.dtype, np.dtype):
            return column.to_numpy()
        if column.dtype.kind in "iuf":  # Int64, with pandas' NA
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
        return column.to_numpy(dtype=object)
    if isinstance(wanted, Dates) and hasattr(column.dtype, "tz"):
        return column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    if isinstance(wanted, Dates) or (wanted is not None and hasattr(column.dtype, "categories")):
        return np.asarray(column)
    return _to_numpy(column)


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
