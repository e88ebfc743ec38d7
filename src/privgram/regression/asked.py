"""Which columns a regression is of, from what was asked of it: terms, names, a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.checks import MAX_BOUND, MIN_BOUND
from privgram.regression.design import Design, Origin, ones_of
from privgram.regression.design import design as terms_design
from privgram.regression.inference import INTERCEPT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from privgram._base.arrays import Matrix, Vector
    from privgram._release.record import ReleaseRecord
    from privgram.regression.design import Design


#: Squares of a release's entries must neither overflow nor vanish.
MIN_ENTRY = 1e-150


def design_of(
    release: ReleaseRecord,
    target: str | int,
    features: Iterable[str | int] | None,
    intercept: bool,
    reference: Mapping[str, Any] | None = None,
) -> Design:
    """The columns of a regression: terms of a description, or released columns as they are."""
    _check_range(release)
    if isinstance(target, str) and "~" in target:
        if features is not None:
            raise ValueError("a formula names the features: leave `features` out")
        from privgram.columns.formula import parse_one

        parsed = parse_one(target)
        if parsed.endogenous:
            raise ValueError("a formula with instruments is for iv, not for regress")
        target, features = parsed.targets[0], [*parsed.features, *parsed.absorbed]
        intercept = intercept and parsed.intercept
        reference = dict(parsed.references) | dict(reference or {})
    if isinstance(features, str):
        features = [features]
    columns = release.columns
    asked = None if features is None else list(features)
    if columns is None or columns.plain or _are_columns(release, target, asked):
        if reference:
            raise ValueError("reference: there is no factor among these features")
        return _of_columns(release, target, asked, intercept)
    texts = None if asked is None else [_text(name) for name in asked]
    return terms_design(release, _text(target), texts, intercept, reference or {})


def _are_columns(
    release: ReleaseRecord, target: str | int, features: list[str | int] | None
) -> bool:
    """Whether what is asked for are released columns, and no terms that have other names."""
    assert release.columns is not None
    asked = [target, *(features or ())]
    return (
        features is not None
        and all(not isinstance(name, str) or name in release.names for name in asked)
        and not all(name in release.columns.terms for name in features)
    )


def _text(name: str | int) -> str:
    if not isinstance(name, str):
        raise TypeError("terms are named by their text: a position is of one released column")
    return name


def _check_range(release: ReleaseRecord) -> None:
    """Refuse numbers of which powers leave float64."""
    if not MIN_BOUND <= release.bound <= MAX_BOUND:  # a file of an earlier version
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


def _of_columns(
    release: ReleaseRecord,
    target: str | int,
    features: list[str | int] | None,
    intercept: bool,
) -> Design:
    """The design of released columns as they are, intercept last and then the target."""
    goal = release.index(target)
    if release.names[goal] == INTERCEPT:
        raise ValueError("the intercept cannot be the target")
    if features is None:
        chosen = [i for i in range(release.n_columns) if i != goal]
    else:
        chosen = [release.index(name) for name in features]
    if goal in chosen:
        raise ValueError(f"the target {release.names[goal]!r} is among the features")
    if len(set(chosen)) < len(chosen):
        raise ValueError("a feature is named twice")
    chosen = [i for i in chosen if release.names[i] != INTERCEPT]
    every = list(ones_of(release))
    # Of the features: levels that are all there hold the constant.
    held = [ones for ones in every if not np.delete(ones, chosen).any()]
    added = every[:1] if intercept and not held else []
    if not chosen and not added:
        raise ValueError("there is no feature to regress on")
    names = tuple(release.names[i] for i in chosen)
    terms = {name: slice(i, i + 1) for i, name in enumerate(names)}
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
            terms=terms,
            constant=held[0][chosen] if held else None,
        )
    transform, offset, spread = _own_units(release, chosen, goal, bool(added))
    unit = np.eye(release.n_columns)
    frame = np.array([*unit[chosen], *added, unit[goal]])
    places = frame.argmax(axis=1)
    constant = frame[:-1] @ held[0] if held else None
    if added:
        constant = np.eye(len(frame) - 1)[-1]
    return Design(
        target=release.names[goal],
        names=names,
        frame=frame,
        positions=tuple(places.tolist()) if np.array_equal(frame, unit[places]) else None,
        intercept=bool(added),
        transform=transform,
        offset=offset,
        terms=terms,
        spread=spread,
        ends=(offset[-1] - spread[-1], offset[-1] + spread[-1]),
        constant=constant,
    )


def _own_units(
    release: ReleaseRecord, chosen: list[int], goal: int, has_intercept: bool
) -> tuple[Matrix, Vector, Vector]:
    """Affine map from coefficients of scaled columns to own units, intercept last; half-widths."""
    slopes = [release.names[i] for i in chosen]
    p = len(slopes)
    transform, offset = np.zeros((p + 1, p + has_intercept)), np.zeros(p + 1)
    if release.columns is None:
        transform[:p, :p] = np.eye(p)
        transform[p, p:] = 1.0
        return transform, offset, np.ones(p + 1)
    # y = c_y + h_y (b_0 + sum_j b_j (x_j - c_j) / h_j)
    place = {name: i for i, name in enumerate(release.columns.names)}
    own = [place[name] for name in (*slopes, release.names[goal])]
    centre, half_width = release.columns.center[own], release.columns.half_width[own]
    each = np.arange(p)
    transform[each, each] = half_width[p] / half_width[:p]
    transform[p, :p] = -half_width[p] * centre[:p] / half_width[:p]
    if has_intercept:
        transform[p, p] = half_width[p]
    offset[p] = centre[p]
    return transform, offset, half_width
