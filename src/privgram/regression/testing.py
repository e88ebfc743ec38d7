"""Tests of several coefficients at once (docs/theory/inference.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.frames import as_frame

if TYPE_CHECKING:
    from privgram._base.arrays import Matrix, Vector
    from privgram.regression.equations import Equations
    from privgram.regression.inference import Inference


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
        F where `df_denom` is finite, else chi-squared with `df` degrees of freedom, under the
        hypothesis and to first order.
    df : int
    pvalue : float
    df_denom : float
        Degrees of freedom of the variance in `statistic`: those of the errors'. Infinite where the
        P value is that of chi-squared.
    """

    hypothesis: tuple[str, ...]
    statistic: float
    df: int
    pvalue: float
    df_denom: float = math.inf

    @property
    def fvalue(self) -> float:
        """F: chi-squared over its degrees of freedom."""
        return self.statistic if math.isfinite(self.df_denom) else self.statistic / self.df

    @property
    def df_num(self) -> int:
        """`df`, as statsmodels calls it in an F test."""
        return self.df

    def __str__(self) -> str:
        said = ", ".join(self.hypothesis[:4])
        more = f" and {len(self.hypothesis) - 4} more" if len(self.hypothesis) > 4 else ""
        zero = "" if "=" in said else " = 0"
        law = f"chi2({self.df})"
        if math.isfinite(self.df_denom):
            law = f"F({self.df}, {self.df_denom:.0f})"
        return f"{said}{more}{zero}: {law} = {self.statistic:.4g}, p = {self.pvalue:.3g}"


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Tests of linear hypotheses, each by itself, under the names that statsmodels has."""

    hypothesis: tuple[str, ...]  # what is tested
    inference: Inference  # of the k linear functions
    value: Vector  # (k,), what they are tested to be

    @property
    def effect(self) -> Vector:
        """Estimates of the functions, shape (k,)."""
        return self.inference.estimate

    @property
    def sd(self) -> Vector:
        """Their standard errors."""
        return self.inference.stderr

    @property
    def _moved(self) -> Inference:
        """Of the functions less what they are tested to be."""
        return replace(self.inference, estimate=self.effect - self.value)

    @property
    def tvalue(self) -> Vector:
        """Statistics, shape (k,): Student's or normal."""
        return self._moved.statistic()

    @property
    def statistic(self) -> Vector:
        """`tvalue`, as statsmodels also calls it."""
        return self.tvalue

    @property
    def pvalue(self) -> Vector:
        """Two-sided P values, shape (k,)."""
        return self._moved.pvalues()

    @property
    def df_denom(self) -> Vector:
        """Degrees of freedom of Student's law, infinite where it is normal; shape (k,)."""
        return self.inference.df

    def conf_int(self, alpha: float = 0.05) -> Matrix:
        """Confidence intervals of the functions, shape (k, 2)."""
        return self.inference.intervals(self.inference.quantile(1 - alpha))

    def summary_frame(self, alpha: float = 0.05) -> Any:
        """All of it as a data frame (needs pandas), with the columns that statsmodels has."""
        low, high = self.conf_int(alpha).T
        law = "z" if np.isinf(self.df_denom).all() else "t"
        columns = {
            "coef": self.effect,
            "std err": self.sd,
            law: self.tvalue,
            f"P>|{law}|": self.pvalue,
            "Conf. Int. Low": low,
            "Conf. Int. Upp.": high,
        }
        return as_frame(columns, [f"c{i}" for i in range(len(low))])

    def __str__(self) -> str:
        low, high = self.conf_int().T
        columns = (self.effect, self.sd, self.tvalue, self.pvalue, low, high)
        return "\n".join(
            f"{said}: {b:.4g} +- {sd:.3g}, {'t' if math.isfinite(df) else 'z'} = {t:.4g}, "
            f"p = {p:.3g}, [{lo:.4g}, {hi:.4g}]"
            for said, df, b, sd, t, p, lo, hi in zip(
                self.hypothesis, self.df_denom, *columns, strict=True
            )
        )


def wald(equations: Equations, contrasts: Matrix, offset: Vector) -> tuple[float, int]:
    """Statistic and degrees of freedom of the hypothesis contrasts @ theta + offset = 0, of k rows.

    The variance is taken at the nearest coefficients that obey the hypothesis, as for a single
    coefficient: the noise is in the features too, and depends on them. The equations are of a
    regression for which `privgram.regression.inference.infer` has offered inference.
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
    """The test of `wald` with the P value of F, of a hypothesis in words.

    With `df_resid` degrees of freedom of the errors' variance. Noise, whose variance is known,
    takes none: so the test is wider than need be where there is much of it.
    """
    return verdict(said, *wald(equations, contrasts, offset), df_resid)


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
    """Orthonormal contrasts (r, p) of k that say the same, contrasts @ theta + offset = 0.

    Some may follow from others, in units of any size.
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
    return WaldTest(said, statistic / df if finite else statistic, df, float(pvalue), df_denom)
