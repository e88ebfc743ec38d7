"""Clip, quantise, accumulate: the kernels against integers, and against each other bit for bit."""

import math
from fractions import Fraction

import numpy as np
import oracle as reference
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from support.helpers import LAYOUTS, assert_bits, refuses

from privgram._core import rows

#: Kernels of digits have test_tiles.py, and are met here among the parts of one table.
KERNELS = rows.available()
#: Around the widths of vectors and blocks; with 11 to 61 every size of tile is met in every place.
SIZES = [*range(1, 10), 15, 16, 17, 23, 31, 32, 33, 47, 48, 49, 63, 64, 65, 100, 129, 130]
SIZES += [11, 13, 29, 35, 61, pytest.param(1003, marks=pytest.mark.slow)]


def integers(acc):
    """The matrix as Python integers."""
    hi, lo = acc.int128()
    return hi.astype(object) * 2**64 + lo.astype(object)


def gram(x, impl=rows.RowAccumulator, bound=1.0, bits=20, drop=False):
    acc = impl(x.shape[1], bound, bits)
    assert acc.update(x, drop) == -1
    return acc


def row_norm_sq(impl, row, bound, bits):
    """sum q^2 of one row, exactly: the trace of its q q^T."""
    hi, lo = gram(row[None, :], impl, bound, bits).int128()
    assert not hi.diagonal().any()
    return sum(int(v) for v in lo.diagonal())


def mixed_rows(rng, n, d):
    """Rows below, at and far above a bound of 1, with entries of wildly mixed scales."""
    x = rng.standard_normal((n, d))
    x *= np.exp(rng.normal(0, 6, (n, d)) * (rng.random((n, 1)) < 0.3))
    x /= np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
    x *= rng.choice([1e-3, 0.5, 1 - 1e-16, 1.0, 1 + 2e-16, 3.0, 1e6], (n, 1))
    x[rng.random((n, d)) < 0.05] = 0
    return x


@pytest.fixture(params=KERNELS)
def kernel(request):
    """A compiled accumulator of each instruction set."""
    rows.select(request.param)
    yield rows.RowAccumulator
    rows.select(KERNELS[0])


def each_kernel():
    """A compiled accumulator of each instruction set, one after the other."""
    try:
        for name in KERNELS:
            rows.select(name)
            yield rows.RowAccumulator
    finally:
        rows.select(KERNELS[0])


def test_a_unit_of_a_negative_sum_is_seen():
    hi, lo = np.array([-1]), np.array([2**64 - 5], np.uint64)
    refuses(lambda: assert_bits((hi, lo), (hi, lo + np.uint64(1))), AssertionError, "not equal")


@pytest.mark.parametrize("bits", [8, 20, 24])
@pytest.mark.parametrize("d", [1, 3, 8, 22, 41])
def test_equals_rational_arithmetic(impl, rng, d, bits):
    """q q^T summed in Python integers, q from the exact norm wherever rounding cannot matter."""
    x = mixed_rows(rng, 40, d)
    acc = impl(d, 1.0, bits)
    q = []
    for row in x:
        exact = [Fraction(v) for v in row]
        norm = math.sqrt(sum(v * v for v in exact))
        factor = Fraction(acc.scale) / Fraction(max(1.0, norm))
        scaled = [v * factor for v in exact]
        # Leave out rows so near a tie that a relative error of 2^-45 decides it.
        if all(abs(abs(s - math.floor(s)) - Fraction(1, 2)) > abs(s) / 2**45 for s in scaled):
            q.append([round(s) for s in scaled])
            assert acc.update(row[None, :]) == -1
    assert acc.n_rows == len(q) > 12  # at d = 1 every clipped row is near a tie
    q = np.array(q, dtype=object)
    assert_array_equal(integers(acc), q.T @ q)


def test_scale_is_just_under_two_to_the_bits(impl):
    for d, bound, bits in [(1, 1.0, 20), (22, 7.4, 20), (900, 1e-3, 24), (100, 1e9, 8)]:
        scale = impl(d, bound, bits).scale
        assert scale * bound == pytest.approx(2**bits - math.sqrt(d) / 2, rel=1e-12)
        assert scale * bound < 2**bits - math.sqrt(d) / 2


