"""What a private run takes from data it takes by its primitives, and no more than it says.

Runs are recorded on a table and replayed on its neighbours (`recorder.Recorder`). Then what is
published is the same to the last bit, parameters of all primitives are equal, and inputs lie apart
by what the guarantee allows, all primitives together.
"""

import contextlib
import functools
import itertools
import re
import warnings
from dataclasses import dataclass, replace
from importlib.util import find_spec
from unittest import mock

import numpy as np
import pytest
from recorder.recorder import Recorder, Violation, moved, same

import privgram as pg
from privgram import stream as running
from privgram.glm.one_step import OneStepEstimator
from privgram.glm.rounds import Rounds
from privgram.secret.kinds import Histogram, Moment, Outer, Vectors
from privgram.sources import labelled
from privgram.stream.state import StreamState, read_key

try:  # before a run is watched, which puts others in the place of functions
    from privgram.estimators import PrivateClassifier, PrivateRidge
except ImportError:
    PrivateClassifier = PrivateRidge = None

N = 4000
LEVELS = ["a", "b", "c"]
BASE = {"x": (-3, 3), "z": (-3, 3), "g": LEVELS, "y": (-8, 8)}
COLUMNS = pg.Columns(BASE, intercept=True, missing="drop")
COUNTS = pg.Columns({**BASE, "y": (0, 8)}, intercept=True, missing="drop")
BINARY = pg.Columns({**BASE, "y": bool}, intercept=True, missing="drop")


MONTHS = 3


