"""What the suite compares: a table, what a user knows of it, and releases of it without noise.

The package sees the raw table and its own description. The references see columns that are made
here, by hand, in own units: so nothing is shared but the rows.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from support.helpers import make_release

import privgram as pg
from privgram.columns.terms import INTERCEPT
from privgram.noise import GaussianLaw
from privgram.privacy import GaussianProfile
from privgram.regression.design import AllColumns, RegressionTerms, design
from privgram.regression.glm import GLMResults

N = 300

#: Nothing beside what is compared, and no zero: files refuse that.
SILENT = GaussianLaw(1e-11, 1e-11)

#: A guarantee whose noise is next to none.
_PROFILE = GaussianProfile(1e12, "replace")
NO_NOISE = {
    "epsilon": 5e23,
    "delta": _PROFILE.delta(5e23),
    "adjacency": "replace",
    "privacy": _PROFILE,
}
PARAMETERS = {
    "method": "scores",
    "reason": "",
    "clipped_rows": 0.0,
    "purpose": "inference",
    "rows_std": 0.0,
    "units": None,
}

#: No variable's bounds are about 0, so that the middle of the bounds is not the origin.
VARIABLES = {
    "x": (2, 10),
    "z": (-3, 1),
    "w": pg.Log(1, 100),
    "d": pg.Dates("2020-01-01", "2024-01-01", unit="years"),
    "b": bool,
    "f": ["n", "s", "w"],
    "g": pg.Factor([1, 2]),
    "y": (0, 60),
    "v": pg.Log(1, 1000),
}
TERMS = ["poly(x, 2)", "x:z", "log(w)", "d", "b", "f*g", "x:f", "z", "y", "log(v)"]


def made_table(seed=0):
    """Some values are beyond their bounds."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(1, 11, N), rng.uniform(-3.5, 1.5, N)
    w = np.exp(rng.uniform(-0.5, 5, N))
    day = np.datetime64("2019-11-01") + rng.integers(0, 1600, N).astype("timedelta64[D]")
    b = rng.random(N) < 0.4
    f, g = rng.choice(["n", "s", "w"], N), rng.choice([1, 2], N)
    mean = (
        5 + 2 * x - 0.1 * x**2 + 3 * z + np.log(w) + 2 * b + 4 * (f == "s") + (g == 2) * (f == "w")
    )
    y = mean + rng.normal(0, 1 + (x > 5), N)
    v = np.exp(0.1 * mean + rng.normal(0, 0.5, N))
    k = rng.uniform(0.1, 5, N)
    return pd.DataFrame(
        {"x": x, "z": z, "w": w, "d": day, "b": b, "f": f, "g": g, "y": y, "v": v, "k": k}
    )


def by_hand(table):
    """Columns in own units, clamped: what a user of the references would make."""
    x, z = table.x.clip(2, 10), table.z.clip(-3, 1)
    first, last = np.datetime64("2020-01-01"), np.datetime64("2024-01-01")
    days = (table.d.clip(first, last) - first).dt.total_seconds() / 86_400
    own = {
        "x": x,
        "x^2": x**2,
        "z": z,
        "x:z": x * z,
        "log(w)": np.log(table.w.clip(1, 100)),
        "d": days / 365.2425,
        "b": table.b.astype(float),
        "y": table.y.clip(0, 60),
        "log(v)": np.log(table.v.clip(1, 1000)),
    }
    for level in "nsw":
        own[f"f[{level}]"] = (table.f == level).astype(float)
        own[f"x:f[{level}]"] = x * (table.f == level)
        for other in (1, 2):
            own[f"f[{level}]:g[{other}]"] = own[f"f[{level}]"] * (table.g == other)
    for level in (1, 2):
        own[f"g[{level}]"] = (table.g == level).astype(float)
    return pd.DataFrame(own)


def released(table, columns):
    """The second moment of the encoded table, in doubles: no grid, no noise."""
    rows = columns.encode(table)
    return make_release(rows.T @ rows, columns.names, SILENT, len(rows), columns, columns.bound)


@dataclass(frozen=True)
class Case:
    """One regression, by both routes."""

    label: str
    target: str
    terms: tuple[str, ...]
    names: tuple[str, ...]  # of the features, as the references have them
    intercept: bool = True
    weighted: bool = False
    reference: Any = None

    @cached_property
    def table(self):
        return made_table()

    @cached_property
    def release(self):
        variables = VARIABLES | ({"k": (0, 4)} if self.weighted else {})
        columns = pg.Columns(
            variables, intercept=True, terms=TERMS, row_weights="k" if self.weighted else None
        )
        return released(self.table, columns)

    @cached_property
    def fit(self):
        return self.release.regress(
            self.target, list(self.terms), intercept=self.intercept, reference=self.reference
        )

    def design(self, table):
        """Of the references, with the constant last."""
        found = by_hand(table)[list(self.names)]
        return found.assign(Intercept=1.0) if self.intercept else found

    @cached_property
    def ols(self):
        y, X = by_hand(self.table)[self.target], self.design(self.table)
        return (
            sm.WLS(y, X, weights=self.table.k.clip(0, 4)).fit()
            if self.weighted
            else sm.OLS(y, X).fit()
        )

    @cached_property
    def new(self):
        return made_table(seed=1).head(20)


