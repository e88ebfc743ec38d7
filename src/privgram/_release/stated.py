"""Whether the noise that a saved release states is what its privacy profile needs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from privgram.mechanisms import AnalyzeGauss
from privgram.mechanisms._base import sensitivity
from privgram.noise import (
    GaussianLaw,
    ImageLaw,
    MaskedLaw,
    MatrixLaplaceLaw,
    NoiseLaw,
    TiedLaw,
    WishartLaw,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privgram._release.record import ReleaseRecord
    from privgram.privacy import Profile

#: Rows are quantised to 20 bits, which lengthens the bound by far less, and fewer bits by less.
_TOLERANCE = 0.02

#: Parameters of releases whose noise is not that of one draw: of sums, and of streams.
_SEVERAL = {"pooled", "stream"}


def check_stated(release: ReleaseRecord) -> None:
    """Raise unless the law of the noise is the one that the profile is of, where one tells that.

    Lengths of the noise are those of the profile in proportion to the squared bound; what was drawn
    or added after calibration is among the parameters. Nothing is known of sums, streams, several
    looks, and of profiles that are only stated or composed.
    """
    if _SEVERAL & release.parameters.keys():
        return
    law = release.noise
    while isinstance(law, (MaskedLaw, TiedLaw, ImageLaw)):
        law = law.base
    for name, values in _expected(release, law, release.privacy).items():
        found = getattr(law, name)
        if values and not any(math.isclose(found, value, rel_tol=_TOLERANCE) for value in values):
            raise ValueError(f"{name} of the noise is not what the guarantee needs")


def _expected(
    release: ReleaseRecord, law: NoiseLaw, profile: Profile
) -> Mapping[str, tuple[float, ...]]:
    """What the parameters of a law may be; none where the profile does not tell."""
    from privgram import privacy

    square, parameters = release.bound**2, release.parameters
    if isinstance(law, GaussianLaw) and isinstance(release.mechanism, AnalyzeGauss):
        if not isinstance(profile, (privacy.GaussianProfile, privacy.DiscreteGaussianProfile)):
            return {}
        # One column may be all that is left of several.
        widths = (release.n_columns, 2)
        sigmas = [
            sensitivity(release.bound, d, release.adjacency) / profile.sensitivity_ratio
            for d in widths
        ]
        narrow = 1.0 if release.mechanism.noise == "triangular" else math.sqrt(2.0)
        return {
            "std": tuple(sigma / narrow for sigma in sigmas),
            "std_diagonal": tuple(sigmas),
            "added": (number_of(parameters, "added", 0.0),),
        }
    if isinstance(law, WishartLaw) and isinstance(profile, privacy.WishartProfile):
        return {
            "scale": (square / profile.ratio,),
            "dof": (profile.dof,),
            "subtracted": (number_of(parameters, "subtracted", 0.0),),
        }
    if isinstance(law, MatrixLaplaceLaw) and isinstance(profile, privacy.MatrixLaplaceProfile):
        return {"scale": (square / profile.ratio,), "dof": (profile.dof,)}
    return law.expected(release)


def number_of(parameters: Mapping[str, Any], name: str, default: float) -> float:
    """A number among the parameters of a release."""
    value = parameters.get(name, default)
    if not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number")
    return float(value)
