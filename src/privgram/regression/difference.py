"""Differences of the coefficients of two regressions.

The rows of two groups are different ones and so is their noise: estimates of them are independent.
Between two windows of a stream the noise is shared, in a way that is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privgram.noise import MaskedLaw, TiedLaw
from privgram.regression.hypothesis import Contrasts
from privgram.regression.inference import Inference, RefusedError

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.regression.ols import OLSResults
    from privgram.releases.record import ReleaseRecord


def difference(
    what: str, fit: OLSResults, other: OLSResults, shared: Matrix | float = 0.0
) -> Contrasts:
    """Coefficients of one fit less those of another, of different rows and the same terms.

    Variances add up, less twice the covariance `shared` of the two estimates, shape (p, p).
    Degrees of freedom are Satterthwaite's. Refused if one of them has no standard errors.
    """
    for one in (fit, other):
        if one.refusal is not None:
            raise RefusedError(f"there is no inference in one of the two: {one.refusal}")
    b, c = fit.inference, other.inference
    whole = (b.covariance + c.covariance).diagonal()
    spread = b.covariance.diagonal() ** 2 / b.df + c.covariance.diagonal() ** 2 / c.df
    df = np.divide(whole**2, spread, out=np.full(len(spread), np.inf), where=spread > 0)
    both = np.broadcast_to(shared, b.covariance.shape)
    covariance = b.covariance + c.covariance - both - both.T
    hypothesis = tuple(f"{name}: {what}" for name in fit.param_names)
    inference = Inference(b.estimate - c.estimate, covariance, None, df)
    return Contrasts(hypothesis, inference, np.zeros(len(df)))


def change(fit: OLSResults, earlier: OLSResults) -> Contrasts:
    """Tell how coefficients changed between two windows of one stream: the first less the second.

    Of different periods and by the same terms. Their rows are different ones; of their noises the
    covariance is known, and taken off twice (docs/theory/streams.md). Degrees of freedom are
    Satterthwaite's.
    """
    if (fit.param_names, fit.target) != (earlier.param_names, earlier.target):
        raise ValueError("the two regressions have other terms: fit the same formula on both")
    p = len(fit.param_names)
    both = _shared(fit.release, earlier.release) * _overlap(fit, earlier)[:p, :p]
    return difference("last less first", fit, earlier, both)


def _shared(one: ReleaseRecord, other: ReleaseRecord) -> float:
    """Covariance of the noises of two releases of a stream, off the diagonal, entry by entry."""
    of, by = one.parameters, other.parameters
    if "stream" not in of or of["stream"] != by.get("stream"):
        raise ValueError("a change is between two windows of one stream: take both from it")
    (start, stop), (begin, end) = of["periods"], by["periods"]
    if max(start, begin) <= min(stop, end):
        raise ValueError("the two windows share periods: a change is between different rows")
    k = min(len(of["stream_weights"]), len(by["stream_weights"]))
    weights = np.dot(of["stream_weights"][:k], by["stream_weights"][:k])
    return float(of["stream_std"] ** 2 * weights)


def _overlap(fit: OLSResults, earlier: OLSResults) -> Matrix:
    """Covariances of coefficients by one noise of deviation 1 in both releases, shape (p, p).

    An estimate's error by noise N is <N, sym(a w^T)>, of variance 2 ||P sym(a w^T)||_F^2 where P
    projects on what is known of the noise.
    """
    (a, w), (b, u) = _forms(fit), _forms(earlier)
    law = earlier.release.noise
    covariances = np.empty((len(a), len(b)))
    for j, row in enumerate(b):
        form = np.outer(row, u)
        form = (form + form.T) / 2
        if isinstance(law, (MaskedLaw, TiedLaw)):
            form = law.project(form)
        covariances[:, j] = 2 * (a @ (form @ w))
    return covariances


def _forms(fit: OLSResults) -> tuple[Matrix, Vector]:
    """The a and the w by which noise N moves each coefficient by a^T N w."""
    equations, design = fit._equations, fit.design
    return design.transform @ equations.inverse @ design.images[:-1], equations.v @ design.images
