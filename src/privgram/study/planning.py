"""What one regression takes or gives, by the very engine on rows that are simulated.

Nothing of the secret table is read: rows follow from what is public, and fits of them are drawn.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.log import log
from privgram._base.numbers import check_integer, check_positive
from privgram._base.text import Printed, aligned, listed, number, shown
from privgram.columns.groups import Groups
from privgram.columns.terms import parse_one
from privgram.columns.unit import PrivateBound
from privgram.disclosure.release import release_for
from privgram.glm.problem import FitPurpose
from privgram.planning.designs import draw_more, simulated_rows
from privgram.privacy import GaussianProfile
from privgram.privacy.calibration import gaussian_ratio
from privgram.regression.families import FamilyName, LossName
from privgram.regression.inference import RefusedError
from privgram.study.answer import explained, needed, protected, release_and_fit

if TYPE_CHECKING:
    from privgram.columns import Columns
    from privgram.columns.terms import Parsed
    from privgram.columns.unit import Guarantee, Unit
    from privgram.mechanisms import Mechanism
    from privgram.regression.glm import CovType

__all__ = ["Advice", "Precision", "PrecisionRow", "RegressOptions", "precision"]

#: Where epsilon is looked for, how near to the best one is good enough, and in how many steps.
LEAST_EPSILON, MOST_EPSILON, NEAR, SEARCH_STEPS = 1e-3, 64.0, 0.95, 10

#: Fits that are simulated for one epsilon, at least and at most: their standard errors may differ
#: by the noise, and more are drawn until the median is known to this part of itself, or while
#: some of them are refused. For numbers beside those of the plan few are drawn.
PLAN_DRAWS, MOST_DRAWS, FEW_DRAWS, MEDIAN_KNOWN = 20, 45, 9, 0.04

#: Part of the fits that must be offered where an epsilon is to give what is wanted.
OFFERED = 0.9

#: The spread of what fits state is told without a tenth at either end, where the ends differ by so
#: much.
SPREAD_ENDS, APART = (0.1, 0.9), 1.5

#: How many times the epsilon that was refused is advised at least, and what epsilon at most: one
#: that is larger protects hardly anyone.
ADVICE_MARGIN, ADVISED = 4.0, 10.0

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
class RegressOptions:
    """What `Study.regress` takes besides a formula and a price, and changes its answer."""

    family: FamilyName = "gaussian"
    loss: LossName = "squared"
    cov_type: CovType | None = None
    purpose: FitPurpose = "inference"
    reference: Mapping[str, Any] | None = None
    mechanism: Mechanism | str | None = None
    offset: str | None = None

    @property
    def by_release(self) -> bool:
        """Whether a regression on a release of the columns answers the same question."""
        return (self.family, self.loss, self.mechanism) == ("gaussian", "squared", None)


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
        Its standard error at the plan's epsilon; None where most fits would be refused.
    release : float or None
        Its standard error on a release of these columns; None where there is none.
    at_all : float or None
        Its standard error with all of the budget that is left.
    wanted : float or None
        The standard error that `target_se` asks for.
    """

    name: str
    sampling: float
    stderr: float | None
    release: float | None
    at_all: float | None
    wanted: float | None


@dataclass(frozen=True, repr=False)
class Precision(Printed):
    """What one regression takes or gives; printed it is one screen.

    Attributes
    ----------
    formula : str
    offered : float or None
        Part of the simulated fits at this epsilon that are offered, and not refused for noise. None
        where no epsilon is planned with.
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
    offered: float | None
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

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, for JSON."""
        return vars(self) | {"rows": [vars(row) for row in self.rows]}

    def __str__(self) -> str:
        at = "-" if self.epsilon is None else f"at {self.epsilon:.3g}"
        columns: dict[str, list[float | None]] = {
            "no privacy": [row.sampling for row in self.rows],
            at: [row.stderr for row in self.rows],
            "by a release": [row.release for row in self.rows],
            f"at {self.left:.3g}, all left": [row.at_all for row in self.rows],
            "wanted": [row.wanted for row in self.rows],
        }
        columns = {
            head: values for head, values in columns.items() if any(x is not None for x in values)
        }
        cells = [
            [shown(row.name)[:26], *(number(values[j]) for values in columns.values())]
            for j, row in enumerate(self.rows)
        ]
        more = len(cells) - SCREEN
        lines = aligned(["std err", *columns], cells[:SCREEN] if more > 1 else cells)
        lines += [f"and {more} more, which rows has"] * (more > 1)
        first = []
        if self.offered is not None:
            fits = f"{self.offered:.0%} of {self.draws} simulated fits"
            first = [f"Offered: {fits} at epsilon = {self.epsilon:.3g}."]
        head = [*first, shown(self.formula), *self.heading.split("\n")]
        notes = [textwrap.fill(note, WIDTH) for note in self.notes]
        return "\n".join([*(textwrap.fill(x, WIDTH) for x in head), "", *lines, "", *notes])


