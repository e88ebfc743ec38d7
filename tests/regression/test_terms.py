"""Regressions by terms: against least squares on dummies made by hand, in own units."""

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.columns.terms import parse
from privgram.noise import TiedLaw
from privgram.regression.design import AllColumns, RegressionTerms, design
from privgram.regression.diagnostics import differences

pd = pytest.importorskip("pandas")

N = 4000
BOUNDS = {
    "wage": pg.Log(0.5, 100),
    "age": (18, 90),
    "height": (140, 210),
    "sex": ["f", "m"],
    "region": ["n", "e", "s"],
    "hired": pg.Dates("1980-01-01", "2026-01-01", unit="years"),
    "union": bool,
}
TERMS = ["wage", "poly(age, 3)", "sex*region", "age:sex", "hired", "union", "age*height"]
EXACT = {"epsilon": 1e8, "delta": 1e-6}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 91, N),
            "height": rng.normal(172, 8, N).clip(140, 210),
            "sex": rng.choice(["f", "m"], N, p=[0.4, 0.6]),
            "region": rng.choice(["n", "e", "s"], N, p=[0.2, 0.3, 0.5]),
            "hired": pd.to_datetime("1981-06-01") + pd.to_timedelta(rng.integers(0, 15000, N), "D"),
            "union": rng.random(N) < 0.3,
        }
    )
    log_wage = 1 + 0.05 * table.age - 5e-4 * table.age**2 + 0.2 * (table.sex == "m")
    log_wage += 0.1 * (table.region == "e") + 0.15 * table.union + rng.normal(0, 0.4, N)
    return table.assign(wage=np.exp(log_wage))


@pytest.fixture(scope="module")
def columns():
    return pg.Columns(BOUNDS, terms=TERMS, intercept=True)


@pytest.fixture(scope="module")
def release(table, columns):
    return pg.release(
        table, columns=columns, mechanism=pg.AnalyzeGauss(), rng=np.random.default_rng(1), **EXACT
    )


def by_hand(table):
    """Columns by the names that a summary has."""
    t = table
    years = (t.hired - pd.Timestamp("1980-01-01")) / pd.Timedelta(days=365.2425)
    return {
        "age": t.age,
        "age^2": t.age**2.0,
        "age^3": t.age**3.0,
        "sex[m]": t.sex == "m",
        "region[e]": t.region == "e",
        "region[s]": t.region == "s",
        "sex[m]:region[e]": (t.sex == "m") & (t.region == "e"),
        "sex[m]:region[s]": (t.sex == "m") & (t.region == "s"),
        "age:sex[m]": t.age * (t.sex == "m"),
        "hired": years,
        "union": t.union,
        "height": t.height,
        "age:height": t.age * t.height,
    }


def test_reference_is_a_choice(release, table):
    fit = release.regress("log(wage) ~ age*sex", reference={"sex": "m"})
    assert fit.design.references == {"sex": "m"}
    assert "differences from: sex m" in str(fit.summary())
    # Whatever is left out, predictions are the same.
    other = release.regress("log(wage) ~ age*sex")
    np.testing.assert_allclose(fit.predict(table), other.predict(table), rtol=1e-9)


def test_indicators_are_targets(release, table):
    fit = release.regress("union", ["region"])
    shares = table.union.groupby(table.region).mean()
    expected = [shares["e"] - shares["n"], shares["s"] - shares["n"], shares["n"]]
    np.testing.assert_allclose(fit.params, expected, atol=1e-5)
    fit = release.regress("sex[m]", ["region"])
    shares = (table.sex == "m").groupby(table.region).mean()
    np.testing.assert_allclose(fit.used[-1], shares["n"], atol=1e-5)


def test_predictions_are_of_raw_tables(release, table):
    fit = release.regress("log(wage) ~ poly(age, 2) + sex*region + hired")
    design = by_hand(table)
    expected = sum(
        fit.used[:-1][i] * np.asarray(design[n], float) for i, n in enumerate(fit.design.names)
    )
    np.testing.assert_allclose(fit.predict(table), expected + fit.used[-1], rtol=1e-9)
    beyond = table.head(2).assign(age=[200, 90], sex="f", region="n", hired=table.hired[0])
    first, second = fit.predict(beyond)
    assert first == second  # clamped as the release was
    assert np.isnan(fit.predict(table.head(1).assign(sex="x"))).all()
    refuses(lambda: fit.predict(table.drop(columns="hired")), ValueError, "no column 'hired'")


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("log(wage) ~ age:union", "does not follow from what was released"),
        ("log(wage) ~ poly(age, 4)", "does not follow"),
        ("log(wage) ~ sex + salary", "no variable 'salary'"),
        ("sex ~ age", "one of its indicators, such as 'sex\\[f\\]', or ask a study"),
        ("log(wage) ~ log(wage) + age", "is among the features"),
        ("wage ~ age", r"only the logarithm of wage .* write log\(wage\)"),
        ("log(wage) ~ wage + age", r"write log\(wage\)"),
        ("hired ~ poly(wage, 2)", r"write log\(wage\)"),
        ("log(wage) ~ age:height", "what they are made of"),
        ("salary ~ age", "no column 'salary'"),
        ("log(wage) + age ~ sex", "has 2 targets"),
    ],
)
def test_refusals(release, formula, text):
    refuses(lambda: release.regress(formula), ValueError, text)
    with pytest.raises(ValueError, match="not a level of 'sex'"):
        release.regress("log(wage) ~ sex", reference={"sex": "x"})
    with pytest.raises(ValueError, match="'age' is not a factor"):
        release.regress("log(wage) ~ sex", reference={"age": 3})


