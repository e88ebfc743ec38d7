"""privgram's profiles in dp_accounting: pessimistic, and only just."""

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("dp_accounting")

from dp_accounting.pld import privacy_loss_distribution

from privgram.interop.dp_accounting import pld_from_profile
from privgram.papers.sheffet import SketchProfile, WishartProfile
from privgram.privacy import GaussianProfile
from privgram.privacy._numerics import connect_the_dots
from privgram.privacy.profiles import CoupledProfile

pytestmark = pytest.mark.slow

PROFILES = [
    GaussianProfile(0.05),
    GaussianProfile(3.0),
    SketchProfile(20, 0.05, "add-remove"),
    SketchProfile(20, 0.05, "replace"),
    SketchProfile(1, 2.0, "add-remove"),
    WishartProfile(300, 22, 1.0, "add-remove"),
    WishartProfile(3000, 22, 8.0, "replace"),
    WishartProfile(40, 22, 1.0, "add-remove"),
]


def epsilons(profile):
    """Epsilons from 0 to where delta is about 1e-10, off the grid."""
    top = min(profile.epsilon(max(1e-10, 1.5 * profile.delta(300.0))), 20.0)
    return np.array([0.0, 0.031, 0.27, 0.52, 0.97]) * top


@pytest.mark.parametrize("profile", PROFILES, ids=repr)
def test_one_release_is_dominated_and_tight(profile):
    pld = pld_from_profile(profile, 1e-3)
    for epsilon in epsilons(profile):
        exact = profile.delta(epsilon)
        assert exact <= pld.get_delta_for_epsilon(epsilon) <= exact * (1 + 2e-3)


@pytest.mark.parametrize("profile", PROFILES[2:6], ids=repr)
def test_directions_are_apart_and_have_total_mass_one(profile):
    pld = pld_from_profile(profile, 1e-3)
    curves = profile._directions()
    pmfs = [pld._pmf_remove, pld._pmf_add]
    for curve, pmf in zip((curves * 2)[:2], pmfs, strict=True):
        dense = pmf.to_dense_pmf()
        assert dense._probs.min() >= 0
        assert dense._probs.sum() + dense._infinity_mass == pytest.approx(1.0, abs=1e-12)
        # Negative epsilons too: there the masses come from the other direction.
        for epsilon in (-0.3, -0.05, 0.0, 0.02, 0.2):
            exact = float(curve(np.array([epsilon]))[0])
            upper = pmf.get_delta_for_epsilon(epsilon)
            assert exact * (1 - 1e-12) <= upper <= exact * (1 + 2e-3) + 1e-14


def test_dots_that_rounding_put_too_high_are_skipped():
    rng = np.random.default_rng(8)

    def curve(epsilon):
        jitter = 1e-4 * np.minimum(epsilon, 1.0) * rng.uniform(size=epsilon.shape)
        return GaussianProfile(0.5)._curve(epsilon) * (1 + jitter)

    masses, infinity = connect_the_dots(curve, curve, 1e-3)
    assert min(masses.values()) >= 0
    assert sum(masses.values()) + infinity == pytest.approx(1.0, abs=1e-12)
    losses, mass = np.array(list(masses)) * 1e-3, np.array(list(masses.values()))
    for epsilon in (0.0, 0.3, 1.1, 2.0):
        upper = mass @ np.maximum(-np.expm1(epsilon - losses), 0.0) + infinity
        exact = GaussianProfile(0.5).delta(epsilon)
        assert exact <= upper <= exact * (1 + 1.1e-4)


def test_release_composes_with_gaussian_and_laplace_noise():
    # A Gaussian release, so that the answer is known without us: two Gaussians are one.
    steps = {"value_discretization_interval": 1e-3}
    laplace = privacy_loss_distribution.from_laplace_mechanism(5.0, **steps)
    other = privacy_loss_distribution.from_gaussian_mechanism(2.0, **steps)
    both = privacy_loss_distribution.from_gaussian_mechanism(1 / np.hypot(0.4, 0.5), **steps)
    known = both.compose(laplace)
    found = pld_from_profile(GaussianProfile(0.4), 1e-3).compose(other).compose(laplace)
    for epsilon in (0.3, 1.0, 2.5):
        exact = known.get_delta_for_epsilon(epsilon)
        assert found.get_delta_for_epsilon(epsilon) == pytest.approx(exact, rel=1e-3)
    exact = known.get_epsilon_for_delta(1e-6)
    assert found.get_epsilon_for_delta(1e-6) == pytest.approx(exact, rel=1e-3)


def test_counts():
    one = pld_from_profile(SketchProfile(20, 0.05, "replace"), 1e-3, symmetric=True)
    exact = SketchProfile(120, 0.05, "replace").delta(1.0)
    assert one.self_compose(6).get_delta_for_epsilon(1.0) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("discretization", [0.0, -1e-4, np.nan, np.inf])
def test_discretization_is_checked(discretization):
    with pytest.raises(ValueError, match="discretization"):
        pld_from_profile(GaussianProfile(1.0), discretization)


def test_orders_meet_those_of_dp_accounting():
    """A subsampled Gaussian has two orders too: "remove" is the table with the row against not."""
    known = privacy_loss_distribution.from_gaussian_mechanism(
        0.7, sampling_prob=0.1, value_discretization_interval=1e-3
    )
    for orientation in ("wide", "narrow"):
        release = pld_from_profile(SketchProfile(8, 0.3, "add-remove", orientation), 1e-3)
        found = release.compose(known).get_delta_for_epsilon(0.5)

        def at_level(pmf, levels):
            order = np.argsort(levels)
            delta = np.empty(levels.size)
            delta[order] = pmf.get_delta_for_epsilon(levels[order])
            return delta

        # By quadrature over the sketch: its law with the row is wide, or narrow.
        u, w = np.polynomial.legendre.leggauss(300)
        u, w = 30.0 * (u + 1), 30.0 * w * stats.chi2(8).pdf(30.0 * (u + 1))
        up = (0.3 * u - 8 * np.log(1.3)) / 2
        down = (8 * np.log(1.3) - 0.3 / 1.3 * u) / 2
        with_row, without = (up, down) if orientation == "wide" else (down, up)
        truth = max(
            np.sum(w * at_level(pmf, 0.5 - loss))
            for loss, pmf in ((with_row, known._pmf_remove), (without, known._pmf_add))
        )
        assert found == pytest.approx(truth, rel=2e-3)


def test_release_counts_its_finite_precision():
    one = CoupledProfile(GaussianProfile(0.1, "replace"), 1e-7)
    found = pld_from_profile(one, 1e-3).self_compose(2).get_delta_for_epsilon(1.0)
    exact = GaussianProfile(0.1 * np.sqrt(2)).delta(1.0)
    assert exact + 2e-7 < found < exact + 3e-6


def test_replaced_rows_have_no_order():
    """Of one column: up in one release, down in the other."""
    found = pld_from_profile(SketchProfile(10, 0.3, "add-remove"), 1e-3, symmetric=True)
    both = pld_from_profile(SketchProfile(10, 0.3, "replace", one_column=True), 1e-3)
    delta = both.self_compose(2).get_delta_for_epsilon(1.0)
    assert found.self_compose(2).get_delta_for_epsilon(1.0) == pytest.approx(delta)
