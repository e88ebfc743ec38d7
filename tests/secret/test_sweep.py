"""What one row or unit adds to a sum of the sweep, by search: bounds of integers, and no trace.

Rows are mapped, clipped, counted and added up by maps, clips and models that no table would teach,
NaN and 1e308 among the numbers of rows and of maps.
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from secret.test_any_client import squared
from support.helpers import refuses
from support.sums import integers

import privgram as pg
from privgram._core.scores import PARTS, ROW_UNITS, UNITS, write
from privgram.adaptive import radius
from privgram.glm.one_step import model_of
from privgram.moment.accumulators import Prepared
from privgram.regression.families import FAMILIES, Bounded, Expected
from privgram.scan.executor import accumulate
from privgram.scan.request import ScanRequest
from privgram.secret.gate import Sum
from privgram.secret.kinds import UNIT_PARTS, Histogram, Model, Outer, Vectors
from privgram.secret.sweep import Image, LevelImage, LevelSweep, UnitSweep, check_kinds, new_rows

Q, D, BOUND = 3, 5, math.sqrt(5)
ODD = [math.nan, math.inf, -math.inf, 1e308, -1e308, 1e200, 5e-324, -0.0]
EDGES = np.append(np.geomspace(1e-2, 1e2, 8), np.inf)


def totals(image, kinds, x, starts=None):
    """Sums of the rows x, or of the units that begin at `starts`."""
    if starts is None:
        sweep = new_rows(image, kinds)
        assert sweep.update(np.array(x, float, ndmin=2), True) == -1
    else:
        sweep = UnitSweep(image, kinds)
        rows = Prepared(np.array(x, float, ndmin=2))
        assert sweep.add_units(rows, np.asarray(starts)) == -1
    sums = zip(kinds, sweep.inner.totals, strict=True)
    return [Sum(None, 0, kind, total, 0) for kind, total in sums]


def models(rng):
    """Plain vectors, residuals, families and Huber's loss, and weights of a Hessian."""
    found = [Model.features(Q), Model.residual(Q), model_of(Bounded(Q))]
    for name, family in FAMILIES.items():
        if name == "gaussian":
            continue
        half = 0.5 if name == "binomial" else 10.0 ** rng.uniform(-1, 4)
        coef = rng.standard_normal(Q) * 10.0 ** rng.integers(-3, 3)
        ones = rng.standard_normal(Q) if rng.random() < 0.3 else None
        expected = Expected(family, coef, (half, half), ones)
        found += [model_of(expected), model_of(expected, curved=True)]
    return [*found, model_of(Bounded(Q), curved=True)]


def kinds_of(rng, of_units):
    """All kinds of all models, with clips of all sizes."""
    for model in models(rng):
        clip = float(10.0 ** rng.uniform(-2, 2))
        yield Vectors(model, clip)
        for together in ("sum", "squares") if of_units else ("sum",):
            yield Outer(model, clip, together)
            yield Histogram(model, EDGES, together)
            yield Histogram(model, EDGES, together, ranked=False)
        if of_units:
            yield Histogram(model, EDGES, ranked=False, rows=3)


def maps(rng, of_units=False):
    """Maps of all scales, some with a number that is none or whose products overflow.

    Of units also those that take means off.
    """
    if of_units:
        yield from (replace(image, within=True) for image in maps(rng))
    frame = rng.standard_normal((Q + 1, D)) * 10.0 ** rng.integers(-2, 3, (Q + 1, 1))
    yield Image(frame, BOUND)
    yield Image(np.eye(D)[: Q + 1] * 10.0 ** rng.uniform(-1, 2), BOUND)
    for odd in (1e308, math.nan, math.inf):
        strange = frame.copy()
        strange[:2] = 1e308 if odd == 1e308 else strange[:2]
        strange[0, 0] = odd
        yield Image(strange, BOUND)


def rows_of(rng):
    """Rows that may be in a table: of all lengths, some turned round, and odd ones."""
    rows = rng.uniform(-1, 1, (4, D)) * 10.0 ** rng.integers(-2, 2, (4, 1))
    turned = rows * np.where(np.arange(D) == Q, -1.0, 1.0)
    odd = np.full((len(ODD), D), 0.5)
    odd[:, 1] = ODD
    return np.concatenate(
        [rows, turned, -rows, np.eye(D)[:2] + np.eye(D)[Q], odd, np.zeros((1, D))]
    )


