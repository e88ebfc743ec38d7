"""How much a regression by scores explains, by squared errors or by likelihood.

The other route is statsmodels' of the same rows.
"""

from dataclasses import replace

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram._base.saved import DamagedFile
from privgram.glm.link import GLMEstimator
from privgram.glm.state import isotropic
from privgram.regression.goodness import LikelihoodGain, shown_share

pd = pytest.importorskip("pandas")
smf = pytest.importorskip("statsmodels.formula.api")

COLUMNS = pg.Columns(
    {"a": (-4, 4), "b": (0, 10), "g": list("uvw"), "w": (0.5, 2), "y": (-40, 40)}, intercept=True
)
FORMULA = "y ~ a + b + g"


@pytest.fixture(scope="module")
def table():
    """Errors of unequal variance, and a factor."""
    rng = np.random.default_rng(0)
    n = 20_000
    a, b, g = rng.normal(size=n).clip(-4, 4), rng.uniform(0, 10, n), rng.integers(0, 3, n)
    y = 0.8 * a - 0.3 * b + 0.5 * g + 1 + rng.normal(size=n) * (0.5 + 0.1 * b)
    levels = np.array(list("uvw"))[g]
    return pd.DataFrame(
        {"a": a, "b": b, "g": levels, "w": rng.uniform(0.5, 2, n), "y": y.clip(-40, 40)}
    )


@pytest.mark.parametrize("cov_type", ["HC1", "nonrobust"])
def test_without_noise_it_is_that_of_statsmodels(table, cov_type):
    rng = np.random.default_rng(0)
    fit = pg.regress(table, FORMULA, COLUMNS, 1e9, 0.5, rng=rng, cov_type=cov_type)
    theirs = smf.ols(FORMULA, table).fit(cov_type=cov_type)
    assert fit.parameters["method"] == "scores"
    for name in ("rsquared", "rsquared_adj"):
        assert getattr(fit, name) == pytest.approx(getattr(theirs, name), abs=1e-5)
    assert fit.rsquared_int() == pytest.approx([fit.rsquared] * 2, abs=1e-4)
    # The scale of errors that are not robust is of squares in the frame.
    assert fit.fvalue == pytest.approx(theirs.fvalue, rel=1e-3 if cov_type == "HC1" else 0.1)
    assert fit.df_model == theirs.df_model
    assert fit.f_pvalue == pytest.approx(theirs.f_pvalue, abs=1e-12)
    assert f"R-squared: {fit.rsquared:.3f}" in " ".join(str(fit.summary()).split())


@pytest.mark.slow
def test_share_that_noise_hides_is_not_written():
    assert shown_share(0.25, 0.1) == "0.250 ± 0.100"
    assert shown_share(0.25, 1e-9) == "0.250"
    assert shown_share(-2.7e18, 2.3e19) == shown_share(0.25, 1.1) == "hidden by noise"


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_intervals_hold_that_of_the_rows(table, epsilon):
    """Of 30 intervals of 95 %, 24 hold: fewer do once in 10,000 times."""
    exact = smf.ols(FORMULA, table).fit().rsquared
    fits = [
        pg.regress(table, FORMULA, COLUMNS, epsilon, 1e-6, rng=np.random.default_rng(seed))
        for seed in range(30)
    ]
    ends = np.array([fit.rsquared_int() for fit in fits])
    held = (ends[:, 0] <= exact) & (exact <= ends[:, 1])
    assert held.sum() >= 24
    # It says something: the deviations are below a tenth.
    assert np.median([fit.rsquared_stderr for fit in fits]) < 0.1
    wider = fits[0].rsquared_int(estimand="normal")
    assert wider[1] - wider[0] > ends[0, 1] - ends[0, 0]


def test_it_is_refused_where_nothing_was_summed_for_it(table):
    study = pg.Study(table, COLUMNS, epsilon=50.0, delta=1e-6)
    for options in ({"loss": "huber"}, {"weights": "w"}):  # scores have weights twice
        fit = study.regress("y ~ a", epsilon=8.0, **options)
        for name in ("rsquared", "rsquared_adj", "rsquared_stderr"):
            with pytest.raises(pg.RefusedError, match="does not hold"):
                getattr(fit, name)
    refused = study.regress(FORMULA, epsilon=1e-3)
    with pytest.raises(pg.RefusedError, match="there is no inference"):
        _ = refused.rsquared


