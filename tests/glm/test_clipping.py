"""Where scores are clipped, and what the rank rule allows for."""

import math

import numpy as np
import pytest

from privgram.glm.clipping import CLIPPING, Clip, choose_clip, excess_beyond, norm_edges


def test_edges_rise_by_equal_parts_from_half_the_typical_norm_to_the_largest():
    edges = norm_edges(2.0, 100.0)
    assert edges[0] == 1.0
    assert edges[-1] == 100.0
    np.testing.assert_allclose(edges[1:-1] / edges[:-2], 2 ** (1 / CLIPPING.per_octave))
    np.testing.assert_array_equal(norm_edges(2.0, 0.5), [1.0, 1.0])


def test_clip_is_the_least_norm_with_as_many_scores_beyond_as_the_noise_hides():
    edges, beyond = np.array([1.0, 2.0, 4.0, 8.0]), np.array([300.0, 90.0, 30.0, 0.0])
    for noise, size, n_beyond in ((40.0, 1.0, 300.0), (9.0, 2.0, 90.0), (8.9, 4.0, 30.0)):
        chosen = choose_clip(edges, beyond, noise)
        assert (chosen.size, chosen.n_beyond) == (size, n_beyond)
    assert choose_clip(edges, beyond, 40.0, most=50.0).size == 4.0
    assert choose_clip(edges, beyond, 1e-9).size == 8.0  # without noise nothing is clipped


def test_scores_that_may_point_one_way_exceed_the_clip_by_what_is_allowed():
    """Beyond 1 they do by 195 + 120 + 60 of three steps, beyond 2 by 180, beyond 4 by 60."""
    edges, beyond = np.array([1.0, 2.0, 4.0, 8.0]), np.array([300.0, 90.0, 30.0, 0.0])
    np.testing.assert_array_equal(excess_beyond(edges, beyond), [375.0, 180.0, 60.0, 0.0])
    for size, taken in ((1.0, 375.0), (2.0, 180.0), (4.0, 60.0)):
        noise = taken / (CLIPPING.allowance * size)
        assert choose_clip(edges, beyond, noise * 1.001, one_way=beyond).size == size
        assert choose_clip(edges, beyond, noise * 0.999, one_way=beyond).size == 2 * size
    unseen = choose_clip(edges, beyond, 40.0, one_way=np.zeros(4))
    assert (unseen.size, unseen.n_beyond) == (1.0, 300.0)


def test_counts_say_how_large_squares_of_clipped_scores_are_at_least():
    """300 scores beyond 1 have a square of 1, 90 of them one of 4; what is clipped counts as 4."""
    edges, beyond = np.array([1.0, 2.0, 4.0, 8.0]), np.array([300.0, 90.0, 30.0, 0.0])
    assert choose_clip(edges, beyond, 9.0).squares == 210 * 1 + 90 * 4


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
    assert Clip(5.0, 100.0).error(2.0) == pytest.approx(2.0 * math.sqrt(1 + 1.4**2))
    assert Clip(5.0, 100.0, allowance=0.0).error(2.0) == 2.0
