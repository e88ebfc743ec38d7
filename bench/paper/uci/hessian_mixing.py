"""COMPARISON METHOD: iterative Hessian mixing (Lev et al. 2026).

T = 3 Newton steps, each with a fresh Gaussian sketch of X for the Hessian (k = 6 max(d,
log(4 T / rho)) rows, rho = delta / 10: the authors' published settings) and a Gaussian release
of the gradient X^T clip(y - X theta, -1, 1), of sensitivity 1.  The least eigenvalue of X^T X is
used as in linear mixing, with noise gamma / sqrt(k).  The paper gives half of epsilon to the
sketches with the eigenvalue and half to the gradients; here the gradients' mu equals that of the
sketches with the eigenvalue (a sketch counts by its Gaussian limit) and everything is composed
exactly (`accounting`).

References
----------
Lev, Shenfeld, Srinivasan, Ligett, Wilson, "Near-optimal private linear regression via
iterative Hessian mixing", arXiv 2601.07545.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from bench.paper.uci.accounting import sketch_and_gaussian_delta, smallest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.paper.uci.tasks import Task

STEPS = 3
ROWS_FACTOR = 6


class HessianMixing:
    """Hessian mixing on one task at one epsilon."""

    def __init__(self, task: Task, epsilon: float) -> None:
        delta = task.delta
        failure = delta / 10
        self.task = task
        self.rows = int(ROWS_FACTOR * max(task.n_features, math.log(4 * STEPS / failure)))

        def spent(gamma: float) -> float:
            # gamma counts the row itself, the ratio does not.
            eigenvalue, gradients = self._shares(gamma)
            mu = math.hypot(eigenvalue, gradients)
            ratio = 1 / (gamma - 1)
            return sketch_and_gaussian_delta(epsilon, STEPS * self.rows, ratio, mu) + failure

        self.gamma = smallest(spent, delta, 1.001)
        self.eigenvalue_std = self.gamma / math.sqrt(self.rows)
        self.margin = -float(ndtri(failure)) * self.eigenvalue_std
        self.gradient_std = math.sqrt(STEPS) / self._shares(self.gamma)[1]
        self.least = float(np.linalg.eigvalsh(task.gram)[0])

    def _shares(self, gamma: float) -> tuple[float, float]:
        """Gaussian mu of the eigenvalue, and of all gradients together."""
        eigenvalue = math.sqrt(self.rows) / gamma
        return eigenvalue, math.hypot(eigenvalue, math.sqrt(STEPS * self.rows / 2) / (gamma - 1))

    def __call__(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Coefficients of one private run, shape (d,)."""
        X, y, d = self.task.X, self.task.y, self.task.n_features
        noise = self.eigenvalue_std * rng.standard_normal()
        least = max(0.0, self.least + noise - self.margin)
        values, vectors = np.linalg.eigh(self.task.gram)
        root = np.sqrt(np.maximum(values, 0.0) + max(0.0, self.gamma - least)) * vectors
        coef = np.zeros(d)
        for _ in range(STEPS):
            sketch = rng.standard_normal((self.rows, d)) @ root.T
            gradient = X.T @ np.clip(y - X @ coef, -1.0, 1.0)
            gradient += self.gradient_std * rng.standard_normal(d)
            coef += np.linalg.solve(sketch.T @ sketch / self.rows, gradient)
        return coef
