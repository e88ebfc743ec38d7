"""What each term pays of the squared bound, and the weights that are proposed."""

import math

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.columns.structure import by_term, proposed_weights, share
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


@pytest.mark.parametrize("targets", [["log(wage)"], ["wage"], ["log(wage)", "hours"]])
@pytest.mark.parametrize("intercept", [True, False])
def test_no_other_weights_serve_the_targets_better(targets, intercept):
    """By the bound of the columns themselves, for weights farther and farther off."""
    terms = ["wage", "poly(age, 3)", "region", "hours", "union"]
    wanted = {"log(wage)" if name == "wage" else name for name in targets}
    bounds = {name: given for name, given in BOUNDS.items() if name != "sex"}
    # Of 1 / v, by hand.
    mean = {"log(wage)": 3, "poly(age, 3)": 5, "region": 5, "hours": 3, "union": 1}
    columns = pg.Columns(bounds, intercept=intercept, terms=terms)
    best = proposed_weights(columns, targets)
    assert best.keys() == mean.keys()

    def cost(weights):
        bound = pg.Columns(bounds, intercept=intercept, terms=terms, weights=weights).bound
        features = sum(mean[t] / weights[t] ** 2 for t in mean if t not in wanted)
        by_features = features / (6 * (len(mean) - len(wanted)))
        return bound**4 * features * sum(weights[t] ** -2 + by_features for t in wanted)

    rng = np.random.default_rng(2)
    least = cost(best)
    for size in np.repeat([0.05, 0.2, 1.0], 30):
        other = {t: w * math.exp(size * rng.normal()) for t, w in best.items()}
        assert cost(other) >= least * 0.9998  # three digits are near the least
    assert cost(dict.fromkeys(best, 1.0)) > 1.02 * least


def test_intercept_keeps_its_weight_and_has_a_share():
    columns = pg.Columns({"y": (0, 1), "x": (0, 1)}, intercept=True)
    weights = proposed_weights(columns, ["y"])
    target = 2 / (3 + math.sqrt(1 + 8 * (1 + math.sqrt(3)) ** 2 / 12))
    ones = (1 - target) / (1 + math.sqrt(3))
    assert weights == {"y": float(f"{math.sqrt(target / ones):.3g}"), "x": float(f"{3**0.25:.3g}")}


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["sex:region"], "not a single number"),
        (["poly(age, 3)"], "not a single number"),
        (["sex"], "not among the terms, or follows"),
        (["income"], "no variable 'income'"),
        ([], "others are there to explain"),
    ],
)
def test_wrong_targets_are_refused(targets, message):
    refuses(lambda: pg.plan(COLUMNS, **SETTING, targets=targets), ValueError, message)


def test_plan_has_the_noise_of_each_term():
    """By the law of the release that has these columns."""
    plan = pg.plan(COLUMNS, **SETTING, targets=["log(wage)"])
    for weights, numbers in (
        (COLUMNS.weights, [(row.weight, row.share, row.noise) for row in plan.terms]),
        (
            plan.weights,
            [(r.proposed_weight, r.proposed_share, r.proposed_noise) for r in plan.terms],
        ),
    ):
        columns = pg.Columns(BOUNDS, intercept=True, terms=TERMS, weights=weights)
        std = pg.AnalyzeGauss().calibrate(len(columns), columns.bound, 1.0, 1e-6).noise_std
        wage = weights.get("log(wage)", 1.0)
        for row, (weight, part, noise) in zip(plan.terms, numbers, strict=True):
            stored = by_term(columns)[row.term]
            if not stored:
                assert (row.columns, weight, part, noise) == (0, None, None, None)
                continue
            assert weight == weights.get(row.term, 1.0)
            assert part == share(columns, stored)
            assert math.isclose(noise, std / (weight * wage), rel_tol=1e-9)


def test_plan_without_targets_proposes_nothing():
    plan = make_plan(COLUMNS, **SETTING)
    assert plan.weights is None
    assert "proposed" not in str(plan)
    assert "sex:region" in str(plan)
    assert make_plan(pg.Columns({"x": (0, 1)}), **SETTING).terms == ()
    refuses(lambda: make_plan(3, bound=1.0, **SETTING, targets=["x"]), ValueError, "of Columns")
    assert str(make_plan(COLUMNS, **SETTING, targets="wage")) == str(
        make_plan(COLUMNS, **SETTING, targets=["wage"])
    )
