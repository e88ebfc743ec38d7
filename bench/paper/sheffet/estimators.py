"""The paper's estimators: a second moment to regression coefficients, with and without privacy.

The last group are no estimators to be used: the paper's with other constants than it prints,
to find out which ones its figures were made with. They are not private at their epsilon.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import privgram as pg
from privgram.noise import standard_wishart, symmetric_gaussian
from privgram.papers import sheffet
from privgram.papers.sheffet import GaussianSketch, InverseWishart

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from bench.paper.sheffet.settings import Setting
    from privgram.mechanisms import Mechanism
    from privgram.moment import SecondMoment

    Matrix = NDArray[np.float64]

__all__ = ["ESTIMATORS", "Estimate", "Trial", "coefficients"]


class Estimate(NamedTuple):
    """A matrix that stands for the second moment, up to a factor."""

    matrix: Matrix
    dof: float | None = None


@dataclass(frozen=True)
class Trial:
    """One data set at one budget and calibration, and its sources of noise.

    Every noise has a stream of its own, fixed by its name and the trial, so that a result
    does not depend on what else is run. Releases made so are not private: the seed is known.

    Attributes
    ----------
    setting : Setting
    exponent, repetition : int
        Which data: n = 2^exponent.
    moment : SecondMoment
        Theirs.
    epsilon : float
    calibration : {"published", "exact"}
    """

    setting: Setting
    exponent: int
    repetition: int
    moment: SecondMoment
    epsilon: float
    calibration: Any

    def rng(self, noise: str) -> np.random.Generator:
        """The stream of a noise."""
        names = [zlib.crc32(f"{part}".encode()) for part in (noise, self.epsilon, self.calibration)]
        s = self.setting
        return np.random.default_rng([s.seed, s.n_labels, self.exponent, self.repetition, *names])

    def release(self, mechanism: Mechanism, noise: str) -> Estimate:
        """Release by one of the library's mechanisms, the paper's constants being asked for or not.

        The paper's neighbours differ in one row: adjacency "replace".
        """
        if self.calibration == "published":
            mechanism = sheffet.published(mechanism, allow_published_erratum=True)
        release = pg.release(
            self.moment,
            None,
            self.epsilon,
            self.setting.delta,
            rng=self.rng(noise),
            mechanism=mechanism,
        )
        parameters = release.parameters
        return Estimate(release.matrix, parameters.get("adjusted_dof", parameters.get("dof")))

    @property
    def n_columns(self) -> int:
        """Number of columns, d."""
        return self.moment.n_columns

    @cached_property
    def adaptive_sketch(self) -> Estimate:
        """Algorithm 2 with r0 = 2d, which sets the rows of others."""
        return self.release(GaussianSketch(2 * self.n_columns, adaptive=True), "sketch")


def _gauss(trial: Trial, repair: Any) -> Estimate:
    # The paper's noise is an independent upper triangle; ours, sqrt(2) smaller off the diagonal.
    shape: Any = "triangular" if trial.calibration == "published" else "symmetric"
    return trial.release(pg.AnalyzeGauss(shape, repair), "gauss")


def _sketch(trial: Trial) -> Estimate:
    assert trial.adaptive_sketch.dof is not None
    return trial.release(GaussianSketch(int(trial.adaptive_sketch.dof)), "plain sketch")


def _inverse_wishart_n(trial: Trial) -> Estimate:
    dof = trial.moment.n_rows + trial.n_columns
    return trial.release(InverseWishart(dof, adaptive=True), "adaptive inverse, n + d")


def _plain_sketch(trial: Trial, regulariser: float, dof: float, noise: str) -> Estimate:
    """Sketch in floating point."""
    d = trial.n_columns
    factor = np.linalg.cholesky(trial.moment.matrix() + regulariser * np.eye(d))
    wishart = standard_wishart(d, dof, trial.rng(noise))
    return Estimate(factor @ wishart @ factor.T / dof, dof)


def _public_sketch(trial: Trial) -> Estimate:
    assert trial.adaptive_sketch.dof is not None
    return _plain_sketch(trial, 0.0, trial.adaptive_sketch.dof, "public sketch")


def _public_inverse_wishart(trial: Trial) -> Estimate:
    dof = float(trial.moment.n_rows + trial.n_columns)
    factor = np.linalg.cholesky(trial.moment.matrix())
    wishart = standard_wishart(trial.n_columns, dof, trial.rng("public inverse"))
    return Estimate(np.asarray(factor @ np.linalg.solve(wishart, factor.T), np.float64), dof)


def _refitted_sketch(trial: Trial, which: int) -> Estimate:
    """Algorithms 1 and 2 with smaller factors before the brackets of w^2: 2 for 4, 2 sqrt(2) for 8.

    With the printed form and sd 0.5 these two reproduce the numbers section 3.2 gives.
    """
    log4, log8 = (math.log(c / trial.setting.delta) for c in (4, 8))
    unit = trial.moment.bound**2 / trial.epsilon
    dof = 2.0 * trial.n_columns
    smallest = np.linalg.eigvalsh(trial.moment.matrix())[0]
    shift = 2 * unit * math.log(2 / trial.setting.delta)
    laplace = trial.rng("refitted eigenvalue").laplace(0.0, 2 * unit)
    bound = max(0.0, float(smallest) - shift + laplace)
    regulariser = 2 * math.sqrt(2) * unit * (math.sqrt(2 * dof * log8) + log8) - bound
    if regulariser < 0:
        dof = math.floor((bound / (2 * math.sqrt(2) * unit) - log8) ** 2 / (2 * log8))
        regulariser = 0.0
    if which == 1:
        regulariser = 2 * unit * (math.sqrt(2 * dof * log4) + log4)
    return _plain_sketch(trial, regulariser, dof, f"refitted {which}")


def _printed_gauss(trial: Trial) -> Estimate:
    """Analyze Gauss with section 2's variance, in which epsilon is not squared."""
    sigma = sheffet.section_2(
        trial.moment.bound, trial.epsilon, trial.setting.delta, allow_published_erratum=True
    )
    noise = symmetric_gaussian(trial.n_columns, sigma, sigma, trial.rng("printed gauss"))
    return Estimate(trial.moment.matrix() + noise)


