"""Releases at delta = 0: the mechanism, and all that takes its guarantee on."""

import math

import numpy as np
import pytest
from scipy import stats

import privgram as pg
from privgram import mechanisms, privacy
from privgram.noise import MatrixLaplaceLaw
from privgram.papers.sheffet import GaussianSketch, InverseWishart, published
from privgram.privacy import Guarantee

TABLE = np.random.default_rng(0).uniform(-1, 1, (500, 3))
MOMENT = pg.second_moment(TABLE, bound=2.0)


def test_release_is_private_at_delta_zero(tmp_path):
    release = pg.release(TABLE, epsilon=1.0, delta=0.0, bound=2.0)
    assert release.mechanism == pg.MatrixLaplace()
    assert (release.epsilon, release.delta, release.proof_status) == (1.0, 0.0, "upper bound")
    assert release.privacy.delta(1.0) == 0.0
    assert release.privacy.epsilon(0.0) == pytest.approx(1.0, rel=1e-15)
    scale = MOMENT.sensitivity_bound**2
    assert release.noise == MatrixLaplaceLaw(pytest.approx(scale), 4)
    release.save(tmp_path / "release.json")
    loaded = pg.load(tmp_path / "release.json")
    assert (loaded.delta, loaded.privacy) == (0.0, release.privacy)
    assert "delta=0" in repr(loaded)


@pytest.mark.parametrize(
    "mechanism",
    [pg.AnalyzeGauss(), pg.AdditiveWishart(), GaussianSketch(9), InverseWishart(9)],
    ids=repr,
)
def test_no_other_mechanism_is(mechanism):
    with pytest.raises(ValueError, match=r"delta must be above 0 .* MatrixLaplace\(\)"):
        pg.release(MOMENT, None, 1.0, 0.0, mechanism=mechanism)


def test_dof_that_is_too_small_or_a_published_constant_is_refused():
    with pytest.raises(ValueError, match="dof must be at least n_columns"):
        pg.MatrixLaplace(dof=3).calibrate(3, 1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="the paper has no constants for MatrixLaplace"):
        published(pg.MatrixLaplace())


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_one_column_is_the_laplace_mechanism(adjacency):
    """Noise of scale B^2 / epsilon: 3000 releases, Kolmogorov and Smirnov at 1e-6.

    Noise a third short would fail.
    """
    moment = pg.second_moment(np.ones((20, 1)), bound=1.0)
    rng = np.random.default_rng(1)
    drawn = [
        pg.release(
            moment, None, 0.5, 0.0, adjacency=adjacency, rng=rng, mechanism=pg.MatrixLaplace()
        ).matrix[0, 0]
        for _ in range(3000)
    ]
    noise = (np.array(drawn) - moment.matrix()[0, 0]) / moment.sensitivity_bound**2
    assert stats.kstest(noise, stats.laplace(scale=2.0).cdf).pvalue > 1e-6
    assert stats.kstest(noise, stats.laplace(scale=2.0 * 1.5).cdf).pvalue < 1e-6


@pytest.mark.long
def test_exact_draws_have_the_law():
    """The trace and an entry of 300 releases, Kolmogorov and Smirnov at 1e-6.

    A third of the noise fails. The trace is the difference of two gammas, and an entry off the
    diagonal has the law of one drawn in floats.
    """
    rng, d, dof = np.random.default_rng(3), 3, 4
    moment = pg.second_moment(np.zeros((1, d)), bound=1.0)
    noise = [
        pg.release(moment, None, 1.0, 0.0, rng=rng, mechanism=pg.MatrixLaplace()).matrix
        / moment.sensitivity_bound**2
        for _ in range(300)
    ]
    trace = np.trace(noise, axis1=1, axis2=2)
    gammas = rng.gamma(dof * d / 2, 2.0, (2, 20_000))
    assert stats.ks_2samp(trace, gammas[0] - gammas[1]).pvalue > 1e-6
    assert stats.ks_2samp(trace, 3 * (gammas[0] - gammas[1])).pvalue < 1e-6
    drawn = [MatrixLaplaceLaw(1.0, dof).draw(np.zeros((d, d)), rng)[0, 1] for _ in range(5000)]
    assert stats.ks_2samp(np.array(noise)[:, 0, 1], drawn).pvalue > 1e-6


