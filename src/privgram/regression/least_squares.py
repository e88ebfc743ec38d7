"""Least squares and ridge regression on a release: of which columns, with which penalty, solved."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.numbers import MAX_BOUND, MIN_BOUND, check_not_negative
from privgram.columns.terms import INTERCEPT, parse_one, parse_terms
from privgram.regression.design import Design, Origin, RegressionTerms, left_out, ones_of
from privgram.regression.design import design as terms_design
from privgram.regression.diagnostics import dependent
from privgram.regression.inference import RefusedError, rows_behind
from privgram.regression.ols import OLSResults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import ArrayLike

    from privgram._base.numbers import Matrix, Vector
    from privgram.noise import NoiseLaw
    from privgram.releases.record import ReleaseRecord

    EntryVariance = Callable[[Matrix], Matrix]
    Observation = Callable[[Matrix, Matrix], tuple[Matrix, Matrix]]

#: Squares of a release's entries must neither overflow nor vanish.
MIN_ENTRY = 1e-150


def terms_of(
    release: ReleaseRecord,
    target: str | int,
    features: Iterable[str | int] | None,
    intercept: bool,
    reference: Mapping[str, Any] | None = None,
) -> RegressionTerms:
    """What a regression is asked of: as it is named, or as the formula says that is the target."""
    if not (isinstance(target, str) and "~" in target):
        names = [features] if isinstance(features, str) else features
        return RegressionTerms(
            target, None if names is None else tuple(names), intercept, reference or {}
        )
    if features is not None:
        raise ValueError("a formula names the features: leave `features` out")
    parsed = parse_one(target)
    parsed.check_absorbed(release.variables)
    parsed.check_no_offset()
    if parsed.endogenous:
        raise ValueError("a formula with instruments is for release.iv, not for regress: ask that")
    return RegressionTerms.of(parsed, intercept, reference)


def design_of(release: ReleaseRecord, terms: RegressionTerms) -> Design:
    """The columns of a regression: terms of a description, or released columns as they are."""
    _check_range(release)
    columns, absorbed = release.columns, terms.absorbed
    if absorbed:
        terms = replace(terms, features=(*(terms.features or ()), *absorbed))
    if columns is None or columns.plain or _are_columns(release, terms):
        if terms.references:
            raise ValueError("reference: there is no factor among these features")
        return _of_columns(release, terms).hiding(absorbed, release)
    terms = replace(terms, references=left_out(terms.references))
    hidden = [one.label(columns.variables) for one in parse_terms(absorbed, columns.variables)]
    return terms_design(release, terms).hiding(hidden, release)


def _are_columns(release: ReleaseRecord, terms: RegressionTerms) -> bool:
    """Whether what is asked for are released columns, and no terms that have other names."""
    assert release.columns is not None
    if terms.features is None:
        return False
    names = (terms.target, *terms.features)
    return all(not isinstance(name, str) or name in release.names for name in names) and not all(
        name in release.columns.terms for name in terms.features
    )


def _check_range(release: ReleaseRecord) -> None:
    """Refuse numbers of which powers leave float64."""
    if not MIN_BOUND <= release.bound <= MAX_BOUND:  # of a file that others wrote
        raise ValueError(
            f"the release has a bound of {release.bound:g}, of which powers leave float64: measure "
            "in another unit and release again, which costs a budget of its own"
        )
    largest = float(np.abs(release.matrix).max())
    if largest and not MIN_ENTRY <= largest <= 1 / MIN_ENTRY:
        raise ValueError(
            f"the release has entries of {largest:.2g}, of which squares leave float64: no table "
            "with a bound has a second moment like that"
        )


def _of_columns(release: ReleaseRecord, terms: RegressionTerms) -> Design:
    """The design of released columns as they are, intercept last and then the target."""
    goal = release.index(terms.target)
    if release.names[goal] == INTERCEPT:
        raise ValueError("the intercept cannot be the target: name a column")
    if terms.features is None:
        chosen = [i for i in range(release.n_columns) if i != goal]
    else:
        chosen = [release.index(name) for name in terms.features]
    if goal in chosen:
        raise ValueError(
            f"the target {release.names[goal]!r} is among the features: leave it out there"
        )
    if len(set(chosen)) < len(chosen):
        raise ValueError("a feature is named twice: leave one out")
    chosen = [i for i in chosen if release.names[i] != INTERCEPT]
    every = list(ones_of(release))
    # Of the features: levels that are all there hold the constant.
    held = [ones for ones in every if not np.delete(ones, chosen).any()]
    added = every[:1] if terms.intercept and not held else []
    if not chosen and not added:
        raise ValueError("there is no feature to regress on")
    names = tuple(release.names[i] for i in chosen)
    places_of_terms = {name: slice(i, i + 1) for i, name in enumerate(names)}
    if release.columns is not None and not added:
        origin = Origin(release)
        place = {name: i for i, name in enumerate(release.columns.names)}
        center, half_width = release.columns.center, release.columns.half_width
        return origin.design(
            [
                origin.line(np.eye(release.n_columns)[i], center[at], half_width[at])
                for i in (*chosen, goal)
                for at in [place[release.names[i]]]
            ],
            target=release.names[goal],
            names=names,
            terms=places_of_terms,
            constant=held[0][chosen] if held else None,
        )
    transform, offset, spread = _own_units(release, chosen, goal, bool(added))
    unit = np.eye(release.n_columns)
    images = np.array([*unit[chosen], *added, unit[goal]])
    places = images.argmax(axis=1)
    constant = images[:-1] @ held[0] if held else None
    if added:
        constant = np.eye(len(images) - 1)[-1]
    return Design(
        target=release.names[goal],
        names=names,
        images=images,
        positions=tuple(places.tolist()) if np.array_equal(images, unit[places]) else None,
        intercept=bool(added),
        transform=transform,
        offset=offset,
        terms=places_of_terms,
        spread=spread,
        ends=(offset[-1] - spread[-1], offset[-1] + spread[-1]),
        constant=constant,
    )


def _own_units(
    release: ReleaseRecord, chosen: list[int], goal: int, has_intercept: bool
) -> tuple[Matrix, Vector, Vector]:
    """Affine map from coefficients of scaled columns to own units, intercept last; half-widths."""
    p = len(chosen)
    center, half_width = np.zeros(p + 1), np.ones(p + 1)
    if release.columns is not None:
        place = {name: i for i, name in enumerate(release.columns.names)}
        places = [place[release.names[i]] for i in (*chosen, goal)]
        center, half_width = release.columns.center[places], release.columns.half_width[places]
    # y = c_y + h_y (b_0 + sum_j b_j (x_j - c_j) / h_j)
    transform, offset = np.zeros((p + 1, p + has_intercept)), np.zeros(p + 1)
    each = np.arange(p)
    transform[each, each] = half_width[p] / half_width[:p]
    transform[p, :p] = -half_width[p] * center[:p] / half_width[:p]
    if has_intercept:
        transform[p, p] = half_width[p]
    offset[p] = center[p]
    return transform, offset, half_width


# How much to shrink a regression on a noisy second moment, learnt from the release alone: the best
# coefficients are E[G | release]^{-1} E[G theta | release], under beliefs that add nothing beyond
# what any table must obey (docs/theory/inference.md).

#: Nodes of the integral over one eigenvalue, spread over this many standard deviations.
_RIDGE_NODES, _REACH = 48, 5.0
#: The share of the largest eigenvalue that counts as nothing.
_NEGLIGIBLE = 1e-12
#: What tables are believed to be, a value of each an entry: the share of the target explained
#: (midpoints), the power of 1 / g_i in the variance of theta_i, and the prior probability.
_SHARES = np.tile((np.arange(16) + 0.5) / 16, 2)
_POWERS = np.repeat([0.0, 1.0], 16)
_PRIOR = np.repeat([0.99 / 16, 0.01 / 16], 16)


@dataclass(frozen=True)
class Sketch:
    """What a release is that averages over `rows` rows of N(0, G + regulariser I)."""

    rows: float
    regulariser: float


def possible_rows(least: float) -> Vector:
    """Numbers of rows that are believed possible where only the least is known, shape (7,)."""
    return np.asarray(max(least, 1.0) * np.logspace(0, 3, 7))


def auto_ridge(
    matrix: Matrix,  # (p + 1, p + 1), of features and, last, target, less any known shift
    entry_variance: EntryVariance,
    *,
    intercept: bool = False,
    sketch: Sketch | None = None,  # of a multiplicative release
    rows: float | Vector = math.inf,  # positive: behind it, or several numbers, alike likely
) -> Matrix:
    """Penalty (p, p) that minimises the expected squared error, in new rows, given the release.

    The coefficients are then ``solve(gram + penalty, cross)``, of the released blocks, and
    ``gram + penalty`` is positive definite, however indefinite ``gram`` is.
    `entry_variance` takes rows F (k, p + 1) to the variances (k, k) of the entries of
    ``F @ N @ F.T``, N the noise. With `intercept` the last feature is a column of ones (up to
    clipping): it is removed by regression first and carries no penalty, unless its count drowns.
    """
    d = len(matrix)
    rows = np.atleast_1d(np.asarray(rows, dtype=np.float64))
    directions = np.eye(d)  # rows: directions, in columns of `matrix`
    penalty = np.zeros((d - 1, d - 1))
    if intercept:
        ones = directions[-2]
        # The released count is at least two standard deviations of its noise.
        std = np.sqrt(entry_variance(ones[None])[0, 0])
        lift = max(0.0, float(2 * std - ones @ matrix @ ones))
        penalty[-1, -1] = lift
        matrix = matrix + lift * np.outer(ones, ones)
        # Every direction less its regression on the intercept.
        share = directions @ matrix @ ones / (ones @ matrix @ ones)
        directions = np.delete(directions - np.outer(share, ones), -2, axis=0)
    slopes = len(directions) - 1
    if slopes:
        penalty[:slopes, :slopes] = _penalty(matrix, entry_variance, directions, sketch, rows)
    return penalty


def _penalty(
    matrix: Matrix,
    entry_variance: EntryVariance,
    directions: Matrix,
    sketch: Sketch | None,
    rows: Vector,
) -> Matrix:
    """Penalty on the features ``directions[:-1]`` in explaining ``directions[-1]``."""
    regulariser = 0.0 if sketch is None else sketch.regulariser
    gram = directions[:-1] @ matrix @ directions[:-1].T
    values, vectors = np.linalg.eigh(gram + regulariser * directions[:-1] @ directions[:-1].T)
    directions = np.vstack([vectors.T @ directions[:-1], directions[-1]])
    # Along a direction that a sketch leaves out, rounding may make a variance negative.
    variance = np.maximum(entry_variance(directions), 0.0)
    if not variance.any() and np.isinf(rows).all():
        return np.zeros_like(gram)
    cross, square = (
        directions[:-1] @ matrix @ directions[-1],
        directions[-1] @ matrix @ directions[-1],
    )
    square = _shrunk(square, variance[-1, -1])
    x = _unrepelled(values, variance[:-1, :-1])
    # Directions that noise, or a sketch of few rows, leaves out keep a width.
    least = _NEGLIGIBLE * np.abs(values).max()
    std = np.maximum(np.sqrt(np.diag(variance)[:-1]), least)
    if sketch is None:
        guard, observe = std / np.sqrt(2), _added(variance[:-1, -1])
    else:
        added = regulariser * (directions**2).sum(axis=1)
        x -= added[:-1]
        observe = _sketched(np.maximum(values, least), added, square, sketch.rows)
        guard = np.zeros_like(std)
    mean, share = _posterior(x, std, cross, square, observe, rows)
    # The largest in size: noise may turn even the largest eigenvalue negative.
    divisor = np.minimum((mean + guard) / share, np.abs(values).max() / _NEGLIGIBLE)
    penalty: Matrix = (vectors * divisor) @ vectors.T - gram
    return (penalty + penalty.T) / 2


def _added(variance_cross: Vector) -> Observation:
    """What additive noise shows of b_i: itself, with noise."""

    def observe(g: Matrix, spread: Matrix) -> tuple[Matrix, Matrix]:
        return g, variance_cross[:, None]

    return observe


def _sketched(values: Vector, added: Vector, square: float, rows: float) -> Observation:
    """What a sketch shows of b_i, given the features' own block of eigenvalues `values`."""
    slopes = added[:-1, None]

    def observe(g: Matrix, spread: Matrix) -> tuple[Matrix, Matrix]:
        unexplained = (1 - _SHARES) * square + added[-1] + spread @ added[:-1]
        gain = values[:, None] * g / (g + slopes)
        return gain, unexplained[:, None, None] * values[:, None] / rows

    return observe


