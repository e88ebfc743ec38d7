"""Hardt and Roth's statements, the exact profile of the range finder, and its calibration.

Shared parameters are documented in `privgram.papers`. Those of the matrix are

shape : tuple of int
    (m, n), its rows and columns.
k : int
    Columns of the random test matrix, rank and oversampling together, at least 1.
rank, oversample : int
    r and p, both at least 2.
C, frobenius : float
    C-coherence and Frobenius norm: public estimates, if what comes out is to be used.
tail : float
    Frobenius norm of what the best matrix of rank r leaves, ||A - A_r||_F.

The errors are bounds with 1 for the constants that the theorems leave open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privgram._base.numbers import (
    Adjacency,
    check_budget,
    check_integer,
    check_not_negative,
    check_positive,
)
from privgram.papers._shared import (
    check_count,
    chi_gaussian_delta,
    largest_parameter,
    log_ratio,
    require_private,
)
from privgram.privacy import GaussianProfile
from privgram.privacy._numerics import TINY, Array
from privgram.privacy.calibration import checked_budget
from privgram.privacy.profiles import Profile, ProofStatus, check_known_adjacency, check_parameter


def theorem_2_6(
    sensitivity: float, epsilon: float, delta: float, *, allow_published_erratum: bool = False
) -> float:
    r"""Standard deviation of the Gaussian mechanism (also Theorem A.1).

    .. math:: \rho = c \sqrt{\ln(1.25/\delta)} / \epsilon

    The factor sqrt(2) is missing.

    Parameters
    ----------
    sensitivity : float
        L2 sensitivity c.

    Returns
    -------
    float
        rho, in the units of c.
    """
    check_budget(epsilon, delta)
    rho = check_positive(sensitivity, "sensitivity") * math.sqrt(math.log(1.25 / delta)) / epsilon
    require_private(
        GaussianProfile(sensitivity / rho),
        epsilon,
        delta,
        "Hardt and Roth, Theorem 2.6: the factor sqrt(2) is missing",
        allow_published_erratum,
    )
    return rho


def figure_2(
    k: int, epsilon: float, delta: float, *, allow_published_erratum: bool = False
) -> float:
    r"""Standard deviation of the range finder's noise, for row changes of norm 1 (Lemma 4.1).

    .. math:: \rho = 2 \sqrt{2 k \ln(4k/\delta)} / \epsilon, \qquad \epsilon, \delta \in (0, 1)

    The proof's factor sqrt(ln(2.5/delta)) is printed as 2, which few columns do not make up for.

    Returns
    -------
    float
        rho, in the units of a row.
    """
    log_ratio(4, epsilon, delta, 1.0, epsilon_below=1)
    check_integer(k, "k", 1)
    rho = 2 * math.sqrt(2 * k * math.log(4 * k / delta)) / epsilon
    require_private(
        ChiGaussianProfile(k, 1 / rho),
        epsilon,
        delta,
        "Hardt and Roth, Figure 2: the factor sqrt(ln(2.5/delta)) of the proof became 2",
        allow_published_erratum,
    )
    return rho


def figure_3(k: int, epsilon: float, delta: float) -> float:
    r"""Standard deviation of the projection's noise, for row changes of norm 1 (Lemma 4.6).

    .. math:: \rho = 2 \sqrt{8 k \ln(4k/\delta) \ln(2/\delta)} / \epsilon,
              \qquad \epsilon, \delta \in (0, 1)

    Row i of the noise has standard deviation :math:`\alpha_i \rho`, where :math:`\alpha_i` is
    the largest magnitude in column i of W.

    Returns
    -------
    float
        rho, in the units of a row.
    """
    log = log_ratio(4 * check_integer(k, "k", 1), epsilon, delta, 1.0, epsilon_below=1)
    return 2 * math.sqrt(8 * k * log * math.log(2 / delta)) / epsilon


def prune_level(
    shape: tuple[int, int], k: int, C: float, frobenius: float, epsilon: float, delta: float
) -> float:
    r"""Pruning level of Theorem 6.2's proof, at most 1.

    .. math:: \alpha^2 = \frac{C \|A\|_F\, \epsilon}{\sqrt{mn} \ln(k/\delta)}

    It balances what pruning takes from A and what the projection's noise adds.
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
    r"""Error ||A - B||_F of find-and-project with pruning.

    .. math:: \sqrt{1 + \tfrac{r}{p-1}}\, \|A - A_r\|_F + \frac{\sqrt{km} \ln(k/\delta)}{\epsilon}
              + \sqrt{C \|A\|_F}\, k \Bigl(\frac nm\Bigr)^{1/4}
              \Bigl(\frac{\ln(k/\delta)}{\epsilon}\Bigr)^{1/2}
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
    r"""Error ||A - B||_F of find-and-project without pruning.

    .. math:: \sqrt{\tfrac{r}{p-1}}\, \|A - A_r\|_F + \Bigl(\sqrt{km}
              + \sqrt{\frac{kR\mu_0 + k^2 \ln m}{m}} \sqrt{kn}\Bigr) \frac{\ln(k/\delta)}{\epsilon}

    with :math:`\sqrt{1 + r/(p-1)}` before the tail, as in the proof.

    Parameters
    ----------
    mu0 : float
        Coherence of the left singular vectors.
    matrix_rank : int
        R.
    """
    base, loss = _common(rank, oversample, tail, epsilon, delta)
    (m, n), k = shape, rank + oversample
    matrix_rank = check_integer(matrix_rank, "matrix_rank", 0)
    mu0 = check_not_negative(mu0, "mu0")
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


@dataclass(frozen=True)
class ChiGaussianProfile(Profile):
    r"""Privacy profile of the range finder: a Gaussian mechanism of random sensitivity.

    .. math:: \delta(\epsilon) = E\, \delta_{\mathrm{Gauss}}\bigl(\epsilon;
              \mu = (S^2\,\text{ratio}^2 + \text{offset}^2)^{1/2}\bigr), \qquad S \sim \chi_k

    The offset is that of Gaussian mechanisms composed with it, such as the projection: given S
    all are Gaussian, and squared ratios add up.

    Parameters
    ----------
    k : float
        Columns of the random test matrix, at least 1.
    ratio : float
        Largest change of a row over the standard deviation of the noise, positive.
    offset : float
        Sensitivity ratio of the Gaussian mechanisms released beside it, at least 0.
    adjacency : {"replace", "add-remove"}, optional
        As of `GaussianProfile`.

    References
    ----------
    Hardt and Roth, STOC 2012, Figure 2; docs/theory/range-finder-projection.md, Theorems 1 and 2,
    and "Both together".
    """

    k: float
    ratio: float
    offset: float = 0.0
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        check_count(self.k, "k")
        check_parameter(self.ratio, "ratio")
        if self.offset != 0:
            check_parameter(self.offset, "offset")
        check_known_adjacency(self.adjacency)

    @property
    def proof_status(self) -> ProofStatus:
        """As in `Profile`. With an offset one row may not attain both parts at once."""
        return "upper bound" if self.offset else "exact"

    @classmethod
    def _joined(cls, profiles: list[Profile]) -> list[Profile]:
        """Add up columns of one ratio; one of the range finders takes Gaussian mechanisms along."""
        columns: dict[float, float] = {}
        rest, offsets = [], []
        for p in profiles:
            if isinstance(p, ChiGaussianProfile):
                columns[p.ratio] = columns.get(p.ratio, 0) + p.k
                offsets.append(p.offset)
            elif isinstance(p, GaussianProfile):
                offsets.append(p.sensitivity_ratio)
            else:
                rest.append(p)
        offset = math.hypot(*offsets)
        known = (getattr(p, "adjacency", None) for p in profiles)
        adjacency = next((one for one in known if one is not None), None)
        for ratio, k in columns.items():
            rest.append(ChiGaussianProfile(k, ratio, offset, adjacency))
            offset = 0.0
        return rest

    def _delta(self, epsilon: Array) -> Array:
        kappa, offset = np.asarray(self.ratio), float(self.offset)
        return np.maximum(chi_gaussian_delta(epsilon, float(self.k), kappa, offset=offset), TINY)


def chi_gaussian_ratio(k: float, epsilon: float, delta: float) -> float:
    """Largest ratio of the range finder for a budget.

    Returns
    -------
    float
        The standard deviation of the noise is the largest change of a row over this.
    """
    return largest_parameter(
        lambda x: ChiGaussianProfile(k, x), epsilon, delta, lambda mu: mu / math.sqrt(k)
    )


def chi_gaussian_offset(k: float, ratio: float, epsilon: float, delta: float) -> float:
    """Largest sensitivity ratio of Gaussian noise beside a range finder, for a budget.

    Parameters
    ----------
    ratio : float
        Ratio of the range finder, below ``chi_gaussian_ratio(k, epsilon, delta)``, or a ValueError.
    epsilon, delta : float
        Budget of both together, epsilon >= 0 and 0 < delta < 1.

    Returns
    -------
    float
        The offset of a `ChiGaussianProfile`.
    """
    epsilon, delta = checked_budget(epsilon, delta)
    if ChiGaussianProfile(k, ratio).delta(epsilon) >= delta:
        raise ValueError("the range finder takes the whole budget: its ratio is too large")
    return largest_parameter(
        lambda x: ChiGaussianProfile(k, ratio, x), epsilon, delta, lambda mu: 0.7 * mu
    )
