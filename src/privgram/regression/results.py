"""The names that statsmodels has for what a regression's inference holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from privgram._base.checks import check_within
from privgram._base.optional import extra
from privgram.regression.inference import Inference, Of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["Named", "Results", "check_of", "level_of"]


def level_of(level: float, alpha: float | None) -> float:
    """The level of an interval, given by itself or as 1 - alpha."""
    if alpha is None:
        return level
    if level != 0.95:
        raise ValueError("level is 1 - alpha: give one of them")
    return 1 - check_within(alpha, "alpha", 0, 1)


def check_of(of: Of) -> Of:
    """`of`, or one clear error."""
    if of not in get_args(Of):
        raise ValueError(f"of is 'population' or 'data', not {of!r}")
    return of


class Results:
    """What is known of the parameters of a regression, under the names that statsmodels has.

    Attributes
    ----------
    names : tuple of str
        The features, without the intercept.
    param_names : tuple of str
        Names of `params`: the features, then the intercept if there is one.
    inference : Inference
        Of the parameters in this order.
    n_rows : float or None
    """

    names: tuple[str, ...]
    n_rows: float | None

    @property
    def inference(self) -> Inference:
        """Of the parameters: estimates, covariance, intervals."""
        raise NotImplementedError

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of `params`: the features, then the intercept if the fit has one."""
        raise NotImplementedError

    @property
    def refusal(self) -> str | None:
        """Why there is no inference, or None."""
        return self.inference.refusal

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
        """Statistics of the hypotheses that parameters are 0: Student's or normal if they are.

        The standard error in them is that under the hypothesis, so they agree with
        `conf_int`, and with params / bse where the noise is small beside the features.
        """
        return self.inference.statistic()[: len(self.param_names)]

    @property
    def pvalues(self) -> Vector:
        """Two-sided P values of `tvalues`, with the degrees of freedom of `inference`."""
        return self.inference.pvalues()[: len(self.param_names)]

    def cov_params(self) -> Matrix:
        """Covariance of `params`."""
        size = len(self.param_names)
        return self.inference.covariance[:size, :size]

    def conf_int(
        self,
        level: float = 0.95,
        *,
        alpha: float | None = None,
        intercept: bool = False,
        of: Of = "population",
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
        of : {"population", "data"}, default "population"
            The coefficients of the population that the rows are a sample of; or those that a fit
            without privacy has on these rows. The latter count the noise alone and assume nothing
            of the errors, and they take no number of rows.

        Returns
        -------
        ndarray of shape (p, 2) or (p + 1, 2), float64
            Lower and upper ends, of the unpenalised estimate `params`, so not always around
            `coef`.  Infinite where the noise in a feature leaves its coefficient open, NaN where
            `refusal` says why.

        Raises
        ------
        ValueError
            If `level`, `alpha` or `of` is out of its range, or both of the former are given.
        """
        found = self._about(check_of(of))
        intervals = found.intervals(found.quantile(level_of(level, alpha)))
        return intervals[: len(self.param_names) if intercept else len(self.names)]

    def _about(self, of: Of) -> Inference:
        """Of the parameters of the population, or of those that the rows at hand have."""
        assert of == "population"
        return self.inference

    @property
    def nobs(self) -> float:
        """Rows behind the fit, `n_rows`; NaN where they are unknown."""
        return np.nan if self.n_rows is None else self.n_rows

    @property
    def df_resid(self) -> float:
        """Rows less parameters."""
        return self.nobs - len(self.param_names)

    @property
    def named(self) -> Named:
        """The same numbers as pandas has them, with the names of the parameters."""
        return Named(self)


class Named:
    """`Results` as Series and data frames whose index is the parameters' names.

    Needs pandas. Under the names that statsmodels has: `params`, `bse`, `tvalues`, `pvalues`,
    `cov_params()` and `conf_int()`.
    """

    def __init__(self, results: Results) -> None:
        with extra("pandas", "named results need"):
            import pandas
        self._pandas, self._results = pandas, results
        self._index = list(results.param_names)

    def _series(self, values: Vector) -> Any:
        return self._pandas.Series(values, index=self._index)

    @property
    def params(self) -> Any:
        """Series of `Results.params`."""
        return self._series(self._results.params)

    @property
    def bse(self) -> Any:
        """Series of `Results.bse`."""
        return self._series(self._results.bse)

    @property
    def tvalues(self) -> Any:
        """Series of `Results.tvalues`."""
        return self._series(self._results.tvalues)

    @property
    def pvalues(self) -> Any:
        """Series of `Results.pvalues`."""
        return self._series(self._results.pvalues)

    def cov_params(self) -> Any:
        """Data frame of `Results.cov_params`."""
        return self._pandas.DataFrame(self._results.cov_params(), self._index, self._index)

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> Any:
        """Data frame of `Results.conf_int`, of all parameters, with columns 0 and 1."""
        ends = self._results.conf_int(level, alpha=alpha, intercept=True)
        return self._pandas.DataFrame(ends, self._index)
