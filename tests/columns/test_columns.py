"""Public bounds: clamping, scaling, reading and writing."""

import copy
import json
import pickle
import time
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from support.helpers import refuses
from support.lines import lines

from privgram import Columns, Dates, Factor, RandomFeatures, Unit
from privgram.columns import PrivateBound

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture
def columns():
    return Columns({"distance": (0, 5000), "dep_delay": (-60, 300)}, intercept=True, missing="drop")


def test_attributes(columns):
    assert columns.names == ("distance", "dep_delay", "intercept")
    assert columns.selected == ("distance", "dep_delay")
    assert list(columns) == list(columns.names)
    assert len(columns) == 3
    assert columns.bound == 3**0.5
    assert columns.bounds == {"distance": (0.0, 5000.0), "dep_delay": (-60.0, 300.0)}
    np.testing.assert_array_equal(columns.center, [2500, 120, 0])
    np.testing.assert_array_equal(columns.half_width, [2500, 180, 1])
    np.testing.assert_array_equal(columns.lower, [0, -60, 1])
    np.testing.assert_array_equal(columns.upper, [5000, 300, 1])
    assert Columns({"a": (0, 1)}).bound == 1.0
    with pytest.raises(ValueError, match="read-only"):
        columns.center[0] = 1.0
    columns.bounds.clear()
    assert len(columns) == 3


def test_scaling(columns):
    values = [[0, -60], [5000, 300], [2500, 120], [-1, 1e300], [np.inf, -np.inf], [np.nan, 30]]
    expected = [[-1, -1], [1, 1], [0, 0], [-1, 1], [1, -1], [np.nan, -0.5]]
    scaled = columns.encode(dict(zip(columns.selected, np.array(values).T, strict=True)))
    np.testing.assert_array_equal(scaled[:, :2], expected)
    np.testing.assert_array_equal(scaled[:, 2], 1.0)


