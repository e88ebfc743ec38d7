"""What a user sees is what a user knows: every method of a fit against the reference packages.

One table of cases (`support.exact_fits.CASES`: variables, terms, with and without an intercept and
weights of rows) by one table of methods, below. The releases have no noise, so the formulas are the
same. A public name that is in no table fails the suite.
"""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import pytest
import scipy.stats
from support.exact_fits import (
    CASES,
    VARIABLES,
    Case,
    by_hand,
    logistic,
    made_table,
    released,
    scored,
)
from support.helpers import refuses

import privgram as pg
from privgram.regression.glm import GLMResults
from privgram.regression.groups import GroupFits, regress_groups
from privgram.regression.results import NotReleasedError, RefusedError

#: For what takes any case.
FIRST = next(case for case in CASES.values() if case.intercept and not case.weighted)

sm = pytest.importorskip("statsmodels.api")
linearmodels = pytest.importorskip("linearmodels.iv")

#: Where formulas are the same; relative, and of the largest number of the row.
DIGITS = 1e-8


def same(own, theirs, digits=DIGITS):
    own, theirs = np.asarray(own, dtype=float), np.asarray(theirs, dtype=float)
    assert own.shape == theirs.shape
    np.testing.assert_allclose(
        own, theirs, rtol=digits, atol=digits * np.abs(theirs).max(initial=0)
    )


def alike(own, theirs, digits=DIGITS):
    """P values: in the logarithm, whose digits are those of the statistic."""
    small = 1e-290
    same(np.log(np.maximum(own, small)), np.log(np.maximum(theirs, small)), 100 * digits)


def labelled(own, theirs):
    assert list(own.index) == list(theirs.index)
    same(own, theirs)


def attribute(name, compare=same):
    return lambda case: compare(getattr(case.fit, name), getattr(case.ols, name))


def conf_int(case):
    for alpha in (0.05, 0.3):
        own, theirs = case.fit.conf_int(alpha), case.ols.conf_int(alpha)
        assert list(own.columns) == list(theirs.columns) == [0, 1]
        labelled(own, theirs)


def cov_params(case):
    own, theirs = case.fit.cov_params(), case.ols.cov_params()
    assert list(own.columns) == list(theirs.columns)
    labelled(own, theirs)


def matrix_of(case):
    """Two hypotheses, as numbers: names of levels are no names to patsy."""
    k = len(case.ols.params)
    found = np.zeros((2, k))
    found[0, 0], found[1, 0], found[1, 1] = 1.0, 1.0, -2.0
    return found, np.array([0.3, -0.1])


def t_test(case):
    own, theirs = case.fit.t_test(matrix_of(case)), case.ols.t_test(matrix_of(case))
    for name in ("effect", "sd", "tvalue", "statistic"):
        same(getattr(own, name), np.squeeze(getattr(theirs, name)))
    alike(own.pvalue, np.squeeze(theirs.pvalue))
    same(own.conf_int(0.1), theirs.conf_int(0.1))
    same(own.df_denom, np.full(2, theirs.df_denom))
    same(own.summary_frame().iloc[:, :3], theirs.summary_frame().iloc[:, :3])


def f_test(case):
    own, theirs = case.fit.f_test(matrix_of(case)), case.ols.f_test(matrix_of(case))
    for name in ("fvalue", "statistic", "df_num", "df_denom"):
        same(getattr(own, name), np.squeeze(getattr(theirs, name)))
    alike(own.pvalue, theirs.pvalue)


def wald_test(case):
    for use_f in (None, True, False):
        own = case.fit.wald_test(matrix_of(case), use_f=use_f)
        theirs = case.ols.wald_test(matrix_of(case), use_f=use_f, scalar=True)
        same(own.statistic, theirs.statistic)
        alike(own.pvalue, theirs.pvalue)
    first = case.ols.params.index[0]
    same(case.fit.wald_test(first).statistic, case.ols.tvalues.iloc[0] ** 2)


def predict(case):
    expected = case.ols.predict(case.design(case.new))
    same(case.fit.predict(case.new), expected)
    same(case.fit.predict({name: case.new[name].to_numpy() for name in case.new}), expected)