TYPES = ("f8", "f4", "i8", "i4")
AWKWARD = np.array([-np.inf, np.inf, 1e308, -1e308, 0.0, -0.0, 5e-324, 1.5, 2**60])


def far_rows(x):
    return np.tile(x, 20)[:, : x.shape[1]]


def apart(columns):
    """Columns each where it lies, at any distance from a cache line; poison on both sides."""
    rooms = []
    for j, column in enumerate(columns):
        room = np.full(len(column) + 9, -1 if column.dtype.kind == "i" else np.nan, column.dtype)
        rooms.append(room[j % 9 : j % 9 + len(column)])
        rooms[-1][:] = column
        rooms[-1].flags.writeable = False
    return rooms


def raw_columns(rng, n, d, types):
    """Columns in own units, partly out of bounds and awkward, and how they are scaled."""
    columns = []
    for j in range(d):
        column = rng.uniform(-130, 130, n)
        if types[j % len(types)][0] == "f":
            strange = rng.random(n) < 0.1
            column[strange] = rng.choice(AWKWARD, strange.sum())
        with np.errstate(over="ignore"):
            columns.append(column.astype(types[j % len(types)]))
    center, limit = rng.uniform(-50, 50, d), rng.choice([0.25, 1.0, 3.0], d)
    return columns, (center, limit / rng.uniform(50, 100, d), limit)


def scaled_by_hand(columns, scaling):
    """Python's floats, an operation at a time; a column that is not there is at its limit."""
    x = np.empty((len(columns[0]), len(scaling[0])))
    for j, (c, i, m) in enumerate(zip(*(part.tolist() for part in scaling), strict=True)):
        if j == len(columns):
            x[:, j] = m
        else:
            x[:, j] = [min(max((float(v) - c) * i, -m), m) for v in columns[j].tolist()]
    return x


class Design:
    """A block as a table may hold it, what is asked of it, and the plain rows it stands for."""

    def __init__(self, rng, d):
        few = [0, 1, 2, 9, 53, 75, 133, 205, 301, *([1003] if d <= 12 else [])]
        n, self.scaling, self.bits = int(rng.choice(few)), None, int(rng.choice([8, 20, 24]))
        self.drop = bool(rng.random() < 0.5)
        types = [*rng.choice(TYPES, 1)] if rng.random() < 0.7 else TYPES
        if rng.random() < 0.5:
            columns, self.scaling = raw_columns(rng, n, d, types)
            columns = columns[: max(1, d - int(rng.random() < 0.3))]
            center, inverse, limit = self.scaling
            far = rng.choice([1.0, 1.0, 1e-300, 1e160])  # rows of the slow path are scaled as well
            self.scaling = center, inverse * far, limit * far
            largest = np.linalg.norm(limit) * far
            self.bound = largest * rng.choice([0.5, 1 - 1e-13, 1.0, 2.0])
        elif types[0][0] == "i":
            columns = list(rng.integers(-(2**62), 2**62, (d, n)).astype(types[0]))
            self.bound = float(np.abs(columns).max(initial=1))
        else:
            self.bound = rng.choice([1.0, 1.0, 1e-300, 1e120, 1e300])
            x = mixed_rows(rng, n, d)
            slow = rng.random(n) < 0.1
            x[slow] *= rng.choice([1e300, 1e-310, 0.0], (slow.sum(), 1))
            with np.errstate(over="ignore", under="ignore"):
                columns = list(np.clip(x, *(3e38 * np.array([-1, 1]))).astype(types[0]).T)
        floats = [column for column in columns if column.dtype.kind == "f"]
        for value in (np.nan, np.nan, np.inf):
            for row in rng.integers(0, max(n, 1), rng.integers(0, 4)):
                if floats and n and rng.random() < 0.5:
                    floats[rng.integers(len(floats))][row] = value
        self.block = apart(columns)
        if len({column.dtype for column in columns}) == 1 and rng.random() < 0.8:
            layout = [*LAYOUTS.values(), far_rows][rng.integers(len(LAYOUTS) + 1)]
            self.block = layout(np.stack(columns, axis=1))
        elif len(columns) == d > 1 and self.scaling is None and rng.random() < 0.3:
            self.block[-1], columns[-1] = self.block[0], columns[0]
        scaled = self.scaling is not None
        self.rows = scaled_by_hand(columns, self.scaling) if scaled else np.stack(columns, axis=1)


