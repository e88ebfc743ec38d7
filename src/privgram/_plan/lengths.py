"""How long rows are in the frame of a second look, as far as an earlier release tells."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privgram.mechanisms import Refined
from privgram.mechanisms.refined import Frame, choose_radius, count_sensitivity
from privgram.mechanisms.tails import bins
from privgram.noise import EntryLaw, ImageLaw
from privgram.regression.inference import rows_behind

if TYPE_CHECKING:
    from privgram._base.arrays import Vector
    from privgram._release.record import ReleaseRecord


#: Shapes that are thought of, from far heavier tails than lognormal rows have to none; and halvings
#: of this interval, on a logarithmic scale.
SHAPES, HALVINGS = (0.2, 5.0), 20


def counts(shape: float, grid: Vector, rows: float) -> Vector:
    """Rows up to each squared length of a grid and beyond the one before.

    |z|^2 has a Weibull distribution, whose mean is the first of the grid: the shape is 1 for
    exponential tails, and less for longer ones. No row is longer than the last.
    """
    scale = grid[0] / math.gamma(1 + 1 / shape)
    beyond = rows * np.exp(-((grid[:-1] / scale) ** shape))
    found: Vector = -np.diff(beyond, prepend=rows, append=0.0)
    return found


def shape_of(release: ReleaseRecord) -> float | None:
    """The shape with which a release by second looks would have chosen the radius that it did.

    None if it is of one look or says too little. The rule that chose is gone through backwards:
    tails that are too long would have given a larger radius.
    """
    law, said, rows = release.noise, release.parameters, rows_behind(release)
    ours = isinstance(release.mechanism, Refined) and release.mechanism.target is None
    if not (ours and isinstance(law, ImageLaw) and isinstance(law.base, EntryLaw)):
        return None  # or factors are apart, and lengths are of numbers alone
    if "clipping_bias" not in said or not rows:
        return None
    matrix = np.asarray(np.linalg.inv(law.frame), dtype=np.float64)
    typical = float(np.trace(matrix @ release.matrix @ matrix.T)) / rows
    frame = Frame(matrix, max(typical, 1.0), 1.0)
    grid = bins(frame.typical, frame.largest(release.bound))
    square = said["look_radius"][-1] ** 2
    counts_std = count_sensitivity(release.adjacency) / said["counts_mu"][-1]
    noise = said["look_noise_std"][-1] / square
    low, high = map(math.log, SHAPES)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        expected = counts(math.exp(middle), grid, rows)
        choice = choose_radius(expected, grid, counts_std, noise, rows)
        low, high = (middle, high) if choice.square > square else (low, middle)
    return math.exp((low + high) / 2)
