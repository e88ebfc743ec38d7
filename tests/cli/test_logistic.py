"""``privgram logistic``: what it prints, saves and charges, and what it refuses."""

import json

import numpy as np
import pytest
from helpers import slopes

pytest.importorskip("rich")
testing = pytest.importorskip("click.testing")
pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

import privgram as pg  # noqa: E402
from privgram.cli._program import program  # noqa: E402

BUDGET = ["--columns", "columns.toml", "--epsilon", "2", "--delta", "1e-6"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table and its columns."""
    rng = np.random.default_rng(3)
    age, sex = rng.uniform(20, 60, 4000), rng.choice(["f", "m"], 4000)
    ill = rng.random(4000) < 1 / (1 + np.exp(4 - 0.1 * age - (sex == "m")))
    table = {"age": age, "sex": sex, "ill": np.where(ill, "yes", "no")}
    monkeypatch.chdir(tmp_path)
    pandas.DataFrame(table).to_parquet("people.parquet")
    columns = {"age": (20, 60), "sex": ["f", "m"], "ill": ["no", "yes"]}
    pg.Columns(columns, intercept=True).save("columns.toml")
    return tmp_path


def run(*arguments):
    result = testing.CliRunner().invoke(program, ["logistic", "people.parquet", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_it_fits_saves_and_charges(folder):
    ledger = pg.Ledger("study.ledger", epsilon=2.5, delta=1e-5)
    code, text, _ = run(
        "--target", "ill", *BUDGET, "--ledger", "study.ledger", "--reference", "sex=m",
        "--out", "fit.json", "--json",
    )  # fmt: skip
    assert code == 0
    report, fit = json.loads(text), pg.load("fit.json")
    assert report["names"] == ["age", "sex[f]", "Intercept"]
    assert report["params"] == fit.params.tolist()
    assert report["conf_int"] == np.asarray(fit.conf_int()).tolist()
    assert slopes(fit)[1] < 0 < slopes(fit)[0]
    assert not fit.reproducible
    assert [entry.epsilon for entry in ledger.entries] == [2.0]
    code, _, error = run("--target", "ill", *BUDGET, "--ledger", "study.ledger", "--out", "b.npz")
    assert (code, len(ledger.entries)) == (2, 1)
    assert "over the budget" in error
    assert not (folder / "b.npz").exists()


def test_a_formula(folder):
    pytest.importorskip("formulaic")
    code, text, _ = run("ill ~ poly(age, 2) + sex", *BUDGET, "--out", "fit.npz", "--level", "0.9")
    assert code == 0
    assert text == str(pg.load("fit.npz").summary(alpha=0.1)) + "\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "FORMULA or --target"),
        (["ill"], "no formula"),
        (["--target", "age"], "not binary"),
        (["--target", "none"], "none"),
        (["--target", "ill", "--level", "95"], "level"),
        (["--target", "ill", "--reference", "sex"], "FACTOR=LEVEL"),
        (["--target", "ill", "--columns", "age,ill"], "of bounds and levels"),
        (["--target", "ill", "--out", "there.json"], "exists"),
        (["--target", "ill", "--out", "fit.txt"], ".json or .npz"),
    ],
)
def test_what_it_refuses_costs_nothing(folder, arguments, problem):
    (folder / "there.json").write_text("{}")
    ledger = pg.Ledger("study.ledger", epsilon=2.5, delta=1e-5)
    code, text, error = run(*BUDGET, "--out", "fit.json", "--ledger", "study.ledger", *arguments)
    assert (code, text) == (2, "")
    assert problem in error
    assert error.count("\n") == 1
    assert not ledger.entries
    assert not (folder / "fit.json").exists()
