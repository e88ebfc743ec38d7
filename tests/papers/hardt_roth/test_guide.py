"""The page of the papers' experiments says what its results say."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "docs" / "low_rank.py"
SPEC = importlib.util.spec_from_file_location("docs_low_rank", SCRIPT)
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)


def test_tables_are_what_the_script_writes():
    text = script.PAGE.read_text(encoding="utf-8")
    assert sorted(match[1] for match in script.BLOCK.finditer(text)) == sorted(script.TABLES)
    assert script.fill(text) == text


def test_what_the_page_concludes():
    """Ratios to noise on A: falling with m in the regimes of the theorems, rising with C."""
    rows = script.read("low-rank")

    def ratios(varied):
        return [r["pfp"] / r["randomised_response"] for r in rows if r["varied"] == varied]

    for regime in ("6.2", "6.3"):
        assert ratios(regime)[-1] < 0.7 < 1.2 < ratios(regime)[0]
    assert ratios("spike")[-1] > 1.4
    assert all(r["pfp"] < min(r["theorem_6_2"], r["theorem_6_3"]) for r in rows)
