"""One regression by scores: how released numbers decide the next step, and how closely.

A first look teaches where to start, the curvature and the scale of the errors. Scores of rows,
clipped, then move the start. The rules here see released numbers alone (docs/theory/scores.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from privgram.noise import GaussianLaw

if TYPE_CHECKING:
    from collections.abc import Callable

    from privgram._base.numbers import Matrix, Vector
    from privgram.noise import NoiseLaw

__all__ = ["Clip", "Start", "choose_clip", "lengths", "raised", "reach", "start", "turned"]

#: Shares of mu^2: of the first look, of the histogram of lengths, of the unit vectors by
#: length, of the number of rows where nothing else says it.
FIRST, COUNTS, TURNS, NUMBER = 0.08, 0.05, 0.04, 0.01

#: Of what is left then, the share of a step before all others, where the start is rough, how many
#: times the usual clip it has, and how many there are at most; and the share of the first of the
#: two that follow.
AHEAD, WIDE, MOST_AHEAD, EARLY = 0.04, 3.0, 3, 0.3

#: The curvature's noise may leave so much of the variance of a step's own noise.
LEFT = 0.1

#: Shares of looks at the middle, taken while the curvature is less clear than this.
MIDDLES, ROUGH = (0.1, 0.1, 0.2), 0.02

#: And while what the steps will leave makes the error of scores so much larger.
NEAR = 1.1

#: A direction below the noise's edge is not stepped in; one above twice that is, wholly.
SEEN = 1.0, 2.0

#: Looks at the middle clip rows, which may make the curvature in a direction so much too small.
#: Where units are clipped, their rows weigh less by as much as they are more.
SHORT, SHORT_OF_UNITS = 0.1, 0.3

#: Where units are protected: shares of the first look and of a histogram of their norms, where
#: nothing says how many rows they have; one is then taken to have no more than so many times the
#: mean.
FIRST_OF_UNITS, CHOICE, MOST_ROWS = 0.15, 0.03, 2.0

#: Points of the grid of lengths for each factor of 2, and where it begins, in root mean squares.
FINENESS, NEAREST = 8, 1 / 4

#: Scores beyond a place pull one way, or do not: by one of these parts of their number, as a
#: deviation in any direction, that falls as this power of how many there are; and each of them by
#: itself by so much. In the direction of a coefficient it may be more, by this factor.
PULLS, FADING, ALONE, WORST = (0.06, 0.24, 0.8), 0.15, 0.6, 1.4

#: Where outcomes are counts or of two kinds, long scores are those of the rarer ones, and pull one
#: way: known beforehand, since in the other directions, which show none, it would look small.
ONE_WAY = (1.0,)

#: Of the variance of what clipping takes off so much counts for the choice of a clip: most of it is
#: doubt about tails that are rarely there.
DOUBT = 0.5

#: Octaves of length over which the way that scores pull changes. Those tell how far they pull that
#: are longer than the root mean square, by this factor.
ALIKE, LONG = 1.0, math.sqrt(2.0)

#: The mean length in a shell is off from its middle by this part of it.
WITHIN = 0.03

#: Part of the curvature's noise beside a direction, as a mean square, beyond which there is no
#: inference.
TRUSTED = 1 / 8

#: Where the curvature depends on the coefficients: the least and most share of a score at the
#: middle, and at most so many; and the least and most share of a look at the curvature, and what
#: its noise may be beside it, as a mean square; and what is kept for the rest where directions are
#: hidden.
MIDDLE, MOST_MIDDLES, CURVED, FINE, KEPT, ROOM = (0.01, 0.06), 10, (0.01, 0.06), 0.002, 0.5, 0.3

#: Share of a histogram of lengths there, where its noise is no more than this part of the rows.
LENGTHS, FEW = 0.03, 0.004

#: Another look at the curvature is taken where it may be off by so much, as `SHORT` has it.
STALE = 0.13

#: There a direction so much above the noise's edge is stepped in wholly.
PLAINLY = 1.3

#: Share of the histogram of lengths there, and the usual clip beside that of least squares.
LINK_COUNTS, WIDER = 0.08, 1.3

#: No step is longer, in the root mean square of eta in the frame; a step leaves out at least this
#: part of its square; where that may be so many deviations of the score, another is taken at the
#: middle, or the last one refused; and a last one that changes eta by more says that it runs away.
LONGEST, BEND, FAR, MOST_BENT, RUNAWAY, SETTLED = 2.0, 0.25, 2.0, 2.0, 0.5, 0.1

#: There scores whose mean square is so much less than the curvature has it say that this is of
#: somewhere else: of the model they are alike, and in counts that vary less still above this.
LEAST_SQUARE = 0.3

#: Means of the target are not trusted nearer to the ends.
LEAST_MEAN = 0.02

#: Noise below this, in sampling errors, is nothing: no way has less, and scores have robust errors.
NOTHING = 0.03

#: Of Huber's loss: shares of a look at the curvature, and of the rest, of the steps before the last
#: two.
HUBER_CURVED, HUBER_AHEAD = 0.03, (0.05, 0.1)

#: About how long the clip is in root mean squares of a score, before lengths were seen.
USUAL = 3.0


@dataclass(frozen=True, eq=False)
class Start:
    """Where scores are taken, and in which frame."""

    coef: Vector  # (q,), of the design's columns
    scale: float  # about the standard deviation of the errors
    white: Matrix  # (q, q), W: z = W x has about the second moment of the rows' number times I
    seen: Vector  # (q,), by how much of a step each direction of z is moved, in [0, 1]
    blur: NoiseLaw  # of the noise of z's second moment over the rows
    rows: float
    behind: float  # variance of what the score here owes to noise, as a mean over directions
    stuck: float  # the part of it where no step goes
    noise: Matrix  # (q, q), covariance of what the score at the coefficients of `start` owes to it
    short: float = SHORT  # by what part the curvature may be too small in a direction, or too large
    bend: float = 0.0  # a step leaves out so much of its square over the rows, as a score
    typical: float = 1.0  # mean square of the length of z, by what is seen

    @property
    def hidden(self) -> bool:
        """Whether the noise hides some direction."""
        return bool(self.seen.min() < 1)

    def step(self, score: Vector) -> Vector:
        """The step of the design's coefficients by a score."""
        return np.asarray(self.scale * (self.white.T @ (self.seen * score)) / self.rows)

    @cached_property
    def rough(self) -> float:
        """Mean square of the curvature's noise beside its signal, over directions."""
        q = len(self.coef)
        return float(np.trace(self.blur.sandwich(np.eye(q), np.eye(q)))) / q

    def rest(self, behind: float) -> float:
        """Variance of what a full step leaves of a start that is so far off."""
        return (self.rough + self.short**2) * behind

    def predicted(self, noise: float) -> float:
        """Error of scores with so much noise, in sampling errors: by all steps that are taken."""
        left = min(self.rough + self.short**2, 1.0) ** MOST_AHEAD * self.behind
        return math.sqrt(noise**2 + (self.stuck + left) / self.rows)

    def clear(self, noise: float) -> bool:
        """Whether scores with so much noise need no better start."""
        known = not self.hidden and self.rough <= ROUGH
        return known and self.predicted(noise) <= NEAR * noise

    def wrong(self, step: Vector) -> float:
        """Variance, as a mean over directions of z, of what the curvature's error makes of a step.

        `step` is of the design's coefficients; the result is in units of scale^2 / rows^2.
        """
        return float(np.trace(self.left(step))) / len(step)

    def left(self, step: Vector) -> Matrix:
        """The covariance of that, in units of the score's, shape (q, q)."""
        moved, one = self.along(step), np.eye(len(step))
        outer = np.outer(moved, moved)
        bent = (self.bend * float(moved @ moved) / self.rows) ** 2 * one
        return np.asarray(self.blur.sandwich(one, outer) + self.short**2 * outer + bent)

    def along(self, step: Vector) -> Vector:
        """A step in directions of z, times the rows: the score that asks for it."""
        return np.asarray(np.linalg.solve(self.white.T, step) * (self.rows / self.scale))

    def bent(self, step: Vector, most: float, noise: float = 0.0) -> bool:
        """Whether a step may leave out so many deviations of the score, which has noise too."""
        moved = self.along(step)
        left_out = self.bend * float(moved @ moved) / self.rows
        return not left_out <= most * math.sqrt(self.rows + noise**2)


