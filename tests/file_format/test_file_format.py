"""The page on the saved file: what it says suffices to read one, without privgram."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.mechanisms import Mechanism
from privgram.noise import NoiseLaw
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart
from privgram.papers.sheffet.published import Published

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "guide" / "file-format.md").read_text(encoding="utf-8").partition("\n## R\n")[0]
READER = DOCS / "release_reader.py"

# Bounds wide enough that no row is clipped, and no column near zero.
COLUMNS = {
    "numbers": pg.Columns({"a": (-1, 2), "yén": (-4, 6), "b": (-3, 1)}, intercept=True),
    "levels": pg.Columns(
        {
            "a": (-1, 2),
            "yén": (-4, 6),
            "sex": ["f", "m"],
            "code": pg.Factor([1, 2, 3], other=True),
            "wage": pg.Log(1, 50),
            "b": (-3, 1),
        },
        intercept=True,
    ),
    "as they are": None,
}


@pytest.fixture(scope="module")
def reader():
    """What the page's program defines."""
    code = READER.read_text(encoding="utf-8")
    imports = re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE)
    assert imports == ["hashlib", "json", "numpy"]
    namespace: dict[str, object] = {}
    exec(code, namespace)
    return namespace


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    n = 20_000
    a, b = rng.uniform(-1, 2, n), rng.uniform(-3, 1, n)
    return {
        "a": a,
        "yén": 1 + a - 0.5 * b + rng.uniform(-1, 1, n),
        "sex": rng.choice(["f", "m"], n),
        "code": rng.integers(1, 5, n),
        "wage": rng.uniform(2, 40, n),
        "b": b,
    }


def numbers(table):
    return np.column_stack([table[name] for name in ("a", "yén", "b")])


#: Every mechanism, each law of noise among what they make.
MECHANISMS = {
    "default": None,
    "AnalyzeGauss": pg.AnalyzeGauss(),
    "shifted": pg.AnalyzeGauss(repair="shift"),
    "triangular": pg.AnalyzeGauss(noise="triangular"),
    "AdditiveWishart": pg.AdditiveWishart(),
    "biased": pg.AdditiveWishart(debias=False),
    "MatrixLaplace": pg.MatrixLaplace(),
    "AdaptiveGaussian": pg.AdaptiveGaussian(),
    "GaussianSketch": GaussianSketch(2000),
    "with rows": GaussianSketch(2000, keep_rows=True),
    "InverseWishart": InverseWishart(2000),
    "InverseGauss": InverseGauss(3000.0),
}


def made(mechanism, columns, adjacency, table):
    bound = {"bound": 8.0} if columns is None else {"columns": columns}
    return pg.release(
        numbers(table) if columns is None else table,
        epsilon=30.0,
        delta=1e-3,
        mechanism=mechanism,
        adjacency=adjacency,
        rng=np.random.default_rng(3),
        **bound,
    )


