"""Analyze Gauss with the discrete Gaussian: the sampler's law, exact sums, what it refuses."""

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import privgram as pg
from privgram.drawing import random as _discrete
from privgram.mechanisms import AnalyzeGauss, additive
from privgram.papers.sheffet import published

pytest.importorskip("opendp")

DISCRETE = AnalyzeGauss(noise="discrete")


@pytest.fixture
def moment():
    rng = np.random.default_rng(0)
    return pg.SecondMoment(4, bound=2.0).update(rng.standard_normal((200, 4)))


@pytest.mark.slow
def test_sampler_has_the_law():
    """Chi-squared against the masses, 40,000 draws; the sampler has no seed: false alarm 1e-9."""
    std = 3.7
    draws = _discrete._draw(40_000, std)
    x = np.arange(-12, 13)
    mass = np.exp(-0.5 * (x / std) ** 2) / np.exp(-0.5 * (np.arange(-200, 201) / std) ** 2).sum()
    seen = np.array([np.count_nonzero(draws == v) for v in x])
    expected, observed = np.append(mass, 1 - mass.sum()), np.append(seen, draws.size - seen.sum())
    chi2 = ((observed - draws.size * expected) ** 2 / (draws.size * expected)).sum()
    assert chi2 < stats.chi2.isf(1e-9, len(x))
    # At the size of releases: standardised, its mean square; false alarm 1e-9.
    large = _discrete._draw(20_000, 2.0**42) / 2.0**42
    assert abs((large**2).sum() - 20_000) < stats.norm.isf(5e-10) * math.sqrt(2 * 20_000)


def test_layout_and_deviations(monkeypatch):
    monkeypatch.setattr(_discrete, "_draw", lambda size, std: np.full(size, int(std), np.int64))
    noise = _discrete.discrete_gaussian(3, 5.0, 7.0)
    assert noise.tolist() == [[7, 5, 5], [5, 7, 5], [5, 5, 7]]
    assert _discrete.discrete_gaussian(1, 5.0, 7.0).tolist() == [[7]]


@pytest.mark.parametrize("size", [0, 3, -(2**62), 2**63 - 1])
def test_release_is_the_sum_of_integers_on_the_grid(moment, monkeypatch, size):
    draw = np.array([[size - abs(i - j) for j in range(4)] for i in range(4)], np.int64)
    monkeypatch.setattr(_discrete, "discrete_gaussian", lambda *_: draw)
    release = DISCRETE.release(moment, 1.0, 1e-6)
    hi, lo = moment.limbs()
    step = 2 ** (
        math.floor(math.log2(release.parameters["noise_std_diagonal"] / math.sqrt(2) / moment.unit))
        - 10
    )
    for i, j in np.ndindex(4, 4):
        total = int(hi[i, j]) * 2**64 + int(lo[i, j]) + int(draw[i, j])
        steps = (2 * total + step) // (2 * step)
        assert release.matrix[i, j] == steps * (moment.unit * step)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("d", [1, 4, 100])
def test_noise_is_that_of_symmetric_noise(d, adjacency):
    arguments = (d, 2.0, 0.7, 1e-6, adjacency)
    discrete, smooth = DISCRETE.calibrate(*arguments), AnalyzeGauss().calibrate(*arguments)
    assert discrete.sigma == pytest.approx(smooth.sigma, rel=1e-6)
    assert discrete.noise_std == pytest.approx(smooth.noise_std, rel=1e-6)
    assert discrete.privacy.delta(0.7) <= 1e-6
    assert discrete.privacy.n_entries == d * (d + 1) // 2


