"""The rank rule: a length beyond which about so many rows lie, by private counts of lengths.

Rows are counted in bins of lengths. What is wanted are sums from the far end: rows longer than each
edge. Noise per count would add up in them, and noise per sum would have to hide a row in all sums.
So weighted sums W c are released, W being the square root of the matrix of sums: `weighted_counts`,
plus independent Gaussian noise of deviation `counts_sensitivity` / mu. `cumulative_counts` finds
the sums from these, at no cost in privacy. Proofs in docs/theory/glm.md.

References
----------
.. [1] H. Fichtenberger, M. Henzinger, J. Upadhyay, "Constant matters: Fine-grained error bound on
   differentially private continual observation", ICML 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from privgram.adaptive.rules import SEEN, TAIL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.numbers import Vector
    from privgram.privacy import Adjacency

#: Weights are multiples of 2^-10, taken as whole numbers, so that sums of counts are exact.
_WEIGHT_BITS = 10


@dataclass(frozen=True)
class RadiusChoice:
    """A length, and about how many rows are longer."""

    size: float
    beyond: float


def bin_edges(first: float, largest: float, per_octave: int) -> Vector:
    """Edges of bins of lengths, so many for a factor of 2, from `first` to `largest`."""
    steps = math.ceil(per_octave * math.log2(max(largest / first, 1.0)))
    edges: Vector = first * 2.0 ** (np.arange(steps + 1) / per_octave)
    edges[-1] = max(largest, first)
    return edges


def weighted_counts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Weighted sums of counts, exact: what is released with noise.

    Count k is of rows longer than edge k and no longer than the next, the last of all others.
    """
    return _weights(len(counts)) @ np.asarray(counts, dtype=np.int64)[::-1]


@lru_cache(maxsize=64)
def counts_sensitivity(n_bins: int, adjacency: Adjacency) -> float:
    """L2 sensitivity of the weighted sums of so many counts: a row is in one bin, or in none."""
    weights = _weights(n_bins)
    products = weights.T @ weights  # of columns: whole numbers
    lengths = np.diag(products)
    if adjacency == "replace":  # from one bin to another, or to none
        lengths = np.append(lengths[:, None] + lengths - 2 * products, lengths[:, None], axis=1)
    return math.sqrt(float(lengths.max()))


def cumulative_counts(released: Vector) -> Vector:
    """About how many rows are longer than each edge, from noisy weighted counts.

    They do not rise with the edges, and none is below 0.
    """
    from scipy.optimize import isotonic_regression

    sums = np.cumsum(np.linalg.solve(_weights(len(released)).astype(np.float64), released))
    beyond: Vector = np.maximum(isotonic_regression(sums).x[::-1], 0.0)
    return beyond


def cumulative_std(n_bins: int, std: float) -> Vector:
    """Deviation of each of the sums, if the weighted sums have noise of deviation `std`."""
    inverse = np.linalg.inv(_weights(n_bins).astype(np.float64))
    deviations: Vector = std * np.linalg.norm(np.cumsum(inverse, axis=0), axis=1)[::-1]
    return deviations


def choose_radius(edges: Vector, beyond: Vector, most_beyond: float) -> RadiusChoice:
    """The least edge that at most so many rows are longer than, or the last."""
    few = np.flatnonzero(beyond <= most_beyond)
    at = int(few[0]) if len(few) else len(edges) - 1
    return RadiusChoice(float(edges[at]), float(beyond[at]))


def excess_beyond(edges: Vector, beyond: Vector) -> Vector:
    """About by how much lengths beyond each edge exceed it, all together, shape (m,)."""
    middle = (beyond[:-1] + beyond[1:]) / 2
    taken = np.cumsum((middle * np.diff(edges))[::-1])[::-1]
    return np.append(taken, 0.0)


def seen_beyond(beyond: Vector, deviation: float, near: NDArray[np.bool_]) -> Vector:
    """Numbers beyond each edge, 0 where noise of this deviation may have made them.

    At edges that are `near` one deviation is seen: noise is not taken for long rows there.
    """
    return np.where(beyond > np.where(near, 1.0, SEEN) * deviation, beyond, 0.0)


def falling(edges: Vector, beyond: Vector, deviation: float) -> Vector:
    """Numbers beyond each edge, which fall as 1 / edge at least past what is well seen.

    Noise of this deviation may keep them up over all edges, and no tail with a mean does.
    """
    well = np.flatnonzero(beyond > SEEN * deviation)
    if not len(well):
        return beyond
    last = int(well[-1])
    most = beyond[last] * edges[last] / edges
    return np.where(np.arange(len(edges)) > last, np.minimum(beyond, most), beyond)


def tail_power(
    edges: Vector, beyond: Vector, start: float, size: float, rank: float, n: float = math.inf
) -> float:
    """The power by which numbers beyond edges fall up to a length; squares have no mean below 2.

    `rank` were to be beyond it, which noise does not change. The tail begins at `start`, where no
    more than `TAIL` of all `n` are beyond: infinity where there is none.
    """
    if size == edges[-1] or start < edges[0] * (1 - 1e-8):
        return math.inf
    first = int(np.searchsorted(edges, start * (1 - 1e-8)))
    if beyond[first] > TAIL * n:
        return math.inf
    return math.log(max(float(beyond[first]) / rank, 1e-300)) / math.log(size / float(edges[first]))


@lru_cache(maxsize=64)
def _weights(size: int) -> NDArray[np.int64]:
    """The root of the lower triangle of ones, in steps of 2^-10, shape (size, size).

    Entry (i, j) is the coefficient of x^(i - j) in (1 - x)^(-1/2), rounded.
    """
    series = np.cumprod(np.append(1.0, 1 - 0.5 / np.arange(1, size)))
    whole = np.rint(series * 2.0**_WEIGHT_BITS).astype(np.int64)
    lag = np.subtract.outer(np.arange(size), np.arange(size))
    weights = np.where(lag >= 0, whole[np.abs(lag)], 0)
    weights.setflags(write=False)  # all who ask get this one
    return weights
