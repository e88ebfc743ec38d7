"""Second moments by one query: the bits of a pass, from every engine that is at hand."""

import csv
import math
import re
import shutil
import subprocess
import traceback
from decimal import Decimal

import numpy as np
import pytest
from support.helpers import refuses
from support.warehouses import load, server

import privgram as pg
from privgram.columns.sql import DIALECTS
from privgram.moment.sql import WRONG

pd = pytest.importorskip("pandas")
duckdb = pytest.importorskip("duckdb")

ENGINES = [
    "duckdb",
    pytest.param("postgres", marks=pytest.mark.slow),
    pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.long]),
]

ODD = "x\"; drop table people; --`\\' \n%s"


def same(one, other):
    assert one.to_bytes() == other.to_bytes()


@pytest.fixture(scope="module")
def postgres():
    with server() as connection:
        yield connection


@pytest.fixture
def engine(request):
    """A connection, by the name of its engine."""
    if request.param == "duckdb":
        with duckdb.connect() as connection:
            yield connection
    else:
        yield request.getfixturevalue(request.param)


def people(n=3000, seed=0):
    """A table with whatever a column may hold."""
    rng = np.random.default_rng(seed)
    a = rng.normal(0, 2, n)
    a[:8] = [np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1.7e308, -1.7e308, 3.0]
    a[20::13] = np.nan
    text = rng.choice(["n", "s", "it's", "back\\slash", "zz"], n).astype(object)
    text[::17] = None
    return pd.DataFrame(
        {
            "a": a,
            "b": rng.integers(0, 10, n),
            "f": rng.uniform(-1, 1, n).astype(np.float32),
            "text": text,
            "code": rng.integers(0, 4, n).astype(np.int32),
            "flag": rng.random(n) < 0.3,
            "w": np.where(np.arange(n) == 5, 5e-324, rng.uniform(0, 2, n)),
            "who": rng.integers(0, n // 5, n),
            ODD: rng.normal(0, 1, n),
        }
    )


LEVELS = ["n", "s", "it's", "back\\slash"]
DESCRIBED = {
    "numbers": {"bounds": {"a": (-3, 3), "b": (0, 9), "f": (-0.3, 0.7)}},
    "without-intercept": {"bounds": {"a": (-3, 3), "b": (0, 9)}, "intercept": False},
    "terms": {"bounds": {"a": (-3, 3), "b": (0, 9)}, "terms": ["poly(a, 6)", "a:b", "b"]},
    "odd-name": {"bounds": {ODD: (-1, 1)}, "terms": [ODD]},
    "truth": {"bounds": {"flag": bool, "a": (-3, 3)}, "terms": ["flag", "flag:a"]},
    "a-factor": {"bounds": {"a": (-3, 3), "text": LEVELS}},
    "factors": {
        "bounds": {"a": (-3, 3), "b": (0, 9), "text": LEVELS, "code": pg.Factor([0, 1, 3], True)},
        "terms": ["poly(a, 2)", "text:code", "b:text", "code", "a:b:code"],
        "weights": {"b:text": 2.3, "poly(a, 2)": 0.7},
    },
    "others": {"bounds": {"text": pg.Factor(["n", "s"], True)}},
    "weighted": {"bounds": {"a": (-3, 3), "text": LEVELS, "w": (0, 1.5)}, "row_weights": "w"},
    "weighted-terms": {
        "bounds": {"a": (-3, 3), "w": (0.25, 1.5), "flag": bool},
        "terms": ["poly(a, 3)", "w", "flag:a"],
        "weights": {"poly(a, 3)": 1.7},
        "row_weights": "w",
    },
}
UNITS = {
    "rows": None,
    "units": pg.Unit("who", max_rows=3),
    "all-shrunk": pg.Unit("who", max_rows=1),
    "trace": pg.Unit("who", max_rows=2, clip="trace"),
    "bound": pg.Unit("who", bound=12.5),
}


def columns_of(name):
    return pg.Columns(**{"intercept": True, "missing": "drop"} | DESCRIBED[name])


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", DESCRIBED)
@pytest.mark.parametrize("engine", ENGINES[:2], indirect=True)
def test_query_has_the_bits_of_a_pass(engine, name, unit):
    table, columns, unit = people(), columns_of(name), UNITS[unit]
    load(engine, "people", table)
    query = pg.Query(engine, "select * from people;")
    found = pg.second_moment(query, columns=columns, unit=unit)
    same(found, pg.second_moment(table, columns=columns, unit=unit))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "unit"),
    [("terms", "rows"), ("factors", "rows"), ("weighted-terms", "rows"), ("numbers", "units")],
)
def test_spark_has_them_too(spark, name, unit):
    table, columns, unit = people(), columns_of(name), UNITS[unit]
    load(spark, "people", table.drop(columns=ODD))
    found = pg.second_moment(pg.Query(spark, "select * from people"), columns=columns, unit=unit)
    same(found, pg.second_moment(table, columns=columns, unit=unit))


