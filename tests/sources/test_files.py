"""Files that are missing, empty, truncated, malformed, or change while they are read."""

import os
import re
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from support import memory
from support.helpers import assert_bits, refuses, said

from privgram import Columns, second_moment
from privgram.sources import files

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
def test_missing_and_empty(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    refuses(lambda: second_moment(path, 1.0), FileNotFoundError, r"no file .*/t")
    path.write_bytes(b"")
    refuses(lambda: second_moment(path, 1.0), OSError, f"t{suffix} is empty")


def test_nothing_to_find(tmp_path):
    for path in (tmp_path, tmp_path / "*.csv", tmp_path / "**" / "*"):
        with pytest.raises(FileNotFoundError, match="matches no"):
            second_moment(path, 1.0)
    (tmp_path / "t.txt").write_text("a\n1\n")
    refuses(lambda: second_moment(tmp_path / "t.txt", 1.0), ValueError, "no known kind")
    (tmp_path / "t.csv").write_text("a\n1\n")
    assert second_moment(tmp_path, 1.0).n_rows == 1
    np.save(tmp_path / "t.npy", np.eye(1))
    refuses(lambda: second_moment(tmp_path, 1.0), ValueError, r"several kinds: .csv, .npy")


def test_suffixes_in_capitals(tmp_path):
    """Not left out of a folder, where no one would notice."""
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.CSV").write_text("a,b\n3,4\n")
    assert second_moment(tmp_path, 1.0).n_rows == 2
    np.save(tmp_path / "t", np.eye(2))
    (tmp_path / "t.npy").rename(tmp_path / "t.NPY")
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "t.Parquet")
    assert second_moment(tmp_path / "t.NPY", 1.0).n_rows == 2
    assert second_moment(tmp_path / "t.Parquet", 1.0).n_rows == 1


def test_folder_of_different_tables(tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("b,a\n1,2\n")
    with pytest.raises(ValueError, match=r"2.csv differ from those of .*1.csv; name"):
        second_moment(tmp_path, 1.0)
    assert second_moment(tmp_path, 1.0, columns=["a", "b"]).n_rows == 2
    (tmp_path / "2.csv").write_text("a,c\n1,2\n")
    with pytest.raises(ValueError, match="no column named 'b'"):
        second_moment(tmp_path, 1.0, columns=["a", "b"])
    for i, d in enumerate((2, 3)):
        np.save(tmp_path / f"{i}.npy", np.eye(d))
    with pytest.raises(ValueError, match=r"1.npy differ from those of .*0.npy$"):
        second_moment(tmp_path / "*.npy", 1.0)


@pytest.mark.parametrize(
    "damage", [b"", b"CANARY, not a header", b"\x93NUMPY\x09\x09junk"], ids=["x", "text", "version"]
)
def test_npy_that_is_none(tmp_path, damage):
    path = tmp_path / "t.npy"
    path.write_bytes(damage + b"x")
    with pytest.raises(OSError, match=r"not a .npy file") as caught:
        second_moment(path, 1.0)
    assert "CANARY" not in str(caught.value)


def test_npy_truncated(tmp_path):
    path = tmp_path / "t.npy"
    np.save(path, np.ones((100, 3)))
    data = path.read_bytes()
    for n in (7, 9, 64, 127, 128, 1000, len(data) - 1):
        path.write_bytes(data[:n])
        refuses(lambda: second_moment(path, 1.0), OSError, r"truncated|not a .npy file")


@pytest.mark.parametrize("shape", [(2**62, 2**10), (2**70, 2), (-1, 3), (3, 2**40)])
def test_npy_with_an_impossible_shape(tmp_path, shape):
    path = tmp_path / "t.npy"
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(64))
    refuses(lambda: second_moment(path, 1.0), (OSError, ValueError), r"truncated|two dimensions")


@pytest.mark.parametrize(
    ("array", "error", "text"),
    [
        (np.ones(3), ValueError, "two dimensions"),
        (np.ones((2, 2), complex), TypeError, "complex128"),
        (np.array([[1, "CANARY"]], object), TypeError, "object"),
        (np.array([["CANARY"]]), TypeError, "<U6"),
        (np.ones((2, 2), "f8,f8"), TypeError, "only real numbers"),
        (np.ones((5, 0)), ValueError, "n_columns"),
    ],
)
def test_npy_of_other_things(tmp_path, array, error, text):
    path = tmp_path / "t.npy"
    np.save(path, array)
    with pytest.raises(error, match=text) as caught:
        second_moment(path, 1.0)
    assert "CANARY" not in str(caught.value)


@contextmanager
def no_lease(file):
    yield False