def test_trace_of_the_noise_has_its_characteristic_function():
    """E e^(i u tr N) = (1 + 4 u^2 s^2)^(-k d / 2) [cf. of 2 k d squares]; within 5 deviations."""
    law = MatrixLaplaceLaw(0.7, 4)
    rng = np.random.default_rng(2)
    trace = np.array([np.trace(law.draw(np.zeros((3, 3)), rng)) for _ in range(4000)])
    for u in (0.05, 0.1, 0.3):
        values = np.cos(u * trace)
        expected = (1 + 4 * u**2 * 0.7**2) ** (-4 * 3 / 2)
        assert abs(values.mean() - expected) < 5 * values.std() / math.sqrt(len(values))


def test_ledger_of_delta_zero(tmp_path):
    ledger = pg.Ledger(tmp_path / "pure.ledger", 1.0, 0.0)
    for count in range(1, 5):
        pg.release(MOMENT, epsilon=0.25, delta=0.0, ledger=ledger)
        assert ledger.spent == (0.25 * count, 0.0)
    assert ledger.remaining(0.0) == 0.0
    with pytest.raises(pg.BudgetExceeded, match="add up to more than 1"):
        pg.release(MOMENT, epsilon=0.25, delta=0.0, ledger=ledger)
    assert len(ledger.entries) == 4


def test_ledger_of_delta_zero_takes_nothing_else(tmp_path):
    ledger = pg.Ledger(tmp_path / "pure.ledger", 1.0, 0.0)
    with pytest.raises(pg.BudgetExceeded):
        pg.release(MOMENT, epsilon=0.25, delta=1e-9, mechanism=pg.AnalyzeGauss(), ledger=ledger)
    assert not ledger.entries


def test_releases_compose(tmp_path):
    pure = pg.release(MOMENT, epsilon=0.5, delta=0.0).privacy
    both = privacy.compose([pure, pure])
    assert both.delta(1.0) < 1e-11
    assert both.delta(0.9) < privacy.StatedProfile(1.0, 0.0).delta(0.9)
    mixed = privacy.compose([pure, privacy.GaussianProfile(0.3)])
    assert mixed.proof_status == "upper bound"
    assert mixed.delta(1.5) <= privacy.GaussianProfile(0.3).delta(1.0) * (1 + 1e-6)


def test_bound_chosen_from_the_table_keeps_delta_zero():
    table = np.random.default_rng(3).standard_normal((5000, 2))
    release = pg.release(table, epsilon=1.0, delta=0.0, bound=pg.PrivateBound(0.5))
    assert (release.epsilon, release.delta) == (1.5, 0.0)


def test_opendp():
    dp = pytest.importorskip("opendp.prelude")
    from privgram.interop.opendp import make_measurement

    dp.enable_features("contrib", "honest-but-curious")
    options = {"bound": 2.0, "epsilon": 0.5, "delta": 0.0, "n_rows": 500}
    pure = make_measurement(pg.MatrixLaplace(), 3, **options, measure="pureDP")
    assert pure.map(1) == 0.5
    assert pure.map(2) == 1.0
    assert dp.c.make_composition([pure, pure]).map(1) == 1.0
    assert pure(TABLE).delta == 0.0
    approximate = make_measurement(pg.MatrixLaplace(), 3, **options)
    assert approximate.map(3) == (1.5, 0.0)
    concentrated = make_measurement(pg.MatrixLaplace(), 3, **options, measure="zCDP")
    assert concentrated.map(2) == 0.5  # epsilon^2 / 2 at 2 * 0.5
    with pytest.raises(ValueError, match="pureDP"):
        make_measurement(pg.AnalyzeGauss(), 3, **(options | {"delta": 1e-6}), measure="pureDP")


def test_default_at_delta_zero():
    assert mechanisms.default(Guarantee(1.0, 0.0, "replace", None), 5, 2.0) == pg.MatrixLaplace()
    with pytest.raises(ValueError, match="epsilon must be positive"):
        mechanisms.default(Guarantee(0.0, 0.0, "replace", None), 5, 2.0)
