"""The weighing of `privgram._core.weigh` in plain NumPy: the oracle of its tests."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["exponential", "weigh"]

Matrix = NDArray[np.float64]

#: Beyond this eta is as far as it can be.
FARTHEST = 30.0


def exponential(x: Matrix) -> Matrix:
    """e^x for numbers up to 700 in size, one product and one sum at a time."""
    k = np.rint(x * 1.4426950408889634)
    high, low = float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c7673p-45")
    r = (x - k * high) - k * low
    total = np.full_like(x, 1 / math.factorial(13))
    for n in range(12, -1, -1):
        total = total * r + 1 / math.factorial(n)
    return total * np.ldexp(1.0, np.where(np.isnan(k), 0, k).astype(int))


def weigh(
    family: str, rows: Matrix, coef: Matrix, target: tuple[float, float], clip: float
) -> tuple[Matrix, Matrix]:
    """What a Newton step sums over rows.

    Parameters
    ----------
    family : {"logistic", "poisson"}
    rows : ndarray of shape (n, d), float64
        The features, as many as there are coefficients, then the target, which stands for
        center + half_width * value.
    coef : ndarray of shape (p,), float64
    target : tuple of float
        Center and half-width.
    clip : float

    Returns
    -------
    curved : ndarray of shape (n, p), float64
        sqrt(w) z, with w the derivative of the mean.
    pulled : ndarray of shape (n, p + 1), float64
        e z, at most `clip` long, with e the residual; and the clip.
    """
    p = len(coef)
    z, eta = rows[:, :p], np.zeros(len(rows))
    for j in range(p):
        eta = eta + coef[j] * z[:, j]
    eta = np.clip(eta, -FARTHEST, FARTHEST)
    if family == "poisson":
        mean = exponential(eta)
        root = np.sqrt(mean)
    else:
        e = exponential(-np.abs(eta))
        mean = np.where(eta < 0, e, 1.0) / (1 + e)
        root = np.sqrt(e) / (1 + e)
    error = (target[0] + target[1] * rows[:, p]) - mean
    pulled, square = error[:, None] * z, np.zeros(len(rows))
    for j in range(p):
        square = square + pulled[:, j] * pulled[:, j]
    with np.errstate(divide="ignore", invalid="ignore"):
        shorter = np.where(square > clip * clip, clip / np.sqrt(square), 1.0)
    ends = clip + (error - error)
    return root[:, None] * z, np.column_stack([pulled * shorter[:, None], ends])
