"""The doors of `Study.summarize` and `histogram`: counts of a column's steps or bins, by groups.

Secret side: clients of the gate. They read once, and draw the counts of a tree, or of the bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

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
from privgram.scan.warehouse import Query, count_cells
from privgram.secret import generators
from privgram.secret.gate import Gate
from privgram.secret.kinds import Histogram, Model
from privgram.secret.sweep import Image

if TYPE_CHECKING:
    from privgram._base.numbers import Vector
    from privgram.columns.unit import Unit
    from privgram.disclosure.request import RunOptions
    from privgram.multivariate.distribution import StatisticName
    from privgram.privacy.guarantee import Guarantee
    from privgram.secret.gate import Sum

TableT = TypeVar("TableT", DistributionResults, HistogramResults)

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
        of_levels[::-1][1::2] = 0.0  # the last one stays
    weights = np.append(0.0 if public else 1.0, of_levels)
    shares: Vector = weights / max(weights.sum(), 1.0)
    return shares


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
        return math.prod(len(as_factor(name, self.columns.variables)) for name in self.by)

    @property
    def most_rows(self) -> int:
        """So many rows a unit has at most; 0 where rows are protected."""
        return 0 if self.unit is None else self.unit.max_rows or 0

    def image(self, size: int, apart: float) -> Image:
        """The image of a row: at which of `size` steps it is, from 1 on, its group `apart` others.

        An image of length 0 would count nothing.
        """
        layout = self.columns.layout
        scaled, ones = (layout.image(one) for one in (Piece(((self.column, 1),)), ONES))
        assert scaled is not None
        assert ones is not None
        at = (scaled[0] + ones[0]) * ((size - 1) / 2) + ones[0]
        if self.by:
            cells = next(one for one in layout.stored if one.piece.factors and not one.piece.powers)
            assert cells.piece.factors == self.by
            at[cells.columns] += np.arange(cells.size) * apart / cells.weight
        return Image(at[None], float(self.columns.bound) * (1 + ROUNDING))

    def count(
        self, kind: type[TableT], image: Image, edges: Vector, place: int | list[float], each: int
    ) -> tuple[Gate, Sum, int | None, Callable[..., TableT]]:
        """Read the cells between `edges` of the images, after all that can be refused was.

        With the gate, the public number of rows that are in one of them, and what makes the answer
        and writes it. An engine counts by `place`: steps of the range, or edges in it, of which
        there are `each` in a group.
        """
        run, unit, guarantee, columns = self.run, self.unit, self.guarantee, self.columns
        what = "summarize" if kind is DistributionResults else "histogram"
        of_engine = isinstance(self.source, Query)
        check_ledger(run.ledger)
        ledger_path = None if run.ledger is None else run.ledger.path
        path = kind._format.check_out(run.out, ledger=ledger_path)
        if not guarantee.delta:
            raise ValueError("counts of steps have Gaussian noise, which takes a positive delta")
        if unit is not None:
            no_share = unit.max_rows is None or unit.bound is not None or unit.fixed_effects
            if no_share or of_engine:
                raise ValueError(OF_UNITS.format(unit.name))
        if path is not None:
            check_room(path, len(edges) * BYTES_OF_ENTRY[path.suffix])
        scan = ScanRequest(
            self.source, columns, unit=unit, threads=run.threads, progress=run.progress
        )
        noise = AdaptiveGaussian().noise_for(guarantee, len(columns), columns.bound)
        if run.ledger is not None:  # before the pass
            run.ledger.check(noise.price)
        generator, reproducible = generators.resolve(run.rng)
        price = replace(noise.price, what=f"{what}({shown(self.column)})")
        read = accumulate if unit is None else accumulate_units
        rows: list[int] = []

        def seen(found: Any) -> Any:
            if found.n_dropped and columns.missing == "error":  # nothing is spent yet
                raise ValueError(MISSING)
            rows.append(found.n_rows + found.n_dropped)
            return found

        gate = Gate(
            noise, generator, lambda new: seen(read(scan, new)[0]), ledger=run.ledger, price=price
        )
        if of_engine:
            made = count_cells(scan, self.column, self.by, place, each, len(edges))
            cells = gate.adopt(seen(made))
        else:
            counts = Histogram(Model.features(1), edges, ranked=False, rows=self.most_rows)
            [cells] = gate.read(image, counts)
        known = rows[0] if guarantee.size_is_public and unit is None else None
        check_size(known)
        if not reproducible:
            warn_of_weak(guarantee, known)

        def answer(**parts: Any) -> TableT:
            found = kind(
                column=self.column,
                by=self.by,
                columns=columns,
                n_rows=float(known or max(parts["counts"].sum(), 1.0)),
                epsilon=guarantee.epsilon,
                delta=guarantee.delta,
                adjacency=guarantee.adjacency,
                privacy=noise.privacy,
                reproducible=reproducible,
                unit=None if unit is None else unit.name,
                **parts,
            )
            if path is not None:
                save_paid(found.save, path)
            return found

        whole = not self.by and columns.missing == "error"
        return gate, cells, known if whole else None, answer


def summarize_table(
    asked: Asked, statistics: tuple[StatisticName, ...], q: tuple[float, ...]
) -> DistributionResults:
    """Count the steps of a column by groups, with noise; all refusals are before the spend."""
    n_groups = asked.n_groups
    depth = 0 if statistics == ("count",) else depth_for(asked.described, n_groups)
    size, width = Grid(asked.described, depth).size, BRANCHES**depth
    edges = np.append(np.arange(1, n_groups * width) + 0.5, np.inf)
    image = asked.image(size, width)
    gate, cells, total, answer = asked.count(DistributionResults, image, edges, size, width)
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
    counts, of_nodes = consistent(noisy, variances)
    rows = max(asked.most_rows, 1)
    return answer(statistics=statistics, q=q, counts=counts, variances=of_nodes, rows_of_unit=rows)


def histogram_of_table(asked: Asked, bins: int | Sequence[float]) -> HistogramResults:
    """Count the rows in bins of a column by groups: these counts alone, with their noise."""
    edges, places = bins_of(asked.described, bins)
    n_groups, each = asked.n_groups, len(edges)
    if n_groups * each > MOST_STEPS:
        raise ValueError(f"{n_groups} groups have {MOST_STEPS // n_groups - 1} bins at most")
    # Groups are 2 apart, and what is between the last edge of one and the next is in no bin.
    ends = (1 + BRANCHES * np.arange(n_groups)[:, None] + places).ravel()
    image = asked.image(BRANCHES, BRANCHES)
    ends = np.append(ends, np.inf)
    gate, cells, _, answer = asked.count(HistogramResults, image, ends, places.tolist(), each)
    drawn = gate.release(cells, 1.0)
    counts = drawn.values[:-1].reshape(n_groups, each)[:, 1:]
    return answer(edges=edges, counts=counts, variances=np.full(each - 1, drawn.std**2))
