"""The rules by which second looks are decided: plain numbers in, plain numbers out."""

import math

import numpy as np
import pytest

from privgram import Refined
from privgram.mechanisms.refined import BIAS, choose_radius, radii

ROWS, COLUMNS, MU = 100_000, 5, 0.2
GRID = radii(COLUMNS, 4000.0 * COLUMNS)
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


def test_the_grid_ends_at_the_longest_row():
    np.testing.assert_allclose(radii(3.0, 24.0), 3 * 2 ** (np.arange(7) / 2))
    np.testing.assert_allclose(radii(3.0, 13.0)[-2:], [12.0, 13.0])
    np.testing.assert_array_equal(radii(3.0, 2.0), [2.0])


@pytest.mark.parametrize("kind", ["normal", "exponential", "t5"])
def test_without_noise_the_excess_is_what_the_rule_allows(kind):
    squares = lengths(kind, np.random.default_rng(1))
    choice = chosen(squares, std=1e-3)

    def moved(square):
        return excess(squares, square) / 4 / math.hypot(math.sqrt(ROWS), NOISE * square)

    # The excess is bounded by the counts of a coarse grid.
    assert moved(choice.square) <= choice.bias <= BIAS
    at = np.searchsorted(GRID, choice.square, side="right") - 1
    assert round(choice.clipped) == (squares > GRID[at]).sum()
    assert moved(GRID[at - 1]) > BIAS or NOISE * choice.square < 0.15 * math.sqrt(ROWS)


def test_rows_of_one_length_are_not_clipped():
    """As of columns with two values; whose bin says no more than that they are in it."""
    for length in (11.0, 12.0, 14.0):
        choice = chosen(np.full(ROWS, length), std=1e-3)
        assert choice.square >= length
        assert choice.square <= 14.5  # a step beyond the end of the bin


@pytest.mark.parametrize("kind", ["normal", "exponential"])
def test_noise_in_the_counts_is_not_taken_for_long_rows(kind):
    """500 histograms: five deviations are exceeded once in 10^5 of them."""
    squares = lengths(kind, np.random.default_rng(1))
    sure = chosen(squares, std=1e-3).square
    found = [chosen(squares, seed=seed).square for seed in range(500)]
    assert max(found) <= 2.1 * sure
    assert min(found) >= sure / 3


def test_enough_rows_far_from_all_others_are_seen_and_few_are_not():
    squares = lengths("normal", np.random.default_rng(1))
    for count, seen in ((400, True), (5, False)):
        far = np.append(squares, np.full(count, 500.0 * COLUMNS))
        square = chosen(far).square
        assert (square >= 400 * COLUMNS) == seen
        if not seen:
            assert square <= 1.2 * chosen(squares).square


def test_the_radius_does_not_hang_on_the_last_bin_that_is_seen():
    """A tail of affairs among 6,400 people: by one bin the deviation of log R^2 was 0.63."""
    far = [6000, 2300, 1100, 400, 110, 43, 37, 23, 12, 9, 3, 3, 1, 1]
    grid = radii(7.3, 7.3 * 2.0**12)
    counts = -np.diff([6400, *far], append=0.0)
    counts = np.pad(counts, (0, len(grid) - len(counts)))
    noise = np.random.default_rng(0).normal(scale=3.0, size=(200, len(grid)))
    found = [choose_radius(counts + one, grid, 3.0, 0.78, 6400).square for one in noise]
    assert np.log(found).std() < 0.45


def test_what_the_next_bins_hold_is_weighed_against_the_guess():
    """Where the tail ends, and where it goes on: the radius follows, as far as the noise allows."""
    squares = lengths("normal", np.random.default_rng(1))
    ended = squares[squares < np.quantile(squares, 0.998)]
    slow = np.append(ended, 1.2 * ended.max() * np.random.default_rng(2).uniform(1, 2, 200))
    assert chosen(ended, std=10.0).square < 0.9 * chosen(slow, std=10.0).square


@pytest.mark.parametrize(
    ("rate", "looks", "most"),
    [(14.0, "auto", 1), (16.0, "auto", 4), (16.0, 3, 3), (1e9, "auto", 4), (1e9, 1, 1)],
)
def test_looks_that_are_worth_it(rate, looks, most):
    assert Refined(looks=looks).looks_worth(rate) == most


def test_published_constants_are_analyze_gauss_s():
    record = Refined().calibrate(3, 2.0, 0.5, 1e-6, "add-remove", "published")
    assert record.mu == record.privacy.sensitivity_ratio
    assert record.law.std == record.noise_std
    assert record.std(2.0, record.mu) == pytest.approx(math.sqrt(2) * record.noise_std)
