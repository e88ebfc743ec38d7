"""What is known of a regression between two rounds: estimate, frame, and what noise leaves open.

By released and public numbers alone (docs/theory/glm.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from privgram.glm.budget import BUDGET
from privgram.noise import GaussianLaw, NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector


@dataclass(frozen=True)
class StateLimits:
    """When an estimate is good enough to go on from, and when its Hessian is known.

    Noise and errors are in deviations of the sampling error unless a line says otherwise.
    """

    #: Of directions of the frame, by their second moment over the edge of its noise: below the
    #: first none is stepped in, above the second wholly; where the Hessian itself was released,
    #: above the third.
    visible: tuple[float, float] = (1.0, 1.3)
    visible_hessian: float = 1.3
    edge: float = 2.0  # deviations beyond what noise makes of so many directions
    #: A hidden direction is taken to explain no more than this part of the residual deviation.
    unidentified: float = 0.2
    #: Where directions have fewer rows than are counted, those are meant that this part of the
    #: rows which noise may make of none would fill, were all as long as a row may be.
    uncounted: float = 1 / 8
    #: Of the rows that make a direction no more than this part is taken to be clipped.
    most_clipped: float = 0.9
    #: The Hessian may be off by this part in a direction, since middle rounds clip rows;
    #: where units are clipped, their rows weigh less by as much as they are more.
    hessian_bias: float = 0.1
    hessian_bias_of_units: float = 0.3
    #: Mean square of the Hessian's noise beside its signal: middle rounds go on above the
    #: first; above the second there is no inference.
    clear_rse: float = 0.02
    trusted: float = 1 / 8
    #: And while what the steps will leave makes the error so much larger.
    near: float = 1.1
    #: The Hessian's noise may leave so much of the variance of a step's own noise.
    left: float = 0.1
    #: Deviations of its noise that are not sure of a squared scale.
    sure: float = 1.5
    #: A mean square of scores below the first part of what is sure of the scale contradicts it, and
    #: one below the second whatever is sure: the errors are those of a few rows.
    least_square: float = 0.3
    least_square_at_all: float = 0.02
    #: The clip before norms were counted, in root mean squares; and that of scores before all
    #: others, over the usual one.
    usual_clip: float = 3.0
    wide_clip: float = 3.0
    #: A unit is taken to have no more than so many times the mean number of rows.
    most_rows: float = 2.0
    #: Noise below this is nothing: no other method has less, and scores have robust errors.
    nothing: float = 0.03
    #: Where the Hessian depends on the coefficients. A round for it makes its noise this part of
    #: it, as a mean square; another is taken where it may be off by the second number.
    fine: float = 0.002
    fine_of_pieces: float = 0.006
    stale: float = 0.13
    most_stale: float = 0.5  # above it there is no inference: the Hessian is of elsewhere
    #: Rows of a norm are seen where as many deviations of their counts' noise are longer.
    seen: float = 2.0
    #: A histogram of |z| there has no more noise than this part of the rows.
    few: float = 0.004
    #: Where whole rows give the Hessian more noise than this part of the rows, it is summed of them
    #: once, and only what stands out is believed.
    clear_edge: float = 0.25
    #: The usual clip there beside that of least squares.
    wider: float = 1.3
    #: No step is longer, in the root mean square of eta, and the start no longer than the second
    #: number, nor its noise than `quiet`. A step goes back where the score after it points back by
    #: more than the part `overshot` of what led there. It leaves out at least `bend` of its square;
    #: where that may be `far` deviations of the score, another middle step is taken, or above
    #: `most_bent` the last one refused; a last one that changes eta by more than `runaway`
    #: diverges; and one that has settled changes it by no more than `settled` beside its noise.
    longest: float = 2.0
    longest_start: float = 1.0
    quiet: float = 0.3
    overshot: float = 0.25
    bend: float = 0.25
    far: float = 2.0
    most_bent: float = 8.0
    runaway: float = 0.5
    settled: float = 0.1
    #: Classes count as separated where features leave less than this part of the mean weight.
    certain: float = 0.04
    #: The Hessian is taken to change by no more than this part of it on the way of both last steps.
    most_changed: float = 0.9
    #: Means of the target are not trusted nearer to the ends.
    least_mean: float = 0.02
    least_mean_at_all: float = 1e-4


LIMITS = StateLimits()


@dataclass(frozen=True, eq=False)
class CrossNoise:
    """What noise N of a second moment leaves of A = sum z x^T over the rows: left N right^T."""

    law: NoiseLaw
    matrix: Matrix  # (D, D), as it was released
    left: Matrix  # (q, D)
    right: Matrix  # (q, D)

    def sandwich(self, _: Matrix, inner: Matrix) -> Matrix:
        """Covariance of the noise times directions of which `inner` (q, q) is the second moment."""
        pulled = self.law.sandwich(self.matrix, self.right.T @ inner @ self.right)
        return np.asarray(self.left @ pulled @ self.left.T)

    def image(self, into: Matrix) -> CrossNoise:
        """That in another frame of z, in which the Hessian is left and right alike."""
        return CrossNoise(self.law, self.matrix, into @ self.left, into @ self.right)

    def entry_variance(self, _: Matrix, frame: Matrix) -> Matrix:
        """Variances of the squared forms of rows."""
        pairs = [np.stack([row @ self.left, row @ self.right]) for row in frame]
        return np.array([[self.law.entry_variance(self.matrix, pair)[0, 1]] for pair in pairs])


@dataclass(frozen=True, eq=False)
class ScoreState:
    """An estimate, the frame in which scores are taken there, and what is known of both.

    In the frame a row's features are z = W x, with about the second moment of the rows' number
    times I; a score is in units of `scale`.
    """

    coef: Vector  # (q,), of the design's columns
    scale: float  # about the standard deviation of the errors
    whitening: Matrix  # (q, q), W
    visible: Vector  # (q,), by how much of a step each direction of z is moved, in [0, 1]
    hessian_noise: NoiseLaw | CrossNoise  # of z's second moment over the rows
    rows: float
    score_noise: Matrix  # (q, q), covariance of what the score here owes to noise
    hessian_bias: float = LIMITS.hessian_bias
    curvature: float = 0.0  # a step leaves out so much of its square over the rows, as a score
    typical: float = 1.0  # mean square of the length of z, by what is visible
    #: The part of scale^2 that is there but for `LIMITS.sure` deviations of its noise.
    sure_scale: float = 1.0
    #: One over the number of rows, or units, that make long directions, and the length of z there.
    few: Matrix | None = None  # (q, q)
    longest: float = 0.0

    @property
    def hides(self) -> bool:
        """Whether the noise hides some direction."""
        return bool((self.visible < 1).any())

    @property
    def hides_all(self) -> bool:
        """Whether it hides them all."""
        return bool(len(self.visible) and self.visible.max() < 1)

    def step(self, score: Vector) -> Vector:
        """The step of the design's coefficients by a score."""
        return np.asarray(self.scale * (self.whitening.T @ (self.visible * score)) / self.rows)

    @cached_property
    def hessian_rse(self) -> float:
        """Mean square of the Hessian's noise beside its signal, over visible directions."""
        visible = np.diag(self.visible)
        noise = self.hessian_noise.sandwich(np.eye(len(visible)), visible)
        return float(np.trace(visible @ noise)) / max(float(np.trace(visible)), 1.0)

    @property
    def score_noise_var(self) -> float:
        """The mean of `score_noise` over directions."""
        return float(np.trace(self.score_noise)) / len(self.coef)

    @property
    def remaining(self) -> float:
        """The part of the variance of the estimate's error that a full step leaves."""
        return self.hessian_rse + self.hessian_bias**2

    def predicted(self, noise: float) -> float:
        """Error of scores with so much noise, by all steps that are taken."""
        left = min(self.remaining, 1.0) ** BUDGET.most_ahead * self.score_noise_var
        return math.sqrt(noise**2 + left / self.rows)

    def clear(self, noise: float) -> bool:
        """Whether scores with so much noise need no better estimate to begin with."""
        known = not self.hides and self.hessian_rse <= LIMITS.clear_rse
        return known and self.predicted(noise) <= LIMITS.near * noise

    def moved(self, step: Vector, noise_var: float) -> ScoreState:
        """The state after a step by a score with noise of this variance in each direction."""
        left = noise_var + float(np.trace(self.left_over(step))) / len(step)
        return replace(self, coef=self.coef + step, score_noise=left * np.eye(len(step)))

    def updated(self, score: Vector, noise_var: float) -> ScoreState:
        """The state after as much of the step by a score as is not known better.

        The estimate and the score are averaged by their covariances.
        """
        one = np.eye(len(score))
        gain = np.linalg.solve(self.score_noise + noise_var * one, self.score_noise).T
        step = self.step(gain @ score)
        noise = noise_var * (gain + gain.T) / 2 + self.left_over(step)
        return replace(self, coef=self.coef + step, score_noise=noise)

    def left_over(self, step: Vector, n_clipped: float = 0.0) -> Matrix:
        """Covariance of what the Hessian's error leaves of a step, as a score, shape (q, q).

        And what so many clipped rows take off it, where a direction is made by few.
        """
        along, one = self.along(step), np.eye(len(step))
        outer = np.outer(along, along)
        hidden = np.diag(self._unidentified)  # which no step went along
        bent = (self.curvature * float(along @ along) / self.rows) ** 2 * one
        noise = self.hessian_noise.sandwich(one, outer + hidden)
        left = np.asarray(noise + self.hessian_bias**2 * outer + bent)
        if self.few is not None:
            values, vectors = np.linalg.eigh(self.few)
            part = np.clip(n_clipped * values, 0.0, LIMITS.most_clipped)
            lost = (vectors * (part / (1 - part))) @ (vectors.T @ along)
            left = left + np.outer(lost, lost)
        return left

    @property
    def _unidentified(self) -> Vector:
        """Variances of what is not known along hidden directions, as a score, shape (q,)."""
        return np.asarray(((1 - self.visible) * LIMITS.unidentified * self.rows) ** 2)

    @property
    def unidentified(self) -> Matrix:
        """Covariance of the coefficients by what no step went along, shape (q, q)."""
        back = self.scale * self.whitening.T / self.rows
        return np.asarray((back * self._unidentified) @ back.T)

    def along(self, step: Vector) -> Vector:
        """A step in directions of z, times the rows: the score that asks for it."""
        return np.asarray(np.linalg.solve(self.whitening.T, step) * (self.rows / self.scale))

    def bends(self, step: Vector, most: float, noise: float = 0.0) -> bool:
        """Whether a step may leave out so many deviations of the score, which has noise too."""
        along = self.along(step)
        left_out = self.curvature * float(along @ along) / self.rows
        return not left_out <= most * math.sqrt(self.rows + noise**2)

    def covariance(self, score: Matrix) -> Matrix:
        """That of the coefficients, by the covariance of a score."""
        back = self.scale * self.whitening.T / self.rows
        return np.asarray(back @ score @ back.T)


