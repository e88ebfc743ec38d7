"""The rules of a regression by scores, each in numbers that a hand can check."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from glm.test_one_step import SURE, Scripted, fitted, made

import privgram as pg
from privgram.glm import state as states
from privgram.glm.clipping import CLIPPING, Clip
from privgram.glm.link import UNSETTLED, GLMEstimator
from privgram.glm.multinomial import RULES, ClassEstimator
from privgram.glm.one_step import OneStepEstimator
from privgram.glm.rounds import Rounds, UnitRounds
from privgram.glm.score_steps import ScoreSteps, moment_share, without_noise
from privgram.glm.state import ScoreState, by_hessian, initial_state, isotropic
from privgram.glm.survival import SurvivalEstimator
from privgram.regression.inference import ALL_OPEN
from privgram.secret.kinds import Model, Outer

ROWS = 100.0


def state(q=2, noise=0.0, **known):
    """A white frame of 100 rows, whose Hessian has noise of this deviation over the rows."""
    made = initial_state(ROWS * np.eye(q + 1), isotropic(0.0), 1e-9 * np.eye(q + 1), ROWS)
    return replace(made, scale=1.0, hessian_noise=isotropic(noise), hessian_bias=0.0, **known)


def judge(**known):
    return SimpleNamespace(problem=SimpleNamespace(purpose="inference"), mean_weight=1.0, **known)


def test_noise_of_a_hidden_direction_is_in_the_score_though_no_step_went_along_it():
    """Isotropic noise N of deviation s has E N v v^T N = s^2 (|v|^2 I + v v^T)."""
    hidden = state(noise=0.1, visible=np.array([1.0, 0.0]))
    unknown = (0.2 * ROWS) ** 2  # a fifth of the residual deviation
    expected = 0.01 * unknown * np.diag([1.0, 2.0])
    np.testing.assert_allclose(hidden.left_over(np.zeros(2)), expected, atol=1e-12)
    np.testing.assert_allclose(hidden.unidentified, np.diag([0.0, 0.04]), atol=1e-12)


def test_estimate_that_moved_owes_the_noise_of_the_score_and_of_the_step():
    one = state(noise=0.1)
    step = np.array([0.3, 0.0])
    along = one.along(step)
    np.testing.assert_allclose(along, [30.0, 0.0])
    left = np.trace(one.left_over(step)) / 2
    assert left == pytest.approx(0.01 * (2 * 900 + 900) / 2)
    moved = one.moved(step, 7.0)
    np.testing.assert_allclose(moved.score_noise, (7.0 + left) * np.eye(2))
    np.testing.assert_allclose(moved.coef, one.coef + step)


@pytest.mark.parametrize(("part", "lost"), [(0.99, False), (1.01, True)])
def test_hessian_whose_noise_is_an_eighth_of_it_is_not_trusted(part, lost):
    """Its mean square over 2 directions is 3 s^2."""
    rough = state(noise=math.sqrt(part / 8 / 3))
    assert rough.hessian_rse == pytest.approx(part / 8)
    assert OneStepEstimator._is_lost(judge(), rough) == lost


@pytest.mark.parametrize(
    ("sure", "square", "contradicted"),
    [(0.0, 0.021, False), (0.0, 0.019, True), (0.5, 0.16, False), (0.5, 0.14, True)],
)
def test_scores_far_shorter_than_the_scale_contradict_it(sure, square, contradicted):
    """Below three tenths of what is sure of its square, or a fiftieth of all."""
    given = state(sure_scale=sure)
    assert OneStepEstimator._contradicts(judge(), given, square) == contradicted


@pytest.mark.parametrize(("square", "sure"), [(50.0, 0.5 - 0.03), (10.0, 0.1 - 0.03), (90.0, 0.6)])
def test_errors_alone_are_sure_of_no_more_of_a_scale_than_was(square, sure):
    """Less 1.5 deviations of the noise on the diagonal, of 100 rows; a share of what is left."""
    seen, noise = [], math.sqrt(2.0)
    rounds = SimpleNamespace(sums_at=lambda at, kind: (kind,), std=[9.0])
    rounds.outer = lambda q, radius: Outer(Model.features(q), radius, "squares")

    def take(total, share):
        seen.append((total.size, total.radius, share))
        rounds.std.append(noise)
        return np.array([[square]])

    rounds.take = take
    one = SimpleNamespace(
        rounds=rounds, q=2, most=1.0, of_units=False, left=0.4, _far=lambda leading: 7.0,
        _map_to=lambda leading: leading, _at=lambda given: SimpleNamespace(matrix=np.eye(3)),
    )  # fmt: skip
    found = OneStepEstimator._with_errors(one, state(sure_scale=0.6))
    assert found.sure_scale == pytest.approx(sure)
    assert seen == [(1, 7.0, 0.15 * 0.4)]


def test_longer_rows_leave_the_hessian_off_by_their_noise():
    one = replace(state(), hessian_bias=0.1)
    seen = states.with_excess(one, np.diag([3 * ROWS, ROWS]), 5.0, 10.0)
    assert seen.hessian_bias == pytest.approx(math.hypot(0.1, 5.0 / (3 * ROWS)))
    none = states.with_excess(one, ROWS * np.eye(2), 5.0, 10.0)
    assert none.hessian_bias == pytest.approx(math.hypot(0.1, 5.0 / ROWS))


def test_steps_of_a_released_hessian_bend():
    """A step leaves out a quarter of its square over the rows, with this frame's bias none."""
    one = by_hessian(state(), np.eye(2), ROWS * np.eye(2), 1e-6)
    step = np.array([0.2, 0.0])
    np.testing.assert_allclose(one.left_over(step), np.eye(2), rtol=1e-6)  # (.25 20^2 / 100)^2
    far = np.array([math.sqrt(4 * 8 / math.sqrt(ROWS)), 0.0])  # that leaves out 8 deviations
    assert not one.bends(0.999 * far, states.LIMITS.most_bent)
    assert one.bends(1.001 * far, states.LIMITS.most_bent)


