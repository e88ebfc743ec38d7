"""Several releases of one table: what they show together, against the composed profile."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.mechanisms import AnalyzeGauss
from privgram.papers.sheffet import AdditiveWishart, GaussianSketch, InverseWishart
from privgram.privacy import compose

from . import moments
from .cases import Case, Pair, Together

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.privacy import Profile

    Array = NDArray[np.float64]

__all__ = ["CASES", "claimed", "scores", "worst_pairs"]

#: Step of the losses that are composed, as part of epsilon: delta to a thousandth.
STEPS = 1000

#: Mechanisms whose worst orders differ, and one whose orders are alike.
CASES: tuple[Case, ...] = tuple(
    Case(Together(mechanisms), adjacency)
    for mechanisms, adjacency in product(
        (
            (AdditiveWishart(dof=4), InverseWishart(4)),
            (GaussianSketch(10), InverseWishart(10)),
            (AnalyzeGauss(), AdditiveWishart()),
        ),
        moments.ADJACENCIES,
    )
)


def _parts(case: Case) -> list[Case]:
    return [replace(case, mechanism=mechanism) for mechanism in case.mechanism.mechanisms]


def worst_pairs(case: Case) -> list[Pair]:
    """Tables that are worst for one of the mechanisms, each pair once."""
    pairs = {p.names: p for part in _parts(case) for p in moments.worst_pairs(part)}
    return list(pairs.values())


def claimed(case: Case, pair: Pair) -> Profile:
    """The composed profile."""
    parts = [moments.claimed(part, pair) for part in _parts(case)]
    return compose(parts, discretization=case.epsilon / STEPS)


def scores(
    case: Case, released: Any, pair: Pair, draws: int, seed: np.random.SeedSequence
) -> Array:
    """Sums of the releases' log-likelihood ratios; the noise of each is its own."""
    parts = _parts(case)
    total = np.zeros((2, draws))
    for part, mechanism, own in zip(
        parts, released.mechanisms, seed.spawn(len(parts)), strict=True
    ):
        total += moments.scores(part, mechanism, pair, draws, own)
    return total
