r"""Noise of the sketch and the inverse Wishart from a privacy budget.

As in `privgram.privacy.calibration`, whose parameters these share.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privgram._base.solve import largest_count, largest_safe, minimise
from privgram.papers.sheffet.adaptive import (
    AdaptiveSketchProfile,
    Sketch,
    adaptive_delta,
    sketch_curves,
)
from privgram.papers.sheffet.profiles import SketchProfile
from privgram.privacy import Adjacency
from privgram.privacy._profile import check_parameter
from privgram.privacy.calibration import MAX_DOF, checked_budget, gaussian_ratio, largest_parameter

__all__ = ["adaptive_sketch", "sketch_ratio", "sketch_rows"]


def sketch_ratio(
    rows: float, epsilon: float, delta: float, adjacency: Adjacency = "replace"
) -> float:
    """Largest ratio B^2 / w^2 of a Gaussian sketch for a budget.

    Parameters
    ----------
    rows : float
        Rows r >= 1 of the sketch (degrees of freedom, for the inverse Wishart).

    Returns
    -------
    float
        lam = B^2 / w^2 (B^2 / psi).
    """
    return largest_parameter(
        lambda x: SketchProfile(rows, x, adjacency), epsilon, delta, lambda mu: mu / math.sqrt(rows)
    )


def sketch_rows(
    ratio: float, epsilon: float, delta: float, adjacency: Adjacency = "replace"
) -> int:
    """Most rows of a Gaussian sketch with given regulariser for a budget.

    Parameters
    ----------
    ratio : float
        lam = B^2 / w^2, positive.

    Returns
    -------
    int
        r >= 1: r rows are private enough, r + 1 are not.

    Raises
    ------
    ValueError
        If a parameter is outside its range, one row is too many already, or more than
        1e12 would do.
    """
    epsilon, delta = checked_budget(epsilon, delta)
    check_parameter(ratio, "ratio")

    def delta_at(rows: float) -> float:
        return SketchProfile(rows, ratio, adjacency).delta(epsilon)

    if delta_at(1) > delta:
        raise ValueError(
            f"with ratio = {ratio:g} even one row is not private for epsilon = {epsilon:g} and "
            f"delta = {delta:g}: ask for a smaller ratio (a larger regulariser)"
        )
    guess = 1.0 + (gaussian_ratio(epsilon, delta) / ratio) ** 2
    # Beyond the least number of rows a profile takes, anything is a lower bound.
    rows = largest_safe(lambda x: delta_at(max(x, 1.0)), delta, min(guess, 1e11), limit=MAX_DOF)
    if rows > MAX_DOF:
        raise ValueError(
            f"with ratio = {ratio:g} more than {MAX_DOF:g} rows are private for epsilon = "
            f"{epsilon:g} and delta = {delta:g}: ask for a larger ratio (a smaller regulariser)"
        )
    return largest_count(lambda count: delta_at(count) <= delta, math.floor(rows), 1)


def adaptive_sketch(
    rows: float, epsilon: float, delta: float, adjacency: Adjacency = "replace"
) -> AdaptiveSketchProfile:
    r"""Noise of an adaptive sketch or inverse Wishart for a budget.

    Three numbers are to be set, and one budget sets one. The scale of the noise on the
    smallest eigenvalue is chosen so that regulariser + shift, which is what the data's own
    eigenvalue and the regulariser must supply together, is least; then the regulariser is
    the least that is private whatever the eigenvalue: a few per cent above that of the
    plain sketch. Adaptivity pays once the smallest eigenvalue exceeds about the shift.

    The profile is a proved upper bound, and reaches at least 0.99 delta where the search ends
    in time, which it does at every budget tried.

    Parameters
    ----------
    rows : float
        Rows r >= 1 of the sketch, or degrees of freedom.
    epsilon, delta : float
        Budget, 0 <= epsilon <= 100 and 0 < delta < 1.
    adjacency : {"replace", "add-remove"}
        Notion of neighbours.

    Returns
    -------
    AdaptiveSketchProfile
        With `regulariser` w^2, `shift` and `scale` in units of B^2.

    References
    ----------
    Sheffet, arXiv:1507.00056, Algorithms 2 and 5.
    """
    plain = 1.0 / sketch_ratio(rows, epsilon, delta, adjacency)
    if epsilon > 100:
        raise ValueError(f"epsilon must be at most 100 for adaptive noise, not {epsilon!r}")

    def largest_gap(
        pair: Sketch, total: float, shift: float, scale: float, clip: float, nodes: int = 80
    ) -> float:
        """Delta where the row moves the eigenvalue most."""
        clips = np.array([clip]), np.array([clip])
        setting = 1.0, (0.0, 0.0), total, shift, scale
        return float(adaptive_delta(epsilon, pair, *setting, clips, nodes)[0])

    def least_total(
        delta_at: Callable[[float], float], aim: float, guess: float, tolerance: float
    ) -> float:
        inverse = largest_safe(
            lambda x: delta_at(1.0 + 1.0 / x), aim, 1.0 / (guess - 1.0), tolerance=tolerance
        )
        return 1.0 + 1.0 / inverse if inverse > 0.0 else math.inf

    # The scale hardly matters near its optimum, so a cruder pair will do to find it: twice
    # the rows under add-remove are alike to replace.
    alike = rows if adjacency == "add-remove" else 2.0 * rows
    crude = sketch_curves(float(alike), "add-remove")[0]
    # Any smaller and the eigenvalue alone would exceed the budget.
    least = 1.0 / (epsilon - 2.0 * math.log1p(-delta))
    guess = plain + 6.0 * least

    def cost(log_scale: float) -> float:
        nonlocal guess
        scale = math.exp(log_scale)
        total = least_total(
            lambda x: largest_gap(crude, x, 0.0, scale, 0.0, 24), delta, 1.0 + guess, 3e-3
        )
        if total < math.inf:
            guess = total
        return total

    scale = math.exp(minimise(cost, math.log(1.05 * least), math.log(20.0 * least + plain)))
    # Solved for the row that moves the eigenvalue most and the two extreme clips: the larger the
    # shift, the less the one at 0 leaks, where it regularises as well, and the more the last.
    # What data without and with a large eigenvalue need, regulariser and total, counts alike.
    # Then for a smaller delta, as far as the bound on all gaps and clips exceeds that.
    sketch = sketch_curves(float(rows), adjacency, 1.0)[0]

    def total_of(log_shift: float, tolerance: float = 1e-3) -> float:
        nonlocal guess
        shift = math.exp(log_shift)

        def leaks(total: float) -> float:
            if total <= shift:
                return 1.0
            return max(largest_gap(sketch, total, shift, scale, clip) for clip in (0.0, shift))

        guess = least_total(leaks, aim, 1.0 + guess, tolerance)
        return guess

    def at_last(inverse: float) -> float:
        shift = total - 1.0 / inverse
        return largest_gap(sketch, total, shift, scale, shift) if 0.0 < shift < total else 1.0

    aim, most, found = (1.0 - 8e-3) * delta, math.log(max(guess - plain, 1.0)), None
    log_shift = minimise(lambda x: 2.0 * total_of(x) - math.exp(x), most - 1.0, most + 0.3)
    for _ in range(12):
        total = total_of(log_shift, 1e-5)
        regulariser = total - math.exp(log_shift)
        inverse = largest_safe(at_last, aim, 1.0 / regulariser, tolerance=1e-6)
        if inverse > 0.0:
            regulariser = 1.0 / inverse
        shift = total - regulariser
        profile = AdaptiveSketchProfile(rows, regulariser, shift, scale, adjacency)
        reached = profile.delta(epsilon)
        if reached <= delta:
            found = profile
            if reached >= (1.0 - 1e-2) * delta:
                break
        aim *= (1.0 - 3e-3) * delta / reached
    if found is not None:
        return found
    raise ValueError(
        f"no adaptive noise was found for rows = {rows:g}, epsilon = {epsilon:g}, delta = "
        f"{delta:g}: use the sketch that is not adaptive"
    )
