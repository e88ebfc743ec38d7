"""What every regression's result has in common: the numbers, under the names of statsmodels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_args

import numpy as np

from privgram._base.installed import LazyModule
from privgram._base.numbers import Matrix, Vector, check_one_of
from privgram._base.saved import ArchiveFormat, JsonObject
from privgram._base.text import as_frame, framed, shown
from privgram.regression.design import Design, Features, RegressionTerms, features_of
from privgram.regression.families import Family, Gaussian
from privgram.regression.goodness import Goodness, ShareEstimand
from privgram.regression.hypothesis import (
    Contrasts,
    Hypothesis,
    WaldTest,
    independent,
    restrictions,
    verdict,
)
from privgram.regression.inference import (
    Equations,
    Estimand,
    Inference,
    RefusedError,
    clipping_refusal,
    count_error,
    infer,
    level_of,
    quantile_of,
    refuse,
    refuse_open,
)
from privgram.regression.prediction import Prediction
from privgram.regression.summary import (
    Summary,
    caution_of,
    counted,
    facts_of,
    heads_of,
    skewed,
)
from privgram.releases.checks import derived
from privgram.releases.record import RELEASE_FORMAT

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from pandas import DataFrame

    from privgram.columns import Columns
    from privgram.page import of_fit
    from privgram.privacy import Adjacency, Profile, ProofStatus
    from privgram.regression.named import Named
    from privgram.releases.record import ReleaseRecord
else:
    of_fit = LazyModule("privgram.page.of_fit")


#: What results call the constant.
CONSTANT = "Intercept"

PER_ROW = (
    "is of single rows, and a release holds sums over them: the table's holder has the rows, and "
    "fit.predict(table) what is predicted of them"
)

#: What other results have and a result of sums may not, and why.
NOT_HELD = {
    ("resid", "fittedvalues", "wresid", "resid_pearson", "get_influence", "outlier_test"): PER_ROW,
    (
        *("rsquared_stderr", "rsquared", "rsquared_adj", "fvalue", "f_pvalue", "mse_resid"),
        *("scale", "llf", "aic", "bic", "llnull", "deviance", "null_deviance"),
        "get_prediction",
    ): (
        "takes sums over rows or a likelihood that this result does not hold: those of "
        "least squares are those of Release.regress, for the same terms"
    ),
    ("prsquared",): (
        "is of logistic regression by scores, of single rows, without weights: "
        'pseudo_rsquared("cs") is of Poisson regression too'
    ),
    (
        *("ssr", "ess", "centered_tss", "uncentered_tss"),
        *("compare_f_test", "compare_lr_test", "compare_lm_test", "t_test_pairwise"),
    ): (
        "would be compared between fits as if features alone told them apart, by statsmodels' "
        "anova_lm for one, and noise does too: f_test counts it, as wald_test_terms"
    ),
    ("HC0_se", "HC1_se", "HC2_se", "HC3_se", "get_robustcov_results"): (
        "takes fourth moments, which a release does not hold: robust standard errors come with "
        "study.regress, by default"
    ),
    ("get_margeff",): (
        "averages over rows, which a result does not hold: "
        "privgram.interop.marginaleffects.marginal_model(fit) has effects over rows that are public"
    ),
}


NO_SHARE_ERROR = (
    "an estimate with instruments does not minimise the squares, so that their error is not known: "
    "rsquared itself is there"
)


class NotReleasedError(RefusedError, AttributeError):
    """A part of a regression's result that takes what a release does not hold."""


