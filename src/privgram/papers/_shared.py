"""What several papers rest on: domains of statements, budgets, and curves of centred Gaussians."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from privgram._base.numbers import (
    bisect_boundary,
    check_adjacency,
    check_budget,
    check_positive,
    largest_safe,
)
from privgram.papers._gamma import (
    gamma_window_above,
    gamma_window_below,
    log1pmx,
    log_gamma_density,
    log_gamma_density_near,
    log_panels,
)
from privgram.privacy import Profile
from privgram.privacy._numerics import DROP, TINY, Array, quiet
from privgram.privacy.calibration import checked_budget, checked_parameter, gaussian_ratio
from privgram.privacy.profiles import check_parameter, gaussian_delta

if TYPE_CHECKING:
    from privgram.exact.int128 import Int128


class PublishedErratumError(ValueError):
    """A published constant was asked for where it is not private as printed."""

    @property
    def flaw(self) -> str:
        """What is wrong with the constant, without what to do instead."""
        return str(self.args[0])

    def __str__(self) -> str:
        return (
            f"{self.flaw} Use the exact calibration, or pass allow_published_erratum=True to "
            "reproduce the paper"
        )


def check_count(value: float, name: str) -> None:
    """Raise ValueError unless `value` is a finite number, 1 or more."""
    check_parameter(value, name)
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value!r}")


def log_ratio(
    numerator: float,
    epsilon: float,
    delta: float,
    delta_below: float,
    *,
    epsilon_below: float = math.inf,
) -> float:
    """Return ln(numerator/delta), having checked epsilon and delta."""
    check_budget(epsilon, delta)
    if not epsilon < epsilon_below:
        raise ValueError(f"the theorem is for epsilon in (0, {epsilon_below:g}), not {epsilon}")
    if not delta < delta_below:
        raise ValueError(f"the theorem is for delta in (0, {delta_below:.4g}), not {delta}")
    return math.log(numerator / delta)


def rows_factor(adjacency: str) -> float:
    """Frobenius distance of two rank-one terms over that of one: sqrt(2) under replace."""
    return math.sqrt(2) if check_adjacency(adjacency) == "replace" else 1.0


def second_moment_sensitivity(bound: float, adjacency: str) -> float:
    """Frobenius sensitivity of the second moment, from two columns on."""
    return rows_factor(adjacency) * check_positive(bound, "bound") ** 2


def require_private(
    profile: Profile, epsilon: float, delta: float, erratum: str, allowed: bool
) -> None:
    """Raise unless what has this profile is (epsilon, delta)-private, or an erratum is allowed."""
    if not allowed and (achieved := profile.delta(epsilon)) > delta:
        raise PublishedErratumError(
            f"{erratum}. At epsilon = {epsilon:g} the printed noise gives delta = "
            f"{achieved:.2g}, not {delta:.2g}."
        )


# Curves of pairs of centred Gaussians of different variance, on which several papers rest.
#
# Of r independent coordinates each, with lam > 0:
#
# - N(0, 1 + lam)^r against N(0, 1)^r, in both orders: one row more in a sketch, Theorem 1 of
#   docs/theory/sheffet.md;
# - N(0, diag(1 + lam, 1 / (1 + lam)))^r against N(0, I_2)^r: one row replaced, Theorem 2 there. Its
#   privacy loss is a Gaussian mixture, N(+-mu^2/2, mu^2) with mu = kappa S, S ~ chi_r,
#   kappa = lam / sqrt(1 + lam). A range finder of r columns is that same mixture, kappa being the
#   change of a row over the standard deviation of the noise.

#: Nodes of a panel, and epsilons at once.
_NODES, _CHUNK = 64, 128


def mixture_ratio(ratio: Array) -> Array:
    """Give kappa = lam / sqrt(1 + lam)."""
    return ratio / np.sqrt(1.0 + ratio)


@quiet
def wide_against_narrow(epsilon: Array, rows: float, ratio: Array) -> Array:
    r"""Profile of N(0, 1 + lam)^r against N(0, 1)^r, for any real epsilon.

    With x ~ Gamma(a), a = r/2, the loss is :math:`\lambda x - a \ln(1 + \lambda)`.
    `epsilon` and `ratio` broadcast to one dimension.
    """
    epsilon, lam = np.broadcast_arrays(epsilon, ratio)
    a = rows / 2.0
    # The loss exceeds epsilon above x0 = a e^w0.
    centred = (epsilon / a + log1pmx(lam)) / lam
    level = epsilon / a + np.log1p(lam)
    w0 = np.where(centred > -0.5, np.log1p(np.maximum(centred, -0.5)), np.log(level / lam))
    everything = level <= 0.0
    w0 = np.where(everything, 0.0, w0)
    x0 = a * np.exp(w0)
    low = np.maximum(w0, gamma_window_below(a, np.zeros_like(w0)))
    saturation = w0 + np.log1p(DROP / (lam * x0))
    w, weight = log_panels((low, saturation, gamma_window_above(a, w0)), _NODES)
    excess = (lam * x0)[:, None] * np.expm1(w - w0[:, None])
    mass = weight * np.exp(log_gamma_density(a, w))
    delta = np.sum(mass * -np.expm1(-excess), axis=-1)
    return np.where(everything, -np.expm1(epsilon), delta)


@quiet
def narrow_against_wide(epsilon: Array, rows: float, ratio: Array) -> Array:
    r"""Profile of N(0, 1)^r against N(0, 1 + lam)^r, for any real epsilon.

    With x ~ Gamma(a), a = r/2, the loss is :math:`a \ln(1 + \lambda) - \nu x`,
    :math:`\nu = \lambda / (1 + \lambda)`. `epsilon` and `ratio` broadcast to one dimension.
    """
    epsilon, lam = np.broadcast_arrays(epsilon, ratio)
    a = rows / 2.0
    nu = lam / (1.0 + lam)
    # The loss exceeds epsilon below x0 = a e^w0.
    rest = np.where(lam < 1.0, -log1pmx(-nu), np.log1p(lam) - nu)
    centred = (rest - epsilon / a) / nu
    level = np.log1p(lam) - epsilon / a
    w0 = np.where(centred > -0.5, np.log1p(np.maximum(centred, -0.5)), np.log(level / nu))
    nothing = level <= 0.0
    w0 = np.where(nothing, 0.0, w0)
    x0 = a * np.exp(w0)
    high = np.minimum(w0, gamma_window_above(a, np.zeros_like(w0)))
    saturation = w0 + np.log1p(-np.minimum(DROP / (nu * x0), 1.0 - 1e-9))
    w, weight = log_panels((gamma_window_below(a, w0), saturation, high), _NODES)
    excess = -(nu * x0)[:, None] * np.expm1(w - w0[:, None])
    mass = weight * np.exp(log_gamma_density(a, w))
    delta = np.sum(mass * -np.expm1(-excess), axis=-1)
    return np.where(nothing, 0.0, delta)


@lru_cache(maxsize=32)
def chi_rule(k: float, above: float = 40.0, refine: int = 1) -> tuple[Array, Array]:
    """Nodes and weights for an expectation over S ~ chi_k, k >= 1.

    A trapezoidal rule, which converges geometrically for what is analytic and vanishes at
    both ends. It reaches sqrt(k) + `above`, where at 40 even a delta of 1e-300 comes from, and
    down until the density has fallen by exp(-`DROP`). `refine` divides its steps.
    """
    a, root, step = 0.5 * k, math.sqrt(k), 1.0 / (16.0 * refine)
    s: Array
    if k > 1e4:
        # S is within 7 of root, or above: an even step of 1/4 will do.
        offset = np.arange(-28.0 * refine, 4.0 * above * refine) / (4.0 * refine)
        s = root + offset
        slope = np.full_like(s, 4.0)
        centred = offset * (2.0 * root + offset) / k
        scaled = centred + 1.0
    else:
        # S = 4 ln(1 + e^t): a step is never more than 1/4 in S, nor 1/16 in ln S.
        least = math.sqrt(k * math.exp(gamma_window_below(a, np.zeros(1))[0]))
        first, last = (math.log(math.expm1(x / 4.0)) / step for x in (least, root + above))
        t = step * np.arange(math.floor(first), math.ceil(last) + 1.0)
        s = 4.0 * np.logaddexp(0.0, t)
        slope = 4.0 * special.expit(t)
        scaled = s * s / k
        centred = scaled - 1.0
    weight: Array = 2.0 * step * slope / s * np.exp(log_gamma_density_near(a, centred, scaled))
    s.flags.writeable = weight.flags.writeable = False
    return s, weight


def steepness(epsilon: Array, kappa: Array) -> Array:
    """How many times too long the steps of `chi_rule` are: it is made for at most 1.

    The Gaussian profile rises within 1 / kappa around S = sqrt(2 epsilon) / kappa. From an epsilon
    of about 60 on that may be too steep.
    """
    step = 0.25 * -np.expm1(-np.sqrt(2.0 * epsilon) / (4.0 * kappa))
    return np.asarray(kappa * step / 0.7)


def chi_gaussian_delta(epsilon: Array, k: float, kappa: Array, offset: float = 0.0) -> Array:
    """E of the Gaussian profile at mu^2 = (kappa S)^2 + offset^2, S ~ chi_k, for epsilon >= 0.

    `epsilon` and `kappa` broadcast to one dimension.
    """
    epsilon, kappa = np.broadcast_arrays(epsilon, kappa)
    out = np.empty(epsilon.shape)
    times = steepness(epsilon, kappa)
    steep, refine = times > 1.0, 1
    if steep.any() and offset:
        refine = math.ceil(np.max(times))
        steep[:] = False
    elif steep.any():
        out[steep] = _by_parts(epsilon[steep], k, kappa[steep])
    s, weight = chi_rule(k, refine=refine)
    chunk = max(1, _CHUNK // refine)
    rest = np.flatnonzero(~steep)
    for i in range(0, rest.size, chunk):
        part = rest[i : i + chunk]
        mu = kappa[part, None] * s
        delta = gaussian_delta(epsilon[part, None], np.hypot(mu, offset) if offset else mu)
        # Not a BLAS product, whose rounding depends on how many epsilons there are.
        out[part] = np.sum(delta * weight, axis=-1)
    return out


def _by_parts(epsilon: Array, k: float, kappa: Array) -> Array:
    """Do the same by conditioning on the narrow of the replace pair's two coordinates."""
    lam = 0.5 * kappa * (kappa + np.sqrt(kappa * kappa + 4.0))  # kappa = lam / sqrt(1 + lam)
    a, centre = k / 2.0, np.zeros(1)
    edges = (gamma_window_below(a, centre, 760.0), centre, gamma_window_above(a, centre))
    w, weight = log_panels(edges, 2 * _NODES)
    mass = weight[0] * np.exp(log_gamma_density(a, w[0]))
    # Its loss under the first law, a (ln(1 + lam) - nu e^w).
    nu = lam / (1.0 + lam)
    loss = a * (np.log1p(lam)[:, None] - nu[:, None] * np.exp(w[0]))
    rest = wide_against_narrow((epsilon[:, None] - loss).ravel(), k, np.repeat(lam, mass.size))
    out: Array = np.sum(rest.reshape(loss.shape) * mass, axis=-1)
    return out


