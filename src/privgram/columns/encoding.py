"""Raw columns as the columns that are stored: numbers in [-1, 1] and codes of levels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privgram._core import rowmap
from privgram._core.rowmap import DefaultRounding
from privgram.columns.terms import ONES, Piece, as_factor, as_numeric
from privgram.columns.unit import Identifier
from privgram.columns.variables import (
    NUMBERS,
    Boolean,
    Dates,
    Factor,
    Number,
    Variable,
    as_float,
    is_missing,
)

if TYPE_CHECKING:
    from privgram.columns.terms import Layout, Stored

#: What to do about a column of dates, and about one of words.
DATES = "describe it by pg.Dates(first, last), or cast it to a number in the unit you mean"
LEVELS = "describe it by a list of its levels, or cast it if it holds numerals"


#: Kinds of values that each description takes, by NumPy's letters; "d" stands for decimals.
_KINDS: dict[type, str] = {Boolean: "buifdO", Dates: "MUSTO", Identifier: "iuUSTO"}


def kinds_of(described: Variable | None) -> str:
    """Kinds of values, by NumPy's letters, that a column of what is wanted may hold.

    Objects, of any type, are looked at later, one by one. Decimals are "d".
    """
    if described is None:
        return "buifdO"
    if isinstance(described, Factor):
        return "USTO" if described.text else "iufO"
    return _KINDS.get(type(described), "buifdO")


def mistaken(held: str, name: str | int, wanted: Variable | None, advice: str = "") -> TypeError:
    """What to say of a column that holds something else than what is wanted, or than numbers."""
    if isinstance(wanted, (Boolean, Factor, Dates, Identifier)):
        return TypeError(f"column {name!r} holds {held}, not {wanted.holds}")
    problem = f"column {name!r} holds {held}; only real numbers can be used"
    return TypeError(problem + (f": {advice}" if advice else ""))


def check_kind(dtype: np.dtype[Any], name: str | int, wanted: Variable | None = None) -> None:
    """Refuse a column that does not hold real numbers, or what it is known to be."""
    kind = dtype.kind
    if kind not in kinds_of(wanted):
        held = f"values of type {'str' if kind in 'UT' else dtype}"
        advice = DATES if kind in "mM" else LEVELS if kind in "SUT" else ""
        raise mistaken("complex numbers" if kind == "c" else held, name, wanted, advice)


def as_column(
    values: ArrayLike, name: str, wanted: Variable | None = None, lenient: bool = False
) -> NDArray[Any]:
    """Check that an object is a one-dimensional array of what is wanted; copy no array."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"column {name!r} is a masked array; use .filled(np.nan)")
    array = _cells(values, wanted) if lenient else np.asarray(values)
    texts = array.dtype.kind == "O" and _are_texts(values)
    check_kind(np.dtype(np.str_) if texts else array.dtype, name, wanted)
    if array.ndim != 1:
        raise ValueError(f"column {name!r} has {array.ndim} dimensions instead of one")
    raw = wanted is not None and isinstance(wanted, (Boolean, Dates, Factor, Identifier))
    return array if raw else numbers_of(array, name, lenient)


def _are_texts(values: ArrayLike) -> bool:
    """Tell a column of texts by its library's type, which NumPy has none like."""
    kind = getattr(values, "dtype", getattr(values, "type", None))
    categories = getattr(kind, "categories", None)
    kind = kind if categories is None else getattr(categories, "dtype", kind)
    return (
        re.match(r"(large_)?str(ing)?\b|dictionary<values=\w*string", str(kind), re.I) is not None
    )


#: What lists of numbers hold, all of which NumPy reads as it reads each.
_PLAIN = {int, float, bool}


def _cells(values: ArrayLike, wanted: Variable | None) -> NDArray[Any]:
    """A column as an array; no cell of a list turns others into texts, floats or another shape."""
    exact = isinstance(wanted, (Factor, Identifier))
    if not isinstance(values, (list, tuple)):
        array = np.asarray(values)
        if exact and array.dtype.kind == "f":  # where one is missing, whole numbers would be so
            kind = str(getattr(values, "dtype", getattr(values, "type", "")))
            if re.match("u?int", kind, re.I):
                listed = getattr(values, "to_list", None) or values.tolist  # type: ignore[union-attr]
                return np.array(listed(), object)
        return array
    kinds = set(map(type, values))
    texts = isinstance(wanted, Dates) or (isinstance(wanted, Factor) and wanted.text)
    if kinds and kinds <= ({int} if exact else _PLAIN) and not texts:
        array = np.asarray(values)
        if array.dtype.kind in ("iu" if exact else "biuf"):
            return array
    return np.fromiter(values, object, len(values))


