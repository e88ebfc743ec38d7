"""Gaussian noise where it meets sums: exact integers, their lattice and grid, and the theorem."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf, ncdf
from scipy import stats

import privgram as pg
from privgram.exact import discrete, int128
from privgram.privacy import GaussianProfile
from privgram.secret.additive import SURPLUS, lattice_shift, noisy_matrix, noisy_sums

ALARM = 1e-6


@pytest.fixture
def draws(monkeypatch):
    """Every draw of the test: its variance and the integers that came."""
    made = []
    real = discrete.gaussian

    def recorded(variance, size, rng):
        made.append((variance, int128.to_integers(drawn := real(variance, size, rng))))
        return drawn

    monkeypatch.setattr(discrete, "gaussian", recorded)
    return made


# --- What is added ---------------------------------------------------------------------------


def test_multiples_are_those_of_pythons_integers(rng):
    high = rng.integers(-(2**31), 2**31, 300)
    low = rng.integers(0, 2**64, 300, dtype=np.uint64)
    low[:9] = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64 - 2, 3, 2**33]
    for weight in (0, 1, 3, 2**20, 2**31 + 1, 2**32 - 1):
        exact = int128.to_integers((high, low)) * weight
        found = int128.to_integers(int128.times((high, low), weight))
        assert (found == exact).all()


@pytest.mark.parametrize("std", [1e-9, 0.3, 1.0, 77.7, 2.0**42, 2.0**86])
def test_sums_are_integers_with_the_draw_on_a_public_grid(draws, rng, std):
    total = rng.integers(-(2**40), 2**40, (5, 3))
    released = noisy_sums(total, std, rng)
    ((variance, noise),) = draws
    shift = lattice_shift(std, total.size)
    assert (
        (Fraction(std) * 2**shift) ** 2
        < variance
        < (Fraction(std) * 2**shift * (1 + Fraction(1, 2**28))) ** 2
    )
    grid = Fraction(2) ** (math.floor(math.log2(std)) - 10)
    if std > 2**60:
        grid = max(grid, Fraction(1, 2**shift))
    for value, exact, drawn in zip(released.flat, total.flat, noise, strict=True):
        steps = (int(exact) + Fraction(int(drawn), 2**shift)) / grid
        assert value == float(math.floor(steps + Fraction(1, 2))) * float(grid)


def test_matrix_is_symmetric_and_every_entry_has_noise_of_its_own(draws, rng):
    d, std, diagonal = 5, 1e12, 3e12
    total = rng.integers(-(2**62), 2**62, (d, d))
    total += total.T
    released = noisy_matrix(int128.from_int64(total[np.tril_indices(d)]), std, diagonal, rng)
    (first, above), (second, along) = draws
    assert (
        second / first == (Fraction(diagonal * (1 + SURPLUS)) / Fraction(std * (1 + SURPLUS))) ** 2
    )
    assert (released == released.T).all()
    shift = lattice_shift(std, d * (d + 1) // 2)
    noise = np.zeros((d, d))
    noise[np.triu_indices(d, 1)] = [int(x) / 2**shift for x in above]
    noise += noise.T + np.diag([int(x) / 2**shift for x in along])
    assert len(set(above)) == 10
    np.testing.assert_allclose(released - total, noise, atol=std / 2**10)
    assert noisy_matrix(int128.from_int64(total[0, :1]), std, diagonal, rng).shape == (1, 1)


@pytest.mark.parametrize("mechanism", [pg.AnalyzeGauss(), pg.AnalyzeGauss(noise="triangular")])
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_noise_is_no_smaller_than_calibrated(draws, mechanism, adjacency):
    """Of the worst pair: change over deviation, in the lattice's steps, is below the ratio."""
    rows = np.diag([2.0, 2.0, 0.0, 0.0])
    one, other = (pg.SecondMoment(4, bound=2.0).update(rows[[i]]) for i in (0, 1))
    noise = mechanism.calibrate(4, one.sensitivity_bound, 1.0, 1e-6, adjacency)
    pg.release(one, None, 1.0, 1e-6, adjacency=adjacency, mechanism=mechanism)
    (off, _), (along, _) = draws
    exact, moved = (int128.to_integers(one.int128()), int128.to_integers(other.int128()))
    change = exact - moved if adjacency == "replace" else exact
    steps = 4 ** lattice_shift(noise.noise_std / one.resolution, 10)
    square = sum(
        Fraction(int(change[i, j]) ** 2 * steps) / (along if i == j else off)
        for i in range(4)
        for j in range(i, 4)
    )
    mu = Fraction(noise.privacy.sensitivity_ratio) / (1 + Fraction(1, 2**30))
    assert square <= mu**2
    assert square > mu**2 * Fraction(9999, 10000)


@pytest.mark.slow
@pytest.mark.parametrize("std", [0.7, 30.0])
def test_law_of_noise_on_counts(rng, std):
    """Kolmogorov and Smirnov against the continuous law, of 10^5 counts that are all the same."""
    noise = noisy_sums(np.full(10**5, 42), std, rng) - 42
    assert stats.kstest(noise / std, "norm").pvalue > ALARM


