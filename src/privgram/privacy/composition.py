"""Several releases of the same data as one profile."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from privgram.privacy.profiles import (
    ComposedProfile,
    CoupledProfile,
    GaussianProfile,
    Profile,
    charged,
)


def compose(profiles: Iterable[Any], discretization: float = 1e-4) -> Profile:
    r"""Profile of several releases of the same data, each with noise of its own.

    Exact where a closed form exists: Gaussian mechanisms add up their squared
    ratios, and `privgram.papers` has such forms for the papers' mechanisms. The rest is composed
    numerically, on the safe side, for each order of the two tables by itself.

    Parameters
    ----------
    profiles : sequence of Profile or Release
        At least one. A release counts with its profile, and with what finite precision adds to
        it, which its profile alone leaves out. All that say
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


def adjacencies(*profiles: object) -> set[str]:
    """Notions of neighbours that profiles, or releases, and their parts are for."""
    parts = [p for whole in profiles if isinstance(whole, Profile) for p in flatten([whole])[0]]
    named = (getattr(x, "adjacency", None) for x in (*profiles, *parts))
    return {adjacency for adjacency in named if adjacency is not None}


def units(items: Iterable[Any]) -> set[str]:
    """Whom releases protect: columns of units, "" for single rows; a profile does not say."""
    names = set()
    for item in items:
        if not isinstance(item, Profile):
            unit = getattr(item, "privacy_unit", None)
            names.add(unit.name if unit is not None else getattr(item, "unit", None) or "")
    return names


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


def _profile_of(item: object) -> Profile:
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
