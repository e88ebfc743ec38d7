"""Tables that other packages make of a fit, by the packages themselves."""

import math
from io import StringIO

import numpy as np
import pytest
from support.helpers import make_release, refuses, slopes

import privgram as pg
from privgram.regression.results import NotReleasedError

pd = pytest.importorskip("pandas")
exact_fits = pytest.importorskip("support.exact_fits")
CASES, logistic = exact_fits.CASES, exact_fits.logistic
CASE = next(case for case in CASES.values() if case.intercept and not case.weighted)


def test_summary_col_of_statsmodels():
    """Beside a fit of its own: two columns of the same numbers."""
    summary2 = pytest.importorskip("statsmodels.iolib.summary2")
    table = summary2.summary_col([CASE.fit, CASE.ols], stars=True).tables[0]
    assert list(table.iloc[:, 0]) == list(table.iloc[:, 1])
    assert "R-squared" in table.index
    assert not table.columns.duplicated().any()


def test_tables_are_read_back_from_every_form():
    summary = CASE.fit.summary()
    read = pd.read_html(StringIO(summary.tables[1].as_html()), header=0, index_col=0)[0]
    np.testing.assert_allclose(read["coef"], CASE.fit.params, rtol=1e-3)
    np.testing.assert_allclose(summary.frame()["std err"], CASE.fit.bse)
    frame = pd.DataFrame(summary.tables[1].data)
    assert frame.shape == (1 + len(CASE.fit.params), 7)
    assert summary.as_latex().count(r"\begin{tabular}") == 2
    renamed = CASE.fit.summary(yname="pay_%", xname=["a_b"] * len(CASE.fit.params), title="Table 1")
    assert r"pay\_\%" in renamed.as_latex()
    assert "Table 1" in str(renamed)
    refuses(lambda: CASE.fit.summary(xname=["a"]), ValueError, "xname has")


def test_where_the_number_of_rows_alone_is_missing_there_are_estimates():
    rows = np.random.default_rng(1).uniform(-1, 1, (500, 3))
    fit = make_release(rows.T @ rows, ("a", "b", "y")).regress("y")
    assert "number of rows is private" in fit.refusal
    expected = np.linalg.lstsq(rows[:, :2], rows[:, 2])[0]
    np.testing.assert_allclose(fit.params, expected, rtol=1e-6)
    assert np.isnan(fit.bse).all()
    assert "No standard errors" in str(fit.summary())


def test_count_is_printed_with_its_error_and_units_as_such():
    rng = np.random.default_rng(2)
    table = {"x": rng.uniform(0, 1, 20_000), "y": rng.uniform(0, 1, 20_000)}
    columns = pg.Columns({"x": (0, 1), "y": (0, 1)}, intercept=True)
    fit = pg.release(
        table, columns, 1.0, 1e-6, adjacency="add-remove", mechanism=pg.AnalyzeGauss(), rng=rng
    ).regress("y")  # fmt: skip
    count, error = fit.summary().facts["No. Observations"].split(" ± ")
    assert abs(int(count.replace(",", "")) - 20_000) < 5 * int(error)
    assert int(error) == math.ceil(fit.nobs_stderr) > 0
    assert fit.inference.df.max() <= fit.nobs - 2
    assert fit.f_test("x").df_denom <= fit.nobs - 2
    assert slopes(fit).shape == (1,)


@pytest.mark.slow
def test_marginal_effects_are_of_a_public_grid():
    """By the delta method: slopes and means of the grid, by hand."""
    effects = pytest.importorskip("marginaleffects")
    from privgram.interop.marginaleffects import marginal_model, public_grid

    fit = CASE.release.regress(CASE.target, ["poly(x, 2)", "log(w)", "b", "f"])
    model, grid = marginal_model(fit), public_grid(fit)
    assert set(grid) == {"x", "w", "b", "f"}
    refuses(lambda: public_grid(fit, 0), ValueError, "at least 1")
    assert grid["x"].min() >= 2
    assert grid["x"].max() <= 10
    slope = np.zeros(len(fit.params))
    slope[:2] = 1, 2 * grid["x"].mean()
    rows = fit._rows(grid).mean(axis=0)
    for effect, contrast in (
        (effects.avg_slopes(model, variables="x"), slope),
        (effects.avg_predictions(model), rows),
    ):
        effect = getattr(effect, "data", effect)
        assert effect["estimate"][0] == pytest.approx(contrast @ np.asarray(fit.params), rel=1e-5)
        expected = np.sqrt(contrast @ np.asarray(fit.cov_params()) @ contrast)
        assert effect["std_error"][0] == pytest.approx(expected, rel=1e-3)


