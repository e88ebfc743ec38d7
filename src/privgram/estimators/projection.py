"""Projections on principal components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from privgram._base.numbers import check_integer
from privgram.columns import Columns
from privgram.columns.terms import INTERCEPT
from privgram.columns.unit import Missing
from privgram.estimators._base import (
    Bounds,
    PrivateEstimator,
    RandomState,
    TrainingTable,
    check_numbers,
    check_release,
    columns_of,
    pairs,
)

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.ledger import Ledger
    from privgram.mechanisms import Mechanism
    from privgram.multivariate import PCA
    from privgram.privacy import Adjacency
    from privgram.releases.release import Release


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Principal component analysis under differential privacy.

    Parameters
    ----------
    n_components : int, optional
        By default all.
    epsilon, delta : float, default 1.0, 1e-6
        The guarantee of one `fit`.
    bounds : (float, float), array-like of shape (n_features, 2) or mapping
        Public lower and upper bounds of the features, in their own units: one pair for all of
        them, a pair each, or pairs by name. Values beyond are clamped. Without, `fit` raises.
    bound : float, optional
        L2 norm to which a row, features and a one mapped to [-1, 1], is clipped. By default
        no row is.
    mechanism : Mechanism or str, optional
        By default the best for components: one round.
    adjacency, missing, random_state, ledger : see `PrivateRidge`

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features), float64
        Orthonormal rows, by falling variance; the largest entry of each is positive.
    explained_variance_ : ndarray of shape (n_components,), float64
        Variance along each, in the features' units; none below zero.
    explained_variance_ratio_ : ndarray of shape (n_components,), float64
    mean_ : ndarray of shape (n_features,), float64
        Within `bounds`.
    result_ : privgram.multivariate.PCA
        With a bound on the error of the subspace.
    release_ : Release
        What was paid for, with a column of ones, by which the mean is private too.
    n_components_ : int
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The components are eigenvectors of the released covariance in the features' own units, as
    in scikit-learn. Noise in these units is in proportion to the width of the bounds, so
    features of very different width are better put on one scale, by public numbers, first.

    Examples
    --------
    >>> import numpy as np
    >>> from privgram.estimators import PrivatePCA
    >>> t = np.random.default_rng(0).uniform(-1, 1, 100_000)
    >>> pca = PrivatePCA(1, epsilon=1.0, bounds=(-1, 1)).fit(np.column_stack([0.8 * t, 0.6 * t]))
    >>> pca.components_.round(2)
    array([[0.8, 0.6]])
    """

    _purpose = "components"

    def __init__(
        self,
        n_components: int | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Bounds = None,
        bound: float | None = None,
        mechanism: Mechanism | None = None,
        adjacency: Adjacency = "replace",
        missing: Missing = "error",
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    @property
    def result_(self) -> PCA:
        """The components with a bound on their error."""
        result: PCA = self._learnt()
        return result

    @property
    def components_(self) -> Matrix:
        """Orthonormal directions."""
        return self.result_.components_

    @property
    def _n_features_out(self) -> int:
        return self._n_components(self.n_features_in_)

    def _n_components(self, n_features: int) -> int:
        if self.n_components is None:
            return n_features
        return check_integer(self.n_components, "n_components", 1, n_features)

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
        check_release(release)
        columns = [name for name in release.names if name != INTERCEPT]
        chosen = columns if features is None else list(features)
        if features is not None:
            names = [*chosen, INTERCEPT] if INTERCEPT in release.names else chosen
            release = release.marginal(names)
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
        projected: Matrix = (self._validate(X, reset=False) - self.mean_) @ components.T
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
        rows: Matrix = coordinates @ components + self.mean_
        return rows

    @property
    def explained_variance_(self) -> Vector:
        """Variance along each component."""
        return np.maximum(self.result_.explained_variance_, 0.0)

    @property
    def explained_variance_ratio_(self) -> Vector:
        """The same as parts of the total."""
        total = np.maximum(self.result_.eigenvalues, 0.0).sum()
        return self.explained_variance_ / (total or 1.0)

    @property
    def mean_(self) -> Vector:
        """Mean of the features."""
        return np.asarray(self.result_.mean_)

    @property
    def n_components_(self) -> int:
        """Number of components."""
        return self.result_.n_components_

    def _table(self, X: Any, y: Any) -> TrainingTable:
        X = self._rows(X)
        self._n_components(self.n_features_in_)
        features = self._feature_names()
        ranges = pairs(self.bounds, features, "bounds")
        columns = Columns(ranges, intercept=True, missing=self.missing)
        check_numbers(columns)
        source = dict(zip(features, columns_of(X), strict=True))
        return TrainingTable(source, columns, self.bound)

    def _learn(self, source: Release) -> PCA:
        return source.pca(self.n_components, center=True, units="own")
