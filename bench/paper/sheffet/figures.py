"""The paper's six figures, in its colours and markers: published constants above, exact below."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.paper.sheffet.runs import PENALTY
from bench.paper.sheffet.settings import CALIBRATIONS
from privgram._base.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from bench.paper.sheffet.results import Results

__all__ = [
    "FIGURES",
    "Curve",
    "Figure",
    "draw",
    "draw_lasso",
    "require_matplotlib",
    "write_picture",
]

NEEDS_EXTRA = 'figures need matplotlib: pip install "privgram[plot]"'

#: The coefficients' norm is about 3: an error that large is useless, beyond it worse.
ERROR_LIMITS = (2e-3, 20.0)


@dataclass(frozen=True)
class Curve:
    """One estimator's curve."""

    estimator: str
    colour: str
    marker: str = "s"
    line: str = "-"


@dataclass(frozen=True)
class Figure:
    """One figure of the paper.

    Attributes
    ----------
    setting : str
    title : str
    curves : tuple of Curve
    quantity : {"error", "standard error"}
    also : tuple of str
        Estimators that are run for the statements and not drawn.
    """

    setting: str
    title: str
    curves: tuple[Curve, ...]
    quantity: str = "error"
    also: tuple[str, ...] = ()

    @property
    def estimators(self) -> tuple[str, ...]:
        """What to run for it."""
        return (*(curve.estimator for curve in self.curves), *self.also)


LEAST_SQUARES = Curve("least squares", "grey", "", ":")
SIX = (
    Curve("Analyze Gauss", "black", "s"),
    Curve("Analyze Gauss, scaled", "black", "o"),
    Curve("Algorithm 2", "blue", "s"),
    Curve("Algorithm 5", "blue", "o"),
    Curve("Algorithm 3", "magenta", "s"),
    Curve("Algorithm 3, debiased", "magenta", "o"),
    LEAST_SQUARES,
)

FIGURES = {
    "fig1": Figure(
        "single",
        "Fig. 1: sketches of the regularised data",
        (
            Curve("Algorithm 2", "blue"),
            Curve("Algorithm 1", "red"),
            Curve("sketch without privacy", "black"),
        ),
        also=("Algorithm 1, refitted", "Algorithm 2, refitted"),
    ),
    "fig2": Figure(
        "single",
        "Fig. 2: additive Wishart noise",
        (
            Curve("Algorithm 3", "blue"),
            Curve("Algorithm 3, debiased", "red"),
            Curve("least squares", "black"),
        ),
    ),
    "fig3": Figure(
        "single",
        "Fig. 3: sampling from an inverse Wishart distribution",
        (
            Curve("inverse Wishart without privacy", "black"),
            Curve("Algorithm 4", "blue"),
            Curve("Algorithm 5, n + d", "red"),
            Curve("Algorithm 2", "green"),
            Curve("Algorithm 5", "magenta"),
        ),
    ),
    "fig4": Figure("single", "Fig. 4: one regression", SIX),
    "fig5": Figure(
        "multiple",
        "Fig. 5: a regression on redundant features",
        SIX,
        also=("Analyze Gauss, as printed",),
    ),
    "fig6": Figure("multiple", "Fig. 6: standard errors of Fig. 5", SIX, "standard error"),
}


def draw(figure: Figure, results: Results, path: Path) -> None:
    """Draw a figure into a PNG file: a column for every epsilon, or every m in section 6.2."""
    setting = results.setting
    if len(setting.extras) > 1:
        panels = [(f"m = {m}", (setting.epsilons[0], m)) for m in setting.extras]
    else:
        panels = [(f"ε = {epsilon:g}", (epsilon, 0)) for epsilon in setting.epsilons]
    axes, save = _grid(len(panels), figure.title)
    for row, calibration in zip(axes, CALIBRATIONS, strict=True):
        for ax, (title, where) in zip(row, panels, strict=True):
            for curve in figure.curves:
                mean = results.mean(curve.estimator, calibration, *where)
                std = results.std(curve.estimator, calibration, *where)
                if figure.quantity == "error":
                    _plot(ax, results.sizes, mean, curve, std)
                else:
                    _plot(ax, results.sizes, std / math.sqrt(setting.repetitions), curve)
            ax.set(xscale="log", yscale="log", title=f"{title}, {calibration}")
            if figure.quantity == "error":
                ax.set_ylim(*ERROR_LIMITS)
        row[0].set_ylabel(f"{figure.quantity} of β" if figure.quantity == "error" else "its s.e.")
    save(path)