def get_prediction(case):
    own = case.fit.get_prediction(case.new)
    theirs = case.ols.get_prediction(case.design(case.new))
    for name in ("predicted_mean", "se_mean", "se_obs"):
        same(getattr(own, name), getattr(theirs, name))
    for obs in (False, True):
        same(own.conf_int(obs=obs, alpha=0.1), theirs.conf_int(obs=obs, alpha=0.1))
    frame, expected = own.summary_frame(0.2), theirs.summary_frame(0.2)
    assert list(frame.columns) == list(expected.columns)
    same(frame, expected)


def summary(case):
    own, theirs = case.fit.summary(), case.ols.summary()
    assert f"Dep. Variable: {case.target}" in " ".join(str(own).split())
    cells = own.tables[1].data
    assert [row[0] for row in cells[1:]] == list(case.ols.params.index)
    assert [head.strip() for head in cells[0]] == [
        head.strip() for head in theirs.tables[1].data[0]
    ]
    for row, expected in zip(cells[1:], case.ols.params, strict=True):
        assert float(row[1]) == pytest.approx(expected, rel=2e-3, abs=1e-9)
    for text in (own.as_text(), own.as_html(), own.as_latex()):
        assert "Dep. Variable" in text


def model(case):
    assert case.fit.model.endog_names == case.ols.model.endog_names == case.fit.target
    assert case.fit.model.exog_names == list(case.ols.model.exog_names)


def likelihood(name):
    def compare(case):
        if case.weighted:
            refuses(lambda: getattr(case.fit, name), ValueError, "weighted rows")
        else:
            same(getattr(case.fit, name), getattr(case.ols, name))

    return compare


def wald_test_terms(case):
    """As the F tests of each term."""
    found = case.fit.wald_test_terms()
    assert list(found.index) == list(case.fit.design.terms)
    for name, places in case.fit.design.terms.items():
        test = case.ols.f_test(np.eye(len(case.ols.params))[places])
        same(
            found.loc[name, ["statistic", "df_constraint"]], [np.squeeze(test.fvalue), test.df_num]
        )
        alike(found.loc[name, "pvalue"], test.pvalue)


def facts(case):
    fit, ols = case.fit, case.ols
    assert fit.use_t is ols.use_t is True
    assert fit.cov_type == ols.cov_type
    assert fit.refusal is fit.advice() is None
    assert fit.param_names == tuple(ols.params.index)


METHODS = {
    "params": attribute("params", labelled),
    "bse": attribute("bse", labelled),
    "tvalues": attribute("tvalues", labelled),
    "pvalues": attribute("pvalues", alike),
    **{
        name: attribute(name)
        for name in (
            "nobs", "df_resid", "df_model", "rsquared", "rsquared_adj", "mse_resid", "scale",
            "fvalue",
        )
    },
    "f_pvalue": attribute("f_pvalue", alike),
    **{name: likelihood(name) for name in ("llf", "aic", "bic")},
    **{
        compare.__name__: compare
        for compare in (
            conf_int, cov_params, t_test, f_test, wald_test, predict,
            get_prediction, summary, model, wald_test_terms,
        )
    },
    **dict.fromkeys(("use_t", "cov_type", "refusal", "advice", "param_names"), facts),
}  # fmt: skip

#: What has no counterpart, and where else it is tested.
OWN = {
    "target": "in model",
    "n_rows": "nobs",
    "nobs_stderr": "the noise's",
    "epsilon": "the guarantee",
    "delta": "the guarantee",
    "privacy": "the guarantee",
    "proof_status": "the guarantee",
    "inference": "what all is made of",
    "caution": "of noise",
    "rsquared_stderr": "of noise",
    "rsquared_int": "of noise",
    "without": "of penalised fits",
    **dict.fromkeys(("adjacency", "parameters", "reproducible"), "the guarantee"),
    "to_html": "tests/page",
    **dict.fromkeys(("save", "question", "not_scores"), "tests/study/test_protocol.py"),
    "ridge": "of penalised fits",
    "release": "the record",
    "design": "the record",
    "used": "of penalised fits",
    "theta": "of the design's columns",
}


