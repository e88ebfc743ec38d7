"""Private Newton steps: how released numbers decide where to look next, and how closely.

The fit of a logistic regression is found by looks at the table. Each releases the curvature
H = sum o w z z^T and the score g = sum o e z at coefficients that the looks before it gave, in the
frame that they taught; the rules here see released numbers alone (docs/theory/newton.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privgram.mechanisms.refined import Frame, rows_beyond, whiten

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.regression.design import Design

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = [
    "Clip",
    "Point",
    "Space",
    "careful",
    "choose_clip",
    "curved_share",
    "misfit",
    "newton_step",
    "unsettled",
]

#: Shares of mu^2: of the first look, of each at the middle, of the histogram of lengths and, where
#: nothing else says it, of the number of rows.
FIRST, MIDDLE, COUNTS, NUMBER = 0.07, 0.15, 0.1, 0.01

#: Part of the rest for a look with the clip of the last one, which has what is left then: so the
#: last step is a short one, and leaves out next to nothing.
NEAR = 0.2

#: At most so many looks at the middle, and what part of one is for the curvature.
MOST_MIDDLE, MIDDLE_CURVED = 3, 0.4

#: The last step is taken to be so many sampling errors long, and the noise of the step before. The
#: noise of the curvature may be so much of it, as far as it gets no more than so much of the look.
STEP, CURVED_NOISE, CURVED_MOST = 5.0, 0.03, 0.5

#: Models are somewhat wrong. Where weights are, the mean of y may be off by this part of its
#: standard deviation: what that moves estimates by grows with the number of rows.
MISFIT = 0.1

#: What the weights move estimates by counts so much of noise: it goes one way of many.
WARY = 0.5

#: No clip is taken for which the noise of the curvature, as a root mean square over the curvature,
#: may be larger: inference would be refused.
BLUR = 0.12

#: So many deviations of noise are seen in the histogram, and by which power the ratio of one bin
#: to the one before falls beyond. To see too much widens intervals, to see too little is worse.
RESOLVED, FALLING = 4.0, 1.3

#: No step is longer, in the root mean square of eta where the frame is white.
LONGEST = 2.0

#: A step leaves out about this part of its square, times the rows, from the score. Where that may
#: be so many deviations of the score, another step is taken at the middle, or the last one refused.
BEND, FAR, MOST_BENT = 0.25, 2.0, 0.35

#: A last step that changes log odds by more, as a root mean square, says that they run away.
RUNAWAY = 0.5

#: Means of the target are not trusted nearer to 0 and 1.
LEAST_MEAN = 0.02


class Space:
    """The features of a design as a subspace of the released columns.

    Attributes
    ----------
    basis : ndarray of shape (d, q), float64
        Orthonormal: v = basis^T u for rows u.
    mixing : ndarray of shape (q, q), float64
        The features are mixing @ v.
    target : tuple of float
        Center and half-width of the target, which is 0 or 1.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.basis, upper = np.linalg.qr(design.frame[:-1].T)
        self.mixing: Matrix = upper.T
        low, high = design.ends
        self.target = ((low + high) / 2, (high - low) / 2)

    def to_coef(self, frame: Frame) -> Matrix:
        """What takes coefficients of z = frame.matrix @ v to those of the features."""
        return np.asarray(np.linalg.solve(self.mixing.T, frame.matrix.T), dtype=np.float64)

    def whole(self, frame: Frame) -> Frame:
        """The frame as a map of released columns to z, then to the target, then to nothing."""
        d, q = self.basis.shape
        found = np.zeros((d, d))
        found[:q] = frame.matrix @ self.basis.T
        found[q] = self.design.frame[-1]
        return replace(frame, matrix=found)

    def spread(
        self, frame: Frame, move: Vector, moment: Matrix, noise_std: float, rows: float
    ) -> float:
        """Root mean square over rows of what a step changes eta by; at least that, but for luck."""
        along = self.basis @ (frame.matrix.T @ move)
        square = float(along @ moment @ along) - 2 * math.sqrt(2.0) * noise_std * float(
            along @ along
        )
        return math.sqrt(max(square, 0.0) / rows)

    def mean(self, moment: Matrix) -> float:
        """The target's mean by a released second moment; a half without an intercept."""
        if not self.design.intercept:
            return 0.5
        ones, goal = self.design.frame[-2:]
        count = max(float(ones @ moment @ ones), 1.0)
        mean = self.target[0] + self.target[1] * float(goal @ moment @ ones) / count
        return min(max(mean, LEAST_MEAN), 1 - LEAST_MEAN)


