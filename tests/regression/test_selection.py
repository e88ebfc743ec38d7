"""Penalty paths: as scikit-learn has them, and better with noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.helpers import make_release, refuses
from support.regression_references import STUDIES, study

from privgram.noise import GaussianLaw
from privgram.regression import RefusedError, penalty_path

linear = pytest.importorskip("sklearn.linear_model")

NAMES = (*(f"x{i}" for i in range(8)), "y", "intercept")
TRUTH = np.array([1.0, -0.7, 0, 0, 0, 0, 0.4, 0])


def rows(rng, n=3000):
    X = rng.standard_normal((n, 8))
    X[:, 1:] += 0.5 * X[:, :-1]
    return np.column_stack([X, X @ TRUTH + 2 + rng.standard_normal(n), np.ones(n)])


def drawn(seed, std, n=3000):
    rng = np.random.default_rng(seed)
    law, table = GaussianLaw(std, std * 2**0.5), rows(rng, n)
    return make_release(law.draw(table.T @ table, rng), NAMES, law, n)


def scaled(case):
    """The table as released: columns in [-1, 1], in which the penalty is."""
    columns = case.release.columns
    return columns.encode(case.frame)[:, :-1]


@pytest.mark.parametrize("criterion", ["aic", "bic"])
@pytest.mark.parametrize("name", STUDIES)
def test_choice_is_that_of_lars_by_the_same_criterion(name, criterion):
    case = study(name)
    ours = case.release.penalty_path(case.target, case.features, criterion=criterion)
    *features, target = scaled(case).T
    theirs = linear.LassoLarsIC(criterion=criterion).fit(np.column_stack(features), target)
    assert len(ours.alphas) == len(theirs.alphas_)
    assert_allclose(ours.alphas, theirs.alphas_, rtol=1e-4, atol=1e-7)
    assert_allclose(ours.alpha, theirs.alpha_, rtol=1e-4, atol=1e-7)
    # Twice the log-likelihood and the penalty, times the variance, but for a constant.
    expected = theirs.criterion_ * theirs.noise_variance_
    gaps = ours.values - ours.values[-1], expected - expected[-1]
    assert_allclose(gaps[0], gaps[1], rtol=1e-3, atol=1e-4 * np.ptp(expected))
    coef = theirs.coef_ * _units(case)
    assert_allclose(ours.fit.used[:-1], coef, rtol=1e-3, atol=1e-5 * np.abs(coef).max())
    assert ours.fit.refusal is not None


def _units(case):
    half = case.release.columns.half_width
    return half[-2] / half[:-2]


@pytest.mark.parametrize("name", ["fair", "randhie", "star98"])
def test_elastic_net_is_that_of_scikit_learn(name):
    case = study(name)
    path = case.release.penalty_path(case.target, case.features, l1_ratio=0.3, n_alphas=12)
    *features, target = scaled(case).T
    for alpha, coef in list(zip(path.alphas, path.coefs, strict=True))[::3]:
        net = linear.ElasticNet(alpha=alpha, l1_ratio=0.3, tol=1e-10, max_iter=100_000)
        expected = net.fit(np.column_stack(features), target).coef_ * _units(case)
        assert_allclose(coef, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max() + 1e-12)
    assert (np.diff(path.df) > -1e-6).all()


@pytest.mark.long
def test_choosing_by_noise_aware_risk_predicts_better():
    """Against the same choice that knows of sampling alone: less error, on average of 30 draws."""
    covariance = rows(np.random.default_rng(0), 200_000)[:, :8]
    covariance = covariance.T @ covariance / 200_000
    aware, unaware = [], []
    for seed in range(30):
        release = drawn(seed, 130.0)
        blind = make_release(release.matrix, NAMES, n_rows=3000)
        for found, one in ((aware, release), (unaware, blind)):
            try:
                fit = penalty_path(one, "y").fit
            except RefusedError:
                break
            coef = np.zeros(8)
            coef[[NAMES.index(name) for name in fit.design.names]] = fit.used[:-1]
            found.append((coef - TRUTH) @ covariance @ (coef - TRUTH))
    count = min(len(aware), len(unaware))
    assert count > 20
    assert np.mean(aware[:count]) < 0.9 * np.mean(unaware[:count])


@pytest.mark.long
def test_risk_is_that_of_new_rows():
    """Mean over 200 draws of what least squares of all columns leaves of new rows, to 5 %."""
    stated, true = [], []
    covariance = rows(np.random.default_rng(0), 200_000)[:, :8]
    covariance = covariance.T @ covariance / 200_000
    for seed in range(200):
        path = penalty_path(drawn(seed, 60.0), "y")
        stated.append(path.values[-1] / 3000)
        gap = path.coefs[-1] - TRUTH
        true.append(1 + gap @ covariance @ gap)
    # Both are averages of 200 numbers; the stated one has a deviation of 0.08 each.
    assert np.mean(stated) == pytest.approx(np.mean(true), rel=0.05)


def test_selection_refuses_wrong_arguments():
    release = drawn(0, 1.0)
    refuses(lambda: release.penalty_path("y", criterion="cp"), ValueError, "'aic' or 'bic'")
    refuses(lambda: release.penalty_path("y", l1_ratio=0.0), ValueError, r"\(0, 1\]")
    with pytest.raises(RefusedError):
        drawn(0, 5e3).penalty_path("y")
    lost = make_release(np.eye(17) * 100, (*(f"x{i}" for i in range(16)), "y"))
    refuses(lambda: lost.penalty_path("y"), ValueError, "number of rows is private")