@pytest.fixture(params=["mapped", "copied"])
def way(request, monkeypatch):
    """Read files in both ways; tests may not assume that a lease is to be had."""
    if request.param == "copied":
        monkeypatch.setattr(files, "lease", no_lease)
    return request.param


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", "<f4", ">i4"])
def test_npy(tmp_path, way, order, dtype, rng, monkeypatch):
    monkeypatch.setattr(files, "PIECE_BYTES", 10_000)
    monkeypatch.setattr(files, "COPY_BYTES", {"C": 1_000, "F": 1_000})
    x = (100 * rng.standard_normal((1234, 7))).astype(dtype)
    path = tmp_path / "t.npy"
    np.save(path, np.asarray(x, order=order))
    np.testing.assert_array_equal(
        second_moment(path, 99.0).matrix(), second_moment(x, 99.0).matrix()
    )


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("threads", [1, 2])
def test_npy_that_shrinks(tmp_path, monkeypatch, way, order, threads):
    monkeypatch.setattr(files, "PIECE_BYTES", 1 << 12)
    monkeypatch.setattr("privgram.scan.progress.INTERVAL", 0.0)
    path = tmp_path / "t.npy"
    np.save(path, np.ones((10_000, 4), order=order))

    def shrink(rows, total):
        os.truncate(path, 4000)

    with pytest.raises(OSError, match=r"changed while|became shorter"):
        second_moment(path, 1.0, threads=threads, progress=shrink)


def shrink_at_any_time(path, longest, messages):
    """Truncate a file in the midst of passes over it, at eight moments: each time it is said."""
    data, said = path.read_bytes(), []
    for delay in np.linspace(0, longest, 8):
        path.write_bytes(data)
        thread = threading.Timer(delay, os.truncate, (path, 10_000))
        thread.start()
        try:
            last = False
            while not last:  # which begins after the truncation
                last = not thread.is_alive()
                second_moment(path, 1.0)
        except OSError as error:
            said.append(str(error))
        thread.join()
    assert len(said) == 8
    assert all(re.search(messages, message) for message in said)


@pytest.mark.slow
def test_npy_that_shrinks_at_any_time(tmp_path, way):
    """Another thread truncates at a moment of its own; a map without a lease would die."""
    path = tmp_path / "t.npy"
    np.save(path, np.ones((400_000, 10)))
    shrink_at_any_time(path, 0.01, "changed while|became shorter|truncated")


def test_npy_that_shrinks_within_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "lease", no_lease)
    path = tmp_path / "t.npy"
    np.save(path, np.ones((10_000, 40)))
    blocks = files._Array.find(path).read(slice(0, 10_000))
    next(blocks)
    os.truncate(path, 600_000)
    refuses(lambda: list(blocks), OSError, "became shorter while it was read")


def test_npy_that_is_overwritten(tmp_path, way):
    path = tmp_path / "t.npy"
    np.save(path, np.ones((10_000, 40)))
    blocks = files._Array.find(path).read(slice(0, 10_000))
    next(blocks)
    os.utime(path, ns=(0, 0))
    refuses(lambda: list(blocks), OSError, "changed while it was read")


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_writers_do_not_wait_for_long(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    if suffix == ".npy":
        np.save(path, np.full((10_000, 4), np.nan))
    else:
        pq.write_table(pa.table({"a": np.full(10_000, np.nan)}), path)
    with pytest.raises(ValueError, match="row 0") as caught:
        second_moment(path, 1.0)
    start = time.monotonic()
    os.truncate(path, 1000)
    assert time.monotonic() - start < 30.0, "an exception kept the lease"
    assert caught


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_parquet_in_batches(tmp_path, way, rng, monkeypatch, compression, threads):
    """Columns in another order than the file's, of several types, with and without nulls."""
    monkeypatch.setattr("privgram.sources.table.BATCH_BYTES", 8 * 4 * 300)
    x = 100 * rng.standard_normal((5000, 4))
    x[:, 3] = np.rint(x[:, 3])
    x[::7, 2] = np.nan
    table = pa.table(
        {
            "a": x[:, 0],
            "c": pa.array(x[:, 2], from_pandas=True),
            "note": ["CANARY"] * len(x),
            "d": x[:, 3].astype(np.int32),
            "b": x[:, 1].astype(np.float32),
        }
    )
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, compression=compression, row_group_size=2048)
    x[:, 1] = x[:, 1].astype(np.float32)
    columns = Columns(dict.fromkeys("dbca", (-150, 150)), missing="drop")
    expected = second_moment(x[:, [3, 1, 2, 0]], columns=columns)
    moment = second_moment(path, columns=columns, threads=threads)
    assert_bits(moment, expected)
    assert moment.n_dropped == expected.n_dropped > 0
    # The same without scaling, for columns of one type: read in place.
    table = table.select(["a", "d", "b"]).cast(pa.schema([(name, pa.float32()) for name in "adb"]))
    pq.write_table(table, path, compression=compression, row_group_size=2048)
    moment = second_moment(path, 99.0, columns=["b", "a"], threads=threads)
    assert_bits(moment, second_moment(x[:, [1, 0]].astype(np.float32), 99.0))


