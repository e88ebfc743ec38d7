"""What every privacy profile can do, and the profiles of noise on a sum or a choice."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from privgram._base.installed import LazyModule, extra
from privgram._base.numbers import (
    Adjacency,
    check_adjacency,
    check_number,
    check_positive,
    least_safe,
)
from privgram._base.saved import Registry
from privgram.privacy._numerics import (
    TINY,
    Array,
    Curve,
    connect_the_dots,
    gauss_legendre,
    quiet,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from privgram.plots import of_results
else:
    of_results = LazyModule("privgram.plots.of_results")


def check_known_adjacency(adjacency: str | None) -> None:
    """Raise ValueError unless `adjacency` is one of the two notions, or None: not said."""
    if adjacency is not None:
        check_adjacency(adjacency)


#: How well a claim of privacy is founded, the best first; see `Profile.proof_status`.
ProofStatus = Literal["exact", "upper bound", "stated", "none"]


def weakest(statuses: Iterable[ProofStatus]) -> ProofStatus:
    """The last of some in the order of `ProofStatus`: that of all together."""
    return max(statuses, key=get_args(ProofStatus).index)


def check_parameter(value: Any, name: str) -> None:
    """Raise unless `value`, which is kept as given, is a positive finite number arrays can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    check_positive(value, name)
    if isinstance(value, int) and value >= 1 << 63:
        raise ValueError(f"{name} is too large an integer")


