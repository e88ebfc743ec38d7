"""scikit-learn's interface: private regressions and projections as estimators.

For example::

    from privgram.estimators import PrivateRidge

    model = PrivateRidge(epsilon=1.0, bounds={"age": (18, 100)}, target_bounds=(60, 200))
    model.fit(table[["age"]], table["pressure"])
    model.coef_, model.result_.conf_int(), model.release_

An estimator holds either an exact second moment, which is secret, or a release, which is not.
`fit` goes all the way.  `partial_fit` adds rows, exactly, and the first look at anything learnt
(`coef_`, `predict`, ...) or a call of `release` spends the budget, once; the second moment is
then dropped.  `fit_from` starts from a release there already is, which costs nothing.

What the budget does not cover: it is spent again by every `fit`, so a cross-validation of five
folds spends it six times, and `score` compares with rows that are not protected.
"""

from __future__ import annotations

import math
import numbers
import operator
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

try:
    from sklearn.base import (
        BaseEstimator,
        ClassNamePrefixFeaturesOutMixin,
        RegressorMixin,
        TransformerMixin,
    )
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_consistent_length, validate_data
except ImportError as error:  # pragma: no cover
    raise ImportError(
        'privgram.estimators needs scikit-learn 1.6 or later: pip install "privgram[sklearn]"'
    ) from error

from privgram.columns import INTERCEPT, Columns
from privgram.engines.threads import second_moment
from privgram.mechanisms import AdditiveWishart, AnalyzeGauss, release
from privgram.release import Release
from privgram.spectrum import mean_and_covariance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.ledger import Ledger
    from privgram.mechanisms import Mechanism
    from privgram.moment import SecondMoment
    from privgram.privacy import Adjacency
    from privgram.regression import Fit
    from privgram.spectrum import PCA

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = [
    "BudgetSpentError",
    "PrivateLinearRegression",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateTruncatedSVD",
]

#: Two threads that look at the same moment for the first time must not both spend.
_SPENDING = threading.Lock()

#: How scikit-learn's refusals begin that quote values of the data, and what is said instead.
_QUOTING = {
    "could not convert": "the data hold text or objects; only real numbers can be used",
    "Complex data not supported": "Complex data not supported",
    "setting an array element": "X must be a table of numbers; of a lazy frame, collect() it",
    "Expected 2D array": (
        "X must have two dimensions. Reshape your data, by x[:, None] if it is a single feature "
        "or x[None, :] if it is a single sample"
    ),
    "Input should have at least 1 dimension": "y must have one or two dimensions",
}


class BudgetSpentError(ValueError, AttributeError):
    """Rows were to be added after the budget was spent.

    An AttributeError too, as scikit-learn's `NotFittedError` is: then `partial_fit` is not there.
    """

    def __init__(self) -> None:
        super().__init__(
            "the budget of this estimator is spent, and rows cannot be added to a release: use "
            "fit, which spends it anew, or partial_fit of a new estimator"
        )


class _until_spent:
    """A method that is there until the budget is spent."""

    def __init__(self, method: Any) -> None:
        self._method = method

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._method
        if instance._release is not None:
            raise BudgetSpentError
        return MethodType(self._method, instance)


