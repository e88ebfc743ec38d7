"""diffprivlib: LinearRegression (functional mechanism) and PCA, pure epsilon. Replace."""

import diffprivlib
import numpy as np
from diffprivlib.models import PCA, LinearRegression
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


serve(
    diffprivlib.__version__,
    regression=regression,
    line=regression,
    pca=pca,
    pca_about_mean=pca_about_mean,
)
