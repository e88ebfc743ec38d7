"""How columns go together: canonical correlations, discriminants, sparse inverse covariance."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from privgram._base.installed import extra
from privgram._base.numbers import Matrix, Vector, check_integer, check_positive
from privgram._base.text import Printed, as_frame, as_text, shown
from privgram.columns.variables import Factor, Numeric
from privgram.multivariate.variables import (
    ERROR_DRAWS,
    Covariance,
    NewRows,
    Simulated,
    Variables,
    correlation_of,
    definite,
    draws_of,
    indicators_of,
    of_draws,
    root_of,
    sampling_error,
)
from privgram.regression import RefusedError
from privgram.regression.design import image_of_label
from privgram.regression.inference import level_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pandas import DataFrame

    from privgram.releases.record import ReleaseRecord

#: Probability that noise joins a pair of uncorrelated columns under the penalty.
JOINED = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class CCA(Simulated):
    """The combinations of two sets of columns that are correlated most.

    Attributes
    ----------
    x_names, y_names : tuple of str
        The p and q columns.
    correlations : ndarray of shape (k,), float64
        Falling, in [0, 1).
    x_weights, y_weights : ndarray of shape (p, k) and (q, k), float64
        Per own unit of each column: scores have variance 1. The largest x weight per standard
        deviation of its column is positive.
    release : Release
    stderr, noise_stderr : ndarray of shape (k,), float64
        Standard errors of `correlations`.
    """

    x_names: tuple[str, ...]
    y_names: tuple[str, ...]
    correlations: Vector
    x_weights: Matrix
    y_weights: Matrix
    _variables: Variables = field(repr=False)

    def _again(self, one: Covariance) -> Vector:
        return _canonical(one, len(self.x_names), len(self.correlations))[0]

    def edge(self, alpha: float = 0.05) -> float:
        """What the largest correlation would be of uncorrelated sets.

        Its quantile over draws of noise and of normal rows. A correlation below it may be both
        alone. 1 where noise may make any.

        Parameters
        ----------
        alpha : float, default 0.05
            Probability that noise and sampling exceed it, in (0, 0.5].
        """
        level = level_of(alpha)
        p = len(self.x_names)
        released = self._variables.covariance
        apart = released.scatter.copy()
        apart[:p, p:] = apart[p:, :p] = 0.0
        largest = []
        draws = draws_of(self._variables)
        for one in self._variables.redrawn(draws, sampling=True, null=apart):
            try:
                largest.append(_canonical(one, p, 1)[0][0])
            except RefusedError:
                largest.append(1.0)
        return float(np.quantile(largest, level, method="higher"))

    def transform(self, table: NewRows) -> tuple[Matrix, Matrix]:
        """Scores of new rows on both sides, of shape (m, k) each; SECRET, if the table is."""
        p = len(self.x_names)
        rows = self._variables.encode(table) - self._variables.covariance.mean
        return rows[:, :p] @ self.x_weights, rows[:, p:] @ self.y_weights

    @property
    def _table(self) -> dict[str, Vector]:
        return {"correlation": self.correlations, "std err": self.stderr}

    def frame(self) -> DataFrame:
        """Correlations and standard errors as a data frame (needs pandas), a row for each pair."""
        return as_frame(self._table, self._pairs)

    @property
    def _pairs(self) -> list[str]:
        return [f"pair {number + 1}" for number in range(len(self.correlations))]

    def __str__(self) -> str:
        return as_text(
            self._pairs,
            self._table,
            f"Below {self.edge():.3g} all may be noise and sampling (95%).",
        )


def cca(
    release: ReleaseRecord,
    x: Sequence[str],
    y: Sequence[str],
    n_components: int | None = None,
) -> CCA:
    """Canonical correlations of two sets of released columns [1]_.

    Parameters
    ----------
    release : Release
        With an intercept or all levels of a factor.
    x, y : sequence of str
        The p and q columns, none in both.
    n_components : int, optional
        k, min(p, q) by default.

    Returns
    -------
    CCA

    Raises
    ------
    RefusedError
        A ValueError: if noise leaves the covariance of all columns not positive definite, or would
        in more than half of the releases that might have come instead.
    ValueError
        For an unknown column, one in both sets, too many components, or no intercept.

    References
    ----------
    .. [1] H. Hotelling, "Relations between two sets of variates", Biometrika 28, 1936.
    """
    if isinstance(x, str) or isinstance(y, str):
        raise TypeError("x and y are lists of columns")
    if both := set(x) & set(y):
        raise ValueError(f"{', '.join(map(shown, sorted(both)))} is in both sets")
    variables = Variables(release, [*x, *y], center=True)
    most = min(len(x), len(y))
    if not most:
        raise ValueError("both sets need a column")
    k = most if n_components is None else check_integer(n_components, "n_components", 1, most)
    covariance = definite(variables)
    values, left, right = _canonical(covariance, len(x), k)
    largest = np.abs(left * covariance.std[: len(x), None]).argmax(axis=0)
    signs = np.sign(left[largest, np.arange(k)])
    return CCA(tuple(x), tuple(y), values, left * signs, right * signs, variables)


def _canonical(one: Covariance, p: int, k: int) -> tuple[Vector, Matrix, Matrix]:
    """Correlations and weights: of the singular values of L_x^{-1} S_xy L_y^{-T}."""
    one.check_definite()
    matrix = one.matrix
    left, right = np.linalg.cholesky(matrix[:p, :p]), np.linalg.cholesky(matrix[p:, p:])
    half = np.linalg.solve(left, np.linalg.solve(right, matrix[p:, :p]).T)
    u, values, v = np.linalg.svd(half)
    return values[:k], np.linalg.solve(left.T, u[:, :k]), np.linalg.solve(right.T, v[:k].T)


@dataclass(frozen=True, eq=False, repr=False)
class LDA(Simulated):
    """A rule that tells levels of a factor apart, linear in other columns.

    Attributes
    ----------
    factor : str
    levels : tuple of str
        The K levels.
    names : tuple of str
        The p features.
    priors : ndarray of shape (K,), float64
        Parts of the rows.
    means : ndarray of shape (K, p), float64
        Of the features by level, in own units.
    covariance : ndarray of shape (p, p), float64
        Of the features within levels, pooled: per row, as scikit-learn has it. Others divide by
        rows less K.
    coef : ndarray of shape (K, p), float64
        Of the discriminants, per own unit: of levels' means from that of all rows. The difference
        of two levels' is what tells these two apart.
    intercept : ndarray of shape (K,), float64
    scalings : ndarray of shape (p, min(K - 1, p)), float64
        Canonical directions; scores on them have variance 1 within levels.
    explained_variance_ratio : ndarray of shape (min(K - 1, p),), float64
        What each direction has of the variance between levels, over that within.
    release : Release
    stderr, noise_stderr : ndarray of shape (K, p), float64
        Standard errors of `coef`; rows are normal ones within the levels. Half of what the middle
        68 % of draws span, since a few with a nearly singular covariance would make a standard
        deviation anything.
    """

    factor: str
    levels: tuple[str, ...]
    names: tuple[str, ...]
    priors: Vector
    means: Matrix
    covariance: Matrix
    coef: Matrix
    intercept: Vector
    scalings: Matrix
    explained_variance_ratio: Vector
    _variables: _Split = field(repr=False)

    def _errors(self, sampling: bool) -> Matrix:
        split = self._variables
        draws = split.redrawn_groups(2 * draws_of(split), sampling)  # for quantiles
        coefs = of_draws(draws, lambda groups: groups.rule()[0])
        low, high = np.quantile(coefs, [0.159, 0.841], axis=0)
        return np.asarray((high - low) / 2)

    def decision_function(self, table: NewRows) -> Matrix:
        """Log posteriors of the levels, shape (m, K), but for a constant of each row.

        Of a data frame or a mapping of the features, in own units. SECRET, if the table is.
        """
        return self._variables.features.encode(table) @ self.coef.T + self.intercept

    def predict_proba(self, table: NewRows) -> Matrix:
        """Posterior probabilities of the levels, shape (m, K)."""
        scores = self.decision_function(table)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def predict(self, table: NewRows) -> NDArray[np.str_]:
        """The likeliest level of each row, shape (m,); SECRET, if the table is.

        ValueError where a value is missing: leave out such rows. The other methods give NaN.
        """
        scores = self.decision_function(table)
        if missing := int(np.isnan(scores[:, 0]).sum()):
            raise ValueError(f"{missing} rows lack a value of {', '.join(map(shown, self.names))}")
        likeliest: NDArray[np.str_] = np.array(self.levels)[scores.argmax(axis=1)]
        return likeliest

    def transform(self, table: NewRows) -> Matrix:
        """Scores on the canonical directions, about the mean of all rows."""
        return (
            self._variables.features.encode(table) - self._variables.released.centre
        ) @ self.scalings

    def frame(self) -> DataFrame:
        """`coef` as a data frame (needs pandas), with a row for each feature."""
        return as_frame(self.coef.T, self.names, self.levels)

    def __str__(self) -> str:
        numbers = np.column_stack([self.coef, self.intercept, self.priors])
        return as_text(
            [*self.names, "intercept", "part of the rows"],
            dict(zip(self.levels, numbers, strict=True)),
        )


@dataclass(frozen=True, eq=False)
class _Groups:
    """Numbers of rows by level, and the features' means and pooled sums about them."""

    counts: Vector
    means: Matrix
    within: Matrix

    @property
    def covariance(self) -> Matrix:
        return np.asarray(self.within / max(self.counts.sum(), 1.0))

    @property
    def priors(self) -> Vector:
        return np.asarray(self.counts / self.counts.sum())

    @property
    def centre(self) -> Vector:
        """The mean of all rows."""
        return self.priors @ self.means

    def rule(self) -> tuple[Matrix, Vector]:
        """Coefficients and intercepts."""
        if not (self.counts >= 1).all():
            raise RefusedError(
                "the noise hides a level: merge levels, or release with more epsilon"
            )
        if np.linalg.eigvalsh(self.covariance)[0] <= 0:
            raise RefusedError(
                "the noise exceeds the signal in some direction of the features, or they depend on "
                "each other: take fewer, or release with more epsilon"
            )
        # About the mean of all rows: what levels have in common tells none of them apart, and its
        # error would hide that of what does.
        apart = self.means - self.centre
        coef = np.asarray(np.linalg.solve(self.covariance, apart.T).T, dtype=np.float64)
        return coef, np.log(self.priors) - (coef * (self.means + self.centre)).sum(axis=1) / 2


