"""With rows left out, every source answers whatever one row holds: data decide no error."""

import datetime
import decimal

import numpy as np
import pytest

import privgram as pg

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pq = pytest.importorskip("pyarrow.parquet")

FIRST, LAST = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)
#: A variable, a value in its bounds, and values that are odd.
ODD = {
    "number": (
        (0, 1),
        0.5,
        [np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7e308, -1.7e308, None, 2**63, "words"],
    ),
    "decimal": ((0, 1), decimal.Decimal("0.5"), [decimal.Decimal("1E+30"), None]),
    "log": (pg.Log(1, 9), 2.0, [0.0, -1.0, np.inf, np.nan, 5e-324, "words"]),
    "bool": (bool, True, [None, "words", "0.5"]),
    "truth": (bool, 1.0, [np.nan, 2.0, 0.5, -1.0, np.inf, 1.7e308]),
    "factor": (["a", "b"], "a", ["", "zzz" * 10_000, "\0", None, "NA"]),
    "coded": (pg.Factor([1, 2]), 1, [99, 2**63 - 1, -(2**63), None, "words"]),
    "date": (
        pg.Dates("2000-01-01", "2030-01-01"),
        datetime.datetime(2010, 1, 1),
        [None, FIRST, LAST],
    ),
    "written": (
        pg.Dates("2000-01-01", "2030-01-01"),
        "2010-01-01",
        ["words", "", "99999-01-01", "2010-13-01", "2010-01-01T00:00+01:00", None],
    ),
    "weight": ((0, 5), 1.0, [-1.0, np.nan, np.inf, 0.0]),
}


def arrow(name, values):
    return pa.table({name: pa.array(values, from_pandas=False)})


def objects(name, values):
    return {name: np.array([*values, None], object)[:-1]}


def numpy(name, values):
    array = np.array(values)
    if array.dtype.kind in "OU" and not isinstance(values[0], str):
        raise TypeError("not of one type")
    return {name: array}


def parquet(name, values, folder):
    pq.write_table(arrow(name, values), folder / "t.parquet")
    return folder / "t.parquet"


def csv(name, values, folder):
    cells = ("" if value is None else str(value) for value in values)
    path = folder / "t.csv"
    path.write_text(f"{name},k\n" + "".join(f"{cell},1\n" for cell in cells))
    return path


def polars(name, values):
    return pytest.importorskip("polars").from_arrow(arrow(name, values))


SOURCES = {
    "objects": objects,
    "numpy": numpy,
    "float32": lambda name, values: {
        name: np.array(values, np.float64 if isinstance(values[0], float) else None).astype("f4")
    },
    "float16": lambda name, values: {name: np.array(values, "f8").astype("f2")},
    "pandas": lambda name, values: pd.DataFrame({name: pd.Series(values).infer_objects()}),
    "arrow": arrow,
    "parquet": parquet,
    "csv": csv,
    "polars": polars,
    "lazy": lambda name, values: polars(name, values).lazy(),
}


def columns_of(name):
    described = ODD[name][0]
    if name == "weight":
        return pg.Columns({name: described}, True, "drop", row_weights=name, terms=[name])
    return pg.Columns({name: described}, missing="drop")


@pytest.mark.filterwarnings("ignore:overflow", "ignore:.*timezones")
@pytest.mark.parametrize("kind", SOURCES)
def test_one_row_is_no_error(kind, tmp_path):
    make, more = SOURCES[kind], (tmp_path,) if kind in ("parquet", "csv") else ()
    tried = 0
    for name, (_, good, odd) in ODD.items():
        columns = columns_of(name)
        if kind == "objects" and name not in ("bool", "factor", "coded", "date", "written"):
            continue  # refused by its type, which is public
        for value in odd:
            if isinstance(value, str) and not isinstance(good, str) and kind != "csv":
                continue  # a column of another type
            try:
                source = make(name, [good, good, value, good], *more)
            except (TypeError, ValueError, OverflowError, pa.ArrowInvalid):
                continue  # which this source cannot hold
            if kind in ("numpy", "float32", "float16", "pandas") and value is None:
                continue
            try:
                moment = pg.second_moment(source, columns=columns)
            except TypeError as error:
                schema = "holds values of type" in str(error)  # of every row, not of one
                assert schema, (name, value)
                continue
            tried += 1
            assert moment.n_rows + moment.n_dropped == 4, (name, value)
            if moment.n_dropped:
                source = make(name, [good] * 3, *more)
                expected = pg.second_moment(source, columns=columns)
                np.testing.assert_array_equal(moment.matrix(), expected.matrix())
    assert tried >= 10