@pytest.mark.parametrize("fine", [0.002, SurvivalEstimator.fine])
@pytest.mark.parametrize(("std", "within"), [(0.5, True), (20.0, False)])
def test_round_for_the_hessian_takes_what_makes_its_noise_fine(std, within, fine):
    """A five hundredth of it, as a mean square, or the most that there is: 6 % of mu^2."""
    _, share = states.hessian_round(lambda radius: std, state(), 1.0, fine=fine)
    noise = 2 * (std / ROWS) ** 2 / share
    assert noise <= fine * (1 + 1e-9) if within else share == 0.06
    assert share >= 0.01


@pytest.mark.parametrize("small", [1, 2, 5])
def test_edge_of_noise_is_by_the_directions_that_noise_may_have_made(small):
    """2 sqrt(m) of m of them, and two deviations more, as long as others are far above."""
    values = np.append(np.full(15 - small, 1e5), np.ones(small))
    edge = min(2 * math.sqrt(small) + 2, 2 * math.sqrt(16))
    assert states.direction_noise_edge(values) == pytest.approx(edge)


def last(first, second, squares=None, robust=True, **known):
    """The fit by two scripted scores (vector, deviation), and the state that it began from."""
    begun = state(**known)
    script = Scripted(first, second)
    script.problem.robust = robust
    if squares is not None:
        script.rounds.take = lambda *_: squares
    return script._last_scores(begun, Clip(1.0, 0.0)), begun


def test_noise_of_a_fit_is_that_of_both_scores_its_clip_and_what_steps_left():
    """Weights are in proportion to what the other estimate misses."""
    first, second = np.array([3.0, 1.0]), np.array([-2.0, 1.0])
    fit, begun = last((first, 5.0), (second, 4.0), noise=0.1)
    behind = 25 + np.trace(begun.left_over(begun.step(first))) / 2
    ahead = 16 + 0.01 * 3 * behind
    part = behind / (behind + ahead)
    step = begun.step(first) + part * begun.step(second)
    np.testing.assert_allclose(fit.coef, begun.coef + step)
    variance = (25 * (1 - part) ** 2 + 16 * part**2) * (1 + 1.2**2)  # with the clip's allowance
    # Of the first step the second has made good its part.
    left = begun.left_over(step - part * begun.step(first))
    expected = variance * np.eye(2) + left
    np.testing.assert_allclose(fit.noise, begun.covariance(expected))
    assert fit.path.noise_std**2 * (1 + CLIPPING.allowance**2) == pytest.approx(variance)
    # No two estimates together have less noise than this.
    assert fit.path.noise_std**2 >= 1 / (1 / 25 + 1 / 16)


@pytest.mark.parametrize("robust", [True, False])
def test_sampling_errors_count_the_parameters(robust):
    squares = np.diag([80.0, 120.0])
    fit, begun = last((np.zeros(2), 1.0), (np.zeros(2), 1.0), squares, robust)
    meat = squares if robust else 100.0 * np.eye(2)
    expected = ROWS / (ROWS - 2) * begun.covariance(meat)
    np.testing.assert_allclose(fit.sampling, expected)


