"""What the second-moment paper promises of its estimators, before any budget is spent.

One function per statement, named after it.  Where a proof leaves a constant
unspecified it is an argument, 1 by default; the bounds then show how errors
scale, not how large they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privgram._checks import (
    check_integer,
    check_not_negative,
    check_positive,
    check_within,
)

__all__ = [
    "sheffet_corollary_c_2",
    "sheffet_theorem_3_2",
    "sheffet_theorem_3_2_rows",
    "sheffet_theorem_c_1",
    "sheffet_theorem_c_3",
]


def sheffet_theorem_3_2_rows(
    n_columns: int, accuracy: float, failure: float, constant: float = 1.0
) -> int:
    """Rows of a sketch for a given accuracy: r = C d ln(d) ln(1/nu) / eta^2.

    Parameters
    ----------
    n_columns : int
        d, at least 2.
    accuracy : float
        eta > 0.
    failure : float
        Probability nu of failure, in (0, 1/2).
    constant : float
        The theorem's unspecified factor.

    Returns
    -------
    int

    References
    ----------
    Sheffet 2019, Theorem 3.2 (after Sarlos 2006, Theorem 12).
    """
    accuracy = check_positive(accuracy, "accuracy")
    constant = check_positive(constant, "constant")
    failure = check_within(failure, "failure", 0, 0.5)
    n_columns = check_integer(n_columns, "n_columns", 2)
    return math.ceil(
        constant * n_columns * math.log(n_columns) * math.log(1 / failure) / accuracy**2
    )


def sheffet_theorem_3_2(
    accuracy: float, regulariser: float, smallest_eigenvalue: float, residual: float
) -> float:
    """Error of the sketched ridge estimate: eta f / sqrt(w^2 + lambda_min).

    Parameters
    ----------
    accuracy : float
        eta > 0, which the number of rows buys (`sheffet_theorem_3_2_rows`).
    regulariser : float
        w^2 >= 0.
    smallest_eigenvalue : float
        Of the second moment, >= 0.
    residual : float
        f, the ridge objective at its minimum.  The paper writes the squared
        objective; the bound is in the units of a coefficient only with its
        square root, the norm of the residual, which is what to pass here.

    Returns
    -------
    float
        Bound on the L2 distance between the sketched and the exact ridge estimate.

    References
    ----------
    Sheffet 2019, Theorem 3.2.
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


def sheffet_theorem_c_1(
    coef_norm: float,
    smallest_eigenvalue: float,
    noise_std: float,
    n_features: int,
    failure: float,
    constant: float = 1.0,
) -> GaussianBound:
    """Error of least squares under Gaussian noise: 2 eta ||beta|| + eta / C.

    Parameters
    ----------
    coef_norm : float
        L2 norm of the exact estimate.
    smallest_eigenvalue : float
        Of the features' second moment.
    noise_std : float
        Standard deviation sigma of the noise's entries.
    n_features : int
        p.
    failure : float
        Probability nu of failure, in (0, 1/e).
    constant : float
        C >= 1.

    Returns
    -------
    GaussianBound
        At the smallest eta the condition lambda_min >= 2 (C / eta) sigma sqrt(p)
        ln(1/nu) allows.

    Raises
    ------
    ValueError
        If that eta is not below 1: the theorem promises nothing.

    References
    ----------
    Sheffet 2019, Theorem C.1; with independent symmetric noise up to sqrt(2) more.
    """
    eta = constant / _signal(smallest_eigenvalue, noise_std, n_features, failure, constant)
    if not eta < 1:
        raise ValueError(
            "the smallest eigenvalue is too small for Theorem C.1 (eta would be "
            f"{eta:.3g}, not below 1): more rows, less noise or fewer features"
        )
    coef_norm = check_not_negative(coef_norm, "coef_norm")
    return GaussianBound(2 * eta * coef_norm + eta / constant, eta)


def sheffet_corollary_c_2(
    private_coef_norm: float,
    private_smallest_eigenvalue: float,
    noise_std: float,
    n_features: int,
    failure: float,
    constant: float = 1.0,
) -> float:
    """The same error from the release alone: 2 C ||beta~|| / rho + 1 / rho.

    Parameters
    ----------
    private_coef_norm, private_smallest_eigenvalue : float
        Of the private estimate and the released matrix of the features.
    noise_std, n_features, failure, constant
        As in `sheffet_theorem_c_1`.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If rho = lambda_min / (2 sigma sqrt(p) ln(1/nu)) is below 2 C.

    References
    ----------
    Sheffet 2019, Corollary C.2.
    """
    rho = _signal(private_smallest_eigenvalue, noise_std, n_features, failure, constant)
    if not rho >= 2 * constant:
        raise ValueError(
            f"Corollary C.2 needs rho >= {2 * constant:g}, and the release has {rho:.3g}"
        )
    private_coef_norm = check_not_negative(private_coef_norm, "private_coef_norm")
    return (2 * constant * private_coef_norm + 1) / rho


def sheffet_theorem_c_3(
    coef_norm: float,
    smallest_eigenvalue: float,
    scale: float,
    dof: float,
    n_features: int,
    failure: float,
) -> float:
    """Error of least squares under additive Wishart noise, not debiased.

    Parameters
    ----------
    coef_norm : float
        L2 norm of the exact estimate.
    smallest_eigenvalue : float
        Of the features' second moment.
    scale : float
        sigma^2 of the noise W(sigma^2 I, k).
    dof : float
        k.
    n_features : int
        p.
    failure : float
        Probability nu of failure, in (0, 1).

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the eigenvalue is below twice sigma^2 (sqrt(k) + sqrt(p) + sqrt(2 ln(4/nu)))^2.

    References
    ----------
    Sheffet 2019, Theorem C.3.
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
    return (
        coef_norm / (c - 1) + (c - 2) / (c - 1) * scale * min(entrywise, norm) / smallest_eigenvalue
    )


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
