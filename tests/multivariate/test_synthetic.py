"""Rows made of a release: its bounds, levels and moments."""

import builtins

import numpy as np
import pytest
from support.helpers import make_release, refuses

import privgram as pg
from privgram.multivariate import Variables, synthetic
from privgram.noise import EntryLaw, GaussianLaw, ImageLaw
from privgram.papers.sheffet import WishartLaw
from privgram.regression import RefusedError

COLUMNS = pg.Columns(
    {
        "wage": pg.Log(1, 500),
        "age": (18, 70),
        "sex": ["f", "m"],
        "region": pg.Factor([1, 2, 3], other=True),
        "union": bool,
        "hired": pg.Dates("2000-01-01", "2020-01-01", "years"),
    },
    intercept=True,
)


def people(n=4000):
    rng = np.random.default_rng(1)
    age = rng.uniform(18, 70, n)
    region = rng.choice([1, 2, 3, 7], n, p=[0.5, 0.3, 0.15, 0.05])
    union = rng.random(n) < np.where(region == 1, 0.6, 0.1)
    days = rng.integers(0, 7305, n)
    wage = np.exp(1 + 0.02 * age + 0.4 * union + 0.2 * (region == 2) + 0.4 * rng.normal(size=n))
    return {
        "wage": wage,
        "age": age,
        "sex": rng.choice(["f", "m"], n),
        "region": region,
        "union": union,
        "hired": np.datetime64("2000-01-01") + days,
    }


EXACT = GaussianLaw(1e-9, 1e-9)


def released(law=EXACT, n=4000):
    rows = COLUMNS.encode(people(n))
    matrix = law.draw(rows.T @ rows, np.random.default_rng(2))
    return make_release(matrix, COLUMNS.names, law, n, COLUMNS, COLUMNS.bound)


def moment(rows):
    stored = COLUMNS.encode(rows)
    return stored.T @ stored / len(stored)


def test_rows_are_those_of_the_description():
    pd = pytest.importorskip("pandas")
    rows = released().synthesize(500, rng=3)
    assert list(rows.columns) == list(COLUMNS.variables)
    assert rows["wage"].between(1, 500).all()
    assert rows["age"].between(18, 70).all()
    assert set(rows["sex"]) == {"f", "m"}
    assert set(rows["region"]) == {1, 2, 3, 4}
    assert rows["union"].dtype == bool
    assert rows["hired"].between(pd.Timestamp("2000-01-01"), pd.Timestamp("2020-01-01")).all()
    assert not np.isnan(COLUMNS.encode(rows)).any()
    pd.testing.assert_frame_equal(rows, released().synthesize(500, rng=3))


def test_means_and_products_are_kept():
    # Counts of levels are whole, so parts are off by a few rows of 20,000.
    release = released()
    np.testing.assert_allclose(
        moment(release.synthesize(20_000, rng=4)), release.matrix / 4000, atol=5e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "epsilon", "most"),
    [
        (pg.AnalyzeGauss(), 1e6, 0.1),
        # Much noise leaves counts that no table can have, and the nearest are kept: of seven seeds
        # that is 0.1 to 0.36.
        (pg.AnalyzeGauss(), 1.0, 0.4),
        (pg.AdditiveWishart(), 2.0, 1.0),
        # So does that of later rounds, where sampling weighs more.
        (pg.AdaptiveGaussian(), 2.0, 0.2),
    ],
    ids=str,
)
def test_least_squares_on_rows_is_the_release_s(mechanism, epsilon, most):
    rng = np.random.default_rng(3)
    release = pg.release(people(20_000), COLUMNS, epsilon, 1e-6, mechanism=mechanism, rng=rng)
    again = moment(release.synthesize(100_000, rng=5)) * 1e5
    rows = make_release(again, COLUMNS.names, None, 100_000, COLUMNS, COLUMNS.bound)
    for target in ("log(wage)", "age"):
        fit, other = release.regress(target), rows.regress(target)
        off = (other.params - fit.params) / fit.bse
        assert np.abs(off).max() < most


WEIGHTED = pg.Columns(
    {"age": (18, 70), "sex": ["f", "m"], "region": pg.Factor([1, 2, 3], other=True), "union": bool},
    intercept=True,
    weights={"union": 3.0, "sex": 0.5},
)


