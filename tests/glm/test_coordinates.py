"""Images and scores in whole numbers: bounds that hold of the integers, and no trace of places."""

import numpy as np
import pytest

import privgram.glm.coordinates as coordinates_of
from privgram.glm.coordinates import (
    IMAGE_BITS,
    RESIDUAL_UNITS,
    SQUARE_BITS,
    ClassScores,
    Coordinates,
    HeldOutCounts,
    SquaredErrors,
    TargetScores,
    held_out,
    probabilities,
    row_lengths,
    whole_rows,
)


def coordinates(d=7, radius=3.0, bound=1.5, seed=0):
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return Coordinates.of(directions, rng.uniform(0.05, 1.0, d), bound, radius)


def rows(n=500, d=7, seed=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * np.exp(rng.normal(0, 3, (n, 1)))


HARD = [0.0, 5e-324, 1e-300, 1e300, 1.7e308, -1.7e308]


def test_lengths_are_those_of_the_rows_whatever_their_scale():
    x = rows()
    for scale in (1e-290, 1.0, 1e290):
        np.testing.assert_allclose(row_lengths(x * scale), np.linalg.norm(x, axis=1) * scale, 1e-5)
    assert row_lengths(np.zeros((2, 3))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("d", [1 << 13, (1 << 13) + 1, 1 << 15])
def test_squares_of_a_row_add_up_exactly_whatever_its_width(d, monkeypatch):
    """The largest numbers that a row may have, which in one bit more are no whole double."""
    seen, real = [], coordinates_of.squared_lengths

    def noted(whole):
        seen.append((whole.copy(), real(whole)))
        return seen[-1][1]

    monkeypatch.setattr(coordinates_of, "squared_lengths", noted)
    x = 1 - np.random.default_rng(d).integers(1, 99, (3, d)) * 2.0**-20
    lengths = row_lengths(x)
    np.testing.assert_allclose(lengths, np.linalg.norm(x, axis=1), rtol=2**-19)
    [(whole, square)] = seen
    exact = [sum(int(v) ** 2 for v in row) for row in whole]
    assert exact == square.astype(object).tolist()
    assert max(exact) <= 2**53


@pytest.mark.parametrize("bits", [15, 24])
@pytest.mark.parametrize("d", [1, 2, 300])
def test_no_row_of_whole_numbers_is_longer_than_its_bits(bits, d):
    x = np.vstack([rows(2000, d), np.zeros((6, d))])
    for row, value in zip(x[-6:], HARD, strict=True):
        row[:] = value
    whole, square = whole_rows(x, 1.0, bits)
    exact = [sum(int(v) ** 2 for v in row) for row in whole]
    assert exact == square.astype(object).tolist()
    assert max(exact) <= 4**bits
    assert max(exact) > 4**bits * 0.99  # and most of them are used


def test_image_is_that_of_its_row_wherever_it_stands():
    at, x = coordinates(), rows(300)
    whole = at.images(x)
    for start, step in ((0, 1), (3, 7), (299, -1)):
        np.testing.assert_array_equal(at.images(x[start::step]), whole[start::step])
    one = np.vstack([at.images(row[None]) for row in x])
    np.testing.assert_array_equal(one, whole)
    by_columns = at.images(np.asfortranarray(x))
    np.testing.assert_array_equal(by_columns, whole)


def test_images_are_the_coordinates_in_floating_point():
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((7, 7)))[0]
    deviations = rng.uniform(0.05, 1.0, 7)
    at = Coordinates.of(directions, deviations, 1.5, 30.0)
    x = rows(400)
    shortened = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True) / 1.5, 1)
    z = (shortened @ directions) / deviations
    z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True) / 30.0, 1)
    np.testing.assert_allclose(at.images(x) * at.unit, z, atol=1e-3)


def scores(classes=4, clip=0.8, coef_scale=1.0, seed=2):
    at = coordinates()
    coef = np.random.default_rng(seed).standard_normal((7, classes)) * coef_scale
    return at, coef, ClassScores(at, coef, clip)


@pytest.mark.parametrize("coef_scale", [0.0, 1.0, 1e6, 1e-200])
@pytest.mark.parametrize("clip", [1e-3, 0.8, 100.0])
@pytest.mark.parametrize("classes", [2, 4, 50])
def test_contribution_of_a_row_has_at_most_the_stated_norm(classes, clip, coef_scale):
    """In integers: the Frobenius norm of what a row adds, alone and beside others."""
    at, coef, _ = scores(classes, clip, coef_scale)
    x = np.vstack([rows(60), np.zeros((1, 7)), np.full((1, 7), 1e300)])
    codes = np.random.default_rng(3).integers(0, classes, len(x))
    images = at.images(x)
    total = ClassScores(at, coef, clip)
    total.take(images, codes)
    largest = 0
    summed = np.zeros(coef.shape, object)
    for image, code in zip(images, codes, strict=True):
        one = ClassScores(at, coef, clip)
        one.take(image[None], np.array([code]))
        exact = one.total.astype(object)
        largest = max(largest, int((exact**2).sum()))
        summed = summed + exact
    assert (summed == total.total).all()
    assert largest <= total.sensitivity**2
    if clip == 1e-3 and coef_scale <= 1:
        assert largest > 0.9 * total.sensitivity**2


def test_scores_are_those_of_the_likelihood():
    at, coef, total = scores(clip=0.3)
    x = rows(200)
    codes = np.random.default_rng(3).integers(0, 4, 200)
    images = at.images(x)
    z = images * at.unit
    left = np.eye(4)[codes] - probabilities(z @ coef)
    size = np.linalg.norm(z, axis=1) * np.linalg.norm(left, axis=1)
    left *= np.minimum(1, 0.3 / size)[:, None]
    total.take(images, codes)
    np.testing.assert_allclose(total.total * total.unit, z.T @ left, rtol=1e-2, atol=0.02)


@pytest.mark.parametrize("coef_scale", [0.0, 1.0, 1e6, 1e100])
@pytest.mark.parametrize("clip", [0.05, 0.8, 6.0])
def test_contribution_of_a_row_to_a_score_of_targets_is_clipped(clip, coef_scale):
    at = coordinates()
    coef = np.random.default_rng(2).standard_normal((7, 1)) * coef_scale
    x = np.vstack([rows(60), np.zeros((1, 7)), np.full((1, 7), 1e300)])
    codes = np.random.default_rng(3).integers(-(2**21), 2**21, len(x))
    images = at.images(x)
    total = TargetScores(at, coef, clip)
    total.take(images, codes)
    summed, largest = np.zeros((7, 1), object), 0
    for image, code in zip(images, codes, strict=True):
        one = TargetScores(at, coef, clip)
        one.take(image[None], np.array([code]))
        summed = summed + one.total.astype(object)
        largest = max(largest, int((one.total.astype(object) ** 2).sum()))
    assert (summed == total.total).all()
    assert largest <= total.sensitivity**2
    if coef_scale <= 1:
        assert largest > 0.9 * total.sensitivity**2
        z, e = images * at.unit, codes / RESIDUAL_UNITS - (images * at.unit) @ coef[:, 0]
        e *= np.minimum(1, clip / np.maximum(np.linalg.norm(z, axis=1) * np.abs(e), 1e-12))
        np.testing.assert_allclose(
            total.total[:, 0] * total.unit, z.T @ e, rtol=1e-2, atol=0.02 * clip
        )


def test_squares_of_a_row_count_up_to_their_reach_and_are_of_it_alone():
    at = coordinates()
    rng = np.random.default_rng(2)
    coefs = [np.zeros((7, 1)), rng.standard_normal((7, 1)), np.full((7, 1), 1e100)]
    images = at.images(rows(100))
    codes = rng.integers(-(2**18), 2**18, 100)
    codes[0] = 0
    total = SquaredErrors(at.unit, coefs, 3.0)
    total.take(images, codes)
    summed = np.zeros(3, np.int64)
    for image, code in zip(images, codes, strict=True):
        one = SquaredErrors(at.unit, coefs, 3.0)
        one.take(image[None], np.array([code]))
        assert (one.total >= 0).all()
        assert (one.total <= 2**SQUARE_BITS).all()
        summed += one.total
    np.testing.assert_array_equal(summed, total.total)
    left = codes / RESIDUAL_UNITS - (images * at.unit) @ coefs[1][:, 0]
    exact = np.minimum(left**2, 9.0).sum()
    assert total.total[1] * total.unit == pytest.approx(exact, abs=1e-3)
    assert total.total[2] == 100 * 2**SQUARE_BITS


def test_held_out_row_is_counted_and_in_no_score():
    at, coef, total = scores()
    images = at.images(rows(100))
    codes = np.random.default_rng(3).integers(0, 4, 100)
    total.take(images, held_out(codes))
    assert not total.total.any()
    counts = HeldOutCounts(at, coef, 10)
    counts.take(images, np.where(np.arange(100) < 60, held_out(codes), codes))
    assert counts.counts.sum() == 60
    p = probabilities((images[:60] * at.unit) @ coef)
    assert abs(int(counts.counts[:, 1].sum()) - int((p.argmax(1) == codes[:60]).sum())) <= 1


def test_probabilities_are_softmax_and_of_their_row_alone():
    from scipy.special import softmax

    eta = np.random.default_rng(0).normal(0, 30, (1000, 10))
    p = probabilities(eta)
    np.testing.assert_allclose(p, softmax(eta, axis=1), rtol=1e-11, atol=1e-290)
    np.testing.assert_array_equal(probabilities(eta[17:400:3]), p[17:400:3])


def test_images_are_of_16_bits():
    assert IMAGE_BITS == 15
    assert np.abs(coordinates(radius=1e-9).images(rows(50))).max() < 2**15
