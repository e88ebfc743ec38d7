"""Regressions on random features of a release: predictions, their error, and no slopes."""

import numpy as np
import pytest

import privgram as pg
from privgram.regression import least_squares
from privgram.regression.ols import FeatureResults

BOUNDS = {"a": (-1, 1), "b": (-1, 1), "g": ["u", "v"], "y": (-2, 2)}
RF = "rf(a, b, n=32)"
FORMULA = f"y ~ {RF} + a + g"
COLUMNS = pg.Columns.from_formula(FORMULA, BOUNDS).replace(weights={RF: 2.0})
NAMES = ("params", "bse", "tvalues", "pvalues", "rsquared", "fvalue", "llf", "scale")
CALLS = ("conf_int", "cov_params", "tidy", "anova")


def made(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, (2, n))
    g = rng.choice(["u", "v"], n)
    y = np.sin(3 * a) * b + 0.2 * (g == "u") + 0.2 * rng.standard_normal(n)
    return {"a": a, "b": b, "g": g, "y": y}


@pytest.fixture(scope="module")
def table():
    return made()


@pytest.fixture(scope="module")
def release(table):
    options = {"mechanism": pg.AnalyzeGauss(), "rng": np.random.default_rng(1)}
    return pg.release(table, COLUMNS, epsilon=2.0, delta=1e-6, **options)


def left(fit, table):
    return float(np.sqrt(np.mean((table["y"] - fit.predict(table)) ** 2)))


def test_predictions_are_better_than_a_line(table, release):
    new = made(5000, seed=1)
    fit = release.regress(FORMULA)
    line = release.regress("y ~ a + g")
    assert isinstance(fit, FeatureResults)
    assert left(fit, new) < 0.6 * left(line, new)
    assert fit.prediction_error == pytest.approx(left(fit, new), rel=0.3)
    rows = COLUMNS.encode(new)
    place = {name: i for i, name in enumerate(COLUMNS.names)}
    by_hand = sum(
        rows[:, place[name]] / (2.0 if name.startswith("rf") else 1.0) * coef
        for name, coef in zip(fit.param_names, fit.used, strict=False)
        if name in place
    )
    by_hand = by_hand + fit.used[len(fit.design.names)]
    np.testing.assert_allclose(fit.predict(new), by_hand, atol=1e-6)


def test_slopes_are_refused_with_the_reason(release):
    pytest.importorskip("pandas")
    fit = release.regress(FORMULA)
    assert fit.refusal is None
    for name in NAMES:
        with pytest.raises(pg.RefusedError, match="no slopes"):
            getattr(fit, name)
    for name in CALLS:
        with pytest.raises(pg.RefusedError, match="no slopes"):
            getattr(fit, name)()
    for ask in (
        lambda: fit.conf_int(estimand="sample"),
        lambda: fit.wald_test("a = 0"),
        lambda: fit.t_test("a = 0"),
        lambda: fit.get_prediction({"a": [0], "b": [0]}),
    ):
        with pytest.raises(ValueError, match="no slopes"):
            ask()
    summary = fit.summary()
    assert "no slopes" in str(summary)
    assert "Prediction error" in str(summary)
    assert "rf(a, b, n=32)[0]" not in str(summary)
    assert "no slopes" in fit._repr_html_()
    assert "right to about" in repr(fit)
    assert np.isnan(fit.glance()["r.squared"][0])


def test_ridge_is_chosen_and_no_other(release):
    with pytest.raises(ValueError, match="ridge='auto'"):
        release.regress(FORMULA, ridge=3.0)
    with pytest.raises(ValueError, match="unclip"):
        release.regress(FORMULA, unclip=True)
    chosen, auto = release.regress(FORMULA), release.regress(FORMULA, ridge="auto")
    np.testing.assert_array_equal(chosen.theta, auto.theta)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1000, 20_000])
def test_error_that_is_told_holds_its_level(n, monkeypatch):
    """Of 100 releases: the estimate is centred, and with two deviations rarely too small.

    Centred to .35 deviations, of .1, and no more than nine too small, of 2.3: false alarms 1e-3.
    """
    table = made(n)
    moment = pg.second_moment(table, columns=COLUMNS.settled("replace"))
    exact = moment.matrix()
    options = {"epsilon": 1.0, "delta": 1e-6, "mechanism": pg.AnalyzeGauss()}
    gaps = []
    for seed in range(100):
        one = pg.release(moment, **options, rng=np.random.default_rng(seed))
        fit = one.regress(FORMULA)
        v = np.append(-fit.theta, 1.0) @ fit.design.images
        unit = fit.design.spread[-1] ** 2 / n
        deviation = np.sqrt(one.noise.entry_variance(one.matrix, v[None])[0, 0]) * unit
        stated = fit.prediction_error**2 - 2 * deviation
        gaps.append((stated - v @ exact @ v * unit) / deviation)
    gaps = np.array(gaps)
    assert abs(gaps[gaps > -3].mean()) < 0.35
    assert (gaps < -2).sum() <= 9
    assert 0.7 < gaps.std() < 1.3


