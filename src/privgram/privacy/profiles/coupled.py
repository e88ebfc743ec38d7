"""The profile of code whose output is, with a small chance, not the mechanism's.

Of a release that chance is what finite precision may show. Its record has the part of delta that is
set aside for it, `delta_fp`, and its `privacy` leaves it out. `charged` puts it in: whatever leaves
a release, composed or for another library, goes through here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privgram._base.numbers import check_number
from privgram.privacy._numerics import Array, Curve
from privgram.privacy.profiles.base import Profile, ProofStatus, weakest


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
    def proof_status(self) -> ProofStatus:  # noqa: D102
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


def delta_fp_of(record: object) -> float:
    """Part of delta that a release, or its calibrated noise, sets aside for finite precision."""
    delta_fp = getattr(record, "delta_fp", None)
    return float(delta_fp or getattr(record, "parameters", {}).get("delta_fp") or 0.0)


def chance_off(record: object) -> float:
    """Upper bound on the chance that finite precision shows in a release or calibrated noise."""
    # delta_fp is h (1 + e^epsilon) for the chance h, and epsilon is positive.
    return delta_fp_of(record) / 2.0


def charged(record: Any) -> Profile:
    """Profile of a release, or of calibrated noise, and of what finite precision adds to it."""
    profile: Profile = record.privacy
    chance = chance_off(record)
    return CoupledProfile(profile, chance) if chance else profile
