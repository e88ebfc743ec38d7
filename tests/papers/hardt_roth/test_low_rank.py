"""Private low-rank approximation: the paper's boxes, the exact noise, and hostile matrices."""

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.linalg import eigh
from scipy.optimize import minimize
from support.helpers import refuses

import privgram as pg
from privgram import privacy
from privgram._core import orthonormal as core
from privgram.papers import PublishedErratumError, hardt_roth, sheffet
from privgram.papers import hardt_roth as low_rank
from privgram.papers.hardt_roth import baselines, calibration, pfp
from privgram.papers.hardt_roth.pfp import Rounded
from privgram.papers.hardt_roth.products import Integers, LargeTotal, Product, products

EPSILON, DELTA = 1.0, 1e-6


def generator(seed=1):
    return np.random.default_rng(seed)


def low_rank_matrix(rng, m=120, n=400, r=4, scale=30.0):
    return scale * rng.standard_normal((m, r)) @ rng.standard_normal((r, n)) / math.sqrt(r)


def orthonormal(Y):
    """Gram-Schmidt from left to right: QR with a positive diagonal."""
    q, r = np.linalg.qr(Y)
    return q * np.sign(np.diag(r))


def value(total):
    """The integers of a `LargeTotal`, as Python's."""
    high, low = total._limbs(slice(0, total.shape[0]))
    return high.astype(object) * 2**64 + low.astype(object)


def to_int(array):
    """Python's integers of an array of floats that are integers."""
    return np.array([[int(x) for x in row] for row in array], object).reshape(array.shape)


def in_units(A, c=1.0):
    """What both steps see of A, by Python's integers, and their unit."""
    unit = pfp.entry_unit(A.shape[1], c)
    limit = low_rank.entry_limit(A.shape, c)
    rows = [[round(max(-limit, min(limit, float(x))) / unit) for x in row] for row in A]
    return np.array(rows, object), unit


STORAGE = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "float32": lambda A: A.astype(np.float32),
    "rows in lists": lambda A: A.tolist(),
    "CSR": sp.csr_array,
    "CSC": sp.csc_matrix,
    "blocks": lambda A: [A[:7], sp.csr_matrix(A[7:50]), sp.csc_array(A[50:50]), A[50:]],
}


@pytest.fixture(params=STORAGE)
def stored(request):
    return STORAGE[request.param]


def test_figure_1(rng, stored):
    A = low_rank_matrix(rng, r=20).astype(np.float32).astype(float)
    low = low_rank.halko_martinsson_tropp(stored(A), 5, 6, generator())
    Omega = generator().standard_normal((400, 11))
    Y = A @ Omega
    P = Y @ np.linalg.pinv(Y)
    np.testing.assert_allclose(low.to_dense(), P @ A, atol=1e-9 * np.linalg.norm(A))
    assert "not private" in repr(low)


@pytest.fixture
def seen(monkeypatch):
    """What the range finder orthonormalises."""
    matrices = []
    original = core.noisy_orthonormalise

    def keep(bit_generator, Y, std):
        matrices.append(Y.copy())
        return original(bit_generator, Y, std)

    monkeypatch.setattr(core, "noisy_orthonormalise", keep)
    return matrices


def test_figure_2(rng, stored, seen):
    """To the last bit what Python's integers give, and near what real numbers would."""
    A = low_rank_matrix(rng).astype(np.float32).astype(float)
    (m, n), k, c = A.shape, 9, 3.0
    W = low_rank.range_finder(stored(A), 4, 5, EPSILON, DELTA, generator(), row_change=c)
    rng = generator()
    Omega, noise = rng.standard_normal((n, k)), rng.standard_normal((m, k))
    step = 2.0 ** math.floor(math.log2(2**-10 / math.sqrt(n)))
    whole, unit = in_units(A, c)
    rho = c / calibration.finder_ratio(k, EPSILON, DELTA)
    std = rho * (1 + unit * math.sqrt(n) / c) * math.sqrt(1 + 2**-11) / unit / step
    Y = whole @ to_int(np.rint(Omega / step)) + to_int(np.rint(std * (1 + 1e-12) * noise))
    exponent = math.floor(math.log2(std)) - 10
    rounded = (Y + 2 ** (exponent - 1)) // 2**exponent
    np.testing.assert_array_equal(seen[0], rounded.astype(float) * 2.0**exponent)
    np.testing.assert_allclose(W, orthonormal(seen[0]), atol=1e-9)
    np.testing.assert_allclose(W.T @ W, np.eye(9), atol=1e-13)
    # The paper's, but for what rounding does to A, Omega, the noise and the sum.
    moved = np.abs(A) @ np.full((n, k), step / 2) + unit / 2 * np.abs(Omega).sum(axis=0)
    allowed = 1.01 * moved + rho * (2**-11 + 0.0015 * np.abs(noise))
    assert (np.abs(seen[0] * unit * step - A @ Omega - rho * noise) <= allowed).all()


def test_figure_3(rng, stored):
    A = low_rank_matrix(rng).astype(np.float32).astype(float)
    W = orthonormal(rng.standard_normal((120, 9)))
    C = low_rank.project(stored(A), W, EPSILON, DELTA, generator())
    sigma = np.linalg.norm(W, axis=1).max() / privacy.calibration.gaussian_ratio(EPSILON, DELTA)
    noise = generator().standard_normal((400, 9)).T
    # Rounding: to the grid of the release, of W, and 2^-10 more noise for that of A.
    allowed = sigma * (2**-11 + 2**-10 * 1.01 * np.abs(noise)) + 2**-20 * np.abs(A).sum(0)
    assert (np.abs(C - W.T @ A - sigma * noise) <= allowed).all()


