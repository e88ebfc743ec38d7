"""What one answer of a study takes or gives, by the very fits that will answer it.

Nothing of the secret table is read: `privgram.planning` simulates rows by what is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.text import shown
from privgram.columns.terms import as_factor, parse_one
from privgram.columns.variables import Boolean, Factor, Number
from privgram.disclosure.release import release_for
from privgram.disclosure.request import ReleaseRequest, RunOptions
from privgram.planning.designs import DesignInput
from privgram.planning.precision import (
    FitSimulation,
    Precision,
    SimulatedTable,
    asked,
)
from privgram.regression.design import RegressionTerms
from privgram.regression.inference import RefusedError, quantile_of
from privgram.study.answer import fit_release, needed, protected, release_and_fit
from privgram.study.options import RegressOptions
from privgram.study.tables import Asked, column_and_groups, summarize_table

if TYPE_CHECKING:
    from privgram._base.numbers import Vector
    from privgram.columns import Columns
    from privgram.columns.groups import Groups
    from privgram.columns.terms import Parsed
    from privgram.columns.unit import Unit
    from privgram.privacy.guarantee import Guarantee
    from privgram.regression import RegressionResults


__all__ = ["Advice", "Precision", "fits_of"]

#: How many times the epsilon that was refused is advised at least, and what epsilon at most: one
#: that is larger protects hardly anyone.
ADVICE_MARGIN, ADVISED = 4.0, 10.0

#: A released mean may be off by so many deviations of its noise.
MEAN_DEVIATIONS = 2.0
HIDDEN_MEAN = (
    "The noise hides the mean of {}, and what epsilon it takes depends on that: guess it by a plan "
    "with design=, or take more rows"
)


def fits_of(
    parsed: Parsed,
    columns: Columns,  # of the whole table
    price: Callable[[float], Guarantee],  # of one answer, by its epsilon
    options: RegressOptions,
    design: DesignInput,
    n_rows: int,
    unit: Unit | None,
    groups: Groups | None = None,  # whose releases the regression is on; each has as many rows
    once: bool = False,  # whether the table can be read once, or by several machines
) -> FitSimulation:
    """Fits of simulated rows, by what will fit the table."""
    if options.groups is not None:  # of which nothing is guessed
        options = replace(options, groups=None, cov_type=None)
    plain = RegressOptions(reference=options.reference, weights=options.weights)
    if groups is not None and options != plain:
        raise ValueError(
            "by= plans least squares on the releases of groups: leave out the other options"
        )
    if groups is not None and parsed.endogenous:
        raise ValueError(
            "a formula with instruments is for iv, and by= plans regress in each group"
        )
    used = needed(parsed, columns)
    family = options.chosen_family
    counts = family.counts
    if parsed.survival:
        # A number within (0, 1) would be guessed to be 0 or 1, and times are not.
        known = used.variables
        times = {x: Number(*_wider(known[x])) for x in parsed.survival[:-1]}
        used = used.replace(bounds={**known, **times})
    else:
        used = family.explained(parsed.targets[0], used)[1]

    def simulated(rare: bool) -> FitSimulation:
        table = SimulatedTable.like(design, parsed, used, n_rows, unit, groups, counts, rare)
        if len(parsed.survival) == 3:
            table = _in_order(table, *parsed.survival[:2])

        def source() -> Any:
            return iter([table.values]) if once else table.values

        def by_release(guarantee: Guarantee, rng: np.random.Generator) -> RegressionResults:
            whose, guarantee = protected(table.unit, guarantee)
            request = ReleaseRequest(
                source(), guarantee, used, unit=whose, by=table.groups, rng=rng
            )
            release: Any = release_for(request)
            one = release if table.groups is None else release[table.groups.labels[0]]
            return fit_release(one, RegressionTerms.of(parsed, reference=options.reference))

        def by_study(guarantee: Guarantee, rng: np.random.Generator) -> RegressionResults:
            return release_and_fit(
                source(), parsed, columns, guarantee, options, RunOptions(rng=rng), unit=table.unit
            )

        apart = table.guess is not None and table.guess.rare_twin is not None
        twin = simulated(rare=True) if apart else None
        if groups is not None:
            return FitSimulation(table, price, by_release, if_rare=twin)
        beside = by_release if options.by_release and not parsed.endogenous else None
        return FitSimulation(table, price, by_study, beside, twin)

    return simulated(rare=False)


def _wider(described: Any) -> tuple[float, float]:
    """Bounds of a time, a last digit wider."""
    return described.lower, np.nextafter(described.upper, np.inf)


def _in_order(table: SimulatedTable, start: str, stop: str) -> SimulatedTable:
    """Guessed rows whose starts come before their times, half of them from the first on."""
    if table.guess is None:
        return table
    starts, times = table.values[start], np.maximum(table.values[stop], np.finfo(float).tiny)
    part = np.where(np.arange(len(times)) % 2, starts / (2 * starts.max(initial=1e-300)), 0.0)
    return replace(table, values={**table.values, start: part * times, stop: times})


@dataclass(frozen=True, eq=False)
class SummaryErrors:
    """Standard errors of one group's statistics, as a plan of fits takes them."""

    param_names: tuple[str, ...]
    bse: Vector
    parameters: Mapping[str, str]
    cov_type: str = "HC1"


