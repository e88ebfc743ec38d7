"""Gaussian sketch of the regularised data (Sheffet's Algorithms 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from privgram._base.checks import check_integer
from privgram.mechanisms import _multiplicative
from privgram.mechanisms._base import Mechanism, Request
from privgram.mechanisms._multiplicative import MultiplicativeCalibration
from privgram.noise import SketchLaw

if TYPE_CHECKING:
    pass

#: Entries of the rows that a release keeps, at most, however many a large eigenvalue pays for.
KEPT_ENTRIES = 1 << 24


@dataclass(frozen=True)
class SketchCalibration(MultiplicativeCalibration):
    """Noise of a sketch."""

    orientation = "wide"

    @property
    def law(self) -> SketchLaw:
        """A sketch of G + regulariser I, with the fewest rows."""
        return SketchLaw(self.dof, self.regulariser)


@dataclass(frozen=True)
class GaussianSketch(Mechanism):
    """Second moment of r random combinations of the rows: a Johnson-Lindenstrauss sketch.

    Released is M = (R A')^T (R A') / r, R of independent standard normals and A'
    the data with w I appended: a Wishart matrix W_d(G + w^2 I, r) / r, which is how
    it is drawn, in O(d^3) whatever n and r.  It estimates G + w^2 I and is positive
    definite for r >= d.

    Parameters
    ----------
    rows : int
        r >= 1; where adaptive, the least number of rows.
    adaptive : bool
        First release a private lower bound s on the smallest eigenvalue of G, which
        regularises as well: w^2 falls by s, and once s alone suffices more rows are
        drawn (Algorithm 2).  Under the exact calibration rows then double as often
        as s pays for it.
    keep_rows : bool
        Release the r sketch rows themselves, as `release.sketch`, and M computed
        from them.  Takes O(r d^2); adaptive ones keep 2^24 entries at most.

    Notes
    -----
    Calibrated exactly, the profile is that of `privgram.privacy.SketchProfile`, or
    `AdaptiveLadderProfile`, less a part under 1e-12 for finite precision.  The first is proved,
    the second an upper bound; Algorithm 2's (epsilon, delta) at published constants is only
    stated (`release.guarantee`).

    References
    ----------
    .. [1] Sheffet, "Old techniques in differentially private linear regression",
       ALT 2019, Algorithms 1 and 2, Theorem 3.1.
    .. [2] Blocki, Blum, Datta, Sheffet, "The Johnson-Lindenstrauss transform itself
       preserves differential privacy", FOCS 2012.
    """

    orientation = SketchCalibration.orientation

    rows: int
    adaptive: bool = False
    keep_rows: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer(self.rows, "rows", 1)

    def _exact(self, request: Request) -> MultiplicativeCalibration:
        return _multiplicative.exact(SketchCalibration, self.rows, self.adaptive, request)

    def _published(self, request: Request, allow_erratum: bool) -> MultiplicativeCalibration:
        from privgram.papers import sheffet

        arguments = self.rows, request.bound, request.epsilon, request.delta
        if self.adaptive:
            constants = sheffet.algorithm_2(*arguments)
            return _multiplicative.published(
                SketchCalibration, self.rows, constants.regulariser, request, constants
            )
        regulariser = sheffet.theorem_3_1(
            *arguments, n_columns=request.n_columns, allow_published_erratum=allow_erratum
        )
        return _multiplicative.published(SketchCalibration, self.rows, regulariser, request, None)
