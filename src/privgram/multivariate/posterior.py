"""Intervals of partial correlations: quantiles of their posterior, given the release.

A partial correlation is a ratio of inverse entries. Where noise comes near the signal in a
direction of what is held fixed, no expansion of it holds. With a flat prior on the positive
definite matrices the second moment has the law of the release less the noise, restricted to them:
that takes draws, and no expansion (docs/theory/inference.md).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.arrays import Matrix, Vector
    from privgram.noise import NoiseLaw


#: Draws of the second moment: an end of an interval errs by 4 % of half its width.
DRAWS = 1000


def related(moment: Matrix, size: int, rest: bool) -> Matrix:
    """Scatter (..., p, p) of the first p columns with the others held fixed, or its inverse.

    The moments (..., k, k) are of the columns, and of what is held fixed with the ones. With `rest`
    each pair's other columns are held fixed as well: then the inverse says it.
    """
    across = moment[..., :size, size:]
    held = np.linalg.solve(moment[..., size:, size:], across.mT)
    scatter: Matrix = moment[..., :size, :size] - across @ held
    return np.asarray(np.linalg.inv(scatter)) if rest else scatter


def credible(
    law: NoiseLaw,
    released: Matrix,
    frame: Matrix,
    size: int,
    rest: bool,
    sampling: float,
    tails: Vector,
) -> NDArray[np.float64]:
    """Quantiles of the posterior of each partial correlation, shape (p, p, len(tails)).

    The law is that of the noise in `released`, (d, d), and the frame (k, d) has the columns, what
    is held fixed and the ones, as images of the released columns; `size` and `rest` are as of
    `related`. Sampling adds the variance `sampling` to Fisher's z of a correlation.

    Always the same for the same release. NaN where no more than half of the draws are second
    moments of the pair and of what is held fixed.
    """
    rng = np.random.default_rng(zlib.crc32(released.tobytes()))  # nothing secret is drawn
    middle = 2 * released - law.shift_matrix(len(released))
    drawn = np.array([frame @ (middle - law.draw(released, rng)) @ frame.T for _ in range(DRAWS)])
    block = drawn if rest else drawn[:, size:, size:]
    lost = np.linalg.eigvalsh(block)[:, 0] <= 0
    drawn[lost] = np.eye(len(frame))
    found = related(drawn, size, rest)
    above = np.triu_indices(size, 1)
    own = found.diagonal(axis1=1, axis2=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        r = found[:, *above] / np.sqrt(own[:, above[0]] * own[:, above[1]])
        z = np.arctanh(-r if rest else r) + np.sqrt(sampling) * rng.standard_normal((DRAWS, 1))
    told = np.isfinite(z) & ~lost[:, None]
    few = 2 * told.sum(axis=0) <= DRAWS
    z = np.where(few, 0.0, np.where(told, z, np.nan))
    # By this definition a further draw lies below with just the probability.
    quantiles = np.nanquantile(z, tails, axis=0, method="weibull")
    ends = np.ones((size, size, len(tails)))
    ends[above] = ends[above[::-1]] = np.where(few, np.nan, np.tanh(quantiles)).T
    return ends
