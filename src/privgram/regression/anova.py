"""Analysis of variance: what each term of a regression on a release explains, with a test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privgram._base.frames import as_frame
from privgram._base.text import shown
from privgram.regression.equations import Equations
from privgram.regression.testing import f_test, independent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.arrays import Vector
    from privgram.regression.design import Design


@dataclass(frozen=True, eq=False)
class Anova:
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

    def frame(self) -> Any:
        """A data frame (needs pandas) as statsmodels' `anova_lm` gives."""
        columns = {
            "df": [*self.df.astype(float), self.df_resid],
            "sum_sq": [*self.sum_sq, self.residual],
            "mean_sq": [*self.mean_sq, self.residual / self.df_resid],
            "F": [*self.fvalue, math.nan],
            "PR(>F)": [*self.pvalue, math.nan],
        }
        return as_frame(columns, [*self.terms, "Residual"])

    def __str__(self) -> str:
        width = max(len(shown(name)) for name in (*self.terms, "Residual")) + 1
        heads = f"{'df':>10}{'sum_sq':>13}{'mean_sq':>13}{'F':>12}{'PR(>F)':>10}"
        lines = [" " * width + heads]
        rows = zip(self.df, self.sum_sq, self.mean_sq, self.fvalue, self.pvalue, strict=True)
        for name, (df, squares, mean, f, p) in zip(self.terms, rows, strict=True):
            lines.append(
                f"{shown(name):<{width}}{df:>10}{squares:>13.5g}{mean:>13.5g}{f:>12.4g}{p:>10.3g}"
            )
        mean = self.residual / self.df_resid
        lines.append(
            f"{'Residual':<{width}}{self.df_resid:>10.0f}{self.residual:>13.5g}{mean:>13.5g}"
        )
        return "\n".join([*lines, f"Type {self.typ}. F counts the privacy noise, sums hold it."])


def anova(design: Design, equations: Equations, typ: Literal[1, 2, 3], unit: float) -> Anova:
    """Test each term in the regression, which offers inference, with what it is to be adjusted for.

    The errors' variance is always that of all terms. Sums of squares are in `unit`.
    """
    df_resid = equations.df_resid
    meat = equations.variance * equations.gram if equations.meat is None else equations.meat
    ones = [equations.size - 1] if design.intercept else []
    spans = {name: list(range(at.start, at.stop)) for name, at in design.terms.items()}
    df, squares, f, p = [], [], [], []
    for number, (name, own) in enumerate(spans.items()):
        if typ == 3:  # of coefficients in own units, as levels are coded
            part, contrasts = equations, design.transform[own]
        else:
            others = _others(list(spans), number, typ)
            kept = [*own, *(i for other in others for i in spans[other]), *ones]
            at = np.array([*kept, equations.size])
            law = equations.law.marginal(equations.size + 1, at.tolist())
            block = equations.shifted[np.ix_(at, at)]
            part = Equations(law, block, equations.n_rows, meat[np.ix_(kept, kept)])
            contrasts = np.eye(len(own), len(kept))
        test = f_test((name,), part, contrasts, np.zeros(len(own)), df_resid)
        alone, _ = independent(contrasts, np.zeros(len(own)))
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
    """The terms that one is adjusted for."""
    name = terms[number]
    if typ == 1:
        return terms[:number]
    others = [other for other in terms if other != name]
    if typ == 2:  # but for products with it
        own = set(name.split(":"))
        others = [other for other in others if not own < set(other.split(":"))]
    return others
