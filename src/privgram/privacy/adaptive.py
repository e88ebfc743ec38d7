r"""Privacy profile of the adaptive variants (Algorithms 2 and 5 of Sheffet [1]_).

The smallest eigenvalue of the data is itself a regulariser. With Laplace noise of scale b,

    s = max(0, lambda_min(G) - shift + Laplace(b))

is subtracted from the regulariser w^2, never to leave less than nothing. One row moves
lambda_min(G) by at most B^2, from lambda = lambda_min(M) up, M being what the two data sets
have in common. With z = s + shift - lambda, and before the clip at 0, the sketch sees at
least w^2 - s + lambda = R - z common to both, R = w^2 + shift: so it runs at ratio
lam(z) = B^2 / (R - z) whatever the data, and

    delta(epsilon) = integral over z of p(z) H_{epsilon - ln(p(z) / q(z))}(sketch at lam(z)),

p and q the densities of z for the two data sets. No failure probability is set aside: what
a noisy eigenvalue too large leaks is in the integral. The clip joins all z < a = shift -
lambda into one output, sketched at lam(a); the profile takes the worst a.

Add-remove: the eigenvalue and the sketch are moved together by a row along the smallest
eigenvector, which for a sketch is the wide law's and for an inverse Wishart the narrow
one's; the profile is the larger of the two. Replace: an upper bound, as no pair moves both
the most. Also, where s exceeds w^2 the code has a regulariser of 0, not of less.

References
----------
.. [1] O. Sheffet, "Private Approximations of the 2nd-Moment Matrix Using Existing
   Techniques in Linear Regression", arXiv:1507.00056, 2015, Algorithms 2 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from privgram._checks import check_not_negative

from ._adjacency import Adjacency, check_adjacency
from ._numerics import TINY, Array, gauss_legendre, quiet
from ._profile import Profile, check_parameter
from .sketch import check_count, narrow_against_wide, replace_pair, wide_against_narrow

__all__ = ["AdaptiveSketchProfile", "adaptive_delta"]

# Hockey-stick curve of the sketch's pair, as a function of (epsilon, ratio).
Sketch = Callable[[Array, Array], Array]

_STEPS = 12
# Noise further out than this many scales counts as a breach: exp(-105) is 3e-46.
_REACH = 105.0
# What the replace pair's truncated mixture may miss.
_MISSED = 1e-40


def _laplace_log_cdf(z: Array, scale: float) -> Array:
    size = np.abs(z) / scale
    return np.where(z < 0.0, -math.log(2.0) - size, np.log1p(-0.5 * np.exp(-size)))


@quiet
def adaptive_delta(
    epsilon: float,
    sketch: Sketch,
    shifts: tuple[float, float],
    total: float,
    scale: float,
    clips: Array,
    nodes: int = 80,
) -> Array:
    """Delta of one ordered pair for each clip a, in units of B^2.

    Parameters
    ----------
    epsilon : float
        Any real number.
    sketch : callable
        Curve of the sketch's pair.
    shifts : (float, float)
        Excess of lambda_min over the common part's, under P and under Q, in [0, 1].
    total : float
        R > 1.
    scale : float
        b.
    clips : ndarray of float64
        Values of a in [0, total), ascending. The one at 0 also bounds those below: there
        ln(p/q) is constant, so that joining outputs hides nothing, while lam(a) grows.
    nodes : int
        Gauss-Legendre nodes of the longest panel.

    Returns
    -------
    ndarray of float64
        As many as `clips`.
    """
    p_shift, q_shift = shifts
    edges = np.union1d(clips, [1.0]) if clips[-1] < 1.0 else clips
    # Panels between the edges, at distance R - z from the end.
    low, high = edges[:-1], edges[1:]
    inner = [
        gauss_legendre(x, y, max(math.ceil(nodes * 0.5 * min(y - x, 1.0)), 8) if y <= 1 else 8)
        for x, y in zip(low, high, strict=True)
    ]
    # Beyond: where the noise lives, then where the sketch gives way, lam(z) being singular.
    start = edges[-1]
    end = min(total, max(start, p_shift) + _REACH * scale)
    middle = min(start + 12.0 * scale, 0.5 * (start + end))
    inner.append(gauss_legendre(start, middle, nodes // 2))
    t, weight = gauss_legendre(np.zeros(()), np.ones(()), nodes)
    length = end - middle
    distance = np.concatenate([total - z for z, _ in inner] + [(total - end) + length * t**3])
    weight = np.concatenate([w for _, w in inner] + [3.0 * length * weight * t * t])
    sizes = [z.size for z, _ in inner[:-1]] + [inner[-1][0].size + nodes]
    z = total - distance
    gain = (np.abs(z - q_shift) - np.abs(z - p_shift)) / scale
    density = np.exp(-np.abs(z - p_shift) / scale) / (2.0 * scale)
    below = _laplace_log_cdf(clips - p_shift, scale)
    joined = below - _laplace_log_cdf(clips - q_shift, scale)
    curve = sketch(
        epsilon - np.concatenate([gain, joined]),
        1.0 / np.concatenate([distance, total - clips]),
    )
    panels = np.add.reduceat(weight * density * curve[: z.size], np.cumsum([0, *sizes[:-1]]))
    beyond = 0.5 * math.exp(-(end - p_shift) / scale)
    tails = np.cumsum(panels[::-1])[::-1] + beyond
    return np.exp(below) * curve[z.size :] + tails[np.searchsorted(edges, clips)]


def _curve(pair: Callable[..., Array], rows: float, epsilon: Array, ratio: Array) -> Array:
    return pair(epsilon, rows, ratio)


def sketch_pairs(
    rows: float, adjacency: Adjacency
) -> tuple[tuple[Sketch, tuple[float, float]], ...]:
    """Pairs of the sketch with the shifts of the smallest eigenvalue, the worst one first.

    Under "add-remove" the larger data set has the larger eigenvalue, and the wide law if what
    is released is a sketch, the narrow one if it is an inverse Wishart: both are covered. Other
    shifts leak less.
    """
    if adjacency == "add-remove":
        wide = partial(_curve, wide_against_narrow, rows)
        narrow = partial(_curve, narrow_against_wide, rows)
        return tuple(product((wide, narrow), ((1.0, 0.0), (0.0, 1.0))))
    pair = partial(replace_pair, rows=rows)
    return (pair, (1.0, 0.0)), (pair, (0.0, 1.0))


@dataclass(frozen=True)
class AdaptiveSketchProfile(Profile):
    r"""Privacy profile of an adaptive sketch or inverse Wishart, its eigenvalue included.

    Lengths are in units of B^2.

    Parameters
    ----------
    rows : float
        Rows r >= 1 of the sketch, or degrees of freedom.
    regulariser : float
        w^2 > 0, before anything is subtracted from it.
    shift : float
        At least 0: what the noisy smallest eigenvalue is lowered by.
    scale : float
        Scale b > 0 of the Laplace noise on it.
    adjacency : {"replace", "add-remove"}
        Notion of neighbours.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or regulariser + shift is not above 1: the
        eigenvalue may move by that much.

    Notes
    -----
    The supremum over the data's smallest eigenvalue is taken on a grid.

    References
    ----------
    Sheffet, arXiv:1507.00056, Algorithms 2 and 5.
    """

    _guarantee = "bounded"

    _dots = 1 << 9

    rows: float
    regulariser: float
    shift: float
    scale: float
    adjacency: Adjacency = "replace"

    def __post_init__(self) -> None:
        check_count(self.rows, "rows")
        check_parameter(self.regulariser, "regulariser")
        check_not_negative(self.shift, "shift")
        check_parameter(self.scale, "scale")
        check_adjacency(self.adjacency)
        if self.regulariser + self.shift <= 1:
            raise ValueError("regulariser + shift must be above 1, the bound of a row squared")

    def _delta(self, epsilon: Array) -> Array:
        return np.array([self._delta_at(float(e)) for e in epsilon])

    def _delta_at(self, epsilon: float) -> float:
        total = self.regulariser + self.shift
        steps = np.linspace(min(1.0, self.shift), self.shift, _STEPS + 1)
        clips = np.unique([0.0, min(0.5, self.shift), *steps])
        worst = max(
            _maximum(adaptive_delta(epsilon, sketch, shifts, total, self.scale, clips))
            for sketch, shifts in sketch_pairs(float(self.rows), self.adjacency)
        )
        return worst + _MISSED

    def _floor(self) -> float:
        # What an eigenvalue that eats up the whole regulariser gives away.
        total = self.regulariser + self.shift
        return max(0.5 * math.exp(-(total - 1.0) / self.scale), TINY)


def _maximum(values: Array) -> float:
    """Maximum of a smooth function from values on a grid, with allowance for what lies between.

    Twice what a parabola through the largest value and its neighbours has over it.
    """
    i = int(np.argmax(values))
    top = float(values[i])
    if 0 < i < values.size - 1:
        left, right = top - values[i - 1], top - values[i + 1]
        top += 0.25 * float((left - right) ** 2 / max(left + right, TINY))
    return top
