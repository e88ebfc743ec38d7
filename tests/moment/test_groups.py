"""Second moments by group: those of each group's rows alone, bit for bit, whatever the source."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from support.helpers import assert_bits, refuses

import privgram as pg
from privgram._base.saved import DamagedFile
from privgram.moment.grouped import SecondMoments

N = 700
LEVELS = ["a", "b", "c", "d"]


@pytest.fixture
def table(rng):
    """Numbers, a factor and groups, of which the last has no rows."""
    return {
        "x": rng.normal(size=N),
        "y": rng.normal(size=N),
        "w": rng.uniform(0, 2, N),
        "sex": rng.choice(np.array(["f", "m"], dtype=object), N),
        "site": rng.choice(np.array(LEVELS[:3], dtype=object), N),
    }


COLUMNS = {
    "numbers": pg.Columns({"x": (-3, 3), "y": (-2, 2)}, intercept=True),
    "factor": pg.Columns({"x": (-3, 3), "sex": ["f", "m"], "y": (-2, 2)}, intercept=True),
    "derived": pg.Columns(
        {"x": (-3, 3), "sex": ["f", "m"], "y": (-2, 2)}, terms=["poly(x, 2)", "y", "sex:y"]
    ),
    "weighted": pg.Columns(
        {"x": (-3, 3), "sex": ["f", "m"], "y": (-2, 2), "w": (0, 2)},
        terms=["x", "sex"],
        row_weights="w",
    ),
    "names": ["y", "x"],
}


def part(table, kept):
    return {name: column[kept] for name, column in table.items()}


def bound_of(columns):
    return 1.5 if isinstance(columns, list) else None


@pytest.mark.parametrize("name", COLUMNS)
def test_parts_and_whole(table, name):
    columns = COLUMNS[name]
    bound = bound_of(columns)
    moments = pg.second_moment(table, bound, columns=columns, by=pg.Groups("site", LEVELS))
    assert list(moments) == LEVELS
    assert len(moments) == 4
    for level, moment in moments.items():
        alone = pg.second_moment(part(table, table["site"] == level), bound, columns=columns)
        assert_bits(moment, alone)
        assert_bits(moment, moments[level])
        assert (moment.n_rows, moment.names) == (alone.n_rows, alone.names)
    whole = pg.second_moment(table, bound, columns=columns)
    assert_bits(moments.total(), whole)
    first, *others = moments.values()
    assert_bits(sum(others, first), whole)


@pytest.mark.parametrize("kind", ["i1", "i8", "u4", "f8", "f4"])
def test_groups_by_number(rng, kind):
    """Of an array the last column; of any type, and far apart or near."""
    x = rng.integers(0, 4, (N, 2))
    for levels in ([7, 3, 100], [-5, 3, 90], [2, 10**6, 10**9] if kind != "i1" else [0, 1, 2]):
        site = rng.choice(levels, N)
        columns = pg.Columns({"x": (-2, 2), "y": (-2, 2)}, intercept=True)
        if kind == "u4" and min(levels) < 0:
            continue
        whole = np.column_stack([x, site]).astype("f8" if kind == "f4" else kind)
        for source in (
            whole,
            np.asfortranarray(whole),
            {"x": x[:, 0], "y": x[:, 1], "s": whole[:, 2]},
        ):
            made = pg.second_moment(source, columns=columns, by=pg.Groups("s", levels))
            for level in levels:
                alone = pg.second_moment(x[site == level], columns=columns)
                assert_bits(made[level], alone)


def test_raw_columns_of_an_array(rng):
    x = rng.normal(size=(N, 3))
    x[:, 2] = rng.integers(0, 3, N)
    made = pg.second_moment(x, 2.0, by=pg.Groups("site", [0, 1, 2]))
    assert made.names is None
    assert_bits(made[1], pg.second_moment(x[x[:, 2] == 1, :2], 2.0))
    names = {"u": x[:, 0], "s": x[:, 2], "v": x[:, 1]}
    made = pg.second_moment(names, 2.0, by=pg.Groups("s", [0, 1, 2]))
    assert made.names == ("u", "v")
    assert_bits(made[1], pg.second_moment(x[x[:, 2] == 1, :2], 2.0))
    made = pg.second_moment(x.astype(">f4"), 2.0, by=pg.Groups("s", [0, 1, 2]))
    alone = pg.second_moment(x[x[:, 2] == 1, :2].astype(">f4"), 2.0)
    assert_bits(made[1], alone)


def test_other_rows(table):
    columns = COLUMNS["factor"]
    table["site"][[3, 50]] = None
    ask = {"columns": columns, "by": pg.Groups("site", ["a", "b"])}
    with pytest.raises(ValueError, match=r"^row \d+ is of a group that is not listed"):
        pg.second_moment(table, **ask | {"by": replace(ask["by"], unknown="error")})
    listed = np.isin(table["site"], ["a", "b"])
    dropped = pg.second_moment(table, **ask | {"by": replace(ask["by"], unknown="drop")})
    assert list(dropped) == ["a", "b"]
    assert dropped.n_dropped == (~listed).sum()
    kept = pg.second_moment(part(table, listed), columns=columns)
    assert_bits(dropped.total(), kept)
    others = pg.second_moment(table, **ask | {"by": replace(ask["by"], unknown="other")})
    assert list(others) == ["a", "b", "other"]
    rest = pg.second_moment(part(table, ~listed), columns=columns)
    assert_bits(others["other"], rest)
    assert others.n_rows == N


def test_missing_values(table):
    table["x"][[5, 9]] = np.nan
    table["site"][9] = "z"
    ask = {"by": pg.Groups("site", LEVELS)}
    with pytest.raises(ValueError, match=r"row 5 .*NaN") as caught:
        pg.second_moment(table, columns=COLUMNS["numbers"], **ask)
    assert "group" not in str(caught.value)
    columns = pg.Columns({"x": (-3, 3), "y": (-2, 2)}, missing="drop")
    with pytest.raises(ValueError, match="row 9 is of a group"):
        pg.second_moment(table, columns=columns, by=pg.Groups("site", LEVELS, "error"))
    made = pg.second_moment(table, columns=columns, **ask)
    assert (made.n_rows, made.n_dropped) == (N - 2, 2)
    assert sum(moment.n_dropped for moment in made.values()) == 1


def test_merge_and_save(table):
    columns = COLUMNS["factor"]
    ask = {"columns": columns, "by": pg.Groups("site", LEVELS)}
    whole = pg.second_moment(table, **ask)
    first = pg.second_moment(part(table, slice(0, 200)), **ask)
    second = pg.second_moment(part(table, slice(200, None)), **ask)
    for made in (first + second, pickle.loads(pickle.dumps(whole)), copy.deepcopy(whole)):
        assert made.to_bytes() == whole.to_bytes()
    assert first.n_rows == 200
    assert (whole + whole.copy()).n_rows == 2 * N
    for twice in (whole.merge, whole.__add__):
        with pytest.raises(ValueError, match="every row would count twice"):
            twice(whole)
    with pytest.raises(ValueError, match="differ in groups"):
        first.merge(pg.second_moment(table, columns=columns, by=pg.Groups("site", ["a", "b", "c"])))
    refuses(lambda: first.merge(first["a"]), TypeError, "SecondMoments")
    data = first.to_bytes()
    with pytest.raises(DamagedFile):
        SecondMoments.from_bytes(data[:-1] + b"x")
    assert str(first["a"].n_rows) not in repr(first)


@pytest.mark.slow
def test_wrong_types(table):
    columns = COLUMNS["numbers"]
    texts = table | {"site": table["site"].astype(str)}  # of a type: objects are read one by one
    with pytest.raises(TypeError, match="not whole numbers, as its levels are"):
        pg.second_moment(texts, columns=columns, by=pg.Groups("site", [1, 2]))
    wide = pg.Columns({f"x{i}": (0, 1) for i in range(2000)})
    with pytest.raises(ValueError, match="GiB"):
        pg.second_moment(
            np.ones((1, 2001)), columns=wide, by=pg.Groups("site", list(range(10_000)))
        )
