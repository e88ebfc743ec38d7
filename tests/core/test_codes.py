"""Factors by codes: the table of dummies made by hand, bit for bit, in every implementation."""

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from support.helpers import assert_bits, refuses
from support.layouts import LAYOUTS, Case

from privgram._core import rows

KERNELS = (*rows.available(), *rows.emulated())
CODE_TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


@pytest.mark.parametrize("share", [0.5, 1 - 1e-9, 1, 1 + 1e-12, 2])
@pytest.mark.parametrize("name", LAYOUTS)
def test_equals_the_table_of_dummies(coded, rng, name, share):
    case = Case(rng, 133, *LAYOUTS[name])
    bound = case.norm * share
    acc = case.new(coded, bound)
    assert case.feed(acc) == -1
    case.check(acc, bound)


@pytest.mark.parametrize("name", LAYOUTS)
def test_no_row_is_clipped_at_the_square_root(coded, rng, name):
    """Weights of one: the bound is the root of a whole number, rounded either way."""
    case = Case(rng, 70, *LAYOUTS[name], weights=False)
    for bound in (case.norm, np.nextafter(case.norm, 0)):
        acc = case.new(coded, bound)
        assert case.feed(acc) == -1
        case.check(acc, bound)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 63, 64, 65, 300])
def test_every_number_of_rows(coded, rng, n):
    case = Case(rng, n, 5, (3, 4), [(0, -1), (1, -1), (1, 0)])
    acc = case.new(coded, case.norm)
    assert case.feed(acc) == -1
    case.check(acc, case.norm)


@pytest.mark.parametrize("dtype", CODE_TYPES)
@pytest.mark.parametrize("looked_up", [False, True])
def test_code_types(coded, rng, dtype, looked_up):
    case = Case(rng, 99, 2, (5, 3), [(0, -1), (1, -1)])
    case.codes = [c.astype(dtype) for c in case.codes]
    codes = None
    if looked_up:
        codes = []
        for c, levels in zip(case.codes, case.factors, strict=True):
            order = rng.permutation(levels + 2)  # among indices that are not used
            lut = np.full(levels + 2, -1, np.int32)
            lut[order[:levels]] = np.arange(levels)
            codes.append((order[c].astype(dtype), lut))
    acc = case.new(coded, case.norm)
    assert case.feed(acc, codes=codes) == -1
    case.check(acc, case.norm)


def strange_codes(dtype, levels):
    info = np.iinfo(dtype)
    return [
        c
        for c in (levels, levels + 1, info.max, info.min, -1)
        if not 0 <= c < levels and info.min <= c <= info.max
    ]


@pytest.mark.parametrize("share", [0.5, 1 + 1e-12])
@pytest.mark.parametrize("dtype", CODE_TYPES)
def test_missing_codes(coded, rng, dtype, share):
    """Codes out of range, indices out of the table, and NaN: the first is named, or all drop."""
    clean = Case(rng, 200, 3, (5, 3), [(0, -1), (1, -1), (0, 0)])
    clean.codes = [c.astype(dtype) for c in clean.codes]
    bound = clean.norm * share
    for strange in strange_codes(dtype, 5):
        clean.codes[0][150] = strange
        assert clean.feed(clean.new(coded, bound)) == 150
        case = clean
        for r in (149, 150, 199, 0, 64):
            case.codes[0][r] = strange
        case.dense[1][[0, 7, 190]] = np.nan
        case.values[0][[65, 190]] = np.nan
        acc = case.new(coded, bound)
        assert case.feed(acc, drop=True) == -1
        assert acc.n_dropped == 8
        case.check(acc, bound, drop=True)
        case.dense[1][[0, 7, 190]] = 0.5
        case.values[0][[65, 190]] = 0.5
        case.codes[0][:] = 1

    lut = np.array([0, -1, 2, 7], np.int32)  # 1 is nothing, 3 is beyond the levels
    for index, bad in [(0, False), (1, True), (2, False), (3, True), (4, True), (100, True)]:
        codes = [(np.full(200, index, dtype), lut), (clean.codes[1], None)]
        assert clean.feed(clean.new(coded, bound), codes=codes) == (0 if bad else -1)


