"""Linear regression on a released second moment: post-processing, no further budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._checks import MAX_BOUND, MIN_BOUND, check_not_negative, check_within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from privgram.noise import NoiseLaw
    from privgram.release import Release

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["Fit", "RefusedError", "lasso", "regress"]

INTERCEPT = "intercept"

#: A summary speaks of clipping if it may have moved an estimate by so many standard errors.
NOTICED_SHIFT = 0.5

#: Names longer than this are cut in a summary.
LONGEST_NAME = 32

#: Inference is refused where the noise relative to the features' second moment S,
#: the root mean square of S^{-1/2} N S^{-1/2} over directions, exceeds this:
#: beyond it first-order error propagation no longer holds.
TRUSTED_NOISE = 0.25

#: Columns are said to depend on each other where a direction of the features is within so many
#: standard deviations of nothing though all others exceed so many.
NOTHING, RESOLVED = 2.0, 10.0

#: More columns than this are not named in an error.
MOST_NAMED = 8

#: First penalty of the lasso's path, in the units in which scikit-learn is called.
LARS_FIRST = 1e8


class RefusedError(ValueError):
    """A regression that this release cannot answer, though it was asked for rightly."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A linear regression on a release, in the columns' own units.

    Attributes
    ----------
    target : str
    names : tuple of str
        The p features, without the intercept.
    coef : ndarray of shape (p,), float64
        Target units per feature unit.
    intercept : float
        Target units.
    ridge : float, "auto" or ndarray of shape (p,)
        Penalty added to the released matrix (in its scale), not on the intercept.
    stderr : ndarray of shape (p,), float64
        Standard errors of the unpenalised coefficients, from sampling and
        privacy noise together; NaN where `refusal` says why.
    stderr_intercept : float
    covariance : ndarray of shape (p, p), float64
    refusal : str or None
        Why there is no inference, or None.
    n_rows : float or None
        Rows behind the fit: public, or estimated from the release.
    release : Release
        What it was computed from.
    positions : tuple of int
        Columns of the release that were used: features, intercept, target last.
    unclip : bool
        Whether the effect of clipping was taken off, as if the rows were normal.
    """

    target: str
    names: tuple[str, ...]
    coef: Vector
    intercept: float
    ridge: float | str | Vector
    inference: Inference
    n_rows: float | None
    release: Release
    positions: tuple[int, ...]
    unclip: bool = False

    def __post_init__(self) -> None:
        self.coef.flags.writeable = False

    @property
    def refusal(self) -> str | None:
        """Why there is no inference, or None."""
        return self.inference.refusal

    @property
    def covariance(self) -> Matrix:
        """Covariance of the unpenalised coefficients, shape (p, p)."""
        p = len(self.names)
        return self.inference.covariance[:p, :p]

    @property
    def stderr(self) -> Vector:
        """Standard errors of the unpenalised coefficients, shape (p,)."""
        stderr: Vector = np.sqrt(np.diag(self.covariance))
        return stderr

    @property
    def stderr_intercept(self) -> float:
        """Standard error of the intercept."""
        return math.sqrt(self.inference.covariance[-1, -1])

    def conf_int(self, level: float = 0.95) -> Matrix:
        """Confidence intervals of the coefficients.

        Parameters
        ----------
        level : float
            In (0, 1).

        Returns
        -------
        ndarray of shape (p, 2), float64
            Lower and upper ends, centred on the unpenalised estimate with the
            known shift and the noise's second-order bias removed, so not on
            `coef` where that is shrunk.  NaN where `refusal` says why.
        """
        half = self._quantile(level) * self.stderr
        centre = self.inference.estimate[: len(self.names)]
        return np.stack([centre - half, centre + half], axis=1)

    @staticmethod
    def _quantile(level: float) -> float:
        from scipy.special import ndtri

        return float(ndtri(0.5 + check_within(level, "level", 0, 1) / 2))

    def predict(self, X: ArrayLike) -> Vector:
        """Predicted target.

        Parameters
        ----------
        X : array-like of shape (m, p) or DataFrame
            Features in their own units, in the order of `names`; of a data
            frame the columns of these names are taken.

        Returns
        -------
        ndarray of shape (m,), float64
            In the target's units.
        """
        table: Any = X
        if hasattr(table, "columns") and hasattr(table, "__getitem__"):
            for name in self.names:
                if name not in table.columns:
                    raise ValueError(f"X has no column {name!r}, a feature of this fit")
            table = np.column_stack([np.asarray(table[name], float) for name in self.names])
        values = np.asarray(table, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise ValueError(
                f"X must have shape (m, {len(self.names)}), one column a feature, "
                f"not {values.shape}"
            )
        predicted: Vector = values @ self.coef + self.intercept
        return predicted

    def feature_std(self) -> Vector:
        """Standard deviations of the features, estimated from the release.

        Returns
        -------
        ndarray of shape (p,), float64
            In the features' own units; about zero where the release has no intercept column,
            and 0 where the noise leaves nothing.

        Raises
        ------
        ValueError
            If the number of rows is unknown.
        """
        if self.n_rows is None or self.n_rows < 1:
            raise ValueError(
                "the number of rows is private; use adjacency='replace' or a release with an "
                "intercept column"
            )
        release = self.release
        index = [release.index(name) for name in self.names]
        variance = (np.diag(release.matrix)[index] - release.noise.shift) / self.n_rows
        if INTERCEPT in release.names:
            mean = release.matrix[index, release.index(INTERCEPT)] / self.n_rows
            variance = variance - mean**2
        std: Vector = np.sqrt(np.maximum(variance, 0.0))
        if release.columns is not None:
            own = [release.columns.names.index(name) for name in self.names]
            std = std * release.columns.half_width[own]
        return std

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the coefficients; see `privgram.plots.plot_coefficients`."""
        from privgram.plots import plot_coefficients

        return plot_coefficients(self, ax, **options)

    def summary(self, level: float = 0.95) -> str:
        """A table of the fit as statistics packages print it.

        Parameters
        ----------
        level : float
            Level of the confidence intervals, in (0, 1).
        """
        from scipy.special import ndtr

        half = self._quantile(level)
        rows = self._table_rows()
        margin = min(max(14, *(len(name) + 1 for name, _ in rows)), LONGEST_NAME + 1)
        width = margin + 64
        lines = ["Private Linear Regression Results".center(width).rstrip(), "=" * width]
        lines += self._heading(width)
        lines.append("=" * width)
        if self.refusal is not None:
            lines.append(f"{'':<{margin}}{'coef':>10}")
            lines.append("-" * width)
            lines += [f"{_short(name):<{margin}}{_number(coef, 10)}" for name, coef in rows]
            return "\n".join([*lines, "=" * width, f"No standard errors: {self.refusal}."])
        low, high = f"[{(1 - level) / 2:.3g}", f"{(1 + level) / 2:.3g}]"
        lines.append(
            f"{'':<{margin}}{'coef':>10}{'std err':>11}{'z':>11}{'P>|z|':>10}{low:>11}{high:>11}"
        )
        lines.append("-" * width)
        estimate, errors = self.inference.estimate, np.sqrt(np.diag(self.inference.covariance))
        for i, (name, coef) in enumerate(rows):
            z = estimate[i] / errors[i]
            ends = estimate[i] - half * errors[i], estimate[i] + half * errors[i]
            lines.append(
                f"{_short(name):<{margin}}{_number(coef, 10)}{_number(errors[i], 11)}{z:>11.3f}"
                f"{2 * ndtr(-abs(z)):>10.3f}{_number(ends[0], 11)}{_number(ends[1], 11)}"
            )
        return "\n".join([*lines, "=" * width, "Notes:", *self._notes()])

    def _heading(self, width: int) -> list[str]:
        """What was fitted to what, in two columns."""
        release = self.release
        rows = "unknown" if self.n_rows is None else f"{self.n_rows:,.0f}"
        left = [
            ("Dep. Variable:", _short(self.target)),
            ("Mechanism:", type(release.mechanism).__name__),
            ("No. Observations:", rows),
            ("Ridge:", "per feature" if isinstance(self.ridge, np.ndarray) else str(self.ridge)),
        ]
        right = [
            ("Epsilon:", f"{release.epsilon:g}"),
            ("Delta:", f"{release.delta:g}"),
            ("Adjacency:", release.adjacency),
            ("Row norms up to:", f"{release.bound:.4g}"),
        ]
        first, second = (width - 3) // 2, width - 3 - (width - 3) // 2
        return [
            f"{a}{x:>{first - len(a)}}   {b}{y:>{second - len(b)}}"
            for (a, x), (b, y) in zip(left, right, strict=True)
        ]

    def _notes(self) -> list[str]:
        notes = [f"Standard errors cover sampling and privacy noise ({self.inference.method})."]
        if self.unclip:
            notes.append("The effect of clipping rows was taken off, as if they were normal.")
        else:
            notes.append("Rows are taken as clipped to the norm above, and estimates are of those.")
            moved = self._moved_by_clipping()
            if moved > NOTICED_SHIFT:
                notes.append(
                    f"If rows were normal, clipping moved estimates by up to {moved:.1f} std err: "
                    "see unclip."
                )
        if np.any(self.ridge != 0.0):
            notes.append("coef is penalised; all else is of the unpenalised estimate.")
        elif self.release.noise.shift > 0.0:
            notes.append(
                "coef is shrunk by what the mechanism added to the diagonal; all else is of the "
                "estimate without it."
            )
        if self.release.condition is not None:
            notes.append(f"The privacy guarantee holds only if {self.release.condition}.")
        return [f"[{i}] {note}" for i, note in enumerate(notes, 1)]

    def _moved_by_clipping(self) -> float:
        """What clipping did to the estimates if the rows were normal, in standard errors."""
        *chosen, goal = self.positions
        shift = _clipping_shift(self.release, chosen, goal, self.n_rows)
        own = _own_units(self.release, chosen, goal)[0] @ shift
        size = len(self._table_rows())
        errors = np.sqrt(np.diag(self.inference.covariance))
        return float(np.max(np.abs(own[:size]) / errors[:size], initial=0.0))

    def _table_rows(self) -> list[tuple[str, float]]:
        rows = list(zip(self.names, self.coef.tolist(), strict=True))
        if self.intercept != 0 or self.inference.covariance[-1, -1] > 0:
            rows.append((INTERCEPT, self.intercept))
        return rows

    def __repr__(self) -> str:
        return f"<Fit of {self.target} on {', '.join(self.names)}>"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _number(value: float, width: int) -> str:
    """Four significant digits, right-justified: 0.5123, 12.30, 4.6e-05."""
    text = f"{value:#.4g}"
    return f"{text.rstrip('.') if 'e' not in text else f'{value:.3g}':>{width}}"


