"""privgram's entry: adaptive rounds at the rows, for one target, then `ridge="auto"`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench.paper.uci.second_moment import row_rule
from privgram import release
from privgram.mechanisms import AdaptiveGaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.paper.uci.tasks import Task


class AdaptiveRelease:
    """A adaptive release and a fit on one task at one epsilon."""

    def __init__(self, task: Task, epsilon: float) -> None:
        self.task, self.epsilon = task, epsilon
        self.weight, self.bound = row_rule(epsilon)
        self.rows = np.column_stack([task.X, self.weight * task.y])

    def __call__(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Coefficients of one private run, shape (d,)."""
        made = release(
            self.rows,
            epsilon=self.epsilon,
            delta=self.task.delta,
            mechanism=AdaptiveGaussian(target=f"x{self.task.n_features}"),
            adjacency="add-remove",
            bound=self.bound,
            rng=rng,
        )
        coef: NDArray[np.float64] = made.regress(self.task.n_features, ridge="auto").used[:-1]
        return coef / self.weight
