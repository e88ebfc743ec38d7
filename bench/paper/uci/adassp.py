"""COMPARISON METHOD: adaptive sufficient-statistics perturbation, AdaSSP (Wang 2018).

Three Gaussian releases: the least eigenvalue of X^T X, X^T X itself (an independent noise
above the diagonal and on it) and X^T y, each of sensitivity 1.  The paper gives (epsilon/3,
delta/3) to each; `AdaSSPAsPrinted` does, with the exact Gaussian mechanism for each.  In
`AdaSSP` the three share one Gaussian profile, mu = sqrt(3) / sigma, which is exact and needs
40 % less noise.  The ridge is the paper's, for its failure probability rho = 0.05.

References
----------
Wang, "Revisiting differentially private linear regression: optimal and adaptive prediction
and estimation in unbounded domain", UAI 2018, Algorithm 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privgram.privacy.calibration import gaussian_ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.paper.uci.tasks import Task

FAILURE = 0.05


class AdaSSP:
    """AdaSSP on one task at one epsilon."""

    def __init__(self, task: Task, epsilon: float) -> None:
        d, delta = task.n_features, task.delta
        self.task = task
        self.sigma = self.noise_std(epsilon, delta)
        self.offset = self.sigma * math.sqrt(math.log(6 / delta))
        self.target = self.sigma * math.sqrt(d * math.log(2 * d**2 / FAILURE))
        self.least = float(np.linalg.eigvalsh(task.gram)[0])

    @staticmethod
    def noise_std(epsilon: float, delta: float) -> float:
        """Standard deviation of each of the three releases."""
        return math.sqrt(3) / gaussian_ratio(epsilon, delta)

    def __call__(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Coefficients of one private run, shape (d,)."""
        d = self.task.n_features
        least = max(0.0, self.least + self.sigma * rng.standard_normal() - self.offset)
        upper = np.triu(rng.standard_normal((d, d)))
        gram = self.task.gram + self.sigma * (upper + np.triu(upper, 1).T)
        cross = self.task.cross + self.sigma * rng.standard_normal(d)
        ridge = max(0.0, self.target - least)
        return np.asarray(np.linalg.solve(gram + ridge * np.eye(d), cross))


class AdaSSPAsPrinted(AdaSSP):
    """AdaSSP with a third of the budget for each release."""

    @staticmethod
    def noise_std(epsilon: float, delta: float) -> float:
        """Standard deviation of each of the three releases."""
        return 1 / gaussian_ratio(epsilon / 3, delta / 3)
