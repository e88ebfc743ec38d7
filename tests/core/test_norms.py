"""Squared row norms: a function of each row's values alone, to the last bit."""

import numpy as np
import pytest
from support.helpers import refuses

from privgram._core.rowmap import squared_norms


def norms(block):
    out = np.full(len(block), np.nan)
    squared_norms(block, out)
    return out


def by_hand(block):
    """One rounding a product and one a sum, in the order of the columns."""
    result = []
    for row in block.astype(np.float64):
        total = 0.0
        for value in row.tolist():
            total += value * value
        result.append(total)
    return np.array(result)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, ">f8"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (7, 3), (8, 22), (1100, 5)])
def test_equal_to_the_sum_by_hand(layout, rng, dtype, shape):
    block = (rng.standard_normal(shape) * 10.0 ** rng.integers(-5, 5, shape)).astype(dtype)
    np.testing.assert_array_equal(norms(layout(block)), by_hand(block))


def test_position_and_neighbours_do_not_matter(rng):
    """Or a row added in front would change the norms of those behind it."""
    block = rng.standard_normal((1200, 13))
    for order in "CF":
        whole = norms(np.asarray(block, order=order))
        for start in (1, 3, 500):
            np.testing.assert_array_equal(
                norms(np.asarray(block[start:], order=order)), whole[start:]
            )


def test_beyond_the_range_of_floats():
    block = np.array([[1e200, 0.0], [np.inf, 1.0], [np.nan, 1.0], [1e-200, 0.0]])
    np.testing.assert_array_equal(norms(block), [np.inf, np.inf, np.nan, 0.0])


def test_no_rows_or_no_columns():
    assert norms(np.empty((0, 3))).shape == (0,)
    np.testing.assert_array_equal(norms(np.empty((3, 0))), 0.0)


def test_wrong_input():
    refuses(lambda: norms(np.ones((2, 2), np.uint8)), TypeError, "floats or signed integers")
    refuses(lambda: squared_norms(np.ones((2, 2)), np.empty(3)), ValueError, "n norms")
