"""The rank rule: what a row moves in weighted counts, sums from the far end, and the choice."""

import itertools

import numpy as np
import pytest
from scipy.special import binom

from privgram.adaptive import radius
from privgram.adaptive.radius import (
    RadiusChoice,
    bin_edges,
    choose_radius,
    counts_sensitivity,
    cumulative_counts,
    cumulative_std,
    weighted_counts,
)


def moved(size, adjacency):
    """What one row moves weighted counts by, at most: by going through all that it may do."""
    tables = [np.zeros(size, np.int64), *np.eye(size, dtype=np.int64)]  # in no bin, or in one
    sums = [weighted_counts(table).astype(float) for table in tables]
    if adjacency == "add-remove":
        return max(np.linalg.norm(one) for one in sums)
    return max(np.linalg.norm(one - other) for one, other in itertools.combinations(sums, 2))


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 24, 65])
def test_sensitivity_is_the_most_that_a_row_moves(size, adjacency):
    assert counts_sensitivity(size, adjacency) == pytest.approx(moved(size, adjacency), rel=1e-12)
    with pytest.raises(ValueError, match="read-only"):  # kept, as the sensitivity of them is
        radius._weights(size)[0, 0] = 0


def test_weights_are_the_root_of_sums():
    size = 12
    weights = np.array([weighted_counts(row)[::-1] for row in np.eye(size, dtype=np.int64)]).T
    k = np.arange(size)
    expected = binom(2 * k, k) / 4.0**k
    np.testing.assert_allclose(weights[:, -1][::-1] / 1024, expected, atol=2.0**-11)
    root = weights / 1024
    np.testing.assert_allclose(root @ root, np.triu(np.ones((size, size))), atol=size * 2.0**-10)


def test_sums_are_exact_without_noise_and_of_whole_numbers():
    counts = np.array([1 << 40, 0, 17, 5, 0, 0, 3, 1, 0, 2])
    released = weighted_counts(counts)
    assert released.dtype == np.int64
    expected = np.cumsum(counts[::-1])[::-1]
    np.testing.assert_allclose(cumulative_counts(released.astype(float)), expected, rtol=1e-9)


def tree(size):
    """Counts in every node of a binary tree over so many bins."""
    height = int(np.ceil(np.log2(size)))
    rows = [
        (np.arange(size) >> level == node)
        for level in range(height + 1)
        for node in range(-(-size >> level))
    ]
    return np.array(rows, dtype=float)


@pytest.mark.parametrize("size", [16, 24, 33, 64])
def test_sums_have_less_noise_than_by_a_histogram_or_the_best_of_a_tree(size):
    """Variances, by linear algebra: sums by least squares from all nodes of a tree."""
    sums = np.tril(np.ones((size, size)))
    released = np.array([weighted_counts(row) for row in np.eye(size, dtype=np.int64)[::-1]]).T

    def deviations(matrix, counts_sensitivity):
        return counts_sensitivity * np.sqrt(
            np.diag(sums @ np.linalg.inv(matrix.T @ matrix) @ sums.T)
        )

    deviation = deviations(released.astype(float), counts_sensitivity(size, "add-remove"))
    nodes = tree(size)
    by_tree = deviations(nodes, np.sqrt(nodes.sum(axis=0).max()))
    assert deviation[: size * 3 // 4].max() < 0.9 * by_tree[: size * 3 // 4].max()
    assert deviation[-1] < 0.7 * np.sqrt(size)
    assert deviation[0] == pytest.approx(np.linalg.norm(released[:, 0]) / 1024)


def test_noisy_sums_are_near_and_fall():
    """Over 400 draws means are within 5 deviations: a false alarm in 10^5 runs."""
    rng, size, draws = np.random.default_rng(0), 24, 400
    counts = np.rint(10_000 * 0.6 ** np.arange(size)).astype(np.int64)
    counts[15:] = 0
    exact = np.cumsum(counts[::-1])[::-1]
    std = counts_sensitivity(size, "replace") / 0.3
    several = np.array(
        [
            cumulative_counts(weighted_counts(counts) + rng.normal(0, std, size))
            for _ in range(draws)
        ]
    )
    assert (np.diff(several) <= 0).all()
    assert (several >= 0).all()
    # Where counts are many nothing is forced.
    many = slice(0, 8)
    stated = cumulative_std(size, std)
    assert (np.abs(several.mean(axis=0) - exact) / stated)[many].max() < 5 / np.sqrt(draws)
    assert (several.std(axis=0) < 1.2 * stated).all()
    np.testing.assert_allclose(several.std(axis=0)[:4], stated[:4], rtol=5 / np.sqrt(2 * draws))


def test_choice_is_the_least_edge_with_few_rows_beyond():
    edges = bin_edges(1.0, 10.0, 2)
    np.testing.assert_allclose(edges**2, [1, 2, 4, 8, 16, 32, 64, 100])
    beyond = np.array([900.0, 300, 80, 41, 39, 10, 2, 0])
    assert choose_radius(edges, beyond, 40.0) == RadiusChoice(edges[4], 39.0)
    assert choose_radius(edges, beyond, 1e6) == RadiusChoice(edges[0], 900.0)
    assert choose_radius(edges, beyond + 50, 40.0) == RadiusChoice(edges[-1], 50.0)


@pytest.mark.parametrize("largest", [0.5, 1.0])
def test_there_is_always_an_edge(largest):
    np.testing.assert_array_equal(bin_edges(1.0, largest, 2), [1.0])
    assert counts_sensitivity(1, "add-remove") == 1024
    assert cumulative_counts(np.array([-4096.0])).tolist() == [0.0]