def initial_state(joint: Matrix, law: NoiseLaw, form: Matrix, rows: float) -> ScoreState:
    """The state that a released second moment (q + 1, q + 1) of the design and the target gives.

    `form` (q + 1, q + 1) is the noise's variance off the diagonal in a direction, as a quadratic
    form. Directions are those of H against that form. In one that the noise hides the Hessian
    counts as the noise's edge, so that z is not long there, and no step is taken.
    """
    from scipy.linalg import eigh

    q = len(joint) - 1
    hessian = joint[:q, :q]  # of none scipy has no eigenvalues
    values, vectors = eigh(hessian, form[:q, :q]) if q else np.linalg.eigh(hessian)
    low, high = LIMITS.visible
    edge = direction_noise_edge(values)
    lifted = np.maximum(values, low * edge)
    coef = vectors @ ((vectors.T @ joint[:q, q]) * np.clip(values, 0, None) / lifted**2)
    white = math.sqrt(rows) * (vectors / np.sqrt(lifted)).T
    v = np.append(-coef, 1.0)
    # Not too small by the noise: a scale that is too large only makes scores short.
    doubt = math.sqrt(float(law.entry_variance(joint, v[None])[0, 0]))
    residual = max(float(v @ joint @ v), 0.0)
    square = residual + doubt
    inner = np.zeros((q, q + 1))
    inner[:, :q] = white / math.sqrt(rows)
    noise = law.sandwich(joint, np.outer(v, v))[:q, :q] * (rows / square)
    return ScoreState(
        coef=coef,
        scale=math.sqrt(square / rows),
        whitening=white,
        visible=np.clip((values / edge - low) / (high - low), 0.0, 1.0),
        hessian_noise=law.image(inner),
        rows=rows,
        score_noise=white @ noise @ white.T,
        typical=max(float((np.maximum(values, 0.0) / lifted).sum()), 1.0),
        sure_scale=max(residual - LIMITS.sure * doubt, 0.0) / square,
    )


