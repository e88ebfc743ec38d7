"""Huber's regression with bounded leverage: how much a row may say, whatever it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from privgram._core.norms import squared_norms

if TYPE_CHECKING:
    from privgram._base.arrays import Matrix, Vector

LossName = Literal["squared", "huber"]

#: Errors count up to so many scales: 95 % as near as least squares where they are normal.
ERROR = 1.345

#: Rows count in full up to the squared length q + LEVERAGE (2 q)^(1/2) of q whitened features.
LEVERAGE = 2.0


@dataclass(frozen=True)
class Bounded:
    """What a row (z, r) of q whitened features and an error in scales adds to the equation.

    With w = min(1, longest^2 / |z|^2) its score w psi(r) z is `ERROR` times `longest` long at
    most, and the curvature w psi'(r) z z^T at most the square of `longest`.
    """

    q: int
    #: The largest size of what is times z.
    most: ClassVar[float] = ERROR

    @property
    def longest(self) -> float:
        """Length of whitened features up to which rows count in full."""
        return math.sqrt(self.q + LEVERAGE * math.sqrt(2 * self.q))

    def __call__(self, images: Matrix) -> tuple[Matrix, Vector, Vector, None]:
        """Of each row z, what its score is times z, and the root of the same of the curvature."""
        z, r = images[:, : self.q], images[:, self.q]
        square = np.empty(len(images))
        squared_norms(np.ascontiguousarray(z), square)
        weight = self.longest**2 / np.maximum(square, self.longest**2)
        inside = np.abs(r) <= ERROR
        return z, weight * np.clip(r, -ERROR, ERROR), np.sqrt(weight) * inside, None
