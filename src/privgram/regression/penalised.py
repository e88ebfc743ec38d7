"""Sparse regression on a release: the lasso."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.checks import check_not_negative
from privgram._base.optional import extra
from privgram.regression.asked import design_of
from privgram.regression.cautions import uncounted
from privgram.regression.fit import Fit
from privgram.regression.inference import rows_behind
from privgram.regression.least_squares import fit_of, solve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from privgram._release.record import ReleaseRecord

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["lasso"]

#: First penalty of the lasso's path, in the units in which scikit-learn is called.
LARS_FIRST = 1e8


def lasso(
    release: ReleaseRecord,
    target: str | int,
    features: Iterable[str | int] | None = None,
    *,
    alpha: float,
    intercept: bool = True,
) -> Fit:
    """L1-penalised regression by scikit-learn's Gram solver (extra `sklearn`).

    Parameters
    ----------
    release, target, features, intercept
        As in `regress`.
    alpha : float
        Penalty per row: minimises ||y - X b||^2 / (2 n) + alpha ||b||_1 in the
        scale of the released matrix; not on the intercept.

    Returns
    -------
    Fit
        Without standard errors.
    """
    alpha = check_not_negative(alpha, "alpha")
    with extra("sklearn", "the lasso needs"):
        from sklearn.linear_model import lars_path_gram
    n_rows = rows_behind(release)
    if n_rows is None or n_rows < 1:
        raise ValueError(f"the penalty is per row, and {uncounted(release)}")
    design = design_of(release, target, features, intercept)
    _, block = design.block(release)
    gram, cross = block[:-1, :-1], block[:-1, -1]
    slopes = list(range(len(gram) - design.intercept))
    if not slopes:
        raise ValueError("there is no feature to regress on")
    # Refuses an indefinite matrix, on which the path is nonsense.
    solve(release, design, block, 0.0)
    theta = np.zeros(len(gram))
    reduced, target_cross = gram[np.ix_(slopes, slopes)], cross[slopes]
    if design.intercept:
        # The best intercept for given slopes, put back in (a Schur complement).
        column = gram[slopes, -1] / gram[-1, -1]
        reduced = reduced - np.outer(column, gram[slopes, -1])
        target_cross = target_cross - column * cross[-1]
    # The solver stops at an absolute tolerance of the penalty, and drops features by their
    # absolute size.  In units in which no direction is shorter than 1 and the first penalty of
    # the path is huge, neither happens to what is not rounding.
    values = np.linalg.eigvalsh(reduced)
    unit = math.sqrt(max(values[0], np.finfo(float).eps * values[-1]))
    goal_unit = float(np.abs(target_cross).max()) / (unit * LARS_FIRST) or 1.0
    _, _, path = lars_path_gram(
        target_cross / (unit * goal_unit),
        reduced / unit**2,
        n_samples=1,
        alpha_min=alpha * n_rows / (unit * goal_unit),
        method="lasso",
    )
    theta[slopes] = path[:, -1] * (goal_unit / unit)
    if design.intercept:
        theta[-1] = (cross[-1] - gram[-1, slopes] @ theta[slopes]) / gram[-1, -1]
    reason = "the lasso has no standard errors here"
    return fit_of(release, design, theta, 0.0, n_rows, without=reason)