def precision(
    formula: str,
    columns: Columns,
    price: Callable[[float], Guarantee],  # of one answer, by its epsilon
    *,
    left: float,  # of the budget
    n_rows: int,
    target_se: Mapping[str, float] | None = None,  # standard errors, by coefficient or factor
    epsilon: float | None = None,  # instead of `target_se`; by default all that is left
    design: Any = None,
    unit: Unit | None = None,
    groups: Groups | None = None,
    options: RegressOptions | None = None,
    once: bool = False,
) -> Precision:
    """Find the epsilon that a precision takes, or the precision of one; see `privgram.Study.plan`.

    The columns are those of the whole table, which can be read `once` or by one machine again.
    Among groups the rows are shared evenly, and the regression is on their releases.
    """
    options = RegressOptions() if options is None else options
    n_rows = check_integer(n_rows, "n_rows", 1)
    if groups is not None and options != RegressOptions(reference=options.reference):
        raise ValueError(
            "by= plans least squares on the releases of groups: leave out the other options"
        )
    each = max(n_rows // (1 if groups is None else len(groups)), 1)
    fits = _Simulation(formula, columns, design, each, unit, groups, price, options, once)
    at = cache(fits.at)
    goals: dict[str, float] = {}
    if target_se:
        goals = _goals(target_se, list(fits.names))
        epsilon, result = _search(at, fits.sampling, goals, left)
    else:
        epsilon = left if epsilon is None else check_positive(epsilon, "epsilon")
        result = at(epsilon) if epsilon > 0 else None
    whole = None if left <= 0 or epsilon == left else fits.roughly(left)
    nothing = _Stated(dict.fromkeys(fits.names), math.nan, 0)
    beside = (fits.beside(epsilon) if epsilon else None) or nothing
    rows = tuple(
        PrecisionRow(
            name,
            fits.sampling[name],
            (result or nothing).stderr[name],
            beside.stderr[name],
            (whole or nothing).stderr[name],
            goals.get(name),
        )
        for name in fits.names
    )
    guarantee = price(epsilon or left or 1.0)
    heading = (
        f"{each:,} rows{' in each group' * (groups is not None)} like {fits.rows.what}; "
        f"delta={guarantee.delta:g}, {guarantee.adjacency}"
    )
    notes = _notes(rows, epsilon, left, each, fits)
    if result is not None:
        notes += fits.remarks(epsilon or left, result)
    return Precision(
        formula=formula,
        offered=None if result is None else result.offered,
        draws=0 if result is None else result.draws,
        epsilon=epsilon,
        delta=guarantee.delta,
        left=left,
        rows=rows,
        heading=heading,
        notes=(*notes, *fits.assumptions),
        method="" if result is None else result.method,
        guessed=fits.guessed,
    )


@dataclass(frozen=True)
class Advice:
    """What to ask instead of a fit that was refused, for `Results.advice`: simulated when called.

    It holds public numbers alone, and goes wherever the fit goes.
    """

    formula: str
    columns: Columns
    guarantee: Guarantee  # of what was refused
    n_rows: float | None
    unit: Unit | None
    options: RegressOptions

    def __post_init__(self) -> None:
        if self.unit is not None:  # the ids of an array are secret
            object.__setattr__(self, "unit", replace(self.unit, values=None))

    def __call__(self) -> str:
        """The advice in a sentence."""
        least = self.epsilon
        takes = "" if least is None else f"epsilon = {least:g}, or "
        return (
            f"By the plan's guess it takes {takes}fewer terms or more rows; what was spent is spent"
        )

    @property
    def epsilon(self) -> float | None:
        """An epsilon at which the regression should have standard errors.

        All fits of guessed rows must have them; None where none up to `ADVISED` does. It was
        refused for reasons that a guess may not know: so it is at least `ADVICE_MARGIN` times as
        much.
        """
        if self.n_rows is None:
            return None
        n_rows = max(round(self.n_rows), 1)
        fits = _Simulation(
            self.formula,
            self.columns,
            None,
            n_rows,
            self.unit,
            None,
            lambda epsilon: replace(self.guarantee, epsilon=epsilon),
            self.options,
            False,
        )
        if not fits.without_noise:  # no epsilon helps
            return None
        epsilon = ADVICE_MARGIN * self.guarantee.epsilon
        while epsilon <= ADVISED:
            if fits.always(epsilon):
                return float(f"{epsilon:.2g}")
            epsilon *= 1.5
        return None


@dataclass(frozen=True)
class _Stated:
    """What simulated fits at one epsilon state."""

    stderr: Mapping[str, float | None]  # medians; None where half of the fits are refused
    offered: float  # part of the fits
    draws: int
    # of eight fits in ten
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    method: str = ""  # of the last one
    cov_type: str = ""


class _Simulation:
    """Fits of simulated rows, by what will fit the table."""

    def __init__(
        self,
        formula: str,
        columns: Columns,
        design: Any,
        n_rows: int,
        unit: Unit | None,
        groups: Groups | None,
        price: Callable[[float], Guarantee],
        options: RegressOptions,
        once: bool,
    ) -> None:
        used, parsed = needed(formula, columns, options.offset), parse_one(formula)
        if options.family != "gaussian":
            used = explained(parsed, used, options.family)[1]
        size = min(n_rows, MOST_SIMULATED_ROWS)
        self.formula, self.columns, self.price = formula, columns, price
        self.options, self.groups, self.used, self.once = options, groups, used, once
        self.instrumented = bool(parsed.endogenous)
        self.rows = simulated_rows(
            {} if design is None else design,
            used,
            size,
            None if unit is None else unit.name,
            counts=frozenset(parsed.targets if options.family == "poisson" else ()),
            instrumented=_instrumented(parsed, used),
        )
        self.table = self.rows.columns
        size = len(next(iter(self.table.values())))
        #: How many rows stand for one.
        self.factor = n_rows / size
        self.unit, self.rows_of_unit = unit, 0
        if unit is not None:
            self.unit = replace(unit, values=None)  # those of the secret table
            if unit.name not in self.table:
                self.rows_of_unit = _rows_of(unit, used)
                self.table[unit.name] = np.arange(size) // self.rows_of_unit
        if groups is not None:
            self.table[groups.by] = np.full(size, groups.factor.levels[0])

    @property
    def guessed(self) -> bool:
        """Whether anything of the table is guessed."""
        return self.rows.guess is not None or self._unit_guessed

    @property
    def _unit_guessed(self) -> bool:
        return self.unit is not None and self.rows_of_unit > 0 and not _bounded(self.unit)

    @property
    def assumptions(self) -> list[str]:
        """What nothing public says, as sentences."""
        guess = self.rows.guess
        words = [] if guess is None else guess.assumptions
        if self._unit_guessed:
            assert self.unit is not None
            words.append(f"{self.rows_of_unit} rows of one {shown(self.unit.name)}")
        notes = []
        if words:
            known = "an earlier release, a public table, means, deviations and correlations"
            notes.append(f"Guessed: {'; '.join(words)}. design= takes {known}.")
        if self.rows_of_unit:
            notes.append(
                "Rows of one unit are taken to be independent; where they are not, add rows."
            )
        return notes

    @cached_property
    def without_noise(self) -> dict[str, float]:
        """Standard errors without privacy, of the coefficients that have one."""
        stated = self._drawn(self._regress, NO_PRIVACY, least=1, most=1)
        return {name: x for name, x in stated.stderr.items() if x is not None}

    @property
    def sampling(self) -> dict[str, float]:
        """Standard errors without privacy, of which there are some."""
        if not self.without_noise:
            raise ValueError(
                "a regression on rows like these is refused without noise too: its features are "
                "not told apart, or the rows are too few; take other terms, or another design"
            )
        return self.without_noise

    @property
    def names(self) -> tuple[str, ...]:
        """The coefficients."""
        return tuple(self.sampling)

    def at(self, epsilon: float) -> _Stated:
        """What `Study.regress` states."""
        return self._drawn(self._regress, epsilon)

    def roughly(self, epsilon: float) -> _Stated:
        """The same of few fits."""
        return self._drawn(self._regress, epsilon, least=FEW_DRAWS, most=PLAN_DRAWS)

    def always(self, epsilon: float) -> bool:
        """Whether no fit is refused."""
        return self._drawn(self._regress, epsilon, all_of_them=True).offered == 1

    def beside(self, epsilon: float) -> _Stated | None:
        """What a regression on a release states; None where `at` has it, or there is none."""
        if self.groups is not None or self.instrumented or not self.options.by_release:
            return None
        return self._drawn(self._released, epsilon, least=FEW_DRAWS, most=PLAN_DRAWS)

    def _drawn(
        self,
        fit: Any,
        epsilon: float,
        *,
        least: int = PLAN_DRAWS,
        most: int = MOST_DRAWS,
        all_of_them: bool = False,
    ) -> _Stated:
        """What so many fits state; with `all_of_them` of no more, once one is refused."""
        log.info("fits of simulated rows at epsilon=%g", epsilon)
        drawn: list[Any] = []
        last: Any = None
        tried = 0
        guarantee = replace(self.price(epsilon), epsilon=self._scaled(epsilon))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while tried < most and self._more(drawn, tried, least):
                if all_of_them and (len(drawn) < tried or tried == least):
                    break
                # A fixed seed: nothing secret is drawn, and a plan gives the same numbers.
                rng, tried = np.random.default_rng(tried), tried + 1
                try:
                    one = fit(guarantee, rng)
                except RefusedError:
                    continue
                errors = np.asarray(one.bse, dtype=np.float64)
                if np.isfinite(errors).all():
                    drawn.append(errors)
                    last = one
        offered = len(drawn) / tried
        if 2 * len(drawn) <= tried:
            stderr = {} if epsilon == NO_PRIVACY else dict.fromkeys(self.names)
            return _Stated(stderr, offered, tried)
        scaled = np.array(drawn) / math.sqrt(self.factor)
        names = last.param_names
        ends = [(low, high) for low, high in np.quantile(scaled, SPREAD_ENDS, axis=0).T.tolist()]
        return _Stated(
            dict(zip(names, np.median(scaled, axis=0).tolist(), strict=True)),
            offered,
            tried,
            dict(zip(names, ends, strict=True)),
            _way(last),
            last.cov_type,
        )

    @staticmethod
    def _more(drawn: list[Any], tried: int, least: int) -> bool:
        """Whether to draw one more: the median is not known, or the few that are refused."""
        return draw_more(drawn, tried, least, MEDIAN_KNOWN) or tried / 2 < len(drawn) < tried

    def remarks(self, epsilon: float, stated: _Stated) -> list[str]:
        """How fits at this epsilon come about, and by how much they differ."""
        if not stated.ends:
            return []
        equal = stated.cov_type == "nonrobust"
        errors = "for errors of equal variance" if equal else "robust"
        notes = [f"Answered by {stated.method}; standard errors {errors}."]
        name, (low, high) = max(stated.ends.items(), key=lambda item: item[1][1] / item[1][0])
        if high >= APART * low:
            notes.append(
                f"Medians. Of ten fits eight state {low:.3g} to {high:.3g} for {shown(name)[:28]}."
            )
        return notes

    def _scaled(self, epsilon: float) -> float:
        """With how much these rows have the noise beside their sampling that all rows have."""
        if self.factor == 1 or epsilon == NO_PRIVACY:
            return epsilon
        delta = self.price(epsilon).delta
        if delta == 0:
            return epsilon * math.sqrt(self.factor)
        mu = gaussian_ratio(epsilon, delta) * math.sqrt(self.factor)
        return float(GaussianProfile(mu).epsilon(delta))

    def _source(self) -> Any:
        return iter([self.table]) if self.once else self.table

    def _regress(self, guarantee: Guarantee, rng: np.random.Generator) -> Any:
        if self.groups is not None:
            return self._released(guarantee, rng)
        return release_and_fit(
            self._source(),
            self.formula,
            self.columns,
            guarantee,
            unit=self.unit,
            rng=rng,
            **vars(self.options),
        )

    def _released(self, guarantee: Guarantee, rng: np.random.Generator) -> Any:
        groups = None
        if self.groups is not None:  # one of them: all have the same noise
            groups = Groups(self.groups.by, self.groups.factor.levels[:1])
        request = {"by": groups, "rng": rng, **protected(self.unit, guarantee)}
        release: Any = release_for("regression", self._source(), self.used, **request)
        one = release if self.groups is None else release[self.groups.factor.levels[0]]
        return one.regress(self.formula, reference=self.options.reference)


def _instrumented(parsed: Parsed, columns: Columns) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What is instrumented, with its instruments, as variables."""
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
    bound: Any = unit.bound
    return unit.max_rows or max(round((float(bound) / columns.bound) ** 2), 1)


def _way(fit: Any) -> str:
    """How a fit came about."""
    parameters = getattr(fit, "parameters", None) or getattr(fit.release, "parameters", {})
    return str(parameters.get("method", "one round"))


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
    at: Callable[[float], _Stated],
    sampling: dict[str, float],
    goals: dict[str, float],
    left: float,
) -> tuple[float | None, _Stated | None]:
    """The least epsilon at which fits are offered and state what is wanted; and what they state."""
    if any(sampling[name] >= goal for name, goal in goals.items()):
        return None, None

    def excess(stated: _Stated) -> float:
        """Privacy's part of the error over the room for it: at most 1 where all is met."""
        if stated.offered < OFFERED:
            return math.inf
        parts = [0.0]
        for name, goal in goals.items():
            error = stated.stderr[name]
            assert error is not None
            room = goal**2 - sampling[name] ** 2
            parts.append(max(error**2 - sampling[name] ** 2, 0.0) / room)
        return math.sqrt(max(parts))

    # Outside is too little, inside is enough; privacy's part falls about as 1 / epsilon.
    inside: tuple[float, _Stated] | None = None
    outside, value = LEAST_EPSILON, min(max(left, 0.1), MOST_EPSILON)
    for _ in range(SEARCH_STEPS):
        stated = at(value)
        over = excess(stated)
        if over <= 1:
            inside = value, stated
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
    fits: _Simulation,
) -> list[str]:
    """What to do, by what was simulated."""
    over = "" if epsilon is None or epsilon <= left else f", and {left:.3g} are left"
    wanted = [row.sampling / row.wanted for row in rows if row.wanted is not None]
    if not wanted:
        notes = []
        if any(row.stderr is None for row in rows):
            notes.append("A dash: noise would be too large, and most fits refused. Ask for more.")
        if over:
            notes.append(f"Epsilon is {epsilon:.3g}{over}.")
        return notes
    if epsilon is not None:
        return [f"Take epsilon = {epsilon:.3g}{over and f'{over}: more rows, or fewer terms'}."]
    like = "By the guess below, sampling" if fits.guessed else "No epsilon gives it: sampling"
    if max(wanted) >= 1:
        return [
            f"{like} alone leaves more{', whatever epsilon is' * fits.guessed}. It takes about "
            f"{math.ceil(n_rows * max(wanted) ** 2 * 1.1):,} rows."
        ]
    by = "By the guess below" if fits.guessed else f"On {fits.rows.what}"
    return [f"{by} no epsilon up to {MOST_EPSILON:g} gives it: take more rows, or fewer terms."]
