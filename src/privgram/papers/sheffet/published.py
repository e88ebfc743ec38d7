"""The mechanisms at the constants that the paper prints, to reproduce its figures.

Each is the mechanism of the same name with other noise, and goes wherever that one goes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from privgram.mechanisms import AnalyzeGauss, Calibration, Mechanism, true_delta
from privgram.mechanisms.additive import GaussCalibration
from privgram.papers._shared import PublishedErratumError
from privgram.papers.sheffet.mechanisms import (
    AdditiveWishart,
    GaussianSketch,
    InverseGauss,
    InverseGaussCalibration,
    InverseWishart,
    InverseWishartCalibration,
    MultiplicativeCalibration,
    SketchCalibration,
    WishartCalibration,
    multiplicative_record,
)
from privgram.papers.sheffet.profiles import SketchProfile
from privgram.papers.sheffet.theorems import (
    algorithm_2,
    analyze_gauss,
    theorem_3_1,
    theorem_4_1,
    theorem_5_1,
    theorem_b_5,
)
from privgram.privacy import GaussianProfile, StatedProfile

if TYPE_CHECKING:
    from collections.abc import Callable

    from privgram.mechanisms._base import Request


@dataclass(frozen=True)
class Published:
    """What the mechanisms at published constants share.

    Parameters
    ----------
    allow_published_erratum : bool
        Use the paper's constants even where they are not private as printed. The release then
        has the delta that it really has. Else `PublishedErratumError`, a ValueError, is raised.
    """

    allow_published_erratum: bool = False

    def caveat(self, release: Any) -> str | None:
        """What is wrong with the constants of a release; None where they are private."""
        wanted = release.bound, release.epsilon, release.delta, release.adjacency, release.n_rows
        try:
            refusing = replace(self, allow_published_erratum=False)
            refusing.calibrate(release.n_columns, *wanted)  # type: ignore[attr-defined]
        except PublishedErratumError as erratum:
            return erratum.flaw
        except ValueError:  # not of the theorem's range: nothing to say of it
            pass
        return None

    def reached(self, noise: Calibration) -> float:
        """The delta of a release: more than was asked for under an erratum."""
        return true_delta(noise) if self.allow_published_erratum else noise.delta


@dataclass(frozen=True)
class PublishedAnalyzeGauss(Published, AnalyzeGauss):
    """Analyze Gauss with the noise of `sheffet.analyze_gauss`; parameters as its own."""

    def _calibrated(self, request: Request) -> GaussCalibration:
        sigma = analyze_gauss(
            request.bound,
            request.epsilon,
            request.delta,
            # The square of one column moves by B^2 at most, whichever row it is of.
            "add-remove" if request.n_columns == 1 else request.adjacency,
            allow_published_erratum=self.allow_published_erratum,
        )
        ratio = self._sensitivity(request) / sigma
        return self._record(request, sigma, GaussianProfile(ratio, request.adjacency))


@dataclass(frozen=True)
class PublishedAdditiveWishart(Published, AdditiveWishart):
    """Additive Wishart noise by Theorem 4.1, which fixes `scale` and `dof` (Algorithm 3)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale is not None or self.dof is not None:
            raise ValueError("Theorem 4.1 fixes scale and dof: leave both None")

    def _calibrated(self, request: Request) -> WishartCalibration:
        dof = theorem_4_1(request.n_columns, request.epsilon, request.delta)
        return self._record(request, dof, 1.0)


@dataclass(frozen=True)
class PublishedGaussianSketch(Published, GaussianSketch):
    """The sketch by Theorem 3.1, or Algorithm 2, whose (epsilon, delta) is stated, not proved."""

    def _calibrated(self, request: Request) -> MultiplicativeCalibration:
        return _multiplicative(self, SketchCalibration, self.rows, theorem_3_1, request)


@dataclass(frozen=True)
class PublishedInverseWishart(Published, InverseWishart):
    """The inverse Wishart by Theorem 5.1, or Algorithm 5, whose guarantee is stated only."""

    def _calibrated(self, request: Request) -> MultiplicativeCalibration:
        dof = self._degrees(request)
        if dof != int(dof):
            raise ValueError(f"the paper's degrees of freedom are integers, not {dof}")
        return _multiplicative(self, InverseWishartCalibration, dof, theorem_5_1, request)


@dataclass(frozen=True)
class PublishedInverseGauss(Published, InverseGauss):
    """Noise on the inverse by Theorem B.5 as printed."""

    def _calibrated(self, request: Request) -> InverseGaussCalibration:
        sigma = theorem_b_5(
            self.margin(request.bound),
            request.bound,
            request.epsilon,
            request.delta,
            request.adjacency,
            allow_published_erratum=self.allow_published_erratum,
        )
        return self.record(request, sigma)


def published(mechanism: Mechanism, *, allow_published_erratum: bool = False) -> Mechanism:
    """The namesake of a mechanism at the paper's constants.

    Parameters
    ----------
    mechanism : AnalyzeGauss, AdditiveWishart, GaussianSketch, InverseWishart or InverseGauss
    allow_published_erratum : bool
        As of `Published`.

    Returns
    -------
    Mechanism
        Of the same parameters, such as `PublishedGaussianSketch`.

    Raises
    ------
    ValueError
        If the paper has no constants for it.
    """
    for kind in (
        PublishedAnalyzeGauss,
        PublishedAdditiveWishart,
        PublishedGaussianSketch,
        PublishedInverseWishart,
        PublishedInverseGauss,
    ):
        if kind.__bases__[1] is type(mechanism):
            return kind(**vars(mechanism), allow_published_erratum=allow_published_erratum)
    raise ValueError(f"the paper has no constants for {type(mechanism).__name__}")


def _multiplicative(
    mechanism: PublishedGaussianSketch | PublishedInverseWishart,
    kind: type[MultiplicativeCalibration],
    dof: float,
    theorem: Callable[..., float],
    request: Request,
) -> MultiplicativeCalibration:
    """The record of a theorem, with the exact profile of what it is worth, or as is stated."""
    arguments = int(dof), request.bound, request.epsilon, request.delta
    if mechanism.adaptive:  # Algorithms 2 and 5 have the same constants
        noise = algorithm_2(*arguments)
        stated = StatedProfile(request.epsilon, request.delta, request.adjacency)
        lengths = noise.regulariser, noise.shift, noise.laplace_scale
        return multiplicative_record(kind, request, stated, dof, 0.0, *lengths)
    allowed = mechanism.allow_published_erratum
    regulariser = theorem(*arguments, n_columns=request.n_columns, allow_published_erratum=allowed)
    ratio = request.bound**2 / regulariser
    profile = SketchProfile(dof, ratio, request.adjacency, kind.orientation)
    return multiplicative_record(kind, request, profile, dof, 0.0, regulariser)