def random_columns(rng):
    """Bounds of any size, terms and weights."""
    bounds = {}
    for name in ("a", "b", "f"):
        width = 10.0 ** rng.uniform(-3, 3)
        low = rng.normal(0, 1) * 10.0 ** rng.uniform(-3, 3)
        bounds[name] = (low, low + width)
    terms = [["a", "b", "f"], ["poly(a, 4)", "b:f"], ["a:b", "poly(f, 2)", "a"]][rng.integers(3)]
    weights = {terms[0]: float(10.0 ** rng.uniform(-1, 1))} if rng.random() < 0.5 else {}
    return pg.Columns(bounds, True, "drop", terms=terms, weights=weights)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES[:2], indirect=True)
def test_bounds_of_any_size_keep_the_bits(engine):
    rng = np.random.default_rng(1)
    table = people(500, 1)
    load(engine, "people", table)
    for _ in range(40):
        columns = random_columns(rng)
        found = pg.second_moment(pg.Query(engine, "select * from people"), columns=columns)
        same(found, pg.second_moment(table, columns=columns))


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_ties_go_to_even_numbers(engine):
    """Values half-way between two integers, and the doubles next to them."""
    columns = pg.Columns({"x": (-1, 1)}, missing="drop")
    scale = pg.SecondMoment(1, columns.bound, columns=columns).resolution ** -0.5
    ties = (np.arange(-1000, 1000) + 0.5) / scale
    x = np.concatenate([ties, np.nextafter(ties, -1), np.nextafter(ties, 1)])
    table = pd.DataFrame({"x": x})
    load(engine, "ties", table)
    found = pg.second_moment(pg.Query(engine, "select x from ties"), columns=columns)
    same(found, pg.second_moment(table, columns=columns))


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_other_types_of_numbers(engine):
    kinds = {"duckdb": "hugeint", "psycopg": "bigint", "pyspark": "bigint"}
    huge = next(kind for name, kind in kinds.items() if name in type(engine).__module__)
    rows = [(2**62 + 3, Decimal("1234567.89")), (-5, Decimal("-0.01")), (None, Decimal(3))]
    values = ", ".join(f"({i or 'null'}, {d})" for i, d in rows)
    query = (
        f"select cast(i as {huge}) as i, cast(d as decimal(12, 2)) as d from (values {values}) "
        "as t(i, d)"
    )
    columns = pg.Columns({"i": (-10, 2.0**62), "d": (-1, 2e6)}, missing="drop")
    plain = {
        "i": np.array([np.nan if i is None else i for i, _ in rows], float),
        "d": np.array([float(d) for _, d in rows]),
    }
    found = pg.second_moment(pg.Query(engine, query), columns=columns)
    same(found, pg.second_moment(plain, columns=columns))
    assert found.n_dropped == 1