def numbers_of(values: NDArray[Any], name: str | int, lenient: bool = False) -> NDArray[Any]:
    """Objects that are numbers, as databases give decimals, as float64; None is NaN.

    If `lenient`, so is anything else that is no number: it is the row's own.
    """
    if values.dtype.kind != "O":
        return values
    listed = values.tolist()
    if not (lenient or all(value is None or isinstance(value, NUMBERS) for value in listed)):
        raise mistaken(f"values of type {values.dtype}", name, None, LEVELS)
    return np.array(list(map(as_float, listed)), np.float64)


# The value of a row depends on that row alone and is the same on every machine: sums, products
# and comparisons of doubles, each rounded once.

ValueT = TypeVar("ValueT")

#: Beyond this range a table from numbers to codes would be larger than a search is slow.
DIRECT = 1 << 20


@dataclass(frozen=True, eq=False)
class Codes:
    """Levels of rows: lut[indices], or the indices themselves; negative ones are missing."""

    indices: NDArray[Any]
    lut: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> Codes:
        return Codes(self.indices[rows], self.lut)

    def plain(self) -> NDArray[np.int32]:
        """Codes without a table to look them up in."""
        if self.lut is None:
            return self.indices.astype(np.int32, copy=False)
        return rowmap.looked_up(self.indices, self.lut)


class ColumnTable(Protocol):
    """A table in memory whose columns are asked for by name: a data frame or a mapping."""

    def __getitem__(self, name: str, /) -> ArrayLike: ...


#: A column as a source gives it: numbers, or the levels of a factor.
Raw: TypeAlias = "NDArray[Any] | Codes"


