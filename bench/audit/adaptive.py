"""Adaptive rounds: the loss of all that the rounds release, whatever they decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import numpy as np

from privgram.adaptive.rounds import run_rounds
from privgram.disclosure.samplers import TableRounds
from privgram.exact import int128
from privgram.mechanisms import AdaptiveGaussian
from privgram.moment import SecondMoment
from privgram.secret import gate
from privgram.secret.gate import Gate
from privgram.secret.kinds import Outer, Rows

from .cases import Case, Pair
from .moments import ADJACENCIES, BOUND, claimed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from privgram.mechanisms.adaptive import AdaptiveGaussianCalibration
    from privgram.privacy import Adjacency
    from privgram.secret.gate import Noisy, Sum
    from privgram.secret.kinds import Kind
    from privgram.secret.sweep import Image

    Array = NDArray[np.float64]


def _numbers(found: Any) -> Array:
    whole = int128.to_integers(found) if isinstance(found, tuple) else np.asarray(found)
    return whole.reshape(-1).astype(np.float64)


__all__ = ["CASES", "Watched", "claimed", "scores", "worst_pairs"]

#: With a large delta, which some thousands of draws measure to a few percent.
CASES: tuple[Case, ...] = tuple(
    Case(AdaptiveGaussian(), adjacency, delta=0.5) for adjacency in ADJACENCIES
)

#: Rows that both tables have: enough for three rounds, and short, so that the frames stretch the
#: row that differs far beyond every radius.
SHARED, SHORT = 600, 0.02


class Twins:
    """A gate and that of another table, of which nothing leaves: what is drawn is compared.

    `ratio` is the log-likelihood ratio of all that left the first.
    """

    def __init__(self, own: Gate, other: Gate, moment: SecondMoment) -> None:
        self._own, self._other, self._moment = own, other, moment
        self._theirs: dict[int, Sum] = {}
        self._kept: list[Sum] = []
        self.ratio = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def adopt(self, made: Any) -> Sum:
        own = self._own.adopt(made)
        self._pair(own, self._other.adopt(self._moment))
        return own

    def read(self, image: Image, *kinds: Kind) -> tuple[Sum, ...]:
        own, theirs = self._own.read(image, *kinds), self._other.read(image, *kinds)
        for pair in zip(own, theirs, strict=True):
            self._pair(*pair)
        return own

    def _pair(self, own: Sum, other: Sum) -> None:
        self._kept.append(own)  # or another may have its address
        self._theirs[id(own)] = other

    def release(self, total: Sum, share: float, *, zeros: bool = False) -> Noisy:
        assert not zeros  # two columns have none
        drawn: list[tuple[Array, float]] = []
        real = gate.noisy_sums, gate.noisy_matrix

        def sums(exact: Any, std: float, rng: np.random.Generator) -> Array:
            drawn.append((real[0](exact, std, rng), std))
            return drawn[0][0]

        def matrix(exact: Any, off: float, std: float, rng: np.random.Generator) -> Array:
            released = real[1](exact, off, std, rng)
            # Each entry off the diagonal is there twice, and has half the variance.
            drawn.append((released[np.tril_indices(len(released))], std))
            return released

        with patch.object(gate, "noisy_sums", sums), patch.object(gate, "noisy_matrix", matrix):
            noisy = self._own.release(total, share)
        [(released, std)] = drawn
        rows = isinstance(total.kind, Rows) and id(total) not in self._theirs
        other = self._other.adopt(self._moment).rows if rows else self._theirs[id(total)]
        ours, theirs = (_numbers(gate._exact(one)) for one in (total, other))
        weights = np.full(len(ours), 0.5)
        if isinstance(total.kind, Outer):
            i, j = np.tril_indices(total.kind.size)
            weights = np.where(i == j, 0.5, 1.0)
        squares = (released - theirs) ** 2 - (released - ours) ** 2
        self.ratio += float((weights * squares).sum()) / std**2
        return noisy


class Watched(TableRounds):
    """Rounds over one table, with the log-likelihood ratio of what they release against another."""

    def __init__(
        self,
        rows: Array,
        other: Array,
        noise: AdaptiveGaussianCalibration,
        rng: np.random.Generator,
    ) -> None:
        def reader(table: Array) -> Callable[[Callable[[int], Any]], Any]:
            def read(new: Callable[[int], Any]) -> Any:
                accumulator = new(table.shape[1])
                accumulator.update(table)
                return accumulator

            return read

        moment, theirs = (SecondMoment(one.shape[1], BOUND).update(one) for one in (rows, other))
        gates = [Gate(noise, rng, reader(one)) for one in (rows, other)]
        super().__init__(moment, noise, cast("Gate", Twins(*gates, theirs)))

    @property
    def ratio(self) -> float:
        """The ratio of all that was released so far."""
        return self.gate.ratio  # type: ignore[attr-defined, no-any-return]


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
