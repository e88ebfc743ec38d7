"""
One release for every site
==========================

Twelve sites, one pass, one price: the sites hold different people, so that each release protects
its own. The slopes of the sites with their intervals, and what they say together.
"""

import matplotlib.pyplot as plt
import numpy as np

import privgram as pg

rng = np.random.default_rng(5)
sites = [f"site {i + 1}" for i in range(12)]
n = 120_000
site = rng.integers(0, len(sites), n)
dose = rng.uniform(0, 10, n)
effect = 1.5 + 0.25 * rng.standard_normal(len(sites))
response = 20 + effect[site] * dose + rng.normal(0, 8, n)
table = {"site": np.array(sites)[site], "dose": dose, "response": response}

study = pg.Study(table, {"dose": (0, 10), "response": (-20, 80)}, epsilon=2.0, delta=1e-6)
release = study.release(epsilon=1.0, by=pg.Groups("site", sites))
fits = release.regress("response", ["dose"])
print(fits.params)

slopes = fits.params["dose"]
ends = 1.96 * fits.bse["dose"]
order = np.argsort(np.asarray(slopes))
figure, axis = plt.subplots(figsize=(6.5, 4), layout="constrained")
rows = np.arange(len(sites))
axis.errorbar(
    np.asarray(slopes)[order], rows, xerr=np.asarray(ends)[order], fmt="o", label="released"
)
axis.plot(effect[order], rows, "x", color="0.3", label="truth")
axis.set_yticks(rows, np.array(sites)[order])
axis.set(xlabel="response per unit of dose")
axis.legend()
