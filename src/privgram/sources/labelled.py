"""Rows of features with the code of their class, block by block, as often as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

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
    refused. A part of the rows is held out; their class is then -1 - position. Which these are is
    a hash of the row alone, by `seed`: another row, or another place, changes nothing.
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
        self.seed = 0
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
                held = hashes(features, codes, self.seed) < self.holdout
                codes = np.where(held, -1 - codes, codes)
            before += len(codes)
            if not usable.all():
                features, codes = features[usable], codes[usable]
            parts = [features, np.full((len(codes), 1), self.constant), codes[:, None]]
            parts = [part.astype(features.dtype, copy=False) for part in parts]
            yield np.hstack(parts if self.constant else parts[::2])

    def codes(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Positions of labels among the classes; -1 where one is none of them."""
        values, inverse = np.unique(np.asarray(labels), return_inverse=True)
        known = np.array([self._codes.get(value, -1) for value in values.tolist()], np.intp)
        return known[inverse] if len(known) else np.zeros(0, np.intp)


def hashes(features: NDArray[Any], codes: NDArray[np.intp], seed: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each row, by the bits of its values."""
    odd = np.random.default_rng(seed).integers(2**64, size=features.shape[1] + 1, dtype=np.uint64)
    odd |= np.uint64(1)
    bits = np.ascontiguousarray(features, np.float64).view(np.uint64)
    mixed = (bits * odd[:-1]).sum(axis=1, dtype=np.uint64) + codes.astype(np.uint64) * odd[-1]
    for _ in range(2):
        mixed = (mixed ^ (mixed >> np.uint64(32))) * odd[-1]
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)


def pieces(rows_of: Callable[[slice], Any], labels: Any) -> Iterator[Pair]:
    """Some rows after the other, of any library; from a device they are copied as they come."""
    for start in range(0, len(labels), LABELLED_ROWS):
        some = slice(start, min(start + LABELLED_ROWS, len(labels)))
        rows = rows_of(some)
        rows = to_numpy(rows) if is_array(rows) else rows
        if rows.dtype.kind not in "fiub":
            raise TypeError("blocks hold real numbers")
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(np.float64)
        yield rows, labels[some]
