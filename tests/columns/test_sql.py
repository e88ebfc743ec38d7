"""The text of the query of a second moment: names and texts as they are, and what is refused.

What it computes is tested where engines run it, in tests/scan/test_warehouse.py. BigQuery and
Snowflake run nowhere here: theirs is compared with files, which are read by eye when they change.
"""

import re
from pathlib import Path

import pytest
from support.helpers import refuses

import privgram as pg
from privgram.columns.sql import DIALECTS, PROBE

GOLDEN = Path(__file__).parent / "sql"

PEOPLE = pg.Columns(
    {
        "age": (18, 90),
        "wage": (0.0, 1e4),
        "sex": ["f", "it's\\"],
        "class": pg.Factor([1, 2], other=True),
        "member": bool,
        "share": (0, 1),
    },
    intercept=True,
    terms=["poly(age, 2)", "wage", "age:sex", "class", "member"],
    weights={"wage": 0.3},
)


@pytest.mark.parametrize("unit", ["", "unit"])
@pytest.mark.parametrize("dialect", ["bigquery", "snowflake"])
def test_text_is_that_of_the_file(dialect, unit):
    """To write the files anew: PEOPLE.sql(...), and read what has changed."""
    whose = pg.Unit('person`"', max_rows=4) if unit else None
    columns = pg.Columns({"age": (18, 90)}, intercept=True) if unit else PEOPLE
    name = f"{dialect}{'-unit' * bool(unit)}.sql"
    text = columns.sql(("a b", "people"), dialect, unit=whose)
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_and_texts_end_where_they_end(dialect):
    """Whatever is in quotes is taken out, and nothing of them is left."""
    name, level = "x\"; drop table t; --`'\\", "'; drop table t; --\\`\"\n"
    columns = pg.Columns({name: (0, 1), "f": [level, "b"]})
    text = columns.sql((name, name), dialect, unit=None)
    quote = re.escape(DIALECTS[dialect].quote)
    escapes = DIALECTS[dialect].backslash
    inside = r"(?:\\.|[^'\\]|'')*" if escapes or dialect == "postgres" else "(?:[^']|'')*"
    names = r"(?:\\.|[^`\\])*" if dialect == "bigquery" else f"(?:[^{quote}]|{quote}{quote})*"
    rest = re.sub(f"{quote}{names}{quote}|E?'{inside}'", "", text, flags=re.DOTALL)
    assert "drop" not in rest
    assert not set("'`\\;") & set(rest)
    assert text.count("drop table") == 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_zero_bytes_are_refused(dialect):
    for bounds in ({"x\x00": (0, 1)}, {"f": ["a\x00", "b"]}):
        with pytest.raises(ValueError, match="zero byte"):
            pg.Columns(bounds).sql("t", dialect)


def test_unknown_table_or_dialect_is_refused():
    columns = pg.Columns({"x": (0, 1)})
    for table in ("", (), ("a", "")):
        with pytest.raises(ValueError, match="name of the table is empty"):
            columns.sql(table, "duckdb")
    for table in (None, 5, ("a", 5), {"a": 1}):
        with pytest.raises(TypeError, match="named by text"):
            columns.sql(table, "duckdb")
    for dialect in ("oracle", "", None, 3, "DuckDB"):
        with pytest.raises(ValueError, match="dialect is 'duckdb' or 'postgres"):
            columns.sql("t", dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialect_that_cannot_keep_the_bits_is_refused(dialect):
    with pytest.raises(ValueError, match=r"last bit of a logarithm.*select ln\(wage\)"):
        pg.Columns({"wage": pg.Log(1, 10)}).sql("t", dialect)
    dates = pg.Columns({"day": pg.Dates("2000-01-01", "2001-01-01")})
    if DIALECTS[dialect].days is None:
        refuses(lambda: dates.sql("t", dialect), ValueError, "number of days as a column")
    else:
        assert "epoch" in dates.sql("t", dialect)
    far = pg.Columns({"x": (0, 1e305)})
    if DIALECTS[dialect].overflow_fails:
        refuses(lambda: far.sql("t", dialect), ValueError, "use another unit")
    else:
        assert far.sql("t", dialect)


def test_answer_that_is_too_wide_is_refused():
    wide = pg.Columns({f"x{i}": (0, 1) for i in range(60)})
    assert wide.sql("t", "duckdb")
    with pytest.raises(ValueError, match=r"postgres has at most 1,664 columns.*1,894 sums"):
        wide.sql("t", "postgres")


def test_units_that_a_query_does_not_bound_are_refused():
    columns = pg.Columns({"x": (0, 1), "y": (0, 1)})
    for unit, error in (
        (pg.Unit("p"), "needs a bound"),
        ("p", "needs a bound"),
        (pg.Unit("p", bound=1.0), "below that of one row"),
        (pg.Unit("p", max_rows=2, fixed_effects=True), "fixed_effects=True"),
        (pg.Unit("p", bound=pg.PrivateBound(1.0)), "bound that is known"),
        (pg.Unit("x", max_rows=2), "is no column too"),
    ):
        with pytest.raises(ValueError, match=error):
            columns.sql("t", "duckdb", unit=unit)


def test_digests_tell_queries_apart_and_missing_values_do_not():
    columns = pg.Columns({"x": (0, 1)})
    query = columns.query()
    others = (
        pg.Columns({"x": (0, 2)}),
        pg.Columns({"y": (0, 1)}),
        pg.Columns({"x": (0, 1)}, intercept=True),
        pg.Columns({"x": (0, 1)}, weights={"x": 2.0}),
    )
    units = (pg.Unit("p", max_rows=2), pg.Unit("p", max_rows=3), pg.Unit("q", max_rows=2),
             pg.Unit("p", max_rows=2, clip="trace"))  # fmt: skip
    digests = [one.query().digest for one in (columns, *others)]
    digests += [columns.query(unit).digest for unit in units]
    assert len({*digests}) == len(digests)
    assert 0 <= query.digest < 2**48
    assert columns.replace(missing="drop").query().digest == query.digest


def test_scale_and_integers_are_those_of_the_kernels():
    """By the second route: what the compiled accumulators say of themselves."""
    from privgram.moment.units import accumulator_of, bounds_of

    for columns in (PEOPLE, pg.Columns({f"x{i}": (-1, i + 1) for i in range(37)})):
        moment = pg.SecondMoment(len(columns), columns.bound, columns=columns)
        assert (
            columns.query().factor == moment.resolution**-0.5
            or columns.query().factor ** -2 == moment.resolution
        )
        for unit in (pg.Unit("p", max_rows=7), pg.Unit("p", bound=1e3), pg.Unit("p", max_rows=1)):
            row_bound, bound = bounds_of(unit, columns.bound)
            total = accumulator_of(unit, len(columns), bound, row_bound, columns)
            scale = columns.query(unit).unit
            assert (scale.bits, scale.bound) == (total.bits, total.bound)


def test_probe_is_computed_as_in_python():
    product = (0.1 * 3.0 - 0.3) * 2.0**54
    digits = (product, -1.5, 2.5, 1.5, 0.5, 0.49999999999999994)
    assert sum(10**i * round(value) for i, value in enumerate(digits)) == PROBE
