"""What one row or unit can move of all that a regression by scores releases, by search.

Rows are mapped, clipped, counted and added up as in a fit, by frames, clips and models that no
table would teach. How far sums lie apart is compared with the noise that a round gives them.
"""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from recorder.recorder import Recorder, moved

import privgram as pg
from privgram._core.rows import RowAccumulator
from privgram._core.scores import PARTS, UNITS
from privgram._core.units import UnitAccumulator
from privgram.adaptive import radius
from privgram.glm.accumulators import (
    HessianAccumulator,
    LevelFirst,
    LevelScores,
    LevelSums,
    NormHistogram,
    ScoreAccumulator,
    ScoreBoth,
    ScoreSum,
    UnitMomentAccumulator,
    UnitScoreAccumulator,
)
from privgram.glm.rounds import Rounds
from privgram.mechanisms import AdaptiveGaussian
from privgram.moment.accumulators import MappedAccumulator
from privgram.privacy.guarantee import Guarantee
from privgram.regression.families import FAMILIES, Bounded, Expected
from privgram.scan.executor import second_moment
from privgram.secret import Gate

FAMILY_NAMES = ["binomial", "poisson"]


def test_no_row_moves_a_score_by_more_than_it_is_calibrated_for(rng):
    """An adversary's search over frames, clips and rows, in integers."""
    q, d, bound = 3, 5, math.sqrt(5)
    most = 0.0
    for _ in range(80):
        frame = rng.standard_normal((d, d)) * 10.0 ** rng.integers(-4, 5, (d, 1))
        clip = float(10.0 ** rng.uniform(-3, 3))
        rows = rng.uniform(-1, 1, (6, d))
        grid = np.geomspace(1e-3, 1e3, 9)
        for row in rows:
            read = MappedAccumulator(frame, bound, ScoreSum(q, clip))
            assert read.update(row[None].copy()) == -1
            square = sum(int(x) ** 2 for x in read.inner.total)
            assert square <= UNITS**2
            most = max(most, math.sqrt(square) / UNITS)
            counted = MappedAccumulator(frame, bound, NormHistogram(q, grid))
            counted.update(row[None].copy())
            assert counted.inner.counts.sum() == PARTS
            assert np.count_nonzero(counted.inner.counts) == 1
    assert most > 0.999  # attained, or the search would see nothing
    for q in (1, 2, 7, 500):  # also if all entries are rounded up
        worst = np.full((1, q), 1 / math.sqrt(q))
        found = ScoreSum(q, 1.0)
        assert found.feed(worst * 1e9) == -1
        assert 0.999 * UNITS < math.sqrt(sum(int(x) ** 2 for x in found.total)) <= UNITS


def test_no_unit_moves_a_score_by_more_than_a_row_and_its_rows_have_no_order(rng):
    """Whatever number of rows it has, and however long they are."""
    q, d, bound = 3, 5, math.sqrt(5)
    most = 0.0
    for trial in range(40):
        frame = rng.standard_normal((d, d)) * 10.0 ** rng.integers(-3, 4, (d, 1))
        clip = float(10.0 ** rng.uniform(-3, 3))
        rows = rng.uniform(-1, 1, (1 + 20 * (trial % 3), d))
        totals = []
        for some in (rows, rows[::-1]):
            read = UnitScoreAccumulator(frame, bound, ScoreSum(q, clip))
            assert read.update(some.copy(), np.zeros(1, np.intp)) == -1
            assert read.n_rows == 1
            totals.append(read.inner.total)
        np.testing.assert_array_equal(*totals)
        square = sum(int(x) ** 2 for x in totals[0])
        assert square <= UNITS**2
        most = max(most, math.sqrt(square) / UNITS)
    assert most > 0.999