@pytest.mark.parametrize(
    "bad", [b"1", b"1,a,9,9", b",,,,,", b"words", b"\xff", b"\xff,a,9", b"x,\xff,9"]
)
@pytest.mark.parametrize("at", [0, 2, 5])
def test_records_of_another_number_of_cells_are_missing(tmp_path, bad, at, monkeypatch):
    """A row each, left out; the others stay what they are, in chunks, groups and persons."""
    path = tmp_path / "t.csv"
    rows = [b"0.5,a,1", b"\n0.25,b,2", b'"0.75",a,1', b"words,b,3", b"-1,a,2"]

    def made(lines, **more):
        path.write_bytes(b"x,g,who\n" + b"\n".join(lines) + b"\n")
        return pg.second_moment(path, **more)

    lines = [*rows[:at], bad, bad, *rows[at:]]
    columns = {"columns": pg.Columns({"x": (-1, 1)}, True, "drop")}
    for size in (1 << 20, 8):
        monkeypatch.setattr("privgram.sources.files.PARSE_BYTES", size)
        moment = made(lines, **columns)
        assert (moment.n_rows, moment.n_dropped) == (4, 3)
        np.testing.assert_array_equal(moment.int128(), made(rows, **columns).int128())
        for more in (
            {"by": pg.Groups("g", ["a", "b"])},
            {"unit": pg.Unit("who", 3, missing="drop")},
        ):
            moments = made(lines, **columns, **more), made(rows, **columns, **more)
            integers = [getattr(m, "total", m.copy)().int128() for m in moments]
            np.testing.assert_array_equal(*integers)
    with pytest.raises(ValueError, match="holds a missing value"):
        made(lines, columns=pg.Columns({"x": (-1, 1)}, True, "error"))


def test_file_of_records_of_another_number_of_cells(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1\n2\n")
    columns = pg.Columns({"x": (-1, 1)}, True, "drop")
    assert pg.second_moment(tmp_path / "t.csv", columns=columns).n_dropped == 2


@pytest.mark.slow
def test_cells_are_read_as_if_others_could_be(tmp_path):
    """A cell that cannot be read leaves those beside it as they are, to the last bit."""
    rng = np.random.default_rng(3)
    numbers = [repr(x) for x in rng.standard_normal(300)] + [" 1", "1e-3 ", '"2"', "NA", "inf"]
    path, columns = tmp_path / "t.csv", pg.Columns({"x": (-3, 3), "y": ["a"]}, missing="drop")
    moments = []
    for bad in ("", "1,5", "0x10", "é", "a\nb", '""'):
        rows = [f"{x},a" for x in numbers] + [f'"{bad}",a']
        path.write_bytes(("x,y\n" + "\n".join(rows) + "\n").encode())
        moments.append(pg.second_moment(path, columns=columns))
    for moment in moments[1:]:
        np.testing.assert_array_equal(moment.matrix(), moments[0].matrix())
        assert (moment.n_rows, moment.n_dropped) == (moments[0].n_rows, moments[0].n_dropped)


def test_text_that_is_not_utf8_is_missing(tmp_path):
    path, columns = tmp_path / "t.csv", pg.Columns({"x": (0, 9), "y": ["a", "b"]}, missing="drop")
    path.write_bytes(b"x,y\n1,a\n2,\xff\n3,b\n")
    moment = pg.second_moment(path, columns=columns)
    assert (moment.n_rows, moment.n_dropped) == (2, 1)
