"""The estimators: scikit-learn's own checks, one budget a fit, and nothing secret left behind."""

import contextlib
import copy
import inspect
import pickle
from unittest import mock

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from privgram import estimators
from privgram.disclosure.release import release_for
from privgram.estimators import PrivateRidge
from privgram.ledger import BudgetExceeded

#: As good as no noise: for comparison with estimators that are not private.
LOUD = {"epsilon": 1e10, "delta": 1e-6}


def unit(*args, **params):
    """An estimator of rows that are scaled already."""
    return PrivateRidge(*args, **{"columns": (-1, 1)} | params)


@pytest.fixture
def table(rng):
    """A table in units of its own, inside its bounds."""
    X = rng.uniform(size=(500, 3)) * [10.0, 1.0, 0.1] + [-2.0, 5.0, 0.0]
    return X, X @ [0.3, -2.0, 10.0] + rng.uniform(-1, 1, 500) + 4.0


COLUMNS = {"x0": (-2, 8), "x1": (5, 6), "x2": (0, 0.1), "y": (-20, 10)}
BOUNDS = {"columns": COLUMNS}


@pytest.fixture
def releases(monkeypatch):
    """Count what is spent."""
    made = []

    def counted(*args, **kwargs):
        made.append(release_for(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(estimators.linear, "release_for", counted)
    return made


def refused_on_purpose(estimator):
    """What scikit-learn asks for and privacy forbids: an answer that one row would change."""
    if estimator.adjacency != "add-remove":
        return {}
    no_rows = "where the number of rows is private, none is answered as one is"
    checks = {"check_estimators_empty_data_messages": no_rows}
    if estimator.missing != "error":
        checks["check_dtype_object"] = "an object that is no number is missing in its own row"
        checks["check_supervised_y_no_nan"] = "so is a target that is not finite"
    return checks


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:clones of one estimator")
@parametrize_with_checks(
    [
        unit(),
        unit(0.0),
        unit(1.0, adjacency="add-remove", missing="error"),
        unit(adjacency="add-remove"),
    ],
    expected_failed_checks=refused_on_purpose,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_without_noise_least_squares_is_scikit_learns(table):
    X, y = table
    ours = PrivateRidge(0.0, **LOUD, **BOUNDS).fit(X, y)
    theirs = LinearRegression().fit(X, y)
    # Quantisation moves an entry by about 1e-6 of a row.
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)
    assert ours.coef_.shape == theirs.coef_.shape
    assert np.shape(ours.intercept_) == np.shape(theirs.intercept_)
    # What the guide says to write for `fit_intercept=False`, with bounds that are not about zero.
    through = ours.release_.regress("y", intercept=False).params
    zero = LinearRegression(fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(through, zero.coef_, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 50.0])
def test_without_noise_alpha_is_that_of_scikit_learns_ridge(table, alpha):
    X, y = table
    ours = PrivateRidge(alpha, **LOUD, **BOUNDS).fit(X, y)
    theirs = Ridge(alpha).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-4)


def test_without_noise_components_about_zero_are_those_of_the_svd(table):
    """What the guide says to write for `TruncatedSVD`."""
    X, _ = table
    release = pg.release(X, None, 1e14, 1e-6, bound=20.0, mechanism=pg.AnalyzeGauss())
    found = release.pca(2)
    right = np.linalg.svd(X)[2][:2]
    signs = np.sign((found.components_ * right).sum(axis=1))
    np.testing.assert_allclose(found.components_, signs[:, None] * right, atol=1e-4)


def test_fit_is_the_releases_regression(table):
    """By hand, through the public functions, with the same noise: with rounds, as there."""
    X, y = np.tile(table[0], (20, 1)), np.tile(table[1], 20)
    model = PrivateRidge(epsilon=2.0, **BOUNDS, random_state=3).fit(X, y)
    columns = pg.Columns(COLUMNS, intercept=True)
    by_hand = pg.release(np.column_stack([X, y]), columns, 2.0, 1e-6, rng=np.random.default_rng(3))
    assert (
        (by_hand.method, by_hand.reason)
        == (model.release_.method, model.release_.reason)
        == ("adaptive rounds", "the table can be read again")
    )
    assert np.array_equal(model.release_.matrix, by_hand.matrix)
    fit = by_hand.regress("y", ["x0", "x1", "x2"], ridge="auto")
    assert np.array_equal(model.coef_, fit.used[:-1])
    assert model.intercept_ == fit.used[-1]
    assert np.array_equal(model.result_.conf_int(), fit.conf_int(), equal_nan=True)
    np.testing.assert_allclose(model.predict(X), fit.predict(X), rtol=1e-12)


def test_values_out_of_bounds_are_clamped_and_bounds_are_not_of_the_data(table):
    X, y = table
    far, at = X.copy(), X.copy()
    far[0], at[0] = [1e6, -1e6, 0.05], [8.0, 5.0, 0.05]
    fits = [PrivateRidge(**BOUNDS, random_state=0).fit(x, y).coef_ for x in (far, at)]
    assert np.array_equal(*fits)


def test_fit_whose_coefficients_noise_hides_is_paid_for_and_kept(rng, tmp_path):
    """At delta = 0 the released matrix of few rows is not positive definite."""
    X = rng.uniform(-1, 1, (30, 2))
    ledger = pg.Ledger(tmp_path / "it.ledger", 1.0, 0.0)
    model = unit(alpha=0, epsilon=0.1, delta=0.0, ledger=ledger, random_state=0)
    with pytest.warns(UserWarning, match="The release is kept: release_.regress"):
        assert model.fit(X, X[:, 0]) is model
    assert len(ledger.entries) == 1
    for ask in (lambda: model.predict(X), lambda: model.coef_, lambda: model.result_):
        refuses(ask, pg.RefusedError, "The release is kept")
    assert np.isfinite(model.release_.regress("y", ridge="auto").params).all()


LEARNT = {
    "release_": lambda model, X: model.release_,
    "coef_": lambda model, X: model.coef_,
    "getattr": lambda model, X: getattr(model, "intercept_"),  # noqa: B009
    "predict": lambda model, X: model.predict(X),
    "score": lambda model, X: model.score(X, X[:, 0]),
    "result_": lambda model, X: model.result_,
    "check_is_fitted": lambda model, X: check_is_fitted(model),
}


@pytest.mark.parametrize("what", LEARNT)
def test_until_fit_there_is_nothing_to_read_and_nothing_is_spent(what, rng, releases):
    X = rng.uniform(-1, 1, (100, 2))
    model = unit()
    refuses(lambda: LEARNT[what](model, X), NotFittedError, "not fitted yet")
    assert not hasattr(model, "coef_")
    assert not releases
    LEARNT[what](model.fit(X, X[:, 0]), X)
    assert len(releases) == 1


def _attribute(model, data):
    name = data.draw(st.sampled_from([n for n in dir(model) if n not in SPENDING]))
    hasattr(model, name)
    getattr(model, name, None)


def _try(action):
    def tried(model, data):
        with contextlib.suppress(NotFittedError, TypeError, AttributeError):
            action(model)

    return tried


SPENDING = ("fit",)
ROWS = np.random.default_rng(1).uniform(-1, 1, (30, 3))
READINGS = {
    "attribute": _attribute,
    "dir": _try(dir),
    "repr": _try(repr),
    "html": _try(lambda model: model._repr_html_()),
    "mimebundle": _try(lambda model: model._repr_mimebundle_()),
    "drawn": _try(lambda model: make_pipeline(model)._repr_html_()),
    "members": _try(inspect.getmembers),
    "vars": _try(vars),
    "pickle": _try(pickle.dumps),
    "copy": _try(copy.copy),
    "deepcopy": _try(copy.deepcopy),
    "clone": _try(clone),
    "check": _try(check_is_fitted),
    "predict": _try(lambda model: model.predict(ROWS)),
    "score": _try(lambda model: model.score(ROWS, ROWS[:, 0])),
    "get": _try(lambda model: model.get_params()),
    "set": _try(lambda model: model.set_params(epsilon=2.0)),
}


@pytest.mark.slow
@hypothesis.settings(max_examples=40, derandomize=True)
@hypothesis.given(st.data())
def test_no_sequence_of_rounds_spends(data):
    """Whatever is read, drawn, copied or asked, before the fit and after."""
    with mock.patch.object(estimators.linear, "release_for", side_effect=release_for) as release:
        model = unit()
        for reading in data.draw(st.lists(st.sampled_from(sorted(READINGS)), max_size=12)):
            READINGS[reading](model, data)
        assert not release.called
        model.fit(ROWS, ROWS[:, 0])
        for reading in data.draw(st.lists(st.sampled_from(sorted(READINGS)), max_size=6)):
            READINGS[reading](model, data)
        assert release.call_count == 1


def test_cross_validation_spends_for_its_clones_and_never_for_the_model(rng, releases, tmp_path):
    X = rng.uniform(-1, 1, (90, 3))
    ledger = pg.Ledger(tmp_path / "study.ledger", 50.0, 1e-4, composition="basic")
    model = unit(ledger=ledger)
    cross_val_score(model, X, X[:, 0], cv=3)
    assert len(releases) == len(ledger.entries) == 3
    assert [made.n_rows for made in releases] == [60, 60, 60]
    assert model._release is None


def test_failed_refit_loses_nothing_that_was_paid_for(table, releases):
    X, y = table
    model = PrivateRidge(**BOUNDS).fit(X, y)
    before = model.release_, model.coef_
    refuses(lambda: model.fit(np.full((10, 2), np.nan), np.zeros(10)), ValueError, "NaN")
    refuses(lambda: model.set_params(epsilon=-1.0).fit(X, y), ValueError, "epsilon")
    assert model.release_ is before[0]
    assert model.coef_ is not None
    assert model.n_features_in_ == 3
    assert len(releases) == 1


@pytest.mark.slow
def test_defaults_always_give_an_answer():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (rng.integers(1, 60), rng.integers(2, 6)))
        model = unit(random_state=seed).fit(X, X[:, 0])
        assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("alpha", [0, 1.0])
