"""What a row adds depends on that row and public descriptions alone, by whatever door it comes.

A long table, cut into chunks, gets one row more with an odd cell. The exact integers of the whole
must be those of the table plus those of the row: by itself, and as one of many alike, which are a
table of nothing else. Then no row is read in another way, whatever the cell turned its column into.
Nothing raises under ``missing="drop"``. A door of typed columns takes the cells that its type
holds.
"""

import datetime
import fractions
import math
import sqlite3
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privgram as pg
from privgram.columns.survival import Survival
from privgram.columns.terms import parse_one
from privgram.exact import int128
from privgram.scan.executor import total_of
from privgram.scan.request import ScanRequest
from privgram.sources.pieces import PieceSource
from privgram.study.answer import needed

duckdb = pytest.importorskip("duckdb")

pytestmark = pytest.mark.slow  # thousands of small tables

UTC = datetime.UTC


class Tensor:
    """Of two numbers, as torch has them: neither true nor false, and no number."""

    def __bool__(self):
        raise RuntimeError("CANARY is ambiguous")

    def __ne__(self, other):
        return self

    __hash__ = object.__hash__


#: Cells as people and programs leave them, and as an attacker would choose them.
ODD = [
    None, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 2.3e-308, -0.0, 0, 1, -1, 2,
    2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 2**70, -(2**70), 10**400, 1.5, True, False,
    "", " ", "nan", "NaN", "NA", "inf", "1.0", "1", "a", "other", "CANARY", "é\x00\n\",;",
    "x" * 300,
    "2020-02-30", "2020-01-31", "\ud800", b"", b"a", b"\xff", b"2020-01-31", Decimal("1.25"),
    Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e400"),
    fractions.Fraction(1, 3),
    1 + 0j, complex("nan"), datetime.date(2020, 1, 31), datetime.date.min, datetime.date.max,
    datetime.datetime(2020, 1, 31, 5), datetime.datetime.max.replace(tzinfo=UTC),
    datetime.datetime.min.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=9))),
    datetime.time(1, tzinfo=UTC), datetime.timedelta(1), np.float32(1.5), np.int8(1),
    np.uint64(2**64 - 1),
    np.longdouble("1e4000"), np.True_, np.str_("a"), np.bytes_(b"a"), np.datetime64("2020-01-31"),
    np.datetime64("NaT"), np.datetime64(2**62, "s"), np.timedelta64(1, "D"), np.timedelta64("NaT"),
    pd.NA, pd.NaT, pd.Timestamp("2020-01-31", tz="Asia/Tokyo"), [], [1, 2], (1,), {}, {"a": 1},
    np.zeros(2), object, Ellipsis, Tensor(),
]  # fmt: skip

COLUMNS = pg.Columns(
    {
        "x": (-3, 3),
        "w": pg.Log(1, 9),
        "b": bool,
        "t": pg.Dates("2000-01-01", "2030-01-01"),
        "g": ["a", "b", "c"],
        "h": pg.Factor(["a", "b"], other=True),
        "k": pg.Factor([1, 2, 2**53, 2**53 + 1]),
    },
    intercept=True,
    missing="drop",
)

TABLE = {
    "x": [0.5, 1, -2.25, 7.0, 0, 2**53 + 1],
    "w": [1, 2.5, 3, 4, 0.5, 12],
    "b": [True, False, True, True, False, False],
    "t": [datetime.datetime(2001 + 4 * i, 1, 2, 3) for i in range(6)],
    "g": ["a", "b", "c", "a", "nobody", "b"],
    "h": ["a", "b", "c", "", "a", "b"],
    "k": [1, 2, 2**53, 2**53 + 1, 2**53 + 1, 3],
}
#: The same in numbers and dates that every type has.
PLAIN = TABLE | {
    "x": [0, 1, 2, 7, 0, 100],
    "w": [1, 2, 3, 4, 0, 12],
    "t": [datetime.datetime(2001 + 4 * i, 1, 2) for i in range(6)],
}


class Untaken(Exception):
    """A cell that the type of a column does not hold."""


def objects(cells):
    return np.fromiter(cells, object, len(cells))


def rows_of(table):
    return list(zip(*table.values(), strict=True))


def matrix(table):
    array = np.empty((len(table["x"]), len(table)), object)
    for j, cells in enumerate(table.values()):
        array[:, j] = objects(cells)
    return array


def records(table):
    array = np.empty(len(table["x"]), [(name, object) for name in table])
    for name, cells in table.items():
        array[name] = objects(cells)
    return array


