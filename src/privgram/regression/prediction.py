"""Predictions of a regression on a release, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.optional import extra
from privgram.regression.inference import Inference, infer, quantile_of
from privgram.regression.results import level_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._release.record import ReleaseRecord
    from privgram.regression.design import Design
    from privgram.regression.equations import Equations

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["Prediction", "predict"]

#: Rows that are predicted at once.
_ROWS = 256


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted means and observations of m rows, under the names that statsmodels has.

    Attributes
    ----------
    parts : tuple of Inference
        On the means, of some rows each.
    var_resid : float
        Variance of an observation about its mean, in the target's units, squared.
    """

    parts: tuple[Inference, ...]
    var_resid: float

    @cached_property
    def predicted_mean(self) -> Vector:
        """Means of the target, shape (m,), of the estimate `Fit.params`."""
        return np.concatenate([part.estimate for part in self.parts])

    @cached_property
    def se_mean(self) -> Vector:
        """Their standard errors, shape (m,)."""
        return np.concatenate([part.stderr for part in self.parts])

    @property
    def se_obs(self) -> Vector:
        """Standard deviations of new observations about the predicted means, shape (m,)."""
        return np.hypot(self.se_mean, np.sqrt(self.var_resid))

    def conf_int(
        self, level: float = 0.95, *, obs: bool = False, alpha: float | None = None
    ) -> Matrix:
        """Intervals of the means, or of new observations.

        Parameters
        ----------
        level : float, default 0.95
            In [0.5, 1).
        obs : bool
            Of an observation, whose error is taken to be normal, and not of the mean.
        alpha : float, optional
            1 - level.

        Returns
        -------
        ndarray of shape (m, 2), float64
        """
        quantile = quantile_of(level_of(level, alpha))
        ends = np.concatenate([part.intervals(quantile) for part in self.parts])
        if not obs:
            return ends
        middle = self.predicted_mean[:, None]
        half = np.hypot(ends - middle, quantile * np.sqrt(self.var_resid))
        intervals: Matrix = middle + half * [-1.0, 1.0]
        return intervals

    def summary_frame(self, alpha: float = 0.05) -> Any:
        """All of it as a data frame (needs pandas), with the columns that statsmodels has."""
        with extra("pandas", "a data frame needs"):
            import pandas
        mean, obs = self.conf_int(alpha=alpha), self.conf_int(alpha=alpha, obs=True)
        columns = {
            "mean": self.predicted_mean,
            "mean_se": self.se_mean,
            "mean_ci_lower": mean[:, 0],
            "mean_ci_upper": mean[:, 1],
            "obs_ci_lower": obs[:, 0],
            "obs_ci_upper": obs[:, 1],
        }
        return pandas.DataFrame(columns)


def predict(
    release: ReleaseRecord, design: Design, equations: Equations, rows: Matrix
) -> Prediction:
    """Predict from rows of features in own units, shape (m, p), with a fit's inference."""
    rows = np.column_stack([rows, np.ones(len(rows))])
    parts = []
    for start in range(0, max(len(rows), 1), _ROWS):
        some = rows[start : start + _ROWS]
        parts.append(infer(release, equations, some @ design.transform, some @ design.offset))
    largest = 1.0 if release.columns is None else release.columns.largest_weight
    variance = equations.variance * float(design.spread[-1]) ** 2 * largest
    return Prediction(tuple(parts), variance)
