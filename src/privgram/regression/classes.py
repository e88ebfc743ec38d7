"""A fitted classifier: what was released, and what it says of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.numbers import Matrix, Vector, check_integer, check_positive
from privgram._base.saved import ArchiveFormat, JsonObject
from privgram._base.text import shown
from privgram.regression.saved import SavedFit, check_sizes

if TYPE_CHECKING:
    from privgram.privacy import Adjacency, Profile


@dataclass(frozen=True, eq=False)
class HeldOutCounts:
    """Held-out rows by the probability of their predicted class: a reliability curve.

    Attributes
    ----------
    edges : ndarray of shape (bins + 1,), float64
        Of the probability of the predicted class.
    right, wrong : ndarray of shape (bins,), float64
        About how many rows were predicted rightly and wrongly, with the noise of `noise_std`.
    noise_std : float
        Standard deviation of the noise of each count.
    """

    right: Vector
    wrong: Vector
    noise_std: float

    @property
    def edges(self) -> Vector:
        """Ends of the bins."""
        return np.linspace(0.0, 1.0, len(self.right) + 1)

    @property
    def accuracy(self) -> float:
        """About which part of the rows is predicted rightly."""
        total = max(float(self.right.sum() + self.wrong.sum()), 1.0)
        return float(np.clip(self.right.sum() / total, 0.0, 1.0))

    @property
    def accuracy_stderr(self) -> float:
        """Standard error of `accuracy`: of the sample of held-out rows and of privacy."""
        total, a = max(float(self.right.sum() + self.wrong.sum()), 1.0), self.accuracy
        relative = self.noise_std / total  # of a file it may be of any size
        noise = len(self.right) * relative * relative * ((1 - a) ** 2 + a**2)
        return float(np.sqrt(a * (1 - a) / total + noise))

    @property
    def reliability(self) -> Vector:
        """Which part is right, by bin; NaN where noise hides how many rows there are."""
        total = self.right + self.wrong
        seen = total > 4 * self.noise_std
        part = np.clip(self.right / np.where(seen, total, 1.0), 0.0, 1.0)
        return np.asarray(np.where(seen, part, np.nan))


@dataclass(frozen=True, eq=False)
class ClassFit(SavedFit):
    """A multinomial regression by private scores. It costs nothing to use.

    Attributes
    ----------
    classes : tuple of str or int
        As they were given.
    coef : ndarray of shape (K, d), float64
        Of the linear predictor of each class, by feature.
    intercept : ndarray of shape (K,), float64
    n_rows : float
        Rows behind it: public, or estimated.
    epsilon, delta : float
    adjacency : {"replace", "add-remove"}
    privacy : Profile
        Of all that was released together.
    parameters : dict
        Rounds with their ratios and noise; `steps`, `clip`, and `seen`, how many directions of the
        features are seen beside the noise.
    refusal : str or None
        Why there is no answer. All classes are then equally likely.
    held_out : HeldOutCounts or None
        What rows that were not learnt from say of it.
    reproducible : bool
    """

    classes: tuple[Any, ...]
    coef: Matrix
    intercept: Vector
    n_rows: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    privacy: Profile
    parameters: JsonObject
    refusal: str | None = None
    held_out: HeldOutCounts | None = None
    reproducible: bool = False

    _format = ArchiveFormat(
        "privgram-classes", 1, "a classifier", key="fit", arrays=("coef", "intercept")
    )

    def __repr__(self) -> str:
        d = self.coef.shape[1]
        text = f"classifier of {len(self.classes)} classes by {d} features"
        return f"{text}: {self.outcome}{'; REPRODUCIBLE' * self.reproducible}"

    @property
    def outcome(self) -> str:
        """What the budget bought, in a sentence."""
        if self.refusal is not None:
            return shown(self.refusal)
        seen, d = self.parameters["seen"], self.coef.shape[1]
        text = f"noise hides all but {seen} of {d} directions" if seen < d else "nothing is hidden"
        if self.held_out is not None:
            accuracy, error = self.held_out.accuracy, self.held_out.accuracy_stderr
            part = f"{accuracy:.3f} +- {error:.3f}" if error <= 1 else "hidden by noise"
            text += f"; accuracy on held-out rows {part}"
        return text

    def decision(self, features: Matrix) -> Matrix:
        """Linear predictors of the classes, shape (m, K)."""
        return np.asarray(features @ self.coef.T + self.intercept)

    def probabilities(self, features: Matrix) -> Matrix:
        """Probabilities of the classes, shape (m, K)."""
        eta = self.decision(features)
        e = np.exp(eta - eta.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    @classmethod
    def _parts(cls, header: JsonObject) -> JsonObject:
        held = header["held_out"]
        if held is not None:
            right, wrong = (np.array(held[name], np.float64) for name in ("right", "wrong"))
            held = HeldOutCounts(right, wrong, check_positive(held["noise_std"], "noise_std"))
        return header | {"classes": tuple(header["classes"]), "held_out": held}

    def _check(self) -> None:
        n_classes, held = len(self.classes), self.held_out
        if n_classes < 2 or len(set(self.classes)) < n_classes:
            raise ValueError("there are two classes at least, each once")
        one_each = self.intercept.shape == (n_classes,)
        if self.coef.ndim != 2 or len(self.coef) != n_classes or not one_each:
            raise ValueError("there are coefficients for each class")
        check_sizes(coef=self.coef, intercept=self.intercept)
        if held is not None:
            if held.right.ndim != 1 or held.right.shape != held.wrong.shape:
                raise ValueError("rows are counted by the same bins")
            check_sizes(right=held.right, wrong=held.wrong)
        check_integer(self.parameters["seen"], "seen", 0, self.coef.shape[1] + 1)


read_classes = ClassFit._read
