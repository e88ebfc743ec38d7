"""Low rank and compression of matrices that are never whole in memory."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from support.helpers import refuses

from privgram.papers import hardt_roth as low_rank
from privgram.papers.zhou_ligett_wasserman import compress, compression

pytestmark = pytest.mark.slow

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


class Made:
    """Blocks of a matrix, made anew at every pass and dropped after it."""

    def __init__(self, m, n, rows, density=None):
        self.shape, self.rows, self.density = (m, n), rows, density
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        rng = np.random.default_rng(3)
        m, n = self.shape
        for start in range(0, m, self.rows):
            rows = min(self.rows, m - start)
            if self.density is None:
                yield rng.standard_normal((rows, n))
            else:
                yield sp.random_array((rows, n), density=self.density, format="csr", rng=rng)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("privgram.papers._blocks.ENTRIES", 1 << 14)


def peak(function):
    """Bytes that NumPy and Python hold at most while a function runs."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_of_low_rank_is_that_of_factors_and_blocks(small_blocks):
    A = Made(6000, 1200, 50)
    k, whole = 9, 8 * 6000 * 1200
    factors = 8 * k * (6000 + 1200)
    # Omega and Y, C and the noise beside the factors; a dozen blocks under way.
    used = peak(lambda: low_rank.approximate(A, 4, 5, **BUDGET))
    assert used < 5 * factors + 24 * 50 * 1200 * 8 < 0.3 * whole
    assert A.passes == 2


def test_memory_of_a_sparse_matrix(small_blocks):
    """No block of it is ever made dense."""
    A = Made(2000, 60_000, 500, density=2e-4)
    used = peak(lambda: low_rank.approximate(A, 4, 5, **BUDGET))
    assert used < 6 * 8 * 9 * 62_000 < 0.05 * 8 * 2000 * 60_000


def test_phi_is_never_stored(small_blocks):
    n, p, m = 40_000, 4, 300
    A = Made(n, p, 1000)
    used = peak(lambda: compress(A, m, scales=np.ones(p)))
    assert used < 0.02 * 8 * n * m
    assert A.passes == 1


def test_data_frame_is_an_array():
    pandas = pytest.importorskip("pandas")
    A = np.random.default_rng(4).standard_normal((30, 20))
    frame = pandas.DataFrame(A, columns=[f"user {i}" for i in range(20)])
    one, two = (
        low_rank.approximate(X, 2, 3, **BUDGET, rng=np.random.default_rng(5)) for X in (A, frame)
    )
    np.testing.assert_array_equal(one.to_dense(), two.to_dense())


class Shrinking(Made):
    def __iter__(self):
        self.passes += 1
        blocks = list(super().__iter__())
        return iter(blocks[: 3 - self.passes // 4])


@pytest.mark.parametrize(
    ("blocks", "error", "message"),
    [
        ((np.ones((5, 4)) for _ in range(3)), TypeError, "not an iterator"),
        (map(np.asarray, [np.ones((5, 4))]), TypeError, "not an iterator"),
        (lambda: [np.ones((5, 4))], TypeError, "not function"),
        (Shrinking(15, 8, 5), ValueError, "rows in all this time, not 15"),
        ([], ValueError, "at least one row"),
    ],
)
def test_blocks_that_do_not_come_back(blocks, error, message):
    refuses(lambda: low_rank.approximate(blocks, 2, 2, **BUDGET), error, message)


def test_redraws_are_reported_to_nobody(monkeypatch):
    """A release after many redraws says of itself what one after none does."""
    A = np.random.default_rng(6).standard_normal((400, 3))
    plain = compress(A, 50, rng=np.random.default_rng(1))
    drawn = []
    # A threshold that hardly any draw passes.
    monkeypatch.setattr(compression.theorems, "deviation", lambda *_: 0.11)
    original = compression._root

    class Counting(np.ndarray):
        def __rmatmul__(self, other):
            drawn.append(1)
            return other @ np.asarray(self)

    monkeypatch.setattr(compression, "_root", lambda sigma: original(sigma).view(Counting))
    late = compress(A, 50, rng=np.random.default_rng(2))
    assert len(drawn) > 1
    assert vars(late).keys() == vars(plain).keys()
    for field in dataclasses.fields(late):
        if field.name not in ("matrix", "threshold"):
            assert getattr(late, field.name) == getattr(plain, field.name)
    assert repr(late) == repr(plain)
