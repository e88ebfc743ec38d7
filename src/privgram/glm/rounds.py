"""The rounds of one regression: what is read of the table, and the noise that it gets.

Secret side: the one place where sums of scores meet noise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._core.scores import PARTS, UNITS, scale
from privgram._core.units import UnitAccumulator
from privgram.adaptive import radius
from privgram.adaptive.rounds import UnreadError
from privgram.disclosure.additive import noisy_sums
from privgram.disclosure.samplers import CHANGED, TableRounds
from privgram.glm.accumulators import (
    HessianAccumulator,
    UnitMomentAccumulator,
    UnitScoreAccumulator,
)
from privgram.glm.budget import BUDGET
from privgram.moment import SecondMoment

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.columns.unit import Unit


class Rounds(TableRounds):
    """Rounds over a secret table, of which only noisy sums leave; each is a share of mu^2."""

    #: The part of mu^2 that was spent.
    spent = 0.0

    def take(self, moment: SecondMoment, share: float) -> Matrix:
        """Release a second moment with isotropic noise."""
        self.spent += share
        return super().take(moment, share)

    def second(self, total: Any, share: float) -> Matrix:
        """Release the second moment that an accumulator has."""
        unit = self.moment.privacy_unit if isinstance(total, UnitAccumulator) else None
        return self.take(SecondMoment.from_accumulator(total, None, None, unit=unit), share)

    def number(self, share: float) -> float:
        """Release the number of rows, roughly."""
        self.spent += share
        return super().number(share)

    @property
    def moves(self) -> float:
        """By how many vectors a sum of vectors moves: a row replaced moves it by two."""
        return 2.0 if self.noise.adjacency == "replace" else 1.0

    def sums(
        self, total: NDArray[np.int64], clip: float, share: float, q: int, moves: float
    ) -> tuple[Vector, float]:
        """Release sums of vectors of q entries, scaled to a clip; with the noise's deviation."""
        self.spent += share
        mu = self.mu(share)
        std = moves * clip * (UNITS / scale(q)) / mu
        parameters = self.parameters
        parameters.setdefault("score_mu", []).append(mu)
        parameters.setdefault("score_noise_std", []).append(std)
        unit = clip / scale(q)
        return unit * noisy_sums(total, std / unit, self.rng), std

    def whole_sums(self, total: NDArray[np.int64], most: float, share: float) -> Vector:
        """Release sums of arrays of whole numbers, none longer than `most`, in their unit."""
        self.spent += share
        mu = self.mu(share)
        std = self.moves * most / mu
        parameters = self.parameters
        parameters.setdefault("score_mu", []).append(mu)
        return noisy_sums(total, std, self.rng)

    def counts_apart(self, counts: NDArray[np.int64], share: float) -> tuple[Vector, float]:
        """Release counts of rows that are in no sum of a round that has this share.

        The share is spent once: no row is in both. With the deviation of the noise.
        """
        mu = self.mu(share)
        std = self.noise.counts_std(mu)
        self.parameters["held_out_mu"] = mu
        return noisy_sums(counts, std, self.rng), std

    def reread_all(self, new: Callable[[int], Any]) -> Any:
        """Feed an accumulator all rows as they are; the table must be the one of before."""
        read = self._again(new)
        if read.n_rows != self.moment.n_rows:
            raise UnreadError(CHANGED)
        return read

    def beyond(self, counts: NDArray[np.int64], share: float) -> Vector:
        """Release about how many rows are longer than each edge of a norm histogram, shape (m,).

        `counts` (m,) are in units of 1 / `PARTS`. Nothing is longer than the last edge.
        """
        self.spent += share
        mu = self.mu(share)
        std = PARTS * radius.counts_sensitivity(len(counts) - 1, self.noise.adjacency) / mu
        self.parameters["counts_mu"].append(mu)
        noisy = noisy_sums(radius.weighted_counts(counts[1:]), std, self.rng)
        return np.append(radius.cumulative_counts(noisy) / PARTS, 0.0)


class UnitRounds(Rounds):
    """The same of a table whose units are protected: what is added up is of units."""

    def bounded(self, unit: Unit, edges: Vector) -> Unit:
        """The unit with a bound near the median of the units' norms, by a released histogram.

        `moment` are counts of units by norm, up to the edges.
        """
        self.spent += BUDGET.unit_bound
        below = np.cumsum(self.noisy(self.moment, BUDGET.unit_bound)[0])
        return replace(unit, bound=float(edges[int((below >= below[-1] / 2).argmax())]))

    def read(self, whitening: WhiteningTransform, new: Callable[[int], Any]) -> Any:
        """Feed an accumulator the scores of units; the table must be the one of before."""
        assert self.moment.columns is not None
        bound = float(self.moment.columns.bound)  # that of a unit is for the first round
        size = len(whitening.matrix)

        def of_units(_: int) -> UnitScoreAccumulator | UnitMomentAccumulator:
            inner = new(size)
            if isinstance(inner, HessianAccumulator):
                return UnitMomentAccumulator(whitening.matrix, bound, inner)
            return UnitScoreAccumulator(whitening.matrix, bound, inner)

        read = self._again(of_units)
        if read.n_rows != self.moment.n_rows:
            raise UnreadError(CHANGED)
        return read.inner
