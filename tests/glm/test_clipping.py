"""Where scores are clipped, and what the rank rule allows for."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privgram.adaptive.radius import excess_beyond
from privgram.glm.clipping import CLIPPING, Clip, choose_clip, norm_edges


def test_edges_rise_by_equal_parts_from_half_the_typical_norm_to_the_largest():
    edges = norm_edges(2.0, 100.0)
    assert edges[0] == 1.0
    assert edges[-1] == 100.0
    np.testing.assert_allclose(edges[1:-1] / edges[:-2], 2 ** (1 / CLIPPING.per_octave))
    np.testing.assert_array_equal(norm_edges(2.0, 0.5), [1.0, 1.0])


def test_clip_is_the_least_norm_with_as_many_scores_beyond_as_the_noise_hides():
    edges, beyond = np.array([1.0, 2.0, 4.0, 8.0]), np.array([300.0, 90.0, 30.0, 0.0])
    for noise, size, n_beyond in ((43.0, 1.0, 300.0), (13.0, 2.0, 90.0), (12.8, 4.0, 30.0)):
        chosen = choose_clip(edges, beyond, noise)
        assert (chosen.size, chosen.n_beyond) == (size, n_beyond)
    assert choose_clip(edges, beyond, 43.0, most=50.0).size == 4.0
    assert choose_clip(edges, beyond, 1e-9).size == 8.0  # without noise nothing is clipped


def test_noise_that_is_not_felt_clips_fewer():
    """By half as much noise as is felt half as many are beyond, if counts tell so few.

    And none by a clip so long that noise is felt.
    """
    edges, beyond = np.array([1.0, 2.0, 4.0, 8.0]), np.array([300.0, 90.0, 40.0, 1.0])
    squares = 300 * 1 + 90 * 3  # of scores that are clipped at 2
    cases = ((5, 1, 2), (5, 2.01, 4), (50, 2.01, 4), (95, 2.01, 2), (5, 40, 8))
    for deviation, felt, size in cases:
        q = CLIPPING.felt**2 * squares / (felt * 2.0 * 13.0) ** 2
        clip = choose_clip(edges, beyond, 13.0, deviation=deviation, q=q)
        assert clip.size == size


def test_scores_that_may_point_one_way_exceed_the_clip_by_what_is_allowed():
    """Beyond 1 they do by 195 + 120 + 60 of three steps, beyond 2 by 180, beyond 4 by 60."""
    edges, beyond = np.array([1.0, 2.0, 4.0, 8.0]), np.array([300.0, 90.0, 30.0, 0.0])
    np.testing.assert_array_equal(excess_beyond(edges, beyond), [375.0, 180.0, 60.0, 0.0])
    for size, taken in ((1.0, 375.0), (2.0, 180.0), (4.0, 60.0)):
        noise = taken / (CLIPPING.allowance * size)
        assert choose_clip(edges, beyond, noise * 1.001, one_way=beyond).size == size
        assert choose_clip(edges, beyond, noise * 0.999, one_way=beyond).size == 2 * size
    unseen = choose_clip(edges, beyond, 43.0, one_way=np.zeros(4))
    assert (unseen.size, unseen.n_beyond) == (1.0, 300.0)


def test_counts_say_how_large_squares_of_clipped_scores_are_at_least():
    """300 scores beyond 1 have a square of 1, 90 of them one of 4; what is clipped counts as 4."""
    edges, beyond = np.array([1.0, 2.0, 4.0, 8.0]), np.array([300.0, 90.0, 30.0, 0.0])
    assert choose_clip(edges, beyond, 13.0).squares == 210 * 1 + 90 * 4


#: Made scores (n, 3) that are longer on one side: what clipping takes adds up.
TAILS = {
    "exponential": lambda rng, n: rng.exponential(1, (n, 1)) - 1,
    "lognormal": lambda rng, n: np.exp(rng.normal(size=(n, 1))) - math.exp(0.5),
    "t3, one side": lambda rng, n: np.abs(rng.standard_t(3, (n, 1))) - 1.1,
    "few events": lambda rng, n: (rng.random((n, 1)) < 0.02) * 7.0 - 0.14,
    "spread by features": lambda rng, n: rng.gamma(0.5, 2.0, (n, 1)) - 1,
}


@pytest.mark.parametrize("noise", [4.0, 20.0])
@pytest.mark.parametrize("name", TAILS)
def test_clipped_mass_is_within_its_allowance(name, noise):
    """The largest entry lies within 1.96 allowed deviations, and is no rounding of 0.

    Counts are exact; of features half point one way, as a constant does.
    """
    rng = np.random.default_rng(7)
    n = 20_000
    z = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    scores = z * TAILS[name](rng, n)
    norms = np.linalg.norm(scores, axis=1)
    edges = norm_edges(math.sqrt(3), norms.max())
    beyond = (norms[:, None] > edges).sum(axis=0)
    clip = choose_clip(edges, beyond, noise)
    taken = (scores * np.maximum(0.0, 1 - clip.size / norms)[:, None]).sum(axis=0)
    bias = np.abs(taken).max() / (noise * clip.size)
    assert 0.05 < bias < 1.96 * math.sqrt(CLIPPING.allowance**2)


def test_error_of_a_score_is_noise_and_allowance():
    """The numbers of the page of theory: twice and 3.2 times would be other intervals."""
    assert Clip(5.0, 100.0).error(2.0) == pytest.approx(2.0 * math.sqrt(1 + 1.2**2))
    assert Clip(5.0, 100.0, allowance=0.0).error(2.0) == 2.0
    assert Clip(5.0, excess=10.0).error(2.0) == pytest.approx(math.hypot(2.0, 10.0))
    assert (Clip(5.0, excess=2.0).more(2.0), Clip(5.0, excess=10.0).more(2.0)) == (None, 5.0)


def power_law(power, size=8.0, rank=70.0):
    """Edges, and how many scores of such a tail are longer, as many at `size` as are clipped."""
    edges = 0.5 * 2.0 ** (np.arange(29) / CLIPPING.per_octave)
    return edges, np.where(edges < edges[-1], rank * (size / edges) ** power, 0.0)


@pytest.mark.parametrize("power", [1.2, 1.9, 2.1, 4.0])
def test_tail_is_heavy_where_counts_before_the_clip_fall_as_those_without_second_moment(power):
    edges, beyond = power_law(power)
    clip = choose_clip(edges, beyond, 10.0, deviation=60.0, n=1e5)
    assert (clip.size, clip.n_beyond) == (8.0, pytest.approx(70.0))
    assert clip.is_heavy == (power < 2)
    assert not choose_clip(edges, beyond, 10.0, deviation=60.0, n=700).is_heavy  # all are the tail
    beyond[edges >= 8] = 1.0  # noise in the count at the clip makes no lighter tail of it
    assert choose_clip(edges, beyond, 10.0, deviation=60.0, n=1e5).is_heavy == clip.is_heavy
    edges, beyond = power_law(power, size=1.5)  # within the bulk
    assert not choose_clip(edges, beyond, 10.0, deviation=60.0, n=1e5).is_heavy


def test_what_clipping_may_take_of_a_one_sided_tail_lies_along_its_pull():
    """As much as the pull is above its noise, by each factor of 4 that scores reach beyond."""
    pull, second = np.array([6.0, 0.0, 8.0]), 50 * np.eye(3)
    clip = Clip(5.0, is_heavy=True, reach=16.0)
    along = 4 * (100 - 3 * 3.0**2) / 100 * np.outer(pull, pull)
    np.testing.assert_allclose(clip.one_sided(pull, 3.0, second, 1.0), along)
    np.testing.assert_allclose(replace(clip, reach=4.0).one_sided(pull, 3.0, second, 1), along / 4)
    assert not replace(clip, reach=1.0).one_sided(pull, 3.0, second, 1.0).any()
    assert not clip.one_sided(pull, 6.0, second, 1.0).any()
    # And where squares stand out of their noise, if the pull does.
    second[1, 1] += 15.0
    more = np.diag([0.0, 4 * (100 - 3 * 3.0**2), 0.0])
    np.testing.assert_allclose(clip.one_sided(pull, 3.0, second, 1.0), along + more, atol=1e-9)
    np.testing.assert_allclose(clip.one_sided(pull, 3.0, second, 6.0), along)
    assert not clip.one_sided(pull, 6.0, second, 1.0).any()
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turned = clip.one_sided(turn @ pull, 3.0, turn @ second @ turn.T, 1.0)
    np.testing.assert_allclose(turned, turn @ (along + more) @ turn.T, atol=1e-9)


def test_pull_of_skewed_errors_moves_the_constant_alone():
    second, clip = np.diag([90.0, 50.0, 50.0]), Clip(5.0, is_heavy=True, reach=4.0)
    ones = np.array([0.6, 0.8, 0.0])
    skewed = clip.one_sided(10 * ones, 3.0, second, 1.0, ones)
    np.testing.assert_allclose(skewed, (100 - 3.0**2) * np.outer(ones, ones), atol=1e-9)
    across = np.array([0.0, 0.0, 7.0])  # of two directions, and no second moment is along the ones
    both = clip.one_sided(10 * ones + across, 3.0, second, 1.0, ones)
    assert ones @ both @ ones == pytest.approx(100 - 3.0**2)
    assert both[2, 2] == pytest.approx(49 - 2 * 3.0**2)
    assert np.trace(both - skewed) == pytest.approx(2 * (49 - 2 * 3.0**2))


def test_noise_keeps_no_counts_up_beyond_what_is_well_seen():
    """79 longer scores up to the farthest edge are two deviations of noise, and no tail."""
    edges, beyond = power_law(4.0)
    noisy = np.maximum(beyond, np.where(edges < edges[-1], 79.0, 0.0))
    clip = choose_clip(edges, noisy, 10.0, deviation=38.0)
    assert clip.size < 20
    assert clip.excess < 40 * clip.size  # but for the half octave by the clip
    assert choose_clip(edges, noisy, 10.0).size == edges[-1]  # of which nothing is known


def test_excess_and_lost_squares_are_those_of_counts_that_stand_out_of_their_noise():
    """By one deviation within half an octave of the clip, and by three farther out."""
    edges, beyond = power_law(3.0)
    clip = choose_clip(edges, beyond, 10.0, deviation=0.1)
    scores = 8.0 * (np.arange(70) + 0.5) ** (-1 / 3) * 70 ** (1 / 3)  # as many beyond each edge
    assert clip.excess == pytest.approx((scores - 8).clip(0).sum(), rel=0.1)
    assert clip.lost_squares == pytest.approx((scores**2 - 64).clip(0).sum(), rel=0.25)
    near = choose_clip(edges, beyond, 10.0, deviation=20.0)
    assert near.excess == pytest.approx((scores.clip(8, 8 * 2**0.5) - 8).sum(), rel=0.25)
    assert choose_clip(edges, beyond, 10.0, deviation=70.0).lost_squares == 0.0
    unknown = choose_clip(edges, beyond, 10.0)
    assert (unknown.excess, unknown.lost_squares) == (0.0, 0.0)
