"""Principal components of a released second moment: post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.checks import check_integer, check_within
from privgram.columns.terms import INTERCEPT
from privgram.regression.design import intercept_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from privgram._release.record import ReleaseRecord

__all__ = ["PCA", "eigenvalues", "mean_and_covariance", "noise_edge", "pca"]


@dataclass(frozen=True, eq=False)
class PCA:
    """Leading eigenvectors of a released second moment, about the mean where it is released.

    Attributes
    ----------
    names : tuple of str
        The d columns, without the intercept; of a factor every level is one.
    components : ndarray of shape (k, d), float64
        Orthonormal rows, by falling eigenvalue; the largest entry of each is positive.
    explained_variance : ndarray of shape (k,), float64
        Their eigenvalues, the known shift of the mechanism removed, in the scale
        of the released matrix: sums over rows.
    explained_variance_ratio : ndarray of shape (k,), float64
        The same as parts of the trace.
    gap : float
        Between the released eigenvalues k and k + 1; infinite for k = d.
    confidence : float
        Of `error_bound`.
    mean : ndarray of shape (d,), float64, or None
        What the components are about, in the scale of the released matrix; None for zero.
    release : Release
        What they were computed from.
    """

    names: tuple[str, ...]
    components: NDArray[np.float64]
    explained_variance: NDArray[np.float64]
    explained_variance_ratio: NDArray[np.float64]
    gap: float
    confidence: float
    mean: NDArray[np.float64] | None
    release: ReleaseRecord = field(repr=False)

    @cached_property
    def error_bound(self) -> float:
        """How far this subspace may be from that of the exact matrix.

        Bound on the Frobenius distance between the orthogonal projections on the two, with
        probability at least `confidence`; at most sqrt(2 k), which tells nothing.
        Simulated when first asked for, which takes a second at d = 100.
        """
        k, d = self.components.shape
        if k == d:
            return 0.0
        trivial = math.sqrt(2 * min(k, d - k))
        spectral, frobenius = _noise_norms(self.release, self.confidence, self.mean is not None)
        bound = 2 * math.sqrt(2 * k) * spectral / self.gap if self.gap > 0 else math.inf
        if frobenius <= self.gap / 4:
            bound = min(bound, 2 * frobenius / self.gap)
        return min(float(bound), trivial)

    def __repr__(self) -> str:
        return f"<PCA: {len(self.components)} components of {len(self.names)} columns>"


def pca(
    release: ReleaseRecord,
    n_components: int | None = None,
    confidence: float = 0.95,
    *,
    center: bool | None = None,
) -> PCA:
    """Principal components of a release.

    Parameters
    ----------
    release : Release
    n_components : int, optional
        k, from 1 to d; all by default.
    confidence : float
        Of the error bound, in (0, 1).
    center : bool, optional
        Whether they are about the columns' mean, which only a release with an intercept or with
        all levels of a factor holds, or about zero, where `Columns` put the middle of the
        bounds.  By default about the mean where there is one.  The intercept is never one of the d
        columns.

    Returns
    -------
    PCA

    Raises
    ------
    ValueError
        If `n_components` or `confidence` is out of its range, if there is no column but the
        intercept, or no intercept to centre by.

    Notes
    -----
    A factor's levels are columns of 0 and 1 (times the term's weight), beside numbers that are
    mapped to [-1, 1].  About the mean they depend on each other, and one eigenvalue a factor
    is about zero.

    About the mean means of the matrix C = G - g g^T / c, with g the intercept's column, c the
    number of rows where it is public and complete and else the intercept's own entry.
    Where levels sum to the intercept, g and c are the sums of theirs.
    The noise in g and c is noise in C too: with m = g / c it is F N F^T to first order,
    F = [I, -m]: of isotropic noise up to (1 + |m|^2)^2 times the variance.

    With N the noise (of C, if centred) and gap that between the released eigenvalues k and k + 1,
    the projections differ by at most 2 sqrt(2 k) ||N|| / gap [1]_ (Theorem 2, the
    released matrix in the role of the reference) and, where ||N||_F <= gap / 4,
    by at most 2 ||N||_F / gap [2]_ (Theorem 3).  The norms' quantiles come from
    simulating the noise's own law, which is public, at the released matrix.

    References
    ----------
    .. [1] Yu, Wang, Samworth, "A useful variant of the Davis-Kahan theorem for
       statisticians", Biometrika 102, 2015.
    .. [2] Zwald, Blanchard, "On the convergence of eigenspaces in kernel
       principal component analysis", NIPS 2005.
    """
    center = _check_center(release, center)
    [(_, mean, matrix)] = _about(release, [release.matrix], center)
    d = len(matrix)
    k = d if n_components is None else check_integer(n_components, "n_components", 1, d)
    confidence = check_within(confidence, "confidence", 0, 1)
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1], vectors[:, ::-1]
    return PCA(
        names=tuple(release.names[i] for i in _own(release)),
        components=upright(vectors[:, :k].T),
        explained_variance=values[:k],
        explained_variance_ratio=values[:k] / values.sum(),
        gap=float(values[k - 1] - values[k]) if k < d else math.inf,
        confidence=confidence,
        mean=mean if center else None,
        release=release,
    )


def eigenvalues(release: ReleaseRecord, center: bool | None = None) -> NDArray[np.float64]:
    """All d eigenvalues that `pca` has, by falling size, shape (d,) float64."""
    [(_, _, matrix)] = _about(release, [release.matrix], _check_center(release, center))
    return np.asarray(np.linalg.eigvalsh(matrix)[::-1], dtype=np.float64)


def noise_edge(
    release: ReleaseRecord, confidence: float = 0.95, *, center: bool | None = None
) -> float:
    """Quantile of the spectral norm of a release's noise, in the scale of its matrix.

    By Weyl's inequality no eigenvalue of the release is farther from that of the exact second
    moment, with probability `confidence`, in (0, 1).  `center` is as in `pca`.
    """
    confidence = check_within(confidence, "confidence", 0, 1)
    return _noise_norms(release, confidence, _check_center(release, center))[0]


def mean_and_covariance(release: ReleaseRecord) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and covariance of the columns of a release with an intercept, in their own units.

    Parameters
    ----------
    release : Release
        Of p columns and one named `intercept`.

    Returns
    -------
    mean : ndarray of shape (p,), float64
        Within the public bounds, where there are any.
    covariance : ndarray of shape (p, p), float64
        Symmetric.  Noise may leave it with negative eigenvalues.

    Raises
    ------
    ValueError
        If the release has no intercept or nothing else.

    Notes
    -----
    Sums are divided by the number of rows where it is public, every row contributes in full and
    noise is added; else by the released count, whose noise is then that of the sums.
    """
    if intercept_of(release) is None or release.n_columns < 2:
        raise ValueError(
            "a mean needs a release with a column of ones: make it with "
            "Columns(..., intercept=True)"
        )
    columns = release.columns
    [(count, mean, scatter)] = _about(release, [release.matrix], center=True)
    covariance = scatter / max(count - 1.0, 1.0)
    if columns is None:
        return mean, covariance
    at = [columns.names.index(release.names[i]) for i in _own(release)]
    centre, half_width = columns.center[at], columns.half_width[at]
    return centre + half_width * mean, half_width[:, None] * covariance * half_width


