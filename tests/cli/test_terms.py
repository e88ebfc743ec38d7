"""The command line on tables with factors, logarithms, dates and truth values."""

import json

import numpy as np
import pytest
from support.helpers import slopes

pytest.importorskip("rich")
testing = pytest.importorskip("click.testing")
pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

import privgram as pg  # noqa: E402
from privgram.cli._program import program  # noqa: E402

N_ROWS = 20_000
TERMS = ["wage", "poly(age, 2)", "sex:region", "hired", "union"]
TOML = f"""intercept = true
missing = "drop"
terms = {json.dumps(TERMS)}
weights = {{"sex:region" = 1.5}}
[bounds]
wage = {{log = [2, 500]}}
age = [18, 90]
sex = ["female", "male"]
region = {{levels = ["n", "e", "s"], other = true}}
hired = {{dates = ["1980-01-01", "2026-01-01"], unit = "years"}}
union = "bool"
"""
FORMULA = "log(wage) ~ poly(age, 2) + sex*region + hired + union"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table in three formats, its columns, and a release of it."""
    folder = tmp_path_factory.mktemp("wages")
    rng = np.random.default_rng(5)
    table = pandas.DataFrame(
        {
            "age": rng.uniform(18, 90, N_ROWS),
            "sex": rng.choice(["female", "male"], N_ROWS),
            "region": rng.choice(["n", "e", "s", "abroad"], N_ROWS),
            "hired": np.datetime64("1990-01-01") + rng.integers(0, 9000, N_ROWS),
            "union": rng.random(N_ROWS) < 0.3,
        }
    )
    table["wage"] = np.exp(3 + 0.2 * (table.sex == "male") + rng.normal(0, 0.3, N_ROWS))
    table.loc[:9, "sex"] = "unknown"
    table.to_parquet(folder / "wages.parquet")
    table.to_csv(folder / "wages.csv", index=False)
    (folder / "columns.toml").write_text(TOML)
    columns = pg.Columns.load(folder / "columns.toml")
    columns.save(folder / "columns.json")
    moment = pg.second_moment(table, columns=columns)
    pg.release(moment, epsilon=8.0, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=rng).save(
        folder / "gram.json"
    )
    return folder


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


def succeed(*arguments):
    result = testing.CliRunner().invoke(program, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def fail(*arguments):
    result = testing.CliRunner().invoke(program, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("privgram: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def study(path, source, columns):
    """Write the file of a study, whose ledger is in its folder."""
    words = ["--ledger", path.with_suffix(".ledger").name, "--epsilon", "4", "--out", path]
    succeed("init", str(source), "--columns", str(columns), *map(str, words))


@pytest.mark.parametrize("source", ["wages.parquet", "wages.csv"])
@pytest.mark.parametrize("columns", ["columns.toml", "columns.json"])
def test_table_with_factors_is_released_from_a_file(tmp_path, folder, source, columns):
    study(tmp_path / "it.toml", folder / source, folder / columns)
    new = ("--epsilon", "4", "--out", "new.json", "--force", "--json")
    report = json.loads(succeed("release", str(tmp_path / "it.toml"), *new))
    described = pg.Columns.load("columns.toml")
    assert report["columns"] == list(described.names)
    assert report["bound"] == described.bound
    loaded = pg.load("new.json")
    assert loaded.columns == described
    fit = loaded.regress("log(wage)", ["sex"])
    assert abs(fit.used[:-1][0] - 0.2) < 5 * slopes(fit, fit.bse)[0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1980-01-01", "soon", "ISO 8601"),
        ('"bool"', '"auto"', "bounds are never taken from the data"),
        ("unit", "step", "not by 'dates', 'step'"),
        ("terms", "term", "unknown key 'term'"),
    ],
)
def test_wrong_description_is_refused_in_a_line(tmp_path, folder, old, new, message):
    file = tmp_path / "wrong.toml"
    assert old in TOML
    file.write_text(TOML.replace(old, new, 1))
    study(tmp_path / "it.toml", folder / "wages.csv", file)
    new = ("--epsilon", "1", "--out", str(tmp_path / "new.json"))
    text = fail("release", str(tmp_path / "it.toml"), *new)
    assert message in text
    assert not (tmp_path / "new.json").exists()


def test_formula_and_its_terms_are_one_fit():
    terms = "poly(age, 2), sex,region,sex:region , hired,union"
    first = succeed("regress", "gram.json", FORMULA, "--json")
    second = succeed("regress", "gram.json", "--target", "log(wage)", "--features", terms, "--json")
    report = json.loads(first)
    assert report == json.loads(second)
    fit = pg.load("gram.json").regress(FORMULA)
    assert report["params"] == fit.params.tolist()
    assert report["terms"]["sex"] == ["sex[male]"]
    assert report["terms"]["poly(age, 2)"] == ["age", "age^2"]
    assert report["references"] == {"sex": "female", "region": "n"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "FORMULA or --target"),
        ([FORMULA, "--target", "wage"], "FORMULA or --target"),
        (["wage"], "is no formula"),
        ([FORMULA, "--features", "age"], "leave --features out"),
        (["--target", "log(wage)", "--features", "age,,sex"], "between two commas"),
        (["--target", "log(wage)", "--features", "sex", "--reference", "sex"], "FACTOR=LEVEL"),
        (["--target", "log(wage)", "--features", "sex", "--reference", "sex=x"], "not a level"),
    ],
)
def test_wrong_regression_is_refused_in_a_line(arguments, message):
    assert message in fail("regress", "gram.json", *arguments)


def test_info_says_what_the_variables_are():
    report = json.loads(succeed("info", "gram.json", "--json"))
    assert report["terms"] == ["log(wage)", *TERMS[1:]]
    assert report["weights"] == {"sex:region": 1.5}
    assert report["variables"] == {
        "wage": "logarithm of 2 to 500",
        "age": "18 to 90",
        "sex": "2 levels: female, male",
        "region": "4 levels: n, e, s, other",
        "hired": "1980-01-01 to 2026-01-01, in years from the first",
        "union": "true and false",
    }
    shown = succeed("info", "gram.json")
    assert all(text in shown for text in [*report["variables"].values(), *report["terms"]])


@pytest.mark.slow
def test_many_columns_are_counted_instead_of_listed(tmp_path):
    columns = pg.Columns({"code": [f"c{i}" for i in range(500)]})
    moment = pg.second_moment(np.rec.fromarrays([["c7", "c9"]], names=["code"]), columns=columns)
    pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=pg.AnalyzeGauss()).save(
        tmp_path / "wide.json"
    )
    shown = succeed("info", str(tmp_path / "wide.json"))
    assert "code[c11] and 488 more" in shown
    assert "500 levels: c0, " in shown
