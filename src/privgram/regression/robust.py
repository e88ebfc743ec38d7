"""Standard errors for errors of unequal variance: what a second look is to release, and its use.

A release has no fourth moments. With the coefficients of a fit, which are public, the sum of
e^2 x x^T over rows is a second moment again, of rows e x: a second look at the table releases it.
The rules here use public numbers alone (docs/theory/inference.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._release.record import ReleaseRecord
    from privgram.regression.design import Design
    from privgram.regression.equations import Equations

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["Look", "meat_of", "plan_look"]

#: Residuals are clipped where the look's noise is this part of a variance, if they had equal
#: variance; but not below so many of their standard deviations.
NOISE, LEAST_CLIP = 0.1, 4.0


@dataclass(frozen=True)
class Look:
    """What a second look releases: the second moment of e x.

    Attributes
    ----------
    frame : ndarray of shape (q + 1, d), float64
        The features and then the residual, as images of the released columns.
    clip : float
        Residuals are clipped to +- this, in the scale of the released matrix.
    radius : float
        No |e x| is longer.
    clips : bool
        Whether a residual can be larger than the clip.
    """

    frame: Matrix
    clip: float
    radius: float
    clips: bool


def plan_look(
    release: ReleaseRecord,
    design: Design,
    equations: Equations,
    variance: Vector,
    noise_std: float,
    clip: float | None,
) -> Look | None:
    """What to release for robust standard errors of a fit; None if noise would drown it.

    Parameters
    ----------
    release, design, equations
        Of the fit, which offers inference.
    variance : ndarray of shape (k,), float64
        Of its contrasts, were the variance equal.
    noise_std : float
        Of the look off the diagonal, for rows of length 1.
    clip : float, optional
        Of residuals, in the scale of the released matrix; by default by rule.
    """
    q, v, residual = equations.size, equations.v, equations.variance
    unit = release.privacy_unit
    frame = np.vstack([design.frame[:q], v @ design.frame])
    features, largest = _reach(release, frame)
    # What noise of 1 in the look would be in each contrast's variance.
    pulled = math.sqrt(2.0) * ((design.transform[: len(variance)] @ equations.inverse) ** 2).sum(
        axis=1
    )
    real = pulled > 0
    if unit is not None:
        if unit.within:  # a row less its unit's mean may be twice as long
            largest *= 2.0
        clips, clip = clip is not None and clip < largest, min(clip or largest, largest)
        room = float((variance[real] / pulled[real]).min()) / noise_std
        # Sums over a unit, were its errors independent and all units alike.
        usual = (
            residual * float(np.trace(equations.gram)) / _units_behind(release, equations.matrix)
        )
        look = Look(frame, clip, math.sqrt(max(NOISE * room, LEAST_CLIP**2 * usual)), clips)
        added = noise_std * look.radius**2 * pulled[real]
        return None if not residual or (added > variance[real]).all() else look
    if clip is None:
        room = float((variance[real] / pulled[real]).min()) / (noise_std * features**2)
        clip = math.sqrt(max(NOISE * room, LEAST_CLIP**2 * residual))
    clips, clip = clip < largest, min(clip, largest)
    look = Look(frame, clip, clip * features, clips)
    added = noise_std * look.radius**2 * pulled[real]
    return None if not residual or (added > variance[real]).all() else look


def _units_behind(release: ReleaseRecord, matrix: Matrix) -> float:
    """Units that a release is the sum of, or the fewest that it can be."""
    if release.n_units is not None:
        return max(release.n_units, 1)
    # None has a larger trace.
    each = release.bound**2 * math.sqrt(release.n_columns)
    return max(float(np.trace(matrix)) / each, 1.0)


def _reach(release: ReleaseRecord, frame: Matrix) -> tuple[float, float]:
    """The largest |x| and |e| of rows within the public bounds, x and e being images by a frame."""
    unit = release.privacy_unit
    rows = release.bound if unit is None or unit.row_bound is None else unit.row_bound
    features, error = float(np.linalg.norm(frame[:-1], 2)), float(np.linalg.norm(frame[-1])) * rows
    columns = release.columns
    if columns is None:
        return features * rows, error
    full = np.zeros((len(frame), len(columns)))
    full[:, [columns.names.index(name) for name in release.names]] = np.abs(frame)
    # Of a piece's columns, one is not 0, and at most the weight.
    pieces = columns.layout.stored
    most = np.array([piece.weight * full[:, piece.columns].max(axis=1) for piece in pieces]).T
    used = [piece.weight for piece, x in zip(pieces, most[:-1].T, strict=True) if x.any()]
    return features * min(math.hypot(*used), rows), min(float(most[-1].sum()), error)


def meat_of(look: ReleaseRecord, n_rows: float) -> Matrix:
    """Covariance of X^T e by HC1 from the look that was released, on the wide side.

    The noise E of the look has the same deviation in a^T E a for all unit vectors a. So a multiple
    of the identity raises each contrast's variance by one deviation of its own noise, and
    eigenvalues below another say nothing (docs/theory/inference.md).

    Returns
    -------
    ndarray of shape (q, q), float64
        Positive definite.
    """
    deviation = math.sqrt(look.noise.entry_variance(look.matrix, np.eye(look.n_columns))[0, 0])
    values, vectors = np.linalg.eigh(look.matrix)
    raised = np.maximum(values, deviation) + deviation
    factor = n_rows / (n_rows - look.n_columns)
    if look.n_units is not None and look.n_units > 1:
        factor *= look.n_units / (look.n_units - 1)
    meat: Matrix = factor * (vectors * raised) @ vectors.T
    return meat