def _shrunk(square: float, variance: float) -> float:
    """A square known with noise, shrunk by its signal-to-noise ratio; positive."""
    ratio = max(square, 0.0) ** 2 / (square**2 + variance)
    return float(max(square * ratio, np.sqrt(variance) / 100))


def _unrepelled(values: Vector, variance: Matrix) -> Vector:
    """Second moment along each released eigenvector, eigenvalue repulsion undone."""
    gaps = values[:, None] - values
    damped = np.maximum(gaps**2 + 4 * variance, np.finfo(float).tiny)
    return np.asarray(values - 2 * (variance * gaps / damped).sum(axis=1))


def _posterior(
    x: Vector, std: Vector, cross: Vector, square: float, observe: Observation, rows: Vector
) -> tuple[Vector, Vector]:
    """E[g_i] and the kept share E[g_i theta_i] / cross_i, shapes (p,)."""
    low = np.maximum(x - _REACH * std, 0.0)
    width = np.maximum(x, 0.0) + _REACH * std - low
    nodes, log_weights = _unit_legendre()
    g = low[:, None] + width[:, None] * nodes  # (p, nodes)
    log_prior = log_weights - (g - x[:, None]) ** 2 / (2 * std[:, None] ** 2)
    prior = _normalised(log_prior)[0]
    size = (prior * g).sum(axis=1)
    # Prior variances of the coefficients, (beliefs, p), that explain the share believed.
    spread = size ** -_POWERS[:, None]
    spread *= (_SHARES * square / (spread @ size))[:, None]

    gain, variance = observe(g, spread)  # cross_i = gain * (theta_i + sampling error) + noise
    prior_variance = spread[:, :, None]
    log_prior = np.log(prior + np.finfo(float).tiny)
    evidence, means, shares = [], [], []
    for n in rows:
        sampling = ((1 - _SHARES) * square / n)[:, None, None] / g
        total = gain**2 * (prior_variance + sampling) + variance  # (beliefs, p, nodes)
        fit = -0.5 * (np.log(total) + cross[:, None] ** 2 / total)
        weights, log_evidence = _normalised(log_prior + fit)
        evidence.append(log_evidence.sum(axis=1) + np.log(_PRIOR))
        means.append((weights * g).sum(axis=-1))
        shares.append((weights * g * prior_variance * gain / total).sum(axis=-1))
    belief = _normalised(np.concatenate(evidence))[0]
    share = np.maximum(belief @ np.concatenate(shares), np.finfo(float).tiny)
    return belief @ np.concatenate(means), share


