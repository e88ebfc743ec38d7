"""Tight accounting for the comparison methods, under add-remove.

All of them compose Gaussian releases with Gaussian sketches, adaptively.  A Gaussian release
is dominated by N(mu, 1) against N(0, 1), a sketch of r rows by r rows of N(0, 1 + lam) against
N(0, 1) (``docs/theory``), and an adaptive composition by the product of these pairs [1]_.  For the
product the sketch's loss is integrated against the Gaussian profile, exactly:

    delta(eps) = E over the sketch's loss L of delta_Gauss(eps - L; mu).

The papers convert Renyi bounds and split (epsilon, delta) by hand, which needs more noise; the
methods are compared here at their best.

References
----------
.. [1] Dong, Roth, Su, "Gaussian differential privacy", J. R. Stat. Soc. B 84 (2022), Theorem 3.2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import chi2

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(400)


def gaussian_delta(epsilon: NDArray[np.float64], mu: float) -> NDArray[np.float64]:
    """Profile of the Gaussian mechanism, `epsilon` of either sign (Balle and Wang 2018)."""
    above = log_ndtr(mu / 2 - epsilon / mu)
    below = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    delta: NDArray[np.float64] = np.exp(above) * -np.expm1(np.minimum(below - above, 0.0))
    return delta


def sketch_and_gaussian_delta(epsilon: float, rows: int, ratio: float, mu: float) -> float:
    """Profile of a sketch composed with a Gaussian release, the larger of both directions.

    Parameters
    ----------
    epsilon : float
    rows : int
        Rows of the sketch; several sketches of one ratio add theirs.
    ratio : float
        Squared row bound over the least eigenvalue under the sketch without that row.
    mu : float
        Sensitivity over noise of the Gaussian releases together, root of the sum of squares.
    """
    low, high = chi2.ppf(1e-20, rows), chi2.isf(1e-20, rows)
    u = low + (high - low) * (_NODES + 1) / 2
    mass = (high - low) / 2 * _WEIGHTS * chi2.pdf(u, rows)
    shift = rows / 2 * math.log1p(ratio)
    with_row, without_row = ratio / 2 * u - shift, shift - ratio / (2 * (1 + ratio)) * u
    return max(float(mass @ gaussian_delta(epsilon - loss, mu)) for loss in (with_row, without_row))


def smallest(delta_of: Callable[[float], float], delta: float, low: float) -> float:
    """Least noise level above `low` with ``delta_of(level) <= delta``, rounded up.

    `delta_of` decreases.
    """

    def excess(log_level: float) -> float:
        return math.log(max(delta_of(math.exp(log_level)), 1e-300)) - math.log(delta)

    start = math.log(low)
    stop = start + 1.0
    while excess(stop) > 0:
        stop += 1.0
    return math.exp(brentq(excess, start, stop, xtol=1e-9) + 2e-9)
