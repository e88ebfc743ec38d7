"""Write docs/claims.md from docs/claims.toml, as the build of the site does.

The table names for every promise of privacy its proofs, its tests and its audits, and every
sentence that makes it. tests/docs/test_claims.py looks for sentences that are in no row, and for
proofs and tests that are not there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGE = DOCS / "claims.md"

#: Where promises are made: not on the theory pages, which prove them.
ELSEWHERE = ("theory", "project", "_build", "gallery")

#: It says what words mean, and promises nothing.
GLOSSARY = DOCS / "guide" / "glossary.md"

#: What a sentence that promises privacy has in it. Those that have it and promise nothing are
#: listed too, so that none is overlooked.
PROMISE = re.compile(
    r"differential(ly)? priva|\b(is|are|stays?) private|guarante|protect|proved|\bproof"
    r"|costs? no|no further cost|post-processing|delta = 0|δ = 0|pure epsilon|pure ε|leak"
    r"|tells? nothing|cannot be told|attack",
    re.IGNORECASE,
)


#: Where a sentence ends and another begins.
END = re.compile(r"(?:(?<=[.!?:])|(?<=[.!?:]\*\*)) +(?=[A-Z`*\[(])")

INTRODUCTION = """# Claims

Every sentence of the README and of these pages that promises privacy, with what founds it: proofs,
tests that reach the same by another route, and audits, which attack the worst pair of tables that
is known. `docs/claims.py` writes this page from `docs/claims.toml`. `tests/docs/test_claims.py`
fails where a sentence with a word of promise is in neither list there, and where a proof or a test
named here does not exist. The theory pages are the proofs, and are not searched.

`tests/recorder` records what meets noise in a private run, and replays the run on neighbouring
tables with the same outputs: over mechanisms, rounds, groups, units, scores, logistic and Poisson
regression, chosen bounds, streams of three months and what a study answers, under both notions of
neighbours. `make test` runs 388 pairs and `make long` 1,440 more. On each the parameters of all
primitives and all that is published are
equal to the last bit, and the inputs lie apart by no more than the guarantee allows.
"""


def pages() -> Iterator[Path]:
    """The README and the pages of the site that may promise."""
    yield ROOT / "README.md"
    for page in sorted(DOCS.rglob("*.md")):
        if page.relative_to(DOCS).parts[0] not in ELSEWHERE and page not in (PAGE, GLOSSARY):
            yield page
    yield DOCS / "benchmarks" / "tables" / "peers-features.txt"  # of no command


def sentences(text: str) -> Iterator[str]:
    """Sentences of a Markdown page, each on one line; a row of a table is one."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#>]|\d+\.) ?)", text):
        line = re.sub(r"^([-*#>]+|\d+\.) ", "", " ".join(block.split()))
        if line.startswith("|"):
            yield line.strip("| ")
        else:
            yield from (s for s in re.split(END, line) if s)


def promises() -> Iterator[str]:
    """Sentences that may promise privacy: the page, a colon, and the sentence."""
    for page in pages():
        name = page.relative_to(ROOT).as_posix()
        # Tables that are filled from objects or figures have tests of their own.
        filled = r"<!-- (?!promises)[^<>]*-->((?!<!--).)*<!-- end -->"
        text = re.sub(filled, "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        parts = re.split(r"<!-- promises -->(.*?)<!-- end -->", text, flags=re.DOTALL)
        for i, part in enumerate(parts):
            for sentence in sentences(re.sub(r"<!--.*?-->", "", part, flags=re.DOTALL)):
                row = i % 2 == 1 and not re.match(r"against a reader|[-|]+$", sentence)
                if row or PROMISE.search(sentence):
                    yield f"{name}: {sentence}"


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a Markdown page, as GitHub and the site have them."""
    headings = re.findall(r"^#{1,3} (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def read() -> dict[str, Any]:
    """The claims, and sentences that make none."""
    with (DOCS / "claims.toml").open("rb") as file:
        return tomllib.load(file)


def page() -> str:
    """The text of docs/claims.md."""
    lines = [INTRODUCTION]
    for claim in read()["claim"]:
        lines += [f"## {claim['name']}", "", claim["says"], ""]
        links = [f"[{link.partition('/')[2]}]({link})" for link in claim["proofs"]]
        tests = [f"`{test}`" for test in claim["tests"]]
        audits = [f"`{audit}`" for audit in claim["audits"]]
        lines.append(f"- Proofs: {', '.join(links) or claim['no_proof']}")
        lines.append(f"- Tests: {', '.join(tests)}")
        lines.append(f"- Audits: {', '.join(audits) or claim['no_audit']}")
        lines.append("- Said in:")
        for said in claim["said"]:
            name, _, sentence = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", said).partition(": ")
            lines.append(f"  - {name}: `` {sentence} ``")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
