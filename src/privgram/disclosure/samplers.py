"""Each mechanism's draw: the secret half of `privgram.mechanisms`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privgram.adaptive import rounds
from privgram.adaptive.rounds import run_rounds
from privgram.exact import int128, rounding, variates
from privgram.mechanisms import AdaptiveGaussian, AdditiveWishart, MatrixLaplace, Mechanism
from privgram.mechanisms.additive import SIDES, AnalyzeGauss
from privgram.moment import SecondMoment
from privgram.noise import (
    GaussianLaw,
    MaskedLaw,
    TiedLaw,
    symmetric_gaussian,
)
from privgram.secret import Gate, Histogram, Image, Model, Outer
from privgram.secret.additive import noisy_entries, noisy_matrix
from privgram.secret.gate import Sum

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.columns import Columns
    from privgram.ledger import Ledger
    from privgram.mechanisms import Calibration
    from privgram.mechanisms.adaptive import AdaptiveGaussianCalibration
    from privgram.mechanisms.additive import (
        GaussCalibration,
        MatrixLaplaceCalibration,
        WishartCalibration,
    )
    from privgram.noise import NoiseLaw
    from privgram.privacy.guarantee import Price
    from privgram.secret.kinds import Kind

#: Gaussian noise, and what is left of it where the matrix is known in part.
Imposed: TypeAlias = GaussianLaw | MaskedLaw | TiedLaw


@dataclass(frozen=True, eq=False)
class Sample:
    """What a mechanism releases: the matrix, the law of its noise, and what it says of both."""

    matrix: Matrix
    law: NoiseLaw
    parameters: Mapping[str, object] = field(default_factory=dict)
    sketch: Matrix | None = None


def draw_analyze_gauss(
    mechanism: AnalyzeGauss, moment: SecondMoment, noise: GaussCalibration, rng: np.random.Generator
) -> Sample:
    """Draw symmetric Gaussian noise, impose what is known, and repair as the mechanism says."""
    law: Imposed
    d = moment.n_columns
    if moment.n_known_zeros > MANY_ZEROS:
        matrix, law = besides_zeros(moment, noise.law, rng)
    else:
        matrix = add_gaussian(moment, noise.law, rng)
        matrix, law = impose(matrix, noise.law, moment.columns)
    if mechanism.repair == "none":
        return Sample(matrix, law)
    if mechanism.repair == "feasible":
        matrix, moved = feasible(matrix, noise)
        return Sample(matrix, law, {"moved": moved})
    if mechanism.repair != "project":
        added = 0.0
        if not is_definite(matrix):
            added = expected_norm(noise.law, d, rng)
            added += SIDES[mechanism.repair] * norm_deviation(noise.law, noise.delta)
            added = max(added, 0.0)
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


def draw_additive_wishart(
    mechanism: AdditiveWishart,
    moment: SecondMoment,
    noise: WishartCalibration,
    rng: np.random.Generator,
) -> Sample:
    """Draw Wishart noise, and take off its mean where that leaves the sum positive definite."""
    d = moment.n_columns
    matrix = add_bartlett_noise(moment, noise, variates.bartlett(rng, noise.dof, d))
    subtracted = 0.0
    if mechanism.debias:
        reach = math.sqrt(noise.dof) - math.sqrt(d) - math.sqrt(2 * math.log(4 / noise.delta))
        safe = noise.scale * max(reach, 0.0) ** 2
        tried = (s for s in (noise.mean, safe) if is_definite(matrix, s))
        subtracted = next(tried, 0.0)
    law = replace(noise.law, subtracted=subtracted)
    return Sample(matrix - subtracted * np.eye(d), law, {"subtracted": subtracted})


def draw_matrix_laplace(
    mechanism: MatrixLaplace,
    moment: SecondMoment,
    noise: MatrixLaplaceCalibration,
    rng: np.random.Generator,
) -> Sample:
    """Draw the difference of two Wishart matrices."""
    plus, minus = (variates.bartlett(rng, noise.dof, moment.n_columns) for _ in range(2))
    matrix = add_bartlett_noise(moment, noise, plus, minus)
    if mechanism.repair == "none":
        return Sample(matrix, noise.law)
    matrix, moved = feasible(matrix, noise)
    return Sample(matrix, noise.law, {"moved": moved})


def add_bartlett_noise(
    moment: SecondMoment,
    noise: WishartCalibration | MatrixLaplaceCalibration,
    plus: variates.Variates,
    minus: variates.Variates | None = None,
) -> Matrix:
    """Second moment plus noise of Bartlett's factors, on the noise's public grid: exactly."""
    unit = moment.resolution
    exponent = int128.grid_exponent(noise.noise_std / unit)
    counts = rounding.add_wisharts(moment.int128(), noise.scale / unit, plus, minus, exponent)
    return counts * (unit * 2.0**exponent)


def is_definite(matrix: Matrix, less: float = 0.0) -> bool:
    """Whether a symmetric matrix, less a multiple of the identity, is positive definite."""
    lowered = matrix.copy()
    lowered[np.diag_indices(len(matrix))] -= less
    try:
        np.linalg.cholesky(lowered)
    except np.linalg.LinAlgError:
        return False
    return True


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


def add_gaussian(moment: SecondMoment, law: GaussianLaw, rng: np.random.Generator) -> Matrix:
    """Second moment plus discrete Gaussian noise of a law, on the noise's public grid."""
    unit = moment.resolution
    matrix = noisy_matrix(moment.triangle(), law.std / unit, law.std_diagonal / unit, rng)
    matrix *= unit
    return matrix


