"""Sums by group: those of each group's rows alone, bit for bit, in every implementation."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support.helpers import assert_bits, refuses
from support.layouts import LAYOUTS, Case

from privgram._core import rows

GROUPS = 5


def feed(acc, case, group, part=slice(None), drop=False, leave_out=False):
    codes = [(c[part], None) for c in case.codes]
    dense, values = ([x[part] for x in columns] for columns in (case.dense, case.values))
    return acc.update(
        dense,
        codes,
        values,
        drop,
        case.scaling,
        None if group is None else (group[part], None),
        leave_out,
    )


def alone(case, bound, group, number, drop=False):
    """The rows of one group in an accumulator without groups."""
    acc = rows.TableAccumulator(case.positions, case.factors, case.blocks, bound)
    assert feed(acc, case, None, group == number, drop) == -1
    return acc


def slot_of(group, other):
    return np.where((group < 0) | (group >= GROUPS), GROUPS if other else -1, group)


@pytest.mark.parametrize("share", [0.5, 1])
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("other", [False, True])
def test_each_group_is_a_table_of_its_own(coded, rng, name, share, other):
    case = Case(rng, 203, *LAYOUTS[name])
    bound = case.norm * share
    group = rng.integers(-1, GROUPS + 2, case.n)
    acc = coded(case.positions, case.factors, case.blocks, bound, 20, GROUPS, other)
    assert feed(acc, case, group, leave_out=not other) == -1
    hi, lo = acc.int128()
    slot = slot_of(group, other)
    for number in range(GROUPS + other):
        part = alone(case, bound, slot, number)
        assert_bits((hi[number], lo[number]), part)
        assert acc.counts()[:, number].tolist() == [part.n_rows, 0]
    assert acc.counts()[:, -1].tolist() == [0, (slot < 0).sum()]
    assert acc.n_rows + acc.n_dropped == case.n


@pytest.mark.parametrize("d", [1, 3, 4, 5, 7, 8, 9, 10, 12, 16, 17, 25])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_every_width(coded, rng, d, scaled, layout):
    x = rng.standard_normal((150, d))
    group = rng.integers(0, 3, len(x)).astype("i2")
    scaling = (np.zeros(d), np.full(d, 0.5), np.ones(d)) if scaled else None
    acc = coded(range(d), (), (), 1.5, 20, 3)
    block = x if layout == "rows" else [np.ascontiguousarray(column) for column in x.T]
    assert acc.update(block, [], [], False, scaling, (group, None)) == -1
    hi, lo = acc.int128()
    for number in range(3):
        part = rows.RowAccumulator(d, 1.5)
        assert part.update(x[group == number], False, scaling) == -1
        assert_bits((hi[number], lo[number]), part)


def test_sums_stay_exact(coded, rng):
    """More rows of one group than a sum of doubles has bits for, at the bound."""
    x = np.zeros((100, 2))
    x[:, 0] = 1.0
    acc = coded(range(2), (), (), 1.0, 24, 2)
    group = np.ones(len(x), np.int64)
    assert acc.update(x, [], [], False, None, (group, None)) == -1
    part = rows.RowAccumulator(2, 1.0, 24)
    part.update(x)
    hi, lo = acc.int128()
    assert_bits((hi[1], lo[1]), part)
    assert not lo[0].any()


def test_orders_and_cuttings(coded, rng):
    case = Case(rng, 300, *LAYOUTS["interactions"])
    group = rng.integers(0, GROUPS, case.n)
    layout = case.positions, case.factors, case.blocks, case.norm, 20, GROUPS
    whole, cut, other = coded(*layout), coded(*layout), coded(*layout)
    assert feed(whole, case, group) == -1
    order = rng.permutation(case.n)
    for part in np.array_split(order[:200], 7):
        assert feed(cut, case, group, part) == -1
    assert feed(other, case, group, order[200:]) == -1
    cut.merge(other)
    assert_bits(cut.totals(), whole.totals())
    assert_array_equal(cut.counts(), whole.counts())
    again = coded.from_groups(*layout, False, *whole.totals(), whole.counts())
    assert_bits(again, whole)
    again.merge(cut)
    assert (again.n_rows, again.n_dropped) == (600, 0)
    again.reset()
    assert not np.any(again.totals())
    assert not again.counts().any()


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("leave_out", [False, True])
def test_which_row_is_reported(coded, rng, drop, leave_out):
    """A missing value counts against a row only if the row is of a group."""
    case = Case(rng, 130, *LAYOUTS["three factors"])
    group = rng.integers(0, GROUPS, case.n)
    group[[70, 90]] = 99
    case.dense[0][[70, 100]] = np.nan
    case.codes[1][110] = 99
    acc = coded(case.positions, case.factors, case.blocks, case.norm, 20, GROUPS)
    bad = feed(acc, case, group, drop=drop, leave_out=leave_out)
    assert (
        bad
        == {(False, False): 70, (False, True): 100, (True, False): 70, (True, True): -1}[
            drop, leave_out
        ]
    )
    if bad == -1:
        assert acc.counts()[1, -1] == 2
        assert acc.counts()[1, :-1].sum() == 2


def test_arguments(coded):
    refuses(lambda: coded((0,), (), (), 1.0, 20, -1), ValueError, "groups must be at least 1")
    with pytest.raises(ValueError, match="too many groups"):
        coded((0,), (9,), ((0, 1, -1, 1.0),), 4.0, 20, 2**30)
    acc = coded((0,), (), (), 1.0, 20, 3)
    x = np.ones((2, 1))
    refuses(lambda: acc.update(x, [], [], False, None), ValueError, "where there are groups")
    refuses(lambda: acc.merge(coded((0,), (), (), 1.0, 20, 2)), ValueError, "different layout")
    with pytest.raises(ValueError, match="shape"):
        coded.from_groups(
            (0,), (), (), 1.0, 20, 3, False, np.zeros((2, 1)), np.zeros((2, 1)), np.zeros((2, 4))
        )
    assert rows.TableAccumulator((0,), (), (), 1.0).counts().shape == (2, 0)
