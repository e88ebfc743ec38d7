"""The API page names every public object, and examples in docstrings are true."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import privgram

PAGE = Path(__file__).parents[2] / "docs" / "api" / "index.rst"
SOURCE = Path(privgram.__file__).parent
ENTRIES = re.findall(r"^ {3}([A-Za-z_][\w.]*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("module", ["privgram", "privgram.mechanisms"])
def test_every_public_name_has_an_entry(module):
    public = set(importlib.import_module(module).__all__)
    missing = public - {entry.rpartition(".")[2] for entry in ENTRIES}
    assert not missing, f"add to docs/api/index.rst: {sorted(missing)}"


def with_examples():
    """Modules whose docstrings have examples."""
    paths = [x for x in sorted(SOURCE.rglob("*.py")) if ">>> " in x.read_text("utf-8")]
    parts = (path.relative_to(SOURCE.parent).with_suffix("").parts for path in paths)
    return [".".join(one).removesuffix(".__init__") for one in parts]


@pytest.mark.slow
@pytest.mark.parametrize("name", with_examples())
def test_examples_of_docstrings_are_true(name, tmp_path, monkeypatch):
    if ".estimators" in name:
        pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_site_stays_small():
    """Each with one question; a page an object of the API is not counted."""
    docs = PAGE.parent.parent
    built = {"_build", "gallery", "generated", "_templates"}
    written = [p for p in docs.rglob("*.md") if built.isdisjoint(p.relative_to(docs).parts)]
    examples = list((docs / "examples").glob("plot_*.py"))
    assert len(written) + len(examples) + len(["api", "gallery"]) <= 70
