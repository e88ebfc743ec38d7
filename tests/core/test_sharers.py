"""Accumulators of several threads that add to the same sums: the integers of one alone."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from privgram._core import rows


@pytest.fixture(params=rows.available())
def kernel(request):
    rows.select(request.param)
    yield
    rows.select(rows.available()[0])


def assert_same(total, other):
    for got, expected in zip(total.totals(), other.totals(), strict=True):
        assert_array_equal(got, expected)
    assert (total.n_rows, total.n_dropped) == (other.n_rows, other.n_dropped)


def added_together(whole, parts):
    """The total of accumulators beside one, each with a thread and a part of its own."""
    sharers = [whole.beside() for _ in parts]

    def add(sharer, part):
        for block in np.array_split(part, 3):
            assert sharer.update(block, drop=True) == -1
        sharer.settle()

    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(add, sharers, parts))
    total = sharers.pop()
    for sharer in sharers:
        total.merge(sharer)
    return total


@pytest.mark.parametrize("d", [17, 24, 33, 100, 141, 300])
@pytest.mark.parametrize("bits", [20, 24])
def test_the_integers_of_one(rng, kernel, d, bits):
    x = rng.standard_normal((1500, d)) * rng.choice([0.01, 0.1, 10], (1500, 1))
    x[::50] = 0
    x[::50, 3] = 1.0
    x[7, 1] = np.nan
    one = rows.RowAccumulator(d, 1.0, bits)
    assert one.update(x, drop=True) == -1
    whole = rows.RowAccumulator(d, 1.0, bits)
    assert whole.update(x[:100], drop=True) == -1
    total = added_together(whole, np.array_split(x[100:], 5))
    total.merge(whole)
    assert_same(total, one)
    # Alone again, it is like any other.
    del whole
    for each in (total, one):
        each.update(x[:9], drop=True)
        each.merge(each.copy())
    assert_same(total, one)


def test_sums_beyond_64_bits(kernel):
    """At 24 bits 2^14 rows fill a word: those of all count, though each has fewer."""
    x = np.zeros((16_300, 17))
    x[:, 16] = -1.0
    one, whole = rows.RowAccumulator(17, 1.0, 24), rows.RowAccumulator(17, 1.0, 24)
    total = whole.beside()
    for sharer in [whole.beside() for _ in range(5)]:
        one.update(x)
        sharer.update(x)
        total.merge(sharer)
    assert one.totals()[0].max() > 0
    assert_same(total, one)


def test_sums_that_others_made(rng, kernel):
    """Sums of a device, or those of another accumulator, are added between the threads' own."""
    x = rng.standard_normal((400, 40)) / 10
    one = rows.RowAccumulator(40, 1.0)
    one.update(x)
    sums = one.int128()[1].astype(np.int64)
    whole = rows.RowAccumulator(40, 1.0)
    total = whole.beside()
    total.update(x)
    total.merge(rows.RowAccumulator.from_totals(40, 1.0, 20, *_of(sums), len(x), 0))
    total.merge(one)
    for _ in range(2):
        one.merge(rows.RowAccumulator.from_totals(40, 1.0, 20, *_of(sums), len(x), 0))
    assert_same(total, one)


def _of(sums):
    lower = sums[np.tril_indices(len(sums))]
    return lower >> 63, lower.view(np.uint64)


def test_what_is_refused():
    with pytest.raises(MemoryError):
        rows.RowAccumulator(16, 1.0).beside()
    whole = rows.RowAccumulator(17, 1.0)
    kept = [whole.beside() for _ in range(rows.MOST_SHARERS - 1)]
    with pytest.raises(MemoryError):
        whole.beside()
    del kept
    whole.beside()
