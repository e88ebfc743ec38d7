"""What one regression takes or gives: fits of simulated rows at one epsilon after another.

Nothing of a secret table is read. `privgram.study` says how rows are fitted.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.log import log
from privgram._base.numbers import check_positive
from privgram._base.text import Printed, aligned, listed, no_less, number, short_names, shown
from privgram.columns.groups import Groups
from privgram.columns.unit import PrivateBound
from privgram.planning.designs import DesignInput, simulated_rows
from privgram.planning.simulation import DrawRule, SimulatedFit, SimulatedFits, simulate_fits
from privgram.privacy import GaussianProfile
from privgram.privacy.calibration import gaussian_ratio
from privgram.regression.inference import RefusedError

if TYPE_CHECKING:
    from privgram._base.saved import JsonObject
    from privgram.columns import Columns
    from privgram.columns.terms import Parsed
    from privgram.columns.unit import Unit
    from privgram.planning.guess import Guess
    from privgram.privacy.guarantee import Guarantee
    from privgram.regression import RegressionResults


#: Where epsilon is looked for, how near to the best one is good enough, and in how many steps.
LEAST_EPSILON, MOST_EPSILON, NEAR, SEARCH_STEPS = 1e-3, 64.0, 0.95, 10

#: Fits for the numbers of a plan, for those beside them, and to see whether one is refused.
PLAN_DRAWS = DrawRule(least=20, most=45, median_within=0.04, while_some_refused=True)
FEW_DRAWS = DrawRule(least=9, most=20, median_within=0.04, while_some_refused=True)
NO_REFUSAL = DrawRule(least=20, most=20, median_within=math.inf, until_refused=True)
ONE_DRAW = DrawRule(least=1, most=1, median_within=math.inf)

#: Part of the fits that must be answered where an epsilon is to give what is wanted.
ANSWERED = 0.9

#: The spread of what fits state gets a note where its ends differ by so much.
APART = 1.5

#: With this epsilon noise is nothing beside sampling.
NO_PRIVACY = 1e6

#: Rows that are simulated at most; of more, noise is as large beside sampling as with all.
MOST_SIMULATED_ROWS = 200_000

#: Rows of a unit of which nothing is said.
ROWS_OF_UNIT = 5

#: Characters of a line, and lines of coefficients that a screen has room for.
WIDTH = 80
SCREEN = 11


@dataclass(frozen=True)
class PrecisionRow:
    """One coefficient of a `Precision`.

    Attributes
    ----------
    name : str
        Of the coefficient.
    sampling : float
        Its standard error without privacy.
    stderr : float or None
        Its standard error at the plan's epsilon; None where most fits would be refused, or hide it.
    release : float or None
        Its standard error on a release of these columns; None where there is none.
    at_all : float or None
        Its standard error with all of the budget that is left.
    wanted : float or None
        The standard error that `target_se` asks for.
    if_rare : float or None
        Its standard error at the plan's epsilon where events and levels that nobody spoke of are
        rare, and instruments weak; None where nothing of this is guessed, or most fits would be
        refused.
    """

    name: str
    sampling: float
    stderr: float | None
    release: float | None
    at_all: float | None
    wanted: float | None
    if_rare: float | None


@dataclass(frozen=True, repr=False)
class Precision(Printed):
    """What one regression takes or gives; printed it is one screen.

    Attributes
    ----------
    formula : str
    answered : float or None
        Part of the simulated fits at this epsilon that are answered, and not refused for noise.
        None where no epsilon is planned with.
    answered_if_rare : float or None
        The same where events and levels that nobody spoke of are rare, and instruments weak. None
        where nothing of this is guessed.
    draws : int
        How many fits that is a part of.
    epsilon : float or None
        The least that gives what is wanted, within a twentieth; or what was asked for. None where
        none is known that gives it.
    delta : float
    left : float
        Epsilon of the budget that is left.
    rows : tuple of PrecisionRow
    heading : str
        What table is planned with, in words.
    notes : tuple of str
        Sentences about what the numbers leave open.
    method : str
        How `Study.regress` will most often answer: "scores", "one round", ...
    guessed : bool
        Whether anything of the table is guessed; the notes say what.
    """

    formula: str
    answered: float | None
    answered_if_rare: float | None
    draws: int
    epsilon: float | None
    delta: float
    left: float
    rows: tuple[PrecisionRow, ...]
    heading: str
    notes: tuple[str, ...]
    method: str
    guessed: bool

    def __float__(self) -> float:
        return math.nan if self.epsilon is None else self.epsilon

    def __getitem__(self, name: str) -> PrecisionRow:
        """The row of a coefficient."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def to_dict(self) -> JsonObject:
        """Return the plan as plain values, for JSON."""
        return vars(self) | {"rows": [vars(row) for row in self.rows]}

    def __str__(self) -> str:
        at = "-" if self.epsilon is None else f"at {self.epsilon:.3g}"
        columns: dict[str, list[float | None]] = {
            "no privacy": [row.sampling for row in self.rows],
            at: [row.stderr for row in self.rows],
            "if rare": [row.if_rare for row in self.rows],
            "by a release": [row.release for row in self.rows],
            f"at {self.left:.3g}, all left": [row.at_all for row in self.rows],
            "wanted": [row.wanted for row in self.rows],
        }
        columns = {
            head: values for head, values in columns.items() if any(x is not None for x in values)
        }
        cells = [
            [name, *(number(values[j]) for values in columns.values())]
            for j, name in enumerate(short_names([row.name for row in self.rows], 26))
        ]
        more = len(cells) - SCREEN
        lines = aligned(["std err", *columns], cells[:SCREEN] if more > 1 else cells)
        lines += [f"and {more} more, which are in plan.rows"] * (more > 1)
        first = "A guess. " * self.guessed
        if self.answered is not None:
            rarely = self.answered_if_rare
            other = "" if rarely is None else f"; {rarely:.0%} if rare"
            first += (
                f"Answered: {self.answered:.0%} of {self.draws} simulated fits at epsilon = "
                f"{self.epsilon:.3g}{other}."
            )
        head = [*([first] if first else []), shown(self.formula), *self.heading.split("\n")]
        notes = [textwrap.fill(note, WIDTH) for note in self.notes]
        return "\n".join([*(textwrap.fill(x, WIDTH) for x in head), "", *lines, "", *notes])


