"""privgram.js: what it finds in saved releases and fits, against Python."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy import special
from support.helpers import refuses

import privgram as pg
from privgram.regression.inference import ALL_OPEN

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "src" / "privgram" / "page" / "privgram.js"
GOLDEN = ROOT / "r" / "privgramr" / "tests" / "golden.json"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None, reason="needs node: apt-get install nodejs"
)

#: All that a fit answers; numbers that JSON lacks become the largest ones, or null.
ANSWER = """
const finite = (x) => Number.isNaN(x) ? null : Math.min(Math.max(x, -1e300), 1e300);
const flat = (x) => x.flat(9).map(finite);
function answer(fit, rows) {
  const found = { coef: flat(fit.coefficients), refused: fit.refusal !== null };
  if (found.refused) return found;
  const at = fit.prediction(rows, 0.8);
  const of = { vcov: fit.covariance, confint: fit.confint(), statistic: fit.statistics,
    confint_sample: fit.confint(0.9, "sample"), p_value: fit.pvalues, predict: fit.predict(rows),
    mean: at.mean, se: at.stderr ?? [], confidence: at.interval, prediction: at.observed ?? [],
    scale: [fit.scale, fit.dfResid] };
  for (const [name, x] of Object.entries(of)) found[name] = flat(x);
  return found;
}
"""


def run_node(code, given):
    """What a script of node makes of `given`, which reads it as `given`, with `read` at hand."""
    script = f"import {{ beyond, quantileOf, read }} from {json.dumps(MODULE.as_uri())};" + (
        "import { readFileSync } from 'node:fs';"
        f"const given = JSON.parse(readFileSync(0)); {ANSWER}"
        f"console.log(JSON.stringify((() => {{ {code} }})()));"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script],
        input=json.dumps(given), capture_output=True, encoding="utf-8", timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def agree(found, expected, what, digits=1e-10):
    """To ten digits, or so many of the largest number's thousandth."""
    found, expected = np.array(found, float), np.array(expected, float)
    assert found.shape == expected.shape, what
    largest = np.nanmax(np.abs(expected), initial=0.0)
    error = np.abs(found - expected) / np.maximum(np.abs(expected), max(1e-3 * largest, 1e-300))
    same = (found == expected) | (error < digits) | (np.isnan(found) & np.isnan(expected))
    assert same.all(), (what, found, expected)


