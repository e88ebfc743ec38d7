"""Noise of both steps for one guarantee, and how the budget is split; knows no data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from privgram._base.numbers import (
    check_budget,
    check_integer,
    check_not_negative,
    check_number,
    check_one_of,
    largest_safe,
)
from privgram.papers.hardt_roth.theorems import (
    ChiGaussianProfile,
    chi_gaussian_offset,
    chi_gaussian_ratio,
    figure_2,
    figure_3,
)
from privgram.privacy import ProofStatus
from privgram.privacy.calibration import gaussian_ratio

#: "exact": by the exact profile; "published": by the paper's constants.
CalibrationKind = Literal["exact", "published"]

#: Rounding Omega changes e^T Omega by at most this times |e| sqrt(k).
TEST_MARGIN = 2.0**-11


def is_published(calibration: CalibrationKind) -> bool:
    """Tell whether the paper's constants are asked for; ValueError for any other word."""
    check_one_of(calibration, "calibration", get_args(CalibrationKind))
    return calibration == "published"


def check_ranks(shape: tuple[int, int], rank: int, oversample: int | None) -> tuple[int, int]:
    """Return the rank and how many columns are drawn beyond it."""
    r, most = check_integer(rank, "rank"), min(shape)
    p = min(r + 1, most - r) if oversample is None else check_integer(oversample, "oversample")
    if r < 2 or p < 2 or r + p > most:
        raise ValueError(
            f"rank and oversample must be at least 2 and rank + oversample at most"
            f" min(m, n) = {most}, not {r} and {p}"
            + ("; for rank 1 take the first factors of `svd`" if r == 1 else "")
        )
    return r, p


def check_share(share: float, name: str) -> float:
    """Return a share of the budget, in (0, 1]."""
    value = check_number(share, name)
    if not 0 < value <= 1:
        raise ValueError(f"{name} must lie in (0, 1], not {value}")
    return value


def check_row_change(row_change: float) -> float:
    """Return by how much a row may change, in L2."""
    value = check_number(row_change, "row_change")
    # A range in which neither it nor its share of an entry over- or underflows.
    if not 2.0**-900 <= value <= 2.0**900:
        raise ValueError(f"row_change must be a positive number within 2^±900, not {value!r}")
    return value


@dataclass(frozen=True)
class LowRankCalibration:
    """Noise of the range finder and the projection for one guarantee; knows no data.

    Attributes
    ----------
    k : int
        Columns of W: rank and oversampling together.
    row_change : float
        Largest change of a row, in L2.
    finder_std : float
        Standard deviation rho of the range finder's noise, but for 0.13 % at most that cover
        what rounding A and Omega adds to the change of a row.
    projection_ratio : float
        Sensitivity of the projection over the standard deviation of its noise. The
        sensitivity is `row_change` times the largest row norm of W, which is public by then.
    privacy : ChiGaussianProfile
        Of both together, rounding included.
    """

    k: int
    row_change: float
    finder_std: float
    projection_ratio: float
    privacy: ChiGaussianProfile

    @property
    def proof_status(self) -> ProofStatus:
        """How well the profile is founded, see `privgram.privacy.Profile.proof_status`."""
        return self.privacy.proof_status

    def expected_error(
        self, shape: tuple[int, int], rank: int, tail: float, leverage: float
    ) -> float:
        """Bound on the root mean square of ||A - B||_F, without pruning.

        Parameters
        ----------
        shape : tuple of int
            (m, n).
        rank : int
            r, at most k - 2.
        tail : float
            ||A - A_r||_F.
        leverage : float
            Largest row norm of W, in (0, 1].

        Notes
        -----
        Y is the range finder's for the matrix [A, rho I], whose error in expectation (Halko,
        Martinsson and Tropp, SIAM Review 53, 2011, Theorem 10.5) has the part rho^2 (m - k) that
        is not A's. The projection's noise has k n entries of one variance.
        """
        (m, n), r = shape, check_integer(rank, "rank", 1, self.k - 2)
        p = self.k - r
        tail = check_not_negative(tail, "tail")
        leverage = check_share(leverage, "leverage")
        finder = (1 + r / (p - 1)) * tail**2 + _finder_weight(m, r, p) * self.finder_std**2
        projection = n * self.k * (self.row_change * leverage / self.projection_ratio) ** 2
        return math.sqrt(finder + projection)


