"""SECRET. Draws of Wishart noise, and from the second moment itself: sketches and inverses.

Integers throughout, by `privgram.exact.exact_matmul`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from privgram.disclosure.laws import Sample, is_definite
from privgram.exact import int128, rounding, variates
from privgram.exact.exact_matmul import (
    SLACK,
    DigitDraws,
    DigitMatrix,
    block_slices,
    each,
    gram,
    multiplied,
)
from privgram.exact.rounding import (
    NORM_PAD,
    ROUNDED_BLOCK,
    in_digits,
    product_error,
    settled_counts,
)
from privgram.papers._shared import from_float
from privgram.papers.sheffet import certified
from privgram.papers.sheffet.laws import InverseWishartLaw, SketchLaw
from privgram.papers.sheffet.mechanisms import (
    EIGENVALUE_BITS,
    EIGENVALUE_SLACK,
    KEPT_ENTRIES,
    SENSITIVITY_BITS,
    AdditiveWishart,
    GaussianSketch,
    InverseGauss,
    InverseGaussCalibration,
    InverseWishart,
    MultiplicativeCalibration,
    WishartCalibration,
)
from privgram.papers.sheffet.profiles import AdaptiveLadderProfile
from privgram.papers.sheffet.published import (
    PublishedAdditiveWishart,
    PublishedGaussianSketch,
    PublishedInverseGauss,
    PublishedInverseWishart,
)
from privgram.papers.sheffet.theorems import algorithm_2_rows
from privgram.secret.additive import noisy_matrix
from privgram.secret.gate import draw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.exact.variates import Variates
    from privgram.moment import SecondMoment


@draw.register(PublishedAdditiveWishart)
@draw.register(AdditiveWishart)
def draw_additive_wishart(
    mechanism: AdditiveWishart,
    moment: SecondMoment,
    noise: WishartCalibration,
    rng: np.random.Generator,
) -> Sample:
    """Draw Wishart noise, whose mean is taken off where the sum is positive definite without."""
    d, unit = moment.n_columns, moment.resolution
    factor = variates.bartlett(rng, noise.dof, d)
    exponent = int128.grid_exponent(noise.noise_std / unit)
    counts = rounding.add_wisharts(moment.int128(), noise.scale / unit, factor, None, exponent)
    matrix = counts * (unit * 2.0**exponent)
    if not mechanism.debias:
        return Sample(matrix, noise.law)
    reach = math.sqrt(noise.dof) - math.sqrt(d) - math.sqrt(2 * math.log(4 / noise.delta))
    safe = noise.scale * max(reach, 0.0) ** 2
    tried = (s for s in (noise.mean, safe) if is_definite(matrix - s * np.eye(d)))
    subtracted = next(tried, 0.0)
    law = replace(noise.law, subtracted=subtracted)
    return Sample(matrix - subtracted * np.eye(d), law, {"subtracted": subtracted})


@draw.register(PublishedGaussianSketch)
@draw.register(GaussianSketch)
def gaussian_sketch(
    mechanism: GaussianSketch,
    moment: SecondMoment,
    noise: MultiplicativeCalibration,
    rng: np.random.Generator,
) -> Sample:
    """Draw a sketch, by its rows where they are kept or too few for a Wishart matrix."""
    adjusted = adjust(moment, noise, rng)
    rows, d = int(adjusted.dof), moment.n_columns
    law = SketchLaw(rows, adjusted.regulariser * moment.resolution)
    parameters = dict(adjusted.parameters)
    if mechanism.keep_rows and mechanism.adaptive:
        # Leaving out rows that were paid for is post-processing, and memory is bounded.
        rows = min(rows, max(mechanism.rows, KEPT_ENTRIES // d))
        law = SketchLaw(rows, law.regulariser)
        parameters["adjusted_dof"] = rows
    factor = certified.certified_factor(moment.int128(), adjusted.regulariser)
    if mechanism.keep_rows:
        exponent = certified.rows_exponent(adjusted.floor)
        counts = round_product(factor, variates.normals(rng, d, rows), exponent).T
        sketch = counts * (2.0**exponent * math.sqrt(moment.resolution))
        return Sample(sketch.T @ sketch / rows, law, parameters, sketch)
    whole = rows >= d  # else the Wishart matrix is singular, and drawn by its rows
    draws = variates.bartlett(rng, rows, d) if whole else variates.normals(rng, d, rows)
    exponent = certified.gram_exponent(adjusted.floor, rows)
    counts = round_gram(factor, draws, exponent)
    return Sample(counts * (2.0**exponent * moment.resolution) / rows, law, parameters)


@draw.register(PublishedInverseWishart)
@draw.register(InverseWishart)
def draw_inverse_wishart(
    mechanism: InverseWishart,
    moment: SecondMoment,
    noise: MultiplicativeCalibration,
    rng: np.random.Generator,
) -> Sample:
    """Draw from the inverse Wishart law, scaled to estimate what it is about."""
    adjusted = adjust(moment, noise, rng)
    d, dof = moment.n_columns, adjusted.dof
    exponent = certified.inverse_exponent(adjusted.floor, d, dof)
    factor = certified.certified_factor(moment.int128(), adjusted.regulariser)
    draws = variates.bartlett(rng, dof, d)
    counts = certified.round_inverse_wishart(factor, draws, exponent)
    scale = math.ldexp(max(dof - d - 1, 1.0), exponent) * moment.resolution
    law = InverseWishartLaw(dof, adjusted.regulariser * moment.resolution)
    return Sample(counts * scale, law, adjusted.parameters)


@draw.register(PublishedInverseGauss)
@draw.register(InverseGauss)
def inverse_gauss(
    mechanism: InverseGauss,
    moment: SecondMoment,
    noise: InverseGaussCalibration,
    rng: np.random.Generator,
) -> Sample:
    """Invert, round, add symmetric Gaussian noise, and invert back."""
    d = moment.n_columns
    law = noise.law
    # Both tables' inverses are rounded, each entry by half a step: d steps in norm.
    step = noise.sensitivity * moment.resolution / d
    exponent = math.floor(math.log2(step)) - SENSITIVITY_BITS
    try:
        whitener = certified.certified_whitener(moment.int128(), 0)
    except ArithmeticError:
        raise ValueError(
            "the second moment is singular: it breaks the promise of eigenvalue_floor. Nothing was "
            f"released, and epsilon={noise.epsilon:g} counts as spent"
        ) from None
    unit = math.ldexp(1 / moment.resolution, exponent)
    inverse = whitener.T.gram().round(exponent)
    below = from_float(inverse[np.tril_indices(len(inverse))])
    noisy = noisy_matrix(below, law.std / unit, law.std_diagonal / unit, rng)
    released = np.asarray(np.linalg.inv(noisy * unit), dtype=np.float64)
    return Sample((released + released.T) / 2, law)


@dataclass(frozen=True)
class Adjusted:
    """Regulariser and degrees of freedom in force, integers in units of the second moment.

    `floor` is a public lower bound on the eigenvalues of what is drawn from, and sets grids only;
    `parameters` is what the release says, in the data's units.
    """

    dof: float
    regulariser: int
    floor: int
    parameters: dict[str, float]


def laplace_step(rng: np.random.Generator, location: float, scale: float, step: float) -> int:
    """Draw a Laplace variate and round it to multiples of `step`: which one."""
    sign = 1 if int(rng.bit_generator.random_raw()) % 2 else -1
    place, spread = (Fraction(x) / Fraction(step) for x in (location, scale))
    words: list[int] = []
    while True:
        words.append(int(rng.bit_generator.random_raw()))
        least, most = variates.exponential_ends(words)
        if most.is_finite():
            ends = (place + sign * spread * Fraction(x) for x in (least, most))
            count, same = (math.floor(x + Fraction(1, 2)) for x in ends)
            if count == same:
                return count


def adjust(
    moment: SecondMoment, noise: MultiplicativeCalibration, rng: np.random.Generator
) -> Adjusted:
    """Adjust the regulariser by the smallest eigenvalue, privately, where that is asked for."""
    regulariser = math.ceil(noise.regulariser / moment.resolution)
    if noise.laplace_scale is None or noise.eigenvalue_shift is None:
        return Adjusted(noise.dof, regulariser, regulariser, {})
    # Counted in grid steps: the noise is rounded, the eigenvalue's count added as an integer.
    bound_squared = round(moment.sensitivity_bound**2 / moment.resolution)
    exponent = bound_squared.bit_length() - 1 - EIGENVALUE_BITS
    step = 2**exponent * moment.resolution
    lowered = laplace_step(rng, -noise.eigenvalue_shift, noise.laplace_scale, step)
    steps = max(0, certified.smallest_eigenvalue(moment.int128(), exponent) + lowered)
    bound = steps * step
    # Two steps for the eigenvalue's being rounded down. They stay where the data seem to need no
    # regulariser, or a bound far too high would leave a singular matrix, and an error for all to
    # see; B^2 / 2^19 is nothing to any use of the release.
    slack = 2 << exponent
    left = max(regulariser - (steps << exponent), 0) + slack
    dof = noise.dof
    if isinstance(noise.privacy, AdaptiveLadderProfile):
        reached = (bound + noise.eigenvalue_shift - 2 * step) / (noise.bound**2 * EIGENVALUE_SLACK)
        rung = noise.privacy.climb(reached)
        if rung > 0:
            dof, left = dof * 2**rung, slack
    elif bound >= noise.regulariser:
        # Published constants: rows, and degrees of freedom, that the paper says s pays for.
        dof = algorithm_2_rows(bound, noise.bound, noise.epsilon, noise.delta)
        left = slack
    return Adjusted(
        dof,
        left,
        left + (steps << exponent),
        {
            "eigenvalue_bound": bound,
            "adjusted_regulariser": left * moment.resolution,
            "adjusted_dof": dof,
        },
    )


def round_product(left: DigitMatrix, draws: Variates, exponent: int) -> Matrix:
    """Round ``left draws``, left lower triangular, to multiples of ``2^exponent``: exactly."""
    factor, drawn = np.ldexp(left.to_float(), -exponent), draws.to_float()
    d, columns = drawn.shape
    norms = product_error(d) * _norms(factor, 1), _norms(drawn, 0) + NORM_PAD
    counts, unsure = np.empty((d, columns)), np.empty((d, columns), bool)

    def fill(q: slice) -> None:
        for p in block_slices(d, ROUNDED_BLOCK):
            value = factor[p, : p.stop] @ drawn[: p.stop, q]
            error = norms[0][p, None] * norms[1][q].max()
            counts[p, q], unsure[p, q] = rounding.nearest(value, error)

    each(fill, block_slices(columns, 4 * ROUNDED_BLOCK), columns)
    if unsure.any():
        rows, some = (np.flatnonzero(unsure.any(axis=axis)) for axis in (1, 0))
        right = DigitDraws(draws.part(np.arange(d), some), left.bits)
        counts[np.ix_(rows, some)] = in_digits(
            lambda error: (multiplied(left.rows(rows), right, error), error), exponent
        )
    return counts


def round_gram(left: DigitMatrix, draws: Variates, exponent: int) -> Matrix:
    """Round ``M M^T``, M = left draws, to multiples of ``2^exponent``: exactly."""
    factor, drawn = left.to_float(), draws.to_float()
    m = factor @ drawn
    d, columns = m.shape
    # What row i of M is off by, at most, in norm.
    off = (
        product_error(d)
        * _norms(factor, 1)
        * (SLACK * np.linalg.norm(drawn) + math.sqrt(columns) * NORM_PAD)
    )
    norms = _norms(m, 1)
    error = np.outer(norms + off, off) + np.outer(off + product_error(columns) * norms, norms)
    counts, unsure = rounding.nearest(np.ldexp(m @ m.T, -exponent), np.ldexp(error, -exponent))

    def digits(rows: NDArray[np.intp]) -> Matrix:
        some, right = left.rows(rows), DigitDraws(draws, left.bits)
        return in_digits(lambda error: gram(some, right, error / 4), exponent)

    return settled_counts(counts, unsure, digits)


def _norms(matrix: Matrix, axis: int) -> Vector:
    norms: Vector = SLACK * np.linalg.norm(matrix, axis=axis)
    return norms
