"""The door of `Study.summarize`: counts of a column's steps, by groups, and what follows from them.

Secret side: a client of the gate. It reads once, and draws the counts of each level of a tree.
"""

from __future__ import annotations

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
from privgram.mechanisms import one_round
from privgram.mechanisms.adaptive import AdaptiveGaussian
from privgram.multivariate.distribution import (
    BRANCHES,
    DISTRIBUTION_FORMAT,
    DistributionResults,
    Grid,
    consistent,
    depth_for,
)
from privgram.scan.executor import accumulate
from privgram.scan.request import ScanRequest
from privgram.secret import Gate, Histogram, Image, Model, generators

if TYPE_CHECKING:
    from privgram._base.numbers import Vector
    from privgram.disclosure.request import RunOptions
    from privgram.multivariate.distribution import StatisticName
    from privgram.privacy.guarantee import Guarantee

#: What may be asked, as errors begin.
SUMMARIZED = "a number, date or truth value is summarized"
GROUPED = "by= takes factors, whose public levels are the groups"

NO_ROWS = (
    "steps are counted where rows are read, and a query's stay where they are: "
    "release().describe() has counts, means and deviations of these"
)
MISSING = (
    "a row has a missing value, or a level that is not listed: study.check() counts them, and "
    "missing='drop' leaves such rows out"
)

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


def level_shares(statistics: Sequence[StatisticName], depth: int, public: bool) -> Vector:
    """Shares of the budget of a tree's levels: alike for quantiles, falling for moments alone."""
    falling = 1.0 if "quantile" in statistics else 0.5
    of_levels = falling ** np.arange(depth)
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


def node_edges(n_groups: int, depth: int, level: int) -> Vector:
    """Ends of the nodes of a level, of all groups; a row at the last step is in the last node."""
    edges = np.arange(1, n_groups * BRANCHES**level + 1) * float(BRANCHES ** (depth - level)) + 0.5
    edges[-1] = np.inf
    return edges


def summarize_table(
    source: Any,
    columns: Columns,  # of the column and the factors alone
    column: str,
    by: tuple[str, ...],
    statistics: tuple[StatisticName, ...],
    q: tuple[float, ...],
    guarantee: Guarantee,
    run: RunOptions,
) -> DistributionResults:
    """Count the steps of a column by groups, with noise; all refusals are before the spend."""
    ledger = run.ledger
    check_ledger(ledger)
    path = DISTRIBUTION_FORMAT.check_out(run.out, ledger=None if ledger is None else ledger.path)
    if not guarantee.delta:
        raise ValueError("counts of steps have Gaussian noise, which takes a positive delta")
    if one_round(source):
        raise ValueError(NO_ROWS)
    described = as_numeric(column, columns.variables)
    n_groups = int(np.prod([len(as_factor(name, columns.variables)) for name in by], dtype=int))
    depth = 0 if statistics == ("count",) else depth_for(described, n_groups)
    grid, levels = Grid(described, depth), range(depth + 1)
    if path is not None:
        check_room(path, n_groups * BRANCHES**depth * BYTES_OF_ENTRY[path.suffix])
    scan = ScanRequest(source, columns, threads=run.threads, progress=run.progress)
    noise = AdaptiveGaussian().noise_for(guarantee, len(columns), columns.bound)
    if ledger is not None:  # before the pass
        ledger.check(noise.price)
    generator, reproducible = generators.resolve(run.rng)
    rows = []

    def reader(new: Any) -> Any:
        read = accumulate(scan, new)[0]
        if read.n_dropped and columns.missing == "error":  # nothing is spent yet
            raise ValueError(MISSING)
        rows.append(read.n_rows + read.n_dropped)
        return read

    price = replace(noise.price, what=f"summarize({shown(column)})")
    gate = Gate(noise, generator, reader, ledger=ledger, price=price)
    model = Model.features(1)
    nodes = [Histogram(model, node_edges(n_groups, depth, level), ranked=False) for level in levels]
    sums = gate.read(steps_image(columns, column, by, grid), *nodes)
    known = rows[0] if guarantee.size_is_public else None
    check_size(known)
    if not reproducible:
        warn_of_weak(guarantee, known)
    total = known if not by and columns.missing == "error" else None
    shares = level_shares(statistics, depth, total is not None)
    noisy, variances = [], []
    for counts, share in zip(sums, shares.tolist(), strict=True):
        if share == 0:  # the number of all rows is public
            noisy.append(np.full((1, 1), float(total or 0)))
            variances.append(0.0)
            continue
        drawn = gate.release(counts, min(share, gate.left))
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
    )
    if path is not None:
        save_paid(found.save, path)
    return found
