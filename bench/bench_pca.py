"""Principal components of a table with a falling spectrum: releases beside scikit-learn's PCA."""

import math

import numpy as np
from sklearn.decomposition import PCA

import privgram as pg

from .common import size

D, COMPONENTS = 100, 5
BUDGET = 1.0, 1e-6
MECHANISMS = {"Analyze Gauss": pg.AnalyzeGauss(), "additive Wishart": pg.AdditiveWishart()}
SOLVERS = {"scikit-learn covariance_eigh": "covariance_eigh", "scikit-learn full": "full",
           "scikit-learn randomized": "randomized"}  # fmt: skip


class Components:
    """Five components. scikit-learn's are of centred rows; these are centred within sampling."""

    params = ([2**15, size(2**18, 4)], [*MECHANISMS, *SOLVERS])
    param_names = ("n", "method")
    timeout = 120

    def setup(self, n, method):
        rng = np.random.default_rng(0)
        basis = np.linalg.qr(rng.standard_normal((D, D)))[0]
        scale = np.arange(1, D + 1) ** -0.5
        self.x = np.empty((n, D))
        for block in np.split(self.x, n // 4096):  # for `peakmem_`
            block[:] = rng.uniform(-1, 1, block.shape) * scale @ basis
        self.bound = math.sqrt(np.sum(scale**2))
        self.components(method)

    def components(self, method, rng=None):
        if method in MECHANISMS:
            moment = pg.second_moment(self.x, self.bound)
            release = MECHANISMS[method].release(moment, *BUDGET, rng=rng)
            return release.pca(COMPONENTS).components_
        pca = PCA(COMPONENTS, svd_solver=SOLVERS[method], random_state=0)
        return pca.fit(self.x).components_

    def time_components(self, n, method):
        self.components(method)

    def peakmem_components(self, n, method):
        self.components(method)

    def track_share_of_best_variance(self, n, method):
        """Second moment along the components, over the most that five directions can have."""
        g = self.x.T @ self.x
        found = self.components(method, np.random.default_rng(0))
        return np.trace(found @ g @ found.T) / np.linalg.eigvalsh(g)[-COMPONENTS:].sum()
