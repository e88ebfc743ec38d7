"""Each step of the proofs in docs/theory, checked once by numbers.

Searches use fixed seeds; what they compare is exact up to rounding, so nothing here has a
false-alarm rate except the one Kolmogorov-Smirnov test, whose threshold is 1e-4.
"""

import itertools
import math

import numpy as np
import pytest
import tables
from scipy import linalg, stats

from privgram.papers import sheffet
from privgram.papers.hardt_roth import ChiGaussianProfile
from privgram.papers.sheffet import SketchProfile

EPSILONS = np.array([0.0, 0.1, 0.7, 2.0])


def second_moment(rng, d, scale):
    """A random positive semidefinite matrix with a wide spectrum."""
    q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return (q * (scale * 10.0 ** rng.uniform(-3, 3, d))) @ q.T


def row(rng, d, bound):
    v = rng.standard_normal(d)
    return v / np.linalg.norm(v) * bound * rng.choice([1.0, rng.uniform()])


def test_reversal():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(30))
    for epsilon in EPSILONS:
        forward = np.maximum(q - math.exp(epsilon) * p, 0).sum()
        backward = np.maximum(p - math.exp(-epsilon) * q, 0).sum()
        assert backward == pytest.approx(
            1 - math.exp(-epsilon) + math.exp(-epsilon) * forward, abs=1e-14
        )


@pytest.mark.slow
@pytest.mark.parametrize("promise", [False, True], ids=["regulariser", "eigenvalue floor"])
def test_relative_eigenvalues_of_neighbours(promise):
    rng = np.random.default_rng(1)
    d, bound, w2, largest = 4, 1.5, 2.0, 1.0
    lam = bound**2 / w2
    for _ in range(2000):
        shared = second_moment(rng, d, w2)
        first, second = (shared + np.outer(v, v) for v in (row(rng, d, bound), row(rng, d, bound)))
        if promise:
            floor = min(np.linalg.eigvalsh(first)[0], np.linalg.eigvalsh(second)[0])
            if floor < w2:
                continue
            first, second = first * w2 / floor, second * w2 / floor  # rows get shorter
        else:
            first, second = first + w2 * np.eye(d), second + w2 * np.eye(d)
        t = linalg.eigh(first, second, eigvals_only=True)
        assert 1 / (1 + lam) - 1e-9 <= t[0] <= 1 + 1e-9
        assert 1 - 1e-9 <= t[-1] <= 1 + lam + 1e-9
        np.testing.assert_allclose(t[1:-1], 1, rtol=1e-6)
        largest = max(largest, t[-1])
    assert largest > 1 + 0.5 * lam


def test_mixture_has_the_eigenvalues_of_the_corner():
    lam = 0.7
    kappa = lam / math.sqrt(1 + lam)
    covariance = np.array([[1, kappa], [kappa, 1 + kappa**2]])
    np.testing.assert_allclose(np.linalg.eigvalsh(covariance), [1 / (1 + lam), 1 + lam])
    np.testing.assert_allclose(
        SketchProfile(7, lam, "replace").delta(EPSILONS),
        ChiGaussianProfile(7, kappa).delta(EPSILONS),
    )


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_renyi_bound_is_a_bound(adjacency):
    for rows, lam in ((44, 0.03), (220, 0.01), (10, 1.0)):
        for delta in (1e-3, 1e-6):
            exact = SketchProfile(rows, lam, adjacency).epsilon(delta)
            assert exact <= tables.renyi_epsilon(rows, lam, delta, adjacency) <= 1.7 * exact


def test_renyi_bound_as_lev_et_al_report_it():
    # Their floor counts the row: 75.7 B^2 at r = 220 and (0.5, e^-9), the exact one 66.8.
    assert 1 + tables.renyi_w_squared(220, 0.5, math.exp(-9), "add-remove") == pytest.approx(
        75.7, abs=0.05
    )


def test_schur_complement_carries_the_shift():
    rng = np.random.default_rng(2)
    d, k, t = 3, 7, 0.8
    w = np.einsum("nij,nil->njl", *2 * [rng.standard_normal((20_000, k, d))])
    xi = 1 / np.linalg.inv(w)[:, 0, 0]
    shifted = w + t * np.outer(np.eye(d)[0], np.eye(d)[0])
    np.testing.assert_allclose(1 / np.linalg.inv(shifted)[:, 0, 0], xi + t, rtol=1e-9)
    assert stats.kstest(xi, stats.chi2(k - d + 1).cdf).pvalue > 1e-4


