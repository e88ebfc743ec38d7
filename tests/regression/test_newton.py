"""The rules of Newton looks: what released numbers make of the next look."""

import math

import numpy as np
import pytest

import privgram as pg
from privgram.mechanisms.refined import Frame
from privgram.regression import newton as rules
from privgram.regression.design import AllColumns, design

COLUMNS = pg.Columns({"a": (-4, 4), "r": ["n", "s", "w"], "y": bool}, intercept=True)


@pytest.fixture
def space():
    return rules.Space(design(AllColumns(COLUMNS), "y", ["a", "r"], True, {}))


def rows_of(rng, n=3000):
    table = {
        "a": rng.normal(size=n).clip(-4, 4),
        "r": rng.choice(list("nsw"), n),
        "y": rng.random(n) < 0.3,
    }
    return COLUMNS.encode(table), table


def test_a_frame_is_a_change_of_coordinates(rng, space):
    """Coefficients of z and of the features have the same log odds; targets are 0 and 1."""
    rows, table = rows_of(rng)
    moment = rows.T @ rows
    point = rules.Point.first(space, moment, 1e-3, len(rows))
    whole = rows @ space.whole(point.frame).matrix.T
    q = len(point.coef)
    features = rows @ space.design.frame[:-1].T
    np.testing.assert_allclose(
        whole[:, :q] @ point.coef, features @ (space.to_coef(point.frame) @ point.coef), rtol=1e-8
    )
    np.testing.assert_array_equal(space.target[0] + space.target[1] * whole[:, q], table["y"])
    assert not whole[:, q + 1 :].any()
    # White, and started where least squares on the scale of log odds is.
    np.testing.assert_allclose(whole[:, :q].T @ whole[:, :q] / len(rows), np.eye(q), atol=1e-3)
    mean = table["y"].mean()
    assert space.mean(moment) == pytest.approx(mean)
    linear = np.linalg.lstsq(features, table["y"] - mean)[0] / (mean * (1 - mean))
    expected = features @ linear + math.log(mean / (1 - mean))
    np.testing.assert_allclose(whole[:, :q] @ point.coef, expected, atol=1e-3)