@dataclass(frozen=True, eq=False)
class SimulatedTable:
    """Rows like those of the table, some of which may stand for several."""

    what: str  # they are like, in words
    guess: Guess | None  # that they are drawn by; None of a table or a release
    values: Mapping[str, Any]  # by column, the unit's and that of the groups too
    rows_for_one: float
    unit: Unit | None
    rows_of_unit: int  # 0 where the design has units
    groups: Groups | None

    @classmethod
    def like(
        cls,
        design: DesignInput,
        parsed: Parsed,
        columns: Columns,
        n_rows: int,
        unit: Unit | None,
        groups: Groups | None,
        counts: bool,
        rare: bool = False,
    ) -> SimulatedTable:
        """Rows for one regression, by what a plan is given; `counts` of a target that counts.

        By the `rare` twin of a guess, if it is one.
        """
        what, values, guess = simulated_rows(
            {} if design is None else design,
            columns,
            min(n_rows, MOST_SIMULATED_ROWS),
            None if unit is None else unit.name,
            counts=frozenset(parsed.targets if counts else ()),
            instrumented=_instrumented(parsed, columns),
            rare=rare,
        )
        size = len(next(iter(values.values())))
        rows_of_unit = 0
        if unit is not None and unit.name not in values:
            rows_of_unit = _rows_of(unit, columns)
            values[unit.name] = np.arange(size) // rows_of_unit
        if groups is not None:  # one of them: all have the same noise
            groups = Groups(groups.by, groups.factor.levels[:1])
            values[groups.by] = np.full(size, groups.labels[0])
        return cls(what, guess, values, n_rows / size, unit, rows_of_unit, groups)

    @property
    def guessed(self) -> bool:
        """Whether anything of the table is guessed."""
        return self.guess is not None or self._unit_guessed

    @property
    def _unit_guessed(self) -> bool:
        return self.unit is not None and self.rows_of_unit > 0 and not _bounded(self.unit)

    @property
    def assumptions(self) -> list[str]:
        """What nothing public says, as sentences."""
        words = [] if self.guess is None else self.guess.assumptions
        if self._unit_guessed:
            assert self.unit is not None
            words.append(f"{self.rows_of_unit} rows of one {shown(self.unit.name)}")
        notes = []
        if words:
            rare = ""
            if self.guess is not None and self.guess.rare_twin is not None:
                rare = f" If rare: {'; '.join(self.guess.rare_assumptions)}."
            notes.append(f"Guessed: {'; '.join(words)}.{rare} Say better by design=.")
        if self.rows_of_unit:
            notes.append(
                "Rows of one unit are taken to be independent; where they are not, add rows."
            )
        return notes


