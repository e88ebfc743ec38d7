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
