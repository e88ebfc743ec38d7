"""Every saved release is as its schema says."""

import copy
import importlib.util
import json
import math
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from support.helpers import refuses
from support.schemas import faults

import privgram as pg
from privgram._base.saved import DamagedFile, digest
from privgram.noise import NoiseLaw
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads((DOCS / "schema" / "release.schema.json").read_text(encoding="utf-8"))

COLUMNS = {
    "numbers": pg.Columns({"a": (-1, 2), "yén": (-4, 6)}, intercept=True),
    "variables": pg.Columns(
        {
            "a": (-1, 2),
            "sex": ["f", "m"],
            "code": pg.Factor([1, 2], other=True),
            "union": bool,
            "wage": pg.Log(1, 50),
            "hired": pg.Dates("2000-01-01", "2020-01-01", "years"),
        },
        missing="drop",
        terms=["poly(a, 2)", "sex:code", "union", "wage", "hired"],
        weights={"union": 2.0},
    ),
    "as they are": None,
}
MECHANISMS = [
    pg.AnalyzeGauss(),
    pg.AnalyzeGauss(repair="shift"),
    pg.AdditiveWishart(),
    pg.MatrixLaplace(),
    GaussianSketch(2000, keep_rows=True),
    InverseWishart(2000),
    InverseGauss(3000.0),
    pg.AdaptiveGaussian(),
]


def table(n=2000):
    rng = np.random.default_rng(5)
    return {
        "a": rng.uniform(-1, 2, n),
        "yén": rng.uniform(-4, 6, n),
        "sex": rng.choice(["f", "m"], n),
        "code": rng.integers(1, 5, n),
        "union": rng.random(n) < 0.4,
        "wage": rng.uniform(2, 40, n),
        "hired": np.datetime64("2000-01-01") + rng.integers(0, 7300, n),
    }


def saved(mechanism, columns, adjacency, path):
    source = table()
    if columns is None:
        source, options = np.column_stack([source["a"], source["yén"]]), {"bound": 7.0}
    else:
        options = {"columns": columns}
    delta = 0 if mechanism.pure else 1e-6
    release = pg.release(
        source, epsilon=8.0, delta=delta, mechanism=mechanism, adjacency=adjacency, **options
    )
    release.save(path)
    return release


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__)
def test_saved_release_is_as_the_schema_says(mechanism, columns, tmp_path):
    path = tmp_path / "release.json"
    adjacency = "replace" if columns == "variables" else "add-remove"
    try:
        saved(mechanism, COLUMNS[columns], adjacency, path)
    except ValueError as refusal:
        pytest.skip(str(refusal))
    plain = json.loads(path.read_text(encoding="utf-8"))
    assert not faults(plain, SCHEMA)
    assert set(plain["release"]["derived"]) == set(SCHEMA["$defs"]["derived"]["required"])
    assert pg.load(path).n_columns == len(plain["release"]["names"])


def test_schema_knows_every_law_and_its_parameters():
    for name, law in NoiseLaw.kinds.items():
        assert SCHEMA["$defs"][name]["required"] == ["law", *(field.name for field in fields(law))]
        assert {"$ref": f"#/$defs/{name}"} in SCHEMA["$defs"]["law"]["anyOf"]


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.update(version=2),
        lambda file: file.update(more=1),
        lambda file: file["release"].pop("noise"),
        lambda file: file["release"].update(delta=-0.1),
        lambda file: file["release"].update(adjacency="none"),
        lambda file: file["release"]["noise"].update(law="Gaussian"),
        lambda file: file["release"]["noise"].update(std="1"),
        lambda file: file["release"]["matrix"].append("1"),
        lambda file: file["release"]["columns"]["bounds"].update(a=[1, 2, 3]),
        lambda file: file["release"].update(names=["a", "a"]),
        lambda file: file["release"]["derived"].update(rows="2000"),
    ],
)
def test_other_files_are_not(change, tmp_path):
    path = tmp_path / "release.json"
    saved(pg.AnalyzeGauss(), COLUMNS["numbers"], "replace", path)
    plain = json.loads(path.read_text(encoding="utf-8"))
    other = copy.deepcopy(plain)
    change(other)
    assert faults(other, SCHEMA)
    if importlib.util.find_spec("jsonschema") is None:
        return
    import jsonschema

    validator = jsonschema.Draft202012Validator(SCHEMA)
    assert validator.is_valid(plain)
    assert not validator.is_valid(other)


