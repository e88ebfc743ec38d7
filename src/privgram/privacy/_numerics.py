r"""Special functions and quadrature rules the profiles share.

A profile is :math:`E_P[(1 - e^{\epsilon - L})_+]`, L the privacy loss: an integral of
positive terms. Everything here serves to evaluate such integrals without subtracting
nearly equal numbers, at any shape parameter: densities are written about their centre,
and integration windows come from bounds on how fast a log-concave density falls.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array: TypeAlias = NDArray[np.float64]

_POWER = 6.0

DROP = 42.0
"""Windows end where a density has fallen by exp(-DROP), 6e-19, from its maximum."""

quiet = np.errstate(divide="ignore", over="ignore", invalid="ignore")
"""Decorates functions whose infinities are meant."""

TINY = float(np.finfo(np.float64).tiny)
"""A delta too small for a float is reported as this, never as 0."""


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
    y, weight = gauss_legendre(np.zeros_like(high), -np.expm1((low - high) / _POWER), n)
    return high[..., None] + _POWER * np.log1p(-y), weight * _POWER / (1.0 - y)


def log_panels(edges: tuple[Array, ...], n: int) -> tuple[Array, Array]:
    """`log_nodes` on consecutive panels; an edge beyond its neighbours is moved to them."""
    low, top = edges[0], edges[-1]
    pieces = []
    for edge in edges[1:]:
        high = np.maximum(np.minimum(edge, top), low)
        pieces.append(log_nodes(low, high, n))
        low = high
    nodes, weights = zip(*pieces, strict=True)
    return np.concatenate(nodes, axis=-1), np.concatenate(weights, axis=-1)


@quiet
def log1pmx(x: Array) -> Array:
    r""":math:`\ln(1 + x) - x`, accurate for small x."""
    x = np.asarray(x, dtype=np.float64)
    # ln(1 + x) = 2 artanh(r) with r = x / (2 + x), and 2r - x = -x r.
    r = x / (2.0 + x)
    r2 = r * r
    series = np.full_like(r, 1.0 / 29.0)
    for k in range(27, 1, -2):
        series = series * r2 + 1.0 / k
    return np.where(np.abs(x) < 0.5, r * (2.0 * r2 * series - x), np.log1p(x) - x)


@quiet
def expm1mx(x: Array) -> Array:
    r""":math:`e^x - 1 - x`, accurate for small x."""
    x = np.asarray(x, dtype=np.float64)
    series = np.ones_like(x)
    for k in range(15, 2, -1):
        series = 1.0 + series * x / k
    return np.where(np.abs(x) < 0.5, 0.5 * x * x * series, np.expm1(x) - x)


@quiet
def inverse_expm1_tail(x: Array) -> Array:
    r""":math:`1 / (1 - e^{-x}) - 1 / x`, which is 1/2 at 0."""
    x = np.asarray(x, dtype=np.float64)
    small = np.abs(x) < 0.1
    y = np.where(small, 1.0, x)
    x2 = np.where(small, x * x, 0.0)
    series = 0.5 + np.where(small, x, 0.0) / 12.0 * (
        1.0 - x2 / 60.0 * (1.0 - x2 / 42.0 * (1.0 - x2 / 40.0))
    )
    return np.where(small, series, -1.0 / np.expm1(-y) - 1.0 / y)


def stirling_error(a: float) -> float:
    r""":math:`\ln\Gamma(a) - (a - 1/2) \ln a + a - \ln(2\pi)/2`."""
    if a < 20.0:
        return float(special.gammaln(a) - (a - 0.5) * np.log(a) + a - 0.5 * np.log(2.0 * np.pi))
    b = 1.0 / (a * a)
    return (1 / 12 - b * (1 / 360 - b * (1 / 1260 - b * (1 / 1680 - b / 1188)))) / a


def gamma_half_ratio(x: float) -> float:
    r""":math:`\Gamma(x + 1/2) / \Gamma(x)`."""
    if x < 40.0:
        return float(np.exp(special.gammaln(x + 0.5) - special.gammaln(x)))
    b = 1.0 / (x * x)
    tail = (-1 / 8 + b * (1 / 192 - b * (1 / 640 - b * 17 / 14336))) / x
    return float(np.sqrt(x) * np.exp(tail))


def log_gamma_density(a: float, w: Array) -> Array:
    r"""Log-density of :math:`w = \ln(x/a)`, x ~ Gamma(a): as accurate for a = 1e12 as for 1."""
    return _log_peak(a) - a * expm1mx(w)


@quiet
def log_gamma_density_near(a: float, centred: Array, scaled: Array) -> Array:
    """As `log_gamma_density`, from both :math:`x/a - 1` and :math:`x/a`, each exact."""
    log_part = np.where(centred > -0.5, log1pmx(centred), np.log(scaled) - centred)
    return _log_peak(a) + a * log_part


def _log_peak(a: float) -> float:
    return 0.5 * math.log(a / (2.0 * math.pi)) - stirling_error(a)


@quiet
def gamma_window_above(a: float, start: Array, drop: float = DROP) -> Array:
    r"""Bound on the w at which the density of :math:`w = \ln(x/a)` has fallen by `drop`.

    The fall is measured from max(start, 0), the largest density at or above `start`.
    """
    s = np.maximum(start, 0.0)
    # The fall over t is A (e^t - 1 - t) + B t, and both bounds below solve a lower bound of it.
    A, B = a * np.exp(s), a * np.expm1(s)
    quadratic = 2.0 * drop / (B + np.sqrt(B * B + 2.0 * A * drop))
    y = drop / A
    return s + np.minimum(quadratic, np.log1p(y + np.sqrt(2.0 * y)))


def gamma_window_below(a: float, start: Array, drop: float = DROP) -> Array:
    r"""As `gamma_window_above`, on the other side: measured from min(start, 0), downwards."""
    s = np.minimum(start, 0.0)
    # e^-t - 1 + t >= t^2 / (2 + t) makes the fall at least a quadratic's positive root away.
    B = -a * np.expm1(s)
    b = drop - 2.0 * B
    root = np.sqrt(b * b + 8.0 * a * drop)
    return s - np.where(b > 0.0, b + root, 8.0 * a * drop / (root - b)) / (2.0 * a)
