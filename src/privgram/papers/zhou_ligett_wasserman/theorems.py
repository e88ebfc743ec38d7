"""Statements about compressed tables Phi A, of m rows. The parameters are

rows : int
    Compressed rows m.
n_rows, n_columns : int
    Rows n and columns p of the data.
delta_max : float
    Bound on the entries of the differences of the covariances (equation 5), not negative.

`privgram.papers` has the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.numbers import check_integer, check_not_negative, check_positive, check_within
from privgram.papers._shared import check_count
from privgram.papers.sheffet.profiles import SketchProfile
from privgram.privacy._numerics import Array
from privgram.privacy.profiles import Profile, check_parameter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

__all__ = [
    "equation_5",
    "lemma_4_5",
    "lemma_b_1",
    "procedure_4_1",
    "proposition_3_4",
    "theorem_4_6",
]


def proposition_3_4(eigenvalues: ArrayLike, n_components: int, difference: float) -> float:
    r"""Bound on how far a covariance's change turns its leading eigenvectors.

    .. math:: \|P^D(A) - P^D(A + B)\|_F \le \|B\|_F / \delta_D, \qquad
              \delta_D = (\lambda_D - \lambda_{D+1}) / 2

    The proposition is Zwald and Blanchard's (2005).

    Parameters
    ----------
    eigenvalues : array_like of shape (p,)
        Of A, in any order.
    n_components : int
        D, from 1 to p - 1.
    difference : float
        ||B||_F.

    Returns
    -------
    float
        Infinite where the proposition needs ||B||_F <= delta_D / 2 and it is not.
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1]
    n_components = check_integer(n_components, "n_components", 1, len(values) - 1)
    difference = check_not_negative(difference, "difference")
    gap = float(values[n_components - 1] - values[n_components]) / 2
    return difference / gap if difference <= gap / 2 and gap > 0 else math.inf


def equation_5(covariances: Iterable[ArrayLike], truth: ArrayLike) -> float:
    r"""Spread of a set of databases around their true covariance.

    .. math:: \Delta_{\max} = 2 \sup_j \max_{l,k} |\Sigma_j(l,k) - \Sigma^*(l,k)|

    Parameters
    ----------
    covariances : iterable of array-like of shape (p, p)
        Normalised covariances of the databases in the set.
    truth : array-like of shape (p, p)
        The covariance they are samples of.

    Raises
    ------
    ValueError
        If there is none, or they are not finite and of one shape.
    """
    exact, *others = (np.asarray(one, dtype=np.float64) for one in (truth, *covariances))
    fit = all(one.shape == exact.shape and np.isfinite(one).all() for one in (exact, *others))
    if not others or not fit or exact.ndim != 2 or exact.size == 0:
        raise ValueError(
            "the covariances, of which there is one or more, and the truth must be "
            "finite and of one shape (p, p)"
        )
    return 2 * max(float(np.abs(one - exact).max()) for one in others)


def lemma_4_5(n_rows: int, n_columns: int, failure: float = 1e-6) -> float:
    r"""Delta_max of Gaussian tables, with its constants.

    .. math:: 2\, \frac{\xi + b^2 / (4 \xi)}{1 - \eta}, \quad b = \frac{\eta^2}{2 (1 - \eta)}, \quad
              \xi = \sqrt{\tfrac{2t}{n}} + \tfrac tn, \quad \eta = 2 \sqrt{\tfrac tn} + \tfrac{2t}n,
              \quad t = \ln \frac{p (p + 1)}{\nu}

    The lemma says :math:`O_P(\sqrt{\ln p / n})`; this is proved in docs/theory/compression.md.
    `failure` is the probability that a table whose rows are independent draws of some
    N(0, Sigma*), its columns normalised, is further from Sigma* (normalised) than half of this in
    some entry. For N tables divide it by N.

    Returns
    -------
    float
        At most 4, which no tables exceed.
    """
    n_rows = check_integer(n_rows, "n_rows", 1)
    n_columns = check_integer(n_columns, "n_columns", 1)
    failure = check_within(failure, "failure", 0, 1)
    if n_columns == 1:
        return 0.0  # normalised, there is nothing to vary
    share = math.log(n_columns * (n_columns + 1) / failure) / n_rows
    apart, on = math.sqrt(2 * share) + share, 2 * math.sqrt(share) + 2 * share
    if on >= 1:
        return 4.0
    bend = on**2 / (2 * (1 - on))
    return min(4.0, 2 * (apart + bend**2 / (4 * apart)) / (1 - on))