def test_a_fixed_penalty_of_few_rows_has_a_solution(rng, alpha):
    """After the spend there is an answer: by the noise that a release takes mostly none."""
    X = rng.uniform(-1, 1, (200, 8))
    model = PrivateRidge(alpha, epsilon=0.5, columns=(-1, 1), random_state=0).fit(X, X[:, 0])
    assert np.isfinite(model.coef_).all()


def test_reproducible_noise_says_so(table):
    X, y = table
    states = [1, np.int64(1), np.random.default_rng(1), np.random.RandomState(1)]
    for state in states:
        model = PrivateRidge(**BOUNDS, random_state=state).fit(X, y)
        again = PrivateRidge(**BOUNDS, random_state=copy.deepcopy(state))
        assert model.release_.reproducible
        if isinstance(state, (int, np.integer)):
            assert np.array_equal(model.coef_, again.fit(X, y).coef_)
    fresh = [PrivateRidge(**BOUNDS).fit(X, y) for _ in range(2)]
    assert not fresh[0].release_.reproducible
    assert not np.array_equal(fresh[0].release_.matrix, fresh[1].release_.matrix)
    with pytest.raises(TypeError, match="random_state must be") as caught:
        PrivateRidge(**BOUNDS, random_state="31337").fit(X, y)
    assert "31337" not in str(caught.value)


