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
from privgram._core.rows import RowAccumulator, UnitAccumulator
from privgram.columns.unit import Unit
from privgram.glm.one_step import model_of
from privgram.moment.accumulators import Prepared
from privgram.regression.families import ERROR, FAMILIES, Bounded, Expected
from privgram.scan.executor import accumulate, accumulate_units
from privgram.scan.request import ScanRequest
from privgram.secret.kinds import Histogram, Model, Outer, Vectors
from privgram.secret.sweep import Image, LevelImage, LevelSweep, UnitSweep, new_rows

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
    """What scores are made of: the library's models, of a Hessian too, and the twin."""
    coef, ones = rng.standard_normal((2, q)) * 0.5
    found = [(Model.residual(q), None, oracle.Model("residual", q))]
    for name, family in FAMILIES.items():
        half = 0.5 if name == "binomial" else 7.0
        for factor in (None, ones):
            expected = Expected(family, coef, (half, half), factor)
            largest = math.log(14.0) if name == "poisson" else 0.0
            twin = oracle.Model(name, q, coef, factor, (half, half), largest)
            found.append((model_of(expected), model_of(expected, curved=True), twin))
    bounded = Bounded(q)
    twin = oracle.Model("huber", q, bend=ERROR, reach_sq=bounded.longest**2)
    return [*found, (model_of(bounded), model_of(bounded, curved=True), twin)]


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


def assert_second(total, whole):
    """An accumulator has these integers."""
    hi, lo = (limb.astype(object) for limb in total.int128())
    np.testing.assert_array_equal(hi * 2**64 + lo, whole)


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

    def read(*kinds):
        new = partial(new_rows, Image(frame, bound), kinds)
        mapped, _ = accumulate(scan, new)
        assert (mapped.n_rows + mapped.n_dropped, mapped.n_dropped) == (N, missing.sum())
        return mapped.inner.totals

    for model, curved, twin in models(rng, q):
        scores, norms = twin.scores(images)
        total = oracle.clipped_sums(scores, norms, CLIP, np.zeros(len(scores), int), 1)[0]
        counts = oracle.norm_counts(scores, norms, EDGES)
        second = oracle.second_moment(scores, norms, CLIP, CLIP)
        kinds = Vectors(model, CLIP), Histogram(model, EDGES), Outer(model, CLIP)
        for found in (read(*kinds[:2])[:1], read(*kinds)):  # alone, and beside others
            np.testing.assert_array_equal(found[0], total)
        np.testing.assert_array_equal(found[1], counts)
        assert_second(found[2], second)
        if curved is None:
            continue
        rows = oracle.Model(**vars(twin) | {"curved": True}).scores(images)[0]
        hessian, lengths = read(Outer(curved, CLIP), Histogram(curved, EDGES))
        assert_second(hessian, oracle.second_moment(rows, None, CLIP, CLIP))
        np.testing.assert_array_equal(lengths, oracle.norm_counts(rows, None, EDGES))
    leading, lengths = read(Outer(Model.features(q), CLIP), Histogram(Model.features(q), EDGES))
    assert_second(leading, oracle.second_moment(images[:, :q], None, CLIP, CLIP))
    np.testing.assert_array_equal(lengths, oracle.norm_counts(images[:, :q], None, EDGES))