def direction_noise_edge(values: Vector) -> float:
    """What noise may make of directions without signal, in deviations of its entries.

    `values` are eigenvalues in the same unit. Of m directions the largest eigenvalue of noise alone
    is about 2 m^(1/2) off the diagonal; those far above hardly change what it does to the others.
    """
    most = 2 * math.sqrt(len(values) + 1)
    n_small = max(int((values < most).sum()), 1)  # the least of them may be noise
    return min(most, 2 * math.sqrt(n_small) + LIMITS.edge)


def isotropic(std: float) -> GaussianLaw:
    """The law of isotropic noise, by its deviation off the diagonal."""
    return GaussianLaw(std, math.sqrt(2.0) * std)


def hessian_round(
    std_at: Callable[[float], float],
    state: ScoreState,
    each: float,
    known: float | None = None,
    fine: float = LIMITS.fine,
) -> tuple[float, float]:
    """The radius of a round for the Hessian, and its share of mu^2.

    As much as makes its noise `fine` beside the Hessian, as a mean square, within the shares of
    the budget; rows are clipped the later, the less of it that takes. `std_at` is the noise off
    the diagonal that all of mu^2 would leave, by the radius, which is `known` where norms were
    counted. A unit has `each` rows.
    """
    least, most = BUDGET.hessian
    for deviations, bound in ((48, least), (12, 4 * least), (6, most), (3, most)):
        radius = math.sqrt((state.typical + deviations * math.sqrt(state.typical)) * each)
        radius = known or radius
        share = len(state.coef) * (std_at(radius) / state.rows) ** 2 / fine
        if share <= bound:
            break
    return radius, min(max(share, least), most)


