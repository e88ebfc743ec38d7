"""Special functions, windows and rules behind the profiles."""

import mpmath as mp
import numpy as np
import pytest

from privgram._base.numbers import bisect_boundary, largest_safe, least_safe
from privgram.papers import _gamma as gamma
from privgram.papers._shared import largest_count
from privgram.privacy import _numerics as nx

SIGNED = np.concatenate([-np.logspace(-12, -0.001, 40), np.logspace(-12, 6, 80)])


def check(function, exact, points, rtol=2e-15):
    with mp.workdps(60):
        truth = np.array([float(exact(mp.mpf(x))) for x in points])
    np.testing.assert_allclose(function(points), truth, rtol=rtol)


def test_log1pmx():
    check(gamma.log1pmx, lambda x: mp.log1p(x) - x, SIGNED)


def test_expm1mx():
    points = np.concatenate([-np.logspace(-12, 2, 50), np.logspace(-12, 2, 50)])
    check(gamma.expm1mx, lambda x: mp.expm1(x) - x, points)


def test_inverse_expm1_tail():
    check(gamma.inverse_expm1_tail, lambda x: 1 / -mp.expm1(-x) - 1 / x, np.logspace(-12, 5, 60))


@pytest.mark.parametrize("a", [0.5, 1.0, 7.3, 19.9, 20.0, 300.0, 1e6, 1e12])
def test_gamma_constants(a):
    with mp.workdps(60):
        x = mp.mpf(a)
        error = mp.loggamma(x) - (x - 0.5) * mp.log(x) + x - mp.log(2 * mp.pi) / 2
        half = (
            mp.gammaprod([x + 0.5], [x])
            if a < 1e7
            else mp.exp(mp.loggamma(x + 0.5) - mp.loggamma(x))
        )
    assert gamma.stirling_error(a) == pytest.approx(float(error), rel=1e-13, abs=2e-14)
    assert nx.gamma_half_ratio(a) == pytest.approx(float(half), rel=5e-14)


@pytest.mark.parametrize("a", [0.5, 1.0, 2.5, 40.0, 1e4, 1e9])
def test_windows_hold_all_but_the_drop(a):
    starts = np.concatenate([-np.logspace(-8, 0.7, 30), [0.0], np.logspace(-8, 0.7, 30)])
    for window, peak in (
        (gamma.gamma_window_above, np.maximum(starts, 0)),
        (gamma.gamma_window_below, np.minimum(starts, 0)),
    ):
        bisect_boundary = window(a, starts)
        fall = gamma.log_gamma_density(a, peak) - gamma.log_gamma_density(a, bisect_boundary)
        assert np.all(fall > nx.DROP * (1 - 1e-6))
        # And not much wider than need be.
        assert np.all(fall < 2 * nx.DROP)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.5, 30.0])
def test_log_nodes_integrate_powers_of_the_exponential(power):
    v, weight = nx.log_nodes(np.array([-60.0 / min(power, 1.0)]), np.array([1.0]), 64)
    assert np.sum(weight * np.exp(power * v)) == pytest.approx(np.exp(power) / power, rel=1e-10)


def test_log_panels_cover_the_interval_whatever_the_split():
    low, high = np.array([-3.0]), np.array([2.0])
    for split in (-10.0, -1.0, 5.0):
        v, weight = gamma.log_panels((low, np.array([split]), high), 32)
        assert np.sum(weight * np.exp(v)) == pytest.approx(np.exp(2) - np.exp(-3), rel=1e-13)


@pytest.mark.parametrize("guess", [1e-9, 1e-3, 0.7, 1e3, 1e9])
@pytest.mark.parametrize("target", [1e-300, 1e-9, 0.3])
def test_root_found_is_safe_and_close(guess, target):
    calls = []

    def delta(x):
        calls.append(x)
        return -np.expm1(-(x**1.7))

    x = largest_safe(delta, target, guess)
    assert x in calls
    assert target * (1 - 1e-12) <= delta(x) <= target
    assert len(calls) < 40


def test_step_ends_on_its_safe_side():
    x = largest_safe(lambda x: 0.1 if x < 3 else 0.5, 0.2, 1.0)
    assert x < 3
    assert x == pytest.approx(3, rel=1e-14)


def test_search_reports_that_nothing_or_everything_is_safe():
    assert largest_safe(lambda _: 0.5, 0.2, 1.0) == 0.0
    assert largest_safe(lambda _: 0.1, 0.2, 1.0, limit=100.0) == np.inf
    assert least_safe(lambda _: 0.5, 0.2, 1.0) == np.inf


def test_nan_never_passes_for_safe():
    with pytest.raises(ArithmeticError):
        largest_safe(lambda _: np.nan, 0.2, 1.0)


@pytest.mark.parametrize("last", [*range(12), 1000])
def test_last_count_is_found_from_any_guess(last):
    """Whatever the guess, and without asking below the least; the way down is the same."""
    for guess in (-3, 0, 1, last - 1, last, last + 1, 5 * last + 7):
        tried = []

        def good(n, tried=tried):
            tried.append(n)
            return n <= last

        assert largest_count(good, guess, 0) == last
        assert min(tried) > 0
    assert bisect_boundary(lambda n: n >= last, 4096, -1) == last


def test_edge_is_next_to_what_is_not_good():
    assert bisect_boundary(lambda x: x < 0.1, 0.0, 1.0) == np.nextafter(0.1, 0)
    assert bisect_boundary(lambda x: x > 0.1, 1.0, 0.0) == np.nextafter(0.1, 1)
    assert bisect_boundary(lambda x: x < 0.1, 0.0, 1.0, lambda a, b: b - a <= 0.25) == 0.0
    assert bisect_boundary(lambda x: x == 0.0, 0.0, 5e-324) == 0.0