def test_no_unit_moves_a_second_moment_in_a_frame_by_more_than_the_radius(rng):
    """In integers, by matrices of units of 1 to 41 rows, of all lengths."""
    m, d, bound, most = 3, 5, math.sqrt(5), 0.0
    for trial in range(40):
        frame = rng.standard_normal((d, d)) * 10.0 ** rng.integers(-3, 4, (d, 1))
        radius = float(10.0 ** rng.uniform(-3, 3))
        rows = rng.uniform(-1, 1, (1 + 20 * (trial % 3), d))
        read = UnitMomentAccumulator(
            frame, bound, HessianAccumulator(UnitAccumulator(m, radius, radius))
        )
        assert read.update(rows, np.zeros(1, np.intp)) == -1
        assert (read.n_rows, read.inner.inner.n_units) == (1, 1)
        hi, lo = (limb.astype(object) for limb in read.inner.inner.int128())
        square = sum((hi[i, j] * 2**64 + lo[i, j]) ** 2 for i in range(m) for j in range(m))
        assert square <= 2 ** (4 * read.inner.inner.bits)
        most = max(most, math.sqrt(square) / 2.0 ** (2 * read.inner.inner.bits))
    assert most > 0.999


def drawn_model(rng, family, q, d):
    """A frame, coefficients and a target's ends that no table would teach."""
    frame = rng.standard_normal((d, d)) * 10.0 ** rng.integers(-4, 5, (d, 1))
    frame[q] = np.eye(d)[q]
    coef = rng.standard_normal(q) * 10.0 ** rng.integers(-3, 3)
    half = 0.5 if family == "binomial" else 10.0 ** rng.uniform(-1, 4)
    ones = rng.standard_normal(q) if rng.random() < 0.3 else None
    return frame, Expected(FAMILIES[family], coef, (half, half), ones)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_no_row_moves_a_score_of_a_model_by_more_than_it_is_calibrated_for(family, rng):
    """An adversary's search over frames, coefficients, clips, targets and rows, in integers."""
    q, d, bound = 3, 5, math.sqrt(5)
    most = np.zeros(3)
    for trial in range(60):
        frame, expected = drawn_model(rng, family, q, d)
        clip = float(10.0 ** rng.uniform(-3, 3))
        grid = np.geomspace(1e-3, 1e3, 9)
        rows = rng.uniform(-1, 1, (6, d))
        rows[:, q] = rng.choice([-1.0, 1.0, 5.0, -1e6] if trial % 3 == 0 else [-1.0, 1.0], 6)
        for row in rows:
            read = MappedAccumulator(frame, bound, ScoreAccumulator(ScoreSum(q, clip), expected))
            assert read.update(row[None].copy()) == -1
            square = sum(int(x) ** 2 for x in read.inner.inner.total)
            assert square <= UNITS**2
            most[0] = max(most[0], math.sqrt(square) / UNITS)
            counted = MappedAccumulator(
                frame, bound, ScoreAccumulator(NormHistogram(q, grid), expected)
            )
            counted.update(row[None].copy())
            counts = counted.inner.inner.counts
            assert 0 <= counts.sum() <= PARTS
            assert np.count_nonzero(counts) <= 1
            most[1] = max(most[1], counts.sum() / PARTS)
            for made_of in (
                ScoreAccumulator(ScoreBoth(q, clip), expected),
                HessianAccumulator(RowAccumulator(q, clip), expected),
            ):
                read = MappedAccumulator(frame, bound, made_of)
                read.update(row[None].copy())
                both = read.inner.inner
                moment = both if isinstance(both, RowAccumulator) else both.second
                trace = float(
                    np.trace(pg.SecondMoment.from_accumulator(moment, None, None).matrix())
                )
                assert trace <= (clip * (1 + 2.0**-17)) ** 2
                most[2] = max(most[2], trace / clip**2)
    assert most.min() > 0.99  # attained, or the search would see nothing


def test_no_unit_moves_a_score_of_a_model_by_more_than_a_row(rng):
    q, d, bound = 3, 5, math.sqrt(5)
    most = 0.0
    for trial in range(40):
        frame, expected = drawn_model(rng, "binomial", q, d)
        clip = float(10.0 ** rng.uniform(-3, 3))
        rows, totals = rng.uniform(-1, 1, (1 + 20 * (trial % 3), d)), []
        for some in (rows, rows[::-1]):
            read = UnitScoreAccumulator(frame, bound, ScoreAccumulator(ScoreSum(q, clip), expected))
            assert read.update(some.copy(), np.zeros(1, np.intp)) == -1
            totals.append(read.inner.inner.total)
        np.testing.assert_array_equal(*totals)
        square = sum(int(x) ** 2 for x in totals[0])
        assert square <= UNITS**2
        most = max(most, math.sqrt(square) / UNITS)
    assert most > 0.99


