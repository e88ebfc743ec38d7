"""Spark, on local[2]: the bits of one machine, refusals by name, no value in a message."""

import traceback
from decimal import Decimal

import numpy as np
import pytest
from support.helpers import refuses, said

from privgram import AdaptiveGaussian, Columns, Dates, Groups, Unit, release, second_moment

pytest.importorskip("pyspark")
pd = pytest.importorskip("pandas")

pytestmark = [pytest.mark.slow, pytest.mark.long]

COLUMNS = Columns({"c.d": (-1, 2), "a": (0, 1.5)}, intercept=True, missing="drop")


def assert_same(a, b):
    assert a.to_bytes() == b.to_bytes()


@pytest.fixture(scope="module")
def frame():
    """Columns of several types and odd names, with nulls, and one of strings."""
    rng = np.random.default_rng(42)
    frame = pd.DataFrame(rng.standard_normal((5_000, 3)), columns=["a", "b", "c.d"])
    frame["n"] = np.arange(5_000) % 9
    frame["flag"] = frame["a"] > 0
    frame["`text"] = "x"
    frame.loc[::7, "c.d"] = np.nan
    return frame


@pytest.fixture(scope="module")
def table(spark, frame):
    return spark.createDataFrame(frame)


@pytest.mark.parametrize("partitions", [1, 7])
def test_partitions_do_not_matter(table, frame, partitions):
    for columns in (["n", "flag", "b"], COLUMNS):
        ours = second_moment(table.repartition(partitions), 1.5, columns=columns)
        assert_same(ours, second_moment(frame, 1.5, columns=columns))


def test_nulls_and_other_numbers(spark):
    rows = [(i % 5 or None, Decimal(i) / 4, float(i)) for i in range(100)]
    table = spark.createDataFrame(rows, "i smallint, d decimal(9, 2), f float")
    columns = Columns({"i": (0, 3), "d": (0, 20), "f": (5, 50)}, missing="drop")
    plain = {
        "i": np.array([i or np.nan for i, _, _ in rows], float),
        "d": np.array([float(d) for _, d, _ in rows]),
        "f": np.array([f for _, _, f in rows], np.float32),
    }
    ours = second_moment(table, columns=columns)
    assert_same(ours, second_moment(plain, columns=columns))
    assert ours.n_dropped == 20


def test_many_batches_and_empty_partitions(spark):
    """More rows than Spark hands over at once; most partitions without any."""
    table = spark.range(0, 50_000, 1, 5).selectExpr("id % 100 as a", "id % 7 as b")
    i = np.arange(50_000)
    plain = {"a": i % 100, "b": i % 7}
    assert_same(second_moment(table, 60.0), second_moment(plain, 60.0))
    few = second_moment(table.where("id >= 49990"), 60.0)
    assert_same(few, second_moment({name: column[-10:] for name, column in plain.items()}, 60.0))
    assert second_moment(table.where("id < 0"), 60.0).n_rows == 0


@pytest.mark.parametrize("columns", [COLUMNS, ["b", "a"]])
def test_groups(table, frame, columns):
    asked = {"columns": columns, "by": Groups("n", [3, 0, 8, 90])}
    bound = 2.0 if columns is not COLUMNS else None
    assert_same(second_moment(table, bound, **asked), second_moment(frame, bound, **asked))


def test_no_partitions(spark):
    """A table without rows may have none, of which there is nothing to reduce."""
    table = spark.createDataFrame([], "a double, b double")
    moment = second_moment(table.where("a > 0"), 2.0)
    assert_same(moment, second_moment({"a": np.empty(0), "b": np.empty(0)}, 2.0))


def test_failed_cast_quotes_no_data(spark):
    table = spark.createDataFrame([("1",), ("CANARY",)], "a string")
    with pytest.raises(OSError, match="Spark failed while it computed") as caught:
        second_moment(table.selectExpr("cast(a as double) as a"), 2.0)
    assert "CANARY" not in said(caught.value)


@pytest.mark.parametrize(
    "error",
    ["[PYTHON_VERSION_MISMATCH] of 77.5", "ModuleNotFoundError: No module named 'privgram'"],
)
def test_workers_of_another_python_say_what_to_set(table, monkeypatch, error):
    def fails(*of_rows):
        raise RuntimeError(error)

    monkeypatch.setattr("privgram.scan.spark._of_rows", fails)
    with pytest.raises(OSError, match="PYSPARK_PYTHON") as caught:
        second_moment(table, 1.5, columns=["b"])
    assert "77.5" not in said(caught.value)


def test_each_row_is_read_once(spark):
    """Also below a shuffle, which Spark plans as it goes."""
    seen = spark.sparkContext.accumulator(0)

    def note(batches):
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    table = spark.range(3_000).repartition(3).mapInArrow(note, "id long")
    calls = []
    moment = second_moment(table, 1e4, progress=lambda *call: calls.append(call))
    assert moment.n_rows == seen.value == 3_000
    assert calls == [(3_000, None)]


