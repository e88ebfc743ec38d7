"""Columns computed from columns: against exact mathematics, and compiled against NumPy."""

from fractions import Fraction

import mpmath
import numpy as np
import oracle as reference
import pytest
from numpy.testing import assert_array_equal
from support.helpers import refuses

from privgram._core import rowmap as compiled

LEAST, MOST = np.finfo(float).tiny, np.finfo(float).max


@pytest.fixture(params=[compiled, reference], ids=["compiled", "reference"])
def encode(request):
    return request.param


def hard_numbers(rng):
    """About 1 at every distance, where k changes, at the ends, and everywhere between."""
    away = np.exp2(-rng.uniform(0, 54, 1500)) * rng.choice([-0.5, 1], 1500)
    return np.concatenate(
        [
            1 + away,
            1 + np.arange(-40, 40) * 2.0**-53,
            (1 + away) * 2.0 ** rng.integers(-9, 9, 1500),
            np.sqrt(0.5) * (1 + np.arange(-40, 40) * 2.0**-53),
            np.sqrt(2) * (1 + rng.uniform(-0.02, 0.02, 1500)),
            np.exp(rng.uniform(-700, 700, 1000)),
            np.arange(1, 100),
            [LEAST, np.nextafter(LEAST, 1), MOST, np.e, np.nextafter(np.e, 0), 0.5, 2, 1024],
        ]
    )


def test_logarithm_within_one_unit_in_the_last_place(encode, rng):
    x = hard_numbers(rng)
    with mpmath.workprec(140):
        for value, found in zip(x.tolist(), encode.log(x, LEAST, MOST).tolist(), strict=True):
            exact = mpmath.log(mpmath.mpf(value))
            error = abs(mpmath.mpf(found) - exact)
            assert error <= 0.9 * np.spacing(abs(float(exact)))


def test_compiled_logarithms_are_those_of_the_reference(rng):
    x = np.exp(rng.uniform(-709, 709, 100_000))
    assert_array_equal(compiled.log(x, LEAST, MOST), reference.log(x, LEAST, MOST))
    hard = hard_numbers(rng)
    assert_array_equal(compiled.log(hard, 1e-3, 1e3), reference.log(hard, 1e-3, 1e3))


def test_logarithm_of_what_is_clamped(encode):
    x = [np.nan, -np.inf, -1, -0.0, 0, 1, 2, 3, 500, 501, np.inf]
    found = encode.log(np.array(x), 2, 500)
    ends = encode.log(np.array([2.0, 3.0, 500.0]), 2, 500)
    assert_array_equal(found, [np.nan, *[ends[0]] * 6, ends[1], *[ends[2]] * 3])
    assert encode.log(np.ones(3), 0.5, 2).tolist() == [0, 0, 0]
    assert encode.log(np.empty(0), 1, 2).shape == (0,)


@pytest.mark.parametrize("bounds", [(0, 1), (-1, 1), (5e-324, 1), (2, 1), (1, np.inf), (np.nan, 1)])
def test_bounds_of_a_logarithm(encode, bounds):
    refuses(lambda: encode.log(np.ones(1), *bounds), ValueError, "positive, normal and finite")


def test_value_encodes_alike_wherever_it_stands(rng):
    """At every place in a block, in whichever vector."""
    x = np.exp(rng.uniform(-3, 3, 67))
    log = compiled.log(x, 0.1, 10)
    p = compiled.legendre(x, 3.0, 0.3, 6)
    for start in range(67):
        assert_array_equal(compiled.log(x[start:], 0.1, 10), log[start:])
        assert_array_equal(compiled.log(x[start : start + 1], 0.1, 10), log[start : start + 1])
        assert_array_equal(compiled.legendre(x[start:], 3.0, 0.3, 6), p[:, start:])
    assert_array_equal(compiled.log(x[::-1], 0.1, 10), log[::-1])
    assert_array_equal(compiled.log(x.astype(">f8"), 0.1, 10), log)


def exact_legendre(v, degree):
    p = [Fraction(1), Fraction(v)]
    for k in range(1, degree):
        p.append(((2 * k + 1) * p[1] * p[k] - k * p[k - 1]) / (k + 1))
    return p[1:]


def test_legendre_polynomials(encode, rng):
    v = np.concatenate([rng.uniform(-1.2, 1.2, 200), [-1, 1, 0, -0.0, np.inf, 1 - 2.0**-53]])
    found = encode.legendre(v * 3 + 5, 5.0, 1 / 3, 12)
    assert found.shape == (12, len(v))
    assert (np.abs(found) <= 1).all()
    for value, column in zip(found[0].tolist(), found.T.tolist(), strict=True):
        assert np.allclose(
            column, [float(p) for p in exact_legendre(value, 12)], rtol=0, atol=5e-15
        )
    assert_array_equal(found[:, 200], [(-1) ** k for k in range(1, 13)])
    assert_array_equal(found[:, 201], np.ones(12))
    assert np.isnan(encode.legendre([np.nan], 0.0, 1.0, 3)).all()
    refuses(lambda: encode.legendre(v, 0.0, 1.0, 0), ValueError, "degree")


def test_legendre_stays_within_one(rng):
    """Near the ends, where rounding would lead out of the interval."""
    v = 1 - np.exp2(-rng.uniform(20, 54, 10_000))
    found = compiled.legendre(np.concatenate([v, -v]), 0.0, 1.0, 30)
    assert (np.abs(found) <= 1).all()
    assert_array_equal(found, reference.legendre(np.concatenate([v, -v]), 0.0, 1.0, 30))


def test_products(encode, rng):
    x, y, z = rng.uniform(-3, 3, (3, 500))
    x[0] = np.inf
    found = encode.product([x, y, z], [0.5, 0, 1], [0.5, 1, 2])
    a, b, c = (encode.legendre(w, m, i, 1)[0] for w, m, i in ((x, 0.5, 0.5), (y, 0, 1), (z, 1, 2)))
    assert_array_equal(found, a * b * c)
    assert_array_equal(found, reference.product([x, y, z], [0.5, 0, 1], [0.5, 1, 2]))
    assert_array_equal(encode.product([x], [0.0], [0.1]), encode.legendre(x, 0.0, 0.1, 1)[0])
    refuses(lambda: encode.product([x, y], [0.0], [1.0]), ValueError, "as many")
    refuses(lambda: encode.product([x, y[1:]], [0.0, 0.0], [1.0, 1.0]), ValueError, "equal length")


def test_one_dimension(encode):
    for call in (
        lambda x: encode.log(x, 1, 2),
        lambda x: encode.legendre(x, 0.0, 1.0, 2),
        lambda x: encode.product([x], [0.0], [1.0]),
    ):
        with pytest.raises(ValueError, match="one dimension"):
            call(np.zeros((2, 2)))
