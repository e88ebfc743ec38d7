"""Special functions, quadrature rules, and profiles as distributions of losses on a grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

# A profile is E_P[(1 - e^{\epsilon - L})_+], L the privacy loss: an integral of
# positive terms. Everything here serves to evaluate such integrals without subtracting
# nearly equal numbers, at any shape parameter.

Array: TypeAlias = NDArray[np.float64]

#: Windows end where a density has fallen by exp(-DROP), 6e-19, from its maximum.
DROP = 42.0

#: A delta too small for a float is reported as this, never as 0.
TINY = float(np.finfo(np.float64).tiny)

#: p of `log_nodes`.
_NODE_POWER = 6.0

#: Decorates functions whose infinities are meant.
quiet = np.errstate(divide="ignore", over="ignore", invalid="ignore")


@cache
def _legendre(n: int) -> tuple[Array, Array]:
    x, w = special.roots_legendre(n)
    nodes, weights = (x + 1) / 2, w / 2
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def gauss_legendre(low: Array, high: Array, n: int) -> tuple[Array, Array]:
    """Nodes and weights of the n-point rule on [low, high], on a new last axis."""
    nodes, weights = _legendre(n)
    length = np.maximum(high - low, 0.0)[..., None]
    return low[..., None] + length * nodes, length * weights


def log_nodes(low: Array, high: Array, n: int) -> tuple[Array, Array]:
    r"""Nodes and weights on [low, high] for a function of :math:`e^v`.

    Gauss-Legendre in :math:`e^{v/p}`: a fractional power of e^v, which a rule in e^v would
    find singular at its lower end, is smooth, and a long interval is as good as a short
    one. Written so that v - high is as accurate near `high` as v itself.
    """
    y, weight = gauss_legendre(np.zeros_like(high), -np.expm1((low - high) / _NODE_POWER), n)
    return high[..., None] + _NODE_POWER * np.log1p(-y), weight * _NODE_POWER / (1.0 - y)


def gamma_half_ratio(x: float) -> float:
    r""":math:`\Gamma(x + 1/2) / \Gamma(x)`."""
    if x < 40.0:
        return float(np.exp(special.gammaln(x + 0.5) - special.gammaln(x)))
    b = 1.0 / (x * x)
    tail = (-1 / 8 + b * (1 / 192 - b * (1 / 640 - b * 17 / 14336))) / x
    return float(np.sqrt(x) * np.exp(tail))


# A profile as a distribution of privacy losses on a grid, by connecting dots [1]: the theorem of
# docs/theory/composition.md, "Numerically".
#
# [1] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar and P. Manurangsi, "Connect the
#    Dots: Tighter Discrete Approximations of Privacy Loss Distributions", PETS 2022.

Curve: TypeAlias = Callable[[Array], Array]

#: Added to every delta, relatively: a profile good to nine digits becomes an upper bound.
_MARGIN = 1e-9

#: A delta below this goes to infinity, which is where dp_accounting keeps what it gives up.
_TAIL = 1e-18

#: What a larger loss does goes to infinity too.
_LARGEST_EPSILON = 512.0


def connect_the_dots(
    forward: Curve, backward: Curve, discretization: float, dots: int = 1 << 12
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


def _dots(curve: Curve, step: float, dots: int) -> tuple[NDArray[np.int64], Array]:
    """Return grid indices from 0 to where delta is negligible, and upper bounds there."""
    # A delta that does not fall to zero counts from its floor, which it may near slowly:
    # even dots to twice the floor, then dots one per cent apart.
    count = max(math.ceil(math.log2(_LARGEST_EPSILON / step)), 0) + 1
    octaves = _LARGEST_EPSILON * np.exp2(-np.arange(count, dtype=np.float64))
    coarse = curve(octaves)
    floor = float(coarse[0])
    bulk = _first_below(curve, max(_TAIL, 2 * floor), octaves, coarse)
    last = _first_below(curve, max(_TAIL, floor * (1 + 1e-6)), octaves, coarse)
    stride = max(1, round(bulk / (dots * step)))
    even = np.arange(0, bulk / step + 2 * stride, stride)
    count = max(int(np.log(max(last / bulk, 1.0)) / 0.01), 0) + 1
    sparse = even[-1] * np.exp(0.01 * np.arange(count))
    index = np.unique(np.concatenate([even, np.ceil(sparse)]).astype(np.int64))
    delta = curve(np.asarray(index * step, dtype=np.float64))
    # Upper bounds stay non-increasing, whatever the last digits of the profile did.
    delta = np.maximum.accumulate(delta[::-1])[::-1]
    return index, np.minimum(delta * (1 + _MARGIN), 1.0)


def _first_below(curve: Curve, level: float, octaves: Array, coarse: Array) -> float:
    """Return an epsilon from which on delta <= level, the least one to a few per cent."""
    above = np.flatnonzero(coarse > level)
    k = int(above[0]) if above.size else octaves.size - 1
    if k == 0:
        return float(octaves[0])
    # Between two octaves, in a call: a profile takes no longer for a few epsilons than for one.
    fine = octaves[k] * np.exp2(np.arange(1, 32) / 32)
    above = np.flatnonzero(curve(fine) > level)
    first = int(above[-1]) + 1 if above.size else 0
    return float(fine[first]) if first < fine.size else float(octaves[k - 1])


def _lower_hull(
    index: NDArray[np.int64], delta: Array, step: float
) -> tuple[NDArray[np.int64], Array]:
    """Keep the dots on the lower convex hull in x = exp(epsilon).

    The true delta is convex and below the dots, hence below their hull; dropping the
    dots above it makes every jump of slope positive in spite of rounding.
    """
    if (_jumps(index, delta, step, least=-math.inf)[:-1] > 0).all():
        return index, delta
    keep: list[int] = []
    for i in range(len(index)):
        while len(keep) >= 2:
            three = [*keep[-2:], i]
            if _jumps(index[three], delta[three], step, least=-math.inf)[0] > 0:
                break
            keep.pop()
        keep.append(i)
    return index[keep], delta[keep]


def _jumps(index: NDArray[np.int64], delta: Array, step: float, least: float = 0.0) -> Array:
    """Return the P-mass at every dot but the first; the slope beyond the last is zero."""
    fall = delta[:-1] - delta[1:]
    gap = np.diff(index) * step
    masses = fall / -np.expm1(-gap)
    masses[:-1] -= fall[1:] / np.expm1(gap[1:])
    return np.maximum(masses, least)
