r"""C. Dwork, K. Talwar, A. Thakurta and L. Zhang, "Analyze Gauss: Optimal Bounds for
Privacy-Preserving Principal Component Analysis", STOC 2014.

Shared parameters are documented in `privgram.papers`.
"""

from __future__ import annotations

import math

from privgram._base.numbers import check_budget, check_positive
from privgram.privacy import Adjacency, GaussianProfile

from ._shared import require_private, second_moment_sensitivity

__all__ = ["analyze_gauss"]


def analyze_gauss(
    bound: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
    *,
    allow_published_erratum: bool = False,
) -> float:
    r"""Standard deviation of Analyze Gauss, with the sensitivity that Sheffet's section 2 gives it.

    .. math:: \sigma = B^2 \sqrt{2 \ln(2/\delta)} / \epsilon

    The variance is that of the proof of Sheffet's Theorem B.5. The sensitivity B² is right when
    a row is added or removed. Replacing a row moves the second moment by up to
    :math:`\sqrt2 B^2`, which this noise covers only where the tail bound has that much to spare.

    Returns
    -------
    float
        Standard deviation of each entry on or above the diagonal, in squared data units.
    """
    check_budget(epsilon, delta)
    sigma = check_positive(bound, "bound") ** 2 * math.sqrt(2 * math.log(2 / delta)) / epsilon
    require_private(
        GaussianProfile(second_moment_sensitivity(bound, adjacency) / sigma),
        epsilon,
        delta,
        "Sheffet, section 2: B^4 is the squared sensitivity for adding or removing a row, "
        "replacing one gives up to 2 B^4"
        if adjacency == "replace"
        else "Sheffet, section 2: the Gaussian tail bound fails for an epsilon this large",
        allow_published_erratum,
    )
    return sigma
