"""Additive Wishart noise: second routes, the supremum, limits, monotonicity."""

import mpmath as mp
import numpy as np
import pytest
from support.pairs import wishart_delta

from privgram.papers.sheffet import WishartProfile
from privgram.papers.sheffet.wishart import _Corner, with_against_without, without_against_with
from privgram.privacy import GaussianProfile


def edge(m, s, epsilon, with_first):
    """Section 2's incomplete gamma functions, m and s those of chi2_m + s."""
    with mp.workdps(60):
        a, h, eps = mp.mpf(m) / 2, mp.mpf(s) / 2, mp.mpf(epsilon)
        q = a - 1
        if with_first:
            if eps >= h:
                return mp.mpf(0)
            y = h / -mp.expm1(-(h - eps) / q)
            upper = [mp.gammainc(a, x, regularized=True) for x in (y - h, y)]
            return upper[0] - mp.exp(eps) * upper[1]
        y = h / -mp.expm1(-(h + eps) / q)
        lower = [mp.gammainc(a, 0, x, regularized=True) for x in (y, y - h)]
        return lower[0] - mp.exp(eps) * lower[1]


@pytest.mark.parametrize("m", [2.01, 2.5, 3, 7, 40.3, 2000, 50000])
@pytest.mark.parametrize("spread", [1e-4, 0.01, 0.3, 1.0, 5.0])
def test_edges_by_incomplete_gamma_functions(m, spread):
    s = spread * np.sqrt(2 * m)
    for deviations in (0.0, 0.3, 2.0, 5.0):
        epsilon = np.array([deviations * spread])
        for curve, first in ((with_against_without, True), (without_against_with, False)):
            truth = edge(m, s, epsilon[0], first)
            value = curve(epsilon, m / 2, s / 2)[0]
            assert value >= 0
            if truth > 1e-28:
                assert abs(value / truth - 1) < 1e-11


@pytest.mark.parametrize("m", [4, 5.5, 8, 20, 97, 400])
@pytest.mark.parametrize("s", [0.25, 1.0, 4.0, 20.0])
def test_corner_by_bartlett(m, s):
    epsilon = np.array([0.0, 0.1, 0.5, 2.0])
    corner = _Corner(m, s / 2).delta(epsilon)
    for e, value in zip(epsilon, corner, strict=True):
        if value > 1e-7:
            assert wishart_delta(e, s, s, m) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("s", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("m", [4, 6.5, 30, 1e6])
def test_small_ratio_is_a_derivative(m, s):
    # At epsilon = 0 both are s times a constant, so nothing may cancel.
    twice = [_Corner(m, h).delta(np.zeros(1))[0] for h in (s / 2, s)]
    assert twice[1] / twice[0] == pytest.approx(2, rel=min(10 * s + 1e-12, 0.1))
    twice = [without_against_with(np.zeros(1), m / 2, h)[0] for h in (s / 2, s)]
    assert twice[1] / twice[0] == pytest.approx(2, rel=min(10 * s + 1e-12, 0.1))


@pytest.mark.parametrize(
    ("m", "epsilon"), [(8, 0.51), (20, 1.28), (30, 1.72), (50, 2.40), (100, 3.65)]
)
def test_corner_gives_way_to_the_edge(m, epsilon):
    e = np.array([epsilon - 0.02, epsilon + 0.02])
    excess = _Corner(m, 0.5).delta(e) - without_against_with(e, (m - 1) / 2, 0.5)
    assert excess[0] > 0 > excess[1]


@pytest.mark.parametrize(("m", "s"), [(4, 4.0), (8, 0.5), (20, 4.0), (60, 4.0)])
@pytest.mark.parametrize("epsilon", [0.01, 0.6])
def test_no_pair_inside_the_box_leaks_more(m, s, epsilon):
    supremum = WishartProfile(m, 2, s).delta(epsilon)
    if supremum < 1e-8:
        return
    for u1 in (0.1, 0.5, 0.95, 1.0):
        for u2 in (0.6, 0.95, 1.0):
            assert wishart_delta(epsilon, u1 * s, u2 * s, m) < supremum * (1 + 1e-7)


def test_edge_can_decide_a_calibration():
    corner = [_Corner(k - 22 + 2, 0.5).delta(np.array([2.0]))[0] for k in (46, 47)]
    assert corner[0] > 1e-6 > corner[1]
    assert WishartProfile(47, 22, 1.0).delta(2.0) > 1e-6 > WishartProfile(48, 22, 1.0).delta(2.0)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("dof", [24, 40, 300])
def test_delta_falls_to_the_floor_and_no_further(adjacency, dof):
    profile = WishartProfile(dof, 22, 3.0, adjacency)
    with mp.workdps(40):
        floor = float(mp.gammainc(mp.mpf(dof - 21) / 2, 0, 1.5, regularized=True))
    assert profile.delta(np.inf) == pytest.approx(floor, rel=1e-12)
    assert profile.delta(300.0) == pytest.approx(floor, rel=1e-12)
    assert profile.epsilon(floor * 0.999) == np.inf
    assert profile.delta(profile.epsilon(floor * 1.001)) <= floor * 1.001


def test_one_column_has_one_notion_of_neighbours():
    epsilon = np.linspace(0, 2, 9)
    np.testing.assert_array_equal(
        WishartProfile(30, 1, 2.0, "replace").delta(epsilon),
        WishartProfile(30, 1, 2.0, "add-remove").delta(epsilon),
    )


@pytest.mark.parametrize(("adjacency", "factor"), [("replace", 1.0), ("add-remove", 0.5)])
def test_many_degrees_of_freedom_tend_to_the_gaussian(adjacency, factor):
    mu, epsilon = 0.8, np.array([0.0, 0.5, 1.0, 3.0])
    limit = GaussianProfile(mu).delta(epsilon)
    distance = [
        np.max(
            np.abs(WishartProfile(k, 3, mu * np.sqrt(k / factor), adjacency).delta(epsilon) - limit)
        )
        for k in (1e3, 1e5, 1e7, 1e11)
    ]
    assert np.all(np.diff(distance) < 0)
    assert distance[-1] < 1e-5


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_fewer_degrees_of_freedom_and_a_larger_ratio_leak_more(adjacency):
    for epsilon in (0.0, 0.2, 2.0):
        by_dof = [WishartProfile(k, 5, 1.5, adjacency).delta(epsilon) for k in (6, 7, 7.5, 30, 90)]
        by_ratio = [WishartProfile(30, 5, s, adjacency).delta(epsilon) for s in (1e-3, 0.1, 1, 9)]
        assert np.all(np.diff(by_dof) < 0)
        assert np.all(np.diff(by_ratio) > 0)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_fewest_degrees_of_freedom(adjacency):
    # chi2_2 is exponential: the loss of chi2_2 + s is s/2, and infinite below s the other way.
    profile = WishartProfile(6, 5, 0.8, "add-remove")
    assert profile.delta(0.1) == pytest.approx(-np.expm1(-0.4), rel=1e-14)
    assert WishartProfile(6, 5, 0.8, adjacency).delta(0.0) >= profile.delta(0.0)
    with pytest.raises(ValueError, match="dof must be at least n_columns \\+ 1 = 6"):
        WishartProfile(5.9, 5, 0.8, adjacency)
