"""A table as people have it, and its dummy table written by hand: without privgram's encoder."""

import datetime

import numpy as np
from support.helpers import assert_bits

import privgram as pg

LEVELS = {"sex": ["f", "m"], "region": ["n", "e", "s", "w"], "grade": [3, 1, 2]}

DESCRIBED = {
    "wage": pg.Log(2, 500),
    "age": (18, 90),
    "hired": pg.Dates("1980-01-01", "2026-01-01", unit="years"),
    "union": bool,
    "sex": LEVELS["sex"],
    "region": pg.Factor(LEVELS["region"], other=True),
    "grade": pg.Factor(LEVELS["grade"]),
}
TERMS = ["poly(age, 3)", "wage", "age:wage", "union", "hired", "age:sex", "sex:region", "grade"]
WEIGHTS = {"hired": 2.0, "grade": 0.5, "age:sex": 1.25, "age:wage": 0.75}

COLUMNS = pg.Columns(DESCRIBED, missing="drop", terms=TERMS, weights=WEIGHTS)


def rows(n=600, missing=True):
    """Columns as NumPy has them: values out of bounds, unknown levels, and perhaps missing ones.

    Text is objects with None, the rest NaN and NaT: `grade` is a float and `union` an object
    where any is missing.
    """
    rng = np.random.default_rng(42)
    raw = {
        "noise": rng.normal(size=n),  # selected by nobody
        "wage": rng.lognormal(3, 1.5, n),
        "age": rng.integers(15, 95, n),
        "hired": np.datetime64("1979-06-01", "us") + rng.integers(0, 1500 * 10**12, n),
        "union": rng.random(n) < 0.3,
        "sex": rng.choice(["f", "m"], n).astype(object),
        "region": rng.choice(["n", "e", "s", "w", "q", ""], n).astype(object),
        "grade": rng.integers(1, 4, n),
    }
    if missing:
        raw["grade"] = raw["grade"].astype(float)
        raw["union"] = raw["union"].astype(object)
        nothing = {"wage": np.nan, "hired": np.datetime64("NaT", "D"), "grade": np.nan}
        for i, name in enumerate(DESCRIBED):
            if name != "age":
                raw[name][i :: 50 + i] = nothing.get(name)
        raw["sex"][40::90] = "x"
        raw["grade"][45::90] = 7
    return raw


def scaled(values, lower, upper, weight=1.0):
    center, half = upper / 2 + lower / 2, upper / 2 - lower / 2
    return np.clip((values - center) * ((1.0 / half) * weight), -weight, weight)


def dummies(raw):
    """The dummy table in the order of the columns; and which rows have nothing missing."""
    # Where objects are missing something stands in: the row is left out in the end.
    union = np.array([bool(value) for value in raw["union"]], float)
    hired = raw["hired"].astype("M8[us]").astype(np.int64) / 86_400e6
    first, last = (
        (datetime.date(year, 1, 1) - datetime.date(1970, 1, 1)).days for year in (1980, 2026)
    )
    age = scaled(raw["age"].astype(float), 18.0, 90.0)
    log_wage = np.log(np.clip(raw["wage"], 2.0, 500.0))
    wage = scaled(log_wage, np.log(2.0), np.log(500.0))
    sex = {s: (raw["sex"] == s).astype(float) for s in LEVELS["sex"]}
    region = {r: (raw["region"] == r).astype(float) for r in LEVELS["region"]}
    region["other"] = 1.0 - sum(region.values())
    p2 = (3 * age * age - 1) / 2
    found = {
        "P2(age)": p2,
        "P3(age)": (5 * age * p2 - 2 * age) / 3,
        "log(wage)": wage,
        "log(wage):age": 0.75 * (age * wage),
        "union": scaled(union, 0.0, 1.0),
        "hired": scaled(hired, float(first), float(last), 2.0),
    }
    for s in sex:
        found[f"age:sex[{s}]"] = scaled(raw["age"].astype(float), 18.0, 90.0, 1.25) * sex[s]
        for r in region:
            found[f"sex[{s}]:region[{r}]"] = sex[s] * region[r]
    for g in LEVELS["grade"]:
        found[f"grade[{g}]"] = 0.5 * (raw["grade"] == g)
    whole = ~np.isnan(raw["wage"]) & ~np.isnat(raw["hired"])
    whole &= np.array([value is not None for value in raw["union"]])
    whole &= np.isin(raw["grade"], LEVELS["grade"]) & (sex["f"] + sex["m"] == 1)
    whole &= np.array([value is not None for value in raw["region"]])
    assert sorted(found) == sorted(COLUMNS.names)  # age itself is the sum of age:sex
    return np.column_stack([found[name] for name in COLUMNS.names]), whole


def assert_same(moment, raw):
    """The moment is that of the dummy table, bit for bit."""
    table, whole = dummies(raw)
    by_hand = pg.second_moment(table[whole], bound=COLUMNS.bound)
    assert_bits(moment, by_hand)
    assert (moment.n_rows, moment.n_dropped) == (whole.sum(), (~whole).sum())
