r"""Privacy profile of an adaptive sketch whose number of rows grows with the eigenvalue.

Once the released eigenvalue s alone regularises enough, more rows make a better sketch
(Algorithms 2 and 5 of Sheffet [1]_). Rows here come in rungs, r_k = 2^k r_0: rung k > 0
needs no regulariser and is taken where s + shift reaches its total R_k.

Whatever the rule, an output that took rung k was sketched at ratio at most
B^2 / (R_k - z), z as in `privgram.papers.sheffet.adaptive`. So with h_k(z) what rung k would
contribute to delta at z were it always taken, the ladder's delta is at most

    integral of max_k h_k(z) dz <= sum over k of the profiles of the rungs,

and delta is shared out among them: `FIRST_SHARE` to the rung with the regulariser, the
rest in proportion to 1/k^2. A rung's share enters its R_k by its logarithm alone.

References
----------
.. [1] O. Sheffet, arXiv:1507.00056, 2015, Algorithms 2 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from privgram._base.solve import largest_safe
from privgram.papers.sheffet.adaptive import AdaptiveSketchProfile, adaptive_delta, sketch_curves
from privgram.privacy._adjacency import Adjacency, check_adjacency
from privgram.privacy._numerics import Array
from privgram.privacy._profile import Profile, check_parameter

__all__ = ["AdaptiveLadderProfile", "rung_share", "rung_total"]

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

    def least(delta_at: Callable[[float], float], target: float, tolerance: float) -> float:
        inverse = largest_safe(
            lambda x: delta_at(1.0 + 1.0 / x), target, 1.0 / guess, tolerance=tolerance
        )
        return 1.0 + 1.0 / inverse if inverse > 0.0 else math.inf

    def of_largest_gap(total: float) -> float:
        start = np.zeros(1), np.zeros(1)
        return max(
            float(adaptive_delta(epsilon, curve, 1.0, (0.0, 0.0), total, 0.0, scale, start)[0])
            for curve in sketch_curves(float(rows), adjacency, 1.0)
        )

    if -math.expm1(min(epsilon - 1.0 / scale, 0.0) / 2.0) >= delta:
        return math.inf  # the eigenvalue alone gives away as much

    def profile(total: float) -> float:
        return AdaptiveSketchProfile(rows, total, 0.0, scale, adjacency).delta(epsilon)

    # The largest gap nearly always leaks most; the bound on all of them exceeds it by little.
    aim = delta * (1.0 - 8e-3)
    for _ in range(4):
        total = least(of_largest_gap, aim, 1e-3)
        reached = profile(total) if total < math.inf else 0.0
        if reached <= delta:
            return total
        aim *= (1.0 - 1e-3) * delta / reached
    return least(profile, delta, 1e-3)


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

    _guarantee = "bounded"

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
