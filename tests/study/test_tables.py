"""`Study.summarize`: what is counted, what it costs, what is refused."""

import math

import numpy as np
import pandas as pd
import pytest
from support.helpers import refuses
from support.sums import integers

import privgram as pg
from privgram.ledger import BudgetExceeded
from privgram.multivariate.distribution import BRANCHES
from privgram.secret.gate import Gate, Noisy
from privgram.study.tables import MANY_GROUPS

DELTA = 1e-6
COLUMNS = {
    "age": (18, 90), "wage": pg.Log(2, 500), "hired": pg.Dates("2000-01-01", "2020-01-01"),
    "union": bool, "region": pg.Factor(["n", "e"], other=True), "year": pg.Factor([2019, 2020]),
}  # fmt: skip


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 3000
    return pd.DataFrame(
        {
            "age": rng.integers(10, 95, n),
            "wage": np.exp(rng.normal(3, 1, n)),
            "hired": np.datetime64("1999-01-01") + rng.integers(0, 8000, n),
            "union": rng.random(n) < 0.3,
            "region": rng.choice(["n", "e", "abroad"], n),
            "year": rng.choice([2019, 2020], n),
        }
    )


def study_of(table, columns=None, **options):
    options = {"epsilon": 3.0, "delta": DELTA, "name": "people", **options}
    return pg.Study(table, columns or COLUMNS, **options)


@pytest.fixture
def without_noise(monkeypatch):
    """Let exact sums leave, to see what is counted."""

    def release(gate, total, share):
        return Noisy(np.array(integers(total)) * total.kind.unit_of(None), 1e-6, 1.0)

    monkeypatch.setattr(Gate, "release", release)