def made(seed=0, n=N):
    """A table with a tail, so that rounds teach something and clip something.

    Its first row, and all rows of the first person, are as long as bounds allow. Rows of a person
    are of one month.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_t(3, n)
    z = 0.8 * x + 0.1 * rng.standard_normal(n)
    g = rng.integers(0, 3, n)
    y = x - z + 0.2 * g + rng.standard_t(4, n) * 0.3
    who = rng.integers(1, n // 4, n)
    who[:8] = 0
    table = {"x": x, "z": z, "g": np.array(LEVELS, object)[g], "y": y}
    table = edited(table, slice(8), **LONG)
    return table | {"who": who.astype(str).astype(object), "month": who % MONTHS}


def edited(table, at, **values):
    new = {name: column.copy() for name, column in table.items()}
    for name, value in values.items():
        new[name][at] = value
    return new


def without(table, at):
    return {name: np.delete(column, at) for name, column in table.items()}


#: A row as long as bounds allow, and one that is at right angles to it.
LONG = {"x": 3.0, "z": 3.0, "g": "a", "y": 8.0}
ACROSS = {"x": 3.0, "z": -3.0, "g": "b", "y": -8.0}

#: What may stand in the place of a row.
ROWS = [
    ACROSS,
    {"x": 3.0, "z": -3.0, "g": "b", "y": 8.0},
    {"x": 1e300, "z": -1e300, "y": -1e300},
    {"x": 1e308, "z": 1e308, "y": 1e308},
    {"x": 1e308, "z": -1e308, "y": -1e308},
    {"x": np.nan},
    {"y": -np.inf, "z": np.inf},
    {"g": "nobody"},
    {"x": 0.0, "z": 0.0, "y": 0.0},
    {"g": "a"},
]

#: And in that of a label, which a list may have of any type.
LABELS = [{"g": 7.5}, {"g": None}, {"g": b"a"}]


def neighbours(adjacency, table, seed, rows=ROWS):
    """Tables that differ from one in a row."""
    rng = np.random.default_rng(seed)
    at = int(rng.integers(len(table["x"])))
    far = int(np.argmax(np.abs(table["y"])))
    if adjacency == "add-remove":
        for row in (at, far):
            yield without(table, row)
        for values in rows:
            new = {name: np.append(column, column[at]) for name, column in table.items()}
            yield edited(new, len(new["x"]) - 1, **values)
        return
    places = (0, at, far, *rng.integers(0, N, len(rows) - 3))
    for row, values in zip(places, rows, strict=True):
        yield edited(table, int(row), **values)


#: Nobody's in a table of `made`.
NEW = "another"


def person(table, rng, n_rows, months, **values):
    """A table with a person more, of another id, with rows of some months."""
    like = rng.integers(0, len(table["x"]), n_rows)
    own = {name: column[like] for name, column in table.items()}
    own = edited(own, slice(None), who=NEW, **values)
    own["month"] = np.resize(np.array(months), n_rows)
    return {name: np.concatenate([column, own[name]]) for name, column in table.items()}


def persons(adjacency, table, seed, *, dropping=True, months=1):
    """Tables that differ from one in all rows of a person, who may be another one.

    `dropping`: whether a person without an id counts for nothing. A person has rows in up to so
    many `months`.
    """
    rng = np.random.default_rng(seed)
    whose = ["0", *rng.choice(table["who"], 3, replace=False)]
    others = [(1, {}), (9, LONG), (5, {"x": np.nan})]
    if adjacency == "add-remove":
        for one in whose:
            yield without(table, np.flatnonzero(table["who"] == one))
        for n_rows, values in others:
            yield person(table, rng, n_rows, range(months), **values)
        return
    for one, (n_rows, values) in zip(whose, [*others, (12, ACROSS)], strict=True):
        at = np.flatnonzero(table["who"] == one)
        yield edited(table, at, **ACROSS)
        yield edited(table, at, x=np.nan)
        yield edited(without(table, at[1:]), at[0] - (at[0] > at[1:]).sum(), x=3.0, g="c")
        yield edited(table, at, who=NEW)  # the same rows, of another person
        rest, after = without(table, at), int(table["month"][at[0]]) + 1  # of another month
        both = np.arange(after, after + months) % MONTHS
        yield person(rest, rng, n_rows, both, **values)
        yield person(rest, rng, len(at), both, **values)
        if dropping:
            yield edited(table, at, who=None)


def release(table, rng, adjacency, *, columns=COLUMNS, mechanism=None, **options):
    if "unit" not in options and "by" not in options:
        table = {name: table[name] for name in BASE}
    if "by" in options:
        names = ("x", "z", "y", "g") + ("who",) * ("unit" in options)
        table = {name: table[name] for name in names}
    given = {"epsilon": 1.0, "delta": 1e-6, "adjacency": adjacency, "rng": rng}
    given |= {name: options.pop(name) for name in ("epsilon", "delta") if name in options}
    return pg.release(table, columns, mechanism=mechanism, **given, **options)


def modelled(table, rng, adjacency, family="binomial", formula="y ~ x + g", epsilon=1.0, unit=None):
    columns = BINARY if family == "binomial" else COUNTS
    table = {**table, "y": table["y"] > 0.3 if family == "binomial" else np.abs(table["y"])}
    if "rare" in formula:
        columns, table = with_rare(columns, table)
    given = {"adjacency": adjacency, "rng": rng, "family": family, "unit": unit}
    return pg.regress(table, formula, columns, epsilon, 1e-6, **given)


def regress(table, rng, adjacency, formula="y ~ x + g", epsilon=1.0, **options):
    given = {"adjacency": adjacency, "rng": rng, **options}
    columns = COLUMNS
    if "rare" in formula:
        columns, table = with_rare(columns, table)
    return pg.regress(table, formula, columns, epsilon, 1e-6, **given)


def regress_unsure(table, rng, adjacency, **options):
    """One whose counts of scores contradict the scale, so that errors are looked at alone."""
    real = OneStepEstimator._choose_clip

    def choose(estimator, state, share):
        return replace(real(estimator, state, share), squares=0.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OneStepEstimator, "_choose_clip", choose)
        return regress(table, rng, adjacency, **options)


def classified(table, rng, adjacency, bound=4.0, **options):
    """A classifier of g by the numbers."""
    X = np.column_stack([table[name] for name in "xzy"])
    given = {"bound": bound, "classes": LEVELS, "missing": "drop", "random_state": rng}
    model = PrivateClassifier(epsilon=1.0, adjacency=adjacency, **given, **options)

    def of_rows(_, first, n):
        """Coins that stay with their rows where one is added or removed."""
        rows = zip(*(table[name][first : first + n].tolist() for name in "xzy"), strict=True)
        return np.array([hash(row) % 2**20 / 2**20 for row in rows])

    with pytest.MonkeyPatch.context() as patch:
        if adjacency == "add-remove":  # who is replaced has the coin of the place
            patch.setattr(labelled, "coins", of_rows)
        return model.fit(X, table["g"].tolist()).result_


@dataclass(frozen=True)
class Shown:
    """What a run shows, and its guarantee."""

    text: str
    privacy: object


def by_features(table, rng, adjacency, bounds=(-3, 3), epsilon=1.0):
    """A regression of y on random features beside the numbers; None where a row is refused."""
    X, y = np.column_stack([table["x"], table["z"]]), table["y"]
    features = pg.RandomFeatures(n=8)
    columns = {"x0": bounds, "x1": bounds, "y": (-8, 8)}
    given = {"columns": columns, "features": features}
    model = PrivateRidge(epsilon=epsilon, adjacency=adjacency, random_state=rng, **given)
    try:
        fit = model.fit(X, y).result_
    except ValueError:  # before anything is drawn: `replayed` looks at that
        return None
    linear = [fit.linear.slopes.tolist(), fit.linear.size, fit.linear.clamps]
    shown = [linear, fit.coef.tolist(), fit.error]
    whole = pg.AnalyzeGauss().calibrate(4, 1.0, epsilon, 1e-6, adjacency).privacy
    return Shown(repr(shown), whole)


def with_rare(columns, table):
    """A dummy that is true in some 110 rows, which are long in a frame."""
    variables = columns.variables | {"rare": bool}
    table = {**table, "rare": np.abs(table["x"]) > 4}
    return pg.Columns(variables, intercept=True, missing=columns.missing), table


def studied(table, rng, adjacency, formula=None, **options):
    """What a study answers."""
    wanted = {"epsilon": 1.0, "delta": 1e-6}
    table = {name: table[name] for name in BASE}
    study = pg.Study(table, COLUMNS, **wanted, adjacency=adjacency)
    if formula is None:
        return study.release(**wanted, rng=rng, **options)
    return study.regress(formula, **wanted, rng=rng, **options)


NUMBERS = pg.Columns({k: BASE[k] for k in ("x", "z", "y")}, intercept=True, missing="drop")
BY_G = {"columns": NUMBERS, "by": pg.Groups("g", LEVELS)}


def in_arrays(table, rng, adjacency, library, **options):
    """A release of columns of another library, whose group is a number."""
    xp = pytest.importorskip(library)
    own = {name: xp.asarray(table[name]) for name in ("x", "z", "y")}
    own["g"] = xp.asarray([LEVELS.index(one) if one in LEVELS else 9 for one in table["g"]])
    given = {"epsilon": 1.0, "delta": 1e-6, "adjacency": adjacency, "rng": rng}
    return pg.release(own, NUMBERS, **given, **options)


def in_an_engine(table, rng, adjacency):
    """A release of rows that stay in DuckDB."""
    duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    connection = duckdb.connect()
    rows = {name: table[name] for name in BASE}
    connection.register("given", pandas.DataFrame(rows))
    query = pg.Query(connection, "select * from given")
    given = {"epsilon": 1.0, "delta": 1e-6, "adjacency": adjacency, "rng": rng}
    return pg.release(query, COLUMNS, **given)


def of_units(run, **bound):
    """Two runs by persons, who have a few rows: whose id may be missing, and whose may not."""
    whose = {"drop": pg.Unit("who", missing="drop", **bound), "error": pg.Unit("who", **bound)}
    return {missing: functools.partial(run, unit=unit) for missing, unit in whose.items()}


#: What is run, of rows.
RUNS = {
    "one round": functools.partial(release, mechanism=pg.AnalyzeGauss()),
    "triangular": functools.partial(release, mechanism=pg.AnalyzeGauss(noise="triangular")),
    "rounds": functools.partial(release, mechanism=pg.AdaptiveGaussian()),
    "groups": functools.partial(release, mechanism=pg.AnalyzeGauss(), **BY_G),
    "arrays of torch": functools.partial(in_arrays, library="torch"),
    "arrays by group": functools.partial(
        in_arrays, library="array_api_strict", by=pg.Groups("g", [0, 1, 2])
    ),
    "rows in an engine": in_an_engine,
    "logistic": modelled,
    "counts": functools.partial(modelled, family="poisson"),
    "logistic without a constant": functools.partial(modelled, formula="y ~ x + z - 1"),
    "logistic, long rows": functools.partial(modelled, formula="y ~ x + rare", epsilon=4.0),
    "scores": regress,
    "scores, long rows": functools.partial(regress, formula="y ~ x + z + rare", epsilon=4.0),
    "scores, errors alone": functools.partial(regress_unsure, epsilon=4.0),
    "scores for predictions": functools.partial(regress, purpose="prediction"),
    "bounded scores": functools.partial(regress, loss="huber"),
    "features": by_features,
    "features, narrow bounds": functools.partial(by_features, bounds=(-0.5, 0.5)),
    "classes": classified,
    "classes, rows held out": functools.partial(classified, holdout=0.3),
    "classes, short rows": functools.partial(classified, bound=0.5, fit_intercept=False),
    "scores by cluster": functools.partial(
        regress, formula="y ~ x + z", epsilon=4.0, cov_type="cluster", groups="g"
    ),
    "instruments by scores": functools.partial(regress, formula="y ~ 1 | x ~ z", epsilon=8.0),
    "instruments by a release": functools.partial(regress, formula="y ~ z | x ~ g", epsilon=8.0),
    "scores by level": functools.partial(regress, formula="y ~ x + z | g"),
    "study": functools.partial(studied, mechanism=pg.AnalyzeGauss()),
    "study by level": functools.partial(studied, by="g", mechanism=pg.AnalyzeGauss()),
    "study, scores by level": functools.partial(studied, formula="y ~ x + z | g"),
    "second moment": functools.partial(regress, formula="y ~ x + z + g", epsilon=0.2),
}

if PrivateRidge is None:
    for without_sklearn in [name for name in RUNS if name.split(",")[0] in ("features", "classes")]:
        del RUNS[without_sklearn]

if find_spec("torch") is None:  # a skip in one run would end a sweep of all
    del RUNS["arrays of torch"]

#: And of persons, by whether a missing id is dropped or is an error.
RUNS_OF_UNITS = {
    "one round": of_units(functools.partial(release, mechanism=pg.AnalyzeGauss()), bound=3.0),
    "of so many rows": of_units(
        functools.partial(release, mechanism=pg.AnalyzeGauss()), max_rows=6
    ),
    "by group": of_units(
        functools.partial(release, mechanism=pg.AnalyzeGauss(), **BY_G), bound=1.0
    ),
    "logistic": of_units(functools.partial(modelled, epsilon=4.0), max_rows=6),
    "counts": of_units(functools.partial(modelled, family="poisson", epsilon=4.0), max_rows=6),
    "scores": of_units(functools.partial(regress, epsilon=4.0), max_rows=6),
    "scores, errors alone": of_units(functools.partial(regress_unsure, epsilon=4.0), max_rows=6),
    "scores, chosen": of_units(functools.partial(regress, epsilon=4.0)),
}
ALL = [(name, None) for name in RUNS]
ALL += [(name, missing) for name, both in RUNS_OF_UNITS.items() for missing in both]


def published(result):
    """All that a result shows, but for what was drawn when."""
    if hasattr(result, "values") and not hasattr(result, "matrix"):
        return [result.n_rows, *(published(one) for one in result.values())]
    if hasattr(result, "_header"):
        header = re.sub("id': '[0-9a-f]+'", "", repr(result._header()))  # of a bound, by chance
        return [header, getattr(result, "matrix", None)]
    return [repr(result), getattr(result, "matrix", None)]


@contextlib.contextmanager
def told():
    """What is said in warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        texts = []
        yield texts
        texts += [str(warning.message) for warning in caught]