def upright(components: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows with signs that make the largest entry of each positive."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    turned: NDArray[np.float64] = components * signs[:, None]
    return turned


def _check_center(release: ReleaseRecord, center: bool | None) -> bool:
    if not isinstance(center, (bool, np.bool_, type(None))):
        raise TypeError("center is True, False or None")
    has_ones = intercept_of(release) is not None
    if center and not has_ones:
        raise ValueError(
            "a mean needs a release with a column of ones: make it with "
            "Columns(..., intercept=True), or take components about zero, center=False"
        )
    if release.names == (INTERCEPT,):
        raise ValueError("there is no column but the intercept")
    return has_ones if center is None else bool(center)


def _public_count(release: ReleaseRecord) -> float | None:
    """Rows that the sums are of, where that is public and all contribute in full."""
    columns = release.columns
    whole = columns is not None and columns.missing == "error" and release.bound >= columns.bound
    if whole and release.n_rows and release.noise.sketch_rows(release.n_columns) is None:
        return float(release.n_rows)
    return None


def _own(release: ReleaseRecord) -> list[int]:
    """Columns but the ones."""
    return [i for i, name in enumerate(release.names) if name != INTERCEPT]


def _about(
    release: ReleaseRecord, matrices: Iterable[NDArray[np.float64]], center: bool
) -> Iterator[tuple[float, NDArray[np.float64], NDArray[np.float64]]]:
    """Rows, mean (or zero) and second moment about it of all columns but the ones.

    Of each of `matrices`, which are the released one or other draws of it.
    """
    own = _own(release)
    block = np.ix_(own, own)
    shift = release.noise.shift_matrix(release.n_columns)
    ones = intercept_of(release) if center else None
    public = _public_count(release)
    lower, upper = np.full((2, len(own)), [[-math.inf], [math.inf]])
    columns = release.columns
    if columns is not None:
        at = [columns.names.index(release.names[i]) for i in own]
        ends = np.array([columns.lower, columns.upper])[:, at]
        lower, upper = (ends - columns.center[at]) / columns.half_width[at]
    for matrix in matrices:
        whole = matrix - shift
        moment = whole[block]
        if ones is None:
            yield math.nan, np.zeros(len(own)), moment
            continue
        sums = whole @ ones
        # Else the count is read off the ones.
        count = max(float(ones @ sums), 1.0) if public is None else public
        mean = (sums[own] / count).clip(lower, upper)
        yield count, mean, moment - count * np.outer(mean, mean)


def _noise_norms(release: ReleaseRecord, confidence: float, center: bool) -> tuple[float, float]:
    """Quantiles of the noise's spectral and Frobenius norms under its own law."""
    # A fixed seed: nothing secret is drawn, and the same release gives the same bound.
    rng = np.random.default_rng(0)
    matrix = release.matrix
    [(_, _, exact)] = _about(release, [matrix], center)
    draws = max(40, min(1000, 20_000 // len(matrix)))
    norms = np.empty((draws, 2))
    drawn = (release.noise.draw(matrix, rng) for _ in range(draws))
    for i, (_, _, about) in enumerate(_about(release, drawn, center)):
        eigenvalues = np.linalg.eigvalsh(about - exact)
        norms[i] = np.abs(eigenvalues[[0, -1]]).max(), np.linalg.norm(eigenvalues)
    spectral, frobenius = np.quantile(norms, confidence, axis=0, method="higher")
    # The nearest feasible matrix is no farther in Frobenius norm, and at most twice as far in the
    # spectral norm (docs/theory/analyze-gauss.md).
    return float(spectral * (2 if release.parameters.get("moved") else 1)), float(frobenius)
