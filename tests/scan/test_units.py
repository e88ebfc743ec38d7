"""Second moments by unit: from any source, in any order and cutting, the same to the last bit."""

import math

import numpy as np
import pytest
from support.helpers import assert_bits, refuses

import privgram as pg
from privgram.columns.unit import PrivacyUnit
from privgram.scan import units
from privgram.sources.table import CachedSource, keys_of

COLUMNS = pg.Columns(
    {
        "a": (-3, 3),
        "b": (-2, 2),
        "group": ["x", "y", "z"],
        "day": pg.Dates("2000-01-01", "2001-01-01"),
    },
    intercept=True,
    terms=["poly(a, 2)", "b", "group", "a:group", "day"],
    missing="drop",
)


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "id": rng.zipf(1.5, n).clip(max=10**6).astype(np.int64),
        "a": rng.normal(size=n),
        "b": np.where(rng.random(n) < 0.02, np.nan, rng.normal(size=n)),
        "group": rng.choice(
            np.array(["x", "y", "z", "unknown"], object), n, p=[0.4, 0.3, 0.2, 0.1]
        ),
        "day": np.datetime64("2000-01-01") + rng.integers(0, 366, n),
    }


def state(moment):
    return moment.to_bytes()


def by_hand(data, columns, bound, clip="frobenius"):
    """The sum over units of their clipped matrices, in floats."""
    d = columns.encode({name: data[name] for name in columns.selected})
    d *= np.minimum(1.0, bound / np.linalg.norm(d, axis=1))[:, None]  # no row beyond its unit
    total = np.zeros((d.shape[1],) * 2)
    for unit in np.unique(data["id"]):
        m = d[data["id"] == unit].T @ d[data["id"] == unit]
        norm = np.trace(m) if clip == "trace" else np.linalg.norm(m)
        total += m * min(1.0, bound**2 / norm)
    return total


