r"""The papers' constants, one function for each theorem, algorithm or figure.

A function is called ``<paper>_<kind>_<number>`` (``sheffet_theorem_3_1``,
``hardt_roth_figure_2``) and returns what that statement sets: a variance, a
standard deviation, a number of degrees of freedom. Its domain is the printed one,
and leaving it is a `ValueError`. All logarithms are natural.

A few statements are false as printed. Their functions compare the printed value with
the exact profile and raise `PublishedErratumError` where it is not private;
``allow_published_erratum=True`` returns it all the same, for reproducing figures. The
errata, with numbers, are in ``docs/theory/errata.md``.

The papers' neighbours differ in one row ("replace"). A mechanism that sees the data
only through :math:`A^T A` is at least as private under "add-remove", since a row may
be replaced by zeros; so a function takes ``adjacency`` only where the printed constant
holds under one notion and not under the other.

References
----------
.. [1] O. Sheffet, "Private Approximations of the 2nd-Moment Matrix Using Existing
   Techniques in Linear Regression", arXiv:1507.00056, 2015; published in part as
   "Old Techniques in Differentially Private Linear Regression", ALT 2019.
.. [2] M. Hardt and A. Roth, "Beating Randomized Response on Incoherent Matrices",
   STOC 2012, arXiv:1111.0623.
.. [3] S. Zhou, K. Ligett and L. Wasserman, "Differential Privacy with Compression",
   ISIT 2009, arXiv:0901.1365.
.. [4] C. Dwork, K. Talwar, A. Thakurta and L. Zhang, "Analyze Gauss: Optimal Bounds
   for Privacy-Preserving Principal Component Analysis", STOC 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privgram._checks import (
    check_budget,
    check_integer,
    check_not_negative,
    check_number,
    check_positive,
)

from ._adjacency import Adjacency, check_adjacency
from .gaussian import GaussianProfile
from .sketch import ChiGaussianProfile, SketchProfile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

__all__ = [
    "AdaptiveConstants",
    "PublishedErratumError",
    "hardt_roth_figure_2",
    "hardt_roth_figure_3",
    "hardt_roth_theorem_2_6",
    "sheffet_algorithm_2",
    "sheffet_algorithm_2_rows",
    "sheffet_algorithm_5",
    "sheffet_algorithm_5_dof",
    "sheffet_analyze_gauss",
    "sheffet_corollary_b_2",
    "sheffet_lemma_a_3",
    "sheffet_section_2",
    "sheffet_theorem_3_1",
    "sheffet_theorem_4_1",
    "sheffet_theorem_5_1",
    "sheffet_theorem_b_1",
    "sheffet_theorem_b_3",
    "sheffet_theorem_b_4",
    "sheffet_theorem_b_5",
    "zhou_equation_5",
    "zhou_lemma_b_1",
    "zhou_procedure_4_1",
    "zhou_theorem_4_6",
]


class PublishedErratumError(ValueError):
    """A published constant was asked for where it is not private as printed."""

    @property
    def flaw(self) -> str:
        """What is wrong with the constant, without what to do instead."""
        return str(self.args[0])

    def __str__(self) -> str:
        return (
            f"{self.flaw} Use calibration='exact', or pass allow_published_erratum=True to "
            "reproduce the paper"
        )


# --- Sheffet -----------------------------------------------------------------------


def sheffet_section_2(
    bound: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
    *,
    allow_published_erratum: bool = False,
) -> float:
    r"""Standard deviation of Analyze Gauss as section 2 prints it.

    .. math:: \sigma^2 = 2 B^4 \ln(2/\delta) / \epsilon

    The epsilon is not squared there; `sheffet_analyze_gauss` has the form the paper
    uses in the proof of Theorem B.5.

    Parameters
    ----------
    bound : float
        L2 bound B of a row.
    epsilon, delta : float
        Privacy parameters, epsilon > 0 and 0 < delta < 1.
    adjacency : {"replace", "add-remove"}
        Notion of neighbours the check is made for.
    allow_published_erratum : bool
        Return the value even where it is not private.

    Returns
    -------
    float
        Standard deviation of each entry on or above the diagonal, in squared data units.

    Raises
    ------
    PublishedErratumError
        Where the printed noise does not give (epsilon, delta).

    References
    ----------
    Sheffet [1]_, section 2, "Differential Privacy".
    """
    check_budget(epsilon, delta)
    sigma = check_positive(bound, "bound") ** 2 * math.sqrt(2 * math.log(2 / delta) / epsilon)
    _require_private_gaussian(
        _second_moment_sensitivity(bound, adjacency) / sigma,
        epsilon,
        delta,
        "Sheffet, section 2: the variance is printed with epsilon where epsilon^2 is meant",
        allow_published_erratum,
    )
    return sigma


def sheffet_analyze_gauss(
    bound: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
    *,
    allow_published_erratum: bool = False,
) -> float:
    r"""Standard deviation of Analyze Gauss with the paper's sensitivity.

    .. math:: \sigma = B^2 \sqrt{2 \ln(2/\delta)} / \epsilon

    The sensitivity B² is right when a row is added or removed. Replacing a row moves
    the second moment by up to :math:`\sqrt2 B^2`, which this noise covers only where
    the tail bound has that much to spare.

    Parameters
    ----------
    bound : float
        L2 bound B of a row.
    epsilon, delta : float
        Privacy parameters, epsilon > 0 and 0 < delta < 1.
    adjacency : {"replace", "add-remove"}
        Notion of neighbours the check is made for.
    allow_published_erratum : bool
        Return the value even where it is not private.

    Returns
    -------
    float
        Standard deviation of each entry on or above the diagonal, in squared data units.

    Raises
    ------
    PublishedErratumError
        Where this noise does not give (epsilon, delta) under `adjacency`.

    References
    ----------
    Sheffet [1]_, section 2, with the variance of the proof of Theorem B.5; the
    mechanism is Dwork et al. [4]_.
    """
    check_budget(epsilon, delta)
    sigma = check_positive(bound, "bound") ** 2 * math.sqrt(2 * math.log(2 / delta)) / epsilon
    _require_private_gaussian(
        _second_moment_sensitivity(bound, adjacency) / sigma,
        epsilon,
        delta,
        "Sheffet, section 2: B^4 is the squared sensitivity for adding or removing a row, "
        "replacing one gives up to 2 B^4"
        if adjacency == "replace"
        else "Sheffet, section 2: the Gaussian tail bound fails for an epsilon this large",
        allow_published_erratum,
    )
    return sigma


def sheffet_theorem_3_1(
    rows: int,
    bound: float,
    epsilon: float,
    delta: float,
    *,
    n_columns: int | None = None,
    allow_published_erratum: bool = False,
) -> float:
    r"""Regulariser of the Gaussian sketch (Algorithm 1).

    .. math:: w^2 = 4 B^2 \bigl(\sqrt{2 r \ln(4/\delta)} + \ln(4/\delta)\bigr) / \epsilon

    Parameters
    ----------
    rows : int
        Rows r >= 1 of the sketch.
    bound : float
        L2 bound B of a row.
    epsilon, delta : float
        Privacy parameters, epsilon > 0 and 0 < delta < 1/e.
    n_columns : int, optional
        Columns d of the data. The theorem asks for d < r, which is checked when d is
        given; privacy does not need it.
    allow_published_erratum : bool
        Return the value even where it is not private.

    Returns
    -------
    float
        w², in squared data units.

    Raises
    ------
    ValueError
        Outside the domain.
    PublishedErratumError
        Where w² does not give (epsilon, delta): with many rows, at an epsilon in the
        hundreds. Up to ln(4/delta) the theorem follows from Theorem B.4.

    References
    ----------
    Sheffet [1]_, Theorem 3.1 and Algorithm 1.
    """
    log = _log_ratio(4, epsilon, delta, 1 / math.e)
    r = check_integer(rows, "rows", 1)
    if n_columns is not None and r <= check_integer(n_columns, "n_columns", 1):
        raise ValueError(f"Theorem 3.1 needs n_columns < rows, not {n_columns} and {rows}")
    check_positive(bound, "bound")
    w_squared = 4 * (math.sqrt(2 * r * log) + log) / epsilon
    _require_private_sketch(r, w_squared, epsilon, delta, "3.1", allow_published_erratum)
    return w_squared * bound**2


def sheffet_theorem_b_1(
    rows: int, bound: float, epsilon: float, delta: float, *, n_columns: int | None = None
) -> float:
    r"""Regulariser of the Gaussian sketch, the sharper form of Theorem 3.1.

    .. math:: w^2 = B^2 \Bigl(1 + \frac{1 + \epsilon / \ln(4/\delta)}{\epsilon}
              \bigl(2 \sqrt{2 r \ln(4/\delta)} + 2 \ln(4/\delta)\bigr)\Bigr)

    Parameters
    ----------
    rows : int
        Rows r >= 1 of the sketch.
    bound : float
        L2 bound B of a row.
    epsilon, delta : float
        Privacy parameters, epsilon > 0 and 0 < delta < 1/2.
    n_columns : int, optional
        Columns d of the data; d < r is checked when it is given.

    Returns
    -------
    float
        w², in squared data units.

    Raises
    ------
    ValueError
        Outside the domain.

    References
    ----------
    Sheffet [1]_, Theorem B.1.
    """
    log = _log_ratio(4, epsilon, delta, 1 / 2)
    r = check_integer(rows, "rows", 1)
    if n_columns is not None and r <= check_integer(n_columns, "n_columns", 1):
        raise ValueError(f"Theorem B.1 needs n_columns < rows, not {n_columns} and {rows}")
    tails = 2 * math.sqrt(2 * r * log) + 2 * log
    return check_positive(bound, "bound") ** 2 * (1 + (1 + epsilon / log) / epsilon * tails)


def sheffet_corollary_b_2(rows: int, bound: float, epsilon: float, delta: float) -> float:
    r"""Regulariser of the Gaussian sketch, the simplified form.

    .. math:: w^2 = 8 B^2 \sqrt{r \ln(4/\delta)} / \epsilon

    Parameters
    ----------
    rows : int
        Rows r >= 2 ln(4/delta) of the sketch.
    bound : float
        L2 bound B of a row.
    epsilon, delta : float
        Privacy parameters, 0 < epsilon < 1 and 0 < delta < 1/e.

    Returns
    -------
    float
        w², in squared data units.

    Raises
    ------
    ValueError
        Outside the domain.

    References
    ----------
    Sheffet [1]_, Corollary B.2. Its second half, the rows for a given w, prints
    ln(4/delta) squared and rounds up where the first half gives ln(4/delta) and
    rounding down; only the first half is here.
    """
    log = _log_ratio(4, epsilon, delta, 1 / math.e, epsilon_below=1)
    r = check_integer(rows, "rows", 1)
    if r < 2 * log:
        raise ValueError(f"Corollary B.2 needs rows >= 2 ln(4/delta) = {2 * log:.4g}, not {rows}")
    return 8 * check_positive(bound, "bound") ** 2 * math.sqrt(r * log) / epsilon


@dataclass(frozen=True)
class AdaptiveConstants:
    """Constants of Algorithms 2 and 5 before the data are seen.

    What they guarantee is stated by the paper, and rests on numbers: see `sheffet_algorithm_2`.

    Attributes
    ----------
    regulariser : float
        w² of Algorithm 2, psi of Algorithm 5, in squared data units.
    laplace_scale : float
        Scale of the Laplace noise on the least eigenvalue, 2 B²/epsilon.
    shift : float
        tau = 2 B² ln(2/delta)/epsilon, subtracted so that the noisy eigenvalue is a
        lower bound with high probability.
    """

    regulariser: float
    laplace_scale: float
    shift: float


def sheffet_algorithm_2(rows: int, bound: float, epsilon: float, delta: float) -> AdaptiveConstants:
    r"""Constants of the adaptive sketch.

    .. math:: w^2 = \frac{8 B^2}{\epsilon}
              \bigl(\sqrt{2 r_0 \ln(8/\delta)} + \ln(8/\delta)\bigr), \quad
              \tau = \frac{2 B^2 \ln(2/\delta)}{\epsilon}, \quad
              Z \sim \mathrm{Lap}(2 B^2/\epsilon)

    The algorithm forms :math:`s = \max(0, \lambda_{\min}(A^T A) - \tau + Z)` and
    sketches with :math:`w^2 - s` where that is positive; else without a regulariser
    and with `sheffet_algorithm_2_rows` rows.

    The guarantee is **stated** by the paper, not proved here: the printed proof has a gap
    (docs/theory/errata.md), and that (epsilon, delta) holds all the same rests on numbers,
    on a grid of budgets and eigenvalues. The exact calibration is proved.

    Parameters
    ----------
    rows : int
        Least number of rows r0 >= 1.
    bound : float
        L2 bound B of a row.
    epsilon, delta : float
        Privacy parameters of the whole, epsilon > 0 and 0 < delta < 1/e. Half goes to
        the eigenvalue and half to Theorem 3.1.

    Returns
    -------
    AdaptiveConstants

    Raises
    ------
    ValueError
        Outside the domain.

    References
    ----------
    Sheffet [1]_, Algorithm 2.
    """
    log = _log_ratio(8, epsilon, delta, 1 / math.e)
    r = check_integer(rows, "rows", 1)
    b2 = check_positive(bound, "bound") ** 2
    return AdaptiveConstants(
        regulariser=8 * b2 * (math.sqrt(2 * r * log) + log) / epsilon,
        laplace_scale=2 * b2 / epsilon,
        shift=2 * b2 * math.log(2 / delta) / epsilon,
    )


def sheffet_algorithm_2_rows(s: float, bound: float, epsilon: float, delta: float) -> int:
    r"""Rows r* that an eigenvalue bound s pays for without a regulariser.

    The largest integer r with

    .. math:: \frac{8 B^2}{\epsilon} \bigl(\sqrt{2 r \ln(8/\delta)} + \ln(8/\delta)\bigr)
              \le s.

    Parameters
    ----------
    s : float
        Private lower bound on the least eigenvalue, in squared data units.
    bound : float
        L2 bound B of a row.
    epsilon, delta : float
        Privacy parameters of the whole, epsilon > 0 and 0 < delta < 1/e.

    Returns
    -------
    int
        r* >= 1.

    Raises
    ------
    ValueError
        Outside the domain, or where s does not pay for a single row.

    References
    ----------
    Sheffet [1]_, Algorithm 2.
    """
    log = _log_ratio(8, epsilon, delta, 1 / math.e)
    room = check_number(s, "s") * epsilon / (8 * check_positive(bound, "bound") ** 2) - log
    if not math.isfinite(room):
        raise ValueError(f"s must be a finite number, not {s}")
    rows = math.floor(room * room / (2 * log)) if room > 0 else 0
    # The closed form may sit one off an integer boundary; the inequality decides.
    while sheffet_algorithm_2(rows + 1, bound, epsilon, delta).regulariser <= s:
        rows += 1
    while rows > 0 and sheffet_algorithm_2(rows, bound, epsilon, delta).regulariser > s:
        rows -= 1
    if rows < 1:
        raise ValueError("s is too small to pay for a single row without a regulariser")
    return rows


def sheffet_theorem_4_1(n_columns: int, epsilon: float, delta: float) -> int:
    r"""Degrees of freedom of additive Wishart noise with scale B² I (Algorithm 3).

    .. math:: k = \Bigl\lfloor d + \frac{14}{\epsilon^2} \, 2 \ln(4/\delta) \Bigr\rfloor

    Parameters
    ----------
    n_columns : int
        Columns d >= 1 of the data.
    epsilon, delta : float
        Privacy parameters, 0 < epsilon < 1 and 0 < delta < 1/e. The formula goes on
        to give a number outside, but not privacy: the floor P[chi2 < 1] of the noise
        does not fall with epsilon.

    Returns
    -------
    int
        k.

    Raises
    ------
    ValueError
        Outside the domain.

    References
    ----------
    Sheffet [1]_, Theorem 4.1 and Algorithm 3.
    """
    log = _log_ratio(4, epsilon, delta, 1 / math.e, epsilon_below=1)
    return math.floor(check_integer(n_columns, "n_columns", 1) + 14 / epsilon**2 * 2 * log)


def sheffet_theorem_b_3(
    n_columns: int, scale: float, bound: float, epsilon: float, delta: float
) -> int:
    r"""Degrees of freedom of additive Wishart noise with any scale.

    With V at least `scale` times the identity, :math:`\nu = \lfloor d + 2 C_2
    \ln(4/\delta) \rfloor` where :math:`C_2` solves

    .. math:: \frac{2 \sqrt{C_2}}{C_1 (\sqrt{C_2} - 1)^2} = \frac{\epsilon}{B^2},
              \qquad C_1 = \text{scale}, \quad C_2 > 1.

    Theorem 4.1 is the instance :math:`C_1 = B^2`, with :math:`C_2` rounded up to
    :math:`14/\epsilon^2`.

    Parameters
    ----------
    n_columns : int
        Columns d >= 1 of the data.
    scale : float
        Least eigenvalue of V, in squared data units.
    bound : float
        L2 bound B of a row.
    epsilon, delta : float
        Privacy parameters, 0 < epsilon < 1 and 0 < delta < 1/e.

    Returns
    -------
    int
        nu.

    Raises
    ------
    ValueError
        Outside the domain.

    References
    ----------
    Sheffet [1]_, Theorem B.3.
    """
    log = _log_ratio(4, epsilon, delta, 1 / math.e, epsilon_below=1)
    ratio = check_positive(bound, "bound") ** 2 / check_positive(scale, "scale")
    # sqrt(C2) - 2 + 1/sqrt(C2) = h, so sqrt(C2) + 1/sqrt(C2) = 2 + h with h = 2 ratio/epsilon.
    half = 1 + ratio / epsilon
    c2 = (half + math.sqrt(half * half - 1)) ** 2
    return math.floor(check_integer(n_columns, "n_columns", 1) + 2 * c2 * log)


def sheffet_lemma_a_3(dof: int, n_columns: int, bound: float, delta: float) -> float:
    r"""Shift that may be taken off additive Wishart noise with scale B² I.

    .. math:: B^2 \bigl(\sqrt{k} - (\sqrt{d} + \sqrt{2 \ln(4/\delta)})\bigr)^2

    The noise exceeds this multiple of the identity except with probability delta/2.

    Parameters
    ----------
    dof : int
        Degrees of freedom k of the noise.
    n_columns : int
        Columns d >= 1 of the data.
    bound : float
        L2 bound B of a row.
    delta : float
        0 < delta < 1/e.

    Returns
    -------
    float
        The shift, in squared data units.

    Raises
    ------
    ValueError
        Outside the domain, that is also where sqrt(k) <= sqrt(d) + sqrt(2 ln(4/delta)).

    References
    ----------
    Sheffet [1]_, section 4 and Lemma A.3 (at failure probability delta/2).
    """
    root = math.sqrt(2 * _log_ratio(4, 1.0, delta, 1 / math.e))
    d, k = check_integer(n_columns, "n_columns", 1), check_integer(dof, "dof", 1)
    gap = math.sqrt(k) - (math.sqrt(d) + root)
    if gap <= 0:
        raise ValueError(
            f"Lemma A.3 needs dof > (sqrt(n_columns) + sqrt(2 ln(4/delta)))^2 "
            f"= {(math.sqrt(d) + root) ** 2:.4g}, not {dof}"
        )
    return check_positive(bound, "bound") ** 2 * gap * gap


def sheffet_theorem_5_1(
    dof: int,
    bound: float,
    epsilon: float,
    delta: float,
    *,
    n_columns: int | None = None,
    allow_published_erratum: bool = False,
) -> float:
    r"""Prior scale of the inverse Wishart (Algorithm 4).

    .. math:: \psi = \frac{2 B^2}{\epsilon}
              \bigl(2 \sqrt{2 \nu \ln(4/\delta)} + 2 \ln(4/\delta)\bigr)

    Parameters
    ----------
    dof : int
        Degrees of freedom nu. Algorithm 4 takes n + d, which needs n to be public.
    bound : float
        L2 bound B of a row.
    epsilon, delta : float
        Privacy parameters, epsilon > 0 and 0 < delta < 1/e.
    n_columns : int, optional
        Columns d of the data; nu >= d is checked when it is given.
    allow_published_erratum : bool
        Return the value even where it is not private.

    Returns
    -------
    float
        psi (the w² of Theorem 5.1), in squared data units.

    Raises
    ------
    ValueError
        Outside the domain.
    PublishedErratumError
        Where psi does not give (epsilon, delta), as in `sheffet_theorem_3_1`.

    References
    ----------
    Sheffet [1]_, Theorem 5.1 and Algorithm 4.
    """
    log = _log_ratio(4, epsilon, delta, 1 / math.e)
    least = 1 if n_columns is None else check_integer(n_columns, "n_columns", 1)
    nu = check_integer(dof, "dof", least)
    check_positive(bound, "bound")
    psi = 2 * (2 * math.sqrt(2 * nu * log) + 2 * log) / epsilon
    _require_private_sketch(nu, psi, epsilon, delta, "5.1", allow_published_erratum)
    return psi * bound**2


def sheffet_algorithm_5(dof: int, bound: float, epsilon: float, delta: float) -> AdaptiveConstants:
    r"""Constants of the adaptive inverse Wishart.

    .. math:: \psi = \frac{4 B^2}{\epsilon}
              \bigl(2 \sqrt{2 k_0 \ln(8/\delta)} + 2 \ln(8/\delta)\bigr)

    with the shift and the Laplace noise of `sheffet_algorithm_2`, to whose regulariser
    this is equal. As there, the guarantee is stated by the paper and not proved here.

    Parameters
    ----------
    dof : int
        Least degrees of freedom k0 >= 1.
    bound : float
        L2 bound B of a row.
    epsilon, delta : float
        Privacy parameters of the whole, epsilon > 0 and 0 < delta < 1/e.

    Returns
    -------
    AdaptiveConstants

    Raises
    ------
    ValueError
        Outside the domain.

    References
    ----------
    Sheffet [1]_, Algorithm 5.
    """
    return sheffet_algorithm_2(check_integer(dof, "dof", 1), bound, epsilon, delta)


def sheffet_algorithm_5_dof(s: float, bound: float, epsilon: float, delta: float) -> int:
    r"""Degrees of freedom k* that an eigenvalue bound s pays for without a prior.

    Parameters
    ----------
    s : float
        Private lower bound on the least eigenvalue, in squared data units.
    bound : float
        L2 bound B of a row.
    epsilon, delta : float
        Privacy parameters of the whole, epsilon > 0 and 0 < delta < 1/e.

    Returns
    -------
    int
        k* >= 1; equal to `sheffet_algorithm_2_rows`.

    Raises
    ------
    ValueError
        Outside the domain, or where s does not pay for one degree of freedom.

    References
    ----------
    Sheffet [1]_, Algorithm 5.
    """
    return sheffet_algorithm_2_rows(s, bound, epsilon, delta)


def sheffet_theorem_b_4(
    dof: int, bound: float, epsilon: float, delta: float, *, n_columns: int | None = None
) -> float:
    r"""Prior scale of the inverse Wishart, the sharper form of Theorem 5.1.

    .. math:: w^2 = \frac{B^2}{\epsilon \bigl(1 - \frac{\epsilon}{2 \ln(4/\delta)}\bigr)}
              \bigl(2 \sqrt{2 \nu \ln(4/\delta)} + 2 \ln(4/\delta)\bigr)

    Parameters
    ----------
    dof : int
        Degrees of freedom nu.
    bound : float
        L2 bound B of a row.
    epsilon, delta : float
        Privacy parameters, 0 < delta < 1/e and 0 < epsilon < 2 ln(4/delta); the
        theorem says only epsilon > 0, but its value is negative from there on.
    n_columns : int, optional
        Columns d of the data; nu >= d is checked when it is given.

    Returns
    -------
    float
        w², in squared data units.

    Raises
    ------
    ValueError
        Outside the domain.

    References
    ----------
    Sheffet [1]_, Theorem B.4.
    """
    log = _log_ratio(4, epsilon, delta, 1 / math.e)
    if epsilon >= 2 * log:
        raise ValueError(
            f"Theorem B.4 is negative for epsilon >= 2 ln(4/delta) = {2 * log:.4g}, "
            f"got epsilon = {epsilon}"
        )
    least = 1 if n_columns is None else check_integer(n_columns, "n_columns", 1)
    nu = check_integer(dof, "dof", least)
    tails = 2 * math.sqrt(2 * nu * log) + 2 * log
    return check_positive(bound, "bound") ** 2 * tails / (epsilon * (1 - epsilon / (2 * log)))


def sheffet_theorem_b_5(
    rho: float,
    bound: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
    *,
    allow_published_erratum: bool = False,
) -> float:
    r"""Standard deviation of Gaussian noise on the inverse of the second moment.

    .. math:: \sigma^2 = \frac{8 \ln(2/\delta)}{\rho^2 \epsilon^2}

    for data of which it is public that :math:`\lambda_{\min}(A^T A) \ge (1+\rho) B^2`.

    Parameters
    ----------
    rho : float
        Positive margin of the eigenvalue floor.
    bound : float
        L2 bound B of a row. The printed noise does not depend on it, though the
        inverse is in units of 1/B²; the check does.
    epsilon, delta : float
        Privacy parameters, 0 < epsilon < 1 and 0 < delta < 1/e.
    adjacency : {"replace", "add-remove"}
        Notion of neighbours the check is made for.
    allow_published_erratum : bool
        Return the value even where it is not private.

    Returns
    -------
    float
        Standard deviation of each entry on or above the diagonal, in inverse squared
        data units.

    Raises
    ------
    ValueError
        Outside the domain.
    PublishedErratumError
        Where this noise does not give (epsilon, delta).

    References
    ----------
    Sheffet [1]_, Theorem B.5.
    """
    _log_ratio(2, epsilon, delta, 1 / math.e, epsilon_below=1)
    sigma = math.sqrt(8 * math.log(2 / delta)) / (check_positive(rho, "rho") * epsilon)
    one_row = 1 / (check_positive(bound, "bound") ** 2 * rho * (1 + rho))
    _require_private_gaussian(
        _rows_factor(adjacency) * one_row / sigma,
        epsilon,
        delta,
        "Sheffet, Theorem B.5: the sensitivity of the inverse lost its factor 1/B^2",
        allow_published_erratum,
    )
    return sigma


# --- Hardt and Roth ----------------------------------------------------------------


def hardt_roth_theorem_2_6(
    sensitivity: float, epsilon: float, delta: float, *, allow_published_erratum: bool = False
) -> float:
    r"""Standard deviation of the Gaussian mechanism.

    .. math:: \rho = c \sqrt{\ln(1.25/\delta)} / \epsilon

    Parameters
    ----------
    sensitivity : float
        L2 sensitivity c.
    epsilon, delta : float
        Privacy parameters, epsilon > 0 and 0 < delta < 1.
    allow_published_erratum : bool
        Return the value even where it is not private.

    Returns
    -------
    float
        rho, in the units of c.

    Raises
    ------
    PublishedErratumError
        Where this noise does not give (epsilon, delta): the printed form lacks the
        factor sqrt(2).

    References
    ----------
    Hardt and Roth [2]_, Theorem 2.6 (and A.1).
    """
    check_budget(epsilon, delta)
    rho = check_positive(sensitivity, "sensitivity") * math.sqrt(math.log(1.25 / delta)) / epsilon
    _require_private_gaussian(
        sensitivity / rho,
        epsilon,
        delta,
        "Hardt and Roth, Theorem 2.6: the factor sqrt(2) is missing",
        allow_published_erratum,
    )
    return rho


def hardt_roth_figure_2(
    k: int, epsilon: float, delta: float, *, allow_published_erratum: bool = False
) -> float:
    r"""Standard deviation of the range finder's noise, for row changes of norm 1.

    .. math:: \rho = 2 \sqrt{2 k \ln(4k/\delta)} / \epsilon

    Parameters
    ----------
    k : int
        Columns k >= 1 of the test matrix.
    epsilon, delta : float
        Privacy parameters, both in (0, 1).
    allow_published_erratum : bool
        Return the value even where it is not private.

    Returns
    -------
    float
        rho, in the units of a row.

    Raises
    ------
    ValueError
        Outside the domain.
    PublishedErratumError
        Where this noise does not give (epsilon, delta): the proof's factor
        sqrt(ln(2.5/delta)) is printed as 2, which few columns do not make up for.

    References
    ----------
    Hardt and Roth [2]_, Figure 2 and Lemma 4.1.
    """
    _log_ratio(4, epsilon, delta, 1.0, epsilon_below=1)
    check_integer(k, "k", 1)
    rho = 2 * math.sqrt(2 * k * math.log(4 * k / delta)) / epsilon
    if not allow_published_erratum:
        _require_private(
            ChiGaussianProfile(k, 1 / rho).delta(epsilon),
            epsilon,
            delta,
            "Hardt and Roth, Figure 2: the factor sqrt(ln(2.5/delta)) of the proof became 2",
        )
    return rho


def hardt_roth_figure_3(k: int, epsilon: float, delta: float) -> float:
    r"""Standard deviation of the projection's noise, for row changes of norm 1.

    .. math:: \rho = 2 \sqrt{8 k \ln(4k/\delta) \ln(2/\delta)} / \epsilon

    Row i of the noise has standard deviation :math:`\alpha_i \rho`, where
    :math:`\alpha_i` is the largest magnitude in column i of W.

    Parameters
    ----------
    k : int
        Columns k >= 1 of W.
    epsilon, delta : float
        Privacy parameters, both in (0, 1).

    Returns
    -------
    float
        rho, in the units of a row.

    Raises
    ------
    ValueError
        Outside the domain.

    References
    ----------
    Hardt and Roth [2]_, Figure 3 and Lemma 4.6.
    """
    log = _log_ratio(4 * check_integer(k, "k", 1), epsilon, delta, 1.0, epsilon_below=1)
    return 2 * math.sqrt(8 * k * log * math.log(2 / delta)) / epsilon


# --- Zhou, Ligett and Wasserman ----------------------------------------------------


def zhou_lemma_b_1() -> tuple[float, float]:
    r"""Constants of the tail bound on inner products of compressed columns.

    Returns
    -------
    c1, c2 : float
        :math:`C_1 = 4e/\sqrt{6\pi} \approx 2.5044` and
        :math:`C_2 = \sqrt8\,e \approx 7.6885`. The paper prints :math:`\sqrt{8e}`,
        which is 4.6633, beside the value 7.6885; the value is the one it uses.

    References
    ----------
    Zhou, Ligett and Wasserman [3]_, Lemma B.1.
    """
    return 4 * math.e / math.sqrt(6 * math.pi), math.sqrt(8) * math.e


def zhou_procedure_4_1(rows: int, n_rows: int, n_columns: int, delta_max: float) -> float:
    r"""Largest deviation from the reference that a compressed table may show.

    .. math:: C \sqrt{\ln(2np)/m} + \Delta_{\max}, \qquad C = \sqrt{2 (C_1 + C_2)}

    A draw of which an entry of its second moment over m is further than this from the
    reference is thrown away.

    Parameters
    ----------
    rows : int
        Compressed rows m, at least :math:`2 (C_1 + C_2) \ln(2np)` (Lemma 4.4).
    n_rows, n_columns : int
        Rows n and columns p of the data.
    delta_max : float
        Non-negative bound on the entries of the differences of the covariances.

    Returns
    -------
    float
        The threshold, in units of the normalised covariance.

    Raises
    ------
    ValueError
        Outside the domain.

    References
    ----------
    Zhou, Ligett and Wasserman [3]_, Procedure 4.1, equation (12), and Lemma 4.4.
    """
    m, n, p = (
        check_integer(rows, "rows", 1),
        check_integer(n_rows, "n_rows", 1),
        check_integer(n_columns, "n_columns", 1),
    )
    c_squared = 2 * sum(zhou_lemma_b_1())
    log = math.log(2 * n * p)
    if m < c_squared * log:
        raise ValueError(
            f"Lemma 4.4 needs rows >= 2 (C1 + C2) ln(2 n p) = {c_squared * log:.4g}, not {rows}"
        )
    return math.sqrt(c_squared * log / m) + check_not_negative(delta_max, "delta_max")


def zhou_equation_5(covariances: Iterable[ArrayLike], truth: ArrayLike) -> float:
    r"""Spread of a set of databases around their true covariance.

    .. math:: \Delta_{\max} = 2 \sup_j \max_{l,k} |\Sigma_j(l,k) - \Sigma^*(l,k)|

    Parameters
    ----------
    covariances : iterable of array-like of shape (p, p)
        Normalised covariances of the databases in the set.
    truth : array-like of shape (p, p)
        The covariance they are samples of.

    Returns
    -------
    float

    References
    ----------
    Zhou, Ligett and Wasserman [3]_, equation (5).
    """
    return 2 * max(
        float(np.max(np.abs(np.asarray(covariance) - np.asarray(truth))))
        for covariance in covariances
    )


def zhou_theorem_4_6(
    rows: int,
    n_rows: int,
    n_columns: int,
    *,
    difference: float,
    lambda_min: float,
    lambda_min_reference: float,
    norm_reference: float,
    delta_max: float,
) -> float:
    r"""Bound on the log-ratio of the densities of two compressed databases.

    .. math:: \alpha \le \frac{m p \|\Delta\|_F}{2 \lambda_i \lambda_1} \Bigl(
              C \sqrt{\frac{\ln 2np}{m}} + \Delta_{\max} +
              \frac{2 \|\Delta\|_F \|\Sigma_1\|_2^2}{p \lambda_i \lambda_1} \Bigr) + o(1)

    The o(1) term is not included, nor is it explicit in the paper. This is a statement
    about the databases of a given set, not (epsilon, delta)-differential privacy.

    Parameters
    ----------
    rows : int
        Compressed rows m, at least :math:`2 (C_1 + C_2) \ln(2np)` (Lemma 4.4).
    n_rows, n_columns : int
        Rows n and columns p of the data.
    difference : float
        Frobenius norm of the difference of the two covariances.
    lambda_min, lambda_min_reference : float
        Least eigenvalues of the covariance and of the reference, positive.
    norm_reference : float
        Spectral norm of the reference.
    delta_max : float
        Bound on the entries of the differences, as in `zhou_equation_5`.

    Returns
    -------
    float
        alpha without its o(1) term.

    Raises
    ------
    ValueError
        Outside the domain.

    References
    ----------
    Zhou, Ligett and Wasserman [3]_, Theorem 4.6.
    """
    threshold = zhou_procedure_4_1(rows, n_rows, n_columns, delta_max)
    eigenvalues = check_positive(lambda_min, "lambda_min")
    eigenvalues *= check_positive(lambda_min_reference, "lambda_min_reference")
    difference = check_not_negative(difference, "difference")
    second_order = (
        2
        * difference
        * check_positive(norm_reference, "norm_reference") ** 2
        / (n_columns * eigenvalues)
    )
    return rows * n_columns * difference / (2 * eigenvalues) * (threshold + second_order)


# --- Domains -----------------------------------------------------------------------


def _log_ratio(
    numerator: float,
    epsilon: float,
    delta: float,
    delta_below: float,
    *,
    epsilon_below: float = math.inf,
) -> float:
    """Return ln(numerator/delta), having checked epsilon and delta."""
    check_budget(epsilon, delta)
    if not epsilon < epsilon_below:
        raise ValueError(f"the theorem is for epsilon in (0, {epsilon_below:g}), not {epsilon}")
    if not delta < delta_below:
        raise ValueError(f"the theorem is for delta in (0, {delta_below:.4g}), not {delta}")
    return math.log(numerator / delta)


def _rows_factor(adjacency: str) -> float:
    """Frobenius distance of two rank-one terms over that of one: sqrt(2) under replace."""
    return math.sqrt(2) if check_adjacency(adjacency) == "replace" else 1.0


def _second_moment_sensitivity(bound: float, adjacency: str) -> float:
    return _rows_factor(adjacency) * check_positive(bound, "bound") ** 2


def _require_private(achieved: float, epsilon: float, delta: float, erratum: str) -> None:
    if achieved > delta:
        raise PublishedErratumError(
            f"{erratum}. At epsilon = {epsilon:g} the printed noise gives delta = "
            f"{achieved:.2g}, not {delta:.2g}."
        )


def _require_private_gaussian(
    mu: float, epsilon: float, delta: float, erratum: str, allowed: bool
) -> None:
    """Raise unless Gaussian noise of sensitivity ratio `mu` is (epsilon, delta)-private."""
    if not allowed:
        _require_private(GaussianProfile(mu).delta(epsilon), epsilon, delta, erratum)


def _require_private_sketch(
    rows: int, regulariser: float, epsilon: float, delta: float, theorem: str, allowed: bool
) -> None:
    """Raise unless the sketch with w² = `regulariser` B² is (epsilon, delta)-private.

    Theorem B.4 has no larger a regulariser for epsilon <= ln(4/delta): nothing to check.
    """
    if not allowed and epsilon > math.log(4 / delta):
        _require_private(
            SketchProfile(rows, 1 / regulariser).delta(epsilon),
            epsilon,
            delta,
            f"Sheffet, Theorem {theorem}: false for an epsilon this large and this many rows",
        )
