"""A bound for the row norms that is learnt from the table, and what that costs.

One pass counts the rows between the points of a public grid. Then the exponential
mechanism picks a point near the wanted quantile [1]_. Secret side: reads data, and lets
one private number out. Proofs in docs/theory/norm-bound.md.

References
----------
.. [1] A. Smith, "Privacy-preserving statistical estimation with optimal convergence
   rates", STOC 2011, Algorithm 2, on a grid.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.text import warn
from privgram._core.rowmap import squared_norms
from privgram.columns.unit import PrivateBound, bound_of_rows
from privgram.mechanisms.norm_bound import ChosenBound, choice_price
from privgram.moment.accumulators import BlockAccumulator
from privgram.moment.units import accumulator_of
from privgram.privacy.guarantee import Guarantee
from privgram.scan.executor import accumulate, accumulate_units
from privgram.scan.request import ScanRequest
from privgram.secret import generators
from privgram.secret.gate import Gate
from privgram.sources.table import n_rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._core.rows import Scaling, UnitAccumulator
    from privgram.ledger import Ledger
    from privgram.privacy import Adjacency
    from privgram.privacy.guarantee import Price
    from privgram.sources.table import RawBlock

#: The grid without `Columns`, whose rows may have any scale.
LOWER, UPPER = 1e-9, 1e9

#: With `Columns`, the grid ends so far below their own bound.
RANGE = 1024.0

#: Parts not to be clipped. All rows of a unit that is scaled count for less, by one factor, which
#: moves slopes little: a smaller bound is worth more than whole units (bench/units.py).
QUANTILE, UNIT_QUANTILE = 0.95, 0.5

#: Rows of a unit at the upper end of the grid, unless it is said how many.
GRID_ROWS_OF_UNIT = 1 << 10

#: Rows at a time: their norms stay in the cache.
NORM_ROWS = 1 << 13


class BoundSelection:
    """The choice of a bound of norms, in two steps: counts of a pass, and a draw."""

    def __init__(
        self,
        auto: PrivateBound,
        scan: ScanRequest,
        adjacency: Adjacency = "replace",
        bins_per_octave: int = 16,
    ) -> None:
        self.scan, self.epsilon, self.adjacency = scan, auto.epsilon, adjacency
        unit = scan.unit
        default, lower, upper = QUANTILE, LOWER, UPPER
        if scan.scaling is not None:
            upper = scan.scaling.bound
        if unit is not None:
            default, known = UNIT_QUANTILE, scan.row_bound
            if known is None:
                raise ValueError(
                    "the norms of units are looked for below what Columns allow: pass a Columns"
                )
            upper = bound_of_rows(unit.max_rows or GRID_ROWS_OF_UNIT, known)
        if scan.scaling is not None or unit is not None:
            lower = upper / RANGE
        self.quantile = default if auto.quantile is None else auto.quantile
        steps = math.ceil(bins_per_octave * math.log2(upper / lower))
        self.grid = np.geomspace(lower, upper, steps + 1)

    def count(self) -> NormCounts:
        """Count the rows in each interval of the grid, in one pass: SECRET.

        With groups it is the rows that are of one.
        """
        total: NormCounts
        unit, scaling = self.scan.unit, self.scan.scaling
        if unit is None:
            total, names = accumulate(self.scan, lambda d: NormCounts(d, self.grid))
            total.names = names
            return total
        top = float(self.grid[-1])
        row_bound = min(self.scan.row_bound, top)
        total, _ = accumulate_units(
            self.scan,
            lambda d: UnitNormCounts(
                accumulator_of(unit, d, top, row_bound, scaling, 24), self.grid
            ),
        )
        return total

    @property
    def price(self) -> Price:
        """What a ledger takes of the choice."""
        unit = "" if self.scan.unit is None else self.scan.unit.name
        return choice_price(self.epsilon, self.adjacency, unit, self.quantile)

    def draw(
        self,
        counts: NormCounts,
        rng: np.random.Generator | None = None,
        ledger: Ledger | None = None,
    ) -> ChosenBound:
        """Choose a point of the grid, privately."""
        generator, reproducible = generators.resolve(rng)
        unit = None if self.scan.unit is None else self.scan.unit.protected
        guarantee = Guarantee(self.epsilon, 0.0, self.adjacency, unit)
        if guarantee.size_is_public:
            check_size(counts.n_rows)
            self._warn_of_few(counts.n_rows)
        chosen = Gate(guarantee, generator, ledger=ledger).choose(counts, self.quantile)
        bound, lower, upper = self.grid[[chosen, 0, -1]].tolist()
        return ChosenBound(bound, self.quantile, lower, upper, self.price, reproducible)

    def _warn_of_few(self, n_rows: int) -> None:
        # Grid points beyond all rows miss the quantile by (1 - quantile) n_rows.
        side = min(self.quantile, 1 - self.quantile)
        needed = 2 * (math.log(len(self.grid)) + 5) / (self.epsilon * side)
        if n_rows < needed:
            warn(
                f"{n_rows} rows are too few to choose a bound by: its epsilon of"
                f" {self.epsilon:g} needs {math.ceil(needed)}. The bound may lie anywhere from"
                f" {self.grid[0]:g} to {self.grid[-1]:g}; take a larger epsilon, or a quantile"
                " nearer the median",
            )


def check_size(n_rows: int | None) -> None:
    """Refuse a table that is publicly empty, before anything is spent on it."""
    if n_rows == 0:
        raise ValueError("the table has no rows, so there is nothing to release; nothing was spent")


class NormCounts(BlockAccumulator):
    """How many rows have norms in each interval of an increasing grid, as a pass accumulates them.

    Interval i ends at grid[i], which it includes; the first one begins at zero, and the last takes
    all longer rows. `n_rows` counts rows that are left out, too. `names` are the table's, once
    all of it is counted.
    """

    sums = ("counts", "n_rows")
    n_dropped = 0  # counted among the others
    names: tuple[str, ...] | None = None

    def __init__(self, n_columns: int, grid: NDArray[np.float64]) -> None:
        self.n_columns = n_columns
        self.counts = np.zeros(len(grid), np.int64)
        self.n_rows = 0
        self._edges = grid[:-1] ** 2

    def update(self, block: RawBlock, drop: bool = False, scaling: Scaling | None = None) -> int:
        """Count the rows of a block, scaled as `privgram._core.rows.RowAccumulator` scales them.

        Returned is the position of the first row that holds NaN or infinity, or -1. With `drop`,
        rows with NaN are left out instead.
        """
        n_rows = n_rows_of(block)
        room = np.empty(NORM_ROWS)
        for start in range(0, n_rows, NORM_ROWS):
            if isinstance(block, list):
                columns = [np.asarray(column)[start : start + NORM_ROWS] for column in block]
                piece = np.stack(columns).T
            else:
                piece = block[start : start + NORM_ROWS]
            if scaling is not None:
                piece = _scaled(piece, *scaling)
            elif piece.dtype.kind != "f":  # integers, which the kernel of a pass takes as they are
                piece = piece.astype(np.float64)
            squares = room[: len(piece)]
            squared_norms(piece, squares)
            odd = np.flatnonzero(~np.isfinite(squares))  # or so long that their squares overflow
            if len(odd):
                finite = np.isfinite(piece[odd]).all(axis=1)
                usable = finite | (np.isnan(piece[odd]).any(axis=1) & drop)
                if not usable.all():
                    return start + int(odd[usable.argmin()])
                squares = np.delete(squares, odd[~finite])
            at = np.searchsorted(self._edges, squares)
            self.counts += np.bincount(at, minlength=len(self.counts))
        self.n_rows += n_rows
        return -1


class UnitNormCounts(NormCounts):
    """How many units have norms in each interval, by the accumulator that computes the norms."""

    def __init__(self, units: UnitAccumulator, grid: NDArray[np.float64]) -> None:
        super().__init__(units.n_columns, grid)
        self._units = units
        self._grid = grid

    def update(  # type: ignore[override]  # whole units
        self, x: NDArray[np.float64], starts: NDArray[np.intp], drop: bool = False
    ) -> int:
        """Count units; see `privgram._core.rows.UnitAccumulator.update`."""
        norms = np.empty(len(starts))
        bad = self._units.update(x, starts, drop, norms)
        at = np.searchsorted(self._grid[:-1], norms)
        self.counts += np.bincount(at, minlength=len(self.counts))
        self.n_rows += len(starts)
        return bad


def _scaled(
    piece: NDArray[Any],
    center: NDArray[np.float64],
    inverse: NDArray[np.float64],
    limit: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Values between -limit and limit; with a last column of ones, if the piece has none."""
    k = piece.shape[1]
    scaled = np.ones((len(piece), len(center)))
    with np.errstate(over="ignore"):
        moved = (piece.astype(np.float64, copy=False) - center[:k]) * inverse[:k]
    np.clip(moved, -limit[:k], limit[:k], out=scaled[:, :k])
    return scaled
