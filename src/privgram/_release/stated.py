"""Whether the noise that a saved release states is what its privacy profile needs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from privgram.mechanisms import AnalyzeGauss, InverseGauss
from privgram.mechanisms._base import sensitivity
from privgram.noise import (
    GaussianLaw,
    ImageLaw,
    InverseGaussianLaw,
    InverseWishartLaw,
    MaskedLaw,
    MatrixLaplaceLaw,
    NoiseLaw,
    SketchLaw,
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
    expected = _expected(release, law, release.privacy)
    if not expected:
        return
    for name, values in expected.items():
        found = getattr(law, name)
        if not any(math.isclose(found, value, rel_tol=_TOLERANCE) for value in values):
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
            "added": (_number(parameters, "added", 0.0),),
        }
    if isinstance(law, InverseGaussianLaw) and isinstance(release.mechanism, InverseGauss):
        if not isinstance(profile, privacy.GaussianProfile):
            return {}
        asked = release.epsilon, release.delta, release.adjacency
        calibrated = release.mechanism.calibrate(release.n_columns, release.bound, *asked)
        sigma = calibrated.sensitivity / profile.sensitivity_ratio
        return {"std": (sigma / math.sqrt(2.0),), "std_diagonal": (sigma,)}
    if isinstance(law, WishartLaw) and isinstance(profile, privacy.WishartProfile):
        return {
            "scale": (square / profile.ratio,),
            "dof": (profile.dof,),
            "subtracted": (_number(parameters, "subtracted", 0.0),),
        }
    if isinstance(law, MatrixLaplaceLaw) and isinstance(profile, privacy.MatrixLaplaceProfile):
        return {"scale": (square / profile.ratio,), "dof": (profile.dof,)}
    if isinstance(law, (SketchLaw, InverseWishartLaw)):
        if "adjusted_dof" in parameters:
            rows = _number(parameters, "adjusted_dof", 0.0)
            regulariser = _number(parameters, "adjusted_regulariser", 0.0)
        elif isinstance(profile, privacy.SketchProfile):
            rows, regulariser = profile.rows, square / profile.ratio
        else:
            return {}
        if isinstance(law, SketchLaw):
            return {"rows": (rows,), "regulariser": (regulariser,)}
        # A column that is left out takes one degree of freedom with it.
        whole = release.n_columns if release.columns is None else len(release.columns)
        return {"dof": (rows, rows - (whole - release.n_columns)), "regulariser": (regulariser,)}
    return {}


def _number(parameters: Mapping[str, Any], name: str, default: float) -> float:
    value = parameters.get(name, default)
    if not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number")
    return float(value)
