"""Rows on their way into accumulators of a Newton step, weighed by public coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._core.weigh import weigh

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Weighed", "Weighing"]


@dataclass(frozen=True, eq=False)
class Weighing:
    """What is public about a Newton step before a look at the table.

    Attributes
    ----------
    family : {"logistic", "poisson"}
    coef : ndarray of shape (p,), float64
        Of the features as they are mapped.
    target : tuple of float
        Center and half-width of the target.
    clip : float
        No score e z counts as longer; infinite where they are counted.
    """

    family: str
    coef: NDArray[np.float64]
    target: tuple[float, float]
    clip: float


class Weighed:
    """Feed one accumulator sqrt(w) z, and another e z and the clip, for every row (z, target, ...).

    Each row's images depend on it alone (`privgram._core.weigh`).

    Parameters
    ----------
    weighing : Weighing
    curved : accumulator or None
        Of rows of p columns.
    pulled : accumulator
        Of rows of p columns, or p + 1.
    """

    def __init__(self, weighing: Weighing, curved: Any, pulled: Any) -> None:
        self.curved = curved
        self.pulled = pulled
        self._weighing = weighing

    def update(self, block: NDArray[np.float64], drop: bool = False) -> int:
        """Accumulate the rows of a block; see `privgram._core.rows.Accumulator.update`."""
        given = self._weighing
        curved = np.empty((len(block), len(given.coef)))
        pulled = np.empty((len(block), self.pulled.n_columns))
        weigh(given.family, block, given.coef, given.target, given.clip, curved, pulled)
        bad = self.pulled.update(pulled, drop)
        if bad < 0 and self.curved is not None:
            bad = self.curved.update(curved, drop)
        return int(bad)

    def merge(self, other: Weighed) -> None:
        """Add the rows of another."""
        self.pulled.merge(other.pulled)
        if self.curved is not None:
            self.curved.merge(other.curved)

    @property
    def n_rows(self) -> int:
        """Rows so far."""
        return int(self.pulled.n_rows)

    @property
    def n_dropped(self) -> int:
        """Rows left out, where they are not counted among the others."""
        return int(getattr(self.pulled, "n_dropped", 0))
