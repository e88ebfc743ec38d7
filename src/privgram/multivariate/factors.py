"""Factor analysis of a release by maximum likelihood."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privgram._base.checks import check_integer
from privgram._base.frames import as_frame, as_text
from privgram.multivariate.components import upright
from privgram.multivariate.redrawn import definite, of_draws
from privgram.multivariate.variables import DRAWS, Covariance, Variables
from privgram.regression import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privgram._base.arrays import Matrix, Vector
    from privgram._release.record import ReleaseRecord


#: Least part of a column's variance that is its own: the likelihood may have none.
LEAST = 0.005


@dataclass(frozen=True, eq=False)
class FactorAnalysis:
    """Common factors behind correlated columns.

    Attributes
    ----------
    names : tuple of str
        The d columns.
    loadings : ndarray of shape (d, k), float64
        Of standardised columns on uncorrelated factors of variance 1: their correlations. The
        factors by falling sum of squares, the largest loading of each positive.
    uniquenesses : ndarray of shape (d,), float64
        The part of each column's variance that is its own, in [0.005, 1].
    rotation : {"varimax", "none"}
    covariance : Covariance
        What they were computed from.
    release : Release
    """

    names: tuple[str, ...]
    loadings: Matrix
    uniquenesses: Vector
    rotation: str
    covariance: Covariance = field(repr=False)
    release: ReleaseRecord = field(repr=False)
    _variables: Variables = field(repr=False)

    @property
    def communalities(self) -> Vector:
        """The part of each column's variance that the factors explain."""
        return 1 - self.uniquenesses

    @property
    def explained_variance_ratio(self) -> Vector:
        """The part of all variance that each factor explains, shape (k,)."""
        found: Vector = (self.loadings**2).mean(axis=0)
        return found

    @property
    def implied_correlation(self) -> Matrix:
        """The correlations that the factors and the columns' own parts make."""
        return self.loadings @ self.loadings.T + np.diag(self.uniquenesses)

    @cached_property
    def stderr(self) -> Matrix:
        """Standard errors of `loadings`, shape (d, k), from sampling and privacy noise.

        By simulation, as `PCA.stderr`; every draw's factors are turned towards these.
        """
        return self._errors(sampling=True)

    @cached_property
    def noise_stderr(self) -> Matrix:
        """The same from privacy noise alone: about these rows, of which it assumes nothing."""
        return self._errors(sampling=False)

    def _errors(self, sampling: bool) -> Matrix:
        k = self.loadings.shape[1]

        def again(one: Covariance) -> Matrix:
            one.check_definite()
            found = _likeliest(one.correlation, k)[0]
            left, _, right = np.linalg.svd(found.T @ self.loadings)
            turned: Matrix = found @ left @ right
            return turned

        draws = self._variables.redrawn(2 * DRAWS, sampling=sampling)  # each takes long
        return np.asarray(np.std(of_draws(draws, again), axis=0))

    def transform(self, table: Any) -> Matrix:
        """Factor scores of new rows, by regression (Thomson): the expected factors.

        Parameters
        ----------
        table : DataFrame, mapping of str to array_like, or array_like of shape (m, d)
            In own units.

        Returns
        -------
        ndarray of shape (m, k), float64
            SECRET, if the table is.
        """
        rows = (self._variables.encode(table) - self.covariance.mean) / self.covariance.std
        return rows @ np.linalg.solve(self.implied_correlation, self.loadings)

    @property
    def _table(self) -> dict[str, Vector]:
        found = {f"factor {number}": row for number, row in enumerate(self.loadings.T, 1)}
        return found | {"uniqueness": self.uniquenesses}

    def frame(self) -> Any:
        """Loadings and uniquenesses as a data frame (needs pandas), with a row for each name."""
        return as_frame(self._table, self.names)

    def __str__(self) -> str:
        parts = ", ".join(f"{part:.1%}" for part in self.explained_variance_ratio)
        return as_text(self.names, self._table, f"Factors explain {parts} of all variance.")

    def __repr__(self) -> str:
        return f"<FactorAnalysis: {self.loadings.shape[1]} factors of {len(self.names)} columns>"


