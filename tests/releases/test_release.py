"""Saving, loading and cutting down a release; what it must not show."""

import dataclasses
import functools
import hashlib
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from support.helpers import make_release, refuses

import privgram as pg
from privgram._base.saved import DamagedFile
from privgram.noise import GaussianLaw
from privgram.releases import record
from privgram.releases.record import RELEASE_FORMAT


@pytest.fixture
def release():
    rng = np.random.default_rng(1)
    columns = pg.Columns({"a": (0, 1), "b": (-2, 5)}, intercept=True, missing="drop")
    matrix = rng.standard_normal((3, 3))
    return make_release(matrix @ matrix.T, columns.names, n_rows=12, columns=columns)


def assert_same(a, b):
    assert np.array_equal(a.matrix, b.matrix)
    assert (a.sketch is None) == (b.sketch is None)
    if a.sketch is not None:
        assert np.array_equal(a.sketch, b.sketch)
    for field in dataclasses.fields(a):
        if field.name not in ("matrix", "sketch"):
            assert getattr(a, field.name) == getattr(b, field.name), field.name


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize("sketch", [False, True])
def test_round_trip_is_exact(tmp_path, release, suffix, sketch):
    if sketch:
        rows = np.random.default_rng(2).standard_normal((5, 3))
        release = dataclasses.replace(release, sketch=rows, reproducible=True)
    path = tmp_path / f"gram{suffix}"
    release.save(path)
    assert_same(pg.load(path), release)
    assert list(tmp_path.iterdir()) == [path]


def test_other_suffixes_are_refused(tmp_path, release):
    refuses(lambda: release.save(tmp_path / "gram.pickle"), ValueError, r"\.json or \.npz")
    assert not list(tmp_path.iterdir())


def test_later_version_is_refused(tmp_path, release):
    path = tmp_path / "gram.json"
    release.save(path)
    payload = json.loads(path.read_text())
    path.write_text(json.dumps(payload | {"version": 3}))
    refuses(lambda: pg.load(path), ValueError, "version 3")


@pytest.mark.parametrize("text", ["{}", "[]", "3", "null", "", '{"format": "other"}', "[" * 10**5])
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "gram.json"
    path.write_text(text)
    refuses(lambda: pg.load(path), ValueError, "not a release")


def test_marginal(release):
    part = release.marginal(["intercept", 0])
    assert part.names == ("intercept", "a")
    assert np.array_equal(part.matrix, release.matrix[np.ix_([2, 0], [2, 0])])
    assert (part.epsilon, part.delta, part.privacy) == (
        release.epsilon,
        release.delta,
        release.privacy,
    )


@pytest.mark.parametrize(
    ("names", "message"), [([], "at least one"), (["a", "a"], "once"), (["z"], "no column 'z'")]
)
def test_marginal_checks_columns(release, names, message):
    refuses(lambda: release.marginal(names), ValueError, message)


def test_matrix_is_read_only(release):
    with pytest.raises(ValueError, match="read-only"):
        release.matrix[0, 0] = 1.0


def test_repr_shows_the_guarantee_and_warns(release):
    assert "epsilon=1" in repr(release)
    assert "REPRODUCIBLE" not in repr(release)
    marked = dataclasses.replace(release, reproducible=True, condition="pigs fly")
    assert "REPRODUCIBLE" in repr(marked)
    assert "only if pigs fly" in repr(marked)


