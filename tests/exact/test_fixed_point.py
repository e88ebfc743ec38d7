"""128-bit integer arithmetic against Python's integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.helpers import refuses

from privgram.exact import int128 as fp
from privgram.papers._shared import from_float

int128 = st.integers(-(2**126), 2**126 - 1)


def int128_of(values):
    high = np.array([v >> 64 for v in values], dtype=np.int64)
    low = np.array([v & (2**64 - 1) for v in values], dtype=np.uint64)
    return high, low


def integers(value):
    return [int(h) * 2**64 + int(x) for h, x in zip(*value, strict=True)]


@given(st.lists(st.tuples(int128, int128), min_size=1, max_size=8))
def test_add(pairs):
    a, b = zip(*pairs, strict=True)
    assert integers(fp.add(int128_of(a), int128_of(b))) == [x + y for x, y in pairs]


@pytest.mark.slow
@given(
    st.lists(
        st.floats(-(2.0**125), 2.0**125) | st.floats(-1e3, 1e3) | st.sampled_from([-0.0, 2.0**64]),
        min_size=1,
        max_size=8,
    )
)
def test_to_limbs_rounds_to_nearest(values):
    assert integers(from_float(np.array(values))) == [round(v) for v in values]


@pytest.mark.parametrize("value", [2.0**126, -(2.0**126), np.inf, np.nan])
def test_to_limbs_refuses_what_does_not_fit(value):
    refuses(lambda: from_float(np.array([value])), ValueError, "126")


@given(st.lists(int128, min_size=1, max_size=8), st.integers(0, 126))
def test_round_to_grid(values, exponent):
    got = fp.round_to_grid(int128_of(values), exponent)
    half = (1 << exponent) >> 1
    expected = [(v + half) >> exponent for v in values]
    for g, e in zip(got.tolist(), expected, strict=True):
        if abs(e) <= 2**53:
            assert g == e
        else:
            assert g == pytest.approx(e, rel=2**-52)


def test_round_to_grid_refuses_an_exponent_beyond_the_limbs():
    refuses(lambda: fp.round_to_grid(int128_of([1]), 127), ValueError, "127")


@pytest.mark.parametrize(
    ("std", "exponent"), [(2.0**43, 33), (2.0**43 * 1.999, 33), (2.0**10, 0), (1e-3, 0)]
)
def test_grid_is_a_thousandth_of_the_noise(std, exponent):
    assert fp.grid_exponent(std) == exponent


@pytest.mark.parametrize("std", [0.0, -1.0, np.nan])
def test_grid_needs_noise(std):
    refuses(lambda: fp.grid_exponent(std), ValueError, "positive")