def test_figure_4_is_its_steps(rng):
    A = low_rank_matrix(rng)
    low = low_rank.approximate(A, 4, 5, 0.2, epsilon=EPSILON, delta=DELTA, rng=generator())
    noise = low_rank.calibrate(A.shape, 4, 5, epsilon=EPSILON, delta=DELTA)
    rng = generator()
    W = pfp.find_factors(Rounded(A, 1.0), 9, noise.finder_std, rng)
    assert (np.abs(W) > 0.2).any()
    W = np.where(np.abs(W) > 0.2, 0, W)
    np.testing.assert_array_equal(low.left, W)
    sigma = np.linalg.norm(W, axis=1).max() / noise.projection_ratio
    expected = W.T @ A + sigma * rng.standard_normal((400, 9)).T
    np.testing.assert_allclose(low.right, expected, atol=0.01 * sigma)
    assert low.reproducible
    assert low.privacy == noise.privacy
    assert not low_rank.approximate(A, 4, epsilon=EPSILON, delta=DELTA).reproducible


def test_published_noise(rng):
    A, k = low_rank_matrix(rng), 9
    W = orthonormal(rng.standard_normal((120, k)))
    C = low_rank.project(A, W, 0.5, DELTA, generator(), calibration="published", row_change=2)
    std = np.abs(W).max(0) * 2 * hardt_roth.figure_3(k, 0.5, DELTA)
    noise = generator().standard_normal((400, k)).T
    np.testing.assert_allclose((C - W.T @ A) / std[:, None], noise, atol=0.01)
    plan = low_rank.calibrate(A.shape, 4, 5, epsilon=0.9, delta=DELTA, calibration="published")
    assert plan.finder_std == hardt_roth.figure_2(k, 0.45, DELTA / 2)
    # What was printed costs many times what it must.
    assert plan.privacy.delta(0.9) < 1e-12


@pytest.mark.parametrize("calibration", ["exact", "published"])
def test_units_do_not_matter(rng, calibration):
    """A and row_change doubled: the same basis, and twice the rest, to the last bit."""
    A = low_rank_matrix(rng)
    settings = {"epsilon": 0.9, "delta": DELTA, "calibration": calibration}
    for function in (
        lambda X, c: [low_rank.range_finder(X, 4, 5, rng=generator(), row_change=c, **settings)],
        lambda X, c: [low_rank.project(X, A[:, :3], rng=generator(), row_change=c, **settings) / c],
        lambda X, c: [
            (low := low_rank.approximate(X, 4, 5, rng=generator(), row_change=c, **settings)).left,
            low.right / c,
        ],
        lambda X, c: [
            low_rank.randomised_response(X, 4, 0.9, DELTA, generator(), row_change=c).svd()[1] / c
        ],
    ):
        for one, two in zip(function(A, 1.0), function(2 * A, 2.0), strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-12, atol=1e-15)


def test_prune():
    W = np.array([[0.5, -0.5], [0.6, -0.6], [-0.2, 0.0]])
    np.testing.assert_array_equal(low_rank.prune(W, 0.5), [[0.5, -0.5], [0, 0], [-0.2, 0.0]])


@pytest.mark.parametrize(("k", "rho"), [(10, 32.2), (100, 83.5)])
def test_range_finder_noise_is_the_reference(k, rho):
    assert 1 / hardt_roth.chi_gaussian_ratio(k, 0.5, DELTA) == pytest.approx(rho, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(50, 5000), (5000, 50), (17770, 480189)])
@pytest.mark.parametrize("leverage", [None, 1.0])
def test_two_steps_spend_the_budget_together(shape, leverage):
    noise = low_rank.calibrate(
        shape, 3, epsilon=EPSILON, delta=DELTA, row_change=2.0, leverage=leverage
    )
    finder = calibration.finder_profile(noise.k, 2.0 / noise.finder_std)
    projection = privacy.GaussianProfile(noise.projection_ratio)
    together = privacy.compose([finder, projection])
    assert together.delta(0.3) == pytest.approx(noise.privacy.delta(0.3), rel=1e-9)
    assert 0.999 * DELTA < noise.privacy.delta(EPSILON) <= DELTA
    # By another route: convolution of the two privacy losses.
    pytest.importorskip("dp_accounting")
    from privgram.interop.dp_accounting import pld_from_profile

    pld = pld_from_profile(finder).compose(pld_from_profile(projection))
    assert pld.get_delta_for_epsilon(EPSILON) == pytest.approx(DELTA, rel=1e-3)


@pytest.mark.parametrize(
    ("shape", "leverage"), [((300, 6000), 0.4), ((9000, 60), 0.05), ((60, 90_000), 0.9)]
)
def test_split_is_the_best_for_its_objective(shape, leverage):
    r, k = 5, 11
    noise = low_rank.calibrate(shape, r, 6, epsilon=EPSILON, delta=DELTA, leverage=leverage)
    chosen = noise.expected_error(shape, r, 0.0, leverage)
    most = calibration.finder_ratio(k, EPSILON, DELTA)
    for share in np.linspace(0.05, 0.95, 19):
        kappa = most * math.sqrt(share)
        mu = hardt_roth.chi_gaussian_offset(k, kappa, EPSILON, DELTA)
        mu = math.sqrt(mu**2 - calibration.finder_profile(k, kappa).offset ** 2)
        other = low_rank.LowRankCalibration(k, 1.0, 1 / kappa, mu, noise.privacy)
        assert chosen < 1.01 * other.expected_error(shape, r, 0.0, leverage)


