"""A fitted regression on random features: what was released, and what it predicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.numbers import Matrix, Vector, check_positive, check_within
from privgram._base.saved import ArchiveFormat, JsonObject
from privgram._base.text import shown
from privgram.columns.features import RandomFeatures
from privgram.regression.inference import DOUBT
from privgram.regression.saved import SavedFit, check_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privgram.privacy import Adjacency, Profile
    from privgram.releases.release import Release


#: Why there are no coefficients.
NO_SLOPES = (
    "random features have no slopes to read, as each coefficient is of a cosine or a sine of all "
    "their columns: predictions and their error are what there is"
)

#: The length of the constant of a row, and of its columns at most, which is that of typical ones;
#: its features have length 1.
ROW_CONSTANT, COLUMNS = 0.25, 0.5

#: A column beyond its bounds counts up to so many times half their width.
MOST_HALF_WIDTHS = 2.0**500


def places(features: RandomFeatures, names: Sequence[str]) -> list[int]:
    """Where the columns of random features are among all."""
    if features.columns is None:
        return list(range(len(names)))
    unknown = [name for name in features.columns if name not in names]
    if unknown:
        raise ValueError(
            f"features= names {unknown[0]!r}, which is no column of numbers: name others"
        )
    return [list(names).index(name) for name in features.columns]


def check_features(features: object) -> None:
    """Raise TypeError for anything but random features."""
    if features is not None and not isinstance(features, RandomFeatures):
        raise TypeError(f"features is a RandomFeatures, not {type(features).__name__}")


@dataclass(frozen=True, eq=False)
class LinearPart:
    """A fit by columns, and the size of what it leaves.

    Columns are mapped to [-1, 1] by their bounds, and so is the target.
    """

    center: Vector  # of each column's bounds
    half: Vector
    target: tuple[float, float]  # bounds
    slopes: Vector  # of the columns mapped to [-1, 1] and of a one
    frame: Matrix  # of these, (d + 1, d): columns as they stand beside features
    size: float  # root mean square of what it leaves of the target, cautiously
    clamps: bool = False  # whether columns beyond their bounds count as if at them

    @classmethod
    def of(cls, release: Release, params: Vector, center: Vector, half: Vector) -> LinearPart:
        """The fit by columns in a release of them, the target and a one; `params` as users see."""
        columns = release.columns
        assert columns is not None
        lower, upper = float(columns.lower[-2]), float(columns.upper[-2])
        height = (upper - lower) / 2
        constant = params[-1] + params[:-1] @ center - (upper + lower) / 2
        slopes = np.append(params[:-1] * half, constant) / height
        v = np.concatenate([-slopes[:-1], [1.0, -slopes[-1]]])
        matrix, variance = np.asarray(release.matrix), release.noise.entry_variance
        rows = max(float(matrix[-1, -1]), 1.0)
        square = max(float(v @ matrix @ v), 0.0)
        square += DOUBT * math.sqrt(float(variance(matrix, v[None])[0, 0]))
        size = min(max(math.sqrt(square / rows), 1e-6), 1.0)
        # About their mean, all directions alike long, as far as each is seen beside its noise.
        mean = matrix[:-2, -1] / rows
        axes = np.linalg.eigh(matrix[:-2, :-2] - rows * np.outer(mean, mean))[1]
        turned = np.column_stack([axes.T, np.zeros(len(mean)), -mean @ axes])
        seen = ((turned @ matrix) * turned).sum(axis=1)
        seen = np.maximum(seen, np.sqrt(variance(matrix, turned).diagonal()))
        frame = turned[:, [*range(len(mean)), -1]].T * (COLUMNS * np.sqrt(rows / seen / len(mean)))
        return cls(center, half, (lower, upper), slopes, frame, size)

    @property
    def height(self) -> float:
        """Half of the width of the target's bounds."""
        return (self.target[1] - self.target[0]) / 2

    def scaled(self, x: Matrix) -> Matrix:
        """Columns mapped to [-1, 1], beyond where they are beyond their bounds, but never far."""
        with np.errstate(over="ignore"):
            scaled = (np.asarray(x, np.float64) - self.center) / self.half
        return np.asarray(np.clip(scaled, -MOST_HALF_WIDTHS, MOST_HALF_WIDTHS))

    def framed(self, scaled: Matrix) -> Matrix:
        """Columns as they stand beside features, none longer than `COLUMNS`."""
        columns = np.repeat(self.frame[-1:], len(scaled), axis=0)
        for j, axis in enumerate(self.frame[:-1]):
            columns += scaled[:, j, None] * axis
        square = np.zeros(len(columns))
        for column in columns.T:
            square += column**2
        return columns * (COLUMNS / np.maximum(np.sqrt(square), COLUMNS))[:, None]

    def predicted(self, scaled: Matrix) -> Vector:
        """The target mapped to [-1, 1], by one rounded operation after the other."""
        if self.clamps:
            scaled = np.clip(scaled, -1.0, 1.0)
        total = np.full(len(scaled), self.slopes[-1])
        for j, slope in enumerate(self.slopes[:-1]):
            total += scaled[:, j] * slope
        return total

    def residuals(self, scaled: Matrix, y: Vector) -> Vector:
        """What is left of the target, over the size."""
        lower, upper = self.target
        target = np.clip((y - (upper + lower) / 2) / self.height, -1.0, 1.0)
        return np.asarray((target - self.predicted(scaled)) / self.size)


