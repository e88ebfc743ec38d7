"""Every saved release is as its schema says, and R finds in it what `regress` finds."""

import copy
import importlib.util
import json
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from schemas import faults

import privgram as pg
from privgram.noise import NoiseLaw

DOCS = Path(__file__).parent.parent / "docs"
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
    pg.GaussianSketch(2000, keep_rows=True),
    pg.InverseWishart(2000),
    pg.InverseGauss(3000.0),
    pg.Refined(),
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
    release = pg.release(source, mechanism, 8.0, delta, adjacency, **options)
    release.save(path)
    return release


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__)
def test_a_saved_release_is_as_the_schema_says(mechanism, columns, tmp_path):
    path = tmp_path / "release.json"
    adjacency = "replace" if columns == "variables" else "add-remove"
    try:
        saved(mechanism, COLUMNS[columns], adjacency, path)
    except ValueError as refusal:
        pytest.skip(str(refusal))
    plain = json.loads(path.read_text(encoding="utf-8"))
    assert not faults(plain, SCHEMA)
    assert pg.load_release(path).n_columns == len(plain["release"]["names"])


def test_the_schema_knows_every_law_and_its_parameters():
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


# --- R ------------------------------------------------------------------------------------

R_PAGE = (DOCS / "guide" / "r.md").read_text(encoding="utf-8")
R_FUNCTIONS = "\n".join(re.findall(r"```r\n(.*?)```", R_PAGE, re.DOTALL)[:2])


def by_r(path, target, features):
    """Coefficients and standard errors, by the functions of the page."""
    ask = f"""
release <- read_json("{path}")$release
found <- regress(release, "{target}", c({", ".join(map(json.dumps, features))}))
cat(rownames(found), sprintf("%.17g", found$coef), sprintf("%.17g", found$se), sep = "\\n")
"""
    script = path.with_suffix(".R")
    script.write_text(R_FUNCTIONS + ask, encoding="utf-8")
    done = subprocess.run(
        ["Rscript", "--vanilla", str(script)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    p = len(lines) // 3
    return lines[:p], np.array(lines[p:], dtype=float).reshape(2, p)


needs_r = pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R")


@needs_r
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_r_finds_what_regress_finds(adjacency, tmp_path):
    columns = pg.Columns(
        {"a": (-1, 2), "union": bool, "wage": pg.Log(1, 50), "yén": (-4, 6)}, intercept=True
    )
    path = tmp_path / "release.json"
    fit = saved(pg.AnalyzeGauss(), columns, adjacency, path).regress("log(wage)")
    names, (coef, se) = by_r(path, "log(wage)", ["a", "union", "yén"])
    assert names == [*fit.names, "intercept"]
    np.testing.assert_allclose(coef, [*fit.coef, fit.intercept], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(se, fit.bse, rtol=1e-9)


@needs_r
def test_r_reads_levels_and_strings_of_any_kind(tmp_path):
    columns = pg.Columns(
        {"a": (-1, 2), "sex": ['f "[{', "m: null\\"], "yén": (-4, 6)}, intercept=True
    )
    source = table() | {"sex": np.where(table()["sex"] == "f", 'f "[{', "m: null\\")}
    path = tmp_path / "release.json"
    release = pg.release(source, pg.AnalyzeGauss(), 8.0, 1e-6, columns=columns)
    release.save(path)
    fit = release.regress("a")
    names, (coef, se) = by_r(path, "a", list(fit.names))
    assert len(names) == 3
    np.testing.assert_allclose(coef, [*fit.coef, fit.intercept], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(se, fit.bse, rtol=1e-9)


@needs_r
def test_r_runs_nothing_but_numbers(tmp_path):
    path = tmp_path / "evil.json"
    path.write_text('{"release": system("touch evil")}')
    script = tmp_path / "read.R"
    script.write_text(R_FUNCTIONS + f'\nread_json("{path}")\n', encoding="utf-8")
    done = subprocess.run(["Rscript", "--vanilla", str(script)], capture_output=True, cwd=tmp_path)
    assert done.returncode != 0
    assert not (tmp_path / "evil").exists()


@needs_r
@pytest.mark.long
def test_lm_of_synthetic_rows_is_the_release_s(tmp_path):
    pytest.importorskip("pandas")
    columns = pg.Columns(
        {"a": (-1, 2), "sex": ["f", "m"], "union": bool, "wage": pg.Log(1, 50), "yén": (-4, 6)},
        intercept=True,
    )
    release = pg.release(table(20_000), pg.AnalyzeGauss(), 2.0, 1e-6, columns=columns)
    release.synthesize(100_000, rng=1).rename(columns={"yén": "y"}).to_csv(
        tmp_path / "rows.csv", index=False
    )
    script = tmp_path / "lm.R"
    script.write_text(
        'rows <- read.csv("rows.csv")\n'
        'cat(sprintf("%.17g", coef(lm(log(wage) ~ a + sex + union + y, rows))), sep = "\\n")\n'
    )
    done = subprocess.run(
        ["Rscript", "--vanilla", str(script)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    coef = np.array(done.stdout.split(), dtype=float)
    fit = release.regress("log(wage)")
    assert fit.param_names == ("a", "sex[m]", "union", "yén", "intercept")
    off = (np.roll(coef, -1) - fit.params) / fit.bse
    assert np.abs(off).max() < 0.1
