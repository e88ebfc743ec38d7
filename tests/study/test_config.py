"""Where a budget lies that no file was named for."""

import os
from pathlib import Path

import pytest

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
