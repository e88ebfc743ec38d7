"""The rules of a plan's simulations, each in numbers that a hand can check."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import privgram as pg
from privgram.adaptive.radius import cumulative_std
from privgram.adaptive.whitening import WhiteningTransform
from privgram.mechanisms import AdaptiveGaussian
from privgram.noise import GaussianLaw
from privgram.planning import power
from privgram.planning.guess import Guess
from privgram.planning.power import _SimulatedRounds
from privgram.privacy.guarantee import Guarantee


def simulated(complete=1.0, seed=0):
    """Rounds of 1,000 rows, of which 100 were made."""
    rows = np.random.default_rng(1).normal(size=(100, 2))
    design = SimpleNamespace(rows=rows, complete=complete, shape=None)
    moment = 1000 * complete / 100 * rows.T @ rows
    setting = SimpleNamespace(design=design, moment=moment, bound=3.0, columns=None, n_rows=1000)
    noise = AdaptiveGaussian().calibrate(2, 3.0, 1.0, 1e-6, "add-remove")
    return _SimulatedRounds(setting, noise, np.random.default_rng(seed))


def test_made_rows_stand_for_those_that_are_complete():
    assert simulated().number(0.1) == pytest.approx(1000)
    assert simulated(0.8).number(0.1) == pytest.approx(800)
    frame = WhiteningTransform(np.eye(2), 1.0, 9.0)
    one = simulated(0.8)
    np.testing.assert_allclose(one.mapped(frame, 100.0).matrix, one.moment.matrix)


def test_counts_of_lengths_have_the_noise_of_their_round():
    """Over 100 draws, where the edges' order lowers it by little."""
    frame, edges = WhiteningTransform(np.eye(2), 1.0, 9.0), np.array([0.1, 0.5, 1.0])
    drawn = np.array([simulated(seed=seed).count(frame, edges, 0.1) for seed in range(100)])
    expected = cumulative_std(3, simulated().ranked_std(3, 0.1))
    assert (drawn.std(axis=0) > expected / 2).all()
    assert (np.diff(drawn, axis=1) <= 1e-9).all()


def test_numbers_of_a_guess_spread_over_a_sixth_of_their_bounds():
    """Of 20,000: within three hundredths."""
    columns = pg.Columns({"x": (-3, 9), "y": (0, 6)})
    rows = Guess.of({"correlation": {}}, columns).rows(20_000)
    assert np.std(rows["x"]) == pytest.approx(12 / 6, rel=0.03)
    assert np.mean(rows["x"]) == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize(("refused", "told"), [(1, True), (2, False)])
def test_standard_errors_are_told_where_most_simulated_fits_have_some(monkeypatch, refused, told):
    """Of three fits in turn one or two are refused; that of the design itself is not."""
    numbers, real = itertools.count(), power.regress

    def regressed(record, target):
        if record.noise == GaussianLaw(0.0, 0.0) or next(numbers) % 3 >= refused:
            return real(record, target)
        return SimpleNamespace(inference=SimpleNamespace(stderr=np.full(2, np.nan)))

    monkeypatch.setattr(power, "regress", regressed)
    columns = pg.Columns({"x": (-1, 1), "y": (-1, 1)}, intercept=True)
    simulation = power.simulate_power(
        columns, {("x", "y"): 0.5}, ["y"], {"one": pg.AnalyzeGauss()}, bound=columns.bound,
        guarantee=Guarantee(4.0, 1e-6, "replace", None), n_rows=20_000,
    )  # fmt: skip
    assert (simulation.rows[0].stderr["one"] is not None) == told


def test_simulated_round_has_twice_the_variance_on_the_diagonal():
    """Of 1,000 draws; within a fifth, of which six deviations are a quarter."""
    one = simulated()
    noise = np.array([one.take(one.moment, 0.1) - one.moment.matrix for _ in range(1000)])
    variance = noise.var(axis=0)
    assert variance[0, 1] == pytest.approx(one.std_at(one.moment.bound, 0.1) ** 2, rel=0.2)
    assert variance[0, 0] == pytest.approx(2 * variance[0, 1], rel=0.25)


def test_instruments_of_a_guess_explain_a_quarter_of_what_they_stand_in_for():
    columns = pg.Columns(dict.fromkeys(("x", "z", "w"), (-1, 1)))
    guess = Guess.of({"correlation": {}}, columns, instrumented=(("x", ("z", "w")),))
    np.testing.assert_allclose(guess._correlation[0, 1:] ** 2, [1 / 8, 1 / 8])
