"""Every type of column through every door: the plain table's bits, or refused by name."""

import datetime
from decimal import Decimal

import numpy as np
import pytest
from support.helpers import assert_same, refuses

from privgram import Columns, SecondMoment, second_moment
from privgram._base.numbers import MAX_BOUND
from privgram._core.arrow import array_of
from privgram.columns import Dates
from privgram.sources.arrow import column_to_numpy

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

N = 60
BOUND = 3.0


def integers(kind):
    info = np.iinfo(kind)
    low, high = max(info.min, -(2**62)), info.max
    rng = np.random.default_rng(info.bits)
    values = rng.integers(low, high, N, kind, endpoint=True).tolist()
    return [high, high - 1, *values[2:]]


def decimals(digits, scale):
    rng = np.random.default_rng(digits)
    draws = ["".join(map(str, rng.integers(0, 10, digits))) for _ in range(N)]
    sign = rng.choice([-1, 1], N).tolist()
    whole = [s * int(text) for s, text in zip(sign, draws, strict=True)]
    # Exact, whatever the context's precision.
    exact = [Decimal((int(w < 0), tuple(map(int, str(abs(w)))), -scale)) for w in whole]
    return exact, whole, 10**scale


def with_nulls(values):
    return [None if i in (5, 41) else value for i, value in enumerate(values)]


def rounded(whole, divisor=1):
    """The nearest float64 to each quotient, by Python's own integers."""
    return np.array([np.nan if w is None else w / divisor for w in whole])