#: A repaired or debiased version is made from the same noise as the plain one.
ESTIMATORS: dict[str, Callable[[Trial], Estimate]] = {
    "least squares": lambda t: Estimate(t.moment.matrix()),
    "sketch without privacy": _public_sketch,
    "inverse Wishart without privacy": _public_inverse_wishart,
    "Algorithm 1": _sketch,
    "Algorithm 2": lambda t: t.adaptive_sketch,
    "Algorithm 3": lambda t: t.release(pg.AdditiveWishart(debias=False), "wishart"),
    "Algorithm 3, debiased": lambda t: t.release(pg.AdditiveWishart(), "wishart"),
    "Algorithm 4": lambda t: t.release(InverseWishart(), "inverse, n + d"),
    "Algorithm 5, n + d": _inverse_wishart_n,
    "Algorithm 5": lambda t: t.release(
        InverseWishart(2 * t.n_columns, adaptive=True), "adaptive inverse"
    ),
    "Analyze Gauss": lambda t: _gauss(t, "none"),
    "Analyze Gauss, scaled": lambda t: _gauss(t, "shift"),
    "Algorithm 1, refitted": lambda t: _refitted_sketch(t, 1),
    "Algorithm 2, refitted": lambda t: _refitted_sketch(t, 2),
    "Analyze Gauss, as printed": _printed_gauss,
}


def coefficients(matrix: Matrix, features: list[int], target: int) -> NDArray[np.float64]:
    """Regress a column on others, whatever the matrix: an indefinite one too has normal equations.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
    features : list of int
    target : int

    Returns
    -------
    ndarray of shape (len(features),)
    """
    gram, cross = matrix[np.ix_(features, features)], matrix[features, target]
    return np.asarray(np.linalg.solve(gram, cross), np.float64)
