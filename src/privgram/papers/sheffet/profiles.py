"""Privacy profiles of the sketch and the inverse Wishart: alone, two together, adaptive."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from privgram._base.numbers import Adjacency, check_adjacency, check_not_negative, least_safe
from privgram.papers._gamma import (
    gamma_window_above,
    gamma_window_below,
    log_gamma_density,
    log_panels,
)
from privgram.papers._shared import (
    check_count,
    chi_gaussian_delta,
    chi_rule,
    mixture_ratio,
    narrow_against_wide,
    steepness,
    wide_against_narrow,
    wide_and_narrow,
)
from privgram.privacy._numerics import TINY, Array, Curve, gauss_legendre, quiet
from privgram.privacy.profiles import Profile, check_parameter

# The sketch (Algorithms 1 and 2 of Sheffet) shows r rows of N(0, G + w^2 I), and the inverse
# Wishart (Algorithms 4 and 5) a bijective image of the same. Whitening leaves one or two
# directions, and in each the pair is monotone in its variance: with lam = B^2 / w^2 the worst case
# is a pair of `privgram.papers._shared`. Under "add-remove" the table with the row has the wide
# law for a sketch; inversion makes it the narrow one for an inverse Wishart.

#: Which law of a pair the table with the row has: a sketch's is wide, an inverse's narrow.
Orientation = Literal["wide", "narrow"]

#: Of `TwoSketchesProfile`: a quarter of the nodes of a panel, and epsilons at once.
_SKETCH_NODES, _SKETCH_CHUNK = 96, 16


@dataclass(frozen=True)
class SketchProfile(Profile):
    r"""Privacy profile of the Gaussian sketch and of the inverse Wishart.

    Parameters
    ----------
    rows : float
        Rows r >= 1 of the sketch, or degrees of freedom of the inverse Wishart.
    ratio : float
        lam = B^2 / w^2 > 0 (B^2 / psi for the inverse Wishart).
    adjacency : {"replace", "add-remove"}
        Notion of neighbours.
    orientation : {"wide", "narrow"} or None
        Under "add-remove": the law of the table with the row. It is the wide one for a sketch
        and the narrow one for an inverse Wishart. Under "replace" it is always None.
    one_column : bool
        Under "replace": whether the table has but one column. Replacing a row is then no more
        than adding one or removing one, and which of the two is not known.

    Notes
    -----
    c releases with one ratio and one orientation are, together, exactly one with c times the
    rows; so are a sketch and an inverse Wishart under "replace".

    References
    ----------
    Sheffet, arXiv:1507.00056, Algorithms 1 and 4; docs/theory/sheffet.md, Theorems 1 to 3;
    arXiv:2309.01243 compares two Gaussians.
    """

    _proof_status = "exact"

    rows: float
    ratio: float
    adjacency: Adjacency = "replace"
    orientation: Orientation | None = "wide"
    one_column: bool = False

    def __post_init__(self) -> None:
        check_count(self.rows, "rows")
        check_parameter(self.ratio, "ratio")
        # One name for what is one law.
        if check_adjacency(self.adjacency) == "replace":
            object.__setattr__(self, "orientation", None)
        else:
            object.__setattr__(self, "one_column", False)
            if self.orientation not in get_args(Orientation):
                raise ValueError(
                    f'orientation must be "wide" or "narrow", not {self.orientation!r}'
                )
        if not isinstance(self.one_column, bool):
            raise TypeError(f"one_column must be True or False, not {self.one_column!r}")

    @classmethod
    def _joined(cls, profiles: list[Profile]) -> list[Profile]:
        """Add up rows of one ratio and orientation, and join two and two of those that are left."""
        rows: dict[tuple[float, Adjacency, Orientation | None], float] = {}
        rest = []
        for p in profiles:
            # One column may go up in one release and down in another.
            if isinstance(p, SketchProfile) and not p.one_column:
                key = p.ratio, p.adjacency, p.orientation
                rows[key] = rows.get(key, 0) + p.rows
            else:
                rest.append(p)
        added = [SketchProfile(n, *key) for key, n in rows.items()]
        if len(added) % 2:
            rest.append(added.pop())
        pairs = zip(added[::2], added[1::2], strict=True)
        return rest + [TwoSketchesProfile(*two) for two in pairs]

    def _pairs(self) -> tuple[Curve, ...]:
        rows, ratio = float(self.rows), np.asarray(self.ratio)
        return (
            lambda epsilon: wide_against_narrow(epsilon, rows, ratio),
            lambda epsilon: narrow_against_wide(epsilon, rows, ratio),
        )

    def _directions(self) -> tuple[Curve, ...]:
        if self.adjacency == "replace":
            return (self._curve,)
        return self._pairs() if self.orientation == "wide" else self._pairs()[::-1]

    def _delta(self, epsilon: Array) -> Array:
        if self.adjacency == "add-remove" or self.one_column:
            delta = np.maximum(*(curve(epsilon) for curve in self._pairs()))
        else:
            kappa = mixture_ratio(np.asarray(self.ratio))
            delta = chi_gaussian_delta(epsilon, float(self.rows), kappa)
        return np.maximum(delta, TINY)


@quiet
def _of_both(epsilon: Array, first: SketchProfile, second: SketchProfile, with_row: bool) -> Array:
    """Curve of the product of two pairs, P being of the table with the row or of the one without.

    An expectation over the loss of the one of fewer rows. The other's curve has a kink at the end
    of its losses, the sharper the fewer its rows; there a panel ends.
    """
    (wide_, a_, lam_), (wide, a, lam) = (
        ((p.orientation == "wide") == with_row, p.rows / 2.0, np.asarray(float(p.ratio)))
        for p in sorted((first, second), key=lambda p: p.rows)
    )
    log = np.log1p(lam_)
    slope, constant = (lam_, -log) if wide_ else (-lam_ / (1.0 + lam_), log)
    curve = wide_against_narrow if wide else narrow_against_wide
    end = a * np.log1p(lam) * (-1.0 if wide else 1.0)
    centre = np.zeros(epsilon.size)
    # As far as a delta of 1e-300 comes from.
    low, high = gamma_window_below(a_, centre, 760.0), gamma_window_above(a_, centre, 760.0)
    bulk = gamma_window_above(a_, centre)
    kink = np.log(((epsilon - end) / a_ - constant) / slope)
    kink = np.clip(np.where(np.isnan(kink), 0.0, kink), low, high)
    edges = tuple(np.sort([low, centre, kink, bulk, high], axis=0))
    w, weight = log_panels(edges, 4 * _SKETCH_NODES)
    level = epsilon[:, None] - a_ * (constant + slope * np.exp(w))
    rest = curve(level.ravel(), 2.0 * a, lam).reshape(w.shape)
    return np.asarray(np.sum(weight * np.exp(log_gamma_density(a_, w)) * rest, axis=-1))


@dataclass(frozen=True)
class TwoSketchesProfile(Profile):
    r"""Privacy profile of two sketches or inverse Wisharts, of different ratio or orientation.

    Exact: docs/theory/composition.md, "Exactly". Made by `compose`; those of one ratio and
    orientation are one `SketchProfile`.

    Parameters
    ----------
    first, second : SketchProfile
        Both for the same notion of neighbours; under "replace" for more than one column.

    Raises
    ------
    ValueError
        If they do not go together.
    """

    _proof_status = "exact"
    _dots = 1 << 9
    nested = ("first", "second")

    first: SketchProfile
    second: SketchProfile

    def __post_init__(self) -> None:
        for p in (self.first, self.second):
            if not isinstance(p, SketchProfile):
                raise TypeError(f"a SketchProfile is needed, not {type(p).__name__}")
            if p.adjacency != self.first.adjacency or p.one_column:
                raise ValueError("the two sketches have no worst pair of tables in common")

    @property
    def adjacency(self) -> Adjacency:
        """Notion of neighbours."""
        return self.first.adjacency

    @property
    def _parts(self) -> tuple[Profile, ...]:
        return self.first, self.second

    def _pairs(self) -> tuple[Curve, ...]:
        return tuple(partial(self._in_order, with_row=x) for x in (True, False))

    def _directions(self) -> tuple[Curve, ...]:
        return (self._curve,) if self.adjacency == "replace" else self._pairs()

    def _in_order(self, epsilon: Array, with_row: bool) -> Array:
        parts = np.split(epsilon, np.arange(_SKETCH_CHUNK, epsilon.size, _SKETCH_CHUNK))
        return np.concatenate([_of_both(x, self.first, self.second, with_row) for x in parts])

    def _mixed(self, epsilon: Array) -> Array:
        """Mixture of Gaussians whose squared ratios add up, over both chi variables."""
        small, large = sorted(
            (float(mixture_ratio(np.asarray(p.ratio))), float(p.rows))
            for p in (self.first, self.second)
        )
        kappa = np.asarray(large[0])
        delta = np.zeros(epsilon.size)
        refine = math.ceil(np.max(steepness(epsilon, np.asarray(small[0])), initial=1.0))
        for s, weight in zip(*chi_rule(small[1], refine=refine), strict=True):
            part = chi_gaussian_delta(epsilon, large[1], kappa, offset=small[0] * float(s))
            delta += weight * part
        return delta

    def _delta(self, epsilon: Array) -> Array:
        curves = (self._mixed,) if self.adjacency == "replace" else self._pairs()
        worst: Array = np.max([curve(epsilon) for curve in curves], axis=0)
        return np.maximum(worst, TINY)


# The adaptive variants (Algorithms 2 and 5 of Sheffet). The smallest eigenvalue of the data is
# itself a regulariser. With Laplace noise of scale b,
#
#     s = max(0, lambda_min(G) - shift + Laplace(b))
#
# is subtracted from the regulariser w^2, never to leave less than nothing. Let m be the smaller of
# the two tables' smallest eigenvalues, z = s + shift - m, and p and q the densities of z for the
# two. One sketch has max(R - z, m) left, R = w^2 + shift, and the other as much or more, by the gap
# of the eigenvalues, which is at most B^2. So, whatever the data,
#
#     delta(epsilon) = integral over z of p(z) H_{epsilon - ln(p(z) / q(z))}(their pair).
#
# No failure probability is set aside: what a noisy eigenvalue too large leaks is in the integral.
# The clip joins all z < shift - m into one output. That is Theorem A1 of docs/theory/sheffet.md.
# What is left is a supremum over gap and clip, which Theorem A3 there bounds, cell by cell.

#: Hockey-stick curve of a pair of sketches, as a function of epsilon and of B^2 over the smaller
#: of the two smallest eigenvalues.
SketchCurve = Callable[[Array, Array], Array]

#: Cells of the clip up to 1, from there on, and into how many the last is halved.
_UNIT_CELLS, _CELLS, _CELL_HALVINGS = 8, 10, 6

#: Cells of the gap at most, rounds in which those of the clip are made finer at most, and what the
#: bound may exceed, relatively, where these suffice.
_PARTS, _ROUNDS, _BOUND_EXCESS = 64, 5, 8e-3

#: Noise further out than this many scales counts as a breach: exp(-105) is 3e-46.
_BREACH_REACH = 105.0

#: What the chi mixture of a pair may miss.
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
    end = min(total, max(start, 1.0) + _BREACH_REACH * scale)
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
    sketch: SketchCurve,
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
    stop[(own <= 0.0) | (stop > _BREACH_REACH * scale) | (stop >= total)] = total
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
    left = 0.5 * np.exp(-(np.minimum(stop, p_shift + _BREACH_REACH * scale) - p_shift) / scale)
    last = left * np.where(stop < total, last, 1.0)

    def tail(x: Array) -> Array:
        rest: Array = beyond[np.searchsorted(edges, x)] - beyond[np.searchsorted(edges, stop)]
        return rest + last

    mass = 0.5 * np.abs(np.diff(np.exp(-np.abs(np.stack(clips) - p_shift) / scale), axis=0)[0])
    rounded = np.exp(log_p[0]) * atom + mass * step + tail(high)
    apart = np.exp(log_p[1]) * largest + tail(low)
    least: Array = np.minimum(rounded, apart)
    return least


def largest_gap_delta(
    epsilon: float,
    sketch: SketchCurve,
    total: float,
    shift: float,
    scale: float,
    clip: float,
    nodes: int = 80,
) -> float:
    """Delta of one ordered pair and one clip, where the row moves the eigenvalue most."""
    at, no_shift = np.array([clip]), (0.0, 0.0)
    setting = total, shift, scale
    return float(adaptive_delta(epsilon, sketch, 1.0, no_shift, *setting, (at, at), nodes)[0])


def _cells(highest: float, kinks: tuple[float, ...]) -> tuple[Array, Array]:
    """Cells that clips in [0, highest] are rounded in, finer towards the last."""
    ends = np.arange(_UNIT_CELLS + 1) / _UNIT_CELLS
    if highest > 1.0:
        even = np.arange(1, _CELLS) / _CELLS
        last = 1.0 - 0.5 ** np.arange(1, _CELL_HALVINGS + 1) / _CELLS
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
            more = worse > (1.0 + _BOUND_EXCESS / 2.0) * shown
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
    ends = -1.0, 0.0, *(1.0 - 0.5**k for k in range(1, _CELL_HALVINGS)), 1.0
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
            if shown < min((1.0 + _BOUND_EXCESS) * largest, worst):
                lowered = epsilon - _log_cosh(0.5 * width / scale)
                middle = low + 0.5 * width
                worst = min(worst, max(shown, bound(*pair, middle, middle)))
        if worst <= (1.0 + _BOUND_EXCESS) * largest or parts == _PARTS:
            found = max(found, worst)
        else:
            half, parts = 0.5 * (least + most), parts + 1
            cells += [(which, least, half), (which, half, most)]
    return found


def _log_cosh(x: float) -> float:
    return x + math.log1p(math.exp(-2.0 * x)) - math.log(2.0)


def sketch_curves(rows: float, adjacency: Adjacency, gap: float = 0.0) -> tuple[SketchCurve, ...]:
    """Curves of the sketch's worst pairs, for a gap in [-1, 1] between the smallest eigenvalues.

    Under "add-remove" the larger eigenvalue comes with the wide law if what is released is a
    sketch, with the narrow one if it is an inverse Wishart: both are covered.
    """

    def replaced(epsilon: Array, ratio: Array) -> Array:
        # Each law's row stands out from what the other's smallest eigenvalue hides.
        wide, narrow = (ratio / (1.0 + max(x, 0.0) * ratio) for x in (-gap, gap))
        return wide_and_narrow(epsilon, rows, wide, narrow)

    if adjacency == "replace":
        return (replaced,)
    return (
        lambda epsilon, ratio: wide_against_narrow(epsilon, rows, ratio),
        lambda epsilon, ratio: narrow_against_wide(epsilon, rows, ratio),
    )


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
    An upper bound over the data's smallest eigenvalue and over the rows that move it, and within
    1 % of the delta that some two tables attain, at every epsilon (docs/theory/sheffet.md,
    Theorem A3).

    References
    ----------
    Sheffet, arXiv:1507.00056, Algorithms 2 and 5.
    """

    _proof_status = "upper bound"

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


