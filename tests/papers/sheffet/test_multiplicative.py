"""Gaussian sketch and inverse Wishart: calibration, laws, both branches of the adaptive ones."""

import itertools
import math
import re

import numpy as np
import pytest
from scipy import stats
from support.helpers import all_pairs, by, refuses

import privgram as pg
from privgram.exact import int128
from privgram.papers import sheffet
from privgram.papers.sheffet import GaussianSketch, InverseWishart, published
from privgram.papers.sheffet.profiles import RUNGS, AdaptiveLadderProfile, rung_share

EPSILON, DELTA = 1.0, 1e-6
PLAIN = [GaussianSketch(100), InverseWishart(100.0)]
ADAPTIVE = [GaussianSketch(100, adaptive=True), InverseWishart(100.0, adaptive=True)]


@pytest.fixture
def moment():
    rng = np.random.default_rng(0)
    return pg.SecondMoment(4, bound=2.0).update(rng.standard_normal((200, 4)))


def rich(n_copies):
    """A second moment whose smallest eigenvalue is its number of copies."""
    return pg.SecondMoment(3, bound=1.0).update(np.tile(np.eye(3), (n_copies, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", [*PLAIN, *ADAPTIVE], ids=repr)
def test_exact_calibration_is_tight_and_safe(mechanism, adjacency):
    noise = mechanism.calibrate(22, 3.0, EPSILON, DELTA, adjacency)
    assert noise.delta_fp < 1e-12
    spent = noise.privacy.delta(EPSILON) + noise.delta_fp
    assert spent <= DELTA
    assert spent >= (0.98 if mechanism.adaptive else 0.999) * DELTA
    assert noise.bias == noise.regulariser
    assert noise.noise_std == pytest.approx(noise.regulariser / 10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    [
        *itertools.product(PLAIN, [40.0, 100.0, 1e4]),
        (ADAPTIVE[0], 1e4),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in itertools.product(ADAPTIVE, [40.0, 100.0])
        ),
    ],
    ids=repr,
)
def test_epsilon_beyond_finite_precision_is_refused_with_one_to_take(mechanism, epsilon):
    with pytest.raises(ValueError, match="ask for epsilon=") as error:
        mechanism.calibrate(5, 1.0, epsilon, DELTA)
    largest = float(re.search(r"ask for epsilon=(\d+)", str(error.value))[1])
    noise = mechanism.calibrate(5, 1.0, largest, DELTA)
    assert DELTA / 10 < noise.delta_fp <= DELTA / 2
    assert noise.privacy.delta(largest) + noise.delta_fp <= DELTA


def test_delta_below_finite_precision_is_refused():
    refuses(lambda: PLAIN[0].calibrate(5, 1.0, 1.0, 1e-22), ValueError, r"takes, [0-9.e-]+$")


def test_regulariser_at_the_figures_of_the_theory():
    # No eigenvalue release at r = 100, (1, 1e-6): 35.5 B^2 and 43.4 B^2.
    for adjacency, expected in (("add-remove", 35.5), ("replace", 43.4)):
        noise = GaussianSketch(100).calibrate(22, 2.0, EPSILON, DELTA, adjacency)
        assert noise.regulariser / 4 == pytest.approx(expected, abs=0.05)


def test_sketch_and_inverse_wishart_are_one_experiment():
    sketch, inverse = (m.calibrate(22, 2.0, EPSILON, DELTA) for m in PLAIN)
    assert sketch.regulariser == inverse.regulariser
    assert sketch.privacy == inverse.privacy


def test_algorithm_4_takes_its_degrees_of_freedom_from_a_public_n(moment):
    release = pg.release(moment, None, EPSILON, DELTA, mechanism=InverseWishart())
    assert release.parameters["dof"] == 204
    with pytest.raises(ValueError, match="n is private"):
        pg.release(moment, None, EPSILON, DELTA, adjacency="add-remove", mechanism=InverseWishart())
    refuses(lambda: InverseWishart().calibrate(4, 1.0, EPSILON, DELTA), ValueError, "n_rows")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InverseWishart(adaptive=True), "needs dof"),
        (lambda: InverseWishart(3.0).calibrate(4, 1.0, 1.0, 1e-6), "at least the number of col"),
        (lambda: GaussianSketch(9).calibrate(4, 1.0, 1.0, 1e-25), "finite precision"),
        # No epsilon of a whole number is small enough: none is advised.
        (lambda: GaussianSketch(10).calibrate(3, 1.0, 2.0, 1.5e-21), r"takes, 2\.8e-21$"),
        (lambda: GaussianSketch(10).calibrate(3, 1.0, 3.0, 5e-21), "ask for epsilon=1 or less"),
    ],
)
def test_parameters_are_checked(make, message):
    refuses(make, ValueError, message)


