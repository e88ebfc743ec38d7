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
lambda into one output, sketched at lam(a).

The profile is an upper bound over every lambda and every shift of the eigenvalue, proved in
docs/theory/adaptive.md: the clip is rounded to cells, and shifts between two are bounded by
those two and one more. Nothing but the accuracy of the quadrature is left to numerics. Under
add-remove the bound is attained, to about 1e-3, at usual budgets, by a row along the smallest
eigenvector; under replace no pair moves eigenvalue and sketch both the most. Also, where s
exceeds w^2 the code has a regulariser of 0, not of less.

References
----------
.. [1] O. Sheffet, "Private Approximations of the 2nd-Moment Matrix Using Existing
   Techniques in Linear Regression", arXiv:1507.00056, 2015, Algorithms 2 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from privgram._base.checks import check_not_negative

from ._adjacency import Adjacency, check_adjacency
from ._numerics import TINY, Array, gauss_legendre, quiet
from ._profile import Profile, check_parameter
from .sketch import check_count, narrow_against_wide, replace_pair, wide_against_narrow

__all__ = ["AdaptiveSketchProfile", "adaptive_delta"]

# Hockey-stick curve of the sketch's pair, as a function of (epsilon, ratio).
Sketch = Callable[[Array, Array], Array]

# Cells of the clip up to 1, from there on, and into how many the last is halved.
_UNIT_CELLS, _CELLS, _HALVINGS = 8, 10, 6
# Most parts of the unit interval of shifts, where shifts less than the largest may leak more.
_PARTS = 16
# Noise further out than this many scales counts as a breach: exp(-105) is 3e-46.
_REACH = 105.0
# What the replace pair's truncated mixture may miss.
_MISSED = 1e-40


def _laplace_log_cdf(z: Array, scale: float) -> Array:
    size = np.abs(z) / scale
    return np.where(z < 0.0, -math.log(2.0) - size, np.log1p(-0.5 * np.exp(-size)))


