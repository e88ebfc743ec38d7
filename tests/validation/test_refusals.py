"""What is refused, in which words, and that nothing is spent on it: a list that must not shrink.

Each is a call; its error and whole message are the line of its name in `refusals.txt`. Whatever can
be said is refused here before the ledger has an entry. What cannot be said needs no line: the price
of a bound without the bound (`PrivateBound` has both), what goes with a unit or with groups without
these (`Unit`, `Groups`).
"""

import warnings
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import privgram as pg
from privgram.columns import PrivateBound as AUTO
from privgram.papers.sheffet import GaussianSketch

RNG = np.random.default_rng(1)
ARRAY = RNG.uniform(-1, 1, (300, 3))
COLUMNS = pg.Columns({"x": (0, 1), "y": (0, 2)}, intercept=True)
TABLE = {
    "x": RNG.uniform(0, 1, 300),
    "y": RNG.uniform(0, 2, 300),
    "who": np.repeat(np.arange(60), 5),
    "state": np.tile(["a", "b", "c"], 100),
}
LEVELS = ["a", "b", "c"]
C = {"columns": COLUMNS}
GROUPS = pg.Groups("state", LEVELS)
UNIT = pg.Unit("who", max_rows=5)
MOMENT = pg.second_moment(ARRAY, 2.0)
MOMENTS = pg.second_moment(TABLE, columns=COLUMNS, by=GROUPS)


def made(named):
    """Values that are refused when they are made."""
    return {name: v() if isinstance(v, FunctionType) else v for name, v in named.items()}


def SEEDED():
    return np.random.default_rng(1)


def R(*given, **named):
    """A release at epsilon = 1 unless it says otherwise, to be paid by the ledger."""
    asked = {"epsilon": 1.0, "delta": 1e-6} | named
    return lambda ledger: pg.release(*given, **({"ledger": ledger} | made(asked)))


def F(*given, **named):
    return lambda ledger: pg.regress(TABLE, *given, 1.0, 1e-6, ledger=ledger, **named)


def M(*given, **named):
    return lambda _: pg.second_moment(*given, **made(named))


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # so few rows are not for choosing a bound by
    RELEASED = pg.release(TABLE, COLUMNS, epsilon=1.0, delta=1e-6, rng=SEEDED())