#: Terms, and the columns that they are with an intercept.
SETS = {
    "number": (("x", "z"), ("x", "z")),
    "logarithm": (("log(w)", "x"), ("log(w)", "x")),
    "dates": (("d", "log(w)"), ("d", "log(w)")),
    "bool": (("b", "d"), ("b", "d")),
    "factor": (("f", "x"), ("f[s]", "f[w]", "x")),
    "reference": (("f", "b"), ("f[n]", "f[s]", "b")),
    "numbered factor": (("g", "z"), ("g[2]", "z")),
    "polynomial": (("poly(x, 2)", "log(w)"), ("x", "x^2", "log(w)")),
    "product": (("x", "z", "x:z"), ("x", "z", "x:z")),
    "factor product": (("f", "g", "f:g"), ("f[s]", "f[w]", "g[2]", "f[s]:g[2]", "f[w]:g[2]")),
    "slopes by factor": (("x", "f", "x:f"), ("x", "f[s]", "f[w]", "x:f[s]", "x:f[w]")),
    "all": (
        ("poly(x, 2)", "log(w)", "d", "b", "f"),
        ("x", "x^2", "log(w)", "d", "b", "f[s]", "f[w]"),
    ),
}

#: Without an intercept the first factor has all of its levels.
WHOLE = {
    "factor": ("f[n]", "f[s]", "f[w]", "x"),
    "reference": ("f[n]", "f[s]", "f[w]", "b"),
    "numbered factor": ("g[1]", "g[2]", "z"),
    "factor product": ("f[n]", "f[s]", "f[w]", "g[2]", "f[s]:g[2]", "f[w]:g[2]"),
    "slopes by factor": ("x", "f[n]", "f[s]", "f[w]", "x:f[s]", "x:f[w]"),
    "all": ("x", "x^2", "log(w)", "d", "b", "f[n]", "f[s]", "f[w]"),
}


def _cases():
    """Terms by intercept in full; targets and weights so that all pairs occur."""
    for i, (label, (terms, names)) in enumerate(SETS.items()):
        for intercept in (True, False):
            for weighted in (False, True):
                target = ("y", "log(v)")[(i + intercept + weighted) % 2]
                own = names if intercept else WHOLE.get(label, names)
                said = f"{target} ~ {label}{'' if intercept else ' - 1'}{', weighted' * weighted}"
                reference = {"f": "w"} if label == "reference" else None
                yield Case(said, target, terms, own, intercept, weighted, reference)


CASES = {case.label: case for case in _cases()}


def logistic(case):
    """The record of a logistic regression whose scores led to the maximum of the likelihood."""
    names = [name for name in case.terms if name != "b"]
    columns = pg.Columns(
        {name: given for name, given in VARIABLES.items() if name not in ("y", "v")},
        intercept=True,
        terms=[*names, "b"],
    )
    kept = [name for name in case.names if name != "b"]
    X = by_hand(case.table)[kept]
    X = X.assign(Intercept=1.0) if case.intercept else X
    theirs = sm.Logit(case.table.b.astype(float), X).fit(disp=0, tol=1e-14, maxiter=200)
    terms = RegressionTerms("b", tuple(names), case.intercept, case.reference or {})
    model = design(AllColumns(columns), terms)
    rows = columns.encode(case.table) @ model.images[:-1].T
    p = theirs.predict(X).to_numpy()
    q = rows.shape[1]
    fit = GLMResults(
        target="b",
        terms=tuple(names),
        columns=columns,
        reference=case.reference or {},
        with_intercept=case.intercept,
        # Coefficients of the design's columns whose log odds are those of the maximum.
        solution=np.linalg.lstsq(rows, X.to_numpy() @ theirs.params.to_numpy())[0],
        sampling=np.linalg.inv((rows * (p * (1 - p))[:, None]).T @ rows),
        noise=1e-22 * np.eye(q),
        unidentified=np.zeros((q, q)),
        robust=False,
        n_rows=float(N),
        refusal=None,
        **NO_NOISE,
        parameters=PARAMETERS | {"scale": 1.0},
        family="binomial",
    )
    return fit, theirs, X


def scored(case):
    """The record of least squares whose scores led to the minimum, with the errors HC1."""
    columns = pg.Columns(
        VARIABLES | ({"k": (0, 4)} if case.weighted else {}),
        intercept=True,
        terms=[*case.terms, case.target],
        row_weights="k" if case.weighted else None,
    )
    terms = RegressionTerms(case.target, tuple(case.terms), references=case.reference or {})
    model = design(AllColumns(columns), terms)
    rows = columns.encode(case.table) @ model.images.T
    X, y = rows[:, :-1], rows[:, -1]
    solution = np.linalg.lstsq(X, y)[0]
    e = y - X @ solution
    n, q = X.shape
    inverse = np.linalg.inv(X.T @ X)
    return GLMResults(
        target=case.target,
        terms=case.terms,
        columns=columns,
        reference=case.reference or {},
        with_intercept=True,
        solution=solution,
        sampling=n / (n - q) * inverse @ (X.T @ (X * e[:, None] ** 2)) @ inverse,
        noise=1e-22 * np.eye(q),
        unidentified=np.zeros((q, q)),
        robust=True,
        n_rows=float(n),
        refusal=None,
        **NO_NOISE,
        parameters=PARAMETERS | {"scale": np.sqrt(e @ e / n)},
    )


__all__ = ["CASES", "INTERCEPT", "Case", "by_hand", "logistic", "made_table", "released", "scored"]
