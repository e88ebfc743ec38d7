"""What several releases of one mechanism show together, from the laws of the releases.

A lower bound on what is composed: some two tables show this much, or a function of their releases
does. The laws are SciPy's, not the profiles'; losses are put on a grid of their own, each split
between its two neighbours, which keeps the mean and is right to the square of the step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special, stats

import privgram as pg
from privgram.papers.hardt_roth import ChiGaussianProfile
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart
from privgram.privacy import BoundedRangeProfile, Profile, StatedProfile, compose

Vector = NDArray[np.float64]
Loss = tuple[Vector, Vector]
"""Values under P, some of them infinite, and their weights."""

STEP = 1e-4


def normal(points: int = 20_001, reach: float = 8.8) -> Loss:
    """Nodes of a standard normal variable and weights."""
    t = np.linspace(-reach, reach, points)
    weight = np.exp(-t * t / 2)
    return t, weight / weight.sum()


def against(first: Any, second: Any, points: int = 20_001) -> Loss:
    """Loss of one law of a number against another."""
    t, weight = normal(points)
    tail = special.ndtr(-np.abs(t))
    x = np.where(t < 0, first.ppf(tail), first.isf(tail))
    with np.errstate(divide="ignore"):
        return first.logpdf(x) - second.logpdf(x), weight


def gauss(mu: float) -> Loss:
    t, weight = normal()
    return mu * t + mu * mu / 2, weight


def bilateral(dof: float, shift: float) -> Loss:
    """Difference of two chi-squared variables of `dof` degrees, against the same plus `shift`."""
    nu, reach = (dof - 1) / 2, 40 * math.sqrt(dof) + 80

    def log_density(y: Vector) -> Vector:
        z = np.maximum(np.abs(y) / 2, 1e-12)
        return nu * np.log(z) + np.log(special.kve(nu, z)) - z

    # Cells that end at 0 and at the shift, where a loss may have a kink.
    step = shift / math.ceil(shift * 2e5 / reach)
    y = (np.arange(-(reach // step), reach // step) + 0.5) * step
    density = log_density(y)
    weight = np.exp(density - density.max())
    return density - log_density(y - shift), weight / weight.sum()


def corner(dof: float, ratio: float) -> Loss:
    """W + ratio E11 against W + ratio E22, where W ~ W_2(I, dof)."""
    t, weight = normal(121, 8.0)
    tail = special.ndtr(-np.abs(t))
    a, c = (
        np.where(t < 0, law.ppf(tail), law.isf(tail))
        for law in (stats.chi2(dof), stats.chi2(dof - 1))
    )
    x, y, z = (k.ravel() for k in np.meshgrid(a, c, t, indexing="ij"))
    under = x * y  # the determinant, by Bartlett's decomposition
    b, d = np.sqrt(x) * z, z * z + y
    over = (x + ratio) * (d - ratio) - b * b
    inside = (over > 0) & (d > ratio)
    loss = (dof - 3) / 2 * (np.log(under) - np.log(np.where(inside, over, 1.0)))
    mass = np.einsum("i,j,k->ijk", weight, weight, weight).ravel()
    return np.where(inside, loss, np.inf), mass


def masses(loss: Loss) -> tuple[int, Vector, float]:
    """Lowest index on the grid, masses there, and what is infinite."""
    value, weight = loss
    finite = np.isfinite(value)
    place = value[finite] / STEP
    low = np.floor(place).astype(int)
    share = place - low
    first = int(low.min())
    out = np.zeros(int(low.max()) - first + 2)
    np.add.at(out, low - first, (1 - share) * weight[finite])
    np.add.at(out, low - first + 1, share * weight[finite])
    return first, out, float(weight[~finite].sum())


def delta(epsilon: float, parts: list[tuple[Loss, int]]) -> float:
    """Delta of so many independent releases of each loss."""
    grids = [(*masses(loss), count) for loss, count in parts]
    first = sum(low * count for low, _, _, count in grids)
    size = sum((mass.size - 1) * count for _, mass, _, count in grids) + 1
    length = fft.next_fast_len(size, real=True)
    product, finite = 1.0, 1.0
    for _, mass, lost, count in grids:
        product = product * fft.rfft(mass, length) ** count
        finite *= (1.0 - lost) ** count
    whole = fft.irfft(product, length)[:size]
    value = (first + np.arange(size)) * STEP
    above = value > epsilon
    return float(whole[above] @ -np.expm1(epsilon - value[above])) + 1.0 - finite


def mixture(columns: int, ratio: float) -> Loss:
    """Gaussian shift by ratio times a chi variable that is shown too."""
    t, weight = normal(401)
    tail = special.ndtr(-np.abs(t))
    law = stats.chi(columns)
    mu = ratio * np.where(t < 0, law.ppf(tail), law.isf(tail))[:, None]
    return (mu * mu / 2 + mu * t).ravel(), np.multiply.outer(weight, weight).ravel()


def both(one: Loss, other: Loss) -> Loss:
    """Loss of two independent parts."""
    loss, weight = np.add.outer(one[0], other[0]), np.multiply.outer(one[1], other[1])
    return loss.ravel(), weight.ravel()


def ranged(length: float, top: float) -> Loss:
    """Two outcomes whose losses are `top` and so much less."""
    share = (math.exp(length) - math.exp(top)) / math.expm1(length)
    return np.array([top, top - length]), np.array([share, 1 - share])


def stated(epsilon: float, delta_: float) -> Loss:
    shares = [delta_, *((1 - delta_) * special.expit([epsilon, -epsilon]))]
    return np.array([np.inf, epsilon, -epsilon]), np.array(shares)


@dataclass(frozen=True)
class Case:
    """A mechanism, and what some pairs of tables show of each release, or a function of it."""

    name: str
    adjacency: str
    profiles: list[Profile]
    """Of what is released each time."""
    pairs: list[list[Loss]]
    """For each pair of tables, what these show."""


def cases(epsilon: float, delta_: float, columns: int = 3) -> Iterator[Case]:
    """Every mechanism at a budget."""
    for adjacency in ("replace", "add-remove"):
        replaced = adjacency == "replace"

        def noise(mechanism: pg.mechanisms.Mechanism, d: int = columns, by: str = adjacency) -> Any:
            return mechanism.calibrate(d, 1.0, epsilon, delta_, by)

        for name, mechanism in (
            ("Analyze Gauss", pg.AnalyzeGauss()),
            ("noise on the inverse", InverseGauss(4.0)),
        ):
            profile = noise(mechanism).privacy
            yield Case(name, adjacency, [profile], [[gauss(profile.sensitivity_ratio)]])
        wishart = noise(pg.AdditiveWishart())
        s, m = 1.0 / wishart.scale, wishart.dof - columns + 1
        laws = stats.chi2(m, loc=s), stats.chi2(m)
        edges = [against(*laws), against(*laws[::-1])]
        corners = [corner(m + 1, s)] if replaced else []
        shown = [[x] for x in corners + edges]
        yield Case("additive Wishart", adjacency, [wishart.privacy], shown)
        for d in (1, columns):
            profile = noise(pg.MatrixLaplace(), d).privacy
            # What one entry shows, or the difference of two on the diagonal.
            k = 2 if replaced and d > 1 else 1
            entry = bilateral(k * profile.dof, k * profile.ratio)
            yield Case(f"matrix Laplace, d = {d}", adjacency, [profile], [[entry]])
        found = []
        for name, mechanism in (
            ("sketch", GaussianSketch(20)),
            ("inverse Wishart", InverseWishart(dof=20)),
        ):
            made = noise(mechanism)
            points = 1501 if replaced else 20_001
            laws = [stats.gamma(10, scale=2 * (made.regulariser + x)) for x in (1, 0)]
            one, other = against(*laws, points), against(*laws[::-1], points)
            if name != "sketch":
                one, other = other, one
            pairs = [both(one, other)] if replaced else [one, other]
            found.append((made.privacy, pairs))
            yield Case(name, adjacency, [made.privacy], [[x] for x in pairs])
        profiles = [profile for profile, _ in found]
        each = [list(x) for x in zip(*(pairs for _, pairs in found), strict=True)]
        yield Case("sketch and inverse Wishart", adjacency, profiles, each)
        yield Case(
            "stated", adjacency, [StatedProfile(epsilon, delta_)], [[stated(epsilon, delta_)]]
        )
    yield Case("range finder", "either", [ChiGaussianProfile(10, 0.02)], [[mixture(10, 0.02)]])
    tops = epsilon * np.linspace(0.02, 0.98, 97)
    bound = [[ranged(epsilon, top)] for top in tops]
    yield Case("chosen bound", "either", [BoundedRangeProfile(epsilon)], bound)


def excess(case: Case, count: int, at: float) -> float:
    """Composed delta of so many releases over the largest shown, where it is about `at`."""
    composed = compose(case.profiles * count)
    epsilon = composed.epsilon(at)
    shown = max(delta(epsilon, [(loss, count) for loss in losses]) for losses in case.pairs)
    return composed.delta(epsilon) / shown if shown else math.inf
