"""Components as a step of a pipeline: scikit-learn's without noise, and one budget a fit."""

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg

pytest.importorskip("sklearn")

from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from privgram.estimators import PrivatePCA, PrivateRidge

#: As good as no noise.
LOUD = {"epsilon": 1e10, "delta": 1e-6}
BOUNDS = {"x0": (-2, 8), "x1": (5, 6), "x2": (0, 0.1)}


def table(n=500):
    rng = np.random.default_rng(0)
    return rng.uniform(size=(n, 3)) * [10.0, 1.0, 0.1] + [-2.0, 5.0, 0.0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:clones of one estimator")
@parametrize_with_checks([PrivatePCA(columns=(-1, 1))])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_without_noise_it_is_scikit_learns(adjacency):
    X = table()
    ours, theirs = PrivatePCA(2, **LOUD, columns=BOUNDS, adjacency=adjacency).fit(X), PCA(2).fit(X)
    signs = np.sign((ours.components_ * theirs.components_).sum(axis=1))
    np.testing.assert_allclose(ours.components_, signs[:, None] * theirs.components_, atol=1e-4)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, atol=1e-4)
    for name in ("explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-4)
    np.testing.assert_allclose(ours.transform(X), signs * theirs.transform(X), atol=1e-3)
    back = theirs.inverse_transform(theirs.transform(X))
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), back, atol=1e-3)


def test_it_is_the_releases_pca():
    model = PrivatePCA(1, columns=BOUNDS, random_state=3).fit(table())
    columns = pg.Columns(BOUNDS, intercept=True)
    names = dict(zip(BOUNDS, table().T, strict=True))
    how = {"mechanism": pg.AnalyzeGauss(), "rng": np.random.default_rng(3)}
    release = pg.release(names, columns, 1.0, 1e-6, **how)
    assert np.array_equal(model.release_.matrix, release.matrix)
    assert np.array_equal(model.components_, release.pca(1, center=True, units="own").components_)


def test_in_a_pipeline_and_a_ledger(tmp_path):
    X = table()
    y = X @ [0.3, -2.0, 10.0]
    ledger = pg.Ledger(tmp_path / "ledger", 1e13, 1e-5, composition="basic")
    steps = (
        PrivatePCA(2, **LOUD, columns=BOUNDS, ledger=ledger),
        PrivateRidge(0.0, columns=(-20, 20), **LOUD, ledger=ledger),
    )
    pipe = make_pipeline(*steps).fit(X, y)
    theirs = make_pipeline(PCA(2), LinearRegression()).fit(X, y)
    np.testing.assert_allclose(pipe.predict(X), theirs.predict(X), atol=1e-2)
    assert len(ledger.entries) == 2
    assert list(pipe[0].get_feature_names_out()) == ["privatepca0", "privatepca1"]


@pytest.mark.parametrize(("n", "error"), [(0, ValueError), (4, ValueError), (1.5, TypeError)])
def test_bad_numbers_of_components_are_refused(n, error):
    refuses(lambda: PrivatePCA(n, columns=BOUNDS).fit(table()), error, "n_components")