def test_robust_errors_are_known_to_a_fiftieth():
    """Their round takes as much as that needs, on the table of the tests of coverage."""
    fit = fitted(made(10_000))
    assert fit.parameters["method"] == "scores"
    assert fit.parameters["round_noise_std"][-1] < 0.02 * fit.nobs


def test_is_taken_for_the_scores_of_a_sample_is_raised_by_its_noise():
    squares = np.diag([80.0, 120.0])
    script = Scripted((np.zeros(2), 1.0), (np.zeros(2), 1.0))
    script.rounds.take, script.rounds.std = (lambda *_: squares), [3.0]
    begun = state()
    fit = script._last_scores(begun, Clip(1.0, 0.0))
    raised = squares + 3 * math.sqrt(2) * np.eye(2)
    np.testing.assert_allclose(fit.sampling, ROWS / (ROWS - 2) * begun.covariance(raised))


def test_counts_of_fewer_rows_than_four_deviations_are_none():
    noise = SimpleNamespace(counts_std=lambda mu: 10.0)
    one = SimpleNamespace(rounds=SimpleNamespace(noise=noise, mu=lambda share: share))
    assert OneStepEstimator._doubt(one, 0.1) == 40.0
    one._doubt = lambda share: OneStepEstimator._doubt(one, share)
    found = OneStepEstimator._seen(one, np.array([100.0, 41.0, 39.0]), 0.1)
    np.testing.assert_array_equal(found, [100.0, 41.0, 0.0])


def test_one_round_is_the_average_of_two_by_their_shares(monkeypatch):
    """Errors that cancel in it: eight hundredths of the first, and the rest of the second."""
    error = np.random.default_rng(0).normal(size=(6, 6))
    error = 3.0 * (error + error.T)
    exact, seen, parts = fitted(**SURE), [], {}
    real_take, real_parts = Rounds.take, OneStepEstimator._parts

    def take(rounds, moment, share):
        found = real_take(rounds, moment, share)
        seen.append(share)
        off = error if len(seen) == 1 else -error * seen[0] / share
        mask = np.ones_like(error)
        mask[2:5, 2:5] = 0.0  # what is known of a factor is imposed
        return found + off * mask

    def noted(estimator, begun, coef, sampling, noise, **more):
        parts.update(sampling=sampling, q=len(coef), rows=begun.rows)
        return real_parts(estimator, begun, coef, sampling, noise, **more)

    monkeypatch.setattr(Rounds, "take", take)
    monkeypatch.setattr(OneStepEstimator, "_parts", noted)
    monkeypatch.setattr(OneStepEstimator, "_worse", lambda *_: True)
    fit = fitted(**SURE)
    assert fit.parameters["method"] == "one round"
    assert seen == pytest.approx([0.08, 0.92])
    np.testing.assert_allclose(fit.params, exact.params, atol=0.02 * np.min(exact.bse))
    rows, q = parts["rows"], parts["q"]
    np.testing.assert_allclose(parts["sampling"], rows**2 / (rows - q) * np.eye(q))


@pytest.fixture(scope="module")
def fit():
    return fitted()


@pytest.mark.parametrize(("part", "is_open"), [(0.5, False), (0.99, False), (1.01, True)])
def test_is_mostly_hidden_is_open_and_else_counted(fit, part, is_open):
    known = fit.noise + fit.sampling
    found = replace(fit, unidentified=part * known)
    if is_open:
        assert found.inference.refusal == ALL_OPEN
    else:
        np.testing.assert_allclose(found.bse, math.sqrt(1 + part) * np.asarray(fit.bse))


def test_errors_of_a_model_are_its_own():
    np.testing.assert_array_equal(
        GLMEstimator._pooled(SimpleNamespace(q=3), None, 50.0), 50 * np.eye(3)
    )


class Begun(Exception):
    """What a test wanted to see was seen."""


def begun_by(table, bounds, monkeypatch, formula="y ~ a"):
    """An estimator and its state once least squares were taken for a start."""
    seen = []

    def noted(*begun):
        seen.extend(begun)
        raise Begun

    monkeypatch.setattr(GLMEstimator, "_clearly", noted)
    pg.regress(table, formula, bounds, family="binomial", **SURE)
    return seen


@pytest.mark.parametrize("constant", [True, False])
def test_target_that_is_always_the_same_is_seen(monkeypatch, constant):
    a = np.linspace(-1, 1, 4000)
    y = np.zeros(4000, bool) if constant else np.arange(4000) % 9 == 0
    estimator, _ = begun_by({"a": a, "y": y}, {"a": (-1, 1), "y": bool}, monkeypatch)
    assert estimator.constant == constant


