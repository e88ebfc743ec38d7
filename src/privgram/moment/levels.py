"""Rows on their way into sums by the levels of one wide factor, of which no columns are made.

A row is an image v of its narrow columns less what is known of its level, and the level's number.
All that follows is a function of these alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from privgram._core import rowmap
from privgram._core.norms import squared_norms
from privgram._core.rows import Accumulator
from privgram._core.scale import DefaultRounding
from privgram.columns.encoding import Codes
from privgram.columns.terms import ONES
from privgram.moment.scored import ScoreBoth, ScoreShells, scale, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.columns import Columns
    from privgram.columns.encoding import Raw

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]
    Levels = NDArray[np.int32]

__all__ = ["STEP", "ByLevel", "LevelFirst", "LevelScores", "LevelShells", "LevelSums", "Within"]

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
