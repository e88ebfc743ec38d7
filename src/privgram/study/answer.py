"""One regression of a table: what is released for it, and the fit.

All that `Study.regress` spends is spent here. Secret side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from privgram.columns import Columns
from privgram.columns.formula import parse
from privgram.columns.unit import Auto
from privgram.columns.variables import Boolean, Factor, Number
from privgram.drawing.huber import Huber
from privgram.drawing.levels import MOST_LEVELS, Wide
from privgram.drawing.links import Links
from privgram.drawing.release import release
from privgram.drawing.scores import scored
from privgram.engines import scale_out
from privgram.regression.design import AllColumns, design
from privgram.regression.families import FAMILIES, FamilyName
from privgram.regression.huber import LossName
from privgram.regression.inference import RefusedError
from privgram.regression.scored import CovType

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import numpy as np

    from privgram.columns.formula import Parsed
    from privgram.columns.unit import Unit
    from privgram.ledger import Ledger
    from privgram.mechanisms import Mechanism
    from privgram.privacy import Adjacency

__all__ = ["answer", "explained", "needed", "protected"]

#: Part of the epsilon of a release that chooses the bound of a unit, where nothing public says it.
CHOOSING = 0.1

BY_SCORES = (
    'family="binomial" and "poisson" are fitted by scores, which take rows that can be read again '
    "by one machine, a unit whose bound is not Auto, a positive delta, and no instruments or "
    "mechanism; and an intercept where rows have weights"
)

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
    return Columns.from_dict(used.to_dict() | {"intercept": True})


def protected(unit: Unit | None, epsilon: float) -> dict[str, Any]:
    """The unit as a release takes it, and the epsilon that is left for this."""
    if unit is not None and unit.rows is None and unit.bound is None:
        unit = replace(unit, bound=Auto(CHOOSING * epsilon))
    if unit is not None and isinstance(unit.bound, Auto):
        epsilon -= unit.bound.epsilon
    return {"unit": unit, "epsilon": epsilon}


def explained(parsed: Parsed, used: Columns, family: FamilyName) -> tuple[Parsed, Columns]:
    """A formula and columns whose target is one that a family explains.

    The target of family "binomial" is a truth value: also a number within (0, 1), whose values
    between are missing then, or one of two levels. That of "poisson" is not negative.
    """
    target = parsed.targets[0]
    described = used.variables.get(target)
    name = target
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
        target = f"{name}[{described.names[1]}]"
    elif type(described) is Number and described.interval == (0.0, 1.0):
        used = Columns(
            {**used.variables, name: Boolean()},
            intercept=True,
            missing=used.missing,
            terms=used.terms,
            weights=used.weights,
            row_weights=used.row_weights,
        )
    elif described is not None and not isinstance(described, Boolean):
        raise ValueError(
            f"the target {target!r} is not binary: describe it by bool, by bounds (0, 1), or as a "
            "factor of two levels"
        )
    # Effects that a linear regression leaves out of the print.
    features = (*parsed.features, *parsed.absorbed)
    return replace(parsed, targets=(target,), features=features, absorbed=()), used


def answer(
    source: Any,
    formula: str,
    columns: Columns,
    *,
    mechanism: Mechanism | str | None,  # of a release, for family "gaussian"
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    family: FamilyName = "gaussian",
    loss: LossName = "squared",  # of family "gaussian"
    cov_type: CovType | None = None,  # by default "robust" where there are scores
    unit: Unit | None = None,
    reference: Mapping[str, Any] | None = None,
    ledger: Ledger | None = None,
    out: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    rng: np.random.Generator | None = None,
) -> Any:
    """Release what one regression needs, and fit it: the seam for what answers one with less noise.

    The columns are those of the whole table; what the formula does not use is not read. Without a
    mechanism scores are taken where they are possible: of a table that one machine can read again,
    for a formula without instruments, and a positive delta. Where single rows are protected, one
    factor may then have up to a thousand levels by itself, or any number absorbed; a second one,
    or products with it, come from a release.
    """
    if family not in FAMILIES:
        raise ValueError(f"family is {' or '.join(map(repr, FAMILIES))}, not {family!r}")
    if loss not in get_args(LossName):
        raise ValueError(f"loss is {' or '.join(map(repr, get_args(LossName)))}, not {loss!r}")
    if not (cov_type is None or cov_type in get_args(CovType)):
        raise ValueError(
            f"cov_type is {' or '.join(map(repr, get_args(CovType)))}, not {cov_type!r}"
        )
    if cov_type == "cluster" and unit is None:
        raise ValueError(
            'cov_type="cluster" lets errors go together within the protected unit, and rows are '
            "protected singly here: name it, unit=pg.Unit(column, rows=...), or leave out cov_type"
        )
    parsed = parse(formula)
    used = needed(formula, columns)
    given: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "adjacency": adjacency,
        "ledger": ledger,
        "out": out,
        "threads": threads,
        "rng": rng,
    }
    linear, wide = family == "gaussian", None
    if linear and unit is None and parsed.intercept and not parsed.endogenous:
        wide = Wide.of(parsed, used)
    levels = sum(len(x) for x in used.variables.values() if isinstance(x, Factor))
    many = wide is None and (bool(parsed.absorbed) or levels > MOST_LEVELS)
    plain = not (parsed.endogenous or (linear and many))
    again = not (isinstance(source, Iterator) or scale_out(source) is not None)
    known = unit is None or not (
        unit.within or unit.clip != "frobenius" or isinstance(unit.bound, Auto)
    )
    robust = cov_type != "nonrobust"
    scores = mechanism is None and plain and again and known and delta > 0
    if scores and unit is not None and not robust:
        raise ValueError(
            "rows of one unit may go together, and standard errors by scores allow for it: leave "
            "out cov_type"
        )
    if loss == "huber":
        single = unit is None and wide is None and used.row_weights is None
        if not (scores and linear and parsed.intercept and robust and single):
            raise ValueError(HUBER)
        return scored(source, parsed, used, robust=True, steps=Huber, reference=reference, **given)
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
    if cov_type in ("robust", "cluster"):
        raise ValueError(
            "robust standard errors come with scores, which take rows that can be read again, "
            "no instruments, no second factor of hundreds of levels, no mechanism, and a unit "
            "whose bound is not Auto: leave out cov_type"
        )
    # What a fit would refuse is refused before anything is spent.
    asked = [*parsed.features, *parsed.endogenous, *parsed.instruments]
    left_out = {
        name: str(level) for name, level in {**parsed.references, **(reference or {})}.items()
    }
    design(AllColumns(used), parsed.targets[0], asked, parsed.intercept, left_out)
    made = release(source, used, mechanism=mechanism, **given | protected(unit, epsilon))
    if parsed.endogenous:
        return made.iv(formula, reference=reference)
    try:
        return made.regress(formula, reference=reference)
    except RefusedError:  # what was paid for is not lost: shrunk, and without standard errors
        return made.regress(formula, reference=reference, ridge="auto")