def test_sampled_deviations_are_those_of_the_profile(moment, monkeypatch):
    seen = []
    monkeypatch.setattr(
        _discrete,
        "discrete_gaussian",
        lambda d, *stds: seen.append(stds) or np.zeros((d, d), np.int64),
    )
    DISCRETE.release(moment, 1.0, 1e-6)
    (std, diagonal), profile = seen[0], DISCRETE.calibrate(4, 2.0, 1.0, 1e-6).privacy
    assert profile.std <= std < profile.std * (1 + 1e-9)
    assert diagonal == pytest.approx(math.sqrt(2) * std, rel=1e-12)
    # The largest change there is, two orthogonal rows: each entry over its own deviation.
    rows = np.diag([2.0, 2.0, 0.0, 0.0])
    one, other = (pg.SecondMoment(4, bound=2.0).update(rows[[i]]) for i in (0, 1))
    change = (one.matrix() - other.matrix()) / moment.unit
    scaled = np.triu(change / np.where(np.eye(4, dtype=bool), diagonal, std))
    assert np.linalg.norm(scaled) <= profile.sensitivity_ratio
    assert np.linalg.norm(scaled) == pytest.approx(profile.sensitivity_ratio, rel=1e-5)


@pytest.mark.parametrize("repair", ["none", "shift", "project"])
def test_release_saves_and_regresses(moment, tmp_path, repair):
    release = AnalyzeGauss("discrete", repair).release(moment, 1e3, 1e-6)
    assert not release.reproducible
    release.save(tmp_path / "gram.json")
    again = pg.load(tmp_path / "gram.json")
    assert np.array_equal(again.matrix, release.matrix)
    assert again.privacy == release.privacy
    assert np.isfinite(again.regress(0).bse).all()


def test_published_constants():
    arguments = (22, 1.5, 0.5, 1e-6, "add-remove")
    printed = (published(one).calibrate(*arguments).sigma for one in (DISCRETE, AnalyzeGauss()))
    assert len(set(printed)) == 1


def test_a_seed_is_refused_and_spends_nothing(moment, tmp_path):
    ledger = pg.Ledger(tmp_path / "x.ledger", 2.0, 1e-5)
    with pytest.raises(ValueError, match="takes no seed"):
        DISCRETE.release(moment, 1.0, 1e-6, rng=np.random.default_rng(0), ledger=ledger)
    assert not ledger.entries
    DISCRETE.release(moment, 1.0, 1e-6, ledger=ledger)
    assert (
        ledger.entries[0].privacy
        == DISCRETE.calibrate(4, moment.sensitivity_bound, 1.0, 1e-6).privacy
    )


def test_noise_beyond_64_bits_is_refused():
    with pytest.raises(ValueError, match="64 bits"):
        DISCRETE.calibrate(4, 1.0, 1e-8, 1e-9)


def test_a_coarse_second_moment_is_refused(moment, monkeypatch):
    monkeypatch.setattr(additive, "STEPS", 2.0**41)
    additive.AnalyzeGauss("discrete")
    from privgram.mechanisms import _base

    _base._calibrate.cache_clear()
    try:
        with pytest.raises(ValueError, match="20 bits"):
            DISCRETE.release(moment, 1.0, 1e-6)
    finally:
        _base._calibrate.cache_clear()


WITHOUT = """
import sys
sys.modules["opendp"] = sys.modules["opendp.prelude"] = None
import numpy as np, privgram as pg
moment = pg.second_moment(np.eye(3), bound=1.0)
try:
    pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=pg.AnalyzeGauss(noise="discrete"))
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_missing_sampler_is_named():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True
    )
    assert 'pip install "privgram[opendp]"' in done.stdout


@pytest.fixture
def no_consent():
    import opendp.prelude as dp

    before = set(dp.GLOBAL_FEATURES)
    dp.disable_features("contrib")
    yield dp
    dp.enable_features(*before)


def test_consent_to_opendp_is_left_as_it_was(no_consent):
    _discrete._draw(2, 5.0)
    assert "contrib" not in no_consent.GLOBAL_FEATURES
    no_consent.enable_features("contrib")
    _discrete._draw(2, 5.0)
    assert "contrib" in no_consent.GLOBAL_FEATURES


@pytest.mark.slow
def test_threads_do_not_withdraw_each_others_consent(moment, no_consent):
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            drawn = list(pool.map(lambda _: DISCRETE.release(moment, 1.0, 1e-6), range(400)))
    finally:
        sys.setswitchinterval(before)
    assert len({release.matrix.tobytes() for release in drawn}) == 400
    assert "contrib" not in no_consent.GLOBAL_FEATURES
