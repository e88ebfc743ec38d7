r"""Privacy profile of the exponential mechanism.

References
----------
.. [1] J. Dong, D. Durfee and R. Rogers, "Optimal Differential Privacy Composition for
   Exponential Mechanisms", ICML 2020: the exponential mechanism has a bounded range, which
   is more than pure differential privacy; their Lemma 3.4 has the worst pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ._adjacency import Adjacency, check_known_adjacency
from ._numerics import Array
from ._profile import Profile, check_parameter


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

    Raises
    ------
    ValueError
        If `at_epsilon` is not positive and finite.

    Examples
    --------
    >>> BoundedRangeProfile(0.2).delta(0.2)
    0.0
    """

    _guarantee = "proved"

    at_epsilon: float
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        check_parameter(self.at_epsilon, "at_epsilon")
        check_known_adjacency(self.adjacency)

    def _delta(self, epsilon: Array) -> Array:
        gap = np.minimum(epsilon - self.at_epsilon, 0.0)
        return np.asarray(np.expm1(gap / 2.0) ** 2 / -math.expm1(-self.at_epsilon))

    def _epsilon(self, target: float) -> float:
        root = math.sqrt(target * -math.expm1(-self.at_epsilon))
        epsilon = max(self.at_epsilon + 2.0 * math.log1p(-root), 0.0) if root < 1.0 else 0.0
        while self.delta(epsilon) > target:
            epsilon = math.nextafter(epsilon, math.inf)
        return epsilon
