"""Matrix Laplace noise: its profile by independent routes, and the steps of its proofs."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import optimize, stats

from bench.audit.moments import _sector
from privgram.privacy import GaussianProfile, MatrixLaplaceProfile, calibration

ADJACENCIES = ["replace", "add-remove"]


def legendre(low, high, n):
    x, weight = np.polynomial.legendre.leggauss(n)
    return low + (high - low) * (1 + x) / 2, weight * (high - low) / 2


def density(m):
    """Of the difference of two independent chi-squared variables, by its convolution."""
    u, weight = legendre(0.0, (80.0 + 4 * m) ** 0.25, 400)
    other = stats.chi2.pdf(u**4, m) * 4 * u**3 * weight

    def at(x):
        return stats.chi2.pdf(np.abs(x)[..., None] + u**4, m) @ other

    return at


@pytest.mark.parametrize(
    ("m", "t", "epsilon"),
    [(2.5, 2.0, 0.3), (3, 4.0, 1.0), (4, 0.01, 0.002), (7, 9.0, 3.0), (30, 20.0, 0.5)],
)
def test_profile_is_that_of_a_difference_of_chi_squared(m, t, epsilon):
    f = density(m)
    edge = optimize.brentq(lambda x: np.log(f(x - t) / f(x)) - epsilon, t / 2, t / 2 + 100)
    top = max(edge, t) + 40 + 3 * m
    total = 0.0
    for low, high in [(edge, t), (t, top)] if edge < t else [(edge, top)]:
        # Finer towards x = t, where f(x - t) is not smooth.
        y, weight = legendre(0.0, 1.0, 200)
        y, weight = y**4, 4 * y**3 * weight
        x = high - (high - low) * y if high == t else low + (high - low) * y
        total += (f(x - t) - math.exp(epsilon) * f(x)) @ weight * (high - low)
    profile = MatrixLaplaceProfile(m + 2, 3, t, "add-remove")
    assert profile.delta(epsilon) == pytest.approx(total, rel=1e-7)


@pytest.mark.parametrize("ratio", [1e-3, 0.7, 30.0])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_one_column_and_the_fewest_degrees_are_laplace_noise(ratio, adjacency):
    """W_1(I, 2) is exponential of mean 2: s (W1 - W2) is Laplace noise of scale 2 s."""
    profile = MatrixLaplaceProfile(2, 1, ratio, adjacency)
    epsilon = ratio * np.linspace(-1, 1, 41)
    size = np.abs(epsilon)
    laplace = np.maximum(-np.expm1((size - ratio / 2) / 2), 0.0)
    laplace = np.where(epsilon < 0, -np.expm1(-size) + np.exp(-size) * laplace, laplace)
    np.testing.assert_allclose(profile.delta(epsilon), laplace, rtol=1e-12)
    assert profile.epsilon(0.0) == profile.pure == ratio / 2
    assert profile.proof_status == "exact"


@pytest.mark.parametrize("nu", [0.5, 1.0, 3.7, 12.0, 300.0])
def test_many_degrees_are_continued_where_the_expansion_begins(nu):
    """On both sides of the order where Bessel functions give way, and of small translations."""
    from privgram.privacy.profiles import matrix_laplace as module

    for h in (0.0199999, 0.02):
        below, above = (
            module.bilateral_gamma_delta(np.array([0.3 * h]), nu * (1 + e), h * (1 + e))[0]
            for e in (-1e-12, 1e-12)
        )
        assert below == pytest.approx(above, rel=1e-9)


def test_small_translations_are_those_of_the_slope(monkeypatch):
    from privgram.privacy.profiles import matrix_laplace as module

    epsilon = np.array([0.0, 0.2, 0.5])
    for nu in (1.0, 2.5, 13.0):
        plain = module.bilateral_gamma_delta(epsilon, nu, 0.7)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_SMALL", 1.0)
            by_slope = module.bilateral_gamma_delta(epsilon, nu, 0.7)
            patch.setattr(module, "_DEBYE", 60.0)
            by_bessel = module.bilateral_gamma_delta(epsilon, nu, 0.7)
        np.testing.assert_allclose(by_slope, plain, rtol=1e-9)
        np.testing.assert_allclose(by_bessel, plain, rtol=1e-9)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_many_degrees_of_freedom_are_gaussian_noise(adjacency):
    """D has variance 4 m: mu is the translation over 2 sqrt(m), twice as large under replace."""
    m, mu = 1e9, 0.8
    t = mu * 2 * math.sqrt(m) / (2 if adjacency == "replace" else 1)
    profile = MatrixLaplaceProfile(m + 3, 4, t, adjacency)
    epsilon = np.linspace(0, 4, 9)
    np.testing.assert_allclose(
        profile.delta(epsilon), GaussianProfile(mu).delta(epsilon), rtol=1e-5
    )


@pytest.mark.parametrize("m", [2, 3, 8])
def test_two_steps_are_one_of_twice_the_length(m):
    """Theorem 2: P(S) <= e^e1 R(S) + delta(e1), then R against Q, is no less than D + 2t."""
    one, two = (MatrixLaplaceProfile(m + 2, 3, 1.5, a) for a in ("add-remove", "replace"))
    for epsilon in (0.0, 0.3, 1.0, 1.4):
        first = np.linspace(0, epsilon, 201)
        chained = one.delta(first) + np.exp(first) * one.delta(epsilon - first)
        assert two.delta(epsilon) <= chained.min() * (1 + 1e-9)


def log_density(noise):
    """(1) for two columns, up to a constant."""
    half = np.trace(noise, axis1=1, axis2=2) / 2
    gap = np.hypot((noise[:, 0, 0] - noise[:, 1, 1]) / 2, noise[:, 0, 1])
    with np.errstate(divide="ignore"):
        inside = np.log(_sector(half, gap)), np.log(_sector(-half, gap)) - 2 * half
    return half + np.logaddexp(*inside)


def test_density_is_that_of_brute_force():
    """(1) against a sum over a fine grid of A = a0 I + a1 Z + a2 X, tr A = 2 a0."""
    a = np.linspace(-9, 9, 1201)
    a1, a2 = np.meshgrid(a, a)
    for half, gap in ((-0.5, 1.2), (0.8, 1.0), (0.3, 0.2), (-2.0, 0.4)):
        least = np.maximum(np.hypot(a1, a2), half + np.hypot(a1 - gap, a2))
        brute = half + math.log(np.exp(-2 * least).sum() * (a[1] - a[0]) ** 2)
        noise = np.array([[[half + gap, 0.0], [0.0, half - gap]]])
        assert log_density(noise)[0] == pytest.approx(brute, abs=1e-4)


@pytest.mark.parametrize(("change", "pure"), [((1.0, 0.0), 0.5), ((1.0, -1.0), 1.0)])
def test_loss_reaches_its_bound_and_stays_below(change, pure):
    """Theorems 1 and 3, for rows along any axes: t = 1, d = 2."""
    rng = np.random.default_rng(3)
    noise = 6 * rng.standard_normal((4000, 2, 2))
    noise += noise.swapaxes(1, 2)
    far = np.diag([40.0, -4000.0]) if change[1] else np.diag([-3.0, -3.0])
    noise = np.concatenate([noise, [far, far[::-1, ::-1]]])
    loss = log_density(noise + np.diag(change)) - log_density(noise)
    assert np.abs(loss).max() <= pure * (1 + 1e-9)
    assert np.abs(loss).max() >= 0.98 * pure


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 6])
def test_row_moves_one_variable_that_is_independent_of_the_rest(k):
    """Theorem 1: the Schur complement is chi-squared, uncorrelated with functions of the rest.

    40 000 draws; Kolmogorov and Smirnov at 1e-6, correlations within 5 standard errors.
    """
    rng = np.random.default_rng(k)
    rows = rng.standard_normal((40_000, k, 2))
    w = rows.swapaxes(1, 2) @ rows
    xi = w[:, 0, 0] - w[:, 0, 1] ** 2 / w[:, 1, 1]
    assert stats.kstest(xi, stats.chi2(k - 1).cdf).pvalue > 1e-6
    rest = (w[:, 0, 1], w[:, 1, 1], w[:, 0, 1] ** 2 / w[:, 1, 1])
    for g in (lambda x: x, np.log, lambda x: x > 2):
        for other in rest:
            for of in (lambda x: x, lambda x: x**2, np.abs):
                r = np.corrcoef(g(xi), of(other))[0, 1]
                assert abs(r) < 5 / math.sqrt(len(xi))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("n_columns", [1, 2, 22])
def test_delta_zero_is_the_limit_of_small_deltas(n_columns, adjacency):
    noise = calibration.matrix_laplace_noise(n_columns, 0.8, 0.0, adjacency)
    assert noise.dof == n_columns + 1
    profile = MatrixLaplaceProfile(noise.dof, n_columns, noise.ratio, adjacency)
    assert profile.delta(0.8) == 0.0
    assert profile.delta(0.8 * (1 - 1e-12)) > 0.0
    near = calibration.matrix_laplace_ratio(n_columns, noise.dof, 0.8, 1e-12, adjacency)
    assert near == pytest.approx(noise.ratio, rel=1e-10)
    one_row = adjacency == "add-remove" or n_columns == 1
    assert noise.ratio == pytest.approx(1.6 if one_row else 0.8, rel=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("n_columns", "epsilon", "delta"),
    [(2, 1.0, 1e-6), (8, 1.0, 1e-3), (22, 1.0, 1e-6), (22, 0.01, 1e-9), (100, 5.0, 1e-12)],
)
def test_degrees_of_freedom_leave_the_least_noise(n_columns, epsilon, delta, adjacency):
    ratio_of = partial(
        calibration.matrix_laplace_ratio,
        n_columns,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
    )
    ratio, dof = calibration.matrix_laplace_noise(n_columns, epsilon, delta, adjacency)
    assert ratio == ratio_of(dof)
    least = math.sqrt(dof) / ratio
    for m in (2, 3, 5, 10, 30, 100, 1000):
        k = n_columns - 1 + m
        assert least <= math.sqrt(k) / ratio_of(k) * (1 + 2e-3)


@pytest.mark.parametrize("dof", [4, 5.5, 40])
def test_least_noise_is_safe_and_tight(dof):
    for epsilon, delta in ((1.0, 1e-6), (1e-3, 1e-9), (10.0, 0.1)):
        ratio = calibration.matrix_laplace_ratio(3, dof, epsilon, delta)
        reached = MatrixLaplaceProfile(dof, 3, ratio).delta(epsilon)
        assert (1 - 1e-5) * delta <= reached <= delta