def factor_analysis(
    release: ReleaseRecord,
    n_factors: int,
    columns: Sequence[str] | None = None,
    *,
    rotation: Literal["varimax", "none"] = "varimax",
) -> FactorAnalysis:
    """Maximum-likelihood factor analysis of released columns.

    Parameters
    ----------
    release : Release
        With an intercept or all levels of a factor.
    n_factors : int
        k, so that (d - k)^2 >= d + k: more have no one solution.
    columns : sequence of str, optional
        The d columns; all but the intercept by default. All levels of a factor depend on each
        other, and are refused.
    rotation : {"varimax", "none"}
        "varimax" [2]_ turns the factors to few large loadings. "none" leaves the axes along which
        the likelihood's matrix is diagonal.

    Returns
    -------
    FactorAnalysis

    Raises
    ------
    RefusedError
        A ValueError: if noise hides a variance or leaves correlations that are not positive
        definite, or would in more than half of the releases that might have come instead.
    ValueError
        If `n_factors` is too large, or there is no intercept.

    Notes
    -----
    The likelihood is that of normal rows [1]_; the noise is not in it, since it is far smaller
    where correlations are positive definite, but it is in `FactorAnalysis.stderr`.
    The shape of the likelihood ratio's law under noise is unknown, so there is no test of k; the
    edge of `pca(standardize=True)` says how many are there.

    References
    ----------
    .. [1] K. G. Jöreskog, "Some contributions to maximum likelihood factor analysis",
       Psychometrika 32, 1967.
    .. [2] H. F. Kaiser, "The varimax criterion for analytic rotation in factor analysis",
       Psychometrika 23, 1958.
    """
    if rotation not in ("varimax", "none"):
        raise ValueError(f"rotation is 'varimax' or 'none', not {rotation!r}")
    variables = Variables(release, columns, center=True)
    d = len(variables.names)
    k = check_integer(n_factors, "n_factors", 1)
    if (d - k) ** 2 < d + k or k >= d:
        most = max((j for j in range(1, d) if (d - j) ** 2 >= d + j), default=0)
        raise ValueError(
            f"{k} factors of {d} columns have no one solution: take {most} at most"
            if most
            else "factors need three columns at least"
        )
    covariance = definite(variables)
    loadings, unique = _likeliest(covariance.correlation, k)
    if rotation == "varimax" and k > 1:
        loadings = varimax(loadings)
    order = np.argsort(-(loadings**2).sum(axis=0))
    return FactorAnalysis(
        names=variables.names,
        loadings=upright(loadings[:, order].T).T,
        uniquenesses=unique,
        rotation=rotation,
        covariance=covariance,
        release=release,
        _variables=variables,
    )


def varimax(loadings: Matrix) -> Matrix:
    """Loadings (d, k) turned so that the variance of their squares is largest.

    Rows are scaled to length one first, as Kaiser does.
    """
    lengths = np.sqrt((loadings**2).sum(axis=1))[:, None]
    rows = loadings / np.where(lengths > 0, lengths, 1.0)
    d = len(rows)
    # Kaiser's angles of two axes at a time, each the best.
    for _ in range(1000):
        largest = 0.0
        for i, j in combinations(range(rows.shape[1]), 2):
            x, y = rows[:, i].copy(), rows[:, j].copy()
            u, v = x**2 - y**2, 2 * x * y
            across = 2 * (u @ v) - 2 * u.sum() * v.sum() / d
            along = u @ u - v @ v - (u.sum() ** 2 - v.sum() ** 2) / d
            angle = math.atan2(across, along) / 4
            largest = max(largest, abs(angle))
            rows[:, i] = math.cos(angle) * x + math.sin(angle) * y
            rows[:, j] = math.cos(angle) * y - math.sin(angle) * x
        if largest < 1e-9:
            break
    found: Matrix = rows * lengths
    return found


def _likeliest(correlation: Matrix, k: int) -> tuple[Matrix, Vector]:
    """Loadings and uniquenesses of the largest likelihood.

    Given the uniquenesses u the best loadings are those of the k leading eigenvectors of
    D R D, D = diag(u)^{-1/2}; what is left is minimised over u.
    """
    from scipy.optimize import minimize

    def parts(unique: Vector) -> tuple[Vector, Matrix]:
        root = np.sqrt(unique)
        values, vectors = np.linalg.eigh(correlation / np.outer(root, root))
        size = np.sqrt(np.maximum(values[: -k - 1 : -1] - 1, 0.0))
        return values[:-k], root[:, None] * vectors[:, : -k - 1 : -1] * size

    def cost(unique: Vector) -> tuple[float, Vector]:
        left, loadings = parts(unique)
        implied = (loadings**2).sum(axis=1) + unique - correlation.diagonal()
        return float((left - np.log(left) - 1).sum()), implied / unique**2

    # A column's variance that the others do not explain, and part of the rest.
    start = (1 - 0.5 * k / len(correlation)) / np.linalg.inv(correlation).diagonal()
    solved = minimize(
        cost,
        start.clip(LEAST, 1.0),
        jac=True,
        method="L-BFGS-B",
        bounds=[(LEAST, 1.0)] * len(correlation),
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 2000},
    )
    if not np.isfinite(solved.fun):
        raise RefusedError("the likelihood has no maximum: take fewer factors")
    return parts(solved.x)[1], np.asarray(solved.x)
