"""How much a regression by scores explains: the second moment of scores has the squared errors.

The other route is statsmodels' of the same rows.
"""

import numpy as np
import pytest

import privgram as pg
from privgram._base.saved import DamagedFile

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


def test_file_that_says_another_kind_of_share_is_damaged(table, tmp_path):
    fit = pg.regress(table, "y ~ a", COLUMNS, 4.0, 1e-6, rng=np.random.default_rng(0))
    fit.save(tmp_path / "fit.json")
    assert pg.load(tmp_path / "fit.json").rsquared_stderr == fit.rsquared_stderr
    fit.parameters["goodness"]["noise"] = "none"
    fit.save(tmp_path / "lies.json")  # under a checksum of its own
    with pytest.raises(DamagedFile):
        pg.load(tmp_path / "lies.json")
