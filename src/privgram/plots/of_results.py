"""Plots of what is made of a release: coefficients, groups, moments, components, privacy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.plots._axes import (
    BLUE,
    GREY,
    MOST_NAMES,
    ORANGE,
    apart,
    axes_for,
    axes_of_matrix,
    bare,
    cut,
    hatch,
    heading,
    lay_rows,
    lines_of,
    name_both,
    plot,
    write_beside,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

#: More columns than this have no correlations written in their cells.
MOST_WRITTEN = 12

#: Standard deviations of noise beyond which a correlation is not noise alone.
CLEAR_CORRELATION = 2.0


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
def plot_forest(
    fits: Any,
    name: str,
    ax: Axes | None = None,
    *,
    alpha: float = 0.05,
) -> Axes:
    """Draw one coefficient of every group with its confidence interval, and the pooled one.

    Ordered by the estimate. The band is the pooled mean (random effects) with its interval;
    groups whose release is too noisy are named without a point.

    Parameters
    ----------
    fits : GroupFits
    name : str
        Which coefficient.
    ax
    alpha : float, default 0.05
        1 - level of the intervals, in (0, 0.5].

    Raises
    ------
    ValueError
        If there is no such coefficient, or fewer than two groups have standard errors.
    """
    from scipy.special import ndtri

    if name not in fits.param_names:
        raise ValueError(f"no coefficient {name!r}; there are {', '.join(fits.param_names)}")
    at = fits.param_names.index(name)
    value, error = np.asarray(fits.params)[:, at], np.asarray(fits.bse)[:, at]
    pooled = fits.pool()
    order = np.argsort(value)  # those without a value last
    n = len(order)
    few = n <= MOST_NAMES
    ax = axes_for(ax, (7.0, 1.6 + 0.28 * min(n, MOST_NAMES)))
    low, high = np.asarray(pooled.conf_int(alpha))[at]
    ax.axvspan(low, high, color=ORANGE, alpha=0.25, linewidth=0)
    ax.axvline(np.asarray(pooled.params)[at], color=ORANGE, linewidth=1.2, label="pooled")
    reach = -float(ndtri(alpha / 2)) * error
    for row, i in enumerate(order):
        if np.isfinite(error[i]):
            ends = [value[i] - reach[i], value[i] + reach[i]]
            ax.plot(ends, [row, row], color=BLUE, linewidth=2.0 if few else 0.8, alpha=0.7)
    ax.plot(value[order], range(n), "o" if few else ".", color=BLUE, label="own", markersize=5)
    lay_rows(ax, [str(fits.groups[i]) for i in order], f"{cut(fits.by)}, by coefficient")
    ax.set_xlabel(f"change of {cut(fits.target)} per unit of {cut(name)}")
    heading(ax, f"{cut(name)} in {n} groups by {cut(fits.by)}, {1 - alpha:.0%} intervals")
    ax.legend(fontsize="small", frameon=False)
    return ax


@plot
def plot_description(description: Any, ax: Axes | None = None) -> Axes:
    """Draw each column's mean with its interval, and the standard deviation about it.

    Places are between the public bounds. Greyed is what noise alone would make of a column
    whose values all lie in the middle: errors of the size that the interval states.

    Parameters
    ----------
    description : Description
        As `Release.describe` returns it.
    ax
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
            write_beside(ax, row, text)
    ax.set_xlim(0, 1)
    lay_rows(ax, description.names, "column")
    ax.set_xticks([0, 0.5, 1], ["lower bound", "middle", "upper bound"])
    heading(
        ax,
        f"Means with {1 - description.alpha:.0%} intervals, thin: one standard deviation\n"
        "grey: the same errors about the middle",
    )
    return ax


