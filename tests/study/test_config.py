"""What a study is made of: a file, and where a budget lies that no file was named for."""

import os
import tomllib
from pathlib import Path

import pytest
from support.helpers import refuses

import privgram as pg
from privgram.study import config


@pytest.fixture
def opened(monkeypatch):
    """Open a ledger of no path; what is left of it goes at the end of the process."""
    monkeypatch.setattr(config.atexit, "register", lambda *_: None)
    made = []

    def open_one():
        ledger, lasts = config.open_ledger(None, 1.0, 1e-6, "replace", "table")
        made.append(ledger.path.parent)
        assert not lasts
        return ledger

    yield open_one
    for folder in made:
        config.forget(str(folder), os.getpid())
        assert not folder.exists()


def test_budget_of_this_process_waits_for_no_disk(opened, monkeypatch, tmp_path):
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(config, "MEMORY", str(tmp_path))
    assert opened().path.parent.parent == tmp_path


def test_it_is_elsewhere_where_somebody_says_so_or_there_is_no_memory(
    opened, monkeypatch, tmp_path
):
    monkeypatch.setattr(config, "MEMORY", str(tmp_path / "none"))
    assert opened().path.parent.parent != tmp_path
    monkeypatch.setattr(config, "MEMORY", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(Path.cwd()))
    assert opened().path.parent.parent != tmp_path


def test_file_to_fill_in_is_toml_whatever_columns_are_called(tmp_path):
    pytest.importorskip("pyarrow")
    names = ["x", "\U0001f600", "a\x7fb", "é"]
    table = tmp_path / "table.csv"
    table.write_text(f"{','.join(names)}\n{','.join('1' for _ in names)}\n", encoding="utf-8")
    assert list(tomllib.loads(config.template(str(table), {}))["columns"]) == names


@pytest.mark.parametrize("line", ["table = 5", "table = []", "table = [1]", "ledger = 7"])
def test_paths_of_a_file_are_texts(line, tmp_path):
    keys = {"table": 'table = "t.csv"', "ledger": 'ledger = "l"'}
    lines = keys | {line.partition(" ")[0]: line}
    path = tmp_path / "study.toml"
    path.write_text(
        "\n".join([*lines.values(), "epsilon = 1", "delta = 1e-6", "[columns]", "x = [0, 1]"])
    )
    refuses(lambda: pg.Study.load(path), ValueError, "study.toml: table and ledger are paths")


def test_name_of_a_table_is_a_text():
    table = {"x": [0.5]}
    refuses(
        lambda: pg.Study(table, {"x": (0, 1)}, epsilon=1.0, delta=1e-6, name=5),
        TypeError,
        "name says what",
    )
