"""Linear regressions: least squares and ridge."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import RegressorMixin

from privgram._base.text import warn
from privgram.columns import Columns
from privgram.columns.unit import Missing
from privgram.columns.variables import Numeric
from privgram.disclosure.release import release_for, warn_of_weak
from privgram.disclosure.request import ReleaseRequest
from privgram.estimators._base import (
    BudgetedEstimator,
    ColumnDescription,
    RandomState,
    columns_in,
    generator,
    with_target,
)
from privgram.glm.targets import TARGET_RULES, TargetRules, fit_target, share_of_line
from privgram.mechanisms import AdaptiveGaussian, AnalyzeGauss
from privgram.privacy import GaussianProfile
from privgram.privacy.guarantee import Guarantee
from privgram.regression.design import AllColumns, RegressionTerms, design
from privgram.regression.diagnostics import pinned
from privgram.regression.features import NO_SLOPES, FeatureFit, LinearPart, check_features, places
from privgram.regression.inference import RefusedError
from privgram.releases.release import Release
from privgram.secret import generators
from privgram.secret.gate import Gate
from privgram.sources.arrays import is_array, to_numpy
from privgram.study.config import described

if TYPE_CHECKING:
    from typing import Self

    from privgram._base.numbers import Vector
    from privgram.columns.features import RandomFeatures
    from privgram.ledger import Ledger
    from privgram.privacy import Adjacency, Profile
    from privgram.regression import OLSResults


class PrivateRidge(RegressorMixin, BudgetedEstimator):
    """Ridge regression under differential privacy, and least squares as `alpha=0`.

    Parameters
    ----------
    alpha : float or "auto", default "auto"
        The penalty ``alpha ||coef||^2`` of scikit-learn's `Ridge`, in the units of the data; the
        intercept carries none.  "auto" weighs the release against the law of its noise, which is
        public, direction by direction: it costs nothing, reads no data, and turns to least squares
        as the noise vanishes. Of frames that `columns` describes by names it is "auto" or 0.
    columns : Columns, mapping or pair
        What is publicly known of each column, the target's too, as of `privgram.Study`; without
        it `fit` raises. Columns of an array are "x0", "x1", ..., and the target is "y". Of a data
        frame or a mapping of names to columns there may be factors, logarithms, dates and truth
        values as they are, and `y` is the column of its name, or the one described column that
        `X` lacks; columns that are not described are not used then. A pair of numbers bounds all
        columns and the target: (-1, 1) where public numbers have scaled them.
    epsilon, delta : float, default 1.0, 1e-6
        The guarantee of one `fit`.
    adjacency : {"replace", "add-remove"}, default "replace"
        Which tables are neighbours: one row replaced (the number of rows is public), or one
        added or removed.
    missing : {"error", "drop"}, optional
        What a row with a missing value does: raise, as in scikit-learn, or contribute nothing. By
        default as `columns` says, and else it contributes nothing under "add-remove".
    random_state : int, RandomState, Generator or None, default None
        None draws cryptographic noise. All else is for experiments: the noise can then be
        repeated, and the release says so.
    ledger : Ledger, optional
        Budget in a file, which every release is entered in before it is made and which refuses
        what would exceed it; also in the fits of a search.
    features : RandomFeatures, optional
        Random features beside the columns, for predictions that are not linear. Half of
        the budget is for a ridge by the columns, the rest for features of what that leaves. They
        count only if released errors say that they help. All columns are numbers, `alpha` is left
        out, and rows are dropped only where their number is private.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,), float64
        Target units per feature unit, in the order of ``result_.param_names`` without "Intercept":
        a factor has one for each level but its first.
    intercept_ : float
    result_ : OLSResults
        With standard errors, intervals and a summary. Intervals are of the unpenalised
        coefficients. With `features` a `FeatureFit`: what was released, which `save` writes; there
        are no coefficients then.
    prediction_error_ : float
        With `features`: the root mean square of what predictions leave of the target, as
        released.
    release_ : Release
        What was paid for. More regressions of it are free.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Further regressions of the same data are free: ``model.release_.regress(...)``.

    Examples
    --------
    >>> import numpy as np
    >>> from privgram.estimators import PrivateRidge
    >>> X = np.random.default_rng(0).uniform(-1, 1, (100_000, 2))
    >>> model = PrivateRidge(columns=(-1, 1), epsilon=1.0)
    >>> model = model.fit(X, X @ [0.5, -0.25])
    >>> model.coef_.round(2)
    array([ 0.5 , -0.25])
    """

    _target: str
    #: Whether what is learnt is by the names of columns, as of a frame.
    _by_name: bool = False
    _release: Release | None = None
    _learnt: OLSResults | None = None
    _fit: FeatureFit | None = None
    _rules: TargetRules = TARGET_RULES

    def __init__(
        self,
        alpha: float | Literal["auto"] = "auto",
        *,
        columns: ColumnDescription = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace",
        missing: Missing | None = None,
        random_state: RandomState = None,
        ledger: Ledger | None = None,
        features: RandomFeatures | None = None,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a table and spend the budget.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_features)
            On a GPU, as an array of torch, CuPy or JAX, rows stay there while they are summed.
        y : array-like of shape (n,)
            On the device of `X`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If the table or a parameter cannot be used, or the ledger has no room. The estimator is
            then as it was, and nothing is spent.

        Warns
        -----
        UserWarning
            If there is nothing to predict by. Where noise hides the coefficients `predict` raises
            RefusedError then, and `release_` has what was paid for.

        Notes
        -----
        Every call spends (epsilon, delta) again, of these rows' budget; whatever was learnt
        before is replaced.
        """
        with self._unchanged_on_error():
            self._check_penalty()
            check_features(self.features)
            source, columns = self._read(X, y)
            self._warn_of_clones()
            self._learnt = None
            spend = self._spend if self.features is None else self._spend_on_features
            self._release = spend(source, columns)
        if self.features is None:
            try:
                self._learnt = self._regressed(self._release)
            except RefusedError as refusal:  # what was paid for is there all the same
                warn(str(refusal), paid=True)
        return self

    def predict(self, X: Any) -> Vector:
        """Predict the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (m, n_features)
            A data frame or mapping whose columns are described by their names, as in `fit`: this
            is ``result_.predict(X)``, NaN where a level is not listed. With
            `features` this is `FeatureFit.predict`: its features clamp values beyond the bounds,
            and its line does where released errors do not say that it reaches further.

        Returns
        -------
        ndarray of shape (m,), float64

        Raises
        ------
        RefusedError
            A ValueError: without a penalty, where noise hides the coefficients.
        """
        fit = self.result_
        if self._by_name:
            return np.asarray(fit.predict(columns_in(X)))
        rows = self._validate(X, reset=False)
        if self.features is not None:
            return np.asarray(fit.predict(rows))
        return np.asarray(rows @ self.coef_ + self.intercept_)

    @property
    def release_(self) -> Release:
        """The release behind all that was learnt."""
        release: Release = self._fitted()
        return release

    @property
    def _paid(self) -> Release | None:
        return self._release

    @property
    def result_(self) -> Any:
        """The fit with its inference; with `features` a `FeatureFit`."""
        release = self._fitted()
        if self.features is not None:
            return self._fit
        if self._learnt is None:  # it was refused
            self._learnt = self._regressed(release)
        return self._learnt

    @property
    def coef_(self) -> Vector:
        """Coefficients in target units per feature unit; with `features` there are none."""
        return self._slopes()[:-1]

    @property
    def intercept_(self) -> float:
        """Intercept in target units; with `features` there is none."""
        return float(self._slopes()[-1])

    def _slopes(self) -> Vector:
        """The coefficients that `predict` takes, the constant last."""
        fit = self.result_
        if self.features is not None:
            raise AttributeError(NO_SLOPES)
        return np.asarray(fit.used)

    @property
    def prediction_error_(self) -> float:
        """Root mean square of what predictions leave of the target."""
        if self.features is None:
            raise AttributeError("prediction_error_ is of fits with features=")
        return float(self.result_.error)

    def _read(self, X: Any, y: Any) -> tuple[dict[str, Any], Columns]:
        """The table with its target, by names, and its description."""
        by_place = isinstance(X, (list, tuple, np.ndarray)) or is_array(X)
        by_names = isinstance(self.columns, (Columns, Mapping)) and self.features is None
        self._by_name = by_names and not by_place
        if not self._by_name:
            source, columns = self._numbers(X, y)
            self._target = list(source)[-1]
            return source, columns
        columns = described(self.columns, missing=self.missing).settled(self.adjacency)
        source, name = with_target(X, y, columns)
        target = columns.variables[name]
        self._target = target.label(name) if isinstance(target, Numeric) else name
        if not self._automatic and self.alpha != 0:
            raise ValueError(
                "alpha is 'auto' or 0 of a frame that columns= describes by names: levels of a "
                "factor have no units to weigh a number by; release_.regress(target, ridge=...) "
                "takes one in the release's scale"
            )
        # Refused before anything is spent.
        design(AllColumns(columns), RegressionTerms(self._target, None))
        self.feature_names_in_ = np.array(list(columns_in(X)), dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        return source, columns

    def _spend(self, source: Any, columns: Columns) -> Release:
        request = ReleaseRequest(
            source,
            Guarantee(self.epsilon, self.delta, self.adjacency, None),
            columns,
            "regression",
            mechanism=self._mechanism,
            rng=generator(self.random_state),
            ledger=self.ledger,
        )
        release = release_for(request)
        assert isinstance(release, Release)
        return release

    def _spend_on_features(self, source: dict[str, Any], columns: Columns) -> Release:
        """Two releases in one entry of the ledger, each by its share of mu^2."""
        assert self.features is not None
        *features, target = map(to_numpy, source.values())
        x, names = np.column_stack(features), tuple(source)[:-1]
        places(self.features, names)
        if self._drops and self.adjacency == "replace":
            raise ValueError(
                "beside features= rows are dropped where their number is private: take "
                "adjacency='add-remove', or missing='error'"
            )
        complete = np.isfinite(x).all(axis=1) & np.isfinite(target)
        if self._drops:
            x, target = x[complete], target[complete]
        elif not complete.all():  # on a GPU, where nothing has looked yet
            raise ValueError("a row holds NaN or infinity: missing='drop' leaves such rows out")
        rng = generator(self.random_state)
        random, reproducible = generators.resolve(rng)
        whole = Guarantee(self.epsilon, self.delta, self.adjacency, None)
        noise = AnalyzeGauss().noise_for(whole, self.features.n, 1.0)
        privacy = noise.privacy
        price = replace(noise.price, what="random features")
        if not whole.size_is_public:  # the share costs something, and may be this one
            _part(whole, privacy, self._rules.linear)
        if not reproducible:
            warn_of_weak(whole, len(target) if whole.size_is_public else None)
        gate = Gate(noise, random, ledger=self.ledger, price=price)
        share = share_of_line(gate, len(target), len(names), whole, self._rules)
        part = _part(whole, privacy, share)
        request = ReleaseRequest(source, part, columns, mechanism=AdaptiveGaussian(), rng=rng)
        first = release_for(request, gate=gate, share=share)
        assert isinstance(first, Release)
        line = self._regressed(first).used
        linear = LinearPart.of(first, line, columns.center[:-2], columns.half_width[:-2])
        self._fit = FeatureFit(
            features=self.features,
            names=names,
            linear=linear,
            coef=np.zeros(self.features.n + len(names) + 1),
            error=linear.size * linear.height,
            n_rows=max(float(first.matrix[-1, -1]), 1.0),
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            privacy=privacy,
            reproducible=first.reproducible,
        )
        if share == self._rules.linear:
            self._fit = fit_target(x, target, self._fit, rules=self._rules, gate=gate)
        if self._fit.refusal is not None:
            warn(
                f"the features could not be fitted: {self._fit.refusal}. Predictions are by the "
                "columns alone, and the whole budget counts as spent",
                paid=True,
            )
        return first

    def _regressed(self, source: Release) -> OLSResults:
        names = None if self._by_name else self._feature_names()
        fit = source.regress(self._target, names, ridge=self._penalty(source))
        if np.isnan(fit.theta).any():
            free = f"release_.regress({fit.target!r}, ridge='auto')"
            raise RefusedError(f"{fit.refusal}. The release is kept: {free} is free")
        if (nothing := pinned(source, fit.design)) is not None:
            warn(f"there is nothing to predict by: {nothing}", paid=True)
        return fit

    @property
    def _mechanism(self) -> str | None:
        # "auto" makes do with any matrix. Additive Wishart noise is that of Analyze Gauss to a
        # few percent, and positive definite always; at delta = 0 there is one mechanism.
        return None if self._automatic or not self.delta else "additive-wishart"

    @property
    def _automatic(self) -> bool:
        return isinstance(self.alpha, str) and self.alpha == "auto"

    def _check_penalty(self) -> None:
        if self._automatic:
            return
        if not isinstance(self.alpha, numbers.Real) or not 0 <= float(self.alpha) < math.inf:
            raise ValueError(f"alpha must be 'auto' or a finite number >= 0, not {self.alpha!r}")
        if self.features is not None:
            raise ValueError("alpha is not taken beside features=: leave it out")

    def _penalty(self, source: Release) -> Any:
        self._check_penalty()
        if self._automatic or self._by_name or source.columns is None:
            return self.alpha
        # Coefficients of columns mapped to [-1, 1] are coef * half_width / the target's, and so
        # is the loss divided by the square of the latter.
        return float(self.alpha) / source.columns.half_width[:-2] ** 2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The checks fit some two hundred rows, whose signal is below the noise of epsilon = 1.
        tags.regressor_tags.poor_score = True
        return tags


def _part(whole: Guarantee, privacy: Profile, share: float) -> Guarantee:
    """The guarantee of a Gaussian mechanism with a share of mu^2."""
    assert isinstance(privacy, GaussianProfile)
    ratio = privacy.sensitivity_ratio * math.sqrt(share) * (1 - 2.0**-30)
    epsilon = replace(privacy, sensitivity_ratio=ratio).epsilon(whole.delta)
    if not epsilon:
        raise ValueError(
            f"epsilon={whole.epsilon:g} is too small beside delta={whole.delta:g} for two "
            "releases: take a smaller delta"
        )
    return replace(whole, epsilon=epsilon)
