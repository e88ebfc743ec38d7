"""What the paper promises, as functions of numbers: of public estimates they give public answers.

References
----------
.. [1] M. Hardt and A. Roth, "Beating Randomized Response on Incoherent Matrices",
   STOC 2012, arXiv:1111.0623.
"""

from __future__ import annotations

import math

from privgram._checks import check_budget, check_integer, check_not_negative, check_number

__all__ = ["prune_level", "theorem_6_2", "theorem_6_3"]


def prune_level(
    shape: tuple[int, int], k: int, C: float, frobenius: float, epsilon: float, delta: float
) -> float:
    r"""Pruning level of Theorem 6.2's proof, at most 1.

    .. math:: \alpha^2 = \frac{C \|A\|_F\, \epsilon}{\sqrt{mn} \ln(k/\delta)}

    It balances what pruning takes from A and what the projection's noise adds.

    Parameters
    ----------
    shape : tuple of int
        (m, n).
    k : int
        Rank and oversampling together.
    C, frobenius : float
        Coherence and norm of the matrix: public estimates, if the level is to be used.
    epsilon, delta : float

    Returns
    -------
    float

    References
    ----------
    Hardt and Roth [1]_, Theorem 6.2.
    """
    m, n = shape
    k = check_integer(k, "k", 1)
    C, frobenius = check_not_negative(C, "C"), check_not_negative(frobenius, "frobenius")
    epsilon, delta = check_budget(epsilon, delta)
    square = C * frobenius * epsilon / (math.sqrt(m * n) * math.log(k / delta))
    return min(1.0, math.sqrt(square))


def theorem_6_2(
    shape: tuple[int, int],
    rank: int,
    oversample: int,
    C: float,
    frobenius: float,
    tail: float,
    epsilon: float,
    delta: float,
) -> float:
    r"""What Theorem 6.2 bounds ||A - B||_F by, with 1 for its constant.

    .. math:: \sqrt{1 + \tfrac{r}{p-1}}\, \|A - A_r\|_F + \frac{\sqrt{km} \ln(k/\delta)}{\epsilon}
              + \sqrt{C \|A\|_F}\, k \Bigl(\frac nm\Bigr)^{1/4}
              \Bigl(\frac{\ln(k/\delta)}{\epsilon}\Bigr)^{1/2}

    Parameters
    ----------
    shape : tuple of int
        (m, n).
    rank, oversample : int
        r and p, at least 2.
    C, frobenius : float
        Coherence and norm ||A||_F.
    tail : float
        ||A - A_r||_F.
    epsilon, delta : float

    Returns
    -------
    float

    References
    ----------
    Hardt and Roth [1]_, Theorem 6.2.
    """
    base, loss = _common(rank, oversample, tail, epsilon, delta)
    (m, n), k = shape, rank + oversample
    C, frobenius = check_not_negative(C, "C"), check_not_negative(frobenius, "frobenius")
    pruning = k * math.sqrt(C * frobenius * loss * math.sqrt(n / m))
    return base + math.sqrt(k * m) * loss + pruning


def theorem_6_3(
    shape: tuple[int, int],
    rank: int,
    oversample: int,
    mu0: float,
    matrix_rank: int,
    tail: float,
    epsilon: float,
    delta: float,
) -> float:
    r"""What Theorem 6.3 bounds ||A - B||_F by, with 1 for its constant and no pruning.

    .. math:: \sqrt{\tfrac{r}{p-1}}\, \|A - A_r\|_F + \Bigl(\sqrt{km}
              + \sqrt{\frac{kR\mu_0 + k^2 \ln m}{m}} \sqrt{kn}\Bigr) \frac{\ln(k/\delta)}{\epsilon}

    with :math:`\sqrt{1 + r/(p-1)}` before the tail, as in the proof.

    Parameters
    ----------
    shape : tuple of int
        (m, n).
    rank, oversample : int
        r and p, at least 2.
    mu0 : float
        Coherence of the left singular vectors.
    matrix_rank : int
        R.
    tail : float
        ||A - A_r||_F.
    epsilon, delta : float

    Returns
    -------
    float

    References
    ----------
    Hardt and Roth [1]_, Theorem 6.3.
    """
    base, loss = _common(rank, oversample, tail, epsilon, delta)
    (m, n), k = shape, rank + oversample
    matrix_rank = check_integer(matrix_rank, "matrix_rank", 0)
    mu0 = check_number(mu0, "mu0")
    spread = math.sqrt((k * matrix_rank * mu0 + k * k * math.log(m)) / m)
    return base + (math.sqrt(k * m) + spread * math.sqrt(k * n)) * loss


def _common(
    rank: int, oversample: int, tail: float, epsilon: float, delta: float
) -> tuple[float, float]:
    """What both theorems begin with: the range finder's error, and ln(k/delta) / epsilon."""
    r, p = check_integer(rank, "rank", 2), check_integer(oversample, "oversample", 2)
    epsilon, delta = check_budget(epsilon, delta)
    base = math.sqrt(1 + r / (p - 1)) * check_not_negative(tail, "tail")
    return base, math.log((r + p) / delta) / epsilon