class _PrivateEstimator(BaseEstimator):
    """A second moment until the budget is spent, a release from then on.

    What is learnt is offered as properties with a trailing underscore; the first to be read
    spends.
    """

    # Not parameters, and so not set by __init__.
    _moment: SecondMoment | None = None
    _release: Release | None = None
    _given: bool = False
    _cached: Any = None

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from a table and spend the budget.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_features)
        y : array-like of shape (n,) or (n, n_targets)
            Regressors only.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If the table or a parameter cannot be used, or the ledger has no room.  The estimator is
            then as it was.

        Notes
        -----
        Every call spends (epsilon, delta) again, of these rows' budget; whatever was learnt
        before is replaced.
        """
        with self._unchanged_on_error():
            self._moment, self._release = self._measure(X, y, reset=True), None
            self._given, self._cached = False, None
            self.release()
        self._learnt()
        return self

    @_until_spent
    def partial_fit(self, X: Any, y: Any = None) -> Any:
        """Add rows, exactly; spend nothing yet.

        Parameters
        ----------
        X, y
            As in `fit`, of any number of rows.

        Returns
        -------
        self

        Raises
        ------
        BudgetSpentError
            If the budget is spent already, by `fit` too.
        ValueError, TypeError
            As in `fit`.  No row is then added.
        """
        with self._unchanged_on_error():
            moment = self._measure(X, y, reset=self._moment is None)
            with _SPENDING:
                if self._release is not None:
                    raise BudgetSpentError
                self._moment = moment if self._moment is None else self._moment.merge(moment)
        return self

    def release(self) -> Release:
        """Spend the budget, unless it is spent, and drop the exact second moment.

        Returns
        -------
        Release
            As in `release_`.
        """
        with _SPENDING:
            if self._release is None:
                if self._moment is None:
                    raise NotFittedError(
                        f"This {type(self).__name__} instance is not fitted yet: call fit, "
                        "partial_fit or fit_from first"
                    )
                self._release = release(
                    self._moment,
                    self._default_mechanism if self.mechanism is None else self.mechanism,
                    self.epsilon,
                    self.delta,
                    adjacency=self.adjacency,
                    rng=_generator(self.random_state),
                    ledger=self.ledger,
                )
                self._moment = None
            return self._release

    @property
    def release_(self) -> Release:
        """The release behind all that was learnt."""
        return self.release()

    def _learnt(self) -> Any:
        """What the release says, computed once."""
        source = self.release()
        if self._cached is None:
            self._cached = self._learn(source)
        return self._cached

    def _adopt(self, given: Release, features: Sequence[str]) -> None:
        """Take over a release, of which some columns are the features."""
        self._moment, self._release, self._given, self._cached = None, given, True, None
        self.n_features_in_ = len(features)
        self.__dict__.pop("feature_names_in_", None)
        if list(features) != _unnamed(len(features)):
            self.feature_names_in_ = np.array(features, dtype=object)

    def _feature_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        names = _unnamed(self.n_features_in_) if names is None else list(names)
        if INTERCEPT in names:
            raise ValueError(f"rename the feature {INTERCEPT!r}: the column of ones has that name")
        if len(set(names)) < len(names):
            raise ValueError("two features have the same name")
        return names

    def _validate(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """scikit-learn's own checks, without a value of the data in their messages."""
        finite: bool | str = "allow-nan" if self._drops else True
        check = {"dtype": [np.float64, np.float32], "ensure_all_finite": finite}
        try:
            if y is None or isinstance(y, str):
                return validate_data(self, X, y, reset=reset, **check)
            X, y = validate_data(
                self, X, y, reset=reset, validate_separately=(check, check | {"ensure_2d": False})
            )
        except (ValueError, TypeError) as error:
            for start, instead in _QUOTING.items():
                if str(error).startswith(start):
                    raise type(error)(instead) from None
            raise
        if y.ndim > 2:
            raise ValueError(f"y must have one or two dimensions, not {y.ndim}")
        check_consistent_length(X, y)
        return X, y

    @property
    def _drops(self) -> bool:
        return getattr(self, "missing", "error") == "drop"

    @abstractmethod
    def _measure(self, X: Any, y: Any, reset: bool) -> SecondMoment:
        """The exact second moment of these rows."""

    @abstractmethod
    def _learn(self, source: Release) -> Any:
        """Post-processing of the release."""

    @property
    def _default_mechanism(self) -> Mechanism:
        """The one that serves best."""
        return AnalyzeGauss()

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def __sklearn_is_fitted__(self) -> bool:
        return self._release is not None or self._moment is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._drops
        return tags

    def __dir__(self) -> list[str]:
        # What looks through all attributes, as a notebook does, must not spend by looking;
        # scikit-learn's own __dir__ tries each of them.
        if self._release is not None:
            return list(super().__dir__())
        kind = type(self)
        return [
            name
            for name in object.__dir__(self)
            if not isinstance(getattr(kind, name, None), property)
        ]

    def __getstate__(self) -> Any:
        if self._moment is not None:
            raise TypeError(
                f"this {type(self).__name__} holds an exact second moment: saved, it would be out "
                "in the open, and copied, the budget could be spent twice. Call release() first; "
                "to keep a sum of parts, save a SecondMoment yourself"
            )
        return super().__getstate__()

    def _budget(self) -> str:
        """The budget and what became of it, in a line."""
        source = self._release
        if source is None:
            state = "nothing spent" if self._moment is None else "not yet spent; holds secret data"
            return f"epsilon={self.epsilon}, delta={self.delta}: {state}"
        text = f"epsilon={source.epsilon:g}, delta={source.delta:g}: spent"
        text += " before, by the release it was fitted from" if self._given else ""
        return text + ("; REPRODUCIBLE noise, not private" if source.reproducible else "")

    def _sk_visual_block_(self) -> Any:
        # scikit-learn asks for this when it draws an estimator, alone or in a pipeline.
        return SimpleNamespace(
            kind="single",
            estimators=self,
            names=type(self).__name__,
            name_details=f"{self!r}\n{self._budget()}",
            name_caption=self._budget(),
            doc_link_label=None,
            dash_wrapped=True,
        )


