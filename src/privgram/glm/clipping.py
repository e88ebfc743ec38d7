"""Where scores are clipped, and what intervals allow for it: the rank rule (docs/theory/glm.md).

By public and released numbers alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privgram.adaptive.radius import (
    bin_edges,
    choose_radius,
    excess_beyond,
    falling,
    seen_beyond,
    tail_power,
)

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector


@dataclass(frozen=True)
class ClippingRule:
    """The constants of the rank rule, chosen on half A of the zoo (docs/results.md)."""

    #: c: scores are clipped where about c moves / mu of them are longer, moves being 1 or 2 rows.
    rank: float = 7.0
    #: And in proportion fewer where noise is less than so many deviations of the score by sampling,
    #: up to a clip of so much noise: a longer one costs nothing that is felt, and takes less.
    felt: float = 0.5
    #: gamma: what clipping takes is allowed for as so many deviations of the score's noise.
    allowance: float = 1.2
    #: Both of scores whose clip depends on features alone: clipping hardly biases them, so that
    #: more of them may be clipped.
    unbiased: tuple[float, float] = (10.0, 1.4)
    #: gamma of pieces of time: 12 made tables were held 1.00 by it at epsilon 1, and .95 at 4.
    of_pieces: float = 0.5
    #: The octaves beyond the clip whose counts are seen where they exceed one deviation. By all
    #: counts of 1.5 deviations nine of ten widths at epsilon 1 were 4.7 for 4.0; by none, 14 % of
    #: tables for 6 % were held below 90 % at epsilon 4.
    near: float = 0.5
    #: Edges of the norm histogram for each factor of 2, the first of them in root mean squares.
    per_octave: int = 4
    nearest: float = 0.5


CLIPPING = ClippingRule()

#: A tail begins at the clip over this, in the counts and in the pull of its scores.
TAIL_REACH = 4


def norm_edges(typical: float, largest: float) -> Vector:
    """Norms to choose a clip from and to count rows by, two at least, up to the largest of all."""
    edges = bin_edges(CLIPPING.nearest * typical, largest, CLIPPING.per_octave)
    return edges if len(edges) > 1 else np.repeat(edges, 2)


@dataclass(frozen=True)
class Clip:
    """A clip of scores: the norm that a score has at most, and what counts say of longer ones."""

    size: float
    n_beyond: float = 0.0
    allowance: float = CLIPPING.allowance
    #: By how much longer scores exceed it, all together, and what their squares lose.
    excess: float = 0.0
    lost_squares: float = 0.0
    #: Whether longer scores become rare so slowly that they have no second moment.
    is_heavy: bool = False
    #: How long these are at most, over the clip: but for as many as noise hides.
    reach: float = math.inf
    #: What counts say that squares of clipped scores add up to, at least.
    squares: float = math.inf

    def error(self, noise_std: float) -> float:
        """Noise and what clipping may have taken, in one direction of the score."""
        return math.hypot(noise_std, max(self.allowance * noise_std, self.excess))

    def more(self, noise_std: float) -> float | None:
        """The excess over the noise, where it is more than the rank allows for."""
        return self.excess / noise_std if self.excess > self.allowance * noise_std else None

    def one_sided(
        self, pull: Vector, pull_std: float, second: Matrix, std: float, ones: Vector | None = None
    ) -> Matrix:
        """Covariance of what clipping may take of a tail that points one way, shape (q, q).

        `pull` (q,) is what of scores lies between a shorter clip and this one, with noise of
        `pull_std`; `second` (q, q) the second moment of clipped scores, with noise of `std` off the
        diagonal. Numbers of longer scores are taken to fall as 1 / r up to `reach`, and these to
        point as the pull does, or where the second moment stands out. A pull along `ones`, a unit
        vector (q,), is of skewed errors, and says nothing of other directions.
        """
        q, one = len(pull), np.eye(len(pull))
        alone = 0 * one if ones is None else np.outer(ones, ones)
        rest, total = one - alone, np.zeros((q, q))
        values, vectors = np.linalg.eigh(rest @ (second - np.trace(second) / q * one) @ rest)
        values[values < math.sqrt(q) * std] = 0.0
        stands_out = (vectors * (values / max(float(values.sum()), 1e-300))) @ vectors.T
        for part, beside in ((rest, stands_out), (alone, 0.0)):
            along = part @ pull
            square = float(along @ along)
            seen = max(square - float(np.trace(part)) * pull_std**2, 0.0)
            total += seen * (np.outer(along, along) / max(square, 1e-300) + beside)
        return np.asarray(math.log(self.reach, TAIL_REACH) ** 2 * total)


def choose_clip(
    edges: Vector,
    beyond: Vector,
    noise: float,
    most: float = math.inf,
    one_way: Vector | None = None,
    deviation: float = math.inf,
    rank: float = CLIPPING.rank,
    n: float = math.inf,
    q: int = 0,
    longest: float = math.inf,
) -> Clip:
    """Clip where as many scores are longer as noise hides, or `most` of them if that is less.

    `beyond` (m,) are released counts of `n` scores that are longer than each of the ascending
    `edges` (m,), with noise of about `deviation`; a score's noise has the deviation `noise` for a
    clip of 1. Where the k scores beyond L all point one way and are longer by L each, what clipping
    takes is k / `noise` times that noise: so k = c times `noise` bounds their ratio by c times
    their alignment and their mean excess. What clipping takes is no longer than the sum of
    excesses: as much of it as is seen is allowed for where that is more.
    Where the noise is little beside what sampling does to scores (q,), by their counts, c is less.
    Of scores that may all point one way the counts `one_way` (m,), without what noise may have made
    of none, bound what clipping takes by its allowance.
    """
    beyond = falling(edges, beyond, deviation)
    allowed = beyond
    if one_way is not None:
        too_much = excess_beyond(edges, one_way) > CLIPPING.allowance * noise * edges
        allowed = np.where(too_much, math.inf, beyond)
    squares = np.cumsum(beyond * np.diff(edges**2, prepend=0.0))
    short = max(int((edges <= longest).sum()), 1)
    choice = choose_radius(edges[:short], allowed[:short], min(rank * noise, most))
    if q:
        sampled = float(squares[np.searchsorted(edges, choice.size)]) / q
        if (felt := CLIPPING.felt * math.sqrt(sampled)) > choice.size * noise:
            least = min(rank, max(1.0, deviation) / noise)  # of which counts tell anything
            rank = max(rank * choice.size * noise / felt, least)
            short = min(short, int((edges <= felt / noise).sum()))
            choice = choose_radius(edges[:short], allowed[:short], rank * noise)
    at = int(np.searchsorted(edges, choice.size))
    clip = Clip(choice.size, choice.beyond, squares=float(squares[at]))
    if math.isinf(deviation):  # nothing is seen
        return clip
    near = edges <= choice.size * 2.0**CLIPPING.near * (1 + 1e-9)
    seen = seen_beyond(beyond, deviation, near)
    start, hidden = choice.size / TAIL_REACH, max(rank * noise, deviation)
    power = tail_power(edges, beyond, start, choice.size, hidden, n)
    return replace(
        clip,
        excess=float(excess_beyond(edges, seen)[at]),
        lost_squares=float(excess_beyond(edges**2, seen)[at]),
        is_heavy=power < 2,
    )
