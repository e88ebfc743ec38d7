r"""What (epsilon, delta)-differential privacy alone implies at every other epsilon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privgram._base.checks import check_number

from ._adjacency import Adjacency, check_known_adjacency
from ._numerics import Array
from ._profile import Profile, check_parameter


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

    _guarantee = "stated"

    at_epsilon: float
    at_delta: float
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        check_parameter(self.at_epsilon, "at_epsilon")
        if not 0 <= check_number(self.at_delta, "at_delta") < 1:
            raise ValueError(f"at_delta must lie in [0, 1), not {self.at_delta!r}")
        check_known_adjacency(self.adjacency)

    def _delta(self, epsilon: Array) -> Array:
        gap = np.minimum(epsilon - self.at_epsilon, 0.0)
        share = -np.expm1(gap) / (1.0 + np.exp(-self.at_epsilon))
        return np.asarray(self.at_delta + (1.0 - self.at_delta) * share)

    def _floor(self) -> float:
        return self.at_delta
