"""Several releases of the same data, as one profile."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ._numerics import Array
from ._profile import Guarantee, Profile, check_parameter, weakest
from .discrete_gaussian import DiscreteGaussianProfile
from .gaussian import GaussianProfile
from .sketch import ChiGaussianProfile, SketchProfile

if TYPE_CHECKING:
    from ._adjacency import Adjacency

__all__ = ["ComposedProfile", "compose"]

_FLOOR = 1e-12
"""Composition by fast Fourier transforms says nothing below."""


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
    ImportError
        On evaluation, without the extra: ``pip install "privgram[accounting]"``.
    """

    profiles: tuple[Profile, ...]
    discretization: float = 1e-4

    def __post_init__(self) -> None:
        check_parameter(self.discretization, "discretization")

    @property
    def guarantee(self) -> Guarantee:
        """That of the weakest part, and "bounded" at best."""
        return weakest(["bounded", *(p.guarantee for p in self.profiles)])

    def to_dict(self) -> dict[str, Any]:  # noqa: D102
        return super().to_dict() | {"profiles": [p.to_dict() for p in self.profiles]}

    @classmethod
    def _rebuild(cls, parameters: dict[str, Any]) -> Profile:
        profiles = tuple(Profile.from_dict(p) for p in parameters.pop("profiles"))
        return cls(profiles, **parameters)

    @cached_property
    def _pld(self) -> Any:
        return self._compose(self.discretization)

    def _compose(self, discretization: float) -> Any:
        plds = []
        for profile, count in Counter(self.profiles).items():
            pld = profile.pld(discretization)
            plds.append(pld.self_compose(count) if count > 1 else pld)
        return reduce(lambda x, y: x.compose(y), plds)

    def _delta(self, epsilon: Array) -> Array:
        delta = np.asarray(self._pld.get_delta_for_epsilon(epsilon), dtype=np.float64)
        return np.maximum(delta, _FLOOR)

    def _floor(self) -> float:
        return float(np.maximum(self._pld.get_delta_for_epsilon(math.inf), _FLOOR))

    def pld(self, discretization: float = 1e-4) -> Any:  # noqa: D102
        same = discretization == self.discretization
        return self._pld if same else self._compose(discretization)


def compose(profiles: Sequence[Profile], discretization: float = 1e-4) -> Profile:
    r"""Profile of several releases of the same data, each with noise of its own.

    Exact where a closed form exists: Gaussian mechanisms, discrete ones too, add up their squared
    ratios, and sketches of one ratio their rows, range finders their columns; a range finder and
    Gaussian mechanisms are one mixture of Gaussians. The rest is composed numerically, on the safe
    side.

    Parameters
    ----------
    profiles : sequence of Profile
        At least one. All that depend on a notion of neighbours must share it.
    discretization : float
        Step of the grid of privacy losses where one is needed, positive.

    Returns
    -------
    Profile
        A profile again, which may be composed further.

    Raises
    ------
    ValueError
        If there is no profile, or the notions of neighbours differ.
    TypeError
        If an element is not a profile.
    ImportError
        On evaluating a profile that is not exact, without the extra:
        ``pip install "privgram[accounting]"``.

    Examples
    --------
    >>> compose([GaussianProfile(0.3), GaussianProfile(0.4)])
    GaussianProfile(sensitivity_ratio=0.5)
    >>> compose([SketchProfile(100, 0.01)] * 10)
    SketchProfile(rows=1000, ratio=0.01, adjacency='replace')
    """
    flat = list(_flatten(profiles))
    if not flat:
        raise ValueError("compose needs at least one profile")
    if len(_adjacencies(flat)) > 1:
        raise ValueError('profiles under "replace" and under "add-remove" do not compose')
    gaussian = [p.sensitivity_ratio for p in flat if isinstance(p, GaussianProfile)]
    discrete = [p for p in flat if isinstance(p, DiscreteGaussianProfile)]
    sketches: dict[tuple[float, Adjacency], float] = {}
    finders: dict[float, float] = {}
    merged: list[Profile] = []
    for p in flat:
        if isinstance(p, SketchProfile):
            key = (p.ratio, p.adjacency)
            sketches[key] = sketches.get(key, 0) + p.rows
        elif isinstance(p, ChiGaussianProfile):
            finders[p.ratio] = finders.get(p.ratio, 0) + p.k
            if p.offset:
                gaussian.append(p.offset)
        elif not isinstance(p, (GaussianProfile, DiscreteGaussianProfile)):
            merged.append(p)
    merged += [SketchProfile(rows, *key) for key, rows in sketches.items()]
    # One of the range finders takes the Gaussian mechanisms along.
    offset = math.hypot(*gaussian)
    for ratio, k in finders.items():
        merged.append(ChiGaussianProfile(k, ratio, offset))
        offset = 0.0
    if discrete:
        # Rounded, a Gaussian mechanism is one more entry of the kind the bound compares with.
        ratio = math.hypot(offset, *(p.sensitivity_ratio for p in discrete))
        least = min(p.std for p in discrete)
        merged.append(DiscreteGaussianProfile(ratio, least, sum(p.n_entries for p in discrete)))
    elif offset:
        merged.append(GaussianProfile(offset))
    return merged[0] if len(merged) == 1 else ComposedProfile(tuple(merged), discretization)


def _flatten(profiles: Sequence[Profile]) -> list[Profile]:
    flat: list[Profile] = []
    for p in profiles:
        if not isinstance(p, Profile):
            raise TypeError(f"compose takes privacy profiles, not {type(p).__name__}")
        flat += p.profiles if isinstance(p, ComposedProfile) else (p,)
    return flat


def _adjacencies(profiles: list[Profile]) -> set[str]:
    return {p.adjacency for p in profiles if hasattr(p, "adjacency")}
