"""What is refused, in which words, and that nothing is spent on it: a list that must not shrink.

Each line is a call, its error and its whole message. Whatever can be said is refused here before
the ledger has an entry. What cannot be said needs no line: the price of a bound without the bound
(`PrivateBound` has both), what goes with a unit or with groups without these (`Unit`, `Groups`).
"""

import warnings
from types import FunctionType

import numpy as np
import pytest

import privgram as pg
from privgram import BudgetExceeded
from privgram.columns import PrivateBound as AUTO
from privgram.disclosure.norm_bound import private_norm_bound
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


def B(*given, **named):
    return lambda ledger: private_norm_bound(*given, **({"ledger": ledger} | named))


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # so few rows are not for choosing a bound by
    OF_ROWS = private_norm_bound(TABLE, 1.0, rng=SEEDED(), columns=COLUMNS)
    OF_ARRAY = private_norm_bound(ARRAY, 1.0, rng=SEEDED())
    OF_UNITS = private_norm_bound(TABLE, 1.0, rng=SEEDED(), columns=COLUMNS, unit="who")
    RELEASED = pg.release(TABLE, COLUMNS, epsilon=1.0, delta=1e-6, rng=SEEDED())

REFUSED = {
    # the guarantee
    "epsilon missing": (
        R(ARRAY, bound=2.0, epsilon=None),
        TypeError,
        "epsilon must be a number, not missing: release(table, epsilon=1.0, delta=1e-6)",
    ),
    "delta missing": (
        R(ARRAY, bound=2.0, delta=None),
        TypeError,
        "delta must be a number, not missing: release(table, epsilon=1.0, delta=1e-6)",
    ),
    "epsilon zero": (
        R(ARRAY, bound=2.0, epsilon=0.0),
        ValueError,
        "epsilon must be positive and finite, not 0.0",
    ),
    "epsilon nan": (
        R(ARRAY, bound=2.0, epsilon=float("nan")),
        ValueError,
        "epsilon must be positive and finite, not nan",
    ),
    "epsilon text": (
        R(ARRAY, bound=2.0, epsilon="1"),
        TypeError,
        "epsilon must be a number, not str",
    ),
    "delta one": (R(ARRAY, bound=2.0, delta=1.0), ValueError, "delta must lie in (0, 1), not 1.0"),
    "delta negative": (
        R(ARRAY, bound=2.0, delta=-1.0),
        ValueError,
        "delta must lie in (0, 1), not -1.0",
    ),
    "delta zero of gauss": (
        R(ARRAY, mechanism=pg.AnalyzeGauss(), bound=2.0, delta=0.0),
        ValueError,
        "delta must be above 0 for AnalyzeGauss; MatrixLaplace() is private at 0",
    ),
    "adjacency unknown": (
        R(ARRAY, bound=2.0, adjacency="add"),
        ValueError,
        'adjacency must be "replace" or "add-remove", not \'add\'',
    ),
    "epsilon beyond floats": (
        R(ARRAY, mechanism=pg.AnalyzeGauss(), bound=2.0, epsilon=1e300),
        BudgetExceeded,
        "over the budget of the.ledger: with epsilon=1e+300, delta=1e-06 the total would be "
        "delta=1 at epsilon=10, and the ledger allows delta=0.001; nothing was released",
    ),
    # the mechanism
    "a mechanism in the place of the columns": (
        R(ARRAY, pg.AnalyzeGauss(), bound=2.0),
        TypeError,
        "the second argument is the columns, and the mechanism goes by its name: "
        "release(table, columns, epsilon, delta, mechanism=AnalyzeGauss())",
    ),
    "mechanism unknown": (
        R(ARRAY, mechanism="gaus", bound=2.0),
        ValueError,
        "there is no mechanism 'gaus'; there are analyze-gauss, additive-wishart, "
        "matrix-laplace, adaptive-gaussian",
    ),
    "mechanism a class": (
        R(ARRAY, mechanism=pg.AnalyzeGauss, bound=2.0),
        TypeError,
        "mechanism must be a Mechanism, and AnalyzeGauss is a class: add (), as in AnalyzeGauss()",
    ),
    "mechanism a number": (
        R(ARRAY, mechanism=3, bound=2.0),
        TypeError,
        "mechanism must be a Mechanism such as AnalyzeGauss(), not int",
    ),
    "mechanism lacks a parameter": (
        R(ARRAY, mechanism="inverse-gauss", bound=2.0),
        ValueError,
        "inverse-gauss needs a parameter: InverseGauss(eigenvalue_floor=...)",
    ),
    "adaptive of a moment": (
        R(MOMENT, mechanism=pg.AdaptiveGaussian()),
        TypeError,
        "AdaptiveGaussian() reads the table again, and a SecondMoment has no rows to read: pass "
        "the table itself to pg.release, or take AnalyzeGauss()",
    ),
    "adaptive of an iterator": (
        R(iter([ARRAY]), mechanism=pg.AdaptiveGaussian(), bound=2.0),
        ValueError,
        "AdaptiveGaussian() reads the table several times, and an iterator or a stream is read "
        "once: pass a path, a data frame or a list of blocks, or take AnalyzeGauss()",
    ),
    "adaptive names a term that is not there": (
        R(TABLE, mechanism=pg.AdaptiveGaussian(target="z"), **C),
        ValueError,
        "the target 'z' is no column of the release, which are x, y, intercept; nothing was spent",
    ),
    # the source
    "no table": (R(3, bound=2.0), ValueError, "a block has two dimensions and this array has 0"),
    "a Spark of nothing": (
        R("nowhere.parquet", bound=2.0),
        FileNotFoundError,
        "there is no file nowhere.parquet",
    ),
    "a row that is nan": (
        R(np.full((10, 2), np.nan), bound=2.0),
        ValueError,
        "row 0 holds a missing value, NaN or infinity, or what is no number; clean the data, or "
        "leave out such rows: missing='drop', of the Study or the Columns, or "
        'missing = "drop" in their file. This error tells what one row holds, at no cost: it must '
        "not reach the public",
    ),
    "columns with a moment": (
        R(MOMENT, **C),
        TypeError,
        "a SecondMoment has its columns and bound: leave out columns and bound",
    ),
    "bound with a moment": (
        R(MOMENT, bound=2.0),
        TypeError,
        "a SecondMoment has its columns and bound: leave out columns and bound",
    ),
    "unit with a moment": (
        R(MOMENT, unit=UNIT),
        ValueError,
        "a SecondMoment no longer knows whose rows are whose: pass the table with its unit",
    ),
    "groups with a moment": (
        R(MOMENT, by=GROUPS),
        TypeError,
        "a SecondMoment is the sum of all rows and cannot be taken apart: pass the table itself",
    ),
    "groups with moments": (
        R(MOMENTS, by=GROUPS),
        TypeError,
        "SecondMoments have their groups: leave out by",
    ),
    "columns with moments": (
        R(MOMENTS, **C),
        TypeError,
        "SecondMoments have their columns and bound: leave out columns and bound",
    ),
    "unit with moments": (
        R(MOMENTS, unit=UNIT),
        ValueError,
        "SecondMoments no longer know whose rows are whose: pass the table with its unit",
    ),
    # columns and bounds
    "columns a text": (
        R(TABLE, columns="x", bound=2.0),
        TypeError,
        "columns is a list of names or a Columns, which holds public bounds",
    ),
    "columns none": (R(TABLE, columns=[], bound=2.0), ValueError, "columns names no columns"),
    "columns twice": (
        R(TABLE, columns=["x", "x"], bound=2.0),
        ValueError,
        "column 'x' is selected twice",
    ),
    "columns of numbers": (
        R(TABLE, columns=[1, 2], bound=2.0),
        TypeError,
        "columns is a list of names or a Columns, which holds public bounds",
    ),
    "column unknown": (
        R(TABLE, columns=["x", "z"], bound=2.0),
        ValueError,
        "the table has no column named 'z'; it has 'x', 'y', 'who', 'state'",
    ),
    "bound missing": (
        R(ARRAY),
        ValueError,
        "describe the columns by pg.Columns, or give bound=, the largest L2 norm of a row, "
        "known without looking at the data",
    ),
    "bound zero": (R(ARRAY, bound=0.0), ValueError, "bound must be positive and finite, not 0.0"),
    "bound nan": (
        R(ARRAY, bound=float("nan")),
        ValueError,
        "bound must be positive and finite, not nan",
    ),
    "bound huge": (
        R(ARRAY, bound=1e60),
        ValueError,
        "bound must be in [7.9e-31, 1.3e+30], not 1e+60: what is computed from the moment is "
        "beyond float64 otherwise; use another unit",
    ),
    "bound text": (
        R(ARRAY, bound="large"),
        TypeError,
        "bound must be a number, or PrivateBound(epsilon=...), not str",
    ),
    "price of an automatic bound zero": (
        R(ARRAY, bound=lambda: AUTO(0.0)),
        ValueError,
        "epsilon must be positive and finite, not 0.0",
    ),
    "quantile out of range": (
        R(ARRAY, bound=lambda: AUTO(0.1, 1.0)),
        ValueError,
        "quantile must lie in (0, 1), not 1.0",
    ),
    "automatic bound of an iterator": (
        R(iter([ARRAY]), bound=lambda: AUTO(0.1)),
        ValueError,
        "PrivateBound() reads the table several times, and an iterator or a stream is read once: "
        "pass a path, a data frame or a list of blocks",
    ),
    # threads and files
    "threads zero": (
        R(ARRAY, bound=2.0, threads=0),
        ValueError,
        "threads must be an integer of at least 1, not 0",
    ),
    "threads a fraction": (
        R(ARRAY, bound=2.0, threads=1.5),
        TypeError,
        "threads must be an integer, not float",
    ),
    "ledger a path": (
        R(ARRAY, bound=2.0, ledger="budget.ledger"),
        TypeError,
        "ledger must be a Ledger, such as Ledger(path), not str",
    ),
    "ledger a path, with a moment": (
        R(MOMENT, ledger="budget.ledger"),
        TypeError,
        "ledger must be a Ledger, such as Ledger(path), not str",
    ),
    "out of another kind": (
        R(ARRAY, bound=2.0, out="release.txt"),
        ValueError,
        "'release.txt' must end in .json or .npz, to hold a release",
    ),
    "out in no folder": (
        R(ARRAY, bound=2.0, out="nowhere/release.json"),
        FileNotFoundError,
        "there is no folder {}/nowhere: make it, or name another",
    ),
    # units
    "unit without a bound": (
        R(TABLE, unit="who", **C),
        ValueError,
        "a unit needs a bound: Unit('who', max_rows=k) for units of about k rows, or Unit('who', "
        "bound=C)",
    ),
    "unit with both bounds": (
        R(TABLE, unit=lambda: pg.Unit("who", bound=2.0, max_rows=2), **C),
        ValueError,
        "bound and max_rows both bound a unit: give one of them",
    ),
    "unit bound zero": (
        R(TABLE, unit=lambda: pg.Unit("who", bound=0.0), **C),
        ValueError,
        "the bound of a unit must be positive and finite, not 0.0",
    ),
    "unit bound text": (
        R(TABLE, unit=lambda: pg.Unit("who", bound="large"), **C),
        TypeError,
        "the bound of a unit must be a number, not str",
    ),
    "rows of a unit zero": (
        R(TABLE, unit=lambda: pg.Unit("who", 0), **C),
        ValueError,
        "max_rows must be an integer from 1 to 1048576, not 0",
    ),
    "rows of a unit a fraction": (
        R(TABLE, unit=lambda: pg.Unit("who", 1.5), **C),
        TypeError,
        "max_rows must be an integer, not float",
    ),
    "clip unknown": (
        R(TABLE, unit=lambda: pg.Unit("who", 5, clip="max"), **C),
        ValueError,
        "clip is 'frobenius' or 'trace', not 'max'",
    ),
    "within no truth value": (
        R(TABLE, unit=lambda: pg.Unit("who", 5, fixed_effects=1), **C),
        TypeError,
        "fixed_effects is True or False",
    ),
    "unit missing unknown": (
        R(TABLE, unit=lambda: pg.Unit("who", 5, missing="other"), **C),
        ValueError,
        "missing is 'error' or 'drop', not 'other'",
    ),
    "automatic row bound of units": (
        R(TABLE, unit=UNIT, bound=lambda: AUTO(0.1), **C),
        ValueError,
        "bound=PrivateBound(...) looks at single rows, not at units: take Unit('who', "
        "bound=PrivateBound(...))",
    ),
    "automatic unit bound by an iterator": (
        R(iter([TABLE]), unit=lambda: pg.Unit("who", bound=AUTO(0.1)), **C),
        ValueError,
        "PrivateBound() reads the table several times, and an iterator or a stream is read once: "
        "pass a path, a data frame or a list of blocks",
    ),
    "automatic unit bound without columns": (
        R(TABLE, unit=lambda: pg.Unit("who", bound=AUTO(0.1)), columns=["x", "y"]),
        ValueError,
        "the norms of units are looked for below what Columns allow: pass a Columns, or "
        "lower and upper",
    ),
    "unit is a column": (
        R({**TABLE, "x": TABLE["who"]}, unit=lambda: pg.Unit("x", 5), **C),
        ValueError,
        "'x' tells whose row a row is, and cannot be one of the columns too",
    ),
    "unit unknown": (
        R(TABLE, unit=lambda: pg.Unit("nobody", 5), **C),
        ValueError,
        "the table has no column named 'nobody'; it has 'x', 'y', 'who', 'state'",
    ),
    "unit without columns": (
        R(TABLE, unit=UNIT, bound=2.0),
        ValueError,
        "columns is missing: the unit 'who' is no number to add up, so name those that are, "
        "or pass a Columns",
    ),
    "unit of another length": (
        R(ARRAY, unit=lambda: pg.Unit("id", 5, values=np.arange(5)), bound=2.0),
        ValueError,
        "the values of a Unit are for an array of shape (n, d), an array of the n units of its "
        "rows; a table has them as a column",
    ),
    "unit of the wishart": (
        R(TABLE, mechanism=pg.AdditiveWishart(), unit=UNIT, **C),
        ValueError,
        "AdditiveWishart is proved for units only where they are added or removed: take "
        "adjacency='add-remove' and clip='trace', or AnalyzeGauss()",
    ),
    "unit of the laplace, frobenius": (
        R(TABLE, mechanism=pg.MatrixLaplace(), unit=UNIT, **{**C, "delta": 0.0}),
        ValueError,
        "MatrixLaplace needs the sum of a unit's squared row norms bounded: take "
        "clip='trace', or AnalyzeGauss()",
    ),
    "unit of the sketch": (
        R(TABLE, mechanism=GaussianSketch(100), unit=UNIT, **C),
        ValueError,
        "GaussianSketch is proved for single rows, not for units: take AnalyzeGauss()",
    ),
    "unit and rounds": (
        R(TABLE, mechanism=pg.AdaptiveGaussian(), unit=UNIT, **C),
        ValueError,
        "AdaptiveGaussian is proved for single rows, not for units: take AnalyzeGauss()",
    ),
    "unit and groups": (
        R(TABLE, mechanism=pg.MatrixLaplace(), unit=UNIT, by=GROUPS, **{**C, "delta": 0.0}),
        ValueError,
        "groups of units, which may have rows in several, have a proof for Gaussian noise alone: "
        "take AnalyzeGauss(), and a positive delta",
    ),
    # groups
    "by without groups": (
        R(TABLE, by="state", **C),
        ValueError,
        "the groups are missing: by=Groups('state', [...]) lists the values that get a "
        "release each. They must be public, from the form or the code book and not from the "
        "data: a value that only one person has would give that person away",
    ),
    "by a number": (
        R(TABLE, by=lambda: pg.Groups(3, LEVELS), **C),
        TypeError,
        "by is the name of a column, not int",
    ),
    "groups empty": (
        R(TABLE, by=lambda: pg.Groups("state", []), **C),
        ValueError,
        "groups of 'state': a table needs at least one group",
    ),
    "groups twice": (
        R(TABLE, by=lambda: pg.Groups("state", ["a", "a"]), **C),
        ValueError,
        "groups of 'state': the group 'a' is listed twice",
    ),
    "groups of text and numbers": (
        R(TABLE, by=lambda: pg.Groups("state", ["a", 1]), **C),
        TypeError,
        "groups of 'state': the groups are all text or all whole numbers",
    ),
    "groups a text": (
        R(TABLE, by=lambda: pg.Groups("state", "abc"), **C),
        ValueError,
        "groups of 'state': a table has a list of groups; groups are never taken from the "
        "data: a group that only one person has would give that person away. List those that "
        "the form or the code book has",
    ),
    "unknown unknown": (
        R(TABLE, by=lambda: pg.Groups("state", LEVELS, "ignore"), **C),
        ValueError,
        "unknown is one of error, drop, other, not 'ignore'",
    ),
    "a group called other": (
        R(TABLE, by=lambda: pg.Groups("state", ["a", "other"], "other"), **C),
        ValueError,
        "groups of 'state': there is a group \"other\" already; use another name",
    ),
    "group is a column": (
        R(TABLE, by=lambda: pg.Groups("x", [0, 1]), **C),
        ValueError,
        "column 'x' says the group, and is the same in all of its rows: leave it out of the "
        "columns",
    ),
    "group not in the table": (
        R(TABLE, by=lambda: pg.Groups("county", LEVELS), **C),
        ValueError,
        "the table has no column named 'county'; it has 'x', 'y', 'who', 'state'",
    ),
    "a row of no listed group": (
        R(TABLE, by=lambda: pg.Groups("state", ["a", "b"], "error"), **C),
        ValueError,
        "row 2 is of a group that is not listed, or of none: list its value in Groups, put "
        "such rows together by Groups(..., unknown='other'), or leave them out by "
        "unknown='drop'. This error tells what one row holds, at no cost: it must not reach "
        "the public",
    ),
    "groups and rounds": (
        R(TABLE, mechanism=pg.AdaptiveGaussian(), by=GROUPS, **C),
        ValueError,
        "AdaptiveGaussian() reads one table several times, and not at its groups: take "
        "AnalyzeGauss()",
    ),
    "groups of the sketch": (
        R(TABLE, mechanism=GaussianSketch(100), by=GROUPS, **C),
        ValueError,
        "GaussianSketch() has no proof for groups under 'replace', where one row may leave a "
        "group and enter another: take adjacency='add-remove', or AnalyzeGauss()",
    ),
    # second_moment
    "moment: bound missing": (
        M(ARRAY),
        ValueError,
        "describe the columns by pg.Columns, or give bound=, the largest L2 norm of a row, "
        "known without looking at the data",
    ),
    "moment: no table": (M(3, 2.0), ValueError, "a block has two dimensions and this array has 0"),
    "moment: columns a text": (
        M(TABLE, 2.0, columns="x"),
        TypeError,
        "columns is a list of names or a Columns, which holds public bounds",
    ),
    "moment: automatic bound": (
        M(ARRAY, AUTO(0.1)),
        ValueError,
        "PrivateBound(...) spends privacy: pass it to pg.release, or pass here what "
        "private_norm_bound(...) chose",
    ),
    "moment: automatic unit bound": (
        M(TABLE, unit=pg.Unit("who", bound=AUTO(0.1)), **C),
        ValueError,
        "PrivateBound(...) spends privacy: pass it to pg.release, or pass here what "
        "private_norm_bound(...) chose",
    ),
    "moment: unit with both bounds": (
        M(TABLE, unit=lambda: pg.Unit("who", bound=2.0, max_rows=2), **C),
        ValueError,
        "bound and max_rows both bound a unit: give one of them",
    ),
    "moment: unit without a bound": (
        M(TABLE, unit="who", **C),
        ValueError,
        "a unit needs a bound: Unit('who', max_rows=k) for units of about k rows, or Unit('who', "
        "bound=C)",
    ),
    "moment: unit and groups": (
        M(TABLE, unit=lambda: pg.Unit("who", max_rows=2, clip="trace"), by=GROUPS, **C),
        ValueError,
        "groups that share the bound of a unit take clip='frobenius', by which they share it",
    ),
    "moment: by without groups": (
        M(TABLE, by="state", **C),
        ValueError,
        "the groups are missing: by=Groups('state', [...]) lists the values that get a "
        "release each. They must be public, from the form or the code book and not from the "
        "data: a value that only one person has would give that person away",
    ),
    "moment: groups of a moment": (
        M(MOMENT, by=GROUPS),
        TypeError,
        "a SecondMoment is the sum of all rows and cannot be taken apart: pass the table itself",
    ),
    "moment: within and factors": (
        M(
            TABLE,
            unit=lambda: pg.Unit("who", 5, fixed_effects=True),
            columns=pg.Columns({"x": (0, 1), "state": LEVELS}),
        ),
        ValueError,
        "fixed_effects=True takes no factors, whose levels would no longer sum to one: describe "
        "the levels that matter as columns of their own, by bool",
    ),
    "moment: threads zero": (
        M(ARRAY, 2.0, threads=0),
        ValueError,
        "threads must be an integer of at least 1, not 0",
    ),
    "moment: row bound chosen for units": (
        M(TABLE, OF_ROWS, unit=UNIT, **C),
        ValueError,
        "a bound chosen by single rows is not private for units: choose a unit's bound by "
        "private_norm_bound(..., unit=...)",
    ),
    # private_norm_bound
    "choice: epsilon zero": (
        B(ARRAY, 0.0),
        ValueError,
        "epsilon must be positive and finite, not 0.0",
    ),
    "choice: quantile one": (
        B(ARRAY, 1.0, 1.0),
        ValueError,
        "quantile must lie in (0, 1), not 1.0",
    ),
    "choice: grid the wrong way round": (
        B(ARRAY, 1.0, lower=2.0, upper=1.0),
        ValueError,
        "the grid needs 1e-150 <= lower < upper <= 1e+150, not 2.0 and 1.0",
    ),
    "choice: grid too fine": (
        B(ARRAY, 1.0, bins_per_octave=5000),
        ValueError,
        "bins_per_octave must be an integer from 1 to 1024, not 5000",
    ),
    "choice: adjacency unknown": (
        B(ARRAY, 1.0, adjacency="add"),
        ValueError,
        'adjacency must be "replace" or "add-remove", not \'add\'',
    ),
    "choice: units without columns": (
        B(TABLE, 1.0, unit="who", columns=["x", "y"]),
        ValueError,
        "the norms of units are looked for below what Columns allow: pass a Columns, or "
        "lower and upper",
    ),
    "choice: units over a wide grid": (
        B(TABLE, 1.0, unit="who", lower=1e-3, upper=1e3, columns=["x", "y"]),
        ValueError,
        "lower and upper must be within a factor of 4096 for units",
    ),
    "choice: ledger a path": (
        B(ARRAY, 1.0, ledger="budget.ledger"),
        TypeError,
        "ledger must be a Ledger, such as Ledger(path), not str",
    ),
    # plan
    "plan: epsilon missing": (
        lambda _: pg.plan(3, 1.0, delta=1e-6),
        TypeError,
        "epsilon must be a number, not missing: plan(n_columns, bound, epsilon, delta), or "
        "plan(columns, epsilon=..., delta=...) of Columns",
    ),
    "plan: bound missing": (
        lambda _: pg.plan(3, epsilon=1.0, delta=1e-6),
        TypeError,
        "bound must be a number, not missing: plan(n_columns, bound, epsilon, delta), or "
        "plan(columns, epsilon=..., delta=...) of Columns",
    ),
    "plan: no columns": (
        lambda _: pg.plan(0, 1.0, 1.0, 1e-6),
        ValueError,
        "n_columns must be an integer of at least 1, not 0",
    ),
    "plan: adjacency unknown": (
        lambda _: pg.plan(3, 1.0, 1.0, 1e-6, adjacency="add"),
        ValueError,
        'adjacency must be "replace" or "add-remove", not \'add\'',
    ),
    "plan: target unknown": (
        lambda _: pg.plan(COLUMNS, epsilon=1.0, delta=1e-6, targets=["z"]),
        ValueError,
        "no variable 'z' is described; there are 'x', 'y'",
    ),
    # the ledger
    "no room": (
        R(ARRAY, bound=2.0, epsilon=50.0),
        BudgetExceeded,
        "over the budget of the.ledger: with epsilon=50, delta=1e-06 the total would be "
        "delta=0.927 at epsilon=10, and the ledger allows delta=0.001; nothing was released",
    ),
    "no room, of groups": (
        R(TABLE, by=GROUPS, epsilon=50.0, **C),
        BudgetExceeded,
        "over the budget of the.ledger: with epsilon=50, delta=1e-06 the total would be "
        "delta=0.927 at epsilon=10, and the ledger allows delta=0.001; nothing was released",
    ),
    "no room, of units": (
        R(TABLE, unit=UNIT, epsilon=50.0, **C),
        BudgetExceeded,
        "over the budget of the.ledger: with epsilon=50, delta=1e-06 the total would be "
        "delta=0.927 at epsilon=10, and the ledger allows delta=0.001; nothing was released",
    ),
    "a bound of another adjacency": (
        R(ARRAY, bound=OF_ARRAY, adjacency="add-remove"),
        ValueError,
        "the release is private under 'add-remove' and its bound was chosen under 'replace': "
        "choose both under one notion of neighbours",
    ),
    "a bound of rows for units": (
        R(TABLE, unit=UNIT, bound=OF_ROWS, **C),
        ValueError,
        "a bound chosen by single rows is not private for units: choose a unit's bound by "
        "private_norm_bound(..., unit=...)",
    ),
    "a bound of units for rows": (
        R(TABLE, bound=OF_UNITS, **C),
        ValueError,
        "the release is private for single rows and its bound was chosen for units by 'who': "
        "choose both for one unit",
    ),
    # a regression
    "a reference that is no mapping": (
        F("y ~ x", {"x": (0, 1), "y": (0, 2)}, reference=3),
        TypeError,
        "reference is a mapping of factors to levels, such as {'region': 'north'}, not int",
    ),
    "a formula without a target": (
        F("y", {"x": (0, 1), "y": (0, 2)}),
        ValueError,
        "'y' has no target; write one before a ~, such as 'wage ~ age'",
    ),
    "two targets": (
        F("y + x ~ 1", {"x": (0, 1), "y": (0, 2)}),
        ValueError,
        "'y + x ~ 1' has 2 targets, and a fit has one: ask for each apart",
    ),
    **{
        f"a formula that breaks off, of {door}": (
            call,
            ValueError,
            "'y ~ x +' has nothing after a +: write the term that is missing",
        )
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
    "columns in the place of the formula": (
        F({"x": (0, 1), "y": (0, 2)}, "y ~ x"),
        TypeError,
        "a formula is text, such as 'wage ~ age + sex*region', of columns by their names: "
        "arrays X and y are a table such as {'x': X[:, 0], 'y': y}, with the formula 'y ~ x'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_refusal_comes_before_anything_is_spent(name, tmp_path, monkeypatch):
    call, error, message = REFUSED[name]
    monkeypatch.chdir(tmp_path)
    ledger = pg.Ledger("the.ledger", 10.0, 1e-3)
    before = (tmp_path / "the.ledger").read_bytes()
    with pytest.raises(error) as refused:
        call(ledger)
    assert type(refused.value) is error
    assert str(refused.value) == message.replace("{}", str(tmp_path))
    assert not ledger.entries
    assert (tmp_path / "the.ledger").read_bytes() == before
