"""No release draws from anything but a fresh cryptographic generator, and none keeps it."""

import copy
import gc
import json
import logging
import multiprocessing
import os
import pickle
import random
import sys
import types
from functools import partial

import numpy as np
import pytest

import privgram as pg
import privgram.secret.generators
from privgram._core.draws import ChaCha20
from privgram._core.rows import RowAccumulator
from privgram.disclosure.norm_bound import BoundSelection
from privgram.papers import hardt_roth as low_rank
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart
from privgram.papers.zhou_ligett_wasserman import compress
from privgram.scan.request import ScanRequest

pytestmark = pytest.mark.os_entropy

TABLE = np.random.default_rng(0).uniform(-1, 1, (400, 5))
WIDE = np.random.default_rng(1).integers(0, 2, (40, 60)).astype(float)
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def by(mechanism, moment=None):
    moment = moment or pg.second_moment(TABLE, bound=2.3)
    return partial(pg.release, moment, mechanism=mechanism, **BUDGET)


def estimator():
    estimators = pytest.importorskip("privgram.estimators")
    model = estimators.PrivateRidge(columns=(-2.3, 2.3))
    return model.fit(TABLE[:, :4], TABLE[:, 4]).release_


def norm_bounds():
    """Six, each from some 960 nearly equally likely ones: they do not repeat by chance."""
    scan = ScanRequest.of(TABLE, None, None, None, None, None, False)
    choice = BoundSelection(pg.PrivateBound(1e-3), scan, "add-remove")
    counts = choice.count()
    return [choice.draw(counts).bound for _ in range(6)]


# Everything that draws by default, as calls without arguments.
DRAWS = {
    **{
        repr(mechanism): by(mechanism)
        for mechanism in (
            pg.AnalyzeGauss(),
            pg.AnalyzeGauss(noise="triangular"),
            pg.AnalyzeGauss(repair="shift"),
            pg.AnalyzeGauss(repair="project"),
            pg.AdditiveWishart(),
            pg.AdditiveWishart(debias=False),
            pg.MatrixLaplace(),
            pg.MatrixLaplace(repair="feasible"),
            GaussianSketch(100),
            GaussianSketch(100, adaptive=True),
            GaussianSketch(100, keep_rows=True),
            InverseWishart(),
            InverseWishart(dof=100, adaptive=True),
            InverseGauss(eigenvalue_floor=50.0),
        )
    },
    # What is added to a matrix that is not positive definite is simulated, by a fixed seed.
    "shift of no rows": partial(
        pg.release,
        pg.SecondMoment(5, bound=2.3),
        mechanism=pg.AnalyzeGauss(repair="shift"),
        **BUDGET,
    ),
    "low_rank.approximate": partial(low_rank.approximate, WIDE, 2, **BUDGET),
    "low_rank.range_finder": partial(low_rank.range_finder, WIDE, 2, None, **BUDGET),
    "low_rank.project": partial(low_rank.project, WIDE, np.eye(40)[:, :3], **BUDGET),
    "low_rank.randomised_response": partial(low_rank.randomised_response, WIDE, 2, **BUDGET),
    "compress": partial(compress, TABLE, 30),
    "chosen bound": norm_bounds,
    "PrivateRidge": estimator,
}
NEEDS = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)

# Everything in numpy.random that draws or seeds, but for Generator, which only transforms.
FORBIDDEN = [
    name
    for name in dir(np.random)
    if callable(getattr(np.random, name))
    and not name.startswith("_")
    and name not in ("Generator", "BitGenerator", "test")
]

# These simulate public laws once a matrix is released, by fixed seeds: post-processing.
AFTERWARDS = {
    "privgram.adaptive.rounds",
    "privgram.disclosure.repairs",
    "privgram.multivariate.synthetic",
    "privgram.multivariate.variables",
    "privgram.regression.summary",
}


def numbers(result):
    """What was drawn, as bytes."""
    for name in ("matrix", "right", "table"):
        if hasattr(result, name):
            return np.asarray(getattr(result, name)).tobytes()
    return np.asarray(result, dtype=float).tobytes()


