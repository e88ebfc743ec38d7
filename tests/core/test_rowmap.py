"""Rows mapped into a frame: equal to the twin bit for bit, and a function of the row alone."""

import numpy as np
import pytest
from oracle.rowmap import map_rows
from support.helpers import all_pairs, assert_bits, refuses

import privgram as pg
from privgram._core import rowmap
from privgram._core.rows import RowAccumulator
from privgram.exact.int128 import to_integers
from privgram.moment.accumulators import FactorAccumulator, MappedAccumulator
from privgram.scan.executor import accumulate
from privgram.scan.request import ScanRequest


def apply(block, bound, frame, out, *more):
    rowmap.Images(block, bound, frame, out.shape[1], *more).into(out)


def images(block, bound, frame):
    out = np.full(block.shape, 7.0, order="F")
    apply(block, bound, rowmap.transposed(frame), out)
    return out


def frame_of(rng, d, condition=1e8):
    """Orthogonal rows of lengths from 1 to `condition`, as adaptive rounds take them."""
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return np.geomspace(condition, 1.0, d)[:, None] * turn


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (9, 1), (7, 3), (8, 8), (23, 9), (130, 22)])
def test_equal_to_the_twin(layout, rng, dtype, shape):
    block = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)).astype(dtype)
    frame = rng.standard_normal((shape[1], shape[1]))
    expected = map_rows(block, 1.5, frame)
    np.testing.assert_array_equal(images(layout(block), 1.5, frame), expected)
    clipped = block.astype(float)
    clipped *= np.minimum(1, 1.5 / np.maximum(np.linalg.norm(clipped, axis=1), 1e-300))[:, None]
    np.testing.assert_allclose(expected, clipped @ frame.T, rtol=1e-9, atol=1e-12)


def test_rows_beyond_the_range_of_squares(rng):
    block = np.array([[3e200, 4e200], [np.inf, 1.0], [np.nan, 1.0], [1e-200, 0.0], [0.0, 0.0]])
    frame = frame_of(rng, 2)
    found = images(block, 5.0, frame)
    np.testing.assert_array_equal(found, map_rows(block, 5.0, frame))
    np.testing.assert_allclose(found[0], frame @ [3.0, 4.0])
    assert np.isnan(found[1:3]).all()
    assert np.isfinite(found[3:]).all()


def extreme_rows(rng, frame, bound):
    """Rows that a frame makes as long as it can, or that rounding might make longer."""
    d = len(frame)
    along = np.linalg.svd(frame)[2]
    cube = rng.choice([-1.0, 1.0], (40, d))
    rows = np.concatenate([along, -along, along[:1] + 1e-8 * along[-1:], cube, np.eye(d)])
    lengths = np.concatenate([[bound, np.nextafter(bound, 9e9), 1e6 * bound, 1e300, 1e-300]])
    return np.concatenate([rows / np.linalg.norm(rows, axis=1)[:, None] * c for c in lengths])


@pytest.mark.parametrize(
    ("d", "condition", "radius"), all_pairs([1, 2, 7, 22], [1.0, 1e4, 1e8], [1e-3, 1.0, 3.0])
)
def test_no_row_is_longer_than_the_radius_in_any_frame(rng, d, condition, radius):
    """The sensitivity of a round is that of its integers, whatever the frame: 2^bits."""
    bound = np.sqrt(d)
    frame = frame_of(rng, d, condition)
    longest = 0
    for row in extreme_rows(rng, frame, bound):
        mapped = MappedAccumulator(frame, bound, RowAccumulator(d, radius * bound))
        assert mapped.update(row[None]) == -1
        total = to_integers(mapped.inner.int128())
        assert (total**2).sum() == total.trace() ** 2  # one row's: its Frobenius norm is its trace
        longest = max(longest, total.trace())
    assert longest <= 1 << 40
    if condition >= 1e4:  # and it is attained, or the test would see nothing
        assert longest > 0.999 * (1 << 40)


def test_blocks_of_any_kind_are_one_table(rng, layout):
    table, frame = rng.uniform(-1, 1, (5000, 3)), frame_of(rng, 3, 10.0)
    whole = MappedAccumulator(frame, 1.5, RowAccumulator(3, 2.0))
    assert whole.update(layout(table)) == -1
    halves = [MappedAccumulator(frame, 1.5, RowAccumulator(3, 2.0)) for _ in range(2)]
    assert halves[0].update([column.copy() for column in table[:1234].T]) == -1
    assert halves[1].update(table[1234:]) == -1
    halves[0].merge(halves[1])
    expected = RowAccumulator(3, 2.0)
    expected.update(map_rows(table, 1.5, frame))
    for found in (whole.inner, halves[0].inner):
        assert_bits(found, expected)
        assert found.n_rows == 5000