def laws(d):
    rng = np.random.default_rng(4)
    variances = rng.uniform(1, 100, (d, d))
    entries = EntryLaw(variances + variances.T)
    return {
        "isotropic": GaussianLaw(10.0, 10 * np.sqrt(2)),
        "entries": entries,
        "image": ImageLaw(entries, rng.normal(size=(d, d))),
        "wishart": WishartLaw(1.0, 100.0),
    }


@pytest.mark.parametrize("name", laws(9))
def test_likeliest_moment_that_a_table_can_have_is_taken(name):
    """By regressing on the equations what one draw of normals was, in another frame."""
    rows = WEIGHTED.encode(people())
    exact, d = rows.T @ rows, len(WEIGHTED)
    equations = list(synthetic._equations(WEIGHTED))
    forms = np.zeros((len(equations), d, d))
    for form, equation in zip(forms, equations, strict=True):
        for i, j, c in equation:
            form[i, j] += c / 2
            form[j, i] += c / 2
    np.testing.assert_allclose(np.tensordot(forms, exact), 0, atol=1e-8)  # as they say

    law = laws(d)[name]
    matrix = law.draw(exact, np.random.default_rng(5))
    release = make_release(matrix, WEIGHTED.names, law, 4000, WEIGHTED, WEIGHTED.bound)
    moment = synthetic._consistent(release)
    frame = law.frame if name == "image" else np.eye(d)
    base = law.base if name == "image" else law
    entries = base.independent(d)
    std = np.sqrt(1 + np.eye(d) if entries is None else entries)
    # What each independent entry does to the equations.
    upper = [(i, j) for i in range(d) for j in range(i, d)]
    each = []
    for i, j in upper:
        unit = np.zeros((d, d))
        unit[i, j] = unit[j, i] = std[i, j]
        each.append(frame @ unit @ frame.T)
    each = np.array(each)
    whole = matrix - law.shift_matrix(d)
    effects = np.tensordot(forms, each, axes=([1, 2], [1, 2]))
    least = np.linalg.lstsq(effects, np.tensordot(forms, whole), rcond=1e-10)[0]
    np.testing.assert_allclose(moment, whole - np.tensordot(least, each, axes=1), atol=1e-5 * 4000)
    assert np.abs(moment - whole).max() > 1  # there was something to take off


def test_level_that_noise_has_left_with_hardly_a_row_takes_no_variance():
    columns = pg.Columns({"a": (-1, 1), "b": (-1, 1), "level": ["x", "y", "z"]})
    rng = np.random.default_rng(11)
    level = rng.choice(["x", "y", "z"], 5000, p=[0.6, 0.399, 0.001])
    a = rng.uniform(-0.3, 0.3, 5000)
    stored = columns.encode({"a": a, "b": a + rng.uniform(-0.1, 0.1, 5000), "level": level})
    noisy = stored.T @ stored
    z, y = columns.names.index("level[z]"), columns.names.index("level[y]")
    noisy[:2, z] = noisy[z, :2] = [40.0, -40.0]  # of some five rows
    noisy[:2, y] = noisy[y, :2] = noisy[:2, y] - [40.0, -40.0]
    release = make_release(noisy, columns.names, None, 5000, columns, columns.bound)
    again = columns.encode(release.synthesize(50_000, rng=1))
    moments = again[:, :2].T @ again[:, :2] / 50_000
    np.testing.assert_allclose(moments, noisy[:2, :2] / 5000, atol=0.01 * moments[0, 0])


def test_values_at_their_bounds_are_within_them():
    # A mean at a tenth of the range, and a spread as large: beta, then moved and clamped.
    columns = pg.Columns({"a": (0, 10), "b": (0, 10)}, intercept=True)
    rng = np.random.default_rng(6)
    a = np.minimum(rng.exponential(1.0, 5000), 10)
    rows = columns.encode({"a": a, "b": 10 - 0.5 * a})
    release = make_release(rows.T @ rows, columns.names, None, 5000, columns, columns.bound)
    synthetic = release.synthesize(5000, rng=7)
    for name in "ab":
        assert np.min(synthetic[name]) >= 0
        assert np.max(synthetic[name]) <= 10
    stored = columns.encode(synthetic)
    np.testing.assert_allclose(stored.T @ stored, rows.T @ rows, atol=0.01 * 5000)


