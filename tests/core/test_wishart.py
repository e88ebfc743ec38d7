"""Bartlett's sampler: its twin, the identities of the Wishart distribution, theory and SciPy.

The statistical tests have fixed seeds. FALSE_ALARM is the probability with which each of them
would fail a correct sampler under a seed drawn at random.
"""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle as reference
import pytest
from numpy.testing import assert_array_equal
from scipy import special, stats
from support.helpers import all_pairs, refuses

from privgram._core import blas as compiled
from privgram._core.draws import ChaCha20

EPS = np.finfo(float).eps
FALSE_ALARM = 1e-6


def scale_matrix(d, seed=0):
    """A V that is far from diagonal, and its lower Cholesky factor."""
    rng = np.random.default_rng(seed)
    factor = np.tril(rng.normal(size=(d, d)), -1) / np.sqrt(d) + np.diag(rng.uniform(0.5, 2, d))
    return factor @ factor.T, factor


def draw(seed, k, cholesky=None, d=None):
    d = len(cholesky) if d is None else d
    out = np.full((d, d), np.nan)
    compiled.wishart(np.random.PCG64(seed), k, cholesky, out)
    return out


def sample(seed, n, k, cholesky=None, d=None):
    d = len(cholesky) if d is None else d
    bit_generator = np.random.PCG64(seed)
    out = np.empty((n, d, d))
    for w in out:
        compiled.wishart(bit_generator, k, cholesky, w)
    return out


def z_bound(tests):
    """What the largest of so many |N(0, 1)| exceeds with probability FALSE_ALARM at most."""
    return -special.ndtri(FALSE_ALARM / 2 / tests)


# Around the edges of the blocks of columns (128) and of the bands mirrored (8).
@pytest.mark.parametrize(
    ("d", "excess", "general"),
    all_pairs([1, 2, 3, 7, 8, 9, 22, 127, 128, 129, 257], [1e-3, 0.5, 3.7, 1e9], [False, True]),
)
def test_is_the_reference(d, excess, general):
    cholesky = scale_matrix(d)[1] if general else None
    for make in (np.random.PCG64, np.random.Philox, lambda seed: ChaCha20(bytes([seed] * 32))):
        ours, plain = np.full((2, d, d), np.nan)
        used, expected = make(7), make(7)
        compiled.wishart(used, d - 1 + excess, cholesky, ours)
        reference.wishart(expected, d - 1 + excess, cholesky, plain)
        assert_array_equal(used.random_raw(4), expected.random_raw(4))
        assert_array_equal(ours, ours.T)
        # Rounding of the two products, relative to |T| |T|^T for W = T T^T.
        spread = np.sqrt(np.outer(np.diag(plain), np.diag(plain)))
        assert (np.abs(ours - plain) <= 4 * (d + 8) * EPS * spread).all()


def test_reads_the_lower_triangle_only_and_writes_everything():
    cholesky = scale_matrix(140)[1]
    plain = draw(6, 150.0, cholesky)
    dirty = cholesky + np.triu(np.full((140, 140), np.nan), 1)
    assert_array_equal(draw(6, 150.0, dirty), plain)
    cholesky.flags.writeable = False
    assert_array_equal(draw(6, 150.0, cholesky), plain)


def test_singular_scale_gives_a_singular_draw():
    cholesky = np.diag([1.0, 0.0, 2.0])
    w = draw(1, 5.0, cholesky)
    assert_array_equal(w[1], 0)
    assert w[0, 0] > 0
    assert w[2, 2] > 0


def test_no_columns():
    compiled.wishart(np.random.PCG64(1), 1.0, None, np.empty((0, 0)))


SHAPES = [(1, 0.3), (2, 1.25), (3, 2.01), (4, 4.0), (4, 17.5)]


@pytest.mark.long
@pytest.mark.parametrize(("d", "k"), SHAPES)
@pytest.mark.parametrize("general", [False, True], ids=["identity", "general"])
def test_means_and_covariances_of_entries(d, k, general):
    """E W_ij = k V_ij; Cov(W_ij, W_pq) = k (V_ip V_jq + V_iq V_jp)."""
    n = 20_000
    v, cholesky = scale_matrix(d) if general else (np.eye(d), None)
    w = sample(10, n, k, cholesky, d)
    pairs = list(itertools.combinations_with_replacement(range(d), 2))
    error = np.array([w[:, i, j] - k * v[i, j] for i, j in pairs])
    z = [np.sqrt(n) * e.mean() / e.std() for e in error]
    for (e, (i, j)), (f, (p, q)) in itertools.combinations_with_replacement(
        zip(error, pairs, strict=True), 2
    ):
        product = e * f
        covariance = k * (v[i, p] * v[j, q] + v[i, q] * v[j, p])
        z.append(np.sqrt(n) * (product - covariance).mean() / product.std())
    # The products have heavy tails: at this n the normal limit needs the allowance of 3/2.
    assert np.abs(z).max() < 1.5 * z_bound(len(z))