class PrivateLinearRegression(RegressorMixin, _PrivateEstimator):
    """Ordinary least squares under differential privacy.

    Parameters
    ----------
    epsilon, delta : float, default 1.0, 1e-6
        The guarantee of one `fit`.
    bounds : (float, float), array-like of shape (n_features, 2) or mapping, default (-1, 1)
        Public lower and upper bounds of the features, in their own units: one pair for all of
        them, a pair each, or pairs by name.  Values beyond are clamped.  The default is for
        features that are scaled already, by public numbers; it is never taken from the data.
    target_bounds : the same for the target or targets, default (-1, 1)
    bound : float, optional
        L2 norm to which a row, features, target and intercept mapped to [-1, 1], is shortened.
        By default no row is: it is the square root of the number of columns.
    mechanism : Mechanism, optional
        `AdditiveWishart()` by default: there is a least-squares solution, always.
    fit_intercept : bool, default True
        Without, all bounds are widened to be symmetric about zero, through which the fit goes.
    adjacency : {"replace", "add-remove"}, default "replace"
        Which tables are neighbours: one row replaced (the number of rows is public), or one
        added or removed.
    missing : {"error", "drop"}, default "error"
        What a row with NaN does: raise, or contribute nothing.
    random_state : int, RandomState, Generator or None, default None
        None draws cryptographic noise.  All else is for experiments: the noise can then be
        repeated, and the release says so.
    ledger : Ledger, optional
        Budget in a file, which every release is entered in before it is made and which refuses
        what would exceed it; also in the fits of a search.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features), float64
        Target units per feature unit.
    intercept_ : float or ndarray of shape (n_targets,)
    result_ : Fit or list of Fit
        With standard errors, intervals and a summary; one for each target.
    release_ : Release
        What was paid for.  More regressions of it are free.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Reading an attribute or predicting spends the budget if rows were added by `partial_fit`
    and it is not spent yet; `hasattr` reads.

    An estimator that holds an exact second moment cannot be pickled or copied.

    Examples
    --------
    >>> import numpy as np
    >>> from privgram.estimators import PrivateLinearRegression
    >>> X = np.random.default_rng(0).uniform(-1, 1, (100_000, 2))
    >>> model = PrivateLinearRegression(epsilon=1.0).fit(X, X @ [0.5, -0.25])
    >>> model.coef_.round(2)
    array([ 0.5 , -0.25])
    """

    _targets: list[str]
    _one_dimensional: bool

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Any = (-1, 1),
        target_bounds: Any = (-1, 1),
        bound: float | None = None,
        mechanism: Mechanism | None = None,
        fit_intercept: bool = True,
        adjacency: Adjacency = "replace",
        missing: Literal["error", "drop"] = "error",
        random_state: Any = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.bound = bound
        self.mechanism = mechanism
        self.fit_intercept = fit_intercept
        self.adjacency = adjacency
        self.missing = missing
        self.random_state = random_state
        self.ledger = ledger

    def fit_from(
        self,
        release: Release,
        target: str | Sequence[str] | None = None,
        features: Sequence[str] | None = None,
    ) -> Any:
        """Learn from a release, at no cost.

        Parameters
        ----------
        release : Release
            Of an estimator (`release_`), of `privgram.release` or of a file.
        target : str or sequence of str, optional
            Columns to predict; by default the last that is no intercept.
        features : sequence of str, optional
            Columns to predict by, in the order of `X`; by default all others.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown column.
        """
        _check_release(release)
        columns = [name for name in release.names if name != INTERCEPT]
        single = target is None or isinstance(target, str)
        if target is None:
            target = columns[-1:]
        targets = [target] if isinstance(target, str) else list(target)
        chosen = [name for name in columns if name not in targets] if features is None else features
        for name in (*targets, *chosen):
            release.index(name)
        if not targets or not chosen:
            raise ValueError("a regression needs a target and a feature")
        with self._unchanged_on_error():
            self._adopt(release, list(chosen))
            self._targets, self._one_dimensional = targets, single
            self._learnt()
        return self

    def predict(self, X: Any) -> Vector:
        """Predict the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (m, n_features)

        Returns
        -------
        ndarray of shape (m,) or (m, n_targets), float64
        """
        coef, intercept = self.coef_, self.intercept_
        predicted: Vector = self._validate(X, reset=False) @ coef.T + intercept
        return predicted

    @property
    def result_(self) -> Fit | list[Fit]:
        """The fit with its inference, or one for each target."""
        fits: list[Fit] = self._learnt()
        return fits[0] if self._one_dimensional else fits

    @property
    def coef_(self) -> Matrix:
        """Coefficients in target units per feature unit."""
        coef = np.stack([fit.coef for fit in self._learnt()])
        return coef[0] if self._one_dimensional else coef

    @property
    def intercept_(self) -> Any:
        """Intercept in target units."""
        intercept = np.array([fit.intercept for fit in self._learnt()])
        return float(intercept[0]) if self._one_dimensional else intercept

    def _measure(self, X: Any, y: Any, reset: bool) -> SecondMoment:
        self._check_penalty()
        given = y
        X, y = self._validate(X, y, reset=reset)
        features = self._feature_names()
        if reset:
            self._one_dimensional = y.ndim == 1
            self._targets = _target_names(given, y, features)
        y = y.reshape(len(y), -1)
        if y.shape[1] != len(self._targets):
            raise ValueError(f"y has {y.shape[1]} targets and had {len(self._targets)} before")
        pairs = _pairs(self.bounds, features, "bounds")
        pairs |= _pairs(self.target_bounds, self._targets, "target_bounds")
        if not self.fit_intercept:
            pairs = {name: _about_zero(pair) for name, pair in pairs.items()}
        columns = Columns(pairs, intercept=bool(self.fit_intercept), missing=self.missing)
        names = [*features, *self._targets]
        # Views: the table and its target are never copied into one.
        source = dict(zip(names, [*X.T, *y.T], strict=True))
        return second_moment(source, self.bound, columns)

    def _learn(self, source: Release) -> list[Fit]:
        features = self._feature_names()
        if not self.fit_intercept and source.columns is not None:
            used = [source.columns.names.index(name) for name in (*features, *self._targets)]
            if source.columns.center[used].any():
                raise ValueError(
                    "a fit through zero needs bounds that are symmetric about zero, and those of "
                    "the release are not: use fit_intercept=True"
                )
        try:
            return [
                source.regress(
                    target,
                    list(features),
                    ridge=self._penalty(source, features),
                    intercept=bool(self.fit_intercept),
                )
                for target in self._targets
            ]
        except ValueError as error:
            raise ValueError(
                f"{error}. The release is kept: PrivateRidge().fit_from(release_) is free"
            ) from None

    @property
    def _default_mechanism(self) -> Mechanism:
        # No more noise than Analyze Gauss to a few percent, and positive definite always: there
        # is a solution whatever the penalty.
        return AdditiveWishart()

    def _check_penalty(self) -> None:
        """Refuse a penalty before anything is spent."""

    def _penalty(self, source: Release, features: Sequence[str]) -> Any:
        return 0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        # The checks fit some two hundred rows, whose signal is below the noise of epsilon = 1.
        tags.regressor_tags.poor_score = True
        return tags


