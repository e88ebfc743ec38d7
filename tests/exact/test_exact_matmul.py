"""Long arithmetic in float64 digits against Python's integers: always equal, never near."""

from fractions import Fraction

import numpy as np
import pytest
from support.helpers import refuses
from support.integers import integers, rounded, scaled, value

from privgram.exact import exact_matmul as digits_module
from privgram.exact.exact_matmul import MAX_DIGITS, DigitMatrix, digit_bits


def random_matrix(rng, shape, digits, bits, low):
    half = 2 ** (bits - 1)
    entries = rng.integers(-half, half, size=(digits, *shape), endpoint=True)
    # Carries run far where digits are extreme.
    entries = np.where(rng.random(entries.shape) < 0.2, rng.choice([-half, half]), entries)
    return DigitMatrix(entries.astype(float), low, bits)


@pytest.mark.parametrize("bits", [17, 20, 23])
def test_sums_and_products_are_exact(rng, bits):
    for _ in range(30):
        shape = tuple(rng.integers(1, 6, 3))
        a = random_matrix(rng, shape[:2], rng.integers(1, 9), bits, rng.integers(-8, 3))
        b = random_matrix(rng, shape[1:], rng.integers(1, 9), bits, rng.integers(-8, 3))
        c = random_matrix(rng, shape[:2], rng.integers(1, 9), bits, rng.integers(-8, 3))
        e = -40 * bits
        np.testing.assert_array_equal(scaled(a + c, e), scaled(a, e) + scaled(c, e))
        np.testing.assert_array_equal(scaled(a - c, e), scaled(a, e) - scaled(c, e))
        np.testing.assert_array_equal(scaled(a @ b, 2 * e), scaled(a, e) @ scaled(b, e))
        np.testing.assert_array_equal(scaled(a.gram(), 2 * e), scaled(a, e) @ scaled(a, e).T)
        np.testing.assert_array_equal(scaled(a.T, e), scaled(a, e).T)
        for x in (a + c, a - c, a @ b, a.gram()):
            assert np.abs(x.digits).max() <= 2 ** (bits - 1)


@pytest.mark.parametrize("terms", [1, 2, 3, 64, 500])
def test_largest_digits_do_not_overflow(terms):
    bits = digit_bits(terms)
    assert MAX_DIGITS * terms * 4 ** (bits - 1) <= 2**52
    digits = np.full((MAX_DIGITS, 1, terms), 2.0 ** (bits - 1))
    a = DigitMatrix(digits, 0, bits)
    expected = terms * sum(2 ** (bits - 1 + bits * k) for k in range(MAX_DIGITS)) ** 2
    assert scaled(a.gram(), 0)[0, 0] == expected
    assert scaled(a @ a.T, 0)[0, 0] == expected
    assert scaled(a @ DigitMatrix(-digits, 0, bits).T, 0)[0, 0] == -expected


def test_digits_beyond_the_most_are_multiplied_in_parts(rng):
    """Both factors are too long for one product."""
    bits = digit_bits(3)
    half = 2.0 ** (bits - 1)
    long = DigitMatrix(np.full((2 * MAX_DIGITS + 1, 3, 3), half), -MAX_DIGITS, bits)
    other = random_matrix(rng, (3, 3), MAX_DIGITS + 1, bits, -3)
    e = -60 * bits
    exact = scaled(long, e) @ scaled(other, e)
    np.testing.assert_array_equal(scaled(long @ other, 2 * e), exact)
    square = scaled(other, e) @ scaled(other, e).T
    np.testing.assert_array_equal(scaled(other.gram(), 2 * e), square)
    for low in (-12, 0, 9):
        error = np.abs(scaled(long.multiply(other, low), 2 * e) - exact).max()
        assert error < 2 ** (bits * low - 2 * e)
        error = np.abs(scaled(other.gram(low), 2 * e) - square).max()
        assert error < 2 ** (bits * low - 2 * e)


def test_too_many_terms_are_refused():
    wide = DigitMatrix(np.ones((1, 2, 2)), 0, digit_bits(2) + 1)
    refuses(lambda: wide @ wide, ArithmeticError, "terms")


@pytest.mark.parametrize("bits", [17, 20, 23])
def test_truncated_product_is_within_its_bound(rng, bits):
    worst = 0.0
    for _ in range(60):
        a = random_matrix(rng, (3, 4), rng.integers(1, 9), bits, -6)
        b = random_matrix(rng, (4, 3), rng.integers(1, 9), bits, -5)
        low = int(rng.integers(-14, 8))
        product = a.multiply(b, low)
        assert product.low >= low
        e = -14 * bits
        error = np.abs(scaled(product, e) - scaled(a @ b, e)).max()
        assert error < 2 ** (bits * low - e)
        worst = max(worst, error / 2 ** (bits * low - e))
    assert worst > 0.4


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_products_by_blocks_are_products(rng, block, monkeypatch):
    """Of triangles, of matrices that are 0 but for some digits, and symmetric ones."""
    monkeypatch.setattr(digits_module, "BLOCK", block)
    for _ in range(20):
        a = random_matrix(rng, (5, 7), 3, 20, -2)
        b = random_matrix(rng, (7, 6), 4, 20, 1)
        a.digits[:] *= np.tri(5, 7, int(rng.integers(-2, 3)))
        b.digits[1, :, 2:4] = 0.0
        b.digits[2:, 3:] = 0.0
        expected = value(a)[0] @ value(b)[0]
        found = a @ b
        np.testing.assert_array_equal(scaled(found, 20 * (a.low + b.low)), expected)
        square = value(a)[0] @ value(a)[0].T
        np.testing.assert_array_equal(scaled(a.gram(), 40 * a.low), square)
        low = int(rng.integers(-8, 4))
        error = np.abs(scaled(a.gram(low), -400) - scaled(a.gram(), -400)).max()
        assert error < 2 ** (20 * low + 400)
        np.testing.assert_array_equal(a.gram(low).digits, a.gram(low).digits.swapaxes(1, 2))


