"""Noisy orthonormalisation: the identities of an orthonormal basis, its twin, ranks, extremes."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle as reference
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg
from support.helpers import refuses

from privgram._core import orthonormal as compiled
from privgram._core.draws import ChaCha20

ORTHOGONALITY = 1e-14


def matrix(m, k, condition=10.0, seed=0):
    """A Gaussian-looking (m, k) matrix with singular values from 1 down to 1 / condition."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(m, k)))[0]
    right = np.linalg.qr(rng.normal(size=(k, k)))[0]
    return left * np.geomspace(1, 1 / condition, k) @ right


def assert_orthonormal(q):
    assert np.abs(q.T @ q - np.eye(q.shape[1])).max(initial=0) < ORTHOGONALITY


def assert_spans(q, y, tolerance):
    """What of the columns of y, scaled to norm 1, lies outside the span of q."""
    unit = y / np.linalg.norm(y, axis=0)
    assert np.linalg.norm(unit - q @ (q.T @ unit), axis=0).max() < tolerance


# Both ways (CholeskyQR2 up to a condition of 1e6, Gram-Schmidt beyond) and the edge between.
CONDITIONS = [1.0, 1e3, 3e5, 1e7, 1e10]
# One row, one column, square, blocks of 256 rows and more, not multiples of anything.
SIZES = [(1, 1), (5, 1), (7, 7), (22, 3), (300, 41), (1031, 129), (5003, 10)]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(("m", "k"), SIZES)
def test_is_an_orthonormal_basis_of_the_range(m, k, condition):
    y = matrix(m, k, condition)
    q, rank = compiled.noisy_orthonormalise(None, y, 0.0)
    assert rank == k
    assert q.shape == (m, k)
    assert q.flags.c_contiguous
    assert_orthonormal(q)
    assert_spans(q, y, 1e-14)
    # R = Q^T Y is upper triangular with positive diagonal: Gram-Schmidt from left to right.
    r = q.T @ (y / np.linalg.norm(y, axis=0))
    assert np.abs(np.tril(r, -1)).max(initial=0) < 1e-14
    assert np.diag(r).min() > 0


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6, 1e8])
@pytest.mark.parametrize(("m", "k"), SIZES)
def test_is_the_reference(m, k, condition):
    y = matrix(m, k, condition)
    # Below the least singular value, so that the condition stays what it is called.
    noise_std = 1e-3 / (condition * np.sqrt(m))
    for make in (np.random.PCG64, lambda seed: ChaCha20(bytes([seed] * 32))):
        used, expected = make(5), make(5)
        ours, rank = compiled.noisy_orthonormalise(used, y, noise_std)
        plain, _ = reference.noisy_orthonormalise(expected, y, noise_std)
        assert rank == k
        # The basis is as well determined as the condition lets it be.
        assert_allclose(ours, plain, rtol=0, atol=1e-14 * condition)
        assert_array_equal(used.random_raw(4), expected.random_raw(4))


def assert_same_span(q, expected):
    assert q.shape == expected.shape
    assert np.sin(linalg.subspace_angles(q, expected)).max() < 1e-10


@pytest.mark.parametrize("m", [50, 3000])
def test_dependent_columns_are_dropped(m):
    rng = np.random.default_rng(1)
    y = rng.normal(size=(m, 9))
    y[:, 0] = 0
    y[:, 3] = y[:, 1]
    y[:, 5] = y[:, [1, 2, 4]] @ [3.0, -2.0, 1e5]
    y[:, 8] = 1e-200 * y[:, 6]
    kept = [1, 2, 4, 6, 7]
    q, rank = compiled.noisy_orthonormalise(None, y, 0.0)
    assert rank == 5
    assert_orthonormal(q)
    expected, _ = compiled.noisy_orthonormalise(None, np.ascontiguousarray(y[:, kept]), 0.0)
    assert_same_span(q, linalg.orth(y[:, kept]))
    assert_allclose(q, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("outside", "rank"), [(1e-8, 2), (2e-11, 2), (5e-12, 1), (0.0, 1)])
@pytest.mark.parametrize("scale", [1e-250, 1.0, 1e250])
def test_rank_tolerance_is_what_is_documented(outside, rank, scale):
    """A column with this much of its norm outside the span of the one before it."""
    left = np.linalg.qr(np.random.default_rng(3).normal(size=(400, 2)))[0]
    y = np.stack([left[:, 0], scale * (left[:, 0] + outside * left[:, 1])], axis=1)
    assert reference.RANK_TOLERANCE == 1e-11
    q, found = compiled.noisy_orthonormalise(None, y, 0.0)
    assert found == rank
    assert_orthonormal(q)


@pytest.mark.parametrize(("m", "k", "noise_std"), [(0, 0, 1), (0, 3, 1), (3, 0, 1), (6, 4, 0)])
def test_no_rank(m, k, noise_std):
    q, rank = compiled.noisy_orthonormalise(np.random.PCG64(1), np.zeros((m, k)), noise_std)
    assert (q.shape, rank) == ((m, 0), 0)


