"""Standard errors, intervals and what a summary says of them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from support.helpers import make_release, refuses, slopes

import privgram as pg
from privgram.noise import GaussianLaw, MatrixLaplaceLaw
from privgram.papers.sheffet import InverseWishartLaw, SketchLaw, WishartLaw
from privgram.regression import RefusedError

NAMES = ("a", "b", "y", "intercept")


def moment(rows):
    return rows.T @ rows


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (500, 2))
    y = X @ [1.0, -2.0] + 0.3 + 0.1 * rng.standard_normal(500)
    return np.column_stack([X, y, np.ones(500)])


@pytest.fixture
def fit(table):
    return make_release(moment(table), NAMES, n_rows=500).regress("y")


def textbook(X, y):
    coef = np.linalg.lstsq(X, y)[0]
    variance = np.sum((y - X @ coef) ** 2) / (len(y) - X.shape[1])
    return coef, np.sqrt(np.diag(np.linalg.inv(X.T @ X)) * variance)


#: Bounds far from zero beside their width, as of a logarithm or a year.
FAR = {"x": (990, 1010), "g": ["a", "b", "c"], "y": (990, 1010)}


@pytest.fixture(scope="module")
def far():
    """A release of rows far from zero: in own units products would be mostly noise."""
    rng = np.random.default_rng(0)
    x = 1000 + 2 * rng.standard_normal(20_000).clip(-4, 4)
    y = x - 0.5 * rng.standard_normal(20_000)
    rows = {"x": x, "g": rng.choice(["a", "b", "c"], 20_000), "y": y}
    columns = pg.Columns(FAR, intercept=True, terms=["poly(x, 2)", "g", "x:g", "y"])
    secret = pg.second_moment(rows, columns=columns)
    noise = np.random.default_rng(1)
    return rows, pg.release(secret, epsilon=1, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=noise)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_dropped_rows_are_not_behind_the_fit(adjacency):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 5000)
    y = 0.5 * x + rng.uniform(-0.5, 0.5, 5000)
    x[rng.uniform(size=5000) < 0.8] = np.nan
    columns = pg.Columns({"x": (-1, 1), "y": (-1, 1)}, intercept=True, missing="drop")
    secret = pg.SecondMoment(3, columns.bound, columns=columns).update(np.column_stack([x, y]))
    # So large an epsilon that noise is nothing: what is left is the textbook.
    release = pg.release(
        secret, None, 1e5, 1e-6, adjacency=adjacency, rng=rng, mechanism=pg.AnalyzeGauss()
    )
    there = ~np.isnan(x)
    fit = release.regress("y")
    _, stderr = textbook(np.column_stack([x, np.ones(5000)])[there], y[there])
    np.testing.assert_allclose(fit.bse, stderr, rtol=0.01)
    assert fit.n_rows == pytest.approx(there.sum(), abs=1)
    assert f"No. Observations: {round(fit.n_rows):>14,}"[:18] in str(fit.summary())
    assert "off the intercept" in str(fit.summary())


@pytest.mark.slow
def test_dropped_rows_are_unknown_without_an_intercept(table):
    columns = pg.Columns(dict.fromkeys(NAMES[:3], (-1, 1)), missing="drop")
    release = make_release(moment(table[:, :3]), NAMES[:3], n_rows=900, columns=columns)
    fit = release.regress("y")
    assert "missing values were dropped" in fit.refusal
    assert fit.n_rows is None
    refuses(lambda: release.penalty_path("y"), ValueError, r"dropped.*intercept column")


def test_count_drowned_in_noise_is_not_divided_by(table):
    # The features are far above the noise, the column of ones is not.
    big = table * [100, 100, 100, 1]
    release = make_release(moment(big), NAMES, GaussianLaw(200.0, 283.0), n_rows=None)
    assert "hides the number of rows" in release.regress("y", intercept=False).refusal
    known = make_release(moment(big), NAMES, GaussianLaw(200.0, 283.0), n_rows=500)
    assert known.regress("y", intercept=False).refusal is None


def test_habit_of_other_packages_is_no_five_percent_interval(fit):
    refuses(lambda: slopes(fit, fit.conf_int(0.95)), ValueError, r"pass alpha=0\.05")
    refuses(lambda: fit.summary(alpha=0.95), ValueError, "alpha")
    np.testing.assert_allclose(fit.conf_int(0.05), fit.conf_int())


def test_level_that_floats_do_not_tell_from_one_is_refused(table):
    """Ends would be infinity less infinity where the noise depends on the coefficients."""
    fit = make_release(moment(table), NAMES, GaussianLaw(1.0, 1.4), n_rows=500).regress("y")
    for call in (fit.conf_int, fit.t_test("a").conf_int, fit.rsquared_int):
        assert np.isfinite(np.asarray(call(alpha=1e-12))).all()
        refuses(lambda call=call: call(alpha=1e-16), ValueError, "alpha must be 1e-15 or more")


def test_observations_have_no_interval_where_noise_hides_the_residuals(table):
    """Their variance came out as 0, and theirs were the intervals of means."""
    noisy, law = moment(table), GaussianLaw(2.0, 2.8)
    noisy[2, 2] -= 6.0
    fit = make_release(noisy, NAMES, law, n_rows=500).regress("y")
    assert fit.refusal is None
    assert fit.scale == 0.0
    predicted = fit.get_prediction(np.zeros((3, 2)))
    assert np.isfinite(predicted.conf_int()).all()
    refuses(lambda: predicted.conf_int(obs=True), RefusedError, "noise hides the residuals")
    assert np.isnan(predicted.se_obs).all()
    pytest.importorskip("pandas")
    frame = predicted.summary_frame()
    assert frame.filter(like="obs").isna().all(axis=None)
    assert frame.filter(like="mean").notna().all(axis=None)


@pytest.mark.slow
def test_every_line_of_a_summary_agrees_with_itself(table):
    law = GaussianLaw(15.0, 15.0 * np.sqrt(2))
    rng = np.random.default_rng(2)
    release = make_release(law.draw(moment(table), rng), NAMES, law, n_rows=500)
    fit = release.regress("y")
    lines = str(fit.summary()).split("\n")
    assert "t takes it at 0" in str(fit.summary())
    ends = np.asarray(fit.conf_int())
    for i, name in enumerate(fit.param_names):
        shown = next(line for line in lines if line.startswith(name + " ")).split()[1:]
        coef, stderr, z, p, low, high = map(float, shown[:6])
        np.testing.assert_allclose([coef, stderr], [fit.params[i], fit.bse[i]], rtol=2e-3)
        assert low < coef < high
        assert (p < 0.05) == (abs(z) > 1.96) == (not low <= 0 <= high)
        np.testing.assert_allclose([low, high], ends[i], rtol=2e-3, atol=1e-9)


@pytest.mark.slow
def test_one_feature_has_the_interval_of_fieller_1954():
    """Of the ratio s / S of two normal numbers: where |s - t S| stays below its deviation."""
    S, s, yy, n, tau = 4000.0, 3000.0, 4000.0, 4000, 600.0
    law = GaussianLaw(tau, tau * np.sqrt(2))
    fit = make_release([[S, s], [s, yy]], "xy", law, n_rows=n).regress("y")
    theta = s / S
    noise = tau**2 + 2 * (theta * tau) ** 2
    sigma2 = max(yy - s * theta + noise / S, 0) / (n - 1)
    # (s - t S)^2 = z^2 (sigma^2 S + tau^2 + 2 t^2 tau^2), a quadratic equation in t.
    df = n - 1
    z = stats.t.ppf(0.975, df)
    ends = np.roots([S**2 - 2 * (z * tau) ** 2, -2 * s * S, s**2 - z**2 * (sigma2 * S + tau**2)])
    np.testing.assert_allclose(slopes(fit, fit.conf_int())[0], sorted(ends), rtol=1e-9)
    assert "std err depend on the coefficient" in str(fit.summary())
    # The test of zero has the deviation under that hypothesis.
    np.testing.assert_allclose(fit.tvalues, s / np.sqrt(sigma2 * S + tau**2), rtol=1e-9)
    np.testing.assert_allclose(fit.pvalues, 2 * stats.t.sf(fit.tvalues, df), rtol=1e-9)


@pytest.mark.slow
def test_interval_without_ends_says_that_the_coefficient_is_open():
    # Two columns nearly alike among ten others: the mean over directions is small, not theirs.
    rng = np.random.default_rng(1)
    X = rng.standard_normal((4000, 12))
    X[:, 11] = X[:, 10] + 0.3 * X[:, 11]
    rows = np.column_stack([X, X @ np.ones(12) + rng.standard_normal(4000)])
    law = GaussianLaw(100.0, 100.0 * np.sqrt(2))
    fit = make_release(moment(rows), [f"x{i}" for i in range(12)] + ["y"], law, 4000).regress("y")
    assert fit.refusal is None
    ends = slopes(fit, fit.conf_int())
    assert np.isfinite(ends[:10]).all()
    assert np.isinf(ends[10:]).all()
    assert np.isfinite(fit.bse).all()
    assert "no ends" in str(fit.summary())
    assert "no ends" in str(fit.t_test("x10 = x1"))
    assert "no ends" not in str(fit.t_test("x0 = x1"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "law",
    [
        GaussianLaw(20.0, 20.0),
        WishartLaw(2.0, 40.0),
        MatrixLaplaceLaw(5.0, 5),
        SketchLaw(300, 20.0),
        InverseWishartLaw(300.0, 20.0),
    ],
    ids=repr,
)
def test_variance_of_a_line_is_that_of_its_noise(table, law):
    """Slope and curvature against draws of the noise: a^T N v as the coefficients move.

    20 000 draws; 4 % is over 3 standard deviations of a variance of normals, of six in all.
    """
    matrix = moment(table)[np.ix_([0, 1, 3, 2], [0, 1, 3, 2])] + law.shift * np.eye(4)
    release = make_release(matrix, ("a", "b", "intercept", "y"), law, n_rows=500)
    inference = release.regress("y").inference
    gram = matrix[:3, :3] - law.shift * np.eye(3)
    a = np.linalg.inv(gram)[0]
    theta = np.linalg.solve(gram, matrix[:3, 3])
    pull = inference.covariance[:, 0] / inference.covariance[0, 0]
    rng = np.random.default_rng(4)
    N = np.array([law.draw(matrix, rng) - matrix for _ in range(20_000)])
    se = inference.stderr[0]
    sampled = None
    for d in (-1.5, 0.0, 1.5):
        v = np.append(-(theta + d * se * pull), 1.0)
        noise = np.var((N @ v)[:, :3] @ a) / se**2
        if sampled is None:  # what is not noise does not change with d
            at = 1 + 2 * inference.slope[0] * d + inference.curvature[0] * d * d
            sampled = at - noise
        expected = 1 + 2 * inference.slope[0] * d + inference.curvature[0] * d * d - sampled
        assert noise == pytest.approx(expected, rel=0.04, abs=0.002)


def covered(rows, law, n, draws, seed):
    """Shares covered of each parameter, of resampled tables; and how many were offered."""
    rng = np.random.default_rng(seed)
    names = [f"x{i}" for i in range(rows.shape[1] - 2)] + ["intercept", "y"]
    truth = np.linalg.lstsq(rows[:, :-1], rows[:, -1])[0]
    hits = []
    for _ in range(draws):
        weights = rng.multinomial(n, np.full(len(rows), 1 / len(rows)))
        matrix = law.draw((rows * weights[:, None]).T @ rows, rng)
        fit = make_release(matrix, names, law, n_rows=n).regress("y")
        if fit.refusal is None:
            low, high = np.asarray(fit.conf_int()).T
            hits.append((low <= truth) & (truth <= high))
    return np.mean(hits, axis=0), len(hits) / draws


# A raw square beside its variable, as in AER's wages, offered in 50 and 80 % of draws. The worst of
# four parameters, by 250 draws or more: a standard error of 1.4 % at most, so below 0.91 by chance
# in 1 %, though not with this seed. The symmetric intervals of before cover 0.61 and 0.81.
@pytest.mark.slow
@pytest.mark.parametrize("noise", [30.0, 18.0])
def test_worst_direction_is_covered(noise):
    rng = np.random.default_rng(7)
    x = rng.uniform(-0.8, 0.9, 3000)
    square = 2 * ((x + 1) / 2) ** 2 - 1
    y = 0.6 * x - 0.6 * square - 0.3 + 0.1 * rng.standard_normal(3000)
    rows = np.column_stack([x, square, rng.choice([-1.0, 1.0], 3000), np.ones(3000), y])
    law = GaussianLaw(noise, noise * np.sqrt(2))
    share, offered = covered(rows, law, 12_000, 500, 8)
    assert offered > 0.4
    assert share.min() > 0.91
    assert share.max() < 0.99


@pytest.fixture(scope="module")
def uneven():
    """Errors whose spread grows with a, of which the textbook's intervals know nothing."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((1000, 2))
    y = X @ [0.6, -0.3] + 1 + (0.2 + X[:, 0] ** 2) * rng.standard_exponential(1000)
    return np.column_stack([X, y, np.ones(1000)])


