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
    kinds_of,
    mistaken,
    naming_column,
    numbers_of,
)
from privgram.columns.unit import Identifier
from privgram.columns.variables import Dates, Factor, Variable, days
from privgram.sources.table import (
    CHUNK_BYTES,
    Chunk,
    Keys,
    RawBlock,
    Selection,
    Table,
    chunked,
    described_kind,
    keys_by_code,
    keys_of,
    positions,
    rows_per_chunk,
    unnamed,
)

#: Values of a decoded batch, 8 MiB of them: smaller ones cost more in calls than in cache.
BATCH = 1 << 20

#: What each column is publicly known to hold; None for numbers.
Wanted: TypeAlias = Sequence[Variable | None]


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
    taken = resolve_columns(reader.schema, select)
    names = tuple(reader.schema.names[i] for i in taken)
    wanted = [described_kind(select, name) for name in names]
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


def _read(batch: Any, wanted: Wanted, taken: Sequence[int] | None) -> Iterator[RawBlock]:
    yield columns_of(batch, wanted, taken)


def resolve_columns(schema: Any, select: Selection) -> list[int]:
    """Find the selected columns of a schema and check that they hold real numbers."""
    taken = positions(schema.names, select)
    for i in taken:
        field = schema.field(i)
        check_type(field, bool(select), described_kind(select, field.name))
    return taken


def check_type(field: Any, selected: bool = True, wanted: Variable | None = None) -> None:
    """Refuse a column that does not hold real numbers, or what is wanted; say what to do."""
    kind, held = _kind(field.type), field.type
    if (unknown := (field.metadata or {}).get(b"ARROW:extension:name")) is not None:
        kind, held = "X", unknown.decode(errors="replace")
    if kind not in kinds_of(wanted):
        advice = _ADVICE.get(kind, LEVELS) + ("" if selected else ", or name the columns to take")
        raise mistaken(f"values of type {held}", field.name, wanted, advice)


#: What to do about types that are no numbers.
_ADVICE = {
    "m": DATES,
    "M": DATES,
    "X": "cast it to a plain type of numbers",
    "V": "make a column of each of its numbers",
}


def _kind(kind: Any) -> str:
    """NumPy's letter for an Arrow type, however it is encoded.

    "d" stands for decimals, "V" for nested types, "X" for extensions, and "" for nulls, which are
    of any type.
    """
    from pyarrow import BaseExtensionType, types

    while types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        kind = kind.value_type
    if types.is_null(kind):
        return ""
    tests: dict[str, Callable[[Any], Any]] = {
        "X": lambda kind: isinstance(kind, BaseExtensionType),
        "b": types.is_boolean,
        "i": types.is_integer,
        "f": types.is_floating,
        "d": types.is_decimal,
        "U": _is_text,
        "M": lambda kind: types.is_date(kind) or types.is_timestamp(kind),
        "m": types.is_temporal,
        "V": types.is_nested,
    }
    return next((letter for letter, test in tests.items() if test(kind)), "B")


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    view = getattr(types, "is_string_view", lambda _: False)
    return bool(types.is_string(kind) or types.is_large_string(kind) or view(kind))


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
            given.append(naming_column(to_raw, batch.schema.names[i])(batch.column(i), want))
        else:
            given.append(to_numpy(batch.column(i)) if (view := found[i]) is None else view)
    return given


def to_raw(column: Any, wanted: Variable | None) -> Any:
    """Codes of the levels of a factor, days, keys or numbers; see `privgram.columns.encoding`."""
    if isinstance(wanted, Identifier):
        return _keys(column)
    if isinstance(wanted, Factor):
        return _codes(column, wanted)
    return _days(column) if isinstance(wanted, Dates) else to_numpy(column)


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


def _indices(column: Any) -> NDArray[Any]:
    """Indices of a dictionary as they are, or copied with -1 for nulls."""
    import pyarrow as pa

    indices = column.indices
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(-1)
    found: NDArray[Any] = indices.to_numpy()
    return found


def _keys(column: Any) -> Keys:
    """Keys of whole numbers or texts, encoded in any way."""
    import pyarrow as pa
    from pyarrow import compute, types

    if types.is_run_end_encoded(column.type):
        column = compute.run_end_decode(column)
    if types.is_null(column.type):
        return Keys(np.zeros(len(column), np.int64), np.ones(len(column), bool))
    if types.is_integer(column.type):
        missing = None
        if column.null_count:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            column = column.fill_null(0)
        found = keys_of(column.to_numpy())
        return Keys(found.values, missing, found.high)
    if not types.is_dictionary(column.type):
        if not (types.is_string(column.type) or types.is_large_string(column.type)):
            column = column.cast(pa.large_string())
        column = column.dictionary_encode()
    return keys_by_code(column.dictionary.to_pylist(), _indices(column))


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
        return Codes(_indices(column), lut)
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

    Values become float64 with one rounding at most: here, or in the scratch of `BlockReader`.
    """
    from pyarrow import types

    column = _decoded(column)
    if types.is_null(column.type):
        return np.full(len(column), np.nan)
    if types.is_decimal(column.type):
        # Arrow's own cast rounds twice; a numeral is read with one rounding.
        column = column.cast("string").cast("float64")
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
        names = unnamed(frame.shape[1], select, by_position)
        taken = list(range(frame.shape[1]))
    columns = [frame.iloc[:, i] for i in taken]
    wanted = [
        None if names is None else described_kind(select, str(name)) for name in names or taken
    ]
    for i, column, want in zip(taken, columns, wanted, strict=True):
        _check(column.dtype, frame.columns[i], want)

    def read(rows: slice) -> Iterator[RawBlock]:
        parts = []
        for column, want in zip(columns, wanted, strict=True):
            part = naming_column(_to_raw, column.name)(column.iloc[rows], want)
            parts.append(numbers_of(part, column.name) if want is None else part)
        yield parts

    step = rows_per_chunk(len(frame), 8 * len(columns))
    return Table(names, len(taken), len(frame), chunked(len(frame), step, read))


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
    categories = hasattr(dtype, "categories")
    of_arrow = hasattr(dtype, "pyarrow_dtype")
    raw = isinstance(wanted, (Factor, Dates, Identifier))
    if of_arrow or (raw and getattr(dtype, "storage", "") == "pyarrow"):
        import pyarrow as pa

        array = pa.array(column)
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        return to_raw(array, wanted)
    if isinstance(wanted, Identifier):
        if categories:
            return keys_by_code(column.cat.categories, column.cat.codes.to_numpy())
        plain = isinstance(dtype, np.dtype) and dtype.kind in "iu"
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
    if isinstance(wanted, Factor) and dtype.kind not in "iuf":
        return column.to_numpy(dtype=object)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)  # pandas' NA
