"""Plots of principal components: their eigenvalues, and the columns by their loadings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.checks import check_integer
from privgram.plots._axes import BLUE, GREY, ORANGE, axes_for, bare, write_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_scree(pca: Any, ax: Axes | None = None) -> Axes:
    """Draw eigenvalues by rank, with what noise alone would make.

    Parameters
    ----------
    pca : PCA
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
    values, edge = pca.eigenvalues, pca.edge
    ax = axes_for(ax, (7.0, 4.0))
    rank = np.arange(1, len(values) + 1)
    # As `n_clear`: those before the first that is within.
    clear = np.logical_and.accumulate(values > edge)
    floor = np.zeros_like(edge) if pca.of_correlations else -edge
    negative = values < floor - 1e-9 * np.abs(values).max()
    # Half a rank to both sides, so that one eigenvalue has a band too.
    steps = np.concatenate([rank - 0.5, [len(rank) + 0.5]])
    ax.fill_between(
        steps,
        np.append(edge, edge[-1]),
        np.append(floor, floor[-1]),
        step="post",
        color=GREY,
        alpha=0.2,
        linewidth=0,
        label="without correlations" if pca.of_correlations else "what noise may make",
    )
    if not pca.of_correlations:
        ax.axhline(edge[0], color=GREY, linewidth=1)
    size = 6 if len(values) <= 60 else 3
    beyond = "" if not pca.of_correlations else " and sampling"
    for kind, marker, color, label in (
        (clear, "o", BLUE, f"above the noise{beyond}"),
        (~clear & ~negative, "o", GREY, f"within the noise{beyond}"),
        (negative, "v", ORANGE, "below what there may be"),
    ):
        if kind.any():
            ax.plot(
                rank[kind],
                values[kind],
                marker,
                color=color,
                markersize=size,
                markerfacecolor=color if color != GREY else "none",
                label=f"{label}: {int(kind.sum())}",
            )
    if not pca.of_correlations:
        _logarithmic(ax, float(edge[0]), values)
    ax.margins(y=0.08)
    if len(values) <= 20:
        ax.set_xticks(rank)
    else:
        ax.set_xticks([1, *(t for t in ax.get_xticks() if 1 < t <= len(values))])
    ax.set_xlabel("rank of the eigenvalue")
    about = " about the mean" if pca.mean_ is not None else ""
    of = "of the correlations" if pca.of_correlations else f"{about} (scale of the matrix)"
    ax.set_ylabel(f"eigenvalue {of}".replace("  ", " "))
    against = (
        "what uncorrelated columns give"
        if pca.of_correlations
        else (f"the noise edge {edge[0]:.3g}")
    )
    ax.set_title(
        f"{int(clear.sum())} of {len(values)} eigenvalues above {against} ({pca.confidence:.0%})",
        fontsize="medium",
        loc="left",
    )
    ax.legend(frameon=False, fontsize="small")
    bare(ax)
    return ax


def _logarithmic(ax: Axes, edge: float, values: Any) -> None:
    """Logarithmic beyond the edge of the noise, on both sides."""
    ax.set_yscale("symlog", linthresh=edge, linscale=0.6)
    decades = [t for t in ax.get_yticks() if edge <= abs(t) <= np.abs(values).max()]
    if len(decades) > 1:
        ax.set_yticks([0.0, *decades])
    else:  # too narrow a range for powers of ten
        ticks = [0.0, edge, float(values.max())]
        ax.set_yticks(ticks, [f"{tick:.2g}" for tick in ticks])


def plot_biplot(pca: Any, ax: Axes | None = None, *, axes: tuple[int, int] = (1, 2)) -> Axes:
    """Draw columns as arrows by their loadings on two components.

    Arrows that point the same way are columns that go together. Crosses at the ends are two
    standard errors of sampling and privacy noise; an arrow is greyed if it is within both.
    Rows are secret, so there are none.

    Parameters
    ----------
    pca : PCA
        Of two components at least.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    axes : (int, int)
        Which components, counted from 1.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If there are no such components.
    ImportError
        Without matplotlib: ``pip install "privgram[plot]"``.
    """
    k = pca.n_components_
    if k < 2:
        raise ValueError("a biplot draws two components, and there is one: ask for two, as pca(2)")
    at = [check_integer(axis, "axes", 1, k) - 1 for axis in axes]
    loadings = pca.loadings[:, at]
    scale = np.divide(
        loadings, pca.components_[at].T, out=np.zeros_like(loadings), where=loadings != 0
    )
    errors = 2 * np.abs(scale) * pca.stderr[at].T
    ax = axes_for(ax, (6.5, 6.0))
    ink = ax.xaxis.label.get_color()
    colors: list[Any] = []
    for (x, y), (dx, dy) in zip(loadings, errors, strict=True):
        clear = abs(x) > dx or abs(y) > dy
        color = BLUE if clear else GREY
        ax.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "->", "color": color})
        ax.errorbar(x, y, dy, dx, color=color, linewidth=0.8, alpha=0.6)
        colors.append(ink if clear else GREY)
    reach = 1.25 * float(np.abs(loadings).max() or 1.0)
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    ax.axhline(0.0, color=GREY, linewidth=0.6)
    ax.axvline(0.0, color=GREY, linewidth=0.6)
    if pca.of_correlations:
        turn = np.linspace(0, 2 * np.pi, 200)
        ax.plot(np.cos(turn), np.sin(turn), color=GREY, linewidth=0.6, linestyle=":")
    labels = [
        f"component {j + 1} ({pca.explained_variance_ratio_[j]:.0%} of the variance)" for j in at
    ]
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    heading = "Columns by their loadings; crosses: two standard errors"
    if unnamed := write_names(ax, pca.names, loadings, colors):
        heading += f"\n{len(unnamed)} short arrow{'s' * (len(unnamed) > 1)} without a name"
    ax.set_title(heading, fontsize="medium", loc="left")
    bare(ax)
    return ax