@pytest.mark.slow
def test_intervals_of_the_rows_at_hand_count_the_noise_alone(uneven):
    """400 draws of noise on one table: a deviation of 1.1 %, so 90.5 to 99.5 is 4 of these."""
    X, y = uneven[:, [0, 1, 3]], uneven[:, 2]
    best, left = np.linalg.lstsq(X, y)[:2]
    share = 1 - left[0] / np.sum((y - y.mean()) ** 2)
    new = [[1.0, -2.0]]
    truth = [*best, best @ [1, -2, 1], share]
    law, rng = GaussianLaw(25.0, 30.0), np.random.default_rng(12)
    held = []
    for _ in range(400):
        fit = make_release(law.draw(moment(uneven), rng), NAMES, law, 1000).regress("y")
        ends = np.asarray(fit.conf_int(estimand="sample"))
        there = fit.get_prediction(new).conf_int(estimand="sample")
        low, high = np.vstack([ends, there, fit.rsquared_int()]).T
        held.append((low <= truth) & (truth <= high))
        assert (
            slopes(fit, fit.conf_int(estimand="population")) == slopes(fit, fit.conf_int())
        ).all()
    shares = np.mean(held, axis=0)
    assert (shares > 0.905).all(), shares
    assert (shares < 0.995).all(), shares


