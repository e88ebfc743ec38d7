"""Whatever the formula, what `study.regress` returns is asked and saved in the same way."""

import numpy as np
import pytest

import privgram as pg
from privgram.regression import RegressionResults

DELTA = 1e-6
LEVELS = list("abcdef")
YEARS = [2019, 2020, 2021]


@pytest.fixture(scope="module")
def table():
    """y has the effect 2 of x, which is .5 of z and goes with the error u."""
    rng = np.random.default_rng(0)
    n = 20_000
    firm, year = rng.integers(0, 6, n), rng.integers(0, 3, n)
    z, u, e = np.clip(rng.standard_normal((3, n)), -4, 4)
    x = 0.5 * z + 0.5 * u + np.clip(rng.standard_normal(n), -4, 4)
    y = 1 + 2 * x + 0.3 * firm + 0.5 * year + u + e
    names = {"firm": np.array(LEVELS)[firm], "year": np.array(YEARS)[year]}
    return {"x": x, "z": z, "y": y, "win": y > 2, "count": rng.poisson(np.exp(z / 4)), **names}


COLUMNS = {
    "x": (-8, 8), "z": (-4, 4), "y": (-30, 30), "win": bool, "count": (0, 30),
    "firm": LEVELS, "year": pg.Factor(YEARS),
}  # fmt: skip

#: A formula and its options; how it is made; which errors it has.
FITS = {
    "scores": ("y ~ x", {}, "scores", "HC1"),
    "one absorbed": ("y ~ x | firm", {}, "scores", "HC1"),
    "written out": ("y ~ x + firm", {}, "scores", "HC1"),
    "two absorbed": ("y ~ x | firm + year", {}, "scores", "HC1"),
    "instruments": ("y ~ 1 | x ~ z", {}, "scores", "HC1"),
    "instruments, by group": ("y ~ firm | x ~ z", {"cov_type": "nonrobust"}, "scores", "nonrobust"),
    "both": ("y ~ 1 | firm + year | x ~ z", {}, "adaptive rounds", "nonrobust"),
    "mechanism": ("y ~ x", {"mechanism": "analyze-gauss"}, "AnalyzeGauss", "nonrobust"),
    "plain": ("y ~ x", {"cov_type": "nonrobust"}, "scores", "nonrobust"),
    "logit, absorbed": ("win ~ z | firm", {"family": "binomial"}, "scores", "HC1"),
    "logit": ("win ~ z", {"family": "binomial"}, "scores", "HC1"),
    "counts": ("count ~ z", {"family": "poisson"}, "scores", "HC1"),
    "huber": ("y ~ x", {"loss": "huber"}, "scores", "HC1"),
    "refused": ("y ~ x + firm", {"epsilon": 1e-3}, "one round", "nonrobust"),
    "refused instruments": ("y ~ 1 | x ~ z", {"epsilon": 1e-3}, "one round", "nonrobust"),
}


@pytest.fixture(scope="module", params=FITS)
def answered(request, table, tmp_path_factory):
    formula, options, method, cov_type = FITS[request.param]
    out = tmp_path_factory.mktemp("fits") / "fit.json"
    options = {"epsilon": 8.0, "out": out, "rng": np.random.default_rng(1)} | options
    epsilon = options.pop("epsilon")
    fit = pg.regress(table, formula, COLUMNS, epsilon, DELTA, **options)
    return fit, out, method, cov_type


def test_every_fit_has_the_same_questions(answered, table):
    fit, _, method, cov_type = answered
    assert isinstance(fit, RegressionResults)
    assert fit.cov_type == cov_type
    assert fit.parameters["method"].startswith(method)
    assert isinstance(fit.parameters["reason"], str)
    assert fit.privacy.delta(fit.epsilon) == pytest.approx(DELTA, rel=0.01)
    assert (fit.adjacency, fit.reproducible) == ("replace", True)
    assert len(fit.conf_int()) == len(fit.params) == len(fit.param_names)
    new = {name: values[:3] for name, values in table.items()}
    if fit.refusal is not None:
        for ask in (fit.wald_test_terms, lambda: fit.predict(new), lambda: fit.rsquared):
            with pytest.raises(pg.RefusedError):
                ask()
        assert fit.refusal in str(fit.summary())
        return
    assert list(fit.wald_test_terms().index) == list(fit.design.terms)
    assert fit.predict(new).shape == fit.get_prediction(new).se_mean.shape == (3,)
    if fit.parameters.get("huber") or fit.parameters.get("absorbed") or not fit._family.is_linear:
        with pytest.raises(pg.RefusedError, match="does not hold"):
            _ = fit.rsquared
        return
    assert 0 < fit.rsquared_adj < fit.rsquared < 1


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_file_of_out_is_the_fit(answered, tmp_path, suffix):
    fit, out, *_ = answered
    fit.save(tmp_path / f"again{suffix}")
    for path in (out, tmp_path / f"again{suffix}"):
        loaded = pg.load(path, RegressionResults)
        assert type(loaded) is type(fit)
        if fit.refusal is None:
            assert str(loaded.summary()) == str(fit.summary())
        np.testing.assert_array_equal(loaded.params, fit.params)
        np.testing.assert_array_equal(loaded.cov_params(), fit.cov_params())
        assert loaded.parameters == fit.parameters
        assert (loaded.refusal, loaded.cov_type) == (fit.refusal, fit.cov_type)


