"""The sweep over scores: equal to the NumPy twin bit for bit, and a function of each row alone."""

import copy
import math
import pickle

import numpy as np
import pytest
from oracle import scores as oracle
from support.helpers import refuses

from privgram._core import rowmap, scores
from privgram.regression.families import ERROR, FAMILIES, FARTHEST, Bounded, Expected

KINDS = ["none", "residual", "gaussian", "binomial", "poisson", "huber"]
SHAPES = [(1, 1), (7, 1), (32, 2), (33, 3), (131, 7), (1003, 8), (200, 42), (64, 130)]


def parameters(rng, kind, q, curved=False):
    """Of a score: public numbers that a table could teach, and others."""
    found = {"kind": kind, "q": q, "curved": curved}
    if kind in FAMILIES:
        half = 0.5 if kind == "binomial" else 10.0 ** rng.uniform(-1, 4)
        found["coef"] = rng.standard_normal(q) * 10.0 ** rng.integers(-3, 3)
        found["target"] = half, half
        found["largest"] = min(math.log(2 * half), 2 * FARTHEST)
        found["ones"] = rng.standard_normal(q) if rng.random() < 0.5 else None
        found["offset"] = bool(rng.random() < 0.5)
    if kind == "huber":
        found["bend"], found["reach_sq"] = ERROR, Bounded(q).longest ** 2
    return found


