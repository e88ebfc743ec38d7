"""One regression of a table: what is released for it, the fit, and what it takes or gives."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from privgram._base.numbers import check_integer, check_one_of, check_positive
from privgram._base.text import Printed, aligned, listed, number, shown
from privgram._plan.designs import draw_more, made_of
from privgram.columns import Columns
from privgram.columns.groups import Groups
from privgram.columns.terms import parse, parse_one
from privgram.columns.unit import Auto
from privgram.columns.variables import Boolean, Factor, Number
from privgram.drawing.levels import MOST_LEVELS, Wide
from privgram.drawing.links import Huber, Links
from privgram.drawing.release import release_for
from privgram.drawing.scores import scored
from privgram.engines import scale_out
from privgram.mechanisms.refined import Clipping
from privgram.privacy import GaussianProfile
from privgram.privacy.calibration import gaussian_ratio
from privgram.regression.design import AllColumns, design, left_out
from privgram.regression.families import FAMILIES, FamilyName, LossName
from privgram.regression.inference import RefusedError
from privgram.regression.instruments import Roles
from privgram.regression.scored import CovType

if TYPE_CHECKING:
    import os

    from privgram.columns.terms import Parsed
    from privgram.columns.unit import Guarantee, Unit
    from privgram.ledger import Ledger
    from privgram.mechanisms import Mechanism
    from privgram.regression.design import Design

__all__ = [
    "Precision",
    "PrecisionRow",
    "explained",
    "needed",
    "offered_at",
    "precision",
    "protected",
    "release_and_fit",
]

# Secret side: whatever `Study.regress` spends is spent here.

#: Part of the epsilon of a release that chooses the bound of a unit, where nothing public says it.
CHOOSING = 0.1

BY_SCORES = (
    'family="binomial" and "poisson" are fitted by scores, which take rows that can be read again '
    "by one machine, a unit whose bound is not Auto, a positive delta, and no instruments or "
    "mechanism; and an intercept where rows have weights"
)

CLIPPED = 'clipping="assume-seen" is of scores that are clipped'

HUBER = (
    'loss="huber" is of family="gaussian", with an intercept, robust errors and rows that are '
    "protected singly, can be read again by one machine and have no weights; with a positive "
    "delta, and no instruments, absorbed factors, factors of hundreds of levels or mechanism"
)


def needed(formula: str, columns: Columns) -> Columns:
    """Of the columns of a table those that a formula needs, and ones: of own units' origin too."""
    used = Columns.from_formula(
        formula, columns.bounds, columns.missing, row_weights=columns.row_weights
    )
    return used.replace(intercept=True)


def protected(unit: Unit | None, guarantee: Guarantee) -> dict[str, Any]:
    """The unit as a release takes it, and the guarantee that is left for this."""
    epsilon = guarantee.epsilon
    if unit is not None and unit.rows is None and unit.bound is None:
        unit = replace(unit, bound=Auto(CHOOSING * epsilon))
    if unit is not None and isinstance(unit.bound, Auto):
        guarantee = replace(guarantee, epsilon=epsilon - unit.bound.epsilon)
    return {"unit": unit, "guarantee": guarantee}


def explained(parsed: Parsed, used: Columns, family: FamilyName) -> tuple[Parsed, Columns]:
    """A formula and columns whose target is one that a family explains.

    The target of family "binomial" is a truth value: also a number within (0, 1), whose values
    between are missing then, or one of two levels. That of "poisson" is not negative.
    """
    target = parsed.targets[0]
    described = used.variables.get(target)
    if family == "poisson":
        if type(described) is not Number or described.lower < 0:
            raise ValueError(
                f"the target {target!r} is no count: describe it by bounds that are not negative"
            )
    elif isinstance(described, Factor):
        if len(described) != 2:
            raise ValueError(
                f"the target {target!r} has {len(described)} levels, and a logistic regression "
                f"explains two: name one, such as '{target}[{described.names[0]}]'"
            )
        target = f"{target}[{described.names[1]}]"
    elif type(described) is Number and described.interval == (0.0, 1.0):
        used = used.replace(bounds={**used.variables, target: Boolean()})
    elif described is not None and not isinstance(described, Boolean):
        raise ValueError(
            f"the target {target!r} is not binary: describe it by bool, by bounds (0, 1), or as a "
            "factor of two levels"
        )
    # Effects that a linear regression leaves out of the print.
    features = (*parsed.features, *parsed.absorbed)
    return replace(parsed, targets=(target,), features=features, absorbed=()), used


