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

    def wants_more(self, offered: list[SimulatedFit], tried: int) -> bool:
        """Whether to draw one more fit, where some of those that were tried were offered."""
        refused = tried - len(offered)
        if tried >= self.most or (self.until_refused and refused):
            return False
        if tried < self.least or 2 * len(offered) <= tried:
            return tried < self.least
        if self.while_some_refused and refused:
            return True
        errors = [fit.stderr for fit in offered]
        low, median, high = np.quantile(errors, [0.25, 0.5, 0.75], axis=0)
        # Of normal numbers the median's standard error is 0.93 (high - low) / sqrt(their number).
        enough = self.median_within / 0.93 * math.sqrt(len(offered)) * median
        return bool(((high - low) > enough).any())


@dataclass(frozen=True, eq=False)
class SimulatedFit:
    """What one fit of simulated rows states."""

    names: tuple[str, ...]
    stderr: Vector
    method: str = ""
    cov_type: str = ""


@dataclass(frozen=True, eq=False)
class SimulatedFits:
    """Fits that were not refused for noise, of so many that were tried."""

    fits: tuple[SimulatedFit, ...]
    tried: int

    @property
    def offered(self) -> float:
        """Part of the fits that are not refused."""
        return len(self.fits) / self.tried

    @property
    def mostly_offered(self) -> bool:
        """Whether more than half are not refused: else their standard errors are not shown."""
        return 2 * len(self.fits) > self.tried

    @cached_property
    def _errors(self) -> Matrix:
        return np.array([fit.stderr for fit in self.fits])

    @property
    def medians(self) -> dict[str, float]:
        """Median standard errors, by coefficient."""
        medians = np.median(self._errors, axis=0).tolist()
        return dict(zip(self.fits[-1].names, medians, strict=True))

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Between what eight of ten standard errors are, by coefficient."""
        low, high = np.quantile(self._errors, ENDS, axis=0).tolist()
        return dict(zip(self.fits[-1].names, zip(low, high, strict=True), strict=True))


def simulate_fits(fit: Callable[[int], SimulatedFit | None], rule: DrawRule) -> SimulatedFits:
    """Draw fits by the seeds 0, 1, ...: the same plan gives the same numbers.

    A fit that is refused is None, or has standard errors that are not finite.
    """
    offered: list[SimulatedFit] = []
    tried = 0
    while rule.wants_more(offered, tried):
        one, tried = fit(tried), tried + 1
        if one is not None and np.isfinite(one.stderr).all():
            offered.append(one)
    return SimulatedFits(tuple(offered), tried)