def start(joint: Matrix, law: NoiseLaw, edge: Matrix, rows: float) -> Start:
    """Where to begin by a released second moment (q + 1, q + 1) of the design and the target.

    `edge` (q + 1, q + 1) is a quadratic form within which its noise stays. Directions are those of
    H against that form. In one that the noise hides the curvature counts as the noise's edge, so
    that z is not long there, and no step is taken.
    """
    from scipy.linalg import eigh

    q = len(joint) - 1
    values, vectors = eigh(joint[:q, :q], edge[:q, :q])
    lifted = np.maximum(values, SEEN[0])
    coef = vectors @ ((vectors.T @ joint[:q, q]) * np.clip(values, 0, None) / lifted**2)
    white = math.sqrt(rows) * (vectors / np.sqrt(lifted)).T
    v = np.append(-coef, 1.0)
    # Not too small by the noise: a scale that is too large only makes scores short.
    doubt = math.sqrt(float(law.entry_variance(joint, v[None])[0, 0]))
    square = max(float(v @ joint @ v), 0.0) + doubt
    seen = np.clip((values - SEEN[0]) / (SEEN[1] - SEEN[0]), 0.0, 1.0)
    inner = np.zeros((q, q + 1))
    inner[:, :q] = white / math.sqrt(rows)
    noise = law.sandwich(joint, np.outer(v, v))[:q, :q] * (rows / square)
    noise = white @ noise @ white.T
    each = noise.diagonal()
    behind, stuck = float(each.mean()), float(((1 - seen) ** 2 * each).mean())
    blur = law.image(inner)
    typical = max(float((np.maximum(values, 0.0) / lifted).sum()), 1.0)
    scale = math.sqrt(square / rows)
    found = Start(coef, scale, white, seen, blur, rows, behind, stuck, noise)
    return replace(found, typical=typical)


