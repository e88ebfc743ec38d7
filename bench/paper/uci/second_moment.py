"""One round: one Analyze Gauss release of the second moment, then `ridge="auto"`.

Rows (x, w y) are clipped to a norm B, both public functions of epsilon alone.  A row of |x| <= 1
and |y| <= 1 can reach sqrt(1 + w^2), but few do, and clipping scales features and target
together: the row stays on its regression line and only counts for less.  The noise is
proportional to B^2, and to 1 / w in the target, so a small budget takes w = B = 1; where it
is large enough for the slight bias of clipping to show beside the noise, less is clipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import privgram as pg
from privgram.mechanisms import AnalyzeGauss
from privgram.moment import SecondMoment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.paper.uci.tasks import Task


def row_rule(epsilon: float) -> tuple[float, float]:
    """Weight w of the target and bound B of a row."""
    return (1.0, 1.0) if epsilon <= 2 else (0.7, 1.1)


class SecondMomentRelease:
    """A release and a fit on one task at one epsilon."""

    def __init__(self, task: Task, epsilon: float) -> None:
        self.task, self.epsilon = task, epsilon
        self.weight, bound = row_rule(epsilon)
        rows = np.column_stack([task.X, self.weight * task.y])
        self.moment = SecondMoment(rows.shape[1], bound=bound).update(rows)

    def __call__(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Coefficients of one private run, shape (d,)."""
        release = pg.release(
            self.moment,
            None,
            self.epsilon,
            self.task.delta,
            adjacency="add-remove",
            rng=rng,
            mechanism=AnalyzeGauss(),
        )
        fit = release.regress(target=self.task.n_features, ridge="auto")
        coef: NDArray[np.float64] = fit.used[:-1] / self.weight
        return coef
