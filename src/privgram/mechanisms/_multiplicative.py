"""What the sketch and the inverse Wishart share: a Wishart drawn from G + regulariser I.

Both release the same experiment, r draws from N(0, G + w^2 I), one as it is and
one inverted; both may first spend part of the budget on the smallest eigenvalue
of G, which regularises as well as w^2 does (Algorithms 2 and 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privgram.exact import certified as _certified
from privgram.mechanisms._base import Calibration, Request

if TYPE_CHECKING:
    from privgram.papers.sheffet import AdaptiveConstants
    from privgram.privacy import Adjacency, Profile
    from privgram.privacy._adjacency import Orientation

#: The smallest eigenvalue is rounded down to a grid of 2^-EIGENVALUE_BITS B^2.
EIGENVALUE_BITS = 20

#: Most rows or degrees of freedom, before an eigenvalue multiplies them by up to 2^20: chi variates
#: are drawn of up to 2^60.
MOST_DOF = 2.0**40

#: Lengths of the adaptive calibration grow by this, for that grid.
EIGENVALUE_SLACK = 1 + 2.0 ** (1 - EIGENVALUE_BITS)


@dataclass(frozen=True)
class MultiplicativeCalibration(Calibration):
    """Noise of a sketch or an inverse Wishart.

    Attributes
    ----------
    dof : float
        Rows r of the sketch, or degrees of freedom; the least there can be, where adaptive.
    regulariser : float
        w^2 or psi, in the units of the second moment; before any adjustment.
    laplace_scale : float or None
        Scale of the Laplace noise on the smallest eigenvalue, where adaptive.
    eigenvalue_shift : float or None
        What the noisy eigenvalue is lowered by, where adaptive.
    delta_fp : float
        Part of delta set aside for finite precision.
    """

    #: Which law of the worst pair the table with the row has, under "add-remove".
    orientation: ClassVar[Orientation]

    dof: float
    regulariser: float
    laplace_scale: float | None
    eigenvalue_shift: float | None
    delta_fp: float


def exact(
    kind: type[MultiplicativeCalibration], dof: float, adaptive: bool, request: Request
) -> MultiplicativeCalibration:
    """Calibration by the exact profile."""
    from privgram import privacy
    from privgram.privacy.ladder import RUNGS, rung_share

    # Two orthogonal rows of one column do not exist: replacing is then no more than adding.
    one_column = request.n_columns == 1 and request.adjacency == "replace"
    adjacency: Adjacency = "add-remove" if one_column else request.adjacency
    most = dof * 2**RUNGS if adaptive else dof
    delta_fp = _certified.delta_fp(request.epsilon, most)
    delta = request.delta - delta_fp
    if delta <= 0:
        message = f"delta={request.delta:g} is below what finite precision takes, {delta_fp:.2g}"
        largest = _certified.largest_epsilon(request.delta, most)
        if largest > 0:
            message += (
                f" at epsilon={request.epsilon:g}: ask for epsilon={math.floor(largest):d} or"
                " less, whose guarantee is the stronger"
            )
        raise ValueError(message)
    if not adaptive:
        ratio = privacy.calibration.sketch_ratio(dof, request.epsilon, delta, adjacency)
        profile: Profile = privacy.SketchProfile(
            dof, ratio, request.adjacency, kind.orientation, one_column
        )
        return _record(kind, request, profile, dof, request.bound**2 / ratio, delta_fp)
    first = privacy.calibration.adaptive_sketch(
        dof, request.epsilon, delta * rung_share(0), adjacency
    )
    ladder = privacy.AdaptiveLadderProfile(
        dof,
        first.regulariser,
        first.shift,
        first.scale,
        request.adjacency,
        request.epsilon,
        delta,
        one_column=one_column,
    )
    length = request.bound**2 * EIGENVALUE_SLACK
    return _record(
        kind,
        request,
        ladder,
        dof,
        first.regulariser * length,
        delta_fp,
        first.scale * length,
        first.shift * length,
    )


def published(
    kind: type[MultiplicativeCalibration],
    dof: float,
    regulariser: float,
    request: Request,
    constants: AdaptiveConstants | None,
) -> MultiplicativeCalibration:
    """Calibration by a paper's constants, with a profile for what they are worth."""
    from privgram import privacy

    if constants is None:
        profile: Profile = privacy.SketchProfile(
            dof, request.bound**2 / regulariser, request.adjacency, kind.orientation
        )
        return _record(kind, request, profile, dof, regulariser, 0.0)
    return _record(
        kind,
        request,
        privacy.StatedProfile(request.epsilon, request.delta, request.adjacency),
        dof,
        constants.regulariser,
        0.0,
        constants.laplace_scale,
        constants.shift,
    )


def _record(
    kind: type[MultiplicativeCalibration],
    request: Request,
    profile: Profile,
    dof: float,
    regulariser: float,
    delta_fp: float,
    laplace_scale: float | None = None,
    eigenvalue_shift: float | None = None,
) -> MultiplicativeCalibration:
    if dof > MOST_DOF:
        raise ValueError(f"at most 2^40 rows or degrees of freedom can be drawn, not {dof:g}")
    return kind(
        **vars(request),
        privacy=profile,
        noise_std=regulariser / math.sqrt(dof),
        bias=regulariser,
        dof=dof,
        regulariser=regulariser,
        laplace_scale=laplace_scale,
        eigenvalue_shift=eigenvalue_shift,
        delta_fp=delta_fp,
    )
