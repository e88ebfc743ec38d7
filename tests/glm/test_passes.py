"""Passes over whole tables add up the integers that the NumPy twin makes of their rows."""

import copy
import math
import pickle
from functools import partial

import numpy as np
import pytest
from oracle import scores as oracle
from oracle.rowmap import map_rows

import privgram as pg
from privgram._core.rows import RowAccumulator
from privgram._core.units import UnitAccumulator
from privgram.columns.unit import Unit
from privgram.glm.accumulators import (
    HessianAccumulator,
    HighCardinalityAccumulator,
    LevelFirst,
    LevelNorms,
    LevelScores,
    LevelSums,
    NormHistogram,
    ScoreAccumulator,
    ScoreBoth,
    ScoreSum,
    UnitMomentAccumulator,
    UnitScoreAccumulator,
    WithinLevels,
)
from privgram.moment.accumulators import MappedAccumulator
from privgram.regression.families import ERROR, FAMILIES, Bounded, Expected
from privgram.scan.executor import accumulate, accumulate_units
from privgram.scan.request import ScanRequest

N, CLIP, EDGES = 20_011, 1.5, np.geomspace(1e-2, 30, 40)
COLUMNS = {"x": (-3.0, 3.0), "k": (0, 8), "b": (0, 1)}
SETS = {
    "numbers": {},
    "factors": {"g": ["a", "b", "c"]},
    "weights": {"g": ["a", "b", "c"], "w": (0.0, 2.0)},
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    found = {
        "x": rng.normal(size=N).astype(np.float32),
        "k": rng.integers(0, 9, N),
        "b": rng.integers(0, 2, N).astype(np.int32),
        "g": rng.choice(["a", "b", "c"], N),
        "w": rng.uniform(0, 2, N),
        "h": rng.integers(0, 60, N),
        "person": rng.integers(0, 3000, N),
    }
    found["x"][[5, 17, 23]] = 1e30, np.inf, -np.inf
    return found


def columns_of(name, **options):
    weights = {"row_weights": "w"} if "w" in SETS[name] else {}
    return pg.Columns(COLUMNS | SETS[name], intercept=True, **weights, **options)


def models(rng, q):
    """What scores are made of: the library's object, None for residuals, and the twin."""
    coef, ones = rng.standard_normal((2, q)) * 0.5
    found = [(None, oracle.Model("residual", q))]
    for name, family in FAMILIES.items():
        half = 0.5 if name == "binomial" else 7.0
        for factor in (None, ones):
            expected = Expected(family, coef, (half, half), factor)
            largest = math.log(14.0) if name == "poisson" else 0.0
            twin = oracle.Model(name, q, coef, factor, (half, half), largest)
            found.append((expected, twin))
    bounded = Bounded(q)
    twin = oracle.Model("huber", q, bend=ERROR, reach_sq=bounded.longest**2)
    return [*found, (bounded, twin)]


def second_moment(rows, bound, kind=RowAccumulator, *more):
    total = kind(rows.shape[1], bound, *more[:-1])
    total.update(np.ascontiguousarray(rows), *more[-1:])
    return total


def state(total):
    """What an accumulator has added up, by parts."""
    if hasattr(total, "int128"):
        return [*total.int128()]
    found = []
    for name in total.parts:
        value = getattr(total, name)
        deeper = hasattr(value, "parts") or hasattr(value, "int128")
        found += state(value) if deeper else [np.asarray(value)]
    return found


def assert_same(one, other):
    for ours, theirs in zip(state(one), state(other), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("drop", [False, True])
def test_pass_adds_up_what_the_twin_makes_of_the_rows(table, name, threads, drop, rng):
    columns = columns_of(name, missing="drop" if drop else "error")
    if drop:
        table = table | {"x": np.where(rng.random(N) < 0.02, np.nan, table["x"])}
    q, d, bound = 3, len(columns), 0.9 * float(columns.bound)
    frame = rng.standard_normal((q + 1, d))
    images = map_rows(columns.encode(table), bound, frame)
    missing = np.isnan(images).any(axis=1)
    images = images[~missing]
    scan = ScanRequest(table, columns, bound, threads=threads)

    def read(new):
        mapped, _ = accumulate(scan, lambda _: MappedAccumulator(frame, bound, new()))
        assert (mapped.n_rows + mapped.n_dropped, mapped.n_dropped) == (N, missing.sum())
        return mapped.inner

    for expected, twin in models(rng, q):
        scores, norms = twin.scores(images)
        total = oracle.clipped_sums(scores, norms, CLIP, np.zeros(len(scores), int), 1)[0]

        def of(inner, expected=expected):
            return inner if expected is None else ScoreAccumulator(inner, expected)

        def found(new, of=of):
            mapped = read(lambda: of(new()))
            return mapped.inner if isinstance(mapped, ScoreAccumulator) else mapped

        np.testing.assert_array_equal(found(partial(ScoreSum, q, CLIP)).total, total)
        counts = found(partial(NormHistogram, q, EDGES)).counts
        np.testing.assert_array_equal(counts, oracle.norm_counts(scores, norms, EDGES))
        both = found(partial(ScoreBoth, q, CLIP))
        np.testing.assert_array_equal(both.total, total)
        if norms is not None:
            scores = scores * (CLIP / np.maximum(norms, CLIP))[:, None]
        assert_same(both.second, second_moment(scores, CLIP, RowAccumulator, False))
        if expected is None:
            continue
        curved = oracle.Model(**vars(twin) | {"curved": True})
        rows = curved.scores(images)[0]
        hessian = read(lambda e=expected: HessianAccumulator(RowAccumulator(q, CLIP), e)).inner
        assert_same(hessian, second_moment(rows, CLIP, RowAccumulator, False))
        lengths = read(lambda e=expected: HessianAccumulator(NormHistogram(q, EDGES), e)).inner
        np.testing.assert_array_equal(lengths.counts, oracle.norm_counts(rows, None, EDGES))
    leading = read(lambda: HessianAccumulator(RowAccumulator(q, CLIP))).inner
    assert_same(leading, second_moment(images[:, :q], CLIP, RowAccumulator, False))
    lengths = read(lambda: HessianAccumulator(NormHistogram(q, EDGES))).inner
    np.testing.assert_array_equal(lengths.counts, oracle.norm_counts(images[:, :q], None, EDGES))


def test_offset_is_beside_the_target(table, rng):
    columns = columns_of("weights")
    q, d, bound = 3, len(columns), float(columns.bound)
    frame, coef, ones = rng.standard_normal((q + 2, d)), rng.normal(size=q), rng.normal(size=q)
    images = map_rows(columns.encode(table), bound, frame)
    expected = Expected(FAMILIES["poisson"], coef, (7.0, 7.0), ones, offset=True)
    twin = oracle.Model("poisson", q, coef, ones, (7.0, 7.0), math.log(14.0), offset=True)
    mapped, _ = accumulate(
        ScanRequest(table, columns),
        lambda _: MappedAccumulator(frame, bound, ScoreAccumulator(ScoreSum(q, CLIP), expected)),
    )
    total = oracle.clipped_sums(*twin.scores(images), CLIP, np.zeros(N, int), 1)[0]
    np.testing.assert_array_equal(mapped.inner.inner.total, total)


@pytest.mark.parametrize("name", SETS)
def test_pass_over_units_adds_up_what_the_twin_makes_of_them(table, name, rng):
    columns = columns_of(name)
    q, bound = 3, float(columns.bound)
    frame = rng.standard_normal((q + 1, len(columns)))
    order = np.argsort(table["person"], kind="stable")
    images = map_rows(columns.encode({k: v[order] for k, v in table.items()}), bound, frame)
    people = table["person"][order]
    starts = np.flatnonzero(np.append(True, people[1:] != people[:-1]))
    scan = ScanRequest(table, columns, unit=Unit("person", max_rows=5), threads=2)
    size = float(np.linalg.norm(frame[:q], 2)) * bound

    def read(new):
        mapped, _ = accumulate_units(scan, lambda _: new())
        assert mapped.n_rows == len(starts)
        return mapped.inner

    for expected, twin in models(rng, q):
        most = float(np.linalg.norm(frame[q])) * bound if expected is None else expected.most
        units = oracle.sum_units(twin.scores(images)[0], size * most, starts)
        total = oracle.clipped_sums(units, None, CLIP, np.zeros(len(units), int), 1)[0]

        def of(inner, expected=expected):
            inner = inner if expected is None else ScoreAccumulator(inner, expected)
            return UnitScoreAccumulator(frame, bound, inner)

        def found(new, of=of):
            mapped = read(lambda: of(new()))
            return mapped.inner if isinstance(mapped, ScoreAccumulator) else mapped

        np.testing.assert_array_equal(found(partial(ScoreSum, q, CLIP)).total, total)
        counts = found(partial(NormHistogram, q, EDGES)).counts
        np.testing.assert_array_equal(counts, oracle.norm_counts(units, None, EDGES))
        if expected is not None:
            hessian = read(
                lambda e=expected: UnitMomentAccumulator(
                    frame, bound, HessianAccumulator(UnitAccumulator(q, CLIP, CLIP), e)
                )
            )
            rows = oracle.Model(**vars(twin) | {"curved": True}).scores(images)[0]
            twins = second_moment(rows, CLIP, UnitAccumulator, CLIP, starts)
            assert_same(hessian.inner, twins)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_pass_by_level_adds_up_what_the_twin_makes_of_the_rows(table, name, drop, shifted, rng):
    size, m = 50 if drop else 60, 4  # ten levels are not listed
    narrow = columns_of(name, missing="drop" if drop else "error")
    weights = {"row_weights": "w"} if "w" in SETS[name] else {}
    described = COLUMNS | SETS[name] | {"h": pg.Factor(list(range(size)))}
    missing = {"missing": "drop"} if drop else {}
    used = pg.Columns(described, intercept=True, **weights, **missing)
    if drop:
        table = table | {"x": np.where(rng.random(N) < 0.02, np.nan, table["x"])}
    u = narrow.encode(table)
    frame, means = rng.standard_normal((m, len(narrow))), rng.standard_normal((size, m))
    kept = ~np.isnan(u).any(axis=1) & (table["h"] < size)
    levels = table["h"][kept]
    root = np.sqrt(table["w"] / 2) if weights else np.ones(N)
    v, one = map_rows(u, float(narrow.bound), frame)[kept], root[kept]
    if shifted:
        v = v - means[levels] * one[:, None]

    def read(new):
        def of_rows(_):
            return HighCardinalityAccumulator(
                used, narrow, "h", frame, means if shifted else None, new()
            )

        mapped, _ = accumulate(ScanRequest(table, used, threads=2), of_rows)
        assert (mapped.n_rows, mapped.n_dropped) == (kept.sum(), N - kept.sum())
        return mapped.inner

    def sums(rows, clip):
        return oracle.clipped_sums(rows, None, clip, levels, size)

    residual = (v[:, -1] * one)[:, None]
    slopes = v[:, :-1] * v[:, -1:]
    np.testing.assert_array_equal(read(partial(LevelSums, size, m, CLIP)).total, sums(v, CLIP))
    within = second_moment(v, CLIP, RowAccumulator, False)
    assert_same(read(partial(WithinLevels, m, CLIP)), within)
    first = read(partial(LevelFirst, size, m, CLIP))
    np.testing.assert_array_equal(first.counts.total, sums(one[:, None] ** 2, 1.0))
    assert_same(first.within, within)
    norms = read(partial(LevelNorms, m - 1, EDGES, EDGES))
    for histogram, rows in ((norms.slopes, slopes), (norms.levels, residual)):
        np.testing.assert_array_equal(histogram.counts, oracle.norm_counts(rows, None, EDGES))
    scores = read(partial(LevelScores, size, m - 1, CLIP, 0.8))
    total = oracle.clipped_sums(slopes, None, CLIP, np.zeros(len(v), int), 1)[0]
    np.testing.assert_array_equal(scores.slopes.total, total)
    assert_same(scores.slopes.second, second_moment(slopes, CLIP, RowAccumulator, False))
    np.testing.assert_array_equal(scores.levels.total, sums(residual, 0.8))
    np.testing.assert_array_equal(scores.squares.total, sums(residual**2, 0.8**2))


@pytest.mark.parametrize("travels", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
def test_states_travel_and_merge(rng, travels):
    q, d = 3, 5
    frame, rows = rng.standard_normal((q + 1, d)), rng.uniform(-1, 1, (1000, d))
    expected = Expected(FAMILIES["binomial"], rng.normal(size=q), (0.5, 0.5), None)
    for new in (
        lambda: ScoreSum(q, CLIP),
        lambda: ScoreAccumulator(NormHistogram(q, EDGES), expected),
        lambda: ScoreAccumulator(ScoreBoth(q, CLIP), expected),
        lambda: HessianAccumulator(RowAccumulator(q, CLIP), expected),
        lambda: HessianAccumulator(NormHistogram(q, EDGES)),
    ):
        whole, part, rest = (MappedAccumulator(frame, 2.0, new()) for _ in range(3))
        assert whole.update(rows) == part.update(rows[:300].copy()) == -1
        part = travels(part)
        assert rest.update(rows[300:]) == part.update(rows[:0]) == -1
        part.merge(travels(rest))
        assert_same(part, whole)
        assert part.n_rows == whole.n_rows == 1000


def test_first_bad_row_is_named(table, rng):
    x = table["x"].copy()
    x[[15_000, 19_000]] = np.nan
    frame, q = rng.standard_normal((4, 4)), 3
    columns = columns_of("numbers")
    scan = ScanRequest(table | {"x": x}, columns, threads=2)
    for made in (ScoreSum, ScoreBoth):
        with pytest.raises(ValueError, match="row 15000"):
            accumulate(scan, lambda _, made=made: MappedAccumulator(frame, 2.0, made(q, CLIP)))


def test_unit_with_missing_values_has_its_other_rows(rng):
    frame, bound, q = rng.standard_normal((3, 4)), 2.0, 2
    rows, starts = rng.uniform(-1, 1, (9, 4)), np.array([0, 4])
    rows[[2, 6], 1] = np.nan
    mapped = UnitScoreAccumulator(frame, bound, ScoreSum(q, CLIP))
    assert mapped.update(rows, starts) == 2
    mapped = UnitScoreAccumulator(frame, bound, ScoreSum(q, CLIP))
    assert mapped.update(rows, starts, drop=True) == -1
    other = UnitScoreAccumulator(frame, bound, ScoreSum(q, CLIP))
    kept = np.delete(rows, [2, 6], axis=0)
    assert other.update(kept, np.array([0, 3])) == -1
    np.testing.assert_array_equal(mapped.inner.total, other.inner.total)
