"""Several releases of the same data, as one profile."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ._numerics import Array
from ._profile import Guarantee, Profile, check_parameter, weakest
from .coupled import CoupledProfile, charged
from .discrete_gaussian import DiscreteGaussianProfile
from .gaussian import GaussianProfile
from .losses import Losses, losses_of, total
from .sketch import ChiGaussianProfile, SketchProfile
from .sketches import TwoSketchesProfile

if TYPE_CHECKING:
    from ._adjacency import Adjacency, Orientation

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
    ratios, and sketches of one ratio and orientation their rows, range finders their columns; a
    range finder and Gaussian mechanisms are one mixture of Gaussians, and two sketches or inverse
    Wisharts that differ otherwise an expectation over the loss of one. The rest is composed
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
    >>> compose([SketchProfile(100, 0.01)] * 10).rows
    1000
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
    gaussian: list[tuple[float, Adjacency | None]] = []
    discrete: list[DiscreteGaussianProfile] = []
    sketches: dict[tuple[float, Adjacency, Orientation | None], float] = {}
    finders: dict[float, float] = {}
    merged: list[Profile] = []
    for p in profiles:
        if isinstance(p, GaussianProfile):
            gaussian.append((p.sensitivity_ratio, p.adjacency))
        elif isinstance(p, DiscreteGaussianProfile):
            discrete.append(p)
        elif isinstance(p, ChiGaussianProfile):
            finders[p.ratio] = finders.get(p.ratio, 0) + p.k
            gaussian.append((p.offset, p.adjacency))
        # One column may go up in one release and down in another.
        elif isinstance(p, SketchProfile) and not p.one_column:
            key = (p.ratio, p.adjacency, p.orientation)
            sketches[key] = sketches.get(key, 0) + p.rows
        else:
            merged.append(p)
    merged += _in_pairs([SketchProfile(rows, *key) for key, rows in sketches.items()])
    # One of the range finders takes the Gaussian mechanisms along.
    offset = math.hypot(*(ratio for ratio, _ in gaussian))
    known = {adjacency for _, adjacency in gaussian} | {p.adjacency for p in discrete}
    adjacency = next(iter(known - {None}), None)
    for ratio, k in finders.items():
        merged.append(ChiGaussianProfile(k, ratio, offset, adjacency))
        offset = 0.0
    if discrete:
        # Rounded, a Gaussian mechanism is one more entry of the kind the bound compares with.
        ratio = math.hypot(offset, *(p.sensitivity_ratio for p in discrete))
        least = min(p.std for p in discrete)
        entries = sum(p.n_entries for p in discrete)
        merged.append(DiscreteGaussianProfile(ratio, least, entries, adjacency))
    elif offset:
        merged.append(GaussianProfile(offset, adjacency))
    return merged


def _in_pairs(sketches: list[SketchProfile]) -> list[Profile]:
    """Join two and two of different ratio or orientation; one may be left."""
    known = [p for p in sketches if p.orientation or p.adjacency == "replace"]
    rest: list[Profile] = [p for p in sketches if p not in known]
    if len(known) % 2:
        rest.append(known.pop())
    return rest + [TwoSketchesProfile(*two) for two in zip(known[::2], known[1::2], strict=True)]


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
        parts: Iterable[Profile]
        if isinstance(p, CoupledProfile):
            parts, chance = (p.of,), chance + p.chance
        elif isinstance(p, ComposedProfile):
            parts = p.profiles
        elif isinstance(p, TwoSketchesProfile):
            parts = p.first, p.second
        else:
            flat.append(p)
            continue
        more, also = flatten(parts)
        flat += more
        chance += also
    return flat, chance
