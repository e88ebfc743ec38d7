"""Scores of rows on their way into sums of integers: clipped, by their lengths, and by levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from privgram._core import scores
from privgram._core.rows import RowAccumulator
from privgram._core.scale import DefaultRounding
from privgram._core.scores import Score
from privgram.columns.terms import ONES
from privgram.moment.accumulators import (
    Accumulator,
    BlockAccumulator,
    BlockReader,
    Prepared,
    RowBuffer,
    RowMap,
    TransformAccumulator,
    raw_columns,
)
from privgram.regression.families import Bounded, Expected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns
    from privgram.sources.table import RawBlock


# A row comes as an image (z, y, ...) by columns: q features in a frame, and its target or what that
# differs by from what is expected of it. Its score is z times a multiplier. All that follows of a
# row is a function of its image alone (`privgram._core.scores`), so that it does not depend on
# where the row stands.


class Scores(Accumulator):
    """What adds up scores of rows, of q entries; y is the residual."""

    sums: ClassVar[tuple[str, ...]] = ("n_rows", "n_dropped", "total")
    takes_images = True

    def __init__(self, q: int, shape: tuple[int, ...]) -> None:
        self.q = q
        self.score = Score("residual", q)
        self.n_rows = 0
        self.n_dropped = 0
        self.total = np.zeros(shape, np.int64)

    def update(self, images: Matrix, drop: bool = False) -> int:
        """Accumulate the scores of images; the first row that may not be used, or -1."""
        return self.take(images, self.score, drop)

    def feed(self, vectors: Matrix, drop: bool = False) -> int:
        """Accumulate scores as they are."""
        return self.take(vectors, Score("none", self.q), drop)

    def take(self, images: Matrix, score: Score, drop: bool = False) -> int:
        """Accumulate what a score makes of images."""
        bad, n_dropped = self.sweep(images, score, drop)
        self.n_rows += len(images) - n_dropped
        self.n_dropped += n_dropped
        return bad

    def sweep(self, images: Matrix, score: Score, drop: bool) -> tuple[int, int]:
        """Add up scores; the first row that may not be used, and how many were left out."""
        raise NotImplementedError


class ScoreSum(Scores):
    """The sum of s min(1, clip / |s|) / clip over rows: `total` (q,), int64.

    In units of 1 / scale(q). No row adds a vector longer than `UNITS`.
    """

    def __init__(self, q: int, clip: float) -> None:
        super().__init__(q, (q,))
        self.clip = clip

    def sweep(self, images: Matrix, score: Score, drop: bool) -> tuple[int, int]:
        return scores.clipped_sum(images, score, self.clip, self.total, drop)


class NormHistogram(Scores):
    """How many scores are of each norm: `counts` (m,), int64, in units of 1 / `PARTS`.

    Bin i of m ends at edges[i], which it includes; the last takes all that is longer. A row whose
    score is bounded by a public size counts what part of this size its score has.
    """

    sums = ("n_rows", "n_dropped", "counts")

    def __init__(self, q: int, edges: Vector) -> None:
        super().__init__(q, (0,))
        self.counts = np.zeros(len(edges), np.int64)
        self._edges = np.ascontiguousarray(edges, np.float64)

    def sweep(self, images: Matrix, score: Score, drop: bool) -> tuple[int, int]:
        return scores.norm_counts(images, score, self._edges, self.counts, drop)


class ScoreBoth(ScoreSum):
    """The sum of clipped scores and their second moment, in one pass."""

    parts = ("second",)
    takes_images = False

    def __init__(self, q: int, clip: float) -> None:
        super().__init__(q, clip)
        self.second = RowAccumulator(q, clip)
        self._room = RowBuffer(q)

    def sweep(self, images: Matrix, score: Score, drop: bool) -> tuple[int, int]:
        rows = self._room(len(images))
        bad = scores.clipped_sum(images, score, self.clip, self.total, drop, rows)
        if bad[0] < 0:
            self.second.update(rows, drop)
        return bad


class ScoreAccumulator(TransformAccumulator):
    """Feed what adds up scores those of images (z, target, ...), by what a model expects of them.

    A row's score is by public numbers, those of `expected`.
    """

    inner: ScoreSum | NormHistogram

    def __init__(self, inner: ScoreSum | NormHistogram, expected: Expected | Bounded) -> None:
        self.inner = inner
        self.expected = expected
        self.q = inner.q
        self.score = expected.score()
        self.feed = inner.feed
        self.takes_images = inner.takes_images

    def update(self, images: Matrix, drop: bool = False) -> int:
        return self.inner.take(images, self.score, drop)


class UnitMomentAccumulator(Accumulator):
    """Feed whole units to `inner`: the images of their rows, each clipped to a bound.

    The transform (m, d) maps rows to q features z, then e or the target.
    """

    sums = ("n_rows",)
    parts = ("inner",)

    def __init__(self, transform: Matrix, bound: float, inner: Any) -> None:
        self.n_columns = transform.shape[1]
        self.inner = inner
        self._map = RowMap(transform, bound)
        #: The longest z that a row can have.
        self._longest = float(np.linalg.norm(transform[: inner.q], 2)) * bound
        self.n_rows = 0

    def update(self, x: Matrix, starts: NDArray[np.intp], drop: bool = False) -> int:
        missing: NDArray[np.bool_] = np.asarray(np.isnan(x).any(axis=1))
        if missing.any():
            if not drop:
                return int(missing.argmax())
            x = np.where(missing[:, None], 0.0, x)
        self.add(self._map.array(Prepared(x)), starts)
        self.n_rows += len(starts)
        return -1

    def add(self, images: Matrix, starts: NDArray[np.intp]) -> None:
        """Accumulate what the images of units' rows make: here of their second moments."""
        self.inner.update_units(images, starts, self._longest)


