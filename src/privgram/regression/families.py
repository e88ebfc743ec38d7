"""Families of generalised linear models, and Huber's loss: means, weights, errors of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from privgram._core.scores import Score

if TYPE_CHECKING:
    from privgram._base.numbers import Vector

# All by one operation after the other on whole columns, with an exponential of our own: what a row
# gives does not depend on where it stands, or on the machine.

#: The names of `FAMILIES`.
FamilyName = Literal["gaussian", "binomial", "poisson"]

#: What a regression by scores minimises.
LossName = Literal["squared", "huber"]

#: Beyond this eta is as far as it can be: e^-30 is 10^-13.
FARTHEST = 30.0

#: ln 2 in two parts, of which whole numbers times the first are exact.
_LN2 = float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c7673p-45")


def exponential(x: Vector) -> Vector:
    """e^x for numbers up to 700 in size, within two units in the last place."""
    k = np.rint(x * 1.4426950408889634)
    r = (x - k * _LN2[0]) - k * _LN2[1]
    total = np.full_like(x, 1 / math.factorial(13))
    for n in range(12, -1, -1):
        total *= r
        total += 1 / math.factorial(n)
    return np.asarray(np.ldexp(total, np.where(np.isnan(k), 0, k).astype(np.int32)))


@dataclass(frozen=True)
class Family:
    """A family with its canonical link."""

    name: FamilyName
    link: str  # as statsmodels calls it
    title: str  # what a summary calls the regression

    def means(self, eta: Vector, most: float = math.inf) -> tuple[Vector, Vector]:
        """Means at linear predictors, and the roots of the weights dm / d eta.

        Where means have no end of their own, `most` is the public end of the target.
        """
        if self.name == "gaussian":
            return eta, np.ones_like(eta)
        if self.name == "poisson":
            mean = exponential(np.clip(eta, -FARTHEST, self.largest(most)))
            return mean, np.sqrt(mean)
        eta = np.clip(eta, -FARTHEST, FARTHEST)
        e = exponential(-np.abs(eta))
        return np.where(eta < 0, e, 1.0) / (1 + e), np.sqrt(e) / (1 + e)

    def largest(self, most: float) -> float:
        """The largest linear predictor of a mean without an end of its own."""
        return min(math.log(most), 2 * FARTHEST)

    def predictor(self, mean: float) -> float:
        """The linear predictor of a mean."""
        if self.name == "gaussian":
            return mean
        return math.log(mean / (1 - mean)) if self.name == "binomial" else math.log(mean)


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("gaussian", "identity", "Private Least Squares Regression"),
        Family("binomial", "logit", "Private Logistic Regression"),
        Family("poisson", "log", "Private Poisson Regression"),
    )
}


@dataclass(frozen=True, eq=False)
class Expected:
    """What public coefficients expect of rows (z, target, ...), which weights have clipped."""

    family: Family
    coef: Vector  # (q,), of z: the linear predictor is coef . z, of a row that is not clipped
    target: tuple[float, float]  # center and half-width: what the image of the target stands for
    # (q,), takes z to the factor by which a row is clipped, where rows have weights
    ones: Vector | None
    offset: bool = False  # whether an image is beside the target's that is added to eta

    @property
    def most(self) -> float:
        """The largest size of an error: targets and means are within the public ends."""
        center, half = self.target
        return max(center + half, half * 2)

    @property
    def steepest(self) -> float:
        """The largest root of a weight."""
        if self.family.name == "binomial":
            return 0.5
        return math.sqrt(self.target[0] + self.target[1])

    def score(self, curved: bool = False) -> Score:
        """What is times z in a row's score, or the root of its weight in the Hessian.

        A binomial residual has a size that it has at most, whatever the target is.
        """
        largest = 0.0
        if self.family.name == "poisson":
            largest = self.family.largest(self.target[0] + self.target[1])
        name, q = self.family.name, len(self.coef)
        return Score(
            name, q, self.coef, self.ones, self.target, largest, offset=self.offset, curved=curved
        )


#: Errors count up to so many scales: 95 % as near as least squares where they are normal.
ERROR = 1.345

#: Rows count in full up to the squared length q + LEVERAGE (2 q)^(1/2) of q whitened features.
LEVERAGE = 2.0


@dataclass(frozen=True)
class Bounded:
    """What a row (z, r) of q whitened features and an error in scales adds to the equation.

    With w = min(1, longest^2 / |z|^2) its score w psi(r) z is `ERROR` times `longest` long at
    most, and the curvature w psi'(r) z z^T at most the square of `longest`.
    """

    q: int
    #: The largest size of what is times z.
    most: ClassVar[float] = ERROR

    @property
    def longest(self) -> float:
        """Length of whitened features up to which rows count in full."""
        return math.sqrt(self.q + LEVERAGE * math.sqrt(2 * self.q))

    def score(self, curved: bool = False) -> Score:
        """What is times z in a row's score, or the root of its weight in the Hessian."""
        return Score("huber", self.q, bend=ERROR, reach_sq=self.longest**2, curved=curved)
