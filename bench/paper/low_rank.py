"""Hardt and Roth's claim as an experiment: where find-and-project beats randomised response.

Three ways to a private matrix of rank about r, at one budget and with exact noise: PFP, pruned
or not; randomised response, the best rank r of A + noise; and Analyze Gauss on A A^T, whose
leading eigenvectors make the basis of the same projection. Beside them the algorithm without
privacy that PFP is made of. Errors are ||A - B||_F / ||A||_F.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.noise import symmetric_gaussian
from privgram.papers import hardt_roth as low_rank

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

__all__ = ["Row", "analyze_gauss", "compare", "incoherent", "input_perturbation_error", "sweep"]

RANK, OVERSAMPLE = 5, 6


@dataclass(frozen=True)
class Row:
    """One setting, and the relative errors there.

    Attributes
    ----------
    varied : str
        What the setting is one of: "m", "n", "rank", "spike", "signal"; or "6.2" and "6.3",
        the regimes in which those theorems promise more the larger m is.
    m, n : int
    rank : int
        Of the matrix.
    signal : float
        ||A||_F / sqrt(mn): root mean square of an entry, in units of `row_change`.
    C, mu0 : float
        Coherence.
    best : float
        ||A - A_r||_F / ||A||_F: no rank r is closer.
    hmt, pfp, pruned, randomised_response, analyze_gauss : float
        Means over the repetitions. `pruned` is PFP at the level of Theorem 6.2's proof;
        randomised response is of rank r or r + p, whichever is closer.
    theorem_6_2, theorem_6_3 : float
        The bounds, with 1 for their constants.
    """

    varied: str
    m: int
    n: int
    rank: int
    signal: float
    C: float
    mu0: float
    best: float
    hmt: float
    pfp: float
    pruned: float
    randomised_response: float
    analyze_gauss: float
    theorem_6_2: float
    theorem_6_3: float


def incoherent(
    m: int, n: int, rank: int, signal: float, rng: np.random.Generator, spike: float = 0.0
) -> Matrix:
    """Make a random matrix of a rank, with singular values falling by half over it.

    Parameters
    ----------
    m, n, rank : int
    signal : float
        Root mean square of an entry.
    rng : numpy.random.Generator
    spike : float
        Part of the squared norm that a single row holds, in [0, 1): the way to coherence.

    Returns
    -------
    ndarray of shape (m, n)
    """
    left = rng.standard_normal((m, rank)) * 0.5 ** (np.arange(rank) / rank)
    A = left @ rng.standard_normal((rank, n))
    if spike:
        rest = np.linalg.norm(A[1:])
        A[0] *= math.sqrt(spike / (1 - spike)) * rest / np.linalg.norm(A[0])
    scaled: Matrix = A * (signal * math.sqrt(m * n) / np.linalg.norm(A))
    return scaled


def input_perturbation_error(
    singular_values: Matrix, frobenius: float, shape: tuple[int, int], std: float, rank: int
) -> float:
    """Error of the best rank r of A + noise, without drawing the noise.

    Parameters
    ----------
    singular_values : ndarray
        The leading r or more of A, falling.
    frobenius : float
        ||A||_F.
    shape : tuple of int
        (m, n).
    std : float
        Standard deviation of the noise on every entry.
    rank : int
        r.

    Returns
    -------
    float
        ||A - B||_F in the limit of large m and n, which hundreds of rows come within a few
        percent of.

    References
    ----------
    F. Benaych-Georges and R. R. Nadakuditi, "The singular values and vectors of low rank
    perturbations of large rectangular random matrices", J. Multivariate Anal. 111, 2012.
    """
    short, long = min(shape), max(shape)
    beta = short / long
    scale = std * math.sqrt(long)
    s = np.asarray(singular_values[:rank]) / scale
    above = s > beta**0.25
    t = np.where(above, s, 1.0)
    # Singular values, and cosines to the true vectors: those of noise below the threshold.
    y = np.where(above, np.sqrt((t * t + 1) * (t * t + beta)) / t, 1 + math.sqrt(beta))
    cosines = np.where(above, (t**4 - beta) / np.sqrt((t**4 + beta * t**2) * (t**4 + t**2)), 0.0)
    return math.sqrt(frobenius**2 + scale**2 * float(np.sum(y * y - 2 * y * s * cosines)))


def analyze_gauss(
    A: Matrix, k: int, epsilon: float, delta: float, rng: np.random.Generator
) -> low_rank.LowRank:
    """Take k eigenvectors of a noisy A A^T, then project; each step has half the squared ratio.

    Row i of A changing by e moves A A^T by A e in row and in column i. How much that can be is
    unbounded; here sqrt(2) ||A|| + 1 is taken as if ||A||, the spectral norm, were public, and
    A e never along e_i: more than fair to this way.

    Parameters
    ----------
    A : ndarray of shape (m, n)
    k : int
        Columns of the basis.
    epsilon, delta : float
    rng : numpy.random.Generator

    Returns
    -------
    LowRank
        NOT private, for that reason.
    """
    from privgram.privacy import GaussianProfile
    from privgram.privacy.calibration import gaussian_ratio

    mu = gaussian_ratio(epsilon, delta) / math.sqrt(2)
    G = A @ A.T
    sigma = (math.sqrt(2 * np.linalg.eigvalsh(G)[-1]) + 1) / mu
    noisy = G + symmetric_gaussian(len(A), sigma / math.sqrt(2), sigma, rng)
    W = np.linalg.eigh(noisy)[1][:, ::-1][:, :k]
    C = low_rank.project(A, W, epsilon, GaussianProfile(mu).delta(epsilon), rng)
    return low_rank.LowRank(W, C)


def compare(
    varied: str,
    A: Matrix,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    repetitions: int = 3,
    rank: int | None = None,
) -> Row:
    """Measure all ways on one matrix.

    Parameters
    ----------
    varied : str
        Copied to the result.
    A : ndarray of shape (m, n)
    epsilon, delta : float
    rng : numpy.random.Generator
    repetitions : int
    rank : int, optional
        Of A, where it is known: a large matrix is not decomposed to find it.

    Returns
    -------
    Row
    """
    about = low_rank.coherence(A, rank)
    norm = about.frobenius

    def mean(make: Any) -> float:
        errors = [low_rank.frobenius_error(A, make()) for _ in range(repetitions)]
        return float(np.mean(errors)) / norm

    k = RANK + OVERSAMPLE
    level = low_rank.prune_level(A.shape, k, about.C, norm, epsilon, delta)

    def pfp(prune: float | None) -> low_rank.LowRank:
        return low_rank.approximate(
            A, RANK, OVERSAMPLE, prune, epsilon=epsilon, delta=delta, rng=rng
        )

    return Row(
        varied=varied,
        m=A.shape[0],
        n=A.shape[1],
        rank=about.rank,
        signal=norm / math.sqrt(A.size),
        C=about.C,
        mu0=about.mu0,
        best=about.tail(RANK) / norm,
        hmt=mean(lambda: low_rank.halko_martinsson_tropp(A, RANK, OVERSAMPLE, rng)),
        pfp=mean(lambda: pfp(None)),
        pruned=mean(lambda: pfp(level)),
        randomised_response=min(
            mean(lambda r=r: low_rank.randomised_response(A, r, epsilon, delta, rng))
            for r in (RANK, k)
        ),
        analyze_gauss=mean(lambda: analyze_gauss(A, k, epsilon, delta, rng)),
        theorem_6_2=about.promise_6_2(RANK, OVERSAMPLE, epsilon, delta) / norm,
        theorem_6_3=about.promise_6_3(RANK, OVERSAMPLE, epsilon, delta) / norm,
    )


#: What is varied, and its values; the rest is as in BASE. In "6.2" and "6.3" m is, with n = 64 m
#: and ||A||_F = 40 sqrt(n) in the first.
SETTINGS: dict[str, tuple[float, ...]] = {
    "m": (25, 50, 100, 200, 400),
    "n": (400, 1600, 6400),
    "rank": (5, 20, 80),
    "spike": (0.0, 0.1, 0.3, 0.6),
    "signal": (1.0, 2.0, 4.0, 8.0, 32.0),
    "6.2": (25, 50, 100, 200, 400),
    "6.3": (25, 50, 100, 200, 400),
}
BASE: dict[str, float] = {"m": 100, "n": 1600, "rank": 5, "spike": 0.0, "signal": 4.0}


def _regime(varied: str, value: float) -> dict[str, float]:
    if varied == "6.2":
        return {"m": value, "n": 64 * value, "signal": 40 / math.sqrt(value)}
    if varied == "6.3":
        return {"m": value, "n": 64 * value}
    return {varied: value}


def sweep(
    epsilon: float = 1.0, delta: float = 1e-6, seed: int = 0, repetitions: int = 3
) -> Iterator[Row]:
    """Vary one of shape, rank, coherence and signal at a time.

    Parameters
    ----------
    epsilon, delta : float
    seed : int
    repetitions : int

    Yields
    ------
    Row
    """
    rng = np.random.default_rng(seed)
    for varied, values in SETTINGS.items():
        for value in values:
            s = BASE | _regime(varied, value)
            shape = int(s["m"]), int(s["n"]), int(s["rank"])
            A = incoherent(*shape, s["signal"], rng, s["spike"])
            known = shape[2] if A.size > 1 << 20 else None
            yield compare(varied, A, epsilon, delta, rng, repetitions, known)