@pytest.mark.parametrize(("m", "k"), [(1, 4), (3, 8), (40, 41), (41, 300)])
@pytest.mark.parametrize("noise_std", [0.0, 1.0])
def test_fewer_rows_than_columns(m, k, noise_std):
    y = np.random.default_rng(4).normal(size=(m, k))
    q, rank = compiled.noisy_orthonormalise(np.random.PCG64(1), y, noise_std)
    assert (q.shape, rank) == ((m, m), m)
    assert_orthonormal(q)


def test_noise_makes_up_the_rank():
    q, rank = compiled.noisy_orthonormalise(np.random.PCG64(1), np.zeros((300, 20)), 1e-9)
    assert rank == 20
    assert_orthonormal(q)


@pytest.mark.parametrize("condition", [10.0, 1e8])
@pytest.mark.parametrize("exponent", [-1040, -900, 0, 900, 1022])
def test_scale_is_no_matter(exponent, condition):
    """Powers of two change no bit; far down they lose the bits that subnormal numbers lose."""
    y = matrix(600, 5, condition)
    plain, _ = compiled.noisy_orthonormalise(None, y, 0.0)
    q, rank = compiled.noisy_orthonormalise(None, np.ldexp(y, exponent), 0.0)
    assert rank == 5
    if exponent == -1040:
        assert_orthonormal(q)
    else:
        assert_array_equal(q, plain)


def test_columns_of_wildly_mixed_scales():
    y = matrix(600, 7)
    scales = [1e-300, 1e300, 1.0, 1e-150, 1e150, 1e-308, 1e307]
    q, rank = compiled.noisy_orthonormalise(None, y * scales, 0.0)
    assert rank == 7
    assert_orthonormal(q)
    assert_spans(q, y, 1e-14)


def test_smallest_number_there_is():
    y = np.zeros((9, 2))
    y[2, 0] = y[5, 1] = 5e-324
    q, rank = compiled.noisy_orthonormalise(None, y, 0.0)
    assert rank == 2
    assert_array_equal(q, (y > 0).astype(float))


def test_input_is_left_alone_and_may_be_read_only():
    y = matrix(300, 4)
    before = y.copy()
    y.flags.writeable = False
    compiled.noisy_orthonormalise(np.random.PCG64(1), y, 1.0)
    assert_array_equal(y, before)


def test_threads_sharing_a_bit_generator_share_out_its_draws():
    threads, each = 4, 10
    y = matrix(2000, 6)

    def run(bit_generator, workers):
        barrier = threading.Barrier(workers)

        def work(_):
            barrier.wait()
            return [
                compiled.noisy_orthonormalise(bit_generator, y, 1.0)[0].tobytes()
                for _ in range(threads * each // workers)
            ]

        with ThreadPoolExecutor(workers) as pool:
            return sorted(q for part in pool.map(work, range(workers)) for q in part)

    alone = run(np.random.PCG64(8), 1)
    assert len(set(alone)) == threads * each
    assert run(np.random.PCG64(8), threads) == alone


@pytest.mark.parametrize("noise_std", [-1.0, -1e-300, np.nan, np.inf])
def test_noise_out_of_range(noise_std):
    with pytest.raises(ValueError, match="noise_std must be finite and not negative"):
        compiled.noisy_orthonormalise(np.random.PCG64(1), np.ones((3, 2)), noise_std)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("noise_std", [0.0, 1.0])
def test_row_that_is_not_finite(value, noise_std):
    y = matrix(500, 4)
    y[321, 2] = y[400, 0] = value
    with pytest.raises(ValueError, match="row 321 of y is not finite"):
        compiled.noisy_orthonormalise(np.random.PCG64(1), y, noise_std)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_noise_that_overflows():
    y = np.full((5, 3), 1.7e308)
    with pytest.raises(ValueError, match=r"row \d of y is not finite, or is not once the noise"):
        compiled.noisy_orthonormalise(np.random.PCG64(1), y, 1e308)


def test_needs_a_bit_generator():
    with pytest.raises(TypeError, match="bit_generator must be a NumPy bit generator"):
        compiled.noisy_orthonormalise(None, np.ones((3, 2)), 1.0)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ones((3, 2), order="F"), "not C-contiguous"),
        (np.ones((6, 4))[::2, ::2], "not C-contiguous"),
        (np.ones((3, 2), np.float32), "dtype mismatch"),
        (np.ones((3, 2), ">f8"), "Big-endian"),
        (np.ones(3), "number of dimensions"),
    ],
    ids=["fortran", "strided", "float32", "big-endian", "flat"],
)
def test_layouts_it_cannot_read(y, message):
    refuses(lambda: compiled.noisy_orthonormalise(None, y, 0.0), ValueError, message)


def test_more_columns_than_blas_can_count():
    with pytest.raises(ValueError, match="2147483648 columns; at most 2147483647"):
        compiled.noisy_orthonormalise(None, np.empty((0, 2**31)), 0.0)
