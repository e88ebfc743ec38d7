"""Which levels a fit leaves out: none depend on others, and all are spanned.

By NumPy's least squares on the indicators of all levels, whose fitted values do not depend on how
levels are left out.
"""

import numpy as np
import pytest

import privgram as pg

N_ROWS = 3000
LEVELS = {"a": ["p", "q", "r"], "b": ["u", "v"], "c": ["x", "y", "z"]}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(8)
    table = {name: rng.choice(levels, N_ROWS) for name, levels in LEVELS.items()}
    table["n"] = rng.uniform(-1, 1, N_ROWS)
    table["y"] = rng.uniform(-1, 1, N_ROWS)
    return table


def dummies(table, terms, intercept):
    """Columns of all levels of all terms."""
    columns_of_terms = [np.ones(N_ROWS)] * intercept
    for term in terms:
        columns = [np.ones(N_ROWS)]
        for name in term.split(":"):
            factor_columns = (
                [table[name] == level for level in LEVELS[name]]
                if name in LEVELS
                else [table[name]]
            )
            columns = [old * new for old in columns for new in factor_columns]
        columns_of_terms += columns
    return np.column_stack(columns_of_terms)


@pytest.mark.parametrize(
    ("terms", "intercept"),
    [
        (["a"], True),
        (["a"], False),
        (["a", "b"], False),
        (["a:b"], True),
        (["a:b"], False),
        (["a", "a:b"], True),
        (["a:b", "a"], True),
        (["a:b", "b:c"], True),
        (["a:b", "c"], False),
        (["a:b:c", "b"], True),
        (["a:b:c"], True),
        (["n", "n:a", "n:b"], True),
        (["n:a", "n", "b"], True),
        (["n:a:b", "n:a", "n", "a"], True),
    ],
)
def test_fitted_values_are_those_of_all_levels(table, terms, intercept):
    bounds = {"y": (-1, 1), "n": (-1, 1), **LEVELS}
    used = {name for term in terms for name in term.split(":")} | {"y"}
    bounds = {name: given for name, given in bounds.items() if name in used}
    columns = pg.Columns(bounds, intercept=intercept, terms=["y", *terms])
    moment = pg.second_moment(
        np.rec.fromarrays([table[n] for n in bounds], names=",".join(bounds)), columns=columns
    )
    # A noise of 1e-4 beside sums of hundreds.
    release = pg.release(
        moment, epsilon=1e9, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=np.random.default_rng(0)
    )
    for chosen in (terms, None):
        fit = release.regress("y", chosen)
        written = dummies(table, terms, intercept)
        best, _, rank, _ = np.linalg.lstsq(written, table["y"], rcond=None)
        assert len(fit.design.images) - 1 == rank
        assert fit.refusal is None
        np.testing.assert_allclose(fit.predict(table), written @ best, atol=2e-4)


def test_marginal_is_regressed_on_what_is_left(table):
    columns = pg.Columns({"y": (-1, 1), "n": (-1, 1), "a": LEVELS["a"]}, intercept=True)
    moment = pg.second_moment(
        np.rec.fromarrays([table[n] for n in columns.bounds], names="y,n,a"), columns=columns
    )
    release = pg.release(moment, epsilon=10.0, delta=1e-6, mechanism=pg.AnalyzeGauss())
    assert release.marginal(["y", "a[p]", "a[q]", "a[r]"]).regress("y").design.names == (
        "a[q]",
        "a[r]",
    )
    # Without all levels there is no column of ones.
    assert release.marginal(["y", "n", "a[p]", "a[q]"]).regress("y").design.names == ("n",)


def test_level_of_few_rows_is_named():
    """Of 30 rows among 40,000, beside noise of a standard deviation of 22."""
    rng = np.random.default_rng(3)
    code, n = rng.integers(0, 2, 40_000), 40_000
    code[:30] = 2
    y = np.clip(0.2 * code + rng.normal(0, 0.2, n), -1, 1)
    rows = np.rec.fromarrays([np.array(["p", "q", "r"])[code], y], names="a,y")
    columns = pg.Columns({"a": LEVELS["a"], "y": (-1, 1)}, intercept=True)
    moment = pg.second_moment(rows, columns=columns)
    cautions = []
    for seed in range(20):
        release = pg.release(
            moment, None, 0.5, 1e-6, mechanism=pg.AnalyzeGauss(), rng=np.random.default_rng(seed)
        )
        cautions.append(release.regress("y", ["a"]).caution)
    named = [text for text in cautions if text and "'a[r]' seem to have so few rows" in text]
    assert len(named) > 10
    assert not any("depend on each other" in text for text in cautions if text)
