"""The matrix of a unit: exact, in its ball, and a function of the unit's rows alone.

Norms are compared as integers, and positive semidefiniteness as exact fractions: a second route
to what the kernel does in integers and doubles.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from oracle import units as reference_units
from support.helpers import refuses

from privgram._core.rows import UnitAccumulator

BOTH = pytest.mark.parametrize("unit_sums", [UnitAccumulator, reference_units.UnitAccumulator])
CLIP = pytest.mark.parametrize("trace", [False, True])


def matrix(total):
    """The integers of an accumulator, as Python's."""
    if isinstance(total, reference_units.UnitAccumulator):
        d = total.n_columns
        return [[total.total[max(i, j)][min(i, j)] for j in range(d)] for i in range(d)]
    hi, lo = total.int128()
    return [
        [int(h) * 2**64 + int(low) for h, low in zip(*pair, strict=True)]
        for pair in zip(hi, lo, strict=True)
    ]


def of_units(units, *args, kind=UnitAccumulator, **kwargs):
    total = kind(units[0].shape[1], *args, **kwargs)
    starts = np.cumsum([0, *map(len, units[:-1])])
    assert total.update(np.concatenate(units), starts) == -1
    return matrix(total)


def square(m):
    """The square of the Frobenius norm."""
    return sum(v * v for row in m for v in row)


def is_semidefinite(m):
    """By elimination in fractions."""
    m = [[Fraction(v) for v in row] for row in m]
    for i in range(len(m)):
        if m[i][i] < 0 or (m[i][i] == 0 and any(m[i])):
            return False
        for j in range(i + 1, len(m)):
            if m[i][i]:
                factor = m[j][i] / m[i][i]
                m[j] = [a - factor * b for a, b in zip(m[j], m[i], strict=True)]
        for j in range(i + 1, len(m)):
            m[i][j] = Fraction(0)
    return True


def minus(a, b):
    return [[x - y for x, y in zip(*pair, strict=True)] for pair in zip(a, b, strict=True)]


@CLIP
@pytest.mark.parametrize("centred", [(), (0, 2)])
@pytest.mark.parametrize("bits", [8, 20, 24])
@pytest.mark.parametrize(
    ("d", "bound", "row_bound"), [(1, 1.0, 1.0), (4, 3.0, 1.0), (4, 1e150, 1e150)]
)
def test_compiled_equals_reference(d, bound, row_bound, bits, trace, centred):
    rng = np.random.default_rng(d)
    centred = [j for j in centred if j < d]
    scales = row_bound * np.array([1e-3, 0.3, 1.0, 3.0, 1e30])
    units = [
        rng.normal(size=(k, d)) * rng.choice(scales, (k, 1)) * rng.integers(0, 2, (k, d))
        for k in (1, 2, 3, 7, 20, 50)
    ]
    args = bound, row_bound, bits, trace, centred
    found = of_units(units, *args)
    assert found == of_units(units, *args, kind=reference_units.UnitAccumulator)
    assert any(map(any, found))


@BOTH
def test_missing_rows_and_bad_ones(unit_sums):
    x = np.array([[1.0, 2.0], [np.nan, 1.0], [3.0, 1.0]])
    starts = np.array([0, 1])
    total = unit_sums(2, 10.0, 10.0)
    assert total.update(x, starts) == 1
    kept = unit_sums(2, 10.0, 10.0)
    assert kept.update(x, starts, True) == -1
    assert kept.n_units == 2
    assert matrix(kept) == of_units([x[:1], x[2:]], 10.0, 10.0)
    assert unit_sums(2, 10.0, 10.0).update(np.array([[np.inf, 0.0]]), np.array([0]), True) == 0
    empty = unit_sums(2, 10.0, 10.0)  # a unit of which every row is missing still counts
    assert empty.update(x[1:2], np.array([0]), True) == -1
    assert empty.n_units == 1
    assert not any(map(any, matrix(empty)))


@pytest.mark.parametrize(
    ("starts", "text"),
    [([1], "begin at 0"), ([0, 0], "increase"), ([0, 3], "increase"), ([], "begin at 0")],
)
def test_starts_are_checked(starts, text):
    with pytest.raises(ValueError, match=text):
        UnitAccumulator(2, 1.0, 1.0).update(np.ones((3, 2)), np.array(starts, np.intp))


def test_unit_of_too_many_rows_is_refused():
    total = UnitAccumulator(1, 1.0, 1.0, 24)
    assert total.most_rows * 4**24 <= 2**62
    x = np.ones((total.most_rows + 1, 1))
    refuses(lambda: total.update(x, np.array([0])), ValueError, "a unit has more than")
    assert total.update(x[1:], np.array([0])) == -1
    assert matrix(total)[0][0] <= 4**24


