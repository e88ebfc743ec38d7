"""From a wanted precision of one regression to epsilon, and from epsilon to precision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.checks import check_integer, check_positive
from privgram._base.text import listed, shown
from privgram._plan.designs import design_of
from privgram._plan.outlook import OutlookRow, Setting
from privgram._plan.text import aligned, number
from privgram.columns.formula import parse_one
from privgram.mechanisms import AnalyzeGauss, MatrixLaplace, Refined

if TYPE_CHECKING:
    from privgram.columns import Columns
    from privgram.mechanisms import Mechanism
    from privgram.privacy import Adjacency

__all__ = ["Precision", "PrecisionRow", "precision"]

#: Where epsilon is looked for, how near to the best one is good enough, and in how many steps.
LEAST, MOST, NEAR, STEPS = 1e-3, 64.0, 0.95, 10

#: What nothing is said of: columns that say nothing of each other, about the middle of the bounds.
GUESSED = (
    "Guessed: normal columns about the middle of their bounds that say nothing of each other, and "
    "equally frequent levels. Correlated columns need more; design= takes an earlier release or a "
    "public table."
)


@dataclass(frozen=True)
class PrecisionRow:
    """One coefficient.

    Attributes
    ----------
    name : str
    sampling : float
        Standard error without privacy.
    stderr : float or None
        With privacy, at the plan's epsilon; None where it would be refused.
    at_all : float or None
        The same with all of the budget.
    wanted : float or None
    """

    name: str
    sampling: float
    stderr: float | None
    at_all: float | None
    wanted: float | None


@dataclass(frozen=True)
class Precision:
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
    """

    formula: str
    epsilon: float | None
    delta: float
    left: float
    rows: tuple[PrecisionRow, ...]
    heading: str
    notes: tuple[str, ...]

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
        heads = ["std err", "no privacy", at, f"at {self.left:.3g}, all left"]
        wanted = any(row.wanted is not None for row in self.rows)
        cells = [
            [shown(row.name), number(row.sampling), number(row.stderr), number(row.at_all)]
            + [number(row.wanted)] * wanted
            for row in self.rows
        ]
        if wanted:
            heads.append("wanted")
        return "\n".join([self.heading, "", *aligned(heads, cells), "", *self.notes])

    __repr__ = __str__


