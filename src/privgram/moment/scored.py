"""Scores of rows on their way into sums of integers: clipped, by their lengths, and by levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from privgram._core import rowmap
from privgram._core.norms import squared_norms
from privgram._core.rows import Accumulator
from privgram._core.scale import DefaultRounding
from privgram.columns.encoding import Codes
from privgram.columns.terms import ONES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns
    from privgram.columns.encoding import Raw
    from privgram.regression.families import Bounded, Expected

    Levels = NDArray[np.int32]

__all__ = [
    "STEP",
    "UNITS",
    "ByLevel",
    "Curved",
    "LevelFirst",
    "LevelScores",
    "LevelShells",
    "LevelSums",
    "Modelled",
    "ScoreBoth",
    "ScoreSecond",
    "ScoreShells",
    "ScoreSum",
    "UnitScored",
    "UnitSecond",
    "Within",
    "sums_of_units",
]

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
    square = np.empty(len(found))
    squared_norms(found, square)  # exact up to 2^53, and beyond it not below
    # Whatever arithmetic did: a row that is too long, which none is, would count nothing.
    if not (square <= float(UNITS) ** 2).all():
        found[~(square <= float(UNITS) ** 2)] = 0.0
    return found


def scale(q: int) -> float:
    """Integers to which a vector of length 1 is scaled: rounding makes it q^(1/2) / 2 longer."""
    return float(UNITS - np.ceil(np.sqrt(q) / 2) - 1)


class _Fed:
    """What takes scores, of images (z, e, ...) or as they are."""

    q: int

    def update(self, block: Matrix, drop: bool = False) -> int:
        """Accumulate the rows of a block; see `privgram._core.rows.Accumulator.update`."""
        return self.feed(self.scores(block), drop)

    def scores(self, images: Matrix) -> Matrix:
        """Those of images."""
        return np.ascontiguousarray(images[:, : self.q] * images[:, self.q, None])

    def feed(self, scores: Matrix, drop: bool = False, lengths: Vector | None = None) -> int:
        """Accumulate scores as they are: of rows, or of units; as if they had other lengths."""
        raise NotImplementedError


class _Scores(_Fed):
    """Scores of the rows of a block, and their lengths."""

    def __init__(self, q: int) -> None:
        self.q = q
        self.n_rows = 0
        self.n_dropped = 0

    def feed(self, scores: Matrix, drop: bool = False, lengths: Vector | None = None) -> int:
        """Accumulate scores as they are: of rows, or of units; as if they had other lengths.

        None may be longer than the length that is given.
        """
        square = np.empty(len(scores))
        squared_norms(scores, square)
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
        """Accumulate scores of these lengths."""
        raise NotImplementedError

    def merge(self, other: _Scores) -> None:
        """Add the rows of another."""
        self.n_rows += other.n_rows
        self.n_dropped += other.n_dropped


class ScoreSum(_Scores):
    """The sum of s min(1, clip / |s|) / clip over rows.

    Parameters
    ----------
    q : int
    clip : float

    Attributes
    ----------
    total : ndarray of shape (q,), int64
        In units of 1 / scale(q). No row adds a vector longer than `UNITS`.
    """

    def __init__(self, q: int, clip: float) -> None:
        super().__init__(q)
        self.clip = clip
        self.total = np.zeros(q, np.int64)

    def add(self, scores: Matrix, lengths: Vector) -> None:
        """Accumulate scores of these lengths."""
        found = whole(scores, scale(self.q) / np.maximum(lengths, self.clip))
        self.total += found.sum(axis=0).astype(np.int64)

    def merge(self, other: _Scores) -> None:
        """Add the rows of another."""
        assert isinstance(other, ScoreSum)
        super().merge(other)
        self.total += other.total


class ScoreShells(_Scores):
    """How many scores are of each length, and the sums of the unit vectors along them.

    Parameters
    ----------
    q : int
    grid : ndarray of shape (m,), float64
        Increasing. Shell i ends at grid[i], which it includes; the last takes all that is longer.

    Attributes
    ----------
    counts : ndarray of shape (m,), int64
        In units of 1 / `PARTS`: a row counts what part of its length its score has.
    total : ndarray of shape (m, q), int64
        Of s / |s|, in units of 1 / scale(q).
    """

    def __init__(self, q: int, grid: Vector) -> None:
        super().__init__(q)
        self.counts = np.zeros(len(grid), np.int64)
        self.total = np.zeros((len(grid), q), np.int64)
        self._edges = grid[:-1]

    def add(self, scores: Matrix, lengths: Vector) -> None:
        """Accumulate scores of these lengths."""
        at = np.searchsorted(self._edges, lengths)
        units = whole(scores, scale(self.q) / np.where(lengths > 0, lengths, 1.0))
        square = np.empty(len(units))
        squared_norms(units, square)
        # One for a score that is as long as its length, and no row more.
        part = np.minimum(np.rint(PARTS * np.sqrt(square) / UNITS), PARTS)
        self.counts += np.bincount(at, part, len(self.counts)).astype(np.int64)
        size = len(self.counts)
        for total, column in zip(self.total.T, units.T, strict=True):
            total += np.bincount(at, column, size).astype(np.int64)

    def merge(self, other: _Scores) -> None:
        """Add the rows of another."""
        assert isinstance(other, ScoreShells)
        super().merge(other)
        self.counts += other.counts
        self.total += other.total


class ScoreSecond(_Fed):
    """The second moment of clipped scores; as `ScoreSum`, with an accumulator `inner`."""

    def __init__(self, q: int, clip: float) -> None:
        self.inner = Accumulator(q, clip)
        self.q, self._clip = q, clip

    def feed(self, scores: Matrix, drop: bool = False, lengths: Vector | None = None) -> int:
        """Accumulate scores as they are: of rows, or of units; as if they had other lengths."""
        if lengths is not None:
            scores = scores * (self._clip / np.maximum(lengths, self._clip))[:, None]
        return self.inner.update(scores, drop)

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return self.inner.n_rows

    @property
    def n_dropped(self) -> int:
        """Rows left out."""
        return self.inner.n_dropped

    def merge(self, other: ScoreSecond) -> None:
        """Add the rows of another."""
        self.inner.merge(other.inner)


class ScoreBoth(_Fed):
    """The sum of clipped scores and their second moment, in one pass."""

    def __init__(self, q: int, clip: float) -> None:
        self.q = q
        self.total = ScoreSum(q, clip)
        self.second = ScoreSecond(q, clip)

    def feed(self, scores: Matrix, drop: bool = False, lengths: Vector | None = None) -> int:
        """Accumulate scores as they are: of rows, or of units; as if they had other lengths."""
        bad = self.total.feed(scores, drop, lengths)
        return bad if bad >= 0 else self.second.feed(scores, drop, lengths)

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return self.total.n_rows

    @property
    def n_dropped(self) -> int:
        """Rows left out."""
        return self.total.n_dropped

    def merge(self, other: ScoreBoth) -> None:
        """Add the rows of another."""
        self.total.merge(other.total)
        self.second.merge(other.second)


class Modelled(_Fed):
    """Feed what adds up scores those of images (z, target, ...), by what a model expects of them.

    Parameters
    ----------
    inner : ScoreSum, ScoreShells or ScoreBoth
    expected : Expected or Bounded
        What a row's score is by public numbers.
    """

    def __init__(self, inner: Any, expected: Expected | Bounded) -> None:
        self.inner = inner
        self.expected = expected
        self.q = inner.q

    def update(self, block: Matrix, drop: bool = False) -> int:
        """Accumulate the rows of a block; see `privgram._core.rows.Accumulator.update`."""
        z, error, _, most = self.expected(block)
        scores = np.ascontiguousarray(z * error[:, None])
        if most is None:
            return self.feed(scores, drop)
        square = np.empty(len(block))
        squared_norms(np.ascontiguousarray(z), square)
        return self.feed(scores, drop, most * np.sqrt(square))

    def scores(self, images: Matrix) -> Matrix:
        """Those of images."""
        z, error, *_ = self.expected(images)
        return np.ascontiguousarray(z * error[:, None])

    def feed(self, scores: Matrix, drop: bool = False, lengths: Vector | None = None) -> int:
        """Accumulate scores as they are: of rows, or of units; as if they had other lengths."""
        return int(self.inner.feed(scores, drop, lengths))

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return int(self.inner.n_rows)

    @property
    def n_dropped(self) -> int:
        """Rows left out."""
        return int(self.inner.n_dropped)

    def merge(self, other: Modelled) -> None:
        """Add the rows of another."""
        self.inner.merge(other.inner)


class _Units:
    """Whole units on their way: the images of their rows."""

    inner: Any

    def __init__(self, frame: Matrix, bound: float) -> None:
        self.n_columns = len(frame)
        self._bound = bound
        self._frame = rowmap.transposed(frame)
        self.n_rows = 0

    def update(self, x: Matrix, starts: NDArray[np.intp], drop: bool = False) -> int:
        """Accumulate units; see `privgram._core.units.UnitAccumulator.update`."""
        missing: NDArray[np.bool_] = np.asarray(np.isnan(x).any(axis=1))
        if missing.any():
            if not drop:
                return int(missing.argmax())
            x = np.where(missing[:, None], 0.0, x)
        images = np.empty_like(x)
        rowmap.apply(x, self._bound, self._frame, images)
        self.add(images, starts)
        self.n_rows += len(starts)
        return -1

    def add(self, images: Matrix, starts: NDArray[np.intp]) -> None:
        """Accumulate what the images of units' rows make."""
        raise NotImplementedError

    def merge(self, other: _Units) -> None:
        """Add the units of another."""
        self.n_rows += other.n_rows
        self.inner.merge(other.inner)