def test_ledger_is_charged_and_refuses(rng, tmp_path, releases):
    X = rng.uniform(-1, 1, (60, 3))
    ledger = pg.Ledger(tmp_path / "study.ledger", 2.5, 1e-5, composition="basic")
    model = unit(epsilon=1.0, ledger=ledger)
    model.fit(X, X[:, 0])
    clone(model).fit(X, X[:, 0])
    assert ledger.spent == (2.0, 2e-6)
    late = clone(model)
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            late.fit(X, X[:, 0])
    assert len(ledger.entries) == len(releases) == 2
    with pytest.warns(UserWarning, match="clones of one estimator"):
        late.set_params(ledger=None).fit(X, X[:, 0])
    with pytest.raises(BudgetExceeded):
        model.fit(X, X[:, 0])


# --- What leaves the estimator -----------------------------------------------------


def test_fit_that_is_saved_or_copied_has_the_release_alone(rng):
    X = rng.uniform(-1, 1, (50, 2))
    model = unit().fit(X, X[:, 0])
    data = pickle.dumps(model)
    assert b"SecondMoment" not in data
    for again in (pickle.loads(data), copy.copy(model), copy.deepcopy(model)):
        assert np.array_equal(again.release_.matrix, model.release_.matrix)


def test_sparse_matrices_are_refused():
    sparse = pytest.importorskip("scipy.sparse")
    refuses(lambda: unit().fit(sparse.eye_array(5).tocsr(), np.zeros(5)), TypeError, r"[Ss]parse")


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"columns": None}, ValueError, "describe the columns"),
        ({"columns": (1, -1)}, ValueError, "below the upper"),
        ({"columns": (0, np.inf)}, ValueError, "finite"),
        ({"columns": 3}, ValueError, "two numbers"),
        ({"columns": {"x0": (0, 1), "y": (0, 1)}}, ValueError, "the table has x0, x1, x2, y"),
        ({"columns": COLUMNS | {"z": (0, 1)}}, ValueError, "it lacks 'y', 'z'; an array's columns"),
        ({"columns": COLUMNS | {"x0": pg.Log(1, 2)}}, TypeError, "all columns are numbers"),
        ({"adjacency": "both"}, ValueError, "adjacency"),
        ({"missing": "ignore"}, ValueError, "missing"),
        ({"alpha": "best"}, ValueError, "alpha"),
        ({"alpha": -0.5}, ValueError, "alpha"),
        ({"alpha": np.inf}, ValueError, "alpha"),
        ({"alpha": [1.0, 2.0, 3.0]}, ValueError, "alpha"),
    ],
)
def test_bad_parameters_are_refused_and_spend_nothing(table, params, error, message, releases):
    refuses(lambda: PrivateRidge(**BOUNDS | params).fit(*table), error, message)
    assert not releases


