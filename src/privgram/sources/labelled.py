"""Rows of features with the code of their class, block by block, as often as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privgram._core.draws import ChaCha20
from privgram.columns.unit import Missing
from privgram.sources.arrays import is_array, to_numpy
from privgram.sources.table import NOT_FINITE, InvalidRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Features of shape (m, d) and their labels, of shape (m,).
Pair: TypeAlias = "tuple[NDArray[np.floating[Any]], NDArray[Any]]"

UNKNOWN = (
    "holds a label that is not among classes=, which are public: add it there if it may occur, or "
    "leave out such rows: missing='drop'"
)

#: Rows that are taken from a table in memory at a time.
LABELLED_ROWS = 1 << 11


class LabelledRows:
    """Blocks (m, d + 2): features, a constant, and the position of the row's class. SECRET.

    Rows with missing values or an unknown label are left out with `missing` = "drop", and otherwise
    refused. A part of the rows is held out; their class is then -1 - position. Each place has a
    coin for it, of `key`: whatever the rows are, and in whatever blocks they come.
    """

    def __init__(
        self,
        pairs: Callable[[], Iterable[Pair]],
        classes: Sequence[Any],
        constant: float,
        missing: Missing = "error",
        holdout: float = 0.0,
    ) -> None:
        self.pairs = pairs
        self.constant = constant
        self.missing = missing
        self.holdout = holdout
        self.key = bytes(32)
        self._codes = {value: code for code, value in enumerate(classes)}

    def __iter__(self) -> Iterator[NDArray[np.floating[Any]]]:
        before = 0
        for features, labels in self.pairs():
            codes = self.codes(labels)
            good: NDArray[np.bool_] = np.asarray(np.isfinite(features).all(axis=1))
            usable = good & (codes >= 0)
            if self.missing == "error" and not usable.all():
                row = int(usable.argmin())
                problem = UNKNOWN if good[row] else NOT_FINITE
                raise InvalidRow(row, problem).explain(before)
            if self.holdout:
                held = coins(self.key, before, len(codes)) < self.holdout
                codes = np.where(held, -1 - codes, codes)
            before += len(codes)
            if not usable.all():
                features, codes = features[usable], codes[usable]
            parts = [features, np.full((len(codes), 1), self.constant), codes[:, None]]
            parts = [part.astype(features.dtype, copy=False) for part in parts]
            yield np.hstack(parts if self.constant else parts[::2])

    def codes(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Positions of labels among the classes; -1 where one is none of them."""
        labels = one_by_one(labels)
        if labels.dtype.kind not in "biufU":
            return np.array([self._code(label) for label in labels.tolist()], np.intp)
        values, inverse = np.unique(labels, return_inverse=True)
        known = np.array([self._code(value) for value in values.tolist()], np.intp)
        return known[inverse] if len(known) else np.zeros(0, np.intp)

    def _code(self, label: Any) -> int:
        try:
            return self._codes.get(label, -1)
        except Exception:  # whatever it is, it is no label: it has no hash, or does not compare
            return -1


def one_by_one(labels: Any) -> NDArray[Any]:
    """Labels as an array, each with the type that it has: no label changes what another one is."""
    if is_array(labels):
        return to_numpy(labels)
    if hasattr(labels, "__array__"):
        return np.asarray(labels)
    apart = np.empty(len(labels), object)
    for place, label in enumerate(labels):
        apart[place] = label
    return apart


def coins(key: bytes, first: int, n: int) -> NDArray[np.float64]:
    """Numbers in [0, 1) of n places from the first on: independent of all else, by a secret key."""
    block, skipped = divmod(first, 8)  # a block of the stream has eight
    stream = np.random.Generator(ChaCha20(key, block.to_bytes(8, "little") + bytes(8)))
    return stream.random(skipped + n)[skipped:]


def pieces(rows_of: Callable[[slice], Any], labels: Any) -> Iterator[Pair]:
    """Some rows after the other, of any library; from a device they are copied as they come.

    Of a table without rows there is a block without any, which tells its width.
    """
    for start in range(0, max(len(labels), 1), LABELLED_ROWS):
        some = slice(start, min(start + LABELLED_ROWS, len(labels)))
        rows = rows_of(some)
        rows = to_numpy(rows) if is_array(rows) else rows
        if rows.dtype.kind not in "fiub":
            raise TypeError("blocks hold real numbers")
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(np.float64)
        yield rows, labels[some]
