"""Spark's plain scans of Parquet: read by the workers, or in doubt by Spark; the same bits."""

import datetime
import logging
import shutil

import numpy as np
import pytest
from dummies import COLUMNS, DESCRIBED, TERMS, WEIGHTS, assert_same, rows
from helpers import said

import privgram as pg
from privgram.engines import scans
from privgram.engines.parts import Plan

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pq = pytest.importorskip("pyarrow.parquet")
functions = pytest.importorskip("pyspark.sql.functions")

pytestmark = [pytest.mark.slow, pytest.mark.long]

FILES = "the workers read the Parquet files"


@pytest.fixture
def way(caplog):
    """Return a function that tells by which way a table was read, and gives its moment."""
    caplog.set_level(logging.INFO, "privgram")

    def read(*arguments, **options):
        caplog.clear()
        moment = pg.second_moment(*arguments, **options)
        (said,) = caplog.messages
        return said.removeprefix("rows come through Spark: "), moment

    return read


@pytest.fixture
def arrow():
    table = pa.Table.from_pandas(pd.DataFrame(rows()), preserve_index=False)
    table = table.append_column("b.c", pa.array(np.arange(600), pa.int16()))
    when = table.column("hired").cast(pa.timestamp("us", "UTC"))
    return table.set_column(table.column_names.index("hired"), "hired", when)


@pytest.fixture
def folder(arrow, tmp_path):
    """Three files of several row groups, of names that are quoted in a URI."""
    note = {"org.apache.spark.version": "4.0.0", **(arrow.schema.metadata or {})}
    arrow = arrow.replace_schema_metadata(note)
    path = tmp_path / "ta ble%"
    path.mkdir()
    for i in range(3):
        part = arrow.slice(200 * i, 200)
        pq.write_table(part, path / f"p art%2{i}.parquet", row_group_size=70)
    return path


def test_the_bits_of_the_dummy_table(spark, folder, way):
    frame = spark.read.parquet(str(folder))
    said, moment = way(frame, columns=COLUMNS)
    assert said == FILES
    assert_same(moment, rows())
    said, moment = way(frame.where("true or wage > 0").repartition(3), columns=COLUMNS)
    assert said != FILES
    assert_same(moment, rows())


def test_names(spark, folder, way):
    """Columns by name, in another order and with a dot; as they are."""
    frame = spark.read.parquet(str(folder)).select("age", "`b.c`", "sex")
    said, moment = way(frame, 2.0, ["b.c", "age"])
    assert said == FILES
    raw = {"b.c": np.arange(600), "age": rows()["age"]}
    assert moment.to_bytes() == pg.second_moment(raw, 2.0).to_bytes()


def test_dictionaries(spark, arrow, folder, way):
    """As pandas writes categories."""
    for name in ("sex", "region"):
        column = arrow.column(name).combine_chunks().dictionary_encode()
        arrow = arrow.set_column(arrow.column_names.index(name), name, column)
    shutil.rmtree(folder)
    arrow = arrow.replace_schema_metadata({"org.apache.spark.version": "4.0.0"})
    pq.write_table(arrow, f"{folder}.parquet")
    said, moment = way(spark.read.parquet(f"{folder}.parquet"), columns=COLUMNS)
    assert said == FILES
    assert_same(moment, rows())


def test_what_spark_has_written(spark, folder, way, tmp_path):
    """Its timestamps, unless told otherwise, are in a format that overflows elsewhere."""
    frame = spark.read.parquet(str(folder))
    frame.write.parquet(str(tmp_path / "again"))
    again = spark.read.parquet(str(tmp_path / "again"))
    said, moment = way(again, columns=COLUMNS)
    assert said == "a file has columns of other types"
    assert_same(moment, rows())
    dated = again.withColumn("hired", again["hired"].cast("date"))
    dated.repartition(1).write.parquet(str(tmp_path / "dates"))
    columns = pg.Columns(
        {"hired": pg.Dates("1980-01-01", "2026-01-01"), "sex": ["f", "m"]}, missing="drop"
    )
    said, moment = way(spark.read.parquet(str(tmp_path / "dates")), columns=columns)
    assert said == FILES
    raw = rows()
    raw["hired"] = raw["hired"].astype("M8[D]")
    assert moment.to_bytes() == pg.second_moment(raw, columns=columns).to_bytes()


