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

from privgram._base.numbers import check_adjacency, check_integer, check_number
from privgram._base.text import warn
from privgram._core.rowmap import squared_norms
from privgram.columns.unit import PrivateBound, Unit, bound_of_rows
from privgram.mechanisms.norm_bound import NormBound, choice_price
from privgram.moment.accumulators import BlockAccumulator
from privgram.moment.units import accumulator_of
from privgram.privacy.guarantee import Guarantee
from privgram.scan.executor import accumulate, accumulate_units
from privgram.scan.progress import Progress
from privgram.scan.request import ScanRequest
from privgram.secret import Gate, generators
from privgram.sources.table import TableSource, n_rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from privgram._core.rows import Scaling, UnitAccumulator
    from privgram.columns import Columns
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

#: A factor of 1.0007 from one point to the next; the grid stays below a million points.
FINEST = 1 << 10

#: Rows at a time: their norms stay in the cache.
NORM_ROWS = 1 << 13

#: Squares of the grid's points must neither overflow nor vanish.
LEAST_EDGE, MOST_EDGE = 1e-150, 1e150


def private_norm_bound(
    source: TableSource,
    epsilon: float,
    quantile: float | None = None,
    *,
    lower: float | None = None,
    upper: float | None = None,
    bins_per_octave: int = 16,
    adjacency: Adjacency = "replace",
    columns: Columns | Sequence[str] | None = None,
    rng: np.random.Generator | None = None,
    threads: int | None = None,
    progress: Progress = False,
    ledger: Ledger | None = None,
    unit: Unit | str | Any = None,
) -> NormBound:
    """Choose a bound of the row norms by a private quantile of them.

    Where nothing public says how long rows are, this spends a little privacy to find out.
    Rows beyond the bound are then clipped to it, as with any bound.

    Parameters
    ----------
    source, columns, threads, progress
        As in `second_moment`; the table is read once, and again by `second_moment`, so an
        iterator that can be read only once has to be made anew. With `Columns` the norms
        are those of the scaled rows.
    epsilon : float
        Privacy parameter of the choice, > 0; delta is 0. It adds to that of any release.
    quantile : float, optional
        Part of the rows, or units, that the bound shall not shorten, in (0, 1). By default 0.95 of
        the rows, and half of the units.
    lower, upper : float, optional
        Ends of the grid of bounds to choose from, in [1e-150, 1e150]; public: never read
        off the table. By default 1e-9 and 1e9; with `Columns`, their own bound and 1/1024
        of it; of units, that of `Unit.rows` rows, 1024 by default, and 1/1024 of it.
    bins_per_octave : int
        Fineness of the grid: the bound exceeds the quantile by a factor of up to
        ``2 ** (1 / bins_per_octave)``. In [1, 1024].
    adjacency : {"replace", "add-remove"}
        Which tables are neighbours.
    rng : numpy.random.Generator, optional
        For experiments only. By default a cryptographic generator.
    ledger : Ledger, optional
        Budget to enter the choice in, durably, before it is made.
    unit : Unit or str, optional
        As in `second_moment`, without its bound, which is what is chosen: pass it on as
        ``Unit(..., bound=...)``. The quantile is then one of the units. Needs `Columns`, or both
        ends of the grid.

    Returns
    -------
    NormBound
        A float with its `privacy`; pass it as `bound`.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or as in `second_moment`; and if the ledger has
        no room for the choice or is damaged, when nothing is chosen.
    OSError
        As in `second_moment`, and if the ledger cannot be written.

    Warns
    -----
    UserWarning
        If the rows, where their number is public, are too few for this epsilon.

    Notes
    -----
    With counts c_i of rows no longer than grid point t_i and n rows, point i misses the
    quantile q by max(0, c_{i-1} - q n, q n - c_i) rows. The exponential mechanism draws
    points the rarer the more rows they miss by: with M points on the grid, the probability
    of more than ``(2 / epsilon) (log(M) + t)`` missed rows is below exp(-t) (half as many
    for the median under "add-remove").

    Counts and draw are exact integers: no rounding takes part. Rows left out for missing
    values are not counted.

    References
    ----------
    A. Smith, "Privacy-preserving statistical estimation with optimal convergence rates",
    STOC 2011, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> import privgram as pg
    >>> table = np.random.default_rng(0).normal(size=(10_000, 4))
    >>> bound = private_norm_bound(table, epsilon=0.5)
    >>> 2.7 < bound < 3.6
    True
    >>> moment = pg.second_moment(table, bound=bound)
    """
    auto = PrivateBound(epsilon, quantile)
    scan = ScanRequest.of(source, columns, None, unit, None, threads, progress, adjacency)
    if scan.unit is not None and scan.unit.bound is not None:
        raise ValueError("private_norm_bound chooses the bound of a unit: leave it out of Unit")
    choice = BoundSelection(auto, scan, adjacency, lower, upper, bins_per_octave)
    return choice.draw(choice.count(), rng, ledger)


