"""The budget of an estimator, spent once, and checks of what callers pass.

No message has a value of the data.
"""

from __future__ import annotations

import operator
import secrets
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from privgram._base.text import listed, warn
from privgram.columns import Columns
from privgram.columns.encoding import LEVELS
from privgram.columns.terms import INTERCEPT
from privgram.columns.unit import settled
from privgram.columns.variables import Number, as_float
from privgram.sources.arrays import check_together, computes, is_array, to_numpy
from privgram.sources.frames import is_frame
from privgram.sources.table import check_dimensions
from privgram.study.config import described

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privgram.ledger import Ledger
    from privgram.privacy import Adjacency

#: What `random_state` may be.
RandomState: TypeAlias = "int | np.random.RandomState | np.random.Generator | None"
#: What is publicly known of columns: of each by its name, or one pair of bounds for all.
ColumnDescription: TypeAlias = "Columns | Mapping[str, object] | ArrayLike | None"


#: Families of clones that this process has warned of. Python's own memory of warnings is cleared
#: by code that changes its filters, as scikit-learn does in every fit.
_WARNED: set[str] = set()


class BudgetedEstimator(BaseEstimator):
    """What spends a budget in every fit: its parameters, its clones, and checks of what it gets."""

    epsilon: float
    delta: float
    ledger: Ledger | None
    adjacency: Adjacency
    missing: Any
    columns: Any
    # Not parameters, and so not set by __init__.
    _clones: Any = None
    _nth_clone: int = 0

    def _keep(self, parameters: Mapping[str, object]) -> None:
        """Set the parameters of a constructor, ``locals()``, as scikit-learn wants: unchanged."""
        for name, value in parameters.items():
            if name != "self":
                setattr(self, name, value)

    def __sklearn_clone__(self) -> Any:
        clone = super().__sklearn_clone__()
        # Counted at the clone and not at the fit, which may be in another process.
        if self._clones is None:
            self._clones = SimpleNamespace(count=0, id=secrets.token_hex(8))
        self._clones.count += 1
        clone._clones, clone._nth_clone = self._clones, self._clones.count
        return clone

    def _warn_of_clones(self) -> None:
        if self._nth_clone > 1 and self.ledger is None and self._clones.id not in _WARNED:
            warn(
                "clones of one estimator, such as cross-validation and searches make, are fitted "
                "without a ledger: every fit spends epsilon and delta again, on rows that mostly "
                "are the same, and nothing adds them up. ledger=pg.Ledger(path, epsilon, delta) "
                "holds the total; alpha='auto' needs no search",
            )
            _WARNED.add(self._clones.id)

    def _feature_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        names = without_names(self.n_features_in_) if names is None else list(names)
        if INTERCEPT in names:
            raise ValueError(f"rename the feature {INTERCEPT!r}: the column of ones has that name")
        if len(set(names)) < len(names):
            raise ValueError("two features have the same name")
        return names

    def _validate(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """scikit-learn's own checks, without a value of the data in their messages."""
        check_in_memory(X)
        X, y = (to_numpy(part) if is_array(part) else part for part in (X, y))
        if self._drops:
            X, y = _cell_by_cell(X), _cell_by_cell(y, target=True)
        check = {
            "dtype": [np.float64, np.float32],
            # One row more must not tell a table of none from it.
            "ensure_min_samples": int(self.adjacency != "add-remove"),
            "ensure_all_finite": not self._drops,
        }
        try:
            if y is None or isinstance(y, str):
                return validate_data(self, X, y, reset=reset, **check)
            apart = check, check | {"ensure_2d": False}
            X, y = validate_data(self, X, y, reset=reset, validate_separately=apart)
        except (ValueError, TypeError) as error:
            for start, instead in _QUOTING.items():
                if str(error).startswith(start):
                    raise type(error)(instead) from None
            raise
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return X, y

    def _rows(self, X: Any, y: Any = "no_validation") -> Any:
        """As `_validate`, for the pass over the rows: on a GPU they stay there."""
        arrays = {"X": X} if y is None or isinstance(y, str) else {"X": X, "y": y}
        if not any(is_array(part) and computes(part) for part in arrays.values()):
            return self._validate(X, y, reset=True)
        check_together(arrays)
        check_dimensions(X.ndim)
        validate_data(self, X, y, reset=True, skip_check_array=True)
        if len(arrays) == 1:
            return X
        if y.ndim != 1:
            raise ValueError(f"y must have one dimension, not {y.ndim}")
        check_consistent_length(X, y)
        return X, y

    def _numbers(self, X: Any, y: Any) -> tuple[dict[str, Any], Columns]:
        """Checked columns of numbers by name, the target last, and their description."""
        if isinstance(self.columns, str):
            raise TypeError("columns= takes what a file describes: pg.Columns.load(path)")
        X, target = self._rows(X, y)
        names = self._feature_names()
        if self.columns is None or isinstance(self.columns, (Columns, Mapping)):
            columns = described(self.columns, missing=self.missing)
            names.append(target_of(columns, names, y))
        else:
            names.append(target_name(y, names))
            bounds = dict.fromkeys(names, self.columns)
            columns = Columns(bounds, intercept=True, missing=self.missing)
        if {*names} != {*columns.variables}:
            raise ValueError(
                f"columns= describes {listed(list(columns.variables))}, and the table has "
                f"{listed(names)}: a pair of bounds for each, or one pair for all"
            )
        columns = columns.replace(bounds={name: columns.variables[name] for name in names})
        numbers = all(isinstance(column, Number) for column in columns.variables.values())
        if not numbers or columns.names != (*names, INTERCEPT):
            raise TypeError(
                "here all columns are numbers, and not factors, logarithms, dates or terms: for "
                "these X is a data frame or a mapping, or take privgram.release(...).regress(...)"
            )
        # Views: the table and its target are never copied into one.
        views = [*(X[:, j] for j in range(X.shape[1])), target]
        return dict(zip(names, views, strict=True)), columns.settled(self.adjacency)

    @property
    def _drops(self) -> bool:
        missing, columns = self.missing, getattr(self, "columns", None)
        if missing is None and isinstance(columns, Columns):
            return columns.settled(self.adjacency).missing == "drop"
        return settled(missing, self.adjacency) == "drop"

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    @property
    @abstractmethod
    def _paid(self) -> Any:
        """What the budget was spent on, with its guarantee; None before."""

    def _fitted(self) -> Any:
        if self._paid is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit first"
            )
        return self._paid

    def __sklearn_is_fitted__(self) -> bool:
        return self._paid is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._drops
        return tags


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


