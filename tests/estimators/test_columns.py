"""Regressions of frames with factors, and the fit that `pg.release` has of them."""

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg

pytest.importorskip("pandas")
pytest.importorskip("sklearn")

import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline

from privgram.estimators import PrivateRidge

COLUMNS = {
    "age": (18, 90),
    "region": ["north", "south", "west"],
    "smokes": bool,
    "pay": pg.Log(100, 10_000),
    "pressure": (60, 220),
}


@pytest.fixture
def frame(rng):
    n = 4000
    age, region = rng.uniform(18, 90, n), rng.choice(COLUMNS["region"], n)
    smokes, pay = rng.random(n) < 0.3, np.exp(rng.uniform(5, 9, n))
    pressure = 80 + 0.5 * age + 20 * (region == "west") + 9 * smokes + rng.normal(0, 5, n)
    columns = {"age": age, "region": region, "smokes": smokes, "pay": pay}
    return pd.DataFrame(columns | {"pressure": pressure})


@pytest.fixture
def ledger(tmp_path):
    return pg.Ledger(tmp_path / "ledger", epsilon=5.0, delta=1e-4)


def halves(frame, target="pressure"):
    return frame.drop(columns=target), frame[target]


def as_polars(X):
    return pytest.importorskip("polars").DataFrame({name: X[name].to_numpy() for name in X})


def as_arrow(X):
    return pytest.importorskip("pyarrow").table({name: X[name].to_numpy() for name in X})


KINDS = {
    "pandas": lambda X: X.set_index(np.arange(len(X))[::-1]),
    "categories": lambda X: X.astype({"region": "category"}),
    "polars": as_polars,
    "arrow": as_arrow,
    "mapping": lambda X: {name: X[name].to_numpy() for name in X},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["pressure", "pay"])
def test_fit_is_that_of_the_release_to_the_last_bit(frame, kind, target):
    X, y = halves(frame, target)
    model = PrivateRidge(epsilon=20.0, columns=COLUMNS, random_state=3).fit(KINDS[kind](X), y)
    described = pg.Columns(COLUMNS, intercept=True)
    rng = np.random.default_rng(3)
    made = pg.release(frame, described, epsilon=20.0, delta=1e-6, rng=rng)
    fit = made.regress("log(pay)" if target == "pay" else target, ridge="auto")
    assert model.release_.method == made.method
    assert model.release_.method == "adaptive rounds"
    np.testing.assert_array_equal(model.release_.matrix, made.matrix)
    assert (model.result_.param_names, model.result_.target) == (fit.param_names, fit.target)
    np.testing.assert_array_equal([*model.coef_, model.intercept_], np.asarray(fit.params))
    np.testing.assert_array_equal(model.predict(KINDS[kind](X[:9])), fit.predict(X[:9]))
    assert list(model.feature_names_in_) == list(X)
    assert model.n_features_in_ == 4


def test_numbers_alone_are_predicted_from_any_frame(frame):
    X, y = halves(frame[["age", "pressure"]])
    columns = {name: COLUMNS[name] for name in ("age", "pressure")}
    model = PrivateRidge(epsilon=1e9, columns=columns, random_state=0).fit(X, y.to_numpy())
    wanted = model.intercept_ + model.coef_[0] * X.age[:9]
    for kind in ("pandas", "polars", "arrow", "mapping"):
        np.testing.assert_allclose(model.predict(KINDS[kind](X[:9])), wanted)


def test_levels_that_are_not_listed_are_predicted_as_the_fit_does(frame):
    X, y = halves(frame)
    model = PrivateRidge(columns=COLUMNS, random_state=0).fit(X, y)
    new = X[:4].assign(region=["east", "west", None, "north"])
    predicted = model.predict(new)
    np.testing.assert_array_equal(predicted, model.result_.predict(new))
    np.testing.assert_array_equal(np.isnan(predicted), [True, False, True, False])
    refuses(lambda: model.predict(X[:4].drop(columns="region")), ValueError, "no column 'region'")


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"columns": {"age": (0, 1)}}, "here 'pressure': it lacks none"),
        ({"columns": COLUMNS | {"height": (0, 2)}}, "it lacks 'pressure', 'height'"),
        ({"columns": COLUMNS | {"pressure": ["low", "high"]}}, "is a factor"),
        ({"columns": 3}, "could not convert|text or objects"),
        ({"columns": "known.toml"}, r"pg\.Columns\.load"),
    ],
)
def test_refusals_spend_nothing(frame, ledger, more, match):
    model = PrivateRidge(**{"columns": COLUMNS, "ledger": ledger} | more)
    refuses(lambda: model.fit(*halves(frame)), (ValueError, TypeError), match)
    assert not ledger.entries
    with pytest.raises(NotFittedError):
        _ = model.coef_


def test_wrong_rows_spend_nothing(frame, ledger):
    X, y = halves(frame)
    model = PrivateRidge(columns=COLUMNS, ledger=ledger)
    wrong = [
        (frame, y, ValueError, "lacks none"),
        (X, y.rename("height"), ValueError, "here 'height': it lacks 'pressure'"),
        (X, None, ValueError, "one dimension"),
        (X, y.to_frame(), ValueError, "one dimension"),
        (X, y[:-1], ValueError, "rows|length"),
        (X.to_numpy(), y, ValueError, "text or objects"),
        (X.replace({"region": {"west": "east"}}), y, ValueError, "not listed"),
    ]
    for rows, target, kind, match in wrong:
        with pytest.raises(kind, match=match):
            model.fit(rows, target)
    with pytest.raises(ValueError, match="alpha is 'auto' or 0"):
        clone(model).set_params(alpha=2.0).fit(X, y)
    assert not ledger.entries
    model.set_params(alpha=0).fit(X, y)
    assert len(ledger.entries) == 1
    assert list(X) == list(COLUMNS)[:-1]  # the caller's frame is as it was


def test_fit_goes_from_names_to_one_pair(frame):
    X, y = halves(frame)
    model = PrivateRidge(columns=COLUMNS).fit(X, y)
    model.set_params(columns=(18, 220)).fit(X[["age"]], y)
    assert model.predict(X[["age"]]).shape == y.shape
    assert model.coef_.shape == (1,)


def test_fit_of_a_target_beyond_its_bounds_warns(frame):
    X, y = halves(frame)
    model = PrivateRidge(epsilon=1.0, columns=COLUMNS | {"pressure": (-5, 5)})
    with pytest.warns(UserWarning, match="nothing to predict by: all values of 'pressure'"):
        model.fit(X, y)


@pytest.mark.parametrize("columns", [COLUMNS, pg.Columns(COLUMNS)])
def test_pipelines_and_clones_keep_the_columns(frame, ledger, columns):
    X, y = halves(frame)
    chain = make_pipeline(PrivateRidge(columns=columns, epsilon=2.0, ledger=ledger))
    assert clone(chain)[-1].columns == columns
    predicted = cross_val_predict(chain, X, y, cv=2)
    assert np.isfinite(predicted).all()
    assert len(ledger.entries) == 2
    assert "columns" in repr(chain)