def test_effects_after_the_bar_are_taken_along_and_not_shown(table):
    """Of a release too: slopes are those with the effects written out."""
    options = {"epsilon": 8.0, "delta": DELTA, "mechanism": "analyze-gauss"}
    release = pg.release(table, pg.Columns(COLUMNS, intercept=True), **options)
    shown, hidden = (release.regress(f"y ~ x {sign} firm + year") for sign in "+|")
    assert hidden.param_names == ("x", "Intercept")
    for name in ("params", "bse", "tvalues"):
        assert getattr(hidden, name)["x"] == getattr(shown, name)["x"]
    levels = {"firm": LEVELS, "year": YEARS}
    parts = [
        shown.params[f"{of}[{level}]"] * np.mean(table[of] == level)
        for of, names in levels.items()
        for level in names[1:]
    ]
    mean = shown.params["Intercept"] + sum(parts)
    assert hidden.params["Intercept"] == pytest.approx(mean, abs=0.05)
    assert hidden.bse["Intercept"] < shown.bse["Intercept"]
    instrumented = release.iv("y ~ 1 | firm + year | x ~ z")
    assert instrumented.param_names == ("x", "Intercept")
    written = release.iv("y ~ firm + year | x ~ z")
    np.testing.assert_allclose(instrumented.params["x"], written.params["x"])
    tests = [fit.wald_test_terms() for fit in (hidden, shown)]
    assert list(tests[0].index) == ["x"]
    np.testing.assert_allclose(tests[0].loc["x"], tests[1].loc["x"])
    for fit in (hidden, instrumented):
        said = str(fit.summary())
        assert (
            "Effects of firm, year are taken along, not shown: the intercept is at their means"
            in said
        )
        assert "firm[" not in said
    through = release.regress("y ~ 0 + x | firm + year")
    assert through.param_names == ("x",)
    assert through.params["x"] == pytest.approx(shown.params["x"], rel=1e-6)


def test_effects_after_the_bar_are_not_shown_of_other_families(table, tmp_path):
    options = {"epsilon": 8.0, "delta": DELTA, "family": "binomial"}
    shown, hidden = (
        pg.regress(table, f"win ~ z {sign} firm", COLUMNS, rng=np.random.default_rng(0), **options)
        for sign in "+|"
    )
    assert hidden.param_names == ("z", "Intercept")
    names = list(hidden.param_names)
    np.testing.assert_array_equal(hidden.params, shown.params[names])
    np.testing.assert_allclose(hidden.bse, shown.bse[names])
    assert "of firm are taken along, not shown: the intercept is of their" in str(hidden.summary())
    at_reference = hidden.predict({"z": [0.5]})
    np.testing.assert_allclose(at_reference, shown.predict({"z": [0.5], "firm": ["a"]}))


def test_three_ways_are_side_by_side(table):
    """By scores, with one factor absorbed, and on a release: one way to ask, and each says how."""
    study = pg.Study(table, COLUMNS, epsilon=30.0, delta=DELTA)
    fits = [study.regress(formula, epsilon=8.0) for formula in ("y ~ x", "y ~ x | firm + year")]
    fits.append(study.regress("y ~ x | firm + year", epsilon=8.0, mechanism="analyze-gauss"))
    for fit in fits:
        assert fit.param_names == ("x", "Intercept")
        low, high = fit.conf_int().loc["x"]
        assert low < fit.params["x"] < high
    [*_, last] = [str(fit.summary()) for fit in fits]
    assert "as a mechanism was asked for" in last
    assert "errors of equal variance" in last
    assert "study.regress does not" not in last


def test_instruments_of_units_have_the_caveat_of_least_squares():
    rng = np.random.default_rng(0)
    n, person = 8_000, np.arange(8_000) // 4
    z, u = rng.uniform(-1, 1, (2, n))
    x = z + u
    people = {"person": person, "x": x, "z": z, "y": x + u + rng.uniform(-1, 1, n)}
    columns = {"x": (-2, 2), "z": (-1, 1), "y": (-4, 4)}
    unit = pg.Unit("person", max_rows=4)
    fit = pg.regress(people, "y ~ 1 | x ~ z", columns, 8.0, DELTA, unit=unit)
    assert fit.refusal is None
    said = str(fit.summary())
    assert "They assume that errors of rows of one person are independent" in said
    assert "All rows of one person are protected together" in said


def test_predictions_of_instruments_work_or_say_what_to_do(table):
    fit = pg.regress(table, "y ~ 1 | x ~ z", COLUMNS, 8.0, DELTA)
    new = {"x": [0.0, 1.0]}
    np.testing.assert_allclose(np.diff(fit.predict(new)), fit.params["x"])
    mean = fit.get_prediction(new)
    assert (mean.conf_int(obs=True)[:, 1] > mean.conf_int()[:, 1]).all()
    hidden = pg.regress(table, "y ~ 1 | x ~ z", COLUMNS, 1e-3, DELTA)
    with pytest.raises(
        pg.RefusedError, match=r"nothing to predict by.*regress\(..., ridge='auto'\)"
    ):
        hidden.predict(new)
