r"""Exact privacy profiles: how private a release is, and how much noise a budget needs.

A profile maps every epsilon to the least delta for which a mechanism is (epsilon,
delta)-differentially private, and back. It knows the mechanism's noise and never any data.

>>> from privgram import privacy
>>> privacy.WishartProfile(dof=300, n_columns=22, ratio=2.0).epsilon(1e-6) < 0.52
True
"""

from privgram._base.numbers import Adjacency
from privgram.columns.unit import Guarantee

from . import calibration
from ._profile import (
    BoundedRangeProfile,
    CoupledProfile,
    GaussianProfile,
    LaplaceProfile,
    Profile,
    ProofStatus,
    StatedProfile,
)
from .composition import ComposedProfile, compose
from .wishart import MatrixLaplaceProfile, WishartProfile

__all__ = [
    "Adjacency",
    "BoundedRangeProfile",
    "ComposedProfile",
    "CoupledProfile",
    "GaussianProfile",
    "Guarantee",
    "LaplaceProfile",
    "MatrixLaplaceProfile",
    "Profile",
    "ProofStatus",
    "StatedProfile",
    "WishartProfile",
    "calibration",
    "compose",
]
