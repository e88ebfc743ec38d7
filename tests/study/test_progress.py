"""Progress and the log: off by default, by callback or logging, without anything of the data."""

import logging
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import privgram as pg

N = 6173  # which is private where rows are added or removed
X = np.random.default_rng(0).uniform(0, 10, N)
TABLE = {"x": X, "y": 2 * X + np.random.default_rng(1).normal(0, 1, N), "who": np.arange(N) // 3}
COLUMNS = {"x": (0, 10), "y": (-5, 30)}


def study(**more):
    return pg.Study(TABLE, COLUMNS, epsilon=8.0, delta=1e-6, adjacency="add-remove", **more)


ASK = {
    "regress": lambda one: one.regress("y ~ x", 1.0),
    "release": lambda one: one.release(1.0),
    "by a release": lambda one: one.regress("y ~ x", 1.0, mechanism="analyze-gauss"),
}


@pytest.mark.parametrize("ask", ASK)
def test_nothing_is_shown_or_logged_by_default(ask, capfd):
    ASK[ask](study())
    assert capfd.readouterr() == ("", "")
    assert [type(one) for one in logging.getLogger("privgram").handlers] == [logging.NullHandler]


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("unit", [None, pg.Unit("who", max_rows=3)])
def test_callback_is_told_of_every_pass(ask, unit):
    told = []
    ASK[ask](study(progress=lambda rows, total: told.append((rows, total)), unit=unit))
    assert (N, N) in told
    assert all(rows <= N for rows, _ in told)


def test_progress_is_true_false_or_a_function():
    with pytest.raises(TypeError, match="progress is True, False or a function"):
        study(progress="bar").release(1.0)


def test_log_tells_what_is_done_and_nothing_of_the_table(caplog):
    with caplog.at_level(logging.INFO, "privgram"):
        one = study(unit=pg.Unit("who", max_rows=3))
        one.regress("y ~ x", 1.0)
        one.regress("y ~ x", 0.001)
        one.release(1.0)
        one.plan("y ~ x", epsilon=1.0, n_rows=1000)
    assert {record.name for record in caplog.records} == {"privgram"}
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    text = "\n".join(caplog.messages)
    for line in (
        "regress y ~ x at epsilon=1",
        "reading the table",
        "answered",
        "refused",
        "release at epsilon=1",
        "released",
        "fits of simulated rows at epsilon=",
    ):
        assert line in text
    # What is private: how many rows and people there are, and every value.
    numbers = {float(one) for one in re.findall(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?", text)}
    assert not numbers & {float(N), float(N // 3 + 1), *TABLE["x"], *TABLE["y"]}


def test_lines_of_the_log_hold_no_control_characters(caplog):
    with (
        caplog.at_level(logging.INFO, "privgram"),
        pytest.raises(ValueError, match="nothing after"),
    ):
        study().regress("y ~ x\x1b[2J +", 1.0)
    assert "\x1b" not in caplog.text


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of POSIX")
def test_terminal_sees_what_a_command_does_and_a_pipe_does_not(tmp_path):
    pytest.importorskip("click")
    pa = pytest.importorskip("pyarrow")
    import pty

    from pyarrow import parquet

    parquet.write_table(pa.table(TABLE), tmp_path / "it.parquet")
    (tmp_path / "study.toml").write_text(
        'table = "it.parquet"\nledger = "it.ledger"\nepsilon = 8.0\ndelta = 1e-6\n'
        "cache_bytes = 1000\n[columns]\nx = [0, 10]\ny = [-5, 30]\n"
    )
    ask = ["regress", "study.toml", "y ~ x", "--epsilon", "2", "--json"]
    command = [sys.executable, "-m", "privgram", *ask]
    piped = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (piped.returncode, piped.stderr) == (0, "")
    ours, theirs = pty.openpty()
    seen = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode(errors="replace")  # it may end within a character
    os.close(ours)
    assert seen.returncode == 0
    assert seen.stdout.startswith("{")
    assert "privgram: regress y ~ x at epsilon=2" in shown
    assert "rows" in shown


@pytest.mark.parametrize(("cache_bytes", "times"), [(None, 1), (0, None), (10**9, 1)])
@pytest.mark.parametrize("ask", ["regress", "release"])
def test_decoded_rows_take_as_much_memory_as_is_said(
    tmp_path, monkeypatch, ask, cache_bytes, times
):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from privgram.sources import files

    parquet.write_table(pa.table(TABLE), tmp_path / "it.parquet")
    decoded, real = [], files._read

    def noted(*given):
        decoded.append(1)
        return real(*given)

    monkeypatch.setattr(files, "_read", noted)
    one = pg.Study(
        tmp_path / "it.parquet", COLUMNS, epsilon=64.0, delta=1e-6, cache_bytes=cache_bytes
    )
    rng = np.random.default_rng(0)
    if ask == "regress":
        one.regress("y ~ x", 8.0, rng=rng)
    else:
        one.release(8.0, mechanism="adaptive-gaussian", rng=rng)
    assert len(decoded) == times if times else len(decoded) > 1


def test_cache_is_so_many_bytes():
    for wrong in (-1, 0.5, "1 GB"):
        with pytest.raises((ValueError, TypeError), match="cache_bytes"):
            study(cache_bytes=wrong)