def compare(reader, release, path, target, few=False):
    """The page's reader of a saved release, and `regress`: the same numbers."""
    release.save(path)
    features = [name for name in release.names if name not in (target, "intercept", "code[1]")]
    fit = pg.load(path).regress(target, features if few else None)
    found = reader["regress"](reader["read"](path), target, fit.design.names)
    coefficients, errors = found
    assert fit.inference.refusal is None
    expected = fit.used if "Intercept" in fit.param_names else fit.used[:-1]
    np.testing.assert_allclose(coefficients, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(errors, fit.bse, rtol=1e-7)
    return pg.load(path).noise


def laws(law):
    """The names of a law and of what it is made of."""
    return {type(law).__name__} | (laws(law.base) if hasattr(law, "base") else set())


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_pages_reader_finds_what_regress_finds(
    reader, table, mechanism, adjacency, columns, tmp_path
):
    if columns == "as they are" and adjacency == "add-remove":
        pytest.skip("nothing has a number of rows to go by")
    if mechanism == "InverseGauss" and columns == "levels":
        pytest.skip("the levels of two factors depend on each other, and it takes an inverse")
    release = made(MECHANISMS[mechanism], COLUMNS[columns], adjacency, table)
    compare(reader, release, tmp_path / "release.json", release.names[1])


def test_reader_meets_every_mechanism_and_every_law(reader, table, tmp_path):
    own = {
        name
        for name, kind in Mechanism.all_kinds().items()
        if not issubclass(kind, Published) and kind.__module__.startswith("privgram.")
    }
    assert {type(each).__name__ for each in MECHANISMS.values() if each} == own
    factors = {"code": pg.Factor([1, 2, 3, 4]), "sex": ["f", "m"]}
    one_factor = pg.Columns({"a": (-1, 2), "code": factors["code"]}, intercept=True)
    cells = pg.Columns({"a": (-1, 2)} | factors, intercept=True)
    releases = [
        made(mechanism, COLUMNS[name], "add-remove", table)
        for mechanism in MECHANISMS.values()
        for name in ("numbers", *(["levels"] if mechanism == pg.AnalyzeGauss() else []))
    ]
    releases += [made(pg.AnalyzeGauss(), each, "add-remove", table) for each in (one_factor, cells)]
    levels = [f"code[{level}]" for level in (1, 2, 3, 4)]
    releases += [releases[-1].marginal([*levels, "a"])]
    releases += [releases[0].marginal(["yén", "a", "intercept"])]
    seen = set()
    for release in releases:
        few = release.names[:4] == tuple(levels)
        seen |= laws(compare(reader, release, tmp_path / "release.json", "a", few))
    assert seen == set(NoiseLaw.kinds)


def test_page_names_every_key_and_law(table, tmp_path):
    release = pg.release(
        pg.second_moment(numbers(table), columns=COLUMNS["numbers"]),
        epsilon=1.0,
        delta=1e-6,
        mechanism=GaussianSketch(5, keep_rows=True),
    )
    release.save(tmp_path / "release.json")
    saved = json.loads((tmp_path / "release.json").read_text())
    rows = re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE)
    schema = json.loads((DOCS / "schema" / "release.schema.json").read_text(encoding="utf-8"))
    assert "{literalinclude} ../schema/release.schema.json" in TEXT
    shown = schema["properties"]["release"], schema["$defs"]["derived"]
    named = re.findall(r"`(\w+)`", " ".join(rows)) + [
        key for one in shown for key in one["properties"]
    ]
    described = {"bounds", "intercept", "missing", "terms", "weights", *saved["release"]["derived"]}
    optional = {"privacy_unit", "n_units", "row_weights", "zeros"}
    optional |= {"transform", "offset", "df_resid", "scale"}  # of a regression by itself
    release.regress(release.names[0]).save(tmp_path / "fit.json")
    optional |= {"kappa", "scores", *json.loads((tmp_path / "fit.json").read_text())["fit"]}
    assert set(saved["release"]) | described | optional == set(named) - {"law", *NoiseLaw.kinds}
    assert set(NoiseLaw.kinds) <= set(named)
    assert set(saved) == {"format", "version", "sha256", "release"}
    assert set(saved["release"]["columns"]) == {"bounds", "intercept", "missing"}


@pytest.mark.parametrize("keep_rows", [False, True])
def test_archive_has_the_same_contents(table, tmp_path, keep_rows):
    mechanism = GaussianSketch(9, keep_rows=keep_rows)
    release = pg.release(
        pg.second_moment(numbers(table), 8.0), epsilon=1.0, delta=1e-6, mechanism=mechanism
    )
    release.save(tmp_path / "release.json")
    release.save(tmp_path / "release.npz")
    saved = json.loads((tmp_path / "release.json").read_text())
    del saved["release"]["derived"], saved["sha256"]
    with np.load(tmp_path / "release.npz") as archive:
        for name in set(archive.files) - {"header"}:
            np.testing.assert_array_equal(archive[name], saved["release"].pop(name))
        header = json.loads(str(archive["header"]))
        assert header.pop("sha256")
        assert header == saved
    assert keep_rows == (release.sketch is not None)


def test_reader_finds_damage(reader, table, tmp_path):
    path = tmp_path / "release.json"
    pg.release(
        pg.second_moment(numbers(table), columns=COLUMNS["numbers"]),
        epsilon=1.0,
        delta=1e-6,
        mechanism=pg.AnalyzeGauss(),
    ).save(path)
    reader["read"](path)
    path.write_text(path.read_text().replace('"epsilon": 1.0', '"epsilon": 0.5'))
    refuses(lambda: reader["read"](path), AssertionError, "damaged")