@pytest.mark.parametrize("room", [2**20, 2**10], ids=["fits", "no room"])
@pytest.mark.parametrize("form", [dict, "DataFrame"])
def test_rows_of_units_are_brought_together_once(form, room, monkeypatch):
    """Unless they do not fit, or who is protected, or what is read, is another."""
    gathered, take = [], units.Gatherer._take
    data = table() | {"who": (np.arange(3000) // 7).astype(str).astype(object)}
    if form == "DataFrame":
        data = pytest.importorskip("pandas").DataFrame(data)

    def noted(*given):
        gathered.append(None)
        take(*given)

    monkeypatch.setattr(units.Gatherer, "_take", noted)
    source = CachedSource(data, room)
    for columns in (
        COLUMNS,
        pg.Columns({"a": (-3, 3)}),
        pg.Columns({"a": (-3, 3)}, missing="drop"),
    ):
        for unit in (pg.Unit("id", max_rows=5), pg.Unit("who", max_rows=5)):
            for n, rows in enumerate((5, 5, 9)):  # in another way of clipping, too
                unit = pg.Unit(unit.name, max_rows=rows)
                expected = state(pg.second_moment(data, columns=columns, unit=unit))
                gathered.clear()
                made = pg.second_moment(source, columns=columns, unit=unit, threads=1 + n % 2)
                assert state(made) == expected
                assert bool(gathered) == (n == 0 or room < 2**20)


def test_columns_in_another_order_are_not_taken_for_those_that_are_kept():
    data = table() | {"b": np.arange(3000.0)}
    bounds, source, unit = {"a": (-3, 3), "b": (0, 3000)}, CachedSource(data), pg.Unit("id", 5)
    for names in (["a", "b"], ["b", "a"]):
        columns = pg.Columns({name: bounds[name] for name in names})
        made = pg.second_moment(source, columns=columns, unit=unit)
        assert state(made) == state(pg.second_moment(data, columns=columns, unit=unit))


@pytest.mark.parametrize("clip", ["frobenius", "trace"])
@pytest.mark.parametrize("bound", [1.0, 3.0, 1e3])
def test_it_is_the_sum_of_clipped_matrices(clip, bound):
    data = {name: table(500)[name] for name in ("id", "a", "day")}
    data["b"] = data.pop("day").astype(float) % 5 - 2
    columns = pg.Columns({"a": (-3, 3), "b": (-2, 2)}, intercept=True)
    moment = pg.second_moment(data, columns=columns, unit=pg.Unit("id", bound=bound, clip=clip))
    expected = by_hand(data, columns, bound, clip)
    assert np.allclose(moment.matrix(), expected, rtol=1e-5, atol=1e-5 * bound**2)
    assert moment.n_rows == len(np.unique(data["id"]))
    assert moment.n_dropped == 0
    assert math.isclose(moment.sensitivity_bound, bound, rel_tol=1e-5)


def test_with_a_bound_beyond_all_units_it_is_the_moment_of_rows():
    data = table()
    of_rows = pg.second_moment({k: v for k, v in data.items() if k != "id"}, columns=COLUMNS)
    of_units = pg.second_moment(data, columns=COLUMNS, unit=pg.Unit("id", max_rows=3000))
    assert np.allclose(of_units.matrix(), of_rows.matrix(), rtol=1e-4, atol=0.1)


def test_with_a_row_a_unit_it_is_the_moment_of_rows_bit_for_bit():
    data = table() | {"id": np.arange(3000)}
    of_rows = pg.second_moment({k: v for k, v in data.items() if k != "id"}, columns=COLUMNS)
    of_units = pg.second_moment(data, columns=COLUMNS, unit=pg.Unit("id", max_rows=1))
    assert_bits(of_units, of_rows)
    assert of_units.n_rows == of_rows.n_rows + of_rows.n_dropped  # public under replace


@pytest.mark.parametrize("intercept", [True, False])
def test_within_takes_off_the_means_of_a_unit(intercept):
    rng = np.random.default_rng(2)
    ids = rng.integers(0, 40, 400)
    x = rng.uniform(-1, 1, (400, 3)) / 3 + rng.uniform(-0.6, 0.6, 40)[ids, None]
    columns = pg.Columns(dict.fromkeys("abc", (-1, 1)), intercept=intercept)
    table = dict(zip("abc", x.T, strict=True)) | {"id": ids}
    unit = pg.Unit("id", max_rows=100, fixed_effects=True)
    moment = pg.second_moment(table, columns=columns, unit=unit)
    means = np.array([x[ids == i].mean(axis=0) for i in range(40)])
    centred = x - means[ids]
    matrix = moment.matrix()
    assert np.allclose(matrix[:3, :3], centred.T @ centred, atol=1e-3)
    if intercept:
        assert np.array_equal(matrix[3, :3], np.zeros(3))
        assert math.isclose(matrix[3, 3], 400, rel_tol=1e-4)


def test_rows_without_a_unit():
    data = table()
    ids = data["id"].astype(object)
    ids[[3, 70]] = None, math.nan
    gappy = data | {"id": ids}
    with pytest.raises(ValueError, match="row 3 has no unit"):
        pg.second_moment(gappy, columns=COLUMNS, unit=pg.Unit("id", max_rows=4))
    kept = np.setdiff1d(np.arange(3000), [3, 70])
    arguments = {"columns": COLUMNS, "unit": pg.Unit("id", max_rows=4, missing="drop")}
    expected = pg.second_moment({k: v[kept] for k, v in data.items()}, **arguments)
    found = pg.second_moment(gappy, **arguments)
    assert state(found) == state(expected)


def test_bad_rows_are_named_by_their_position():
    data = {"id": np.arange(9), "a": np.ones(9)}
    data["a"][7] = np.nan
    with pytest.raises(ValueError, match=r"row 7 holds a missing value"):
        pg.second_moment(data, columns=["a"], unit=pg.Unit("id", bound=1.0))
    data["a"][7] = np.inf
    with pytest.raises(ValueError, match=r"row 7 holds a missing value"):
        pg.second_moment(data, columns=["a"], unit=pg.Unit("id", bound=1.0))
    columns = pg.Columns({"a": (0, 1), "g": ["x"]})
    blocks = [
        {"id": [1, None], "a": [0.0, 0.0], "g": ["x", "x"]},
        {"id": [1], "a": [0], "g": ["y"]},
    ]
    blocks = [{k: np.array(v, object if k != "a" else float) for k, v in b.items()} for b in blocks]
    with pytest.raises(ValueError, match=r"row 2 holds .* not listed"):
        pg.second_moment(blocks, columns=columns, unit=pg.Unit("id", bound=1.0, missing="drop"))


@pytest.mark.parametrize(
    ("kind", "said"), [("a", "whole numbers or texts.*floats too.*Int64"), ("day", "or texts")]
)
def test_ids_of_other_types_are_refused(kind, said):
    data = table(50)
    unit, columns = pg.Unit("who", bound=3.0), COLUMNS
    refuses(
        lambda: pg.second_moment(data | {"who": data[kind]}, columns=columns, unit=unit),
        TypeError,
        said,
    )


def test_units_without_names_are_refused_and_those_of_two_kinds_told_apart():
    with pytest.raises(ValueError, match="no names"):
        pg.second_moment(np.ones((3, 2)), columns=["a"], unit=pg.Unit("id", bound=1.0))
    ids = ([1], ["1"], ["a"], [2], ["01"])
    blocks = [{"id": np.array(some), "a": np.ones(1)} for some in ids]
    moment = pg.second_moment(blocks, columns=["a"], unit=pg.Unit("id", bound=1.0))
    assert moment.n_rows == 4  # a text that is a whole number is that number
    odd = np.array([1, "1", 1.5, True, None, 2**70, str(2**70), [1], b"1", -1, 2**64 - 1], object)
    keys = keys_of(odd)
    assert np.flatnonzero(keys.missing).tolist() == [2, 3, 4, 7]
    found = {
        int(row): (kind, key)
        for kind, (rows, some) in enumerate(keys.by_kind())
        for row, key in zip(rows, some.values.tolist(), strict=True)
    }
    assert found[0] == found[1] == found[8] == (0, 1)
    assert found[5] == found[6]
    assert found[9] == found[10] == (0, -1)
    assert np.flatnonzero(keys.high).tolist() == [10]


def test_moment_by_unit_takes_no_more_rows():
    data = {"id": np.arange(4), "a": np.ones(4)}
    moment = pg.second_moment(data, columns=["a"], unit=pg.Unit("id", bound=1.0))
    refuses(lambda: moment.update(np.ones((1, 1))), ValueError, "cannot be told")
    refuses(lambda: moment.merge(moment.copy()), ValueError, "rows of the same units")
    assert moment.copy().privacy_unit == moment.privacy_unit
    again = pg.SecondMoment.from_bytes(moment.to_bytes())
    assert again.privacy_unit == moment.privacy_unit == PrivacyUnit("id")
    assert again.to_bytes() == moment.to_bytes()
    assert "unit='id'" in repr(again)


def test_empty_table_and_a_unit_of_missing_rows():
    none = {"id": np.empty(0, np.int64), "a": np.empty(0)}
    moment = pg.second_moment(none, columns=["a"], unit=pg.Unit("id", bound=1.0))
    assert moment.n_rows == 0
    assert not moment.matrix().any()


def test_file_is_gone_after_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(units, "MEMORY_BUDGET", 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def blocks():
        yield {"id": np.arange(100), "a": np.ones(100)}
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        pg.second_moment(blocks(), columns=["a"], unit=pg.Unit("id", bound=1.0))
    assert not list(tmp_path.iterdir())