@pytest.mark.parametrize("name", ["interactions", "three factors"])
@pytest.mark.parametrize("first", ["code", "dense", "value"])
def test_first_bad_row(coded, rng, name, first):
    case = Case(rng, 150, *LAYOUTS[name])
    places = {"code": case.codes[0], "dense": case.dense[0]}
    if case.values:
        places["value"] = case.values[0]
    elif first == "value":
        return
    for row, at in enumerate(places):
        places[at][140 - row] = -1 if at == "code" else np.nan
    places[first][99] = -1 if first == "code" else np.nan
    assert case.feed(case.new(coded, case.norm)) == 99


def test_layouts_of_the_dense_columns(coded, rng, layout):
    case = Case(rng, 77, 6, (3,), [(0, -1)])
    for dtype in ("f8", "f4", "i4", "i8"):
        with np.errstate(invalid="ignore"):
            case.dense = [np.nan_to_num(c, posinf=9).astype(dtype) for c in case.dense]
        block = layout(np.stack(case.dense, axis=1))
        acc = case.new(coded, case.norm)
        assert acc.update(block, [(case.codes[0], None)], [], False, case.scaling) == -1
        case.check(acc, case.norm)


def test_columns_of_every_type_and_a_constant(coded, rng):
    case = Case(rng, 77, 6, (3,), [(0, -1), (0, 0)])
    types = ("f8", "f4", "i8", "i4", "f8")
    five = zip(case.dense[:5], types, strict=True)
    case.dense = [np.nan_to_num(c, posinf=9).astype(dtype) for c, dtype in five]
    for dtype in types:
        case.values = [np.nan_to_num(case.values[0], posinf=9).astype(dtype)]
        acc = case.new(coded, case.norm)
        assert case.feed(acc) == -1
        case.check(acc, case.norm)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(sorted(LAYOUTS)), st.integers(0, 2**32 - 1))
def test_any_partition_and_merge_tree(data, name, seed):
    """Across instruction sets, and with rows that are never clipped beside rows that may be."""
    rng = np.random.default_rng(seed)
    n = data.draw(st.integers(0, 300))
    case = Case(rng, n, *LAYOUTS[name])
    bound = case.norm * data.draw(st.sampled_from([0.7, 1 + 1e-12]))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=5)))
    parts = []
    for start, stop in zip([0, *cuts], [*cuts, n], strict=True):
        rows.select(data.draw(st.sampled_from(KERNELS)))
        parts.append(case.new(rows.TableAccumulator, bound))
        assert case.feed(parts[-1], slice(start, stop)) == -1
        if data.draw(st.booleans()):
            state = *parts[-1].totals(), parts[-1].n_rows, parts[-1].n_dropped
            parts[-1] = rows.TableAccumulator.from_totals(
                case.positions, case.factors, case.blocks, bound, 20, *state
            )
    rows.select(KERNELS[0])
    while len(parts) > 1:
        other = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        parts[data.draw(st.integers(0, len(parts) - 1))].merge(other)
    case.check(parts[0], bound)


def test_scaling_may_change_between_blocks(coded, rng):
    """From rows that are never clipped to rows that may be, and back."""
    case = Case(rng, 64, 3, (3, 2), [(0, -1), (1, 0)], weights=False)
    acc, total = case.new(coded, 2.0), 0
    for limit in (1.0, 0.1, 3.0, 0.1):
        center, inverse, _ = case.scaling
        case.scaling = center, inverse, np.full(4, limit)
        assert case.feed(acc) == -1
        plain = rows.RowAccumulator(case.d, 2.0)
        assert plain.update(case.dummies()) == -1
        hi, lo = plain.int128()
        total = total + hi.astype(object) * 2**64 + lo.astype(object)
    hi, lo = acc.int128()
    assert_array_equal(hi.astype(object) * 2**64 + lo.astype(object), total)


@pytest.mark.parametrize("bound", [1.0, 0.99])
def test_sums_beyond_64_bits(coded, bound):
    """At 24 bits an int64 holds 2^14 rows of the largest entry and 2^64 is passed after 2^16."""
    n = 2**14 + 1
    acc = coded((), (2, 1), ((0, 0, -1, 1.0), (1, 2, -1, 2.0**-20)), bound, 24)
    scaling = np.zeros(0), np.zeros(0), np.zeros(0)

    def feed(acc, n):
        codes = [(np.ones(n, np.int8), None), (np.zeros(n, np.int8), None)]
        assert acc.update([], codes, [], False, scaling) == -1

    feed(acc, 1)
    hi, lo = acc.int128()
    one = hi.astype(object) * 2**64 + lo.astype(object)
    assert one[1, 1] > 0.999 * 4**24
    acc.reset()
    for _ in range(4):
        feed(acc, n)
    acc.merge(acc)
    hi, lo = acc.int128()
    assert_array_equal(hi.astype(object) * 2**64 + lo.astype(object), 8 * n * one)
    assert acc.n_rows == 8 * n
    acc.reset()
    assert acc.n_rows == 0
    assert not np.any(acc.int128())