@pytest.mark.parametrize("engine", ENGINES[:2], indirect=True)
def test_dates(engine):
    times = ["1999-12-31T23:59:59.999999", "2024-02-29", "1960-01-01", "NaT"]
    table = pd.DataFrame({"day": np.array(times, "datetime64[us]")})
    load(engine, "days", table)
    columns = pg.Columns({"day": pg.Dates("1990-01-01", "2020-01-01", "years")}, missing="drop")
    kinds = ("timestamp", "date", "timestamptz")
    engine.execute("set timezone = 'Asia/Kolkata'")
    for kind in kinds:
        text = f"select cast(day as {kind}) as day from days"
        if kind == "timestamptz":
            text = "select day at time zone 'UTC' as day from days"
        plain = table.assign(day=table["day"].dt.floor("D")) if kind == "date" else table
        found = pg.second_moment(pg.Query(engine, text), columns=columns)
        same(found, pg.second_moment(plain, columns=columns))


def test_table_without_rows_and_one_of_dropped_rows():
    columns = columns_of("a-factor")
    with duckdb.connect() as engine:
        load(engine, "people", people())
        for where, n in (("a > 1e300 and a < 0", 0), ("isnan(a)", None)):
            query = pg.Query(engine, f"select a, text from people where {where}")
            found = pg.second_moment(query, columns=columns)
            assert found.n_rows == 0
            assert not found.matrix().any()
            assert (found.n_dropped == 0) == (n == 0)
            units = pg.Query(engine, f"select a, text, who from people where {where}")
            whose = pg.Unit("who", max_rows=2)
            assert not pg.second_moment(units, columns=columns, unit=whose).matrix().any()


@pytest.mark.slow
@pytest.mark.long
def test_spark_answers_of_an_empty_table_with_factors(spark):
    load(spark, "people", people().drop(columns=ODD))
    query = pg.Query(spark, "select a, text from people where a > 5 and a < 4")
    assert pg.second_moment(query, columns=columns_of("a-factor")).n_rows == 0


def test_answer_without_rows_is_of_no_rows_where_there_are_levels():
    """So Spark answers: a table of one row would be told from one of none by an error."""
    columns = columns_of("a-factor")
    empty = pg.second_moment({"a": [], "text": []}, columns=columns)
    same(pg.SecondMoment.from_sql([], columns), empty)
    with pytest.raises(ValueError, match="the answer has no rows"):
        pg.SecondMoment.from_sql([], pg.Columns({"a": (0, 1)}))


#: Types of DuckDB with cells of each; all have a NULL beside them.
CELLS = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["1", "2", "0", "-7"],
    "BIGINT": ["1", "2", "9223372036854775807", "-9223372036854775808"],
    "UBIGINT": ["1", "18446744073709551615"],
    "HUGEINT": ["1", "170141183460469231731687303715884105727"],
    "FLOAT": ["1", "2.5", "'nan'", "'-inf'"],
    "DOUBLE": ["1", "2.5", "'nan'", "'inf'", "1e308", "5e-324"],
    "DECIMAL(9,2)": ["1", "2.5"],
    "DECIMAL(38,0)": ["1", "2", "99999999999999999999999999999999999999"],
    "VARCHAR": ["'1'", "'a'", "''", "'nan'"],
    "ENUM('a', 'b')": ["'a'", "'b'"],
    "UUID": ["uuid()", "'00000000-0000-0000-0000-000000000001'"],
    "DATE": ["'2001-05-06'", "'infinity'", "'-infinity'", "'5000000-01-01'", "'9000-01-01 (BC)'"],
    "TIMESTAMP": ["'2001-05-06 07:08:09.123456'", "'infinity'", "'-infinity'", "'250000-01-01'"],
    "TIMESTAMP_S": ["'2001-05-06'", "'infinity'", "'-infinity'", "'250000-01-01'"],
    "TIMESTAMP_MS": ["'2001-05-06'", "'infinity'", "'-infinity'", "'250000-01-01'"],
    "TIMESTAMP_NS": ["'2001-05-06 07:08:09.123456789'", "'infinity'", "'-infinity'"],
    "TIMESTAMPTZ": ["'2001-05-06 07:08:09+05'", "'infinity'", "'-infinity'"],
    "TIME": ["'01:00'"],
    "INTERVAL": ["'1 day'"],
    "BLOB": ["'a'"],
    "BIT": ["'1'"],
    "INTEGER[]": ["[1]"],
    "INTEGER[2]": ["[1, 2]"],
    "STRUCT(a INTEGER)": ["{'a': 1}"],
    "MAP(VARCHAR, INTEGER)": ["map {'a': 1}"],
    "UNION(a INTEGER, b VARCHAR)": ["1"],
    "JSON": ["'1'", "'true'"],
}

