"""A refused fit is the same by every door: it comes back, and says why before anything else."""

import numpy as np
import pytest
from support.helpers import make_release, refuses

import privgram as pg
from privgram.noise import GaussianLaw

COLUMNS = {"x": (0, 10), "z": (0, 10), "y": (-5, 30)}
NAMES = ("x", "z", "y", "intercept")
LAW = GaussianLaw(50.0, 70.0)


def hopeless(size=1.0):
    """A release of noise alone, which leaves no direction positive."""
    columns = pg.Columns(COLUMNS, intercept=True)
    return make_release(-size * np.eye(4), NAMES, LAW, columns=columns, bound=2.0, n_rows=500)


def study(**more):
    rng = np.random.default_rng(5)
    x, z = rng.uniform(0, 10, (2, 400))
    table = {"x": x, "z": z, "y": 2 * x + rng.normal(0, 1, 400)}
    return pg.Study(table, COLUMNS, epsilon=1.0, delta=1e-6, **more)


RNG = np.random.default_rng
DOORS = {
    "release.regress": lambda: hopeless().regress("y", ["x", "z"]),
    "release.regress, ridge": lambda: hopeless().regress("y", ["x", "z"], ridge=0.1),
    "release.iv": lambda: hopeless().iv("y", ["x"], ["z"]),
    "releases.regress": lambda: groups()["a"],
    "study.regress": lambda: study().regress("y ~ x + z", 1e-4, rng=RNG(1)),
    "study.regress, huber": lambda: study().regress("y ~ x", 1e-4, loss="huber", rng=RNG(1)),
    "study.regress, by a release": lambda: study().regress(
        "y ~ x + z", 1e-4, mechanism="analyze-gauss", rng=RNG(1)
    ),
    "study.regress, instruments": lambda: study().regress("y ~ 1 | x ~ z", 1e-4, rng=RNG(1)),
}


def groups():
    from privgram.regression.groups import regress_groups

    return regress_groups({"a": hopeless(), "b": hopeless(2.0)}, "y", ["x", "z"])


@pytest.fixture(params=DOORS)
def refused(request):
    return DOORS[request.param]()


def test_refused_fit_says_why_in_the_first_line(refused):
    assert isinstance(refused.refusal, str)
    for text in (str(refused.summary()), repr(refused)):
        assert refused.refusal in text.splitlines()[0]
    html = refused._repr_html_()
    assert html.index("No ") < html.index("<table")


def test_refused_fit_has_no_standard_errors_and_lets_nothing_be_tested(refused):
    for name in ("bse", "tvalues", "pvalues", "cov_params"):
        value = getattr(refused, name)
        assert np.isnan(value() if callable(value) else value).all(axis=None)
    assert np.isnan(refused.conf_int()).all(axis=None)
    first = refused.param_names[0]
    for ask in (lambda: refused.t_test(first), lambda: refused.wald_test(first)):
        refuses(ask, pg.RefusedError, "there is no inference")
    pytest.importorskip("pandas")
    assert refused.summary().as_latex()


def test_statistics_of_a_refused_fit_raise(refused):
    for name in ("rsquared", "llf", "fvalue", "aic"):
        with pytest.raises(pg.RefusedError):
            getattr(refused, name)
    if np.isnan(refused.params).any():
        with pytest.raises(pg.RefusedError):
            refused.predict({"x": [1.0], "z": [1.0]})


def test_regression_shrunk_for_want_of_signal_says_so_and_not_that_a_ridge_was_asked_for():
    fit = DOORS["study.regress, by a release"]()
    assert np.isfinite(fit.params).all()
    assert fit.refusal.startswith("the released matrix is not positive definite")
    assert "shrunk by ridge='auto'" in fit.refusal
    assert "a ridge moves" not in fit.refusal
