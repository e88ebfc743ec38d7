"""Multinomial regression by private scores."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_consistent_length, column_or_1d

from privgram._base.numbers import check_positive
from privgram.columns.unit import Missing
from privgram.estimators._base import (
    BudgetedEstimator,
    RandomState,
    generator,
)
from privgram.glm.multinomial import ClassProblem, fit_classes
from privgram.privacy.guarantee import Guarantee
from privgram.regression.features import NO_SLOPES, check_features, places
from privgram.sources.arrays import check_real, computes, is_array
from privgram.sources.labelled import LabelledRows, one_by_one, pieces

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns.features import RandomFeatures
    from privgram.ledger import Ledger
    from privgram.privacy import Adjacency
    from privgram.regression.classes import ClassFit
    from privgram.sources.labelled import Pair

#: The constant of a row, over the bound of its features: a larger one makes rows longer, and the
#: noise with them; the coordinates take it to its own size.
CONSTANT_SHARE = 0.25

#: Of rows, at most.
MOST_HELD_OUT = 0.5


class PrivateClassifier(ClassifierMixin, BudgetedEstimator):
    """Multinomial logistic regression under differential privacy, for predictions.

    For features of any kind and number, such as those of a network. A second moment of the rows is
    released first. It gives coordinates in which sums of clipped scores are released next, step by
    step. Where noise hides everything, all classes are about equally likely, and `result_` says so.

    Parameters
    ----------
    epsilon, delta : float, default 1.0, 1e-6
        The guarantee of one `fit`.
    classes : sequence of str or int
        All labels that may occur. They are public, and never taken from the data: without them
        `fit` raises. One may have no rows.
    bound : float
        Public L2 bound of a row of features; longer rows are shortened to it. Without it `fit`
        raises. Factors and truth values are features as ``columns.encode(table)`` of a
        `privgram.Columns`, whose rows are at most ``columns.bound`` long.
    fit_intercept : bool, default True
    holdout : float, default 0.0
        Each row is held out with this probability, at most a half. Held-out rows are not learnt
        from, and tell how often predictions are right: ``result_.held_out``. That costs no further
        privacy, as each row is in one of both.
    adjacency : {"replace", "add-remove"}, default "replace"
        Which tables are neighbours: one row replaced (the number of rows is public), or one
        added or removed.
    missing : {"error", "drop"}, default "error"
        What a row does that holds NaN or infinity or a label that is not among `classes`: raise, or
        contribute nothing.
    random_state : int, RandomState, Generator or None, default None
        None draws cryptographic noise. All else is for experiments: the noise can then be
        repeated, and the result says so.
    ledger : Ledger, optional
        Every fit is one entry in it, made before anything is released.
    features : RandomFeatures, optional
        Random features beside the columns, of columns over `bound`. All features together are as
        long as `bound`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features) or (1, n_features), float64
        With two classes one row, of the second class against the first.
    intercept_ : ndarray of shape (n_classes,) or (1,), float64
    classes_ : ndarray of shape (n_classes,)
        As given, sorted.
    result_ : ClassFit
        With the guarantee, what is hidden, and what held-out rows say; `save` writes it.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Arrays of other libraries are read as NumPy's. From a GPU rows are copied some thousands at a
    time, in each pass; with rounded images, of two bytes a number, in memory if they fit, there are
    two passes.

    Instead of ``fit(X, y)``, ``fit(blocks)`` takes rows that do not fit into memory: an iterable of
    pairs (X, y) that can be read several times, such as a list of memory-mapped parts.

    The steps, their length, the clip and the share of the second moment follow rules from public
    and released numbers: docs/theory/learning.md.

    Examples
    --------
    >>> import numpy as np
    >>> from privgram.estimators import PrivateClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20_000, 4)) / 2
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, "high", "low")
    >>> model = PrivateClassifier(epsilon=1.0, classes=["low", "high"], bound=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _fit: ClassFit | None = None
    _at: list[int]
    _length: float

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        classes: Sequence[str] | Sequence[int] | Sequence[float] | None = None,
        bound: float | None = None,
        fit_intercept: bool = True,
        holdout: float = 0.0,
        adjacency: Adjacency = "replace",
        missing: Missing = "error",
        random_state: RandomState = None,
        ledger: Ledger | None = None,
        features: RandomFeatures | None = None,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a table and spend the budget.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_features), or iterable of pairs (X, y)
        y : array-like of shape (n,)
            The labels; left out with pairs.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If the table or a parameter cannot be used, or the ledger has no room. The estimator is
            then as it was, and nothing is spent.
        """
        with self._unchanged_on_error():
            check_features(self.features)
            pairs = self._pairs(self._blocks(X, y))
            classes = self._checked_classes()
            bound = self._row_bound()
            width = self.n_features_in_
            if self.features is not None:
                self._at = places(self.features, self._feature_names())
                self._length = bound
                pairs = partial(self._widened_pairs, pairs)
                width, bound = width + self.features.n, math.sqrt(2.0) * bound
            constant = CONSTANT_SHARE * bound if self.fit_intercept else 0.0
            rows = LabelledRows(pairs, classes, constant, self.missing, self._checked_holdout())
            problem = ClassProblem(
                classes=classes,
                n_columns=width + bool(constant),
                bound=math.hypot(bound, constant),
                constant=constant,
                guarantee=Guarantee(self.epsilon, self.delta, self.adjacency, None),
                holdout=rows.holdout,
                drops=self._drops,
            )
            self._warn_of_clones()
            self._fit = fit_classes(
                rows, problem, ledger=self.ledger, rng=generator(self.random_state)
            )
        return self

    @property
    def result_(self) -> ClassFit:
        """What was released."""
        fit: ClassFit = self._fitted()
        return fit

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes."""
        return np.array(self.result_.classes)

    @property
    def coef_(self) -> Matrix:
        """Coefficients by class; of two classes those of the second against the first."""
        coef = self.result_.coef
        if self.features is not None:
            raise AttributeError(NO_SLOPES)
        return coef[1:] - coef[:1] if len(coef) == 2 else coef

    @property
    def intercept_(self) -> Vector:
        """Intercepts, as `coef_`."""
        intercept = self.result_.intercept
        return intercept[1:] - intercept[:1] if len(intercept) == 2 else intercept

    def decision_function(self, X: Any) -> Matrix | Vector:
        """Linear predictors of the classes, shape (m, n_classes), or (m,) of two."""
        eta = self.result_.decision(self._features(X))
        return eta[:, 1] - eta[:, 0] if eta.shape[1] == 2 else eta

    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities of the classes, shape (m, n_classes)."""
        fit = self.result_
        return fit.probabilities(self._features(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the likeliest class, shape (m,)."""
        eta = self.decision_function(X)
        at = (eta > 0).astype(np.intp) if eta.ndim == 1 else eta.argmax(axis=1)
        return np.asarray(self.classes_[at])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of `predict` on other rows, which is no private number: it reads them plainly.

        Parameters
        ----------
        X : rows as in `predict`
        y : array-like of shape (m,)
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        float
            In [0, 1].
        """
        predicted, labels = self.predict(X), column_or_1d(one_by_one(y))
        check_consistent_length(predicted, labels)
        return float(np.average(predicted == labels, weights=sample_weight))

    def _widened(self, rows: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Rows with their random features."""
        if self.features is None:
            return rows
        scaled = np.asarray(rows[:, self._at], np.float64) / self._length
        wide = self.features.rows(np.where(np.isfinite(scaled), scaled, 0.0)) * self._length
        return np.hstack([rows, wide.astype(rows.dtype, copy=False)])

    def _widened_pairs(self, pairs: Callable[[], Iterable[Pair]]) -> Iterator[Pair]:
        for rows, labels in pairs():
            yield self._widened(rows), labels

    def _features(self, X: Any) -> Matrix:
        """Features of rows that are to be predicted; NaN is refused."""
        _ = self.result_
        rows = np.asarray(self._validate(X, reset=False), np.float64)
        return np.asarray(self._widened(rows))

    # --- What is checked before anything is spent ----------------------------------------------

    def _checked_classes(self) -> tuple[str | float, ...]:
        if self.classes is None or isinstance(self.classes, str):
            raise ValueError(
                "classes is missing: list all labels that may occur, such as classes=[0, 1]. They "
                "are public, and never taken from the data"
            )
        values = np.unique(np.asarray(list(self.classes)))
        texts = {isinstance(label, str) for label in self.classes}
        if (
            values.ndim != 1
            or values.dtype.kind not in "biuUf"
            or len(values) < 2
            or len(texts) > 1
        ):
            raise ValueError("classes has two labels at least, all whole numbers or all texts")
        if len(values) < len(list(self.classes)):
            raise ValueError("classes names a label twice")
        return tuple(values.tolist())

    def _row_bound(self) -> float:
        if self.bound is None:
            raise ValueError(
                "bound is missing: give a public L2 bound of a row, such as bound=1.0 for rows "
                "that are normalised. It is never taken from the data; longer rows are shortened"
            )
        return check_positive(self.bound, "bound")

    def _checked_holdout(self) -> float:
        part = self.holdout
        if not isinstance(part, numbers.Real) or not 0 <= float(part) <= MOST_HELD_OUT:
            raise ValueError(f"holdout is a part of the rows, from 0 to {MOST_HELD_OUT}")
        return float(part)

    # --- Where rows come from ------------------------------------------------------------------

    def _blocks(self, X: Any, y: Any) -> Iterable[Pair]:
        """Pairs of rows and labels; a table in memory is one, checked as scikit-learn does."""
        if y is None and isinstance(X, Iterable) and not _is_table(X):
            return self._checked_blocks(X)
        if is_array(X) and computes(X):  # stays where it is
            check_real(X)
        X = self._rows(X, None if y is None else "no_validation")
        y = column_or_1d(one_by_one(y), warn=True)
        check_consistent_length(X, y)
        return [(X, y)]

    def _checked_blocks(self, blocks: Any) -> Iterable[Pair]:
        if isinstance(blocks, Iterator):
            raise ValueError(
                "the rows are read several times, and an iterator is read once: pass a list of "
                "pairs (X, y), or an object whose __iter__ begins anew"
            )
        first = next(iter(blocks), None)
        if not isinstance(first, tuple) or len(first) != 2:
            raise ValueError("without y, X is an iterable of pairs (X, y), or y is missing")
        self.n_features_in_ = int(np.shape(first[0])[-1])
        self.__dict__.pop("feature_names_in_", None)
        checked: Iterable[Pair] = blocks
        return checked

    def _pairs(self, blocks: Iterable[Any]) -> Callable[[], Iterable[Pair]]:
        """Some rows after the other, each block checked as it comes."""

        def read() -> Iterator[Pair]:
            for X, y in blocks:
                labels = one_by_one(y)
                X = X if is_array(X) else np.asarray(X)
                if X.ndim != 2 or X.shape[1] != self.n_features_in_:
                    raise ValueError(f"each block has {self.n_features_in_} columns")
                if labels.ndim != 1 or int(X.shape[0]) != len(labels):
                    raise ValueError("each block has a label for each row, in one dimension")
                yield from pieces(partial(_part, X), labels)

        return read

    @property
    def _paid(self) -> ClassFit | None:
        return self._fit

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # The checks fit some two hundred rows, whose signal is below the noise of epsilon = 1.
        tags.classifier_tags.poor_score = True
        return tags


def _is_table(X: Any) -> bool:
    """Whether X is a table itself, and no iterable of blocks."""
    return any(hasattr(X, name) for name in ("__array__", "columns", "column_names", "items"))


def _part(X: Any, rows: slice) -> Any:
    return X[rows, :]
