"""What is known between two rounds: frames, hidden directions, and what a step leaves out."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privgram.glm.state import (
    LIMITS,
    direction_noise_edge,
    hessian_radius,
    in_frame_of,
    initial_state,
    isotropic,
    lost_squares,
    radius_at_middle,
    raised,
    uncounted_directions,
    with_excess,
    without,
)

N, Q = 5000, 3
ONE = np.eye(Q)


def rows(rng, n=N):
    """Features and a target: [z, y]."""
    z = rng.normal(size=(n, Q)) @ np.array([[1.0, 0, 0], [0.8, 0.5, 0], [0, 0, 3.0]])
    return np.column_stack([z, z @ [1.0, -2.0, 0.5] + rng.normal(size=n)])


def state_at(joint, std, n=N):
    return initial_state(joint, isotropic(std), std * np.eye(len(joint)), float(n))


def test_without_noise_the_state_is_least_squares_in_a_white_frame(rng):
    x = rows(rng)
    state = state_at(x.T @ x, 1e-9)
    np.testing.assert_allclose(state.coef, np.linalg.lstsq(x[:, :Q], x[:, Q])[0], rtol=1e-9)
    z = x[:, :Q] @ state.whitening.T
    np.testing.assert_allclose(z.T @ z, N * np.eye(Q), atol=1e-6 * N)
    residual = x[:, Q] - x[:, :Q] @ state.coef
    assert state.scale == pytest.approx(math.sqrt(np.mean(residual**2)), rel=1e-5)
    assert state.sure_scale == pytest.approx(1.0)
    assert not state.hides
    score = z.T @ residual / state.scale
    np.testing.assert_allclose(score, 0, atol=1e-6)
    truth = x[:, :Q].T @ x[:, Q] - x[:, :Q].T @ x[:, :Q] @ (state.coef + 0.1)
    step = state.step(state.whitening @ truth / state.scale)
    np.testing.assert_allclose(step, -0.1, rtol=1e-6)  # one step of Newton's
    np.testing.assert_allclose(state.along(step), state.whitening @ truth / state.scale, rtol=1e-6)


@pytest.mark.parametrize("q", [3, 15])
@pytest.mark.parametrize(
    ("over", "visible"), [(0.5, 0.0), (1.0, 0.0), (1.15, 0.5), (1.31, 1.0), (9.0, 1.0)]
)
def test_direction_is_seen_by_its_second_moment_over_the_edge_of_noise(over, visible, q):
    """All but one are far above: its edge is 2 and two deviations more."""
    std = 10.0
    edge = 2 * math.sqrt(1) + LIMITS.edge
    values = np.append(np.full(q - 1, 1e5), over * edge * std)
    joint = np.diag(np.append(values, 1e4))
    joint[:q, q] = joint[q, :q] = 0.03 * values
    state = state_at(joint, std)
    assert np.sort(state.visible)[:2] == pytest.approx([visible, 1.0], abs=1e-9)
    unidentified = np.diag(state.unidentified)
    if visible == 0:
        assert state.step(np.ones(q))[-1] == pytest.approx(0, abs=1e-12)
        # A fifth of the scale at the edge: as large as the noise could hide.
        expected = (0.2 * state.scale) ** 2 * N / (edge * std)
        assert unidentified[-1] == pytest.approx(expected)
        assert unidentified[:-1].max() < 1e-9 * unidentified[-1]
    elif visible == 1:
        assert not unidentified.any()


def test_edge_is_what_noise_makes_of_directions_without_signal(rng):
    """400 draws of noise alone: the largest eigenvalue lies beyond it in a tenth or fewer."""
    beyond = 0
    for _ in range(400):
        noise = rng.normal(size=(6, 6))
        values = np.linalg.eigvalsh((noise + noise.T) / math.sqrt(2))
        beyond += values[-1] > direction_noise_edge(values)
    assert beyond <= 40


def test_second_moment_of_scores_is_raised_by_its_noise():
    second = np.diag([100.0, -3.0])
    deviation = 2.0 * math.sqrt(2)
    np.testing.assert_allclose(raised(second, 2.0), np.diag([100 + deviation, 2 * deviation]))


@pytest.mark.parametrize("seen", [True, False])
def test_longer_rows_add_what_they_have_and_hide_nothing(rng, seen):
    """A tenth of a direction was seen: with its long rows all of it is, or nothing changes."""
    x = rows(rng)
    state = state_at(x.T @ x, 1e-6)
    z = x[:, :Q] @ state.whitening.T
    more = z * np.where(np.arange(Q) == 1, math.sqrt(10.0), 1.0)
    std = 1.0 if seen else 0.5 * N
    noise = rng.normal(size=(Q, Q)) * std
    longer = with_excess(state, more.T @ more + (noise + noise.T) / math.sqrt(2), std, 100.0)
    np.testing.assert_array_equal(longer.visible, 1.0)
    white = more @ np.linalg.inv(state.whitening.T) @ longer.whitening.T
    if seen:
        np.testing.assert_allclose(white.T @ white, N * np.eye(Q), atol=0.01 * N)
    assert not longer.hides_all
    assert longer.hessian_bias >= state.hessian_bias


def test_error_of_the_estimate_is_a_longer_score_where_the_hessian_is_larger(rng):
    """The score that an error asks for in the new frame is what the state has of its noise."""
    x = rows(rng)
    error = 1e-6 * rng.normal(size=Q)
    state = state_at(x.T @ x, 1e-6)
    state = replace(state, score_noise=np.outer(state.along(error), state.along(error)))
    longer = with_excess(state, np.diag([10.0, 1.0, 1.0]) * N, 1.0, 100.0)
    asked = longer.along(error)
    np.testing.assert_allclose(longer.score_noise, np.outer(asked, asked), rtol=1e-6)
    np.testing.assert_allclose(longer.coef, state.coef, rtol=1e-9)


def test_estimate_of_noise_alone_is_drawn_to_the_shortest_where_rows_are_long(rng):
    """What is left of its error there is what a hidden direction explains, and no more."""
    x = rows(rng)
    state = replace(state_at(x.T @ x, 1e-6), score_noise=1e6 * (N * LIMITS.unidentified) ** 2 * ONE)
    longer = with_excess(state, np.diag([10.0, 1.0, 1.0]) * N, 1e-6, 100.0)
    before, after = (longer.whitening @ one.coef for one in (state, longer))
    np.testing.assert_allclose(after, before * [0, 1, 1], atol=1e-5)
    size = (N * LIMITS.unidentified) ** 2
    np.testing.assert_allclose(np.diag(longer.score_noise) / size, [1, 1e6, 1e6], rtol=1e-4)


def test_clipped_rows_take_their_part_of_a_step_where_few_make_a_direction(rng):
    """10,000 rows of squared length 5: of 500 that make ten times a direction, 250 are clipped."""
    x = rows(rng)
    state = state_at(x.T @ x, 1e-6)
    longer = with_excess(state, np.diag([10.0, 1.0, 1.0]) * N, 1e-6, 10.0)
    assert longer.longest == pytest.approx(10 / math.sqrt(10))  # of 500 rows
    step = longer.step(np.array([3.0, 4.0, 5.0]))
    extra = longer.left_over(step, 250.0) - longer.left_over(step)
    np.testing.assert_allclose(extra, np.diag([9.0, 0, 0]), atol=1e-9)  # half is lost of 6
    extra = longer.left_over(step, 1e4) - longer.left_over(step)
    np.testing.assert_allclose(extra, np.diag([9 * 81.0, 0, 0]), atol=1e-8)


def test_score_is_averaged_with_the_estimate_by_their_covariances(rng):
    """As weighted least squares does it, in the precisions of both."""
    state = state_at(1.0 * N * np.eye(Q + 1), 1e-6)
    known = rng.normal(size=(Q, Q))
    known = known @ known.T
    state = replace(state, score_noise=known, hessian_bias=0.0)
    score, variance = rng.normal(size=Q), 2.0
    after = state.updated(score, variance)
    precision = np.linalg.inv(known) + ONE / variance
    np.testing.assert_allclose(
        state.along(after.coef - state.coef),
        np.linalg.solve(precision, score / variance),
        rtol=1e-9,
    )
    np.testing.assert_allclose(after.score_noise, np.linalg.inv(precision), rtol=1e-6)


def test_directions_stay_hidden_where_others_have_longer_rows(rng):
    """A hidden one that the frame mixed into all others would have refused them all."""
    x = rows(rng)
    state = replace(state_at(x.T @ x, 1e-6), visible=np.array([0.0, 1.0, 1.0]))
    noise = rng.normal(size=(Q, Q))
    hessian = np.diag([1.0, 1.0, 10.0]) * N + noise + noise.T
    longer = with_excess(state, hessian, math.sqrt(2), 100.0)
    np.testing.assert_allclose(longer.visible, state.visible, atol=1e-6)


@pytest.mark.parametrize(("dummies", "doubt"), [(0, 0.0), (1, 0.0), (2, 0.0), (2, 60.0)])
def test_direction_of_few_rows_is_missed_by_counts(rng, dummies, doubt):
    """Each has fifty rows 100 long, of which counts in doubt by 60 see none.

    They fill only a part of what the frame makes of the direction, and noise alone has no more.
    """
    n = 20_000
    z = np.zeros((n, 5))
    z[:, dummies:] = rng.normal(size=(n, 5 - dummies))
    for at in range(dummies):
        z[50 * at : 50 * at + 50, at] = 100.0
    norms = np.linalg.norm(z, axis=1)
    edges = np.geomspace(0.5 * math.sqrt(5), 200.0, 40)
    counts = (norms[:, None] > np.append(-1.0, edges)).sum(axis=0).astype(float)
    beyond = np.where(counts > max(doubt, 50 * dummies), counts, 0.0)
    state = replace(state_at(rows(rng).T @ rows(rng), 1e-6), rows=float(n), typical=5.0)
    assert uncounted_directions(state, edges, beyond, doubt) == dummies
    assert uncounted_directions(state, edges, beyond, n / 4) == 0  # which rows may fill
    assert uncounted_directions(state, edges, counts, doubt) == 0


def test_estimate_is_the_shortest_of_those_that_differ_where_it_is_hidden(rng):
    x = rows(rng)
    state = state_at(x.T @ x, 1e-6)
    hidden = np.array([False, True, False])
    found = without(state, hidden)
    np.testing.assert_array_equal(found.visible, [1.0, 0.0, 1.0])
    moved = state.along(found.coef - state.coef)
    assert np.abs(moved[[0, 2]]).max() < 1e-9 * abs(moved[1])
    assert abs(state.whitening[1] @ found.coef) < 1e-9
    assert found.typical == pytest.approx(state.typical - 1)


def test_frame_by_the_hessian_there_is_white(rng):
    x = rows(rng)
    state = state_at(x.T @ x, 1e-6)
    z = x[:, :Q] @ state.whitening.T * [1.0, 0.5, 2.0]
    near = in_frame_of(state, z.T @ z, 1e-6)
    into = near.whitening @ np.linalg.inv(state.whitening)
    white = z @ into.T
    np.testing.assert_allclose(white.T @ white, N * np.eye(Q), atol=1e-6 * N)


def test_error_left_by_a_step_is_by_noise_bias_and_bend(rng):
    """Of a step that asks for the score d: noise^2 |d|^2, a tenth of d, and the bend of |d|^2."""
    x = rows(rng)
    state = replace(state_at(x.T @ x, 1e-9), hessian_noise=isotropic(0.0))
    score = np.array([300.0, 0.0, 0.0])
    left = state.left_over(state.step(score))
    expected = np.zeros((Q, Q))
    expected[0, 0] = (0.1 * 300) ** 2
    np.testing.assert_allclose(left, expected, atol=1e-6)
    bent = replace(state, hessian_bias=0.0, curvature=0.5)
    np.testing.assert_allclose(
        bent.left_over(bent.step(score)), (0.5 * 300**2 / N) ** 2 * np.eye(Q), rtol=1e-6, atol=1e-6
    )
    noisy = replace(state, hessian_bias=0.0, hessian_noise=isotropic(0.03))
    drawn = rng.normal(size=(20_000, Q, Q)) * 0.03
    drawn = (drawn + np.swapaxes(drawn, 1, 2)) / math.sqrt(2)
    off = drawn @ score  # what that much noise of the Hessian over n makes of the step
    np.testing.assert_allclose(
        noisy.left_over(noisy.step(score)), off.T @ off / len(off), atol=0.05 * (0.03 * 300) ** 2
    )


def cut(z, radius):
    return z * np.minimum(1.0, radius / np.linalg.norm(z, axis=1))[:, None]


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, shape: rng.normal(size=shape),
        lambda rng, shape: rng.uniform(-1.7, 1.7, shape),
        lambda rng, shape: rng.standard_t(8, shape),
        lambda rng, shape: rng.exponential(1, shape) - 1,
    ],
    ids=["normal", "uniform", "t8", "exponential"],
)
@pytest.mark.parametrize("q", [2, 6, 20])
def test_round_at_the_middle_sees_the_hessian_but_for_its_bias(draw, q, rng):
    """The part that clipping takes off the worst direction: twice what is allowed for, at most."""
    z = draw(rng, (40_000, q))
    z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / len(z))).T
    short = cut(z, radius_at_middle(float(q), q + 1))
    lost = 1 - np.linalg.eigvalsh(short.T @ short / len(z)).min()
    assert -1e-12 < lost < 2 * LIMITS.hessian_bias  # of uniform rows none, up to rounding


def test_second_moment_lost_to_clipping_is_bounded_by_counts(rng):
    z = rng.standard_t(3, (20_000, Q))
    norms = np.linalg.norm(z, axis=1)
    edges = np.append(np.geomspace(1.0, norms.max(), 12), norms.max() + 1)
    beyond = (norms[:, None] > edges).sum(axis=0)
    lost = lost_squares(edges, beyond)
    for edge, most in zip(edges[:-2], lost, strict=False):
        taken = (norms**2 - np.minimum(norms, edge) ** 2).sum()
        assert taken <= most * (1 + 1e-9)
    radius, error = hessian_radius(edges, lost, 1e-9, Q)
    assert radius == edges[np.flatnonzero(beyond == 0)[0]]
    assert error < 1e-3
    assert hessian_radius(edges, lost, 10.0, Q)[0] < radius
