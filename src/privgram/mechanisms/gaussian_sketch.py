"""Gaussian sketch of the regularised data (Sheffet's Algorithms 1 and 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privgram._base.checks import check_integer
from privgram.exact import certified as _certified
from privgram.mechanisms import _multiplicative
from privgram.mechanisms._base import Mechanism, Request
from privgram.mechanisms._multiplicative import MultiplicativeCalibration
from privgram.noise import SketchLaw

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from privgram.moment import SecondMoment

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

    def _draw(
        self, moment: SecondMoment, noise: MultiplicativeCalibration, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], SketchLaw, dict[str, Any]]:
        from privgram.papers import sheffet

        adjusted = _multiplicative.adjust(
            moment,
            noise,
            rng,
            lambda s: sheffet.algorithm_2_rows(s, noise.bound, noise.epsilon, noise.delta),
        )
        rows, d = int(adjusted.dof), moment.n_columns
        law = SketchLaw(rows, adjusted.regulariser * moment.unit)
        extra: dict[str, Any] = {"parameters": adjusted.parameters}
        if self.keep_rows and self.adaptive:
            # Leaving out rows that were paid for is post-processing, and memory is bounded.
            rows = min(rows, max(self.rows, KEPT_ENTRIES // d))
            law = SketchLaw(rows, law.regulariser)
            extra["parameters"]["adjusted_dof"] = rows
        whitener = _certified.whiten(moment.limbs(), adjusted.regulariser)
        if self.keep_rows:
            exponent = _certified.rows_exponent(adjusted.floor)
            counts = _certified.sketch_rows(whitener, _certified.normals(rng, d, rows), exponent)
            sketch = counts * (2.0**exponent * math.sqrt(moment.unit))
            return sketch.T @ sketch / rows, law, extra | {"sketch": sketch}
        whole = rows >= d  # else the Wishart matrix is singular, and drawn by its rows
        draws = _certified.bartlett(rng, rows, d) if whole else _certified.normals(rng, d, rows)
        exponent = _certified.gram_exponent(adjusted.floor, rows)
        counts = _certified.sketch_gram(whitener, draws, exponent)
        return counts * (2.0**exponent * moment.unit) / rows, law, extra
