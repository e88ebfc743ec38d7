"""The API pages name every public object."""

import importlib
import re
from pathlib import Path

import pytest

API = Path(__file__).parent.parent / "docs" / "api"
MODULES = ("privgram", "privgram.privacy", "privgram.mechanisms", "privgram.low_rank")
# Modules have a section of their own, and a type alias a line in the profiles' docstrings.
NOT_LISTED = {"low_rank", "privacy", "utility", "calibration", "published", "Adjacency"}


def listed():
    """Full names of all entries of the autosummary tables."""
    names = set()
    for page in API.glob("*.rst"):
        module = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = match[1]
            elif match := re.fullmatch(r" {3}([A-Za-z_][\w.]*)", line):
                names.add(f"{module}.{match[1]}")
    return names


def find(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_page(module):
    shown = {name.rpartition(".")[2] for name in listed()}
    public = set(importlib.import_module(module).__all__) - NOT_LISTED
    assert public <= shown, f"add to docs/api: {sorted(public - shown)}"


def test_every_entry_exists():
    for name in sorted(listed()):
        if name.startswith(("privgram.privacy.accounting.", "privgram.opendp.")):
            pytest.importorskip("dp_accounting")
            pytest.importorskip("opendp")
        assert find(name).__doc__, name
