"""Random features in the estimators: predictions, what they say, one entry, refusals."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg

pytest.importorskip("sklearn")

from sklearn.linear_model import LinearRegression

from privgram._base.saved import DamagedFile
from privgram.estimators import PrivateClassifier, PrivateRidge
from privgram.glm.rounds import Rounds
from privgram.regression.features import places, row_bound

BOUNDS = {"columns": (-3, 3), "random_state": 0}


def curved(n=20_000, seed=0):
    """A target that is not linear in three normal columns; and new rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 5000, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 - 0.5 + 0.3 * rng.standard_normal(n + 5000)
    return X[:n], y[:n], X[n:], y[n:]


@pytest.mark.slow
def test_predictions_are_better_than_least_squares_without_privacy():
    X, y, new, truth = curved()
    features = pg.RandomFeatures(n=128)
    model = PrivateRidge(epsilon=2.0, features=features, **BOUNDS).fit(X, y)
    error = np.sqrt(np.mean((truth - model.predict(new)) ** 2))
    linear = np.sqrt(np.mean((truth - LinearRegression().fit(X, y).predict(new)) ** 2))
    assert error < 0.95 * linear
    # As the release tells, of the rows behind it; targets beyond their bounds are clamped there.
    assert model.prediction_error_ == pytest.approx(error, rel=0.2)


def test_where_features_tell_nothing_they_are_left_out():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 3))
    y = X[:, 0] + 0.1 * rng.standard_normal(2000)
    # Of one noise in forty what is released is two deviations above nothing.
    noise = {"random_state": 1}
    model = PrivateRidge(epsilon=0.1, features=pg.RandomFeatures(n=64), **BOUNDS | noise).fit(X, y)
    fit = model.result_
    assert not fit.coef.any()
    assert "features tell nothing" in repr(fit)
    lines = 3 * fit.linear.predicted(fit.linear.scaled(X))
    np.testing.assert_allclose(model.predict(X), lines)


def test_slopes_are_refused_with_the_reason():
    X, y, *_ = curved(2000)
    model = PrivateRidge(features=pg.RandomFeatures(n=16), **BOUNDS).fit(X, y)
    for name in ("coef_", "intercept_"):
        with pytest.raises(AttributeError, match="no slopes"):
            getattr(model, name)
    given = {"classes": [0, 1], "bound": 3.0, "random_state": 0}
    classes = PrivateClassifier(features=pg.RandomFeatures(n=16), **given).fit(X, y > 0)
    with pytest.raises(AttributeError, match="no slopes"):
        _ = classes.coef_
    with pytest.raises(AttributeError, match="features="):
        _ = PrivateRidge(**BOUNDS).fit(X, y).prediction_error_


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_fit_is_one_entry_that_covers_all_rounds(tmp_path, monkeypatch, adjacency):
    taken = []

    class Recorded(Rounds):
        def __init__(self, *args):
            super().__init__(*args)
            taken.append(self)

    monkeypatch.setattr("privgram.glm.score_steps.Rounds", Recorded)
    ledger = pg.Ledger(tmp_path / "ledger.jsonl", 1.0, 1e-6, adjacency=adjacency)
    X, y, *_ = curved(3000)
    given = {"delta": 1e-6, "mechanism": pg.AnalyzeGauss(), "rng": np.random.default_rng(0)}
    features = pg.RandomFeatures(n=32)
    model = PrivateRidge(features=features, ledger=ledger, adjacency=adjacency, **BOUNDS)
    model.fit(X, y)
    assert len(ledger.entries) == 1
    [rounds] = taken
    spent = rounds.parameters
    assert len(spent["score_mu"]) == 34  # thirty steps, and errors four times
    first = model.release_.privacy.sensitivity_ratio
    whole = pg.release(X, bound=1.0, epsilon=1.0, adjacency=adjacency, **given).privacy
    assert model.result_.privacy == whole
    number = 0.1 * whole.sensitivity_ratio if adjacency == "add-remove" else 0.0
    total = np.square([number, first, *spent["round_mu"], *spent["score_mu"]]).sum()
    assert total <= whole.sensitivity_ratio**2
    assert total >= whole.sensitivity_ratio**2 * (1 - 1e-6)
    with pytest.raises(pg.BudgetExceeded):
        PrivateRidge(features=features, ledger=ledger, adjacency=adjacency, **BOUNDS).fit(X, y)
    assert len(taken) == 1


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_line_has_the_budget_where_rows_are_few(monkeypatch, adjacency):
    def fails(*_, **__):
        raise AssertionError

    monkeypatch.setattr("privgram.estimators.linear.fit_target", fails)
    X, y, *_ = curved(60)
    features = pg.RandomFeatures(n=32)
    model = PrivateRidge(features=features, adjacency=adjacency, **BOUNDS).fit(X, y)
    ratio = model.release_.privacy.sensitivity_ratio / model.result_.privacy.sensitivity_ratio
    assert ratio**2 == pytest.approx(1.0 if adjacency == "replace" else 0.99, rel=1e-6)
    assert model.prediction_error_ == pytest.approx(3 * model.result_.linear.size)