def test_missing_values_are_dropped_when_asked(table):
    X, y = table
    holes, gap = X.copy(), y.copy()
    holes[3, 1] = gap[8] = np.nan
    keep = np.delete(np.arange(len(y)), [3, 8])
    dropped = PrivateRidge(0.0, **BOUNDS, **LOUD, missing="drop").fit(holes, gap)
    theirs = LinearRegression().fit(X[keep], y[keep])
    np.testing.assert_allclose(dropped.coef_, theirs.coef_, rtol=1e-4, atol=1e-3)
    assert dropped.release_.n_rows == len(y)
    assert np.isnan(dropped.predict(holes)[3])
    refuses(lambda: PrivateRidge(**BOUNDS).fit(holes, y), ValueError, "NaN")


# --- Frames, pipelines, searches ---------------------------------------------------


@pytest.mark.parametrize(("library", "data"), [("pandas", "data"), ("polars", "values")])
def test_frames_give_their_names(table, library, data):
    frames = pytest.importorskip(library)
    X, y = table
    frame = frames.DataFrame({"age": X[:, 0], "weight": X[:, 1], "dose": X[:, 2]})
    known = {"dose": (0, 0.1), "age": (-2, 8), "weight": (5, 6), "cost": (-20, 10)}
    model = PrivateRidge(columns=known, random_state=0).fit(
        frame, frames.Series(name="cost", **{data: y})
    )
    assert model.release_.names == ("dose", "age", "weight", "cost", "intercept")
    assert model.result_.target == "cost"
    turned = frame[["weight", "age", "dose"]]  # found by their names
    np.testing.assert_array_equal(model.predict(frame), model.predict(turned))
    model = PrivateRidge(columns=(-20, 20), random_state=0).fit(
        frame, frames.Series(name="cost", **{data: y})
    )
    assert model.release_.names == ("age", "weight", "dose", "cost", "intercept")
    plain = PrivateRidge(columns=(-20, 20), random_state=0).fit(X, y)
    assert np.array_equal(model.release_.matrix, plain.release_.matrix)
    np.testing.assert_allclose(model.predict(frame), plain.predict(X))
    refuses(lambda: model.predict(turned), ValueError, "feature names should match")


