"""The profile of Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from privgram._base.numbers import Adjacency
from privgram.privacy._numerics import TINY, Array, gauss_legendre, quiet
from privgram.privacy.profiles.base import Profile

# Gaussian noise. Every Gaussian mechanism with L2 sensitivity Delta and noise of standard deviation
# sigma is at most N(0, 1) against N(mu, 1) with mu = Delta / sigma, and attains it [1].
#
# [1] B. Balle and Y.-X. Wang, "Improving the Gaussian Mechanism for Differential Privacy:
#    Analytical Calibration and Optimal Denoising", ICML 2018, Theorem 8.

_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def _mills(x: Array) -> Array:
    """Mills' ratio Phi(-x) / phi(x)."""
    return np.asarray(_SQRT_HALF_PI * special.erfcx(x * _SQRT_HALF))


@quiet
def gaussian_delta(epsilon: Array, mu: Array) -> Array:
    r"""Profile of N(0, 1) against N(mu, 1), epsilon >= 0 and mu >= 0 broadcast together.

    With a, b = epsilon/mu -+ mu/2 and M Mills' ratio,
    :math:`\delta = \Phi(-a) - e^\epsilon \Phi(-b) = \phi(a) (M(a) - M(b))`, and
    :math:`M(a) - M(b) = \int_a^b (1 - x M(x)) dx` where that difference would cancel.
    """
    middle = np.where(epsilon > 0.0, epsilon / mu, 0.0)
    half = np.broadcast_to(0.5 * mu, middle.shape)
    a = middle - half
    out = np.zeros(a.shape)
    # Where phi(a) is not 0.
    large = (a < 39.0) & (half >= 0.01)
    small = (a < 39.0) & (half < 0.01)
    if large.any():
        low, high = a[large], middle[large] + half[large]
        density = np.exp(-0.5 * low * low - _LOG_SQRT_2PI)
        first = np.where(low > 0.0, density * _mills(np.maximum(low, 0.0)), special.ndtr(-low))
        out[large] = first - density * _mills(high)
    if small.any():
        low = a[small]
        # b - a is mu, but not in floats.
        t, weight = gauss_legendre(np.zeros_like(low), 2.0 * half[small], 3)
        x = low[:, None] + t
        out[small] = np.exp(-0.5 * low * low - _LOG_SQRT_2PI) * np.sum(
            weight * (1.0 - x * _mills(x)), axis=-1
        )
    return out


@dataclass(frozen=True)
class GaussianProfile(Profile):
    r"""Privacy profile of the Gaussian mechanism.

    .. math::

        \delta(\epsilon) = \Phi(\mu/2 - \epsilon/\mu) - e^\epsilon \Phi(-\mu/2 - \epsilon/\mu)

    Parameters
    ----------
    sensitivity_ratio : float
        mu = Delta / sigma > 0: L2 sensitivity over the standard deviation of the noise.
    adjacency : {"replace", "add-remove"}, optional
        Notion of neighbours that the ratio is for, which `compose` holds against the others'.
        By default it is not said, and composes with either: for a table of one column, where
        the two notions are one, and for neighbours of another kind.

    References
    ----------
    Balle and Wang, ICML 2018, Theorem 8.

    Examples
    --------
    >>> profile = GaussianProfile(1.0)
    >>> round(profile.delta(1.0), 10)
    0.1269367375
    """

    _proof_status = "exact"
    _positive = ("sensitivity_ratio",)

    sensitivity_ratio: float
    adjacency: Adjacency | None = None

    def _delta(self, epsilon: Array) -> Array:
        return np.maximum(gaussian_delta(epsilon, np.asarray(self.sensitivity_ratio)), TINY)
