"""Data frames: Arrow's streams, without pyarrow, and pandas."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.installed import extra
from privgram._core.arrow import Array, Field, Stream, array_of, field_of_schema
from privgram.columns.encoding import Codes, check_kind, codes_of, naming_column, numbers_of
from privgram.columns.unit import Identifier
from privgram.columns.variables import Dates, Factor, Variable
from privgram.sources.arrow import (
    ColumnReader,
    Wanted,
    batch_columns,
    check_type,
    numpy_columns,
)
from privgram.sources.table import (
    CHUNK_BYTES,
    Chunk,
    RawBlock,
    Selection,
    Table,
    TableSource,
    described_kind,
    is_a,
    keys_by_code,
    keys_of,
    open_parts,
    positions,
    rows_per_chunk,
    unnamed,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def require(module: str, what: str) -> ModuleType:
    """Import a part of pyarrow, or say how to install it."""
    with extra("arrow", f"reading {what} needs"):
        return import_module(module)


def open_stream(source: TableSource, select: Selection = None) -> Table:
    """Read an object with the Arrow C stream, one batch after another."""
    stream = Stream(source)
    if stream.field.format != "+s":
        name = type(source).__name__
        raise TypeError(f"a {name} is one column; make a table of it, as by to_frame()")
    fields = stream.field.children
    taken = resolve_columns(fields, select)
    names = tuple(fields[i].name for i in taken)
    wanted = [described_kind(select, name) for name in names]
    n_rows = getattr(source, "num_rows", None)
    if not isinstance(n_rows, int):
        n_rows = None
    batches = (batch_columns(batch, taken) for batch in stream)
    return Table(names, len(taken), n_rows, chunks_of(lambda: batches, wanted, n_rows))


def chunks_of(
    run: Callable[[], Iterator[list[Array]]], wanted: Wanted, n_rows: int | None = None
) -> Generator[Chunk]:
    """Cut batches, the columns that are used of each, into chunks.

    ``wanted`` says what each column holds, None for numbers.
    ``run`` is called when the first chunk is asked for; what it gives is closed at the end. Rows
    are ``n_rows`` where that is known.
    """
    n_columns = len(wanted)
    step = rows_per_chunk(8 * n_columns)
    readers = list(map(ColumnReader, wanted))
    for columns in _batches(run, n_rows):
        if len(columns) != n_columns:  # the kernel takes it on trust
            raise OSError(f"the source gave {len(columns)} columns and was asked for {n_columns}")
        # A batch may be a whole table; parts share its memory.
        n = len(columns[0]) if columns else 0
        for start in range(0, n, step):
            part = [column.part(start, min(start + step, n)) for column in columns]
            yield Chunk(partial(_read, part, readers))


def _batches(run: Callable[[], Iterator[list[Array]]], n_rows: int | None) -> Iterator[list[Array]]:
    rows, failed = 0, ""
    with ExitStack() as stack:
        try:
            batches = run()
            stack.callback(batches.close)  # type: ignore[attr-defined]
            batch = next(batches, None)
        except Exception as error:
            failed = type(error).__name__
        while not failed and batch is not None:
            rows += len(batch[0]) if batch else 0
            yield batch
            try:
                batch = next(batches, None)
            except Exception as error:
                failed = type(error).__name__
    if failed:  # the producer's own error may quote the data, as a failed cast does
        raise OSError(f"the Arrow stream failed after {rows} rows ({failed})")
    if n_rows is not None and rows != n_rows:
        raise OSError(f"the Arrow stream ended after {rows} rows and the table has {n_rows}")


def _read(part: list[Array], readers: list[ColumnReader]) -> Iterator[RawBlock]:
    yield numpy_columns(part, readers)


def resolve_columns(fields: Sequence[Field], select: Selection) -> list[int]:
    """Find the selected columns of a schema and check that they hold real numbers."""
    taken = positions([field.name for field in fields], select)
    for i in taken:
        check_type(fields[i], bool(select), described_kind(select, fields[i].name))
    return taken


def fields_of(schema: pa.Schema) -> tuple[Field, ...]:
    """Columns of a schema of pyarrow's."""
    return field_of_schema(schema).children


def is_frame(source: TableSource) -> bool:
    """Tell whether this is a DataFrame, without importing pandas."""
    return is_a(source, "pandas", "DataFrame")