def _kinds():
    rng = np.random.default_rng(7)
    normal = rng.standard_normal(N).tolist()
    kinds = {}
    for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        values = integers(kind)
        kinds[kind] = (pa.array(values, kind), rounded(values))
        some = with_nulls(values)
        kinds[f"{kind}, nulls"] = (pa.array(some, kind), rounded(some))
    half = np.array(normal, np.float16)
    kinds["float16"] = (pa.array(half), half.astype(np.float64))
    single = np.array(normal, np.float32)
    kinds["float32"] = (pa.array(single), single.astype(np.float64))
    some = with_nulls(normal)
    kinds["float64, nulls"] = (pa.array(some), np.array(some, np.float64))
    flags = [x > 0 for x in normal]
    kinds["bool"] = (pa.array(flags), np.array(flags, np.float64))
    kinds["bool, nulls"] = (pa.array(with_nulls(flags)), np.array(with_nulls(flags), np.float64))
    for digits, scale in ((9, 2), (15, 2), (18, 12), (38, 2), (38, 0), (38, 38)):
        exact, whole, divisor = decimals(digits, scale)
        label = f"decimal128({digits}, {scale})"
        kinds[label] = (pa.array(exact, pa.decimal128(digits, scale)), rounded(whole, divisor))
    exact, whole, divisor = decimals(15, 2)
    kinds["decimal, nulls"] = (
        pa.array(with_nulls(exact), pa.decimal128(15, 2)),
        rounded(with_nulls(whole), divisor),
    )
    edges = [s * (2**k + step) for k in (53, 63, 64) for step in (-1, 0, 1) for s in (1, -1)]
    whole = [*edges, *range(N - len(edges))]
    edge = [Decimal((int(w < 0), tuple(map(int, str(abs(w)))), -3)) for w in whole]
    kinds["decimal, edges"] = (pa.array(edge, pa.decimal128(38, 3)), rounded(whole, 1000))
    exact, whole, divisor = decimals(70, 9)
    kinds["decimal256"] = (pa.array(exact, pa.decimal256(76, 9)), rounded(whole, divisor))
    few = [None if i % 7 == 3 else (i % 4) * 0.1 for i in range(N)]
    kinds["dictionary"] = (pa.array(few).dictionary_encode(), np.array(few, np.float64))
    whole = with_nulls([2**60 + i % 3 for i in range(N)])
    kinds["dictionary of int64"] = (pa.array(whole).dictionary_encode(), rounded(whole))
    codes = pa.array([i % 2 for i in range(N)], pa.int8())
    kinds["dictionary with a null"] = (
        pa.DictionaryArray.from_arrays(codes, pa.array([None, 0.5])),
        np.array([np.nan, 0.5] * (N // 2)),
    )
    kinds["null"] = (pa.nulls(N), np.full(N, np.nan))
    return kinds


KINDS = _kinds()


def parquet(table, folder):
    pq.write_table(table, folder / "t.parquet", row_group_size=25)
    return folder / "t.parquet"


def relation(table, _):
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.register("t", table)
    return connection.sql("select * from t")


def arrow_frame(table, _):
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def nullable_frame(table, _):
    frame = arrow_frame(table, _)
    return frame.assign(x=frame["x"].convert_dtypes(dtype_backend="numpy_nullable"))


DOORS = {
    "arrow": lambda table, _: table,
    "reader": lambda table, _: table.to_reader(max_chunksize=17),
    "parquet": parquet,
    "dataset": lambda table, folder: ds.dataset(parquet(table, folder)),
    "scanner": lambda table, _: ds.dataset(table).scanner(batch_size=13),
    "polars": lambda table, _: pl.from_arrow(table),
    "lazy_polars": lambda table, _: pl.from_arrow(table).lazy(),
    "duckdb": relation,
    "pandas": arrow_frame,
    "nullable_pandas": nullable_frame,
}

#: What a door's own producer cannot carry, or alters on the way.
NO_WAY = {
    ("polars", "decimal256"),
    ("lazy_polars", "decimal256"),
    ("duckdb", "decimal256"),
    ("duckdb", "float16"),
    ("parquet", "dictionary with a null"),  # nor of its writer
    ("dataset", "dictionary with a null"),
    ("nullable_pandas", "float16"),  # not converted
    ("nullable_pandas", "null"),
    *(("nullable_pandas", kind) for kind in KINDS if "decimal" in kind or "dictionary" in kind),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rounded_once(kind):
    """The second moment quantises, so that it would hide a last bit."""
    array, plain = KINDS[kind]
    whole = array_of(array)
    for start, stop in ((0, N), (3, 50), (41, 42), (9, 9)):
        found = column_to_numpy(whole.part(start, stop)).astype(np.float64)
        np.testing.assert_array_equal(found, plain[start:stop])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("door", DOORS)
def test_same_bits_as_float64(door, kind, tmp_path):
    if (door, kind) in NO_WAY:
        pytest.skip("its producer has no such type")
    array, plain = KINDS[kind]
    other = np.linspace(-1, 1, N)
    table = pa.table({"other": other, "x": array})
    rows = np.column_stack([other, plain])
    span = max(1.0, np.nanmax(np.abs(plain), initial=0.0))
    columns = Columns({"other": (-2, 2), "x": (-span, 1.25 * span)}, missing="drop")
    expected = SecondMoment(2, columns.bound, columns=columns).update(rows)
    assert_same(second_moment(DOORS[door](table, tmp_path), columns=columns), expected)

    missing = np.flatnonzero(np.isnan(plain))
    if len(missing):
        strict = Columns(columns.bounds, missing="error")
        for given in ({"columns": strict}, {"bound": BOUND}):
            with pytest.raises(ValueError, match=rf"^row {missing[0]} .*missing"):
                second_moment(DOORS[door](table, tmp_path), **given)
    else:
        bound = min(np.linalg.norm(rows, axis=1).max() / 2, MAX_BOUND)
        expected = SecondMoment(2, bound).update(rows)
        assert_same(second_moment(DOORS[door](table, tmp_path), bound), expected)


def _refused():
    day = pa.array([1] * N, pa.int32())
    long = pa.array([1] * N, pa.int64())
    return {
        "timestamp": (long.cast(pa.timestamp("us")), "the unit you mean"),
        "date": (day.cast(pa.date32()), "the unit you mean"),
        "time": (long.cast(pa.time64("us")), "the unit you mean"),
        "duration": (long.cast(pa.duration("us")), "the unit you mean"),
        "string": (pa.array(["CANARY"] * N), "a list of its levels"),
        "dictionary": (pa.array(["CANARY"] * N).dictionary_encode(), "a list of its levels"),
        "binary": (pa.array([b"CANARY"] * N), "a list of its levels"),
        "list": (pa.array([[1.0]] * N), "each of its numbers"),
        "array": (pa.array([[1.0, 2.0]] * N, pa.list_(pa.float64(), 2)), "each of its numbers"),
        "struct": (pa.array([{"a": 1.0}] * N), "each of its numbers"),
    }


REFUSED = _refused()


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("door", [door for door in DOORS if door != "nullable_pandas"])
def test_refused_by_name(door, kind, tmp_path):
    array, advice = REFUSED[kind]
    table = pa.table({"ok": np.linspace(-1, 1, N), "x": array})
    for names in (None, ["ok", "x"]):
        with pytest.raises(
            TypeError, match=rf"column 'x' holds values of type .*{advice}"
        ) as caught:
            second_moment(DOORS[door](table, tmp_path), 1.0, columns=names)
        assert "CANARY" not in str(caught.value)
    expected = second_moment({"ok": np.linspace(-1, 1, N)}, 1.0)
    assert_same(second_moment(DOORS[door](table, tmp_path), 1.0, columns=["ok"]), expected)


def test_runs_are_refused_by_name():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([7, N], pa.int32()), pa.array([1.5, 2.0]))
    message = "'x' holds values of type run_end_encoded.*cast it to a plain type"
    refuses(lambda: second_moment(pa.table({"x": runs}), 1.0), TypeError, message)


def test_extension_types_are_not_guessed_at():
    uuid = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([b"CANARYCANARYCANA"] * 2, pa.binary(16))
    )
    flag = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1], pa.int8()))
    unknown = pa.field("x", pa.int64(), metadata={"ARROW:extension:name": "some.money"})
    money = pa.table([[1.0, 2.0], [3, 4]], pa.schema([pa.field("ok", pa.float64()), unknown]))
    for table in (
        pa.table({"ok": [1.0, 2.0], "x": uuid}),
        pa.table({"ok": [1.0, 2.0], "x": flag}),
        money,
    ):
        with pytest.raises(
            TypeError, match=r"column 'x' holds .*; only .* a plain type of numbers"
        ):
            second_moment(table, 1.0)
        assert second_moment(table, 1.0, columns=["ok"]).n_rows == 2