class PrivateRidge(PrivateLinearRegression):
    """Ridge regression under differential privacy.

    Parameters
    ----------
    alpha : float or "auto", default "auto"
        The penalty ``alpha ||coef||^2`` of scikit-learn's `Ridge`, in the units of the data; the
        intercept carries none.  "auto" weighs the release against the law of its noise, which is
        public, direction by direction: it costs nothing, reads no data, and turns to least squares
        as the noise vanishes.
    epsilon, delta, bounds, target_bounds, bound, fit_intercept : see `PrivateLinearRegression`
    adjacency, missing, random_state, ledger : see `PrivateLinearRegression`
    mechanism : Mechanism, optional
        By default `AnalyzeGauss()` with "auto", and otherwise `AdditiveWishart()`, whose release
        is positive definite always.

    Attributes
    ----------
    coef_, intercept_, result_, release_, n_features_in_, feature_names_in_
        As in `PrivateLinearRegression`.  Intervals of `result_` are of the unpenalised
        coefficients.

    Notes
    -----
    Another `alpha` on the same data is free: ``PrivateRidge(alpha=2.0).fit_from(model.release_)``.

    Examples
    --------
    >>> import numpy as np
    >>> from privgram.estimators import PrivateRidge
    >>> X = np.random.default_rng(0).uniform(-1, 1, (100_000, 2))
    >>> model = PrivateRidge(epsilon=1.0).fit(X, X @ [0.5, -0.25])
    >>> model.coef_.round(2)
    array([ 0.5 , -0.25])
    """

    def __init__(
        self,
        alpha: float | Literal["auto"] = "auto",
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Any = (-1, 1),
        target_bounds: Any = (-1, 1),
        bound: float | None = None,
        mechanism: Mechanism | None = None,
        fit_intercept: bool = True,
        adjacency: Adjacency = "replace",
        missing: Literal["error", "drop"] = "error",
        random_state: Any = None,
        ledger: Ledger | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            bounds=bounds,
            target_bounds=target_bounds,
            bound=bound,
            mechanism=mechanism,
            fit_intercept=fit_intercept,
            adjacency=adjacency,
            missing=missing,
            random_state=random_state,
            ledger=ledger,
        )
        self.alpha = alpha

    @property
    def _default_mechanism(self) -> Mechanism:
        # "auto" makes do with any matrix.
        return AnalyzeGauss() if self._automatic else super()._default_mechanism

    @property
    def _automatic(self) -> bool:
        return isinstance(self.alpha, str) and self.alpha == "auto"

    def _check_penalty(self) -> None:
        if not self._automatic and not _is_penalty(self.alpha):
            raise ValueError(f"alpha must be 'auto' or a finite number >= 0, not {self.alpha!r}")

    def _penalty(self, source: Release, features: Sequence[str]) -> Any:
        self._check_penalty()
        if self._automatic or source.columns is None:
            return self.alpha
        # Coefficients of columns mapped to [-1, 1] are coef * half_width / the target's, and so
        # is the loss divided by the square of the latter.
        own = [source.columns.names.index(name) for name in features]
        return float(self.alpha) / source.columns.half_width[own] ** 2


