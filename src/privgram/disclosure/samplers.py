"""Each mechanism's draw: the secret half of `privgram.mechanisms`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, singledispatch
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privgram._base.files import check_process
from privgram._core.rows import RowAccumulator
from privgram.adaptive import rounds
from privgram.adaptive.radius import cumulative_counts, weighted_counts
from privgram.adaptive.rounds import run_rounds
from privgram.disclosure.additive import noisy_entries, noisy_matrix, noisy_sums
from privgram.disclosure.norm_bound import NormCounts
from privgram.exact import int128, rounding, variates
from privgram.mechanisms import AdaptiveGaussian, AdditiveWishart, MatrixLaplace, Mechanism
from privgram.mechanisms.additive import SIDES, AnalyzeGauss
from privgram.moment import SecondMoment
from privgram.moment.accumulators import FactorAccumulator, MappedAccumulator, TransformAccumulator
from privgram.noise import (
    GaussianLaw,
    MaskedLaw,
    TiedLaw,
    symmetric_gaussian,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.columns import Columns
    from privgram.mechanisms import Calibration
    from privgram.mechanisms.adaptive import AdaptiveGaussianCalibration
    from privgram.mechanisms.additive import (
        GaussCalibration,
        MatrixLaplaceCalibration,
        WishartCalibration,
    )
    from privgram.noise import NoiseLaw

CHANGED = "it has changed meanwhile"

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
    """Rounds over a secret table, of which only noisy sums leave.

    What decides a round is in `privgram.adaptive.rounds`; this is what it is applied to.
    """

    def __init__(
        self,
        moment: SecondMoment,
        noise: AdaptiveGaussianCalibration,
        rng: np.random.Generator,
        reread: Reread | None,
    ) -> None:
        super().__init__(moment, noise, reread is not None)
        self.rng = rng
        self.reread = reread
        self._radius: float | None = None  # of sums that the next histogram's pass makes too
        self._sums: RowAccumulator | FactorAccumulator | None = None

    def prepare(self, radius: float) -> None:
        """Have the next histogram's pass add up the rows too: of a round that may be taken."""
        self._radius = radius

    def take(self, moment: SecondMoment, share: float) -> Matrix:
        """Release a sum over rows with isotropic noise."""
        std = self.std_at(moment.sensitivity_bound, share)
        released = add_gaussian(moment, GaussianLaw.isotropic(std), self.rng)
        self.std.append(std)
        parameters = self.parameters
        parameters["rounds"] += 1
        parameters["round_mu"].append(self.mu(share))
        parameters["round_radius"].append(float(moment.bound))
        parameters["round_noise_std"].append(std)
        return released

    def count(self, frame: WhiteningTransform, edges: Vector, share: float) -> Vector:
        """Release about how many rows have numbers longer than each edge."""
        grid = np.append(edges, np.inf)
        if self._radius is None:
            counted = self.read(frame, partial(NormCounts, grid=grid))
        else:
            new = partial(SumAndCounts, grid=grid, new=_sums(frame, self._radius))
            both = self.read(frame, new)
            counted, self._sums, self._radius = both.counts, both.inner, None
        weighted = weighted_counts(counted.counts[1:])
        return cumulative_counts(self._noisy(weighted, self.ranked_std(len(edges), share), share))

    def noisy(self, counted: Any, share: float) -> tuple[Vector, float]:
        """Whole counts with noise, and how much."""
        std = self.noise.counts_std(self.mu(share))
        return self._noisy(counted.counts, std, share), std

    def _noisy(self, exact: NDArray[np.int64], std: float, share: float) -> Vector:
        """Whole numbers with noise, for which a share of the budget is spent."""
        self.parameters["counts_mu"].append(self.mu(share))
        return noisy_sums(exact, std, self.rng)

    def number(self, share: float) -> float:
        """Release the number of rows, roughly."""
        self.parameters["number_mu"] = self.mu(share)
        std = self.noise.counts_std(self.mu(share))
        self.parameters["rows_std"] = std
        rows = float(noisy_sums(np.array([self.moment.n_rows]), std, self.rng)[0])
        self.parameters["rows"] = rows
        return rows

    def mapped(self, frame: WhiteningTransform, radius: float) -> SecondMoment:
        """The exact second moment in a frame, of rows clipped to a radius there: SECRET."""
        total, self._sums = self._sums, None
        if total is None:
            total = self.read(frame, _sums(frame, radius))
        sums = total.inner if isinstance(total, FactorAccumulator) else total
        return SecondMoment.from_accumulator(sums, None, None)

    def _again(self, new: Callable[[int], Any]) -> Any:
        """Read the table again; `UnreadError` if that fails, after the spend and for any reason."""
        assert self.reread is not None
        pid = os.getpid()
        try:
            return self.reread(new)
        except Exception as error:
            check_process(pid)
            raise rounds.UnreadError(type(error).__name__) from error

    def read(self, frame: WhiteningTransform, new: Callable[[int], Any]) -> Any:
        """Feed an accumulator the rows in a frame; the table must be the one of before."""
        matrix = frame.matrix[frame.numbers]
        levels = [start for start, *_ in frame.levels]
        mapped = self._again(partial(_mapped, matrix, float(self.moment.bound), new, levels))
        if mapped.n_rows + mapped.n_dropped != self.moment.n_rows + self.moment.n_dropped:
            raise rounds.UnreadError(CHANGED)
        return mapped.inner


class SumAndCounts(TransformAccumulator):
    """Rows clipped and added up, and counted by their lengths, in one pass."""

    parts = ("inner", "counts")

    def __init__(self, n_columns: int, grid: Vector, new: Callable[[int], Any]) -> None:
        self.n_columns = n_columns
        self.inner = new(n_columns)
        self.counts = NormCounts(n_columns, grid)
        self.takes_levels = isinstance(self.inner, FactorAccumulator)

    def update(self, block: Any, drop: bool = False, *levels: Any) -> int:
        """Take the rows of a block; see `privgram.moment.accumulators.MappedAccumulator`."""
        bad = self.counts.update(block, drop)
        return int(self.inner.update(block, drop, *levels)) if bad < 0 else bad


def _sums(frame: WhiteningTransform, radius: float) -> Callable[[int], Any]:
    """Make what adds up rows in a frame, clipped to a radius."""
    if frame.levels:
        return partial(_levelled, frame.numbers.tolist(), frame.levels, radius)
    return partial(RowAccumulator, bound=radius)


def _levelled(numbers: list[int], levels: Any, radius: float, _: int) -> FactorAccumulator:
    return FactorAccumulator(numbers, levels, radius)


def _mapped(
    matrix: Matrix, bound: float, new: Callable[[int], Any], levels: list[int], _: int
) -> MappedAccumulator:
    """Make what adds up images of rows: by name, or workers would not find it."""
    return MappedAccumulator(matrix, bound, new(len(matrix)), levels)


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