@pytest.mark.parametrize(
    "cases", [[FIRST], pytest.param([*CASES.values()], marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", METHODS)
def test_fit_is_that_of_statsmodels(name, cases):
    for case in cases:
        METHODS[name](case)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("resid", "fittedvalues", "get_influence"), "single rows"),
        (("llnull", "deviance"), "Release.regress"),
        (("ssr", "ess", "compare_lr_test"), "f_test counts it"),
        (("HC1_se", "HC3_se"), "study.regress"),
        (("get_margeff",), "marginal_model"),
    ],
)
def test_attribute_that_a_fit_lacks_is_explained(names, text):
    for fit in (FIRST.fit, logistic(FIRST)[0]):
        for name in names:
            with pytest.raises(NotReleasedError, match=f"{name} .*{text}"):
                getattr(fit, name)
            assert not hasattr(fit, name)
        with pytest.raises(AttributeError, match="no attribute 'params_'"):
            _ = fit.params_
    with pytest.raises(NotReleasedError, match="rsquared takes sums"):
        _ = logistic(FIRST)[0].rsquared


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_kind_of_variable_and_term_is_in_the_table():
    used = {name for case in CASES.values() for name in case.names}
    assert {"x", "x^2", "x:z", "log(w)", "d", "b", "f[n]", "g[2]", "f[s]:g[2]", "x:f[s]"} <= used
    pairs = {(c.target, c.intercept, c.weighted) for c in CASES.values()}
    assert len(pairs) == 8


IV_METHODS = {
    "params", "bse", "tvalues", "pvalues", "conf_int", "cov_params", "nobs", "predict", "f_test",
    "wald_test", "first_stage", "kappa", "t_test", "rsquared", "rsquared_adj", "scale",
}  # fmt: skip
IV_OWN = {
    "endogenous", "instruments", "k", "overidentification", "question", "not_scores", "parameters",
    "adjacency", "privacy", "proof_status", "reproducible", "save", "get_prediction",
    "wald_test_terms", "mse_resid", "to_html", "anderson_rubin",
    "anderson_rubin_test", "summary", "model", "df_resid",
    "df_model", "use_t", "cov_type", "refusal", "advice", "param_names", "n_rows", "target",
    "release", "design", "epsilon", "delta", "inference", "caution", "nobs_stderr", "without",
    "fvalue", "f_pvalue", "rsquared_stderr", "rsquared_int", "scores",
}  # fmt: skip


