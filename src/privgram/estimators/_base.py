"""The budget of an estimator: rows are added exactly until `release` spends it, once."""

from __future__ import annotations

import secrets
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import NotFittedError

from privgram._release import Release
from privgram.columns.terms import INTERCEPT
from privgram.drawing.release import release_for
from privgram.engines.threads import second_moment

from ._display import ShownEstimator
from ._inputs import check_numbers, generator, unnamed, validate

if TYPE_CHECKING:
    from privgram.columns import Columns
    from privgram.mechanisms import Mechanism
    from privgram.mechanisms._default import Purpose

#: Families of clones that this process has warned of. Python's own memory of warnings is cleared
#: by code that changes its filters, as scikit-learn does in every fit.
_WARNED: set[str] = set()


class BudgetSpentError(ValueError, AttributeError):
    """Rows were to be added after the budget was spent.

    An AttributeError too, as scikit-learn's `NotFittedError` is: then `partial_fit` is not there.
    """

    def __init__(self) -> None:
        super().__init__(
            "the budget of this estimator is spent, and rows cannot be added to a release: use "
            "fit, which spends it anew, or partial_fit of a new estimator"
        )


class until_spent:
    """A method that is there until the budget is spent.

    scikit-learn's checks call `partial_fit` after `fit` where there is one. `available_if`, of
    theirs, would say that it is not there and not why.
    """

    def __init__(self, method: Any) -> None:
        self._method = method

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._method
        if instance._release is not None:
            raise BudgetSpentError
        return MethodType(self._method, instance)