class Profile(Registry, ABC, key="profile", what="privacy profile"):
    r"""Privacy profile of a mechanism: the least delta for every epsilon.

    .. math::

        \delta(\epsilon) = \sup_{(P, Q)} \sup_S P(S) - e^\epsilon Q(S),

    over the ordered pairs (P, Q) of output distributions on neighbouring data sets. The constructor
    of each kind refuses parameters outside their ranges with a ValueError.
    """

    #: Deltas evaluated for a privacy loss distribution; fewer where one takes long.
    _dots: ClassVar[int] = 1 << 12

    _proof_status: ClassVar[ProofStatus] = "stated"

    @property
    def proof_status(self) -> ProofStatus:
        """How well this profile is founded: "exact", "upper bound" or "stated".

        "exact": docs/theory proves that the mechanism has this delta at every epsilon, and that
        some pair of tables attains it. "upper bound": it proves that delta is at most this.
        "stated": somebody says so, of one epsilon, and no proof of ours confirms it.
        docs/security.md lists every object. ("none", of results alone: nothing is claimed.)
        """
        return self._proof_status

    def _directions(self) -> tuple[Curve, ...]:
        """Give the curves of the single ordered pairs, for any real epsilon.

        Two curves are of the table with the row against the one without, and of the reverse,
        in that order for every profile: releases of one table compose order by order. One
        curve serves both orders, as a bound on either.
        """
        return (self._curve,)

    @property
    def _parts(self) -> tuple[Profile, ...]:
        """The profiles that this one is made of, by which it composes; itself alone."""
        return (self,)

    @classmethod
    def _joined(cls, profiles: list[Profile]) -> list[Profile]:
        """Join those of this kind, with each other or with Gaussian ones, that are exactly one."""
        return profiles

    def _quick(self) -> Profile:
        """A profile of no larger delta at any epsilon, for where this one takes seconds."""
        return self

    @abstractmethod
    def _delta(self, epsilon: Array) -> Array:
        """Evaluate the profile for finite epsilon >= 0, a 1-D array."""

    def _floor(self) -> float:
        """Limit of delta as epsilon grows."""
        return 0.0

    def _curve(self, epsilon: Array) -> Array:
        """Evaluate the profile for any real epsilon, a 1-D array."""
        size = np.abs(epsilon)
        out = np.full(epsilon.shape, self._floor())
        finite = np.isfinite(size)
        if finite.any():
            out[finite] = self._delta(size[finite])
        # Complements exchange the pair: P(S) - e^-t Q(S) = 1 - e^-t (1 - (Q(S') - e^t P(S'))).
        return np.where(epsilon < 0.0, -np.expm1(-size) + np.exp(-size) * out, out)

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: ArrayLike) -> Any: ...
    def delta(self, epsilon: ArrayLike) -> Any:
        r"""Least delta for which the mechanism is (epsilon, delta)-differentially private.

        Parameters
        ----------
        epsilon : float or array_like of float
            Any real number. Below 0 the definition still holds, and
            :math:`\delta(-\epsilon) = 1 - e^{-\epsilon} (1 - \delta(\epsilon))`.

        Returns
        -------
        float or ndarray of float64
            Same shape as `epsilon`. Relative accuracy 1e-9; a positive delta too small for
            a float is rounded up to the smallest normal one, 2.2e-308. An array is made
            non-increasing in epsilon to the last bit, by rounding up.

        Raises
        ------
        ValueError
            If an epsilon is NaN.
        """
        eps = np.asarray(epsilon, dtype=np.float64)
        if np.isnan(eps).any():
            raise ValueError("epsilon must not be NaN")
        flat, where = np.unique(eps, return_inverse=True)
        out = np.clip(self._curve(flat), 0.0, 1.0)
        if np.isnan(out).any():
            raise ArithmeticError(f"{self!r} has no value at some epsilon: please report this")
        # Rounding errors may break monotonicity in the last bits: round up to the value
        # at the next larger epsilon, which bounds the truth at this one from below.
        out = np.maximum.accumulate(out[::-1])[::-1][where].reshape(eps.shape)
        return float(out) if np.ndim(epsilon) == 0 else out

    @overload
    def epsilon(self, delta: float) -> float: ...
    @overload
    def epsilon(self, delta: ArrayLike) -> Any: ...
    def epsilon(self, delta: ArrayLike) -> Any:
        """Least epsilon >= 0 for which the mechanism is (epsilon, delta)-differentially private.

        Parameters
        ----------
        delta : float or array_like of float
            In [0, 1].

        Returns
        -------
        float or ndarray of float64
            Same shape as `delta`. On the safe side: ``profile.delta(profile.epsilon(delta))
            <= delta``. `inf` where no epsilon reaches `delta`.

        Raises
        ------
        ValueError
            If a delta is NaN or outside [0, 1].
        """
        d = np.asarray(delta, dtype=np.float64)
        if not ((d >= 0.0) & (d <= 1.0)).all():
            raise ValueError("delta must lie in [0, 1]")
        out = np.array([self._epsilon(float(t)) for t in d.ravel()]).reshape(d.shape)
        return float(out) if np.ndim(delta) == 0 else out

    def _epsilon(self, target: float) -> float:
        if self.delta(0.0) <= target:
            return 0.0
        if target < TINY or self._floor() >= target:
            return math.inf
        return least_safe(self.delta, target, 1.0)

    plot = of_results.plot_profile

    def pld(self, discretization: float = 1e-4) -> Any:
        """Pessimistic privacy loss distribution, for accounting with dp_accounting.

        Parameters
        ----------
        discretization : float
            Step of the grid of privacy losses, positive.

        Returns
        -------
        dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
            Dominates the mechanism: deltas read from it, or from its compositions, are
            never below the truth.

        Raises
        ------
        ImportError
            Without the extra: ``pip install "privgram[accounting]"``.
        """
        return pld_from_profile(self, discretization)


def pld_from_profile(
    profile: Profile, discretization: float = 1e-4, symmetric: bool = False
) -> Any:
    """Return a profile's pessimistic privacy loss distribution of dp_accounting.

    Both directions of the neighbouring relation go in, as dp_accounting's "remove" (the table with
    the row against the one without) and "add". Where it is not known which table has the row, the
    worse has to stand for both. Distributions compose only with others of the same step.

    At most 4096 deltas are evaluated in each direction, or as many as the profile says is worth the
    time. Where the loss is spread over more steps than that, only every second, third, ... point of
    the grid is used. The relative excess in delta is about (49 / dots)^2 / 8 far out in the tails,
    and more where losses are in the hundreds.

    Parameters
    ----------
    profile : Profile
        Of any mechanism.
    discretization : float
        Step of the grid of privacy losses, positive.
    symmetric : bool
        Whether the worse direction stands for both.
    """
    with extra("accounting", "privacy loss distributions need"):
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    step = check_positive(discretization, "discretization")
    directions = (profile._curve,) if symmetric else profile._directions()
    forward, backward = (directions * 2)[:2]  # one curve serves both orders of the pair
    made = PrivacyLossDistribution.create_from_rounded_probability
    masses = connect_the_dots(forward, backward, step, profile._dots)
    if len(directions) == 1:
        return made(*masses, step)
    add, infinity_add = connect_the_dots(backward, forward, step, profile._dots)
    return made(
        *masses,
        step,
        rounded_probability_mass_function_add=add,
        infinity_mass_add=infinity_add,
        symmetric=False,
    )