def test_no_row_moves_sums_by_level_by_more_than_it_is_calibrated_for(rng):
    """Rows of all lengths, in integers: one level, and a vector no longer than `UNITS`."""
    most = 0.0
    for m in (1, 3, 12):
        for length in (0.0, 1e-300, 1e-3, 1.0, 2.0, 1e150):
            sums = LevelSums(4, m, 2.0)
            v = rng.normal(size=(1, m))
            v *= length / np.linalg.norm(v)
            sums.take(v, np.ones(1), np.array([2], np.int32))
            assert not np.delete(sums.total, 2, axis=0).any()
            square = sum(int(x) ** 2 for x in sums.total[2])
            assert square <= UNITS**2
            most = max(most, math.sqrt(square) / UNITS)
    assert most > 0.999


# --- what rounds release -----------------------------------------------------------------------

Q, D, BOUND = 3, 5, math.sqrt(5)
EDGES = np.geomspace(1e-2, 1e2, 12)
ROUNDS = {}


def rounds_of(adjacency, rng):
    """Rounds of a table of no rows, with all parts that they have in a fit."""
    if adjacency not in ROUNDS:
        columns = pg.Columns(dict.fromkeys("vwxyz", (-1, 1)))
        moment = second_moment(dict.fromkeys("vwxyz", np.zeros(3)), columns=columns)
        guarantee = Guarantee(1.0, 1e-6, adjacency, None)
        ROUNDS[adjacency] = moment, AdaptiveGaussian().noise_for(guarantee, D, BOUND)
    moment, noise = ROUNDS[adjacency]
    return Rounds(moment, noise, Gate(noise, rng))


def released_sums(rounds, read, clip):
    rounds.sums(read.total, clip, 0.1, Q, rounds.moves)


def released_counts(rounds, read, clip):
    rounds.beyond(rounds.gate.counted(read.counts), 0.1)


def released_second(rounds, read, clip):
    accumulator = read.second if isinstance(read, ScoreBoth) else read
    rounds.take(pg.SecondMoment.from_accumulator(accumulator, None, None), 0.1)


#: What is read of rows, by a clip and a model of their targets; and how it is released.
OF_ROWS = {
    "score": (lambda clip, _: ScoreSum(Q, clip), released_sums),
    "counts": (lambda *_: NormHistogram(Q, EDGES), released_counts),
    "second moment of scores": (lambda clip, _: ScoreBoth(Q, clip), released_second),
    "Hessian": (lambda clip, _: HessianAccumulator(RowAccumulator(Q, clip)), released_second),
    "counts of features": (lambda *_: HessianAccumulator(NormHistogram(Q, EDGES)), released_counts),
    "score of a model": (
        lambda clip, model: ScoreAccumulator(ScoreSum(Q, clip), model),
        released_sums,
    ),
    "counts of a model": (
        lambda _, model: ScoreAccumulator(NormHistogram(Q, EDGES), model),
        released_counts,
    ),
    "Hessian of a model": (
        lambda clip, model: HessianAccumulator(RowAccumulator(Q, clip), model),
        released_second,
    ),
    "counts of a Hessian": (
        lambda _, model: HessianAccumulator(NormHistogram(Q, EDGES), model),
        released_counts,
    ),
}
OF_UNITS = {
    "score": OF_ROWS["score"],
    "counts": OF_ROWS["counts"],
    "second moment of scores": OF_ROWS["second moment of scores"],
    "Hessian": (
        lambda clip, _: HessianAccumulator(UnitAccumulator(Q, clip, clip)),
        released_second,
    ),
    "score of a model": OF_ROWS["score of a model"],
    "counts of a model": OF_ROWS["counts of a model"],
    "Hessian of a model": (
        lambda clip, model: HessianAccumulator(UnitAccumulator(Q, clip, clip), model),
        released_second,
    ),
    "counts of a Hessian": OF_ROWS["counts of a Hessian"],
}