def draw_lasso(results: Results, path: Path) -> None:
    """Draw the discussion's remark on the Lasso: which coefficients it sets to zero."""
    extras = results.setting.extras[-1]
    where = (results.setting.epsilons[0], extras, PENALTY)
    groups = [
        ("zero_features", f"among the {results.setting.n_features} relevant features"),
        ("zero_labels", f"among the {extras} irrelevant labels"),
    ]
    axes, save = _grid(2, f"Lasso: share of coefficients set to zero, m = {extras}")
    for row, calibration in zip(axes, CALIBRATIONS, strict=True):
        for ax, (field, title) in zip(row, groups, strict=True):
            for curve in SIX:
                shares = results.values(field, curve.estimator, calibration, *where)
                # Undefined where a matrix is not positive definite.
                defined = ~np.isnan(shares).any(axis=1)
                _plot(ax, results.sizes[defined], shares[defined].mean(axis=1), curve)
            ax.set(
                xscale="log", ylim=(-0.03, 1.03), title=f"{title}, {calibration}",
                xlim=(results.sizes[0] / 1.5, results.sizes[-1] * 1.5),
            )  # fmt: skip
        row[0].set_ylabel("share of zeros")
    save(path)


def _plot(
    ax: Any, n: NDArray[np.int64], y: NDArray[np.float64], curve: Curve, error: Any = None
) -> None:
    ax.errorbar(
        n, y, error, color=curve.colour, marker=curve.marker, linestyle=curve.line,
        label=curve.estimator, markersize=3.5, linewidth=1, elinewidth=0.7,
        markerfacecolor="none" if curve.marker == "o" else curve.colour,
    )  # fmt: skip


def _grid(columns: int, title: str) -> tuple[Any, Any]:
    """Two rows of axes with one legend, and what saves them."""
    figure_type, canvas_type = require_matplotlib()
    width, height = 1.2 + 2.4 * max(columns, 3), 6.0
    picture = figure_type(figsize=(width, height))
    canvas_type(picture)
    # By hand: the automatic layouts take seconds for this many axes.
    picture.subplots_adjust(
        left=0.75 / width, right=1 - 0.2 / width, top=0.88, bottom=0.17, wspace=0.08, hspace=0.22
    )
    axes = picture.subplots(2, columns, sharex=True, sharey=True, squeeze=False)
    picture.suptitle(title)
    for ax in axes[1]:
        ax.set_xlabel("rows n")

    def save(path: Path) -> None:
        for ax in axes.flat:
            ax.grid(alpha=0.3, linewidth=0.5)
            ax.minorticks_off()
            ax.title.set_fontsize(9)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fitting = min(len(labels), int(width / 1.8))  # inches an entry
        picture.legend(handles, labels, loc="lower center", ncols=fitting, fontsize=8)
        write_picture(path, picture, dpi=110)

    return axes, save


def require_matplotlib() -> tuple[Any, Any]:
    """Import what draws without a display and without global state."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Picture
    except ImportError as error:
        raise ImportError(NEEDS_EXTRA) from error
    return Picture, FigureCanvasAgg


def write_picture(path: Path, figure: Any, dpi: int) -> None:
    """Draw a figure into a file, whole or not at all; the suffix picks the format."""
    if not path.suffix:
        path = path.with_suffix(".png")
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix[1:].lower(), dpi=dpi)
    write_atomically(path, drawn.getvalue())
