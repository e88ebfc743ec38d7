"""The classifier: scikit-learn's contract, exact sums, one entry in the ledger, bad input."""

from dataclasses import replace

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg

pytest.importorskip("sklearn")

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.multiclass import check_classification_targets

from privgram.estimators import PrivateClassifier, _base
from privgram.regression.classes import HeldOutCounts
from privgram.sources import labelled
from privgram.sources.labelled import LabelledRows, coins


class OfTheseLabels(PrivateClassifier):
    """Takes the classes from the labels, as scikit-learn's checks need it and nobody may."""

    def fit(self, X, y=None):
        self._labels = None if y is None else np.unique(np.asarray(y))
        if y is not None:
            with np.errstate(invalid="ignore"):
                check_classification_targets(y)
        return super().fit(X, y)

    def _checked_classes(self):
        if len(self._labels) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        return tuple(self._labels.tolist())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:clones of one estimator")
@parametrize_with_checks(
    [OfTheseLabels(bound=1.0), OfTheseLabels(bound=3.0, missing="drop", adjacency="add-remove")],
    expected_failed_checks=lambda one: (
        {"check_dtype_object": "an object that is no number is missing in its own row"}
        if one.missing == "drop"
        else {}
    ),
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def made(n=6000, d=5, classes=3, seed=0):
    """Rows of a multinomial model, of length 1 at most."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    eta = X @ rng.standard_normal((d, classes)) * 3
    return X, (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)


def fitted(X, y, **params):
    given = {"classes": range(3), "bound": 1.0, "random_state": 0} | params
    return PrivateClassifier(**given).fit(X, y)


def test_nearly_without_noise_it_predicts_as_scikit_learns_regression():
    X, y = made()
    ours = fitted(X, y, epsilon=1e6)
    theirs = LogisticRegression(C=1e4).fit(X, y)
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.97
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=0.08)


def test_of_two_classes_there_is_one_predictor():
    X, y = made(classes=2)
    model = fitted(X, np.where(y == 1, "yes", "no"), classes=["yes", "no"], epsilon=100.0)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.coef_.shape == (1, 5)
    assert model.intercept_.shape == (1,)
    eta = model.decision_function(X)
    np.testing.assert_allclose(eta, X @ model.coef_[0] + model.intercept_[0])
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-eta)))


def test_images_that_do_not_fit_are_made_anew_with_the_same_bits(monkeypatch):
    X, y = made(3000)
    whole = fitted(X, y, holdout=0.2)
    monkeypatch.setattr("privgram.secret.sweep.SHARE_OF_MEMORY", 0.0)
    again = fitted(X, y, holdout=0.2)
    np.testing.assert_array_equal(whole.coef_, again.coef_)
    np.testing.assert_array_equal(whole.result_.held_out.right, again.result_.held_out.right)


def as_torch(x):
    return pytest.importorskip("torch").tensor(x)


def as_strict(x, device="device1"):
    """On a device that NumPy cannot read, which stands for a GPU."""
    strict = pytest.importorskip("array_api_strict")
    return strict.asarray(x, device=strict.Device(device))


@pytest.mark.parametrize("put", [np.asarray, as_torch, as_strict])
def test_arrays_of_other_libraries_give_the_same_bits(put):
    X, y = made(5000)
    X = X.astype(np.float32)
    expected = fitted(X, y)
    for model in (
        fitted(put(X), put(y)),
        fitted([(put(X[:777]), put(y[:777])), (put(X[777:]), put(y[777:]))], None),
    ):
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert model.score(put(X), put(y)) == expected.score(X, y)


def test_rows_on_a_device_are_copied_block_by_block(monkeypatch):
    copied = []

    def watched(array):
        copied.append(array.shape)
        return to_numpy(array)

    to_numpy = labelled.to_numpy
    for module in (labelled, _base):
        monkeypatch.setattr(module, "to_numpy", watched)
    X, y = made(5000)
    fitted(as_strict(X), as_strict(y))
    assert copied[0] == (5000,)  # the labels
    assert copied[1:] == 2 * [(2048, 5), (2048, 5), (904, 5)]


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda X: X[:70], ValueError, "inconsistent numbers"),
        (lambda X: X + 0j, TypeError, "complex numbers"),
        (lambda X: X[:, 0], ValueError, r"x\[:, None\]"),
        (lambda X: np.where(X[7, 3] == X, np.nan, X), ValueError, "row 7 holds a missing value"),
    ],
)
def test_arrays_on_a_device_are_refused_before_the_spend(change, error, match, tmp_path):
    X, y = made(300)
    ledger = pg.Ledger(tmp_path / "ledger.jsonl", 10.0, 1e-3)
    refuses(lambda: fitted(as_strict(change(X)), as_strict(y), ledger=ledger), error, match)
    with pytest.raises(error, match=f"{match}|each block has"):
        fitted([(as_strict(change(X)), as_strict(y))], None, ledger=ledger)
    assert not ledger.entries


def test_factors_are_features_by_their_description():
    """What the guide says to write."""
    pd = pytest.importorskip("pandas")
    X, y = made(8000, d=2)
    kind = np.where(np.arange(8000) % 3 == 0, "a", "b")
    table = pd.DataFrame({"u": X[:, 0] * 10, "kind": kind, "v": X[:, 1], "unused": y})
    known = pg.Columns({"u": (-10, 10), "v": (-1, 1), "kind": ["a", "b"]})
    model = PrivateClassifier(epsilon=50.0, classes=range(3), bound=known.bound, random_state=1)
    model = make_pipeline(FunctionTransformer(known.encode), model).fit(table, y)
    plain = LogisticRegression(C=1e3).fit(X, y)
    assert model.score(table, y) > plain.score(X, y) - 0.02


def test_fit_is_one_entry_of_the_ledger(tmp_path):
    X, y = made(2000)
    ledger = pg.Ledger(tmp_path / "ledger.jsonl", 1.2, 1e-5)
    fitted(X, y, ledger=ledger, holdout=0.1)
    assert len(ledger.entries) == 1
    with pytest.raises(pg.BudgetExceeded):
        fitted(X, y, ledger=ledger)
    refuses(lambda: fitted(X, y, ledger=ledger, bound=None), ValueError, "bound is missing")
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("params", [{}, {"holdout": 0.2}, {"fit_intercept": False}])
def test_shares_add_up_to_the_guarantee(adjacency, params):
    X, y = made(2000)
    fit = fitted(X, y, adjacency=adjacency, **params).result_
    spent = fit.parameters
    ratios = [*spent["round_mu"], *spent["score_mu"], spent.get("number_mu", 0.0)]
    assert len(spent["score_mu"]) == spent["steps"]
    total = np.square(ratios).sum()
    assert total == pytest.approx(fit.privacy.sensitivity_ratio**2, rel=1e-9)
    assert total <= fit.privacy.sensitivity_ratio**2
    if "holdout" in params:  # as all scores together, of which held-out rows have none
        assert spent["held_out_mu"] ** 2 <= np.square(spent["score_mu"]).sum() * (1 + 1e-9)


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize("holdout", [0.0, 0.3])
def test_classifier_is_saved_and_read_back(tmp_path, suffix, holdout):
    X, y = made(1000)
    fit = fitted(X, y, holdout=holdout).result_
    fit.save(tmp_path / f"fit{suffix}")
    again = pg.load(tmp_path / f"fit{suffix}")
    assert type(again) is type(fit)
    assert again._header() == fit._header()
    assert repr(again) == repr(fit)
    np.testing.assert_array_equal(again.probabilities(X), fit.probabilities(X))
    if holdout:
        np.testing.assert_array_equal(again.held_out.reliability, fit.held_out.reliability)


def test_held_out_rows_tell_the_accuracy_on_other_rows():
    """Of ten fits each estimate is within four standard errors: false alarms below 1e-3."""
    for seed in range(10):
        X, y = made(20_000, seed=seed)
        model = fitted(X[:10_000], y[:10_000], holdout=0.2, epsilon=2.0, random_state=seed)
        held = model.result_.held_out
        error = np.hypot(held.accuracy_stderr, 0.5 / np.sqrt(10_000))
        assert abs(held.accuracy - model.score(X[10_000:], y[10_000:])) < 4 * error
        assert held.right.sum() + held.wrong.sum() == pytest.approx(2000, abs=300)


def test_where_noise_hides_everything_it_says_so():
    X, y = made(200)
    model = fitted(X, y, epsilon=0.01, adjacency="add-remove", random_state=3)
    assert "hides all but 0 of 5 directions" in repr(model.result_)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    for noise_std in (30.0, 1e200):  # of a file it may be of any size
        faint = HeldOutCounts(np.array([3.0, -2.0]), np.array([1.0, 0.0]), noise_std)
        said = repr(replace(model.result_, held_out=faint))
        assert "accuracy on held-out rows hidden by noise" in said


def test_more_features_than_rows_and_a_class_without_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 100))
    model = fitted(X, rng.integers(0, 2, 40))
    assert model.coef_.shape == (3, 100)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_long_rows_are_shortened():
    X, y = made(3000)
    at = np.argmax(np.linalg.norm(X, axis=1))
    X[at] /= np.linalg.norm(X[at])
    far = X.copy()
    far[at] *= 1e200
    longer = fitted(far, y)
    assert np.isfinite(longer.coef_).all()
    assert longer.result_.refusal is None


def test_error_after_the_spend_is_a_refused_fit(monkeypatch, tmp_path):
    def fails(*_):
        raise FloatingPointError

    monkeypatch.setattr("privgram.glm.score_steps.without_noise", fails)
    ledger = pg.Ledger(tmp_path / "ledger.jsonl", 1.0, 1e-5)
    X, y = made(500)
    model = fitted(X, y, ledger=ledger)
    assert len(ledger.entries) == 1
    assert "finite" in model.result_.refusal
    np.testing.assert_allclose(model.predict_proba(X), 1 / 3)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"classes": None}, "never taken from the data"),
        ({"classes": [0]}, "two labels at least"),
        ({"classes": [0, 1, 1]}, "twice"),
        ({"classes": "ab"}, "list all labels"),
        ({"bound": None}, "bound is missing"),
        ({"bound": -1.0}, "bound"),
        ({"holdout": 0.9}, "holdout"),
        ({"holdout": "some"}, "holdout"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"adjacency": "other"}, "adjacency"),
        ({"classes": [0, 1]}, r"row \d+ holds a label that is not among classes="),
    ],
)
def test_bad_parameters_are_refused_in_a_sentence_and_before_the_spend(params, match, tmp_path):
    X, y = made(300)
    ledger = pg.Ledger(tmp_path / "ledger.jsonl", 10.0, 1e-3)
    refuses(lambda: fitted(X, y, ledger=ledger, **params), ValueError, match)
    assert not ledger.entries


def test_rows_that_cannot_be_used_are_left_out_where_that_is_wanted():
    X, y = made(3000)
    bad = X.copy()
    bad[::20], bad[10::40], bad[30::40, 2] = np.nan, np.inf, -np.inf
    labels = y.copy()
    labels[1::10] = 99
    kept = np.ones(3000, bool)
    kept[::10] = kept[1::10] = False
    dropping = {"missing": "drop", "adjacency": "add-remove"}
    one = fitted(bad, labels, **dropping)
    other = fitted(X[kept], y[kept], **dropping)
    for model in (one, fitted([(bad, labels)], None, **dropping)):
        np.testing.assert_array_equal(model.coef_, other.coef_)
    refuses(lambda: fitted(np.where(np.isinf(bad), 0.0, bad), y), ValueError, "NaN")
    refuses(lambda: fitted(np.where(np.isnan(bad), 0.0, np.abs(bad)), y), ValueError, "infinity")


def test_rows_are_held_out_by_their_places_alone():
    key = bytes(range(32))
    whole = coins(key, 0, 4000)
    assert abs((whole < 0.2).mean() - 0.2) < 0.025  # false alarms below 1e-4
    for first, n in ((0, 1), (7, 9), (1000, 3000), (3999, 1)):
        np.testing.assert_array_equal(coins(key, first, n), whole[first : first + n])
    X, y = made(500)
    other = np.ones_like(X), np.zeros_like(y)
    held = []
    for x, labels in ((X, y), other, (X[::-1], y)):
        parts = [(x[:123], labels[:123]), (x[123:], labels[123:])]
        rows = LabelledRows(lambda parts=parts: parts, (0, 1, 2), 0.0, "drop", 0.2)
        rows.key = key
        held.append(np.concatenate([block[:, -1] < 0 for block in rows]))
        np.testing.assert_array_equal(held[0], held[-1])


@pytest.mark.slow
def test_of_columns_of_zeros_and_ones_all_kinds_are_learnt():
    """Of eight kinds of rows none is held out as a whole: right as often as without, over keys."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (4000, 3)).astype(float)
    y = np.where(rng.random(4000) < 0.9, X[:, 0] != X[:, 1], X[:, 2] > 0).astype(int)
    X = np.column_stack([X, X[:, 0] * X[:, 1]])  # of which the first part is linear
    given = {"epsilon": 20.0, "bound": 2.0}
    plain = fitted(X, y, **given).score(X, y)
    for seed in range(6):
        assert fitted(X, y, holdout=0.5, random_state=seed, **given).score(X, y) > plain - 0.05


def test_iterator_and_what_is_no_pair_are_refused():
    X, y = made(100)
    refuses(lambda: fitted(iter([(X, y)]), None), ValueError, "read once")
    refuses(lambda: fitted([X, X], None), ValueError, "pairs")
    refuses(lambda: fitted([(X, y), (X[:, :3], y)], None), ValueError, "5 columns")
    refuses(lambda: fitted([(X, y), (X, y[:3])], None), ValueError, "a label for each row")