#: Noise on more known zeros, to be set to zero next, takes longer than all the rest.
MANY_ZEROS = 1 << 22


def besides_zeros(
    moment: SecondMoment, law: GaussianLaw, rng: np.random.Generator
) -> tuple[Matrix, Imposed]:
    """`impose` on `add_gaussian`, in law, with no noise drawn for the known zeros.

    The noise of one entry is independent of all others', and projecting does not look at zeros.
    """
    unit, d = moment.resolution, moment.n_columns
    (i, j), total = moment.stored()
    drawn = noisy_entries(total, i == j, law.std / unit, law.std_diagonal / unit, rng)
    matrix = np.zeros((d, d))
    matrix[i, j] = matrix[j, i] = unit * drawn
    known = rounds.known_of(law, moment.columns)
    return known.project(matrix) if isinstance(known, TiedLaw) else matrix, known


def expected_norm(law: GaussianLaw, n_columns: int, rng: np.random.Generator) -> float:
    """E||N|| (spectral norm) of the noise, by simulation from its own law.

    The norm concentrates as d grows (relative spread of order d^(-2/3)), so a
    number of draws inversely proportional to d keeps the error under 1 %.
    """
    draws = max(4, 4096 // n_columns)
    noise = [symmetric_gaussian(n_columns, law.std, law.std_diagonal, rng) for _ in range(draws)]
    return float(np.abs(np.linalg.eigvalsh(noise)).max(axis=1).mean())


def norm_deviation(law: GaussianLaw, failure: float) -> float:
    """What ||N|| differs by from its mean, either way, with probability below `failure`.

    ||N|| <= ||N||_F is a Lipschitz function of the independent normals that N is
    made of, with constant max(std_diagonal, sqrt(2) std): Gaussian concentration.
    """
    constant = max(law.std_diagonal, math.sqrt(2.0) * law.std)
    return constant * math.sqrt(2 * math.log(1 / failure))


#: Feeds every row of the table to new accumulators, of rows of so many columns.
Reread: TypeAlias = Callable[[Callable[[int], Any]], Any]


def draw_adaptive_gaussian(
    mechanism: AdaptiveGaussian,
    moment: SecondMoment,
    noise: AdaptiveGaussianCalibration,
    rng: np.random.Generator,
    reread: Reread | None = None,
) -> Sample:
    """Read a table, and read it again, each time in the frame that the releases before teach.

    `moment` is of all its rows, and the table is read again for every further round.
    """
    table = TableRounds(moment, noise, rng, reread)
    matrix, law = run_rounds(mechanism, table)
    if isinstance(law, GaussianLaw):  # as of one round: what is known of it takes off noise
        matrix, law = impose(matrix, law, moment.columns)
    return Sample(matrix, law, table.parameters)


class TableRounds(rounds.AdaptiveRounds):
    """Rounds over a secret table: a client of its gate.

    What decides a round is in `privgram.adaptive.rounds`; this is what it is applied to.
    """

    of_units = False

    def __init__(
        self,
        moment: Any,
        noise: AdaptiveGaussianCalibration,
        rng: np.random.Generator,
        reread: Reread | None,
        ledger: Ledger | None = None,
        price: Price | None = None,
    ) -> None:
        super().__init__(moment, noise, reread is not None)
        n_rows = moment.n_rows + (0 if self.of_units else moment.n_dropped)
        self.gate = Gate(
            noise, rng, reread, of_units=self.of_units, n_rows=n_rows, ledger=ledger, price=price
        )
        self._radius: float | None = None  # of sums that the next histogram's pass makes too
        self._sums: Sum | None = None

    def prepare(self, radius: float) -> None:
        """Have the next histogram's pass add up the rows too: of a round that may be taken."""
        self._radius = radius

    def take(self, moment: Any, share: float) -> Matrix:
        """Release a sum over rows with isotropic noise."""
        total = moment if isinstance(moment, Sum) else self.gate.adopt(moment)
        assert isinstance(total.kind, Outer)
        noisy = self.gate.release(total, share)
        self.std.append(noisy.std)
        parameters = self.parameters
        parameters["rounds"] += 1
        parameters["round_mu"].append(noisy.mu)
        parameters["round_radius"].append(total.kind.radius)
        parameters["round_noise_std"].append(noisy.std)
        return noisy.values

    def count(self, frame: WhiteningTransform, edges: Vector, share: float) -> Vector:
        """Release about how many rows have numbers longer than each edge."""
        model = Model.features(len(frame.matrix[frame.numbers]))
        kinds: list[Kind] = [Histogram(model, np.append(edges, np.inf))]
        if self._radius is not None:
            kinds.append(_outer(frame, self._radius, model))
        counts, *more = self.gate.read(self._image(frame), *kinds)
        self._sums, self._radius = more[0] if more else None, None
        noisy = self.gate.release(counts, share)
        self.parameters["counts_mu"].append(noisy.mu)
        return noisy.values

    def noisy(self, counted: Any, share: float) -> tuple[Vector, float]:
        """Whole counts with noise, and how much."""
        noisy = self.gate.release(self.gate.adopt(counted), share)
        self.parameters["counts_mu"].append(noisy.mu)
        return noisy.values, noisy.std

    def number(self, share: float) -> float:
        """Release the number of rows, roughly."""
        noisy = self.gate.release(self.gate.adopt(self.moment).rows, share)
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


@singledispatch
def draw(
    mechanism: Mechanism,
    moment: SecondMoment,
    noise: Calibration,
    rng: np.random.Generator,
    **more: Reread,
) -> Sample:
    """Draw what is released.

    `more` is ``reread`` for `AdaptiveGaussian`, which reads the rows again. A mechanism of another
    room registers its draw there.
    """
    raise TypeError(f"there is no draw for {type(mechanism).__name__}")


draw.register(AnalyzeGauss, draw_analyze_gauss)
draw.register(AdditiveWishart, draw_additive_wishart)
draw.register(MatrixLaplace, draw_matrix_laplace)
draw.register(AdaptiveGaussian, draw_adaptive_gaussian)
