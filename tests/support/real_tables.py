"""Real tables that come with scikit-learn and statsmodels, and releases of them."""

from functools import cache

import numpy as np
import pandas as pd
from support.helpers import make_release

import privgram as pg

#: Tables of numbers, each with a factor of public levels.
NAMES = ("iris", "wine", "breast_cancer", "fair", "randhie")


@cache
def table(name):
    """A frame of a few numbers, the last column "group" of text."""
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


def columns(frame):
    """Bounds as one would write them, rounded outward; levels of text."""
    bounds = {}
    for name, column in frame.items():
        if column.dtype.kind not in "fiub":
            bounds[name] = sorted(column.unique())
            continue
        step = 10.0 ** np.floor(np.log10(column.max() - column.min()))
        low, high = np.floor(column.min() / step) - 1, np.ceil(column.max() / step) + 1
        bounds[name] = (float(low * step), float(high * step))
    return pg.Columns(bounds, intercept=True)


def exact(frame):
    """A release without noise to speak of."""
    described = columns(frame)
    rows = described.encode(frame)
    return make_release(
        rows.T @ rows, described.names, n_rows=len(rows), columns=described, bound=described.bound
    )


@cache
def numbers(name):
    """The numbers of a table, of more tables."""
    if name in NAMES:
        return table(name).drop(columns="group")
    if name == "diabetes":
        from sklearn import datasets

        return datasets.load_diabetes(as_frame=True).data
    import statsmodels.api as sm

    return getattr(sm.datasets, name).load_pandas().data
