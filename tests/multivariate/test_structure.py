"""Factors, canonical correlations, discriminants and sparse inverses of noisy releases."""

import numpy as np
import pytest
from support.helpers import make_release

import privgram as pg
from privgram.multivariate import varimax
from privgram.multivariate.variables import Variables
from privgram.noise import GaussianLaw
from privgram.regression import RefusedError

LAW = GaussianLaw(12.0, 17.0)
NAMES = ("a", "b", "c", "d", "e", "f")


def released(rng, rows=1500, law=LAW, names=NAMES):
    """Two factors behind three columns each, with noise in their moments."""
    factors = rng.standard_normal((rows, 2))
    table = np.repeat(factors, 3, axis=1) * 0.8 + 0.6 * rng.standard_normal((rows, 6))
    table = np.column_stack([table * [1, 2, 3, 1, 2, 3] / 2 + 0.5, np.ones(rows)])
    return make_release(law.draw(table.T @ table, rng), (*names, "intercept"), law, n_rows=rows)


def spread(statistic, trials=60):
    rng = np.random.default_rng(1)
    return np.std([statistic(released(rng)) for _ in range(trials)], axis=0)


# 60 draws of a deviation are within 9.2 % of it at one sigma, and the simulation of 100 within 7 %:
# 45 % is 4 sigma of both.


@pytest.mark.long
def test_errors_of_loadings_are_their_spread():
    first = released(np.random.default_rng(2)).factor_analysis(2)

    def loadings(release):
        fitted = release.factor_analysis(2).loadings
        left, _, right = np.linalg.svd(fitted.T @ first.loadings)
        return fitted @ left @ right

    np.testing.assert_allclose(first.stderr, spread(loadings), rtol=0.45)


@pytest.mark.slow
def test_errors_of_canonical_correlations_are_their_spread():
    first = released(np.random.default_rng(3)).cca(["a", "b", "d"], ["c", "e", "f"])
    expected = spread(lambda release: release.cca(["a", "b", "d"], ["c", "e", "f"]).correlations)
    np.testing.assert_allclose(first.stderr[:2], expected[:2], rtol=0.45)
    assert first.correlations[1] > first.edge() > first.correlations[2]


@pytest.mark.long
def test_errors_of_noise_alone_are_about_these_rows():
    """Their spread over releases of the same rows: of 60 it is within 9.2 % at one sigma."""
    rng = np.random.default_rng(13)
    table = rng.standard_normal((2000, 2)) @ [[1, 1, 0.5, 0], [0, 0, 0.5, 1]]
    table = np.column_stack([table + 0.5 * rng.standard_normal((2000, 4)), np.ones(2000)])
    names = (*"abcd", "intercept")

    def release():
        return make_release(LAW.draw(table.T @ table, rng), names, LAW, n_rows=2000)

    several = [release() for _ in range(60)]
    for statistic, of in (
        (lambda r: r.cca(["a", "b"], ["c", "d"]), "correlations"),
        (lambda r: r.pca(1, standardize=True), "components_"),
        (lambda r: r.factor_analysis(1), "loadings"),
    ):
        expected = np.std([getattr(statistic(one), of) for one in several], axis=0)
        first = statistic(several[0])
        ratio = first.noise_stderr / expected
        assert np.all((ratio > 0.55) & (ratio < 1.45))
        assert np.all(first.noise_stderr < first.stderr)


@pytest.mark.long
def test_sets_that_say_nothing_of_each_other_are_below_the_edge():
    # Each above it in 1 of 20: 5 of 20 or more have probability 2.6e-3.
    rng = np.random.default_rng(4)
    several = [released(rng).cca(["a", "b"], ["d", "e"]) for _ in range(20)]
    assert sum(one.correlations[0] > one.edge() for one in several) < 5


def test_varimax_finds_a_simple_structure():
    simple = np.zeros((6, 2))
    simple[:3, 0], simple[3:, 1] = [0.9, 0.8, 0.7], [0.6, 0.9, 0.5]
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    back = varimax(simple @ turn)
    np.testing.assert_allclose(np.sort(np.abs(back)), np.sort(simple), atol=1e-6)
    release = released(np.random.default_rng(5), 20_000)
    turned = release.factor_analysis(2)
    plain = release.factor_analysis(2, rotation="none")
    np.testing.assert_allclose(turned.implied_correlation, plain.implied_correlation, atol=1e-9)
    assert np.abs(turned.loadings[:3, 1]).max() < 0.1
    np.testing.assert_allclose(turned.communalities, 0.64, atol=0.05)
    assert turned.explained_variance_ratio.sum() == pytest.approx(turned.communalities.mean())