def test_sensitivity_of_the_projection_searched(rng):
    """No neighbour moves the exact sum further than the noise was calibrated for; some nearly."""
    m, n, k, c = 30, 50, 6, 0.7
    largest = 0.0
    for _ in range(40):
        A = rng.standard_normal((m, n)) * rng.choice([1e-3, 1.0, 100.0])
        W = orthonormal(rng.standard_normal((m, k)))
        W = low_rank.prune(W, rng.choice([0.3, 1.0]))
        ratio = 0.3
        std = pfp.exact_std(W, c, ratio)
        basis, step = pfp.on_grid(W)
        unit = pfp.entry_unit(n, c)
        before = value(Rounded(A, c).trans_times(Integers(basis)))
        for i in (int(np.argmax(np.linalg.norm(W, axis=1))), int(rng.integers(m))):
            # Along an axis, spread, and from just below to just above a rounding boundary.
            spread = rng.choice([-1.0, 1.0], n)
            edge = unit * (np.floor(A[i] / unit) + 0.5) - A[i] + 1e-9 * unit
            for e in (np.eye(n)[0], spread, rng.standard_normal(n), edge):
                e = e * min(1.0, c / np.linalg.norm(e)) if e is edge else c * e / np.linalg.norm(e)
                B = A.copy()
                B[i] += e
                moved = value(Rounded(B, c).trans_times(Integers(basis))) - before
                moved = moved.astype(float)
                grown = std[0] * (1 + unit * math.sqrt(n) / c)
                largest = max(largest, np.linalg.norm(moved) * unit * step / grown / ratio)
    assert 0.99 < largest <= 1.0


@pytest.mark.slow
def test_worst_neighbours_of_the_range_finder_by_search():
    """No pair of laws N(0, A A^T + rho^2 I) is further apart than the profile's; some are as far.

    Two generalised eigenvalues of the pair differ from 1, and the profile is that of 1 + lam
    and 1 / (1 + lam) with lam / sqrt(1 + lam) = c / rho (docs/theory/sheffet.md).
    """
    rng = generator(10)
    c = 1.3
    profile = hardt_roth.ChiGaussianProfile(6, 0.8)
    rho, lam = c / 0.8, (0.8**2 + 0.8 * math.sqrt(0.8**2 + 4)) / 2
    sketch = sheffet.SketchProfile(6, lam, "replace")
    assert sketch.delta(0.7) == pytest.approx(profile.delta(0.7), rel=1e-9)
    most = math.log1p(lam)

    def apart(x):
        A = np.sinh(x[:6]).reshape(3, 2)
        B = A.copy()
        B[0] += c * x[6:] / max(np.linalg.norm(x[6:]), 1e-300)
        one, two = (X @ X.T + rho**2 * np.eye(3) for X in (A, B))
        logs = np.log(eigh(two, one, eigvals_only=True))
        assert -most * (1 + 1e-6) <= logs[0]
        assert logs[-1] <= most * (1 + 1e-6)
        return -min(logs[-1], -logs[0])

    for _ in range(2000):
        apart(rng.standard_normal(8) * rng.choice([0.3, 2.0, 5.0]))
    found = [
        minimize(apart, rng.standard_normal(8), method="Nelder-Mead", options={"maxiter": 3000})
        for _ in range(4)
    ]
    assert min(x.fun for x in found) < -0.999 * most


@pytest.mark.slow
def test_change_of_the_range_finder_is_chi_distributed():
    """Whatever the direction, |e^T Omega| / c is chi with k degrees; false alarm 4e-6."""
    rng = generator(11)
    m, n, k, c = 3, 30, 5, 1.7
    limit = low_rank.entry_limit((m, n), c)
    for A in (np.zeros((m, n)), np.full((m, n), limit - c / 2)):
        for e in (np.eye(n)[3] * c, np.full(n, c / math.sqrt(n))):
            B = A.copy()
            B[1] += e
            squares = []
            for _ in range(400):
                Omega, step = pfp.rounded_normals(n, k, rng)
                one, two = (value(Rounded(X, c).times(Omega)) for X in (A, B))
                shift = (two - one).astype(float) * pfp.entry_unit(n, c) * step
                squares.append(np.sum(shift**2) / c**2)
            if A.any() and e[3] == c:
                # Half of the change is beyond the clamp.
                squares = 4 * np.array(squares)
            assert stats.kstest(squares, stats.chi2(k).cdf).pvalue > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 50, 4097])
