r"""Noise from a privacy budget: the profiles, solved for their parameters.

Every function returns the least noise for which the exact profile gives
``profile.delta(epsilon) <= delta``, as evaluated: rounding leaves it on the safe side.
Noise is stated relative to the data's bound, as the ratios the profiles take. A larger
ratio is less noise.

All take the same parameters, and raise a ValueError where one is outside its range:

n_columns : int
    Columns d.
epsilon, delta : float
    Budget, epsilon >= 0 and 0 < delta < 1; matrix Laplace noise has delta = 0 too.
adjacency : {"replace", "add-remove"}
    Notion of neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from privgram._base.numbers import (
    Adjacency,
    check_adjacency,
    check_budget,
    check_integer,
    largest_count,
    largest_safe,
    minimise,
)
from privgram.privacy.profiles import (
    GaussianProfile,
    MatrixLaplaceProfile,
    Profile,
    WishartProfile,
)

__all__ = [
    "WishartNoise",
    "gaussian_ratio",
    "matrix_laplace_noise",
    "matrix_laplace_ratio",
    "wishart_dof",
    "wishart_noise",
    "wishart_ratio",
]

#: Most degrees of freedom, or rows, that are searched for.
MAX_DOF = 1e12

#: Of additive Wishart noise over that of Gaussian noise, see `wishart_noise`.
_EXCESS = 0.01


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
    return _checked(largest_safe(lambda mu: GaussianProfile(mu).delta(epsilon), delta, guess))


def wishart_ratio(
    n_columns: int,
    dof: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
) -> float:
    """Largest ratio B^2 / sigma^2 of additive Wishart noise with given degrees of freedom.

    Parameters
    ----------
    dof : float
        Degrees of freedom k >= d + 1.

    Returns
    -------
    float
        s = B^2 / sigma^2.
    """
    return largest_parameter(
        lambda s: WishartProfile(dof, n_columns, s, adjacency),
        epsilon,
        delta,
        lambda mu: mu * math.sqrt(dof - n_columns + 1),
    )


def wishart_dof(
    n_columns: int,
    ratio: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
) -> int:
    """Fewest degrees of freedom of additive Wishart noise with given scale.

    Parameters
    ----------
    ratio : float
        s = B^2 / sigma^2.

    Returns
    -------
    int
        k >= d + 1: k degrees of freedom are private enough, k - 1 are not (or are too few
        for the noise to have a density with bounded privacy loss).

    Raises
    ------
    ValueError
        If a parameter is outside its range, or more than 1e12 degrees of freedom would be
        needed.
    """
    epsilon, delta = checked_budget(epsilon, delta)
    least = check_integer(n_columns, "n_columns", 1) + 1
    WishartProfile(least, n_columns, ratio, adjacency)  # checks

    def delta_at(dof: float) -> float:
        return WishartProfile(dof, n_columns, ratio, adjacency).delta(epsilon)

    if delta_at(least) <= delta:
        return least
    mu = gaussian_ratio(epsilon, delta)
    # Solved in 1 / m, m = k - d + 1 >= 2 being what matters.
    guess = 1.0 / (2.0 + (ratio / mu) ** 2)
    inverse = largest_safe(
        lambda x: delta_at(n_columns - 1 + 1.0 / x), delta, max(guess, 1e-11), limit=0.5
    )
    if not inverse * MAX_DOF >= 1.0:
        raise ValueError(
            f"ratio = {ratio:g} needs more than {MAX_DOF:g} degrees of freedom for epsilon = "
            f"{epsilon:g} and delta = {delta:g}: ask for a smaller ratio (a larger scale)"
        )
    dof = math.ceil(n_columns - 1 + 1.0 / inverse)
    # Counted downwards: the fewest that are good.
    return -largest_count(
        lambda n: -n >= least and delta_at(-n) <= delta, -dof, least=-2 * int(MAX_DOF)
    )


class WishartNoise(NamedTuple):
    """Scale and degrees of freedom of additive Wishart noise, or of matrix Laplace noise.

    Attributes
    ----------
    ratio : float
        B^2 / sigma^2, or B^2 / s.
    dof : int
        Degrees of freedom k.
    """

    ratio: float
    dof: int


def wishart_noise(
    n_columns: int, epsilon: float, delta: float, adjacency: Adjacency = "replace"
) -> WishartNoise:
    r"""Scale and degrees of freedom of additive Wishart noise for a budget.

    What is left after the known mean k sigma^2 I is subtracted has standard deviation
    sigma^2 sqrt(k) off the diagonal (sqrt 2 times that on it). For a given budget it falls
    as s = B^2 / sigma^2 grows, towards that of Gaussian noise, B^2 / mu under "replace" and
    B^2 / (sqrt 2 mu) under "add-remove", with an excess that goes like 1 / s^2 under "replace"
    and more slowly, about like 1 / s, under "add-remove". There is no minimum to attain, and
    the mean k sigma^2 grows like s. The choice is the least s whose excess over the limit is
    1 % (at epsilon = 1 and delta = 1e-6 about 13 and 130): beyond, no statistic could tell
    the difference, while the release before debiasing would lose its meaning to an ever
    larger mean.

    Returns
    -------
    WishartNoise
        ``(ratio, dof)``, the ratio being the largest for that dof.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or more than 1e12 degrees of freedom would be
        needed.
    """
    epsilon, delta = checked_budget(epsilon, delta)
    n_columns = check_integer(n_columns, "n_columns", 1)
    one_row = check_adjacency(adjacency) == "add-remove" or n_columns == 1
    limit = (math.sqrt(0.5) if one_row else 1.0) / gaussian_ratio(epsilon, delta)
    noise = (1.0 + _EXCESS) * limit
    # On the curve sqrt(k) / s = noise there is one unknown. delta falls along it, from k's
    # least value to that of Gaussian noise 1 % larger than needed.
    most = noise / math.sqrt(n_columns + 1)

    def delta_at(inverse_ratio: float) -> float:
        dof = max((noise / inverse_ratio) ** 2, n_columns + 1)
        return WishartProfile(dof, n_columns, 1.0 / inverse_ratio, adjacency).delta(epsilon)

    inverse = min(largest_safe(delta_at, delta, 0.07, limit=most), most)
    dof = math.ceil((noise / inverse) ** 2) if inverse > 0.0 else math.inf
    if dof > MAX_DOF:
        raise ValueError(
            f"epsilon = {epsilon:g} and delta = {delta:g} need more than {MAX_DOF:g} degrees "
            "of freedom: ask for a larger epsilon or delta, or use Gaussian noise"
        )
    dof = max(int(dof), n_columns + 1)
    return WishartNoise(wishart_ratio(n_columns, dof, epsilon, delta, adjacency), dof)


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
        return _checked(epsilon / unit.pure)
    epsilon, delta = checked_budget(epsilon, delta)
    # delta = 0 at this epsilon, or a delta near that of as much Gaussian noise, is private.
    guess = gaussian_ratio(epsilon, delta) * math.sqrt(unit.dof - unit.n_columns + 1)
    return _checked(
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


def largest_parameter(
    profile: Callable[[float], Profile],
    epsilon: float,
    delta: float,
    near: Callable[[float], float],
) -> float:
    """Largest parameter whose profile meets the budget; Gaussian noise's ratio says near which."""
    epsilon, delta = checked_budget(epsilon, delta)
    profile(1.0)  # checks
    guess = near(gaussian_ratio(epsilon, delta))
    return _checked(largest_safe(lambda x: profile(x).delta(epsilon), delta, guess))


def _checked(x: float) -> float:
    if not 0.0 < x < math.inf:
        raise ValueError("this budget needs noise beyond the range of floats")
    return x
