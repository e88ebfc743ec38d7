"""Generalised linear models by scores: what they fit, what they cost, what a round gives away."""

from dataclasses import replace

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.glm.link import GLMEstimator
from privgram.glm.state import ScoreState
from privgram.glm.survival import SurvivalEstimator
from privgram.regression.families import FAMILIES, Expected, exponential

sm = pytest.importorskip("statsmodels.api")

#: So large a budget that noise is nothing.
SURE = {"epsilon": 1e9, "delta": 0.5}

BOUNDS = {"a": (-4, 4), "b": (0, 10), "g": list("uvw")}
TARGETS = {"binomial": bool, "poisson": (0, 60)}
FORMULA = "y ~ a + b + g"


def made(family="binomial", n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    a, b, g = rng.normal(size=n).clip(-4, 4), rng.uniform(0, 10, n), rng.integers(0, 3, n)
    eta = 0.6 * a - 0.2 * b + 0.4 * g + 0.5
    if family == "binomial":
        y = rng.random(n) < 1 / (1 + np.exp(-eta))
    else:  # counts that vary more than Poisson's
        y = rng.poisson(np.exp(eta) * rng.gamma(2, 0.5, n)).clip(0, 60)
    return {"a": a, "b": b, "g": np.array(list("uvw"))[g], "y": y}


def columns_of(family, **more):
    return pg.Columns(BOUNDS | {"y": TARGETS[family]} | more, intercept=True)


def rows_of(table):
    levels = [table["g"] == level for level in "vw"]
    return np.column_stack([table["a"], table["b"], *levels, np.ones(len(table["a"]))]).astype(
        float
    )


def theirs(family, table, weights=None, offset=None, **options):
    kind = sm.families.Binomial() if family == "binomial" else sm.families.Poisson()
    y = np.asarray(table["y"], float)
    model = sm.GLM(y, rows_of(table), family=kind, var_weights=weights, offset=offset)
    return model.fit(tol=1e-12, **options)


def fitted(family="binomial", source=None, formula=FORMULA, columns=None, seed=1, **options):
    setting = {"epsilon": 1.0, "delta": 1e-6, "rng": np.random.default_rng(seed)} | options
    source = made(family) if source is None else source
    columns = columns_of(family) if columns is None else columns
    return pg.regress(source, formula, columns, family=family, **setting)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("family", TARGETS)
def test_without_noise_it_is_that_of_statsmodels(family, adjacency):
    """As near as steps that are taken to their end: a hundredth of a standard error."""
    table = made(family)
    other = theirs(family, table, cov_type="HC1")
    fit = fitted(family, table, adjacency=adjacency, **SURE)
    assert fit.param_names == ("a", "b", "g[v]", "g[w]", "Intercept")
    assert (fit.cov_type, fit.use_t) == ("HC1", False)
    errors = np.asarray(other.bse)
    np.testing.assert_allclose(fit.params, other.params, atol=1e-2 * errors.min())
    np.testing.assert_allclose(fit.bse, errors, rtol=0.1)  # curvature of clipped rows
    np.testing.assert_allclose(fit.predict(table), other.predict(rows_of(table)), rtol=1e-2)
    plain = fitted(family, table, adjacency=adjacency, cov_type="nonrobust", **SURE)
    np.testing.assert_allclose(plain.bse, theirs(family, table).bse, rtol=0.1)
    assert plain.cov_type == "nonrobust"
    ends = fit.get_prediction(table).conf_int(alpha=0.1)
    expected = other.get_prediction(rows_of(table)).conf_int(alpha=0.1)
    np.testing.assert_allclose(ends, expected, rtol=0.05)


@pytest.mark.parametrize("family", TARGETS)
def test_offset_is_that_of_statsmodels(family, tmp_path):
    """The fit and its file say it, since predictions leave it out."""
    table = made(family)
    table["log_size"] = 0.3 * table["a"] + 0.1 * table["b"]
    columns = columns_of(family, log_size=(-2, 3))
    fit = fitted(family, table, f"{FORMULA} + offset(log_size)", columns, **SURE)
    other = theirs(family, table, offset=table["log_size"])
    np.testing.assert_allclose(fit.params, other.params, atol=0.02 * np.min(other.bse))
    expected = other.predict(rows_of(table), offset=np.zeros(len(table["a"])))
    np.testing.assert_allclose(fit.predict(table), expected, rtol=1e-2)
    fit.save(tmp_path / "fit.json")
    again = pg.load(tmp_path / "fit.json")
    assert again.parameters["offset"] == "log_size"
    assert "log_size is added to the linear predictor" in str(again.summary())


@pytest.mark.slow
def test_every_form_of_a_target():
    table = made()
    fits = [fitted(source=table, **SURE)]
    numbers = columns_of("binomial", y=(0, 1))
    fits.append(fitted(source=table | {"y": table["y"].astype(float)}, columns=numbers, **SURE))
    said = table | {"y": np.where(table["y"], "yes", "no")}
    fits.append(fitted(source=said, columns=columns_of("binomial", y=["no", "yes"]), **SURE))
    three = columns_of("binomial", y=["maybe", "no", "yes"])
    fits.append(fitted(source=said, formula="y[yes] ~ a + b + g", columns=three, **SURE))
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.params, fits[0].params, atol=1e-4)
    np.testing.assert_array_equal(fits[1].params, fits[0].params)


