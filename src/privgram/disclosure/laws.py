"""SECRET. Draws of matrix Laplace noise, trusted for its own profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privgram.exact import int128, rounding, variates
from privgram.mechanisms import MatrixLaplace
from privgram.secret.laws import Sample, draw

if TYPE_CHECKING:
    import numpy as np

    from privgram.mechanisms.additive import MatrixLaplaceCalibration
    from privgram.moment import SecondMoment


@draw.register(MatrixLaplace)
def draw_matrix_laplace(
    mechanism: MatrixLaplace,
    moment: SecondMoment,
    noise: MatrixLaplaceCalibration,
    rng: np.random.Generator,
) -> Sample:
    """Draw the difference of two Wishart matrices."""
    plus, minus = (variates.bartlett(rng, noise.dof, moment.n_columns) for _ in range(2))
    unit = moment.resolution
    exponent = int128.grid_exponent(noise.noise_std / unit)
    counts = rounding.add_wisharts(moment.int128(), noise.scale / unit, plus, minus, exponent)
    return Sample(counts * (unit * 2.0**exponent), noise.law)
