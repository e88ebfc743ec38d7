"""Rows by the levels of one wide factor, of which no columns are made, on their way into sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privgram._core import scores
from privgram._core.rowmap import DefaultRounding
from privgram._core.rows import RowAccumulator
from privgram.columns.terms import ONES
from privgram.moment.accumulators import BlockAccumulator, BlockReader, RowMap, raw_columns
from privgram.secret.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns
    from privgram.secret.kinds import Kind, Model
    from privgram.sources.table import RawBlock


@dataclass(frozen=True, eq=False)
class LevelImage:
    """What a row u is mapped to: v = A (c u) - centres[level] u_1, c = min(1, bound / |u|).

    u_1 is the row's entry of the column of ones: 1, or the root of its weight. Read of the table
    are columns with the `factor`; those of u are the `others`. `matrix` is A, of shape (m, d), and
    there may be `centres` (K, m).
    """

    read: Columns
    others: Columns
    factor: str
    matrix: Matrix
    centres: Matrix | None = None


class LevelSweep(BlockAccumulator):
    """Feeds images of rows, and their levels, to the integers of sums."""

    sums: ClassVar[tuple[str, ...]] = ("n_rows", "n_dropped")
    parts: ClassVar[tuple[str, ...]] = ("inner",)
    names_rows: ClassVar[bool] = False  # of those that may not be used, as long as nothing is spent
    inner: Any

    def __init__(self, image: LevelImage, kinds: Sequence[Kind]) -> None:
        others = image.others
        self.inner = Sweep(kinds)
        self.n_columns = len(others)
        self._image = image
        self._places = [image.read.selected.index(name) for name in others.selected]
        self._feeder = BlockReader(None, others)
        self._map = RowMap(image.matrix, others.bound)
        # One of them is not 0.
        self._ones = [at for at, x in enumerate(others.layout.image(ONES)[0]) if x]  # type: ignore[index]
        stored = [part for part in others.layout.stored if part.start <= self._ones[0]]
        self._one = stored[-1].weight
        self._centres = None if image.centres is None else np.ascontiguousarray(image.centres)
        self.n_rows = 0
        self.n_dropped = 0

    def add_block(self, reader: BlockReader, block: RawBlock) -> int:
        """Accumulate the rows of a block, of columns as they come."""
        encoder, factor = self._image.read.encoder, self._image.factor
        parts = raw_columns(block)
        with DefaultRounding():
            levels = encoder.codes((factor,), parts).plain()
            rows = self._feeder.prepared([parts[i] for i in self._places])
        ones = np.full(len(levels), self._one)
        if rows.scaling is None:
            ones = np.ascontiguousarray(rows.dense[:, self._ones].sum(axis=1))
        for some, v in self._map.arrays(rows):
            bad = self._take(v, ones[some], levels[some], reader.drop or not self.names_rows)
            if bad >= 0:
                return int(some.start) + bad
        return -1

    def _take(self, v: Matrix, one: Vector, levels: NDArray[np.int32], drop: bool) -> int:
        missing = np.isnan(v[:, 0]) | (levels < 0)
        n_missing = int(np.count_nonzero(missing))
        if n_missing:
            if not drop:
                return int(missing.argmax())
            v, one, levels = np.asfortranarray(v[~missing]), one[~missing], levels[~missing]
        if self._centres is not None:
            scores.center(v, levels, self._centres, one)
        self._feed(v, one, levels)
        self.n_rows += len(v)
        self.n_dropped += n_missing
        return -1

    def _feed(self, v: Matrix, one: Vector, levels: NDArray[np.int32]) -> None:
        for model, places, room in self.inner.groups:
            images = v if model.of_level is None else self._of_level(model, v, one)
            self.inner.add(images, model.score, places, room, groups=levels)

    def _of_level(self, model: Model, v: Matrix, one: Vector) -> Matrix:
        """The number of a row that is its level's."""
        if model.of_level == "weight":
            return (one**2)[:, None]
        with np.errstate(all="ignore"):  # what is not finite adds nothing
            residual = v[:, -1] * one
            return (residual if model.of_level == "residual" else residual**2)[:, None]


class FirstByLevel(LevelSweep):
    """The second moment of rows whose level is known, in the pass before anything is spent."""

    names_rows = True

    def __init__(self, image: LevelImage, bound: float) -> None:
        super().__init__(image, ())
        self.inner = RowAccumulator(len(image.matrix), bound)

    def _feed(self, v: Matrix, one: Vector, levels: NDArray[np.int32]) -> None:
        self.inner.update(v)


def new_levels(image: LevelImage, kinds: Sequence[Kind], _: int = 0) -> LevelSweep:
    """Make what adds up rows by level."""
    return LevelSweep(image, kinds)


def new_first(image: LevelImage, bound: float, _: int = 0) -> FirstByLevel:
    """Make what adds up the second moment of rows whose level is known."""
    return FirstByLevel(image, bound)