# Gaussian noise. Every Gaussian mechanism with L2 sensitivity Delta and noise of standard deviation
# sigma is at most N(0, 1) against N(mu, 1) with mu = Delta / sigma, and attains it [1].
#
# [1] B. Balle and Y.-X. Wang, "Improving the Gaussian Mechanism for Differential Privacy:
#    Analytical Calibration and Optimal Denoising", ICML 2018, Theorem 8.

_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def _mills(x: Array) -> Array:
    """Mills' ratio Phi(-x) / phi(x)."""
    return np.asarray(_SQRT_HALF_PI * special.erfcx(x * _SQRT_HALF))


@quiet
def gaussian_delta(epsilon: Array, mu: Array) -> Array:
    r"""Profile of N(0, 1) against N(mu, 1), epsilon >= 0 and mu >= 0 broadcast together.

    With a, b = epsilon/mu -+ mu/2 and M Mills' ratio,
    :math:`\delta = \Phi(-a) - e^\epsilon \Phi(-b) = \phi(a) (M(a) - M(b))`, and
    :math:`M(a) - M(b) = \int_a^b (1 - x M(x)) dx` where that difference would cancel.
    """
    middle = np.where(epsilon > 0.0, epsilon / mu, 0.0)
    half = np.broadcast_to(0.5 * mu, middle.shape)
    a = middle - half
    out = np.zeros(a.shape)
    # Where phi(a) is not 0.
    large = (a < 39.0) & (half >= 0.01)
    small = (a < 39.0) & (half < 0.01)
    if large.any():
        low, high = a[large], middle[large] + half[large]
        density = np.exp(-0.5 * low * low - _LOG_SQRT_2PI)
        first = np.where(low > 0.0, density * _mills(np.maximum(low, 0.0)), special.ndtr(-low))
        out[large] = first - density * _mills(high)
    if small.any():
        low = a[small]
        # b - a is mu, but not in floats.
        t, weight = gauss_legendre(np.zeros_like(low), 2.0 * half[small], 3)
        x = low[:, None] + t
        out[small] = np.exp(-0.5 * low * low - _LOG_SQRT_2PI) * np.sum(
            weight * (1.0 - x * _mills(x)), axis=-1
        )
    return out


@dataclass(frozen=True)
class GaussianProfile(Profile):
    r"""Privacy profile of the Gaussian mechanism.

    .. math::

        \delta(\epsilon) = \Phi(\mu/2 - \epsilon/\mu) - e^\epsilon \Phi(-\mu/2 - \epsilon/\mu)

    Parameters
    ----------
    sensitivity_ratio : float
        mu = Delta / sigma > 0: L2 sensitivity over the standard deviation of the noise.
    adjacency : {"replace", "add-remove"}, optional
        Notion of neighbours that the ratio is for, which `compose` holds against the others'.
        By default it is not said, and composes with either: for a table of one column, where
        the two notions are one, and for neighbours of another kind.

    References
    ----------
    Balle and Wang, ICML 2018, Theorem 8.

    Examples
    --------
    >>> profile = GaussianProfile(1.0)
    >>> round(profile.delta(1.0), 10)
    0.126936738
    """

    _proof_status = "exact"

    sensitivity_ratio: float
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        check_parameter(self.sensitivity_ratio, "sensitivity_ratio")
        check_known_adjacency(self.adjacency)

    def _delta(self, epsilon: Array) -> Array:
        return np.maximum(gaussian_delta(epsilon, np.asarray(self.sensitivity_ratio)), TINY)


