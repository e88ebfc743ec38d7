"""The forest plot: one coefficient in every group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.plots._axes import BLUE, GREY, MOST_NAMES, ORANGE, axes_for, bare, cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_forest(
    fits: Any,
    name: str,
    ax: Axes | None = None,
    *,
    shrunk: Any = None,
    level: float = 0.95,
) -> Axes:
    """Draw one coefficient of every group with its confidence interval, and the pooled one.

    Ordered by the estimate. The band is the pooled mean (random effects) with its interval;
    groups whose release is too noisy are named without a point. Shrunk coefficients, if given, are
    drawn beside the groups' own.

    Parameters
    ----------
    fits : GroupFits
    name : str
        Which coefficient.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    shrunk : Shrunk, optional
        What `GroupFits.shrink` makes.
    level : float
        Of the intervals, in [0.5, 1).

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If there is no such coefficient, or fewer than two groups have standard errors.
    ImportError
        Without matplotlib: ``pip install "privgram[plot]"``.
    """
    from scipy.special import ndtri

    if name not in fits.param_names:
        raise ValueError(f"no coefficient {name!r}; there are {', '.join(fits.param_names)}")
    if not 0.5 <= level < 1:
        raise ValueError(f"level must be in [0.5, 1), not {level}")
    at = fits.param_names.index(name)
    value, error = np.asarray(fits.params)[:, at], np.asarray(fits.bse)[:, at]
    pooled = fits.pool()
    order = np.argsort(value)  # those without a value last
    n = len(order)
    few = n <= MOST_NAMES
    ax = axes_for(ax, (7.0, 1.6 + 0.28 * min(n, MOST_NAMES)))
    low, high = np.asarray(pooled.conf_int(1 - level))[at]
    ax.axvspan(low, high, color=ORANGE, alpha=0.25, linewidth=0)
    ax.axvline(np.asarray(pooled.params)[at], color=ORANGE, linewidth=1.2, label="pooled")
    reach = float(ndtri((1 + level) / 2)) * error
    for row, i in enumerate(order):
        if np.isfinite(error[i]):
            ends = [value[i] - reach[i], value[i] + reach[i]]
            ax.plot(ends, [row, row], color=BLUE, linewidth=2.0 if few else 0.8, alpha=0.7)
    ax.plot(value[order], range(n), "o" if few else ".", color=BLUE, label="own", markersize=5)
    if shrunk is not None:
        ax.plot(
            shrunk.estimate[order, at], range(n), "|", color=ORANGE, label="shrunk", markersize=9
        )
    ax.set_ylim(n - 0.4, -0.6)
    if few:
        ax.set_yticks(range(n), [cut(str(fits.groups[i])) for i in order])
        ax.tick_params(axis="y", length=0)
    else:
        ax.set_ylabel(f"{cut(fits.by)}, by coefficient")
    ax.set_xlabel(f"change of {cut(fits.target)} per unit of {cut(name)}")
    ax.set_title(
        f"{cut(name)} in {n} groups by {cut(fits.by)}, {level:.0%} intervals",
        fontsize="medium",
        loc="left",
    )
    ax.legend(fontsize="small", frameon=False)
    ax.grid(axis="x", color=GREY, alpha=0.25, linewidth=0.6)
    bare(ax)
    return ax
