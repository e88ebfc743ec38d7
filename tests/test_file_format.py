"""The page on the saved file: what it says suffices to read one, without privgram."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import slopes

import privgram as pg
from privgram.noise import NoiseLaw
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "file-format.md"
TEXT = PAGE.read_text(encoding="utf-8")

# Bounds wide enough that no row is clipped, and no column near zero.
COLUMNS = pg.Columns({"a": (-1, 2), "yén": (-4, 6), "b": (-3, 1)}, intercept=True)


@pytest.fixture(scope="module")
def reader():
    """What the page's first block of Python defines."""
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1]
    imports = re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE)
    assert imports == ["hashlib", "json", "numpy"]
    namespace: dict[str, object] = {}
    exec(code, namespace)
    return namespace


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    a, b = rng.uniform(-1, 2, 20_000), rng.uniform(-3, 1, 20_000)
    return np.column_stack([a, 1 + a - 0.5 * b + rng.uniform(-1, 1, 20_000), b])


MECHANISMS = [
    pg.AnalyzeGauss(),
    pg.AnalyzeGauss(repair="shift"),
    pg.AnalyzeGauss(noise="triangular"),
    pg.AdditiveWishart(),
    pg.AdditiveWishart(debias=False),
    pg.MatrixLaplace(),
    GaussianSketch(2000),
    GaussianSketch(2000, keep_rows=True),
    InverseWishart(2000),
    InverseGauss(3000.0),
]


@pytest.mark.parametrize("columns", [COLUMNS, None], ids=["columns", "as they are"])
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_the_pages_reader_finds_what_regress_finds(
    reader, table, mechanism, adjacency, columns, tmp_path
):
    if columns is None and adjacency == "add-remove":
        pytest.skip("neither has a number of rows to go by")
    moment = pg.second_moment(table, 8.0 if columns is None else None, columns=columns)
    path = tmp_path / "release.json"
    rng = np.random.default_rng(3)
    pg.release(
        moment, epsilon=30.0, delta=1e-3, mechanism=mechanism, adjacency=adjacency, rng=rng
    ).save(path)
    read = reader["read"](path)
    target = read["names"][1]
    fit = pg.load(path).regress(target)
    coefficients, errors = reader["regress"](read, target)
    expected = fit.used[:-1] if columns is None else [*fit.used[:-1], fit.used[-1]]
    np.testing.assert_allclose(coefficients, expected, rtol=1e-8)
    assert fit.inference.refusal is None
    np.testing.assert_allclose(errors[: len(slopes(fit, fit.bse))], slopes(fit, fit.bse), rtol=1e-8)
    if columns is not None:
        assert errors[-1] == pytest.approx(fit.bse["Intercept"], rel=1e-8)


def test_the_page_names_every_key_and_law(table, tmp_path):
    release = pg.release(
        pg.second_moment(table, columns=COLUMNS),
        epsilon=1.0,
        delta=1e-6,
        mechanism=GaussianSketch(5, keep_rows=True),
    )
    release.save(tmp_path / "release.json")
    saved = json.loads((tmp_path / "release.json").read_text())
    rows = re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE)
    named = re.findall(r"`(\w+)`", " ".join(rows))
    described = {"bounds", "intercept", "missing", "terms", "weights", *saved["release"]["derived"]}
    optional = {"privacy_unit", "n_units", "row_weights"}
    assert set(saved["release"]) | described | optional == set(named) - {"law", *NoiseLaw.kinds}
    assert set(NoiseLaw.kinds) <= set(named)
    assert set(saved) == {"format", "version", "sha256", "release"}
    assert set(saved["release"]["columns"]) == {"bounds", "intercept", "missing"}


@pytest.mark.parametrize("keep_rows", [False, True])
def test_an_archive_has_the_same_contents(table, tmp_path, keep_rows):
    mechanism = GaussianSketch(9, keep_rows=keep_rows)
    release = pg.release(pg.second_moment(table, 8.0), epsilon=1.0, delta=1e-6, mechanism=mechanism)
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


def test_the_reader_finds_damage(reader, table, tmp_path):
    path = tmp_path / "release.json"
    pg.release(
        pg.second_moment(table, columns=COLUMNS),
        epsilon=1.0,
        delta=1e-6,
        mechanism=pg.AnalyzeGauss(),
    ).save(path)
    reader["read"](path)
    path.write_text(path.read_text().replace('"epsilon": 1.0', '"epsilon": 0.5'))
    with pytest.raises(AssertionError, match="damaged"):
        reader["read"](path)
