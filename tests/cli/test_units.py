"""``privgram init --unit``, and what is released of the study."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import privgram as pg
from privgram.cli._program import program
from privgram.columns.unit import PrivacyUnit

pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")

COLUMNS = pg.Columns({"a": (0, 1), "b": (0, 1)}, intercept=True)


@pytest.fixture
def visits(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    data = {"who": rng.integers(0, 2000, 9000), "a": rng.random(9000), "b": rng.random(9000)}
    pq.write_table(pa.table(data), tmp_path / "visits.parquet")
    COLUMNS.save(tmp_path / "columns.toml")
    monkeypatch.chdir(tmp_path)
    return data


def run(*more, epsilon="1", delta="1e-6"):
    init = ["init", "visits.parquet", "--columns", "columns.toml", "--epsilon", "2", "--delta"]
    done = CliRunner().invoke(program, [*init, delta, *more])
    if done.exit_code:
        return done
    release = ["release", "study.toml", "--epsilon", epsilon, "--out", "r.json", "--json"]
    return CliRunner().invoke(program, release)


def test_release_by_unit(visits):
    result = run("--unit", "who", "--max-rows", "6")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    units = len(np.unique(visits["who"]))
    assert (report["unit"], report["units"]) == ("who", units)
    assert "rows" not in report
    release = pg.load("r.json")
    assert release.privacy_unit == PrivacyUnit("who")
    shown = json.loads(CliRunner().invoke(program, ["info", "r.json", "--json"]).stdout)
    bound = release.columns.bound
    assert shown["unit"] == {
        "name": "who", "clip": "frobenius", "fixed_effects": False, "row_bound": bound,
        "missing": "error",
    }  # fmt: skip
    assert shown["units"] == units


def test_file_says_more_of_a_unit(visits):
    run("--unit", "who", delta="0", epsilon="0")
    file = Path("study.toml")
    more = 'clip = "trace", fixed_effects = true, missing = "drop", '
    more += "bound = {epsilon = 0.5, quantile = 0.6}"
    file.write_text(file.read_text().replace('"who"', '{name = "who", ' + more + "}"))
    release = ["release", "study.toml", "--epsilon", "1.5", "--out", "r.json"]
    result = CliRunner().invoke(program, release)
    assert result.exit_code == 0, result.stderr
    release = pg.load("r.json")
    assert release.privacy_unit == PrivacyUnit("who", "trace", True, missing="drop")
    assert release.epsilon == 1.5


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("--max-rows 3", "say by --unit which column"),
        ("--unit whom --max-rows 3", "no column named 'whom'; did you mean 'who'"),
        ("--unit a --max-rows 3", "leave it out of the columns. Unit('a', fixed_effects=True)"),
    ],
)
def test_impossible_request_is_refused(visits, more, text):
    result = run(*more.split())
    assert result.exit_code != 0
    assert text in " ".join(result.stderr.split())