#: What a column is described by.
KINDS = {
    "number": (0, 3),
    "wide": (-1e300, 1e300),
    "bool": bool,
    "dates": pg.Dates("2000-01-01", "2010-01-01"),
    "levels": ["a", "b", "1"],
    "others": pg.Factor(["a"], other=True),
    "whole": pg.Factor([1, 2]),
    "whole, others": pg.Factor([1], other=True),
    "unit": None,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("held", CELLS)
def test_query_takes_and_refuses_what_a_pass_does(held, kind):
    """By the same sentence, or with the same integers."""
    cells = ", ".join(f"(CAST({cell} AS {held}), 1.5)" for cell in [*CELLS[held], "NULL"])
    bounds = {"x": (0, 3)} if kind == "unit" else {"v": KINDS[kind]}
    columns = pg.Columns(bounds, intercept=True, missing="drop")
    unit = pg.Unit("v", max_rows=2, missing="drop") if kind == "unit" else None
    with duckdb.connect() as engine:
        engine.execute(f"create table t as select * from (values {cells}) as s(v, x)")
        found = []
        for source in (engine.sql("select * from t"), pg.Query(engine, "select * from t")):
            try:
                found.append(pg.second_moment(source, columns=columns, unit=unit).to_bytes())
            except (TypeError, ValueError) as error:
                found.append(str(error))
    if kind == "dates" and held in ("VARCHAR", "ENUM('a', 'b')", "UUID", "JSON"):
        assert "select them as dates" in found[1]  # of texts an engine knows other dates
    else:
        assert found[0] == found[1]


@pytest.mark.parametrize("as_connection", [False, True])
@pytest.mark.parametrize("name", ["postgres", "duckdb"])
def test_engines_and_connections_of_sqlalchemy(name, as_connection, request):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    if name == "duckdb":
        with pytest.raises(ValueError, match=r"pandas\.read_sql makes of the query"):
            pg.Query(sqlalchemy.create_engine("sqlite://"), "select 1 as a")
        return
    made = request.getfixturevalue("postgres")
    load(made, "people", people().drop(columns=ODD))
    psycopg = pytest.importorskip("psycopg")
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(host=made.info.host, user="tester", dbname="postgres"),
    )
    sql = "select a, text, who from people where text like '%s%'"
    columns, unit = columns_of("a-factor"), pg.Unit("who", max_rows=2)
    with engine.connect() as connection:
        query = pg.Query(connection if as_connection else engine, sql)
        for whose in (None, unit):
            expected = pg.second_moment(pg.Query(made, sql), columns=columns, unit=whose)
            same(pg.second_moment(query, columns=columns, unit=whose), expected)
        with pytest.raises(TypeError, match="'text' holds values of type text; only real numbers"):
            pg.second_moment(query, columns={"text": (0, 1)})
    engine.dispose()


def study(engine, **changes):
    given = {"epsilon": 2.0, "delta": 1e-6, "missing": "drop", "adjacency": "add-remove"}
    bounds = {"a": (-3, 3), "b": (0, 9), "text": LEVELS, "code": pg.Factor([0, 1, 2, 3])}
    load(engine, "people", people(20_000))
    return pg.Study(pg.Query(engine, "select * from people"), bounds, **given | changes)


@pytest.fixture
def duck():
    with duckdb.connect() as engine:
        yield engine


def test_study_releases_a_query_in_one_round(duck):
    it = study(duck)
    release = it.release(1.0)
    assert release.method == "one round"
    assert release.reason == "the rows stay in their engine, which hands over sums alone"
    assert it.remaining() < 1.9
    fit = it.regress("a ~ b + text", 0.5)
    assert fit.param_names[0] == "b"
    assert [entry.epsilon for entry in it.entries] == [1.0, 0.5]


