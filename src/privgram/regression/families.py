"""Families of generalised linear models, and Huber's loss: means, weights, errors of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from privgram._core.scores import Score
from privgram.columns.variables import Boolean, Factor, Number

if TYPE_CHECKING:
    from privgram._base.numbers import Vector
    from privgram.columns import Columns

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


class Family:
    """What one family with its canonical link differs in from the others; here the identity."""

    name: ClassVar[FamilyName]  # the option of a user, and the kind of `Score`
    link: ClassVar[str] = "identity"  # as statsmodels calls it
    title: ClassVar[str]  # what a summary calls the regression
    method: ClassVar[str]  # what a page calls it
    #: Whether the mean is the linear predictor itself, and whether targets are numbers of events.
    is_linear: ClassVar[bool] = False
    counts: ClassVar[bool] = False
    #: The mean where the linear predictor is 0, and that of the largest variance.
    mean_of_none: ClassVar[float] = 0.0
    widest: ClassVar[float] = math.inf
    #: The variance is a + b mean + c mean^2: of each family's variance function a, b and c.
    quadratic: ClassVar[tuple[float, float, float]] = (1.0, 0.0, 0.0)

    def means(self, eta: Vector) -> tuple[Vector, Vector]:
        """Means at linear predictors, and the roots of the weights dm / d eta."""
        return eta, np.ones_like(eta)

    def predictor(self, mean: float) -> float:
        """The linear predictor of a mean."""
        return mean

    def largest(self, most: float) -> float:
        """The largest linear predictor of means up to `most`; 0 where they end by themselves."""
        return 0.0

    def variance(self, mean: float) -> float:
        """The variance at a mean, which is the weight dm / d eta."""
        a, b, c = self.quadratic
        return a + mean * (b + c * mean)

    def log_likelihood(self, mean: float) -> float | None:
        """That of a row, of a constant alone with this mean; None where it takes more than that."""
        return None

    def skewness(self, variance: float) -> float:
        """The size of the skewness where this is the variance."""
        a, b, c = self.quadratic
        return math.sqrt(max(b * b - 4 * a * c + 4 * c * variance, 0.0) / variance)

    def clip_factor(self, mean: float, square: float, far: float, usual: float) -> float:
        """By what the usual clip is multiplied, for targets of this mean and mean square.

        By how much counts vary; and one event is as long as z where events are rare.
        """
        varies = math.sqrt(max((square - mean**2) / mean, 1.0))
        return max(varies, far / usual / math.sqrt(mean))

    def explained(self, target: str, columns: Columns) -> tuple[str, Columns]:
        """The target and columns as the family explains them; raise ValueError if it does not."""
        return target, columns


class Gaussian(Family):
    """Least squares."""

    name, title, method = "gaussian", "Private Least Squares Regression", "least squares"
    is_linear = True


class Binomial(Family):
    """Logistic regression of a truth value."""

    name, link, title = "binomial", "logit", "Private Logistic Regression"
    method = "binomial"
    mean_of_none, widest, quadratic = 0.5, 0.5, (0.0, 1.0, -1.0)

    def means(self, eta: Vector) -> tuple[Vector, Vector]:
        eta = np.clip(eta, -FARTHEST, FARTHEST)
        e = exponential(-np.abs(eta))
        return np.where(eta < 0, e, 1.0) / (1 + e), np.sqrt(e) / (1 + e)

    def predictor(self, mean: float) -> float:
        return math.log(mean / (1 - mean))

    def log_likelihood(self, mean: float) -> float | None:
        return mean * math.log(mean) + (1 - mean) * math.log(1 - mean)

    def clip_factor(self, mean: float, square: float, far: float, usual: float) -> float:
        most = max(mean, 1 - mean)
        return far * math.sqrt(most / (1 - most)) / usual

    def explained(self, target: str, columns: Columns) -> tuple[str, Columns]:
        """A truth value; also a number within (0, 1), which is made one, or one of two levels."""
        described = columns.variables.get(target)
        if isinstance(described, Factor):
            if len(described) != 2:
                raise ValueError(
                    f"the target {target!r} has {len(described)} levels, and a logistic regression "
                    f"explains two: name one, such as '{target}[{described.names[0]}]'"
                )
            target = f"{target}[{described.names[1]}]"
        elif type(described) is Number and described.interval == (0.0, 1.0):
            columns = columns.replace(bounds={**columns.variables, target: Boolean()})
        elif described is not None and not isinstance(described, Boolean):
            raise ValueError(
                f"the target {target!r} is not binary: describe it by bool, by bounds (0, 1), or "
                "as a factor of two levels"
            )
        return target, columns


class Poisson(Family):
    """Regression of the logarithm of the mean of a count."""

    name, link, title = "poisson", "log", "Private Poisson Regression"
    method = "poisson"
    counts, mean_of_none, quadratic = True, 1.0, (0.0, 1.0, 0.0)

    def means(self, eta: Vector) -> tuple[Vector, Vector]:
        mean = exponential(np.clip(eta, -FARTHEST, self.largest(math.inf)))
        return mean, np.sqrt(mean)

    def predictor(self, mean: float) -> float:
        return math.log(mean)

    def largest(self, most: float) -> float:
        return min(math.log(most), 2 * FARTHEST)

    def explained(self, target: str, columns: Columns) -> tuple[str, Columns]:
        described = columns.variables.get(target)
        if not isinstance(described, Number) or described.lower < 0:
            raise ValueError(
                f"the target {target!r} is no count: describe it by bounds that are not negative"
            )
        return target, columns


#: Every family, by the option of a user.
FAMILIES: dict[str, Family] = {each.name: each for each in (Gaussian(), Binomial(), Poisson())}


@dataclass(frozen=True, eq=False)
class Expected:
    """What public coefficients expect of rows (z, target, ...), which weights have clipped."""

    family: Family
    coef: Vector  # (q,), of z: the linear predictor is coef . z, of a row that is not clipped
    target: tuple[float, float]  # center and half-width: what the image of the target stands for
    # (q,), takes z to the factor by which a row is clipped, where rows have weights
    ones: Vector | None
    offset: bool = False  # whether an image is beside the target's that is added to eta
    end: float | None = None  # of means, where that is not the target's

    @property
    def largest_mean(self) -> float:
        """The public end of means."""
        return self.end or self.target[0] + self.target[1]

    @property
    def most(self) -> float:
        """The largest size of an error: targets and means are within public ends."""
        return max(self.largest_mean, sum(self.target), self.target[1] * 2)

    @property
    def steepest(self) -> float:
        """The largest root of a weight."""
        return math.sqrt(self.family.variance(min(self.largest_mean, self.family.widest)))

    def score(self, curved: bool = False) -> Score:
        """What is times z in a row's score, or the root of its weight in the Hessian.

        A binomial residual has a size that it has at most, whatever the target is.
        """
        largest = self.family.largest(self.largest_mean)
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
