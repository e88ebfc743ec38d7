"""`python -m bench.audit`: a table, JSON, and what a violation does to the exit status."""

import dataclasses
import json

import pytest
from click.testing import CliRunner

from bench import audit
from bench.audit.__main__ import command

pytestmark = pytest.mark.slow


def run(*arguments):
    return CliRunner().invoke(command, ["--draws", "40", *arguments])


def test_table_and_json_agree():
    result = run("--mechanism", "AnalyzeGauss", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    report = json.loads(result.stdout)
    assert report["draws"] == 40
    assert [case["adjacency"] for case in report["cases"]] == 2 * ["replace", "add-remove"]
    # Two pairs under replace, each in both orders, at three epsilons.
    assert [len(case["estimates"]) for case in report["cases"]] == 2 * [12, 6]
    table = run("--mechanism", "AnalyzeGauss").stdout
    assert "AnalyzeGauss(noise='triangular')" in table
    assert f"{report['cases'][0]['estimates'][0]['claimed']:.4g}" in table


def test_violation_is_one_line_and_status_1(monkeypatch):
    measure = audit.measure

    def claim_nothing(*arguments, **options):
        return [
            dataclasses.replace(row, claimed=0.0, lower=0.1)
            for row in measure(*arguments, **options)
        ]

    monkeypatch.setattr(audit, "measure", claim_nothing)
    result = run("--mechanism", "AnalyzeGauss", "--json")
    assert result.exit_code == 1
    assert result.stderr.startswith("audit: more leaks than is claimed: AnalyzeGauss(), replace")
    assert result.stderr.count("\n") == 1
    assert json.loads(result.stdout)["cases"][0]["estimates"][0]["violated"]


def test_steps_of_find_and_project():
    steps = ("RangeFinder", "Projection", "FindAndProject")
    result = run(*(x for step in steps for x in ("--mechanism", step)), "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    cases = json.loads(result.stdout)["cases"]
    assert [case["mechanism"] for case in cases] == [f"{step}()" for step in steps]
    assert {case["adjacency"] for case in cases} == {"row change"}


def test_nothing_to_audit():
    result = run("--mechanism", "AnalyzeGauss", "--adaptive")
    assert result.exit_code == 2
    assert "no case is left" in result.stderr