def clamped(table, column):
    """Values in the units of results, as the description has them."""
    x, described = table[column], study_of(table).columns.variables[column]
    if column == "hired":
        x = (x - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")
        return x.clip(0, described.interval[1]).to_numpy(float)
    ends = (described.lower, described.upper)
    return x.astype(float).clip(*ends).to_numpy()


@pytest.mark.parametrize("by", [(), "region", ("year", "region")], ids=str)
@pytest.mark.parametrize("column", ["age", "wage", "hired", "union"])
def test_every_row_is_at_the_nearest_value_of_its_group(column, by, table, without_noise):
    found = study_of(table).summarize(column, by=by, epsilon=1.0)
    x, values = clamped(table, column), found.grid.values[: found.grid.size]
    scale = np.log if column == "wage" else np.asarray
    at = np.abs(np.subtract.outer(scale(x), scale(values))).argmin(1)
    names = [by] if isinstance(by, str) else list(by)
    keys = [
        table[name].where(table[name].isin(COLUMNS[name].levels), "other").astype(str)
        for name in names
    ]
    group = pd.Series("", index=table.index) if not keys else keys[0].str.cat(keys[1:], " ")
    labels = found.labels if names else [""]
    assert len(labels) == found.counts.shape[0] == {0: 1, 1: 3, 2: 6}[len(names)]
    for g, label in enumerate(labels):
        counted = np.bincount(at[(group == label).to_numpy()], minlength=found.counts.shape[1])
        np.testing.assert_allclose(found.counts[g], counted, atol=1e-6)


@pytest.mark.parametrize("form", ["frame", "dict", "csv", "parquet", "iterator", "array"])
def test_all_sources_are_counted_alike(form, table, without_noise, tmp_path):
    kept = table[["age", "year"]]
    columns = {name: COLUMNS[name] for name in kept}
    path = tmp_path / f"t.{form}"
    if form in ("csv", "parquet"):
        kept.to_csv(path, index=False) if form == "csv" else kept.to_parquet(path)
    source = {
        "frame": kept, "dict": dict(kept), "iterator": iter([kept[:1000], kept[1000:]]),
        "array": kept.to_numpy(),
    }.get(form, path)  # fmt: skip
    found = study_of(source, columns).summarize("age", by="year", epsilon=1.0)
    again = study_of(kept, columns).summarize("age", by="year", epsilon=1.0)
    np.testing.assert_array_equal(found.counts, again.counts)


def test_engine_counts_as_a_pass_over_the_rows(table, without_noise):
    """Its values on a step, missing ones and levels that are not listed too."""
    duckdb = pytest.importorskip("duckdb")
    rows = table[["age", "union", "hired", "region", "year"]].astype({"age": float})
    rows.loc[3, "age"], rows.loc[4, "year"], rows.loc[5, "age"] = np.nan, 1999, np.inf
    columns = {name: x for name, x in COLUMNS.items() if name != "wage"}
    engine = duckdb.connect()
    engine.register("people", rows)
    tables = pg.Query(engine, "select * from people;"), rows
    query, passed = (study_of(table, columns, missing="drop", epsilon=9) for table in tables)
    for column, by in (("age", ()), ("age", ["year", "region"]), ("union", "year"), ("hired", ())):
        found = query.summarize(column, by=by, epsilon=0.5)
        again = passed.summarize(column, by=by, epsilon=0.5)
        np.testing.assert_allclose(found.counts, again.counts, atol=1e-6)
    for column, by, bins in (
        ("age", ["year", "region"], 7),
        ("age", (), [20, 30.5, 65]),
        ("union", "year", 2),
        ("hired", (), 500),
    ):
        found, again = (x.histogram(column, by=by, bins=bins, epsilon=0.1) for x in (query, passed))
        np.testing.assert_array_equal(found.counts, again.counts)
        np.testing.assert_array_equal(found.variances, again.variances)
    error = study_of(query.table, columns)
    refuses(lambda: error.summarize("age", epsilon=0.5), ValueError, "missing='drop'")
    with pytest.raises(ValueError, match="no column named 'age'"):
        study_of(pg.Query(engine, "select 1 as z"), columns).summarize("age", epsilon=0.5)
    with pytest.raises(ValueError, match="logarithm"):
        study_of(query.table, {"wage": pg.Log(2, 500)}).summarize("wage", epsilon=0.5)
    assert not error.entries


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_rows_of_a_unit_count_in_full_up_to_the_most(missing, table, without_noise):
    rng = np.random.default_rng(1)
    rows = table[["age", "year"]].astype({"age": float})
    rows["who"] = rng.integers(0, 700, len(rows)).astype(str)  # of four rows or so
    if missing == "drop":
        rows.loc[rng.integers(0, len(rows), 50), "age"] = np.nan
    columns = {"age": (18, 90), "year": COLUMNS["year"]}
    study = study_of(rows, columns, unit=pg.Unit("who", max_rows=4), missing=missing)
    found = study.summarize("age", by="year", epsilon=0.5)
    share = 4 / rows.groupby("who").who.transform("size").clip(lower=4)
    at = rows.age.clip(18, 90).round() - 18
    for g, year in enumerate(COLUMNS["year"].levels):
        kept = (rows.year == year) & rows.age.notna()
        counted = np.bincount(at[kept].astype(int), share[kept], 73)
        steps = (found.grid.size - 1) // 72
        np.testing.assert_allclose(found.counts[g, ::steps][:73], counted, rtol=1e-4, atol=1e-6)
    assert (found.unit, found.rows_of_unit) == ("who", 4)
    assert "all rows of one who" in str(found)
    single = study_of(rows, columns, missing=missing).summarize("age", by="year", epsilon=0.5)
    for one, other in ((found.mean(), single.mean()), (found.sd(), single.sd())):
        assert (one.upper - one.lower > 1.7 * (other.upper - other.lower)).all()
    for unit in (pg.Unit("who"), pg.Unit("who", max_rows=4, fixed_effects=True)):
        with pytest.raises(ValueError, match="max_rows="):
            study_of(rows, columns, unit=unit).summarize("age", epsilon=0.5)


def test_odd_rows_count_nothing_or_at_a_bound_and_change_no_other(without_noise):
    x = np.array([1.0, 2.0, 3.0])
    odd = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1.5]
    labels = np.array(["a", "b", "a"], object)
    columns = {"x": (0.0, 4.0), "g": ["a", "b"]}
    plain = study_of({"x": x, "g": labels}, columns, missing="drop")
    before = plain.summarize("x", by="g", epsilon=1.0).counts
    for value in odd:
        for label in ("a", None, "zzz", 7, b"a"):
            rows = {"x": np.append(x, value), "g": np.append(labels, np.array([label], object))}
            found = study_of(rows, columns, missing="drop").summarize("x", by="g", epsilon=1.0)
            added = found.counts - before
            counted = float(label == "a" and not math.isnan(value))
            assert added.sum() == pytest.approx(counted), (value, label)
            assert np.abs(added).max(initial=0) <= 1 + 1e-6
            if counted and not math.isfinite(value):
                where = np.unravel_index(added.argmax(), added.shape)
                assert where == (0, 0 if value < 0 else found.grid.size - 1)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("missing", ["error", "drop"])
