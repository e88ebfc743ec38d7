"""From a second moment behind a gate to what is released, in adaptive rounds or at once.

A client: all that it computes is computed of what left by the gate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.adaptive import rounds
from privgram.adaptive.rounds import run_rounds
from privgram.disclosure.laws import Sample  # and with it, laws are registered
from privgram.disclosure.repairs import feasible, impose, repaired
from privgram.mechanisms import AdaptiveGaussian, MatrixLaplace, Mechanism
from privgram.mechanisms.additive import AnalyzeGauss
from privgram.moment import SecondMoment
from privgram.noise import GaussianLaw
from privgram.secret.gate import Gate, Noisy, Sum
from privgram.secret.kinds import Histogram, Model, Outer
from privgram.secret.sweep import Image

if TYPE_CHECKING:
    from collections.abc import Hashable

    from privgram._base.numbers import Matrix, Vector
    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.mechanisms import Calibration
    from privgram.mechanisms.adaptive import AdaptiveGaussianCalibration
    from privgram.secret.kinds import Kind

#: Noise on more known zeros, to be set to zero next, takes longer than all the rest.
MANY_ZEROS = 1 << 18


def sample_release(
    mechanism: Mechanism,
    moment: SecondMoment,
    noise: Calibration,
    gate: Gate,
    part: Hashable = None,
    share: float = 1.0,
) -> Sample:
    """Release a second moment by a gate that was opened for this noise, or a part of its share."""
    if isinstance(mechanism, AdaptiveGaussian):
        table = TableRounds(moment, noise, gate, share)  # type: ignore[arg-type]
        matrix, law = run_rounds(mechanism, table)
        if isinstance(law, GaussianLaw):  # as of one round: what is known of it takes off noise
            matrix, law = impose(matrix, law, moment.columns)
        return Sample(matrix, law, table.parameters)
    total = gate.adopt(moment, part)
    if isinstance(mechanism, AnalyzeGauss):
        zeros = moment.n_known_zeros > MANY_ZEROS
        triangular = mechanism.noise == "triangular"
        matrix = gate.release(total, share, triangular=triangular, zeros=zeros).values
        return repaired(mechanism, matrix, noise, moment.columns, zeros)  # type: ignore[arg-type]
    sample: Sample = gate.once(mechanism, total)
    if isinstance(mechanism, MatrixLaplace) and mechanism.repair != "none":
        matrix, moved = feasible(sample.matrix, noise)
        return replace(sample, matrix=matrix, parameters={"moved": moved})
    return sample


class TableRounds(rounds.AdaptiveRounds):
    """Rounds over a secret table: a client of its gate.

    What decides a round is in `privgram.adaptive.rounds`; this is what it is applied to.
    """

    def __init__(
        self, moment: Any, noise: AdaptiveGaussianCalibration, gate: Gate, whole: float = 1.0
    ) -> None:
        super().__init__(moment, noise, gate.rereads)
        self.gate = gate
        self._whole = whole  # the share of the gate's budget that `noise` is of
        self._radius: float | None = None  # of sums that the next histogram's pass makes too
        self._sums: Sum | None = None

    @property
    def has_many_zeros(self) -> bool:
        """Whether noise on all known zeros would take long."""
        return bool(self.moment.n_known_zeros > MANY_ZEROS)

    def release(self, total: Sum, share: float, zeros: bool = False) -> Noisy:
        """Release a sum for a share of what these rounds have."""
        return self.gate.release(total, share * self._whole, zeros=zeros)

    def prepare(self, radius: float) -> None:
        """Have the next histogram's pass add up the rows too: of a round that may be taken."""
        self._radius = radius

    def take(self, moment: Any, share: float) -> Matrix:
        """Release a sum over rows with isotropic noise."""
        total = moment if isinstance(moment, Sum) else self.gate.adopt(moment)
        kind = total.kind
        assert isinstance(kind, Outer)
        noisy = self.release(total, share, self.has_bare_zeros)
        self.std.append(noisy.std)
        parameters = self.parameters
        parameters["rounds"] += 1
        parameters["round_mu"].append(noisy.mu)
        parameters["round_radius"].append(kind.radius)
        parameters["round_noise_std"].append(noisy.std)
        return np.asarray(noisy.values)

    def count(self, frame: WhiteningTransform, edges: Vector, share: float) -> Vector:
        """Release about how many rows have numbers longer than each edge."""
        model = Model.features(len(frame.matrix[frame.numbers]))
        kinds: list[Kind] = [Histogram(model, np.append(edges, np.inf))]
        if self._radius is not None:
            kinds.append(_outer(frame, self._radius, model))
        counts, *more = self.gate.read(self._image(frame), *kinds)
        self._sums, self._radius = more[0] if more else None, None
        noisy = self.release(counts, share)
        self.parameters["counts_mu"].append(noisy.mu)
        return np.asarray(noisy.values)

    def noisy(self, counted: Any, share: float) -> tuple[Vector, float]:
        """Whole counts with noise, and how much."""
        noisy = self.release(self.gate.adopt(counted), share)
        self.parameters["counts_mu"].append(noisy.mu)
        return noisy.values, noisy.std

    def number(self, share: float) -> float:
        """Release the number of rows, roughly."""
        noisy = self.release(self.gate.adopt(self.moment).rows, share)
        rows = float(noisy.values[0])
        self.parameters |= {"number_mu": noisy.mu, "rows_std": noisy.std, "rows": rows}
        return rows

    def mapped(self, frame: WhiteningTransform, radius: float) -> Sum:
        """The second moment in a frame, of rows clipped to a radius there."""
        total, self._sums = self._sums, None
        if total is None:
            model = Model.features(len(frame.matrix[frame.numbers]))
            [total] = self.gate.read(self._image(frame), _outer(frame, radius, model))
        return total

    def _image(self, frame: WhiteningTransform) -> Image:
        starts = [start for start, *_ in frame.levels]
        return Image(frame.matrix[frame.numbers], float(self.moment.bound), starts)


def _outer(frame: WhiteningTransform, radius: float, model: Model) -> Outer:
    """What adds up rows in a frame, clipped to a radius."""
    if not frame.levels:
        return Outer(model, radius)
    return Outer(model, radius, beside=frame.levels, positions=frame.numbers.tolist())