def test_offset_is_taken_off_where_steps_begin(monkeypatch):
    """A slope of 1 beside an offset of -2 times the feature, which fall together."""
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, 4000)
    y = rng.random(4000) < 1 / (1 + np.exp(a))
    bounds = {"a": (-1, 1), "o": (-2, 2), "y": bool}
    _, state = begun_by({"a": a, "o": -2 * a, "y": y}, bounds, monkeypatch, "y ~ a + offset(o)")
    assert state.coef[0] == pytest.approx(1.0, rel=0.3)


def test_step_changes_predictors_by_at_least_so_much():
    """The root mean square over rows, less two deviations of the noise in its square."""
    one = SimpleNamespace(joint=np.eye(3), rounds=SimpleNamespace(std=[5.0]))
    first, step = np.diag([400.0, 100.0, 1.0]), np.array([0.5, 1.0])
    square = 0.25 * 400 + 100 - 2 * math.sqrt(2) * 5 * 1.25
    assert GLMEstimator._spread(one, first, step, 50.0) == pytest.approx(math.sqrt(square / 50))
    one.rounds.std = [500.0]
    assert GLMEstimator._spread(one, first, step, 50.0) == 0.0


def test_middle_step_leaves_the_hessian_where_it_began():
    """Twice its bend times its length is what the Hessian may be off by, beside its own bias."""
    begun = replace(state(), hessian_bias=0.1, curvature=0.25)
    one = SimpleNamespace(
        q=2, usual_clip=1.0, longest_step=2.0, _score=lambda *_: (np.array([30.0, 0.0]), 1.0),
        _noise_at=lambda *_: 1.0, levels=False, sure_of_far=0.0,
    )  # fmt: skip
    moved, step, _ = GLMEstimator._middle(one, begun, 0.1)
    clear = 1 - 2 / 900  # no farther than the score stands out of its noise
    np.testing.assert_allclose(step, [0.3 * clear, 0.0])
    assert moved.hessian_bias == pytest.approx(math.hypot(0.1, 2 * 0.25 * 0.3 * clear))


def test_counts_say_the_level_but_for_their_noise():
    """Means of .2 where .3 were counted, with a doubt of a tenth of it."""
    begun = state()
    one = SimpleNamespace(q=2, levels=True, mean=(0.3, 0.03), weights=(0.3, 0.2))
    levelled = GLMEstimator._levelled(one, begun)
    far = math.log(1.5) - 0.1
    np.testing.assert_allclose(levelled.coef, begun.coef + np.array([0.0, far]))
    grown = np.linalg.inv(levelled.whitening)[-1] @ np.linalg.inv(levelled.whitening)[-1]
    before = np.linalg.inv(begun.whitening)[-1] @ np.linalg.inv(begun.whitening)[-1]
    assert grown / before == pytest.approx(math.exp(far))  # the mean weight
    one.mean = 0.21, 0.03
    np.testing.assert_allclose(GLMEstimator._levelled(one, begun).coef, begun.coef)
    # Two deviations of the mean weight's own noise are a tenth of it too.
    one.mean, noisy = (0.3, 0.03), state(noise=0.01 / math.sqrt(2))
    less = GLMEstimator._levelled(one, noisy).coef[-1] - noisy.coef[-1]
    assert less == pytest.approx(math.log(1.5) - 0.1 * math.sqrt(2))


def test_path_that_bends_is_refused(monkeypatch):
    from glm.test_huber import fitted as by_huber

    seen = []

    def bends(begun, step, most, noise=0.0):
        seen.append(most)
        return True

    monkeypatch.setattr(ScoreState, "bends", bends)
    assert by_huber().refusal == UNSETTLED
    assert seen == [8.0]


def test_hessian_of_hubers_loss_is_known_to_a_fiftieth():
    """Its noise on the table of the test of coverage, in every round that it takes."""
    from glm.test_huber import fitted as by_huber

    fit = by_huber()
    *_, one, other, third, _ = fit.parameters["round_noise_std"]
    assert max(one, other, third) < 0.02 * fit.nobs


@pytest.mark.parametrize("spike", [30.0, 11.0])
def test_direction_beyond_the_noise_is_what_the_semicircle_law_takes_it_for(spike):
    """A spike s in noise of edge e is seen at s + e^2 / (4 s)."""
    edge = 20.0
    values = np.array([spike + edge**2 / (4 * spike), 3.0, -1.0])
    found = without_noise(values, edge, 1e9)
    assert found[0] == pytest.approx(spike)
    np.testing.assert_allclose(found[1:], max(values.sum() - spike, 0.0) / 2)