# Means and E[N^2] over 800 releases, each entry within 5 standard errors of the law the
# release states: the chance of a false alarm is under 1e-4 in all.
@pytest.mark.long
@pytest.mark.parametrize(
    "mechanism",
    [
        GaussianSketch(50),
        GaussianSketch(2),
        GaussianSketch(50, keep_rows=True),
        InverseWishart(50.0),
        InverseWishart(50.5),
    ],
    ids=repr,
)
def test_law_of_the_release(mechanism):
    moment = rich(100).update(np.array([[0.6, 0.0, -0.8]] * 50))
    rng = np.random.default_rng(11)
    draws = [
        pg.release(moment, None, EPSILON, DELTA, rng=rng, mechanism=mechanism) for _ in range(800)
    ]
    law = draws[0].noise
    mean = moment.matrix() + law.shift * np.eye(3)
    noise = np.array([r.matrix for r in draws]) - mean
    error = noise.std(axis=0) / np.sqrt(len(noise))
    assert np.all(np.abs(noise.mean(axis=0)) < 5 * error)
    squares = noise @ noise
    error = squares.std(axis=0) / np.sqrt(len(noise))
    assert np.all(np.abs(squares.mean(axis=0) - law.sandwich(mean, np.eye(3))) < 5 * error)


def test_kept_rows_are_the_sketch(moment):
    release = pg.release(moment, None, EPSILON, DELTA, mechanism=GaussianSketch(60, keep_rows=True))
    assert release.sketch.shape == (60, 4)
    np.testing.assert_allclose(release.sketch.T @ release.sketch / 60, release.matrix)
    assert pg.release(moment, None, EPSILON, DELTA, mechanism=GaussianSketch(60)).sketch is None


def test_fewer_rows_than_columns_give_a_singular_release(moment):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        release = pg.release(moment, None, EPSILON, DELTA, rng=rng, mechanism=GaussianSketch(2))
        values = np.linalg.eigvalsh(release.matrix)
        # Every entry is rounded by half a step at most: an eigenvalue by half a row of them.
        step = release.noise.regulariser / math.sqrt(2) / 2**int128.GRID_BITS
        assert np.all(np.abs(values[:2]) <= 4 * step / 2)
        assert values[3] > 4 * step


#: Each mechanism and each calibration with one other: a ladder is calibrated for a second.
EITHER = pytest.mark.parametrize(
    ("mechanism", "calibration"), [*zip(ADAPTIVE, ["exact", "published"], strict=True)], ids=repr
)


@pytest.mark.slow
@EITHER
def test_small_eigenvalue_leaves_the_regulariser(mechanism, calibration):
    release = pg.release(rich(1), None, EPSILON, DELTA, mechanism=by(calibration, mechanism))
    p = release.parameters
    assert p["eigenvalue_bound"] == 0.0
    assert p["adjusted_dof"] == 100
    assert p["adjusted_regulariser"] == pytest.approx(p["regulariser"], rel=1e-5)
    assert p["adjusted_regulariser"] >= p["regulariser"]


