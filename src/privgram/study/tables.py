"""The door of `Study.summarize`: counts of a column's steps, by groups, and what follows from them.

Secret side: a client of the gate. It reads once, and draws the counts of each level of a tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
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
    DistributionResults,
    Grid,
    consistent,
    depth_for,
)
from privgram.scan.executor import accumulate, accumulate_units
from privgram.scan.request import ScanRequest
from privgram.scan.warehouse import Query, count_steps
from privgram.secret import Gate, Histogram, Image, Model, generators

if TYPE_CHECKING:
    from privgram._base.numbers import Vector
    from privgram.columns.unit import Unit
    from privgram.disclosure.request import RunOptions
    from privgram.multivariate.distribution import StatisticName
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
MANY = 1000

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
    if n_groups > MANY:
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


def summarize_table(
    source: Any,
    columns: Columns,  # of the column and the factors alone
    column: str,
    by: tuple[str, ...],
    statistics: tuple[StatisticName, ...],
    q: tuple[float, ...],
    guarantee: Guarantee,
    run: RunOptions,
    unit: Unit | None = None,
) -> DistributionResults:
    """Count the steps of a column by groups, with noise; all refusals are before the spend."""
    ledger = run.ledger
    check_ledger(ledger)
    path = DISTRIBUTION_FORMAT.check_out(run.out, ledger=None if ledger is None else ledger.path)
    if not guarantee.delta:
        raise ValueError("counts of steps have Gaussian noise, which takes a positive delta")
    in_engine, most_rows = isinstance(source, Query), 0
    if unit is not None:
        if unit.max_rows is None or unit.bound is not None or unit.fixed_effects or in_engine:
            raise ValueError(OF_UNITS.format(unit.name))
        most_rows = unit.max_rows
    described = as_numeric(column, columns.variables)
    n_groups = int(np.prod([len(as_factor(name, columns.variables)) for name in by], dtype=int))
    depth = 0 if statistics == ("count",) else depth_for(described, n_groups)
    grid, width = Grid(described, depth), BRANCHES**depth
    if path is not None:
        check_room(path, n_groups * width * BYTES_OF_ENTRY[path.suffix])
    scan = ScanRequest(source, columns, unit=unit, threads=run.threads, progress=run.progress)
    noise = AdaptiveGaussian().noise_for(guarantee, len(columns), columns.bound)
    if ledger is not None:  # before the pass
        ledger.check(noise.price)
    generator, reproducible = generators.resolve(run.rng)
    rows = []

    def seen(read: Any) -> Any:
        if read.n_dropped and columns.missing == "error":  # nothing is spent yet
            raise ValueError(MISSING)
        rows.append(read.n_rows + read.n_dropped)
        return read

    read_all = accumulate if unit is None else accumulate_units
    price = replace(noise.price, what=f"summarize({shown(column)})")
    gate = Gate(
        noise, generator, lambda new: seen(read_all(scan, new)[0]), ledger=ledger, price=price
    )
    if in_engine:
        made = count_steps(scan, column, by, grid.size, n_groups, width)
        cells = gate.adopt(seen(made))
    else:
        edges = np.append(np.arange(1, n_groups * width) + 0.5, np.inf)
        kind = Histogram(Model.features(1), edges, ranked=False, rows=most_rows)
        [cells] = gate.read(steps_image(columns, column, by, grid), kind)
    known = rows[0] if guarantee.size_is_public and unit is None else None
    check_size(known)
    if not reproducible:
        warn_of_weak(guarantee, known)
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
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        adjacency=guarantee.adjacency,
        privacy=noise.privacy,
        reproducible=reproducible,
        unit=None if unit is None else unit.name,
        rows_of_unit=max(most_rows, 1),
    )
    if path is not None:
        save_paid(found.save, path)
    return found
