"""One regression of a table: what is released for it, and the fit.

All that `Study.regress` spends is spent here. Secret side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, get_args

from privgram.columns import Columns
from privgram.columns.formula import parse
from privgram.columns.unit import Auto
from privgram.columns.variables import Factor
from privgram.drawing.levels import MOST_LEVELS, Wide
from privgram.drawing.logistic import logistic
from privgram.drawing.release import release
from privgram.drawing.scores import scored
from privgram.engines import scale_out
from privgram.regression.design import AllColumns, design
from privgram.regression.scored import CovType

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import numpy as np

    from privgram.columns.unit import Unit
    from privgram.ledger import Ledger
    from privgram.mechanisms import Mechanism
    from privgram.privacy import Adjacency

__all__ = ["Family", "answer", "needed"]

Family = Literal["gaussian", "binomial"]


def needed(formula: str, columns: Columns) -> Columns:
    """Of the columns of a table those that a formula needs, and ones: of own units' origin too."""
    used = Columns.from_formula(
        formula, columns.bounds, columns.missing, row_weights=columns.row_weights
    )
    return Columns.from_dict(used.to_dict() | {"intercept": True})


def answer(
    source: Any,
    formula: str,
    columns: Columns,
    *,
    mechanism: Mechanism | str | None,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    family: Family = "gaussian",
    cov_type: CovType | None = None,
    unit: Unit | None = None,
    reference: Mapping[str, Any] | None = None,
    ledger: Ledger | None = None,
    out: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    rng: np.random.Generator | None = None,
) -> Any:
    """Release what one regression needs, and fit it: the seam for what answers one with less noise.

    Parameters
    ----------
    source, epsilon, delta, adjacency, ledger, out, threads, rng
        As in `privgram.release`.
    formula : str
        As `privgram.columns.formula.parse` reads it.
    columns : Columns
        Of the whole table; what the formula does not use is not read.
    mechanism : Mechanism, str or None
        Of a release that the regression is computed from, for family "gaussian". By default there
        is none where scores are possible: of a table that one machine can read again, for a formula
        without instruments, absorbed factors and factors of hundreds of levels, and a positive
        delta.
    family : {"gaussian", "binomial"}
        Least squares, or logistic regression.
    cov_type : {"robust", "nonrobust"}, optional
        Whether standard errors allow for errors of unequal variance: by default they do, where
        there are scores.
    unit : Unit, optional
        Whose rows are protected together.
    reference : mapping of str to level, optional
        Levels that are left out, where the formula does not say it.

    Returns
    -------
    ScoreFit, Fit, InstrumentalFit or LogisticFit
    """
    if family not in get_args(Family):
        raise ValueError(f"family is {' or '.join(map(repr, get_args(Family)))}, not {family!r}")
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
    if family == "binomial":
        if unit is not None:
            raise ValueError(
                "a logistic regression protects single rows as yet: fit the 0/1 target by "
                'family="gaussian", whose coefficients are differences of probabilities'
            )
        return logistic(source, formula, columns=columns, reference=reference, **given)
    if not (cov_type is None or cov_type in get_args(CovType)):
        raise ValueError(
            f"cov_type is {' or '.join(map(repr, get_args(CovType)))}, not {cov_type!r}"
        )
    wide = None
    if unit is None and parsed.intercept and not parsed.endogenous:
        wide = Wide.of(parsed, used)
    levels = sum(len(x) for x in used.variables.values() if isinstance(x, Factor))
    plain = not (parsed.endogenous or parsed.absorbed or levels > MOST_LEVELS) or wide is not None
    again = not (isinstance(source, Iterator) or scale_out(source) is not None)
    known = unit is None or not (
        unit.within or unit.clip != "frobenius" or isinstance(unit.bound, Auto)
    )
    if mechanism is None and plain and again and known and delta > 0 and parsed.intercept:
        robust = unit is not None or cov_type != "nonrobust"
        given["unit"] = unit
        given["wide"] = wide
        return scored(source, parsed, used, robust=robust, reference=reference, **given)
    if cov_type == "robust":
        raise ValueError(
            "robust standard errors come with scores, which take rows that can be read again, "
            "no instruments, absorbed factors or hundreds of levels, and no mechanism: leave out "
            "cov_type, or look again by the fit's robust()"
        )
    # What a fit would refuse is refused before anything is spent.
    asked = [*parsed.features, *parsed.endogenous, *parsed.instruments]
    left_out = {
        name: str(level) for name, level in {**parsed.references, **(reference or {})}.items()
    }
    design(AllColumns(used), parsed.targets[0], asked, parsed.intercept, left_out)
    made = release(source, used, mechanism=mechanism, unit=unit, **given)
    if parsed.endogenous:
        return made.iv(formula, reference=reference)
    return made.regress(formula, reference=reference)
