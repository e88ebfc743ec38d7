"""The factors of running sums: their product, their noise and how far a person moves them."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from privgram.stream.factors import Epoch, RunningSums


def rows_of(epoch):
    """B, whose rows are sums of steps."""
    steps = [np.append(epoch.step(t), np.zeros(epoch.periods - t)) for t in each(epoch)]
    return np.cumsum(steps, axis=0)


def each(epoch):
    return range(1, epoch.periods + 1)


@pytest.mark.parametrize("periods", [1, 2, 3, 12, 61])
def test_factors_multiply_to_the_triangle_and_columns_have_length_one(periods):
    epoch = Epoch(periods)
    rows = rows_of(epoch)
    for t in each(epoch):
        np.testing.assert_allclose(rows[t - 1, :t], epoch.row(t), rtol=1e-14)
    np.testing.assert_allclose(rows @ epoch.factor, np.tri(periods), atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(epoch.factor, axis=0), 1, rtol=1e-14)
    assert epoch.sensitivity == 1.0


@pytest.mark.parametrize(("periods", "most"), [(12, 1.71), (60, 2.20), (240, 2.63), (1000, 3.08)])
def test_noise_of_running_sums_is_that_of_about_two_releases(periods, most):
    noise = np.linalg.norm(rows_of(Epoch(periods)), axis=1)
    assert most - 0.02 < noise.max() < most
    # No factorisation does better than this by root mean square: Fichtenberger et al., Theorem 3.
    least = (
        np.sqrt(1 / periods)
        * sum(
            1 / np.sin((2 * k - 1) * np.pi / (4 * periods + 2)) / 2 for k in range(1, periods + 1)
        )
        / np.sqrt(periods)
    )
    assert least <= np.sqrt((noise**2).mean()) < 1.06 * least


@pytest.mark.parametrize("periods", [7, 10])
@pytest.mark.parametrize("most", [2, 3, 10])
@pytest.mark.parametrize("apart", [1, 2, 4])
def test_a_person_of_several_periods_moves_no_further(periods, most, apart):
    epoch = Epoch(periods, most, apart)
    overlap = epoch.factor.T @ epoch.factor
    sets = (
        chosen
        for size in range(1, most + 1)
        for chosen in combinations(range(periods), size)
        if all(b - a >= apart for a, b in pairwise(chosen))
    )
    farthest = np.sqrt(max(overlap[np.ix_(chosen, chosen)].sum() for chosen in sets))
    assert farthest <= epoch.sensitivity * (1 + 1e-12)
    assert epoch.sensitivity <= 1.03 * farthest


def test_epochs_that_follow_keep_the_guarantee_of_one():
    sums = RunningSums((Epoch(3),)).doubled().doubled()
    assert [epoch.periods for epoch in sums.epochs] == [3, 3, 6]
    rows = np.zeros((12, 12))
    for t in range(1, 13):
        rows[t - 1, :t] = sums.between(0, t)
        before = rows[t - 2, :t] if t > 1 else 0.0
        np.testing.assert_allclose(sums.step(t), rows[t - 1, :t] - before, atol=1e-14)
    # The second route: how far apart neighbours are in the covariance of all that is published.
    covariance = rows @ rows.T
    for s in range(12):
        moved = (np.arange(12) >= s).astype(float)
        assert moved @ np.linalg.solve(covariance, moved) == pytest.approx(1, rel=1e-9)


def test_windows_are_differences_of_sums():
    sums = RunningSums((Epoch(10),))
    window = sums.between(4, 7)
    assert window.shape == (7,)
    np.testing.assert_allclose(
        window, sums.between(0, 7) - np.append(sums.between(0, 4), np.zeros(3)), atol=1e-14
    )