def factor_of(terms, positions, acc):
    """Factor of a row with these entries, its squared norm summed as gram_kernel.h says."""
    p = [0.0] * 8
    for position, x in sorted(zip(positions, terms, strict=True)):
        p[position % 8] += x * x
    s = ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
    return acc.scale * acc.bound / math.sqrt(s)


@functools.cache
def rows_next_to_a_tie():
    """Entries and codes that another order of the sum would round to another integer."""
    rng = np.random.default_rng(3)
    acc = rows.RowAccumulator(16, 0.5)
    hard = []
    while len(hard) < 10:
        x, c, e = rng.uniform(0.1, 1, 3).tolist(), *rng.integers(1, 5, 2).tolist()
        at = [0, 1, 10, 2 + c, 11 + e]
        k = math.floor(x[0] * factor_of([*x, 0.7, 0.3], at, acc)) + 0.5
        for _ in range(80):
            x[0] = k / factor_of([*x, 0.7, 0.3], at, acc)
        x[0] -= 8 * math.ulp(x[0])
        for _ in range(16):
            x[0] += math.ulp(x[0])
            factors = [factor_of([*x, 0.7, 0.3], p, acc) for p in (at, [0, 1, 10, 2, 11])]
            if len({round(x[0] * f) for f in factors}) == 2:
                hard.append((*x, c, e))
                break
    return [np.array(column) for column in zip(*hard, strict=True)]


def test_norms_are_summed_as_those_of_dummies(coded):
    *dense, c, e = rows_next_to_a_tie()
    acc = coded((0, 1, 10), (8, 5), ((0, 2, -1, 0.7), (1, 11, -1, 0.3)), 0.5)
    scaling = np.zeros(3), np.ones(3), np.ones(3)
    assert acc.update(dense, [(c, None), (e, None)], [], False, scaling) == -1
    table = np.zeros((len(c), 16))
    table[:, [0, 1, 10]] = np.stack(dense, axis=1)
    table[np.arange(len(c)), 2 + c] = 0.7
    table[np.arange(len(c)), 11 + e] = 0.3
    plain = rows.RowAccumulator(16, 0.5)
    assert plain.update(table) == -1
    assert_bits(acc, plain)


def test_stored_entries(coded, rng):
    """Each entry of the lower triangle at most once, and zeros by structure not at all."""
    case = Case(rng, 400, *LAYOUTS["interactions"])
    acc = case.new(coded, case.norm)
    assert case.feed(acc) == -1
    i, j = acc.stored()
    assert (i >= j).all()
    assert len(set(zip(i.tolist(), j.tolist(), strict=True))) == len(i)
    hi, lo = acc.totals()
    assert (hi.dtype, lo.dtype, hi.shape, lo.shape) == (np.int64, np.uint64, i.shape, i.shape)
    full = acc.int128()
    assert_bits((full[0][i, j], full[1][i, j]), (hi, lo))
    back = coded.from_totals(
        case.positions, case.factors, case.blocks, case.norm, 20, hi, lo, acc.n_rows, 3
    )
    assert_bits(back, full)
    assert (back.n_rows, back.n_dropped) == (400, 3)


