"""Slopes within the levels of a factor, by pairs of rows of one level (docs/theory/glm.md).

Nothing is asked of levels but about how many rows each has, and that decides how many blocks it is
cut into: of a level of any size, two rows are enough. Secret side: of what is read only the noisy
sums leave.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privgram.glm.budget import BUDGET
from privgram.glm.clipping import CLIPPING, Clip, choose_clip, norm_edges
from privgram.glm.one_step import OneStepEstimator
from privgram.glm.rounds import Rounds
from privgram.glm.state import LIMITS, ScoreState, radius_at_middle
from privgram.secret.kinds import HEAVIEST, PULL, WEIGHT_UNITS, Histogram, Model, Outer, Vectors
from privgram.secret.sweep import Blocks, Image, LevelImage, PairImage

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.glm.problem import FitParts, Problem
    from privgram.noise import GaussianLaw, NoiseLaw
    from privgram.secret.gate import Sum
    from privgram.secret.kinds import Kind


@dataclass(frozen=True)
class PairRules:
    """Shares of mu^2 where effects of levels are taken off by pairs, and how levels are cut."""

    #: The rank of the clip. A row moves the sum by more than twice as far, and so the usual rank
    #: is of more rows; but of no fewer than a deviation of their counts, which a row moves three
    #: times as far. Edges of counts are near each other up to so many root mean squares alone.
    rank: float = 5.0
    near: float = 8.0
    #: A middle round is taken again where pairs have this part of what they would more, all cut.
    cut: float = 0.25
    #: What middle rounds leave.
    kept: float = 0.1
    #: The rows of each level; and the means of the columns, where effects are not written out.
    numbers: float = 0.01
    means: float = 0.01
    #: Rows of a block, on average, where a level is surely larger. Larger blocks cost time, and
    #: smaller ones a part of the rows' weight.
    block: int = 32
    #: A level counts for as many deviations of its number's noise less: one that noise cuts too
    #: small loses weight.
    surely: float = 2.0


PAIRS = PairRules()


class PairRounds(Rounds):
    """Rounds of sums over pairs, which a row moves further than sums over rows."""

    def __init__(self, rounds: Rounds, blocks: Blocks) -> None:
        noise, replaced = rounds.noise, rounds.noise.adjacency == "replace"
        further = HEAVIEST * (3.0 if replaced else math.sqrt(5.0))
        std = noise.noise_std * further
        noise = replace(noise, mu=noise.mu / (3.0 * HEAVIEST), noise_std=std)
        super().__init__(rounds.moment, noise, rounds.gate)
        self.parameters, self.std = rounds.parameters, rounds.std
        self.blocks = blocks
        d, bound = len(rounds.moment.columns), float(rounds.moment.bound)
        [self._within] = self._paired(np.eye(d), self.outer(d, bound))

    @property
    def moves(self) -> float:
        """By how many vectors a sum moves, in units of three heavy ones."""
        return super().moves * (2 + PULL) / 3

    def take(self, moment: object, share: float) -> Matrix:
        """Release a second moment; within levels, if it is that of the table."""
        return super().take(self._within if moment is self.moment else moment, share)

    def std_at(self, radius: float, share: float) -> float:
        """Noise off the diagonal for pairs up to a radius."""
        kind = Outer(Model.features(2), radius, of_pairs=True)
        moves = kind.unit_of(None) * kind.moves(self.noise.adjacency)
        return moves / self.gate.mu(share) / math.sqrt(2.0)

    def sums_at(self, at: WhiteningTransform, *kinds: Kind) -> tuple[Sum, ...]:
        """Read sums over pairs of images of rows."""
        return self._paired(at.matrix, *kinds)

    def _paired(self, matrix: Matrix, *kinds: Kind) -> tuple[Sum, ...]:
        return self.gate.read(PairImage(self.blocks, matrix), *kinds)


class WithinEstimator(OneStepEstimator):
    """The rounds of slopes within levels, or units, of which no means are known."""

    sums_squares = False

    def __init__(self, rounds: Rounds, problem: Problem, public: int | None) -> None:
        super().__init__(rounds, problem, public)
        inner = problem.design.images
        self.joint = np.delete(inner, -2, axis=0)  # (q + 1, d), without the ones
        self.basis = np.linalg.qr(self.joint.T)[0].T
        self.images = self.joint @ self.basis.T
        self.q = len(self.joint) - 1
        self.usual_clip = LIMITS.usual_clip * math.sqrt(self.q * self.each)
        self.to_own_units = self.to_own_units[:, : self.q]

    def _with_mean(self, parts: FitParts, middle: Vector, std: float, rows: float) -> FitParts:
        """Slopes with the mean effect over rows, by means of columns (q + 1,) and their noise."""
        v = np.append(-parts.coef, 1.0)
        into = np.vstack([np.eye(self.q), -middle[:-1]])
        noise, sampling = into @ parts.noise @ into.T, into @ parts.sampling @ into.T
        noise[-1, -1] += (std * np.linalg.norm(v @ self.joint)) ** 2
        sampling[-1, -1] += parts.scale**2 / rows
        return replace(
            parts,
            coef=np.append(parts.coef, v @ middle),
            sampling=sampling,
            noise=noise,
            unidentified=into @ parts.unidentified @ into.T,
            rows=rows,
        )

    def _released_mean(self, known: Matrix) -> float:
        """Nothing is known of means."""
        return 0.0

    def _imposed(self, matrix: Matrix, law: GaussianLaw) -> tuple[Matrix, NoiseLaw]:
        """A second moment within levels, whose equations are others."""
        return matrix, law


class UnitEffectsEstimator(WithinEstimator):
    """The rounds of slopes with an effect of each protected unit: of rows less their unit's mean.

    The mean effect is that of the rows at hand, and its interval has no ends.
    """

    def __init__(self, rounds: Rounds, problem: Problem, public: int | None) -> None:
        super().__init__(rounds, problem, public)
        self.most *= 4.0  # what is left of a row may be twice as long
        rounds.within = True

    def fit(self) -> FitParts:
        """Go through all rounds, means of the columns first."""
        rounds = self.rounds
        columns = rounds.moment.columns
        assert columns is not None
        d, bound = len(columns), float(columns.bound)
        whole = Vectors(Model.features(d), float(rounds.moment.bound) ** 2 / bound)
        [sums] = rounds.gate.read(Image(np.eye(d), bound), whole)
        total, std = rounds.score(sums, PAIRS.means)
        parts = super().fit()
        if parts.stopped:
            return parts
        rows = max(parts.rows, 1.0)
        parts = self._with_mean(parts, self.joint @ total / rows, std / rows, rows)
        parts.unidentified[-1, -1] += 1.0
        return replace(parts, facts=replace(parts.facts, unit_effects=True))


class PairEstimator(WithinEstimator):
    """The rounds of the slopes beside one factor; as `OneStepEstimator`, over pairs."""

    def __init__(self, rounds: Rounds, problem: Problem, public: int | None) -> None:
        super().__init__(rounds, problem, public)
        assert problem.factor is not None
        self.factor = problem.factor
        self.plain = rounds
        self.kept = PAIRS.kept
        self.until = 1.0  # the share of mu^2 that slopes leave off at
        self.most = 2.0  # differences over the root of 2 are longer than rows by that
        short = radius_at_middle(1.0, len(self.basis)) ** -2  # what rows have that are as thought
        self.most_cut = short + PAIRS.cut * (1 - short)
        #: The part of the rows' weight within levels that the blocks' own means take.
        self.lost = 0.0

    @property
    def left(self) -> float:
        """The share of mu^2 that slopes have left."""
        return self.until - self.rounds.spent

    def fit(self) -> FitParts:
        """Go through all rounds; the constant is the mean effect, by means of the columns."""
        plain, others = self.plain, self.factor.other_columns
        rows = self._number()
        numbers, sums = self._by_level(
            np.eye(len(others)),
            None,
            self._weights,
            Vectors(Model.features(len(others)), float(others.bound)),
        )
        number, count_std = plain.score(numbers, PAIRS.numbers)
        means, std = plain.score(sums, PAIRS.means)
        parts = self.slopes(number.ravel(), count_std, rows)
        if parts.stopped:
            return parts
        return self._with_mean(parts, self.joint @ means / rows, std / rows, rows)

    def _with_mean(self, parts: FitParts, middle: Vector, std: float, rows: float) -> FitParts:
        parts, factor = super()._with_mean(parts, middle, std, rows), self.factor
        facts = replace(parts.facts, absorbed=factor.factor, absorbed_levels=factor.size)
        return replace(parts, facts=facts)

    @property
    def _weights(self) -> Vectors:
        """The kind of the numbers of rows by level."""
        return Vectors(Model.level("weight"), 1.0, self.factor.size, positive=True)

    def _number(self) -> float:
        plain = self.plain
        if self.public is None or plain.moment.columns.missing == "drop":  # some of the public
            return max(plain.number(BUDGET.number), 1.0)
        return max(float(self.public), 1.0)

    def _by_level(self, matrix: Matrix, centres: Matrix | None, *kinds: Kind) -> tuple[Sum, ...]:
        """Read sums of rows by level."""
        factor = self.factor
        image = LevelImage(factor.used, factor.other_columns, factor.factor, matrix, centres)
        return self.plain.gate.read(image, *kinds)

    def slopes(self, number: Vector, count_std: float, rows: float) -> FitParts:
        """Go through the rounds of slopes, by about how many rows levels have."""
        surely = number - PAIRS.surely * count_std
        bins = np.maximum(np.floor(surely / PAIRS.block), 1.0)
        # Blocks lose a row's weight, levels of one block do not: large levels weigh as they should.
        more = np.where(bins > 1, number / np.maximum(number - bins, 1.0), 1.0)
        factor = self.factor
        blocks = Blocks(factor.used, factor.other_columns, factor.factor, bins, WEIGHT_UNITS * more)
        whole = max(rows - float((bins == 1).sum()), rows / 2)
        self.lost = min(float((bins - 1).sum()) / whole, 1.0)
        self.within = whole
        self.rounds = PairRounds(self.plain, blocks)
        parts = super().fit()
        if parts.stopped:
            return parts
        # What the slopes by blocks differ by from those by levels.
        kept = 1 - self.lost
        noise = parts.noise + self.lost * parts.sampling
        return replace(parts, sampling=kept * parts.sampling, noise=noise)

    def _count_rows(self, first: Matrix) -> float:
        """About the weight of all pairs: levels of one block lose one row's."""
        return self.within

    def _choose_clip(self, state: ScoreState, share: float) -> Clip:
        """Release how many scores are long, and choose the clip."""
        typical, rounds = math.sqrt(self.q), self.rounds
        edges = norm_edges(typical, self._longest(state) * self.most)
        # Counts are noisy, and the noisier the more there are.
        places = np.arange(len(edges))
        kept = (edges >= typical) & (edges <= PAIRS.near * typical)
        kept |= (places % CLIPPING.per_octave == 0) | (places == places[-1])
        edges = edges[kept]
        [counts] = rounds.sums_at(self._at(state), Histogram(self._scores(state), edges))
        beyond, std = rounds.beyond(counts, share), rounds.beyond_std
        noise = rounds.moves / rounds.mu(self.left * (1 - BUDGET.meat[0]))
        rank = max(PAIRS.rank, std / noise)
        return choose_clip(edges, beyond, noise, deviation=std, rank=rank)

    def _sampled(self, meat: Matrix, state: ScoreState) -> Matrix:
        """How the score varies.

        The second moment of pairs is the mean of that of rows and of one of equal variances, which
        is taken off as far as the scale is known.
        """
        if not self.problem.robust:
            return super()._sampled(meat, state)
        values, vectors = np.linalg.eigh(meat)
        sure = state.sure_scale
        equal = (1 + sure / LIMITS.sure) / (1 + 1 / LIMITS.sure) * state.rows  # the scale itself
        of_rows = np.maximum(values + sure * (values - equal), values / 2)
        return np.asarray((vectors * of_rows) @ vectors.T)