def curved_look(
    std_at: Callable[[float], float], start: Start, each: float, known: float | None = None
) -> tuple[float, float]:
    """The radius of a look at the curvature, and its share of mu^2.

    As much as makes its noise `FINE` beside the curvature, as a mean square, and no more than
    `CURVED`; rows are clipped the later, the less of it that takes. `std_at` is the noise off the
    diagonal that all of mu^2 would leave, by the radius, which is `known` where lengths were seen.
    A unit has `each` rows.
    """
    for wide, most in ((48, CURVED[0]), (12, 4 * CURVED[0]), (6, CURVED[1]), (3, CURVED[1])):
        radius = known or math.sqrt((start.typical + wide * math.sqrt(start.typical)) * each)
        share = len(start.coef) * (std_at(radius) / start.rows) ** 2 / FINE
        if share <= most:
            break
    return radius, min(max(share, CURVED[0]), CURVED[1])


def wide(
    counts: Vector, counts_std: float, grid: Vector, noise: Vector, rows: float, q: int
) -> float:
    """The radius of looks at the curvature after which it has the least error in a direction.

    All that clipping takes off may be of one direction: of a rare level, whose rows are long.
    Released are `counts` of rows by their length, on the `grid`, where `noise` is that off the
    diagonal by radius; all of shape (m,).
    """
    number = np.where(counts > _SEEN * counts_std, counts, 0.0)
    middle = np.append(grid[0] / 2, np.sqrt(grid[1:] * grid[:-1]))
    lost = np.maximum(middle[None] ** 2 - grid[:, None] ** 2, 0.0) @ number / rows
    edge = 2 * math.sqrt(q) * noise / rows
    return float(grid[int((edge**2 + lost**2).argmin())])


