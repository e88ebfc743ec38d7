"""Gamma variables: their densities, written about their centre, and windows to integrate over.

Windows come from bounds on how fast a log-concave density falls.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from privgram.privacy._numerics import DROP, Array, log_nodes, quiet


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
