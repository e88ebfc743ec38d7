"""Weighted rows: regressions on a release are weighted least squares."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.helpers import refuses

import privgram as pg
from privgram.regression import RefusedError

LEVELS = ["a", "b", "c"]


def table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    rows = {
        "x": rng.uniform(0, 10, n),
        "w": rng.uniform(0, 5, n),
        "g": np.array(LEVELS)[rng.integers(0, 3, n)],
    }
    return rows | {"y": 1 + 0.3 * rows["x"] + rng.standard_normal(n) + (rows["g"] == "b")}


BOUNDS = {"x": (0, 10), "w": (0, 4), "g": LEVELS, "y": (-5, 10)}


def describe(**options):
    return pg.Columns(BOUNDS, intercept=True, row_weights="w", **options)


def released(columns, rows, adjacency="replace"):
    rng = np.random.default_rng(0)
    return pg.release(
        rows, columns, 1e14, 1e-6, mechanism=pg.AnalyzeGauss(), adjacency=adjacency, rng=rng
    )


@pytest.mark.parametrize("terms", [None, ["poly(x, 2)", "g:x", "y", "w"]])
def test_matrix_is_that_of_weighted_rows(terms):
    rows = table()
    columns = describe(terms=terms)
    plain = pg.Columns(BOUNDS, intercept=True, terms=terms or ["x", "g", "y"])
    assert columns.names == plain.names
    assert columns.bound == pytest.approx(plain.bound)
    roots = np.sqrt(np.clip(rows["w"], 0, 4) / 4)
    weighted = plain.encode(rows) * roots[:, None]
    assert_allclose(columns.encode(rows), weighted)
    moment = pg.second_moment(rows, columns=columns)
    assert_allclose(moment.matrix(), weighted.T @ weighted, atol=1e-3)
    again = pg.SecondMoment.from_bytes(moment.to_bytes())
    assert (again.matrix() == moment.matrix()).all()
    assert np.linalg.norm(columns.encode(rows), axis=1).max() <= columns.bound


def test_missing_weight_is_a_missing_value():
    rows = table()
    rows["w"][:50] = np.nan
    refuses(lambda: pg.second_moment(rows, columns=describe()), ValueError, "missing")
    dropped = pg.second_moment(rows, columns=describe(missing="drop"))
    rest = {name: column[50:] for name, column in rows.items()}
    whole = pg.second_moment(rest, columns=describe(missing="drop"))
    assert (dropped.matrix() == whole.matrix()).all()


def test_sum_of_weights_counts_no_rows():
    rows = table(2000)
    fit = released(describe(), rows, "add-remove").regress("y")
    reason = "sum of their weights: use a release of which the number of rows is public"
    assert reason in fit.refusal
    release = released(describe(), rows)
    refuses(lambda: release.describe(), RefusedError, 'estimand="sample"')
    weights = np.clip(rows["w"], 0, 4)
    about_rows = release.describe(estimand="sample")
    mean = np.average(rows["x"], weights=weights)
    assert_allclose(about_rows.mean[0], mean, rtol=1e-4)
    assert (release.correlation().stderr[0, 1:] > 0).all()


def test_descriptions_keep_their_weights(tmp_path):
    columns = describe(terms=["x", "y"])
    assert columns.selected == ("x", "w", "y")
    for name in ("c.toml", "c.json"):
        columns.save(tmp_path / name)
        assert pg.Columns.load(tmp_path / name) == columns
    assert eval(repr(columns), {"Columns": pg.Columns, "Factor": pg.Factor}) == columns
    assert columns != pg.Columns(BOUNDS, intercept=True, terms=["x", "y"])
    assert "row_weights" not in pg.Columns({"x": (0, 1)}).to_dict()
    formula = pg.Columns.from_formula("y ~ x", BOUNDS, row_weights="w")
    assert formula.selected == ("x", "w", "y")


@pytest.mark.parametrize(
    ("name", "bounds"), [("v", (0, 1)), ("w", (-1, 1)), ("g", LEVELS), ("w", {"log": (1, 2)})]
)
def test_column_that_weights_no_rows_is_refused(name, bounds):
    described = {"x": (0, 1), "g": LEVELS} | ({} if name == "v" else {name: bounds})
    with pytest.raises(ValueError, match="row_weights names a number"):
        pg.Columns(described, row_weights=name)