@pytest.mark.parametrize(
    ("public", "std", "share"), [(None, 1.0, 0.12), (10**6, 1.0, 0.01), (10**6, 1000.0, 0.102)]
)
def test_moment_of_a_classifier_takes_what_makes_its_noise_a_twentieth(public, std, share):
    """Of a typical direction, which has a quarter of the rows' squares; 1 to 12 % of mu^2."""
    moment = SimpleNamespace(n_columns=4, bound=1.0)
    rounds = SimpleNamespace(std_at=lambda bound, part: std, moment=moment)
    found = moment_share(rounds, RULES, public)
    assert found == pytest.approx(share, rel=0.01)
    if 0.01 < found < 0.12:
        assert 2 * math.sqrt(4) * std / math.sqrt(found) == pytest.approx(0.05 * 10**6 / 4)


@pytest.mark.slow
def test_rows_that_are_held_out_are_none_that_steps_learn_from(monkeypatch):
    """One step, without noise: of half of the rows it is as long as of all, and not a third."""
    estimators = pytest.importorskip("privgram.estimators")
    real = ClassEstimator.__init__

    def with_one_step(estimator, rounds, problem, public):
        real(estimator, rounds, replace(problem, rules=replace(RULES, steps=1)), public)

    monkeypatch.setattr(ClassEstimator, "__init__", with_one_step)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 2))
    y = (X[:, 0] + rng.normal(size=4000) > 0).astype(int)
    options = {**SURE, "bound": 1.5, "classes": [0, 1], "random_state": 0}
    whole, half = (
        estimators.PrivateClassifier(holdout=part, **options).fit(X, y).coef_[0, 0]
        for part in (0.0, 0.5)
    )
    assert half == pytest.approx(whole, rel=0.1)


def test_coefficients_are_the_mean_of_those_after_the_last_quarter_of_the_steps(monkeypatch):
    """Of 40 equal scores: after steps 31 to 40, 35.5 of them on average."""
    pytest.importorskip("sklearn")
    from privgram import estimators

    score = np.array([[1.0, -1.0], [0.0, 0.0], [3.0, -3.0]])
    seen, real = [], ScoreSteps.of_columns

    def of_columns(steps, coef):
        seen.append(coef)
        return real(steps, coef)

    monkeypatch.setattr(ScoreSteps, "score", lambda *_: score)
    monkeypatch.setattr(ScoreSteps, "of_columns", of_columns)
    options = {**SURE, "bound": 1.0, "classes": [0, 1], "random_state": 0}
    X = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    steps = estimators.PrivateClassifier(**options).fit(X, X[:, 0] > 0).result_.parameters
    each = steps["length"] * 2 / 400
    np.testing.assert_allclose(seen, [35.5 * each * score], rtol=1e-9)


def test_rows_of_a_unit_are_learnt_where_its_bound_allows_for_more():
    """It may have 9 and has 3 on average: a usual score is sqrt(3) times shorter."""
    one = SimpleNamespace(
        rounds=SimpleNamespace(std=[1.0], parameters={}), public=100,
        problem=SimpleNamespace(design=SimpleNamespace(intercept=True)), bound_is_chosen=False,
        joint=np.eye(3), ones=np.eye(3)[1], most=9.0, each=9.0, usual_clip=6.0,
    )  # fmt: skip
    rows = OneStepEstimator._count_rows_of_units(one, np.diag([0.0, 300.0, 0.0]))
    assert (rows, one.each, one.most) == (300.0, 3.0, 9.0)
    assert one.usual_clip == pytest.approx(6.0 / math.sqrt(3))


@pytest.mark.parametrize(("of_units", "bias"), [(False, 0.1), (True, 0.3)])
def test_clipped_units_leave_the_hessian_off_by_more(of_units, bias):
    one = SimpleNamespace(images=np.eye(3), of_units=of_units)
    found = OneStepEstimator._state(one, np.eye(3), ROWS * np.eye(3), isotropic(1.0), 1.0, ROWS)
    assert found.hessian_bias == bias


def test_bound_of_units_is_near_the_median_of_their_norms():
    shares = []

    def noisy(moment, share):
        shares.append(share)
        return (np.array([100.0, 350.0, 600.0, 50.0]),)

    one = SimpleNamespace(moment=None, noisy=noisy)
    found = UnitRounds.bounded(one, pg.Unit("who"), np.array([1.0, 2.0, 3.0, 4.0]))
    assert found.bound == 3.0
    assert shares == [0.03]