class UnitScored(_Units):
    """Feed what adds up scores sum e z, one for every unit: clipped or counted as one.

    Parameters
    ----------
    frame : ndarray of shape (d, d), float64
        Of rows, to q features z, then e or the target.
    bound : float
        L2 bound of a row.
    q : int
    inner : ScoreSum, ScoreShells, ScoreSecond, ScoreBoth or Modelled
    """

    def __init__(self, frame: Matrix, bound: float, q: int, inner: Any) -> None:
        super().__init__(frame, bound)
        self.inner = inner
        size = float(np.linalg.norm(frame[:q], 2)) * bound
        if isinstance(inner, Modelled):
            self._largest = size * inner.expected.most
        else:
            self._largest = size * float(np.linalg.norm(frame[q])) * bound

    def add(self, images: Matrix, starts: NDArray[np.intp]) -> None:
        """Accumulate what the images of units' rows make."""
        self.inner.feed(sums_of_units(self.inner.scores(images), self._largest, starts))


class Curved:
    """The curvature of a likelihood: the second moment of z times the roots of weights.

    Parameters
    ----------
    inner : Accumulator, UnitAccumulator or ScoreShells
        Of q columns; the last counts lengths.
    expected : Expected or Bounded
    """

    def __init__(self, inner: Any, expected: Expected | Bounded) -> None:
        self.inner = inner
        self.expected = expected
        self._take = inner.feed if isinstance(inner, _Fed) else inner.update

    def curved(self, images: Matrix) -> Matrix:
        """Rows whose squares are the curvature."""
        z, error, root, _ = self.expected(images)
        # A row without a target has no curvature.
        return np.ascontiguousarray(z * (root + (error - error))[:, None])

    def update(self, block: Matrix, *given: Any) -> int:
        """Accumulate the rows of a block; see `privgram._core.rows.Accumulator.update`."""
        return int(self._take(self.curved(block), *given))

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return int(self.inner.n_rows)

    @property
    def n_dropped(self) -> int:
        """Rows left out."""
        return int(self.inner.n_dropped)

    def merge(self, other: Curved) -> None:
        """Add the rows of another."""
        self.inner.merge(other.inner)