@quiet
def wide_and_narrow(epsilon: Array, rows: float, wide: Array, narrow: Array) -> Array:
    r"""Profile of N(0, diag(1 + wide, 1 / (1 + narrow)))^r against N(0, I_2)^r.

    For any real epsilon, missing at most 1e-40; all broadcast. A mixture of Gaussians, by
    Theorem A2 of docs/theory/sheffet.md: given S ~ chi_r the loss is

    .. math:: N(\pm\mu^2/2, \mu^2) + \tfrac12 (t - 1) S^2 - \tfrac r2 \ln t, \qquad
       t = \frac{1 + \text{wide}}{1 + \text{narrow}}, \quad
       \mu^2 = \frac{\text{wide} \cdot \text{narrow}}{1 + \text{narrow}} S^2 .
    """
    epsilon, wide, narrow = np.broadcast_arrays(epsilon, wide, narrow)
    nu = narrow / (1.0 + narrow)
    kappa, grown = np.sqrt(wide * nu), (wide - narrow) / (1.0 + narrow)
    excess = 0.5 * rows * (wide - nu - np.log1p(grown)) - epsilon
    # There the loss exceeds epsilon by 21 but for a chance of 2 e^-20: tails of the chi-squared
    # law by Laurent and Massart, Ann. Statist. 28, 2000, Lemma 1.
    sure = excess > 21.0 + (wide + nu) * math.sqrt(20.0 * rows) + 20.0 * nu
    out = np.where(sure, 1.0, 0.0)
    # As in chi_gaussian_delta: the rule is refined where too steep about the S of loss epsilon.
    level = np.maximum(epsilon + 0.5 * rows * np.log1p(grown), 0.0)
    step = 0.25 * -np.expm1(-0.25 * np.sqrt(2.0 * level / np.maximum(kappa**2 + grown, TINY)))
    refine = np.ceil(np.fmin(step, 0.25) * (kappa + np.abs(grown) / np.maximum(kappa, TINY)) / 0.7)
    # Of the loss what goes with S; log1pmx keeps what is left of it where rows are many.
    constant = 0.5 * rows * log1pmx(grown)
    for some, most in ((refine <= 1.0, 1), (refine > 1.0, int(np.max(refine[~sure], initial=1)))):
        places = np.flatnonzero(some & ~sure)
        s, weight = chi_rule(rows, 14.2, refine=most)
        square, chunk = 0.5 * (s * s - rows), max(1, _CHUNK // most)
        for i in range(0, places.size, chunk):
            part = places[i : i + chunk, None]
            left = epsilon[part] - grown[part] * square + constant[part]
            size = np.abs(left)
            delta = gaussian_delta(size, kappa[part] * s)
            delta = np.where(left < 0.0, -np.expm1(-size) + np.exp(-size) * delta, delta)
            out[part[:, 0]] = np.sum(delta * weight, axis=-1)
    return out


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
    return checked_parameter(largest_safe(lambda x: profile(x).delta(epsilon), delta, guess))


def largest_count(good: Callable[[int], bool], guess: int, least: int) -> int:
    """Largest good integer >= `least`, which is taken to be good; tries `guess` first."""
    inside = max(guess, least)
    if inside > least and not good(inside):
        inside, outside = inside - 1, inside
        while inside > least and not good(inside):
            inside, outside = max(least, 2 * inside - outside - 1), inside
    else:
        outside = inside + 1
        while good(outside):
            inside, outside = outside, 2 * outside - inside + 1
    return bisect_boundary(good, inside, outside)


def from_float(values: Array) -> Int128:
    """Round floats to the nearest integers, as 128-bit integers.

    ValueError if one does not fit: the noise is larger than any data could need.
    """
    rounded = np.rint(values)
    magnitude = np.abs(rounded)
    if not np.all(magnitude < 2.0**126):
        raise ValueError(
            "the noise exceeds 2**126 units of the exact second moment; "
            "the privacy parameters are too small for any useful release"
        )
    # Split the magnitude, where every step is exact in float64, then negate.
    high = np.floor(magnitude / 2.0**64)
    low = (magnitude - high * 2.0**64).astype(np.uint64)
    high = high.astype(np.int64)
    negative = rounded < 0
    high = np.where(negative, ~high + (low == 0), high)
    low = np.where(negative, -low, low)
    return high, low