def test_request_that_needs_rows_is_refused_before_a_spend(duck):
    it = study(duck)
    whole = it.remaining()
    for what, error in (
        (
            lambda: it.release(1.0, mechanism=pg.AdaptiveGaussian()),
            "AdaptiveGaussian.. reads the table several",
        ),
        (lambda: it.release(1.0, by="code"), "a query has no groups"),
        (it.check, "check reads rows, and the rows stay"),
        (lambda: it.regress("flag ~ a", 1.0, family="binomial"), "flag|fitted by scores"),
    ):
        refuses(what, (ValueError, TypeError), error)
    table = it.table
    for options, error in (
        ({"columns": ["a"]}, "public bounds"),
        ({"columns": {"a": (0, 1)}, "bound": 0.5}, "leave out bound"),
        ({"columns": {"a": (0, 1)}, "threads": 2}, "scheduler has its own"),
    ):
        with pytest.raises(ValueError, match=error):
            pg.second_moment(table, **options)
    assert it.remaining() == whole


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_column_that_is_no_number_is_refused_by_one_sentence(engine):
    load(engine, "people", people().drop(columns=ODD))
    for bounds, held in (
        ({"text": (0, 1)}, "text"),
        ({"code": ["n", "s"]}, "number"),
        ({"flag": pg.Factor([0, 1])}, "truth"),
        ({"absent": (0, 1)}, "absent"),
    ):
        columns = pg.Columns(bounds, missing="drop")
        with pytest.raises((TypeError, ValueError)) as caught:
            pg.second_moment(pg.Query(engine, "select * from people"), columns=columns)
        expected = "has no column" if held == "absent" else "column '.*' holds .*(numbers|text)"
        assert re.search(expected, str(caught.value)), (bounds, str(caught.value))
        said = "".join(traceback.format_exception(caught.value))
        assert "it's" not in said
        assert "back" + "\\slash" not in said


def test_errors_of_a_run_quote_no_value(duck):
    duck.execute("create table t as select 'secret-value' as v")
    query = pg.Query(duck, "select cast(v as double) as x from t")
    ledger_free = pg.Study(query, {"x": (0, 1)}, epsilon=1.0, delta=1e-6)
    with pytest.raises(OSError, match=r"the engine failed .*\(ConversionException\)") as caught:
        ledger_free.release(0.5)
    assert "secret-value" not in "".join(traceback.format_exception(caught.value))
    assert not ledger_free.entries


@pytest.mark.slow
def test_connection_that_dies_spends_nothing(postgres):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres.info.dsn, autocommit=True) as other:
        it = study(other)
        postgres.execute("select pg_terminate_backend(%s)", [other.info.backend_pid])
        refuses(lambda: it.release(1.0), (OSError, ValueError), r"the engine (failed|cannot)")
        assert not it.entries


def test_name_made_to_inject_is_a_name(duck):
    load(duck, "people", people(100))
    duck.execute("create table witness as select 1 as x")
    names = [ODD, '"; drop table witness; --', "a' or 1=1 --", "`", '"', "\\", "/* "]
    frame = pd.DataFrame({name: np.arange(5.0) for name in names})
    load(duck, ODD, frame)
    level = "'; drop table witness; --"
    frame["f"] = [level, "\\'", '"', level, "n"]
    load(duck, "odd", frame)
    columns = pg.Columns(
        dict.fromkeys(names, (0, 4)) | {"f": [level, "\\'", '"', "n"]}, terms=["f"], missing="drop"
    )
    numbers = pg.Columns(dict.fromkeys(names, (0, 4)))
    answer = duck.execute(numbers.sql(ODD, "duckdb")).fetchall()
    same(pg.SecondMoment.from_sql(answer, numbers), pg.second_moment(frame, columns=numbers))
    found = pg.second_moment(pg.Query(duck, "select * from odd"), columns=columns)
    same(found, pg.second_moment(frame, columns=columns))
    assert duck.execute("select x from witness").fetchall() == [(1,)]