class Encoder:
    """The plan by which raw columns become what a kernel reads: dense ones, codes, and values.

    It is made with `Columns`, once. Given are columns of the `selected` variables, in this order.
    `dense` are pieces without factors, `ones` says whether a column of ones follows them, and
    `positions` where they are stored; `blocks` are pieces with factors, `factors` the distinct
    products of these, with how many levels each has in `levels`, and `valued` the blocks whose
    levels are multiplied by values. `scaling` has the centers, inverses and limits by which dense
    columns, then values, are scaled and clamped.
    """

    def __init__(
        self, layout: Layout, selected: Sequence[str], row_weights: str | None = None
    ) -> None:
        self.layout = layout
        self.row_weights = row_weights
        self.place = {name: i for i, name in enumerate(selected)}
        plain = [stored for stored in layout.stored if not stored.piece.factors]
        self.dense = [stored for stored in plain if stored.piece != ONES]
        self.ones = len(plain) > len(self.dense)
        self.blocks = [stored for stored in layout.stored if stored.piece.factors]
        self.factors = list(dict.fromkeys(block.piece.factors for block in self.blocks))
        self._coders = {
            name: LevelCoder(name, as_factor(name, layout.variables))
            for name in chain.from_iterable(self.factors)
        }
        self.levels = [
            math.prod(len(self._coders[name].factor) for name in names) for names in self.factors
        ]
        self.valued = [block for block in self.blocks if block.piece.powers]
        ones = [stored for stored in plain if stored.piece == ONES]
        made = *self.dense, *self.valued
        powers = list(dict.fromkeys(power for stored in made for power in stored.piece.powers))
        used = {name: as_numeric(name, layout.variables) for name, _ in powers}
        with DefaultRounding():
            #: Center and inverse of each number that is used.
            self._units = {
                name: (described.scaling[0], 1.0 / described.scaling[1])
                for name, described in used.items()
            }
            scaled_by = [self._scaling(stored) for stored in (*self.dense, *ones, *self.valued)]
        center, inverse, limit = np.array(scaled_by, dtype=np.float64).reshape(-1, 3).T.copy()
        self.scaling = center, inverse, limit
        self.positions = [stored.start for stored in (*self.dense, *ones)]
        #: What is done to each number first, where it is not taken as it comes; and the highest
        #: degree of each of which there are polynomials.
        self._first = {
            name: None if type(described) is Number else naming_column(described.raw, name)
            for name, described in used.items()
        }
        self._degrees = dict(sorted(powers, key=itemgetter(1)))
        #: Products of factors, for a `privgram._core.rows.Accumulator`.
        self.coded = [
            (
                self.factors.index(block.piece.factors),
                block.start,
                self.valued.index(block) if block.piece.powers else -1,
                1.0 if block.piece.powers else block.weight,  # of values, it is in the scaling
            )
            for block in self.blocks
        ]
        #: Whether the kernel counts levels by their codes: not of weighted rows.
        self.by_codes = bool(self.blocks) and row_weights is None
        #: Whether something must be computed before the kernel can take a column.
        self.derives = (
            row_weights is not None
            or any(len(names) > 1 for names in self.factors)
            or any(described.derived for described in used.values())
            or not all(stored.piece.linear for stored in made)
        )

    def _scaling(self, stored: Stored) -> tuple[float, float, float]:
        """Center, inverse and limit: of the raw column, or of one that is derived."""
        if not stored.piece.linear:  # computed, or the ones at their limit
            return 0.0, stored.weight, stored.weight
        center, inverse = self._units[stored.piece.powers[0][0]]
        return center, inverse * stored.weight, stored.weight

    def encode(
        self, parts: Sequence[Raw]
    ) -> tuple[list[NDArray[Any]], list[Codes], list[NDArray[Any]]]:
        """Dense columns, codes of `factors` and values of `valued`, before they are scaled."""
        numbers: dict[str, Any] = {}
        for name, first in self._first.items():
            part = parts[self.place[name]]
            numbers[name] = part if first is None else first(part)
        polynomials = {
            name: rowmap.legendre(numbers[name], *self._units[name], top)
            for name, top in self._degrees.items()
            if top > 1
        }

        def column(piece: Piece) -> NDArray[Any]:
            if piece.linear:
                return numbers[piece.powers[0][0]]  # type: ignore[no-any-return]
            scaled = [
                (polynomials[name][degree - 1], 0.0, 1.0)
                if degree > 1
                else (numbers[name], *self._units[name])
                for name, degree in piece.powers
            ]
            one = scaled[0][0] if len(scaled) == 1 else rowmap.product(*map(list, zip(*scaled)))  # noqa: B905
            return np.asarray(one)

        dense = [column(stored.piece) for stored in self.dense]
        values = [column(stored.piece) for stored in self.valued]
        return dense, [self.codes(names, parts) for names in self.factors], values

    def codes(self, names: tuple[str, ...], parts: Sequence[Raw]) -> Codes:
        """Codes of the combinations of levels of some factors."""
        codes = [self._coders[name](parts[self.place[name]]) for name in names]
        if len(codes) == 1:
            return codes[0]
        combined = np.zeros(len(codes[0]), np.int32)
        missing = np.zeros(len(codes[0]), bool)
        for name, of_factor in zip(names, codes, strict=True):
            plain = of_factor.plain()
            missing |= plain < 0
            combined = combined * np.int32(len(self._coders[name].factor)) + plain
        combined[missing] = -1
        return Codes(combined)

    def table(self, parts: Sequence[Raw]) -> NDArray[np.float64]:
        """The stored columns written out, shape (n, layout.size); missing values are NaN."""
        dense, codes, values = self.encode(parts)
        n = max([*map(len, dense), *map(len, codes), *map(len, values)], default=0)
        out = np.zeros((n, self.layout.size))
        columns = iter(range(len(self.scaling[0])))
        for stored, column in zip(self.dense, dense, strict=True):
            out[:, stored.start] = self._clamped(column, next(columns))
        if self.ones:
            out[:, self.positions[-1]] = self.scaling[2][next(columns)]
        rows = np.arange(n)
        each_value = iter(values)
        for block in self.blocks:
            plain = codes[self.factors.index(block.piece.factors)].plain()
            value: float | NDArray[np.float64] = block.weight
            if block.piece.powers:
                value = self._clamped(next(each_value), next(columns))
            known = plain >= 0
            out[rows[known], block.start + plain[known]] = (
                value[known] if isinstance(value, np.ndarray) else value
            )
            out[~known, block.columns] = np.nan
        if self.row_weights is not None:
            out *= self._root_weights(parts)[:, None]
        return out

    def _root_weights(self, parts: Sequence[Raw]) -> NDArray[np.float64]:
        """What rows are multiplied by, in [0, 1]; NaN where the weight is missing."""
        assert self.row_weights is not None
        low, high = as_numeric(self.row_weights, self.layout.variables).interval
        weights = np.asarray(parts[self.place[self.row_weights]], np.float64)
        return np.asarray(np.sqrt(np.clip(weights, low, high) / high), dtype=np.float64)

    def _clamped(self, column: NDArray[Any], at: int) -> NDArray[np.float64]:
        return _clamped(column, *(array[at] for array in self.scaling))


def _clamped(
    column: NDArray[Any], center: float, inverse: float, limit: float
) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        moved = (column.astype(np.float64) - center) * inverse
    clamped: NDArray[np.float64] = np.clip(moved, -limit, limit)
    return clamped


_OTHER_VALUES = "it holds values that are not {}"