class _Projection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _PrivateEstimator):
    """What a projection on directions has, however they were found."""

    @property
    @abstractmethod
    def components_(self) -> Matrix:
        """Orthonormal directions."""

    @property
    def _n_features_out(self) -> int:
        return self._n_components(self.n_features_in_)

    def _n_components(self, n_features: int) -> int:
        if self.n_components is None:
            return n_features
        try:
            k = operator.index(self.n_components)
        except TypeError:
            raise TypeError("n_components must be an integer or None") from None
        if not 1 <= k <= n_features:
            raise ValueError(f"n_components must lie in [1, n_features = {n_features}], not {k}")
        return k

    def fit_from(self, release: Release, features: Sequence[str] | None = None) -> Any:
        """Learn from a release, at no cost.

        Parameters
        ----------
        release : Release
            Of an estimator (`release_`), of `privgram.release` or of a file.
        features : sequence of str, optional
            Columns to use, in the order of `X`; by default all but the intercept.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown column, or a release that does not serve.
        """
        _check_release(release)
        columns = [name for name in release.names if name != INTERCEPT]
        chosen = columns if features is None else list(features)
        if features is not None:
            kept = [*chosen, INTERCEPT] if INTERCEPT in release.names else chosen
            release = release.marginal(kept)
        with self._unchanged_on_error():
            self._adopt(release, chosen)
            self._n_components(self.n_features_in_)
            self._learnt()
        return self

    def transform(self, X: Any) -> Matrix:
        """Project rows on the components.

        Parameters
        ----------
        X : array-like or DataFrame of shape (m, n_features)

        Returns
        -------
        ndarray of shape (m, n_components), float64
        """
        components = self.components_
        projected: Matrix = (self._validate(X, reset=False) - self._centre()) @ components.T
        return projected

    def inverse_transform(self, X: Any) -> Matrix:
        """Give the rows of the subspace with these coordinates.

        Parameters
        ----------
        X : array-like of shape (m, n_components)

        Returns
        -------
        ndarray of shape (m, n_features), float64
        """
        components = self.components_
        coordinates = np.asarray(X, dtype=np.float64)
        if coordinates.ndim != 2 or coordinates.shape[1] != len(components):
            raise ValueError(f"X must have shape (m, {len(components)}), not {coordinates.shape}")
        rows: Matrix = coordinates @ components + self._centre()
        return rows

    def _centre(self) -> Any:
        return 0.0