@dataclass(frozen=True)
class LaplaceProfile(Profile):
    r"""Privacy profile of the Laplace mechanism.

    .. math:: \delta(\epsilon) = 1 - e^{(\epsilon - \rho) / 2}, \quad 0 \le \epsilon \le \rho

    and 0 beyond: Theorem 1 of docs/theory/matrix-laplace.md, of one column.

    Parameters
    ----------
    sensitivity_ratio : float
        rho = Delta / b > 0: L1 sensitivity over the scale of the noise.
    adjacency : {"replace", "add-remove"}, optional
        As of `GaussianProfile`.
    """

    _proof_status = "exact"

    sensitivity_ratio: float
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        check_parameter(self.sensitivity_ratio, "sensitivity_ratio")
        check_known_adjacency(self.adjacency)

    def _delta(self, epsilon: Array) -> Array:
        return np.maximum(-np.expm1((epsilon - self.sensitivity_ratio) / 2.0), 0.0)

    def _epsilon(self, target: float) -> float:
        if target == 1.0:
            return 0.0
        epsilon = max(self.sensitivity_ratio + 2.0 * math.log1p(-target), 0.0)
        while self.delta(epsilon) > target:
            epsilon = math.nextafter(epsilon, math.inf)
        return epsilon


@dataclass(frozen=True)
class BoundedRangeProfile(Profile):
    r"""Privacy profile of a choice whose privacy losses lie within `at_epsilon` of one another.

    .. math::

        \delta(t) = \frac{(1 - e^{(t - \epsilon) / 2})^2}{1 - e^{-\epsilon}},
        \quad 0 \le t \le \epsilon

    and 0 beyond: pure differential privacy at `at_epsilon`, and about as much as a pure
    mechanism of half of it at small t.

    Parameters
    ----------
    at_epsilon : float
        Positive: the greatest difference between the losses of two outcomes.
    adjacency : {"replace", "add-remove"}, optional
        As of `GaussianProfile`.

    References
    ----------
    J. Dong, D. Durfee and R. Rogers, "Optimal Differential Privacy Composition for Exponential
    Mechanisms", ICML 2020, Lemma 3.4: the worst pairs; the theorem of docs/theory/norm-bound.md.

    Examples
    --------
    >>> BoundedRangeProfile(0.2).delta(0.2)
    0.0
    """

    _proof_status = "exact"

    at_epsilon: float
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        check_parameter(self.at_epsilon, "at_epsilon")
        check_known_adjacency(self.adjacency)

    def _delta(self, epsilon: Array) -> Array:
        gap = np.minimum(epsilon - self.at_epsilon, 0.0)
        return np.asarray(np.expm1(gap / 2.0) ** 2 / -math.expm1(-self.at_epsilon))

    def _epsilon(self, target: float) -> float:
        root = math.sqrt(target * -math.expm1(-self.at_epsilon))
        epsilon = max(self.at_epsilon + 2.0 * math.log1p(-root), 0.0) if root < 1.0 else 0.0
        while self.delta(epsilon) > target:
            epsilon = math.nextafter(epsilon, math.inf)
        return epsilon


@dataclass(frozen=True)
class StatedProfile(Profile):
    r"""Worst profile of any (epsilon, delta)-differentially private mechanism.

    .. math::

        \delta(t) = \delta + (1 - \delta) \frac{(e^{\epsilon} - e^t)_+}{1 + e^{\epsilon}}

    For mechanisms whose guarantee is proved at one point only.

    Parameters
    ----------
    at_epsilon : float
        Positive.
    at_delta : float
        In [0, 1); 0 makes it randomised response.
    adjacency : {"replace", "add-remove"}, optional
        As of `GaussianProfile`.

    References
    ----------
    P. Kairouz, S. Oh and P. Viswanath, "The composition theorem for differential privacy",
    IEEE Trans. Inf. Theory 63, 2017: the dominating pair of Theorem 3.4.
    """

    _proof_status = "stated"

    at_epsilon: float
    at_delta: float
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        check_parameter(self.at_epsilon, "at_epsilon")
        if not 0 <= check_number(self.at_delta, "at_delta") < 1:
            raise ValueError(f"at_delta must lie in [0, 1), not {self.at_delta!r}")
        check_known_adjacency(self.adjacency)

    def _delta(self, epsilon: Array) -> Array:
        gap = np.minimum(epsilon - self.at_epsilon, 0.0)
        share = -np.expm1(gap) / (1.0 + np.exp(-self.at_epsilon))
        return np.asarray(self.at_delta + (1.0 - self.at_delta) * share)

    def _floor(self) -> float:
        return self.at_delta


