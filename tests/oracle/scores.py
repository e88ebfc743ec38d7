"""The sweep over scores of `privgram._core.scores` in plain NumPy: the oracle of its tests.

Every number of a row by one rounded operation after the other, on whole columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "PARTS",
    "STEPS",
    "UNITS",
    "Model",
    "clipped_sums",
    "norm_counts",
    "row_scale",
    "scale",
    "second_moment",
    "sum_units",
]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

UNITS = 1 << 24
PARTS = 32
STEPS = 2.0**40

#: ln 2 in two parts, of which whole numbers times the first are exact.
LN2 = float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c7673p-45")


def exponential(x: Vector) -> Vector:
    """e^x for numbers up to 700 in size, within two units in the last place."""
    k = np.rint(x * 1.4426950408889634)
    r = (x - k * LN2[0]) - k * LN2[1]
    total = np.full_like(x, 1 / math.factorial(13))
    for n in range(12, -1, -1):
        total *= r
        total += 1 / math.factorial(n)
    return np.ldexp(total, np.where(np.isnan(k), 0, k).astype(np.int32))


def squares(rows: Matrix) -> Vector:
    total = np.zeros(len(rows))
    for column in rows.T:
        total = total + column * column
    return total


def along(images: Matrix, coef: Vector) -> Vector:
    total = coef[0] * images[:, 0]
    for j in range(1, len(coef)):
        total = total + coef[j] * images[:, j]
    return total


@dataclass(frozen=True)
class Model:
    """What images are multiplied by; as `privgram._core.scores.Score`."""

    kind: str
    q: int
    coef: Vector | None = None
    ones: Vector | None = None
    target: tuple[float, float] = (0.0, 1.0)
    largest: float = 0.0
    bend: float = 0.0
    reach_sq: float = 0.0
    offset: bool = False
    curved: bool = False

    def scores(self, images: Matrix) -> tuple[Matrix, Vector | None]:
        """Scores of rows, and norms that they have at most where a public size says so."""
        z, (multiplier, size) = images[:, : self.q], self.multiplier(images)
        scores = z * multiplier[:, None]
        return scores, None if size is None else size * np.sqrt(squares(z))

    def multiplier(self, images: Matrix) -> tuple[Vector, Vector | None]:
        if self.kind == "none":
            return np.ones(len(images)), None
        y = images[:, self.q]
        if self.kind == "residual":
            return y, None
        if self.kind == "huber":
            weight = self.reach_sq / np.maximum(squares(images[:, : self.q]), self.reach_sq)
            inside = np.abs(y) <= self.bend
            residual = weight * np.clip(y, -self.bend, self.bend)
            return self._of(residual, np.sqrt(weight) * inside), None
        residual, root, size = self._of_family(images)
        if self.kind == "gaussian" or self.curved:
            return self._of(residual, root), None
        return residual, np.maximum(size, np.abs(residual))

    def _of(self, residual: Vector, root: Vector) -> Vector:
        return root + (residual - residual) if self.curved else residual

    def _of_family(self, images: Matrix) -> tuple[Vector, Vector, Vector]:
        assert self.coef is not None
        eta = along(images, self.coef)
        if self.offset:
            eta = eta + images[:, self.q + 1]
        factor: Any = 1.0
        if self.ones is not None:
            factor = along(images, self.ones)
            eta = np.divide(eta, factor, out=np.zeros_like(eta), where=factor != 0)
        if self.kind == "gaussian":
            mean, root = eta, np.ones_like(eta)
        elif self.kind == "poisson":
            mean = exponential(np.clip(eta, -30.0, self.largest))
            root = np.sqrt(mean)
        else:
            eta = np.clip(eta, -30.0, 30.0)
            e = exponential(-np.abs(eta))
            mean, root = np.where(eta < 0, e, 1.0) / (1 + e), np.sqrt(e) / (1 + e)
        center, half = self.target
        residual = (center * factor + half * images[:, self.q]) - factor * mean
        far = np.where(mean < 0.5, 1 - mean, mean)
        if self.kind == "poisson":
            far = np.maximum(root, 1.0)
        return residual, root, far * factor


def scale(q: int) -> float:
    return float(UNITS - np.ceil(np.sqrt(q) / 2) - 1)


def usable(scores: Matrix, norms: Vector | None) -> tuple[NDArray[np.bool_], Vector]:
    """Which rows may be used, and the norms to clip or count by."""
    square = squares(scores)
    norms = np.sqrt(square) if norms is None else norms
    return np.isfinite(square + norms), norms


def whole(vectors: Matrix, factor: Vector) -> Matrix:
    """Rows times their factors as integers, in rows of length `UNITS` at most."""
    rounded = np.rint(vectors * factor[:, None])
    rounded[~(squares(rounded) <= float(UNITS) ** 2)] = 0.0
    return rounded


def clipped_sums(
    scores: Matrix, norms: Vector | None, clip: float, groups: NDArray[Any], n_groups: int
) -> NDArray[np.int64]:
    """Sums of s min(1, clip / |s|) / clip by group, in units of 1 / scale(q)."""
    good, norms = usable(scores, norms)
    scores, norms, groups = scores[good], norms[good], groups[good]
    rounded = whole(scores, scale(scores.shape[1]) / np.maximum(norms, clip))
    total = np.zeros((n_groups, scores.shape[1]), np.int64)
    np.add.at(total, groups, rounded.astype(np.int64))
    return total


def norm_counts(scores: Matrix, norms: Vector | None, edges: Vector) -> NDArray[np.int64]:
    """Counts by norm in units of 1 / `PARTS`."""
    good, norms = usable(scores, norms)
    scores, norms = scores[good], norms[good]
    part = np.rint(PARTS * (np.sqrt(squares(scores)) / np.where(norms > 0, norms, 1.0)))
    counts = np.zeros(len(edges), np.int64)
    np.add.at(counts, np.searchsorted(edges[:-1], norms), np.minimum(part, PARTS).astype(np.int64))
    return counts


def row_scale(q: int) -> float:
    return float((1 << 20) - np.ceil(np.sqrt(q)) - 2)


def second_moment(
    scores: Matrix, norms: Vector | None, clip: float, radius: float
) -> NDArray[np.int64]:
    """Second moment of rows up to a radius as integers, clipped by public norms before."""
    good, found = usable(scores, norms)
    scores = scores[good]
    kept = np.ones(len(scores)) if norms is None else clip / np.maximum(found[good], clip)
    longest = np.maximum(np.sqrt(squares(scores)) * kept, radius)
    rows = np.rint(scores * (kept * (row_scale(scores.shape[1]) / longest))[:, None])
    assert (squares(rows) <= 4.0**20).all()
    whole = rows.astype(np.int64)
    return np.asarray(whole.T @ whole)


def sum_units(scores: Matrix, largest: float, starts: NDArray[np.intp]) -> Matrix:
    """Sums over units of scores up to a largest one, exact but for rounding each to a grid."""
    if not largest:
        return np.zeros((len(starts), scores.shape[1]))
    steps = np.rint(scores * (STEPS / largest)).astype(np.int64)
    return np.add.reduceat(steps, starts, axis=0) * (largest / STEPS)