# An adaptive sketch whose number of rows grows with the eigenvalue.
#
# Once the released eigenvalue s alone regularises enough, more rows make a better sketch. Rows here
# come in rungs, r_k = 2^k r_0: rung k > 0 needs no regulariser and is taken where s + shift reaches
# its total R_k. The ladder's delta is at most the sum of the rungs', by Theorem A4 of
# docs/theory/sheffet.md, and is shared out among them: `FIRST_SHARE` to the rung with the
# regulariser, the rest in proportion to 1/k^2. A share enters R_k by its logarithm alone.

#: Part of delta for the rung with the regulariser.
FIRST_SHARE = 0.75

#: Rungs above it: up to a million times the rows.
RUNGS = 20

_NORM = sum(1.0 / k**2 for k in range(1, RUNGS + 1))


def rung_share(k: int) -> float:
    """Part of delta that rung k, in [0, RUNGS], may take."""
    return FIRST_SHARE if k == 0 else (1.0 - FIRST_SHARE) / (_NORM * k**2)


@cache
def rung_total(
    rows: float, scale: float, epsilon: float, delta: float, adjacency: Adjacency
) -> float:
    """Least total R of a sketch without regulariser, in units of B^2, on the safe side."""
    guess = math.sqrt(2.0 * rows * math.log(1.0 / delta)) / epsilon + 6.0 * scale

    def least(delta_at: Callable[[float], float], target: float) -> float:
        return 1.0 + least_safe(lambda room: delta_at(1.0 + room), target, guess, 1e-3)

    def of_largest_gap(total: float) -> float:
        curves = sketch_curves(float(rows), adjacency, 1.0)
        return max(largest_gap_delta(epsilon, x, total, 0.0, scale, 0.0) for x in curves)

    if -math.expm1(min(epsilon - 1.0 / scale, 0.0) / 2.0) >= delta:
        return math.inf  # the eigenvalue alone gives away as much

    def profile(total: float) -> float:
        return AdaptiveSketchProfile(rows, total, 0.0, scale, adjacency).delta(epsilon)

    # The largest gap nearly always leaks most; the bound on all of them exceeds it by little.
    aim = delta * (1.0 - 8e-3)
    for _ in range(4):
        total = least(of_largest_gap, aim)
        reached = profile(total) if total < math.inf else 0.0
        if reached <= delta:
            return total
        aim *= (1.0 - 1e-3) * delta / reached
    return least(profile, delta)