def turned(start: Start, curved: Matrix, noise_std: float) -> Start:
    """A start in the frame that the curvature there teaches.

    `curved` (q, q) was released with isotropic noise, `noise_std` off the diagonal: of z in the
    start's own frame.
    """
    rows, q = start.rows, len(curved)
    values, vectors = np.linalg.eigh(curved)
    floor = 2 * math.sqrt(q) * noise_std
    lifted = np.maximum(values, SEEN[0] * floor)
    into = math.sqrt(rows) * (vectors / np.sqrt(lifted)).T
    seen = np.clip((values / floor - SEEN[0]) / (PLAINLY - SEEN[0]), 0.0, 1.0)
    blur = GaussianLaw(noise_std, math.sqrt(2.0) * noise_std).image(into / math.sqrt(rows))
    typical = max(float((np.maximum(values, 0.0) / lifted).sum()), 1.0)
    white = into @ start.white
    return replace(start, white=white, seen=seen, blur=blur, short=SHORT, typical=typical)


def by_curvature(start: Start, white: Matrix, curved: Matrix, noise_std: float) -> Start:
    """A start whose steps are by a curvature that was released in a frame, of scores in that frame.

    `curved` (q, q) was released with isotropic noise in the frame `white` (q, q).
    """
    q, rows = len(curved), start.rows
    values, vectors = np.linalg.eigh(curved)
    floor = 2 * math.sqrt(q) * noise_std
    lifted = np.maximum(values, floor)
    inverse = (vectors / lifted) @ vectors.T
    # Of the noise times the inverse, at most.
    most = noise_std / float(lifted.min())
    seen = np.full(q, float(values.min() > PLAINLY * floor))
    blur = GaussianLaw(most, math.sqrt(2.0) * most)
    return replace(start, white=rows * inverse @ white, seen=seen, blur=blur, short=0.0, bend=BEND)


def raised(second: Matrix, std: float) -> Matrix:
    """A released second moment on the wide side, of noise of so much off the diagonal."""
    deviation = math.sqrt(2.0) * std
    values, vectors = np.linalg.eigh(second)
    return np.asarray((vectors * (np.maximum(values, deviation) + deviation)) @ vectors.T)


def reach(typical: float, columns: int, last: bool = False) -> float:
    """The radius of a look in a frame, where a row has so many columns of about equal size.

    Of the last one, which clips next to nothing, it is the usual one.
    """
    return math.sqrt(typical * (1 + (8 if last else 6) / math.sqrt(columns)))


def lengths(typical: float, largest: float) -> Vector:
    """Lengths to choose from and to count rows by, up to the largest of all."""
    low = NEAREST * typical
    steps = max(1, math.ceil(FINENESS * math.log2(largest / low)))
    return np.asarray(np.minimum(low * 2.0 ** (np.arange(steps + 1) / FINENESS), largest))


@dataclass(frozen=True, eq=False)
class Clip:
    """Of scores, and what is known of what it takes away."""

    size: float  # the longest that a score counts
    beyond: float  # about how many rows are longer
    taken: Vector  # (q,), about what clipping takes off the score, as far as unit vectors show it
    error: float  # deviation of that in each direction, as the choice of a clip and a way counts it
    doubt: float  # and as it may be: for intervals
    noise: float  # deviation of the score's noise in each direction
    square: float  # about what it takes off the mean square of a score's entry, times the rows
    whole: float  # about the sum of the squares of a score's entry, without clipping


def unclipped(longest: float, noise: float, q: int) -> Clip:
    """Of scores that are bounded as they are, up to a longest one; `noise` as in `choose_clip`."""
    return Clip(longest, 0.0, np.zeros(q), 0.0, 0.0, noise * longest, 0.0, 0.0)


