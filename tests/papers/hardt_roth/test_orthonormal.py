"""The identities of an orthonormal basis, ranks and extremes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg

from privgram.papers.hardt_roth.orthonormal import RANK_TOLERANCE, orthonormalised

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
    q, rank = orthonormalised(y)
    assert rank == k
    assert q.shape == (m, k)
    assert q.flags.c_contiguous
    assert_orthonormal(q)
    assert_spans(q, y, 1e-14)
    # R = Q^T Y is upper triangular with positive diagonal: Gram-Schmidt from left to right.
    r = q.T @ (y / np.linalg.norm(y, axis=0))
    assert np.abs(np.tril(r, -1)).max(initial=0) < 1e-14
    assert np.diag(r).min() > 0


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
    q, rank = orthonormalised(y)
    assert rank == 5
    assert_orthonormal(q)
    expected, _ = orthonormalised(np.ascontiguousarray(y[:, kept]))
    assert_same_span(q, linalg.orth(y[:, kept]))
    assert_allclose(q, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("outside", "rank"), [(1e-8, 2), (2e-11, 2), (5e-12, 1), (0.0, 1)])
@pytest.mark.parametrize("scale", [1e-250, 1.0, 1e250])
def test_rank_tolerance_is_what_is_documented(outside, rank, scale):
    """A column with this much of its norm outside the span of the one before it."""
    left = np.linalg.qr(np.random.default_rng(3).normal(size=(400, 2)))[0]
    y = np.stack([left[:, 0], scale * (left[:, 0] + outside * left[:, 1])], axis=1)
    assert RANK_TOLERANCE == 1e-11
    q, found = orthonormalised(y)
    assert found == rank
    assert_orthonormal(q)


def test_no_rank():
    q, rank = orthonormalised(np.zeros((6, 4)))
    assert (q.shape, rank) == ((6, 0), 0)


@pytest.mark.parametrize(("m", "k"), [(0, 0), (0, 3), (3, 0)])
def test_nothing(m, k):
    q, rank = orthonormalised(np.empty((m, k)))
    assert (q.shape, rank) == ((m, 0), 0)


@pytest.mark.parametrize(("m", "k"), [(1, 4), (3, 8), (40, 41), (41, 300)])
def test_fewer_rows_than_columns(m, k):
    y = np.random.default_rng(4).normal(size=(m, k))
    q, rank = orthonormalised(y)
    assert (q.shape, rank) == ((m, m), m)
    assert_orthonormal(q)


def test_classic_trap_of_unrepeated_gram_schmidt():
    """Läuchli's matrix: its Gram matrix rounds to a singular one."""
    k, tiny = 20, 1e-9
    y = np.vstack([np.ones(k), tiny * np.eye(k)])
    q, rank = orthonormalised(y)
    assert rank == k
    assert_orthonormal(q)
    assert_spans(q, y, 1e-14)


@pytest.mark.parametrize("condition", [10.0, 1e8])
@pytest.mark.parametrize("exponent", [-1040, -900, 0, 900, 1022])
def test_scale_is_no_matter(exponent, condition):
    """Powers of two change no bit; far down they lose the bits that subnormal numbers lose."""
    y = matrix(600, 5, condition)
    plain, _ = orthonormalised(y)
    q, rank = orthonormalised(np.ldexp(y, exponent))
    assert rank == 5
    if exponent == -1040:
        assert_orthonormal(q)
    else:
        assert_array_equal(q, plain)


def test_columns_of_wildly_mixed_scales():
    y = matrix(600, 7)
    scales = [1e-300, 1e300, 1.0, 1e-150, 1e150, 1e-308, 1e307]
    q, rank = orthonormalised(y * scales)
    assert rank == 7
    assert_orthonormal(q)
    assert_spans(q, y, 1e-14)


def test_smallest_number_there_is():
    y = np.zeros((9, 2))
    y[2, 0] = y[5, 1] = 5e-324
    q, rank = orthonormalised(y)
    assert rank == 2
    assert_array_equal(q, (y > 0).astype(float))


def test_input_is_left_alone_and_may_be_read_only():
    y = matrix(300, 4)
    before = y.copy()
    y.flags.writeable = False
    orthonormalised(y)
    assert_array_equal(y, before)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_number_that_is_not_finite(value):
    y = matrix(500, 4)
    y[321, 2] = value
    with pytest.raises(ValueError, match="is not finite"):
        orthonormalised(y)
