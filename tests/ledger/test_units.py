"""A ledger, and a composition, protect one kind of unit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.privacy import Price, compose

PEOPLE = {"x": np.linspace(-1, 1, 60), "who": np.repeat(np.arange(20), 3)}
COLUMNS = pg.Columns({"x": (-1, 1)})


def by_unit(ledger: pg.Ledger | None = None, unit: str = "who") -> pg.Release:
    table = PEOPLE | {unit: PEOPLE["who"]}
    return pg.release(
        table,
        columns=COLUMNS,
        epsilon=0.9,
        delta=1e-6,
        mechanism=pg.AnalyzeGauss(),
        adjacency="add-remove",
        unit=pg.Unit(unit, max_rows=3),
        ledger=ledger,
    )


def by_rows(ledger: pg.Ledger | None = None) -> pg.Release:
    return pg.release(
        PEOPLE,
        columns=COLUMNS,
        epsilon=0.9,
        delta=1e-6,
        mechanism=pg.AnalyzeGauss(),
        adjacency="add-remove",
        ledger=ledger,
    )


def opened(path: Path, unit: str | None = None) -> pg.Ledger:
    return pg.Ledger(path, 10.0, 1e-3, "add-remove", unit=unit)


@pytest.mark.parametrize("first", ["unit", "rows"])
def test_first_entry_says_whom_a_ledger_protects(tmp_path: Path, first: str) -> None:
    path = tmp_path / "a.ledger"
    ledger = opened(path)
    assert ledger.unit is None
    first_release, other = (by_unit, by_rows) if first == "unit" else (by_rows, by_unit)
    first_release(ledger)
    assert ledger.unit == ("who" if first == "unit" else "")
    before = path.read_bytes()
    for handle in (ledger, pg.Ledger(path)):
        with pytest.raises(ValueError, match="Release by the ledger's unit"):
            other(handle)
    assert path.read_bytes() == before
    first_release(pg.Ledger(path))
    assert len(ledger.entries) == 2


def test_unit_of_another_column_is_another(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "a.ledger")
    by_unit(ledger)
    refuses(lambda: by_unit(ledger, "home"), ValueError, r"'who'.*'home'")


@pytest.mark.parametrize("unit", ["", "who"])
def test_ledger_of_a_unit_from_its_start(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "a.ledger"
    assert opened(path, unit).unit == unit
    with pytest.raises(ValueError, match="Nothing was spent"):
        (by_rows if unit else by_unit)(pg.Ledger(path))
    refuses(lambda: opened(path, "other"), ValueError, "Nothing was spent")
    assert not pg.Ledger(path).entries
    (by_unit if unit else by_rows)(pg.Ledger(path))


def test_entry_without_a_unit_is_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    by_rows(opened(path))
    assert "unit" not in json.loads(path.read_text().splitlines()[1])
    assert pg.Ledger(path).unit == ""


def test_chosen_bound_is_of_its_unit(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "a.ledger", "")
    for bound in (pg.PrivateBound(1.0), 1.0):
        with pytest.raises(ValueError, match="protects single rows"):
            pg.release(
                PEOPLE,
                columns=COLUMNS,
                epsilon=0.9,
                delta=1e-6,
                mechanism=pg.AnalyzeGauss(),
                adjacency="add-remove",
                ledger=ledger,
                unit=pg.Unit("who", bound=bound),
            )
    assert not ledger.entries


def test_units_do_not_compose_with_rows() -> None:
    unit, rows = by_unit(), by_rows()
    compose([unit, unit])
    compose([rows, rows])
    for pair in ([unit, rows], [unit, by_unit(unit="home")]):
        with pytest.raises(ValueError, match="do not compose"):
            compose(pair)


def test_entry_says_its_unit(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "a.ledger")
    for price in (ledger.spend, Price):
        with pytest.raises(TypeError, match="unit"):
            price(0.1, 0.0, adjacency="add-remove")
    assert not ledger.entries


def test_units_have_a_name(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "a.ledger")
    options = {"columns": COLUMNS, "epsilon": 0.9, "delta": 1e-6, "adjacency": "add-remove"}
    with pytest.raises(TypeError, match="unit is the name of a column"):
        pg.release(PEOPLE, **options, unit=PEOPLE["who"], ledger=ledger)
    with pytest.raises(TypeError, match="unit is the name of a column"):
        pg.Unit(PEOPLE["who"], max_rows=3)  # type: ignore[arg-type]
    assert not ledger.entries


def test_remaining_budget_of_a_study_by_unit(tmp_path: Path) -> None:
    study = pg.Study(
        PEOPLE, COLUMNS, epsilon=1.0, delta=1e-6, unit="who", ledger=tmp_path / "a.ledger"
    )
    assert study.remaining() > 0.9


@pytest.mark.parametrize("missing", ["error", "drop"])
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_units_left_after_dropping_are_counted_nowhere(missing, adjacency) -> None:
    who = [*PEOPLE["who"][:-3], *([-1] * 3 if missing == "error" else [None] * 3)]
    table = {"x": PEOPLE["x"], "who": np.array(who, object)}
    unit = pg.Unit("who", max_rows=3, missing=missing)
    options = {"epsilon": 0.9, "delta": 1e-6, "adjacency": adjacency}
    ones = pg.Columns({"x": (-1, 1)}, intercept=True)
    release = pg.release(table, columns=ones, unit=unit, **options)
    assert release.n_units == (20 if (missing, adjacency) == ("error", "replace") else None)
    assert release.n_rows is None
    assert release.privacy_unit.missing == missing
    assert release.regress("x", []).nobs != 57
    auto = pg.Unit("who", bound=pg.PrivateBound(0.1), missing=missing)
    if release.n_units is None:  # a warning of few units would count them
        assert pg.release(table, columns=ones, unit=auto, **options).n_units is None
    else:
        with pytest.warns(UserWarning, match="20 rows are too few"):
            pg.release(table, columns=ones, unit=auto, **options)


EMPTY = {"x": np.zeros(0), "who": np.zeros(0, np.int64)}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bound": pg.PrivateBound(0.1)},
        {"mechanism": "adaptive-gaussian"},
        {"unit": pg.Unit("who", max_rows=3)},
        {"unit": pg.Unit("who", bound=pg.PrivateBound(0.1))},
        {"by": pg.Groups("who", [0, 1])},
    ],
    ids=str,
)
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_empty_table_costs_nothing_where_it_is_publicly_so(tmp_path, options, adjacency) -> None:
    ledger = pg.Ledger(tmp_path / "a.ledger", 1.0, 1e-3, adjacency)
    request = {"columns": COLUMNS, "epsilon": 0.5, "delta": 1e-6, "adjacency": adjacency}
    if adjacency == "replace":
        with pytest.raises(ValueError, match="has no rows"):
            pg.release(EMPTY, **request, **options, ledger=ledger)
        assert not ledger.entries
    else:
        release = pg.release(EMPTY, **request, **options, ledger=ledger)
        assert np.isfinite(release.shared.epsilon if "by" in options else release.matrix).all()
        assert ledger.entries


@pytest.mark.parametrize("who", [7, None])
@pytest.mark.parametrize("bound", [1.5, pg.PrivateBound(0.1)], ids=str)
def test_absence_of_units_is_not_disclosed(tmp_path, who, bound) -> None:
    """Under replace, too: the one unit of a neighbour may be left out."""
    ledger = pg.Ledger(tmp_path / "a.ledger", 1.0, 1e-3, "replace")
    table = {"x": np.array([0.5]), "who": np.array([who], object)}
    options = {"epsilon": 0.5, "delta": 1e-6, "unit": pg.Unit("who", bound=bound, missing="drop")}
    release = pg.release(table, COLUMNS, **options, ledger=ledger)
    assert release.n_units is None
    assert ledger.entries