def test_too_many_factors_and_hidden_ones_are_refused():
    release = released(np.random.default_rng(6))
    with pytest.raises(ValueError, match="no one solution"):
        release.factor_analysis(4)
    with pytest.raises(ValueError, match="rotation"):
        release.factor_analysis(1, rotation="oblimin")
    noisy = released(np.random.default_rng(6), 100, GaussianLaw(60.0, 1.0))
    with pytest.raises(RefusedError, match="noise"):
        noisy.factor_analysis(2)
    with pytest.raises(RefusedError, match="noise"):
        noisy.cca(["a", "b", "c"], ["d", "e", "f"])
    with pytest.raises(TypeError, match="lists of columns"):
        release.cca("a", ["b"])
    with pytest.raises(ValueError, match="a, c is in both sets"):
        release.cca(["c", "a", "b"], ["a", "c"])


def test_impossible_canonical_correlations_are_refused():
    """Each set alone is positive definite, and noise makes a correlation of 1.25."""
    names = ("a", "b", "intercept")
    moment = np.diag([100.0, 100.0, 100.0])
    moment[0, 1] = moment[1, 0] = 125.0
    release = make_release(moment, names, GaussianLaw(1.0, 1.4), n_rows=100)
    with pytest.raises(RefusedError, match="exceeds the signal"):
        release.cca(["a"], ["b"])
    # Where noise nearly makes one, most other releases are impossible, and nothing has an error.
    moment[0, 1] = moment[1, 0] = 99.9
    with pytest.raises(RefusedError, match="standard errors"):
        make_release(moment, names, GaussianLaw(20.0, 28.0), n_rows=100).cca(["a"], ["b"])
    with pytest.raises(ValueError, match="intercept"):
        release.marginal(["a", "b"]).cca(["a"], ["b"])


def test_edge_counts_releases_that_cannot_be():
    """A draw for which a correlation would exceed 1 is not left out of the quantile."""
    moment = np.diag([100.0, 100.0, 1e6])
    names = ("a", "b", "intercept")
    release = make_release(moment, names, GaussianLaw(80.0, 1.0), n_rows=10**6)
    # |N(0, 1)| exceeds 100 / 80 in 21 %: in fewer than 6 of 100 with probability 1e-5.
    assert release.cca(["a"], ["b"]).edge(0.05) == 1.0


@pytest.mark.slow
def test_penalty_by_noise_joins_what_is_correlated():
    pytest.importorskip("sklearn")
    joined = released(np.random.default_rng(7)).graphical_lasso()
    pairs = {pair[:2] for pair in joined.edges}
    blocks = [set("abc"), set("def")]
    assert pairs
    assert all(any(set(pair) <= block for block in blocks) for pair in pairs)
    np.testing.assert_allclose(joined.precision @ joined.correlation, np.eye(6), atol=5e-3)
    # Without correlations nothing is joined in 19 of 20: 5 of 20 or more have probability 2.6e-3.
    rng = np.random.default_rng(8)
    names = (*"abcd", "intercept")
    plain = [np.hstack([rng.standard_normal((400, 4)), np.ones((400, 1))]) for _ in range(20)]
    releases = [make_release(LAW.draw(t.T @ t, rng), names, LAW, n_rows=400) for t in plain]
    assert sum(bool(release.graphical_lasso().edges) for release in releases) < 5
    with pytest.raises(ValueError, match="alpha"):
        releases[0].graphical_lasso(alpha="cv")
    assert releases[0].graphical_lasso(alpha=0.9).edge == releases[0].graphical_lasso().alpha
    drowned = make_release(np.diag([50.0] * 4 + [400.0]), names, GaussianLaw(40.0, 1.0), n_rows=400)
    with pytest.raises(RefusedError, match="drowns"):
        drowned.graphical_lasso(alpha=0.1)


# --- Discriminants ------------------------------------------------------------------------

COLUMNS = pg.Columns(
    {"x": (-6, 6), "y": (-6, 6), "kind": ["u", "v", "w"], "sex": ["f", "m"]},
    weights={"kind": 2.0},
)


def kinds(rng, rows=3000, law=GaussianLaw(1e-9, 1e-9)):  # noqa: B008 - a frozen record
    code = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    centres = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    table = {
        "x": centres[code, 0] + rng.standard_normal(rows),
        "y": centres[code, 1] + rng.standard_normal(rows),
        "kind": np.array(["u", "v", "w"])[code],
        "sex": rng.choice(["f", "m"], rows),
    }
    stored = COLUMNS.encode(table)
    matrix = law.draw(stored.T @ stored, rng)
    return table, make_release(matrix, COLUMNS.names, law, rows, COLUMNS, COLUMNS.bound)