@pytest.mark.parametrize("engine", ENGINES[:2], indirect=True)
def test_collation_takes_no_two_units_or_levels_for_one(engine):
    """Two people bounded as one would be protected by a bound that is not theirs."""
    table = pd.DataFrame({"who": ["a", "A"] * 50, "f": ["n", "N"] * 50, "x": 1.0})
    load(engine, "plain", table)
    if "psycopg" in type(engine).__module__:
        rules = "provider = icu, locale = 'und-u-ks-level2', deterministic = false"
        engine.execute(f"create collation if not exists nocase ({rules})")
    collated = "who collate nocase as who, f collate nocase as f, x"
    engine.execute(f"create table t as select {collated} from plain")
    query = pg.Query(engine, "select * from t")
    assert (
        engine.execute("select count(*) from (select who from t group by who) as g").fetchone()[0]
        == 1
    )
    columns = pg.Columns({"x": (0, 2), "f": ["n"]}, terms=["x", "f"], missing="drop")
    same(pg.second_moment(query, columns=columns), pg.second_moment(table, columns=columns))
    unit = pg.Unit("who", max_rows=2)
    found = pg.second_moment(query, columns={"x": (0, 2)}, unit=unit)
    assert found.n_rows == 2
    same(found, pg.second_moment(table, columns={"x": (0, 2)}, unit=unit))


def test_levels_of_categories_and_of_floats(duck):
    codes = np.array([1.0, 2.0, 2.5, np.nan, np.inf, 3.0, -1.0, 1e300] * 20)
    table = pd.DataFrame({"code": codes, "f": pd.Categorical(["a", "b", None, "c"] * 40)})
    duck.register("t", table)
    duck.execute(
        "create table floats as select 'nan'::double as code, 'a' as f union all select 1, 'b'"
    )
    for other in (False, True):
        levels = {"code": pg.Factor([1, 2, 3], other), "f": pg.Factor(["a", "b"], other)}
        columns = pg.Columns(levels, missing="drop")
        found = pg.second_moment(pg.Query(duck, "select * from t"), columns=columns)
        same(found, pg.second_moment(table, columns=columns))
        one = pg.second_moment(pg.Query(duck, "select * from floats"), columns=columns)
        assert (one.n_rows, one.n_dropped) == (1, 1)  # NaN is no other level


@pytest.mark.slow
def test_many_levels_and_wide_tables(duck, postgres):
    rng = np.random.default_rng(3)
    names = [f"level {i}" for i in range(300)]
    table = pd.DataFrame({"f": rng.choice(names, 5_000), "x": rng.uniform(0, 1, 5_000)})
    columns = pg.Columns({"f": names, "x": (0, 1)})
    wide = pd.DataFrame({f"x{i}": rng.uniform(0, 1, 50) for i in range(80)})
    for engine in (duck, postgres):
        load(engine, "people", table)
        found = pg.second_moment(pg.Query(engine, "select * from people"), columns=columns)
        same(found, pg.second_moment(table, columns=columns))
    load(duck, "wide", wide)
    bounds = pg.Columns(dict.fromkeys(wide, (0, 1)))
    found = pg.second_moment(pg.Query(duck, "select * from wide"), columns=bounds)
    same(found, pg.second_moment(wide, columns=bounds))


@pytest.mark.slow
def test_shell_needs_no_connection_from_python(postgres, tmp_path):
    """The query of a study's file, its answer by psql as CSV, and the bits of a pass."""
    pytest.importorskip("click")
    if (psql := shutil.which("psql")) is None:
        pytest.skip("no psql: apt-get install postgresql-client")
    from click.testing import CliRunner

    from privgram.cli._program import program

    load(postgres, "people", people())
    file, query = tmp_path / "study.toml", tmp_path / "moment.sql"
    file.write_text(
        'table = "people.csv"\nledger = "it.ledger"\nepsilon = 1.0\ndelta = 1e-6\n'
        'missing = "drop"\n[columns]\na = [-3, 3]\ntext = ["n", "s"]\n'
    )
    done = CliRunner().invoke(program, ["sql", str(file), "--dialect", "postgres"])
    query.write_text(done.output)
    command = [psql, "--csv", "--tuples-only", "--no-psqlrc", "--file", query]
    where = {"PGHOST": postgres.info.host, "PGUSER": "tester", "PGDATABASE": "postgres"}
    answer = subprocess.run(command, env=where, capture_output=True, text=True, check=True).stdout
    columns = pg.Columns({"a": (-3, 3), "text": ["n", "s"]}, True, "drop")
    moment = pg.SecondMoment.from_sql(csv.reader(answer.splitlines()), columns)
    same(moment, pg.second_moment(people(), columns=columns))