class UnitScoreAccumulator(UnitMomentAccumulator):
    """Feed what adds up scores the sum of each unit's scores: clipped or counted as one."""

    def __init__(self, transform: Matrix, bound: float, inner: Scores | ScoreAccumulator) -> None:
        super().__init__(transform, bound, inner)
        if isinstance(inner, ScoreAccumulator):
            self._largest = self._longest * inner.expected.most
        else:
            self._largest = self._longest * float(np.linalg.norm(transform[inner.q])) * bound

    def add(self, images: Matrix, starts: NDArray[np.intp]) -> None:
        self.inner.feed(scores.of_units(images, self.inner.score, starts, self._largest))


class HessianAccumulator(TransformAccumulator):
    """A Hessian: the second moment of z, times the roots of a model's weights where there is one.

    Or, where `inner` is a `NormHistogram`, how long these are: of a unit the root of its sum of
    squares.
    """

    def __init__(self, inner: Any, expected: Expected | Bounded | None = None) -> None:
        self.inner = inner
        self._adds_scores = isinstance(inner, Scores)
        self._steepest = expected.steepest if isinstance(expected, Expected) else 1.0
        self._plain = expected is None
        self.q = inner.q if self._adds_scores else inner.n_columns
        self.score = Score("none", self.q) if expected is None else expected.score(curved=True)
        self._room = RowBuffer(self.q)
        self.takes_images = self._adds_scores and inner.takes_images

    def update(self, images: Matrix, drop: bool = False) -> int:
        if self._adds_scores:
            return int(self.inner.take(images, self.score, drop))
        return int(self.inner.update(self._rows(images), drop))

    def update_units(self, images: Matrix, starts: NDArray[np.intp], longest: float) -> None:
        """Accumulate whole units, of whose rows no z is longer than a number."""
        rows = self._rows(images)
        if self._adds_scores:
            largest = (longest * self._steepest) ** 2
            squares = np.asfortranarray(rows**2)
            squares = scores.of_units(squares, Score("none", self.q), starts, largest)
            self.inner.feed(np.sqrt(squares))
        else:
            self.inner.update(np.ascontiguousarray(rows), starts)

    def _rows(self, images: Matrix) -> Matrix:
        """The vectors that a Hessian is the second moment of."""
        if self._plain:
            return images[:, : self.q]
        rows = self._room(len(images))
        scores.write(images, self.score, rows, True)
        return rows


# Rows on their way into sums by the levels of one wide factor, of which no columns are made.
#
# A row is an image v of its other columns less what is known of its level, and the level's number.
# All that follows is a function of these alone.

#: Rows that are mapped at a time.
STEP = 1 << 13


class LevelAccumulator(Accumulator):
    """What rows v are fed to, with their entries of the column of ones and their levels."""

    def take(self, v: Matrix, one: Vector, levels: NDArray[np.int32]) -> None:
        """Add rows, by columns."""
        raise NotImplementedError


#: What adds up rows by level.
ByLevel = TypeVar("ByLevel", bound=LevelAccumulator)


