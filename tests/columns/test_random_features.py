"""Random features as a term: what is stored, the same bits whatever is read, and refusals."""

import json

import numpy as np
import pytest

import privgram as pg
from privgram.columns.structure import by_term, proposed_weights, share

BOUNDS = {"x": (-2, 2), "z": (0, 5), "w": pg.Log(0.1, 10), "sex": ["f", "m"], "y": (-2, 2)}
TERMS = ["rf(x, log(w), n=6)", "rf(z, n=3, kernel='arc-cosine', seed=2)", "x", "sex", "y"]
COLUMNS = pg.Columns(BOUNDS, intercept=True, terms=TERMS, missing="drop")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 20_011
    table = {
        "x": rng.normal(size=n),
        "z": rng.integers(-1, 8, n),
        "w": rng.lognormal(0, 2, n).astype(np.float32),
        "sex": rng.choice(["f", "m"], n),
        "y": rng.normal(size=n),
    }
    table["x"][[3, 9000]] = np.nan
    table["x"][[5, 9001]] = [np.inf, -np.inf]
    return table


def same(moment, other):
    for one, two in zip(moment.int128(), other.int128(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_columns_are_those_of_random_features(table):
    rows = COLUMNS.encode(table)
    x = np.clip(table["x"] / 2, -1, 1)
    w = np.clip(np.log(table["w"].astype(float)) / np.log(10), -1, 1)
    inputs = np.column_stack([x, w])
    expected = pg.RandomFeatures(["x", "w"], n=6).rows(inputs)
    known = ~np.isnan(x)
    np.testing.assert_allclose(rows[known, :6], expected[known], atol=1e-6)
    assert np.isnan(rows[~known, :6]).all()
    assert not np.isnan(rows[~known, 6:9]).any()
    z = np.clip((table["z"] - 2.5) / 2.5, -1, 1)[:, None]
    signs = pg.RandomFeatures(["z"], n=3, kernel="arc-cosine", seed=2).rows(z)
    np.testing.assert_array_equal(rows[:, 6:9], signs)
    assert COLUMNS.names[:2] == ("rf(x, log(w), n=6)[0]", "rf(x, log(w), n=6)[1]")
    assert COLUMNS.selected == ("x", "z", "w", "sex", "y")


def test_rows_are_as_long_as_the_bound_says(table):
    lengths = np.linalg.norm(COLUMNS.encode(table)[np.isfinite(table["x"])], axis=1)
    assert lengths.max() <= COLUMNS.bound
    alone = pg.Columns(BOUNDS, terms=["rf(x, z, n=10)"], weights={"rf(x, z, n=10)": 3.0})
    lengths = np.linalg.norm(alone.encode(table)[np.isfinite(table["x"])], axis=1)
    np.testing.assert_allclose(lengths, alone.bound, rtol=1e-11)
    assert lengths.max() < alone.bound


def test_moment_has_the_same_bits_for_any_blocks_threads_and_source(table, tmp_path):
    pd, pl, pa = map(pytest.importorskip, ("pandas", "polars", "pyarrow"))
    whole = pg.second_moment(table, columns=COLUMNS, threads=1)
    assert whole.n_dropped == 2
    exact = COLUMNS.encode(table)
    exact = exact[~np.isnan(exact).any(axis=1)]
    np.testing.assert_allclose(whole.matrix(), exact.T @ exact, atol=0.1)
    frame = pd.DataFrame(table)
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=999)
    cut = [frame[start : start + 777] for start in range(0, len(frame), 777)]
    turned = {name: np.asarray(column)[::-1].copy() for name, column in table.items()}
    for source in (cut, tmp_path / "table.parquet", pl.from_pandas(frame), turned,
                   pa.Table.from_pandas(frame)):  # fmt: skip
        for threads in (1, 2):
            same(pg.second_moment(source, columns=COLUMNS, threads=threads), whole)


def test_missing_values_raise_where_they_are_errors(table):
    columns = COLUMNS.replace(missing="error")
    with pytest.raises(ValueError, match=r"missing|level"):
        pg.second_moment(table, columns=columns)


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_columns_are_saved_and_read_back(tmp_path, suffix):
    COLUMNS.save(tmp_path / f"columns{suffix}")
    again = pg.Columns.load(tmp_path / f"columns{suffix}")
    assert again == COLUMNS
    assert again.names == COLUMNS.names
    assert pg.Columns.from_dict(json.loads(json.dumps(COLUMNS.to_dict()))) == COLUMNS


def test_terms_are_written_in_one_way():
    features = pg.RandomFeatures(["x", "log(w)"], n=4, scale=0.5)
    written = "rf( x,w , scale = 5e-1,n=4, kernel='rbf')"
    assert pg.Columns(BOUNDS, terms=[features]) == pg.Columns(BOUNDS, terms=[written])
    assert pg.Columns(BOUNDS, terms=[features]).terms == ("rf(x, log(w), n=4, scale=0.5)",)
    odd = {"my x": (0, 1), "if": (0, 1)}
    again = pg.Columns(odd, terms=[pg.RandomFeatures(["my x", "if"], n=4)])
    assert pg.Columns.from_dict(again.to_dict()).names == again.names
    assert again.selected == ("my x", "if")


def test_formula_takes_features():
    columns = pg.Columns.from_formula("y ~ rf(x, log(w), n=4) + sex", BOUNDS)
    assert columns.terms == ("y", "rf(x, log(w), n=4)", "sex")
    pytest.importorskip("formulaic")
    longer = pg.Columns.from_formula(
        "y ~ rf(x, z, n=4, kernel='matern', scale=1e+1) + x*sex", BOUNDS
    )
    assert longer.terms[1] == "rf(x, z, n=4, kernel='matern', scale=10.0)"
    without = COLUMNS.without("w")
    assert "w" not in without.variables
    assert len(without.terms) == len(TERMS) - 1


def test_shares_of_the_bound():
    shares = {term: share(COLUMNS, stored) for term, stored in by_term(COLUMNS).items()}
    assert shares == pytest.approx(dict.fromkeys(COLUMNS.terms, 1 / 5))
    weights = proposed_weights(COLUMNS, ["y"])
    assert weights[TERMS[0]] > weights[TERMS[1]]  # of more features


@pytest.mark.parametrize(
    ("term", "match"),
    [
        ("rf(x, n=7)", "even"),
        ("rf(x, n=1)", "from 2 to"),
        ("rf(x, m=8)", "takes n, kernel, scale, seed"),
        ("rf(x, n=8, n=8)", "each once"),
        ("rf(x, n=k)", "number"),
        ("rf(x, kernel=rbf)", "text in quotes"),
        ("rf(x, kernel='lin')", "kernel is"),
        ("rf(x, scale=0)", "scale must be positive"),
        ("rf()", "one at least"),
        ("rf(x, x)", "each column once"),
        ("rf(x, , z)", "empty part"),
        ("rf(nobody)", "'nobody'"),
        ("rf(sex)", "'sex' is neither"),
        ("rf(x):sex", "multiplied by nothing"),
        ("rf(x)*z", "multiplied by nothing"),
        ("rf(x):rf(z)", "multiplied by nothing"),
        ("rf(log(x))", "positive bounds"),
        (pg.RandomFeatures(n=4), "names the columns"),
    ],
)
def test_bad_terms_are_refused(term, match):
    with pytest.raises(ValueError, match=match):
        pg.Columns(BOUNDS, terms=[term])


def test_warehouse_has_no_such_bits():
    columns = pg.Columns({"x": (-2, 2), "y": (0, 1)}, terms=["rf(x, n=4)", "y"])
    with pytest.raises(ValueError, match="cosines of rf"):
        columns.sql("people", "duckdb")