def test_without_noise_the_rows_at_hand_are_known(uneven):
    fit = make_release(moment(uneven), NAMES, n_rows=1000).regress("y")
    ends = np.asarray(fit.conf_int(estimand="sample"))
    np.testing.assert_allclose(ends, np.transpose([fit.params, fit.params]), atol=1e-9)
    np.testing.assert_allclose(fit.rsquared_int(), fit.rsquared, atol=1e-6)
    assert fit.rsquared_stderr < 1e-6
    low, high = fit.rsquared_int(estimand="normal")
    error = 2 * np.sqrt(fit.rsquared / 1000) * (1 - fit.rsquared)
    np.testing.assert_allclose(high - low, 2 * 1.96 * error, rtol=0.05)


def test_rows_at_hand_need_not_be_counted(uneven):
    law = GaussianLaw(2.0, 3.0)
    fit = make_release(moment(uneven)[:3, :3], NAMES[:3], law).regress("y")
    assert "number of rows is private" in fit.refusal
    assert np.isnan(slopes(fit, fit.conf_int())).all()
    best = np.linalg.lstsq(uneven[:, :2], uneven[:, 2])[0]
    low, high = slopes(fit, fit.conf_int(estimand="sample")).T
    assert ((low < best) & (best < high)).all()
    drowned = make_release(-moment(uneven)[:3, :3], NAMES[:3], law).regress("y", ridge=1e5)
    assert np.isnan(slopes(drowned, drowned.conf_int(estimand="sample"))).all()


