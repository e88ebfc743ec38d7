"""Means, standard deviations and correlations: equal to references, errors as stated."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.helpers import make_release, refuses
from support.regression_references import STUDIES, release, study, table

import privgram as pg
from privgram.multivariate import correlation, describe
from privgram.noise import GaussianLaw
from privgram.papers.sheffet import SketchLaw, WishartLaw
from privgram.regression import RefusedError
from privgram.regression.diagnostics import clipped_share

DIGITS = 1e-4


def tables(n=4000, seed=0):
    """Correlated normal rows with a column of ones."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 3)) @ [[1.0, 0.5, 0.1], [0, 0.8, -0.3], [0, 0, 1]]
    return np.column_stack([rows + np.array([0.3, 0.0, -0.5]), np.ones(n)])


NAMES = ("a", "b", "c", "intercept")


def partial(one):
    inverse = np.linalg.inv(one.correlation)
    size = np.sqrt(inverse.diagonal())
    return -inverse / np.outer(size, size)


# --- equal to references where noise is nothing ---------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
def test_description_is_that_of_statsmodels(name):
    reference = pytest.importorskip("statsmodels.stats.descriptivestats")
    case = study(name)
    described = case.release.describe().frame()
    theirs = reference.describe(case.frame, stats=["nobs", "mean", "std_err", "std"]).T
    assert_allclose(described["count"], theirs["nobs"])
    for ours, statistic in (("mean", "mean"), ("std_err", "std_err"), ("std", "std")):
        assert_allclose(described[ours], theirs[statistic], rtol=DIGITS)
    assert_allclose(described.upper_ci - described["mean"], 1.959964 * theirs["std_err"], rtol=1e-3)


@pytest.mark.parametrize("name", STUDIES)
def test_correlation_is_that_of_pandas_and_of_residuals(name):
    stats = pytest.importorskip("scipy.stats")
    case = study(name)
    frame, ours = case.frame, case.release.correlation(estimand="normal")
    assert_allclose(ours.matrix, frame.corr(), atol=DIGITS)
    assert_allclose(ours.frame().loc[case.target], frame.corr()[case.target], atol=DIGITS)
    if len(frame) > 500:  # theirs is by Fisher's transformation, ours of the same order
        ends = stats.pearsonr(*frame.to_numpy().T[:2]).confidence_interval()
        assert_allclose(ours.intervals[0, 1], [ends.low, ends.high], atol=4 / len(frame))
    a, b, *rest = frame.columns
    pair, controls = frame[[a, b]].to_numpy(), frame[rest].assign(ones=1.0).to_numpy()
    residuals = pair - controls @ np.linalg.lstsq(controls, pair)[0]
    held = case.release.statistic(partial, list(frame.columns))  # as the guide has it
    assert_allclose(held.value[0, 1], np.corrcoef(residuals.T)[0, 1], atol=DIGITS)


def test_levels_of_a_factor_are_described():
    frame = table("cps1988")[["wage", "region"]]
    levels = ["midwest", "northeast", "south", "west"]
    columns = pg.Columns({"wage": (3, 11), "region": levels}, intercept=True)
    rng = np.random.default_rng(0)
    described = pg.release(
        frame, columns=columns, epsilon=1e14, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=rng
    ).describe()
    share = (frame.region == "south").mean()
    at = described.names.index("region[south]")
    assert_allclose(
        [described.mean[at], described.std[at]], [share, np.sqrt(share - share**2)], rtol=1e-3
    )


@pytest.mark.parametrize(
    "law",
    [
        pytest.param(GaussianLaw(40.0, 60.0), marks=pytest.mark.slow, id="Gaussian"),
        pytest.param(WishartLaw(3.0, 200.0, 600.0), marks=pytest.mark.long, id="Wishart"),
        pytest.param(SketchLaw(3000, 50.0), marks=pytest.mark.long, id="sketch"),
    ],
)
def test_noise_has_the_stated_deviations(law):
    """200 draws: each deviation is known to 5 %; 25 % of 9 numbers is 5 of these."""
    rows = tables()
    exact = rows.T @ rows + law.shift_matrix(4)
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(200):
        one = make_release(law.draw(exact, rng), NAMES, law)
        described = describe(one, estimand="sample")
        above = np.triu_indices(3, 1)
        drawn.append([described.mean, described.std, correlation(one).matrix[above]])
    one = make_release(exact, NAMES, law)
    described = describe(one, estimand="sample")
    stated = [described.mean_stderr, described.std_stderr, correlation(one).stderr[above]]
    assert_allclose(np.std(drawn, axis=0), stated, rtol=0.25)


