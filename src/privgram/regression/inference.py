"""Standard errors and intervals of a regression on a release (docs/theory/inference.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.checks import check_within
from privgram.regression.design import intercept_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._release.record import ReleaseRecord
    from privgram.noise import NoiseLaw

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = [
    "Inference",
    "contrasts",
    "infer",
    "quantile_of",
    "refuse",
    "rows_behind",
    "why_unknown",
]

INTERCEPT = "intercept"

#: Inference is refused where the noise over the features' second moment S, the mean square
#: of S^{-1/2} N S^{-1/2} over directions, exceeds this: expansions no longer hold beyond.
#: It judges no single direction: that would pick releases by the noise that moved
#: the estimate, and what is offered would cover less.  Each interval widens by itself.
TRUSTED_NOISE = 1 / 8

#: Rows counted with a relative variance above this are too uncertain to divide by.
TRUSTED_COUNT = 1 / 16


@dataclass(frozen=True, eq=False)
class Inference:
    """What is known of some contrasts of the coefficients.

    The error of an estimate c of a contrast t is normal with variance
    stderr^2 (1 + 2 slope d + curvature d^2), d = (t - c) / stderr: it depends on the
    coefficients themselves, since the noise is in the features too.

    Attributes
    ----------
    estimate : ndarray of shape (k,), float64
        Centres of the tests, without penalty, known shift and second-order bias.
    covariance : ndarray of shape (k, k), float64
        At the estimate.
    method : str
    refusal : str or None
        Why there is no inference, or None.
    slope, curvature : ndarray of shape (k,), float64
        How the variance depends on the contrast; curvature is the noise to signal ratio,
        squared, in the direction of the contrast.
    """

    estimate: Vector
    covariance: Matrix
    method: str
    refusal: str | None
    slope: Vector
    curvature: Vector

    @cached_property
    def stderr(self) -> Vector:
        """Standard errors, shape (k,)."""
        stderr: Vector = np.sqrt(self.covariance.diagonal())
        return stderr

    def statistic(self) -> Vector:
        """Standard normal statistics of the hypotheses that contrasts are 0, shape (k,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = -self.estimate / self.stderr
            variance = 1 + 2 * self.slope * distance + self.curvature * distance**2
            # Not below what the Cauchy-Schwarz inequality allows, but for rounding.
            z: Vector = -distance / np.sqrt(np.maximum(variance, np.finfo(float).tiny))
        return z

    def intervals(self, quantile: float) -> Matrix:
        """Where the statistic stays within +-`quantile`, shape (k, 2).

        Fieller's interval: without ends where the noise exceeds 1/quantile of the signal.
        """
        square = quantile**2
        slack = 1 - square * self.curvature
        open_ended = slack <= 0
        slack = np.where(open_ended, 1.0, slack)
        middle = square * self.slope / slack
        half = quantile * np.sqrt(np.maximum(square * self.slope**2 + slack, 0.0)) / slack
        half = np.where(open_ended, np.inf, half)
        ends = np.array([middle - half, middle + half])
        intervals: Matrix = (self.estimate + self.stderr * ends).T
        return intervals


def refuse(size: int, reason: str) -> Inference:
    """No inference on `size` contrasts."""
    nothing = np.full(size, np.nan)
    return Inference(nothing, np.full((size, size), np.nan), "none", reason, nothing, nothing)


def quantile_of(level: float) -> float:
    """Half width of an interval of this level, in standard errors."""
    from scipy.special import ndtri

    level = check_within(level, "level", 0, 1)
    if level < 0.5:
        raise ValueError(
            f"level={level:g} would be an interval of {level:.3g} probability; for one of "
            f"{1 - level:.3g}, pass level={1 - level:g} or alpha={level:g}"
        )
    return float(ndtri(0.5 + level / 2))


def rows_behind(release: ReleaseRecord) -> float | None:
    """Rows that a release is the sum of: public, or counted by its intercept; else None.

    Of a table whose rows with missing values were dropped, the public number counts
    those too and says nothing of the others.
    """
    dropped = release.columns is not None and release.columns.missing == "drop"
    if release.n_rows is not None and not dropped:
        return float(release.n_rows)
    ones = intercept_of(release)
    if ones is not None:
        moment = release.matrix - release.noise.shift_matrix(release.n_columns)
        count = max(float(ones @ moment @ ones), 0.0)
        return count if release.n_rows is None else min(count, float(release.n_rows))
    return None


def why_unknown(release: ReleaseRecord) -> str:
    """Why `rows_behind` is None."""
    if release.n_rows is None:
        return "the number of rows is private"
    return "rows with missing values were dropped, and how many is private"


def _miscounted(release: ReleaseRecord) -> bool:
    """Whether the rows are counted by an intercept that noise drowns."""
    dropped = release.columns is not None and release.columns.missing == "drop"
    ones = intercept_of(release)
    if (release.n_rows is not None and not dropped) or ones is None:
        return False
    variance = release.noise.entry_variance(release.matrix, ones[None])[0, 0]
    count = rows_behind(release) or 0.0
    return bool(not variance <= TRUSTED_COUNT * count**2)


def infer(
    release: ReleaseRecord,
    law: NoiseLaw,
    shifted: Matrix,
    transform: Matrix,
    offset: Vector,
    meat: Matrix | None = None,
) -> Inference:
    """What a release says of contrasts of the coefficients, without penalty.

    Parameters
    ----------
    release : Release
    law : NoiseLaw
        Of the noise in `shifted`.
    shifted : ndarray of shape (p + 1, p + 1), float64
        The released matrix of the features, and the target last.
    transform : ndarray of shape (k, p), float64
    offset : ndarray of shape (k,), float64
        The contrasts are transform @ theta + offset, theta the coefficients.
    meat : ndarray of shape (p, p), float64, optional
        Covariance of X^T e; by default that of errors of equal variance.

    Notes
    -----
    With S the features' block less its shift, s the target's column and v = (-theta, 1),
    the estimate S^{-1} s satisfies, exactly,
        S (estimate - theta) = X^T e + (N v)_features,
    N the privacy noise.  A contrast c is tested by a^T (s - S theta), a = S^{-1} c, whose
    variance is taken at the theta that is nearest where the contrast has the tested value.
    """
    size = len(transform)
    if release.parameters.get("moved"):
        return refuse(
            size, "the repair moved the released matrix, whose error is not the noise's alone"
        )
    n_rows = rows_behind(release)
    uncounted = None
    if n_rows is None:
        uncounted = f"{why_unknown(release)} and the release has no intercept column to count by"
    elif _miscounted(release):
        uncounted = "the privacy noise hides the number of rows"
    return contrasts(law, shifted, n_rows or 0.0, transform, offset, meat, uncounted)


def contrasts(
    law: NoiseLaw,
    shifted: Matrix,
    n_rows: float,
    transform: Matrix,
    offset: Vector,
    meat: Matrix | None = None,
    uncounted: str | None = None,
) -> Inference:
    """What noisy normal equations say of contrasts of their solution; see `infer`.

    Parameters
    ----------
    law, shifted, transform, offset, meat
        As in `infer`.
    n_rows : float
        Rows behind them.
    uncounted : str, optional
        Why that is unknown.
    """
    p, size = shifted.shape[0] - 1, len(transform)
    matrix = shifted - law.shift_matrix(p + 1)
    gram, cross = matrix[:p, :p], matrix[:p, p]
    try:
        np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return refuse(
            size, "the privacy noise exceeds the signal in some direction of the features"
        )
    inverse = np.linalg.inv(gram)
    theta = inverse @ cross
    v = np.append(-theta, 1.0)
    noise = law.sandwich(shifted, np.outer(v, v))[:p, :p]
    # E[N S^{-1} N], with S^{-1} on the features alone.
    whole = np.zeros_like(matrix)
    whole[:p, :p] = inverse
    second = law.sandwich(shifted, whole)[:p]
    if not np.trace(inverse @ second[:, :p]) <= p * TRUSTED_NOISE:
        return refuse(size, "the privacy noise is too large beside the signal for standard errors")
    if uncounted is not None:
        return refuse(size, uncounted)
    if n_rows <= p:
        return refuse(size, "there are too few rows")
    # Where noise makes this negative it also outweighs the sampling error by far.
    residual = max(v @ matrix @ v + np.trace(inverse @ noise), 0.0)
    sampling = residual / (n_rows - p) * inverse
    if meat is not None:
        sampling = inverse @ meat @ inverse
    covariance = sampling + inverse @ noise @ inverse
    own = transform @ covariance @ transform.T
    stderr = np.sqrt(own.diagonal())
    # A contrast without any coefficient, such as an intercept that does not exist, has no error.
    unit = np.where(stderr > 0, stderr, 1.0)[:, None]
    pulled = transform @ covariance / unit
    solved = transform @ inverse / unit
    slope, curvature = _dependence(law, shifted, noise, solved, pulled, v)
    # The bias of the statistic, not of the estimate: what moves with its variance is not bias.
    bias = -transform @ (inverse @ (second @ v)) - stderr * slope
    estimate = transform @ theta + offset - bias
    method = "first-order" if meat is None else "first-order, HC1"
    return Inference(estimate, own, method, None, slope, curvature)


def _dependence(
    law: NoiseLaw, shifted: Matrix, noise: Matrix, solved: Matrix, pulled: Matrix, v: Vector
) -> tuple[Vector, Vector]:
    """Slope and curvature of each contrast c, of S^{-1} c / stderr and C c / stderr.

    C is the covariance, and `noise` that of (N v)_features.  Moving the contrast by one standard
    error moves the coefficients by C c / stderr, hence v by w = (-C c / stderr, 0), and with it
    the noise a^T N v.
    """
    size, p = solved.shape
    frame = np.zeros((size, 3, p + 1))
    frame[:, 0, :p] = solved
    frame[:, 1, :p] = -pulled
    frame[:, 2] = frame[:, 1] + v
    curvature, both = law.entry_variance(shifted, frame)[:, 0, 1:].T
    alone = ((solved @ noise) * solved).sum(axis=1)
    return (both - alone - curvature) / 2, curvature