def test_bad_row(spark):
    """It is named by its place; the error shows no value."""
    table = spark.range(0, 30_000, 1, 3).selectExpr(
        "1234.5678 as a", "if(id in (11234, 29999), double('nan'), 2) as b"
    )
    with pytest.raises(ValueError, match=r"^partition 1: row 1234 holds a missing") as caught:
        second_moment(table, 2.0)
    assert "1234.5" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({}, ValueError, "give bound="),
        ({"bound": 1.0}, TypeError, "column '`text' holds values of type string"),
        ({"bound": 1.0, "columns": ["A"]}, ValueError, "no column named 'A'; it has 'a'"),
        ({"bound": 1.0, "columns": "a"}, TypeError, "list of names"),
        ({"bound": 1.0, "columns": ["a"], "threads": 2}, ValueError, "threads is for one"),
        ({"bound": 1.0, "columns": ["a"], "progress": 1}, TypeError, "progress is"),
    ],
)
def test_refused(table, arguments, error, text):
    refuses(lambda: second_moment(table, **arguments), error, text)


def test_refused_tables(table, spark):
    refuses(lambda: second_moment(table.rdd, 1.0), TypeError, "RDD of pyspark")
    twice = spark.range(3).selectExpr("id as a", "id as a")
    refuses(lambda: second_moment(twice, 1.0), ValueError, "several columns named 'a'")
    times = spark.range(3).selectExpr("timestamp_seconds(id) as t", "array(id) as v")
    for name, kind in (("t", "timestamp"), ("v", "array<bigint>")):
        with pytest.raises(TypeError, match=f"column '{name}' holds values of type {kind}"):
            second_moment(times, 1.0, columns=[name])


CANARY = "Gertrude7318640529"


@pytest.mark.parametrize(
    ("bounds", "error", "text"),
    [
        ({"sex": ["f", "m"]}, ValueError, r"^partition 1: row 0 holds a missing value.*level that"),
        ({"sex": bool}, TypeError, "'sex' holds values of type string, not true and false"),
        # One text that is no date is a missing value: a row's cell is no error of its own.
        ({"sex": Dates("1990-01-01", "2020-01-01")}, ValueError, r"row 0 holds a missing value"),
    ],
)
def test_columns_that_are_not_what_was_said(spark, bounds, error, text):
    """Neither the error nor what is behind it shows a value."""
    rows = [("f", 73.1864), ("m", 73.1864), (CANARY, 73.1864), ("f", 73.1864)]
    frame = spark.sparkContext.parallelize(rows, 2).toDF("sex string, age double")
    with pytest.raises(error, match=text) as caught:
        second_moment(frame, columns=Columns(bounds))
    said = "".join(traceback.format_exception(caught.value))
    assert CANARY not in said
    assert "73.18" not in said


@pytest.mark.parametrize("text", [False, True])
def test_units_by_a_shuffle(spark, frame, text):
    ids = np.random.default_rng(3).integers(0, 400, len(frame))
    units = frame[["a", "c.d"]].assign(**{"who.is": ids.astype(str) if text else ids})
    arguments = {"columns": COLUMNS, "unit": Unit("who.is", max_rows=5)}
    ours = second_moment(spark.createDataFrame(units).repartition(7), **arguments)
    assert_same(ours, second_moment(units, **arguments))
    assert ours.n_rows == len(np.unique(ids))


def test_units_that_cannot_be_told(spark, frame):
    units = frame[["a", "c.d"]].assign(who=frame["a"])
    arguments = {"columns": COLUMNS, "unit": Unit("who", max_rows=5)}
    with pytest.raises(TypeError, match="'who' holds values of type double, not whole numbers"):
        second_moment(spark.createDataFrame(units), **arguments)
    rows = spark.createDataFrame(
        [(1, 0.5, 0.5), (None, 0.5, 0.5)], "who int, a double, `c.d` double"
    )
    refuses(lambda: second_moment(rows, **arguments), ValueError, "has no unit")
    assert (
        second_moment(rows, columns=COLUMNS, unit=Unit("who", max_rows=5, missing="drop")).n_rows
        == 1
    )


def test_looks_at_rows_and_at_files_give_the_bits_of_one_machine(spark, tmp_path):
    rng = np.random.default_rng(5)
    a = 0.3 + 0.1 * rng.standard_normal(4_000)
    frame = pd.DataFrame({"a": a, "b": a + 0.02 * rng.standard_normal(4_000)}).clip(-1, 1)
    frame.to_parquet(tmp_path / "table.parquet")
    columns = Columns({"a": (-1, 1), "b": (-1, 1)}, intercept=True)
    tables = frame, spark.createDataFrame(frame), spark.read.parquet(str(tmp_path))
    made = []
    for table in tables:
        given = {"adjacency": "add-remove", "rng": np.random.default_rng(1)}
        made.append(release(table, columns, 2.0, 1e-6, mechanism=AdaptiveGaussian(), **given))
    assert made[0].parameters["rounds"] > 1
    for other in made[1:]:
        np.testing.assert_array_equal(other.matrix, made[0].matrix)
