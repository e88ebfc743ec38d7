"""How the entries of a ledger add up: as Gaussian noise, or by exact sums."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from privgram.privacy import ComposedProfile, GaussianProfile
from privgram.privacy.calibration import gaussian_ratio
from privgram.privacy.composition import flatten
from privgram.privacy.domination import dominating_ratio

if TYPE_CHECKING:
    from privgram.ledger.entries import Composition, Entry
    from privgram.privacy import Profile


class Accountant(ABC):
    """What entries spend together of a budget of epsilon and delta."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon = epsilon
        self.delta = delta

    #: Whether what was reserved and not spent may be spent on something else.
    settles = False

    @abstractmethod
    def spent(self, entries: Sequence[Entry]) -> tuple[float, float]:
        """Epsilon and delta of all entries together, also beyond the budget."""

    def refusal(self, entry: Entry) -> str | None:
        """Why an entry can't be added up with any other, or None."""
        return None

    @abstractmethod
    def excess(self, entries: Sequence[Entry]) -> str | None:
        """In which way entries exceed the budget, or None.

        Raises
        ------
        ArithmeticError, TypeError
            If the privacy of an entry has no value: of a file that was put together.
        """

    def _over(self, total: float) -> str:
        return (
            f"the total would be delta={total:.3g} at epsilon={self.epsilon:g}, and the ledger "
            f"allows delta={self.delta:g}"
        )


#: Part of delta that is left to chances: to that delta is evaluated.
_ROOM = 1e-9

#: So many entries of other kinds than Gaussian noise share these chances, at the least.
_OTHER_CHANCES = 1 << 20


class GaussianAccountant(Accountant):
    """Squared sensitivity ratios of Gaussian noise: a filter for whatever it dominates.

    Each entry is charged that of the least Gaussian noise that shows at least as much, and a chance
    with which it does not (docs/theory/composition.md, "As one goes: gaussian").
    """

    settles = True

    def __init__(self, epsilon: float, delta: float) -> None:
        super().__init__(epsilon, delta)
        gaussian_ratio(epsilon, delta)  # or there is no such noise: a ValueError
        self._most, self._chances = delta * (1.0 + _ROOM), delta * _ROOM
        self._slack = max(self._chances / _OTHER_CHANCES, sys.float_info.min)

    def spent(self, entries: Sequence[Entry]) -> tuple[float, float]:  # noqa: D102
        square, chance = self._charged(entries)
        if square == 0.0:
            return 0.0, self.delta
        epsilon = math.inf
        if square < math.inf and chance < self.delta:
            epsilon = GaussianProfile(math.sqrt(square)).epsilon(
                self.delta - max(chance - self._chances, 0.0)
            )
        if self.excess(entries) is None:
            epsilon = min(epsilon, self.epsilon)
        return epsilon, self.delta

    def refusal(self, entry: Entry) -> str | None:  # noqa: D102
        if self._charge(entry)[0] < math.inf or _alone(entry.charged, self.epsilon) > self._most:
            return None
        return (
            "adds up spends as Gaussian noise, and none shows as much as this one: enter its exact "
            'profile, if it has one, or make a ledger of composition="basic"'
        )

    def excess(self, entries: Sequence[Entry]) -> str | None:  # noqa: D102
        square, chance = self._charged(entries)
        total = (
            GaussianProfile(math.sqrt(square)).delta(self.epsilon)
            if 0.0 < square < math.inf
            else square
        )
        if total <= self._most and chance <= self._chances:
            return None
        if len(entries) == 1 and square < math.inf and self._takes_all(entries[0]):
            return None
        if total <= self._most:
            return "the chances that outputs are off add up to more than a billionth of delta"
        return self._over(min(total, 1.0))

    def _takes_all(self, entry: Entry) -> bool:
        """Whether an entry fits by its epsilon and delta: chosen before all others, it may be all.

        What is composed is not: its parts may be entered one by one.
        """
        alone = not isinstance(entry.charged, ComposedProfile)
        return alone and _added([entry], self.epsilon) <= self.delta

    def _charged(self, entries: Sequence[Entry]) -> tuple[float, float]:
        """Sums over entries of squared ratios, and of chances in units of delta."""
        charges = [self._charge(entry) for entry in entries]
        return math.fsum(c[0] for c in charges), math.fsum(c[1] for c in charges)

    def _charge(self, entry: Entry) -> tuple[float, float]:
        parts, chance = flatten([entry.charged])
        chance = _grown(chance, _log1pexp(self.epsilon)) + _slack([entry], self.epsilon)
        square = 0.0
        for part in parts:
            if isinstance(part, GaussianProfile):
                ratio = part.sensitivity_ratio
            elif _alone(part, self.epsilon) > self._most:
                return math.inf, 0.0  # which may take for ever elsewhere
            else:
                ratio = dominating_ratio(part, self._slack)
                chance += self._slack
            square += ratio * ratio  # infinite, where a power would be an error
        return square, chance


class BasicAccountant(Accountant):
    """Sums, exact, of the numbers as they are written: a filter for whatever is spent."""

    def spent(self, entries: Sequence[Entry]) -> tuple[float, float]:  # noqa: D102
        epsilon, delta = _sums(entries)
        return _written(epsilon), _written(delta)

    def excess(self, entries: Sequence[Entry]) -> str | None:  # noqa: D102
        total = _added(entries, self.epsilon)
        if total <= self.delta:
            return None
        if total == math.inf:
            return f"the epsilons add up to more than {self.epsilon:g}"
        return self._over(total)


#: How a ledger may compose.
ACCOUNTANTS: dict[Composition, type[Accountant]] = {
    "gaussian": GaussianAccountant,
    "basic": BasicAccountant,
}


def _added(entries: Sequence[Entry], at: float) -> float:
    """The sum of the deltas, if that of the epsilons is no more than one; else infinity."""
    epsilon, delta = _sums(entries)
    return _written(delta) if epsilon <= _exact(at) else math.inf


@lru_cache(maxsize=4096)
def _exact(value: float) -> Fraction:
    # As it is written: ten times 0.1 is 1. Not by decimal, which rounds as its caller pleases.
    return Fraction(repr(float(value)))


def _written(value: Fraction) -> float:
    """Least number that is written as `value` or more."""
    if value > _exact(sys.float_info.max):
        return math.inf
    nearest = float(value)
    return nearest if _exact(nearest) >= value else math.nextafter(nearest, math.inf)


def _sums(entries: Sequence[Entry]) -> tuple[Fraction, Fraction]:
    return _sum(e.epsilon for e in entries), _sum(e.delta for e in entries)


def _sum(values: Iterable[float]) -> Fraction:
    # Each different number once: fractions are slow to add.
    return sum((n * _exact(x) for x, n in Counter(values).items()), Fraction(0))


def _slack(entries: Sequence[Entry], at: float) -> float:
    # An output that is off with chance h under either table adds h (1 + e^epsilon).
    spread = (_log1pexp(at) - _log1pexp(e.epsilon) for e in entries)
    return math.fsum(_grown(e.delta_fp, x) for e, x in zip(entries, spread, strict=True))


def _grown(delta: float, by: float) -> float:
    return delta * math.exp(by) if by < 700.0 else math.inf if delta else 0.0


@lru_cache(maxsize=4096)
def _alone(profile: Profile, at: float) -> float:
    """Delta of one profile, where that takes no composing."""
    return 0.0 if isinstance(profile, ComposedProfile) else profile.delta(at)


def _log1pexp(x: float) -> float:
    return x + math.log1p(math.exp(-x))
