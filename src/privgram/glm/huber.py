"""Huber's regression by scores that are bounded as they are: nothing is clipped.

Secret side: of what is read only the noisy sums leave.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privgram._core.rows import RowAccumulator
from privgram.glm import state as states
from privgram.glm.accumulators import HessianAccumulator
from privgram.glm.budget import BUDGET
from privgram.glm.clipping import Clip
from privgram.glm.link import UNSETTLED
from privgram.glm.one_step import OneStepEstimator
from privgram.glm.problem import HuberEquation
from privgram.glm.state import LIMITS
from privgram.regression.families import Bounded

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix
    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.glm.problem import FitParts, Problem
    from privgram.glm.rounds import Rounds
    from privgram.glm.state import ScoreState


class HuberEstimator(OneStepEstimator):
    """The rounds of one regression by Huber's loss with bounded leverage; as `OneStepEstimator`."""

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
        equation = HuberEquation(self.bounded.most, self.bounded.longest, whitening)
        return replace(parts, huber=equation)

    def _contradicts(self, state: ScoreState, mean_square: float) -> bool:
        """Never: scores that are bounded are short where errors have heavy tails."""
        return False

    def _at_hessian(self, state: ScoreState) -> ScoreState:
        """Release the Hessian at a state, and let steps go by it."""
        rounds = self.rounds
        radius = self.bounded.longest
        read = rounds.read(
            self._at(state),
            lambda _: HessianAccumulator(RowAccumulator(self.q, radius), self.bounded),
        )
        hessian = rounds.second(read.inner, BUDGET.huber_hessian)
        assert self.leverage_whitening is not None
        return states.by_hessian(state, self.leverage_whitening, hessian, rounds.std[-1])

    def _at(self, state: ScoreState) -> WhiteningTransform:
        """The map to (z, r) at a state, z in the frame of leverage."""
        assert self.leverage_whitening is not None
        return super()._at(replace(state, whitening=self.leverage_whitening))

    def _model(self, state: ScoreState) -> Bounded:
        """The bounded loss."""
        return self.bounded
