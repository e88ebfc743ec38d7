"""What every fit says of its estimates, from what is known of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.checks import check_within
from privgram.regression.inference import quantile_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.regression.inference import Inference

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["Estimates"]


class Estimates:
    """The numbers of a fit, as statsmodels names them; of `names`, `param_names`, `inference`."""

    names: tuple[str, ...]

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of `params`."""
        raise NotImplementedError

    @property
    def inference(self) -> Inference:
        """Estimates and their errors, the intercept last."""
        raise NotImplementedError

    @property
    def refusal(self) -> str | None:
        """Why there is no inference, or None."""
        return self.inference.refusal

    @property
    def covariance(self) -> Matrix:
        """Covariance of the unpenalised coefficients, shape (p, p), without the intercept."""
        p = len(self.names)
        return self.inference.covariance[:p, :p]

    @property
    def stderr(self) -> Vector:
        """Standard errors of the unpenalised coefficients, shape (p,), without the intercept."""
        return self.inference.stderr[: len(self.names)]

    @property
    def stderr_intercept(self) -> float:
        """Standard error of the intercept."""
        return math.sqrt(self.inference.covariance[-1, -1])

    @property
    def params(self) -> Vector:
        """Estimates that inference is about, in the order of `param_names`.

        Without penalty, the mechanism's known shift and the noise's second-order bias: not
        exactly `coef`, which `predict` uses.  NaN where `refusal` says why.
        """
        return self.inference.estimate[: len(self.param_names)]

    @property
    def bse(self) -> Vector:
        """Standard errors of `params`."""
        return self.inference.stderr[: len(self.param_names)]

    @property
    def tvalues(self) -> Vector:
        """Statistics of the hypotheses that parameters are 0, standard normal if they are.

        The standard error in them is that under the hypothesis, so they agree with
        `conf_int`, and with params / bse where the noise is small beside the features.
        """
        return self.inference.statistic()[: len(self.param_names)]

    @property
    def pvalues(self) -> Vector:
        """Two-sided P values of `tvalues`."""
        from scipy.special import ndtr

        p: Vector = 2 * ndtr(-np.abs(self.tvalues))
        return p

    def cov_params(self) -> Matrix:
        """Covariance of `params`."""
        size = len(self.param_names)
        return self.inference.covariance[:size, :size]

    def conf_int(
        self, level: float = 0.95, *, alpha: float | None = None, intercept: bool = False
    ) -> Matrix:
        """Confidence intervals of the coefficients.

        Parameters
        ----------
        level : float, default 0.95
            In [0.5, 1).
        alpha : float, optional
            1 - level, as other packages have it; in (0, 0.5].
        intercept : bool
            Append the intercept's, if the fit has one: intervals of all `params`.

        Returns
        -------
        ndarray of shape (p, 2) or (p + 1, 2), float64
            Lower and upper ends, of the unpenalised estimate `params`, so not always around
            `coef`.  Infinite where the noise in a feature leaves its coefficient open, NaN where
            `refusal` says why.

        Raises
        ------
        ValueError
            If `level` or `alpha` is out of its range, or both are given.
        """
        if alpha is not None:
            if level != 0.95:
                raise ValueError("level is 1 - alpha: give one of them")
            level = 1 - check_within(alpha, "alpha", 0, 1)
        intervals = self.inference.intervals(quantile_of(level))
        return intervals[: len(self.param_names) if intercept else len(self.names)]
