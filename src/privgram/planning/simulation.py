"""Fits of simulated rows, drawn until their standard errors are known: the engine of all plans.

A plan says how a seed becomes a fit, and how many fits its numbers need.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector


#: The spread of fits is shown without a tenth of them at either end.
ENDS = (0.1, 0.9)


@dataclass(frozen=True)
class DrawRule:
    """How many fits are simulated for one set of standard errors.

    More than the least are drawn while the median has a standard error of more than the part
    `median_within` of itself, and none where half of the fits are refused.
    """

    least: int
    most: int
    median_within: float
    while_some_refused: bool = False  # draw up to the most where some are refused
    until_refused: bool = False  # stop at the first that is refused

    def wants_more(self, answered: list[SimulatedFit], tried: int) -> bool:
        """Whether to draw one more fit, where some of those that were tried were answered."""
        refused = tried - len(answered)
        if tried >= self.most or (self.until_refused and refused):
            return False
        if tried < self.least or 2 * len(answered) <= tried:
            return tried < self.least
        if self.while_some_refused and refused:
            return True
        errors = np.array([fit.stderr for fit in answered])
        seen = errors[:, np.isfinite(errors).all(axis=0)]
        low, median, high = np.quantile(seen, [0.25, 0.5, 0.75], axis=0)
        # Of normal numbers the median's standard error is 0.93 (high - low) / sqrt(their number).
        enough = self.median_within / 0.93 * math.sqrt(len(answered)) * median
        return bool(((high - low) > enough).any())


@dataclass(frozen=True, eq=False)
class SimulatedFit:
    """What one fit of simulated rows states."""

    names: tuple[str, ...]
    stderr: Vector  # infinite where the noise hides a coefficient
    method: str = ""
    cov_type: str = ""


@dataclass(frozen=True, eq=False)
class SimulatedFits:
    """Fits that were not refused for noise, of so many that were tried."""

    fits: tuple[SimulatedFit, ...]
    tried: int

    @property
    def answered(self) -> float:
        """Part of the fits that are not refused."""
        return len(self.fits) / self.tried

    @property
    def mostly_answered(self) -> bool:
        """Whether more than half are not refused: else their standard errors are not shown."""
        return 2 * len(self.fits) > self.tried

    @cached_property
    def _errors(self) -> Matrix:
        return np.array([fit.stderr for fit in self.fits])

    @property
    def medians(self) -> dict[str, float]:
        """Median standard errors, by coefficient; infinite where most fits hide it."""
        medians = np.median(self._errors, axis=0).tolist()
        return dict(zip(self.fits[-1].names, medians, strict=True))

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Between what eight of ten standard errors are, by coefficient that no fit hides."""
        seen = np.isfinite(self._errors).all(axis=0)
        names = np.array(self.fits[-1].names, object)[seen].tolist()
        ends = np.quantile(self._errors[:, seen], ENDS, axis=0).T.tolist()
        return {name: (low, high) for name, (low, high) in zip(names, ends, strict=True)}


def simulate_fits(fit: Callable[[int], SimulatedFit | None], rule: DrawRule) -> SimulatedFits:
    """Draw fits by the seeds 0, 1, ...: the same plan gives the same numbers.

    A fit that is refused is None, or has no standard error that is finite.
    """
    answered: list[SimulatedFit] = []
    tried = 0
    while rule.wants_more(answered, tried):
        one, tried = fit(tried), tried + 1
        if one is not None and np.isfinite(one.stderr).any():
            answered.append(one)
    return SimulatedFits(tuple(answered), tried)
