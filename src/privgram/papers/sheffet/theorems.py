r"""Sheffet's statements: the noise that each mechanism takes, then what it promises of estimates.

Shared parameters are documented in `privgram.papers`. Beside those,

rows : int
    Rows r >= 1 of a sketch (r0, the least number of them, in Algorithm 2).
dof : int
    Degrees of freedom of a Wishart law, at least 1: nu, k, or k0 in Algorithm 5.
n_columns : int, optional
    Where a privacy theorem takes it by keyword, its condition on d is checked if d is given;
    privacy does not need it.

Noise comes back in squared data units: a standard deviation of each entry on or above the
diagonal, or a regulariser w² (psi for the inverse Wishart).

The promises are bounds with 1 for the constants that the proofs leave open: they show how errors
scale, not how large they are. Their parameters are

coef_norm : float
    L2 norm of the exact estimate, not negative.
smallest_eigenvalue : float
    Of the features' second moment, positive.
noise_std : float
    Standard deviation sigma of the noise's entries, positive.
n_features : int
    p, at least 1.
constant : float
    What the theorem leaves open, C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privgram._base.numbers import (
    check_budget,
    check_integer,
    check_not_negative,
    check_number,
    check_positive,
    check_within,
)
from privgram.papers._shared import (
    largest_count,
    log_ratio,
    require_private,
    rows_factor,
    second_moment_sensitivity,
)
from privgram.papers.dwork_et_al import analyze_gauss
from privgram.papers.sheffet.profiles import SketchProfile
from privgram.privacy import Adjacency, GaussianProfile

__all__ = [
    "AdaptiveConstants",
    "GaussianBound",
    "algorithm_2",
    "algorithm_2_rows",
    "algorithm_5",
    "algorithm_5_dof",
    "analyze_gauss",
    "corollary_b_2",
    "corollary_c_2",
    "lemma_a_3",
    "section_2",
    "theorem_3_1",
    "theorem_3_2",
    "theorem_3_2_rows",
    "theorem_4_1",
    "theorem_5_1",
    "theorem_b_1",
    "theorem_b_3",
    "theorem_b_4",
    "theorem_b_5",
    "theorem_c_1",
    "theorem_c_3",
]

_BELOW = 1 / math.e
"""Most of the theorems are for delta < 1/e."""


# --- Noise -------------------------------------------------------------------------


def section_2(
    bound: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
    *,
    allow_published_erratum: bool = False,
) -> float:
    r"""Standard deviation of Analyze Gauss as section 2, "Differential Privacy", prints it.

    .. math:: \sigma^2 = 2 B^4 \ln(2/\delta) / \epsilon

    The epsilon is not squared there; `analyze_gauss` has the form that the paper uses in the
    proof of Theorem B.5.
    """
    check_budget(epsilon, delta)
    sigma = check_positive(bound, "bound") ** 2 * math.sqrt(2 * math.log(2 / delta) / epsilon)
    require_private(
        GaussianProfile(second_moment_sensitivity(bound, adjacency) / sigma),
        epsilon,
        delta,
        "Sheffet, section 2: the variance is printed with epsilon where epsilon^2 is meant",
        allow_published_erratum,
    )
    return sigma


def theorem_3_1(
    rows: int,
    bound: float,
    epsilon: float,
    delta: float,
    *,
    n_columns: int | None = None,
    allow_published_erratum: bool = False,
) -> float:
    r"""Regulariser of the Gaussian sketch (Algorithm 1).

    .. math:: w^2 = 4 B^2 \bigl(\sqrt{2 r \ln(4/\delta)} + \ln(4/\delta)\bigr) / \epsilon,
              \qquad \delta < 1/e, \quad d < r

    It is false with many rows at an epsilon in the hundreds. Up to ln(4/delta) it follows from
    Theorem B.4.
    """
    r = _more_than_columns(rows, n_columns, "3.1")
    return _regulariser(r, bound, epsilon, delta, "3.1", allow_published_erratum)


def theorem_b_1(
    rows: int, bound: float, epsilon: float, delta: float, *, n_columns: int | None = None
) -> float:
    r"""Regulariser of the Gaussian sketch, the sharper form of Theorem 3.1.

    .. math:: w^2 = B^2 \Bigl(1 + \frac{1 + \epsilon / \ln(4/\delta)}{\epsilon}
              \bigl(2 \sqrt{2 r \ln(4/\delta)} + 2 \ln(4/\delta)\bigr)\Bigr),
              \qquad \delta < 1/2, \quad d < r
    """
    log = log_ratio(4, epsilon, delta, 1 / 2)
    r = _more_than_columns(rows, n_columns, "B.1")
    tails = 2 * math.sqrt(2 * r * log) + 2 * log
    return check_positive(bound, "bound") ** 2 * (1 + (1 + epsilon / log) / epsilon * tails)


def corollary_b_2(rows: int, bound: float, epsilon: float, delta: float) -> float:
    r"""Regulariser of the Gaussian sketch, the simplified form.

    .. math:: w^2 = 8 B^2 \sqrt{r \ln(4/\delta)} / \epsilon, \qquad \epsilon < 1, \quad
              \delta < 1/e, \quad r \ge 2 \ln(4/\delta)

    Its second half, the rows for a given w, prints ln(4/delta) squared and rounds up where the
    first half gives ln(4/delta) and rounding down; only the first half is here.
    """
    log = log_ratio(4, epsilon, delta, _BELOW, epsilon_below=1)
    r = check_integer(rows, "rows", 1)
    if r < 2 * log:
        raise ValueError(f"Corollary B.2 needs rows >= 2 ln(4/delta) = {2 * log:.4g}, not {rows}")
    return 8 * check_positive(bound, "bound") ** 2 * math.sqrt(r * log) / epsilon


@dataclass(frozen=True)
class AdaptiveConstants:
    """Constants of Algorithms 2 and 5 before the data are seen, in squared data units.

    Attributes
    ----------
    regulariser : float
        w² of Algorithm 2, psi of Algorithm 5.
    laplace_scale : float
        Of the noise Z on the least eigenvalue.
    shift : float
        tau, subtracted so that the noisy eigenvalue is a lower bound with high probability.
    """

    regulariser: float
    laplace_scale: float
    shift: float


def algorithm_2(rows: int, bound: float, epsilon: float, delta: float) -> AdaptiveConstants:
    r"""Constants of the adaptive sketch.

    .. math:: w^2 = \frac{8 B^2}{\epsilon}
              \bigl(\sqrt{2 r_0 \ln(8/\delta)} + \ln(8/\delta)\bigr), \quad
              \tau = \frac{2 B^2 \ln(2/\delta)}{\epsilon}, \quad
              Z \sim \mathrm{Lap}(2 B^2/\epsilon), \quad \delta < 1/e

    The algorithm forms :math:`s = \max(0, \lambda_{\min}(A^T A) - \tau + Z)` and sketches with
    :math:`w^2 - s` where that is positive; else without a regulariser and with
    `algorithm_2_rows` rows. Half of (epsilon, delta) goes to the eigenvalue and half to
    Theorem 3.1.

    The guarantee is **stated** by the paper, not proved here: the printed proof has a gap
    (docs/theory/errata.md), and that (epsilon, delta) holds all the same rests on numbers, on a
    grid of budgets and eigenvalues. The exact calibration is proved.
    """
    log = log_ratio(8, epsilon, delta, _BELOW)
    r = check_integer(rows, "rows", 1)
    b2 = check_positive(bound, "bound") ** 2
    return AdaptiveConstants(
        regulariser=8 * b2 * (math.sqrt(2 * r * log) + log) / epsilon,
        laplace_scale=2 * b2 / epsilon,
        shift=2 * b2 * math.log(2 / delta) / epsilon,
    )


def algorithm_2_rows(s: float, bound: float, epsilon: float, delta: float) -> int:
    r"""Rows r* that an eigenvalue bound s pays for without a regulariser.

    The largest integer r with

    .. math:: \frac{8 B^2}{\epsilon} \bigl(\sqrt{2 r \ln(8/\delta)} + \ln(8/\delta)\bigr)
              \le s, \qquad \delta < 1/e.

    Parameters
    ----------
    s : float
        Private lower bound on the least eigenvalue, in squared data units; ValueError where it
        does not pay for a single row.
    """
    log = log_ratio(8, epsilon, delta, _BELOW)
    room = check_number(s, "s") * epsilon / (8 * check_positive(bound, "bound") ** 2) - log
    if not math.isfinite(room):
        raise ValueError(f"s must be a finite number, not {s}")
    rows = math.floor(room * room / (2 * log)) if room > 0 else 0
    # The closed form may sit one off an integer boundary; the inequality decides.
    rows = largest_count(
        lambda r: algorithm_2(r, bound, epsilon, delta).regulariser <= s, rows, least=0
    )
    if rows < 1:
        raise ValueError("s is too small to pay for a single row without a regulariser")
    return rows


def theorem_4_1(n_columns: int, epsilon: float, delta: float) -> int:
    r"""Degrees of freedom of additive Wishart noise with scale B² I (Algorithm 3).

    .. math:: k = \Bigl\lfloor d + \frac{14}{\epsilon^2} \, 2 \ln(4/\delta) \Bigr\rfloor,
              \qquad \epsilon < 1, \quad \delta < 1/e

    The formula goes on to give a number for a larger epsilon, but not privacy: the floor
    P[chi2 < 1] of the noise does not fall with epsilon.
    """
    log = log_ratio(4, epsilon, delta, _BELOW, epsilon_below=1)
    return math.floor(check_integer(n_columns, "n_columns", 1) + 14 / epsilon**2 * 2 * log)


def theorem_b_3(n_columns: int, scale: float, bound: float, epsilon: float, delta: float) -> int:
    r"""Degrees of freedom of additive Wishart noise with any scale.

    With V at least `scale` times the identity, :math:`\nu = \lfloor d + 2 C_2
    \ln(4/\delta) \rfloor` where :math:`C_2` solves

    .. math:: \frac{2 \sqrt{C_2}}{C_1 (\sqrt{C_2} - 1)^2} = \frac{\epsilon}{B^2},
              \qquad C_1 = \text{scale}, \quad C_2 > 1, \quad \epsilon < 1, \quad \delta < 1/e.

    Theorem 4.1 is the instance :math:`C_1 = B^2`, with :math:`C_2` rounded up to
    :math:`14/\epsilon^2`.

    Parameters
    ----------
    scale : float
        Least eigenvalue of V, in squared data units.
    """
    log = log_ratio(4, epsilon, delta, _BELOW, epsilon_below=1)
    ratio = check_positive(bound, "bound") ** 2 / check_positive(scale, "scale")
    # sqrt(C2) - 2 + 1/sqrt(C2) = h, so sqrt(C2) + 1/sqrt(C2) = 2 + h with h = 2 ratio/epsilon.
    half = 1 + ratio / epsilon
    c2 = (half + math.sqrt(half * half - 1)) ** 2
    return math.floor(check_integer(n_columns, "n_columns", 1) + 2 * c2 * log)


def lemma_a_3(dof: int, n_columns: int, bound: float, delta: float) -> float:
    r"""Shift that may be taken off additive Wishart noise with scale B² I (section 4).

    .. math:: B^2 \bigl(\sqrt{k} - (\sqrt{d} + \sqrt{2 \ln(4/\delta)})\bigr)^2, \qquad
              \sqrt k > \sqrt d + \sqrt{2 \ln(4/\delta)}, \quad \delta < 1/e

    The noise exceeds this multiple of the identity except with probability delta/2.
    """
    root = math.sqrt(2 * log_ratio(4, 1.0, delta, _BELOW))
    d, k = check_integer(n_columns, "n_columns", 1), check_integer(dof, "dof", 1)
    gap = math.sqrt(k) - (math.sqrt(d) + root)
    if gap <= 0:
        raise ValueError(
            f"Lemma A.3 needs dof > (sqrt(n_columns) + sqrt(2 ln(4/delta)))^2 "
            f"= {(math.sqrt(d) + root) ** 2:.4g}, not {dof}"
        )
    return check_positive(bound, "bound") ** 2 * gap * gap


def theorem_5_1(
    dof: int,
    bound: float,
    epsilon: float,
    delta: float,
    *,
    n_columns: int | None = None,
    allow_published_erratum: bool = False,
) -> float:
    r"""Prior scale of the inverse Wishart (Algorithm 4, whose nu is n + d).

    .. math:: \psi = \frac{2 B^2}{\epsilon}
              \bigl(2 \sqrt{2 \nu \ln(4/\delta)} + 2 \ln(4/\delta)\bigr),
              \qquad \delta < 1/e, \quad \nu \ge d

    It is `theorem_3_1` in other letters, and fails where that does.
    """
    nu = _no_fewer_than_columns(dof, n_columns)
    return _regulariser(nu, bound, epsilon, delta, "5.1", allow_published_erratum)


def algorithm_5(dof: int, bound: float, epsilon: float, delta: float) -> AdaptiveConstants:
    r"""Constants of the adaptive inverse Wishart: those of `algorithm_2`, k0 for r0.

    As there, the guarantee is stated by the paper and not proved here.

    .. math:: \psi = \frac{4 B^2}{\epsilon}
              \bigl(2 \sqrt{2 k_0 \ln(8/\delta)} + 2 \ln(8/\delta)\bigr)
    """
    return algorithm_2(check_integer(dof, "dof", 1), bound, epsilon, delta)


algorithm_5_dof = algorithm_2_rows


def theorem_b_4(
    dof: int, bound: float, epsilon: float, delta: float, *, n_columns: int | None = None
) -> float:
    r"""Prior scale of the inverse Wishart, the sharper form of Theorem 5.1.

    .. math:: w^2 = \frac{B^2}{\epsilon \bigl(1 - \frac{\epsilon}{2 \ln(4/\delta)}\bigr)}
              \bigl(2 \sqrt{2 \nu \ln(4/\delta)} + 2 \ln(4/\delta)\bigr),
              \qquad \delta < 1/e, \quad \nu \ge d

    The theorem says only epsilon > 0, but its value is negative from 2 ln(4/delta) on.
    """
    log = log_ratio(4, epsilon, delta, _BELOW)
    if epsilon >= 2 * log:
        raise ValueError(
            f"Theorem B.4 is negative for epsilon >= 2 ln(4/delta) = {2 * log:.4g}, "
            f"got epsilon = {epsilon}"
        )
    nu = _no_fewer_than_columns(dof, n_columns)
    tails = 2 * math.sqrt(2 * nu * log) + 2 * log
    return check_positive(bound, "bound") ** 2 * tails / (epsilon * (1 - epsilon / (2 * log)))


def theorem_b_5(
    rho: float,
    bound: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
    *,
    allow_published_erratum: bool = False,
) -> float:
    r"""Standard deviation of Gaussian noise on the inverse of the second moment.

    .. math:: \sigma^2 = \frac{8 \ln(2/\delta)}{\rho^2 \epsilon^2}, \qquad
              \epsilon < 1, \quad \delta < 1/e

    for data of which it is public that :math:`\lambda_{\min}(A^T A) \ge (1+\rho) B^2`. The printed
    noise does not depend on B, though the inverse is in units of 1/B²; the check does.

    Parameters
    ----------
    rho : float
        Positive margin of the eigenvalue floor.

    Returns
    -------
    float
        In inverse squared data units.
    """
    log_ratio(2, epsilon, delta, _BELOW, epsilon_below=1)
    sigma = math.sqrt(8 * math.log(2 / delta)) / (check_positive(rho, "rho") * epsilon)
    one_row = 1 / (check_positive(bound, "bound") ** 2 * rho * (1 + rho))
    require_private(
        GaussianProfile(rows_factor(adjacency) * one_row / sigma),
        epsilon,
        delta,
        "Sheffet, Theorem B.5: the sensitivity of the inverse lost its factor 1/B^2",
        allow_published_erratum,
    )
    return sigma


def _regulariser(
    rows: int, bound: float, epsilon: float, delta: float, theorem: str, allowed: bool
) -> float:
    """The regulariser of Theorems 3.1 and 5.1; raise where a sketch with it is not private."""
    log = log_ratio(4, epsilon, delta, _BELOW)
    check_positive(bound, "bound")
    w_squared = 4 * (math.sqrt(2 * rows * log) + log) / epsilon
    if epsilon > log:  # up to there Theorem B.4 has no larger a regulariser
        erratum = f"Sheffet, Theorem {theorem}: false for an epsilon this large and this many rows"
        require_private(SketchProfile(rows, 1 / w_squared), epsilon, delta, erratum, allowed)
    return w_squared * bound**2


def _more_than_columns(rows: int, n_columns: int | None, theorem: str) -> int:
    r = check_integer(rows, "rows", 1)
    if n_columns is not None and r <= check_integer(n_columns, "n_columns", 1):
        raise ValueError(f"Theorem {theorem} needs n_columns < rows, not {n_columns} and {rows}")
    return r


def _no_fewer_than_columns(dof: int, n_columns: int | None) -> int:
    least = 1 if n_columns is None else check_integer(n_columns, "n_columns", 1)
    return check_integer(dof, "dof", least)


# --- Promises ----------------------------------------------------------------------


def theorem_3_2_rows(n_columns: int, accuracy: float, failure: float, constant: float = 1.0) -> int:
    r"""Rows of a sketch for a given accuracy, after Sarlos (2006), Theorem 12.

    .. math:: r = C d \ln(d) \ln(1/\nu) / \eta^2, \qquad d \ge 2, \quad \nu < 1/2

    Parameters
    ----------
    n_columns : int
        d >= 2.
    accuracy : float
        eta > 0.
    failure : float
        nu, the chance that the accuracy is missed, below 1/2.
    constant : float
        C, which the theorem leaves open.
    """
    accuracy = check_positive(accuracy, "accuracy")
    constant = check_positive(constant, "constant")
    failure = check_within(failure, "failure", 0, 0.5)
    n_columns = check_integer(n_columns, "n_columns", 2)
    return math.ceil(
        constant * n_columns * math.log(n_columns) * math.log(1 / failure) / accuracy**2
    )


def theorem_3_2(
    accuracy: float, regulariser: float, smallest_eigenvalue: float, residual: float
) -> float:
    r"""L2 distance between the sketched and the exact ridge estimate.

    .. math:: \eta f / \sqrt{w^2 + \lambda_{\min}}

    Parameters
    ----------
    accuracy : float
        eta > 0, which the number of rows buys (`theorem_3_2_rows`).
    regulariser : float
        w² >= 0.
    smallest_eigenvalue : float
        Not negative; its sum with w² must be positive.
    residual : float
        f, the square root of the ridge objective at its minimum. The paper writes the squared
        objective; the bound is in the units of a coefficient only with its square root.
    """
    accuracy = check_positive(accuracy, "accuracy")
    regulariser = check_not_negative(regulariser, "regulariser")
    smallest_eigenvalue = check_not_negative(smallest_eigenvalue, "smallest_eigenvalue")
    residual = check_not_negative(residual, "residual")
    total = regulariser + smallest_eigenvalue
    if total == 0:
        raise ValueError("w^2 + lambda_min must be positive: the estimate is not determined")
    return accuracy / math.sqrt(total) * residual


@dataclass(frozen=True)
class GaussianBound:
    """Error bound of Theorem C.1.

    Attributes
    ----------
    error : float
        Bound on the L2 distance between the private and the exact estimate.
    accuracy : float
        The eta at which the theorem's condition on the eigenvalue is tight.
    """

    error: float
    accuracy: float


def theorem_c_1(
    coef_norm: float,
    smallest_eigenvalue: float,
    noise_std: float,
    n_features: int,
    failure: float,
    constant: float = 1.0,
) -> GaussianBound:
    r"""Error of least squares under Gaussian noise.

    .. math:: 2 \eta \|\beta\| + \eta / C, \qquad
              \lambda_{\min} \ge (2C/\eta) \sigma \sqrt p \ln(1/\nu), \quad \nu < 1/e, \quad C \ge 1

    With independent symmetric noise it is up to sqrt(2) more.

    Parameters
    ----------
    coef_norm : float
        L2 norm of the estimate without noise.
    smallest_eigenvalue : float
        Of the second moment of the features.
    noise_std : float
        sigma.
    n_features : int
        p.
    failure : float
        nu, the chance that the error is larger, below 1/e.
    constant : float
        C >= 1, which the theorem leaves open.

    Returns
    -------
    GaussianBound
        At the smallest eta that the condition allows; ValueError if that is not below 1, where
        the theorem promises nothing.
    """
    eta = constant / _signal(smallest_eigenvalue, noise_std, n_features, failure, constant)
    if not eta < 1:
        raise ValueError(
            "the smallest eigenvalue is too small for Theorem C.1 (eta would be "
            f"{eta:.3g}, not below 1): more rows, less noise or fewer features"
        )
    coef_norm = check_not_negative(coef_norm, "coef_norm")
    return GaussianBound(2 * eta * coef_norm + eta / constant, eta)


def corollary_c_2(
    private_coef_norm: float,
    private_smallest_eigenvalue: float,
    noise_std: float,
    n_features: int,
    failure: float,
    constant: float = 1.0,
) -> float:
    r"""Error of least squares under Gaussian noise, from the release alone.

    .. math:: (2 C \|\tilde\beta\| + 1) / \rho, \qquad
              \rho = \tilde\lambda_{\min} / (2 \sigma \sqrt p \ln(1/\nu)) \ge 2C

    Parameters
    ----------
    private_coef_norm, private_smallest_eigenvalue : float
        Of the private estimate and the released matrix of the features.
    noise_std, n_features, failure, constant : float
        As of `theorem_c_1`.
    """
    rho = _signal(private_smallest_eigenvalue, noise_std, n_features, failure, constant)
    if not rho >= 2 * constant:
        raise ValueError(
            f"Corollary C.2 needs rho >= {2 * constant:g}, and the release has {rho:.3g}"
        )
    private_coef_norm = check_not_negative(private_coef_norm, "private_coef_norm")
    return (2 * constant * private_coef_norm + 1) / rho


def theorem_c_3(
    coef_norm: float,
    smallest_eigenvalue: float,
    scale: float,
    dof: float,
    n_features: int,
    failure: float,
) -> float:
    r"""Error of least squares under additive Wishart noise W(sigma² I, k), not debiased.

    .. math:: \frac{\|\beta\|}{C - 1} + \frac{\sigma^2}{\lambda_{\min}}
              \min\Bigl(2 \sqrt{2 k p \ln(4p/\nu)}, \frac{\lambda_{\min}}{C \sigma^2}\Bigr),
              \qquad C = \frac{\lambda_{\min}}{\sigma^2 (\sqrt k + \sqrt p
              + \sqrt{2 \ln(4/\nu)})^2} \ge 2

    The second term is printed times (C - 2) / (C - 1), by which an estimate of 0 has no error at
    C = 2: noise shrinks the inverse of the second moment by no such factor (docs/theory/errata.md).

    Parameters
    ----------
    scale, dof : float
        sigma² and k.
    coef_norm, smallest_eigenvalue, n_features, failure : float
        As of `theorem_c_1`.
    """
    smallest_eigenvalue = check_positive(smallest_eigenvalue, "smallest_eigenvalue")
    scale = check_positive(scale, "scale")
    dof = check_positive(dof, "dof")
    coef_norm = check_not_negative(coef_norm, "coef_norm")
    failure = check_within(failure, "failure", 0, 1.0)
    n_features = check_integer(n_features, "n_features", 1)
    norm = (math.sqrt(dof) + math.sqrt(n_features) + math.sqrt(2 * math.log(4 / failure))) ** 2
    c = smallest_eigenvalue / (scale * norm)
    if not c >= 2:
        raise ValueError(
            f"Theorem C.3 needs the smallest eigenvalue to be {2 * scale * norm:.3g} or more"
        )
    entrywise = 2 * math.sqrt(2 * dof * n_features * math.log(4 * n_features / failure))
    return coef_norm / (c - 1) + scale * min(entrywise, norm) / smallest_eigenvalue


def _signal(
    smallest_eigenvalue: float, noise_std: float, n_features: int, failure: float, constant: float
) -> float:
    """Rho = lambda_min / (2 sigma sqrt(p) ln(1/nu))."""
    smallest_eigenvalue = check_positive(smallest_eigenvalue, "smallest_eigenvalue")
    noise_std = check_positive(noise_std, "noise_std")
    failure = check_within(failure, "failure", 0, 1 / math.e)
    n_features = check_integer(n_features, "n_features", 1)
    if not check_positive(constant, "constant") >= 1:
        raise ValueError(f"constant must be at least 1, not {constant}")
    return smallest_eigenvalue / (2 * noise_std * math.sqrt(n_features) * math.log(1 / failure))
