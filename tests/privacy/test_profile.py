"""What holds for every profile: shapes, order, inverse, extremes, errors."""

import dataclasses
import pickle
import warnings

import numpy as np
import pytest
from support.helpers import refuses

from privgram.papers.hardt_roth import ChiGaussianProfile
from privgram.papers.sheffet import (
    AdaptiveSketchProfile,
    SketchProfile,
    TwoSketchesProfile,
    WishartProfile,
)
from privgram.papers.zhou_ligett_wasserman import TruncatedSketchProfile
from privgram.privacy import (
    BoundedRangeProfile,
    GaussianProfile,
    MatrixLaplaceProfile,
    Profile,
    StatedProfile,
)

PROFILES = [
    GaussianProfile(0.4),
    MatrixLaplaceProfile(2, 1, 1.4),
    BoundedRangeProfile(0.9),
    StatedProfile(0.7, 1e-6),
    SketchProfile(1, 0.5, "add-remove"),
    SketchProfile(200, 0.03, "add-remove"),
    SketchProfile(1, 0.5),
    SketchProfile(2e5, 1e-3),
    TruncatedSketchProfile(100, 0.01, 1e-4, 100, "pigs fly"),
    ChiGaussianProfile(10, 0.1),
    ChiGaussianProfile(10, 0.1, 0.3),
    WishartProfile(26, 22, 0.5, "add-remove"),
    WishartProfile(3000, 22, 9.0, "add-remove"),
    WishartProfile(26, 22, 0.5),
    WishartProfile(3000, 22, 9.0),
    pytest.param(AdaptiveSketchProfile(20, 15.0, 6.0, 2.0, "add-remove"), marks=pytest.mark.long),
    MatrixLaplaceProfile(5, 4, 0.9),
    MatrixLaplaceProfile(8, 4, 0.01, "add-remove"),
    MatrixLaplaceProfile(60, 4, 5.0),
    pytest.param(AdaptiveSketchProfile(20, 15.0, 6.0, 2.0), marks=pytest.mark.long),
    TwoSketchesProfile(SketchProfile(9, 0.1), SketchProfile(20, 0.03)),
    TwoSketchesProfile(
        SketchProfile(9, 0.1, "add-remove"), SketchProfile(20, 0.03, "add-remove", "narrow")
    ),
]
SLOW = AdaptiveSketchProfile, TwoSketchesProfile
every_profile = pytest.mark.parametrize("profile", PROFILES, ids=repr)


@pytest.mark.slow
@every_profile
def test_scalars_and_arrays_of_any_shape(profile):
    assert type(profile.delta(0.3)) is float
    assert type(profile.epsilon(1e-3)) is float
    for shape in ((), (2, 1), (0,)):
        x = np.full(shape, 0.3)
        assert np.shape(profile.delta(x)) == np.shape(profile.epsilon(x)) == shape
        assert np.all(profile.delta(x) == profile.delta(0.3))
    assert profile.delta([0.1, 0.2]).shape == (2,)
    assert profile.delta(np.array([1, 0]))[1] == profile.delta(0.0)


@pytest.mark.slow
@every_profile
@pytest.mark.parametrize("centre", [0.0, 1e-4, 0.1, 1.0, 7.0])
def test_delta_never_rises_on_fine_grids(profile, centre):
    slow = isinstance(profile, SLOW)
    if slow and centre in (1e-4, 1.0):
        return
    for step in (1e-9,) if slow else (1e-13, 1e-9, 1e-3):
        epsilon = centre + step * np.arange(-1 if slow else -8, 3 if slow else 24)
        delta = profile.delta(epsilon)
        assert np.all(np.diff(delta) <= 0)
        # In any order, and one by one up to the last bits.
        shuffled = np.random.default_rng(0).permutation(epsilon.size)
        np.testing.assert_array_equal(profile.delta(epsilon[shuffled]), delta[shuffled])
    singly = [profile.delta(e) for e in epsilon[::8]]
    np.testing.assert_allclose(singly, delta[::8], rtol=1e-11)


@pytest.mark.slow
@every_profile
def test_delta_is_a_convex_function_of_exp_epsilon(profile):
    x = np.linspace(1.0, 4.0, 9 if isinstance(profile, SLOW) else 40)
    delta = profile.delta(np.log(x))
    assert np.all(np.diff(delta, 2) >= -1e-11 * delta[1:-1] - 1e-15)


@every_profile
def test_below_zero_complements_exchange_the_pair(profile):
    epsilon = np.array([0.1, 1.0, 30.0])
    np.testing.assert_allclose(
        1 - profile.delta(-epsilon), np.exp(-epsilon) * (1 - profile.delta(epsilon)), atol=1e-15
    )
    assert profile.delta(-np.inf) == 1


@pytest.mark.slow
@every_profile
def test_epsilon_is_the_safe_side_inverse(profile):
    slow = isinstance(profile, SLOW)
    for delta in (1e-6, 0.1) if slow else (1e-15, 1e-6, 1e-3, 0.1, 0.7):
        epsilon = profile.epsilon(delta)
        if epsilon == np.inf:
            assert profile.delta(np.inf) > delta * (1 - 1e-9)
            continue
        assert profile.delta(epsilon) <= delta
        if epsilon > 0:
            assert profile.delta(epsilon * (1 - 1e-9)) > delta * (1 - 1e-9)
    assert profile.epsilon(1.0) == 0.0
    assert profile.epsilon(profile.delta(0.0)) == 0.0


