"""The profile of matrix Laplace noise, a difference of two Wishart matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import Polynomial
from scipy import special

from privgram._base.numbers import Adjacency, check_adjacency, check_integer
from privgram.privacy._numerics import (
    DROP,
    TINY,
    Array,
    gamma_half_ratio,
    gauss_legendre,
    log_nodes,
    quiet,
)
from privgram.privacy.profiles.base import Profile, ProofStatus, check_parameter

# Matrix Laplace noise s (W1 - W2), W1 and W2 independent W_d(I, k).
#
# A row moves along one direction, and there the noise has a part s (\xi_1 - \xi_2),
# \xi_i \sim \chi^2_m with m = k - d + 1, independent of all else in it. So the pair is
# dominated by a translation of this one variable: by B^2 where a row is added or removed, and by
# 2 B^2 where one is replaced (Theorems 1 and 2 of docs/theory/matrix-laplace.md).
#
# Below, z = (\xi_1 - \xi_2) / 2 has the symmetric bilateral gamma density
#
#     f(z) = \frac{|z|^\nu K_\nu(|z|)}{\sqrt\pi\, 2^\nu\, \Gamma(\nu + 1/2)}, \qquad
#    \nu = \frac{m - 1}{2},
#
# and h is the translation of it. For m = 2 it is the Laplace density e^{-|z|} / 2.

#: Nodes of a panel, and steps by which the edge of the losses is found.
_POINTS, _HALVINGS, _NEWTONS = 64, 16, 4

#: As good as 0, where Bessel functions of these orders are finite.
_LEAST = 1e-20

#: Below this translation losses are integrals, above it differences of logarithms.
_SMALL = 0.02

#: From this order on Debye's expansion has all digits with so many terms.
_DEBYE, _TERMS = 12.0, 16


@lru_cache(maxsize=64)
def _series(nu: float) -> tuple[Polynomial, Polynomial]:
    """K_nu(nu x) over the first term of its expansion, in t = 1 / sqrt(1 + x^2), with its slope.

    DLMF 10.41.
    """
    t = Polynomial([0.0, 1.0])
    u = total = Polynomial([1.0])
    for k in range(1, _TERMS):
        u = t**2 * (1 - t**2) * u.deriv() / 2 + ((1 - 5 * t**2) * u).integ() / 8
        total += u * (-1.0 / nu) ** k
    total = total.trim(1e-18)
    return total, total.deriv()


@lru_cache(maxsize=64)
def _top(nu: float) -> float:
    """Logarithm of what the expansion of f is divided by."""
    return math.log(2.0 * math.sqrt(math.pi) * gamma_half_ratio(nu) * _series(nu)[0](1.0))


@quiet
def log_density(nu: float, z: Array) -> Array:
    """Logarithm of f at z, for nu >= 1/2, as accurate for nu = 1e12 as for 1."""
    z = np.abs(z)
    if nu < _DEBYE:
        z = np.maximum(z, _LEAST)
        norm = 0.5 * math.log(math.pi) + math.lgamma(nu + 0.5) + nu * math.log(2.0)
        return np.asarray(nu * np.log(z) + np.log(special.kve(nu, z)) - z - norm)
    # About z = 0, with 1 + r = sqrt(1 + (z / nu)^2), where nothing cancels.
    x = z / nu
    w = np.hypot(1.0, x)
    r = x * x / (1.0 + w)
    series, _ = _series(nu)
    return np.asarray(
        nu * (np.log1p(r / 2.0) - r) - 0.5 * np.log1p(r) + np.log(series(1.0 / w)) - _top(nu)
    )


def _window(nu: float, start: Array) -> Array:
    """Length on which f has fallen by exp(-DROP) from its value at `start` >= 0.

    -ln f has a slope of at least z / (2 q + z), q = nu - 1/2 [Segura, J. Math. Anal. Appl. 374,
    2011], whose integral is bounded below by ln(1 + u) <= u (2 + u) / (2 (1 + u)).
    """
    q = nu - 0.5
    return DROP - start + np.sqrt((DROP - start) ** 2 + 4.0 * DROP * (q + start))


@quiet
def _slope(nu: float, z: Array) -> Array:
    """-(ln f)' = K_(nu-1)(z) / K_nu(z) at z > 0: from 0 to 1."""
    if nu < _DEBYE:
        z = np.maximum(z, _LEAST)
        return np.asarray(special.kve(nu - 1.0, z) / special.kve(nu, z))
    x = z / nu
    w = np.hypot(1.0, x)
    series, slope = _series(nu)
    tail = slope(1.0 / w) / (w * series(1.0 / w))
    return np.asarray(x * (1.0 / (1.0 + w) + (0.5 + tail) / (nu * w * w)))