@dataclass(frozen=True, eq=False)
class Inference:
    """Unpenalised estimate and its covariance, features first, intercept last."""

    estimate: Vector
    covariance: Matrix
    method: str
    refusal: str | None


def regress(
    release: Release,
    target: str | int,
    features: Iterable[str | int] | None = None,
    *,
    ridge: float | str | ArrayLike = 0.0,
    intercept: bool = True,
    unclip: bool = False,
) -> Fit:
    """Least squares or ridge regression of one released column on others.

    Parameters
    ----------
    release : Release
    target : str or int
        Column to explain.
    features : iterable of str or int, optional
        Columns to explain it by; all others by default.
    ridge : float, "auto" or array-like of shape (p,)
        Penalty on the squared coefficients, one for all or one for each feature, in the
        scale of the released matrix (with `Columns`: every column mapped to [-1, 1]), added
        to what the mechanism itself put on the diagonal; not on the intercept.  "auto"
        chooses it for prediction, by sampling and privacy noise, from the release alone.
    intercept : bool
        Use the column named `intercept`, if the release has one.
    unclip : bool
        Take off what clipping rows to the bound added to the coefficients, as it
        would be were the rows normal (`privgram.clipping`); not for a marginal,
        whose rows' norms are unknown.  By default the fit is that of the clipped rows.

    Returns
    -------
    Fit
        Coefficients in the columns' own units.

    Raises
    ------
    RefusedError
        A ValueError: for a released matrix that is not positive definite on the features.
    ValueError
        For an unknown column, the target among the features, or `unclip` where the number
        of rows is private or noise exceeds the signal.
    """
    chosen, goal = _choose(release, target, features, intercept)
    n_rows = _rows(release)
    block = [*chosen, goal]
    law, matrix = _block(release, block)
    slopes = np.array([release.names[i] != INTERCEPT for i in chosen])
    if isinstance(ridge, str):
        if ridge != "auto":
            raise ValueError(f"ridge must be a number or 'auto', not {ridge!r}")
        from privgram.ridge import Sketch, auto_ridge, possible_rows

        # About the second moment itself: what the mechanism added is part of the choice.
        shifted, matrix = matrix, matrix - law.shift * np.eye(len(block))
        sketched = law.sketch_rows(len(block))
        least = np.trace(release.matrix) - law.shift * release.n_columns
        penalty = auto_ridge(
            matrix,
            lambda frame: law.entry_variance(shifted, frame),
            intercept=not slopes.all(),
            sketch=None if sketched is None else Sketch(sketched, law.shift),
            rows=possible_rows(least / release.bound**2) if n_rows is None else max(n_rows, 1.0),
        )
    else:
        ridge = _check_ridge(ridge, int(slopes.sum()))
        penalty = np.zeros((len(chosen), len(chosen)))
        penalty[slopes, slopes] = ridge
    dependent = _dependent(release, chosen)
    theta = _solve(matrix[:-1, :-1] + penalty, matrix[:-1, -1], ridge, dependent)
    inference = _infer(release, chosen, goal, n_rows)
    reason = _pinned(release, goal) or dependent
    if reason is not None:
        inference = _refuse(len(chosen), reason)
    if unclip:
        shift = _clipping_shift(release, chosen, goal, n_rows)
        theta = theta - shift
        inference = replace(inference, estimate=inference.estimate - shift)
    return _fit(release, chosen, goal, theta, ridge, n_rows, inference, unclip)


