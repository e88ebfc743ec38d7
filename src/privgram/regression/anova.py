"""How much of the target a regression explains, and each of its terms, with errors and tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from privgram._base.text import Printed, as_frame, as_text
from privgram.regression.hypothesis import independent, verdict, wald
from privgram.regression.inference import Equations, hull

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pandas import DataFrame

    from privgram._base.numbers import Vector
    from privgram.regression.design import Design

#: Whose R squared: that of the rows at hand, or of a population of normal rows.
ShareEstimand = Literal["sample", "normal"]


@dataclass(frozen=True, eq=False)
class Goodness:
    """The share of the target's variance that the features explain.

    With coefficients (p,) of columns that explain whose sum is `constant`, 1, the variance is about
    the mean. Without them it is about zero in the scale of the equations.
    """

    equations: Equations
    constant: Vector | None

    @cached_property
    def _mean_row(self) -> Vector:
        """The target less its mean, as an image of the columns."""
        row, ones = np.zeros((2, len(self.equations.shifted)))
        row[-1] = 1.0
        if self.constant is None:
            return row
        ones[: self.equations.size] = self.constant
        sums = self.equations.matrix @ ones
        mean = float(sums[-1] / (sums @ ones))
        return row - mean * ones

    @cached_property
    def total(self) -> float:
        """Sum of squares of the target."""
        return float(self._mean_row @ self.equations.matrix @ self._mean_row)

    @property
    def rsquared(self) -> float:
        """1 - residual sum of squares / total one; noise may push it out of [0, 1]."""
        return 1 - self.equations.squares / self.total if self.total > 0 else math.nan

    @property
    def adjusted(self) -> float:
        """R squared with both sums over their degrees of freedom: of the population."""
        assert self.equations.n_rows is not None
        freedom = (self.equations.n_rows - (self.constant is not None)) / self.equations.df_resid
        return 1 - freedom * (1 - self.rsquared)

    @cached_property
    def _noise(self) -> Vector:
        """Variance of the noise in e^T e - (1 - t) y^T y, over the total squared: quadratic in t.

        Coefficients by rising power.  To first order the noise in e^T e is v^T N v, as the
        estimate minimises it; e v^T N v + y u^T N u is a product of two factors,
        e^T N y for the rows v +- sqrt(1 - t) u.
        """
        law, shifted = self.equations.law, self.equations.shifted
        unexplained = np.array([0.0, 0.5, 1.0])
        root = np.sqrt(unexplained)[:, None] * self._mean_row
        rows = np.stack([self.equations.v + root, self.equations.v - root], axis=1)
        values = law.entry_variance(shifted, rows)[:, 0, 1] / self.total**2
        # In s = 1 - t; then in t.
        in_s = np.polynomial.Polynomial.fit(unexplained, values, 2, domain=[-1, 1], window=[-1, 1])
        in_t = in_s(np.polynomial.Polynomial([1.0, -1.0])).coef
        return np.pad(np.asarray(in_t, dtype=np.float64), (0, 3 - len(in_t)))

    def _at_zero(self, estimand: ShareEstimand) -> float:
        """What is left of the variance where nothing is explained: of second order.

        A square of normal errors of covariance C, in the metric S of the features about their
        means, has the variance 2 tr((S C)^2).
        """
        equations = self.equations.at_hand if estimand == "sample" else self.equations
        gram, covariance = equations.gram, equations.covariance
        if self.constant is not None:
            sums = gram @ self.constant
            gram = gram - np.outer(sums, sums) / (sums @ self.constant)
        image = gram @ covariance
        return float(2 * (image * image.T).sum()) / self.total**2

    def _variance(self, estimand: ShareEstimand) -> np.polynomial.Polynomial:
        """Variance of the estimate as a function of the true R squared t.

        Of the rows at hand that of the noise. What sampling adds is that of normal rows, 4 t (1 -
        t)^2 / n (Olkin, Finn, "Correlations redux", Psychol. Bull. 118, 1995).
        """
        variance = np.pad(self._noise, (0, 1))
        variance[0] += self._at_zero(estimand)
        if estimand == "normal":
            assert self.equations.n_rows is not None
            variance += np.array([0.0, 4.0, -8.0, 4.0]) / self.equations.n_rows
        return np.polynomial.Polynomial(variance)

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


@dataclass(frozen=True, eq=False, repr=False)
class Anova(Printed):
    """What each of k terms explains.

    Attributes
    ----------
    terms : tuple of str
    df : ndarray of shape (k,), int
    sum_sq : ndarray of shape (k,), float64
        By which a term lowers the residual sum of squares, in the target's units squared; the
        noise in it has not been taken off.
    fvalue, pvalue : ndarray of shape (k,), float64
        Of the hypothesis that it explains nothing. With noise F is less than the ratio of mean
        squares: the noise makes both.
    residual : float
        Residual sum of squares, without the noise's bias.
    df_resid : float
    typ : {1, 2, 3}
    """

    terms: tuple[str, ...]
    df: NDArray[np.intp]
    sum_sq: Vector
    fvalue: Vector
    pvalue: Vector
    residual: float
    df_resid: float
    typ: int

    @property
    def mean_sq(self) -> Vector:
        """`sum_sq` over `df`."""
        return self.sum_sq / self.df

    @property
    def _columns(self) -> dict[str, list[float]]:
        return {
            "df": [*self.df.astype(float), self.df_resid],
            "sum_sq": [*self.sum_sq, self.residual],
            "mean_sq": [*self.mean_sq, self.residual / self.df_resid],
            "F": [*self.fvalue, math.nan],
            "PR(>F)": [*self.pvalue, math.nan],
        }

    def frame(self) -> DataFrame:
        """A data frame (needs pandas) as statsmodels' `anova_lm` gives."""
        return as_frame(self._columns, [*self.terms, "Residual"])

    def __str__(self) -> str:
        legend = f"Type {self.typ}. F counts the privacy noise, sums hold it."
        return as_text([*self.terms, "Residual"], self._columns, legend)


