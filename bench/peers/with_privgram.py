"""privgram: one release, and regressions or components from it. Replace."""

import numpy as np
from worker import serve

import privgram as pg


def released(table, job, seed, names, intercept):
    bounds = dict(zip(names, zip(job["lower"], job["upper"], strict=True), strict=True))
    columns = pg.Columns(bounds, intercept=intercept)
    looks = job.get("looks")
    mechanism = pg.Refined(looks=looks, target="y") if looks else pg.AnalyzeGauss()
    rng = np.random.default_rng(seed)  # to repeat the experiment; not for use
    return pg.release(table, mechanism, job["epsilon"], job["delta"], columns=columns, rng=rng)


def regression(table, job, seed):
    names = [f"x{i}" for i in range(table.shape[1] - 1)] + ["y"]
    release = released(table, job, seed, names, intercept=True)
    fit = release.regress("y", ridge=job.get("ridge", 0.0))
    return [*fit.coef, fit.intercept]


def pca(table, job, seed):
    moment = pg.second_moment(table, bound=job["norm"])
    rng = np.random.default_rng(seed)
    release = pg.release(moment, pg.AnalyzeGauss(), job["epsilon"], job["delta"], rng=rng)
    return release.pca(job["components"]).components


serve(pg.__version__, regression=regression, line=regression, pca=pca)