def test_noise_of_a_tree_is_for_its_share_and_a_public_number_takes_none(adjacency, missing, table):
    found = study_of(table, adjacency=adjacency, missing=missing).summarize("age", epsilon=1.0)
    public = (adjacency, missing) == ("replace", "error")
    assert (found.variances[0] == 0) == public
    assert (found.counts.sum() == pytest.approx(len(table), abs=1e-6)) == public
    mu = found.privacy.sensitivity_ratio
    shares = np.append([] if public else [1.0], 0.9 ** np.arange(12))
    share = shares[-1] / shares.sum()
    moves = 2.0 if adjacency == "replace" else 1.0
    assert found.variances[-1] == pytest.approx(moves / mu**2 / share, rel=1e-6)


def test_answer_is_one_entry_and_over_the_budget_nothing_is_spent(table, tmp_path):
    study = study_of(table, ledger=tmp_path / "people.ledger")
    found = study.summarize("wage", by=["region", "year"], q=[0.1, 0.9], epsilon=1.0)
    assert [(x.label, x.epsilon) for x in study.entries] == [("wage by region, year", 1.0)]
    assert found.frame().index.names == ["region", "year"]
    assert [x for x in found.frame() if "_" not in x] == ["count", "mean", "sd", "q10", "q90"]
    refuses(lambda: study.summarize("age", epsilon=2.9), BudgetExceeded, "is left")
    assert len(study.entries) == 1
    ages = study.summarize("age", statistics=["count", "quantile"], epsilon=0.5, label="ages")
    assert [x.label for x in study.entries] == ["wage by region, year", "ages"]
    found = ages.histogram(5)
    assert ages.histogram(9).counts.shape == (1, 9)
    assert len(found.frame()) == 5


@pytest.mark.parametrize("bins", [7, [18, 30, 65, 90]], ids=str)
def test_histogram_has_the_rows_of_each_bin(table, bins, without_noise):
    """As NumPy's: rows at an edge are of the bin on its right."""
    ages, region = table["age"].clip(18, 90), table["region"].replace("abroad", "other")
    found = study_of(table).histogram("age", by="region", bins=bins, epsilon=1.0)
    for (level,), row in zip(found.groups, found.counts, strict=True):
        assert np.array_equal(row, np.histogram(ages[region == level], found.edges)[0])
    values = {"x": [0.0, 1, 1, 2, 3, 4, 4, 4]}
    [row] = study_of(values, {"x": (0, 4)}).histogram("x", bins=4, epsilon=1.0).counts
    assert row.tolist() == [1, 2, 1, 4]
    paid = study_of({"x": [3e5]}, {"x": (0, 4e5)}).histogram("x", bins=4, epsilon=1.0)
    assert "300000  400000" in str(paid)


