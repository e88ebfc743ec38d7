"""Several releases of the same data as one profile: losses added on a grid, on the safe side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np
from scipy import fft

from privgram.privacy._numerics import Array, Curve, connect_the_dots
from privgram.privacy._profile import (
    CoupledProfile,
    GaussianProfile,
    Profile,
    ProofStatus,
    charged,
    check_parameter,
    weakest,
)

# A distribution of losses has masses at multiples of a step and a mass at infinity, once for each
# order of the two tables, or once for both. Releases of one table compose order by order, by
# convolution. What rounding may take away is added to the mass at infinity: the fast Fourier
# transforms of a convolution are off by at most 21 u \log_2 N relative in the Euclidean
# norm [1], u the unit roundoff, hence by \sqrt N times that in the sum of all masses.
# Mass beyond the top goes to infinity, and mass below what matters up to the least that is kept.
# Why the result dominates: docs/theory/composition.md, "Numerically".
#
# [1] N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., SIAM 2002,
#    Theorem 24.2.

#: Mass that may be moved, at either end and at no gain.
_MOVED_MASS = 1e-17

#: Fewer masses than these are convolved one by one.
_FEW = 48

#: Unit roundoff.
_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class _Order:
    """Losses of one order of the tables: masses from index `low` on, and at infinity."""

    low: int
    masses: Array
    infinity: float

    def compose(self, other: _Order, top: int) -> _Order:
        a, b = self.masses, other.masses
        infinity = self.infinity + other.infinity  # at most; of both at once only one counts
        size = a.size + b.size - 1
        few, many = (a, b) if np.count_nonzero(a) < np.count_nonzero(b) else (b, a)
        places = np.flatnonzero(few)
        if places.size <= _FEW:
            masses = np.zeros(size)
            for i in places:
                masses[i : i + many.size] += few[i] * many
            masses *= 1.0 + 4.0 * _FEW * _UNIT
        else:
            length = fft.next_fast_len(size, real=True)
            masses = fft.irfft(fft.rfft(a, length) * fft.rfft(b, length), length)[:size]
            norms = math.sqrt(float(np.sum(a * a)) * float(np.sum(b * b)))
            infinity += 24.0 * _UNIT * math.log2(length) * math.sqrt(length) * norms
            np.maximum(masses, 0.0, out=masses)
        return _trimmed(self.low + other.low, masses, infinity, top)

    def delta(self, epsilon: float, step: float) -> float:
        if epsilon >= (self.low + self.masses.size) * step:
            return min(self.infinity, 1.0)
        first = max(math.floor(epsilon / step) - self.low, 0)
        masses = self.masses[first:]
        loss = (self.low + first + np.arange(masses.size)) * step
        above = masses * -np.expm1(np.minimum(epsilon - loss, 0.0))
        return min(float(np.sum(above)) * (1.0 + 1e-12) + self.infinity, 1.0)


def _trimmed(low: int, masses: Array, infinity: float, top: int) -> _Order:
    keep = min(masses.size, max(top - low + 1, 1))
    infinity += float(np.sum(masses[keep:])) * (1.0 + 1e-12)
    masses = masses[:keep]
    over = np.cumsum(masses[::-1])
    cut = int(np.searchsorted(over, _MOVED_MASS, side="right"))
    if 0 < cut < keep:
        infinity += float(over[cut - 1])
        masses = masses[: keep - cut]
    under = np.cumsum(masses)
    cut = min(int(np.searchsorted(under, _MOVED_MASS, side="right")), masses.size - 1)
    if cut > 0:
        masses = masses[cut:].copy()
        masses[0] += under[cut - 1]
    return _Order(low + cut, masses, infinity)


@dataclass(frozen=True, eq=False)
class Losses:
    """Privacy losses of one or more releases."""

    step: float  # losses are multiples of it
    top: float  # losses above it count as infinite
    orders: tuple[_Order, ...]  # with the row against without, and the reverse; or one for both

    def compose(self, other: Losses) -> Losses:
        """Losses of these releases together with others, of the same step."""
        if (self.step, self.top) != (other.step, other.top):
            raise ValueError("losses compose with those of the same step and top")
        count = max(len(self.orders), len(other.orders))
        top = math.floor(self.top / self.step)
        pairs = zip((self.orders * 2)[:count], (other.orders * 2)[:count], strict=True)
        return Losses(self.step, self.top, tuple(a.compose(b, top) for a, b in pairs))

    def times(self, count: int) -> Losses:
        """Losses of so many equal releases."""
        if count == 1:
            return self
        half = self.times(count // 2)
        whole = half.compose(half)
        return whole.compose(self) if count % 2 else whole

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta, in the worse order."""
        return max(order.delta(epsilon, self.step) for order in self.orders)


def none(step: float, top: float) -> Losses:
    """Losses of no release at all."""
    return Losses(step, top, (_Order(0, np.ones(1), 0.0),))


