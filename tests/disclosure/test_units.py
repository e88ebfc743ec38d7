"""Releases by unit: what is public, what is spent, and what is refused."""

import math

import numpy as np
import pytest

import privgram as pg
from privgram.columns.unit import PrivacyUnit

COLUMNS = pg.Columns({"a": (-1, 1), "b": (-1, 1), "y": (-2, 2)}, intercept=True)


def panel(units=4000, rows=6, seed=0):
    rng = np.random.default_rng(seed)
    n = units * rows
    ids = np.repeat(np.arange(units), rows)
    effect = rng.normal(size=units)[ids] / 4
    a = np.clip(rng.uniform(-0.8, 0.8, n) + effect / 3, -1, 1)
    b = rng.uniform(-1, 1, n)
    y = 0.5 * a - 0.3 * b + effect + rng.normal(size=n) / 5
    order = rng.permutation(n)
    return {"id": ids[order], "a": a[order], "b": b[order], "y": np.clip(y, -2, 2)[order]}


GIVEN = {"columns": COLUMNS, "epsilon": 2.0, "delta": 1e-6}


@pytest.mark.slow
def test_release_by_unit_states_its_unit(tmp_path):
    release = pg.release(
        panel(), unit=pg.Unit("id", max_rows=6), **GIVEN, rng=np.random.default_rng(0)
    )
    assert release.privacy_unit == PrivacyUnit("id")
    assert (release.n_rows, release.n_units) == (None, 4000)
    assert math.isclose(release.bound, math.sqrt(6) * COLUMNS.bound)
    assert "for all rows of one 'id'" in repr(release)
    fit = release.regress("y")
    assert abs(fit.n_rows - 24_000) < 1000
    text = str(fit.summary())
    assert "All rows of one id are protected together" in text
    assert "independent" in text
    assert "Units clipped at" in text
    for name in ("r.json", "r.npz"):
        release.save(tmp_path / name)
        again = pg.load(tmp_path / name)
        assert (again.privacy_unit, again.n_units) == (release.privacy_unit, 4000)
    hidden = pg.release(panel(), unit=pg.Unit("id", max_rows=6), **GIVEN, adjacency="add-remove")
    assert (hidden.n_rows, hidden.n_units) == (None, None)


def test_noise_is_that_of_the_unit_bound():
    release = pg.release(panel(10), unit=pg.Unit("id", bound=3.0), **GIVEN)
    expected = pg.AnalyzeGauss().calibrate(4, 3.0, 2.0, 1e-6)
    assert math.isclose(release.noise.std, expected.noise_std, rel_tol=1e-5)


@pytest.mark.slow
def test_audit_of_the_worst_pair():
    """Two units of orthogonal rows at the bound: how far the release moves along their difference.

    By sqrt(2) C^2, in units of its noise by what the profile says. Means of 600 draws each: false
    alarms below 1e-4.
    """
    moments = [
        pg.second_moment(
            {"id": np.zeros(9, int), "x": np.full(9, x), "y": np.full(9, 1.0 - x)},
            columns=["x", "y"],
            unit=pg.Unit("id", bound=2.0),
        )
        for x in (0.0, 1.0)
    ]
    difference = moments[0].matrix() - moments[1].matrix()
    distance = np.linalg.norm(difference)
    assert math.isclose(distance, math.sqrt(2) * 4, rel_tol=1e-4)
    assert distance <= math.sqrt(2) * moments[0].sensitivity_bound ** 2
    rng = np.random.default_rng(5)
    along = [
        [
            np.sum(
                difference
                * pg.release(m, None, 1.0, 1e-3, rng=rng, mechanism=pg.AnalyzeGauss()).matrix
            )
            / distance
            for _ in range(600)
        ]
        for m in moments
    ]
    ratio = pg.AnalyzeGauss().calibrate(2, 2.0, 1.0, 1e-3).privacy.sensitivity_ratio
    moved = (np.mean(along[0]) - np.mean(along[1])) / np.std(along, axis=1, ddof=1).mean()
    assert abs(moved - ratio) < 4 * math.sqrt(2 / 600)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_bound_chosen_by_the_table(adjacency, tmp_path):
    ledger = pg.Ledger(tmp_path / "ledger.json", epsilon=3.0, delta=1e-5, adjacency=adjacency)
    release = pg.release(
        panel(),
        **GIVEN,
        unit=pg.Unit("id", bound=pg.PrivateBound(0.5)),
        adjacency=adjacency,
        rng=np.random.default_rng(0),
        ledger=ledger,
    )
    data = panel()
    x = COLUMNS.encode({name: data[name] for name in "aby"})
    x = x[np.argsort(data["id"])].reshape(4000, 6, 4)
    norms = np.sqrt(np.linalg.norm(x.transpose(0, 2, 1) @ x, axis=(1, 2)))
    low, high = np.quantile(norms, [0.4, 0.6])
    assert low <= release.bound <= high * 1.06
    assert release.epsilon == 2.5
    assert len(ledger.entries) == 2
    assert any("for all rows of a unit" in entry.what for entry in ledger.entries)


def test_pure_privacy_takes_the_trace():
    made = pg.release(panel(), **GIVEN | {"delta": 0}, unit=pg.Unit("id", max_rows=6, clip="trace"))
    assert made.mechanism == pg.MatrixLaplace()
    assert made.privacy_unit.clip == "trace"
    with pytest.raises(ValueError, match="clip='trace'"):
        pg.release(panel(), **GIVEN | {"delta": 0}, unit=pg.Unit("id", max_rows=6))


def test_moment_keeps_the_unit_that_it_has():
    moment = pg.second_moment(panel(50), columns=COLUMNS, unit=pg.Unit("id", max_rows=6))
    release = pg.release(moment, epsilon=1.0, delta=1e-6)
    assert (release.privacy_unit.name, release.n_units) == ("id", 50)


def test_within_is_the_regression_with_an_effect_for_each_unit():
    data = panel(3000, 5)
    release = pg.release(
        data,
        **GIVEN | {"epsilon": 1e4},
        unit=pg.Unit("id", max_rows=5, fixed_effects=True),
        rng=np.random.default_rng(0),
    )
    fit = release.regress("y")
    x = np.stack([data["a"], data["b"]], axis=1)
    y = data["y"]
    means = np.zeros((3000, 3))
    np.add.at(means, data["id"], np.column_stack([x, y]) / 5)
    x, y = x - means[data["id"], :2], y - means[data["id"], 2]
    coef, rss, *_ = np.linalg.lstsq(x, y, rcond=None)
    assert np.allclose(fit.params[:2], coef, atol=2e-4)
    covariance = rss / (15_000 - 3000 - 3) * np.linalg.inv(x.T @ x)
    assert np.allclose(fit.bse[:2], np.sqrt(covariance.diagonal()), rtol=5e-3)
    assert "an effect for each" in str(fit.summary())


def test_decoded_file_is_kept_for_the_second_pass(tmp_path, monkeypatch):
    """With its units, so that the choice of a bound and the release decode it once."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    from privgram.sources import arrow

    data = {name: column.tolist() for name, column in panel(300).items()}
    data["id"] = list(map(str, data["id"]))
    parquet.write_table(pa.table(data), tmp_path / "t.parquet")
    seen, plain = [], arrow.keys_of
    monkeypatch.setattr(arrow, "keys_of", lambda *given: seen.append(1) or plain(*given))
    more = {"unit": pg.Unit("id", bound=pg.PrivateBound(5.0)), "rng": np.random.default_rng(0)}
    release = pg.release(tmp_path / "t.parquet", **GIVEN, **more)
    assert release.n_units == 300
    assert len(seen) == 1
