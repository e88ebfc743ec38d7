"""SECRET. Draws of matrix Laplace noise, trusted for its own profile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from privgram.exact import int128, rounding, variates
from privgram.mechanisms import MatrixLaplace
from privgram.secret.gate import draw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privgram._base.numbers import Matrix
    from privgram.mechanisms.additive import MatrixLaplaceCalibration
    from privgram.moment import SecondMoment
    from privgram.noise import NoiseLaw


@dataclass(frozen=True, eq=False)
class Sample:
    """What a mechanism releases: the matrix, the law of its noise, and what it says of both."""

    matrix: Matrix
    law: NoiseLaw
    parameters: Mapping[str, object] = field(default_factory=dict)
    sketch: Matrix | None = None


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


def is_definite(matrix: Matrix) -> bool:
    """Whether a symmetric matrix is positive definite."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True