class UnitSecond(_Units):
    """The second moments of units' images, each clipped as one."""

    def __init__(self, frame: Matrix, bound: float, inner: Curved | Leading) -> None:
        super().__init__(frame, bound)
        self.inner = inner

    def add(self, images: Matrix, starts: NDArray[np.intp]) -> None:
        """Accumulate what the images of units' rows make."""
        self.inner.update(images, starts)


class Leading:
    """The second moment of the leading columns of images, of rows or of units."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def update(self, block: Matrix, *given: Any) -> int:
        """Accumulate the rows of a block; see `privgram._core.rows.Accumulator.update`."""
        leading = np.ascontiguousarray(block[:, : self.inner.n_columns])
        return int(self.inner.update(leading, *given))

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return int(self.inner.n_rows)

    @property
    def n_dropped(self) -> int:
        """Rows left out."""
        return int(self.inner.n_dropped)

    def merge(self, other: Leading) -> None:
        """Add the rows of another."""
        self.inner.merge(other.inner)


# Rows on their way into sums by the levels of one wide factor, of which no columns are made.
#
# A row is an image v of its narrow columns less what is known of its level, and the level's number.
# All that follows is a function of these alone.

#: Rows that are mapped at a time.
STEP = 1 << 13


class Taker(Protocol):
    """What rows are fed to."""

    def take(self, v: Matrix, one: Vector, levels: Levels) -> None:
        """Add rows v with their entries of the column of ones and their levels."""

    def merge(self, other: Any) -> None:
        """Add the rows of another."""


class ByLevel:
    """Feed rows v = A c u - shift[level] u_1, c = min(1, bound / |u|), with their levels.

    u_1 is the row's entry of the column of ones: 1, or the root of its weight.

    Parameters
    ----------
    read, narrow : Columns
        What is read of the table, with the factor; and the columns u without it.
    factor : str
    frame : ndarray of shape (m, d), float64
        A.
    shift : ndarray of shape (K, m), float64, or None
    inner : LevelFirst, LevelSums, Within, LevelShells or LevelScores
    """

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
            some = [x.part(part) if isinstance(x, Codes) else x[part] for x in parts]
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
        images = np.empty_like(u)
        rowmap.apply(u, self._bound, self._frame, images)
        v, one = images[:, : self._m], u[:, self._ones].sum(axis=1)
        if self._shift is not None:
            v = v - self._shift[levels] * one[:, None]
        self.inner.take(np.ascontiguousarray(v), one, levels)
        self.n_rows += len(u)
        self.n_dropped += int(missing.sum())
        return -1

    def merge(self, other: ByLevel) -> None:
        """Add the rows of another."""
        self.n_rows += other.n_rows
        self.n_dropped += other.n_dropped
        self.inner.merge(other.inner)


class LevelSums:
    """Sums of v min(1, radius / |v|) / radius over the rows of each level.

    Attributes
    ----------
    total : ndarray of shape (K, m), int64
        In units of 1 / scale(m). A row adds a vector no longer than `UNITS` to one level.
    """

    def __init__(self, levels: int, m: int, radius: float) -> None:
        self.radius = radius
        self.total = np.zeros((levels, m), np.int64)

    def take(self, v: Matrix, one: Vector, levels: Levels) -> None:
        """Add rows."""
        square = np.empty(len(v))
        squared_norms(v, square)
        found = whole(v, scale(v.shape[1]) / np.maximum(np.sqrt(square), self.radius))
        size = len(self.total)
        for total, column in zip(self.total.T, found.T, strict=True):
            total += np.bincount(levels, column, size).astype(np.int64)

    def merge(self, other: LevelSums) -> None:
        """Add the rows of another."""
        self.total += other.total


class Within:
    """The second moment of v."""

    def __init__(self, m: int, radius: float) -> None:
        self.second = Accumulator(m, radius)

    def take(self, v: Matrix, one: Vector, levels: Levels) -> None:
        """Add rows."""
        self.second.update(v)

    def merge(self, other: Within) -> None:
        """Add the rows of another."""
        self.second.merge(other.second)


class LevelFirst:
    """How many rows are of each level, by their weights, and the second moment of all."""

    def __init__(self, levels: int, m: int, radius: float) -> None:
        self.counts = LevelSums(levels, 1, 1.0)
        self.within = Within(m, radius)

    def take(self, v: Matrix, one: Vector, levels: Levels) -> None:
        """Add rows."""
        self.counts.take(one[:, None] ** 2, one, levels)
        self.within.take(v, one, levels)

    def merge(self, other: LevelFirst) -> None:
        """Add the rows of another."""
        self.counts.merge(other.counts)
        self.within.merge(other.within)


class LevelShells:
    """Scores by their lengths: those of slopes, and residuals as if all levels were one."""

    def __init__(self, q: int, slopes: Vector, levels: Vector) -> None:
        self.slopes = ScoreShells(q, slopes)
        self.levels = ScoreShells(1, levels)

    def take(self, v: Matrix, one: Vector, levels: Levels) -> None:
        """Add rows (z, e)."""
        self.slopes.feed(v[:, :-1] * v[:, -1:])
        self.levels.feed((v[:, -1] * one)[:, None])

    def merge(self, other: LevelShells) -> None:
        """Add the rows of another."""
        self.slopes.merge(other.slopes)
        self.levels.merge(other.levels)


class LevelScores:
    """Clipped scores and their squares: of slopes, and residuals by level."""

    def __init__(self, levels: int, q: int, slope: float, level: float) -> None:
        self.slopes = ScoreBoth(q, slope)
        self.levels = LevelSums(levels, 1, level)
        self.squares = LevelSums(levels, 1, level**2)

    def take(self, v: Matrix, one: Vector, levels: Levels) -> None:
        """Add rows (z, e)."""
        self.slopes.feed(v[:, :-1] * v[:, -1:])
        residual = (v[:, -1] * one)[:, None]
        self.levels.take(residual, one, levels)
        self.squares.take(residual**2, one, levels)

    def merge(self, other: LevelScores) -> None:
        """Add the rows of another."""
        self.slopes.merge(other.slopes)
        self.levels.merge(other.levels)
        self.squares.merge(other.squares)