def test_density_ratio_of_the_shifted_wishart():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((9, 3))
    x = x.T @ x
    shift = np.zeros((3, 3))
    shift[0, 0] = 0.4
    k, d = 9, 3
    law = stats.wishart(k, np.eye(d))
    q = (k - d - 1) / 2
    xi = 1 / np.linalg.inv(x)[0, 0]
    assert law.logpdf(x - shift) - law.logpdf(x) == pytest.approx(
        q * math.log(1 - 0.4 / xi) + 0.2, rel=1e-9
    )


def test_two_by_two_reduction_of_replace():
    rng = np.random.default_rng(4)
    d, k = 4, 9
    x = rng.standard_normal((k, d))
    x = x.T @ x + 3 * np.eye(d)
    u = np.linalg.qr(rng.standard_normal((d, 2)))[0]
    a, b = 0.7, 1.1
    z = np.linalg.inv(u.T @ np.linalg.inv(x) @ u)
    q = (k - d - 1) / 2
    whole = np.linalg.slogdet(x - a * np.outer(u[:, 0], u[:, 0]))[1]
    whole -= np.linalg.slogdet(x - b * np.outer(u[:, 1], u[:, 1]))[1]
    small = math.log(np.linalg.det(z - np.diag([a, 0])) / np.linalg.det(z - np.diag([0, b])))
    assert q * whole == pytest.approx(q * small, rel=1e-10)
    # q is that of the 2 x 2 law with k - d + 2 degrees of freedom.
    assert q == (k - d + 2 - 3) / 2


@pytest.mark.long
def test_monotone_directions_inside_the_box():
    rng = np.random.default_rng(5)
    dof, step = 12, 0.02
    for _ in range(40):
        mu1, mu2 = rng.uniform(0.1, 3.0, 2)
        epsilon = rng.uniform(0.0, 1.5)
        here = tables.box_delta(mu1, mu2, epsilon, dof, 40)
        slack = 1e-6 * here
        assert tables.box_delta(mu1 * 1.02, mu2 * 1.02, epsilon, dof, 40) >= here - slack
        if epsilon >= (mu1 - mu2) / 2:
            assert tables.box_delta(mu1, mu2 + step, epsilon, dof, 40) >= here - slack
        if epsilon <= (mu1 + step - mu2) / 2 - step / 2:
            assert tables.box_delta(mu1 + step, mu2, epsilon, dof, 40) >= here - slack


