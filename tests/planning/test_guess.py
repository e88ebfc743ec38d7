"""Rows of a guess: what it says of shares, means, deviations and correlations, and what it may."""

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.planning.designs import simulated_rows
from privgram.planning.guess import Guess

COLUMNS = pg.Columns(
    {
        "x": (-4, 4),
        "wage": pg.Log(1, 500),
        "union": bool,
        "owner": (0, 1),
        "part": (0, 1),
        "region": ["n", "s", "w"],
        "visits": (0, 40),
    },
    intercept=True,
)
N = 40_000


def rows(design, **known):
    return {name: np.asarray(x) for name, x in Guess.of(design, COLUMNS, **known).rows(N).items()}


@pytest.mark.parametrize("upper", [5e4, 1e9, 1e15])
def test_counts_up_to_any_bound_are_those_of_their_law(upper):
    """Of a negative binomial law of size 1, whose quantiles there are in closed form."""
    columns = pg.Columns({"visits": (0, upper)}, intercept=True)
    guess = Guess.of({}, columns, counts=frozenset({"visits"}))
    part = np.linspace(0.01, 0.99, 99)
    mean = upper / 10
    exact = np.ceil(np.log1p(-part) / -np.log1p(1 / mean) - 1)
    counts = guess._counted("visits", part)
    np.testing.assert_array_equal(counts, np.round(counts))
    np.testing.assert_allclose(counts, exact, atol=1 + 2 * upper / 2**20)


def test_shares_means_and_deviations_are_those_that_are_stated():
    """Within five standard errors: all eight hold in all but one of 200,000 draws."""
    table = rows(
        {
            "mean": {"x": 1, "wage": 3, "union": 0.02, "owner": 0.1, "region[s]": 0.01,
                     "part": 0.4, "visits": 0.8},
            "std": {"x": 0.5, "part": 0.05, "visits": 2.0},
        },
        counts=frozenset({"visits"}),
    )  # fmt: skip
    shares = {"union": 0.02, "owner": 0.1}
    for name, share in shares.items():
        error = np.sqrt(share * (1 - share) / N)
        assert table[name].mean() == pytest.approx(share, abs=5 * error)
        assert set(np.unique(table[name])) == {0, 1}
    assert (table["region"] == "s").mean() == pytest.approx(0.01, abs=5 * 0.0005)
    assert (table["region"] == "n").mean() == pytest.approx(0.495, abs=5 * 0.0025)
    assert table["x"].mean() == pytest.approx(1, abs=5 * 0.0025)
    assert table["part"].std() == pytest.approx(0.05, rel=0.02)
    assert np.log(table["wage"]).mean() == pytest.approx(3, abs=0.03)
    assert table["visits"].mean() == pytest.approx(0.8, abs=5 * 0.01)
    assert table["visits"].std() == pytest.approx(2, rel=0.06)
    assert np.all(table["visits"] == np.rint(table["visits"]))


def test_unstated_facts_are_guessed_and_listed():
    guess = Guess.of({}, COLUMNS, counts=frozenset({"visits"}))
    assert guess.assumptions == [
        "numbers are normal about the middle of their bounds",
        "owner, part (0 to 1) is 0 or 1",
        "union, owner, part, region has each value as often",
        "visits has a mean of 4 and a standard deviation of 4.5",
        "columns are uncorrelated",
    ]
    table = rows({}, counts=frozenset({"visits"}))
    assert table["owner"].std() == pytest.approx(0.5, rel=0.01)
    assert table["visits"].var() == pytest.approx(4 + 4**2, rel=0.1)
    stated = Guess.of({"mean": {"x": 1}, "correlation": {("x", "wage"): 0.5}}, COLUMNS)
    assert "numbers are normal, wage, visits about the middle of their bounds" in stated.assumptions
    assert "other pairs of columns are uncorrelated" in stated.assumptions


def test_levels_and_instruments_go_together_with_numbers():
    table = rows({("x", "region"): 0.6, ("x", "log(wage)"): -0.3})
    code = np.array([list("nsw").index(level) for level in table["region"]])
    assert 0.4 < np.corrcoef(table["x"], code)[0, 1] < 0.6
    assert np.corrcoef(table["x"], np.log(table["wage"]))[0, 1] == pytest.approx(-0.3, abs=0.03)
    instrumented = {"instrumented": (("x", ("wage", "union")),)}
    table = rows({}, **instrumented)
    design = np.column_stack([np.log(table["wage"]), table["union"], np.ones(N)])
    left = table["x"] - design @ np.linalg.lstsq(design, table["x"])[0]
    assert 0.15 < 1 - left.var() / table["x"].var() < 0.27
    table = rows({("x", "wage"): 0.1}, **instrumented)
    assert np.corrcoef(table["x"], np.log(table["wage"]))[0, 1] == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(
    ("design", "words"),
    [
        ({"mean": {"region": 0.1}}, "has levels, and a mean of each"),
        ({"mean": {"region[x]": 0.1}}, "none of these columns"),
        ({"mean": {"region[n]": 0.6, "region[s]": 0.6}}, "must add to 1"),
        ({"mean": {"wage": 25}}, "within its bounds in own units"),
        ({"mean": {"union": 1.5}}, "within its bounds"),
        ({"mean": {"x": float("nan")}}, "within its bounds"),
        ({"std": {"union": 0.3}}, "follows from its mean"),
        ({"std": {"x": -1}}, "must be positive"),
        ({("x", "y"): 0.3}, "none of these columns"),
        ({("x", "wage", "union"): 0.3}, "is of two columns"),
        ({("x", "wage"): 1.2}, "contradict"),
    ],
)
def test_impossible_design_is_refused(design, words):
    refuses(lambda: rows(design), ValueError, words)
    refuses(lambda: Guess.of({"mean": 3}, COLUMNS), TypeError, "is a mapping")


def test_whole_units_are_drawn_of_a_table_that_has_them():
    columns = pg.Columns({"x": (0, 100)}, intercept=True)
    sizes = np.repeat([1, 3, 2], 100)
    who = np.repeat(np.arange(300), sizes)
    table = {"x": who % 97 * 1.0, "who": who}
    for n in (50, len(who), 5000):
        drawn = simulated_rows(table, columns, n, "who")[1]
        assert n <= len(drawn["x"]) < n + 3
        for unit in np.unique(drawn["who"]):
            assert len(set(drawn["x"][drawn["who"] == unit])) == 1