def release_and_fit(
    source: Any,
    formula: str,
    columns: Columns,
    guarantee: Guarantee,
    *,
    mechanism: Mechanism | str | None,  # of a release, for family "gaussian"
    family: FamilyName = "gaussian",
    loss: LossName = "squared",  # of family "gaussian"
    cov_type: CovType | None = None,  # by default robust where there are scores
    clipping: Clipping = "cautious",  # of scores
    unit: Unit | None = None,
    reference: Mapping[str, Any] | None = None,
    ledger: Ledger | None = None,
    out: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    rng: np.random.Generator | None = None,
) -> Any:
    """Release what one regression needs, and fit it, by what is expected to have the least noise.

    The columns are those of the whole table; what the formula does not use is not read. Without a
    mechanism scores are taken where they are possible: of a table that one machine can read again,
    for a formula without instruments, and a positive delta. Where single rows are protected, one
    factor may then have up to a thousand levels by itself, or any number absorbed; a second one,
    or products with it, come from a release.
    """
    check_one_of(family, "family", FAMILIES)
    check_one_of(loss, "loss", get_args(LossName))
    check_one_of(clipping, "clipping", get_args(Clipping))
    if cov_type is not None:
        check_one_of(cov_type, "cov_type", get_args(CovType))
    if cov_type == "cluster" and unit is None:
        raise ValueError(
            'cov_type="cluster" lets errors go together within the protected unit, and rows are '
            "protected singly here: name it, unit=pg.Unit(column, rows=...), or leave out cov_type"
        )
    parsed = parse(formula)
    used = needed(formula, columns)
    given: dict[str, Any] = {
        "guarantee": guarantee,
        "ledger": ledger,
        "out": out,
        "threads": threads,
        "rng": rng,
    }
    linear, wide = family == "gaussian", None
    if linear and unit is None and parsed.intercept and not parsed.endogenous:
        wide = Wide.of(parsed, used)
    robust = cov_type != "nonrobust"
    written = used if linear and wide is None else None
    possible = mechanism is None and guarantee.delta > 0
    scores = possible and _have_scores(source, parsed, unit, written)
    if scores and unit is not None and cov_type not in (None, "cluster"):
        raise ValueError(
            "errors of rows of one unit may go together, and standard errors by scores allow for "
            'it: take cov_type="cluster", or leave it out'
        )
    if loss == "huber":
        single = unit is None and wide is None and used.row_weights is None
        if not (scores and linear and parsed.intercept and robust and single):
            raise ValueError(HUBER)
        if clipping != "cautious":
            raise ValueError(f"{CLIPPED}, and Huber's loss clips nothing: leave it out")
        return scored(source, parsed, used, robust=True, steps=Huber, reference=reference, **given)
    given["clipping"] = clipping
    if scores and linear and parsed.intercept:
        given["unit"] = unit
        given["wide"] = wide
        return scored(source, parsed, used, robust=robust, reference=reference, **given)
    if not linear:
        if not scores or (used.row_weights is not None and not parsed.intercept):
            raise ValueError(BY_SCORES)
        parsed, used = explained(parsed, used, family)
        steps = partial(Links, family=FAMILIES[family])
        more: dict[str, Any] = {"robust": robust, "steps": steps, "family": family, "unit": unit}
        return scored(source, parsed, used, reference=reference, **more, **given)
    if given.pop("clipping") != "cautious":
        raise ValueError(f"{CLIPPED}: leave it out, or take mechanism=pg.Refined(clipping=...)")
    if cov_type in ("HC1", "cluster"):
        raise ValueError(
            "robust standard errors come with scores, which take rows that can be read again, "
            "no instruments, no second factor of hundreds of levels, no mechanism, and a unit "
            "whose bound is not Auto: leave out cov_type"
        )
    # What a fit would refuse is refused before anything is spent.
    described, target = AllColumns(used), parsed.targets[0]
    levels_out = left_out(parsed.references, reference)

    def design_for(features: list[str]) -> Design:
        return design(described, target, features, parsed.intercept, levels_out)

    if parsed.endogenous:
        exogenous = [*parsed.features, *parsed.absorbed]
        Roles.of(described, design_for, parsed.endogenous, parsed.instruments, exogenous)
    design_for(list(parsed.explaining))
    given |= protected(unit, guarantee)
    made: Any = release_for("regression", source, used, mechanism=mechanism, **given)
    if parsed.endogenous:
        return made.iv(formula, reference=reference)
    try:
        return made.regress(formula, reference=reference)
    except RefusedError as error:  # what was paid for is not lost
        shrunk = made.regress(formula, reference=reference, ridge="auto")
        return replace(
            shrunk, without=f"{error}. What is shown is shrunk by ridge='auto', for predictions"
        )


