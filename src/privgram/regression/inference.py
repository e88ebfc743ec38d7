"""Normal equations with noise in them; standard errors and intervals (docs/theory/inference.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from privgram._base.numbers import Matrix, Vector, check_within
from privgram.regression.design import intercept_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privgram.noise import NoiseLaw
    from privgram.releases.record import ReleaseRecord


#: What is inferred: coefficients of the population that the rows are a sample of, or the least
#: squares of the rows at hand, which differs from the released one by the noise alone.
Estimand = Literal["population", "sample"]

#: Inference is refused where the noise over the features' second moment S, the mean square
#: of S^{-1/2} N S^{-1/2} over directions, exceeds this: expansions no longer hold beyond.
#: It judges no single direction: that would pick releases by the noise that moved
#: the estimate, and what is offered would cover less.  Each interval widens by itself.
TRUSTED_NOISE = 1 / 8

#: Deviations of its noise that are added to an error of predictions.
DOUBT = 2.0

#: Rows counted with a relative variance above this are too uncertain to divide by.
TRUSTED_COUNT = 1 / 16


class RefusedError(ValueError):
    """A regression that this release cannot answer, though it was asked for rightly."""


@dataclass(frozen=True, eq=False)
class Equations:
    """The equations L M v = 0 of a regression on a release (docs/theory/inference.md).

    M is the second moment less its shift, its first columns the features and its last the target,
    and v = (-theta, 1) in place. L (p, d) is the features of least squares, and first stages where
    there are instruments (`privgram.regression.iv`). With S = L M_features, which must be regular,
    and N the noise, S (estimate - theta) = L (X^T e + N v): exactly, or to first order where L
    itself has noise.
    """

    law: NoiseLaw  # of the noise in `shifted`
    shifted: Matrix  # (p + 1, p + 1), the released matrix of the features, and the target last
    n_rows: float | None  # behind it; less the effects of units, where their means were taken off
    # (p, p), covariance of X^T e; by default that of errors of equal variance
    meat: Matrix | None = None

    @property
    def size(self) -> int:
        """Number of columns p that explain, the intercept's among them."""
        return len(self.shifted) - 1

    @cached_property
    def matrix(self) -> Matrix:
        """The second moment, unbiased: less its known shift."""
        return self.shifted - self.law.shift_matrix(len(self.shifted))

    @property
    def weights(self) -> Matrix:
        """L, shape (p, d)."""
        return np.eye(self.size, len(self.shifted))

    @property
    def reduced(self) -> Equations:
        """Least squares of the target on what is exogenous."""
        return self

    @cached_property
    def gram(self) -> Matrix:
        """S, shape (p, p)."""
        return np.asarray(self.weights @ self.matrix[:, : self.size])

    @cached_property
    def inverse(self) -> Matrix:
        """Inverse of `gram`."""
        return np.asarray(np.linalg.inv(self.gram), dtype=np.float64)

    @cached_property
    def theta(self) -> Vector:
        """The estimate, shape (p,)."""
        return self.inverse @ (self.weights @ self.matrix[:, -1])

    @cached_property
    def v(self) -> Vector:
        """The residual's row: (-theta, 1), and zeros at instruments."""
        row = np.zeros(len(self.shifted))
        row[: self.size], row[-1] = -self.theta, 1.0
        return row

    def noise_at(self, v: Vector) -> Matrix:
        """Covariance of L N v, shape (p, p)."""
        return self.weights @ self.law.sandwich(self.shifted, np.outer(v, v)) @ self.weights.T

    @cached_property
    def sandwich(self) -> Matrix:
        """Covariance of N v at the estimate, shape (d, d)."""
        return self.law.sandwich(self.shifted, np.outer(self.v, self.v))

    @cached_property
    def noise(self) -> Matrix:
        """Covariance of L N v at the estimate."""
        return self.weights @ self.sandwich @ self.weights.T

    @cached_property
    def second(self) -> Matrix:
        """E[N S^{-1} N] with S^{-1} on the features alone, shape (p, p + 1); not of instruments."""
        return self.law.sandwich(self.shifted, np.pad(self.inverse, (0, 1)))[:-1]

    @cached_property
    def squares(self) -> float:
        """Sum of squared residuals, without the noise's second-order bias; not negative.

        Where noise makes it negative it also outweighs the sampling error by far.
        """
        w, pull = slice(0, self.size), self.inverse @ self.weights
        alike = np.trace(pull @ self.sandwich[:, w])
        spread = np.trace(self.matrix[w, w] @ pull @ self.sandwich @ pull.T)
        return max(float(self.v @ self.matrix @ self.v + 2 * alike - spread), 0.0)

    @property
    def df_resid(self) -> float:
        """Degrees of freedom of `variance`."""
        return math.nan if self.n_rows is None else self.n_rows - self.size

    @property
    def variance(self) -> float:
        """Variance of the errors."""
        return self.squares / self.df_resid

    @cached_property
    def at_hand(self) -> Equations:
        """The same about the least squares of the rows at hand: the noise is the only error.

        Of that solution X^T e is zero, whatever the errors are.
        """
        return replace(self, meat=np.zeros_like(self.gram))

    def sampling(self, pulled: Matrix) -> Matrix:
        """Covariance of pulled @ X^T e, for `pulled` of shape (k, p)."""
        meat = self.variance * self.gram if self.meat is None else self.meat
        return pulled @ meat @ pulled.T

    @cached_property
    def covariance(self) -> Matrix:
        """Of the estimate: sampling and noise."""
        return self.sampling(self.inverse) + self.inverse @ self.noise @ self.inverse


