"""Plots of distributions: of one column in groups, and curves of survival."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.installed import extra
from privgram._base.text import level_text, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Told apart by colour-blind readers, and legible on white and on black.
BLUE, GREY = "#2a7ab9", "#8a8a8a"

#: More groups than this are not named one by one.
MOST_NAMES = 40

#: Names on an axis are cut to this length.
LONGEST_AXIS_NAME = 24

#: Histograms of more groups would hide each other.
MOST_HISTOGRAMS = 6


def plot_distribution(found: Any, ax: Axes | None = None) -> Axes:
    """Draw each group's median with its interval, and the range of the quantiles that were asked.

    Parameters
    ----------
    found : DistributionResults
        As `Study.summarize` returns it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        Without matplotlib: ``pip install "privgram[plot]"``.
    """
    n = len(found.groups)
    few = n <= MOST_NAMES
    ax = axes_for(ax, (7.5, 1.2 + 0.3 * min(n, MOST_NAMES)))
    q = sorted({*found.q, 0.5})
    several = found.quantile(q)
    middle = q.index(0.5)
    for row in range(n):
        ends = several.estimate[row, [0, -1]]
        ax.plot(ends, [row, row], color=GREY, alpha=0.6, linewidth=5 if few else 1)
        interval = several.lower[row, middle], several.upper[row, middle]
        ax.plot(interval, [row, row], color=BLUE, linewidth=2.0 if few else 0.8)
    ax.plot(several.estimate[:, middle], range(n), "o" if few else ".", color=BLUE, markersize=4)
    ax.set_ylim(n - 0.4, -0.6)
    if few:
        ax.set_yticks(range(n), [cut(name) for name in found.labels])
        ax.tick_params(axis="y", length=0)
    else:
        ax.set_ylabel(", ".join(map(cut, found.by)) or "rows")
    ax.grid(axis="x", color=GREY, alpha=0.25, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel(cut(found.column))
    heading(
        ax,
        f"Median of {cut(found.column)} with 95% intervals, grey: q{100 * q[0]:g} to "
        f"q{100 * q[-1]:g}",
    )
    return ax


def plot_histogram(found: Any, ax: Axes | None = None, alpha: float = 0.05) -> Axes:
    """Draw the parts of a group's rows in bins, with intervals as bands; of several groups lines.

    Parameters
    ----------
    found : HistogramResults
        Of `Study.histogram` or `DistributionResults.histogram`.
    ax : matplotlib.axes.Axes, optional
        As of `plot_distribution`.
    alpha : float, default 0.05
        1 - level of the intervals.

    Returns
    -------
    matplotlib.axes.Axes
    """
    ax = axes_for(ax, (7.5, 4.0))
    labels = found.labels[:MOST_HISTOGRAMS]
    edges, counts = found.edges, found.count(alpha)
    for row, label in enumerate(labels):
        total = max(float(np.nansum(counts.estimate[row])), 1.0)
        parts = [x[row] / total for x in counts]
        [line] = ax.step(edges, np.append(parts[0], parts[0][-1]), where="post", label=cut(label))
        low, high = (np.append(x, x[-1]) for x in parts[1:])
        ax.fill_between(edges, low, high, step="post", alpha=0.25, color=line.get_color())
    ax.set_xlabel(cut(found.column))
    ax.set_ylabel("part of the rows")
    more = len(found.labels) - len(labels)
    heading(
        ax,
        f"{cut(found.column)} with {level_text(alpha)} intervals"
        + (f", {more} groups more" if more > 0 else ""),
    )
    if len(labels) > 1:
        ax.legend(fontsize="small", frameon=False)
    return ax


def plot_survival(curves: Any, ax: Axes | None = None) -> Axes:
    """Draw curves of survival, or of cumulative hazards, over time, each with its band.

    Parameters
    ----------
    curves : SurvivalCurves
        Of `SurvivalResults.predict_survival` or `baseline_cumulative_hazard`.
    ax : matplotlib.axes.Axes, optional
        As of `plot_distribution`.

    Returns
    -------
    matplotlib.axes.Axes
    """
    ax = axes_for(ax, (7.0, 4.0))
    parts = curves.estimate.T, curves.lower.T, curves.upper.T
    # Between the times hazards are taken as constant: all curves are drawn through them.
    for name, middle, low, high in zip(curves.names, *parts, strict=True):
        [line] = ax.plot(curves.times, middle, linewidth=2.0, label=cut(name))
        ax.fill_between(curves.times, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    ax.set_xlabel("time")
    ax.set_ylabel(curves.what)
    heading(ax, f"{curves.what.capitalize()} with {level_text(curves.alpha)} intervals")
    if 1 < len(curves.names) <= MOST_NAMES:
        ax.legend(frameon=False, fontsize="small")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def axes_for(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Give the axes, or those of a new figure."""
    if ax is not None:
        return ax
    with extra("plot", "plots need"):
        from matplotlib import pyplot
    return pyplot.subplots(figsize=size, layout="constrained")[1]


def heading(ax: Axes, text: str) -> None:
    """Write what a plot shows above it."""
    ax.set_title(text, fontsize="medium", loc="left")


def cut(name: str) -> str:
    """Shorten a name, and take away what a picture would act on."""
    # Matplotlib would read mathematics between dollar signs, and leaves what begins with an
    # underscore out of legends; SVG has no control characters.
    name = shown(name)
    name = f" {name}" if name.startswith("_") else name
    name = name if len(name) <= LONGEST_AXIS_NAME else name[: LONGEST_AXIS_NAME - 1] + "…"
    return name.replace("$", r"\$")
