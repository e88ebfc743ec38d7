"""Dask: the bits of one machine, rows that stay where they are, workers that may die."""

import os
import signal
import threading
import time
import traceback

import numpy as np
import pytest
from support.dummies import COLUMNS as TABLE_COLUMNS
from support.dummies import assert_same as same_as_by_hand
from support.dummies import rows
from support.helpers import refuses, said
from support.loaders import loads, noted

from privgram import Columns, Dates, PrivateBound, Unit, release, second_moment

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.slow

COLUMNS = Columns({"c": (-1, 2), "a": (0, 1.5)}, intercept=True, missing="drop")


@pytest.fixture
def x(rng):
    return rng.standard_normal((10_000, 5))


@pytest.fixture
def frame(x):
    """Columns of several types, with missing values, and one of strings."""
    frame = pd.DataFrame(x.copy(), columns=list("abcde"))
    frame.loc[::7, "c"] = np.nan
    frame["n"] = pd.array(np.arange(len(x)) % 9, dtype="Int64")
    frame.loc[::5, "n"] = pd.NA
    frame["flag"] = frame["a"] > 0
    frame["text"] = "x"
    return frame


@pytest.fixture(scope="module")
def client():
    """Two worker processes of one thread each."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(params=["synchronous", "threads"])
def scheduler(request):
    with dask.config.set(scheduler=request.param):
        yield request.param


def assert_same(a, b):
    assert a.to_bytes() == b.to_bytes()


def files(x, folder, n_files):
    folder.mkdir()
    paths = []
    for i, part in enumerate(np.array_split(x, n_files)):
        paths.append(folder / f"{i:03}.npy")
        np.save(paths[-1], part)
    return paths


def array_of(paths, folder, x, seconds=0.0):
    """A Dask array that workers read from files of their own."""
    folder.mkdir()
    parts = [
        da.from_delayed(
            dask.delayed(noted)(path, str(folder), seconds), (len(rows), x.shape[1]), x.dtype
        )
        for path, rows in zip(paths, np.array_split(x, len(paths)), strict=True)
    ]
    return da.concatenate(parts)


@pytest.mark.parametrize("rows", [10_000, 9_999, 700, 40, (0, 1, 9_999, 0), (3, 0, 4_000, 5_997)])
def test_chunks_do_not_matter(x, rows, scheduler):
    assert_same(second_moment(da.from_array(x, (rows, -1)), 2.0), second_moment(x, 2.0))


@pytest.mark.parametrize("dtype", ["f4", ">f8", "i8", "u1", "?"])
def test_types_and_layouts(x, layout, dtype, scheduler):
    y = layout((100 * x).astype(dtype))
    assert_same(second_moment(da.from_array(y, (999, -1)), 90.0), second_moment(y, 90.0))


def test_unknown_chunk_sizes(x, scheduler):
    positive = da.from_array(x, (700, -1))
    positive = positive[positive[:, 0] > 0]
    assert np.isnan(positive.shape[0])
    assert_same(second_moment(positive, 2.0), second_moment(x[x[:, 0] > 0], 2.0))


def test_no_rows(x, scheduler):
    assert_same(second_moment(da.from_array(x[:0]), 2.0), second_moment(x[:0], 2.0))
    none = da.from_array(x, (700, -1))
    assert second_moment(none[none[:, 0] > 1e9], 2.0).n_rows == 0


def test_array_with_bounds(x, scheduler):
    x[3::5, 1] = np.nan
    expected = second_moment(x[:, :2], 1.1, columns=COLUMNS)
    assert expected.n_dropped
    assert_same(second_moment(da.from_array(x[:, :2], (700, -1)), 1.1, columns=COLUMNS), expected)


def test_frame_with_empty_partitions(frame, scheduler):
    parts = dd.from_pandas(frame.reset_index(), npartitions=9)
    last = parts[parts["index"] >= 9_000]
    assert_same(
        second_moment(last, 2.0, columns=["a", "b"]),
        second_moment(frame.iloc[9_000:], 2.0, columns=["a", "b"]),
    )


def test_frame_without_names(x, scheduler):
    frame = pd.DataFrame(x[:, :2])
    for columns in (None, COLUMNS):
        ours = second_moment(dd.from_pandas(frame, npartitions=3), 2.0, columns=columns)
        assert_same(ours, second_moment(frame, 2.0, columns=columns))


def test_parquet(frame, tmp_path, scheduler):
    """Dask may read several small files as one partition."""
    for i in range(7):
        frame.iloc[i * 1500 : (i + 1) * 1500].to_parquet(tmp_path / f"{i}.parquet")
    ours = second_moment(dd.read_parquet(tmp_path), columns=COLUMNS)
    assert_same(ours, second_moment(frame, columns=COLUMNS))


def test_processes(x):
    with dask.config.set(scheduler="processes", num_workers=2):
        assert_same(second_moment(da.from_array(x, (700, -1)), 2.0), second_moment(x, 2.0))


@pytest.mark.long
def test_distributed(x, frame, client, tmp_path):
    """Each block is made once, where it is used, and stays there."""
    array = array_of(files(x, tmp_path / "data", 40), tmp_path / "log", x)
    with client.as_current():
        assert_same(second_moment(array, 2.0), second_moment(x, 2.0))
        assert loads(tmp_path / "log") == 40
        parts = dd.from_pandas(frame, npartitions=20)
        assert_same(second_moment(parts, columns=COLUMNS), second_moment(frame, columns=COLUMNS))


def test_killed_worker_changes_nothing(x, client, tmp_path):
    array = array_of(files(x, tmp_path / "data", 40), tmp_path / "log", x, seconds=0.05)
    victims = list(client.run(os.getpid).values())

    def kill():  # once this worker has something to lose
        while (
            len([*(tmp_path / "log").glob(f"*-{victims[0]}")]) < 3 and loads(tmp_path / "log") < 40
        ):
            time.sleep(0.01)
        os.kill(victims[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with client.as_current():
        ours = second_moment(array, 2.0)
    killer.join()
    assert loads(tmp_path / "log") > 40, "what the worker had done must have been done again"
    assert_same(ours, second_moment(x, 2.0))
    client.wait_for_workers(2, timeout=600)
    assert victims[0] not in client.run(os.getpid).values()


def test_each_block_is_made_once(x, tmp_path, scheduler):
    array = array_of(files(x, tmp_path / "data", 20), tmp_path / "log", x)
    second_moment(array, 2.0)
    assert loads(tmp_path / "log") == 20


def test_partition_is_one_task(x, frame, tmp_path):
    """Loading, selecting and accumulating are fused, and leave no alias to be run."""
    array = array_of(files(x, tmp_path / "data", 20), tmp_path / "log", x)
    (tmp_path / "pq").mkdir()
    for i in range(20):
        frame.iloc[i::20].to_parquet(tmp_path / "pq" / f"{i}.parquet")
    table = dd.read_parquet(tmp_path / "pq")[["a", "b", "d"]]
    tasks = []
    note = dask.callbacks.Callback(pretask=lambda key, *_: tasks.append(key))
    with dask.config.set(scheduler="synchronous"):
        for source in (array, dd.from_pandas(frame[["a", "b"]], npartitions=20), table):
            tasks.clear()
            with note:
                second_moment(source, 2.0)
            # And merges of 16 states, of 4, of 2. Dask may join small files.
            assert len(tasks) <= 20 + 2 + 1


def test_task_is_one_thread(x, monkeypatch):
    array = da.from_array(np.tile(x, (20, 1)), (100_000, -1))
    monkeypatch.setattr(threading.Thread, "start", lambda t: pytest.fail("a thread was started"))
    with dask.config.set(scheduler="synchronous"):
        assert second_moment(array, 2.0).n_rows == 200_000


@pytest.mark.parametrize("where", ["threads", "distributed"])
def test_bad_row(x, where, client, capfd):
    """It is named by its place; neither the error nor a log shows a value."""
    x[:, 3] = 1234.56789
    x[7_003, 1] = np.inf
    array = da.from_array(x, (1000, -1))
    frame = dd.from_pandas(pd.DataFrame(x, columns=list("abcde")), npartitions=10)
    context = client.as_current() if where == "distributed" else dask.config.set(scheduler=where)
    with context:
        for source in (array, frame):
            with pytest.raises(ValueError, match=r"^partition 7: row 3 holds") as caught:
                second_moment(source, 2.0)
            assert "1234" not in "".join(traceback.format_exception(caught.value))
    if where == "distributed":
        logs = str(client.get_worker_logs())
        assert "partition 7" in logs
        assert "1234" not in logs
    assert "1234" not in "".join(capfd.readouterr())


def test_partitions_that_are_not_what_they_promise(frame):
    parts = dd.from_pandas(frame[["a", "b"]], npartitions=4)

    def change(part, partition_info=None):
        return part[["b", "a"]] if partition_info["number"] == 2 else part

    changed = parts.map_partitions(change, meta=parts._meta, enforce_metadata=False)
    with pytest.raises(ValueError, match="partition 2: its columns are not those of the table"):
        second_moment(changed, 2.0)
    texts = parts.map_partitions(lambda part: part.astype(str), meta=parts._meta)
    with pytest.raises(TypeError, match=r"partition 0: column 'a' holds values of type"):
        second_moment(texts, 2.0)


@pytest.mark.parametrize(
    ("make", "arguments", "error", "text"),
    [
        (lambda a: a, {}, ValueError, "give bound="),
        (lambda a: a, {"bound": 1.0, "columns": ["a"]}, ValueError, "selected by name"),
        (lambda a: a, {"bound": 1.0, "threads": 2}, ValueError, "threads is for one machine"),
        (lambda a: a, {"bound": 1.0, "progress": "yes"}, TypeError, "progress is"),
        (lambda a: a.rechunk((700, 2)), {"bound": 1.0}, ValueError, r"rechunk\(\{1: -1\}\)"),
        (lambda a: a[:, 0], {"bound": 1.0}, ValueError, "two dimensions"),
        (lambda a: a[:, a[0] > 9], {"bound": 1.0}, ValueError, "compute_chunk_sizes"),
        (lambda a: a.astype(object), {"bound": 1.0}, TypeError, "objects or strings"),
        (lambda a: a.astype(complex), {"bound": 1.0}, TypeError, "complex"),
        (lambda a: dask.delayed(a), {"bound": 1.0}, TypeError, "a Dask Delayed is not a table"),
    ],
)
def test_refused_arrays(x, make, arguments, error, text):
    refuses(lambda: second_moment(make(da.from_array(x, (700, -1))), **arguments), error, text)


@pytest.mark.parametrize(
    ("columns", "error", "text"),
    [
        (None, TypeError, "column 'text' holds"),
        (["a", "text"], TypeError, "column 'text' holds"),
        (["a", "bb"], ValueError, "no column named 'bb'; did you mean 'b'"),
        ("a", TypeError, "list of names"),
    ],
)
def test_refused_frames(frame, columns, error, text):
    with pytest.raises(error, match=text):
        second_moment(dd.from_pandas(frame, npartitions=3), 2.0, columns=columns)
    with pytest.raises(TypeError, match="a Dask Series"):
        second_moment(dd.from_pandas(frame, npartitions=3)["a"], 2.0)


@pytest.mark.parametrize("known", [True, False])
def test_progress_is_told_at_the_end(x, known):
    array, calls = da.from_array(x, (100, -1)), []
    source = array if known else array[array[:, 0] < 9]
    second_moment(source, 2.0, progress=lambda *call: calls.append(call))
    assert calls == [(10_000, 10_000 if known else None)]


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_failure_of_the_readers_quotes_no_data(tmp_path, scheduler):
    (tmp_path / "t.csv").write_text("a\n" + "1\n" * 9 + "CANARY\n")
    frame = dd.read_csv(tmp_path / "t.csv", dtype=float, sample=8, blocksize=None)
    with (
        dask.config.set(scheduler=scheduler),
        pytest.raises(OSError, match=r"Dask failed .*\(ValueError\)") as caught,
    ):
        second_moment(frame, 9.0)
    assert "CANARY" not in said(caught.value)


def nullable():
    return pd.DataFrame(rows()).astype({"union": "boolean", "grade": "Int64"})


def written(folder, dictionary):
    """Parquet of several row groups, of texts or of categories."""
    table = pa.Table.from_pandas(pd.DataFrame(rows()), preserve_index=False)
    for name in ("sex", "region") if dictionary else ():
        column = table.column(name).combine_chunks().dictionary_encode()
        table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table, folder / "t.parquet", row_group_size=100)
    return dd.read_parquet(folder / "t.parquet", split_row_groups=2)


CATEGORIES = dict.fromkeys(("sex", "region", "grade"), "category")

TABLES = {
    "text": lambda folder: dd.from_pandas(nullable(), npartitions=3),
    "categories": lambda folder: dd.from_pandas(nullable().astype(CATEGORIES), npartitions=3),
    "unknown categories": lambda f: dd.from_pandas(nullable(), npartitions=3).astype(CATEGORIES),
    "Parquet": lambda folder: written(folder, False),
    "Parquet of categories": lambda folder: written(folder, True),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Dask's use of pandas
@pytest.mark.parametrize("kind", TABLES)
def test_bits_of_the_dummy_table(kind, tmp_path, scheduler):
    same_as_by_hand(second_moment(TABLES[kind](tmp_path), columns=TABLE_COLUMNS), rows())


CANARY = "Gertrude7318640529"


@pytest.mark.parametrize(
    ("bounds", "error", "text"),
    [
        ({"sex": ["f", "m"]}, ValueError, r"^partition 1: row 0 holds a missing value.*level that"),
        ({"sex": bool}, TypeError, "column 'sex' holds .*, not true and false"),
        # One text that is no date is a missing value: a row's cell is no error of its own.
        ({"sex": Dates("1990-01-01", "2020-01-01")}, ValueError, r"row 0 holds a missing value"),
    ],
)
@pytest.mark.parametrize("where", ["threads", "distributed"])
def test_columns_that_are_not_what_was_said(bounds, error, text, where, client, capfd):
    """Neither the error nor a log shows a value."""
    frame = pd.DataFrame({"sex": ["f", "m", CANARY, "f"], "age": 73.1864})
    context = client.as_current() if where == "distributed" else dask.config.set(scheduler=where)
    with context, pytest.raises(error, match=text) as caught:
        second_moment(dd.from_pandas(frame, npartitions=2), columns=Columns(bounds))
    said = "".join([*traceback.format_exception(caught.value), *capfd.readouterr()])
    if where == "distributed":
        said += str(client.get_worker_logs())
    assert CANARY not in said
    assert "73.18" not in said


def test_norms_of_units_are_counted_by_one_machine(frame):
    units = dd.from_pandas(frame[["a", "c"]].assign(who=1), npartitions=3)
    unit = Unit("who", bound=PrivateBound(1.0))
    with pytest.raises(ValueError, match="counted by one machine"):
        release(units, COLUMNS, epsilon=1.0, delta=1e-6, unit=unit)


def test_units_that_cannot_be_told(frame):
    units = frame[["a", "c"]].assign(who=frame["a"])
    arguments = {"columns": COLUMNS, "unit": Unit("who", max_rows=5)}
    with pytest.raises(TypeError, match="'who' holds values of type float64, not whole numbers"):
        second_moment(dd.from_pandas(units, npartitions=3), **arguments)
    with pytest.raises(ValueError, match="DataFrames alone"):
        second_moment(da.ones((9, 2)), 1.0, unit=Unit("who", bound=1.0))
    gappy = units.assign(who=pd.array(np.arange(len(units)), "Int64"))
    gappy.loc[3, "who"] = pd.NA
    with pytest.raises(ValueError, match="has no unit"):
        second_moment(dd.from_pandas(gappy, npartitions=3), **arguments)
