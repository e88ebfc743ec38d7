"""Releases with many known zeros: no noise is drawn for these, and the law is the same."""

import numpy as np
import pytest

import privgram as pg
from privgram import mechanisms
from privgram._base.machine import zero_matrix
from privgram.disclosure import samplers
from privgram.exact import discrete, int128
from privgram.noise import MaskedLaw, TiedLaw
from privgram.privacy.guarantee import Guarantee

GAUSS = pg.AnalyzeGauss()
LEVELS = list(range(12))


def table(n, levels):
    rng = np.random.default_rng(3)
    codes = rng.integers(0, len(levels), n)
    found = {"x": rng.uniform(0, 1, n), "y": rng.uniform(0, 1, n), "f": codes}
    return found | {"g": rng.choice(["a", "b", "c"], n)}


#: Columns whose release is masked; tied besides; of no zeros; and with zeros that are in no block.
COLUMNS = {
    "masked": pg.Columns({"x": (0, 1), "y": (0, 1), "f": pg.Factor(LEVELS)}, intercept=True),
    "tied": pg.Columns({"x": (0, 1), "f": pg.Factor(LEVELS), "g": ["a", "b", "c"]}),
    "none": pg.Columns({"x": (0, 1), "y": (0, 1)}),
    "others": pg.Columns({"x": (0, 1), "f": pg.Factor(LEVELS)}, terms=["f", "x:f"]),
}


@pytest.fixture
def drawn(monkeypatch):
    """How many integers are drawn each time; they are 0, so that what is released is the sum."""
    sizes = []

    def nothing(variance, size, rng):
        sizes.append(size)
        return int128.from_int64(np.zeros(size, np.int64))

    monkeypatch.setattr(discrete, "gaussian", nothing)
    return sizes


@pytest.mark.parametrize("noise", ["symmetric", "triangular"])
@pytest.mark.parametrize(("name", "law"), [("masked", MaskedLaw), ("tied", (TiedLaw, MaskedLaw))])
def test_entries_besides_zeros_are_those_of_the_sum(name, law, noise, drawn, monkeypatch):
    columns = COLUMNS[name]
    moment = pg.second_moment(table(500, LEVELS), columns=columns)
    mechanism = pg.AnalyzeGauss(noise=noise)
    usual = pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=mechanism)
    d = len(columns)
    assert sum(drawn) == d * (d + 1) // 2
    drawn.clear()
    monkeypatch.setattr(samplers, "MANY_ZEROS", 0)
    fewer = pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=mechanism)
    assert isinstance(fewer.noise, law)
    assert fewer.noise == usual.noise
    assert drawn == [d * (d - 1) // 2 - moment.n_known_zeros, d]
    grid = usual.noise.base.std if isinstance(usual.noise, MaskedLaw) else usual.noise.base.base.std
    np.testing.assert_allclose(fewer.matrix, usual.matrix, rtol=0, atol=grid / 2**9)


@pytest.mark.parametrize("name", ["masked", "tied"])
def test_rounds_of_the_default_leave_them_out_too(name, drawn, monkeypatch):
    columns = COLUMNS[name]
    d, data = len(columns), table(5000, LEVELS)
    zeros = pg.second_moment(data, columns=columns).n_known_zeros
    usual = pg.release(data, columns, epsilon=4.0, delta=1e-6)
    rounds = sum(size == d * (d - 1) // 2 for size in drawn)
    drawn.clear()
    monkeypatch.setattr(samplers, "MANY_ZEROS", 0)
    fewer = pg.release(data, columns, epsilon=4.0, delta=1e-6)
    left = [size for size in drawn if size in (d * (d - 1) // 2, d * (d - 1) // 2 - zeros)]
    assert len(left) == rounds
    assert left[0] == d * (d - 1) // 2 - zeros
    assert fewer.parameters["rounds"] == usual.parameters["rounds"]
    assert type(fewer.noise) is type(usual.noise)
    atol = fewer.parameters["round_noise_std"][0] / 2**6
    np.testing.assert_allclose(fewer.matrix, usual.matrix, rtol=0, atol=atol)
    drawn.clear()
    pg.release(data, columns, bound=0.9 * columns.bound, epsilon=4.0, delta=1e-6)
    assert drawn[0] == d * (d - 1) // 2  # no factor is apart, and all rounds are combined


def test_every_entry_has_noise_of_its_deviation(monkeypatch):
    """Within 5 deviations of what 300 releases give: false alarms below 1e-4."""
    monkeypatch.setattr(samplers, "MANY_ZEROS", 0)
    columns = COLUMNS["masked"]
    moment = pg.second_moment(table(500, LEVELS), columns=columns)
    rng = np.random.default_rng(7)
    made = [
        pg.release(moment, epsilon=1.0, delta=1e-6, rng=rng, mechanism=GAUSS) for _ in range(300)
    ]
    law = made[0].noise
    noise = np.array([one.matrix for one in made]) - moment.matrix()
    variances = law.independent(len(columns))
    assert (noise[:, variances == 0] == -moment.matrix()[variances == 0]).all()
    some = variances > 0
    ratio = (noise[:, some] ** 2).mean(axis=0) / variances[some]
    assert np.abs(ratio - 1).max() < 5 * np.sqrt(2 / 300)
    off = noise[:, *np.nonzero(np.triu(some, 1))]
    assert np.abs(np.corrcoef(off.T) - np.eye(off.shape[1])).max() < 5 / np.sqrt(300)


@pytest.mark.parametrize("name", ["none", "others"])
def test_where_zeros_are_in_no_block_all_have_noise(name):
    moment = pg.second_moment(table(50, LEVELS), columns=COLUMNS[name])
    assert moment.n_known_zeros == 0


def test_matrix_of_zeros_is_one_to_write_in():
    matrix = zero_matrix(300)
    assert not matrix.any()
    np.fill_diagonal(matrix, 2.0)
    np.testing.assert_array_equal(matrix, np.diag([2.0] * 300))


@pytest.mark.slow
def test_thousands_of_levels_are_looked_at_once():
    levels = list(range(3000))
    columns = pg.Columns({"x": (0, 1), "y": (0, 1), "f": pg.Factor(levels)}, intercept=True)
    made = pg.release(table(5000, levels), columns, epsilon=1.0, delta=1e-6)
    assert (made.method, made.reason) == ("one round", "so many columns take too long to learn")
    assert np.count_nonzero(made.matrix) <= 3000 * 5 + 4
    narrow = pg.Columns({"x": (0, 1), "f": pg.Factor(levels[:2047])})
    chosen, _ = mechanisms.best({}, narrow, Guarantee(1.0, 1e-6, "replace", None))
    assert isinstance(chosen, pg.AdaptiveGaussian)