def choose_clip(
    counts: Vector,
    turns: Matrix,
    grid: Vector,
    counts_std: float,
    turns_std: float,
    noise: float,
    rows: float,
    most: float = 1.0,
    pulls: tuple[float, ...] = PULLS,
    cautious: bool = True,
) -> Clip:
    """The clip after which the score has the least error, by what rows beyond are taken to do.

    Released are `counts` (m,) of rows by the length of their score, on the `grid` (m,), and `turns`
    (m, q), sums of unit vectors along scores of a length. A score's noise has the deviation `noise`
    over its clip. No more than the part `most` of the rows is clipped. Of `pulls` see `PULLS`.
    Intervals are `cautious` of rows that noise hides, or take their mean.
    """
    m, q = turns.shape
    number, both, upper = expected(counts, grid, counts_std, rows)
    middle = _middle(grid)
    over = np.maximum(middle[None] - grid[:, None], 0.0)  # of clip i, shell j
    apart = np.abs(np.subtract.outer(np.arange(m), np.arange(m))) / FINENESS
    part = (1 + np.cumsum(upper[::-1])[::-1]) ** -FADING
    alike = np.exp(-apart / ALIKE) * np.outer(part, part)
    drawn = turns_std**2 * np.eye(m)
    # Sums of unit vectors in one direction: of N rows ALONE^2 N, and all together a pull, the more
    # alike the nearer two shells are. What is released of long scores tells which pull.
    long = grid[0] / NEAREST * LONG
    outside = slice(min(int(np.searchsorted(grid, long)), m - 2), m)
    errors, doubts, moved, fits = [], [], [], []
    for pull in pulls:
        prior = pull**2 * np.outer(upper, upper) * alike + ALONE**2 * np.diag(upper)
        fits.append(_likelihood(turns[outside], (prior + drawn)[outside, outside]))
        doubts.append(_left(over, prior, drawn, middle)[0])
        prior = pull**2 * both * alike + ALONE**2 * np.diag(number)
        error, gain = _left(over, prior, drawn, middle)
        errors.append(error)
        moved.append(gain @ turns)
    weight = np.exp(np.array(fits) - max(fits))
    weight /= weight.sum()
    error, doubt = (np.maximum(weight @ np.array(each), 0.0) for each in (errors, doubts))
    cost = (noise * grid) ** 2 + DOUBT * error
    few = (over > 0) @ number <= most * rows
    best = int(np.where(few, cost, np.inf).argmin())
    clipped = middle > grid[best]
    square = float((number * (middle**2 - grid[best] ** 2))[clipped].sum()) / q
    return Clip(
        float(grid[best]),
        float(number[clipped].sum()),
        np.tensordot(weight, np.array(moved), 1)[best],
        math.sqrt(DOUBT * error[best]),
        WORST * math.sqrt(max(error[best], doubt[best] if cautious else 0.0)),
        noise * float(grid[best]),
        square,
        float((number * middle**2).sum()) / q,
    )


def _middle(grid: Vector) -> Vector:
    """About how long scores of a shell are."""
    return np.append(grid[0] / 2, np.sqrt(grid[1:] * grid[:-1]))


def _likelihood(turns: Matrix, covariance: Matrix) -> float:
    """Of sums in q directions, each normal around zero, in logarithms."""
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, turns)
    return float(-0.5 * (white**2).sum() - turns.shape[1] * np.log(root.diagonal()).sum())


def _left(over: Matrix, prior: Matrix, drawn: Matrix, middle: Vector) -> tuple[Vector, Matrix]:
    """Of every clip: the variance of what it takes off, and its mean as a map of released sums."""
    gain = prior @ np.linalg.inv(prior + drawn)
    after = ((over @ (prior - gain @ prior)) * over).sum(axis=1)
    return after + (over > 0) @ ((WITHIN * middle) ** 2 * prior.diagonal()), over @ gain


#: Tails: the survival beyond a well-seen length x0 is exp(-a (x^b - 1) / b), x in units of x0:
#: powers (b = 0), stretched exponentials, exponential (1), normal (2); and how probable these are.
_BENDS = np.array([0.0, 0.25, 0.5, 1.0, 2.0])
_PROBABLE = np.array([0.5, 0.2, 0.1, 0.1, 0.1])
_RATES = np.exp(np.linspace(0.0, math.log(30.0), 30))

#: Tails that are powers have at least this one. With this probability there are rows beside, of
#: this power, of one of so many numbers up to a thirtieth of all.
LEAST_POWER, _BESIDE, _NUMBERS = 1.25, 0.1, 6

#: Rows are seen where a window of half an octave holds so many deviations of its noise; and fewer
#: within an octave of where they were seen, as noise far out must not be taken for rows. Tails
#: begin so much before.
_WINDOW, _SEEN, _NEAR, _BEFORE = FINENESS // 2, 5.0, 3.0, (FINENESS, FINENESS // 2)