def test_intervals_without_an_allowance_for_clipped_rows_are_refused(fit):
    looked = replace(fit.release, parameters={"clipping_bias": 0.2, "clipped_rows": 5.0})
    ours = looked.regress("y")
    with pytest.raises(RefusedError, match=r"clipped rows.*AnalyzeGauss"):
        ours.rsquared_int(estimand="sample")
    assert np.isfinite(
        [*ours.rsquared_int(estimand="normal"), *np.ravel(ours.conf_int(estimand="sample"))]
    ).all()
    with pytest.raises(RefusedError, match=r"clipped rows.*AnalyzeGauss"):
        looked.iv("y", [NAMES[0]], [NAMES[1]]).conf_int(estimand="sample")


def test_whose_intervals_there_are(fit):
    with pytest.raises(ValueError, match="'population' or 'sample', not 'rows'"):
        slopes(fit, fit.conf_int(estimand="rows"))
    with pytest.raises(ValueError, match="'sample' or 'normal', not 'rows'"):
        fit.rsquared_int(estimand="rows")
    with pytest.raises(
        RefusedError, match=r"fourth moments.*estimand='sample' or estimand='normal'"
    ):
        fit.rsquared_int(estimand="population")
    predicted = fit.get_prediction([[0.0, 0.0]])
    refuses(lambda: predicted.conf_int(obs=True, estimand="sample"), ValueError, "new observation")


@pytest.mark.slow
def test_summary_says_that_it_assumes_equal_variance(fit):
    assert "errors of equal variance" in str(fit.summary())


@pytest.mark.slow
def test_summary_speaks_of_clipping_only_where_a_row_can_be_clipped():
    rng = np.random.default_rng(5)
    columns = pg.Columns({"a": (0, 1), "b": (0, 1)}, intercept=True)
    rows = rng.integers(0, 2, (4000, 2)).astype(float)
    texts = []
    for bound in (columns.bound, 1.2):
        secret = pg.SecondMoment(3, bound, columns=columns).update(rows)
        release = pg.release(secret, None, 5.0, 1e-6, rng=rng, mechanism=pg.AnalyzeGauss())
        texts.append(str(release.regress("b").summary()))
    assert "are shortened" not in texts[0]
    assert "are shortened" in texts[1]


@pytest.mark.slow
def test_summary_warns_of_a_reproducible_release(table):
    secret = pg.second_moment(table, bound=3.0)
    seeded = pg.release(
        secret, None, 5.0, 1e-6, rng=np.random.default_rng(1), mechanism=pg.AnalyzeGauss()
    )
    assert re.search(r"\] Reproducible: .*not private", str(seeded.regress("x2").summary()))
    refused = pg.release(
        secret, None, 1e-3, 1e-6, rng=np.random.default_rng(1), mechanism=pg.AnalyzeGauss()
    )
    text = str(refused.regress("x2", ridge=1e7).summary())
    assert "No standard errors" in text
    assert "Reproducible" in text
    private = pg.release(secret, None, 5.0, 1e-6, mechanism=pg.AnalyzeGauss())
    assert "Reproducible" not in str(private.regress("x2").summary())