@dataclass(frozen=True, eq=False)
class Inference:
    """What is known of k contrasts of the coefficients.

    The error of an estimate c of a contrast t is normal with variance
    stderr^2 (1 + 2 slope d + curvature d^2), d = (t - c) / stderr: it depends on the
    coefficients themselves, since the noise is in the features too. The curvature is the noise to
    signal ratio, squared, in the direction of the contrast.
    """

    estimate: Vector  # (k,), without penalty, known shift and second-order bias
    covariance: Matrix  # (k, k), at the estimate
    refusal: str | None  # why there is no inference
    df: Vector  # (k,), of Student's law of the statistics; infinite where it is normal
    slope: Vector | float = 0.0  # (k,); 0 where the noise does not depend on the coefficients
    curvature: Vector | float = 0.0

    @property
    def law(self) -> str:
        """What the statistics are called: "t" by Student's law, "z" by the normal one."""
        return "z" if np.isinf(self.df).all() else "t"

    @cached_property
    def stderr(self) -> Vector:
        """Standard errors, shape (k,)."""
        return np.sqrt(self.covariance.diagonal())

    def statistic(self) -> Vector:
        """Statistics of the hypotheses that contrasts are 0, shape (k,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = -self.estimate / self.stderr
            variance = 1 + 2 * self.slope * distance + self.curvature * distance**2
            # Not below what the Cauchy-Schwarz inequality allows, but for rounding.
            z: Vector = -distance / np.sqrt(np.maximum(variance, np.finfo(float).tiny))
        return z

    def pvalues(self) -> Vector:
        """Two-sided P values of the statistics, shape (k,)."""
        from scipy.special import stdtr

        return np.asarray(2 * stdtr(self.df, -np.abs(self.statistic())))

    def intervals(self, level: float) -> Matrix:
        """Where the statistic stays within the quantiles of its law, shape (k, 2).

        Fieller's interval: without ends where the noise exceeds 1/quantile of the signal.
        """
        quantile = students(level, self.df)
        square = quantile**2
        slack = 1 - square * self.curvature
        open_ended = slack <= 0
        slack = np.where(open_ended, 1.0, slack)
        middle = square * self.slope / slack
        half = quantile * np.sqrt(np.maximum(square * self.slope**2 + slack, 0.0)) / slack
        half = np.where(open_ended, np.inf, half)
        ends = np.array([middle - half, middle + half])
        return np.asarray((self.estimate + self.stderr * ends).T)


#: Said below intervals of which some are infinite.
SOME_OPEN = "Where an interval has no ends, the noise leaves the coefficient open."

#: Said where all intervals would be infinite.
ALL_OPEN = (
    "the privacy noise hides every coefficient: no interval would have an end. More rows, a larger "
    "epsilon, narrower bounds or fewer features may show some"
)


def refuse(size: int, reason: str) -> Inference:
    """No inference on `size` contrasts."""
    nothing = np.full(size, np.nan)
    unknown = np.full((size, size), np.nan)
    return Inference(nothing, unknown, reason, nothing)


def refuse_open(found: Inference) -> Inference:
    """The same, refused where none of the intervals has an end."""
    size = len(found.estimate)
    if found.refusal is not None or not size or np.isfinite(found.intervals(0.95)).any():
        return found
    return refuse(size, ALL_OPEN)


#: Below it floats do not tell a level from 1, and intervals would have no ends.
LEAST_ALPHA = 1e-15


def level_of(alpha: float) -> float:
    """The level 1 - alpha of an interval, or one clear error."""
    alpha = check_within(alpha, "alpha", 0, 1)
    if alpha > 0.5:
        raise ValueError(
            f"alpha={alpha:g} would be an interval of {1 - alpha:.3g} probability; for one of "
            f"{alpha:.3g}, pass alpha={1 - alpha:g}"
        )
    if alpha < LEAST_ALPHA:
        raise ValueError(f"alpha must be {LEAST_ALPHA:g} or more: {alpha:g} beside 1 is nothing")
    return 1 - alpha


def quantile_of(alpha: float) -> float:
    """Half width of a normal interval of level 1 - alpha, in standard errors."""
    return float(students(level_of(alpha), math.inf))


def students(level: float, df: float | Vector) -> Vector:
    """Half widths of Student's intervals of a level, in standard errors."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(df, 0.5 + level / 2), dtype=np.float64)


