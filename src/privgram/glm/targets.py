"""A regression on random features by scores: its rounds at rows in memory, after a linear fit.

Secret side: of what is read only the noisy sums leave. The page is docs/theory/learning.md.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.files import check_process
from privgram.glm.fit import NO_NUMBER, lost
from privgram.glm.score_steps import ScoreSteps, StepRules, first_pass, moment_share
from privgram.mechanisms.adaptive import AdaptiveGaussian
from privgram.privacy.guarantee import Guarantee
from privgram.regression.features import ROW_CONSTANT, FeatureFit, row_bound, without_features
from privgram.regression.inference import DOUBT
from privgram.scan.request import ScanRequest
from privgram.secret.kinds import Errors, Learner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from privgram._base.numbers import Matrix, Vector
    from privgram.regression.features import LinearPart
    from privgram.secret.gate import Gate


#: Rows that are made at a time.
FEATURE_ROWS = 1 << 11

#: What is left of a target counts in sizes of no less.
LEAST_SIZE = 1e-9


@dataclass(frozen=True)
class TargetRules(StepRules):
    """How a regression spends its budget, by public and released numbers.

    The numbers of steps were compared on made tables (`bench/learning/choices.py`); what decides
    between two fits was settled with tables of the results page in view. The noise of the linear
    predictor is over the size of what the columns leave.
    """

    moment: tuple[float, float] = (0.02, 0.1)
    steps: int = 30
    predictor_noise: float = 0.3
    length: tuple[float, float] = (1.0, 20.0)
    clip: tuple[float, float] = (0.5, 2.0)
    #: The share of the linear fit.
    linear: float = 0.5
    #: The number of rows, where it is private; the line has all where there are fewer than so many
    #: times its columns over mu.
    number: float = 0.01
    rows: float = 10.0
    #: Whether columns are clamped at their bounds, and whether features count: each is decided by
    #: the difference of two sums of squares, and told by the chosen one. Columns are not clamped,
    #: and features count, if that is better by so many deviations of the noise.
    choice: float = 0.05
    error: float = 0.03
    beyond_gain: float = 1.0
    features_gain: float = 2.0
    #: Residuals count in errors up to so many times their size.
    reach: float = 3.0


TARGET_RULES = TargetRules()


class FeatureBlocks:
    """Features of rows, and what each of some lines leaves of their targets. SECRET."""

    def __init__(self, x: Matrix, y: Vector, fit: FeatureFit, lines: Sequence[LinearPart]) -> None:
        self._x, self._y, self._fit, self.lines = x, y, fit, lines

    def __iter__(self) -> Iterator[Matrix]:
        for start in range(0, len(self._x), FEATURE_ROWS):
            some = slice(start, start + FEATURE_ROWS)
            scaled, y = self._fit.linear.scaled(self._x[some]), self._y[some]
            left = [line.residuals(scaled, y) for line in self.lines]
            yield np.column_stack([self._fit.rows(scaled), *left])


class TargetEstimator:
    """The rounds after a linear fit: each release decides the next, and nothing else of the table.

    SECRET.
    """

    def __init__(self, x: Matrix, y: Vector, begun: FeatureFit, rules: TargetRules) -> None:
        lines = [replace(begun.linear, clamps=clamps) for clamps in (True, False)]
        self.blocks = FeatureBlocks(x, y, begun, lines)
        self.begun = begun
        self.rules = rules

    def fit(self, gate: Gate) -> FeatureFit:
        """Spend what the linear fit has left, round by round."""
        rules, begun, lines = self.rules, self.begun, self.blocks.lines
        guarantee = Guarantee(begun.epsilon, begun.delta, begun.adjacency, None)
        n_columns, bound = len(begun.coef), row_bound()
        noise = AdaptiveGaussian().noise_for(guarantee, n_columns, bound)
        rounds = first_pass(ScanRequest(self.blocks), noise, bound, gate, len(lines))
        public = rounds.moment.n_rows if guarantee.size_is_public else None
        apart = 2 * (rules.choice + rules.error)
        share = moment_share(rounds, rules, public) * (1 - rounds.spent - apart)
        released = rounds.take(rounds.moment, share)
        rows = max(float(released[-1, -1]) / ROW_CONSTANT**2 if public is None else public, 1.0)
        steps = ScoreSteps(rounds, rules, released, rows, bound, len(lines))
        nothing = np.zeros((n_columns, 1))
        # Whether columns are clamped, and what they leave.
        by_line = [Learner(nothing, (at,)) for at in range(len(lines))]
        target, size = self._choose(steps, by_line, rows, rules.beyond_gain)
        size = max(min(size, 1.0), LEAST_SIZE)
        left = 1 - rounds.spent - rules.choice - rules.error
        clip, length = steps.sizes(left, rows)
        coef = nothing
        for _ in range(rules.steps):
            score = steps.score(Learner(coef, (target,), 1 / size), clip, left / rules.steps)
            coef = coef + length / rows * score
        fits = nothing, coef
        by_fit = [Learner(one, (target,), 1 / size) for one in fits]
        best, error = self._choose(steps, by_fit, rows, rules.features_gain)
        linear = replace(lines[target], size=lines[target].size * size)
        return replace(
            begun,
            linear=linear,
            coef=steps.of_columns(fits[best])[:, 0],
            error=error * linear.size * linear.height,
            n_rows=rows,
        )

    def _choose(
        self, steps: ScoreSteps, models: Sequence[Learner], rows: float, gain: float
    ) -> tuple[int, float]:
        """Which of two fits leaves less, the second only by a gain; and its error, cautiously."""
        rules, rounds = self.rules, steps.rounds
        first, second = models
        targets = (*(first.targets or ()), *(second.targets or ()))
        both = Learner(np.hstack([first.coef, second.coef]), targets, first.size)
        kinds = Errors(both, rules.reach), *(Errors(one, rules.reach) for one in models)
        difference, *errors = steps.read(*kinds)
        better, noise = rounds.score(difference, rules.choice)
        best = int(better[0] > gain * noise)
        square, noise = rounds.score(errors[best], rules.error)
        return best, math.sqrt(max(float(square[0]) + DOUBT * noise, 0.0) / rows)


def share_of_line(
    gate: Gate, n_rows: int, n_columns: int, guarantee: Guarantee, rules: TargetRules
) -> float:
    """The share of the fit by the columns: all that is left where rows are too few for more.

    Where their number is private, a share of `rules.number` is spent on it.
    """
    rows, left = float(n_rows), 1.0
    if not guarantee.size_is_public:
        rows = float(gate.release(gate.adopt(n_rows), rules.number).values[0])
        left -= rules.number
    return left if rows * gate.mu(1.0) < rules.rows * n_columns else rules.linear


def fit_target(
    x: Matrix,
    y: Vector,
    linear: FeatureFit,
    *,
    rules: TargetRules,
    gate: Gate,
) -> FeatureFit:
    """Fit what the columns leave of a target by random features, with what a gate has left.

    What goes wrong ends in the fit by the columns alone.
    """
    pid = os.getpid()
    try:
        with np.errstate(all="ignore"):
            fit = TargetEstimator(x, y, linear, rules).fit(gate)
    except Exception as error:  # after the spend
        check_process(pid)
        return without_features(linear, lost(error))
    sound = np.isfinite(fit.coef).all() and math.isfinite(fit.error)
    return fit if sound else without_features(linear, NO_NUMBER)
