"""Tests of several coefficients at once (docs/theory/inference.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privgram.regression.inference import satterthwaite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.regression.equations import Equations

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["WaldTest", "f_test", "independent", "verdict", "wald"]

#: Contrasts follow from others where singular values of theirs, scaled to length 1, are less.
_SAME = 1e-9


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
        Degrees of freedom of the variance in `statistic`, by which the P value is that of an F
        test: those of the errors', and more where noise, of known variance, is in it. Infinite
        where the P value is that of chi-squared.
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
    gap, sampling, noise = _restricted(equations, contrasts, offset)
    return float(gap @ np.linalg.solve(sampling + noise, gap)), len(gap)


def f_test(
    said: tuple[str, ...],
    equations: Equations,
    contrasts: Matrix,
    offset: Vector,
    df_resid: float,
) -> WaldTest:
    """The test of `wald` with the P value of F.

    Parameters
    ----------
    said : tuple of str
        The hypothesis.
    equations, contrasts, offset
        As of `wald`.
    df_resid : float
        Degrees of freedom of the errors' variance. By Satterthwaite those of F are more, by the
        mean share that sampling has in the variance of the contrasts.
    """
    gap, sampling, noise = _restricted(equations, contrasts, offset)
    solved = np.linalg.solve(sampling + noise, np.column_stack([gap, sampling]))
    share = np.array([np.trace(solved[:, 1:]) / len(gap)])
    df_denom = float(satterthwaite(df_resid, share, np.ones(1))[0])
    return verdict(said, float(gap @ solved[:, 0]), len(gap), df_denom)


def _restricted(
    equations: Equations, contrasts: Matrix, offset: Vector
) -> tuple[Vector, Matrix, Matrix]:
    """What independent contrasts are less what they should be; its sampling and noise variance."""
    inverse, theta = equations.inverse, equations.theta
    contrasts, offset = independent(contrasts, offset)
    found = contrasts @ theta + offset
    # The least change, in the metric of the features, that obeys.
    step = inverse @ contrasts.T @ np.linalg.solve(contrasts @ inverse @ contrasts.T, found)
    v = np.append(step - theta, 1.0)
    pulled = contrasts @ inverse
    gap = found + pulled @ (equations.second @ v)
    return gap, equations.sampling(pulled), pulled @ equations.noise_at(v) @ pulled.T


def independent(contrasts: Matrix, offset: Vector) -> tuple[Matrix, Vector]:
    """Orthonormal contrasts that say the same: some may follow from others, in units of any size.

    Parameters
    ----------
    contrasts : ndarray of shape (k, p), float64
    offset : ndarray of shape (k,), float64
        Of the hypothesis contrasts @ theta + offset = 0.

    Returns
    -------
    contrasts : ndarray of shape (r, p), float64
    offset : ndarray of shape (r,), float64
    """
    unit = np.linalg.norm(contrasts, axis=1)
    unit[unit == 0] = 1.0
    left, sizes, rows = np.linalg.svd(contrasts / unit[:, None], full_matrices=False)
    kept = sizes > _SAME * sizes[0]
    return rows[kept], left[:, kept].T @ (offset / unit) / sizes[kept]


def verdict(
    said: tuple[str, ...], statistic: float, df: int, df_denom: float = math.inf
) -> WaldTest:
    """The test with its P value, of chi-squared or, with `df_denom`, of F."""
    from scipy.special import chdtrc, fdtrc

    finite = math.isfinite(df_denom)
    pvalue = fdtrc(df, df_denom, statistic / df) if finite else chdtrc(df, statistic)
    return WaldTest(said, statistic, df, float(pvalue), df_denom)
