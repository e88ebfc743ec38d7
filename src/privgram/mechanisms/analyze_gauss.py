"""Analyze Gauss: the second moment plus symmetric Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privgram.drawing import discrete as _discrete
from privgram.exact import limbs as _fixed_point
from privgram.mechanisms._base import (
    Calibration,
    Mechanism,
    Request,
    add_integers,
    add_noise,
    sensitivity,
)
from privgram.noise import GaussianLaw, symmetric_gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.moment import SecondMoment
    from privgram.privacy import Profile


#: The squared bound of a row in units of the second moment.
STEPS = 2.0**40

#: Multiples of the norm's deviation in each shift.
SIDES = {"shift": 0.0, "shift-upper": 1.0, "shift-lower": -1.0}

NOISES = ("symmetric", "triangular", "discrete")
REPAIRS = ("none", *SIDES, "project")


@dataclass(frozen=True)
class GaussCalibration(Calibration):
    """Noise of Analyze Gauss.

    Attributes
    ----------
    sigma : float
        Standard deviation on the diagonal; the sensitivity in Frobenius norm is
        sigma times the profile's ratio.
    noise_std_diagonal : float
        The same, by its meaning.
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
    repair : {"none", "shift", "shift-upper", "shift-lower", "project"}
        What becomes of a released matrix that is not positive definite:
        nothing; a multiple of the identity added; or its negative eigenvalues
        set to zero.  The multiple is E||N||, the paper's choice, or the bound
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
    repair: Literal["none", "shift", "shift-upper", "shift-lower", "project"] = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise not in NOISES:
            raise ValueError(f"noise must be one of {', '.join(NOISES)}, got {self.noise!r}")
        if self.repair not in REPAIRS:
            raise ValueError(f"repair must be one of {', '.join(REPAIRS)}, got {self.repair!r}")

    def _exact(self, request: Request) -> GaussCalibration:
        from privgram import privacy

        sensitivity = self._sensitivity(request)
        if self.noise == "discrete":
            # The diagonal counts half: its noise has twice the variance.
            steps = sensitivity / request.bound**2 * STEPS / math.sqrt(2.0)
            discrete = privacy.calibration.discrete_gaussian(
                steps, _n_entries(request), request.epsilon, request.delta
            )
            discrete = replace(discrete, adjacency=request.adjacency)
            return self._record(request, sensitivity / discrete.sensitivity_ratio, discrete)
        ratio = privacy.calibration.gaussian_ratio(request.epsilon, request.delta)
        profile = privacy.GaussianProfile(ratio, request.adjacency)
        return self._record(request, sensitivity / ratio, profile)

    def _published(self, request: Request, allow_erratum: bool) -> GaussCalibration:
        from privgram import privacy
        from privgram.papers import sheffet

        sigma = sheffet.analyze_gauss(
            request.bound,
            request.epsilon,
            request.delta,
            # The square of one column moves by B^2 at most, whichever row it is of.
            "add-remove" if request.n_columns == 1 else request.adjacency,
            allow_published_erratum=allow_erratum,
        )
        ratio = self._sensitivity(request) / sigma
        if self.noise == "discrete":
            std = sigma / request.bound**2 * STEPS / math.sqrt(2.0)
            discrete = privacy.DiscreteGaussianProfile(
                ratio, std, _n_entries(request), request.adjacency
            )
            return self._record(request, sigma, discrete)
        return self._record(request, sigma, privacy.GaussianProfile(ratio, request.adjacency))

    @staticmethod
    def _sensitivity(request: Request) -> float:
        return sensitivity(request.bound, request.n_columns, request.adjacency)

    def _record(self, request: Request, sigma: float, profile: Profile) -> GaussCalibration:
        if self.noise == "discrete" and sigma / request.bound**2 * STEPS > _discrete.MAX_STD:
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

    def _check_generator(self, rng: np.random.Generator | None) -> None:
        if self.noise != "discrete":
            return
        if rng is not None:
            raise ValueError(
                "noise='discrete' is drawn by OpenDP, whose generator takes no seed: leave the "
                "generator out, or take noise='symmetric', of the same law but for its rounding"
            )
        _discrete.opendp()

    def _draw(
        self, moment: SecondMoment, noise: GaussCalibration, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], GaussianLaw, dict[str, Any]]:
        law = noise.law
        d = moment.n_columns
        if self.noise == "discrete":
            matrix = self._add_discrete(moment, noise)
        else:
            draw = symmetric_gaussian(d, law.std, law.std_diagonal, rng)
            matrix = add_noise(moment, draw, noise.noise_std)
        if self.repair == "none":
            return matrix, law, {}
        if self.repair != "project":
            added = 0.0
            if np.linalg.eigvalsh(matrix)[0] <= 0:
                added = expected_norm(law, d, rng)
                added += SIDES[self.repair] * norm_deviation(law, noise.delta)
                added = max(added, 0.0)
            return (
                matrix + added * np.eye(d),
                replace(law, added=added),
                {"parameters": {"added": added}},
            )
        values, vectors = np.linalg.eigh(matrix)
        if values[0] < 0:
            matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
            matrix = (matrix + matrix.T) / 2
        return matrix, law, {}

    @staticmethod
    def _add_discrete(moment: SecondMoment, noise: GaussCalibration) -> NDArray[np.float64]:
        # More than the calibrated noise by 2^-40, which pays for the rounding of these numbers.
        steps = (1 + 2.0**-40) / moment.unit
        if noise.noise_std * steps < noise.privacy.std:  # type: ignore[attr-defined]
            raise ValueError("noise='discrete' needs a second moment of 20 bits or more")
        draw = _discrete.symmetric(
            moment.n_columns, noise.noise_std * steps, noise.noise_std_diagonal * steps
        )
        return add_integers(moment, _fixed_point.from_int64(draw), noise.noise_std)


def _n_entries(request: Request) -> int:
    return request.n_columns * (request.n_columns + 1) // 2


def expected_norm(law: GaussianLaw, n_columns: int, rng: np.random.Generator) -> float:
    """E||N|| (spectral norm) of the noise, by simulation from its own law.

    The norm concentrates as d grows (relative spread of order d^(-2/3)), so a
    number of draws inversely proportional to d keeps the error under 1 %.
    """
    draws = max(4, 4096 // n_columns)
    noise = [symmetric_gaussian(n_columns, law.std, law.std_diagonal, rng) for _ in range(draws)]
    return float(np.abs(np.linalg.eigvalsh(noise)).max(axis=1).mean())


def norm_deviation(law: GaussianLaw, failure: float) -> float:
    """What ||N|| differs by from its mean, either way, with probability below `failure`.

    ||N|| <= ||N||_F is a Lipschitz function of the independent normals that N is
    made of, with constant max(std_diagonal, sqrt(2) std): Gaussian concentration.
    """
    constant = max(law.std_diagonal, math.sqrt(2.0) * law.std)
    return constant * math.sqrt(2 * math.log(1 / failure))
