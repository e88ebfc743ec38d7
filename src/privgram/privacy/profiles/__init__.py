"""Privacy profiles, by the kind of the mechanism."""

from privgram.privacy.profiles.base import (
    Profile,
    ProofStatus,
    check_known_adjacency,
    check_parameter,
)
from privgram.privacy.profiles.composed import FFT_FLOOR, ComposedProfile
from privgram.privacy.profiles.coupled import CoupledProfile, chance_off, charged, delta_fp_of
from privgram.privacy.profiles.gaussian import GaussianProfile, gaussian_delta
from privgram.privacy.profiles.matrix_laplace import MatrixLaplaceProfile
from privgram.privacy.profiles.pure import BoundedRangeProfile, StatedProfile

__all__ = [
    "FFT_FLOOR",
    "BoundedRangeProfile",
    "ComposedProfile",
    "CoupledProfile",
    "GaussianProfile",
    "MatrixLaplaceProfile",
    "Profile",
    "ProofStatus",
    "StatedProfile",
    "chance_off",
    "charged",
    "check_known_adjacency",
    "check_parameter",
    "delta_fp_of",
    "gaussian_delta",
]