def test_each_bin_has_the_noise_of_one_count(table, tmp_path):
    study, out = study_of(table), tmp_path / "ages.json"
    found = study.histogram("age", by="region", bins=7, epsilon=1.0, out=out)
    mu = found.privacy.sensitivity_ratio
    assert found.variances == pytest.approx(np.full(7, 2 / mu**2), rel=1e-6)
    steps = study.summarize("age", by="region", statistics="quantile", epsilon=1.0)
    assert found.variances.max() < steps.histogram(7).variances.min()
    again = pg.load(out)
    assert str(again) == str(found)
    assert again.plot().get_xlabel() == "age"
    with pytest.raises(ValueError, match="within the column's bounds"):
        study.histogram("age", bins=[0, 200], epsilon=0.1)
    assert study.remaining() > 0.5


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.summarize("region", epsilon=1), ValueError, "'region' is none"),
        (lambda s: s.summarize("age", by="wage", epsilon=1), ValueError, "takes factors"),
        (lambda s: s.summarize("age", by=pg.Groups("year", [2019]), epsilon=1), TypeError, "names"),
        (lambda s: s.summarize("pay", epsilon=1), ValueError, "'pay' is none"),
        (lambda s: s.summarize("age", by=["year"] * 2, epsilon=1), ValueError, "each factor"),
        (lambda s: s.summarize("age", statistics=["mode"], epsilon=1), ValueError, "statistics"),
        (lambda s: s.summarize("age", q=0, epsilon=1), ValueError, "q must"),
        (lambda s: s.summarize("age"), TypeError, "epsilon"),
        (lambda s: s.summarize("age", epsilon=1, out="x.csv"), ValueError, "must end"),
        (lambda s: study_of(s.table, delta=0.0, composition="basic").summarize(
            "age", epsilon=1), ValueError, "positive delta"),
        (lambda s: study_of(s.table, unit="year", columns={"age": (18, 90)}).summarize(
            "age", epsilon=1), ValueError, "max_rows="),
        (lambda s: study_of(s.table, {"age": (18, 90), "w": (0, 1)}, weights="w").summarize(
            "age", epsilon=1), ValueError, "weights"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_before_anything_is_spent(call, error, message, table):
    study = study_of(table.assign(w=1.0))
    refuses(lambda: call(study), error, message)
    assert not study.entries


@pytest.mark.parametrize("row", [{"age": np.nan}, {"year": 2031}], ids=str)
def test_missing_value_is_an_error_before_the_spend_or_left_out(row, table):
    rows = table[["age", "year"]].astype({"age": float})
    rows.loc[7, list(row)] = list(row.values())
    columns = {name: COLUMNS[name] for name in rows}
    study = study_of(rows, columns)
    refuses(lambda: study.summarize("age", by="year", epsilon=1.0), ValueError, "missing='drop'")
    assert not study.entries
    study_of(rows, columns, missing="drop").summarize("age", by="year", epsilon=1.0)


def test_hidden_groups_are_nan_with_a_sentence(table):
    columns = COLUMNS | {"region": ["n", "e", "nowhere"]}
    study = study_of(table, columns, missing="drop")
    found = study.summarize("age", by="region", epsilon=1.0)
    assert found.hidden == (("nowhere",),)
    heads = found.heads()
    assert all(np.isnan(heads[name][2]) for name in ("count", "mean", "sd", "q50"))
    assert "hides how many rows have: nowhere" in str(found)
    assert np.isfinite(heads["q50"][:2]).all()


def test_only_counts_take_the_whole_budget(table):
    found = study_of(table).summarize("age", by="year", statistics="count", epsilon=1.0)
    assert found.counts.shape == (2, 1)
    mu = found.privacy.sensitivity_ratio
    assert found.variances[0] == pytest.approx(2 / mu**2, rel=1e-6)
    moments = study_of(table).summarize("age", statistics=["mean"], epsilon=1.0)
    assert len(moments.variances) == 13
    assert moments.variances[1] < study_of(table).summarize("age", epsilon=1.0).variances[1]


AGES = pg.Columns(
    {"age": pg.Factor(list(range(18, 91))), "year": COLUMNS["year"]}, terms=["year*age"]
)


@pytest.mark.parametrize("unit", [None, pg.Unit("who", max_rows=6)], ids=str)
@pytest.mark.parametrize("by", ["year", ()], ids=str)
def test_release_of_a_factor_of_whole_numbers_is_summarized(unit, by, table):
    rows = table.assign(age=table.age.clip(18, 90), who=np.arange(len(table)) // 5)
    columns = AGES if by else AGES.replace(bounds={"age": AGES.variables["age"]}, terms=None)
    study = pg.Study(rows, columns, epsilon=1e6, delta=0.1, unit=unit)
    found = study.release(epsilon=1e5, mechanism=pg.AnalyzeGauss()).summarize("age", by, q=0.5)
    parts = [rows[rows.year == year] for year in (2019, 2020)] if by else [rows]
    for g, part in enumerate(parts):
        counted = np.bincount(part.age - 18, minlength=73)
        np.testing.assert_allclose(found.counts[g, :73], counted, atol=1)
        assert found.mean().estimate[g] == pytest.approx(part.age.mean(), abs=0.05)
        assert found.quantile(0.5).estimate[g, 0] == part.age.quantile(0.5, interpolation="lower")
    assert (found.unit, found.rows_of_unit) == ((None, 1) if unit is None else ("who", 6))
    noisy = study.release(epsilon=1.0).summarize("age", by)
    truth = np.array([len(part) for part in parts])
    assert (np.abs(noisy.count().estimate - truth) < 5 * noisy.variances[0] ** 0.5).all()
    release = study.release(epsilon=1.0)
    for wrong in (("age", "age"), ("pay", by), ("age", [*([by] if by else []), "region"])):
        with pytest.raises(ValueError, match="whole numbers"):
            release.summarize(*wrong)
    if by:
        refuses(lambda: release.summarize("age"), ValueError, "does not count rows by age")


@pytest.mark.slow
def test_months_are_summarized_at_the_price_of_a_stream(table, tmp_path):
    """Of the sums that the stream published: all so far, the last month, and nothing more spent."""
    pytest.importorskip("cryptography")
    study = pg.Study(table, AGES, epsilon=1e6, delta=0.1, ledger=tmp_path / "a.ledger")
    stream = pg.Stream(study, 3, 1e5, 0.01, path=tmp_path / "a.stream")
    months = [table[i::3].assign(age=table.age.clip(18, 90)) for i in range(3)]
    for n, month in enumerate(months, 1):
        so_far = stream.release(month).summarize("age", "year")
        seen = pd.concat(months[:n])
        for found, rows in ((so_far, seen), (stream.window(1).summarize("age", "year"), month)):
            counted = rows.groupby("year").age.agg(["size", "mean"])
            np.testing.assert_allclose(found.count().estimate, counted["size"], atol=5)
            np.testing.assert_allclose(found.mean().estimate, counted["mean"], atol=0.2)
    assert len(study.entries) == 1


@pytest.mark.slow
def test_plan_knows_that_rows_of_units_have_noise_of_all():
    """Errors as an answer states them, within the half that one draw may be off."""
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(50, 10, 20_000).clip(0, 100), "who": np.arange(20_000) // 4}
    study = study_of(rows, {"x": (0, 100)}, unit=pg.Unit("who", max_rows=4))
    guess = {"mean": {"x": 50}, "std": {"x": 10}}
    plan = study.plan("x", epsilon=0.5, n_rows=20_000, design=guess)
    heads = study.summarize("x", epsilon=0.5).heads()
    for name in ("mean", "q50"):
        stated = (heads[f"{name}_upper_ci"][0] - heads[f"{name}_lower_ci"][0]) / 3.92
        assert 0.7 < plan[name].stderr / stated < 1.4
    assert len(study.entries) == 1


def test_truth_values_of_very_many_groups_are_counted():
    """Of so many groups every other level is left out, and the steps never are."""
    levels = [f"g{i}" for i in range(MANY_GROUPS + 1)]
    group = np.repeat(levels, 20)
    table = {"hurt": np.arange(len(group)) % 4 == 0, "by": group}
    study = study_of(table, {"hurt": bool, "by": levels}, epsilon=100.0)
    found = study.summarize("hurt", by="by", epsilon=100.0, rng=np.random.default_rng(0))
    assert not found.hidden
    np.testing.assert_allclose(found.heads()["mean"], 0.25, atol=0.05)
    study = study_of(table, {"hurt": bool, "by": levels}, epsilon=100.0)
    whole = study.summarize("hurt", epsilon=100.0, rng=np.random.default_rng(0))
    mean = whole.mean(estimand="sample")  # of values that no rounding moves
    assert mean.lower[0] <= 0.25 <= mean.upper[0] <= mean.lower[0] + 0.001


@pytest.mark.slow
def test_thousands_of_groups_are_one_pass():
    rng = np.random.default_rng(0)
    n, k = 50_000, 10_000
    group = rng.integers(0, k, n)
    rows = {"x": rng.random(n), "g": group}
    study = study_of(rows, {"x": (0, 1), "g": pg.Factor(list(range(k)))}, epsilon=20.0)
    found = study.summarize("x", by="g", epsilon=20.0)
    assert found.counts.shape == (k, BRANCHES**4)
    error = found.counts.sum(1) - np.bincount(group, minlength=k)
    assert np.abs(error).max() < 6 * math.sqrt(found.variances[0])