@pytest.mark.slow
def test_unit_of_more_rows_than_fit_adds_nothing_and_is_no_error():
    """Or whether a reading fails, after the first draw, would tell that there is one."""
    image, kind = Image(np.eye(1), 1.0), Outer(Model.features(1), 1.0, "squares")
    x, starts = np.full((2**22 + 5, 1), 0.5), [0, 3, 2**22 + 3]
    [total] = totals(image, [kind], x, starts)
    [others] = totals(image, [kind], x[:5], [0, 3])
    assert integers(total) == integers(others)


def units_of(rng):
    """Of one row, of many, and of many of which one is odd."""
    rows = rows_of(rng)
    return [
        rows[:1],
        -rows[:1],
        rows[4:5],
        rows[:9],
        -rows[:9],
        np.repeat(rows[2:3], 9, axis=0),
        rows,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("of_units", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_neighbours_lie_apart_by_what_a_kind_says(seed, of_units):
    """Rows or units, in or out or one for another: in integers, and nearly attained."""
    rng, attained = np.random.default_rng(seed), {}
    kinds = list(kinds_of(rng, of_units))
    for image in maps(rng, of_units):
        tables = units_of(rng) if of_units else rows_of(rng)
        starts = [0] if of_units else None
        with np.errstate(all="ignore"):
            each = [totals(image, kinds, x, starts) for x in tables]
            empty = totals(image, kinds, np.full((1, D), math.nan), starts)
        for at, kind in enumerate(kinds):
            if of_units:  # without rows that count: it is in a histogram all the same
                empty[at] = Sum(None, 0, kind, kind.new(of_units), 0)
            sums = [one[at] for one in each]
            for adjacency, pairs in (
                ("add-remove", ((empty[at], one) for one in sums)),
                ("replace", itertools.combinations([empty[at], *sums], 2)),
            ):
                far = max(itertools.starmap(squared, pairs))
                most = Fraction(kind.moves(adjacency)) ** 2
                assert far <= most * (1 + Fraction(1, 10**12)), kind
                key = type(kind), getattr(kind, "ranked", None), adjacency
                attained[key] = max(attained.get(key, 0), math.sqrt(far / most))
    assert min(attained.values()) > (0.7 if of_units else 0.9)


@pytest.mark.parametrize("of_units", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_row_or_unit_that_is_not_finite_touches_no_other(seed, of_units):
    """Of all kinds together: others add what they do without it, first, in the middle or last."""
    rng = np.random.default_rng(seed)
    kinds = list(kinds_of(rng, of_units))
    good = rng.uniform(-0.5, 0.5, (9, D))
    for image in maps(rng, of_units):
        rest = [integers(one) for one in totals(image, kinds, good, range(9) if of_units else None)]
        for hostile in rows_of(rng)[-len(ODD) - 3 :]:
            alone = [
                integers(one) for one in totals(image, kinds, hostile, [0] if of_units else None)
            ]
            expected = [np.add(a, b) for a, b in zip(rest, alone, strict=True)]
            for place in (0, 4, 9):
                x = np.insert(good, place, hostile, axis=0)
                found = totals(image, kinds, x, range(10) if of_units else None)
                for one, other in zip(found, expected, strict=True):
                    assert integers(one) == other.tolist()


def test_means_of_a_unit_are_taken_off_in_any_order_of_its_rows():
    """A row that is missing, or not finite, is in no mean."""
    rng = np.random.default_rng(0)
    frame = rng.standard_normal((Q, D))
    image, kinds = Image(frame, BOUND, within=True), [Vectors(Model.features(Q), 5.0)]
    squares = Outer(Model.features(Q), 20.0, "squares")
    sizes = [1, 2, 7, 90]
    starts = np.cumsum([0, *sizes[:-1]])
    x = rng.uniform(-0.9, 0.9, (100, D))
    odd = np.insert(x, [1, 50, 100], [[math.nan] * D, [math.inf] * D, [math.nan] * D], axis=0)
    v = x @ frame.T
    whole = np.concatenate([some - some.mean(axis=0) for some in np.split(v, starts[1:])])
    [summed, found] = totals(image, [*kinds, squares], x, starts)
    assert np.abs(integers(summed)).max() <= 1  # what is left of a unit adds up to nothing
    made = np.array(integers(found)) * squares.unit_of(found._total)
    np.testing.assert_allclose(made, (whole.T @ whole)[np.tril_indices(Q)], rtol=1e-4, atol=1e-4)
    order = np.concatenate([at + rng.permutation(n) for at, n in zip(starts, sizes, strict=True)])
    for other, at in ((x[order], starts), (odd, np.add(starts, [0, 1, 1, 1]))):
        again = totals(image, [*kinds, squares], other, at)
        assert [integers(one) for one in again] == [integers(summed), integers(found)]
    with pytest.raises(TypeError, match="where units are protected"):
        check_kinds(image, kinds, of_units=False)


def test_image_that_overflows_takes_no_other_row_or_unit_with_it():
    """Of a map near the largest number: each good row counts, and so does each good unit."""
    image = Image(np.array([[1e308, 1e308]]), 2.0)
    for place, (starts, together) in itertools.product(
        range(3), [(None, "sum"), (range(3), "squares")]
    ):
        x = np.insert([[1e-300, 0.0]] * 2, place, [1.5, 1.0], axis=0)  # whose image is infinite
        [total] = totals(image, [Outer(Model.features(1), 1.0, together)], x, starts)
        [square] = integers(total)
        assert square == pytest.approx(2 * 4.0**20, rel=1e-5)


def test_rounding_makes_no_vector_longer():
    """Also if all entries are rounded up."""
    for q in (1, 2, 7, 500):
        model = Model.features(q)
        [total] = totals(
            Image(np.eye(q), 1e12), [Vectors(model)], np.full((1, q), 1e9 / math.sqrt(q))
        )
        assert 0.999 * UNITS < math.sqrt(sum(x**2 for x in integers(total))) <= UNITS
        rows = np.empty((1, q), order="F")
        for length in (1e-3, 1.0, 1e9):
            write(np.full((1, q), length / math.sqrt(q)), model.score, rows, True, 1.0)
            [longest] = np.sqrt((rows**2).sum(axis=1))
            assert (rows == np.rint(rows)).all()
            assert longest <= ROW_UNITS - math.ceil(math.sqrt(q) / 2) - 1
            assert length < 1 or longest > 0.999 * ROW_UNITS


def longest(rng, q, radius):
    """Vectors about as long as a radius, or of any length; with entries that round up, and odd."""
    yield np.full(q, radius / math.sqrt(q))
    for _ in range(40):
        v = rng.standard_normal(q) * rng.integers(0, 2, q) + 1e-9
        yield v * (radius / np.linalg.norm(v)) * (1 + rng.choice([0, 1e-16, -1e-16, 1e-9, 2.0]))
        yield v * 10.0 ** rng.uniform(-320, 300)
        v[rng.integers(q)] = rng.choice(ODD)
        yield v


@np.errstate(all="ignore")
@pytest.mark.parametrize("q", [1, 2, 7, 60])
@pytest.mark.parametrize("of_units", [False, True])
def test_kernels_that_look_at_no_integers_make_none_that_are_longer(q, of_units, rng):
    """Rows beside their levels, and squares of a unit's rows: the trace of one's integers is |q|^2.

    Of a positive semidefinite matrix the Frobenius norm is no larger.
    """
    attained = 0
    for radius_ in (1e-3, 1.0, 12.5):
        entries = radius_ * np.array([0.3, 0.6]) * rng.choice([1.0, 1e-9, 1.2])
        beside = [(q, 3, float(entries[0])), (q + 3, 2, float(entries[1]))]
        model = Model.features(q)
        kind = (
            Outer(model, radius_, "squares")
            if of_units
            else Outer(model, radius_, beside=beside, positions=range(q))
        )
        for v in longest(rng, q, radius_):
            total = kind.new(of_units)
            if of_units:
                rows = np.stack([v, *(v * x for x in rng.uniform(-2, 2, rng.integers(0, 4)))])
                total.update(np.ascontiguousarray(rows), np.array([0]), True)
            else:
                codes = [(np.array([rng.integers(n)]), None) for _, n, _ in beside]
                total.update(np.asfortranarray(v[None, :]), True, codes)
            whole = integers(Sum(None, 0, kind, total, 0))
            trace = sum(whole[i * (i + 3) // 2] for i in range(kind.size))
            assert 0 <= trace <= 4**20
            attained = max(attained, trace / 4**20)
    assert attained > 0.9999


def test_rows_of_a_unit_have_no_order(rng):
    """In integers, of all kinds and of units of 1 to 41 rows."""
    kinds, [image, *_] = list(kinds_of(rng, True)), maps(rng)
    for n in (1, 21, 41):
        x = rng.uniform(-1, 1, (n, D))
        for one, other in zip(
            totals(image, kinds, x, [0]), totals(image, kinds, x[::-1], [0]), strict=True
        ):
            assert integers(one) == integers(other)


def test_units_are_counted_by_the_root_of_their_sum_of_squares(rng):
    x, starts = rng.uniform(-0.5, 0.5, (600, D)), np.arange(0, 600, 4)
    frame = rng.normal(size=(Q + 1, D))
    counted = Histogram(Model.features(Q), EDGES, "squares", ranked=False)
    [total] = totals(Image(frame, 10.0), [counted], x, starts)
    norms = np.sqrt(((x @ frame[:Q].T) ** 2).sum(axis=1).reshape(-1, 4).sum(axis=1))
    at = np.searchsorted(EDGES, norms)
    np.testing.assert_array_equal(
        np.array(integers(total)) / PARTS, np.bincount(at, minlength=len(EDGES))
    )


def test_rows_of_a_unit_count_as_one_of_so_many_or_of_all_that_it_has(rng):
    """Of up to four: a row is a quarter of the most, and one of nine a ninth; zeros are no rows."""
    counted = Histogram(Model.features(1), np.array([0.15, 0.25, np.inf]), ranked=False, rows=4)
    x = np.array([0.1, 0.2, 0.2, 0.0, np.nan, np.inf, *[0.3] * 9])[:, None]
    with np.errstate(all="ignore"):
        [total] = totals(Image(np.eye(1), 1.0), [counted], x, [0, 3, 6])
    assert integers(total) == [UNIT_PARTS // 4, UNIT_PARTS // 2, 9 * (UNIT_PARTS // 9)]
    assert counted.unit_of(None) == 4 / UNIT_PARTS
    for odd in ({"rows": 4}, {"rows": 2.5, "ranked": False}, {"rows": -1, "ranked": False}):
        with pytest.raises(ValueError, match="unranked"):
            Histogram(Model.features(1), EDGES, **odd)


def test_joined_bins_are_those_of_fewer_edges(rng):
    edges, x = np.append(np.arange(1, 8) / 8, np.inf), rng.random((50, 1))
    kinds = [
        Histogram(model := Model.features(1), edges, ranked=False),
        Histogram(model, edges[1::2].copy(), ranked=False),
        Histogram(model, edges),
    ]
    fine, coarse, ranked = totals(Image(np.eye(1), 1.0), kinds, x)
    joined = fine.joined(2)
    assert integers(joined) == integers(coarse)
    assert joined.kind.moves("replace") == coarse.kind.moves("replace")
    np.testing.assert_array_equal(joined.kind.edges, coarse.kind.edges)
    refuses(lambda: ranked.joined(2), TypeError, "joined")
    refuses(lambda: fine.joined(3), ValueError, "reshape")


def test_weighted_counts_move_as_they_are_calibrated_for_in_integers():
    """Through the histogram: a row of one bin, or of none, in the place of any other."""
    edges = np.geomspace(0.1, 100.0, 9)
    half = model_of(Expected(FAMILIES["binomial"], np.zeros(1), (0.5, 0.5), None))
    sums = [np.zeros(len(edges) - 1, object)]
    for length in [*edges, *(1.01 * edges)]:
        for part in (1.0, 0.4, 0.0):
            # Residuals of a mean of a half are up to a half: of the norm that a row is counted by.
            [total] = totals(Image(np.eye(2), 1e9), [Histogram(half, edges)], [[2 * length, part]])
            sums.append(np.array(integers(total), object))
    for adjacency, pairs in (
        ("add-remove", [(sums[0], one) for one in sums]),
        ("replace", itertools.combinations(sums, 2)),
    ):
        most = max(math.sqrt(((a - b) ** 2).sum()) for a, b in pairs)
        allowed = PARTS * radius.counts_sensitivity(len(edges) - 1, adjacency)
        assert 0.999 * allowed < most <= allowed * (1 + 1e-12)


# --- by level -----------------------------------------------------------------------------------

LEVELS = ["a", "b", "c"]
USED = pg.Columns({"x": (-1, 1), "y": (-1, 1), "f": LEVELS, "w": (0.0, 4.0)}, row_weights="w",
                  intercept=True, missing="drop")  # fmt: skip
OTHERS = USED.without("f")


def by_level(image, kinds, rows):
    table = {name: np.array([row[i] for row in rows], object if name == "f" else float)
             for i, name in enumerate(("x", "y", "f", "w"))}  # fmt: skip
    scan = ScanRequest(table, USED, threads=1)
    read = accumulate(scan, partial(LevelSweep, image, kinds))[0]
    assert read.n_rows + read.n_dropped == len(rows)
    return [
        Sum(None, 0, kind, total, 0) for kind, total in zip(kinds, read.inner.totals, strict=True)
    ]


def level_kinds(rng):
    q, d = 2, len(OTHERS)
    radius, level = 10.0 ** rng.uniform(-2, 0, 2)
    residual, features = Model.residual(q), Model.features(q + 1)
    return q, d, [
        Vectors(Model.level("weight"), 1.0, 3, positive=True),
        Vectors(Model.level("square"), level, 3, positive=True),
        Vectors(Model.level("residual"), level, 3),
        Vectors(features, radius, 3),
        Vectors(residual, radius),
        Outer(residual, radius),
        Outer(features, radius),
        Histogram(residual, EDGES),
        Histogram(Model.level("residual"), EDGES),
    ]  # fmt: skip


def level_images(rng, q, d):
    for odd in (None, 1e308, math.nan):
        matrix, centres = rng.standard_normal((q + 1, d)), rng.standard_normal((3, q + 1))
        if odd is not None:
            matrix[0], centres[1, 2] = odd, -1e308
        yield LevelImage(USED, OTHERS, "f", matrix, centres)


LEVEL_ROWS = [
    (x, y, f, w)
    for (x, y), (f, w) in itertools.product(
        [(1.0, 1.0), (-1.0, -1.0), (1e308, -1e308), (math.nan, 0.0), (5e-324, math.inf)],
        [("a", 4.0), ("b", 1e308), ("c", 1.0), ("nobody", 4.0), (None, 4.0), ("a", math.nan)],
    )
]


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_by_level_lie_apart_by_what_a_kind_says(seed):
    """A row changes its level too; and it touches no other row's integers."""
    rng, attained = np.random.default_rng(seed), {}
    q, d, kinds = level_kinds(rng)
    for image in level_images(rng, q, d):
        each = [by_level(image, kinds, [row]) for row in LEVEL_ROWS]
        nothing = by_level(image, kinds, [(math.nan, 0.0, "a", 1.0)])
        together = by_level(image, kinds, LEVEL_ROWS)
        for at, kind in enumerate(kinds):
            sums = [one[at] for one in each]
            assert (
                integers(together[at]) == np.sum([integers(one) for one in sums], axis=0).tolist()
            )
            for adjacency, pairs in (
                ("add-remove", ((nothing[at], one) for one in sums)),
                ("replace", itertools.combinations(sums, 2)),
            ):
                far = max(itertools.starmap(squared, pairs))
                most = Fraction(kind.moves(adjacency)) ** 2
                assert far <= most * (1 + Fraction(1, 10**12)), kind
                attained[at, adjacency] = max(
                    attained.get((at, adjacency), 0), math.sqrt(far / most)
                )
    assert min(attained.values()) > 0.3
    assert np.mean(list(attained.values())) > 0.8


def test_vector_that_is_to_be_positive_and_is_not_adds_nothing():
    kind = Vectors(Model.features(2), 1.0, positive=True)
    for row, added in (([0.5, 0.5], True), ([0.5, -0.5], False), ([-0.0, 0.5], True)):
        [total] = totals(Image(np.eye(2), 2.0), [kind], [row])
        assert any(integers(total)) is added
