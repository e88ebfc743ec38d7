r"""A profile as a distribution of privacy losses on a grid, by connecting dots.

References
----------
.. [1] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar and P. Manurangsi, "Connect the
   Dots: Tighter Discrete Approximations of Privacy Loss Distributions", PETS 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Direction = Callable[["NDArray[np.float64]"], "NDArray[np.float64]"]

# Added to every delta, so that a profile good to nine digits becomes an upper bound.
_MARGIN = 1e-9
# Below this the tail goes to infinity, which is where dp_accounting keeps what it gives up.
_TAIL = 1e-18
_LARGEST_EPSILON = 512.0


def connect_the_dots(
    forward: Direction, backward: Direction, discretization: float, dots: int = 1 << 12
) -> tuple[dict[int, float], float]:
    r"""Return the loss under P as masses at i h, by the index i, and its mass at infinity.

    Given are :math:`H_\epsilon(P\|Q)` and :math:`H_\epsilon(Q\|P)` for arrays of epsilon >= 0. With
    :math:`x = e^\epsilon` and D(x) the piecewise linear delta, the Q-mass at x_i is the jump of D'
    there and the P-mass x_i times it. Negative losses are the positive ones of the opposite
    direction with the roles exchanged, where nothing cancels.
    """
    up, up_delta = _dots(forward, discretization, dots)
    down, down_delta = _dots(backward, discretization, dots)
    # Both directions have the total variation distance at zero; rounding may part them.
    up_delta[0] = down_delta[0] = max(up_delta[0], down_delta[0])
    up, up_delta = _lower_hull(up, up_delta, discretization)
    down, down_delta = _lower_hull(down, down_delta, discretization)

    masses = dict(zip(up[1:].tolist(), _jumps(up, up_delta, discretization).tolist(), strict=True))
    for index, mass in zip(
        down[1:].tolist(), _jumps(down, down_delta, discretization).tolist(), strict=True
    ):
        masses[-index] = mass * np.exp(-index * discretization)
    # What is left at zero is the jump between the two slopes there. Never less than it:
    # the sum may only exceed one.
    right = (up_delta[0] - up_delta[1]) / np.expm1(up[1] * discretization)
    step = down[1] * discretization
    left = (down_delta[0] - np.exp(-step) * down_delta[1]) / -np.expm1(-step)
    masses[0] = max(0.0, 1.0 - left - right)
    return masses, float(up_delta[-1])


def _dots(
    direction: Direction, step: float, dots: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return grid indices from 0 to where delta is negligible, and upper bounds there."""
    # A delta that does not fall to zero counts from its floor, which it may near slowly:
    # even dots to twice the floor, then dots one per cent apart.
    count = max(math.ceil(math.log2(_LARGEST_EPSILON / step)), 0) + 1
    octaves = _LARGEST_EPSILON * np.exp2(-np.arange(count, dtype=np.float64))
    coarse = direction(octaves)
    floor = float(coarse[0])
    bulk = _first_below(direction, max(_TAIL, 2 * floor), octaves, coarse)
    last = _first_below(direction, max(_TAIL, floor * (1 + 1e-6)), octaves, coarse)
    stride = max(1, round(bulk / (dots * step)))
    even = np.arange(0, bulk / step + 2 * stride, stride)
    count = max(int(np.log(max(last / bulk, 1.0)) / 0.01), 0) + 1
    sparse = even[-1] * np.exp(0.01 * np.arange(count))
    index = np.unique(np.concatenate([even, np.ceil(sparse)]).astype(np.int64))
    delta = direction(np.asarray(index * step, dtype=np.float64))
    # Upper bounds stay non-increasing, whatever the last digits of the profile did.
    delta = np.maximum.accumulate(delta[::-1])[::-1]
    return index, np.minimum(delta * (1 + _MARGIN), 1.0)


def _first_below(
    direction: Direction, level: float, octaves: NDArray[np.float64], coarse: NDArray[np.float64]
) -> float:
    """Return an epsilon from which on delta <= level, the least one to a few per cent."""
    above = np.flatnonzero(coarse > level)
    k = int(above[0]) if above.size else octaves.size - 1
    if k == 0:
        return float(octaves[0])
    # Between two octaves, in a call: a profile takes no longer for a few epsilons than for one.
    fine = octaves[k] * np.exp2(np.arange(1, 32) / 32)
    good = np.flatnonzero(direction(fine) > level)
    last = int(good[-1]) + 1 if good.size else 0
    return float(fine[last]) if last < fine.size else float(octaves[k - 1])


def _lower_hull(
    index: NDArray[np.int64], delta: NDArray[np.float64], step: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Keep the dots on the lower convex hull in x = exp(epsilon).

    The true delta is convex and below the dots, hence below their hull; dropping the
    dots above it makes every jump of slope positive in spite of rounding.
    """
    if (_jumps(index, delta, step, least=-math.inf)[:-1] > 0).all():
        return index, delta
    keep: list[int] = []
    for i in range(len(index)):
        while len(keep) >= 2 and _jump(index, delta, keep[-2], keep[-1], i, step) <= 0:
            keep.pop()
        keep.append(i)
    return index[keep], delta[keep]


def _jump(
    index: NDArray[np.int64],
    delta: NDArray[np.float64],
    before: int,
    here: int,
    after: int,
    step: float,
) -> float:
    """Return the P-mass at `here`: x times the change of slope, without forming x."""
    left = (delta[before] - delta[here]) / -np.expm1((index[before] - index[here]) * step)
    right = (delta[here] - delta[after]) / np.expm1((index[after] - index[here]) * step)
    return float(left - right)


def _jumps(
    index: NDArray[np.int64], delta: NDArray[np.float64], step: float, least: float = 0.0
) -> NDArray[np.float64]:
    """Return the P-mass at every dot but the first; the slope beyond the last is zero."""
    fall = delta[:-1] - delta[1:]
    gap = np.diff(index) * step
    masses = fall / -np.expm1(-gap)
    masses[:-1] -= fall[1:] / np.expm1(gap[1:])
    return np.maximum(masses, least)