def ratio_of(result):
    if hasattr(result, "values") and not hasattr(result, "matrix"):
        return next(iter(result.values())).privacy.sensitivity_ratio
    return result.privacy.sensitivity_ratio


def recorded(run, adjacency, table, seed=1):
    with Recorder(seed).watching() as recorder, told() as said:
        result = run(table, recorder.rng, adjacency)
    assert recorder.primitives
    recorder.said = said
    return recorder, result


def replayed(run, adjacency, table, recorder, result, seed=1):
    """How far apart the inputs are, squared, in deviations; Violation if anything else is."""
    with Recorder(seed, recorder.primitives).watching() as again, told() as said:
        other = run(table, again.rng, adjacency)
    if other is None:  # refused before anything was read or drawn
        assert not again.rng.log
        return 0.0
    if len(again.primitives) != len(recorder.primitives):
        raise Violation("the neighbour has fewer primitives")
    if not same(again.rng.log, recorder.rng.log):
        raise Violation("something else was drawn on the neighbour")
    if not same(published(other), published(result)):
        raise Violation("what is published is another on the neighbour")
    if said != recorder.said:
        raise Violation("there are other warnings on the neighbour")
    return sum(map(moved, recorder.primitives, again.primitives))


def farthest(name, missing, adjacency, seed=0, every=1):
    """The largest distance of neighbours in parts of what is allowed, and how many were tried."""
    table = made(seed)
    if missing is None:
        rows = ROWS + LABELS * name.startswith("classes")
        run, others = RUNS[name], neighbours(adjacency, table, seed, rows)
    else:
        run = RUNS_OF_UNITS[name][missing]
        others = persons(adjacency, table, seed, dropping=missing == "drop")
    recorder, result = recorded(run, adjacency, table)
    some = itertools.islice(others, 0, None, every)
    distances = [replayed(run, adjacency, other, recorder, result) for other in some]
    return np.sqrt(max(distances)) / ratio_of(result), len(distances)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize(("name", "missing"), ALL)
