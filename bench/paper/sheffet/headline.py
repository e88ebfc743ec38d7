"""The headline: rows needed for an error of 0.1, with published and with exact constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench.paper.sheffet.figures import SIX, require_matplotlib, write_picture

if TYPE_CHECKING:
    from pathlib import Path

    from bench.paper.sheffet.results import Results

__all__ = ["TARGET", "draw", "rows_needed", "to_markdown"]

#: Error of the coefficients, whose norm is about 3.
TARGET = 0.1

CURVES = SIX[:-1]


def rows_needed(
    results: Results, estimator: str, calibration: str, epsilon: float, target: float = TARGET
) -> float:
    """Rows from which on the mean error stays at or below a target.

    Interpolated between sizes, on logarithmic axes.

    Returns
    -------
    float
        Infinity if the target is not reached; the smallest size if it is from there on.
    """
    mean = results.mean(estimator, calibration, epsilon)
    above = np.flatnonzero(~(mean <= target))
    if len(above) == 0:
        return float(results.sizes[0])
    last = above[-1]
    if last + 1 == len(mean):
        return np.inf
    part = np.log(mean[last] / target) / np.log(mean[last] / mean[last + 1])
    low, high = np.log(results.sizes[last : last + 2])
    return float(np.exp(low + part * (high - low)))


def to_markdown(results: Results) -> str:
    """Write the table: published constants, then exact, and how many times fewer rows."""
    epsilons = results.setting.epsilons
    lines = [
        "| estimator | " + " | ".join(f"ε = {epsilon:g}" for epsilon in epsilons) + " |",
        "|---|" + "--:|" * len(epsilons),
    ]
    for curve in CURVES:
        cells = []
        for epsilon in epsilons:
            published, exact = (
                rows_needed(results, curve.estimator, calibration, epsilon)
                for calibration in ("published", "exact")
            )
            cell = f"{_rows(published, results)} → **{_rows(exact, results)}**"
            if np.isfinite(published) and np.isfinite(exact):
                cell += f" ({published / exact:.1f}×)"
            cells.append(cell)
        lines.append(f"| {curve.estimator} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _rows(n: float, results: Results) -> str:
    if not np.isfinite(n):
        return "> " + _rows(float(results.sizes[-1]), results)
    if n <= results.sizes[0]:
        return "≤ " + f"{results.sizes[0]:,}"
    return f"{n / 1e6:.2f} M" if n >= 1e6 else f"{n / 1e3:.0f} k"


def draw(results: Results, path: Path) -> None:
    """Draw the headline: a line from published (filled) to exact (hollow) for each estimator."""
    figure_type, canvas_type = require_matplotlib()
    epsilons = results.setting.epsilons
    limit = float(results.sizes[-1])
    beyond = 1.6 * limit  # where what is not reached is drawn
    picture = figure_type(figsize=(1.6 + 1.9 * max(len(epsilons), 3), 3.2), layout="constrained")
    canvas_type(picture)
    axes = picture.subplots(1, len(epsilons), sharex=True, sharey=True, squeeze=False)[0]
    for ax, epsilon in zip(axes, epsilons, strict=True):
        for height, curve in enumerate(CURVES):
            ends = [
                min(rows_needed(results, curve.estimator, calibration, epsilon), beyond)
                for calibration in ("published", "exact")
            ]
            colour = curve.colour
            ax.plot(ends, [height, height], color=colour, linewidth=1.5)
            for n, face in zip(ends, (colour, "white"), strict=True):
                marker = ">" if n == beyond else curve.marker
                ax.plot(n, height, marker, color=colour, markerfacecolor=face, markersize=7)
        ax.axvspan(limit * 1.15, limit * 2.2, color="0.92", linewidth=0)
        ax.set(xscale="log", title=f"ε = {epsilon:g}", xlabel="rows n", ylim=(5.5, -0.5))
        ax.set_xlim(results.sizes[0] / 1.5, limit * 2.2)
        ax.grid(axis="x", alpha=0.3, linewidth=0.5)
        ax.minorticks_off()
    axes[0].set_yticks(range(len(CURVES)), [curve.estimator for curve in CURVES])
    picture.suptitle(
        f"Rows needed for an error of {TARGET:g}: published constants (filled) and exact (hollow)"
        f"; grey: more than {limit:,.0f}",
        fontsize=10,
    )
    write_picture(path, picture, dpi=130)
