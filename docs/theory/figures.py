"""Draw the figures of the theory pages.

    python docs/theory/figures.py [name ...]

Needs matplotlib. Each function draws the figure of its name into figures/.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tables import renyi_epsilon, renyi_w_squared

from privgram import AnalyzeGauss
from privgram.papers import hardt_roth, sheffet
from privgram.papers.sheffet import SketchProfile, WishartProfile
from privgram.privacy import GaussianProfile, calibration

FOLDER = Path(__file__).with_name("figures")
STYLE = {
    "svg.hashsalt": "privgram",  # the same file from the same numbers
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
}
EXACT, EXACT_TOO, BOUND, BOUND_TOO = "#0b5394", "#6fa8dc", "#b45f06", "#e6a15c"
PAPER = math.exp(-9)


def canvas(xlabel: str, ylabel: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    axes = figure.add_subplot(xlabel=xlabel, ylabel=ylabel)
    return figure, axes


def sketch_regulariser() -> Figure:
    figure, axes = canvas("rows r", "regulariser w² / B²")
    rows = np.unique(np.geomspace(1, 10_000, 25).round()).astype(int)
    epsilon, delta = 1.0, 1e-6
    for adjacency, colour, renyi in (
        ("replace", EXACT, BOUND),
        ("add-remove", EXACT_TOO, BOUND_TOO),
    ):
        exact = [1 / sheffet.sketch_ratio(r, epsilon, delta, adjacency) for r in rows]
        axes.loglog(rows, exact, color=colour, label=f"exact, {adjacency}")
        bound = [renyi_w_squared(r, epsilon, delta, adjacency) for r in rows]
        axes.loglog(rows, bound, "--", color=renyi, label=f"Rényi, {adjacency}")
    for label, theorem, style in (
        ("Theorem B.1", sheffet.theorem_b_1, "-."),
        ("Theorem 3.1", sheffet.theorem_3_1, ":"),
    ):
        axes.loglog(
            rows, [theorem(r, 1.0, epsilon, delta) for r in rows], style, color="0.4", label=label
        )
    axes.set_title("The sketch at (1, 1e-6)")
    axes.legend()
    return figure


def sketch_profile() -> Figure:
    rows, ratio = 220, 1 / 200.0
    figure, axes = canvas("ε", "δ")
    epsilon = np.linspace(0.0, 1.4, 200)
    for adjacency, colour, renyi in (
        ("replace", EXACT, BOUND),
        ("add-remove", EXACT_TOO, BOUND_TOO),
    ):
        axes.semilogy(
            epsilon,
            SketchProfile(rows, ratio, adjacency).delta(epsilon),
            color=colour,
            label=f"exact, {adjacency}",
        )
        delta = np.geomspace(1e-12, 0.3, 60)
        bound = [renyi_epsilon(rows, ratio, d, adjacency) for d in delta]
        axes.semilogy(bound, delta, "--", color=renyi, label=f"Rényi, {adjacency}")
    delta = np.geomspace(1e-12, 0.3, 60)
    log = np.log(4 / delta)
    tails = 2 * np.sqrt(2 * rows * log) + 2 * log
    # Theorem B.1 solved for epsilon: w^2/B^2 - 1 = (1/epsilon + 1/log) tails.
    left = (1 / ratio - 1) / tails - 1 / log
    keep = left > 0
    axes.semilogy(1 / left[keep], delta[keep], ":", color="0.4", label="Theorem B.1")
    axes.set(xlim=(0, 1.4), ylim=(1e-12, 1), title="r = 220, w² = 200 B²")
    axes.legend()
    return figure


def inverse_wishart_psi() -> Figure:
    figure, axes = canvas("degrees of freedom ν", "ψ / B²")
    dof = np.unique(np.geomspace(22, 1e6, 30).round()).astype(int)
    epsilon, delta = 1.0, 1e-6
    exact = [1 / sheffet.sketch_ratio(k, epsilon, delta, "replace") for k in dof]
    axes.loglog(dof, exact, color=EXACT, label="exact, replace")
    for label, theorem, style in (
        ("Theorem B.4", sheffet.theorem_b_4, "-."),
        ("Theorem 5.1", sheffet.theorem_5_1, ":"),
    ):
        axes.loglog(
            dof, [theorem(k, 1.0, epsilon, delta) for k in dof], style, color="0.4", label=label
        )
    axes.set_title("The inverse Wishart at (1, 1e-6)")
    axes.legend()
    return figure


def analyze_gauss_noise() -> Figure:
    figure, axes = canvas("ε", "standard deviation off the diagonal / B²")
    epsilon = np.geomspace(0.02, 8, 50)
    mu = np.array([calibration.gaussian_ratio(e, 1e-6) for e in epsilon])
    axes.loglog(epsilon, 1 / mu, color=EXACT, label="exact, replace")
    axes.loglog(epsilon, math.sqrt(0.5) / mu, color=EXACT_TOO, label="exact, add-remove")
    printed = np.sqrt(2 * math.log(2e6)) / epsilon
    axes.loglog(epsilon, printed, ":", color="0.4", label="published (triangular noise)")
    section_2 = np.sqrt(2 * math.log(2e6) / epsilon)
    axes.loglog(epsilon, section_2, "--", color=BOUND, label="section 2 as printed: not private")
    axes.set_title("Analyze Gauss at δ = 1e-6")
    axes.legend()
    return figure


def wishart_dof() -> Figure:
    figure, axes = canvas("ε", "degrees of freedom k, σ² = B²")
    epsilon, d = np.geomspace(0.05, 4, 30), 22
    for adjacency, colour in (("replace", EXACT), ("add-remove", EXACT_TOO)):
        dof = [sheffet.wishart_dof(d, 1.0, e, 1e-6, adjacency) for e in epsilon]
        axes.loglog(epsilon, dof, color=colour, label=f"exact, {adjacency}")
    inside = epsilon[epsilon < 1]
    printed = [sheffet.theorem_4_1(d, e, 1e-6) for e in inside]
    axes.loglog(inside, printed, ":", color="0.4", label="Theorem 4.1")
    axes.set_title("Additive Wishart at δ = 1e-6, d = 22")
    axes.legend()
    return figure


def wishart_noise() -> Figure:
    figure, axes = canvas("s = B²/σ²", "in units of B²")
    ratios = np.geomspace(0.7, 64, 40)
    for adjacency, colour in (("replace", EXACT), ("add-remove", EXACT_TOO)):
        dof = np.array([sheffet.wishart_dof(22, s, 1.0, 1e-6, adjacency) for s in ratios])
        axes.loglog(ratios, np.sqrt(dof) / ratios, color=colour, label=f"noise left, {adjacency}")
        axes.loglog(ratios, dof / ratios, "-.", color=colour, label=f"mean, {adjacency}")
        gauss = AnalyzeGauss().calibrate(22, 1.0, 1.0, 1e-6, adjacency)
        axes.axhline(gauss.noise_std, color=colour, linewidth=0.8, linestyle=":")
        chosen = sheffet.wishart_noise(22, 1.0, 1e-6, adjacency)
        axes.plot(chosen.ratio, math.sqrt(chosen.dof) / chosen.ratio, "o", color=colour)
    axes.set_title("Choosing the scale at (1, 1e-6), d = 22; dotted: Analyze Gauss")
    axes.legend()
    return figure


def wishart_is_gauss() -> Figure:
    figure, axes = canvas("ε", "δ")
    epsilon, mu = np.linspace(0, 2.5, 120), 0.5
    for s, colour in ((4.0, BOUND_TOO), (8.0, BOUND), (16.0, EXACT_TOO), (64.0, EXACT)):
        dof = round((s / mu) ** 2)  # so that sigma^2 sqrt(k) = B^2 / mu, as for Analyze Gauss
        profile = WishartProfile(dof, 22, s, "replace")
        axes.semilogy(
            epsilon, profile.delta(epsilon), color=colour, label=f"Wishart, s = {s:g}, k = {dof}"
        )
    axes.semilogy(
        epsilon, GaussianProfile(mu).delta(epsilon), "k:", label="Analyze Gauss, the same noise"
    )
    axes.set(ylim=(1e-10, 1), title="Equal noise off the diagonal, 2 B²; d = 22, replace")
    axes.legend()
    return figure


def range_finder() -> Figure:
    figure, axes = canvas("columns k", "ρ")
    k = np.unique(np.geomspace(3, 300, 25).round()).astype(int)
    exact = [1 / hardt_roth.chi_gaussian_ratio(j, 0.5, 1e-6) for j in k]
    axes.loglog(k, exact, color=EXACT, label="exact")
    printed = [hardt_roth.figure_2(j, 0.5, 1e-6) for j in k]
    axes.loglog(k, printed, ":", color="0.4", label="Hardt and Roth, Figure 2")
    axes.set_title("Range finder at (0.5, 1e-6), row change 1")
    axes.legend()
    return figure


FIGURES = {
    function.__name__.replace("_", "-"): function
    for function in (
        sketch_regulariser,
        sketch_profile,
        inverse_wishart_psi,
        analyze_gauss_noise,
        wishart_dof,
        wishart_noise,
        wishart_is_gauss,
        range_finder,
    )
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        for name in sys.argv[1:] or FIGURES:
            FIGURES[name]().savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