@pytest.mark.parametrize("d", SIZES)
def test_kernels_equal_the_reference(d):
    """Of every type and layout, scaled on the way or not, with rows left out, named or awkward."""
    rng = np.random.default_rng(d)
    for _ in range(3 if d > 200 else 24):
        design = Design(rng, d)
        expected = reference.RowAccumulator(d, design.bound, design.bits)
        bad = expected.update(design.rows, design.drop)
        for kernel in each_kernel():
            found = kernel(d, design.bound, design.bits)
            assert found.update(design.block, design.drop, design.scaling) == bad
            if bad == -1:
                assert_bits(found, expected)
                counts = (found.n_rows, found.n_dropped, found.scale)
                assert counts == (expected.n_rows, expected.n_dropped, expected.scale)


def test_columns_that_cannot_be_read_in_place(impl):
    good = np.zeros(8)
    for bad in (
        np.zeros(8, np.int16),
        np.zeros(8, np.uint64),
        np.zeros(8, ">f8"),
        np.zeros((8, 1)),
        np.zeros(16)[::2],
        np.frombuffer(bytes(65), np.float64, 8, 1),
        [0.0] * 8,
    ):
        with pytest.raises(TypeError, match="block must be columns"):
            impl(2, 1.0).update([good, bad])
    refuses(lambda: impl(2, 1.0).update([good, np.zeros(9)]), ValueError, "equal length")
    refuses(lambda: impl(2, 1.0).update([good]), ValueError, r"\(n, 2\)")


def test_strange_strides(kernel):
    """Broadcast and overlapping views are read in place."""
    row = np.array([[0.3, -0.2, 0.5]])
    repeated = np.broadcast_to(row, (1000, 3))
    assert_array_equal(integers(gram(repeated, kernel)), 1000 * integers(gram(row, kernel)))
    windows = np.lib.stride_tricks.sliding_window_view(np.linspace(0, 0.2, 200), 7)
    assert_bits(gram(windows, kernel), gram(windows.copy(), kernel))


def test_no_row_is_clipped_at_the_largest_norm():
    """sqrt(d) squared may be less than d: the shortcut is taken where it changes nothing."""
    for d in range(1, 130):
        x = np.ones((9, d))
        scaling = np.zeros(d), np.ones(d), np.ones(d)
        for bound in (d**0.5, np.nextafter(d**0.5, 0), np.nextafter(d**0.5, 99)):
            [q] = reference.RowAccumulator(d, bound).quantise(x[:1])
            expected = 9 * np.outer(q, q)  # below 2^64
            for kernel in each_kernel():
                acc = kernel(d, bound)
                assert acc.update(x, False, scaling) == -1
                assert_array_equal(acc.int128()[1].astype(np.int64), expected)


def test_scaling_has_a_place_for_every_column(impl):
    two = (np.zeros(2), np.ones(2), np.ones(2))
    refuses(lambda: impl(3, 1.0).update(np.zeros((1, 3)), False, two), ValueError, r"shape \(3,\)")
    for block in (np.zeros((1, 1)), np.zeros((1, 4)), [np.zeros(1)]):
        with pytest.raises(ValueError, match=r"\(n, 3\)"):
            impl(3, 1.0).update(block, False, tuple(np.ones((3, 3))))


@settings(max_examples=60)
@given(
    data=st.data(),
    d=st.integers(1, 30),
    n=st.integers(0, 400),
    bits=st.sampled_from([8, 20, 24]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_partition_order_and_merge_tree(data, d, n, bits, seed):
    rng = np.random.default_rng(seed)
    x = mixed_rows(rng, n, d)
    expected = gram(x, bits=bits)

    x = x[rng.permutation(n)]
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=6)))
    parts = []
    for start, stop in zip([0, *cuts], [*cuts, n], strict=True):
        rows.select(data.draw(st.sampled_from((*KERNELS, *rows.emulated()))))
        parts.append(
            gram(np.asarray(x[start:stop], order=data.draw(st.sampled_from("CF"))), bits=bits)
        )
    rows.select(KERNELS[0])
    while len(parts) > 1:
        other = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        parts[data.draw(st.integers(0, len(parts) - 1))].merge(other)
    assert parts[0].n_rows == n
    assert_bits(parts[0], expected)