@pytest.mark.slow
@every_profile
def test_directions_stay_below_the_profile_and_reach_it(profile):
    if isinstance(profile, AdaptiveSketchProfile):
        return
    epsilon = np.linspace(0.0, 1.5, 11)
    curves = np.array([curve(epsilon) for curve in profile._directions()])
    np.testing.assert_allclose(curves.max(axis=0), profile.delta(epsilon), rtol=1e-11)


@every_profile
def test_frozen_hashable_picklable_and_told_by_repr(profile):
    assert eval(repr(profile)) == profile
    assert pickle.loads(pickle.dumps(profile)) == profile
    assert hash(profile) == hash(dataclasses.replace(profile))
    field = dataclasses.fields(profile)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(profile, field, 1.0)


@every_profile
def test_bad_arguments_are_refused(profile):
    refuses(lambda: profile.delta([0.0, np.nan]), ValueError, "epsilon must not be NaN")
    for delta in (-1e-9, 1.1, np.nan, [0.5, 2.0]):
        with pytest.raises(ValueError, match=r"delta must lie in \[0, 1\]"):
            profile.epsilon(delta)


@pytest.mark.slow
def test_laplace_is_its_formula():
    profile = MatrixLaplaceProfile(2, 1, 1.4)
    epsilon = np.array([-2.0, -0.7, -0.3, 0.0, 0.5, 0.7, 2.0])
    # Mass where the densities' ratio exceeds e^epsilon, from the definition.
    x = np.linspace(-60, 60, 4_000_001)
    p, q = np.exp(-abs(x - 0.7)) / 2, np.exp(-abs(x)) / 2
    truth = [np.trapezoid(np.maximum(p - np.exp(e) * q, 0), x) for e in epsilon]
    np.testing.assert_allclose(profile.delta(epsilon), truth, atol=1e-9)
    assert profile.delta(0.7) == 0.0
    assert profile.epsilon(0.0) == pytest.approx(0.7, rel=1e-12)


def extremes():
    rng = np.random.default_rng(5)
    ratios = [1e-9, 1e-5, 0.01, 1.0, 30.0, 1e3]
    for adjacency in ("replace", "add-remove"):
        for ratio in ratios:
            yield from (SketchProfile(r, ratio, adjacency) for r in (1, 1.3, 2, 50, 1e5, 1e9))
            for d in (1, 2, 22, 5000):
                for m in (0, 0.1, 1, 10, 1e4, 1e9, 1e12):
                    yield WishartProfile(d + 1 + m, d, ratio, adjacency)
        for _ in range(12):
            total = 10 ** rng.uniform(0.1, 9)
            cap = total * rng.random()
            scale = total * 10 ** rng.uniform(-3, 0.5)
            yield AdaptiveSketchProfile(10 ** rng.uniform(0, 9), total - cap, cap, scale, adjacency)
    for ratio in ratios:
        yield GaussianProfile(ratio)
        yield MatrixLaplaceProfile(2, 1, ratio)
        yield ChiGaussianProfile(1, ratio)


@pytest.mark.long
def test_extreme_parameters_give_a_probability():
    epsilon = np.array([-50.0, -1e-4, 0.0, 1e-4, 0.01, 1.0, 50.0, np.inf])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for profile in extremes():
            e = epsilon[[1, 3, 5]] if isinstance(profile, SLOW) else epsilon
            delta = profile.delta(e)
            assert np.all((delta >= 0) & (delta <= 1)), profile
            # A true delta is positive, whatever a float can say of it.
            assert np.all(delta[e < np.inf] > 0) or isinstance(profile, MatrixLaplaceProfile), (
                profile
            )
            assert np.all(delta[e < 0] >= -np.expm1(e[e < 0])), profile
            assert np.all(np.diff(delta) <= 0), profile


def test_profile_that_fails_says_so_rather_than_nan():
    class Broken(Profile):
        def _delta(self, epsilon):
            return np.full(epsilon.shape, np.nan)

    with pytest.raises(ArithmeticError):
        Broken().delta(1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SketchProfile(0.3, 1.0), "rows must be at least 1"),
        (lambda: SketchProfile(10, 0.1, "remove"), "'replace' or 'add-remove'"),
        (lambda: WishartProfile(9, 9, 1.0), "dof must be at least n_columns"),
        (lambda: WishartProfile(9, 3, 1.0, "both"), "adjacency is"),
        (lambda: AdaptiveSketchProfile(9, 0.5, 0.5, 1.0), "regulariser . shift must be above 1"),
    ],
)
def test_parameters_out_of_range_are_refused(make, message):
    refuses(make, ValueError, message)


@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.3])
def test_epsilon_of_what_is_stated_is_the_one_that_is_stated(delta):
    stated = StatedProfile(0.7, delta)
    assert stated.epsilon(delta) == 0.7
    assert stated.epsilon(np.nextafter(delta, -1.0)) == np.inf if delta else True


@pytest.mark.parametrize("at_epsilon", [1.2e-5, 0.592, 16.27])
@pytest.mark.parametrize("make", [BoundedRangeProfile, lambda x: StatedProfile(x, 0.0)])
def test_epsilon_near_zero_is_found(make, at_epsilon):
    """Deltas a few last digits below that at 0, where a closed form rounds to 0."""
    profile = make(at_epsilon)
    target = profile.delta(0.0)
    for _ in range(3):
        target = np.nextafter(target, 0.0)
        epsilon = profile.epsilon(target)
        assert profile.delta(epsilon) <= target
        assert epsilon < 1e-9 * max(at_epsilon, 1.0) * np.exp(at_epsilon / 2)