def test_no_row_of_features_is_longer_than_its_bound():
    X, y, *_ = curved(1000)
    features = pg.RandomFeatures(n=32)
    fit = PrivateRidge(features=features, **BOUNDS).fit(X, y).result_
    rng = np.random.default_rng(0)
    scaled = rng.standard_normal((500, 3)) * 10.0 ** rng.integers(-300, 300, (500, 1))
    scaled[:3] = [[0.0] * 3, [1.7e308] * 3, [5e-324] * 3]
    for size in (1e-100, 1.0, 1e100):
        linear = replace(fit.linear, frame=fit.linear.frame * size)
        lengths = np.linalg.norm(replace(fit, linear=linear).rows(scaled), axis=1)
        assert lengths.max() <= row_bound() * (1 + 1e-12)
        assert size < 1 or lengths.max() > 0.99 * row_bound()


def test_columns_stand_beside_features_with_all_directions_alike_long():
    """Of columns that go together the noise lets the difference be seen, and so features do."""
    rng = np.random.default_rng(0)
    both = rng.standard_normal((20_000, 1))
    X = both + 0.1 * rng.standard_normal((20_000, 2))
    y = 2 * (X[:, 0] - X[:, 1]) + 0.1 * rng.standard_normal(20_000)
    model = PrivateRidge(
        features=pg.RandomFeatures(n=32),
        **BOUNDS | {"columns": {"x0": (-3, 3), "x1": (-3, 3), "y": (-1, 1)}},
    )
    linear = model.fit(X, y).result_.linear
    values = np.linalg.eigvalsh(np.cov(linear.framed(np.clip(linear.scaled(X), -1, 1)).T))
    assert 0.3 < values[0] / values[1] <= 1
    hidden = PrivateRidge(epsilon=0.01, features=pg.RandomFeatures(n=32), **BOUNDS)
    hidden = hidden.fit(X[:500], y[:500]).result_.linear
    assert np.linalg.norm(hidden.framed(hidden.scaled(X[:500])), axis=1).max() <= 0.5 * (1 + 1e-12)