REFUSED = {
    # the guarantee
    "epsilon missing": R(ARRAY, bound=2.0, epsilon=None),
    "delta missing": R(ARRAY, bound=2.0, delta=None),
    "epsilon zero": R(ARRAY, bound=2.0, epsilon=0.0),
    "epsilon nan": R(ARRAY, bound=2.0, epsilon=float("nan")),
    "epsilon text": R(ARRAY, bound=2.0, epsilon="1"),
    "delta one": R(ARRAY, bound=2.0, delta=1.0),
    "delta negative": R(ARRAY, bound=2.0, delta=-1.0),
    "delta zero of gauss": R(ARRAY, mechanism=pg.AnalyzeGauss(), bound=2.0, delta=0.0),
    "adjacency unknown": R(ARRAY, bound=2.0, adjacency="add"),
    "epsilon beyond floats": R(ARRAY, mechanism=pg.AnalyzeGauss(), bound=2.0, epsilon=1e300),
    # the mechanism
    "a mechanism in the place of the columns": R(ARRAY, pg.AnalyzeGauss(), bound=2.0),
    "mechanism unknown": R(ARRAY, mechanism="gaus", bound=2.0),
    "mechanism a class": R(ARRAY, mechanism=pg.AnalyzeGauss, bound=2.0),
    "mechanism a number": R(ARRAY, mechanism=3, bound=2.0),
    "mechanism lacks a parameter": R(ARRAY, mechanism="inverse-gauss", bound=2.0),
    "noise unknown": R(ARRAY, mechanism=lambda: pg.AnalyzeGauss(noise="uniform"), bound=2.0),
    "repair unknown": R(ARRAY, mechanism=lambda: pg.MatrixLaplace(repair="clip"), bound=2.0),
    "adaptive of a moment": R(MOMENT, mechanism=pg.AdaptiveGaussian()),
    "adaptive of an iterator": R(iter([ARRAY]), mechanism=pg.AdaptiveGaussian(), bound=2.0),
    "adaptive names a term that is not there": R(
        TABLE, mechanism=pg.AdaptiveGaussian(target="z"), **C
    ),
    # the source
    "no table": R(3, bound=2.0),
    "a Spark of nothing": R("nowhere.parquet", bound=2.0),
    "a row that is nan": R(np.full((10, 2), np.nan), bound=2.0),
    "columns with a moment": R(MOMENT, **C),
    "bound with a moment": R(MOMENT, bound=2.0),
    "unit with a moment": R(MOMENT, unit=UNIT),
    "groups with a moment": R(MOMENT, by=GROUPS),
    "groups with moments": R(MOMENTS, by=GROUPS),
    "columns with moments": R(MOMENTS, **C),
    "unit with moments": R(MOMENTS, unit=UNIT),
    # columns and bounds
    "columns a text": R(TABLE, columns="x", bound=2.0),
    "columns none": R(TABLE, columns=[], bound=2.0),
    "columns twice": R(TABLE, columns=["x", "x"], bound=2.0),
    "columns of numbers": R(TABLE, columns=[1, 2], bound=2.0),
    "column unknown": R(TABLE, columns=["x", "z"], bound=2.0),
    "bound missing": R(ARRAY),
    "bound zero": R(ARRAY, bound=0.0),
    "bound nan": R(ARRAY, bound=float("nan")),
    "bound huge": R(ARRAY, bound=1e60),
    "bound text": R(ARRAY, bound="large"),
    "price of an automatic bound zero": R(ARRAY, bound=lambda: AUTO(0.0)),
    "quantile out of range": R(ARRAY, bound=lambda: AUTO(0.1, 1.0)),
    "automatic bound of an iterator": R(iter([ARRAY]), bound=lambda: AUTO(0.1)),
    # threads and files
    "threads zero": R(ARRAY, bound=2.0, threads=0),
    "threads a fraction": R(ARRAY, bound=2.0, threads=1.5),
    "cache negative": R(ARRAY, bound=2.0, cache_bytes=-1),
    "cache a text": R(ARRAY, bound=2.0, cache_bytes="1 GB"),
    "a seed": R(iter([]), bound=2.0, rng=3),  # before the table is read, which is none
    "ledger a path": R(ARRAY, bound=2.0, ledger="budget.ledger"),
    "ledger a path, with a moment": R(MOMENT, ledger="budget.ledger"),
    "out of another kind": R(ARRAY, bound=2.0, out="release.txt"),
    "out in no folder": R(ARRAY, bound=2.0, out="nowhere/release.json"),
    # units
    "unit without a bound": R(TABLE, unit="who", **C),
    "unit with both bounds": R(TABLE, unit=lambda: pg.Unit("who", bound=2.0, max_rows=2), **C),
    "unit bound zero": R(TABLE, unit=lambda: pg.Unit("who", bound=0.0), **C),
    "unit bound text": R(TABLE, unit=lambda: pg.Unit("who", bound="large"), **C),
    "rows of a unit zero": R(TABLE, unit=lambda: pg.Unit("who", 0), **C),
    "rows of a unit a fraction": R(TABLE, unit=lambda: pg.Unit("who", 1.5), **C),
    "clip unknown": R(TABLE, unit=lambda: pg.Unit("who", 5, clip="max"), **C),
    "within no truth value": R(TABLE, unit=lambda: pg.Unit("who", 5, fixed_effects=1), **C),
    "unit missing unknown": R(TABLE, unit=lambda: pg.Unit("who", 5, missing="other"), **C),
    "automatic row bound of units": R(TABLE, unit=UNIT, bound=lambda: AUTO(0.1), **C),
    "automatic unit bound by an iterator": R(
        iter([TABLE]), unit=lambda: pg.Unit("who", bound=AUTO(0.1)), **C
    ),
    "automatic unit bound without columns": R(
        TABLE, unit=lambda: pg.Unit("who", bound=AUTO(0.1)), columns=["x", "y"]
    ),
    "unit is a column": R({**TABLE, "x": TABLE["who"]}, unit=lambda: pg.Unit("x", 5), **C),
    "unit unknown": R(TABLE, unit=lambda: pg.Unit("nobody", 5), **C),
    "unit without columns": R(TABLE, unit=UNIT, bound=2.0),
    "unit of an array": R(ARRAY, unit=lambda: pg.Unit("id", 5), columns=["a", "b"], bound=2.0),
    "unit of the wishart": R(TABLE, mechanism=pg.AdditiveWishart(), unit=UNIT, **C),
    "unit of the laplace, frobenius": R(
        TABLE, mechanism=pg.MatrixLaplace(), unit=UNIT, **{**C, "delta": 0.0}
    ),
    "unit of the sketch": R(TABLE, mechanism=GaussianSketch(100), unit=UNIT, **C),
    "unit and rounds": R(TABLE, mechanism=pg.AdaptiveGaussian(), unit=UNIT, **C),
    "unit and groups": R(
        TABLE, mechanism=pg.MatrixLaplace(), unit=UNIT, by=GROUPS, **{**C, "delta": 0.0}
    ),
    "unit, groups and the wishart": R(
        TABLE, mechanism=pg.AdditiveWishart(), unit=UNIT, by=GROUPS, **C
    ),
    "unit and groups at delta zero": R(TABLE, unit=UNIT, by=GROUPS, **{**C, "delta": 0.0}),
    "automatic unit bound and groups": R(
        TABLE, unit=lambda: pg.Unit("who", bound=AUTO(0.1)), by=GROUPS, **C
    ),
    "unit is the group": R(TABLE, unit=lambda: pg.Unit("state", 2), by=GROUPS, **C),
    # groups
    "by without groups": R(TABLE, by="state", **C),
    "by a number": R(TABLE, by=lambda: pg.Groups(3, LEVELS), **C),
    "groups empty": R(TABLE, by=lambda: pg.Groups("state", []), **C),
    "groups twice": R(TABLE, by=lambda: pg.Groups("state", ["a", "a"]), **C),
    "groups of text and numbers": R(TABLE, by=lambda: pg.Groups("state", ["a", 1]), **C),
    "groups a text": R(TABLE, by=lambda: pg.Groups("state", "abc"), **C),
    "unknown unknown": R(TABLE, by=lambda: pg.Groups("state", LEVELS, "ignore"), **C),
    "a group called other": R(TABLE, by=lambda: pg.Groups("state", ["a", "other"], "other"), **C),
    "group is a column": R(TABLE, by=lambda: pg.Groups("x", [0, 1]), **C),
    "group not in the table": R(TABLE, by=lambda: pg.Groups("county", LEVELS), **C),
    "a row of no listed group": R(TABLE, by=lambda: pg.Groups("state", ["a", "b"], "error"), **C),
    "groups and rounds": R(TABLE, mechanism=pg.AdaptiveGaussian(), by=GROUPS, **C),
    "groups of the sketch": R(TABLE, mechanism=GaussianSketch(100), by=GROUPS, **C),
    # second_moment
    "moment: bound missing": M(ARRAY),
    "moment: no table": M(3, 2.0),
    "moment: columns a text": M(TABLE, 2.0, columns="x"),
    "moment: automatic bound": M(ARRAY, AUTO(0.1)),
    "moment: automatic unit bound": M(TABLE, unit=pg.Unit("who", bound=AUTO(0.1)), **C),
    "moment: unit with both bounds": M(
        TABLE, unit=lambda: pg.Unit("who", bound=2.0, max_rows=2), **C
    ),
    "moment: unit without a bound": M(TABLE, unit="who", **C),
    "moment: unit and groups": M(
        TABLE, unit=lambda: pg.Unit("who", max_rows=2, clip="trace"), by=GROUPS, **C
    ),
    "moment: by without groups": M(TABLE, by="state", **C),
    "moment: groups of a moment": M(MOMENT, by=GROUPS),
    "moment: within and factors": M(
        TABLE,
        unit=lambda: pg.Unit("who", 5, fixed_effects=True),
        columns=pg.Columns({"x": (0, 1), "state": LEVELS}),
    ),
    "moment: threads zero": M(ARRAY, 2.0, threads=0),
    "moment: progress a text": M(ARRAY, 2.0, progress="yes"),
    "moment: columns none": M(TABLE, 2.0, columns=[]),
    "moment: columns twice": M(TABLE, 2.0, columns=["x", "x"]),
    "moment: columns a number": M(TABLE, 2.0, columns=3),
    # the ledger
    "no room": R(ARRAY, bound=2.0, epsilon=50.0),
    "no room, of groups": R(TABLE, by=GROUPS, epsilon=50.0, **C),
    "no room, of units": R(TABLE, unit=UNIT, epsilon=50.0, **C),
    # a regression
    "a reference that is no mapping": F("y ~ x", {"x": (0, 1), "y": (0, 2)}, reference=3),
    "a formula without a target": F("y", {"x": (0, 1), "y": (0, 2)}),
    "two targets": F("y + x ~ 1", {"x": (0, 1), "y": (0, 2)}),
    **{
        f"a formula that breaks off, of {door}": call
        for door, call in {
            "a table": F("y ~ x +", {"x": (0, 1), "y": (0, 2)}),
            "columns": lambda _: pg.Columns.from_formula("y ~ x +", {"x": (0, 1), "y": (0, 2)}),
            "a release": lambda _: RELEASED.regress("y ~ x +"),
            "instruments": lambda _: RELEASED.iv("y ~ x +"),
            "a study": lambda _: pg.Study(TABLE, COLUMNS, epsilon=1.0, delta=1e-6).regress(
                "y ~ x +", epsilon=0.5
            ),
        }.items()
    },
    "columns in the place of the formula": F({"x": (0, 1), "y": (0, 2)}, "y ~ x"),
}

LINES = Path(__file__).with_name("refusals.txt").read_text().splitlines()
TEXTS = dict(line.split(" | ", 1) for line in LINES)


@pytest.mark.parametrize("name", REFUSED | TEXTS)
@pytest.mark.filterwarnings("ignore")
def test_refusal_comes_before_anything_is_spent(name, tmp_path, monkeypatch):
    call = REFUSED[name]
    monkeypatch.chdir(tmp_path)
    ledger = pg.Ledger("the.ledger", 10.0, 1e-3)
    before = (tmp_path / "the.ledger").read_bytes()
    with pytest.raises(Exception) as refused:
        call(ledger)
    error = refused.value
    assert f"{type(error).__name__} | {error}".replace(str(tmp_path), "{}") == TEXTS[name]
    assert not ledger.entries
    assert (tmp_path / "the.ledger").read_bytes() == before
