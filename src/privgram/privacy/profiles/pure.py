"""The profiles of a choice, and of what is known at one epsilon only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privgram._base.numbers import Adjacency, check_number
from privgram.privacy._numerics import Array
from privgram.privacy.profiles.base import Profile


@dataclass(frozen=True)
class BoundedRangeProfile(Profile):
    r"""Privacy profile of a choice whose privacy losses lie within `at_epsilon` of one another.

    .. math::

        \delta(t) = \frac{(1 - e^{(t - \epsilon) / 2})^2}{1 - e^{-\epsilon}},
        \quad 0 \le t \le \epsilon

    and 0 beyond: pure differential privacy at `at_epsilon`, and about as much as a pure
    mechanism of half of it at small t.

    Parameters
    ----------
    at_epsilon : float
        Positive: the greatest difference between the losses of two outcomes.
    adjacency : {"replace", "add-remove"}, optional
        As of `GaussianProfile`.

    References
    ----------
    J. Dong, D. Durfee and R. Rogers, "Optimal Differential Privacy Composition for Exponential
    Mechanisms", ICML 2020, Lemma 3.4: the worst pairs; the theorem of docs/theory/norm-bound.md.

    Examples
    --------
    >>> BoundedRangeProfile(0.2).delta(0.2)
    0.0
    """

    _proof_status = "exact"
    _positive = ("at_epsilon",)

    at_epsilon: float
    adjacency: Adjacency | None = None

    def _delta(self, epsilon: Array) -> Array:
        gap = np.minimum(epsilon - self.at_epsilon, 0.0)
        return np.asarray(np.expm1(gap / 2.0) ** 2 / -math.expm1(-self.at_epsilon))

    def _epsilon(self, target: float) -> float:
        root = math.sqrt(target * -math.expm1(-self.at_epsilon))
        epsilon = max(self.at_epsilon + 2.0 * math.log1p(-root), 0.0) if root < 1.0 else 0.0
        return _safe(self, epsilon, target)


def _safe(profile: BoundedRangeProfile | StatedProfile, epsilon: float, delta: float) -> float:
    """An epsilon of a closed form, moved past what rounding has made of it."""
    step = math.ulp(profile.at_epsilon)
    while profile.delta(epsilon) > delta:
        epsilon, step = epsilon + step, 2.0 * step
    return epsilon


@dataclass(frozen=True)
class StatedProfile(Profile):
    r"""Worst profile of any (epsilon, delta)-differentially private mechanism.

    .. math::

        \delta(t) = \delta + (1 - \delta) \frac{(e^{\epsilon} - e^t)_+}{1 + e^{\epsilon}}

    For mechanisms whose guarantee is proved at one point only.

    Parameters
    ----------
    at_epsilon : float
        Positive.
    at_delta : float
        In [0, 1); 0 makes it randomised response.
    adjacency : {"replace", "add-remove"}, optional
        As of `GaussianProfile`.

    References
    ----------
    P. Kairouz, S. Oh and P. Viswanath, "The composition theorem for differential privacy",
    IEEE Trans. Inf. Theory 63, 2017: the dominating pair of Theorem 3.4.
    """

    _proof_status = "stated"
    _positive = ("at_epsilon",)

    at_epsilon: float
    at_delta: float
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= check_number(self.at_delta, "at_delta") < 1:
            raise ValueError(f"at_delta must lie in [0, 1), not {self.at_delta!r}")

    def _delta(self, epsilon: Array) -> Array:
        gap = np.minimum(epsilon - self.at_epsilon, 0.0)
        share = -np.expm1(gap) / (1.0 + np.exp(-self.at_epsilon))
        return np.asarray(self.at_delta + (1.0 - self.at_delta) * share)

    def _epsilon(self, target: float) -> float:
        if target < self.at_delta:
            return math.inf
        share = (target - self.at_delta) / (1.0 - self.at_delta)
        left = 1.0 - share * (1.0 + math.exp(-self.at_epsilon))
        epsilon = max(self.at_epsilon + math.log(left), 0.0) if left > 0.0 else 0.0
        return _safe(self, epsilon, target)

    def _floor(self) -> float:
        return self.at_delta
