"""Rows held back as digits and multiplied by tiles: the bits of the kernels that add them at once.

Without AMX the tiles are plain C (`rows.emulated()`); all else is what a processor with AMX runs.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from oracle import RowAccumulator
from support.helpers import assert_bits

from privgram._core import rows

#: Digits for tables of any width; `amx` itself, where it is, from the width where it pays.
TILES = (*rows.emulated(), *[name for name in rows.available() if name == "amx"])


@pytest.fixture(params=TILES)
def tiles(request):
    """An accumulator of one kernel of digits."""
    rows.select(request.param)
    yield rows.RowAccumulator
    rows.select(rows.available()[0])


def total(name, blocks, d, drop=False, scaling=None):
    """Integers and counts of blocks of d columns, by the kernel of this name."""
    rows.select(name)
    acc = rows.RowAccumulator(d, 1.0)
    rows.select(rows.available()[0])
    for block in blocks:
        assert acc.update(block, drop, scaling) == -1
    return (*acc.int128(), acc.n_rows, acc.n_dropped)


def table(rng, n, d):
    """Rows around a bound of 1, some of one entry, tiny, huge, or with a value missing."""
    x = rng.standard_normal((n, d)) * np.exp(rng.normal(0, 4, (n, 1))) / np.sqrt(d)
    kind = rng.integers(0, 12, n)
    x[kind == 0] = 0
    alone = np.flatnonzero(kind <= 1)
    x[alone] = 0
    x[alone, rng.integers(0, d, len(alone))] = rng.choice(
        [-1e9, -1, -0.9922, 0.9922, 1, 1e9], len(alone)
    )
    x[kind == 2] *= 1e300
    x[kind == 3] = rng.choice([5e-324, -1e-310, 0.0], d)
    x[(rng.random(n) < 0.02), rng.integers(0, d)] = np.nan
    return np.clip(x, -1e308, 1e308)


def split(rng, x):
    """Some blocks of a table, by rows or by columns."""
    cuts = np.sort(rng.integers(0, len(x) + 1, rng.integers(0, 4)))
    blocks = []
    for part in np.split(x, cuts):
        layout = rng.integers(0, 3)
        blocks.append(
            part.copy()
            if layout == 0
            else np.asfortranarray(part)
            if layout == 1
            else list(part.T.copy())
        )
    return blocks


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_same_integers_by_all_kernels(part):
    """500 shapes in all: every kernel, as the table comes or scaled on its way."""
    rng = np.random.default_rng([39, part])
    for turn in range(50):
        d = int(rng.choice([rng.integers(1, 40), rng.integers(1, 140)]))
        n = int(rng.choice([rng.integers(0, 130), rng.integers(0, 1500)], p=[0.8, 0.2]))
        x = table(rng, n, d)
        if turn % 3 == 0:
            with np.errstate(over="ignore", under="ignore"):
                x = x.astype(np.float32)
            x[np.isinf(x)] = 1e30
        scaling = None
        if turn % 5 == 0:
            limit = rng.choice([0.01, 1.0]) * np.ones(d)
            scaling = rng.uniform(-1, 1, d), rng.uniform(0, 1, d), limit
        blocks = split(rng, x)
        expected = total("portable", blocks, d, True, scaling)
        for name in (*rows.available(), *rows.emulated()):
            for got, want in zip(total(name, blocks, d, True, scaling), expected, strict=True):
                assert_array_equal(got, want, err_msg=f"{name}, {x.shape}")


@pytest.mark.parametrize("d", [1, 16, 31, 33, 129, 400])
def test_integers_of_the_reference(tiles, rng, d):
    """Over several products, of one and of more parts of columns."""
    x = np.nan_to_num(table(rng, 600, d))
    acc, expected = tiles(d, 1.0), RowAccumulator(d, 1.0)
    assert acc.update(x) == expected.update(x) == -1
    assert_bits(acc, expected)


@pytest.mark.parametrize(
    "q", [1_040_318, 1_040_319, 1_040_320, 1_048_575, -1_040_448, -1_048_575, 0]
)
def test_largest_digits(tiles, q):
    """A row of one entry may be beyond the three digits of 7 bits, for as many rows as you like."""
    acc = tiles(1, 1.0)
    assert acc.update(np.full((5000, 1), q / acc.scale)) == -1
    hi, lo = acc.int128()
    assert int(hi[0, 0]) * 2**64 + int(lo[0, 0]) == 5000 * q * q


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("first", [0, 5, 511, 512, 530, 1029])
def test_row_that_cannot_be_added(tiles, rng, value, first):
    """It is named, also where it is met while others are multiplied."""
    x = rng.standard_normal((1030, 140))
    x[first, 77] = x[first:, 3] = value
    for block in (x, np.asfortranarray(x)):
        assert tiles(140, 1.0).update(block) == first


def test_rows_that_wait_are_part_of_every_answer(tiles, rng):
    """Merging, copying, resetting and reading again, with few rows and with many."""
    x = rng.standard_normal((700, 150))
    whole = tiles(150, 1.0)
    whole.update(x)
    first, second = tiles(150, 1.0), tiles(150, 1.0)
    first.update(x[:300])
    second.update(x[300:])
    first.merge(second)
    for acc in (first, tiles.from_totals(150, 1.0, 20, *whole.totals(), 700, 0)):
        assert_bits(acc, whole)
        assert_bits(acc, whole)
    first.reset()
    first.update(x[:3])
    first.reset()
    first.update(x)
    assert_bits(first, whole)


@pytest.mark.parametrize("clipped", [False, True])
def test_dense_columns_beside_codes(rng, clipped):
    """Over several products, with rows left out, where rows are clipped and where none is."""
    n, d, levels = 1300, 21, 4
    x, codes = rng.standard_normal((n, d)), rng.integers(0, levels, n).astype(np.int8)
    x[rng.random(n) < 0.05, 3] = np.nan
    layout = range(d), [levels], [(0, d, -1, 1.0), (0, d + levels, 0, 0.5)]
    scaling = np.zeros(d + 1), np.ones(d + 1), np.full(d + 1, 2.0)
    found = {}
    for name in (*rows.available(), *rows.emulated()):
        rows.select(name)
        acc = rows.TableAccumulator(*layout, 1.0 if clipped else 20.0)
        for part in np.split(np.arange(n), [0, 7, 900]):
            block = np.asfortranarray(x[part]) if part.size == 7 else x[part]
            values = [x[part, 0].copy()]
            assert acc.update(block, [(codes[part], None)], values, True, scaling) == -1
        found[name] = (*acc.totals(), acc.n_rows, acc.n_dropped)
    rows.select(rows.available()[0])
    for got in found.values():
        for one, other in zip(got, found["portable"], strict=True):
            assert_array_equal(one, other)


@pytest.mark.parametrize("d", [24, 141])
def test_threads_add_to_the_same_sums(tiles, rng, d):
    x = np.nan_to_num(table(rng, 900, d))
    whole, one = tiles(d, 1.0), RowAccumulator(d, 1.0)
    assert whole.update(x[:100]) == one.update(x) == -1

    def add(part):
        sharer = whole.beside()
        assert sharer.update(part) == -1
        sharer.settle()
        return sharer

    with ThreadPoolExecutor(3) as pool:
        for sharer in pool.map(add, np.array_split(x[100:], 3)):
            whole.merge(sharer)
    assert_bits(whole, one)
    assert whole.n_rows == 900


def test_more_bits_than_digits_have(tiles, rng):
    x = rng.standard_normal((200, 150))
    acc, expected = tiles(150, 1.0, 21), RowAccumulator(150, 1.0, 21)
    assert acc.update(x) == expected.update(x) == -1
    assert_bits(acc, expected)
