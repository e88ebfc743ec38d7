"""Predictions of a regression on a release, with intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, get_args

import numpy as np

from privgram._base.numbers import Matrix, Vector, check_one_of
from privgram._base.text import as_frame
from privgram.regression.families import Family
from privgram.regression.inference import Estimand, Inference, RefusedError, level_of, students

if TYPE_CHECKING:
    from collections.abc import Callable

    from pandas import DataFrame


#: Rows that are predicted at once.
_ROWS = 256

HIDDEN_RESIDUALS = (
    "the noise hides the residuals, and with them how far observations lie about their means: "
    "take a larger epsilon"
)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted means and observations of m rows, under the names that statsmodels has.

    Attributes
    ----------
    rows : ndarray of shape (m, k), float64
        The features in own units, and ones where there is a constant.
    var_resid : float
        Variance of an observation about its mean, in the target's units, squared.
    df_resid : float
        Its degrees of freedom.
    """

    rows: Matrix = field(repr=False)
    var_resid: float
    df_resid: float
    _infer: Callable[[Matrix, Estimand], Inference] = field(repr=False)
    _family: Family

    def _parts(self, estimand: Estimand) -> list[Inference]:
        """Inference on the means, of some rows each."""
        starts = range(0, max(len(self.rows), 1), _ROWS)
        parts = [self._infer(self.rows[start : start + _ROWS], estimand) for start in starts]
        if parts[0].refusal is not None:
            raise RefusedError(f"there is no inference: {parts[0].refusal}")
        return parts

    @cached_property
    def _of_population(self) -> list[Inference]:
        return self._parts("population")

    @cached_property
    def _means(self) -> tuple[Vector, Vector]:
        """Means at the linear predictors, and the roots of their slopes there."""
        return self._family.means(np.concatenate([part.estimate for part in self._of_population]))

    @property
    def predicted_mean(self) -> Vector:
        """Means of the target, shape (m,), of the estimate `params`."""
        return self._means[0]

    @cached_property
    def se_mean(self) -> Vector:
        """Their standard errors, shape (m,); of another family than "gaussian" to first order."""
        errors = np.concatenate([part.stderr for part in self._of_population])
        return np.asarray(errors * self._means[1] ** 2)

    @property
    def se_obs(self) -> Vector:
        """Standard deviations of new observations about the predicted means, shape (m,).

        NaN where the noise hides the residuals.
        """
        around = np.sqrt(self.var_resid) if self.var_resid > 0 else np.nan
        return np.hypot(self.se_mean, around)

    def conf_int(
        self, obs: bool = False, alpha: float = 0.05, *, estimand: Estimand = "population"
    ) -> Matrix:
        """Intervals of the means, or of new observations.

        Parameters
        ----------
        obs : bool
            Of an observation, whose error is taken to be normal, and not of the mean. Of family
            "gaussian" alone. The residual variance is taken as known: where noise moves it by two
            thirds, intervals that say 95 % held 89 %.
        alpha : float, default 0.05
            1 - level, in (0, 0.5].
        estimand : {"population", "sample"}, default "population"
            Means of the population, or what a fit without privacy predicts, from which the noise
            alone keeps these; see `OLSResults.conf_int`. Not with `obs`.

        Returns
        -------
        ndarray of shape (m, 2), float64

        Raises
        ------
        RefusedError
            A ValueError: where `OLSResults.conf_int` raises it, and of observations where the noise
            hides the residuals.
        ValueError
            If an argument is out of its range, or a new observation is asked for of the data.
        """
        check_one_of(estimand, "estimand", get_args(Estimand))
        if obs and not self._family.is_linear:
            raise ValueError("intervals are of means here, not of new observations: leave obs out")
        if obs and estimand == "sample":
            raise ValueError(
                "a new observation is not one of these rows: leave obs or estimand out"
            )
        level = level_of(alpha)
        if obs and not self.var_resid > 0:
            raise RefusedError(HIDDEN_RESIDUALS)
        parts = self._of_population if estimand == "population" else self._parts(estimand)
        ends = np.concatenate([part.intervals(level) for part in parts])
        if not obs:
            return np.column_stack([self._family.means(end)[0] for end in ends.T])
        middle = self.predicted_mean[:, None]
        around = students(level, self.df_resid) * np.sqrt(self.var_resid)
        half = np.hypot(ends - middle, around)
        return np.asarray(middle + half * [-1.0, 1.0])

    def summary_frame(self, alpha: float = 0.05) -> DataFrame:
        """All of it as a data frame (needs pandas), with the columns that statsmodels has.

        What is said of observations is NaN where the noise hides the residuals.
        """
        low, high = self.conf_int(alpha=alpha).T
        columns = {"mean": self.predicted_mean, "mean_se": self.se_mean}
        columns |= {"mean_ci_lower": low, "mean_ci_upper": high}
        if self._family.is_linear:
            if self.var_resid > 0:
                low, high = self.conf_int(alpha=alpha, obs=True).T
            else:
                low = high = np.full(len(self.rows), np.nan)
            columns |= {"obs_ci_lower": low, "obs_ci_upper": high}
        return as_frame(columns)
