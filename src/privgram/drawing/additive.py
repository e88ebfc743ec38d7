"""Second moment plus noise: Analyze Gauss, additive Wishart and matrix Laplace."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privgram.columns.structure import ties, zeros
from privgram.drawing import discrete
from privgram.exact import certified, limbs, variates
from privgram.mechanisms.analyze_gauss import SIDES, AnalyzeGauss
from privgram.noise import (
    GaussianLaw,
    MaskedLaw,
    MatrixLaplaceLaw,
    TiedLaw,
    WishartLaw,
    imposed,
    standard_wishart,
    symmetric_gaussian,
)
from privgram.noise import matrix_laplace as matrix_laplace_noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.columns import Columns
    from privgram.mechanisms import Calibration, Mechanism
    from privgram.mechanisms.additive_wishart import AdditiveWishart, WishartCalibration
    from privgram.mechanisms.analyze_gauss import GaussCalibration
    from privgram.mechanisms.matrix_laplace import MatrixLaplace, MatrixLaplaceCalibration
    from privgram.moment import SecondMoment

#: Gaussian noise, and what is left of it where the matrix is known in part.
Imposed: TypeAlias = GaussianLaw | MaskedLaw | TiedLaw


def analyze_gauss(
    mechanism: AnalyzeGauss, moment: SecondMoment, noise: GaussCalibration, rng: np.random.Generator
) -> tuple[NDArray[np.float64], Imposed, dict[str, Any]]:
    """Draw symmetric Gaussian noise, impose what is known, and repair as the mechanism says."""
    law: Imposed = noise.law
    d = moment.n_columns
    if mechanism.noise == "discrete":
        matrix = _add_discrete(moment, noise)
    else:
        draw = symmetric_gaussian(d, noise.law.std, noise.law.std_diagonal, rng)
        matrix = add_noise(moment, draw, noise.noise_std)
    matrix, law = impose(matrix, noise.law, moment.columns)
    if mechanism.repair == "none":
        return matrix, law, {}
    if mechanism.repair == "feasible":
        matrix, moved = feasible(matrix, noise)
        return matrix, law, {"parameters": {"moved": moved}}
    if mechanism.repair != "project":
        added = 0.0
        if np.linalg.eigvalsh(matrix)[0] <= 0:
            added = expected_norm(noise.law, d, rng)
            added += SIDES[mechanism.repair] * norm_deviation(noise.law, noise.delta)
            added = max(added, 0.0)
        return (
            matrix + added * np.eye(d),
            _shifted(law, added),
            {"parameters": {"added": added}},
        )
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < 0:
        matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
        matrix = (matrix + matrix.T) / 2
    return matrix, law, {}


def impose(
    matrix: NDArray[np.float64], law: GaussianLaw, columns: Columns | None
) -> tuple[NDArray[np.float64], Imposed]:
    """Project a release on what the description of its columns says, and tell the law of that.

    Post-processing: the equations are public (`privgram.columns.structure`).
    """
    if columns is None or not (blocks := zeros(columns.layout)):
        return matrix, law
    known = imposed(law, blocks, ties(columns.layout))
    assert not isinstance(known, GaussianLaw)
    return known.project(matrix), known


def _shifted(law: Imposed, added: float) -> Imposed:
    """The law of a release to which a multiple of the identity was added."""
    if isinstance(law, GaussianLaw):
        return replace(law, added=added)
    if isinstance(law, MaskedLaw):
        return replace(law, base=replace(law.base, added=added))
    base = _shifted(law.base, added)
    assert not isinstance(base, TiedLaw)
    return replace(law, base=base)


def _add_discrete(moment: SecondMoment, noise: GaussCalibration) -> NDArray[np.float64]:
    # More than the calibrated noise by 2^-40, which pays for the rounding of these numbers.
    steps = (1 + 2.0**-40) / moment.unit
    if noise.noise_std * steps < noise.privacy.std:  # type: ignore[attr-defined]
        raise ValueError("noise='discrete' needs a second moment of 20 bits or more")
    draw = discrete.symmetric(
        moment.n_columns, noise.noise_std * steps, noise.noise_std_diagonal * steps
    )
    return add_integers(moment, limbs.from_int64(draw), noise.noise_std)


def additive_wishart(
    mechanism: AdditiveWishart,
    moment: SecondMoment,
    noise: WishartCalibration,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], WishartLaw, dict[str, Any]]:
    """Draw Wishart noise, and take off its mean where that leaves the sum positive definite."""
    d = moment.n_columns
    draw = noise.scale * standard_wishart(d, noise.dof, rng)
    matrix = add_noise(moment, draw, noise.noise_std)
    subtracted = 0.0
    if mechanism.debias:
        smallest = np.linalg.eigvalsh(matrix)[0]
        reach = math.sqrt(noise.dof) - math.sqrt(d) - math.sqrt(2 * math.log(4 / noise.delta))
        safe = noise.scale * max(reach, 0.0) ** 2
        subtracted = next((s for s in (noise.mean, safe) if s < smallest), 0.0)
    return (
        matrix - subtracted * np.eye(d),
        replace(noise.law, subtracted=subtracted),
        {"parameters": {"subtracted": subtracted}},
    )


def matrix_laplace(
    mechanism: MatrixLaplace,
    moment: SecondMoment,
    noise: MatrixLaplaceCalibration,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], MatrixLaplaceLaw, dict[str, Any]]:
    """Draw the difference of two Wishart matrices."""
    if mechanism.draws == "exact" or (mechanism.draws == "auto" and noise.delta == 0.0):
        matrix = _add_exact(moment, noise, rng)
    else:
        draw = noise.scale * matrix_laplace_noise(moment.n_columns, noise.dof, rng)
        matrix = add_noise(moment, draw, noise.noise_std)
    if mechanism.repair == "none":
        return matrix, noise.law, {}
    matrix, moved = feasible(matrix, noise)
    return matrix, noise.law, {"parameters": {"moved": moved}}


def _add_exact(
    moment: SecondMoment, noise: MatrixLaplaceCalibration, rng: np.random.Generator
) -> NDArray[np.float64]:
    unit = moment.unit
    exponent = limbs.grid_exponent(noise.noise_std / unit)
    plus, minus = (variates.bartlett(rng, noise.dof, moment.n_columns) for _ in range(2))
    counts = certified.add_wisharts(moment.limbs(), noise.scale / unit, plus, minus, exponent)
    return counts * (unit * 2.0**exponent)


def feasible(matrix: NDArray[np.float64], noise: Calibration) -> tuple[NDArray[np.float64], float]:
    """Second moment of n rows within the bound that is nearest in Frobenius norm, and its distance.

    The matrix (d, d) is symmetric. A bound B limits a row and, where the number of rows is public,
    n B^2 the trace. A matrix that is one already is returned as it was, with 0.0.
    """
    values, vectors = np.linalg.eigh(matrix)
    most = math.inf if noise.n_rows is None else noise.n_rows * noise.bound**2
    kept = np.maximum(values, 0.0)
    if kept.sum() > most:
        # All less by the same, where that leaves them above 0: the projection on a simplex.
        falling = values[::-1]
        less = (np.cumsum(falling) - most) / np.arange(1, len(values) + 1)
        kept = np.maximum(values - less[np.flatnonzero(falling > less)[-1]], 0.0)
    if np.array_equal(kept, values):
        return matrix, 0.0
    nearest = (vectors * kept) @ vectors.T
    return (nearest + nearest.T) / 2, float(np.linalg.norm(kept - values))


def add_noise(
    moment: SecondMoment, noise: NDArray[np.float64], noise_std: float
) -> NDArray[np.float64]:
    """Second moment plus symmetric noise (d, d), in its units, on the noise's public grid.

    The grid is set by `noise_std`, its standard deviation off the diagonal.
    """
    return add_integers(moment, limbs.to_limbs(noise / moment.unit), noise_std)


def add_integers(moment: SecondMoment, noise: limbs.Limbs, noise_std: float) -> NDArray[np.float64]:
    """Second moment plus noise in integer multiples of its unit; see `add_noise`."""
    unit = moment.unit
    exponent = limbs.grid_exponent(noise_std / unit)
    total = limbs.add(moment.limbs(), noise)
    steps = limbs.round_to_grid(total, exponent)
    return steps * (unit * 2.0**exponent)


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


def check_generator(mechanism: Mechanism, rng: np.random.Generator | None) -> None:
    """Raise if noise cannot be drawn with this generator, before any budget is spent."""
    if not (isinstance(mechanism, AnalyzeGauss) and mechanism.noise == "discrete"):
        return
    if rng is not None:
        raise ValueError(
            "noise='discrete' is drawn by OpenDP, whose generator takes no seed: leave the "
            "generator out, or take noise='symmetric', of the same law but for its rounding"
        )
    discrete.opendp()