def open_frame(frame: pd.DataFrame, select: Selection = None, by_position: bool = True) -> Table:
    """Read a DataFrame column by column; the index is no column.

    Columns of NumPy's types are not copied; others (``Int64``, ``boolean``, Arrow's) are, a
    chunk at a time, with NaN for ``NA``.
    """
    names: Sequence[str] | None
    labels = frame.columns.tolist()
    if all(isinstance(name, str) for name in labels):
        taken = positions(labels, select)
        names = [labels[i] for i in taken]
    else:
        names = unnamed(len(labels), select, by_position)
        taken = list(range(len(labels)))
    wanted = [
        None if names is None else described_kind(select, str(name)) for name in names or taken
    ]
    kinds = frame.dtypes.tolist()
    for i, want in zip(taken, wanted, strict=True):
        _check(kinds[i], labels[i], want)
    alike = len({*kinds}) == 1 and isinstance(kinds[0], np.dtype) and kinds[0].kind in "iuf"
    if alike and 8 * frame.size <= CHUNK_BYTES and Identifier not in map(type, wanted):
        matrix = frame.to_numpy()  # to ask for columns takes longer than to copy them
        return open_parts(names, [matrix[:, i] for i in taken], len(frame))
    lenient = isinstance(select, Mapping)
    columns = [
        _column(frame.iloc[:, i] if names is None else frame[labels[i]], labels[i], want, lenient)
        for i, want in zip(taken, wanted, strict=True)
    ]
    return open_parts(names, columns, len(frame))


def _column(series: pd.Series, name: str, wanted: Variable | None, lenient: bool) -> Any:
    """A column that rows are taken of: an array where it lies, or what is converted then."""
    dtype = series.dtype
    as_it_is = isinstance(dtype, np.dtype) and not isinstance(wanted, Identifier)
    if as_it_is and (dtype.kind != "O" or wanted is not None):
        return series.to_numpy()
    return _Converted(series, name, wanted, lenient)


@dataclass(frozen=True)
class _Converted:
    series: pd.Series
    name: str
    wanted: Variable | None
    lenient: bool

    def __getitem__(self, rows: slice) -> Any:
        whole = rows == slice(0, len(self.series))
        some = self.series if whole else self.series.iloc[rows]
        part = naming_column(_to_raw, self.name)(some, self.wanted)
        return part if self.wanted is not None else numbers_of(part, self.name, self.lenient)


def _check(kind: Any, name: str | int, wanted: Variable | None) -> None:
    """Refuse a column that does not hold real numbers, or what is wanted."""
    if hasattr(kind, "pyarrow_dtype"):
        import pyarrow as pa

        check_type(field_of_schema(pa.field(str(name), kind.pyarrow_dtype)), wanted=wanted)
        return
    categories = getattr(kind, "categories", None)
    kind = kind if categories is None else categories.dtype
    if kind.kind == "O" and not isinstance(kind, np.dtype):  # pandas' own texts
        kind = np.dtype(np.str_)
    if wanted is not None and hasattr(kind, "tz"):
        kind = np.dtype("M8[ns]")
    check_kind(kind, name, wanted)


def _to_raw(column: pd.Series, wanted: Variable | None) -> Any:
    """Levels as codes where pandas has them so, dates in UTC, numbers as NumPy's."""
    dtype = column.dtype
    categories = hasattr(dtype, "categories")
    of_arrow = hasattr(dtype, "pyarrow_dtype")
    raw = isinstance(wanted, (Factor, Dates, Identifier))
    if of_arrow or (raw and getattr(dtype, "storage", "") == "pyarrow"):
        import pyarrow as pa

        array = pa.array(column.array)
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        return ColumnReader(wanted)(array_of(array))
    if isinstance(wanted, Identifier):
        if categories:
            return keys_by_code(column.cat.categories, column.cat.codes.to_numpy())
        plain = isinstance(dtype, np.dtype) and dtype.kind in "iuO"
        return keys_of(column.to_numpy() if plain else column.to_numpy(object, na_value=None))
    if isinstance(wanted, Factor) and categories:
        lut = codes_of(column.cat.categories.to_numpy(), wanted)
        return Codes(column.cat.codes.to_numpy(), lut)
    if isinstance(wanted, Dates) and hasattr(dtype, "tz"):
        return column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    if isinstance(wanted, Dates) or (wanted is not None and categories):
        return np.asarray(column)
    if isinstance(dtype, np.dtype):
        return column.to_numpy()
    if isinstance(wanted, Factor) and dtype.kind != "f":  # exactly, also where one is missing
        return column.to_numpy(dtype=object)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)  # pandas' NA
