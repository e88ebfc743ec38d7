"""Private Newton steps: how released numbers decide where to look next, and how closely.

The fit of a generalised linear model is found by looks at the table. Each releases the curvature
H = sum w z z^T and the score g = sum e z at coefficients that the looks before it gave, in the
frame that they taught; the rules here see released numbers alone (docs/theory/newton.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privgram.mechanisms.refined import Frame, whiten

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.regression.design import Design

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["FAMILIES", "Family", "Point", "Space", "unsettled"]

#: Shares of mu^2: of the first look, of each at the middle, of the histogram of lengths and, where
#: nothing else says it, of the number of rows. The last look has the rest.
FIRST, MIDDLE, COUNTS, NUMBER = 0.08, 0.14, 0.08, 0.01

#: At most so many looks at the middle, and what part of one is for the curvature.
MOST_MIDDLE, MIDDLE_CURVED = 3, 0.4

#: The last look's curvature has so much of it that its noise is this part of it, within limits.
CURVED_NOISE, CURVED_LEAST, CURVED_MOST = 0.01, 0.03, 0.3

#: Radius of looks at the middle, squared, in units of a score's mean square.
REACH = 4.0

#: No step is longer, in the root mean square of eta where the frame is white.
LONGEST = 2.0

#: After a longer step, another is taken.
SETTLED = 0.5

#: A step's error is about this part of its square, times the rows; it may be so many of the
#: statistic's deviations.
BEND, MOST_BENT = 0.25, 0.5

#: Shares of a target are not trusted nearer to the ends of their range.
LEAST_MEAN = 0.02


@dataclass(frozen=True)
class Family:
    """A generalised linear model with its canonical link.

    Attributes
    ----------
    name : str
        As `privgram._core.weigh` knows it.
    title : str
    """

    name: str
    title: str

    def start(self, mean: float) -> tuple[float, float]:
        """The link of a mean, roughly, and the weight there."""
        if self.name == "poisson":
            mean = max(mean, LEAST_MEAN)
            return math.log(mean), mean
        mean = min(max(mean, LEAST_MEAN), 1 - LEAST_MEAN)
        return math.log(mean / (1 - mean)), mean * (1 - mean)

    def mean(self, eta: Vector) -> Vector:
        """The mean of the target."""
        from scipy.special import expit

        found: Vector = np.exp(eta) if self.name == "poisson" else expit(eta)
        return found


FAMILIES = {
    "logistic": Family("logistic", "Private Logistic Regression Results"),
    "poisson": Family("poisson", "Private Poisson Regression Results"),
}


class Space:
    """The features of a design as a subspace of the released columns.

    Attributes
    ----------
    basis : ndarray of shape (d, q), float64
        Orthonormal: v = basis^T u for rows u.
    mixing : ndarray of shape (q, q), float64
        The features are mixing @ v.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.basis, upper = np.linalg.qr(design.frame[:-1].T)
        self.mixing: Matrix = upper.T

    def to_coef(self, frame: Frame) -> Matrix:
        """What takes coefficients of z = frame.matrix @ v to those of the features."""
        return np.linalg.solve(self.mixing.T, frame.matrix.T)

    def rows(self, frame: Frame) -> Matrix:
        """The map of released columns to z, then to the target, then to nothing."""
        d = len(self.basis)
        found = np.zeros((d, d))
        q = len(frame.matrix)
        found[:q] = frame.matrix @ self.basis.T
        found[q] = self.design.frame[-1]
        return found


@dataclass(frozen=True)
class Point:
    """Where the next look is: a frame, and coefficients of z in it."""

    frame: Frame
    coef: Vector

    @classmethod
    def first(
        cls,
        space: Space,
        family: Family,
        moment: Matrix,
        noise_std: float,
        rows: float,
        bound: float,
        target: tuple[float, float],
    ) -> Point:
        """By a released second moment: least squares, on the scale of the link at the mean.

        Parameters
        ----------
        space, family
        moment : ndarray of shape (d, d), float64
        noise_std : float
            Off the diagonal.
        rows, bound : float
        target : tuple of float
            Center and half-width.
        """
        design = space.design
        features = space.basis.T @ moment @ space.basis
        frame = whiten(features, noise_std, rows, bound)
        into = frame.matrix @ space.basis.T
        coef = np.zeros(len(frame.matrix))
        if design.intercept:
            ones, goal = design.frame[-2], design.frame[-1]
            sums = into @ moment @ ones
            count = max(float(ones @ moment @ ones), 1.0)
            mean = target[0] + target[1] * float(goal @ moment @ ones) / count
            link, weight = family.start(mean)
            constant = frame.inverse.T @ (space.basis.T @ ones)
            moved = target[1] * (into @ moment @ goal) + (target[0] - mean) * sums
            coef = link * constant + shortened(moved / (rows * weight))
        return cls(frame, coef)

    def step(
        self, curved: Matrix, pulled: Vector, noise_std: float, rows: float, bound: float
    ) -> tuple[Point, float]:
        """Where a Newton step leads, in the frame that its curvature teaches; and how long it is.

        Directions that the noise hides move little: their curvature counts as the noise's edge.
        """
        move = careful(curved, pulled, noise_std)
        frame = whiten(curved, noise_std, rows, bound, self.frame)
        turned = frame.inverse.T @ (self.frame.matrix.T @ (self.coef + move))
        return Point(frame, turned), float(np.linalg.norm(move))


def careful(curved: Matrix, pulled: Vector, noise_std: float) -> Vector:
    """A Newton step in which the noise's edge is added to the curvature, and not too long."""
    values, vectors = np.linalg.eigh(curved)
    lifted = np.maximum(values, 0.0) + 2 * math.sqrt(len(values)) * noise_std
    return shortened(vectors @ ((vectors.T @ pulled) / lifted))


def shortened(move: Vector) -> Vector:
    """A step, if it is not too long."""
    found: Vector = move * min(1.0, LONGEST / max(float(np.linalg.norm(move)), 1e-300))
    return found


def curved_share(square: float, mu: float, rows: float) -> float:
    """The part of the last look's mu^2 that its curvature gets, for scores up to a square."""
    needed = square / (math.sqrt(2.0) * CURVED_NOISE * rows * mu)
    return min(max(needed**2, CURVED_LEAST), CURVED_MOST)


def unsettled(move: Vector, curved: Matrix, noise_std: float, rows: float) -> bool:
    """Whether the last step was so long that what it leaves out may matter.

    Parameters
    ----------
    move : ndarray of shape (q,), float64
    curved : ndarray of shape (q, q), float64
        Released; about `rows` times the identity.
    noise_std : float
        Of the score.
    """
    square = max(float(move @ curved @ move), 0.0)
    return not BEND * square <= MOST_BENT * math.sqrt(rows + noise_std**2)