def lasso(
    release: Release,
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
    try:
        from sklearn.linear_model import lars_path_gram
    except ImportError as error:
        raise ImportError(
            'the lasso needs scikit-learn: pip install "privgram[sklearn]"'
        ) from error
    n_rows = _rows(release)
    if n_rows is None or n_rows < 1:
        raise ValueError(
            "the penalty is per row, and the number of rows is private; use adjacency='replace' "
            "or a release with an intercept column"
        )
    chosen, goal = _choose(release, target, features, intercept)
    gram, cross = release.matrix[np.ix_(chosen, chosen)], release.matrix[chosen, goal]
    slopes = [i for i, c in enumerate(chosen) if release.names[c] != INTERCEPT]
    if not slopes:
        raise ValueError("there is no feature to regress on")
    _solve(
        gram, cross, 0.0, _dependent(release, chosen)
    )  # refuses an indefinite matrix, on which the path is nonsense
    theta = np.zeros(len(chosen))
    reduced, target_cross = gram[np.ix_(slopes, slopes)], cross[slopes]
    if len(slopes) < len(chosen):
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
    if len(slopes) < len(chosen):
        theta[-1] = (cross[-1] - gram[-1, slopes] @ theta[slopes]) / gram[-1, -1]
    return _fit(
        release,
        chosen,
        goal,
        theta,
        0.0,
        n_rows,
        _refuse(len(chosen), "the lasso has no standard errors here"),
    )


def _fit(
    release: Release,
    chosen: list[int],
    goal: int,
    theta: Vector,
    ridge: float | str | Vector,
    n_rows: float | None,
    inference: Inference,
    unclip: bool = False,
) -> Fit:
    """The fit in the columns' own units, from coefficients of the scaled ones."""
    transform, offset = _own_units(release, chosen, goal)
    own = transform @ theta + offset
    return Fit(
        target=release.names[goal],
        names=tuple(release.names[i] for i in chosen if release.names[i] != INTERCEPT),
        coef=own[:-1],
        intercept=float(own[-1]),
        ridge=ridge,
        inference=Inference(
            transform @ inference.estimate + offset,
            transform @ inference.covariance @ transform.T,
            inference.method,
            inference.refusal,
        ),
        n_rows=n_rows,
        release=release,
        positions=(*chosen, goal),
        unclip=unclip,
    )


def _check_ridge(ridge: ArrayLike, n_features: int) -> float | Vector:
    try:
        values = np.array(ridge, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError("ridge must be 'auto', a number, or a number for each feature") from None
    if values.ndim == 0:
        return check_not_negative(ridge, "ridge")
    if values.shape != (n_features,):
        raise ValueError(
            f"ridge must be a number or {n_features} of them, one for each feature, "
            f"not of shape {values.shape}"
        )
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(f"ridge must be finite and not negative, not {ridge!r}")
    values.flags.writeable = False
    return values


def _refuse(size: int, reason: str) -> Inference:
    return Inference(np.full(size, np.nan), np.full((size, size), np.nan), "none", reason)


def _choose(
    release: Release,
    target: str | int,
    features: Iterable[str | int] | None,
    intercept: bool,
) -> tuple[list[int], int]:
    """Positions of the features, intercept last, and of the target."""
    if not MIN_BOUND <= release.bound <= MAX_BOUND:  # a file of an earlier version
        raise ValueError(
            f"the release has a bound of {release.bound:g}, of which powers leave float64: measure "
            "in another unit and release again"
        )
    goal = release.index(target)
    if release.names[goal] == INTERCEPT:
        raise ValueError("the intercept cannot be the target")
    if isinstance(features, str):
        raise ValueError(f"features must be a list of columns; for one, pass [{features!r}]")
    if features is None:
        chosen = [i for i in range(release.n_columns) if i != goal]
    else:
        chosen = [release.index(name) for name in features]
    if goal in chosen:
        raise ValueError(f"the target {release.names[goal]!r} is among the features")
    if len(set(chosen)) < len(chosen):
        raise ValueError("a feature is named twice")
    chosen = [i for i in chosen if release.names[i] != INTERCEPT]
    if intercept and INTERCEPT in release.names:
        chosen.append(release.names.index(INTERCEPT))
    if not chosen:
        raise ValueError("there is no feature to regress on")
    return chosen, goal


def _block(release: Release, block: list[int]) -> tuple[NoiseLaw, Matrix]:
    """The released matrix of some columns and the law of its noise."""
    law = release.noise
    if len(block) < release.n_columns:
        law = law.marginal(release.n_columns, len(block))
    return law, release.matrix[np.ix_(block, block)]


def _dependent(release: Release, chosen: list[int]) -> str | None:
    """Say so if some directions of the features hold only noise and all others far more."""
    law, shifted = _block(release, chosen)
    values, vectors = np.linalg.eigh(shifted)
    noise = np.sqrt(np.diag(law.entry_variance(shifted, vectors.T)))
    # What the mechanism put on the diagonal is no signal; where it is far more than noise, it
    # makes these coefficients small instead of wild.
    nothing = (values - law.shift < NOTHING * noise) & (values < RESOLVED * noise)
    nothing &= values - law.shift > -RESOLVED * noise
    if not nothing.any() or nothing.all() or (values < RESOLVED * noise)[~nothing].any():
        return None
    # The noise turns these directions by less than a tenth.
    part = np.linalg.norm(vectors[:, nothing], axis=1)
    names = [repr(release.names[c]) for c, share in zip(chosen, part, strict=True) if share > 0.1]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        f"the columns {', '.join(names[:MOST_NAMED])}{more} seem to depend on each other, as the "
        "indicators of all levels do beside an intercept: some combination of them holds nothing "
        "but noise, and if they depend exactly, no epsilon tells their coefficients apart. Leave "
        "one of them out, or use ridge='auto' for predictions"
    )


def _pinned(release: Release, goal: int) -> str | None:
    """Say so if the target's mean is at one of its bounds, as far as the noise can tell."""
    columns = release.columns
    if columns is None or INTERCEPT not in release.names:
        return None
    ones = release.names.index(INTERCEPT)
    count = release.matrix[ones, ones] - release.noise.shift
    total = release.matrix[goal, ones]
    frame = np.eye(release.n_columns)[[ones, goal]]
    noise = math.sqrt(release.noise.entry_variance(release.matrix, frame)[0].sum())
    if count - abs(total) > 3 * noise or count < 20 * noise:
        return None
    at = columns.names.index(release.names[goal])
    end, value = ("upper", columns.upper[at]) if total > 0 else ("lower", columns.lower[at])
    return (
        f"all values of {release.names[goal]!r} seem to lie at its {end} bound, {value:g}, where "
        "values beyond are clamped: so they say nothing of the features. State bounds in the "
        "unit of the values, not far wider than they are, and release again"
    )


def _solve(
    gram: Matrix, cross: Vector, ridge: float | str | Vector, dependent: str | None
) -> Vector:
    values, vectors = np.linalg.eigh(gram)
    if values[0] <= len(values) * np.finfo(float).eps * values[-1]:
        if dependent is not None:
            raise RefusedError(dependent)
        needed = 2 * max(-values[0], np.finfo(float).eps * abs(values[-1]))
        needed += ridge if isinstance(ridge, float) else 0.0
        raise RefusedError(
            "the released matrix is not positive definite on these features: its noise "
            f"exceeds the signal. Use ridge='auto' or a ridge of more than {needed:.3g}, "
            "fewer features, a mechanism whose release is positive definite "
            "(AdditiveWishart, GaussianSketch), or a larger epsilon"
        )
    theta: Vector = vectors @ ((vectors.T @ cross) / values)
    return theta


def _rows(release: Release) -> float | None:
    if release.n_rows is not None:
        return float(release.n_rows)
    if INTERCEPT in release.names:
        i = release.names.index(INTERCEPT)
        return float(max(release.matrix[i, i] - release.noise.shift, 0.0))
    return None


def _clipping_shift(release: Release, chosen: list[int], goal: int, n_rows: float | None) -> Vector:
    """What clipping added to coefficients of the scaled columns, were the rows normal."""
    from privgram.clipping import normal_shift

    if release.columns is not None and release.bound >= release.columns.bound:
        return np.zeros(len(chosen))  # no row was longer than the bound
    if n_rows is None or n_rows <= len(chosen):
        raise ValueError(
            "unclip needs the number of rows: use adjacency='replace' or an intercept column"
        )
    moment = (release.matrix - release.noise.shift * np.eye(release.n_columns)) / n_rows
    if np.linalg.eigvalsh(moment[np.ix_(chosen, chosen)])[0] <= 0:
        raise ValueError("unclip needs noise below the signal in all directions of the features")
    ones = release.names.index(INTERCEPT) if INTERCEPT in release.names else None
    return normal_shift(moment, release.bound, chosen, goal, ones)


def _own_units(release: Release, chosen: list[int], goal: int) -> tuple[Matrix, Vector]:
    """Affine map from coefficients of scaled columns to own units, intercept last."""
    names = [release.names[i] for i in chosen]
    slopes = [name for name in names if name != INTERCEPT]
    p = len(slopes)
    has_intercept = p < len(names)
    transform, offset = np.zeros((p + 1, len(names))), np.zeros(p + 1)
    if release.columns is None:
        transform[:p, :p] = np.eye(p)
        transform[p, p:] = 1.0
        return transform, offset
    # y = c_y + h_y (b_0 + sum_j b_j (x_j - c_j) / h_j)
    own = [release.columns.names.index(name) for name in [*slopes, release.names[goal]]]
    centre, half_width = release.columns.center[own], release.columns.half_width[own]
    transform[:p, :p] = half_width[p] * np.diag(1 / half_width[:p])
    transform[p, :p] = -half_width[p] * centre[:p] / half_width[:p]
    if has_intercept:
        transform[p, p] = half_width[p]
    offset[p] = centre[p]
    return transform, offset


def _infer(release: Release, chosen: list[int], goal: int, n_rows: float | None) -> Inference:
    """Unpenalised estimate and its covariance, in the scale of the released matrix.

    With M the released matrix less its known shift, S its block of features and
    v = (-theta, 1), the estimate S^{-1} s satisfies, exactly,
        S (estimate - theta) = X^T e + (N v)_features,
    N the privacy noise.  So its covariance is S^{-1} (sigma^2 S + Cov (N v)) S^{-1}
    to first order; the second-order bias S^{-1} E[N S^{-1} N v] is subtracted.
    """
    p = len(chosen)
    law, shifted = _block(release, [*chosen, goal])
    matrix = shifted - law.shift * np.eye(p + 1)
    gram, cross = matrix[:p, :p], matrix[:p, p]

    smallest = np.linalg.eigvalsh(gram)[0]
    if smallest <= 0:
        return _refuse(p, "the privacy noise exceeds the signal in some direction of the features")
    inverse = np.linalg.inv(gram)
    theta = inverse @ cross
    v = np.append(-theta, 1.0)
    noise = law.sandwich(shifted, np.outer(v, v))[:p, :p]
    # E[N S^{-1} N], with S^{-1} on the features alone.
    second = law.sandwich(shifted, np.pad(inverse, (0, 1)))[:p]
    if not np.trace(inverse @ second[:, :p]) <= p * TRUSTED_NOISE**2:
        return _refuse(p, "the privacy noise is too large beside the signal for standard errors")
    if n_rows is None:
        return _refuse(
            p,
            "the number of rows is private and the release has no intercept column to "
            "estimate it by",
        )
    if n_rows <= p:
        return _refuse(p, "there are too few rows")
    # Where noise makes this negative it also outweighs the sampling error by far.
    residual = max(v @ matrix @ v + np.trace(inverse @ noise), 0.0)
    variance = residual / (n_rows - p)
    covariance = variance * inverse + inverse @ noise @ inverse
    return Inference(theta + inverse @ (second @ v), covariance, "first-order", None)
