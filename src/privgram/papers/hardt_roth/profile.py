"""Privacy profile of the range finder, and its noise for a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privgram.papers._gaussians import check_count, chi_gaussian_delta
from privgram.privacy import GaussianProfile
from privgram.privacy._adjacency import Adjacency, check_known_adjacency
from privgram.privacy._numerics import TINY, Array
from privgram.privacy._profile import Guarantee, Profile, check_parameter
from privgram.privacy.calibration import checked_budget, largest_parameter

__all__ = ["ChiGaussianProfile", "chi_gaussian_offset", "chi_gaussian_ratio"]


@dataclass(frozen=True)
class ChiGaussianProfile(Profile):
    r"""Privacy profile of the range finder: a Gaussian mechanism of random sensitivity.

    .. math:: \delta(\epsilon) = E\, \delta_{\mathrm{Gauss}}\bigl(\epsilon;
              \mu = (S^2\,\text{ratio}^2 + \text{offset}^2)^{1/2}\bigr), \qquad S \sim \chi_k

    The offset is that of Gaussian mechanisms composed with it, such as the projection: given S
    all are Gaussian, and squared ratios add up.

    Parameters
    ----------
    k : float
        Columns of the random test matrix, at least 1.
    ratio : float
        Largest change of a row over the standard deviation of the noise, positive.
    offset : float
        Sensitivity ratio of the Gaussian mechanisms released beside it, at least 0.
    adjacency : {"replace", "add-remove"}, optional
        As of `GaussianProfile`.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    Hardt and Roth, STOC 2012, Figure 2.
    """

    k: float
    ratio: float
    offset: float = 0.0
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        check_count(self.k, "k")
        check_parameter(self.ratio, "ratio")
        if self.offset != 0:
            check_parameter(self.offset, "offset")
        check_known_adjacency(self.adjacency)

    @property
    def guarantee(self) -> Guarantee:
        """As in `Profile`. With an offset one row may not attain both parts at once."""
        return "bounded" if self.offset else "proved"

    @classmethod
    def _joined(cls, profiles: list[Profile]) -> list[Profile]:
        """Add up columns of one ratio; one of the range finders takes Gaussian mechanisms along."""
        columns: dict[float, float] = {}
        rest, offsets = [], []
        for p in profiles:
            if isinstance(p, ChiGaussianProfile):
                columns[p.ratio] = columns.get(p.ratio, 0) + p.k
                offsets.append(p.offset)
            elif isinstance(p, GaussianProfile):
                offsets.append(p.sensitivity_ratio)
            else:
                rest.append(p)
        offset = math.hypot(*offsets)
        known = (getattr(p, "adjacency", None) for p in profiles)
        adjacency = next((one for one in known if one is not None), None)
        for ratio, k in columns.items():
            rest.append(ChiGaussianProfile(k, ratio, offset, adjacency))
            offset = 0.0
        return rest

    def _delta(self, epsilon: Array) -> Array:
        kappa, offset = np.asarray(self.ratio), float(self.offset)
        return np.maximum(chi_gaussian_delta(epsilon, float(self.k), kappa, offset=offset), TINY)


def chi_gaussian_ratio(k: float, epsilon: float, delta: float) -> float:
    """Largest ratio of the range finder for a budget.

    Parameters
    ----------
    k : float
        Columns of the random test matrix, at least 1.

    Returns
    -------
    float
        The standard deviation of the noise is the largest change of a row over this.
    """
    return largest_parameter(
        lambda x: ChiGaussianProfile(k, x), epsilon, delta, lambda mu: mu / math.sqrt(k)
    )


def chi_gaussian_offset(k: float, ratio: float, epsilon: float, delta: float) -> float:
    """Largest sensitivity ratio of Gaussian noise beside a range finder, for a budget.

    Parameters
    ----------
    k : float
        Columns of the random test matrix, at least 1.
    ratio : float
        Ratio of the range finder, below ``chi_gaussian_ratio(k, epsilon, delta)``.
    epsilon, delta : float
        Budget of both together, epsilon >= 0 and 0 < delta < 1.

    Returns
    -------
    float
        The offset of a `ChiGaussianProfile`.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or the range finder leaves nothing of the budget.
    """
    epsilon, delta = checked_budget(epsilon, delta)
    if ChiGaussianProfile(k, ratio).delta(epsilon) >= delta:
        raise ValueError("the range finder takes the whole budget: its ratio is too large")
    return largest_parameter(
        lambda x: ChiGaussianProfile(k, ratio, x), epsilon, delta, lambda mu: 0.7 * mu
    )
