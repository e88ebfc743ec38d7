"""Sketch and range finder: second routes, limits, monotonicity."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from privgram.papers import sheffet
from privgram.papers._shared import (
    _by_parts,
    chi_gaussian_delta,
    chi_rule,
    narrow_against_wide,
    wide_against_narrow,
)
from privgram.papers.hardt_roth import ChiGaussianProfile
from privgram.papers.sheffet import SketchProfile
from privgram.privacy import GaussianProfile
from privgram.privacy.profiles import gaussian_delta


def with_against_without(rows, ratio, epsilon):
    """Upper incomplete gamma functions: equation d1 of section 1."""
    with mp.workdps(60 + 2 * max(0, int(np.log10(rows)))):
        a, lam, eps = mp.mpf(rows) / 2, mp.mpf(ratio), mp.mpf(epsilon)
        x = (eps + a * mp.log1p(lam)) / lam
        upper = [mp.gammainc(a, y, regularized=True) for y in (x, (1 + lam) * x)]
        return upper[0] - mp.exp(eps) * upper[1]


def without_against_with(rows, ratio, epsilon):
    with mp.workdps(60):
        a, lam, eps = mp.mpf(rows) / 2, mp.mpf(ratio), mp.mpf(epsilon)
        x = (a * mp.log1p(lam) - eps) / lam
        if x <= 0:
            return mp.mpf(0)
        lower = [mp.gammainc(a, 0, y, regularized=True) for y in ((1 + lam) * x, x)]
        return lower[0] - mp.exp(eps) * lower[1]


def replace_by_counting(rows, ratio, epsilon):
    """P(L > e) = P[NB(n, 1/(1+b)) + Poisson(a) <= n - 1], rows = 2 n: sums of positive terms."""
    n, lam, eps = rows // 2, mp.mpf(ratio), mp.mpf(epsilon)

    def tail(a, b):
        p = 1 / (1 + b)
        total, counts = mp.mpf(0), mp.mpf(0)
        poisson = [mp.exp(-a)]
        for j in range(1, n):
            poisson.append(poisson[-1] * a / j)
        cumulative = []
        for term in poisson:
            counts += term
            cumulative.append(counts)
        nb = p**n
        for j in range(n):
            total += nb * cumulative[n - 1 - j]
            nb *= (n + j) * (1 - p) / (j + 1)
        return total

    with mp.workdps(80):
        under_p = tail(eps / lam, 1 / (1 + lam))
        under_q = tail(eps * (1 + lam) / lam, 1 + lam)
        return under_p - mp.exp(eps) * under_q


@pytest.mark.parametrize("rows", [1, 1.7, 2, 10, 101, 3000.5])
@pytest.mark.parametrize("ratio", [1e-6, 1e-3, 0.1, 1.0, 30.0, 1e3])
def test_add_remove_by_incomplete_gamma_functions(rows, ratio):
    for deviations in (0.0, 0.5, 2.0, 5.0):
        epsilon = deviations * ratio / (1 + ratio) * np.sqrt(rows / 2)
        truth = with_against_without(rows, ratio, epsilon)
        value = wide_against_narrow(np.array([epsilon]), rows, np.array(ratio))[0]
        assert abs(value / truth - 1) < 1e-11
        truth = without_against_with(rows, ratio, epsilon)
        value = narrow_against_wide(np.array([epsilon]), rows, np.array(ratio))[0]
        if truth > 1e-25:
            assert abs(value / truth - 1) < 1e-11


@pytest.mark.parametrize("rows", [2, 10, 60, 300])
@pytest.mark.parametrize("ratio", [1e-3, 0.07, 1.0, 30.0])
def test_replace_by_counting(rows, ratio):
    for epsilon in (0.03, 0.7, 4.0, 20.0):
        truth = replace_by_counting(rows, ratio, epsilon)
        if truth > 1e-60:
            value = SketchProfile(rows, ratio).delta(epsilon)
            assert abs(value / truth - 1) < 1e-11


@pytest.mark.parametrize("rows", [1, 3.3, 44, 1e5])
@pytest.mark.parametrize("ratio", [1e-9, 1e-3, 0.5, 40.0])
def test_negative_epsilons_obey_the_exchange(rows, ratio):
    epsilon = np.array([0.0, 0.01, 0.4, 3.0]) * ratio / (1 + ratio) * np.sqrt(rows)
    lam = np.array(ratio)
    other = narrow_against_wide(epsilon, rows, lam)
    np.testing.assert_allclose(
        wide_against_narrow(-epsilon, rows, lam),
        -np.expm1(-epsilon) + np.exp(-epsilon) * other,
        rtol=1e-11,
    )


@pytest.mark.parametrize("ratio", [1e-9, 1e-4, 0.1, 3.0, 1e3])
@pytest.mark.parametrize("rows", [1, 2, 30, 1e4, 1e9])
def test_row_is_better_seen_than_its_absence(rows, ratio):
    epsilon = np.linspace(0, 6, 25) * min(ratio, 1) * np.sqrt(rows)
    lam = np.array(ratio)
    wide, narrow = wide_against_narrow(epsilon, rows, lam), narrow_against_wide(epsilon, rows, lam)
    assert np.all(wide >= narrow * (1 - 1e-12))


@pytest.mark.parametrize(("adjacency", "factor"), [("replace", 1.0), ("add-remove", 0.5)])
def test_many_rows_tend_to_the_gaussian(adjacency, factor):
    mu, epsilon = 0.8, np.array([0.0, 0.5, 1.0, 3.0])
    limit = GaussianProfile(mu).delta(epsilon)
    distance = [
        np.max(np.abs(SketchProfile(r, mu / np.sqrt(r * factor), adjacency).delta(epsilon) - limit))
        for r in (1e2, 1e4, 1e6, 1e10)
    ]
    assert np.all(np.diff(distance) < 0)
    assert distance[-1] < 1e-5


@pytest.mark.parametrize("rows", [1, 3, 50, 1e3, 1e6])
def test_both_routes_of_the_replace_pair_agree(rows):
    for mu in (0.3, 1.0, 5.0, 9.0):
        kappa, epsilon = np.full(4, mu / np.sqrt(rows)), np.array([0.01, 0.5, 5.0, 40.0])
        by_mixture = chi_gaussian_delta(epsilon, rows, kappa)
        by_parts = _by_parts(epsilon, rows, kappa)
        seen = by_mixture > 1e-30
        np.testing.assert_allclose(by_mixture[seen], by_parts[seen], rtol=1e-10)


def test_huge_epsilon_is_not_too_steep_for_the_rule():
    # The add-remove pair is a marginal of the replace pair.
    for epsilon in (60.0, 1e3, 1e5, 1e8):
        ratio = sheffet.sketch_ratio(100, epsilon, 1e-6, "replace")
        assert SketchProfile(100, ratio).delta(epsilon * 1.01) < 1e-6
        assert ratio < sheffet.sketch_ratio(100, epsilon, 1e-6, "add-remove")


@pytest.mark.parametrize("k", [1, 1.5, 2, 10, 1e4, 1.1e4, 1e9, 1e12])
def test_chi_rule_has_the_moments_of_chi(k):
    s, weight = chi_rule(float(k))
    assert weight.sum() == pytest.approx(1, rel=1e-13)
    assert weight @ s**2 == pytest.approx(k, rel=1e-13)
    assert weight @ s**4 == pytest.approx(k * (k + 2), rel=1e-13)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_more_rows_and_a_larger_ratio_leak_more(adjacency):
    for epsilon in (0.0, 0.2, 2.0):
        by_rows = [SketchProfile(r, 0.05, adjacency).delta(epsilon) for r in (1, 1.5, 2, 9, 1e4)]
        by_ratio = [SketchProfile(20, x, adjacency).delta(epsilon) for x in (1e-3, 0.01, 0.3, 9)]
        assert np.all(np.diff(by_rows) > 0)
        assert np.all(np.diff(by_ratio) > 0)


@pytest.mark.parametrize("k", [1, 6, 41, 20_000])
@pytest.mark.parametrize(("kappa", "offset"), [(0.3, 1e-3), (2.0, 0.5), (5.0, 3.0)])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 90.0])
def test_chi_gaussian_offset_by_quadrature(k, kappa, offset, epsilon):
    """Against Gauss-Legendre on 4000 nodes: the offset is smooth, and 90 is steep."""
    kappa /= np.sqrt(k)
    x, w = np.polynomial.legendre.leggauss(100)
    edges = np.linspace(max(0.0, np.sqrt(k) - 12), np.sqrt(k) + 12, 41)
    half = np.diff(edges)[:, None] / 2
    s, w = (edges[:-1, None] + half * (x + 1)).ravel(), (half * w).ravel()
    density = np.exp(stats.chi.logpdf(s, k)) * w
    expected = np.sum(density * gaussian_delta(np.array([epsilon]), np.hypot(kappa * s, offset)))
    value = ChiGaussianProfile(k, kappa, offset).delta(epsilon)
    assert value == pytest.approx(expected, rel=1e-8, abs=1e-25)
