"""Rows on their way into accumulators of a Newton step, weighed by public coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._core.rows import Accumulator
from privgram._core.weigh import reach, weigh

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Reaching", "Weighed"]


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
    """Count how long the scores of rows (z, target, ...) can be.

    Parameters
    ----------
    coef : ndarray of shape (p,), float64
    counted : accumulator
        Of lengths of rows of p columns.
    """

    def __init__(self, coef: NDArray[np.float64], counted: Any) -> None:
        self.counted = counted
        self._coef = coef

    def update(self, block: NDArray[np.float64], drop: bool = False) -> int:
        """Count the rows of a block."""
        out = np.empty((len(block), len(self._coef)))
        reach(block, self._coef, out)
        return int(self.counted.update(out, drop))

    def merge(self, other: Reaching) -> None:
        """Add the rows of another."""
        self.counted.merge(other.counted)

    @property
    def n_rows(self) -> int:
        """Rows so far, those left out counted too."""
        return int(self.counted.n_rows)
