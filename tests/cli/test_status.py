"""Each end of a command has an exit status of its own."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import privgram as pg
from privgram.cli._status import Status
from privgram.glm.one_step import OneStepEstimator

pytest.importorskip("click")

from click.testing import CliRunner

from privgram.cli._program import Terminated, program

STUDY = """
table = "it.npz"
ledger = "it.ledger"
epsilon = 2.0
delta = 1e-6
[columns]
x = [0, 10]
y = [-5, 30]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 5000)
    parquet.write_table(pa.table({"x": x, "y": 2 * x + rng.normal(0, 1, 5000)}), tmp_path / "it.pq")
    (tmp_path / "it.pq").rename(tmp_path / "it.parquet")
    (tmp_path / "study.toml").write_text(STUDY.replace("npz", "parquet"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    done = CliRunner().invoke(program, list(arguments))
    return done.exit_code, done.stdout, done.stderr


ASK = ("regress", "study.toml", "y ~ x", "--epsilon")


@pytest.mark.slow
def test_each_end_of_a_regression_has_its_status(folder):
    status, out, _ = run(*ASK, "1")
    assert status == Status.ANSWERED
    assert out.splitlines()[0].strip() == "Private Least Squares Regression Results"
    status, out, err = run(*ASK, "0.0001")
    assert status == Status.REFUSED == 3
    assert re.match("No (estimates|standard errors): ", out)
    assert err == ""
    status, out, err = run(*ASK, "1.9")
    assert (status, out) == (Status.OVER_BUDGET, "")
    assert Status.OVER_BUDGET == 4
    assert err.count("\n") == 1
    assert "is left" in err
    for wrong in (
        ("regress", "study.toml", "y ~ w", "--epsilon", "1"),
        ("regress", "study.toml", "y ~ x", "--epsilon", "-1"),
        ("regress", "study.toml", "y ~ x", "--epsilon", "0.1", "--alpha", "2"),
        ("regress", "study.toml", "y ~ x", "--epsilon", "0.1", "--out", "it.txt"),
        ("regress", "study.toml", "y ~ x", "--epsilon", "much"),
        ("regress", "nowhere.toml", "y ~ x", "--epsilon", "1"),
        ("what",),
    ):
        status, out, err = run(*wrong)
        assert (status, out) == (Status.BAD_INPUT, ""), wrong
        assert Status.BAD_INPUT == 2
    assert len(pg.Study.load("study.toml").entries) == 2


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), 130),
        (Terminated(), 143),
        (OSError(28, "No space left on device"), 1),
        (MemoryError(), 1),
        (KeyError("a defect"), 1),
        (FileNotFoundError(2, "No such file"), 2),
        (OSError("the table changed while it was read"), 2),
        (pg.RefusedError("the noise hides it"), 3),
        (pg.BudgetExceeded("over the budget"), 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_each_error_has_its_status(folder, monkeypatch, error, status):
    def fails(path):
        raise error

    monkeypatch.setattr(pg, "load", fails)
    exit_status, out, err = run("page", "gram.json", "--out", "page.html")
    assert (exit_status, out) == (status, "")
    assert err.startswith("privgram: ")
    assert err.count("\n") == 1


def test_note_of_an_error_is_printed_beside_it(folder, monkeypatch):
    def fails(path):
        error = OSError(28, "No space left on device", "it.json")
        error.add_note("epsilon=0.1 is spent")
        raise error

    monkeypatch.setattr(pg, "load", fails)
    _, _, err = run("page", "gram.json", "--out", "page.html")
    assert err == "privgram: it.json: No space left on device. epsilon=0.1 is spent\n"


@pytest.mark.slow
def test_study_and_a_release_print_the_same_json(folder):
    status, out, err = run(*ASK, "0.5", "--json", "--alpha", "0.1", "--out", "fit.json")
    assert (status, err) == (0, "")
    fit = json.loads(out)
    saved = pg.load("fit.json")
    assert fit["names"] == list(saved.param_names)
    np.testing.assert_allclose(fit["params"], saved.params)
    np.testing.assert_allclose(fit["conf_int"], saved.conf_int(0.1))
    assert (fit["refusal"], fit["epsilon"], fit["alpha"]) == (None, 0.5, 0.1)
    assert fit.pop("remaining") == pytest.approx(pg.Study.load("study.toml").remaining())
    assert run("release", "study.toml", "--epsilon", "0.5", "--out", "gram.json")[0] == 0
    status, out, _ = run("regress", "gram.json", "y ~ x", "--json")
    assert status == 0
    assert json.loads(out).keys() == fit.keys()
    saved_again = json.loads(run("regress", "fit.json", "--json", "--alpha", "0.1")[1])
    assert saved_again == fit
    assert run("regress", "fit.json")[1] == f"{saved.summary()}\n"
    assert "holds a fit" in run("regress", "fit.json", "y ~ x")[2]
    facts = json.loads(run("info", "fit.json", "--json")[1])
    assert (facts["target"], facts["rows"]) == ("y", round(saved.n_rows))
    status, out, _ = run(*ASK, "0.0001", "--json")
    assert status == Status.REFUSED
    refused = json.loads(out)
    assert isinstance(refused["refusal"], str)
    assert refused["bse"] == [None, None]


@pytest.mark.slow
def test_hopeless_release_is_refused_and_one_penalised_on_request_is_not(folder):
    table = ("release", "study.toml", "--epsilon", "0.001", "--delta", "1e-7")
    assert run(*table, "--mechanism", "analyze-gauss", "--out", "gram.json")[0] == 0
    status, out, err = run("regress", "gram.json", "--target", "y")
    assert (status, err) == (Status.REFUSED, "")
    assert out.startswith("No ")
    assert run("regress", "gram.json", "--target", "y", "--ridge", "auto")[0] == Status.ANSWERED


@pytest.mark.slow
@pytest.mark.parametrize(("hidden", "status"), [(0, Status.ANSWERED), (2, Status.REFUSED)])
def test_fit_of_which_no_interval_has_an_end_is_refused(folder, monkeypatch, hidden, status):
    """As by seven rows of infinities."""
    fit_of = OneStepEstimator.fit

    def without_ends(one):
        parts = fit_of(one)
        unknown = np.diag(2 * np.diag(parts.sampling + parts.noise))
        unknown[hidden:] = 0.0
        return replace(parts, unidentified=unknown)

    monkeypatch.setattr(OneStepEstimator, "fit", without_ends)
    assert run(*ASK, "0.5", "--json")[0] == status


@pytest.mark.slow
def test_file_that_was_sent_is_verified(folder):
    rng = np.random.default_rng(0)
    table = {"x": rng.uniform(0, 1, 1000), "y": rng.uniform(0, 1, 1000)}
    study = pg.Study(table, {"x": (0, 1), "y": (0, 1)}, epsilon=9.0, delta=1e-6)
    study.release(1.0, out="new.json")
    study.regress("y ~ x", 1.0, out="fit.json")
    study.regress("y ~ x", 1.0, mechanism="analyze-gauss", out="by_release.json")
    study.release(1.0, out="seeded.json", rng=np.random.default_rng(0))
    for name in ("new.json", "fit.json", "by_release.json"):
        status, out, err = run("verify", name, "--json")
        assert (status, err) == (0, "")
        report = json.loads(out)
        released = pg.load(name)
        deltas = [released.privacy.delta(epsilon) for epsilon in (0.5, 1.0, 2.0)]
        assert list(report["other deltas"].values()) == deltas
        assert report["public bounds"] == {"x": "0 to 1", "y": "0 to 1"}
        assert "one row, by replace" in run("verify", name)[1]
    status, out, err = run("verify", "seeded.json")
    assert status == Status.REFUSED
    assert "reproducible" in out
    assert "drawn with a seed, and so is NOT PRIVATE" in err
    text = Path("new.json").read_text()
    Path("new.json").write_text(text.replace("replace", "add-remove", 1))
    assert run("verify", "new.json")[0] == Status.BAD_INPUT


def test_guide_lists_every_status():
    page = Path(__file__).parents[2] / "docs" / "guide" / "command-line.md"
    if not page.exists():  # an installed wheel's tests
        pytest.skip("there are no docs here")
    listed = re.findall(r"^\| (\d+) \|", page.read_text(), re.MULTILINE)
    assert sorted(map(int, listed)) == sorted(Status)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    "ask",
    [
        ("regress", "study.toml", "y ~ x"),
        ("summarize", "study.toml", "x"),
        ("release", "study.toml", "--out", "it.json"),
    ],
    ids=lambda ask: ask[0],
)
def test_answer_is_printed_though_the_ledger_cannot_be_read_after_it(
    folder, monkeypatch, ask, as_json
):
    def gone(study):
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(pg.Study, "remaining", gone)
    status, out, err = run(*ask, "--epsilon", "0.5", *["--json"] * as_json)
    assert status == Status.ANSWERED
    if as_json:
        assert json.loads(out)["remaining"] is None
    else:
        assert out.endswith("epsilon=0.5; what is left is not known\n")
    assert "what is left of the budget cannot be told: [Errno 116] Stale file handle" in err


