"""privgram: one release, and regressions or components from it. Replace.

Of Analyze Gauss or adaptive rounds, or at delta = 0 of matrix Laplace noise.
"""

import numpy as np
from worker import serve

import privgram as pg


def released(table, job, seed, target=None, **known):
    """A release of a table, or of a moment, of which nothing else is known."""
    mechanism = pg.AnalyzeGauss() if job["delta"] > 0 else pg.MatrixLaplace()
    if "rounds" in job:
        mechanism = pg.AdaptiveGaussian(rounds=job["rounds"], target=target)
    rng = np.random.default_rng(seed)  # to repeat the experiment; not for use
    return pg.release(
        table, epsilon=job["epsilon"], delta=job["delta"], mechanism=mechanism, rng=rng, **known
    )


def described(job, names):
    bounds = dict(zip(names, zip(job["lower"], job["upper"], strict=True), strict=True))
    return pg.Columns(bounds, intercept=True)


def regression(table, job, seed):
    names = [f"x{i}" for i in range(table.shape[1] - 1)] + ["y"]
    release = released(table, job, seed, "y", columns=described(job, names))
    fit = release.regress("y", ridge=job.get("ridge", 0.0))
    return [*fit.used[:-1], fit.used[-1]]


def pca(table, job, seed):
    return released(table, job, seed, bound=job["norm"]).pca(job["components"]).components_


def pca_about_mean(table, job, seed):
    # All columns have the same bounds, so that components in their scale are components.
    columns = described(job, [f"x{i}" for i in range(table.shape[1])])
    bound = np.hypot(1.0, job["norm_about_zero"] / job["upper"][0])
    release = released(table, job, seed, columns=columns, bound=bound)
    return release.pca(job["components"]).components_


def quantiles(table, job, seed):
    # One tree of counts, of which all quantiles follow.
    found, generator = [], np.random.default_rng(seed)
    for x, low, high in zip(table.T, job["lower"], job["upper"], strict=True):
        for epsilon in job["epsilons"]:
            budget = {"epsilon": epsilon * 1.001, "delta": job["delta"] * 1.001}
            study = pg.Study({"x": x[~np.isnan(x)]}, {"x": (low, high)}, name="x", **budget)
            asked = {"epsilon": epsilon, "delta": job["delta"], "rng": generator}
            answer = study.summarize("x", q=job["q"], **asked)
            found += answer.quantile(job["q"]).estimate[0].tolist()
    return found


serve(
    pg.__version__,
    regression=regression,
    line=regression,
    pca=pca,
    pca_about_mean=pca_about_mean,
    quantiles=quantiles,
)
