"""Pairs of rows of one level: sums of what two rows differ by, which need no means of levels.

Rows of a level are in blocks, and pairs are of one block. Which block a row is in depends on the
row alone: on its level, and on a bin by a hash of what it has and of how many rows just like it
there are before it. Any of these may be called the first. So a row that goes leaves one block, and
all others are in the blocks where they were (docs/theory/glm.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privgram._core import scores
from privgram._core.scores import PARTS, UNITS
from privgram.exact import int128
from privgram.moment import SecondMoment
from privgram.moment.accumulators import LevelAccumulator, Prepared, RowMap
from privgram.secret.kinds import (
    MOST_WEIGHT,
    PAIR_PARTS,
    PULL,
    WEIGHT_UNITS,
    Histogram,
    Outer,
    Vectors,
)
from privgram.secret.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns
    from privgram.secret.kinds import Kind

#: Pairs that are taken at a time, or those of one row; and rows of which all pairs' vectors fit
#: 64 bits.
AT_ONCE, LARGE = 1 << 13, 1 << 19

#: Odd numbers that bits are mixed by, of SplitMix64.
MIXERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Which rows are in one block, by public numbers: bins (K,) of levels, and weights (K,).

    Both are rounded to whole numbers; weights are of blocks, in units of one over `WEIGHT_UNITS`.
    Read are columns with the `factor`; a row's numbers are those of the `others`.
    """

    read: Columns
    others: Columns
    factor: str
    bins: NDArray[Any]
    weights: NDArray[Any]

    def __post_init__(self) -> None:  # where no row has been seen
        if not ((self.bins >= 1) & (self.bins < 2**31)).all():
            raise ValueError("a level has a bin")
        if not ((self.weights >= 0) & (self.weights <= MOST_WEIGHT)).all():
            raise ValueError("a weight is too large")
        for name in ("bins", "weights"):
            object.__setattr__(self, name, np.rint(getattr(self, name)).astype(np.int64))


@dataclass(frozen=True, eq=False)
class PairImage:
    """What a pair of rows u, v of a block is mapped to: A (u - v) / sqrt(2)."""

    blocks: Blocks
    matrix: Matrix


class RowsByLevel(LevelAccumulator):
    """Keeps rows and their levels. SECRET, and gone with their gate."""

    sums: ClassVar[tuple[str, ...]] = ("n_rows", "n_dropped", "_blocks")
    parts: ClassVar[tuple[str, ...]] = ()

    def __init__(self, blocks: Blocks, _: int = 0) -> None:
        super().__init__(blocks.read, blocks.others, blocks.factor, np.eye(len(blocks.others)))
        self._blocks: list[tuple[Matrix, NDArray[np.int32]]] = []

    def feed(self, z: Matrix, one: Vector, levels: NDArray[np.int32]) -> None:
        """Take images, and for each u_1 and its level's position."""
        self._blocks.append((z + 0.0, levels))  # no zeros of two signs

    def rows(self) -> tuple[Matrix, NDArray[np.int32]]:
        """All rows, (n, d), and their levels."""
        if not self._blocks:
            return np.zeros((0, self.n_columns)), np.zeros(0, np.int32)
        rows, levels = zip(*self._blocks, strict=True)
        return np.concatenate(rows), np.concatenate(levels)


