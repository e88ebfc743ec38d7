"""Cox's regression by pieces of time: as of other counts, from a baseline hazard that is counted.

Secret side: of what is read only the noisy sums leave.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privgram.columns.survival import MOST_EXPECTED, PIECE
from privgram.columns.terms import Piece
from privgram.glm.budget import BUDGET
from privgram.glm.clipping import CLIPPING, Clip
from privgram.glm.link import GLMEstimator
from privgram.glm.one_step import model_of
from privgram.glm.state import LIMITS
from privgram.regression.families import Expected
from privgram.secret.kinds import Model, Vectors

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.glm.problem import Problem
    from privgram.glm.rounds import Rounds
    from privgram.glm.state import ScoreState


class SurvivalEstimator(GLMEstimator):
    """The rounds of one regression of pieces of time; as `GLMEstimator`.

    Where events are few a start by least squares is noise, and the mean logarithm of times, which
    has wide bounds, is too: the start has the hazard of each piece, and no effects.
    """

    one_way = True  # rows that outlive what a model says are all too long
    sure_of_far = LIMITS.seen
    most_middle = BUDGET.middle_of_pieces
    end = MOST_EXPECTED
    fine = LIMITS.fine_of_pieces
    by_pieces = True

    def __init__(self, rounds: Rounds, problem: Problem, public: int | None) -> None:
        super().__init__(rounds, problem, public)
        self.first_share = BUDGET.first

    def _linear(self, first: Matrix, rows: float) -> ScoreState:
        """The frame by least squares, and the hazards of pieces, of each stratum, as a start."""
        state = super()._linear(first, rows)
        survival, columns = self.problem.survival, self.rounds.moment.columns
        assert survival is not None
        assert columns is not None
        named = {PIECE, *survival.strata}
        made = next(x.piece for x in columns.layout.stored if {*x.piece.factors} == named)
        cells = columns.layout.image(Piece((), made.factors))
        assert cells is not None
        (events, std), (times, time_std) = self._counted_cells(cells, math.log(survival.end))
        spent = np.maximum(times, time_std / len(cells))
        rate = self.mean[0] * rows / float(spent.sum())
        # What noise may make of events makes hazards alike.
        doubt = LIMITS.seen * math.hypot(std, rate * time_std)
        ratio = (np.maximum(events, 0.0) + doubt) / (rate * spent + doubt)
        hazards = np.log(rate * ratio / survival.end)
        # Another factor may have the ones: of every row the pieces have the same sum.
        features = np.vstack([self.joint[:-1], cells.sum(axis=0) - self.ones])
        coef = np.linalg.lstsq(features.T, cells.T @ hazards, rcond=None)[0]
        return replace(state, coef=coef[:-1])

    def _counted_cells(self, cells: Matrix, whole: float) -> list[tuple[Vector, float]]:
        """Release events and times by cell, in parts of a time with this logarithm; and the noise.

        A row's vector has no number below 0 and adds up to 1 at most.
        """
        assert self.offset is not None
        center, half = self.target
        died = half * self.joint[-1] + center * self.ones
        none, part = -self.ones, self.offset - whole * self.ones  # of the target, of the time
        size = len(cells)
        spent = Expected(self.family, np.zeros(size), (0.5, 0.5), None, True, 1.0)
        of_events, of_times = np.vstack([cells, died]), np.vstack([-cells, none, part])
        found = []
        for image, model in ((of_events, Model.residual(size)), (of_times, model_of(spent))):
            [total] = self.rounds.sums_at(self._map_to(image), Vectors(model, 1.0, positive=True))
            found.append(self.rounds.score(total, BUDGET.hazards))
        return found

    def _choose_clip(self, state: ScoreState, share: float) -> Clip:
        """The same, of which less is allowed for."""
        return replace(super()._choose_clip(state, share), allowance=CLIPPING.of_pieces)

    def _bend(self, weight: float) -> float:
        """The same, of which a direction has its part."""
        return max(LIMITS.bend, super()._bend(weight) / math.sqrt(self.q))
