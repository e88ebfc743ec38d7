"""Rows by the levels of one wide factor, of which no columns are made, on their way into sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privgram._core import scores
from privgram.moment.accumulators import LevelAccumulator
from privgram.secret.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns
    from privgram.secret.kinds import Kind, Model


@dataclass(frozen=True, eq=False)
class LevelImage:
    """What a row u is mapped to: v = A (c u) - centres[level] u_1, c = min(1, bound / |u|).

    u_1 is the row's entry of the column of ones: 1, or the root of its weight. Read of the table
    are columns with the `factor`; those of u are the `others`. `matrix` is A, of shape (m, d), and
    there may be `centres` (K, m).
    """

    read: Columns
    others: Columns
    factor: str
    matrix: Matrix
    centres: Matrix | None = None


class LevelSweep(LevelAccumulator):
    """Feeds images of rows, and their levels, to the integers of sums."""

    inner: Sweep

    def __init__(self, image: LevelImage, kinds: Sequence[Kind], _: int = 0) -> None:
        super().__init__(image.read, image.others, image.factor, image.matrix)
        self.inner = Sweep(kinds)
        self._centres = None if image.centres is None else np.ascontiguousarray(image.centres)

    def feed(self, v: Matrix, one: Vector, levels: NDArray[np.int32]) -> None:
        """Take images, and for each u_1 and its level's position."""
        if self._centres is not None:
            scores.center(v, levels, self._centres, one)
        for model, places, room in self.inner.groups:
            images = v if model.of_level is None else _of_level(model, v, one)
            self.inner.add(images, model.score, places, room, groups=levels)


def _of_level(model: Model, v: Matrix, one: Vector) -> Matrix:
    """The number of a row that is its level's."""
    if model.of_level == "weight":
        return (one**2)[:, None]
    with np.errstate(all="ignore"):  # what is not finite adds nothing
        residual = v[:, -1] * one
        return (residual if model.of_level == "residual" else residual**2)[:, None]
