"""Factors, dates, logarithms and terms: what is described, stored and bounded."""

import itertools

import numpy as np
import pandas as pd
import pytest
from support.helpers import assert_bits, refuses

import privgram as pg
from privgram.moment.accumulators import TotalLayout

BOUNDS = {
    "wage": pg.Log(2, 500),
    "age": (18, 90),
    "sex": ["female", "male"],
    "region": pg.Factor(["n", "e", "s", "w"], other=True),
    "hired": pg.Dates("1980-01-01", "2026-01-01", unit="years"),
    "union": bool,
    "code": pg.Factor([3, 1, 7]),
}


@pytest.fixture
def table(rng):
    n = 200
    return pd.DataFrame(
        {
            "wage": rng.lognormal(3, 2, n),
            "age": rng.integers(10, 100, n),
            "sex": rng.choice(["female", "male"], n),
            "region": rng.choice(["n", "e", "s", "w", "elsewhere"], n),
            "hired": pd.to_datetime("1979-01-01") + pd.to_timedelta(rng.integers(0, 18000, n), "D"),
            "union": rng.random(n) < 0.3,
            "code": rng.choice([3, 1, 7], n),
        }
    )


TERMS = [
    (["poly(age, 3)"], 3),
    (["age", "poly(age, 2)"], 2),
    (["sex"], 1),
    (["sex", "region"], 2),
    (["sex", "sex:region"], 1),  # sex follows from the product
    (["sex*region"], 1),
    (["age:sex"], 1),
    (["age", "age:sex"], 1),
    (["age", "sex", "age:sex"], 2),
    (["age*sex*region"], 2),
    (["poly(age, 2):sex", "hired:age", "log(wage)", "union"], 5),
]


@pytest.mark.parametrize(("terms", "squared"), TERMS)
@pytest.mark.parametrize("intercept", [False, True])
def test_bound_is_attained_and_never_exceeded(table, terms, squared, intercept):
    columns = pg.Columns(BOUNDS, terms=terms, intercept=intercept)
    indicators = {"sex", "region", "sex:region", "sex*region", "age*sex*region"}
    stored_ones = intercept and not indicators & set(terms)
    assert columns.bound**2 == pytest.approx(squared + stored_ones)
    assert columns.bound**2 >= squared + stored_ones
    worst = table.head(1).assign(age=1e9, wage=1e9, hired=pd.Timestamp("2200-01-01"), union=True)
    assert (columns.encode(worst) ** 2).sum() == squared + stored_ones
    assert ((columns.encode(table) ** 2).sum(axis=1) <= squared + stored_ones).all()


def test_weights_scale_terms(table):
    plain = pg.Columns(BOUNDS, terms=["age", "sex", "age:sex", "hired"])
    columns = pg.Columns(
        BOUNDS, terms=["age", "sex", "age:sex", "hired"], weights={"sex": 0.5, "hired": 2.0}
    )
    weights = [4.0**0 if "age" in name else 0.5 if "sex" in name else 2.0 for name in plain.names]
    np.testing.assert_array_equal(columns.encode(table), plain.encode(table) * weights)
    assert columns.bound**2 == pytest.approx(1 + 0.25 + 4)
    with pytest.raises(ValueError, match="'sex' would do nothing"):
        pg.Columns(BOUNDS, terms=["sex*region"], weights={"sex": 2.0})
    assert pg.Columns.from_dict(columns.to_dict()) == columns != plain


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@pytest.mark.parametrize(("terms", "_"), TERMS)
def test_files_keep_everything(tmp_path, suffix, terms, _):
    columns = pg.Columns(BOUNDS, terms=terms, missing="drop", weights={terms[-1]: 2.0})
    path = tmp_path / f"bounds{suffix}"
    columns.save(path)
    assert pg.Columns.load(path) == columns
    assert pg.Columns.load(path).names == columns.names


def test_formula():
    columns = pg.Columns.from_formula(
        "log(wage) ~ poly(age, 2) + sex*region + union",
        BOUNDS | {"wage": (2, 500), "unused": (0, 1)},
    )
    expected = ["log(wage)", "poly(age, 2)", "sex", "region", "sex:region", "union"]
    assert set(columns.terms) == set(expected)
    assert columns.intercept
    assert "unused" not in columns.selected
    assert columns.variables["wage"] == pg.Log(2, 500)
    assert not pg.Columns.from_formula("wage ~ age - 1", {"wage": (0, 1), "age": (0, 1)}).intercept


