"""Rows on their way into an accumulator through a linear map: a look in another frame."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._core import rowmap
from privgram._core.norms import squared_norms
from privgram._core.rows import TableAccumulator
from privgram.sources.table import n_rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from privgram._core.rows import Scaling
    from privgram.columns.encoding import Encoder
    from privgram.sources.table import Block

    #: Indices of levels, and what they are looked up in.
    Indices = tuple[NDArray[Any], NDArray[np.int32] | None]

#: Doubles of mapped rows at a time: 512 KiB, which stay in the cache.
SCRATCH = 1 << 16

#: More than rounding adds to the squared norm of an image that was clipped: of each of at most 2^15
#: products and sums 2^-53, and twice that of the clipping.
ROUNDING = 2.0**-36


class Mapped:
    """Feed an accumulator z = A (c u) for every row u, with c = min(1, bound / |u|).

    A row's image depends on nothing but the row and the map. So whatever the accumulator
    promises of one row's influence, it promises of a row u. `frame` is A, of shape (k, d); `inner`
    takes rows of k columns, and as `Levelled` the codes of the blocks that begin at `levels` too.
    """

    def __init__(
        self, frame: NDArray[np.float64], bound: float, inner: Any, levels: Sequence[int] = ()
    ) -> None:
        self.n_columns = frame.shape[1]
        self.inner = inner
        self._given = frame, bound
        self._levels = tuple(levels)
        self._bound = bound
        self._frame = rowmap.transposed(frame)
        self._of_codes: NDArray[np.float64] | None = None
        self._images = np.empty((max(8, SCRATCH // max(len(frame), 1)), len(frame)))

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

    def update_coded(
        self,
        encoder: Encoder,
        dense: list[NDArray[Any]],
        codes: list[Indices],
        values: list[NDArray[Any]],
        drop: bool,
    ) -> int:
        """Accumulate rows as an encoder gives them; else as `update`."""
        coded = encoder.coded
        sizes = [encoder.levels[factor] for factor, *_ in coded]
        if self._of_codes is None:
            ends = zip(coded, sizes, strict=True)
            levels = (range(own[1], own[1] + size) for own, size in ends)
            order = [*encoder.positions, *chain.from_iterable(levels)]
            self._of_codes = rowmap.transposed(self._given[0][:, order])
        places = [next(i for i, own in enumerate(coded) if own[1] == at) for at in self._levels]
        step = len(self._images)
        n_rows = len(next(chain(dense, values, (indices for indices, _ in codes))))
        for start in range(0, n_rows, step):
            rows = slice(start, start + step)
            some = [(indices[rows], lut) for indices, lut in codes]
            blocks = [
                (*some[factor], size, values[value][rows] if value >= 0 else None, weight)
                for (factor, _, value, weight), size in zip(coded, sizes, strict=True)
            ]
            images = self._images[: min(step, n_rows - start)]
            numbers = [x[rows] for x in dense]
            rowmap.apply(numbers, self._bound, self._of_codes, images, encoder.scaling, blocks)
            beside = [[blocks[place][:2] for place in places]] if places else []
            bad = self.inner.update(images, drop, *beside)
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
        return Mapped, (*self._given, self.inner, self._levels)

    def merge(self, other: Mapped) -> None:
        """Add the rows of another."""
        self.inner.merge(other.inner)


class Levelled:
    """The second moment of images and, beside them, of the levels of factors.

    Images are clipped so that with the levels' entries, which stay, a row is within the bound. In
    it an image's numbers are at `positions`, and of each factor `levels` say where its first level
    is, how many there are, and a row's entry.
    """

    by_levels = True

    def __init__(
        self, positions: Sequence[int], levels: Sequence[tuple[int, int, float]], bound: float
    ) -> None:
        self._given = positions, levels, bound
        blocks = [(i, start, -1, weight) for i, (start, _, weight) in enumerate(levels)]
        self.total = TableAccumulator(positions, [size for _, size, _ in levels], blocks, bound)
        k = len(positions)
        square = (bound**2 - math.fsum(entry**2 for *_, entry in levels)) * (1 - ROUNDING)
        if not square > 0:
            raise ValueError("the levels' entries leave no room within the bound")
        self._radius = math.sqrt(square)
        self._scaling = np.zeros(k), np.ones(k), np.full(k, self._radius)

    def update(self, images: NDArray[np.float64], drop: bool, codes: list[Indices]) -> int:
        """Take the images of rows, which are clipped where they lie, and codes of their levels."""
        squares = np.empty(len(images))
        squared_norms(images, squares)
        far = np.flatnonzero(squares > self._radius**2)
        images[far] *= (self._radius / np.sqrt(squares[far]))[:, None]
        return self.total.update(images, codes, [], drop, self._scaling, short=True)

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return int(self.total.n_rows)

    @property
    def n_dropped(self) -> int:
        """Rows left out."""
        return int(self.total.n_dropped)

    def merge(self, other: Levelled) -> None:
        """Add the rows of another."""
        self.total.merge(other.total)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._given, *self.total.totals(), self.n_rows, self.n_dropped)


def _restored(given: tuple[Any, ...], *state: Any) -> Levelled:
    found = Levelled(*given)
    total = found.total
    shape = total.positions_dense, total.factors, total.blocks, total.bound, total.bits
    found.total = TableAccumulator.from_totals(*shape, *state)
    return found
