"""Kept images: bounds that hold of integers whatever rows are, and no trace of places or blocks."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import softmax

from privgram._core import scores
from privgram.secret.kinds import Errors, HeldOut, Learner, Scores
from privgram.secret.sweep import AXIS_BITS, KeptImage, KeptSweep

D, K = 7, 4
ODD = [0.0, -0.0, 5e-324, 1e-300, 1e154, 1e300, 1e308, -1.7e308, np.inf, -np.inf, np.nan]


def image_of(d=D, radius=3.0, bound=1.5, beside=1, seed=0):
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return KeptImage(directions, rng.uniform(0.05, 1.0, d), bound, radius, beside)


def rows_of(n=200, d=D, seed=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * np.exp(rng.normal(0, 3, (n, 1)))


def hostile(d=D):
    """Rows of which one number, or all, are odd."""
    one = np.full((len(ODD), d), 0.3)
    one[:, 2] = ODD
    return np.vstack(
        [one, np.repeat(np.array(ODD)[:, None], d, axis=1), [[1e308, -1e308] + [0] * (d - 2)]]
    )


def totals(image, kinds, x, beside):
    """What each kind adds of rows and what is beside them."""
    stream = KeptSweep(image, kinds)
    stream.update(np.column_stack([x, beside]))
    return [np.ascontiguousarray(total) for total in stream.totals]


#: What kinds may be asked for, by a number of classes or of targets.
def kinds_of(rng, scale):
    classes = Learner(rng.standard_normal((D, K)) * scale)
    fits = [Learner(rng.standard_normal((D, m)) * scale, (0, 1)[:m], 1.5) for m in (1, 2)]
    clip, reach = (float(10.0 ** rng.uniform(-3, 3)) for _ in range(2))
    of_classes = [Scores(classes, clip), HeldOut(classes, 5)]
    of_fits = [Scores(fits[0], clip), Scores(fits[1], clip), *(Errors(fit, reach) for fit in fits)]
    return of_classes, of_fits


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e6, 1e-200, 1e200])
def test_neighbours_lie_apart_by_what_a_kind_says(scale):
    """All pairs of rows, in or out or one for another: in integers, and nearly attained."""
    rng, attained = np.random.default_rng(7), {}
    for seed in range(3):
        x = np.vstack([rows_of(25, seed=seed), hostile()])
        x = np.vstack([x, -x])
        of_classes, of_fits = kinds_of(rng, scale)
        codes = rng.choice([0, 1, 2, 3, -1, -2, -4, -5, 4, 99, 0.5, *ODD], (len(x), 1))
        targets = rng.choice([0.0, 1.0, -1.0, 40.0, *ODD], (len(x), 2))
        for kinds, beside in ((of_classes, codes), (of_fits, targets)):
            image = image_of(beside=beside.shape[1], seed=seed)
            each = [
                totals(image, kinds, *one) for one in zip(x[:, None], beside[:, None], strict=True)
            ]
            for at, kind in enumerate(kinds):
                sums = [one[at].astype(object).ravel() for one in each]
                for adjacency, pairs in (
                    ("add-remove", ((0, one) for one in sums)),
                    ("replace", itertools.combinations(sums[:60], 2)),
                ):
                    far = max(int(((a - b) ** 2).sum()) for a, b in pairs)
                    most = Fraction(kind.moves(adjacency)) ** 2
                    assert far <= most * (1 + Fraction(1, 10**15))
                    key = type(kind), getattr(kind, "farthest", 0), adjacency
                    attained[key] = max(attained.get(key, 0), math.sqrt(far / most))
    if scale in (0.0, 1.0):
        assert min(attained.values()) > 0.9


@pytest.mark.parametrize("odd", range(2 * len(ODD) + 1))
def test_row_that_is_not_finite_touches_no_other(odd):
    """What others add is as without it, to the last bit, wherever it stands; it adds no score."""
    rng = np.random.default_rng(0)
    x, codes = rows_of(70), rng.integers(-K, K, (70, 1)).astype(float)
    kinds, image = kinds_of(rng, 1.0)[0], image_of()
    row = hostile()[[odd]]
    expected = totals(image, kinds, x, codes)
    alone = totals(image, kinds, row, [[2.0]])
    for place in (0, 33, 70):
        found = totals(
            image, kinds, np.insert(x, place, row, axis=0), np.insert(codes, place, 2.0, axis=0)
        )
        for one, other, more in zip(found, expected, alone, strict=True):
            np.testing.assert_array_equal(one, other + more)
    if not np.isfinite(row).all():
        assert not alone[0].any()


@pytest.mark.parametrize("bits", [scores.ROW_BITS, scores.IMAGE_BITS])
@pytest.mark.parametrize("d", [1, 2, 33, 300])
def test_no_row_of_whole_numbers_is_longer_than_its_bits(bits, d):
    x = np.vstack([rows_of(2000, d), np.repeat(np.array(ODD)[:, None], d, axis=1)])
    if bits == scores.ROW_BITS:
        whole = scores.whole_rows(x, 1.0)
    else:
        whole = scores.whole_images(x, np.ones(d), 1.0)[:, :d]
    lengths = np.array([math.sqrt(sum(int(v) ** 2 for v in row)) for row in whole])
    assert lengths.max() < 2**bits
    assert lengths.max() > 2**bits * 0.99  # and most of them are used
    finite = np.isfinite(x).all(axis=1)
    assert not whole[~finite].any()
    x, whole = x[finite], whole[finite]
    largest = np.maximum(np.abs(x).max(axis=1, keepdims=True), 1.0)
    exact = (
        x / largest / np.maximum(1 / largest, np.linalg.norm(x / largest, axis=1, keepdims=True))
    )
    scale = scores.whole_length(bits, d)
    np.testing.assert_allclose(whole / scale, exact, atol=0.51 / scale)


def test_image_is_that_of_its_row_wherever_it_stands():
    x, image = rows_of(3000), image_of()

    def images(rows):
        store = KeptSweep(image, ())
        for some in np.array_split(rows, 1 + len(rows) // 1100):
            store.update(np.column_stack([some, np.arange(len(some))]))
        return np.concatenate([found for found, _ in store.blocks])

    whole = images(x)
    for start, step in ((0, 1), (3, 7), (2999, -1)):
        np.testing.assert_array_equal(images(x[start::step]), whole[start::step])
    np.testing.assert_array_equal(np.vstack([images(row[None]) for row in x[:40]]), whole[:40])
    z = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True) / image.bound, 1)
    z = z @ np.rint(image.directions * 2.0**AXIS_BITS) / 2.0**AXIS_BITS / image.deviations
    z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True) / image.radius, 1)
    np.testing.assert_allclose(whole[:, :D] * image.unit, z, atol=1e-3)


def test_products_are_those_of_whole_numbers():
    """Linear predictors and sums by Python's integers, of the longest coefficients and images."""
    rng = np.random.default_rng(0)
    for d, k in ((1, 1), (33, 2), (300, 3), (40, 9)):
        image, coef = image_of(d, seed=d), rng.standard_normal((d, k))
        x, targets = rows_of(75, d), rng.normal(0, 1, (75, 1))
        model = Learner(coef, (0,) * k)
        [total] = totals(image, [Scores(model, 0.5)], x, targets)
        parts = [
            totals(image, [Scores(model, 0.5)], *one)[0]
            for one in zip(x[:, None], targets[:, None], strict=True)
        ]
        np.testing.assert_array_equal(
            total, sum(part.astype(object) for part in parts).astype(np.int64)
        )


