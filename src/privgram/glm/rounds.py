"""The rounds of one regression: a client of the gate, which keeps the public record of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privgram.adaptive.radius import cumulative_std
from privgram.columns import Columns
from privgram.columns.survival import EVENT_TIME, event_cuts
from privgram.disclosure.samplers import TableRounds
from privgram.glm.budget import BUDGET
from privgram.scan.executor import accumulate_units
from privgram.secret.kinds import Histogram, Model, Outer
from privgram.secret.sweep import Image

if TYPE_CHECKING:
    from privgram._base.numbers import Vector
    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.columns.survival import Survival
    from privgram.columns.unit import Unit
    from privgram.glm.problem import Clusters
    from privgram.scan.request import ScanRequest
    from privgram.secret.gate import Sum
    from privgram.secret.kinds import Kind
    from privgram.sources.pieces import PieceSource

#: Steps of a histogram of times, and what is no time in it, as parts of the longest.
TIME_STEPS, NO_TIME = 128, 2.0**-20


class Rounds(TableRounds):
    """Rounds over a secret table, of which only noisy sums leave; each is a share of mu^2."""

    #: By which some sums are, and whose rows all are of.
    clusters: Clusters | None = None
    #: Whether images of rows are less what those of their unit have on average.
    within = False

    @property
    def spent(self) -> float:
        """The part of mu^2 that was spent."""
        return self.gate.spent

    @property
    def moves(self) -> float:
        """By how many vectors a sum of vectors moves: a row replaced moves it by two."""
        return 2.0 if self.noise.adjacency == "replace" else 1.0

    def sums_at(self, at: WhiteningTransform, *kinds: Kind) -> tuple[Sum, ...]:
        """Read sums of images of the rows, or of the units."""
        if self.clusters is not None:
            return self.gate.read(self.clusters.image(at.matrix), *kinds)
        assert self.moment.columns is not None
        image = Image(at.matrix, float(self.moment.columns.bound), within=self.within)
        return self.gate.read(image, *kinds)

    def outer(self, q: int, radius: float, model: Model | None = None) -> Outer:
        """The kind of a second moment of features, or of a Hessian by a model's weights."""
        return Outer(model or Model.features(q), radius, "squares")

    def score(self, total: Sum, share: float) -> tuple[Vector, float]:
        """Release sums of clipped vectors; with the deviation of the noise."""
        noisy = self.gate.release(total, share)
        self.parameters.setdefault("score_mu", []).append(noisy.mu)
        self.parameters.setdefault("score_noise_std", []).append(noisy.std)
        return noisy.values, noisy.std

    def beyond(self, counts: Sum, share: float) -> Vector:
        """Release about how many rows are longer than each edge of a histogram, shape (m,).

        Nothing is longer than the last edge.
        """
        noisy = self.gate.release(counts, share)
        self.parameters["counts_mu"].append(noisy.mu)
        self.beyond_std = float(cumulative_std(len(noisy.values), noisy.std)[0])
        return np.append(noisy.values, 0.0)


class UnitRounds(Rounds):
    """The same of a table whose units are protected: what is added up is of units."""

    def bounded(self, unit: Unit, edges: Vector) -> Unit:
        """The unit with a bound near the median of the units' norms, by a released histogram.

        `moment` are counts of units by norm, up to the edges.
        """
        below = np.cumsum(self.noisy(self.moment, BUDGET.unit_bound)[0])
        return replace(unit, bound=float(edges[int((below >= below[-1] / 2).argmax())]))

    def cuts(self, source: PieceSource, survival: Survival, scan: ScanRequest) -> Survival:
        """Place cuts by a released histogram of the times of events, in a source and for all."""
        times = Columns({EVENT_TIME: (0.0, survival.end)}, intercept=True, missing="drop")
        events = replace(scan, source=source.event_times(), columns=times)
        door = self.gate.on(lambda new: accumulate_units(events, new)[0])
        edges = np.append(NO_TIME, np.arange(1, TIME_STEPS + 1) / TIME_STEPS)
        part = Image(np.full((1, 2), 0.5), float(times.bound))  # of the time that all end at
        [counts] = door.read(part, Histogram(Model.features(1), edges))
        beyond = self.beyond(counts, BUDGET.cuts)
        cuts = event_cuts(edges, beyond, survival.n_pieces, survival.end)
        source.survival = survival.placed(cuts)
        return source.survival
