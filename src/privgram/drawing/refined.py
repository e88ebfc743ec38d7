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
from privgram.moment.mapped import Mapped
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
        self._sums: Accumulator | None = None

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
        """Release the number of rows between squared radii; with the noise of the numbers."""
        lengths = np.sqrt(grid)
        if self._radius is None:
            counted = self.read(frame, partial(NormCounts, grid=lengths))
        else:
            both = self.read(frame, partial(Both, grid=lengths, radius=self._radius))
            counted, self._sums, self._radius = both.counts, both.sums, None
        return self.noisy(counted, share)

    def noisy(self, counted: Any, share: float) -> tuple[Vector, float]:
        """Whole counts with noise, and how much; a row counts once at most."""
        std = self.noise.counts_std(self.mu(share))
        # On a grid that the counts are on: a rounding of the ideal release.
        step = 2.0 ** (math.floor(math.log2(std)) - GRID_BITS) if std < 2.0**GRID_BITS else 1.0
        drawn = np.rint(self.rng.normal(scale=std, size=len(counted.counts)) / step) * step
        self.record["parameters"]["counts_mu"].append(self.mu(share))
        return counted.counts + drawn, std

    def number(self, share: float) -> float:
        """Release the number of rows, roughly."""
        self.record["parameters"]["number_mu"] = self.mu(share)
        std = self.noise.counts_std(self.mu(share))
        return float(self.moment.n_rows + np.rint(self.rng.normal(scale=std)))

    def mapped(self, frame: Frame, radius: float) -> SecondMoment:
        """The exact second moment in a frame, of rows clipped to a radius there: SECRET."""
        total, self._sums = self._sums, None
        if total is None:
            total = self.read(frame, partial(Accumulator, bound=radius))
        return SecondMoment.from_accumulator(total, None, None)

    def read(self, frame: Frame, new: Callable[[int], Any]) -> Any:
        """Feed an accumulator the rows in a frame; the table must be the one of before."""
        assert self.reread is not None
        look = self.reread(partial(_look, frame.matrix, float(self.moment.bound), new))
        if look.n_rows + look.n_dropped != self.moment.n_rows + self.moment.n_dropped:
            raise OSError(
                "the table has changed between two looks at it, and the release is lost: its "
                "noise was drawn. Release again from a table that nobody writes to"
            )
        return look.inner


class Both:
    """Rows clipped and added up, and counted by their lengths, in one pass."""

    def __init__(self, n_columns: int, grid: Vector, radius: float) -> None:
        self.n_columns = n_columns
        self.sums = Accumulator(n_columns, radius)
        self.counts = NormCounts(n_columns, grid)

    def update(self, block: Any, drop: bool = False) -> int:
        """Take the rows of a block; see `privgram._core.rows.Accumulator.update`."""
        bad = self.counts.update(block, drop)
        return self.sums.update(block, drop) if bad < 0 else bad

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


def _look(frame: Matrix, bound: float, new: Callable[[int], Any], n_columns: int) -> Mapped:
    """Make what adds up images of rows: by name, or workers would not find it."""
    return Mapped(frame, bound, new(n_columns))
