"""Tables with factors, dates and logarithms, of every kind: the bits of the dummy table by hand."""

import datetime
import itertools

import numpy as np
import pytest
from support.dummies import COLUMNS, DESCRIBED, TERMS, assert_same, rows
from support.helpers import assert_bits, said

import privgram as pg

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
pq = pytest.importorskip("pyarrow.parquet")

TEXTS = ("sex", "region")


def arrow(raw):
    """Nulls, not NaN, for what is missing."""
    return pa.Table.from_pandas(pd.DataFrame(raw), preserve_index=False)


def replaced(table, names, change):
    for name in names:
        at = table.column_names.index(name)
        table = table.set_column(at, name, change(table.column(name)))
    return table


def dictionaries(index):
    def make(raw):
        return replaced(
            arrow(raw),
            TEXTS,
            lambda column: (
                column.combine_chunks().dictionary_encode().cast(pa.dictionary(index, pa.string()))
            ),
        )

    return make


def holed(raw):
    """Dictionaries whose values, not indices, are null; and with values twice."""
    words = {"sex": [None, "m", "x", "f", "m"], "region": ["q", "s", "n", None, "w", "e", ""]}

    def change(name):
        known = {word: i for i, word in enumerate(words[name])}
        codes = pa.array([known[value] for value in raw[name]], pa.int8())
        return pa.DictionaryArray.from_arrays(codes, pa.array(words[name]))

    table = arrow(raw)
    for name in TEXTS:
        table = table.set_column(table.column_names.index(name), name, change(name))
    return table


def text_as(kind):
    return lambda raw: replaced(arrow(raw), TEXTS, lambda column: column.cast(kind))


def cut(raw):
    """Several batches, each with a dictionary of its own, and one that is empty."""
    table = arrow(raw)
    parts = [
        replaced(table.slice(start, 100), TEXTS, lambda c: c.combine_chunks().dictionary_encode())
        for start in (0, 100, 200, 200, 300, 400, 500)
    ]
    parts[2] = parts[2].slice(0, 0)
    return (part.to_batches()[0] if len(part) else part for part in parts)


def structured(raw):
    """NumPy's texts cannot be missing: an unknown one is, or another level."""
    plain = {name: column.astype("U2") if name in TEXTS else column for name, column in raw.items()}
    found = np.empty(len(raw["age"]), [(name, column.dtype) for name, column in plain.items()])
    for name, column in plain.items():
        found[name] = column
    return found


def frame(raw):
    return pd.DataFrame(raw)


def nullable(raw):
    kinds = {"sex": "string", "region": "string", "union": "boolean", "grade": "Int64"}
    return frame(raw).astype(kinds)


def backed(raw):
    return frame(raw).convert_dtypes(dtype_backend="pyarrow")


def categorical(raw):
    kinds = dict.fromkeys((*TEXTS, "grade"), "category")
    return frame(raw).astype(kinds)


