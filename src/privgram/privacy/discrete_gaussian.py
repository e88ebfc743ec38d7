r"""Privacy profile of discrete Gaussian noise.

A discrete Gaussian of standard deviation s has mass :math:`e^{-x^2/2s^2}/Z` at the integer x
[1]_. On integer data the Gaussian mechanism, rounded to integers, is at most the Gaussian pair,
and with the s of any release the two laws of noise are the same but for a factor
:math:`1 + O(s^{-2})`: docs/theory/analyze-gauss.md has the proof.

References
----------
.. [1] C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy",
   NeurIPS 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privgram._base.checks import check_integer

from ._adjacency import Adjacency, check_known_adjacency
from ._numerics import TINY, Array
from ._profile import Profile, check_parameter
from .gaussian import GaussianProfile

#: Logarithm of the tail that is left out, below the smallest delta there is.
_TAIL = 750.0


@dataclass(frozen=True)
class DiscreteGaussianProfile(Profile):
    r"""Upper bound on the profile of independent discrete Gaussian noise on integers.

    With K entries of standard deviation s or more, :math:`a = K/8s^2` and
    :math:`b = K (t^2/8s^2 + \ln C)`, where :math:`t = \frac12 + \sqrt{2(\epsilon + 750)}` and
    :math:`C = \sum_m e^{-2\pi^2 s^2 m^2}`,

    .. math::

        \delta(\epsilon) \le e^a \delta_{\rm G}(\epsilon - a - b; \mu) + 2 K e^{a - 750}.

    At the s of a release, 2^35 and more, that is the Gaussian profile to 1e-15.

    Parameters
    ----------
    sensitivity_ratio : float
        mu > 0: L2 length of the largest change, each entry in units of its own standard
        deviation.
    std : float
        s >= 1: least standard deviation of an entry, in integer steps.
    n_entries : int
        K: number of entries with noise, at least 1.
    adjacency : {"replace", "add-remove"}, optional
        As of `GaussianProfile`.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    Canonne, Kamath and Steinke, NeurIPS 2020; the bound is proved in docs/theory/analyze-gauss.md.

    Examples
    --------
    >>> profile = DiscreteGaussianProfile(1.0, std=2.0**40, n_entries=253)
    >>> round(profile.delta(1.0), 10)
    0.126936738
    """

    _guarantee = "bounded"

    sensitivity_ratio: float
    std: float
    n_entries: int
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        check_parameter(self.sensitivity_ratio, "sensitivity_ratio")
        check_parameter(self.std, "std")
        if self.std < 1.0:
            raise ValueError(f"std must be at least 1 integer step, not {self.std!r}")
        check_integer(self.n_entries, "n_entries", 1)
        check_known_adjacency(self.adjacency)

    def _delta(self, epsilon: Array) -> Array:
        step = self.n_entries / (8.0 * self.std * self.std)  # a
        if step > 700.0:
            return np.ones_like(epsilon)
        t = 0.5 + np.sqrt(2.0 * (epsilon + _TAIL))
        # C - 1 <= 2 q / (1 - q), q = e^(-2 pi^2 s^2): consecutive terms fall at least by q.
        q = math.exp(-2.0 * (math.pi * self.std) ** 2)
        shift = step + step * t * t + self.n_entries * math.log1p(2.0 * q / (1.0 - q))
        gaussian = GaussianProfile(self.sensitivity_ratio)._curve(
            np.nextafter(epsilon - shift, -np.inf)
        )
        tail = 2.0 * self.n_entries * math.exp(step - _TAIL)
        bound: Array = math.exp(step) * gaussian + tail + TINY
        return np.minimum(bound, 1.0)