class _Split(Variables):
    """Features and indicators of the levels, of one release."""

    def __init__(self, release: ReleaseRecord, features: list[str], indicators: list[str]) -> None:
        super().__init__(release, [*features, *indicators], center=False)
        self.features = Variables(release, features, center=False)

    @cached_property
    def released(self) -> _Groups:
        return self.groups(self.about()[2])

    def groups(self, moment: Matrix) -> _Groups:
        """Of the second moment of features and indicators."""
        p = len(self.features.names)
        weight = np.append(np.ones(p), self.unit[p:])
        moment = weight[:, None] * moment * weight
        counts = moment.diagonal()[p:]
        safe = np.maximum(counts, 1.0)
        means = moment[p:, :p] / safe[:, None]
        within = moment[:p, :p] - (means.T * safe) @ means
        unit, origin = self.unit[:p], self.origin[:p]
        return _Groups(counts, origin + unit * means, unit[:, None] * within * unit)

    def redrawn_groups(self, draws: int, sampling: bool) -> Iterator[_Groups]:
        """As other draws of the noise, and other rows, would have made them."""
        rng = np.random.default_rng(0)
        release, released = self.release, self.released
        root = root_of(released.covariance)
        counts = np.maximum(released.counts, 1.0)
        dof = max(round(counts.sum()) - len(counts), 1)
        for _ in range(draws):
            drawn = release.noise.draw(release.matrix, rng)
            noisy = self.groups(self.about(drawn)[2])
            if not sampling:
                yield noisy
                continue
            means = rng.standard_normal(released.means.shape) @ root.T / np.sqrt(counts)[:, None]
            within = noisy.within + dof * sampling_error(root, dof, rng)
            yield _Groups(noisy.counts, noisy.means + means, within)