def codes_of(values: NDArray[Any], factor: Factor) -> NDArray[np.int32]:
    """Codes of a factor's levels, in the order of its levels; -1 for a missing value.

    A value that is not listed is of the level "other" if there is one, and missing if not. Among
    objects one of another kind is missing; a whole column of another kind is a TypeError.
    """
    values = np.asarray(values)
    text = factor.text
    unknown = len(factor.levels) if factor.other else -1
    kind = values.dtype.kind
    if kind == "O" or (kind in "UT" and text):
        return _objects(values.tolist(), factor, unknown)
    if kind == "S" and text:
        decoded = [value.decode(errors="surrogateescape") for value in values.tolist()]
        return _objects(decoded, factor, unknown)
    if kind in "iu" and not text:
        return _integers(values, factor, unknown)
    if kind == "f" and not text:
        codes = np.full(len(values), unknown, np.int32)
        whole = (values == np.rint(values)) & (np.abs(values) < 2.0**62)
        codes[whole] = _integers(values[whole].astype(np.int64), factor, unknown)
        codes[np.isnan(values)] = -1
        return codes
    raise TypeError(_OTHER_VALUES.format(factor.holds))


class LevelCoder:
    """Codes of the levels of one factor, of a column as any source gives it."""

    def __init__(self, name: str, factor: Factor) -> None:
        self.name = name
        self.factor = factor

    def __call__(self, part: Raw) -> Codes:
        """Codes of rows; those that a source has found stay."""
        if isinstance(part, Codes):
            return part
        if part.dtype.kind in "iu" and self._by_value is not None:
            return Codes(part, self._by_value)
        return Codes(naming_column(codes_of, self.name)(part, self.factor))

    @cached_property
    def _by_value(self) -> NDArray[np.int32] | None:
        """Codes of whole numbers by their values, where the levels are small ones."""
        if self.factor.text or self.factor.other:
            return None
        levels = np.array(self.factor.levels, np.int64)
        if not 0 <= levels.min() <= levels.max() < DIRECT:
            return None
        lut = np.full(int(levels.max()) + 1, -1, np.int32)
        lut[levels] = np.arange(len(levels))
        return lut


def _objects(values: list[Any], factor: Factor, unknown: int) -> NDArray[np.int32]:
    known: dict[Any, int] = factor.codes

    def of_text(value: object) -> int:
        return known.get(value, unknown) if isinstance(value, str) else -1

    def of_number(value: object) -> int:
        if is_missing(value) or isinstance(value, bool) or not isinstance(value, NUMBERS):
            return -1  # True is equal to 1 and is no level
        return known.get(value, unknown)

    if not factor.text:
        return np.fromiter(map(of_number, values), np.int32, len(values))
    with suppress(TypeError):  # something has no hash
        codes = np.fromiter(map(known.get, values, repeat(-2)), np.int32, len(values))
        others = np.flatnonzero(codes == -2)
        codes[others] = [of_text(values[i]) for i in others.tolist()]
        return codes
    return np.fromiter(map(of_text, values), np.int32, len(values))


def _integers(values: NDArray[Any], factor: Factor, unknown: int) -> NDArray[np.int32]:
    levels = np.array(factor.levels, dtype=np.int64)
    if values.dtype == np.uint64:
        huge = values > np.uint64(2**63 - 1)
        codes = _integers(np.where(huge, 0, values).astype(np.int64), factor, unknown)
        codes[huge] = unknown
        return codes
    low, high = int(levels.min()), int(levels.max())
    if high - low >= DIRECT:
        return _search(values.astype(np.int64), levels, unknown)
    table = np.full(high - low + 1, unknown, np.int32)
    table[levels - low] = np.arange(len(levels))
    wide = values.astype(np.int64)
    inside = (wide >= low) & (wide <= high)
    codes = np.where(inside, table[np.clip(wide, low, high) - low], unknown)
    return codes.astype(np.int32, copy=False)


def _search(values: NDArray[Any], levels: NDArray[Any], unknown: int) -> NDArray[np.int32]:
    order = np.argsort(levels)
    at = np.minimum(np.searchsorted(levels, values, sorter=order), len(levels) - 1)
    codes = order[at]
    return np.where(levels[codes] == values, codes, unknown).astype(np.int32)


def naming_column(function: Callable[..., ValueT], name: str) -> Callable[..., ValueT]:
    """Have a TypeError say of which column it speaks."""

    def call(*arguments: Any) -> ValueT:
        try:
            return function(*arguments)
        except TypeError as error:
            raise TypeError(f"column {name!r}: {error}") from None

    return call


def parts_of(table: ColumnTable, selected: Mapping[str, Variable]) -> list[Raw]:
    """Columns of a small table in memory: a data frame or a mapping of names to columns."""
    parts: list[Raw] = []
    for name, described in selected.items():
        try:
            raw = table[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise ValueError(f"the table has no column {name!r}") from None
        column = as_column(raw, name, described, lenient=True)
        if parts and len(column) != len(parts[0]):
            raise ValueError(f"column {name!r} has {len(column)} rows and others {len(parts[0])}")
        parts.append(
            LevelCoder(name, described)(column) if isinstance(described, Factor) else column
        )
    return parts
