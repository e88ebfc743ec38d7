"""Errors that go together in clusters beside what is protected: sums of scores by cluster.

Secret side: of what is read only the noisy sums leave (docs/theory/glm.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privgram.glm import state as states
from privgram.glm.problem import ClusterFacts, Clusters
from privgram.secret.kinds import Model, Vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privgram._base.numbers import Matrix, Vector
    from privgram.glm.rounds import Rounds
    from privgram.secret.gate import Sum
    from privgram.secret.kinds import Kind


@dataclass(frozen=True)
class ClusterShares:
    """Shares of mu^2 where errors go together in clusters, and when that is hidden."""

    #: The sums of scores by cluster, and the numbers of rows by cluster.
    sums: float = 0.2
    numbers: float = 0.02
    #: A cluster counts where so many deviations of its number's noise are in it.
    seen: float = 2.0
    #: Noise may be this part of what the sums have in a direction, as a deviation.
    most: float = 0.4

    @property
    def reserved(self) -> float:
        """Both together, which is kept till the last scores."""
        return self.sums + self.numbers


CLUSTER_SHARES = ClusterShares()

DROWNED = (
    "the noise hides how errors by {} go together (r = {:.2g}, and above {:g} nothing is said): "
    'take a larger epsilon, larger clusters, or cov_type="HC1", if errors are independent'
)


def cluster_kinds(clusters: Clusters, model: Model, clip: float) -> tuple[Kind, Kind]:
    """Scores by cluster, and rows by cluster."""
    rows = Vectors(Model.level("weight"), 1.0, clusters.size, positive=True)
    return Vectors(model, clip, clusters.size), rows


def cluster_moment(
    clusters: Clusters,
    rounds: Rounds,
    sums: Sequence[Sum],
    total: Vector,
    total_std: float,
    directions: Matrix,
) -> tuple[Matrix, ClusterFacts]:
    """Release the second moment of sums of scores by cluster, with CR1's K/(K - 1).

    Of each its share of the `total` is taken off, which is 0 at the estimate. Of the matrix the
    noise is taken off, and what is left is raised by one deviation of it. Sums are taken in some
    orthonormal `directions` (q, s), where scores of a cluster do not sum to 0.
    """
    by_cluster, numbers = sums
    size = clusters.size
    flat, std = rounds.score(by_cluster, CLUSTER_SHARES.sums)
    counted, count_std = rounds.score(numbers, CLUSTER_SHARES.numbers)
    counted = np.maximum(counted.ravel(), 0.0)
    seen = max(int((counted > CLUSTER_SHARES.seen * count_std).sum()), 2)
    parts = counted / max(float(counted.sum()), 1.0)
    scores = (flat.reshape(size, -1) - np.outer(parts, total)) @ directions
    q = scores.shape[1]
    noise = size * std**2 + float(parts @ parts) * total_std**2
    second = scores.T @ scores - noise * np.eye(q)
    deviation = math.sqrt(size) * std**2
    signal = max(float(np.trace(second)) / q, 0.01 * deviation)
    ratio = math.sqrt(2.0) * deviation / signal
    raised = states.raised(second, deviation / math.sqrt(2.0))
    return raised * (seen / (seen - 1)), ClusterFacts(clusters.groups, seen, ratio)
