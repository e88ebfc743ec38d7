"""A saved release that was edited, under a checksum that holds, is refused or says the same."""

import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram._base.saved import DamagedFile, digest
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart
from privgram.releases.record import RELEASE_FORMAT

COLUMNS = pg.Columns({"a": (-1, 2), "y": (-4, 6), "b": (-3, 1)}, intercept=True)

MECHANISMS = [
    pg.AnalyzeGauss(),
    pg.AnalyzeGauss(repair="shift", noise="triangular"),
    pg.AdditiveWishart(),
    pg.MatrixLaplace(),
    GaussianSketch(2000),
    InverseWishart(2000),
    InverseGauss(1500.0),
]

#: What only the table knows, or the analyst: nothing else in the file says it.
KNOWN = {"matrix", "names", "derived"}

OTHERS = (0, -1, -0.5, "NaN", "Infinity", math.nan, math.inf, None, True, "text", [], {})


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    a, b = rng.uniform(-1, 2, 20_000), rng.uniform(-3, 1, 20_000)
    return np.column_stack([a, 1 + a - 0.5 * b + rng.uniform(-1, 1, 20_000), b])


def leaves(value, path=()):
    """All places in a header that hold no further ones."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inner:
        if isinstance(one, (dict, list)) and one:
            yield from leaves(one, (*path, key))
        else:
            yield *path, key


def edits(header):
    """Headers that differ at one place: its path, what stands there, and the header."""
    for path in leaves(header):
        if path[0] in KNOWN:
            continue
        inner = header
        for step in path[:-1]:
            inner = inner[step]
        old = inner[path[-1]]
        number = isinstance(old, (int, float)) and not isinstance(old, bool)
        sizes = (2 * old, old / 2, 1e-9 * old) if number else ()
        for new in (*OTHERS, *sizes):
            if new == old and isinstance(new, bool) == isinstance(old, bool):
                continue
            edited = copy.deepcopy(header)
            inner = edited
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = new
            yield path, new, edited


def inferred(release):
    """What inference uses of a release and what it makes of that, as text."""
    fit = release.regress("y", ["a", "b"])
    used = release.noise.to_dict(), release.n_rows, release.n_units, release.names
    return json.dumps([used, list(fit.params), list(fit.bse), np.asarray(fit.conf_int()).tolist()])


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_edited_release_is_refused_or_says_the_same(mechanism, table, tmp_path):
    path = tmp_path / "release.json"
    pg.release(
        pg.second_moment(table, columns=COLUMNS),
        epsilon=30.0,
        delta=1e-6,
        mechanism=mechanism,
        rng=np.random.default_rng(7),
    ).save(path)
    saved = json.loads(path.read_text())
    arrays = {"matrix": np.array(saved["release"].pop("matrix"))}
    expected = inferred(pg.load(path))
    tried, taken = 0, []
    for where, new, header in edits(saved["release"]):
        tried += 1
        sealed = saved | {
            "sha256": digest(header, arrays),
            "release": header | {"matrix": arrays["matrix"].tolist()},
        }
        path.write_text(json.dumps(sealed))
        try:
            found = pg.load(path)
        except DamagedFile:
            continue
        if inferred(found) != expected:
            taken.append((where, new))
    assert tried > 250
    assert not taken


CLIPPING = {"clipping_bias": 0.2, "clipped_rows": 9.0, "clipped_rows_std": 4.0}


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"clipped_rows": -9.0}, "clipped_rows must be finite and not negative"),
        ({"clipping_bias": True}, "clipping_bias must be a number"),
        ({"clipped_rows_std": None}, "clipped_rows_std must be a number"),
        ({"clipped_rows": ...}, "all is known, or nothing"),
    ],
)
def test_clipped_rows_that_were_edited_are_refused(table, tmp_path, edit, said):
    """Summaries print them, and standard errors of moments are refused by them."""
    release = pg.release(table, COLUMNS, 1.0, 1e-6, mechanism=pg.AnalyzeGauss())
    parameters = release.parameters | CLIPPING
    path = tmp_path / "release.json"
    replace(release, parameters=parameters).save(path)
    assert "about 9 rows" in str(pg.load(path).regress("y").summary())
    edited = {name: x for name, x in (parameters | edit).items() if x is not ...}
    replace(release, parameters=edited).save(path)
    refuses(lambda: pg.load(path), DamagedFile, said)


@pytest.mark.parametrize("size", [0.5, 2.0])
def test_noise_that_was_edited_everywhere_is_not_what_the_guarantee_needs(table, tmp_path, size):
    release = pg.release(
        pg.second_moment(table, columns=COLUMNS), None, 1.0, 1e-6, mechanism=pg.AnalyzeGauss()
    )
    header = release._header() | {
        "noise": {
            "law": "GaussianLaw",
            "std": size * release.noise.std,
            "std_diagonal": size * release.noise.std_diagonal,
            "added": 0.0,
        },
        "parameters": {name: size * value for name, value in release.parameters.items()},
    }
    RELEASE_FORMAT.save(tmp_path / "it.json", header, {"matrix": release.matrix})
    refuses(lambda: pg.load(tmp_path / "it.json"), DamagedFile, "not what the guarantee needs")


@pytest.fixture(scope="module", params=[None, "who"])
def fitted(request, table, tmp_path_factory):
    """A saved fit: its path, what the file has, and the arrays."""
    path = tmp_path_factory.mktemp("fits") / "fit.json"
    rows = dict(zip("ayb", table[:6000].T, strict=True))
    unit = None if request.param is None else pg.Unit("who", max_rows=3)
    rows |= {} if unit is None else {"who": np.arange(6000) // 3}
    rng = np.random.default_rng(1)
    pg.regress(rows, "y ~ a + b", COLUMNS, 4.0, 1e-6, unit=unit, rng=rng).save(path)
    saved = json.loads(path.read_text())
    names = ("solution", "sampling", "noise", "unidentified")
    return path, saved, {name: np.array(saved["fit"].pop(name)) for name in names}


def resealed(saved, path, arrays, **header):
    """The fit with other values, under a checksum that holds."""
    header, path = saved["fit"] | header, path.with_name("edited.json")
    plain = header | {name: array.tolist() for name, array in arrays.items()}
    path.write_text(json.dumps(saved | {"sha256": digest(header, arrays), "fit": plain}))
    return path


@pytest.mark.slow
def test_fit_with_a_checksum_is_read(fitted):
    path, saved, arrays = fitted
    assert pg.load(resealed(saved, path, arrays)).bse.equals(pg.load(path).bse)


@pytest.mark.parametrize("name", ["sampling", "noise"])
@pytest.mark.parametrize("times", [0, -1])
def test_errors_of_a_fit_that_were_edited_away_are_refused(fitted, name, times):
    path, saved, arrays = fitted
    with pytest.raises(DamagedFile):
        pg.load(resealed(saved, path, arrays | {name: times * arrays[name]}))


@pytest.mark.parametrize("edit", [{"epsilon": 8.0}, {"epsilon": 2.0}, {"delta": 2e-6}, {"delta": 0},
                                  {"n_rows": 2.0}, {"adjacency": "add-remove"}])  # fmt: skip
def test_guarantee_of_a_fit_that_was_edited_is_refused(fitted, edit):
    path, saved, arrays = fitted
    with pytest.raises(DamagedFile):
        pg.load(resealed(saved, path, arrays, **edit))


def test_noise_of_a_fit_that_is_next_to_nothing_is_refused(fitted):
    path, saved, arrays = fitted
    with pytest.raises(DamagedFile, match="noise"):
        pg.load(resealed(saved, path, arrays | {"noise": 1e-7 * arrays["noise"]}))
