"""Regressions on random features beside the columns: rows, the ridge, and what it is worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.columns.features import RandomFeatures
from privgram.noise import GaussianLaw, symmetric_gaussian

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.releases.release import Release

#: The constant of a row; its features and what the columns leave of its target have length 1 each.
ROW_CONSTANT = 0.25
BOUND = math.sqrt(2 + ROW_CONSTANT**2)

#: The share of mu^2 of the fit by the columns alone; features have the rest.
LINEAR = 0.7

#: What the columns leave of the target counts up to so many of its deviations.
TARGET_REACH = 3.0

#: Rows that are made at a time.
FEATURE_ROWS = 1 << 11

#: Ridges that are compared, over the edge of the noise.
RIDGES = (0.1, 0.25, 0.6, 1.5)

#: How ridges are compared: noise that is added to fit by, over that of the release, and how often.
ADDED, DRAWS = 0.5, 8

#: So many deviations of its noise are added to an error: long coefficients make it uncertain.
DOUBT = 2.0

NO_SLOPES = (
    "random features have no slopes to read: each coefficient is of a cosine or a sine of all "
    "columns. predict and prediction_error_ are what there is; slopes take a fit without features="
)


def places(features: RandomFeatures, names: Sequence[str]) -> list[int]:
    """Where the columns of random features are among all."""
    if features.columns is None:
        return list(range(len(names)))
    unknown = [name for name in features.columns if name not in names]
    if unknown:
        raise ValueError(f"features= names {unknown[0]!r}, which is no column of numbers")
    return [list(names).index(name) for name in features.columns]


def check_features(features: Any) -> None:
    """Raise TypeError for anything but random features."""
    if features is not None and not isinstance(features, RandomFeatures):
        raise TypeError(f"features is a RandomFeatures, not {type(features).__name__}")


@dataclass(frozen=True, eq=False)
class LinearPart:
    """A fit by columns that were mapped to [-1, 1], and the size of what it leaves."""

    center: Vector  # of each column's bounds
    half: Vector
    target: tuple[float, float]  # bounds
    coef: Vector  # of the columns mapped to [-1, 1] and of a one, for the target mapped so
    size: float  # root mean square of what it leaves of the target mapped so, cautiously

    def scaled(self, x: Matrix) -> Matrix:
        """Columns mapped to [-1, 1]."""
        return np.clip((np.asarray(x, np.float64) - self.center) / self.half, -1.0, 1.0)

    def predicted(self, scaled: Matrix) -> Vector:
        """The target mapped to [-1, 1], by one rounded operation after the other."""
        total = np.full(len(scaled), self.coef[-1])
        for j, slope in enumerate(self.coef[:-1]):
            total += scaled[:, j] * slope
        return total

    def own_units(self, predicted: Vector) -> Vector:
        """Predictions in units of the target."""
        lower, upper = self.target
        return np.asarray((upper + lower) / 2 + (upper - lower) / 2 * predicted)


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Random features of the columns and a constant."""

    features: RandomFeatures
    at: list[int]  # the columns that features are of

    def rows(self, scaled: Matrix) -> Matrix:
        """Features and the constant of rows mapped to [-1, 1], shape (m, n + 1)."""
        made = self.features.rows(scaled[:, self.at])
        return np.hstack([made, np.full((len(scaled), 1), ROW_CONSTANT)])


class FeatureBlocks:
    """Features of rows, and what a released linear fit leaves of their target. SECRET."""

    def __init__(self, x: Matrix, y: Vector, linear: LinearPart, features: FeatureMap) -> None:
        self._x, self._y, self._linear, self._features = x, y, linear, features

    def __iter__(self) -> Iterator[Matrix]:
        linear = self._linear
        lower, upper = linear.target
        for start in range(0, len(self._x), FEATURE_ROWS):
            some = slice(start, start + FEATURE_ROWS)
            scaled = linear.scaled(self._x[some])
            target = np.clip((self._y[some] - (upper + lower) / 2) / ((upper - lower) / 2), -1, 1)
            left = (target - linear.predicted(scaled)) / (TARGET_REACH * linear.size)
            yield np.column_stack([self._features.rows(scaled), np.clip(left, -1.0, 1.0)])


