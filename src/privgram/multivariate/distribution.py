"""Counts, means, deviations, quantiles and histograms of one column, from noisy counts of steps.

The range of the column has 2^h steps. They, and runs of 2, 4, 8, ... of them, are counted with
noise in every group: a tree. `consistent` makes the counts add up; whatever is asked is then a sum
of counts of steps, and its noise has a variance in closed form (docs/theory/distributions.md)
[1]_, [2]_.

References
----------
.. [1] M. Hay, V. Rastogi, G. Miklau, D. Suciu, "Boosting the accuracy of differentially private
   histograms through consistency", VLDB 2010.
.. [2] W. Qardaji, W. Yang, N. Li, "Understanding hierarchical methods for differentially private
   histograms", VLDB 2013.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from privgram._base.installed import LazyModule, extra
from privgram._base.numbers import Matrix, Vector, check_integer, check_one_of, check_within
from privgram._base.saved import ArchiveFormat, format_of
from privgram._base.text import Printed, aligned, level_text, listed, short_names, shown
from privgram.columns import Columns
from privgram.columns.terms import as_factor, as_numeric
from privgram.columns.variables import Boolean, Factor, Log, Numeric
from privgram.multivariate.variables import check_moved
from privgram.privacy import Adjacency, Profile, ProofStatus
from privgram.regression.inference import Estimand, quantile_of
from privgram.regression.saved import SavedFit, check_sizes
from privgram.releases.checks import check_guarantee

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pandas import DataFrame

    from privgram._base.saved import JsonObject
    from privgram.columns.variables import Level
    from privgram.plots import of_distributions
    from privgram.releases.record import ReleaseRecord
else:
    of_distributions = LazyModule("privgram.plots.of_distributions")

StatisticName = Literal["count", "mean", "sd", "quantile"]

#: Numbers of steps of the grid.
Steps: TypeAlias = "NDArray[np.int64]"

#: What results have of the release that they are of.
GUARANTEE = "epsilon", "delta", "adjacency", "privacy", "reproducible"

#: Children of a node, and how many times over at most.
BRANCHES, DEEPEST = 2, 12

#: Steps of all groups together: what their counts take of memory is 8 bytes for each.
MOST_STEPS = 1 << 18

#: Part of the range by which a value at an edge of a bin is beyond it.
EDGE = 1e-9

#: A group with fewer rows than so many deviations of their number's noise is hidden.
DEVIATIONS_SEEN = 4.0

#: In the mean of a run of sums a deviation is no less than this part of that of a single one.
LEAST = 0.4


def depth_for(described: Numeric, n_groups: int) -> int:
    """How often the range is divided: less often for very many groups, once for truth values."""
    if isinstance(described, Boolean):
        return 1
    return next(h for h in range(DEEPEST, -1, -1) if n_groups * BRANCHES**h <= MOST_STEPS)


@dataclass(frozen=True)
class Grid:
    """The public values to which a column is rounded: whole numbers are among them if they fit."""

    described: Numeric
    depth: int

    @property
    def size(self) -> int:
        """How many values there are, the bounds among them; 1 is the middle alone."""
        steps = BRANCHES**self.depth
        lower, upper = self.described.interval
        whole = float(lower).is_integer() and float(upper).is_integer()
        if not whole or isinstance(self.described, Log) or not 1 <= upper - lower < steps:
            return int(steps)
        width = int(upper - lower)
        return int(width * ((steps - 1) // width) + 1)

    def at(self, steps: Vector) -> Vector:
        """Values in own units at steps, which may be between two, or beyond the last."""
        middle, half = self.described.center, self.described.half_width
        t = np.clip(2 * np.asarray(steps) / max(self.size - 1, 1) - 1, -1.0, 1.0)
        if self.size == 1:
            t = np.sign(steps)  # half a step on is the end
        scaled: Vector = middle + half * t
        return np.exp(scaled) if isinstance(self.described, Log) else scaled

    @cached_property
    def values(self) -> Vector:
        """Values of all steps of the tree; beyond the last one, the last."""
        return self.at(np.arange(BRANCHES**self.depth))

    @cached_property
    def reach(self) -> Vector:
        """How far a value may be from the one it is rounded to, by step; truth values are steps."""
        at = np.arange(BRANCHES**self.depth)
        if isinstance(self.described, Boolean):
            return np.zeros(len(at))
        lower, upper = self.at(at - 0.5), self.at(at + 0.5)
        return np.maximum(self.values - lower, upper - self.values)


def consistent(noisy: Sequence[Matrix], variances: Sequence[float]) -> tuple[Matrix, Vector]:
    """Least squares of a tree's counts: of the steps (G, 2^h), and a variance for each level.

    `noisy` are counts (G, 2^l) of the levels l = 0, ..., h, with noise of the `variances`, which is
    infinite where a level was not counted. The
    variances that are returned are those of a node as its own count and its children's tell it.
    """
    best, seen = list(noisy), [float(x) for x in variances]
    for level in range(len(best) - 2, -1, -1):
        children = best[level + 1][:, ::2] + best[level + 1][:, 1::2]
        of_children = BRANCHES * seen[level + 1]
        counted = seen[level] < math.inf
        weight = of_children / (of_children + seen[level]) if counted else 0.0  # 1 where public
        best[level] = weight * best[level] + (1 - weight) * children
        seen[level] = weight * seen[level] if counted else of_children
    counts = best[0]
    for nodes in best[1:]:
        off = (counts - nodes[:, ::2] - nodes[:, 1::2]) / BRANCHES
        counts = nodes + np.repeat(off, BRANCHES, axis=1)
    return counts, np.array(seen)


def not_negative(counts: Matrix) -> Matrix:
    """The nearest counts of steps of which none is negative: from the root down, by siblings."""
    levels = [counts]
    while levels[-1].shape[-1] > 1:
        levels.append(levels[-1][:, ::2] + levels[-1][:, 1::2])
    found = np.maximum(levels.pop(), 0.0)
    for nodes in levels[::-1]:
        first = np.clip((found + nodes[:, ::2] - nodes[:, 1::2]) / 2, 0.0, found)
        found = np.stack([first, found - first], axis=-1).reshape(len(counts), -1)
    return found


def noise_variances(sums: Matrix, variances: Vector) -> Vector:
    """Variances (k,) of the noise in sums over steps, weighted by `sums` (k, 2^h)."""
    means, found = sums, np.zeros(len(sums))
    for variance in variances[:0:-1]:
        children = means.reshape(len(means), -1, BRANCHES)
        means = children.mean(-1)
        found += variance * ((children - means[..., None]) ** 2).sum((-2, -1))
    whole: Vector = found + variances[0] * means[:, 0] ** 2
    return whole


def prefix_variances(variances: Vector) -> Matrix:
    """Variances (h, 2^h) of noise, by level from 1 on, in sums up to each step given their total.

    That total itself moves the sum up to step i by (i + 1) / 2^h times its own noise.
    """
    depth = len(variances) - 1
    i = np.arange(BRANCHES**depth)
    rows = []
    for level in range(1, depth + 1):
        span = BRANCHES ** (depth - level)  # steps of a node
        before, part = (i // span) % BRANCHES, (i % span + 1) / span
        taken = before + part
        rows.append(variances[level] * (before + part**2 - taken**2 / BRANCHES))
    return np.array(rows).reshape(depth, len(i))


def _first(mask: NDArray[np.bool_]) -> Steps:
    """In each row the first step that is true, or the last of all."""
    found: Steps = np.where(mask.any(axis=1), mask.argmax(axis=1), mask.shape[1] - 1)
    return found


def _after(mask: NDArray[np.bool_]) -> Steps:
    """In each row the step after the last that is true, or the first of all."""
    found: Steps = np.where(mask.any(axis=1), mask.shape[1] - mask[:, ::-1].argmax(axis=1), 0)
    return found


class IntervalEstimates(NamedTuple):
    """Estimates with the ends of their intervals; NaN in groups that the noise hides."""

    estimate: Matrix
    lower: Matrix
    upper: Matrix


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TableOfCounts(Printed, SavedFit):
    """Noisy counts of one column in groups of rows, with their guarantee."""

    column: str
    by: tuple[str, ...]
    columns: Columns
    counts: Matrix
    variances: Vector
    n_rows: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    privacy: Profile
    reproducible: bool
    unit: str | None = None
    refusal: str | None = None

    #: What is said below a table; and what of it a file has as lists.
    legend: ClassVar[str]
    tuples: ClassVar[tuple[str, ...]] = ("by",)

    @property
    def groups(self) -> tuple[tuple[Level, ...], ...]:
        """The groups: a level of each factor."""
        factors = (as_factor(name, self.columns.variables) for name in self.by)
        return tuple(product(*((*f.levels, *(("other",) if f.other else ())) for f in factors)))

    @property
    def labels(self) -> list[str]:
        """The groups as text."""
        return [" ".join(map(str, group)) or self.column for group in self.groups]

    @property
    def hidden(self) -> tuple[tuple[Level, ...], ...]:
        """Groups of which the noise hides how many rows they have."""
        return ()

    @property
    def proof_status(self) -> ProofStatus:
        """How well it is founded; see `Release.proof_status`."""
        return self.privacy.proof_status

    def heads(self, alpha: float = 0.05) -> dict[str, Vector]:
        """What `frame` shows, by heading: of each group one number, or one for each cell."""
        raise NotImplementedError

    def frame(self, alpha: float = 0.05, **given: Any) -> DataFrame:
        """A data frame (needs pandas) with a row for each group, or bin of it: what `heads` has."""
        with extra("pandas", "a data frame needs"):
            import pandas as pd
        heads = self.heads(alpha, **given)
        each = len(next(iter(heads.values()))) // len(self.counts)
        groups = [group or (self.column,) for group in self.groups for _ in range(each)]
        index = pd.MultiIndex.from_tuples(groups, names=self.by or None)
        return pd.DataFrame(heads, index.get_level_values(0) if index.nlevels == 1 else index)

    def text(self, alpha: float = 0.05) -> str:
        """The table as text, with intervals of level 1 - `alpha`."""
        below = [f"{shown(self.column)}{self.legend.format(level_text(alpha))}"]
        if self.hidden:
            names = [" ".join(map(str, group)) or "the table" for group in self.hidden]
            below.append(f"The noise hides how many rows have: {listed(names)}.")
        below.append(
            f"epsilon={self.epsilon:g}, delta={self.delta:g}, {self.adjacency}, {self.proof_status}"
            + (f", all rows of one {shown(self.unit)}" if self.unit is not None else "")
            + (", drawn with a seed: NOT PRIVATE" if self.reproducible else "")
        )
        columns = self.heads(alpha)
        heads = ["", *(shown(re.sub(r".*_(low|upp)er_ci$", r"\1er", head)) for head in columns)]
        rows = zip(*columns.values(), strict=True)
        # Amounts of money have no exponent.
        cells = [[f"{x:{'.0f' if 1e5 <= abs(x) < 1e9 else '.5g'}}" for x in row] for row in rows]
        each = len(cells) // len(self.counts)
        labels = (label for label in short_names(self.labels) for _ in range(each))
        lines = [[label, *line] for label, line in zip(labels, cells, strict=True)]
        return "\n".join([*aligned(heads, lines), *below])

    def __str__(self) -> str:
        return self.text()

    @classmethod
    def _parts(cls, header: JsonObject) -> JsonObject:
        parts = {name: tuple(header[name]) for name in cls.tuples}
        return header | parts | {"columns": Columns.from_dict(header["columns"])}

    def _check_guarantee(self) -> None:
        """Raise unless the guarantee is sound: it may be that of any release, or of several."""
        check_guarantee(self)

    def _check(self) -> None:
        if self.variances.ndim != 1 or self.counts.shape != self._shape():
            raise ValueError("there is a count for each cell of each group, and its variance")
        check_sizes(counts=self.counts, variances=self.variances)
        if not (self.variances >= 0).all():
            raise ValueError("variances are not negative")
        if not isinstance(self.unit, str | None):
            raise ValueError("a unit is a column's name")

    def _shape(self) -> tuple[int, int]:
        raise NotImplementedError


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DistributionResults(TableOfCounts):
    """The distribution of one column in groups of rows, by noisy counts of steps of its range.

    `Study.summarize` makes it. Printed, it has the statistics that were asked for; any quantile,
    histogram and value of the distribution function follows from it at no cost.

    Attributes
    ----------
    column, by, columns, n_rows, epsilon, delta, adjacency, privacy, reproducible, unit
        As of `HistogramResults`.
    statistics : tuple of str
        What `frame` shows.
    q : tuple of float
        Which quantiles it shows.
    counts : ndarray of shape (n_groups, n_steps), float64
        Rows by step.
    variances : ndarray of shape (h + 1,), float64
        Of the noise, by level of the tree: first that of a group's number of rows, 0 if public.
    rows_of_unit : int
        As so many rows a unit counts at most: those of one with more count less. Sampling varies as
        if all rows of a unit were alike.
    """

    statistics: tuple[StatisticName, ...]
    q: tuple[float, ...]
    rows_of_unit: int = 1

    _format = ArchiveFormat(
        "privgram-distribution", 1, "a distribution",
        key="distribution", arrays=("counts", "variances"),
    )  # fmt: skip
    legend = ": {} intervals, of the population but for counts."
    tuples = "by", "statistics", "q"

    # --- what it is of --------------------------------------------------------------------

    @cached_property
    def grid(self) -> Grid:
        """The values to which the column is rounded."""
        return Grid(as_numeric(self.column, self.columns.variables), len(self.variances) - 1)

    @cached_property
    def _rows(self) -> Vector:
        public = self.variances[0] == 0
        return np.full(1, self.n_rows) if public else self.counts.sum(axis=1)

    @cached_property
    def _sizes(self) -> Vector:
        """Rows of each group, NaN where the noise hides them."""
        rows = self._rows
        return np.where(rows > DEVIATIONS_SEEN * math.sqrt(self.variances[0]), rows, np.nan)

    @property
    def hidden(self) -> tuple[tuple[Level, ...], ...]:
        """Groups of which the noise hides how many rows they have."""
        sizes = zip(self.groups, self._sizes, strict=True)
        return tuple(group for group, n in sizes if math.isnan(n))

    def _sampled(self, estimand: Estimand) -> int:
        """How many times over rows are sampled: not at all, or units whole."""
        check_one_of(estimand, "estimand", get_args(Estimand))
        return self.rows_of_unit if estimand == "population" else 0

    # --- estimates ------------------------------------------------------------------------

    def count(self, alpha: float = 0.05) -> IntervalEstimates:
        """Numbers of rows, shape (n_groups,), with intervals of level 1 - `alpha`."""
        rows, half = self._rows, quantile_of(alpha) * math.sqrt(self.variances[0])
        seen = np.where(np.isnan(self._sizes), np.nan, np.maximum(rows, 0.0))
        return IntervalEstimates(seen, np.maximum(rows - half, 0.0), np.maximum(rows + half, 0.0))

    def mean(self, alpha: float = 0.05, estimand: Estimand = "population") -> IntervalEstimates:
        """Means, shape (n_groups,), of the population or of the rows at hand; by Fieller's method.

        Where the noise hides whether there are rows at all, far out, they may only move a mean
        outwards: the estimate and its nearer end are those of values that are cut there. Intervals
        are wider by what rounding to the steps may have moved.
        """
        return self._moments(alpha, estimand, squared=False)

    def sd(self, alpha: float = 0.05, estimand: Estimand = "population") -> IntervalEstimates:
        """Standard deviations, shape (n_groups,), as `mean`; the divisor is n - 1."""
        return self._moments(alpha, estimand, squared=True)

    def _moments(self, alpha: float, estimand: Estimand, squared: bool) -> IntervalEstimates:
        """Means, or roots of mean squares about them, within the range and as rounding allows."""
        least, most = self.grid.at(np.array([-0.5, self.grid.size - 0.5])).tolist()
        middle, half = (least + most) / 2, (most - least) / 2
        f, n = (self.grid.values - middle) / half, self._sizes
        low, high = (f[steps][:, None] for steps in self._seen_from)
        own = np.diff(self._up_to, axis=1, prepend=0.0)
        own /= np.maximum(own.sum(axis=1, keepdims=True), 1e-300)
        seen, ends = np.clip(f, low, high), [np.minimum(f, high), np.maximum(f, low)]
        if squared:
            center = (own * seen).sum(axis=1, keepdims=True)
            seen, *ends = ((x - center) ** 2 for x in (seen, seen, f + 0 * center))
        sides = zip(ends, (-1, 1), strict=True)
        around = np.sort([self._end_of_mean(x, side, alpha, estimand) for x, side in sides], axis=0)
        found = np.array([np.clip((own * seen).sum(axis=1), *around), *around])
        if squared:
            found = half * np.sqrt(np.maximum(found, 0.0) * n / np.maximum(n - 1, 1.0))
            least, most = 0.0, half
        else:
            found = middle + half * found
        reach = self.grid.reach
        wide = np.clip(self.counts @ reach / n, reach.min(), reach.max())
        found += np.multiply.outer([0.0, -1.0, 1.0], wide)
        return IntervalEstimates(*np.clip(found, least, most))

    @property
    def _seen_from(self) -> tuple[Steps, Steps]:
        """The first and the last step beyond which a group has rows that no noise hides."""
        below, above = (2 * np.sqrt(self._variance(p)) for p in (0.0, 1.0))
        last = _after(self._sizes[:, None] - self._up_to > above)
        return _first(self._up_to > below), np.minimum(last, len(above) - 1)

    def _end_of_mean(self, f: Matrix, side: int, alpha: float, estimand: Estimand) -> Vector:
        """An end of the interval of each group's mean of a value of each step, shape (G, 2^h)."""
        z2, n, of_rows = quantile_of(alpha) ** 2, self._sizes, self.variances[0]
        total = (self.counts * f).sum(axis=1)
        spread = (self.counts * f**2).sum(axis=1) / n - (total / n) ** 2
        sampled = np.maximum(spread, 0.0) * n * self._sampled(estimand)
        a = n**2 - z2 * of_rows
        b = n * total - z2 * of_rows * f.mean(axis=1)
        c = total**2 - z2 * (noise_variances(f, self.variances) + sampled)
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        return np.where(a <= 0, side, (b + side * root) / np.where(a == 0, 1.0, a))

    @cached_property
    def _below(self) -> tuple[Matrix, Matrix]:
        """Rows of each group up to each step, which do not fall, and the variance of their noise.

        Sums of counts, by isotonic regression. Of a run of equal ones that of levels whose nodes
        are no longer than the run is left out.
        """
        from scipy.optimize import isotonic_regression

        fits = [isotonic_regression(sums) for sums in np.cumsum(self.counts, axis=1)]
        runs = np.array([np.repeat(x, x) for x in (np.diff(fit.blocks) for fit in fits)])
        by_level = prefix_variances(self.variances)
        spans = BRANCHES ** np.arange(len(by_level))[::-1]  # steps of a node
        kept = np.zeros(runs.shape)
        for variance, span in zip(by_level, spans, strict=True):
            kept += np.where(runs >= span, 0.0, variance)
        least = LEAST**2 * by_level.sum(axis=0)
        return np.array([fit.x for fit in fits]), np.maximum(kept, least)

    @cached_property
    def _up_to(self) -> Matrix:
        """Estimated rows of each group up to each step: sums of counts of which none is negative.

        They are nearer than sums by isotonic regression, and have no law of their own.
        """
        return np.cumsum(not_negative(self.counts), axis=1)

    @cached_property
    def _of_sums(self) -> Vector:
        """Noise of the rows up to each step, given that of all."""
        return np.asarray(prefix_variances(self.variances).sum(axis=0))

    def _variance(self, p: float | Matrix, of_sums: Matrix | Vector | None = None) -> Matrix:
        """Noise of the rows up to each step, less p times all rows."""
        steps = self.counts.shape[1]
        of_rows = (np.arange(1, steps + 1) / steps - p) ** 2 * self.variances[0]
        return np.asarray(of_rows + (self._of_sums if of_sums is None else of_sums))

    def _half(
        self,
        p: float | Matrix,
        alpha: float,
        estimand: Estimand,
        of_sums: Matrix | Vector | None = None,
    ) -> Matrix:
        """Half the intervals of each group's rows up to each step, less the part p of all."""
        sampled = self._sampled(estimand) * self._sizes[:, None] * p * (1 - p)
        return np.asarray(quantile_of(alpha) * np.sqrt(self._variance(p, of_sums) + sampled))

    def quantile(
        self, q: float | Sequence[float], alpha: float = 0.05, estimand: Estimand = "population"
    ) -> IntervalEstimates:
        """Quantiles, shape (n_groups, n_q): the least value with at least the part q of the rows.

        They do not fall with q. An interval has all values at which the distribution function may
        be q, by the noise, and of a population by sampling too (docs/theory/distributions.md).
        """
        parts, last = check_quantiles(q), self.grid.size - 1
        (below, of_sums), found = self._below, np.empty((3, len(self.counts), len(parts)))
        for k, p in enumerate(parts):
            wanted = p * self._sizes[:, None]
            half = self._half(p, alpha, estimand, of_sums)
            at = np.minimum(_first(self._up_to >= wanted * (1 - 1e-12)), last)
            start = np.minimum(_first(below - wanted >= -half), at)
            end = np.minimum(np.maximum(_after(below - wanted < half), at), last)
            found[:, :, k] = self.grid.at(np.array([at, start - 0.5, end + 0.5]))
        found[:, np.isnan(self._sizes)] = np.nan
        return IntervalEstimates(*found)

    def cdf(
        self, x: float | Sequence[float], alpha: float = 0.05, estimand: Estimand = "population"
    ) -> IntervalEstimates:
        """The part of the rows with values up to x, shape (n_groups, n_x), of rounded values.

        0 below the public bounds, and 1 from the upper one on. ValueError if an x is NaN.
        """
        at = np.atleast_1d(np.asarray(x, np.float64))
        if np.isnan(at).any():
            raise ValueError("x must not be NaN")
        where = np.searchsorted(self.grid.values[: self.grid.size], at, "right") - 1
        found, n = np.empty((3, len(self.counts), len(where))), self._sizes
        for k, i in enumerate(where):
            p = np.clip(self._up_to[:, i] / n, 0.0, 1.0)
            raw = self.counts[:, : i + 1].sum(axis=1) / n
            half = self._half(p[:, None], alpha, estimand)[:, i] / n
            found[:, :, k] = p, *np.clip([raw - half, raw + half], 0.0, 1.0)
        found *= where >= 0  # of no step there are no rows, and of all steps all
        found[:, :, where == self.grid.size - 1] = (n / n)[:, None]
        return IntervalEstimates(*found)

    def histogram(self, bins: int | Sequence[float] | Vector = 40) -> HistogramResults:
        """Counts in bins of equal width on the scale of the column, or between edges.

        Values are those that the column is rounded to. `Study.histogram` counts the bins
        themselves, with less noise.
        """
        edges, _ = bins_of(self.grid.described, bins)
        values = self.grid.values[: self.grid.size]
        tolerance = 1e-9 * float(np.ptp(values))
        bin_of = np.searchsorted(edges[:-1], values + tolerance, "right") - 1
        bin_of[values > edges[-1] + tolerance] = -1
        with_values = np.unique(bin_of[bin_of >= 0])  # bins may be finer than steps
        sums = np.zeros((len(with_values), self.counts.shape[1]))
        sums[:, : len(values)] = bin_of == with_values[:, None]
        counts, of_noise = np.zeros((len(self.counts), len(edges) - 1)), np.zeros(len(edges) - 1)
        counts[:, with_values] = self.counts @ sums.T
        of_noise[with_values] = noise_variances(sums, self.variances)
        shared = {each.name: getattr(self, each.name) for each in fields(TableOfCounts)}
        return HistogramResults(**shared | {"counts": counts, "variances": of_noise}, edges=edges)

    # --- what is shown --------------------------------------------------------------------

    def heads(self, alpha: float = 0.05, estimand: Estimand = "population") -> dict[str, Vector]:
        """What `frame` shows, by heading."""
        found: dict[str, Vector] = {}
        for name in self.statistics:
            if name == "quantile":
                several = zip(*(x.T for x in self.quantile(self.q, alpha, estimand)), strict=True)
                heads = {f"q{100 * q:.12g}": x for q, x in zip(self.q, several, strict=True)}
            else:
                given = (alpha,) if name == "count" else (alpha, estimand)
                heads = {name: getattr(self, name)(*given)}
            for head, ends in heads.items():
                found |= zip((head, f"{head}_lower_ci", f"{head}_upper_ci"), ends, strict=True)
        return found

    plot = of_distributions.plot_distribution

    def _shape(self) -> tuple[int, int]:
        check_quantiles(self.q)
        check_statistics(self.statistics)
        check_integer(self.rows_of_unit, "rows_of_unit", 1)
        return len(self.groups), BRANCHES**self.grid.depth


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HistogramResults(TableOfCounts):
    """Counts of one column in bins, in every group.

    Attributes
    ----------
    column : str
    by : tuple of str
        Factors whose levels, crossed, are the groups; none for all rows together.
    columns : Columns
        What is public of these.
    edges : ndarray of shape (n_bins + 1,), float64
        Rows are of the bins [left, right), and of the last one at its end too.
    counts : ndarray of shape (n_groups, n_bins), float64
        As the noise leaves them: they may be negative.
    variances : ndarray of shape (n_bins,), float64
        Of the noise.
    n_rows : float
        Rows of all groups, about; exact where it is public.
    epsilon, delta, adjacency, privacy
        The guarantee, and its profile.
    reproducible : bool
        True if the noise came from a generator the caller seeded.
    unit : str or None
        Whose rows are protected together, if not single rows.
    """

    edges: Vector

    _format = ArchiveFormat(
        "privgram-histogram", 1, "a histogram",
        key="histogram", arrays=("edges", "counts", "variances"),
    )  # fmt: skip
    legend = ": counts with {} intervals, of these rows."

    def count(self, alpha: float = 0.05) -> IntervalEstimates:
        """Numbers of rows (n_groups, n_bins) with intervals of level 1 - `alpha`, of these rows."""
        half = quantile_of(alpha) * np.sqrt(self.variances)
        return IntervalEstimates(*(np.maximum(self.counts + x, 0.0) for x in (0.0, -half, half)))

    def heads(self, alpha: float = 0.05) -> dict[str, Vector]:
        """The ends of each bin of each group, its count, and the interval of that."""
        ends = {"left": self.edges[:-1], "right": self.edges[1:]}
        names = "count", "count_lower_ci", "count_upper_ci"
        counts = {name: x.ravel() for name, x in zip(names, self.count(alpha), strict=True)}
        return {name: np.tile(x, len(self.counts)) for name, x in ends.items()} | counts

    plot = of_distributions.plot_histogram

    def _shape(self) -> tuple[int, int]:
        bins_of(as_numeric(self.column, self.columns.variables), self.edges)
        if len(self.variances) != len(self.edges) - 1:
            raise ValueError("there is a variance for each bin")
        return len(self.groups), len(self.variances)