@dataclass(frozen=True)
class Point:
    """Where the next look is.

    Attributes
    ----------
    frame : Frame
    coef : ndarray of shape (q,), float64
        Of z in the frame.
    clip : float
        Of scores, for a look at the middle: their root mean square, if all had the larger size.
    """

    frame: Frame
    coef: Vector
    clip: float

    @classmethod
    def first(cls, space: Space, moment: Matrix, noise_std: float, rows: float) -> Point:
        """By a released second moment: least squares, on the scale of log odds at the mean.

        Parameters
        ----------
        space : Space
        moment : ndarray of shape (d, d), float64
        noise_std : float
            Off the diagonal.
        rows : float
        """
        design, (center, half_width) = space.design, space.target
        frame = whiten(space.basis.T @ moment @ space.basis, noise_std, rows)
        mean = space.mean(moment)
        coef = np.zeros(len(frame.matrix))
        if design.intercept:
            into = frame.matrix @ space.basis.T
            ones, goal = design.frame[-2:]
            moved = into @ moment @ (half_width * goal + (center - mean) * ones)
            constant = frame.inverse.T @ (space.basis.T @ ones)
            coef = math.log(mean / (1 - mean)) * constant
            coef = coef + shortened(moved / (rows * mean * (1 - mean)))
        return cls(frame, coef, max(mean, 1 - mean) * math.sqrt(frame.typical))

    def step(
        self,
        curved: Matrix,
        pulled: Vector,
        noise_std: float,
        rows: float,
        mean: float,
    ) -> tuple[Point, Vector]:
        """Where a Newton step leads, in the frame that its curvature teaches; and the step.

        Directions that the noise hides move little: their curvature counts as the noise's edge.
        """
        move = careful(curved, pulled, noise_std)
        frame = whiten(curved, noise_std, rows, self.frame)
        turned = frame.inverse.T @ (self.frame.matrix.T @ (self.coef + move))
        most = max(mean, 1 - mean)
        return Point(frame, turned, math.sqrt(most / (1 - most) * frame.typical)), move

    def moved(self, curved: Matrix, pulled: Vector, noise_std: float) -> Point:
        """Where a step leads, in the same frame: for another look with the same clip."""
        return replace(self, coef=self.coef + careful(curved, pulled, noise_std))


def newton_step(curved: Matrix, pulled: Vector) -> Vector:
    """H^{-1} g, or the least step where H is singular."""
    return np.asarray(np.linalg.lstsq(curved, pulled, rcond=None)[0], dtype=np.float64)


def careful(curved: Matrix, pulled: Vector, noise_std: float) -> Vector:
    """A Newton step in which the noise's edge is added to the curvature, and not too long."""
    values, vectors = np.linalg.eigh(curved)
    lifted = np.maximum(values, 0.0) + 2 * math.sqrt(len(values)) * noise_std
    return shortened(vectors @ ((vectors.T @ pulled) / lifted))


def shortened(move: Vector) -> Vector:
    """A step, if it is not too long."""
    found: Vector = move * min(1.0, LONGEST / max(float(np.linalg.norm(move)), 1e-300))
    return found


@dataclass(frozen=True)
class Clip:
    """Of scores: how long one may be.

    Attributes
    ----------
    size : float
    kept : float
        About what part of the curvature is left.
    moved : float
        About the variance of what weighing moves estimates by, over the sampling variance.
    """

    size: float
    kept: float
    moved: float


