"""Arrays, and mappings of names to columns."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgram.columns.kinds import LEVELS, check_kind, numbers_of
from privgram.columns.variables import Variable
from privgram.sources.table import (
    Chunk,
    Selection,
    Table,
    described,
    positions,
    rows_per_chunk,
    unnamed,
)

_USUAL = "pass an array of two dimensions or a data frame"


def open_array(source: Any, select: Selection = None, by_position: bool = True) -> Table:
    """Read a two-dimensional array, in ranges of rows and without a copy."""
    if (fields := getattr(getattr(source, "dtype", None), "names", None)) is not None:
        return open_mapping({name: source[name] for name in fields}, select)
    array = as_matrix(source)
    n_rows, n_columns = array.shape
    unnamed(n_columns, select, by_position)
    return Table(
        names=tuple(select) if select is not None else None,
        n_columns=n_columns,
        n_rows=n_rows,
        chunks=_row_ranges(array),
    )


def open_mapping(source: Mapping[str, Any], select: Selection = None) -> Table:
    """Read a mapping of names to one-dimensional arrays, all of one length."""
    names = list(source)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("the keys of a mapping used as a table must be column names")
    taken = [names[i] for i in positions(names, select)]
    columns = [as_column(source[name], name, described(select, name)) for name in taken]
    return open_columns(taken, columns)


def open_columns(names: Sequence[str], columns: list[NDArray[Any]]) -> Table:
    """Read named one-dimensional arrays."""
    n_rows = columns[0].shape[0] if columns else 0
    for name, column in zip(names, columns, strict=True):
        if column.shape[0] != n_rows:
            raise ValueError(
                f"columns {names[0]!r} and {name!r} have {n_rows} and {column.shape[0]} rows"
            )
    return Table(tuple(names), len(columns), n_rows, _column_ranges(columns, n_rows))


def as_matrix(source: Any) -> NDArray[Any]:
    """Check that an object is a two-dimensional array of real numbers; copy nothing."""
    if isinstance(source, np.ma.MaskedArray):
        raise TypeError("masked arrays are not read; use .filled(np.nan) and missing='drop'")
    try:
        array = np.asarray(source)
    except ValueError as error:  # a ragged list of lists
        raise ValueError("the rows of the block differ in length") from error
    if array.dtype.kind == "O" and array.ndim == 0:
        hint = "pass .toarray(), or blocks of its rows" if hasattr(source, "toarray") else _USUAL
        raise TypeError(f"an object of type {type(source).__name__} is no table; {hint}")
    if array.dtype.kind == "O":
        raise TypeError(
            f"the block holds objects or strings; only real numbers can be used: {LEVELS}"
        )
    if array.dtype.kind not in "buif":
        what = "complex numbers" if array.dtype.kind == "c" else f"values of type {array.dtype}"
        raise TypeError(f"the block holds {what}; only real numbers can be used")
    if array.ndim == 1:
        raise ValueError(
            "a block has two dimensions, rows and columns, and this array has one; "
            "use x[None, :] for one row or x[:, None] for one column"
        )
    if array.ndim != 2:
        raise ValueError(f"a block has two dimensions and this array has {array.ndim}")
    return array


def as_column(values: Any, name: str, wanted: Variable | None = None) -> NDArray[Any]:
    """Check that an object is a one-dimensional array of what is wanted; copy nothing."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"column {name!r} is a masked array; use .filled(np.nan)")
    array = np.asarray(values)
    check_kind(array.dtype, name, wanted)
    if array.ndim != 1:
        raise ValueError(f"column {name!r} has {array.ndim} dimensions instead of one")
    return array if wanted is not None else numbers_of(array, name)


def _row_ranges(array: NDArray[Any]) -> Generator[Chunk]:
    n_rows, n_columns = array.shape
    step = rows_per_chunk(n_rows, n_columns * array.dtype.itemsize)
    for start in range(0, n_rows, step):
        yield Chunk(lambda part=array[start : start + step]: iter((part,)))  # type: ignore[misc]


def _column_ranges(columns: list[NDArray[Any]], n_rows: int) -> Generator[Chunk]:
    step = rows_per_chunk(n_rows, 8 * len(columns))
    for start in range(0, n_rows, step):
        part = [column[start : start + step] for column in columns]
        yield Chunk(lambda part=part: iter((part,)))  # type: ignore[misc]
