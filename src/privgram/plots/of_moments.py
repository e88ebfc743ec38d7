"""Plots of means, standard deviations and correlations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.plots._axes import BLUE, GREY, MOST_NAMES, axes_for, bare, cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: More columns than this have no numbers in their cells.
MOST_NUMBERS = 12

#: Standard deviations of noise beyond which a correlation is not noise alone.
CLEAR = 2.0


def plot_description(description: Any, ax: Axes | None = None) -> Axes:
    """Draw each column's mean with its interval, and the standard deviation about it.

    Places are between the public bounds. Greyed is what noise alone would make of a column
    whose values all lie in the middle: errors of the size that the interval states.

    Parameters
    ----------
    description : Description
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
    p = len(description.names)
    few = p <= MOST_NAMES
    ax = axes_for(ax, (7.5, 1.2 + 0.3 * min(p, MOST_NAMES)))
    lower, upper = description.bounds
    width = upper - lower
    mean, ends, std = description.mean, description.mean_interval, description.std
    for row in range(p):
        half = (ends[row, 1] - ends[row, 0]) / 2 / width[row]
        ax.plot([0.5 - half, 0.5 + half], [row, row], color=GREY, alpha=0.35, linewidth=9)
        at, low, high = (np.array([mean[row], *ends[row]]) - lower[row]) / width[row]
        if np.isfinite(std[row]):
            reach = np.clip([at - std[row] / width[row], at + std[row] / width[row]], 0, 1)
            ax.plot(reach, [row, row], color=BLUE, alpha=0.5, linewidth=1.0)
        ax.plot([low, high], [row, row], color=BLUE, linewidth=3.0)
        ax.plot(at, row, "o", color=BLUE, markersize=4)
        if few:
            text = f"{mean[row]:.4g}  [{ends[row, 0]:.4g}, {ends[row, 1]:.4g}], sd {std[row]:.3g}"
            place = ax.get_yaxis_transform()
            ax.text(1.02, row, text, transform=place, va="center", fontsize="small")
    ax.set_xlim(0, 1)
    ax.set_ylim(p - 0.4, -0.6)
    if few:
        ax.set_yticks(range(p), [cut(name) for name in description.names])
        ax.tick_params(axis="y", length=0)
    else:
        ax.set_ylabel("column")
    ax.set_xticks([0, 0.5, 1], ["lower bound", "middle", "upper bound"])
    ax.set_title(
        f"Means with {description.level:.0%} intervals, thin: one standard deviation\n"
        "grey: the same errors about the middle",
        fontsize="medium",
        loc="left",
    )
    ax.grid(axis="x", color=GREY, alpha=0.25, linewidth=0.6)
    bare(ax)
    return ax


def plot_correlation(correlation: Any, ax: Axes | None = None) -> Axes:
    """Draw correlations; those that noise alone could have made are greyed and hatched.

    Parameters
    ----------
    correlation : Correlation
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
    p = len(correlation.names)
    side = min(3.0 + 0.35 * p, 8.5)
    ax = axes_for(ax, (side + 1.2, side))
    from matplotlib import collections, colormaps, patches

    matrix = correlation.matrix
    faint = ~(np.abs(matrix) >= CLEAR * correlation.noise)  # also where noise hides it
    cmap = colormaps["RdBu_r"].with_extremes(bad=(*(0.54,) * 3, 0.35))
    image = ax.imshow(np.ma.masked_where(faint, matrix), vmin=-1, vmax=1, cmap=cmap)
    if p <= MOST_NAMES:
        cells = [patches.Rectangle((j - 0.5, i - 0.5), 1, 1) for i, j in np.argwhere(faint)]
        ax.add_collection(
            collections.PatchCollection(
                cells, facecolor="none", edgecolor=GREY, hatch="////", linewidth=0.0
            )
        )
        names = [cut(name) for name in correlation.names]
        ax.set_xticks(range(p), names, rotation=45, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(p), names)
        ax.tick_params(length=0)
    else:
        ax.set_xlabel("column")
        ax.set_ylabel("column")
    if p <= MOST_NUMBERS:
        for i, j in np.argwhere(np.isfinite(matrix)).tolist():
            light = abs(matrix[i, j]) < 0.6 and not faint[i, j]
            color = "black" if light else ax.xaxis.label.get_color() if faint[i, j] else "white"
            ax.text(j, i, f"{matrix[i, j]:.2f}", ha="center", va="center", color=color)
    ax.figure.colorbar(image, ax=ax, shrink=0.85, pad=0.02).outline.set_visible(False)
    pairs = np.triu_indices(p, 1)
    part = faint[pairs].mean() if p > 1 else 0.0
    partial = correlation.partial
    held = partial if isinstance(partial, tuple) else ("all others",) if partial else ()
    ax.set_title(
        f"Correlations of {p} columns"
        + (f", {cut(', '.join(held))} held fixed" if held else "")
        + f"\ngrey: as noise alone would make ({part:.0%} of the pairs)",
        fontsize="medium",
        loc="left",
    )
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax
