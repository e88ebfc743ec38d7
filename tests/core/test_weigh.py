"""Rows weighed for a Newton step: equal to the twin bit for bit, each a function of itself."""

import numpy as np
import pytest
from oracle import weigh as twin
from scipy.special import expit

from privgram._core import weigh as kernel

TARGET = (0.5, 0.5)


def images(rows, coef, clip, target=TARGET):
    n, p = len(rows), len(coef)
    curved, pulled, reach = np.full((n, p), 7.0), np.full((n, p + 1), 7.0), np.full((n, p), 7.0)
    kernel.weigh(rows, coef, target, clip, curved, pulled)
    kernel.reach(rows, coef, reach)
    return curved, pulled, reach


def made(rng, n, p, d):
    rows = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 3, (n, 1))
    rows[:, p] = rng.choice([-1.0, 1.0], n)
    return rows, rng.standard_normal(p)


@pytest.mark.parametrize(("n", "p", "d"), [(1, 1, 2), (9, 1, 4), (200, 5, 6), (77, 12, 15)])
@pytest.mark.parametrize("clip", [1e-3, 1.0, 1e9])
def test_equal_to_the_twin(rng, n, p, d, clip):
    rows, coef = made(rng, n, p, d)
    curved, pulled, reach = images(rows, coef, clip, (0.3, 0.7))
    expected = twin.weigh(rows, coef, (0.3, 0.7), clip)
    np.testing.assert_array_equal(curved, expected[0])
    np.testing.assert_array_equal(pulled, expected[1])
    np.testing.assert_array_equal(reach, twin.reach(rows, coef))


def test_the_exponential_is_that_of_others():
    x = np.concatenate([np.linspace(-30, 30, 10_001), [0.0, -0.0, 700.0, -700.0]])
    np.testing.assert_allclose(twin.exponential(x), np.exp(x), rtol=5e-16)


def test_what_the_images_are(rng):
    rows, coef = made(rng, 500, 3, 5)
    curved, pulled, reach = images(rows, coef, 2.0)
    z, y = rows[:, :3], (1 + rows[:, 3]) / 2
    eta = (z @ coef).clip(-30, 30)
    chance = expit(eta)
    most = np.maximum(chance, 1 - chance)
    length = most * np.linalg.norm(z, axis=1)
    weight = np.minimum(1, 2.0 / length)
    assert 0.1 < (weight < 1).mean() < 0.9
    np.testing.assert_allclose(reach, most[:, None] * z, rtol=1e-12)
    np.testing.assert_allclose(pulled[:, 3], 2.0)
    np.testing.assert_allclose(
        pulled[:, :3], (weight * (y - chance))[:, None] * z, rtol=1e-9, atol=1e-12
    )
    expected = np.sqrt(weight * chance * expit(-eta))[:, None] * z
    np.testing.assert_allclose(curved, expected, rtol=1e-9, atol=1e-12)


def test_no_score_is_longer_than_the_clip_whatever_the_target(rng):
    rows, coef = made(rng, 4000, 4, 5)
    for clip in (1e-4, 0.3, 5.0):
        for side in (-1.0, 1.0):
            rows[:, 4] = side
            lengths = np.linalg.norm(images(rows, coef, clip)[1][:, :4], axis=1)
            assert lengths.max() <= clip * (1 + 1e-12)
    assert lengths.max() > 0.99 * clip


def test_weights_do_not_see_the_target(rng):
    """So scores have mean zero where the model holds, whatever the clip: no clipping bias."""
    rows, coef = made(rng, 300, 3, 4)
    halves = []
    for side in (-1.0, 1.0):
        rows[:, 3] = side
        halves.append(images(rows, coef, 0.5))
    chance = expit((rows[:, :3] @ coef).clip(-30, 30))[:, None]
    mean = (1 - chance) * halves[0][1][:, :3] + chance * halves[1][1][:, :3]
    np.testing.assert_allclose(mean, 0, atol=1e-14)
    np.testing.assert_array_equal(halves[0][0], halves[1][0])
    np.testing.assert_array_equal(halves[0][2], halves[1][2])


def test_position_and_neighbours_do_not_matter(rng):
    rows, coef = made(rng, 1000, 6, 8)
    whole = images(rows, coef, 1.0)
    for start in (1, 7, 500):
        for part, all_ in zip(images(rows[start:].copy(), coef, 1.0), whole, strict=True):
            np.testing.assert_array_equal(part, all_[start:])


def test_a_missing_value_makes_its_row_missing(rng):
    rows, coef = made(rng, 9, 3, 5)
    rows[2, 0] = rows[5, 3] = np.nan
    for found in images(rows, coef, 1.0)[1:]:
        missing = np.isnan(found)
        assert missing[[2, 5]].all()
        assert not np.delete(missing, [2, 5], axis=0).any()


def test_wrong_shapes():
    rows, coef = np.ones((4, 3)), np.ones(2)
    good = np.empty((4, 2)), np.empty((4, 3))
    kernel.weigh(rows[:0], coef, TARGET, 1.0, good[0][:0], good[1][:0])
    for curved, pulled in [(good[1], good[1]), (good[0], good[0]), (good[0][:3], good[1])]:
        with pytest.raises(ValueError, match="another shape"):
            kernel.weigh(rows, coef, TARGET, 1.0, curved, pulled)
    with pytest.raises(ValueError, match="another shape"):
        kernel.reach(rows, np.ones(3), np.empty((4, 3)))