def _loss(nu: float, h: float, x: Array) -> Array:
    """Ln f(x) / f(x + h), for x >= -h / 2."""
    if h >= _SMALL:
        return log_density(nu, x) - log_density(nu, x + h)
    # Where these differ by little: the integral of the slope from |x| on, which is not smooth at 0.
    u, weight = gauss_legendre(np.zeros(1), np.ones(1), _POINTS // 4)
    length = h + 2.0 * np.minimum(x, 0.0)[..., None]
    slope = _slope(nu, np.abs(x)[..., None] + length * u**4)
    return np.asarray(np.sum(4.0 * weight * u**3 * length * slope, axis=-1))


@quiet
def bilateral_gamma_delta(epsilon: Array, nu: float, h: float) -> Array:
    """Profile of z + h against z, z of density f, for epsilon >= 0: the same in either order."""
    if nu == 0.5:
        return np.maximum(-np.expm1((epsilon - h) / 2.0), 0.0)
    out = np.zeros(epsilon.shape)
    some = epsilon < h
    eps = epsilon[some]
    # The loss rises from 0 at h / 2 to h, and exceeds epsilon beyond h + edge. An error of the
    # edge counts squared, as the integrand vanishes there.
    low = np.full_like(eps, -h / 2.0)
    high = np.full_like(eps, 800.0 + 40.0 * math.sqrt(nu))
    edge = (low + high) / 2.0
    for step in range(_HALVINGS + _NEWTONS):
        short = eps - _loss(nu, h, edge)
        low, high = np.where(short >= 0.0, edge, low), np.where(short >= 0.0, high, edge)
        middle = (low + high) / 2.0
        if step >= _HALVINGS:
            rise = _slope(nu, edge + h) - np.sign(edge) * _slope(nu, np.abs(edge))
            middle = np.where(rise > 0.0, np.clip(edge + short / rise, low, high), middle)
        edge = middle
    total = np.zeros_like(eps)
    # On either side of the singularity of f, as far as f matters.
    start = np.maximum(edge, 0.0)
    stop = start + _window(nu, start)
    back = np.clip(-edge, TINY, _window(nu, np.zeros(1)))
    for sign, near, far in ((1.0, start, stop), (-1.0, np.zeros_like(back), back)):
        v, weight = log_nodes(np.maximum(np.log(near), np.log(far) - DROP), np.log(far), _POINTS)
        z = np.exp(v)
        excess = np.maximum(_loss(nu, h, sign * z) - eps[:, None], 0.0)
        total += np.sum(weight * z * np.exp(log_density(nu, z)) * -np.expm1(-excess), axis=-1)
    out[some] = total
    return out


def check_wishart(dof: float, n_columns: int, ratio: float, adjacency: str) -> None:
    """Raise unless Wishart noise of these parameters has a density and they are for arrays."""
    check_adjacency(adjacency)
    check_integer(n_columns, "n_columns", 1)
    check_parameter(ratio, "ratio")
    check_parameter(dof, "dof")
    if dof < n_columns + 1:
        raise ValueError(f"dof must be at least n_columns + 1 = {n_columns + 1}")


@dataclass(frozen=True)
class MatrixLaplaceProfile(Profile):
    r"""Privacy profile of matrix Laplace noise s (W1 - W2), W_i independent W_d(I, k).

    It reaches delta = 0, at epsilon = B^2 / (2 s) under add-remove or with one column, and else at
    B^2 / s.

    Parameters
    ----------
    dof : float
        Degrees of freedom k >= d + 1 of either part, an integer or not.
    n_columns : int
        Columns d >= 1.
    ratio : float
        B^2 / s > 0.
    adjacency : {"replace", "add-remove"}
        Notion of neighbours. With one column the two are the same.

    Notes
    -----
    Exact for one column, where k = 2 is the Laplace mechanism. For more it is an upper bound;
    for k = d + 1 the epsilon at which delta is 0 is exact: Theorems 1 to 3 of
    docs/theory/matrix-laplace.md.
    """

    dof: float
    n_columns: int
    ratio: float
    adjacency: Adjacency = "replace"

    def __post_init__(self) -> None:
        check_wishart(self.dof, self.n_columns, self.ratio, self.adjacency)

    @property
    def _dots(self) -> int:  # type: ignore[override]
        # But for k = d + 1 a delta takes up to a millisecond.
        return Profile._dots if self.dof == self.n_columns + 1 else 1 << 9

    @property
    def proof_status(self) -> ProofStatus:
        """As in `Profile`. With more than one column a release shows less than the variable."""
        return "exact" if self.n_columns == 1 else "upper bound"

    @property
    def pure(self) -> float:
        """Epsilon from which on delta is 0."""
        both = self.adjacency == "replace" and self.n_columns > 1
        return self.ratio if both else self.ratio / 2.0

    def _delta(self, epsilon: Array) -> Array:
        nu, h = (self.dof - self.n_columns) / 2.0, self.pure
        return np.where(epsilon < h, np.maximum(bilateral_gamma_delta(epsilon, nu, h), TINY), 0.0)

    def _epsilon(self, target: float) -> float:
        return self.pure if target < TINY else min(super()._epsilon(target), self.pure)