def test_its_interval_says_why_where_a_factor_of_many_levels_is_beside(table):
    """A property that raised an AttributeError had Python say that there is no `_goodness`."""
    levels = [f"f{i}" for i in range(20)]
    rows = table.assign(f=np.resize(levels, len(table)))
    columns = {"a": (-4, 4), "y": (-40, 40), "f": levels}
    fit = pg.regress(rows, "y ~ a + f", columns, epsilon=50.0, delta=1e-6)
    for estimand in ("sample", "normal"):
        refuses(
            lambda e=estimand: fit.rsquared_int(estimand=e), pg.RefusedError, "rsquared takes sums"
        )


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_units_have_none_whose_errors_may_go_together(table, family):
    """Their scores are added up before they are squared: of five rows alike, to five times more."""
    one = (of_events(family) if family == "binomial" else table)[:4000]
    alike = pd.concat([one.assign(u=np.arange(4000))] * 5)
    columns = pg.Columns(EVENTS | {"y": (0, 1)}) if family == "binomial" else COLUMNS
    unit = pg.Unit("u", max_rows=5)
    study = pg.Study(alike, columns, epsilon=50.0, delta=1e-6, unit=unit)
    fit = study.regress("y ~ a + b", epsilon=40.0, family=family)
    assert fit.refusal is None
    assert fit.parameters["method"] == "scores"
    for ask in (fit.pseudo_rsquared, lambda: fit.rsquared, lambda: fit.rsquared_adj):
        with pytest.raises(pg.RefusedError):
            ask()
    if family == "gaussian":
        assert fit.fvalue > 0


def test_file_that_says_another_kind_of_share_is_damaged(table, tmp_path):
    fit = pg.regress(table, "y ~ a", COLUMNS, 4.0, 1e-6, rng=np.random.default_rng(0))
    fit.save(tmp_path / "fit.json")
    assert pg.load(tmp_path / "fit.json").rsquared_stderr == fit.rsquared_stderr
    fit.parameters["goodness"]["noise"] = "none"
    fit.save(tmp_path / "lies.json")  # under a checksum of its own
    with pytest.raises(DamagedFile):
        pg.load(tmp_path / "lies.json")


def of_events(family):
    """A rare event with strong features, and counts with skewed ones."""
    rng = np.random.default_rng(1)
    n = 10_000
    a, b = rng.normal(size=n).clip(-4, 4), rng.exponential(size=n).clip(0, 4)
    eta = 0.5 * a + 0.4 * b
    if family == "binomial":
        y = (rng.random(n) < 1 / (1 + np.exp(2 - 2 * eta))).astype(float)
    else:
        y = rng.poisson(np.exp(eta)).clip(0, 40).astype(float)
    return pd.DataFrame({"a": a, "b": b, "y": y, "w": rng.uniform(0.5, 2, n)})


EVENTS = {"a": (-4, 4), "b": (0, 4), "w": (0.5, 2)}
KINDS = [("binomial", "mcf", (0, 1)), ("binomial", "cs", (0, 1)), ("poisson", "cs", (0, 40))]


def pseudo(family, kind, table):
    """That of statsmodels."""
    theirs = smf.logit if family == "binomial" else smf.poisson
    fit = theirs("y ~ a + b", table).fit(disp=0)
    return fit.prsquared if kind == "mcf" else -np.expm1(2 * (fit.llnull - fit.llf) / len(table))


def test_noise_of_the_hessian_is_in_the_error_of_a_likelihood(monkeypatch):
    """Of a parabola b^T H b / 6, by isotropic noise, and nothing else of it."""
    compared, lengths = GLMEstimator._compared, []

    def noisy(self, state, parts, clip):
        way = parts.coef.copy()
        way[-1] -= self.family.predictor(self._mean()[0])
        lengths.append(np.linalg.norm(np.linalg.inv(state.whitening).T @ way))
        return compared(self, replace(state, hessian_noise=isotropic(3.0)), parts, clip)

    monkeypatch.setattr(GLMEstimator, "_compared", noisy)
    options = {"family": "binomial", "rng": np.random.default_rng(0)}
    fit = pg.regress(
        of_events("binomial"), "y ~ a + b", EVENTS | {"y": (0, 1)}, 1e6, 0.5, **options
    )
    gain = fit.parameters["likelihood"]
    assert gain["stderr"] == pytest.approx(3 * 2**0.5 * lengths[0] ** 2 / 6, rel=0.05)


