"""Sparse inverse covariance of a release: which columns go together, given the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from privgram._base.checks import check_positive
from privgram._base.optional import extra
from privgram._base.text import shown
from privgram.multivariate.redrawn import draws_of
from privgram.multivariate.variables import Covariance, Variables
from privgram.regression import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privgram._base.arrays import Matrix
    from privgram._release.record import ReleaseRecord


#: Probability that no pair of uncorrelated columns is joined under the penalty by noise.
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class GraphicalLasso:
    """A sparse inverse of the correlations.

    Attributes
    ----------
    names : tuple of str
        The d columns.
    precision : ndarray of shape (d, d), float64
        Of standardised columns. Zero where two columns say nothing of each other, given the others.
    correlation : ndarray of shape (d, d), float64
        Its inverse: the correlations, shrunk.
    alpha : float
        The penalty.
    edge : float
        The largest correlation that noise and sampling make of columns without any, with
        probability 95 %: under a smaller penalty they alone may join columns.
    covariance : Covariance
        What they were computed from.
    release : Release
    """

    names: tuple[str, ...]
    precision: Matrix
    correlation: Matrix
    alpha: float
    edge: float
    covariance: Covariance = field(repr=False)
    release: ReleaseRecord = field(repr=False)

    @property
    def partial_correlations(self) -> Matrix:
        """Correlations of pairs given all others, shape (d, d)."""
        size = np.sqrt(self.precision.diagonal())
        found: Matrix = -self.precision / np.outer(size, size)
        np.fill_diagonal(found, 1.0)
        return found

    @property
    def edges(self) -> list[tuple[str, str, float]]:
        """Pairs of columns that are joined, with partial correlations, the strongest first."""
        partial = self.partial_correlations
        pairs = [
            (self.names[i], self.names[j], float(partial[i, j]))
            for i, j in np.argwhere(np.triu(self.precision != 0, 1)).tolist()
        ]
        return sorted(pairs, key=lambda pair: -abs(pair[2]))

    def __str__(self) -> str:
        found = [f"{shown(a)} - {shown(b)}: {partial:.3f}" for a, b, partial in self.edges]
        below = f"Under a penalty of {self.edge:.3g} noise and sampling alone may join columns."
        return "\n".join([*(found or ["no edges"]), *([below] if self.alpha < self.edge else [])])

    def __repr__(self) -> str:
        return f"<GraphicalLasso: {len(self.edges)} edges between {len(self.names)} columns>"


def graphical_lasso(
    release: ReleaseRecord,
    columns: Sequence[str] | None = None,
    *,
    alpha: float | Literal["noise"] = "noise",
) -> GraphicalLasso:
    """Sparse inverse covariance by scikit-learn's graphical lasso [1]_ (extra `sklearn`).

    Parameters
    ----------
    release : Release
        With an intercept or all levels of a factor.
    columns : sequence of str, optional
        All but the intercept by default.
    alpha : float or "noise"
        Penalty on the entries off the diagonal of the inverse of the correlations, > 0. "noise" is
        the `edge` of the result [2]_: what is joined then is hardly noise.

    Returns
    -------
    GraphicalLasso

    Raises
    ------
    RefusedError
        A ValueError: if noise hides a variance, or drowns all correlations.
    ValueError
        If `alpha` is not positive, or there is no intercept.
    ImportError
        Without scikit-learn: ``pip install "privgram[sklearn]"``.

    Notes
    -----
    Where noise leaves correlations with eigenvalues that are not positive, the nearest ones
    without are taken: the penalty needs no inverse.

    References
    ----------
    .. [1] J. Friedman, T. Hastie, R. Tibshirani, "Sparse inverse covariance estimation with the
       graphical lasso", Biostatistics 9, 2008.
    .. [2] O. Banerjee, L. El Ghaoui, A. d'Aspremont, "Model selection through sparse maximum
       likelihood estimation", JMLR 9, 2008: a penalty by the largest correlation of noise.
    """
    with extra("sklearn", "the graphical lasso needs"):
        from sklearn.covariance import graphical_lasso as solve
    variables = Variables(release, columns, center=True)
    if len(variables.names) < 2:
        raise ValueError("a graph takes two columns at least")
    covariance = variables.covariance
    correlation = covariance.correlation
    if isinstance(alpha, str) and alpha != "noise":
        raise ValueError(f"alpha must be a number or 'noise', not {alpha!r}")
    null = variables.unrelated(draws_of(variables))
    largest = [float(np.abs(np.triu(one, 1)).max()) for one in null]
    edge = float(np.quantile(largest, CONFIDENCE, method="higher")) if largest else 1.0
    if edge >= 1:
        raise RefusedError(
            "the noise drowns all correlations: take fewer columns, or release with more epsilon"
        )
    alpha = edge if isinstance(alpha, str) else check_positive(alpha, "alpha")
    values, vectors = np.linalg.eigh(correlation)
    if values[0] <= 0:
        nearest = (vectors * np.maximum(values, 1e-6)) @ vectors.T
        size = np.sqrt(nearest.diagonal())
        correlation = nearest / np.outer(size, size)
    shrunk, precision = solve(correlation, alpha, tol=1e-5, enet_tol=1e-8, max_iter=1000)
    return GraphicalLasso(variables.names, precision, shrunk, alpha, edge, covariance, release)