@dataclass(frozen=True)
class AdaptiveLadderProfile(Profile):
    r"""Privacy profile of an adaptive sketch with rungs, its eigenvalue included.

    Lengths are in units of B^2.

    Parameters
    ----------
    rows : float
        Rows r_0 of the first rung.
    regulariser, shift, scale : float
        Of `AdaptiveSketchProfile`, for the first rung.
    adjacency : {"replace", "add-remove"}
    at_epsilon, at_delta : float
        Budget for which the totals of the other rungs are set.
    one_column : bool
        Under "replace": whether the table has but one column, as of `SketchProfile`.
    """

    _proof_status = "upper bound"

    rows: float
    regulariser: float
    shift: float
    scale: float
    adjacency: Adjacency
    at_epsilon: float
    at_delta: float
    one_column: bool = False

    def __post_init__(self) -> None:
        check_adjacency(self.adjacency)
        check_parameter(self.at_epsilon, "at_epsilon")
        check_parameter(self.at_delta, "at_delta")
        if self.at_delta >= 1:
            raise ValueError(f"at_delta must lie in (0, 1), not {self.at_delta}")
        self._rung(0)

    @property
    def _pairs(self) -> Adjacency:
        return "add-remove" if self.one_column else self.adjacency

    def total(self, k: int) -> float:
        """What s + shift must reach for rung k > 0, in units of B^2."""
        return rung_total(
            self.rows * 2**k,
            self.scale,
            self.at_epsilon,
            self.at_delta * rung_share(k),
            self._pairs,
        )

    def climb(self, reached: float) -> int:
        """Highest rung whose total is at most `reached`, s + shift in units of B^2."""
        k = 0
        while k < RUNGS and self.total(k + 1) <= reached:
            k += 1
        return k

    def _rung(self, k: int) -> AdaptiveSketchProfile:
        if k == 0:
            return AdaptiveSketchProfile(
                self.rows, self.regulariser, self.shift, self.scale, self._pairs
            )
        return AdaptiveSketchProfile(self.rows * 2**k, self.total(k), 0.0, self.scale, self._pairs)

    def _quick(self) -> Profile:
        return self._rung(0)

    def _rungs(self) -> list[AdaptiveSketchProfile]:
        # A rung that nothing can reach takes no part.
        return [self._rung(k) for k in range(RUNGS + 1) if k == 0 or self.total(k) < math.inf]

    def _delta(self, epsilon: Array) -> Array:
        total: Array = np.sum([rung._delta(epsilon) for rung in self._rungs()], axis=0)
        return np.minimum(total, 1.0)

    def _floor(self) -> float:
        return min(sum(rung._floor() for rung in self._rungs()), 1.0)