def in_zone(raw):
    changed = frame(raw)
    changed["hired"] = changed["hired"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    return changed


def arrow_in_zone(raw):
    kind = pa.timestamp("us", tz="America/New_York")
    return replaced(arrow(raw), ["hired"], lambda column: column.cast(kind))


def polars(raw):
    return pl.from_arrow(arrow(raw))


def polars_categories(raw):
    words = pl.Enum(["w", "", "s", "n", "e", "q"])
    return polars(raw).with_columns(
        pl.col("sex").cast(pl.Categorical), pl.col("region").cast(words)
    )


def enums(raw):
    """DuckDB's ENUM."""
    plain = arrow(raw)  # noqa: F841, named in the query
    return duckdb.sql(
        "select * exclude (sex, region), sex::enum('x', 'm', 'f') as sex, "
        "region::enum('', 'q', 'w', 's', 'e', 'n') as region from plain"
    )


SOURCES = {
    "mapping": lambda raw: raw,
    "mapping, NumPy's strings": lambda raw: {
        name: column.astype(np.dtypes.StringDType(na_object=None)) if name in TEXTS else column
        for name, column in raw.items()
    },
    "pandas": frame,
    "pandas, categories": categorical,
    "pandas, nullable": nullable,
    "pandas, Arrow's": backed,
    "pandas, time zone": in_zone,
    "polars": polars,
    "polars, lazy": lambda raw: polars(raw).lazy(),
    "polars, categories": polars_categories,
    "arrow": arrow,
    "arrow, int8": dictionaries(pa.int8()),
    "arrow, uint8": dictionaries(pa.uint8()),
    "arrow, int16": dictionaries(pa.int16()),
    "arrow, uint16": dictionaries(pa.uint16()),
    "arrow, int32": dictionaries(pa.int32()),
    "arrow, uint32": dictionaries(pa.uint32()),
    "arrow, int64": dictionaries(pa.int64()),
    "arrow, uint64": dictionaries(pa.uint64()),
    "arrow, holes in dictionaries": holed,
    "arrow, large_string": text_as(pa.large_string()),
    "arrow, string_view": text_as(pa.string_view()),
    "arrow, time zone": arrow_in_zone,
    "arrow, batches": cut,
    "duckdb": lambda raw: duckdb.from_arrow(arrow(raw)),
    "duckdb, ENUM": enums,
}


@pytest.mark.parametrize("name", SOURCES)
def test_bits_of_the_dummy_table(name):
    raw = rows()
    assert_same(pg.second_moment(SOURCES[name](raw), columns=COLUMNS), raw)


@pytest.mark.parametrize("make", [structured, lambda raw: structured(raw).view(np.recarray)])
def test_structured_arrays(make):
    raw = rows(missing=False)
    raw["sex"][3::40] = "x"
    assert_same(pg.second_moment(make(raw), columns=COLUMNS), raw)


def test_encode_writes_the_dummy_table():
    raw = rows()
    by_encode = COLUMNS.encode(frame(raw))
    whole = ~np.isnan(by_encode).any(axis=1)
    moment = pg.second_moment(by_encode[whole], bound=COLUMNS.bound)
    raw = {name: column[whole] for name, column in raw.items()}
    assert_same(moment, raw)


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("schema", [True, False], ids=["categories", "text"])
def test_parquet(tmp_path, dictionary, schema):
    raw = rows()
    table = dictionaries(pa.int32())(raw) if schema else arrow(raw)
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=130, use_dictionary=dictionary)
    assert pq.ParquetFile(path).num_row_groups > 4
    for threads in (1, 2):
        assert_same(pg.second_moment(path, columns=COLUMNS, threads=threads), raw)


