"""Cluster-robust standard errors by a second look: statsmodels' where there is no noise."""

import numpy as np
import pytest

import privgram as pg
from privgram._core.rows import Accumulator
from privgram._core.units import UnitAccumulator
from privgram.drawing.unit_scores import UnitScores
from privgram.moment.scored import sums_of_units

COLUMNS = pg.Columns({"x": (-1, 1), "z": (-1, 1), "y": (-3, 3)}, intercept=True, missing="drop")
GIVEN = {"columns": COLUMNS, "epsilon": 1e4, "delta": 1e-6}


def clustered(units=3000, rows=6, seed=0):
    """Errors and one feature that go with the unit."""
    rng = np.random.default_rng(seed)
    n, ids = units * rows, np.repeat(np.arange(units), rows)
    z = rng.uniform(-1, 1, units)[ids]
    x = rng.uniform(-1, 1, n)
    errors = rng.normal(size=units)[ids] * 0.4 + rng.normal(size=n) * 0.2
    return {"id": ids, "x": x, "z": z, "y": np.clip(0.3 * x + 0.2 * z + errors, -3, 3)}


def cr1(x, e, ids):
    """Liang and Zeger's variance, as statsmodels corrects it for small samples."""
    n, q = x.shape
    sums = np.zeros((ids.max() + 1, q))
    np.add.at(sums, ids, x * e[:, None])
    sums = sums[np.unique(ids)]
    inverse, units = np.linalg.inv(x.T @ x), len(sums)
    factor = n / (n - q) * units / (units - 1)
    return np.sqrt(factor * np.diag(inverse @ sums.T @ sums @ inverse))


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_it_is_liang_and_zegers(adjacency):
    data = clustered()
    rng = np.random.default_rng(0)
    release = pg.release(data, **GIVEN, unit=pg.Unit("id", rows=6), adjacency=adjacency, rng=rng)
    fit = release.regress("y")
    robust = fit.robust(data, 1e4, 1e-6, rng=rng)
    x = np.column_stack([data["x"], data["z"], np.ones(18_000)])
    theta = np.linalg.lstsq(x, data["y"], rcond=None)[0]
    expected = cr1(x, data["y"] - x @ theta, data["id"])
    assert np.all(robust.bse >= expected * 0.99)  # on the wide side
    assert np.allclose(robust.bse, expected, rtol=0.1)
    assert robust.bse[1] > 2 * fit.bse[1]
    assert np.array_equal(robust.used, fit.used)
    assert robust.look.privacy_unit == release.privacy_unit
    assert robust.look.n_units == release.n_units
    assert 1e4 < robust.epsilon <= 2e4
    text = str(robust.summary())
    assert "go together within a unit" in text
    assert "CR1" in text
    assert "are independent" not in text


def test_within():
    data = clustered()
    rng = np.random.default_rng(0)
    release = pg.release(data, **GIVEN, unit=pg.Unit("id", rows=6, within=True), rng=rng)
    robust = release.regress("y", ["x"]).robust(data, 1e4, 1e-6, rng=rng)
    means = np.zeros((3000, 2))
    np.add.at(means, data["id"], np.column_stack([data["x"], data["y"]]) / 6)
    x, y = (data[name] - means[data["id"], i] for i, name in enumerate("xy"))
    theta = x @ y / (x @ x)
    expected = cr1(x[:, None], y - x * theta, data["id"])
    assert np.allclose(robust.bse[0], expected[0], rtol=0.1)
    assert robust.bse[0] >= expected[0] * 0.99


