"""SECRET. Draws of additive Wishart and matrix Laplace noise, each trusted for its own profile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from privgram.exact import int128, rounding, variates
from privgram.mechanisms import AdditiveWishart, MatrixLaplace
from privgram.secret.gate import draw

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from privgram._base.numbers import Matrix
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