CHANGED = {
    "filter": lambda f: f.where("age > 40"),
    "limit": lambda f: f.limit(100),
    "sample": lambda f: f.sample(0.5, seed=3),
    "computed": lambda f: f.withColumn("age", f.age + 1),
    "renamed": lambda f: f.select(functions.col("`b.c`").alias("age")),
    "cast": lambda f: f.withColumn("age", f.age.cast("string").cast("int")),
    "sorted": lambda f: f.orderBy("age"),
    "distinct": lambda f: f.select("age").distinct(),
    "union": lambda f: f.union(f),
    "join": lambda f: f.crossJoin(f.select("sex").limit(2)),
    "mapped": lambda f: f.select("age").mapInArrow(lambda batches: batches, "age long"),
    "filled": lambda f: f.fillna(1),
    "cached": lambda f: f.cache(),
}


@pytest.mark.parametrize("change", CHANGED)
def test_plans_that_are_more_than_a_scan(spark, folder, change):
    plan = Plan(1, 50.0, ("age",), None)
    plain = spark.read.parquet(str(folder)).select("age")
    assert scans.states(plain, plan).getNumPartitions() > 1
    frame = CHANGED[change](spark.read.parquet(str(folder))).select("age")
    try:
        with pytest.raises(scans.Unfit, match=r"^the plan (is more|computes|filters)"):
            scans.states(frame, plan)
    finally:
        spark.catalog.clearCache()


def test_a_filter_is_applied(spark, folder, way):
    said, moment = way(spark.read.parquet(str(folder)).where("age > 40"), 50.0, ["age"])
    age = rows()["age"]
    assert said.startswith("the plan is more than a scan")
    assert moment.to_bytes() == pg.second_moment({"age": age[age > 40]}, 50.0).to_bytes()


def test_readers_that_are_told_how(spark, folder, way):
    one = f"{folder}/p art%20.parquet"
    whole = pg.second_moment(rows(), 50.0, ["age"]).to_bytes()
    for reader, text in (
        (spark.read.option("mergeSchema", "true"), "the reader has options"),
        (spark.read.schema("age long, wage double, none int"), FILES),
        (spark.read.schema("age decimal(20, 0)"), "a file has columns of other types"),
        (spark.read.schema("AGE long"), "a file has not all the columns, or under other names"),
    ):
        frame = reader.parquet(str(folder))
        said, moment = way(frame, 50.0, ["AGE" if "AGE" in frame.columns else "age"])
        assert said == text
        if "AGE" not in frame.columns:
            assert moment.to_bytes() == whole
    some = spark.read.parquet(one, f"{folder}/p art%22.parquet")
    said, moment = way(some, 50.0, ["age"])
    assert (said, moment.n_rows) == (FILES, 400)
    missing = spark.read.schema("age long, none double").parquet(str(folder))
    columns = pg.Columns({"none": (0, 1)}, missing="drop")
    said, moment = way(missing, columns=columns)
    assert said.startswith("a file has not all the columns")
    assert moment.n_dropped == 600


def test_columns_of_the_path(spark, folder, way, tmp_path):
    frame = spark.read.parquet(f"{folder}/p art%20.parquet").select("age", "sex", "wage")
    frame.write.partitionBy("sex").parquet(str(tmp_path / "p"))
    parts = spark.read.parquet(str(tmp_path / "p"))
    said, moment = way(parts, 50.0, ["age"])
    assert said == FILES
    raw = {name: column[:200] for name, column in rows().items()}
    assert moment.to_bytes() == pg.second_moment(raw, 50.0, ["age"]).to_bytes()
    columns = pg.Columns({"sex": ["f", "m"], "age": (18, 90)}, missing="drop")
    said, moment = way(parts, columns=columns)
    assert said == "a column is a part of the files' paths"
    assert moment.to_bytes() == pg.second_moment(raw, columns=columns).to_bytes()
    with pytest.raises(scans.Unfit, match="the plan filters rows"):
        scans.states(parts.where("sex = 'f'").select("age"), Plan(1, 50.0, ("age",), None))


