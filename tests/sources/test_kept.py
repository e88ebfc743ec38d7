"""Rows that were decoded once: when they are kept, and that nothing else changes."""

import numpy as np
import pytest
from support.helpers import assert_bits, refuses

import privgram as pg
from privgram._base import machine
from privgram.columns import encoding
from privgram.moment.accumulators import TotalLayout
from privgram.scan.executor import accumulate
from privgram.scan.request import ScanRequest
from privgram.sources import files, open_source
from privgram.sources import table as kept
from privgram.sources.table import CachedSource

pytest.importorskip("pyarrow")

COLUMNS = pg.Columns({"a": (-1.0, 1.0), "b": (-1.0, 1.0)}, intercept=True)
TABLE = 0.2 * np.random.default_rng(0).normal(size=(3000, 2)).clip(-5, 5)


@pytest.fixture
def file(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet as arrow

    path = tmp_path / "table.parquet"
    arrow.write_table(pa.table(dict(zip("ab", TABLE.T, strict=True))), path, row_group_size=1000)
    return path


@pytest.fixture
def decoded(monkeypatch):
    """The row groups that were decoded."""
    groups, read = [], files._read

    def noted(*args):
        groups.append(args[-1])
        yield from read(*args)

    monkeypatch.setattr(files, "_read", noted)
    return groups


def total_of(source, threads=1):
    total, _ = accumulate(
        ScanRequest(source, COLUMNS, threads=threads), lambda d: TotalLayout(COLUMNS, d, 2.0).new()
    )
    return total


@pytest.mark.parametrize("threads", [1, 2])
def test_every_row_group_is_decoded_once(file, decoded, threads):
    expected = total_of(file)
    decoded.clear()
    source = CachedSource(file, 3000 * 16)
    for _ in range(3):
        assert_bits(total_of(source, threads), expected)
    assert sorted(decoded) == [0, 1, 2]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("groups", "again"), [(0, 3), (1.9, 2), (2, 1)])
def test_rows_that_do_not_fit_are_decoded_again(file, decoded, threads, groups, again):
    expected = total_of(file)
    source = CachedSource(file, int(groups * 1000 * 16))
    assert_bits(total_of(source, threads), expected)
    decoded.clear()
    for _ in range(2):
        assert_bits(total_of(source, threads), expected)
    # Two threads may each hold a part of a group, of which then none fits.
    assert len(decoded) == 2 * again or (threads == 2 and 2 * again < len(decoded) <= 6)


def test_csv_that_does_not_fit_is_read_again_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PARSE_BYTES", 10_000)
    parsed, read = [], files._Csv.read
    monkeypatch.setattr(
        files._Csv, "read", lambda self, text: parsed.append(len(text)) or read(self, text)
    )
    path = tmp_path / "table.csv"
    np.savetxt(path, TABLE, delimiter=",", header="a,b", comments="")
    expected = total_of(path)
    first = parsed.copy()
    source = CachedSource(path, 1500 * 16)
    assert_bits(total_of(source), expected)
    parsed.clear()
    assert_bits(total_of(source), expected)
    assert 0.4 * sum(first) < sum(parsed) < 0.6 * sum(first)
    path.write_text(path.read_text().replace("a,b", "a,b\n0,0"))
    refuses(lambda: total_of(source), OSError, "changed while it was read")


@pytest.mark.parametrize("fits", [True, False])
def test_query_is_run_once_if_all_of_it_fits(file, fits):
    polars = pytest.importorskip("polars")
    seen = []
    query = polars.scan_parquet(file).map_batches(lambda frame: seen.append(1) or frame)
    expected = total_of(file)
    source = CachedSource(query, 3000 * 16 - (not fits))
    for _ in range(3):
        assert_bits(total_of(source), expected)
    assert source._record.whole == fits
    assert (len(source._record._chunks) > 0) == fits
    once = len(seen)
    assert_bits(total_of(source), expected)
    assert (len(seen) == once) == fits


def test_pass_that_left_out_rows_is_not_taken_for_the_table(file, decoded):
    source = CachedSource(file, 10**6)
    table = source.open(open_source, COLUMNS.reads)
    chunks = list(table.chunks)
    list(chunks[0].read())
    next(chunks[1].read())  # one that was interrupted
    assert_bits(total_of(source), total_of(file))
    decoded.clear()
    assert_bits(total_of(source), total_of(file))
    assert decoded == [0, 1, 2]  # the second one's


def test_columns_in_another_order_are_not_taken_for_those_that_are_kept(file):
    bounds, source = {"a": (-9, 9), "b": (-1, 1)}, CachedSource(file, 10**6)
    for names in (["a", "b"], ["b", "a"]):
        columns = pg.Columns({name: bounds[name] for name in names})
        made = pg.second_moment(source, columns=columns)
        assert_bits(made, pg.second_moment(file, columns=columns))


def test_tables_in_memory_are_not_kept():
    source = CachedSource(TABLE, 10**6)
    for _ in range(2):
        assert_bits(total_of(source), total_of(TABLE))
    assert source._record is None


