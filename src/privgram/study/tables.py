"""The doors of `Study.summarize` and `histogram`: counts of a column's steps or bins, by groups.

Secret side: clients of the gate. They read once, and draw the counts of a tree, or of the bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import check_room
from privgram._base.saved import save_paid
from privgram._base.text import shown
from privgram.columns import Columns
from privgram.columns.terms import ONES, Piece, as_factor, as_numeric
from privgram.columns.variables import Factor, Numeric
from privgram.disclosure.norm_bound import check_size
from privgram.disclosure.release import warn_of_weak
from privgram.disclosure.request import BYTES_OF_ENTRY
from privgram.ledger import check_ledger
from privgram.mechanisms.adaptive import AdaptiveGaussian
from privgram.multivariate.distribution import (
    BRANCHES,
    DISTRIBUTION_FORMAT,
    HISTOGRAM_FORMAT,
    MOST_STEPS,
    DistributionResults,
    Grid,
    HistogramResults,
    bins_of,
    consistent,
    depth_for,
)
from privgram.scan.executor import accumulate, accumulate_units
from privgram.scan.request import ScanRequest
from privgram.scan.warehouse import Query, count_steps
from privgram.secret import generators
from privgram.secret.gate import Gate
from privgram.secret.kinds import Histogram, Model
from privgram.secret.sweep import Image

if TYPE_CHECKING:
    from privgram._base.numbers import Vector
    from privgram.columns.unit import Unit
    from privgram.disclosure.request import RunOptions
    from privgram.multivariate.distribution import StatisticName
    from privgram.privacy import Profile
    from privgram.privacy.guarantee import Guarantee

#: What may be asked, as errors begin.
SUMMARIZED = "a number, date or truth value is summarized"
GROUPED = "by= takes factors, whose public levels are the groups"

OF_UNITS = (
    "where a unit is protected, its rows count as a share of the most that one may have: "
    "unit=pg.Unit({!r}, max_rows=...), without fixed effects, of rows that this machine reads"
)
MISSING = (
    "a row has a missing value, or a level that is not listed: study.check() counts them, and "
    "missing='drop' leaves such rows out"
)

#: So many groups are very many.
MANY_GROUPS = 1000

#: The bound of an image is larger than that of rows by this part: rounding shortens none.
ROUNDING = 2.0**-30


def column_and_groups(columns: Columns, column: str, by: Sequence[str]) -> Columns:
    """Of the columns of a table the one that is summarized, and the factors of the groups."""
    variables = columns.variables
    if columns.row_weights is not None:
        raise ValueError(
            "a summary counts rows, and this study weights them: make another study of the same "
            "ledger without weights"
        )
    for name, kind, role in ((column, Numeric, SUMMARIZED), *((x, Factor, GROUPED) for x in by)):
        if not isinstance(variables.get(name), kind):
            raise ValueError(f"{role}, and {name!r} is none of the study's")
    if len({*by}) < len(by):
        raise ValueError("by= has each factor once")
    used = {name: variables[name] for name in (column, *by)}
    terms = [column, *(["*".join(by)] if by else [])]
    return Columns(used, intercept=True, missing=columns.missing, terms=terms)


def level_shares(
    statistics: Sequence[StatisticName], depth: int, public: bool, n_groups: int
) -> Vector:
    """Shares of the budget of a tree's levels: a tenth less by level, and faster for moments alone.

    Errors of quantiles are largest where few rows are, which coarse nodes tell. Of very many groups
    every other level is left out, and has no noise to be drawn.
    """
    falling = 0.9 if "quantile" in statistics else 0.7
    of_levels = falling ** np.arange(depth)
    if n_groups > MANY_GROUPS:
        of_levels[depth - 2 :: -2] = 0.0
    weights = np.append(0.0 if public else 1.0, of_levels)
    shares: Vector = weights / max(weights.sum(), 1.0)
    return shares


def steps_image(columns: Columns, column: str, by: Sequence[str], grid: Grid) -> Image:
    """The image of a row: at which step of which group it is, groups one after the other, from 1.

    An image of length 0 would count nothing.
    """
    layout = columns.layout
    scaled, ones = (layout.image(one) for one in (Piece(((column, 1),)), ONES))
    assert scaled is not None
    assert ones is not None
    at = (scaled[0] + ones[0]) * ((grid.size - 1) / 2) + ones[0]
    if by:
        cells = next(one for one in layout.stored if one.piece.factors and not one.piece.powers)
        assert cells.piece.factors == tuple(by)
        at[cells.columns] += np.arange(cells.size) * float(BRANCHES**grid.depth) / cells.weight
    return Image(at[None], float(columns.bound) * (1 + ROUNDING))


@dataclass(frozen=True)
class Asked:
    """What is asked of one column in groups, with the price."""

    source: Any
    columns: Columns  # of the column and the factors alone
    column: str
    by: tuple[str, ...]
    guarantee: Guarantee
    run: RunOptions
    unit: Unit | None = None

    @property
    def described(self) -> Numeric:
        """What is public of the column."""
        return as_numeric(self.column, self.columns.variables)

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        factors = (as_factor(name, self.columns.variables) for name in self.by)
        return int(np.prod([len(factor) for factor in factors], dtype=int))

    @property
    def most_rows(self) -> int:
        """So many rows a unit has at most; 0 where rows are protected."""
        return 0 if self.unit is None else self.unit.max_rows or 0

    def counter(self, what: str, n_cells: int, path: Path | None) -> Counter:
        """What reads and draws; all that can be refused is refused here, or by the read."""
        run, unit, guarantee = self.run, self.unit, self.guarantee
        if not guarantee.delta:
            raise ValueError("counts of steps have Gaussian noise, which takes a positive delta")
        if unit is not None:
            no_share = unit.max_rows is None or unit.bound is not None or unit.fixed_effects
            if no_share or isinstance(self.source, Query):
                raise ValueError(OF_UNITS.format(unit.name))
        if path is not None:
            check_room(path, n_cells * BYTES_OF_ENTRY[path.suffix])
        scan = ScanRequest(
            self.source, self.columns, unit=unit, threads=run.threads, progress=run.progress
        )
        noise = AdaptiveGaussian().noise_for(guarantee, len(self.columns), self.columns.bound)
        if run.ledger is not None:  # before the pass
            run.ledger.check(noise.price)
        generator, reproducible = generators.resolve(run.rng)
        price = replace(noise.price, what=f"{what}({shown(self.column)})")
        read = accumulate if unit is None else accumulate_units
        rows: list[int] = []

        def seen(found: Any) -> Any:
            if found.n_dropped and self.columns.missing == "error":  # nothing is spent yet
                raise ValueError(MISSING)
            rows.append(found.n_rows + found.n_dropped)
            return found

        gate = Gate(
            noise, generator, lambda new: seen(read(scan, new)[0]), ledger=run.ledger, price=price
        )
        return Counter(scan, noise.privacy, gate, rows, seen, reproducible)


@dataclass(frozen=True)
class Counter:
    """The gate of one answer, and how many rows it has read."""

    scan: ScanRequest
    privacy: Profile
    gate: Gate
    rows: list[int]
    seen: Callable[[Any], Any]
    reproducible: bool

    def known(self, asked: Asked) -> int | None:
        """The number of rows, where it is public; checked before the first draw."""
        public = asked.guarantee.size_is_public and asked.unit is None
        known = self.rows[0] if public else None
        check_size(known)
        if not self.reproducible:
            warn_of_weak(asked.guarantee, known)
        return known


def summarize_table(
    asked: Asked, statistics: tuple[StatisticName, ...], q: tuple[float, ...]
) -> DistributionResults:
    """Count the steps of a column by groups, with noise; all refusals are before the spend."""
    run, columns, column, by = asked.run, asked.columns, asked.column, asked.by
    check_ledger(run.ledger)
    ledger_path = None if run.ledger is None else run.ledger.path
    path = DISTRIBUTION_FORMAT.check_out(run.out, ledger=ledger_path)
    n_groups = asked.n_groups
    depth = 0 if statistics == ("count",) else depth_for(asked.described, n_groups)
    grid, width = Grid(asked.described, depth), BRANCHES**depth
    counter = asked.counter("summarize", n_groups * width, path)
    gate = counter.gate
    if isinstance(asked.source, Query):
        made = count_steps(counter.scan, column, by, grid.size, n_groups, width)
        cells = gate.adopt(counter.seen(made))
    else:
        edges = np.append(np.arange(1, n_groups * width) + 0.5, np.inf)
        kind = Histogram(Model.features(1), edges, ranked=False, rows=asked.most_rows)
        [cells] = gate.read(steps_image(columns, column, by, grid), kind)
    known = counter.known(asked)
    total = known if not by and columns.missing == "error" else None
    shares = level_shares(statistics, depth, total is not None, n_groups)
    noisy, variances = [], []
    for level, share in enumerate(shares.tolist()):
        if share == 0:  # not counted; or the number of all rows, which is public
            noisy.append(np.full((1, BRANCHES**level), float(total or 0)))
            variances.append(math.inf if level else 0.0)
            continue
        nodes = cells.joined(BRANCHES ** (depth - level))
        drawn = gate.release(nodes, min(share, gate.left))
        noisy.append(drawn.values.reshape(n_groups, -1))
        variances.append(drawn.std**2)
    steps, of_nodes = consistent(noisy, variances)
    found = DistributionResults(
        column=column,
        by=by,
        columns=columns,
        statistics=statistics,
        q=q,
        counts=steps,
        variances=of_nodes,
        n_rows=float(known or max(steps.sum(), 1.0)),
        epsilon=asked.guarantee.epsilon,
        delta=asked.guarantee.delta,
        adjacency=asked.guarantee.adjacency,
        privacy=counter.privacy,
        reproducible=counter.reproducible,
        unit=None if asked.unit is None else asked.unit.name,
        rows_of_unit=max(asked.most_rows, 1),
    )
    if path is not None:
        save_paid(found.save, path)
    return found


def histogram_of_table(asked: Asked, bins: int | Sequence[float]) -> HistogramResults:
    """Count the rows in bins of a column by groups: these counts alone, with their noise."""
    run, columns = asked.run, asked.columns
    check_ledger(run.ledger)
    ledger_path = None if run.ledger is None else run.ledger.path
    path = HISTOGRAM_FORMAT.check_out(run.out, ledger=ledger_path)
    edges, places = bins_of(asked.described, bins)
    if isinstance(asked.source, Query):  # an engine counts by step
        found = summarize_table(replace(asked, run=replace(run, out=None)), ("quantile",), (0.5,))
        return _kept(found.histogram(edges), path)
    n_groups, n_bins = asked.n_groups, len(edges) - 1
    if n_groups * (n_bins + 1) > MOST_STEPS:
        raise ValueError(f"{n_groups} groups have {MOST_STEPS // n_groups - 1} bins at most")
    counter = asked.counter("histogram", n_groups * n_bins, path)
    image = steps_image(columns, asked.column, asked.by, Grid(asked.described, 1))
    # Groups are 2 apart, and what is between the last edge of one and the next is in no bin.
    ends = (1 + BRANCHES * np.arange(n_groups)[:, None] + places).ravel()
    kind = Histogram(Model.features(1), np.append(ends, np.inf), ranked=False, rows=asked.most_rows)
    [cells] = counter.gate.read(image, kind)
    known = counter.known(asked)
    drawn = counter.gate.release(cells, 1.0)
    counts = drawn.values[:-1].reshape(n_groups, n_bins + 1)[:, 1:]
    made = HistogramResults(
        column=asked.column,
        by=asked.by,
        columns=columns,
        edges=edges,
        counts=counts,
        variances=np.full(n_bins, drawn.std**2),
        n_rows=float(known or max(counts.sum(), 1.0)),
        epsilon=asked.guarantee.epsilon,
        delta=asked.guarantee.delta,
        adjacency=asked.guarantee.adjacency,
        privacy=counter.privacy,
        reproducible=counter.reproducible,
        unit=None if asked.unit is None else asked.unit.name,
    )
    return _kept(made, path)


def _kept(made: HistogramResults, path: Path | None) -> HistogramResults:
    if path is not None:
        save_paid(made.save, path)
    return made
