"""One file for all commands: made from types, filled in by hand, read by every command."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg

pytest.importorskip("click")
pa = pytest.importorskip("pyarrow")

from click.testing import CliRunner  # noqa: E402
from pyarrow import parquet  # noqa: E402

from privgram.cli._program import program  # noqa: E402
from privgram.planning import precision  # noqa: E402


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 5000)
    table = pa.table(
        {
            "x": x,
            "y y": 2 * x + rng.normal(0, 1, 5000),
            "g": np.where(x > 5, "a", "b"),
            "b": rng.random(5000) < x / 10,
        }
    )
    parquet.write_table(table, tmp_path / "it.parquet")
    monkeypatch.chdir(tmp_path)
    # A plan draws fits until it knows their median, and many for advice; here the fewest serve.
    for name, fewest in (
        ("PLAN_DRAWS", replace(precision.PLAN_DRAWS, median_within=math.inf)),
        ("FEW_DRAWS", precision.ONE_DRAW),
        ("NO_REFUSAL", precision.ONE_DRAW),
    ):
        monkeypatch.setattr(precision, name, fewest)
    return tmp_path


def run(*arguments, code=0):
    done = CliRunner().invoke(program, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


STUDY = """
table = "absent/people.parquet"
ledger = "it.ledger"
epsilon = 1.0
delta = 1e-6
{}
[columns]
x = [0, 10]
g = ["a", "b"]
"""


def test_sql_writes_a_query_and_spends_and_reads_nothing(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(STUDY.format('unit = "who"\nmax_rows = 2'))
    text = run("sql", str(file), "--dialect", "spark")
    unit = pg.Unit("who", max_rows=2)
    columns = pg.Columns({"x": (0, 10), "g": ["a", "b"]}, intercept=True)
    assert text == columns.sql("people", "spark", unit=unit).rstrip() + ";\n"
    assert "FROM `people`" in text
    named = run("sql", str(file), "--dialect", "postgres", "--table", "s", "--table", 'a"b')
    assert 'FROM "s"."a""b"' in named
    assert "oracle" in run("sql", str(file), "--dialect", "oracle", code=2)
    file.write_text(STUDY.format("").replace("[0, 10]", "{log = [1, 10]}"))
    refused = run("sql", str(file), "--dialect", "duckdb", code=2)
    assert refused.startswith("Error: ") or "last bit of a logarithm" in refused
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


@pytest.mark.slow
def test_file_is_made_filled_in_and_serves_all_commands(folder, monkeypatch):
    run("init", "it.parquet")
    file = folder / "study.toml"
    text = file.read_text()
    assert "it.parquet" in text
    assert '"y y" = []' in text
    assert 'b = "bool"' in text
    # Nothing of the data, not even a level.
    assert '"a"' not in text.replace('["a", "b"]', "")
    assert "fill in" in run("check", "study.toml", code=2)
    text = text.replace("x = []", "x = [0, 10]").replace("g = []", 'g = ["a", "c"]')
    file.write_text(text.replace('"y y" = []', '"y y" = [-5, 30]'))
    assert "NOT PRIVATE" in (shown := run("check", "study.toml"))
    assert "misspelt" in shown
    file.write_text(file.read_text().replace('["a", "c"]', '["a", "b"]'))
    monkeypatch.setattr(precision, "PLAN_DRAWS", replace(precision.PLAN_DRAWS, least=5, most=5))
    plan = run("plan", "study.toml", "x ~ g", "--target-se", "g=0.5")
    assert "Take epsilon" in plan
    assert re.match(r"A guess\. Answered: (9\d|100)% of", plan)
    options = ("--epsilon", "0.08", "--family", "binomial", "--reference", "g=b", "--delta", "1e-7")
    logistic = json.loads(run("plan", "study.toml", "b ~ g", *options, "--json"))
    assert (logistic["rows"][0]["name"], logistic["delta"]) == ("g[a]", 1e-7)
    assert 0 <= logistic["answered"] <= 1
    assert plan.count("\n") < 24
    assert "Least Squares" in run(
        "regress", "study.toml", "x ~ g", "--epsilon", "0.2", "--label", "one"
    )
    assert "are left" in run("release", "study.toml", "--epsilon", "0.2", "--out", "it.json")
    assert "Logistic" in run(
        "regress", "--epsilon", "0.2", "study.toml", "b ~ x", "--family", "binomial"
    )
    assert [entry.label for entry in pg.Study.load(file).entries] == ["one", "", "b ~ x"]
    assert "one" in run("ledger", "study.toml")
    more = ("--loss", "huber", "--reference", "g=b", "--epsilon", "0.001")
    assert "g[a]" in run("regress", "study.toml", "x ~ g", *more, code=3)  # of so few rows
    assert "FACTOR=LEVEL" in run(
        "regress", "study.toml", "x ~ g", *more, "--reference", "g", code=2
    )
    assert "over the budget" in run("regress", "study.toml", "x ~ g", "--epsilon", "1", code=4)
    assert "exists" in run("init", "it.parquet", code=2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "describes no"),
        ("x = [", "not TOML"),
        ("[columns]\nx = [0, 1]", "table is missing"),
        ('table = "t.npy"\nbudget = 1\n[columns]\nx = [0, 1]', "unknown key 'budget'"),
    ],
)
def test_malformed_study_is_refused(tmp_path, text, words):
    (tmp_path / "it.toml").write_text(text)
    refuses(lambda: pg.Study.load(tmp_path / "it.toml"), ValueError, words)


@pytest.mark.slow
def test_stream_goes_on_from_call_to_call(folder):
    pytest.importorskip("cryptography")
    (folder / "study.toml").write_text(
        'table = "it.parquet"\nledger = "it.ledger"\nepsilon = 1.0\ndelta = 1e-6\n'
        '[columns]\nx = [0, 10]\n"y y" = [-5, 30]\n'
    )
    command = ("stream", "study.toml", "it.parquet", "--path", "it.stream")
    run(*command, "--periods", "6", "--epsilon", "0.5", "--out", "one.json")
    assert "--period" in run(*command, "--out", "two.json", code=2)
    assert not (folder / "two.json").exists()
    run(*command, "--period", "2", "--out", "two.json")
    assert pg.load("two.json").parameters["periods"] == [1, 2]
    assert len(pg.Study.load("study.toml").entries) == 1
