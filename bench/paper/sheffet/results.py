"""Curves out of runs: mean and spread over the repetitions."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from bench.paper.sheffet.runs import Run
    from bench.paper.sheffet.settings import Setting

    Vector = NDArray[np.float64]


class Results:
    """The runs of one setting, to be asked for by what they were made with.

    Parameters
    ----------
    setting : Setting
    runs : iterable of Run
    """

    def __init__(self, setting: Setting, runs: Iterable[Run]) -> None:
        self.setting = setting
        self.sizes = np.array([2**k for k in setting.exponents])
        self._runs: dict[tuple[object, ...], list[Run]] = defaultdict(list)
        for run in runs:
            key = run.estimator, run.calibration, run.epsilon, run.extras, run.penalty, run.n
            self._runs[key].append(run)

    def values(
        self,
        field: str,
        estimator: str,
        calibration: str,
        epsilon: float,
        extras: int = 0,
        penalty: float = 0.0,
    ) -> Vector:
        """Give a field of every repetition at every n, shape (sizes, repetitions).

        Raises
        ------
        KeyError
            If there are no such runs.
        """
        table = []
        for n in self.sizes.tolist():
            key = estimator, calibration, epsilon, extras, penalty, n
            if key not in self._runs:
                raise KeyError(key)
            table.append([getattr(run, field) for run in self._runs[key]])
        return np.array(table, dtype=np.float64)

    def errors(self, estimator: str, calibration: str, epsilon: float, extras: int = 0) -> Vector:
        """L2 errors, shape (sizes, repetitions)."""
        return self.values("error", estimator, calibration, epsilon, extras)

    def mean(self, estimator: str, calibration: str, epsilon: float, extras: int = 0) -> Vector:
        """Mean error at every n."""
        mean: Vector = self.errors(estimator, calibration, epsilon, extras).mean(axis=1)
        return mean

    def std(self, estimator: str, calibration: str, epsilon: float, extras: int = 0) -> Vector:
        """Standard deviation of the error between repetitions, at every n."""
        std: Vector = self.errors(estimator, calibration, epsilon, extras).std(axis=1, ddof=1)
        return std
