"""Plots of regressions: coefficients, and curves of survival."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.plots._axes import (
    BLUE,
    GREY,
    MOST_NAMES,
    apart,
    axes_for,
    bare,
    cut,
    heading,
    lay_rows,
    lines_of,
    plot,
    write_beside,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray


@plot
def plot_coefficients(
    fit: Any,
    ax: Axes | None = None,
    *,
    alpha: float = 0.05,
) -> Axes:
    """Draw the coefficients of a regression with their confidence intervals.

    Ordered by how far they are from zero, in standard errors; greyed where the interval
    holds zero. Coefficients of a term stay together, in the order of its levels, and the levels
    that they are differences from are named.

    Parameters
    ----------
    fit : OLSResults or GLMResults
    ax
    alpha : float, default 0.05
        1 - level of the intervals, in (0, 0.5].

    Raises
    ------
    ValueError
        If an argument is out of its range, or there are no coefficients.
    """
    p = len(fit.design.names)
    coef = np.asarray(fit.params)[:p]
    if np.isnan(coef).any():
        raise ValueError(f"there are no coefficients to draw: {fit.refusal}")
    ends = np.asarray(fit.conf_int(alpha))[:p]
    known = fit.refusal is None
    size = fit.inference.statistic()[:p] if known else np.nan_to_num(coef)
    order = _order(np.abs(size), list(fit.design.terms.values()))
    few = p <= MOST_NAMES
    marker, size_of = ("o", 6) if few else (".", 3)
    ax = axes_for(ax, (7.5, 1.4 + 0.3 * min(p, MOST_NAMES)))
    ax.axvline(0.0, color=ax.xaxis.label.get_color(), linewidth=0.8)
    for row, j in enumerate(order):
        low, high = ends[j]
        clear = known and not low <= 0 <= high
        color = BLUE if clear else GREY
        face = color if clear or not known else ax.get_facecolor()
        if known and np.isinf(high):  # the noise leaves it open: across all
            ax.axhline(row, color=color, linewidth=0.8, linestyle=":")
        elif known:
            ax.plot([low, high], [row, row], color=color, linewidth=2.2 if few else 1.0)
        ax.plot(coef[j], row, marker, color=color, markersize=size_of, markerfacecolor=face)
        if few:
            text = f"{coef[j]:.3g}" + (f"  [{low:.3g}, {high:.3g}]" if known else "")
            write_beside(ax, row, text)
    lay_rows(ax, [fit.design.names[j] for j in order], "feature, by distance from zero")
    blocks = _blocks(fit, order)
    if len(blocks) < p:  # some term has several
        for at in list(blocks.values())[1:]:
            ax.axhline(at.start - 0.5, color=GREY, linewidth=0.5, alpha=0.6)
    if not few and len(blocks) <= MOST_NAMES:
        ticks = apart({cut(term): at for term, at in blocks.items()}, p / MOST_NAMES)
        ax.set_yticks(list(ticks.values()), list(ticks))
        ax.set_ylabel("")
    ax.set_xlabel(f"change of {fit._family.predicts}{cut(fit.target)} per unit of the feature")
    text = f"{cut(fit.target)} on {p} feature{'s' if p > 1 else ''}"
    text += f", {1 - alpha:.0%} intervals" if known else ", no intervals"
    if known and not few:
        clear_ones = int(((ends > 0).all(axis=1) | (ends < 0).all(axis=1)).sum())
        text += f" ({clear_ones} without zero)"
    for terms, levels in fit.design.left_out_levels:
        text += "\n" + lines_of(f"{', '.join(terms) or 'levels'}: differences from", levels)
    heading(ax, text)
    ax.spines["left"].set_visible(False)
    return ax


def _order(size: NDArray[np.float64], terms: list[slice]) -> list[int]:
    """Coefficients by falling size, those of a term together."""
    largest = [float(np.max(size[at], initial=0.0)) for at in terms]
    by_size = sorted(range(len(terms)), key=lambda term: -largest[term])
    return [j for term in by_size for j in range(len(size))[terms[term]]]


def _blocks(fit: Any, order: list[int]) -> dict[str, slice]:
    """Where the coefficients of each term are drawn, from above."""
    blocks = {
        term: slice(row := order.index(at.start), row + at.stop - at.start)
        for term, at in fit.design.terms.items()
        if at.stop > at.start
    }
    return dict(sorted(blocks.items(), key=lambda block: block[1].start))


@plot
def plot_survival(curves: Any, ax: Axes | None = None) -> Axes:
    """Draw curves of survival, or of cumulative hazards, over time, each with its band.

    Parameters
    ----------
    curves : SurvivalCurves
    ax
    """
    ax = axes_for(ax, (7.0, 4.0))
    # Between the times hazards are taken as constant: all curves are drawn through them.
    for name, middle, low, high in zip(
        curves.names, curves.estimate.T, curves.lower.T, curves.upper.T, strict=True
    ):
        [line] = ax.plot(curves.times, middle, linewidth=2.0, label=cut(name))
        ax.fill_between(curves.times, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    ax.set_xlabel("time")
    ax.set_ylabel(curves.what)
    heading(ax, f"{curves.what.capitalize()} with {1 - curves.alpha:.0%} intervals")
    if 1 < len(curves.names) <= MOST_NAMES:
        ax.legend(frameon=False, fontsize="small")
    bare(ax)
    return ax