class PrivateEstimator(ShownEstimator):
    """A second moment until the budget is spent, a release from then on.

    Only `fit` and `release` spend. What is learnt is offered as properties with a trailing
    underscore, which there are from then on.
    """

    _purpose: Purpose
    _cached: Any = None
    _clones: Any = None
    _nth_clone: int = 0

    def _keep(self, given: dict[str, Any]) -> None:
        """Set the parameters of a constructor, ``locals()``, as scikit-learn wants: unchanged."""
        for name, value in given.items():
            if name != "self":
                setattr(self, name, value)

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from a table and spend the budget.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_features)
        y : array-like of shape (n,) or (n, n_targets)
            Regressors only.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If the table or a parameter cannot be used, or the ledger has no room.  The estimator is
            then as it was.

        Notes
        -----
        Every call spends (epsilon, delta) again, of these rows' budget; whatever was learnt
        before is replaced.
        """
        with self._unchanged_on_error():
            table = self._table(X, y, reset=True)
            self._moment, self._given, self._cached = None, False, None
            self._release = self._spend(**table)
        self._learnt()
        return self

    @until_spent
    def partial_fit(self, X: Any, y: Any = None) -> Any:
        """Add rows, exactly; spend nothing. `release` then spends, once.

        Parameters
        ----------
        X, y
            As in `fit`, of any number of rows.

        Returns
        -------
        self

        Raises
        ------
        BudgetSpentError
            If the budget is spent already, by `fit` too.
        ValueError, TypeError
            As in `fit`.  No row is then added.
        """
        with self._unchanged_on_error():
            moment = second_moment(**self._table(X, y, reset=self._moment is None))
            self._moment = moment if self._moment is None else self._moment.merge(moment)
        return self

    def release(self) -> Release:
        """Spend the budget, unless it is spent, and drop the exact second moment.

        Returns
        -------
        Release
            As in `release_`.

        Raises
        ------
        NotFittedError
            If no rows were added.
        ValueError, TypeError
            As in `privgram.release`, and of the ledger. The rows are then kept.

        Warns
        -----
        UserWarning
            If this is the second clone of an estimator or a later one, as in a search, and has no
            ledger.
        """
        if self._release is None:
            # Taken out first, in one step: no second thread finds it and spends again.
            moment = self.__dict__.pop("_moment", None)
            if moment is None:
                raise NotFittedError(
                    f"This {type(self).__name__} instance is not fitted yet: call fit, "
                    "partial_fit or fit_from first"
                )
            try:
                self._release = self._spend(moment)
            except BaseException:
                self._moment = moment
                raise
        return self._release

    def _spend(self, source: Any, columns: Columns | None = None, bound: Any = None) -> Any:
        """The release of a table, which may be read again, or of its second moment."""
        self._warn_of_clones()
        return release_for(
            self._purpose,
            source,
            columns,
            self.epsilon,
            self.delta,
            mechanism=self._default_mechanism if self.mechanism is None else self.mechanism,
            adjacency=self.adjacency,
            bound=bound,
            rng=generator(self.random_state),
            ledger=self.ledger,
        )

    def __sklearn_clone__(self) -> Any:
        clone = super().__sklearn_clone__()
        # Counted at the clone and not at the fit, which may be in another process.
        if self._clones is None:
            self._clones = SimpleNamespace(made=0, id=secrets.token_hex(8))
        self._clones.made += 1
        clone._clones, clone._nth_clone = self._clones, self._clones.made
        return clone

    def _warn_of_clones(self) -> None:
        if self._nth_clone > 1 and self.ledger is None and self._clones.id not in _WARNED:
            warnings.warn(
                "clones of one estimator, such as cross-validation and searches make, are fitted "
                "without a ledger: every fit spends epsilon and delta again, on rows that mostly "
                "are the same, and nothing adds them up. ledger=pg.Ledger(path, epsilon, delta) "
                "holds the total; alpha='auto' and fit_from need no search",
                stacklevel=2,
            )
            _WARNED.add(self._clones.id)

    @property
    def release_(self) -> Release:
        """The release behind all that was learnt."""
        if self._release is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit first"
                if self._moment is None
                else f"This {type(self).__name__} instance has rows and has learnt nothing of "
                "them yet: call release(), which spends epsilon and delta"
            )
        return self._release

    def _learnt(self) -> Any:
        """What the release says, computed once."""
        source = self.release_
        if self._cached is None:
            self._cached = self._learn(source)
        return self._cached

    def _adopt(self, given: Release, features: Sequence[str]) -> None:
        """Take over a release, of which some columns are the features."""
        self._moment, self._release, self._given, self._cached = None, given, True, None
        self.n_features_in_ = len(features)
        self.__dict__.pop("feature_names_in_", None)
        if list(features) != unnamed(len(features)):
            self.feature_names_in_ = np.array(features, dtype=object)

    def _feature_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        names = unnamed(self.n_features_in_) if names is None else list(names)
        if INTERCEPT in names:
            raise ValueError(f"rename the feature {INTERCEPT!r}: the column of ones has that name")
        if len(set(names)) < len(names):
            raise ValueError("two features have the same name")
        return names

    def _validate(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        return validate(self, X, y, reset=reset, allow_nan=self._drops)

    @property
    def _drops(self) -> bool:
        return getattr(self, "missing", "error") == "drop"

    @abstractmethod
    def _table(self, X: Any, y: Any, reset: bool) -> dict[str, Any]:
        """These rows, their columns and their bound, as `second_moment` takes them."""

    @abstractmethod
    def _learn(self, source: Release) -> Any:
        """Post-processing of the release."""

    @property
    def _default_mechanism(self) -> Mechanism | None:
        """None takes the best for the purpose."""
        return None

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def __sklearn_is_fitted__(self) -> bool:
        return self._release is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._drops
        return tags

    def __getstate__(self) -> Any:
        if self._moment is not None:
            raise TypeError(
                f"this {type(self).__name__} holds an exact second moment: saved, it would be out "
                "in the open, and copied, the budget could be spent twice. Call release() first; "
                "to keep a sum of parts, save a SecondMoment yourself"
            )
        return super().__getstate__()


def check_release(release: Any) -> None:
    if not isinstance(release, Release):
        raise TypeError(f"fit_from takes a Release, not {type(release).__name__}")
    check_numbers(release.columns)
