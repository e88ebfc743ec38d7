"""Second looks at a table: each in the frame that the releases before it teach.

What decides a look is in `privgram.mechanisms.looks`; this is what it is applied to. Secret side:
of what is read here only the noisy sums leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privgram._core.rows import Accumulator
from privgram.drawing.additive import add_noise, impose
from privgram.drawing.norm_bound import NormCounts
from privgram.exact.limbs import GRID_BITS
from privgram.mechanisms import looks
from privgram.mechanisms.looks import take_looks
from privgram.moment import SecondMoment
from privgram.moment.mapped import Levelled, Mapped
from privgram.noise import GaussianLaw, symmetric_gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.mechanisms.refined import Frame, Refined, RefinedCalibration
    from privgram.noise import NoiseLaw

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["Looks", "Reread", "refined", "take_looks"]

#: Feeds every row of the table to new accumulators, of rows of so many columns.
Reread: TypeAlias = Callable[[Callable[[int], Any]], Any]


def refined(
    mechanism: Refined,
    moment: SecondMoment,
    noise: RefinedCalibration,
    rng: np.random.Generator,
    reread: Reread | None = None,
) -> tuple[Matrix, NoiseLaw, dict[str, Any]]:
    """Look at a table, and look again; what `privgram.drawing.draws.draw` gives.

    `moment` is of all its rows, and the table is read again for every further look.
    """
    matrix, law, record = take_looks(mechanism, Looks(moment, noise, rng, reread))
    if isinstance(law, GaussianLaw):  # as of one look: what is known of it takes off noise
        matrix, law = impose(matrix, law, moment.columns)
    return matrix, law, record


class Looks(looks.Looks):
    """Looks at a secret table."""

    def __init__(
        self,
        moment: SecondMoment,
        noise: RefinedCalibration,
        rng: np.random.Generator,
        reread: Reread | None,
    ) -> None:
        super().__init__(moment, noise, reread is not None)
        self.rng = rng
        self.reread = reread
        self._radius: float | None = None  # of sums that the next histogram's pass makes too
        self._sums: Accumulator | Levelled | None = None

    def prepare(self, radius: float) -> None:
        """Have the next histogram's pass add up the rows too: of a look that may be taken."""
        self._radius = radius

    def take(self, moment: SecondMoment, share: float) -> Matrix:
        """Release a sum over rows with isotropic noise."""
        std = self.std_at(moment.sensitivity_bound, share)
        draw = symmetric_gaussian(moment.n_columns, std, math.sqrt(2.0) * std, self.rng)
        released = add_noise(moment, draw, std)
        self.std.append(std)
        parameters = self.record["parameters"]
        parameters["looks"] += 1
        parameters["look_mu"].append(self.mu(share))
        parameters["look_radius"].append(float(moment.bound))
        parameters["look_noise_std"].append(std)
        return released

    def count(self, frame: Frame, grid: Vector, share: float) -> tuple[Vector, float]:
        """Release how many rows have numbers between squared radii; with the noise of that."""
        lengths = np.sqrt(grid)
        if self._radius is None:
            counted = self.read(frame, partial(NormCounts, grid=lengths))
        else:
            new = partial(Both, grid=lengths, new=_sums(frame, self._radius))
            both = self.read(frame, new)
            counted, self._sums, self._radius = both.counts, both.sums, None
        return self.noisy(counted, share)

    def noisy(self, counted: Any, share: float, most: int = 1) -> tuple[Vector, float]:
        """Whole counts with noise, and how much; a row counts at most so much."""
        std = most * self.noise.counts_std(self.mu(share))
        # On a grid that the counts are on: a rounding of the ideal release.
        step = 2.0 ** (math.floor(math.log2(std)) - GRID_BITS) if std < 2.0**GRID_BITS else 1.0
        drawn = np.rint(self.rng.normal(scale=std, size=len(counted.counts)) / step) * step
        self.record["parameters"]["counts_mu"].append(self.mu(share))
        return counted.counts + drawn, std

    def number(self, share: float) -> float:
        """Release the number of rows, roughly."""
        self.record["parameters"]["number_mu"] = self.mu(share)
        std = self.noise.counts_std(self.mu(share))
        self.record["parameters"]["rows_std"] = std
        rows = float(self.moment.n_rows + np.rint(self.rng.normal(scale=std)))
        self.record["parameters"]["rows"] = rows
        return rows

    def mapped(self, frame: Frame, radius: float) -> SecondMoment:
        """The exact second moment in a frame, of rows clipped to a radius there: SECRET."""
        total, self._sums = self._sums, None
        if total is None:
            total = self.read(frame, _sums(frame, radius))
        sums = total.total if isinstance(total, Levelled) else total
        return SecondMoment.from_accumulator(sums, None, None)

    def read(self, frame: Frame, new: Callable[[int], Any]) -> Any:
        """Feed an accumulator the rows in a frame; the table must be the one of before."""
        assert self.reread is not None
        matrix = frame.matrix[frame.numbers]
        levels = [start for start, *_ in frame.levels]
        look = self.reread(partial(_look, matrix, float(self.moment.bound), new, levels))
        if look.n_rows + look.n_dropped != self.moment.n_rows + self.moment.n_dropped:
            raise OSError(
                "the table has changed between two looks at it, and the release is lost: its "
                "noise was drawn. Release again from a table that nobody writes to"
            )
        return look.inner


class Both:
    """Rows clipped and added up, and counted by their lengths, in one pass."""

    def __init__(self, n_columns: int, grid: Vector, new: Callable[[int], Any]) -> None:
        self.n_columns = n_columns
        self.sums = new(n_columns)
        self.counts = NormCounts(n_columns, grid)
        self.by_levels = isinstance(self.sums, Levelled)

    def update(self, block: Any, drop: bool = False, *levels: Any) -> int:
        """Take the rows of a block; see `privgram.moment.mapped.Mapped`."""
        bad = self.counts.update(block, drop)
        return int(self.sums.update(block, drop, *levels)) if bad < 0 else bad

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return int(self.sums.n_rows)

    @property
    def n_dropped(self) -> int:
        """Rows left out."""
        return int(self.sums.n_dropped)

    def merge(self, other: Both) -> None:
        """Add the rows of another."""
        self.sums.merge(other.sums)
        self.counts.merge(other.counts)


def _sums(frame: Frame, radius: float) -> Callable[[int], Any]:
    """Make what adds up rows in a frame, clipped to a radius."""
    if frame.levels:
        return partial(_levelled, frame.numbers.tolist(), frame.levels, radius)
    return partial(Accumulator, bound=radius)


def _levelled(numbers: list[int], levels: Any, radius: float, _: int) -> Levelled:
    return Levelled(numbers, levels, radius)


def _look(
    matrix: Matrix, bound: float, new: Callable[[int], Any], levels: list[int], _: int
) -> Mapped:
    """Make what adds up images of rows: by name, or workers would not find it."""
    inner = new(len(matrix))
    return Mapped(matrix, bound, inner, levels if getattr(inner, "by_levels", False) else ())