def reference(image, x):
    """Coordinates in floating point."""
    z = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True) / image.bound, 1)
    z = (z @ image.directions) / image.deviations
    return z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True) / image.radius, 1)


@pytest.mark.parametrize("classes", [2, 4, 50])
def test_scores_are_those_of_the_likelihood_and_of_rows_that_are_learnt(classes):
    rng, image, x = np.random.default_rng(2), image_of(), rows_of(400)
    coef, codes = rng.standard_normal((D, classes)), rng.integers(0, classes, 400)
    z, held = reference(image, x), rng.random(400) < 0.3
    p = softmax(z @ coef, axis=1)
    left = np.where(held[:, None], 0.0, np.eye(classes)[codes] - p)
    size = np.linalg.norm(z, axis=1) * np.linalg.norm(left, axis=1)
    left *= np.minimum(1, 0.3 / np.maximum(size, 1e-300))[:, None]
    kinds = Scores(Learner(coef), 0.3), HeldOut(Learner(coef), 10)
    total, counts = totals(image, kinds, x, np.where(held, -1 - codes, codes)[:, None])
    np.testing.assert_allclose(total.T * kinds[0].unit_of(None), z.T @ left, rtol=1e-2, atol=0.02)
    assert counts.sum() == held.sum()
    right = (p.argmax(axis=1) == codes)[held]
    bins = np.minimum((p.max(axis=1)[held] * 10).astype(int), 9)
    expected = np.column_stack([np.bincount(bins[right == one], minlength=10) for one in (0, 1)])
    assert np.abs(counts - expected).sum() <= 4  # at the edges of bins


