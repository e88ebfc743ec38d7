"""Rows on their way into accumulators of a Newton step, weighed by public coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privgram._core.norms import squared_norms
from privgram._core.rows import Accumulator
from privgram._core.weigh import reach, weigh

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PARTS", "Reaching", "Weighed"]

#: What a row counts is a multiple of one over this: sums of whole numbers are exact.
PARTS = 32


class Weighed:
    """Feed accumulators sqrt(o w) z, and (o e z, clip), for every row (z, target, ...).

    Each row's images depend on it alone (`privgram._core.weigh`).

    Parameters
    ----------
    coef : ndarray of shape (p,), float64
        Of the features as they are mapped: public.
    target : tuple of float
        Center and half-width of the target.
    clip : float
        No score o e z is longer.

    Attributes
    ----------
    curved : Accumulator
        Of rows of p columns up to `clip`.
    pulled : Accumulator
        Of rows of p + 1 columns.
    """

    def __init__(self, coef: NDArray[np.float64], target: tuple[float, float], clip: float) -> None:
        self.curved = Accumulator(len(coef), clip)
        self.pulled = Accumulator(len(coef) + 1, 2.0**0.5 * clip)
        self._given = coef, target, clip

    def update(self, block: NDArray[np.float64], drop: bool = False) -> int:
        """Accumulate the rows of a block; see `privgram._core.rows.Accumulator.update`."""
        p = self.curved.n_columns
        curved, pulled = np.empty((len(block), p)), np.empty((len(block), p + 1))
        weigh(block, *self._given, curved, pulled)
        bad = self.pulled.update(pulled, drop)
        return bad if bad >= 0 else self.curved.update(curved, drop)

    def merge(self, other: Weighed) -> None:
        """Add the rows of another."""
        self.pulled.merge(other.pulled)
        self.curved.merge(other.curved)

    @property
    def n_rows(self) -> int:
        """Rows so far."""
        return self.pulled.n_rows

    @property
    def n_dropped(self) -> int:
        """Rows left out."""
        return self.pulled.n_dropped


class Reaching:
    """Add up how far rows (z, target, ...) are from what is expected, by how long scores can be.

    A score e z can be as long as m |z|, m = max(p, 1 - p). A row counts |e| / m where m |z| is: in
    [0, 1], and rounded to a multiple of 1 / `PARTS`.

    Parameters
    ----------
    coef : ndarray of shape (p,), float64
    target : tuple of float
        Center and half-width of the target.
    grid : ndarray of shape (m,), float64
        Increasing. Interval i ends at grid[i]; the last one takes all that is longer.

    Attributes
    ----------
    counts : ndarray of shape (m,), int64
        In units of 1 / `PARTS`.
    n_rows : int
        Rows so far, those left out counted too.
    """

    def __init__(
        self,
        coef: NDArray[np.float64],
        target: tuple[float, float],
        grid: NDArray[np.float64],
    ) -> None:
        self.counts = np.zeros(len(grid), np.int64)
        self.n_rows = 0
        self._given = coef, target
        self._edges = grid[:-1] ** 2

    def update(self, block: NDArray[np.float64], drop: bool = False) -> int:
        """Count the rows of a block; see `privgram._core.rows.Accumulator.update`."""
        (coef, target), n, p = self._given, len(block), len(self._given[0])
        most, curved, pulled = np.empty((n, p)), np.empty((n, p)), np.empty((n, p + 1))
        reach(block, coef, most)
        weigh(block, coef, target, np.inf, curved, pulled)
        square = np.empty((2, n))
        squared_norms(most, square[0])
        squared_norms(pulled[:, :p], square[1])
        bad = np.flatnonzero(~np.isfinite(square).all(axis=0))
        if len(bad) and not drop:
            return int(bad[0])
        square = np.delete(square, bad, axis=1)
        part = np.divide(square[1], square[0], out=np.zeros(square.shape[1]), where=square[0] > 0)
        weights = np.rint(PARTS * np.sqrt(np.minimum(part, 1.0)))
        at = np.searchsorted(self._edges, square[0])
        self.counts += np.bincount(at, weights, len(self.counts)).astype(np.int64)
        self.n_rows += n
        return -1

    def merge(self, other: Reaching) -> None:
        """Add the rows of another."""
        self.counts += other.counts
        self.n_rows += other.n_rows