@pytest.mark.parametrize("drop", [False, True])
def test_missing_values_are_found_or_dropped(rng, drop):
    table, frame = rng.uniform(-1, 1, (40_000, 3)), frame_of(rng, 3)
    table[30_001, 1] = np.nan
    mapped = MappedAccumulator(frame, 1.5, RowAccumulator(3, 2.0))
    assert mapped.update(table, drop) == (-1 if drop else 30_001)
    if drop:
        assert (mapped.inner.n_rows, mapped.inner.n_dropped) == (39_999, 1)


@pytest.mark.parametrize("ones", [False, True])
def test_columns_are_scaled_as_they_are_read(rng, ones):
    """Bit for bit as if they were scaled first, for columns of every type."""
    n, d = 1003, 5
    columns = [
        rng.normal(size=n) * 10.0 ** rng.integers(-3, 300, n),
        rng.normal(size=n).astype(np.float32),
        rng.integers(-(2**62), 2**62, n),
        rng.integers(-9, 9, n, dtype=np.int32),
        rng.normal(size=(n, 3))[:, 1],
    ]
    columns[0][::50] = np.nan
    center, inverse = rng.normal(size=d), rng.uniform(0.1, 3, d)
    limit = rng.uniform(0.5, 2, d)
    with np.errstate(over="ignore"):
        moved = (np.stack(columns, axis=1).astype(np.float64) - center) * inverse
    scaled = np.clip(moved, -limit, limit)
    if ones:
        columns, scaled[:, -1] = columns[:-1], limit[-1]
    frame = rowmap.transposed(rng.normal(size=(d, d)))
    found, expected = np.empty((n, d), order="F"), np.empty((n, d), order="F")
    apply(columns, 2.0, frame, found, (center, inverse, limit))
    apply(scaled, 2.0, frame, expected)
    np.testing.assert_array_equal(found, expected)


def coded_table(rng, n):
    """Numbers of several types and factors, one with a value; and the same written out."""
    columns = [rng.normal(size=n), rng.integers(-9, 9, n, dtype=np.int32)]
    columns[0][::50] = np.nan
    value = rng.normal(size=n).astype(np.float32)
    center, inverse = rng.normal(size=4), rng.uniform(0.1, 3, 4)
    limit = rng.uniform(0.5, 2, 4)
    first = rng.integers(0, 300, n).astype(np.uint16)  # looked up; 299 is in no table
    lut = rng.integers(0, 7, 299).astype(np.int32)
    second = rng.integers(-1, 3, n).astype(np.int8)  # -1 is missing
    blocks = [(first, lut, 7, None, 0.75), (second, None, 3, value, 1.0)]
    scaled = np.zeros((n, 13))
    moved = (np.stack([*columns, value], axis=1).astype(np.float64) - center[[0, 1, 3]]) * (
        inverse[[0, 1, 3]]
    )
    clamped = np.clip(moved, -limit[[0, 1, 3]], limit[[0, 1, 3]])
    scaled[:, :2], scaled[:, 2] = clamped[:, :2], limit[2]
    looked_up = np.where(first < 299, lut[np.minimum(first, 298)], -1)
    for start, levels, entry in ((3, looked_up, np.full(n, 0.75)), (10, second, clamped[:, 2])):
        known = levels >= 0
        scaled[known, start + levels[known]] = entry[known]
        scaled[~known, start] = np.nan
    return columns, (center, inverse, limit), blocks, scaled


@pytest.mark.parametrize("k", [1, 5, 13])
@pytest.mark.parametrize("n", [1, 9, 255, 256, 1003])
@pytest.mark.parametrize("bound", [1.2, 9.0])
def test_codes_are_the_columns_that_they_stand_for(rng, k, n, bound):
    """Bit for bit, for frames of fewer rows too: what is zero of a row adds nothing."""
    columns, scaling, blocks, scaled = coded_table(rng, n)
    frame, found = rng.normal(size=(k, 13)), np.empty((n, k), order="F")
    apply(columns, bound, rowmap.transposed(frame), found, scaling, blocks)
    np.testing.assert_array_equal(found, map_rows(scaled, bound, frame))