class BoundSelection:
    """The steps of `private_norm_bound`, apart: counts of parts add up before the draw."""

    def __init__(
        self,
        auto: PrivateBound,
        scan: ScanRequest,
        adjacency: Adjacency = "replace",
        lower: float | None = None,
        upper: float | None = None,
        bins_per_octave: int = 16,
    ) -> None:
        self.scan = scan
        scaling, unit = scan.scaling, scan.unit
        top = None if scaling is None else scaling.bound
        if unit is not None:
            row_bound = scan.row_bound
            if row_bound is None and None in (lower, upper):
                raise ValueError(
                    "the norms of units are looked for below what Columns allow: pass a Columns, "
                    "or lower and upper"
                )
            top = (
                None
                if row_bound is None
                else bound_of_rows(unit.max_rows or GRID_ROWS_OF_UNIT, row_bound)
            )
        upper = (UPPER if top is None else top) if upper is None else upper
        upper = check_number(upper, "upper")
        lower = (LOWER if top is None else upper / RANGE) if lower is None else lower
        lower = check_number(lower, "lower")
        bins_per_octave = check_integer(bins_per_octave, "bins_per_octave", 1, FINEST)
        if not LEAST_EDGE <= lower < upper <= MOST_EDGE:
            raise ValueError(
                f"the grid needs {LEAST_EDGE:g} <= lower < upper <= {MOST_EDGE:g}, not {lower} and "
                f"{upper}"
            )
        if unit is not None and upper > RANGE * lower * 4:
            raise ValueError("lower and upper must be within a factor of 4096 for units")
        self.epsilon = auto.epsilon
        default = QUANTILE if unit is None else UNIT_QUANTILE
        self.quantile = default if auto.quantile is None else auto.quantile
        self.adjacency = check_adjacency(adjacency)
        self.bins_per_octave = bins_per_octave
        steps = max(1, math.ceil(bins_per_octave * math.log2(upper / lower)))
        self.grid = np.geomspace(lower, upper, steps + 1)

    def count(self) -> NormCounts:
        """Count the rows in each interval of the grid, in one pass: SECRET.

        With groups it is the rows that are of one.
        """
        total: NormCounts
        unit, scaling = self.scan.unit, self.scan.scaling
        if unit is None:
            total, _ = accumulate(self.scan, lambda d: NormCounts(d, self.grid))
            return total
        top = float(self.grid[-1])
        known = self.scan.row_bound
        row_bound = top if known is None else min(known, top)
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
        unit = self.scan.unit
        name = None if unit is None else unit.name
        return choice_price(self.epsilon, self.adjacency, name, self.quantile)

    def draw(
        self,
        counts: NormCounts,
        rng: np.random.Generator | None = None,
        ledger: Ledger | None = None,
    ) -> NormBound:
        """Choose a point of the grid, privately."""
        generator, reproducible = generators.resolve(rng)
        unit = None if self.scan.unit is None else self.scan.unit.protected
        guarantee = Guarantee(self.epsilon, 0.0, self.adjacency, unit)
        if guarantee.size_is_public:
            check_size(counts.n_rows)
            self._warn_of_few(counts.n_rows)
        chosen, id = Gate(guarantee, generator, ledger=ledger).choose(counts, self.quantile)
        return NormBound(
            float(self.grid[chosen]),
            epsilon=self.epsilon,
            adjacency=self.adjacency,
            quantile=self.quantile,
            lower=float(self.grid[0]),
            upper=float(self.grid[-1]),
            bins_per_octave=self.bins_per_octave,
            reproducible=reproducible,
            id=id,
            unit=None if unit is None else unit.name,
        )

    def _warn_of_few(self, n_rows: int) -> None:
        # Grid points beyond all rows miss the quantile by (1 - quantile) n_rows.
        side = min(self.quantile, 1 - self.quantile)
        needed = 2 * (math.log(len(self.grid)) + 5) / (self.epsilon * side)
        if n_rows < needed:
            warn(
                f"{n_rows} rows are too few to choose a bound by: its epsilon of"
                f" {self.epsilon:g} needs {math.ceil(needed)}. The bound may lie anywhere from"
                f" {self.grid[0]:g} to {self.grid[-1]:g}; take these closer together, a larger"
                " epsilon, or a quantile nearer the median",
            )


def check_size(n_rows: int | None) -> None:
    """Refuse a table that is publicly empty, before anything is spent on it."""
    if n_rows == 0:
        raise ValueError("the table has no rows, so there is nothing to release; nothing was spent")


class NormCounts(BlockAccumulator):
    """How many rows have norms in each interval of an increasing grid, as a pass accumulates them.

    Interval i ends at grid[i], which it includes; the first one begins at zero, and the last takes
    all longer rows. `n_rows` counts rows that are left out, too.
    """

    sums = ("counts", "n_rows")
    n_dropped = 0  # counted among the others

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
