"""A regression on random features by scores: its rounds at rows in memory, after a linear fit.

Secret side: of what is read only the noisy sums leave. The page is docs/theory/glm.md.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.files import check_process
from privgram.glm.coordinates import RESIDUAL_UNITS, SQUARE_BITS, SquaredErrors, TargetScores
from privgram.glm.fit import NO_NUMBER, lost
from privgram.glm.score_steps import ScoreSteps, StepRules, first_pass, moment_share
from privgram.mechanisms.adaptive import AdaptiveGaussian
from privgram.privacy.guarantee import Guarantee
from privgram.regression.features import ROW_CONSTANT, FeatureFit, row_bound, without_features
from privgram.regression.inference import DOUBT
from privgram.scan.request import ScanRequest
from privgram.secret import generators
from privgram.secret.additive import noisy_sums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privgram._base.numbers import Matrix, Vector
    from privgram.glm.rounds import Rounds


#: Rows that are made at a time.
FEATURE_ROWS = 1 << 11

#: What is left of a target counts up to so many times its size.
LONGEST_RESIDUAL = 64.0


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
    """Features of rows, and in whole units what a released linear fit leaves of them. SECRET."""

    def __init__(self, x: Matrix, y: Vector, fit: FeatureFit) -> None:
        self._x, self._y, self.fit = x, y, fit

    def parts(self) -> Iterator[tuple[Matrix, Vector]]:
        """Columns mapped to [-1, 1] and the target, some rows at a time."""
        for start in range(0, len(self._x), FEATURE_ROWS):
            some = slice(start, start + FEATURE_ROWS)
            yield self.fit.linear.scaled(self._x[some]), self._y[some]

    def __iter__(self) -> Iterator[Matrix]:
        fit = self.fit
        for scaled, y in self.parts():
            left = fit.linear.residuals(scaled, y)
            left = np.clip(left, -LONGEST_RESIDUAL, LONGEST_RESIDUAL)
            codes = np.rint(np.where(np.isnan(left), 0.0, left) * RESIDUAL_UNITS)
            yield np.column_stack([fit.rows(scaled), codes])


class TargetEstimator:
    """The rounds after a linear fit: each release decides the next, and nothing else of the table.

    SECRET.
    """

    def __init__(self, x: Matrix, y: Vector, linear: FeatureFit, rules: TargetRules) -> None:
        self.blocks = FeatureBlocks(x, y, linear)
        self.rules = rules

    def fit(self, rng: np.random.Generator) -> FeatureFit:
        """Spend what the linear fit has left, round by round."""
        rules, begun = self.rules, self.blocks.fit
        guarantee = Guarantee(begun.epsilon, begun.delta, begun.adjacency, None)
        n_columns, bound = len(begun.coef), row_bound()
        noise = AdaptiveGaussian().noise_for(guarantee, n_columns, bound)
        rounds = first_pass(ScanRequest(self.blocks), noise, bound, rng)
        public = rounds.moment.n_rows if guarantee.size_is_public else None
        rounds.gate.charge(rules.linear + (rules.number if public is None else 0.0))
        apart = 2 * (rules.choice + rules.error)
        share = moment_share(rounds, rules, public) * (1 - rounds.spent - apart)
        released = rounds.take(rounds.moment, share)
        rows = max(float(released[-1, -1]) / ROW_CONSTANT**2 if public is None else public, 1.0)
        self._begin(rounds, rows)
        steps = ScoreSteps(rounds, rules, released, rows, bound)
        left = 1 - rounds.spent - rules.choice - rules.error
        clip, length = steps.sizes(left, rows)
        nothing = coef = np.zeros((n_columns, 1))
        for _ in range(rules.steps):
            scores = partial(TargetScores, steps.coordinates, coef, clip)
            coef = coef + length / rows * steps.score(scores, left / rules.steps)
        fits = nothing, coef
        errors = steps.sum(partial(SquaredErrors, steps.coordinates.unit, fits, rules.reach))
        best, size = self._choose(rounds, errors, rows, rules.features_gain)
        linear = self.blocks.fit.linear
        return replace(
            self.blocks.fit,
            coef=steps.of_columns(fits[best])[:, 0],
            error=size * linear.size * linear.height,
            n_rows=rows,
        )

    def _begin(self, rounds: Rounds, rows: float) -> None:
        """Decide by released errors whether columns are clamped, and what the columns leave."""
        blocks, rules = self.blocks, self.rules
        choices = [replace(blocks.fit.linear, clamps=clamps) for clamps in (True, False)]
        errors = SquaredErrors(1.0, [np.zeros((1, 1))] * 2, rules.reach)
        for scaled, y in blocks.parts():
            errors.add(np.stack([linear.residuals(scaled, y) for linear in choices]))
        best, size = self._choose(rounds, errors, rows, rules.beyond_gain)
        linear = replace(choices[best], size=choices[best].size * min(size, 1.0))
        blocks.fit = replace(blocks.fit, linear=linear)

    def _choose(
        self, rounds: Rounds, errors: SquaredErrors, rows: float, gain: float
    ) -> tuple[int, float]:
        """Which of two fits leaves less, the second only by a gain; and its error, cautiously."""
        most, rules = 2.0**SQUARE_BITS, self.rules  # a row's square, and a difference of two
        first, second = errors.total
        better = rounds.whole_sums(np.array([first - second]), most, rules.choice)
        best = int(better[0] > gain * rounds.moves * most / rounds.mu(rules.choice))
        square = rounds.whole_sums(errors.total[[best]], most, rules.error)
        doubt = DOUBT * rounds.moves * most / rounds.mu(rules.error)
        return best, math.sqrt(max(float(square[0]) + doubt, 0.0) * errors.unit / rows)


def share_of_line(
    n_rows: int,
    n_columns: int,
    guarantee: Guarantee,
    rules: TargetRules,
    rng: np.random.Generator | None,
) -> float:
    """The share of the fit by the columns: all that is left where rows are too few for more.

    Where their number is private, a share of `rules.number` is spent on it.
    """
    noise = AdaptiveGaussian().noise_for(guarantee, n_columns + 1, 1.0)
    rows, left = float(n_rows), 1.0
    if not guarantee.size_is_public:
        std = noise.counts_std(noise.mu * math.sqrt(rules.number))
        rows = float(noisy_sums(np.array([n_rows]), std, generators.resolve(rng)[0])[0])
        left -= rules.number
    return left if rows * noise.mu < rules.rows * n_columns else rules.linear


def fit_target(
    x: Matrix,
    y: Vector,
    linear: FeatureFit,
    *,
    rules: TargetRules,
    rng: np.random.Generator | None = None,
) -> FeatureFit:
    """Fit what the columns leave of a target by random features; `rules.linear` is spent already.

    What goes wrong ends in the fit by the columns alone.
    """
    pid = os.getpid()
    try:
        with np.errstate(all="ignore"):
            fit = TargetEstimator(x, y, linear, rules).fit(generators.resolve(rng)[0])
    except Exception as error:  # after the spend
        check_process(pid)
        return without_features(linear, lost(error))
    sound = np.isfinite(fit.coef).all() and math.isfinite(fit.error)
    return fit if sound else without_features(linear, NO_NUMBER)
