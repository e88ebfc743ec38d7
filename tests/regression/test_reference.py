"""Where noise is nothing, every number is the reference implementation's, to four digits."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.helpers import make_release, refuses
from support.regression_references import study, table

import privgram as pg
from privgram.noise import GaussianLaw
from privgram.regression import RefusedError
from privgram.regression.goodness import Goodness

sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")

DIGITS = 1e-4
LOUD = GaussianLaw(1e6, 1e6)


@pytest.fixture
def small():
    rows = np.random.default_rng(2).standard_normal((40, 3))
    rows = np.column_stack([rows, np.ones(40)])
    return make_release(rows.T @ rows, ("a", "b", "y", "intercept"), n_rows=40).regress("y")


@pytest.fixture(scope="module", params=["grunfeld", "cps1988"])
def case(request):
    one = study(request.param)
    return one, one.fit, sm.OLS(one.frame[one.target], one.design).fit()


def test_numbers_with_names_take_positions_and_cannot_be_changed(small, monkeypatch):
    assert small.params["b"] == small.params[1] == small.params[np.int64(-2)]
    assert list(small.params[:2].index) == ["a", "b"]
    for changed in (small.params, small.cov_params()):
        changed.iloc[0] = 7.0
    assert small.params["a"] == small.inference.estimate[0] != 7.0
    assert small.cov_params().loc["a", "a"] == small.inference.covariance[0, 0] != 7.0
    # Without pandas they are arrays.
    monkeypatch.setitem(sys.modules, "privgram.regression.named", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert type(small.params) is type(small.cov_params()) is np.ndarray
    assert_allclose(small.params, small.inference.estimate[:3])


@pytest.mark.slow
def test_summary_takes_no_pandas():
    """Pandas is imported where its objects are asked for: it takes longer than all regressions."""
    script = (
        "import sys, numpy as np, privgram as pg\n"
        "rows = np.random.default_rng(0).uniform(-1, 1, (500, 3))\n"
        "fit = pg.release(rows, bound=2.0, epsilon=10, delta=1e-6).regress('x2')\n"
        "fit.summary(), str(fit.summary()), fit.wald_test('x0'), fit.rsquared_int()\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=600)


def assert_same_pvalue(own, theirs):
    """In the logarithm, whose digits are those of the statistic; 0 is below float64."""
    assert_allclose(np.log(max(own, 1e-300)), np.log(max(theirs, 1e-300)), rtol=DIGITS)


def test_hypotheses(case):
    study, fit, ols = case
    assert_same_pvalue(fit.f_pvalue, ols.f_pvalue)
    a, b = study.features[:2]
    for hypothesis in (f"{a}, {b}", f"{a} = 2*{b}", f"{a} - {b}/3 = Intercept + 1, {a} = 0.5"):
        ours, theirs = fit.f_test(hypothesis), ols.f_test(hypothesis)
        assert_allclose([ours.fvalue, ours.df_num], [theirs.fvalue, theirs.df_num], rtol=DIGITS)
        assert_same_pvalue(ours.pvalue, theirs.pvalue)
        plain = ols.wald_test(hypothesis, use_f=False, scalar=True)
        assert_allclose(
            fit.wald_test(hypothesis, use_f=False).statistic, plain.statistic, rtol=DIGITS
        )
    matrix = np.eye(len(ols.params))[:2]
    assert_allclose(
        fit.f_test((matrix, [0.1, -0.2])).fvalue,
        ols.f_test((matrix, np.array([0.1, -0.2]))).fvalue,
        rtol=DIGITS,
    )


@pytest.mark.parametrize(
    ("hypothesis", "said"),
    [
        ("a*b", "not a linear equation"),
        ("a b", "not a linear equation"),
        ("a = ", "not a linear equation"),
        (" + ".join(["a"] * 5000), "not a linear equation"),
        ("1 / a = 2", "not a linear equation"),
        ("unknown", "the names are a, b, Intercept"),
        ("3 = 3", "says nothing"),
        (np.zeros((1, 3)), "a row of 3 numbers"),
        (np.eye(2), "a row of 3 numbers"),
        (object(), "a row of 3 numbers"),
        (((1, 0, 0), (0, 1, 0), (0, 0, 1)), "a row of 3 numbers"),  # a tuple is (R, r)
        (np.zeros((0, 3)), "a row of 3 numbers"),
        ([[1.0, np.nan, 0.0]], "a row of 3 numbers"),
        (([[1.0, 0.0, 0.0]], [np.inf]), "a row of 3 numbers"),
        ("a = 1e308 * 1e308", "numbers up to 1e.100"),
        ("1e308 * 1e308 * a = 1", "numbers up to 1e.100"),
        ("1e200 * a = 1", "numbers up to 1e.100"),
        ([[1e200, 0.0, 0.0]], "numbers up to 1e.100"),
    ],
)
def test_malformed_hypothesis_is_refused(small, hypothesis, said):
    refuses(lambda: small.wald_test(hypothesis), ValueError, said)


def test_contrasts_name_the_argument_that_is_wrong(small):
    refuses(lambda: small.t_test("a").conf_int(0.95), ValueError, r"pass alpha=0.05")


def test_constant_alone_predicts_and_has_no_overall_test(small):
    pandas = pytest.importorskip("pandas")
    fit = small.release.regress("y", [])
    for rows in (np.empty((2, 0)), {"a": [0.0, 1.0]}, pandas.DataFrame({"a": ["text", "more"]})):
        assert_allclose(fit.predict(rows), fit.params["Intercept"] * np.ones(2))
    with pytest.raises(ValueError, match="add a feature"):
        _ = fit.fvalue


def test_refused_inference_has_no_statistics(small):
    lost = replace(small, n_rows=None, release=replace(small.release, n_rows=None, noise=LOUD))
    for name in ("rsquared", "fvalue", "scale"):
        with pytest.raises(RefusedError, match="no inference"):
            getattr(lost, name)
    refuses(lambda: lost.get_prediction([[0.0, 0.0]]), RefusedError, "no inference")
    assert np.isnan([*lost.tvalues, lost.nobs]).all()


def test_terms_are_tested_by_name():
    frame = table("cps1988")[["wage", "education", "region"]]
    rng = np.random.default_rng(0)
    levels = ["midwest", "northeast", "south", "west"]
    columns = pg.Columns({"wage": (3, 11), "education": (0, 18), "region": levels}, intercept=True)
    release = pg.release(frame, columns, 1e14, 1e-6, mechanism=pg.AnalyzeGauss(), rng=rng)
    fit = release.regress("wage")
    ols = smf.ols("wage ~ education + region", frame).fit()
    test = fit.f_test("region")
    assert test.df_num == 3
    assert test.hypothesis[0] == "region[northeast] = 0"
    assert_allclose(test.statistic, fit.wald_test("region").statistic)
    theirs = ols.f_test(np.eye(5)[1:4])
    assert_allclose(test.fvalue, theirs.fvalue, rtol=DIGITS)
    several = fit.wald_test(["region[south] = 2 * region[west]", "education = 0.1"])
    assert several.df == 2
    assert "F(3, 28150)" in str(test)
    assert fit.f_test("region[T.south] = 0") == fit.f_test("region[south] = 0")
    with pytest.raises(ValueError, match=r"^region\[east\] = 0 is not understood"):
        fit.f_test("education = 1, region[east] = 0")


@pytest.mark.parametrize("degree", [2, 3])
def test_powers_of_large_numbers_are_tested_each(degree):
    """Years: in own units the coefficients of their powers are correlated but for 1e-10 or less."""
    rng = np.random.default_rng(0)
    year, x = rng.integers(1978, 2017, 3000), rng.uniform(0, 1, 3000)
    y = 0.02 * (year - 1997) + x + rng.uniform(-1, 1, 3000)
    terms = ["y", f"poly(year, {degree})", "x"]
    columns = pg.Columns({"y": (-6, 6), "year": (1978, 2016), "x": (0, 1)}, True, terms=terms)
    rows = {"year": year, "x": x, "y": y}
    fit = pg.release(rows, columns, 1e14, 1e-6, mechanism=pg.AnalyzeGauss(), rng=rng).regress("y")
    powers = ((year - 1997.0)[:, None] / 19) ** np.arange(1, degree + 1)
    ols = sm.OLS(y, np.column_stack([powers, x, np.ones(3000)])).fit()
    assert_allclose(fit.fvalue, ols.fvalue, rtol=DIGITS)
    test, theirs = fit.f_test(f"poly(year, {degree})"), ols.f_test(np.eye(degree + 2)[:degree])
    assert test.df_num == degree
    assert_allclose(test.fvalue, theirs.fvalue, rtol=DIGITS)
    assert_allclose(fit.wald_test_terms()["statistic"].iloc[0], theirs.fvalue, rtol=DIGITS)


@pytest.mark.parametrize("slope", [0.0, 0.3, 1.5])
def test_noise_in_r_squared_has_the_stated_deviation(slope):
    """1,000 draws of noise on one table: the deviation is known to 2.2 %, 10 % is 4.5 of these."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((2000, 2))
    y = X @ [slope, -slope] + rng.standard_normal(2000) + 1
    rows = np.column_stack([X, y, np.ones(2000)])
    noise = GaussianLaw(25.0, 30.0)
    exact = rows.T @ rows
    names = ("a", "b", "y", "intercept")
    shares = []
    for _ in range(1000):
        one = make_release(noise.draw(exact, rng), names, noise, 2000).regress("y")
        shares.append(Goodness.of(one._equations, one.design.constant).rsquared)
    fit = make_release(exact, names, noise, 2000).regress("y")
    assert np.std(shares) == pytest.approx(fit.rsquared_stderr, rel=0.1)
    assert np.mean(shares) == pytest.approx(fit.rsquared, abs=0.004)


