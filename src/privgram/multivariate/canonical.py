"""Canonical correlations between two sets of released columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.checks import check_integer, check_within
from privgram._base.frames import as_frame, as_text
from privgram._base.text import shown
from privgram.multivariate.redrawn import definite, draws_of, of_draws
from privgram.multivariate.variables import Covariance, Variables
from privgram.regression import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privgram._base.arrays import Matrix, Vector
    from privgram._release.record import ReleaseRecord


@dataclass(frozen=True, eq=False)
class CCA:
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
    """

    x_names: tuple[str, ...]
    y_names: tuple[str, ...]
    correlations: Vector
    x_weights: Matrix
    y_weights: Matrix
    release: ReleaseRecord = field(repr=False)
    _variables: Variables = field(repr=False)

    @cached_property
    def stderr(self) -> Vector:
        """Standard errors of `correlations`, from sampling and privacy noise, as `PCA.stderr`."""
        return self._errors(sampling=True)

    @cached_property
    def noise_stderr(self) -> Vector:
        """The same from privacy noise alone: about these rows, of which it assumes nothing."""
        return self._errors(sampling=False)

    def _errors(self, sampling: bool) -> Vector:
        p, k = len(self.x_names), len(self.correlations)
        draws = self._variables.redrawn(draws_of(self._variables), sampling=sampling)
        return np.asarray(np.std(of_draws(draws, lambda one: _canonical(one, p, k)[0]), axis=0))

    def edge(self, confidence: float = 0.95) -> float:
        """What the largest correlation would be of sets that say nothing of each other.

        Its quantile over draws of noise and of normal rows. A correlation below it may be both
        alone. 1 where noise may make any.

        Parameters
        ----------
        confidence : float
            In (0, 1).
        """
        confidence = check_within(confidence, "confidence", 0, 1)
        p = len(self.x_names)
        released = self._variables.covariance
        apart = released.scatter.copy()
        apart[:p, p:] = apart[p:, :p] = 0.0
        found = []
        draws = draws_of(self._variables)
        for one in self._variables.redrawn(draws, sampling=True, null=apart):
            try:
                found.append(_canonical(one, p, 1)[0][0])
            except RefusedError:
                found.append(1.0)
        return float(np.quantile(found, confidence, method="higher"))

    def transform(self, table: Any) -> tuple[Matrix, Matrix]:
        """Scores of new rows on both sides, of shape (m, k) each; SECRET, if the table is."""
        p = len(self.x_names)
        rows = self._variables.encode(table) - self._variables.covariance.mean
        return rows[:, :p] @ self.x_weights, rows[:, p:] @ self.y_weights

    @property
    def _table(self) -> dict[str, Vector]:
        return {"correlation": self.correlations, "std err": self.stderr}

    def frame(self) -> Any:
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

    def __repr__(self) -> str:
        return f"<CCA: {len(self.x_names)} with {len(self.y_names)} columns>"


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
    return CCA(tuple(x), tuple(y), values, left * signs, right * signs, release, variables)


def _canonical(one: Covariance, p: int, k: int) -> tuple[Vector, Matrix, Matrix]:
    """Correlations and weights: of the singular values of L_x^{-1} S_xy L_y^{-T}."""
    one.check_definite()
    matrix = one.matrix
    left, right = np.linalg.cholesky(matrix[:p, :p]), np.linalg.cholesky(matrix[p:, p:])
    half = np.linalg.solve(left, np.linalg.solve(right, matrix[p:, :p]).T)
    u, values, v = np.linalg.svd(half)
    return values[:k], np.linalg.solve(left.T, u[:, :k]), np.linalg.solve(right.T, v[:k].T)