@dataclass(frozen=True, eq=False)
class FitSimulation:
    """Fits of one simulated table, by what will fit the real one, at any epsilon."""

    table: SimulatedTable
    price: Callable[[float], Guarantee]  # of one answer, by its epsilon
    regress: Callable[[Guarantee, np.random.Generator], RegressionResults]
    # The same regression on a release of the columns, where that is another answer.
    on_release: Callable[[Guarantee, np.random.Generator], RegressionResults] | None = None
    if_rare: FitSimulation | None = None  # by the rare twin of a guess

    @cached_property
    def without_noise(self) -> dict[str, float]:
        """Standard errors without privacy, of the coefficients that have one."""
        fits = self._simulate(self.regress, NO_PRIVACY, ONE_DRAW)
        return _medians(fits)

    @property
    def sampling(self) -> dict[str, float]:
        """Standard errors without privacy, of which there are some."""
        if not self.without_noise:
            raise ValueError(
                "a regression on rows like these is refused without noise too: its features are "
                "not told apart, or the rows are too few; take other terms, or another design"
            )
        return self.without_noise

    def at(self, epsilon: float, rule: DrawRule) -> SimulatedFits:
        """What `Study.regress` states."""
        return self._simulate(self.regress, epsilon, rule)

    def least_answered(self, epsilon: float, most: float) -> float | None:
        """The least epsilon from this one on, in steps of a half, at which no fit is refused.

        Neither one by the guess, of which most show every coefficient, nor one by its rare twin.
        None where there is none up to `most`.
        """
        both = (self,) if self.if_rare is None else (self, self.if_rare)
        if not all(fits.without_noise for fits in both):  # no epsilon helps
            return None
        while (told := float(no_less(epsilon, 2))) <= most:
            tried = [fits.at(told, NO_REFUSAL) for fits in both]
            shown = _medians(tried[0]).keys() >= self.without_noise.keys()
            if shown and all(fits.answered == 1 for fits in tried):
                return told
            epsilon *= 1.5
        return None

    def beside(self, epsilon: float) -> SimulatedFits | None:
        """What a regression on a release states; None where `at` has it, or there is none."""
        if self.on_release is None:
            return None
        return self._simulate(self.on_release, epsilon, FEW_DRAWS)

    def _simulate(
        self,
        fit: Callable[[Guarantee, np.random.Generator], RegressionResults],
        epsilon: float,
        rule: DrawRule,
    ) -> SimulatedFits:
        log.info("fits of simulated rows at epsilon=%g", epsilon)
        guarantee = replace(self.price(epsilon), epsilon=self._scaled(epsilon))

        def one(seed: int) -> SimulatedFit | None:
            try:
                result = fit(guarantee, np.random.default_rng(seed))
            except RefusedError:
                return None
            stderr = np.asarray(result.bse, dtype=np.float64) / math.sqrt(self.table.rows_for_one)
            stderr[~np.isfinite(stderr)] = np.inf
            return SimulatedFit(result.param_names, stderr, _method_of(result), result.cov_type)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return simulate_fits(one, rule)

    def _scaled(self, epsilon: float) -> float:
        """With how much these rows have the noise beside their sampling that all rows have."""
        factor = self.table.rows_for_one
        if factor == 1 or epsilon == NO_PRIVACY:
            return epsilon
        delta = self.price(epsilon).delta
        if delta == 0:
            return epsilon * math.sqrt(factor)
        mu = gaussian_ratio(epsilon, delta) * math.sqrt(factor)
        return float(GaussianProfile(mu).epsilon(delta))


