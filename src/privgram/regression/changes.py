"""How coefficients differ between two fits, of different rows, that may share noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privgram.noise import MaskedLaw, TiedLaw
from privgram.regression.groups import Estimates, difference

if TYPE_CHECKING:
    from privgram._base.arrays import Matrix, Vector
    from privgram._release.record import ReleaseRecord
    from privgram.regression import Fit


def change(fit: Fit, earlier: Fit) -> Estimates:
    """Tell how coefficients changed between two windows of one stream: the first less the second.

    Of different periods and by the same terms. Their rows are different ones; of their noises the
    covariance is known, and taken off twice (docs/theory/streams.md). Degrees of freedom are
    Satterthwaite's.
    """
    if (fit.param_names, fit.target) != (earlier.param_names, earlier.target):
        raise ValueError("the two regressions have other terms")
    p = len(fit.param_names)
    both = _shared(fit.release, earlier.release) * _overlap(fit, earlier)[:p, :p]
    return difference("change", fit, earlier, both)


def _shared(one: ReleaseRecord, other: ReleaseRecord) -> float:
    """Covariance of the noises of two releases of a stream, off the diagonal, entry by entry."""
    of, by = one.parameters, other.parameters
    if "stream" not in of or of["stream"] != by.get("stream"):
        raise ValueError("a change is between two windows of one stream")
    (start, stop), (begin, end) = of["periods"], by["periods"]
    if max(start, begin) <= min(stop, end):
        raise ValueError("the two windows share periods: a change is between different rows")
    k = min(len(of["stream_weights"]), len(by["stream_weights"]))
    weights = np.dot(of["stream_weights"][:k], by["stream_weights"][:k])
    return float(of["stream_std"] ** 2 * weights)


def _overlap(fit: Fit, earlier: Fit) -> Matrix:
    """Covariances of coefficients by one noise of deviation 1 in both releases, shape (p, p).

    An estimate's error by noise N is <N, sym(a w^T)>, of variance 2 ||P sym(a w^T)||_F^2 where P
    projects on what is known of the noise.
    """
    (a, w), (b, u) = _forms(fit), _forms(earlier)
    law = earlier.release.noise
    found = np.empty((len(a), len(b)))
    for j, row in enumerate(b):
        form = np.outer(row, u)
        form = (form + form.T) / 2
        if isinstance(law, (MaskedLaw, TiedLaw)):
            form = law.project(form)
        found[:, j] = 2 * (a @ (form @ w))
    return found


def _forms(fit: Fit) -> tuple[Matrix, Vector]:
    """The a and the w by which noise N moves each coefficient by a^T N w."""
    equations, design = fit._equations, fit.design
    return design.transform @ equations.inverse @ design.frame[:-1], equations.v @ design.frame