@pytest.mark.parametrize("clamps", [False, True])
def test_line_goes_on_beyond_bounds_where_its_rows_do(clamps):
    """Long tails, within which the target is linear, or stays where it is at the bounds."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, (20_000, 3))
    line = np.clip(X, -3, 3) if clamps else X
    y = line @ [0.5, -0.3, 0.2] + 0.05 * rng.standard_normal(20_000)
    known = dict.fromkeys(["x0", "x1", "x2"], (-3, 3)) | {"y": (-10, 10)}
    given = {"columns": known, "random_state": 0, "features": pg.RandomFeatures(n=32)}
    model = PrivateRidge(epsilon=3.0, **given).fit(X, y)
    assert model.result_.linear.clamps is clamps
    far = np.array([[8.0, 0.0, 0.0]])
    assert model.predict(far)[0] == pytest.approx(1.5 if clamps else 4.0, abs=0.5)


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize("columns", [None, ["c", "a"]])
def test_fit_is_saved_and_read_back(tmp_path, suffix, columns):
    pd = pytest.importorskip("pandas")
    X, y, *_ = curved(3000)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    features = pg.RandomFeatures(columns, n=32)
    model = PrivateRidge(epsilon=5.0, features=features, **BOUNDS).fit(table, y)
    fit = model.result_
    fit.save(tmp_path / f"fit{suffix}")
    again = pg.load(tmp_path / f"fit{suffix}")
    assert type(again) is type(fit)
    assert again._header() == fit._header()
    assert repr(again) == repr(fit)
    np.testing.assert_array_equal(again.predict(X), model.predict(table))


def test_file_whose_parts_contradict_each_other_is_refused(tmp_path):
    X, y, *_ = curved(1000)
    fit = PrivateRidge(features=pg.RandomFeatures(n=8), **BOUNDS).fit(X, y).result_
    linear = fit.linear
    wrong = [
        {"coef": fit.coef[1:]},
        {"names": ("x0", "x0", "x1")},
        {"linear": replace(linear, half=-linear.half)},
        {"linear": replace(linear, frame=linear.frame[1:])},
        {"linear": replace(linear, target=(1.0, -1.0))},
        {"coef": np.full_like(fit.coef, np.nan)},
        {"delta": 0.5},
        {"features": pg.RandomFeatures(["nobody"], n=8)},
    ]
    for parts in wrong:
        replace(fit, **parts).save(tmp_path / "fit.npz")
        with pytest.raises(DamagedFile):
            pg.load(tmp_path / "fit.npz")


def test_error_that_is_told_is_about_right():
    """Released error beside the exact one over 30 fits: two deviations of its noise are on top."""
    X, y, *_ = curved(5000)
    features = pg.RandomFeatures(n=16)
    given = BOUNDS | {"random_state": None}
    told, true = [], []
    for seed in range(30):
        given["random_state"] = seed
        model = PrivateRidge(epsilon=1.0, features=features, **given).fit(X, y)
        told.append(model.prediction_error_)
        true.append(np.sqrt(np.mean((np.clip(y, -3, 3) - model.predict(np.clip(X, -3, 3))) ** 2)))
    ratio = np.array(told) / true
    assert 0.97 < ratio.mean() < 1.15
    assert (ratio > 0.88).all()


def test_classes_that_no_line_parts():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (22_000, 2))
    y = (np.linalg.norm(X, axis=1) < 0.8).astype(int)
    given = {"classes": [0, 1], "epsilon": 1.0, "random_state": 0}
    features = pg.RandomFeatures(n=64, scale=0.4)
    curve = PrivateClassifier(bound=1.5, features=features, **given).fit(X[:20_000], y[:20_000])
    line = PrivateClassifier(bound=1.5, **given).fit(X[:20_000], y[:20_000])
    assert curve.score(X[20_000:], y[20_000:]) > 0.9
    assert line.score(X[20_000:], y[20_000:]) < 0.7


def test_features_of_some_columns_of_a_frame():
    pd = pytest.importorskip("pandas")
    X, y, *_ = curved(3000)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    features = pg.RandomFeatures(["a", "b"], n=32)
    model = PrivateRidge(features=features, **BOUNDS).fit(table, y)
    assert places(features, model.result_.names) == [0, 1]
    classes = PrivateClassifier(classes=[False, True], bound=3.0, features=features)
    assert classes.fit(table, y > 0).predict_proba(table).shape == (3000, 2)
    with pytest.raises(ValueError, match="'nobody'"):
        PrivateRidge(features=pg.RandomFeatures(["nobody"], n=4), **BOUNDS).fit(table, y)


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"features": 512}, TypeError, "RandomFeatures"),
        ({"alpha": 1.0}, ValueError, "alpha"),
        ({"missing": "drop"}, ValueError, "their number is private"),
        ({"columns": None}, ValueError, "describe the columns"),
        ({"delta": 0.0}, ValueError, "delta"),
    ],
)
def test_parameters_that_do_not_go_with_features_are_refused_before_the_spend(
    params, error, match, tmp_path
):
    X, y, *_ = curved(500)
    ledger = pg.Ledger(tmp_path / "ledger.jsonl", 10.0, 1e-3)
    given = BOUNDS | {"features": pg.RandomFeatures(n=8), "ledger": ledger} | params
    refuses(lambda: PrivateRidge(**given).fit(X, y), error, match)
    assert not ledger.entries


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epsilon": 30.0}, "protects hardly anyone"),
        ({"delta": 0.02}, "promises little"),
        ({"epsilon": 1e-3, "delta": 0.1}, "smaller delta"),
        ({"adjacency": "replace", "epsilon": 30.0}, "protects hardly anyone"),
    ],
)
def test_what_is_said_of_a_budget_is_said_before_a_share_of_it_counts_rows(
    params, message, tmp_path
):
    """Warnings are of the whole budget, and may be errors."""
    X, y, *_ = curved(500)
    given = {"adjacency": "add-remove"} | BOUNDS | params | {"random_state": None}
    ledger = pg.Ledger(tmp_path / "ledger.jsonl", 100.0, 0.5, given["adjacency"])
    model = PrivateRidge(features=pg.RandomFeatures(n=8), ledger=ledger, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refuses(lambda: model.fit(X, y), (UserWarning, ValueError), message)
    assert not ledger.entries


@pytest.mark.parametrize("features", [None, pg.RandomFeatures(n=8)], ids=str)
def test_warning_after_the_spend_is_no_error(features):
    X, *_ = curved(2000)
    model = PrivateRidge(features=features, **BOUNDS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        model.fit(X, np.full(len(X), 50.0))  # a target beyond its bounds
    assert ["nothing to predict by" in str(one.message) for one in caught] == [True]
    assert np.isfinite(model.predict(X)).all()


def test_of_two_targets_neither_is_fitted():
    X, y, *_ = curved(500)
    model = PrivateRidge(features=pg.RandomFeatures(n=8), **BOUNDS)
    refuses(lambda: model.fit(X, np.column_stack([y, y])), ValueError, "1d array")


def test_fit_by_columns_is_kept_where_features_fail(monkeypatch):
    def fails(*_):
        raise FloatingPointError

    monkeypatch.setattr("privgram.glm.targets.ScoreSteps", fails)
    X, y, *_ = curved(2000)
    with pytest.warns(UserWarning, match="by the columns alone"):
        model = PrivateRidge(features=pg.RandomFeatures(n=8), **BOUNDS).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert np.isnan(model.prediction_error_)


def test_rows_that_miss_something_are_left_out_where_their_number_is_private():
    X, y, *_ = curved(2000)
    gap, hole = X.copy(), y.copy()
    gap[3, 1] = hole[8] = np.nan
    given = BOUNDS | {"features": pg.RandomFeatures(n=8), "adjacency": "add-remove"}
    fits = [
        PrivateRidge(**given).fit(*table).result_
        for table in ((gap, hole), (np.delete(X, [3, 8], 0), np.delete(y, [3, 8])))
    ]
    np.testing.assert_array_equal(fits[0].coef, fits[1].coef)
    np.testing.assert_array_equal(fits[0].linear.slopes, fits[1].linear.slopes)