def test_images_from_a_row_on_are_those_of_all(rng):
    n, frame = 700, rowmap.transposed(rng.normal(size=(4, 13)))
    columns, scaling, blocks, _ = coded_table(rng, n)
    made = rowmap.Images(columns, 1.5, frame, 4, scaling, blocks)
    whole = np.empty((n, 4), order="F")
    made.into(whole)
    assert (len(made), made.n_columns) == (n, 4)
    for first, size in [(0, 0), (0, 1), (1, 5), (300, 257), (699, 1), (700, 0), (3, 697)]:
        part = np.empty((size, 4), order="F")
        made.into(part, first)
        np.testing.assert_array_equal(part, whole[first : first + size])


def test_round_at_coded_rows_clips_them_as_the_moment_does(rng):
    """By a bound that was chosen, which is below what the columns allow."""
    columns = pg.Columns({"x": (-1.0, 1.0), "g": ["a", "b", "c"]}, intercept=True)
    table = {"x": rng.uniform(-1, 1, 500), "g": rng.choice(["a", "b", "c"], 500)}
    bound, frame = 0.9, frame_of(rng, len(columns), 10.0)
    asked = ScanRequest(table, columns, bound)
    mapped, _ = accumulate(
        asked, lambda d: MappedAccumulator(frame, bound, RowAccumulator(d, 20.0))
    )
    expected = RowAccumulator(len(columns), 20.0)
    expected.update(map_rows(columns.encode(table), bound, frame))
    assert_bits(mapped.inner, expected)


@pytest.mark.parametrize("k", [1, 3, 9])
@pytest.mark.parametrize("radius", [1e-3, 1.0, 40.0])
def test_no_row_with_levels_is_longer_than_the_bound(rng, k, radius):
    """Images of any length, beside entries of levels that stay: the integers are within 2^bits."""
    levels = [(k, 5, 0.7 * radius), (k + 5, 2, 0.3 * radius)]
    far = np.concatenate([10.0 ** rng.uniform(-9, 150, (60, 1)), np.full((20, 1), 1e-3 * radius)])
    images = far * rng.choice([-1.0, 1.0], (80, k)) * rng.uniform(0.5, 1, (80, k))
    longest = 0
    for image in images:
        mapped = FactorAccumulator(range(k), levels, radius)
        codes = [(np.array([i], np.int32), None) for i in (3, 1)]
        assert mapped.update(image[None].copy(), False, codes) == -1
        total = to_integers(mapped.inner.int128())
        assert (total**2).sum() == total.trace() ** 2
        longest = max(longest, total.trace())
    assert 0.999 * (1 << 40) < longest <= 1 << 40
    refuses(lambda: FactorAccumulator(range(k), levels, 0.5 * radius), ValueError, "leave no room")


def test_wrong_input():
    frame = rowmap.transposed(np.eye(3))
    out = np.empty((2, 3), order="F")
    with pytest.raises(TypeError, match="floats or signed integers"):
        apply(np.ones((2, 3), np.uint8), 1.0, frame, out)
    refuses(lambda: apply(np.ones((2, 2)), 1.0, frame, out), ValueError, r"shape \(n, 3\)")
    with pytest.raises(ValueError, match="there are 1 images, of 3 columns"):
        apply(np.ones((1, 3)), 1.0, frame, out)
    for first in (-1, 1, 2**62):
        with pytest.raises(ValueError, match="there are 2 images, of 3 columns"):
            rowmap.Images(np.ones((2, 3)), 1.0, frame, 3).into(out, first)
    with pytest.raises(ValueError, match="have 2 rows"):
        apply([np.ones(2), np.ones(3), np.ones(2)], 1.0, frame, out)
    with pytest.raises(ValueError, match=r"three arrays of shape \(3,\)"):
        apply(np.ones((2, 3)), 1.0, frame, out, 3 * [np.ones(2)])
    refuses(lambda: apply(np.ones((2, 3)), 1.0, np.eye(3), out), ValueError, "padded")
    with pytest.raises(ValueError, match="lie by columns"):
        apply(np.ones((2, 3)), 1.0, frame, np.empty((2, 3)))
    codes = (np.zeros(2, np.int32), None, 1, None, 1.0)
    with pytest.raises(ValueError, match="must be scaled"):
        apply(np.ones((2, 2)), 1.0, frame, out, None, [codes])
    scaling = 3 * [np.ones(2)]
    with pytest.raises(TypeError, match="arrays of integers"):
        apply(np.ones((2, 2)), 1.0, frame, out, scaling, [(np.ones(2), *codes[1:])])
    with pytest.raises(ValueError, match="2 rows"):
        apply(np.ones((2, 2)), 1.0, frame, out, scaling, [(np.ones(3, int), *codes[1:])])
