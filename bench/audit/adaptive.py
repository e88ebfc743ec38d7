"""Adaptive rounds: the loss of all that the rounds release, whatever they decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from privgram._core.rows import RowAccumulator
from privgram.adaptive.radius import weighted_counts
from privgram.adaptive.rounds import run_rounds
from privgram.disclosure.samplers import SumAndCounts, TableRounds
from privgram.mechanisms import AdaptiveGaussian
from privgram.moment import SecondMoment
from privgram.moment.accumulators import MappedAccumulator

from .cases import Case, Pair
from .moments import ADJACENCIES, BOUND, claimed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.privacy import Adjacency

    Array = NDArray[np.float64]

__all__ = ["CASES", "Watched", "claimed", "scores", "worst_pairs"]

#: With a large delta, which some thousands of draws measure to a few percent.
CASES: tuple[Case, ...] = tuple(
    Case(AdaptiveGaussian(), adjacency, delta=0.5) for adjacency in ADJACENCIES
)

#: Rows that both tables have: enough for three rounds, and short, so that the frames stretch the
#: row that differs far beyond every radius.
SHARED, SHORT = 600, 0.02


class Watched(TableRounds):
    """Rounds over one table, with the log-likelihood ratio of what they release against another."""

    def __init__(self, rows: Array, other: Array, **options: Any) -> None:
        self.other_rows = other
        self.other = SecondMoment(rows.shape[1], BOUND).update(other)
        self.ratio = 0.0

        def read(new: Callable[[int], Any]) -> Any:
            accumulator = new(rows.shape[1])
            accumulator.update(rows)
            return accumulator

        moment = SecondMoment(rows.shape[1], BOUND).update(rows)
        self.theirs: Any = None
        self.their_image: Any = None
        super().__init__(moment, reread=read, **options)

    def _score(self, released: Any, ours: Any, other: Any, variance: Any) -> None:
        self.ratio += float((((released - other) ** 2 - (released - ours) ** 2) / variance).sum())

    def take(self, moment: SecondMoment, share: float) -> Array:
        released = super().take(moment, share)
        # Each entry off the diagonal is there twice, and has half the variance.
        variance = 4 * self.std[-1] ** 2
        other = self.other if moment is self.moment else self.their_image
        self._score(released, moment.matrix(), other.matrix(), variance)
        return released

    def _noisy(self, exact: Any, std: float, share: float) -> Array:
        released = super()._noisy(exact, std, share)
        self._score(released, exact, weighted_counts(self.theirs.counts[1:]), 2 * std**2)
        return released

    def number(self, share: float) -> float:
        number = super().number(share)
        variance = 2 * self.noise.counts_std(self.mu(share)) ** 2
        self._score(np.array(number), self.moment.n_rows, len(self.other_rows), variance)
        return number

    def read(self, frame: WhiteningTransform, new: Callable[[int], Any]) -> Any:
        accumulator = MappedAccumulator(frame.matrix, BOUND, new(len(frame.matrix)))
        accumulator.update(self.other_rows)
        ours, theirs = super().read(frame, new), accumulator.inner
        both = isinstance(theirs, SumAndCounts)
        self.theirs = theirs.counts if both else theirs
        if both or isinstance(theirs, RowAccumulator):
            sums = theirs.inner if both else theirs
            self.their_image = SecondMoment.from_accumulator(sums, None, None)
        return ours


def worst_pairs(case: Case) -> list[Pair]:
    """Rows longer than every radius beside short ones.

    Of two that replace each other one is shorter, so that they are in different bins.
    """
    angles = 2 * np.pi * np.arange(SHARED) / SHARED
    shared = SHORT * np.column_stack([np.cos(angles), np.sin(angles)])
    first, second = BOUND * np.eye(2)[:, None] * [[[1.0]], [[0.84]]]
    if case.adjacency == "add-remove":
        return [Pair(("e1", "none"), np.vstack([shared, first]), shared)]
    tables = (np.vstack([shared, row]) for row in (first, second))
    return [Pair(("e1", "0.84 e2"), *tables)]


def scores(
    case: Case, released: Any, pair: Pair, draws: int, seed: np.random.SeedSequence
) -> Array:
    """Log-likelihood ratios, first table against second, of releases of the first and second."""
    rng = np.random.default_rng(seed)
    result = np.empty((2, draws))
    setting = case.epsilon, case.delta, cast("Adjacency", case.adjacency)
    bound = SecondMoment(2, BOUND).sensitivity_bound
    tables = pair.first, pair.second
    for out, rows, other, sign in zip(result, tables, tables[::-1], (1, -1), strict=True):
        n_rows = len(rows) if case.adjacency == "replace" else None
        noise = released.calibrate(2, bound, *setting, n_rows=n_rows)
        for i in range(draws):
            rounds = Watched(rows, other, noise=noise, rng=rng)
            run_rounds(released, rounds)
            out[i] = sign * rounds.ratio
    return result
