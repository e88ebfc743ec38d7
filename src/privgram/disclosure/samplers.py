"""From a second moment behind a gate to what is released: repairs, and the adaptive rounds.

A client: all that it computes is computed of what left by the gate.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privgram.adaptive import rounds
from privgram.adaptive.rounds import run_rounds
from privgram.disclosure.laws import Sample, is_definite  # and with it, laws are registered
from privgram.mechanisms import AdaptiveGaussian, MatrixLaplace, Mechanism
from privgram.mechanisms.additive import AnalyzeGauss
from privgram.moment import SecondMoment
from privgram.noise import GaussianLaw, MaskedLaw, TiedLaw, symmetric_gaussian
from privgram.secret.gate import Gate, Noisy, Sum
from privgram.secret.kinds import Histogram, Model, Outer
from privgram.secret.sweep import Image

if TYPE_CHECKING:
    from collections.abc import Hashable

    from privgram._base.numbers import Matrix, Vector
    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.columns import Columns
    from privgram.mechanisms import Calibration
    from privgram.mechanisms.adaptive import AdaptiveGaussianCalibration
    from privgram.mechanisms.additive import GaussCalibration
    from privgram.secret.kinds import Kind

#: Gaussian noise, and what is left of it where the matrix is known in part.
Imposed: TypeAlias = GaussianLaw | MaskedLaw | TiedLaw

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


def repaired(
    mechanism: AnalyzeGauss,
    matrix: Matrix,
    noise: GaussCalibration,
    columns: Columns | None,
    zeros: bool,
) -> Sample:
    """Impose what is known on a released matrix, and repair it as the mechanism says.

    It may have its known `zeros` already.
    """
    law: Imposed = rounds.known_of(noise.law, columns)
    if not (zeros and isinstance(law, MaskedLaw)):
        matrix, law = impose(matrix, noise.law, columns)
    if mechanism.repair == "none":
        return Sample(matrix, law)
    if mechanism.repair == "feasible":
        matrix, moved = feasible(matrix, noise)
        return Sample(matrix, law, {"moved": moved})
    if mechanism.repair != "project":
        added, d = 0.0, len(matrix)
        if not is_definite(matrix):
            added = expected_norm(noise.law, d, np.random.default_rng(0))
        return Sample(matrix + added * np.eye(d), _shifted(law, added), {"added": added})
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < 0:
        matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
        matrix = (matrix + matrix.T) / 2
    return Sample(matrix, law)


def impose(matrix: Matrix, law: GaussianLaw, columns: Columns | None) -> tuple[Matrix, Imposed]:
    """Project a release on what the description of its columns says, and tell the law of that.

    Post-processing: the equations are public (`privgram.columns.structure`).
    """
    known = rounds.known_of(law, columns)
    return matrix if isinstance(known, GaussianLaw) else known.project(matrix), known


def _shifted(law: Imposed, added: float) -> Imposed:
    """The law of a release to which a multiple of the identity was added."""
    if isinstance(law, GaussianLaw):
        return replace(law, added=added)
    if isinstance(law, MaskedLaw):
        return replace(law, base=replace(law.base, added=added))
    base = _shifted(law.base, added)
    assert not isinstance(base, TiedLaw)
    return replace(law, base=base)


def feasible(matrix: Matrix, noise: Calibration) -> tuple[Matrix, float]:
    """Second moment of n rows within the bound that is nearest in Frobenius norm, and its distance.

    The matrix (d, d) is symmetric. A bound B limits a row and, where the number of rows is public,
    n B^2 the trace. A matrix that is one already is returned as it was, with 0.0.
    """
    values, vectors = np.linalg.eigh(matrix)
    most = math.inf if noise.n_rows is None else noise.n_rows * noise.bound**2
    feasible_values = np.maximum(values, 0.0)
    if feasible_values.sum() > most:
        # All less by the same, where that leaves them above 0: the projection on a simplex.
        falling = values[::-1]
        less = (np.cumsum(falling) - most) / np.arange(1, len(values) + 1)
        feasible_values = np.maximum(values - less[np.flatnonzero(falling > less)[-1]], 0.0)
    if np.array_equal(feasible_values, values):
        return matrix, 0.0
    nearest = (vectors * feasible_values) @ vectors.T
    return (nearest + nearest.T) / 2, float(np.linalg.norm(feasible_values - values))


def expected_norm(law: GaussianLaw, n_columns: int, rng: np.random.Generator) -> float:
    """E||N|| (spectral norm) of the noise, by simulation from its own law.

    The norm concentrates as d grows (relative spread of order d^(-2/3)), so a
    number of draws inversely proportional to d keeps the error under 1 %.
    """
    draws = max(4, 4096 // n_columns)
    noise = [symmetric_gaussian(n_columns, law.std, law.std_diagonal, rng) for _ in range(draws)]
    return float(np.abs(np.linalg.eigvalsh(noise)).max(axis=1).mean())


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