@pytest.mark.parametrize("sketch", [False, True])
def test_form_of_version_2_stays_as_it_is(tmp_path, release, sketch):
    """Or files that are there could not be read; by hand, from what both forms hold."""
    if sketch:
        rows = np.random.default_rng(2).standard_normal((5, 3))
        release = dataclasses.replace(release, sketch=rows)
    release.save(tmp_path / "gram.json")
    release.save(tmp_path / "gram.npz")
    payload = json.loads((tmp_path / "gram.json").read_text())
    arrays = {n: np.array(payload["release"].pop(n)) for n in ("matrix", "sketch")[: 1 + sketch]}
    with np.load(tmp_path / "gram.npz", allow_pickle=False) as archive:
        members = dict(archive)
    packed = json.loads(str(members.pop("header")))
    assert members.keys() == arrays.keys()
    assert all(np.array_equal(members[name], arrays[name]) for name in arrays)
    for form in (payload, packed):
        total = hashlib.sha256(json.dumps(form["release"], sort_keys=True).encode())
        for name, array in arrays.items():
            total.update(f"{name} {array.shape} ".encode() + array.astype("<f8").tobytes())
        assert form.keys() == {"format", "version", "sha256", "release"}
        assert (form["format"], form["version"]) == ("privgram-release", 2)
        assert form["sha256"] == total.hexdigest()
    del payload["release"]["derived"]
    assert packed["release"] == payload["release"]


