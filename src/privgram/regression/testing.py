"""Tests of several coefficients at once (docs/theory/inference.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.regression.equations import Equations

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["WaldTest", "verdict", "wald"]


@dataclass(frozen=True)
class WaldTest:
    """A test of a linear hypothesis, such as that some coefficients are all 0.

    Attributes
    ----------
    hypothesis : tuple of str
        The coefficients, or the equations.
    statistic : float
        Chi-squared with `df` degrees of freedom under the hypothesis, to first order.
    df : int
    pvalue : float
    df_denom : float
        Degrees of freedom of the errors' variance, by which the P value is that of an F test;
        infinite where it is that of `statistic`.
    """

    hypothesis: tuple[str, ...]
    statistic: float
    df: int
    pvalue: float
    df_denom: float = math.inf

    @property
    def fvalue(self) -> float:
        """The statistic over its degrees of freedom: F."""
        return self.statistic / self.df

    @property
    def df_num(self) -> int:
        """`df`, as statsmodels calls it in an F test."""
        return self.df

    def __str__(self) -> str:
        said = ", ".join(self.hypothesis[:4])
        more = f" and {len(self.hypothesis) - 4} more" if len(self.hypothesis) > 4 else ""
        zero = "" if "=" in said else " = 0"
        law, value = f"chi2({self.df})", self.statistic
        if math.isfinite(self.df_denom):
            law, value = f"F({self.df}, {self.df_denom:.0f})", self.fvalue
        return f"{said}{more}{zero}: {law} = {value:.4g}, p = {self.pvalue:.3g}"


def wald(equations: Equations, contrasts: Matrix, offset: Vector) -> tuple[float, int]:
    """Statistic and degrees of freedom of the hypothesis contrasts @ theta + offset = 0.

    The variance is taken at the nearest coefficients that obey the hypothesis, as for a single
    coefficient: the noise is in the features too, and depends on them.

    Parameters
    ----------
    equations : Equations
        Of a regression for which `privgram.regression.inference.infer` has offered inference.
    contrasts : ndarray of shape (k, p), float64
    offset : ndarray of shape (k,), float64
    """
    inverse, theta = equations.inverse, equations.theta
    found = contrasts @ theta + offset
    # Some contrasts may follow from others.
    sizes, vectors = np.linalg.eigh(contrasts @ inverse @ contrasts.T)
    kept = sizes > 1e-12 * sizes[-1]
    contrasts, found = vectors[:, kept].T @ contrasts, vectors[:, kept].T @ found
    # The least change, in the metric of the features, that obeys.
    step = inverse @ contrasts.T @ np.linalg.solve(contrasts @ inverse @ contrasts.T, found)
    v = np.append(step - theta, 1.0)
    pulled = contrasts @ inverse
    at_null = equations.sampling(pulled) + pulled @ equations.noise_at(v) @ pulled.T
    gap = found + pulled @ (equations.second @ v)
    return float(gap @ np.linalg.solve(at_null, gap)), int(kept.sum())


def verdict(
    said: tuple[str, ...], statistic: float, df: int, df_denom: float = math.inf
) -> WaldTest:
    """The test with its P value, of chi-squared or, with `df_denom`, of F."""
    from scipy.special import chdtrc, fdtrc

    finite = math.isfinite(df_denom)
    pvalue = fdtrc(df, df_denom, statistic / df) if finite else chdtrc(df, statistic)
    return WaldTest(said, statistic, df, float(pvalue), df_denom)
