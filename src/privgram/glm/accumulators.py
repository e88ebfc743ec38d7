"""Scores of rows on their way into sums of integers: clipped, by their lengths, and by levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privgram._core import rowmap
from privgram._core.rows import Accumulator
from privgram._core.scale import DefaultRounding
from privgram.columns.terms import ONES
from privgram.moment.rows import Onward, Sums, images_of, squares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns
    from privgram.columns.encoding import Raw
    from privgram.regression.families import Bounded, Expected

    Levels = NDArray[np.int32] | NDArray[np.intp]

# A row comes as an image (z, e, ...): q features in a frame, and what the target differs by from
# what is expected of it. Its score is s = e z. All that follows of a row is a function of its image
# alone, each number by one operation after the other, so that it does not depend on where the row
# stands.

#: No vector of integers that a row adds is longer: sums of 2^38 rows fit 64 bits.
UNITS = 1 << 24

#: What a row counts is a whole number of parts: sums are exact.
PARTS = 32

#: Products of a unit's rows are summed as integers, up to this: the sum does not depend on order.
STEPS = 2.0**40


def sums_of_units(values: Matrix, largest: float, starts: NDArray[np.intp]) -> Matrix:
    """Sums over units of values up to a largest one, exact but for rounding each to a grid."""
    if not largest:  # nor has any value
        return np.zeros((len(starts), values.shape[1]))
    steps = np.rint(values * (STEPS / largest)).astype(np.int64)
    sums: Matrix = np.add.reduceat(steps, starts, axis=0) * (largest / STEPS)
    return sums


def whole(vectors: Matrix, factor: Vector) -> Matrix:
    """Rows times their factors as whole numbers, in rows of length `UNITS` at most.

    With factors by which rows are `scale` long at most; rounding makes none longer than `UNITS`.
    Sums of a block are exact in float64: of up to 2^29 rows of whole numbers up to 2^24.
    """
    found = vectors * factor[:, None]
    np.rint(found, out=found)
    fits = squares(found) <= float(UNITS) ** 2  # exact up to 2^53, and beyond it not below
    # Whatever arithmetic did: a row that is too long, which none is, would count nothing.
    if not fits.all():
        found[~fits] = 0.0
    return found


def add_at(totals: NDArray[np.int64], at: Levels, rows: Matrix) -> None:
    """Add rows of whole numbers to those of totals that each belongs to."""
    for total, column in zip(totals.T, rows.T, strict=True):
        total += np.bincount(at, column, len(totals)).astype(np.int64)


def scale(q: int) -> float:
    """Length to which a vector of q entries and length 1 is scaled: rounding adds q^(1/2) / 2."""
    return float(UNITS - np.ceil(np.sqrt(q) / 2) - 1)


class Scores(Sums):
    """What adds up scores of rows, of q entries, by their lengths."""

    parts: ClassVar[tuple[str, ...]] = ("n_rows", "n_dropped", "total")

    def __init__(self, q: int, shape: tuple[int, ...]) -> None:
        self.q = q
        self.n_rows = 0
        self.n_dropped = 0
        self.total = np.zeros(shape, np.int64)

    def update(self, block: Matrix, drop: bool = False) -> int:
        return self.feed(self.scores(block), drop)

    def scores(self, images: Matrix) -> Matrix:
        """Those of images (z, e, ...)."""
        return np.ascontiguousarray(images[:, : self.q] * images[:, self.q, None])

    def feed(self, scores: Matrix, drop: bool = False, lengths: Vector | None = None) -> int:
        """Accumulate scores as they are: of rows, or of units; as if they had other lengths.

        None may be longer than the length that is given.
        """
        square = squares(scores)
        sizes = np.sqrt(square) if lengths is None else lengths
        bad = np.flatnonzero(~np.isfinite(square + sizes))
        if len(bad):
            if not drop:
                return int(bad[0])
            scores, sizes = np.delete(scores, bad, axis=0), np.delete(sizes, bad)
        self.n_rows += len(scores)
        self.n_dropped += len(bad)
        self.add(scores, sizes)
        return -1

    def add(self, scores: Matrix, lengths: Vector) -> None:
        """Accumulate scores, all finite, of these lengths."""
        raise NotImplementedError


class ScoreSum(Scores):
    """The sum of s min(1, clip / |s|) / clip over rows: `total` (q,), int64.

    In units of 1 / scale(q). No row adds a vector longer than `UNITS`.
    """

    def __init__(self, q: int, clip: float) -> None:
        super().__init__(q, (q,))
        self.clip = clip

    def add(self, scores: Matrix, lengths: Vector) -> None:
        found = whole(scores, scale(self.q) / np.maximum(lengths, self.clip))
        self.total += found.sum(axis=0).astype(np.int64)


class NormHistogram(Scores):
    """How many scores are of each norm: `counts` (m,), int64, in units of 1 / `PARTS`.

    Bin i of m ends at edges[i], which it includes; the last takes all that is longer. A row whose
    score is bounded by a public size counts what part of this size its score has.
    """

    parts = ("n_rows", "n_dropped", "counts")

    def __init__(self, q: int, edges: Vector) -> None:
        super().__init__(q, (0,))
        self.counts = np.zeros(len(edges), np.int64)
        self._edges = edges[:-1]

    def add(self, scores: Matrix, lengths: Vector) -> None:
        bins = np.searchsorted(self._edges, lengths)
        part = np.sqrt(squares(scores)) / np.where(lengths > 0, lengths, 1.0)
        # No row counts more than one.
        part = np.minimum(np.rint(PARTS * part), PARTS)
        add_at(self.counts[:, None], bins, part[:, None])


class ScoreBoth(ScoreSum):
    """The sum of clipped scores and their second moment, in one pass."""

    parts = (*ScoreSum.parts, "second")

    def __init__(self, q: int, clip: float) -> None:
        super().__init__(q, clip)
        self.second = Accumulator(q, clip)

    def feed(self, scores: Matrix, drop: bool = False, lengths: Vector | None = None) -> int:
        bad = super().feed(scores, drop, lengths)
        if bad >= 0:
            return bad
        if lengths is not None:
            scores = scores * (self.clip / np.maximum(lengths, self.clip))[:, None]
        return self.second.update(scores, drop)


class Modelled(Onward):
    """Feed what adds up scores those of images (z, target, ...), by what a model expects of them.

    A row's score is by public numbers, those of `expected`.
    """

    inner: ScoreSum | NormHistogram

    def __init__(self, inner: ScoreSum | NormHistogram, expected: Expected | Bounded) -> None:
        self.inner = inner
        self.expected = expected
        self.q = inner.q
        self.feed = inner.feed

    def update(self, block: Matrix, drop: bool = False) -> int:
        z, error, _, most = self.expected(block)
        scores = np.ascontiguousarray(z * error[:, None])
        lengths = None if most is None else most * np.sqrt(squares(np.ascontiguousarray(z)))
        return self.inner.feed(scores, drop, lengths)

    def scores(self, images: Matrix) -> Matrix:
        """Those of images."""
        z, error, *_ = self.expected(images)
        return np.ascontiguousarray(z * error[:, None])


class UnitSecond(Sums):
    """Feed whole units to `inner`: the images of their rows, each clipped to a bound."""

    parts = ("n_rows", "inner")

    def __init__(self, frame: Matrix, bound: float, inner: Any) -> None:
        self.n_columns = len(frame)
        self.inner = inner
        self._bound = bound
        self._frame = rowmap.transposed(frame)
        self.n_rows = 0

    def update(self, x: Matrix, starts: NDArray[np.intp], drop: bool = False) -> int:
        missing: NDArray[np.bool_] = np.asarray(np.isnan(x).any(axis=1))
        if missing.any():
            if not drop:
                return int(missing.argmax())
            x = np.where(missing[:, None], 0.0, x)
        images = images_of(*x.shape)
        rowmap.apply(x, self._bound, self._frame, images)
        self.add(images, starts)
        self.n_rows += len(starts)
        return -1

    def add(self, images: Matrix, starts: NDArray[np.intp]) -> None:
        """Accumulate what the images of units' rows make: here their second moments."""
        self.inner.update(images, starts)


