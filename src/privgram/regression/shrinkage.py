r"""Coefficients of groups from their noisy second moments: empirical Bayes.

A group's release shows its features' second moment A and their products c with the target, both
with noise N of a known law. For its coefficients theta, c - A theta has mean 0 and, about the mean
mu of the groups, the covariance

    Omega = s^2 A + (E[N v v^T N])_{AA},  v = (mu, -1),

s^2 the variance of an error. So A Omega^{-1} (c - A theta) would be the score of theta if A were
known. Noise in A adds the mean of its own product to it, which the law tells and which is taken off
("corrected score" [1]_). Directions in which nothing is left beside noise say nothing.

The groups' coefficients are taken as drawn from N(mu, T), and mu and T are those of the largest
likelihood, by EM [2]_.

References
----------
.. [1] T. Nakamura, "Corrected score function for errors-in-variables models", Biometrika 77 (1990).
.. [2] C. N. Morris, "Parametric empirical Bayes inference", JASA 78 (1983).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from privgram._base.arrays import Matrix, Vector
    from privgram.noise import NoiseLaw


#: Information along a direction counts if it is so many times what noise alone has there.
CLEAR = 4.0

#: Steps of the EM algorithm at most, and the relative change of the covariance at which it ends.
STEPS, TOLERANCE = 300, 1e-4


def information(
    blocks: Sequence[tuple[NoiseLaw, Matrix]], mean: Vector, variance: float
) -> tuple[Matrix, Matrix]:
    """What each group says of its coefficients, less the common ones `mean` (q,).

    Information (groups, q, q), positive semidefinite, and score (groups, q), of releases (q + 1, q
    + 1) of the features and, last, the target, with the laws of their noise, taken about `mean`.
    The variance is of an error, s^2.
    """
    q = len(mean)
    v = np.append(mean, -1.0)
    information, scores = np.zeros((len(blocks), q, q)), np.zeros((len(blocks), q))
    for group, (law, released) in enumerate(blocks):
        block = released - law.shift_matrix(q + 1)
        a, left = block[:q, :q], block[:q, q] - block[:q, :q] @ mean
        sizes, vectors = np.linalg.eigh(a)
        omega = law.sandwich(released, np.outer(v, v))[:q, :q]
        omega = omega + variance * (vectors * np.maximum(sizes, 0.0)) @ vectors.T
        inverse = np.zeros((q + 1, q + 1))
        inverse[:q, :q] = np.linalg.inv(omega)
        own = law.sandwich(released, inverse)  # what noise has by itself
        weighted = a @ inverse[:q, :q]
        sizes, vectors = np.linalg.eigh(weighted @ a)
        idle = np.einsum("ji,jk,ki->i", vectors, own[:q, :q], vectors)
        clear = sizes > CLEAR * idle
        score = weighted @ left - (own[:q, q] - own[:q, :q] @ mean)
        information[group] = (vectors * np.where(clear, sizes - idle, 0.0)) @ vectors.T
        scores[group] = (vectors * clear) @ (vectors.T @ score)
    return information, scores


def posterior(information: Matrix, score: Matrix) -> tuple[Vector, Matrix, Matrix, Matrix]:
    """Mean and covariance between groups by EM, and each group's posterior mean and covariance.

    Of information (groups, q, q) and score (groups, q), at 0: shapes (q,), (q, q), (groups, q) and
    (groups, q, q).
    """
    q = score.shape[1]
    between: Matrix = np.eye(q) / 10
    for _ in range(STEPS):
        covariances = np.asarray(np.linalg.inv(np.linalg.inv(between) + information), np.float64)
        # The mean by least squares: with the groups' spread integrated out.
        through = information @ covariances
        weights = (information - through @ information).sum(axis=0)
        pulls = (score - np.einsum("gij,gj->gi", through, score)).sum(axis=0)
        mean: Vector = np.linalg.lstsq(weights, pulls, rcond=1e-10)[0]
        away: Matrix = np.einsum("gij,gj->gi", covariances, score - information @ mean)
        new = covariances.mean(axis=0) + away.T @ away / len(away)
        new = (new + new.T) / 2 + 1e-12 * np.trace(new) * np.eye(q)
        change = np.abs(new - between).max()
        between = np.asarray(new, np.float64)
        if change <= TOLERANCE * np.abs(new).max():
            break
    return mean, between, mean + away, covariances
