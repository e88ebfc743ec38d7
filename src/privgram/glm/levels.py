"""Effects of the levels of one factor, written out, of which no columns are made.

Slopes are by pairs of rows of one level (`privgram.glm.pairs`). Levels are disjoint: their
curvature is how many rows each has, and their scores are sums of residuals (docs/theory/glm.md).
Secret side: of what is read only the noisy sums leave.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privgram.adaptive.whitening import whiten
from privgram.columns.terms import as_factor
from privgram.disclosure.repairs import impose
from privgram.glm import state as states
from privgram.glm.budget import BUDGET
from privgram.glm.clipping import Clip, choose_clip, norm_edges
from privgram.glm.one_step import estimated_rows
from privgram.glm.pairs import PairEstimator
from privgram.glm.problem import FitParts
from privgram.glm.state import isotropic
from privgram.secret.kinds import Histogram, Model, Vectors

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector


@dataclass(frozen=True)
class LevelShares:
    """Shares of mu^2 where effects are written out, and what is known of a level."""

    #: The first second moment, of all rows; the numbers of rows by level, and the means by level.
    first: float = 0.04
    numbers: float = 0.05
    means: float = 0.06
    #: The part of what is left then that slopes have; and of levels the counts of residuals, and
    #: the sums of their squares.
    slopes: float = 0.55
    counts: float = 0.035
    squares: float = 0.02
    #: Of what clipping may take off, a level with the part s of all rows has s to this power: more
    #: than its share, for levels differ.
    uneven: float = 0.75
    #: No larger part of the residuals is clipped: they would not tell how far off a level is.
    clipped: float = 0.03
    #: Of a level with fewer rows than so many deviations of their number's noise nothing is known.
    seen: float = 4.0


SHARES = LevelShares()


class LevelEstimator(PairEstimator):
    """The rounds of slopes by pairs, and then those of levels."""

    def fit(self) -> FitParts:
        """Go through all rounds."""
        plain = self.plain
        first = plain.take(plain.moment, SHARES.first)
        first = impose(first, isotropic(plain.std[-1]), self.factor.other_columns)[0]
        if self.public is None or plain.moment.columns.missing == "drop":  # some of the public
            rows = estimated_rows(plain, first, self.ones)
        else:
            rows = max(float(self.public), 1.0)
        means, scale = self._means(first, rows)
        none = np.zeros((0, 0))
        slopes = FitParts(np.zeros(0), none, none, none, scale, rows, "scores")
        if self.q:
            self.until = plain.spent + SHARES.slopes * (1 - plain.spent)
            slopes = self.slopes(self.number, self.count_std, rows)
            self.rounds, self.until = plain, 1.0
        return slopes if slopes.stopped else self._with_effects(slopes, means, rows)

    def _means(self, first: Matrix, rows: float) -> tuple[Matrix, float]:
        """Means by level (K, q + 1), by which residuals are short; and about the residuals' size.

        And the numbers of rows by level.
        """
        plain, m = self.plain, self.q + 1
        middle = self.basis @ first @ self.ones / rows
        about = self.basis @ first @ self.basis.T - rows * np.outer(middle, middle)
        self.average = self.images @ middle
        whitening = whiten(about, plain.std[-1], rows)
        into = whitening.matrix @ (self.basis - np.outer(middle, self.ones))
        radius = states.radius_at_middle(whitening.typical, m)
        sums = Vectors(Model.features(m), radius, self.factor.size)
        numbers, sums_by_level = self._by_level(into, None, self._weights, sums)
        number, self.count_std = plain.score(numbers, SHARES.numbers)
        number = number.ravel()
        self.known = number >= SHARES.seen * self.count_std
        self.number = np.maximum(number, SHARES.seen * self.count_std)
        noisy, std = plain.score(sums_by_level, SHARES.means)
        n = self.number[:, None]
        apart = np.where(self.known[:, None], noisy.reshape(-1, m) / n, 0.0)
        back = self.images @ np.linalg.inv(whitening.matrix)
        # The target's square about the means, and what noise of these adds to it.
        target = back[-1]
        between = float(self.number[self.known] @ (apart[self.known] @ target) ** 2)
        added = std**2 * float((1 / self.number[self.known]).sum()) * float(target @ target)
        joint = self.images @ about @ self.images.T
        square = max(float(joint[-1, -1]) - between + added, 0.0) / rows
        return self.average + apart @ back.T, math.sqrt(max(square, 1e-8))

    def _with_effects(self, slopes: FitParts, means: Matrix, rows: float) -> FitParts:
        """Two steps of effects, which slopes are known beside, and how residuals vary."""
        q, n, known, scale = self.q, self.number, self.known, slopes.scale
        v = np.append(-slopes.coef, 1.0) / scale
        transform, shift = (v @ self.joint)[None], (means @ v)[:, None]
        clip = self._clip(transform, shift, rows)
        left = self.left - SHARES.squares
        early = BUDGET.early * left
        score, std, _ = self._residuals(transform, shift, clip, early, 0.0)
        first = np.where(known, score / n, 0.0)
        # Two estimates that share the sample alone, weighed by what else they miss: what is not
        # known of a level's number is missed of a step.
        missed = (self.count_std * first) ** 2
        score, last, squares = self._residuals(
            transform, shift + first[:, None], clip, left - early, SHARES.squares
        )
        part = (std**2 + missed) / (std**2 + last**2 + 2 * missed)
        more = np.where(known, part * score / n, 0.0)
        missed = (self.count_std * ((1 - part) * first + more)) ** 2
        noise_std = np.hypot((1 - part) * std, part * last)
        uneven = (clip.allowance * noise_std.mean()) ** 2
        uneven *= np.minimum(1.0, (self.factor.size * n / rows) ** (2 * SHARES.uneven))
        if not self.problem.robust:
            squares = squares.sum() * n / rows
        unit = np.where(known, (scale / n) ** 2, 0.0)
        # Of a level of which nothing is known, as much as the bounds allow.
        privately = np.where(known, unit * (noise_std**2 + uneven + missed), 1.0)
        sampled = rows / max(rows - q - self.factor.size, 1.0) * unit * squares
        effects = (means @ v + first + more) * scale
        size, hidden = slopes.facts.clip or clip.size, int((~known).sum())
        slopes = replace(slopes, facts=replace(slopes.facts, clip=size, hidden_levels=hidden))
        if not self.factor.written_out:
            return self._beside(slopes, means, effects, (sampled, privately), rows)
        into, of_levels = self._written()
        apart = into - of_levels @ means[:, :-1]
        sampling, noise, unidentified = (
            apart @ matrix @ apart.T
            for matrix in (slopes.sampling, slopes.noise, slopes.unidentified)
        )
        return replace(
            slopes,
            coef=into @ slopes.coef + of_levels @ effects,
            sampling=sampling + _covariance(of_levels, sampled),
            noise=noise + _covariance(of_levels, privately),
            unidentified=unidentified,
            rows=rows,
        )

    def _beside(
        self,
        slopes: FitParts,
        means: Matrix,
        effects: Vector,
        own: tuple[Vector, Vector],
        rows: float,
    ) -> FitParts:
        """Slopes and the mean effect over rows, and what levels' are off it."""
        std = math.sqrt(2.0) * self.plain.std[0] * float(np.linalg.norm(self.ones)) / rows
        mean = self._with_mean(slopes, self.average, std, rows)
        sampled, noise = (
            float(one[-1, -1]) - float(slope @ self.average[:-1] @ self.average[:-1])
            for one, slope in ((mean.sampling, slopes.sampling), (mean.noise, slopes.noise))
        )
        of_levels = own[0] + sampled * (1 - 2 * self.number / rows), own[1] + noise
        apart = (means - self.average)[:, :-1]
        by_level = np.column_stack([effects - mean.coef[-1], *of_levels, apart])
        by_level[~self.known] = 0.0
        return replace(mean, by_level=by_level)

    def _clip(self, transform: Matrix, shift: Matrix, rows: float) -> Clip:
        """Release how many residuals are long, and choose their clip."""
        rounds = self.plain
        far = np.abs(shift).max() + np.linalg.norm(transform) * float(rounds.moment.bound)
        edges = norm_edges(1.0, float(far))
        [norms] = self._by_level(transform, shift, Histogram(Model.level("residual"), edges))
        # Levels share what clipping takes off.
        share = self.left - SHARES.counts - SHARES.squares
        share /= self.factor.size ** (2 * SHARES.uneven)
        beyond = rounds.beyond(norms, SHARES.counts)
        # Errors of a level may be skewed, and those of levels differently.
        one_way = self._seen(beyond, SHARES.counts)
        noise = rounds.moves / rounds.mu(share)
        return choose_clip(edges, beyond, noise, SHARES.clipped * rows, one_way)

    def _residuals(
        self, transform: Matrix, shift: Matrix, clip: Clip, share: float, of_squares: float
    ) -> tuple[Vector, float, Vector]:
        """Release sums of residuals by level, with their noise; of squares on the wide side."""
        rounds, size = self.plain, self.factor.size
        sums = Vectors(Model.level("residual"), clip.size, size)
        squares = Vectors(Model.level("square"), clip.size**2, size, positive=True)
        read = self._by_level(transform, shift, sums, squares)
        by_level, std = rounds.score(read[0], share)
        if not of_squares:
            return by_level.ravel(), std, np.zeros(size)
        square, square_std = rounds.score(read[1], of_squares)
        # Of clipped scores: what clipping takes off is a bias, and is allowed for.
        wide = np.maximum(square.ravel(), square_std) + square_std
        return by_level.ravel(), std, wide if self.problem.robust else square.ravel()

    def _written(self) -> tuple[Matrix, Matrix]:
        """From slopes, and from effects of levels, to the coefficients that are written out."""
        q, outer, name = self.q, self.problem.written.design, self.factor.factor
        of_levels = np.zeros((len(outer.images) - 1, self.factor.size))
        places = np.array(
            [next((at for key, at in cell if key == name), -1) for _, cell in outer.functions]
        )
        levels = np.flatnonzero(places >= 0)
        of_levels[levels, places[levels]] = 1.0
        described = as_factor(name, self.factor.used.variables)
        left_out = described.names.index(outer.references[name])
        of_levels[levels, left_out] = -1.0
        of_levels[-1, left_out] = 1.0
        slopes = np.zeros((len(of_levels), q))
        slopes[np.flatnonzero(places < 0), np.arange(q)] = 1.0
        return slopes, of_levels


def _covariance(of_levels: Matrix, variances: Vector) -> Matrix:
    """That of sums of independent effects, of which most are of two."""
    from scipy.sparse import csr_array

    sums = csr_array(of_levels)
    return np.asarray((sums.multiply(variances) @ sums.T).todense())
