"""The same table through every source gives the same bits."""

import sys
from types import ModuleType

import numpy as np
import pytest
from scipy import sparse
from support.helpers import assert_same, refuses, said

from privgram import Columns, SecondMoment, Study, second_moment

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pacsv = pytest.importorskip("pyarrow.csv")
pq = pytest.importorskip("pyarrow.parquet")

NAMES = ("a", "b", "c")
COLUMNS = Columns({"c": (-1, 1), "a": (-2, 0.5), "b": (-100, 100)}, intercept=True, missing="drop")


def write_npy(x, path, order="C"):
    np.save(path, np.asarray(x, order=order))
    return path


def write_csv(x, path):
    # repr of a float reads back as the same float; a missing value is an empty cell.
    lines = [",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in x]
    path.write_text("\n".join([",".join(NAMES), *lines, ""]))
    return path


def write_parquet(table, path, **options):
    pq.write_table(table, path, **options)
    return path


def arrow(x, null=False):
    return pa.table(
        {name: pa.array(column, from_pandas=null) for name, column in zip(NAMES, x.T, strict=True)}
    )


def polars(x):
    return pytest.importorskip("polars").DataFrame(dict(zip(NAMES, x.T, strict=True)))


def duckdb(x):
    module = pytest.importorskip("duckdb")
    connection = module.connect(":memory:", config={"threads": 1})
    table = arrow(x)
    connection.register("t", table)
    return connection.sql("select * from t")


def folder(x, path, write):
    path.mkdir(exist_ok=True)
    (path / "_SUCCESS").write_text("")
    (path / ".hidden.parquet").write_text("")
    (path / "notes.txt").write_text("")
    (path / "sub").mkdir(exist_ok=True)
    cut = len(x) // 3
    write(x[:cut], path / "part-0")
    write(x[cut:], path / "sub" / "part-1")
    return path


NAMED = {
    "mapping": lambda x, tmp: dict(zip(NAMES, x.T, strict=True)),
    "pandas": lambda x, tmp: pd.DataFrame(x, columns=NAMES),
    "pandas, column by column": lambda x, tmp: pd.DataFrame(
        {name: x[:, i].copy() for i, name in enumerate(NAMES)}
    ),
    "pandas, index and nullable": lambda x, tmp: pd.DataFrame(
        x, columns=NAMES, index=np.arange(len(x)) // 2
    ).astype({"a": "Float64", "c": "double[pyarrow]"}),
    "arrow": lambda x, tmp: arrow(x),
    "arrow, nulls": lambda x, tmp: arrow(x, null=True),
    "arrow, chunked": lambda x, tmp: pa.concat_tables([arrow(x[:5]), arrow(x[5:], null=True)]),
    "arrow reader": lambda x, tmp: arrow(x).to_reader(max_chunksize=7),
    "record batch": lambda x, tmp: pa.RecordBatch.from_arrays(
        [pa.array(column) for column in x.T], NAMES
    ),
    "record batches": lambda x, tmp: iter(arrow(x).to_batches(max_chunksize=11)),
    "polars": lambda x, tmp: polars(x),
    "duckdb": lambda x, tmp: duckdb(x),
    "frames": lambda x, tmp: (pd.DataFrame(part, columns=NAMES) for part in np.array_split(x, 3)),
    "mixed blocks": lambda x, tmp: [
        pd.DataFrame(x[:4], columns=NAMES),
        arrow(x[4:9]),
        dict(zip(NAMES, x[9:].T, strict=True)),
    ],
    "csv": lambda x, tmp: write_csv(x, tmp / "t.csv"),
    "csv, no last newline": lambda x, tmp: _chop(write_csv(x, tmp / "u.csv")),
    "csv, CRLF and BOM": lambda x, tmp: _windows(write_csv(x, tmp / "w.csv")),
    "parquet": lambda x, tmp: write_parquet(arrow(x), tmp / "t.parquet"),
    "parquet, as str": lambda x, tmp: str(write_parquet(arrow(x), tmp / "t.parquet")),
    "parquet, row groups, nulls": lambda x, tmp: write_parquet(
        arrow(x, null=True), tmp / "u.parquet", row_group_size=10, compression="zstd"
    ),
    "parquet folder": lambda x, tmp: folder(
        x, tmp / "folder", lambda x, p: write_parquet(arrow(x), p.with_suffix(".parquet"))
    ),
    "csv glob": lambda x, tmp: (
        folder(x, tmp / "csvs", lambda x, p: write_csv(x, p.with_suffix(".csv"))) / "**" / "*.csv"
    ),
}
UNNAMED = {
    "array": lambda x, tmp: x,
    "Fortran": lambda x, tmp: np.asfortranarray(x),
    "list": lambda x, tmp: x.tolist(),
    "blocks": lambda x, tmp: iter(np.array_split(x, 5)),
    "list of blocks": lambda x, tmp: np.array_split(x, 5),
    "frame of numbers": lambda x, tmp: pd.DataFrame(x),
    "npy": lambda x, tmp: write_npy(x, tmp / "t.npy"),
    "npy, Fortran": lambda x, tmp: write_npy(x, tmp / "f.npy", "F"),
    "npy, big-endian": lambda x, tmp: write_npy(x.astype(">f8"), tmp / "b.npy"),
    "npy folder": lambda x, tmp: folder(
        x, tmp / "npys", lambda x, p: write_npy(x, p.with_suffix(".npy"))
    ),
}
SOURCES = NAMED | UNNAMED


def _chop(path):
    path.write_bytes(path.read_bytes()[:-1])
    return path


def _windows(path):
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    return path


@pytest.fixture
def x(rng):
    return rng.standard_normal((57, 3)) * [1.0, 20.0, 0.1]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("source", SOURCES)
def test_every_source(x, tmp_path, source, threads):
    expected = SecondMoment(3, 5.0).update(x)
    moment = second_moment(SOURCES[source](x, tmp_path), 5.0, threads=threads)
    assert_same(moment, expected)
    assert moment.names == (NAMES if source in NAMED else None)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_with_columns(x, tmp_path, source, threads):
    x[7, 2] = x[30, 1] = x[30, 0] = np.nan
    if source == "arrow":
        x[8, 1] = np.inf
    order = x[:, [2, 0, 1]]
    expected = SecondMoment(4, COLUMNS.bound, columns=COLUMNS).update(order)
    given_ = x if source in NAMED else order
    moment = second_moment(SOURCES[source](given_, tmp_path), columns=COLUMNS, threads=threads)
    assert_same(moment, expected)
    assert moment.n_dropped == 2
    assert moment.names == COLUMNS.names
    assert moment.columns == COLUMNS


@pytest.mark.parametrize("source", NAMED)
def test_selected_columns(x, tmp_path, source):
    moment = second_moment(NAMED[source](x, tmp_path), 5.0, columns=["c", "a"])
    assert_same(moment, SecondMoment(2, 5.0).update(x[:, [2, 0]]))
    assert moment.names == ("c", "a")


@pytest.mark.parametrize("source", NAMED)
def test_unknown_names(x, tmp_path, source):
    with pytest.raises(ValueError, match="no column named 'aa'; did you mean 'a'"):
        second_moment(NAMED[source](x, tmp_path), 5.0, columns=["aa"])
    with pytest.raises(ValueError, match="no column named 'zzz'; it has 'a', 'b', 'c'"):
        second_moment(NAMED[source](x, tmp_path), 5.0, columns=["zzz"])


@pytest.mark.parametrize("source", UNNAMED)
def test_names_of_columns_without(x, tmp_path, source):
    with pytest.raises(ValueError, match="have no names"):
        second_moment(UNNAMED[source](x, tmp_path), 5.0, columns=["a"])
    if source == "list":  # whose rows each have a number of cells of their own
        return
    with pytest.raises(ValueError, match="bounds for 1 columns and the table has 3"):
        second_moment(UNNAMED[source](x, tmp_path), columns=Columns({"a": (0, 1)}))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("source", SOURCES)
def test_position_of_a_bad_row(x, tmp_path, source, threads):
    x[41, 1] = np.nan
    x[55, 0] = np.nan
    with pytest.raises(ValueError, match=r"^row 41 .*missing") as caught:
        second_moment(SOURCES[source](x, tmp_path), 5.0, threads=threads)
    if source == "parquet, row groups, nulls":
        assert "u.parquet, row group 4)" in str(caught.value)
    if source == "npy folder":
        assert "part-1.npy)" in str(caught.value)


@pytest.mark.parametrize("source", ["mapping", "arrow", "array", "Fortran", "npy, big-endian"])
def test_tables_longer_than_the_scratch(x, tmp_path, source, monkeypatch):
    monkeypatch.setattr("privgram.moment.accumulators.PIECE_VALUES", 40)
    test_every_source_with_columns(x.copy(), tmp_path, source, 1)
    order = x[:, [2, 0, 1]]
    order[41, 1] = np.nan
    columns = Columns(COLUMNS.bounds)
    given_ = order if source in UNNAMED else order[:, [1, 2, 0]]
    with pytest.raises(ValueError, match=r"^row 41 "):
        second_moment(SOURCES[source](given_, tmp_path), columns=columns, threads=1)


@pytest.mark.parametrize("columns", [None, ["a"]])
def test_duplicate_names(tmp_path, columns):
    table = pa.table([[1.0], [2.0]], names=["a", "a"])
    (tmp_path / "t.csv").write_text("a,a\n1,2\n")
    sources = (table, write_parquet(table, tmp_path / "t.parquet"), table.to_pandas())
    for source in (*sources, tmp_path / "t.csv"):
        with pytest.raises(ValueError, match="several columns named 'a'"):
            second_moment(source, 1.0, columns=columns)


def test_no_rows(tmp_path):
    x = np.empty((0, 3))
    sources = [
        x,
        [x, x.copy()],
        arrow(x),
        pd.DataFrame(x, columns=NAMES),
        write_npy(x, tmp_path / "t.npy"),
        write_parquet(arrow(x), tmp_path / "t.parquet"),
        write_csv(x, tmp_path / "t.csv"),
        arrow(x).to_reader(),
    ]
    for source in sources:
        for threads in (1, 2, None):
            moment = second_moment(source, 1.0, threads=threads)
            assert (moment.n_rows, moment.n_columns) == (0, 3)
            np.testing.assert_array_equal(moment.matrix(), np.zeros((3, 3)))
            if not isinstance(source, (list, np.ndarray)) and hasattr(source, "read_all"):
                break


def test_blocks_that_differ():
    refuses(lambda: second_moment(iter([]), 1.0), ValueError, "no blocks")
    with pytest.raises(ValueError, match="block 2 has 2 columns and block 0 3"):
        second_moment(iter([np.eye(3), np.eye(3), np.eye(2)]), 1.0)
    frames = [pd.DataFrame(np.eye(2), columns=list(names)) for names in ("ab", "ba")]
    refuses(lambda: second_moment(frames, 1.0), ValueError, "block 1 and block 0 differ in name")
    assert second_moment(frames, 1.0, columns=["a", "b"]).n_rows == 4
    refuses(lambda: second_moment(iter([np.ones(3)]), 1.0), ValueError, "one; use x")
    for source in (3, None, object()):
        with pytest.raises((TypeError, ValueError)):
            second_moment(source, 1.0)


def test_stream_that_fails():
    """Its message quotes data, ours does not."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect(":memory:", config={"threads": 1})
    value = "case when i < 9000 then i else ('CANARY' || i)::double end"
    relation = connection.sql(f"select {value} as a from range(9999) t(i)")

    def batches():
        yield pa.record_batch({"a": [1.0]})
        raise pa.ArrowInvalid("CANARY")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.float64())]), batches())
    for source in (reader, relation):
        with pytest.raises(OSError, match="Arrow stream failed after") as caught:
            second_moment(source, 1.0)
        assert "CANARY" not in said(caught.value)


def test_without_pyarrow(x, tmp_path, monkeypatch):
    frame = pd.DataFrame(x, columns=NAMES)
    table, csv, parquet = arrow(x), tmp_path / "t.csv", tmp_path / "t.parquet"
    write_csv(x, csv)
    write_parquet(table, parquet)
    for module in ("pyarrow", "pyarrow.csv", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    for source, what in ((csv, "CSV"), (parquet, "Parquet")):
        with pytest.raises(ImportError, match=rf'{what} needs pyarrow: .*"privgram\[arrow\]"'):
            second_moment(source, 1.0)
    for source in (frame, table, table.to_reader()):
        assert_same(second_moment(source, 5.0), second_moment(x, 5.0))


class Failing:
    """A producer that runs only when it is asked for a stream."""

    def __init__(self, error):
        self.error = error

    def __arrow_c_stream__(self, requested_schema=None):
        raise self.error


def test_producer_that_fails_before_its_first_row():
    table = Failing(RuntimeError("CANARY"))
    with pytest.raises(OSError, match=r"failed before its first row \(RuntimeError\)") as caught:
        second_moment(table, 1.0)
    assert "CANARY" not in said(caught.value)
    with pytest.raises(ImportError, match="what it needs"):
        second_moment(Failing(ImportError("what it needs")), 1.0)


def test_value_that_is_not_in_its_dictionary():
    for values, columns in (
        ([1.5, 2.5], Columns({"a": (0, 3)})),
        (["x", "y"], Columns({"a": ["x", "y"]}, intercept=True)),
    ):
        for index in (2, -1):
            codes = pa.array([0, 1, index], pa.int8())
            bad = pa.DictionaryArray.from_arrays(codes, pa.array(values), safe=False)
            with pytest.raises(ValueError, match="a value is not in the dictionary"):
                second_moment(pa.table({"a": bad}), columns=columns)


class Cut:
    """A table whose stream has some of its rows, or none of its columns."""

    def __init__(self, table, n_rows):
        self.table, self.num_rows = table, n_rows

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__()


@pytest.mark.parametrize("threads", [1, 3])
def test_stream_that_ends_early(x, tmp_path, threads):
    """Nothing is spent, and nothing of it is in the moment."""
    table = Cut(arrow(x), len(x) + 1)
    with pytest.raises(OSError, match=f"ended after {len(x)} rows and the table has {len(x) + 1}"):
        second_moment(table, 1.0, threads=threads)
    moment = SecondMoment(x.shape[1], 1.0)
    refuses(lambda: moment.update(table), OSError, "ended after")
    assert moment.n_rows == 0
    study = Study(table, dict.fromkeys(NAMES, (-1, 1)), epsilon=1.0, delta=1e-6)
    refuses(lambda: study.release(epsilon=0.5), OSError, "ended after")
    assert study.remaining() == 1.0
    assert_same(second_moment(Cut(arrow(x), len(x)), 5.0), second_moment(x, 5.0))


@pytest.mark.parametrize("module", ["pandas", "polars", "pyarrow.dataset", "duckdb", "dask"])
def test_library_that_another_thread_is_importing(module, rng, monkeypatch):
    """It is in sys.modules before its classes are there."""
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    x = rng.standard_normal((5, 3))
    assert_same(second_moment(x, bound=2.0), SecondMoment(3, 2.0).update(x))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: None, "type NoneType is no table; pass an array of two dimensions"),
        (lambda x: sparse.csr_matrix(x), r"type csr_matrix is no table; pass .toarray\(\)"),
        (lambda x: pd.Series(x[:, 0]), r"a Series is one column; .* to_frame\(\)"),
        (lambda x: pa.chunked_array([x[:, 0]]), "a ChunkedArray is one column"),
    ],
    ids=["nothing", "sparse", "Series", "ChunkedArray"],
)
def test_object_that_is_no_table_is_refused(rng, make, says):
    refuses(lambda: second_moment(make(rng.standard_normal((5, 3))), bound=2.0), TypeError, says)


def test_memoryview_of_a_table(rng):
    x = rng.standard_normal((5, 3))
    assert_same(second_moment(memoryview(x), bound=2.0), SecondMoment(3, 2.0).update(x))