def test_change_of_the_range_finder_once_rounded(n):
    """Entries, worst of all those by half a unit each, and Omega: by what is claimed at most."""
    rng = generator(n)
    k, c = 5, 0.7
    unit = pfp.entry_unit(n, c)
    assert 2**-11 < unit * math.sqrt(n) / c <= 2**-10
    grown = Rounded(np.zeros((1, n)), c).growth * c
    largest = 0.0
    for e in (np.eye(n)[0], np.ones(n), rng.choice([-1.0, 1.0], n), rng.standard_normal(n)):
        e = c * e / np.linalg.norm(e)
        # From just below to beyond a boundary of rounding.
        A = unit * (0.5 - 1e-6 - e / unit % 1)
        change = in_units((A + e)[None], c)[0] - in_units(A[None], c)[0]
        largest = max(largest, np.linalg.norm(change.astype(float)) * unit / grown)
        normals = np.random.default_rng(3).standard_normal((n, k))
        Omega, step = pfp.rounded_normals(n, k, np.random.default_rng(3))
        off = Omega.matrix * step - normals
        assert np.abs(off).max() <= step / 2
        assert np.linalg.norm(off) <= calibration.TEST_MARGIN * math.sqrt(k)
        assert step * math.sqrt(n) > calibration.TEST_MARGIN  # no finer than it must be
        shift = np.linalg.norm(change.astype(float) @ Omega.matrix) * unit * step
        real = np.linalg.norm(e @ normals) / c
        assert shift <= grown * (real + calibration.TEST_MARGIN * math.sqrt(k)) or n > 1
    assert 0.998 < largest <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("k", "ratio"), [(4, 0.5), (4, 3.0), (41, 0.02), (41, 1.0), (300, 0.01)])
@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_rounding_of_omega_is_in_the_profile(k, ratio, offset):
    """E delta of a Gaussian with S + t sqrt(k) for S, integrated, is below and not far below."""
    t = calibration.TEST_MARGIN
    claimed = calibration.finder_profile(k, ratio, offset)
    for epsilon in (0.0, 0.3, 1.0, 4.0):
        exact, without = (
            stats.chi(k).expect(
                lambda s, t=t, e=epsilon: privacy.GaussianProfile(
                    math.hypot(ratio * (s + t * math.sqrt(k)) / math.sqrt(1 + t), offset)
                ).delta(e),
                epsabs=1e-14,
                epsrel=1e-9,
                lb=stats.chi(k).ppf(1e-16),
                ub=stats.chi(k).isf(1e-16),
            )
            for t in (t, 0.0)
        )
        assert exact <= claimed.delta(epsilon) * (1 + 1e-8)
        assert without < exact
        nominal = hardt_roth.ChiGaussianProfile(k, ratio, offset).delta(epsilon)
        assert without == pytest.approx(nominal, rel=1e-7)
        # A hair of the ratio covers it, where delta is small enough to matter.
        if nominal < 0.1:
            more = hardt_roth.ChiGaussianProfile(k, ratio * (1 + 1.1 * t / 2), offset)
            assert claimed.delta(epsilon) < more.delta(epsilon)


def test_published_noise_includes_the_rounding_of_omega():
    """Where the printed constant only just suffices, it would not once Omega is rounded."""
    k, epsilon, enough, little = 4, 0.5, 1e-6, 1e-60
    for _ in range(60):
        delta = math.sqrt(enough * little)
        try:
            hardt_roth.figure_2(k, epsilon, delta)
            enough = delta
        except PublishedErratumError:
            little = delta
    rho = hardt_roth.figure_2(k, epsilon, enough)
    assert calibration.finder_profile(k, 1 / rho).delta(epsilon) > enough
    std = calibration.finder_std(k, 1.0, epsilon, enough, "published", False)
    assert rho < std < 1.001 * rho
    assert calibration.finder_profile(k, 1 / std).delta(epsilon) <= enough


@pytest.mark.slow
def test_finder_has_one_result_for_every_cutting(rng, monkeypatch):
    """To the last bit: for every storage, block size and number of threads."""
    A = low_rank_matrix(rng)
    A[5] *= 1e6
    settings = {"epsilon": EPSILON, "delta": DELTA}
    one = low_rank.approximate(A, 4, 5, rng=generator(), **settings)
    for size, threads in ((1, 1), (977, 5), (1 << 22, 2)):
        monkeypatch.setattr("privgram.papers._blocks.ENTRIES", size)
        monkeypatch.setattr("os.sched_getaffinity", lambda _, n=threads: range(n), raising=False)
        for name, store in STORAGE.items():
            if name != "float32":
                other = low_rank.approximate(store(A), 4, 5, rng=generator(), **settings)
                np.testing.assert_array_equal(other.left, one.left)
                np.testing.assert_array_equal(other.right, one.right)


@pytest.mark.parametrize("store", STORAGE.values(), ids=STORAGE)
def test_entries_are_clamped_to_a_public_range(rng, store):
    """Where an error would tell of the entry, the release is that of the clamped matrix."""
    A = low_rank_matrix(rng).astype(np.float32).astype(float)
    limit = low_rank.entry_limit(A.shape, 0.5)
    assert 2**30 <= limit / 0.5 * math.sqrt(A.size) <= 2**31
    A[3, :5] = [1e30, -1e30, 2 * limit, -limit, 1.7e38]
    A[17] = 1e38
    A = A.astype(np.float32).astype(float)
    clamped = np.clip(A, -limit, limit)
    settings = {"epsilon": EPSILON, "delta": DELTA, "row_change": 0.5}
    low, same = (
        low_rank.approximate(X, 4, 5, rng=generator(), **settings) for X in (store(A), clamped)
    )
    np.testing.assert_array_equal(low.left, same.left)
    np.testing.assert_array_equal(low.right, same.right)