@plot
def plot_correlation(correlation: Any, ax: Axes | None = None) -> Axes:
    """Draw correlations; those that noise alone could have made are greyed and hatched.

    Parameters
    ----------
    correlation : Correlation
    ax
    """
    p = len(correlation.names)
    ax = axes_of_matrix(ax, p)
    from matplotlib import colormaps

    matrix = correlation.matrix
    faint = ~(np.abs(matrix) >= CLEAR_CORRELATION * correlation.noise)  # also where noise hides it
    cmap = colormaps["RdBu_r"].with_extremes(bad=(*(0.54,) * 3, 0.35))
    image = ax.imshow(np.ma.masked_where(faint, matrix), vmin=-1, vmax=1, cmap=cmap)
    if p <= MOST_NAMES:
        hatch(ax, faint)
        name_both(ax, range(p), map(cut, correlation.names))
    else:
        ax.set_xlabel("column")
        ax.set_ylabel("column")
    if p <= MOST_WRITTEN:
        for i, j in np.argwhere(np.isfinite(matrix)).tolist():
            light = abs(matrix[i, j]) < 0.6 and not faint[i, j]
            color = "black" if light else ax.xaxis.label.get_color() if faint[i, j] else "white"
            ax.text(j, i, f"{matrix[i, j]:.2f}", ha="center", va="center", color=color)
    ax.figure.colorbar(image, ax=ax, shrink=0.85, pad=0.02).outline.set_visible(False)
    pairs = np.triu_indices(p, 1)
    part = faint[pairs].mean() if p > 1 else 0.0
    heading(
        ax,
        f"Correlations of {p} columns\ngrey: as noise alone would make ({part:.0%} of the pairs)",
    )
    return ax


@plot
def plot_scree(pca: Any, ax: Axes | None = None) -> Axes:
    """Draw eigenvalues by rank, with what noise alone would make.

    Parameters
    ----------
    pca : PCA
    ax
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
    upper, lower = (np.append(limit, limit[-1]) for limit in (edge, floor))
    label = "without correlations" if pca.of_correlations else "what noise may make"
    band: dict[str, Any] = {"color": GREY, "alpha": 0.2, "linewidth": 0}
    ax.fill_between(steps, upper, lower, step="post", label=label, **band)
    if not pca.of_correlations:
        ax.axhline(edge[0], color=GREY, linewidth=1)
    size = 6 if len(values) <= 60 else 3
    beyond = " and sampling" if pca.of_correlations else ""
    for kind, marker, color, label in (
        (clear, "o", BLUE, f"above the noise{beyond}"),
        (~clear & ~negative, "o", GREY, f"within the noise{beyond}"),
        (negative, "v", ORANGE, "below what there may be"),
    ):
        if kind.any():
            face, label = color if color != GREY else "none", f"{label}: {int(kind.sum())}"
            style: dict[str, Any] = {"color": color, "markersize": size, "markerfacecolor": face}
            ax.plot(rank[kind], values[kind], marker, label=label, **style)
    if not pca.of_correlations:
        _logarithmic(ax, float(edge[0]), values)
    ax.margins(y=0.08)
    if len(values) <= 20:
        ax.set_xticks(rank)
    else:
        ax.set_xticks([1, *(t for t in ax.get_xticks() if 1 < t <= len(values))])
    ax.set_xlabel("rank of the eigenvalue")
    about = " about the mean" if pca.mean_ is not None else ""
    if pca.of_correlations:
        of, against = " of the correlations", "what uncorrelated columns give"
    else:
        of, against = f"{about} (scale of the matrix)", f"the noise edge {edge[0]:.3g}"
    ax.set_ylabel(f"eigenvalue{of}")
    beyond_edge = f"{int(clear.sum())} of {len(values)} eigenvalues above {against}"
    heading(ax, f"{beyond_edge} ({1 - pca.alpha:.0%})")
    ax.legend(frameon=False, fontsize="small")
    bare(ax)
    return ax


def _logarithmic(ax: Axes, edge: float, values: NDArray[np.float64]) -> None:
    """Logarithmic beyond the edge of the noise, on both sides."""
    ax.set_yscale("symlog", linthresh=edge, linscale=0.6)
    decades = [t for t in ax.get_yticks() if edge <= abs(t) <= np.abs(values).max()]
    if len(decades) > 1:
        ax.set_yticks([0.0, *decades])
    else:  # too narrow a range for powers of ten
        ticks = [0.0, edge, float(values.max())]
        ax.set_yticks(ticks, [f"{tick:.2g}" for tick in ticks])


@plot
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
    ax
    label : str, optional
        Name in the legend.
    limits : tuple of float, optional
        First and last epsilon; by default from 0 to where delta is negligible.
    **style
        Passed on to `matplotlib.axes.Axes.plot`.
    """
    ax = axes_for(ax, (6.5, 4.0))
    low, high = limits or (0.0, last_epsilon(profile))
    epsilon = np.linspace(low, high, 241)
    delta = np.asarray(profile.delta(epsilon))
    style.setdefault("color", BLUE)
    style.setdefault("linewidth", 2.0)
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
