"""Gaussian noise on the inverse of the second moment (Sheffet's Theorem B.5, corrected)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from privgram._base.checks import check_positive
from privgram.mechanisms._base import Calibration, Mechanism, Request
from privgram.noise import InverseGaussianLaw

if TYPE_CHECKING:
    pass

#: The inverse is rounded so finely that its sensitivity grows by 2^-SENSITIVITY_BITS at most.
SENSITIVITY_BITS = 20


@dataclass(frozen=True)
class InverseGaussCalibration(Calibration):
    """Noise on the inverse of the second moment.

    Attributes
    ----------
    rho : float
        The eigenvalue floor is (1 + rho) B^2.
    sensitivity : float
        Of the inverse in Frobenius norm, in its units.
    sigma : float
        Standard deviation on the diagonal, in units of the inverse; sigma/sqrt(2) off it.
    """

    rho: float
    sensitivity: float
    sigma: float

    @property
    def law(self) -> InverseGaussianLaw:
        """The inverse of G^{-1} plus symmetric Gaussian noise."""
        return InverseGaussianLaw(self.sigma / math.sqrt(2.0), self.sigma)


@dataclass(frozen=True)
class InverseGauss(Mechanism):
    """Inverse of the second moment plus symmetric Gaussian noise, inverted back.

    For data of which it is public that every eigenvalue of the second moment exceeds
    a floor well above B^2: the inverse then hardly depends on a row.

    Parameters
    ----------
    eigenvalue_floor : float
        Public lower bound on the smallest eigenvalue of the second moment of every
        table considered, in its units; above B^2.

    Notes
    -----
    With floor = (1 + rho) B^2 the inverse moves by at most 1 / (B^2 rho (1 + rho)) in
    Frobenius norm when a row is added or removed and by sqrt(2) times that when one
    is replaced; both are attained.  The printed theorem has 1 / rho there, which is
    right in no units (docs/theory/errata.md).

    The floor is a promise that nothing enforces.  The guarantee holds for tables that
    keep it, and the release says so (`release.condition`).

    The released matrix is an inverse of a noisy matrix: neither unbiased nor always
    positive definite.

    References
    ----------
    .. [1] Sheffet, "Old techniques in differentially private linear regression",
       ALT 2019, Theorem B.5.
    """

    eigenvalue_floor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.eigenvalue_floor, "eigenvalue_floor")

    @property
    def condition(self) -> str:
        """The promise of the eigenvalue floor."""
        return (
            "every table considered has a second moment whose eigenvalues are "
            f"at least {self.eigenvalue_floor:.12g}"
        )

    @property
    def scale_free(self) -> bool:
        """False: the floor is a length of its own."""
        return False

    def _rho(self, request: Request) -> float:
        rho = self.eigenvalue_floor / request.bound**2 - 1
        if rho <= 0:
            raise ValueError(
                f"eigenvalue_floor={self.eigenvalue_floor:g} must exceed the squared bound of "
                f"a row, {request.bound**2:g}"
            )
        return rho

    def _exact(self, request: Request) -> InverseGaussCalibration:
        from privgram import privacy

        ratio = privacy.calibration.gaussian_ratio(request.epsilon, request.delta)
        return self._record(request, ratio, None)

    def _published(self, request: Request, allow_erratum: bool) -> InverseGaussCalibration:
        from privgram.papers import sheffet

        sigma = sheffet.theorem_b_5(
            self._rho(request),
            request.bound,
            request.epsilon,
            request.delta,
            request.adjacency,
            allow_published_erratum=allow_erratum,
        )
        return self._record(request, None, sigma)

    def _record(
        self, request: Request, ratio: float | None, sigma: float | None
    ) -> InverseGaussCalibration:
        from privgram import privacy

        rho = self._rho(request)
        distance = (1 + 2.0**-SENSITIVITY_BITS) / (request.bound**2 * rho * (1 + rho))
        if request.adjacency == "replace" and request.n_columns > 1:
            distance *= math.sqrt(2.0)
        if sigma is None:
            assert ratio is not None
            sigma = distance / ratio
        return InverseGaussCalibration(
            **vars(request),
            privacy=privacy.GaussianProfile(distance / sigma, request.adjacency),
            # To first order, where the second moment is at its floor.
            noise_std=sigma / math.sqrt(2.0) * self.eigenvalue_floor**2,
            bias=0.0,
            rho=rho,
            sensitivity=distance,
            sigma=sigma,
        )
