"""Regressions on tables of the UCI repository, by random features and by what fits lines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

import privgram as pg
from bench.paper.uci.adassp import AdaSSP
from bench.paper.uci.hessian_mixing import HessianMixing
from bench.paper.uci.tasks import Task
from privgram.estimators import PrivateRidge

if TYPE_CHECKING:
    from pathlib import Path


#: Deviations of a column, and of the target, that are taken for public bounds.
REACH = 3.0


def errors(path: Path, epsilon: float, seed: int, n: int = 512) -> dict[str, float | str]:
    """Mean squares of test errors over the target's variance, by method.

    A file has `X`, `y` and `test`. Means and deviations of the training rows are taken as public,
    as the papers take them; delta is 1 / n^2, and a row is added or removed.
    """
    with np.load(path) as file:
        x, y, test = file["X"], file["y"], file["test"].astype(bool)
    train = ~test
    spread = x[train].std(axis=0)
    x = (x - x[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    middle, deviation = y[train].mean(), y[train].std()
    y = (y - middle) / deviation
    ones = np.column_stack([x, np.ones(len(x))])
    exact = np.linalg.lstsq(ones[train], y[train], rcond=None)[0]
    found: dict[str, float | str] = {
        "table": path.stem,
        "rows": int(train.sum()),
        "columns": x.shape[1],
        "epsilon": epsilon,
        "seed": seed,
        "least squares": float(np.mean((y[test] - ones[test] @ exact) ** 2)),
    }
    task = Task.prepare(path.stem, x, y, test)
    scale = np.abs(y[train]).max() ** 2
    for name, method in (("AdaSSP", AdaSSP), ("Hessian mixing", HessianMixing)):
        coef = method(task, epsilon)(np.random.default_rng(seed))
        found[name] = float(task.test_error(coef) * scale)
    given = {"epsilon": epsilon, "delta": 1 / train.sum() ** 2, "adjacency": "add-remove"}
    given |= {"bounds": (-REACH, REACH), "target_bounds": (-REACH, REACH), "random_state": seed}
    for name, features in (("linear", None), ("features", pg.RandomFeatures(n=n))):
        start = time.process_time()
        model = PrivateRidge(features=features, **given).fit(x[train], y[train])
        found[name] = float(np.mean((y[test] - model.predict(x[test])) ** 2))
        found[f"{name}, seconds"] = time.process_time() - start
    found["told"] = float(model.prediction_error_**2)
    return found
