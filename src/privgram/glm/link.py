"""Models with links by scores: rounds beyond those of least squares.

Secret side: of what is read only the noisy sums leave.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.drawing.draws import impose
from privgram.glm import state as states
from privgram.glm.accumulators import Curved, Modelled, NormHistogram
from privgram.glm.budget import BUDGET
from privgram.glm.clipping import norm_edges
from privgram.glm.one_step import OneStepEstimator, summed
from privgram.glm.rounds import counts_of
from privgram.glm.state import LIMITS, isotropic
from privgram.moment import SecondMoment
from privgram.regression.design import AllColumns, intercept_of
from privgram.regression.families import FAMILIES, Expected

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.glm.problem import FitParts, Problem
    from privgram.glm.rounds import Rounds
    from privgram.glm.state import ScoreState
    from privgram.mechanisms.refined import Frame

UNSETTLED = (
    "the steps have not settled: the target may be separable or near an end of its range, or the "
    "noise too large for so few rows"
)


class GLMEstimator(OneStepEstimator):
    """The rounds of one generalised linear model; as `OneStepEstimator`.

    The Hessian depends on the coefficients. So rounds at the middle release it there, and a score
    to go on by.
    """

    def __init__(self, rounds: Rounds, problem: Problem, public: int | None) -> None:
        super().__init__(rounds, problem, public)
        self.family = FAMILIES[problem.family]
        columns = rounds.moment.columns
        assert columns is not None
        low, high = problem.design.ends
        self.target = ((low + high) / 2, (high - low) / 2)
        self.weighted = columns.row_weights is not None
        ones = intercept_of(AllColumns(columns))
        assert ones is not None  # `needed` has them
        self.ones = ones
        self.constant = False
        #: Of rounds at the Hessian, once norms were counted.
        self.radius: float | None = None

    def fit(self) -> FitParts:
        """Go through all rounds."""
        rounds = self.rounds
        first = rounds.take(rounds.moment, self.first_share)
        rows = self._count_rows(first)
        state = self._linear(first, rows)
        # A rare level's rows would stand out.
        few = LIMITS.few * rows
        shown = rounds.noise.counts_std(rounds.mu(BUDGET.norms)) < few and not self.of_units
        wider = running = False
        for _ in range(BUDGET.most_middles):
            state = self._clearly(state)
            if state.hides_all:
                break
            # As much as makes its noise that of a sample.
            share = (rounds.moves * self.usual_clip / rounds.mu(1.0)) ** 2 / rows
            share = min(max(share, BUDGET.middle_score[0]), BUDGET.middle_score[1])
            state, step, far = self._middle(state, share)
            running = self._spread(first, step, rows) > LIMITS.runaway
            if self.radius is None and shown:
                used = states.hessian_round(self._std_at, state, 1.0)[0]
                self.radius = self._long_radius(state)
                wider = self.radius > LIMITS.wider * used  # rows of rare levels were clipped
            if not (far or running) or self.left <= BUDGET.kept:
                break
        if state.hides or wider or state.hessian_bias > LIMITS.stale:  # or the step led elsewhere
            least = self.left - BUDGET.kept_at_last if state.hides else 0.0
            near = self._at_hessian(state, least)
            state = near if state.hides or not near.hides else state
        clip = self._choose_clip(state, BUDGET.counts)
        parts = self._last_scores(state, clip)
        step = parts.coef - state.coef
        owed = math.sqrt(self.q * (state.score_noise_var + parts.facts["score_noise"] ** 2)) / rows
        runaway = float(np.linalg.norm(state.along(step))) / rows > LIMITS.settled + 3 * owed
        last = parts.facts["last_step"]
        runaway = runaway or running or self.constant
        runaway = runaway or self._spread(first, last, rows) > LIMITS.runaway
        if runaway or state.bends(last, LIMITS.most_bent, parts.facts["score_noise"]):
            parts = replace(parts, refusal=parts.refusal or UNSETTLED)
        return parts

    def _clearly(self, state: ScoreState) -> ScoreState:
        """Release the Hessian at a state, and again in the frames that it gives, till seen."""
        state = self._at_hessian(state)
        while state.hides and self.left > BUDGET.kept:
            state = self._at_hessian(state)
        return state

    def _linear(self, first: Matrix, rows: float) -> ScoreState:
        """Least squares on the scale of the link at the mean."""
        std, features = self.rounds.std[-1], self.joint[:-1]
        known, law = impose(first, isotropic(std), self.rounds.moment.columns)
        binomial = self.family.name == "binomial"
        center, half = self.target
        own = half * self.joint[-1] + center * self.ones
        mean = 0.5 if binomial else 1.0  # of no linear predictor
        if self.problem.design.intercept:
            count = max(float(self.ones @ known @ self.ones), 1.0)
            mean = float(own @ known @ self.ones) / count
            doubt = 2 * std * float(np.linalg.norm(own) * np.linalg.norm(self.ones)) / count
            # All targets may be the same.
            self.constant = min(mean, center + half - mean) < doubt and not self.of_units
            low, high = LIMITS.least_mean, (center + half) - LIMITS.least_mean
            mean = min(max(mean, low), max(high, low))
        weight = mean * (1 - mean) if binomial else mean
        joint = np.vstack([features, own - mean * self.ones])
        edge = 2 * math.sqrt(self.q + 1) * std * joint @ joint.T
        if binomial and not self.of_units:
            most = max(mean, 1 - mean)
            self.usual_clip *= LIMITS.wider * math.sqrt(most / (1 - most)) / LIMITS.usual_clip
        else:
            # Of counts, by how much they vary.
            square = float(own @ known @ own) / max(float(self.ones @ known @ self.ones), 1.0)
            self.usual_clip *= math.sqrt(max((square - mean**2) / mean, 1.0))
        state = states.initial_state(joint @ known @ joint.T, law.image(joint), edge, rows)
        size = float(np.linalg.norm(np.linalg.solve(state.whitening.T, state.coef))) / weight
        coef = state.coef * min(1.0, LIMITS.longest / max(size, 1e-300)) / weight
        if self.problem.design.intercept:
            coef[-1] += self.family.predictor(mean)
        skew = abs(1 - 2 * mean) if binomial else 1.0
        bend = max(LIMITS.bend, skew / (2 * math.sqrt(weight)))
        white = state.whitening / math.sqrt(weight)
        return replace(state, coef=coef, scale=1.0, whitening=white, curvature=bend)

    def _at_hessian(self, state: ScoreState, least: float = 0.0) -> ScoreState:
        """Release the Hessian at a state, as closely as it takes, and go into its frame."""
        rounds, q = self.rounds, self.q
        radius, share = states.hessian_round(self._std_at, state, self.each, self.radius)
        expected = self._expected(state)
        read = rounds.read(
            self._at(state), lambda _: Curved(summed(q, radius, self.of_units), expected)
        )
        unit = rounds.moment.privacy_unit
        moment = SecondMoment.from_accumulator(read.inner, None, None, unit=unit)
        hessian = rounds.take(moment, max(share, least))
        near = states.in_frame_of(state, hessian, rounds.std[-1])
        return replace(near, hessian_bias=LIMITS.hessian_bias_of_units) if self.of_units else near

    def _std_at(self, radius: float) -> float:
        """Noise off the diagonal of a second moment that gets all of mu^2."""
        return self.rounds.std_at(radius, 1.0)

    def _long_radius(self, state: ScoreState) -> float:
        """The radius of rounds at the Hessian, by a released histogram of the norms there."""
        expected = self._expected(state)
        longest = self._far(self._at(state).matrix[: self.q]) * expected.steepest
        edges = norm_edges(math.sqrt(self.q), longest)
        read = self.rounds.read(
            self._at(state), lambda _: Curved(NormHistogram(self.q, edges), expected)
        )
        counts, std = counts_of(self.rounds, read.inner, BUDGET.norms)
        noise = np.array([self._std_at(radius) for radius in edges])
        noise *= 2 * math.sqrt(self.q / BUDGET.hessian[1])
        return states.hessian_radius(counts, std, edges, noise, state.rows)

    def _middle(self, state: ScoreState, share: float) -> tuple[ScoreState, Vector, bool]:
        """Release a score, and go where it leads; with the step, and whether it was a far one."""
        score, std = self._score(state, self.usual_clip, share)
        # No farther than the score stands out of its noise.
        square = float(score @ score)
        clear = max(0.0, 1 - self.q * std**2 / square)
        step = state.step(score) * clear
        most = LIMITS.far * min(1.0, self._noise_at(state, self.usual_clip, 1.0))
        far = state.curvature * clear * square / state.rows > most * math.sqrt(state.rows)
        size = float(np.linalg.norm(state.along(step))) / state.rows
        step *= min(1.0, LIMITS.longest / max(size, 1e-300))
        # The Hessian stays that of where the step began.
        bias = math.hypot(state.hessian_bias, 2 * state.curvature * size)
        return replace(state.moved(step, std**2), hessian_bias=bias), step, far

    def _spread(self, first: Matrix, step: Vector, rows: float) -> float:
        """Root mean square over rows of what a step changes eta by; at least that, but for luck."""
        along, std = self.joint[:-1].T @ step, self.rounds.std[0]
        square = float(along @ first @ along) - 2 * math.sqrt(2.0) * std * float(along @ along)
        return math.sqrt(max(square, 0.0) / rows)

    def _pooled(self, meat: Matrix, rows: float) -> Matrix:
        """The second moment of scores as the model has it."""
        return np.asarray(rows * np.eye(self.q))

    def _expected(self, state: ScoreState) -> Expected:
        """What the coefficients of a state expect of images there."""
        inverse = np.linalg.inv(state.whitening)
        ones = inverse[-1] if self.weighted else None
        return Expected(self.family, inverse.T @ state.coef, self.target, ones)

    def _at(self, state: ScoreState) -> Frame:
        """The map to (z, target) at a state."""
        return self._map_to(np.vstack([state.whitening @ self.joint[:-1], self.joint[-1]]))

    def _read(self, state: ScoreState, new: Any) -> Any:
        """What an accumulator makes of the scores at a state."""
        expected = self._expected(state)
        return self.rounds.read(self._at(state), lambda d: Modelled(new(d), expected)).inner

    def _longest(self, state: ScoreState) -> float:
        """The largest score that a row can have."""
        leading = self._at(state).matrix[: self.q]
        return self._far(leading) * self._expected(state).most