class PrivatePCA(_Projection):
    """Principal component analysis under differential privacy.

    Parameters
    ----------
    n_components : int, optional
        By default all.
    epsilon, delta : float, default 1.0, 1e-6
        The guarantee of one `fit`.
    bounds : (float, float), array-like of shape (n_features, 2) or mapping, default (-1, 1)
        Public lower and upper bounds of the features, in their own units: one pair for all of
        them, a pair each, or pairs by name.  Values beyond are clamped.
    bound : float, optional
        L2 norm to which a row, features and a one mapped to [-1, 1], is shortened.  By default
        no row is.
    mechanism : Mechanism, optional
        `AnalyzeGauss()` by default.
    adjacency, missing, random_state, ledger : see `PrivateLinearRegression`

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features), float64
        Orthonormal rows, by falling variance; the largest entry of each is positive.
    explained_variance_ : ndarray of shape (n_components,), float64
        Variance along each, in the features' units; none below zero.
    explained_variance_ratio_ : ndarray of shape (n_components,), float64
    mean_ : ndarray of shape (n_features,), float64
        Within `bounds`.
    release_ : Release
        What was paid for, with a column of ones, by which the mean is private too.
    n_components_ : int
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The components are eigenvectors of the released covariance in the features' own units, as
    in scikit-learn.  Noise in these units is in proportion to the width of the bounds, so
    features of very different width are better put on one scale, by public numbers, first.

    Examples
    --------
    >>> import numpy as np
    >>> from privgram.estimators import PrivatePCA
    >>> t = np.random.default_rng(0).uniform(-1, 1, 100_000)
    >>> pca = PrivatePCA(1, epsilon=1.0).fit(np.column_stack([0.8 * t, 0.6 * t]))
    >>> pca.components_.round(2)
    array([[0.8, 0.6]])
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Any = (-1, 1),
        bound: float | None = None,
        mechanism: Mechanism | None = None,
        adjacency: Adjacency = "replace",
        missing: Literal["error", "drop"] = "error",
        random_state: Any = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.bound = bound
        self.mechanism = mechanism
        self.adjacency = adjacency
        self.missing = missing
        self.random_state = random_state
        self.ledger = ledger

    @property
    def components_(self) -> Matrix:
        """Orthonormal directions, by falling variance."""
        components: Matrix = self._learnt().components
        return components

    @property
    def explained_variance_(self) -> Vector:
        """Variance along each component."""
        variance: Vector = self._learnt().variance
        return variance

    @property
    def explained_variance_ratio_(self) -> Vector:
        """The same as parts of the total."""
        ratio: Vector = self._learnt().ratio
        return ratio

    @property
    def mean_(self) -> Vector:
        """Mean of the features."""
        mean: Vector = self._learnt().mean
        return mean

    @property
    def n_components_(self) -> int:
        """Number of components."""
        return len(self._learnt().components)

    def _centre(self) -> Vector:
        return self.mean_

    def _measure(self, X: Any, y: Any, reset: bool) -> SecondMoment:
        X = self._validate(X, reset=reset)
        self._n_components(self.n_features_in_)
        features = self._feature_names()
        pairs = _pairs(self.bounds, features, "bounds")
        columns = Columns(pairs, intercept=True, missing=self.missing)
        return second_moment(dict(zip(features, X.T, strict=True)), self.bound, columns)

    def _learn(self, source: Release) -> SimpleNamespace:
        mean, covariance = mean_and_covariance(source)
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        k = self._n_components(len(values))
        components = vectors[:, :k].T
        largest = np.abs(components).argmax(axis=1)
        return SimpleNamespace(
            components=components * np.sign(components[np.arange(k), largest])[:, None],
            variance=values[:k],
            ratio=values[:k] / (values.sum() or 1.0),
            mean=mean,
        )


class PrivateTruncatedSVD(_Projection):
    """Truncated singular value decomposition under differential privacy.

    The directions that explain most of the rows as they are, about zero: nothing is centred or
    scaled.

    Parameters
    ----------
    n_components : int, default 2
    epsilon, delta : float, default 1.0, 1e-6
        The guarantee of one `fit`.
    bound : float, default 1.0
        Public L2 bound of a row, in its own units; longer rows are shortened to it.  The default
        is for rows normalised to length one; it is never taken from the data.
    mechanism : Mechanism, optional
        `AnalyzeGauss()` by default.
    adjacency, random_state, ledger : see `PrivateLinearRegression`

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features), float64
        Right singular vectors; the largest entry of each is positive.
    singular_values_ : ndarray of shape (n_components,), float64
        Of the whole table; zero where the noise leaves nothing.
    result_ : privgram.spectrum.PCA
        With a bound on the error of the subspace.
    release_ : Release
        What was paid for.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from privgram.estimators import PrivateTruncatedSVD
    >>> t = np.random.default_rng(0).uniform(-1, 1, 100_000)
    >>> svd = PrivateTruncatedSVD(1, epsilon=1.0).fit(np.column_stack([0.8 * t, 0.6 * t]))
    >>> svd.components_.round(2)
    array([[0.8, 0.6]])
    """

    def __init__(
        self,
        n_components: int | None = 2,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bound: float = 1.0,
        mechanism: Mechanism | None = None,
        adjacency: Adjacency = "replace",
        random_state: Any = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.bound = bound
        self.mechanism = mechanism
        self.adjacency = adjacency
        self.random_state = random_state
        self.ledger = ledger

    @property
    def components_(self) -> Matrix:
        """Right singular vectors."""
        return self.result_.components

    @property
    def singular_values_(self) -> Vector:
        """Singular values of the table."""
        values: Vector = np.sqrt(np.maximum(self.result_.explained_variance, 0.0))
        return values

    @property
    def result_(self) -> PCA:
        """The components with a bound on their error."""
        result: PCA = self._learnt()
        return result

    def _measure(self, X: Any, y: Any, reset: bool) -> SecondMoment:
        X = self._validate(X, reset=reset)
        self._n_components(self.n_features_in_)
        features = self._feature_names()
        named = hasattr(self, "feature_names_in_")
        return second_moment(dict(zip(features, X.T, strict=True)) if named else X, self.bound)

    def _learn(self, source: Release) -> PCA:
        if source.columns is not None or INTERCEPT in source.names:
            raise ValueError(
                "a decomposition about zero needs a release of the columns as they are, by a "
                "bound alone and without an intercept; PrivatePCA takes this one"
            )
        return source.pca(self._n_components(source.n_columns))


def _check_release(release: Any) -> None:
    if not isinstance(release, Release):
        raise TypeError(f"fit_from takes a Release, not {type(release).__name__}")


def _generator(random_state: Any) -> np.random.Generator | None:
    """scikit-learn's `random_state` as the argument `rng` of a mechanism."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=8))
    try:
        return np.random.default_rng(operator.index(random_state))
    except TypeError:
        raise TypeError(
            "random_state must be None, an integer, a RandomState or a Generator, not "
            f"{type(random_state).__name__}"
        ) from None


