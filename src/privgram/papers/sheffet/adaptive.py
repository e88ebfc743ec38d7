r"""Privacy profile of the adaptive variants (Algorithms 2 and 5 of Sheffet [1]_).

The smallest eigenvalue of the data is itself a regulariser. With Laplace noise of scale b,

    s = max(0, lambda_min(G) - shift + Laplace(b))

is subtracted from the regulariser w^2, never to leave less than nothing. Let m be the smaller of
the two tables' smallest eigenvalues and g, their gap, in units of B^2 at most 1. With z = s +
shift - m, and before the clip at 0, the smaller of what the two sketches have left is

    rho = max(R - z, m),  R = w^2 + shift,

and the other's exceeds it by g. So their ratios are 1 / rho and 1 / (rho + g), whatever the data,

    delta(epsilon) = integral over z of p(z) H_{epsilon - ln(p(z) / q(z))}(their pair),

p and q the densities of z for the two tables, and some two tables attain it. No failure
probability is set aside: what a noisy eigenvalue too large leaks is in the integral. The clip
joins all z < shift - m into one output.

What is left is a supremum over two numbers, gap and clip. The profile bounds it, with a proof in
docs/theory/sheffet.md: clips are rounded to cells, shifts between two are bounded by those two
and one more, and cells are refined until the bound is within a per cent of what is attained.

References
----------
.. [1] O. Sheffet, "Private Approximations of the 2nd-Moment Matrix Using Existing
   Techniques in Linear Regression", arXiv:1507.00056, 2015, Algorithms 2 and 5.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from privgram._base.checks import check_not_negative
from privgram.papers._gaussians import (
    check_count,
    narrow_against_wide,
    wide_against_narrow,
    wide_and_narrow,
)
from privgram.privacy._adjacency import Adjacency, check_adjacency
from privgram.privacy._numerics import TINY, Array, gauss_legendre, quiet
from privgram.privacy._profile import Profile, check_parameter

__all__ = ["AdaptiveSketchProfile", "adaptive_delta"]

# Hockey-stick curve of a pair of sketches, as a function of epsilon and of B^2 over the smaller
# of the two smallest eigenvalues.
Sketch = Callable[[Array, Array], Array]

# Cells of the clip up to 1, from there on, and into how many the last is halved.
_UNIT_CELLS, _CELLS, _HALVINGS = 8, 10, 6
# Cells of the gap at most, rounds in which those of the clip are made finer at most, and what the
# bound may exceed, relatively, where these suffice.
_PARTS, _ROUNDS, _EXCESS = 64, 5, 8e-3
# Noise further out than this many scales counts as a breach: exp(-105) is 3e-46.
_REACH = 105.0
# What the chi mixture of a pair may miss.
_MISSED = 1e-40


def _laplace_log_cdf(z: Array, scale: float) -> Array:
    size = np.abs(z) / scale
    return np.where(z < 0.0, -math.log(2.0) - size, np.log1p(-0.5 * np.exp(-size)))


def _panels(
    edges: Array, kink: float, total: float, scale: float, nodes: int
) -> tuple[Array, Array, Array, NDArray[np.intp]]:
    """Nodes z and weights of a rule on [edges[0], total), by panels at the edges, and total - z.

    Also where each panel starts. The last is all that lies beyond the edges.
    """

    def count(length: float, to: float) -> int:
        # Up to the last kink ln(p/q) goes from one end to the other, and epsilon with it.
        return min(5 + math.ceil(nodes * length / 2 if to <= kink else 4 * length / scale), nodes)

    panels = [gauss_legendre(x, y, count(y - x, y)) for x, y in itertools.pairwise(edges)]
    # Beyond: where the noise lives, then where the sketch gives way, its ratio being singular.
    start = edges[-1]
    end = min(total, max(start, 1.0) + _REACH * scale)
    middle = min(start + 12.0 * scale, 0.5 * (start + end))
    panels.append(gauss_legendre(start, middle, nodes // 2))
    t, weight = gauss_legendre(np.zeros(()), np.ones(()), nodes)
    length = end - middle
    distance = np.concatenate([total - z for z, _ in panels] + [(total - end) + length * t**3])
    panels.append((end - length * t**3, 3.0 * length * weight * t * t))
    z, weight = (np.concatenate(x) for x in zip(*panels, strict=True))
    starts = np.cumsum([0, *(x.size for x, _ in panels[:-2])])
    return z, weight, distance, starts


@quiet
def adaptive_delta(
    epsilon: float,
    sketch: Sketch,
    p_shift: float,  # smallest eigenvalue under P, less the smaller of those under P and Q
    q_shifts: tuple[float, float],  # the least and the largest under Q
    total: float,  # R > 1
    shift: float,  # tau in [0, R]
    scale: float,  # b
    # the least and largest of each cell, ascending in [0, shift]; one at 0 also bounds those below
    clips: tuple[Array, Array],
    nodes: int = 80,
) -> Array:
    """Delta of one ordered pair for each cell of clips and a range of shifts, in units of B^2.

    An upper bound, and exact for a cell of one clip and a range of one shift. Clips are rounded
    down, but up to the end of their cell the sketch runs as there (Lemma 3 of
    docs/theory/sheffet.md); at every z the least density of the shifts under Q counts.
    """
    low, high = clips
    q_low, q_high = q_shifts
    kinks = [p_shift, q_low, 0.5 * (q_low + q_high), q_high]
    # From the stop on the regulariser is 0, and what is left the data's own eigenvalue.
    own = shift - high
    stop = np.maximum(total - own, max(kinks))
    stop[(own <= 0.0) | (stop > _REACH * scale) | (stop >= total)] = total
    edges = np.unique(np.concatenate([low, high, kinks, stop]))
    edges = edges[(edges >= low[0]) & (edges < total)]
    z, weight, distance, starts = _panels(edges, max(kinks), total, scale, nodes)

    def gain(x: Array) -> Array:
        """Largest ln(p/q)."""
        lowest = np.maximum(np.abs(x - q_low), np.abs(x - q_high))
        return (lowest - np.abs(x - p_shift)) / scale

    log_p = np.stack([_laplace_log_cdf(x - p_shift, scale) for x in (low, high)])
    joined = log_p - np.stack([_laplace_log_cdf(x - q_high, scale) for x in (low, high)])
    at_high = 1.0 / (total - high)
    # Both ln(p/q), linear between the kinks, and `joined` are largest at an end of the cell.
    levels = [gain(z), joined[0], np.max(joined, axis=0), np.maximum(gain(low), gain(high))]
    ratios = [1.0 / np.maximum(distance, 1e-200), at_high, at_high, at_high]
    # And beyond the stop.
    levels.append(np.full(low.size, (p_shift - q_low) / scale))
    ratios.append(1.0 / np.where(stop < total, own, 1.0))
    curve = sketch(epsilon - np.concatenate(levels), np.concatenate(ratios))
    density = np.exp(-np.abs(z - p_shift) / scale) / (2.0 * scale)
    panels = np.add.reduceat(weight * density * curve[: z.size], starts)
    beyond = np.append(np.cumsum(panels[::-1])[::-1], 0.0)
    atom, largest, step, last = curve[z.size :].reshape(4, -1)
    left = 0.5 * np.exp(-(np.minimum(stop, p_shift + _REACH * scale) - p_shift) / scale)
    last = left * np.where(stop < total, last, 1.0)

    def tail(x: Array) -> Array:
        rest: Array = beyond[np.searchsorted(edges, x)] - beyond[np.searchsorted(edges, stop)]
        return rest + last

    mass = 0.5 * np.abs(np.diff(np.exp(-np.abs(np.stack(clips) - p_shift) / scale), axis=0)[0])
    rounded = np.exp(log_p[0]) * atom + mass * step + tail(high)
    apart = np.exp(log_p[1]) * largest + tail(low)
    least: Array = np.minimum(rounded, apart)
    return least


def _cells(highest: float, kinks: tuple[float, ...]) -> tuple[Array, Array]:
    """Cells that clips in [0, highest] are rounded in, finer towards the last."""
    ends = np.arange(_UNIT_CELLS + 1) / _UNIT_CELLS
    if highest > 1.0:
        even = np.arange(1, _CELLS) / _CELLS
        last = 1.0 - 0.5 ** np.arange(1, _HALVINGS + 1) / _CELLS
        ends = np.concatenate([ends, 1.0 + (highest - 1.0) * np.append(even, last)])
    ends = np.union1d(ends, kinks)
    ends = np.append(ends[ends < highest], highest)
    return (ends[:-1], ends[1:]) if highest > 0.0 else (ends, ends)


def worst_case(
    epsilon: float,
    rows: float,
    total: float,
    shift: float,
    scale: float,
    adjacency: Adjacency,
) -> float:
    """Upper bound on delta over all gaps and clips: docs/theory/sheffet.md, Lemmas 1 to 3.

    The gap is the smallest eigenvalue under P less that under Q. At most budgets the largest leaks
    most, and one bound on all the others says so; where it does not, their cells are halved until
    what bounds them is near the largest delta found.
    """
    setting = total, shift, scale
    kinds = range(len(sketch_curves(rows, adjacency)))

    def bound(which: int, gap: float, p_shift: float, low: float, high: float) -> float:
        """Bound on all clips and on shifts in [low, high] under Q, near where above `largest`."""
        sketch = sketch_curves(rows, adjacency, gap)[which]
        settled, shown, worst = 0.0, largest, 0.0
        first, last = _cells(shift, (p_shift, low, 0.5 * (low + high), high))
        for _ in range(_ROUNDS):
            cells = np.append(first, last), np.append(last, last)
            at = adaptive_delta(lowered, sketch, p_shift, (low, high), *setting, cells)
            worse, at_last = at.reshape(2, -1)
            shown = max(shown, float(np.max(at_last)))
            more = worse > (1.0 + _EXCESS / 2.0) * shown
            settled = max(settled, float(np.max(worse[~more], initial=0.0)))
            if not more.any():
                return settled
            worst = float(np.max(worse))
            ends = np.linspace(first[more], last[more], 5)
            first, last = ends[:-1].ravel(), ends[1:].ravel()
        return max(settled, worst)

    largest, lowered = 0.0, epsilon
    for which, gap in itertools.product(kinds, (1.0, 0.0, -1.0)):
        low = max(-gap, 0.0)
        largest = max(largest, bound(which, gap, max(gap, 0.0), low, low))
    # Cells of gaps: the sketches are those of the least, which is moved to the largest shift.
    ends = -1.0, 0.0, *(1.0 - 0.5**k for k in range(1, _HALVINGS)), 1.0
    cells = [(which, *cell) for which in kinds for cell in itertools.pairwise(ends)]
    found, parts = largest, len(cells)
    while cells:
        which, least, most = cells.pop()
        width, p_shift, low = most - least, max(most, 0.0), max(-most, 0.0)
        pair = which, max(least, most, key=lambda gap: -abs(gap)), p_shift
        lowered = epsilon
        worst = bound(*pair, low, low + width)
        if worst > found:
            shown = max(bound(*pair, q, q) for q in (low, low + width))
            if shown < min((1.0 + _EXCESS) * largest, worst):
                lowered = epsilon - _log_cosh(0.5 * width / scale)
                middle = low + 0.5 * width
                worst = min(worst, max(shown, bound(*pair, middle, middle)))
        if worst <= (1.0 + _EXCESS) * largest or parts == _PARTS:
            found = max(found, worst)
        else:
            half, parts = 0.5 * (least + most), parts + 1
            cells += [(which, least, half), (which, half, most)]
    return found


def _log_cosh(x: float) -> float:
    return x + math.log1p(math.exp(-2.0 * x)) - math.log(2.0)


def sketch_curves(rows: float, adjacency: Adjacency, gap: float = 0.0) -> tuple[Sketch, ...]:
    """Curves of the sketch's worst pairs, for a gap in [-1, 1] between the smallest eigenvalues.

    Under "add-remove" the larger eigenvalue comes with the wide law if what is released is a
    sketch, with the narrow one if it is an inverse Wishart: both are covered.
    """

    def replaced(epsilon: Array, ratio: Array) -> Array:
        # Each law's row stands out from what the other's smallest eigenvalue hides.
        wide, narrow = (ratio / (1.0 + max(x, 0.0) * ratio) for x in (-gap, gap))
        return wide_and_narrow(epsilon, rows, wide, narrow)

    if adjacency == "add-remove":
        return tuple(partial(_curve, x, rows) for x in (wide_against_narrow, narrow_against_wide))
    return (replaced,)


def _curve(pair: Callable[..., Array], rows: float, epsilon: Array, ratio: Array) -> Array:
    return pair(epsilon, rows, ratio)


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
    it, and within 1 % of the delta that some two tables attain, at every epsilon
    (docs/theory/sheffet.md). It is less than that of earlier versions, so profiles that they
    saved keep their claims.

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