@pytest.mark.parametrize("n", [2**14 - 1, 2**14, 2**14 + 1, 100_003])
def test_sums_beyond_64_bits(kernel, n):
    """At 24 bits an int64 holds 2^14 rows and 2^64 is passed after 2^16."""
    row = np.array([[1.0, 0.0], [0.0, -1.0], [0.6, -0.8]])[:, :]
    one = integers(gram(row[2:], kernel, bits=24))
    acc = gram(np.repeat(row[2:], n, axis=0), kernel, bits=24)
    assert_array_equal(integers(acc), n * one)
    acc.merge(acc)
    assert_array_equal(integers(acc), 2 * n * one)
    acc.reset()
    assert acc.n_rows == 0
    assert not integers(acc).any()
    assert acc.update(row[:2]) == -1
    largest = round(acc.scale)
    assert_array_equal(integers(acc), largest**2 * np.eye(2, dtype=int))


def test_many_small_updates_and_merges(kernel, rng):
    """Pending int64 sums never overflow, whatever the pattern of updates and merges."""
    row = np.array([[0.6, -0.8]])
    one = integers(gram(row, kernel, bits=24))
    total, n = kernel(2, 1.0, 24), 0
    for size in rng.integers(1, 12_000, 40):
        part = gram(np.repeat(row, size, axis=0), kernel, bits=24)
        total.merge(part)
        assert total.update(np.repeat(row, 5, axis=0)) == -1
        n += int(size) + 5
    assert n > 2**16
    assert_array_equal(integers(total), n * one)


def test_limbs_round_trip(impl, rng):
    x = mixed_rows(rng, 100, 11)
    acc = gram(x, impl, bits=24)
    hi, lo = acc.int128()
    assert hi.dtype == np.int64
    assert lo.dtype == np.uint64
    assert_array_equal(integers(acc), integers(acc).T)
    at = np.tril_indices(11)
    assert_bits(acc.totals(), (hi[at], lo[at]))
    back = impl.from_totals(11, 1.0, 24, hi[at] * 1000 - 5, lo[at], 7, 3)
    assert_bits(back, (hi * 1000 - 5, lo))
    assert (back.n_rows, back.n_dropped) == (7, 3)
    back.merge(acc)
    assert_array_equal(integers(back), integers(acc) + (hi * 1000 - 5).astype(object) * 2**64 + lo)
    assert (back.n_rows, back.n_dropped) == (107, 3)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 20, 24])
def test_norm_never_exceeds_two_to_the_bits(rng, bits):
    """Rows at the boundary, of every scale, searched by hill climbing on sum q^2."""
    limit, best = 4**bits, 0
    for number, d in enumerate((1, 2, 3, 8, 22, 100, 300)):
        for bound in ((1.0, 3e7), (7.4, 1e-3))[number % 2]:
            candidates = [
                np.full(d, bound / math.sqrt(d)),
                bound * np.eye(d)[0],
                np.where(np.arange(d) % 2, 1e-8, bound),
                np.full(d, 1e200),
                *(mixed_rows(rng, 4, d) * bound),
            ]
            for row in candidates:
                found = row_norm_sq(rows.RowAccumulator, row, bound, bits)
                for _ in range(4):
                    nearby = row * (1 + rng.normal(0, rng.choice([1e-15, 1e-7, 0.1]), d))
                    moved = row_norm_sq(rows.RowAccumulator, nearby, bound, bits)
                    if moved >= found:
                        row, found = nearby, moved
                best = max(best, found)
                assert found <= limit
                for kernel in each_kernel():
                    assert row_norm_sq(kernel, row, bound, bits) == found
    assert best > limit * (1 - 1e-9 - 2.0**-bits)  # the bound is attained, so the test could fail


def test_rounding_up_everywhere_stays_inside(impl):
    """The worst case of the proof: every entry of a clipped row rounds up by nearly a half."""
    for bits in (8, 12, 20):
        for d in (2, 9, 64, 400):
            acc = impl(d, 1.0, bits)
            # m + 1/2 - tiny in every entry, as large as the target norm allows.
            m = math.floor(acc.scale / math.sqrt(d) - 0.5)
            for entry in ((m + 0.4999999) / acc.scale, (m + 0.5000001) / acc.scale, 1.0):
                row = np.full(d, entry)
                assert row_norm_sq(impl, row, 1.0, bits) <= 4**bits