class UnitScored(UnitSecond):
    """Feed what adds up scores sum e z, one for every unit: clipped or counted as one.

    The frame (d, d) maps rows to q features z, then e or the target.
    """

    def __init__(self, frame: Matrix, bound: float, inner: Scores | Modelled) -> None:
        super().__init__(frame, bound, inner)
        q = inner.q
        size = float(np.linalg.norm(frame[:q], 2)) * bound
        if isinstance(inner, Modelled):
            self._largest = size * inner.expected.most
        else:
            self._largest = size * float(np.linalg.norm(frame[q])) * bound

    def add(self, images: Matrix, starts: NDArray[np.intp]) -> None:
        self.inner.feed(sums_of_units(self.inner.scores(images), self._largest, starts))


class Curved(Onward):
    """The curvature of a likelihood: the second moment of z times the roots of weights.

    Or, where `inner` is a `NormHistogram`, how long these are.
    """

    def __init__(self, inner: Any, expected: Expected | Bounded) -> None:
        self.inner = inner
        self.expected = expected
        self._take = inner.feed if isinstance(inner, Scores) else inner.update

    def update(self, block: Matrix, *given: Any) -> int:
        z, error, root, _ = self.expected(block)
        # A row without a target has no curvature.
        rows = np.ascontiguousarray(z * (root + (error - error))[:, None])
        return int(self._take(rows, *given))


