"""A second look for errors that go together within a unit: sums of residuals times features.

The sum of e x over a unit's rows is one row of a table of units, whose second moment is the middle
of the cluster-robust variance. Secret side: of what is read only the noisy sum leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privgram._core import rowmap
from privgram.moment.scored import sums_of_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._core.rows import Accumulator
    from privgram._core.units import UnitAccumulator

    Matrix = NDArray[np.float64]

__all__ = ["UnitScores"]


class UnitScores:
    """Feed an accumulator c sum e x for every unit, c the factor by which the release scaled it.

    Parameters
    ----------
    frame : ndarray of shape (d, d), float64
        Of rows, to q features x, then e.
    clip : float
        Of e.
    inner : Accumulator
        Of rows of q columns, one for each unit.
    units : UnitAccumulator
        As the release has it: it tells c, and which columns are centred. Nothing is added to it.
    """

    def __init__(
        self, frame: Matrix, clip: float, inner: Accumulator, units: UnitAccumulator
    ) -> None:
        self.inner = inner
        self.n_columns = len(frame)
        self._clip = clip
        self._units = units
        self._frame = rowmap.transposed(frame)
        self._same = rowmap.transposed(np.eye(len(frame)))
        # No row is longer, and no entry of x.
        self._bound = units.row_bound * (2.0 if units.centred else 1.0)
        self._reach = float(np.linalg.norm(frame[: inner.n_columns], 2)) * self._bound

    def update(self, x: Matrix, starts: NDArray[np.intp], drop: bool = False) -> int:
        """Accumulate units; see `privgram._core.units.UnitAccumulator.update`."""
        norms = np.empty(len(starts))
        bad = self._units.update(x, starts, drop, norms)
        if bad >= 0:
            return bad
        kept: NDArray[np.bool_] = np.logical_not(np.isnan(x).any(axis=1))
        rows, images = np.empty_like(x), np.empty_like(x)
        rowmap.apply(np.where(kept[:, None], x, 0.0), self._units.row_bound, self._same, rows)
        if self._units.centred:
            self._centre(rows, kept, starts)
        rowmap.apply(rows, self._bound, self._frame, images)
        q = self.inner.n_columns
        error = np.clip(images[:, q], -self._clip, self._clip)
        sums = sums_of_units(images[:, :q] * error[:, None], self._clip * self._reach, starts)
        with np.errstate(divide="ignore"):
            factor = np.minimum(1.0, (self._units.bound / norms) ** 2)
        self.inner.update(np.ascontiguousarray(sums * factor[:, None]))
        return -1

    def _centre(self, rows: Matrix, kept: NDArray[np.bool_], starts: NDArray[np.intp]) -> None:
        """Take off the means of a unit's rows."""
        at = list(self._units.centred)
        counts = np.maximum(np.add.reduceat(kept.astype(np.int64), starts), 1)
        means = sums_of_units(rows[:, at], self._units.row_bound, starts) / counts[:, None]
        lengths = np.diff(np.append(starts, len(rows)))
        rows[:, at] -= np.repeat(means, lengths, axis=0)
        rows[~kept] = 0.0

    def merge(self, other: UnitScores) -> None:
        """Add the units of another."""
        self.inner.merge(other.inner)
