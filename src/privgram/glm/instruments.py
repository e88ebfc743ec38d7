"""Two-stage least squares by scores: the first stage is released, and then a fixed map.

Secret side: of what is read only the noisy sums leave (docs/theory/glm.md).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from privgram.adaptive.rounds import names_of, run_rounds
from privgram.disclosure.repairs import impose
from privgram.disclosure.samplers import TableRounds
from privgram.glm.budget import BUDGET
from privgram.glm.one_step import OneStepEstimator
from privgram.glm.problem import refused_parts
from privgram.glm.state import LIMITS, CrossNoise, ScoreState
from privgram.mechanisms import AdaptiveGaussian, taken
from privgram.noise import GaussianLaw
from privgram.regression.design import AllColumns, design
from privgram.regression.iv import WEAK, IVResults, Roles, ScoreSolution, fit_iv
from privgram.releases.release import Release

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix
    from privgram._base.saved import JsonObject
    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.glm.problem import FitParts, Problem
    from privgram.glm.rounds import Rounds
    from privgram.noise import NoiseLaw


#: What the record has of the rounds after the release.
RECORDED = ("counts_mu", "score_mu", "score_noise_std", "round_mu", "round_noise_std")

NO_ESTIMATES = "the arithmetic did not end in finite numbers"

#: Scores take instruments with this F in each first stage, noise counted, at least; where there are
#: more of them than needed, and estimates lean to least squares, with `WEAK`.
STRONG = 5.0

#: With less signal to noise, mu n / sqrt(d), the first stage is not looked at: all is released.
FEW = 300.0

TOO_WEAK = (
    "the instruments are too weak beside sampling and noise for scores (a first stage's F is below "
    f"{STRONG:g}, or {WEAK:g} with more than are needed), or the noise hides what they stand in for"
)


class InstrumentEstimator(OneStepEstimator):
    """The rounds of one regression with instruments; as `OneStepEstimator`.

    A row's image is (z, e), z the features that the first stage expects of its instruments in a
    frame where their second moment is the rows' number times I. So A = sum z x^T, by which steps
    go, is what the Hessian is in least squares.
    """

    sums_squares = False

    def __init__(self, rounds: Rounds, problem: Problem, public: int | None) -> None:
        super().__init__(rounds, problem, public)
        assert problem.question is not None
        self.question = problem.question
        described = AllColumns(problem.columns)
        roles = Roles.of(described, partial(design, described), self.question)
        images = np.vstack([roles.design.images, roles.instrument_images])
        self.basis = np.linalg.qr(images.T)[0].T
        #: What is on record, once there is something.
        self.looked: IVResults | None = None

    def fit(self) -> FitParts:
        """Go through all rounds."""
        mu, columns = self.rounds.noise.mu, len(self.basis)
        if self.public is not None and mu * self.public < FEW * math.sqrt(columns):
            return self._by_release()
        first = self.rounds.take(self.rounds.moment, self.first_share)
        state = self._initial(first, self._count_rows(first))
        if not self._is_strong():
            return self._by_release()
        state = self._nearer(state)
        clip = self._choose_clip(state, self.up_to(BUDGET.counts))
        if self._contradicts(state, clip.squares / (self.q * state.rows)):
            state = self._with_errors(state)
        return self._last_scores(state, clip)

    def _by_release(self) -> FitParts:
        """Spend what is left on a release, whose regression is the answer."""
        self.looked = replace(self._on_release(self.left), not_scores=TOO_WEAK)
        return refused_parts(self.problem.n_written, TOO_WEAK)

    def _state(
        self, into: Matrix, matrix: Matrix, law: NoiseLaw, std: float, rows: float
    ) -> ScoreState:
        """The state by a second moment that was released in a frame of the basis."""
        back = np.linalg.inv(into)
        in_columns = self.basis.T @ back
        of_columns = in_columns @ matrix @ in_columns.T
        how = {"method": "adaptive rounds", "reason": "the first stage is of it"}
        how = self.rounds.parameters | how
        release = self._record(of_columns, law.image(in_columns), how)
        self.looked = looked = fit_iv(release, self.question)
        images = np.vstack([looked.design.images[:-1], looked._instrument_images])
        self.joint = np.vstack([images, looked.design.images[-1:]])
        moments = looked._equations
        values, vectors = np.linalg.eigh((moments.gram + moments.gram.T) / 2)
        # Of the first round alone the first stage is too rough: that is no bias, but width.
        in_frame = self.rounds.parameters["rounds"] > 1
        known = in_frame and looked.without is None and values[0] > 0
        values = values if known else np.ones(self.q)
        white = math.sqrt(rows) * (vectors / np.sqrt(values)).T
        doubt = math.sqrt(float(moments.law.entry_variance(moments.shifted, moments.v[None])[0, 0]))
        residual = max(float(moments.v @ moments.matrix @ moments.v), 0.0)
        square = residual + doubt
        self.first_stage = moments.weights  # (q, D)
        right = white @ np.eye(self.q, len(moments.shifted)) / rows
        return ScoreState(
            coef=moments.theta,
            scale=math.sqrt(square / rows),
            whitening=white,
            visible=np.full(self.q, float(known)),
            hessian_noise=CrossNoise(moments.law, moments.shifted, white @ moments.weights, right),
            rows=rows,
            score_noise=white @ moments.noise @ white.T * (rows / square),
            typical=float(self.q),
            sure_scale=max(residual - LIMITS.sure * doubt, 0.0) / square,
        )

    def _record(self, matrix: Matrix, law: NoiseLaw, parameters: JsonObject) -> Release:
        """The release that a second moment of the columns is, whatever share made it."""
        rounds = self.rounds
        moment, noise = rounds.moment, rounds.noise
        mechanism = AdaptiveGaussian()
        return Release(
            matrix=(matrix + matrix.T) / 2,
            names=names_of(moment),
            mechanism=mechanism,
            parameters=noise.parameters | parameters,
            noise=law,
            epsilon=noise.epsilon,
            delta=mechanism.reached(noise),
            adjacency=noise.adjacency,
            privacy=noise.privacy,
            bound=float(moment.bound),
            n_rows=self.public,
            columns=moment.columns,
        )

    def _on_release(self, share: float) -> IVResults:
        """The regression on a release of the columns for a share of the budget."""
        rounds, whole = self.rounds, self.rounds.noise
        part = replace(
            whole, mu=whole.mu * math.sqrt(share), noise_std=whole.noise_std / math.sqrt(share)
        )
        table = TableRounds(rounds.moment, part, rounds.gate, share)
        matrix, law = run_rounds(AdaptiveGaussian(), table)
        if isinstance(law, GaussianLaw):
            matrix, law = impose(matrix, law, rounds.moment.columns)
        how = taken(table.parameters, "the table can be read again")
        return fit_iv(self._record(matrix, law, table.parameters | how), self.question)

    def _is_clear(self, state: ScoreState) -> bool:
        return self.rounds.parameters["rounds"] > 2 and self._is_strong()

    def _is_strong(self) -> bool:
        """Whether each first stage stands out, and what is asked of has ends."""
        looked = self.looked
        if looked is None or looked.refusal is not None or looked.n_rows is None:
            return False
        ends = looked._ends(0.05)[: len(looked.endogenous)]
        known = bool(np.isfinite(ends).all())
        least = STRONG if len(looked.instruments) == len(looked.endogenous) else WEAK
        return known and all(test.fvalue >= least for test in looked.first_stage.values())

    def recorded(self, parts: FitParts, reproducible: bool) -> IVResults:
        """The public record of a fit by these rounds."""
        assert self.looked is not None
        release = replace(self.looked.release, reproducible=reproducible)
        looked = replace(self.looked, release=release)
        if looked.not_scores is not None:  # weak: all is on the release
            return looked
        if parts.refusal is not None or not parts.is_finite:
            return replace(looked, without=parts.refusal or NO_ESTIMATES)
        how = {
            "clip": parts.facts.clip,
            "clipped_rows": parts.clipped_rows,
            "robust": self.problem.robust,
            **{name: self.rounds.parameters[name] for name in RECORDED},
        }
        return replace(looked, scores=ScoreSolution(parts.coef, parts.sampling, parts.noise, how))

    def _at(self, state: ScoreState) -> WhiteningTransform:
        """The map to (z, e) at a state."""
        v = np.zeros(len(self.joint))
        v[: self.q], v[-1] = -state.coef, 1.0
        leading = state.whitening @ self.first_stage
        return self._map_to(np.vstack([leading, v / state.scale]) @ self.joint)