#: The upper end of the posterior that intervals are for.
_UPPER = 0.95


def expected(
    counts: Vector, grid: Vector, counts_std: float, rows: float
) -> tuple[Vector, Matrix, Vector]:
    """Mean numbers of rows by shell, means of the products of two, and numbers that may well be.

    Seen shells have their counts. Farther out rows follow a family of tails, each weighed by
    how well it fits the counts, up to the largest length that any row can have. What may well be is
    the upper end of these, in order of what they have beyond the rows that are seen, from that
    place of two where tails may begin that allows for more.
    """
    m = len(grid)
    windows = np.array([counts[max(i + 1 - _WINDOW, 0) : i + 1].sum() for i in range(m)])
    clear = windows / (counts_std * math.sqrt(_WINDOW))
    last = int(max(np.flatnonzero(clear > _SEEN), default=0))
    while len(near := np.flatnonzero(clear[last + 1 : last + 1 + FINENESS] > _NEAR)):
        last += 1 + int(near[-1])
    over = np.maximum(_middle(grid) - grid[min(last, m - 2)], 0.0)
    seen = np.maximum(counts, 0.0)
    found = []
    for before in _BEFORE:
        at = min(max(last - before, 0), m - 2)
        weight, fitted = _tails(counts[at + 1 :], grid[at:], counts_std, rows)
        excess = fitted @ over[at + 1 :]
        order = np.argsort(excess)
        upper = order[int((np.cumsum(weight[order]) >= _UPPER).argmax())]
        found.append((float(excess[upper]), np.append(seen[: at + 1], fitted[upper])))
        if before == _BEFORE[0]:
            number = np.append(seen[: at + 1], weight @ fitted)
            both = np.outer(number, number)
            both[at + 1 :, at + 1 :] = (fitted * weight[:, None]).T @ fitted
    return number, both, max(found, key=lambda one: one[0])[1]


def _tails(
    observed: Vector, edges: Vector, counts_std: float, rows: float
) -> tuple[Vector, Matrix]:
    """Of every tail from the first edge on its probability, and the rows that it has by shell."""
    a, b = (part.ravel()[:, None] for part in np.meshgrid(_RATES, _BENDS, indexing="ij"))
    a = np.where(b == 0, a + LEAST_POWER - 1, a)
    log = np.log(edges / edges[0])[None]
    bent = np.where(b == 0, log, np.expm1(np.clip(b * log, -50, 50)) / np.where(b == 0, 1, b))
    survival = np.exp(-np.clip(np.vstack([a * bent, LEAST_POWER * log]), 0, 700))
    survival[:, -1] = 0.0  # no row is longer
    *regular, second = survival[:, :-1] - survival[:, 1:]
    part = np.array(regular)
    numbers = np.exp(np.linspace(math.log(3.0), math.log(max(rows / 30, 10.0)), _NUMBERS))
    beside = np.append(0.0, numbers)[:, None] * second
    prior = np.append(1 - _BESIDE, np.full(_NUMBERS, _BESIDE / _NUMBERS))
    weighed = part / (counts_std**2 + np.maximum(observed, 1.0))
    level = (weighed @ observed)[:, None] - weighed @ beside.T
    level = np.clip(
        level / np.maximum((weighed * part).sum(axis=1), 1e-30)[:, None], 1.0, max(rows, 1.0)
    )
    fitted = (level[..., None] * part[:, None] + beside).reshape(-1, len(observed))
    spread = counts_std**2 + fitted + 1
    fit = -0.5 * ((observed - fitted) ** 2 / spread + np.log(spread)).sum(axis=1)
    fit += np.log(np.outer(np.tile(_PROBABLE, len(_RATES)), prior)).ravel()
    weight = np.exp(fit - fit.max())
    # Rows vary about what a tail has; what was counted tells by how much, as far as noise lets it.
    fitted += (observed - fitted) * (fitted / (fitted + counts_std**2))
    return weight / weight.sum(), np.maximum(fitted, 0.0)