def choose_clip(
    counts: Vector,
    grid: Vector,
    counts_std: float,
    score_std: Vector,
    curved_std: Vector,
    rows: float,
    q: int,
) -> Clip:
    """The clip that adds the least variance to the estimates.

    Parameters
    ----------
    counts : ndarray of shape (m,), float64
        Released: sums of |e| / m over rows whose score can be as long as this point of the grid,
        and longer than the one before.
    grid : ndarray of shape (m,), float64
        Sizes that a score can have, ascending; none is larger than the last.
    counts_std : float
        Noise of the counts.
    score_std, curved_std : ndarray of shape (m,), float64
        Noise of the score for each clip, and of the curvature off its diagonal.
    rows : float
    q : int
        Number of features.

    Notes
    -----
    Rows whose score may be r > clip weigh o = clip / r. What was counted times r^2 is |e| m |z|^2,
    whose mean is 2 m w |z|^2, m in [1/2, 1]: as good as the trace of the curvature. In units in
    which the curvature is s times the identity, the noise moves estimates by score_std / (kept s),
    and the weights by the sum of (o / kept - 1) e z, over s.
    """
    beyond = rows_beyond(counts, counts_std, RESOLVED, FALLING)
    numbers = np.maximum(-np.diff(beyond, prepend=beyond[0] + max(counts[0], 1.0)), 0.0)
    part = numbers * grid**2
    s = max(float(part.sum()) / q, rows)
    part = part / part.sum()
    weights = np.minimum(1.0, grid[:, None] / grid)  # of rows j at clip i
    kept = weights @ part
    moved = (weights / kept[:, None] - 1) ** 2 @ part
    cost = (score_std / kept) ** 2 / s + WARY * misfit(rows) * moved
    blur = math.sqrt(q + 1) * curved_std / (kept * s)
    best = int(np.argmin(np.where(blur <= max(BLUR, blur.min()), cost, np.inf)))
    return Clip(float(grid[best]), float(kept[best]), float(moved[best]))


def misfit(rows: float) -> float:
    """How much more weights move estimates than where the model holds, as a variance.

    There it is `Clip.moved`. Where the mean of y is off by `MISFIT` of a deviation, all in one
    direction, it is so many times the rows.
    """
    return 1 + MISFIT**2 * rows


def curved_share(clip: float, mu: float, before_std: float, rows: float, q: int) -> float:
    """The part of the last look's mu^2 that its curvature gets.

    Parameters
    ----------
    clip : float
        Of scores; its square of the curvature's rows.
    mu : float
    before_std : float
        Noise of the score before.
    rows : float
    q : int
        Number of features.

    Notes
    -----
    A step of k / rows^{1/2} multiplies the curvature's noise. With shares s and 1 - s the sum of
    both variances, a / (1 - s) + b^2 a / s for b = clip k / (2 rows)^{1/2}, is least at
    s = b / (1 + b).
    """
    step = math.sqrt(STEP**2 + q * before_std**2 / rows)
    noise = clip * step / math.sqrt(2 * rows)
    needed = clip**2 / (math.sqrt(2.0) * CURVED_NOISE * rows * mu)
    return min(max(noise / (1 + noise), needed**2), CURVED_MOST)


def unsettled(
    move: Vector, curved: Matrix, noise_std: float, rows: float, most: float = MOST_BENT
) -> bool:
    """Whether a step was so long that what it leaves out may matter.

    Parameters
    ----------
    move : ndarray of shape (q,), float64
    curved : ndarray of shape (q, q), float64
        Released; about `rows` times the identity.
    noise_std : float
        Of the score.
    rows : float
    most : float
        How many deviations of the score it may leave out.
    """
    square = max(float(move @ curved @ move), 0.0)
    return not BEND * square <= most * math.sqrt(rows + noise_std**2)
