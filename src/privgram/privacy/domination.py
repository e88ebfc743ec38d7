"""The least Gaussian noise that shows at least as much as a mechanism of another kind."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from privgram.privacy.profiles import GaussianProfile, Profile, gaussian_delta

if TYPE_CHECKING:
    from privgram.privacy._numerics import Array

#: Deltas of a profile that a Gaussian one is held against.
_DOTS = 1 << 8

#: To what both profiles are evaluated, relative; twice what each says.
_ACCURACY = 2e-9

#: The search ends at so much more than the least ratio, relative, and at so large a one.
_TOLERANCE, _MOST = 1e-6, 1e6


@lru_cache(maxsize=4096)
def dominating_ratio(profile: Profile, slack: float) -> float:
    r"""Least mu with delta(epsilon) <= slack + delta_mu(epsilon) at every epsilon.

    Then, but for a chance of `slack`, Gaussian noise of sensitivity ratio mu shows at least as much
    whatever is asked: its pair dominates that of the profile.

    To a millionth above; 0.0 if the slack is enough by itself, and infinity if there is none up to
    a million: where delta does not fall below the slack. Proof, between the epsilons that are
    looked at too: docs/theory/composition.md, "Mechanisms of other kinds".
    """
    if isinstance(profile, GaussianProfile):
        return profile.sensitivity_ratio
    top = profile.epsilon(slack)
    if top == 0.0 or top == math.inf:
        return top
    grid = np.linspace(0.0, top, min(_DOTS, profile._dots) + 1)
    deltas = np.minimum(np.asarray(profile.delta(grid)) * (1.0 + _ACCURACY), 1.0)
    # At epsilon = 0 Gaussian noise has delta = 2 Phi(mu / 2) - 1.
    low = 2.0 * float(special.ndtri((1.0 + max(deltas[0] - slack, 0.0)) / 2.0))
    high = low = min(max(low, 1e-300), 1.0)
    while not _dominates(high, grid, deltas, slack):
        low, high = high, 2.0 * high
        if high > _MOST:
            return math.inf
    while high > low * (1.0 + _TOLERANCE):
        middle = math.sqrt(low) * math.sqrt(high)
        if _dominates(middle, grid, deltas, slack):
            high = middle
        else:
            low = middle
    return high


def _dominates(mu: float, grid: Array, deltas: Array, slack: float) -> bool:
    """Whether a Gaussian profile is above the chords of dots (m,) of another, less the slack.

    In e^epsilon it is convex: above its tangents at the ends of an interval, of which the larger
    is least where they cross, for u in [0, 1] of the interval.
    """
    curve = gaussian_delta(grid, np.asarray(mu)) + slack
    falls = np.exp(grid + special.log_ndtr(-grid / mu - mu / 2.0))  # -d delta / d epsilon
    step = grid[1] - grid[0]
    ahead, back = falls[:-1] * math.expm1(step), falls[1:] * -math.expm1(-step)
    left, right = curve[:-1], curve[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        u = np.clip(np.nan_to_num((left - right - back) / (ahead - back), nan=0.5), 0.0, 1.0)
    tangents = np.maximum(left - u * ahead, right + (1.0 - u) * back)
    chords = deltas[:-1] + u * (deltas[1:] - deltas[:-1])
    return bool((deltas <= curve).all() and (chords <= tangents).all())
