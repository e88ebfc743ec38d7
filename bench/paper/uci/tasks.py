"""Regression tasks, prepared as Lev et al. (2025, 2026) prepare theirs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Task:
    """Training rows with ``|x| <= 1`` and ``|y| <= 1``, and held-out rows in the same scale.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n, d), float64
    y : ndarray of shape (n,), float64
    X_test : ndarray of shape (m, d), float64
    y_test : ndarray of shape (m,), float64
    """

    name: str
    X: Matrix
    y: Vector
    X_test: Matrix
    y_test: Vector

    @classmethod
    def prepare(cls, name: str, X: Matrix, y: Vector, test: NDArray[np.bool_]) -> Task:
        """Standardise and scale by the training rows alone.

        The means, deviations and maxima are taken as public, as those papers take them; that
        is a convention of this comparison between methods, not something to do with data.
        """
        if X.ndim != 2 or y.shape != X.shape[:1] or test.shape != y.shape:
            raise ValueError(f"task {name}: X is (n, d), y and test are (n,)")
        if not (np.isfinite(X).all() and np.isfinite(y).all()):
            raise ValueError(f"task {name}: X and y must be finite")
        train = ~test
        if not test.any() or train.sum() < 2 or not y[train].any():
            raise ValueError(f"task {name}: needs held-out rows and a training target not all zero")
        deviation = X[train].std(axis=0)
        Z = (X - X[train].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        Z /= np.linalg.norm(Z[train], axis=1).max()
        t = y / np.abs(y[train]).max()
        return cls(name, Z[train], t[train], Z[test], t[test])

    @property
    def n_rows(self) -> int:
        """Training rows n."""
        return len(self.X)

    @property
    def n_features(self) -> int:
        """Columns d of X."""
        return len(self.X.T)

    @property
    def delta(self) -> float:
        """1 / n^2."""
        return 1.0 / self.n_rows**2

    @cached_property
    def joint(self) -> Matrix:
        """Second moment of (X, y), shape (d + 1, d + 1): not private."""
        rows = np.column_stack([self.X, self.y])
        return rows.T @ rows

    @property
    def gram(self) -> Matrix:
        """X^T X, shape (d, d): not private."""
        return self.joint[:-1, :-1]

    @property
    def cross(self) -> Vector:
        """X^T y, shape (d,): not private."""
        return self.joint[:-1, -1]

    @cached_property
    def _test_factor(self) -> Matrix:
        factor: Matrix = np.linalg.qr(np.column_stack([self.X_test, self.y_test]))[1]
        return factor

    def test_error(self, coef: Vector) -> float:
        """Mean squared error of ``X @ coef`` on the held-out rows."""
        residual = self._test_factor @ np.append(coef, -1.0)
        return float(residual @ residual) / len(self.y_test)

    @cached_property
    def least_squares(self) -> Vector:
        """The coefficients without privacy, shape (d,)."""
        return np.asarray(np.linalg.lstsq(self.X, self.y, rcond=None)[0], dtype=np.float64)


def load_task(path: str | os.PathLike[str]) -> Task:
    """Read one `.npz` with `X` (n, d), `y` (n,) and `test` (n,) bool.

    Raises
    ------
    ValueError
        If an array is missing or of the wrong shape.
    OSError
        If the file cannot be read.
    """
    from pathlib import Path

    path = Path(path)
    with np.load(path, allow_pickle=False) as arrays:
        missing = {"X", "y", "test"} - set(arrays.files)
        if missing:
            raise ValueError(f"{path.name} lacks {', '.join(sorted(missing))}")
        X, y, test = arrays["X"], arrays["y"], arrays["test"]
    return Task.prepare(path.stem, X.astype(np.float64), y.astype(np.float64), test.astype(bool))


def load_folder(folder: str | os.PathLike[str]) -> list[Task]:
    """Every task of a folder, by name.

    Raises
    ------
    ValueError
        If it holds none.
    """
    from pathlib import Path

    paths: list[Path] = sorted(Path(folder).glob("*.npz"))
    if not paths:
        raise ValueError(f"no task (.npz) in {folder}")
    return [load_task(path) for path in paths]