@dataclass(frozen=True, eq=False)
class FeatureFit(SavedFit):
    """A regression on random features beside its columns. It costs nothing to use.

    Attributes
    ----------
    features : RandomFeatures
    names : tuple of str
        Of the columns, in the order of `predict`.
    linear : LinearPart
        The fit by the columns alone, from which that by features begins.
    coef : ndarray of shape (n + columns + 1,), float64
        Of features, columns and a constant, for what `linear` leaves over its size; zeros where
        features tell nothing.
    error : float
        Root mean square of what predictions leave of the target, as released, with two deviations
        of its noise; NaN where nothing was released of it.
    n_rows : float
        Rows behind it: public, or estimated.
    epsilon, delta : float
    adjacency : {"replace", "add-remove"}
    privacy : Profile
        Of all that was released together.
    refusal : str or None
        Why features are left out, where something failed after the spend.
    reproducible : bool
    """

    features: RandomFeatures
    names: tuple[str, ...]
    linear: LinearPart
    coef: Vector
    error: float
    n_rows: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    privacy: Profile
    refusal: str | None = None
    reproducible: bool = False

    _format = ArchiveFormat(
        "privgram-features", 1, "a regression on random features", key="fit", arrays=("coef",)
    )

    def __repr__(self) -> str:
        text = f"regression on {self.features.n} random features: {self.outcome}"
        return text + "; REPRODUCIBLE" * self.reproducible

    @property
    def outcome(self) -> str:
        """What the budget bought, in a sentence."""
        if self.refusal is not None:
            return shown(self.refusal)
        used = "predictions are" if self.coef.any() else "features tell nothing, predictions are"
        if math.isnan(self.error):
            return f"{used} of unknown error"
        return f"{used} right to about {self.error:.3g}"

    def predict(self, x: Matrix) -> Vector:
        """Predictions for rows of the columns, shape (m,)."""
        linear = self.linear
        scaled = linear.scaled(x)
        predicted = linear.predicted(scaled)
        if self.coef.any():
            explained = self.rows(scaled) @ self.coef
            predicted = predicted + explained * linear.size
        return np.asarray(sum(linear.target) / 2 + linear.height * predicted)

    def rows(self, scaled: Matrix) -> Matrix:
        """Features, columns and a constant of rows mapped to [-1, 1]: at most `row_bound` long."""
        scaled = np.clip(scaled, -1.0, 1.0)
        at = places(self.features, self.names)
        drawn = self.features.rows(np.ascontiguousarray(scaled[:, at]))
        constant = np.full((len(scaled), 1), ROW_CONSTANT)
        return np.hstack([drawn, self.linear.framed(scaled), constant])

    @classmethod
    def _parts(cls, header: JsonObject) -> JsonObject:
        linear, error = header["linear"], header["error"]
        for name in ("center", "half", "slopes", "frame"):
            linear[name] = np.array(linear[name], np.float64)
        lower, upper = (float(end) for end in linear.pop("target"))
        check_positive(linear["size"], "size")
        return header | {
            "features": RandomFeatures(**header["features"]),
            "names": tuple(header["names"]),
            "linear": LinearPart(**linear, target=(lower, upper)),
            "error": math.nan if error is None else check_within(error, "error", 0, math.inf),
        }

    def _check(self) -> None:
        names, linear, d = self.names, self.linear, len(self.names)
        if not d or len(set(names)) < d or not all(isinstance(name, str) for name in names):
            raise ValueError("columns have names, each its own")
        places(self.features, names)
        arrays = linear.center, linear.half, linear.slopes, linear.frame, self.coef
        shapes = (d,), (d,), (d + 1,), (d + 1, d), (self.features.n + d + 1,)
        if tuple(array.shape for array in arrays) != shapes:
            raise ValueError("there is a coefficient for each column and feature")
        check_sizes(center=linear.center, half=linear.half, slopes=linear.slopes, coef=self.coef)
        check_sizes(frame=linear.frame, target=np.array(linear.target))
        if not (linear.half > 0).all() or not linear.height > 0:
            raise ValueError("bounds are in order")
        if type(linear.clamps) is not bool:
            raise ValueError("clamps is true or false")


def row_bound() -> float:
    """The longest row that `FeatureFit.rows` makes."""
    return math.sqrt(1 + COLUMNS**2 + ROW_CONSTANT**2)


def without_features(fit: FeatureFit, refusal: str) -> FeatureFit:
    """The fit by the columns alone, where that by features failed."""
    return replace(fit, coef=np.zeros_like(fit.coef), error=math.nan, refusal=refusal)


read_features = FeatureFit._read
