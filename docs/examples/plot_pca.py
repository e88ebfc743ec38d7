"""
Principal components and the noise
==================================

A spectrum from a release, beside the exact one and the edge of the noise: what lies below the edge
cannot be told from noise. Three directions carry these 20 columns; all three stand out.
"""

import matplotlib.pyplot as plt
import numpy as np

import privgram as pg

rng = np.random.default_rng(0)
directions = np.linalg.qr(rng.normal(size=(20, 3)))[0]
table = rng.normal(size=(100_000, 3)) * [3, 2, 1] @ directions.T
table += rng.normal(scale=0.1, size=table.shape)

# Rows longer than the bound, of which there are hardly any, are shortened to it.
moment = pg.second_moment(table, bound=10.0)
mechanism = pg.AnalyzeGauss()
release = pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=mechanism, rng=rng)
pca = release.pca()

# %%
# The noise is a symmetric Gaussian matrix: with standard deviation s off its diagonal, its
# eigenvalues end near 2 s sqrt(d).

noise_std = mechanism.calibrate(20, 10.0, 1.0, 1e-6).noise_std
edge = 2 * noise_std * np.sqrt(20)
exact = np.linalg.eigvalsh(moment.matrix())[::-1]  # secret: here only to compare

figure, axis = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
position = np.arange(1, 21)
axis.semilogy(position, exact, "o", mfc="none", color="0.4", label="exact (secret)")
positive = pca.explained_variance_ > 0
axis.semilogy(position[positive], pca.explained_variance_[positive], ".", label="released")
axis.axhline(edge, color="C3", lw=1, label="edge of the noise")
axis.set(xlabel="component", ylabel="eigenvalue", xticks=[1, 5, 10, 15, 20])
axis.legend()

print(f"three components: projection within {release.pca(3).error_bound:.4f} of the exact one")