def hull(
    inside: np.polynomial.Polynomial, low: float, high: float, start: float
) -> tuple[float, float]:
    """The least interval that holds `start` and the t of [low, high] with inside(t) >= 0."""
    if not np.isfinite(inside.coef).all():
        return math.nan, math.nan
    roots = np.asarray(inside.trim().roots(), dtype=np.complex128)
    ends = [end for end in roots.real[roots.imag == 0].tolist() if low < end < high]
    points = [start, *ends, *(end for end in (low, high) if inside(end) >= 0)]
    return min(points), max(points)


def _public_rows(release: ReleaseRecord) -> int | None:
    """The rows behind a release, where their number is public.

    Of a table whose rows with missing values were dropped, the public number counts
    those too and says nothing of the others.
    """
    dropped = release.columns is not None and release.columns.missing == "drop"
    return None if dropped else release.n_rows


def rows_behind(release: ReleaseRecord) -> float | None:
    """Rows that a release is the sum of: public, or counted by its intercept; else None."""
    public = _public_rows(release)
    if public is not None:
        return float(public)
    ones = intercept_of(release)
    if ones is not None and not release.weighted:
        count = max(float(ones @ release.unbiased @ ones), 0.0)
        return count if release.n_rows is None else min(count, float(release.n_rows))
    return None


def count_error(release: ReleaseRecord) -> float:
    """Standard error of `rows_behind`: 0 where it is public."""
    ones = intercept_of(release)
    if _public_rows(release) is not None or ones is None or release.weighted:
        return 0.0
    return math.sqrt(release.noise.entry_variance(release.matrix, ones[None])[0, 0])


def full_rows(release: ReleaseRecord) -> float | None:
    """Rows that the sums of a release are of, where that is public and all contribute in full."""
    described = release.columns
    whole = (
        described is not None
        and described.missing == "error"
        and not release.weighted
        and release.bound >= described.bound
    )
    if whole and release.n_rows and release.noise.sketch_rows(release.n_columns) is None:
        return float(release.n_rows)
    return None


def about_means(
    release: ReleaseRecord,
    images: Matrix,
    ones: Vector,
    *,
    matrix: Matrix | None = None,
    limits: tuple[ArrayLike, ArrayLike] = (-math.inf, math.inf),
) -> tuple[float, Vector, Matrix]:
    """Rows (or their weight), means and second moment about the means of `images` (k, d).

    Constants in the images add noise: leave them out. `ones` (d,) is the image that is 1 in every
    row. The means lie within the `limits`. `matrix` is another draw of the unbiased second moment.
    """
    whole = release.unbiased if matrix is None else matrix
    sums = whole @ ones
    count = full_rows(release)
    if count is None:  # it is read off the ones
        count = max(float(ones @ sums), 1.0)
    mean = (images @ sums / count).clip(*limits)
    return count, mean, images @ whole @ images.T - count * np.outer(mean, mean)


def degrees_behind(release: ReleaseRecord, n_rows: float | None) -> float | None:
    """Degrees of freedom of so many rows: less the effects of units, if it is public how many."""
    unit = release.privacy_unit
    if n_rows is None or unit is None or not unit.fixed_effects:
        return n_rows
    return n_rows - (release.n_units or 0)


def uncounted(release: ReleaseRecord) -> str:
    """Why the number of rows is unknown, or less than one, and what to do."""
    if rows_behind(release) is not None:
        return "the privacy noise leaves no rows: use more rows or a larger epsilon"
    why = "the number of rows is private"
    if release.n_rows is not None:
        why = "rows with missing values were dropped, and how many is private"
    if release.weighted:
        return (
            f"{why}, and of weighted rows an intercept column holds the sum of their weights: use "
            "a release of which the number of rows is public"
        )
    return f"{why}: use a release with an intercept column, which counts them"