def test_offset_is_beside_the_target(table, rng):
    columns = columns_of("weights")
    q, d, bound = 3, len(columns), float(columns.bound)
    frame, coef, ones = rng.standard_normal((q + 2, d)), rng.normal(size=q), rng.normal(size=q)
    images = map_rows(columns.encode(table), bound, frame)
    expected = Expected(FAMILIES["poisson"], coef, (7.0, 7.0), ones, offset=True)
    twin = oracle.Model("poisson", q, coef, ones, (7.0, 7.0), math.log(14.0), offset=True)
    kinds = [Vectors(model_of(expected), CLIP)]
    mapped, _ = accumulate(
        ScanRequest(table, columns), partial(new_rows, Image(frame, bound), kinds)
    )
    total = oracle.clipped_sums(*twin.scores(images), CLIP, np.zeros(N, int), 1)[0]
    np.testing.assert_array_equal(mapped.inner.totals[0], total)


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

    def read(*kinds):
        mapped, _ = accumulate_units(scan, partial(UnitSweep, Image(frame, bound), kinds))
        assert mapped.n_rows == len(starts)
        return mapped.inner.totals

    for model, curved, twin in models(rng, q):
        most = float(np.linalg.norm(frame[q])) * bound if model.most is None else model.most
        units = oracle.sum_units(twin.scores(images)[0], size * most, starts)
        total = oracle.clipped_sums(units, None, CLIP, np.zeros(len(units), int), 1)[0]
        found, counts = read(Vectors(model, CLIP), Histogram(model, EDGES))
        np.testing.assert_array_equal(found, total)
        np.testing.assert_array_equal(counts, oracle.norm_counts(units, None, EDGES))
        if curved is not None:
            [hessian] = read(Outer(curved, CLIP, "squares"))
            rows = oracle.Model(**vars(twin) | {"curved": True}).scores(images)[0]
            assert_same(hessian, second_moment(rows, CLIP, UnitAccumulator, CLIP, starts))


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

    image = LevelImage(used, narrow, "h", frame, means if shifted else None)

    def read(*kinds):
        mapped, _ = accumulate(
            ScanRequest(table, used, threads=2), partial(LevelSweep, image, kinds)
        )
        assert (mapped.n_rows, mapped.n_dropped) == (kept.sum(), N - kept.sum())
        return mapped.inner.totals

    def sums(rows, clip):
        return oracle.clipped_sums(rows, None, clip, levels, size)

    residual = (v[:, -1] * one)[:, None]
    slopes = v[:, :-1] * v[:, -1:]
    features, error = Model.features(m), Model.residual(m - 1)
    of_residual = Model.level("residual")
    found = read(
        Vectors(features, CLIP, size),
        Outer(features, CLIP),
        Vectors(Model.level("weight"), 1.0, size, positive=True),
        Histogram(error, EDGES),
        Histogram(of_residual, EDGES),
        Vectors(error, CLIP),
        Outer(error, CLIP),
        Vectors(of_residual, 0.8, size),
        Vectors(Model.level("square"), 0.8**2, size, positive=True),
    )
    expected = [
        sums(v, CLIP),
        oracle.second_moment(v, None, CLIP, CLIP),
        sums(one[:, None] ** 2, 1.0),
        oracle.norm_counts(slopes, None, EDGES),
        oracle.norm_counts(residual, None, EDGES),
        oracle.clipped_sums(slopes, None, CLIP, np.zeros(len(v), int), 1)[0],
        oracle.second_moment(slopes, None, CLIP, CLIP),
        sums(residual, 0.8),
        sums(residual**2, 0.8**2),
    ]
    for ours, theirs in zip(found, expected, strict=True):
        if hasattr(ours, "int128"):
            assert_second(ours, theirs)
        else:
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("travels", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
def test_states_travel_and_merge(rng, travels):
    q, d = 3, 5
    frame, rows = rng.standard_normal((q + 1, d)), rng.uniform(-1, 1, (1000, d))
    expected = Expected(FAMILIES["binomial"], rng.normal(size=q), (0.5, 0.5), None)
    scored, curved = model_of(expected), model_of(expected, curved=True)
    kinds = [kind(model, CLIP) for kind in (Vectors, Outer) for model in (scored, curved)]
    kinds.append(Histogram(scored, EDGES))
    whole, part, rest = (new_rows(Image(frame, 2.0), kinds) for _ in range(3))
    assert whole.update(rows) == part.update(rows[:300].copy()) == -1
    part = travels(part)
    assert rest.update(rows[300:]) == part.update(rows[:0]) == -1
    part.merge(travels(rest))
    for ours, theirs in zip(part.inner.totals, whole.inner.totals, strict=True):
        if hasattr(ours, "int128"):
            assert_same(ours, theirs)
        else:
            np.testing.assert_array_equal(ours, theirs)
    assert part.n_rows == whole.n_rows == 1000


def test_unit_with_missing_values_has_its_other_rows(rng):
    image, kinds = Image(rng.standard_normal((3, 4)), 2.0), [Vectors(Model.residual(2), CLIP)]
    rows, starts = rng.uniform(-1, 1, (9, 4)), np.array([0, 4])
    rows[[2, 6], 1] = np.nan
    sweep, other = UnitSweep(image, kinds), UnitSweep(image, kinds)
    assert sweep.add_units(Prepared(rows), starts) == -1
    assert other.add_units(Prepared(np.delete(rows, [2, 6], axis=0)), np.array([0, 3])) == -1
    np.testing.assert_array_equal(*(one.inner.totals[0] for one in (sweep, other)))
