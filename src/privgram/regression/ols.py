"""A regression on a release: what was fitted, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.numbers import Matrix, Vector
from privgram._base.text import shown
from privgram.regression.design import Design, RegressionTerms
from privgram.regression.diagnostics import caveats, clips, dependent, pinned
from privgram.regression.goodness import shown_share
from privgram.regression.hypothesis import WaldTest, verdict, wald
from privgram.regression.inference import (
    ALL_OPEN,
    Equations,
    RefusedError,
    degrees_behind,
)
from privgram.regression.results import OfRelease

if TYPE_CHECKING:
    from privgram._base.saved import JsonObject
    from privgram.releases.record import ReleaseRecord


@dataclass(frozen=True, eq=False)
class OLSResults(OfRelease):
    """A linear regression on a release, in the columns' own units.

    `params`, `bse`, `conf_int` and all else of `RegressionResults`. Those of a penalised fit are
    the penalised coefficients, which have no standard errors here.

    Attributes
    ----------
    ridge : float, "auto" or ndarray of shape (p,)
        Penalty added to the released matrix (in its scale), not on the intercept.
    n_rows : float or None
        Rows behind the fit: public, or estimated from the release; those with missing
        values that were dropped do not count.
    release : Release
        What it was computed from.
    design : Design
        The columns of the release that were used, and the way to own units.
    theta : ndarray of shape (q,), float64
        Coefficients of the design's columns, with all shrinkage.
    caution : str or None
        What to do about columns that seem to depend on each other, or None.
    without : str or None
        Why a fit of this kind has no inference, or None.
    question : RegressionTerms or None
        What was asked for; None of a fit of a path of penalties.
    not_scores : str or None
        Why `privgram.Study.regress` took a release; None of a regression on one.
    """

    release: ReleaseRecord
    design: Design
    theta: Vector
    ridge: float | str | Vector
    n_rows: float | None
    without: str | None = None
    question: RegressionTerms | None = None
    not_scores: str | None = None

    _instead = "For predictions, take ridge='auto'"

    @property
    def _asked(self) -> JsonObject:  # type: ignore[override]
        ridge = self.ridge.tolist() if isinstance(self.ridge, np.ndarray) else self.ridge
        return {"ridge": ridge, "without": self.without}

    @cached_property
    def used(self) -> Vector:
        """`theta` in own units, the constant last: an estimator's predictions."""
        coef = self.design.transform @ self.theta + self.design.offset
        coef.flags.writeable = False
        return coef

    @property
    def _unanswered(self) -> str | None:
        return pinned(self.release, self.design) or self._penalised

    @property
    def _penalised(self) -> str | None:
        """Why there are no standard errors of an estimate that is shrunk on purpose."""
        if self.without is not None or not np.any(self.ridge != 0.0):
            return self.without
        return (
            "a ridge moves coefficients by what no standard error counts. For those of the "
            "estimate without it, leave ridge out"
        )

    @cached_property
    def _estimate(self) -> Vector:
        """The penalised coefficients; else those that the noise lets be known."""
        if self._penalised is not None and self.refusal == self._penalised:
            return self.used[: len(self.param_names)]
        if self.refusal in (None, ALL_OPEN):
            return self.inference.estimate
        return self._about("sample").estimate  # where the number of rows alone is missing

    @cached_property
    def _equations(self) -> Equations:  # type: ignore[override]
        law, block = self.design.block(self.release)
        return Equations(law, block, degrees_behind(self.release, self.n_rows))

    @cached_property
    def caution(self) -> str | None:
        """What to do about columns that seem to depend on each other, or None.

        Not refused: which releases look like that turns on their noise, and intervals that are
        offered by it would hold less than their level (docs/theory/inference.md).
        """
        return dependent(self.release, self.design)

    def _tested(
        self, hypothesis: tuple[str, ...], matrix: Matrix, values: Vector, *, use_f: bool
    ) -> WaldTest:
        self._need_inference()
        size = len(self.param_names)
        transform, offset = self.design.transform[:size], self._offset[:size]
        statistic = wald(self._equations, matrix @ transform, matrix @ offset - values)
        return verdict(hypothesis, *statistic, self.df_resid if use_f else math.inf)

    @property
    def llf(self) -> float:
        """Logarithm of the likelihood of normal errors, at the estimate.

        It differs between fits by noise too: `f_test` counts that, a likelihood ratio not.
        RefusedError for weighted rows, of whose weights the logarithms were not released.
        """
        self._need_inference()
        if self.release.weighted:
            raise RefusedError(
                "the likelihood of weighted rows takes the logarithms of their weights, which "
                "were not released: compare fits by f_test, or release without weights"
            )
        squares = self.scale * self.df_resid
        if not squares > 0:
            raise RefusedError(
                "the noise hides the residuals, and with them the likelihood: take a larger epsilon"
            )
        return -self.nobs / 2 * (math.log(2 * math.pi * squares / self.nobs) + 1)

    @property
    def aic(self) -> float:
        """Akaike's criterion, as `llf`."""
        return 2 * len(self.param_names) - 2 * self.llf

    @property
    def bic(self) -> float:
        """Bayes' criterion, as `llf`."""
        return math.log(self.nobs) * len(self.param_names) - 2 * self.llf

    def _facts(self) -> dict[str, str]:
        facts = super()._facts()
        if np.any(self.ridge != 0.0):
            many = isinstance(self.ridge, np.ndarray)
            facts["Ridge"] = "per feature" if many else f"{self.ridge}"
        if self.refusal is None:
            facts["R-squared"] = shown_share(self.rsquared, self._goodness.stderr)
        return facts

    def _notes(self) -> list[str]:
        notes = self._way()
        if self.refusal is None and clips(self.release):
            notes.append("Rows far out in several columns are shortened; estimates are of those.")
        notes += caveats(self.release, self.n_rows, self.design)
        if self.caution is not None:
            notes.append(f"{self.caution[0].upper()}{self.caution[1:]}.")
        return notes

    def __repr__(self) -> str:
        names = ", ".join(map(shown, self.design.names))
        return self._shown(f"Fit of {shown(self.target)} on {names}: {self.proof_status}")
