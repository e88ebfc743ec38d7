"""The plot of a privacy profile."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.plots._axes import BLUE, GREY, axes_for, bare

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_profile(
    profile: Any,
    ax: Axes | None = None,
    *,
    label: str | None = None,
    limits: tuple[float, float] | None = None,
    **style: Any,
) -> Axes:
    """Draw a privacy profile: the least delta for every epsilon.

    Parameters
    ----------
    profile : Profile
    ax : matplotlib.axes.Axes, optional
        Where to draw, over what is there already; a new figure by default.
    label : str, optional
        Name in the legend.
    limits : tuple of float, optional
        First and last epsilon; by default from 0 to where delta is negligible.
    **style
        Passed on to `matplotlib.axes.Axes.plot`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        Without matplotlib: ``pip install "privgram[plot]"``.
    """
    ax = axes_for(ax, (6.5, 4.0))
    low, high = limits or (0.0, last_epsilon(profile))
    epsilon = np.linspace(low, high, 241)
    delta = np.asarray(profile.delta(epsilon))
    style = dict[str, Any](color=BLUE, linewidth=2.0) | style
    ax.plot(epsilon, np.where(delta > 0, delta, np.nan), label=label, **style)
    ax.set_yscale("log")
    ax.set_ylim(max(ax.get_ylim()[0], 1e-14), min(ax.get_ylim()[1], 2.0))
    ax.set_xlabel("epsilon")
    ax.set_ylabel("delta")
    ax.grid(which="major", color=GREY, alpha=0.25, linewidth=0.6)
    if label is not None:
        ax.legend(frameon=False, fontsize="small")
    bare(ax)
    return ax


def last_epsilon(profile: Any) -> float:
    """An epsilon at which delta is negligible, if it gets there."""
    for delta in (1e-10, 1e-8, 1e-6, 1e-4, 1e-2):
        epsilon = float(profile.epsilon(delta))
        if math.isfinite(epsilon):
            return max(1.02 * epsilon, 1e-3)
    return 10.0