@pytest.mark.parametrize(("d", "k"), [(1, 0.3), (2, 2.25), (3, 3.0), (4, 17.5), (6, 1e9)])
def test_known_marginals(d, k):
    v, cholesky = scale_matrix(d)
    w = sample(11, 4000, k, cholesky)
    a = np.random.default_rng(1).normal(size=d)
    form = np.einsum("i,nij,j->n", a, w, a) / (a @ v @ a)
    schur = np.linalg.inv(v)[0, 0] / np.linalg.inv(w)[:, 0, 0]
    tests = [(form, stats.chi2(k).cdf), (schur, stats.chi2(k - d + 1).cdf)]
    tests += [(w[:, i, i] / v[i, i], stats.chi2(k).cdf) for i in range(d)]
    for values, cdf in tests:
        assert stats.kstest(values, cdf).pvalue > FALSE_ALARM / len(tests)


def test_threads_sharing_a_bit_generator_share_out_its_draws():
    """A draw holds the lock from its first number to its last: the draws are those of a series."""
    threads, each, d = 4, 50, 22

    def run(bit_generator, pool_map):
        barrier = threading.Barrier(threads if pool_map is not map else 1)

        def work(count):
            barrier.wait()
            out = np.empty((count, d, d))
            for w in out:
                compiled.wishart(bit_generator, 30.0, None, w)
            return [w.tobytes() for w in out]

        jobs = [each] * threads if pool_map is not map else [each * threads]
        return sorted(itertools.chain.from_iterable(pool_map(work, jobs)))

    with ThreadPoolExecutor(threads) as pool:
        together = run(np.random.PCG64(8), pool.map)
    alone = run(np.random.PCG64(8), map)
    assert len(set(alone)) == threads * each
    assert together == alone


@pytest.mark.parametrize("k", [2.0, 1.5, 0.0, -1.0, np.nan, np.inf, -np.inf])
def test_degrees_of_freedom_out_of_range(k):
    with pytest.raises(ValueError, match="k must be finite and above d - 1 = 2, not"):
        compiled.wishart(np.random.PCG64(1), k, None, np.empty((3, 3)))


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="out must be square"):
        compiled.wishart(np.random.PCG64(1), 9.0, None, np.empty((3, 4)))
    with pytest.raises(ValueError, match=r"cholesky must have the shape of out, \(3, 3\)"):
        compiled.wishart(np.random.PCG64(1), 9.0, np.eye(4), np.empty((3, 3)))


def test_refusal_draws_nothing():
    bit_generator = np.random.PCG64(1)
    with pytest.raises(ValueError, match="k must be"):
        compiled.wishart(bit_generator, 1.0, None, np.empty((3, 3)))
    assert bit_generator.random_raw() == np.random.PCG64(1).random_raw()


@pytest.mark.parametrize("bit_generator", [np.random.default_rng(1), 1, None, "PCG64"])
def test_needs_a_bit_generator(bit_generator):
    with pytest.raises(TypeError, match="bit_generator must be a NumPy bit generator"):
        compiled.wishart(bit_generator, 9.0, None, np.empty((3, 3)))


def read_only():
    out = np.empty((3, 3))
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (read_only(), "read-only"),
        (np.empty((3, 3), order="F"), "not C-contiguous"),
        (np.empty((6, 6))[::2, ::2], "not C-contiguous"),
        (np.empty((3, 3), np.float32), "dtype mismatch"),
        (np.empty((3, 3), ">f8"), "Big-endian"),
        (np.empty(9), "number of dimensions"),
    ],
    ids=["read-only", "fortran", "strided", "float32", "big-endian", "flat"],
)
def test_layouts_it_cannot_write_to(out, message):
    refuses(lambda: compiled.wishart(np.random.PCG64(1), 9.0, None, out), ValueError, message)


@pytest.mark.parametrize("d", [1, 2, 9, 64, 65, 150])
def test_product_that_is_wrong_is_noticed(d, rng):
    """A draw is refused where BLAS multiplies wrongly: a block of it, or only one entry."""
    u = np.triu(rng.normal(size=(d, d)) * 10.0 ** rng.integers(-3, 4, size=(d, 1)))
    w = np.triu(u @ u.T)
    assert compiled.is_product(w, u)
    near = w * (1 + EPS * rng.choice([-1, 1], w.shape))
    assert compiled.is_product(near, u)
    spread = np.sqrt(np.diag(w)).sum() ** 2
    for i, j in {(0, 0), (0, d - 1), (d // 2, d - 1)}:
        for wrong in (w[i, j] + 1e-9 * spread, np.nan, np.inf):
            changed = w.copy()
            changed[i, j] = wrong
            assert not compiled.is_product(changed, u)
    half = d // 2  # what is added of the columns after a block is lost, as it was
    if half:
        lost = w.copy()
        lost[:half, :half] = np.triu(u[:half, :half] @ u[:half, :half].T)
        assert not compiled.is_product(lost, u)
