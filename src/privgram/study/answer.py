"""One regression of a table: what is released for it, and the fit.

All that `Study.regress` spends is spent here. Secret side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from privgram.columns import Columns
from privgram.columns.formula import parse
from privgram.drawing.logistic import logistic
from privgram.drawing.release import release

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
    """Of the columns of a table those that a formula needs."""
    return Columns.from_formula(
        formula, columns.bounds, columns.missing, row_weights=columns.row_weights
    )


def answer(
    source: Any,
    formula: str,
    columns: Columns,
    *,
    mechanism: Mechanism | None,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    family: Family = "gaussian",
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
    mechanism : Mechanism or None
        Of the release for family "gaussian".
    family : {"gaussian", "binomial"}
        Least squares, or logistic regression.
    unit : Unit, optional
        Whose rows are protected together.
    reference : mapping of str to level, optional
        Levels that are left out, where the formula does not say it.

    Returns
    -------
    Fit, InstrumentalFit or LogisticFit
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
    made = release(source, used, mechanism=mechanism, unit=unit, **given)
    if parsed.endogenous:
        return made.iv(formula, reference=reference)
    return made.regress(formula, reference=reference)