@cache
def _unit_legendre() -> tuple[Vector, Vector]:
    """Nodes and log-weights of Gauss-Legendre quadrature on (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(_RIDGE_NODES)
    return (nodes + 1) / 2, np.log(weights / 2)


def _normalised(log_weights: Matrix) -> tuple[Matrix, Vector]:
    """Weights that sum to one over the last axis, and the logarithm of their sum."""
    top = log_weights.max(axis=-1, keepdims=True)
    weights = np.exp(log_weights - top)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / total, (top + np.log(total))[..., 0]


def regress(
    release: ReleaseRecord,
    target: str | int,
    features: Iterable[str | int] | None = None,
    *,
    ridge: float | str | ArrayLike = 0.0,
    intercept: bool = True,
    reference: Mapping[str, Any] | None = None,
) -> OLSResults:
    """Least squares or ridge regression of one released column on others.

    Parameters
    ----------
    release : Release
    target : str or int
        Column to explain, or a formula such as ``"log(wage) ~ poly(age, 2) + sex*region"``.
    features : iterable of str or int, optional
        Columns to explain it by; all others by default. Where `Columns` described factors,
        terms: ``"sex"``, ``"poly(age, 2)"``, ``"sex:region"``, and all columns of a term enter.
    ridge : float, "auto" or array-like of shape (p,)
        Penalty on the squared coefficients, one for all or one for each feature, in the
        scale of the released matrix (with `Columns`: every column mapped to [-1, 1]), added
        to what the mechanism itself put on the diagonal; not on the intercept.  "auto"
        chooses it for prediction, by sampling and privacy noise, from the release alone.
    intercept : bool
        Use the column of ones. Without it the fit goes through the origin of own units, which takes
        the ones too, unless all bounds are about 0.
    reference : mapping of str to level, optional
        The level of a factor that is left out, the first by default.

    Returns
    -------
    OLSResults
        Coefficients in the columns' own units. Where the released matrix is not positive definite
        on the features the fit is refused: it has NaN, and `refusal` says what to do.

    Raises
    ------
    ValueError
        For an unknown column, or the target among the features.
    """
    return fit_ols(release, terms_of(release, target, features, intercept, reference), ridge)


def fit_ols(
    release: ReleaseRecord,
    terms: RegressionTerms,
    ridge: float | str | ArrayLike = 0.0,
) -> OLSResults:
    """What was asked of `regress`, read and named."""
    design = design_of(release, terms)
    n_rows = rows_behind(release)
    law, matrix = design.block(release)
    if isinstance(ridge, str) and ridge != "auto":
        raise ValueError(f"ridge must be a number or 'auto', not {ridge!r}")
    if isinstance(ridge, str):
        matrix = _with_ridge(release, design, law, matrix, n_rows)
    else:
        slopes = np.arange(len(matrix) - 1 - design.intercept)
        ridge = _check_ridge(ridge, len(slopes))
        matrix[slopes, slopes] += ridge
    try:
        theta = solve(release, design, matrix, ridge)
    except RefusedError as error:
        nothing = np.full(len(matrix) - 1, math.nan)
        return OLSResults(release, design, nothing, ridge, n_rows, str(error), terms)
    return OLSResults(release, design, theta, ridge, n_rows, question=terms)


def _with_ridge(
    release: ReleaseRecord,
    design: Design,
    law: NoiseLaw,
    matrix: Matrix,
    n_rows: float | None,
) -> Matrix:
    """The second moment of a design's columns with the penalty that is chosen for prediction."""
    # About the second moment itself: what the mechanism added is part of the choice.
    shifted, matrix = matrix, matrix - law.shift_matrix(len(matrix))
    sketched = law.sketch_rows(len(matrix))
    least = np.trace(release.unbiased)
    counted = release.parameters.get("rows") if n_rows is None else n_rows
    matrix[:-1, :-1] += auto_ridge(
        matrix,
        lambda rows: law.entry_variance(shifted, rows),
        intercept=design.intercept,
        sketch=None if sketched is None else Sketch(sketched, law.shift),
        rows=possible_rows(least / release.bound**2) if counted is None else max(counted, 1.0),
    )
    return matrix