def _panels(
    edges: Array, total: float, scale: float, p_shift: float, nodes: int
) -> tuple[Array, Array, NDArray[np.intp], float]:
    """Distances R - z and weights of a rule on [edges[0], total), by panels between the edges.

    Also where each panel starts, and the mass of the noise that counts as a breach. The last
    panel is all that lies beyond the edges.
    """
    low, high = edges[:-1], edges[1:]
    inner = [
        gauss_legendre(x, y, max(math.ceil(nodes * 0.5 * (y - x)), 5) if y <= 1 else 6)
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
    starts = np.cumsum([0, *(z.size for z, _ in inner[:-1])])
    return distance, weight, starts, 0.5 * math.exp(-(end - p_shift) / scale)


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
    kinks = [x for x in (p_shift, q_shift, 1.0) if clips[0] < x]
    edges = np.union1d(clips, kinks)
    distance, weight, starts, beyond = _panels(edges, total, scale, p_shift, nodes)
    z = total - distance
    gain = (np.abs(z - q_shift) - np.abs(z - p_shift)) / scale
    density = np.exp(-np.abs(z - p_shift) / scale) / (2.0 * scale)
    below = _laplace_log_cdf(clips - p_shift, scale)
    joined = below - _laplace_log_cdf(clips - q_shift, scale)
    curve = sketch(
        epsilon - np.concatenate([gain, joined]),
        1.0 / np.concatenate([distance, total - clips]),
    )
    panels = np.add.reduceat(weight * density * curve[: z.size], starts)
    tails = np.cumsum(panels[::-1])[::-1] + beyond
    return np.exp(below) * curve[z.size :] + tails[np.searchsorted(edges, clips)]


@quiet
def adaptive_bound(
    epsilon: float,
    sketch: Sketch,
    p_shift: float,
    q_shifts: tuple[float, float],
    total: float,
    scale: float,
    highest: float,
    nodes: int = 80,
) -> float:
    """Upper bound on delta over a range of clips and of shifts under Q, in units of B^2.

    Clips are rounded: for those in a cell [c, c'] the clip is put at c, and up to c' the sketch
    runs at lam(c'). The least density of the shifts under Q counts at every z.

    Parameters
    ----------
    epsilon, sketch, total, scale, nodes
        As for `adaptive_delta`.
    p_shift : float
        Shift under P, in [0, 1].
    q_shifts : (float, float)
        Least and largest shift under Q, in [0, 2].
    highest : float
        The clip lies in [0, highest], or below 0; `highest` is below `total`.
    """
    q_low, q_high = q_shifts
    kinks = np.array([p_shift, q_low, q_high, 0.5 * (q_low + q_high), 1.0])
    kinks = kinks[(kinks > 0.0) & (kinks < total)]
    cells = np.union1d(_cells(highest), kinks[kinks < highest])
    edges = np.union1d(cells, kinks)
    distance, weight, starts, beyond = _panels(edges, total, scale, p_shift, nodes)
    z = total - distance

    def gain(x: Array) -> Array:
        """Largest ln(p/q)."""
        lowest = np.maximum(np.abs(x - q_low), np.abs(x - q_high))
        gap: Array = (lowest - np.abs(x - p_shift)) / scale
        return gap

    at, upper = (cells[:-1], cells[1:]) if highest > 0.0 else (cells, cells)
    log_p = _laplace_log_cdf(cells - p_shift, scale)
    joined = log_p - _laplace_log_cdf(cells - q_high, scale)
    # Both ln(p/q), linear between the kinks, and `joined` are largest at an end of the cell.
    within = np.maximum(gain(at), gain(upper))
    either = np.maximum(joined[: at.size], joined[-at.size :])
    raised = 1.0 / (total - upper)
    curve = sketch(
        epsilon - np.concatenate([gain(z), joined[: at.size], within, either]),
        np.concatenate([1.0 / distance, raised, raised, raised]),
    )
    density = np.exp(-np.abs(z - p_shift) / scale) / (2.0 * scale)
    panels = np.add.reduceat(weight * density * curve[: z.size], starts)
    tails = np.cumsum(panels[::-1])[::-1] + beyond
    atom, step, largest = curve[z.size :].reshape(3, -1)
    far, near = (np.exp(-np.abs(x - p_shift) / scale) for x in (at, upper))
    mass = 0.5 * np.abs(far - near)
    rounded = np.exp(log_p[: at.size]) * atom + mass * step + tails[np.searchsorted(edges, upper)]
    apart = np.exp(log_p[-at.size :]) * largest + tails[np.searchsorted(edges, at)]
    return float(np.max(np.minimum(rounded, apart)))


def _cells(highest: float) -> Array:
    """Ends of the cells that clips in [0, highest] are rounded to, finer towards the last."""
    first = np.arange(_UNIT_CELLS + 1) / _UNIT_CELLS
    if highest <= 1.0:
        return np.append(first[first < highest], highest) if highest > 0.0 else np.zeros(1)
    even = np.arange(1, _CELLS) / _CELLS
    last = 1.0 - 0.5 ** np.arange(_HALVINGS + 1) / _CELLS
    return np.concatenate([first, 1.0 + (highest - 1.0) * np.append(even, [*last[1:], 1.0])])


def worst_case(
    epsilon: float,
    rows: float,
    total: float,
    shift: float,
    scale: float,
    adjacency: Adjacency,
) -> float:
    """Upper bound on delta over all shifts and clips: docs/theory/adaptive.md, Lemmas 1 to 3.

    Moved so that the shift under P is 1, that under Q is in [0, 2]. At most budgets 0 leaks most,
    and one rough bound on all the others says so; where it does not, they are bounded in parts.
    """
    pairs = sketch_curves(rows, adjacency)

    @cache
    def bound(pair: Sketch, p_shift: float, low: float, high: float, between: float = 0.0) -> float:
        lowered = epsilon - _log_cosh(0.5 * between / scale)
        return adaptive_bound(lowered, pair, p_shift, (low, high), total, scale, shift)

    largest = max(bound(pair, 1.0, 0.0, 0.0) for pair in pairs)
    worst = largest
    for pair in pairs:
        others = bound(pair, 1.0, 0.5, 2.0, 1.0)
        if others <= largest:
            continue
        parts = largest
        for a, low, high in _shifts(adjacency, min(max(math.ceil(2.0 / scale), 2), _PARTS)):
            rough = bound(pair, a, low, high)
            if rough > parts:
                middle = 0.5 * (low + high)
                three = (
                    bound(pair, a, low, low),
                    bound(pair, a, high, high),
                    bound(pair, a, middle, middle, high - low),
                )
                parts = max(parts, min(rough, max(three)))
        worst = max(worst, min(others, parts))
    return worst


def _log_cosh(x: float) -> float:
    return x + math.log1p(math.exp(-2.0 * x)) - math.log(2.0)


def _shifts(adjacency: Adjacency, parts: int) -> list[tuple[float, float, float]]:
    """Shifts under P, and ranges of those under Q, that bound all others."""
    part = 1.0 / parts
    low = [i * part for i in range(parts)]
    if adjacency == "replace":
        return [(1.0, x, x + part) for x in low] + [(x + part, 1.0, 1.0 + part) for x in low]
    return [(x + part, 0.0, part) for x in low] + [(0.0, x, x + part) for x in low]


def _curve(pair: Callable[..., Array], rows: float, epsilon: Array, ratio: Array) -> Array:
    return pair(epsilon, rows, ratio)


def sketch_curves(rows: float, adjacency: Adjacency) -> tuple[Sketch, ...]:
    """Curves of the sketch's worst pairs.

    Under "add-remove" the larger eigenvalue comes with the wide law if what is released is a
    sketch, with the narrow one if it is an inverse Wishart: both are covered.
    """
    if adjacency == "add-remove":
        return tuple(partial(_curve, x, rows) for x in (wide_against_narrow, narrow_against_wide))
    return (partial(replace_pair, rows=rows),)


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
    An upper bound, with proof, over the data's smallest eigenvalue and over the rows that move
    it; above the supremum by about 0.1 % at usual budgets and up to 3 % seen where delta is of
    order 0.1 (docs/theory/adaptive.md). Profiles saved by earlier versions are given this bound
    as well: it may exceed, by so much, the delta that they were calibrated to.

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
        worst = worst_case(epsilon, float(self.rows), total, self.shift, self.scale, self.adjacency)
        return worst + _MISSED

    def _floor(self) -> float:
        # What an eigenvalue that eats up the whole regulariser gives away.
        total = self.regulariser + self.shift
        return max(0.5 * math.exp(-(total - 1.0) / self.scale), TINY)
