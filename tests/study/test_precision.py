"""From a wanted precision to epsilon, and what releases then show."""

import math

import numpy as np
import pytest

import privgram as pg

pytest.importorskip("formulaic")

COLUMNS = {"x": (-3, 3), "y": (-10, 10), "g": ["a", "b"], "b": bool}
ROWS = 20_000


def made(seed=0, n=ROWS):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, n)
    return {
        "x": x,
        "y": x + rng.normal(0, 2, n),
        "g": np.where(rng.random(n) < 0.5, "a", "b"),
        "b": rng.random(n) < 1 / (1 + np.exp(-x)),
    }


@pytest.fixture(scope="module")
def study():
    return pg.Study(made(), COLUMNS, epsilon=4.0, delta=1e-6)


def study_of(epsilon):
    return pg.Study(made(), COLUMNS, epsilon=epsilon, delta=1e-6)


@pytest.mark.slow
def test_what_was_planned_is_what_releases_show(study):
    planned = study.plan("y ~ x + g", want={"x": 0.02}, design=made(1))
    assert 0.019 < planned["x"].stderr <= 0.02
    assert str(planned).count("\n") < 24
    shown = [
        study_of(float(planned))
        .release(float(planned), terms=["y", "x", "g"], rng=np.random.default_rng(seed))
        .regress("y ~ x + g")
        .bse["x"]
        for seed in range(9)
    ]
    # Medians of releases are planned to 3 %; those of nine vary by 10.
    assert np.median(shown) == pytest.approx(0.02, rel=0.25)
    assert not study.entries


@pytest.mark.slow
def test_of_factors_groups_units_and_log_odds(study):
    factor = study.plan("y ~ g", want={"g": 0.1})
    assert factor["g[b]"].wanted == 0.1
    assert factor["g[b]"].stderr <= 0.1
    in_groups = study.plan("y ~ x", epsilon=1.0, by="g", design=made(1))
    alone = study.plan("y ~ x", epsilon=1.0, design=made(1))
    assert in_groups["x"].sampling == pytest.approx(math.sqrt(2) * alone["x"].sampling, rel=0.01)
    of_units = pg.Study(made(), COLUMNS, epsilon=4.0, delta=1e-6, unit=pg.Unit("who", rows=4)).plan(
        "y ~ x", epsilon=1.0, design=made(1)
    )
    assert of_units["x"].stderr > alone["x"].stderr
    odds = study.plan("b ~ x", epsilon=1.0, family="binomial", design=made(1))
    fit = study.regress("b ~ x", epsilon=1.0, family="binomial", rng=np.random.default_rng(0))
    assert odds["x"].stderr == pytest.approx(fit.bse["x"], rel=0.5)


def test_what_no_epsilon_gives_says_how_many_rows_do(study):
    planned = study.plan("y ~ x", want={"x": 0.001})
    assert planned.epsilon is None
    assert math.isnan(float(planned))
    assert "rows" in planned.notes[0]


def test_what_cannot_be_planned(study):
    with pytest.raises(ValueError, match="no coefficient 'z'"):
        study.plan("y ~ x", want={"z": 1.0})
    with pytest.raises(ValueError, match="instruments"):
        study.plan("y ~ [x ~ g]")
    private = pg.Study(made(), COLUMNS, epsilon=4.0, delta=1e-6, adjacency="add-remove")
    with pytest.raises(ValueError, match="n_rows="):
        private.plan("y ~ x")
    with pytest.raises(ValueError, match="rows="):
        pg.Study(made(), COLUMNS, epsilon=1.0, delta=1e-6, unit="who").plan("y ~ x")


def test_what_is_left_of_a_budget_for_units(tmp_path):
    table = made(n=2000) | {"who": np.arange(2000) // 4}
    it = pg.Study(
        table,
        COLUMNS,
        epsilon=2.0,
        delta=1e-6,
        unit=pg.Unit("who", rows=4),
        ledger=tmp_path / "it.ledger",
    )
    it.release(epsilon=1.0)
    assert 1.0 < it.remaining() < 2.0
