"""Models with links, and Huber's loss, by scores: rounds beyond those of least squares.

Secret side: of what is read only the noisy sums leave.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privgram.adaptive.radius import bin_edges
from privgram.disclosure.repairs import impose
from privgram.glm import state as states
from privgram.glm.budget import BUDGET
from privgram.glm.clipping import Clip, norm_edges
from privgram.glm.one_step import OneStepEstimator, model_of
from privgram.glm.problem import HuberEquation
from privgram.glm.state import LIMITS, ScoreState, isotropic
from privgram.regression.families import Bounded, Expected, Poisson
from privgram.regression.goodness import LikelihoodGain
from privgram.secret.kinds import Histogram, Model, Outer, Vectors

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.glm.problem import FitParts, Problem
    from privgram.glm.rounds import Rounds

UNSETTLED = (
    "the steps have not settled: the target may be separable or near an end of its range, or the "
    "noise too large for so few rows. Leave out features by which the target is certain, or take "
    "more rows, a larger epsilon or fewer features"
)


#: Means of counts end at so many times the target's upper bound.
EXPECTED_BEYOND = 5.0


class GLMEstimator(OneStepEstimator):
    """The rounds of one generalised linear model; as `OneStepEstimator`.

    The Hessian depends on the coefficients. So middle rounds release it there, and a score
    to go on by.
    """

    #: They do not: they are clipped by what is expected of them.
    one_way = False
    sums_squares = False
    #: Of pieces of time others: whether rows are these, deviations of noise that make no step a far
    #: one, the most share of a middle score, and the end of means.
    by_pieces = False
    sure_of_far = 0.0
    most_middle = BUDGET.middle_score[1]
    end: float | None = None
    #: What noise leaves beside the Hessian.
    fine = LIMITS.fine

    def __init__(self, rounds: Rounds, problem: Problem, public: int | None) -> None:
        super().__init__(rounds, problem, public)
        self.family = problem.family
        columns = rounds.moment.columns
        assert columns is not None
        self.weighted = columns.row_weights is not None
        #: Whether the fit is compared with that of a constant alone.
        self.compares = problem.design.intercept and problem.purpose == "inference"
        self.compares &= problem.offset is None and problem.unit is None and not self.weighted
        self.reserved += BUDGET.explained if self.compares else 0.0
        #: The image (d,) that is added to the linear predictor, in its own units.
        self.offset: Vector | None = None
        if (explained := problem.offset_design) is not None:
            low, high = explained.ends
            self.offset = (high - low) / 2 * explained.images[-1] + (low + high) / 2 * self.ones
        if self.end is None and self.family.counts:
            # A model may expect more of a row than there can be: so it is of rates.
            self.end = EXPECTED_BEYOND * sum(self.target)
        self.constant = False
        #: Mean weights of rows, without features and where the Hessian was taken last.
        self.weights = (1.0, 1.0)
        #: The target's mean by counts, and what noise may make of it.
        self.mean = (1.0, 0.0)
        self.levels = False
        #: The same by the first second moment.
        self.released = (1.0, 0.0)
        #: No middle step is longer, in the root mean square of eta times the root of the weight.
        self.longest_step = LIMITS.longest
        #: Of rounds for the Hessian, once norms were counted.
        self.radius: float | None = None

    def fit(self) -> FitParts:
        """Go through all rounds."""
        rounds = self.rounds
        first = rounds.take(rounds.moment, self.first_share)
        rows = self._count_rows(first)
        state = self._linear(first, rows)
        # A rare level's rows would stand out.
        few = LIMITS.few * rows
        counts_tell = rounds.noise.counts_std(rounds.mu(BUDGET.norms)) < few and not self.of_units
        wider = running = False
        for _ in range(BUDGET.most_middles):
            state = self._clearly(state)
            if state.hides_all:
                break
            if self.radius is None and counts_tell:
                used = states.hessian_round(self._std_at, state, 1.0)[0]
                self.radius = self._long_radius(state)
                wider = self.radius > LIMITS.wider * used  # rows of rare levels were clipped
                if wider:
                    state = self._with_long(state, used)
            # As much as makes its noise that of a sample.
            share = (rounds.moves * self.usual_clip / rounds.mu(1.0)) ** 2 / rows
            share = min(max(share, BUDGET.middle_score[0]), self.most_middle)
            state, step, far = self._middle(state, share)
            running = self._runs_away(first, state, step, math.sqrt(state.score_noise_var))
            if not (far or running) or self.left <= BUDGET.reserved:
                break
        else:
            running = running or far  # after as many rounds as there are
        # All targets are all but certain: of separated classes, steps only get shorter.
        running = running or self.weights[1] < LIMITS.certain * self.weights[0]
        if self._is_lost(state):
            return self._stopped(state)
        if (running or self.constant) and self.problem.purpose == "inference":
            return self._stopped(state, UNSETTLED)
        if state.hides or wider or state.hessian_bias > LIMITS.stale:  # or the step led elsewhere
            least = self.left - BUDGET.reserved_at_last if state.hides else 0.0
            near = self._at_hessian(state, least)
            lost = state.hides or state.hessian_bias > LIMITS.most_stale
            state = near if lost or not near.hides else state
        clip = self._choose_clip(state, self.up_to(BUDGET.counts))
        state = self._with_clip(state, clip)
        if self.compares and (state.hides or not 0 < self._mean()[0] < sum(self.target)):
            self.compares = False
            self.reserved -= BUDGET.explained
        parts = self._last_scores(state, clip)
        path = parts.path
        assert path is not None
        owed = math.sqrt(self.q) * path.noise_std / rows
        moved = float(np.linalg.norm(state.along(path.second))) / rows
        unsettled = moved > LIMITS.settled + 3 * owed or running or self.constant
        unsettled = unsettled or self._runs_away(first, state, path.whole, path.noise_std)
        unsettled = unsettled or state.hessian_bias > LIMITS.most_stale
        if unsettled or state.bends(path.whole, LIMITS.most_bent, path.noise_std):
            parts = replace(parts, refusal=parts.refusal or UNSETTLED)
        # The second of the last steps went by the Hessian of where the first began.
        way = float(np.linalg.norm(state.along(parts.coef - path.second - state.coef)))
        changed = min(2 * state.curvature * way / rows, LIMITS.most_changed)
        ahead = changed / (1 - changed) * state.along(path.second)
        parts = replace(parts, noise=parts.noise + state.covariance(np.outer(ahead, ahead)))
        return self._compared(state, parts, clip) if self.compares else parts

    def _mean(self) -> tuple[float, float]:
        """The target's mean, as the record has it, and its error."""
        known = self.rounds.parameters
        return float(known["target_mean"]), float(known["target_mean_std"])

    def _compared(self, state: ScoreState, parts: FitParts, clip: Clip) -> FitParts:
        """The fit with what its log likelihood gains over that of a constant (docs/theory/glm.md).

        That is the integral of b^T S(t) on the way b from the constant: by S(0), which is released
        along b, and by S(1) = 0 and S'(1) = -H b.
        """
        rounds, rows = self.rounds, state.rows
        (mean, mean_std), (center, half) = self._mean(), self.target
        metric = np.linalg.inv(state.whitening).T
        noise, one, off = metric @ parts.noise @ metric.T, metric[:, -1], mean_std
        if self.family.counts:  # the mean by bins is somewhat too high: that of the fit is not
            mean = float(one @ (one + metric @ (parts.coef - state.coef)))
            off = min(state.hessian_bias * mean, abs(mean - self.released[0]) + self.released[1])
            off = math.sqrt(max(float(one @ noise @ one), 0.0) + off**2)
        if not 0 < mean < center + half:
            return parts
        way = parts.coef - self.family.predictor(mean) * np.eye(self.q)[-1]
        left = half * self.joint[-1] + (center - mean) * self.ones
        of_z = metric @ way
        length = float(np.linalg.norm(of_z))
        if not 0 < clip.size * length < math.inf:
            return parts
        along = self._map_to(np.vstack([way @ self.joint[:-1], left]))
        [total] = rounds.sums_at(along, Vectors(Model.residual(1), clip.size * length))
        start, std = rounds.score(total, BUDGET.explained)
        error = clip.error(std / length) * length
        curved = rows * (length**2 - float(np.trace(noise)))
        of_hessian = float(state.hessian_noise.entry_variance(np.eye(self.q), of_z[None])[0, 0])
        square = error**2 / 9 + (state.hessian_bias * rows * length**2 / 6) ** 2
        by_coef = float(4 / 9 * of_z @ noise @ of_z + (noise * noise).sum() / 18)
        square += rows**2 * (of_hessian / 36 + by_coef)
        gain = (float(start[0]) / 3 + curved / 6) / rows
        # What S(t) is beside a parabola, and a constant with another mean loses.
        rule = (gain**2 / 6 + off**2 / 2) / self.family.variance(mean)
        stderr = math.hypot(math.sqrt(square) / rows, rule)
        null, of_null = self.family.log_likelihood(mean), abs(self.family.predictor(mean))
        likelihood = LikelihoodGain(gain, stderr, null, of_null * mean_std)
        if parts.refusal is not None or not likelihood.is_finite:
            return parts
        return replace(parts, facts=replace(parts.facts, likelihood=likelihood))

    def _with_clip(self, state: ScoreState, clip: Clip) -> ScoreState:
        """The state after steps by scores with the last clip, where it is longer than before.

        Scores that were clipped more led to the root of another equation. No more noise than that
        of a sample is worth it.
        """
        share = BUDGET.ahead * self.left
        noise = self._noise_at(state, clip.size, BUDGET.ahead)
        if noise > 1 or (clip.size <= LIMITS.wider * self.usual_clip and not self.levels):
            return state
        self.levels = False  # which these know better than counts by bins
        for _ in range(BUDGET.most_ahead):
            if self.left <= BUDGET.reserved_at_last:
                break
            state, _, far = self._middle(state, share, clip.size)
            if not far:
                break
            state = self._at_hessian(state)
        return state

    def _clearly(self, state: ScoreState) -> ScoreState:
        """Release the Hessian at a state, and again in the frames that it gives, till seen."""
        for _ in range(BUDGET.most_hessians):
            state = self._at_hessian(state)
            if not state.hides or self.left <= BUDGET.reserved:
                break
        return self._limited(state)

    def _linear(self, first: Matrix, rows: float) -> ScoreState:
        """Least squares on the scale of the link at the mean."""
        std, features = self.rounds.std[-1], self.joint[:-1]
        known, law = impose(first, isotropic(std), self.rounds.moment.columns)
        center, half = self.target
        target = half * self.joint[-1] + center * self.ones
        count = max(float(self.ones @ known @ self.ones), 1.0)
        mean = self.family.mean_of_none
        square = float(target @ known @ target) / count
        released = self._released_mean(known)
        if self.problem.design.intercept:
            mean = released
            doubt = 2 * std * float(np.linalg.norm(target) * np.linalg.norm(self.ones)) / count
            self.released = released, doubt / 2
            at_end = self.family.counts and center + half - released < doubt
            if self.by_pieces or not (self.of_units or self.weighted):
                counted = self._counted(target, rows)
                if counted[0] > 0 and counted[2] < doubt:  # which misses parts of 1
                    mean, square, doubt, between = counted
                    whole = math.hypot(doubt, 2 * between)
                    self.rounds.parameters |= {"target_mean": mean, "target_mean_std": whole / 2}
                    self.mean = mean, whole
                    self.levels = self.family.counts and not self.by_pieces
            # All targets may be the same.
            least = min(mean, center + half - mean)
            self.constant = (at_end or least < LIMITS.sure * doubt) and not self.of_units
            least = min(LIMITS.least_mean, max(doubt / 2, LIMITS.least_mean_at_all))
            low, high = least, (center + half) - least
            mean = min(max(mean, low), max(high, low))
        weight = self.family.variance(mean)
        response, level = target - mean * self.ones, 0.0
        if self.offset is not None:
            if self.problem.design.intercept:
                level = float(self.offset @ known @ self.ones) / count
            response = response - weight * (self.offset - level * self.ones)
        joint = np.vstack([features, response])
        events = Poisson() if self.of_units else self.family  # a unit may have many
        far = LIMITS.wider
        if self.by_pieces:  # one event is in one of a row's pieces
            far /= math.sqrt(self.each)
            self.most_long = mean * rows  # of rare events all others have short scores
        self.usual_clip *= events.clip_factor(mean, square, far, LIMITS.usual_clip)
        state = states.initial_state(
            joint @ known @ joint.T, law.image(joint), std * joint @ joint.T, rows
        )
        # On that scale a start may be far off, by noise or where the link bends.
        per_row = state.scale / weight / rows
        size = max(per_row * float(np.linalg.norm(state.along(state.coef))), 1e-300)
        by_noise = max(per_row * math.sqrt(float(np.trace(state.score_noise))), 1e-300)
        part = min(LIMITS.quiet / by_noise, LIMITS.longest_start / size)
        coef = state.coef * min(max(1 - (by_noise / size) ** 2, 0.0), part) / weight
        self.longest_step = LIMITS.longest * min(1.0, math.sqrt(weight))
        self.weights = weight, weight
        if self.problem.design.intercept:
            coef[-1] += self.family.predictor(mean) - level
        bend = self._bend(weight)
        white = state.whitening / math.sqrt(weight)
        noise = state.score_noise * (state.scale**2 / weight)
        # Counts vary less than their mean m > 1 may do, and by m (1 - m) at least.
        sure = max(1 - mean, 0.0) if self.family.counts and not self.by_pieces else 1.0
        return replace(
            state, coef=coef, scale=1.0, sure_scale=sure, whitening=white, curvature=bend,
            score_noise=noise,
        )  # fmt: skip

    def _bend(self, weight: float) -> float:
        """What a step leaves out of its square, where rows have this mean weight."""
        return max(LIMITS.bend, self.family.skewness(weight) / 2)

    def _counted(self, target: Vector, rows: float) -> tuple[float, float, float, float]:
        """Mean and mean square of the target by counts of its values; what noise may do to it.

        And the error of the mean by what is not known between edges, where counts are taken to fall
        by equal parts. A row counts 1 however wide the bounds of the target are.
        """
        most = max(self.target[0] + self.target[1], 1.0)
        if self.problem.unit is not None and self.problem.unit.name:
            most *= self.most
        # Beyond the last half no count is, so that sums between are exact there too.
        edges = 0.5 + np.append(np.append(0.0, bin_edges(1.0, most, 1)[:-1]).clip(max=most), most)
        values = Histogram(Model.features(1), edges)
        [counts] = self.rounds.sums_at(self._map_to(target[None]), values)
        beyond = self.rounds.beyond(counts, BUDGET.targets)
        doubt = LIMITS.seen * self.rounds.beyond_std
        beyond = np.where(beyond > doubt, beyond, 0.0)
        between = (beyond[1:] + beyond[:-1]) / 2  # sums of counts beyond k + 1/2 are exact
        widths, fall = np.diff(edges), np.diff(-beyond)
        ratio = (beyond[1:] / np.maximum(beyond[:-1], 1.0)) ** (1 / np.maximum(widths, 1.0))
        falls = (beyond[1:] > 0) & (fall > 0)
        sums = np.where(falls, fall / np.where(falls, 1 - ratio, 1.0) - fall / 2, between * widths)
        mean = (beyond[0] / 2 + float(sums.sum())) / rows
        square = float(between @ np.diff(edges**2)) / rows
        unknown = float(fall @ np.maximum(widths - 1, 0.0)) / 2  # either way
        seen = widths[beyond[1:] > 0]  # each with noise times its width
        noise = doubt * max(float(np.linalg.norm(seen)), 1.0)
        return mean, square, noise / rows, unknown / math.sqrt(12.0) / rows

    def _at_hessian(self, state: ScoreState, least: float = 0.0) -> ScoreState:
        """Release the Hessian at a state, as closely as it takes, and go into its frame."""
        rounds, q = self.rounds, self.q
        radius, share = states.hessian_round(self._std_at, state, self.each, self.radius, self.fine)
        curved = model_of(self._model(state), curved=True)
        [total] = rounds.sums_at(self._at(state), rounds.outer(q, radius, curved))
        hessian = rounds.take(total, max(share, least))
        near = states.in_frame_of(state, hessian, rounds.std[-1])
        if self.problem.design.intercept and not self.weighted:
            mean_weight = float(np.sum(np.linalg.inv(near.whitening)[-1] ** 2))
            near = replace(near, curvature=self._bend(mean_weight))
            self.weights = self.weights[0], mean_weight
            near = self._levelled(near)
        whole = self.of_units and not self.by_pieces
        return replace(near, hessian_bias=LIMITS.hessian_bias_of_units) if whole else near

    def _levelled(self, state: ScoreState) -> ScoreState:
        """The state whose means are the target's in the mean, as those of the root are."""
        if not self.levels:
            return state
        (mean, doubt), weight, one = self.mean, self.weights[1], np.eye(self.q)
        ones = np.asarray(np.linalg.inv(state.whitening), float)[-1, None]
        of_weight = math.sqrt(float(state.hessian_noise.entry_variance(one, ones)[0, 0]))
        far = math.log(mean / weight)
        least = math.hypot(doubt / mean, LIMITS.seen * of_weight / weight)
        sure = math.copysign(max(abs(far) - least, 0.0), far)
        whitening = state.whitening * math.exp(-sure / 2)
        return replace(state, coef=state.coef + sure * one[-1], whitening=whitening)

    def _std_at(self, radius: float) -> float:
        """Noise off the diagonal of a second moment that gets all of mu^2."""
        return self.rounds.std_at(radius, 1.0)

    def _long_radius(self, state: ScoreState) -> float:
        """The radius of rounds for the Hessian, by a released histogram of the norms there."""
        expected = self._model(state)
        longest = self._far(self._at(state).matrix[: self.q]) * expected.steepest
        edges = norm_edges(math.sqrt(self.q), longest)
        lengths = Histogram(model_of(expected, curved=True), edges, "squares")
        [counts] = self.rounds.sums_at(self._at(state), lengths)
        beyond = self._seen(self.rounds.beyond(counts, BUDGET.norms), BUDGET.norms)
        noise = self._std_at(1.0) / math.sqrt(BUDGET.hessian[1])
        return states.hessian_radius(edges, states.lost_squares(edges, beyond), noise, self.q)[0]

    def _with_long(self, state: ScoreState, used: float) -> ScoreState:
        """The state with what rounds that clip rows at a radius miss, where others would hide all.

        Of a Hessian of whole rows only what stands out is believed. In the frame that this gives
        they are not as long.
        """
        rounds, q, share = self.rounds, self.q, BUDGET.hessian[1]
        assert self.radius is not None
        noise = self._std_at(1.0) / math.sqrt(share)
        clear = math.sqrt(LIMITS.clear_edge * state.rows / states.hessian_noise_edge(q, noise))
        if self.radius <= max(clear, used):
            return state
        curved = model_of(self._model(state), curved=True)
        [total] = rounds.sums_at(self._at(state), rounds.outer(q, self.radius, curved))
        hessian = rounds.take(total, share)
        after = states.with_excess(state, hessian, rounds.std[-1], self.radius)
        self.radius = max(min(math.hypot(used, after.longest), clear), used)
        return after

    def _middle(
        self, state: ScoreState, share: float, clip: float | None = None
    ) -> tuple[ScoreState, Vector, bool]:
        """Release a score, and go where it leads; with the step, and whether it was a far one."""
        clip = clip or self.usual_clip
        score, std = self._score(state, clip, share)
        if self.levels:  # which counts know, and clipped scores do not
            ones = np.linalg.inv(state.whitening)[-1]
            score = score - ones * (float(score @ ones) / float(ones @ ones))
        # No farther than the score stands out of its noise.
        square = float(score @ score)
        clear = max(0.0, 1 - self.q * std**2 / square)
        step = state.step(score) * clear
        most = LIMITS.far * min(1.0, self._noise_at(state, self.usual_clip, 1.0))
        sure = square - (self.q + self.sure_of_far * math.sqrt(2.0 * self.q)) * std**2
        far = state.curvature * sure / state.rows > most * math.sqrt(state.rows)
        size = float(np.linalg.norm(state.along(step))) / state.rows
        step *= min(1.0, self.longest_step / max(size, 1e-300))
        if far:
            step *= self._part(state, step, float(score @ state.along(step)), clip)
        # The Hessian stays that of where the step began.
        size = float(np.linalg.norm(state.along(step))) / state.rows
        bias = math.hypot(state.hessian_bias, 2 * state.curvature * size)
        return replace(state.moved(step, clear * std**2), hessian_bias=bias), step, far

    def _ahead(self, score: Vector, std: float) -> float:
        """As much as stands out of the noise, where events are few."""
        return max(0.0, 1 - self.q * std**2 / float(score @ score))

    def _part(self, state: ScoreState, step: Vector, rise: float, clip: float) -> float:
        """The part of a step at which the score along it, `rise` before it, is about 0.

        All of it, unless the score after it points back: where few rows carry a direction, or have
        most of the means, their weights are others there than where the step began.
        """
        part, along = 1.0, state.along(step)
        for _ in range(BUDGET.most_back):
            ahead = replace(state, coef=state.coef + part * step)
            score, std = self._score(ahead, clip, BUDGET.back)
            back = -float(score @ along) - 2 * std * float(np.linalg.norm(along))
            if back < LIMITS.overshot * rise or self.left <= BUDGET.reserved:
                break
            part *= rise / (rise + back)
        return part

    def _runs_away(self, first: Matrix, state: ScoreState, step: Vector, noise: float) -> bool:
        """Whether a step changes eta by more than noise does, or noise by more than a step may."""
        features = state.whitening @ self.joint[:-1]
        square = max(float(np.trace(features @ first @ features.T)), 0.0)
        by_noise = noise * math.sqrt(square / state.rows) / state.rows
        far = self._spread(first, step, state.rows) > LIMITS.runaway + 2 * by_noise
        return far or by_noise > LIMITS.longest

    def _spread(self, first: Matrix, step: Vector, rows: float) -> float:
        """Root mean square over rows of what a step changes eta by; at least that, but for luck."""
        along, std = self.joint[:-1].T @ step, self.rounds.std[0]
        square = float(along @ first @ along) - 2 * math.sqrt(2.0) * std * float(along @ along)
        return math.sqrt(max(square, 0.0) / rows)

    def _pooled(self, meat: Matrix, rows: float) -> Matrix:
        """The second moment of scores as the model has it."""
        return np.asarray(rows * np.eye(self.q))

    def _model(self, state: ScoreState) -> Expected:
        inverse = np.linalg.inv(state.whitening)
        ones = inverse[-1] if self.weighted else None
        offset = self.offset is not None
        return Expected(self.family, inverse.T @ state.coef, self.target, ones, offset, self.end)

    def _at(self, state: ScoreState) -> WhiteningTransform:
        """The map to (z, target), and to the offset where there is one, at a state."""
        rows = [state.whitening @ self.joint[:-1], self.joint[-1]]
        return self._map_to(np.vstack(rows if self.offset is None else [*rows, self.offset]))

    def _longest(self, state: ScoreState) -> float:
        """The largest score that a row can have."""
        leading = self._at(state).matrix[: self.q]
        return self._far(leading) * self._model(state).most