def test_neighbour_moves_the_primitives_and_nothing_else(name, missing, adjacency):
    every = 1 if missing is None or adjacency == "add-remove" else 3  # all are in the long lane
    worst, pairs = farthest(name, missing, adjacency, every=every)
    assert pairs >= 7
    assert worst <= 1 + 1e-9
    assert worst > 0.02  # or the neighbours say nothing


@pytest.mark.long
@pytest.mark.parametrize(
    ("seed", "every"),
    [(2, 4), *(pytest.param(seed, 1, marks=pytest.mark.nightly) for seed in range(2, 7))],
)
def test_more_tables_and_more_neighbours(seed, every, tmp_path):
    pairs = 0
    for name, missing in ALL:
        for adjacency in ("replace", "add-remove"):
            worst, tried = farthest(name, missing, adjacency, seed, every)
            assert worst <= 1 + 1e-9, (name, missing, adjacency)
            pairs += tried
    for name in STREAMS:
        for adjacency in ("replace", "add-remove"):
            worst, tried = farthest_of_stream(name, adjacency, tmp_path, seed)
            assert worst <= 1 + 1e-9, (name, adjacency)
            pairs += tried
    assert pairs >= 800 / every


def of_lengths(table, rng, adjacency, **options):
    """A bound that is chosen by the table, and a release."""
    return release(
        table, rng, adjacency, mechanism=pg.AnalyzeGauss(), bound=pg.PrivateBound(0.2), **options
    )


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_bound_that_is_chosen(adjacency):
    """The exponential mechanism: its losses differ by what its epsilon allows."""
    table = made()
    recorder, result = recorded(of_lengths, adjacency, table)
    kinds = [primitive.kind for primitive in recorder.primitives]
    assert kinds == ["choice", "matrix"]
    for other in neighbours(adjacency, table, 0):
        with Recorder(1, recorder.primitives).watching() as again:
            changed = of_lengths(other, again.rng, adjacency)
        assert same(published(changed), published(result))
        (old, new), (matrix, moved_matrix) = zip(recorder.primitives, again.primitives, strict=True)
        by = new.exact - old.exact
        assert (max(by) - min(by)) * old.noise <= 0.2 * (1 + 1e-12)
        assert moved(matrix, moved_matrix) <= pg.AnalyzeGauss().calibrate(
            6, 1.0, 1.0, 1e-6, adjacency
        ).privacy.sensitivity_ratio ** 2 * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize(
    ("mechanism", "delta"),
    [(pg.AdditiveWishart(), 1e-6), (pg.MatrixLaplace(), 1e-6), (pg.MatrixLaplace(), 0.0)],
    ids=["Wishart", "Laplace", "Laplace, exact"],
)
def test_matrices_move_by_a_row(mechanism, delta, adjacency):
    """By x x^T, with plus or minus, of rows within the bound: what these profiles are of."""
    run = functools.partial(release, mechanism=mechanism, delta=delta)
    table = made()
    recorder, result = recorded(run, adjacency, table)
    for other in neighbours(adjacency, table, 1):
        with Recorder(1, recorder.primitives).watching() as again:
            changed = run(other, again.rng, adjacency)
        assert same(published(changed), published(result))
        [old], [new] = recorder.primitives, again.primitives
        difference = new.exact - old.exact
        difference = difference * (COLUMNS.bound / 2**20) ** 2  # integers, of rows of 2^20
        values = np.linalg.eigvalsh(difference) / COLUMNS.bound**2
        assert (np.abs(values) > 1e-6).sum() <= (2 if adjacency == "replace" else 1)
        assert (values > 1e-6).sum() <= 1
        assert (values < -1e-6).sum() <= 1
        assert np.abs(values).max() <= 1 + 1e-5


