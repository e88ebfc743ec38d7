r"""Privacy profile of two sketches of one table, such as a sketch and an inverse Wishart.

Each has a worst pair, and one pair of tables is the worst for both: a single row added to zeros,
or replaced by one orthogonal to it. So together they are the product of their pairs, order by
order, and no more than an expectation over the loss of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ._adjacency import Adjacency
from ._numerics import (
    TINY,
    Array,
    gamma_window_above,
    gamma_window_below,
    log_gamma_density,
    log_panels,
    quiet,
)
from ._profile import Profile
from .sketch import (
    SketchProfile,
    _chi_rule,
    chi_gaussian_delta,
    mixture_ratio,
    narrow_against_wide,
    steepness,
    wide_against_narrow,
)

__all__ = ["TwoSketchesProfile"]

_NODES, _CHUNK = 96, 16


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
        for s, weight in zip(*_chi_rule(small[1], refine=refine), strict=True):
            part = chi_gaussian_delta(epsilon, large[1], kappa, offset=small[0] * float(s))
            delta += weight * part
        return delta

    def _delta(self, epsilon: Array) -> Array:
        replaced = self.adjacency == "replace"
        curves = (self._mixed,) if replaced else self._pairs()
        worst: Array = np.max([curve(epsilon) for curve in curves], axis=0)
        return np.maximum(worst, TINY)
