"""Several releases of the same data, as one profile."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from ._numerics import Array
from ._profile import Guarantee, Profile, check_parameter, weakest
from .coupled import CoupledProfile, charged
from .discrete_gaussian import DiscreteGaussianProfile
from .gaussian import GaussianProfile
from .losses import Losses, losses_of, total

FLOOR = 1e-12
"""Composition by fast Fourier transforms says nothing below."""

ONE_GAUSSIAN = (GaussianProfile, DiscreteGaussianProfile)
"""Kinds of profiles of which any number is one, and takes no time."""

_TOP = 80.0
"""Losses above it count as infinite, which adds a part of e^(epsilon - 80) to their delta."""


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

    Raises
    ------
    ValueError
        If the step is not positive.
    """

    profiles: tuple[Profile, ...]
    discretization: float = 1e-4

    def __post_init__(self) -> None:
        check_parameter(self.discretization, "discretization")

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the weakest part, "bounded" at best."""
        return weakest(["bounded", *(p.guarantee for p in self.profiles)])

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
        step = float(self.discretization)
        return composed_losses(self.profiles, step, _TOP, self._dots)

    def _delta(self, epsilon: Array) -> Array:
        return np.maximum([self._losses.delta(e) for e in epsilon.tolist()], FLOOR)

    def _floor(self) -> float:
        return max(self._losses.delta(math.inf), FLOOR)

    def pld(self, discretization: float = 1e-4) -> Any:  # noqa: D102
        plds = []
        for profile, count in Counter(self.profiles).items():
            pld = profile.pld(discretization)
            plds.append(pld.self_compose(count) if count > 1 else pld)
        return reduce(lambda x, y: x.compose(y), plds)


def composed_losses(profiles: Iterable[Profile], step: float, top: float, dots: int) -> Losses:
    """Losses of all profiles together; equal ones are composed by squaring."""
    each = (losses_of(p, step, top, dots).times(n) for p, n in Counter(profiles).items())
    return total(each, step, top)


def compose(profiles: Iterable[Any], discretization: float = 1e-4) -> Profile:
    r"""Profile of several releases of the same data, each with noise of its own.

    Exact where a closed form exists: Gaussian mechanisms, discrete ones too, add up their squared
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
    merged = merge(flat)
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


def merge(profiles: Sequence[Profile]) -> list[Profile]:
    """Join profiles that together are exactly one; their order does not matter."""
    rest = list(profiles)
    kinds = {type(p).__name__: p for p in profiles}
    for name in sorted(kinds):
        rest = kinds[name]._joined(rest)
    gaussian = [p for p in rest if isinstance(p, ONE_GAUSSIAN)]
    merged = [p for p in rest if not isinstance(p, ONE_GAUSSIAN)]
    if not gaussian:
        return merged
    adjacency = next((p.adjacency for p in gaussian if p.adjacency is not None), None)
    ratio = math.hypot(*(p.sensitivity_ratio for p in gaussian))
    discrete = [p for p in gaussian if isinstance(p, DiscreteGaussianProfile)]
    if not discrete:
        return [*merged, GaussianProfile(ratio, adjacency)]
    # Rounded, a Gaussian mechanism is one more entry of the kind the bound compares with.
    least = min(p.std for p in discrete)
    entries = sum(p.n_entries for p in discrete)
    return [*merged, DiscreteGaussianProfile(ratio, least, entries, adjacency)]


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