def streamed(table, rng, adjacency, path, unit=None, months=1):
    """Releases after each month and windows of them; what is public of them."""
    options = {"epsilon": 1.0, "delta": 1e-6}
    names = [*BASE, *(("who",) if unit else ())]
    parts = [
        {name: table[name][table["month"] == month] for name in names} for month in range(MONTHS)
    ]
    study = pg.Study(parts[0], COLUMNS, **options, adjacency=adjacency, unit=unit)
    with (
        mock.patch.object(running.generators, "resolve", return_value=(rng, False)),
        mock.patch.object(running.secrets, "token_hex", return_value="0" * 32),
    ):
        stream = pg.Stream(study, MONTHS, **options, path=path, months=months)
        made = [stream.release(part) for part in parts]
    made += [stream.window(), stream.window(2), stream.upto(1)]
    state = StreamState.read(path, read_key(stream.key))
    public = [state.terms, [period.n_rows for period in state.past]]
    return made, [[published(one) for one in made], public, study.ledger.periods("0" * 32)]


#: Who is protected in a stream, whether a missing id is dropped, and months of a person.
STREAMS = {
    "rows": (None, False, 1),
    "persons, or no id": (pg.Unit("who", max_rows=6, missing="drop"), True, 1),
    "persons": (pg.Unit("who", max_rows=6), False, 1),
    "persons of two months": (pg.Unit("who", max_rows=6), False, 2),
    "persons of all months": (pg.Unit("who", max_rows=6), False, 3),
}


