"""What every privacy profile can do."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, overload

import numpy as np
from numpy.typing import ArrayLike

from privgram._base.numbers import check_adjacency, check_positive, least_safe
from privgram._base.saved import Registry
from privgram.privacy._numerics import TINY, Array, Curve

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_known_adjacency(adjacency: str | None) -> None:
    """Raise ValueError unless `adjacency` is one of the two notions, or None: not said."""
    if adjacency is not None:
        check_adjacency(adjacency)


#: How well a claim of privacy is founded, the best first; see `Profile.proof_status`.
ProofStatus = Literal["exact", "upper bound", "stated", "none"]


def weakest(statuses: Iterable[ProofStatus]) -> ProofStatus:
    """The last of some in the order of `ProofStatus`: that of all together."""
    return max(statuses, key=get_args(ProofStatus).index)


def check_parameter(value: object, name: str) -> None:
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

    #: Parameters that are positive numbers.
    _positive: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        """Refuse parameters outside their ranges."""
        for name in self._positive:
            check_parameter(getattr(self, name), name)
        check_known_adjacency(getattr(self, "adjacency", None))

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