@dataclass(frozen=True, eq=False)
class FeatureFit:
    """Coefficients of features and the constant, for what the columns leave over its reach."""

    coef: Vector
    error: float  # root mean square of what it leaves, as the release tells, cautiously
    ridge: float  # over the edge of the noise; infinite where features tell nothing


def linear_part(release: Release, params: Vector, center: Vector, half: Vector) -> LinearPart:
    """The fit by columns in a release of them, the target and a one; `params` in own units."""
    columns = release.columns
    assert columns is not None
    lower, upper = float(columns.lower[-2]), float(columns.upper[-2])
    height = (upper - lower) / 2
    constant = params[-1] + params[:-1] @ center - (upper + lower) / 2
    coef = np.append(params[:-1] * half, constant) / height
    v = np.concatenate([-coef[:-1], [1.0, -coef[-1]]])
    matrix = np.asarray(release.matrix)
    doubt = math.sqrt(float(release.noise.entry_variance(matrix, v[None])[0, 0]))
    square = max(float(v @ matrix @ v), 0.0) + DOUBT * doubt
    size = math.sqrt(square / max(float(matrix[-1, -1]), 1.0))
    return LinearPart(center, half, (lower, upper), coef, min(max(size, 1e-6), 1.0))


def no_features(n: int) -> FeatureFit:
    """A fit without features, whose error is not known."""
    return FeatureFit(np.zeros(n + 1), math.nan, math.inf)


def fit_features(release: Release) -> FeatureFit:
    """The ridge regression of a release's last column that the release says is best.

    Of a matrix with Gaussian noise N, M + a N' and M - N' / a with N' of the law of N have
    independent noise: a fit by the first has by the second an estimate of its error without bias
    [1], to which deviations of its noise are added. So ridges are compared, and no features, at no
    cost.

    .. [1] N. Oliveira, J. Lei and R. Tibshirani, "Unbiased risk estimation in the normal means
       problem via coupled bootstrap techniques", Electronic Journal of Statistics 18 (2024).
    """
    law, matrix = release.noise, np.asarray(release.matrix)
    assert isinstance(law, GaussianLaw)
    d = len(matrix) - 1
    rng = np.random.default_rng(0)
    risks = dict.fromkeys((*RIDGES, math.inf), 0.0)
    for _ in range(DRAWS):
        noise = symmetric_gaussian(d + 1, law.std, law.std_diagonal, rng)
        one, other = matrix + ADDED * noise, matrix - noise / ADDED
        for ridge, coef in _ridges(one, law.std * math.hypot(1.0, ADDED)).items():
            v = np.append(-coef, 1.0)
            doubt = math.sqrt(2.0 * (1 + 1 / (ADDED**2 * DRAWS))) * law.std * float(v @ v)
            risks[ridge] += (float(v @ other @ v) + DOUBT * doubt) / DRAWS
    ridge = min(risks, key=lambda choice: risks[choice])
    rows = max(float(matrix[d - 1, d - 1]) / ROW_CONSTANT**2, 1.0)
    error = math.sqrt(max(risks[ridge], 0.0) / rows)
    return FeatureFit(_ridges(matrix, law.std)[ridge], error, ridge)


def _ridges(matrix: Matrix, std: float) -> dict[float, Vector]:
    """Coefficients by ridge."""
    values, directions = np.linalg.eigh(matrix[:-1, :-1])
    along = directions.T @ matrix[:-1, -1]
    edge = 2 * math.sqrt(len(values)) * std
    found = {r: directions @ (along / (np.maximum(values, 0.0) + r * edge)) for r in RIDGES}
    return found | {math.inf: np.zeros(len(values))}
