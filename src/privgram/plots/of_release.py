"""Plots of a release: its matrix, in units of its noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.numbers import check_positive
from privgram.columns.structure import by_term
from privgram.plots._axes import (
    MOST_NAMES,
    apart,
    axes_of_matrix,
    cut,
    hatch,
    heading,
    name_both,
    plot,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from privgram.releases.record import ReleaseRecord

#: More columns than this have no scores written in their cells.
MOST_SCORES = 8


@plot
def plot_matrix(release: ReleaseRecord, ax: Axes | None = None, *, threshold: float = 2.0) -> Axes:
    """Draw a released matrix in units of its noise.

    An entry is shown as its distance from zero in standard deviations of its own noise, on a
    logarithmic scale; entries within `threshold` of zero, which noise alone could have made, are
    greyed and hatched. Any known shift of the diagonal is taken off first. Entries that are known
    to be zero, as of two levels of a factor, are left blank, and terms are set apart.

    Parameters
    ----------
    release : Release
    ax
    threshold : float
        Standard deviations below which an entry says nothing, > 0.

    Raises
    ------
    ValueError
        If `threshold` is not positive.
    """
    check_positive(threshold, "threshold")
    d = release.n_columns
    ax = axes_of_matrix(ax, d)
    from matplotlib import colormaps, colors, ticker

    scores, known = noise_scores(release)
    top = max(float(np.abs(scores).max()), 10 * threshold)
    norm = colors.SymLogNorm(threshold, linscale=0.3, vmin=-top, vmax=top)
    cmap = colormaps["RdBu_r"].with_extremes(bad=_muted())
    faint = (np.abs(scores) < threshold) & ~known
    image = ax.imshow(np.ma.masked_where(faint | known, scores), norm=norm, cmap=cmap)
    ax.imshow(np.where(known, 1.0, np.nan), cmap=colors.ListedColormap([ax.get_facecolor()]))
    blocks = _blocks(release)
    if d <= MOST_NAMES:
        hatch(ax, faint)
        name_both(ax, range(d), map(cut, release.names))
        edges = np.arange(1, d) - 0.5
        ax.set_xticks(edges, minor=True)
        ax.set_yticks(edges, minor=True)
        ax.grid(which="minor", color=ax.get_facecolor(), linewidth=1.0)
        ax.tick_params(which="minor", length=0)
    elif 1 < len(blocks) <= MOST_NAMES:
        sized = {cut(f"{term} ({at.stop - at.start})"): at for term, at in blocks.items()}
        middles = apart(sized, d / MOST_NAMES)
        name_both(ax, middles.values(), middles)
    else:
        ax.set_xlabel("column")
        ax.set_ylabel("column")
    if any(at.stop - at.start > 1 for at in blocks.values()):
        for at in list(blocks.values())[1:]:
            for line in (ax.axhline, ax.axvline):
                line(at.start - 0.5, color=ax.xaxis.label.get_color(), linewidth=0.8)
    if d <= MOST_SCORES:
        for i, j in np.argwhere(~known).tolist():
            red, green, blue, _ = cmap(norm(scores[i, j]))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue <= 0.5
            color = ax.xaxis.label.get_color() if faint[i, j] else "white" if dark else "black"
            text = _short(float(scores[i, j]))
            ax.text(j, i, text, ha="center", va="center", fontsize="small", color=color)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.85, pad=0.02)
    bar.set_label("entry / standard deviation of its noise")
    bar.outline.set_visible(False)
    decades = [10.0**k for k in range(math.ceil(math.log10(threshold)), int(math.log10(top)) + 1)]
    shown = decades[:: -(-len(decades) // 5)]
    ticks = [-t for t in reversed(shown)] + [-threshold, 0.0, threshold] + shown
    bar.set_ticks([t for t in ticks if abs(t) <= top])
    bar.ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _power(value)))
    bar.ax.minorticks_off()
    bar.ax.axhspan(-threshold, threshold, color=cmap.get_bad())
    above = np.triu_indices(d)
    part = faint[above].sum() / max((~known)[above].sum(), 1)
    heading(
        ax,
        f"Second moment of {d} columns\n"
        f"grey: within {threshold:g} standard deviations of zero ({part:.0%} of the entries)"
        + ("; blank: known zeros" if known.any() else ""),
    )
    return ax


def noise_scores(release: ReleaseRecord) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Entries of a release over the standard deviations of their noise, shape (d, d).

    The known shift of the diagonal is taken off. With which entries are zero without noise, but
    for rounding: these are zero.
    """
    d, law = release.n_columns, release.noise
    variance = law.entry_variance(release.matrix, np.eye(d))
    centred = release.matrix - law.shift_matrix(d)
    size = np.abs(centred)
    known: NDArray[np.bool_] = (variance <= 1e-12 * variance.max()) & (size <= 1e-9 * size.max())
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.where(known, 0.0, centred / np.sqrt(np.maximum(variance, 0.0)))
    return np.nan_to_num(scores, nan=0.0), known


def _blocks(release: ReleaseRecord) -> dict[str, slice]:
    """Where the columns of each term are, if the release has them as they were described."""
    columns = release.columns
    if columns is None or release.names != columns.names:
        return {}
    blocks: dict[str, slice] = {}
    for term, stored in by_term(columns).items():
        for one in stored:
            before = blocks.get(term)
            if before is not None and before.stop == one.start:
                blocks[term] = slice(before.start, one.columns.stop)
            else:  # terms that share columns, which can lie apart, are of several blocks
                label = term if before is None else f"{term}, {release.names[one.start]}"
                blocks[label] = one.columns
    return dict(sorted(blocks.items(), key=lambda block: block[1].start))


def _muted() -> Any:
    """A grey between the background and the middle."""
    from matplotlib import colors, rcParams

    ground = np.array(colors.to_rgb(rcParams["axes.facecolor"]))
    return tuple(0.65 * ground + 0.35 * 0.5)


def _short(value: float) -> str:
    if not math.isfinite(value):
        return "∞"
    if abs(value) < 1000:
        return f"{value:.1f}" if abs(value) < 10 else f"{value:.0f}"
    exponent = int(math.log10(abs(value)) // 3)
    return f"{value / 1000**exponent:.3g}{'kMGTPE'[min(exponent, 6) - 1]}"


def _power(value: float) -> str:
    sign = "−" if value < 0 else ""
    size = abs(value)
    if size >= 1000:
        return f"{sign}$10^{{{round(math.log10(size))}}}$"
    return f"{sign}{size:g}"
