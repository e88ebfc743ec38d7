"""What the second-moment paper promises of its estimators, before any budget is spent.

One function per statement, named after it.  Where a proof leaves a constant
unspecified it is an argument, 1 by default; the bounds then show how errors
scale, not how large they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    _positive(accuracy=accuracy, constant=constant)
    _within(failure, 0.5)
    if n_columns < 2:
        raise ValueError(f"n_columns must be at least 2, not {n_columns}")
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
    _positive(accuracy=accuracy)
    _not_negative(regulariser=regulariser, smallest_eigenvalue=smallest_eigenvalue)
    _not_negative(residual=residual)
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
    _not_negative(coef_norm=coef_norm)
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
    _not_negative(private_coef_norm=private_coef_norm)
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
    _positive(smallest_eigenvalue=smallest_eigenvalue, scale=scale, dof=dof)
    _not_negative(coef_norm=coef_norm)
    _within(failure, 1.0)
    _features(n_features)
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
    _positive(smallest_eigenvalue=smallest_eigenvalue, noise_std=noise_std)
    _within(failure, 1 / math.e)
    _features(n_features)
    if not constant >= 1:
        raise ValueError(f"constant must be at least 1, not {constant}")
    return smallest_eigenvalue / (2 * noise_std * math.sqrt(n_features) * math.log(1 / failure))


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be positive and finite, not {value}")


def _not_negative(**values: float) -> None:
    for name, value in values.items():
        if not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be finite and not negative, not {value}")


def _within(failure: float, limit: float) -> None:
    if not 0 < failure < limit:
        raise ValueError(f"failure must lie in (0, {limit:.4g}), not {failure}")


def _features(n_features: int) -> None:
    if n_features < 1:
        raise ValueError(f"n_features must be at least 1, not {n_features}")
