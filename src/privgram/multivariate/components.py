"""Principal components and factors of a release: of second moments, covariances or correlations."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from privgram._base.installed import LazyModule
from privgram._base.numbers import Matrix, Vector, check_integer, check_one_of
from privgram._base.text import as_frame, as_text
from privgram.multivariate.variables import (
    ERROR_DRAWS,
    Covariance,
    NewRows,
    Simulated,
    Variables,
    definite,
    draws_of,
)
from privgram.regression import RefusedError
from privgram.regression.inference import level_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pandas import DataFrame

    from privgram.plots import of_results
    from privgram.releases.record import ReleaseRecord
else:
    of_results = LazyModule("privgram.plots.of_results")

Units = Literal["bounds", "own"]

#: Least part of a column's variance that is its own: the likelihood may have none.
LEAST_UNIQUENESS = 0.005


@dataclass(frozen=True, eq=False, repr=False)
class PCA(Simulated):
    """Leading eigenvectors of a released second moment, about the mean where it is released.

    Attributes
    ----------
    names : tuple of str
        The d columns, without the intercept; of a factor every level is one.
    components_ : ndarray of shape (k, d), float64
        Orthonormal rows, by falling eigenvalue; the largest entry of each is positive.
    explained_variance_ : ndarray of shape (k,), float64
        Their eigenvalues, the known shift of the mechanism removed. Of the correlation matrix if
        standardised; of the covariance matrix in own units; in the scale of the bounds of the
        released matrix itself: sums over rows.
    explained_variance_ratio_ : ndarray of shape (k,), float64
        The same as parts of the trace; NaN where noise leaves no positive one.
    gap : float
        Between the released eigenvalues k and k + 1; infinite for k = d.
    alpha : float
        Probability that `error_bound` or `edge` is too small.
    mean_ : ndarray of shape (d,), float64, or None
        What the components are about: in own units if they are, or standardised, else in the
        scale of the released matrix; None for zero.
    release : Release
        What they were computed from.
    scale : ndarray of shape (d,), float64
        What a column's deviation from the mean is divided by: its standard deviation, if
        standardised, else 1.
    eigenvalues : ndarray of shape (d,), float64
        All of them, falling.
    stderr, noise_stderr : ndarray of shape (k, d), float64
        Standard errors of `components_`.
    """

    names: tuple[str, ...]
    components_: Matrix
    explained_variance_: Vector
    explained_variance_ratio_: Vector
    gap: float
    alpha: float
    mean_: Vector | None
    scale: Vector = field(repr=False)
    eigenvalues: Vector = field(repr=False)
    _variables: _Decomposed = field(repr=False)

    @cached_property
    def error_bound(self) -> float:
        """How far this subspace may be from that of the exact matrix.

        Bound on the Frobenius distance between the orthogonal projections on the two, with
        probability at least 1 - `alpha`; at most sqrt(2 k), which tells nothing.
        Simulated when first asked for, which takes a second at d = 100.
        """
        k, d = self.components_.shape
        if k == d:
            return 0.0
        trivial = math.sqrt(2 * min(k, d - k))
        spectral, frobenius = self._variables.noise_norms(self.alpha)
        bound = 2 * math.sqrt(2 * k) * spectral / self.gap if self.gap > 0 else math.inf
        if frobenius <= self.gap / 4:
            bound = min(bound, 2 * frobenius / self.gap)
        return min(float(bound), trivial)

    @cached_property
    def edge(self) -> Vector:
        """What eigenvalues would be without any structure, by rank, shape (d,) float64.

        Of a second moment or covariance the quantile of the noise's spectral norm, by Weyl's
        inequality the farthest that any eigenvalue is from the exact one. Of correlations
        the quantile, by rank, that noise and sampling make of columns without any: the parallel
        analysis of Horn [1]_, by the law of the noise.

        References
        ----------
        .. [1] J. L. Horn, "A rationale and test for the number of factors in factor analysis",
           Psychometrika 30, 1965.
        """
        return self._variables.edge(self.alpha)

    @property
    def n_components_(self) -> int:
        """How many there are, k."""
        return len(self.components_)

    @property
    def n_clear(self) -> int:
        """Leading components whose eigenvalues exceed the `edge`."""
        return _clear(self.eigenvalues, self.edge)

    @property
    def of_correlations(self) -> bool:
        """Whether columns were standardised."""
        return self._variables.standardize

    @property
    def loadings(self) -> Matrix:
        """Components times the standard deviations of their scores, shape (d, k).

        Standardised, the correlations of columns and scores.
        """
        return self.components_.T * np.sqrt(self._variables.variances(self.explained_variance_))

    def _again(self, one: Covariance) -> Matrix:
        components = _leading(self._variables.matrix(one), self.n_components_)[1]
        signs: Matrix = np.sign((components * self.components_).sum(axis=1))[:, None]
        return components * signs

    def transform(self, table: NewRows) -> Matrix:
        """Scores of new rows, shape (m, k), of a table as `Variables.encode` takes it.

        NaN where a value is missing. SECRET, if the table is.
        """
        rows = self._variables.encode(table)
        if not self._variables.in_own_units:
            rows = (rows - self._variables.origin) / self._variables.unit
        if self.mean_ is not None:
            rows = rows - self.mean_
        return rows / self.scale @ self.components_.T

    plot = of_results.plot_biplot
    plot_scree = of_results.plot_scree

    def frame(self) -> DataFrame:
        """The components as columns of a data frame (needs pandas), with a row for each name."""
        return as_frame(_numbered("component", self.components_), self.names)

    def __str__(self) -> str:
        below = np.array([self.explained_variance_, self.explained_variance_ratio_]).T
        columns = _numbered("component", np.hstack([self.components_, below]))
        beyond = " and sampling" if self.of_correlations else ""
        return as_text(
            [*self.names, "explained variance", "part of the whole"],
            columns,
            f"{self.n_clear} of {len(self.names)} eigenvalues exceed what noise{beyond} may make "
            f"({1 - self.alpha:.0%}).",
        )


def pca(
    release: ReleaseRecord,
    n_components: int | Literal["auto"] | None = None,
    alpha: float = 0.05,
    *,
    center: bool | None = None,
    standardize: bool = False,
    units: Units = "bounds",
    columns: Sequence[str] | None = None,
) -> PCA:
    """Principal components of a release.

    Parameters
    ----------
    release : Release
    n_components : int or "auto", optional
        k, from 1 to d; all by default. "auto" takes those whose eigenvalues exceed the edge
        (`PCA.edge`), and at least one.
    alpha : float, default 0.05
        Probability that the error bound or the edge is too small, in (0, 0.5].
    center : bool, optional
        Whether they are about the columns' mean, which only a release with an intercept or with
        all levels of a factor holds, or about zero, where `Columns` put the middle of the
        bounds. By default about the mean where there is one. The intercept is never one of the d
        columns.
    standardize : bool, default False
        Whether every column is divided by its standard deviation first: components of
        correlations. About zero, by the root of its mean square.
    units : {"bounds", "own"}
        Of columns that are not standardised: mapped to [-1, 1] by their bounds, as released, or
        in their own units, in which one of large numbers outweighs the others.
    columns : sequence of str, optional
        Released columns to take; all but the intercept by default.

    Returns
    -------
    PCA

    Raises
    ------
    ValueError
        If `n_components` or `alpha` is out of its range, if there is no column but the
        intercept, or no intercept to centre by.
    RefusedError
        A ValueError: if the noise hides the variance of a column that is to be standardised, or
        the number of rows in own units.

    Notes
    -----
    A factor's levels are columns of 0 and 1 (times the term's weight), beside numbers that are
    mapped to [-1, 1]. About the mean they depend on each other, and one eigenvalue a factor
    is about zero.

    About the mean means of the matrix C = G - g g^T / c, with g the intercept's column, c the
    number of rows where it is public and complete and else the intercept's own entry.
    Where levels sum to the intercept, g and c are the sums of theirs.
    The noise in g and c is noise in C too: with m = g / c it is F N F^T to first order,
    F = [I, -m]: of isotropic noise up to ``(1 + |m|^2)^2`` times the variance.

    With N the noise (of C, if centred) and gap that between the released eigenvalues k and k + 1,
    the projections differ by at most 2 sqrt(2 k) ||N|| / gap [1]_ (Theorem 2, the
    released matrix in the role of the reference) and, where ||N||_F <= gap / 4,
    by at most 2 ||N||_F / gap [2]_ (Theorem 3). The norms' quantiles come from
    simulating the noise's own law, which is public, at the released matrix.

    References
    ----------
    .. [1] Yu, Wang, Samworth, "A useful variant of the Davis-Kahan theorem for
       statisticians", Biometrika 102, 2015.
    .. [2] Zwald, Blanchard, "On the convergence of eigenspaces in kernel
       principal component analysis", NIPS 2005.
    """
    level_of(alpha)  # which checks it
    of = _Decomposed(release, columns, center, standardize, units)
    matrix = of.matrix(of.covariance)
    d = len(matrix)
    values, vectors = _leading(matrix, d)
    if n_components == "auto":
        k = max(_clear(values, of.edge(alpha)), 1)
    else:
        k = d if n_components is None else check_integer(n_components, "n_components", 1, d)
    trace = values.sum()
    return PCA(
        names=of.names,
        components_=vectors[:k],
        explained_variance_=values[:k],
        explained_variance_ratio_=values[:k] / (trace if trace > 0 else math.nan),
        gap=float(values[k - 1] - values[k]) if k < d else math.inf,
        alpha=alpha,
        mean_=of.mean if of.center else None,
        scale=of.covariance.std if standardize else np.ones(d),
        eigenvalues=values,
        _variables=of,
    )


class _Decomposed(Variables):
    """Variables, and which of their matrices is decomposed."""

    def __init__(
        self,
        release: ReleaseRecord,
        columns: Sequence[str] | None,
        center: bool | None,
        standardize: bool,
        units: Units,
    ) -> None:
        if not isinstance(standardize, (bool, np.bool_)):
            raise TypeError("standardize is True or False")
        if units not in ("bounds", "own"):
            raise ValueError(f"units are 'bounds' or 'own', not {units!r}")
        super().__init__(release, columns, center)
        self.standardize, self.units = standardize, units

    @property
    def mean(self) -> Vector:
        """In the scale in which columns are decomposed."""
        if self.in_own_units:
            return self.covariance.mean
        return (self.covariance.mean - self.origin) / self.unit

    def matrix(self, one: Covariance) -> Matrix:
        if self.standardize:
            return one.correlation
        if self.units == "own":
            return one.matrix
        return one.scatter / self.squares

    def variances(self, values: Vector) -> Vector:
        """Variances of scores; NaN where the number of rows is unknown."""
        return np.maximum(values, 0.0) / (1.0 if self.in_own_units else self.covariance.divisor)

    @property
    def in_own_units(self) -> bool:
        """Whether columns are decomposed in own units, or from them."""
        return self.standardize or self.units == "own"

    def noise_norms(self, alpha: float) -> tuple[float, float]:
        """Quantiles of the noise's spectral and Frobenius norms under its own law."""
        exact, release = self.matrix(self.covariance), self.release
        norms = []
        for one in self.redrawn(max(40, min(1000, 20_000 // release.n_columns))):
            try:
                values = np.linalg.eigvalsh(self.matrix(one) - exact)
            except RefusedError:  # where the noise hides a variance it may do anything
                norms.append((math.inf, math.inf))
                continue
            norms.append((float(np.abs(values[[0, -1]]).max()), float(np.linalg.norm(values))))
        spectral, frobenius = np.quantile(norms, 1 - alpha, axis=0, method="higher")
        # The nearest feasible matrix is no farther in Frobenius norm, and at most twice as far in
        # the spectral norm (docs/theory/analyze-gauss.md).
        return float(spectral * (2 if release.parameters.get("moved") else 1)), float(frobenius)

    def edge(self, alpha: float) -> Vector:
        d = len(self.names)
        if not self.standardize:
            return np.full(d, self.noise_norms(alpha)[0])
        draws = draws_of(self)
        null = [np.linalg.eigvalsh(one)[::-1] for one in self.unrelated(draws)]
        if not null:
            raise RefusedError("the noise hides the variances")
        return np.asarray(np.quantile(null, 1 - alpha, axis=0, method="higher"))


def _numbered(kind: str, rows: Matrix) -> dict[str, Vector]:
    return {f"{kind} {number}": row for number, row in enumerate(rows, 1)}


def _leading(matrix: Matrix, k: int) -> tuple[Vector, Matrix]:
    """The k largest eigenvalues, falling, and their eigenvectors as upright rows."""
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1][:k], _upright(vectors[:, ::-1][:, :k].T)


def _upright(components: Matrix) -> Matrix:
    """The rows with signs that make the largest entry of each positive."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return np.asarray(components * signs[:, None])


def _clear(values: Vector, edge: Vector) -> int:
    """How many of the leading values exceed their edge."""
    return int(np.append(values > edge, False).argmin())


@dataclass(frozen=True, eq=False, repr=False)
class FactorAnalysis(Simulated):
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
    release : Release
    stderr, noise_stderr : ndarray of shape (d, k), float64
        Standard errors of `loadings`; every draw's factors are turned towards these.
    """

    names: tuple[str, ...]
    loadings: Matrix
    uniquenesses: Vector
    rotation: str
    _variables: Variables = field(repr=False)

    @property
    def covariance(self) -> Covariance:
        """What they were computed from."""
        return self._variables.covariance

    @property
    def communalities(self) -> Vector:
        """The part of each column's variance that the factors explain."""
        return 1 - self.uniquenesses

    @property
    def explained_variance_ratio(self) -> Vector:
        """The part of all variance that each factor explains, shape (k,)."""
        return np.asarray((self.loadings**2).mean(axis=0))

    @property
    def implied_correlation(self) -> Matrix:
        """The correlations that the factors and the columns' own parts make."""
        return self.loadings @ self.loadings.T + np.diag(self.uniquenesses)

    @property
    def _draws(self) -> int:
        return 2 * ERROR_DRAWS  # each takes long

    def _again(self, one: Covariance) -> Matrix:
        one.check_definite()
        loadings = _likeliest(one.correlation, self.loadings.shape[1])[0]
        left, _, right = np.linalg.svd(loadings.T @ self.loadings)
        return np.asarray(loadings @ left @ right)

    def transform(self, table: NewRows) -> Matrix:
        """Factor scores of new rows, by regression (Thomson): the expected factors, shape (m, k).

        Of a table as `Variables.encode` takes it. SECRET, if the table is.
        """
        rows = (self._variables.encode(table) - self.covariance.mean) / self.covariance.std
        return rows @ np.linalg.solve(self.implied_correlation, self.loadings)

    @property
    def _table(self) -> dict[str, Vector]:
        return _numbered("factor", self.loadings.T) | {"uniqueness": self.uniquenesses}

    def frame(self) -> DataFrame:
        """Loadings and uniquenesses as a data frame (needs pandas), with a row for each name."""
        return as_frame(self._table, self.names)

    def __str__(self) -> str:
        parts = ", ".join(f"{part:.1%}" for part in self.explained_variance_ratio)
        return as_text(self.names, self._table, f"Factors explain {parts} of all variance.")


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
    check_one_of(rotation, "rotation", ("varimax", "none"))
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
        loadings=_upright(loadings[:, order].T).T,
        uniquenesses=unique,
        rotation=rotation,
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
    return np.asarray(rows * lengths)


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
        start.clip(LEAST_UNIQUENESS, 1.0),
        jac=True,
        method="L-BFGS-B",
        bounds=[(LEAST_UNIQUENESS, 1.0)] * len(correlation),
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 2000},
    )
    if not np.isfinite(solved.fun):
        raise RefusedError("the likelihood has no maximum: take fewer factors")
    return parts(solved.x)[1], np.asarray(solved.x)