def test_parquet_by_a_dataset(tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset")
    raw = rows()
    pq.write_table(arrow(raw), tmp_path / "t.parquet", row_group_size=130)
    assert_same(pg.second_moment(dataset.dataset(tmp_path), columns=COLUMNS), raw)
    assert_same(pg.second_moment(pl.scan_parquet(tmp_path), columns=COLUMNS), raw)
    found = duckdb.read_parquet(str(tmp_path / "t.parquet"))
    assert_same(pg.second_moment(found, columns=COLUMNS), raw)


def shown(value):
    """A cell of CSV: booleans in all ways, text in quotes, dates in ISO 8601."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return next(SHOWN[value])
    if isinstance(value, str):
        return f'"{value}"'
    return str(value)


SHOWN = {True: itertools.cycle(["true", "1", "True", "TRUE"]), False: itertools.cycle("0")}


def test_csv(tmp_path):
    """Quoted text, empty cells, booleans as words and numbers; an empty text is missing here."""
    raw = rows()
    raw["region"][raw["region"] == ""] = "a, b"
    lines = [",".join(raw)]
    columns = [
        column.astype(object) if column.dtype.kind != "M" else column.astype("U")
        for column in raw.values()
    ]
    for cells in zip(*columns, strict=True):
        lines.append(",".join("" if cell == "NaT" else shown(cell) for cell in cells))
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines))
    assert_same(pg.second_moment(path, columns=COLUMNS), raw)


def test_csv_words_for_missing_that_are_levels(tmp_path):
    """NA is Namibia where it is listed, and missing where it is not."""
    path = tmp_path / "t.csv"
    path.write_text('country,flag\nNA,true\n"FR",false\n,1\nNA,0\nnull,true\n')
    for levels, expected in ((["FR", "NA"], [1, 2]), (["FR"], [1])):
        columns = pg.Columns({"country": levels}, missing="drop")
        by_hand = np.repeat(np.eye(len(levels)), expected, axis=0)
        moment = pg.second_moment(path, columns=columns)
        theirs = pg.second_moment(by_hand, bound=columns.bound)
        assert_bits(moment, theirs)
        assert moment.n_dropped == 5 - sum(expected)


DAYS = np.array(["1959-12-31", "1969-12-31", "1970-01-01", "1999-02-28", "2030-01-01"], "M8[D]")
TIMES = np.array(
    ["1959-12-31T23:00", "1969-12-31T23:59:59", "1970-01-01", "1999-02-28T12:30:01", "2030-01-01"],
    "M8[s]",
)


def dates_of(values):
    """Ways to hold the same dates."""
    in_utc = values.astype("M8[us]")
    yield from (values.astype(f"M8[{unit}]") for unit in ("s", "ms", "us", "ns"))
    yield values.astype(str)
    yield values.astype(str).astype(object)
    yield in_utc.astype(object)  # datetime.datetime
    yield pd.Series(in_utc)
    yield pd.Series(in_utc).dt.tz_localize("UTC").dt.tz_convert("Asia/Kolkata")
    yield pd.Series(list(pd.Series(in_utc)), dtype=object)  # pandas' Timestamp
    yield pd.Series(values.astype(str), dtype="string")
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "America/New_York"):
            yield pa.array(in_utc).cast(pa.timestamp(unit, zone))
    yield pa.array(values.astype(str))
    yield pa.array(values.astype(str)).cast(pa.large_string())
    yield pa.array(values.astype(str)).dictionary_encode()
    yield pl.Series(in_utc)
    if values.dtype == "M8[D]":
        yield values
        yield pa.array(values, pa.date32())
        yield pa.array(values, pa.date32()).cast(pa.date64())
        yield pl.Series(values).cast(pl.Date)
        yield values.astype(object)  # datetime.date
        yield pd.Series(values.astype(object))


@pytest.mark.parametrize("unit", ["years", "weeks", "days", "hours", "minutes", "seconds"])
@pytest.mark.parametrize("values", [DAYS, TIMES], ids=["days", "times"])
def test_dates(values, unit):
    """Whatever holds them, and in whichever unit results are given."""
    columns = pg.Columns({"t": pg.Dates("1960-01-01", "2020-01-01", unit)}, intercept=True)
    first = datetime.datetime(1960, 1, 1)
    length = (datetime.datetime(2020, 1, 1) - first).days
    since = np.array(
        [(t - first) / datetime.timedelta(1) for t in values.astype("M8[us]").tolist()]
    )
    u = np.clip(since / (length / 2) - 1, -1, 1)
    by_hand = pg.second_moment(np.column_stack([u, np.ones(len(u))]), bound=columns.bound)
    for held in dates_of(values):
        if isinstance(held, (pa.Array, pa.ChunkedArray)):
            table = pa.table({"t": held})
        elif isinstance(held, pl.Series):
            table = pl.DataFrame({"t": held})
        elif isinstance(held, pd.Series):
            table = pd.DataFrame({"t": held})
        else:
            table = {"t": held}
        moment = pg.second_moment(table, columns=columns)
        assert_bits(moment, by_hand, f"{type(held)} {getattr(held, 'type', '')}")


def test_missing_dates():
    columns = pg.Columns({"t": pg.Dates("1960-01-01", "2020-01-01")}, missing="drop")
    tokyo = datetime.timezone(datetime.timedelta(hours=9))
    here = datetime.datetime(2000, 1, 1, 9, tzinfo=tokyo)
    for nothing in (None, np.nan, pd.NaT, pd.NA, np.datetime64("NaT", "s")):
        held = np.array([here, nothing, datetime.date(2000, 1, 1)], object)
        moment = pg.second_moment({"t": held}, columns=columns)
        twice = pg.second_moment({"t": np.array(["2000-01-01"] * 2, "M8[D]")}, columns=columns)
        assert moment.n_dropped == 1
        assert_bits(moment, twice)


CANARY = "Gertrude7318640529"


@pytest.mark.parametrize("name", SOURCES)
def test_first_row_with_something_missing_is_named(name):
    """By its position, also of an unknown level; its value is not shown."""
    for missing in ("sex", "hired", "union", "grade", "wage"):
        raw = rows(missing=False)
        raw["sex"][411] = CANARY if missing == "sex" else "f"
        raw["wage"][411] = np.nan if missing == "wage" else 9.0
        raw["hired"][411] = "NaT" if missing == "hired" else "2000-01-01"
        if missing == "union":
            raw["union"] = np.where(np.arange(600) == 411, None, raw["union"])
        if missing == "grade":
            raw["grade"] = np.where(np.arange(600) == 411, 73186, raw["grade"])
        strict = pg.Columns(DESCRIBED, terms=TERMS, weights=COLUMNS.weights)
        if name in ("duckdb, ENUM", "arrow, holes in dictionaries") and missing == "sex":
            raw["sex"][411] = "x"  # has a list of its own
        with pytest.raises(ValueError, match=r"^row 411 holds a missing value") as caught:
            pg.second_moment(SOURCES[name](raw), columns=strict)
        assert "73186" not in str(caught.value)
        raw = {column: values[:411] for column, values in raw.items()}
        if name != "arrow, batches":
            assert pg.second_moment(SOURCES[name](raw), columns=strict).n_rows == 411


TABLE = {"age": [30.5, 73.186], "sex": ["f", CANARY], "t": ["2000-01-01", CANARY], "n": [1, 73186]}
HELD = {
    "mapping": lambda: TABLE,
    "objects": lambda: {name: np.array(column, object) for name, column in TABLE.items()},
    "pandas": lambda: pd.DataFrame(TABLE),
    "pandas, objects": lambda: pd.DataFrame(TABLE).astype(object),
    "pandas, categories": lambda: pd.DataFrame(TABLE).astype("category"),
    "pandas, Arrow's": lambda: pd.DataFrame(TABLE).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda: pl.DataFrame(TABLE),
    "arrow": lambda: pa.table(TABLE),
    "arrow, dictionaries": lambda: pa.table(
        {name: pa.array(column).dictionary_encode() for name, column in TABLE.items()}
    ),
    "duckdb": lambda: duckdb.from_arrow(pa.table(TABLE)),
}

#: What a column is not, and a part of what is said of it.
MISTAKEN = {
    "text by numbers": ({"sex": (0, 1)}, "'sex'.* numbers"),
    "text by a logarithm": ({"sex": pg.Log(1, 2)}, "'sex'.* numbers"),
    "text by bool": ({"sex": bool}, "'sex'.*not true and false"),
    "text by whole numbers": (
        {"sex": pg.Factor([1, 2])},
        "'sex'.*not whole numbers, as its levels are",
    ),
    "numbers by text": ({"age": ["f", "m"]}, "'age'.*not text, as its levels are"),
    "numbers by dates": ({"age": pg.Dates("1990-01-01", "2020-01-01")}, "'age'.*dates"),
    "whole numbers by text": ({"n": ["f", "m"]}, "'n'.*not text, as its levels are"),
}


#: Of objects each is looked at by itself: what is not what was said is missing in its row alone.
UNTYPED = ["mapping", "objects", "pandas, objects"]


@pytest.mark.parametrize("held", [name for name in HELD if name not in UNTYPED])
@pytest.mark.parametrize("what", MISTAKEN)
def test_column_that_is_not_what_was_said(held, what):
    """One error that names the column, what it holds and what was said; and no value of it."""
    bounds, text = MISTAKEN[what]
    columns = pg.Columns(bounds)
    calls = [lambda: pg.second_moment(HELD[held](), columns=columns)]
    if held != "duckdb":
        calls.append(lambda: columns.encode(HELD[held]()))
    for call in calls:
        with pytest.raises(TypeError, match=text) as caught:
            call()
        seen = said(caught.value)
        assert CANARY not in seen
        assert "7318" not in seen


@pytest.mark.parametrize("held", UNTYPED)
@pytest.mark.parametrize("what", MISTAKEN)
def test_objects_that_are_not_what_was_said_are_missing(held, what):
    bounds, _ = MISTAKEN[what]
    table = HELD[held]()
    with pytest.raises(ValueError, match=r"^row 0 holds a missing value") as caught:
        pg.second_moment(table, columns=pg.Columns(bounds, missing="error"))
    assert CANARY not in said(caught.value)
    moment = pg.second_moment(table, columns=pg.Columns(bounds, missing="drop"))
    assert (moment.n_rows, moment.n_dropped) == (0, 2)
    assert np.isnan(pg.Columns(bounds).encode(table)).all()


@pytest.mark.parametrize("number", [20240131, 0, True, np.int64(19000), 1.5])
def test_numbers_are_no_dates(number):
    """They were microseconds since 1970."""
    columns = pg.Columns({"t": pg.Dates("2000-01-01", "2030-01-01")}, missing="drop")
    assert np.isnan(columns.encode({"t": np.array([number, None], object)})).all()
    for values in (np.array([number]),):
        with pytest.raises(TypeError, match=r"numbers, not dates|not dates"):
            pg.second_moment({"t": values}, columns=columns)


@pytest.mark.parametrize("suffix", ["toml", "json", "csv"])
def test_byte_order_mark_is_read_over(tmp_path, suffix):
    columns = pg.Columns({"a": (0, 9)}, missing="drop")
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        path.write_text("a\n1\n", encoding="utf-8-sig")
        assert pg.second_moment(path, columns=columns).n_rows == 1
    else:
        columns.save(path)
        path.write_text(path.read_text(), encoding="utf-8-sig")
        assert pg.Columns.load(path) == columns
