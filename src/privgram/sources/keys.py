"""Identifiers of units, made comparable: equal ones are equal, and nothing else of them is kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privgram.columns.variables import is_missing

#: Bytes of a text's key: up to 15 of them as they are and their number, or a hash.
BYTES = 16

#: Of this process: nobody can choose texts whose hashes are equal.
_SECRET = os.urandom(32)

_MISTAKEN = "it holds values that are neither whole numbers nor texts, as a unit's must be"


class Keys(NamedTuple):
    """Keys of rows, int64 or S16; where `missing` says so, there is none.

    A whole number from 2^63 on is 2^64 less here, and `high` says where: it is not the negative
    number of that key.
    """

    values: NDArray[Any]
    missing: NDArray[np.bool_] | None = None
    high: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes they take."""
        return sum(0 if part is None else part.nbytes for part in self)


def _key(text: str | bytes) -> bytes:
    """A text's key: itself and its length, or beyond 15 bytes a secret hash of 120 bits."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(raw) < BYTES:
        return raw.ljust(BYTES - 1, b"\0") + bytes([len(raw) + 1])
    return blake2b(raw, digest_size=BYTES - 1, key=_SECRET).digest() + b"\xff"


def keys_of(values: NDArray[Any]) -> Keys:
    """Keys of a column in memory: whole numbers, or texts, with None or NaN for missing ones."""
    kind = values.dtype.kind
    if kind in "iu":
        numbers = values.astype(np.int64, copy=False)
        unsigned = kind == "u" and values.itemsize == 8
        return Keys(numbers, None, numbers < 0 if unsigned else None)
    if kind not in "OUST":
        raise TypeError(_MISTAKEN)
    found: list[Any] = values.tolist()
    missing = np.array([is_missing(value) for value in found], bool)
    kinds = {type(value) for value, gone in zip(found, missing, strict=True) if not gone}
    if all(each is int or issubclass(each, np.integer) for each in kinds):
        whole = [0 if gone else int(v) for v, gone in zip(found, missing, strict=True)]
        if not all(-(2**63) <= value < 2**64 for value in whole):
            raise TypeError(_MISTAKEN + ", of 64 bits")
        high = np.array([value >= 2**63 for value in whole], bool)
        wrapped = [value - 2**64 if value >= 2**63 else value for value in whole]
        return Keys(np.array(wrapped, np.int64), missing, high)
    if not all(issubclass(each, (str, bytes)) for each in kinds):
        raise TypeError(_MISTAKEN)
    known: dict[Any, bytes] = {value: _key(value) for value in set(found) if type(value) in kinds}
    texts = np.array([known.get(value, b"") for value in found], f"S{BYTES}")
    return Keys(texts, missing)


def keys_by_code(values: Iterable[Any], codes: NDArray[Any]) -> Keys:
    """Keys of rows by the positions of their values; at -1 there is none."""
    each = keys_of(np.array([*values, None], object))
    assert each.missing is not None
    high = None if each.high is None else each.high[codes]
    return Keys(each.values[codes], each.missing[codes], high)


def keys_of_arrow(column: Any) -> Keys:
    """Keys of an Arrow array of whole numbers or texts, encoded in any way."""
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
        each = keys_of(column.to_numpy())
        return Keys(each.values, missing, each.high)
    if not types.is_dictionary(column.type):
        if not (types.is_string(column.type) or types.is_large_string(column.type)):
            column = column.cast(pa.large_string())
        column = column.dictionary_encode()
    indices = column.indices
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(-1)
    return keys_by_code(column.dictionary.to_pylist(), indices.to_numpy())