def plan_precision(
    formula: str,
    fits: FitSimulation,
    *,
    left: float,  # of the budget
    n_rows: int,  # of each group
    target_se: Mapping[str, float] | None,  # standard errors, by coefficient or factor
    epsilon: float | None,  # instead of `target_se`; by default all that is left
) -> Precision:
    """Find the epsilon that a precision takes, or the precision of one; see `Study.plan`."""
    at, sampling = cache(partial(fits.at, rule=PLAN_DRAWS)), fits.sampling
    goals: dict[str, float] = {}
    if target_se:
        goals = _goals(target_se, list(sampling))
        epsilon, result = _search(at, sampling, goals, left)
    else:
        epsilon = left if epsilon is None else check_positive(epsilon, "epsilon")
        result = at(epsilon) if epsilon > 0 else None
    whole = None if left <= 0 or epsilon == left else fits.at(left, FEW_DRAWS)
    rare = fits.if_rare.at(epsilon, FEW_DRAWS) if fits.if_rare and epsilon else None
    stderr, at_all, if_rare = _medians(result), _medians(whole), _medians(rare)
    released = _medians(fits.beside(epsilon) if epsilon else None)
    rows = tuple(
        PrecisionRow(
            name,
            error,
            stderr.get(name),
            released.get(name),
            at_all.get(name),
            goals.get(name),
            if_rare.get(name),
        )
        for name, error in sampling.items()
    )
    guarantee = fits.price(epsilon or left or 1.0)
    each = " in each group" if fits.table.groups is not None else ""
    notes = _notes(rows, epsilon, left, n_rows, fits)
    if result is not None and result.mostly_answered:
        notes += _remarks(result)
    return Precision(
        formula=formula,
        answered=None if result is None else result.answered,
        answered_if_rare=None if rare is None else rare.answered,
        draws=0 if result is None else result.tried,
        epsilon=epsilon,
        delta=guarantee.delta,
        left=left,
        rows=rows,
        heading=(
            f"{n_rows:,} rows{each} like {fits.table.what}; "
            f"delta={guarantee.delta:g}, {guarantee.adjacency}"
        ),
        notes=(*notes, *fits.table.assumptions),
        method=result.fits[-1].method if result is not None and result.mostly_answered else "",
        guessed=fits.table.guessed,
    )


def asked(epsilon: float | None, most: float) -> str:
    """What to ask where fits are refused, by the least epsilon at which none is: a sentence."""
    other = "fewer terms, more rows, or a plan with design="
    if epsilon is None:
        return f"By simulated rows no epsilon up to {most:g} is sure to be answered: take {other}"
    return f"By simulated rows it takes epsilon = {epsilon:g}, or {other}"


def _medians(fits: SimulatedFits | None) -> dict[str, float]:
    """Median standard errors, where most fits are answered and show the coefficient."""
    if fits is None or not fits.mostly_answered:
        return {}
    return {name: error for name, error in fits.medians.items() if math.isfinite(error)}


def _remarks(result: SimulatedFits) -> list[str]:
    """How fits at this epsilon come about, and by how much they differ."""
    last = result.fits[-1]
    errors = "for errors of equal variance" if last.cov_type == "nonrobust" else "robust"
    notes = [f"Answered by {last.method}; standard errors {errors}."]
    ranges = {"": (1.0, 1.0)} | result.ranges
    name, (low, high) = max(ranges.items(), key=lambda item: item[1][1] / item[1][0])
    if high >= APART * low:
        notes.append(
            f"Medians. Of ten fits eight state {low:.3g} to {high:.3g} for {shown(name)[:28]}."
        )
    return notes


def _instrumented(parsed: Parsed, columns: Columns) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not parsed.endogenous:
        return ()

    def variables(texts: Iterable[str]) -> tuple[str, ...]:
        terms = [text.partition("[")[0] for text in texts]
        return columns.replace(terms=terms, row_weights=None).selected

    instruments = variables(parsed.instruments)
    return tuple((name, instruments) for name in variables(parsed.endogenous))


def _bounded(unit: Unit) -> bool:
    """Whether something public bounds the rows of a unit."""
    return unit.max_rows is not None or not (
        unit.bound is None or isinstance(unit.bound, PrivateBound)
    )


