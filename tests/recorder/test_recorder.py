"""What a private run takes from data it takes by its primitives, and no more than it says.

Runs are recorded on a table and replayed on its neighbours (`recorder.Recorder`). Then what is
published is the same to the last bit, parameters of all primitives are equal, and inputs lie apart
by what the guarantee allows, all primitives together.
"""

import functools
import itertools
import re
from unittest import mock

import numpy as np
import pytest
from recorder.recorder import Recorder, Violation, moved, same

import privgram as pg
from privgram import stream as running
from privgram.drawing import draws
from privgram.noise import symmetric_gaussian

N = 4000
LEVELS = ["a", "b", "c"]
BASE = {"x": (-3, 3), "z": (-3, 3), "g": LEVELS, "y": (-8, 8)}
COLUMNS = pg.Columns(BASE, intercept=True, missing="drop")
COUNTS = pg.Columns({**BASE, "y": (0, 8)}, intercept=True, missing="drop")
BINARY = pg.Columns({**BASE, "y": bool}, intercept=True, missing="drop")


def made(seed=0, n=N):
    """A table with a tail, so that looks teach something and clip something."""
    rng = np.random.default_rng(seed)
    x = rng.standard_t(3, n)
    z = 0.8 * x + 0.1 * rng.standard_normal(n)
    g = rng.integers(0, 3, n)
    y = x - z + 0.2 * g + rng.standard_t(4, n) * 0.3
    who = rng.integers(0, n // 4, n)
    return {"x": x, "z": z, "g": np.array(LEVELS, object)[g], "y": y, "who": who}


def edited(table, at, **values):
    new = {name: column.copy() for name, column in table.items()}
    for name, value in values.items():
        new[name][at] = value
    return new


def without(table, at):
    return {name: np.delete(column, at) for name, column in table.items()}


#: What may stand in the place of a row.
ROWS = [
    {"x": 3.0, "z": -3.0, "g": "b", "y": 8.0},
    {"x": 1e300, "z": -1e300, "y": -1e300},
    {"x": np.nan},
    {"y": -np.inf, "z": np.inf},
    {"g": "nobody"},
    {"x": 0.0, "z": 0.0, "y": 0.0},
    {"g": "a"},
]


def neighbours(adjacency, table, seed):
    """Tables that differ from one in a row."""
    rng = np.random.default_rng(seed)
    at = int(rng.integers(len(table["x"])))
    far = int(np.argmax(np.abs(table["y"])))
    if adjacency == "add-remove":
        for row in (at, far):
            yield without(table, row)
        for values in ROWS:
            new = {name: np.append(column, column[at]) for name, column in table.items()}
            yield edited(new, len(new["x"]) - 1, **values)
        return
    for row, values in zip((at, far, *rng.integers(0, N, 5)), ROWS, strict=True):
        yield edited(table, int(row), **values)


def persons(adjacency, table, seed):
    """Tables that differ from one in all rows of a person."""
    rng = np.random.default_rng(seed)
    for i, whose in enumerate(rng.choice(table["who"], 4, replace=False)):
        at = np.flatnonzero(table["who"] == whose)
        if adjacency == "add-remove":
            yield without(table, at)
        elif i % 2:
            yield edited(table, at, x=3.0, z=-3.0, y=8.0)
            yield edited(table, at, x=np.nan)
        else:
            yield edited(table, at, g="c")
            yield edited(without(table, at[1:]), at[0], x=3.0, g="c") if len(at) > 1 else table


def release(table, rng, adjacency, *, columns=COLUMNS, mechanism=None, **options):
    if "unit" not in options and "by" not in options:
        table = {name: column for name, column in table.items() if name != "who"}
    if "by" in options:
        names = ("x", "z", "y", "g") + ("who",) * ("unit" in options)
        table = {name: table[name] for name in names}
    given = {"epsilon": 1.0, "delta": 1e-6, "adjacency": adjacency, "rng": rng}
    given |= {name: options.pop(name) for name in ("epsilon", "delta") if name in options}
    return pg.release(table, columns, mechanism=mechanism, **given, **options)


def modelled(table, rng, adjacency, family="binomial", epsilon=1.0, unit=None):
    columns = BINARY if family == "binomial" else COUNTS
    table = {**table, "y": table["y"] > 0.3 if family == "binomial" else np.abs(table["y"])}
    given = {"adjacency": adjacency, "rng": rng, "family": family, "unit": unit}
    return pg.regress(table, "y ~ x + g", columns, epsilon, 1e-6, **given)


def regress(table, rng, adjacency, formula="y ~ x + g", epsilon=1.0, **options):
    given = {"adjacency": adjacency, "rng": rng, **options}
    return pg.regress(table, formula, COLUMNS, epsilon, 1e-6, **given)


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
#: Persons have a few rows.
BY_WHO = {"unit": pg.Unit("who", bound=3.0, missing="drop")}

#: What is run, and whether units are protected.
RUNS = {
    "one look": functools.partial(release, mechanism=pg.AnalyzeGauss()),
    "triangular": functools.partial(release, mechanism=pg.AnalyzeGauss(noise="triangular")),
    "looks": functools.partial(release, mechanism=pg.Refined()),
    "looks, for components": functools.partial(release, mechanism=pg.Refined(purpose="components")),
    "groups": functools.partial(release, mechanism=pg.AnalyzeGauss(), **BY_G),
    "units": functools.partial(release, mechanism=pg.AnalyzeGauss(), **BY_WHO),
    "units by group": functools.partial(
        release, mechanism=pg.AnalyzeGauss(), **BY_G, unit=pg.Unit("who", bound=1.0, missing="drop")
    ),
    "logistic": modelled,
    "counts": functools.partial(modelled, family="poisson"),
    "logistic of units": functools.partial(
        modelled, unit=pg.Unit("who", rows=6, missing="drop"), epsilon=4.0
    ),
    "scores": regress,
    "scores of units, chosen": functools.partial(
        regress, unit=pg.Unit("who", missing="drop"), epsilon=4.0
    ),
    "scores of units": functools.partial(
        regress, unit=pg.Unit("who", rows=6, missing="drop"), epsilon=4.0
    ),
    "bounded scores": functools.partial(regress, loss="huber"),
    "scores by level": functools.partial(regress, formula="y ~ x + z | g"),
    "study": functools.partial(studied, mechanism=pg.AnalyzeGauss()),
    "study by level": functools.partial(studied, by="g", mechanism=pg.AnalyzeGauss()),
    "study, scores by level": functools.partial(studied, formula="y ~ x + z | g"),
    "second moment": functools.partial(regress, formula="y ~ x + z + g", epsilon=0.2),
}


def published(result):
    """All that a result shows, but for what was drawn when."""
    if hasattr(result, "values") and not hasattr(result, "matrix"):
        return [published(one) for one in result.values()]
    if hasattr(result, "_header"):
        header = re.sub("id': '[0-9a-f]+'", "", repr(result._header()))  # of a bound, by chance
        return [header, getattr(result, "matrix", None)]
    return [repr(result), getattr(result, "matrix", None)]


def ratio_of(result):
    if hasattr(result, "values") and not hasattr(result, "matrix"):
        return next(iter(result.values())).privacy.sensitivity_ratio
    return result.privacy.sensitivity_ratio


def recorded(run, adjacency, table, seed=1):
    with Recorder(seed).watching() as recorder:
        result = run(table, recorder.rng, adjacency)
    assert recorder.primitives
    return recorder, result


def replayed(run, adjacency, table, recorder, result, seed=1):
    """How far apart the inputs are, squared, in deviations; Violation if anything else is."""
    with Recorder(seed, recorder.primitives).watching() as again:
        other = run(table, again.rng, adjacency)
    if len(again.primitives) != len(recorder.primitives):
        raise Violation("the neighbour has fewer primitives")
    if not same(again.rng.log, recorder.rng.log):
        raise Violation("something else was drawn on the neighbour")
    if not same(published(other), published(result)):
        raise Violation("what is published is another on the neighbour")
    return sum(map(moved, recorder.primitives, again.primitives))


def farthest(name, adjacency, seed=0):
    """The largest distance of neighbours in parts of what is allowed, and how many were tried."""
    run, table = RUNS[name], made(seed)
    recorder, result = recorded(run, adjacency, table)
    others = persons if "units" in name else neighbours
    distances = [
        replayed(run, adjacency, other, recorder, result)
        for other in others(adjacency, table, seed)
    ]
    return np.sqrt(max(distances)) / ratio_of(result), len(distances)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("name", RUNS)
def test_a_neighbour_moves_the_primitives_and_nothing_else(name, adjacency):
    worst, pairs = farthest(name, adjacency)
    assert pairs >= 4
    assert worst <= 1 + 1e-9
    assert worst > 0.02  # or the neighbours say nothing


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 7))
def test_more_tables_and_more_neighbours(seed):
    pairs = 0
    for name in RUNS:
        for adjacency in ("replace", "add-remove"):
            worst, tried = farthest(name, adjacency, seed)
            assert worst <= 1 + 1e-9, (name, adjacency)
            pairs += tried
    assert pairs >= 140