def test_columns_of_a_frame_are_no_engine(duck):
    """A frame has its columns as attributes, and one may be called as the attribute of a query."""
    table = pd.DataFrame({"one_round": [0.5, 0.25]})
    assert pg.second_moment(table, columns={"one_round": (0, 1)}).n_rows == 2


@pytest.mark.slow
@pytest.mark.long
def test_texts_made_to_inject_are_texts_in_spark(spark):
    level, other = "'; drop table witness; --\\", "\\'\n"
    frame = pd.DataFrame({"f": [level, other, "n", level], "a`b": [0.0, 1.0, 2.0, 3.0]})
    load(spark, "odd", frame)
    columns = pg.Columns({"f": [level, other, "n"], "a`b": (0, 3)}, terms=["f"])
    found = pg.second_moment(pg.Query(spark, "select * from odd"), columns=columns)
    same(found, pg.second_moment(frame, columns=columns))


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_missing_values_are_refused_or_counted(duck, missing):
    load(duck, "people", people())
    columns = columns_of("a-factor").replace(missing=missing)
    query = pg.Query(duck, "select * from people")
    if missing == "drop":
        assert pg.second_moment(query, columns=columns).n_dropped > 0
        return
    refuses(lambda: pg.second_moment(query, columns=columns), ValueError, "holds a missing value")
    unit = pg.Unit("who", max_rows=2)
    with pytest.raises(ValueError, match="holds a missing value"):
        pg.second_moment(query, columns=columns, unit=unit)


def test_rows_without_a_unit_are_refused_or_left_out(duck):
    table = people()
    table["who"] = table["who"].astype(object).where(np.arange(len(table)) % 9 > 0, None)
    load(duck, "people", table.assign(who=table["who"].astype("Int64")))
    columns = columns_of("numbers")
    query = pg.Query(duck, "select * from people")
    with pytest.raises(ValueError, match="some rows have no unit"):
        pg.second_moment(query, columns=columns, unit=pg.Unit("who", max_rows=2))
    unit = pg.Unit("who", max_rows=2, missing="drop")
    found = pg.second_moment(query, columns=columns, unit=unit)
    plain = table.assign(who=table["who"].astype("Int64"))
    same(found, pg.second_moment(plain, columns=columns, unit=unit))


def answer_of(duck, columns, unit=None):
    load(duck, "people", people())
    return duck.execute(columns.sql("people", "duckdb", unit=unit)).fetchall()


