"""The rules by which second looks are decided: plain numbers in, plain numbers out."""

import math

import numpy as np
import pytest

from privgram import Refined
from privgram.mechanisms.refined import bins, choose_radius, tail_of

ROWS, COLUMNS, MU = 100_000, 5, 0.2
GRID = bins(COLUMNS, 4000.0 * COLUMNS)
NOISE = 1 / (MU * 0.8) / math.sqrt(2)
COUNTS_STD = 1 / (MU * math.sqrt(0.1))


def counted(squares):
    return np.bincount(np.searchsorted(GRID[:-1], squares), minlength=len(GRID)).astype(float)


def chosen(squares, std=COUNTS_STD, seed=0):
    noise = np.random.default_rng(seed).normal(scale=std, size=len(GRID))
    return choose_radius(counted(squares) + noise, GRID, std, NOISE, len(squares))


def excess(squares, square):
    return np.maximum(squares - square, 0.0).sum()


def lengths(kind, rng):
    normal = rng.standard_normal((ROWS, COLUMNS))
    if kind == "normal":
        return (normal**2).sum(axis=1)
    if kind == "exponential":
        return (rng.exponential(size=(ROWS, COLUMNS)) ** 2).sum(axis=1) / 2
    return (normal**2).sum(axis=1) * 3 / rng.chisquare(5, ROWS)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_a_histogram_has_the_noise_that_a_row_needs(adjacency):
    """A row replaced takes one from a count and adds it to another."""
    moved = np.array([1.0, -1.0]) if adjacency == "replace" else np.array([1.0, 0.0])
    record = Refined().calibrate(3, 2.0, 0.5, 1e-6, adjacency)
    assert record.counts_std(MU) == pytest.approx(np.linalg.norm(moved) / MU)


def test_bins_end_at_the_longest_row():
    np.testing.assert_allclose(bins(3.0, 24.0), 3 * 2 ** (np.arange(7) / 2))
    np.testing.assert_allclose(bins(3.0, 13.0)[-2:], [12.0, 13.0])
    np.testing.assert_array_equal(bins(3.0, 2.0), [3.0])
    wide = bins(3.0, 3e6)
    assert np.all(np.diff(np.log(wide))[:-1] >= np.log(1.4))
    assert len(wide) < 20  # few, so that the sum of their noise is small


@pytest.mark.parametrize("kind", ["normal", "exponential", "t5"])
def test_with_little_noise_the_excess_is_known(kind):
    squares = lengths(kind, np.random.default_rng(1))
    tail = tail_of(counted(squares), GRID, 1.0, ROWS)
    at = np.searchsorted(tail.places, COLUMNS * np.array([2.0, 3.0, 4.5, 6.0]))
    true = np.array([excess(squares, place) for place in tail.places[at]])
    assert np.all(np.abs(tail.excess[at] - true) < 0.2 * true + 0.3 * math.sqrt(ROWS))
    assert np.all(np.array([tail.most(i) for i in at]) > 0.95 * true)
    number = np.array([(squares > place).sum() for place in tail.places[at]])
    assert np.all(np.abs(tail.rows[at] - number) < 0.2 * number + 10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "exponential", "t5"])
def test_the_upper_end_holds_the_excess_in_noise(kind):
    """In 100 histograms, at places from two to eight times the mean of squares."""
    squares = lengths(kind, np.random.default_rng(1))
    rng, held = np.random.default_rng(2), []
    for _ in range(100):
        noisy = counted(squares) + rng.normal(scale=COUNTS_STD, size=len(GRID))
        tail = tail_of(noisy, GRID, COUNTS_STD, ROWS)
        at = np.searchsorted(tail.places, COLUMNS * np.array([2.0, 4.0, 8.0]))
        held.append([tail.most(i) >= 0.98 * excess(squares, tail.places[i]) for i in at])
    assert np.mean(held, axis=0).min() > 0.75


def test_rows_that_noise_hides_are_thought_of():
    """Fifty rows, far out: the histogram cannot tell, and what is stated allows for them."""
    normal = lengths("normal", np.random.default_rng(1))
    far = np.append(normal, 50.0 * COLUMNS * np.ones(50))
    choices = [chosen(far, seed=seed) for seed in range(20)]
    allowed = [one.most > 0.02 * excess(far, one.square) for one in choices]
    assert np.mean(allowed) > 0.5
    for choice in choices:
        assert choice.most > choice.expected >= 0
        assert min(choice.clipped, choice.clipped_std) >= 0


def test_rows_of_one_length_are_not_clipped():
    """As of columns with two values; whose bin says no more than that they are in it."""
    for length in (11.0, 12.0, 14.0):
        choice = chosen(np.full(ROWS, length), std=1e-3)
        assert choice.square >= 0.999 * length
        assert choice.square <= 2 * length


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "exponential"])
def test_noise_in_the_counts_is_not_taken_for_long_rows(kind):
    """200 histograms: six deviations are exceeded once in 10^7 of them."""
    squares = lengths(kind, np.random.default_rng(1))
    sure = chosen(squares, std=1.0).square
    found = [chosen(squares, seed=seed).square for seed in range(200)]
    assert max(found) <= 2.5 * sure
    assert min(found) >= sure / 3


def test_few_lengths_say_nothing():
    """Where bins are too few, all rows may be as long as any."""
    choice = choose_radius(np.array([50.0, 50.0]), np.array([3.0, 4.0]), 1.0, 0.1, 100)
    assert choice.square == 4.0
    assert choice.most == 0.0


@pytest.mark.parametrize(
    ("rate", "looks", "most"),
    [(14.0, "auto", 1), (16.0, "auto", 4), (16.0, 3, 3), (1e9, "auto", 4), (1e9, 1, 1)],
)
def test_looks_that_are_worth_it(rate, looks, most):
    assert Refined(looks=looks).looks_worth(rate) == most


def test_noise_of_one_look_is_analyze_gauss_s():
    record = Refined().calibrate(3, 2.0, 0.5, 1e-6, "add-remove")
    assert record.mu == record.privacy.sensitivity_ratio
    assert record.law.std == record.noise_std
    assert record.std(2.0, record.mu) == pytest.approx(math.sqrt(2) * record.noise_std)
