"""Datasets, lazy frames and relations: what is not asked for is not read."""

import sys
import traceback

import numpy as np
import pytest
from support import memory
from support.helpers import assert_same, refuses

from privgram import Columns, SecondMoment, second_moment
from privgram.columns import Dates
from privgram.sources import open_source

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
csv = pytest.importorskip("pyarrow.csv")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

ODD = ("a", "b.c", "^d.*$", "*", 'e"f')  # names that are patterns or paths elsewhere


@pytest.fixture
def x(rng):
    return rng.standard_normal((1000, len(ODD)))


@pytest.fixture
def table(x):
    return pa.table(dict(zip(ODD, x.T, strict=True)))


def relation(path, connection=None):
    return (connection or duckdb.connect(":memory:")).sql(f"select * from read_parquet('{path}')")


FROM_PARQUET = {
    "path": lambda path: path,
    "dataset": lambda path: ds.dataset(path),
    "scanner": lambda path: ds.dataset(path).scanner(columns=["a"]),
    "polars": lambda path: pl.scan_parquet(path),
    "duckdb": relation,
}


@pytest.mark.parametrize("door", FROM_PARQUET)
def test_other_columns_are_not_read(x, table, tmp_path, door):
    """Their bytes are damaged, so that reading them would fail."""
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    data = bytearray(path.read_bytes())
    group = pq.ParquetFile(path).metadata.row_group(0)
    for i in range(1, len(ODD)):
        chunk = group.column(i)
        start = chunk.data_page_offset
        data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
    moment = second_moment(FROM_PARQUET[door](path), 1.0, columns=["a"])
    assert_same(moment, SecondMoment(1, 1.0).update(x[:, :1]))
    if door != "scanner":  # which has one column
        with pytest.raises(OSError, match=r"cannot be decoded|failed after 0 rows"):
            second_moment(FROM_PARQUET[door](path), 1.0, columns=["a", "b.c"])