def calibrate(
    shape: tuple[int, int],
    rank: int,
    oversample: int | None = None,
    *,
    epsilon: float,
    delta: float,
    row_change: float = 1.0,
    calibration: CalibrationKind = "exact",
    leverage: float | None = None,
    allow_published_erratum: bool = False,
) -> LowRankCalibration:
    """Noise of both steps of `approximate`, from public numbers alone.

    Parameters
    ----------
    shape : tuple of int
        (m, n).
    leverage : float, optional
        A guess at the largest row norm of W, in (0, 1], from public knowledge. It decides
        how the budget is split, not whether the guarantee holds. By default that of a
        random basis, which is what little coherence means.
    rank, oversample, epsilon, delta, row_change, calibration, allow_published_erratum
        As in `approximate`.

    Returns
    -------
    LowRankCalibration

    Notes
    -----
    The split minimises the terms of `LowRankCalibration.expected_error` that are not A's own, with
    each step's squared ratio as a share of the most that the budget allows it alone, and the
    shares adding up to 1, as those of Gaussian mechanisms do: a closed form. The projection's
    ratio is then the largest that the exact profile of both leaves.
    """
    m, n = shape
    epsilon, delta = check_budget(epsilon, delta)
    r, p = check_ranks((m, n), rank, oversample)
    k, c = r + p, check_row_change(row_change)
    if is_published(calibration):
        half = epsilon / 2, delta / 2
        rho = finder_std(k, c, *half, "published", allow_published_erratum)
        # One row of noise after the other: together a ratio of sqrt(k) at most.
        ratio = math.sqrt(k) / figure_3(k, *half)
        return LowRankCalibration(k, c, rho, ratio, finder_profile(k, c / rho, ratio))
    if leverage is None:
        # Row norms squared are chi-squared of k over m, m of them (Laurent and Massart 2000).
        log = math.log(m)
        leverage = math.sqrt(min(1.0, (k + 2 * math.sqrt(k * log) + 2 * log) / m))
    return _exact(m, n, r, p, c, epsilon, delta, check_share(leverage, "leverage"))


# Pure functions of public numbers that take milliseconds: worth remembering.
@lru_cache(maxsize=256)
def _exact(
    m: int, n: int, r: int, p: int, c: float, epsilon: float, delta: float, leverage: float
) -> LowRankCalibration:
    k = r + p
    # Least f / kappa^2 + k n leverage^2 / mu^2, squared ratios as shares of what each step
    # could have alone adding up to 1.
    most = finder_ratio(k, epsilon, delta)
    weight = math.sqrt(_finder_weight(m, r, p) / (k * n)) / leverage
    weight *= gaussian_ratio(epsilon, delta) / most
    # A guess at the leverage near zero would leave nothing for the projection.
    kappa = math.sqrt(min(weight / (1 + weight), 1 - 1e-6)) * most
    left = chi_gaussian_offset(k, kappa, epsilon, delta)
    ratio = math.sqrt(left**2 - finder_profile(k, kappa).offset ** 2) * (1 - 1e-12)
    return LowRankCalibration(k, c, c / kappa, ratio, finder_profile(k, kappa, ratio))


@lru_cache(maxsize=256)
def finder_std(
    k: int,
    row_change: float,
    epsilon: float,
    delta: float,
    calibration: CalibrationKind,
    allow_published_erratum: bool,
) -> float:
    """Standard deviation rho of the range finder's noise, for a budget of its own."""
    least = row_change / finder_ratio(k, epsilon, delta)
    if not is_published(calibration):
        return least
    rho = row_change * figure_2(k, epsilon, delta, allow_published_erratum=allow_published_erratum)
    # What is refused as an erratum is less than that, but for the rounding of Omega.
    return rho if allow_published_erratum else max(rho, least)


def finder_profile(k: int, ratio: float, offset: float = 0.0) -> ChiGaussianProfile:
    """Profile of the range finder with Omega rounded, and of Gaussian mechanisms beside it.

    Rounding turns S into at most S + t sqrt(k), t the `TEST_MARGIN`, whose square is at most
    (1 + t) (S^2 + t k). The noise has the first factor; the rest is as an offset: Theorem 4 of
    docs/theory/range-finder-projection.md.
    """
    return ChiGaussianProfile(k, ratio, math.hypot(offset, ratio * math.sqrt(TEST_MARGIN * k)))


@lru_cache(maxsize=256)
def finder_ratio(k: int, epsilon: float, delta: float) -> float:
    """`row_change` over rho, the range finder's noise, for a budget of its own."""
    guess = chi_gaussian_ratio(k, epsilon, delta)
    return largest_safe(lambda x: finder_profile(k, x).delta(epsilon), delta, guess)


def _finder_weight(m: int, r: int, p: int) -> float:
    """What rho^2 is multiplied by in `LowRankCalibration.expected_error`."""
    return (1 + r / (p - 1)) * (m - r) - (m - r - p)
