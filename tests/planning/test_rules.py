"""The rules of a plan's simulations, each in numbers that a hand can check."""

import numpy as np
import pytest

import privgram as pg
from privgram.planning.guess import Guess


def test_numbers_of_a_guess_spread_over_a_sixth_of_their_bounds():
    """Of 20,000: within three hundredths."""
    columns = pg.Columns({"x": (-3, 9), "y": (0, 6)})
    rows = Guess.of({"correlation": {}}, columns).rows(20_000)
    assert np.std(rows["x"]) == pytest.approx(12 / 6, rel=0.03)
    assert np.mean(rows["x"]) == pytest.approx(3.0, abs=0.1)


def test_instruments_of_a_guess_explain_a_quarter_of_what_they_stand_in_for():
    columns = pg.Columns(dict.fromkeys(("x", "z", "w"), (-1, 1)))
    guess = Guess.of({"correlation": {}}, columns, instrumented=(("x", ("z", "w")),))
    np.testing.assert_allclose(guess._correlation[0, 1:] ** 2, [1 / 8, 1 / 8])
