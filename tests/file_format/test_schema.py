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
        lambda file: file.update(version=1),
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
        lambda found: found.update(rows="none"),
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
    pg.load(path)


def test_file_without_it_is_read_and_written_with_it(tmp_path):
    path = tmp_path / "release.json"
    saved(pg.AnalyzeGauss(), COLUMNS["variables"], "replace", path)
    whole = json.loads(path.read_text(encoding="utf-8"))
    resealed(path, lambda release: release.pop("derived"))
    pg.load(path).save(path)
    assert json.loads(path.read_text(encoding="utf-8")) == whole
