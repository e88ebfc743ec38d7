"""
What the budget buys
====================

One regression on the 336,776 flights of the :doc:`tutorial </guide/tutorial>`, from releases of
ever larger epsilon, beside least squares without privacy. The intervals count the sampling of the
flights and the noise of the release; the noise's share fades as epsilon grows.
"""

import matplotlib.pyplot as plt
import numpy as np

import privgram as pg
from privgram.cli.demo import BOUNDS, least_squares, load_flights

flights = load_flights()
columns = pg.Columns(BOUNDS, intercept=True, missing="drop")
moment = pg.second_moment(flights, columns=columns)

# %%
# Each release spends its own budget: in earnest there is one. A seeded generator makes the picture
# the same every time, and the releases worthless as protection.

features = ["dep_delay", "hour"]
epsilons = np.array([0.1, 0.2, 0.5, 1.0, 2.0])
rng = np.random.default_rng(0)
fits = [
    pg.release(moment, epsilon=epsilon, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=rng).regress(
        "arr_delay", features
    )
    for epsilon in epsilons
]
exact, _ = least_squares(flights, features)

figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for j, axis in enumerate(axes):
    low, high = np.array([np.asarray(fit.conf_int())[:-1][j] for fit in fits]).T
    middle = (low + high) / 2
    axis.errorbar(epsilons, middle, yerr=high - middle, fmt="o", capsize=3, label="private, 95 %")
    axis.axhline(exact[j], color="0.4", lw=1, label="without privacy")
    axis.set(xscale="log", xlabel="epsilon", title=f"arrival delay per unit of {features[j]}")
axes[0].legend()