@pytest.mark.slow
@pytest.mark.parametrize("by_hand", [False, True], ids=["terms", "indicators"])
def test_levels_that_hold_a_constant_count_as_one(by_hand):
    """As in statsmodels, R squared is about the mean, and F is of what else there is."""
    frame = table("cps1988")[["wage", "education", "region", "smsa"]]
    rng = np.random.default_rng(0)
    levels = {"region": ["midwest", "northeast", "south", "west"], "smsa": ["no", "yes"]}
    columns = pg.Columns({"wage": (3, 11), "education": (0, 18), **levels})
    release = pg.release(frame, columns, 1e14, 1e-6, mechanism=pg.AnalyzeGauss(), rng=rng)
    if by_hand:
        fit = release.regress("wage", [f"region[{level}]" for level in levels["region"]])
        ols = smf.ols("wage ~ C(region) - 1", frame).fit()
    else:
        # The image of the ones may be by the other factor, whose reference is left out.
        fit = release.regress("wage", ["education", "smsa", "region"], reference={"smsa": "yes"})
        ols = smf.ols("wage ~ education + C(smsa) + C(region) - 1", frame).fit()
    assert not fit.design.intercept
    for name in ("rsquared", "rsquared_adj", "fvalue", "df_model", "df_resid"):
        assert_allclose(getattr(fit, name), getattr(ols, name), rtol=DIGITS, err_msg=name)
    assert_allclose(fit.rsquared_int(), ols.rsquared, rtol=DIGITS)


