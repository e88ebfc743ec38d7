"""The profile of additive Wishart noise (Algorithm 3), and its noise from a privacy budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from privgram._base.numbers import (
    Adjacency,
    check_adjacency,
    check_integer,
    largest_safe,
)
from privgram.papers._gamma import (
    gamma_window_above,
    gamma_window_below,
    inverse_expm1_tail,
    log_gamma_density,
    log_gamma_density_near,
    log_panels,
)
from privgram.papers._shared import largest_count, largest_parameter
from privgram.privacy._numerics import DROP, TINY, Array, Curve, gamma_half_ratio, log_nodes, quiet
from privgram.privacy.calibration import (
    WishartNoise,
    checked_budget,
    gaussian_ratio,
)
from privgram.privacy.profiles import Profile
from privgram.privacy.profiles.matrix_laplace import check_wishart

# Additive Wishart noise. The release is G + N with N ~ W_d(sigma^2 I, k), and s = B^2 / sigma^2.
# A known matrix may be subtracted from the output, so only the eigenvalues of G' - G matter.
#
# Add-remove: one eigenvalue, s at most. By the Schur complement 1 / (e_1^T X^{-1} e_1) the pair is
# chi2_m + s against chi2_m with m = k - d + 1, whatever the data: Theorem 1 of
# docs/theory/wishart.md.
#
# Replace: two eigenvalues, mu_1 and -mu_2, in [0, s] x [-s, 0], hence W + mu_1 E_11 against
# W + mu_2 E_22 with W ~ W_2(I, m + 1). The supremum over the box is at (s, s) or at (0, s) and
# (s, 0), which are the add-remove pair: Theorem 7 there.
#
# Below, x = u / 2 ~ Gamma(a) for u ~ chi2_m, a = m / 2, and h = s / 2.

#: Most degrees of freedom, or rows, that are searched for.
MAX_DOF = 1e12

#: Nodes of a panel of one integral.
_PANEL_NODES = 64

#: Of the corner's two integrals: places where the outer one is looked for, and nodes of both.
_SCAN, _OUTER, _INNER = 256, 64, 48

#: Epsilons at once: what fits a core's cache.
_EPSILONS_AT_ONCE = 8


@quiet
def with_against_without(epsilon: Array, a: float, h: float) -> Array:
    r"""Profile of Gamma(a) + h against Gamma(a), a >= 1, for any real epsilon.

    With x ~ Gamma(a) the loss is :math:`q \ln(x / (x + h)) + h`, q = a - 1: it rises from
    minus infinity to h.
    """
    q = a - 1.0
    if q == 0.0:
        return np.maximum(-np.expm1(epsilon - h), 0.0)
    out = np.zeros(epsilon.shape)
    some = epsilon < h
    eps = epsilon[some]
    gap = h - eps
    kappa = gap / q
    # The loss exceeds epsilon above x0 = h / (e^kappa - 1); w = ln(x / a).
    centred = (q * eps / gap - 1.0 + h * (inverse_expm1_tail(kappa) - 1.0)) / a
    w0 = np.where(
        centred > -0.5,
        np.log1p(np.maximum(centred, -0.5)),
        np.log(h / a) - kappa - np.log(-np.expm1(-kappa)),
    )
    # From saturation on, exp(-excess) is nothing.
    reach = np.expm1(np.minimum(DROP / q, 700.0)) * (a * np.exp(w0) + h) / h
    saturation = w0 - np.log1p(-np.minimum(reach, 1.0 - 1e-9))
    low = np.maximum(w0, gamma_window_below(a, np.zeros_like(w0)))
    high = gamma_window_above(a, w0)
    w, weight = log_panels((low, saturation, high), _PANEL_NODES)
    x = a * np.exp(w)
    # excess = L - epsilon = q ln(1 + h (x - x0) / (x0 (x + h)))
    t = w - w0[:, None]
    rise = h * np.expm1(np.minimum(t, 30.0)) / (x + h)
    far = t + np.log(h / (x + h)) + np.log1p(x / h * np.exp(-t))
    excess = q * np.where(t < 30.0, np.log1p(rise), far)
    mass = weight * np.exp(log_gamma_density(a, w))
    out[some] = np.sum(mass * -np.expm1(-excess), axis=-1)
    return out


@quiet
def without_against_with(epsilon: Array, a: float, h: float) -> Array:
    r"""Profile of Gamma(a) against Gamma(a) + h, a >= 1, for any real epsilon.

    With x ~ Gamma(a) the loss is infinite up to h, then :math:`-q \ln(1 - h / x) - h`,
    which falls to -h.
    """
    q = a - 1.0
    floor = float(special.gammainc(a, h))
    out = -np.expm1(np.minimum(epsilon, 0.0))
    some = h + epsilon > 0.0
    if q == 0.0:
        out[some] = floor
        return out
    eps = epsilon[some]
    gap = h + eps
    kappa = gap / q
    # The loss exceeds epsilon below x0 = h / (1 - e^-kappa). With x = h + b e^v the powers
    # of x - h, singular at h, are smooth in v.
    b = max(a - h, 1.0)
    offset = max(h + 1.0 - a, 0.0)
    centred = (h * inverse_expm1_tail(kappa) - q * eps / gap - 1.0 - offset) / b
    v0 = np.where(
        np.abs(centred) < 0.5,
        np.log1p(np.clip(centred, -0.5, 0.5)),
        np.log(h / b) - kappa - np.log(-np.expm1(-kappa)),
    )
    x0 = h + b * np.exp(np.minimum(v0, 700.0))

    def to_v(w: Array) -> Array:
        """Give v at x = a e^w, or minus infinity at and below h."""
        return np.log(np.maximum(a * np.expm1(w) + (a - h), 0.0) / b)

    high = np.minimum(v0, to_v(gamma_window_above(a, np.log(np.full_like(v0, h / a)))))
    low = np.maximum(to_v(gamma_window_below(a, np.log(x0 / a))), np.minimum(high, 0.0) - DROP)
    reach = -np.expm1(-DROP / q) * x0 / h
    saturation = v0 + np.log1p(-np.minimum(reach, 1.0 - 1e-9))
    v, weight = log_panels((low, saturation, high), _PANEL_NODES)
    over = b * np.exp(v)
    excess = -q * np.log1p(h * np.expm1(np.minimum(v - v0[:, None], 0.0)) / (h + over))
    # Density of x times dx/dv = x - h.
    density = log_gamma_density_near(a, (b * np.expm1(v) + offset) / a, (h + over) / a)
    mass = weight * np.exp(density) * over / (h + over)
    out[some] = floor + np.sum(mass * -np.expm1(-excess), axis=-1)
    return out


class _Corner:
    r"""W_2(I, m) + h E against W_2(I, m) - h E, E exchanging the axes: the replace corner.

    That is H(s, s; epsilon) of docs/theory/wishart.md, "The corner".
    A rotation by 45 degrees takes W + s E_11 against W + s E_22, h = s / 2, to this pair.
    With c = 2 sqrt(W_11 W_22) and rho the correlation, independent of c, twice the
    off-diagonal is c rho + s against c rho - s while the diagonal is untouched. At x = c/2
    and sigma = h / x < 1, the loss at correlation rho is

    .. math:: q \ln \frac{1 - \rho^2}{1 - (\rho + 2\sigma)^2}, \qquad q = (m - 3) / 2,

    and infinite from rho = 1 - 2 sigma on.
    """

    @quiet
    def __init__(self, m: float, h: float) -> None:
        self.h, self.q = h, (m - 3.0) / 2.0
        # x has density x^(A-1) e^-x k(x), k slowly varying.
        self.A = m - 0.5
        self.log_norm = math.log(
            math.sqrt(2.0) * gamma_half_ratio(m / 2.0) / gamma_half_ratio(self.A)
        )
        self.beta = (m - 1.0) / 2.0
        self.rho_norm = gamma_half_ratio(self.beta) / math.sqrt(math.pi)
        self.b = max(self.A - h, 1.0)
        self.offset = max(h + 1.0 - self.A, 0.0)
        start = np.log(np.array([h / self.A]))
        high = np.minimum(start, gamma_window_above(self.A, np.zeros(1)))
        w, weight = log_nodes(gamma_window_below(self.A, start), high, _PANEL_NODES)
        x = self.A * np.exp(w)
        mass = weight * np.exp(log_gamma_density(self.A, w) + self._log_slow(x))
        self.floor = float(np.sum(mass))
        # Where x - h = b e^v may matter at all, for any epsilon.
        high = self._to_v(gamma_window_above(self.A, start))
        low = np.maximum(
            self._to_v(gamma_window_below(self.A, np.zeros(1), 760.0)),
            min(float(high[0]), 0.0, math.log(h / self.b)) - DROP,
        )
        self.scan = np.linspace(low[0], high[0], _SCAN)

    def _to_v(self, w: Array) -> Array:
        over = self.A * np.expm1(w) + (self.A - self.h)
        return np.log(np.maximum(over, 0.0) / self.b)

    def _log_slow(self, x: Array) -> Array:
        slow: Array = np.log(special.k0e(x) * np.sqrt(2.0 / np.pi * x))
        return self.log_norm + slow

    def _log_mass(self, v: Array) -> tuple[Array, Array, Array]:
        """Give x - h, x and the log-density of v."""
        over = self.b * np.exp(v)
        x = self.h + over
        centred = (self.b * np.expm1(v) + self.offset) / self.A
        density = log_gamma_density_near(self.A, centred, x / self.A)
        return over, x, density + self._log_slow(x) + np.log(over / x)

    def _threshold(self, epsilon: Array, over: Array, x: Array) -> tuple[Array, ...]:
        """Give sigma, rho0 + sigma, and eta0 = 1 - 2 sigma - rho0, at loss epsilon."""
        sigma = self.h / x
        co_sigma = over / x
        y = np.where(epsilon > 0.0, epsilon / self.q, 0.0)
        T = np.tanh(0.5 * y)
        co_T = 2.0 / (np.exp(y) + 1.0)
        g = co_sigma * (1.0 + sigma)
        root = np.sqrt(sigma * sigma + g * T * T)
        middle = g * T / (sigma + root)
        eta0 = 2.0 * sigma * co_sigma * co_T / (co_sigma * T + sigma + root)
        return sigma, middle, np.maximum(eta0, TINY)

    @quiet
    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile of the pair for epsilon >= 0."""
        parts = [
            self._chunk(epsilon[i : i + _EPSILONS_AT_ONCE])
            for i in range(0, epsilon.size, _EPSILONS_AT_ONCE)
        ]
        return np.concatenate(parts)

    def _chunk(self, epsilon: Array) -> Array:
        eps = epsilon[:, None]
        over, x, log_mass = self._log_mass(self.scan)
        sigma, middle, eta0 = self._threshold(eps, over, x)
        rho = np.maximum(middle - sigma, 0.0)
        low_sigma = np.minimum(sigma, 0.5)
        size = np.maximum(
            self.q * np.log(np.maximum(1.0 - rho * rho, TINY)) + np.log(np.minimum(eta0, 1.0)),
            self.beta * np.log(4.0 * low_sigma * (1.0 - low_sigma)),
        )
        size = size + log_mass
        keep = size > np.max(size, axis=-1, keepdims=True) - (DROP + 6.0)
        last = self.scan.size - 1
        first = np.maximum(np.argmax(keep, axis=-1) - 1, 0)
        final = np.minimum(last - np.argmax(keep[:, ::-1], axis=-1) + 1, last)
        v, weight = log_nodes(self.scan[first], self.scan[final], _OUTER)
        over, x, log_mass = self._log_mass(v)
        mass = weight * np.exp(log_mass)
        inside: Array = np.sum(mass * self._conditional(eps, over, x), axis=-1)
        return self.floor + inside

    def _conditional(self, epsilon: Array, over: Array, x: Array) -> Array:
        q = self.q
        sigma, middle, eta0 = self._threshold(epsilon, over, x)
        rho0 = middle - sigma
        # rho = rho0 + eta0 (1 - e^-t): exact near rho0, and near the other end the power
        # (1 - 2 sigma - rho)^q is one of e^-t.
        spread = 1.0 if q == 0.0 else -math.expm1(-DROP / q)

        def to_t(rho: Array) -> Array:
            return -np.log1p(-np.clip((rho - rho0) / eta0, 0.0, 1.0))

        top = np.maximum(rho0, 0.0)
        low = np.minimum(to_t(np.full_like(rho0, -math.sqrt(spread))), 600.0)
        high = to_t(np.sqrt(top * top + (1.0 - top * top) * spread))
        end0 = eta0 * (1.0 + rho0 + 2.0 * sigma)  # 1 - (rho0 + 2 sigma)^2
        start0 = (eta0 + 2.0 * sigma) * (1.0 + rho0)  # 1 - rho0^2
        # The excess is saturated here at the latest: a panel of its own for what is steeper.
        slope = 4.0 * sigma * (end0 + 2.0 * middle * (rho0 + 2.0 * sigma)) / (end0 * start0)
        steep = math.expm1(min(DROP / q, 700.0)) if q > 0.0 else math.inf
        saturation = to_t(rho0 + np.fmin(steep / slope, eta0))
        minus_t, weight = log_panels((-high, -np.minimum(saturation, 600.0), -low), _INNER)
        sigma_, rho0_, eta0_, middle_ = (z[..., None] for z in (sigma, rho0, eta0, middle))
        decay = np.exp(minus_t)
        rise = -eta0_ * np.expm1(minus_t)
        rho = rho0_ + rise
        end = eta0_ * decay * (1.0 + rho + 2.0 * sigma_)
        gain = 4.0 * sigma_ * rise * (end0[..., None] + middle_ * (rho + rho0_ + 4.0 * sigma_))
        excess = q * np.log1p(np.minimum(gain / np.maximum(end * start0[..., None], TINY), 1e300))
        # ln(1 - rho^2), with 1 - rho kept exact near the end.
        log_start = np.where(
            rho < 0.5,
            np.log1p(-np.minimum(rho * rho, 1.0 - 1e-16)),
            np.log((eta0_ * decay + 2.0 * sigma_) * (1.0 + rho)),
        )
        density = self.rho_norm * np.exp(q * log_start) * eta0_ * decay
        beyond: Array = special.betainc(self.beta, self.beta, sigma)
        inside: Array = np.sum(weight * density * -np.expm1(-excess), axis=-1)
        return beyond + inside