@pytest.mark.parametrize("form", ["objects", "texts", "frame", "arrow"])
@pytest.mark.parametrize("room", [10**5, 1000], ids=["fits", "no room"])
def test_texts_in_memory_are_coded_once(form, room, monkeypatch):
    names = np.array([f"level {i}" for i in range(50)])
    table = {"a": TABLE[:, 0], "f": names[np.arange(len(TABLE)) % 50]}
    if form == "objects":
        table["f"] = table["f"].astype(object)
    elif form != "texts":
        table = pytest.importorskip("pandas").DataFrame(table)
    if form == "arrow":
        pytest.importorskip("pyarrow")
        table = table.astype({"f": "string[pyarrow]"})
    columns = pg.Columns({"a": (-9, 9), "f": list(names)})
    expected, coded = pg.second_moment(table, columns=columns), []

    def codes(*given):
        coded.append(None)
        return real(*given)

    real = encoding._objects
    monkeypatch.setattr(encoding, "_objects", codes)
    source = CachedSource(table, room)
    assert_bits(pg.second_moment(source, columns=columns), expected)
    once = len(coded)
    assert_bits(pg.second_moment(source, columns=columns), expected)
    assert (len(coded) == once > 0) == (room > 1000)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("options", [{}, {"bound": pg.PrivateBound(0.1)}])
def test_releases_are_the_same(file, tmp_path, suffix, options, monkeypatch):
    source = file
    if suffix == "csv":
        source = tmp_path / "table.csv"
        np.savetxt(source, TABLE, delimiter=",", header="a,b", comments="")
    made = []
    for share in (0.25, 0.0, 1e-9):
        monkeypatch.setattr(kept, "SHARE", share)
        rng = np.random.default_rng(3)
        given = {"mechanism": "adaptive-gaussian", "adjacency": "add-remove", "rng": rng} | options
        made.append(pg.release(source, COLUMNS, 2.0, 1e-6, **given))
    assert made[0].parameters["rounds"] > 1
    for other in made[1:]:
        np.testing.assert_array_equal(made[0].matrix, other.matrix)


def test_room_is_a_share_of_what_a_container_may_use(tmp_path, monkeypatch):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "_LIMITS", (str(limit),))
    whole = machine.memory()
    limit.write_text("max\n")
    assert machine.memory() == whole
    limit.write_text("4096000\n")
    assert kept.CachedSource(None)._room == 1024000


def dictionary_batches():
    """Batches of one column: a dictionary twice, one in another order, longer, with a null."""
    import pyarrow as pa

    rng = np.random.default_rng(2)
    for words in (list("abc"), list("abc"), list("cba"), list("abcz"), ["b", None, "a"], ["a"]):
        where = rng.integers(0, len(words), 40)
        indices = pa.array(where.astype("i4"), mask=rng.random(40) < 0.1)
        column = pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string()))
        yield pa.record_batch({"x": rng.uniform(-1, 1, 40), "c": column})


@pytest.mark.parametrize("door", ["stream", "parquet"])
def test_dictionary_that_changes_is_looked_up_again(tmp_path, monkeypatch, door):
    import pyarrow as pa
    from pyarrow import parquet

    from privgram.sources import arrow

    monkeypatch.setattr(files, "_encoded", lambda group, names, wanted: ["c"])
    seen, codes_of = [], arrow.codes_of
    monkeypatch.setattr(arrow, "codes_of", lambda *given: seen.append(1) or codes_of(*given))
    table = pa.Table.from_batches(dictionary_batches())
    plain = table.set_column(1, "c", table["c"].cast(pa.string()))
    columns = pg.Columns(
        {"x": (-1, 1), "c": pg.Factor(["b", "c", "a"])}, intercept=True, missing="drop"
    )
    source = pa.RecordBatchReader.from_batches(table.schema, dictionary_batches())
    if door == "parquet":
        source = tmp_path / "t.parquet"
        with parquet.ParquetWriter(source, plain.schema, use_dictionary=["c"]) as writer:
            for start in range(0, 240, 40):
                writer.write_table(plain.slice(start, 40), row_group_size=40)
    whole = pg.second_moment(source, columns=columns, threads=1)
    assert len(seen) == (5 if door == "stream" else 6)  # of six batches one repeats the one before
    expected = pg.second_moment(plain, columns=columns)
    assert (whole.n_rows, whole.n_dropped) == (expected.n_rows, expected.n_dropped)
    assert whole.n_dropped > 5
    np.testing.assert_array_equal(whole.matrix(), expected.matrix())


def test_columns_of_too_many_texts_are_read_as_texts(tmp_path, monkeypatch):
    import pyarrow as pa
    from pyarrow import parquet

    found, encoded = [], files._encoded
    monkeypatch.setattr(
        files, "_encoded", lambda *given: found.append(encoded(*given)) or found[-1]
    )
    n = 20_000
    rng = np.random.default_rng(0)
    few = np.array(["a", "b"])[rng.integers(0, 2, n)]
    table = pa.table(
        {"x": rng.uniform(-1, 1, n), "few": few, "who": [f"p{i:06}" for i in range(n)]}
    )
    parquet.write_table(table, tmp_path / "t.parquet", dictionary_pagesize_limit=1000)
    columns = pg.Columns({"x": (-1, 1), "few": pg.Factor(["a", "b"])}, intercept=True)
    given = {"columns": columns, "unit": pg.Unit("who", max_rows=1)}
    of_file = pg.second_moment(tmp_path / "t.parquet", **given)
    assert found == [["few"]]
    np.testing.assert_array_equal(of_file.matrix(), pg.second_moment(table, **given).matrix())