def test_targets_take_names_that_are_free(rng):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rng.uniform(-1, 1, (20, 2)), columns=["y", "z"])
    assert unit().fit(X, X["z"]).release_.names == ("y", "z", "y_", "intercept")
    X.columns = ["intercept", "z"]
    refuses(lambda: unit().fit(X, X["z"]), ValueError, "rename the feature 'intercept'")
    X.columns = ["z", "z"]
    refuses(lambda: unit().fit(X, X.iloc[:, 0]), ValueError, r"same name|unique column names")


def test_nullable_columns_are_read(rng):
    pd = pytest.importorskip("pandas")
    values = rng.integers(-1, 2, (200, 2))
    frame = pd.DataFrame(values, columns=["a", "b"]).astype("Int64")
    frame.loc[4, "a"] = pd.NA
    model = unit(missing="drop", random_state=0).fit(frame, values[:, 0])
    keep = np.delete(np.arange(200), 4)
    bare = unit(missing="drop", random_state=0).fit(values[keep], values[keep, 0])
    assert np.array_equal(model.release_.matrix, bare.release_.matrix)


def test_in_a_pipeline_after_components_of_a_release(table, releases):
    """What the guide says to write for scikit-learn's `PCA`."""
    pd = pytest.importorskip("pandas")
    X, y = pd.DataFrame(table[0], columns=["a", "b", "c"]), table[1]
    columns = pg.Columns(dict(zip(X, COLUMNS.values(), strict=False)), intercept=True)
    release = pg.release(X, columns, 1e12, 1e-6, mechanism=pg.AnalyzeGauss())
    components = FunctionTransformer(release.pca(2, standardize=True).transform)
    ridge = PrivateRidge(columns=(-20, 20), **LOUD)
    pipe = make_pipeline(components, ridge).fit(X, y)
    theirs = make_pipeline(StandardScaler(), PCA(2), LinearRegression()).fit(X, y)
    np.testing.assert_allclose(pipe.predict(X), theirs.predict(X), atol=1e-2)
    assert len(releases) == 1


def test_search_spends_for_every_fit_and_says_so(table, releases):
    X, y = table
    search = GridSearchCV(PrivateRidge(**BOUNDS, **LOUD), {"alpha": [0.0, 1e6]}, cv=3)
    with pytest.warns(UserWarning, match="clones of one estimator.*ledger"):
        search.fit(X, y)
    assert search.best_params_ == {"alpha": 0.0}
    assert len(releases) == 2 * 3 + 1
    with pytest.warns(UserWarning, match="clones of one estimator.*ledger"):
        cross_val_score(PrivateRidge(**BOUNDS), X, y, cv=4)
    assert len(releases) == 2 * 3 + 1 + 4


def test_warning_of_clones_is_given_once_and_reaches_other_processes(table):
    """A clone knows its number, pickled or not; one alone, as of a meta-estimator, is quiet."""
    X, y = table
    model = PrivateRidge(**BOUNDS)
    clone(model).fit(X, y)  # no warning: they are errors here
    workers = [pickle.loads(pickle.dumps(clone(clone(model)))) for _ in range(3)]
    with pytest.warns(UserWarning, match="clones of one") as caught:
        _ = [worker.fit(X, y) for worker in workers]
    assert len(caught) == 1
