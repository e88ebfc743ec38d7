"""Errors that go together in clusters which are not what is protected (docs/theory/glm.md).

The other route is statsmodels' of the same rows, which calls it CR1.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import privgram as pg
from privgram.glm.clusters import CLUSTER_SHARES, cluster_moment

pd = pytest.importorskip("pandas")
sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")

K = 24
#: So large a budget that noise is nothing.
SURE = {"epsilon": 1e9, "delta": 0.5}
COLUMNS = {
    "x": (-4, 4), "by_g": (-4, 4), "y": (-12, 12), "win": bool,
    "g": pg.Factor(list(range(K))), "h": list("uvw"),
}  # fmt: skip


def made(n=20_000, seed=0, rho=0.1):
    """x varies by cluster in part, by_g by cluster alone; errors have the correlation rho there."""
    rng = np.random.default_rng(seed)
    g = rng.choice(K, n, p=rng.dirichlet(np.full(K, 3.0)))
    x = (rng.normal(size=K)[g] + rng.normal(size=n)) / np.sqrt(2)
    by_g = rng.normal(size=K)[g]
    e = np.sqrt(rho) * rng.normal(size=K)[g] + np.sqrt(1 - rho) * rng.normal(size=n)
    y = x + 0.5 * by_g + e
    h = np.array(list("uvw"))[rng.integers(0, 3, n)]
    columns = {"x": x, "by_g": by_g, "y": y, "win": y > 0.5, "g": g, "h": h}
    table = pd.DataFrame(columns)
    return table.assign(**{name: table[name].clip(*COLUMNS[name]) for name in ("x", "by_g", "y")})


def fitted(table, formula, *, seed=1, **options):
    given = {"cov_type": "cluster", "groups": "g", "rng": np.random.default_rng(seed)} | options
    return pg.regress(table, formula, given.pop("columns", COLUMNS), **given)


FORMULAS = {
    "y ~ x + by_g": "y ~ x + by_g",
    "y ~ x + h": "y ~ x + h",
    "y ~ x + g": "y ~ x + C(g)",
    "y ~ x | h": "y ~ x + C(h)",
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_without_noise_it_is_that_of_statsmodels(formula):
    table = made()
    fit = fitted(table, formula, **SURE)
    by = {"cov_type": "cluster", "cov_kwds": {"groups": table["g"]}, "use_t": True}
    theirs = smf.ols(FORMULAS[formula], table).fit(**by)
    assert (fit.cov_type, fit.use_t) == ("cluster", True)
    assert fit.parameters["clusters"]["seen"] == K
    assert fit.params["x"] == pytest.approx(theirs.params["x"], rel=1e-5)
    assert fit.bse["x"] == pytest.approx(theirs.bse["x"], rel=1e-3)
    assert fit.pvalues["x"] == pytest.approx(theirs.pvalues["x"], rel=0.02)
    np.testing.assert_allclose(fit.conf_int().loc["x"], theirs.conf_int().loc["x"], rtol=1e-3)
    test, other = fit.f_test("x = 0.9"), theirs.f_test("x = 0.9")
    assert test.fvalue == pytest.approx(float(other.fvalue), rel=0.01)
    assert test.df_denom == other.df_denom == K - 1
    assert f"errors go together in the {K} clusters of g" in str(fit.summary())


def test_logistic_without_noise_is_that_of_statsmodels(tmp_path):
    table = made()
    fit = fitted(table, "win ~ x + h", family="binomial", **SURE)
    dummies = pd.get_dummies(table["h"], dtype=float)[["v", "w"]]
    X = pd.concat([table[["x"]], dummies], axis=1).assign(Intercept=1.0)
    by = {"cov_type": "cluster", "cov_kwds": {"groups": table["g"]}}
    theirs = sm.GLM(table["win"].astype(float), X, sm.families.Binomial()).fit(**by)
    np.testing.assert_allclose(fit.params, theirs.params, rtol=2e-3)
    np.testing.assert_allclose(fit.bse, theirs.bse, rtol=5e-3)
    fit.save(tmp_path / "fit.json")
    loaded = pg.load(tmp_path / "fit.json")
    np.testing.assert_array_equal(loaded.pvalues, fit.pvalues)
    assert loaded.cov_type == "cluster"


def test_row_in_no_listed_cluster_is_left_out_or_an_error():
    """Before anything is spent; where rows are dropped, of every sum."""
    table = made()
    table["g"] = table["g"].where(np.arange(len(table)) % 5 > 0, K + 7)
    study = pg.Study(table, COLUMNS, epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="row 0"):
        study.regress("y ~ x", epsilon=0.5, cov_type="cluster", groups="g")
    assert not study.entries
    columns = pg.Columns(COLUMNS, missing="drop")
    fit = fitted(table, "y ~ x", columns=columns, **SURE)
    kept = table[table["g"] < K]
    theirs = smf.ols("y ~ x", kept).fit(
        cov_type="cluster", cov_kwds={"groups": kept["g"]}, use_t=True
    )
    assert fit.nobs == pytest.approx(len(kept), abs=1)
    np.testing.assert_allclose(fit.params["x"], theirs.params["x"], rtol=1e-5)
    np.testing.assert_allclose(fit.bse["x"], theirs.bse["x"], rtol=1e-3)


def test_second_moment_is_that_of_the_sums_and_one_deviation_more():
    """Of 2,000 draws: the mean of each eigenvalue is known to a hundredth of its deviation."""
    rng = np.random.default_rng(0)
    size, q, std = 40, 2, 3.0
    exact = rng.normal(size=(size, q)) * [20.0, 10.0]
    numbers = np.full(size, 500.0)
    clusters = SimpleNamespace(size=size, groups="g")

    def score(kind, share):
        if kind == "numbers":
            return numbers, 1.0
        return (exact + std * rng.normal(size=exact.shape)).ravel(), std

    rounds = SimpleNamespace(score=score)
    drawn = [
        cluster_moment(clusters, rounds, ("sums", "numbers"), exact.sum(axis=0), 0.0, np.eye(q))
        for _ in range(2000)
    ]
    centred = exact - exact.mean(axis=0)
    deviation = np.sqrt(size) * std**2
    expected = (centred.T @ centred + deviation * np.eye(q)) * size / (size - 1)
    mean = np.mean([matrix for matrix, _ in drawn], axis=0)
    np.testing.assert_allclose(mean, expected, atol=0.02 * expected.max())
    signal = np.trace(centred.T @ centred) / q
    ratio = np.median([facts.ratio for _, facts in drawn])
    assert ratio == pytest.approx(np.sqrt(2 * size) * std**2 / signal, rel=0.05)


def test_clusters_whose_sums_the_noise_hides_are_refused():
    fit = fitted(made(4000, rho=0.0), "y ~ h", epsilon=0.5, delta=1e-6)
    assert "errors by g go together" in fit.refusal
    assert fit.parameters["clusters"]["ratio"] > CLUSTER_SHARES.most
    assert np.isnan(fit.bse).all()


@pytest.mark.slow
@pytest.mark.parametrize("formula", ["y ~ x | g", "y ~ x + g"])
def test_clusters_whose_effects_are_fitted_are_answered(formula):
    """Scores of a level sum to 0, which was taken for nothing but noise: 30 of 30 were refused."""
    for seed in range(3):
        table = made(seed=seed)
        slopes = 0.3 * np.random.default_rng(1000 + seed).normal(size=K)
        table = table.assign(y=(table.y + slopes[table.g] * table.x).clip(*COLUMNS["y"]))
        fit = fitted(table, formula, epsilon=4.0, delta=1e-6, seed=seed)
        by = {"cov_type": "cluster", "cov_kwds": {"groups": table["g"]}}
        usual = smf.ols("y ~ x + C(g)", table).fit(**by)
        assert fit.refusal is None
        assert 0.8 < fit.bse["x"] / usual.bse["x"] < 1.6
        assert abs(fit.params["x"] - usual.params["x"]) < 2 * usual.bse["x"]


def test_clusters_of_effects_alone_are_an_answer_or_a_refusal():
    fit = fitted(made(), "y ~ g", epsilon=4.0, delta=1e-6)
    assert fit.refusal is None or "go together" in fit.refusal


def test_rounds_that_look_for_a_hidden_direction_leave_what_sums_by_cluster_take():
    """A dummy true in 5 of 20,000, for which all rounds are taken."""
    table = made().assign(rare=np.arange(20_000) % 4000 == 0)
    columns = COLUMNS | {"rare": bool}
    for epsilon in (0.5, 1.0, 2.0):
        fit = fitted(table, "y ~ x + rare", columns=columns, epsilon=epsilon, delta=1e-6)
        assert "go together" in (fit.refusal or "go together")


@pytest.mark.slow
def test_intervals_hold_as_often_as_those_without_privacy():
    """True slopes of 24 tables: fewer than CR1 by 5 of 48 would be once in 1,000 times."""
    truth = {"x": 1.0, "by_g": 0.5}
    held = np.zeros((24, 2, 2))
    for seed in range(24):
        table = made(seed=seed)
        fit = fitted(table, "y ~ x + by_g", epsilon=4.0, delta=1e-6, seed=seed)
        by = {"cov_type": "cluster", "cov_kwds": {"groups": table["g"]}, "use_t": True}
        both = fit.conf_int(), smf.ols("y ~ x + by_g", table).fit(**by).conf_int()
        for i, ends in enumerate(both):
            for j, (name, value) in enumerate(truth.items()):
                low, high = ends.loc[name]
                held[seed, i, j] = low <= value <= high
    private, usual = held.sum(axis=(0, 2))
    assert private >= usual - 5
