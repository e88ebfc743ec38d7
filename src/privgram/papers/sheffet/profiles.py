r"""Privacy profiles of the Gaussian sketch and the inverse Wishart, alone and two together.

The sketch (Algorithms 1 and 2 of Sheffet) shows r rows of N(0, G + w^2 I), and the inverse
Wishart (Algorithms 4 and 5) a bijective image of the same. Whitening leaves one or two
directions, and in each the pair is monotone in its variance: with lam = B^2 / w^2 the worst case
is a pair of `privgram.papers._gaussians`. Under "add-remove" the table with the row has the wide
law for a sketch; inversion makes it the narrow one for an inverse Wishart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from privgram.papers._gaussians import (
    check_count,
    chi_gaussian_delta,
    chi_rule,
    mixture_ratio,
    narrow_against_wide,
    steepness,
    wide_against_narrow,
)
from privgram.privacy._adjacency import Adjacency, check_adjacency
from privgram.privacy._numerics import (
    TINY,
    Array,
    gamma_window_above,
    gamma_window_below,
    log_gamma_density,
    log_panels,
    quiet,
)
from privgram.privacy._profile import Profile, check_parameter

__all__ = ["Orientation", "SketchProfile", "TwoSketchesProfile"]

Orientation = Literal["wide", "narrow"]
"""Which law of a pair the table with the row has: a sketch's is wide, an inverse's narrow."""

_NODES, _CHUNK = 96, 16


@dataclass(frozen=True)
class SketchProfile(Profile):
    r"""Privacy profile of the Gaussian sketch and of the inverse Wishart.

    Parameters
    ----------
    rows : float
        Rows r >= 1 of the sketch, or degrees of freedom of the inverse Wishart.
    ratio : float
        lam = B^2 / w^2 > 0 (B^2 / psi for the inverse Wishart).
    adjacency : {"replace", "add-remove"}
        Notion of neighbours.
    orientation : {"wide", "narrow"} or None
        Under "add-remove": the law of the table with the row. It is the wide one for a sketch
        and the narrow one for an inverse Wishart. None, where it is not known, charges for
        either and for both together: for as much as under "replace", where it is always None.
    one_column : bool
        Under "replace": whether the table has but one column. Replacing a row is then no more
        than adding one or removing one, and which of the two is not known.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    c releases with one ratio and one orientation are, together, exactly one with c times the
    rows; so are a sketch and an inverse Wishart under "replace".

    References
    ----------
    Sheffet, arXiv:1507.00056, Algorithms 1 and 4; arXiv:2309.01243 compares two Gaussians.
    """

    _guarantee = "proved"

    rows: float
    ratio: float
    adjacency: Adjacency = "replace"
    orientation: Orientation | None = "wide"
    one_column: bool = False

    def __post_init__(self) -> None:
        check_count(self.rows, "rows")
        check_parameter(self.ratio, "ratio")
        # One name for what is one law.
        if check_adjacency(self.adjacency) == "replace":
            object.__setattr__(self, "orientation", None)
        else:
            object.__setattr__(self, "one_column", False)
        if self.orientation not in (None, *get_args(Orientation)):
            raise ValueError(
                f'orientation must be "wide", "narrow" or None, not {self.orientation!r}'
            )
        if not isinstance(self.one_column, bool):
            raise TypeError(f"one_column must be True or False, not {self.one_column!r}")

    @classmethod
    def _joined(cls, profiles: list[Profile]) -> list[Profile]:
        """Add up rows of one ratio and orientation, and join two and two of those that are left."""
        rows: dict[tuple[float, Adjacency, Orientation | None], float] = {}
        rest = []
        for p in profiles:
            # One column may go up in one release and down in another.
            if isinstance(p, SketchProfile) and not p.one_column:
                key = p.ratio, p.adjacency, p.orientation
                rows[key] = rows.get(key, 0) + p.rows
            else:
                rest.append(p)
        added = [SketchProfile(n, *key) for key, n in rows.items()]
        known = [p for p in added if p.orientation or p.adjacency == "replace"]
        rest += [p for p in added if p not in known]
        if len(known) % 2:
            rest.append(known.pop())
        pairs = zip(known[::2], known[1::2], strict=True)
        return rest + [TwoSketchesProfile(*two) for two in pairs]

    def _pairs(self) -> tuple[Callable[[Array], Array], ...]:
        rows, ratio = float(self.rows), np.asarray(self.ratio)
        return (
            lambda epsilon: wide_against_narrow(epsilon, rows, ratio),
            lambda epsilon: narrow_against_wide(epsilon, rows, ratio),
        )

    def _directions(self) -> tuple[Callable[[Array], Array], ...]:
        if self.orientation is None:
            return (self._curve,)
        return self._pairs() if self.orientation == "wide" else self._pairs()[::-1]

    def _delta(self, epsilon: Array) -> Array:
        if self.orientation is not None or self.one_column:
            delta = np.maximum(*(curve(epsilon) for curve in self._pairs()))
        else:
            kappa = mixture_ratio(np.asarray(self.ratio))
            delta = chi_gaussian_delta(epsilon, float(self.rows), kappa)
        return np.maximum(delta, TINY)


@quiet
def _of_both(epsilon: Array, first: SketchProfile, second: SketchProfile, with_row: bool) -> Array:
    """Curve of the product of two pairs, P being of the table with the row or of the one without.

    An expectation over the loss of the one of fewer rows. The other's curve has a kink at the end
    of its losses, the sharper the fewer its rows; there a panel ends.
    """
    (wide_, a_, lam_), (wide, a, lam) = (
        ((p.orientation == "wide") == with_row, p.rows / 2.0, np.asarray(float(p.ratio)))
        for p in sorted((first, second), key=lambda p: p.rows)
    )
    log = np.log1p(lam_)
    slope, constant = (lam_, -log) if wide_ else (-lam_ / (1.0 + lam_), log)
    curve = wide_against_narrow if wide else narrow_against_wide
    end = a * np.log1p(lam) * (-1.0 if wide else 1.0)
    centre = np.zeros(epsilon.size)
    # As far as a delta of 1e-300 comes from.
    low, high = gamma_window_below(a_, centre, 760.0), gamma_window_above(a_, centre, 760.0)
    bulk = gamma_window_above(a_, centre)
    kink = np.log(((epsilon - end) / a_ - constant) / slope)
    kink = np.clip(np.where(np.isnan(kink), 0.0, kink), low, high)
    edges = tuple(np.sort([low, centre, kink, bulk, high], axis=0))
    w, weight = log_panels(edges, 4 * _NODES)
    level = epsilon[:, None] - a_ * (constant + slope * np.exp(w))
    rest = curve(level.ravel(), 2.0 * a, lam).reshape(w.shape)
    return np.asarray(np.sum(weight * np.exp(log_gamma_density(a_, w)) * rest, axis=-1))


@dataclass(frozen=True)
class TwoSketchesProfile(Profile):
    r"""Privacy profile of two sketches or inverse Wisharts, of different ratio or orientation.

    Exact. Made by `compose`; those of one ratio and orientation are one `SketchProfile`.

    Parameters
    ----------
    first, second : SketchProfile
        Both for the same notion of neighbours and, under "add-remove", of known orientation;
        under "replace" for more than one column.

    Raises
    ------
    ValueError
        If they do not go together.
    """

    _guarantee = "proved"
    _dots = 1 << 9

    first: SketchProfile
    second: SketchProfile

    def __post_init__(self) -> None:
        for p in (self.first, self.second):
            if not isinstance(p, SketchProfile):
                raise TypeError(f"a SketchProfile is needed, not {type(p).__name__}")
            unknown = p.adjacency == "add-remove" and p.orientation is None
            if p.adjacency != self.first.adjacency or unknown or p.one_column:
                raise ValueError("the two sketches have no worst pair of tables in common")

    @property
    def adjacency(self) -> Adjacency:
        """Notion of neighbours."""
        return self.first.adjacency

    @property
    def _parts(self) -> tuple[Profile, ...]:
        return self.first, self.second

    def to_dict(self) -> dict[str, Any]:  # noqa: D102
        parts = {"first": self.first.to_dict(), "second": self.second.to_dict()}
        return super().to_dict() | parts

    @classmethod
    def _rebuild(cls, parameters: dict[str, Any]) -> TwoSketchesProfile:
        first, second = (SketchProfile.from_dict(parameters.pop(x)) for x in ("first", "second"))
        return cls(first, second, **parameters)

    def _pairs(self) -> tuple[Callable[[Array], Array], ...]:
        return tuple(partial(self._in_order, with_row=x) for x in (True, False))

    def _directions(self) -> tuple[Callable[[Array], Array], ...]:
        return (self._curve,) if self.adjacency == "replace" else self._pairs()

    def _in_order(self, epsilon: Array, with_row: bool) -> Array:
        parts = np.split(epsilon, np.arange(_CHUNK, epsilon.size, _CHUNK))
        out = [_of_both(x, self.first, self.second, with_row) for x in parts]
        return np.concatenate(out)

    def _mixed(self, epsilon: Array) -> Array:
        """Mixture of Gaussians whose squared ratios add up, over both chi variables."""
        small, large = sorted(
            (float(mixture_ratio(np.asarray(p.ratio))), float(p.rows))
            for p in (self.first, self.second)
        )
        kappa = np.asarray(large[0])
        delta = np.zeros(epsilon.size)
        refine = math.ceil(np.max(steepness(epsilon, np.asarray(small[0])), initial=1.0))
        for s, weight in zip(*chi_rule(small[1], refine=refine), strict=True):
            part = chi_gaussian_delta(epsilon, large[1], kappa, offset=small[0] * float(s))
            delta += weight * part
        return delta

    def _delta(self, epsilon: Array) -> Array:
        replaced = self.adjacency == "replace"
        curves = (self._mixed,) if replaced else self._pairs()
        worst: Array = np.max([curve(epsilon) for curve in curves], axis=0)
        return np.maximum(worst, TINY)