def test_noise_that_integers_have_no_room_for_is_refused_before_anything_is_spent(tmp_path):
    columns = pg.Columns(dict.fromkeys("xyz", (-1, 1)))
    ledger = pg.Ledger(tmp_path / "ledger", 1.0, 1e-6)
    for mechanism in (pg.AnalyzeGauss(), pg.AdaptiveGaussian()):
        with pytest.raises(ValueError, match="must be larger"):
            pg.release(np.eye(3), columns, 1e-13, 1e-14, mechanism=mechanism, ledger=ledger)
    assert not ledger.entries


# --- The theorem: discrete noise, a little larger, is no worse than continuous noise -------------


def condition(mu, std, entries):
    """The surplus that the theorem asks for, in the deviation of least `std`."""
    return 10 * 2**14 * entries / (mu * std**2)


def test_lattice_meets_the_theorems_condition():
    """With room for 2^20 releases, of up to 2^32 sums, at any deviation from 2^-40 to 2^86."""
    for size, log in itertools.product((1, 50, 2**21, 2**32), range(-40, 87)):
        std = 2.0**log
        lattice = math.ldexp(std, lattice_shift(std, size))
        assert condition(1 / (math.sqrt(2) * std), lattice, size) * math.sqrt(2.0**20) < SURPLUS / 2


def masses(std, shift=0):
    x = np.arange(-math.ceil(14 * std) - 20, math.ceil(14 * std) + 21)
    return np.exp(-0.5 * ((x - shift) / std) ** 2) / np.exp(-0.5 * (x / std) ** 2).sum()


def exact_delta(stds, shifts, epsilon):
    """sup P(S) - e^epsilon Q(S), by adding up where P is more likely: up to some last number."""
    p, q = np.ones(1), np.full(1, math.exp(epsilon))
    *others, (last, shift) = zip(stds, shifts, strict=True)
    for std, moved in others:
        p = np.multiply.outer(p, masses(std)).ravel()
        q = np.multiply.outer(q, masses(std, moved)).ravel()
    a, b = masses(last), masses(last, shift)
    ends = np.searchsorted(b / a, p / q)
    return float((p * np.append(0, a.cumsum())[ends] - q * np.append(0, b.cumsum())[ends]).sum())


CASES = [
    ((600.0,), (300,)),
    ((600.0,), (1200,)),
    ((5000.0,), (300,)),
    ((20_000.0,), (60_000,)),
    ((600.0, 700.0), (500, 900)),
]


@pytest.mark.parametrize(("stds", "shifts"), CASES, ids=str)
def test_profile_of_larger_noise_is_not_above_the_gaussian_one(stds, shifts):
    """At the theorem's surplus, by the exact sum over the integers."""
    mu = math.hypot(*(v / s for v, s in zip(shifts, stds, strict=True)))
    surplus = condition(mu, min(stds), len(stds))
    for epsilon in (0.0, 1e-3, 0.1, 0.5, 1.0, 3.0, 8.0):
        bound = GaussianProfile(mu * (1 + surplus)).delta(epsilon)
        assert exact_delta(stds, shifts, epsilon) <= bound * (1 + 1e-9)


def test_profile_at_coarse_deviations_may_be_above_the_gaussian_one():
    """Of noise that is not on a fine lattice: why there is one."""
    assert exact_delta((1.0,), (1,), 0.0) > 1.04 * GaussianProfile(1.0).delta(0.0)


@pytest.mark.parametrize("std", [1.0, 1.3, 7.0])
def test_two_inequalities_of_the_proof(std):
    """Masses of the rounded and of the discrete Gaussian, one over the other."""
    with mp.workdps(60):
        s = mpf(std)
        total = mp.nsum(lambda x: mp.exp(-(x**2) / (2 * s**2)), [-mp.inf, mp.inf])
        c = mp.nsum(lambda m: mp.exp(-2 * (mp.pi * s * m) ** 2), [-mp.inf, mp.inf])
        assert abs(total / (s * mp.sqrt(2 * mp.pi)) - c) < mpf(10) ** -40
        for x in range(int(20 * std)):
            mass = mp.exp(-(mpf(x) ** 2) / (2 * s**2)) / total
            rounded = ncdf((0.5 - mpf(x)) / s) - ncdf((-0.5 - mpf(x)) / s)
            t = mpf(x) / s
            assert mass <= mp.exp(1 / (8 * s**2)) * rounded
            assert rounded <= c * mp.exp(t**2 / (8 * s**2)) * mass


def test_excess_and_gain_of_the_proof():
    """Excess is at most 4 theta phi(z), and a larger ratio gains half of mu eta phi(z)."""
    with mp.workdps(80):
        eta = mpf(2) ** -30
        theta = mpf(2) ** -60

        def delta(epsilon, mu):
            return ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * ncdf(-mu / 2 - epsilon / mu)

        for mu, epsilon in itertools.product((0.001, 0.3, 1.0, 4.0, 20.0), (0.0, 0.01, 1.0, 30.0)):
            mu, epsilon = mpf(mu), mpf(epsilon)
            phi = mp.npdf(mu / 2 - epsilon / mu)
            at = delta(epsilon, mu)
            excess = min(mp.exp(theta) * delta(epsilon - theta, mu) - at, theta * (1 - at))
            assert excess <= 4 * theta * phi
            assert delta(epsilon, mu * (1 + eta)) - at >= eta * mu * phi / 2
