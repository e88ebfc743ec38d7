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

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["Look", "Meat", "meat_of", "plan_look"]

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


@dataclass(frozen=True)
class Meat:
    """Covariance of X^T e, as released, and how well it is known.

    Attributes
    ----------
    covariance : ndarray of shape (q, q), float64
        Positive definite: the released one, with one deviation of its noise on top in every
        direction.
    deviation : float
        That deviation: of a^T covariance a for unit vectors a.
    """

    covariance: Matrix
    deviation: float

    def drowns(self, solved: Matrix, variance: Vector) -> NDArray[np.bool_]:
        """Which contrasts it leaves open: half of their variance, or more, may be its noise.

        Parameters
        ----------
        solved : ndarray of shape (k, q), float64
            S^{-1} c of each contrast c.
        variance : ndarray of shape (k,), float64
            Theirs, by this covariance.
        """
        drowned: NDArray[np.bool_] = 2 * self.deviation * (solved**2).sum(axis=1) > variance
        return drowned


def plan_look(
    release: ReleaseRecord,
    design: Design,
    n_rows: float,
    variance: Vector,
    noise_std: float,
    clip: float | None,
) -> Look | None:
    """What to release for robust standard errors of a fit; None if noise would drown it.

    Parameters
    ----------
    release, design, n_rows
        Of the fit, which offers inference.
    variance : ndarray of shape (k,), float64
        Of its contrasts, were the variance equal.
    noise_std : float
        Of the look off the diagonal, for rows of length 1.
    clip : float, optional
        Of residuals, in the scale of the released matrix; by default by rule.
    """
    law, shifted = design.block(release)
    matrix = shifted - law.shift_matrix(len(shifted))
    q = len(matrix) - 1
    inverse = np.linalg.inv(matrix[:q, :q])
    v = np.append(-inverse @ matrix[:q, q], 1.0)
    noise = law.sandwich(shifted, np.outer(v, v))[:q, :q]
    residual = max(float(v @ matrix @ v + np.trace(inverse @ noise)), 0.0) / (n_rows - q)
    frame = np.vstack([design.frame[:q], v @ design.frame])
    features = float(np.linalg.norm(frame[:q], 2)) * release.bound
    largest = float(np.linalg.norm(frame[q])) * release.bound
    if release.columns is not None and release.columns.plain:  # entries of rows are at most 1
        reach = np.abs(frame).sum(axis=1)
        features = min(features, float(np.linalg.norm(reach[:q])))
        largest = min(largest, float(reach[q]))
    # What noise of 1 in the look would be in each contrast's variance.
    pulled = math.sqrt(2.0) * ((design.transform @ inverse) ** 2).sum(axis=1)
    real = pulled > 0
    if clip is None:
        room = float((variance[real] / pulled[real]).min()) / (noise_std * features**2)
        clip = math.sqrt(max(NOISE * room, LEAST_CLIP**2 * residual))
    clips, clip = clip < largest, min(clip, largest)
    look = Look(frame, clip, clip * features, clips)
    added = noise_std * look.radius**2 * pulled[real]
    return None if not residual or (added > variance[real]).all() else look


def meat_of(look: ReleaseRecord, n_rows: float) -> Meat:
    """Covariance of X^T e from the look that was released, by HC1.

    The deviation of a^T E a, for the look's noise E, is the same for all unit vectors a, so that
    a multiple of the identity raises each contrast's variance by one deviation of its own noise.
    """
    q = look.n_columns
    factor = n_rows / (n_rows - q)
    deviation = factor * math.sqrt(float(look.noise.entry_variance(look.matrix, np.eye(q))[0, 0]))
    values, vectors = np.linalg.eigh(look.matrix)
    raised = factor * np.maximum(values, 0.0) + deviation
    return Meat((vectors * raised) @ vectors.T, deviation)
