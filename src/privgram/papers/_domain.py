"""Domains of the statements, and the check of what they print against the exact profile."""

from __future__ import annotations

import math

from privgram._base.checks import check_budget, check_positive
from privgram.privacy import ChiGaussianProfile, GaussianProfile, SketchProfile
from privgram.privacy._adjacency import check_adjacency

__all__ = [
    "PublishedErratumError",
    "log_ratio",
    "require_private_finder",
    "require_private_gaussian",
    "require_private_sketch",
    "rows_factor",
    "second_moment_sensitivity",
]


class PublishedErratumError(ValueError):
    """A published constant was asked for where it is not private as printed."""

    @property
    def flaw(self) -> str:
        """What is wrong with the constant, without what to do instead."""
        return str(self.args[0])

    def __str__(self) -> str:
        return (
            f"{self.flaw} Use calibration='exact', or pass allow_published_erratum=True to "
            "reproduce the paper"
        )


def log_ratio(
    numerator: float,
    epsilon: float,
    delta: float,
    delta_below: float,
    *,
    epsilon_below: float = math.inf,
) -> float:
    """Return ln(numerator/delta), having checked epsilon and delta."""
    check_budget(epsilon, delta)
    if not epsilon < epsilon_below:
        raise ValueError(f"the theorem is for epsilon in (0, {epsilon_below:g}), not {epsilon}")
    if not delta < delta_below:
        raise ValueError(f"the theorem is for delta in (0, {delta_below:.4g}), not {delta}")
    return math.log(numerator / delta)


def rows_factor(adjacency: str) -> float:
    """Frobenius distance of two rank-one terms over that of one: sqrt(2) under replace."""
    return math.sqrt(2) if check_adjacency(adjacency) == "replace" else 1.0


def second_moment_sensitivity(bound: float, adjacency: str) -> float:
    """Frobenius sensitivity of the second moment, from two columns on."""
    return rows_factor(adjacency) * check_positive(bound, "bound") ** 2


def _require_private(achieved: float, epsilon: float, delta: float, erratum: str) -> None:
    if achieved > delta:
        raise PublishedErratumError(
            f"{erratum}. At epsilon = {epsilon:g} the printed noise gives delta = "
            f"{achieved:.2g}, not {delta:.2g}."
        )


def require_private_gaussian(
    mu: float, epsilon: float, delta: float, erratum: str, allowed: bool
) -> None:
    """Raise unless Gaussian noise of sensitivity ratio `mu` is (epsilon, delta)-private."""
    if not allowed:
        _require_private(GaussianProfile(mu).delta(epsilon), epsilon, delta, erratum)


def require_private_finder(
    k: int, ratio: float, epsilon: float, delta: float, erratum: str, allowed: bool
) -> None:
    """Raise unless the range finder of k columns is (epsilon, delta)-private."""
    if not allowed:
        _require_private(ChiGaussianProfile(k, ratio).delta(epsilon), epsilon, delta, erratum)


def require_private_sketch(
    rows: int, regulariser: float, epsilon: float, delta: float, theorem: str, allowed: bool
) -> None:
    """Raise unless the sketch with w² = `regulariser` B² is (epsilon, delta)-private.

    Theorem B.4 has no larger a regulariser for epsilon <= ln(4/delta): nothing to check.
    """
    if not allowed and epsilon > math.log(4 / delta):
        _require_private(
            SketchProfile(rows, 1 / regulariser).delta(epsilon),
            epsilon,
            delta,
            f"Sheffet, Theorem {theorem}: false for an epsilon this large and this many rows",
        )
