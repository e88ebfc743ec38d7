"""Columns of Arrow's arrays as NumPy's: what their formats mean.

https://arrow.apache.org/docs/format/CDataInterface.html#data-type-description-format-strings
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from privgram._core.arrow import Array, Field, Stream
from privgram.columns.encoding import (
    DATES,
    LEVELS,
    Codes,
    Raw,
    codes_of,
    kinds_of,
    mistaken,
    naming_column,
)
from privgram.columns.unit import Identifier
from privgram.columns.variables import Dates, Factor, Variable, days
from privgram.sources.table import Keys, keys_by_code, keys_of

#: What is made of each value of a dictionary.
MappedT = TypeVar("MappedT")

#: What each column is publicly known to hold; None for numbers.
Wanted: TypeAlias = Sequence[Variable | None]

#: NumPy's types of numbers that lie as NumPy has them.
_NUMBERS = {
    letter: np.dtype(name)
    for letter, name in zip(
        "cCsSiIlLefg",
        ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"),
        strict=True,
    )
}

#: Types without parameters, by their names.
_NAMES = {
    "n": "null", "b": "bool", "u": "string", "U": "large_string", "vu": "string_view",
    "z": "binary", "Z": "large_binary", "vz": "binary_view", "+r": "run_end_encoded",
    "+l": "list", "+L": "large_list", "+vl": "list_view", "+vL": "large_list_view",
    "+s": "struct", "+m": "map", "tdD": "date32", "tdm": "date64",
    "_pli128": "Int128", "_plu128": "UInt128",
    **{kind: number.name for kind, number in _NUMBERS.items()},
}  # fmt: skip

#: Types with parameters, by how they begin.
_BEGINNINGS = {"+w:": "fixed_size_list", "w:": "fixed_size_binary", "ti": "interval", "+u": "union"}

#: NumPy's units of time, by Arrow's letters.
_UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}

_TEXTS = ("u", "U", "vu")

#: What to do about types that are no numbers.
_ADVICE = {
    "m": DATES,
    "M": DATES,
    "X": "cast it to a plain type of numbers",
    "V": "make a column of each of its numbers",
}


def _within(field: Field) -> Field:
    """The field of the values, also of those that a dictionary has."""
    while field.dictionary is not None:
        field = field.dictionary
    return field


def _kind(field: Field) -> str:
    """NumPy's letter for an Arrow type.

    "d" stands for decimals, "V" for nested types, "X" for extensions and runs, "B" for bytes and
    what is not known, and "" for nulls, which are of any type.
    """
    kind = field.format
    if field.extension is not None or kind == "+r" or kind.startswith("_"):  # of polars' own
        return "X"
    if kind in _NUMBERS:
        return _NUMBERS[kind].kind.replace("u", "i")
    if kind in _TEXTS:
        return "U"
    if kind.startswith(("td", "ts")):
        return "M"
    if kind.startswith("d:"):
        return "d"
    return {"n": "", "b": "b", "t": "m", "+": "V"}.get(kind[:1], "B")


def type_name(field: Field) -> str:
    """An Arrow type in words."""
    kind = field.format
    if field.extension is not None:
        return str(field.extension)
    if field.dictionary is not None:
        return f"dictionary of {type_name(field.dictionary)}"
    if kind.startswith("d:"):
        digits, scale, *bits = kind[2:].split(",")
        return f"decimal{bits[0] if bits else 128}({digits}, {scale})"
    if kind[:2] in ("ts", "tt", "tD"):
        what = {"ts": "timestamp", "tt": "time", "tD": "duration"}[kind[:2]]
        return f"{what}[{_UNITS.get(kind[2:3], kind[2:3])}]"
    for start, name in _BEGINNINGS.items():
        if kind.startswith(start):
            return name
    return _NAMES.get(kind, kind if kind.isascii() and len(kind) < 40 else "unknown")


def kind_of(field: Field) -> str:
    """NumPy's letter for what a column holds, however it is encoded; see `_kind`."""
    return _kind(_within(field) if field.extension is None else field)


def check_type(field: Field, selected: bool = True, wanted: Variable | None = None) -> None:
    """Refuse a column that does not hold real numbers, or what is wanted; say what to do."""
    check_letter(kind_of(field), type_name(field), field.name, selected, wanted)