def test_errors_are_those_of_fits():
    rng, image, x = np.random.default_rng(2), image_of(beside=2), rows_of(400)
    coef, targets = rng.standard_normal((D, 2)), rng.normal(0, 2, (400, 2))
    both = Learner(coef, (1, 0), 1.5)
    errors = 1.5 * targets[:, ::-1] - reference(image, x) @ coef
    squares = np.minimum(errors**2, 9.0).sum(axis=0)
    kinds = (
        *(Errors(Learner(coef[:, [i]], (1 - i,), 1.5), 3.0) for i in range(2)),
        Errors(both, 3.0),
        Scores(Learner(coef[:, :1], (1,), 1.5), 2.0),
    )
    *found, apart, total = totals(image, kinds, x, targets)
    np.testing.assert_allclose(np.ravel(found) * kinds[0].unit_of(None), squares, rtol=1e-3)
    assert apart == found[0] - found[1]
    z, left = reference(image, x), errors[:, :1]
    size = np.linalg.norm(z, axis=1) * np.abs(left[:, 0])
    left = left * np.minimum(1, 2.0 / np.maximum(size, 1e-300))[:, None]
    np.testing.assert_allclose(
        total[0] * kinds[3].unit_of(None), z.T @ left[:, 0], rtol=1e-2, atol=0.05
    )


def test_kept_images_and_those_made_anew_give_the_same_bits():
    rng, image, x = np.random.default_rng(0), image_of(), rows_of(20_000)
    codes = rng.integers(-K, K, (20_000, 1))
    kinds = kinds_of(rng, 1.0)[0]
    store = KeptSweep(image, ())
    for some in np.array_split(np.column_stack([x, codes]), 40):
        store.update(some)
    for _ in range(2):  # and when they were put together
        for one, other in zip(
            store.sums_of(image, kinds), totals(image, kinds, x, codes), strict=True
        ):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Scores(Learner(np.zeros((D, K))), math.nan),
        lambda: Scores(Learner(np.zeros((D, K))), 0.0),
        lambda: Errors(Learner(np.zeros((D, 1)), (0,)), math.inf),
        lambda: Errors(Learner(np.zeros((D, K))), 1.0),
        lambda: Errors(Learner(np.zeros((D, 3)), (0,) * 3)),
        lambda: totals(
            image_of(), [Scores(Learner(np.zeros((D, 1)), (3,)))], rows_of(3), np.ones(3)
        ),
        lambda: KeptSweep(image_of(), [Scores(Learner(np.zeros((D + 1, K))))]),
    ],
)
def test_kind_that_cannot_be_is_refused(make):
    with pytest.raises(ValueError, match=r"clip|reach|one fit|beside|coefficients"):
        make()