@pytest.mark.slow
@given(finite, finite, st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
def test_scaled_values_are_within_one(a, b, values):
    lower, upper = min(a, b), max(a, b)
    try:
        columns = Columns({"a": (lower, upper)})
    except ValueError:
        assert upper - lower <= 1e-6 * max(abs(a), abs(b)) or upper - lower < 1e-300
        return
    scaled = columns.encode({"a": np.array(values)})[:, 0]
    assert (np.abs(scaled) <= 1.0).all()
    order = np.argsort(values)
    assert (np.diff(scaled[order]) >= 0).all()
    back = np.clip(columns.center[0] + columns.half_width[0] * scaled, lower, upper)
    np.testing.assert_allclose(
        back, np.clip(values, lower, upper), rtol=1e-6, atol=1e-12 * (columns.half_width[0])
    )


@pytest.mark.parametrize(
    ("bounds", "error", "text"),
    [
        (None, ValueError, "never taken from the data"),
        ("auto", ValueError, "never taken from the data"),
        ({"a": None}, ValueError, "'a' has no bounds; bounds are never taken"),
        ({"a": "auto"}, ValueError, "'a' has no bounds; bounds are never taken"),
        ({"a": 3}, ValueError, "'a' are two numbers"),
        ({"a": (1,)}, ValueError, "'a' are two numbers"),
        ({"a": (1, 2, 3)}, ValueError, r"'a' are two numbers.*pg.Factor.*\{levels ="),
        # Codes 1, 2, 3, of which two are listed, or two bounds: who knows?
        ({"a": [1, 3]}, ValueError, r"bounds or levels.*\(1, 3\).*pg.Factor\(\[1, 3\]\)"),
        ({"a": np.array([0, 1])}, ValueError, "bounds or levels"),
        ({"a": range(2)}, ValueError, "bounds or levels"),
        ({"a": (0, "x")}, TypeError, "'a': the levels of a factor are all text"),
        ({"a": ["x", "x"]}, ValueError, "'a': the level 'x' is listed twice"),
        ({"a": {"x", "y"}}, TypeError, "'a': .* their order"),
        ({"a": {"levels": "auto"}}, ValueError, "'a': .* never taken from the data"),
        ({"a": {"levles": ["x"]}}, ValueError, "'a': a table describes"),
        ({"a": {"log": [0, 1]}}, ValueError, "'a': .* must be positive"),
        ({"a": {"dates": ["2020", "2019"]}}, ValueError, "'a': .* must be before"),
        ({"a": {"dates": ["2020", "soon"]}}, ValueError, "'a': .* ISO 8601"),
        ({"a": (None, 1)}, ValueError, "'a' are two numbers.*never taken from the data"),
        ({"a": (0, np.nan)}, ValueError, "'a' must be finite"),
        ({"a": (0, np.inf)}, ValueError, "'a' must be finite"),
        ({"a": (1, 1)}, ValueError, "'a' must be below"),
        ({"a": (2, 1)}, ValueError, "'a' must be below"),
        ({"a": (1e16, 1e16 + 2)}, ValueError, "'a' are too close"),
        ({"a": (0, 5e-324)}, ValueError, "'a' are too close"),
        ({}, ValueError, "no columns"),
        (["a"], TypeError, "mapping"),
        ({1: (0, 1)}, TypeError, "column names"),
        ({"": (0, 1)}, TypeError, "column names"),
    ],
)
def test_refused_bounds(bounds, error, text):
    refuses(lambda: Columns(bounds), error, text)


def test_refused_options():
    refuses(lambda: Columns({"a": (0, 1)}, missing="ignore"), ValueError, "'error' or 'drop'")
    refuses(lambda: Columns({"a": (0, 1)}, intercept="yes"), TypeError, "intercept")
    with pytest.raises(ValueError, match="'intercept' already"):
        Columns({"intercept": (0, 1)}, intercept=True)
    refuses(lambda: Columns("auto"), ValueError, "never taken from the data")


def test_equality(columns):
    same = Columns(columns.bounds, True, "drop")
    assert same == columns
    assert hash(same) == hash(columns)
    reversed_ = dict(reversed(columns.bounds.items()))
    for other in (
        Columns(columns.bounds, False, "drop"),
        Columns(columns.bounds, True),
        Columns(reversed_, True, "drop"),
        None,
    ):
        assert other != columns
    for made in (pickle.loads(pickle.dumps(columns)), copy.deepcopy(columns), eval(repr(columns))):
        assert made == columns


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@pytest.mark.slow
@settings(max_examples=40)  # it waits for the disk
@given(
    bounds=st.dictionaries(
        names.filter(lambda name: name != "intercept"),
        st.tuples(st.floats(-1e300, -1e-300), st.floats(0, 1e300)),
        min_size=1,
        max_size=5,
    ),
    intercept=st.booleans(),
    missing=st.sampled_from(["error", "drop"]),
)
def test_files(tmp_path_factory, bounds, intercept, missing):
    columns = Columns(bounds, intercept, missing)
    assert Columns.from_dict(columns.to_dict()) == columns
    for suffix in (".toml", ".json"):
        path = tmp_path_factory.mktemp("columns") / f"columns{suffix}"
        columns.save(path)
        assert Columns.load(path) == columns


def test_file_by_hand(tmp_path):
    path = tmp_path / "columns.toml"
    path.write_text('intercept = true\n[bounds]\n"a b" = [0, 1]\nc = [-1.5, 2]\n')
    assert Columns.load(str(path)) == Columns({"a b": (0, 1), "c": (-1.5, 2)}, True)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "bounds = 3", "table named 'bounds'"),
        ("a.toml", "", "table named 'bounds'"),
        ("a.toml", "[bounds", "a.toml"),
        ("a.json", "{", "a.json"),
        ("a.json", "[]", "table named 'bounds'"),
        ("a.json", '{"bounds": {"a": [0, 1], "a": [0, 2]}}', "appears twice"),
        ("a.toml", "[bounds]\na = [0, 1]\na = [0, 2]\n", "a.toml"),
        ("a.toml", '[bounds]\na = "auto"', "never taken from the data"),
        ("a.toml", "[bounds]\na = [0, nan]", "'a' must be finite"),
        ("a.toml", "intercpt = true\n[bounds]\na = [0, 1]", "unknown key 'intercpt'"),
        ("a.json", '{"bounds": {"a": [0, 1]}, "missing": "x"}', "'error' or 'drop'"),
        ("a.yaml", "", ".toml or .json"),
    ],
)
def test_refused_files(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    refuses(lambda: Columns.load(path), ValueError, message)


KNOWN = {
    "wage": (2, 500),
    "age": (0, 90),
    "sex": ["f", "m"],
    "zip": Factor(range(300)),
    "firm": Factor(range(200)),
    "hired": Dates("1980-01-01", "2026-01-01"),
}


@pytest.mark.parametrize(("formula", "text"), lines(__file__, "formulas.txt", "Columns"))
def test_refused_formulas(formula, text):
    refuses(lambda: Columns.from_formula(formula, KNOWN), ValueError, text)


@pytest.mark.parametrize(
    ("levels", "error", "text"),
    [
        ((0.5, 1.5), TypeError, "the levels of a factor are text or whole numbers"),
        ([1, 2, 1], ValueError, "the level 1 is listed twice"),
        ([True, False], TypeError, "describe it by bool"),
        (["a", 1], TypeError, "all text or all whole numbers"),
        ([], ValueError, "at least one level"),
        (None, ValueError, "levels are never taken from the data"),
        ("auto", ValueError, "levels are never taken from the data"),
        (range(40_000), ValueError, "at most 32,768 levels, not 40,000"),
    ],
)
def test_refused_levels(levels, error, text):
    refuses(lambda: Factor(levels), error, text)


def test_pair_in_a_file_is_bounds(tmp_path):
    """A file has a table for levels that are numbers, and lists alone."""
    path = tmp_path / "columns.toml"
    path.write_text("[bounds]\na = [1, 3]\nb = {levels = [1, 3]}\n")
    columns = Columns.load(path)
    assert columns == Columns({"a": (1, 3), "b": Factor([1, 3])})
    assert pickle.loads(pickle.dumps(columns)) == columns
    assert columns.replace(missing="drop").bounds == columns.bounds


@pytest.mark.slow
def test_many_factors_and_levels_take_no_time(tmp_path):
    """Thousands of factors took a minute, and a level that is listed twice seconds to name."""
    lines = [f'x{i} = ["a", "b"]' for i in range(3000)]
    path = tmp_path / "many.toml"
    path.write_text("[bounds]\n" + "\n".join(lines) + "\n")
    start = time.process_time()
    assert len(Columns.load(path).variables) == 3000
    with pytest.raises(ValueError, match="level 'level 19999' is listed twice"):
        Factor([*(f"level {i}" for i in range(20_000)), "level 19999"])
    assert time.process_time() - start < 30.0  # of a minute, on a slow machine


def test_numbers_of_other_types_become_pythons():
    """Which JSON has, and ledgers write."""
    bound = PrivateBound(np.float32(0.5), np.float32(0.75))
    assert (type(bound.epsilon), type(bound.quantile)) == (float, float)
    features = RandomFeatures(n=np.int64(64), seed=np.int32(3))
    assert json.dumps(features.to_dict()) == json.dumps(RandomFeatures(n=64, seed=3).to_dict())
    columns = Columns({"x": (0, 1)})
    for odd, plain in (({"max_rows": np.int64(5)},) * 2, ({"bound": np.float32(2.5)},) * 2):
        unit = Unit("p", **odd)
        assert columns.sql("t", "duckdb", unit=unit) == columns.sql(
            "t", "duckdb", unit=Unit("p", **{name: x.item() for name, x in plain.items()})
        )


def test_bounds_of_dates_may_have_a_time_zone():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zoned = Dates("2020-01-01T02:00+02:00", "2021-01-01T00:00Z")
    assert zoned.interval == Dates("2020-01-01", "2021-01-01").interval
    refuses(lambda: Dates("2020-13-01T00:00Z", "2021-01-01"), ValueError, "ISO 8601")


def test_dates_whose_microseconds_would_wrap_around_are_refused():
    assert Dates("2020-01-01", "290000-01-01", "years").interval[1] == pytest.approx(287_980)
    for ends in (("2020-01-01", "600000-01-01"), ("-600000-01-01", "2020-01-01")):
        refuses(lambda ends=ends: Dates(*ends), ValueError, "within 290,000 years of 1970")
