"""What a study's check sees, and that it goes nowhere."""

import copy
import json
import pickle

import numpy as np
import pytest

import privgram as pg

TABLE = {
    "wage": np.array([10.0, 60.0, np.nan, 30_000.0, 500.0, 600.0]),
    "region": np.array(["north", "south", "noth", "south", None, "south"], object),
    "code": np.array([1, 2, 3, 2, 1, 9]),
    "when": np.array(["2020-01-01"] * 5 + ["1999-01-01"], "datetime64[D]"),
    "female": np.array([True, False, True, False, True, True]),
    "who": np.array(["a", "a", "a", "b", "c", "c"]),
}
COLUMNS = {
    "wage": pg.Log(50, 10_000),
    "region": ["north", "suoth"],
    "code": pg.Factor([1, 2, 3], other=True),
    "when": pg.Dates("2000-01-01", "2030-01-01"),
    "female": bool,
}


def checked(table=TABLE, **more):
    return pg.Study(table, COLUMNS, epsilon=1.0, delta=1e-6, **more).check()


def frames():
    yield TABLE
    yield pytest.importorskip("pandas").DataFrame(TABLE)
    yield pytest.importorskip("polars").DataFrame({k: v.tolist() for k, v in TABLE.items()})


@pytest.mark.parametrize("at", range(3), ids=["mapping", "pandas", "polars"])
def test_counts_by_hand(at):
    table = list(frames())[at]
    if at == 2:
        table = table.with_columns(when=table["when"].cast(pytest.importorskip("polars").Date))
    found = checked(table, unit="who")
    assert found.n_rows == 6
    wage, region, code, when, female = (found[name] for name in COLUMNS)
    assert (wage.below, wage.above, wage.missing) == (1, 1, 1)
    assert (region.missing, region.unknown, region.empty) == (1, 4, ("suoth",))
    assert (code.unknown, code.empty) == (0, ())
    assert (when.below, when.above, female.clamped) == (1, 0, 0)
    assert (found.n_units, found.rows_per_unit) == (3, {"median": 2, "95 %": 3, "most": 3})
    assert any("region" in problem and "suoth" in problem for problem in found.problems)


def test_treatment_of_missing_values_is_reported():
    refused, dropped = checked(), checked(missing="drop")
    told = "wage: no value in 1 of 6 rows, and an answer that needs one refuses the table. missing="
    assert any(problem.startswith(told) for problem in refused.problems)
    assert not any("no value" in problem for problem in dropped.problems)
    with pytest.raises(ValueError, match="missing"):
        pg.Study(TABLE, COLUMNS, epsilon=1.0, delta=1e-6).regress("log(wage) ~ female", 0.5)


def test_it_is_marked_and_goes_nowhere():
    found = checked()
    assert str(found).startswith("NOT PRIVATE")
    assert repr(found).startswith("NOT PRIVATE")
    for save in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError):
            save(found)
    assert not hasattr(found, "to_dict")
    assert not hasattr(found, "save")


def test_it_spends_nothing_and_reads_no_stream():
    it = pg.Study(TABLE, COLUMNS, epsilon=1.0, delta=1e-6)
    it.check()
    assert not it.entries
    with pytest.raises(ValueError, match="read once"):
        pg.Study(iter([TABLE]), COLUMNS, epsilon=1.0, delta=1e-6).check()
