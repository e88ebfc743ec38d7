"""Sparse regression on a release: the lasso, the elastic net and their paths."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from privgram._base.installed import extra
from privgram._base.numbers import Matrix, Vector, check_integer, check_not_negative, check_one_of
from privgram.regression.inference import (
    Equations,
    RefusedError,
    degrees_behind,
    rows_behind,
    uncounted,
    why_refused,
)
from privgram.regression.least_squares import design_of, solve, terms_of
from privgram.regression.ols import OLSResults

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from privgram.regression.design import Design
    from privgram.releases.record import ReleaseRecord

Criterion: TypeAlias = Literal["aic", "bic"]


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


#: First penalty of the lasso's path, in the units in which scikit-learn is called.
LARS_FIRST = 1e8

#: The smallest penalty of an elastic net's path, of the first.
LAST = 1e-4


@dataclass(frozen=True, eq=False)
class PenaltyPath:
    """Fits for falling penalties, and which of them is best.

    Attributes
    ----------
    names : tuple of str
        The p features.
    alphas : ndarray of shape (k,), float64
        Penalties per row, falling.
    coefs : ndarray of shape (k, p), float64
        In own units.
    df : ndarray of shape (k,), float64
        Effective number of coefficients, the intercept among them.
    values : ndarray of shape (k,), float64
        The criterion: the sum of squares that new rows would leave, in the scale of the release,
        up to a constant.
    criterion : {"aic", "bic"}
    l1_ratio : float
    fit : OLSResults
        Of the smallest value. Without standard errors.
    """

    names: tuple[str, ...]
    alphas: Vector
    coefs: Matrix
    df: Vector
    values: Vector
    criterion: Criterion
    l1_ratio: float
    fit: OLSResults = field(repr=False)

    @property
    def best(self) -> int:
        """Place of the smallest value."""
        return int(np.argmin(self.values))

    @property
    def alpha(self) -> float:
        """The penalty chosen."""
        return float(self.alphas[self.best])


def penalty_path(
    release: ReleaseRecord,
    target: str | int,
    features: Iterable[str | int] | None = None,
    *,
    l1_ratio: float = 1.0,
    criterion: Criterion = "aic",
    n_alphas: int = 50,
    intercept: bool = True,
) -> PenaltyPath:
    """The lasso or elastic net for all penalties, and the one that predicts best (extra `sklearn`).

    Minimises ||y - X b||^2 / (2 n) + alpha (l1_ratio ||b||_1 + (1 - l1_ratio) ||b||_2^2 / 2).

    Parameters
    ----------
    release, target, features, intercept
        As in `regress`.
    l1_ratio : float
        In (0, 1]; 1 for the lasso, whose path is given at its knots.
    criterion : {"aic", "bic"}
        Counts a coefficient by 2 or by log n of what it follows of sampling and privacy noise; see
        `privgram.regression.selection.estimated_risk`.
    n_alphas : int
        Penalties that are tried for an elastic net.

    Returns
    -------
    PenaltyPath

    Raises
    ------
    RefusedError
        A ValueError: where least squares of all features has no inference, by which the risk is
        judged.
    ValueError
        If a parameter is out of its range, or the number of rows is unknown.
    """
    check_one_of(criterion, "criterion", get_args(Criterion))
    if not 0 < check_not_negative(l1_ratio, "l1_ratio") <= 1:
        raise ValueError(f"l1_ratio must lie in (0, 1], not {l1_ratio}")
    n_alphas = check_integer(n_alphas, "n_alphas", 2)
    problem = _Problem.of(release, target, features, intercept)
    n = problem.n_rows
    if l1_ratio == 1:
        alphas, paths = problem.knots(0.0)
        alphas /= n
        ridges = np.zeros(len(alphas))
    else:
        first = float(np.abs(problem.cross).max()) / (n * l1_ratio)
        alphas = first * np.geomspace(1.0, LAST, n_alphas)
        ridges = alphas * n * (1 - l1_ratio)
        pairs = zip(alphas, ridges, strict=True)
        paths = np.array([problem.knots(a * n * l1_ratio, r)[1][-1] for a, r in pairs])
    design = problem.design
    law, shifted = design.block(release)
    equations = Equations(law, shifted, degrees_behind(release, rows_behind(release)))
    if (reason := why_refused(release, equations)) is not None:
        raise RefusedError(f"there is no inference, by which to choose a penalty: {reason}")
    coefs, df, values = [], [], []
    for slopes, ridge in zip(paths, ridges, strict=True):
        theta = problem.whole(slopes)
        active = np.flatnonzero(slopes)
        ones = np.arange(len(slopes), len(theta))
        added = np.append(np.full(len(active), ridge), np.zeros(len(ones)))
        used = np.append(active, ones)
        risk, freedom = estimated_risk(equations, theta, used, added, criterion)
        coefs.append((design.transform @ theta + design.offset)[:-1])
        df.append(freedom)
        values.append(risk)
    chosen = paths[int(np.argmin(values))]
    return PenaltyPath(
        names=design.names,
        alphas=alphas,
        coefs=np.array(coefs),
        df=np.array(df),
        values=np.array(values),
        criterion=criterion,
        l1_ratio=l1_ratio,
        fit=problem.fit(chosen, "a penalised fit has no standard errors here"),
    )


@dataclass(frozen=True, eq=False)
class _Problem:
    """What the penalty is added to: the features' second moment, the intercept taken out."""

    release: ReleaseRecord
    design: Design
    n_rows: float
    gram: Matrix
    cross: Vector
    block: Matrix

    @classmethod
    def of(
        cls,
        release: ReleaseRecord,
        target: str | int,
        features: Iterable[str | int] | None,
        intercept: bool,
    ) -> _Problem:
        n_rows = rows_behind(release)
        if n_rows is None or n_rows < 1:
            raise ValueError(f"the penalty is per row, and {uncounted(release)}")
        design = design_of(release, terms_of(release, target, features, intercept))
        _, block = design.block(release)
        size = len(block) - 1 - design.intercept
        if not size:
            raise ValueError("there is no feature to regress on: name one beside the target")
        # Refuses an indefinite matrix, on which the path is nonsense.
        solve(release, design, block, 0.0)
        gram, cross = block[:size, :size], block[:size, -1]
        if design.intercept:
            # The best intercept for given slopes is put back in by `whole` (a Schur complement).
            column = block[:size, -2] / block[-2, -2]
            gram = gram - np.outer(column, block[:size, -2])
            cross = cross - column * block[-2, -1]
        return cls(release, design, n_rows, gram, cross, block)

    def knots(self, last: float, ridge: float = 0.0) -> tuple[Vector, Matrix]:
        """Penalties and slopes at the knots of the lasso's path down to a penalty.

        Penalties are of sums over rows.
        """
        with extra("sklearn", "the lasso needs"):
            from sklearn.linear_model import lars_path_gram
        gram = self.gram + ridge * np.eye(len(self.gram))
        # The solver stops at an absolute tolerance of the penalty, and drops features by their
        # absolute size.  In units in which no direction is shorter than 1 and the first penalty
        # of the path is huge, neither happens to what is not rounding.
        values = np.linalg.eigvalsh(gram)
        unit = math.sqrt(max(values[0], np.finfo(float).eps * values[-1]))
        goal_unit = float(np.abs(self.cross).max()) / (unit * LARS_FIRST) or 1.0
        penalties, _, path = lars_path_gram(
            self.cross / (unit * goal_unit),
            gram / unit**2,
            n_samples=1,
            alpha_min=last / (unit * goal_unit),
            method="lasso",
        )
        return penalties * (unit * goal_unit), path.T * (goal_unit / unit)

    def whole(self, slopes: Vector) -> Vector:
        """The slopes and their best intercept."""
        if not self.design.intercept:
            return slopes
        size = len(slopes)
        ones = self.block[-2]
        return np.append(slopes, (ones[-1] - ones[:size] @ slopes) / ones[-2])

    def fit(self, slopes: Vector, reason: str) -> OLSResults:
        """The fit of these slopes, without inference."""
        theta = self.whole(slopes)
        return OLSResults(self.release, self.design, theta, 0.0, self.n_rows, without=reason)