def farthest_of_stream(name, adjacency, folder, seed=0):
    """As `farthest`, of a stream."""
    unit, dropping, months = STREAMS[name]
    table, number = made(seed), itertools.count()
    # A person's months follow each other.
    after = np.arange(len(table["who"])) % months
    table["month"] = ((table["month"] + after) % MONTHS).astype(int)
    others = neighbours(adjacency, table, seed)
    if unit is not None:
        others = persons(adjacency, table, seed, dropping=dropping, months=months)

    def run(of, rng):
        path = folder / f"{name} {adjacency} {next(number)}.stream"
        return streamed(of, rng, adjacency, path, unit, months)

    with Recorder(1).watching() as recorder:
        result, shown = run(table, recorder.rng)
    assert [primitive.kind for primitive in recorder.primitives] == ["matrix"] * MONTHS
    distances = []
    for other in others:
        with Recorder(1, recorder.primitives).watching() as again:
            _, shown_of_other = run(other, again.rng)
        if not same(again.rng.log, recorder.rng.log):
            raise Violation("something else was drawn on the neighbour")
        if not same(shown_of_other, shown):
            raise Violation("what is published is another on the neighbour")
        distances.append(sum(map(moved, recorder.primitives, again.primitives)))
    allowed = result[0].privacy.sensitivity_ratio
    return np.sqrt(max(distances)) / allowed, len(distances)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("name", STREAMS)
