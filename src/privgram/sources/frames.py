"""Data frames: Arrow's streams and pandas, and the way from their columns to NumPy's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privgram._base.installed import extra
from privgram._core.arrow import views
from privgram.columns.encoding import (
    DATES,
    LEVELS,
    Codes,
    Raw,
    check_kind,
    codes_of,
    named,
    numbers_of,
)
from privgram.columns.unit import Identifier
from privgram.columns.variables import Dates, Factor, Variable, days
from privgram.sources.table import (
    CHUNK_BYTES,
    Block,
    Chunk,
    Selection,
    Table,
    described,
    keys_by_code,
    keys_of,
    keys_of_arrow,
    positions,
    rows_per_chunk,
    unnamed,
)

#: Values of a decoded batch, 8 MiB of them: smaller ones cost more in calls than in cache.
BATCH = 1 << 20

#: What each column is publicly known to hold; None for numbers.
Wanted: TypeAlias = Sequence[Variable | None]

_PLAIN = "cast it to a plain type of numbers"


def require(module: str, what: str) -> ModuleType:
    """Import a part of pyarrow, or say how to install it."""
    with extra("arrow", f"reading {what} needs"):
        return import_module(module)


def open_stream(source: Any, select: Selection = None) -> Table:
    """Read an object with the Arrow C stream, one record batch after another."""
    pa = require("pyarrow", "an Arrow stream")
    try:
        reader = pa.RecordBatchReader.from_stream(source)
    except pa.ArrowInvalid as error:
        if "non-struct" not in str(error):
            raise
        name = type(source).__name__
        raise TypeError(f"a {name} is one column; make a table of it, as by to_frame()") from None
    taken = resolve(reader.schema, select)
    names = tuple(reader.schema.names[i] for i in taken)
    wanted = [described(select, name) for name in names]
    n_rows = getattr(source, "num_rows", None)
    if not isinstance(n_rows, int):
        n_rows = None
    return Table(names, len(taken), n_rows, chunks_of(lambda: reader, wanted, taken))


def chunks_of(
    run: Callable[[], Iterator[Any]], wanted: Wanted, taken: Sequence[int] | None = None
) -> Generator[Chunk]:
    """Cut record batches, of which the columns at `taken` are used, into chunks.

    ``wanted`` says what each column holds, None for numbers.
    ``run`` is called when the first chunk is asked for; what it gives is closed at the end.
    """
    n_columns = len(wanted)
    step = max(256, CHUNK_BYTES // (8 * max(n_columns, 1)))
    for batch in _batches(run):
        width = batch.num_columns if taken is None else len(taken)
        if width != n_columns:  # the kernel takes it on trust
            raise OSError(f"the source gave {width} columns and was asked for {n_columns}")
        # A batch may be a whole table; slices share its memory.
        for start in range(0, batch.num_rows, step):
            yield Chunk(partial(_read, batch.slice(start, step), wanted, taken))


def _batches(run: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    rows, failed = 0, ""
    with ExitStack() as stack:
        try:
            batches = run()
            stack.callback(batches.close)  # type: ignore[attr-defined]
            batch = next(batches, None)
        except Exception as error:
            failed = type(error).__name__
        while not failed and batch is not None:
            rows += batch.num_rows
            yield batch
            try:
                batch = next(batches, None)
            except Exception as error:
                failed = type(error).__name__
    if failed:  # the producer's own error may quote the data, as a failed cast does
        raise OSError(f"the Arrow stream failed after {rows} rows ({failed})")


def _read(batch: Any, wanted: Wanted, taken: Sequence[int] | None) -> Iterator[Block]:
    yield columns_of(batch, wanted, taken)


def resolve(schema: Any, select: Selection) -> list[int]:
    """Find the selected columns of a schema and check that they hold real numbers."""
    taken = positions(schema.names, select)
    for i in taken:
        field = schema.field(i)
        check_type(field, bool(select), described(select, field.name))
    return taken


def check_type(field: Any, selected: bool = True, wanted: Variable | None = None) -> None:
    """Refuse a column that does not hold real numbers, or what is wanted; say what to do."""
    extension = (field.metadata or {}).get(b"ARROW:extension:name")  # of a type unknown here
    if isinstance(wanted, (Factor, Dates, Identifier)):
        if _holds(field.type, wanted) and extension is None:
            return
        raise TypeError(
            f"column {field.name!r} holds values of type {field.type}, not {wanted.holds}"
        )
    if is_real(field.type) and extension is None:
        return
    kind = field.type if extension is None else extension.decode(errors="replace")
    if wanted is not None:
        raise TypeError(f"column {field.name!r} holds values of type {kind}, not {wanted.holds}")
    ways = [_advice(field.type) if extension is None else _PLAIN]
    if not selected:
        ways.append("name the columns to take")
    raise TypeError(
        f"column {field.name!r} holds values of type {kind}; only real numbers can be used: "
        + ", or ".join(ways)
    )


def is_real(kind: Any) -> bool:
    """Tell whether an Arrow type is of real numbers, however they are encoded."""
    from pyarrow import types

    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return is_real(kind.value_type)
    return any(
        test(kind)
        for test in (
            types.is_floating,
            types.is_integer,
            types.is_boolean,
            types.is_decimal,
            types.is_null,
        )
    )


def _holds(kind: Any, wanted: Factor | Dates | Identifier) -> bool:
    """Tell whether an Arrow type is of levels, of dates, or of identifiers."""
    from pyarrow import types

    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _holds(kind.value_type, wanted)
    if types.is_null(kind):
        return True
    if isinstance(wanted, Identifier):
        return bool(types.is_integer(kind) or _is_text(kind))
    if isinstance(wanted, Dates):
        return bool(types.is_date(kind) or types.is_timestamp(kind) or _is_text(kind))
    if wanted.text:
        return _is_text(kind)
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    view = getattr(types, "is_string_view", lambda _: False)
    return bool(types.is_string(kind) or types.is_large_string(kind) or view(kind))


def _advice(kind: Any) -> str:
    from pyarrow import BaseExtensionType, types

    if isinstance(kind, BaseExtensionType):
        return _PLAIN
    if types.is_temporal(kind):
        return DATES
    if types.is_nested(kind):
        return "make a column of each of its numbers"
    return LEVELS


def columns_of(
    batch: Any, wanted: Wanted | None = None, taken: Sequence[int] | None = None
) -> list[Raw]:
    """View columns of a record batch, all by default, as NumPy's; copy those that need it."""
    found = views(batch)
    at = range(len(found)) if taken is None else taken
    given: list[Raw] = []
    for place, i in enumerate(at):
        want = None if wanted is None else wanted[place]
        if isinstance(want, (Factor, Dates, Identifier)):
            given.append(named(to_raw, batch.schema.names[i])(batch.column(i), want))
        else:
            given.append(to_numpy(batch.column(i)) if (view := found[i]) is None else view)
    return given


