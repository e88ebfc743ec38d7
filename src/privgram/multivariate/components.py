"""Principal components of a release: of second moments, covariances or correlations."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from privgram._base.numbers import Matrix, Vector, check_integer, check_one_of
from privgram._base.text import Printed, as_frame, as_text, level_text
from privgram.multivariate.variables import (
    Covariance,
    NewRows,
    Variables,
    draws_of,
    of_draws,
)
from privgram.regression import RefusedError
from privgram.regression.inference import level_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pandas import DataFrame

    from privgram.releases.record import ReleaseRecord

Units = Literal["bounds", "own"]


@dataclass(frozen=True, eq=False, repr=False)
class PCA(Printed):
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
    scale : ndarray of shape (d,), float64
        What a column's deviation from the mean is divided by: its standard deviation, if
        standardised, else 1.
    eigenvalues : ndarray of shape (d,), float64
        All of them, falling.
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

        Standardised, the correlations of columns and scores. NaN where the number of rows is
        unknown.
        """
        return self.components_.T * np.sqrt(self._variables.variances(self.explained_variance_))

    @property
    def release(self) -> ReleaseRecord:
        """The release that they were computed from."""
        return self._variables.release

    @cached_property
    def stderr(self) -> Matrix:
        """Standard errors of `components_` from sampling and privacy noise, by simulation.

        `RefusedError` where the number of rows is unknown, or the noise is too large.
        """
        return self._errors(sampling=True)

    @cached_property
    def noise_stderr(self) -> Matrix:
        """As `stderr`, from privacy noise alone: about these rows, of which it assumes nothing."""
        return self._errors(sampling=False)

    def _errors(self, sampling: bool) -> Matrix:
        draws = self._variables.redrawn(draws_of(self._variables), sampling=sampling)
        return np.asarray(np.std(of_draws(draws, self._again), axis=0))

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

    def frame(self) -> DataFrame:
        """The components as columns of a data frame (needs pandas), with a row for each name."""
        return as_frame(_numbered("component", self.components_), self.names)

    def __repr__(self) -> str:  # its text takes simulation
        return f"<PCA of {len(self.names)} columns>"

    def _repr_html_(self) -> str | None:
        try:
            return super()._repr_html_()
        except RefusedError:  # then a notebook takes the text
            return None

    def __str__(self) -> str:
        explained = np.array([self.explained_variance_, self.explained_variance_ratio_]).T
        columns = _numbered("component", np.hstack([self.components_, explained]))
        beyond = " and sampling" if self.of_correlations else ""
        below = [
            f"{self.n_clear} of {len(self.names)} eigenvalues exceed what noise{beyond} may make "
            f"({level_text(self.alpha)})."
        ]
        if np.isnan(self.explained_variance_ratio_).any():
            below.append("Noise leaves no positive sum of eigenvalues: parts of it are unknown.")
        return as_text([*self.names, "explained variance", "part of the whole"], columns, *below)


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
    About the mean means of the matrix C = G - g g^T / c, with g the intercept's column and c the
    number of rows where it is public and complete, else the intercept's own entry; of a factor's
    levels the sums of theirs. To first order the noise of C is F N F^T, F = [I, -g / c].

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
        check_one_of(units, "units", get_args(Units))
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
