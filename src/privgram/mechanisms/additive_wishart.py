"""Additive Wishart noise (Sheffet's Algorithm 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privgram._base.checks import check_positive
from privgram.mechanisms._base import Calibration, Mechanism, Request
from privgram.noise import WishartLaw

if TYPE_CHECKING:
    from privgram.columns.unit import Clip
    from privgram.privacy import Adjacency


@dataclass(frozen=True)
class WishartCalibration(Calibration):
    """Noise W_d(scale I, dof) of additive Wishart."""

    dof: float  # degrees of freedom k
    scale: float  # sigma^2, in the units of the second moment
    mean: float  # scale * dof: the noise's mean is this multiple of the identity

    @property
    def law(self) -> WishartLaw:
        """G plus Wishart noise."""
        return WishartLaw(self.scale, self.dof)


@dataclass(frozen=True)
class AdditiveWishart(Mechanism):
    """Second moment plus Wishart noise: positive definite before debiasing.

    Parameters
    ----------
    dof : int, optional
        Degrees of freedom k of the noise, at least d + 1.  By default the
        smallest that the guarantee allows.
    scale : float, optional
        sigma^2 of the noise W_d(sigma^2 I, k), in the units of the second
        moment.  The paper's is B^2.  By default chosen, with `dof`, to leave the
        least noise after debiasing.
    debias : bool
        Subtract the noise's mean, k sigma^2 I, if that leaves the released
        matrix positive definite; else the lower bound on the noise's smallest
        eigenvalue of Lemma A.3, (sqrt(k) - sqrt(d) - sqrt(2 ln(4/delta)))^2
        sigma^2 I, if that does; else nothing.  Post-processing.

    Notes
    -----
    Calibrated exactly, the noise left after debiasing is that of Analyze Gauss,
    to within the tolerance of the choice of `scale`.

    References
    ----------
    .. [1] Sheffet, "Old techniques in differentially private linear regression",
       ALT 2019, Algorithm 3, Theorem 4.1, section 4, Lemma A.3.
    """

    dof: int | None = None
    scale: float | None = None
    debias: bool = True

    of_units: ClassVar[frozenset[tuple[Clip, Adjacency]]] = frozenset({("trace", "add-remove")})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dof is not None:
            check_positive(self.dof, "dof")
        if self.scale is not None:
            check_positive(self.scale, "scale")

    @property
    def scale_free(self) -> bool:
        """False where the noise has a scale of its own."""
        return self.scale is None

    def _calibrated(self, request: Request) -> WishartCalibration:
        from privgram import privacy

        d, epsilon, delta = request.n_columns, request.epsilon, request.delta
        adjacency = request.adjacency
        dof: float | None = self.dof
        ratio = None if self.scale is None else request.bound**2 / self.scale
        if dof is None and ratio is None:
            ratio, dof = privacy.calibration.wishart_noise(d, epsilon, delta, adjacency)
        elif dof is None:
            assert ratio is not None
            dof = privacy.calibration.wishart_dof(d, ratio, epsilon, delta, adjacency)
        elif ratio is None:
            ratio = privacy.calibration.wishart_ratio(d, dof, epsilon, delta, adjacency)
        record = self._record(request, dof, ratio)
        reached = record.privacy.delta(epsilon)
        if reached > delta:
            raise ValueError(
                f"dof={dof} with scale={record.scale:g} gives delta={reached:.3g} at "
                f"epsilon={epsilon:g}, more than {delta:g}; raise dof or scale, or leave one None"
            )
        return record

    def _record(self, request: Request, dof: float, ratio: float) -> WishartCalibration:
        from privgram import privacy

        scale = request.bound**2 / ratio
        return WishartCalibration(
            **vars(request),
            privacy=privacy.WishartProfile(dof, request.n_columns, ratio, request.adjacency),
            noise_std=scale * math.sqrt(dof),
            bias=0.0 if self.debias else scale * dof,
            dof=dof,
            scale=scale,
            mean=scale * dof,
        )
