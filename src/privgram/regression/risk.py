"""What a regression that was chosen by a release would leave of new rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.arrays import Vector
    from privgram.regression.equations import Equations


Criterion: TypeAlias = Literal["aic", "bic"]


def criterion_of(criterion: Criterion) -> Criterion:
    """Check the name of a criterion."""
    if criterion not in ("aic", "bic"):
        raise ValueError(f"criterion is 'aic' or 'bic', not {criterion!r}")
    return criterion


def estimated_risk(
    equations: Equations,
    theta: Vector,
    active: NDArray[np.intp],  # columns with a coefficient, the ones among them
    ridge: Vector | float,  # what was added to their diagonal, each
    criterion: Criterion,
) -> tuple[float, float]:
    """Sum of squares that coefficients (p,) leave of new rows, and their effective number.

    The released sum of squares v^T M v of coefficients fitted to it is too small by what they
    follow of the errors X^T e + (N v)_features, of covariance C: twice tr(H^-1 C) over the active
    columns, H being the matrix that was solved. Without noise that is Mallows's Cp (Technometrics
    15, 1973); "bic" takes log n in the place of 2 (G. Schwarz, Ann. Statist. 6, 1978).
    """
    assert equations.n_rows is not None
    v = np.append(-theta, 1.0)
    squares = float(v @ equations.matrix @ v)
    if not len(active):
        return squares, 0.0
    block = np.ix_(active, active)
    sampling = equations.variance * equations.gram[block]
    errors = sampling + equations.noise_at(v)[block]
    solved = equations.gram[block] + np.diag(np.broadcast_to(ridge, len(active)))
    each = 2.0 if criterion == "aic" else math.log(equations.n_rows)
    followed = float(np.trace(np.linalg.solve(solved, errors)))
    df = float(np.trace(np.linalg.solve(solved, equations.gram[block])))
    return squares + each * followed, df