def test_integers_of_128_bits():
    frame = pl.DataFrame({"ok": [1.0, 2.0], "x": pl.Series([1, 2], dtype=pl.Int128)})
    for source in (frame, frame.lazy()):
        with pytest.raises(TypeError, match="column 'x' holds values of type Int128"):
            second_moment(source, 1.0)
        assert second_moment(source, 1.0, columns=["ok"]).n_rows == 2
    relation = duckdb.connect(":memory:").sql("select 1::hugeint as x")
    assert second_moment(relation, 1.0).n_rows == 1


@pytest.mark.parametrize(("bits", "digits"), [(32, 9), (64, 18)])
def test_narrow_decimals(bits, digits):
    kind = getattr(pa, f"decimal{bits}", None)
    if kind is None:
        pytest.skip("this pyarrow has no such type")
    exact, whole, divisor = decimals(digits, 4)
    array = pa.array(with_nulls(exact), kind(digits, 4))
    np.testing.assert_array_equal(
        column_to_numpy(array_of(array)), rounded(with_nulls(whole), divisor)
    )


def test_pandas_categories_of_numbers():
    frame = pd.DataFrame(
        {"x": pd.Categorical([1.5, None, 0.1, 1.5]), "s": pd.Categorical([*"abab"])}
    )
    columns = Columns({"x": (-2, 2)}, missing="drop")
    assert_same(
        second_moment(frame, columns=columns),
        second_moment(np.array([[1.5], [np.nan], [0.1], [1.5]]), columns=columns),
    )
    refuses(lambda: second_moment(frame, columns=Columns({"s": (0, 1)})), TypeError, "column 's'")


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        (np.array(["CANARY", "b"], object), "by a list of its levels"),
        (pd.array(["CANARY", "b"], dtype="string"), "by a list of its levels"),
        (pd.Categorical(["CANARY", "b"]), "by a list of its levels"),
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), "in the unit you mean"),
        (pd.to_datetime(["2020-01-01", "2021-01-01"], utc=True), "in the unit you mean"),
        (pd.to_timedelta([1, 2], unit="D"), "in the unit you mean"),
    ],
)
def test_pandas_own_types_are_refused_with_the_same_advice(values, advice):
    frame = pd.DataFrame({"ok": [0.0, 1.0], "x": values})
    with pytest.raises(TypeError, match=f"column 'x' .*only real numbers.*{advice}") as error:
        second_moment(frame, 1.0)
    assert "CANARY" not in str(error.value)


@pytest.mark.parametrize("as_frame", [False, True])
def test_objects_that_are_numbers_as_databases_give_them(as_frame):
    """Decimals, dates and None: the same bits as floats; what is no number is not told."""
    x = [Decimal("1.25"), 2, None, Decimal("0.5")]
    days = [datetime.date(2000, 1, 1 + i) for i in range(4)]
    columns = Columns({"x": (0, 3), "day": Dates("2000-01-01", "2000-02-01")}, missing="drop")
    objects = {"x": np.array(x, object), "day": np.array(days, object)}
    plain = {"x": np.array([1.25, 2, np.nan, 0.5]), "day": np.array(days, "M8[D]")}
    bad = objects | {"x": np.array([*x[:3], "7.5"], object)}
    if as_frame:
        objects, bad = pd.DataFrame(objects), pd.DataFrame(bad)
    found, expected = (second_moment(t, columns=columns).to_bytes() for t in (objects, plain))
    assert found == expected
    assert np.array_equal(columns.encode(objects), columns.encode(plain), equal_nan=True)
    assert second_moment(bad, columns=columns).n_dropped == 2
    with pytest.raises(TypeError, match="only real numbers can be used") as error:
        second_moment(bad, 1.0, columns=["x"])
    assert "7.5" not in str(error.value)


def test_query_is_no_file():
    refuses(lambda: second_moment("SELECT * FROM people", 1.0), ValueError, r"sql\('SELECT")
    connection = duckdb.connect()
    connection.execute("create table people as select range / 10 as x from range(10)")
    found = second_moment(connection.sql("SELECT x FROM people"), 1.0)
    assert found.n_rows == 10