def check_quantiles(q: float | Sequence[float]) -> tuple[float, ...]:
    """Quantiles that are asked for, each within (0, 1)."""
    several = [q] if np.ndim(q) == 0 else list(q)  # type: ignore[arg-type]
    return tuple(check_within(one, "q", 0, 1) for one in several)


def bins_of(described: Numeric, bins: int | Sequence[float] | Vector) -> tuple[Vector, Vector]:
    """Edges of bins in own units, and their places in the range, from 0 to 1.

    Places are a little before the edge, so that rows at it are on its right; the last, after it.
    """
    whole = Grid(described, 1)
    ends = whole.at(np.array([0.0, 1.0]))
    if np.ndim(bins) == 0:
        n_bins = check_integer(bins, "bins", 1, MOST_STEPS)
        edges = whole.at(np.linspace(0, 1, n_bins + 1))
    else:
        edges = np.asarray(bins, np.float64)
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise ValueError("bins is a number, or edges that ascend")
        slack = 1e-9 * float(np.ptp(ends))
        if edges[0] < ends[0] - slack or edges[-1] > ends[1] + slack:
            raise ValueError("edges of bins are within the column's bounds, as all values are")
    # An edge may be beyond a bound by the slack, and a logarithm's then be below 0.
    scaled = np.log(np.clip(edges, *ends)) if isinstance(described, Log) else edges
    places = ((scaled - described.center) / described.half_width + 1) / 2 - EDGE
    places[-1] += 2 * EDGE
    return edges, places