def _is_penalty(alpha: Any) -> bool:
    return isinstance(alpha, numbers.Real) and 0 <= float(alpha) < math.inf


def _unnamed(n: int) -> list[str]:
    return [f"x{i}" for i in range(n)]


def _target_names(given: Any, y: NDArray[Any], features: list[str]) -> list[str]:
    """The targets' own names if they have any that will do; or y, or y0, y1, ..."""
    names: list[Any]
    if y.ndim == 1:
        names, default = [getattr(given, "name", None)], ["y"]
    else:
        names = list(getattr(given, "columns", ()))
        default = [f"y{i}" for i in range(y.shape[1])]
    taken = {*features, INTERCEPT}
    usable = all(isinstance(name, str) and name for name in names) and not taken & set(names)
    if usable and len(set(names)) == len(default):
        return names
    while taken & set(default):
        default = [f"{name}_" for name in default]
    return default


def _pairs(bounds: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    """Bounds by name; `Columns` checks each pair."""
    if bounds is None or isinstance(bounds, str):
        Columns.from_data()  # raises, and says why bounds are not found in the data
    if isinstance(bounds, Mapping):
        unknown = [name for name in bounds if name not in names]
        missing = [name for name in names if name not in bounds]
        if unknown or missing:
            raise ValueError(
                f"{what} has no pair for column {missing[0]!r}"
                if missing
                else f"{what} has a pair for {unknown[0]!r}, and there is no such column"
            )
        return {name: bounds[name] for name in names}
    try:
        array = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape == (2,):
        array = np.broadcast_to(array, (len(names), 2))
    if array.shape != (len(names), 2):
        raise ValueError(
            f"{what} must be a pair (lower, upper), an array of shape ({len(names)}, 2), a pair a "
            "column, or a mapping of names to pairs"
        )
    return dict(zip(names, map(tuple, array.tolist()), strict=True))


def _about_zero(pair: Any) -> tuple[float, float]:
    lower, upper = pair
    largest = max(abs(lower), abs(upper))
    return -largest, largest