@pytest.mark.parametrize("kappa", [1.0, "liml"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("target", ["y", "log(v)"])
def test_instruments_are_those_of_linearmodels(target, intercept, weighted, kappa):
    case = next(c for c in CASES.values() if c.weighted == weighted and c.terms == ("x", "z"))
    own = by_hand(case.table)
    exogenous = own[["b", "d"]].assign(Intercept=1.0) if intercept else own[["b", "d"]]
    kind = {1.0: linearmodels.IV2SLS, "liml": linearmodels.IVLIML}[kappa]
    weights = case.table.k.clip(0, 4) if weighted else None
    theirs = kind(own[target], exogenous, own[["x"]], own[["z", "log(w)"]], weights=weights).fit(
        cov_type="unadjusted", debiased=True
    )
    fit = case.release.iv(
        target, ["x"], ["z", "log(w)"], ["b", "d"], kappa=kappa, intercept=intercept
    )
    names = list(fit.param_names)
    same(fit.params, theirs.params[names])
    same(fit.bse, theirs.std_errors[names])
    same(fit.tvalues, theirs.tstats[names])
    alike(fit.pvalues, theirs.pvalues[names])
    same(fit.conf_int(), theirs.conf_int().loc[names])
    same(fit.cov_params(), theirs.cov.loc[names, names])
    same(fit.kappa, getattr(theirs, "kappa", 1.0))
    if not weighted:
        names_of = ("rsquared", "rsquared_adj", "scale")
        same([getattr(fit, x) for x in names_of], [theirs.rsquared, theirs.rsquared_adj, theirs.s2])
    assert fit.nobs == theirs.nobs
    new = by_hand(case.new).assign(Intercept=1.0)[names]
    same(fit.predict(case.new), new @ theirs.params[names])
    matrix = np.eye(len(names))[:2]
    gap = theirs.params[names][:2].to_numpy()
    statistic = gap @ np.linalg.solve(theirs.cov.loc[names, names].to_numpy()[:2, :2], gap)
    same(fit.wald_test(matrix, use_f=False).statistic, statistic)
    same(fit.f_test(matrix).statistic, statistic / 2)
    same(fit.t_test(matrix).effect, gap)


def test_every_method_of_instruments_is_in_the_table():
    case = FIRST
    fit = case.release.iv("y", ["x"], ["z"])
    assert public(fit) == IV_METHODS | IV_OWN
    for ask in (lambda: fit.rsquared_stderr, fit.rsquared_int):
        refuses(ask, RefusedError, "does not minimise the squares")


@pytest.mark.parametrize("target", ["y", "log(v)"])
@pytest.mark.parametrize("intercept", [True, False])
def test_groups_are_regressions_of_their_own(target, intercept):
    case = FIRST
    table, columns = case.table, case.release.columns
    terms, names = ["poly(x, 2)", "log(w)", "d"], ["x", "x^2", "log(w)", "d"]
    releases = {level: released(table[table.f == level], columns) for level in "nsw"}
    fits = regress_groups(releases, target, terms, intercept=intercept)
    X = by_hand(table)[names].assign(Intercept=1.0)[[*names, "Intercept"][: 4 + intercept]]
    y, new = by_hand(table)[target], by_hand(case.new)[names].assign(Intercept=1.0)
    for level in "nsw":
        theirs = sm.OLS(y[table.f == level], X[table.f == level]).fit()
        labelled(fits.params.loc[level], theirs.params)
        labelled(fits.bse.loc[level], theirs.bse)
        same(fits[level].predict(case.new), theirs.predict(new[X.columns]))
    difference = fits.difference("n", "s")
    same(difference.effect, fits.params.loc["n"] - fits.params.loc["s"])
    same(difference.sd, np.sqrt(fits.bse.loc["n"] ** 2 + fits.bse.loc["s"] ** 2))


def test_every_method_of_groups_is_in_the_table():
    mapping = {"keys", "items", "values", "get"}
    compared = {"params", "bse", "param_names", "difference"}
    own = {"by", "frame", "groups", "refusals", "target"}
    kept = regress_groups({"a": FIRST.release}, "y", ["x"])
    assert public(kept) == mapping | compared | own
    assert public(GroupFits) <= public(kept)


LOGISTIC = [label for label in CASES if "weighted" not in label and "bool" not in label]


@pytest.mark.parametrize("label", LOGISTIC)
def test_logistic_regression_is_that_of_statsmodels(label, tmp_path):
    case = CASES[label]
    fit, theirs, _ = logistic(case)
    assert set(fit.param_names) == set(theirs.params.index)
    names = list(fit.param_names)
    labelled(fit.params, theirs.params[names])
    same(fit.bse, theirs.bse[names], 1e-6)
    same(fit.tvalues, theirs.tvalues[names], 1e-6)
    same(fit.conf_int(0.1), theirs.conf_int(0.1).loc[names], 1e-6)
    same(fit.cov_params(), theirs.cov_params().loc[names, names], 1e-6)
    alike(fit.pvalues, theirs.pvalues[names], 1e-6)
    X = by_hand(case.new).assign(Intercept=1.0)[names]
    same(fit.predict(case.new, which="linear"), X @ theirs.params[names])
    same(fit.predict(case.new), theirs.predict(X[theirs.params.index]))
    other = theirs.get_prediction(X[theirs.params.index]).summary_frame()
    own = fit.get_prediction(case.new).summary_frame()
    same(own["mean"], other["predicted"])
    same(own["mean_se"], other["se"], 1e-6)
    matrix = np.eye(len(names))[:2]
    at = [list(theirs.params.index).index(name) for name in names[:2]]
    expected = theirs.wald_test(np.eye(len(names))[at], scalar=True).statistic
    same(fit.wald_test(matrix).statistic, expected, 1e-6)
    assert fit.use_t is theirs.use_t is False
    fit.save(tmp_path / "fit.json")
    labelled(pg.load(tmp_path / "fit.json").params, fit.params)


#: How much is explained: tests/glm/test_rsquared.py.
SHARE = {
    "rsquared", "rsquared_adj", "rsquared_stderr", "rsquared_int", "prsquared", "pseudo_rsquared",
    "pseudo_rsquared_stderr",  # tests/glm/test_rsquared.py
}  # fmt: skip

LOGISTIC_METHODS = {
    "params", "bse", "tvalues", "pvalues", "conf_int", "cov_params", "get_prediction",
    "predict", "wald_test", "use_t", "save", "param_names",
    "t_test", "f_test",
}  # fmt: skip
LOGISTIC_OWN = {
    "adjacency", "advice", "columns", "cov_type", "delta", "design", "df_model", "df_resid",
    "epsilon", "family", "inference", "model", "mse_resid", "n_rows", "nobs",
    "nobs_stderr", "noise", "parameters", "privacy", "reference", "refusal",
    "reproducible", "robust", "sampling", "scale", "solution", "proof_status", "summary",
    "target", "terms", "unidentified", "unit", "with_intercept",
    "wald_test_terms", "absorbed", "to_html", *SHARE, "fvalue", "f_pvalue", "by_level", "effects",
}  # fmt: skip


@dataclass(frozen=True)
class Scored(Case):
    """Least squares by scores, beside robust errors."""

    @cached_property
    def fit(self):
        return scored(self)

    @cached_property
    def ols(self):
        return super().ols.model.fit(cov_type="HC1", use_t=True)


SCORED = {
    label: Scored(*(getattr(case, field.name) for field in fields(case)))
    for label, case in CASES.items()
    if case.intercept
}

SCORED_METHODS = {
    name: METHODS[name]
    for name in (
        "params", "bse", "tvalues", "pvalues", "conf_int", "cov_params", "t_test", "f_test",
        "wald_test", "predict", "get_prediction", "summary", "model", "param_names",
        "nobs", "df_resid", "df_model", "use_t", "cov_type", "scale", "mse_resid", "refusal",
        "wald_test_terms", "fvalue", "f_pvalue",
    )
}  # fmt: skip
#: By scores the variance of errors is that at the mean weight; statsmodels' is at weight 1.
OF_ONE_WEIGHT = {"scale", "mse_resid", "get_prediction"}
SCORED_OWN = {
    "adjacency", "advice", "columns", "delta", "design", "epsilon", "family",
    "inference", "n_rows", "nobs_stderr", "noise", "parameters",
    "privacy", "reference", "reproducible", "robust", "sampling",
    "solution", "proof_status", "target", "terms", "unidentified", "unit", "with_intercept", "save",
    "absorbed", "to_html", *SHARE, "by_level", "effects",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORED_METHODS)
def test_fit_by_scores_is_that_of_statsmodels(name):
    for case in SCORED.values():
        if not (case.weighted and name in OF_ONE_WEIGHT):
            SCORED_METHODS[name](case)


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_refused_fit_by_scores_is_nan_everywhere(family):
    case = next(iter(SCORED.values()))
    whole = case.fit if family == "gaussian" else logistic(FIRST)[0]
    fit = replace(whole, refusal="the rows are too few")
    for name in ("params", "bse", "tvalues", "pvalues"):
        assert np.isnan(getattr(fit, name)).all()
    assert np.isnan(fit.conf_int()).all(axis=None)
    assert np.isnan(fit.cov_params()).all(axis=None)
    assert math.isnan(fit.scale)
    for ask in (
        lambda: fit.predict(case.new),
        lambda: fit.get_prediction(case.new),
        lambda: fit.t_test(np.eye(len(fit.params))),
        lambda: fit.wald_test(np.eye(len(fit.params))),
    ):
        refuses(ask, RefusedError, "the rows are too few")
    text = str(fit.summary())
    assert "No estimates: the rows are too few." in text
    assert fit.summary().as_html().count(">nan<") == 6 * len(fit.params)


RUN = {"epsilon": 1e24, "delta": 0.4}
ROUNDED = 2e-4


@pytest.mark.parametrize("of_units", [False, True])
@pytest.mark.parametrize(
    ("target", "formula", "names"),
    [
        ("y", "x + z", ["x", "z"]),
        (
            "log(v)",
            "poly(x, 2) + log(w) + d + b + f",
            ["x", "x^2", "log(w)", "d", "b", "f[s]", "f[w]"],
        ),
    ],
)
def test_run_of_scores_leads_to_least_squares(target, formula, names, of_units):
    table = made_table().drop(columns="k")
    who = np.arange(len(table)) // 3
    rows = table.assign(who=who) if of_units else table
    unit = pg.Unit("who", max_rows=3) if of_units else None
    columns = pg.Columns(VARIABLES, intercept=True)
    fit = pg.regress(
        rows, f"{target} ~ {formula}", columns, **RUN, unit=unit, rng=np.random.default_rng(0)
    )
    ols = sm.OLS(by_hand(table)[target], by_hand(table)[names].assign(Intercept=1.0))
    if of_units:  # statsmodels' factor for few clusters is another one
        theirs = ols.fit(cov_type="cluster", cov_kwds={"groups": who, "use_correction": False})
        n = theirs.nobs
        bse = theirs.bse * np.sqrt(n / (n - len(theirs.params)))
    else:
        theirs = ols.fit(cov_type="HC1", use_t=True)
        bse = theirs.bse
    np.testing.assert_allclose(fit.params, theirs.params, rtol=ROUNDED)
    np.testing.assert_allclose(fit.bse, bse, rtol=ROUNDED)
    np.testing.assert_allclose(fit.conf_int(), theirs.params.to_numpy()[:, None] + np.outer(
        bse, scipy.stats.t.ppf([0.025, 0.975], fit.df_resid)), rtol=1e-3, atol=1e-6)  # fmt: skip
    facts = fit.summary().facts
    if of_units:
        assert facts["No. Units"] == "100"
        assert facts["Weighted Rows"].startswith("300")
        assert "No. Observations" not in facts
    else:
        assert facts["No. Observations"] == "300"


def test_pooled_releases_are_one_of_the_union():
    case = FIRST
    halves = case.table[::2], case.table[1::2]
    parts = [released(half, case.release.columns) for half in halves]
    fit = pg.pool(parts, disjoint=True).regress(case.target, list(case.terms))
    labelled(fit.params, case.ols.params)
    labelled(fit.bse, case.ols.bse)
    same(fit.nobs, case.ols.nobs)
    same(fit.rsquared, case.ols.rsquared)
    same(fit.predict(case.new), case.ols.predict(case.design(case.new)))


def test_windows_of_a_stream_are_regressions_on_their_months(tmp_path):
    pytest.importorskip("cryptography")
    table = made_table()
    months = [table[i * 100 : (i + 1) * 100] for i in range(3)]
    variables = {name: VARIABLES[name] for name in ("x", "z", "w", "y")}
    study = pg.Study(table[list(variables)], variables, **RUN)
    stream = pg.Stream(study, 3, **RUN, path=tmp_path / "a.stream")
    for month in months:
        stream.release(month[list(variables)])
    asked = {
        "all": (stream.upto(), [0, 1, 2]),
        "first two": (stream.upto(2), [0, 1]),
        "last": (stream.window(), [2]),
        "last two": (stream.window(2), [1, 2]),
        "second": (stream.window(1, 2), [1]),
    }
    for release, numbers in asked.values():
        fit = release.regress("y ~ x + z + log(w)")
        own = by_hand(
            table.iloc[np.concatenate([np.arange(i * 100, (i + 1) * 100) for i in numbers])]
        )
        theirs = sm.OLS(own.y, own[["x", "z", "log(w)"]].assign(Intercept=1.0)).fit()
        np.testing.assert_allclose(fit.params, theirs.params, rtol=ROUNDED)
        np.testing.assert_allclose(fit.bse, theirs.bse, rtol=ROUNDED)
        assert fit.nobs == theirs.nobs
    same(stream.change("y ~ x").effect, stream.window().regress("y ~ x").params - stream.window(
        1, 2).regress("y ~ x").params)  # fmt: skip


def test_every_public_name_is_in_a_table():
    fit, by_scores = FIRST.fit, next(iter(SCORED.values())).fit
    assert public(fit) == set(METHODS) | set(OWN)
    assert not set(METHODS) & set(OWN)
    assert public(logistic(FIRST)[0]) == LOGISTIC_METHODS | LOGISTIC_OWN
    assert public(GLMResults) <= public(logistic(FIRST)[0])
    assert public(by_scores) == set(SCORED_METHODS) | SCORED_OWN
    compared = {"predicted_mean", "se_mean", "se_obs", "conf_int", "summary_frame"}
    assert public(fit.get_prediction(FIRST.new)) == compared | {"rows", "var_resid", "df_resid"}
    assert public(fit.f_test("x")) == {
        "fvalue", "statistic", "df_num", "df_denom", "pvalue", "df", "hypothesis",
    }  # fmt: skip
    assert public(fit.t_test("x")) == {
        "effect", "sd", "tvalue", "statistic", "pvalue", "conf_int", "df_denom", "summary_frame",
        "hypothesis", "inference", "value",
    }  # fmt: skip
