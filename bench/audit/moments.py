"""The mechanisms on second moments: worst pairs of tables, and log-likelihood ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

import privgram as pg
from privgram.mechanisms import AnalyzeGauss, MatrixLaplace, Mechanism
from privgram.moment import SecondMoment
from privgram.papers.sheffet import AdditiveWishart, GaussianSketch, InverseGauss, InverseWishart
from privgram.privacy import Adjacency

from .cases import Case, Pair

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.privacy import Profile
    from privgram.releases.release import Release

    Array = NDArray[np.float64]

__all__ = ["CASES", "claimed", "scores", "worst_pairs"]

#: L2 bound of a row.
BOUND = 1.0


class Releaser(Protocol):
    """What can release: a mechanism, or a broken one for tests."""

    def release(
        self,
        moment: SecondMoment,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = ...,
        *,
        rng: np.random.Generator | None = ...,
    ) -> Release: ...


ADJACENCIES: tuple[Adjacency, Adjacency] = ("replace", "add-remove")

#: Every mechanism, both notions of neighbours.
CASES: tuple[Case, ...] = (
    *(
        Case(mechanism, adjacency)
        for mechanism, adjacency in product(
            (
                AnalyzeGauss(),
                AnalyzeGauss(noise="triangular"),
                AdditiveWishart(),
                MatrixLaplace(dof=3),
                InverseGauss(4.0),
                GaussianSketch(10),
                GaussianSketch(10, keep_rows=True),
                InverseWishart(10),
            ),
            ADJACENCIES,
        )
    ),
    # So little noise that another pair is the worst from epsilon = 1.2 on.
    Case(AdditiveWishart(scale=0.5), "replace", at=(0.0, 1.0, 2.0)),
    # Their profile is an upper bound, and a sum over rungs that says nothing far below epsilon.
    *(
        Case(mechanism, adjacency, at=(1.0, 1.5, 2.0))
        for mechanism, adjacency in product(
            (GaussianSketch(10, adaptive=True), InverseWishart(10, adaptive=True)),
            ADJACENCIES,
        )
    ),
)


def worst_pairs(case: Case) -> list[Pair]:
    """Tables on which a mechanism attains its profile, or comes near (docs/theory)."""
    first, second = BOUND * np.eye(2)[:, None]
    none = np.zeros((0, 2))
    shared = none
    if isinstance(case.mechanism, InverseGauss):
        # The floor less a row, in equal parts along both axes.
        floor = case.mechanism.eigenvalue_floor - BOUND**2
        copies = math.ceil(floor / BOUND**2)
        shared = np.repeat(math.sqrt(floor / copies) * np.eye(2), copies, axis=0)
    elif getattr(case.mechanism, "adaptive", False):
        # One row moves the least eigenvalue by all of B^2. There is hardly any of it besides, so
        # that an estimate too large leaves nothing that hides the row.
        shared = np.vstack([0.05 * first, 0.05 * second, second])
    if case.adjacency == "add-remove":
        pairs = [Pair(("e1", "none"), first, none)]
    else:
        pairs = [Pair(("e1", "e2"), first, second)]
        if isinstance(case.mechanism, AnalyzeGauss):
            # The same away from the axes, where only noise off the diagonal hides it.
            pairs.append(
                Pair(("e1+e2", "e1-e2"), (first + second) / 2**0.5, (first - second) / 2**0.5)
            )
        if isinstance(case.mechanism, AdditiveWishart):
            pairs.append(Pair(("e1", "0"), first, np.zeros((1, 2))))
    return [Pair(p.names, *(np.vstack([shared, x]) for x in (p.first, p.second))) for p in pairs]


def claimed(case: Case, pair: Pair) -> Profile:
    """The profile that a mechanism states for a case."""
    # Quantised rows may exceed the bound a little, and releases count on it.
    bound = SecondMoment(2, BOUND).sensitivity_bound
    mechanism: Mechanism = case.mechanism
    profile: Profile = mechanism.calibrate(
        2,
        bound,
        case.epsilon,
        case.delta,
        cast(Adjacency, case.adjacency),
        n_rows=len(pair.first) if case.adjacency == "replace" else None,
    ).privacy
    return profile


def scores(
    case: Case, released: Releaser, pair: Pair, draws: int, seed: np.random.SeedSequence
) -> Array:
    """Log-likelihood ratios, first table against second, of releases of the first and second."""
    rng = np.random.default_rng(seed)
    moments = [SecondMoment(2, BOUND).update(rows) for rows in (pair.first, pair.second)]
    truths = [moment.matrix() for moment in moments]
    log_density = _DENSITIES[type(case.mechanism)]
    result = np.empty((2, draws))
    adjacency = cast(Adjacency, case.adjacency)
    for out, moment in zip(result, moments, strict=True):
        releases = [
            pg.release(
                moment,
                None,
                case.epsilon,
                case.delta,
                adjacency=adjacency,
                rng=rng,
                mechanism=released,
            )
            for _ in range(draws)
        ]
        a, b = (log_density(releases, truth) for truth in truths)
        # Outside both supports by a rounding: no evidence either way.
        outside = np.isneginf(a) & np.isneginf(b)
        out[:] = np.where(outside, 0.0, a) - np.where(outside, 0.0, b)
    return result


# --- Log-densities of releases given the truth, up to what the truths have in common -------
#
# By the law that each release states: (n,) from n releases and a matrix of shape (2, 2).


def _stated(releases: Sequence[Release], name: str) -> Array:
    return np.array([getattr(release.noise, name) for release in releases])


def _parameter(releases: Sequence[Release], name: str) -> Array:
    return np.array([release.parameters[name] for release in releases])


def _matrices(releases: Sequence[Release]) -> Array:
    return np.stack([release.matrix for release in releases])


def _times_identity(values: Array) -> Array:
    result: Array = values[:, None, None] * np.eye(2)
    return result


def _trace_of_quotient(a: Array, b: Array) -> Array:
    """Tr(a b^-1), of stacks of matrices."""
    result: Array = np.einsum("...ij,...ji->...", a, np.linalg.inv(b))
    return result


def _symmetric_gauss(noise: Array, releases: Sequence[Release]) -> Array:
    diagonal = noise[:, 0, 0] ** 2 + noise[:, 1, 1] ** 2
    off = noise[:, 0, 1] ** 2
    variances = _stated(releases, "std_diagonal") ** 2, _stated(releases, "std") ** 2
    result: Array = -(diagonal / variances[0] + off / variances[1]) / 2
    return result


def _gauss(releases: Sequence[Release], truth: Array) -> Array:
    added = _times_identity(_stated(releases, "added"))
    return _symmetric_gauss(_matrices(releases) - added - truth, releases)


def _inverse_gauss(releases: Sequence[Release], truth: Array) -> Array:
    return _symmetric_gauss(np.linalg.inv(_matrices(releases)) - np.linalg.inv(truth), releases)


def _wishart(releases: Sequence[Release], truth: Array) -> Array:
    subtracted = _times_identity(_stated(releases, "subtracted"))
    values = np.linalg.eigvalsh(_matrices(releases) + subtracted - truth)
    inside = values[:, 0] > 0
    log_determinant = np.log(np.where(inside[:, None], values, 1.0)).sum(axis=1)
    power = (_stated(releases, "dof") - 3) / 2
    density = power * log_determinant - values.sum(axis=1) / (2 * _stated(releases, "scale"))
    return np.where(inside, density, -math.inf)


def _matrix_laplace(releases: Sequence[Release], truth: Array) -> Array:
    """For dof = 3: e^(tr M / 2) J(M) of docs/theory/matrix-laplace.md, (1)."""
    scale = _stated(releases, "scale")[:, None, None]
    noise = (_matrices(releases) - truth) / scale
    # A is a point of the plane and half its trace, which is at least its distance from 0, and from
    # M's point at least that of M more.
    half = np.trace(noise, axis1=1, axis2=2) / 2
    gap = np.hypot((noise[:, 0, 0] - noise[:, 1, 1]) / 2, noise[:, 0, 1])
    with np.errstate(divide="ignore"):
        parts = np.log(_sector(half, gap)), np.log(_sector(-half, gap)) - 2 * half
    result: Array = half + np.logaddexp(*parts)
    return result


def _sector(half: Array, gap: Array) -> Array:
    """Integral of e^(-2 rho) over rho >= half + distance from (gap, 0), in polar coordinates."""
    nodes, weights = np.polynomial.legendre.leggauss(96)
    widest = np.arccos(np.clip(half / gap, -1, 1))[:, None]
    angle = widest * (1 + nodes) / 2
    reach = (gap**2 - half**2)[:, None] / (2 * (gap[:, None] * np.cos(angle) - half[:, None]))
    start = np.maximum(reach, 0.0)
    result: Array = (widest * weights * (start / 2 + 1 / 4) * np.exp(-2 * start)).sum(axis=1)
    return result


def _sketch(releases: Sequence[Release], truth: Array) -> Array:
    # The rows themselves where they are released, which is to audit them.
    gram = np.stack(
        [
            x.matrix * x.noise.rows if x.sketch is None else x.sketch.T @ x.sketch  # type: ignore[attr-defined]
            for x in releases
        ]
    )
    covariance = truth + _times_identity(_stated(releases, "regulariser"))
    log_determinant = np.linalg.slogdet(covariance)[1]
    trace = _trace_of_quotient(gram, covariance)
    density: Array = -(_stated(releases, "rows") * log_determinant + trace) / 2
    return density + _eigenvalue(releases, truth)


def _inverse_wishart(releases: Sequence[Release], truth: Array) -> Array:
    dof = _stated(releases, "dof")
    matrix = truth + _times_identity(_stated(releases, "regulariser"))
    trace = np.maximum(dof - 3, 1.0) * _trace_of_quotient(matrix, _matrices(releases))
    density: Array = (dof * np.linalg.slogdet(matrix)[1] - trace) / 2
    return density + _eigenvalue(releases, truth)


def _eigenvalue(releases: Sequence[Release], truth: Array) -> Array:
    """Log-density of the released eigenvalue bound: Laplace, what is below zero joined there."""
    if releases[0].parameters["laplace_scale"] is None:
        return np.zeros(len(releases))
    bound, scale, shift = (
        _parameter(releases, name)
        for name in ("eigenvalue_bound", "laplace_scale", "eigenvalue_shift")
    )
    centre = np.linalg.eigvalsh(truth)[0] - shift
    half = np.exp(-np.abs(centre) / scale) / 2
    nought = np.log(np.where(centre > 0, half, 1 - half))
    result: Array = np.where(bound > 0, -np.abs(bound - centre) / scale, nought)
    return result


_DENSITIES: dict[type[Mechanism], Callable[[Sequence[Release], Array], Array]] = {
    AnalyzeGauss: _gauss,
    AdditiveWishart: _wishart,
    MatrixLaplace: _matrix_laplace,
    GaussianSketch: _sketch,
    InverseWishart: _inverse_wishart,
    InverseGauss: _inverse_gauss,
}