def resealed(path, change):
    """Change a file under a checksum that fits."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    change(plain["release"])
    header = dict(plain["release"])
    arrays = {"matrix": np.array(header.pop("matrix"))}
    path.write_text(json.dumps(plain | {"sha256": digest(header, arrays)}))


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["center"].__setitem__(0, 0.5 + 1e-6),
        lambda found: found["center"].__setitem__(0, None),
        lambda found: found["half_width"].pop(),
        lambda found: found.update(ones=None),
        lambda found: found.update(rows=2001),
        lambda found: found.update(rows=None),
        lambda found: found["variances"][0].__setitem__(0, 0.0),
        lambda found: found.update(variances="none"),
        lambda found: found.update(frame=[[1.0]]),
    ],
)
def test_derived_part_cannot_contradict_the_rest(change, tmp_path):
    path = tmp_path / "release.json"
    saved(pg.AnalyzeGauss(), COLUMNS["numbers"], "replace", path)
    resealed(path, lambda release: None)
    pg.load(path)
    resealed(path, lambda release: change(release["derived"]))
    refuses(lambda: pg.load(path), DamagedFile, r"does not follow from the rest|could not convert")


def test_derived_part_beyond_floats_is_left_out(tmp_path):
    path = tmp_path / "release.json"
    saved(pg.AnalyzeGauss(), COLUMNS["numbers"], "replace", path)

    def grow(release):
        del release["derived"]
        sigma = math.sqrt(2) * 1e200 / release["privacy"]["sensitivity_ratio"]
        release["bound"] = 1e100
        release["noise"].update(std=sigma / math.sqrt(2), std_diagonal=sigma)

    resealed(path, grow)
    pg.load(path).save(path)
    plain = json.loads(path.read_text(encoding="utf-8"))
    assert not faults(plain, SCHEMA)
    assert plain["release"]["derived"]["variances"] is None
    pg.load(path)


def test_file_without_it_is_read_and_written_with_it(tmp_path):
    path = tmp_path / "release.json"
    saved(pg.AnalyzeGauss(), COLUMNS["variables"], "replace", path)
    whole = json.loads(path.read_text(encoding="utf-8"))
    resealed(path, lambda release: release.pop("derived"))
    pg.load(path).save(path)
    assert json.loads(path.read_text(encoding="utf-8")) == whole


@pytest.mark.parametrize("name", COLUMNS)
def test_it_leads_from_stored_columns_to_variables(name, tmp_path):
    """Of rows whose values are known, the other way round than the encoder goes."""
    columns = COLUMNS[name]
    if columns is None:
        return
    path = tmp_path / "release.json"
    saved(pg.AnalyzeGauss(), columns, "add-remove", path)
    release = json.loads(path.read_text(encoding="utf-8"))["release"]
    found, source = release["derived"], table()
    rows = columns.encode(source)
    np.testing.assert_allclose(rows @ found["ones"], 1.0)
    own = {
        name: center + half_width * column
        for name, center, half_width, column in zip(
            release["names"], found["center"], found["half_width"], rows.T, strict=True
        )
        if center is not None
    }
    np.testing.assert_allclose(own["a"], source["a"])
    assert found["rows"] == pytest.approx(len(rows), abs=200)  # the noise's deviation is 3
    if name == "variables":
        np.testing.assert_allclose(own["log(wage)"], np.log(source["wage"]))
        np.testing.assert_allclose(own["union"], source["union"], atol=1e-12)
        cells = (source["sex"] == "m") & (source["code"] == 2)
        np.testing.assert_allclose(own["sex[m]:code[2]"], cells)
        assert set(release["names"]) - set(own) == {"P2(a)"}


def test_second_rounds_let_others_compute_standard_errors(tmp_path):
    """Standard errors, by the page's recipe: sums over entries of the noise in the frame."""
    rng = np.random.default_rng(5)
    a = rng.uniform(0.2, 0.3, 20_000)
    source = {"a": a, "b": a + rng.normal(0, 0.02, a.size), "y": a + rng.normal(0, 0.02, a.size)}
    columns = pg.Columns(dict.fromkeys(source, (-1, 1)), intercept=True)
    path = tmp_path / "release.json"
    budget = {"epsilon": 2.0, "delta": 1e-6, "adjacency": "replace"}
    release = pg.release(
        source, mechanism=pg.AdaptiveGaussian(), columns=columns, rng=rng, **budget
    )
    release.save(path)
    plain = json.loads(path.read_text(encoding="utf-8"))
    assert not faults(plain, SCHEMA)
    found = plain["release"]["derived"]
    variances, frame = np.array(found["variances"]), np.array(found["frame"])
    fit = release.regress("y")
    whole = np.insert(-np.asarray(fit.params), 2, 1.0)
    v = whole @ frame
    features = frame[[0, 1, 3]]
    size = len(v)
    places = [(i, j) for i in range(size) for j in range(i, size)]
    forms = np.array(
        [[x[i] * v[j] + (i < j) * x[j] * v[i] for i, j in places] for x in features]
    ) * [np.sqrt(variances[place]) for place in places]
    noise, inverse = forms @ forms.T, np.linalg.inv(release.matrix[np.ix_([0, 1, 3], [0, 1, 3])])
    s2 = (whole @ release.matrix @ whole + np.trace(inverse @ noise)) / (found["rows"] - 3)
    covariance = s2 * inverse + inverse @ noise @ inverse
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), fit.bse, rtol=1e-6)
