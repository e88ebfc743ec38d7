"""By hand: ``X.T @ X`` plus Gaussian noise of the textbook's sigma. Replace.

Rows are scaled to [-1, 1] by public bounds, as privgram does, so that their norm is bounded.
sigma = sqrt(2 ln(1.25 / delta)) sqrt(2) B^2 / epsilon, proved for epsilon < 1 only.
"""

import numpy as np
from worker import serve


def noisy_gram(x, norm, job, seed):
    d = x.shape[1]
    sigma = np.sqrt(2 * np.log(1.25 / job["delta"])) * np.sqrt(2) * norm**2 / job["epsilon"]
    noise = np.random.default_rng(seed).normal(0, sigma, (d, d))
    return x.T @ x + np.triu(noise) + np.triu(noise, 1).T


def regression(table, job, seed):
    lower, upper = np.array(job["lower"]), np.array(job["upper"])
    centre, half = (upper + lower) / 2, (upper - lower) / 2
    x = np.empty((len(table), table.shape[1] + 1))
    np.divide(np.clip(table, lower, upper) - centre, half, out=x[:, 1:])
    x[:, 0] = 1.0
    gram = noisy_gram(x, np.sqrt(x.shape[1]), job, seed)
    coef = np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])
    slopes = coef[1:] * half[-1] / half[:-1]
    return [*slopes, centre[-1] + half[-1] * coef[0] - slopes @ centre[:-1]]


def pca(table, job, seed):
    gram = noisy_gram(table, job["norm"], job, seed)
    return np.linalg.eigh(gram)[1][:, ::-1][:, : job["components"]].T


serve(np.__version__, regression=regression, line=regression, pca=pca)