@dataclass(frozen=True)
class ModelNames:
    """Target and parameters, as statsmodels' `results.model` names them."""

    endog_names: str
    exog_names: list[str]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ("endog", "exog", "data", "formula"):
                raise NotReleasedError(f"{name} {PER_ROW}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class RegressionResults:
    """What a regression returns, of a study or of a release, under statsmodels' names.

    It is one of three: `GLMResults` where it is by scores, and where it is of a release of the
    columns `OLSResults`, or with instruments `IVResults`. All three have what is said here.

    Where pandas is installed `params`, `bse`, `tvalues` and `pvalues` are Series and
    `conf_int` and `cov_params` data frames, with `param_names` for index; where it is not they
    are arrays, which type checkers do not know.

    A regression always comes back as its result, as what was released for it is paid for. Where the
    noise leaves no answer it is refused: `refusal` says why, in the first line of the summary too,
    its numbers are NaN, and what needs them raises `RefusedError`.

    Attributes
    ----------
    refusal : str or None
        Why there are no standard errors, or None.
    target : str
        What is explained, in whose units the numbers are: "log(wage)" for a logarithm.
    param_names : tuple of str
        Of the k parameters; the constant's is "Intercept".
    inference : Inference
        Of the parameters in this order: estimates, covariance, degrees of freedom, or a refusal
        (`privgram.regression.inference.refuse`). Student's or the normal law per parameter.
    n_rows : float or None
    epsilon, delta : float
        The guarantee of all that the result was computed from.
    adjacency : {"replace", "add-remove"}
    parameters : dict
        How it came about: "method" and "reason", and what else is public of its noise.
    privacy : Profile
        Of all that the result was computed from.
    reproducible : bool
        Whether the noise came from a generator with a seed: then it is no private result.
    """

    target: str
    design: Design
    refusal: str | None
    n_rows: float | None
    epsilon: float
    delta: float
    parameters: JsonObject
    adjacency: Adjacency
    privacy: Profile
    reproducible: bool

    #: How `summary` is headed.
    _title = "Private Linear Regression"

    #: What `advice` calls.
    _adviser: Callable[[], str] | None = None

    @property
    def _estimate(self) -> Vector:
        """What `params` holds, without names."""
        return self.inference.estimate

    def _tested(
        self, hypothesis: tuple[str, ...], matrix: Matrix, values: Vector, *, use_f: bool
    ) -> WaldTest:
        """The test of matrix @ params = values: by the covariance of the estimate."""
        self._need_inference()
        matrix, offset = independent(matrix, -values)
        gap = matrix @ self._estimate + offset
        covariance = self._contrasts(matrix).covariance
        if not np.isfinite(covariance).all():
            raise RefusedError(
                "the noise hides a coefficient of this hypothesis: its interval has no ends. Test "
                "the others without it"
            )
        statistic = float(gap @ np.linalg.solve(covariance, gap))
        return verdict(hypothesis, statistic, len(gap), self._df_denom if use_f else math.inf)

    def _need_inference(self, estimand: Estimand = "population") -> None:
        reason = self.refusal or self._about(estimand).refusal
        if reason is not None:
            where = "" if self._adviser is None else ". The fit's advice() says what it takes"
            raise RefusedError(f"there is no inference: {reason}{where}")

    def _shown(self, text: str) -> str:
        """What `repr` shows: with the refusal, if there is one."""
        return f"<{text}>" if self.refusal is None else f"<{text}; refused: {shown(self.refusal)}>"

    @property
    def model(self) -> ModelNames:
        """Names of the target and of the parameters, where statsmodels has them."""
        return ModelNames(self.target, list(self.param_names))

    def _advised_by(self, adviser: Callable[[], str]) -> None:
        """Take what `advice` will call."""
        vars(self)["_adviser"] = adviser

    def advice(self) -> str | None:
        """Say what to ask instead of a fit that was refused.

        It is found by simulation when it is asked for, in seconds.

        Returns
        -------
        str or None
            None where nothing was refused, and of a fit that was read from a file.
        """
        return None if self._adviser is None else self._adviser()

    @property
    def params(self) -> Named:
        """Estimates, in the order of `param_names`; NaN where they are refused."""
        return self._named(self._estimate)

    @property
    def bse(self) -> Named:
        """Standard errors of `params`, of sampling and privacy noise together."""
        return self._named(self.inference.stderr)

    @property
    def tvalues(self) -> Named:
        """Statistics of the hypotheses that parameters are 0: Student's or normal (`use_t`).

        The standard error in them is that under the hypothesis, so they agree with
        `conf_int`, and with params / bse where the noise is small beside the features.
        """
        return self._named(self.inference.statistic())

    @property
    def pvalues(self) -> Named:
        """Two-sided P values of `tvalues`."""
        return self._named(self.inference.pvalues())

    def cov_params(self) -> DataFrame:
        """Covariance of `params`, shape (k, k)."""
        return self._framed(self.inference.covariance, self.param_names)

    def _named(self, values: Vector) -> Named:
        """Numbers of the parameters with their names, where pandas is there to hold them."""
        try:
            from privgram.regression.named import Named
        except ImportError:
            return cast("Named", values)
        return Named(values, list(self.param_names), copy=True)

    def _framed(self, values: Matrix, columns: Sequence[Any]) -> DataFrame:
        return framed(values, self.param_names, columns)

    def conf_int(self, alpha: float = 0.05, *, estimand: Estimand = "population") -> DataFrame:
        """Confidence intervals of the parameters.

        Parameters
        ----------
        alpha : float, default 0.05
            1 - level, in (0, 0.5].
        estimand : {"population", "sample"}, default "population"
            The parameters of the population that the rows are a sample of; or those that a fit
            without privacy has on these rows. The latter count the noise alone and assume nothing
            of the errors, and they take no number of rows. Rows are those that count in the
            release: clamped to their bounds, and clipped where they are longer than its bound.

        Returns
        -------
        DataFrame or ndarray of shape (k, 2), float64
            Lower ends in column 0 and upper ones in column 1. Infinite where the noise in a
            feature leaves its coefficient open, NaN where `refusal` says why.

        Raises
        ------
        RefusedError
            A ValueError: for "sample", of instruments after adaptive rounds that clipped rows.
        ValueError
            If `alpha` or `estimand` is out of its range.
        """
        return self._framed(self._ends(alpha, estimand), [0, 1])

    def _ends(self, alpha: float, estimand: Estimand = "population") -> Matrix:
        """`conf_int` without names."""
        level = level_of(alpha)
        check_one_of(estimand, "estimand", get_args(Estimand))
        inference = self._about(estimand)
        if inference.refusal is not None and self.refusal is None:
            about = " on the rows at hand" if estimand == "sample" else ""
            raise RefusedError(f"there is no inference{about}: {inference.refusal}")
        return inference.intervals(level)

    def _table(self, alpha: float) -> Matrix:
        """Estimates, errors, statistics, P values and ends of intervals, shape (k, 6)."""
        inference = self.inference
        numbers = (self._estimate, inference.stderr, inference.statistic(), inference.pvalues())
        return np.column_stack([*numbers, inference.intervals(level_of(alpha))])

    @property
    def nobs(self) -> float:
        """Rows behind the fit, weighted where the release weighted them; NaN where unknown.

        An estimate where their number is private; `nobs_stderr` is its error.
        """
        return math.nan if self.n_rows is None else self.n_rows

    @property
    def nobs_stderr(self) -> float:
        """Standard error of `nobs`: 0 where the number of rows is public."""
        return 0.0

    @property
    def df_resid(self) -> float:
        """Rows less parameters."""
        return self.nobs - len(self.param_names)

    @property
    def _df_denom(self) -> float:
        """Degrees of freedom of the errors' variance in tests."""
        return self.df_resid

    @property
    def cov_type(self) -> str:
        """What the standard errors assume: "nonrobust" that errors have equal variance."""
        return "nonrobust"

    @property
    def use_t(self) -> bool:
        """Whether statistics have Student's law, and not the normal one."""
        return bool(np.isfinite(self.inference.df).any())

    def t_test(self, r_matrix: Hypothesis) -> Contrasts:
        """Test each of some linear hypotheses of `params` by itself.

        Parameters
        ----------
        r_matrix : str, sequence of str, array-like of shape (j, k) or tuple
            As of `wald_test`.

        Returns
        -------
        Contrasts
            `effect`, `sd`, `tvalue`, `pvalue` and `conf_int()` of each, as statsmodels has them.

        Raises
        ------
        ValueError
            If the hypothesis is not linear, or of other names.
        """
        equations, matrix, values = restrictions(r_matrix, self.param_names, self._term_places)
        self._need_inference()
        return Contrasts(equations, self._contrasts(matrix), values)

    def wald_test(
        self, r_matrix: Hypothesis, *, use_f: bool | None = None, scalar: bool = True
    ) -> WaldTest:
        """Test linear hypotheses of `params` together, as statsmodels writes them.

        Parameters
        ----------
        r_matrix : str, sequence of str, array-like of shape (j, k) or tuple
            ``"age, weight"`` that both are 0, ``"age = 2 * weight"`` what is written, a term's name
            that all its coefficients are 0. An array R says R params = 0, a tuple (R, r) R params
            = r, both in the order of `param_names`.
        use_f : bool, optional
            Take the P value from F with `df_resid` degrees of freedom below, and not from
            chi-squared. By default where statistics are Student's (`use_t`).
        scalar : bool
            Statistics are numbers always.

        Returns
        -------
        WaldTest
            With the variance that sampling and privacy noise have under the hypothesis.

        Raises
        ------
        ValueError
            If the hypothesis is not linear, or of other names.
        """
        if not scalar:
            raise ValueError("a statistic is one number: leave scalar out")
        equations, matrix, values = restrictions(r_matrix, self.param_names, self._term_places)
        return self._tested(equations, matrix, values, use_f=self.use_t if use_f is None else use_f)

    def f_test(self, r_matrix: Hypothesis) -> WaldTest:
        """`wald_test` with the P value of F."""
        return self.wald_test(r_matrix, use_f=True)

    def wald_test_terms(self) -> DataFrame:
        """Test of each term that all its coefficients are 0, in statsmodels' columns.

        Returns
        -------
        DataFrame
            Needs pandas. A row a term: "statistic", "pvalue", "df_constraint" and "df_denom", as
            of `wald_test`; NaN where the noise hides a coefficient.
        """
        self._need_inference()
        rows, unit = [], np.eye(len(self.param_names))
        for at in self._term_places.values():
            try:
                test = self.wald_test(unit[at])
            except RefusedError:
                rows.append([math.nan, math.nan, len(unit[at]), math.nan])
            else:
                rows.append([test.statistic, test.pvalue, test.df, test.df_denom])
        heads = ["statistic", "pvalue", "df_constraint", "df_denom"]
        return as_frame(np.array(rows).reshape(-1, 4), list(self._term_places), heads)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if (reason := self._not_held(name)) is not None:
                raise NotReleasedError(reason)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @staticmethod
    def _not_held(name: str) -> str | None:
        """Why a result of sums does not have what others have, or None."""
        return next((f"{name} {why}" for names, why in NOT_HELD.items() if name in names), None)

    def summary(
        self,
        yname: str | None = None,
        xname: Sequence[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
    ) -> Summary:
        """A table of the fit as statistics packages print it.

        Parameters
        ----------
        yname : str, optional
            What to call the target.
        xname : sequence of str, optional
            What to call the parameters.
        title : str, optional
        alpha : float, default 0.05
            1 - level of the confidence intervals, in (0, 0.5].

        Returns
        -------
        Summary
            With `tables`, `as_text`, `as_html`, `as_latex` and `frame`; text when printed.
        """
        refusal = None if self.refusal is None else shown(self.refusal)
        if refusal is not None and self._adviser is not None:
            refusal += ". The fit's advice() simulates what it takes"
        names = self.param_names if xname is None else tuple(xname)
        if len(names) != len(self.param_names):
            raise ValueError(f"xname has {len(self.param_names)} names, not {len(names)}")
        level, values = round(level_of(alpha), 12), self._table(alpha)
        notes: list[str] = []
        marks: tuple[tuple[int, ...], ...] = ()
        if self.inference.refusal is None:
            notes += self._assumes()
            marks = skewed(values, level, notes, self.inference)
        elif self.refusal is None:  # a fit for predictions alone
            notes.append(f"{self.inference.refusal}.")
        return Summary(
            {"Dep. Variable": self.target if yname is None else yname, **self._facts()},
            names,
            heads_of(self.inference, level),
            values,
            refusal,
            tuple(map(shown, (*notes, *self._notes()))),  # a file may say a reason, or a condition
            marks,
            self._title if title is None else title,
            self._caution,
        )

    @property
    def _caution(self) -> str | None:
        """What a summary says before its numbers."""
        return None

    def _facts(self) -> dict[str, str]:
        """What the summary's heading has."""
        return {
            "No. Observations": counted(self.n_rows, self.nobs_stderr),
            "Epsilon": f"{self.epsilon:g}",
            "Delta": f"{self.delta:g}",
        }

    def _assumes(self) -> list[str]:
        return ["Standard errors cover sampling and privacy noise."]

    def _notes(self) -> list[str]:
        """What holds with and without standard errors."""
        return []

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    _minimises_squares: ClassVar[bool] = True

    @property
    def _described(self) -> Columns | None:
        raise NotImplementedError

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of `params`: the features, then the intercept if own units have one."""
        names = self.design.names
        return (*names, CONSTANT) if self.design.has_level else names

    @property
    def _term_places(self) -> dict[str, slice]:
        return self.design.terms

    @cached_property
    def inference(self) -> Inference:
        """Estimates and their errors, the intercept last: when first asked for."""
        return refuse_open(self._contrasts(np.eye(len(self.param_names))))

    def _about(self, estimand: Estimand) -> Inference:
        if estimand == "population":
            return self.inference
        return self._contrasts(np.eye(len(self.param_names)), estimand)

    def _contrasts(self, matrix: Matrix, estimand: Estimand = "population") -> Inference:
        """Of matrix @ params, shape (k, m)."""
        raise NotImplementedError

    def _rows(self, table: Features) -> Matrix:
        """Rows of features in the order of the parameters, shape (m, k)."""
        features = features_of(self.design, self._described, table)
        ones = np.ones((len(features), len(self.param_names) - features.shape[1]))
        return np.column_stack([features, ones])

    @property
    def proof_status(self) -> ProofStatus:
        """How well `privacy` is founded."""
        return self.privacy.proof_status

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to `.json` or `.npz`, whole or not at all; `privgram.load` reads it back.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        ValueError
            For any other suffix.
        OSError
            If it cannot be written.
        """
        raise NotImplementedError

    def predict(self, X: Features) -> Vector:
        """Predicted target of new rows, shape (m,)."""
        raise NotImplementedError

    @property
    def rsquared(self) -> float:
        """Share of the target's sum of squares that is explained, by least squares.

        About its mean, where the features hold a constant: ones or all levels of a factor. Else
        about what is predicted where all coefficients are 0: the middle of the target's bounds.
        Estimated without the noise's bias, so that noise may push it out of [0, 1]. NaN where the
        noise hides how much the target varies, as are its errors and intervals then.
        RefusedError without inference; so of all that follows from it.
        """
        self._need_inference()
        return self._explained().rsquared

    @property
    def rsquared_adj(self) -> float:
        """The same of the population: with the degrees of freedom taken off."""
        self._need_inference()
        return self._explained().adjusted

    @property
    def rsquared_stderr(self) -> float:
        """Standard error of `rsquared` about that of the rows at hand: of the noise alone."""
        if not self._minimises_squares:
            raise RefusedError(NO_SHARE_ERROR)
        self._need_inference("sample")
        return self._explained().stderr

    def rsquared_int(self, alpha: float = 0.05, *, estimand: ShareEstimand = "sample") -> Vector:
        """Confidence interval of R squared.

        Parameters
        ----------
        alpha : float, default 0.05
            1 - level, in (0, 0.5].
        estimand : {"sample", "normal"}, default "sample"
            R squared of least squares on the rows at hand, from which noise alone keeps the
            released one; or that of the population, if its rows are normal.

        Returns
        -------
        ndarray of shape (2,), float64
            Within [0, 1].

        Raises
        ------
        RefusedError
            A ValueError: for "population", whose rows need not be normal; for "sample", where
            the last of adaptive rounds clipped rows; or where there is no inference.
        """
        if not self._minimises_squares:
            raise RefusedError(NO_SHARE_ERROR)
        if str(estimand) == "population":  # which `conf_int` takes
            raise RefusedError(
                "the sampling error of R squared takes fourth moments, which a release does "
                "not hold: take estimand='sample' or estimand='normal'"
            )
        check_one_of(estimand, "estimand", get_args(ShareEstimand))
        if estimand == "sample":
            if reason := self._clipped:
                raise RefusedError(reason)
            self._need_inference(estimand)
        quantile = quantile_of(alpha)
        return np.array(self._explained().interval(quantile, estimand))

    @property
    def df_model(self) -> int:
        """Parameters beside a constant, which levels of a factor may hold."""
        return len(self._beside_constant)

    @property
    def fvalue(self) -> float:
        """F statistic of the hypothesis that nothing but a constant explains the target."""
        return self._overall.fvalue

    @property
    def f_pvalue(self) -> float:
        """P value of `fvalue`."""
        return self._overall.pvalue

    @cached_property
    def _overall(self) -> WaldTest:
        if not self._family.is_linear:
            raise NotReleasedError(self._not_held("fvalue"))
        if not self.df_model:
            raise ValueError("nothing but a constant is in the regression: add a feature to test")
        return self.f_test(self._beside_constant)

    @cached_property
    def _beside_constant(self) -> Matrix:
        """Contrasts of the parameters that are all 0 where only a constant explains the target."""
        from scipy.linalg import null_space

        constant, size = self.design.constant, len(self.design.names)
        contrasts = np.eye(size, len(self.param_names))
        if constant is None or self.design.intercept:
            return contrasts
        in_own_units = self.design.transform[:size] @ constant
        return np.asarray(null_space(in_own_units[None]).T @ contrasts)

    @property
    def _goodness(self) -> Goodness | None:
        """How much is explained, of a fit that is not refused; None where that is not held."""
        return None

    def _explained(self) -> Goodness:
        """`_goodness`, or why it is not held: of a property Python would ask `__getattr__`."""
        if self._goodness is None:
            raise NotReleasedError(self._not_held("rsquared"))
        return self._goodness

    @property
    def _clipped(self) -> str | None:
        """Why R squared of the rows at hand has no interval, where rows were clipped."""
        return None

    @property
    def scale(self) -> float:
        """Variance of the errors, in the target's units squared."""
        raise NotImplementedError

    @property
    def _family(self) -> Family:
        return Gaussian()

    def get_prediction(self, X: Features) -> Prediction:
        """Predicted means with their errors, and intervals of means and of new observations.

        Parameters
        ----------
        X : array-like of shape (m, p), DataFrame or mapping
            As in `predict`.

        Returns
        -------
        Prediction
            Of another family than "gaussian" of means alone, whose intervals are those of the
            linear predictor, on the scale of the mean.
        """
        self._need_inference()
        rows, family = self._rows(X), self._family
        return Prediction(rows, self.scale, self.df_resid, self._contrasts, family)

    to_html = of_fit.to_html


#: A regression on a release is saved as what was asked of which release, and read by asking again.
FIT_FORMAT = ArchiveFormat(
    "privgram-release-fit",
    2,
    "a regression on a release",
    key="fit",
    arrays=RELEASE_FORMAT.arrays,
)


class OfRelease(RegressionResults):
    """A result of a regression on one release: by its `_equations`, unless `_unanswered` says why.

    `_asked` is what was asked for besides the terms, and `_instead` what to do for predictions.
    """

    release: ReleaseRecord
    n_rows: float | None
    question: RegressionTerms | None
    not_scores: str | None
    _equations: Equations
    _asked: JsonObject
    _instead: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit, with its release, to `.json` or `.npz`; `privgram.load` reads it back.

        Raises
        ------
        ValueError
            For any other suffix, and of a fit of a penalty path, which its release gives again.
        OSError
            If it cannot be written.
        """
        if self.question is None:
            raise ValueError(
                "a fit of a path of penalties is no file of its own: save its release, which gives "
                "the path again, fit.release.save(path)"
            )
        header = {
            "question": self.question.to_dict(self.release.names),
            **self._asked,
            "not_scores": self.not_scores,
            "release": self.release._header(),
        }
        if Path(path).suffix == ".json":
            header["release"]["derived"] = derived(self.release)
        FIT_FORMAT.save(Path(path), header, self.release._arrays())

    @property
    def parameters(self) -> JsonObject:  # type: ignore[override]
        """How it came about: "method" and "reason", and what is public of the release's noise."""
        how = {"method": self.release.method, "reason": self.not_scores or self.release.reason}
        return self.release.parameters | how

    @property
    def adjacency(self) -> Adjacency:  # type: ignore[override]
        """Which tables are neighbours."""
        return self.release.adjacency

    @property
    def privacy(self) -> Profile:  # type: ignore[override]
        """Profile of the release, with what finite precision adds."""
        return self.release.charged

    @property
    def proof_status(self) -> ProofStatus:
        """How well epsilon and delta are founded."""
        return self.release.proof_status

    @property
    def reproducible(self) -> bool:  # type: ignore[override]
        """Whether the noise came from a generator with a seed."""
        return self.release.reproducible

    @property
    def _largest_weight(self) -> float:
        """Weight of a row in its own units, where it is 1 in those of the release."""
        columns = self.release.columns
        return 1.0 if columns is None else columns.largest_weight

    @property
    def _unit(self) -> float:
        """Target units of a residual of 1 in the scale of the released matrix."""
        return float(self.design.spread[-1])

    @property
    def scale(self) -> float:
        """Variance of the errors, in the target's units squared."""
        self._need_inference()
        return self._equations.variance * self._unit**2 * self._largest_weight

    #: By statsmodels' other name.
    mse_resid = scale

    @cached_property
    def _goodness(self) -> Goodness:
        self._need_inference()
        return Goodness.of(self._equations, self.design.constant)

    @property
    def _clipped(self) -> str | None:
        return clipping_refusal(self.release)

    @property
    def _unanswered(self) -> str | None:
        """Why there is no inference, whatever the equations say."""
        return None

    @property
    def _offset(self) -> Vector:
        """What is to be added to coefficients in own units."""
        return self.design.offset

    def _contrasts(self, matrix: Matrix, estimand: Estimand = "population") -> Inference:
        if self._unanswered is not None:
            return refuse(len(matrix), self._unanswered)
        size = len(self.param_names)
        transform, offset = matrix @ self.design.transform[:size], matrix @ self._offset[:size]
        return infer(self.release, self._equations, transform, offset, estimand)

    def predict(self, X: Features) -> Vector:
        """Predicted target.

        Parameters
        ----------
        X : array-like of shape (m, p) or DataFrame
            Features in their own units, in the order of `names`; of a data
            frame the columns of these names are taken. Where the fit is of terms, a data frame
            or a mapping of the variables themselves, whose values are clamped to their bounds.

        Returns
        -------
        ndarray of shape (m,), float64
            In the target's units.
        """
        if not np.isfinite(self._estimate).all():
            raise RefusedError(f"there is nothing to predict by: {self.refusal}. {self._instead}")
        return self._rows(X) @ self._estimate

    @property
    def df_resid(self) -> float:
        """Rows less parameters that were fitted, and effects of units that were taken off."""
        return self._equations.df_resid

    @property
    def _caution(self) -> str | None:
        return caution_of(self.release.parameters)

    def _facts(self) -> dict[str, str]:
        facts = facts_of(self.release, self.n_rows, self.nobs_stderr)
        return facts | {"Epsilon": f"{self.epsilon:g}", "Delta": f"{self.delta:g}"}

    def _assumes(self) -> list[str]:
        notes = [
            "Standard errors cover sampling and privacy noise (first-order).",
            "Of a population they assume errors of equal variance.",
        ]
        unit = self.release.privacy_unit
        if unit is not None:
            notes.append(
                f"They assume that errors of rows of one {shown(unit.name)} are independent; where "
                "they are not, std err is too small."
            )
        return notes

    def _way(self) -> list[str]:
        """By which way a study's regression was made, where that is a release."""
        if self.not_scores is None:
            return []
        return [f"By a release of the columns ({self.release.method}), as {self.not_scores}."]

    @property
    def target(self) -> str:  # type: ignore[override]
        """What is explained."""
        return self.design.target

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """Epsilon of the release."""
        return self.release.epsilon

    @property
    def delta(self) -> float:  # type: ignore[override]
        """Delta of the release."""
        return self.release.delta

    @property
    def refusal(self) -> str | None:  # type: ignore[override]
        """Why there are no standard errors, or None."""
        return self.inference.refusal

    @property
    def nobs_stderr(self) -> float:
        """Standard error of `nobs`: 0 where the number of rows is public."""
        return count_error(self.release)

    @property
    def _described(self) -> Columns | None:
        return self.release.columns