def test_answers_that_are_none_are_refused(duck):
    columns = columns_of("numbers")
    [row] = answer_of(duck, columns)
    take = pg.SecondMoment.from_sql
    same(take(row, columns), take([row], columns))
    same(take(list(map(str, row)), columns), take(row, columns))  # of a file
    same(take(tuple(map(Decimal, row)), columns), take(row, columns))
    same(take(dict(enumerate(row)), columns), take(row, columns))
    head, n_rows, n, *sums = row[:2], *row[2:]
    wider = [*row, 0]
    for bad, error in (
        (wider, f"{len(wider)} fields"),
        (row[:-1], "fields"),
        ([], "no rows"),
        ([row, row], "rows of other levels"),
        ((row[0] + 1, *row[1:]), "a query for other columns"),
        ((row[0], row[1] + 1, *row[2:]), "IEEE doubles"),
        ((*head, n_rows, n, None, *sums[1:]), "NULL"),
        ((*head, n_rows, n, float(sums[0]), *sums[1:]), "floating-point"),
        ((*head, n_rows, n, "12x", *sums[1:]), "whole numbers"),
        ((*head, n_rows, n, True, *sums[1:]), "whole numbers"),
        ((*head, n_rows, n, Decimal("0.5"), *sums[1:]), "whole numbers"),
        ((*head, n_rows, 0, *sums), "not sums"),
        ((*head, -1, -1, *sums), "not sums"),
        ((*head, n - 1, n, *sums), "not sums"),
        ((*head, 2**63, 2**63, *sums), "not sums"),
        ((*head, n_rows, n, *(2**130 for _ in sums)), "not sums"),
        ((*head, n_rows, n, *sums[:-1], -1), "not sums"),
        (
            (*head, n_rows, n, *sums[:3], 3 * n * 2**37, *sums[4:]),
            "not sums",
        ),  # of one column alone
        ((*head, n_rows, n, *sums[:4], 2 * math.isqrt(sums[3] * sums[5]), *sums[5:]), "not sums"),
        ((*head, n_rows, n, *sums[:4], n * 2**40, *sums[5:]), "not sums"),  # beyond the bounds
        (
            (*head, n_rows, n, 2 * math.isqrt(n * sums[3]), *sums[1:]),
            "not sums",
        ),  # a mean beyond the square's
        ("row", "a row of integers"),
        (5, "a row of integers"),
    ):
        with pytest.raises((ValueError, TypeError), match=error):
            take(bad, columns)
    refuses(lambda: take(row, {"a": (0, 1)}), TypeError, r"columns is the pg\.Columns")
    with pytest.raises(ValueError, match=r"other columns|fields"):
        take(row, columns.replace(bounds={"a": (-3, 4), "b": (0, 9), "f": (-0.3, 0.7)}))


def test_answers_by_levels_must_add_up(duck):
    columns = columns_of("factors")
    rows = answer_of(duck, columns)
    take = pg.SecondMoment.from_sql
    rng = np.random.default_rng(2)
    rng.shuffle(rows)
    whole = take(rows, columns)
    same(whole, pg.second_moment(people(), columns=columns))
    lacking = [row for row in rows if set(row[2:5]) != {None}]
    for bad, error in (
        (rows[1:], "add up|not sums|lacks"),
        (lacking, "lacks the sums"),
        ([*rows, rows[0]], "other levels"),
        ([(*row[:2], *(None if v is None else v + 50 for v in row[2:5]), *row[5:]) for row in rows],
         "other levels"),
        ([(*row[:-1], row[-1] + (row[2] == 0)) for row in rows], "not sums"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=error):
            take(bad, columns)


def test_answers_by_units_are_checked_too(duck):
    columns, unit = columns_of("numbers"), pg.Unit("who", max_rows=3)
    [row] = answer_of(duck, columns, unit)
    take = pg.SecondMoment.from_sql
    take(row, columns, unit=unit)
    for bad, error in (
        ((*row[:2], 0, *row[3:]), "not sums"),
        ((*row[:2], 2**64, *row[3:]), "not sums"),
        ((*row[:3], 2**63, *row[4:]), "not sums"),
        ((*row[:5], 2**40, *row[6:]), "more than"),
        ([row, row], "rows instead of one"),
    ):
        with pytest.raises(ValueError, match=error):
            take(bad, columns, unit=unit)
    for other in (
        None,
        pg.Unit("who", max_rows=4),
        pg.Unit("b2", max_rows=3),
        pg.Unit("who", bound=50.0),
    ):
        with pytest.raises(ValueError, match=r"other columns|fields"):
            take(row, columns, unit=other)


def test_query_is_text_for_a_known_engine(duck):
    refuses(lambda: pg.Query(duck, " "), TypeError, "text of a SELECT")
    refuses(lambda: pg.Query(duck, None), TypeError, "text of a SELECT")
    with pytest.raises(ValueError, match=r"say dialect=.*pandas.read_sql"):
        pg.Query(object(), "select 1 as x")
    refuses(lambda: pg.Query(duck, "select 1 as x", "oracle"), ValueError, "dialect is 'duckdb'")
    assert "connection" not in repr(pg.Query(duck, "select 1 as x"))
    assert set(DIALECTS) == {"duckdb", "postgres", "spark", "bigquery", "snowflake"}
    assert WRONG