@lru_cache(maxsize=64)
def losses_of(profile: Profile, step: float, top: float, dots: int) -> Losses:
    """Losses that dominate a profile's, by connecting dots."""
    directions = tuple(_remembered(curve) for curve in profile._directions())
    forward, backward = (directions * 2)[:2]
    dots = min(dots, profile._dots)
    orders = [(forward, backward), (backward, forward)][: len(directions)]
    return Losses(step, top, tuple(_order(a, b, step, top, dots) for a, b in orders))


def _remembered(curve: Curve) -> Curve:
    """Give the same curve, which is evaluated once for both orders."""
    seen: dict[bytes, Array] = {}

    def lookup(epsilon: Array) -> Array:
        key = epsilon.tobytes()
        if key not in seen:
            seen[key] = curve(epsilon)
        return seen[key].copy()

    return lookup


def _order(forward: Curve, backward: Curve, step: float, top: float, dots: int) -> _Order:
    masses, infinity = connect_the_dots(forward, backward, step, dots)
    highest = math.floor(top / step)
    index = np.array(sorted(masses))
    values = np.array([masses[i] for i in index.tolist()])
    within = (index <= highest) & (index >= -highest)
    infinity += float(np.sum(values[index > highest])) * (1.0 + 1e-12)
    below = float(np.sum(values[index < -highest]))
    index, values = index[within], values[within]
    dense = np.zeros(int(index[-1] - index[0]) + 1)
    dense[index - index[0]] = values
    dense[0] += below
    return _trimmed(int(index[0]), dense, infinity, highest)


#: Composition by fast Fourier transforms says nothing below.
FFT_FLOOR = 1e-12

#: Losses above it count as infinite, which adds a part of e^(epsilon - 80) to their delta.
_TOP = 80.0


@dataclass(frozen=True)
class ComposedProfile(Profile):
    """Profile of several releases, by convolution of their privacy losses.

    Made by `compose`. An upper bound, close to the truth from delta = 1e-10 on; below
    1e-12 the convolution has no digits left, and the value is 1e-12.

    Parameters
    ----------
    profiles : tuple of Profile
        Profiles of the single releases.
    discretization : float
        Step of the grid of privacy losses, positive.
    """

    profiles: tuple[Profile, ...]
    discretization: float = 1e-4

    def __post_init__(self) -> None:
        check_parameter(self.discretization, "discretization")

    @property
    def proof_status(self) -> ProofStatus:
        """That of the weakest part, "upper bound" at best."""
        return weakest(["upper bound", *(p.proof_status for p in self.profiles)])

    @property
    def _parts(self) -> tuple[Profile, ...]:
        return self.profiles

    def to_dict(self) -> dict[str, Any]:  # noqa: D102
        return super().to_dict() | {"profiles": [p.to_dict() for p in self.profiles]}

    @classmethod
    def _rebuild(cls, parameters: dict[str, Any]) -> ComposedProfile:
        profiles = tuple(Profile.from_dict(p) for p in parameters.pop("profiles"))
        return cls(profiles, **parameters)

    @cached_property
    def _losses(self) -> Losses:
        return composed_losses(self.profiles, float(self.discretization), _TOP, self._dots)

    def _delta(self, epsilon: Array) -> Array:
        return np.maximum([self._losses.delta(e) for e in epsilon.tolist()], FFT_FLOOR)

    def _floor(self) -> float:
        return max(self._losses.delta(math.inf), FFT_FLOOR)

    def pld(self, discretization: float = 1e-4) -> Any:  # noqa: D102
        plds = []
        for profile, count in Counter(self.profiles).items():
            pld = profile.pld(discretization)
            plds.append(pld.self_compose(count) if count > 1 else pld)
        return reduce(lambda x, y: x.compose(y), plds)


def composed_losses(profiles: Iterable[Profile], step: float, top: float, dots: int) -> Losses:
    """Losses of all profiles together; equal ones are composed by squaring."""
    result = none(step, top)
    for profile, count in Counter(profiles).items():
        result = result.compose(losses_of(profile, step, top, dots).times(count))
    return result