def lost_squares(edges: Vector, beyond: Vector) -> Vector:
    """What clipping to each of the edges takes off the trace of a second moment, shape (m,).

    `beyond` (m,) are counts of rows that are longer than each.
    """
    steps = np.diff(np.append(edges, edges[-1]) ** 2)
    return np.asarray(np.cumsum((beyond * steps)[::-1])[::-1])


def uncounted_directions(state: ScoreState, edges: Vector, beyond: Vector, doubt: float) -> int:
    """How many directions have a curvature that no rows which are counted make.

    `beyond` (m + 1,) are counts of rows whose z is longer than 0 and each of the m edges, 0 where
    they are no more than `doubt`. The frame makes each direction that is visible as long as all
    others. Where few rows carry one, clipping in the rounds before has made it the longer the fewer
    they are, and rows too few to be counted, however long, have all its curvature.
    """
    squares = np.append(0.0, edges**2)
    counted = float((np.diff(squares) * (beyond[1:] + beyond[:-1]) / 2).sum())
    doubt *= float(squares[beyond > 0].max())
    missing = (state.typical * state.rows - counted - doubt) / state.rows
    return int(min(max(missing + 0.5, 0.0), len(state.coef)))


def without(state: ScoreState, hidden: NDArray[np.bool_]) -> ScoreState:
    """The state in which more directions are hidden.

    Of all estimates that differ along these alone it has the shortest.
    """
    rest, gone = np.where(hidden, 0.0, 1.0), state.whitening[hidden]
    return replace(
        state,
        coef=state.coef - np.linalg.pinv(gone) @ (gone @ state.coef),
        visible=rest * state.visible,
        score_noise=state.score_noise * np.outer(rest, rest),
        typical=state.typical - float(hidden @ state.visible),
    )


def hessian_radius(edges: Vector, lost: Vector, noise: float, q: int) -> tuple[float, float]:
    """The radius after which a Hessian has the least error in a direction, and that error.

    All that clipping takes off may be of one direction: of a rare level, whose rows are long.
    `noise` is the deviation off the diagonal for a radius of 1.
    """
    error = np.hypot(hessian_noise_edge(q, noise) * edges**2, lost)
    best = int(error.argmin())
    return float(edges[best]), float(error[best])


def hessian_noise_edge(q: int, noise_std: float) -> float:
    """What noise may make of the largest of q eigenvalues of a Hessian."""
    return (2 * math.sqrt(q) + LIMITS.edge) * noise_std


