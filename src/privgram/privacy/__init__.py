r"""Exact privacy profiles: how private a release is, and how much noise a budget needs.

A profile maps every epsilon to the least delta for which a mechanism is (epsilon,
delta)-differentially private, and back. It knows the mechanism's noise and never any data.

>>> from privgram import privacy
>>> privacy.GaussianProfile(0.1).epsilon(1e-6) < 0.5
True
"""

from typing import TYPE_CHECKING

from privgram._base.installed import lazy_names
from privgram._base.numbers import Adjacency
from privgram.privacy.guarantee import Guarantee, Price

if TYPE_CHECKING:
    from privgram.privacy import calibration as calibration
    from privgram.privacy import composition as composition
    from privgram.privacy import profiles as profiles
    from privgram.privacy.composition import compose
    from privgram.privacy.profiles import (
        BoundedRangeProfile,
        ComposedProfile,
        CoupledProfile,
        GaussianProfile,
        MatrixLaplaceProfile,
        Profile,
        ProofStatus,
        StatedProfile,
    )

__all__ = [
    "Adjacency",
    "BoundedRangeProfile",
    "ComposedProfile",
    "CoupledProfile",
    "GaussianProfile",
    "Guarantee",
    "MatrixLaplaceProfile",
    "Price",
    "Profile",
    "ProofStatus",
    "StatedProfile",
    "calibration",
    "compose",
]

#: What needs SciPy is imported when it is first asked for.
_PROFILES = [name for name in __all__ if name.endswith(("Profile", "Status"))]
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {"composition": ["compose"], "profiles": _PROFILES})


def __dir__() -> list[str]:
    return [*globals(), *__all__]