@pytest.mark.long
@pytest.mark.parametrize("n_rows", [4000, None])
def test_intervals_hold_their_level(n_rows):
    """600 tables and draws: shares have a deviation of 0.9 %, so 91 % is 4.5 of these below 95."""
    law = GaussianLaw(60.0, 85.0)
    rng = np.random.default_rng(2)
    root = np.array([[1.0, 0.5, 0.1], [0, 0.8, -0.3], [0, 0, 1]])
    covariance = root.T @ root
    size = np.sqrt(np.diag(covariance))
    truth = covariance / np.outer(size, size)
    above = np.triu_indices(3, 1)
    held = []
    for seed in range(600):
        rows = tables(seed=seed)
        one = make_release(law.draw(rows.T @ rows, rng), NAMES, law)
        described = describe(one)
        ends = correlation(one, estimand="normal").intervals[above]
        held.append(
            [
                *inside(described.mean_interval, [0.3, 0.0, -0.5]),
                *inside(described.std_interval, rows[:, :3].std(axis=0, ddof=1)),
                *inside(ends, truth[above]),
            ]
        )
    shares = np.mean(held, axis=0)
    assert (shares > 0.91).all(), shares
    assert (shares < 0.985).all(), shares


def inside(ends, truth):
    return (ends[:, 0] <= truth) & (truth <= ends[:, 1])


# --- limits and refusals --------------------------------------------------------------------------


def test_intervals_stay_within_the_bounds():
    frame = study("fair").frame
    described = release(frame.iloc[:300]).columns
    loud = pg.release(
        frame.iloc[:300],
        columns=described,
        epsilon=0.5,
        delta=1e-6,
        mechanism=pg.AnalyzeGauss(),
        rng=np.random.default_rng(3),
    ).describe()
    lower, upper = described.lower[:-1], described.upper[:-1]
    assert (loud.mean_interval >= lower[:, None]).all()
    assert (loud.mean_interval <= upper[:, None]).all()
    assert (loud.std_interval >= 0).all()
    assert (loud.std_interval[:, 1] <= (upper - lower) / 2 * 1.01).all()
    assert np.isfinite(loud.mean_interval).all()


def test_releases_that_cannot_be_described():
    rows = tables()[:, :3]
    with pytest.raises(ValueError, match="column of ones"):
        describe(make_release(rows.T @ rows, NAMES[:3], n_rows=4000))
    rows = tables()
    hidden = make_release(rows.T @ rows, NAMES, GaussianLaw(5e3, 7e3), None)
    refuses(lambda: describe(hidden), RefusedError, "number of rows")
    moved = make_release(rows.T @ rows, NAMES, n_rows=4000)
    moved.parameters["moved"] = True
    refuses(lambda: correlation(moved), RefusedError, "repair")
    faint = rows * [1e-3, 1e-3, 1e-3, 1.0]
    loud = make_release(faint.T @ faint, NAMES, GaussianLaw(5.0, 7.0), 4000)
    refuses(lambda: correlation(loud), RefusedError, "variances")
    with pytest.raises(ValueError, match=r"interval of 0\.1"):
        describe(make_release(rows.T @ rows, NAMES, n_rows=4000), alpha=0.9)
    release = make_release(rows.T @ rows, NAMES, n_rows=4000)
    with pytest.raises(ValueError, match="'sample' or 'normal', not 'population'"):
        release.correlation(estimand="population")
    with pytest.raises(ValueError, match="'population' or 'sample', not 'normal'"):
        release.describe(estimand="normal")
    refuses(lambda: release.correlation(["a", "a"]), ValueError, "a is named twice")