@pytest.mark.parametrize("odd", [0.5, -1.0, 2.0, np.inf, np.nan, 1e-300])
def test_target_that_is_neither_0_nor_1_is_missing(odd):
    y = made()["y"].astype(float)
    y[::9] = odd
    columns = pg.Columns(BOUNDS | {"y": (0, 1)}, intercept=True, missing="drop")
    hole = np.where(np.arange(len(y)) % 9 == 0, np.nan, y)
    fits = [fitted(source=made() | {"y": one}, columns=columns) for one in (y, hole)]
    np.testing.assert_array_equal(fits[0].params, fits[1].params)


@pytest.mark.parametrize("family", TARGETS)
def test_weights_and_no_intercept(family):
    table, weight = made(family), np.random.default_rng(4).uniform(0, 2, 20_000)
    columns = columns_of(family, w=(0, 2))
    weighted = pg.Columns(columns.variables, row_weights="w", intercept=True)
    fit = fitted(family, table | {"w": weight}, columns=weighted, **SURE)
    other = theirs(family, table, weight)
    np.testing.assert_allclose(fit.params, other.params, atol=0.02 * np.min(other.bse))
    through = fitted(family, table, formula="y ~ a + b - 1", **SURE)
    kind = sm.families.Binomial() if family == "binomial" else sm.families.Poisson()
    X = np.column_stack([table["a"], table["b"]])
    exact = sm.GLM(np.asarray(table["y"], float), X, family=kind).fit(tol=1e-12)
    assert (np.abs(np.asarray(through.params) - exact.params) < 0.1 * exact.bse).all()
    with pytest.raises(ValueError, match="an intercept where rows have weights"):
        fitted(family, table | {"w": weight}, columns=weighted, formula="y ~ a - 1")


@pytest.mark.slow
@pytest.mark.parametrize("family", TARGETS)
def test_scores_of_units_have_clustered_errors(family):
    table = made(family)
    who = np.repeat(np.arange(10_000), 2)
    other = theirs(family, table, cov_type="cluster", cov_kwds={"groups": who})
    fit = fitted(family, table | {"who": who}, unit=pg.Unit("who", max_rows=3), **SURE)
    assert (fit.cov_type, fit.unit) == ("cluster", "who")
    np.testing.assert_allclose(fit.params, other.params, atol=0.1 * np.min(other.bse))
    np.testing.assert_allclose(fit.bse, other.bse, rtol=0.25)  # of units that were clipped


