"""privgram: one release, and regressions or components from it. Replace.

Of Analyze Gauss, or at delta = 0 of matrix Laplace noise.
"""

import numpy as np
from worker import serve

import privgram as pg


def released(moment, job, seed):
    rng = np.random.default_rng(seed)  # to repeat the experiment; not for use
    mechanism = pg.AnalyzeGauss() if job["delta"] > 0 else pg.MatrixLaplace()
    return pg.release(moment, mechanism, job["epsilon"], job["delta"], rng=rng)


def with_intercept(table, job, names, bound=None):
    bounds = dict(zip(names, zip(job["lower"], job["upper"], strict=True), strict=True))
    return pg.second_moment(table, columns=pg.Columns(bounds, intercept=True), bound=bound)


def regression(table, job, seed):
    names = [f"x{i}" for i in range(table.shape[1] - 1)] + ["y"]
    release = released(with_intercept(table, job, names), job, seed)
    fit = release.regress("y", ridge=job.get("ridge", 0.0))
    return [*fit.coef, fit.intercept]


def pca(table, job, seed):
    moment = pg.second_moment(table, bound=job["norm"])
    return released(moment, job, seed).pca(job["components"]).components


def pca_about_mean(table, job, seed):
    # All columns have the same bounds, so that components in their scale are components.
    names = [f"x{i}" for i in range(table.shape[1])]
    bound = np.hypot(1.0, job["norm_about_zero"] / job["upper"][0])
    moment = with_intercept(table, job, names, bound)
    return released(moment, job, seed).pca(job["components"]).components


serve(
    pg.__version__,
    regression=regression,
    line=regression,
    pca=pca,
    pca_about_mean=pca_about_mean,
)