@pytest.mark.parametrize(
    ("epsilon", "delta", "adjacency", "words"),
    [
        (1.0, 1e-6, "replace", None),
        (20.0, 9e-4, "replace", None),
        (1000.0, 1e-6, "replace", "e\\^1000 times as likely"),
        (1.0, 0.5, "replace", "delta=0.5 promises little"),
        (1.0, 0.5, "add-remove", "delta=0.5 promises little"),
        (1.0, 2e-3, "replace", "1 / rows"),
        (1.0, 2e-3, "add-remove", None),  # their number is private, and a warning would tell it
    ],
)
def test_guarantee_that_protects_hardly_anyone_is_warned_of(
    rng, tmp_path, epsilon, delta, adjacency, words
):
    moment = pg.second_moment(rng.uniform(-1, 1, (1000, 3)), bound=2.0)
    ledger = pg.Ledger(tmp_path / "study.ledger", 2000.0, 0.9, adjacency)
    call = functools.partial(
        pg.release, moment, epsilon=epsilon, delta=delta, adjacency=adjacency, ledger=ledger
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if words is None:
            call()
            return
        with pytest.raises(UserWarning, match=words):  # before anything is spent
            call()
        assert not ledger.entries
        call = functools.partial(call, rng=rng)  # an experiment: not private, and marked so
        assert call().reproducible


def test_warning_after_a_bound_was_chosen_is_no_error(tmp_path):
    """What the choice cost would be lost."""
    ledger = pg.Ledger(tmp_path / "study.ledger", 2000.0, 0.9)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        pg.release(ROWS, epsilon=40.0, delta=1e-6, bound=pg.PrivateBound(10.0), ledger=ledger)
    assert ["protects hardly anyone" in str(one.message) for one in caught] == [True]
    assert len(ledger.entries) == 2


WEAK = {"epsilon": 1000.0, "delta": 1e-6}
ROWS = np.random.default_rng(0).uniform(-1, 1, (300, 3))
NAMED = {"x": ROWS[:, 0], "y": ROWS[:, 1]}


def _study(**more):
    return pg.Study(NAMED, {"x": (-1, 1), "y": (-1, 1)}, **WEAK, **more)


@pytest.mark.parametrize(
    "call",
    [
        lambda: pg.release(ROWS, bound=2.0, **WEAK),
        lambda: pg.release(pg.second_moment(ROWS, bound=2.0), **WEAK),
        lambda: pg.release(
            pg.second_moment(ROWS, bound=2.0), None, 1000.0, 1e-6, mechanism=pg.AnalyzeGauss()
        ),
        lambda: _study().release(1000.0),
        lambda: _study().regress("y ~ x", 1000.0),
        lambda: pg.release(ROWS, bound=pg.PrivateBound(1e-3), epsilon=1.0, delta=1e-6),
    ],
)
def test_warning_shows_the_line_of_the_caller(call):
    with pytest.warns(UserWarning, match="protects hardly|too few") as caught:
        call()
    assert {Path(warning.filename) for warning in caught} == {Path(__file__)}


def test_epsilon_beyond_floating_point_is_one_line():
    with pytest.raises(ValueError, match="beyond what floating point can calibrate"):
        pg.AdditiveWishart().calibrate(3, 2.0, 1e308, 1e-6)


@pytest.mark.parametrize("law", [GaussianLaw(0.0, 0.0), GaussianLaw(1.0, 0.0)])
def test_file_without_noise_is_no_release(tmp_path, law):
    """Its checksum may hold: no mechanism makes it, and no interval of it would mean anything."""
    make_release(np.eye(2), "ab", law).save(tmp_path / "it.json")
    refuses(lambda: pg.load(tmp_path / "it.json"), ValueError, "of the noise must be positive")


#: Two factors, between whose levels a second moment has zeros.
FACTORS = pg.Columns({"f": ["a", "b", "c"], "x": (0, 1), "g": ["u", "v"]}, intercept=True)
LEVELS = {"f": list("abca"), "x": [0.1, 0.5, 0.2, 0.9], "g": list("uvuu")}


def of_levels(mechanism=None, **options):
    rng = np.random.default_rng(3)
    mechanism = mechanism or pg.AnalyzeGauss()
    return pg.release(LEVELS, FACTORS, 50.0, 1e-2, mechanism=mechanism, rng=rng, **options)


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_zeros_between_levels_are_not_saved(tmp_path, suffix):
    release = of_levels(pg.AnalyzeGauss(noise="triangular"))
    places = [release.names.index(name) for name in ("x", "f[c]", "g[u]", "f[a]", "g[v]")]
    apart = release.marginal(places)  # whose levels are not beside each other
    for one, entries in ((release, 36 - 6 - 2), (apart, 25 - 4)):
        path = tmp_path / f"it.{suffix}"
        one.save(path)
        assert RELEASE_FORMAT.read(path)[1]["matrix"].shape == (entries,)
        loaded = pg.load(path)
        assert np.array_equal(loaded.matrix, one.matrix)
        assert loaded.noise_sources == one.noise_sources


def test_entries_that_a_repair_has_filled_are_saved(tmp_path):
    release = of_levels(pg.AnalyzeGauss(repair="project"))
    assert not release._zeros
    release.save(tmp_path / "it.json")
    assert np.array_equal(pg.load(tmp_path / "it.json").matrix, release.matrix)


def test_releases_of_groups_leave_out_the_zeros_of_all(tmp_path):
    rows = {name: [*values, *values] for name, values in LEVELS.items()} | {"h": list("nnnnssss")}
    groups = pg.Groups("h", ["n", "s"])
    made = pg.release(rows, FACTORS, 50.0, 1e-2, mechanism=pg.AnalyzeGauss(), by=groups)
    made.save(tmp_path / "it.json")
    loaded = pg.load(tmp_path / "it.json")
    assert all(np.array_equal(loaded[group].matrix, made[group].matrix) for group in "ns")


@pytest.mark.parametrize(
    "zeros", [[[0, 1]], [[0, 1, 2], [2, 4]], [[0, 1, 2], [4, 6]], [[0, 1, 2], [4, "5"]], [[]], 3]
)
def test_other_zeros_than_the_matrix_has_are_refused(tmp_path, zeros):
    release = of_levels()
    header = release._header() | {"zeros": zeros}
    RELEASE_FORMAT.save(tmp_path / "it.json", header, release._arrays())
    refuses(lambda: pg.load(tmp_path / "it.json"), DamagedFile, "can read")


@pytest.mark.parametrize(("d", "zeros"), [(30_000, [[0, 1]]), (40_000, [[]]), (40_000, [[0, 1]])])
def test_a_short_file_takes_no_large_matrix(monkeypatch, d, zeros):
    monkeypatch.setattr(record, "_stored", lambda d, zeros: pytest.fail("places were made"))
    monkeypatch.setattr(record, "zero_matrix", lambda d: pytest.fail("a matrix was made"))
    refuses(lambda: record.unpacked(np.zeros(3), d, zeros), ValueError, "zeros")
