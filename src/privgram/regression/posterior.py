"""Bayesian regression on a release: draws of the coefficients from their posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.numbers import Matrix, Vector, check_integer
from privgram._base.text import Printed, as_frame, as_text
from privgram.noise import ImageLaw
from privgram.regression.inference import (
    RefusedError,
    degrees_behind,
    level_of,
    rows_behind,
    uncounted,
    weight_behind,
)
from privgram.regression.least_squares import design_of, terms_of
from privgram.regression.results import CONSTANT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike
    from pandas import DataFrame

    from privgram.regression.design import Design
    from privgram.releases.record import ReleaseRecord


#: Draws of the second moment for each draw that is kept.
PROPOSALS = 2

#: No fewer effective draws of the second moment tell a posterior.
FEWEST = 50.0

#: Standard deviations of the default prior: of the target's over a feature's, and of the
#: intercept in the target's.
SLOPES, LEVEL = 2.5, 10.0


_LOST = (
    "the noise leaves hardly any second moment that is positive definite: take fewer features, "
    "more rows or a larger epsilon"
)


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Printed):
    """Draws of a regression's coefficients, given a release.

    Attributes
    ----------
    names : tuple of str
        The features, then the intercept if there is one.
    draws : ndarray of shape (m, k), float64
        In own units, alike likely.
    sigma : ndarray of shape (m,), float64
        Standard deviations of the errors, in the target's units.
    effective : float
        Number of equally weighted draws of the second moment that they are worth.
    accepted : float
        Share of its draws that were second moments: positive definite.
    """

    names: tuple[str, ...]
    draws: Matrix = field(repr=False)
    sigma: Vector = field(repr=False)
    effective: float
    accepted: float

    @cached_property
    def mean(self) -> Vector:
        """Posterior means, shape (k,)."""
        return np.asarray(self.draws.mean(axis=0))

    @cached_property
    def std(self) -> Vector:
        """Posterior standard deviations, shape (k,)."""
        return np.asarray(self.draws.std(axis=0))

    def interval(self, alpha: float = 0.05) -> Matrix:
        """Central credible intervals of level 1 - alpha, shape (k, 2)."""
        level = level_of(alpha)
        ends = [(1 - level) / 2, (1 + level) / 2]
        # By this definition a further draw lies within with just this probability.
        return np.asarray(np.quantile(self.draws, ends, axis=0, method="weibull").T)

    def frame(self) -> DataFrame:
        """The draws as a data frame (needs pandas), as ArviZ and others take them."""
        return as_frame(self.draws, columns=self.names).assign(sigma=self.sigma)

    def __str__(self) -> str:
        low, high = self.interval().T
        columns = {"mean": self.mean, "sd": self.std, "2.5%": low, "97.5%": high}
        legend = f"{len(self.draws)} draws, worth {self.effective:.0f}"
        return as_text(self.names, columns, legend)


def posterior(
    release: ReleaseRecord,
    target: str,
    features: Iterable[str] | None = None,
    *,
    draws: int = 4000,
    prior_std: ArrayLike | None = None,
    intercept: bool = True,
    reference: Mapping[str, Any] | None = None,
    rng: np.random.Generator | None = None,
) -> Posterior:
    """Draw the coefficients of a regression from their posterior given the release.

    Parameters
    ----------
    release : Release
        Of a mechanism that adds noise.
    target, features, intercept, reference
        As in `regress`.
    draws : int
        m, at least 100.
    prior_std : float or array-like of shape (p,), optional
        Standard deviations of the slopes' prior, which is normal about 0, in own units. By
        default 2.5 standard deviations of the target per one of the feature, as the release
        has them.
    rng : numpy.random.Generator, optional
        Nothing secret is drawn; by default the same draws each time.

    Returns
    -------
    Posterior

    Raises
    ------
    RefusedError
        A ValueError: where the noise leaves too few second moments that are positive definite,
        or the mechanism multiplies by noise.
    ValueError
        If the number of rows is unknown, or a parameter is out of its range.

    Notes
    -----
    The second moment G of features and target has a flat prior on the positive definite matrices,
    so that given the release it has the law of the release less the noise, restricted to them.
    Given G everything is conjugate.  With rss what least squares leaves and q columns, the error's
    variance (its root has a flat prior) is drawn as rss / chi2 of n - q - 1 degrees of freedom, and
    the coefficients are normal.  What G says of these is weighed in by its marginal density,
    rss^{-1/2} N(X^T y; 0, sigma^2 G_X + G_X V G_X): importance weights, by which G is drawn again
    [1]_.

    References
    ----------
    .. [1] G. Bernstein, D. Sheldon, "Differentially private Bayesian linear regression", NeurIPS
       2019, for the model, with Gibbs draws.
    """
    draws = check_integer(draws, "draws", 100)
    rng = np.random.default_rng(0) if rng is None else rng
    if release.parameters.get("moved"):
        raise RefusedError("the repair moved the released matrix: its error has no law")
    n_rows = rows_behind(release)
    if n_rows is None:
        raise ValueError(uncounted(release))
    design = design_of(release, terms_of(release, target, features, intercept, reference))
    law, shifted = design.block(release)
    base = law
    while isinstance(base, ImageLaw):
        base = base.base
    if base.depends:
        raise RefusedError("a posterior is given for mechanisms that add noise, as AnalyzeGauss")
    q = len(shifted) - 1
    degrees = degrees_behind(release, n_rows)
    assert degrees is not None
    if degrees <= q + 2:
        raise RefusedError("there are too few rows: take fewer features, or a release of more rows")
    middle = shifted - law.shift_matrix(q + 1)
    variances = _prior(release, design, middle, n_rows, prior_std)
    drawn, weights = [], []
    tried = PROPOSALS * draws
    zero = np.zeros_like(shifted)
    for _ in range(tried):
        one = _weighed(middle - law.draw(zero, rng), variances, degrees, rng)
        if one is not None:
            drawn.append(one[:2])
            weights.append(one[2])
    if not drawn:
        raise RefusedError(_LOST)
    chances = np.exp(np.array(weights) - max(weights))
    chances /= chances.sum()
    effective = 1 / float((chances**2).sum())
    if effective < FEWEST:
        raise RefusedError(_LOST)
    chosen = rng.choice(len(drawn), size=draws, p=chances)
    theta = np.array([drawn[i][0] for i in chosen])
    coef = theta @ design.transform.T + design.offset
    size = len(design.names) + design.has_level
    # Weighted rows are stored with weights of at most 1.
    unit = math.sqrt(1.0 if release.columns is None else release.columns.largest_weight)
    return Posterior(
        names=(*design.names, CONSTANT)[:size],
        draws=coef[:, :size],
        sigma=np.array([drawn[i][1] for i in chosen]) * float(design.spread[-1]) * unit,
        effective=effective,
        accepted=len(drawn) / tried,
    )


def _weighed(
    moment: Matrix, prior: Matrix, degrees: float, rng: np.random.Generator
) -> tuple[Vector, float, float] | None:
    """Coefficients and deviation of the errors given a second moment, and its log weight."""
    try:
        root = np.linalg.cholesky(moment)
    except np.linalg.LinAlgError:
        return None
    q = len(moment) - 1
    gram, cross = moment[:q, :q], moment[:q, q]
    rss = float(root[q, q] ** 2)
    variance = rss / rng.chisquare(degrees - q - 1)
    marginal = np.linalg.cholesky(variance * gram + gram @ prior @ gram)
    away = np.linalg.solve(marginal, cross)
    weight = -0.5 * float(away @ away) - float(np.log(marginal.diagonal()).sum())
    weight -= 0.5 * math.log(rss)
    # (G / variance + V^{-1})^{-1} by its root.
    precision = np.linalg.cholesky(gram / variance + np.linalg.inv(prior))
    mean = np.linalg.solve(precision.T, np.linalg.solve(precision, cross / variance))
    theta = mean + np.linalg.solve(precision.T, rng.standard_normal(q))
    return theta, math.sqrt(variance), weight


def _prior(
    release: ReleaseRecord,
    design: Design,
    moment: Matrix,
    n_rows: float,
    prior_std: ArrayLike | None,
) -> Matrix:
    """Covariance of the prior of the design's coefficients, shape (q, q)."""
    q, p = len(moment) - 1, len(design.names)
    # The same factor everywhere, where weights have no known sum.
    total = weight_behind(release, n_rows) or n_rows
    sizes = moment.diagonal() / total
    if design.intercept:
        sizes = sizes - (moment[-2] / total) ** 2
    noise = release.noise.entry_variance(release.matrix, design.images).diagonal()
    # No less than its noise: the prior is wide where that hides a feature.
    deviation = np.sqrt(np.maximum(sizes, np.sqrt(noise) / total))
    covariance = np.eye(q) * (LEVEL * max(float(deviation[-1]), 1e-6)) ** 2
    if design.intercept:
        covariance[-1, -1] = LEVEL**2 * max(moment[-1, -1] / total, float(deviation[-1]) ** 2)
    slopes = slice(0, p)
    if prior_std is None:
        wide = SLOPES * deviation[-1] / deviation[:p]
        covariance[slopes, slopes] = np.diag(wide**2)
        return covariance
    try:
        stds = np.broadcast_to(np.asarray(prior_std, dtype=np.float64), p)
    except (TypeError, ValueError):
        stds = np.zeros(1)
    if not (np.isfinite(stds).all() and (stds > 0).all()):
        raise ValueError(f"prior_std is a positive number, or {p} of them, one for each feature")
    back = np.linalg.inv(design.transform[slopes, slopes])
    covariance[slopes, slopes] = back @ np.diag(stds**2) @ back.T
    return covariance