@pytest.mark.parametrize(("n_rows", "clipped"), [(4000, True), (16_000, False)])
def test_second_rounds_that_may_have_clipped(n_rows, clipped):
    """As of lognormal rows at epsilon = 1: of 4000, deviations held 75 % and means 91 %."""
    rows = tables()
    one = make_release(rows.T @ rows, NAMES, n_rows=n_rows)
    assert clipped_share(one) == 0
    one.parameters.update(clipped_rows=150.0, clipped_rows_std=35.0, clipping_bias=0.2)
    assert clipped_share(one) == pytest.approx(220 / n_rows)
    description = one.describe()
    assert description.clipped == np.isnan(description.std_stderr).all() == clipped
    for ends in (description.std_interval, description.mean_interval, description.mean_stderr):
        assert np.isnan(ends).all() == clipped
    assert np.isfinite([description.mean, description.std]).all()
    assert ("AnalyzeGauss" in str(description)) == clipped
    if clipped:
        refuses(lambda: one.correlation(), RefusedError, "one round")
    else:
        one.correlation()


def test_columns_are_asked_for_by_name():
    columns = pg.Columns({"a": (0, 1), "g": ["u", "v"]}, intercept=True)
    rows = {"a": np.linspace(0, 1, 500), "g": np.repeat(["u", "v"], 250)}
    released = pg.release(rows, columns, epsilon=9.0, delta=1e-6, mechanism=pg.AnalyzeGauss())
    for name in (None, 1.5, np.int64(0)):
        for ask in (released.describe, released.correlation):
            refuses(lambda ask=ask, name=name: ask([name]), TypeError, "by its name, not by")


def test_they_are_printed():
    one = make_release(tables().T @ tables(), NAMES, GaussianLaw(60.0, 85.0), 4000)
    assert "population" in str(one.describe())
    assert str(one.correlation(["b", "c"])).splitlines()[1].startswith("b")


def test_hidden_variance_is_named_below_the_matrix():
    matrix = np.diag([50.0, -3.0, 40.0, 100.0])
    release = make_release(matrix, ("a", "b", "c", "intercept"), n_rows=100)
    correlations = release.correlation()
    assert np.isnan(correlations.matrix[0, 1])
    assert str(correlations).endswith("The noise hides the variance of b.")
    assert correlations.hidden == ("b",)
    assert str(release.correlation(["a", "b"])).endswith("The noise hides the variance of b.")
    assert "hides" not in str(release.correlation(["a", "c"]))
    assert str(release.describe()).endswith("The noise hides the variance of b.")
    assert "hides" not in str(release.describe(["a", "c"]))


def test_count_has_an_error_where_rows_were_dropped():
    """Also where noise makes it the public number, which counts the dropped ones too."""
    columns = pg.Columns({"a": (-1, 1), "b": (-1, 1)}, intercept=True, missing="drop")
    matrix, law = np.diag([50.0, 40.0, 103.0]), GaussianLaw(4.0, 6.0)
    described = make_release(matrix, columns.names, law, 100, columns, bound=2.0).describe()
    assert (described.count, described.count_stderr) == (100.0, 6.0)
    assert described.count_interval[0] < 90


def test_new_rows_are_columns_with_names():
    columns = pg.Columns({"a": (-3, 3), "b": (-3, 3)}, intercept=True)
    release = make_release(np.diag([5.0, 4.0, 10.0]), columns.names, columns=columns, n_rows=10)
    components = release.pca(1, columns=["a", "b"])
    refuses(lambda: components.transform(np.zeros((2, 2))), TypeError, "names to columns, a, b")
    for given, says in (
        ({"a": [1.0]}, "no column 'b'"),
        ({"a": 1.0, "b": 2.0}, "0 dimensions"),
        ({"a": [1.0, 2.0], "b": [2.0]}, "1 rows and others 2"),
    ):
        with pytest.raises(ValueError, match=says):
            components.transform(given)
