"""Privacy profile of Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ._adjacency import Adjacency, check_known_adjacency
from ._numerics import Array
from ._profile import Profile, check_parameter


@dataclass(frozen=True)
class LaplaceProfile(Profile):
    r"""Privacy profile of the Laplace mechanism.

    .. math:: \delta(\epsilon) = 1 - e^{(\epsilon - \rho) / 2}, \quad 0 \le \epsilon \le \rho

    and 0 beyond.

    Parameters
    ----------
    sensitivity_ratio : float
        rho = Delta / b > 0: L1 sensitivity over the scale of the noise.
    adjacency : {"replace", "add-remove"}, optional
        As of `GaussianProfile`.

    Raises
    ------
    ValueError
        If `sensitivity_ratio` is not positive and finite.
    """

    _guarantee = "proved"

    sensitivity_ratio: float
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        check_parameter(self.sensitivity_ratio, "sensitivity_ratio")
        check_known_adjacency(self.adjacency)

    def _delta(self, epsilon: Array) -> Array:
        return np.maximum(-np.expm1((epsilon - self.sensitivity_ratio) / 2.0), 0.0)

    def _epsilon(self, target: float) -> float:
        if target == 1.0:
            return 0.0
        epsilon = max(self.sensitivity_ratio + 2.0 * math.log1p(-target), 0.0)
        while self.delta(epsilon) > target:
            epsilon = math.nextafter(epsilon, math.inf)
        return epsilon
