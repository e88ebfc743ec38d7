"""SECRET. Draws that are no Gaussian noise on a sum: each is trusted for its own profile.

Additive Wishart and matrix Laplace noise, and the choice of a bin by the exponential mechanism. The
papers register theirs. A gate enters the price, and then asks for the draw, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import singledispatch
from typing import TYPE_CHECKING

from privgram.exact import int128, rounding, variates
from privgram.mechanisms import AdditiveWishart, MatrixLaplace, Mechanism

if TYPE_CHECKING:
    import numpy as np

    from privgram._base.numbers import Adjacency, Matrix
    from privgram.mechanisms import Calibration
    from privgram.mechanisms.additive import MatrixLaplaceCalibration, WishartCalibration
    from privgram.moment import SecondMoment
    from privgram.noise import NoiseLaw


@dataclass(frozen=True, eq=False)
class Sample:
    """What a mechanism releases: the matrix, the law of its noise, and what it says of both."""

    matrix: Matrix
    law: NoiseLaw
    parameters: Mapping[str, object] = field(default_factory=dict)
    sketch: Matrix | None = None


@singledispatch
def draw(
    mechanism: Mechanism, moment: SecondMoment, noise: Calibration, rng: np.random.Generator
) -> Sample:
    """Draw what is released; a mechanism of another room registers its draw there."""
    raise TypeError(f"there is no draw for {type(mechanism).__name__}")


@draw.register(AdditiveWishart)
def draw_additive_wishart(
    mechanism: AdditiveWishart,
    moment: SecondMoment,
    noise: WishartCalibration,
    rng: np.random.Generator,
) -> Sample:
    """Draw Wishart noise."""
    matrix = add_bartlett_noise(moment, noise, variates.bartlett(rng, noise.dof, moment.n_columns))
    return Sample(matrix, noise.law)


@draw.register(MatrixLaplace)
def draw_matrix_laplace(
    mechanism: MatrixLaplace,
    moment: SecondMoment,
    noise: MatrixLaplaceCalibration,
    rng: np.random.Generator,
) -> Sample:
    """Draw the difference of two Wishart matrices."""
    plus, minus = (variates.bartlett(rng, noise.dof, moment.n_columns) for _ in range(2))
    return Sample(add_bartlett_noise(moment, noise, plus, minus), noise.law)


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


def quantile_losses(
    counts: list[int], quantile: float, adjacency: Adjacency
) -> tuple[list[int], int]:
    """By how many rows each grid point misses the quantile, and how much one row can change it.

    Both in units of the quantile's denominator, which makes them integers.
    """
    # As it was written: 0.95 is 19/20, not the float next to it.
    part = Fraction(repr(quantile))
    total, below, losses = sum(counts), 0, []
    target = part.numerator * total
    for count in counts:
        above = below + count
        losses.append(max(0, part.denominator * below - target, target - part.denominator * above))
        below = above
    if adjacency == "replace":
        return losses, part.denominator
    return losses, max(part.numerator, part.denominator - part.numerator)