def test_numbers_are_those_of_python_for_every_law():
    """On the releases of every law of noise that the package for R is tested with."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    cases = []
    for case in golden["cases"]:
        target, features = case["formula"].replace("`", "").split(" ~ ")
        intercept = not features.endswith(" - 1")
        features = features.removesuffix(" - 1").split(" + ")
        cases.append([json.dumps(case["file"]), target, features, {"intercept": intercept}])
    found = run_node(
        "return given.cases.map(([file, target, features, options]) =>"
        "answer(read(file).regress(target, features, options), given.rows));",
        {"cases": cases, "rows": golden["new"]},
    )
    assert len(found) == len(golden["cases"]) > 40
    for case, one in zip(golden["cases"], found, strict=True):
        expected = case["expected"]
        assert one["refused"] == expected["refused"], case["name"]
        for key in expected.keys() - {"refused", "glance"}:
            agree(one[key], expected[key], (case["name"], key))
        if not one["refused"]:  # R's list has these two among others
            sigma, df = expected["glance"][2], expected["glance"][9]
            agree(one["scale"], [sigma**2, df], (case["name"], "scale"))


def test_new_rows_have_times_of_day_in_utc_and_missing_values(monkeypatch, tmp_path):
    monkeypatch.setenv("TZ", "America/New_York")  # of node, as a browser's is any
    rng = np.random.default_rng(0)
    first, n = np.datetime64("2020-01-01T06:30"), 20_000
    rows = {
        "when": first + rng.integers(0, 72 * 60, n).astype("timedelta64[m]"),
        "x": rng.uniform(0, 4, n),
        "wage": rng.uniform(1, 50, n),
        "y": rng.uniform(-1, 2, n),
    }
    whens = {"when": pg.Dates(first, first + np.timedelta64(72, "h"), unit="hours")}
    numbers = {"x": (0, 4), "wage": pg.Log(1, 50), "y": (-1, 2)}
    columns = pg.Columns(whens | numbers, intercept=True)
    made = pg.release(rows, columns, 4.0, 1e-6, mechanism="analyze-gauss", rng=rng)
    made.save(path := tmp_path / "it.json")
    new = {
        "when": ["2020-01-02T12:00", "2020-01-02 12:00:00", "2020-01-04", None, "2020-01-03"],
        "x": [1.0, 2.0, 9.0, 1.0, None],
        "wage": [2.0, 90.0, 3.0, 2.0, 2.0],
    }
    found = run_node(
        "const fit = read(given.file).regress('y', ['when', 'x', 'log(wage)']);"
        "return [given.new, { ...given.new, wage: [1, 2, 3, 4, null] }].map("
        "(rows) => fit.predict(rows).map(finite));",
        {"file": path.read_text(encoding="utf-8"), "new": new},
    )
    fit = made.regress("y", ["when", "x", "log(wage)"])
    missing = np.nan
    at = {
        "when": np.array([x or "NaT" for x in new["when"]], "datetime64[s]"),
        "x": np.array([x or missing for x in new["x"]]),
        "wage": np.array(new["wage"]),
    }
    agree(found[0], fit.predict(at), "times")
    agree(found[1], fit.predict(at | {"wage": np.array([1, 2, 3, 4, missing])}), "wages")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    rows = {name: rng.uniform(0, 1, 20_000) for name in ("a", "b")}
    rows |= {
        "g": rng.choice(["u", "v", "w"], 20_000),
        "constructor": rng.choice(["x", "y"], 20_000),
    }
    rows["y"] = rows["a"] + rng.normal(0, 0.2, 20_000)
    return rows | {
        "z": rng.random(20_000) < 0.3 + 0.3 * rows["b"],
        "c": rng.poisson(np.exp(rows["a"])),
    }


VARIABLES = {"a": (0, 1), "b": (0, 1), "g": ["u", "v", "w"], "constructor": ["x", "y"],
             "y": (-1, 6), "z": bool, "c": (0, 30)}  # fmt: skip
NEW = {"a": [0.5, 0.2], "b": [0.1, 0.9], "g": ["v", "u"], "constructor": ["y", "x"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("y ~ a + b + g", {}),
        ("y ~ a + constructor", {"purpose": "prediction"}),
        ("z ~ a + b + g", {"family": "binomial"}),
        ("c ~ a + b + g", {"family": "poisson"}),
        ("y ~ a", {"epsilon": 0.002}),  # whose coefficient the noise hides
        ("z ~ a", {"cov_type": "cluster", "groups": "g", "epsilon": 8.0, "family": "binomial"}),
    ],
)
def test_saved_fits_are_read_as_well(table, tmp_path, formula, options):
    study = pg.Study(table, VARIABLES, epsilon=10.0, delta=1e-6)
    path = tmp_path / "fit.json"
    study.regress(formula, **{"epsilon": 1.0} | options, out=path)
    fit = pg.load(path)
    rows = {name: np.array(values) for name, values in NEW.items()}
    found = run_node("return answer(read(given.file), given.rows);",
                     {"file": path.read_text(encoding="utf-8"), "rows": NEW})  # fmt: skip
    assert found["refused"] == (fit.inference.refusal is not None)
    agree(found["coef"], [None if math.isnan(x) else x for x in fit.params], "coef")
    if found["refused"]:
        return
    prediction = fit.get_prediction(rows)
    linear = fit.family == "gaussian"
    expected = {
        "vcov": np.clip(fit.cov_params(), -1e300, 1e300),
        "confint": np.clip(fit.conf_int(), -1e300, 1e300),
        "confint_sample": np.clip(fit.conf_int(alpha=0.1, estimand="sample"), -1e300, 1e300),
        "statistic": fit.tvalues,
        "p_value": fit.pvalues,
        "predict": fit.predict(rows),
        "mean": prediction.predicted_mean,
        "se": prediction.se_mean if linear else [],
        "confidence": np.clip(prediction.conf_int(alpha=0.2), -1e300, 1e300),
        "prediction": prediction.conf_int(alpha=0.2, obs=True) if linear else [],
    }
    for key, values in expected.items():
        agree(found[key], np.ravel(values), (formula, key))


def test_file_whose_derived_parts_differ_is_refused(table, tmp_path):
    study = pg.Study(table, VARIABLES, epsilon=10.0, delta=1e-6)
    path = tmp_path / "fit.json"
    study.regress("y ~ a + g", epsilon=1.0, out=path)
    format_ = type(pg.load(path))._format
    for name, change in {"names": ["a", "g[u]", "g[w]", "Intercept"], "df_resid": 7.0}.items():
        header, arrays = format_.read(path)
        assert header["derived"].keys() == {"names", "transform", "offset", "df_resid", "scale"}
        header["derived"][name] = change
        format_.save(tmp_path / "other.json", header, arrays)
        refuses(lambda: pg.load(tmp_path / "other.json"), ValueError, "does not follow")


@pytest.mark.slow
def test_references_and_names_of_objects_are_read(table, tmp_path):
    """Also a factor that is called as a property of every object is."""
    columns = {"__proto__": (-1, 6), **VARIABLES}
    study = pg.Study(table | {"__proto__": table["y"]}, columns, epsilon=10.0, delta=1e-6)
    path = tmp_path / "release.json"
    release = study.release(epsilon=5.0, out=path)
    names, reference = ["a", "g", "constructor"], {"g": "w", "constructor": "y"}
    for target in ("y", "__proto__"):
        fit = release.regress(target, names, reference=reference)
        found = run_node(
            "const fit = read(given.file).regress(...given.asked);"
            "return [fit.names, [...fit.coefficients, ...fit.stderr]];",
            {"file": path.read_text(), "asked": [target, names, {"reference": reference}]},
        )
        assert found[0] == list(fit.param_names)
        agree(found[1], [*fit.params, *fit.bse], target)
    every = release.regress("y")
    found = run_node("const fit = read(given).regress('y'); return [fit.names, fit.stderr];",
                     path.read_text())  # fmt: skip
    by_name = dict(zip(*found, strict=True))
    assert by_name.keys() == set(every.param_names)
    agree([by_name[name] for name in every.param_names], every.bse, "all")


@pytest.mark.slow
def test_fit_that_holds_its_release_is_asked_of_it_again(table, tmp_path):
    """What a study saves where it answered by a release."""
    study = pg.Study(table, VARIABLES, epsilon=10.0, delta=1e-6)
    path = tmp_path / "fit.json"
    given = {"reference": {"g": "v"}, "mechanism": pg.AnalyzeGauss()}
    study.regress("y ~ a + g", epsilon=1.0, out=path, **given)
    fit = pg.load(path)
    found = run_node("return answer(read(given.file), given.rows);",
                     {"file": path.read_text(encoding="utf-8"), "rows": NEW})  # fmt: skip
    agree(found["coef"], fit.params, "coef")
    agree(found["confint"], np.ravel(fit.conf_int()), "confint")
    agree(found["scale"], [fit.scale, fit.df_resid], "scale")


@pytest.mark.slow
@pytest.mark.parametrize("constant", [True, False])
def test_first_factor_beside_no_constant_has_all_its_levels(table, tmp_path, constant):
    """As in Python; also where no intercept was released and levels alone sum to one."""
    variables = {name: VARIABLES[name] for name in ("a", "g", "constructor", "y")}
    rows = {name: table[name] for name in variables}
    columns = pg.Columns(variables, intercept=constant)
    release = pg.release(rows, columns, epsilon=8.0, delta=1e-6, mechanism=pg.AnalyzeGauss())
    release.save(tmp_path / "release.json")
    file = (tmp_path / "release.json").read_text()
    asked = [([*names], intercept) for names in (["g", "constructor"], ["a", "g"], ["a"])
             for intercept in (True, False)]  # fmt: skip
    found = run_node(
        "return given.asked.map(([names, intercept]) => {"
        "const fit = read(given.file).regress('y', names, { intercept });"
        "return [fit.names, [...fit.coefficients, ...fit.stderr]]; });",
        {"file": file, "asked": asked},
    )
    for (names, intercept), (params, numbers) in zip(asked, found, strict=True):
        fit = release.regress("y", names, intercept=intercept)
        assert params == list(fit.param_names)
        agree(numbers, [*fit.params, *fit.bse], (names, intercept))


def test_what_cannot_be_read_or_answered_is_one_clear_error():
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    files = {case["name"]: case["file"] for case in golden["cases"]}
    file, lost = files["AnalyzeGauss"], files["nothing but noise"]
    wrong = json.loads(json.dumps(file))
    wrong["release"]["noise"] = {"law": "OtherLaw"}
    older = file | {"release": {k: x for k, x in file["release"].items() if k != "derived"}}
    cases = [
        ("read('{}')", "neither a release nor"),
        ('read(\'{"format": "constructor"}\')', "neither a release nor"),
        ("read('nothing')", "JSON"),
        ("read(JSON.stringify({ ...given.file, version: 3 }))", "version 3"),
        ("read(given.older)", "save it again"),
        ("read(given.wrong).regress('a')", "OtherLaw"),
        ("read(given.text).regress('nowhere')", "no column nowhere"),
        ("read(given.text).regress('a', ['sex', 'a'])", "among the features"),
        ("read(given.text).regress('a', ['sex[f]', 'sex[m]'])", "leave one out"),
        ("read(given.text).regress('a', [], { intercept: false })", "no feature"),
        ("read(given.text).regress('a', ['sex'], { reference: { sex: 'x' } })", "no level x"),
        ("read(given.text).regress('a').confint(0.1)", "level"),
        ("read(given.text).regress('a', ['sex']).predict({ a: [1] })", "no column sex"),
        ("read(given.lost).regress('y').predict({ a: [1], 'b b': [1] })", "nothing to predict by"),
        ("read(given.lost).regress('y').prediction({ a: [1], 'b b': [1] })", "no inference"),
    ]
    tried = ",".join(f"() => {code}" for code, _ in cases)
    caught = "try { f(); return 'none'; } catch (e) { return e.message; }"
    texts = {"text": file, "older": older, "wrong": wrong, "lost": lost}
    found = run_node(
        f"return [{tried}].map((f) => {{ {caught} }});",
        {name: json.dumps(one) for name, one in texts.items()} | {"file": file},
    )
    for (code, message), one in zip(cases, found, strict=True):
        assert message in one, code


def small(rows, columns, epsilon, adjacency="replace"):
    return pg.release(
        rows, pg.Columns(columns, intercept=True), epsilon=epsilon, delta=1e-6,
        adjacency=adjacency, mechanism=pg.AnalyzeGauss(), rng=np.random.default_rng(1),
    )  # fmt: skip


ODD = {
    "called like the constant": (
        {"Intercept": (0, 1), "b": (0, 1), "y": (-1, 6)},
        ["Intercept", "b"],
    ),
    "called by numbers": ({"g": ["u", "v", "w"], "1": ["x", "y"], "y": (-1, 6)}, None),
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("intercept", [True, False])
def test_columns_of_odd_names_are_those_of_python(table, tmp_path, case, intercept):
    columns, features = ODD[case]
    rows = {"Intercept": table["a"], "1": table["constructor"]} | table
    release, path = small({x: rows[x] for x in columns}, columns, 20.0), tmp_path / "release.json"
    release.save(path)
    fit = release.regress("y", features, intercept=intercept)
    new = {"Intercept": [0.5, 0.2], "b": [0.1, 0.9], "g": ["v", "u"], "1": ["y", "x"]}
    found = run_node(
        "const fit = read(given.file).regress('y', given.features, { intercept: given.intercept });"
        "return [fit.names, fit.coefficients, fit.predict(given.rows)];",
        {"file": path.read_text(), "features": features, "intercept": intercept, "rows": new},
    )
    assert found[0] == list(fit.param_names)
    agree(found[1], fit.params, "coef")
    agree(found[2], fit.predict({x: np.array(new[x]) for x in columns if x in new}), "predict")


def test_refusals_are_those_of_python_where_no_interval_has_an_end_or_a_level_is_no_number(
    tmp_path,
):
    rows = {"x": np.array([-0.4, 0.5, 0.9]), "y": np.array([-0.1, 0.4, 0.5])}
    columns, path = {"x": (-1, 1), "y": (-3, 3)}, tmp_path / "open.json"
    release = next(
        one
        for epsilon in np.geomspace(20, 2e4, 200)
        if (one := small(rows, columns, float(epsilon))).regress("y", ["x"]).refusal == ALL_OPEN
    )
    release.save(path)
    found = run_node(
        "const fit = read(given).regress('y', ['x']);"
        "return [fit.refusal, fit.coefficients.map(String)];",
        path.read_text(),
    )
    assert found == ["the privacy noise hides every coefficient", ["NaN", "NaN"]]
    big = [2**60, 2**60 + 1]
    columns = {"f": pg.Factor(big), "y": (-3, 3)}
    small({"f": np.array(big), "y": rows["y"][:2]}, columns, 9.0).save(path)
    found = run_node("try { read(given); } catch (e) { return e.message; }", path.read_text())
    assert "levels of 2^53" in found


def test_law_of_student_is_scipy_s():
    """Probabilities and quantiles, to ten digits, up to the normal law."""
    df = [1.0, 2.0, 7.5, 40.0, 3999.0, 1e6, 1e12, math.inf]
    t, levels = [1e-4, 0.01, 0.5, 1.0, 1.96, 5.0, 20.0, 37.0], [0.5, 0.8, 0.95, 0.999, 1 - 1e-9]
    found = run_node(
        "const df = given.df.map((x) => x ?? Infinity);"
        "return [df.map((k) => given.t.map((t) => beyond(t, k))),"
        " df.map((k) => given.levels.map((x) => quantileOf(x, k)))];",
        {"df": [None if math.isinf(k) else k for k in df], "t": t, "levels": levels},
    )
    degrees = np.array(df)[:, None]
    np.testing.assert_allclose(found[0], 2 * special.stdtr(degrees, -np.array(t)), rtol=1e-10)
    expected = -special.stdtrit(degrees, (1 - np.array(levels)) / 2)
    np.testing.assert_allclose(found[1], expected, rtol=1e-10)
