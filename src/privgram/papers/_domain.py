"""Domains of the statements, and the check of what they print against the exact profile."""

from __future__ import annotations

import math

from privgram._base.checks import check_budget, check_positive
from privgram.privacy import Profile
from privgram.privacy._adjacency import check_adjacency

__all__ = [
    "PublishedErratumError",
    "log_ratio",
    "require_private",
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
            f"{self.flaw} Use the exact calibration, or pass allow_published_erratum=True to "
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


def require_private(
    profile: Profile, epsilon: float, delta: float, erratum: str, allowed: bool
) -> None:
    """Raise unless what has this profile is (epsilon, delta)-private, or an erratum is allowed."""
    if not allowed and (achieved := profile.delta(epsilon)) > delta:
        raise PublishedErratumError(
            f"{erratum}. At epsilon = {epsilon:g} the printed noise gives delta = "
            f"{achieved:.2g}, not {delta:.2g}."
        )