def _have_scores(source: Any, parsed: Parsed, unit: Unit | None, written: Columns | None) -> bool:
    """Whether rows can be read again, and units bounded, as scores need; of columns `written` out.

    One machine has to read the rows; a few factors' levels are written out, and none absorbed.
    """
    if parsed.endogenous or isinstance(source, Iterator) or scale_out(source) is not None:
        return False
    if unit is not None and (
        unit.within or unit.clip != "frobenius" or isinstance(unit.bound, Auto)
    ):
        return False
    if written is None:
        return True
    levels = sum(len(x) for x in written.variables.values() if isinstance(x, Factor))
    return not parsed.absorbed and levels <= MOST_LEVELS


# What one regression takes or gives, by the very engine on rows that are made.
#
# Nothing of the secret table is read: rows are made of what is public, and fits of them drawn.

#: Where epsilon is looked for, how near to the best one is good enough, and in how many steps.
LEAST, MOST, NEAR, STEPS = 1e-3, 64.0, 0.95, 10

#: Fits of made rows that are drawn for one number, at least and at most: their standard errors may
#: differ by the noise, and more are drawn until the median is known to this part of itself.
DRAWS, MOST_DRAWS, KNOWN = 9, 45, 0.04

#: Of what fits state, all but a tenth at either end is told, where the ends differ by so much.
ENDS, APART = (0.1, 0.9), 1.5

#: How many times the epsilon that was refused is suggested at least.
MARGIN = 4.0

#: With this epsilon noise is nothing beside sampling.
NO_PRIVACY = 1e6

#: Rows that are made at most; of more, noise is as large beside sampling as it would be with all.
MOST_ROWS = 200_000

#: Characters of a line, and lines of coefficients that a screen has room for.
WIDTH = 80
SCREEN = 11

#: What nothing is said of: columns that say nothing of each other, about the middle of the bounds.
GUESSED = (
    "Guessed: normal columns about the middle of their bounds, which say nothing of each "
    "other, and equally frequent levels. design= takes an earlier release or a public table."
)


@dataclass(frozen=True)
class PrecisionRow:
    """One coefficient, by its standard errors."""

    name: str
    sampling: float  # without privacy
    stderr: float | None  # at the plan's epsilon; None where it would be refused
    # of a regression on a release of these columns; None for log odds and counts too
    release: float | None
    at_all: float | None  # with all of the budget
    wanted: float | None


@dataclass(frozen=True, repr=False)
class Precision(Printed):
    """What one regression takes or gives; printed it is one screen.

    Attributes
    ----------
    formula : str
    epsilon : float or None
        The least that gives what is wanted, within a twentieth; or what was asked for. None where
        no epsilon gives it.
    delta : float
    left : float
        Epsilon of the budget that is left.
    rows : tuple of PrecisionRow
    heading : str
        What table is planned with, in words.
    notes : tuple of str
    way : str
        How `Study.regress` will most often answer: "scores", "second moment", "one look", ...
    """

    formula: str
    epsilon: float | None
    delta: float
    left: float
    rows: tuple[PrecisionRow, ...]
    heading: str
    notes: tuple[str, ...]
    way: str

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
        told: dict[str, list[float | None]] = {
            "no privacy": [row.sampling for row in self.rows],
            at: [row.stderr for row in self.rows],
            "by a release": [row.release for row in self.rows],
            f"at {self.left:.3g}, all left": [row.at_all for row in self.rows],
            "wanted": [row.wanted for row in self.rows],
        }
        told = {head: some for head, some in told.items() if any(x is not None for x in some)}
        cells = [
            [shown(row.name)[:26], *(number(some[j]) for some in told.values())]
            for j, row in enumerate(self.rows)
        ]
        more = len(cells) - SCREEN
        lines = aligned(["std err", *told], cells[:SCREEN] if more > 1 else cells)
        lines += [f"and {more} more, which rows has"] * (more > 1)
        heading = [textwrap.fill(shown(line), WIDTH) for line in self.heading.split("\n")]
        notes = [textwrap.fill(note, WIDTH) for note in self.notes]
        return "\n".join([*heading, "", *lines, "", *notes])