def test_floats_are_taken_to_the_last_bit(rng):
    x = rng.standard_normal((4, 5)) * 10.0 ** rng.integers(-8, 8, (4, 5))
    low = -12
    exact = DigitMatrix.of([x], low, 20)
    np.testing.assert_array_equal(scaled(exact, 20 * low), integers(np.ldexp(x, -20 * low)))
    np.testing.assert_array_equal(exact.to_float(), x)
    # Rounded to the nearest multiple of the unit; a sum of parts part by part.
    coarse = DigitMatrix.of([x, 3 * x], -1, 20)
    units = np.rint(x * 2**20) + np.rint(3 * x * 2**20)
    np.testing.assert_array_equal(scaled(coarse, -20), integers(units))


def test_to_float_keeps_small_differences():
    one = DigitMatrix.of([np.eye(1)], 0, 20)
    tiny = DigitMatrix.of([np.full((1, 1), 2.0**-130)], -8, 20)
    assert ((one + tiny) - one).to_float()[0, 0] == 2.0**-130
    assert (one - (one + tiny)).to_float()[0, 0] == -(2.0**-130)


@pytest.mark.parametrize("bits", [17, 23])
def test_rounding(rng, bits):
    for _ in range(50):
        x = random_matrix(rng, (3, 3), rng.integers(1, 6), bits, rng.integers(-5, 3))
        v, e = value(x)
        top = e + bits * len(x.digits)
        for exponent in rng.integers(top - 50, top + 40, 8):
            result = x.round(int(exponent))
            np.testing.assert_array_equal(integers(result), rounded(v, int(exponent - e)))


def test_rounding_at_boundaries():
    """A half and its nearest neighbours 2^-200 away, for either sign."""
    bits, unit = 20, 2**200
    for count in (0, 1, -1, 2**30, -(2**30)):
        half = (2 * count + 1) * unit // 2
        for nudge in (-1, 0, 1):
            v = half + nudge
            digits = []
            rest = v
            for _ in range(13):
                digit = (rest + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
                digits.append(float(digit))
                rest = (rest - digit) // 2**bits
            assert rest == 0
            x = DigitMatrix(np.reshape(digits, (13, 1, 1)), -10, bits)
            assert x.round(0)[0, 0] == count + (nudge >= 0)


def test_large_counts_depend_on_the_count_alone(rng):
    """What lies below the grid must not show in the float64 of a count beyond 2^53."""
    bits = 20
    count = rng.integers(0, 2**60, (4, 4))
    big = DigitMatrix.of([np.floor(count / 2**30) * 2.0**50, count % 2**30 * 2.0**20], 0, bits)
    results = {
        (big + DigitMatrix.of([np.full((4, 4), below)], -5, bits)).round(20).tobytes()
        for below in (0.0, 2.0**-99, 2.0**18, 2.0**19 - 1.0, -(2.0**19), -(2.0**-99))
    }
    assert len(results) == 1


@pytest.mark.parametrize("bits", [17, 23])
def test_rounding_within_an_error(rng, bits):
    """The counts where no error of that size moves any, and None where one does."""
    for _ in range(50):
        x = random_matrix(rng, (40, 3), rng.integers(1, 6), bits, rng.integers(-5, 3))
        exponent = bits * (x.low + len(x.digits)) - int(rng.integers(0, 60))
        counts = x.round(exponent)
        v, e = value(x)
        for error in (2.0 ** (exponent - 30), 2.0 ** (exponent - 3), 2.0 ** (exponent - 60)):
            found = x.round_within(error, exponent)
            assert found is None or np.array_equal(found, counts)
            # In grid steps, how near is a boundary?
            step, off = (
                Fraction(2) ** int(e - exponent),
                Fraction(error) / Fraction(2) ** int(exponent),
            )
            near = min(abs(int(y) * step % 1 - Fraction(1, 2)) for y in v.ravel())
            if near > 4 * off:
                assert found is not None
            if near < off:
                assert found is None


def test_rounding_within_an_error_sees_counts_that_floats_cannot_tell_apart():
    big = DigitMatrix.of([np.full((2, 2), 2.0**80)], 0, 20)
    half = DigitMatrix.of([np.full((2, 2), 0.5)], -1, 20)
    assert (big + half).round_within(0.1, 0) is None
    assert (big + half).round_within(0.1, 2)[0, 0] == 2.0**78
    negative = DigitMatrix.of([np.full((2, 2), -(2.0**80))], 0, 20)
    assert negative.round_within(0.1, 0)[0, 0] == -(2.0**80)
    zero = DigitMatrix.of([np.zeros((2, 2))], 0, 20)
    assert zero.round_within(0.1, 0)[0, 0] == 0