def check_letter(
    kind: str, type_: str, name: str, selected: bool = True, wanted: Variable | None = None
) -> None:
    """As `check_type`, of a column of any system by the letter of its kind and its type."""
    if kind not in kinds_of(wanted):
        advice = _ADVICE.get(kind, LEVELS) + ("" if selected else ", or name the columns to take")
        raise mistaken(f"values of type {type_}", name, wanted, advice)


def column_to_numpy(column: Array) -> NDArray[Any]:
    """View real numbers as NumPy's, or copy them with NaN for those that are missing.

    Values become float64 with one rounding at most: here, or in the scratch of `BlockReader`.
    """
    kind = column.field.format
    if column.field.dictionary is not None:
        return _taken(column_to_numpy(_dictionary(column)), _indices(column))
    if kind == "n":
        return np.full(len(column), np.nan)
    missing = column.missing()
    if kind in _NUMBERS:
        values = column.values(_NUMBERS[kind])
    elif kind == "b":
        values = column.flags().astype(np.float64)
    else:
        values = _decimals(column, missing)
    if missing is None:
        return values
    values = values.astype(values.dtype if values.dtype.kind == "f" else np.float64)
    values[missing] = np.nan
    return values


def _decimals(column: Array, missing: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """The float64 nearest to each decimal, rounded once."""
    _, scale, *bits = map(int, column.field.format[2:].split(","))
    width = bits[0] if bits else 128
    if width == 32:
        words = column.values("i4").astype(np.int64)[:, None]
    else:
        words = column.values(f"V{width // 8}").view("i8").reshape(-1, width // 64)
    low = words[:, 0]
    # Within 53 bits, of a power of ten within 53 bits: both are exact, and the quotient is rounded.
    near = (low >= -(2**53)) & (low <= 2**53)
    small = near.all() and (words[:, 1:] == low[:, None] >> 63).all()
    if small and 0 <= scale <= 22:
        return low / 10.0**scale
    return _large_decimals(words, scale, missing)


def _large_decimals(
    words: NDArray[np.int64], scale: int, missing: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    """By Python's integers, whose quotient is rounded once."""
    nearest = np.zeros(len(words))
    low = words[:, :-1].astype(np.uint64).tolist()
    for row, (parts, high) in enumerate(zip(low, words[:, -1].tolist(), strict=True)):
        if missing is not None and missing[row]:
            continue
        whole = high
        for part in reversed(parts):
            whole = (whole << 64) + part
        nearest[row] = whole / 10**scale if scale >= 0 else float(whole * 10**-scale)
    return nearest


def _dictionary(column: Array) -> Array:
    values = column.dictionary
    if values is None:
        raise ValueError("a dictionary is not there")
    return values


def _indices(column: Array) -> NDArray[Any]:
    """Places in the dictionary, -1 where a value is missing."""
    indices, missing = column.values(_NUMBERS[column.field.format]), column.missing()
    if missing is not None:
        indices = np.where(missing, -1, indices.astype(np.int64))
    size = len(_dictionary(column))
    low = 0 if missing is None else -1
    if len(indices) and not (low <= indices.min() and indices.max() < size):
        raise ValueError("a value is not in the dictionary")
    return indices


def _taken(values: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """Values by their places, NaN or NaT at -1."""
    hole = np.array(["NaT"], values.dtype) if values.dtype.kind == "M" else np.array([np.nan])
    return np.asarray(np.concatenate([values, hole])[indices])


def _objects(column: Array) -> NDArray[Any]:
    """Values as Python's, None where there is none."""
    if column.field.format in _TEXTS:
        codes, texts = column.encode()
        return np.array([*texts, None], object)[codes]
    if _kind(_within(column.field)) == "M":
        return _datetimes(column).astype(object)
    values = column_to_numpy(column)
    missing = column.missing()
    objects = values.astype(object)
    if column.field.format in _NUMBERS and missing is not None:
        objects = column.values(_NUMBERS[column.field.format]).astype(object)
    if missing is not None:
        objects[missing] = None
    return objects


def _datetimes(column: Array) -> NDArray[Any]:
    kind = column.field.format
    if column.field.dictionary is not None:
        return _taken(_datetimes(_dictionary(column)), _indices(column))
    if kind == "n":
        return np.full(len(column), "NaT", "M8[us]")
    if kind == "tdD":
        values = column.values("i4").astype("M8[D]")
    else:
        unit = "ms" if kind == "tdm" else _UNITS[kind[2]]
        values = column.values(f"M8[{unit}]")
    if (missing := column.missing()) is not None:
        values = values.copy()
        values[missing] = "NaT"
    return values


class ColumnReader:
    """Columns of batches as what is wanted of them: see `privgram.columns.encoding`.

    What the values of a dictionary stand for is looked up once while batches repeat it.
    """

    def __init__(self, wanted: Variable | None = None) -> None:
        self.wanted = wanted
        self._known: tuple[list[Any], Any] = ([], None)

    def __call__(self, column: Array) -> Raw | Keys:
        """Codes of the levels of a factor, days, keys or numbers."""
        if isinstance(self.wanted, Identifier):
            return self._keys(column)
        if isinstance(self.wanted, Factor):
            return self._codes(column, self.wanted)
        return self._dates(column) if isinstance(self.wanted, Dates) else column_to_numpy(column)

    def _looked_up(self, column: Array, of: Callable[[NDArray[Any]], MappedT]) -> MappedT:
        """What `of` makes of the values in a column's dictionary, and of None at their end."""
        values = [*_objects(_dictionary(column)).tolist(), None]
        known, mapped = self._known
        if known != values:
            mapped = of(np.array(values, object))
            self._known = values, mapped
        result: MappedT = mapped
        return result

    def _keys(self, column: Array) -> Keys:
        kind = column.field.format
        if column.field.dictionary is not None:
            return self._looked_up(column, keys_of)[_indices(column)]
        if kind == "n":
            return Keys(np.zeros(len(column), np.int64), np.ones(len(column), bool))
        if kind in _TEXTS:
            codes, texts = column.encode()
            return keys_by_code(texts, codes)
        whole, missing = keys_of(column.values(_NUMBERS[kind])), column.missing()
        return Keys(whole.values, missing, whole.high)

    def _codes(self, column: Array, factor: Factor) -> Codes:
        """Codes of levels; of a dictionary its indices as they are, and what they stand for."""
        kind = column.field.format
        if column.field.dictionary is not None:
            lut = self._looked_up(column, lambda values: codes_of(values, factor))
            return Codes(_indices(column), lut[:-1])
        if kind == "n":
            return Codes(np.full(len(column), -1, np.int32))
        if kind in _TEXTS:
            indices, texts = column.encode()
            return Codes(indices, codes_of(np.array(texts, object), factor))
        missing = column.missing()
        if missing is None or kind not in _NUMBERS:
            return Codes(codes_of(column_to_numpy(column), factor))
        codes = codes_of(
            column.values(_NUMBERS[kind]), factor
        )  # exactly, also where one is missing
        return Codes(np.where(missing, np.int32(-1), codes))

    def _dates(self, column: Array) -> NDArray[np.float64]:
        """Days from 1970 of dates, times, or texts in ISO 8601."""
        if _kind(_within(column.field)) != "U":
            return days(_datetimes(column))
        if column.field.dictionary is not None:
            of_values: NDArray[np.float64] = self._looked_up(column, days)[_indices(column)]
            return of_values
        indices, texts = column.encode()
        return _taken(days(np.array([*texts, None], object)), indices)


def numpy_columns(columns: Sequence[Array], readers: Sequence[ColumnReader]) -> list[Any]:
    """View columns as NumPy's; copy those that need it."""
    return [
        naming_column(reader, column.field.name)(column)
        for column, reader in zip(columns, readers, strict=True)
    ]


def batch_columns(batch: Array, taken: Sequence[int] | None = None) -> list[Array]:
    """Columns of a batch, those at `taken` or all."""
    at = range(len(batch.field.children)) if taken is None else taken
    return [batch.child(i) for i in at]


def side_by_side(columns: Sequence[Any]) -> Iterator[list[Array]]:
    """Parts of columns that each are in pieces of their own, cut where one of them is."""
    streams = [Stream(column) for column in columns]
    parts: list[Array | None] = [next(stream, None) for stream in streams]
    while parts and all(part is not None for part in parts):
        n = min(len(part) for part in parts if part is not None)
        yield [part.part(0, n) for part in parts if part is not None]
        parts = [
            part.part(n, len(part)) if part is not None and len(part) > n else next(stream, None)
            for part, stream in zip(parts, streams, strict=True)
        ]
    if any(part is not None for part in parts):
        raise ValueError("the columns differ in length")