def _cell_by_cell(table: Any, target: bool = False) -> Any:
    """Objects as numbers, each by itself: what is none is missing in its own row."""
    if is_frame(table):
        return table.apply(_cell_by_cell)
    kind = getattr(table, "dtype", None)
    if isinstance(table, (list, tuple)):
        lengths = {len(row) if isinstance(row, (list, tuple)) else None for row in table}
        if len(lengths) == 1 and None not in lengths:
            return np.array([list(map(as_float, row)) for row in table], np.float64)
        return np.array(list(map(as_float, table)), np.float64) if target else table
    if isinstance(kind, np.dtype) and kind.kind == "O":
        numbers = np.array(list(map(as_float, np.ravel(table).tolist())), np.float64)
        if isinstance(table, np.ndarray):
            return numbers.reshape(table.shape)
        return type(table)(numbers, index=table.index, name=table.name)  # a Series
    return table


def check_in_memory(X: Any) -> None:
    """Raise TypeError for what scikit-learn takes for one number: a path, a query, a mapping."""
    known = ("__array__", "__len__", "collect")
    if hasattr(X, "shape"):  # as a sparse matrix, which may be a mapping
        return
    if isinstance(X, Mapping) or not any(hasattr(X, name) for name in known):
        raise TypeError(
            "X must be a table of numbers in memory, as an array or a data frame, not "
            f"{type(X).__name__}"
        )


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


def target_of(columns: Columns, names: Collection[str], y: Any) -> str:
    """The one column that is described and not among the features: the target."""
    lacking = [name for name in columns.selected if name not in names]
    named = getattr(y, "name", None)
    target = named if isinstance(named, str) and named else "".join(lacking[:1])
    if lacking != [target]:
        raise ValueError(
            "X must have all columns that columns= describes but one, which is y's"
            + (f", here {named!r}" if named else "")
            + f": it lacks {', '.join(map(repr, lacking)) or 'none'}"
            + ("; an array's columns are x0, x1, ..., and y" if "x0" in names else "")
        )
    return target


def with_target(X: Any, y: Any, columns: Columns) -> tuple[Any, str]:
    """A frame and its target as one table, and the target's name."""
    parts = columns_in(X)
    target = target_of(columns, parts, y)
    if (y.ndim if is_array(y) else np.ndim(y)) != 1:
        raise ValueError("with columns=, y has one dimension: a Series or an array")
    if is_frame(X):  # pandas reads its own types; of y without the index, and nothing is copied
        X = X.copy(deep=False)
        values = y if isinstance(y, (list, tuple)) else getattr(y, "array", np.asarray(y))
        kind = getattr(values, "dtype", object)
        X[target] = type(X.iloc[:, 0])(values, index=X.index, dtype=kind)
        return X, target
    return parts | {target: y}, target


def without_names(n: int) -> list[str]:
    return [f"x{i}" for i in range(n)]


def target_name(y: Any, features: list[str]) -> str:
    """The target's own name if it has one that will do; or y."""
    names = getattr(y, "columns", [getattr(y, "name", None)])
    taken = {*features, INTERCEPT}
    if len(names) == 1 and isinstance(names[0], str) and names[0] and names[0] not in taken:
        return names[0]
    default = "y"
    while default in taken:
        default += "_"
    return default


def generator(random_state: RandomState) -> np.random.Generator | None:
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
