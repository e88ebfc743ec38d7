"""One regression by scores with a factor of very many levels, whose columns are never made.

Levels are disjoint: their curvature is how many rows each has, and a row's score is that of the
narrow columns, less the means of the row's level, and one entry more (docs/theory/scores.md).
Secret side: of what is read only the noisy sums leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.columns import Columns
from privgram.columns.terms import parse_terms
from privgram.columns.variables import Factor
from privgram.drawing.draws import CHANGED, impose
from privgram.drawing.scores import counted, isotropic, released, rows_of, start_of
from privgram.engines.threads import accumulate
from privgram.mechanisms import refined as frames
from privgram.mechanisms.looks import UnreadError
from privgram.moment import SecondMoment
from privgram.moment.scored import (
    STEP,
    ByLevel,
    LevelFirst,
    LevelScores,
    LevelShells,
    LevelSums,
    Within,
)
from privgram.regression import scoring as rules
from privgram.regression.design import AllColumns, Design, design

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.columns.terms import Parsed
    from privgram.drawing.draws import Looks
    from privgram.engines import Pass
    from privgram.regression.scoring import Clip, Start

#: Of factors with more levels columns are slow, and noise in all of them hides what a step is.
MOST_LEVELS = 100

#: Effects of no more levels are written out, each with its covariances.
MOST_SHOWN = 1000

#: Shares of mu^2: of the numbers of rows by level, of the means by level, of the second moment
#: within levels, and each time of slopes and of levels: of lengths, of unit vectors by length, and
#: of squares of scores.
NUMBERS, MEANS, INSIDE, COUNTS, TURNS, SQUARES = 0.05, 0.1, 0.06, 0.025, 0.01, 0.02

#: The part of the scores' share that slopes have, where effects are written out and where not.
SLOPES = {True: 0.15, False: 0.75}

#: Of what clipping may take off, a level with the part s of all rows has s to this power: more than
#: its share, for levels differ.
UNEVEN = 0.75

#: No larger part of the residuals is clipped: they would not tell how far off a level is.
CLIPPED = 0.03

#: Of a level with fewer rows than so many deviations of their number's noise nothing is known.
SEEN = 4.0


@dataclass(frozen=True, eq=False)
class Wide:
    """A factor of many levels, and the columns without it."""

    factor: str
    used: Columns  # what the formula needs
    narrow: Columns  # and that without the factor
    terms: tuple[str, ...]  # all of them
    texts: tuple[str, ...]  # those without the factor
    shown: bool  # whether the effects of its levels are written out

    @classmethod
    def of(cls, parsed: Parsed, used: Columns) -> Wide | None:
        """The wide factor of a formula, if it has one by itself and else narrow columns."""
        texts = [*parsed.features, *parsed.absorbed]
        terms = dict(zip(texts, parse_terms(texts, used.variables), strict=False))
        alone = [
            text for text in texts if len(terms[text].factors) == 1 and not terms[text].degrees
        ]
        by_size = sorted(alone, key=lambda text: _size(used, terms[text].factors[0]))
        absorbed = parsed.absorbed[0] if parsed.absorbed else None
        at = absorbed or (by_size[-1] if by_size else None)
        if at is None or at not in alone or len(parsed.absorbed) > 1 or len(terms) < len(texts):
            return None
        factor = terms[at].factors[0]
        if absorbed is None and not MOST_LEVELS < _size(used, factor) <= MOST_SHOWN:
            return None
        narrow = used.without(factor)
        others = tuple(text for text in texts if text != at)
        lost = any(factor in term.factors for text, term in terms.items() if text != at)
        target = parsed.targets[0].partition("[")[0] == factor
        if lost or target or not others or sum(map(len, _factors(narrow))) > MOST_LEVELS:
            return None
        return cls(factor, used, narrow, tuple(texts), others, absorbed is None)

    @property
    def size(self) -> int:
        """How many levels there are."""
        return _size(self.used, self.factor)

    @property
    def written_of(self) -> tuple[Columns, tuple[str, ...]]:
        """The columns and the terms of what is written out."""
        return (self.used, self.terms) if self.shown else (self.narrow, self.texts)

    def design(self, target: str, reference: dict[str, str]) -> Design:
        """The design of what is written out."""
        columns, terms = self.written_of
        given = {name: level for name, level in reference.items() if name in columns.variables}
        return design(AllColumns(columns), target, terms, True, given)

    def inner(self, target: str, reference: dict[str, str]) -> Design:
        """The design without the factor."""
        given = {name: level for name, level in reference.items() if name != self.factor}
        return design(AllColumns(self.narrow), target, self.texts, True, given)

    def first(self, asked: Pass) -> tuple[SecondMoment, LevelSums]:
        """The first pass: the second moment of the narrow columns, and the numbers by level."""
        d, bound = len(self.narrow), float(self.narrow.bound)
        total = self.read(asked, np.eye(d), None, partial(LevelFirst, self.size, d, bound))
        inner: Any = total.inner
        second = inner.within.second
        for start in range(0, total.n_dropped, STEP):  # which it counts
            second.update(np.full((min(STEP, total.n_dropped - start), d), np.nan), True)
        moment = SecondMoment.from_accumulator(second, None, self.narrow, self.narrow.bound)
        return moment, inner.counts

    def read(
        self, asked: Pass, frame: Matrix, shift: Matrix | None, new: Callable[[], Any]
    ) -> ByLevel:
        """Feed the rows of the table, mapped and less what their level has."""

        def of_rows(_: int) -> ByLevel:
            return ByLevel(self.used, self.narrow, self.factor, frame, shift, new())

        found: ByLevel = accumulate(asked, of_rows)[0]
        return found

    def steps(self, *given: Any) -> LevelSteps:
        """The looks of a fit."""
        return LevelSteps(self, *given)

    def written(self, outer: Design, found: dict[str, Any]) -> tuple[Vector, Matrix, Matrix]:
        """The coefficients of the outer design, with their covariances."""
        q, size = len(found["coef"]), self.size
        # The effects of levels are a_g = c_g - x_g b, and c has independent errors.
        means = found["means"]
        if self.shown:
            into = np.zeros((len(outer.frame) - 1, q + size))
            cells = [
                next((level for name, level in cell if name == self.factor), -1)
                for _, cell in outer.functions
            ]
            places = np.array(cells)
            into[np.flatnonzero(places < 0), np.arange(q)] = 1.0
            levels = np.flatnonzero(places >= 0)
            into[levels, q + places[levels]] = 1.0
            factor: Any = self.used.variables[self.factor]
            left_out = factor.names.index(outer.references[self.factor])
            into[levels, q + left_out] = -1.0
            into[-1, q + left_out] = 1.0
        else:  # the constant is the mean effect
            into = np.zeros((q + 1, q + size))
            into[:q, :q] = np.eye(q)
            into[-1, q:] = found["weights"]
        apart = into[:, :q] - into[:, q:] @ means
        sampling, noise = (
            apart @ slopes @ apart.T + (into[:, q:] * effects) @ into[:, q:].T
            for slopes, effects in (found["sampling"], found["noise"])
        )
        return into[:, :q] @ found["coef"] + into[:, q:] @ found["effects"], sampling, noise


def _size(columns: Columns, factor: str) -> int:
    return len(columns.variables[factor])  # type: ignore[arg-type]


def _factors(columns: Columns) -> list[Factor]:
    return [given for given in columns.variables.values() if isinstance(given, Factor)]


class LevelSteps:
    """The looks of one regression with a wide factor; as `privgram.drawing.scores.Steps`.

    The looks and `inner` are of the narrow columns. The counts, of rows by level, are SECRET.
    """

    def __init__(
        self,
        wide: Wide,
        looks: Looks,
        counts: LevelSums,
        asked: Pass,
        inner: Design,
        public: int | None,
        robust: bool,
        cautious: bool,
    ) -> None:
        self.wide = wide
        self.looks = looks
        self.counts = counts
        self.asked = asked
        self.public = public
        self.robust = robust
        self.cautious = cautious
        self.ones = inner.frame[-2]
        self.joint = np.delete(inner.frame, -2, axis=0)  # (q + 1, d)
        self.basis = np.linalg.qr(self.joint.T)[0].T
        self.images = self.joint @ self.basis.T
        self.q = len(self.joint) - 1
        self.size = wide.size
        both = looks.noise.adjacency == "replace"
        #: A row replaced moves a sum by two, and numbers that are not negative by sqrt(2).
        self.moves, self.once = (2.0, math.sqrt(2.0)) if both else (1.0, 1.0)

    def take(self) -> dict[str, Any]:
        """All looks: coefficients of the narrow columns and effects, with their variances."""
        looks = self.looks
        left = 1 - rules.FIRST - NUMBERS - MEANS - INSIDE - 2 * (COUNTS + TURNS)
        first = looks.take(looks.moment, rules.FIRST)
        first = impose(first, isotropic(looks.std[-1]), self.wide.narrow)[0]
        if self.public is None or looks.moment.columns.missing == "drop":  # some of the public ones
            rows = rows_of(looks, first, self.ones)
        else:
            rows = max(float(self.public), 1.0)
        number, self.count_std = released(looks, self.counts.total, 1.0, NUMBERS, 1, self.once)
        self.number = np.maximum(number[:, 0], SEEN * self.count_std)
        self.known = number[:, 0] >= SEEN * self.count_std
        start, means, doubt = self._inside(first, rows)
        clips = self._clips(start, means, left)
        found = self._steps(start, means, doubt, clips, left)
        return found | {"start": start, "clip": clips[0], "hidden": int((~self.known).sum())}

    def _read(self, frame: Matrix, shift: Matrix | None, new: Callable[[], Any]) -> Any:
        total = self.wide.read(self.asked, frame, shift, new)
        moment = self.looks.moment
        if total.n_rows + total.n_dropped != moment.n_rows + moment.n_dropped:
            raise UnreadError(CHANGED)
        return total.inner

    def _inside(self, first: Matrix, rows: float) -> tuple[Start, Matrix, tuple[Matrix, Matrix]]:
        """Means by level and then the second moment within levels.

        Gives this, the means (K, q + 1) of the design's columns and the target, and what the means
        are off by: a map from independent parts, and the variances of these by level.
        """
        looks, m = self.looks, self.q + 1
        middle = self.basis @ first @ self.ones / rows
        about = self.basis @ first @ self.basis.T - rows * np.outer(middle, middle)
        frame = frames.whiten(about, looks.std[-1], rows)
        into = frame.matrix @ (self.basis - np.outer(middle, self.ones))
        radius = rules.reach(frame.typical, m)
        sums = self._read(into, None, partial(LevelSums, self.size, m, radius))
        found, std = released(looks, sums.total, radius, MEANS, m, self.moves)
        # By what levels are known to differ: the mean square of their means, less noise.
        n = self.number[:, None]
        apart = ((found**2 - std**2 - n)[self.known]).sum(axis=0) / max((n**2).sum(), 1.0)
        prior, noise = np.maximum(apart, 0.0) + 1 / n, (std / n) ** 2
        means = found / n * (prior / (prior + noise))
        variance = prior * noise / (prior + noise)
        second = self._read(into, means, partial(Within, m, radius)).second
        moment = SecondMoment.from_accumulator(second, None, None)
        matrix = looks.take(moment, INSIDE)
        back = self.images @ np.linalg.inv(frame.matrix)
        start = start_of(matrix, isotropic(looks.std[-1]), looks.std[-1], back, rows)
        return start, (self.images @ middle)[None] + means @ back.T, (back, variance)

    def _at(self, start: Start, effects: Vector, means: Matrix) -> tuple[Matrix, Matrix]:
        """The map of rows to (z, e), and what to take off by level."""
        v = np.append(-start.coef, 1.0) / start.scale
        rows = np.vstack([np.column_stack([start.white, np.zeros(self.q)]), v])
        shift = means @ rows.T
        shift[:, -1] += effects / start.scale
        return rows @ self.joint, shift

    def _clips(self, start: Start, means: Matrix, left: float) -> tuple[Clip, Clip]:
        """Release how long scores are, and choose the clips of slopes and of levels."""
        looks, q = self.looks, self.q
        frame, shift = self._at(start, np.zeros(self.size), means)
        bound = float(looks.moment.bound)
        far = np.abs(shift[:, -1]).max() + np.linalg.norm(frame[q]) * bound
        long = np.linalg.norm(frame[:q], 2) * bound + np.linalg.norm(shift[:, :q], axis=1).max()
        grids = rules.lengths(math.sqrt(q), float(far * long)), rules.lengths(1.0, float(far))
        shells = self._read(frame, shift, partial(LevelShells, q, *grids))
        of_slopes = SLOPES[self.wide.shown]
        # Levels share what clipping takes off.
        noises = left * of_slopes, left * (1 - of_slopes) / self.size ** (2 * UNEVEN)
        clips = []
        for found, grid, m, share, most in zip(
            (shells.slopes, shells.levels), grids, (q, 1), noises, (1.0, CLIPPED), strict=True
        ):
            counts, std = counted(looks, found, COUNTS)
            turns, turns_std = released(looks, found.total, 1.0, TURNS, m, self.moves)
            noise = self.moves / looks.mu(share)
            of = (counts, turns, grid, std, turns_std, noise, start.rows, most)
            clips.append(rules.choose_clip(*of, cautious=self.cautious))
        return clips[0], clips[1]

    def _scores(
        self, start: Start, effects: Vector, means: Matrix, clips: tuple[Clip, Clip], share: float
    ) -> tuple[LevelScores, Vector, Vector, Vector]:
        """Release scores, of slopes and of levels, with the deviations of their noise."""
        slope, level = clips
        new = partial(LevelScores, self.size, self.q, slope.size, level.size)
        found: LevelScores = self._read(*self._at(start, effects, means), new)
        looks, own, total = self.looks, share * SLOPES[self.wide.shown], found.slopes.total
        slopes, std = released(looks, total, slope.size, own, self.q, self.moves)
        levels, level_std = released(
            looks, found.levels.total, level.size, share - own, 1, self.moves
        )
        stds = np.append(std, np.full(self.size, level_std))
        part = self.number / start.rows
        return found, slopes + slope.taken, levels[:, 0] + level.taken[0] * part, stds

    def _steps(
        self, start: Start, means: Matrix, doubt: Any, clips: tuple[Clip, Clip], left: float
    ) -> dict[str, Any]:
        """Two steps, and how the scores vary."""
        q, n, known = self.q, self.number, self.known
        if self.robust:
            left -= 2 * SQUARES
        early = rules.EARLY * left
        off = self._off(start, *doubt)
        _, slopes, levels, std = self._scores(start, np.zeros(self.size), means, clips, early)
        moved = start.step(slopes)
        raised = np.where(known, start.scale * levels / n, 0.0)
        between = replace(start, coef=start.coef + moved)
        found, slopes, levels, last = self._scores(between, raised, means, clips, left - early)
        # Two estimates that share the sample alone, weighed by what else they miss: of slopes and
        # then of levels.
        of_slopes, of_levels = self._missed(start, moved, raised, off)
        behind = std**2 + np.append(np.trace(of_slopes) / q, of_levels)
        rest = start.rough + start.short**2
        ahead = last**2 + np.append(rest * behind[0], of_levels)
        part = behind / (behind + ahead)
        step = part[0] * start.step(slopes)
        climb = np.where(known, part[1:] * start.scale * levels / n, 0.0)
        coef, effects = between.coef + step, raised + climb
        # What is missed goes with how far it was from where both started.
        passed = (1 - part[0]) * moved + step, (1 - part[1:]) * raised + climb
        of_slopes, of_levels = self._missed(start, *passed, off)
        noise = np.hypot((1 - part) * std, part * last) ** 2
        uneven = (clips[1].doubt * (n / start.rows) ** UNEVEN) ** 2
        privacy = (noise[0] + clips[0].doubt ** 2) * np.eye(q) + of_slopes
        meat, squares = self._squares(found, start, clips)
        back = start.scale * start.white.T / start.rows
        unit = (start.scale / n) ** 2
        factor = start.rows / max(start.rows - q - self.size, 1.0)
        sampled = np.where(known, factor * unit * squares, 0.0)
        # Of a level of which nothing is known, as much as the bounds allow.
        private = np.where(known, unit * (noise[1:] + uneven + of_levels), 1.0)
        return {
            "coef": coef,
            "effects": means[:, -1] + effects - means[:, :-1] @ coef,
            "means": means[:, :-1],
            "weights": n / n.sum(),
            "sampling": (factor * back @ meat @ back.T, sampled),
            "noise": (back @ privacy @ back.T, private),
        }

    def _squares(
        self, found: LevelScores, start: Start, clips: tuple[Clip, Clip]
    ) -> tuple[Matrix, Vector]:
        """How scores vary: of slopes, and of each level."""
        looks, (slope, level) = self.looks, clips
        part = self.number / start.rows
        if not self.robust:
            return slope.whole * np.eye(self.q), level.whole * part
        moment = SecondMoment.from_accumulator(found.slopes.second, None, None)
        meat = rules.raised(looks.take(moment, SQUARES), looks.std[-1])
        total = found.squares.total
        squares, std = released(looks, total, level.size**2, SQUARES, 1, self.once)
        # Of clipped scores: what clipping takes off is a bias, and its doubt is counted.
        return meat, np.maximum(squares[:, 0], std) + std

    def _off(self, start: Start, back: Matrix, variance: Matrix) -> Matrix:
        """By how much the means of z are off, as variances by level, shape (K, q)."""
        return np.asarray(variance @ ((start.white @ back[:-1]) ** 2).T)

    def _missed(
        self, start: Start, moved: Vector, raised: Vector, off: Matrix
    ) -> tuple[Matrix, Vector]:
        """Variance of what the curvature's error leaves of a step, in units of scores."""
        along = np.linalg.solve(start.white.T, moved) / start.scale
        raised = raised / start.scale
        mixed = (self.number * raised) ** 2 @ off
        numbers = (self.count_std * raised) ** 2 + self.number**2 * (off @ along**2)
        return start.left(moved) + np.diag(mixed), numbers