def test_marginal_effects_of_a_factor_are_between_its_levels():
    """Over rows that are passed too, whose levels are texts."""
    effects, polars = pytest.importorskip("marginaleffects"), pytest.importorskip("polars")
    from privgram.interop.marginaleffects import marginal_model

    rng = np.random.default_rng(0)
    x, g = rng.uniform(0, 1, 5_000), rng.choice(["a", "b"], 5_000)
    table = {"x": x, "g": g, "y": x + (g == "b") + rng.normal(0, 0.2, 5_000)}
    columns = {"x": (0, 1), "g": ["a", "b"], "y": (-1, 3)}
    fit = pg.regress(table, "y ~ x + g", columns, 1.0, 1e-6)
    for newdata in (None, polars.DataFrame({"x": [0.5, 0.6], "g": ["a", "b"]})):
        slopes = effects.avg_slopes(marginal_model(fit), newdata=newdata)
        slopes = getattr(slopes, "data", slopes)
        effect = dict(zip(slopes["term"], slopes["estimate"], strict=True))
        assert effect["g"] == pytest.approx(fit.params["g[b]"], rel=1e-6)


@pytest.mark.parametrize("width", [26_000, 1, 1e7])
def test_errors_of_slopes_are_those_of_the_fit_in_any_units(width):
    """In dollars they were 3 to 35 times too large: rounding, times the intercept's error."""
    effects = pytest.importorskip("marginaleffects")
    from privgram.interop.marginaleffects import marginal_model

    rng = np.random.default_rng(0)
    x, z = rng.uniform(0, 1, (2, 5_000))
    table = {"x": width * x, "z": z, "y": 1_000 + 5 * x - z + rng.normal(0, 1, 5_000)}
    columns = {"x": (0, width), "z": (0, 1), "y": (980, 1_020)}
    for fit in (
        pg.regress(table, "y ~ x + z", columns, 1.0, 1e-6, rng=rng),
        pg.release(table, columns, 1.0, 1e-6, rng=rng).regress("y ~ x + z"),
    ):
        model = marginal_model(fit, 32)
        slopes = effects.avg_slopes(model)
        errors = dict(zip(slopes["term"], slopes["std_error"], strict=True))
        assert errors == pytest.approx(dict(fit.bse[["x", "z"]]), rel=1e-3)
        with pytest.raises(TypeError, match=r"ask fit\.t_test"):
            effects.hypotheses(model)


@pytest.mark.slow
def test_marginal_effects_of_a_logistic_regression_are_on_probabilities():
    effects = pytest.importorskip("marginaleffects")
    from privgram.interop.marginaleffects import marginal_model, public_grid

    fit = logistic(CASE)[0]
    model, grid = marginal_model(fit), public_grid(fit)
    predictions = effects.avg_predictions(model)
    predictions = getattr(predictions, "data", predictions)
    p = fit.predict(grid)
    assert predictions["estimate"][0] == pytest.approx(p.mean(), rel=1e-6)
    contrast = (fit._rows(grid) * (p * (1 - p))[:, None]).mean(axis=0)
    expected = np.sqrt(contrast @ np.asarray(fit.cov_params()) @ contrast)
    assert predictions["std_error"][0] == pytest.approx(expected, rel=1e-3)


def test_anova_of_statsmodels_is_refused():
    """It took sums of squares of two fits to differ by their features alone: F 216 for 43."""
    anova_lm = pytest.importorskip("statsmodels.stats.anova").anova_lm
    restricted = CASE.release.regress(CASE.target, list(CASE.terms[:1]))
    score_fit = logistic(CASE)[0]
    for fits in [(restricted, CASE.fit), (CASE.ols, CASE.fit), (score_fit, score_fit)]:
        with pytest.raises(NotReleasedError, match=r"anova_lm.* noise does too.*f_test"):
            anova_lm(*fits)
    refuses(lambda: CASE.ols.compare_f_test(restricted), NotReleasedError, "noise does too")
    refuses(lambda: anova_lm(CASE.fit), NotReleasedError, "endog is of single rows")