def test_units_are_counted_by_the_root_of_their_sum_of_squares(rng):
    """In whatever order their rows come; a row by itself as rows are."""
    x = rng.uniform(-0.5, 0.5, (600, D))
    frame, starts = rng.normal(size=(Q + 1, D)), np.arange(0, 600, 4)
    order = starts[:, None] + rng.permuted(np.tile(np.arange(4), (150, 1)), axis=1)

    def counts(rows, starts, bound=10.0):
        inner = HessianAccumulator(NormHistogram(Q, EDGES))
        UnitMomentAccumulator(frame, bound, inner).update(rows, starts)
        return inner.inner.counts / PARTS

    norms = np.sqrt(((x @ frame[:Q].T) ** 2).sum(axis=1).reshape(-1, 4).sum(axis=1))
    at = np.minimum(np.searchsorted(EDGES, norms), len(EDGES) - 1)
    np.testing.assert_array_equal(counts(x, starts), np.bincount(at, minlength=len(EDGES)))
    np.testing.assert_array_equal(counts(x[order.ravel()], starts), counts(x, starts))
    alone = HessianAccumulator(NormHistogram(Q, EDGES))
    alone.update(np.asfortranarray(x @ frame.T))
    np.testing.assert_array_equal(counts(x, np.arange(600)), alone.inner.counts / PARTS)


def drawn(rng):
    """A frame, a clip and a model: some of them let rows be longer, and in opposite directions."""
    frame = np.eye(D) * 10.0 ** rng.uniform(-1, 2, D)
    if rng.random() < 0.5:
        frame = rng.standard_normal((D, D)) * 10.0 ** rng.integers(-2, 3, (D, 1))
    if rng.random() < 0.3:
        model = Bounded(Q)
    else:
        family = FAMILIES[rng.choice(FAMILY_NAMES)]
        frame[Q] = np.eye(D)[Q]
        half = 0.5 if family.name == "binomial" else 10.0 ** rng.uniform(-1, 4)
        model = Expected(family, rng.standard_normal(Q), (half, half), None)
    return frame, float(10.0 ** rng.uniform(-2, 2)), model


def changed(rng):
    """Rows that may be in a table or not: of all lengths, and some turned round in each part."""
    rows = rng.uniform(-1, 1, (4, D)) * 10.0 ** rng.integers(-2, 2, (4, 1))
    turned = rows * np.where(np.arange(D) == Q, -1.0, 1.0)
    rows = np.concatenate([rows, turned, -rows[:1], np.eye(D)[:2] + np.eye(D)[Q]])
    rows[0, 0] = np.nan
    return rows


def farthest(adjacency, new, release, read_of, rng, trials):
    """The largest distance of neighbours in a round, in parts of what its share of mu allows."""
    worst = 0.0
    for _ in range(trials):
        frame, clip, model = drawn(rng)
        with Recorder(0).watching() as recorder:
            empty = [None]
            for one in [*empty, *read_of(rng)]:
                read = new(clip, model)
                rounds = rounds_of(adjacency, recorder.rng)
                inner = fed(frame, read, one)
                release(rounds, inner, clip)
        inputs = recorder.primitives
        pairs = itertools.combinations(inputs, 2)
        if adjacency == "add-remove":
            pairs = ((inputs[0], one) for one in inputs[1:])
        most = max(moved(one, other) for one, other in pairs)
        worst = max(worst, math.sqrt(most) / rounds.mu(0.1))
    return worst


def fed(frame, read, rows):
    """What is added up after some rows of one, or a unit's; which are left out where they miss."""
    if isinstance(rows, list):  # of a unit
        outer = (
            UnitScoreAccumulator
            if not isinstance(read, HessianAccumulator)
            else UnitMomentAccumulator
        )(frame, BOUND, read)
        [x] = rows
        assert outer.update(x.copy(), np.zeros(1, np.intp), True) == -1
    elif rows is not None:
        assert MappedAccumulator(frame, BOUND, read).update(rows.copy(), True) == -1
    return read.inner if isinstance(read, HessianAccumulator | ScoreAccumulator) else read


def single_rows(rng):
    return [row[None] for row in changed(rng)]


