"""Rows on their way into an accumulator through a linear map: a look in another frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._core import rowmap
from privgram.sources.table import n_rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._core.rows import Scaling
    from privgram.sources.table import Block

#: Doubles of mapped rows at a time: 512 KiB, which stay in the cache.
SCRATCH = 1 << 16


class Mapped:
    """Feed an accumulator z = A (c u) for every row u, with c = min(1, bound / |u|).

    A row's image depends on nothing but the row and the map. So whatever the accumulator
    promises of one row's influence, it promises of a row u.

    Parameters
    ----------
    frame : ndarray of shape (d, d), float64
        A.
    bound : float
        L2 bound of a row.
    inner : accumulator
        Of rows of d columns, with ``update`` and ``merge`` as `privgram._core.rows.Accumulator`
        has them.
    """

    def __init__(self, frame: NDArray[np.float64], bound: float, inner: Any) -> None:
        self.n_columns = len(frame)
        self.inner = inner
        self._given = frame, bound
        self._bound = bound
        self._frame = rowmap.transposed(frame)
        self._images = np.empty((max(8, SCRATCH // self.n_columns), self.n_columns))

    def update(self, block: Block, drop: bool = False, scaling: Scaling | None = None) -> int:
        """Accumulate the rows of a block; see `privgram._core.rows.Accumulator.update`."""
        step = len(self._images)
        for start in range(0, n_rows_of(block), step):
            rows = slice(start, start + step)
            some: Any = [x[rows] for x in block] if isinstance(block, list) else block[rows]
            images = self._images[: n_rows_of(some)]
            rowmap.apply(some, self._bound, self._frame, images, scaling)
            bad = self.inner.update(images, drop)
            if bad >= 0:
                return start + int(bad)
        return -1

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return int(self.inner.n_rows)

    @property
    def n_dropped(self) -> int:
        """Rows left out; an accumulator may count them among the others."""
        return getattr(self.inner, "n_dropped", 0)

    def __reduce__(self) -> tuple[Any, ...]:
        return Mapped, (*self._given, self.inner)

    def merge(self, other: Mapped) -> None:
        """Add the rows of another."""
        self.inner.merge(other.inner)