class PairStore:
    """All rows by blocks, blocks of one size and weight together. SECRET."""

    def __init__(self, blocks: Blocks, kept: RowsByLevel) -> None:
        self.n_rows = kept.n_rows
        rows, levels = kept.rows()
        order, block = in_blocks(blocks, rows, levels)
        _, at, size = np.unique(block, return_inverse=True, return_counts=True)
        size, weight = size[at], blocks.weights[levels[order]]
        by_class = np.lexsort((block, weight, size))
        by_class = by_class[size[by_class] > 1]
        self._rows = rows[order[by_class]]
        same = np.stack([size[by_class], weight[by_class]])
        starts = np.flatnonzero((np.diff(same, prepend=-1) != 0).any(axis=0))
        #: Size and weight of blocks, and where their rows begin and end.
        self.classes = [
            (int(same[0, one]), int(same[1, one]), int(one), int(end))
            for one, end in zip(starts, np.append(starts, same.shape[1])[1:], strict=True)
        ]

    def sums(self, image: PairImage, kinds: Sequence[Kind]) -> list[Any]:
        """Sums over all pairs, of integers."""
        frame = image.matrix * np.sqrt(0.5)
        totals: list[Any] = [_nothing(kind) for kind in kinds]
        images = RowMap(frame, float(image.blocks.others.bound))
        for size, weight, start, end in self.classes:
            mapped = np.empty((len(frame), end - start)).T
            for some, v in images.arrays(Prepared(self._rows[start:end])):
                mapped[some] = v
            self._add(totals, kinds, mapped, size, weight)
        return [
            _triangle(one) if isinstance(kind, Outer) else one.astype(np.int64)
            for kind, one in zip(kinds, totals, strict=True)
        ]

    def _add(
        self, totals: list[Any], kinds: Sequence[Kind], mapped: Matrix, size: int, weight: int
    ) -> None:
        """Add the sums of blocks of one size and weight."""
        n_blocks = len(mapped) // size
        vectors = {
            i: np.zeros((n_blocks, kind.of.q), object if size > LARGE else np.int64)
            for i, kind in enumerate(kinds)
            if isinstance(kind, Vectors)
        }
        sweep = Sweep(
            [replace(kind, groups=2) if isinstance(kind, Vectors) else kind for kind in kinds]
        )
        for first, last in _strips(len(mapped), size):
            n_pairs = _pairs_before(last, size) - _pairs_before(first, size)
            pairs, block = np.empty((mapped.shape[1], n_pairs)).T, np.empty(n_pairs, np.int32)
            scores.differences(mapped, size, first, last, pairs, block)
            where = slice(first // size, (last - 1) // size + 1)
            for i in vectors:
                sweep.totals[i] = np.zeros((where.stop - where.start, kinds[i].of.q), np.int64)
            for model, places, room in sweep.groups:
                sweep.add(pairs, model.score, places, room, groups=block)
            for i, whole in vectors.items():
                whole[where] += sweep.totals[i]
        for i, kind in enumerate(kinds):
            if i in vectors:
                totals[i] = totals[i] + _projected(vectors[i], size, weight)
            elif isinstance(kind, Histogram):
                counts = sweep.totals[i].astype(object) * (PAIR_PARTS // PARTS)
                totals[i] = totals[i] + _shared(counts, size, weight)
            else:
                made = SecondMoment.from_accumulator(sweep.totals[i], None, None).triangle()
                totals[i] = totals[i] + _shared(int128.to_integers(made), size, weight)


def _nothing(kind: Kind) -> Any:
    if isinstance(kind, Vectors):
        return np.zeros(kind.of.q, np.int64)
    size = kind.of.q * (kind.of.q + 1) // 2 if isinstance(kind, Outer) else len(kind.edges)  # type: ignore[attr-defined]
    return np.zeros(size, object)


def _triangle(total: NDArray[Any]) -> int128.Int128:
    return (total >> 64).astype(np.int64), (total & (2**64 - 1)).astype(np.uint64)


def _shared(total: NDArray[Any], size: int, weight: int) -> NDArray[Any]:
    """Whole numbers times 2 / size and the weight, rounded."""
    parts = size * WEIGHT_UNITS
    return (total * (2 * weight) + parts // 2) // parts


def _projected(total: NDArray[Any], size: int, weight: int) -> NDArray[np.int64]:
    """The sum of blocks' vectors (k, q) times 2 / size, none too long, by their weight; rounded."""
    if not total.shape[1]:
        return np.zeros(0, np.int64)
    u = total.astype(np.float64) * (2.0 / size)
    longest = (2 + PULL * (size + 1)) * UNITS
    length = np.sqrt((u**2).cumsum(axis=1)[:, -1])
    u *= (longest / np.maximum(length, longest) * (weight / WEIGHT_UNITS))[:, None]
    whole: NDArray[np.int64] = np.rint(u).astype(np.int64).sum(axis=0)
    return whole


def _pairs_before(row: int, size: int) -> int:
    """How many pairs begin with a row before this one."""
    blocks, inside = divmod(row, size)
    whole = blocks * (size * (size - 1) // 2)
    return whole + inside * (size - 1) - inside * (inside - 1) // 2


def _strips(n_rows: int, size: int) -> Iterator[tuple[int, int]]:
    """First and last rows of some pairs at a time: of whole blocks, or of one in parts."""
    first, of_block = 0, size * (size - 1) // 2
    while first < n_rows:
        at = first % size
        if not at and of_block <= AT_ONCE:
            last = min(n_rows, first + AT_ONCE // of_block * size)
        else:
            last = min(first + max(1, AT_ONCE // max(size - 1 - at, 1)), first - at + size)
        yield first, last
        first = last


def in_blocks(
    blocks: Blocks, rows: Matrix, levels: NDArray[np.int32]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """An order of the rows by what they have alone, and the block of each in it."""
    bits = np.ascontiguousarray(rows).view(np.uint64)
    code = mixed(levels.astype(np.uint64))
    for column in bits.T:
        code = mixed(code ^ column)
    order = np.argsort(code, kind="stable")
    alike = _alike(bits[order], levels[order])
    if not alike[code[order[1:]] == code[order[:-1]]].all():  # two rows of one code
        order = np.lexsort((*bits.T, levels, code))
        alike = _alike(bits[order], levels[order])
    places = np.arange(len(order))
    first = np.maximum.accumulate(np.where(np.append(True, ~alike)[: len(order)], places, 0))
    tag = mixed(code[order] ^ mixed((places - first + 1).astype(np.uint64))) >> np.uint64(32)
    level = levels[order]
    bins = blocks.bins.astype(np.uint64)[level]
    start = np.cumsum(blocks.bins) - blocks.bins
    return order, start[level] + ((tag * bins) >> np.uint64(32)).astype(np.int64)


def _alike(bits: NDArray[np.uint64], levels: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether each row but the first is like the one before."""
    same: NDArray[np.bool_] = (levels[1:] == levels[:-1]) & (bits[1:] == bits[:-1]).all(axis=1)
    return same


def mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Other bits, each of which depends on all of these."""
    for shift, by in zip((30, 27), MIXERS, strict=True):
        bits = (bits ^ (bits >> np.uint64(shift))) * by
    return bits ^ (bits >> np.uint64(31))