@pytest.mark.parametrize(
    ("terms", "error", "text"),
    [
        ([], ValueError, "names no columns"),
        ([3], TypeError, "a term is text"),
        (["age:"], ValueError, "empty part"),
        (["age:age"], ValueError, "by itself; write poly\\(age, 2\\)"),
        (["wide:tall"], ValueError, "combinations of levels"),
        (["wide", "wider"], ValueError, "at most 32,768"),
        (["sin(age)"], ValueError, "'sin' is not known"),
    ],
)
def test_terms_that_are_refused(terms, error, text):
    bounds = BOUNDS | {
        "wide": [f"a{i}" for i in range(300)],
        "tall": [f"b{i}" for i in range(300)],
        "wider": [f"c{i}" for i in range(32768)],
    }
    refuses(lambda: pg.Columns(bounds, terms=terms), error, text)
    with pytest.raises(ValueError, match="is not among the terms"):
        pg.Columns(BOUNDS, terms=["age"], weights={"sex": 2.0})


def test_missing_values_and_levels(table):
    columns = pg.Columns(BOUNDS)
    table = table.astype({"region": object, "age": float})
    for name, value in (("sex", "unknown"), ("sex", None), ("age", np.nan), ("code", 2)):
        broken = table.astype({name: object}) if name != "code" else table.copy()
        broken.loc[7, name] = value
        if name == "age":
            broken = broken.astype({"age": float})
        with pytest.raises(ValueError, match="row 7 holds a missing value, NaN or a level") as info:
            pg.second_moment(broken, columns=columns)
        assert "unknown" not in str(info.value)
        dropping = pg.Columns(BOUNDS, missing="drop")
        moment = pg.second_moment(broken, columns=dropping)
        assert (moment.n_rows, moment.n_dropped) == (len(table) - 1, 1)
        rest = pg.second_moment(broken.drop(index=7), columns=dropping)
        assert_bits(moment, rest)


def test_saved_moments_of_tables(table):
    columns = pg.Columns(BOUNDS, terms=["poly(age, 2)", "sex*region", "wage", "hired:sex"])
    moment = pg.second_moment(table, columns=columns)
    again = pg.SecondMoment.from_bytes(moment.to_bytes())
    assert_bits(again, moment)
    assert_bits(moment + moment.copy(), moment + again)
    assert_bits(moment, pg.second_moment(columns.encode(table), bound=columns.bound))
    layout = TotalLayout(columns, len(columns), columns.bound)
    assert layout.n_totals() == len(layout.entries()[0]) == len(layout.new().totals()[0])


def test_entries_that_levels_imply_are_not_kept():
    levels = [f"level {i}" for i in range(2000)]
    columns = pg.Columns({"x": (0, 1), "f": pg.Factor(levels)})
    moment = pg.second_moment({"x": [0.5, 1.0], "f": levels[:2]}, columns=columns)
    assert len(moment.to_bytes()) < 200_000  # and not 32 million


def test_order_of_description_and_not_of_writing():
    one = pg.Columns(BOUNDS, terms=["region:sex", "hired:age"])
    assert one.terms == ("sex:region", "age:hired")
    for a, b in itertools.permutations(["sex", "region"]):
        assert pg.Columns(BOUNDS, terms=[f"{a}:{b}"]).names == one.names[:10]


def test_terms_in_another_order_than_the_variables_are_scaled_by_their_own_bounds():
    """Each has bounds of its own: in the order of the table they would be another's."""
    rng = np.random.default_rng(0)
    table = {"y": rng.uniform(0, 50, 1000), "x": rng.uniform(0, 1, 1000)}
    bounds = {"y": (0, 50), "x": (0, 1)}
    turned = pg.Columns(bounds, terms=["x", "y"], intercept=True)
    straight = pg.Columns(bounds, intercept=True)
    assert turned.names == ("x", "y", "intercept")
    at = [straight.names.index(name) for name in turned.names]
    expected = pg.second_moment(table, columns=straight).matrix()[np.ix_(at, at)]
    moment = pg.second_moment(table, columns=turned).matrix()
    np.testing.assert_allclose(moment, expected, rtol=0, atol=1e-2)