def test_a_table_of_the_catalogue(spark, way, tmp_path):
    spark.sql(f"create table privgram_t (a double) using parquet location '{tmp_path / 't'}'")
    try:
        spark.sql("insert into privgram_t values (1.0), (2.0)")
        said, moment = way(spark.table("privgram_t"), 3.0)
    finally:
        spark.sql("drop table privgram_t")
    assert said == "the plan scans a table of the catalogue"
    assert moment.n_rows == 2


def test_old_dates(spark, way, tmp_path):
    """Who wrote a file may have meant the Julian calendar: Spark knows what to do then."""
    table = pa.table({"t": [datetime.date(2000, 1, 1)]})
    columns = pg.Columns({"t": pg.Dates("1990-01-01", "2020-01-01")})
    key = "spark.sql.parquet.datetimeRebaseModeInRead"
    before = spark.conf.get(key)
    for note, mode, text in (
        ({"org.apache.spark.version": "3.5.1"}, "EXCEPTION", FILES),
        ({"org.apache.spark.version": "2.4.8"}, "EXCEPTION", "a file may have dates of"),
        (
            {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""},
            "EXCEPTION",
            "a file may have dates of",
        ),
        (None, "EXCEPTION", "a file may have dates of"),
        (None, "CORRECTED", FILES),
    ):
        path = str(tmp_path / f"{note and len(note)}{mode}{text[:5]}.parquet")
        pq.write_table(table.replace_schema_metadata(note), path)
        try:
            spark.conf.set(key, mode)
            said, moment = way(spark.read.parquet(path), columns=columns)
        finally:
            spark.conf.set(key, before)
        assert said.startswith(text)
        assert moment.to_bytes() == pg.second_moment(path, columns=columns).to_bytes()


def test_a_bad_row(spark, folder, arrow):
    """It is named by its file, and no value is shown."""
    strict = pg.Columns(DESCRIBED, terms=TERMS, weights=WEIGHTS)
    place = r"^partition \d+: row \d+ \(in .*row group \d\) holds a missing value"
    with pytest.raises(ValueError, match=place):
        pg.second_moment(spark.read.parquet(str(folder)), columns=strict)
    text = arrow.set_column(0, "noise", pa.array(["CANARY"] * 600))
    pq.write_table(text, folder / "p art%21.parquet")
    dates = pg.Columns({"noise": pg.Dates("1990-01-01", "2020-01-01")})
    frame = spark.read.schema("noise string").parquet(f"{folder}/p art%21.parquet")
    with pytest.raises(TypeError, match="'noise': it holds values that are no dates") as caught:
        pg.second_moment(frame, columns=dates)
    assert "CANARY" not in said(caught.value)


def test_files_that_changed(spark, folder, way, arrow):
    """Whatever happens to a file after Spark has seen it, Spark says what."""
    frame = spark.read.parquet(str(folder))
    text = arrow.set_column(arrow.column_names.index("age"), "age", pa.array(["CANARY"] * 600))
    pq.write_table(text, folder / "p art%21.parquet")
    with pytest.raises(OSError, match="Spark failed while it computed") as caught:
        way(frame, 50.0, ["age"])
    assert "CANARY" not in said(caught.value)
    shutil.rmtree(folder)
    with pytest.raises(OSError, match="Spark failed while it computed"):
        way(frame, 50.0, ["age"])


def test_settings_stay(spark, folder):
    before = dict(spark.sparkContext.getConf().getAll())
    sql = {row.key: row.value for row in spark.sql("set").collect()}
    pg.second_moment(spark.read.parquet(str(folder)), 50.0, ["age"])
    assert dict(spark.sparkContext.getConf().getAll()) == before
    assert {row.key: row.value for row in spark.sql("set").collect()} == sql
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None