class Leading(Onward):
    """The second moment of the leading columns of images, of rows or of units."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def update(self, block: Matrix, *given: Any) -> int:
        leading = np.ascontiguousarray(block[:, : self.inner.n_columns])
        return int(self.inner.update(leading, *given))


# Rows on their way into sums by the levels of one wide factor, of which no columns are made.
#
# A row is an image v of its narrow columns less what is known of its level, and the level's number.
# All that follows is a function of these alone.

#: Rows that are mapped at a time.
STEP = 1 << 13


class Taker(Sums):
    """What rows v are fed to, with their entries of the column of ones and their levels."""

    def take(self, v: Matrix, one: Vector, levels: Levels) -> None:
        """Add rows."""
        raise NotImplementedError


class ByLevel(Sums):
    """Feed rows v = A c u - shift[level] u_1, c = min(1, bound / |u|), with their levels.

    u_1 is the row's entry of the column of ones: 1, or the root of its weight. Read of the table
    are columns with the factor; those of u are narrow, without it. `frame` is A, of shape (m, d),
    and `shift` of shape (K, m), or None.
    """

    parts = ("n_rows", "n_dropped", "inner")

    def __init__(
        self,
        read: Columns,
        narrow: Columns,
        factor: str,
        frame: Matrix,
        shift: Matrix | None,
        inner: Taker,
    ) -> None:
        self.inner = inner
        self._places = [read.selected.index(name) for name in narrow.selected]
        self._factor = read.encoder, factor
        self._narrow = narrow.encoder
        self._bound = narrow.bound
        square = np.zeros((len(narrow),) * 2)
        square[: len(frame)] = frame
        self._frame = rowmap.transposed(square)
        self._m = len(frame)
        # One of them is not 0.
        self._ones = [at for at, x in enumerate(narrow.layout.image(ONES)[0]) if x]  # type: ignore[index]
        self._shift = shift
        self.n_rows = 0
        self.n_dropped = 0

    def take_parts(self, parts: list[Raw], drop: bool) -> int:
        """Accumulate the rows of raw columns; as an accumulator's `update`."""
        for start in range(0, len(parts[0]), STEP):
            part = slice(start, start + STEP)
            some = [x[part] for x in parts]
            bad = self._take(some, drop)
            if bad >= 0:
                return start + bad
        return -1

    def _take(self, parts: list[Raw], drop: bool) -> int:
        encoder, factor = self._factor
        with DefaultRounding():
            levels = encoder.codes((factor,), parts).plain()
            u = self._narrow.table([parts[i] for i in self._places])
        missing = np.isnan(u).any(axis=1) | (levels < 0)
        if missing.any():
            if not drop:
                return int(missing.argmax())
            u, levels = u[~missing], levels[~missing]
        images = images_of(*u.shape)
        rowmap.apply(u, self._bound, self._frame, images)
        v, one = images[:, : self._m], u[:, self._ones].sum(axis=1)
        if self._shift is not None:
            v = v - self._shift[levels] * one[:, None]
        self.inner.take(np.ascontiguousarray(v), one, levels)
        self.n_rows += len(u)
        self.n_dropped += int(missing.sum())
        return -1


class LevelSums(Taker):
    """Sums of v min(1, radius / |v|) / radius over the rows of each level: `total` (K, m), int64.

    In units of 1 / scale(m). A row adds a vector no longer than `UNITS` to one level.
    """

    parts = ("total",)

    def __init__(self, levels: int, m: int, radius: float) -> None:
        self.radius = radius
        self.total = np.zeros((levels, m), np.int64)

    def take(self, v: Matrix, one: Vector, levels: Levels) -> None:
        found = whole(v, scale(v.shape[1]) / np.maximum(np.sqrt(squares(v)), self.radius))
        add_at(self.total, levels, found)


class Within(Taker):
    """The second moment of v, clipped to a radius."""

    parts = ("second",)

    def __init__(self, m: int, radius: float) -> None:
        self.second = Accumulator(m, radius)

    def take(self, v: Matrix, one: Vector, levels: Levels) -> None:
        self.second.update(v)


class LevelFirst(Taker):
    """How many rows are of each level, by their weights, and the second moment of all."""

    parts = ("counts", "within")

    def __init__(self, levels: int, m: int, radius: float) -> None:
        self.counts = LevelSums(levels, 1, 1.0)
        self.within = Within(m, radius)

    def take(self, v: Matrix, one: Vector, levels: Levels) -> None:
        self.counts.take(one[:, None] ** 2, one, levels)
        self.within.take(v, one, levels)


class LevelNorms(Taker):
    """Scores of rows (z, e) by length: those of slopes, and residuals as if levels were one."""

    parts = ("slopes", "levels")

    def __init__(self, q: int, slopes: Vector, levels: Vector) -> None:
        self.slopes = NormHistogram(q, slopes)
        self.levels = NormHistogram(1, levels)

    def take(self, v: Matrix, one: Vector, levels: Levels) -> None:
        self.slopes.feed(v[:, :-1] * v[:, -1:])
        self.levels.feed((v[:, -1] * one)[:, None])


class LevelScores(Taker):
    """Clipped scores of rows (z, e) and their squares: of slopes, and residuals by level."""

    parts = ("slopes", "levels", "squares")

    def __init__(self, levels: int, q: int, slope: float, level: float) -> None:
        self.slopes = ScoreBoth(q, slope)
        self.levels = LevelSums(levels, 1, level)
        self.squares = LevelSums(levels, 1, level**2)

    def take(self, v: Matrix, one: Vector, levels: Levels) -> None:
        self.slopes.feed(v[:, :-1] * v[:, -1:])
        residual = (v[:, -1] * one)[:, None]
        self.levels.take(residual, one, levels)
        self.squares.take(residual**2, one, levels)
