"""What each term pays of the squared bound."""

import math

import privgram as pg
from privgram.columns.structure import by_term, share
from privgram.planning.plan import plan as make_plan

BOUNDS = {
    "wage": pg.Log(2, 500),
    "age": (18, 90),
    "sex": ["f", "m"],
    "region": ["n", "e", "s", "w", "abroad"],
    "hours": (0, 80),
    "union": bool,
}
TERMS = ["wage", "age", "poly(age, 3)", "sex", "sex:region", "hours:sex", "hours"]
COLUMNS = pg.Columns(BOUNDS, intercept=True, terms=TERMS, weights={"sex:region": 2, "hours:sex": 3})
SETTING = {"epsilon": 1.0, "delta": 1e-6}


def test_every_stored_column_is_of_one_term():
    stored = by_term(COLUMNS)
    assert list(stored) == ["log(wage)", *TERMS[1:]]  # the levels sum to the intercept
    sizes = {term: sum(one.size for one in given) for term, given in stored.items()}
    assert list(sizes.values()) == [1, 0, 3, 0, 10, 2, 0]
    assert sum(sizes.values()) == len(COLUMNS)
    columns = pg.Columns({"x": (0, 1)}, intercept=True)
    assert list(by_term(columns)) == ["x", "intercept"]


def test_shares_are_those_of_the_longest_row():
    """By the row that is longest, encoded."""
    longest = {"wage": [500], "age": [90], "sex": ["m"], "region": ["w"], "hours": [80]}
    row = COLUMNS.encode(longest)[0]
    noise = {}
    for term, stored in by_term(COLUMNS).items():
        noise[term] = share(COLUMNS, stored)
        part = sum((row[one.columns] ** 2).sum() for one in stored)
        assert math.isclose(noise[term], part / (row @ row), abs_tol=1e-15)
    assert math.isclose(sum(noise.values()), 1.0)


def test_plan_has_the_noise_of_each_term():
    """By the law of the release that has these columns."""
    plan = make_plan(COLUMNS, **SETTING)
    std = pg.AnalyzeGauss().calibrate(len(COLUMNS), COLUMNS.bound, 1.0, 1e-6).noise_std
    for row in plan.terms:
        stored = by_term(COLUMNS)[row.term]
        if not stored:
            assert (row.columns, row.weight, row.share, row.noise) == (0, None, None, None)
            continue
        assert row.weight == COLUMNS.weights.get(row.term, 1.0)
        assert row.share == share(COLUMNS, stored)
        assert math.isclose(row.noise, std / row.weight, rel_tol=1e-9)
    assert "sex:region" in str(plan)
    assert make_plan(pg.Columns({"x": (0, 1)}), **SETTING).terms == ()
