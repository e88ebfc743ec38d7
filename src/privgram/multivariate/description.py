"""Counts, means, standard deviations and correlations of released columns, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.polynomial import Polynomial

from privgram._base.numbers import Matrix, Vector, check_one_of
from privgram._base.text import Printed, as_frame, as_text, level_text, shown
from privgram.multivariate.variables import (
    CLIPPED,
    Variables,
    check_moved,
    check_unweighted,
    is_clipped,
)
from privgram.regression import RefusedError
from privgram.regression.inference import (
    TRUSTED_COUNT,
    Estimand,
    count_error,
    full_rows,
    hull,
    quantile_of,
    rows_behind,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from pandas import DataFrame

    from privgram.releases.record import ReleaseRecord

#: What intervals of correlations are of; see `correlation`.
CorrelationEstimand = Literal["sample", "normal"]


@dataclass(frozen=True, eq=False, repr=False)
class Description(Printed):
    """Counts, means and standard deviations of p columns, in their own units.

    Attributes
    ----------
    names : tuple of str
    count, count_stderr : float
        Rows without missing values, and the noise in that; 0 where it is public. NaN where it is
        private and rows have weights.
    count_interval : ndarray of shape (2,), float64
        Interval of the number of rows.
    mean, mean_stderr : ndarray of shape (p,), float64
        Means, and their standard errors.
    mean_interval : ndarray of shape (p, 2), float64
        Within the public bounds. NaN, as all errors and intervals but those of the count, where
        adaptive rounds may have clipped too many rows.
    std, std_stderr : ndarray of shape (p,), float64
        Of the rows, with divisor n - 1; NaN where noise hides the variance.
    std_interval : ndarray of shape (p, 2), float64
        Of the rows; from 0 to half the distance of the bounds.
    alpha : float
        1 - level of the intervals.
    estimand : {"population", "sample"}
        Whether errors and intervals of means are about what the rows are a sample of, or about
        the rows.
    bounds : tuple of ndarray of shape (p,)
        Lower and upper public bounds; without `Columns` what a row's bound allows.
    clipped : bool
        Whether adaptive rounds may have clipped too many rows for errors of moments.
    """

    names: tuple[str, ...]
    count: float
    count_stderr: float
    count_interval: Vector
    mean: Vector
    mean_stderr: Vector
    mean_interval: Matrix
    std: Vector
    std_stderr: Vector
    std_interval: Matrix
    alpha: float
    estimand: Estimand
    bounds: tuple[Vector, Vector]
    clipped: bool = False

    @property
    def columns(self) -> dict[str, Vector]:
        """What a table of it shows, by heading."""
        return {
            "count": np.full(len(self.names), self.count),
            "mean": self.mean,
            "std_err": self.mean_stderr,
            "lower_ci": self.mean_interval[:, 0],
            "upper_ci": self.mean_interval[:, 1],
            "std": self.std,
            "std_std_err": self.std_stderr,
            "std_lower_ci": self.std_interval[:, 0],
            "std_upper_ci": self.std_interval[:, 1],
        }

    def frame(self) -> DataFrame:
        """A data frame (needs pandas) with a row for each column."""
        return as_frame(self.columns, self.names)

    def __str__(self) -> str:
        about = "the population" if self.estimand == "population" else "these rows"
        legend = (
            f"{level_text(self.alpha)} intervals of means of {about}, of deviations of these rows."
        )
        gone = [name for name, std in zip(self.names, self.std, strict=True) if math.isnan(std)]
        below = [legend, *_hidden(gone)]
        if self.clipped:
            below.append(f"No errors: {CLIPPED}.")
        return as_text(self.names, self.columns, *below, digits=5)


@dataclass(frozen=True, eq=False, repr=False)
class Correlation(Printed):
    """Correlations of p columns.

    Attributes
    ----------
    names : tuple of str
    matrix : ndarray of shape (p, p), float64
        Noise may push an entry out of [-1, 1]; NaN where it hides the variance of a column, and
        so is all that follows.
    stderr : ndarray of shape (p, p), float64
        0 on the diagonal.
    intervals : ndarray of shape (p, p, 2), float64
        Within [-1, 1].
    noise : ndarray of shape (p, p), float64
        Standard deviation that noise alone would give to the correlation of columns without any.
    alpha : float
        1 - level of the intervals.
    estimand : {"sample", "normal"}
        Whether they are about the rows, or the normal population that those are a sample of.
    hidden : tuple of str
        The columns of which noise hides the variance.
    """

    names: tuple[str, ...]
    matrix: Matrix
    stderr: Matrix
    intervals: NDArray[np.float64]
    noise: Matrix
    alpha: float
    estimand: CorrelationEstimand
    hidden: tuple[str, ...] = ()

    def frame(self) -> DataFrame:
        """The matrix as a data frame (needs pandas)."""
        return as_frame(self.matrix, self.names, self.names)

    def __str__(self) -> str:
        columns = dict(zip(self.names, self.matrix, strict=True))
        return as_text(self.names, columns, *_hidden(self.hidden))


def _hidden(names: Sequence[str]) -> list[str]:
    """Say of which columns the variance is hidden, if of any."""
    return [f"The noise hides the variance of {', '.join(map(shown, names))}."] if names else []


def describe(
    release: ReleaseRecord,
    columns: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
    estimand: Estimand = "population",
) -> Description:
    """Counts, means and standard deviations of released columns, with errors and intervals.

    Parameters
    ----------
    release : Release
        With an intercept, or all levels of a factor.
    columns : sequence of str, optional
        Released columns, or indicators such as "sex[f]"; by default all but the intercept.
    alpha : float, default 0.05
        1 - level of the intervals, in (0, 0.5].
    estimand : {"population", "sample"}, default "population"
        The means of the population that the rows are a sample of; or those of the rows at hand:
        then errors are of the noise alone. Standard deviations are always those of the rows:
        their sampling error takes fourth moments.

    Returns
    -------
    Description

    Raises
    ------
    RefusedError
        A ValueError: where the noise hides the number of rows, or a repair moved the matrix.
    ValueError
        If there is no intercept, no such column, or `alpha` or `estimand` is out of its range.
    """
    quantile = quantile_of(alpha)
    check_one_of(estimand, "estimand", get_args(Estimand))
    basis = _Basis(release, columns, estimand)
    means = [basis.mean(i, quantile) for i in range(len(basis.frame))]
    deviations = [basis.deviation(i, quantile) for i in range(len(basis.frame))]
    (mean, mean_error, *mean_ends), unit = np.array(means).T, basis.unit
    std, std_error, *std_ends = np.array(deviations).T * unit
    if basis.clipped:
        mean_error = std_error = np.full(len(std), math.nan)
        mean_ends = std_ends = [mean_error, mean_error]
    ends = basis.origin[:, None] + unit[:, None] * np.array(mean_ends).T
    count, error = basis.count, basis.count_stderr
    return Description(
        names=basis.names,
        count=count,
        count_stderr=error,
        count_interval=np.array([max(count - quantile * error, 0.0), count + quantile * error]),
        mean=basis.origin + unit * mean,
        mean_stderr=unit * mean_error,
        mean_interval=ends,
        std=std,
        std_stderr=std_error,
        std_interval=np.array(std_ends).T,
        alpha=alpha,
        estimand=estimand,
        bounds=basis.bounds,
        clipped=basis.clipped,
    )


def correlation(
    release: ReleaseRecord,
    columns: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
    estimand: CorrelationEstimand = "sample",
) -> Correlation:
    """Correlations of released columns, with errors and intervals.

    Parameters
    ----------
    release : Release
        With an intercept, or all levels of a factor.
    columns : sequence of str, optional
        Released columns, or indicators such as "sex[f]"; by default all but the intercept.
    alpha : float, default 0.05
        1 - level of the intervals, in (0, 0.5].
    estimand : {"sample", "normal"}, default "sample"
        The correlations of the rows at hand, whatever they are: errors are of the noise alone. Or
        those of a population of normal rows, as Fisher's intervals are: sampling errors of others
        take fourth moments, which a release does not hold.

    Returns
    -------
    Correlation

    Raises
    ------
    RefusedError
        A ValueError: where the noise hides all variances or the number of rows, or adaptive rounds
        may have clipped too many rows.
    ValueError
        If there is no intercept, no such column, or `alpha` or `estimand` is out of its range.

    Notes
    -----
    An interval holds the values r at which the estimate is within `quantile` standard errors, the
    errors those at r: (1 - r^2)^2 / (n - 1) of sampling normal rows, and of noise the variance of
    a^T N b - r (a^T N a + b^T N b) / 2, for the standardised columns' rows a and b. The means are
    taken with the released count of the ones.
    """
    quantile = quantile_of(alpha)
    check_one_of(estimand, "estimand", get_args(CorrelationEstimand))
    basis = _Basis(release, columns, estimand)
    if basis.clipped:
        raise RefusedError(CLIPPED)
    a, matrix = basis.standardised()
    p = len(a)
    law, released = release.noise, release.matrix
    stderr, noise, intervals = np.zeros((p, p)), np.zeros((p, p)), np.ones((p, p, 2))
    # Of normal rows, by powers of r; of the rows at hand there is none.
    by_sampling = Polynomial([1.0, 0.0, -1.0]) ** 2 / max(basis.count - 1, 1.0)
    by_sampling = Polynomial([0.0]) if estimand == "sample" else by_sampling
    for i in range(p - 1):
        b = a[i + 1 :]
        one = np.broadcast_to(a[i], b.shape)
        variances = law.entry_variance(released, np.stack([one, b, one - b, one + b], axis=1))
        # The variance of the noise is quadratic in r.
        by_noise = _parabola(variances[:, 3, 3] / 4, variances[:, 0, 1], variances[:, 2, 2] / 4)
        for j, coefficients in enumerate(by_noise.T, i + 1):
            variance = Polynomial(coefficients) + by_sampling
            r = matrix[i, j]
            start = min(max(r, -1.0), 1.0)
            inside = quantile**2 * variance - Polynomial([r, -1.0]) ** 2
            stderr[i, j] = stderr[j, i] = math.sqrt(max(variance(start), 0.0))
            noise[i, j] = noise[j, i] = math.sqrt(max(coefficients[0], 0.0))
            intervals[i, j] = intervals[j, i] = hull(inside, -1.0, 1.0, start)
    return Correlation(
        names=basis.names,
        matrix=matrix,
        stderr=stderr,
        intervals=intervals,
        noise=noise,
        alpha=alpha,
        estimand=estimand,
        hidden=tuple(basis.names[i] for i in np.flatnonzero(np.isnan(a).any(axis=1))),
    )


class _Basis(Variables):
    """The columns as images of the released ones, with the ones and their count.

    The noise in each statistic is, to first order, a product x^T N y of two rows with the noise N
    of the release, whose variance every law of noise has in closed form (docs/theory/inference.md).
    """

    def __init__(
        self, release: ReleaseRecord, columns: Sequence[str] | None, estimand: str
    ) -> None:
        check_moved(release)
        super().__init__(release, columns, center=True)
        assert self.ones is not None
        self.one = ones = self.ones
        if estimand != "sample":
            check_unweighted(release)
        self.estimand = estimand
        self.clipped = is_clipped(release)
        self.matrix = release.unbiased
        self.public = full_rows(release)
        behind = rows_behind(release)  # None if rows are weighted
        released, variance = float(ones @ self.matrix @ ones), self._variance(ones, ones)
        #: What sums are divided by.
        self.n = released if self.public is None else self.public
        if self.n < 1 or (self.public is None and variance > TRUSTED_COUNT * self.n**2):
            raise RefusedError("the privacy noise hides the number of rows")
        self.count = math.nan if behind is None else behind
        self.count_stderr = math.nan if behind is None else count_error(release)

    @cached_property
    def bounds(self) -> tuple[Vector, Vector]:
        """Public bounds in own units."""
        longest = self.release.bound * np.linalg.norm(self.frame, axis=1)
        low, high = self._limits
        low, high = np.maximum(low, -longest), np.minimum(high, longest)
        return self.origin + self.unit * low, self.origin + self.unit * high

    def _variance(self, x: Vector, y: Vector) -> float:
        law, matrix = self.release.noise, self.release.matrix
        return float(law.entry_variance(matrix, np.stack([x, y]))[0, 1])

    @cached_property
    def _moments(self) -> tuple[Vector, Vector]:
        """Means and sums of squares about them, in the scale of the matrix."""
        _, means, scatter = self.about()
        return means, scatter.diagonal()

    def mean(self, i: int, quantile: float) -> tuple[float, float, float, float]:
        """Mean, standard error and interval, in the scale of the matrix.

        Where the count is noisy too, the interval is Fieller's: of m for which the sum of the
        column less m is within the quantile of its errors.
        """
        x, n = self.frame[i], self.n
        m, scatter = (float(moment[i]) for moment in self._moments)
        sampling = max(scatter, 0.0) * n / max(n - 1, 1.0) if self.estimand == "population" else 0.0
        low, high = (float(ends[i]) for ends in self._limits)
        if self.public is not None:
            stderr = math.sqrt(sampling + self._variance(x, self.one)) / n
            ends = m - quantile * stderr, m + quantile * stderr
        else:
            stderr = math.sqrt(sampling + self._variance(x - m * self.one, self.one)) / n
            at = [self._variance(x - t * self.one, self.one) for t in (-1.0, 0.0, 1.0)]
            by_noise = Polynomial(_parabola(*at))
            total = float(x @ self.matrix @ self.one)
            inside = quantile**2 * (by_noise + sampling) - Polynomial([total, -n]) ** 2
            reach = max(1.0, abs(m)) + 1e3 * stderr
            ends = hull(inside, max(low, -reach), min(high, reach), m)
        return m, stderr, max(ends[0], low), min(ends[1], high)

    def deviation(self, i: int, quantile: float) -> tuple[float, float, float, float]:
        """Standard deviation of the rows, standard error and interval, in the matrix's scale."""
        x, n = self.frame[i], self.n
        m, scatter = (float(moment[i]) for moment in self._moments)
        low, high = (float(ends[i]) for ends in self._limits)
        variance = scatter / max(n - 1, 1.0)
        std = math.sqrt(max(variance, 0.0))
        if self.public is not None:
            noise = self._variance(x, x - 2 * m * self.one)
        else:  # the divisor has noise too
            u = x - m * self.one
            noise = self._variance(u + std * self.one, u - std * self.one)
        error = math.sqrt(noise) / n
        largest = ((high - low) / 2) ** 2 * n / max(n - 1, 1.0)
        ends = np.clip([variance - quantile * error, variance + quantile * error], 0.0, largest)
        least, most = np.sqrt(ends).tolist()
        if variance <= 0:
            return math.nan, math.nan, least, most
        return std, error / (2 * std), least, most

    def standardised(self) -> tuple[Matrix, Matrix]:
        """Rows with variance 1, and correlations; NaN where noise hides a variance."""
        sums, ones = self.frame @ self.matrix @ self.one, float(self.one @ self.matrix @ self.one)
        rows = self.frame - np.outer(sums / ones, self.one)
        scatter = self.frame @ self.matrix @ self.frame.T - np.outer(sums, sums) / ones
        size = scatter.diagonal()
        noise = self.release.noise.entry_variance(self.release.matrix, rows).diagonal()
        hidden = ~((size > 0) & (noise <= TRUSTED_COUNT * size**2))
        if hidden.all():
            raise RefusedError("the noise hides the variances of these columns")
        size = np.where(hidden, math.nan, size)
        correlations = scatter / np.sqrt(np.outer(size, size))
        np.fill_diagonal(correlations, 1.0)
        return rows / np.sqrt(size)[:, None], correlations


def _parabola(at_minus_one: ArrayLike, at_zero: ArrayLike, at_one: ArrayLike) -> Matrix:
    """Coefficients of the parabolas with these values at -1, 0 and 1, shape (3, ...)."""
    low, middle, high = map(np.asarray, (at_minus_one, at_zero, at_one))
    return np.array([middle, (high - low) / 2, (high + low) / 2 - middle])