def precision(
    formula: str,
    columns: Columns,
    guarantee: Guarantee,
    *,
    left: float,  # of the budget
    n_rows: int,
    want: Mapping[str, float] | None = None,  # standard errors, by coefficient or factor
    epsilon: float | None = None,  # instead of `want`; by default all that is left
    design: Any = None,
    unit: Unit | None = None,  # with `rows`, or a bound that is a number
    groups: Groups | None = None,
    **asked: Any,
) -> Precision:
    """Find the epsilon that a precision takes, or the precision of one; see `privgram.Study.plan`.

    The columns are those of the whole table; what is asked besides, `release_and_fit` takes.
    Among groups the rows are shared evenly, and the regression is on their releases.
    """
    n_rows = check_integer(n_rows, "n_rows", 1)
    if parse_one(formula).endogenous:
        raise ValueError(
            "plan knows no instruments: plan the regression on the instruments, whose precision "
            "over the first stage's coefficient is that of the instrumented one"
        )
    each = max(n_rows // (1 if groups is None else len(groups)), 1)
    made = _Rehearsal(formula, columns, design, each, unit, groups, guarantee, asked)
    at = cache(made.at)
    whole = at(left) if left > 0 else None
    goals: dict[str, float] = {}
    if want:
        goals = _goals(want, list(made.names))
        epsilon, found = _search(at, made.sampling, goals, left)
    else:
        epsilon = left if epsilon is None else check_positive(epsilon, "epsilon")
        found = at(epsilon) if epsilon > 0 else None
    beside = None if epsilon is None or epsilon <= 0 else made.beside(epsilon)
    rows = tuple(
        PrecisionRow(
            name,
            made.sampling[name],
            None if found is None else found[name],
            None if beside is None else beside[name],
            None if whole is None or epsilon == left else whole[name],
            goals.get(name),
        )
        for name in made.names
    )
    heading = (
        f"{shown(formula)}\n{each:,} rows{' in each group' * (groups is not None)} like "
        f"{made.what}; delta={guarantee.delta:g}, {guarantee.adjacency}"
    )
    way = made.ways.get(epsilon or left, "")
    notes = _notes(rows, epsilon, left, bool(goals), each)
    if found is not None:
        notes.append(f"Answered by {way}; standard errors {made.errors_are}.")
        notes += made.differ(epsilon or left)
    notes += [GUESSED] * (design is None)
    if unit is not None:
        notes.append("Rows of one unit are taken to be independent; where they are not, add rows.")
    return Precision(formula, epsilon, guarantee.delta, left, rows, heading, tuple(notes), way)


def offered_at(
    formula: str,
    columns: Columns,
    refused: Guarantee,
    n_rows: int,
    unit: Unit | None = None,
    **asked: Any,
) -> float | None:
    """An epsilon at which a regression that was refused should have standard errors.

    Fits of guessed rows, all of which must have them; None where no epsilon up to the most does.
    What was refused was so for reasons that a guess may not know: so it is at least four times as
    much, which is a quarter of the noise.
    """
    made = _Rehearsal(formula, columns, None, n_rows, unit, None, refused, asked)
    epsilon = MARGIN * refused.epsilon
    while epsilon <= MOST:
        if made.always(epsilon):
            return float(f"{epsilon:.2g}")
        epsilon *= 1.5
    return None


class _Rehearsal:
    """Fits of made rows, by what will fit the table."""

    def __init__(
        self,
        formula: str,
        columns: Columns,
        design: Any,
        n_rows: int,
        unit: Unit | None,
        groups: Groups | None,
        guarantee: Guarantee,
        asked: dict[str, Any],
    ) -> None:
        used = needed(formula, columns)
        family = asked.get("family", "gaussian")
        made = used if family == "gaussian" else explained(parse_one(formula), used, family)[1]
        size = min(n_rows, MOST_ROWS)
        self.what, self.table = made_of({} if design is None else design, made, size)
        self.formula, self.columns, self.asked = formula, columns, dict(asked)
        self.guarantee = guarantee
        #: Whether the table can be read once only.
        self.once = self.asked.pop("once", False)
        self.groups, self.used = groups, used
        #: How many rows stand for one.
        self.factor = n_rows / size
        self.unit = unit
        if unit is not None:
            k = unit.rows or max(round((float(unit.bound) / used.bound) ** 2), 1)  # type: ignore[arg-type]
            self.table[unit.name] = np.arange(size) // k
        if groups is not None:
            self.table[groups.by] = np.full(size, groups.factor.levels[0])
        self.ways: dict[float, str] = {}
        self.ends: dict[float, dict[str, list[float]]] = {}
        self.errors_are = ""

    @cached_property
    def sampling(self) -> dict[str, float]:
        """Standard errors without privacy."""
        found = self._drawn(self._regress, NO_PRIVACY, 1)
        if found is None:
            raise ValueError(
                "a regression on rows like these is refused with any epsilon: its features are "
                "not told apart, or the rows are too few; take other terms, or another design"
            )
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The coefficients."""
        return tuple(self.sampling)

    def at(self, epsilon: float) -> dict[str, float | None]:
        """Standard errors of `Study.regress`; None where most fits are refused."""
        found = self._drawn(self._regress, epsilon)
        return dict.fromkeys(self.names) if found is None else dict(found)

    def always(self, epsilon: float) -> bool:
        """Whether no fit is refused."""
        return self._drawn(self._regress, epsilon, DRAWS, all_of_them=True) is not None

    def beside(self, epsilon: float) -> dict[str, float | None] | None:
        """Those of a regression on a release; None where `at` has them, or there is none."""
        if self.groups is not None or self.asked.get("family", "gaussian") != "gaussian":
            return None
        found = self._drawn(self._released, epsilon)
        return dict.fromkeys(self.names) if found is None else dict(found)

    def _drawn(
        self, fit: Any, epsilon: float, most: int = MOST_DRAWS, all_of_them: bool = False
    ) -> dict[str, float] | None:
        """Medians of the standard errors of fits; None if half of them are refused, or any is."""
        drawn: list[Any] = []
        names: tuple[str, ...] = ()
        seed = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while seed < most and draw_more(drawn, seed, DRAWS, KNOWN):
                # A fixed seed: nothing secret is drawn, and a plan gives the same numbers.
                rng, seed = np.random.default_rng(seed), seed + 1
                try:
                    one = fit(replace(self.guarantee, epsilon=self._scaled(epsilon)), rng)
                    errors = np.asarray(one.bse, dtype=np.float64)
                except (RefusedError, np.linalg.LinAlgError):
                    continue
                if np.isfinite(errors).all():
                    drawn.append(errors)
                    names = one.param_names
                    if fit == self._regress:
                        self._note(epsilon, one)
        if 2 * len(drawn) <= seed or (all_of_them and len(drawn) < seed):
            return None
        found = np.array(drawn) / math.sqrt(self.factor)
        if fit == self._regress:
            ends = np.quantile(found, ENDS, axis=0).T.tolist()
            self.ends[epsilon] = dict(zip(names, ends, strict=True))
        return dict(zip(names, np.median(found, axis=0).tolist(), strict=True))

    def differ(self, epsilon: float) -> list[str]:
        """What fits at this epsilon state of one coefficient, where they differ."""
        ends = self.ends.get(epsilon, {})
        if not ends:
            return []
        name = max(ends, key=lambda name: ends[name][1] / ends[name][0])
        low, high = ends[name]
        if high < APART * low:
            return []
        return [f"Medians. Of ten fits eight state {low:.3g} to {high:.3g} for {shown(name)[:28]}."]

    def _note(self, epsilon: float, fit: Any) -> None:
        said = getattr(fit, "parameters", None) or getattr(fit.release, "parameters", {})
        self.ways[epsilon] = str(said.get("way", "one look"))
        self.errors_are = {"nonrobust": "for errors of equal variance"}.get(fit.cov_type, "robust")

    def _scaled(self, epsilon: float) -> float:
        """With how much these rows have the noise beside their sampling that all rows have."""
        if self.factor == 1 or epsilon == NO_PRIVACY:
            return epsilon
        delta = self.guarantee.delta
        if delta == 0:
            return epsilon * math.sqrt(self.factor)
        mu = gaussian_ratio(epsilon, delta) * math.sqrt(self.factor)
        return float(GaussianProfile(mu).epsilon(delta))

    def _regress(self, guarantee: Guarantee, rng: np.random.Generator) -> Any:
        if self.groups is not None:
            return self._released(guarantee, rng)
        source: Any = iter([self.table]) if self.once else self.table
        given: dict[str, Any] = {"mechanism": None, "unit": self.unit, "rng": rng, **self.asked}
        return release_and_fit(source, self.formula, self.columns, guarantee, **given)

    def _released(self, guarantee: Guarantee, rng: np.random.Generator) -> Any:
        source: Any = iter([self.table]) if self.once else self.table
        by = None
        if self.groups is not None:  # one of them: all have the same noise
            by = Groups(self.groups.by, self.groups.factor.levels[:1])
        made: Any = release_for(
            "regression", source, self.used, guarantee, by=by, unit=self.unit, rng=rng
        )
        one = made if self.groups is None else made[self.groups.factor.levels[0]]
        return one.regress(self.formula)


def _goals(want: Mapping[str, float], names: list[str]) -> dict[str, float]:
    """What is wanted of each coefficient; of a factor, of all its levels."""
    if not isinstance(want, Mapping):
        raise TypeError("want is a mapping of names to standard errors, such as {'age': 0.01}")
    goals: dict[str, float] = {}
    for key, value in want.items():
        own = [name for name in names if name == key or name.startswith(f"{key}[")]
        if not own:
            raise ValueError(f"want: no coefficient {key!r}; there are {listed(names)}")
        goals |= dict.fromkeys(own, check_positive(value, f"the wanted precision of {key!r}"))
    return goals


def _search(
    at: Any, sampling: dict[str, float], goals: dict[str, float], left: float
) -> tuple[float | None, dict[str, float | None] | None]:
    """The least epsilon that gives what is wanted, and what it gives."""
    if any(sampling[name] >= goal for name, goal in goals.items()):
        return None, None

    def excess(found: dict[str, float | None]) -> float:
        """Privacy's part of the error over the room for it: at most 1 where all is met."""
        parts = [0.0]
        for name, goal in goals.items():
            error = found[name]
            if error is None:
                return math.inf
            room = goal**2 - sampling[name] ** 2
            parts.append(max(error**2 - sampling[name] ** 2, 0.0) / room)
        return math.sqrt(max(parts))

    # Outside is too little, inside is enough; privacy's part falls about as 1 / epsilon.
    inside: tuple[float, dict[str, float | None]] | None = None
    outside, value = LEAST, min(max(left, 0.1), MOST)
    for _ in range(STEPS):
        rows = at(value)
        over = excess(rows)
        if over <= 1:
            inside = value, rows
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
        if value > MOST:
            if outside >= MOST:
                break
            value = MOST
    return (None, None) if inside is None else inside


def _notes(
    rows: tuple[PrecisionRow, ...], epsilon: float | None, left: float, wanted: bool, n_rows: int
) -> list[str]:
    if not wanted:
        if any(row.stderr is None for row in rows):
            return ["A dash: noise would be too large, and standard errors refused. Ask for more."]
        return []
    if epsilon is not None:
        more = "" if epsilon <= left else f", and {left:.3g} are left: more rows, or fewer terms"
        return [f"Take epsilon = {epsilon:.3g}{more}."]
    short = max((row.sampling / row.wanted for row in rows if row.wanted is not None), default=1.0)
    if short >= 1:
        return [
            "No epsilon gives it: sampling alone leaves more. It takes about "
            f"{math.ceil(n_rows * short**2 * 1.1):,} rows."
        ]
    return [f"No epsilon up to {MOST:g} gives it: take more rows, or fewer terms."]