def test_traceback_is_shown_on_request(folder, monkeypatch):
    monkeypatch.setitem(os.environ, "PRIVGRAM_TRACEBACK", "1")
    done = CliRunner().invoke(program, ["info", "nowhere.json"])
    assert isinstance(done.exception, FileNotFoundError)


def test_summary_is_asked_saved_and_shown_again(folder):
    asked = "summarize", "study.toml", "x", "--epsilon", "0.5", "--out", "x.json"
    status, out, _ = run(*asked, "--q", "0.5,0.9", "--json")
    found = json.loads(out)
    assert (status, found["column"], found["epsilon"]) == (0, "x", 0.5)
    assert found["q50"][0] <= found["q90"][0]
    assert found["remaining"] < 10
    status, out, _ = run("summarize", "x.json", "--q", "0.9")
    assert status == 0
    assert re.search(r"q90 +lower +upper", out)
    assert "exact" in out
    counted = json.loads(run("summarize", "x.json", "--bins", "3", "--json")[1])
    assert len(counted["left"]) == 3
    assert run("info", "x.json")[0] == 0
    assert run("verify", "x.json")[0] == 0
    assert run("plan", "study.toml", "x", "--rows", "2000")[0] == 0
    for wrong in (
        ("summarize", "study.toml", "--epsilon", "0.5"), ("summarize", "x.json", "--by", "g"),
        ("summarize", "x.json", "--q", "2"), ("regress", "x.json"),
        ("page", "x.json", "-o", "x.html"),
    ):  # fmt: skip
        assert run(*wrong)[0] == 2, wrong