def images_of(rng, n, width, wild=True):
    """Images of every size, with what no table should hold among them."""
    images = rng.standard_normal((n, width)) * 10.0 ** rng.integers(-3, 3, (n, 1))
    images[::5] = rng.integers(-3, 4, images[::5].shape) / 2  # ties, and norms that are equal
    if wild:
        for value in (np.nan, np.inf, -np.inf, 1e200, -1e308, 5e-324, 1e-170, 0.0, -0.0):
            rows = rng.integers(0, n, max(1, n // 40))
            images[rows, rng.integers(0, width, len(rows))] = value
        images[rng.integers(0, n, max(1, n // 40))] = 0.0
        images[rng.integers(0, n, max(1, n // 40))] *= 1e-300
    return images


def both(rng, kind, shape, curved=False, wild=True):
    """A score and its twin, and images of it, in one layout or another."""
    given = parameters(rng, kind, shape[1], curved)
    score, twin = scores.Score(**given), oracle.Model(**given)
    images = images_of(rng, shape[0], score.n_columns, wild)
    if rng.random() < 0.5:
        images = np.asfortranarray(images)
    return score, twin, images


pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the twin


def missing(of):
    return np.flatnonzero(~oracle.usable(*of)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_the_twins(rng, kind, shape):
    for _ in range(4):
        score, twin, images = both(rng, kind, shape)
        of, clip, q = twin.scores(images), float(10.0 ** rng.uniform(-4, 4)), shape[1]
        total, rows = np.full(q, 5), np.full((q, len(images)), 7.0).T
        bad, n_dropped = scores.clipped_sum(images, score, clip, total, True, rows)
        assert (bad, n_dropped) == (-1, len(missing(of)))
        expected = oracle.clipped_sums(*of, clip, np.zeros(len(images), int), 1)[0]
        np.testing.assert_array_equal(total - 5, expected)
        written = of[0] if of[1] is None else of[0] * (clip / np.maximum(of[1], clip))[:, None]
        written[missing(of)] = np.nan
        np.testing.assert_array_equal(rows, written)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_counts_are_the_twins(rng, kind, shape):
    for bins in (1, 2, 5, 96):
        score, twin, images = both(rng, kind, shape)
        of = twin.scores(images)
        norms = np.sqrt(oracle.squares(of[0])) if of[1] is None else of[1]
        edges = np.geomspace(1e-3, 1e4, bins)
        known = norms[np.isfinite(norms)][: bins // 2]
        edges[: len(known)] = known  # norms that are exactly on an edge
        edges.sort()
        even = np.linspace(1e-9, 10.0 ** rng.integers(-2, 3), 4 * bins)
        for some in (edges, even, np.append(even, [np.inf, np.inf])):
            counts = np.full(len(some), 3)
            found = scores.norm_counts(images, score, some, counts, True)
            assert found == (-1, len(missing(of)))
            np.testing.assert_array_equal(counts - 3, oracle.norm_counts(*of, some))


@pytest.mark.parametrize("kind", ["gaussian", "binomial", "poisson", "huber"])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_the_hessian_are_the_twins(rng, kind, shape):
    score, twin, images = both(rng, kind, shape, curved=True)
    of, rows = twin.scores(images), np.empty(shape, order="F")
    assert scores.write(images, score, rows, True) == (-1, len(missing(of)))
    of[0][missing(of)] = np.nan
    np.testing.assert_array_equal(rows, of[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_groups", [1, 9, 5000])
def test_sums_by_group_are_the_twins(rng, kind, shape, n_groups):
    score, twin, images = both(rng, kind, shape)
    groups = rng.integers(0, n_groups, len(images)).astype(np.int32)
    of, total = twin.scores(images), np.zeros((n_groups, shape[1]), np.int64)
    found = scores.clipped_sum(images, score, 2.0, total, True, groups=groups)
    assert found == (-1, len(missing(of)))
    np.testing.assert_array_equal(total, oracle.clipped_sums(*of, 2.0, groups, n_groups))


@pytest.mark.parametrize("group", [-1, 9, -(2**31), 2**31 - 1])
def test_rows_of_no_group_are_missing(rng, group):
    images, total = rng.standard_normal((100, 2)), np.zeros((9, 2), np.int64)
    groups = rng.integers(0, 9, 100).astype(np.int32)
    groups[[41, 70]] = group
    score = scores.Score("none", 2)
    assert scores.clipped_sum(images, score, 2.0, total, groups=groups)[0] == 41
    total[:] = 0
    assert scores.clipped_sum(images, score, 2.0, total, True, groups=groups) == (-1, 2)
    rest = np.delete(np.arange(100), [41, 70])
    expected = oracle.clipped_sums(images[rest], None, 2.0, groups[rest], 9)
    np.testing.assert_array_equal(total, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [[1], [1, 1, 1], [100], [31, 1, 32, 33, 700, 2, 2], [1] * 80])
def test_sums_of_units_are_the_twins(rng, kind, sizes):
    for q in (1, 3, 42):
        score, twin, images = both(rng, kind, (sum(sizes), q), wild=False)
        images /= np.maximum(np.abs(images).max(), 1.0)
        starts = np.cumsum([0, *sizes[:-1]])
        of = twin.scores(images)[0]
        largest = np.abs(of).max()
        found = scores.of_units(images, score, starts, largest)
        np.testing.assert_array_equal(found, oracle.sum_units(of, largest, starts))
        assert found.flags.f_contiguous
        assert not scores.of_units(images, score, starts, 0.0).any()
        backwards = scores.of_units(images[: sizes[0]][::-1], score, starts[:1], largest)
        np.testing.assert_array_equal(found[:1], backwards)


def test_rows_less_the_means_of_their_groups_are_the_twins(rng):
    for n, m in [(0, 2), (1, 1), (33, 3), (500, 9)]:
        images, means = rng.standard_normal((m, n)).T, rng.standard_normal((7, m))
        groups, one = rng.integers(0, 7, n).astype(np.int32), rng.uniform(0, 2, n)
        expected = images - means[groups] * one[:, None]
        scores.center(images, groups, means, one)
        np.testing.assert_array_equal(images, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_first_row_that_may_not_be_used_is_named(rng, kind):
    score, _, images = both(rng, kind, (200, 3), wild=False)
    for rows in ([199], [77, 100], [31, 32], [0]):
        table = images.copy()
        table[rows, rng.integers(0, score.n_columns)] = np.nan
        total, counts, out = np.zeros(3, np.int64), np.zeros(1, np.int64), np.empty((3, 200)).T
        assert scores.clipped_sum(table, score, 1.0, total)[0] == rows[0]
        assert scores.norm_counts(table, score, np.ones(1), counts)[0] == rows[0]
        assert scores.write(table, score, out)[0] == rows[0]
        assert scores.write(table, score, out, True) == (-1, len(rows))


def test_position_neighbours_and_layout_do_not_matter(rng):
    """Or a row added in front would change what those behind it add."""
    for kind in KINDS:
        score, _, images = both(rng, kind, (300, 5))
        wide = np.full((score.n_columns + 2, 900), 3.0)
        wide[: score.n_columns, 100:400] = images.T
        totals = []
        for table in (images, np.asfortranarray(images), wide[:, 100:400].T, images[::-1]):
            totals.append(np.zeros(5, np.int64))
            scores.clipped_sum(table, score, 1.0, totals[-1], True)
        parts = np.zeros(5, np.int64)
        for part in (images[:1], images[1:8], images[8:]):
            scores.clipped_sum(part, score, 1.0, parts, True)
        for total in [*totals, parts]:
            np.testing.assert_array_equal(total, totals[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [0, 1, 31, 5000])
def test_images_are_taken_as_they_are_made(rng, kind, n):
    """In one sweep from the rows on: the same as of images that are written out first."""
    for q, d in ((1, 3), (5, 8), (150, 40)):
        score = scores.Score(**parameters(rng, kind, q))
        rows = list(rng.uniform(-1, 1, (d, n)))
        rows[1] = (100 * rows[1]).astype(np.int32)
        if n:
            rows[0][rng.integers(0, n, 2)] = np.nan
        frame = rowmap.transposed(rng.standard_normal((score.n_columns, d)))
        made = rowmap.Images(rows, 1.5, frame, score.n_columns)
        images = np.empty((n, score.n_columns), order="F")
        made.into(images)
        groups = rng.integers(0, 7, n).astype(np.int32)
        found = []
        for given in (made, images):
            total, by_group, counts = np.zeros(q, int), np.zeros((7, q), int), np.zeros(9, int)
            out, lines = (np.zeros((n, q), order="F") for _ in range(2))
            found.append(
                [
                    scores.clipped_sum(given, score, 1.5, total, True, out),
                    scores.clipped_sum(given, score, 1.5, by_group, True, groups=groups),
                    scores.norm_counts(given, score, np.geomspace(0.1, 9, 9), counts, True),
                    scores.write(given, score, lines, True),
                    scores.clipped_sum(given, score, 1.5, np.zeros(q, int))[0],
                    *(total, by_group, counts, out, lines),
                ]
            )
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)


def test_exponentials_are_those_of_the_families(rng):
    """By the means: of Poisson rows, the target less the score over z."""
    eta = np.concatenate([rng.uniform(-40, 40, 4000), [0.0, -0.0, 30.0, -30.0, np.nan]])
    images = np.stack([eta, np.zeros_like(eta)], axis=1)
    for name in ("poisson", "binomial"):
        family, target = FAMILIES[name], (0.5, 0.5) if name == "binomial" else (1e9, 1e9)
        largest = math.log(2e9)
        score = scores.Score(name, 1, np.ones(1), None, target, largest)
        curved = scores.Score(name, 1, np.ones(1), None, target, largest, curved=True)
        rows, roots = np.empty((2, len(eta), 1))
        scores.write(images, score, rows, True)
        scores.write(images, curved, roots, True)
        mean, root = family.means(np.minimum(eta, family.largest(2e9) or math.inf))
        np.testing.assert_array_equal(rows[:, 0], eta * (target[0] - mean))
        np.testing.assert_array_equal(roots[:, 0], eta * root)


@pytest.mark.parametrize("kind", ["gaussian", "binomial", "poisson", "huber"])
def test_scores_of_the_library_are_these(rng, kind):
    """What regressions make of rows is what the twin makes of the same numbers."""
    given = parameters(rng, kind, 4)
    given["offset"] = False
    expected = Bounded(4)
    if kind in FAMILIES:
        expected = Expected(FAMILIES[kind], given["coef"], given["target"], given["ones"])
    images = images_of(rng, 500, 5)
    for curved in (False, True):
        rows = np.empty((500, 4), order="F")
        scores.write(images, expected.score(curved), rows, True)
        of = oracle.Model(**given | {"curved": curved}).scores(images)
        of[0][missing(of)] = np.nan
        np.testing.assert_array_equal(rows, of[0])


def test_no_row_adds_a_vector_that_is_longer_than_it_may(rng):
    """In integers, over scores and clips of all sizes, of subnormal ones too."""
    longest = 0.0
    for _ in range(400):
        q = int(rng.integers(1, 60))
        size = 10.0 ** rng.choice([rng.uniform(-3, 3), rng.uniform(-320, 150)])
        clip = size * 10.0 ** rng.choice([0.0, -2.0, 1.0, rng.uniform(-300, 300)])
        if not 0 < clip < math.inf:
            continue
        image, total = rng.choice([1.0, -1.0, 0.3], (1, q)) * size, np.zeros(q, np.int64)
        scores.clipped_sum(image, scores.Score("none", q), clip, total, True)
        length = math.sqrt(sum(int(x) ** 2 for x in total))
        longest = max(longest, length)
        assert length <= scores.UNITS
    assert longest > 0.999 * scores.UNITS


@pytest.mark.parametrize("kind", ["binomial", "poisson"])
def test_events_are_shortened_as_rows_without_one(rng, kind):
    """By their features, or clipping would pull all one way; what is longer by its length."""
    score = scores.Score(kind, 2, np.array([0.3, -0.2]), None, (0.0, 1.0), largest=3.0)
    z = 3 * rng.standard_normal((200, 2))
    z -= np.maximum(z @ [0.3, -0.2] + 0.7, 0)[:, None] * np.array([0.3, -0.2]) / 0.13
    factors = []
    for y in (0, 1):
        images, rows = np.column_stack([z, np.full(len(z), y)]), np.empty((200, 2), order="F")
        whole = np.empty_like(rows)
        scores.clipped_sum(images, score, 1.0, np.zeros(2, np.int64), False, rows)
        scores.write(images, score, whole)
        factors.append(rows / whole)
    np.testing.assert_allclose(factors[1], factors[0], rtol=1e-12)
    assert (factors[0] < 0.9).mean() > 0.5
    far = np.column_stack([z, np.full(len(z), 300.0)])
    scores.clipped_sum(far, score, 1.0, np.zeros(2, np.int64), False, rows)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize("kind", ["binomial", "poisson"])
def test_count_is_no_more_than_a_row(rng, kind):
    """Of rows whose residual is as long as its size, and of any others."""
    score = scores.Score(kind, 2, np.array([3.0, -2.0]), None, (0.5, 0.5), largest=3.0)
    images = rng.standard_normal((2000, 3))
    images[:, 2] = rng.choice([-1.0, 1.0, 0.0, 5.0], 2000)
    for row in images:
        counts = np.zeros(9, np.int64)
        scores.norm_counts(row[None], score, np.geomspace(1e-3, 10, 9), counts)
        assert 0 <= counts.sum() <= scores.PARTS
        assert np.count_nonzero(counts) <= 1


def test_scores_travel(rng):
    for kind in KINDS:
        score, _, images = both(rng, kind, (50, 3))
        totals = []
        for again in (score, pickle.loads(pickle.dumps(score)), copy.deepcopy(score)):
            totals.append(np.zeros(3, np.int64))
            scores.clipped_sum(images, again, 1.0, totals[-1], True)
            np.testing.assert_array_equal(totals[-1], totals[0])


def test_wrong_input(rng):
    score, images = scores.Score("residual", 2), np.ones((4, 3))
    total, counts = np.zeros(2, np.int64), np.zeros(3, np.int64)
    for wrong in (images[:, :2], images[0], "images"):
        with pytest.raises(ValueError, match="array of 3 columns"):
            scores.clipped_sum(wrong, score, 1.0, total)
    for wrong in (np.zeros(3, np.int64), np.zeros(2), np.zeros(4, np.int64)[::2]):
        with pytest.raises(ValueError, match="a row of q for each group"):
            scores.clipped_sum(images, score, 1.0, wrong)
    for clip in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="positive and finite"):
            scores.clipped_sum(images, score, clip, total)
    for wrong in (np.empty((4, 3)), np.empty((4, 2)), np.empty((4, 2), np.float32, order="F")):
        with pytest.raises(ValueError, match=r"shape \(4, 2\), by columns"):
            scores.write(images, score, wrong)
    with pytest.raises(ValueError, match="must ascend"):
        scores.norm_counts(images, score, np.array([2.0, 1.0, 3.0]), counts)
    with pytest.raises(ValueError, match="count for each edge"):
        scores.norm_counts(images, score, np.ones(2), counts)
    totals, groups = np.zeros((2, 2), np.int64), np.zeros(3, np.int32)
    with pytest.raises(ValueError, match="4 groups"):
        scores.clipped_sum(images, score, 1.0, totals, groups=groups)
    for starts in ([1], [0, 0], [0, 4], []):
        with pytest.raises(ValueError, match="starts"):
            scores.of_units(images, score, np.array(starts, np.intp), 1.0)
    with pytest.raises(ValueError, match="mean for each group"):
        scores.center(
            np.asfortranarray(images), np.full(4, 2, np.int32), np.ones((2, 3)), np.ones(4)
        )
    with pytest.raises(ValueError, match="lie by columns"):
        scores.center(images, np.zeros(4, np.int32), np.ones((2, 3)), np.ones(4))
    refuses(lambda: scores.Score("poisson", 2), ValueError, "a family has coefficients")
    with pytest.raises(ValueError, match="a family has coefficients"):
        scores.Score("residual", 2, np.ones(2))
    refuses(lambda: scores.Score("poisson", 2, np.ones(3)), ValueError, r"shape \(2,\)")
    refuses(lambda: scores.Score("residual", 2, curved=True), ValueError, "have weights")
    refuses(lambda: scores.Score("residual", 0), ValueError, "at least 1")