def with_excess(state: ScoreState, hessian: Matrix, noise_std: float, radius: float) -> ScoreState:
    """The state with what a Hessian of longer rows has beyond the one that the frame is of.

    `hessian` (q, q) was released in the state's own frame with isotropic noise, `noise_std` off the
    diagonal, of rows clipped to a radius. Only what stands out of the noise is believed. Along it
    the estimate is drawn to the shortest, by its noise beside what a hidden direction explains.
    """
    rows, q = state.rows, len(hessian)
    values, vectors = np.linalg.eigh(hessian - rows * np.eye(q))
    stands_out = values > hessian_noise_edge(q, noise_std)
    if not stands_out.any():
        return replace(state, hessian_bias=math.hypot(state.hessian_bias, noise_std / rows))
    grown, along = rows + values[stands_out], vectors[:, stands_out]
    into = np.eye(q) + (along * (np.sqrt(rows / grown) - 1)) @ along.T
    back = np.eye(q) + (along * (np.sqrt(grown / rows) - 1)) @ along.T
    noise = back @ state.score_noise @ back  # the curvature times where the estimate is
    size = LIMITS.unidentified * rows
    owed = (along * (noise @ along)).sum(axis=0)
    drawn = owed / (owed + size**2)
    keep = np.eye(q) - (along * drawn) @ along.T
    leading = along.T @ into @ state.whitening
    few = (along * (radius**2 / grown)) @ along.T
    largest = float(grown.max())
    return replace(
        state,
        coef=state.coef - np.linalg.pinv(leading) @ (drawn * (leading @ state.coef)),
        whitening=into @ state.whitening,
        visible=state.visible + (1 - state.visible) * (along**2).sum(axis=1),
        score_noise=keep @ noise @ keep + (along * (drawn * size) ** 2) @ along.T,
        hessian_noise=state.hessian_noise.image(into),
        hessian_bias=math.hypot(state.hessian_bias, noise_std / largest),
        few=few if state.few is None else few + into @ state.few @ into,
        longest=radius * math.sqrt(rows / largest),
    )


def in_frame_of(state: ScoreState, hessian: Matrix, noise_std: float) -> ScoreState:
    """The state in the frame that the Hessian there gives.

    `hessian` (q, q) was released with isotropic noise, `noise_std` off the diagonal: of z in the
    state's own frame.
    """
    rows = state.rows
    values, vectors = np.linalg.eigh(hessian)
    edge = direction_noise_edge(values / noise_std) * noise_std
    low = LIMITS.visible[0]
    lifted = np.maximum(values, low * edge)
    into = math.sqrt(rows) * (vectors / np.sqrt(lifted)).T
    visible = np.clip((values / edge - low) / (LIMITS.visible_hessian - low), 0.0, 1.0)
    return replace(
        state,
        whitening=into @ state.whitening,
        visible=visible,
        hessian_noise=isotropic(noise_std).image(into / math.sqrt(rows)),
        hessian_bias=LIMITS.hessian_bias,
        typical=max(float((np.maximum(values, 0.0) / lifted).sum()), 1.0),
    )


def scaled(state: ScoreState, factors: Vector) -> ScoreState:
    """The state in a frame whose directions are times `factors` (q,), of hidden ones."""
    turn = np.diag(factors)
    return replace(
        state,
        whitening=turn @ state.whitening,
        hessian_noise=state.hessian_noise.image(turn),
        score_noise=turn @ state.score_noise @ turn,
    )


def by_hessian(
    state: ScoreState, whitening: Matrix, hessian: Matrix, noise_std: float
) -> ScoreState:
    """The state whose steps are by a Hessian that was released in a frame, as its scores are.

    `hessian` (q, q) was released with isotropic noise, in the frame of `whitening` (q, q).
    """
    q, rows = len(hessian), state.rows
    values, vectors = np.linalg.eigh(hessian)
    edge = 2 * math.sqrt(q) * noise_std
    lifted = np.maximum(values, edge)
    inverse = (vectors / lifted) @ vectors.T
    # Of the noise times the inverse, at most.
    most = noise_std / float(lifted.min())
    return replace(
        state,
        whitening=rows * inverse @ whitening,
        visible=np.full(q, float(values.min() > LIMITS.visible_hessian * edge)),
        hessian_noise=isotropic(most),
        hessian_bias=0.0,
        curvature=LIMITS.bend,
    )


def raised(second: Matrix, std: float) -> Matrix:
    """A released second moment on the wide side, of noise of so much off the diagonal."""
    deviation = math.sqrt(2.0) * std
    values, vectors = np.linalg.eigh(second)
    return np.asarray((vectors * (np.maximum(values, deviation) + deviation)) @ vectors.T)


def radius_at_middle(typical: float, columns: int) -> float:
    """The radius of a round in a frame, where a row has so many columns of about equal size."""
    return math.sqrt(typical * (1 + 6 / math.sqrt(columns)))