def test_line_says_why_its_numbers_do_not_follow_from_each_other():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2000, 2))
    rows = np.column_stack([X, X @ [2.0, 0.0] + rng.standard_normal(2000), np.ones(2000)])
    columns = pg.Columns(dict.fromkeys("aby", (-1, 1)), intercept=True)
    exact, names = rows.T @ rows, columns.names

    def table_with(law=None):
        return make_release(exact, names, law, 2000, columns, bound=2.0).regress("y").summary()

    table = table_with(GaussianLaw(60.0, 85.0))
    column = dict(zip(table.columns, table.values.T, strict=True))
    apart = np.abs(column["t"] * column["std err"] / column["coef"] - 1) > 0.003
    marked = np.array([bool(mark) for mark in table.marks])
    assert marked[0]
    assert (marked >= apart).all()
    [number] = table.marks[0]
    assert "t takes it at 0" in table.notes[number - 1]
    assert str(table).splitlines()[9].endswith(f" [{number}]")
    assert not any(table_with().marks)


def test_notebooks_get_a_table():
    rows = np.random.default_rng(0).standard_normal((50, 2))
    columns = pg.Columns({"<b>": (-9, 9), "y": (-9, 9)})
    release = make_release(rows.T @ rows / 81, columns.names, None, 50, columns, bound=2.0)
    fit = release.regress("y")
    page = fit._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert f"<td>{fit.params[0]:.4g}</td>" in page
    assert page.count("<table>") == page.count("</table>") == 2
    assert "No standard errors" in make_release(np.eye(2), ("x", "y")).regress("y")._repr_html_()


@pytest.mark.slow
def test_terms_without_effect_are_rejected_as_often_as_stated():
    """500 draws at 5 %: a deviation of 1 %, so up to 9.5 % is 4.6 of these; the noise is large."""
    law, rng = GaussianLaw(60.0, 85.0), np.random.default_rng(9)
    rejected = []
    for _ in range(500):
        X = rng.standard_normal((2000, 3))
        X[:, 1] += X[:, 0]
        rows = np.column_stack([X, X[:, 0] + rng.standard_normal(2000), np.ones(2000)])
        names = ("a", "b", "c", "y", "intercept")
        one = make_release(law.draw(rows.T @ rows, rng), names, law, 2000).regress("y")
        rejected.append(one.wald_test_terms()["pvalue"].iloc[1:] < 0.05)
    shares = np.mean(rejected, axis=0)
    assert (shares < 0.095).all(), shares
    assert (shares > 0.015).all(), shares