def test_parts_of_a_release_have_independent_noise(release):
    """Cov(N + t Z, N - Z / t) is that of N less that of Z, of which none is left."""
    law, rng, t = release.noise, np.random.default_rng(0), np.sqrt(least_squares.SPLIT)
    zero = np.zeros_like(release.matrix)
    pairs = [(law.draw(zero, rng), law.draw(zero, rng)) for _ in range(2000)]
    one = np.array([(n + t * z)[0, 1] for n, z in pairs])
    other = np.array([(n - z / t)[0, 1] for n, z in pairs])
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(2000)
    assert law.is_gaussian


@pytest.mark.parametrize("mechanism", [pg.AdditiveWishart(), pg.MatrixLaplace()])
def test_error_is_not_told_of_other_noise(table, mechanism):
    delta = 0.0 if isinstance(mechanism, pg.MatrixLaplace) else 1e-6
    rng = np.random.default_rng(0)
    one = pg.release(table, COLUMNS, epsilon=4.0, delta=delta, mechanism=mechanism, rng=rng)
    fit = one.regress(FORMULA)
    assert np.isnan(fit.prediction_error)
    assert np.isfinite(fit.predict(table)).all()
    assert "right to" not in repr(fit)


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_release_is_saved_and_read_back(release, table, tmp_path, suffix):
    release.save(tmp_path / f"release{suffix}")
    again = pg.load(tmp_path / f"release{suffix}").regress(FORMULA)
    fit = release.regress(FORMULA)
    np.testing.assert_array_equal(again.predict(table), fit.predict(table))
    assert again.prediction_error == fit.prediction_error


@pytest.mark.parametrize("formula", [FORMULA, f"y ~ {RF} | g", f"y ~ {RF} - 1"])
def test_study_answers_for_predictions(table, tmp_path, formula):
    pytest.importorskip("formulaic")
    options = {"epsilon": 2.0, "delta": 1e-6, "rng": np.random.default_rng(1)}
    fit = pg.regress(
        table, formula, BOUNDS, purpose="prediction", out=tmp_path / "fit.json", **options
    )
    assert left(fit, table) < 0.35
    again = pg.load(tmp_path / "fit.json")
    assert again.not_scores == fit.not_scores
    np.testing.assert_allclose(again.predict(table), fit.predict(table))
    half = fit.release.columns.weights[RF] ** 2 / fit.release.columns.layout.squared_bound()
    assert half == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("formula", "options", "match"),
    [
        (FORMULA, {}, 'purpose="prediction"'),
        (FORMULA, {"purpose": "prediction", "loss": "huber"}, 'loss="squared"'),
        ("g[u] ~ rf(a, n=4)", {"purpose": "prediction", "family": "binomial"}, "PrivateClassifier"),
        ("y ~ 1 | a ~ rf(b, n=4)", {"purpose": "prediction"}, "no slopes"),
        ("y ~ a | rf(b, n=4)", {"purpose": "prediction"}, "stand factors"),
        ("y ~ rf(y, n=4)", {"purpose": "prediction"}, "among the features"),
    ],
)
def test_what_cannot_be_is_refused_before_the_spend(table, tmp_path, formula, options, match):
    pytest.importorskip("formulaic")
    study = pg.Study(table, BOUNDS, epsilon=2.0, delta=1e-6, ledger=tmp_path / "a.ledger")
    with pytest.raises(ValueError, match=match):
        study.regress(formula, 1.0, **options)
    assert not study.ledger.entries


def test_a_constant_column_and_other_units(table):
    """Units of a column change nothing, nor does another that is always the same."""
    bounds = BOUNDS | {"b": (-1000, 1000), "k": (0, 1)}
    moved = table | {"b": table["b"] * 1000, "k": np.zeros(len(table["a"]))}
    rf = "rf(a, b, k, n=32)"
    options = {"epsilon": 4.0, "delta": 1e-6, "purpose": "prediction"}
    one = pg.regress(table, FORMULA, BOUNDS, **options, rng=np.random.default_rng(0))
    other = pg.regress(moved, f"y ~ {rf} + a + g", bounds, **options, rng=np.random.default_rng(0))
    assert left(other, moved) == pytest.approx(left(one, table), abs=0.05)


def test_synthetic_rows_say_what_they_do_not_keep(release):
    with pytest.warns(UserWarning, match="rf"):
        release.synthesize(100)


def test_periods_of_a_stream_and_years_are_pooled(table, tmp_path):
    pytest.importorskip("cryptography")
    study = pg.Study(table, COLUMNS, epsilon=9.0, delta=1e-5)
    stream = pg.Stream(study, 2, epsilon=4.0, delta=1e-6, path=tmp_path / "a.stream")
    halves = [
        {k: v[part] for k, v in table.items()} for part in (slice(10_000), slice(10_000, None))
    ]
    for half in halves:
        stream.release(half)
    assert left(stream.upto().regress(FORMULA), table) < 0.3
    options = {"epsilon": 4.0, "delta": 1e-6, "mechanism": pg.AnalyzeGauss()}
    years = [pg.release(half, COLUMNS, **options) for half in halves]
    assert left(pg.pool(years).regress(FORMULA), table) < 0.3
