"""The API page names every public object; modules on it list their own. The site stays small."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "api" / "index.rst"
ENTRIES = re.findall(r"^ {3}([A-Za-z_][\w.]*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("module", ["privgram", "privgram.mechanisms"])
def test_every_public_name_has_an_entry(module):
    public = set(importlib.import_module(module).__all__)
    missing = public - {entry.rpartition(".")[2] for entry in ENTRIES}
    assert not missing, f"add to docs/api/index.rst: {sorted(missing)}"


def test_site_stays_small():
    """Each with one question; a page an object of the API is not counted."""
    docs = PAGE.parent.parent
    built = {"_build", "gallery", "generated", "_templates"}
    written = [p for p in docs.rglob("*.md") if built.isdisjoint(p.relative_to(docs).parts)]
    examples = list((docs / "examples").glob("plot_*.py"))
    assert len(written) + len(examples) + len(["api", "gallery"]) <= 70