def anova(design: Design, equations: Equations, typ: Literal[1, 2, 3], unit: float) -> Anova:
    """Test each term in the regression, which offers inference, with what it is to be adjusted for.

    The errors' variance is always that of all terms. Sums of squares are in `unit`.
    """
    df_resid = equations.df_resid
    meat = equations.sampling(np.eye(equations.size))
    always = list(range(len(design.names), equations.size))  # effects not shown, and the ones
    spans = {name: list(range(at.start, at.stop)) for name, at in design.terms.items()}
    df, squares, f, p = [], [], [], []
    for number, (name, places) in enumerate(spans.items()):
        if typ == 3:  # of coefficients in own units, as levels are coded
            part, contrasts = equations, design.transform[places]
        else:
            others = _others(list(spans), number, typ)
            included = [*places, *(i for other in others for i in spans[other]), *always]
            at = np.array([*included, equations.size])
            law = equations.law.marginal(equations.size + 1, at.tolist())
            block = equations.shifted[np.ix_(at, at)]
            part = Equations(law, block, equations.n_rows, meat[np.ix_(included, included)])
            contrasts = np.eye(len(places), len(included))
        nothing = np.zeros(len(places))
        test = verdict((name,), *wald(part, contrasts, nothing), df_resid)
        alone, _ = independent(contrasts, nothing)
        theta = alone @ part.theta
        gap = np.linalg.solve(alone @ part.inverse @ alone.T, theta)
        df.append(test.df)
        squares.append(float(theta @ gap))
        f.append(test.fvalue)
        p.append(test.pvalue)
    return Anova(
        tuple(spans),
        np.array(df),
        unit * np.array(squares),
        np.array(f),
        np.array(p),
        unit * equations.squares,
        df_resid,
        typ,
    )


def _others(terms: list[str], number: int, typ: int) -> list[str]:
    name = terms[number]
    if typ == 1:
        return terms[:number]
    others = [other for other in terms if other != name]
    if typ == 2:  # but for products with it
        parts = set(name.split(":"))
        others = [other for other in others if not parts < set(other.split(":"))]
    return others