@pytest.mark.parametrize("bound", [5e-302, 1e-300, 1e-130, 1e-3, 1.0, 1e130, 1e300, 1.7e308])
def test_extreme_rows_and_bounds(impl, extreme_rows, bound):
    """Overflowing, vanishing and subnormal rows are clipped to the bound, or kept."""
    for row in extreme_rows:
        scale = impl(4, bound).scale
        exact = [Fraction(v) for v in row]
        norm_sq = sum(v * v for v in exact)
        factor = Fraction(scale)
        if norm_sq > Fraction(bound) ** 2:
            # isqrt of a scaled integer: the norm to 200 bits.
            norm = Fraction(math.isqrt(math.floor(norm_sq * 4**1400)), 2**1400)
            factor *= Fraction(bound) / norm
        q = [round(v * factor) for v in exact]
        expected = np.array([[a * b for b in q] for a in q], dtype=object)
        assert_array_equal(integers(gram(row[None, :], impl, bound)), expected)


def test_position_counts_from_the_start_of_copied_blocks(impl):
    x = np.zeros((2 * 5000, 2 * 22))[::2, ::2]
    x[4321, 3] = np.inf
    assert impl(22, 1.0).update(x) == 4321


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 1.0), "n_columns"),
        ((3, 0.0), "bound"),
        ((3, -1.0), "bound"),
        ((3, np.inf), "bound"),
        ((3, np.nan), "bound"),
        ((3, 1e-303), "too small"),
        ((3, 1.0, 7), "bits"),
        ((3, 1.0, 25), "bits"),
        ((70_000, 1.0, 8), "too many"),
    ],
)
def test_bad_parameters(impl, arguments, words):
    refuses(lambda: impl(*arguments), ValueError, words)


@pytest.mark.parametrize("block", [np.zeros((2, 4)), np.zeros(3), np.zeros((1, 2, 3))])
def test_bad_shape(impl, block):
    refuses(lambda: impl(3, 1.0).update(block), ValueError, r"\(n, 3\)")


@pytest.mark.parametrize(
    "block",
    [
        [[1.0, 2.0, 3.0]],
        np.zeros((2, 3), np.int16),
        np.zeros((2, 3), np.uint64),
        np.zeros((2, 3), np.float16),
        np.zeros((2, 3), np.dtype("f8").newbyteorder("S")),
        np.zeros((2, 3), np.complex128),
        np.zeros((2, 3), object),
    ],
)
def test_bad_type(impl, block):
    refuses(lambda: impl(3, 1.0).update(block), TypeError, "block must be")


def test_merge_needs_the_same_problem(impl):
    for other in (impl(4, 1.0), impl(3, 2.0), impl(3, 1.0, 21)):
        with pytest.raises(ValueError, match="cannot merge"):
            impl(3, 1.0).merge(other)


def test_sums_that_others_made_are_added(impl, rng):
    """Sums over rows that were quantised elsewhere count as these rows do, past int64 too."""
    most = 2 ** (62 - 2 * 20)
    sums = rng.integers(-(2**62), 2**62, (11, 11))
    sums = np.tril(sums) + np.tril(sums, -1).T
    lower = sums[np.tril_indices(11)]
    acc = impl(11, 1.0)
    for _ in range(5):
        others = lower >> 63, lower.view(np.uint64)
        acc.merge(impl.from_totals(11, 1.0, 20, *others, most, 0))
    assert acc.n_rows == 5 * most
    assert (integers(acc) == 5 * sums.astype(object)).all()
    x = rng.standard_normal((3, 11))
    acc.update(x)
    assert (integers(acc) == 5 * sums.astype(object) + integers(gram(x))).all()


def test_from_totals_needs_a_triangle(impl):
    hi, lo = impl(3, 1.0).totals()
    refuses(lambda: impl.from_totals(4, 1.0, 20, hi, lo, 0, 0), ValueError, "totals")


def test_unknown_kernel():
    refuses(lambda: rows.select("mmx"), ValueError, "available")
