"""
Common and rare levels
======================

The effect of a level is known the better the more rows it has. Noise hurts rare levels most: its
part of the error falls as one over the rows of a level, and sampling's as the square root of that.
"""

import matplotlib.pyplot as plt
import numpy as np

import privgram as pg

rng = np.random.default_rng(6)
levels = ["A", "B", "C", "D", "E", "F"]
shares = np.array([0.5, 0.25, 0.15, 0.07, 0.025, 0.005])
n = 60_000
level = rng.choice(len(levels), n, p=shares)
effect = np.array([0, 1, -1, 2, -2, 1.5])
table = {"level": np.array(levels)[level], "y": 10 + effect[level] + rng.normal(0, 3, n)}
study = pg.Study(table, {"level": levels, "y": (-10, 30)}, epsilon=2.0, delta=1e-6)
fit = study.regress("y ~ level", epsilon=1.0)
print(fit.summary())

ends = np.asarray(fit.conf_int())[:-1]
figure, axis = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
rows = np.arange(1, len(levels))
axis.vlines(rows, *np.clip(ends, -15, 15).T, linewidth=4, label="95 % interval")
axis.plot(rows, effect[1:], "x", color="k", label="truth")
axis.set_xticks(rows, [f"{levels[i]}\n{shares[i] * n:,.0f} rows" for i in rows])
axis.set(ylabel="difference from A")
axis.legend(loc="lower left")
