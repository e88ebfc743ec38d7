"""Statistics of the releases that might have come instead, by which errors are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from privgram.multivariate.variables import Covariance, Variables
from privgram.regression import RefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["definite", "of_draws"]

Drawn = TypeVar("Drawn")


def definite(variables: Variables) -> Covariance:
    """The covariance as released, for statistics that invert it: what has errors to tell of it.

    Raises
    ------
    RefusedError
        If it is not positive definite, or in more than half of the draws would not be.
    """
    variables.covariance.check_definite()
    of_draws(variables.redrawn(sampling=True), Covariance.check_definite)
    return variables.covariance


def of_draws(draws: Iterable[Drawn], statistic: Callable[[Drawn], Any]) -> Array:
    """A statistic of each draw, along the first axis; without those where noise hides it.

    Raises
    ------
    RefusedError
        If it hides more than half.
    """
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
    return np.array(found, dtype=np.float64)
