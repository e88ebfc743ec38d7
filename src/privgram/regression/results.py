"""The names that statsmodels has for what a regression's inference holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from privgram._base.checks import check_within
from privgram.regression.inference import Inference, Of, RefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["Results", "check_of", "level_of"]


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

    Where pandas is installed, `params`, `bse`, `tvalues` and `pvalues` are Series and
    `cov_params()` a data frame, with `param_names` for index; a Series takes positions too. Where
    it is not they are arrays. All else is arrays always; `inference` has the numbers themselves.

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
    def params(self) -> Any:
        """Estimates that inference is about, in the order of `param_names`.

        Without penalty, the mechanism's known shift and the noise's second-order bias: not
        exactly `coef`, which `predict` uses.  NaN where `refusal` says why.
        """
        return self._named(self.inference.estimate)

    @property
    def bse(self) -> Any:
        """Standard errors of `params`."""
        return self._named(self.inference.stderr)

    @property
    def tvalues(self) -> Any:
        """Statistics of the hypotheses that parameters are 0: Student's or normal if they are.

        The standard error in them is that under the hypothesis, so they agree with
        `conf_int`, and with params / bse where the noise is small beside the features.
        """
        return self._named(self.inference.statistic())

    @property
    def pvalues(self) -> Any:
        """Two-sided P values of `tvalues`, with the degrees of freedom of `inference`."""
        return self._named(self.inference.pvalues())

    def cov_params(self) -> Any:
        """Covariance of `params`, shape (m, m)."""
        names = list(self.param_names)
        found = self.inference.covariance[: len(names), : len(names)]
        try:
            import pandas
        except ImportError:
            return found
        return pandas.DataFrame(found, names, names, copy=True)

    def _named(self, values: Vector) -> Any:
        """Numbers of the parameters with their names, where pandas is there to hold them."""
        names = list(self.param_names)
        try:
            from privgram.regression.named import Named
        except ImportError:
            return values[: len(names)]
        return Named(values[: len(names)], names, copy=True)

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
            of the errors, and they take no number of rows. Rows are those that count in the
            release: clamped to their bounds, and clipped where they are longer than its bound.

        Returns
        -------
        ndarray of shape (p, 2) or (p + 1, 2), float64
            Lower and upper ends, of the unpenalised estimate `params`, so not always around
            `coef`.  Infinite where the noise in a feature leaves its coefficient open, NaN where
            `refusal` says why. `table` has them with names.

        Raises
        ------
        RefusedError
            A ValueError: for the data, where the last of several looks shortened rows.
        ValueError
            If `level`, `alpha` or `of` is out of its range, or both of the former are given.
        """
        found = self._about(check_of(of))
        if found.refusal is not None and self.refusal is None:
            raise RefusedError(f"there is no inference on the rows at hand: {found.refusal}")
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