def precision(
    formula: str,
    columns: Columns,
    *,
    delta: float,
    adjacency: Adjacency,
    left: float,
    n_rows: int,
    want: Mapping[str, float] | None = None,
    epsilon: float | None = None,
    design: Any = None,
    rows_per_unit: int | None = None,
    unit_bound: float | None = None,
    groups: int = 1,
    logistic: bool = False,
    once: bool = False,
) -> Precision:
    """Find the epsilon that a precision takes; see `privgram.Study.plan`.

    Parameters
    ----------
    formula : str
    columns : Columns
        Those that the formula needs.
    delta, adjacency, left
        Of the budget.
    n_rows : int
    want : mapping of str to float, optional
        Standard errors, by coefficient or factor.
    epsilon : float, optional
        Instead of `want`; by default all that is left.
    design : Release, DataFrame or mapping, optional
        As in `privgram.plan`.
    rows_per_unit, unit_bound : optional
        Of the protected unit.
    groups : int
        Among which the rows are shared evenly.
    logistic : bool
        Whether coefficients are of log odds.
    once : bool
        Whether there is one look.
    """
    n_rows = check_integer(n_rows, "n_rows", 1)
    if parse_one(formula).endogenous:
        raise ValueError(
            "plan knows no instruments: plan the regression on the instruments, whose precision "
            "over the first stage's coefficient is that of the instrumented one"
        )
    bound, mechanism = columns.bound, _mechanism(delta, once or groups > 1)
    if rows_per_unit is not None:
        bound, mechanism = bound * math.sqrt(rows_per_unit), _mechanism(delta, True)
    elif unit_bound is not None:
        bound, mechanism = max(float(unit_bound), bound), _mechanism(delta, True)
    taken = design_of({} if design is None else design, columns, bound)
    setting = Setting(columns, taken, bound, adjacency)
    each = max(n_rows // groups, 1)
    scale = _odds(setting, formula) if logistic else 1.0

    def at(value: float) -> list[OutlookRow]:
        return setting.errors(mechanism, formula, each, value, delta)

    whole = at(left) if left > 0 else None
    goals: dict[str, float] = {}
    if want:
        first = whole or at(1.0)
        goals = _goals(want, [row.name for row in first])
        epsilon, found = _search(at, first, {name: v / scale for name, v in goals.items()}, left)
    else:
        epsilon = left if epsilon is None else check_positive(epsilon, "epsilon")
        found = at(epsilon) if epsilon > 0 else None
    shown_at = found or whole or at(MOST)
    rows = tuple(
        PrecisionRow(
            row.name,
            scale * row.sampling,
            None if found is None else _times(scale, found[j].stderr[""]),
            None if whole is None else _times(scale, whole[j].stderr[""]),
            goals.get(row.name),
        )
        for j, row in enumerate(shown_at)
    )
    heading = (
        f"{formula}\n{each:,} rows{' in each group' * (groups > 1)} like {taken.what}, "
        f"delta={delta:g}, {adjacency}"
    )
    notes = _notes(rows, epsilon, left, bool(goals), each)
    notes += [GUESSED] * (design is None)
    if logistic:
        notes.append("Of log odds, by the linear regression of the 0/1 target: about right.")
    if bound > columns.bound:
        notes.append("Rows of one unit are taken to be independent; where they are not, add rows.")
    return Precision(formula, epsilon, delta, left, rows, heading, tuple(notes))


def _mechanism(delta: float, once: bool) -> Mechanism:
    if delta == 0:
        return MatrixLaplace()
    return AnalyzeGauss() if once else Refined()


def _times(scale: float, value: float | None) -> float | None:
    return None if value is None else scale * value


def _odds(setting: Setting, formula: str) -> float:
    """Log odds for a difference of probabilities: 1 / p (1 - p)."""
    target = parse_one(formula).targets[0]
    names = setting.columns.names
    if target in names:
        at, ones = names.index(target), np.zeros(len(names))
        center, half = setting.columns.center[at], setting.columns.half_width[at]
        if "intercept" in names:
            ones = setting.design.moment[names.index("intercept")]
            share = float(center + half * ones[at])
        else:
            share = float(setting.design.moment[at, at])
        share = min(max(share, 0.01), 0.99)
        return 1 / (share * (1 - share))
    return 4.0


def _goals(want: Mapping[str, float], names: list[str]) -> dict[str, float]:
    """What is wanted of each coefficient; of a factor, of all its levels."""
    goals: dict[str, float] = {}
    for key, value in want.items():
        own = [name for name in names if name == key or name.startswith(f"{key}[")]
        if not own:
            raise ValueError(f"want: no coefficient {key!r}; there are {listed(names)}")
        goals |= dict.fromkeys(own, check_positive(value, f"the wanted precision of {key!r}"))
    return goals


def _search(
    at: Any, start: list[OutlookRow], goals: dict[str, float], left: float
) -> tuple[float | None, list[OutlookRow] | None]:
    """The least epsilon that gives what is wanted, and what it gives."""
    if any(row.sampling >= goals.get(row.name, math.inf) for row in start):
        return None, None

    def excess(rows: list[OutlookRow]) -> float:
        """Privacy's part of the error over the room for it: at most 1 where all is met."""
        parts = [0.0]
        for row in rows:
            if row.name in goals:
                if row.stderr[""] is None:
                    return math.inf
                room = goals[row.name] ** 2 - row.sampling**2
                parts.append(max(row.stderr[""] ** 2 - row.sampling**2, 0.0) / room)
        return math.sqrt(max(parts))

    # Outside is too little, inside is enough; privacy's part falls about as 1 / epsilon.
    inside: tuple[float, list[OutlookRow]] | None = None
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
