"""diffprivlib: LinearRegression, LogisticRegression and PCA, pure epsilon. Replace."""

import diffprivlib
import numpy as np
from diffprivlib.models import PCA, LinearRegression, LogisticRegression
from worker import serve


def regression(table, job, seed):
    lower, upper = np.array(job["lower"]), np.array(job["upper"])
    model = LinearRegression(
        epsilon=job["epsilon"],
        bounds_X=(lower[:-1], upper[:-1]),
        bounds_y=(lower[-1], upper[-1]),
        random_state=seed,
    ).fit(table[:, :-1], table[:, -1])
    return [*model.coef_, float(np.ravel(model.intercept_)[0])]


def pca(table, job, seed):
    # The centre is public, so no budget goes to the mean.
    model = PCA(
        job["components"],
        epsilon=job["epsilon"],
        data_norm=job["norm"],
        centered=True,
        random_state=seed,
    )
    return model.fit(table).components_


def logistic(table, job, seed):
    model = LogisticRegression(
        epsilon=job["epsilon"], data_norm=job["norm"], C=job["C"], random_state=seed
    ).fit(table[:, :-1], table[:, -1])
    return [*np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])]


def pca_about_mean(table, job, seed):
    # Half of epsilon goes to the mean.
    model = PCA(
        job["components"],
        epsilon=job["epsilon"],
        data_norm=job["norm"],
        bounds=(np.array(job["lower"]), np.array(job["upper"])),
        random_state=seed,
    )
    return model.fit(table).components_


def quantiles(table, job, seed):
    # Epsilon / k each, as its own function has it for several. Ties may leave it no candidate.
    # One generator: by a seed each, all cells would have the same uniform number.
    found, k, generator = [], len(job["q"]), np.random.RandomState(seed)
    for x, low, high in zip(table.T, job["lower"], job["upper"], strict=True):
        x = x[~np.isnan(x)]
        for epsilon in job["epsilons"]:
            asked = {"epsilon": epsilon / k, "bounds": (low, high), "random_state": generator}
            for q in job["q"]:
                try:
                    found.append(float(diffprivlib.tools.quantile(x, q, **asked)))
                except RuntimeError:
                    found.append(np.nan)
    return found


serve(
    diffprivlib.__version__,
    regression=regression,
    line=regression,
    logistic=logistic,
    pca=pca,
    pca_about_mean=pca_about_mean,
    quantiles=quantiles,
)
