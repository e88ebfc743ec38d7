"""The plot of a regression's coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privgram.plots._axes import BLUE, GREY, MOST_NAMES, apart, axes_for, bare, cut, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray


#: What changes by a coefficient of a family's linear predictor.
PREDICTED = {"binomial": "the log odds of ", "poisson": "the log of the mean of "}


def plot_coefficients(
    fit: Any,
    ax: Axes | None = None,
    *,
    level: float = 0.95,
    per: Literal["unit", "sd"] = "unit",
) -> Axes:
    """Draw the coefficients of a regression with their confidence intervals.

    Ordered by how far they are from zero, in standard errors; greyed where the interval
    holds zero. Coefficients of a term stay together, in the order of its levels, and the levels
    that they are differences from are named.

    Parameters
    ----------
    fit : Fit or ScoreFit
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    level : float
        Of the intervals, in (0, 1).
    per : {"unit", "sd"}
        Change of the target, of the log odds or of the log of the mean per unit of a feature, as
        in `params`, or per standard deviation of the feature (estimated from the release), which
        makes features of different units comparable.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If an argument is out of its range, if there are no coefficients, or if `per` is "sd" and
        the standard deviations are unknown: a regression by scores does not hold them.
    ImportError
        Without matplotlib: ``pip install "privgram[plot]"``.
    """
    if per not in ("unit", "sd"):
        raise ValueError(f"per must be 'unit' or 'sd', not {per!r}")
    scale = fit.feature_std() if per == "sd" else np.ones(len(fit.design.names))
    coef = np.asarray(fit.params)[: len(scale)] * scale
    if np.isnan(coef).any():
        raise ValueError(f"there are no coefficients to draw: {fit.refusal}")
    ends = np.asarray(fit.conf_int(1 - level))[: len(scale)] * scale[:, None]
    known = fit.refusal is None
    size = fit.inference.statistic()[: len(coef)] if known else coef
    order = _order(np.abs(size), list(fit.design.terms.values()))
    p = len(order)
    few = p <= MOST_NAMES
    ax = axes_for(ax, (7.5, 1.4 + 0.3 * min(p, MOST_NAMES)))
    ax.axvline(0.0, color=ax.xaxis.label.get_color(), linewidth=0.8)
    for row, j in enumerate(order):
        low, high = ends[j]
        clear = known and not low <= 0 <= high
        color = BLUE if clear else GREY
        if known and np.isinf(high):  # the noise leaves it open: across all
            ax.axhline(row, color=color, linewidth=0.8, linestyle=":")
        elif known:
            ax.plot([low, high], [row, row], color=color, linewidth=2.2 if few else 1.0)
        ax.plot(
            coef[j],
            row,
            "o" if few else ".",
            color=color,
            markersize=6 if few else 3,
            markerfacecolor=color if clear or not known else ax.get_facecolor(),
        )
        if few:
            text = f"{coef[j]:.3g}" + (f"  [{low:.3g}, {high:.3g}]" if known else "")
            ax.text(
                1.02, row, text, transform=ax.get_yaxis_transform(), va="center", fontsize="small"
            )
    ax.set_ylim(p - 0.4, -0.6)
    if few:
        ax.set_yticks(range(p), [cut(fit.design.names[j]) for j in order])
        ax.tick_params(axis="y", length=0)
    else:
        ax.set_ylabel("feature, by distance from zero")
    blocks = _blocks(fit, order)
    if len(blocks) < p:  # some term has several
        for at in list(blocks.values())[1:]:
            ax.axhline(at.start - 0.5, color=GREY, linewidth=0.5, alpha=0.6)
    if not few and len(blocks) <= MOST_NAMES:
        ticks = apart({cut(term): at for term, at in blocks.items()}, p / MOST_NAMES)
        ax.set_yticks(list(ticks.values()), list(ticks))
        ax.set_ylabel("")
    each = "standard deviation of the feature" if per == "sd" else "unit of the feature"
    of = PREDICTED.get(getattr(fit, "family", ""), "")
    ax.set_xlabel(f"change of {of}{cut(fit.target)} per {each}")
    heading = f"{cut(fit.target)} on {p} feature{'s' if p > 1 else ''}"
    heading += f", {level:.0%} intervals" if known else ", no intervals"
    if known and not few:
        clear_ones = int(((ends > 0).all(axis=1) | (ends < 0).all(axis=1)).sum())
        heading += f" ({clear_ones} without zero)"
    if fit.design.references:
        left_out = (f"{name} {level}" for name, level in fit.design.references.items())
        heading += "\n" + listed("levels: differences from", left_out)
    ax.set_title(heading, fontsize="medium", loc="left")
    ax.grid(axis="x", color=GREY, alpha=0.25, linewidth=0.6)
    bare(ax)
    ax.spines["left"].set_visible(False)
    return ax


def _order(size: NDArray[np.float64], terms: list[slice]) -> list[int]:
    """Coefficients by falling size, those of a term together."""
    largest = [float(np.max(size[at], initial=0.0)) for at in terms]
    by_size = sorted(range(len(terms)), key=lambda term: -largest[term])
    return [j for term in by_size for j in range(len(size))[terms[term]]]


def _blocks(fit: Any, order: list[int]) -> dict[str, slice]:
    """Where the coefficients of each term are drawn, from above."""
    found = {
        term: slice(row := order.index(at.start), row + at.stop - at.start)
        for term, at in fit.design.terms.items()
        if at.stop > at.start
    }
    return dict(sorted(found.items(), key=lambda block: block[1].start))
