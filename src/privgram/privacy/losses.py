"""Losses of several releases of the same data, added on a grid on the safe side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import fft

from privgram.privacy._numerics import Array, Curve, connect_the_dots

if TYPE_CHECKING:
    from privgram.privacy.profiles.base import Profile

# A distribution of losses has masses at multiples of a step and a mass at infinity, once for each
# order of the two tables, or once for both. Releases of one table compose order by order, by
# convolution. What rounding may take away is added to the mass at infinity: the fast Fourier
# transforms of a convolution are off by at most 21 u \log_2 N relative in the Euclidean
# norm [1], u the unit roundoff, hence by \sqrt N times that in the sum of all masses.
# Mass beyond the top goes to infinity, and mass below what matters up to the least that is kept.
# Why the result dominates: docs/theory/composition.md, "Numerically".
#
# [1] N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., SIAM 2002,
#    Theorem 24.2.

#: Mass that may be moved, at either end and at no gain.
_MOVED_MASS = 1e-17

#: Fewer masses than these are convolved one by one.
_FEW = 48

#: Unit roundoff.
_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class _Order:
    """Losses of one order of the tables: masses from index `low` on, and at infinity."""

    low: int
    masses: Array
    infinity: float

    def compose(self, other: _Order, top: int) -> _Order:
        a, b = self.masses, other.masses
        infinity = self.infinity + other.infinity  # at most; of both at once only one counts
        size = a.size + b.size - 1
        few, many = (a, b) if np.count_nonzero(a) < np.count_nonzero(b) else (b, a)
        places = np.flatnonzero(few)
        if places.size <= _FEW:
            masses = np.zeros(size)
            for i in places:
                masses[i : i + many.size] += few[i] * many
            masses *= 1.0 + 4.0 * _FEW * _UNIT
        else:
            length = fft.next_fast_len(size, real=True)
            masses = fft.irfft(fft.rfft(a, length) * fft.rfft(b, length), length)[:size]
            norms = math.sqrt(float(np.sum(a * a)) * float(np.sum(b * b)))
            infinity += 24.0 * _UNIT * math.log2(length) * math.sqrt(length) * norms
            np.maximum(masses, 0.0, out=masses)
        return _trimmed(self.low + other.low, masses, infinity, top)

    def delta(self, epsilon: float, step: float) -> float:
        if epsilon >= (self.low + self.masses.size) * step:
            return min(self.infinity, 1.0)
        first = max(math.floor(epsilon / step) - self.low, 0)
        masses = self.masses[first:]
        loss = (self.low + first + np.arange(masses.size)) * step
        above = masses * -np.expm1(np.minimum(epsilon - loss, 0.0))
        return min(float(np.sum(above)) * (1.0 + 1e-12) + self.infinity, 1.0)


def _trimmed(low: int, masses: Array, infinity: float, top: int) -> _Order:
    keep = min(masses.size, max(top - low + 1, 1))
    infinity += float(np.sum(masses[keep:])) * (1.0 + 1e-12)
    masses = masses[:keep]
    over = np.cumsum(masses[::-1])
    cut = int(np.searchsorted(over, _MOVED_MASS, side="right"))
    if 0 < cut < keep:
        infinity += float(over[cut - 1])
        masses = masses[: keep - cut]
    under = np.cumsum(masses)
    cut = min(int(np.searchsorted(under, _MOVED_MASS, side="right")), masses.size - 1)
    if cut > 0:
        masses = masses[cut:].copy()
        masses[0] += under[cut - 1]
    return _Order(low + cut, masses, infinity)


@dataclass(frozen=True, eq=False)
class Losses:
    """Privacy losses of one or more releases."""

    step: float  # losses are multiples of it
    top: float  # losses above it count as infinite
    orders: tuple[_Order, ...]  # with the row against without, and the reverse; or one for both

    def compose(self, other: Losses) -> Losses:
        """Losses of these releases together with others, of the same step."""
        if (self.step, self.top) != (other.step, other.top):
            raise ValueError("losses compose with those of the same step and top")
        count = max(len(self.orders), len(other.orders))
        top = math.floor(self.top / self.step)
        pairs = zip((self.orders * 2)[:count], (other.orders * 2)[:count], strict=True)
        return Losses(self.step, self.top, tuple(a.compose(b, top) for a, b in pairs))

    def times(self, count: int) -> Losses:
        """Losses of so many equal releases."""
        if count == 1:
            return self
        half = self.times(count // 2)
        whole = half.compose(half)
        return whole.compose(self) if count % 2 else whole

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta, in the worse order."""
        return max(order.delta(epsilon, self.step) for order in self.orders)


def none(step: float, top: float) -> Losses:
    """Losses of no release at all."""
    return Losses(step, top, (_Order(0, np.ones(1), 0.0),))


@lru_cache(maxsize=64)
def losses_of(profile: Profile, step: float, top: float, dots: int) -> Losses:
    """Losses that dominate a profile's, by connecting dots."""
    directions = tuple(_remembered(curve) for curve in profile._directions())
    forward, backward = (directions * 2)[:2]
    dots = min(dots, profile._dots)
    orders = [(forward, backward), (backward, forward)][: len(directions)]
    return Losses(step, top, tuple(_order(a, b, step, top, dots) for a, b in orders))


def _remembered(curve: Curve) -> Curve:
    """Give the same curve, which is evaluated once for both orders."""
    seen: dict[bytes, Array] = {}

    def lookup(epsilon: Array) -> Array:
        key = epsilon.tobytes()
        if key not in seen:
            seen[key] = curve(epsilon)
        return seen[key].copy()

    return lookup


def _order(forward: Curve, backward: Curve, step: float, top: float, dots: int) -> _Order:
    masses, infinity = connect_the_dots(forward, backward, step, dots)
    highest = math.floor(top / step)
    index = np.array(sorted(masses))
    values = np.array([masses[i] for i in index.tolist()])
    within = (index <= highest) & (index >= -highest)
    infinity += float(np.sum(values[index > highest])) * (1.0 + 1e-12)
    below = float(np.sum(values[index < -highest]))
    index, values = index[within], values[within]
    dense = np.zeros(int(index[-1] - index[0]) + 1)
    dense[index - index[0]] = values
    dense[0] += below
    return _trimmed(int(index[0]), dense, infinity, highest)


def composed_losses(profiles: Iterable[Profile], step: float, top: float, dots: int) -> Losses:
    """Losses of all profiles together; equal ones are composed by squaring."""
    result = none(step, top)
    for profile, count in Counter(profiles).items():
        result = result.compose(losses_of(profile, step, top, dots).times(count))
    return result
