"""Normal equations with noise in them, and what is computed of them once for all statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from privgram._base.arrays import Matrix, Vector
    from privgram.noise import NoiseLaw


@dataclass(frozen=True, eq=False)
class Equations:
    """The equations S theta = s of a regression on a release (docs/theory/inference.md).

    S, which must be regular, is the features' block less its shift, and s the target's column. With
    v = (-theta, 1) and N the noise, S (estimate - theta) = X^T e + (N v)_features, exactly.
    """

    law: NoiseLaw  # of the noise in `shifted`
    shifted: Matrix  # (p + 1, p + 1), the released matrix of the features, and the target last
    n_rows: float | None  # behind it; less the effects of units, where their means were taken off
    # (p, p), covariance of X^T e; by default that of errors of equal variance
    meat: Matrix | None = None

    @property
    def size(self) -> int:
        """Number of columns p that explain, the intercept's among them."""
        return len(self.shifted) - 1

    @cached_property
    def matrix(self) -> Matrix:
        """The second moment, unbiased: less its known shift."""
        return self.shifted - self.law.shift_matrix(len(self.shifted))

    @property
    def gram(self) -> Matrix:
        """S, shape (p, p)."""
        return self.matrix[:-1, :-1]

    @cached_property
    def inverse(self) -> Matrix:
        """Inverse of `gram`."""
        return np.asarray(np.linalg.inv(self.gram), dtype=np.float64)

    @cached_property
    def theta(self) -> Vector:
        """The estimate, shape (p,)."""
        return self.inverse @ self.matrix[:-1, -1]

    @cached_property
    def v(self) -> Vector:
        """The residual's row, (-theta, 1)."""
        return np.append(-self.theta, 1.0)

    def noise_at(self, v: Vector) -> Matrix:
        """Covariance of (N v)_features, shape (p, p)."""
        return self.law.sandwich(self.shifted, np.outer(v, v))[:-1, :-1]

    @cached_property
    def noise(self) -> Matrix:
        """Covariance of (N v)_features at the estimate."""
        return self.noise_at(self.v)

    @cached_property
    def second(self) -> Matrix:
        """E[N S^{-1} N] with S^{-1} on the features alone, shape (p, p + 1)."""
        return self.law.sandwich(self.shifted, np.pad(self.inverse, (0, 1)))[:-1]

    @cached_property
    def squares(self) -> float:
        """Sum of squared residuals, without first-order bias; not negative.

        Where noise makes it negative it also outweighs the sampling error by far.
        """
        noisy = self.v @ self.matrix @ self.v + np.trace(self.inverse @ self.noise)
        return max(float(noisy), 0.0)

    @property
    def df_resid(self) -> float:
        """Degrees of freedom of `variance`."""
        return math.nan if self.n_rows is None else self.n_rows - self.size

    @property
    def variance(self) -> float:
        """Variance of the errors."""
        return self.squares / self.df_resid

    @cached_property
    def at_hand(self) -> Equations:
        """The same about the least squares of the rows at hand: the noise is the only error.

        Of that solution X^T e is zero, whatever the errors are.
        """
        return replace(self, meat=np.zeros_like(self.gram))

    def sampling(self, pulled: Matrix) -> Matrix:
        """Covariance of pulled @ X^T e, for `pulled` of shape (k, p)."""
        meat = self.variance * self.gram if self.meat is None else self.meat
        return pulled @ meat @ pulled.T

    @cached_property
    def covariance(self) -> Matrix:
        """Of the estimate: sampling and noise."""
        return self.sampling(self.inverse) + self.inverse @ self.noise @ self.inverse