@pytest.mark.parametrize("threads", [1, 2])
def test_parquet_that_shrinks(tmp_path, monkeypatch, way, threads):
    monkeypatch.setattr("privgram.scan.progress.INTERVAL", 0.0)
    path = tmp_path / "t.parquet"
    table = pa.table({"a": np.arange(100_000.0)})
    pq.write_table(table, path, use_dictionary=False, row_group_size=5000)

    def shrink(rows, total):
        os.truncate(path, 4000)

    with pytest.raises(OSError, match=r"changed while it was read|cannot be decoded"):
        second_moment(path, 1.0, threads=threads, progress=shrink)


@pytest.mark.slow
def test_parquet_that_shrinks_at_any_time(tmp_path, way):
    """Another thread truncates at a moment of its own; a map without a lease would die."""
    path = tmp_path / "t.parquet"
    table = pa.table({f"c{j}": np.ones(400_000) for j in range(10)})
    pq.write_table(table, path, use_dictionary=False, compression="none", row_group_size=50_000)
    shrink_at_any_time(path, 0.02, "changed while|cannot be decoded")


@pytest.mark.parametrize("cut", [3, 100, 4000, -1, -5])
def test_parquet_truncated(tmp_path, cut):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.arange(10_000.0)}), path, compression="zstd")
    path.write_bytes(path.read_bytes()[:cut])
    refuses(lambda: second_moment(path, 1.0), OSError, r"t.parquet cannot be decoded")


def test_parquet_damaged_within(tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({"a": np.arange(10_000.0)})
    pq.write_table(table, path, compression="snappy", row_group_size=5000, use_dictionary=False)
    data = bytearray(path.read_bytes())
    middle = len(data) * 3 // 4
    data[middle - 5000 : middle] = b"\xff" * 5000
    path.write_bytes(data)
    refuses(lambda: second_moment(path, 1e9), OSError, r"t.parquet, row group 1 cannot be decoded")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("a,b\n1,2\nCANARY,3\n", ValueError, "row 1 .*no number in column 'a'"),
        ("a,b\n1,2\n3,CANARY\n", ValueError, "row 1 .*no number in column 'b'"),
        ("a,b\n1,2\n3,true\n", ValueError, "row 1 .*no number in column 'b'"),
        ("a,b\n1,2\nCANARY\n", ValueError, "row 1 .*does not have 2 cells"),
        ("a,b\n1,2\n3,4,CANARY\n", ValueError, "row 1 .*does not have 2 cells"),
        ("a,b\n1,2\n3,inf\n", ValueError, "row 1 .*infinity"),
        ("a,b\n1,2\n3,\n", ValueError, "row 1 .*missing"),
        ("1,2\n3,4\n", ValueError, "no header"),
        ('a,b\n1,"2\n3",4\n', ValueError, "row 0"),
    ],
)
def test_csv_malformed(tmp_path, text, error, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    for threads in (1, 2):
        with pytest.raises(error, match=message) as caught:
            second_moment(path, 9.0, threads=threads)
        assert "CANARY" not in said(caught.value)


def test_csv_with_numbers_for_names(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("2019,2020\n1,2\n")
    assert second_moment(path, 9.0, columns=["2020"]).n_rows == 1


def test_csv_not_utf8(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xff\xfe,b\n1,2\n")
    refuses(lambda: second_moment(path, 1.0), OSError, "not a CSV file in UTF-8")


def test_csv_bad_cell_in_a_later_chunk_and_line_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("privgram.sources.files.PARSE_BYTES", 100)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 100 + "1,CANARY\n" + "1,2\n" * 100)
    with pytest.raises(ValueError, match=r"^row 100 .*no number in column 'b'"):
        second_moment(path, 3.0, threads=2)
    monkeypatch.setattr("privgram.sources.files._LONGEST_RECORD", 300)
    path.write_text("a\n" + "1" * 1000)
    refuses(lambda: second_moment(path, 1.0), ValueError, "a line longer than")


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    ("suffix", "compression", "n"),
    [(".npy", None, 2**22), (".parquet", "zstd", 2**22), (".parquet", "none", 2**21)],
)
def test_memory_is_bounded(tmp_path, suffix, compression, n):
    """The resident memory of a pass over 0.5 or 1 GiB grows by far less."""
    path = tmp_path / f"t{suffix}"
    if suffix == ".npy":
        x = np.lib.format.open_memmap(path, "w+", "f8", (n, 32))
        del x  # sparse: zeros
    else:
        column = pa.array(np.zeros(n))
        table = pa.table({f"c{j}": column for j in range(32)})
        pq.write_table(
            table, path, use_dictionary=False, compression=compression, row_group_size=n // 2
        )
    assert memory.of_a_pass(path, n) < 200