QUERIES = {
    "dataset": lambda table: ds.dataset(table),
    "scanner": lambda table: ds.dataset(table).scanner(),
    "polars": lambda table: pl.from_arrow(table),
    "lazy polars": lambda table: pl.from_arrow(table).lazy(),
    "duckdb": lambda table: duckdb.connect(":memory:", config={"threads": 1}).from_arrow(table),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("door", QUERIES)
def test_any_order_and_any_name(x, table, door, threads):
    order = (4, 2, 3, 0, 1)
    for taken in (range(5), order, order[:3]):
        names = [ODD[i] for i in taken]
        moment = second_moment(QUERIES[door](table), 2.0, columns=names, threads=threads)
        assert moment.names == tuple(names)
        assert_same(moment, SecondMoment(len(names), 2.0).update(x[:, list(taken)]))
    assert second_moment(QUERIES[door](table), 2.0).names == ODD
    with pytest.raises(ValueError, match="no column named 'aa'; did you mean 'a'"):
        second_moment(QUERIES[door](table), 2.0, columns=["aa"])


def test_filters(x, table):
    x = x[x[:, 0] > 0.25][:, :2]
    expected = SecondMoment(2, 2.0).update(x)
    data, keep = ds.dataset(table), pc.field("a") > 0.25
    frame = pl.from_arrow(table).lazy().filter(pl.col("a") > 0.25)
    sources = [
        data.filter(keep),
        data.scanner(filter=keep),
        data.scanner(columns=["b.c", "a"], filter=keep),
        frame,
        duckdb.connect(":memory:", config={"threads": 1}).from_arrow(table).filter("a > 0.25"),
        [data.filter(pc.field("a") > 1), data.filter(keep & (pc.field("a") <= 1))],
        iter([frame]),
    ]
    for source in sources:
        assert_same(second_moment(source, 2.0, columns=["a", "b.c"]), expected)
    # The filter's own column need not be one of the selected.
    only = SecondMoment(1, 2.0).update(x[:, 1:])
    for source in sources[:2]:
        assert_same(second_moment(source, 2.0, columns=["b.c"]), only)


def test_partitioned_folder(x, tmp_path):
    year = np.repeat([2023, 2024, 2025, 2026], 250)
    table = pa.table({"year": year, "a": x[:, 0], "b": x[:, 1]})
    ds.write_dataset(
        table, tmp_path, format="parquet", partitioning=["year"], partitioning_flavor="hive"
    )
    rows = np.column_stack([x[:, :2], year])
    data = ds.dataset(tmp_path, partitioning="hive")
    moment = second_moment(data, 2.0, columns=["a", "b", "year"])
    assert_same(moment, SecondMoment(3, 2.0).update(rows))
    # Files of other years are not opened.
    for file in (tmp_path / "year=2023").iterdir():
        file.write_bytes(b"PAR1 damaged PAR1")
    data = ds.dataset(tmp_path, partitioning="hive", schema=data.schema)
    moment = second_moment(data.filter(pc.field("year") > 2023), 2.0, columns=["a", "b", "year"])
    assert_same(moment, SecondMoment(3, 2.0).update(rows[year > 2023]))
    refuses(lambda: second_moment(data, 2.0, columns=["a"]), OSError, "failed after")


def test_refused_before_anything_is_read(tmp_path):
    def never(frame):
        raise AssertionError("was run")

    lazy = pl.LazyFrame({"a": ["CANARY"]}).map_batches(never, schema={"a": pl.String})
    refuses(lambda: second_moment(lazy, 1.0), TypeError, "column 'a' holds values of type")


def test_failures_quote_no_data(tmp_path):
    frame = pl.LazyFrame({"a": ["1", "CANARY"]})
    with pytest.raises(OSError, match="failed after 0 rows") as caught:
        second_moment(frame.select(pl.col("a").cast(pl.Float64)), 1.0)
    assert "CANARY" not in "".join(traceback.format_exception(caught.value))
    (tmp_path / "t.csv").write_text("a\n1\nCANARY\n")
    schema = pa.schema([("a", pa.float64())])
    whole = ds.CsvFileFormat(parse_options=csv.ParseOptions(newlines_in_values=True))
    with pytest.raises(OSError, match="failed after 0 rows") as caught:
        second_moment(ds.dataset(tmp_path / "t.csv", format=whole, schema=schema), 1.0)
    assert "CANARY" not in "".join(traceback.format_exception(caught.value))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A table of 1 GiB in memory, small as a file."""
    n = 2**22
    column = pa.array(np.tile(np.random.default_rng(0).standard_normal(2**12), n // 2**12))
    table = pa.table({f"c{j}": column for j in range(32)})
    path = tmp_path_factory.mktemp("large") / "t.parquet"
    pq.write_table(table, path, compression="zstd", row_group_size=2**17)
    return path


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("source", "before"),
    [
        ("ds.dataset(path)", "import pyarrow.dataset as ds"),
        ("polars.scan_parquet(path)", "import polars"),
        (
            "connection.sql(f\"select * from read_parquet('{path}')\")",
            "import duckdb\nconnection = duckdb.connect()\n"
            "connection.sql('set enable_progress_bar = false')",
        ),
    ],
    ids=["dataset", "polars", "duckdb"],
)
def test_bounded_memory(large, source, before):
    """It is read in less than half of that."""
    assert memory.of_a_pass(large, 2**22, source, before) < 512


@pytest.mark.parametrize("rows", [7, 20_000])
def test_pieces_of_a_frame(rng, rows):
    """One frame in many pieces, cut in one place or in several: the bits of one piece."""
    n = 5 * rows
    frame = pl.DataFrame(
        {
            "a": rng.standard_normal(n),
            "g": rng.choice(["x", "y", "a text beyond twelve"], n),
            "k": pl.Series(rng.choice(["p", "q"], n)).cast(pl.Categorical),
            "n": [None if i % 50 == 3 else float(i % 9) for i in range(n)],
            "d": pl.Series(rng.integers(0, 9000, n).astype(np.int32)).cast(pl.Date),
        }
    )
    pieces = pl.concat([frame[i * rows : (i + 1) * rows] for i in range(5)], rechunk=False)
    left, right = ["a", "g"], ["k", "n", "d"]
    cuts = [pl.concat([frame[:c], frame[c:]], rechunk=False) for c in (rows - 3, 3 * rows)]
    uneven = pl.DataFrame([*cuts[0][left].get_columns(), *cuts[1][right].get_columns()])
    assert (pieces.n_chunks(), {*uneven.n_chunks("all")}) == (5, {2})
    columns = Columns(
        {
            "a": (-3, 3),
            "g": ["x", "y", "a text beyond twelve"],
            "k": ["p", "q"],
            "n": (0, 9),
            "d": Dates("1970-01-01", "2000-01-01"),
        },
        intercept=True,
        missing="drop",
    )
    expected = second_moment(frame, columns=columns)
    assert expected.n_dropped > 0
    for source in (pieces, uneven, pieces.lazy(), frame.to_arrow()):
        found = second_moment(source, columns=columns)
        assert found.to_bytes() == expected.to_bytes()
    assert pieces.n_chunks() == 5, "it is left as it is"
    if rows == 20_000:  # small ones are copied together, a few at a time
        chunks = list(open_source(pieces[["a"]]).chunks)
        for chunk, piece in zip(chunks, pieces["a"].get_chunks(), strict=True):
            (block,) = chunk.read()
            assert np.shares_memory(block[0], piece.to_numpy(allow_copy=False))
