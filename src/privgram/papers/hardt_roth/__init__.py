r"""Private low-rank approximation: the find-and-project algorithm of Hardt and Roth [1]_.

A range finder shows :math:`Y = A\Omega + N` and keeps an orthonormal basis W of its columns;
large entries of W are set to zero; a projection shows :math:`C = W^T A + N'`. The result is
W C, of rank k. Neighbours are matrices that differ in one row by at most `row_change` in L2.

Given :math:`\Omega` both steps are Gaussian mechanisms, so the two together have a profile
in closed form (`ChiGaussianProfile`), and the noise is calibrated to it.
Everything after the two noisy products is post-processing.

A, SECRET, is an array, a CSR or CSC matrix, or a re-iterable of row blocks, of shape (m, n). What
a function does not say of its parameters, and of what it refuses, is said in `approximate`.

References
----------
.. [1] M. Hardt and A. Roth, "Beating Randomized Response on Incoherent Matrices",
   STOC 2012, arXiv:1111.0623.
"""

from .baselines import (
    Coherence,
    coherence,
    frobenius_error,
    halko_martinsson_tropp,
    randomised_response,
)
from .calibration import LowRankCalibration, calibrate
from .factors import LowRank, load_low_rank
from .pfp import approximate, entry_limit, project, prune, range_finder
from .theorems import (
    ChiGaussianProfile,
    chi_gaussian_offset,
    chi_gaussian_ratio,
    figure_2,
    figure_3,
    prune_level,
    theorem_2_6,
    theorem_6_2,
    theorem_6_3,
)

__all__ = [
    "ChiGaussianProfile",
    "Coherence",
    "LowRank",
    "LowRankCalibration",
    "approximate",
    "calibrate",
    "chi_gaussian_offset",
    "chi_gaussian_ratio",
    "coherence",
    "entry_limit",
    "figure_2",
    "figure_3",
    "frobenius_error",
    "halko_martinsson_tropp",
    "load_low_rank",
    "project",
    "prune",
    "prune_level",
    "randomised_response",
    "range_finder",
    "theorem_2_6",
    "theorem_6_2",
    "theorem_6_3",
]
