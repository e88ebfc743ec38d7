"""Posterior draws: conjugate without noise, by another route with it, and of the stated level."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.helpers import make_release

import privgram as pg
from privgram.columns.unit import PrivacyUnit
from privgram.noise import GaussianLaw, MatrixLaplaceLaw, WishartLaw
from privgram.papers.sheffet import SketchLaw
from privgram.regression import RefusedError, posterior

NAMES = ("a", "b", "y", "intercept")
TRUTH = np.array([0.5, -0.3, 1.0])


def drawn(seed, law, n=2000, n_rows=2000):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    X[:, 1] += 0.7 * X[:, 0]
    rows = np.column_stack([X, X @ TRUTH[:2] + 1 + rng.standard_normal(n), np.ones(n)])
    noisy = law.draw(rows.T @ rows + law.shift_matrix(4), rng)
    return make_release(noisy, NAMES, law, n_rows)


@pytest.mark.slow
def test_without_noise_it_is_the_conjugate_one():
    """4,000 draws: a mean is known to 1.6 % of the deviation, a deviation to 1.1 %."""
    release = drawn(0, GaussianLaw(1e-9, 1e-9))
    draws, fit = posterior(release, "y"), release.regress("y")
    assert draws.names == fit.param_names
    assert draws.accepted == 1.0
    assert_allclose((draws.mean - fit.params) / fit.bse, 0, atol=0.08)
    assert_allclose(draws.std, fit.bse, rtol=0.06)
    assert_allclose(draws.interval(0.1)[:, 0], np.asarray(fit.conf_int(0.1))[:, 0], atol=0.01)
    assert draws.sigma.mean() == pytest.approx(np.sqrt(fit.scale), rel=0.01)
    # A prior that matters, about 0: its weight beside the data is that of one normal mean.
    moment = release.matrix
    gram, cross = moment[np.ix_([0, 1, 3], [0, 1, 3])], moment[[0, 1, 3], 2]
    precision = gram / fit.scale + np.diag([0.1**-2, 0.3**-2, 1e-6])
    expected = np.linalg.solve(precision, cross / fit.scale)
    draws = posterior(release, "y", prior_std=[0.1, 0.3])
    assert_allclose((draws.mean - expected) / fit.bse, 0, atol=0.15)


@pytest.mark.slow
def test_one_feature_is_the_posterior_by_weighing_the_prior():
    """Draw everything from the prior, weigh by the density of the noise: another route.

    Both means are known to about 3 % of the deviation.
    """
    n, std, prior = 200, 25.0, 0.8
    rng = np.random.default_rng(7)
    matrix = np.array([[150.0, 40.0], [40.0, 230.0]])
    release = make_release(matrix, ("x", "y"), GaussianLaw(std, std * 2**0.5), n)
    draws = posterior(release, "y", draws=8_000, prior_std=prior)
    size = 1_000_000
    theta = prior * rng.standard_normal(size)
    sigma = rng.uniform(0.3, 2.5, size)
    gram = rng.uniform(0.1, 400.0, size)
    cross = gram * theta + sigma * np.sqrt(gram) * rng.standard_normal(size)
    square = sigma**2 * rng.chisquare(n - 1, size) + cross**2 / gram
    gaps = (matrix[0, 0] - gram) ** 2 / 2 + (matrix[1, 1] - square) ** 2 / 2
    weight = np.exp(-(gaps + (matrix[0, 1] - cross) ** 2) / (2 * std**2))
    weight /= weight.sum()
    assert 1 / (weight**2).sum() > 2_000
    mean = weight @ theta
    deviation = np.sqrt(weight @ theta**2 - mean**2)
    assert draws.mean[0] == pytest.approx(mean, abs=0.1 * deviation)
    assert draws.std[0] == pytest.approx(deviation, rel=0.08)
    assert draws.sigma.mean() == pytest.approx(weight @ sigma, rel=0.03)


@pytest.mark.long
@pytest.mark.parametrize(
    "law",
    [GaussianLaw(100.0, 141.0), WishartLaw(10.0, 60.0, 0.0), MatrixLaplaceLaw(10.0, 30.0)],
    ids=lambda law: type(law).__name__,
)
def test_intervals_hold_their_level(law):
    """60 draws: shares have a deviation of 2.8 %, so 82 % is 4.6 of these below 95."""
    held = []
    for seed in range(60):
        draws = posterior(drawn(seed, law), "y", draws=500, rng=np.random.default_rng(seed))
        ends = draws.interval()
        held.append((ends[:, 0] <= TRUTH) & (ends[:, 1] >= TRUTH))
    assert (np.mean(held, axis=0) > 0.82).all()


@pytest.mark.slow
def test_own_units_and_frames():
    rng = np.random.default_rng(1)
    x = rng.uniform(20, 80, 5000)
    rows = np.column_stack([x, 3 + 0.4 * x + rng.standard_normal(5000)])
    columns = pg.Columns({"x": (0, 100), "y": (0, 60)}, intercept=True)
    release = pg.release(
        rows, columns=columns, epsilon=1e14, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=rng
    )
    draws = release.posterior("y", draws=1000)
    assert_allclose(draws.mean, [0.4, 3.0], atol=0.2)
    assert draws.sigma.mean() == pytest.approx(1.0, rel=0.05)
    assert "1000 draws" in str(draws)
    pytest.importorskip("pandas")
    assert list(draws.frame().columns) == ["x", "Intercept", "sigma"]
    again = release.posterior("y", draws=1000)
    assert (again.draws == draws.draws).all()


def test_through_the_origin():
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 10, 4000)
    rows = np.column_stack([x, 5 + 0.4 * (x - 5) + 0.5 * rng.standard_normal(4000)])
    for ends, ones in (((0, 10), True), ((-20, 20), False)):
        columns = pg.Columns({"x": ends, "y": ends}, intercept=ones)
        one = pg.release(
            rows, columns=columns, epsilon=1e14, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=rng
        )
        draws = one.posterior("y", draws=500, intercept=False)
        fit = one.regress("y", intercept=False)
        assert draws.names == fit.param_names == ("x",)
        assert_allclose((draws.mean - fit.params) / fit.bse, 0, atol=0.25)


def test_effects_of_units_take_degrees_of_freedom():
    """500 of 2,000: the deviation of the errors is larger by 15 %, and known to 0.3 %."""
    plain = drawn(0, GaussianLaw(1e-9, 1e-9))
    one = replace(
        plain, n_rows=None, privacy_unit=PrivacyUnit("id", fixed_effects=True), n_units=500
    )
    draws, fit = posterior(one, "y", draws=1000), one.regress("y")
    squares = plain.regress("y").scale * 1997
    assert draws.sigma.mean() == pytest.approx(np.sqrt(squares / 1497), rel=0.005)
    assert_allclose(draws.std, fit.bse, rtol=0.1)


def weighted(n, **options):
    rng = np.random.default_rng(6)
    x, w = rng.uniform(2, 10, n), rng.uniform(0.1, 1.0, n)
    y = 1 + 0.3 * x + rng.standard_normal(n) / np.sqrt(w)
    bounds = {"x": (-10, 10), "y": (-15, 15), "w": (0, 4)}
    columns = pg.Columns(bounds, row_weights="w", **options)
    rows = np.column_stack([x, y.clip(-15, 15), w])
    return rows, pg.release(
        rows, columns=columns, epsilon=1e14, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=rng
    )


def test_errors_of_weighted_rows_are_those_of_weight_one():
    rows, one = weighted(3000, intercept=True)
    x, y, root = rows[:, 0], rows[:, 1], np.sqrt(rows[:, 2])
    left = np.linalg.lstsq(np.column_stack([x, np.ones(3000)]) * root[:, None], y * root)[1]
    draws = one.posterior("y", draws=1000)
    assert draws.sigma.mean() == pytest.approx(np.sqrt(left[0] / 2998), rel=0.005)
    assert_allclose(draws.std, one.regress("y").bse, rtol=0.1)


def test_prior_is_by_weighted_deviations():
    """So few rows that it matters: the same draws as where the same number is given."""
    rows, one = weighted(12, intercept=True)
    x, y, w = rows.T
    spread = [np.average((z - np.average(z, weights=w)) ** 2, weights=w) for z in (y, x)]
    with_prior = one.posterior("y", draws=500, prior_std=2.5 * np.sqrt(spread[0] / spread[1]))
    assert_allclose(one.posterior("y", draws=500).draws, with_prior.draws, rtol=1e-4, atol=1e-5)


def test_deviations_of_weighted_rows_take_the_sum_of_weights():
    with pytest.raises(ValueError, match=r"sum of the rows' weights.*intercept"):
        weighted(500)[1].regress("y").feature_std()


def test_releases_without_a_posterior_are_refused():
    with pytest.raises(RefusedError, match="that add noise"):
        posterior(drawn(0, SketchLaw(500, 10.0)), "y")
    with pytest.raises(RefusedError, match="positive definite"):
        posterior(drawn(0, GaussianLaw(1e5, 1e5)), "y", draws=100)
    release = drawn(0, GaussianLaw(1.0, 1.4))
    with pytest.raises(ValueError, match="prior_std"):
        posterior(release, "y", prior_std=0.0)
    with pytest.raises(ValueError, match="prior_std"):
        posterior(release, "y", prior_std=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="number of rows is private"):
        posterior(make_release(np.eye(3) * 100, ("a", "b", "y")), "y")