def exact_cases():
    rng = generator(8)
    large = np.full((3, 2500), 1e300)
    large[1] = np.sign(generator(4).standard_normal((2500, 3))[:, 0]) * 1e300  # as Omega's
    large[2] = rng.uniform(-1, 1, 2500) * low_rank.entry_limit((3, 2500))
    wide = np.zeros((2, 100_000))
    wide[1, 77_777] = -1e30
    gaps = rng.standard_normal((6, 40))
    gaps[[0, 3]] = 0.0
    gaps[:, [5, 39]] = 0.0
    tiny, huge = 5e-324 * rng.integers(-9, 9, (5, 4)), 1e308 * rng.uniform(-1, 1, (5, 4))
    return {
        "all at the clamp": (large, 1.0),
        "tall, at the clamp": (np.full((300, 4), 1e300), 1.0),
        "one entry in many": (wide, 1.0),
        "zero rows and columns": (gaps, 1.0),
        "subnormal": (tiny, 1.0),
        "subnormal units": (
            np.concatenate([tiny, 2.0**-899 * rng.standard_normal((5, 4))]),
            2e-271,
        ),
        "huge units": (huge, 8e270),
        "mixed": (np.concatenate([tiny, huge, rng.standard_normal((5, 4))]), 1e-3),
        "ties": (2.0**-12 * rng.integers(-99, 99, (7, 16)), 1.0),
        "one column": (rng.standard_normal((9, 1)), 0.01),
        "integers": (rng.integers(1, 6, (50, 3000)).astype(float), 5.0),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", exact_cases())
@pytest.mark.parametrize("size", [1, 3000, 1 << 22])
def test_products_are_exact(name, size, monkeypatch):
    """Both steps', in every storage. Python's integers as witness."""
    A, c = exact_cases()[name]
    if size == 1 and A.size > 1000:
        size = 700
    monkeypatch.setattr("privgram.papers._blocks.ENTRIES", size)
    m, n = A.shape
    rng = generator(4)
    whole, unit = in_units(A, c)
    assert Rounded(A, c).unit == unit
    Omega, _ = pfp.rounded_normals(n, 3, rng)
    W = rng.standard_normal((m, 3)) if name != "tall, at the clamp" else np.ones((m, 3))
    basis, _ = pfp.on_grid(W)
    nonzero = whole.any(axis=0)
    forward = whole[:, nonzero] @ to_int(Omega.matrix[nonzero])
    backward = whole.T @ to_int(basis)
    if name == "all at the clamp":
        assert abs(forward).max() > 2**65
    if name == "tall, at the clamp":
        assert 2**60 < abs(backward).max() < 2**62
    for store in (np.asarray, np.asfortranarray, sp.csr_array, sp.csc_matrix):
        rounded = Rounded(store(A), c)
        assert (value(rounded.times(Omega)) == forward).all()
        assert (value(rounded.trans_times(Integers(basis))) == backward).all()


@pytest.mark.parametrize("bits", [1, 2, 20, 41, 53])
@pytest.mark.parametrize("other", [1, 24, 50])
def test_factors_are_cut_as_often_as_they_must(bits, other):
    """Any two factors of integers below 2**53: no number that a float would round."""
    rng = generator(bits + other)
    for low in (0, -1):  # of one sign, where sums are largest, or of both
        left = rng.integers(low * 2**bits + 1, 2**bits, (4, 60), dtype=np.int64)
        right = rng.integers(low * 2**other + 1, 2**other, (90, 2), dtype=np.int64)
        parts = list(products(Integers(left * 1.0), Integers(right * 1.0), slice(20, 80)))
        total = LargeTotal((4, 2))
        for part in parts:
            assert np.abs(part.matrix).max() <= part.bound <= 2**52
            total.add(slice(0, 4), part)
        expected = left.astype(object) @ right[20:80].astype(object)
        assert (value(total) == expected).all()


@pytest.mark.slow
def test_total():
    """Sums beyond 64 bits, of parts small and large, some rows at a time."""
    rng = generator(3)
    total, expected = LargeTotal((5000, 2)), np.zeros((5000, 2), object)
    for shift in (0, 8, 9, 10, 11, 30, 5, 0, 60, *[9] * 9):
        start, stop = sorted(rng.integers(0, 5001, 2)) if shift != 9 else (0, 5000)
        matrix = np.rint(rng.uniform(-0.1, 1, (stop - start, 2)) * 2.0**52)
        total.add(slice(start, stop), Product(matrix, shift, 2.0**52))
        expected[start:stop] += to_int(matrix) * 2**shift
    assert (value(total) == expected).all()
    # With noise of any size: floor((sum + noise + half a step) / step).
    for std in (0.25, 1.0, 3000.0, 2.0**40, 2.0**73, 2.0**99):
        out = total.noisy(std, generator())
        noise = to_int(np.rint(std * generator().standard_normal((5000, 2))))
        step = 2 ** max(0, math.floor(math.log2(std)) - 10)
        steps = (expected + noise + step // 2) // step
        np.testing.assert_allclose(out / step, steps.astype(float), rtol=2**-52)
        small = np.abs(steps) < 2**53
        assert (out / step == steps)[small].all()
    refuses(lambda: total.noisy(2.0**101, generator()), ValueError, "too small for any useful")


@pytest.mark.slow
def test_budgets_beyond_all_use():
    """Noise far above all there is, and none to speak of: a basis all the same."""
    A = low_rank_matrix(generator(), 20, 30, 2)
    for epsilon in (1e-12, 1e9):
        W = low_rank.range_finder(A, 2, 2, epsilon, 1e-12, generator())
        np.testing.assert_allclose(W.T @ W, np.diag(np.diag(W.T @ W)), atol=1e-12)
    with pytest.raises(ValueError, match="too small for any useful"):
        low_rank.range_finder(A, 2, 2, 1e-40, 1e-40, generator())


def test_released_numbers_lie_on_a_public_grid(rng):
    A = low_rank_matrix(rng)
    W = orthonormal(rng.standard_normal((120, 9)))
    C = low_rank.project(A, W, EPSILON, DELTA)
    sigma = np.linalg.norm(W, axis=1).max() / privacy.calibration.gaussian_ratio(EPSILON, DELTA)
    grid = 2.0 ** (math.floor(math.log2(sigma)) - 10)
    assert (C % grid == 0).all()


def test_noise_of_the_projection_to_the_grid():
    """With no data in sight: normals times the sensitivity after rounding, to half a step."""
    m, n, k = 7, 50, 3
    W = orthonormal(generator(2).standard_normal((m, k)))
    C = low_rank.project(np.zeros((m, n)), W, EPSILON, DELTA, generator())
    ratio = privacy.calibration.gaussian_ratio(EPSILON, DELTA)
    growth = 1 + pfp.entry_unit(n, 1.0) * math.sqrt(n)
    assert 1 + 2**-11 < growth <= 1 + 2**-10
    std = pfp.exact_std(W, 1.0, ratio)[0] * growth
    steps = (C - std * generator().standard_normal((n, k)).T) / grid_of(C)
    assert 0.45 < np.abs(steps).max() < 0.5 + 1e-3
    assert abs(steps.mean()) < 0.1  # 4.2 standard errors


def grid_of(C):
    """Largest power of two that all numbers are multiples of."""
    grid = 2.0 ** math.floor(math.log2(np.abs(C).max()))
    while (C % grid).any():
        grid /= 2
    return grid


def test_expected_error_bounds_the_error():
    """Mean over 40 runs of the squared error, each within 20 % of it, against its bound."""
    rng = generator(3)
    m, n, r = 100, 800, 3
    A = low_rank_matrix(rng, m, n, r, 60.0) + 0.5 * rng.standard_normal((m, n))
    tail = low_rank.coherence(A).tail(r)
    squares, bounds = [], []
    for _ in range(40):
        low = low_rank.approximate(A, r, 4, epsilon=EPSILON, delta=DELTA, rng=rng)
        squares.append(low_rank.frobenius_error(A, low) ** 2)
        noise = low_rank.calibrate(A.shape, r, 4, epsilon=EPSILON, delta=DELTA)
        leverage = np.linalg.norm(low.left, axis=1).max()
        bounds.append(noise.expected_error(A.shape, r, tail, leverage) ** 2)
    assert 0.3 * np.mean(bounds) < np.mean(squares) < np.mean(bounds)


def test_low_rank(rng):
    low = low_rank.LowRank(rng.standard_normal((7, 3)), rng.standard_normal((3, 5)), 1.0, 1e-6)
    B = low.left @ low.right
    assert low.shape == (7, 5)
    np.testing.assert_allclose(low.to_dense(), B)
    np.testing.assert_allclose(low.rows(2), B[2])
    np.testing.assert_allclose(low.rows([4, 1]), B[[4, 1]])
    np.testing.assert_allclose(low.rows(slice(0, 2)), B[:2])
    x = rng.standard_normal((5, 2))
    np.testing.assert_allclose(low @ x, B @ x)
    np.testing.assert_allclose(low @ x[:, 0], B @ x[:, 0])
    u, s, vt = low.svd()
    assert (u.shape, s.shape, vt.shape) == ((7, 3), (3,), (3, 5))
    np.testing.assert_allclose((u * s) @ vt, B)
    np.testing.assert_allclose(s, np.linalg.svd(B)[1][:3])
    np.testing.assert_allclose(u.T @ u, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(vt @ vt.T, np.eye(3), atol=1e-12)
    u, s, vt = low.svd(2)
    assert (u.shape, s.shape, vt.shape) == ((7, 2), (2,), (2, 5))


@pytest.fixture
def saved(rng, tmp_path):
    low = low_rank.approximate(
        low_rank_matrix(rng), 4, epsilon=EPSILON, delta=DELTA, rng=rng, row_change=2.0
    )
    low.save(tmp_path / "low.npz")
    return low, tmp_path / "low.npz"


def test_saved_and_loaded(saved, rng):
    low, path = saved
    back = pg.papers.hardt_roth.load_low_rank(path)
    np.testing.assert_array_equal(back.left, low.left)
    np.testing.assert_array_equal(back.right, low.right)
    assert (back.epsilon, back.delta, back.row_change) == (EPSILON, DELTA, 2.0)
    assert back.privacy == low.privacy
    assert back.reproducible
    assert repr(back) == repr(low)
    fresh = low_rank.approximate(low_rank_matrix(rng), 4, epsilon=EPSILON, delta=DELTA)
    fresh.save(path)
    assert not low_rank.load_low_rank(path).reproducible
    low_rank.halko_martinsson_tropp(low_rank_matrix(rng), 4, rng=rng).save(path)
    assert low_rank.load_low_rank(path).privacy is None
    assert "not private" in repr(low_rank.load_low_rank(path))
    assert [x.name for x in path.parent.iterdir()] == ["low.npz"]  # no temporary files


def test_file_holds_what_is_public(saved):
    path = saved[1]
    with np.load(path) as archive:
        assert sorted(archive.files) == ["header", "left", "right"]
        contents = json.loads(str(archive["header"]))["contents"]
    assert sorted(contents) == ["delta", "epsilon", "privacy", "reproducible", "row_change"]
    assert sorted(contents["privacy"]) == ["adjacency", "k", "offset", "profile", "ratio"]


def test_frobenius_error(rng, stored):
    A = low_rank_matrix(rng).astype(np.float32).astype(float)
    low = low_rank.approximate(A, 4, epsilon=EPSILON, delta=DELTA, rng=rng)
    expected = np.linalg.norm(A - low.to_dense())
    assert low_rank.frobenius_error(stored(A), low) == pytest.approx(expected, rel=1e-9)
    refuses(lambda: low_rank.frobenius_error(A[:5], low), ValueError, "shapes differ")


def test_randomised_response_is_the_best_of_the_noisy_matrix(rng):
    A = low_rank_matrix(rng, 60, 90, 2, 300.0)
    low = low_rank.randomised_response(A, 2, EPSILON, DELTA, generator(), iterations=8)
    sigma = 1 / privacy.calibration.gaussian_ratio(EPSILON, DELTA)
    noisy = np.concatenate([b.values for b in baselines.Perturbed(A, sigma, generator())])
    assert np.std(noisy - A) == pytest.approx(sigma, rel=0.05)
    u, s, vt = np.linalg.svd(noisy)
    np.testing.assert_allclose(low.to_dense(), (u[:, :2] * s[:2]) @ vt[:2], atol=1e-6 * s[0])
    assert low.privacy.delta(EPSILON) <= DELTA
    np.testing.assert_array_equal(
        *[
            np.concatenate([b.values for b in baselines.Perturbed(X, sigma, generator())])
            for X in (A, sp.csr_array(A))
        ]
    )


def test_coherence_of_extremes():
    flat = low_rank.coherence(np.ones((16, 9)))
    assert (flat.C, flat.mu0, flat.rank) == (pytest.approx(1), pytest.approx(1), 1)
    spike = np.zeros((16, 9))
    spike[3, 2] = 5.0
    peaked = low_rank.coherence(spike)
    assert (peaked.C, peaked.mu0, peaked.rank) == (pytest.approx(4), pytest.approx(16), 1)
    assert "NOT private" in repr(peaked)


def test_coherence(rng, stored):
    A = low_rank_matrix(rng).astype(np.float32).astype(float)
    u, s, _ = np.linalg.svd(A, full_matrices=False)
    report = low_rank.coherence(stored(A))
    norms = np.linalg.norm(A, axis=1)
    ratio = norms.max() * math.sqrt(120) / np.linalg.norm(A)
    np.testing.assert_allclose(report.C, ratio)
    assert report.largest_row == pytest.approx(norms.max())
    leading = low_rank.coherence(stored(A), 4)
    expected = 120 / 4 * np.max(np.sum(u[:, :4] ** 2, axis=1))
    assert leading.mu0 == pytest.approx(expected)
    assert leading.tail(2) == pytest.approx(math.hypot(*s[2:4]), rel=1e-6)
    # Lemma 5.13
    assert math.sqrt(leading.rank * leading.mu0) >= ratio


def test_promises():
    log = math.log(7 / 1e-6) / 0.5
    base = math.sqrt(1 + 3 / 3) * 2.0
    value = low_rank.theorem_6_2((100, 1600), 3, 4, 1.5, 40.0, 2.0, 0.5, 1e-6)
    assert value == pytest.approx(base + math.sqrt(700) * log + math.sqrt(60 * log) * 7 * 2)
    value = low_rank.theorem_6_3((100, 1600), 3, 4, 1.5, 8, 2.0, 0.5, 1e-6)
    spread = math.sqrt((7 * 8 * 1.5 + 49 * math.log(100)) / 100 * 7 * 1600)
    assert value == pytest.approx(base + (math.sqrt(700) + spread) * log)
    # The level at which the two terms it trades are equal.
    m, n, k, C, norm = 10_000, 90_000, 7, 1.5, 400.0
    level = low_rank.prune_level((m, n), k, C, norm, 0.5, 1e-6)
    assert level < 1
    taken = C * k * norm / (level * math.sqrt(m))
    assert taken == pytest.approx(level * k * math.sqrt(n) * log)
    assert low_rank.prune_level((m, n), k, 100.0, 4e6, 0.5, 1e-6) == 1.0


def hostile():
    rng = generator(5)
    A = low_rank_matrix(rng, 30, 40, 2)
    dominated = A.copy()
    dominated[4] *= 1e2
    sparse = sp.csr_array(np.where(rng.random((30, 40)) < 0.2, rng.random((30, 40)), 0.0))
    zeros = sparse.copy()
    zeros.data[::3] = 0.0
    unsorted = sparse.copy()
    for i in range(30):
        row = slice(unsorted.indptr[i], unsorted.indptr[i + 1])
        unsorted.indices[row] = unsorted.indices[row][::-1].copy()
        unsorted.data[row] = unsorted.data[row][::-1].copy()
    unsorted.has_sorted_indices = False
    duplicated = sp.csr_array(
        (np.array([0.3, 0.4, 1.0]), np.array([1, 1, 0]), np.array([0, 2] + [3] * 29)), (30, 40)
    )
    read_only = A.copy()
    read_only.flags.writeable = False
    return {
        "rank deficient": A,
        "zero": np.zeros((30, 40)),
        "empty rows": np.where(np.arange(30)[:, None] % 3, A, 0),
        "dominated by a row": dominated,
        "explicit zeros": zeros,
        "unsorted": unsorted,
        "duplicates": duplicated,
        "no entries": sp.csr_array((30, 40)),
        "strided": np.repeat(A, 2, axis=1)[:, ::2],
        "reversed": A[::-1, ::-1],
        "read-only": read_only,
        "integers": A.astype(int),
        "booleans": A > 0,
        "tall": A.T,
    }


@pytest.mark.parametrize("name", hostile())
def test_hostile_matrices(name):
    A = hostile()[name]
    dense = A if isinstance(A, np.ndarray) else A.toarray()
    dense = dense.astype(float)
    low = low_rank.approximate(A, 2, 3, epsilon=50.0, delta=1e-3, rng=generator(), row_change=1e-3)
    same = low_rank.approximate(
        dense, 2, 3, epsilon=50.0, delta=1e-3, rng=generator(), row_change=1e-3
    )
    np.testing.assert_allclose(low.to_dense(), same.to_dense(), atol=1e-9)
    base = low_rank.halko_martinsson_tropp(A, 2, 3, generator())
    error = np.linalg.norm(dense - low.to_dense())
    assert error <= 3 * np.linalg.norm(dense - base.to_dense()) + 0.1


@pytest.mark.slow
def test_noise_lost_beside_the_matrix():
    """One direction 10^11 times as large as all others: what is left of those becomes zero."""
    A = np.full((30, 40), 1e9)
    low = low_rank.approximate(A, 3, 4, epsilon=1e9, delta=DELTA, rng=generator())
    assert (low.left.shape, low.right.shape) == ((30, 7), (7, 40))
    np.testing.assert_allclose(low.left.T @ low.left, np.diag([1.0] + [0.0] * 6), atol=1e-12)
    # As near as 20 bits of W bring it.
    np.testing.assert_allclose(low.to_dense(), low_rank.entry_limit(A.shape), rtol=2**-19)


@pytest.mark.parametrize("row", [3, 57])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("stored", STORAGE.values(), ids=STORAGE)
def test_not_finite(rng, row, value, stored):
    A = low_rank_matrix(rng)
    A[row, 11] = value
    with pytest.raises(ValueError, match=f"row {row}, column 11 is NaN or infinite"):
        low_rank.approximate(stored(A), 4, epsilon=EPSILON, delta=DELTA)


A = np.ones((20, 30))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: low_rank.range_finder(A, 15, 6, 1.0, 1e-6), ValueError, "at most min.m, n. = 20"),
        (lambda: low_rank.range_finder(A, 1, 6, 1.0, 1e-6), ValueError, "at least 2.* rank 1 take"),
        (lambda: low_rank.range_finder(A, 3, 4), TypeError, "'epsilon' and 'delta'"),
        (lambda: low_rank.range_finder(A, 3.0, 4, 1.0, 1e-6), TypeError, "rank must be an integer"),
        (lambda: low_rank.range_finder(A, 3, 4, 1.0, 1e-6, rng=7), TypeError, "default_rng"),
        (lambda: low_rank.range_finder(A[0], 3, 4, 1.0, 1e-6), ValueError, "two-dim|at least one"),
        (lambda: low_rank.range_finder(A[:0], 3, 4, 1.0, 1e-6), ValueError, "at least one row"),
        (lambda: low_rank.range_finder(A * 1j, 3, 4, 1.0, 1e-6), TypeError, "real numbers"),
        (lambda: low_rank.range_finder(iter([A]), 3, 4, 1.0, 1e-6), TypeError, "not an iterator"),
        (lambda: low_rank.range_finder([A, A.T], 3, 4, 1.0, 1e-6), ValueError, "columns"),
        (lambda: low_rank.range_finder(sp.coo_array(A), 3, 4, 1.0, 1e-6), TypeError, "tocsr"),
        (lambda: low_rank.range_finder(7, 3, 4, 1.0, 1e-6), TypeError, "not int"),
        (lambda: low_rank.project(A, A, 1.0, 1e-6, row_change=1e-300), ValueError, "row_change"),
        (lambda: low_rank.project(A, A.T, 1.0, 1e-6), ValueError, "W must have shape"),
        (lambda: low_rank.project(A, A * np.nan, 1.0, 1e-6), ValueError, "W must be finite"),
        (lambda: low_rank.project(A, A, 1.0, 1e-6, calibration="x"), ValueError, "calibration"),
        (lambda: low_rank.randomised_response(A, 21, 1.0, 1e-6), ValueError, "rank"),
        (lambda: low_rank.coherence(A * 0), ValueError, "zero matrix"),
        (lambda: low_rank.coherence(A * 1e200), ValueError, "another unit"),
        (lambda: low_rank.coherence(A, 21), ValueError, "rank"),
    ],
)
def test_errors(call, error, message):
    refuses(call, error, message)


def test_under_an_erratum_the_true_delta_is_kept(rng, monkeypatch):
    # The paper's noise suffices wherever it was looked at from four columns on.
    std = calibration.finder_std
    monkeypatch.setattr(calibration, "finder_std", lambda *args: std(*args) / 30)
    A = rng.standard_normal((30, 12))
    made = low_rank.approximate(
        A, 3, 4, epsilon=0.9, delta=1e-6, calibration="published", allow_published_erratum=True
    )
    assert made.delta == made.privacy.delta(0.9) > 1e-6


@pytest.mark.parametrize("length", [1 - 2.0**-53, 1.0, 1 + 2.0**-52])
def test_grid_of_a_basis_is_that_of_length_one(length):
    whole, step = pfp.on_grid(np.array([[length], [0.0]]))
    assert (whole[0, 0], step) == (2.0**20, 2.0**-20)
