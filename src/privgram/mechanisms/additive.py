"""Mechanisms that add noise: Analyze Gauss, matrix Laplace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, ClassVar, Literal

from privgram import privacy
from privgram._base.numbers import check_integer, check_one_of
from privgram.mechanisms._base import Calibration, Mechanism, Request, sensitivity
from privgram.noise import GaussianLaw, MatrixLaplaceLaw

if TYPE_CHECKING:
    from privgram.mechanisms._base import OfUnits
    from privgram.privacy import Profile

#: Least ratio of sensitivity to noise: integers of 128 bits have room for the noise of one more
#: than this, with a share of the budget and on a finer lattice.
LEAST_RATIO = 2.0**-37

NOISES = ("symmetric", "triangular")
REPAIRS = ("none", "shift", "project", "feasible")


@dataclass(frozen=True)
class GaussCalibration(Calibration):
    """Noise of Analyze Gauss.

    `sigma` is the standard deviation on the diagonal; the sensitivity in Frobenius norm is
    sigma times the profile's ratio.
    """

    sigma: float
    noise_std_diagonal: float

    @property
    def law(self) -> GaussianLaw:
        """G plus symmetric Gaussian noise."""
        return GaussianLaw(self.noise_std, self.noise_std_diagonal)


@dataclass(frozen=True)
class AnalyzeGauss(Mechanism):
    """Second moment plus symmetric Gaussian noise.

    Parameters
    ----------
    noise : {"symmetric", "triangular"}
        "symmetric": isotropic in the Frobenius inner product, standard deviation
        sigma on the diagonal and sigma/sqrt(2) off it.  "triangular": the
        papers' independent upper triangle of standard deviation sigma
        throughout.  Both have the same privacy profile, so the second only adds
        noise; it is here for comparison.
    repair : {"none", "shift", "project", "feasible"}
        What becomes of a released matrix that is not positive definite:
        nothing; E||N|| I added, as in [2]_; its negative eigenvalues set to
        zero; or, "feasible", the nearest second moment that n rows of the bound can have,
        whose trace is at most n B^2 where n is public (then there is no inference, see
        docs/theory/analyze-gauss.md).  All are post-processing.

    Notes
    -----
    Replacing a row moves the second moment by at most sqrt(2) B^2 in Frobenius
    norm, adding or removing one by B^2; both are attained.  The guarantee is
    that of the Gaussian mechanism, calibrated exactly [3]_.  The noise is the
    discrete Gaussian [4]_ on integers that the second moment consists of, drawn
    exactly, so that the guarantee holds of the program: nothing rests on the
    accuracy of floats.  It is larger than the continuous one by 2e-9, which pays
    for the difference of the two laws (docs/theory/analyze-gauss.md).

    References
    ----------
    .. [1] Dwork, Talwar, Thakurta, Zhang, "Analyze Gauss", STOC 2014.
    .. [2] Sheffet, "Old techniques in differentially private linear regression",
       ALT 2019, section 2.
    .. [3] Balle, Wang, "Improving the Gaussian mechanism for differential
       privacy", ICML 2018, Theorem 8.
    .. [4] Canonne, Kamath, Steinke, "The discrete Gaussian for differential
       privacy", NeurIPS 2020.
    """

    noise: Literal["symmetric", "triangular"] = "symmetric"
    repair: Literal["none", "shift", "project", "feasible"] = "none"

    of_groups: ClassVar[bool] = True

    of_units: ClassVar[OfUnits] = frozenset(
        product(("frobenius", "trace"), ("add-remove", "replace"))
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(self.noise, "noise", NOISES)
        check_one_of(self.repair, "repair", REPAIRS)

    def _calibrated(self, request: Request) -> GaussCalibration:
        ratio = privacy.calibration.gaussian_ratio(request.epsilon, request.delta)
        profile = privacy.GaussianProfile(ratio, request.adjacency)
        return self._record(request, self._sensitivity(request) / ratio, profile)

    @staticmethod
    def _sensitivity(request: Request) -> float:
        return sensitivity(request.bound, request.n_columns, request.adjacency)

    def _record(self, request: Request, sigma: float, profile: Profile) -> GaussCalibration:
        if self._sensitivity(request) < LEAST_RATIO * sigma:
            raise ValueError(
                "the noise is too large for any useful release: epsilon or delta must be larger"
            )
        return GaussCalibration(
            **vars(request),
            privacy=profile,
            noise_std=sigma if self.noise == "triangular" else sigma / math.sqrt(2.0),
            bias=0.0,
            sigma=sigma,
            noise_std_diagonal=sigma,
        )


@dataclass(frozen=True)
class MatrixLaplaceCalibration(Calibration):
    """Noise scale (W1 - W2), W1 and W2 independent Wishart matrices W_d(I, dof)."""

    dof: int  # degrees of freedom k of either
    scale: float  # s, in the units of the second moment

    @property
    def law(self) -> MatrixLaplaceLaw:
        """G plus matrix Laplace noise."""
        return MatrixLaplaceLaw(self.scale, self.dof)


@dataclass(frozen=True)
class MatrixLaplace(Mechanism):
    """Second moment plus the difference of two Wishart matrices: delta may be 0.

    Parameters
    ----------
    dof : int, optional
        Degrees of freedom k of either matrix, at least d + 1. By default what leaves the least
        noise: d + 1 where delta is 0 or the columns are few, more otherwise.
    repair : {"none", "feasible"}
        As of `AnalyzeGauss`.

    Notes
    -----
    The noise is s (W1 - W2) with W1, W2 ~ W_d(I, k). With k = d + 1 it is (epsilon, 0)-private at
    epsilon = B^2 / s under replace and B^2 / (2 s) under add-remove, and at no smaller one. With
    one column it is B^2 / (2 s) under either, and for k = 2 the Laplace mechanism. Its second
    moments are those of symmetric Gaussian noise, of standard deviation s sqrt(2 k) off the
    diagonal and sqrt(2) times that on it; as k grows it becomes Gaussian. Proofs:
    docs/theory/matrix-laplace.md.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim, Smith, "Calibrating noise to sensitivity in private data
       analysis", TCC 2006: one column.
    """

    dof: int | None = None
    repair: Literal["none", "feasible"] = "none"

    pure: ClassVar[bool] = True

    of_groups: ClassVar[bool] = True

    of_units: ClassVar[OfUnits] = frozenset({("trace", "add-remove"), ("trace", "replace")})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dof is not None:
            check_integer(self.dof, "dof", 2)
        check_one_of(self.repair, "repair", ("none", "feasible"))

    def _calibrated(self, request: Request) -> MatrixLaplaceCalibration:
        budget = request.epsilon, request.delta, request.adjacency
        d, dof = request.n_columns, self.dof
        if dof is None:
            ratio, dof = privacy.calibration.matrix_laplace_noise(d, *budget)
        else:
            ratio = privacy.calibration.matrix_laplace_ratio(d, dof, *budget)
        scale = request.bound**2 / ratio
        return MatrixLaplaceCalibration(
            **vars(request),
            privacy=privacy.MatrixLaplaceProfile(dof, d, ratio, request.adjacency),
            noise_std=scale * math.sqrt(2.0 * dof),
            bias=0.0,
            dof=dof,
            scale=scale,
        )
