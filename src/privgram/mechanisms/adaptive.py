"""Adaptive rounds: the table read again in coordinates chosen from earlier releases."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

from privgram._base.numbers import set_fields
from privgram._base.text import listed
from privgram.mechanisms._base import Calibration, Mechanism, Request, sensitivity
from privgram.mechanisms.additive import AnalyzeGauss
from privgram.noise import GaussianLaw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privgram.privacy import Adjacency

#: Signal to noise mu n / sqrt(d) from which on adaptive rounds are taken.
CLEAR_RATE = 15.0


@dataclass(frozen=True)
class AdaptiveGaussianCalibration(Calibration):
    """Noise of all rounds together.

    `mu` is the ratio of sensitivity to noise that one round with the whole budget would have. The
    squares of the rounds' ratios add up to its square.
    """

    mu: float

    @property
    def law(self) -> GaussianLaw:
        """G plus the noise of one round: what a release has if adaptive rounds gain nothing."""
        return GaussianLaw.isotropic(self.noise_std)

    def std(self, bound: float, mu: float) -> float:
        """Noise on the diagonal for rows up to `bound` at a ratio mu; off it 1 / sqrt(2)."""
        return sensitivity(bound, self.n_columns, self.adjacency) / mu

    def counts_std(self, mu: float) -> float:
        """Noise of a histogram, in which a row is one count, at a ratio mu."""
        return count_sensitivity(self.adjacency) / mu


@dataclass(frozen=True)
class AdaptiveGaussian(Mechanism):
    """Second moment by adaptive rounds, each in coordinates chosen from the results before it.

    Gaussian noise has the same size in every direction of the scaled columns, and drowns those
    in which the table is narrow: differences of correlated columns, columns far narrower
    than their public bounds, residuals. A cheap first round shows them. The next one maps every
    row u to z = A u, with A about the inverse root of the second moment per row, clips ``|z|`` to a
    radius that about as many rows exceed as the noise can stand for, by private counts, adds
    isotropic noise to the sum of z z^T and maps it back. Then the noise is in proportion to the
    table in every direction.

    Parameters
    ----------
    rounds : "auto" or int
        At most so many rounds, 2 to 4. "auto" takes what a rate of signal to noise makes worth it,
        a fourth only while noise hides some direction, and one where a frame gains
        nothing: then the release is `AnalyzeGauss`'s.
    target : str, optional
        The column that will be explained, by its name in the release: ``x3`` in a table without
        names. Its regressions on any others get less noise where there are many columns, and all
        others more. By default all
        columns count alike.

    Notes
    -----
    Only `privgram.release` makes such a release, from a table that can be read again: it takes
    three to five passes, and fewer where one round is all that is worth it. A row moves round k by
    at most R_k^2, replacing one by sqrt(2) R_k^2.
    With mu_k = sensitivity / noise, the squares of mu_k add up, and the whole has the privacy
    profile of one Gaussian mechanism, whatever each round was decided by in those before. The
    noise is Gaussian, with independent entries in the last frame. What clipping may have moved is
    taken for a multiple of the noise, and is in the law that the release states.

    References
    ----------
    .. [1] Biswas, Dong, Kamath, Ullman, "CoinPress: Practical private mean and covariance
       estimation", NeurIPS 2020.
    .. [2] Dong, Roth, Su, "Gaussian differential privacy", JRSS B 84, 2022, Corollary 3.3.
    .. [3] Smith, Thakurta, "Fully adaptive composition for Gaussian differential privacy",
       arXiv:2210.17520, 2022.
    """

    rounds: Literal["auto"] | int = "auto"
    target: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rounds, bool) or self.rounds not in ("auto", 2, 3, 4):
            raise ValueError(
                f"rounds must be 'auto' or 2 to 4, got {self.rounds!r}; one is AnalyzeGauss()"
            )
        if self.rounds != "auto":  # NumPy's integers are not saved
            set_fields(self, rounds=int(self.rounds))
        if not (self.target is None or isinstance(self.target, str)):
            raise TypeError(f"target must be the name of a column, got {self.target!r}")

    def check_names(self, names: Sequence[str]) -> None:
        """Raise ValueError unless the target is among the columns of a release."""
        if self.target is not None and self.target not in names:
            raise ValueError(
                f"the target {self.target!r} is no column of the release, which are "
                f"{listed(names)}; nothing was spent"
            )

    @property
    def most_rounds(self) -> int:
        """The most rounds it may take."""
        return 4 if self.rounds == "auto" else int(self.rounds)

    def rounds_worth(self, rate: float) -> int:
        """Most rounds that are worth it where signal to noise, mu n / sqrt(d), is `rate`."""
        return 1 if rate < CLEAR_RATE else self.most_rounds

    def _calibrated(self, request: Request) -> AdaptiveGaussianCalibration:
        one = AnalyzeGauss()._calibrated(request)
        shared = {field.name: getattr(one, field.name) for field in fields(Calibration)}
        return AdaptiveGaussianCalibration(**shared, mu=one.privacy.sensitivity_ratio)  # type: ignore[attr-defined]


def count_sensitivity(adjacency: Adjacency) -> float:
    """L2 sensitivity of a histogram: one count moves, or two."""
    return math.sqrt(2.0) if adjacency == "replace" else 1.0
