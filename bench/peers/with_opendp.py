"""OpenDP: Theil-Sen regression of one feature, and PCA, pure epsilon. Its noise has no seed.

Its budgets are for rows added or removed; replacing a row is two such changes, ``d_in=2``.
"""

from importlib.metadata import version

import opendp.prelude as dp
from opendp.extras.sklearn.decomposition import make_private_pca
from worker import serve

dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")


def line(table, job, seed):
    def model(scale):
        return dp.sklearn.linear_model.LinearRegression(
            dp.max_divergence(),
            x_bounds=[(job["lower"][0], job["upper"][0])],
            y_bounds=(job["lower"][1], job["upper"][1]),
            scale=scale,
        )

    scale = dp.binary_search(
        lambda s: model(s).measurement.map(d_in=2) <= job["epsilon"], bounds=(1e-6, 1e6)
    )
    fit = model(scale).fit(table[:, :1], table[:, 1])
    return [float(fit.coef_[0]), float(fit.intercept_)]


def pca(table, job, seed):
    # The centre is public, so no budget goes to the mean.
    n, d = table.shape
    domain = dp.numpy.array2_domain(
        norm=job["norm"], p=2, size=n, num_columns=d, nan=False, T=float
    )

    def measurement(epsilon):
        return make_private_pca(
            domain, dp.symmetric_distance(), epsilon, num_components=job["components"]
        )

    # What it says of itself decides how much it may take: epsilon at d_in = 2.
    unit = job["epsilon"] * job["epsilon"] / measurement(job["epsilon"]).map(2)
    return measurement(unit * (1 - 1e-9))(table).Vt[: job["components"]]


serve(version("opendp"), line=line, pca=pca)