def check_statistics(statistics: StatisticName | Sequence[StatisticName]) -> tuple[Any, ...]:
    """Statistics that are asked for: some, each once."""
    several = [statistics] if isinstance(statistics, str) else list(statistics)
    for one in several:
        check_one_of(one, "statistics", get_args(StatisticName))
    if not several or len({*several}) < len(several):
        raise ValueError("statistics are some of 'count', 'mean', 'sd' and 'quantile', each once")
    return tuple(several)


def summarize(
    release: ReleaseRecord,
    column: str,
    by: str | Sequence[str] = (),
    q: float | Sequence[float] = (0.25, 0.5, 0.75),
) -> DistributionResults:
    """Give counts, means, deviations and quantiles of a factor of whole numbers, in groups.

    Of a month of a `Stream`, of a cluster or a warehouse, of units: whatever a release is of. Each
    level has noise of its own: of some hundred, quantiles are about as good as those of
    `Study.summarize` are for the same price.

    Parameters
    ----------
    release : Release
        Of columns with the term that crosses the factors: ``terms=["age*region"]``.
    column : str
        A factor whose levels are whole numbers that follow one another, such as ages, or amounts
        that were divided by 100 and rounded.
    by, q
        As of `Study.summarize`.

    Returns
    -------
    DistributionResults
    """
    by, known = (by,) if isinstance(by, str) else tuple(by), release.variables
    names = *by, column
    factors = [as_factor(name, known) for name in names if isinstance(known.get(name), Factor)]
    values: tuple[Any, ...] = ()
    if len(factors) == len(names) == len({*names}) and not factors[-1].other:
        values = factors[-1].levels
    follow = all(isinstance(x, int) and x == values[0] + i for i, x in enumerate(values))
    if len(values) < 2 or not follow:
        raise ValueError(
            f"{column!r} is summarized if it is a factor, as those of by= are, and its levels are "
            "whole numbers that follow one another: pg.Factor(list(range(18, 91)))"
        )
    columns = release.columns
    assert columns is not None
    stored = [x for x in columns.layout.stored if not x.piece.powers]
    cells = next((x for x in stored if {*x.piece.factors} == {*names}), None)
    unit = release.privacy_unit
    row_bound = release.bound if unit is None else unit.row_bound or 0.0
    if cells is None or columns.row_weights is not None or row_bound < columns.bound:
        raise ValueError(
            f"the release does not count rows by {' and '.join(names)}: it takes "
            f"terms=[{'*'.join(names)!r}], of rows without weights or a bound of their own"
        )
    check_moved(release)
    frames = np.eye(release.n_columns)[cells.columns, None]
    noise = release.noise.entry_variance(release.matrix, frames)
    order = [cells.piece.factors.index(name) for name in names]
    sizes = [len(as_factor(name, known)) for name in cells.piece.factors]
    raw = np.diag(release.unbiased)[cells.columns].reshape(sizes) / cells.weight**2
    depth = (len(values) - 1).bit_length()
    counts = np.zeros((raw.size // len(values), BRANCHES**depth))
    counts[:, : len(values)] = raw.transpose(order).reshape(len(counts), -1)
    empty = [np.zeros((len(counts), BRANCHES**level)) for level in range(depth)]
    variances = [*[math.inf] * depth, float(noise.max()) / cells.weight**4]
    steps, nodes = consistent([*empty, counts], variances)
    bounds = {name: known[name] for name in by} | {column: (values[0], values[-1])}
    return DistributionResults(
        column=column,
        by=by,
        columns=Columns(bounds, intercept=True),
        statistics=get_args(StatisticName),
        q=check_quantiles(q),
        counts=steps,
        variances=nodes,
        n_rows=max(float(steps.sum()), 1.0),
        **{name: getattr(release, name) for name in GUARANTEE},
        unit=None if unit is None else unit.name,
        rows_of_unit=max(math.ceil((release.bound / row_bound) ** 2 - 1e-9), 1),
    )


def read_table(path: Path) -> DistributionResults | HistogramResults:
    """Read a distribution or a histogram that was saved."""
    kinds = {kind._format.name: kind for kind in (DistributionResults, HistogramResults)}
    return kinds[format_of(path) or ""]._read(path)