@pytest.mark.slow
def test_pairs_of_more_combinations_than_are_written_out():
    names = [f"f{i}" for i in range(10)]
    columns = pg.Columns({name: ["a", "b", "c"] for name in names})
    assert 3 ** len(names) > synthetic.MOST_CELLS
    rng = np.random.default_rng(8)
    codes = [rng.integers(0, 3, 2000)]
    for _ in names[1:]:  # a chain
        codes.append(np.where(rng.random(2000) < 0.6, codes[-1], rng.integers(0, 3, 2000)))
    table = {name: np.array(["a", "b", "c"])[code] for name, code in zip(names, codes, strict=True)}
    rows = columns.encode(table)
    release = make_release(rows.T @ rows, columns.names, None, 2000, columns, columns.bound)
    again = columns.encode(release.synthesize(20_000, rng=8))
    np.testing.assert_allclose(again.T @ again / 2e4, rows.T @ rows / 2000, atol=0.01)


def test_without_columns_rows_are_normal():
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(1000, 2)) @ [[1.0, 0.5], [0.0, 2.0]]
    release = make_release(rows.T @ rows, "ab", n_rows=1000)
    synthetic = release.synthesize(50, rng=10)
    synthetic = np.column_stack([synthetic["a"], synthetic["b"]])
    np.testing.assert_allclose(synthetic.T @ synthetic / 50, rows.T @ rows / 1000)
    refuses(lambda: make_release(np.eye(2), "ab").synthesize(5), RefusedError, "number of rows")


def test_arrays_where_pandas_is_not(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name == "pandas":
            raise ImportError
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    rows = released().synthesize(100, rng=11)
    assert isinstance(rows, dict)
    assert set(rows["region"]) <= {1, 2, 3, 4}
    assert COLUMNS.encode(rows).shape == (100, len(COLUMNS))


def test_variable_that_a_marginal_has_lost_is_not_made():
    names = [name for name in COLUMNS.names if not name.startswith("region")]
    rows = released().marginal([*names, "region[1]"]).synthesize(10, rng=1)
    assert list(rows) == [name for name in COLUMNS.variables if name != "region"]


def test_rows_are_refused_without_means():
    columns = pg.Columns({"a": (0, 1)})
    release = make_release([[5.0]], ["a"], n_rows=10, columns=columns)
    refuses(lambda: release.synthesize(10), RefusedError, "intercept=True")
    refuses(lambda: released().synthesize(0), ValueError, "n must")


def test_indicators_follow_from_products():
    columns = pg.Columns({"a": ["x", "y"], "b": ["u", "v"], "c": (0, 1)}, terms=["a:b", "c:a"])
    rng = np.random.default_rng(12)
    table = {"a": rng.choice(["x", "y"], 50), "b": rng.choice(["u", "v"], 50), "c": rng.random(50)}
    rows = columns.encode(table)
    release = make_release(rows.T @ rows, columns.names, None, 50, columns, columns.bound)
    covariance = Variables(release, ["a[y]", "c"]).covariance
    expected = np.column_stack([table["a"] == "y", table["c"]])
    np.testing.assert_allclose(covariance.mean, expected.mean(axis=0))
    np.testing.assert_allclose(covariance.matrix, np.cov(expected.T))
    with pytest.warns(UserWarning, match=r"a:b, c:a"):
        assert list(release.synthesize(10, rng=1)) == ["a", "b", "c"]


def test_terms_that_rows_do_not_keep_are_named():
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    source = {"age": rng.uniform(20, 60, 4000), "pay": rng.uniform(5, 50, 4000)}
    source["sex"] = rng.choice(["f", "m"], 4000)
    bounds = {"age": (18, 70), "pay": pg.Log(1, 100), "sex": ["f", "m"]}
    terms = ["poly(age, 2)", "log(pay)", "sex", "age:sex"]
    columns = pg.Columns(bounds, terms=terms, intercept=True)
    release = pg.release(source, epsilon=4.0, delta=1e-6, columns=columns)
    with pytest.warns(UserWarning, match=r"poly\(age, 2\), age:sex: take regressions"):
        rows = release.synthesize(100, 0)
    assert rows.attrs["not_kept"] == ["poly(age, 2)", "age:sex"]
    plain = pg.release(source, epsilon=4.0, delta=1e-6, columns=pg.Columns(bounds, intercept=True))
    assert "not_kept" not in plain.synthesize(100, 0).attrs