def test_a_step_is_newtons_in_a_new_frame(rng, space):
    rows, _ = rows_of(rng)
    moment = rows.T @ rows
    point = rules.Point.first(space, moment, 1e-3, len(rows))
    z = rows @ space.whole(point.frame).matrix.T[:, : len(point.coef)]
    curved, pulled = 0.2 * z.T @ z, 50 * rng.standard_normal(len(point.coef))
    after, move = point.step(curved, pulled, 1e-3, len(rows), 0.3)
    np.testing.assert_allclose(move, np.linalg.solve(curved, pulled), rtol=1e-4)
    new = rows @ space.whole(after.frame).matrix.T[:, : len(move)]
    np.testing.assert_allclose(new @ after.coef, z @ (point.coef + move), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(0.2 * new.T @ new / len(rows), np.eye(len(move)), atol=1e-3)


def test_steps_are_short_where_noise_hides_the_curvature():
    curved = np.diag([1000.0, 1.0, -5.0])
    move = rules.careful(curved, np.array([10.0, 10.0, 10.0]), 20.0)
    np.testing.assert_allclose(move, 10 / (np.array([1000, 1, 0]) + 40 * math.sqrt(3)))
    assert np.linalg.norm(rules.careful(curved, np.full(3, 1e9), 20.0)) == pytest.approx(2.0)


def errors_by_length(rng, n=4000, q=3, spread=0.5):
    """Lengths that scores can have, and what the histogram adds up, where p is 0.2."""
    z = rng.standard_normal((n, q)) * np.exp(spread * rng.standard_normal((n, 1)))
    z /= np.sqrt(0.16 * np.mean(z**2, axis=0))  # the curvature is n times the identity
    return z, 0.8 * np.linalg.norm(z, axis=1), np.where(rng.random(n) < 0.2, 1.0, 0.25)


@pytest.mark.parametrize("noise", [0.5, 5.0, 50.0])
def test_the_clip_adds_the_least_variance(rng, noise):
    """As found by brute force from the rows themselves, within what the grid and its tail guess."""
    n, q = 4000, 3
    _, lengths, errors = errors_by_length(rng)
    grid = np.geomspace(0.5, 60, 29)
    counts = np.bincount(np.searchsorted(grid[:-1], lengths), errors, len(grid))
    chosen = rules.choose_clip(counts, grid, 0.01, noise * grid, 1e-9 * grid**2, n, q)
    part = errors * lengths**2
    trace = part.sum()

    def added(clip):
        weights = np.minimum(1, clip / lengths)
        kept = weights @ part / trace
        moved = (weights / kept - 1) ** 2 @ part / trace
        weighed = rules.WARY * (1 + rules.MISFIT**2 * n) * moved
        return (noise * clip / kept) ** 2 * q / trace + weighed, kept, moved

    costs = [added(clip)[0] for clip in grid]
    cost, kept, moved = added(chosen.size)
    assert cost <= 1.4 * min(costs)
    assert chosen.kept == pytest.approx(kept, abs=0.1)
    assert chosen.moved == pytest.approx(moved, abs=0.04)


def test_no_clip_is_taken_whose_curvature_is_lost(rng):
    n, q = 4000, 3
    _, lengths, errors = errors_by_length(rng)
    grid = np.geomspace(0.5, 60, 29)
    counts = np.bincount(np.searchsorted(grid[:-1], lengths), errors, len(grid))
    free = rules.choose_clip(counts, grid, 0.01, 0.1 * grid, 0.0 * grid, n, q)
    for noise in (3.0, 30.0, 1e6):  # for the last no clip is good, and the best one is taken
        curved_std = noise * grid**2
        chosen = rules.choose_clip(counts, grid, 0.01, 0.1 * grid, curved_std, n, q)
        assert chosen.size < free.size
        blur = 2 * noise * chosen.size**2 * q / (chosen.kept * (errors @ lengths**2))
        blur /= 1.1  # bins count as at their far ends
        assert noise == 1e6 or blur <= rules.BLUR


def test_weights_move_estimates_by_what_is_recorded(rng):
    """D by simulation: the difference of two estimates of the same data, over its variance."""
    n, clip = 2000, 3.0
    z, lengths, _ = errors_by_length(rng, n, 2, 0.4)
    weights = np.minimum(1, clip / lengths)
    kept = weights @ lengths**2 / np.sum(lengths**2)
    curved = 0.16 * z.T @ z
    gaps = []
    for _ in range(400):
        scores = z * np.where(rng.random((n, 1)) < 0.2, 0.8, -0.2)  # at the truth
        gaps.append(np.linalg.solve(curved, (weights / kept - 1) @ scores))
    part = lengths**2 / np.sum(lengths**2)
    moved = (weights / kept - 1) ** 2 @ part
    found = np.trace(np.cov(np.array(gaps).T) @ curved) / 2
    assert found == pytest.approx(moved, rel=0.2)


def test_a_wrong_model_moves_them_by_no_more_than_is_allowed(rng):
    """The mean of y off by `MISFIT` deviations, in the direction that matters most."""
    n, clip = 20_000, 3.0
    z, lengths, _ = errors_by_length(rng, n, 2, 0.4)
    weights = np.minimum(1, clip / lengths)
    kept = weights @ lengths**2 / np.sum(lengths**2)
    moved = (weights / kept - 1) ** 2 @ lengths**2 / np.sum(lengths**2)
    pull = 0.4 * (weights / kept - 1) * z[:, 0]  # of a mean off by a deviation, which is 0.4
    worst = rules.MISFIT**2 * np.sum(pull**2)  # by Cauchy and Schwarz
    assert worst <= 1.1 * (rules.misfit(n) - 1) * moved
    assert worst >= 0.5 * (rules.misfit(n) - 1) * moved


def test_the_curvature_gets_what_makes_both_noises_least():
    clip, mu, before, rows, q = 8.0, 0.3, 40.0, 20_000.0, 4
    share = rules.curved_share(clip, mu, before, rows, q)
    step = math.sqrt((rules.STEP**2 + q * before**2 / rows) / rows)

    def variance(s):
        score = clip / (mu * math.sqrt(1 - s))
        curved = clip**2 / (mu * math.sqrt(2 * s)) * step
        return score**2 + curved**2

    grid = np.linspace(0.01, 0.99, 99)
    assert variance(share) <= min(map(variance, grid)) * (1 + 1e-9)
    assert rules.curved_share(1e3, mu, before, rows, q) == rules.CURVED_MOST


def test_long_last_steps_are_noticed(space, rng):
    curved = 1000 * np.eye(3)
    short, long = np.array([0.1, 0, 0]), np.array([0.5, 0, 0])
    assert not rules.unsettled(short, curved, 0.0, 1000)
    assert rules.unsettled(long, curved, 0.0, 1000)
    assert not rules.unsettled(long, curved, 1000.0, 1000)  # noise hides what it leaves out
    assert rules.unsettled(np.full(3, np.nan), curved, 0.0, 1000)
    rows, _ = rows_of(rng)
    frame = Frame(np.eye(4), 1.0, 1.0)
    move = np.array([0.3, -0.2, 0.1, 0.5])
    found = space.spread(frame, move, rows.T @ rows, 0.0, len(rows))
    assert found == pytest.approx(np.sqrt(np.mean((rows @ (space.basis @ move)) ** 2)))
    assert space.spread(frame, move, rows.T @ rows, 1e6, len(rows)) == 0