def test_stream(name, adjacency, tmp_path):
    """A row of a month, or a person, in, out or changed moves what all months release by one."""
    worst, pairs = farthest_of_stream(name, adjacency, tmp_path)
    assert pairs >= 7
    assert 0.3 < worst <= 1 + 1e-9


def half_the_sensitivity(monkeypatch):
    real = Moment.moves, Outer.moves
    for kind, moves in zip((Moment, Outer), real, strict=True):
        monkeypatch.setattr(kind, "moves", lambda one, adj, f=moves: f(one, adj) / 1.5**2)


def counts_by_data(monkeypatch):
    real = Rounds.beyond

    def beyond(rounds, counts, share):
        return real(rounds, counts, share * (1 - 1e-9 * float(counts._total[0])))

    monkeypatch.setattr(Rounds, "beyond", beyond)


def half_the_noise_of_scores(monkeypatch):
    monkeypatch.setattr(Vectors, "moves", lambda kind, _: kind.most / 2)


def a_clip_by_data(monkeypatch):
    real = OneStepEstimator._choose_clip

    def choose(estimator, state, share):
        clip = real(estimator, state, share)
        edges = np.array([clip.size, 2 * clip.size])
        kind = Histogram(estimator._scores(state), edges)
        [counts] = estimator.rounds.sums_at(estimator._at(state), kind)
        return replace(clip, size=clip.size * (1 + 1e-12 * float(counts._total[0])))

    monkeypatch.setattr(OneStepEstimator, "_choose_clip", choose)


def rows_by_data(monkeypatch):
    monkeypatch.setattr(
        OneStepEstimator, "_count_rows", lambda estimator, _: float(estimator.rounds.moment.n_rows)
    )


#: What is done, and which run finds it.
FAULTS = {
    "half the sensitivity": (half_the_sensitivity, "rounds"),
    "counts by data": (counts_by_data, "scores"),
    "half the noise of scores": (half_the_noise_of_scores, "scores"),
    "a clip by data": (a_clip_by_data, "scores"),
    "rows by data": (rows_by_data, "scores"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault, monkeypatch):
    plant, name = FAULTS[fault]
    plant(monkeypatch)
    try:
        worst, _ = farthest(name, None, "add-remove")
    except Violation:
        return
    assert worst > 1 + 1e-6