def lda(release: ReleaseRecord, factor: str, features: Sequence[str] | None = None) -> LDA:
    """Linear discriminant analysis of a factor's levels.

    Parameters
    ----------
    release : Release
        Of `Columns` that describe the factor.
    factor : str
        Whose levels are to be told apart.
    features : sequence of str, optional
        Released columns, or levels of other factors such as "sex[f]" (not all of one); by default
        all numbers that follow from what was released.

    Returns
    -------
    LDA

    Raises
    ------
    RefusedError
        A ValueError: if noise hides a level, or the features' covariance within levels is not
        positive definite, or would not be in more than half of the releases that might have come
        instead.
    ValueError
        If there is no such factor or column.

    Notes
    -----
    Features are taken as normal with one covariance in all levels [1]_. Priors are the levels'
    parts of the rows; for others add the log of their ratio to `decision_function`. Without noise
    all are those of scikit-learn's default solver, which has one row of coefficients for two
    levels, the second's less the first's.

    References
    ----------
    .. [1] R. A. Fisher, "The use of multiple measurements in taxonomic problems", Annals of
       Eugenics 7, 1936.
    """
    variables = release.variables
    described = variables.get(factor)
    if not isinstance(described, Factor):
        factors = [name for name, other in variables.items() if isinstance(other, Factor)]
        raise ValueError(
            f"{factor!r} is not a factor of this release; there are {', '.join(factors) or 'none'}"
        )
    if features is None:
        numbers = [
            other.label(name) for name, other in variables.items() if isinstance(other, Numeric)
        ]
        features = [name for name in numbers if image_of_label(release, name) is not None]
    if isinstance(features, str) or not features:
        raise ValueError("features is a list of columns, at least one")
    indicators = indicators_of(factor, described)
    if targets := [name for name in features if name in indicators]:
        raise ValueError(f"{', '.join(map(shown, targets))} is what the features are to tell")
    split = _Split(release, list(features), indicators)
    groups = split.released
    coef, intercept = groups.rule()
    of_draws(split.redrawn_groups(ERROR_DRAWS, sampling=True), _Groups.rule)
    scalings, ratio = _directions(groups)
    return LDA(
        factor=factor,
        levels=described.names,
        names=tuple(features),
        priors=groups.priors,
        means=groups.means,
        covariance=groups.covariance,
        coef=coef,
        intercept=intercept,
        scalings=scalings,
        explained_variance_ratio=ratio,
        _variables=split,
    )


