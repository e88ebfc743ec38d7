"""Least squares by scores: rounds over the table, each decided by what was released before.

Secret side: of what is read only the noisy sums leave.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.text import shown
from privgram.adaptive import whitening
from privgram.adaptive.radius import choose_radius
from privgram.adaptive.whitening import WhiteningTransform
from privgram.disclosure.repairs import impose
from privgram.glm import state as states
from privgram.glm.budget import BUDGET
from privgram.glm.clipping import CLIPPING, TAIL_REACH, Clip, choose_clip, norm_edges
from privgram.glm.clusters import CLUSTER_SHARES, DROWNED, cluster_kinds, cluster_moment
from privgram.glm.problem import FitFacts, FitParts, LastSteps, Problem, refused_parts
from privgram.glm.state import LIMITS, ScoreState, isotropic
from privgram.mechanisms import adaptive
from privgram.noise import GaussianLaw, NoiseLaw, combine
from privgram.regression.design import AllColumns, intercept_of
from privgram.regression.goodness import Goodness
from privgram.regression.inference import Equations
from privgram.secret.kinds import Histogram, Model, Outer, Vectors

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.glm.rounds import Rounds
    from privgram.regression.families import Bounded, Expected
    from privgram.secret.kinds import Kind

HIDDEN = (
    "the privacy noise hides the curvature in every direction of the features. More rows, a larger "
    "epsilon, narrower bounds or fewer features may show it"
)
CONTRADICTED = (
    "the scores of rows are far shorter than the residual variance says: the errors are those of a "
    "few rows, or the target hardly varies within its bounds, as where these are in another unit. "
    "More rows or a larger epsilon may show them"
)
TOO_FEW = "no more rows than coefficients are seen: take more, a larger epsilon or fewer features"


class OneStepEstimator:
    """The rounds of one regression: each release decides the next, and nothing else of the table.

    `public` is the number of rows, where it is.
    """

    #: Whether scores that are clipped may all point one way.
    one_way = True

    #: Weights over their bound, on average, once the number of rows is known.
    mean_weight = 1.0
    #: Whether the loss is a sum of squares, of which a part is explained.
    sums_squares = True
    #: The share that is kept for sums of scores by cluster.
    reserved = 0.0
    #: About so many rows may have long scores.
    most_long = math.inf
    #: Rows of a middle round were cut where it has more than this part of what all cut ones have.
    most_cut = math.inf
    #: No more rows have a longer z than noise hides, where these were counted.
    longest_seen = math.inf

    def __init__(self, rounds: Rounds, problem: Problem, public: int | None) -> None:
        self.rounds = rounds
        self.problem = problem
        self.public = public
        self.joint = problem.design.images  # (q + 1, d)
        # Orthonormal: noise in it is isotropic as in the columns.
        self.basis = np.linalg.qr(self.joint.T)[0].T
        self.images = self.joint @ self.basis.T
        self.q = len(self.joint) - 1
        columns, (low, high) = rounds.moment.columns, problem.design.ends
        #: Middle and half the length of the target's range; and the image (d,) that is 1.
        self.target = ((low + high) / 2, (high - low) / 2)
        ones = intercept_of(AllColumns(columns))
        assert ones is not None  # `needed` has them
        self.ones = ones
        self.of_units = rounds.noise.unit is not None
        #: Rows of a unit: that its bound is for, and on average, once that is known.
        self.most = max(float(rounds.moment.bound) / float(columns.bound), 1.0) ** 2
        self.each = self.most
        #: The first round's share; the bound of units may have been chosen before it.
        self.kept = BUDGET.kept
        self.first_share = BUDGET.first_of_units if self.of_units else BUDGET.first
        self.bound_is_chosen = problem.chooses_bound
        if problem.clusters is not None:
            self.reserved = CLUSTER_SHARES.reserved
        self.usual_clip = LIMITS.usual_clip * math.sqrt(self.q * self.each)
        self.to_own_units = problem.design.transform[: len(problem.design.names)]

    @property
    def left(self) -> float:
        """The share of mu^2 that was not spent, and is not kept for sums by cluster."""
        return 1.0 - self.rounds.spent - self.reserved

    def up_to(self, share: float) -> float:
        """Take a share, or a third of what is left if that is less."""
        return min(share, self.left / 3)

    def fit(self) -> FitParts:
        """Go through all rounds."""
        rounds = self.rounds
        first = rounds.take(rounds.moment, self.first_share)
        rows = self._count_rows(first)
        self._released_mean(first)
        rate = rounds.noise.mu * rows / (self.each * math.sqrt(self.q + 1))
        if rate < adaptive.CLEAR_RATE and self.reserved:
            return refused_parts(self.problem.n_written, HIDDEN, rows, stopped=True)
        if rate < adaptive.CLEAR_RATE:
            return self._once(first, rows, "the rows are too few beside the noise for more rounds")
        state = self._initial(first, rows)
        if self._is_lost(state):
            return self._stopped(state)
        if self._worse(state, first, state.predicted(self._noise_at(state, self.usual_clip, 0.8))):
            return self._once(first, rows, "one round is predicted to have less noise than scores")
        seen = False
        while not seen:
            state, seen = self._with_long_rows(state)
            seen = seen or self.left < 2 * (BUDGET.norms + BUDGET.long_rows)
        state = self._nearer(state)
        clip = self._choose_clip(state, self.up_to(BUDGET.counts))
        if self._contradicts(state, clip.squares / (self.q * state.rows)):
            state = self._with_errors(state)
        noise = self._noise_at(state, clip.size, 1 - BUDGET.meat[0])
        if self._worse(state, first, math.hypot(1.0, clip.allowance) * noise):
            return self._once(first, rows, "scores are so long that one round has less noise")
        return self._last_scores(state, clip)

    def _count_rows(self, first: Matrix) -> float:
        rounds = self.rounds
        dropping = rounds.moment.columns.missing == "drop"
        weighted = rounds.moment.columns.row_weights is not None  # which the ones have
        if self.of_units:
            return self._count_rows_of_units(first)
        if self.public is not None and not (dropping or weighted):
            return max(float(self.public), 1.0)
        if not self.problem.design.intercept:
            return max(rounds.number(BUDGET.number), 1.0)
        number = self.public or (rounds.number(BUDGET.number) if weighted else 1.0)
        rows = estimated_rows(rounds, first, self.ones)
        if weighted:
            self.mean_weight = min(rows / max(number, 1.0), 1.0)
        return rows

    def _count_rows_of_units(self, first: Matrix) -> float:
        """The number of their rows; their mean number by unit is learnt."""
        rounds = self.rounds
        units = max(float(self.public or rounds.number(BUDGET.number)), 1.0)
        rows = estimated_rows(rounds, first, self.ones) if self.problem.design.intercept else units
        each = min(max(rows / units, 1.0), math.inf if self.bound_is_chosen else self.most)
        self.usual_clip *= math.sqrt(each / self.each)
        self.each = each
        self.most = LIMITS.most_rows * each if self.bound_is_chosen else self.most
        return rows

    def _released_mean(self, known: Matrix) -> float:
        """The target's mean by the first second moment; its noise is put on record with it."""
        center, half = self.target
        target = half * self.joint[-1] + center * self.ones
        count = max(float(self.ones @ known @ self.ones), 1.0)
        mean = float(target @ known @ self.ones) / count
        lengths = float(np.linalg.norm(target) * np.linalg.norm(self.ones))
        std = self.rounds.std[0] * math.hypot(lengths, float(target @ self.ones)) / count
        self.rounds.parameters |= {"target_mean": mean, "target_mean_std": std}
        return mean

    def _initial(self, first: Matrix, rows: float) -> ScoreState:
        """The middle rounds, as many as are worth it, and the state that they give."""
        rounds, std = self.rounds, self.rounds.std[-1]
        state = self._plain(first, std, rows)
        known = self._imposed(first, isotropic(std))[0]
        transform = whitening.whiten(self.basis @ known @ self.basis.T, std, rows)
        bound, cut = float(rounds.moment.columns.bound), False
        for round_, share in enumerate(BUDGET.middle):
            share = min(share, self.left - self.kept)
            if share <= 0 or (round_ >= BUDGET.if_hidden and not state.hides):
                break
            radius = states.radius_at_middle(transform.typical, len(self.basis))
            radius *= math.sqrt(self.each)
            largest = math.sqrt(transform.largest(bound) * self.most)
            radius = min(radius, largest)
            taught = transform.teaches(rounds.std_at(radius, share), rows)
            if not taught or (not cut and self._is_clear(state)):
                break
            middle, into, matrix, law = self._in_frame(first, transform, radius, share)
            std = rounds.std[-1]
            state = self._state(into, matrix, law, std, rows)
            seen = 1.0 if state.visible.all() else LIMITS.seen_squares
            transform = whitening.whiten(middle, std, rows, transform, seen)
            # Most were cut, in a frame where noise had them short: its Hessian is too small.
            cut = float(np.trace(middle)) > self.most_cut * rows * radius**2 and radius < largest
        return replace(state, hessian_bias=1.0) if cut else state

    def _is_clear(self, state: ScoreState) -> bool:
        """Whether no middle round would make the estimate much better."""
        return state.clear(self._noise_at(state, self.usual_clip, 0.8))

    def _with_long_rows(self, state: ScoreState) -> tuple[ScoreState, bool]:
        """The state with what middle rounds clipped of the Hessian, and whether that is all.

        Rows, or units as the roots of their sums of squares. A direction far longer than noise
        lets it be aimed at leaves its rows long in others, which the next time shows; where nothing
        stood out of the noise, it would show the same.
        """
        rounds, q = self.rounds, self.q
        longest = self._far(self._at(state).matrix[:q]) * math.sqrt(self.most)
        edges = norm_edges(math.sqrt(q * self.each), longest)
        lengths = Histogram(Model.features(q), edges, "squares")
        [counts] = rounds.sums_at(self._at(state), lengths)
        beyond = self._seen(rounds.beyond(counts, BUDGET.norms), BUDGET.norms)
        self.longest_seen = choose_radius(edges, beyond, 0.0).size
        lost = states.lost_squares(edges, beyond)
        state = self._without_few(state, edges, beyond)
        share = self.up_to(BUDGET.long_rows)
        noise = rounds.std_at(1.0, share)
        radius, error = states.hessian_radius(edges, lost, noise, q)
        at_middle = states.radius_at_middle(state.typical, q) * math.sqrt(self.each)
        if float(np.interp(at_middle, edges, lost)) < 2 * error or radius <= at_middle:
            return state, True
        [longer] = rounds.sums_at(self._at(state), rounds.outer(q, radius))
        hessian, std = rounds.take(longer, share), rounds.std[-1]
        after = states.with_excess(state, hessian, std, radius)
        is_seen = states.hessian_noise_edge(q, std) < state.rows
        return after, is_seen or after.whitening is state.whitening

    def _without_few(self, state: ScoreState, edges: Vector, beyond: Vector) -> ScoreState:
        """The state without directions of rows, or units, that are too few to be counted."""
        doubt = self._doubt(BUDGET.norms)
        counts = np.append(state.rows / self.each, beyond)
        n_few = states.uncounted_directions(state, edges, counts, doubt)
        too_long = self._too_long(state)
        few = too_long.argsort().argsort() >= len(too_long) - n_few  # the longest
        n_longest = 1 / (too_long**2 * min(self.rounds.noise.mu, 1.0))  # rows that fill it
        few &= n_longest < LIMITS.uncounted * doubt
        few |= (state.visible < 1) & (too_long > 1)
        return self._limited(states.without(state, few))

    def _doubt(self, share: float) -> float:
        """So many longer rows may noise make of none."""
        return LIMITS.seen * 2 * self.rounds.noise.counts_std(self.rounds.mu(share))

    def _seen(self, beyond: Vector, share: float) -> Vector:
        """Counts of longer rows, 0 where noise may have made them."""
        return np.where(beyond > self._doubt(share), beyond, 0.0)

    def _too_long(self, state: ScoreState) -> Vector:
        """How much longer a row may be in each direction of z than in that of the fewest rows.

        Fewer rows than 1 / mu are never seen, so that a frame need not make more of them.
        """
        most = math.sqrt(state.rows * min(self.rounds.noise.mu, 1.0))
        leading = self._at(state).matrix[: self.q]
        return np.array([self._far(row[None]) / most for row in leading])

    def _limited(self, state: ScoreState) -> ScoreState:
        """The state without hidden directions that are too long."""
        shorter = 1 / np.maximum(self._too_long(state), 1.0)
        return states.scaled(state, np.where(state.visible < 1, shorter, 1.0))

    def _in_frame(
        self, first: Matrix, transform: WhiteningTransform, radius: float, share: float
    ) -> tuple[Matrix, Matrix, Matrix, NoiseLaw]:
        """Release a second moment in a frame of the basis; and its average with the first one."""
        rounds, m = self.rounds, len(self.basis)
        whole = self._map_to(transform.matrix @ self.basis)
        [total] = rounds.sums_at(whole, rounds.outer(m, radius))
        released = rounds.take(total, share)
        into = transform.matrix
        if self.of_units:  # of which the first round clipped more
            return released, into, released, isotropic(rounds.std[-1])
        laws = [isotropic(rounds.std[0]).image(into), isotropic(rounds.std[-1])]
        weights, law = combine(laws, m)
        before = into @ self.basis @ first @ self.basis.T @ into.T
        return released, into, weights[0] * before + weights[1] * released, law

    def _state(
        self, into: Matrix, matrix: Matrix, law: NoiseLaw, std: float, rows: float
    ) -> ScoreState:
        """The state by a second moment that was released in a frame of the basis."""
        state = state_of(matrix, law, std, self.images @ np.linalg.inv(into), rows)
        if self.of_units:
            state = replace(state, hessian_bias=LIMITS.hessian_bias_of_units)
        return state

    def _plain(self, matrix: Matrix, std: float, rows: float) -> ScoreState:
        """The state by a second moment that was released in the columns themselves."""
        known, law = self._imposed(matrix, isotropic(std))
        inside = self.basis @ known @ self.basis.T
        return self._state(np.eye(len(self.basis)), inside, law.image(self.basis), std, rows)

    def _imposed(self, matrix: Matrix, law: GaussianLaw) -> tuple[Matrix, NoiseLaw]:
        """A released second moment of the columns with what is known of it, and its law."""
        return impose(matrix, law, self.rounds.moment.columns)

    def _map_to(self, leading: Matrix) -> WhiteningTransform:
        """A map of the released columns to a few numbers."""
        return WhiteningTransform(leading, 1.0, 1.0)

    def _at(self, state: ScoreState) -> WhiteningTransform:
        """The map to (z, e) at a state."""
        v = np.append(-state.coef, 1.0) / state.scale
        return self._map_to(np.vstack([state.whitening @ self.joint[:-1], v @ self.joint]))

    def _model(self, state: ScoreState) -> Expected | Bounded | None:
        """What is expected of rows at a state, where a score is no residual times z."""
        return None

    def _scores(self, state: ScoreState) -> Model:
        """What a row's score is made of its image at a state."""
        model = self._model(state)
        return Model.residual(self.q) if model is None else model_of(model)

    def _longest(self, state: ScoreState) -> float:
        """The largest score that a row can have, at most."""
        matrix = self._at(state).matrix
        return self._far(matrix[: self.q]) * self._far(matrix[self.q, None])

    def _far(self, leading: Matrix) -> float:
        """The longest image that a row can have, at most: by its length, and by its entries."""
        columns = self.rounds.moment.columns
        ends = np.linalg.norm(columns.layout.farthest(leading))
        return float(min(np.linalg.norm(leading, 2) * float(columns.bound), ends))

    def _noise_at(self, state: ScoreState, clip: float, part: float) -> float:
        """Noise of scores with a part of what is left, in sampling errors."""
        mu = self.rounds.mu(part * self.left)
        return self.rounds.moves * clip / mu / math.sqrt(state.rows)

    def _worse(self, state: ScoreState, first: Matrix, predicted: float) -> bool:
        """Whether one round with all that is left is predicted to have less noise than scores."""
        if predicted < LIMITS.nothing or self.reserved:  # one round has no sums by cluster
            return False
        rounds = self.rounds
        whole = self.first_share + self.left
        one = replace(rounds.noise, noise_std=rounds.noise.noise_std / math.sqrt(whole))
        law = self._imposed(first, one.law)[1].image(self.joint)
        v = np.append(-state.coef, 1.0)
        noise = law.sandwich(np.zeros((self.q + 1,) * 2), np.outer(v, v))[:-1, :-1]
        inverse = state.whitening.T @ state.whitening / state.rows
        second = np.asarray(np.linalg.inv(inverse), np.float64)
        if not state.hides and self._would_hide(second, one.law.std):
            return False
        to_own_units = self.to_own_units
        sampled = ((to_own_units @ inverse) * to_own_units).sum(axis=1) * state.scale**2
        pulled = to_own_units @ inverse
        ratio = ((pulled @ noise) * pulled).sum(axis=1) / sampled
        return math.sqrt(float(ratio.mean())) < predicted

    def _would_hide(self, second: Matrix, std: float) -> bool:
        """Whether one round of such noise would hide a direction of a second moment."""
        from scipy.linalg import eigh

        features = self.joint[:-1]
        values = eigh(second, std * features @ features.T, eigvals_only=True)
        return bool(values[0] < LIMITS.visible[1] * states.direction_noise_edge(values))

    def _once(self, first: Matrix, rows: float, reason: str) -> FitParts:
        """Spend what is left on another round in the columns, and average it with the first."""
        rounds, share = self.rounds, self.left
        part = self.first_share / (self.first_share + share)
        # As it would be with the noise of both rounds averaged.
        state = self._plain(first, rounds.std[0] * math.sqrt(part), rows)
        if self._is_lost(state):
            return self._stopped(state)
        rest = rounds.take(rounds.moment, share)
        whole = self.first_share + share
        average = (self.first_share * first + share * rest) / whole
        std = rounds.noise.law.std / math.sqrt(whole)
        state = self._plain(average, std, rows)
        q = len(state.coef)
        factor = rows / max(rows - q, 1.0)
        sampling = factor * rows * np.eye(q)
        parts = self._parts(state, state.coef, sampling, state.score_noise)
        if self.sums_squares:
            known, law = self._imposed(average, isotropic(std))
            shown = Equations(law.image(self.joint), self.joint @ known @ self.joint.T, rows)
            with suppress(np.linalg.LinAlgError):
                parts = explained(parts, Goodness.of(shown, self.problem.design.constant))
        return replace(parts, method="one round", reason=reason)

    def _is_lost(self, state: ScoreState) -> bool:
        """Whether a fit by the Hessian of a state would be refused."""
        lost = state.hides_all or state.hessian_rse > LIMITS.trusted
        return lost and self.problem.purpose == "inference"

    def _stopped(self, state: ScoreState, refusal: str = HIDDEN) -> FitParts:
        """A refused fit, before the rest of the budget is spent on it."""
        return refused_parts(self.problem.n_written, refusal, rows=state.rows, stopped=True)

    def _parts(
        self,
        state: ScoreState,
        coef: Vector,
        sampling: Matrix,
        noise: Matrix,
        refusal: str | None = None,
    ) -> FitParts:
        """The fit, by covariances of the score at its coefficients."""
        if state.hides_all or state.hessian_rse > LIMITS.trusted:
            refusal = HIDDEN
        elif refusal is None and state.rows <= len(coef):
            refusal = TOO_FEW
        return FitParts(
            coef=coef,
            sampling=state.covariance(sampling),
            noise=state.covariance(noise),
            unidentified=state.unidentified,
            scale=state.scale,
            rows=state.rows,
            method="scores",
            refusal=refusal,
        )

    def _goodness(
        self, state: ScoreState, parts: FitParts, squared: Matrix, owed: float
    ) -> Goodness:
        """How much of the target is explained, by the second moment of scores (docs/theory/glm.md).

        The ones are a^T z, so that a^T (sum of (e z) (e z)^T) a is the sum of squared errors.
        """
        rows, metric = state.rows, np.linalg.inv(state.whitening)
        a = metric[-1]  # the ones are last
        slopes = metric.T @ parts.coef
        slopes = (slopes - (a @ slopes) / (a @ a) * a) / state.scale
        centred = np.eye(self.q) - np.outer(a, a) / (a @ a)
        # As of z: what noise and sampling do to the slopes.
        turn = centred @ metric.T / state.scale
        noise, sampling = (
            turn @ x @ turn.T for x in (parts.noise + parts.unidentified, parts.sampling)
        )
        explained = rows * max(float(slopes @ slopes - np.trace(noise)), 0.0)
        left = max(float(a @ squared @ a) / float(a @ a) - owed, 0.0)
        total = np.float64(explained + left)
        share, size = explained / total, (rows / total) ** 2
        part = max(share, 1e-300)  # noise of the slopes goes with them, and the Hessian's with two
        of_slopes = 4 * float(slopes @ noise @ slopes) * size / part
        of_hessian = float(state.hessian_noise.entry_variance(np.eye(self.q), slopes[None])[0, 0])
        of_hessian *= size / part**2
        of_left = 2 * (self.rounds.std[-1] / total) ** 2
        return Goodness(
            share,
            [
                0.0,
                of_slopes,
                of_hessian - 2 * of_slopes + of_left,
                of_slopes - 2 * of_hessian,
                of_hessian,
            ],
            [2 * float((x * x).sum()) * size for x in (noise, noise + sampling)],
            rows,
            rows - self.q,
            about_mean=True,
        )

    def _choose_clip(self, state: ScoreState, share: float) -> Clip:
        """Release how many scores are long, and choose the clip."""
        # Units have as many rows as the bound is for: what is longer is in the last bin.
        edges = norm_edges(math.sqrt(self.q), self._longest(state) * self.most)
        rounds = self.rounds
        [counts] = rounds.sums_at(self._at(state), Histogram(self._scores(state), edges))
        beyond = rounds.beyond(counts, share)
        noise = rounds.moves / rounds.mu(self.left * (1 - BUDGET.meat[0]))
        std, q = rounds.beyond_std, self.q
        if self.one_way:
            n = min(state.rows / self.each, self.most_long)
            return choose_clip(edges, beyond, noise, deviation=std, n=n, q=q)
        rank, allowance = CLIPPING.unbiased
        # Noise that leads far off does more than clipping.
        quiet = max(LIMITS.quiet * state.rows / (math.sqrt(q) * noise), self.usual_clip)
        clip = choose_clip(edges, beyond, noise, deviation=std, rank=rank, q=q, longest=quiet)
        if self.problem.family.counts:  # far beyond their means all point one way
            return replace(clip, allowance=allowance, is_heavy=False)
        return Clip(clip.size, clip.n_beyond, allowance, squares=clip.squares)

    def _with_errors(self, state: ScoreState) -> ScoreState:
        """The state with as much of its scale as the sum of squared errors, by itself, is sure of.

        It moves by less than what the scale was found by: a second moment of all columns.
        """
        rounds, target = self.rounds, self._at(state).matrix[self.q, None]
        longest = self._far(target) * math.sqrt(self.most)
        [squares] = rounds.sums_at(self._map_to(target), rounds.outer(1, longest))
        square = float(rounds.take(squares, BUDGET.errors * self.left)[0, 0])
        sure = square - LIMITS.sure * math.sqrt(2.0) * rounds.std[-1]
        return replace(state, sure_scale=min(state.sure_scale, max(sure / state.rows, 0.0)))

    def _nearer(self, state: ScoreState) -> ScoreState:
        """Scores before all others, while the initial estimate's noise would be felt at the end."""
        std = self._noise_at(state, self.usual_clip, BUDGET.early) * math.sqrt(state.rows)
        share = BUDGET.ahead * self.left
        for _ in range(BUDGET.most_ahead):
            if state.remaining * state.score_noise_var <= LIMITS.left * std**2:
                break
            clip = LIMITS.wide_clip * max(self.usual_clip, state.longest)
            score, noise = self._score(state, clip, share)
            state = state.updated(score, noise**2)
        return state

    def _reach(self, state: ScoreState, clip: Clip) -> float:
        """How much longer than a clip scores are: no residual is out of bounds, nor many a z."""
        residual = self._far(self._at(state).matrix[self.q, None]) * math.sqrt(self.most)
        longest = min(self._longest(state) * self.most, residual * self.longest_seen)
        return max(longest / clip.size, 1.0)

    def _ones_at(self, state: ScoreState) -> Vector | None:
        """The direction (q,) of a score that moves the constant alone, of length 1."""
        if not (self.sums_squares and self.problem.design.intercept):
            return None
        ones = np.linalg.inv(state.whitening)[-1]
        return np.asarray(ones / np.linalg.norm(ones))

    def _of_slopes(self, state: ScoreState, groups: str) -> Matrix:
        """Directions (q, s) of scores that move all but effects of a factor, if these are fitted.

        They are orthogonal to the levels' own, in which scores sum to 0 in every level.
        """
        design = self.problem.design
        others = np.delete(design.transform[:-1], design.terms.get(groups, slice(0)), axis=0)
        if groups not in design.terms or not len(others):
            return np.eye(self.q)
        return np.asarray(np.linalg.qr(state.whitening @ others.T)[0])

    def _last_scores(self, state: ScoreState, clip: Clip) -> FitParts:
        """Two scores, of which the last has the second moment of scores beside it."""
        rounds, rows, q = self.rounds, state.rows, self.q
        left = self.left
        wanted = (clip.size**2 / (0.1 * rows * rounds.noise.mu)) ** 2
        least, most = BUDGET.meat
        usual = left * min(max(wanted, least), most)
        one_way = clip.is_heavy and not self.of_units
        second = left * most if one_way else usual
        early = BUDGET.early * (left - second)
        score, std = self._score(state, clip.size, early)
        step, ahead = state.step(score), self._ahead(score, std)
        between = state.moved(ahead * step, ahead**2 * std**2)
        model = self._scores(between)
        kinds: list[Kind] = [Vectors(model, clip.size), Outer(model, clip.size)]
        if one_way:
            clip = replace(clip, reach=self._reach(state, clip))
            kinds.append(Vectors(model, clip.size / TAIL_REACH))
        clusters = rounds.clusters
        if clusters is not None:
            kinds += cluster_kinds(clusters, model, clip.size)
        scores, squares, *others = rounds.sums_at(self._at(between), *kinds)
        squared = rounds.take(squares, second)
        meat = states.raised(squared, rounds.std[-1])
        short = rounds.score(others.pop(0), BUDGET.tail * self.left) if one_way else None
        score, last = rounds.score(scores, self.left)
        # Two estimates that share the sample alone, weighed by what else they miss.
        first_var = state.moved(step, std**2).score_noise_var
        second_var = last**2 + state.remaining * first_var
        part = first_var / (first_var + second_var)
        far = (1 - part) * step + part * state.step(score)
        coef = state.coef + part * ahead * step + far
        noise_std = math.hypot((1 - part) * std, part * last)
        noise = clip.error(noise_std) ** 2 * np.eye(q) + state.left_over(far, clip.n_beyond)
        one_sided = None
        if short is not None:
            pull_std = math.hypot(noise_std, short[1])
            pull = part * score - short[0]
            more = clip.one_sided(pull, pull_std, squared, rounds.std[-1], self._ones_at(state))
            size = math.sqrt(float(np.linalg.norm(more, 2))) / noise_std
            one_sided = size if size > clip.allowance else None
            noise += more
        # Less noise of heavy tails contradicts no more.
        wide = states.raised(squared, rounds.std[-1] * math.sqrt(second / usual))
        contradicted = self._contradicts(state, float(np.trace(wide)) / (q * rows))
        # What clipping took off squares may be of any one direction; of their mean it is a qth.
        lost = clip.lost_squares / (1 if self.problem.robust else q)
        meat = self._sampled(meat + lost * np.eye(q), state)
        refusal = CONTRADICTED if contradicted else None
        facts = FitFacts(
            clip.size,
            clipping_excess=clip.more(noise_std),
            heavy_tail=clip.is_heavy or None,
            one_sided=one_sided,
        )
        if clusters is not None:
            directions = self._of_slopes(state, clusters.groups)
            together, found = cluster_moment(clusters, rounds, others, score, last, directions)
            beside = np.eye(q) - directions @ directions.T
            meat = directions @ together @ directions.T + beside @ meat @ beside
            facts = replace(facts, clusters=found)
            if found.ratio > CLUSTER_SHARES.most:
                drowned = DROWNED.format(shown(found.groups), found.ratio, CLUSTER_SHARES.most)
                refusal = refusal or drowned
        sampling = rows / max(rows - q, 1.0) * meat
        parts = replace(self._parts(state, coef, sampling, noise, refusal), facts=facts)
        path = LastSteps(far, coef - between.coef, noise_std)
        # Scores have weights twice, and those of a unit are added up before they are squared.
        weighted = rounds.moment.columns.row_weights is not None
        if self.sums_squares and parts.refusal is None and not (weighted or self.of_units):
            owed = q * std**2 / rows  # of errors where the squares were taken
            parts = explained(parts, self._goodness(state, parts, squared, owed))
        return replace(parts, clipped_rows=clip.n_beyond, path=path)

    def _ahead(self, score: Vector, std: float) -> float:
        """The part of the first of the last steps that is gone before the second score."""
        return 1.0

    def _contradicts(self, state: ScoreState, mean_square: float) -> bool:
        """Whether scores with this mean square are not those of errors of the scale.

        The scale has weights once and the square of a score twice: their mean square is the square
        of their mean at least.
        """
        least = max(LIMITS.least_square * state.sure_scale, LIMITS.least_square_at_all)
        return mean_square < least * self.mean_weight

    def _sampled(self, meat: Matrix, state: ScoreState) -> Matrix:
        """How the score varies, by the second moment of the rows' scores."""
        return meat if self.problem.robust else self._pooled(meat, state.rows)

    def _pooled(self, meat: Matrix, rows: float) -> Matrix:
        """The second moment of scores where errors are of equal variance."""
        return np.asarray(float(np.trace(meat)) / self.q * np.eye(self.q))

    def _score(self, state: ScoreState, clip: float, share: float) -> tuple[Vector, float]:
        """Release a score at a state; with the deviation of its noise."""
        [total] = self.rounds.sums_at(self._at(state), Vectors(self._scores(state), clip))
        return self.rounds.score(total, share)


def model_of(expected: Expected | Bounded, curved: bool = False) -> Model:
    """By a family or Huber's loss: its error, or the root of the weight in the Hessian."""
    steepest = getattr(expected, "steepest", 1.0)
    return Model(expected.score(curved=curved), steepest if curved else expected.most)


def explained(parts: FitParts, goodness: Goodness) -> FitParts:
    """A fit with how much of the target it explains, where these are numbers."""
    if not goodness.is_finite:
        return parts
    return replace(parts, facts=replace(parts.facts, goodness=goodness))


def estimated_rows(rounds: Rounds, first: Matrix, ones: Vector) -> float:
    """The number of rows, or the sum of their weights, off the first round; its error is kept."""
    error = math.sqrt(2.0) * rounds.std[-1] * float(ones @ ones)
    rounds.parameters["rows_std"] = error
    return max(float(ones @ first @ ones), 1.0)


def state_of(matrix: Matrix, law: NoiseLaw, std: float, back: Matrix, rows: float) -> ScoreState:
    """The state by a released second moment, by the map back to the columns of the design."""
    joint = back @ matrix @ back.T
    form = std * back @ back.T
    return states.initial_state((joint + joint.T) / 2, law.image(back), form, rows)
