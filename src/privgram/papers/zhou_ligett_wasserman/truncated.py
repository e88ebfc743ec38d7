r"""Privacy profile of a sketch of which some draws are thrown away.

Draws are made until one falls outside of a public set E of outputs, N times at most; then it
is said that none did. With beta a bound on the chance of E under every table considered,

.. math:: \delta'(\epsilon) \le \frac{\delta(\epsilon + \ln(1 - \beta))}{1 - \beta} + \beta^N,

delta the profile of a draw: proved in docs/theory/compression.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privgram._base.checks import check_integer, check_not_negative
from privgram.papers._gaussians import check_count
from privgram.papers.sheffet.profiles import SketchProfile
from privgram.privacy._numerics import Array
from privgram.privacy._profile import Profile, check_parameter


@dataclass(frozen=True)
class TruncatedSketchProfile(Profile):
    """Upper bound on the profile of a sketch that is drawn anew while it falls in a public set.

    Under "replace". Made by `Compressed.profile`.

    Parameters
    ----------
    rows : float
        Rows r >= 1 of the sketch.
    ratio : float
        B^2 / w^2 > 0, w^2 the least eigenvalue of the tables' second moments.
    discarded : float
        beta in [0, 1): no table considered has a draw thrown away more often.
    draws : int
        N >= 1: draws before giving up.
    condition : str
        The promise about the tables that all this rests on, and which nothing enforces.

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """

    _guarantee = "bounded"

    rows: float
    ratio: float
    discarded: float
    draws: int
    condition: str

    def __post_init__(self) -> None:
        check_count(self.rows, "rows")
        check_parameter(self.ratio, "ratio")
        if check_not_negative(self.discarded, "discarded") >= 1:
            raise ValueError(f"discarded must lie in [0, 1), not {self.discarded!r}")
        check_integer(self.draws, "draws", 1)

    def _delta(self, epsilon: Array) -> Array:
        log_kept = math.log1p(-self.discarded)
        drawn = SketchProfile(self.rows, self.ratio)._curve(
            np.nextafter(epsilon + log_kept, -np.inf) if self.discarded else epsilon
        )
        bound: Array = drawn * math.exp(-log_kept) + self._floor()
        return np.minimum(bound, 1.0)

    def _floor(self) -> float:
        return float(self.discarded) ** self.draws