def of_lengths(table, rng, adjacency, **options):
    """A bound that is chosen by the table, and a release."""
    return release(
        table,
        rng,
        adjacency,
        mechanism=pg.AnalyzeGauss(),
        bound=pg.columns.Auto(0.2),
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_a_bound_that_is_chosen(adjacency):
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
        if old.kind == "wisharts":  # in the moment's integers, of rows of 2^20
            difference = difference * (COLUMNS.bound / 2**20) ** 2
        values = np.linalg.eigvalsh(difference) / COLUMNS.bound**2
        assert (np.abs(values) > 1e-6).sum() <= (2 if adjacency == "replace" else 1)
        assert (values > 1e-6).sum() <= 1
        assert (values < -1e-6).sum() <= 1
        assert np.abs(values).max() <= 1 + 1e-5


# --- streams ----------------------------------------------------------------------------------


MONTHS = 3


def streamed(table, rng, adjacency, path, unit=None):
    """Releases after each month, windows of them, and the noises of the months.

    A row is of the month that its person is of.
    """
    options = {"epsilon": 1.0, "delta": 1e-6}
    drawn = []

    def draw(*given):
        drawn.append(symmetric_gaussian(*given))
        return drawn[-1]

    names = [*BASE, *(("who",) if unit else ())]
    table = {name: column for name, column in table.items() if name in {*names, "who"}}
    months = [
        {name: table[name][table["who"] % MONTHS == month] for name in names}
        for month in range(MONTHS)
    ]
    study = pg.Study(months[0], COLUMNS, **options, adjacency=adjacency, unit=unit)
    with (
        mock.patch.object(running.random, "resolve", return_value=(rng, False)),
        mock.patch.object(running.secrets, "token_hex", return_value="0" * 32),
        mock.patch.object(running, "symmetric_gaussian", draw),
    ):
        stream = pg.Stream(study, MONTHS, **options, path=path)
        made = [stream.release(month) for month in months]
    return [*made, stream.window(), stream.window(2), stream.upto(1)], drawn


def apart(old, new, drawn, std):
    """How far two runs of a stream lie apart, in deviations of the noise of the months, squared.

    The mixture of the months' noises, by which each release has noise, is read off the draws.
    """
    above = np.triu_indices(len(drawn[0]))
    own = np.array([one[above] for one in drawn])
    noise = np.array([m.noise[above] for m in old])
    mixture = np.linalg.lstsq(own.T, noise.T)[0].T
    moved = np.array([(n.exact - m.exact)[above] for m, n in zip(old, new, strict=True)])
    moved = np.linalg.solve(mixture, moved)
    deviation = np.where(above[0] == above[1], np.sqrt(2.0), 1.0) * std
    return float(((moved / deviation) ** 2).sum())


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize(
    "unit", [None, pg.Unit("who", rows=6, missing="drop")], ids=["rows", "units"]
)
def test_a_stream(unit, adjacency, tmp_path):
    """A row of a month, or a person, in, out or changed moves what all months release by one."""
    table, number = made(), itertools.count()

    def run(of, rng):
        return streamed(of, rng, adjacency, tmp_path / f"{next(number)}.stream", unit)

    with Recorder(1).watching() as recorder:
        result, drawn = run(table, recorder.rng)
    assert [primitive.kind for primitive in recorder.primitives] == ["matrix"] * MONTHS
    allowed = result[0].privacy.sensitivity_ratio
    std = result[0].parameters["stream_std"]
    distances = []
    for other in (persons if unit else neighbours)(adjacency, table, 0):
        with Recorder(1, recorder.primitives).watching() as again:
            changed, _ = run(other, again.rng)
        assert same(again.rng.log, recorder.rng.log)
        assert same([published(one) for one in changed], [published(one) for one in result])
        distances.append(apart(recorder.primitives, again.primitives, drawn, std))
    assert len(distances) >= 4
    assert 0.02 < np.sqrt(max(distances)) / allowed <= 1 + 1e-9


# --- faults that it finds -----------------------------------------------------------


def planted(monkeypatch, fault):
    if fault == "half the sensitivity":
        std_at = draws.Looks.std_at
        monkeypatch.setattr(
            draws.Looks, "std_at", lambda looks, bound, share: std_at(looks, bound / 1.5, share)
        )
    elif fault == "a parameter that depends on data":
        real = draws.Looks._noisy

        def noisy(looks, exact, std, share):
            return real(looks, exact, std * (1 - 1e-9 * float(exact.sum())), share)

        monkeypatch.setattr(draws.Looks, "_noisy", noisy)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["half the sensitivity", "a parameter that depends on data"])
def test_planted_faults_are_found(fault, monkeypatch):
    planted(monkeypatch, fault)
    try:
        worst, _ = farthest("looks", "add-remove")
    except Violation:
        return
    assert worst > 1 + 1e-6
