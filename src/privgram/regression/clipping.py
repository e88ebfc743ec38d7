"""What clipping rows did to a regression, were the rows normal.

A row r with q = |r|^2 > B^2 enters the second moment as r sqrt(w), w = B^2 / q; w = 1 for the
others.  So a release of clipped rows estimates weighted least squares, with weights that depend on
the target: its coefficients miss those of the rows themselves by

    shift = E[w x x^T]^{-1} E[w x e],    e = y - x^T theta,

which does not fade as rows are added.  For normal rows e is independent of x, and Stein's
identity gives E[w x e] = sum_j Cov(e, r_j) E[x dw/dr_j], dw/dr_j = -2 B^2 r_j / q^2 where
clipped: an average over the clipped rows alone that simulation finds to a few percent.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privgram.mechanisms.refined import RESOLVED, WINDOW, count_sensitivity
from privgram.regression.cautions import uncounted
from privgram.regression.inference import INTERCEPT, rows_behind

if TYPE_CHECKING:
    from privgram._base.arrays import Matrix, Vector
    from privgram._release.record import ReleaseRecord
    from privgram.regression.design import Design


#: With more of the rows unseen, second looks can take more off variances than their errors say.
MOST_UNSEEN = 0.03

#: Simulated numbers; rows are these over the columns, but no fewer than so many.
_NUMBERS, _FEWEST_ROWS = 2**21, 2**15
#: The fixed point is left after so many steps, or moves of this part of the trace.
_STEPS, _SETTLED = 20, 1e-5


def clips(release: ReleaseRecord) -> bool:
    """Whether the public bounds of the columns leave room for rows longer than the bound."""
    if release.privacy_unit is not None:  # whole units are, and nobody knows how many
        return False
    return release.columns is None or release.bound < release.columns.bound


def unseen_share(release: ReleaseRecord) -> float:
    """Share of the rows that second looks may have clipped without seeing them; 0 for one look.

    The private histogram by which `Refined` chose its radius shows long rows where a window of it
    stands out of the noise. Clipping hardly moves coefficients, but variances become smaller.
    """
    if "clipping_bias" not in release.parameters:
        return 0.0
    std = count_sensitivity(release.adjacency) / release.parameters["counts_mu"][-1]
    rows = rows_behind(release)
    return math.inf if rows is None else RESOLVED * std * math.sqrt(WINDOW) / max(rows, 1.0)


def clipping_shift(release: ReleaseRecord, design: Design, n_rows: float | None) -> Vector:
    """What clipping added to coefficients of the scaled columns, were the rows normal."""
    if release.privacy_unit is not None:
        raise ValueError("unclip is for rows that were clipped alone, not for units: leave it out")
    if not clips(release):
        return np.zeros(len(design.frame) - 1)
    if design.positions is None:
        raise ValueError("unclip is for regressions on released columns, not on terms of factors")
    *chosen, goal = design.positions
    if n_rows is None or n_rows <= len(chosen):
        raise ValueError(f"unclip needs the number of rows: {uncounted(release)}")
    moment = (release.matrix - release.noise.shift_matrix(release.n_columns)) / n_rows
    if np.linalg.eigvalsh(moment[np.ix_(chosen, chosen)])[0] <= 0:
        raise ValueError("unclip needs noise below the signal in all directions of the features")
    ones = release.names.index(INTERCEPT) if INTERCEPT in release.names else None
    return normal_shift(moment, release.bound, chosen, goal, ones)


def normal_shift(
    moment: Matrix, bound: float, chosen: list[int], goal: int, ones: int | None
) -> Vector:
    """What clipping to norm B added to the coefficients (len(chosen),), if the rows were normal.

    The moment (d, d), per row, is of all columns of the clipped rows, positive definite on the
    features. Without a column of ones the mean is taken as zero.
    """
    n_rows = max(_NUMBERS // len(moment), _FEWEST_ROWS)
    half = np.random.default_rng(0).standard_normal((n_rows // 2, len(moment)))
    normal = np.concatenate([half, -half])  # a mean of exactly zero
    # The law of the rows whose clipped second moment is the given one, by fixed point.
    whole, before = moment, np.inf
    for _ in range(_STEPS):
        mean = np.zeros(len(moment)) if ones is None else whole[ones] / whole[ones, ones]
        covariance = whole - np.outer(mean, mean)
        values, vectors = np.linalg.eigh(covariance)
        root = np.sqrt(np.maximum(values, 0.0)) * vectors
        rows = mean + normal @ root.T
        square = np.einsum("ij,ij->i", rows, rows)
        clipped = square > bound**2
        rows, square = rows[clipped], square[clipped, None]
        lost = rows.T @ ((1 - bound**2 / square) * rows) / len(normal)
        whole = moment + lost
        if abs(np.trace(lost) - before) <= _SETTLED * np.trace(moment):
            break
        before = np.trace(lost)
    gram = whole[np.ix_(chosen, chosen)]
    contrast = np.zeros(len(moment))
    contrast[goal], contrast[chosen] = 1.0, -np.linalg.solve(gram, whole[chosen, goal])
    slope = -2 * (bound / square) ** 2 * (rows @ (covariance @ contrast))[:, None]
    pull = (rows[:, chosen] * slope).sum(axis=0) / len(normal)
    return np.linalg.solve(moment[np.ix_(chosen, chosen)], pull)
