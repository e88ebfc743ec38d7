"""The weighing of `privgram._core.weigh` in plain NumPy: the oracle of its tests."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["exponential", "reach", "weigh"]

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
    return np.asarray(total * np.ldexp(1.0, np.where(np.isnan(k), 0, k).astype(int)))


def weigh(
    rows: Matrix, coef: Matrix, target: tuple[float, float], clip: float
) -> tuple[Matrix, Matrix]:
    """What a Newton step sums over rows.

    Parameters
    ----------
    rows : ndarray of shape (n, d), float64
        The features z, as many as there are coefficients, then the target, which stands for
        center + half_width * value.
    coef : ndarray of shape (p,), float64
    target : tuple of float
        Center and half-width.
    clip : float

    Returns
    -------
    curved : ndarray of shape (n, p), float64
        sqrt(o w) z, with w = chance (1 - chance) and o = min(1, clip / the row's `reach`).
    pulled : ndarray of shape (n, p + 1), float64
        o (target - chance) z, and the clip.
    """
    p = len(coef)
    z, (chance, root) = rows[:, :p], _odds(rows, coef)
    error = (target[0] + target[1] * rows[:, p]) - chance
    square = np.zeros(len(rows))
    for j in range(p):
        square = square + z[:, j] * z[:, j]
    length = np.where(chance < 0.5, 1 - chance, chance) * np.sqrt(square)
    with np.errstate(divide="ignore", invalid="ignore"):
        o = np.where(length > clip, clip / length, 1.0)
    curved, pulled = (np.sqrt(o) * root)[:, None] * z, (o * error)[:, None] * z
    return curved, np.column_stack([pulled, clip + (error - error)])


def reach(rows: Matrix, coef: Matrix) -> Matrix:
    """max(chance, 1 - chance) z: the largest score that each row can have.

    Parameters
    ----------
    rows, coef
        As for `weigh`.

    Returns
    -------
    ndarray of shape (n, p), float64
    """
    p = len(coef)
    chance, _ = _odds(rows, coef)
    most = np.where(chance < 0.5, 1 - chance, chance) + (rows[:, p] - rows[:, p])
    return np.asarray(most[:, None] * rows[:, :p])


def _odds(rows: Matrix, coef: Matrix) -> tuple[Matrix, Matrix]:
    """Probabilities, and roots of chance (1 - chance)."""
    eta = np.zeros(len(rows))
    for j in range(len(coef)):
        eta = eta + coef[j] * rows[:, j]
    eta = np.clip(eta, -FARTHEST, FARTHEST)
    e = exponential(-np.abs(eta))
    return np.where(eta < 0, e, 1.0) / (1 + e), np.sqrt(e) / (1 + e)