class HighCardinalityAccumulator(BlockAccumulator, Generic[ByLevel]):
    """Feed rows v = A c u - shift[level] u_1, c = min(1, bound / |u|), with their levels.

    u_1 is the row's entry of the column of ones: 1, or the root of its weight. Read of the table
    are columns with the factor; those of u are the `others`. `transform` is A, of shape (m, d),
    and `shift` of shape (K, m), or None.
    """

    sums = ("n_rows", "n_dropped")
    parts = ("inner",)

    def __init__(
        self,
        read: Columns,
        others: Columns,
        factor: str,
        transform: Matrix,
        shift: Matrix | None,
        inner: ByLevel,
    ) -> None:
        self.inner = inner
        self.n_columns = len(others)
        self._places = [read.selected.index(name) for name in others.selected]
        self._factor = read.encoder, factor
        self._feeder = BlockReader(None, others)
        self._map = RowMap(transform, others.bound)
        # One of them is not 0.
        self._ones = [at for at, x in enumerate(others.layout.image(ONES)[0]) if x]  # type: ignore[index]
        stored = [part for part in others.layout.stored if part.start <= self._ones[0]]
        self._one = stored[-1].weight
        self._shift = None if shift is None else np.ascontiguousarray(shift)
        self.n_rows = 0
        self.n_dropped = 0

    def add_block(self, reader: BlockReader, block: RawBlock) -> int:
        """Accumulate the rows of a block, of columns as they come."""
        encoder, factor = self._factor
        parts = raw_columns(block)
        with DefaultRounding():
            levels = encoder.codes((factor,), parts).plain()
            rows = self._feeder.prepared([parts[i] for i in self._places])
        ones = np.full(len(levels), self._one)
        if rows.scaling is None:
            ones = np.ascontiguousarray(rows.dense[:, self._ones].sum(axis=1))
        for some, v in self._map.arrays(rows):
            bad = self._take(v, ones[some], levels[some], reader.drop)
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
        if self._shift is not None:
            scores.center(v, levels, self._shift, one)
        self.inner.take(v, one, levels)
        self.n_rows += len(v)
        self.n_dropped += n_missing
        return -1


class LevelSums(LevelAccumulator):
    """Sums of v min(1, radius / |v|) / radius over the rows of each level: `total` (K, m), int64.

    In units of 1 / scale(m). A row adds a vector no longer than `UNITS` to one level.
    """

    sums = ("total",)

    def __init__(self, levels: int, m: int, radius: float) -> None:
        self.radius = radius
        self.total = np.zeros((levels, m), np.int64)
        self._score = Score("none", m)

    def take(self, v: Matrix, one: Vector, levels: NDArray[np.int32]) -> None:
        scores.clipped_sum(v, self._score, self.radius, self.total, True, groups=levels)


class WithinLevels(LevelAccumulator):
    """The second moment of v, clipped to a radius, of rows of levels that are `counted` (K,)."""

    parts = ("second",)

    def __init__(self, m: int, radius: float, counted: NDArray[np.bool_] | None = None) -> None:
        self.second = RowAccumulator(m, radius)
        self._counted = counted

    def take(self, v: Matrix, one: Vector, levels: NDArray[np.int32]) -> None:
        _leave_out(v, levels, self._counted)
        self.second.update(v)


def _leave_out(v: Matrix, levels: NDArray[np.int32], counted: NDArray[np.bool_] | None) -> None:
    """Put zeros in place of rows of levels that are not counted."""
    if counted is not None and not counted.all():
        v[~counted[levels]] = 0.0


class LevelFirst(LevelAccumulator):
    """How many rows are of each level, by their weights, and the second moment of all."""

    parts = ("counts", "within")

    def __init__(self, levels: int, m: int, radius: float) -> None:
        self.counts = LevelSums(levels, 1, 1.0)
        self.within = WithinLevels(m, radius)

    def take(self, v: Matrix, one: Vector, levels: NDArray[np.int32]) -> None:
        self.counts.take(one[:, None] ** 2, one, levels)
        self.within.take(v, one, levels)


class LevelNorms(LevelAccumulator):
    """Scores of rows (z, e) by length: of slopes, in levels that are `counted`, and residuals."""

    parts = ("slopes", "levels")

    def __init__(
        self, q: int, slopes: Vector, levels: Vector, counted: NDArray[np.bool_] | None = None
    ) -> None:
        self.q = q
        self._counted = counted
        self.slopes = NormHistogram(max(q, 1), slopes)
        self.levels = NormHistogram(1, levels)

    def take(self, v: Matrix, one: Vector, levels: NDArray[np.int32]) -> None:
        self.levels.feed((v[:, -1] * one)[:, None])
        if self.q:
            _leave_out(v, levels, self._counted)
            self.slopes.update(v)


class LevelScores(LevelAccumulator):
    """Clipped scores of rows (z, e) and their squares: of slopes, and residuals by level.

    Those of slopes are of rows of levels that are `counted` (K,).
    """

    parts = ("slopes", "levels", "squares")

    def __init__(
        self,
        levels: int,
        q: int,
        slope: float,
        level: float,
        counted: NDArray[np.bool_] | None = None,
    ) -> None:
        self.q = q
        self._counted = counted
        self.slopes = ScoreBoth(max(q, 1), slope)
        self.levels = LevelSums(levels, 1, level)
        self.squares = LevelSums(levels, 1, level**2)

    def take(self, v: Matrix, one: Vector, levels: NDArray[np.int32]) -> None:
        residual = (v[:, -1] * one)[:, None]
        self.levels.take(residual, one, levels)
        self.squares.take(residual**2, one, levels)
        if self.q:
            _leave_out(v, levels, self._counted)
            self.slopes.update(v)
