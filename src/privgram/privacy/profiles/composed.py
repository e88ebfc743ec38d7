"""The profile of several releases of the same data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privgram._base.numbers import set_fields
from privgram._base.saved import JsonObject
from privgram.privacy._numerics import Array
from privgram.privacy.losses import Losses, composed_losses
from privgram.privacy.profiles.base import Profile, ProofStatus, weakest

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

    _positive = ("discretization",)

    profiles: tuple[Profile, ...]
    discretization: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, profiles=tuple(self.profiles))
        for each in self.profiles:
            if not isinstance(each, Profile):
                raise TypeError(f"profiles must be of Profile, not {type(each).__name__}")
        if not self.profiles:
            raise ValueError("profiles must have at least one")

    @property
    def proof_status(self) -> ProofStatus:
        """That of the weakest part, "upper bound" at best."""
        return weakest(["upper bound", *(p.proof_status for p in self.profiles)])

    @property
    def _parts(self) -> tuple[Profile, ...]:
        return self.profiles

    def to_dict(self) -> JsonObject:  # noqa: D102
        return super().to_dict() | {"profiles": [p.to_dict() for p in self.profiles]}

    @classmethod
    def _rebuild(cls, parameters: JsonObject) -> ComposedProfile:
        profiles = tuple(Profile.from_dict(p) for p in parameters.pop("profiles"))
        return cls(profiles, **parameters)

    @cached_property
    def _losses(self) -> Losses:
        return composed_losses(self.profiles, float(self.discretization), _TOP, self._dots)

    def _delta(self, epsilon: Array) -> Array:
        return np.maximum([self._losses.delta(e) for e in epsilon.tolist()], FFT_FLOOR)

    def _floor(self) -> float:
        return max(self._losses.delta(math.inf), FFT_FLOOR)
