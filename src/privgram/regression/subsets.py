"""Least squares of the best terms, all subsets tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from privgram.regression.asked import design_of
from privgram.regression.equations import Equations
from privgram.regression.fit import Fit
from privgram.regression.inference import RefusedError, degrees_behind, rows_behind, why_refused
from privgram.regression.least_squares import regress
from privgram.regression.risk import Criterion, criterion_of, estimated_risk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from privgram._base.arrays import Vector
    from privgram._release.record import ReleaseRecord


#: More terms than this have too many subsets to try.
MOST_TERMS = 14


@dataclass(frozen=True, eq=False)
class Subsets:
    """The best terms of each number of them.

    Attributes
    ----------
    members : tuple of tuple of str
        For each number of terms, from none, the best ones.
    values : ndarray of shape (k + 1,), float64
        The criterion of these, as `PenaltyPath` has it.
    criterion : {"aic", "bic"}
    fit : Fit or None
        Least squares of the best ones of all; None if these are none. Its errors and intervals do
        not count that the terms were chosen.
    """

    members: tuple[tuple[str, ...], ...]
    values: Vector
    criterion: Criterion
    fit: Fit | None = field(repr=False)

    @property
    def best(self) -> tuple[str, ...]:
        """The terms with the smallest value."""
        return self.members[int(np.argmin(self.values))]


def best_subset(
    release: ReleaseRecord,
    target: str,
    features: Iterable[str] | None = None,
    *,
    criterion: Criterion = "bic",
    intercept: bool = True,
) -> Subsets:
    """Try all subsets of at most 14 terms, and take what predicts best.

    Parameters
    ----------
    release, target, features, intercept
        As in `regress`.
    criterion : {"aic", "bic"}
        As in `penalty_path`.

    Returns
    -------
    Subsets

    Raises
    ------
    RefusedError
        A ValueError: where least squares of all terms has no inference, by which the risk is
        judged.
    ValueError
        If there are more terms.
    """
    criterion_of(criterion)
    design = design_of(release, target, features, intercept)
    terms = list(design.terms)
    if len(terms) > MOST_TERMS:
        raise ValueError(
            f"{len(terms)} terms have too many subsets, of {MOST_TERMS} all are tried: use "
            "penalty_path, or fewer terms"
        )
    law, shifted = design.block(release)
    equations = Equations(law, shifted, degrees_behind(release, rows_behind(release)))
    reason = why_refused(release, equations)
    if reason is not None:
        raise RefusedError(f"there is no inference, by which to choose terms: {reason}")
    ones = [equations.size - 1] if design.intercept else []
    members: list[tuple[str, ...]] = []
    values: list[float] = []
    for size in range(len(terms) + 1):
        tried = []
        for some in combinations(terms, size):
            active = [i for name in some for i in range(*_ends(design.terms[name]))]
            at = [*active, *ones]
            theta = np.zeros(equations.size)
            gram = equations.gram[np.ix_(at, at)]
            theta[at] = np.linalg.solve(gram, equations.matrix[at, -1])
            risk, _ = estimated_risk(equations, theta, np.array(at, int), 0.0, criterion)
            tried.append((risk, some))
        value, best = min(tried)
        values.append(value)
        members.append(best)
    found = members[int(np.argmin(values))]
    fit = regress(release, target, found, intercept=intercept) if found else None
    return Subsets(tuple(members), np.array(values), criterion, fit)


def _ends(span: slice) -> tuple[int, int]:
    return span.start, span.stop
