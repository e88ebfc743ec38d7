"""PCA on compressed tables: error against m and p, and the table of signs of Example 3.6."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from privgram.papers import zhou_ligett_wasserman
from privgram.papers.sheffet import SketchProfile
from privgram.papers.zhou_ligett_wasserman import compress, proposition_3_4

__all__ = ["PCARow", "SignsRow", "pca_error", "signs"]


@dataclass(frozen=True)
class PCARow:
    """One setting of `pca_error`.

    Attributes
    ----------
    rows, n_columns : int
        m and p.
    error : float
        Mean Frobenius distance of the projections on the leading eigenvectors.
    difference : float
        Mean Frobenius norm of the difference of the covariances.
    bound : float
        Proposition 3.4 at that difference; infinite where it does not hold.
    """

    rows: int
    n_columns: int
    error: float
    difference: float
    bound: float


def pca_error(
    rows: tuple[int, ...] = (100, 300, 1000, 3000, 10_000),
    columns: tuple[int, ...] = (5, 10, 30),
    n_components: int = 2,
    n_rows: int = 10_000,
    repetitions: int = 10,
    seed: int = 0,
) -> Iterator[PCARow]:
    """Distance of the leading eigenvectors of a compressed table from the table's own.

    Parameters
    ----------
    rows, columns : tuple of int
        Values of m and p.
    n_components : int
        D.
    n_rows : int
        n.
    repetitions, seed : int

    Yields
    ------
    PCARow
    """
    rng = np.random.default_rng(seed)
    for p in columns:
        factor = rng.standard_normal((n_rows, n_components)) * [1.0, 0.7][:n_components]
        X = 2 * factor @ rng.standard_normal((n_components, p))
        X += rng.standard_normal((n_rows, p))
        X *= math.sqrt(n_rows) / np.linalg.norm(X, axis=0)
        sigma = X.T @ X / n_rows
        values, vectors = np.linalg.eigh(sigma)
        true = vectors[:, -n_components:]
        for m in rows:
            errors, differences = [], []
            for _ in range(repetitions):
                small = compress(X, m, rng=rng)
                _, found = small.pca(n_components)
                errors.append(np.linalg.norm(found.T @ found - true @ true.T))
                differences.append(np.linalg.norm(small.covariance() - sigma))
            difference = float(np.mean(differences))
            yield PCARow(
                m,
                p,
                float(np.mean(errors)),
                difference,
                proposition_3_4(values, n_components, difference),
            )


@dataclass(frozen=True)
class SignsRow:
    """One setting of `signs`.

    Attributes
    ----------
    n_rows, n_columns, rows : int
        n, p and m.
    difference : float
        Frobenius norm of the difference of the two covariances.
    alpha : float
        Theorem 4.6 without its o(1).
    epsilon : float
        Of the sketch's exact profile, at `delta`, with the smaller of the two tables' least
        eigenvalues taken for a public floor, and before draws are thrown away.
    delta : float
    """

    n_rows: int
    n_columns: int
    rows: int
    difference: float
    alpha: float
    epsilon: float
    delta: float


def signs(
    sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000),
    n_columns: int = 10,
    rows: int = 500,
    flipped: float = 0.5,
    delta: float = 1e-6,
    seed: int = 0,
) -> Iterator[SignsRow]:
    """Compare a table of signs with its neighbour: Example 3.6 and Corollary 3.7.

    First for one p and m; then for p half of (n / ln n)^(1/4), and m as many rows as PCA
    (Theorem 5.1: p^2 ln 2np) and Lemma 4.4 ask for.

    Parameters
    ----------
    sizes : tuple of int
        Values of n.
    n_columns, rows : int
        p and m.
    flipped : float
        tau: part of one row whose signs change, in (0, 1).
    delta : float
    seed : int

    Yields
    ------
    SignsRow
    """
    rng = np.random.default_rng(seed)
    for n in sizes:
        yield _signs(n, n_columns, rows, flipped, delta, rng)
    for n in sizes:
        p = round((n / math.log(n)) ** 0.25 / 2)
        log = math.log(2 * n * p)
        m = max(p * p * log, 2 * sum(zhou_ligett_wasserman.lemma_b_1()) * log)
        yield _signs(n, p, math.ceil(m), flipped, delta, rng)


def _signs(
    n: int, p: int, rows: int, flipped: float, delta: float, rng: np.random.Generator
) -> SignsRow:
    X = rng.choice(np.array([-1.0, 1.0]), (n, p))
    other = X[0] * np.where(np.arange(p) < round(flipped * p), -1.0, 1.0)
    reference = X.T @ X / n
    sigma = reference + (np.outer(other, other) - np.outer(X[0], X[0])) / n
    change = sigma - reference
    least, own = np.linalg.eigvalsh(reference), np.linalg.eigvalsh(sigma)
    alpha = zhou_ligett_wasserman.theorem_4_6(
        rows,
        n,
        p,
        difference=float(np.linalg.norm(change)),
        lambda_min=float(own[0]),
        lambda_min_reference=float(least[0]),
        norm_reference=float(least[-1]),
        delta_max=float(np.abs(change).max()),
    )
    floor = n * float(min(least[0], own[0]))
    epsilon = SketchProfile(rows, p / floor).epsilon(delta)
    return SignsRow(n, p, rows, float(np.linalg.norm(change)), alpha, epsilon, delta)
