"""What a row with a missing value does, where nothing was said: settled by the neighbours."""

import numpy as np
import pytest

import privgram as pg

BOUNDS = {"x": (0, 1), "y": bool}
SPENT = {"epsilon": 2.0, "delta": 1e-6}
DEFAULT = {"add-remove": "drop", "replace": "error"}


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    x = rng.random(2000)
    return {"x": x, "y": (x > 0.5).astype(float), "who": np.arange(2000) // 4}


def hole(table):
    return table | {"x": np.where(np.arange(2000) == 7, np.nan, table["x"])}


def released(table, columns, **options):
    release = pg.release(table, columns, **SPENT, **options)
    return (release.shared if "by" in options else release).columns


def studied(table, columns, **asked):
    study = pg.Study(table, columns, **SPENT, **asked)
    assert study.columns.missing == DEFAULT[asked["adjacency"]]
    return study.release(1.0).columns


ROUTES = {
    "release": released,
    "adaptive-gaussian": lambda *of, **asked: released(
        *of, mechanism=pg.AdaptiveGaussian(), **asked
    ),
    "groups": lambda *of, **asked: released(*of, by=pg.Groups("who", range(3)), **asked),
    "units": lambda *of, **asked: released(*of, unit=pg.Unit("who", max_rows=4), **asked),
    "auto": lambda *of, **asked: released(*of, bound=pg.PrivateBound(0.5), **asked),
    "study": studied,
    "logistic": lambda table, columns, **asked: (
        pg.regress(table, "y ~ x", columns, family="binomial", **SPENT, **asked).columns
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES)
def test_rows_are_left_out_where_their_number_is_private_anyway(route, table):
    run, columns = ROUTES[route], pg.Columns(BOUNDS, True)
    assert columns.missing is None
    result = run(hole(table), columns, adjacency="add-remove")
    assert result is None or result.missing == "drop"
    with pytest.raises(ValueError, match=r"row 7 holds a missing value.*must not reach the public"):
        run(hole(table), columns, adjacency="replace")
    result = run(table, columns, adjacency="replace")
    assert result is None or result.missing == "error"


@pytest.mark.parametrize("adjacency", DEFAULT)
@pytest.mark.parametrize("missing", ["drop", "error"])
def test_explicit_choice_stays(missing, adjacency, table):
    columns = pg.Columns(BOUNDS, missing=missing)
    assert released(table, columns, adjacency=adjacency) == columns == columns.settled(adjacency)


def test_neighbours_that_are_not_known_leave_nothing_out(table):
    assert pg.second_moment(table, columns=pg.Columns(BOUNDS)).columns.missing == "error"


def test_file_that_does_not_say_it_leaves_it_open(tmp_path):
    path, columns = tmp_path / "c.toml", pg.Columns(BOUNDS)
    columns.save(path)
    assert "missing" not in path.read_text()
    assert pg.Columns.load(path) == columns != columns.settled("replace")
    assert repr(columns.settled("replace")) == repr(pg.Columns(BOUNDS, missing="error"))


@pytest.mark.parametrize("adjacency", DEFAULT)
def test_units_that_are_left_are_not_counted_for_the_public(adjacency, table, tmp_path):
    """Where rows of no unit are left out, one person's lack of an id moves no public number."""
    table["who"] = np.where(table["who"] == 3, None, table["who"])
    unit, columns = pg.Unit("who", max_rows=4, missing="drop"), pg.Columns(BOUNDS, True)
    path = tmp_path / "r.json"
    release = pg.release(table, columns, **SPENT, unit=unit, adjacency=adjacency, out=path)
    assert release.n_units is None
    assert release.n_rows is None
    again = pg.load(path)
    assert again.privacy_unit == release.privacy_unit
    assert again.privacy_unit.missing == "drop"
    assert pg.second_moment(table, columns=columns, unit=unit).n_rows == 499  # the secret
    assert release.regress("x").bse[0] > 0
    with pytest.raises(ValueError, match="row 12 has no unit"):
        pg.release(table, columns, **SPENT, unit=pg.Unit("who", max_rows=4))


@pytest.mark.parametrize(("missing", "units"), [("error", 500), ("drop", None)])
def test_units_are_counted_where_none_is_left_out(missing, units, table):
    unit = pg.Unit("who", max_rows=4, missing=missing)
    assert pg.release(table, pg.Columns(BOUNDS), **SPENT, unit=unit).n_units == units


def test_choice_warns_of_no_private_number(table, recwarn):
    """That units are few says how many there are."""
    few = {name: values[:40] for name, values in table.items()}
    columns = pg.Columns(BOUNDS)
    bound = pg.PrivateBound(0.1)
    pg.release(few, columns, **SPENT, unit=pg.Unit("who", bound=bound, missing="drop"))
    assert not len(recwarn)
    with pytest.warns(UserWarning, match="too few"):
        pg.release(few, columns, **SPENT, unit=pg.Unit("who", bound=bound))