def compose(profiles: Iterable[Any], discretization: float = 1e-4) -> Profile:
    r"""Profile of several releases of the same data, each with noise of its own.

    Exact where a closed form exists: Gaussian mechanisms add up their squared
    ratios, and `privgram.papers` has such forms for the papers' mechanisms. The rest is composed
    numerically, on the safe side, for each order of the two tables by itself.

    Parameters
    ----------
    profiles : sequence of Profile or Release
        At least one. A release, or a bound by `private_norm_bound`, counts with its profile, and
        with what finite precision adds to it, which its profile alone leaves out. All that say
        for which notion of neighbours they are must say the same one, and releases must protect
        one kind of unit; a bare profile does not say its.
    discretization : float
        Step of the grid of privacy losses where one is needed, positive.

    Returns
    -------
    Profile
        A profile again, which may be composed further.

    Raises
    ------
    ValueError
        If there is no profile, or the notions of neighbours or the units differ.
    TypeError
        If an element is neither a profile nor has one.

    Examples
    --------
    >>> compose([GaussianProfile(0.3), GaussianProfile(0.4)]).sensitivity_ratio
    0.5
    """
    if isinstance(profiles, Profile) or not isinstance(profiles, Iterable):
        raise TypeError("compose takes a list of profiles or releases")
    items = list(profiles)
    flat, chance = flatten([_profile_of(item) for item in items])
    if not flat:
        raise ValueError("compose needs at least one profile")
    if len(adjacencies(*items, *flat)) > 1:
        raise ValueError('profiles under "replace" and under "add-remove" do not compose')
    if len(units(items)) > 1:
        raise ValueError(
            "releases that protect single rows and all rows of a unit, or units by different "
            "columns, do not compose: a unit of many rows has more than the epsilon of a release "
            "of rows. Release all by one unit"
        )
    merged = merge_profiles(flat)
    whole = merged[0] if len(merged) == 1 else ComposedProfile(tuple(merged), discretization)
    return CoupledProfile(whole, chance) if chance else whole


def adjacencies(*profiles: Any) -> set[str]:
    """Notions of neighbours that profiles, or releases, and their parts are for."""
    parts = [p for whole in profiles if isinstance(whole, Profile) for p in flatten([whole])[0]]
    named = (getattr(x, "adjacency", None) for x in (*profiles, *parts))
    return {adjacency for adjacency in named if adjacency is not None}


def units(items: Iterable[Any]) -> set[str]:
    """Whom releases protect: columns of units, "" for single rows; a profile does not say."""
    found = set()
    for item in items:
        if not isinstance(item, Profile):
            unit = getattr(item, "privacy_unit", None)
            found.add(unit.name if unit is not None else getattr(item, "unit", None) or "")
    return found


def merge_profiles(profiles: Sequence[Profile]) -> list[Profile]:
    """Join profiles that together are exactly one; their order does not matter."""
    rest = list(profiles)
    kinds = {type(p).__name__: p for p in profiles}
    for name in sorted(kinds):
        rest = kinds[name]._joined(rest)
    gaussian = [p for p in rest if isinstance(p, GaussianProfile)]
    merged = [p for p in rest if not isinstance(p, GaussianProfile)]
    if not gaussian:
        return merged
    adjacency = next((p.adjacency for p in gaussian if p.adjacency is not None), None)
    ratio = math.hypot(*(p.sensitivity_ratio for p in gaussian))
    return [*merged, GaussianProfile(ratio, adjacency)]


def _profile_of(item: Any) -> Profile:
    if isinstance(item, Profile):
        return item
    if not isinstance(getattr(item, "privacy", None), Profile):
        raise TypeError(f"compose takes privacy profiles and releases, not {type(item).__name__}")
    return charged(item)


def flatten(profiles: Iterable[Profile]) -> tuple[list[Profile], float]:
    """Return the single profiles, and the sum of the chances with which some are off."""
    flat: list[Profile] = []
    chance = 0.0
    for p in profiles:
        if isinstance(p, CoupledProfile):
            chance += p.chance
        if p._parts == (p,):
            flat.append(p)
            continue
        more, also = flatten(p._parts)
        flat += more
        chance += also
    return flat, chance


# Losses of a list of releases that grows, composed once and kept in memory: they are for certain
# profiles in a certain order, and are used for a list that begins with just those.

_Composed = tuple[tuple[Profile, ...], Losses]


class RunningLosses:
    """Composed losses of the profiles seen last, to go on from: of `step` and `top`, see `Losses`.

    `dots` deltas are evaluated for the losses of one profile.
    """

    def __init__(self, step: float, top: float, dots: int) -> None:
        self._grid = step, top, dots
        self.nothing = none(step, top)
        # All but the last profile, which may have been a question only; and all.
        self._before: _Composed = (), self.nothing
        self._all: _Composed = (), self.nothing

    def one(self, profile: Profile) -> Losses:
        """Losses of a single profile."""
        return losses_of(profile, *self._grid)

    def of(self, profiles: tuple[Profile, ...]) -> Losses:
        """Losses of all profiles together."""
        known = [x for x in (self._all, self._before) if profiles[: len(x[0])] == x[0]]
        base, losses = known[0] if known else ((), self.nothing)
        more = profiles[len(base) :]
        if not more:
            return losses
        if more[:-1]:
            losses = losses.compose(composed_losses(more[:-1], *self._grid))
        self._before = profiles[:-1], losses
        losses = losses.compose(self.one(profiles[-1]))
        self._all = profiles, losses
        return losses