@pytest.mark.slow
@EITHER
def test_middling_eigenvalue_lowers_the_regulariser(mechanism, calibration):
    mechanism = by(calibration, mechanism)
    noise = mechanism.calibrate(3, 1.0, EPSILON, DELTA)
    copies = round(noise.eigenvalue_shift + 0.5 * noise.regulariser)
    release = pg.release(
        rich(copies), None, EPSILON, DELTA, rng=np.random.default_rng(2), mechanism=mechanism
    )
    p = release.parameters
    assert 0 < p["eigenvalue_bound"] < p["regulariser"]
    assert p["adjusted_dof"] == 100
    assert p["adjusted_regulariser"] == pytest.approx(
        p["regulariser"] - p["eigenvalue_bound"], abs=1e-4
    )
    assert release.noise.regulariser == p["adjusted_regulariser"]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ADAPTIVE, ids=repr)
def test_large_eigenvalue_pays_for_more_rows(mechanism):
    moment = rich(4000)
    release = pg.release(moment, None, EPSILON, DELTA, mechanism=mechanism)
    p, ladder = release.parameters, release.privacy
    assert p["adjusted_regulariser"] == 2**21 * moment.resolution
    s, rows = p["eigenvalue_bound"], p["adjusted_dof"]
    assert 3000 < s < 4000
    # A power of two times r0, and the highest that s + shift reaches.
    k = round(math.log2(rows / 100))
    assert rows == 100 * 2**k
    assert k > 3
    reached = (s + p["eigenvalue_shift"]) / moment.sensitivity_bound**2
    assert ladder.total(k) <= reached < ladder.total(k + 1)
    p = pg.release(moment, None, EPSILON, DELTA, mechanism=published(mechanism)).parameters
    assert p["adjusted_regulariser"] == 2**21 * moment.resolution
    log = math.log(8 / DELTA)
    bound = moment.sensitivity_bound
    s, rows = p["eigenvalue_bound"], p["adjusted_dof"]

    def needed(r):
        return 8 * bound**2 * (math.sqrt(2 * r * log) + log)

    assert needed(rows) <= s < needed(rows + 1)


def breach(rng, location, scale, step):
    """Laplace noise so large that the eigenvalue seems to regularise by itself."""
    return round(1e3 * scale / step)  # and no more: some releases keep their rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "calibration", "rows"),  # none, one, and many of rank one
    all_pairs(
        [*ADAPTIVE, GaussianSketch(100, adaptive=True, keep_rows=True)],
        ["exact", "published"],
        [0, 1, 500],
    ),
    ids=repr,
)
def test_eigenvalue_bound_far_too_high_is_no_error(mechanism, calibration, rows, monkeypatch):
    """Singular data on a rung without regulariser: what delta allows must look like the rest."""
    moment = pg.SecondMoment(3, bound=1.0).update(np.tile([[0.6, 0.0, 0.8]], (rows, 1)))
    monkeypatch.setattr("privgram.papers.sheffet.drawing.laplace_step", breach)
    release = pg.release(moment, None, EPSILON, DELTA, mechanism=by(calibration, mechanism))
    p = release.parameters
    assert p["adjusted_dof"] > 100
    assert p["adjusted_regulariser"] == 2**21 * moment.resolution
    assert np.isfinite(release.matrix).all()


@pytest.mark.slow
def test_rows_that_are_kept_are_bounded(monkeypatch):
    monkeypatch.setattr("privgram.papers.sheffet.drawing.KEPT_ENTRIES", 3 * 150)
    release = pg.release(
        rich(4000),
        None,
        EPSILON,
        DELTA,
        mechanism=GaussianSketch(100, adaptive=True, keep_rows=True),
    )
    assert release.sketch.shape == (150, 3)
    assert release.parameters["adjusted_dof"] == release.noise.rows == 150
    assert np.allclose(release.matrix, release.sketch.T @ release.sketch / 150)


