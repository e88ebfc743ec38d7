"""The page of the papers' experiments says what its results say."""

from bench import pages
from docs import low_rank


def test_tables_are_what_the_script_writes():
    for name, lines in low_rank.TABLES.items():
        pages.fill(name, lines(), check=True)  # exits where the page says something else


def test_conclusions_of_the_page():
    """Ratios to noise on A: falling with m in the regimes of the theorems, rising with C."""
    rows = low_rank.read("low-rank")

    def ratios(varied):
        return [r["pfp"] / r["randomised_response"] for r in rows if r["varied"] == varied]

    for regime in ("6.2", "6.3"):
        assert ratios(regime)[-1] < 0.7 < 1.2 < ratios(regime)[0]
    assert ratios("spike")[-1] > 1.4
    assert all(r["pfp"] < min(r["theorem_6_2"], r["theorem_6_3"]) for r in rows)