def procedure_4_1(rows: int, n_rows: int, n_columns: int, delta_max: float) -> float:
    r"""Largest deviation from the reference that a compressed table may show (equation 12).

    .. math:: C \sqrt{\ln(2np)/m} + \Delta_{\max}, \qquad C = \sqrt{2 (C_1 + C_2)}, \qquad
              m \ge 2 (C_1 + C_2) \ln(2np)

    A draw of which an entry of its second moment over m is further than this from the reference
    is thrown away. The condition on m is Lemma 4.4's.

    Returns
    -------
    float
        The threshold, in units of the normalised covariance.
    """
    m, n = check_integer(rows, "rows", 1), check_integer(n_rows, "n_rows", 1)
    p = check_integer(n_columns, "n_columns", 1)
    needed = 2 * sum(lemma_b_1()) * math.log(2 * n * p)
    if m < needed:
        raise ValueError(
            f"Lemma 4.4 needs rows >= 2 (C1 + C2) ln(2 n p) = {needed:.4g}, not {rows}"
        )
    return deviation(m, n, p) + check_not_negative(delta_max, "delta_max")


def deviation(m: int, n: int, p: int) -> float:
    """C sqrt(ln(2np) / m) of Procedure 4.1, whether or not Lemma 4.4 holds for so few rows."""
    return math.sqrt(2 * sum(lemma_b_1()) * math.log(2 * n * p) / m)


def theorem_4_6(
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

    The o(1) term is left out: the paper does not state it. This is a statement about the
    databases of a given set, not (epsilon, delta)-differential privacy.

    Parameters
    ----------
    difference : float
        Frobenius norm of the difference of the two covariances.
    lambda_min, lambda_min_reference : float
        Least eigenvalues of the covariance and of the reference, positive.
    norm_reference : float
        Spectral norm of the reference, positive.

    Returns
    -------
    float
        alpha without its o(1) term.
    """
    threshold = procedure_4_1(rows, n_rows, n_columns, delta_max)
    eigenvalues = check_positive(lambda_min, "lambda_min")
    eigenvalues *= check_positive(lambda_min_reference, "lambda_min_reference")
    difference = check_not_negative(difference, "difference")
    norm_squared = check_positive(norm_reference, "norm_reference") ** 2
    second_order = 2 * difference * norm_squared / (n_columns * eigenvalues)
    return rows * n_columns * difference / (2 * eigenvalues) * (threshold + second_order)


def lemma_b_1() -> tuple[float, float]:
    r"""Constants of the tail bound on inner products of compressed columns.

    Returns
    -------
    c1, c2 : float
        :math:`C_1 = 4e/\sqrt{6\pi} \approx 2.5044` and
        :math:`C_2 = \sqrt8\,e \approx 7.6885`. The paper prints :math:`\sqrt{8e}`, which is
        4.6633, beside the value 7.6885; the value is the one it uses.
    """
    return 4 * math.e / math.sqrt(6 * math.pi), math.sqrt(8) * math.e


# A sketch of which some draws are thrown away. Draws are made until one falls outside of a public
# set E of outputs, N times at most; then it is said that none did. With beta a bound on the chance
# of E under every table considered,
#
#     \delta'(\epsilon) \le \frac{\delta(\epsilon + \ln(1 - \beta))}{1 - \beta} + \beta^N,
#
# delta the profile of a draw: proved in docs/theory/compression.md.


@dataclass(frozen=True)
class TruncatedSketchProfile(Profile):
    """Upper bound on the profile of a sketch that is drawn anew while it falls in a public set.

    Under "replace". Made by `Compressed.profile`.

    Parameters
    ----------
    rows : float
        Rows r >= 1 of the sketch.
    ratio : float
        B^2 / w^2 > 0, w^2 the least eigenvalue of the tables' second moments.
    discarded : float
        beta in [0, 1): no table considered has a draw thrown away more often.
    draws : int
        N >= 1: draws before giving up.
    condition : str
        The promise about the tables that all this rests on, and which nothing enforces.
    """

    _proof_status = "upper bound"

    rows: float
    ratio: float
    discarded: float
    draws: int
    condition: str

    def __post_init__(self) -> None:
        check_count(self.rows, "rows")
        check_parameter(self.ratio, "ratio")
        if check_not_negative(self.discarded, "discarded") >= 1:
            raise ValueError(f"discarded must lie in [0, 1), not {self.discarded!r}")
        check_integer(self.draws, "draws", 1)

    def _delta(self, epsilon: Array) -> Array:
        log_kept = math.log1p(-self.discarded)
        drawn = SketchProfile(self.rows, self.ratio)._curve(
            np.nextafter(epsilon + log_kept, -np.inf) if self.discarded else epsilon
        )
        bound: Array = drawn * math.exp(-log_kept) + self._floor()
        return np.minimum(bound, 1.0)

    def _floor(self) -> float:
        return float(self.discarded) ** self.draws