def solve(
    release: ReleaseRecord, design: Design, matrix: Matrix, ridge: float | str | Vector
) -> Vector:
    """Coefficients of the features in explaining the last column."""
    gram, cross = matrix[:-1, :-1], matrix[:-1, -1]
    values = np.linalg.eigvalsh(gram)
    if values[0] <= len(values) * np.finfo(float).eps * values[-1]:
        why = dependent(release, design)
        if why is not None:
            raise RefusedError(why)
        needed = 2 * max(-values[0], np.finfo(float).eps * abs(values[-1]))
        needed += ridge if isinstance(ridge, float) else 0.0
        raise RefusedError(
            "the released matrix is not positive definite on these features: its noise "
            f"exceeds the signal. Use ridge='auto' or a ridge of more than {needed:.3g}, "
            "fewer features, or a larger epsilon"
        )
    return np.asarray(np.linalg.solve(gram, cross), dtype=np.float64)


def _check_ridge(ridge: ArrayLike, n_features: int) -> float | Vector:
    try:
        values = np.array(ridge, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError("ridge must be 'auto', a number, or a number for each feature") from None
    if values.ndim == 0:
        return check_not_negative(ridge, "ridge")
    if values.shape != (n_features,):
        raise ValueError(
            f"ridge must be a number or {n_features} of them, one for each feature, "
            f"not of shape {values.shape}"
        )
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(f"ridge must be finite and not negative, not {ridge!r}")
    values.flags.writeable = False
    return values