def test_exponential_is_within_two_units_in_the_last_place():
    x = np.concatenate([np.linspace(-700, 700, 200_001), [0.0, np.nan]])
    found, exact = exponential(x), np.exp(x)
    assert np.isnan(found[-1])
    assert found[-2] == 1.0
    assert (np.abs(found - exact)[:-1] <= 2 * np.spacing(exact[:-1])).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_the_slopes_of_means_and_the_variances(family):
    eta, link = np.linspace(-8, 8, 1001), FAMILIES[family]
    mean, root = link.means(eta)
    slope = (link.means(eta + 1e-6)[0] - link.means(eta - 1e-6)[0]) / 2e-6
    np.testing.assert_allclose(root**2, slope, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose([link.variance(m) for m in mean], root**2, rtol=1e-9)
    np.testing.assert_allclose(link.predictor(float(mean[300])), eta[300], rtol=1e-9)
    assert link.mean_of_none == mean[500]
    most = float(mean[-1])
    assert Expected(link, eta, (most / 2, most / 2), None).steepest == pytest.approx(root.max())


def test_likelihoods_say_that_they_take_the_rows():
    fit = fitted()
    for name in ("deviance", "null_deviance", "llf", "aic", "bic", "resid"):
        with pytest.raises(AttributeError, match=r"does not hold|holds sums"):
            getattr(fit, name)
    assert fit.scale == 1.0
    refuses(lambda: fit.predict(made(), which="prob"), ValueError, "'mean' or 'linear'")


@pytest.mark.parametrize("kind", ["separated", "constant", "few rows"])
def test_unidentified_coefficients_are_reported(kind):
    """No error, since what was spent is spent: a fit without inference."""
    rng = np.random.default_rng(4)
    n = 60 if kind == "few rows" else 5000
    a = rng.uniform(-4, 4, n)
    y = {"separated": a > 0, "constant": a > 9, "few rows": rng.random(n) < 0.5}[kind]
    columns = {"a": (-4, 4), "b": (0, 10), "y": bool}
    table = {"a": a, "b": a % 1, "y": y}
    # Noise of epsilon 1 hides that steps go on.
    epsilon = 4.0 if kind == "separated" else 1.0
    fit = fitted(source=table, formula="y ~ a + b", columns=columns, epsilon=epsilon)
    assert fit.refusal is not None
    assert np.isnan(fit.bse).all()
    assert np.isnan(fit.params).all()
    refuses(lambda: fit.predict({"a": a, "b": a}), ValueError, "there is no fit")


@pytest.mark.parametrize(("size", "settled"), [(0.05, True), (0.2, False)])
def test_last_step_that_noise_does_not_explain_has_not_settled(size, settled, monkeypatch):
    """One that changes the linear predictor by a fifth; it is too short for any other refusal."""
    last_scores = GLMEstimator._last_scores

    def with_second(estimator, state, clip):
        parts = last_scores(estimator, state, clip)
        along = np.eye(estimator.q)[0] * size * state.rows
        return replace(parts, path=replace(parts.path, second=state.step(along)))

    monkeypatch.setattr(GLMEstimator, "_last_scores", with_second)
    refusal = fitted(**SURE).refusal
    assert refusal is None if settled else refusal.startswith("the steps have not settled")


@pytest.mark.parametrize(
    ("family", "weight", "bend"),
    [("binomial", 0.05, 2), ("binomial", 0.25, 0.25), ("poisson", 0.01, 5), ("poisson", 9, 0.25)],
)
def test_bend_of_a_link_is_half_the_skew_of_its_error(family, weight, bend):
    """(1 - 2p) / sqrt(p (1 - p)) of a coin, 1 / sqrt(m) of a count, and at least a quarter.

    Of pieces each of 9 directions has a third of it.
    """
    for kind, each in ((GLMEstimator, bend), (SurvivalEstimator, max(bend / 3, 0.25))):
        estimator = object.__new__(kind)
        estimator.family, estimator.q = FAMILIES[family], 9
        assert estimator._bend(weight) == pytest.approx(each)


def test_path_of_both_last_steps_that_bends_is_refused(monkeypatch):
    monkeypatch.setattr(ScoreState, "bends", lambda *_: True)
    assert fitted(**SURE).refusal.startswith("the steps have not settled")


@pytest.mark.parametrize(("bias", "settled"), [(0.49, True), (0.51, False)])
def test_hessian_that_may_be_off_by_half_refuses_the_fit(bias, settled, monkeypatch):
    last_scores = GLMEstimator._last_scores

    def with_bias(estimator, state, clip):
        parts = last_scores(estimator, state, clip)
        object.__setattr__(state, "hessian_bias", bias)
        return parts

    monkeypatch.setattr(GLMEstimator, "_last_scores", with_bias)
    assert (fitted(**SURE).refusal is None) == settled


def test_error_counts_how_the_hessian_changed_on_the_way_of_the_first_last_step(monkeypatch):
    """What is a part c of it leaves c / (1 - c) of the second, which goes by the same Hessian."""
    seen, last_scores = [], GLMEstimator._last_scores

    def noted(estimator, state, clip):
        seen.append((state, last_scores(estimator, state, clip)))
        return seen[0][1]

    monkeypatch.setattr(GLMEstimator, "_last_scores", noted)
    fit = fitted(epsilon=0.5)
    ((state, parts),) = seen
    way = parts.coef - parts.path.second - state.coef
    changed = 2 * state.curvature * np.linalg.norm(state.along(way))
    part = changed / state.rows
    assert 0.01 < part < 0.9
    ahead = part / (1 - part) * parts.path.second
    np.testing.assert_allclose(fit.noise - parts.noise, np.outer(ahead, ahead), rtol=1e-6)


def test_nothing_is_spent_for_what_cannot_be_fitted(tmp_path):
    ledger, table = pg.Ledger(tmp_path / "one", epsilon=5.0, delta=1e-5), made()
    iterator = iter([table])
    for options, problem in [
        ({"formula": "a ~ b"}, "not binary"),
        ({"formula": "g ~ a"}, r"3 levels.*'g\[u\]'"),
        ({"formula": "y ~ y"}, "among the features"),
        ({"formula": "a ~ b", "family": "poisson"}, "no count"),
        ({"formula": "y ~ [a ~ b]"}, "instruments are of family"),
        ({"source": iterator}, "fitted by scores"),
        ({"mechanism": "adaptive-gaussian"}, "mechanism is of"),
        ({"delta": 0.0}, "delta"),
        ({"out": tmp_path / "fit.txt"}, r"\.json or \.npz"),
        ({"family": "gamma"}, "family is 'gaussian'"),
    ]:
        given = {"family": "binomial", "source": table, "ledger": ledger} | options
        with pytest.raises((ValueError, TypeError), match=problem):
            fitted(columns=columns_of("binomial"), **given)
    assert not ledger.entries


@pytest.mark.parametrize(("family", "is_more"), [("poisson", True), ("binomial", False)])
def test_long_scores_of_counts_alone_make_intervals_longer(family, is_more):
    """They lie beyond their means, all on one side."""
    fit = fitted(family, made(family, 5000), formula="y ~ a + b", seed=0)
    assert fit.refusal is None
    assert ("clipping_excess" in fit.parameters) == is_more


@pytest.mark.slow
def test_few_events_beside_much_noise_are_refused():
    """100 events of 2,000: without the rule four of ten are offered and hold a quarter."""
    truth, hits = np.array([0.5, 1.0, -0.5, -3.0]), [np.ones(4)]
    bounds = {"a": (-5, 5), "b": (0, 1), "c": (0, 1), "y": bool}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.normal(size=2000).clip(-5, 5), rng.random((2000, 2)) < [0.1, 0.5]])
        y = rng.random(2000) < 1 / (1 + np.exp(-(X @ truth[:3] + truth[3])))
        fit = pg.regress(
            dict(zip("abc", X.T, strict=True)) | {"y": y},
            "y ~ a + b + c",
            bounds,
            1.0,
            1e-6,
            family="binomial",
            adjacency="add-remove",
            rng=rng,
        )
        if fit.refusal is None:
            low, high = np.asarray(fit.conf_int()).T
            hits.append((low <= truth) & (truth <= high))
    assert np.mean(hits) > 0.85


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_intervals_hold(adjacency):
    """100 samples of 5 parameters: single ones are held to 0.87, 3.7 standard errors below 0.95."""
    truth, hits = np.array([0.6, -0.2, 0.4, 0.8, 0.5]), []
    for seed in range(100):
        table = made(n=4000, seed=seed)
        fit = fitted(source=table, adjacency=adjacency, epsilon=2.0, seed=seed)
        if fit.refusal is None:
            low, high = np.asarray(fit.conf_int()).T
            hits.append((low <= truth) & (truth <= high))
    assert len(hits) > 90
    assert np.mean(hits, axis=0).min() > 0.87