@pytest.mark.long
@pytest.mark.parametrize(
    ("digits", "steps"), [(14, 6), pytest.param(26, 20, marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize(
    ("q", "s", "nu", "epsilon", "sign"), [(2.5, 1.3, 0.3, 0.4, 1), (0.75, 3.0, 0.6, 0.1, -1)]
)
def test_slope_on_an_edge_is_one_integral(q, s, nu, epsilon, sign, digits, steps):
    """Lemma 5 against the double integral of Lemma 4, to as many digits.

    Trapezoidal rules, which converge geometrically for what is analytic and dies at both ends.
    """
    mp = pytest.importorskip("mpmath").mp
    with mp.workdps(digits + 10):
        q, s, nu, epsilon = (mp.mpf(x) for x in (q, s, nu, epsilon))
        alpha, lam = (1 + nu) / 2, (1 - nu) / 2
        w = (s * lam + sign * epsilon) / q
        y0 = s / (1 - mp.exp(-w))
        omega, a0, h = mp.sqrt(y0 * (y0 - s)), y0 - s / 2, mp.mpf(1) / 20
        single = mp.mpf(0)
        for j in range(10**4):
            c, k = mp.cosh(j * h), alpha * omega * mp.sinh(j * h)
            if alpha * a0 * c - k > 90:
                break
            phi = (k * mp.sinh(k) - mp.cosh(k)) * mp.exp(-alpha * a0 * c)
            single += h / (1 + (j == 0)) * phi / (1 + c) / (alpha * c - lam) ** (q + 1)
        single *= mp.gamma(q + 1) * nu ** (q + 1) * mp.exp(-alpha * s / 2) / alpha

        # Lemma 4 the other way round: for each u = nu v over y first.
        def over_y(v):
            c = v - s / 2
            x = alpha * mp.sqrt(c * c + 2 * v * y0)
            bessel = (y0 + c) * mp.besselk(0, x) - x / alpha * mp.besselk(1, x)
            return mp.exp(alpha * c) * bessel

        double, step = mp.mpf(0), mp.mpf(1) / steps
        for i in range(
            int(-2.6 * (digits + 2) / (q + 1) / step), int(mp.log(4 * (digits + 2) / nu) / step)
        ):
            v = mp.exp(i * step)
            double += step * v * (nu * v) ** q * nu * mp.exp(-nu * v) * over_y(v)
        assert abs(single / double - 1) < mp.mpf(10) ** -digits
        # And over y as Lemma 4 has it, beyond the zero of the bracket: y = zero + x^2.
        v = mp.mpf("0.7")
        c = v - s / 2
        root = mp.sqrt(c * c + 2 * v * y0)

        def in_y(x):
            y = root - c + x * x
            # The bracket times y (y - s), less its zero x^2.
            return 2 * (y0 - y) * mp.exp(-alpha * y) / mp.sqrt(x * x + 2 * root)

        assert abs(mp.quad(in_y, [0, 1, 3, 6, 12]) / over_y(v) - 1) < mp.mpf(10) ** -digits


def log_kernel(nu, k, s, epsilon, q, sign):
    """ln K of Lemma 6."""
    alpha, lam = (1 + nu) / 2, (1 - nu) / 2
    w = (s * lam + sign * epsilon) / q
    omega, a0 = s / 2 / np.sinh(w / 2), s / 2 / np.tanh(w / 2)
    c = np.sqrt(1 + (k / (alpha * omega)) ** 2)
    return -alpha * a0 * c - np.log(c) - np.log1p(c) - (q + 1) * np.log(alpha * c - lam)


def kernel_rates(c, nu, s, w, q):
    """T and dT/dC of Lemma 6."""
    alpha, lam = (1 + nu) / 2, (1 - nu) / 2
    eta, a0 = s / (4 * q) / np.tanh(w / 2), s / 2 / np.tanh(w / 2)
    sigma, beta = 1 / (2 * alpha) + eta, alpha * c - lam
    rate = sigma * (2 - 1 / c**2 - 1 / c)
    rate -= (q + 1) / beta * (1 + 1 / c) * (0.5 - alpha * eta * (c - 1))
    rate += alpha * a0 * (s / (4 * q) * np.tanh(w / 2) * c - sigma / c)
    slope = sigma * (2 / c**3 + 1 / c**2)
    slope += (q + 1) / (2 * beta**2) * (alpha + 2 * alpha / c - lam / c**2)
    slope += (q + 1) * alpha * eta / beta**2 * (2 * alpha / c - lam - lam / c**2)
    slope += alpha * s**2 / (8 * q) + (q * eta + 2 * alpha * q * eta**2) / c**2
    return rate, slope


def test_kernel_of_the_slope_gains_with_the_shift():
    """Lemma 6: T is what it is said to be, and dT/dC > 0 at 100,000 points."""
    rng = np.random.default_rng(11)
    for _ in range(50):
        q, s, sign = 10 ** rng.uniform(-1, 2), 10 ** rng.uniform(-1, 1.5), rng.choice([1, -1])
        nu = rng.uniform(0.1, 0.9)
        epsilon = rng.uniform(0, 0.9) * s * (1 - nu) / 2
        w = (s * (1 - nu) / 2 + sign * epsilon) / q
        k, h = 10 ** rng.uniform(-1, 1), 1e-5 * (1 - nu)
        args = (k, s, epsilon, q, sign)
        measured = (log_kernel(nu + h, *args) - log_kernel(nu - h, *args)) / (2 * h)
        c = np.sqrt(1 + (k / ((1 + nu) / 2 * s / 2 / np.sinh(w / 2))) ** 2)
        rate, slope = kernel_rates(c, nu, s, w, q)
        assert measured == pytest.approx(rate, rel=1e-5, abs=1e-5)
        step = 1e-6 * c
        # Only from C = 1 on is there a k, but the formula is smooth across it.
        ends = [kernel_rates(x, nu, s, w, q)[0] for x in (c - step, c + step)]
        assert (ends[1] - ends[0]) / (2 * step) == pytest.approx(slope, rel=1e-4)
    n = 100_000
    c = 1 + 10 ** rng.uniform(-6, 4, n)
    w, q, s = (10 ** rng.uniform(low, high, n) for low, high in ((-4, 1.5), (-2, 4), (-3, 3)))
    assert np.all(kernel_rates(c, rng.uniform(1e-6, 1 - 1e-6, n), s, w, q)[1] > 0)


def edge_integral(nu, s, epsilon, q, sign):
    """(5) of wishart.md, up to a positive factor."""
    alpha = (1 + nu) / 2
    w = (s * (1 - nu) / 2 + sign * epsilon) / q
    omega = s / 2 / np.sinh(w / 2)
    x, weight = np.polynomial.legendre.leggauss(400)
    # The integrand dies where alpha (A0 C - omega sinh t) is large.
    t = (x + 1) / 2 * (np.arccosh(1 + 80 / (alpha * s / 2 * np.tanh(w / 4) + 1e-9)) + 3)
    k = alpha * omega * np.sinh(t)
    log = log_kernel(nu, k, s, epsilon, q, sign) + np.log(np.cosh(t))
    with np.errstate(over="ignore"):
        size = log + k
    scaled = np.exp(size - size.max()) * (k * (1 - np.exp(-2 * k)) - (1 + np.exp(-2 * k)))
    return float(np.sum(weight * scaled)), float(np.sum(weight * np.abs(scaled)))


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1], ids=["mu2 = s", "mu1 = s"])
def test_sign_of_the_slope_by_finite_differences(sign):
    rng, checked = np.random.default_rng(12), 0
    while checked < 8:
        dof, s = rng.uniform(5, 30), rng.uniform(0.5, 6)
        nu = rng.uniform(0.05, 0.95)
        epsilon = rng.uniform(0, 1.5) if sign == 1 else rng.uniform(0, 0.9) * s * (1 - nu) / 2
        value, size = edge_integral(nu, s, epsilon, (dof - 3) / 2, sign)
        h = 0.01 * min(nu, 1 - nu)
        ends = [(x * s, s) if sign == 1 else (s, x * s) for x in (nu - h, nu + h)]
        low, high = (tables.box_delta(*pair, epsilon, dof, 32) for pair in ends)
        if abs(value) < 1e-2 * size or abs(high - low) < 1e-5 * high:
            continue  # too flat for differences
        assert np.sign(high - low) == np.sign(value)
        checked += 1


def test_sensitivity_of_the_second_moment():
    rng = np.random.default_rng(6)
    i, j = np.triu_indices(3)
    for _ in range(2000):
        v, u = row(rng, 3, 1.0), row(rng, 3, 1.0)
        change = np.outer(v, v) - np.outer(u, u)
        frobenius = np.linalg.norm(change)
        assert frobenius <= math.sqrt(2) * (1 + 1e-12)
        assert np.linalg.norm(change[i, j]) <= frobenius * (1 + 1e-12)
    attained = np.diag([1.0, -1.0, 0.0])
    assert np.linalg.norm(attained) == np.linalg.norm(attained[i, j]) == math.sqrt(2)


@pytest.mark.slow
def test_sensitivity_of_the_least_eigenvalue():
    rng = np.random.default_rng(8)
    for _ in range(2000):
        shared = second_moment(rng, 3, 1.0)
        least = [
            np.linalg.eigvalsh(shared + np.outer(v, v))[0]
            for v in (np.zeros(3), row(rng, 3, 1.0), row(rng, 3, 1.0))
        ]
        assert np.ptp(least) <= 1 + 1e-9


def extremes(first, second):
    return np.linalg.eigvals(np.linalg.solve(second, first)).real


def test_row_that_moves_the_least_eigenvalue_moves_it_from_the_others():
    """Theorem A1 of sheffet.md: ratios by the tables' own smallest eigenvalues; attained."""
    rng = np.random.default_rng(9)
    least = 1.0
    for trial in range(400):
        shared = second_moment(rng, 3, 1.0) + rng.uniform(0, 0.2) * np.eye(3)
        one, other = (shared + np.outer(v, v) for v in (row(rng, 3, 1.0), row(rng, 3, 1.0)))
        if trial % 2:  # rows along the axes
            low, gap, own = rng.uniform(0.1, 2), rng.random(), np.diag([1.0, 0, 0])
            shared = np.diag([low, low + gap, low + 9])
            one, other = shared + own, shared + own[[1, 0, 2]][:, [1, 0, 2]]
        small, small_ = (np.linalg.eigvalsh(x)[0] for x in (one, other))
        t = extremes(one, other)
        assert t.max() <= (1 + 1 / small_) * (1 + 1e-9)
        assert 1 / t.min() <= (1 + 1 / small) * (1 + 1e-9)
        if trial % 2:
            assert small - small_ == pytest.approx(gap)
            assert (t.max(), 1 / t.min()) == pytest.approx((1 + 1 / small_, 1 + 1 / small))
        least = min(least, np.linalg.eigvalsh(shared)[0] - min(small, small_))
    assert least < 0  # the tables' own are larger than what they share


@pytest.mark.parametrize(("rows", "epsilon", "delta"), [(1, 1.0, 0.3), (22, 10.0, 1e-3)])
@pytest.mark.parametrize("floor", [0.5, 1.05, 3.0])
def test_published_adaptive_sketch_with_more_rows(rows, epsilon, delta, floor):
    printed = sheffet.algorithm_2(rows, 1.0, epsilon, delta)
    scale, least = printed.laplace_scale, floor * printed.regulariser
    node, weight = np.polynomial.legendre.leggauss(20)
    edges = np.array([-40, -15, 0, 1 / scale, 15, 40]) * scale
    for p_shift, q_shift in ((1.0, 0.0), (0.0, 1.0)):
        total = 0.0
        for low, high in itertools.pairwise(edges):
            for z, w in zip((low + high + (high - low) * node) / 2, weight, strict=True):
                p = math.exp(-abs(z - p_shift) / scale) / (2 * scale)
                gain = (abs(z - q_shift) - abs(z - p_shift)) / scale
                s = max(0.0, least - printed.shift + z)
                if s < printed.regulariser:
                    pair = SketchProfile(rows, 1 / (least + printed.regulariser - s))
                else:
                    paid = sheffet.algorithm_2_rows(s, 1.0, epsilon, delta)
                    pair = SketchProfile(paid, 1 / least)
                total += (high - low) / 2 * w * p * pair.delta(epsilon - gain)
        assert total + math.exp(-40) <= 1e-6 * delta


def test_another_row_reveals_the_test_matrix():
    # One column of Omega, rows e (or 0) and L e: the pair tends to the mixture's.
    rho, large = 2.0, 1e4
    shown = np.array([[1 + rho**2, large], [large, large**2 + rho**2]])
    hidden = np.diag([rho**2, large**2 + rho**2])
    kappa = 1 / rho
    mixture = np.linalg.eigvalsh([[1, kappa], [kappa, 1 + kappa**2]])
    np.testing.assert_allclose(linalg.eigh(shown, hidden, eigvals_only=True), mixture, rtol=1e-6)


def test_sensitivity_of_the_published_projection():
    rng = np.random.default_rng(10)
    for _ in range(50):
        w = np.linalg.qr(rng.standard_normal((30, 4)))[0]
        largest = np.abs(w).max(axis=0)
        assert np.sqrt((w**2 / largest**2).sum(axis=1)).max() <= 2.0
    flat = linalg.hadamard(16)[:, :4] / 4
    assert np.sqrt((flat**2 / np.abs(flat).max(axis=0) ** 2).sum(axis=1)).max() == 2.0


def test_throwing_draws_away():
    rng = np.random.default_rng(9)
    for _ in range(200):
        p, q = rng.dirichlet(np.ones(20)), rng.dirichlet(np.ones(20))
        kept = rng.uniform(size=20) < 0.9
        beta = max(p[~kept].sum(), q[~kept].sum())
        for epsilon in EPSILONS:
            a, b = p[kept] / p[kept].sum(), q[kept] / q[kept].sum()
            conditioned = np.maximum(a - math.exp(epsilon) * b, 0).sum()
            whole = np.maximum(p - math.exp(epsilon + math.log1p(-beta)) * q, 0).sum()
            assert conditioned <= whole / (1 - beta) + 1e-12


@pytest.mark.parametrize(
    ("level", "least"), [(0.8, 0.7879), (0.9, 0.8999), (0.95, 0.95), (0.99, 0.99)]
)
def test_errors_that_hold_a_bias_as_a_deviation_are_those_of_intervals_that_allow_for_it(
    level, least
):
    z, t = stats.norm.ppf(0.5 + level / 2), np.linspace(0, 50, 100_001)
    reach = z * np.sqrt(1 + t**2)
    held = stats.norm.cdf(reach - t) - stats.norm.cdf(-reach - t)
    assert held.min() >= least - 1e-9