#: What to do where noise is too large beside the signal.
SHOWN_BY = "more rows, a larger epsilon, narrower bounds or fewer features make it smaller"


def clipping_refusal(release: ReleaseRecord) -> str | None:
    """Why there is no R squared or instruments of the rows at hand after adaptive rounds, or None.

    The last round shortens rows. The noise's law allows for what that moves coefficients of least
    squares by; these two may move by more.
    """
    if not release.parameters.get("clipping_bias"):
        return None
    return (
        "the last round clipped rows that lie far out, and nothing public tells by how much that "
        "moved this number of the rows at hand: take one round, as AnalyzeGauss does"
    )


def why_refused(
    release: ReleaseRecord, equations: Equations, estimand: Estimand = "population"
) -> str | None:
    """Why there is no inference, or None; on the rows at hand it takes not their number."""
    if release.parameters.get("moved"):
        return (
            "the repair moved the released matrix, whose error is not the noise's alone: take a "
            "release without repair"
        )
    try:
        np.linalg.cholesky(equations.gram)
    except np.linalg.LinAlgError:
        return f"the privacy noise exceeds the signal in some direction of the features: {SHOWN_BY}"
    p, n_rows = equations.size, equations.n_rows
    if not np.trace(equations.inverse @ equations.second[:, :p]) <= p * TRUSTED_NOISE:
        return f"the privacy noise is too large beside the signal for standard errors: {SHOWN_BY}"
    if estimand == "sample":
        return None
    if n_rows is None:
        return uncounted(release)
    if not count_error(release) <= math.sqrt(TRUSTED_COUNT) * (rows_behind(release) or 0.0):
        return "the privacy noise hides the number of rows: more rows or a larger epsilon show it"
    return "there are too few rows: take fewer features or more rows" if n_rows <= p else None


def infer(
    release: ReleaseRecord,
    equations: Equations,
    transform: Matrix,
    offset: Vector,
    estimand: Estimand = "population",
) -> Inference:
    """What a release says of k contrasts transform @ theta + offset, without penalty, theta (p,).

    `transform` has shape (k, p). The equations are those with `rows_behind` the release. A contrast
    c is tested by a^T (s - S theta), a = S^{-1} c, whose variance is taken at the theta that is
    nearest where the contrast has the tested value.
    """
    reason = why_refused(release, equations.reduced, estimand)
    if reason is not None:
        return refuse(len(transform), reason)
    if estimand == "sample":
        equations = equations.at_hand
    inverse, v, covariance = equations.inverse, equations.v, equations.covariance
    of_contrasts = transform @ covariance @ transform.T
    stderr = np.sqrt(of_contrasts.diagonal())
    # A contrast without any coefficient, such as an intercept that does not exist, has no error.
    unit = np.where(stderr > 0, stderr, 1.0)[:, None]
    pulled = transform @ covariance / unit
    solved = transform @ inverse / unit
    rows = solved @ equations.weights
    moved = np.pad(-pulled, [(0, 0), (0, len(v) - equations.size)])
    alone = ((solved @ equations.noise) * solved).sum(axis=1)
    slope, curvature = dependence(equations.law, equations.shifted, rows, v, moved, alone)
    estimate = transform @ equations.theta + offset
    if equations.size == len(v) - 1:
        # The bias of the statistic, not of the estimate: what moves with its variance is not bias.
        estimate = estimate + transform @ (inverse @ (equations.second @ v)) + stderr * slope
    # Of a given meat the degrees of freedom are unknown. The noise, whose variance is known, could
    # be given more of them, and is not: they are never above the rows less the parameters.
    df = np.full(len(of_contrasts), equations.df_resid if equations.meat is None else math.inf)
    return Inference(estimate, of_contrasts, None, df, slope, curvature)


def dependence(
    law: NoiseLaw, shifted: Matrix, a: Matrix, v: Vector, moved: Matrix, alone: Vector
) -> tuple[Vector, Vector]:
    """Slope and curvature of contrasts whose noise is a^T N v, for a row of `a` (k, d) each.

    With C the covariance of the coefficients, moving a contrast c by one standard error moves these
    by C c / stderr, hence v (d,) by a row of `moved` (k, d), and with it the noise, of variance
    `alone` (k,) at v.
    """
    rows = np.stack([a, moved, moved + v], axis=1)
    curvature, both = law.entry_variance(shifted, rows)[:, 0, 1:].T
    return (both - alone - curvature) / 2, curvature