@pytest.mark.slow
@NEEDS
def test_no_draw_touches_a_global_or_seeded_generator(draw, monkeypatch):
    draw()  # whatever is imported late may look at these classes
    ours = random.getstate()
    before = np.random.get_state()  # noqa: NPY002
    assert {"seed", "normal", "default_rng", "SeedSequence", "PCG64"} <= set(FORBIDDEN)
    for name in set(FORBIDDEN) - {"get_state", "RandomState"}:  # the test's own, and a class
        monkeypatch.setattr(np.random, name, forbidding(name))
    made = []
    monkeypatch.setattr(
        "privgram.secret.generators.ChaCha20",
        recorded(privgram.secret.generators.ChaCha20, made),
    )
    draw()
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert ours == random.getstate()
    assert made
    assert all(isinstance(bits, ChaCha20) for bits in made)


def forbidding(name):
    real = getattr(np.random, name)

    def forbidden(*args, **options):
        if sys._getframe(1).f_globals["__name__"] in AFTERWARDS:
            return real(*args, **options)
        raise AssertionError(f"numpy.random.{name} was used")

    return forbidden


def recorded(function, made):
    def record():
        made.append(function())
        return made[-1]

    return record


@NEEDS
def test_global_seed_does_not_repeat_a_draw(draw):
    drawn = []
    for _ in range(2):
        np.random.seed(7)  # noqa: NPY002
        random.seed(7)
        drawn.append(numbers(draw()))
    assert drawn[0] != drawn[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # from Python 3.12
@pytest.mark.parametrize(
    "method", sorted({"fork", "spawn"} & set(multiprocessing.get_all_start_methods()))
)
def test_processes_draw_noise_of_their_own(method):
    moment = pg.second_moment(TABLE, bound=2.3)
    with multiprocessing.get_context(method).Pool(2) as pool:
        waiting = [pool.apply_async(pg.release, (moment, None, 1.0, 1e-6)) for _ in range(8)]
        drawn = [numbers(result.get(600)) for result in waiting]
    assert len(set(drawn)) == 8


def reachable(start):
    """Every object that a result refers to, classes, functions and modules left aside."""
    skipped = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
    seen, todo = {id(start): start}, [start]
    while todo:
        for other in gc.get_referents(todo.pop()):
            if id(other) not in seen and not isinstance(other, skipped):
                seen[id(other)] = other
                todo.append(other)
    return list(seen.values())


def is_secret(thing):
    return isinstance(thing, (np.random.Generator, pg.SecondMoment, RowAccumulator)) or hasattr(
        thing, "random_raw"
    )


def test_search_finds_what_is_hidden():
    for secret in (ChaCha20(), np.random.default_rng(1), pg.SecondMoment(2, bound=1.0)):
        release = by(pg.AnalyzeGauss())()
        release.parameters["hidden"] = {"deep": [lambda: None, (secret,)]}
        assert any(map(is_secret, reachable(release)))


@NEEDS
def test_no_result_reaches_a_generator_or_a_moment(draw):
    assert not any(map(is_secret, reachable(draw())))


@NEEDS
def test_no_result_log_or_file_holds_the_key(draw, monkeypatch, tmp_path, caplog, capfd):
    keys = []

    real = os.urandom

    def recorded_key(size):
        key = real(size)
        keys.append(bytes(bytearray(key)))  # the other is overwritten
        return key

    monkeypatch.setattr(os, "urandom", recorded_key)
    with caplog.at_level(logging.DEBUG):
        result = draw()
    assert keys
    shown = [pickle.dumps(result), pickle.dumps(copy.deepcopy(result)), repr(result).encode()]
    if isinstance(result, pg.Release):
        for name in ("release.json", "release.npz"):
            result.save(tmp_path / name)
            shown.append((tmp_path / name).read_bytes())
        header = json.loads((tmp_path / "release.json").read_text())["release"]
        assert not any("rng" in name or "seed" in name or "state" in name for name in header)
    out, err = capfd.readouterr()
    shown += [out.encode(), err.encode(), caplog.text.encode()]
    for key in keys:
        number = int.from_bytes(key, "little")
        for text in (key, key[::-1], key.hex().encode(), b"%d" % number, b"%x" % number):
            assert not any(text in where for where in shown)
    assert {record.getMessage() for record in caplog.records} <= {"reading the table"}