@pytest.mark.parametrize(
    "args",
    [
        (0, 1.0, 1.0),
        (2, 1.0, 2.0),
        (2, math.inf, 1.0),
        (2, 1.0, 0.0),
        (2, 1.0, 1.0, 25),
        (999, 1.0, 1.0, 8),
    ],
)
def test_parameters_are_checked(args):
    with pytest.raises(ValueError):
        UnitAccumulator(*args)


def hostile_units(d, bound, row_bound, rng):
    """Units at the bound, just below and above it, of one direction, of all, and far beyond."""
    eye = np.eye(d)
    rows_at_bound = [
        np.tile(row_bound * axis, (k, 1))
        for k in (1, 2, 3, 10, 100, 10_000)
        for axis in (eye[:1], eye[-1:])
    ]
    spread = [np.tile(row_bound * eye, (k, 1)) for k in (1, 7, 1000)]
    diagonal = np.ones((1, d)) / math.sqrt(d)
    edge = [
        bound * (1 + step * 2.0**-52) * diagonal * math.sqrt(1 / k) * np.ones((k, 1))
        for k in (1, 2, 5, 9, 333)
        for step in (-64, -8, -1, 0, 1, 8, 64, 2**30)
    ]
    random = [
        rng.normal(size=(k, d)) * row_bound * rng.choice([1e-6, 0.5, 2.0, 1e9], (k, 1))
        for k in (1, 2, 4, 30, 200)
        for _ in range(4)
    ]
    return [*rows_at_bound, *spread, *edge, *random]


@CLIP
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("d", "bits"), [(1, 8), (2, 20), (3, 8), (5, 24)])
def test_no_unit_leaves_its_ball(d, bits, centred, trace):
    bound, row_bound = 3.0, 1.25
    rng = np.random.default_rng(d)
    whole, largest = 4**bits, 0
    args = bound, row_bound, bits, trace, range(d) if centred else ()
    for unit in hostile_units(d, bound, row_bound, rng):
        m = of_units([unit], *args)
        norm = sum(m[i][i] for i in range(d)) if trace else math.isqrt(square(m))
        assert norm <= whole
        assert trace or square(m) <= whole**2
        assert is_semidefinite(m)
        largest = max(largest, norm)
    if not centred:  # the bound is used, not just kept
        assert largest >= whole - 2 - 6 * d * d


@CLIP
def test_no_search_leaves_the_ball(trace):
    """Climb towards the largest contribution from random starts, by small changes of the rows."""
    rng = np.random.default_rng(7)
    whole, best = 4**8, 0
    for _ in range(40):
        k, d = rng.integers(1, 5, 2)
        unit = rng.normal(size=(k, d))
        current = -1
        for _ in range(60):
            moved = unit * (1 + rng.choice([1e-3, 0.1, 1.0]) * rng.normal(size=(k, d)))
            m = of_units([moved], 2.0, 1.5, 8, trace)
            size = sum(m[i][i] for i in range(d)) ** 2 if trace else square(m)
            assert size <= whole**2
            if size > current:
                unit, current = moved, size
        best = max(best, current)
    assert best > (whole - 60) ** 2


@pytest.mark.parametrize("d", [2, 3])
def test_no_pair_of_units_is_farther_apart_than_stated(d):
    """At most sqrt(2) W, for a unit in another's place: exact, over all hostile pairs."""
    bits, rng = 8, np.random.default_rng(0)
    found = [of_units([u], 3.0, 1.25, bits) for u in hostile_units(d, 3.0, 1.25, rng)]
    worst = max(square(minus(a, b)) for a, b in itertools.combinations(found, 2))
    assert (4**bits - 40) ** 2 * 2 <= worst <= 2 * 4 ** (2 * bits)


@CLIP
@pytest.mark.parametrize("centred", [(), (0, 1, 2)])
def test_order_of_rows_and_of_units_does_not_matter(trace, centred):
    rng = np.random.default_rng(3)
    units = [
        rng.normal(size=(k, 3)) * rng.choice([1.0, 1e3], (k, 1)) for k in (1, 2, 9, 300, 10_000)
    ]
    args = 4.0, 2.0, 21, trace, centred
    expected = of_units(units, *args)
    mixed = [rng.permutation(unit) for unit in units[::-1]]
    assert of_units(mixed, *args) == expected
    one, other = (UnitAccumulator(3, *args) for _ in range(2))
    for total, some in ((one, units[:2]), (other, units[2:])):
        total.update(np.concatenate(some), np.cumsum([0, *map(len, some[:-1])]))
    one.merge(other)
    assert matrix(one) == expected
    assert one.n_units == 5


def test_norms_without_adding():
    rng = np.random.default_rng(4)
    units = [rng.normal(size=(k, 3)) for k in (1, 2, 9)]
    x, starts, norms = np.concatenate(units), np.array([0, 1, 3]), np.empty(3)
    total = UnitAccumulator(3, 50.0, 50.0, 24)
    total.update(x, starts, norms=norms)
    expected = [math.sqrt(np.linalg.norm(u.T @ u)) for u in units]
    assert np.allclose(norms, expected, rtol=1e-4)
    assert not any(map(any, matrix(total)))
    refuses(lambda: total.update(x, starts, norms=np.empty(2)), ValueError, "one norm")


