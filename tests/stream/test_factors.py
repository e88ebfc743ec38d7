"""The factors of running sums: their product, their noise and how far a person moves them."""

from fractions import Fraction
from itertools import combinations, pairwise

import mpmath
import numpy as np
import pytest
from scipy import linalg

import privgram as pg
from privgram.stream.factors import FACTOR_PLACES, Epoch, RunningSums


def rows_of(epoch):
    """B, row by row."""
    return np.array([np.append(epoch.row(t), np.zeros(epoch.periods - t)) for t in each(epoch)])


def factor_of(epoch):
    return epoch.factor(epoch.periods) * 2.0**-FACTOR_PLACES


def each(epoch):
    return range(1, epoch.periods + 1)


@pytest.mark.parametrize("periods", [1, 2, 3, 12, 61])
def test_factors_multiply_to_the_triangle_and_columns_have_length_one(periods):
    epoch = Epoch(periods)
    rows = rows_of(epoch)
    factor = factor_of(epoch)
    np.testing.assert_allclose(rows @ factor, np.tri(periods), atol=1e-12)
    lengths = np.linalg.norm(factor, axis=0)
    np.testing.assert_allclose(lengths, 1, atol=1e-5)
    assert epoch.sensitivity == 1.0
    sums = RunningSums((epoch,))
    whole = sums.factor(periods)
    assert (whole == factor * 2**FACTOR_PLACES).all()
    for t in each(epoch):
        assert (sums.factor(t) == whole[:t, :t]).all()
    # In whole numbers: no column is longer than 1.
    assert max((whole.astype(object) ** 2).sum(axis=0)) <= 4**FACTOR_PLACES


@pytest.mark.parametrize("periods", [5, 200])
def test_factor_is_the_root_of_the_triangle_rounded_down(periods):
    """By the coefficients of (1 - x)^(-1/2) as rational numbers, and lengths by mpmath."""
    root = [Fraction(1)]
    for k in range(1, periods):
        root.append(root[-1] * (2 * k - 1) / (2 * k))
    factor = Epoch(periods).factor(periods)
    for s in (0, periods // 2, periods - 1):
        with mpmath.workdps(40):
            squares = (mpmath.mpf(c.numerator) / c.denominator for c in root[: periods - s])
            length = mpmath.sqrt(sum(c**2 for c in squares))
            for t in range(s, periods):
                c = root[t - s]
                ideal = mpmath.mpf(c.numerator) / c.denominator / length * 2**FACTOR_PLACES
                assert ideal - 1.001 <= factor[t, s] <= ideal


@pytest.mark.parametrize(("periods", "most"), [(12, 1.71), (60, 2.20), (240, 2.63), (1000, 3.08)])
def test_noise_of_running_sums_is_that_of_about_two_releases(periods, most):
    epoch = Epoch(periods)
    rows = linalg.solve_triangular(factor_of(epoch), np.tri(periods).T, trans="T", lower=True).T
    for t in (1, periods // 2, periods):
        np.testing.assert_allclose(rows[t - 1, :t], epoch.row(t), atol=1e-12)
    noise = np.linalg.norm(rows, axis=1)
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
def test_person_of_several_periods_moves_no_further(periods, most, apart):
    epoch = Epoch(periods, most, apart)
    overlap = factor_of(epoch).T @ factor_of(epoch)
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
    factor = np.zeros((12, 12))
    for t in range(1, 13):
        rows[t - 1, :t] = sums.between(0, t)
        factor[t - 1, :t] = sums.factor(t)[-1]
    np.testing.assert_allclose(rows @ factor * 2.0**-FACTOR_PLACES, np.tri(12), atol=1e-14)
    assert not factor[3:, :3].any()
    # The second route: how far apart neighbours are in the covariance of all that is published.
    covariance = rows @ rows.T
    for s in range(12):
        moved = (np.arange(12) >= s).astype(float)
        assert moved @ np.linalg.solve(covariance, moved) == pytest.approx(1, rel=1e-5)


def test_windows_are_differences_of_sums():
    sums = RunningSums((Epoch(10),))
    window = sums.between(4, 7)
    assert window.shape == (7,)
    np.testing.assert_allclose(
        window, sums.between(0, 7) - np.append(sums.between(0, 4), np.zeros(3)), atol=1e-14
    )


def test_noise_of_a_person_of_several_periods_is_in_that_of_one_release(tmp_path):
    """Of the first period it is as much as the person moves: more than that of one period."""
    pytest.importorskip("cryptography")
    variables = {"x": (-1, 1), "y": (-1, 1)}
    table = {"x": np.zeros(4), "y": np.zeros(4), "who": np.arange(4)}
    options = {"epsilon": 1.0, "delta": 1e-6}
    study = pg.Study(table, variables, **options, unit=pg.Unit("who", max_rows=1))
    stream = pg.Stream(study, 3, **options, path=tmp_path / "a.stream", months=2)
    epoch = Epoch(3, months=2)
    assert epoch.sensitivity > 1.2
    expected = epoch.sensitivity * np.linalg.norm(epoch.row(2))
    assert stream.noise(2) == pytest.approx(expected, rel=1e-3)
