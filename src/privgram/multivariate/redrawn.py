"""Statistics of the releases that might have come instead, by which errors are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from privgram.multivariate.variables import DRAWS, Covariance, Variables
from privgram.regression import RefusedError

Drawn = TypeVar("Drawn")
Result = TypeVar("Result")


def draws_of(variables: Variables) -> int:
    """How many draws judge an error: 400, and fewer where each takes long.

    They are the same for every release, so what they miss is missed always. Of 400 a deviation is
    within 3.5 % at one sigma, and 3.9 to 6.1 % are beyond their upper 5 %; of 100 within 7 %, and
    2.8 to 7.2 %.
    """
    return max(DRAWS, min(400, 20_000 // variables.release.n_columns))


def definite(variables: Variables) -> Covariance:
    """The covariance as released, for statistics that invert it: what has errors to tell of it.

    Refused if it is not positive definite, or in more than half of the draws would not be.
    """
    variables.covariance.check_definite()
    of_draws(variables.redrawn(sampling=True), Covariance.check_definite)
    return variables.covariance


def of_draws(draws: Iterable[Drawn], statistic: Callable[[Drawn], Result]) -> list[Result]:
    """A statistic of each draw, unless noise hides it: refused if it does in more than half."""
    found, tried = [], 0
    for one in draws:
        tried += 1
        try:
            found.append(statistic(one))
        except (RefusedError, np.linalg.LinAlgError):
            continue
    if 2 * len(found) <= tried:
        raise RefusedError(
            "the noise is too large for standard errors: take fewer columns, or release with more "
            "epsilon"
        )
    return found