def test_merging_others_is_refused():
    with pytest.raises(ValueError, match="cannot merge"):
        UnitAccumulator(2, 1.0, 1.0).merge(UnitAccumulator(2, 1.0, 0.5))


def of_groups(units, codes, *args, kind=UnitAccumulator, groups=3, **kwargs):
    """Matrices of the groups, as Python's integers."""
    total = kind(units[0].shape[1], *args, **kwargs, groups=groups)
    starts = np.cumsum([0, *map(len, units[:-1])])
    given = np.concatenate(codes).astype(np.int32)
    assert total.update(np.concatenate(units), starts, codes=given) == -1
    if kind is not UnitAccumulator:
        d = total.n_columns
        return [
            [[t[max(i, j)][min(i, j)] for j in range(d)] for i in range(d)] for t in total.totals
        ]
    return (np.array(total.int128()[0], object) * 2**64 + total.int128()[1]).tolist()


def grouped(units, rng, groups=3):
    """Codes of the groups of each unit's rows, -1 for none, in their order."""
    return [np.sort(rng.integers(-1, groups, len(unit))) for unit in units]


@pytest.mark.parametrize("centred", [(), (0, 1)])
@pytest.mark.parametrize("bits", [8, 20, 24])
def test_groups_equal_the_reference(bits, centred):
    rng = np.random.default_rng(bits)
    units = [
        rng.normal(size=(k, 3)) * rng.choice([1e-3, 0.3, 1.0, 3.0, 1e30], (k, 1))
        for k in (1, 2, 3, 7, 20, 50)
    ]
    codes, args = grouped(units, rng), (3.0, 1.0, bits, False, centred)
    found = of_groups(units, codes, *args)
    assert found == of_groups(units, codes, *args, kind=reference_units.UnitAccumulator)
    assert all(any(map(any, m)) for m in found)


def test_of_one_group_it_is_the_matrix_without():
    rng = np.random.default_rng(0)
    units = hostile_units(3, 3.0, 1.25, rng)
    codes = [np.full(len(unit), 1) for unit in units]
    first, second, third = of_groups(units, codes, 3.0, 1.25, 20)
    assert second == of_units(units, 3.0, 1.25, 20)
    assert not any(map(any, first + third))


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("d", "bits"), [(1, 8), (2, 20), (3, 8), (5, 24)])
def test_no_unit_leaves_its_ball_over_all_groups(d, bits, centred):
    """Squares of all matrices together, as integers; and pairs of units, for replace."""
    rng = np.random.default_rng(d)
    whole, found = 4**bits, []
    args = 3.0, 1.25, bits, False, range(d) if centred else ()
    for unit in hostile_units(d, 3.0, 1.25, rng):
        for codes in (*grouped([unit] * 2, rng), np.sort(np.arange(len(unit)) % 3)):
            matrices = of_groups([unit], [codes], *args)
            assert sum(map(square, matrices)) <= whole**2
            assert all(map(is_semidefinite, matrices))
            found.append(matrices)
    if not centred:
        assert max(sum(map(square, m)) for m in found) >= (whole - 2 - 9 * 2 * d * d) ** 2
    for a, b in zip(found, found[::-1], strict=True):
        assert sum(square(minus(x, y)) for x, y in zip(a, b, strict=True)) <= 2 * whole**2


@pytest.mark.parametrize("codes", [None, [0, 0], [1, 0, 0], [0, 1, 3], [-2, 0, 1]])
def test_codes_are_checked(codes):
    given = None if codes is None else np.array(codes, np.int32)
    with pytest.raises(ValueError, match="code"):
        UnitAccumulator(2, 1.0, 1.0, groups=3).update(np.ones((3, 2)), np.array([0]), codes=given)
    with pytest.raises(ValueError, match="code"):
        UnitAccumulator(2, 1.0, 1.0).update(
            np.ones((1, 2)), np.array([0]), codes=np.zeros(1, np.int32)
        )
    refuses(lambda: UnitAccumulator(2, 1.0, 1.0, 20, True, groups=3), ValueError, "Frobenius")
    with pytest.raises(ValueError, match="cannot merge"):
        UnitAccumulator(2, 1.0, 1.0, groups=3).merge(UnitAccumulator(2, 1.0, 1.0))


def test_rows_of_no_group_are_not_looked_at():
    x = np.array([[np.nan, np.inf], [1.0, 1.0]])
    total = UnitAccumulator(2, 2.0, 2.0, groups=1)
    assert total.update(x, np.array([0]), codes=np.array([-1, 0], np.int32)) == -1
    assert total.update(x[:1], np.array([0]), codes=np.array([-1], np.int32)) == -1
    assert total.counts().tolist() == [1, 1]
