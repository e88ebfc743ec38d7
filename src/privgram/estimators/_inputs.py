"""What callers pass, checked: tables, targets, bounds, randomness.

No value of the data is in a message.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, validate_data

from privgram.columns import Columns
from privgram.columns.kinds import LEVELS
from privgram.columns.terms import INTERCEPT
from privgram.columns.variables import Number
from privgram.sources.pandas import is_frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How scikit-learn's refusals begin that quote values of the data, and what is said instead.
_QUOTING = {
    "could not convert": f"the data hold text or objects; only real numbers can be used: {LEVELS}",
    "Complex data not supported": "Complex data not supported",
    "setting an array element": "X must be a table of numbers; of a lazy frame, collect() it",
    "Expected 2D array": (
        "X must have two dimensions. Reshape your data, by x[:, None] if it is a single feature "
        "or x[None, :] if it is a single sample"
    ),
    "Input should have at least 1 dimension": "y must have one or two dimensions",
}


def validate(
    estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool, allow_nan: bool
) -> Any:
    """scikit-learn's own checks, without a value of the data in their messages."""
    finite: bool | str = "allow-nan" if allow_nan else True
    check = {"dtype": [np.float64, np.float32], "ensure_all_finite": finite}
    try:
        if y is None or isinstance(y, str):
            return validate_data(estimator, X, y, reset=reset, **check)
        X, y = validate_data(
            estimator, X, y, reset=reset, validate_separately=(check, check | {"ensure_2d": False})
        )
    except (ValueError, TypeError) as error:
        for start, instead in _QUOTING.items():
            if str(error).startswith(start):
                raise type(error)(instead) from None
        raise
    if y.ndim > 2:
        raise ValueError(f"y must have one or two dimensions, not {y.ndim}")
    check_consistent_length(X, y)
    return X, y


def columns_in(X: Any) -> dict[str, Any]:
    """The columns of a data frame or of a mapping, by name."""
    # Of Arrow's tables, whose `columns` are no names; of pandas', polars'; and keys.
    names = getattr(X, "column_names", getattr(X, "columns", X if isinstance(X, Mapping) else None))
    if names is None or hasattr(X, "collect"):
        raise TypeError(
            "with columns=, X is a data frame or a mapping of names to columns, in memory, not "
            f"{type(X).__name__}"
        )
    return {name: X[name] for name in names}


def with_target(X: Any, y: Any, columns: Columns) -> tuple[Any, str]:
    """A frame and its target as one table, and the target's name."""
    parts = columns_in(X)
    lacking = [name for name in columns.selected if name not in parts]
    named = getattr(y, "name", None)
    target = named if isinstance(named, str) and named else "".join(lacking[:1])
    if lacking != [target]:
        raise ValueError(
            "X must have all columns that columns= describes but one, which is y's"
            + (f", here {named!r}" if named else "")
            + f": it lacks {', '.join(map(repr, lacking)) or 'none'}"
        )
    if np.ndim(y) != 1:
        raise ValueError("with columns=, y has one dimension: a Series or an array")
    if is_frame(X):  # pandas reads its own types; of y without the index, and nothing is copied
        X = X.copy(deep=False)
        X[target] = getattr(y, "array", np.asarray(y))
        return X, target
    return parts | {target: y}, target


def unnamed(n: int) -> list[str]:
    return [f"x{i}" for i in range(n)]


def target_names(given: Any, y: NDArray[Any], features: list[str]) -> list[str]:
    """The targets' own names if they have any that will do; or y, or y0, y1, ..."""
    names: list[Any]
    if y.ndim == 1:
        names, default = [getattr(given, "name", None)], ["y"]
    else:
        names = list(getattr(given, "columns", ()))
        default = [f"y{i}" for i in range(y.shape[1])]
    taken = {*features, INTERCEPT}
    usable = all(isinstance(name, str) and name for name in names) and not taken & set(names)
    if usable and len(set(names)) == len(default):
        return names
    while taken & set(default):
        default = [f"{name}_" for name in default]
    return default


def pairs(bounds: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    """Bounds by name; `Columns` checks each pair."""
    if isinstance(bounds, str):
        Columns.from_data()  # raises, and says why bounds are not found in the data
    if bounds is None:
        # A default would clamp a table in other units to nothing, spend, and not say so.
        raise ValueError(
            f"{what} is missing: give public lower and upper bounds, such as {what}=(0, 100), or a "
            "pair a column; (-1, 1) where public numbers have scaled the columns to that. They are "
            "never taken from the data, and values beyond them are clamped"
        )
    if isinstance(bounds, Mapping):
        unknown = [name for name in bounds if name not in names]
        missing = [name for name in names if name not in bounds]
        if unknown or missing:
            raise ValueError(
                f"{what} has no pair for column {missing[0]!r}"
                if missing
                else f"{what} has a pair for {unknown[0]!r}, which is not a column"
            )
        return {name: bounds[name] for name in names}
    try:
        array = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape == (2,):
        array = np.broadcast_to(array, (len(names), 2))
    if array.shape != (len(names), 2):
        raise ValueError(
            f"{what} must be a pair (lower, upper), an array of shape ({len(names)}, 2), a pair a "
            "column, or a mapping of names to pairs"
        )
    return dict(zip(names, map(tuple, array.tolist()), strict=True))


def check_numbers(columns: Columns | None) -> None:
    """Refuse factors, logarithms, dates and terms: an estimator's features are numbers."""
    if columns is None:
        return
    same = {*columns.names} <= {*columns.variables, INTERCEPT}
    if not (same and all(isinstance(given, Number) for given in columns.variables.values())):
        raise TypeError(
            "these estimators take tables of numbers, each column a feature, and not factors, "
            "logarithms, dates or terms: use privgram.release(...).regress(...), whose fit has "
            "predict for such tables, or Columns.encode(table), whose columns are numbers"
        )


def about_zero(pair: Any) -> tuple[float, float]:
    lower, upper = pair
    largest = max(abs(lower), abs(upper))
    return -largest, largest


def generator(random_state: Any) -> np.random.Generator | None:
    """scikit-learn's `random_state` as the argument `rng` of a mechanism."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=8))
    try:
        return np.random.default_rng(operator.index(random_state))
    except TypeError:
        raise TypeError(
            "random_state must be None, an integer, a RandomState or a Generator, not "
            f"{type(random_state).__name__}"
        ) from None