def test_noise_on_the_eigenvalue_is_asked_for_as_the_calibration_states(monkeypatch):
    asked = []

    def none(rng, location, scale, step):
        asked.append((location, scale))
        return round(location / step)

    monkeypatch.setattr("privgram.papers.sheffet.drawing.laplace_step", none)
    moment, mechanism = rich(4000), published(GaussianSketch(5, adaptive=True))
    noise = mechanism.calibrate(3, moment.sensitivity_bound, EPSILON, DELTA)
    p = pg.release(moment, None, EPSILON, DELTA, mechanism=mechanism).parameters
    assert asked == [(-noise.eigenvalue_shift, noise.laplace_scale)]
    assert p["eigenvalue_bound"] == pytest.approx(4000 - noise.eigenvalue_shift, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "adjacency", ["replace", pytest.param("add-remove", marks=pytest.mark.long)]
)
def test_ladder_shares_sum_to_delta(adjacency):
    assert sum(rung_share(k) for k in range(RUNGS + 1)) == pytest.approx(1.0)
    first = sheffet.adaptive_sketch(40, EPSILON, DELTA * rung_share(0), adjacency)
    ladder = AdaptiveLadderProfile(
        40, first.regulariser, first.shift, first.scale, adjacency, EPSILON, DELTA
    )
    assert 0.98 * DELTA <= ladder.delta(EPSILON) <= DELTA
    totals = [ladder.total(k) for k in range(1, RUNGS + 1)]
    assert totals == sorted(totals)
    # Rung k costs about 2^(k/2) times what the first does, as the Gaussian limit has it.
    assert totals[12] / totals[8] == pytest.approx(4.0, rel=0.15)
    for k in (1, 5):
        assert ladder.climb(totals[k - 1]) == k
        assert ladder.climb(np.nextafter(totals[k - 1], 0)) == k - 1


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_ladder_against_its_own_integral(adjacency):
    """The exact delta of the ladder at given data never exceeds the profile.

    Directly: integrate over the released s, for data with a given least of both smallest
    eigenvalues, the curve of the rung that s takes at the ratio it really runs at.
    """
    from itertools import product

    from privgram.papers.sheffet.profiles import sketch_curves

    first = sheffet.adaptive_sketch(40, EPSILON, DELTA * rung_share(0), adjacency)
    ladder = AdaptiveLadderProfile(
        40, first.regulariser, first.shift, first.scale, adjacency, EPSILON, DELTA
    )
    shift, scale = first.shift, first.scale
    for common in (2.0, 50.0, 150.0, 700.0):
        for which, gap in product(range(len(sketch_curves(40, adjacency))), (1.0, 0.5, -1.0)):
            p_shift, q_shift = max(gap, 0.0), max(-gap, 0.0)
            z = np.linspace(-60 * scale, 60 * scale, 20_001)
            s = common + z - shift
            live = s > 0
            p = stats.laplace(p_shift, scale).pdf(z)
            q = stats.laplace(q_shift, scale).pdf(z)
            rungs = np.array([ladder.climb(x) if x > first.regulariser else 0 for x in s + shift])
            total = 0.0
            for k in np.unique(rungs[live]):
                here = live & (rungs == k)
                regulariser = np.maximum(first.regulariser - s[here], 0) if k == 0 else 0.0
                pair = sketch_curves(40 * 2**k, adjacency, gap)[which]
                curve = pair(EPSILON - np.log(p[here] / q[here]), 1 / (common + regulariser))
                total += np.sum(p[here] * curve) * (z[1] - z[0])
            # All s at or below zero are one output, with the whole regulariser.
            below_p = stats.laplace(p_shift, scale).cdf(shift - common)
            below_q = stats.laplace(q_shift, scale).cdf(shift - common)
            pair = sketch_curves(40, adjacency, gap)[which]
            total += below_p * float(
                pair(
                    np.array([EPSILON - math.log(below_p / below_q)]),
                    np.array([1 / (common + first.regulariser)]),
                )[0]
            )
            assert total <= DELTA


@pytest.mark.parametrize("calibration", ["exact", "published"])
@pytest.mark.parametrize("mechanism", [GaussianSketch(2**41), InverseWishart(2.0**41)], ids=repr)
def test_more_degrees_of_freedom_than_can_be_drawn_are_refused(mechanism, calibration):
    with pytest.raises(ValueError, match=r"at most 2\^40"):
        by(calibration, mechanism).calibrate(3, 1.0, EPSILON, DELTA)