def typed(make, types):
    """A door of columns of types."""

    def door(table):
        columns = {}
        for name, kind in types.items():
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    columns[name] = make(table[name], kind)
            except KeyboardInterrupt:
                raise
            except BaseException:  # polars panics
                raise Untaken from None
        return columns

    return door


def of_numpy(cells, kind):
    return np.array(cells, kind)


def of_pandas(cells, kind):
    # pandas makes floats of whole numbers where a cell is a float: each gets the type alone.
    cells = [pd.Series([c], dtype=kind).iloc[0] if isinstance(c, float) else c for c in cells]
    return pd.Series(list(cells), dtype=kind)


def of_arrow(cells, kind):
    if kind in (pa.string(), pa.large_string()):
        cells = [str(cell) if isinstance(cell, datetime.date) else cell for cell in cells]
    return pa.array(cells, kind, from_pandas=False)


def encoded(cells, kind):
    return pa.array(cells, kind, from_pandas=False).dictionary_encode()


def of_polars(cells, kind):
    return pl.Series(values=list(cells), dtype=kind, strict=True)


def blocks(make):
    """A table in three blocks, each by another door."""

    def door(table):
        n = len(table["x"])
        step = -(-n // 3)
        return [
            make({name: cells[at : at + step] for name, cells in table.items()})
            for at in range(0, n, step)
        ]

    return door


def framed(make, columns):
    return lambda table: make(columns(table))


def with_sqlite(read):
    """SQLite keeps a cell of any type in any column."""

    def door(table):
        connection = sqlite3.connect(":memory:")
        names = ", ".join(table)
        connection.execute(f"create table t ({names})")
        marks = ", ".join("?" * len(table))
        rows = [
            [str(c) if isinstance(c, datetime.datetime) else c for c in r] for r in rows_of(table)
        ]
        try:
            connection.executemany(f"insert into t values ({marks})", rows)
        except Exception:
            raise Untaken from None
        return read(connection, f"select {names} from t")

    return door


def to_csv(table):
    """What of any cell is text, as a program would write it; strings as they are."""

    def cell(value):
        text = "" if value is None else str(value)
        return '"' + text.replace('"', '""') + '"' if isinstance(value, str) else text

    lines = [",".join(table), *(",".join(map(cell, row)) for row in rows_of(table))]
    try:
        return "\n".join(lines).encode() + b"\n"
    except UnicodeEncodeError:
        return "\n".join(lines).encode("utf-8", "surrogatepass") + b"\n"


NUMPY = {"x": "f8", "w": "f4", "b": "?", "t": "M8[us]", "g": "U", "h": "S9", "k": "i8"}
PANDAS = {
    "x": "Float64", "w": "float64", "b": "boolean", "t": "datetime64[us]", "g": "str",
    "h": "string", "k": "Int64",
}  # fmt: skip
ARROW = {
    "x": pa.float64(), "w": pa.decimal128(38, 2), "b": pa.bool_(), "t": pa.timestamp("us"),
    "g": pa.string(), "h": pa.large_string(), "k": pa.int64(),
}  # fmt: skip
POLARS = {
    "x": pl.Float64, "w": pl.Float32, "b": pl.Boolean, "t": pl.Datetime("us"), "g": pl.String,
    "h": pl.String, "k": pl.Int64,
}  # fmt: skip

in_numpy = typed(of_numpy, NUMPY)
in_pandas = typed(of_pandas, PANDAS)
in_arrow = typed(of_arrow, ARROW)
in_polars = typed(of_polars, POLARS)


def each(kinds, make=of_numpy, columns=("x", "w")):
    """Doors by the type of some columns alone."""
    base = NUMPY if make is of_numpy else ARROW
    return {
        f"{make.__name__}, {kind}": typed(make, base | dict.fromkeys(columns, kind))
        for kind in kinds
    }


UNTYPED = {
    "lists": dict,
    "tuples": lambda table: {name: tuple(cells) for name, cells in table.items()},
    "rows": lambda table: [list(row) for row in rows_of(table)],
    "rows, tuples": rows_of,
    "objects": lambda table: {name: objects(cells) for name, cells in table.items()},
    "object array": matrix,
    "structured array": records,
    "pandas, objects": lambda t: pd.DataFrame(
        {n: pd.Series(c, dtype=object) for n, c in t.items()}
    ),
    "pandas, objects in a mapping": lambda t: {n: pd.Series(c, dtype=object) for n, c in t.items()},
    "blocks of lists": blocks(dict),
    "blocks of pandas": blocks(
        lambda t: pd.DataFrame({n: pd.Series(c, dtype=object) for n, c in t.items()})
    ),
    "SQLite, rows": with_sqlite(lambda c, sql: c.execute(sql).fetchall()),
    "CSV": to_csv,
}

DOORS = UNTYPED | {
    "arrays": in_numpy,
    "pandas": framed(pd.DataFrame, in_pandas),
    "pandas, columns": in_pandas,
    "Arrow": framed(pa.table, in_arrow),
    "Arrow, columns": in_arrow,
    "Arrow, dictionaries": framed(pa.table, typed(encoded, ARROW)),
    "Arrow stream": framed(lambda c: pa.table(c).to_reader(), in_arrow),
    "blocks of Arrow": blocks(framed(pa.table, in_arrow)),
    "polars": framed(pl.DataFrame, in_polars),
    "polars, columns": in_polars,
    "polars, lazy": framed(lambda c: pl.DataFrame(c).lazy(), in_polars),
    "DuckDB": framed(lambda c: duckdb.from_arrow(pa.table(c)), in_arrow),
    "Parquet": framed(pa.table, in_arrow),
    **each(["f2", "f4", ">f8", "g", "i1", "i2", "i4", "i8", "u1", "u8", "?"]),
    **each(["M8[D]", "M8[s]", "M8[ns]", "U20"], columns=["t"]),
    **each(["f8", "i8", "u1"], columns=["b"]),
    **each(["f8", "u8"], columns=["k"]),
    **each([pa.date32(), pa.date64(), pa.timestamp("s"), pa.string()], of_arrow, ["t"]),
    **each([pa.uint64(), pa.float32(), pa.int8(), pa.decimal256(50, 0)], of_arrow),
}

FILES = {"CSV": "csv", "Parquet": "parquet"}


def opened(name, table, folder):
    """What a door makes of a table; of files, their path."""
    source = DOORS[name](table)
    if name not in FILES:
        return source
    path = folder / f"t.{FILES[name]}"
    if name == "CSV":
        path.write_bytes(source)
    else:
        pq.write_table(source, path)
    return path


def integers(moment):
    """All that is secret of a second moment."""
    counts = np.array([moment.n_rows, moment.n_dropped], object)
    return np.concatenate([int128.to_integers(moment.int128()).ravel(), counts])


#: Rows of a chunk, and of whatever else is read at a time: more than a rule might count to.
CHUNK = 24

#: Rows that are alike; two chunks of them.
ALIKE = 40


@pytest.fixture(autouse=True)
def chunks_of_few_rows(monkeypatch):
    for name in (
        "sources.table.LEAST_ROWS", "sources.table.CHUNK_BYTES", "sources.table.BATCH_BYTES",
        "sources.table.CHUNK_ROWS", "moment.accumulators.COMPUTED", "scan.units.KERNEL_ROWS",
        "moment.accumulators.PIECE_VALUES",
    ):  # fmt: skip
        monkeypatch.setattr(f"privgram.{name}", CHUNK)
    monkeypatch.setattr("privgram.sources.files.PARSE_BYTES", 1 << 10)


def with_row(rows, row, at):
    return {name: [*cells[:at], row[name], *cells[at:]] for name, cells in rows.items()}


def alike(row, n=1):
    return {name: [cell] * n for name, cell in row.items()}


def times(rows, n):
    return {name: cells * n for name, cells in rows.items()}


def check(read, some, row=None, names=None, every=1, apart=True):
    """Compare the integers of a long table with a row and of both apart, for every odd cell of it.

    Where rows are `apart`, so many of them have as many times the integers of one.
    """
    row = {name: cells[1] for name, cells in some.items()} if row is None else row
    rows = times(some, 7)
    before, n = read(rows), len(next(iter(rows.values())))
    tried, wrong = 0, []
    for j, name in enumerate(row if names is None else names):
        for number, cell in enumerate(ODD):
            if (number + j) % every and cell is not None:
                continue
            other = row | {name: cell}
            try:
                together = read(with_row(rows, other, (0, n // 2, n)[number % 3]))
                one = read(alike(other)) if number % 4 == 0 or not apart else None
                many = read(alike(other, ALIKE)) if apart else None
            except Untaken:
                continue
            except Exception as error:
                wrong.append((name, cell, f"{type(error).__name__}: {error}"[:150]))
                continue
            tried += 1
            adds = together - before
            if not (one is None or (adds == one).all()):
                wrong.append((name, cell, "others are read in another way"))
            if not (many is None or (ALIKE * adds == many).all()):
                wrong.append((name, cell, "rows alike are read in another way"))
    assert not wrong, wrong[:40]
    assert tried


def parts(every):
    """One cell in so many, and at night each."""
    return pytest.mark.parametrize(
        "every", [every, pytest.param(1, marks=pytest.mark.nightly)], ids="every {}th".format
    )


@parts(6)
@pytest.mark.parametrize("name", DOORS)
def test_a_row_is_read_by_itself(name, every, tmp_path):
    def read(table):
        source = opened(name, table, tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return integers(pg.second_moment(source, columns=COLUMNS, threads=1))

    check(read, TABLE if name in UNTYPED else PLAIN, every=every)


FEW = {"x": (-3, 3), "g": ["a", "b", "c"]}


@pytest.mark.parametrize("name", UNTYPED)
def test_a_row_of_an_odd_unit_is_read_by_itself(name, tmp_path):
    """Its unit is another, or nobody: ids of whole numbers and of texts stay what they are."""
    columns = pg.Columns(FEW, intercept=True, missing="drop")
    unit = pg.Unit("who", max_rows=2, missing="drop")
    table = {"x": TABLE["x"], "g": TABLE["g"], "who": [71, 72, "p", 72, "71", 2**70 + 1]}
    row = {"x": 0.25, "g": "b", "who": 73}
    if "row" in name or name == "object array":  # whose columns have no names
        pytest.skip("its columns have no names")

    def read(table):
        source = opened(name, table, tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return integers(pg.second_moment(source, columns=columns, unit=unit, threads=1))

    check(read, table, row, names=["who"], apart=False)


@pytest.mark.parametrize("unknown", ["drop", "other"])
@pytest.mark.parametrize("name", ["lists", "objects", "pandas, objects", "CSV"])
def test_a_row_of_an_odd_group_is_read_by_itself(name, unknown, tmp_path):
    columns = pg.Columns({"x": (-3, 3), "b": bool}, intercept=True, missing="drop")
    by = pg.Groups("g", ["a", "b"], unknown=unknown)

    def read(table):
        source = opened(name, table, tmp_path)
        moments = pg.second_moment(source, columns=columns, by=by, threads=1)
        return np.concatenate([integers(each) for each in moments.values()])

    check(read, {name: TABLE[name] for name in ("x", "b", "g")}, names=["g"])


@parts(2)
@pytest.mark.parametrize("event", [bool, (0, 1)], ids=str)
@pytest.mark.parametrize("name", UNTYPED)
def test_pieces_of_a_row_of_odd_times_are_of_that_row_alone(name, event, every, tmp_path):
    """Cells that are no time, starts after the end, events that are neither 0 nor 1."""
    if "row" in name or name == "object array":
        pytest.skip("its columns have no names")
    described = pg.Columns({"w": (0, 9), "x": (0, 9), "b": event}, missing="drop")
    parsed = parse_one("Surv(w, x, b) ~ 1")
    survival = Survival.of(parsed, described, (0.0, 1.0, 2.5, 9.0))
    used = needed(survival.terms(parsed), survival.columns(described))
    table = {
        "w": [0, 0.5, 1, 3.0, 0, 2],
        "x": [1, 2.5, 3, 2, 9, 2.5],
        "b": [True, False, 1, 0, True, 2],
    }

    def read(some):
        rows = PieceSource(opened(name, some, tmp_path), survival, drop=True)
        request = ScanRequest(rows, used, unit=pg.Unit.of_row(survival.n_pieces))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return integers(total_of(request))

    check(read, table, every=every)


def test_a_row_of_an_odd_weight_is_read_by_itself():
    columns = pg.Columns(
        FEW | {"w": (0, 5)}, intercept=True, missing="drop", terms=["x", "g"], row_weights="w"
    )
    table = {name: TABLE[name] for name in ("x", "g", "w")}
    check(lambda some: integers(pg.second_moment(some, columns=columns)), table, names=["w"])


def test_rows_of_another_library_are_read_by_themselves():
    xp = pytest.importorskip("array_api_strict")
    columns = pg.Columns({"x": (-3, 3), "w": (0, 9)}, intercept=True, missing="drop")

    def read(table):
        try:
            with np.errstate(all="ignore"):
                rows = np.array(rows_of(table), np.float64)
        except (TypeError, ValueError, OverflowError):
            raise Untaken from None
        found = integers(pg.second_moment(xp.asarray(rows), columns=columns))
        names = {name: xp.asarray(rows[:, j]) for j, name in enumerate(table)}
        assert (integers(pg.second_moment(names, columns=columns)) == found).all()
        return found

    check(read, {name: PLAIN[name] for name in ("x", "w")})


def table_of_texts(table):
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in table.items()})


#: X of two features, and y.
FORMS = {
    "lists": lambda x, y: ([list(row) for row in rows_of(x)], list(y)),
    "objects": lambda x, y: (matrix(x), objects(y)),
    "frames": lambda x, y: (table_of_texts(x), pd.Series(list(y), dtype=object)),
}


@parts(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["ridge", "columns"])
def test_estimators_read_a_row_by_itself(kind, form, every):
    estimators = pytest.importorskip("privgram.estimators")
    if kind == "columns" and form != "frames":
        pytest.skip("with columns=, X is a frame")
    bounds, given = {"x": (-3, 3), "w": (0, 9)}, {"missing": "drop", "adjacency": "add-remove"}

    def read(table):
        features = {name: table[name] for name in ("x", "w")}
        X, y = FORMS[form](features, table["y"])
        if form == "lists" and any(isinstance(cell, (list, tuple)) for cell in y):
            raise Untaken  # alone, it is a row of targets
        if kind == "columns":
            columns = pg.Columns(bounds | {"y": (-1, 1)}, intercept=True, missing="drop")
            model = estimators.PrivateRidge(epsilon=1.0, columns=columns)
            source, columns = model._read(X, y)
        else:
            model = estimators.PrivateRidge(columns=(-3, 3), **given)
            source, columns = model._read(X, y)
        return integers(pg.second_moment(source, columns=columns))

    table = {"x": TABLE["x"], "w": TABLE["w"], "y": [0.5, 1, -1, 0, 2, 0.25]}
    check(read, table, names=("x", "w", "y"), every=every)


@parts(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("classes", [["a", "b", "c"], [0, 1, 2]])
def test_classifier_reads_a_label_by_itself(classes, form, every, monkeypatch):
    """What each class has of rows, before any product: the rows that the fit would read."""
    classifier = pytest.importorskip("privgram.estimators.classifier")

    class Read(Exception):
        pass

    def fit_classes(rows, *_, **__):
        raise Read(list(rows))

    monkeypatch.setattr(classifier, "fit_classes", fit_classes)

    def read(table):
        X, y = FORMS[form]({"x": table["x"], "w": table["w"]}, table["y"])
        model = classifier.PrivateClassifier(
            classes=classes, epsilon=1.0, missing="drop", adjacency="add-remove", bound=3.0
        )
        with pytest.raises(Read) as caught:
            model.fit(X, y)
        sums = np.zeros((3, 3), object)
        for block in caught.value.args[0]:
            for row in block.tolist():
                numbers = [int(np.float64(v).view(np.int64)) for v in (*row[:2], 1.0)]
                sums[int(row[-1])] += numbers
        return sums.ravel()

    labels = [classes[i] for i in (0, 1, 2, 0, 1, 2)]
    check(read, {"x": [0.5, 1, -2, 0, 2, 1], "w": [0, 1, 2.5, 1, 2, 1], "y": labels}, every=every)


#: Sources of no rows, and of one.
NONE = {
    "lists": ({"x": [], "g": []}, {"x": [1.0], "g": ["a"]}),
    "rows": ([], [[1.0, "a"]]),
    "blocks": (iter([]), iter([{"x": [1.0], "g": ["a"]}])),
    "frame": (table_of_texts({"x": [], "g": []}), table_of_texts({"x": [1.0], "g": ["a"]})),
    "objects": (np.empty((0, 2), object), matrix({"x": [1.0], "g": ["a"]})),
}


@pytest.mark.parametrize("name", NONE)
def test_a_table_of_no_rows_is_read_as_one_of_a_row(name):
    columns = pg.Columns(FEW, intercept=True).settled("add-remove")
    found = [pg.second_moment(source, columns=columns).n_rows for source in NONE[name]]
    assert found == [0, 1]


@pytest.mark.parametrize("rows", [0, 1])
def test_estimators_answer_of_no_rows_as_of_one(rows):
    estimators = pytest.importorskip("privgram.estimators")
    given = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "add-remove", "random_state": 0}
    X, y = np.ones((rows, 2)), np.ones(rows)
    ridge = estimators.PrivateRidge(columns=(0, 2), **given)
    assert ridge.fit(X, y).release_.n_rows is None
    model = estimators.PrivateClassifier(classes=[0, 1], bound=2.0, **given).fit(X, y.astype(int))
    assert model.result_.epsilon == 1.0