# Code whose output is, with a small chance, not the mechanism's. Of a release that chance is what
# finite precision may show. Its record has the part of delta that is set aside for it, `delta_fp`,
# and its `privacy` leaves it out. `charged` puts it in: whatever leaves a release, composed or for
# another library, goes through here.


class _CoupledCurve:
    """Curve of an output that is off with a chance, from the mechanism's."""

    #: Where the least so far is looked for. Any epsilons would do: each one bounds those above.
    places = np.arange(65.0)

    def __init__(self, curve: Curve, chance: float) -> None:
        self.curve, self.chance = curve, chance

    def _at(self, epsilon: Array) -> Array:
        return np.minimum(self.curve(epsilon) + self.chance * (1.0 + np.exp(epsilon)), 1.0)

    @cached_property
    def least(self) -> Array:
        return np.minimum.accumulate(self._at(self.places))

    def __call__(self, epsilon: Array) -> Array:
        before = np.searchsorted(self.places, epsilon, side="right") - 1
        least = np.where(before < 0, 1.0, self.least[before])
        return np.minimum(self._at(np.minimum(epsilon, self.places[-1])), least)


@dataclass(frozen=True)
class CoupledProfile(Profile):
    r"""Upper bound on the profile of an output that is off with a small chance.

    .. math:: \delta'(\epsilon) = \min_{t \le \epsilon} \delta(t) + h (1 + e^t)

    Proof: docs/theory/composition.md, "Finite precision".

    Parameters
    ----------
    of : Profile
        Of the mechanism that the output has the law of, but for the chance.
    chance : float
        h in (0, 1): bound on the total variation distance of the output's law from the
        mechanism's, on every table.
    """

    nested = ("of",)

    of: Profile
    chance: float

    def __post_init__(self) -> None:
        if not isinstance(self.of, Profile):
            raise TypeError(f"of must be a Profile, not {type(self.of).__name__}")
        if not 0 < check_number(self.chance, "chance") < 1:
            raise ValueError(f"chance must lie in (0, 1), not {self.chance!r}")

    @property
    def proof_status(self) -> ProofStatus:
        return weakest((self.of.proof_status, "upper bound"))

    @property
    def _parts(self) -> tuple[Profile, ...]:
        return (self.of,)

    @property
    def _dots(self) -> int:  # type: ignore[override]
        return self.of._dots

    @cached_property
    def _both(self) -> _CoupledCurve:
        return _CoupledCurve(self.of._curve, self.chance)

    def _directions(self) -> tuple[Curve, ...]:
        return tuple(_CoupledCurve(curve, self.chance) for curve in self.of._directions())

    def _delta(self, epsilon: Array) -> Array:
        return self._both(epsilon)

    def _floor(self) -> float:
        return float(self._both.least[-1])


def delta_fp_of(record: Any) -> float:
    """Part of delta that a release, or its calibrated noise, sets aside for finite precision."""
    own = getattr(record, "delta_fp", None)
    return float(own or getattr(record, "parameters", {}).get("delta_fp") or 0.0)


def chance_off(record: Any) -> float:
    """Upper bound on the chance that finite precision shows in a release or calibrated noise."""
    # delta_fp is h (1 + e^epsilon) for the chance h, and epsilon is positive.
    return delta_fp_of(record) / 2.0


def charged(record: Any) -> Profile:
    """Profile of a release, or of calibrated noise, and of what finite precision adds to it."""
    profile: Profile = record.privacy
    chance = chance_off(record)
    return CoupledProfile(profile, chance) if chance else profile
