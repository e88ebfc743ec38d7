"""Factors by codes: the table of dummies made by hand, bit for bit, in every implementation."""

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from support.helpers import LAYOUTS as SHAPES
from support.helpers import assert_bits, refuses
from support.layouts import LAYOUTS, Case

from privgram._core import rows

KERNELS = (*rows.available(), *rows.emulated())
CODE_TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


def held(rng, codes, levels):
    """What codes mean, some of them nothing, and how a table may hold them."""
    kinds = [kind for kind in CODE_TYPES if np.iinfo(kind).max >= max(levels + 2, 100)]
    info = np.iinfo(rng.choice(kinds))
    strange = rng.random(len(codes)) < rng.choice([0.0, 0.02])
    if rng.random() < 0.5:
        order = rng.permutation(levels + 2)  # among indices that mean nothing: of no level, or none
        lut = np.full(levels + 2, -1, np.int32)
        lut[order[: levels + 1]] = np.arange(levels + 1)
        nothing = [*order[levels:], levels + 2, 100 if levels < 98 else levels + 2]
        given = np.where(strange, rng.choice(nothing, len(codes)), order[codes])
        return np.where(strange, -1, codes), (given.astype(info.dtype), lut)
    nothing = [c for c in (levels, levels + 1, info.max, info.min, -1)
               if not 0 <= c < levels and info.min <= c <= info.max]  # fmt: skip
    given = codes.astype(info.dtype)
    for row in np.flatnonzero(strange):
        given[row] = nothing[rng.integers(len(nothing))]
    return given, (given, None)


def typed(rng, column, kind):
    """A column of a type, with values missing where it can have them."""
    with np.errstate(invalid="ignore"):
        column = (np.nan_to_num(column, posinf=9) if kind[0] == "i" else column).astype(kind)
    if kind[0] == "f":
        column[rng.random(len(column)) < rng.choice([0.0, 0.01])] = np.nan
    return column


@pytest.mark.parametrize("name", LAYOUTS)
def test_equals_the_table_of_dummies(name):
    """Of any number of rows, types and layout; rows that miss something are named or left out."""
    rng = np.random.default_rng(len(name))
    for _ in range(6 if name == "wide" else 24):
        n = int(rng.choice([0, 1, 7, 8, 63, 64, 65, 133, 200]))
        case = Case(rng, n, *LAYOUTS[name], weights=bool(rng.random() < 0.7))
        near = case.norm * rng.choice([0.5, 1 - 1e-9, 1, 1 + 1e-12, 2])
        bound = rng.choice([near, case.norm, np.nextafter(case.norm, 0)])
        found = [held(rng, *of) for of in zip(case.codes, case.factors, strict=True)]
        case.codes, codes = [list(part) for part in zip(*found, strict=True)] if found else ([], [])
        kinds = rng.choice(["f8", "f4", "i4", "i8"], rng.choice([1, 9]))
        each = itertools.cycle(kinds.tolist())
        case.dense = [typed(rng, column, next(each)) for column in case.dense]
        case.values = [typed(rng, column, next(each)) for column in case.values]
        if len(case.dense) > 1 and rng.random() < 0.2:
            case.dense.pop()  # a constant
        block = case.dense
        if len(kinds) == 1 and len(block) == len(case.positions) and block:
            block = [*SHAPES.values()][rng.integers(len(SHAPES))](np.stack(block, axis=1))
        drop = bool(rng.random() < 0.5)
        plain = rows.RowAccumulator(case.d, bound)
        bad = plain.update(case.dummies(), drop)
        for kernel in rows.available():
            rows.select(kernel)
            acc = case.new(rows.TableAccumulator, bound)
            assert acc.update(block, codes, case.values, drop, case.scaling) == bad
            if bad == -1:
                assert_bits(acc, plain)
                assert (acc.n_rows, acc.n_dropped) == (plain.n_rows, plain.n_dropped)
                assert (acc.scale, acc.n_columns) == (plain.scale, case.d)
        rows.select(KERNELS[0])


@settings(max_examples=40)
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


@pytest.mark.parametrize("shape", [(), (4,), (4, 1), (4, 0, 1)])
def test_rows_of_levels_alone_take_no_array_of_another_shape(shape):
    """The width of what is no table is below that of none, also by one."""
    total = rows.Accumulator([], [3], [(0, 0, -1, 0.5)], 1.0)
    codes, scaling = [(np.zeros(4, int), None)], 3 * [np.zeros(0)]
    with pytest.raises(ValueError, match=r"must have shape \(n, 0\)"):
        total.update(np.zeros(shape), False, scaling, codes)
    for nothing in ([], np.zeros((4, 0))):
        assert total.update(nothing, False, scaling, codes) == -1


@pytest.mark.parametrize("lie", [lambda c: np.repeat(c, 2)[::2], lambda c: c.astype(">i2")])
def test_codes_are_read_however_they_lie(lie):
    plain, other = (rows.Accumulator([0], [3], [(0, 1, -1, 0.5)], 1.0) for _ in range(2))
    x, codes, scaling = np.linspace(-1, 1, 4), np.array([2, 0, 1, 2]), 3 * [np.ones(1)]
    for total, indices in ((plain, codes), (other, lie(codes))):
        assert total.update([x], False, scaling, [(indices, None)]) == -1
    for one, another in zip(plain.totals(), other.totals(), strict=True):
        np.testing.assert_array_equal(one, another)
