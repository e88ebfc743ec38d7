"""How much of the target a regression explains, with its error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from privgram.regression.inference import Equations, hull

if TYPE_CHECKING:
    from privgram._base.numbers import Vector

#: Whose R squared: that of the rows at hand, or of a population of normal rows.
ShareEstimand = Literal["sample", "normal"]

#: Pseudo R squared by Cox and Snell, and by McFadden.
PseudoKind = Literal["cs", "mcf"]


@dataclass(frozen=True, eq=False)
class Goodness:
    """The share of the target's variance that the features explain, and how well it is known.

    Attributes
    ----------
    rsquared : float
        1 - residual sum of squares / total one; noise may push it out of [0, 1]. NaN, as are all
        errors and intervals, where noise leaves no positive total.
    noise : list of float
        Variance of what noise does to it, a polynomial in the true share: by rising power.
    at_zero : list of float
        What is left of the variance where nothing is explained, of the rows at hand and of a
        population: of second order.
    n_rows : float or None
    df_resid : float
    about_mean : bool
        Whether the variance is about the mean, and not about zero in the scale of the equations.
    """

    rsquared: float
    noise: list[float]
    at_zero: list[float]
    n_rows: float | None
    df_resid: float
    about_mean: bool

    @classmethod
    def of(cls, equations: Equations, constant: Vector | None) -> Goodness:
        """That of equations, where coefficients (p,) of columns whose sum is 1 are `constant`.

        To first order the noise in e^T e is v^T N v, as the estimate minimises it; less (1 - t)
        y^T y it is a product of two factors, e^T N y for the rows v +- sqrt(1 - t) u. A square of
        normal errors of covariance C, in the metric S of the features about their means, has the
        variance 2 tr((S C)^2).
        """
        law, shifted, matrix = equations.law, equations.shifted, equations.matrix
        row, ones = np.zeros((2, len(shifted)))
        row[-1] = 1.0
        gram = equations.gram
        if constant is not None:
            ones[: equations.size] = constant
            sums = matrix @ ones
            row = row - float(sums[-1] / (sums @ ones)) * ones
            of_ones = gram @ constant
            gram = gram - np.outer(of_ones, of_ones) / (of_ones @ constant)
        total = float(row @ matrix @ row)
        unexplained = np.array([0.0, 0.5, 1.0])
        root = np.sqrt(unexplained)[:, None] * row
        rows = np.stack([equations.v + root, equations.v - root], axis=1)
        values = law.entry_variance(shifted, rows)[:, 0, 1] / total**2
        # In s = 1 - t; then in t.
        in_s = np.polynomial.Polynomial.fit(unexplained, values, 2, domain=[-1, 1], window=[-1, 1])
        in_t = np.asarray(in_s(np.polynomial.Polynomial([1.0, -1.0])).coef, dtype=np.float64)
        images = [gram @ x.covariance for x in (equations.at_hand, equations)]
        return cls(
            1 - equations.squares / total if total > 0 else math.nan,
            np.pad(in_t, (0, 3 - len(in_t))).tolist(),
            [float(2 * (x * x.T).sum()) / total**2 for x in images],
            equations.n_rows,
            equations.df_resid,
            constant is not None,
        )

    @property
    def is_finite(self) -> bool:
        """Whether all of it are numbers."""
        return bool(np.isfinite([self.rsquared, *self.noise, *self.at_zero]).all())

    @property
    def adjusted(self) -> float:
        """R squared with both sums over their degrees of freedom: of the population."""
        assert self.n_rows is not None
        freedom = (self.n_rows - self.about_mean) / self.df_resid
        return 1 - freedom * (1 - self.rsquared)

    def _variance(self, estimand: ShareEstimand) -> np.polynomial.Polynomial:
        """Variance of the estimate as a function of the true R squared t.

        Of the rows at hand that of the noise. What sampling adds is that of normal rows, 4 t (1 -
        t)^2 / n (Olkin, Finn, "Correlations redux", Psychol. Bull. 118, 1995).
        """
        variance = np.polynomial.Polynomial(self.noise) + self.at_zero[estimand == "normal"]
        if estimand == "normal":
            assert self.n_rows is not None
            variance += np.polynomial.Polynomial([0.0, 4.0, -8.0, 4.0]) / self.n_rows
        return variance

    @property
    def stderr(self) -> float:
        """Standard error of `rsquared` about that of the rows at hand."""
        at = min(max(self.rsquared, 0.0), 1.0)
        return math.sqrt(max(float(self._variance("sample")(at)), 0.0))

    def interval(self, quantile: float, estimand: ShareEstimand) -> tuple[float, float]:
        """Where R squared is within so many standard errors, in [0, 1].

        About `rsquared` for the rows at hand, and about `adjusted` for a population.
        """
        estimate = self.rsquared if estimand == "sample" else self.adjusted
        gap = np.polynomial.Polynomial([estimate, -1.0])
        inside = quantile**2 * self._variance(estimand) - gap**2
        return hull(inside, 0.0, 1.0, min(max(estimate, 0.0), 1.0))


@dataclass(frozen=True, eq=False)
class LikelihoodGain:
    """What features add to the log likelihood of a constant, by row, and how well it is known.

    Attributes
    ----------
    gain, stderr : float
        With the standard error about that of the rows at hand.
    null : float or None
        The log likelihood of the constant; None where the mean does not tell it.
    null_stderr : float
    """

    gain: float
    stderr: float
    null: float | None
    null_stderr: float

    @property
    def is_finite(self) -> bool:
        """Whether all of it are numbers."""
        return bool(np.isfinite([self.gain, self.stderr, self.null or 0.0, self.null_stderr]).all())

    def share(self, kind: PseudoKind) -> tuple[float, float]:
        """A pseudo R squared and its standard error."""
        if kind == "cs":
            # Noise may say that a constant explains far more.
            left = math.exp(-2 * self.gain) if self.gain > -350 else math.inf
            return 1 - left, 2 * left * self.stderr
        assert self.null is not None
        share = -self.gain / self.null
        return share, math.hypot(self.stderr, share * self.null_stderr) / -self.null


def shown_share(share: float, error: float) -> str:
    """Write a share and the error of its noise, where that lets anything be said."""
    if not (error <= 1 and math.isfinite(share)):  # also if either is NaN
        return "hidden by noise"
    text = f"{error:.3f}"
    return f"{share:.3f}" + f" ± {text}" * (float(text) > 0)
