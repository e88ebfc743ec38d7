"""One regression by scores with a factor of many levels, whose columns are never made.

Levels are disjoint: their curvature is how many rows each has, and a row's score is that of the
other columns, less the means of the row's level, and one entry more (docs/theory/glm.md).
Secret side: of what is read only the noisy sums leave.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.text import shown
from privgram.adaptive.whitening import whiten
from privgram.columns.terms import as_factor
from privgram.disclosure.samplers import impose
from privgram.glm import state as states
from privgram.glm.budget import BUDGET
from privgram.glm.clipping import Clip, choose_clip, norm_edges
from privgram.glm.one_step import OneStepEstimator, estimated_rows, state_of
from privgram.glm.problem import FitFacts, refused_parts
from privgram.glm.state import ScoreState, isotropic
from privgram.secret import Histogram, LevelImage, Model, Outer, Vectors

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.glm.problem import FitParts, Problem
    from privgram.glm.rounds import Rounds
    from privgram.secret.gate import Sum
    from privgram.secret.kinds import Kind


@dataclass(frozen=True)
class LevelShares:
    """Shares of mu^2 where a factor has many levels, and what is known of a level."""

    #: The numbers of rows by level, the means by level, and the second moment within levels.
    numbers: float = 0.05
    means: float = 0.1
    inside: float = 0.06
    #: Each time of slopes and of levels: norms of scores, and squares of scores.
    counts: float = 0.035
    squares: float = 0.02
    #: The part of the scores' share that slopes have, where effects are written out and where not.
    slopes_beside_effects: float = 0.15
    slopes_alone: float = 0.75
    #: Of what clipping may take off, a level with the part s of all rows has s to this power: more
    #: than its share, for levels differ.
    uneven: float = 0.75
    #: No larger part of the residuals is clipped: they would not tell how far off a level is.
    clipped: float = 0.03
    #: Of a level with fewer rows than so many deviations of their number's noise nothing is known;
    #: in one with fewer than the second the means are too rough for slopes within it.
    seen: float = 4.0
    counted: float = 8.0


SHARES = LevelShares()

NO_LEVEL = (
    "no level of {} has so many rows that they are seen beside the noise, so that its effects "
    "cannot be taken off: take a larger epsilon or larger levels, or for effects of the protected "
    "units Unit(..., fixed_effects=True)"
)


@dataclass(frozen=True, eq=False)
class LevelMeans:
    """What is known of the levels' means, (K, q + 1), of the design's columns and the target.

    They are off by `back` times independent parts with the variances (K, q + 1).
    """

    means: Matrix
    back: Matrix
    variances: Matrix

    def off(self, state: ScoreState) -> Matrix:
        """By how much the means of z are off, as variances by level, shape (K, q)."""
        return np.asarray(self.variances @ ((state.whitening @ self.back[:-1]) ** 2).T)


@dataclass(frozen=True, eq=False)
class _About:
    """A released frame about the mean of all rows: the mean, a map, a radius, and the way back."""

    middle: Vector
    into: Matrix
    radius: float
    back: Matrix


class LevelEstimator(OneStepEstimator):
    """The rounds of one regression with a factor of many levels; as `OneStepEstimator`.

    The rounds and the design are of the other columns.
    """

    def __init__(self, rounds: Rounds, problem: Problem, public: int | None) -> None:
        super().__init__(rounds, problem, public)
        assert problem.factor is not None
        self.factor = problem.factor
        inner = problem.design.images
        self.ones = inner[-2]
        self.joint = np.delete(inner, -2, axis=0)  # (q + 1, d)
        self.basis = np.linalg.qr(self.joint.T)[0].T
        self.images = self.joint @ self.basis.T
        self.q = len(self.joint) - 1
        written_out = self.factor.written_out
        of_slopes = SHARES.slopes_beside_effects if written_out else SHARES.slopes_alone
        self.of_slopes = of_slopes if self.q else 0.0
        #: The levels within which slopes are taken, and their part of the rows.
        self.counted = np.ones(self.factor.size, bool)
        self.share = 1.0

    @property
    def kinds(self) -> int:
        """How many kinds of scores there are: of slopes, where there are any, and of levels."""
        return 2 if self.q else 1

    def fit(self) -> FitParts:
        """Go through all rounds."""
        rounds = self.rounds
        first = rounds.take(rounds.moment, BUDGET.first)
        first = impose(first, isotropic(rounds.std[-1]), self.factor.other_columns)[0]
        if self.public is None or rounds.moment.columns.missing == "drop":  # some of the public
            rows = estimated_rows(rounds, first, self.ones)
        else:
            rows = max(float(self.public), 1.0)
        numbers, sums, about = self._sums(first, rows)
        number, self.count_std = rounds.score(numbers, SHARES.numbers)
        number = number.ravel()
        self.number = np.maximum(number, SHARES.seen * self.count_std)
        self.known = number >= SHARES.seen * self.count_std
        if self.q and self.problem.purpose == "inference":  # else they may be between levels
            self.counted = number >= SHARES.counted * self.count_std
            if not self.counted.any():
                refusal = NO_LEVEL.format(shown(self.factor.factor))
                return refused_parts(self.problem.n_written, refusal, rows, stopped=True)
            self.share = min(1.0, float(number[self.counted].sum() / number.sum()))
        state, means = self._within(sums, about, rows)
        return self._both_scores(state, means, self._clips(state, means))

    def _read(self, matrix: Matrix, centres: Matrix | None, *kinds: Kind) -> tuple[Sum, ...]:
        """Read sums of rows by level; of slopes in the levels that are counted."""
        factor, seen = self.factor, None if self.counted.all() else self.counted
        name, others = factor.factor, factor.other_columns
        image = LevelImage(factor.used, others, name, matrix, centres, seen)
        return self.rounds.gate.read(image, *kinds)

    def _sums(self, first: Matrix, rows: float) -> tuple[Sum, Sum, _About]:
        """The numbers of rows by level, and the sums of what they differ by from the mean."""
        rounds, m, size = self.rounds, self.q + 1, self.factor.size
        middle = self.basis @ first @ self.ones / rows
        about = self.basis @ first @ self.basis.T - rows * np.outer(middle, middle)
        whitening = whiten(about, rounds.std[-1], rows)
        into = whitening.matrix @ (self.basis - np.outer(middle, self.ones))
        radius = states.radius_at_middle(whitening.typical, m)
        numbers = Vectors(Model.level("weight"), 1.0, size, positive=True)
        sums = Vectors(Model.features(m), radius, size)
        back = self.images @ np.linalg.inv(whitening.matrix)
        both = self._read(into, None, numbers, sums)
        return both[0], both[1], _About(self.images @ middle, into, radius, back)

    def _within(self, sums: Sum, about: _About, rows: float) -> tuple[ScoreState, LevelMeans]:
        """Means by level, and then the second moment within levels."""
        rounds, m, back = self.rounds, self.q + 1, about.back
        noisy, std = rounds.score(sums, SHARES.means)
        # Not drawn together: a part of each mean would be left, in features and target alike.
        n = self.number[:, None]
        means = np.where(self.known[:, None], noisy.reshape(-1, m) / n, 0.0)
        variances = np.repeat((std / n) ** 2, m, axis=1)
        [within] = self._read(about.into, means, Outer(Model.features(m), about.radius))
        matrix = rounds.take(within, SHARES.inside)
        # Less what the means' noise adds to it, and with the noise of that.
        added = std**2 / self.number[self.counted]
        matrix = matrix - added.sum() * np.eye(m)
        std = math.hypot(rounds.std[-1], math.sqrt((added**2).sum()))
        state = state_of(matrix, isotropic(std), std, back, rows * self.share)
        means = about.middle[None] + means @ back.T
        return state, LevelMeans(means, back, variances)

    def _maps(self, state: ScoreState, effects: Vector, means: Matrix) -> tuple[Matrix, Matrix]:
        """The map of rows to (z, e), and what to take off by level."""
        v = np.append(-state.coef, 1.0) / state.scale
        rows = np.vstack([np.column_stack([state.whitening, np.zeros(self.q)]), v])
        shift = means @ rows.T
        shift[:, -1] += effects / state.scale
        return rows @ self.joint, shift

    def _clips(self, state: ScoreState, level_means: LevelMeans) -> tuple[Clip, Clip]:
        """Release how many scores are long, and choose the clips of slopes and of levels."""
        rounds, q = self.rounds, self.q
        transform, shift = self._maps(state, np.zeros(self.factor.size), level_means.means)
        bound = float(rounds.moment.bound)
        far = np.abs(shift[:, -1]).max() + np.linalg.norm(transform[q]) * bound
        long = np.linalg.norm(transform[: q or 1], 2) * bound
        long += np.linalg.norm(shift[:, :q], axis=1).max()
        edges = norm_edges(math.sqrt(q or 1), float(far * long)), norm_edges(1.0, float(far))
        models = Model.residual(q or 1), Model.level("residual")
        kinds = [Histogram(*one) for one in zip(models, edges, strict=True)][-self.kinds :]
        norms = self._read(transform, shift, *kinds)
        left = self.left - self.kinds * (SHARES.counts + SHARES.squares)
        # Levels share what clipping takes off.
        shares = (
            left * self.of_slopes,
            left * (1 - self.of_slopes) / self.factor.size ** (2 * SHARES.uneven),
        )
        most = math.inf, SHARES.clipped * state.rows / self.share
        clips = []
        both = list(zip(edges, shares, most, strict=True))[-self.kinds :]
        for counts, (ends, share, few) in zip(norms, both, strict=True):
            beyond = rounds.beyond(counts, SHARES.counts)
            # Errors of a level may be skewed, and those of levels differently.
            one_way = self._seen(beyond, SHARES.counts) if counts is norms[-1] else None
            noise = rounds.moves / rounds.mu(share)
            clips.append(choose_clip(ends, beyond, noise, few, one_way))
        return clips[0], clips[-1]

    def _level_scores(
        self,
        state: ScoreState,
        effects: Vector,
        level_means: LevelMeans,
        clips: tuple[Clip, Clip],
        share: float,
    ) -> tuple[tuple[Sum, Sum], Vector, Vector]:
        """Release scores, of slopes and then of levels; their squares, and their noise."""
        slope, level = (clip.size for clip in clips)
        rounds, of_slopes, size = self.rounds, share * self.of_slopes, self.factor.size
        residual = Model.residual(self.q or 1)
        *of_q, levels, squares = self._read(
            *self._maps(state, effects, level_means.means),
            *[Vectors(residual, slope), Outer(residual, slope)][: 2 * (self.q > 0)],
            Vectors(Model.level("residual"), level, size),
            Vectors(Model.level("square"), level**2, size, positive=True),
        )
        slopes, std = rounds.score(of_q[0], of_slopes) if self.q else (np.zeros(0), 0.0)
        by_level, level_std = rounds.score(levels, share - of_slopes)
        stds = np.repeat([std, level_std], [self.q, size])
        return (of_q[-1] if self.q else squares, squares), np.append(slopes, by_level), stds

    def _both_scores(
        self, state: ScoreState, level_means: LevelMeans, clips: tuple[Clip, Clip]
    ) -> FitParts:
        """Two steps of slopes and effects, and how the scores vary."""
        q, n, known, size = self.q, self.number, self.known, self.factor.size
        left = self.left - self.kinds * SHARES.squares
        early = BUDGET.early * left
        off = level_means.off(state)

        def step(score: Vector) -> Vector:
            effects = np.where(known, state.scale * score[q:] / n, 0.0)
            return np.append(state.step(score[:q]), effects)

        _, score, std = self._level_scores(state, np.zeros(size), level_means, clips, early)
        first = step(score)
        between = replace(state, coef=state.coef + first[:q])
        read, score, last = self._level_scores(between, first[q:], level_means, clips, left - early)
        # Two estimates that share the sample alone, weighed by what else they miss.
        of_slopes, of_levels = self._missed(state, first, off)
        first_var = std**2 + np.append(np.full(q, np.trace(of_slopes) / (q or 1)), of_levels)
        second_var = last**2 + np.append(state.remaining * first_var[:q], of_levels)
        part = first_var / (first_var + second_var)
        more = part * step(score)
        coef, effects = np.split(np.append(state.coef, np.zeros(size)) + first + more, [q])
        # What is missed goes with how far it was from where both began.
        of_slopes, of_levels = self._missed(state, (1 - part) * first + more, off)
        noise_std = np.hypot((1 - part) * std, part * last)
        slope, level = clips
        uneven = (level.allowance * noise_std[q:].mean()) ** 2
        uneven *= np.minimum(1.0, (size * n * self.share / state.rows) ** (2 * SHARES.uneven))
        privacy = slope.error(noise_std[0]) ** 2 * np.eye(q) + of_slopes
        meat, squares = self._squares(read, state)
        unit = (state.scale / n) ** 2
        factor = state.rows / max(state.rows - q - self.counted.sum(), 1.0)
        # Of a level of which nothing is known, as much as the bounds allow.
        privately = np.where(known, unit * (noise_std[q:] ** 2 + uneven + of_levels), 1.0)
        into, apart = self._written(level_means.means[:, :-1])
        effects = level_means.means[:, -1] + effects - level_means.means[:, :-1] @ coef
        facts = FitFacts(slope.size, int((~known).sum()), rows_left_out=1 - self.share)
        if not self.factor.written_out:
            facts = replace(facts, absorbed=self.factor.factor, absorbed_levels=size)
        whole = self._parts(state, coef, factor * meat, privacy)
        of_levels = into[:, q:]
        sampled = np.where(known, factor * unit * squares, 0.0)
        sampling, noise = (apart @ part @ apart.T for part in (whole.sampling, whole.noise))
        # Least squares on all rows differ from those on a part of them by what these leave out.
        left_out = (1 - self.share) * sampling
        return replace(
            whole,
            coef=into[:, :q] @ coef + of_levels @ effects,
            sampling=sampling - left_out + _covariance(of_levels, sampled),
            noise=noise + left_out + _covariance(of_levels, privately),
            unidentified=apart @ whole.unidentified @ apart.T,
            rows=state.rows / self.share,
            clipped_rows=slope.n_beyond,
            facts=facts,
        )

    def _written(self, means: Matrix) -> tuple[Matrix, Matrix]:
        """From (slopes, effects) to the coefficients that are written out; and of slopes alone.

        The effects of levels are a_g = c_g - x_g b, and c has independent errors.
        """
        q, size = self.q, self.factor.size
        if self.factor.written_out:
            outer = self.problem.written.design
            into = np.zeros((len(outer.images) - 1, q + size))
            name = self.factor.factor
            places = np.array(
                [next((at for key, at in cell if key == name), -1) for _, cell in outer.functions]
            )
            into[np.flatnonzero(places < 0), np.arange(q)] = 1.0
            levels = np.flatnonzero(places >= 0)
            into[levels, q + places[levels]] = 1.0
            described = as_factor(name, self.factor.used.variables)
            left_out = described.names.index(outer.references[name])
            into[levels, q + left_out] = -1.0
            into[-1, q + left_out] = 1.0
        else:  # the constant is the mean effect
            into = np.zeros((q + 1, q + size))
            into[:q, :q] = np.eye(q)
            into[-1, q:] = self.number / self.number.sum()
        return into, into[:, :q] - into[:, q:] @ means

    def _squares(self, read: tuple[Sum, Sum], state: ScoreState) -> tuple[Matrix, Vector]:
        """How scores vary: of slopes, and of each level."""
        rounds, (second, by_level) = self.rounds, read
        meat = np.zeros((0, 0))
        if self.q:
            meat = states.raised(rounds.take(second, SHARES.squares), rounds.std[-1])
        squares, std = rounds.score(by_level, SHARES.squares)
        squares = squares.ravel()
        if not self.problem.robust:
            mean = float(np.trace(meat)) / self.q if self.q else float(squares.sum())
            return mean * np.eye(self.q), mean * self.number / state.rows
        # Of clipped scores: what clipping takes off is a bias, and is allowed for.
        return meat, np.maximum(squares, std) + std

    def _missed(self, state: ScoreState, step: Vector, off: Matrix) -> tuple[Matrix, Vector]:
        """Variance of what the Hessian's error leaves of a step, in units of scores."""
        step, raised = step[: self.q], step[self.q :] / state.scale
        along = np.linalg.solve(state.whitening.T, step) / state.scale
        mixed = (self.number * raised * self.counted) ** 2 @ off
        numbers = (self.count_std * raised) ** 2 + self.number**2 * (off @ along**2)
        return state.left_over(step) + np.diag(mixed), numbers


def _covariance(of_levels: Matrix, variances: Vector) -> Matrix:
    """That of sums of independent effects, of which most are of two."""
    from scipy.sparse import csr_array

    sums = csr_array(of_levels)
    return np.asarray((sums.multiply(variances) @ sums.T).todense())
