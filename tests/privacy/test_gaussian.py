"""Gaussian profile: exact values, limits, inverse."""

import mpmath as mp
import numpy as np
import pytest

from privgram.privacy import GaussianProfile, calibration


def exact_delta(mu, epsilon):
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), in 400-digit arithmetic."""
    with mp.workdps(400):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("mu", [1e-9, 1e-5, 1e-3, 0.03, 0.049999, 0.05, 0.3, 1.0, 3.0, 10.0, 1e3])
def test_agrees_with_multiprecision(mu):
    profile = GaussianProfile(mu)
    for ratio in [0.0, 1e-3, 0.5, 1.0, 3.0, 8.0, 15.0, 30.0]:
        epsilon = ratio * mu
        truth = exact_delta(mu, epsilon)
        assert abs(profile.delta(epsilon) / truth - 1) < 1e-12


def test_delta_below_the_smallest_float_is_rounded_up():
    assert 0 < GaussianProfile(1e-3).delta(1.0) < 1e-300


@pytest.mark.parametrize("epsilon", [0.0, 1e-4, 0.1, 1.0, 10.0, 50.0])
@pytest.mark.parametrize("delta", [1e-30, 1e-15, 1e-6, 0.01, 0.5, 0.999])
def test_calibration_is_safe_and_tight(epsilon, delta):
    mu = calibration.gaussian_ratio(epsilon, delta)
    assert delta * (1 - 1e-11) <= GaussianProfile(mu).delta(epsilon) <= delta


@pytest.mark.parametrize("mu", [1e-6, 0.01, 1.0, 30.0])
@pytest.mark.parametrize("delta", [1e-30, 1e-9, 0.3])
def test_epsilon_inverts_delta_on_the_safe_side(mu, delta):
    profile = GaussianProfile(mu)
    epsilon = profile.epsilon(delta)
    if epsilon == 0.0:
        assert profile.delta(0.0) <= delta
    else:
        assert delta * (1 - 1e-9) <= profile.delta(epsilon) <= delta


def test_negative_epsilon_is_the_exchanged_pair():
    truth = [exact_delta(0.7, -e) for e in (0.1, 1.0, 5.0)]
    np.testing.assert_allclose(
        GaussianProfile(0.7).delta([-0.1, -1.0, -5.0]), np.array(truth, float), rtol=1e-14
    )
