"""Where scores are clipped, and what intervals allow for it: the rank rule (docs/theory/glm.md).

By public and released numbers alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privgram.adaptive.radius import bin_edges, choose_radius

if TYPE_CHECKING:
    from privgram._base.numbers import Vector


@dataclass(frozen=True)
class ClippingRule:
    """The constants of the rank rule, chosen on half A of the zoo (docs/results.md)."""

    #: c: scores are clipped where about c moves / mu of them are longer, moves being 1 or 2 rows.
    rank: float = 10.0
    #: gamma: what clipping takes is allowed for as so many deviations of the score's noise.
    allowance: float = 1.4
    #: Edges of the norm histogram for each factor of 2, the first of them in root mean squares.
    per_octave: int = 4
    nearest: float = 0.5


CLIPPING = ClippingRule()


def norm_edges(typical: float, largest: float) -> Vector:
    """Norms to choose a clip from and to count rows by, two at least, up to the largest of all."""
    edges = bin_edges(CLIPPING.nearest * typical, largest, CLIPPING.per_octave)
    return edges if len(edges) > 1 else np.repeat(edges, 2)


@dataclass(frozen=True)
class Clip:
    """A clip of scores: the norm that a score has at most, and about how many are longer."""

    size: float
    n_beyond: float
    allowance: float = CLIPPING.allowance
    #: What counts say that squares of clipped scores add up to, at least.
    squares: float = math.inf

    def error(self, noise_std: float) -> float:
        """Noise and what clipping may have taken, in one direction of the score."""
        return math.hypot(1.0, self.allowance) * noise_std


def choose_clip(
    edges: Vector,
    beyond: Vector,
    noise: float,
    most: float = math.inf,
    one_way: Vector | None = None,
) -> Clip:
    """Clip where as many scores are longer as noise hides, or `most` of them if that is less.

    `beyond` (m,) are released counts of scores longer than each of the ascending `edges` (m,);
    a score's noise has the deviation `noise` for a clip of 1. Where the k scores beyond L all
    point one way and are longer by L each, what clipping takes is k / `noise` times that noise:
    so k = c times `noise` bounds their ratio by c times their alignment and their mean excess.
    Of scores that may all point one way the counts `one_way` (m,), without what noise may have made
    of none, bound what clipping takes by its allowance.
    """
    allowed = beyond
    if one_way is not None:
        too_much = excess_beyond(edges, one_way) > CLIPPING.allowance * noise * edges
        allowed = np.where(too_much, math.inf, beyond)
    choice = choose_radius(edges, allowed, min(CLIPPING.rank * noise, most))
    steps = np.diff(edges**2, prepend=0.0)
    squares = float((beyond * steps)[edges <= choice.size].sum())
    return Clip(choice.size, choice.beyond, squares=squares)


def excess_beyond(edges: Vector, beyond: Vector) -> Vector:
    """About by how much scores longer than each edge exceed it, all together, shape (m,)."""
    middle = (beyond[:-1] + beyond[1:]) / 2
    taken = np.cumsum((middle * np.diff(edges))[::-1])[::-1]
    return np.append(taken, 0.0)
