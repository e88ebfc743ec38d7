"""A regression on a release: what was fitted, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from privgram._base.checks import check_positive
from privgram._base.text import shown
from privgram.regression.anova import Anova, anova
from privgram.regression.cautions import dependent, pinned, uncounted
from privgram.regression.clipping import clipping_shift, clips
from privgram.regression.design import intercept_of
from privgram.regression.equations import Equations
from privgram.regression.goodness import Goodness, ShareOf
from privgram.regression.hypotheses import Hypothesis, restrictions
from privgram.regression.inference import (
    INTERCEPT,
    Inference,
    Of,
    RefusedError,
    degrees_behind,
    infer,
    quantile_of,
    refuse,
    weight_behind,
)
from privgram.regression.prediction import Prediction
from privgram.regression.results import Results, level_of
from privgram.regression.robust import meat_of, plan_look
from privgram.regression.summary import FitTable, tabulate
from privgram.regression.testing import WaldTest, f_test, verdict, wald

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from privgram._release.record import ReleaseRecord
    from privgram.ledger import Ledger
    from privgram.privacy import Adjacency, Guarantee, Profile
    from privgram.regression.design import Design

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["Fit"]


@dataclass(frozen=True, eq=False)
class Fit(Results):
    """A linear regression on a release, in the columns' own units.

    Attributes
    ----------
    target : str
    names : tuple of str
        The p features, without the intercept.
    coef : ndarray of shape (p,), float64
        Target units per feature unit.
    intercept : float
        Target units.
    ridge : float, "auto" or ndarray of shape (p,)
        Penalty added to the released matrix (in its scale), not on the intercept.
    stderr : ndarray of shape (p,), float64
        Standard errors of the unpenalised coefficients, from sampling and
        privacy noise together; NaN where `refusal` says why.
    stderr_intercept : float
    covariance : ndarray of shape (p, p), float64
    refusal : str or None
        Why there is no inference, or None.
    params, bse, tvalues, pvalues : Series, or ndarray of shape (p,) or (p + 1,), float64
        What inference is about, as statsmodels names it: estimates, standard errors, t
        statistics and P values in the order of `param_names`, the intercept last.
    n_rows : float or None
        Rows behind the fit: public, or estimated from the release; those with missing
        values that were dropped do not count.
    release : Release
        What it was computed from.
    design : Design
        The columns of the release that were used, and the way to own units.
    unclip : bool
        Whether the effect of clipping was taken off, as if the rows were normal.
    clipping : ndarray of shape (q,), float64, or None
        What was taken off, of the coefficients of the design's columns.
    caution : str or None
        What to do about columns that seem to depend on each other, or None.
    without : str or None
        Why a fit of this kind has no inference, or None.
    look : Release or None
        The second look at the table by which standard errors are robust, if one was taken.
    """

    target: str
    names: tuple[str, ...]
    coef: Vector
    intercept: float
    ridge: float | str | Vector
    n_rows: float | None
    release: ReleaseRecord
    design: Design
    clipping: Vector | None = None
    without: str | None = None
    look: ReleaseRecord | None = None

    def __post_init__(self) -> None:
        self.coef.flags.writeable = False

    @cached_property
    def inference(self) -> Inference:
        """Estimates and their errors, the intercept last: when first asked for."""
        return self._about("population")

    def _about(self, of: Of) -> Inference:
        return self._infer(np.eye(len(self.design.transform)), of)

    def _infer(self, contrasts: Matrix, of: Of = "population") -> Inference:
        """Of contrasts of the coefficients in own units, the intercept last."""
        reason = self.without or pinned(self.release, self.design)
        if reason is not None:
            return refuse(len(contrasts), reason)
        transform, offset = contrasts @ self.design.transform, contrasts @ self._offset
        return infer(self.release, self._equations, transform, offset, of)

    @cached_property
    def _offset(self) -> Vector:
        """What is to be added to coefficients in own units: the bounds' part, less clipping."""
        if self.clipping is None:
            return self.design.offset
        moved: Vector = self.design.offset - self.design.transform @ self.clipping
        return moved

    @cached_property
    def _equations(self) -> Equations:
        law, block = self.design.block(self.release)
        meat = None
        if self.look is not None and self.n_rows is not None:
            meat = meat_of(self.look, self.n_rows)
        return Equations(law, block, degrees_behind(self.release, self.n_rows), meat)

    @property
    def unclip(self) -> bool:
        """Whether the effect of clipping was taken off, as if the rows were normal."""
        return self.clipping is not None

    @cached_property
    def caution(self) -> str | None:
        """What to do about columns that seem to depend on each other, or None.

        Not refused: which releases look like that turns on their noise, and intervals that are
        offered by it would hold less than their level (docs/theory/inference.md).
        """
        return dependent(self.release, self.design)

    @property
    def epsilon(self) -> float:
        """Epsilon of all that the fit was computed from, at `delta`.

        With a second look composed if all noise is Gaussian, and else the sum, which is more than
        ``privacy.epsilon(delta)``: that can take minutes.
        """
        from privgram.privacy.composition import ONE_GAUSSIAN

        total = self.release.epsilon + (0.0 if self.look is None else self.look.epsilon)
        if self.look is None or not isinstance(self.privacy, ONE_GAUSSIAN):
            return total
        return min(total, self.privacy.epsilon(self.delta))

    @property
    def delta(self) -> float:
        """Delta of all that the fit was computed from."""
        return self.release.delta + (0.0 if self.look is None else self.look.delta)

    @property
    def privacy(self) -> Profile:
        """Profile of all that the fit was computed from, with what finite precision adds."""
        from privgram.privacy import compose

        if self.look is None:
            return self.release.charged
        return compose([self.release, self.look])

    @property
    def guarantee(self) -> Guarantee:
        """How well epsilon and delta are founded: as the weakest part."""
        return self.release.guarantee if self.look is None else self.privacy.guarantee

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
    def param_names(self) -> tuple[str, ...]:
        """Names of `params`: the features, then the intercept if the fit has one."""
        return (*self.names, INTERCEPT) if self.design.has_level else self.names

    def robust(
        self,
        source: Any,
        epsilon: float,
        delta: float,
        adjacency: Adjacency | None = None,
        *,
        clip: float | None = None,
        ledger: Ledger | None = None,
        threads: int | None = None,
        rng: np.random.Generator | None = None,
        unit: Any = None,
    ) -> Fit:
        """Standard errors for errors of unequal variance, by a further look that is charged.

        The table is read once more, and the sum of e^2 x x^T released, e the residuals and x the
        features of a row. Estimates stay as they are. Of a release by unit it is the sum over units
        of s s^T, s being the sum of e x over the unit's rows, scaled as the release scaled them:
        errors of one unit's rows may then go together (clusters).

        Parameters
        ----------
        source : table
            The one that was released, in any form that `privgram.release` reads; columns, their
            bounds and the bound of a row are the release's.
        epsilon, delta : float
            The guarantee of this look alone, > 0 and in (0, 1). `Fit.epsilon` and `Fit.delta`
            are of both.
        adjacency : {"replace", "add-remove"}, optional
            Must be the release's, which it is by default.
        clip : float, optional
            Residuals count as at most so much, in the target's units, > 0; public. By default as
            much as the look's noise allows, and at least four standard deviations of them, all
            judged by the release. Clipping makes standard errors smaller, never larger.
        ledger : Ledger, optional
            Budget to enter the look in, durably, before its noise is drawn.
        threads : int, optional
            As in `privgram.second_moment`.
        rng : numpy.random.Generator, optional
            For experiments only. By default a cryptographic generator.
        unit : array_like of shape (n,), optional
            Of a release of an array by unit: the units of its rows again. By default the column by
            which the table was released.

        Returns
        -------
        Fit
            With the variance HC1 [1]_, by unit CR1, and the privacy noise of both looks in all of
            its inference, and with `look`. They err on the wide side where the noise is large.

        Raises
        ------
        RefusedError
            A ValueError: where there is no inference, or noise would drown all of it.
        ValueError
            If a parameter is out of its range, the table cannot be read again or is another one,
            or the ledger has no room. Nothing is spent then.
        TypeError
            If a parameter is not of its type.
        OSError
            If the table cannot be read, or the ledger written.

        References
        ----------
        .. [1] J. G. MacKinnon, H. White, "Some heteroskedasticity-consistent covariance matrix
           estimators with improved finite sample properties", J. Econometrics 29 (1985).
        """
        from privgram.mechanisms import AnalyzeGauss

        release, design = self.release, self.design
        self._need_inference()
        if unit is not None and release.privacy_unit is None:
            raise ValueError(
                "this release protects single rows: leave unit out, or release the table by unit"
            )
        if self.look is not None:
            raise ValueError("this fit is robust already: take the one of `regress`")
        if adjacency not in (None, release.adjacency):
            raise ValueError(
                f"the release is private for adjacency {release.adjacency!r}, and so is a further "
                "look: leave adjacency out"
            )
        if clip is not None:
            clip = check_positive(clip, "clip") / self._unit
        one = AnalyzeGauss().calibrate(
            design.transform.shape[1], 1.0, epsilon, delta, release.adjacency
        )
        variance = np.diag(self.inference.covariance)
        planned = plan_look(release, design, self._equations, variance, one.noise_std, clip)
        if planned is None:
            raise RefusedError(
                "the noise of this look would drown the residuals: take more epsilon, fewer "
                "features, or the standard errors that there are. Nothing was spent"
            )
        look = release._look_again(
            release, planned, source, epsilon, delta, rng, ledger=ledger, threads=threads, unit=unit
        )
        return replace(self, look=look)

    def test(self, *hypothesis: str) -> WaldTest:
        """Test that all coefficients of some terms are 0: of a factor, that it has no effect.

        Parameters
        ----------
        *hypothesis : str
            Terms of the regression, such as ``"region"``, or names of coefficients.

        Returns
        -------
        WaldTest
            With the variance that sampling and privacy noise have under the hypothesis. The
            other terms stay: test a product before what it is made of.

        Raises
        ------
        RefusedError
            A ValueError: where there is no inference.
        ValueError
            If a term is not part of the regression.
        """
        at, size = self.design.places(hypothesis), len(self.names)
        names = tuple(self.names[i] for i in at)
        return self._tested(names, np.eye(size, len(self.param_names))[at], np.zeros(len(at)))

    def wald_test(self, hypothesis: Hypothesis, *, use_f: bool = False) -> WaldTest:
        """Test linear hypotheses of `params`, as statsmodels writes them.

        Parameters
        ----------
        hypothesis : str, sequence of str, array-like of shape (k, m) or tuple
            ``"age, weight"`` that both are 0, ``"age = 2 * weight"`` what is written, a term's name
            that all its coefficients are 0. An array R says R params = 0, a tuple (R, r) R params
            = r, both in the order of `param_names`.
        use_f : bool
            Take the P value from F with `df_resid` degrees of freedom below, or more as noise has
            a share in the errors, not from chi-squared.

        Returns
        -------
        WaldTest
            As `test` has it.

        Raises
        ------
        RefusedError
            A ValueError: where there is no inference.
        ValueError
            If the hypothesis is not linear, or of other names.
        """
        said, matrix, values = restrictions(hypothesis, self.param_names, self.design.terms)
        return self._tested(said, matrix, values, use_f=use_f)

    def f_test(self, hypothesis: Hypothesis) -> WaldTest:
        """`wald_test` with the P value of F."""
        return self.wald_test(hypothesis, use_f=True)

    def anova(self, typ: Literal[1, 2, 3] = 2) -> Anova:
        """Analysis of variance: what each term explains, with F tests.

        Parameters
        ----------
        typ : {1, 2, 3}
            Each term adjusted for those before it, for all but products with it, or for all.

        Returns
        -------
        Anova

        Raises
        ------
        RefusedError
            A ValueError: where there is no inference.
        ValueError
            If there is no such type.
        """
        if typ not in (1, 2, 3):
            raise ValueError(f"typ is 1, 2 or 3, not {typ!r}")
        self._need_inference()
        return anova(self.design, self._equations, typ, self._unit**2 * self._largest_weight)

    def _tested(
        self, said: tuple[str, ...], matrix: Matrix, values: Vector, *, use_f: bool = False
    ) -> WaldTest:
        self._need_inference()
        size = len(self.param_names)
        transform, offset = self.design.transform[:size], self._offset[:size]
        equations, asked = self._equations, (matrix @ transform, matrix @ offset - values)
        if use_f:
            return f_test(said, equations, *asked, equations.df_resid)
        return verdict(said, *wald(equations, *asked))

    def _need_inference(self, of: Of = "population") -> None:
        reason = self.refusal
        if reason is None and of == "data":
            reason = self._about(of).refusal
        if reason is not None:
            raise RefusedError(f"there is no inference: {reason}")

    @cached_property
    def _goodness(self) -> Goodness:
        self._need_inference()
        return Goodness(self._equations, self.design.constant)

    @property
    def rsquared(self) -> float:
        """Share of the target's sum of squares that is explained.

        About its mean, where the features hold a constant: ones or all levels of a factor. Else
        about what is predicted where all coefficients are 0: the middle of the target's bounds.
        Estimated without the noise's bias, so that noise may push it out of [0, 1].
        RefusedError without inference; so of all that follows from it.
        """
        return self._goodness.rsquared

    @property
    def rsquared_adj(self) -> float:
        """The same of the population: with the degrees of freedom taken off."""
        return self._goodness.adjusted

    @property
    def rsquared_stderr(self) -> float:
        """Standard error of `rsquared` about that of the rows at hand: of the noise alone."""
        self._need_inference("data")
        return self._goodness.stderr

    def rsquared_int(
        self, level: float = 0.95, *, alpha: float | None = None, of: ShareOf = "data"
    ) -> Vector:
        """Confidence interval of R squared.

        Parameters
        ----------
        level, alpha
            As of `conf_int`.
        of : {"data", "normal"}, default "data"
            R squared of least squares on the rows at hand, from which noise alone keeps the
            released one; or that of the population, if its rows are normal.

        Returns
        -------
        ndarray of shape (2,), float64
            Within [0, 1].

        Raises
        ------
        RefusedError
            A ValueError: for the population, whose rows need not be normal; or where there is no
            inference, on the data as `conf_int` has it.
        """
        if of not in get_args(ShareOf):
            if of in get_args(Of):
                raise RefusedError(
                    "the sampling error of R squared takes fourth moments, which a release does "
                    "not hold: take of='data' or of='normal'"
                )
            raise ValueError(f"of is 'data' or 'normal', not {of!r}")
        if of == "data":
            self._need_inference(of)
        quantile = quantile_of(level_of(level, alpha))
        return np.array(self._goodness.interval(quantile, of))

    @property
    def df_resid(self) -> float:
        """Rows less parameters that were fitted, and effects of units that were taken off."""
        return self._equations.df_resid

    @property
    def df_model(self) -> int:
        """Parameters beside a constant."""
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
        return self.f_test(self._beside_constant)

    @cached_property
    def _beside_constant(self) -> Matrix:
        """Contrasts of the parameters that are all 0 where only a constant explains the target."""
        constant, size = self.design.constant, len(self.names)
        contrasts = np.eye(size, len(self.param_names))
        if constant is None or self.design.intercept:
            return contrasts
        from scipy.linalg import null_space

        own = self.design.transform[:size] @ constant
        return np.asarray(null_space(own[None]).T @ contrasts)

    @property
    def scale(self) -> float:
        """Variance of the errors, in the target's units squared."""
        self._need_inference()
        return self._equations.variance * self._unit**2 * self._largest_weight

    def get_prediction(self, X: ArrayLike) -> Prediction:
        """Predicted means with their errors, and intervals of means and of new observations.

        Parameters
        ----------
        X : array-like of shape (m, p), DataFrame or mapping
            As in `predict`.

        Returns
        -------
        Prediction
            Of the unpenalised estimate `params`.

        Raises
        ------
        RefusedError
            A ValueError: where there is no inference.
        """
        self._need_inference()
        features = self._features(X)
        rows = np.column_stack([features, np.ones(len(features))])
        return Prediction(rows, self.scale, self.df_resid, self._infer)

    @property
    def _largest_weight(self) -> float:
        """Weight of a row in its own units, where it is 1 in those of the release."""
        columns = self.release.columns
        return 1.0 if columns is None else columns.largest_weight

    @property
    def _unit(self) -> float:
        """Target units of a residual of 1 in the scale of the released matrix."""
        return float(self.design.spread[-1])

    def predict(self, X: ArrayLike) -> Vector:
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
        predicted: Vector = self._features(X) @ self.coef + self.intercept
        return predicted

    def _features(self, X: Any) -> Matrix:
        """Features in own units, shape (m, p)."""
        table, columns = X, self.release.columns
        if self.design.functions and columns is not None:
            return self.design.rows(table, columns)
        if hasattr(table, "columns") and hasattr(table, "__getitem__"):
            for name in self.names:
                if name not in table.columns:
                    raise ValueError(f"X has no column {name!r}, a feature of this fit")
            table = np.column_stack([np.asarray(table[name], float) for name in self.names])
        values = np.asarray(table, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise ValueError(
                f"X must have shape (m, {len(self.names)}), one column a feature, "
                f"not {values.shape}"
            )
        return values

    def feature_std(self) -> Vector:
        """Standard deviations of the features, estimated from the release.

        Returns
        -------
        ndarray of shape (p,), float64
            In the features' own units; about zero where the release has no intercept column,
            and 0 where the noise leaves nothing.

        Raises
        ------
        ValueError
            If the number of rows is unknown, or the sum of the weights of weighted rows.
        """
        if self.n_rows is None or self.n_rows < 1:
            raise ValueError(uncounted(self.release))
        total = weight_behind(self.release, self.n_rows)
        if total is None:
            raise ValueError(
                "the sum of the rows' weights was not released: use a release with an intercept "
                "column, which holds it"
            )
        release, design = self.release, self.design
        moment = release.matrix - release.noise.shift_matrix(release.n_columns)
        rows, unit = design.own_frame()
        ones = intercept_of(release)
        variance = np.diag(rows @ moment @ rows.T) / total
        if ones is not None:
            variance = variance - (rows @ moment @ ones / total) ** 2
        std: Vector = np.sqrt(np.maximum(variance, 0.0)) * unit
        return std

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the coefficients; see `privgram.plots.plot_coefficients`."""
        from privgram.plots.of_fit import plot_coefficients

        return plot_coefficients(self, ax, **options)

    def table(self, level: float = 0.95) -> FitTable:
        """What `summary` says, as data."""
        clipped = self.refusal is None and not self.unclip and clips(self.release)
        table = tabulate(
            self.release,
            self.inference,
            target=self.target,
            names=self.param_names,
            used=np.append(self.coef, self.intercept)[: len(self.param_names)],
            ridge=self.ridge,
            n_rows=self.n_rows,
            references=self.design.references,
            unclip=self.unclip,
            clipping=self._moved_by_clipping if clipped else None,
            level=level,
            guarantee=(self.epsilon, self.delta),
            robust=self._says_of_look(),
        )
        if self.caution is None:
            return table
        return replace(table, notes=(*table.notes, f"{self.caution[0].upper()}{self.caution[1:]}."))

    def summary(self, level: float = 0.95) -> str:
        """A table of the fit as statistics packages print it.

        Parameters
        ----------
        level : float
            Level of the confidence intervals, in [0.5, 1).
        """
        return str(self.table(level))

    def _repr_html_(self) -> str:
        """The summary as notebooks show it."""
        return self.table()._repr_html_()

    @cached_property
    def _moved_by_clipping(self) -> float:
        """What clipping did to the estimates if the rows were normal, in standard errors: slow."""
        if self.design.positions is None:  # indicators are not normal
            return 0.0
        own = self.design.transform @ clipping_shift(self.release, self.design, self.n_rows)
        size = len(self.param_names)
        return float(np.max(np.abs(own[:size]) / self.inference.stderr[:size], initial=0.0))

    def _says_of_look(self) -> list[str]:
        """Notes on a second look, if there is one."""
        look = self.look
        if look is None:
            return []
        notes = [
            "They allow for errors of unequal variance"
            + (", which may go together within a unit" if look.privacy_unit else "")
            + ". The variance is of a second look at the "
            f"table ({look.epsilon:g}, {look.delta:g}), and has one deviation of its noise on top; "
            "the guarantee above is of both."
        ]
        if look.privacy_unit is not None:
            notes.append(
                "Units whose sums of residuals times features are long beside the usual count for "
                "less, which can only make standard errors too small."
            )
        elif look.parameters["clips"]:
            taken = ""
            if self.design.intercept:  # whose entry is the sum of their squares
                v, matrix = self._equations.v, self._equations.matrix
                kept = float(look.matrix[-1, -1] / (v @ matrix @ v))
                taken = f", here by about {max(1 - kept, 0.0):.1%} of the sum of their squares"
            notes.append(
                f"Residuals beyond {look.parameters['clip'] * self._unit:.4g} count as that, which "
                f"can only make standard errors too small{taken}."
            )
        if look.reproducible and not self.release.reproducible:
            notes.append("Reproducible: the second look is not private against who knows its seed.")
        return notes

    def __repr__(self) -> str:
        names = ", ".join(map(shown, self.names))
        return f"<Fit of {shown(self.target)} on {names}: {self.guarantee}>"