def test_memory_of_a_wide_factor():
    """No d x d matrix: 10^4 levels take megabytes."""
    n, levels = 5000, 10_000
    rng = np.random.default_rng(1)
    case = Case(rng, n, 10, (levels, 5), [(0, -1), (1, -1)], gaps=False, weights=False)
    acc = case.new(rows.TableAccumulator, case.norm)
    assert case.feed(acc) == -1
    hi, lo = acc.totals()
    assert len(hi) == 55 + 10 * levels + levels + 50 + 5 * levels + 5
    counts = lo[55 + 10 * levels :][:levels] // np.uint64(round(acc.scale) ** 2)
    assert_array_equal(counts, np.bincount(case.codes[0], minlength=levels))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (((0,), (3,), ((0, 1, -1, 1.0),), 0.0), "bound"),
        (((0,), (3,), ((0, 1, -1, 1.0),), 1e-200), "bound"),
        (((0,), (3,), ((0, 1, -1, 1.0),), 1.0, 25), "bits"),
        (((0,), (0,), ((0, 1, -1, 1.0),), 1.0), "levels"),
        (((0,), (3,), ((0, 2, -1, 1.0),), 1.0), "fill the row"),
        (((0,), (3,), ((0, 0, -1, 1.0),), 1.0), "fill the row"),
        (((0, 2), (3,), ((0, 1, -1, 1.0),), 1.0), "fill the row"),
        (((0,), (3,), ((1, 1, -1, 1.0),), 1.0), "of factors 0 to 0"),
        (((0,), (3,), ((0, 1, -1, 0.0),), 1.0), "positive"),
        (((0,), (3,), ((0, 1, 1, 1.0),), 1.0), "values 0, 1"),
        (((), (), (), 1.0), "at least"),
    ],
)
def test_bad_parameters(coded, arguments, words):
    refuses(lambda: coded(*arguments), ValueError, words)


def test_bad_blocks(coded):
    acc = coded((0,), (3,), ((0, 1, -1, 1.0), (0, 4, 0, 1.0)), 2.0)
    scaling = np.zeros(2), np.ones(2), np.ones(2)
    x, c, v = np.zeros(4), np.zeros(4, np.int32), np.zeros(4)

    def update(dense=None, codes=None, values=None, scaling=scaling):
        return acc.update(
            [x] if dense is None else dense,
            [(c, None)] if codes is None else codes,
            [v] if values is None else values,
            False,
            scaling,
        )

    assert update() == -1
    assert update(dense=[]) == -1  # constant
    for bad in (np.zeros(3, np.int32), np.zeros(5, np.int8)):
        with pytest.raises(ValueError, match="equal length"):
            update(codes=[(bad, None)])
    refuses(lambda: update(values=[np.zeros(3)]), ValueError, "equal length")
    refuses(lambda: update(dense=[np.zeros(3)]), ValueError, "equal length")
    for bad in (np.zeros(4), np.zeros(4, object), [0, 0, 0, 0], np.zeros((4, 1), int)):
        with pytest.raises(TypeError, match="codes must be"):
            update(codes=[(bad, None)])
    refuses(lambda: update(values=[np.zeros(4, np.int8)]), TypeError, "values must be")
    refuses(lambda: update(codes=[]), ValueError, "1 codes and 1 values")
    refuses(lambda: update(scaling=tuple(np.ones((3, 3)))), ValueError, r"shape \(2,\)")
    with pytest.raises(ValueError, match="finite"):
        update(scaling=(np.zeros(2), np.ones(2), np.array([1, np.inf])))
    refuses(lambda: update(dense=[x, x]), ValueError, r"\(n, 1\)")
    for other in itertools.starmap(
        coded,
        [
            ((3,), (3,), ((0, 0, -1, 1.0), (0, 4, 0, 1.0)), 2.0),
            ((0,), (3,), ((0, 1, -1, 1.0), (0, 4, 0, 2.0)), 2.0),
            ((0,), (3,), ((0, 1, -1, 1.0), (0, 4, 0, 1.0)), 3.0),
        ],
    ):
        with pytest.raises(ValueError, match="cannot merge"):
            acc.merge(other)
    with pytest.raises(ValueError, match="totals must have shape"):
        coded.from_totals(
            (0,), (3,), ((0, 1, -1, 1.0),), 1.0, 20, np.zeros(3, int), np.zeros(3, "u8"), 0, 0
        )


@pytest.mark.parametrize("lie", [lambda c: np.repeat(c, 2)[::2], lambda c: c.astype(">i2")])
def test_codes_are_read_however_they_lie(lie):
    plain, other = (rows.Accumulator([0], [3], [(0, 1, -1, 0.5)], 1.0) for _ in range(2))
    x, codes, scaling = np.linspace(-1, 1, 4), np.array([2, 0, 1, 2]), 3 * [np.ones(1)]
    for total, indices in ((plain, codes), (other, lie(codes))):
        assert total.update([x], False, scaling, [(indices, None)]) == -1
    for one, another in zip(plain.totals(), other.totals(), strict=True):
        np.testing.assert_array_equal(one, another)