@pytest.mark.parametrize("saved", [False, True])
def test_rows_are_clipped_as_the_release_clipped_them(saved, tmp_path):
    """To a bound below the columns' own: the look is of the same rows as the release."""
    data, rng = clustered(), np.random.default_rng(0)
    far = data["id"] % 20 == 0
    data["y"][far] = np.where(data["id"][far] % 40 == 0, 3.0, -3.0)
    release = pg.release(data, **GIVEN, unit=pg.Unit("id", rows=6), bound=0.8, rng=rng)
    assert release.privacy_unit.row_bound == 0.8
    if saved:
        release.save(tmp_path / "release.json")
        release = pg.load(tmp_path / "release.json")
    robust = release.regress("y").robust(data, 1e4, 1e-6, rng=rng)
    rows = COLUMNS.encode({name: data[name] for name in "xzy"})
    short = rows * np.minimum(1, 0.8 / np.linalg.norm(rows, axis=1))[:, None]
    x, y = short[:, [0, 1, 3]], short[:, 2]
    theta = np.linalg.lstsq(x, y, rcond=None)[0]
    expected = 3 * cr1(x, y - x @ theta, data["id"])  # y is in thirds
    whole = np.column_stack([data["x"], data["z"], np.ones(18_000)])
    whole_theta = np.linalg.lstsq(whole, data["y"], rcond=None)[0]
    unclipped = cr1(whole, data["y"] - whole @ whole_theta, data["id"])
    assert np.all(robust.bse >= expected * 0.98)
    assert np.all(robust.bse <= expected * 1.15)
    assert np.all(unclipped > expected * 1.25)  # or the bound would not show


def test_order_of_rows_does_not_matter():
    data = clustered(400)
    data["y"][::50] = np.nan
    release = pg.release(data, **GIVEN, unit=pg.Unit("id", bound=2.0), rng=np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(2400)
    mixed = {name: column[order] for name, column in data.items()}
    looks = [
        release.regress("y").robust(table, 1e4, 1e-6, threads=t, rng=np.random.default_rng(2)).look
        for table, t in ((data, 1), (mixed, 3))
    ]
    assert np.array_equal(looks[0].matrix, looks[1].matrix)


@pytest.mark.parametrize("centred", [(), (0, 1)])
def test_no_unit_counts_for_more_than_the_radius(centred):
    """The integers of a single unit, however large, odd or at the bound its rows are."""
    rng = np.random.default_rng(3)
    for k in (1, 2, 50, 3000):
        for scale in (1e-3, 1.0, 1e6):
            x = rng.normal(size=(k, 3)) * scale
            units = UnitAccumulator(3, 2.0, 1.5, 20, False, centred)
            total = UnitScores(rng.normal(size=(3, 3)), 0.5, Accumulator(2, 0.7), units)
            assert total.update(x, np.array([0])) == -1
            hi, lo = total.inner.limbs()
            assert not hi.diagonal().any()
            assert int(lo[0, 0]) + int(lo[1, 1]) <= 2**40


def test_a_look_at_an_array_is_one_at_its_table():
    """The array has no column of units, so whose rows are whose is not known again."""
    data = clustered(400)
    table = np.column_stack([data[name] for name in "xzy"])
    settings = {"columns": COLUMNS, "epsilon": 1e4, "delta": 1e-6}
    made = [
        pg.release(source, unit=unit, rng=np.random.default_rng(0), **settings).regress("y")
        for source, unit in (
            (table, pg.Unit("id", rows=6, values=data["id"])),
            (data, pg.Unit("id", rows=6)),
        )
    ]
    ours, theirs = (fit.robust(data, 1e4, 1e-6, rng=np.random.default_rng(0)) for fit in made)
    assert np.array_equal(ours.bse, theirs.bse)
    with pytest.raises(ValueError, match="a table with that column"):
        made[0].robust(table, 1e4, 1e-6)


def test_a_unit_without_any_score():
    """Nothing is divided by the largest value there may be where that is 0."""
    sums = sums_of_units(np.zeros((3, 2)), 0.0, np.array([0, 2]))
    assert not sums.any()
    assert sums.shape == (2, 2)


def test_what_is_refused():
    data = clustered(400)
    release = pg.release(data, **GIVEN, unit=pg.Unit("id", rows=6), rng=np.random.default_rng(0))
    fewer = {name: column[:-6] for name, column in data.items()}
    with pytest.raises(ValueError, match="another number of units"):
        release.regress("y").robust(fewer, 1e4, 1e-6)
    rows = {name: column for name, column in data.items() if name != "id"}
    with pytest.raises(ValueError, match="no column named 'id'"):
        release.regress("y").robust(rows, 1e4, 1e-6)
    with pytest.raises(ValueError, match="would drown"):
        release.regress("y").robust(data, 1e-3, 1e-9)
