"""COMPARISON METHOD: Gaussian linear mixing (Lev et al. 2025).

Least squares on a Gaussian sketch of the rows (x, y), |(x, y)|^2 <= 2, with k = 2.5 max(d,
log(2 / rho)) sketch rows, rho = delta / 10 (the authors' published settings).  The least
eigenvalue of the joint second moment, noised and lowered until it is below the truth but with
probability delta / 10, saves regularisation.  The eigenvalue's noise is sqrt(2) gamma /
sqrt(k), as theirs; gamma is the least level at which eigenvalue and sketch, composed exactly
(`accounting`), and that failure stay within (epsilon, delta).

References
----------
Lev, Srinivasan, Shenfeld, Ligett, Sekhari, Wilson, "The Gaussian mixing mechanism: Renyi
differential privacy via Gaussian sketches", arXiv 2505.24603.
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

SQUARED_BOUND = 2.0
ROWS_FACTOR = 2.5


class LinearMixing:
    """Linear mixing on one task at one epsilon."""

    def __init__(self, task: Task, epsilon: float) -> None:
        delta = task.delta
        failure = delta / 10
        self.task = task
        self.rows = int(ROWS_FACTOR * max(task.n_features, math.log(2 / failure)))

        def spent(gamma: float) -> float:
            # gamma counts the row itself, the ratio does not.
            ratio = SQUARED_BOUND / (gamma - SQUARED_BOUND)
            mu = math.sqrt(SQUARED_BOUND * self.rows) / gamma
            return sketch_and_gaussian_delta(epsilon, self.rows, ratio, mu) + failure

        self.gamma = smallest(spent, delta, 1.001 * SQUARED_BOUND)
        self.eigenvalue_std = math.sqrt(SQUARED_BOUND / self.rows) * self.gamma
        self.margin = -float(ndtri(failure)) * self.eigenvalue_std
        self.least = float(np.linalg.eigvalsh(task.joint)[0])

    def __call__(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Coefficients of one private run, shape (d,)."""
        d = self.task.n_features
        noise = self.eigenvalue_std * rng.standard_normal()
        least = max(0.0, self.least + noise - self.margin)
        regulariser = max(0.0, self.gamma - least)
        # k rows of N(0, [X y]^T [X y] + regulariser I) are the noised sketch.
        values, vectors = np.linalg.eigh(self.task.joint)
        root = np.sqrt(np.maximum(values, 0.0) + regulariser) * vectors
        sketch = rng.standard_normal((self.rows, d + 1)) @ root.T
        coef: NDArray[np.float64] = np.linalg.lstsq(sketch[:, :-1], sketch[:, -1], rcond=None)[0]
        return coef
