"""No promise of privacy without proof, test and audit: docs/claims.toml against the pages."""

import ast
import importlib.util
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load():
    spec = importlib.util.spec_from_file_location("claims", ROOT / "docs" / "claims.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


claims = load()
CLAIMS, NONE = claims.read()["claim"], claims.read()["no_promise"]


@cache
def defined_in(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_sentence_that_may_promise_is_listed():
    listed = [said for claim in CLAIMS for said in claim["said"]]
    found = set(claims.promises())
    new = sorted(found - {*listed, *NONE})
    assert not new, "add to a claim of docs/claims.toml, or to its no_promise:\n" + "\n".join(new)
    gone = sorted({*listed, *NONE} - found)
    assert not gone, "no page says so any more, take out of docs/claims.toml:\n" + "\n".join(gone)
    assert not set(listed) & set(NONE)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["name"])
def test_proofs_tests_and_audits_exist(claim):
    for proof in claim["proofs"]:
        page, _, anchor = proof.partition("#")
        path = ROOT / "docs" / page
        assert path.is_file(), proof
        assert not anchor or anchor in claims.anchors(path), proof
    for test in (*claim["tests"], *claim["audits"]):
        path, _, name = test.partition("::")
        assert name in defined_in(path), test
    assert claim["tests"]
    # What there is none of has a reason, and nothing else has.
    for kind in ("proof", "audit"):
        assert bool(claim[f"{kind}s"]) != claim.get(f"no_{kind}", "").startswith("none: ")
    assert claim["said"]


def test_page_has_a_section_for_every_claim():
    assert [f"## {claim['name']}" for claim in CLAIMS] == [
        line for line in claims.page().splitlines() if line.startswith("## ")
    ]


def test_sentences():
    page = """# A promise: it is private.

```python
guaranteed()
```
- Noise protects rows. **This is proved.** See
  [it](here.md): done.

| what | how |
|---|---|
| Floats. Sums | They leak. |
"""
    assert list(claims.sentences(page)) == [
        "A promise: it is private.",
        "Noise protects rows.",
        "**This is proved.**",
        "See [it](here.md): done.",
        "what | how",
        "---|---",
        "Floats. Sums | They leak.",
    ]


def test_new_promise_is_found(tmp_path, monkeypatch):
    page = tmp_path / "new.md"
    page.write_text(
        "Hello.\n\n<!-- promises -->\n| against a reader |\n|---|\n| bits | no |\n"
        "<!-- end -->\n\nNobody can leak. <!-- table: x -->\n| proved |\n<!-- end -->\n"
    )
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    monkeypatch.setattr(claims, "pages", lambda: [page])
    assert list(claims.promises()) == ["new.md: bits | no", "new.md: Nobody can leak."]
