"""Principal components as a step of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from privgram._base.numbers import check_integer
from privgram.columns.unit import Missing
from privgram.disclosure.release import release_for
from privgram.disclosure.request import ReleaseRequest
from privgram.estimators._base import (
    BudgetedEstimator,
    ColumnDescription,
    RandomState,
    generator,
)
from privgram.privacy.guarantee import Guarantee
from privgram.releases.release import Release

if TYPE_CHECKING:
    from typing import Self

    from privgram._base.numbers import Matrix
    from privgram.ledger import Ledger
    from privgram.multivariate import PCA
    from privgram.privacy import Adjacency


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BudgetedEstimator):
    """Principal component analysis under differential privacy: a release and its `pca`.

    Parameters
    ----------
    n_components : int, optional
        By default all.
    columns, epsilon, delta, adjacency, missing, random_state, ledger
        As of `PrivateRidge`; all columns are numbers.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features), float64
        Orthonormal rows, by falling variance; the largest entry of each is positive.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,), float64
        Variance along each, in the features' units and of the whole; none below zero.
    mean_ : ndarray of shape (n_features,), float64
        Within the bounds.
    result_ : privgram.multivariate.PCA
        With errors.
    release_ : Release
        What was paid for.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Noise in the features' own units is in proportion to the width of their bounds: put features of
    very different width on one scale, by public numbers, first.

    Examples
    --------
    >>> import numpy as np
    >>> from privgram.estimators import PrivatePCA
    >>> t = np.random.default_rng(0).uniform(-1, 1, 100_000)
    >>> pca = PrivatePCA(1, columns=(-1, 1), epsilon=1.0).fit(np.column_stack([0.8 * t, 0.6 * t]))
    >>> pca.components_.round(2)
    array([[0.8, 0.6]])
    """

    _paid: Release | None = None

    def __init__(
        self,
        n_components: int | None = None,
        *,
        columns: ColumnDescription = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace",
        missing: Missing | None = None,
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows and spend the budget.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_features)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If the table or a parameter cannot be used, or the ledger has no room. The estimator is
            then as it was.
        """
        with self._unchanged_on_error():
            source, columns = self._numbers(X)
            if self.n_components is not None:
                check_integer(self.n_components, "n_components", 1, self.n_features_in_)
            self._warn_of_clones()
            request = ReleaseRequest(
                source,
                Guarantee(self.epsilon, self.delta, self.adjacency, None),
                columns,
                "components",
                rng=generator(self.random_state),
                ledger=self.ledger,
            )
            release = release_for(request)
            assert isinstance(release, Release)
            self._paid = release
        return self

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_in_ if self.n_components is None else self.n_components)

    @property
    def release_(self) -> Release:
        """What was paid for."""
        release: Release = self._fitted()
        return release

    @property
    def result_(self) -> PCA:
        """The components with their errors."""
        return self.release_.pca(self._n_features_out, center=True, units="own")

    @property
    def components_(self) -> Matrix:
        """Orthonormal directions."""
        return self.result_.components_

    @property
    def mean_(self) -> Matrix:
        """Mean of the features."""
        return np.asarray(self.result_.mean_)

    @property
    def explained_variance_(self) -> Matrix:
        """Variance along each component."""
        return np.maximum(self.result_.explained_variance_, 0.0)

    @property
    def explained_variance_ratio_(self) -> Matrix:
        """The same as parts of the total."""
        total = np.maximum(self.result_.eigenvalues, 0.0).sum()
        return self.explained_variance_ / (total or 1.0)

    def transform(self, X: Any) -> Matrix:
        """Project rows (m, n_features) on the components: (m, n_components) float64."""
        found = self.result_
        projected: Matrix = (self._validate(X, reset=False) - self.mean_) @ found.components_.T
        return projected

    def inverse_transform(self, X: Any) -> Matrix:
        """Give the rows (m, n_features) of the subspace with coordinates (m, n_components)."""
        rows: Matrix = np.asarray(X, np.float64) @ self.components_ + self.mean_
        return rows
