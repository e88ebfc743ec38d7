"""The discrete Gaussian's profile against sums over the integers themselves."""

import itertools
import math

import numpy as np
import pytest

from privgram.privacy import DiscreteGaussianProfile, GaussianProfile, calibration, compose

EPSILONS = [0.0, 1e-3, 0.1, 0.5, 1.0, 3.0, 8.0]


def masses(std, shift=0):
    x = np.arange(-math.ceil(14 * std) - 20, math.ceil(14 * std) + 21)
    weights = np.exp(-0.5 * (x / std) ** 2)
    return np.exp(-0.5 * ((x - shift) / std) ** 2) / weights.sum()


def exact_delta(stds, shifts, epsilon):
    """sup P(S) - e^epsilon Q(S), by adding up where P is more likely."""
    p, q = np.ones(1), np.ones(1)
    for std, shift in zip(stds, shifts, strict=True):
        p = np.multiply.outer(p, masses(std)).ravel()
        q = np.multiply.outer(q, masses(std, shift)).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


CASES = [
    ((2.0,), (1,)),
    ((5.0,), (3,)),
    ((40.0,), (60,)),
    ((300.0,), (1,)),
    ((3.0, 3.0), (1, -2)),
    ((12.0, 12.0 * math.sqrt(2.0)), (5, 9)),
    ((9.0, 9.0), (9, 0)),
]


@pytest.mark.parametrize(("stds", "shifts"), CASES, ids=str)
def test_bounds_the_exact_sum(stds, shifts):
    mu = math.hypot(*(v / s for v, s in zip(shifts, stds, strict=True)))
    profile = DiscreteGaussianProfile(mu, min(stds), len(stds))
    for epsilon in EPSILONS:
        exact = exact_delta(stds, shifts, epsilon)
        assert profile.delta(epsilon) >= exact * (1 - 1e-12)


def test_comes_near_the_exact_sum():
    """A bound alone could be 1; at a deviation of 3000 it is within 1 %."""
    for mu_steps, epsilon in itertools.product((300, 3000), (0.0, 0.1, 0.5)):
        profile = DiscreteGaussianProfile(mu_steps / 3000.0, 3000.0, 1)
        exact = exact_delta((3000.0,), (mu_steps,), epsilon)
        if exact > 1e-12:
            assert profile.delta(epsilon) == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("std", [1.0, 1.3, 7.0])
def test_the_two_inequalities_of_the_proof(std):
    """Masses of the rounded and of the discrete Gaussian, one over the other."""
    from mpmath import mp, mpf, ncdf

    with mp.workdps(60):
        s = mpf(std)
        total = mp.nsum(lambda x: mp.exp(-(x**2) / (2 * s**2)), [-mp.inf, mp.inf])
        c = mp.nsum(lambda m: mp.exp(-2 * (mp.pi * s * m) ** 2), [-mp.inf, mp.inf])
        assert abs(total / (s * mp.sqrt(2 * mp.pi)) - c) < mpf(10) ** -40
        for x in range(int(20 * std)):
            discrete = mp.exp(-(mpf(x) ** 2) / (2 * s**2)) / total
            rounded = ncdf((0.5 - mpf(x)) / s) - ncdf((-0.5 - mpf(x)) / s)
            t = mpf(x) / s
            assert discrete <= mp.exp(1 / (8 * s**2)) * rounded
            assert rounded <= c * mp.exp(t**2 / (8 * s**2)) * discrete


def test_is_the_gaussian_profile_at_the_deviations_of_releases():
    epsilon = np.array([0.0, 0.1, 1.0, 10.0, 100.0])
    for mu in (0.01, 0.3, 4.0):
        fine = DiscreteGaussianProfile(mu, 2.0**36, 500_000).delta(epsilon)
        assert np.all(fine >= GaussianProfile(mu).delta(epsilon))
        assert fine == pytest.approx(GaussianProfile(mu).delta(epsilon), rel=1e-9, abs=3e-308)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("sensitivity", [30.0, 2.0**40])
def test_calibration_is_the_largest_ratio(sensitivity, epsilon):
    profile = calibration.discrete_gaussian(sensitivity, 253, epsilon, 1e-6)
    assert profile.std == sensitivity / profile.sensitivity_ratio
    assert profile.delta(epsilon) <= 1e-6
    mu = profile.sensitivity_ratio * (1 + 1e-9)
    assert DiscreteGaussianProfile(mu, sensitivity / mu, 253).delta(epsilon) > 1e-6


def test_composes_with_its_kind_and_with_gaussian_noise():
    one, other = DiscreteGaussianProfile(0.3, 10.0, 6), DiscreteGaussianProfile(0.4, 20.0, 5)
    assert compose([one, other]) == DiscreteGaussianProfile(0.5, 10.0, 11)
    assert compose([GaussianProfile(1.2), one, other]) == DiscreteGaussianProfile(1.3, 10.0, 11)
    # Two entries are what two releases of one entry are.
    both = compose([DiscreteGaussianProfile(1 / 4, 4.0, 1), DiscreteGaussianProfile(2 / 4, 4.0, 1)])
    for epsilon in EPSILONS:
        assert both.delta(epsilon) >= exact_delta((4.0, 4.0), (1, 2), epsilon) * (1 - 1e-12)


@pytest.mark.parametrize("arguments", [(0.0, 2.0, 1), (1.0, 0.5, 1), (1.0, 2.0, 0)])
def test_parameters_are_checked(arguments):
    with pytest.raises(ValueError, match="must be"):
        DiscreteGaussianProfile(*arguments)


def test_noise_for_which_the_bound_says_nothing_has_no_epsilon():
    assert DiscreteGaussianProfile(0.7, 1.0, 40).epsilon(1e-6) == math.inf
