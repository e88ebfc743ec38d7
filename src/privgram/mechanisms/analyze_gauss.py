"""Analyze Gauss: the second moment plus symmetric Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, ClassVar, Literal

from privgram.mechanisms._base import Calibration, Mechanism, Request, sensitivity
from privgram.noise import GaussianLaw

if TYPE_CHECKING:
    from privgram.columns.unit import Clip
    from privgram.privacy import Adjacency, Profile


#: The squared bound of a row in units of the second moment.
STEPS = 2.0**40

#: Largest deviation of discrete noise, in those units: 64 bits leave 32 deviations of room.
MAX_STD = 2.0**58

#: Multiples of the norm's deviation in each shift.
SIDES = {"shift": 0.0, "shift-upper": 1.0, "shift-lower": -1.0}

NOISES = ("symmetric", "triangular", "discrete")
REPAIRS = ("none", *SIDES, "project", "feasible")


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
    noise : {"symmetric", "triangular", "discrete"}
        "symmetric": isotropic in the Frobenius inner product, standard deviation
        sigma on the diagonal and sigma/sqrt(2) off it.  "triangular": the
        papers' independent upper triangle of standard deviation sigma
        throughout.  Both have the same privacy profile, so the second only adds
        noise; it is here for comparison.  "discrete": as "symmetric", but the
        noise is the discrete Gaussian [4]_ on the integers the second moment
        consists of, drawn exactly: nothing rests on the accuracy of floats.  It
        is as large to 1e-6, takes some 20 us an entry and
        ``pip install "privgram[opendp]"``, whose sampler has no seed.
    repair : {"none", "shift", "shift-upper", "shift-lower", "project", "feasible"}
        What becomes of a released matrix that is not positive definite:
        nothing; a multiple of the identity added; its negative eigenvalues
        set to zero; or, "feasible", the nearest second moment that n rows of the bound can have,
        whose trace is at most n B^2 where n is public (then there is no inference, see
        docs/theory/analyze-gauss.md).  The multiple is E||N||, the paper's choice, or the bound
        that ||N|| stays below, or above, with probability 1 - delta, which the
        paper also tried [2]_ (section 6).  All are post-processing.

    Notes
    -----
    Replacing a row moves the second moment by at most sqrt(2) B^2 in Frobenius
    norm, adding or removing one by B^2; both are attained.  The guarantee is
    that of the Gaussian mechanism, calibrated exactly [3]_.

    References
    ----------
    .. [1] Dwork, Talwar, Thakurta, Zhang, "Analyze Gauss", STOC 2014.
    .. [2] Sheffet, "Old techniques in differentially private linear regression",
       ALT 2019, sections 2 and 6.
    .. [3] Balle, Wang, "Improving the Gaussian mechanism for differential
       privacy", ICML 2018, Theorem 8.
    .. [4] Canonne, Kamath, Steinke, "The discrete Gaussian for differential
       privacy", NeurIPS 2020.
    """

    noise: Literal["symmetric", "triangular", "discrete"] = "symmetric"
    repair: Literal["none", "shift", "shift-upper", "shift-lower", "project", "feasible"] = "none"

    of_units: ClassVar[frozenset[tuple[Clip, Adjacency]]] = frozenset(
        product(("frobenius", "trace"), ("add-remove", "replace"))
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise not in NOISES:
            raise ValueError(f"noise must be one of {', '.join(NOISES)}, got {self.noise!r}")
        if self.repair not in REPAIRS:
            raise ValueError(f"repair must be one of {', '.join(REPAIRS)}, got {self.repair!r}")

    def _calibrated(self, request: Request) -> GaussCalibration:
        from privgram import privacy

        sensitivity = self._sensitivity(request)
        if self.noise == "discrete":
            # The diagonal counts half: its noise has twice the variance.
            steps = sensitivity / request.bound**2 * STEPS / math.sqrt(2.0)
            discrete = privacy.calibration.discrete_gaussian(
                steps, n_entries(request), request.epsilon, request.delta
            )
            discrete = replace(discrete, adjacency=request.adjacency)
            return self._record(request, sensitivity / discrete.sensitivity_ratio, discrete)
        ratio = privacy.calibration.gaussian_ratio(request.epsilon, request.delta)
        profile = privacy.GaussianProfile(ratio, request.adjacency)
        return self._record(request, sensitivity / ratio, profile)

    @staticmethod
    def _sensitivity(request: Request) -> float:
        return sensitivity(request.bound, request.n_columns, request.adjacency)

    def _record(self, request: Request, sigma: float, profile: Profile) -> GaussCalibration:
        if self.noise == "discrete" and sigma / request.bound**2 * STEPS > MAX_STD:
            raise ValueError(
                "the noise is too large for 64 bits: take noise='symmetric', or larger epsilon "
                "and delta"
            )
        return GaussCalibration(
            **vars(request),
            privacy=profile,
            noise_std=sigma if self.noise == "triangular" else sigma / math.sqrt(2.0),
            bias=0.0,
            sigma=sigma,
            noise_std_diagonal=sigma,
        )


def n_entries(request: Request) -> int:
    """Entries of the matrix that get noise of their own."""
    return request.n_columns * (request.n_columns + 1) // 2
