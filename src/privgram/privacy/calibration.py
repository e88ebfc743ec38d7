r"""Noise from a privacy budget: the profiles, solved for their parameters.

Every function returns the least noise for which the exact profile gives
``profile.delta(epsilon) <= delta``, as evaluated: rounding leaves it on the safe side.
Noise is stated relative to the data's bound, as the ratios the profiles take. A larger
ratio is less noise.

Their parameters have one meaning in all, and where one is outside its range it is a ValueError:

n_columns : int
    Columns d.
epsilon, delta : float
    Budget, epsilon >= 0 and 0 < delta < 1; matrix Laplace noise has delta = 0 too.
adjacency : {"replace", "add-remove"}
    Notion of neighbours.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from privgram._base.numbers import (
    Adjacency,
    check_budget,
    check_integer,
    largest_safe,
    minimise,
)
from privgram.privacy.profiles import GaussianProfile, MatrixLaplaceProfile

__all__ = [
    "WishartNoise",
    "gaussian_ratio",
    "matrix_laplace_noise",
    "matrix_laplace_ratio",
]


def checked_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Check a budget that noise is to be found for: epsilon may be 0, delta not."""
    budget = check_budget(epsilon, delta, zero="epsilon")
    if budget[1] < 1e-300:
        raise ValueError(f"delta must be at least 1e-300 for its noise to be found, not {delta}")
    return budget


def gaussian_ratio(epsilon: float, delta: float) -> float:
    """Largest sensitivity ratio of Gaussian noise for a budget.

    Returns
    -------
    float
        mu: the standard deviation of the noise is the L2 sensitivity over mu.

    References
    ----------
    Balle and Wang, ICML 2018.
    """
    return _gaussian_ratio(*checked_budget(epsilon, delta))


@lru_cache(maxsize=64)  # an answer asks for the ratio of its budget several times
def _gaussian_ratio(epsilon: float, delta: float) -> float:
    # Between the bounds for epsilon = 0, delta ~ mu / sqrt(2 pi), and a far tail.
    z = math.sqrt(2.0 * math.log(1.0 / delta))
    guess = math.sqrt(z * z + 2.0 * epsilon) - z + 2.0 * delta
    return checked_parameter(
        largest_safe(lambda mu: GaussianProfile(mu).delta(epsilon), delta, guess)
    )


class WishartNoise(NamedTuple):
    """Scale and degrees of freedom of Wishart noise, or of matrix Laplace noise.

    Attributes
    ----------
    ratio : float
        B^2 / sigma^2, or B^2 / s.
    dof : int
        Degrees of freedom k.
    """

    ratio: float
    dof: int


def matrix_laplace_ratio(
    n_columns: int,
    dof: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
) -> float:
    """Largest ratio B^2 / s of matrix Laplace noise with given degrees of freedom.

    Parameters
    ----------
    dof : float
        Degrees of freedom k >= d + 1.
    epsilon, delta : float
        Budget, epsilon >= 0 and 0 <= delta < 1, one of them above 0.

    Returns
    -------
    float
        B^2 / s.
    """
    return _laplace_ratio(MatrixLaplaceProfile(dof, n_columns, 1.0, adjacency), epsilon, delta)


def _laplace_ratio(
    unit: MatrixLaplaceProfile, epsilon: float, delta: float, tolerance: float = 2e-13
) -> float:
    if delta == 0.0:
        epsilon, delta = check_budget(epsilon, delta, zero="delta")
        return checked_parameter(epsilon / unit.pure)
    epsilon, delta = checked_budget(epsilon, delta)
    # delta = 0 at this epsilon, or a delta near that of as much Gaussian noise, is private.
    guess = gaussian_ratio(epsilon, delta) * math.sqrt(unit.dof - unit.n_columns + 1)
    return checked_parameter(
        largest_safe(
            lambda ratio: replace(unit, ratio=ratio).delta(epsilon),
            delta,
            max(epsilon, guess) / unit.pure,
            tolerance=tolerance,
        )
    )


def matrix_laplace_noise(
    n_columns: int, epsilon: float, delta: float, adjacency: Adjacency = "replace"
) -> WishartNoise:
    """Scale and degrees of freedom of least matrix Laplace noise for a budget.

    Its standard deviation off the diagonal, s sqrt(2 k), has one minimum over k: at k = d + 1
    where delta is 0 or small beside the number of columns. With many columns it still falls at
    k = 1000 d, where the search ends, by less than a thousandth.

    Parameters
    ----------
    epsilon, delta : float
        As in `matrix_laplace_ratio`.

    Returns
    -------
    WishartNoise
        ``(ratio, dof)``, the ratio being the largest for that dof.
    """
    dof = check_integer(n_columns, "n_columns", 1) + 1
    if delta == 0.0:
        return WishartNoise(matrix_laplace_ratio(n_columns, dof, epsilon, delta, adjacency), dof)

    def dof_at(log_freedom: float) -> int:
        return n_columns - 1 + round(math.exp(log_freedom))

    def noise(log_freedom: float) -> float:
        dof = dof_at(log_freedom)
        profile = MatrixLaplaceProfile(dof, n_columns, 1.0, adjacency)
        return math.sqrt(dof) / _laplace_ratio(profile, epsilon, delta, 1e-4)

    # By m = k - d + 1 >= 2, on which alone the profile depends.
    low, next_, high = math.log(2.0), math.log(3.0), math.log(1000.0 * (n_columns + 1))
    best = low if noise(low) <= noise(next_) else minimise(noise, next_, high)
    dof = dof_at(best)
    return WishartNoise(matrix_laplace_ratio(n_columns, dof, epsilon, delta, adjacency), dof)


def checked_parameter(x: float) -> float:
    """Raise ValueError unless a parameter that was found is positive and finite."""
    if not 0.0 < x < math.inf:
        raise ValueError("this budget needs noise beyond the range of floats")
    return x
