"""What the second-moment paper varies and what it fixes (sections 3.1 and 6.2).

Where the paper leaves something open, the choice made here is named in `Setting`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Both ways to calibrate; the paper's own is the first.
CALIBRATIONS = ("published", "exact")

DELTA = math.exp(-9)


@dataclass(frozen=True)
class Setting:
    """One experiment's data and its grid.

    A row holds p independent standard normal features, the labels, and a one for the
    intercept. Label i is x @ beta_i, intercept included, plus normal noise. The beta are drawn
    from the seed, uniform in [-1, 1], and stay the same over all rows and repetitions.
    The last label is the one explained; its beta is drawn until its norm is the paper's.

    Attributes
    ----------
    name : str
    n_labels : int
        1 in section 3.1. In 6.2 it is p; the last label is regressed on the features and on
        the first m of the others, whose true coefficients are 0.
    norm : float
        L2 norm of the last label's beta, within 0.01.
    exponents : tuple of int
        n = 2^k for each of these.
    epsilons : tuple of float
    repetitions : int
    extras : tuple of int
        Values of m: labels among the features.
    noise_std : float
        Standard deviation of the labels' noise. Section 3.1 prints N(0, 0.5), section 6.2
        sigma = 0.5: read as a standard deviation in both.
    seed : int
        Everything random follows from it.
    n_features : int
        p.
    delta : float
    """

    name: str
    n_labels: int
    norm: float
    exponents: tuple[int, ...]
    epsilons: tuple[float, ...]
    repetitions: int
    extras: tuple[int, ...] = (0,)
    noise_std: float = 0.5
    seed: int = 0
    n_features: int = 20
    delta: float = DELTA

    @property
    def n_columns(self) -> int:
        """d: features, labels and the intercept."""
        return self.n_features + self.n_labels + 1

    @property
    def bound(self) -> float:
        """B = sqrt(2.5 d)."""
        return math.sqrt(2.5 * self.n_columns)

    @cached_property
    def coefficients(self) -> NDArray[np.float64]:
        """The true coefficients of every label, shape (n_labels, p + 1), intercept last."""
        rng = np.random.default_rng([self.seed, self.n_labels])
        beta = rng.uniform(-1.0, 1.0, (self.n_labels, self.n_features + 1))
        while abs(np.linalg.norm(beta[-1]) - self.norm) > 0.01:
            beta[-1] = rng.uniform(-1.0, 1.0, self.n_features + 1)
        return beta

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self) | {"n_columns": self.n_columns, "bound": self.bound}


PAPER = {
    "single": Setting(
        name="single",
        n_labels=1,
        norm=2.786,
        exponents=tuple(range(12, 26)),
        epsilons=(0.05, 0.1, 0.15, 0.2, 0.25, 0.5),
        repetitions=15,
    ),
    "multiple": Setting(
        name="multiple",
        n_labels=20,
        norm=3.2,
        exponents=tuple(range(12, 28)),
        epsilons=(0.1,),
        repetitions=15,
        extras=(0, 1, 2, 5, 10, 19),
    ),
}

SMALL = {
    "single": replace(
        PAPER["single"], exponents=(12, 15, 18, 20), epsilons=(0.1, 0.25, 0.5), repetitions=3
    ),
    "multiple": replace(PAPER["multiple"], exponents=(12, 15, 18, 20), repetitions=3),
}

SCALES = {"paper": PAPER, "small": SMALL}