@dataclass(frozen=True)
class WishartProfile(Profile):
    r"""Privacy profile of additive Wishart noise W_d(sigma^2 I, k).

    Parameters
    ----------
    dof : float
        Degrees of freedom k >= d + 1 of the noise, an integer or not.
    n_columns : int
        Columns d >= 1.
    ratio : float
        s = B^2 / sigma^2 > 0.
    adjacency : {"replace", "add-remove"}
        Notion of neighbours. With one column the two are the same.

    Notes
    -----
    Delta falls to :math:`P[\chi^2_{k-d+1} < s]` as epsilon grows and no further: an output
    may lie where only one of the two data sets can put it.

    References
    ----------
    Sheffet, arXiv:1507.00056, Algorithm 3; docs/theory/wishart.md, Theorems 1 and 7.
    """

    _proof_status = "exact"

    dof: float
    n_columns: int
    ratio: float
    adjacency: Adjacency = "replace"

    def __post_init__(self) -> None:
        check_wishart(self.dof, self.n_columns, self.ratio, self.adjacency)

    @property
    def _dots(self) -> int:  # type: ignore[override]
        # A delta of the corner takes milliseconds; the excess in delta is below 1 / 500.
        return 400 if self._has_corner else Profile._dots

    @property
    def _has_corner(self) -> bool:
        return self.adjacency == "replace" and self.n_columns > 1

    @property
    def _shape(self) -> float:
        return (self.dof - self.n_columns + 1) / 2.0

    def _pairs(self) -> tuple[Curve, ...]:
        a, h = self._shape, self.ratio / 2.0
        return (
            lambda epsilon: with_against_without(epsilon, a, h),
            lambda epsilon: without_against_with(epsilon, a, h),
        )

    def _directions(self) -> tuple[Curve, ...]:
        return self._pairs() if self.adjacency == "add-remove" else (self._curve,)

    def _delta(self, epsilon: Array) -> Array:
        out = np.maximum(*(curve(epsilon) for curve in self._pairs()))
        if self._has_corner:
            corner = _Corner(2.0 * self._shape + 1.0, self.ratio / 2.0)
            out = np.maximum(out, corner.delta(epsilon))
        return np.maximum(out, TINY)

    def _floor(self) -> float:
        a, h = self._shape, self.ratio / 2.0
        return max(float(special.gammainc(a, h)), TINY)


#: Of additive Wishart noise over that of Gaussian noise, see `wishart_noise`.
_EXCESS = 0.01


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
