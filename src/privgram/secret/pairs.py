"""Pairs of rows of one level: sums of what two rows differ by, which need no means of levels.

Rows of a level are in blocks, and pairs are of one block. Which block a row is in depends on the
row alone: on its level, and on a bin by a hash of what it has and of how many rows just like it
there are before it. Any of these may be called the first. So a row that goes leaves one block, and
all others are in the blocks where they were (docs/theory/glm.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns
    from privgram.secret.kinds import Kind

#: Pairs at a time at most, or those of one row; and rows of which all pairs' vectors fit 64 bits.
AT_ONCE, LARGE = 1 << 14, 1 << 19

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
        for name, least, most in (("bins", 1, 2**31 - 1), ("weights", 0, MOST_WEIGHT)):
            numbers = np.rint(getattr(self, name))
            if not ((numbers >= least) & (numbers <= most)).all():
                raise ValueError(f"{name} are from {least} to {most}")
            object.__setattr__(self, name, numbers.astype(np.int64))


@dataclass(frozen=True, eq=False)
class PairImage:
    """What a pair of rows u, v of a block is mapped to: A (u - v) / sqrt(2)."""

    blocks: Blocks
    matrix: Matrix


class RowsByLevel(LevelAccumulator):
    """Keeps rows (n, d) and their levels, then by blocks of one size and weight. SECRET."""

    sums, parts = ("n_rows", "n_dropped", "_blocks"), ()

    def __init__(self, blocks: Blocks, _: int = 0) -> None:
        super().__init__(blocks.read, blocks.others, blocks.factor, np.eye(len(blocks.others)))
        self.of = blocks
        self._blocks = [(np.zeros((0, self.n_columns)), np.zeros(0, np.int32))]

    def feed(self, z: Matrix, one: Vector, levels: NDArray[np.int32]) -> None:
        """Take images, and for each u_1 and its level's position."""
        self._blocks.append((z + 0.0, levels))  # no zeros of two signs

    def stored(self) -> RowsByLevel:
        """All rows, once they are read."""
        rows, levels = map(np.concatenate, zip(*self._blocks, strict=True))
        self._blocks = []
        order, block = in_blocks(self.of, rows, levels)
        _, first, at, size = np.unique(block, True, True, True)
        weight = self.of.weights[levels[order[first]]]
        place = np.lexsort((weight, size)).argsort()
        by_class = np.argsort(place[at], kind="stable")
        by_class = by_class[size[at[by_class]] > 1]
        self._rows = rows[order[by_class]]
        same = np.stack([size, weight])[:, at[by_class]]
        starts = np.flatnonzero((np.diff(same, prepend=-1) != 0).any(axis=0))
        ends = np.append(starts, same.shape[1])[1:]
        #: Size and weight of blocks, and where their rows begin and end.
        self.classes = list(zip(*same[:, starts].tolist(), starts, ends, strict=True))
        return self

    def sums_of(self, image: PairImage, kinds: Sequence[Kind]) -> list[Any]:
        """Sums over all pairs, of integers."""
        frame = image.matrix * np.sqrt(0.5)
        totals: list[Any] = [0] * len(kinds)
        images = RowMap(frame, float(self.of.others.bound))
        for size, weight, start, end in [*self.classes, (1, 0, 0, 0)]:  # at least of no rows
            mapped = np.empty((len(frame), end - start)).T
            for some, v in images.arrays(Prepared(self._rows[start:end])):
                mapped[some] = v
            made = _of_class(kinds, mapped, size, weight)
            totals = [one + more for one, more in zip(totals, made, strict=True)]
        return [
            ((one >> 64).astype(np.int64), (one & (2**64 - 1)).astype(np.uint64))
            if isinstance(kind, Outer)
            else one.astype(np.int64)
            for kind, one in zip(kinds, totals, strict=True)
        ]


def _of_class(
    kinds: Sequence[Any], mapped: Matrix, size: int, weight: int
) -> Iterator[NDArray[Any]]:
    """Sums of blocks of one size and weight."""
    by_block = {
        i: np.zeros((len(mapped) // size, kind.of.q), object if size > LARGE else np.int64)
        for i, kind in enumerate(kinds)
        if isinstance(kind, Vectors)
    }
    sweep = Sweep([replace(one, groups=2) if i in by_block else one for i, one in enumerate(kinds)])
    for first in range(0, len(mapped), step := max(1, AT_ONCE // size)):
        last = min(first + step, len(mapped))
        pairs, block = scores.differences(mapped, size, first, last)
        where = slice(first // size, (last - 1) // size + 1)
        for i, total in by_block.items():
            sweep.totals[i] = np.zeros(total[where].shape, np.int64)
        for model, places, room in sweep.groups:
            sweep.add(pairs, model.score, places, room, groups=block)
        for i, total in by_block.items():
            total[where] += sweep.totals[i]
    for i, kind in enumerate(kinds):
        if i in by_block:
            yield _projected(by_block[i], size, weight)
            continue
        if isinstance(kind, Histogram):
            counts = sweep.totals[i].astype(object) * (PAIR_PARTS // PARTS)
        else:
            made = SecondMoment.from_accumulator(sweep.totals[i], None, None).triangle()
            counts = int128.to_integers(made)
        parts = size * WEIGHT_UNITS  # times 2 / size and the weight, rounded
        yield (counts * (2 * weight) + parts // 2) // parts


def _projected(total: NDArray[Any], size: int, weight: int) -> NDArray[np.int64]:
    """The sum of blocks' vectors (k, q) times 2 / size, none too long, by their weight; rounded."""
    u = total.astype(np.float64) * (2.0 / size)
    longest = (2 + PULL * (size + 1)) * UNITS
    length = np.sqrt((u**2).cumsum(axis=1)[:, -1])
    u *= (longest / np.maximum(length, longest) * (weight / WEIGHT_UNITS))[:, None]
    whole: NDArray[np.int64] = np.rint(u).astype(np.int64).sum(axis=0)
    return whole


def in_blocks(
    blocks: Blocks, rows: Matrix, levels: NDArray[np.int32]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """An order of the rows by what they have alone, and the block of each in it."""
    bits = np.ascontiguousarray(rows).view(np.uint64)
    code = mixed(levels.astype(np.uint64))
    for column in bits.T:
        code = mixed(code ^ column)

    def alike(one: Any, other: Any) -> Any:
        return (bits[one] == bits[other]).all(axis=1) & (levels[one] == levels[other])

    order = np.argsort(code, kind="stable")
    same = code[order[1:]] == code[order[:-1]]  # each row but the first as the one before
    if not alike(order[1:][same], order[:-1][same]).all():  # two rows of one code
        order = np.lexsort((*bits.T, levels, code))
        same = alike(order[1:], order[:-1])
    places = np.arange(len(order))
    first = np.maximum.accumulate(np.where(np.append(True, ~same)[: len(order)], places, 0))
    tag = mixed(code[order] ^ mixed((places - first + 1).astype(np.uint64))) >> np.uint64(32)
    level = levels[order]
    bins = blocks.bins.astype(np.uint64)[level]
    start = np.cumsum(blocks.bins) - blocks.bins
    return order, start[level] + ((tag * bins) >> np.uint64(32)).astype(np.int64)


def mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Other bits, each of which depends on all of these."""
    for shift, by in zip((30, 27), MIXERS, strict=True):
        bits = (bits ^ (bits >> np.uint64(shift))) * by
    return bits ^ (bits >> np.uint64(31))
