"""Noise on a triangle of whole numbers in one sweep: as `privgram.exact.int128` does it."""

import numpy as np
import pytest

from privgram._core.draws import noisy_rows
from privgram.exact import int128


def words(rng, n):
    """128-bit integers of all sizes and both signs."""
    high = rng.integers(-(2**63), 2**63, n, np.int64) >> rng.integers(0, 64, n)
    return high, rng.integers(0, 2**64, n, np.uint64)


@pytest.mark.parametrize("d", [1, 2, 31, 32, 33, 70, 101])
@pytest.mark.parametrize("exponent", [0, 1, 30, 63, 64, 65, 126])
@pytest.mark.parametrize("shift", [0, 7, 63])
def test_sweep_is_that_of_limbs(d, exponent, shift, rng):
    below, over = np.tril_indices(d), np.triu_indices(d, 1)
    total, above = words(rng, len(below[0])), words(rng, len(over[0]))
    square, noise = [], []
    for k, kind in enumerate((np.int64, np.uint64)):
        square.append(np.zeros((d, d), kind))
        square[k][below] = square[k].T[below] = total[k]
        noise.append(np.zeros((d, d), kind))
        noise[k][over] = noise[k].T[over] = above[k]
    expected = int128.round_to_grid(
        int128.add(int128.shifted(tuple(square), shift), noise), exponent
    )
    np.fill_diagonal(expected, np.nan)  # is left as it was
    out = np.full((d, d), np.nan)
    first = used = 0
    while first < d - 1:
        stop = int(rng.integers(first + 1, d))
        size = sum(d - 1 - row for row in range(first, stop))
        part = tuple(words[used : used + size] for words in above)
        noisy_rows(total, part, first, stop, shift, exponent, 0.37, out)
        first, used = stop, used + size
    np.testing.assert_array_equal(out, expected * 0.37)


def test_parts_must_fit(rng):
    out = np.empty((3, 3))
    total, rows = words(rng, 6), words(rng, 2)
    for wrong in ((words(rng, 5), rows), (total, words(rng, 3))):
        with pytest.raises(ValueError, match="one symmetric matrix"):
            noisy_rows(*wrong, 0, 1, 0, 0, 1.0, out)
    for first, stop in ((-1, 1), (1, 1), (2, 1), (1, 3)):
        with pytest.raises(ValueError, match="no rows"):
            noisy_rows(total, rows, first, stop, 0, 0, 1.0, out)
    for shift, exponent in ((64, 0), (-1, 0), (0, 127), (0, -1)):
        with pytest.raises(ValueError, match="beyond 128 bits"):
            noisy_rows(total, rows, 0, 1, shift, exponent, 1.0, out)