def test_discriminants_are_of_the_weighted_columns_too():
    pytest.importorskip("pandas")
    table, release = kinds(np.random.default_rng(9))
    discriminants = release.lda("kind")
    assert discriminants.names == ("x", "y")
    for k, level in enumerate("uvw"):
        at = table["kind"] == level
        np.testing.assert_allclose(discriminants.priors[k], at.mean())
        np.testing.assert_allclose(
            discriminants.means[k], [table["x"][at].mean(), table["y"][at].mean()]
        )
    other = release.lda("kind", ["x", "sex[m]"])
    np.testing.assert_allclose(other.means[:, 0], discriminants.means[:, 0])
    only = {name: table[name] for name in ("x", "y")}  # the factor itself is not read
    assert (discriminants.predict(only) == table["kind"]).mean() > 0.75
    assert discriminants.transform(only).shape == (3000, 2)
    assert discriminants.frame().loc["y", "w"] == discriminants.coef[2, 1]
    assert str(discriminants).splitlines()[-1].split()[-1] == f"{discriminants.priors[2]:.4g}"
    # A row that lacks a value is told nothing of.
    lacking = {"x": [0.0, np.nan], "y": [1.0, 1.0]}
    assert np.isnan(discriminants.predict_proba(lacking)).any(axis=1).tolist() == [False, True]
    with pytest.raises(ValueError, match="1 rows lack a value of x, y"):
        discriminants.predict(lacking)
    with pytest.raises(ValueError, match=r"kind\[v\] is what"):
        release.lda("kind", ["x", "kind[v]"])


@pytest.mark.slow
def test_errors_of_discriminants_are_their_spread():
    law = GaussianLaw(10.0, 14.0)
    rng = np.random.default_rng(10)
    several = [kinds(rng, law=law)[1].lda("kind") for _ in range(60)]
    expected = np.std([one.coef for one in several], axis=0)
    np.testing.assert_allclose(several[0].stderr, expected, rtol=0.45)


def test_discriminants_are_refused_where_noise_hides_them():
    _, release = kinds(np.random.default_rng(11), 60, GaussianLaw(200.0, 300.0))
    with pytest.raises(RefusedError, match=r"hides a level|signal in some direction"):
        release.lda("kind")
    _, release = kinds(np.random.default_rng(11))
    with pytest.raises(ValueError, match="there are kind, sex"):
        release.lda("x")
    with pytest.raises(RefusedError, match="depend on each other"):
        release.lda("kind", ["sex[f]", "sex[m]", "x"])
    # A number is a feature though only its products were released.
    columns = pg.Columns({"x": (-6, 6), "kind": ["u", "v"]}, terms=["x*kind"])
    rng = np.random.default_rng(12)
    stored = columns.encode({"x": rng.normal(size=500), "kind": rng.choice(["u", "v"], 500)})
    law = GaussianLaw(1e-9, 1e-9)
    products = make_release(stored.T @ stored, columns.names, law, 500, columns, columns.bound)
    assert products.lda("kind").names == ("x",)


# --- few columns, weighted rows -------------------------------------------------------------------


def test_graph_takes_two_columns():
    pytest.importorskip("sklearn")
    release = make_release(np.diag([50.0, 40.0, 100.0]), ("a", "b", "intercept"), n_rows=100)
    with pytest.raises(ValueError, match="two columns at least"):
        release.graphical_lasso(["a"])


def test_weighted_rows_without_ones_have_correlations_about_zero_alone():
    """Their weights have no known sum, by which a variance would be divided."""
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.uniform(-1, 1, (500, 2)), rng.uniform(0, 1, 500)])
    rows[:, 1] += rows[:, 0]
    columns = pg.Columns({"a": (-2, 2), "b": (-2, 2), "w": (0, 1)}, row_weights="w")
    release = pg.release(
        rows, columns=columns, epsilon=1e14, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=rng
    )
    covariance = Variables(release).covariance
    moment = (rows[:, :2] * rows[:, 2:]).T @ rows[:, :2]
    expected = moment / np.sqrt(np.outer(moment.diagonal(), moment.diagonal()))
    np.testing.assert_allclose(covariance.correlation, expected, atol=1e-5)
    assert np.isnan(covariance.rows)
    with pytest.raises(RefusedError, match="intercept=True"):
        _ = covariance.std
