"""The laws of the noise in a release: public knowledge, used by post-processing.

Each law says what a released matrix M is, given the second moment G, and offers
what statistics needs of it: the shift that remains in expectation and the
second moments of the noise N = M - E[M], as E[N A N] for a fixed matrix A.

What post-processing makes of a release has a law again: a linear image L M L^T (`ImageLaw`),
noise with entries set to their known zeros (`MaskedLaw`) or projected on linear equations that
the second moment solves (`TiedLaw`), independent releases combined entry by entry (`combine`).
"""

from __future__ import annotations

from privgram.noise._law import ImageLaw, NoiseLaw
from privgram.noise.gaussian import (
    EntryLaw,
    GaussianLaw,
    MaskedLaw,
    TiedLaw,
    combine,
    imposed,
    symmetric_gaussian,
)
from privgram.noise.sums import added_up
from privgram.noise.wishart import (
    MatrixLaplaceLaw,
    WishartLaw,
    matrix_laplace,
    standard_wishart,
)

__all__ = [
    "EntryLaw",
    "GaussianLaw",
    "ImageLaw",
    "MaskedLaw",
    "MatrixLaplaceLaw",
    "NoiseLaw",
    "TiedLaw",
    "WishartLaw",
    "added_up",
    "combine",
    "imposed",
    "matrix_laplace",
    "standard_wishart",
    "symmetric_gaussian",
]
