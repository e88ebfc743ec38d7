"""Without noise every statistic is the reference implementation's, on five real tables."""

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("statsmodels")
pytest.importorskip("sklearn")
from support import real_tables as tables

each = pytest.mark.parametrize("name", tables.NAMES)


@each
@pytest.mark.parametrize("standardize", [False, True], ids=["centred", "standardised"])
def test_principal_components(name, standardize):
    from sklearn.decomposition import PCA

    table = tables.numbers(name)
    rows = (table - table.mean()) / (table.std() if standardize else 1.0)
    ours = tables.exact(table).pca(units="own", standardize=standardize)
    known = PCA().fit(rows)
    np.testing.assert_allclose(ours.explained_variance_, known.explained_variance_, rtol=1e-8)
    signs = np.sign((ours.components_ * known.components_).sum(axis=1))
    np.testing.assert_allclose(ours.components_, signs[:, None] * known.components_, atol=1e-7)
    scores = signs * known.transform(rows)
    np.testing.assert_allclose(ours.transform(table), scores, atol=1e-7 * scores.max())
    # Loadings are covariances of columns and scores, over the scores' deviation.
    loadings = rows.T.to_numpy() @ scores / scores.std(axis=0, ddof=1) / (len(rows) - 1)
    np.testing.assert_allclose(ours.loadings, loadings, atol=1e-6 * np.abs(loadings).max())


#: Columns whose likelihood has its maximum inside: where one has hardly a variance of its own,
#: as a petal's length, scikit-learn stops short of it.
WITH_FACTORS = {
    "wine": ("alcohol", "malic_acid", "ash", "magnesium", "total_phenols", "nonflavanoid_phenols"),
    "modechoice": ("individual", "choice", "ttme", "gc", "hinc", "psize"),
    "randhie": ("mdvis", "lncoins", "lpi", "fmde", "physlm", "disea", "hlthg"),
    "star98": ("NABOVE", "PERASIAN", "PERBLACK", "PERHISP", "AVYRSEXP", "AVSALK", "PERSPENK"),
    "diabetes": ("age", "sex", "bmi", "bp", "s2", "s5", "s6"),
}


@pytest.mark.parametrize("name", WITH_FACTORS)
def test_factor_analysis(name):
    """scikit-learn maximises the same likelihood, by other steps; factors are free to turn."""
    from sklearn.decomposition import FactorAnalysis

    table = tables.numbers(name)[list(WITH_FACTORS[name])]
    rows = (table - table.mean()) / table.std(ddof=0)
    ours = tables.exact(table).factor_analysis(2)
    known = FactorAnalysis(2, tol=1e-10, max_iter=5000, svd_method="lapack").fit(rows.to_numpy())
    np.testing.assert_allclose(ours.implied_correlation, known.get_covariance(), atol=1e-4)
    np.testing.assert_allclose(ours.uniquenesses, known.noise_variance_, atol=1e-4)
    # Scores, but for a turn.
    left, _, right = np.linalg.svd(known.components_ @ ours.loadings)
    standard = (table - table.mean()) / table.std()
    scores = known.transform(standard.to_numpy()) @ left @ right
    np.testing.assert_allclose(ours.transform(table), scores, atol=1e-4 * np.abs(scores).max())


@each
def test_canonical_correlations(name):
    from statsmodels.multivariate.cancorr import CanCorr

    table = tables.numbers(name)
    x, y = list(table)[:2], list(table)[2:]
    ours = tables.exact(tables.numbers(name)).cca(x, y)
    rows = table.to_numpy()
    known = CanCorr(rows[:, 2:], rows[:, :2])
    np.testing.assert_allclose(ours.correlations, known.cancorr, rtol=1e-6)
    scores = ours.transform(table)
    both = np.cov(np.column_stack(scores).T)
    expected = np.eye(4)
    expected[[0, 1, 2, 3], [2, 3, 0, 1]] = [*ours.correlations, *ours.correlations]
    np.testing.assert_allclose(both, expected, atol=1e-6)


@each
def test_linear_discriminants(name):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    table = tables.numbers(name)
    groups = tables.table(name)["group"]
    ours = tables.exact(tables.table(name)).lda("group")
    known = LinearDiscriminantAnalysis(store_covariance=True).fit(table, groups)
    assert list(ours.levels) == list(known.classes_)
    np.testing.assert_allclose(ours.means, known.means_, rtol=1e-8)
    np.testing.assert_allclose(ours.covariance, known.covariance_, rtol=1e-6)
    of = (ours.coef, ours.intercept)
    coef, intercept = (np.diff(x, axis=0) if len(known.classes_) == 2 else x for x in of)
    np.testing.assert_allclose(coef, known.coef_, rtol=1e-4)
    np.testing.assert_allclose(intercept, known.intercept_, rtol=1e-4)
    np.testing.assert_allclose(
        ours.explained_variance_ratio, known.explained_variance_ratio_, atol=1e-8
    )
    assert (ours.predict(table) == known.predict(table)).all()
    np.testing.assert_allclose(ours.predict_proba(table), known.predict_proba(table), atol=1e-6)
    scores = known.transform(table)
    scores = scores - scores.mean(axis=0)
    signs = np.sign((ours.transform(table) * scores).sum(axis=0))
    np.testing.assert_allclose(ours.transform(table), signs * scores, atol=1e-5)


@each
def test_sparse_inverse_covariance(name):
    from sklearn.covariance import graphical_lasso

    known = graphical_lasso(
        np.corrcoef(tables.numbers(name).T), 0.2, tol=1e-5, enet_tol=1e-8, max_iter=1000
    )
    ours = tables.exact(tables.numbers(name)).graphical_lasso(alpha=0.2)
    np.testing.assert_allclose(ours.correlation, known[0], atol=1e-5)
    np.testing.assert_allclose(ours.precision, known[1], atol=1e-4)
    assert ours.edges
