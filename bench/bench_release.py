"""From an array to coefficients: every mechanism beside regressions without privacy.

The table has 20 features uniform in [-1, 1], a label and an intercept; epsilon = 1, delta = 1e-6,
one row replaced. No row is longer than the bound, so the error is sampling and privacy alone.
"""

import math

import numpy as np
from sklearn.linear_model import LinearRegression, Ridge

import privgram as pg
from privgram.papers.sheffet import GaussianSketch, InverseWishart

from .common import size

P = 20
D = P + 2
BOUND = math.sqrt(D)
LABEL, FEATURES = P, [*range(P), P + 1]
BUDGET = 1.0, 1e-6

# Not InverseGauss: at its noise no regression of this size is worth giving.
MECHANISMS = {
    "Analyze Gauss": pg.AnalyzeGauss(),
    "additive Wishart": pg.AdditiveWishart(),
    "sketch": GaussianSketch(1000),
    "adaptive sketch": GaussianSketch(1000, adaptive=True),
    "inverse Wishart": InverseWishart(),
    "adaptive inverse Wishart": InverseWishart(1000, adaptive=True),
}
# To (coefficients of the features, that of the intercept last).
BASELINES = {
    "scikit-learn LinearRegression": lambda x: (
        LinearRegression(fit_intercept=False).fit(x[:, FEATURES], x[:, LABEL]).coef_
    ),
    "scikit-learn Ridge, Cholesky": lambda x: (
        Ridge(1e-8, fit_intercept=False, solver="cholesky").fit(x[:, FEATURES], x[:, LABEL]).coef_
    ),
    "NumPy lstsq": lambda x: np.linalg.lstsq(x[:, FEATURES], x[:, LABEL])[0],
}


def rows(n, seed=0):
    """The table and the coefficients it was made with; a block at a time, for `peakmem_`."""
    rng = np.random.default_rng(seed)
    beta = rng.uniform(-1, 1, P + 1) / 8
    x = np.empty((n, D))
    for block in np.split(x, n // 4096):
        block[:] = rng.uniform(-1, 1, block.shape)
        block[:, -1] = 1.0
        noise = rng.normal(0, 0.1, len(block))
        block[:, LABEL] = np.clip(block[:, FEATURES] @ beta + noise, -1, 1)
    return x, beta


def private_fit(x, mechanism, rng=None):
    release = pg.release(pg.second_moment(x, BOUND), None, *BUDGET, rng=rng, mechanism=mechanism)
    return release.regress(LABEL, FEATURES).used[:-1]


class Regression:
    """The whole way: array -> second moment -> release -> coefficients."""

    params = ([2**16, size(2**20)], [*MECHANISMS, *BASELINES])
    param_names = ("n", "method")
    timeout = 120
    repetitions = 10

    def setup(self, n, method):
        self.x, self.beta = rows(n)
        self.fit(method)  # calibration and imports are paid once

    def fit(self, method, rng=None):
        if method in MECHANISMS:
            return private_fit(self.x, MECHANISMS[method], rng)
        return BASELINES[method](self.x)

    def time_fit(self, n, method):
        self.fit(method)

    def peakmem_fit(self, n, method):
        self.fit(method)

    def track_error(self, n, method):
        """Root mean square L2 distance to the true coefficients, whose norm is about 0.3."""
        draws = self.repetitions if method in MECHANISMS else 1
        rngs = [np.random.default_rng(seed) for seed in range(draws)]
        errors = [np.linalg.norm(self.fit(method, rng) - self.beta) for rng in rngs]
        return math.sqrt(np.mean(np.square(errors)))
