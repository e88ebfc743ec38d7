"""OpenDP: Theil-Sen regression of one feature, and PCA, pure epsilon. Its noise has no seed.

Its budgets are for rows added or removed; replacing a row is two such changes, ``d_in=2``.
"""

from importlib.metadata import version

import numpy as np
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


def quantiles(table, job, seed):
    # By zero-concentrated privacy, which gives it more than epsilon / k each: rho / k each.
    steps, k = 1000, len(job["q"])
    found, scales = [], {}
    for x, low, high in zip(table.T, job["lower"], job["upper"], strict=True):
        x = x[~np.isnan(x)]
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(x))
        grid = np.linspace(low, high, steps).tolist()
        for epsilon in job["epsilons"]:
            rho = _rho(epsilon, job["delta"])
            for q in job["q"]:

                def made(scale, q=q, domain=domain, grid=grid):
                    space = domain, dp.symmetric_distance()
                    return dp.m.make_private_quantile(
                        *space, dp.zero_concentrated_divergence(), grid, q, scale
                    )

                if (epsilon, q) not in scales:
                    asked = {"d_in": 2, "d_out": rho / k, "T": float}
                    scales[epsilon, q] = dp.binary_search_param(made, **asked)
                found.append(float(made(scales[epsilon, q])(np.clip(x, low, high))))
    return found


def _rho(epsilon, delta):
    """The largest rho of zero-concentrated privacy that is (epsilon, delta)-private."""
    low, high = 0.0, epsilon
    for _ in range(60):
        rho = (low + high) / 2
        orders = 1 + np.geomspace(1e-3, 1e5, 4000)
        logs = (orders - 1) * (orders * rho - epsilon) + orders * np.log1p(-1 / orders)
        fits = np.min(logs - np.log(orders - 1)) <= np.log(delta)
        low, high = (rho, high) if fits else (low, rho)
    return low


serve(version("opendp"), line=line, pca=pca, quantiles=quantiles)