def whole_units(rng):
    """Of one row, or of many of which some go together."""
    rows = changed(rng)
    return [[rows[1:2]], [rows[5:6]], [rows], [np.repeat(rows[2:3], 9, axis=0)], [-rows[8:]]]


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("name", OF_ROWS)
def test_no_row_moves_a_round_by_more_than_its_share(name, adjacency, rng):
    """Rows in or out, or one in the place of another: what is released lies within mu, attained."""
    worst = farthest(adjacency, *OF_ROWS[name], single_rows, rng, 8)
    assert 0.9 < worst <= 1 + 1e-9


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("name", OF_UNITS)
def test_no_unit_moves_a_round_by_more_than_its_share(name, adjacency, rng):
    worst = farthest(adjacency, *OF_UNITS[name], whole_units, rng, 8)
    assert 0.7 < worst <= 1 + 1e-9


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_no_row_moves_sums_by_level_by_more_than_their_share(adjacency, rng):
    """Numbers and means by level, and scores with their squares: a row changes its level too."""
    levels, m, most = 4, 3, np.zeros(4)
    for _ in range(12):
        radius, level = 10.0 ** rng.uniform(-1, 1, 2)
        v = rng.normal(size=(3, m)) * 10.0 ** rng.integers(-1, 3, (3, 1))
        v = np.concatenate([v, -v, v * [1, 1, -1]])
        with Recorder(0).watching() as recorder:
            for i, row in enumerate(v):
                one = np.array([[0.3, 1.0][i % 2]])
                at, row = np.array([i % 2], np.int32), row[None]
                first, sums = LevelFirst(levels, m, BOUND), LevelSums(levels, m, radius)
                scores = LevelScores(levels, m - 1, radius, level)
                for read in (first, sums, scores):
                    read.take(row, one, at)
                rounds = rounds_of(adjacency, recorder.rng)
                moves = rounds.moves
                once = math.sqrt(moves)
                rounds.sums(first.counts.total, 1.0, 0.1, 1, once)
                rounds.sums(sums.total, radius, 0.1, m, moves)
                rounds.sums(scores.levels.total, level, 0.1, 1, moves)
                rounds.sums(scores.squares.total, level**2, 0.1, 1, once)
        for kind in range(4):
            inputs = recorder.primitives[kind::4]
            nothing = recorder.primitives[kind]
            if adjacency == "replace":
                apart = [moved(*pair) for pair in itertools.combinations(inputs, 2)]
            else:
                empty = SimpleNamespace(**{**vars(nothing), "exact": 0 * nothing.exact})
                apart = [moved(empty, one) for one in inputs]
            most[kind] = max(most[kind], math.sqrt(max(apart)) / rounds.mu(0.1))
    assert (most <= 1 + 1e-9).all()
    assert (most > 0.7).all()


def test_weighted_counts_move_as_they_are_calibrated_for_in_integers(rng):
    """Through the histogram: a row of one bin, or of none, in the place of any other."""
    edges = np.geomspace(0.1, 100.0, 9)
    half = Expected(FAMILIES["binomial"], np.zeros(1), (0.5, 0.5), None)
    sums = [np.zeros(len(edges) - 1, object)]
    for length in [*edges, *(1.01 * edges)]:
        for part in (1.0, 0.4, 0.0):
            counted = NormHistogram(1, edges)
            # Residuals of a mean of a half are up to a half: of the norm that a row is counted by.
            ScoreAccumulator(counted, half).update(np.array([[2 * length, part]]))
            sums.append(radius.weighted_counts(counted.counts[1:]).astype(object))
    for adjacency, pairs in (
        ("add-remove", [(sums[0], one) for one in sums]),
        ("replace", itertools.combinations(sums, 2)),
    ):
        most = max(int(((one - other) ** 2).sum()) for one, other in pairs)
        allowed = (PARTS * radius.counts_sensitivity(len(edges) - 1, adjacency)) ** 2
        assert most == pytest.approx(allowed, rel=1e-12)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_sums_and_counts_get_the_noise_that_is_stated(adjacency, rng):
    """20,000 normals each: variances within five deviations, a false alarm in a million."""
    nothing = np.zeros((20_000, 1), np.int64)
    rounds = rounds_of(adjacency, rng)
    sums, of_sums = rounds.sums(nothing, 3.0, 0.2, 1, rounds.moves)
    counts, of_counts = rounds.noisy(SimpleNamespace(counts=nothing[:, 0]), 0.2)
    for drawn, stated in ((sums, of_sums), (counts, of_counts)):
        assert abs(np.mean((drawn / stated) ** 2) - 1) < 5 * math.sqrt(2 / 20_000)