def _rows_of(unit: Unit, columns: Columns) -> int:
    """Rows of one unit: as many as it may have, or a guess."""
    if not _bounded(unit):
        return ROWS_OF_UNIT
    bound = unit.bound
    return unit.max_rows or max(round((float(bound) / columns.bound) ** 2), 1)  # type: ignore[arg-type]


def _method_of(fit: RegressionResults) -> str:
    return str(fit.parameters["method"])


def _goals(target_se: Mapping[str, float], names: list[str]) -> dict[str, float]:
    """What is wanted of each coefficient; of a factor, of all its levels."""
    if not isinstance(target_se, Mapping):
        raise TypeError("target_se is a mapping of names to standard errors, such as {'age': 0.01}")
    goals: dict[str, float] = {}
    for key, value in target_se.items():
        wanted = [name for name in names if name == key or name.startswith(f"{key}[")]
        if not wanted:
            raise ValueError(f"target_se: no coefficient {key!r}; there are {listed(names)}")
        goals |= dict.fromkeys(wanted, check_positive(value, f"the wanted precision of {key!r}"))
    return goals


def _search(
    at: Callable[[float], SimulatedFits],
    sampling: dict[str, float],
    goals: dict[str, float],
    left: float,
) -> tuple[float | None, SimulatedFits | None]:
    """The least epsilon at which fits answer and state what is wanted; and what they state."""
    if any(sampling[name] >= goal for name, goal in goals.items()):
        return None, None

    def excess(fits: SimulatedFits) -> float:
        """Privacy's part of the error over the room for it: at most 1 where all is met."""
        if fits.answered < ANSWERED:
            return math.inf
        parts, medians = [0.0], fits.medians
        for name, goal in goals.items():
            error = medians[name]
            room = goal**2 - sampling[name] ** 2
            parts.append(max(error**2 - sampling[name] ** 2, 0.0) / room)
        return math.sqrt(max(parts))

    # Outside is too little, inside is enough; privacy's part falls about as 1 / epsilon.
    inside: tuple[float, SimulatedFits] | None = None
    outside, value = LEAST_EPSILON, min(max(left, 0.1), MOST_EPSILON)
    for _ in range(SEARCH_STEPS):
        fits = at(value)
        over = excess(fits)
        if over <= 1:
            inside = value, fits
        else:
            outside = value
        if over <= 1 and over >= NEAR:
            break
        step = 4.0 if math.isinf(over) else min(max(over / 0.975, 0.125), 8.0)
        value *= step
        if inside is not None and not outside < value < inside[0]:
            value = math.sqrt(outside * inside[0])
            if inside[0] / outside < 1.03:
                break
        if value > MOST_EPSILON:
            if outside >= MOST_EPSILON:
                break
            value = MOST_EPSILON
    return (None, None) if inside is None else inside


def _notes(
    rows: tuple[PrecisionRow, ...],
    epsilon: float | None,
    left: float,
    n_rows: int,
    fits: FitSimulation,
) -> list[str]:
    """What to do, by what was simulated."""
    table = fits.table
    over = "" if epsilon is None or epsilon <= left else f", and {left:.3g} are left"
    wanted = [row.sampling / row.wanted for row in rows if row.wanted is not None]
    if not wanted:
        notes = []
        if epsilon and any(row.stderr is None for row in rows):
            advised = asked(fits.least_answered(1.5 * epsilon, MOST_EPSILON), MOST_EPSILON)
            notes.append(f"A dash: in most fits noise hides it. {advised}.")
        if over:
            notes.append(f"Epsilon is {epsilon:.3g}{over}.")
        return notes
    if epsilon is not None:
        return [f"Take epsilon = {epsilon:.3g}{over and f'{over}: more rows, or fewer terms'}."]
    like = "By the guess below, sampling" if table.guessed else "No epsilon gives it: sampling"
    if max(wanted) >= 1:
        return [
            f"{like} alone leaves more{', whatever epsilon is' * table.guessed}. It takes about "
            f"{math.ceil(n_rows * max(wanted) ** 2 * 1.1):,} rows."
        ]
    by = "By the guess below" if table.guessed else f"On {table.what}"
    return [f"{by} no epsilon up to {MOST_EPSILON:g} gives it: take more rows, or fewer terms."]
