"""Real tables that come with scikit-learn and statsmodels, and releases of them."""

from functools import cache

import numpy as np
import pandas as pd
from helpers import make_release

import privgram as pg

#: Tables of numbers, each with a factor of public levels.
NAMES = ("iris", "wine", "breast_cancer", "fair", "randhie")


@cache
def table(name):
    """A frame of a few numbers and the column "group"."""
    if name in ("iris", "wine", "breast_cancer"):
        from sklearn import datasets

        loaded = getattr(datasets, f"load_{name}")()
        frame = pd.DataFrame(
            loaded.data, columns=[f"{c}".split(" (")[0] for c in loaded.feature_names]
        )
        frame = frame.iloc[:, :8]
        frame["group"] = loaded.target_names[loaded.target]
        return frame
    import statsmodels.api as sm

    frame = getattr(sm.datasets, name).load_pandas().data
    if name == "fair":
        return frame.drop(columns="occupation").assign(
            group=np.where(frame["affairs"] > 0, "yes", "no")
        )
    frame = frame[["mdvis", "lncoins", "lpi", "fmde", "physlm", "disea", "hlthg"]]
    return frame.assign(group=np.where(frame["mdvis"] > 2, "often", "seldom")).iloc[::4]


def columns(name, group=True):
    """Bounds as one would write them, rounded outward."""
    frame = table(name)
    numbers = frame.drop(columns="group")
    step = 10.0 ** np.floor(np.log10((numbers.max() - numbers.min()).to_numpy()))
    bounds = {
        column: (float(np.floor(low / s) * s - s), float(np.ceil(high / s) * s + s))
        for column, low, high, s in zip(numbers, numbers.min(), numbers.max(), step, strict=True)
    }
    if group:
        bounds["group"] = sorted(frame["group"].unique())
    return pg.Columns(bounds, intercept=True)


@cache
def exact(name, group=True):
    """A release without noise to speak of."""
    described = columns(name, group)
    rows = described.encode(table(name))
    return make_release(
        rows.T @ rows, described.names, n_rows=len(rows), columns=described, bound=described.bound
    )


@cache
def release(name, epsilon, group=True, seed=0):
    """By Analyze Gauss, with a seed."""
    return pg.release(
        table(name),
        pg.AnalyzeGauss(),
        epsilon,
        1e-6,
        columns=columns(name, group),
        rng=np.random.default_rng(seed),
    )