@pytest.mark.parametrize(("family", "kind", "ends"), KINDS)
def test_pseudo_share_is_that_of_statsmodels(family, kind, ends, tmp_path):
    table, options = of_events(family), {"family": family, "rng": np.random.default_rng(0)}
    fit = pg.regress(table, "y ~ a + b", EVENTS | {"y": ends}, 1e6, 0.5, **options)
    share, error = fit.pseudo_rsquared(kind), fit.pseudo_rsquared_stderr(kind)
    assert share > 0.15
    assert 0 < error < 0.03  # what the rule of three points may miss
    assert abs(share - pseudo(family, kind, table)) < 1.5 * error
    assert "Pseudo R-squ." in str(fit.summary())
    fit.save(tmp_path / "fit.json")
    assert pg.load(tmp_path / "fit.json").pseudo_rsquared(kind) == share
    if family == "binomial":
        assert fit.prsquared == fit.pseudo_rsquared("mcf")
    else:
        refuses(lambda: fit.pseudo_rsquared("mcf"), pg.RefusedError, "factorials")
        with pytest.raises(AttributeError, match=r'pseudo_rsquared\("cs"\) is of Poisson'):
            _ = fit.prsquared


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize(("family", "kind", "ends"), KINDS[::2])
def test_pseudo_share_holds_within_its_error(family, kind, ends, adjacency):
    """Of 20 intervals of 95 %, 15 hold: fewer do once in 3,000 times."""
    table, found = of_events(family), []
    for seed in range(20):
        options = {"family": family, "adjacency": adjacency, "rng": np.random.default_rng(seed)}
        fit = pg.regress(table, "y ~ a + b", EVENTS | {"y": ends}, 2.0, 1e-6, **options)
        found.append((fit.pseudo_rsquared(kind), fit.pseudo_rsquared_stderr(kind)))
    share, error = np.array(found).T
    held = np.abs(share - pseudo(family, kind, table)) < 1.96 * error
    assert held.sum() >= 15
    assert np.median(error) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize(("each", "level"), [(1.0, 1.0), (0.6, -0.5)])
def test_pseudo_share_of_counts_that_features_hardly_explain(each, level):
    """Bins say that their mean is higher, and numbers need not be whole; 1 of 5,000 is farther."""
    table = of_events("poisson")
    table["y"] = each * np.random.default_rng(2).poisson(np.exp(level + 0.05 * table["a"]))
    for seed in range(3):
        options = {"family": "poisson", "rng": np.random.default_rng(seed)}
        fit = pg.regress(table, "y ~ a + b", EVENTS | {"y": (0, 60)}, 16.0, 1e-6, **options)
        off = fit.pseudo_rsquared() - pseudo("poisson", "cs", table)
        assert abs(off) < 4 * fit.pseudo_rsquared_stderr() < 0.03


def test_pseudo_share_of_a_gain_that_noise_makes_a_loss_is_below_zero():
    """As much as of counts up to a million whose features are out of their bounds, or beyond."""
    for gain in (-1e-3, -10.0, -354.0, -1e300):
        share, error = LikelihoodGain(gain, 0.5, None, 0.0).share("cs")
        assert share < 0 < error
    assert LikelihoodGain(-1.0, 0.5, -2.0, 0.1).share("mcf")[0] == -0.5


def test_pseudo_share_is_refused_where_nothing_was_summed_for_it(table):
    events, columns = of_events("binomial"), EVENTS | {"y": (0, 1)}
    study = pg.Study(events, columns, epsilon=50.0, delta=1e-6)
    for formula, options in (("y ~ a", {"weights": "w"}), ("y ~ a + offset(w)", {})):
        fit = study.regress(formula, epsilon=8.0, family="binomial", **options)
        refuses(fit.pseudo_rsquared, pg.RefusedError, "no weights and no offset")
    least = pg.regress(table, "y ~ a", COLUMNS, 4.0, 1e-6, rng=np.random.default_rng(0))
    refuses(least.pseudo_rsquared, pg.RefusedError, "least squares have rsquared")
    assert not hasattr(least, "prsquared")
