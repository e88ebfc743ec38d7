"""What a noisy histogram of lengths cannot rule out of rows that were clipped.

Rows beyond the last bins that stand out of the noise are not seen. What is known of them is that
they go on from the rows that are seen, in some way, and that none is beyond a public end. So their
number has a posterior over a family of tails, from powers to normal ones and some that flatten,
and the uncertainty of an estimate after clipping is the upper end of it (docs/theory/refined.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["Tail", "bins", "tail_of"]

#: Bins are of a factor of sqrt(2) up to so many times the first place; farther out, where rows are
#: few and only a sum of counts can show them, each is twice as wide as the one before, to a most.
FINE_UP_TO, WIDEST = 8.0, 16.0

#: Fewer bins say nothing of a tail. Places to cut at for each factor of 2.
FEWEST, FINENESS = 4, 16

#: The tail is taken to be regular from a bin before the last at which so many bins together hold
#: so many deviations of their noise.
TOGETHER, SEEN = 4, 6.0

#: Shapes: survival falls as exp(-alpha ((x / x0)^beta - 1) / beta): a power for 0, exponential for
#: 1, normal for 2 in the length.
ALPHAS = np.exp(np.linspace(math.log(0.5), math.log(30.0), 16))
BETAS = np.array([0.0, 0.25, 0.5, 1.0])

#: Beside them there may be rows of a second kind: none with the first probability; with the second
#: their number falls as one of these powers; else all are as long as the end of a bin, one of
#: those from the third on. They are from one to a tenth of all rows, in so many steps.
POWERS = np.array([1.0, 1.5])
ALONE, POWER, APART, STEPS = 0.55, 0.35, 3, 8

#: So much weight has that all rows of a bin have one length, its largest.
AT_ENDS = 0.1

#: Counts that a tail explains only as so many deviations are rows beside it.
SURPLUS = 4.0

#: The upper end of the posterior that is taken.
UPPER = 0.9


def bins(first: float, largest: float) -> Vector:
    """Ends of bins of lengths, ascending from `first` to the public end, shape (m,)."""
    ends, factor = [first], math.sqrt(2.0)
    while ends[-1] < largest:
        if ends[-1] >= FINE_UP_TO * first:
            factor = min(factor * math.sqrt(2.0), WIDEST)
        ends.append(ends[-1] * factor)
    found: Vector = np.minimum(np.array(ends), max(largest, first))
    return found


@dataclass(frozen=True)
class Tail:
    """What a histogram says of rows beyond some places, by a posterior over hypotheses.

    A hypothesis is a tail i, of r, and rows of a second kind j, of s.
    """

    places: Vector  # (k,), ascending
    rows: Vector  # (k,), expected number of rows that are longer
    # (k,), sum of what rows are longer by: expected if there are none of a second kind
    excess: Vector
    probability: Matrix  # (r, s), of the hypotheses
    _nearer: Vector  # rows between a place and the anchor, which all hypotheses share
    _total: Matrix
    _first: Matrix
    _second: Matrix
    _surplus: Matrix  # of shape (r, s, bins), and what is beyond of it
    _steps: Matrix

    def rows_std(self, at: int) -> float:
        """Deviation of the number of rows beyond a place in the posterior."""
        number = self._summed(self._first[:, at], self._second[:, at], self._steps[:, at])
        mean = (self.probability * number).sum()
        return math.sqrt((self.probability * (number - mean) ** 2).sum())

    def most(self, at: int) -> float:
        """What the excess does not exceed at 90 % of the posterior."""
        areas = [_area(one, self.places)[..., at] for one in self._curves]
        found = self._summed(*areas).ravel()
        order = np.argsort(found)
        reached = np.cumsum(self.probability.ravel()[order]) >= UPPER
        upper = float(found[order[reached.argmax()]])
        return upper + float(_area(self._nearer, self.places)[at])

    @property
    def _curves(self) -> tuple[Matrix, Matrix, Matrix]:
        return self._first, self._second, self._steps

    def _summed(self, first: Vector, second: Vector, steps: Vector) -> Matrix:
        """Of every hypothesis, from numbers of its parts."""
        total: Matrix = self._total * first[:, None] + second + self._surplus @ steps
        return total


def tail_of(counts: Vector, ends: Vector, std: float, rows: float) -> Tail:
    """The posterior of the tail of a histogram, from its first end to its last, the ends ascending.

    The counts (m,) are of rows up to each end and beyond the one before, with noise of deviation
    `std` each. Nothing is beyond the last end, and there are about `rows` in all.
    """
    places = _places(ends)
    if len(ends) < FEWEST:  # all of them may be as long as any
        number = np.where(places < ends[-1], max(rows, 1.0), 0.0)
        one, none = np.ones((1, 1)), np.zeros((1, len(places)))
        area, flat = _area(number, places), np.zeros((1, 1, 1))
        return Tail(places, number, area, one, 0 * number, one, number[None], none, flat, none)
    anchor = _anchor(counts, std)
    edges, seen = ends[anchor:], counts[anchor + 1 :]
    points = np.append(edges, np.maximum(places, edges[0]))
    size = len(edges)
    alpha, beta = (grid.ravel()[:, None] for grid in np.meshgrid(ALPHAS, BETAS, indexing="ij"))
    first = _survival(points, edges[-1], alpha, beta)
    powers = _survival(points, edges[-1], POWERS[:, None], np.zeros((len(POWERS), 1)))
    groups = (points < edges[APART:, None]).astype(np.float64)
    numbers = np.exp(np.linspace(0.0, math.log(max(rows / 10, 2.0)), STEPS))[:, None, None]
    second = np.concatenate([0 * powers[:1], *numbers * powers, *numbers * groups])
    prior = np.full(len(second), (1 - ALONE - POWER) / (STEPS * max(len(groups), 1)))
    prior[: 1 + STEPS * len(powers)] = POWER / (STEPS * len(powers))
    prior[0] = ALONE
    # Their sum at the edges, against what was counted between these.
    parts = -np.diff(first[:, None, :size])
    others = -np.diff(second[None, :, :size])
    weight = 1 / (std**2 + np.maximum(seen, 1.0))
    total = (parts * (seen - others)) @ weight / np.maximum((parts**2) @ weight, 1e-300)
    total = np.maximum(total, 1.0)
    expected = total[..., None] * parts + others
    variance = std**2 + expected
    fit = -0.5 * ((seen - expected) ** 2 / variance + np.log(variance)).sum(axis=-1)
    probability = np.exp(fit - fit.max()) * prior
    probability /= probability.sum()
    regular = np.exp(fit[:, 0] - fit[:, 0].max())
    regular /= regular.sum()
    # What is seen where a tail has none, as of rows of a few lengths, is at the end of its bin.
    surplus = np.maximum(seen - expected - SURPLUS * np.sqrt(variance), 0.0)
    steps = (points < edges[1:, None]).astype(np.float64)
    first, second, steps = (
        _at_ends(curves[:, size:], places, ends) for curves in (first, second, steps)
    )
    weighed = probability * total
    number = weighed.sum(axis=1) @ first + probability.sum(axis=0) @ second
    number += np.tensordot(probability, surplus, 2) @ steps
    alone = (regular * total[:, 0]) @ first + (regular @ surplus[:, 0]) @ steps
    nearer = _at_ends(_nearer(counts, ends, anchor, places, float(number[0])), places, ends)
    excess = _area(alone + nearer, places)
    return Tail(
        places, number + nearer, excess, probability, nearer, total, first, second, surplus, steps
    )


def _places(ends: Vector) -> Vector:
    """Places to cut at, between the first end and the last."""
    steps = np.arange(int(FINENESS * math.log2(ends[-1] / ends[0])) + 1)
    places = np.append(ends[0] * 2.0 ** (steps / FINENESS), ends[-1])
    return np.unique(np.minimum(places, ends[-1]))


def _anchor(counts: Vector, std: float) -> int:
    """The end from which on the tail is taken to be regular: rows beyond it are seen."""
    size = len(counts)
    sums = np.array([counts[i + 1 : i + 1 + TOGETHER].sum() for i in range(size)])
    seen = np.flatnonzero(sums > SEEN * std * math.sqrt(TOGETHER))
    last = int(seen[-1]) if len(seen) else 0
    return max(min(last, size - FEWEST + 1) - 1, 0)


def _survival(places: Vector, end: float, alpha: Matrix, beta: Matrix) -> Matrix:
    """Share of the rows beyond the first place that are beyond each, shape (r, k)."""
    logs = np.log(places / places[0])[None]
    flat = beta == 0
    grown = np.where(flat, logs, np.expm1(beta * logs) / np.where(flat, 1.0, beta))
    share: Matrix = np.where(places < end, np.exp(-np.minimum(alpha * grown, 700.0)), 0.0)
    return share


def _at_ends(curves: Matrix, places: Vector, ends: Vector) -> Matrix:
    """Numbers beyond places, partly as if the rows of a fine bin were all at its end."""
    fine = places < FINE_UP_TO * ends[0]
    start = np.searchsorted(places, ends[np.searchsorted(ends, places[fine], side="right") - 1])
    found = curves.copy()
    found[..., fine] += AT_ENDS * (curves[..., start] - curves[..., fine])
    return found


def _nearer(counts: Vector, ends: Vector, anchor: int, places: Vector, beyond: float) -> Vector:
    """Rows between places and the anchor: counted, geometric between ends, shape (k,)."""
    inner = np.maximum(counts[1 : anchor + 1], 0.0)
    cumulated = np.append(np.cumsum(inner[::-1])[::-1], 0.0) + max(beyond, 1.0)
    logs = np.interp(np.log(places), np.log(ends[: anchor + 1]), np.log(cumulated))
    number: Vector = np.exp(logs) - max(beyond, 1.0)
    return number


def _area(beyond: Matrix, places: Vector) -> Matrix:
    """Excess over each place, of numbers of rows beyond them, shape (..., k)."""
    steps = (beyond[..., 1:] + beyond[..., :-1]) / 2 * np.diff(places)
    area: Matrix = np.zeros_like(beyond)
    area[..., :-1] = np.cumsum(steps[..., ::-1], axis=-1)[..., ::-1]
    return area