def test_two_factors_agree_on_the_number_of_rows(table):
    columns = pg.Columns(BOUNDS, terms=["wage", "sex", "region", "union"])
    release = pg.release(
        table, columns, 1.0, 1e-6, mechanism=pg.AnalyzeGauss(), rng=np.random.default_rng(2)
    )
    at = {name: [i for i, n in enumerate(release.names) if n.startswith(name)] for name in
          ("sex[", "region[")}  # fmt: skip
    by_sex, by_region = (release.matrix[at[name]].sum(axis=0) for name in at)
    np.testing.assert_allclose(by_sex, by_region, atol=1e-6)
    assert isinstance(release.noise, TiedLaw)


@pytest.mark.parametrize("size", [1e-9, 1e5, 1e9, 1e30])
def test_powers_and_products_of_large_numbers_are_what_small_ones_are(size):
    """Own functions differ by the third power of the size, and least squares took some for 0."""
    rng = np.random.default_rng(0)
    x, z = rng.uniform(0, 1, (2, N))
    y = x - x**3 + 0.5 * x * z + rng.normal(0, 0.1, N)

    def fit(size):
        return pg.release(
            {"x": size * x, "z": z, "y": y},
            pg.Columns({"x": (0, size), "z": (0, 1), "y": (-2, 3)}, intercept=True,
                       terms=["poly(x, 3)", "z", "x:z", "y"]),
            epsilon=1e5, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=np.random.default_rng(1),
        ).regress("y ~ poly(x, 3) + z + x:z")  # fmt: skip

    found, plain = fit(size), fit(1.0)
    powers = [1, 2, 3, 0, 1, 0]  # x, x**2, x**3, z, x:z and 1
    assert len(found.params) == len(powers)
    np.testing.assert_allclose(found.tvalues, plain.tvalues, rtol=1e-6)
    np.testing.assert_allclose(found.params * size ** np.array(powers), plain.params, rtol=1e-6)


def test_level_by_its_name_keeps_the_constant():
    """All levels of a factor are released instead of ones; one of them as a feature is a dummy."""
    rng = np.random.default_rng(4)
    n = 2000
    kind = rng.choice(["no", "yes"], n)
    age = rng.uniform(20, 36, n)
    work = 40 - 6 * (kind == "yes") - 0.5 * age + rng.normal(size=n)
    columns = pg.Columns({"kind": ["no", "yes"], "age": (20, 36), "work": (0, 52)}, intercept=True)
    assert "intercept" not in columns.names
    people = {"kind": kind, "age": age, "work": work}
    release = pg.release(people, columns, 1e9, 1e-6, mechanism=pg.AnalyzeGauss(), rng=rng)
    X = np.column_stack([kind == "yes", age, np.ones(n)]).astype(float)
    expected = np.linalg.lstsq(X, work)[0]
    by_name = release.regress("work", ["kind[yes]", "age"])
    np.testing.assert_allclose(by_name.inference.estimate, expected, rtol=1e-4)
    np.testing.assert_allclose(
        release.regress("work", ["kind", "age"]).inference.estimate, expected, rtol=1e-4
    )
    # All levels hold the constant; without one there is none.
    whole = release.regress("work", ["kind[no]", "kind[yes]", "age"])
    assert not whole.design.intercept
    np.testing.assert_allclose(whole.rsquared, by_name.rsquared, rtol=1e-5)
    assert not release.regress("work", ["kind[yes]", "age"], intercept=False).design.intercept


@pytest.mark.parametrize(
    ("formula", "notes"),
    [
        ("height ~ age + sex", ["Effects of levels are differences from: sex f."]),
        ("height ~ sex - 1", []),
        ("height ~ sex*region", ["Effects of levels are differences from: sex f, region n."]),
        ("height ~ sex:region - 1", []),
        ("height ~ sex:region", ["Effects of levels are differences from: sex f, region n."]),
        ("height ~ sex + region - 1", ["Effects in region are differences from: region n."]),
        ("height ~ age*sex - 1", ["Effects in age:sex are differences from: sex f."]),
        ("height ~ age", []),
    ],
)
def test_levels_are_said_to_be_differences_only_where_they_are(formula, notes):
    parsed = parse(formula)
    columns = pg.Columns(BOUNDS, intercept=True, terms=[*TERMS, "height"])
    terms_design = design(AllColumns(columns), RegressionTerms.of(parsed, parsed.features))
    assert differences(terms_design) == notes
