"""The row map of `privgram._core.rowmap` in plain NumPy: the oracle of its tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["map_rows"]


def map_rows(block: NDArray[Any], bound: float, frame: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows A (c u) for the rows u of a block and c = min(1, bound / |u|), A being the frame.

    NaN throughout a row that holds NaN or infinity.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        u = np.asarray(block, dtype=np.float64)
        squares = _squares(u)
        beyond = np.isinf(squares)
        u = np.where(beyond[:, None], u * 2.0**-600, u)
        squares = np.where(beyond, _squares(u), squares)
        clipped = beyond | (squares > bound * bound)
        u = u * np.where(clipped, bound / np.sqrt(squares), 1.0)[:, None]
        images = np.zeros((len(u), len(frame)))
        for j in range(u.shape[1]):  # one product and one sum at a time
            images = images + u[:, j : j + 1] * frame[:, j]
        return images


def _squares(u: NDArray[np.float64]) -> NDArray[np.float64]:
    total = np.zeros(len(u))
    for column in u.T:
        total = total + column * column
    return total