class HuberEstimator(OneStepEstimator):
    """The rounds of one regression by Huber's loss with bounded leverage; as `OneStepEstimator`."""

    sums_squares = False

    def __init__(self, rounds: Rounds, problem: Problem, public: int | None) -> None:
        super().__init__(rounds, problem, public)
        self.bounded = Bounded(self.q)
        #: No score is longer.
        self.usual_clip = self.bounded.most * self.bounded.longest
        #: The frame of leverage, and of all scores.
        self.leverage_whitening: Matrix | None = None

    def fit(self) -> FitParts:
        """Go through all rounds."""
        rounds = self.rounds
        first = rounds.take(rounds.moment, self.first_share)
        rows = self._count_rows(first)
        state = self._initial(first, rows)
        hidden = state.hides
        self.leverage_whitening = state.whitening
        left = self.left
        for share in BUDGET.huber_ahead:
            state = self._at_hessian(state)
            score, std = self._score(state, self.usual_clip, share * left)
            step = state.step(score)
            size = float(np.linalg.norm(state.along(step))) / rows
            step *= min(1.0, LIMITS.longest / max(size, 1e-300))
            state = state.moved(step, std**2)
        state = self._at_hessian(state)
        if hidden:
            state = replace(state, visible=np.zeros(self.q))
        parts = self._last_scores(state, Clip(self.usual_clip, 0.0, allowance=0.0))
        assert parts.path is not None
        if state.bends(parts.path.whole, LIMITS.most_bent, parts.path.noise_std):
            parts = replace(parts, refusal=parts.refusal or UNSETTLED)
        # All that says which equation it was, in own units.
        design = self.problem.design
        to_own_units = design.transform[: self.q] / design.spread[-1]
        whitening = self.leverage_whitening @ to_own_units.T
        equation = HuberEquation(self.bounded.most, self.bounded.longest, whitening.tolist())
        return replace(parts, facts=replace(parts.facts, huber=equation))

    def _contradicts(self, state: ScoreState, mean_square: float) -> bool:
        """Never: scores that are bounded are short where errors have heavy tails."""
        return False

    def _at_hessian(self, state: ScoreState) -> ScoreState:
        """Release the Hessian at a state, and let steps go by it."""
        rounds = self.rounds
        radius = self.bounded.longest
        curved = model_of(self.bounded, curved=True)
        [total] = rounds.sums_at(self._at(state), Outer(curved, radius))
        hessian = rounds.take(total, BUDGET.huber_hessian)
        assert self.leverage_whitening is not None
        return states.by_hessian(state, self.leverage_whitening, hessian, rounds.std[-1])

    def _at(self, state: ScoreState) -> WhiteningTransform:
        """The map to (z, r) at a state, z in the frame of leverage."""
        assert self.leverage_whitening is not None
        return super()._at(replace(state, whitening=self.leverage_whitening))

    def _model(self, state: ScoreState) -> Bounded:
        return self.bounded
