"""Sums over pairs of rows within blocks: what they are, and how far neighbours lie apart.

Blocks are found here by lists, one row after the other, and sums by loops over pairs in doubles.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from secret.test_any_client import squared

import privgram as pg
from privgram._core import scores
from privgram._core.scores import UNITS
from privgram.scan.executor import accumulate
from privgram.scan.request import ScanRequest
from privgram.secret import sweep
from privgram.secret.gate import Sum
from privgram.secret.kinds import MOST_WEIGHT, PULL, WEIGHT_UNITS, Histogram, Model, Outer, Vectors
from privgram.secret.sweep import Blocks, PairImage, RowsByLevel

USED = pg.Columns(
    {"x": (-1, 1), "y": (-1, 1), "f": ["a", "b", "c"]}, intercept=True, missing="drop"
)
OTHERS = USED.without("f")
EDGES = np.append(np.geomspace(1e-2, 1e2, 8), np.inf)
ODD = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 0.0]


def blocks(bins=(1, 2, 3), weights=(WEIGHT_UNITS, MOST_WEIGHT, 1030)):
    return Blocks(USED, OTHERS, "f", np.array(bins, np.int64), np.array(weights, np.int64))


def table_of(rows):
    x, y, f = zip(*rows, strict=True) if rows else ((), (), ())
    return {"x": np.array(x, float), "y": np.array(y, float), "f": np.array(f, object)}


def store(of, rows, **options):
    scan = ScanRequest(table_of(rows), USED, **{"threads": 1} | options)
    return accumulate(scan, partial(RowsByLevel, PairImage(of, np.eye(2))))[0]


def sums(of, matrix, kinds, rows, **options):
    kinds = [kind.__class__(**vars(kind) | {"of_pairs": True}) for kind in kinds]
    with np.errstate(all="ignore"):
        totals = store(of, rows, **options).sums_of(PairImage(of, matrix), kinds)
    return [Sum(None, 0, kind, total, 0) for kind, total in zip(kinds, totals, strict=True)]


def kinds_of(clip, radius):
    residual, features = Model.residual(1), Model.features(2)
    return [
        Vectors(residual, clip),
        Outer(residual, clip),
        Outer(features, radius),
        Histogram(residual, EDGES),
        Histogram(features, EDGES, ranked=False),
    ]


def random_rows(rng, n, hostile=True):
    """Rows of two clusters, copies among them, of long and of impossible numbers."""
    far = rng.choice([-1.0, 1.0], n)
    x, y = (np.where(rng.random(n) < 0.5, far, rng.uniform(-1, 1, n)) for _ in range(2))
    if hostile:
        for at in rng.integers(0, n, n // 4):
            (x if rng.random() < 0.5 else y)[at] = rng.choice(ODD)
    levels = rng.choice(["a", "b", "c", "nobody"] if hostile else ["a", "b", "c"], n)
    return list(zip(x.tolist(), y.tolist(), levels.tolist(), strict=True))


def twin(of, matrix, rows, clip, radius):
    """The scores and the second moment over pairs, by loops: what a block adds is in the page."""
    kept, classes = store(of, rows).stored
    score, second = np.zeros(1), np.zeros((2, 2))
    for size, weight, start, end in classes:
        for block in range(start, end, size):
            u = kept[block : block + size] @ matrix.T
            total, w = np.zeros(1), weight / WEIGHT_UNITS
            for one, other in itertools.combinations(u, 2):
                z, e = (one - other) / math.sqrt(2)
                total += z * e * min(1.0, clip / max(abs(z * e), 1e-300))
                d = np.array([z, e])
                d *= min(1.0, radius / max(np.linalg.norm(d), 1e-300))
                second += 2 * w / size * np.outer(d, d)
            total *= 2 / size
            longest = (2 + PULL * (size + 1)) * clip
            score += w * total * min(1.0, longest / max(np.linalg.norm(total), 1e-300))
    return score, second


def test_sums_over_pairs_are_those_of_loops():
    rng = np.random.default_rng(0)
    rows = random_rows(rng, 200, hostile=False)
    matrix, clip, radius = rng.normal(size=(2, len(OTHERS))), 0.3, 1.1
    found = sums(blocks(), matrix, kinds_of(clip, radius), rows)
    score, second = twin(blocks(), matrix, rows, clip, radius)
    values = [one.kind.unit_of(one._total) for one in found]
    np.testing.assert_allclose(found[0]._total * values[0], score, atol=1e-5)
    hi, lo = found[2]._total
    lower = (hi.astype(float) * 2.0**64 + lo.astype(float)) * values[2]
    np.testing.assert_allclose(lower, second[np.tril_indices(2)], atol=1e-4)
    counted = sum(
        one[1] * (one[3] - one[2]) * (1 - 1 / one[0]) for one in store(blocks(), rows).stored[1]
    )
    assert found[4]._total.sum() * values[4] <= counted / WEIGHT_UNITS + 1e-3


def test_unclipped_sum_is_that_of_products_about_the_means_of_blocks():
    rng = np.random.default_rng(1)
    of = blocks((1, 1, 1), (WEIGHT_UNITS,) * 3)
    rows = random_rows(rng, 90, hostile=False)
    matrix = np.eye(3)[OTHERS.selected.index("x") : OTHERS.selected.index("x") + 1]
    matrix = rng.normal(size=(2, len(OTHERS)))
    [found] = sums(of, matrix, [Vectors(Model.residual(1), 20.0)], rows)
    (kept, classes), within = store(of, rows).stored, 0.0
    for size, _, start, end in classes:
        for block in range(start, end, size):
            z, e = (kept[block : block + size] @ matrix.T).T
            within += (z - z.mean()) @ (e - e.mean())
    assert float(found._total[0] * found.kind.unit_of(None)) == pytest.approx(within, abs=1e-3)


def far_apart(adjacency, n):
    """A row that stands alone against n alike, and where it is replaced against n others."""
    own = [(1.0, 1.0, "a")] * n + [(-1.0, -1.0, "a")] + [(1.0, -1.0, "b")] * n
    return own, [*own[:n], *own[n + 1 :], *[(-1.0, 1.0, "b")] * (adjacency == "replace")]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_neighbours_lie_apart_by_what_a_kind_of_pairs_says(adjacency):
    """Random tables, half of them of hostile numbers, and ones that are as far apart as can be."""
    rng, attained = np.random.default_rng(2), Counter()
    matrix = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    for trial in range(200):
        n, frame = int(rng.integers(2, 40)), matrix
        rows, at = random_rows(rng, n, hostile=bool(trial % 2)), int(rng.integers(n))
        one = rng.choice([-1.0, *ODD]), rng.choice([-1.0, 1.0]), rng.choice(["a", "b", "c"])
        neighbour = [*rows[:at], one, *rows[at:]] if trial % 4 else rows[:at] + rows[at + 1 :]
        if adjacency == "replace":
            neighbour = [*rows[:at], one, *rows[at + 1 :]]
        if trial % 5 == 0:
            rows, neighbour = far_apart(adjacency, 4 * n)
        elif trial % 5 == 1:
            frame = np.where(rng.random((2, 3)) < 0.2, rng.choice(ODD), matrix)
        of = blocks((1, 1, 2), (MOST_WEIGHT, MOST_WEIGHT, WEIGHT_UNITS))
        kinds = kinds_of(*10.0 ** rng.uniform(-3, 1, 2))
        for own, other in zip(*(sums(of, frame, kinds, x) for x in (rows, neighbour)), strict=True):
            square, most = squared(own, other), Fraction(own.kind.moves(adjacency)) ** 2
            assert square <= most * (1 + Fraction(1, 10**12)), own.kind
            name = type(own.kind).__name__
            attained[name] = max(attained[name], math.sqrt(square / most))
    assert attained["Vectors"] > 0.85  # 2 of 2.25 clips
    assert min(attained.values()) > (0.4 if adjacency == "replace" else 0.85)  # 2 of sqrt(5)


@pytest.mark.parametrize("pull", [0.25, 0.05])
def test_length_of_a_block_is_worth_what_a_row_more_may_make_of_it(pull, monkeypatch):
    """Of lemma A: without a row two clusters that pull one way are cut to another length."""
    monkeypatch.setattr(sweep, "PULL", pull)
    clip, matrix = 1e-2, np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    of, kinds = blocks((1, 1, 1), (WEIGHT_UNITS,) * 3), [Vectors(Model.residual(1), clip)]
    half = [(1.0, 1.0, "a")] * 100 + [(-1.0, -1.0, "a")] * 100
    more, own, less = (
        int(sums(of, matrix, kinds, x)[0]._total[0]) for x in ([*half, half[-1]], half, half[:-1])
    )
    cut = (2 + pull * 201) * UNITS
    assert own == pytest.approx(min(cut, 2 / 200 * 100 * 100 * UNITS), rel=1e-6)
    assert max(more - own, own - less) <= (2 + pull) * UNITS


def test_sums_do_not_depend_on_order_chunks_or_threads():
    rng = np.random.default_rng(3)
    rows = random_rows(rng, 300) + [(0.5, 0.5, "b")] * 40
    matrix, kinds = rng.normal(size=(2, len(OTHERS))), kinds_of(0.3, 1.1)
    own = sums(blocks(), matrix, kinds, rows)
    turned = [rows[i] for i in rng.permutation(len(rows))]
    for other in (
        sums(blocks(), matrix, kinds, turned),
        sums(blocks(), matrix, kinds, rows, threads=3),
    ):
        assert all(squared(*two) == 0 for two in zip(own, other, strict=True))


@pytest.mark.parametrize("collide", [False, True])
def test_a_row_that_goes_leaves_all_others_in_their_blocks(collide, monkeypatch):
    """Copies too, and rows of one code."""
    if collide:
        monkeypatch.setattr(sweep, "mixed", lambda bits: bits % np.uint64(3))
    rng, of = np.random.default_rng(4), blocks((3, 2, 5))
    rows = np.repeat(rng.normal(size=(30, 2)), rng.integers(1, 5, 30), axis=0)
    levels = rng.integers(0, 3, len(rows)).astype(np.int32)

    def blocks_of(rows, levels):
        parts = rows[:7], rows[7:]
        order, block = sweep.in_blocks(of, parts, levels, sweep.hashed(rows, levels))
        return Counter(
            zip(map(tuple, rows[order]), levels[order].tolist(), block.tolist(), strict=True)
        )

    whole = blocks_of(rows, levels)
    for i in range(len(rows)):
        part = blocks_of(np.delete(rows, i, axis=0), np.delete(levels, i))
        assert sum((whole - part).values()) == 1
        assert not part - whole


def test_pairs_of_a_block_are_each_taken_once():
    rng = np.random.default_rng(5)
    for size, n_blocks in ((2, 5), (3, 4), (7, 3), (40, 2), (300, 1)):
        rows = np.asfortranarray(rng.normal(size=(size * n_blocks, 2)))
        taken = []
        for first in range(0, len(rows), 9):
            pairs = scores.Pairs(rows, size, first, min(first + 9, len(rows)))
            out = np.empty((len(pairs), 2), order="F")
            scores.write(pairs, Model.features(2).score, out)
            taken += map(tuple, out)
        expected = [
            tuple(rows[i] - rows[j])
            for b in range(n_blocks)
            for i, j in itertools.combinations(range(b * size, (b + 1) * size), 2)
        ]
        assert taken == expected


@pytest.mark.parametrize("kind", ["none", "residual"])
def test_sums_of_a_block_by_its_rows_are_the_integers_of_its_pairs(kind):
    """Far from 0, by Python's integers; a block with a pair that is too long is never taken."""
    rng, taken = np.random.default_rng(7), Counter()
    for trial in range(150):
        size, q = int(rng.choice([1, 2, 3, 8, 9, 33, 128], p=[0.1] + 5 * [0.175] + [0.025])), 2
        m = q + (kind == "residual")
        whole = rng.integers(-(2 ** int(rng.integers(1, 10))), 2**9, (2 * size, m))
        whole += rng.integers(-(2**39), 2**39, m)
        vectors, far = [], []
        for part in np.split(whole.astype(object), 2):
            apart = [one - other for one, other in itertools.combinations(part, 2)]
            vectors.append([d[:q] * (d[q] if m > q else 1) for d in apart])
            far.append(max((sum(v**2) for v in vectors[-1]), default=1))
        most = max(math.isqrt(far[0]) + int(rng.integers(-1, 3)), 1)
        rows, odd = np.asfortranarray(whole, float), trial % 5 == 0
        if odd:
            rows[-1, rng.integers(m)] = rng.choice([math.nan, math.inf, -1e308, 2.0**41])
        total, triangle = np.zeros((2, q), np.int64), np.zeros(q * (q + 1) // 2, np.int64)
        summed = total if kind == "residual" else None
        calm = scores.within(rows, size, scores.Score(kind, q), most, summed, triangle)
        sums, expected = np.zeros((2, q), object), np.zeros((q, q), object)
        for block, hostile in enumerate((False, odd)):
            assert not (calm[block] and (hostile or far[block] > most**2))
            assert calm[block] or hostile or far[block] > most**2 * (1 - 2.0**-29)
            taken[bool(calm[block])] += 1
            for v in vectors[block] if calm[block] else ():
                sums[block] += v
                expected += v[:, None] * v
        assert (triangle == expected[np.tril_indices(q)]).all()
        assert summed is None or (summed == sums).all()
    assert min(taken[True], taken[False]) > 50


def test_sums_by_rows_and_by_pairs_are_one(monkeypatch):
    rng, calm, within = np.random.default_rng(8), Counter(), scores.within

    def noted(*given):
        calm.update(found := within(*given))
        return found

    monkeypatch.setattr(scores, "within", noted)
    for trial in range(40):
        rows, matrix = random_rows(rng, 150, bool(trial % 2)), rng.normal(size=(2, len(OTHERS)))
        of, kinds, found = blocks((2, 4, 5)), kinds_of(*rng.uniform(0.5, 6, 2)), []
        for largest in (0, 128):
            monkeypatch.setattr(scores, "BLOCK", largest)
            found.append(sums(of, matrix, kinds, rows))
        assert all(squared(*two) == 0 for two in zip(*found, strict=True))
    assert min(calm[True], calm[False]) > 100


def test_pairs_are_counted_once_by_their_length():
    """Blocks of any size, and edges and rows that are hostile."""
    rng = np.random.default_rng(9)
    for size, n_blocks in ((1, 3), (2, 5), (9, 4), (40, 2), (128, 2), (129, 2), (300, 1)):
        for edges in ([0.5, 1.0, 2.0, 2.0, 4.0, 0.0], [-5.0, 1.0, math.inf, 0.0], [math.nan]):
            for kind in ("none", "residual"):
                rows = np.asfortranarray(rng.normal(size=(size * n_blocks, 3)))
                rows[rng.random(rows.shape) < 0.02] = rng.choice(ODD)
                counts, expected = np.zeros((2, len(edges)), np.int64)
                score = scores.Score(kind, 2)
                scores.pair_counts(rows, size, score, np.array(edges), counts)
                i, j = np.triu_indices(size, 1)
                with np.errstate(all="ignore"):
                    for block in np.split(rows, n_blocks):
                        d = block[i] - block[j]
                        lengths = np.hypot(*d[:, :2].T) * (1 if kind == "none" else abs(d[:, 2]))
                        counted = lengths[(lengths > 0) & (lengths < 1e150)]
                        np.add.at(expected, np.searchsorted(edges[:-1], counted), 1)
                assert counts.tolist() == expected.tolist()


def test_large_blocks_are_summed_beyond_64_bits(monkeypatch):
    rng = np.random.default_rng(6)
    rows, matrix = random_rows(rng, 120), rng.normal(size=(2, len(OTHERS)))
    own = sums(blocks(), matrix, kinds_of(0.3, 1.1), rows)
    monkeypatch.setattr(sweep, "LARGE", 3)
    monkeypatch.setattr(sweep, "AT_ONCE", 20)
    other = sums(blocks(), matrix, kinds_of(0.3, 1.1), rows)
    assert all(squared(*two) == 0 for two in zip(own, other, strict=True))
    assert UNITS == 2**24  # as the page has it


def test_blocks_are_public_numbers_within_limits():
    for wrong in (
        {"bins": (0, 1, 1)},
        {"weights": (MOST_WEIGHT + 1, 1, 1)},
        {"weights": (-1, 1, 1)},
    ):
        with pytest.raises(ValueError, match=r"bin|weight"):
            blocks(**wrong)


def test_tables_without_pairs_add_nothing():
    matrix = np.eye(2, 3)
    for rows in ([], [(0.1, 0.2, "a")], [(0.1, 0.2, "a"), (0.1, 0.3, "b"), (0.2, 0.1, "nobody")]):
        for one in sums(blocks((1, 1, 1)), matrix, kinds_of(1.0, 1.0), rows):
            assert not any(np.asarray(one._total).ravel())