def summaries_of(
    column: str,
    by: Sequence[str],
    columns: Columns,
    price: Callable[[float], Guarantee],
    design: DesignInput,
    n_rows: int,
    unit: Unit | None,
) -> tuple[FitSimulation, int]:
    """Summaries of simulated rows of one group, by what will answer; and how many these are."""
    levels = [len(as_factor(name, columns.variables)) for name in by]
    each = max(n_rows // math.prod(levels), 1)
    alone = column_and_groups(columns, column, ()).replace(missing="drop")
    rows = SimulatedTable.like(design, parse_one(f"`{column}` ~ 1"), alone, each, unit, None, False)

    def one(guarantee: Guarantee, rng: np.random.Generator) -> Any:
        asked = Asked(rows.values, alone, column, (), guarantee, RunOptions(rng=rng), rows.unit)
        found = summarize_table(asked, ("mean", "sd", "quantile"), (0.25, 0.5, 0.75))
        if found.hidden:
            raise RefusedError("the noise hides how many rows a group has")
        heads, z = found.heads(), quantile_of(0.05)
        names = tuple(name for name in heads if not name.endswith("_ci"))
        ends = [(heads[f"{name}_lower_ci"], heads[f"{name}_upper_ci"]) for name in names]
        bse = np.array([float(upper[0] - lower[0]) / (2 * z) for lower, upper in ends])
        return SummaryErrors(names, bse, {"method": "counts of steps"})

    return FitSimulation(rows, price, one), each


@dataclass(frozen=True)
class Advice:
    """What to ask instead of a refused fit, for `RegressionResults.advice`: simulated when called.

    It holds public numbers alone, and goes wherever the fit goes.
    """

    parsed: Parsed
    columns: Columns
    guarantee: Guarantee  # of what was refused
    n_rows: float | None
    unit: Unit | None
    options: RegressOptions
    target_mean: float | None = None  # that what was refused released
    target_mean_std: float = 0.0  # of its noise

    def __call__(self) -> str:
        """The advice in a sentence."""
        if self.hides_mean:
            return HIDDEN_MEAN.format(shown(self.parsed.targets[0]))
        return asked(self.epsilon, ADVISED)

    @property
    def epsilon(self) -> float | None:
        """An epsilon at which the regression should have standard errors.

        All fits of guessed rows must have them, as `Study.plan` guesses, with counts or events as
        rare as the released mean leaves them; None where none up to `ADVISED` does, or that mean is
        hidden. It was refused for reasons that a guess may not know: so it is at least
        `ADVICE_MARGIN` times as much.
        """
        if self.n_rows is None or self.hides_mean:
            return None

        def price(epsilon: float) -> Guarantee:
            return replace(self.guarantee, epsilon=epsilon)

        n_rows = max(round(self.n_rows), 1)
        fits = fits_of(
            self.parsed, self.columns, price, self.options, self._design, n_rows, self.unit
        )
        return fits.least_answered(ADVICE_MARGIN * self.guarantee.epsilon, ADVISED)

    @cached_property
    def _range(self) -> tuple[str, float, float] | None:
        """The name and the range of a target of which the guess turns on its mean."""
        family, used = self.options.chosen_family, needed(self.parsed, self.columns)
        target, used = family.explained(self.parsed.targets[0], used)
        described = used.variables.get(target.partition("[")[0])
        if isinstance(described, Factor | Boolean):
            return target, 0.0, 1.0
        turns = type(described) is Number and (family.counts or described.interval == (0.0, 1.0))
        return (target, *described.interval) if turns else None  # type: ignore[union-attr]

    @property
    def hides_mean(self) -> bool:
        """Whether the target's mean is no farther from an end of its range than by noise."""
        if self.target_mean is None or self._range is None:
            return False
        room = min(self.target_mean, self._range[2] - self.target_mean)
        return not room >= MEAN_DEVIATIONS * self.target_mean_std

    @property
    def _design(self) -> DesignInput:
        """The guess of a target as rare as noise leaves it open, by its released mean."""
        if self.target_mean is None or self._range is None:
            return None
        target, low, high = self._range
        rarer = self.options.chosen_family.counts or self.target_mean <= 0.5
        doubt = MEAN_DEVIATIONS * self.target_mean_std * (1 if rarer else -1)
        return {"mean": {target: min(max(self.target_mean - doubt, low), high)}}
