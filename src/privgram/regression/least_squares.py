"""Least squares and ridge regression on a release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.checks import check_not_negative
from privgram.regression.asked import design_of
from privgram.regression.cautions import dependent
from privgram.regression.clipping import clipping_shift
from privgram.regression.fit import Fit
from privgram.regression.inference import RefusedError, rows_behind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike

    from privgram._base.arrays import Matrix, Vector
    from privgram._release.record import ReleaseRecord
    from privgram.regression.design import Design


def regress(
    release: ReleaseRecord,
    target: str | int,
    features: Iterable[str | int] | None = None,
    *,
    ridge: float | str | ArrayLike = 0.0,
    intercept: bool = True,
    unclip: bool = False,
    reference: Mapping[str, Any] | None = None,
) -> Fit:
    """Least squares or ridge regression of one released column on others.

    Parameters
    ----------
    release : Release
    target : str or int
        Column to explain, or a formula such as ``"log(wage) ~ poly(age, 2) + sex*region"`` (extra
        `formula`).
    features : iterable of str or int, optional
        Columns to explain it by; all others by default. Where `Columns` described factors,
        terms: ``"sex"``, ``"poly(age, 2)"``, ``"sex:region"``, and all columns of a term enter.
    ridge : float, "auto" or array-like of shape (p,)
        Penalty on the squared coefficients, one for all or one for each feature, in the
        scale of the released matrix (with `Columns`: every column mapped to [-1, 1]), added
        to what the mechanism itself put on the diagonal; not on the intercept.  "auto"
        chooses it for prediction, by sampling and privacy noise, from the release alone.
    intercept : bool
        Use the column of ones. Without it the fit goes through the origin of own units, which takes
        the ones too, unless all bounds are about 0.
    unclip : bool
        Take off what clipping rows to the bound added to the coefficients, as it
        would be were the rows normal (`privgram.regression.clipping`); not for a marginal,
        whose rows' norms are unknown.  By default the fit is that of the clipped rows.
    reference : mapping of str to level, optional
        The level of a factor that is left out, the first by default.

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
    design = design_of(release, target, features, intercept, reference)
    n_rows = rows_behind(release)
    law, matrix = design.block(release)
    if isinstance(ridge, str):
        if ridge != "auto":
            raise ValueError(f"ridge must be a number or 'auto', not {ridge!r}")
        from privgram.regression.ridge import Sketch, auto_ridge, possible_rows

        # About the second moment itself: what the mechanism added is part of the choice.
        shifted, matrix = matrix, matrix - law.shift_matrix(len(matrix))
        sketched = law.sketch_rows(len(matrix))
        least = np.trace(release.matrix - release.noise.shift_matrix(release.n_columns))
        counted = release.parameters.get("rows") if n_rows is None else n_rows
        likely = release.parameters.get("likely_part", 1.0)  # an estimate goes by no worst case
        matrix[:-1, :-1] += auto_ridge(
            matrix,
            lambda frame: likely * law.entry_variance(shifted, frame),
            intercept=design.intercept,
            sketch=None if sketched is None else Sketch(sketched, law.shift),
            rows=possible_rows(least / release.bound**2) if counted is None else max(counted, 1.0),
        )
    else:
        slopes = np.arange(len(matrix) - 1 - design.intercept)
        ridge = _check_ridge(ridge, len(slopes))
        matrix[slopes, slopes] += ridge
    theta = solve(release, design, matrix, ridge)
    clipping = clipping_shift(release, design, n_rows) if unclip else None
    if clipping is not None:
        theta = theta - clipping
    return fit_of(release, design, theta, ridge, n_rows, clipping=clipping)


def solve(
    release: ReleaseRecord, design: Design, matrix: Matrix, ridge: float | str | Vector
) -> Vector:
    """Coefficients of the features in explaining the last column."""
    gram, cross = matrix[:-1, :-1], matrix[:-1, -1]
    values = np.linalg.eigvalsh(gram)
    if values[0] <= len(values) * np.finfo(float).eps * values[-1]:
        why = dependent(release, design)
        if why is not None:
            raise RefusedError(why)
        needed = 2 * max(-values[0], np.finfo(float).eps * abs(values[-1]))
        needed += ridge if isinstance(ridge, float) else 0.0
        raise RefusedError(
            "the released matrix is not positive definite on these features: its noise "
            f"exceeds the signal. Use ridge='auto' or a ridge of more than {needed:.3g}, "
            "fewer features, a mechanism whose release is positive definite "
            "(AdditiveWishart, GaussianSketch), or a larger epsilon"
        )
    return np.asarray(np.linalg.solve(gram, cross), dtype=np.float64)


def fit_of(
    release: ReleaseRecord,
    design: Design,
    theta: Vector,
    ridge: float | str | Vector,
    n_rows: float | None,
    *,
    clipping: Vector | None = None,
    without: str | None = None,
) -> Fit:
    """The fit in the columns' own units, from coefficients of the scaled ones."""
    own = design.transform @ theta + design.offset
    return Fit(
        target=design.target,
        used=own,
        ridge=ridge,
        n_rows=n_rows,
        release=release,
        design=design,
        clipping=clipping,
        without=without,
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