def _directions(groups: _Groups) -> tuple[Matrix, Vector]:
    """Directions of the largest variance between levels over that within, and their parts."""
    root = np.linalg.cholesky(groups.covariance)
    apart = np.linalg.solve(
        root, ((groups.means - groups.centre) * np.sqrt(groups.priors)[:, None]).T
    )
    left, sizes, _ = np.linalg.svd(apart, full_matrices=False)
    k = min(len(groups.priors) - 1, len(root))
    squares = sizes[:k] ** 2
    return np.linalg.solve(root.T, left[:, :k]), squares / squares.sum()


@dataclass(frozen=True, eq=False)
class GraphicalLasso(Printed):
    """A sparse inverse of the correlations.

    Attributes
    ----------
    names : tuple of str
        The d columns.
    precision : ndarray of shape (d, d), float64
        Of standardised columns. Zero where two columns are uncorrelated, given the others.
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
        return 2 * np.eye(len(self.names)) - correlation_of(self.precision)

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
        pairs = [f"{shown(a)} - {shown(b)}: {partial:.3f}" for a, b, partial in self.edges]
        below = f"Under a penalty of {self.edge:.3g} noise and sampling alone may join columns."
        return "\n".join([*(pairs or ["no edges"]), *([below] if self.alpha < self.edge else [])])

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
    edge = float(np.quantile(largest, 1 - JOINED, method="higher")) if largest else 1.0
    if edge >= 1:
        raise RefusedError(
            "the noise drowns all correlations: take fewer columns, or release with more epsilon"
        )
    alpha = edge if isinstance(alpha, str) else check_positive(alpha, "alpha")
    values, vectors = np.linalg.eigh(correlation)
    if values[0] <= 0:
        correlation = correlation_of((vectors * np.maximum(values, 1e-6)) @ vectors.T)
    shrunk, precision = solve(correlation, alpha, tol=1e-5, enet_tol=1e-8, max_iter=1000)
    return GraphicalLasso(variables.names, precision, shrunk, alpha, edge, covariance, release)