def to_raw(column: Any, wanted: Factor | Dates | Identifier) -> Any:
    """Codes of the levels of a factor, days, or keys; see `privgram.columns.encoding`."""
    if isinstance(wanted, Identifier):
        return keys_of_arrow(column)
    return _codes(column, wanted) if isinstance(wanted, Factor) else _days(column)


def _days(column: Any) -> NDArray[np.float64]:
    import pyarrow as pa

    column = _decoded(column)
    if _is_text(column.type):
        with suppress(pa.ArrowInvalid):  # then NumPy, which knows more ways to write them
            column = column.cast(pa.string()).cast(pa.timestamp("us"))
    return days(column.to_numpy(zero_copy_only=False))


def _decoded(column: Any) -> Any:
    from pyarrow import compute, types

    while types.is_dictionary(column.type) or types.is_run_end_encoded(column.type):
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        else:
            column = compute.run_end_decode(column)
    return column


def _codes(column: Any, factor: Factor) -> Raw:
    """Codes of levels; of a dictionary its indices as they are, and what they stand for."""
    import pyarrow as pa
    from pyarrow import compute, types

    if types.is_run_end_encoded(column.type):
        column = compute.run_end_decode(column)
    if types.is_null(column.type):
        return Codes(np.full(len(column), -1, np.int32))
    if types.is_dictionary(column.type):
        lut = codes_of(np.array(column.dictionary.to_pylist(), dtype=object), factor)
        indices = column.indices
        if indices.null_count:
            indices = indices.cast(pa.int64()).fill_null(-1)
        return Codes(indices.to_numpy(zero_copy_only=True), lut)
    if types.is_integer(column.type) and column.null_count:
        column = column.cast("float64", safe=False)
    if types.is_integer(column.type) or types.is_floating(column.type):
        return Codes(codes_of(column.to_numpy(zero_copy_only=False), factor))
    if not types.is_string(column.type):  # there is no search in views
        column = column.cast(pa.large_string())
    levels = pa.array(factor.levels, type=column.type)
    found = compute.index_in(column, value_set=levels, skip_nulls=True)
    codes = found.fill_null(len(factor.levels) if factor.other else -1).to_numpy()
    if factor.other and column.null_count:
        codes = np.where(column.is_null().to_numpy(zero_copy_only=False), -1, codes)
    return Codes(codes.astype(np.int32, copy=False))


def to_numpy(column: Any) -> NDArray[Any]:
    """View an array of real numbers as NumPy's, or copy it with NaN for nulls.

    Values become float64 with one rounding at most: here, or in the scratch of `Feeder`.
    """
    from pyarrow import compute, types

    while not types.is_primitive(column.type):
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        elif types.is_run_end_encoded(column.type):
            column = compute.run_end_decode(column)
        elif types.is_decimal(column.type):
            # Arrow's own cast rounds twice; a numeral is read with one rounding.
            column = column.cast("string").cast("float64")
        else:
            return np.full(len(column), np.nan)  # of type null
    if types.is_boolean(column.type) or (column.null_count and types.is_integer(column.type)):
        # Unsafe: an integer beyond 2**53 is rounded, here as it is elsewhere.
        column = column.cast("float64", safe=False)
    array: NDArray[Any] = column.to_numpy(zero_copy_only=column.null_count == 0)
    return array


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
        yield Chunk(partial(_read_frame, columns, wanted, start, start + step))


def _read_frame(columns: list[Any], wanted: Wanted, start: int, stop: int) -> Iterator[Block]:
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
