r"""O. Sheffet, "Private Approximations of the 2nd-Moment Matrix Using Existing Techniques in Linear
Regression", arXiv:1507.00056, 2015; in part "Old Techniques in Differentially Private Linear
Regression", ALT 2019.

`GaussianSketch` is the paper's Algorithms 1 and 2, `InverseWishart` its 4 and 5, `InverseGauss` its
Theorem B.5, corrected; Algorithm 3 is `AdditiveWishart`. They are calibrated by their
exact profiles; each has a namesake, such as `PublishedGaussianSketch`, at the constants that the
paper prints. The statements themselves are functions by their numbers
(`privgram.papers.sheffet.theorems`). Errata: docs/theory/errata.md.

>>> import numpy as np
>>> import privgram as pg
>>> from privgram.papers import sheffet
>>> table = np.random.default_rng(0).uniform(-1, 1, (1000, 3))
>>> sketch = sheffet.GaussianSketch(rows=500)
>>> pg.release(table, bound=3**0.5, epsilon=1.0, delta=1e-6, mechanism=sketch).proof_status
'exact'
"""

from . import drawing as _drawing  # noqa: F401 - by which the mechanisms are released
from . import theorems
from .laws import InverseGaussianLaw, InverseWishartLaw, SketchLaw, WishartLaw
from .mechanisms import (
    AdditiveWishart as AdditiveWishart,  # which the root has, and its page describes
)
from .mechanisms import (
    GaussianSketch,
    InverseGauss,
    InverseWishart,
    adaptive_pays,
    adaptive_sketch,
    sketch_ratio,
    sketch_rows,
)
from .profiles import (
    AdaptiveLadderProfile,
    AdaptiveSketchProfile,
    SketchProfile,
    TwoSketchesProfile,
)
from .published import (
    PublishedAdditiveWishart,
    PublishedAnalyzeGauss,
    PublishedGaussianSketch,
    PublishedInverseGauss,
    PublishedInverseWishart,
    published,
)
from .theorems import *  # noqa: F403 - a theorem is a function of this room by its number
from .wishart import WishartProfile, wishart_dof, wishart_noise, wishart_ratio

__all__ = [
    "AdaptiveLadderProfile",
    "AdaptiveSketchProfile",
    "GaussianSketch",
    "InverseGauss",
    "InverseGaussianLaw",
    "InverseWishart",
    "InverseWishartLaw",
    "PublishedAdditiveWishart",
    "PublishedAnalyzeGauss",
    "PublishedGaussianSketch",
    "PublishedInverseGauss",
    "PublishedInverseWishart",
    "SketchLaw",
    "SketchProfile",
    "TwoSketchesProfile",
    "WishartLaw",
    "WishartProfile",
    "adaptive_pays",
    "adaptive_sketch",
    "published",
    "sketch_ratio",
    "sketch_rows",
    "wishart_dof",
    "wishart_noise",
    "wishart_ratio",
]
__all__ += theorems.__all__
